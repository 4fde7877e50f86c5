//! The headers of a grid as SVG.

use alloc::format;
use alloc::string::String;

use crate::Headers;
use crate::picture::metrics::text_width;
use crate::picture::svg::grid::Drawing;
use crate::picture::xml::{Escaped, Px};
use crate::table::text::put;

impl Drawing<'_> {
    /// Before the rows and above the columns, thinned until they fit; then the names of the axes.
    pub(crate) fn headers(&self, out: &mut String) {
        let (grid, metrics, font) = (self.grid, self.metrics, self.metrics.header_font);
        let mut texts = String::new();
        let middle = font * 35 / 100;
        let step = metrics.header_step(font + 10, metrics.cell_height);
        for (at, text) in shown(&grid.row_headers, grid.rows(), step) {
            let y = Px(self.y(at) + metrics.cell_height / 2 + middle);
            let x = Px(self.left - 50);
            put(
                &mut texts,
                format_args!(
                    "<text class=\"cx-m\" text-anchor=\"end\" x=\"{x}\" y=\"{y}\">{}</text>\n",
                    Escaped(&text)
                ),
            );
        }
        let longest = grid.col_headers.longest(grid.cols()) as i64;
        let step = metrics.header_step(text_width(longest, font) + 40, metrics.cell_width);
        for (at, text) in shown(&grid.col_headers, grid.cols(), step) {
            let x = Px(self.x(at) + metrics.cell_width / 2);
            let y = Px(self.top - 40);
            put(
                &mut texts,
                format_args!(
                    "<text class=\"cx-m\" x=\"{x}\" y=\"{y}\">{}</text>\n",
                    Escaped(&text)
                ),
            );
        }
        self.axes(&mut texts);
        if !texts.is_empty() {
            let size = Px(font);
            put(
                out,
                format_args!("<g text-anchor=\"middle\" font-size=\"{size}\">\n{texts}</g>\n"),
            );
        }
    }

    fn axes(&self, out: &mut String) {
        let (grid, metrics) = (self.grid, self.metrics);
        let Some([rows, cols]) = &grid.axes else {
            return;
        };
        let x = Px(self.left - metrics.left + 80);
        let y = Px(self.y(0) + grid.rows() * metrics.cell_height / 2);
        let style = "class=\"cx-m\" font-style=\"italic\"";
        // A long name stands upright, since the room beside the rows is for a few letters.
        let turn = if rows.chars().count() > 3 {
            format!(" transform=\"rotate(-90 {x} {y})\"")
        } else {
            String::new()
        };
        put(
            out,
            format_args!(
                "<text {style} x=\"{x}\" y=\"{y}\"{turn}>{}</text>\n",
                Escaped(rows)
            ),
        );
        let x = Px(self.x(0) + grid.cols() * metrics.cell_width / 2);
        let y = Px(self.top - metrics.top + 100);
        put(
            out,
            format_args!(
                "<text {style} x=\"{x}\" y=\"{y}\">{}</text>\n",
                Escaped(cols)
            ),
        );
    }
}

/// The headers at multiples of `step`; names, unlike numbers, are all shown.
fn shown(headers: &Headers, count: i64, step: i64) -> impl Iterator<Item = (i64, String)> {
    let step = if matches!(headers, Headers::Numbers) {
        step
    } else {
        1
    };
    let at = (0..count).filter(move |at| at % step == 0);
    at.map(|at| (at, headers.text(at)))
        .filter(|(_, text)| !text.is_empty())
}
