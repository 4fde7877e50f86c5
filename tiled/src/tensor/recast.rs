//! The same data in wider or narrower elements.

use core::ops::{Deref, DerefMut};

use colex_layout::Layout;

use crate::Error;
use crate::tensor::Tensor;

impl<T, D: Deref<Target = [T]>> Tensor<D> {
    /// Returns `N` neighbours as one element: what a vector load sees. CuTe's `recast` to a wider type, which checks
    /// neither divisibility nor alignment.
    ///
    /// ```
    /// use colex_tiled::Tensor;
    /// let tensor = Tensor::new((0..32).collect::<Vec<i32>>(), "(4,8):(8,1)")?;
    /// let vectors = tensor.recast_wider::<4>()?;
    /// assert_eq!(vectors.layout().to_string(), "(4,2):(2,1)");
    /// assert_eq!(vectors.get((1, 1))?, &[12, 13, 14, 15]);
    /// assert_eq!(vectors.recast_narrower()?.get((1, 5))?, &13);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if a stride or the contiguous mode is not a multiple of `N`, or if the tensor starts between
    /// two such elements, or its last one reaches beyond the data.
    #[doc(alias = "recast")]
    pub fn recast_wider<const N: usize>(&self) -> Result<Tensor<&[[T; N]]>, Error> {
        let (start, layout) = self.wider::<N>()?;
        let (elements, _) = self.data().as_chunks::<N>();
        Tensor::known(elements, 0, layout).starting_at(start)
    }

    /// The start and the layout in elements of `N` neighbours.
    fn wider<const N: usize>(&self) -> Result<(i64, Layout), Error> {
        const { assert!(N > 0, "an element of nothing") };
        let refuse = |why| Error::assumption("recast_wider", why);
        let n = N as i64;
        let layout = self.layout().upcast(n)?;
        if self.layout().upcast_exact(n).is_err() {
            let (wide, narrow) = (layout, self.layout());
            return Err(refuse(format!(
                "{wide} of {N} elements each is not all of {narrow}"
            )));
        }
        if self.start() % n != 0 {
            let start = self.start();
            return Err(refuse(format!(
                "the tensor starts at element {start}, not at a multiple of {N}"
            )));
        }
        Ok((self.start() / n, layout))
    }
}

impl<T, D: DerefMut<Target = [T]>> Tensor<D> {
    /// Returns the same as [`Tensor::recast_wider`], to be written to: what a vector store does.
    ///
    /// ```
    /// use colex_tiled::Tensor;
    /// let mut tensor = Tensor::new(vec![0; 8], "(2,4):(4,1)")?;
    /// tensor.recast_wider_mut::<2>()?.set((1, 0), [7, 8])?;
    /// assert_eq!(tensor.get((1, 1))?, &8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::recast_wider`].
    #[doc(alias = "recast")]
    pub fn recast_wider_mut<const N: usize>(&mut self) -> Result<Tensor<&mut [[T; N]]>, Error> {
        let (start, layout) = self.wider::<N>()?;
        let (elements, _) = self.data_mut().as_chunks_mut::<N>();
        Tensor::known(elements, 0, layout).starting_at(start)
    }
}

impl<T, const N: usize, D: Deref<Target = [[T; N]]>> Tensor<D> {
    /// Returns each element as its `N` parts. CuTe's `recast` to a narrower type.
    ///
    /// # Errors
    ///
    /// Returns an error if no mode is contiguous.
    #[doc(alias = "recast")]
    pub fn recast_narrower(&self) -> Result<Tensor<&[T]>, Error> {
        let n = N as i64;
        let layout = self.layout().downcast(n)?;
        Tensor::known(self.data().as_flattened(), 0, layout).starting_at(self.start() * n)
    }
}
