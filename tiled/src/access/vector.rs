//! How many values one instruction may move at once, and why not more.

use core::fmt;
use std::collections::HashMap;

use colex_layout::{IntTuple, IntoLayout, Layout, LeafMode, Stride};

use crate::Error;
use crate::access::map::{AccessMap, Addresses, Coords, tuple};
use crate::access::words::number;
use crate::tensor::extents::fixed;

/// How many values a copy from one layout to another may move at once, and why not more.
///
/// CuTe's `AutoVectorizingCopy` takes `max_common_vector` and the assumed alignment, and leaves the strides to a check
/// of the compiler; here they limit the vector.
///
/// ```
/// use colex_tiled::Vectorization;
/// // Both sides go down the columns: 128 bits are the most that one instruction moves.
/// let down = Vectorization::new("(8,4):(1,8)", "(8,4):(1,16)", 32, 128)?;
/// assert_eq!(down.to_string(), "4 values of 32 bits at once. Not 8: 128 bits are aligned, and no more.");
/// // One side goes along the rows.
/// let across = Vectorization::new("(8,4):(4,1)", "(8,4):(1,8)", 32, 128)?;
/// assert_eq!(
///     across.to_string(),
///     "1 value of 32 bits at once. Not 2: the destination has (1,0) at offset 1, and the source has it at offset 4."
/// );
/// // Columns of an odd length: the second one starts between two vectors.
/// let odd = Vectorization::new("(6,4):(1,7)", "(6,4):(1,6)", 16, 128)?;
/// assert_eq!(odd.to_string(), "1 value of 16 bits at once. Not 2: the stride 7 of the source is not a multiple of 2.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Source: `copy` with `AutoVectorizingCopyWithAssumedAlignment` in `cute/algorithm/copy.hpp`.
#[doc(alias = "AutoVectorizingCopy")]
#[derive(Clone, Debug, PartialEq)]
pub struct Vectorization {
    /// The number of values that one instruction moves: a power of two.
    pub values: i64,
    /// The width of a value in bits.
    pub bits: i64,
    /// The number of values, from the first, that are contiguous in both (CuTe's `max_common_vector`).
    pub common: i64,
    /// Why one instruction cannot move twice as many.
    pub limit: VectorLimit,
}

/// Why a vector of twice as many values is refused.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub enum VectorLimit {
    /// Values that are contiguous on one side are not on the other.
    Order {
        /// The offset from which on it is so.
        offset: i64,
        /// The coordinate that the destination has there.
        coord: Box<IntTuple>,
        /// Where the source has it.
        source: i64,
    },
    /// The destination ends or has a gap.
    End {
        /// The first offset that the contiguous run does not have.
        offset: i64,
    },
    /// A stride is not a multiple of the vector, so later vectors are not aligned.
    Stride {
        /// `source` or `destination`.
        side: &'static str,
        /// The stride in values.
        stride: i64,
    },
    /// The length of the run is not a multiple of the vector's.
    Run,
    /// A later vector of the destination has a gap, or is no vector of the source.
    Later {
        /// The offset in the destination where the vector begins.
        offset: i64,
    },
    /// The alignment that was assumed, in bits.
    Alignment(i64),
}

impl Vectorization {
    /// Returns the widest vector for values of `bits` bits, where both tensors start at a multiple of `alignment` bits,
    /// which is also the most that one instruction moves.
    ///
    /// # Errors
    ///
    /// Returns an error if the two differ in their size, a width is not a power of two, or for strides that are
    /// coordinates. Each element is looked at if one is swizzled, or if no modes are common to both, as of `(4,6)` and
    /// `(6,4)`: then an error too for more than 2^22 elements.
    pub fn new(
        src: impl IntoLayout,
        dst: impl IntoLayout,
        bits: i64,
        alignment: i64,
    ) -> Result<Self, Error> {
        let src = &src.into_layout()?;
        let dst = &dst.into_layout()?;
        check(src, dst, bits, alignment)?;
        let common = common_run(src, dst)?;
        let modes = common_modes(src, dst);
        let most = (alignment / bits).max(1);
        let mut values = 1;
        let limit = loop {
            // Beyond any width where it saturates.
            let next = i64::saturating_mul(values, 2);
            if next > most {
                break VectorLimit::Alignment(alignment);
            }
            if next > common {
                break end_of_run(src, dst, common)?;
            }
            if common % next != 0 {
                break VectorLimit::Run;
            }
            let limit = match &modes {
                Some(modes) => off_alignment(modes, next),
                None => off_later(src, dst, next)?,
            };
            if let Some(limit) = limit {
                break limit;
            }
            values = next;
        };
        Ok(Self {
            values,
            bits,
            common,
            limit,
        })
    }
}

/// The most elements of layouts whose offsets are listed: swizzled ones, and those without common modes.
const MOST_LISTED: i64 = 1 << 22;

fn check(src: &Layout, dst: &Layout, bits: i64, alignment: i64) -> Result<(), Error> {
    let refuse = |why| Err(Error::assumption("Vectorization", why));
    if src.size() != dst.size() {
        let (n, m) = (src.size(), dst.size());
        return refuse(format!("{src} has {n} elements, and {dst} has {m}"));
    }
    for (what, width) in [("a value", bits), ("an alignment", alignment)] {
        if width < 1 || width & (width - 1) != 0 {
            return refuse(format!("{what} of {width} bits is not a power of two"));
        }
    }
    Ok(())
}

fn check_listed(src: &Layout, dst: &Layout, what: &str) -> Result<(), Error> {
    if dst.size() <= MOST_LISTED {
        return Ok(());
    }
    Err(Error::assumption(
        "Vectorization",
        format!(
            "{src} and {dst} have {} elements, and each of at most {MOST_LISTED} of {what} is looked at: take a part of \
             whole tiles, the others are alike",
            dst.size()
        ),
    ))
}

/// How many values from the first on are contiguous in both: of a swizzled side counted, as its inverse need not exist.
fn common_run(src: &Layout, dst: &Layout) -> Result<i64, Error> {
    if !src.is_xor() && !dst.is_xor() {
        return Ok(src.max_common_vector(dst)?);
    }
    check_listed(src, dst, "a swizzled layout")?;
    let pairs = dst.table()?.into_iter().zip(src.table()?);
    let source: HashMap<i64, i64> = pairs.collect();
    let mut offsets = 0..dst.size();
    Ok(offsets
        .find(|x| source.get(x) != Some(x))
        .unwrap_or(dst.size()))
}

/// The index of what a layout has at an offset.
fn index_at(layout: &Layout, offset: i64) -> Result<Option<i64>, Error> {
    if layout.is_xor() {
        let index = layout.table()?.iter().position(|x| *x == offset);
        return Ok(index.map(|index| index as i64));
    }
    let inverse = layout.right_inverse()?;
    let there = offset < inverse.size();
    Ok(there.then(|| inverse.at(offset)).transpose()?)
}

/// Where what is contiguous in the destination stops to be so in the source.
fn end_of_run(src: &Layout, dst: &Layout, common: i64) -> Result<VectorLimit, Error> {
    let Some(index) = index_at(dst, common)? else {
        return Ok(VectorLimit::End { offset: common });
    };
    Ok(VectorLimit::Order {
        offset: common,
        coord: Box::new(dst.shape().coord(index)?),
        source: src.at(index)?,
    })
}

/// A mode of two layouts over one domain: its extent, and its strides in the source and in the destination.
struct CommonMode {
    extent: i64,
    strides: [Stride; 2],
}

impl CommonMode {
    /// The strides as numbers, which are bits where they xor.
    fn steps(&self) -> [i64; 2] {
        self.strides.map(|stride| stride.coefficient().value())
    }

    /// The steps behind the mode's last element, if they are strides.
    fn ends(&self) -> Option<[i64; 2]> {
        let [a, b] = self
            .strides
            .map(|stride| Some(stride.times(fixed(self.extent)).ok()?.coefficient().value()));
        Some([a?, b?])
    }
}

/// The fewest modes that both layouts have, from the smallest step of the destination on; nothing if the modes of neither
/// divide those of the other.
fn common_modes(src: &Layout, dst: &Layout) -> Option<Vec<CommonMode>> {
    let leaves = |layout: &Layout| {
        let leaves = layout.coalesce(..).leaves().to_vec();
        leaves.into_iter().filter(|leaf| leaf.extent.value() > 1)
    };
    let (mut sources, mut destinations) = (leaves(src), leaves(dst));
    let (mut source, mut destination) = (sources.next(), destinations.next());
    let mut modes: Vec<CommonMode> = Vec::new();
    while let (Some(a), Some(b)) = (source, destination) {
        let extent = a.extent.value().min(b.extent.value());
        modes.push(CommonMode {
            extent,
            strides: [a.stride, b.stride],
        });
        source = rest_of(a, extent)?.or_else(|| sources.next());
        destination = rest_of(b, extent)?.or_else(|| destinations.next());
    }
    modes.sort_by_key(|mode| {
        let [source, destination] = mode.steps();
        (destination, source)
    });
    modes.dedup_by(|next, mode| {
        let joins = mode.ends() == Some(next.steps());
        mode.extent *= if joins { next.extent } else { 1 };
        joins
    });
    Some(modes)
}

/// What is left of a mode behind its first `extent` elements, if anything is; the outer `None` if they do not divide it.
fn rest_of(leaf: LeafMode, extent: i64) -> Option<Option<LeafMode>> {
    match (leaf.extent.value() / extent, leaf.extent.value() % extent) {
        (1, 0) => Some(None),
        (rest, 0) => {
            let stride = leaf.stride.times(fixed(extent)).ok()?;
            let extent = fixed(rest);
            Some(Some(LeafMode { extent, stride }))
        }
        _ => None,
    }
}

/// A stride that takes a vector off its alignment: of every mode but those that make up the vector.
fn off_alignment(modes: &[CommonMode], values: i64) -> Option<VectorLimit> {
    let mut within = 1;
    modes.iter().find_map(|mode| {
        let steps = mode.steps();
        if within < values && steps == [within; 2] {
            within = i64::saturating_mul(within, mode.extent);
            return None;
        }
        let mut sides = ["source", "destination"].into_iter().zip(steps);
        let (side, stride) = sides.find(|(_, stride)| stride % values != 0)?;
        Some(VectorLimit::Stride { side, stride })
    })
}

/// The first vector of the destination that is none of the source, element by element.
fn off_later(src: &Layout, dst: &Layout, values: i64) -> Result<Option<VectorLimit>, Error> {
    check_listed(src, dst, "layouts without common modes")?;
    let mut places: Vec<(i64, i64)> = dst.table()?.into_iter().zip(src.table()?).collect();
    places.sort_unstable();
    let mut vectors = places.chunk_by(|a, b| a.0.div_euclid(values) == b.0.div_euclid(values));
    let is_vector = |vector: &[(i64, i64)]| {
        let start = vector[0].1;
        let is_in_order = (0..).zip(vector).all(|(i, (to, from))| {
            to.rem_euclid(values) == i && i64::checked_sub(*from, i) == Some(start)
        });
        vector.len() as i64 == values && start % values == 0 && is_in_order
    };
    let broken = vectors.find(|vector| !is_vector(vector));
    Ok(broken.map(|vector| VectorLimit::Later {
        offset: vector[0].0 - vector[0].0.rem_euclid(values),
    }))
}

impl fmt::Display for Vectorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (values, next) = (self.values, i128::from(self.values) * 2);
        let plural = if values == 1 { "value" } else { "values" };
        write!(
            f,
            "{values} {plural} of {} bits at once. Not {next}: ",
            self.bits
        )?;
        match &self.limit {
            VectorLimit::Order {
                offset,
                coord,
                source,
            } => write!(
                f,
                "the destination has {coord} at offset {offset}, and the source has it at offset {source}."
            ),
            VectorLimit::End { offset } => write!(
                f,
                "from offset 0 on the destination has {offset} values in a row, and no more."
            ),
            VectorLimit::Stride { side, stride } => {
                write!(
                    f,
                    "the stride {stride} of the {side} is not a multiple of {next}."
                )
            }
            VectorLimit::Run => write!(
                f,
                "{} values in a row are not a multiple of it.",
                self.common
            ),
            VectorLimit::Later { offset } => write!(
                f,
                "the vector of the destination from offset {offset} on is none of the source."
            ),
            VectorLimit::Alignment(bits) => write!(f, "{bits} bits are aligned, and no more."),
        }
    }
}

/// Why a vector of `values` values is too wide for the coordinates of the threads.
#[derive(Clone, Debug, PartialEq)]
pub struct TooWide {
    /// The number of values that were too many.
    pub values: i64,
    /// The tensor, as the sentence calls it: `the source`, `A` and so on.
    pub tensor: &'static str,
    /// The first thread for which they are too many.
    pub thread: i64,
    /// The first coordinate that is not at the offset that a vector needs.
    pub coord: IntTuple,
    /// The offset of that coordinate in the tensor.
    pub offset: i64,
    /// The offset that a vector needs: one past the value before. `None` for the first value of a vector.
    pub after: Option<i64>,
    /// The number of values that the thread has from there, if they are too few.
    pub left: Option<usize>,
}

impl fmt::Display for TooWide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            values,
            tensor,
            thread,
            coord,
            offset,
            after,
            left,
        } = self;
        let there = format!("{coord} of {tensor}, of thread {thread}, is at offset {offset}");
        match (left, after) {
            (Some(left), _) => write!(
                f,
                "Not {values}: from {coord} of {tensor} on, thread {thread} has {}.",
                number(*left, "value")
            ),
            (None, Some(after)) => write!(f, "Not {values}: {there}, not at {after}."),
            (None, None) => write!(f, "Not {values}: {there}, not at a multiple of {values}."),
        }
    }
}

/// The most values, a power of two of at most 16 bytes, that lie contiguous and aligned for every thread, and why not
/// twice as many.
pub(crate) fn widest(
    sides: &[(&'static str, &Addresses<'_>, &AccessMap)],
    bits: i64,
) -> (i64, Option<TooWide>) {
    let mut width = 1 << (128 / bits).max(1).ilog2();
    let mut narrow = None;
    for (tensor, places, named) in sides {
        for (thread, coords) in named.lanes() {
            let at = placed(places, coords);
            while width > 1 {
                let Some(misfit) = off(&at, width) else {
                    break;
                };
                narrow = Some(TooWide {
                    values: width,
                    tensor,
                    thread,
                    coord: tuple(misfit.coord),
                    offset: misfit.offset,
                    after: misfit.after,
                    left: misfit.left,
                });
                width /= 2;
            }
        }
    }
    (width, narrow)
}

/// A coordinate and its offset.
type Placed<'a> = (&'a [i64], i64);

/// The coordinates inside with their offsets.
pub(crate) fn placed<'a>(places: &Addresses<'_>, coords: Coords<'a>) -> Vec<Placed<'a>> {
    let at = |coord| Some((coord, places.at(coord)?));
    coords.iter().filter_map(at).collect()
}

/// A coordinate that is not where a vector would have it.
pub(crate) struct Misfit<'a> {
    coord: &'a [i64],
    offset: i64,
    after: Option<i64>,
    left: Option<usize>,
}

/// The first coordinate that is not where a vector of `width` values would have it.
pub(crate) fn off<'a>(at: &[Placed<'a>], width: i64) -> Option<Misfit<'a>> {
    let misfit = |(coord, offset): Placed<'a>, after, left| {
        Some(Misfit {
            coord,
            offset,
            after,
            left,
        })
    };
    for run in at.chunks(width as usize) {
        let start = run[0].1;
        if start % width != 0 {
            return misfit(run[0], None, None);
        }
        // No sum leaves 64 bits: the vector begins at a multiple of its power of two.
        let after = |i: usize| start + i as i64;
        if let Some(i) = (0..run.len()).find(|i| run[*i].1 != after(*i)) {
            return misfit(run[i], Some(after(i)), None);
        }
        if (run.len() as i64) < width {
            return misfit(run[0], None, Some(run.len()));
        }
    }
    None
}
