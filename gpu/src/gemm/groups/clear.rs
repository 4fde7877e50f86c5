//! What lies around a part of K, in a tile of shared memory that TMA has filled.

use colex_layout::Layout;
use colex_tensor::{Builder, Cond, Index, Outside, Tensor};

use crate::kernels::Major;

/// A tile (M or N, K) of shared memory, and the threads that clear a part of it together.
///
/// Numbers around a part of K belong to others, and may be infinite: zeros in the other matrix alone would not do.
#[derive(Clone, Copy)]
pub(crate) struct Cleared<'a> {
    pub(crate) tile: &'a Tensor,
    pub(crate) major: Major,
    pub(crate) thread: &'a Index,
    pub(crate) threads: i64,
}

/// Stores zeros in front of column `first`, which is less than a vector of 16 bytes and, where K is not contiguous, 0.
pub(crate) fn clear_before(k: &mut Builder, cleared: Cleared<'_>, first: &Index) {
    cleared.each_row(k, |k, row| {
        for column in 0..cleared.vector() - 1 {
            let column = Index::from(column);
            let is_before = k.less(&column, first);
            cleared.clear_one(k, is_before, (row, &column));
        }
    });
}

/// Stores zeros from column `rest` on: vectors of 16 bytes of the contiguous mode and, where `rest` divides a vector along K, the
/// elements of that one by one.
pub(crate) fn clear_behind(k: &mut Builder, cleared: Cleared<'_>, rest: &Index) {
    let Cleared { tile, major, .. } = cleared;
    let [rows, columns] = cleared.extents();
    let vector = cleared.vector();
    let (mode, along) = match major {
        Major::First => (0, rows / vector),
        Major::Second => (1, columns / vector),
    };
    cleared.each(k, rows * columns / vector, |k, number| {
        let [inner, outer] = [number % along * vector, number / along];
        let at = match major {
            Major::First => [inner, outer],
            Major::Second => [outer, inner],
        };
        let is_behind = k.less(rest, &(&at[1] + 1));
        k.if_(is_behind, |k| {
            let all = tile.elements((&at[0], &at[1])).vectors(mode, vector);
            k.scatter(0, &all.outside(Outside::Stated));
        });
    });
    if major == Major::First {
        return;
    }
    let whole = rest / vector * vector;
    let is_divided = k.less(&whole, rest);
    k.if_(is_divided, |k| {
        cleared.each_row(k, |k, row| {
            for i in 1..vector {
                let column = &whole + i;
                let is_behind = k.less(rest, &(&column + 1));
                let is_there = k.less(&column, &columns.into());
                let is_cleared = k.both(is_behind, is_there);
                cleared.clear_one(k, is_cleared, (row, &column));
            }
        });
    });
}

impl Cleared<'_> {
    /// Returns the elements of 16 bytes.
    fn vector(&self) -> i64 {
        128 / i64::from(self.tile.ty().bits())
    }

    fn extents(&self) -> [i64; 2] {
        let layout: &Layout = self.tile.layout();
        [0, 1].map(|mode| layout.mode(mode).map_or(1, |mode| mode.size()))
    }

    fn clear_one(&self, k: &mut Builder, cond: Cond, at: (&Index, &Index)) {
        k.if_(cond, |k| {
            let one = self.tile.elements(at).outside(Outside::Stated);
            k.scatter(0, &one);
        });
    }

    /// `body` for the rows that fall to a thread.
    fn each_row(&self, k: &mut Builder, body: impl Fn(&mut Builder, &Index)) {
        let [rows, _] = self.extents();
        self.each(k, rows, body);
    }

    /// `body` for the numbers of `count` parts that fall to a thread. The turns are written out: in a loop of its own, the
    /// consumer would lose its stage.
    fn each(&self, k: &mut Builder, count: i64, body: impl Fn(&mut Builder, &Index)) {
        for turn in 0..(count + self.threads - 1) / self.threads {
            let number = self.thread + turn * self.threads;
            let is_there = k.less(&number, &count.into());
            // The minimum states a bound that holds in the branch, and that no proof finds.
            let number = number.min(&(count - 1).into());
            k.if_(is_there, |k| body(k, &number));
        }
    }
}
