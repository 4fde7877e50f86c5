//! One grid as SVG: colours, lines, labels, headers.

use alloc::collections::BTreeMap;
use alloc::string::String;

use crate::picture::metrics::{CAPTION_FONT, Metrics, line_height};
use crate::picture::xml::{Escaped, Px};
use crate::table::text::put;
use crate::{Fill, Grid, Mark};

/// A grid at its place: the corner of its first cell.
pub(crate) struct Drawing<'a> {
    pub(crate) grid: &'a Grid,
    pub(crate) metrics: &'a Metrics,
    pub(crate) left: i64,
    pub(crate) top: i64,
}

/// Draws `grid` with the corner of its headers at (x, y); its caption is above.
pub(crate) fn draw_grid(out: &mut String, grid: &Grid, metrics: &Metrics, x: i64, y: i64) {
    let drawing = Drawing {
        grid,
        metrics,
        left: x + metrics.left,
        top: y + metrics.top,
    };
    out.push_str("<g>\n");
    drawing.caption(out, y);
    drawing.fills(out);
    drawing.lines(out);
    drawing.headers(out);
    drawing.path(out);
    if metrics.labels {
        drawing.labels(out);
    }
    drawing.focus(out);
    out.push_str("</g>\n");
}

impl Drawing<'_> {
    pub(crate) fn x(&self, col: i64) -> i64 {
        self.left + col * self.metrics.cell_width
    }

    pub(crate) fn y(&self, row: i64) -> i64 {
        self.top + row * self.metrics.cell_height
    }

    fn caption(&self, out: &mut String, y: i64) {
        let Some(text) = &self.grid.caption else {
            return;
        };
        let (x, y, size) = (Px(self.left), Px(y - 50), Px(CAPTION_FONT));
        let text = Escaped(text);
        put(
            out,
            format_args!("<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\">{text}</text>\n"),
        );
    }

    /// One path a colour; equal neighbours in a row are one rectangle.
    fn fills(&self, out: &mut String) {
        let mut paths: BTreeMap<(Mark, Fill), String> = BTreeMap::new();
        let (cols, height) = (self.grid.cols(), Px(self.metrics.cell_height));
        let look = |row, col| {
            let cell = self.grid.cell(row, col);
            (
                if cell.mark == Mark::Dim {
                    Mark::Dim
                } else {
                    Mark::Plain
                },
                cell.fill,
            )
        };
        for row in 0..self.grid.rows() {
            let mut col = 0;
            while col < cols {
                let key = look(row, col);
                let end = (col..cols).find(|at| look(row, *at) != key).unwrap_or(cols);
                let (x, y) = (Px(self.x(col)), Px(self.y(row)));
                let width = Px((end - col) * self.metrics.cell_width);
                let path = paths.entry(key).or_default();
                put(path, format_args!("M{x} {y}h{width}v{height}h-{width}z"));
                col = end;
            }
        }
        for ((mark, fill), path) in paths {
            let (letter, number, _) = fill.class();
            let pale = if mark == Mark::Dim {
                " fill-opacity=\".35\""
            } else {
                ""
            };
            put(
                out,
                format_args!("<path class=\"cx-{letter}{number}\"{pale} d=\"{path}\"/>\n"),
            );
        }
    }

    /// Thin lines between all cells, then stronger ones between blocks and regions, then the frame.
    fn lines(&self, out: &mut String) {
        let (rows, cols) = (self.grid.rows(), self.grid.cols());
        let thin = if self.metrics.cell_width >= 160 {
            ".7"
        } else {
            ".3"
        };
        for level in 0..=3 {
            let path = self.rules(level);
            let (class, width) = match level {
                0 => ("cx-line", thin),
                1 => ("cx-edge", "1.3"),
                2 => ("cx-edge", "2.1"),
                _ => ("cx-edge", "3"),
            };
            stroke(out, class, width, &path);
        }
        if let Some(regions) = &self.grid.regions {
            let region = |row: i64, col: i64| Some(*regions.get((row * cols + col) as usize)?);
            stroke(out, "cx-edge", "1.8", &self.edges(region));
        }
        let mut frame = String::new();
        let (x, y) = (Px(self.x(0)), Px(self.y(0)));
        let (w, h) = (
            Px(cols * self.metrics.cell_width),
            Px(rows * self.metrics.cell_height),
        );
        put(&mut frame, format_args!("M{x} {y}h{w}v{h}h-{w}z"));
        stroke(out, "cx-edge", "1.4", &frame);
    }

    /// The full lines between blocks of a level; level 3 holds all deeper ones.
    fn rules(&self, level: usize) -> String {
        let (rows, cols) = (self.grid.rows(), self.grid.cols());
        let (width, height) = (
            Px(cols * self.metrics.cell_width),
            Px(rows * self.metrics.cell_height),
        );
        let mut path = String::new();
        for row in (1..rows).filter(|at| self.grid.row_nesting.level(*at).min(3) == level) {
            put(
                &mut path,
                format_args!("M{} {}h{width}", Px(self.x(0)), Px(self.y(row))),
            );
        }
        for col in (1..cols).filter(|at| self.grid.col_nesting.level(*at).min(3) == level) {
            put(
                &mut path,
                format_args!("M{} {}v{height}", Px(self.x(col)), Px(self.y(0))),
            );
        }
        path
    }

    /// The lines between cells whose `region`s differ, collinear ones joined.
    fn edges(&self, region: impl Fn(i64, i64) -> Option<i64>) -> String {
        let (rows, cols) = (self.grid.rows(), self.grid.cols());
        let mut path = String::new();
        let at = |row: i64, col: i64| {
            let inside = (0..rows).contains(&row) && (0..cols).contains(&col);
            if inside { region(row, col) } else { None }
        };
        for row in 0..=rows {
            runs(
                cols,
                |col| at(row - 1, col) != at(row, col),
                |start, end| {
                    let width = Px((end - start) * self.metrics.cell_width);
                    put(
                        &mut path,
                        format_args!("M{} {}h{width}", Px(self.x(start)), Px(self.y(row))),
                    );
                },
            );
        }
        for col in 0..=cols {
            runs(
                rows,
                |row| at(row, col - 1) != at(row, col),
                |start, end| {
                    let height = Px((end - start) * self.metrics.cell_height);
                    put(
                        &mut path,
                        format_args!("M{} {}v{height}", Px(self.x(col)), Px(self.y(start))),
                    );
                },
            );
        }
        path
    }

    /// The walk, and a dot at its start.
    fn path(&self, out: &mut String) {
        let metrics = self.metrics;
        let middle = |(row, col): &(i64, i64)| {
            (
                self.x(*col) + metrics.cell_width / 2,
                self.y(*row) + metrics.cell_height / 2,
            )
        };
        let Some(start) = self.grid.path.first() else {
            return;
        };
        let mut line = String::new();
        for (at, place) in self.grid.path.iter().enumerate() {
            let (x, y) = middle(place);
            put(
                &mut line,
                format_args!("{}{} {}", if at == 0 { "M" } else { "L" }, Px(x), Px(y)),
            );
        }
        // Broad and pale, so that the labels on it stay legible.
        out.push_str("<g opacity=\".5\">\n");
        stroke(out, "cx-path", "3", &line);
        let (x, y) = middle(start);
        let radius = Px((metrics.cell_width / 8).min(40));
        put(
            out,
            format_args!(
                "<circle class=\"cx-dot\" cx=\"{}\" cy=\"{}\" r=\"{radius}\"/>\n</g>\n",
                Px(x),
                Px(y)
            ),
        );
    }

    fn focus(&self, out: &mut String) {
        let is_focus = |row, col| (self.grid.cell(row, col).mark == Mark::Focus).then_some(1);
        stroke(out, "cx-focus", "2.6", &self.edges(is_focus));
    }

    /// The labels: plain ones, then those that step back, then those in focus.
    fn labels(&self, out: &mut String) {
        for mark in [Mark::Plain, Mark::Dim, Mark::Focus] {
            let style = match mark {
                Mark::Plain => "",
                Mark::Dim => " class=\"cx-m\"",
                Mark::Focus => " font-weight=\"bold\"",
            };
            let mut texts = String::new();
            for (row, col, cell) in self.grid.places().filter(|(_, _, cell)| cell.mark == mark) {
                self.label(&mut texts, row, col, &cell.lines, style);
            }
            if !texts.is_empty() {
                let size = Px(self.metrics.font);
                put(
                    out,
                    format_args!("<g text-anchor=\"middle\" font-size=\"{size}\">\n{texts}</g>\n"),
                );
            }
        }
    }

    fn label(&self, out: &mut String, row: i64, col: i64, lines: &[String], style: &str) {
        let (font, step) = (self.metrics.font, line_height(self.metrics.font));
        let x = Px(self.x(col) + self.metrics.cell_width / 2);
        let middle = self.y(row) + self.metrics.cell_height / 2 + font * 35 / 100;
        for (at, line) in lines
            .iter()
            .enumerate()
            .filter(|(_, line)| !line.is_empty())
        {
            let y = Px(middle + (2 * at as i64 + 1 - lines.len() as i64) * step / 2);
            put(
                out,
                format_args!(
                    "<text{style} x=\"{x}\" y=\"{y}\">{}</text>\n",
                    Escaped(line)
                ),
            );
        }
    }
}

/// Calls `found(start, end)` for each longest run in `0..count` where `holds`.
fn runs(count: i64, holds: impl Fn(i64) -> bool, mut found: impl FnMut(i64, i64)) {
    let mut at = 0;
    while let Some(start) = (at..count).find(|i| holds(*i)) {
        at = (start..count).find(|i| !holds(*i)).unwrap_or(count);
        found(start, at);
    }
}

fn stroke(out: &mut String, class: &str, width: &str, path: &str) {
    if !path.is_empty() {
        put(
            out,
            format_args!(
                "<path class=\"{class}\" fill=\"none\" stroke-width=\"{width}\" stroke-linecap=\"square\" d=\"{path}\"/>\n"
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_longest() {
        let mut seen = alloc::vec::Vec::new();
        runs(
            8,
            |i| [1, 2, 5, 7].contains(&i),
            |start, end| seen.push((start, end)),
        );
        assert_eq!(seen, [(1, 3), (5, 6), (7, 8)]);
    }
}
