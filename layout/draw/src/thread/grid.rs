//! Pictures of thread-value maps.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::{Cell, Fill, Grid, Picture, ThreadValues};

impl ThreadValues {
    /// Returns the tile with the thread `T` and the value `V` of each cell, coloured by thread.
    ///
    /// A cell that several threads hold shows the first; one that no thread holds is void.
    /// With more than one warp, strong lines run between the warps. Where every thread holds everything, as of an
    /// operand in shared memory, cells show the value alone.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::{Fill, ThreadValues};
    /// let grid = ThreadValues::of("((4,8),(2,2)):((32,1),(16,8))", 16, 8)?.grid();
    /// assert_eq!(grid.cell(9, 2).lines.as_slice(), ["T5", "V2"]);
    /// assert_eq!(grid.cell(9, 2).fill, Fill::Thread(5));
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    #[must_use]
    pub fn grid(&self) -> Grid {
        self.grid_by(|owners| owners.first().copied())
    }

    /// Returns the same as [`ThreadValues::grid`], with the cells of `thread` in focus: also where other threads hold
    /// them too.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::{Mark, ThreadValues};
    /// let c = ThreadValues::of("((2,2,2),(2,2,2)):((1,16,4),(8,2,32))", 8, 8)?;
    /// let grid = c.grid_of(5);
    /// let seen = |row, col| grid.cell(row, col).mark == Mark::Focus;
    /// assert!((0..8).all(|v| { let (row, col) = c.place(5, v); seen(row, col) }));
    /// assert!(!seen(0, 0));
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    #[must_use]
    pub fn grid_of(&self, thread: i64) -> Grid {
        let holds = |owners: &[(i64, i64)]| owners.iter().find(|(t, _)| *t == thread).copied();
        self.grid_by(|owners| holds(owners).or(owners.first().copied()))
            .focus(|row, col| holds(self.owners(row, col)).is_some())
    }

    fn grid_by(&self, chosen: impl Fn(&[(i64, i64)]) -> Option<(i64, i64)>) -> Grid {
        let is_shared = self.is_shared();
        let cell = |row, col| match chosen(self.owners(row, col)) {
            Some((_, value)) if is_shared => Cell::new([format!("V{value}")]),
            Some((thread, value)) => {
                let thread = self.number(thread);
                Cell::new([format!("T{thread}"), format!("V{value}")]).filled(Fill::thread(thread))
            }
            None => Cell::default().filled(Fill::Void),
        };
        let grid = Grid::filled(self.rows(), self.cols(), cell).caption(self.heading());
        if self.threads() <= 32 || is_shared {
            return grid;
        }
        let warp = |owners: &[(i64, i64)]| owners.first().map_or(-1, |(thread, _)| thread / 32);
        grid.regions(|row, col| warp(self.owners(row, col)))
    }

    /// Returns the picture of the map alone, with notes on what its cells cannot show.
    #[must_use]
    pub fn picture(&self) -> Picture {
        self.pictured(self.grid())
    }

    /// Returns the picture of one thread's values before those of all others.
    #[must_use]
    pub fn picture_of(&self, thread: i64) -> Picture {
        let caption = format!("{}, values of thread {thread}", self.heading());
        self.pictured(self.grid_of(thread).caption(caption))
    }

    fn pictured(&self, grid: Grid) -> Picture {
        let (rows, cols) = (self.rows(), self.cols());
        let (threads, values) = (self.threads(), self.values());
        let title = format!(
            "{}: {threads} threads with {values} values each on a tile of {rows} by {cols}",
            self.heading()
        );
        let picture = with_legend(Picture::of(grid).title(title));
        self.notes().into_iter().fold(picture, Picture::note)
    }

    /// What a reader would otherwise stumble over.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let cells = (0..self.rows()).flat_map(|row| (0..self.cols()).map(move |col| (row, col)));
        let owners: Vec<_> = cells.map(|(row, col)| self.owners(row, col)).collect();
        let most = owners.iter().map(|cell| cell.len()).max().unwrap_or(0);
        if self.is_shared() {
            notes.push(String::from(
                "Cells without a thread are seen by all of them.",
            ));
        } else if most > 1 {
            // The owners of a cell stand by thread.
            let has_twice = |cell: &&[(i64, i64)]| cell.windows(2).any(|two| two[0].0 == two[1].0);
            let what = if owners.iter().any(has_twice) {
                "(thread, value) pairs"
            } else {
                "threads"
            };
            notes.push(format!(
                "Up to {most} {what} share a cell; it shows the first."
            ));
        }
        if self.threads() > 32 && !self.is_shared() {
            notes.push(String::from("Colours repeat every 32 threads."));
        }
        notes
    }

    /// Returns the map with rows and columns exchanged.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::ThreadValues;
    /// let map = ThreadValues::of("(4,2):(1,4)", 4, 2)?.transposed();
    /// assert_eq!((map.rows(), map.cols(), map.place(3, 1)), (2, 4, (1, 3)));
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    #[must_use]
    pub fn transposed(&self) -> Self {
        let exchanged = |thread, value| {
            let (row, col) = self.place(thread, value);
            (col, row)
        };
        let (tile, pairs) = ([self.cols(), self.rows()], [self.threads(), self.values()]);
        Self::from_fn(self.heading(), tile, pairs, exchanged)
            .expect("a map that fits its tile fits it transposed")
            .numbered(|thread| self.number(thread))
    }
}

/// The colours of the threads, where there is no room for labels.
pub(crate) fn with_legend(picture: Picture) -> Picture {
    if picture.has_labels() {
        return picture;
    }
    let bar = (0..32).map(|n| (Fill::thread(n), if n == 31 { "thread 0 to 31" } else { "" }));
    picture.legend(bar)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mark;
    use crate::thread::map;
    use insta::assert_snapshot;

    const MAPS: [(&str, i64, i64); 4] = [
        ("((4,8),(2,2)):((32,1),(16,8))", 16, 8),
        ("((2,2,2),(2,2,2)):((1,16,4),(8,2,32))", 8, 8),
        ("((4,8),(2,2,2)):((32,1),(16,8,128))", 16, 16),
        ("((4,8,4),(2,2,2)):((128,1,16),(64,8,512))", 64, 16),
    ];

    #[test]
    fn every_pair_is_labelled_at_its_place() {
        for (text, rows, cols) in MAPS {
            let map = map(text, rows, cols);
            let grid = map.grid();
            for (thread, value) in
                (0..map.threads()).flat_map(|t| (0..map.values()).map(move |v| (t, v)))
            {
                let (row, col) = map.place(thread, value);
                let labels = [format!("T{thread}"), format!("V{value}")];
                assert_eq!(grid.cell(row, col).lines.as_slice(), labels, "{text}");
            }
        }
    }

    #[test]
    fn neighbouring_threads_have_different_colours() {
        for (text, rows, cols) in MAPS {
            let map = map(text, rows, cols);
            let grid = map.grid();
            let thread = |row, col| map.owners(row, col)[0].0;
            for (row, col) in (1..rows).flat_map(|row| (1..cols).map(move |col| (row, col))) {
                for (r, c) in [(row - 1, col), (row, col - 1)] {
                    let same = grid.cell(row, col).fill == grid.cell(r, c).fill;
                    assert_eq!(
                        same,
                        thread(row, col) == thread(r, c),
                        "{text} ({row},{col})"
                    );
                }
            }
        }
    }

    #[test]
    fn colours_are_explained_where_labels_have_no_room() {
        let (text, rows, cols) = ("((4,8,4),(2,2,8)):((128,1,16),(64,8,512))", 64, 64);
        let svg = map(text, rows, cols).picture().svg();
        assert!(svg.contains(">thread 0 to 31</text>") && !svg.contains(">T0</text>"));
    }

    #[test]
    fn a_thread_in_focus_shows_its_own_value_of_a_shared_cell() {
        let map = map("(4,2):(0,1)", 2, 2);
        let grid = map.grid_of(3);
        assert_eq!(grid.cell(1, 0).lines.as_slice(), ["T3", "V1"]);
        assert_eq!(
            (grid.cell(1, 0).mark, grid.cell(1, 1).mark),
            (Mark::Focus, Mark::Dim)
        );
        assert_eq!(grid.cell(1, 1).fill, Fill::Void);
    }

    #[test]
    fn what_every_thread_holds_has_no_thread() {
        let map = map("(128,(8,4)):(0,(1,8))", 8, 4);
        assert_eq!(map.grid().cell(3, 1).lines.as_slice(), ["V11"]);
        assert_eq!(
            map.notes(),
            ["Cells without a thread are seen by all of them."]
        );
    }

    #[test]
    fn pictures_of_maps() {
        let volta = map("((2,2,2),(2,2,2)):((1,16,4),(8,2,32))", 8, 8);
        assert_snapshot!("svg_volta_c", volta.picture().svg());
        assert_snapshot!("svg_volta_c_thread_5", volta.picture_of(5).svg());
        let broadcast = map("(64,2):(0,1)", 2, 1);
        assert_snapshot!("svg_broadcast", broadcast.picture().svg());
    }
}
