//! Calls of `vprintf`, and texts of the author's.

use std::fmt::Write as _;

use super::names::{Lines, scoped};
use crate::{Kernel, Operand, PrintedValue, PtxText, Reg, RegType, Type};

/// What the printed lines of a kernel need of its module: their formats, and room for the values of the longest.
#[derive(Default)]
pub(super) struct Printed {
    formats: Vec<String>,
    bytes: u32,
}

impl Printed {
    /// The declarations before the entry.
    pub(super) fn module(&self, kernel: &Kernel) -> String {
        let mut text = String::new();
        if self.formats.is_empty() {
            return text;
        }
        text +=
            ".extern .func (.param .b32 status) vprintf(.param .b64 format, .param .b64 values);\n";
        for (number, format) in self.formats.iter().enumerate() {
            let bytes: Vec<String> = format.bytes().chain([0]).map(|b| b.to_string()).collect();
            let (name, count) = (line_name(kernel, number), bytes.len());
            writeln!(
                text,
                ".global .align 1 .b8 {name}[{count}] = {{{}}};",
                bytes.join(", ")
            )
            .expect("writing to a string");
        }
        text
    }

    /// The declarations in the entry.
    pub(super) fn entry(&self, kernel: &Kernel) -> String {
        if self.formats.is_empty() {
            return String::new();
        }
        let (name, bytes) = (values_name(kernel), self.bytes.max(8));
        format!("    .local .align 8 .b8 {name}[{bytes}];\n")
    }

    /// The number of a format among those of the kernel.
    fn number(&mut self, format: String) -> usize {
        let known = self.formats.iter().position(|known| *known == format);
        known.unwrap_or_else(|| {
            self.formats.push(format);
            self.formats.len() - 1
        })
    }
}

fn line_name(kernel: &Kernel, number: usize) -> String {
    scoped(kernel, &format!("printed_line_{number}"))
}

fn values_name(kernel: &Kernel) -> String {
    scoped(kernel, "printed_values")
}

/// The format of a line, as C's `printf` reads it.
fn format_of(values: &[PrintedValue], end: &str) -> String {
    let plain = |text: &str| text.replace('%', "%%");
    let value = |value: &PrintedValue| {
        let letter = match (value.ty, value.ty.bits()) {
            (Type::F64, _) => format!("%.{}g", value.digits),
            (ty, 64) if ty.is_signed() => "%lld".to_string(),
            (_, 64) => "%llu".to_string(),
            (ty, _) if ty.is_signed() => "%d".to_string(),
            (_, _) => "%u".to_string(),
        };
        plain(&value.before) + &letter
    };
    values.iter().map(value).collect::<String>() + &plain(end) + "\n"
}

impl Lines<'_> {
    /// A call of `vprintf` with the values one after the other in local memory, each at a multiple of its size.
    pub(super) fn print(&mut self, values: &[PrintedValue], end: &str, printed: &mut Printed) {
        let name = values_name(self.kernel);
        let mut at = 0u32;
        for value in values {
            // The verifier refuses types below a byte; the text of such a kernel is read when ptxas is asked.
            let bytes = (value.ty.bits() / 8).max(1);
            at = at.next_multiple_of(bytes);
            let text = self.operand(value.a, value.ty);
            self.push(format!(
                "st.local.{} [{name}+{at}], {text};",
                value.ty.moved()
            ));
            at += bytes;
        }
        printed.bytes = printed.bytes.max(at);
        let number = printed.number(format_of(values, end));
        let [list, format] = [(); 2].map(|()| self.scratch(RegType::B64));
        self.push(format!("mov.u64 {list}, {name};"));
        self.push(format!("cvta.local.u64 {list}, {list};"));
        self.push(format!(
            "mov.u64 {format}, {};",
            line_name(self.kernel, number)
        ));
        self.push(format!("cvta.global.u64 {format}, {format};"));
        for line in [
            "{",
            ".param .b64 format;",
            ".param .b64 values;",
            ".param .b32 status;",
            &format!("st.param.b64 [format], {format};"),
            &format!("st.param.b64 [values], {list};"),
            "call (status), vprintf, (format, values);",
            "}",
        ] {
            self.push(line);
        }
    }

    /// A text in braces, with operands in the place of their numbers.
    pub(super) fn foreign(&mut self, text: &PtxText, d: &[(Type, Reg)], a: &[(Type, Operand)]) {
        let mut names: Vec<String> = d.iter().map(|(_, d)| d.to_string()).collect();
        for (ty, a) in a {
            let name = self.operand(*a, *ty);
            names.push(name);
        }
        // The verifier refuses a text without pieces, and operands that do not exist.
        let pieces = text.pieces().unwrap_or_default();
        let name = |number: &usize| names.get(*number).map_or("", |name| &name[..]);
        let written = |(before, number): &(String, Option<usize>)| {
            before.clone() + number.as_ref().map_or("", name)
        };
        let all: String = pieces.iter().map(written).collect();
        self.push("{");
        all.lines().for_each(|line| self.push(line.trim()));
        self.push("}");
    }
}
