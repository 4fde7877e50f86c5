//! Texts as readers type and paste them: what CuTe prints becomes what the crates read.

use std::fmt::Display;
use std::str::FromStr;

use colex_layout::{ComposedLayout, Layout, Tiler};

use crate::fields::Sentence;

/// The most leaves of a layout: work grows with them.
const MAX_LEAVES: usize = 32;

/// Returns the layout of what CuTe prints, without the pointer before it and the table below it.
///
/// `smem_ptr[16b](0x7f..)` becomes `smem_ptr[16b](unset)` behind a swizzle, and is left out where there is none, as an
/// address changes no offset; so is `ArithTuple(0,0)`, where a tensor of coordinates starts. `Sw<3,4,3>_smem_ptr[16b](..) o L`
/// is the older form of the same, and `S<3,4,3>` is the DSL's.
pub(crate) fn pasted(text: &str) -> String {
    let text = without_table(text.trim()).trim_end_matches(';').trim_end();
    let text = match text.strip_prefix("S<") {
        Some(rest) => format!("Sw<{rest}"),
        None => text.to_string(),
    };
    let text = text.replacen(">_smem_ptr[", "> o smem_ptr[", 1);
    let start = ["ptr[", "ArithTuple("].into_iter();
    let Some(start) = start.filter_map(|word| text.find(word)).min() else {
        return text;
    };
    let start = word_start(&text, start);
    let Some(open) = text[start..].find('(').map(|at| start + at) else {
        return text;
    };
    let Some(close) = closing(&text, open) else {
        return text;
    };
    let (before, after) = (&text[..start], text[close..].trim_start());
    let after = after.strip_prefix('o').map_or(after, str::trim_start);
    if before.starts_with("Sw<") && text[start..].starts_with("smem_ptr[") {
        let kept = &text[start..open];
        format!("{before}{kept}(unset) o {after}")
    } else {
        after.to_string()
    }
}

/// The text up to the table of numbers that `print_layout` and `print_tensor` write below a layout. A field joins lines.
fn without_table(text: &str) -> &str {
    let end = [text.find('\n'), text.find("  ")]
        .into_iter()
        .flatten()
        .min();
    let Some(end) = end else { return text };
    let (first, table) = text.split_at(end);
    let is_table = table
        .chars()
        .all(|c| c.is_whitespace() || c.is_ascii_digit() || "+-|.".contains(c));
    if is_table {
        first.trim_end().trim_end_matches(':')
    } else {
        text
    }
}

/// Where the word that ends at `at` begins: that of `smem_ptr[`, `gmem_ptr[`, `ptr[`.
fn word_start(text: &str, at: usize) -> usize {
    let word = text[..at].char_indices().rev();
    word.take_while(|(_, c)| c.is_ascii_alphanumeric() || *c == '_')
        .last()
        .map_or(at, |(start, _)| start)
}

/// Where the parenthesis that opens at `open` has closed.
fn closing(text: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in text[open..].char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(open + at + 1);
        }
    }
    None
}

/// Reads what was typed for `what`.
pub(crate) fn typed<T>(what: &str, text: &str) -> Result<T, Sentence>
where
    T: FromStr,
    T::Err: Display,
{
    let text = pasted(text);
    text.parse().map_err(|error| format!("{what}: {error}"))
}

/// Reads a layout of few leaves.
pub(crate) fn layout(what: &str, text: &str) -> Result<Layout, Sentence> {
    let layout: Layout = typed(what, text)?;
    few_leaves(what, &layout)?;
    Ok(layout)
}

/// Reads a layout or a composed one, of few leaves.
pub(crate) fn composed(what: &str, text: &str) -> Result<ComposedLayout, Sentence> {
    let layout: ComposedLayout = typed(what, text)?;
    few_leaves(what, layout.inner())?;
    if let colex_layout::Outer::Layout(outer) = layout.outer() {
        few_leaves(what, outer)?;
    }
    Ok(layout)
}

/// Reads a tiler of few leaves.
pub(crate) fn tiler(what: &str, text: &str) -> Result<Tiler, Sentence> {
    let tiler: Tiler = typed(what, text)?;
    fn leaves(tiler: &Tiler) -> usize {
        match tiler {
            Tiler::Layout(layout) => layout.leaves().len(),
            Tiler::Modes(modes) => modes.iter().map(leaves).sum(),
            Tiler::All | Tiler::Int(_) => 1,
        }
    }
    check_leaves(what, leaves(&tiler))?;
    Ok(tiler)
}

/// Reads a number between two others.
pub(crate) fn number(what: &str, text: &str, low: i64, high: i64) -> Result<i64, Sentence> {
    let found = text.parse().ok().filter(|n| (low..=high).contains(n));
    found.ok_or_else(|| {
        let shown: String = text.chars().take(24).collect();
        format!("{what}: `{shown}` is not a number from {low} to {high}")
    })
}

fn few_leaves(what: &str, layout: &Layout) -> Result<(), Sentence> {
    check_leaves(what, layout.leaves().len())
}

fn check_leaves(what: &str, count: usize) -> Result<(), Sentence> {
    if count <= MAX_LEAVES {
        return Ok(());
    }
    Err(format!(
        "{what}: it has {count} modes, and the explorer takes {MAX_LEAVES} at most"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cute_prints_is_read() {
        let cases = [
            (
                "Sw<3,4,3> o smem_ptr[16b](0x7f3a00000400) o ((_8,_16),(_64,_1)):((_64,_512),(_1,_0))",
                "Sw<3,4,3> o smem_ptr[16b](unset) o ((_8,_16),(_64,_1)):((_64,_512),(_1,_0))",
            ),
            (
                "Sw<3,4,3>_smem_ptr[16b](unset) o (8,64):(64,1)",
                "Sw<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)",
            ),
            (
                "gmem_ptr[32b](0x7f1c2e000000) o (128,(2,2)):(1,(128,256))",
                "(128,(2,2)):(1,(128,256))",
            ),
            (
                "smem_ptr[16b](0x400) o (_8,_64):(_64,_1)",
                "(_8,_64):(_64,_1)",
            ),
            (
                "S<3,3,3> o 0 o (8,64):(64,1)",
                "Sw<3,3,3> o 0 o (8,64):(64,1)",
            ),
            (" (4,(2,2)):(2,(1,8)) ;\n", "(4,(2,2)):(2,(1,8))"),
            ("ptr[32b](0x3000) o (_8,_4):(_1,_8)", "(_8,_4):(_1,_8)"),
            (
                "ArithTuple(_0,(_0,_0)) o (2,(2,2)):(_1@0,(_1@0@1,_1@1@1))",
                "(2,(2,2)):(_1@0,(_1@0@1,_1@1@1))",
            ),
            (
                "(_4,_1):(_1,_0)\n      0 \n    +---+\n 0  | 0 |\n    +---+\n",
                "(_4,_1):(_1,_0)",
            ),
            (
                "(_4,_1):(_1,_0)       0      +---+  0  | 0 |",
                "(_4,_1):(_1,_0)",
            ),
            ("ptr[32b](0x3000) o (3):(1):\n   -5  295\n", "(3):(1)"),
            (
                "Sw<2,1,3> o _0 o (_8,_8):(_8,_1)",
                "Sw<2,1,3> o _0 o (_8,_8):(_8,_1)",
            ),
            ("(_4,_8):(_8,_1)", "(_4,_8):(_8,_1)"),
        ];
        for (text, read) in cases {
            assert_eq!(pasted(text), read);
            assert!(composed("layout", text).is_ok(), "{text}");
        }
        for text in ["smem_ptr[16b", "smem_ptr[16b](0x", "_ptr[", "é_ptr[x"] {
            assert!(composed("layout", text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let modes = vec!["2"; 40].join(",");
        let zeros = vec!["0"; 40].join(",");
        assert_eq!(
            layout("layout", &["(", &modes, "):(", &zeros, ")"].concat()),
            Err("layout: it has 40 modes, and the explorer takes 32 at most".to_string())
        );
        assert_eq!(
            number("bits", "9", 0, 5),
            Err("bits: `9` is not a number from 0 to 5".to_string())
        );
        assert_eq!(
            tiler("tiler", "(4,8"),
            Err("tiler: expected ',' or the closing parenthesis at byte 4 of \"(4,8\"".to_string())
        );
    }
}
