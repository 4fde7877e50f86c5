//! Layouts made from a shape alone: column-major, row-major, by order, and like another layout.

use smallvec::SmallVec;

use crate::layout::LeafMode;
use crate::tuple::int_tuple::{product, rank_error};
use crate::tuple::walk::side_by_side;
use crate::tuple::{Tuple, View};
use crate::{Error, Int, IntTuple, IntoIntTuple, Layout, Stride};

impl Layout {
    /// Returns the compact layout of `shape` whose first mode moves fastest: CuTe's `make_layout(shape)`, `LayoutLeft`.
    ///
    /// A mode of extent 1 gets stride 0.
    ///
    /// # Errors
    ///
    /// Returns an error for an extent below 1, or if a number does not fit in 64 bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::{C, Layout};
    /// assert_eq!(Layout::column_major((4, (2, 3)))?.to_string(), "(4,(2,3)):(_1,(4,8))");
    /// assert_eq!(Layout::column_major((C::<2>, 4))?.to_string(), "(_2,4):(_1,_2)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    ///
    /// Source: `compact_col_major` in `cute/stride.hpp`.
    #[doc(alias = "make_layout")]
    #[doc(alias = "LayoutLeft")]
    #[doc(alias = "compact_col_major")]
    pub fn column_major(shape: impl IntoIntTuple) -> Result<Self, Error> {
        let shape = shape.into_int_tuple()?;
        let mut current = Int::Static(1);
        let strides = shape
            .leaves()
            .iter()
            .map(|&s| advance(s, &mut current))
            .collect::<Result<SmallVec<[_; 12]>, _>>()?;
        Self::of_tuples(shape.clone(), shape.with_leaves(&strides))
    }

    /// Returns the compact layout of `shape` whose last mode moves fastest: CuTe's `LayoutRight`.
    ///
    /// A mode of extent 1 gets stride 0.
    ///
    /// # Errors
    ///
    /// Returns an error for an extent below 1, or if a number does not fit in 64 bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// assert_eq!(Layout::row_major((2, 4))?.to_string(), "(2,4):(4,_1)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[doc(alias = "LayoutRight")]
    #[doc(alias = "compact_row_major")]
    pub fn row_major(shape: impl IntoIntTuple) -> Result<Self, Error> {
        let shape = shape.into_int_tuple()?;
        let mut current = Int::Static(1);
        let mut strides = shape
            .leaves()
            .iter()
            .rev()
            .map(|&s| advance(s, &mut current))
            .collect::<Result<SmallVec<[_; 12]>, _>>()?;
        strides.reverse();
        Self::of_tuples(shape.clone(), shape.with_leaves(&strides))
    }

    /// Returns the compact layout of `shape` whose modes are laid out in increasing `order`: CuTe's
    /// `make_ordered_layout`.
    ///
    /// `order` is a [`ModeOrder`]. An integer in a tuple may stand for a whole mode, which is then column-major inside.
    /// Modes of equal order start at the same stride, as in CuTe.
    ///
    /// # Errors
    ///
    /// Returns an error if `order` nests where `shape` does not, for an extent below 1, or if a number does not fit in
    /// 64 bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// assert_eq!(Layout::ordered("(_2,_2,_2,_2)", (0, 2, 3, 1))?.to_string(), "(_2,_2,_2,_2):(_1,_4,_8,_2)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[doc(alias = "make_ordered_layout")]
    #[doc(alias = "compact_order")]
    pub fn ordered(shape: impl IntoIntTuple, order: impl ModeOrder) -> Result<Self, Error> {
        order.compact(shape.into_int_tuple()?)
    }

    fn ordered_by(shape: &IntTuple, order: &IntTuple) -> Result<Self, Error> {
        let extents = shape.product_like(order).map_err(|_| {
            rank_error(
                "ordered",
                shape,
                order,
                "an order whose nesting the shape refines",
            )
        })?;
        let mut strides: SmallVec<[Stride; 12]> = SmallVec::new();
        let starts = Starts::new(order, &extents)?;
        start_strides(shape.view(), order.view(), &starts, &mut strides)?;
        Self::of_tuples(shape.clone(), shape.with_leaves(&strides))
    }

    /// Returns the compact layout of the same shape, its modes in the order of this layout's strides; stride 0 stays 0.
    ///
    /// # Errors
    ///
    /// Returns an error for coordinate and XOR strides, or if a number does not fit in 64 bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let sparse: Layout = "(2,2,2,2):(0,2,4,1)".parse()?;
    /// assert_eq!(sparse.layout_like()?, "(2,2,2,2):(0,2,4,1)".parse()?);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[doc(alias = "make_layout_like")]
    pub fn layout_like(&self) -> Result<Self, Error> {
        let stride = self.int_strides("layout_like")?;
        let compact = Self::ordered(&self.shape().filter_zeros(&stride)?, &stride)?;
        let mut strides = compact.leaves().iter().map(|l| l.stride);
        Ok(Self(self.0.map(|l| {
            LeafMode::new(l.extent, strides.next().expect("congruent by construction"))
        })))
    }

    /// Returns the register tensor for this layout: mode 0 column-major and fastest, the other modes in the order of
    /// their strides; stride 0 stays 0 in mode 0. CuTe's `make_fragment_like`.
    ///
    /// # Errors
    ///
    /// Returns an error for coordinate and XOR strides, or if a number does not fit in 64 bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let tile: Layout = "(2,3,4):(12,4,1)".parse()?;
    /// assert_eq!(tile.fragment_like()?, "(2,3,4):(1,8,2)".parse()?);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[doc(alias = "make_fragment_like")]
    pub fn fragment_like(&self) -> Result<Self, Error> {
        let shape = self.shape();
        if self.rank() <= 1 {
            return Self::column_major(shape);
        }
        let stride = self.int_strides("fragment_like")?;
        let (first, rest) = (shape.get(&[0])?, 1..self.rank());
        let values = Self::column_major(first.filter_zeros(&stride.get(&[0])?)?)?;
        let mut value_strides = values.leaves().iter().map(|l| l.stride);
        let values = Self(first.map(|s| {
            LeafMode::new(
                s,
                value_strides
                    .next()
                    .expect("filter_zeros keeps the nesting"),
            )
        }));
        let order = Self::ordered(&shape.take(rest.clone())?, &stride.take(rest)?)?;
        values.tiled_product(order)
    }

    /// The stride as a tuple of integers.
    pub(crate) fn int_strides(&self, operation: &'static str) -> Result<IntTuple, Error> {
        self.0.try_map(|leaf| self.int_stride(operation, &leaf))
    }
}

/// The order of modes in which the first one moves fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutLeft;

/// The order of modes in which the last one moves fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutRight;

/// The order in which modes are laid out: [`LayoutLeft`], [`LayoutRight`], or an [`IntoIntTuple`] with one number for
/// each mode, of which the least is laid out first.
///
/// # Example
///
/// ```
/// use colex_layout::{Layout, LayoutLeft, LayoutRight};
/// assert_eq!(Layout::ordered((4, 8), LayoutLeft)?, Layout::column_major((4, 8))?);
/// assert_eq!(Layout::ordered((4, 8), LayoutRight)?, Layout::row_major((4, 8))?);
/// assert_eq!(Layout::ordered((4, 8), (2, 1))?, Layout::row_major((4, 8))?);
/// # Ok::<(), colex_layout::Error>(())
/// ```
pub trait ModeOrder: Sized {
    /// Returns the compact layout of `shape` in this order.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::ordered`].
    fn compact(self, shape: IntTuple) -> Result<Layout, Error>;
}

impl ModeOrder for LayoutLeft {
    fn compact(self, shape: IntTuple) -> Result<Layout, Error> {
        Layout::column_major(shape)
    }
}

impl ModeOrder for LayoutRight {
    fn compact(self, shape: IntTuple) -> Result<Layout, Error> {
        Layout::row_major(shape)
    }
}

impl<V: IntoIntTuple> ModeOrder for V {
    fn compact(self, shape: IntTuple) -> Result<Layout, Error> {
        Layout::ordered_by(&shape, &self.into_int_tuple()?)
    }
}

/// The stride of the next mode in a compact walk.
fn advance(extent: Int, current: &mut Int) -> Result<Stride, Error> {
    if extent.is(1) {
        return Ok(Stride::Int(extent.with_value(0)));
    }
    let stride = *current;
    *current = current.times(extent)?;
    Ok(Stride::Int(stride))
}

/// The product of all extents of lesser order, for each order that occurs.
struct Starts(SmallVec<[(Int, Int); 12]>);

impl Starts {
    fn new(orders: &IntTuple, extents: &IntTuple) -> Result<Self, Error> {
        let pairs = orders.leaves().iter().zip(extents.leaves());
        let mut by_order: SmallVec<[(Int, Int); 12]> = pairs.map(|(o, s)| (*o, *s)).collect();
        by_order.sort_unstable_by_key(|(order, _)| *order);
        let mut starts: SmallVec<[(Int, Int); 12]> = SmallVec::new();
        let mut product = Int::Static(1);
        for same in by_order.chunk_by(|(a, _), (b, _)| a == b) {
            starts.push((same[0].0, product));
            product = same.iter().try_fold(product, |n, (_, s)| n.times(*s))?;
        }
        Ok(Self(starts))
    }

    fn at(&self, order: Int) -> Int {
        let at = self.0.partition_point(|(o, _)| *o < order);
        self.0[at].1
    }
}

/// Strides of each mode, starting at the product of all extents of lesser order.
fn start_strides(
    shape: View<'_, Int>,
    order: View<'_, Int>,
    starts: &Starts,
    out: &mut SmallVec<[Stride; 12]>,
) -> Result<(), Error> {
    side_by_side(shape, order, |shape, order| {
        let Some(o) = order.as_leaf() else {
            return Ok(true);
        };
        let mut current = starts.at(o);
        for &s in shape.split_first().0.leaves() {
            out.push(advance(s, &mut current)?);
        }
        Ok(false)
    })
}

impl Tuple<Int> {
    /// Returns the product of a whole sub-tuple, by its path.
    ///
    /// # Errors
    ///
    /// Returns an error for a mode beyond the rank, or if a number does not fit in 64 bits.
    pub fn size_at(&self, path: &[usize]) -> Result<Int, Error> {
        product(self.get(path)?.view())
    }
}
