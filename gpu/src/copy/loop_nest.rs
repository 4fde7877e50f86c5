//! `LoopNest`: a copy between two layouts as nested loops.

use core::fmt;

use crate::error::{Error, ErrorKind};
use colex_layout::{IntTuple, IntoLayout, Layout, Stride, Tuple};

/// One loop of a copy: its extent, and its strides in the source and in the destination, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Loop {
    /// The number of iterations.
    pub extent: i64,
    /// The stride in the source, in elements.
    pub source: i64,
    /// The stride in the destination, in elements.
    pub destination: i64,
}

/// The fewest nested loops that copy every coordinate's element, innermost first, ordered by the destination's stride:
/// the joint coalescing of two layouts.
///
/// ```
/// use colex_gpu::kernels::LoopNest;
///
/// // Four row-major matrices into column-major ones: the batch stays a loop of its own.
/// let nest = LoopNest::new("(8,6,4):(6,1,48)", "(8,6,4):(1,8,48)")?;
/// assert_eq!(nest.to_string(), "(8,6,4):(6,1,48) -> (8,6,4):(1,8,48)");
/// // Both row-major: one loop for every shape.
/// let nest = LoopNest::new("(8,(3,2)):(6,(1,3))", "(8,6):(6,1)")?;
/// assert_eq!(nest.to_string(), "48:1 -> 48:1");
/// assert_eq!(nest.vector()?, 48);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Which coordinates correspond
///
/// Two shapes correspond if they have the same rank and their modes correspond one by one, down to modes that are
/// integers on one side or on both. Such a mode and its counterpart must have the same size, and their elements
/// correspond in colexicographic order. CuTe calls a shape weakly congruent to one that refines it so. So `(8,(3,2))`
/// corresponds to `(8,6)`, and `24` to `((2,3),4)`; `(8,2)` does not correspond to `(2,8)`, which has as many elements.
///
/// ```
/// use colex_gpu::kernels::LoopNest;
///
/// let refused = LoopNest::new("(8,2):(1,8)", "(2,8):(8,1)").unwrap_err();
/// assert_eq!(
///     refused.to_string(),
///     "a copy from the shape (8,2) into (2,8): mode 0 has 8 elements in one and 2 in the other; give both one shape, or permute one of them"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoopNest {
    loops: Vec<Loop>,
}

impl LoopNest {
    /// Returns the loops of a copy from `source` to `destination`, coordinate by coordinate in colexicographic order.
    ///
    /// # Errors
    ///
    /// Returns an error if the coordinates do not [correspond](Self#which-coordinates-correspond), if the destination
    /// has one element at several coordinates or this cannot be decided, or if the strides are not integers.
    pub fn new(source: impl IntoLayout, destination: impl IntoLayout) -> Result<LoopNest, Error> {
        let source = &source.into_layout()?;
        let destination = &destination.into_layout()?;
        integers(source)?;
        integers(destination)?;
        let once = destination.is_injective();
        if !once.map_err(|e| ErrorKind::Undecided { why: e.to_string() })? {
            return Err(ErrorKind::Twice {
                layout: destination.to_string(),
            }
            .into());
        }
        let differ = |why: String| ErrorKind::Shapes {
            from: source.shape().to_string(),
            to: destination.shape().to_string(),
            why,
        };
        correspond(&source.shape(), &destination.shape(), &mut Vec::new()).map_err(differ)?;
        let (source, destination) = refined(source, destination)
            .ok_or_else(|| differ("their extents have no common refinement".into()))?;
        Ok(LoopNest {
            loops: joined(paired(&source, &destination)),
        })
    }

    /// Returns the loops, innermost first. If there is only one element, there is one loop of extent 1.
    pub fn loops(&self) -> &[Loop] {
        &self.loops
    }

    /// Returns the number of elements.
    pub fn size(&self) -> i64 {
        self.loops.iter().map(|level| level.extent).product()
    }

    /// Returns the source's layout over the loops.
    pub fn source(&self) -> Layout {
        self.layout(|level| level.source)
    }

    /// Returns the destination's layout over the loops.
    pub fn destination(&self) -> Layout {
        self.layout(|level| level.destination)
    }

    fn layout(&self, stride: impl Fn(&Loop) -> i64) -> Layout {
        let leaf = |level: &Loop| Layout::leaf(level.extent, Stride::from(stride(level)));
        let modes = self.loops.iter().map(leaf);
        let modes: Result<Vec<_>, _> = modes.collect();
        let modes = modes.expect("extents of a loop nest are positive");
        match &modes[..] {
            [one] => one.clone(),
            _ => Layout::concat(&modes).expect("a loop nest has the size of a layout"),
        }
    }

    /// Returns the number of elements that are contiguous on both sides: CuTe's `max_common_vector`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::max_common_vector`].
    pub fn vector(&self) -> Result<i64, colex_layout::Error> {
        self.source().max_common_vector(self.destination())
    }

    /// Returns the widest vector that a kernel can use in every loop, as a number of elements of `bytes` bytes each. It
    /// has at most `most` bytes and is a power of two that divides the common run, all other strides of both sides, and
    /// both addresses.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::max_common_vector`].
    pub fn aligned_vector(
        &self,
        bytes: i64,
        most: i64,
        addresses: [u64; 2],
    ) -> Result<i64, colex_layout::Error> {
        let run = self.vector()?;
        // The first loop is the run, if there is one: a vector moves along it. A stride of 1 in any other loop moves
        // the vector by one element, so that it does not stay aligned.
        let others = self.loops.iter().skip(1);
        let strides: Vec<i64> = others
            .flat_map(|level| [level.source, level.destination])
            .collect();
        let fits = |vector: i64| {
            let width = vector.checked_mul(bytes).filter(|width| *width <= most);
            let is_aligned = |width: i64| {
                let width = width.unsigned_abs();
                addresses.iter().all(|at| at.is_multiple_of(width))
            };
            run % vector == 0
                && strides.iter().all(|stride| stride % vector == 0)
                && width.is_some_and(is_aligned)
        };
        let mut widths = (0..=6).rev().map(|log| 1_i64 << log);
        Ok(widths.find(|vector| fits(*vector)).unwrap_or(1))
    }
}

/// `source layout -> destination layout`.
impl fmt::Display for LoopNest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.source(), self.destination())
    }
}

/// Refuses strides that are coordinates or XORs.
pub(crate) fn integers(layout: &Layout) -> Result<(), Error> {
    let whole = |stride: Stride| matches!(stride, Stride::Int(_));
    if layout.leaves().iter().all(|leaf| whole(leaf.stride)) {
        return Ok(());
    }
    Err(ErrorKind::Strides {
        layout: layout.to_string(),
    }
    .into())
}

/// Whether the coordinates of two shapes correspond of which one has no elements, or why they do not.
pub(crate) fn correspond_empty(a: &IntTuple, b: &IntTuple) -> Result<(), String> {
    if is_empty(a) != is_empty(b) {
        return Err("one of them has no elements".into());
    }
    correspond(a, b, &mut Vec::new())
}

/// Whether a shape has an extent of 0.
fn is_empty(shape: &IntTuple) -> bool {
    shape.leaves().iter().any(|extent| extent.value() == 0)
}

/// Whether the coordinates of two shapes correspond, or where they do not.
pub(crate) fn correspond(a: &IntTuple, b: &IntTuple, at: &mut Vec<usize>) -> Result<(), String> {
    let (a, b) = (&alone(a), &alone(b));
    // Beside an extent of 0, the others may have a product beyond 64 bits.
    if a == b {
        return Ok(());
    }
    let place = |at: &[usize]| match at {
        [] => "the whole".to_string(),
        [mode] => format!("mode {mode}"),
        path => {
            let path: Vec<String> = path.iter().map(usize::to_string).collect();
            format!("mode ({})", path.join(","))
        }
    };
    let size = |shape: &IntTuple| {
        if is_empty(shape) {
            return Ok(0);
        }
        shape
            .product()
            .map(|size| size.value())
            .map_err(|e| e.to_string())
    };
    let [x, y] = [size(a)?, size(b)?];
    if x != y {
        return Err(format!(
            "{} has {x} elements in one and {y} in the other",
            place(at)
        ));
    }
    if a.is_leaf() || b.is_leaf() {
        return Ok(());
    }
    let [x, y] = [a.rank(), b.rank()];
    if x != y {
        return Err(format!(
            "{} has {x} modes in one and {y} in the other",
            place(at)
        ));
    }
    for (mode, (a, b)) in a.modes().zip(b.modes()).enumerate() {
        at.push(mode);
        correspond(&a, &b, at)?;
        at.pop();
    }
    Ok(())
}

/// A mode without the parentheses around it alone.
fn alone(shape: &IntTuple) -> IntTuple {
    match shape.mode(0) {
        Some(only) if !shape.is_leaf() && shape.rank() == 1 => alone(&only),
        _ => shape.clone(),
    }
}

/// Both layouts over the coarsest shape that refines both: each is composed with the compact layout of the other's
/// shape, whose value is the colexicographic index.
fn refined(source: &Layout, destination: &Layout) -> Option<(Layout, Layout)> {
    if source.size() != destination.size() {
        return None;
    }
    let by = |layout: &Layout, shape: IntTuple| {
        let index = Layout::column_major(Tuple::flat(shape.leaves().iter().copied())).ok()?;
        Some(layout.composition(&index).ok()?.flatten())
    };
    let source = by(source, destination.shape())?;
    let destination = by(destination, source.shape())?;
    let extents = |layout: &Layout| -> Vec<i64> {
        layout
            .leaves()
            .iter()
            .map(|leaf| leaf.extent.value())
            .collect()
    };
    (extents(&source) == extents(&destination)).then_some((source, destination))
}

/// The leaves of two layouts of one shape, without those of extent 1.
fn paired(source: &Layout, destination: &Layout) -> Vec<Loop> {
    let stride = |stride: Stride| match stride {
        Stride::Int(value) => value.value(),
        _ => unreachable!("strides were checked to be integers"),
    };
    let pairs = source.leaves().iter().zip(destination.leaves());
    let loops = pairs.map(|(from, to)| Loop {
        extent: from.extent.value(),
        source: stride(from.stride),
        destination: stride(to.stride),
    });
    loops.filter(|level| level.extent > 1).collect()
}

/// Sorted by the destination's stride, and loops that continue each other on both sides made one.
fn joined(mut loops: Vec<Loop>) -> Vec<Loop> {
    loops.sort_by_key(|level| (level.destination, level.source));
    let mut out: Vec<Loop> = Vec::new();
    for level in loops {
        // Where the end of a loop has no number of 64 bits, no loop continues it.
        let continues = |last: &Loop| {
            last.source.checked_mul(last.extent) == Some(level.source)
                && last.destination.checked_mul(last.extent) == Some(level.destination)
        };
        match out.last_mut() {
            Some(last) if continues(last) => last.extent *= level.extent,
            _ => out.push(level),
        }
    }
    if out.is_empty() {
        out.push(Loop {
            extent: 1,
            source: 1,
            destination: 1,
        });
    }
    out
}
