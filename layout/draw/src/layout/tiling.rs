//! A layout cut into tiles, cell by cell.

use alloc::format;
use alloc::vec::Vec;

use crate::error::Error;
use crate::table::{check_cells, operand};
use crate::{Fill, Grid, LabelBy, Picture, Table};
use colex_layout::{IntoLayout, IntoTiler, Layout, Tiler};

/// Which tile of a layout each cell of its drawing belongs to.
///
/// # Example
///
/// ```
/// use colex_draw::Tiling;
/// let tiling = Tiling::of("(4,6):(6,1)", "(2:1,2:3)")?;
/// // Rows 0,1 | 2,3; the columns of one tile are three apart.
/// assert_eq!(tiling.tile(3, 4), Some((1, 1)));
/// assert_eq!(tiling.tile(3, 1), Some((1, 1)));
/// assert_eq!(tiling.tile(3, 2), Some((1, 2)));
/// # Ok::<(), colex_draw::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiling {
    table: Table,
    heading: alloc::string::String,
    /// The tile of each cell, row by row.
    tiles: Vec<Option<(i64, i64)>>,
}

impl Tiling {
    /// Returns the tiles of `layout` that [`Layout::zipped_divide`] by `tiler` makes.
    ///
    /// A tuple cuts rows and columns, its modes beyond the second cutting the columns too; a single tiler cuts the
    /// whole layout by its index.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Table::of`] and of [`Layout::zipped_divide`], and an error if a nested part of the tiler
    /// leaves a remainder: tiles that stick out of a nested mode have no place in the drawing.
    pub fn of(layout: impl IntoLayout, tiler: impl IntoTiler) -> Result<Self, Error> {
        let (layout, tiler) = (&layout.into_layout()?, &tiler.into_tiler()?);
        let table = Table::of(layout)?;
        let (rows, cols) = (table.rows(), table.cols());
        let tiles = match tiler {
            Tiler::Modes(modes) if layout.rank() > 1 => {
                let down = cut(&layout.get(&[0])?, modes.first().unwrap_or(&Tiler::All))?;
                let right = match layout.rank() {
                    2 => cut(&layout.get(&[1])?, modes.get(1).unwrap_or(&Tiler::All))?,
                    rank => {
                        let rest = Tiler::Modes(modes.iter().skip(1).cloned().collect());
                        cut(&layout.take(1..rank)?, &rest)?
                    }
                };
                by_rows(rows, cols, |row, col| Some((down[row]?, right[col]?)))
            }
            _ => {
                let whole = cut(layout, tiler)?;
                by_rows(rows, cols, |row, col| {
                    Some((whole[row + rows as usize * col]?, 0))
                })
            }
        };
        let heading = format!("{layout} / {tiler}");
        Ok(Self {
            table,
            heading,
            tiles,
        })
    }

    /// Returns the tile of a cell, counted down and right; a tiler of the whole layout has one line of tiles, `(n,0)`.
    ///
    /// # Panics
    ///
    /// When the cell is outside the layout, as indexing a slice does.
    #[must_use]
    pub fn tile(&self, row: i64, col: i64) -> Option<(i64, i64)> {
        let _inside = self.table.at(row, col);
        self.tiles[(row * self.table.cols() + col) as usize]
    }

    /// Returns whether some cell belongs to `tile`.
    #[must_use]
    pub fn has(&self, tile: (i64, i64)) -> bool {
        self.tiles.contains(&Some(tile))
    }

    /// Returns the cells of the layout, coloured by tile, with strong lines between tiles.
    #[must_use]
    pub fn grid(&self, label: LabelBy) -> Grid {
        let tile = |row, col| self.tile(row, col);
        // Neighbours in either direction, and across a corner, are different modulo 8.
        let fill = |row, col| tile(row, col).map_or(Fill::Void, |(r, c)| Fill::pastel(r + 3 * c));
        let number = |row, col| tile(row, col).map_or(-1, |(r, c)| (r << 20) + c);
        let labelled = self.table.grid(crate::ColorBy::Nothing, label);
        Grid::filled(self.table.rows(), self.table.cols(), |row, col| {
            labelled.cell(row, col).clone().filled(fill(row, col))
        })
        .caption(&*self.heading)
        .regions(number)
    }

    /// Returns the picture of the tiling.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::{LabelBy, Tiling};
    /// let tiling = Tiling::of("(8,8):(8,1)", "(4,2)")?;
    /// let svg = tiling.picture(LabelBy::Offset).svg();
    /// assert!(svg.contains("(8,8):(8,1) / (4,2)"));
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    #[must_use]
    pub fn picture(&self, label: LabelBy) -> Picture {
        Picture::of(self.grid(label)).title(format!("{}, one colour per tile", self.heading))
    }

    /// Returns the picture with one tile before the others.
    #[must_use]
    pub fn picture_of(&self, tile: (i64, i64), label: LabelBy) -> Picture {
        let grid = self
            .grid(label)
            .focus(|row, col| self.tile(row, col) == Some(tile));
        Picture::of(grid).title(format!(
            "{}, tile ({},{}) in focus",
            self.heading, tile.0, tile.1
        ))
    }
}

/// The number of the tile of each coordinate of `mode`.
fn cut(mode: &Layout, tiler: &Tiler) -> Result<Vec<Option<i64>>, Error> {
    let size = mode.size();
    let mut tiles = alloc::vec![None; size as usize];
    if *tiler == Tiler::All {
        return Ok(alloc::vec![Some(0); size as usize]);
    }
    let places = match tiler {
        Tiler::Modes(_) => Layout::column_major(mode.shape())?,
        _ => Layout::column_major(size)?,
    };
    let divided = places.zipped_divide(tiler)?;
    check_cells(&format!("{mode} / {tiler}"), Some(divided.size()))?;
    if matches!(tiler, Tiler::Modes(_)) && divided.size() != size {
        let why = format!("the tiler {tiler} leaves a remainder in the nested mode");
        return Err(operand(&alloc::string::ToString::to_string(mode), &why));
    }
    let in_a_tile = divided.mode(0).map_or(1, |tile| tile.size());
    for (index, place) in divided.table()?.into_iter().enumerate() {
        // Beyond the size is where the last tiles stick out.
        if let Some(tile) = usize::try_from(place)
            .ok()
            .and_then(|place| tiles.get_mut(place))
        {
            *tile = Some(index as i64 / in_a_tile);
        }
    }
    Ok(tiles)
}

fn by_rows(
    rows: i64,
    cols: i64,
    tile: impl Fn(usize, usize) -> Option<(i64, i64)>,
) -> Vec<Option<(i64, i64)>> {
    let cells = (0..rows as usize).flat_map(|row| (0..cols as usize).map(move |col| (row, col)));
    cells.map(|(row, col)| tile(row, col)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    #[track_caller]
    fn tiling(layout: &str, tiler: &str) -> Tiling {
        Tiling::of(layout, tiler).expect("the tiler fits")
    }

    /// The offsets of a tile are those of mode 0 of the division, at the same tile of mode 1.
    #[test]
    fn the_cells_of_a_tile_are_those_of_the_division() {
        for (layout, tiler) in [
            ("(8,8):(8,1)", "(4,2)"),
            ("(9,(4,8)):(59,(13,1))", "(3:3,(2,4):(1,8))"),
            ("(8,6):(1,8)", "(2:4,3)"),
            ("(4,6,2):(1,4,24)", "(2,3,2)"),
        ] {
            let tiling = tiling(layout, tiler);
            let layout: Layout = layout.parse().expect("the text is a layout");
            let divided = layout.zipped_divide(tiler).expect("the tiler fits");
            let (tile, rest) = (divided.mode(0), divided.mode(1));
            let (tile, rest) = (tile.expect("rank 2").size(), rest.expect("rank 2").size());
            let down = (0..tiling.table.rows())
                .map(|row| tiling.tile(row, 0))
                .max();
            let down = down.flatten().expect("there are rows").0 + 1;
            for number in 0..rest {
                let mut theirs: Vec<_> = (0..tile)
                    .map(|i| divided.at(i + tile * number).expect("inside"))
                    .collect();
                let at = Some((number % down, number / down));
                let mut ours: Vec<_> = cells(&tiling.table)
                    .filter(|(row, col)| tiling.tile(*row, *col) == at)
                    .map(|(row, col)| tiling.table.at(row, col))
                    .collect();
                theirs.sort_unstable();
                ours.sort_unstable();
                assert_eq!(ours, theirs, "{layout} / {tiler}, tile {number}");
            }
        }
    }

    fn cells(table: &Table) -> impl Iterator<Item = (i64, i64)> + use<> {
        let cols = table.cols();
        (0..table.rows()).flat_map(move |row| (0..cols).map(move |col| (row, col)))
    }

    #[test]
    fn a_single_tiler_cuts_the_whole() {
        let tiling = tiling("(4,6):(1,4)", "8");
        assert_eq!(tiling.tile(3, 1), Some((0, 0)));
        assert_eq!(tiling.tile(0, 2), Some((1, 0)));
    }

    #[test]
    fn tiles_that_stick_out_are_cut_off() {
        let tiling = tiling("(5,4):(1,5)", "(2,4)");
        let down: Vec<_> = (0..5)
            .map(|row| tiling.tile(row, 0).expect("covered").0)
            .collect();
        assert_eq!(down, [0, 0, 1, 1, 2]);
    }

    #[test]
    fn a_remainder_in_a_nested_mode_is_refused() {
        let error =
            Tiling::of("((5,2),4):((1,5),10)", ((2, 2), 4)).expect_err("2 does not divide 5");
        assert_eq!(
            alloc::string::ToString::to_string(&error),
            "draw of (5,2):(1,5): the tiler (2,2) leaves a remainder in the nested mode"
        );
    }

    #[test]
    fn a_tiler_far_beyond_the_layout_is_refused_unwalked() {
        let error = Tiling::of("8:1", 1_i64 << 40).expect_err("2^40 cells are too many to walk");
        assert_eq!(
            alloc::string::ToString::to_string(&error),
            "draw of 8:1 / 1099511627776: it has 1099511627776 cells, and a drawing holds at most 65536"
        );
    }

    #[test]
    fn neighbouring_tiles_have_different_colours() {
        let grid = tiling("(32,32):(1,32)", "(2,2)").grid(LabelBy::Nothing);
        for (row, col) in (0..30).flat_map(|row| (0..30).map(move |col| (row, col))) {
            let fill = |row, col| grid.cell(row, col).fill;
            let here = fill(row, col);
            assert!(
                [(2, 0), (0, 2), (2, 2)]
                    .iter()
                    .all(|(r, c)| fill(row + r, col + c) != here)
            );
        }
    }

    #[test]
    fn pictures_of_tilings() {
        let squares = tiling("(8,8):(8,1)", "(4,2)");
        assert_snapshot!("svg_tiling", squares.picture(LabelBy::Offset).svg());
        assert_snapshot!(
            "svg_tile",
            squares.picture_of((1, 2), LabelBy::Offset).svg()
        );
        let apart = tiling("(4,8):(1,4)", "(2:2,(2,2):(1,4))");
        assert_snapshot!("svg_tiling_apart", apart.picture(LabelBy::Index).svg());
    }
}
