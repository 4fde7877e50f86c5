//! Operations on all elements of a tensor, on the host: `reduce`, `fill`, `axpby`, `transform`, `copy` and their masked forms.

use core::ops::{Add, Deref, DerefMut, Mul};

use colex_layout::IntTuple;

use crate::Error;
use crate::tensor::extents::{bare, check_walk};
use crate::tensor::{Tensor, one_place_each};

impl<T, D: Deref<Target = [T]>> Tensor<D> {
    /// Returns `combine(.. combine(combine(init, first), second) .., last)` over the elements in colexicographic order.
    ///
    /// ```
    /// use colex_tiled::Tensor;
    /// let tensor = Tensor::new(vec![1, 2, 3, 4, 5, 6], "(2,2):(1,3)")?;
    /// assert_eq!(tensor.reduce(0, |sum, x| 10 * sum + x)?, 1245);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::elements`].
    ///
    /// Source: `reduce` in `cute/algorithm/tensor_reduce.hpp`.
    pub fn reduce<S>(&self, init: S, combine: impl FnMut(S, &T) -> S) -> Result<S, Error> {
        Ok(self.elements()?.into_iter().fold(init, combine))
    }

    /// Calls `f` with each element in colexicographic order.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::elements`].
    pub fn for_each(&self, f: impl FnMut(&T)) -> Result<(), Error> {
        self.elements()?.into_iter().for_each(f);
        Ok(())
    }
}

impl<T, D: DerefMut<Target = [T]>> Tensor<D> {
    /// Sets every element to `value`; what lies between them in the data stays.
    ///
    /// ```
    /// use colex_tiled::Tensor;
    /// let mut data = vec![0; 6];
    /// Tensor::new(&mut data[..], "3:2")?.fill(7)?;
    /// assert_eq!(data, [7, 0, 7, 0, 7, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::elements`].
    pub fn fill(&mut self, value: T) -> Result<(), Error>
    where
        T: Clone,
    {
        check_walk("fill", self.layout())?;
        for offset in self.layout().table()? {
            let place = self.place(offset);
            self.data_mut()[place] = value.clone();
        }
        Ok(())
    }

    /// Computes `self = alpha x + beta self`, element by element in colexicographic order. The two layouts may differ;
    /// elements with the same index belong together.
    ///
    /// ```
    /// use colex_tiled::Tensor;
    /// let x = Tensor::new(vec![1, 2, 3, 4], "(2,2):(2,1)")?;
    /// let mut y = Tensor::new(vec![10, 20, 30, 40], "(2,2):(1,2)")?;
    /// y.axpby(100, &x, 1)?;
    /// assert_eq!(y.elements()?, [&110, &320, &230, &440]);
    /// let short = Tensor::new(vec![1], "1:0")?;
    /// assert_eq!(y.axpby(1, &short, 1).unwrap_err().to_string(), "axpby: 1:0 has 1 elements, and (2,2):(1,2) has 4");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the two differ in their number of elements, or `self` has one element at two coordinates.
    ///
    /// Source: `axpby` in `cute/algorithm/axpby.hpp`.
    pub fn axpby<S: Deref<Target = [T]>>(
        &mut self,
        alpha: T,
        x: &Tensor<S>,
        beta: T,
    ) -> Result<(), Error>
    where
        T: Copy + Add<Output = T> + Mul<Output = T>,
    {
        self.update_if("axpby", x, |_| true, |y, x| alpha * *x + beta * *y)
    }

    /// Sets every element to the default of its type; CuTe's `clear`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::fill`].
    pub fn clear(&mut self) -> Result<(), Error>
    where
        T: Clone + Default,
    {
        self.fill(T::default())
    }

    /// Replaces every element by `f` of itself.
    ///
    /// ```
    /// use colex_tiled::Tensor;
    /// let mut tensor = Tensor::new(vec![1, 2, 3, 4], "(2,1):(2,0)")?;
    /// tensor.transform(|x| -x)?;
    /// assert_eq!(tensor.view().elements()?, [&-1, &-3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if one element is at two coordinates: `f` would be applied twice.
    ///
    /// Source: `transform` in `cute/algorithm/tensor_algorithms.hpp`.
    pub fn transform(&mut self, mut f: impl FnMut(&T) -> T) -> Result<(), Error> {
        one_place_each("transform", self.layout())?;
        for offset in self.layout().table()? {
            let place = self.place(offset);
            self.data_mut()[place] = f(&self.data()[place]);
        }
        Ok(())
    }

    /// Sets every element to `f` of the element of `x` with the same index: CuTe's `transform` of two tensors.
    ///
    /// ```
    /// use colex_tiled::Tensor;
    /// let x = Tensor::new(vec![1, 2, 3, 4], "(2,2):(2,1)")?;
    /// let mut y = Tensor::new(vec![0.0; 4], "(2,2):(1,2)")?;
    /// y.transform_from(&x, |x| f64::from(*x) / 2.0)?;
    /// assert_eq!(y.elements()?, [&0.5, &1.5, &1.0, &2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the two differ in their number of elements, or `self` has one element at two coordinates.
    #[doc(alias = "transform")]
    pub fn transform_from<U, S: Deref<Target = [U]>>(
        &mut self,
        x: &Tensor<S>,
        mut f: impl FnMut(&U) -> T,
    ) -> Result<(), Error> {
        let to = self.matched("transform", x)?;
        for (x, offset) in x.elements()?.into_iter().zip(to) {
            let place = self.place(offset);
            self.data_mut()[place] = f(x);
        }
        Ok(())
    }

    /// Sets every element to `f` of the elements of `x` and `y` with the same index: CuTe's `transform` of three.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::transform_from`].
    #[doc(alias = "transform")]
    pub fn transform_from_both<U, V, S, R>(
        &mut self,
        x: &Tensor<S>,
        y: &Tensor<R>,
        mut f: impl FnMut(&U, &V) -> T,
    ) -> Result<(), Error>
    where
        S: Deref<Target = [U]>,
        R: Deref<Target = [V]>,
    {
        let to = self.matched("transform", x)?;
        self.matched("transform", y)?;
        let from = x.elements()?.into_iter().zip(y.elements()?);
        for ((x, y), offset) in from.zip(to) {
            let place = self.place(offset);
            self.data_mut()[place] = f(x, y);
        }
        Ok(())
    }

    /// Sets every element to that of `x` with the same index: CuTe's `copy` of two tensors, one element at a time.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::transform_from`].
    #[doc(alias = "copy")]
    pub fn copy_from<S: Deref<Target = [T]>>(&mut self, x: &Tensor<S>) -> Result<(), Error>
    where
        T: Clone,
    {
        self.transform_from(x, T::clone)
    }

    /// Copies as [`Tensor::copy_from`] does, but only the coordinates for which `predicate` returns true: CuTe's `copy_if`
    /// of two tensors.
    ///
    /// ```
    /// use colex_tiled::Tensor;
    /// let x = Tensor::new((0..6).collect::<Vec<i32>>(), "(2,3):(1,2)")?;
    /// let mut y = Tensor::new(vec![-1; 6], "(2,3):(3,1)")?;
    /// y.copy_from_if(&x, |coord| coord.leaves()[1].value() < 2)?;
    /// assert_eq!(y.elements()?, [&0, &1, &2, &3, &-1, &-1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::transform_from`].
    #[doc(alias = "copy_if")]
    pub fn copy_from_if<S: Deref<Target = [T]>>(
        &mut self,
        x: &Tensor<S>,
        predicate: impl Fn(&IntTuple) -> bool,
    ) -> Result<(), Error>
    where
        T: Clone,
    {
        self.update_if("copy_if", x, predicate, |_, x| x.clone())
    }

    /// Computes as [`Tensor::axpby`] does, but only at the coordinates for which `predicate` returns true; the other
    /// elements stay.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::axpby`].
    #[doc(alias = "axpby")]
    pub fn axpby_if<S: Deref<Target = [T]>>(
        &mut self,
        alpha: T,
        x: &Tensor<S>,
        beta: T,
        predicate: impl Fn(&IntTuple) -> bool,
    ) -> Result<(), Error>
    where
        T: Copy + Add<Output = T> + Mul<Output = T>,
    {
        self.update_if("axpby", x, predicate, |y, x| alpha * *x + beta * *y)
    }

    /// Every element whose coordinate, one number per mode, is kept becomes `f` of itself and that of `x`.
    fn update_if<U, S: Deref<Target = [U]>>(
        &mut self,
        operation: &'static str,
        x: &Tensor<S>,
        predicate: impl Fn(&IntTuple) -> bool,
        f: impl Fn(&T, &U) -> T,
    ) -> Result<(), Error> {
        let to = self.matched(operation, x)?;
        let shape = self.layout().shape();
        for ((index, x), offset) in (0..).zip(x.elements()?).zip(to) {
            if predicate(&bare(shape.flat_coord(index)?)) {
                let place = self.place(offset);
                self.data_mut()[place] = f(&self.data()[place], x);
            }
        }
        Ok(())
    }

    /// The offsets to write to, where `x` has an element for each.
    fn matched<U, S: Deref<Target = [U]>>(
        &self,
        operation: &'static str,
        x: &Tensor<S>,
    ) -> Result<Vec<i64>, Error> {
        let (from, to) = (x.layout(), self.layout());
        let (n, m) = (from.size(), to.size());
        if n != m {
            let why = format!("{from} has {n} elements, and {to} has {m}");
            return Err(Error::assumption(operation, why));
        }
        one_place_each(operation, to)?;
        Ok(to.table()?)
    }
}
