//! A picture as SVG.

mod grid;
mod header;

use alloc::string::String;

use crate::picture::metrics::{CAPTION_FONT, CAPTION_LINE, Metrics, text_width};
use crate::picture::style::sheet;
use crate::picture::svg::grid::draw_grid;
use crate::picture::xml::{Escaped, Px};
use crate::table::text::put;
use crate::{Fill, Grid, Picture};

/// Space around the drawing and between grids.
const MARGIN: i64 = 80;
const GAP: i64 = 260;

impl Picture {
    /// Returns the picture as one `<svg>` element, valid XML, for a file of its own or for a page of HTML.
    ///
    /// It follows the light or dark scheme of the page around it, or of the system when it stands alone; the title
    /// and [`Picture::description`] are its text for readers that cannot see it. The same picture gives the same bytes.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::{Cell, Fill, Grid, Picture};
    /// let grid = Grid::from_fn(1, 2, |_, col| Cell::new([format!("<{col}>")]).filled(Fill::thread(col)))?;
    /// let svg = Picture::of(grid).title("Two cells").svg();
    /// assert!(svg.contains("<title>Two cells</title>") && svg.contains(">&lt;0&gt;</text>"));
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    #[must_use]
    pub fn svg(&self) -> String {
        let metrics = Metrics::of(self);
        let places = Places::of(self, &metrics);
        let foot = self.foot_height();
        let width = places.right.max(MARGIN + metrics.left + self.foot_width()) + MARGIN;
        let height = places.bottom + foot + MARGIN;
        let mut out = String::new();
        self.open(&mut out, width, height);
        for (grid, x, y) in places.grids(self) {
            draw_grid(&mut out, grid, &metrics, x, y);
        }
        self.foot(&mut out, MARGIN + metrics.left, places.bottom);
        out + "</svg>\n"
    }

    fn open(&self, out: &mut String, width: i64, height: i64) {
        let (w, h) = (Px(width), Px(height));
        put(
            out,
            format_args!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"cx\" role=\"img\" viewBox=\"0 0 {w} {h}\" \
                 width=\"{w}\" height=\"{h}\" font-family=\"{FONT}\">\n"
            ),
        );
        put(
            out,
            format_args!(
                "<title>{}</title>\n<desc>{}</desc>\n<style>{}</style>\n",
                Escaped(&self.title),
                Escaped(&self.description()),
                sheet(self)
            ),
        );
        put(
            out,
            format_args!("<rect class=\"cx-bg\" width=\"{w}\" height=\"{h}\"/>\n"),
        );
    }

    /// The legend and the notes, below `top`, as far left as the cells begin.
    fn foot(&self, out: &mut String, left: i64, top: i64) {
        let mut y = top + 100;
        if !self.legend.is_empty() {
            self.draw_legend(out, left, y);
            y += CAPTION_LINE;
        }
        for note in &self.notes {
            let (x, y_text) = (Px(left), Px(y + CAPTION_FONT));
            let (size, note) = (Px(CAPTION_FONT), Escaped(note));
            put(
                out,
                format_args!(
                    "<text class=\"cx-m\" x=\"{x}\" y=\"{y_text}\" font-size=\"{size}\">{note}</text>\n"
                ),
            );
            y += CAPTION_LINE;
        }
    }

    fn draw_legend(&self, out: &mut String, left: i64, y: i64) {
        let mut x = left;
        for (fill, text) in &self.legend {
            let (letter, number, _) = fill.class();
            put(
                out,
                format_args!(
                    "<rect class=\"cx-{letter}{number}\" x=\"{}\" y=\"{}\" width=\"14\" height=\"14\"/>",
                    Px(x),
                    Px(y + 10)
                ),
            );
            let (size, text_x) = (Px(CAPTION_FONT), Px(x + 190));
            put(
                out,
                format_args!(
                    "<text x=\"{text_x}\" y=\"{}\" font-size=\"{size}\">{}</text>\n",
                    Px(y + CAPTION_FONT),
                    Escaped(text)
                ),
            );
            x += legend_width(text);
        }
    }

    fn foot_height(&self) -> i64 {
        let lines = self.notes.len() as i64 + i64::from(!self.legend.is_empty());
        if lines == 0 {
            0
        } else {
            100 + lines * CAPTION_LINE
        }
    }

    fn foot_width(&self) -> i64 {
        let legend: i64 = self.legend.iter().map(|(_, text)| legend_width(text)).sum();
        let notes = self.notes.iter().map(|note| width_of(note, CAPTION_FONT));
        legend.max(notes.max().unwrap_or(0))
    }
}

/// The fonts of readers' systems in which all digits have one width.
const FONT: &str = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";

/// What a swatch with its text takes; without a text, the swatches join to a bar.
fn legend_width(text: &str) -> i64 {
    if text.is_empty() {
        140
    } else {
        190 + width_of(text, CAPTION_FONT) + 160
    }
}

fn width_of(text: &str, font: i64) -> i64 {
    text_width(text.chars().count() as i64, font)
}

/// Where the grids of a picture go.
struct Places {
    /// The left edge of each column of grids, and the upper edge of each row, captions below it.
    xs: alloc::vec::Vec<i64>,
    ys: alloc::vec::Vec<i64>,
    right: i64,
    bottom: i64,
}

impl Places {
    fn of(picture: &Picture, metrics: &Metrics) -> Self {
        let columns = picture
            .blocks
            .iter()
            .map(alloc::vec::Vec::len)
            .max()
            .unwrap_or(0);
        let column = |at: usize| {
            picture
                .blocks
                .iter()
                .filter_map(move |row| row.get(at)?.as_ref())
        };
        let width = |grid: &Grid| {
            let caption = grid
                .caption
                .as_ref()
                .map_or(0, |text| width_of(text, CAPTION_FONT));
            metrics.extent(grid).0.max(metrics.left + caption)
        };
        let (mut xs, mut x) = (alloc::vec::Vec::new(), MARGIN);
        for at in 0..columns {
            xs.push(x);
            x += column(at).map(width).max().unwrap_or(0) + GAP;
        }
        let (mut ys, mut y) = (alloc::vec::Vec::new(), MARGIN);
        for row in &picture.blocks {
            let grids = || row.iter().flatten();
            y += if grids().any(|grid| grid.caption.is_some()) {
                CAPTION_LINE
            } else {
                0
            };
            ys.push(y);
            y += grids()
                .map(|grid| metrics.extent(grid).1)
                .max()
                .unwrap_or(0)
                + GAP * 2 / 3;
        }
        Self {
            xs,
            ys,
            right: x - GAP,
            bottom: y - GAP * 2 / 3,
        }
    }

    fn grids<'a>(&'a self, picture: &'a Picture) -> impl Iterator<Item = (&'a Grid, i64, i64)> {
        let rows = picture.blocks.iter().zip(&self.ys);
        rows.flat_map(|(row, y)| {
            let cells = row.iter().zip(&self.xs);
            cells.filter_map(|(grid, x)| Some((grid.as_ref()?, *x, *y)))
        })
    }
}

impl Fill {
    /// Returns the colours of a scale from `low` to `high` as a legend: a bar with both numbers.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::Fill;
    /// let bar = Fill::bar("offset", 0, 63);
    /// assert_eq!((bar.len(), bar[15].1.as_str()), (16, "offset 0 to 63"));
    /// ```
    #[must_use]
    pub fn bar(what: &str, low: i64, high: i64) -> alloc::vec::Vec<(Self, String)> {
        let steps = (0..16).map(|n| (Self::Scale(n), String::new()));
        let mut bar: alloc::vec::Vec<_> = steps.collect();
        bar[15].1 = alloc::format!("{what} {low} to {high}");
        bar
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cell;

    /// Checks that the elements nest, that attributes are quoted, and that no character stands where it must be
    /// escaped.
    fn assert_well_formed(svg: &str) {
        let mut open = alloc::vec::Vec::new();
        let mut rest = svg;
        while let Some((text, tail)) = rest.split_once('<') {
            assert!(!text.contains('>') && text.matches('&').count() == text.matches(';').count());
            let (tag, tail) = tail.split_once('>').expect("a tag ends");
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            match (tag.strip_prefix('/'), tag.strip_suffix('/')) {
                (Some(name), _) => assert_eq!(open.pop(), Some(name)),
                (_, Some(_)) => {}
                _ => open.push(tag.split(' ').next().expect("a tag has a name")),
            }
            // The style sheet has no character that needs escaping, but semicolons of its own.
            rest = tail;
            if open.last() == Some(&"style") {
                rest = &tail[tail.find("</style>").expect("the style sheet ends")..];
            }
        }
        assert!(open.is_empty() && rest.trim().is_empty());
    }

    #[test]
    fn pictures_are_well_formed() {
        let nasty = |row: i64, col: i64| {
            let fill = [Fill::Blank, Fill::Void, Fill::thread(col)][(row % 3) as usize];
            Cell::new(["<&>\"'", "2"]).filled(fill)
        };
        let grid = Grid::from_fn(3, 4, nasty)
            .expect("small")
            .caption("a < b & c")
            .axes("<m>", "&n");
        let walked = grid.clone().path([(0, 0), (2, 3)]).expect("inside");
        let marked = grid
            .focus(|row, _| row == 1)
            .regions(|row, col| row / 2 + col);
        let picture = Picture::above([walked, marked])
            .title("<title>")
            .note("a \"note\" & more");
        assert_well_formed(&picture.legend(Fill::bar("<x>", 0, 9)).svg());
    }

    #[test]
    fn rows_and_columns_of_neighbours_line_up() {
        let grid = |rows, cols| Grid::from_fn(rows, cols, |_, _| Cell::new(["T0"])).expect("small");
        let picture = Picture::mma(grid(4, 2).caption("A"), grid(2, 3), grid(4, 3));
        let metrics = Metrics::of(&picture);
        let places = Places::of(&picture, &metrics);
        let at: alloc::vec::Vec<_> = places.grids(&picture).map(|(_, x, y)| (x, y)).collect();
        let [b, a, c] = at.as_slice() else {
            panic!("there are three grids")
        };
        assert_eq!((b.0, a.1), (c.0, c.1));
        assert!(a.0 < c.0 && b.1 < c.1);
    }
}
