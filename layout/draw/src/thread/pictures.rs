//! Several thread-value maps in one picture: the operands of a matrix instruction, the two sides of a copy.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::error::Error;
use crate::picture::metrics::{CAPTION_FONT, Metrics, text_width};
use crate::thread::fit::{check_operands, check_sides};
use crate::thread::grid::with_legend;
use crate::{Grid, Picture, ThreadValues};

/// The widest tiles of which two stand side by side, so that both are on the page.
const BESIDE: i64 = 12;

impl ThreadValues {
    /// Returns the three maps of a matrix instruction: A at the left, B at the top, C in the centre.
    ///
    /// The maps go to tiles of M by N (`c`), M by K (`a`) and N by K (`b`, drawn transposed).
    ///
    /// # Errors
    ///
    /// Returns an error if the tiles do not fit together.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::ThreadValues;
    /// let map = |text: &str, rows, cols| ThreadValues::of(text, rows, cols);
    /// // SM80 16x8x8, f16.
    /// let c = map("((4,8),(2,2)):((32,1),(16,8))", 16, 8)?;
    /// let a = map("((4,8),(2,2)):((32,1),(16,8))", 16, 8)?;
    /// let b = map("((4,8),2):((16,1),8)", 8, 8)?;
    /// let svg = ThreadValues::mma(&c, &a, &b)?.svg();
    /// assert_eq!(svg.matches(">T31</text>").count(), 4 + 4 + 2);
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    pub fn mma(c: &Self, a: &Self, b: &Self) -> Result<Picture, Error> {
        Self::mma_by([c, a, b], Self::grid)
    }

    /// Returns the same as [`ThreadValues::mma`], with the cells of `thread` in focus in all three maps.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`ThreadValues::mma`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::{Mark, ThreadValues};
    /// let map = |text: &str, rows, cols| ThreadValues::of(text, rows, cols);
    /// let c = map("((4,8),(2,2)):((32,1),(16,8))", 16, 8)?;
    /// let b = map("((4,8),2):((16,1),8)", 8, 8)?;
    /// let picture = ThreadValues::mma_of(&c, &c, &b, 5)?;
    /// let seen = picture.grids().map(|grid| (0..8).filter(|&row| grid.cell(row, 2).mark == Mark::Focus).count());
    /// assert_eq!(seen.collect::<Vec<_>>(), [0, 1, 1]); // B above, then A and C
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    pub fn mma_of(c: &Self, a: &Self, b: &Self, thread: i64) -> Result<Picture, Error> {
        Self::mma_by([c, a, b], |map| map.grid_of(thread))
    }

    fn mma_by([c, a, b]: [&Self; 3], grid: impl Fn(&Self) -> Grid) -> Result<Picture, Error> {
        let [m, n, k] = check_operands(c, a, b)?;
        let title = format!(
            "Which thread holds what when {m} by {n} is computed from depth {k}: A {}, B {}, C {}",
            a.heading(),
            b.heading(),
            c.heading()
        );
        let upright = b.transposed();
        let named = [("A", a), ("B", &upright), ("C", c)];
        let picture = captioned(named, |captions| {
            let [a_is, b_is, c_is] = captions;
            Picture::mma(
                grid(a).caption(a_is).axes("m", "k"),
                grid(&upright).caption(b_is).axes("k", "n"),
                grid(c).caption(c_is).axes("m", "n"),
            )
        });
        let notes = [a, b, c].map(Self::notes);
        Ok(noted(picture.title(title), notes.concat()))
    }

    /// Returns the two maps of a copy: which threads read a tile and which write it. One grid where they are the same,
    /// else the source at the left of the destination, or above it where the tile is wide.
    ///
    /// # Errors
    ///
    /// Returns an error if the two are not maps over one tile.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::ThreadValues;
    /// let map = |text: &str| ThreadValues::of(text, 4, 4);
    /// let (rows, columns) = (map("(4,4):(1,4)")?, map("(4,4):(4,1)")?);
    /// assert_eq!(ThreadValues::copy(&rows, &rows)?.grids().count(), 1);
    /// assert_eq!(ThreadValues::copy(&rows, &columns)?.grids().count(), 2);
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    pub fn copy(source: &Self, destination: &Self) -> Result<Picture, Error> {
        Self::copy_by(source, destination, Self::grid)
    }

    /// Returns the same as [`ThreadValues::copy`], with the cells of `thread` in focus on both sides.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`ThreadValues::copy`].
    pub fn copy_of(source: &Self, destination: &Self, thread: i64) -> Result<Picture, Error> {
        Self::copy_by(source, destination, |map| map.grid_of(thread))
    }

    fn copy_by(
        source: &Self,
        destination: &Self,
        grid: impl Fn(&Self) -> Grid,
    ) -> Result<Picture, Error> {
        check_sides(source, destination)?;
        let named = [("source", source), ("destination", destination)];
        let picture = if source == destination {
            let caption = format!("source and destination  {}", source.heading());
            Picture::of(grid(source).caption(caption))
        } else if source.cols() > source.rows().min(BESIDE) {
            Picture::above(named.map(|(name, map)| grid(map).caption(caption(name, map))))
        } else {
            captioned(named, |[source_is, destination_is]| {
                let source = grid(source).caption(source_is);
                Picture::beside([source, grid(destination).caption(destination_is)])
            })
        };
        let title = format!(
            "Which thread reads what of a tile of {} by {}, {}, and which writes it, {}",
            source.rows(),
            source.cols(),
            source.heading(),
            destination.heading()
        );
        let notes = [source, destination].map(Self::notes);
        Ok(noted(picture.title(title), notes.concat()))
    }
}

/// The name of a map and its layout.
fn caption(name: &str, map: &ThreadValues) -> String {
    format!("{name}  {}", map.heading())
}

/// A picture whose grids are captioned by name and layout, or by name alone, with the layouts below, where they would
/// be wider than their grids and push their neighbours away.
fn captioned<const N: usize>(
    named: [(&str, &ThreadValues); N],
    draw: impl Fn([String; N]) -> Picture,
) -> Picture {
    let captions = named.map(|(name, map)| caption(name, map));
    let picture = draw(captions.clone());
    if captions_fit(&picture) {
        return picture;
    }
    let picture = draw(named.map(|(name, _)| name.into()));
    captions.into_iter().fold(picture, Picture::note)
}

/// Whether every caption is as narrow as its grid.
fn captions_fit(picture: &Picture) -> bool {
    let metrics = Metrics::of(picture);
    let width = |grid: &Grid| {
        let chars = grid.caption.as_ref().map_or(0, |text| text.chars().count());
        metrics.left + text_width(chars as i64, CAPTION_FONT)
    };
    picture
        .grids()
        .all(|grid| width(grid) <= metrics.extent(grid).0)
}

/// A picture with its legend and its notes, each once.
fn noted(picture: Picture, mut notes: Vec<String>) -> Picture {
    notes.sort();
    notes.dedup();
    notes.into_iter().fold(with_legend(picture), Picture::note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mark;
    use crate::thread::map;
    use alloc::string::ToString;
    use insta::assert_snapshot;

    #[test]
    fn a_picture_of_a_matrix_instruction() {
        let [c, a, b] = ["(4,1):(1,0)", "(4,2):(0,1)", "(4,2):(0,1)"].map(|text| map(text, 2, 2));
        let picture = ThreadValues::mma(&c, &a, &b).expect("M, N and K are 2");
        assert_snapshot!("svg_mma", picture.svg());
    }

    #[test]
    fn sides_that_differ_stand_beside_each_other_or_above() {
        let (rows, columns) = (map("(2,4):(1,2)", 2, 4), map("(2,4):(4,1)", 2, 4));
        let picture = ThreadValues::copy_of(&rows, &columns, 1).expect("one tile");
        assert_snapshot!("svg_copy", picture.svg());
        let error = ThreadValues::copy(&rows, &map("(2,4):(1,2)", 4, 2)).expect_err("two tiles");
        let why = "draw of (2,4):(1,2): its tile is 4 by 2, the source's 2 by 4";
        assert_eq!(error.to_string(), why);
    }

    #[test]
    fn a_thread_is_in_focus_in_every_map() {
        let [c, a, b] = ["(4,1):(1,0)", "(4,2):(0,1)", "(4,2):(0,1)"].map(|text| map(text, 2, 2));
        let picture = ThreadValues::mma_of(&c, &a, &b, 3).expect("M, N and K are 2");
        for (grid, map) in picture.grids().zip([&b.transposed(), &a, &c]) {
            for (row, col) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let holds = map.owners(row, col).iter().any(|(thread, _)| *thread == 3);
                let focus = grid.cell(row, col).mark == Mark::Focus;
                assert_eq!(focus, holds, "({row},{col})");
            }
        }
    }
}
