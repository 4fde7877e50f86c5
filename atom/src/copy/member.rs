//! From a row to its members: placeholders filled.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::reduction::{Reduction, Scalar};
use super::row::{CopyRow, Sizes};
use super::table::copy_rows;

/// One member of a family: the choices its row leaves open.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyMember {
    pub(super) row: &'static CopyRow,
    /// What one thread moves, where the row leaves it open; else 0.
    pub(super) bits: i64,
    pub(super) n: i64,
    pub(super) reduction: Option<(Reduction, Scalar)>,
    /// Tensor memory in halves of 32 bits (`_16b`).
    pub(super) packed: bool,
}

impl CopyMember {
    /// All members of a row; of sizes without a list, the smallest.
    fn of(row: &'static CopyRow) -> impl Iterator<Item = CopyMember> {
        let sizes = match &row.sizes {
            Sizes::Given | Sizes::Nominal => &[0],
            Sizes::OneOf(sizes) => *sizes,
            Sizes::Multiple(step) => std::slice::from_ref(step),
        };
        let ns: &[i64] = if row.n.is_empty() { &[0] } else { row.n };
        let packings: &[bool] = if row.value[1].is_empty() {
            &[false]
        } else {
            &[false, true]
        };
        let reductions: Vec<_> = match row.reductions {
            [] => vec![None],
            some => some.iter().copied().map(Some).collect(),
        };
        reductions.into_iter().flat_map(move |reduction| {
            ns.iter().flat_map(move |&n| {
                packings.iter().flat_map(move |&packed| {
                    sizes.iter().map(move |&bits| CopyMember {
                        row,
                        bits,
                        n,
                        reduction,
                        packed,
                    })
                })
            })
        })
    }

    /// The name, without the size where any multiple would do.
    pub(super) fn stem(&self) -> String {
        self.fill(self.row.name) + if self.packed { "_16b" } else { "" }
    }

    /// The name.
    pub(super) fn name(&self) -> String {
        match self.row.sizes {
            Sizes::Multiple(step) if self.bits != step => format!("{}<{}>", self.stem(), self.bits),
            _ => self.stem(),
        }
    }

    /// The text with its placeholders filled, without a cache policy.
    pub(super) fn fill(&self, template: &str) -> String {
        self.fill_hinted(template, false)
    }

    /// The text with its placeholders filled.
    pub(super) fn fill_hinted(&self, template: &str, hinted: bool) -> String {
        let mut text = String::with_capacity(template.len());
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            let (word, tail) = after
                .split_once('}')
                .expect("a placeholder of the table is closed");
            text += before;
            match word {
                ".L2::cache_hint" if !hinted => {}
                ".L2::cache_hint" => text += word,
                _ => text += &self.word(word),
            }
            rest = tail;
        }
        text + rest
    }

    fn word(&self, placeholder: &str) -> String {
        let (reduction, ty) = self.reduction.unwrap_or((Reduction::Add, Scalar::Mapped));
        match placeholder {
            "T" => format!("uint{}_t", self.bits),
            "op" => reduction.ptx(ty).to_string(),
            "OP" => reduction.ptx(Scalar::Mapped).to_uppercase(),
            "t" => ty.ptx().to_string(),
            "TY" => ty.ptx().to_uppercase(),
            product => product
                .split('*')
                .map(|factor| self.factor(factor))
                .product::<i64>()
                .to_string(),
        }
    }

    fn factor(&self, word: &str) -> i64 {
        match word {
            "bits" => self.bits,
            "n" => self.n,
            number => number
                .parse()
                .expect("a placeholder of the table is a word or a product"),
        }
    }
}

/// The members of every row, in the table's order.
pub(super) fn members() -> impl Iterator<Item = CopyMember> {
    copy_rows().flat_map(CopyMember::of)
}

/// The member of that very name.
pub(super) fn member(name: &str) -> Option<CopyMember> {
    static BY_NAME: OnceLock<HashMap<String, CopyMember>> = OnceLock::new();
    BY_NAME
        .get_or_init(|| members().map(|member| (member.name(), member)).collect())
        .get(name)
        .copied()
}
