//! From a row to its members: placeholders filled.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::row::{Form, MmaRow};
use super::table::rows;
use crate::number::Ty;

/// One member of a family: the choices its row leaves open.
#[derive(Clone, Copy, Debug)]
pub(super) struct MmaMember {
    pub(super) row: &'static MmaRow,
    pub(super) ab: (Ty, Ty),
    pub(super) n: i64,
    pub(super) saturate: bool,
    /// `wgmma` only: A comes from registers.
    pub(super) a_in_registers: bool,
}

impl MmaMember {
    /// All members of a row.
    fn of(row: &'static MmaRow) -> impl Iterator<Item = MmaMember> {
        let ns = if row.n.is_empty() {
            std::slice::from_ref(&row.mnk[1])
        } else {
            row.n
        };
        let saturations: &[bool] = if row.saturating {
            &[false, true]
        } else {
            &[false]
        };
        let sources: &[bool] = if matches!(row.form, Form::Async { .. }) {
            &[false, true]
        } else {
            &[false]
        };
        row.ab.iter().flat_map(move |&ab| {
            ns.iter().flat_map(move |&n| {
                sources.iter().flat_map(move |&a_in_registers| {
                    saturations.iter().map(move |&saturate| MmaMember {
                        row,
                        ab,
                        n,
                        saturate,
                        a_in_registers,
                    })
                })
            })
        })
    }

    pub(super) fn name(&self) -> String {
        self.fill(self.row.name)
    }

    pub(super) fn mnk(&self) -> [i64; 3] {
        [self.row.mnk[0], self.n, self.row.mnk[2]]
    }

    /// The text with its placeholders filled.
    pub(super) fn fill(&self, template: &str) -> String {
        let mut text = String::with_capacity(template.len());
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            let (word, tail) = after
                .split_once('}')
                .expect("a placeholder of the table is closed");
            text += before;
            text += &self.word(word);
            rest = tail;
        }
        text + rest
    }

    fn word(&self, placeholder: &str) -> String {
        match placeholder {
            "A" => self.ab.0.cute().to_string(),
            "B" => self.ab.1.cute().to_string(),
            "a" => self.ab.0.ptx().to_string(),
            "b" => self.ab.1.ptx().to_string(),
            "N" => self.n.to_string(),
            "N/2" => (self.n / 2).to_string(),
            "N/8" => (self.n / 8).to_string(),
            "SS" => if self.a_in_registers { "RS" } else { "SS" }.to_string(),
            "_SATURATE" | ".satfinite" if self.saturate => placeholder.to_string(),
            "_SATURATE" | ".satfinite" => String::new(),
            other => unreachable!("the table has no placeholder {{{other}}}"),
        }
    }
}

/// The members of every row, in the table's order.
pub(super) fn members() -> impl Iterator<Item = MmaMember> {
    rows().flat_map(MmaMember::of)
}

/// The member of that very name.
pub(super) fn member(name: &str) -> Option<MmaMember> {
    static BY_NAME: OnceLock<HashMap<String, MmaMember>> = OnceLock::new();
    BY_NAME
        .get_or_init(|| members().map(|member| (member.name(), member)).collect())
        .get(name)
        .copied()
}
