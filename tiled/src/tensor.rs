//! `Tensor`: data and the layout that says where each element lies.

use core::ops::{Add, Deref, DerefMut, Mul};

use colex_layout::{IntTuple, Layout, LeafMode, Stride, Tiler};

use crate::Error;

/// Elements, borrowed or owned, under a layout whose every offset lies within them.
///
/// # Example
///
/// ```
/// use colex_tiled::Tensor;
/// let data: Vec<i32> = (0..1024).collect();
/// let tensor = Tensor::new(&data[..], "(16,64):(1,16)".parse()?)?;
/// let tile = tensor.local_tile(&"(4,8)".parse()?, &"(1,2)".parse()?)?;
/// assert_eq!(tile.layout().to_string(), "(4,8):(1,16)");
/// assert_eq!(*tile.get((0, 0))?, 4 + 16 * 16);
/// let part = tensor.local_partition(&"(2,16):(1,2)".parse()?, 5)?;
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
    /// The tensor of `data` under `layout`.
    ///
    /// ```
    /// use colex_tiled::Tensor;
    /// let error = Tensor::new(vec![0; 8], "(3,3):(1,3)".parse()?).unwrap_err();
    /// assert_eq!(error.to_string(), "Tensor: (3,3):(1,3) reaches offset 8, and the data has 8 elements");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Assumption`] when an offset is negative or beyond the data; [`Error::Layout`] for a layout whose
    /// values are coordinates.
    pub fn new(data: D, layout: Layout) -> Result<Self, Error> {
        let tensor = Self {
            data,
            start: 0,
            layout,
        };
        tensor.starting_at(0)
    }

    /// The layout.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The element at a coordinate.
    ///
    /// # Errors
    ///
    /// [`colex_layout::Error::OutOfBounds`] for a coordinate outside of the shape.
    pub fn get(&self, coord: impl Into<IntTuple>) -> Result<&T, Error> {
        Ok(&self.data[self.place(self.layout.offset(coord)?)])
    }

    /// All elements in colexicographic order of their coordinates.
    ///
    /// # Errors
    ///
    /// None for a tensor that was built; the layout's table is read again.
    pub fn elements(&self) -> Result<Vec<&T>, Error> {
        let table = self.layout.table()?;
        Ok(table
            .into_iter()
            .map(|x| &self.data[self.place(x)])
            .collect())
    }

    /// The same tensor, borrowed.
    #[must_use]
    pub fn view(&self) -> Tensor<&[T]> {
        Tensor {
            data: &self.data,
            start: self.start,
            layout: self.layout.clone(),
        }
    }

    fn place(&self, offset: i64) -> usize {
        usize::try_from(self.beyond_start(offset)).expect("a tensor's offsets lie within its data")
    }

    /// The sum with the start, or its XOR where the strides xor.
    fn beyond_start(&self, offset: i64) -> i64 {
        let xor = |leaf: &LeafMode| matches!(leaf.stride, Stride::Xor(_));
        match self.layout.leaves().iter().any(xor) {
            true => self.start ^ offset,
            false => self.start + offset,
        }
    }

    pub(crate) const fn data(&self) -> &D {
        &self.data
    }

    pub(crate) const fn start(&self) -> i64 {
        self.start
    }

    /// The same tensor from another element on, which must leave it within its data.
    pub(crate) fn starting_at(mut self, start: i64) -> Result<Self, Error> {
        self.start = start;
        let inside = 0..i64::try_from(self.data.len()).unwrap_or(i64::MAX);
        let mut places = self
            .layout
            .table()?
            .into_iter()
            .map(|x| self.beyond_start(x));
        match places.find(|x| !inside.contains(x)) {
            None => Ok(self),
            Some(offset) => Err(Error::Assumption {
                operation: "Tensor",
                why: format!(
                    "{} reaches offset {offset}, and the data has {} elements",
                    self.layout,
                    self.data.len()
                ),
            }),
        }
    }

    /// The tile at `coord` of the tensor cut by `tiler`: the tile's modes stay (CuTe's `local_tile`,
    /// `inner_partition`).
    ///
    /// # Errors
    ///
    /// [`Error::Assumption`] when the tiler does not divide the tensor: the last tiles would reach outside of it;
    /// [`Error::Layout`].
    #[doc(alias = "inner_partition")]
    pub fn local_tile(&self, tiler: &Tiler, coord: &IntTuple) -> Result<Tensor<&[T]>, Error> {
        self.part("local_tile", tiler, 0, &[0.into(), coord.clone()])
    }

    /// What thread `index` of `threads` has of the tensor: tiles of the threads' extents, and of each the element at
    /// the thread's place (CuTe's `local_partition`, `outer_partition`). Unlike CuTe's, `threads` need not be compact.
    ///
    /// # Errors
    ///
    /// As [`Tensor::local_tile`]; [`colex_layout::Error::Operand`] when `threads` has no such index.
    #[doc(alias = "outer_partition")]
    pub fn local_partition(&self, threads: &Layout, index: i64) -> Result<Tensor<&[T]>, Error> {
        let tiler = Tiler::from(&threads.shape().product_each()?);
        let place = threads.flat_coord_of(index)?;
        self.part("local_partition", &tiler, 1, &[place, 0.into()])
    }

    /// Mode `kept` of the tensor cut by `tiler`, from `at` on.
    fn part(
        &self,
        operation: &'static str,
        tiler: &Tiler,
        kept: usize,
        at: &[IntTuple; 2],
    ) -> Result<Tensor<&[T]>, Error> {
        if !self.layout.is_divided_by(tiler)? {
            let why = format!(
                "{tiler} does not divide {}; partition its coordinates and copy by predicate",
                self.layout
            );
            return Err(Error::Assumption { operation, why });
        }
        let divided = self.layout.zipped_divide(tiler)?;
        let offset = divided.offset(IntTuple::concat(at))?;
        Ok(Tensor {
            data: &self.data,
            start: self.beyond_start(offset),
            layout: divided.get(&[kept])?,
        })
    }
}

impl<T, D: DerefMut<Target = [T]>> Tensor<D> {
    /// Replaces the element at a coordinate.
    ///
    /// # Errors
    ///
    /// As [`Tensor::get`].
    pub fn set(&mut self, coord: impl Into<IntTuple>, value: T) -> Result<(), Error> {
        let place = self.place(self.layout.offset(coord)?);
        self.data[place] = value;
        Ok(())
    }

    /// Every element becomes `value`; what lies between them in the data stays.
    ///
    /// ```
    /// use colex_tiled::Tensor;
    /// let mut data = vec![0; 6];
    /// Tensor::new(&mut data[..], "3:2".parse()?)?.fill(7)?;
    /// assert_eq!(data, [7, 0, 7, 0, 7, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Tensor::elements`].
    pub fn fill(&mut self, value: T) -> Result<(), Error>
    where
        T: Clone,
    {
        for offset in self.layout.table()? {
            let place = self.place(offset);
            self.data[place] = value.clone();
        }
        Ok(())
    }

    /// `self = alpha x + beta self`, element by element in colexicographic order.
    ///
    /// ```
    /// use colex_tiled::Tensor;
    /// let x = Tensor::new(vec![1, 2, 3, 4], "(2,2):(2,1)".parse()?)?;
    /// let mut y = Tensor::new(vec![10, 20, 30, 40], "(2,2):(1,2)".parse()?)?;
    /// y.axpby(100, &x, 1)?;
    /// assert_eq!(y.elements()?, [&110, &320, &230, &440]);
    /// let short = Tensor::new(vec![1], "1:0".parse()?)?;
    /// assert_eq!(y.axpby(1, &short, 1).unwrap_err().to_string(), "axpby: 1:0 has 1 elements, and (2,2):(1,2) has 4");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Assumption`] when the two have not as many elements, or `self` has one element at two coordinates.
    pub fn axpby<S: Deref<Target = [T]>>(
        &mut self,
        alpha: T,
        x: &Tensor<S>,
        beta: T,
    ) -> Result<(), Error>
    where
        T: Copy + Add<Output = T> + Mul<Output = T>,
    {
        let refuse = |why| Error::Assumption {
            operation: "axpby",
            why,
        };
        let (from, to) = (x.elements()?, self.layout.table()?);
        if from.len() != to.len() {
            let (n, m) = (from.len(), to.len());
            return Err(refuse(format!(
                "{} has {n} elements, and {} has {m}",
                x.layout, self.layout
            )));
        }
        one_place_each("axpby", &self.layout)?;
        for (x, offset) in from.into_iter().zip(to) {
            let place = self.place(offset);
            self.data[place] = alpha * *x + beta * self.data[place];
        }
        Ok(())
    }
}

/// Refuses to write to a layout that has one element at several coordinates: which value stays would be a race.
pub(crate) fn one_place_each(operation: &'static str, layout: &Layout) -> Result<(), Error> {
    let mut places = layout.table()?;
    places.sort_unstable();
    if places.windows(2).all(|pair| pair[0] != pair[1]) {
        return Ok(());
    }
    Err(Error::Assumption {
        operation,
        why: format!(
            "{layout} has one element at several coordinates, and which value stays there is a race"
        ),
    })
}
