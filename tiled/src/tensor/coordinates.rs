//! Tensors of coordinates: identity tensors, and their parts.

use colex_layout::{IntTuple, IntoCoord, IntoIntTuple, IntoLayout, IntoTiler, Layout};

use crate::Error;
use crate::tensor::extents::{bare, check_walk, is_inside};
use crate::tensor::part::Cut;
use crate::tensor::partition::beyond;
use crate::tensor::{Partition, Tensor};

/// What stands for the data of a tensor of coordinates: nothing but where it starts. Its elements are the values of its
/// layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Coordinates {
    start: IntTuple,
}

/// A tensor whose element at each place is a coordinate of another tensor: its parts, cut as the other tensor is cut,
/// say what their elements are, and so what lies outside where a tile does not divide.
///
/// ```
/// use colex_tiled::{Coordinates, Tensor};
/// let coordinates = Tensor::<Coordinates>::identity((20, 30))?;
/// let last = coordinates.local_tile((16, 16), (1, 1))?;
/// assert_eq!(last.get((2, 3))?.to_string(), "(18,19)");
/// // 4 rows and 14 columns of the last tile are there.
/// let inside = last.within((20, 30))?;
/// assert_eq!(inside.reduce(0, |n, yes| n + i32::from(*yes))?, 4 * 14);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Source: `make_identity_tensor` in `cute/tensor_impl.hpp`.
impl Tensor<Coordinates> {
    /// Returns the tensor of this shape whose every element is its own coordinate.
    ///
    /// # Errors
    ///
    /// Returns an error for an extent below 1.
    #[doc(alias = "make_identity_tensor")]
    pub fn identity(shape: impl IntoIntTuple) -> Result<Self, Error> {
        Self::coordinates(Layout::identity(shape)?)
    }

    /// Returns the tensor of the values of a layout.
    ///
    /// # Errors
    ///
    /// Returns an error for strides that name both a mode and a mode inside it.
    #[doc(alias = "make_coord_tensor")]
    pub fn coordinates(layout: impl IntoLayout) -> Result<Self, Error> {
        let layout = layout.into_layout()?;
        let start = layout.coord_at(0)?;
        Ok(Self::known(Coordinates { start }, 0, layout))
    }

    /// Returns the element at a coordinate.
    ///
    /// # Errors
    ///
    /// Returns an error for a coordinate outside of the shape.
    pub fn get(&self, coord: impl IntoIntTuple) -> Result<IntTuple, Error> {
        beyond(self.start(), self.layout(), self.layout().coord_at(coord)?)
    }

    /// Returns where the tensor starts: its first element.
    #[must_use]
    pub fn start(&self) -> &IntTuple {
        &self.data().start
    }

    /// Returns all elements in colexicographic order of their places.
    ///
    /// # Errors
    ///
    /// Returns an error for more than 2^26 of them, or if a number does not fit in 64 bits.
    pub fn elements(&self) -> Result<Vec<IntTuple>, Error> {
        check_walk("elements", self.layout())?;
        let value = |index| beyond(self.start(), self.layout(), self.layout().coord_at(index)?);
        (0..self.layout().size()).map(value).collect()
    }

    /// Returns for each element whether it lies inside a tensor of this shape: the predicates of a copy.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::elements`].
    #[doc(alias = "elem_less")]
    pub fn within(&self, shape: impl IntoIntTuple) -> Result<Tensor<Vec<bool>>, Error> {
        let shape = &shape.into_int_tuple()?;
        let tensor = Layout::column_major(shape.product_each()?)?;
        let elements = self.elements()?.into_iter();
        let predicates = elements.map(|coord| is_inside(&bare(coord), &tensor));
        let layout = Layout::column_major(self.layout().shape())?;
        Tensor::new(predicates.collect(), layout)
    }

    /// Returns the same as [`Tensor::slice`] of data.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::slice`].
    pub fn slice(&self, coord: impl IntoCoord) -> Result<Self, Error> {
        let coord = coord.into_coord()?;
        self.at_value(
            self.layout().coord_at(coord.start())?,
            self.layout().slice(&coord)?,
        )
    }

    /// Returns the same as [`Tensor::local_tile`] of data, but that the tiler need not divide: the last tiles have
    /// coordinates outside.
    ///
    /// # Errors
    ///
    /// Returns an error if the layout algebra has no result.
    #[doc(alias = "inner_partition")]
    pub fn local_tile(
        &self,
        tiler: impl IntoTiler,
        coord: impl IntoIntTuple,
    ) -> Result<Self, Error> {
        self.part(Cut::tile(tiler, coord)?)
    }

    /// Returns the same as [`Tensor::local_tile_of`] of data.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::local_tile_of`].
    pub fn local_tile_of(
        &self,
        tiler: impl IntoTiler,
        coord: impl IntoIntTuple,
        modes: &[usize],
    ) -> Result<Self, Error> {
        self.part(Cut::tile(tiler, coord)?.of(modes)?)
    }

    /// Returns the same as [`Tensor::outer_partition`] of data, but that the tiler need not divide.
    ///
    /// # Errors
    ///
    /// Returns an error if the layout algebra has no result.
    pub fn outer_partition(
        &self,
        tiler: impl IntoTiler,
        coord: impl IntoIntTuple,
    ) -> Result<Self, Error> {
        self.part(Cut::rest(tiler, coord)?)
    }

    /// Returns the same as [`Tensor::local_partition`] of data, but that the threads need not divide.
    ///
    /// # Errors
    ///
    /// Returns an error if the layout algebra has no result.
    pub fn local_partition(&self, threads: impl IntoLayout, index: i64) -> Result<Self, Error> {
        self.part(Cut::thread(threads, index)?)
    }

    /// Returns the same as [`Tensor::local_partition_of`] of data.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::local_partition_of`].
    pub fn local_partition_of(
        &self,
        threads: impl IntoLayout,
        index: i64,
        modes: &[usize],
    ) -> Result<Self, Error> {
        self.part(Cut::thread(threads, index)?.of(modes)?)
    }

    fn part(&self, cut: Cut) -> Result<Self, Error> {
        let (divided, part, at) = cut.apply(self.layout())?;
        self.at_value(divided.coord_at(at)?, part)
    }

    fn at_value(&self, value: IntTuple, layout: Layout) -> Result<Self, Error> {
        let start = beyond(self.start(), self.layout(), value)?;
        Ok(Self::known(Coordinates { start }, 0, layout))
    }
}

/// A thread's part of an identity tensor is a tensor of coordinates.
impl From<Partition> for Tensor<Coordinates> {
    fn from(partition: Partition) -> Self {
        let Partition { layout, start } = partition;
        Self::known(Coordinates { start }, 0, layout)
    }
}
