//! Who names what of a tensor, and how often.

use colex_layout::{IntTuple, Layout};

use crate::Error;
use crate::copy_host::{bare, inside};

/// A thread and the coordinate it names.
pub type Place = (i64, IntTuple);

/// How many there are, and the first.
pub(crate) type Found<T> = (usize, Option<T>);

/// Who names what of a tensor.
pub(crate) struct Coverage {
    /// How often each coordinate is named, in colexicographic order.
    counts: Vec<usize>,
    extents: Vec<i64>,
    pub(crate) repeated: Found<Place>,
    pub(crate) outside: Found<Place>,
    pub(crate) idle: Vec<i64>,
}

impl Coverage {
    pub(crate) fn new<'a>(
        tensor: &Layout,
        named: impl IntoIterator<Item = (i64, &'a [IntTuple])>,
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
            for coord in coords {
                if inside(thread, coord, tensor).is_err() {
                    note(&mut coverage.outside, || (thread, coord.clone()));
                    continue;
                }
                active = true;
                let index = coverage.index(coord);
                coverage.counts[index] += 1;
                if coverage.counts[index] > 1 {
                    note(&mut coverage.repeated, || (thread, coord.clone()));
                }
            }
            if !active {
                coverage.idle.push(thread);
            }
        }
        coverage
    }

    /// The coordinates of the tensor that nobody names.
    pub(crate) fn missing(&self, extents: &IntTuple) -> Result<Found<IntTuple>, Error> {
        let mut found = (0, None);
        for (index, count) in (0..).zip(&self.counts) {
            if *count == 0 {
                let coord = bare(extents.coord(index)?);
                note(&mut found, || coord);
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
        Ok(([least, most], coord.map(bare)))
    }

    /// The index of a coordinate inside: one number a mode, or one for all.
    fn index(&self, coord: &IntTuple) -> usize {
        let digits = coord.leaves().iter().zip(&self.extents).rev();
        let index = digits.fold(0, |index, (digit, extent)| index * extent + digit.value());
        usize::try_from(index).expect("a coordinate inside has an index")
    }
}

/// Counts one more, and keeps the first.
fn note<T>(count: &mut Found<T>, first: impl FnOnce() -> T) {
    count.0 += 1;
    count.1.get_or_insert_with(first);
}
