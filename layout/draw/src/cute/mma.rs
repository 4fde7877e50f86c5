//! A, B and C of a matrix instruction in one drawing, in the form of CuTe's `print_svg`.

use alloc::format;
use alloc::string::String;

use crate::ThreadValues;
use crate::error::Error;
use crate::table::text::put;
use crate::thread::fit::check_operands;

/// Returns an SVG with A at the left, B at the top and C below and right of them, byte for byte as CuTe's `print_svg`
/// prints a `TiledMMA`.
///
/// `tile` is the text of (M,N,K).
///
/// # Errors
///
/// Returns an error if the tiles do not fit together.
///
/// Source: `cute/util/print_svg.hpp`.
#[doc(alias = "print_svg")]
pub fn print_svg_mma(
    tile: &str,
    c: &ThreadValues,
    a: &ThreadValues,
    b: &ThreadValues,
) -> Result<String, Error> {
    let [m, n, k] = check_operands(c, a, b)?;
    let mut out = format!("<!--  Tile: {tile}  -->\n");
    for (name, map) in [("A", a), ("B", b), ("C", c)] {
        put(
            &mut out,
            format_args!("<!--     {name}: {}  -->\n", map.heading()),
        );
    }
    put(
        &mut out,
        format_args!(
            "<svg width=\"100%\" height=\"100%\" viewBox=\"0 0 {} {}\" preserveAspectRatio=\"xMidYMid meet\" \
             xmlns=\"http://www.w3.org/2000/svg\">\n",
            (k + n + 2) * SIDE,
            (k + m + 2) * SIDE
        ),
    );
    let corner = k + 2;
    // CuTe ends the rectangles of A and B with a space, and those of C without one.
    map_cells(&mut out, c, "", |row, col| (row + corner, col + corner));
    map_cells(&mut out, a, " ", |row, col| (row + corner, col + 1));
    (0..m).for_each(|i| number(&mut out, (i + corner, 0), i));
    (0..k).for_each(|i| number(&mut out, (corner - 1, i + 1), i));
    map_cells(&mut out, b, " ", |row, col| (col + 1, row + corner));
    (0..n).for_each(|i| number(&mut out, (0, i + corner), i));
    (0..k).for_each(|i| number(&mut out, (i + 1, corner - 1), i));
    Ok(out + "</svg>\n")
}

/// The side of a cell.
const SIDE: i64 = 20;

/// Eight colours for threads.
const COLORS: [&str; 8] = [
    "175,175,255",
    "175,255,175",
    "255,255,175",
    "255,175,175",
    "210,210,255",
    "210,255,210",
    "255,255,210",
    "255,210,210",
];

fn map_cells(out: &mut String, map: &ThreadValues, end: &str, at: impl Fn(i64, i64) -> (i64, i64)) {
    for (thread, value) in map.shown() {
        let (row, col) = map.place(thread, value);
        let ((row, col), thread) = (at(row, col), map.number(thread));
        let (x, y, color) = (
            col * SIDE,
            row * SIDE,
            COLORS[thread.rem_euclid(8) as usize],
        );
        put(
            out,
            format_args!(
                "<rect x=\"{x}\" y=\"{y}\" width=\"{SIDE}\" height=\"{SIDE}\" fill=\"rgb({color})\" stroke=\"black\"{end}/>\n"
            ),
        );
        text(
            out,
            (x + SIDE / 2, y + SIDE / 4),
            8,
            format_args!("T{thread}"),
        );
        text(
            out,
            (x + SIDE / 2, y + 3 * SIDE / 4),
            8,
            format_args!("V{value}"),
        );
    }
}

fn number(out: &mut String, (row, col): (i64, i64), n: i64) {
    let middle = (col * SIDE + SIDE / 2, row * SIDE + SIDE / 2);
    text(out, middle, 12, format_args!("{n}"));
}

fn text(out: &mut String, (x, y): (i64, i64), size: i64, what: core::fmt::Arguments<'_>) {
    put(
        out,
        format_args!(
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" alignment-baseline=\"central\" font-size=\"{size}\">{what}</text>\n"
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::map;
    use alloc::string::ToString;
    use insta::assert_snapshot;

    #[test]
    fn the_drawing_of_cute() {
        let [c, a, b] = ["(4,1):(1,0)", "(4,2):(0,1)", "(4,2):(0,1)"].map(|text| map(text, 2, 2));
        let drawing = print_svg_mma("(_2,_2,_2)", &c, &a, &b).expect("M, N and K are 2");
        assert_snapshot!("cute_svg", drawing);
    }

    #[test]
    fn tiles_that_do_not_fit_are_named() {
        let error = |c, a, b| {
            check_operands(c, a, b)
                .expect_err("they do not fit")
                .to_string()
        };
        let [two, four] = [map("(2,2):(1,2)", 2, 2), map("(2,2):(1,2)", 4, 2)];
        assert_eq!(
            error(&two, &four, &two),
            "draw of (2,2):(1,2): the tile of A is 4 by 2, but M x K is 2 by 2"
        );
        assert_eq!(
            error(&two, &two, &four),
            "draw of (2,2):(1,2): the tile of B is 4 by 2, but N x K is 2 by 2"
        );
    }
}
