//! A plain grid of labelled cells as SVG.

use std::fmt::Write;

use super::escaped;

/// The size of a cell, and of the strip that holds the row and column numbers.
const CELL: usize = 34;
const STRIP: usize = 26;

/// A grid of `rows` by `columns` cells; `label` gives each its text and its shade (0 to 7).
pub(super) fn svg(
    title: &str,
    rows: usize,
    columns: usize,
    label: impl Fn(usize, usize) -> (String, usize),
) -> String {
    let (width, height) = (STRIP + columns * CELL + 1, STRIP + rows * CELL + 1);
    let title = escaped(title);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{title}\">"
    );
    for column in 0..columns {
        text(
            &mut svg,
            "axis",
            STRIP + column * CELL + CELL / 2,
            STRIP / 2,
            &column.to_string(),
        );
    }
    for row in 0..rows {
        let y = STRIP + row * CELL;
        text(&mut svg, "axis", STRIP / 2, y + CELL / 2, &row.to_string());
        for column in 0..columns {
            let x = STRIP + column * CELL;
            let (name, shade) = label(row, column);
            write_cell(&mut svg, x, y, shade);
            text(&mut svg, "label", x + CELL / 2, y + CELL / 2, &name);
        }
    }
    svg + "</svg>"
}

fn write_cell(svg: &mut String, x: usize, y: usize, shade: usize) {
    write!(svg, "<rect class=\"cell shade{shade}\" x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{CELL}\"></rect>")
        .expect("writing to a String does not fail");
}

fn text(svg: &mut String, class: &str, x: usize, y: usize, text: &str) {
    write!(
        svg,
        "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>",
        escaped(text)
    )
    .expect("writing to a String does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_drawn_once() {
        let svg = svg("2 by 3", 2, 3, |row, column| (format!("{row}{column}"), 0));
        assert_eq!(svg.matches("<rect").count(), 6);
        for label in ["00", "01", "02", "10", "11", "12"] {
            assert_eq!(svg.matches(&format!(">{label}<")).count(), 1, "{label}");
        }
        assert!(!svg.contains('\n'));
    }
}
