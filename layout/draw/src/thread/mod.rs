//! Which thread holds which element of a tile: a thread-value layout, tabulated.

pub(crate) mod fit;
mod grid;
mod pictures;
mod place;
mod text;

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::error::Error;
use crate::table::{cells, check_cells, operand};
use crate::thread::place::place;
use colex_layout::IntoLayout;

/// The most (thread, value) pairs that one map holds.
const MAX_PAIRS: i64 = 1 << 20;

/// A thread-value layout over a tile: where the value `v` of the thread `t` lies, and which threads hold a given cell.
///
/// # Example
///
/// ```
/// use colex_draw::ThreadValues;
/// // The accumulator of the 16x8 instructions of Ampere.
/// let c = ThreadValues::of("((4,8),(2,2)):((32,1),(16,8))", 16, 8)?;
/// assert_eq!((c.threads(), c.values()), (32, 4));
/// assert_eq!(c.place(5, 2), (9, 2));
/// assert_eq!(c.owners(9, 2), [(5, 2)]);
/// # Ok::<(), colex_draw::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadValues {
    pub(crate) heading: String,
    rows: i64,
    cols: i64,
    threads: i64,
    values: i64,
    /// What each thread is called.
    numbers: Vec<i64>,
    /// The cell of each pair, the thread running fastest.
    places: Vec<(i64, i64)>,
    /// The pairs at each cell, row by row; within a cell by thread, then by value.
    owners: Vec<SmallVec<[(i64, i64); 1]>>,
}

impl ThreadValues {
    /// Returns the map of `layout`, of rank 2, `(thread, value)` to the tile of `rows` by `cols`.
    ///
    /// Integer strides count the elements of the tile column by column, `row + rows * col`, as those of atoms do;
    /// coordinate strides `1@0` and `1@1` step down and right.
    ///
    /// # Errors
    ///
    /// Returns an error if the rank is not 2, if the tile or the layout is too large to draw, if a pair falls outside
    /// the tile, or for XOR strides and coordinates of more than two modes.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::ThreadValues;
    /// let map = ThreadValues::of("(4,2):(1@0,1@1)", 4, 2)?;
    /// assert_eq!(map.place(3, 1), (3, 1));
    /// let error = ThreadValues::of(((4, 2), (1, 4)), 2, 2).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "draw of (4,2):(1,4): thread 0, value 1 falls on element 4, outside the tile of 2 by 2",
    /// );
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    pub fn of(layout: impl IntoLayout, rows: i64, cols: i64) -> Result<Self, Error> {
        let layout = &layout.into_layout()?;
        let heading = layout.to_string();
        let (Some(threads), Some(_), 2) = (layout.mode(0), layout.mode(1), layout.rank()) else {
            return Err(operand(
                &heading,
                "a thread-value layout has rank 2, (thread,value)",
            ));
        };
        let threads = threads.size();
        Self::try_from_fn(
            heading,
            [rows, cols],
            [threads, layout.size() / threads],
            |t, v| place(layout, t + threads * v, rows),
        )
    }

    /// Returns the map that `place(thread, value)` gives as (row, column), under a heading.
    ///
    /// # Errors
    ///
    /// Returns an error if there are no threads or values, if the tile is too large to draw, or if a pair falls outside
    /// the tile.
    pub fn from_fn(
        heading: impl Into<String>,
        [rows, cols]: [i64; 2],
        [threads, values]: [i64; 2],
        place: impl Fn(i64, i64) -> (i64, i64),
    ) -> Result<Self, Error> {
        Self::try_from_fn(heading.into(), [rows, cols], [threads, values], |t, v| {
            Ok(place(t, v))
        })
    }

    fn try_from_fn(
        heading: String,
        [rows, cols]: [i64; 2],
        [threads, values]: [i64; 2],
        place: impl Fn(i64, i64) -> Result<(i64, i64), Error>,
    ) -> Result<Self, Error> {
        check_cells(&heading, cells(rows, cols))?;
        check_pairs(&heading, threads, values)?;
        let mut map = Self {
            heading,
            rows,
            cols,
            threads,
            values,
            numbers: (0..threads).collect(),
            places: Vec::new(),
            owners: alloc::vec![SmallVec::new(); (rows * cols) as usize],
        };
        for value in 0..values {
            for thread in 0..threads {
                map.places.push(place(thread, value)?);
            }
        }
        map.collect_owners()?;
        Ok(map)
    }

    fn collect_owners(&mut self) -> Result<(), Error> {
        for (thread, value) in pairs(self.threads, self.values) {
            let (row, col) = self.place(thread, value);
            if !(0..self.rows).contains(&row) || !(0..self.cols).contains(&col) {
                return Err(self.outside(thread, value));
            }
            self.owners[(row * self.cols + col) as usize].push((thread, value));
        }
        Ok(())
    }

    fn outside(&self, thread: i64, value: i64) -> Error {
        let (row, col) = self.place(thread, value);
        let tile = alloc::format!("outside the tile of {} by {}", self.rows, self.cols);
        let element = col.checked_mul(self.rows).and_then(|n| n.checked_add(row));
        let at = match element.filter(|_| (0..self.rows).contains(&row)) {
            Some(element) => alloc::format!("element {element}"),
            None => alloc::format!("({row},{col})"),
        };
        operand(
            &self.heading,
            &alloc::format!("thread {thread}, value {value} falls on {at}, {tile}"),
        )
    }

    /// Returns the same map under another heading.
    #[must_use]
    pub fn titled(mut self, heading: impl Into<String>) -> Self {
        self.heading = heading.into();
        self
    }

    /// Returns the same map whose threads are called by other numbers: the lanes that the logical threads of an
    /// instruction are, such as 0 to 3 and 16 to 19 for the quad-pairs of Volta.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::ThreadValues;
    /// use colex_layout::Layout;
    /// let lanes: Layout = "(4,2):(1,16)".parse()?;
    /// let map = ThreadValues::of("(8,8):(1,8)", 8, 8)?.numbered(|thread| lanes.at(colex_layout::Unbounded(thread)).unwrap_or(thread));
    /// assert_eq!(map.grid().cell(5, 2).lines.as_slice(), ["T17", "V2"]);
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    #[must_use]
    pub fn numbered(mut self, number: impl Fn(i64) -> i64) -> Self {
        self.numbers = (0..self.threads).map(number).collect();
        self
    }

    /// What a thread is called in drawings.
    pub(crate) fn number(&self, thread: i64) -> i64 {
        self.numbers[thread as usize]
    }

    /// Whether every thread holds the whole tile, as when an operand lies in shared memory.
    pub(crate) fn is_shared(&self) -> bool {
        self.threads > 1
            && self
                .owners
                .iter()
                .all(|owners| owners.len() as i64 == self.threads)
    }

    /// Returns the text above the map.
    #[must_use]
    pub fn heading(&self) -> &str {
        &self.heading
    }

    /// Returns the rows of the tile.
    #[must_use]
    pub fn rows(&self) -> i64 {
        self.rows
    }

    /// Returns the columns of the tile.
    #[must_use]
    pub fn cols(&self) -> i64 {
        self.cols
    }

    /// Returns the number of threads.
    #[must_use]
    pub fn threads(&self) -> i64 {
        self.threads
    }

    /// Returns the number of values that each thread holds.
    #[must_use]
    pub fn values(&self) -> i64 {
        self.values
    }

    /// Returns the cell, (row, column), of a thread's value.
    ///
    /// # Panics
    ///
    /// When there is no such thread or value, as indexing a slice does.
    #[must_use]
    pub fn place(&self, thread: i64, value: i64) -> (i64, i64) {
        assert!(
            (0..self.threads).contains(&thread) && (0..self.values).contains(&value),
            "there is no value {value} of thread {thread}"
        );
        self.places[(thread + self.threads * value) as usize]
    }

    /// Returns the holders of a cell: (thread, value) pairs by thread, then by value. Several when the map broadcasts,
    /// and none where the map leaves the tile uncovered.
    ///
    /// # Panics
    ///
    /// When the cell is outside the tile, as indexing a slice does.
    #[must_use]
    pub fn owners(&self, row: i64, col: i64) -> &[(i64, i64)] {
        assert!(
            (0..self.rows).contains(&row) && (0..self.cols).contains(&col),
            "({row},{col}) is not in the tile"
        );
        &self.owners[(row * self.cols + col) as usize]
    }

    /// The pairs that CuTe's drawings show, by thread, then by value: the first at each cell.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        pairs(self.threads, self.values).filter(|&(thread, value)| {
            let (row, col) = self.place(thread, value);
            self.owners(row, col).first() == Some(&(thread, value))
        })
    }
}

fn pairs(threads: i64, values: i64) -> impl Iterator<Item = (i64, i64)> {
    (0..threads).flat_map(move |thread| (0..values).map(move |value| (thread, value)))
}

fn check_pairs(heading: &str, threads: i64, values: i64) -> Result<(), Error> {
    if threads < 1 || values < 1 {
        return Err(operand(heading, "it has no threads or no values"));
    }
    match threads.checked_mul(values) {
        Some(n) if n <= MAX_PAIRS => Ok(()),
        _ => Err(operand(
            heading,
            &alloc::format!(
                "{threads} threads of {values} values are more than the {MAX_PAIRS} pairs that a drawing takes"
            ),
        )),
    }
}

/// A map that fits its tile.
#[cfg(test)]
#[track_caller]
pub(crate) fn map(text: &str, rows: i64, cols: i64) -> ThreadValues {
    ThreadValues::of(text, rows, cols).expect("the map fits the tile")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn error(text: &str, rows: i64, cols: i64) -> String {
        ThreadValues::of(text, rows, cols)
            .expect_err("the map does not fit")
            .to_string()
    }

    #[test]
    fn a_place_far_outside_is_named_too() {
        let far = |_, _| (0, i64::MAX);
        let error = ThreadValues::from_fn("far", [2, 2], [1, 1], far).expect_err("it is outside");
        assert_eq!(
            alloc::string::ToString::to_string(&error),
            alloc::format!(
                "draw of far: thread 0, value 0 falls on (0,{}), outside the tile of 2 by 2",
                i64::MAX
            )
        );
    }

    #[test]
    fn owners_invert_places() {
        for (text, rows, cols) in [
            ("((4,8),(2,2)):((32,1),(16,8))", 16, 8),
            ("((2,2,2),(2,2,2)):((1,16,4),(8,2,32))", 8, 8),
            ("((4,8),(2,2,2)):((32,1),(16,8,128))", 16, 16),
        ] {
            let map = map(text, rows, cols);
            for row in 0..rows {
                for col in 0..cols {
                    let [(thread, value)] = *map.owners(row, col) else {
                        panic!("({row},{col}) of {text} has one owner")
                    };
                    assert_eq!(map.place(thread, value), (row, col), "{text}");
                }
            }
        }
    }

    #[test]
    fn a_broadcast_has_several_owners_and_shows_the_first() {
        let map = map("(4,2):(0,1)", 2, 2);
        assert_eq!(map.owners(1, 0), [(0, 1), (1, 1), (2, 1), (3, 1)]);
        assert_eq!(map.owners(0, 1), []);
        assert_eq!(map.shown().collect::<Vec<_>>(), [(0, 0), (0, 1)]);
    }

    #[test]
    fn coordinate_strides_name_the_cell_themselves() {
        let by_coordinate = map("((4,8),(2,2)):((2@1,1@0),(1@1,8@0))", 16, 8);
        let by_index = map("((4,8),(2,2)):((32,1),(16,8))", 16, 8);
        assert_eq!(by_coordinate.places, by_index.places);
    }

    #[test]
    fn what_does_not_fit_is_said() {
        assert_eq!(
            error("8:1", 4, 2),
            "draw of 8:1: a thread-value layout has rank 2, (thread,value)"
        );
        assert_eq!(
            error("(4,2):(1@0,1@1)", 2, 2),
            "draw of (4,2):(1@0,1@1): thread 2, value 0 falls on (2,0), outside the tile of 2 by 2"
        );
        assert_eq!(
            error("(4,2):(1@0@1,1@1)", 2, 2),
            "draw of (4,2):(1@0@1,1@1): the strides of a map to a tile are integers, or multiples of 1@0 and 1@1"
        );
        assert_eq!(
            error("(4096,512):(0,0)", 2, 2),
            "draw of (4096,512):(0,0): 4096 threads of 512 values are more than the 1048576 pairs that a drawing takes"
        );
        assert_eq!(
            error("(1,1):(0,0)", 0, 2),
            "draw of (1,1):(0,0): it has no cells"
        );
    }
}
