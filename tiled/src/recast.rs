//! The same data in wider or narrower elements.

use core::ops::Deref;

use crate::{Error, Tensor};

impl<T, D: Deref<Target = [T]>> Tensor<D> {
    /// `N` neighbours as one element: what a vector load sees. CuTe's `recast` to a wider type, which checks neither
    /// divisibility nor alignment.
    ///
    /// ```
    /// use colex_tiled::Tensor;
    /// let tensor = Tensor::new((0..32).collect::<Vec<i32>>(), "(4,8):(8,1)".parse()?)?;
    /// let vectors = tensor.recast_wider::<4>()?;
    /// assert_eq!(vectors.layout().to_string(), "(4,2):(2,1)");
    /// assert_eq!(vectors.get((1, 1))?, &[12, 13, 14, 15]);
    /// assert_eq!(vectors.recast_narrower()?.get((1, 5))?, &13);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Layout`] when a stride or the contiguous mode is not a multiple of `N`; [`Error::Assumption`] when the
    /// tensor starts between two such elements, or its last one reaches beyond the data.
    #[doc(alias = "recast")]
    pub fn recast_wider<const N: usize>(&self) -> Result<Tensor<&[[T; N]]>, Error> {
        const { assert!(N > 0, "an element of nothing") };
        let refuse = |why| Error::Assumption {
            operation: "recast_wider",
            why,
        };
        let n = N as i64;
        let layout = self.layout().upcast(n)?;
        if layout.size() * n != self.layout().size() {
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
        let (elements, _) = self.data().as_chunks::<N>();
        Tensor::new(elements, layout)?.starting_at(self.start() / n)
    }
}

impl<T, const N: usize, D: Deref<Target = [[T; N]]>> Tensor<D> {
    /// Each element as its `N` parts. CuTe's `recast` to a narrower type.
    ///
    /// # Errors
    ///
    /// [`Error::Layout`] when no mode is contiguous.
    #[doc(alias = "recast")]
    pub fn recast_narrower(&self) -> Result<Tensor<&[T]>, Error> {
        let n = N as i64;
        let layout = self.layout().downcast(n)?;
        Tensor::new(self.data().as_flattened(), layout)?.starting_at(self.start() * n)
    }
}
