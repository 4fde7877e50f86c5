//! Texts as readers type and paste them: what CuTe prints becomes what the crates read.

use std::fmt::Display;
use std::str::FromStr;

use colex_layout::{ComposedLayout, Layout, Tiler};

use crate::fields::Sentence;

/// The most leaves of a layout: work grows with them.
const MAX_LEAVES: usize = 32;

/// Returns the text without what CuTe prints of a pointer.
///
/// `smem_ptr[16b](0x7f..)` becomes `smem_ptr[16b](unset)` behind a swizzle, and is left out where there is none, as an
/// address changes no offset. `Sw<3,4,3>_smem_ptr[16b](..) o L` is the older form of the same, and `S<3,4,3>` is the DSL's.
pub(crate) fn pasted(text: &str) -> String {
    let text = text.trim().trim_end_matches(';').trim_end();
    let text = match text.strip_prefix("S<") {
        Some(rest) => format!("Sw<{rest}"),
        None => text.to_string(),
    };
    let text = text.replacen(">_smem_ptr[", "> o smem_ptr[", 1);
    let Some(start) = text.find("_ptr[").and_then(|at| pointer_start(&text, at)) else {
        return text;
    };
    let Some(open) = text[start..].find('(').map(|at| start + at) else {
        return text;
    };
    let Some(close) = text[open..].find(')').map(|at| open + at + 1) else {
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

/// Where the word that holds `_ptr[` begins: `smem_ptr[`, `gmem_ptr[`, `rmem_ptr[`.
fn pointer_start(text: &str, at: usize) -> Option<usize> {
    let letters = text[..at].char_indices().rev();
    letters
        .take_while(|(_, c)| c.is_ascii_alphanumeric())
        .last()
        .map(|(start, _)| start)
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
