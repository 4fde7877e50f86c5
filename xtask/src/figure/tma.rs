//! `figure tma-box`: a box of the copy engine over a tensor, and what one load of it leaves in shared memory.
//!
//! The subject is the layout of a matrix of 32-bit floats whose rows are contiguous. Keys:
//! - `box`: the tile that one load moves, such as `(4,8)`; needed;
//! - `at`: the coordinate of the matrix where the box begins, such as `(4,8)`; needed;
//! - `shared`: the layout of the tile in shared memory; without it, row by row.
//!
//! The elements, their places and the zeros are those of the tensor map that `TmaPlan` derives.

use std::collections::BTreeMap;

use colex_atom::{TmaElement, TmaPlan, TmaTile};
use colex_draw::{Cell, Fill, Grid, Headers, Picture};
use colex_layout::{ComposedLayout, Layout, Tiler};

use super::options::{needed, pair, parsed};
use super::{Body, Error};

/// The bytes of an element.
const BYTES: i64 = 4;

pub(super) fn draw(body: &Body) -> Result<Picture, Error> {
    let [text] = body.subjects()? else {
        return Err(Error::new(
            "a box has one subject: the layout of the matrix",
        ));
    };
    let matrix: Layout = parsed(text, "a layout")?;
    let [rows, columns] = extents(&matrix)?;
    let (height, width) = pair(needed(body, "box")?)?;
    let (top, left) = pair(needed(body, "at")?)?;
    let shared = match body.value("shared") {
        Some(text) => parsed::<ComposedLayout>(text, "a layout")?,
        None => ComposedLayout::from(Layout::new((height, width), (width, 1))?),
    };
    let loaded = loaded(&matrix, [height, width], [top, left], &shared)?;

    let of = |row: i64, column: i64| {
        let is_in_matrix = (0..rows).contains(&row) && (0..columns).contains(&column);
        if is_in_matrix {
            Fill::pastel(0)
        } else {
            Fill::Blank
        }
    };
    let in_box = |row: i64, column: i64| {
        (top..top + height).contains(&row) && (left..left + width).contains(&column)
    };
    let (first_row, first_column) = (top.min(0), left.min(0));
    let cell = |row: i64, column: i64| {
        let (row, column) = (row + first_row, column + first_column);
        if in_box(row, column) {
            named(of(row, column), row, column)
        } else {
            Cell::default().filled(of(row, column))
        }
    };
    let headers = |first: i64, count: i64| {
        Headers::Named((first..first + count).map(|at| at.to_string()).collect())
    };
    let (down, across) = (
        rows.max(top + height) - first_row,
        columns.max(left + width) - first_column,
    );
    let tensor = Grid::from_fn(down, across, cell)?
        .focus(|row, column| in_box(row + first_row, column + first_column))
        .caption(format!("{matrix}, a box at ({top},{left})"))
        .headers(headers(first_row, down), headers(first_column, across))
        .axes("m", "n");
    let tile = Grid::from_fn(height, width, |row, column| {
        loaded[&(row * width + column)].clone()
    })?
    .caption("shared memory");
    Ok(Picture::above([tensor, tile])
        .title(format!(
            "A box of {height} by {width} at ({top},{left}) of a matrix of {rows} by {columns}, and shared memory after its load"
        ))
        .legend([(Fill::pastel(0), "the matrix"), (Fill::Void, "outside: zeros")]))
}

/// A cell with the coordinate of an element, or with the zero that lies in its place.
fn named(fill: Fill, row: i64, column: i64) -> Cell {
    if fill == Fill::Blank {
        Cell::new(["0"]).filled(Fill::Void)
    } else {
        Cell::new([format!("{row},{column}")]).filled(fill)
    }
}

/// The extents of a matrix whose rows are contiguous.
fn extents(matrix: &Layout) -> Result<[i64; 2], Error> {
    let leaves = matrix.leaves();
    let [rows, columns] = leaves else {
        return Err(Error::new(format!("{matrix} is not a matrix")));
    };
    if columns.stride.as_int().is_none_or(|d| d.value() != 1) {
        return Err(Error::new(format!(
            "the rows of {matrix} are not contiguous"
        )));
    }
    Ok([rows.extent.value(), columns.extent.value()])
}

/// What lies at each place of shared memory after one load, as the tensor map says.
fn loaded(
    matrix: &Layout,
    [height, width]: [i64; 2],
    [top, left]: [i64; 2],
    shared: &ComposedLayout,
) -> Result<BTreeMap<i64, Cell>, Error> {
    let tile: Tiler = parsed(&format!("({height},{width})"), "a tile")?;
    let plan = TmaPlan::new(TmaTile {
        global: matrix,
        tile: &tile,
        shared,
        element: TmaElement::F32,
        multicast: 1,
    })?;
    let [_] = plan.instructions()?.as_slice() else {
        return Err(Error::new(format!(
            "one load does not move ({height},{width}) into {shared}"
        )));
    };
    let map = plan.map();
    let mut cells = BTreeMap::new();
    for (i, element) in map.loaded(&[left, top])?.into_iter().enumerate() {
        let (row, column) = (top + i as i64 / width, left + i as i64 % width);
        let fill = match element.global {
            Some(offset) if offset == BYTES * matrix.at((row, column))? => Fill::pastel(0),
            Some(offset) => {
                return Err(Error::new(format!(
                    "({row},{column}) is not at byte {offset}"
                )));
            }
            None => Fill::Blank,
        };
        let place = map.swizzle.on_bytes().apply(element.shared) / BYTES;
        cells.insert(place, named(fill, row, column));
    }
    if cells.len() as i64 == height * width {
        return Ok(cells);
    }
    Err(Error::new(format!("a load of {shared} leaves gaps")))
}

#[cfg(test)]
mod tests {
    use crate::figure::{draw, refused};

    #[test]
    fn a_box_over_the_corner_is_filled_with_zeros() {
        let html = draw("tma-box", "(6,12):(12,1)\nbox = (4,8)\nat = (4,8)");
        let html = html.expect("the body is well formed");
        // 2 by 4 elements of the matrix, in both drawings, and 24 zeros.
        assert_eq!(html.matches(">5,11</text>").count(), 2);
        assert_eq!(html.matches(">6,11</text>").count(), 0);
        let is_zero = |text: &&str| text.contains("\"bold\"") && text.contains(">0</text>");
        assert_eq!(html.split("<text").filter(is_zero).count(), 24);
        let before = draw("tma-box", "(6,12):(12,1)\nbox = (4,8)\nat = (-1,-4)");
        assert!(before.expect("it may begin before").contains(">-4</text>"));
    }

    #[test]
    fn mistakes_are_sentences() {
        let error = |body: &str| refused("tma-box", body);
        assert_eq!(error("(6,12):(12,1)"), "the figure needs `box = ..`");
        assert_eq!(
            error("(6,12):(1,6)\nbox = (4,8)\nat = (0,0)"),
            "the rows of (6,12):(1,6) are not contiguous"
        );
        assert_eq!(
            error("72:1\nbox = (4,8)\nat = (0,0)"),
            "72:1 is not a matrix"
        );
        assert_eq!(
            error("(6,12):(12,1)\n8:1\nbox = (4,8)\nat = (0,0)"),
            "a box has one subject: the layout of the matrix"
        );
    }
}
