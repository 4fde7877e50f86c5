//! `Tensor`: data and the layout that says where each element lies.

mod array;
mod coordinates;
pub(crate) mod extents;
mod fold;
pub(crate) mod part;
pub(crate) mod partition;
mod recast;

pub use coordinates::Coordinates;
pub use partition::{Partition, Partitionable};

use core::ops::{Deref, DerefMut};

use colex_layout::{IntoIntTuple, IntoLayout, Layout};

use crate::Error;
use crate::error::ErrorKind;
use crate::tensor::extents::{check_walk, overflow, reach};
use crate::tensor::partition::fragment_like;

/// Elements, borrowed or owned, under a layout whose every offset lies within them.
///
/// # Example
///
/// ```
/// use colex_tiled::Tensor;
/// let data: Vec<i32> = (0..1024).collect();
/// let tensor = Tensor::new(&data[..], "(16,64):(1,16)")?;
/// let tile = tensor.local_tile((4, 8), (1, 2))?;
/// assert_eq!(tile.layout().to_string(), "(4,8):(1,16)");
/// assert_eq!(*tile.get((0, 0))?, 4 + 16 * 16);
/// let part = tensor.local_partition("(2,16):(1,2)", 5)?;
/// assert_eq!(part.layout().to_string(), "(8,4):(2,256)");
/// assert_eq!(*part.get((0, 0))?, 1 + 16 * 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Source: `Tensor` in `cute/tensor_impl.hpp`, which checks no bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor<D> {
    data: D,
    start: i64,
    layout: Layout,
}

impl<T, D: Deref<Target = [T]>> Tensor<D> {
    /// Returns the tensor of `data` under `layout`.
    ///
    /// ```
    /// use colex_tiled::Tensor;
    /// let error = Tensor::new(vec![0; 8], "(3,3):(1,3)").unwrap_err();
    /// assert_eq!(error.to_string(), "Tensor: (3,3):(1,3) reaches offset 8, and the data has 8 elements");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if an offset is negative or beyond the data, for more than 2^26 elements under XOR strides, of
    /// which each is looked at, or for a layout whose values are coordinates.
    pub fn new(data: D, layout: impl IntoLayout) -> Result<Self, Error> {
        let layout = layout.into_layout()?;
        let tensor = Self {
            data,
            start: 0,
            layout,
        };
        tensor.starting_at(0)
    }

    /// Returns the element at a coordinate.
    ///
    /// # Errors
    ///
    /// Returns an error for a coordinate outside of the shape.
    pub fn get(&self, coord: impl IntoIntTuple) -> Result<&T, Error> {
        Ok(&self.data[self.place(self.layout.at(coord)?)])
    }

    /// Returns all elements in colexicographic order of their coordinates.
    ///
    /// # Errors
    ///
    /// Returns an error for more than 2^26 of them, which a layout with a stride of 0 has over little data.
    pub fn elements(&self) -> Result<Vec<&T>, Error> {
        check_walk("elements", &self.layout)?;
        let table = self.layout.table()?;
        Ok(table
            .into_iter()
            .map(|x| &self.data[self.place(x)])
            .collect())
    }

    /// Returns the same tensor, borrowed.
    #[must_use]
    pub fn view(&self) -> Tensor<&[T]> {
        self.reshaped(self.start, self.layout.clone())
    }

    /// The element at an offset of the layout.
    pub(crate) fn element(&self, offset: i64) -> &T {
        &self.data[self.place(offset)]
    }

    pub(crate) fn place(&self, offset: i64) -> usize {
        let place = self.beyond_start(offset).ok();
        let place = place.and_then(|place| usize::try_from(place).ok());
        place.expect("a tensor's offsets lie within its data")
    }

    /// The sum with the start, or its XOR where the strides xor.
    pub(crate) fn beyond_start(&self, offset: i64) -> Result<i64, ErrorKind> {
        if self.layout.is_xor() {
            return Ok(self.start ^ offset);
        }
        let sum = self.start.checked_add(offset);
        sum.ok_or(overflow(self.start, '+', offset))
    }

    /// Returns the same elements by another layout, made of this one: composed, divided, grouped, coalesced.
    ///
    /// ```
    /// use colex_tiled::Tensor;
    /// let tensor = Tensor::new((0..32).collect::<Vec<i32>>(), "(8,4):(1,8)")?;
    /// let tiles = tensor.map_layout(|layout| layout.zipped_divide((2, 2)))?;
    /// assert_eq!(tiles.layout().to_string(), "((2,2),(4,2)):((1,8),(2,16))");
    /// assert_eq!(tiles.get(((1, 1), (3, 1)))?, &31);
    /// let error = tensor.map_layout(|_| "33:1".parse()).unwrap_err();
    /// assert_eq!(error.to_string(), "Tensor: 33:1 reaches offset 32, and the data has 32 elements");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if `f` does, or for a layout that reaches outside of the data.
    pub fn map_layout(
        &self,
        f: impl FnOnce(&Layout) -> Result<Layout, colex_layout::Error>,
    ) -> Result<Tensor<&[T]>, Error> {
        self.reshaped(0, f(&self.layout)?).starting_at(self.start)
    }

    /// Returns a compact tensor of the same shape: its first mode contiguous, the others in the order of these strides.
    /// CuTe's `make_fragment_like`.
    ///
    /// ```
    /// use colex_tiled::Tensor;
    /// let tensor = Tensor::new(vec![0.5; 64], "(4,2,2):(1,32,8)")?;
    /// let registers = tensor.fragment_like::<i32>()?;
    /// assert_eq!(format!("{:#}", registers.layout()), "(4,2,2):(1,8,4)");
    /// assert_eq!(registers.elements()?, [&0; 16]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the layout algebra has no result, and if the fragment has more than 2^26 elements.
    #[doc(alias = "make_fragment_like")]
    pub fn fragment_like<U: Clone + Default>(&self) -> Result<Tensor<Vec<U>>, Error> {
        let layout = fragment_like(&self.layout)?;
        check_walk("fragment_like", &layout)?;
        let size = usize::try_from(layout.cosize()?).expect("a cosize is positive");
        Tensor::new(vec![U::default(); size], layout)
    }

    /// The same data under another layout, from another element on.
    pub(crate) fn reshaped(&self, start: i64, layout: Layout) -> Tensor<&[T]> {
        Tensor {
            data: &self.data,
            start,
            layout,
        }
    }

    pub(crate) const fn start(&self) -> i64 {
        self.start
    }

    /// The same tensor from another element on, which must leave it within its data.
    pub(crate) fn starting_at(mut self, start: i64) -> Result<Self, Error> {
        self.start = start;
        let inside = 0..i64::try_from(self.data.len()).unwrap_or(i64::MAX);
        let places = match reach(&self.layout)? {
            Some(ends) => ends.to_vec(),
            None => {
                check_walk("Tensor", &self.layout)?;
                self.layout.table()?
            }
        };
        let mut places = places.into_iter().map(|x| self.beyond_start(x));
        let outside = places.find(|x| !x.as_ref().is_ok_and(|x| inside.contains(x)));
        match outside.transpose()? {
            None => Ok(self),
            Some(offset) => Err(Error::assumption(
                "Tensor",
                format!(
                    "{} reaches offset {offset}, and the data has {} elements",
                    self.layout,
                    self.data.len()
                ),
            )),
        }
    }
}

impl<D> Tensor<D> {
    /// Returns the layout.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) const fn data(&self) -> &D {
        &self.data
    }

    /// A tensor that is known to stay within its data.
    pub(crate) const fn known(data: D, start: i64, layout: Layout) -> Self {
        Self {
            data,
            start,
            layout,
        }
    }

    pub(crate) const fn data_mut(&mut self) -> &mut D {
        &mut self.data
    }
}

impl<T, D: DerefMut<Target = [T]>> Tensor<D> {
    /// Returns the same tensor, borrowed to be written to.
    #[must_use]
    pub fn view_mut(&mut self) -> Tensor<&mut [T]> {
        let (start, layout) = (self.start, self.layout.clone());
        Tensor {
            data: &mut self.data,
            start,
            layout,
        }
    }

    /// The element at an offset of the layout, to be written to.
    pub(crate) fn element_mut(&mut self, offset: i64) -> &mut T {
        let place = self.place(offset);
        &mut self.data[place]
    }

    /// Replaces the element at a coordinate.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::get`].
    pub fn set(&mut self, coord: impl IntoIntTuple, value: T) -> Result<(), Error> {
        let place = self.place(self.layout.at(coord)?);
        self.data[place] = value;
        Ok(())
    }
}

/// Refuses to write to a layout that has one element at several coordinates: which value stays would be a race.
pub(crate) fn one_place_each(operation: &'static str, layout: &Layout) -> Result<(), Error> {
    if has_room(layout)? {
        let mut places = layout.table()?;
        places.sort_unstable();
        if places.windows(2).all(|pair| pair[0] != pair[1]) {
            return Ok(());
        }
    }
    Err(Error::assumption(
        operation,
        format!(
            "{layout} has one element at several coordinates, and which value stays there is a race"
        ),
    ))
}

/// Whether there are as many places from the least to the greatest as there are coordinates.
fn has_room(layout: &Layout) -> Result<bool, Error> {
    Ok(reach(layout)?.is_none_or(|[low, high]| layout.size() - 1 <= high.saturating_sub(low)))
}
