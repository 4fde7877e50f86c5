//! The layout: a shape and a stride, the function from coordinates to offsets.

mod basis_stride;
pub(crate) mod coalesce;
pub(crate) mod compact;
mod compare;
pub(crate) mod coord;
mod dynamic;
pub(crate) mod equation;
mod injective;
pub(crate) mod into;
pub(crate) mod iter;
mod lookup;
mod modes;
pub(crate) mod slice;
pub(crate) mod tiler;

use core::fmt;

use crate::error::ErrorKind;
use crate::tuple::int::{add, mul};
use crate::tuple::walk::check_depth;
use crate::tuple::{Leaf, Tuple, View};
use crate::{Error, Int, IntTuple, IntoIntTuple, IntoStride, Stride};

/// A function from coordinates to offsets, written `shape:stride`.
///
/// The coordinates are those of the shape, in colexicographical order (the first mode moves fastest); a coordinate's
/// offset is its inner product with the stride.
/// Invariants: shape and stride nest alike, extents are at least 1, all strides are of one kind, and the size fits
/// 64 bits.
///
/// A layout is a plain value: up to 12 leaves are stored inline. Two layouts are equal when their texts are, static
/// marks (`_`) aside; see [`Layout::is_same_function`] for equality as functions.
///
/// # Example
///
/// ```
/// use colex_layout::Layout;
/// let tiles: Layout = "((2,2),(2,4)):((1,4),(2,8))".parse()?;
/// assert_eq!(tiles.rank(), 2);
/// assert_eq!(tiles.size(), 32);
/// assert_eq!(tiles.at((3, 1))?, 7);
/// assert_eq!(tiles.to_string(), "((2,2),(2,4)):((1,4),(2,8))");
/// # Ok::<(), colex_layout::Error>(())
/// ```
///
/// Source: `cute/layout.hpp`; `Cecka 2026`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Layout(pub(crate) Tuple<LeafMode>);

/// One leaf of a layout, `extent:stride`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeafMode {
    /// The extent: the number of steps.
    pub extent: Int,
    /// The stride: what one step adds to the offset.
    pub stride: Stride,
}

pub(crate) type LayoutView<'a> = View<'a, LeafMode>;

impl LeafMode {
    /// The mode of one step, `_1:_0`.
    pub(crate) const UNIT: Self = Self {
        extent: Int::Static(1),
        stride: Stride::constant(0),
    };

    pub(crate) const fn new(extent: Int, stride: Stride) -> Self {
        Self { extent, stride }
    }

    /// The extent's value.
    pub(crate) const fn size(self) -> i64 {
        self.extent.value()
    }
}

impl Layout {
    /// Returns the layout of `shape` and `stride`.
    ///
    /// Both are nested Rust tuples of integers ([`IntoIntTuple`], [`IntoStride`]): a plain number is dynamic, `C::<64>`
    /// static. A stride may also hold basis vectors (`E::<0>`) or XOR bit-vectors ([`Stride::xor`]). Texts,
    /// [`IntTuple`] and `Tuple<Stride>` are taken too.
    ///
    /// Law `layout_of_tuples`: the result is what the text of the same numbers parses to.
    ///
    /// # Errors
    ///
    /// Returns an error if shape and stride nest differently, for an extent below 1, for strides of different kinds, if
    /// the size does not fit in 64 bits, beyond 64 nested parentheses, for an integer that does not fit in 64 bits, or
    /// for a text that is no tuple.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::{C, Layout};
    /// let (rows, columns) = (128, 64);
    /// let row_major = Layout::new((rows, columns), (columns, 1))?;
    /// assert_eq!(row_major.to_string(), "(128,64):(64,1)");
    /// let tile = Layout::new((4, (C::<2>, 3)), (2, (C::<1>, 8)))?;
    /// assert_eq!(tile.to_string(), "(4,(_2,3)):(2,(_1,8))");
    /// let error = Layout::new((4, (2, 3)), (2, 1)).unwrap_err();
    /// assert_eq!(error.to_string(), "the shape (4,(2,3)) and the stride (2,1) nest differently");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    ///
    /// Source: `make_layout` in `cute/layout.hpp`.
    #[doc(alias = "make_layout")]
    pub fn new(shape: impl IntoIntTuple, stride: impl IntoStride) -> Result<Self, Error> {
        Self::of_tuples(shape.into_int_tuple()?, stride.into_stride()?)
    }

    pub(crate) fn of_tuples(shape: IntTuple, stride: Tuple<Stride>) -> Result<Self, Error> {
        if !shape.is_congruent(&stride) {
            return Err(ErrorKind::NotCongruent {
                shape: shape.text(),
                stride: stride.text(),
            }
            .into());
        }
        check_shape(&shape)?;
        check_kinds(stride.leaves())?;
        check_depth("layout", &shape)?;
        let mut strides = stride.leaves().iter();
        Ok(Self(shape.map(|extent| {
            LeafMode::new(
                extent,
                *strides
                    .next()
                    .expect("a congruent stride has as many leaves as the shape"),
            )
        })))
    }

    /// Returns the single mode `extent:stride`.
    ///
    /// # Errors
    ///
    /// Returns an error for an extent below 1.
    pub fn leaf(extent: impl Into<Int>, stride: impl Into<Stride>) -> Result<Self, Error> {
        Self::of_tuples(IntTuple::leaf(extent.into()), Tuple::leaf(stride.into()))
    }

    /// Returns the layout whose modes are `modes`: CuTe's `make_layout(a,b,..)`.
    ///
    /// # Errors
    ///
    /// Returns an error for strides of different kinds, if the size does not fit in 64 bits, and beyond 64 nested
    /// parentheses.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let (a, b): (Layout, Layout) = ("3:1".parse()?, "4:3".parse()?);
    /// assert_eq!(Layout::concat([&a, &b])?.to_string(), "(3,4):(1,3)");
    /// assert_eq!(Layout::concat([&a])?.to_string(), "(3):(1)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn concat<'a>(modes: impl IntoIterator<Item = &'a Self>) -> Result<Self, Error> {
        Self::checked(Tuple::concat(modes.into_iter().map(|l| &l.0)))
    }

    /// A layout of leaves whose extents are known to be positive: kinds and size remain to be checked.
    #[inline]
    pub(crate) fn checked(tuple: Tuple<LeafMode>) -> Result<Self, Error> {
        check_leaves(tuple.leaves())?;
        check_depth("layout", &tuple)?;
        Ok(Self(tuple))
    }

    pub(crate) fn view(&self) -> LayoutView<'_> {
        self.0.view()
    }

    pub(crate) fn text(&self) -> alloc::boxed::Box<str> {
        alloc::string::ToString::to_string(self).into()
    }

    /// Returns the shape.
    #[must_use]
    pub fn shape(&self) -> IntTuple {
        self.0.map(|leaf| leaf.extent)
    }

    /// Returns the stride.
    #[must_use]
    pub fn stride(&self) -> Tuple<Stride> {
        self.0.map(|leaf| leaf.stride)
    }

    /// Returns the number of modes.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.0.rank()
    }

    /// Returns how deep the parentheses nest.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.0.depth()
    }

    /// Returns the number of coordinates: the product of all extents.
    #[must_use]
    pub fn size(&self) -> i64 {
        size_of(self.0.leaves())
    }

    /// Returns the size with its staticness.
    #[must_use]
    pub fn size_int(&self) -> Int {
        let is_static = self.0.leaves().iter().all(|l| l.extent.is_static());
        if is_static {
            Int::Static(self.size())
        } else {
            Int::Dynamic(self.size())
        }
    }

    /// Returns the leaf modes from left to right.
    #[must_use]
    pub fn leaves(&self) -> &[LeafMode] {
        self.0.leaves()
    }

    /// Returns the mode `i`, or `None` beyond the rank.
    #[must_use]
    pub fn mode(&self, i: usize) -> Option<Self> {
        self.0.mode(i).map(Self)
    }

    /// Returns the modes, in order.
    pub fn modes(&self) -> impl ExactSizeIterator<Item = Self> + '_ {
        self.0.modes().map(Self)
    }

    /// Returns whether this is a single mode without parentheses.
    #[must_use]
    pub fn is_leaf(&self) -> bool {
        self.0.is_leaf()
    }

    /// Returns whether every extent and stride is static.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.0
            .leaves()
            .iter()
            .all(|l| l.extent.is_static() && l.stride.coefficient().is_static())
    }

    /// Returns the same layout with every leaf static.
    #[must_use]
    pub fn to_static(&self) -> Self {
        let fix = |n: Int| Int::Static(n.value());
        Self(self.0.map(|l| {
            LeafMode::new(
                fix(l.extent),
                l.stride.with_coefficient(fix(l.stride.coefficient())),
            )
        }))
    }

    /// Returns one past the largest distance from offset 0: the length of buffer that non-negative strides need.
    ///
    /// `1 + sum (extent - 1) * |stride|`, as in CuTe, also for negative strides.
    ///
    /// # Errors
    ///
    /// Returns an error for coordinate and XOR strides, or if a number does not fit in 64 bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// assert_eq!("(4,3):(1,10)".parse::<Layout>()?.cosize()?, 24);
    /// assert_eq!("4:-1".parse::<Layout>()?.cosize()?, 4);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn cosize(&self) -> Result<i64, Error> {
        Ok(self.cosize_int()?.value())
    }

    pub(crate) fn cosize_int(&self) -> Result<Int, Error> {
        let mut sum = Int::Static(1);
        for leaf in self.leaves() {
            let d = self.int_stride("cosize", leaf)?;
            let reach = mul(leaf.size() - 1, crate::tuple::int::abs(d.value())?)?;
            sum = sum.taint(leaf.extent.taint(d, 0), add(sum.value(), reach)?);
        }
        Ok(sum)
    }

    /// The integer stride of a leaf, or the error that `operation` needs one.
    #[inline]
    pub(crate) fn int_stride(
        &self,
        operation: &'static str,
        leaf: &LeafMode,
    ) -> Result<Int, Error> {
        match leaf.stride {
            Stride::Int(d) => Ok(d),
            d if d.is_zero() => Ok(d.coefficient()),
            _ => Err(Error::stride_kind(
                operation,
                self.text(),
                "integer strides",
            )),
        }
    }
}

/// Whether the size fits 64 bits and all strides are of one kind.
fn check_leaves(leaves: &[LeafMode]) -> Result<(), Error> {
    leaves.iter().try_fold(1, |n, leaf| mul(n, leaf.size()))?;
    let mut kinds = leaves.iter().map(|l| l.stride).filter(|d| !is_neutral(*d));
    let Some(first) = kinds.next() else {
        return Ok(());
    };
    match kinds.find(|d| core::mem::discriminant(d) != core::mem::discriminant(&first)) {
        Some(other) => Err(mixed(first, other)),
        None => Ok(()),
    }
}

/// The integer 0 belongs to every kind of stride.
fn is_neutral(d: Stride) -> bool {
    matches!(d, Stride::Int(n) if n.value() == 0)
}

fn mixed(first: Stride, other: Stride) -> Error {
    use alloc::string::ToString;
    ErrorKind::MixedStrides {
        first: first.to_string().into(),
        other: other.to_string().into(),
    }
    .into()
}

pub(crate) fn check_shape(shape: &IntTuple) -> Result<(), Error> {
    if let Some(extent) = shape.leaves().iter().find(|n| n.value() < 1) {
        return Err(ErrorKind::Extent {
            extent: extent.value(),
            shape: shape.text(),
        }
        .into());
    }
    shape
        .leaves()
        .iter()
        .try_fold(1, |n, leaf| mul(n, leaf.value()))
        .map(|_| ())
}

fn check_kinds(strides: &[Stride]) -> Result<(), Error> {
    let mut kinds = strides.iter().filter(|d| !is_neutral(**d));
    let Some(first) = kinds.next() else {
        return Ok(());
    };
    match kinds.find(|d| core::mem::discriminant(*d) != core::mem::discriminant(first)) {
        Some(other) => Err(mixed(*first, *other)),
        None => Ok(()),
    }
}

/// The product of the extents; a layout's fits 64 bits by its invariant.
pub(crate) fn size_of(leaves: &[LeafMode]) -> i64 {
    leaves.iter().map(|l| l.size()).product()
}

/// `shape:stride`; the alternate form `{:#}` leaves the static marks out.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().write(f, |out, leaf| leaf.extent.fmt(out))?;
        f.write_str(":")?;
        self.view().write(f, |out, leaf| leaf.stride.fmt(out))
    }
}

impl fmt::Display for LeafMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.extent, self.stride)
    }
}

impl Leaf for LeafMode {
    fn text(tuple: &Tuple<Self>) -> alloc::string::String {
        alloc::string::ToString::to_string(&Layout(tuple.clone()))
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
