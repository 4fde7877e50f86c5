//! `figure im2col`: a convolution as a product: the image, and the matrix whose rows are what the filter sees.
//!
//! The subject is one of
//! - `window`: the pixels under the filter at one position, and the row of the matrix with them;
//! - `load`: the pixels that one load by an im2col tensor map brings, and the column of the matrix with them;
//! - `product`: the matrix A, the filters as B, and the output as C.
//!
//! Keys:
//! - `image`, needed, and `taps`, needed: rows by columns, such as `4x5` and `3x3`;
//! - `padding`: pixels of zeros on each side;
//! - `position`: the row `p` and column `q` of a window, such as `(1,2)`; needed for `window`;
//! - `tap`: the row `r` and column `s` of a tap, such as `(0,2)`, and `rows`: the first row of the matrix and the number of rows,
//!   such as `(4,8)`; needed for `load`;
//! - `filters`: how many there are, for `product`.
//!
//! A cell is a pixel with all of its channels. A colour is a row of the image, and of a product a filter. The pixels of a load are those of
//! the tensor map that `Im2colPlan` derives.

use colex_atom::{Im2colPlan, Im2colTile, Taps, TmaElement};
use colex_draw::{Cell, Fill, Grid, Headers, Picture};
use colex_layout::Layout;

use super::{Body, Error, count, extents, needed, pair};

/// The channels of a pixel in the tensor map of a load: 16 bytes of `f16`, the least that TMA takes.
const CHANNELS: i64 = 8;

pub(in super::super) fn draw(body: &Body) -> Result<Picture, Error> {
    let [what] = body.subjects()? else {
        return Err(unknown());
    };
    let padding = match body.value("padding") {
        None | Some("0") => 0,
        Some(_) => count(body, "padding", 0)?,
    };
    let window = Window {
        image: extents(body, "image")?,
        taps: extents(body, "taps")?,
        padding,
    };
    window.check()?;
    match what.as_str() {
        "window" => window.seen(pair(needed(body, "position")?)?),
        "load" => window.loaded(pair(needed(body, "tap")?)?, pair(needed(body, "rows")?)?),
        "product" => window.product(count(body, "filters", 2)?),
        _ => Err(unknown()),
    }
}

fn unknown() -> Error {
    Error::new("a figure of im2col has one subject, `window`, `load` or `product`")
}

/// An image and the filter that slides over it by one pixel; rows before columns.
struct Window {
    image: [i64; 2],
    taps: [i64; 2],
    padding: i64,
}

impl Window {
    fn check(&self) -> Result<(), Error> {
        let [p, q] = self.positions();
        if p < 1 || q < 1 {
            return Err(Error::new("the filter is larger than the padded image"));
        }
        Ok(())
    }

    /// How many positions the filter has along each dimension.
    fn positions(&self) -> [i64; 2] {
        [0, 1].map(|i| self.image[i] + 2 * self.padding - self.taps[i] + 1)
    }

    fn has_pixel(&self, [row, column]: [i64; 2]) -> bool {
        (0..self.image[0]).contains(&row) && (0..self.image[1]).contains(&column)
    }

    /// The pixel of an element of the matrix; both of its coordinates run over columns first.
    fn pixel(&self, row: i64, column: i64) -> [i64; 2] {
        let [_, q] = self.positions();
        let [_, s] = self.taps;
        [
            row / q + column / s - self.padding,
            row % q + column % s - self.padding,
        ]
    }

    fn cell(&self, at: [i64; 2]) -> Cell {
        if !self.has_pixel(at) {
            return Cell::new(["0"]).filled(Fill::Void);
        }
        let [row, column] = at;
        Cell::new([format!("{row},{column}")]).filled(Fill::pastel(row))
    }

    /// The image with its padding.
    fn image(&self, is_in_focus: impl Fn([i64; 2]) -> bool) -> Result<Grid, Error> {
        let pad = self.padding;
        let [height, width] = self.image.map(|extent| extent + 2 * pad);
        let named = |extent: i64| {
            let names = (-pad..extent - pad).map(|at| at.to_string());
            Headers::Named(names.collect())
        };
        let grid = Grid::from_fn(height, width, |row, column| {
            self.cell([row - pad, column - pad])
        })?;
        Ok(grid
            .focus(|row, column| is_in_focus([row - pad, column - pad]))
            .headers(named(height), named(width))
            .axes("h", "w")
            .caption("the image"))
    }

    /// The cell of a matrix that belongs to all filters.
    fn plain(&self, at: [i64; 2]) -> Cell {
        let cell = self.cell(at);
        if self.has_pixel(at) {
            cell.filled(Fill::Blank)
        } else {
            cell
        }
    }

    /// The matrix A: a row for each position, a column for each tap.
    fn matrix(&self, cell: impl Fn([i64; 2]) -> Cell) -> Result<Grid, Error> {
        let ([p, q], [r, s]) = (self.positions(), self.taps);
        let named = |[rows, columns]: [i64; 2]| {
            let all = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
            Headers::Named(all.map(|(row, column)| format!("{row},{column}")).collect())
        };
        let grid = Grid::from_fn(p * q, r * s, |row, column| cell(self.pixel(row, column)))?;
        Ok(grid.headers(named([p, q]), named([r, s])).caption(format!(
            "A, {} by {} C: (p,q) down, (r,s) across",
            p * q,
            r * s
        )))
    }

    fn picture(&self, image: Grid, matrix: Grid) -> Picture {
        let ([h, w], [r, s]) = (self.image, self.taps);
        Picture::beside([image, matrix]).title(format!(
            "An image of {h} by {w} pixels, and the matrix of a filter of {r} by {s}; a colour is a row of the image"
        ))
    }

    /// The window at a position.
    fn seen(&self, (p, q): (i64, i64)) -> Result<Picture, Error> {
        let [rows, columns] = self.positions();
        if !(0..rows).contains(&p) || !(0..columns).contains(&q) {
            return Err(Error::new(format!(
                "the filter has no position ({p},{q}): there are {rows} by {columns}"
            )));
        }
        let position = p * columns + q;
        let taps = 0..self.taps[0] * self.taps[1];
        let under: Vec<[i64; 2]> = taps.map(|tap| self.pixel(position, tap)).collect();
        let image = self.image(|at| under.contains(&at))?;
        let matrix = self.matrix(|at| self.cell(at))?;
        Ok(self.picture(image, matrix.focus(|row, _| row == position)))
    }

    /// What one load brings.
    fn loaded(&self, (r, s): (i64, i64), (first, rows): (i64, i64)) -> Result<Picture, Error> {
        let ([p, q], [r_taps, s_taps]) = (self.positions(), self.taps);
        if !(0..r_taps).contains(&r) || !(0..s_taps).contains(&s) {
            return Err(Error::new(format!(
                "the filter has no tap ({r},{s}): there are {r_taps} by {s_taps}"
            )));
        }
        if first < 0 || rows < 1 || first + rows > p * q {
            return Err(Error::new(format!(
                "the matrix has {} rows, and the load wants those from {first} to {}",
                p * q,
                first + rows
            )));
        }
        let tap = r * s_taps + s;
        let pixels: Vec<[i64; 2]> = (first..first + rows)
            .map(|row| self.pixel(row, tap))
            .collect();
        self.compare(&pixels, first, [s, r])?;
        let image = self.image(|at| pixels.contains(&at))?;
        let in_load = |row: i64, column: i64| column == tap && (first..first + rows).contains(&row);
        let matrix = self.matrix(|at| self.cell(at))?;
        Ok(self.picture(image, matrix.focus(in_load)))
    }

    /// Refuses pixels that are not those of the tensor map.
    fn compare(&self, pixels: &[[i64; 2]], first: i64, tap: [i64; 2]) -> Result<(), Error> {
        let [h, w] = self.image;
        let line = CHANNELS * w;
        let activations = Layout::new((CHANNELS, w, h, 1), (1, CHANNELS, line, line * h))?;
        let taps = [1, 0].map(|dimension| Taps {
            padding: [self.padding; 2],
            ..Taps::new(self.taps[dimension])
        });
        let shared = Layout::new((pixels.len() as i64, CHANNELS), (CHANNELS, 1))?;
        let plan = Im2colPlan::new(Im2colTile {
            activations: &activations,
            taps: &taps,
            shared: &shared,
            element: TmaElement::F16,
            multicast: 1,
        })?;
        let start = plan.start(first, 0, &tap)?;
        let column = plan.map().loaded_at(&start.coordinates, &start.offsets)?;
        for (pixel, element) in pixels.iter().zip(column.iter().step_by(CHANNELS as usize)) {
            let [row, column] = *pixel;
            let byte = 2 * CHANNELS * (row * w + column);
            let expected = self.has_pixel(*pixel).then_some(byte);
            if element.global != expected {
                return Err(Error::new(format!(
                    "the load brings {:?} for the pixel ({row},{column}) at {expected:?}",
                    element.global
                )));
            }
        }
        Ok(())
    }

    /// The operands and the result of the product.
    fn product(&self, filters: i64) -> Result<Picture, Error> {
        let ([p, q], [r, s]) = (self.positions(), self.taps);
        let taps = r * s;
        let filter = |row: i64, column: i64| {
            Cell::new([format!("{},{}", row / s, row % s)]).filled(Fill::pastel(column))
        };
        let numbers = |count: i64| Headers::Named((0..count).map(|k| k.to_string()).collect());
        let b = Grid::from_fn(taps, filters, filter)?
            .headers(Headers::None, numbers(filters))
            .caption(format!("B transposed, {taps} C by {filters}"));
        let output = |row: i64, column: i64| {
            Cell::new([format!("{},{}", row / q, row % q)]).filled(Fill::pastel(column))
        };
        let c = Grid::from_fn(p * q, filters, output)?
            .headers(Headers::None, Headers::None)
            .caption(format!("output, {} by {filters}", p * q));
        let a = self.matrix(|at| self.plain(at))?;
        Ok(Picture::mma(a, b, c).title(format!(
            "A of {} by {taps} C, B transposed of {taps} C by {filters}, and an output of {} by {filters}; a colour is a filter",
            p * q,
            p * q
        )))
    }
}

#[cfg(test)]
mod tests {
    use crate::figure::{draw, refused};

    const SMALL: &str = "image = 4x5\ntaps = 3x3\n";

    #[test]
    fn a_window_is_a_row_of_the_matrix() {
        let html = draw("im2col", &format!("window\n{SMALL}position = (1,2)"));
        let html = html.expect("the position exists");
        let bold = html.matches("font-weight=\"bold\"").count();
        assert_eq!(bold, 9 + 9, "{html}");
        assert!(html.contains("A, 6 by 9 C"));
        // The four rows of the image have a colour each.
        let is_there = |row: &usize| html.contains(&format!("cx-p{row}"));
        assert!((0..4).all(|row| is_there(&row)) && !is_there(&4));
    }

    #[test]
    fn a_load_is_a_column_with_its_zeros() {
        let body = format!("load\n{SMALL}padding = 1\ntap = (0,0)\nrows = (3,8)");
        let html = draw("im2col", &body).expect("the rows exist");
        let is_zero = |text: &&str| text.contains("\"bold\"") && text.contains(">0</text>");
        // Positions 3 and 4 lie above the image, 5 and 10 before a row of it: four zeros in each drawing.
        assert_eq!(html.split("<text").filter(is_zero).count(), 2 * 4);
    }

    #[test]
    fn a_product_has_three_matrices() {
        let html = draw("im2col", &format!("product\n{SMALL}filters = 2"));
        let html = html.expect("it is well formed");
        for caption in ["A, 6 by 9 C", "B transposed, 9 C by 2", "output, 6 by 2"] {
            assert!(html.contains(caption), "{caption}");
        }
        // The two filters have a colour each, in B and in the output, and A has none.
        let coloured = |class: &str| html.matches(&format!("class=\"{class}\"")).count();
        assert_eq!([coloured("cx-p0"), coloured("cx-p1")], [2, 2]);
        assert!(!html.contains("cx-t"), "{html}");
    }

    #[test]
    fn mistakes_are_sentences() {
        let error = |body: &str| refused("im2col", body);
        assert_eq!(
            error(&format!("box\n{SMALL}")),
            "a figure of im2col has one subject, `window`, `load` or `product`"
        );
        assert_eq!(
            error("window\nimage = 4\ntaps = 3x3"),
            "`image = 4` is not two numbers as in 4x5"
        );
        assert_eq!(
            error("window\nimage = 2x2\ntaps = 3x3\nposition = (0,0)"),
            "the filter is larger than the padded image"
        );
        assert_eq!(
            error(&format!("window\n{SMALL}position = (2,0)")),
            "the filter has no position (2,0): there are 2 by 3"
        );
        assert_eq!(
            error(&format!("load\n{SMALL}tap = (3,0)\nrows = (0,4)")),
            "the filter has no tap (3,0): there are 3 by 3"
        );
        assert_eq!(
            error(&format!("load\n{SMALL}tap = (0,0)\nrows = (4,4)")),
            "the matrix has 6 rows, and the load wants those from 4 to 8"
        );
    }
}
