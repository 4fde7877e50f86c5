//! Pages of LaTeX (TikZ) in the form that CuTe prints.

use alloc::string::String;
use core::fmt::Display;

use crate::error::Error;
use crate::table::text::put;
use crate::thread::fit::{check_operands, check_sides};
use crate::{Table, ThreadValues};
use colex_layout::{Int, IntoLayout, Layout};

/// Returns a page of LaTeX with the grid of `layout`, byte for byte as CuTe's `print_latex` prints it for ranks 1 and
/// 2.
///
/// A layout of rank 1 is one column here, as in CuTe; modes beyond the first go right together.
/// The page needs the classes `standalone` and `tikz`, and compiles with `pdflatex`.
///
/// # Errors
///
/// Returns the errors of [`Table::of`].
///
/// # Example
///
/// ```
/// use colex_draw::print_latex;
/// let page = print_latex(((2, 2), (1, 2)))?;
/// assert!(page.starts_with("% Layout: (2,2):(1,2)\n\\documentclass[convert]{standalone}\n"));
/// assert!(page.contains("\\node[fill=black!60] at (1,1) {3};\n"));
/// # Ok::<(), colex_draw::Error>(())
/// ```
///
/// Source: `cute/util/print_latex.hpp`.
pub fn print_latex(layout: impl IntoLayout) -> Result<String, Error> {
    let unit = Layout::leaf(Int::Static(1), Int::Static(0))?;
    let layout = layout.into_layout()?;
    let rank = layout.rank().max(2);
    Ok(Table::of(layout.append_to_rank(rank, &unit)?)?.latex())
}

impl Table {
    /// Returns the table as a page of LaTeX, in the form of CuTe's `print_latex`: cells in eight greys by their value.
    #[must_use]
    pub fn latex(&self) -> String {
        let mut page = Page::new(format_args!("% Layout: {}\n", self.heading));
        for row in 0..self.rows() {
            for col in 0..self.cols() {
                let value = self.at(row, col);
                page.node(GREYS[value.rem_euclid(8) as usize], (row, col), value);
            }
        }
        page.grid((0, 0), (self.rows(), self.cols()));
        page.row_labels(0, self.rows(), -1);
        page.col_labels(0, self.cols(), -1);
        page.finish()
    }
}

impl ThreadValues {
    /// Returns the map as a page of LaTeX, in the form of CuTe's `print_latex_tv`: thread and value in each cell, in
    /// eight colours by thread.
    ///
    /// A cell of several owners shows the first.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::ThreadValues;
    /// let page = ThreadValues::of("(4,2):(2,1)", 2, 4)?.latex();
    /// assert!(page.contains("at (1,3) {\\shortstack{T3 \\\\ V1}};\n"));
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    #[doc(alias = "print_latex_tv")]
    #[must_use]
    pub fn latex(&self) -> String {
        let mut page = Page::new(format_args!("% Layout TV: {}\n", self.heading));
        page.map(self, |row, col| (row, col));
        page.grid((0, 0), (self.rows(), self.cols()));
        page.row_labels(0, self.rows(), -1);
        page.col_labels(0, self.cols(), -1);
        page.finish()
    }
}

/// Returns a page with the source map at the left and the destination map at the right, as CuTe prints a `TiledCopy`.
///
/// # Errors
///
/// Returns an error if the two are not maps over one tile.
pub fn print_latex_copy(
    source: &ThreadValues,
    destination: &ThreadValues,
) -> Result<String, Error> {
    let [rows, cols] = check_sides(source, destination)?;
    let mut page = Page::new(format_args!(
        "% Layout S TV: {}\n% Layout D TV: {}\n",
        source.heading, destination.heading
    ));
    let right = cols + 3;
    page.map(source, |row, col| (row, col));
    page.grid((0, 0), (rows, cols));
    page.row_labels(0, rows, -1);
    page.col_labels(0, cols, -1);
    page.map(destination, |row, col| (row, col + right));
    page.grid((0, right), (rows, cols + right));
    page.row_labels(0, rows, cols + right);
    page.col_labels(right, cols, -1);
    Ok(page.finish())
}

/// Returns a page with A at the left, B at the top and C in the centre, as CuTe prints an `MMA_Atom` or a `TiledMMA`.
///
/// The maps go to tiles of M by N (`c`), M by K (`a`) and N by K (`b`).
///
/// # Errors
///
/// Returns an error if the tiles do not fit together.
pub fn print_latex_mma(
    c: &ThreadValues,
    a: &ThreadValues,
    b: &ThreadValues,
) -> Result<String, Error> {
    let [rows, cols, depth] = check_operands(c, a, b)?;
    let mut page = Page::new(format_args!(
        "% LayoutC: {}\n% LayoutA: {}\n% LayoutB: {}\n",
        c.heading, a.heading, b.heading
    ));
    let before = -depth - 1;
    page.map(c, |row, col| (row, col));
    page.grid((0, 0), (rows, cols));
    page.map(a, |row, col| (row, col + before));
    page.grid((0, before), (rows, -1));
    page.row_labels(0, rows, before - 1);
    page.col_labels(before, depth, -1);
    page.map(b, |row, col| (col + before, row));
    page.grid((before, 0), (-1, cols));
    page.col_labels(0, cols, before - 1);
    page.row_labels(before, depth, -1);
    Ok(page.finish())
}

/// Eight shades of grey; neighbours in value are far apart in shade.
const GREYS: [&str; 8] = [
    "black!00", "black!40", "black!20", "black!60", "black!10", "black!50", "black!30", "black!70",
];

/// Eight colours for threads.
const COLORS: [&str; 8] = [
    "{rgb,255:red,175;green,175;blue,255}",
    "{rgb,255:red,175;green,255;blue,175}",
    "{rgb,255:red,255;green,255;blue,175}",
    "{rgb,255:red,255;green,175;blue,175}",
    "{rgb,255:red,210;green,210;blue,255}",
    "{rgb,255:red,210;green,255;blue,210}",
    "{rgb,255:red,255;green,255;blue,210}",
    "{rgb,255:red,255;green,210;blue,210}",
];

/// A page under construction: a cell is a square of one centimetre, at (row, column).
struct Page(String);

impl Page {
    fn new(comment: core::fmt::Arguments<'_>) -> Self {
        let mut out = String::new();
        put(&mut out, comment);
        out.push_str(concat!(
            "\\documentclass[convert]{standalone}\n",
            "\\usepackage{tikz}\n\n",
            "\\begin{document}\n",
            "\\begin{tikzpicture}[x={(0cm,-1cm)},y={(1cm,0cm)},",
            "every node/.style={minimum size=1cm, outer sep=0pt}]\n\n",
        ));
        Self(out)
    }

    fn node(&mut self, fill: &str, (row, col): (i64, i64), text: impl Display) {
        put(
            &mut self.0,
            format_args!("\\node[fill={fill}] at ({row},{col}) {{{text}}};\n"),
        );
    }

    /// The nodes of a thread-value map, each at the place that `at` gives its cell.
    fn map(&mut self, map: &ThreadValues, at: impl Fn(i64, i64) -> (i64, i64)) {
        for (thread, value) in map.shown() {
            let (row, col) = map.place(thread, value);
            let thread = map.number(thread);
            let text = format_args!("\\shortstack{{T{thread} \\\\ V{value}}}");
            self.node(COLORS[thread.rem_euclid(8) as usize], at(row, col), text);
        }
    }

    fn grid(&mut self, (top, left): (i64, i64), (bottom, right): (i64, i64)) {
        put(
            &mut self.0,
            format_args!(
                "\\draw[color=black,thick,shift={{(-0.5,-0.5)}}] ({top},{left}) grid ({bottom},{right});\n\n"
            ),
        );
    }

    /// The numbers `0..count` in the column `col`, from the row `top` down.
    fn row_labels(&mut self, top: i64, count: i64, col: i64) {
        (0..count).for_each(|n| self.label((top + n, col), n));
    }

    /// The numbers `0..count` in the row `row`, from the column `left` on.
    fn col_labels(&mut self, left: i64, count: i64, row: i64) {
        (0..count).for_each(|n| self.label((row, left + n), n));
    }

    fn label(&mut self, (row, col): (i64, i64), n: i64) {
        put(
            &mut self.0,
            format_args!("\\node at ({row},{col}) {{\\Large{{\\texttt{{{n}}}}}}};\n"),
        );
    }

    fn finish(self) -> String {
        self.0 + "\\end{tikzpicture}\n\\end{document}\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::map;
    use insta::assert_snapshot;

    #[track_caller]
    fn page(text: &str) -> String {
        print_latex(text).expect("the layout is small")
    }

    #[test]
    fn pages_of_layouts() {
        assert_snapshot!("latex_nested", page("((_2,_2),(_2,_4)):((_1,_4),(_2,_8))"));
        assert_snapshot!("latex_rank_one", page("_4:_2"));
        assert_snapshot!("latex_rank_three", page("(2,2,2):(1,2,4)"));
    }

    #[test]
    fn a_page_of_a_thread_value_map() {
        let volta = map("((2,2,2),(2,2,2)):((1,16,4),(8,2,32))", 8, 8);
        assert_snapshot!("latex_volta_c", volta.latex());
    }

    #[test]
    fn a_page_of_a_copy() {
        let source = map("(4,2):(2,1)", 2, 4);
        let destination = map("(4,2):(1,4)", 2, 4);
        let page = print_latex_copy(&source, &destination).expect("both go to one tile");
        assert_snapshot!("latex_copy", page);
        let error = print_latex_copy(&source, &map("(4,2):(1,4)", 4, 2)).expect_err("other tile");
        let why = "draw of (4,2):(1,4): its tile is 4 by 2, the source's 2 by 4";
        assert_eq!(alloc::string::ToString::to_string(&error), why);
    }

    #[test]
    fn a_page_of_a_matrix_instruction() {
        let [c, a, b] = ["(4,1):(1,0)", "(4,2):(0,1)", "(4,2):(0,1)"].map(|text| map(text, 2, 2));
        assert_snapshot!(
            "latex_mma",
            print_latex_mma(&c, &a, &b).expect("M, N and K are 2")
        );
    }

    #[test]
    fn negative_values_have_a_shade() {
        assert!(page("(4,1):(-1,0)").contains("\\node[fill=black!70] at (1,0) {-1};\n"));
    }
}
