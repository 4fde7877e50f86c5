//! What one thread gets of a tensor.

use core::fmt;

use colex_layout::{ComposedLayout, Coord, IntTuple, Layout, Slot, Stride};

use crate::Error;
use crate::error::ErrorKind;
use crate::tensor::extents::{check_walk, overflow};

/// A thread's part of a tensor: its layout, and the value of the tensor's layout where it starts.
///
/// For a tensor with integer strides the start is an offset; for an identity tensor it is a coordinate.
#[derive(Clone, PartialEq)]
pub struct Partition {
    /// The values of one atom first, then the repetitions along each mode of the tensor.
    pub layout: Layout,
    /// The coordinate or offset at which it starts.
    pub start: IntTuple,
}

impl Partition {
    /// Returns the value of the tensor's layout at an index of the partition.
    ///
    /// # Errors
    ///
    /// Returns an error for a coordinate outside of the shape, for a start of more than 64 nested parentheses, or if a
    /// number does not fit in 64 bits.
    pub fn at(&self, index: i64) -> Result<IntTuple, Error> {
        beyond(&self.start, &self.layout, self.layout.coord_at(index)?)
    }

    /// Returns all values, in the order of the partition's index.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Partition::at`], and an error for more than 2^26 of them.
    pub fn values(&self) -> Result<Vec<IntTuple>, Error> {
        check_walk("values", &self.layout)?;
        (0..self.layout.size()).map(|i| self.at(i)).collect()
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} + {}", self.start, self.layout)
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The value of a layout that starts elsewhere: the sum with the start, or its XOR where the strides xor.
pub(crate) fn beyond(
    start: &IntTuple,
    layout: &Layout,
    value: IntTuple,
) -> Result<IntTuple, Error> {
    match (start.as_leaf(), value.as_leaf()) {
        (Some(start), Some(value)) if layout.is_xor() => Ok((start.value() ^ value.value()).into()),
        _ => add(start, &value),
    }
}

/// The most parentheses that nest in a layout.
const MOST_DEPTH: usize = 64;

/// The sum of two values of one layout, whose missing modes are 0.
fn add(a: &IntTuple, b: &IntTuple) -> Result<IntTuple, Error> {
    if a.is_congruent(b) {
        let mut others = b.leaves().iter();
        let sum = a.leaves().iter().map(|x| {
            let y = others.next().expect("congruent tuples have as many leaves");
            x.value()
                .checked_add(y.value())
                .ok_or(overflow(x.value(), '+', y.value()))
        });
        let sum: Vec<i64> = sum.collect::<Result<_, ErrorKind>>()?;
        let mut sum = sum.into_iter();
        return Ok(a.with_leaves_from(|| sum.next().expect("one sum per leaf")));
    }
    // The sum mode by mode recurses into the parentheses, of which a layout's values have few.
    let depth = a.depth().max(b.depth());
    if depth > MOST_DEPTH {
        return Err(Error::assumption(
            "Partition",
            format!("a start of {depth} nested parentheses: it can have at most {MOST_DEPTH}"),
        ));
    }
    let rank = a.rank().max(b.rank());
    let mode = |t: &IntTuple, i| t.mode(i).unwrap_or_else(|| 0.into());
    let modes = (0..rank).map(|i| add(&mode(a, i), &mode(b, i)));
    Ok(IntTuple::concat(&modes.collect::<Result<Vec<_>, _>>()?))
}

/// A layout that can be partitioned: an ordinary one, or one under a swizzle.
///
/// The trait is sealed by its use: it has the two implementations that the algebra has.
pub trait Partitionable: Sized + fmt::Display {
    /// The layout whose modes are cut.
    fn inner_layout(&self) -> &Layout;
    /// The same function of offsets over another inner layout.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`ComposedLayout::with_inner_layout`].
    fn with_inner(&self, inner: Layout) -> Result<Self, Error>;
}

impl Partitionable for Layout {
    fn inner_layout(&self) -> &Layout {
        self
    }

    fn with_inner(&self, inner: Layout) -> Result<Self, Error> {
        Ok(inner)
    }
}

impl Partitionable for ComposedLayout {
    fn inner_layout(&self) -> &Layout {
        self.inner()
    }

    fn with_inner(&self, inner: Layout) -> Result<Self, Error> {
        Ok(self.with_inner_layout(inner)?)
    }
}

/// CuTe's `make_fragment_like`, which takes of a swizzled layout the order of its strides.
pub(crate) fn fragment_like(layout: &Layout) -> Result<Layout, Error> {
    if layout.is_xor() {
        Ok(as_integers(layout)?.fragment_like()?)
    } else {
        Ok(layout.fragment_like()?)
    }
}

/// The layout with its XOR strides as integers: of use for their order only.
fn as_integers(layout: &Layout) -> Result<Layout, Error> {
    if layout.is_leaf() {
        let leaf = layout.leaves()[0];
        return Ok(Layout::leaf(
            leaf.extent,
            Stride::Int(leaf.stride.coefficient()),
        )?);
    }
    let modes = layout.modes().map(|mode| as_integers(&mode));
    Ok(Layout::concat(&modes.collect::<Result<Vec<_>, _>>()?)?)
}

/// The part of `all`, the partitions of a tensor by a copy, that a thread has.
pub(crate) fn of_thread(tensor: &Layout, all: &Layout, thread: i64) -> Result<Partition, Error> {
    let rest = all.mode(2).map_or(1, |rest| rest.rank());
    slice(tensor, all, &thread_slice(thread, rest))
}

/// The coordinate that fixes mode 0 at `thread` and keeps the modes after it, the last of them unpacked into `rest`
/// modes.
fn thread_slice(thread: impl Into<Coord>, rest: usize) -> Coord {
    let all = || Coord::from(Slot::All);
    let rest = match rest {
        1 => all(),
        n => Coord::concat(&vec![all(); n]),
    };
    Coord::concat(&[thread.into(), all(), rest])
}

/// The part of `layout`, a cut of `tensor`, that `coord` keeps, with the value at which it starts.
///
/// The cut may have no stride left along a mode of a coordinate; the start has all modes of the tensor's values.
pub(crate) fn slice(tensor: &Layout, layout: &Layout, coord: &Coord) -> Result<Partition, Error> {
    let zero = tensor.coord_at(0)?;
    Ok(Partition {
        layout: layout.slice(coord)?,
        start: add(&zero, &layout.coord_at(coord.start())?)?,
    })
}
