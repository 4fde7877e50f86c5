//! The style sheet that a picture carries.

use alloc::collections::BTreeSet;
use alloc::string::String;

use crate::picture::palette::{BLANK, EDGE, FOCUS, INK, LINE, MUTED, PATH, Tone};
use crate::table::text::put;
use crate::{Fill, Picture};

/// The rules that the classes of `picture` need, all of them below the class `cx`.
///
/// Each colour is written twice: once for programs that know one theme, and once as `light-dark(..)`, which follows the
/// colour scheme of the page around the picture, or, for a picture by itself, that of the reader's system.
pub(crate) fn sheet(picture: &Picture) -> String {
    let mut out = String::from(":root.cx{color-scheme:light dark}");
    rule(&mut out, ".cx-bg", "fill", BLANK);
    rule(&mut out, ".cx text", "fill", INK);
    rule(&mut out, ".cx .cx-m", "fill", MUTED);
    rule(&mut out, ".cx-line", "stroke", LINE);
    rule(&mut out, ".cx-edge", "stroke", EDGE);
    rule(&mut out, ".cx-focus", "stroke", FOCUS);
    if picture.grids().any(|grid| !grid.path.is_empty()) {
        rule(&mut out, ".cx-path", "stroke", PATH);
        rule(&mut out, ".cx-dot", "fill", PATH);
    }
    let cells = picture
        .grids()
        .flat_map(|grid| grid.cells().map(|cell| cell.fill));
    let fills: BTreeSet<Fill> = cells
        .chain(picture.legend.iter().map(|(fill, _)| *fill))
        .collect();
    for fill in fills {
        let (letter, number, tone) = fill.class();
        let mut class = String::new();
        put(&mut class, format_args!(".cx-{letter}{number}"));
        rule(&mut out, &class, "fill", tone);
    }
    out
}

fn rule(out: &mut String, class: &str, property: &str, Tone(light, dark): Tone) {
    put(
        out,
        format_args!("{class}{{{property}:{light};{property}:light-dark({light},{dark})}}"),
    );
}
