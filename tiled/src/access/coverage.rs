//! Which threads access which elements of a tensor, and how often.

use colex_layout::{IntTuple, Layout};

use crate::Error;
use crate::access::map::{Coords, tuple};
use crate::tensor::extents::bare;

/// A thread and the coordinate it names.
pub type Place = (i64, IntTuple);

/// How many there are, and the first.
pub(crate) type Found<T> = (usize, Option<T>);

/// Which threads access which elements of a tensor.
pub(crate) struct Coverage {
    /// How often each coordinate is named, in colexicographic order.
    counts: Vec<u32>,
    extents: Vec<i64>,
    pub(crate) repeated: Found<Place>,
    pub(crate) outside: Found<Place>,
    pub(crate) idle: Vec<i64>,
}

impl Coverage {
    pub(crate) fn new<'a>(
        tensor: &Layout,
        named: impl IntoIterator<Item = (i64, Coords<'a>)>,
    ) -> Self {
        let modes = || tensor.modes().map(|mode| mode.size());
        let mut coverage = Self {
            counts: vec![0; usize::try_from(tensor.size()).unwrap_or(0)],
            extents: modes().collect(),
            repeated: (0, None),
            outside: (0, None),
            idle: Vec::new(),
        };
        for (thread, coords) in named {
            let mut active = false;
            for coord in coords.iter() {
                let Some(index) = coverage.index(coord) else {
                    note(&mut coverage.outside, || (thread, tuple(coord)));
                    continue;
                };
                active = true;
                coverage.counts[index] += 1;
                if coverage.counts[index] > 1 {
                    note(&mut coverage.repeated, || (thread, tuple(coord)));
                }
            }
            if !active {
                coverage.idle.push(thread);
            }
        }
        coverage
    }

    /// The coordinates of the tensor that no thread accesses.
    pub(crate) fn missing(&self, extents: &IntTuple) -> Result<Found<IntTuple>, Error> {
        self.missing_of(extents, |_| true)
    }

    /// The coordinates that are wanted, and that no thread accesses.
    pub(crate) fn missing_of(
        &self,
        extents: &IntTuple,
        wanted: impl Fn(&IntTuple) -> bool,
    ) -> Result<Found<IntTuple>, Error> {
        let mut found = (0, None);
        for (index, count) in (0..).zip(&self.counts) {
            if *count == 0 {
                let coord = bare(extents.coord(index)?);
                if wanted(&coord) {
                    note(&mut found, || coord);
                }
            }
        }
        Ok(found)
    }

    /// The fewest and the most times that an element is named, and the first that is named another number of times
    /// than the element before it.
    pub(crate) fn times(
        &self,
        extents: &IntTuple,
    ) -> Result<([usize; 2], Option<IntTuple>), Error> {
        let least = self.counts.iter().min().copied().unwrap_or(0);
        let most = self.counts.iter().max().copied().unwrap_or(0);
        let change = self.counts.windows(2).position(|pair| pair[0] != pair[1]);
        let coord = change
            .map(|before| extents.coord(before as i64 + 1))
            .transpose()?;
        Ok(([least as usize, most as usize], coord.map(bare)))
    }

    /// The index of a coordinate inside.
    fn index(&self, coord: &[i64]) -> Option<usize> {
        let mut digits = coord.iter().zip(&self.extents).rev();
        let index = digits.try_fold(0, |index, (digit, extent)| {
            let inside = (0..*extent).contains(digit);
            inside.then_some(index * extent + digit)
        });
        usize::try_from(index?).ok()
    }
}

/// Counts one more, and keeps the first.
fn note<T>(count: &mut Found<T>, first: impl FnOnce() -> T) {
    count.0 += 1;
    count.1.get_or_insert_with(first);
}
