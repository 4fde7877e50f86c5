//! Tensors from arrays of `ndarray`, and back.

use core::ops::Deref;

use colex_layout::{IntTuple, Layout, Stride, Tuple};
use ndarray::{Array, ArrayD, ArrayView, ArrayViewD, ArrayViewMut, Dimension, IxDyn, ShapeBuilder};

use crate::Error;
use crate::tensor::Tensor;

impl<'a, T> Tensor<&'a [T]> {
    /// Returns the tensor of a view: its extents and strides, one mode an axis. No element is copied.
    ///
    /// ```
    /// use colex_tiled::Tensor;
    /// let array = ndarray::array![[1, 2, 3], [4, 5, 6]];
    /// let tensor = Tensor::from_view(array.view().reversed_axes())?;
    /// assert_eq!(tensor.layout().to_string(), "(3,2):(1,3)");
    /// assert_eq!(tensor.get((2, 1))?, &6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for a view that is not one stretch of memory: take the whole array, and slice the tensor.
    /// Returns an error for an axis without elements.
    pub fn from_view<N: Dimension>(view: ArrayView<'a, T, N>) -> Result<Self, Error> {
        let (start, layout) = layout_of(view.shape(), view.strides())?;
        let data = view
            .to_slice_memory_order()
            .ok_or_else(|| scattered(&layout))?;
        Self::new_at(data, start, layout)
    }
}

impl<'a, T> Tensor<&'a mut [T]> {
    /// Returns the same as [`Tensor::from_view`], to be written to.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::from_view`].
    pub fn from_view_mut<N: Dimension>(view: ArrayViewMut<'a, T, N>) -> Result<Self, Error> {
        let (start, layout) = layout_of(view.shape(), view.strides())?;
        let data = view
            .into_slice_memory_order()
            .ok_or_else(|| scattered(&layout))?;
        Self::new_at(data, start, layout)
    }
}

impl<T> Tensor<Vec<T>> {
    /// Returns the tensor of an array, whose elements it takes over.
    ///
    /// # Errors
    ///
    /// Returns an error for an axis without elements.
    pub fn from_array<N: Dimension>(array: Array<T, N>) -> Result<Self, Error> {
        let (_, layout) = layout_of(array.shape(), array.strides())?;
        let (data, first) = array.into_raw_vec_and_offset();
        let first = first.and_then(|first| i64::try_from(first).ok());
        Self::new_at(data, first.unwrap_or(0), layout)
    }
}

impl<T, D: Deref<Target = [T]>> Tensor<D> {
    /// Returns an array of the tensor's elements, one axis per mode.
    ///
    /// ```
    /// use colex_tiled::Tensor;
    /// let tensor = Tensor::new((0..8).collect::<Vec<i32>>(), "(2,(2,2)):(2,(4,1))")?;
    /// assert_eq!(tensor.to_array()?, ndarray::array![[0, 4, 1, 5], [2, 6, 3, 7]].into_dyn());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::elements`].
    pub fn to_array(&self) -> Result<ArrayD<T>, Error>
    where
        T: Clone,
    {
        let elements = self.elements()?.into_iter().cloned().collect();
        let shape = IxDyn(&self.axes()).f();
        let array = ArrayD::from_shape_vec(shape, elements);
        Ok(array.expect("a tensor has as many elements as its extents say"))
    }

    /// Returns the tensor as a view, one axis per mode. No element is copied.
    ///
    /// # Errors
    ///
    /// Returns an error for a mode that does not have one positive stride: [`Tensor::to_array`] copies.
    pub fn array_view(&self) -> Result<ArrayViewD<'_, T>, Error> {
        let mut strides = Vec::new();
        for mode in self.layout().modes() {
            let flat = mode.coalesce(..);
            let stride = match (flat.leaves(), flat.is_leaf()) {
                ([leaf], true) => leaf.stride.as_int().map(|d| d.value()),
                _ => None,
            };
            let stride = stride.and_then(|d| usize::try_from(d).ok());
            // An axis of one element may have any stride.
            let stride = stride.filter(|d| *d > 0 || mode.size() == 1);
            strides.push(stride.ok_or_else(|| {
                Error::assumption(
                    "array_view",
                    format!(
                        "the mode {mode} of {} does not have one positive stride",
                        self.layout()
                    ),
                )
            })?);
        }
        let first = self.place(0);
        let shape = IxDyn(&self.axes()).strides(IxDyn(&strides));
        let view = ArrayViewD::from_shape(shape, &self.data()[first..]);
        view.map_err(|error| Error::assumption("array_view", format!("{}: {error}", self.layout())))
    }

    /// The extents of the modes.
    fn axes(&self) -> Vec<usize> {
        let modes = self.layout().modes();
        modes
            .map(|mode| usize::try_from(mode.size()).expect("extents are positive"))
            .collect()
    }

    fn new_at(data: D, start: i64, layout: Layout) -> Result<Self, Error> {
        Self::known(data, 0, layout).starting_at(start)
    }
}

/// The layout of an array, and the place of its first element: after as many as its negative strides go back.
fn layout_of(shape: &[usize], strides: &[isize]) -> Result<(i64, Layout), Error> {
    let extents: Vec<i64> = shape.iter().map(|n| *n as i64).collect();
    let strides: Vec<i64> = strides.iter().map(|d| *d as i64).collect();
    let back = extents
        .iter()
        .zip(&strides)
        .map(|(n, d)| (n - 1) * -d.min(&0));
    let start = back.sum();
    let layout = match (&extents[..], &strides[..]) {
        ([], _) => Layout::unit(),
        ([n], [d]) => Layout::leaf(*n, *d)?,
        _ => {
            let strides = strides.iter().map(|d| Stride::from(*d));
            Layout::new(
                IntTuple::flat(extents.iter().map(|n| (*n).into())),
                Tuple::flat(strides),
            )?
        }
    };
    Ok((start, layout))
}

fn scattered(layout: &Layout) -> Error {
    Error::assumption(
        "from_view",
        format!(
            "the view {layout} is not one stretch of memory: take the whole array, and slice the tensor"
        ),
    )
}
