//! Parts of tensors: slices, tiles, and what one thread has.

use core::ops::{Deref, DerefMut};

use colex_layout::{IntTuple, IntoCoord, IntoIntTuple, IntoLayout, IntoTiler, Layout, Tiler};

use crate::Error;
use crate::tensor::{Partition, Tensor};

/// A cut of a tensor by a tiler, and which part of it stays.
pub(crate) struct Cut {
    operation: &'static str,
    tiler: Tiler,
    coord: IntTuple,
    /// Whether the tile stays, and the coordinate is among the tiles; or the rest, and the coordinate is in the tile.
    keeps_tile: bool,
}

impl Cut {
    pub(crate) fn tile(tiler: impl IntoTiler, coord: impl IntoIntTuple) -> Result<Cut, Error> {
        Ok(Cut {
            operation: "local_tile",
            tiler: tiler.into_tiler()?,
            coord: coord.into_int_tuple()?,
            keeps_tile: true,
        })
    }

    pub(crate) fn rest(tiler: impl IntoTiler, coord: impl IntoIntTuple) -> Result<Cut, Error> {
        Ok(Cut {
            operation: "outer_partition",
            keeps_tile: false,
            ..Cut::tile(tiler, coord)?
        })
    }

    /// The rest of a cut by the extents of a layout of threads, at the place of one of them.
    pub(crate) fn thread(threads: impl IntoLayout, index: i64) -> Result<Cut, Error> {
        let threads = threads.into_layout()?;
        let coord = threads.flat_coord_of(index).map_err(|_| {
            Error::assumption(
                "local_partition",
                format!("the threads {threads} have no thread {index}"),
            )
        });
        Ok(Cut {
            operation: "local_partition",
            ..Cut::rest(Tiler::try_from(&threads.shape().product_each()?)?, coord?)?
        })
    }

    /// The modes of the tiler and of the coordinate that a projection keeps: `[0, 2]` for CuTe's `Step<_1,X,_1>`.
    pub(crate) fn of(self, modes: &[usize]) -> Result<Cut, Error> {
        let missing = |what: String| {
            Error::assumption(
                "project",
                format!("{what} has not all of the modes {modes:?}"),
            )
        };
        let of_tiler = |i: &usize| match &self.tiler {
            Tiler::Modes(tilers) => tilers.get(*i).cloned(),
            _ => None,
        };
        let tilers: Option<Vec<Tiler>> = modes.iter().map(of_tiler).collect();
        let coords: Option<Vec<IntTuple>> = modes.iter().map(|i| self.coord.mode(*i)).collect();
        Ok(Cut {
            tiler: Tiler::Modes(tilers.ok_or_else(|| missing(self.tiler.to_string()))?),
            coord: IntTuple::concat(&coords.ok_or_else(|| missing(self.coord.to_string()))?),
            ..self
        })
    }

    /// The layout that is cut, its mode that stays, and the coordinate where that starts.
    pub(crate) fn apply(&self, layout: &Layout) -> Result<(Layout, Layout, IntTuple), Error> {
        let (tiler, coord) = (&self.tiler, &self.coord);
        let divided = layout.zipped_divide(tiler)?;
        let (mode, at, cut) = if self.keeps_tile {
            (0, [0.into(), coord.clone()], "tiles")
        } else {
            (1, [coord.clone(), 0.into()], "places of the tile")
        };
        let part = divided.get(&[mode])?;
        let along = divided.get(&[1 - mode])?.rank();
        if coord.rank() != along {
            return Err(Error::assumption(
                self.operation,
                format!(
                    "{coord} has {} of the {along} modes that the {cut} of {layout} by {tiler} have: it takes one \
                     number for each",
                    coord.rank()
                ),
            ));
        }
        Ok((divided, part, IntTuple::concat(&at)))
    }
}

impl<T, D: Deref<Target = [T]>> Tensor<D> {
    /// Returns the part that `coord` keeps: the modes where it has `_`, at the place that its numbers say.
    ///
    /// ```
    /// use colex_tiled::Tensor;
    /// let tensor = Tensor::new((0..12).collect::<Vec<i32>>(), "(3,4):(1,3)")?;
    /// let row = tensor.slice((1, ..))?;
    /// assert_eq!(row.elements()?, [&1, &4, &7, &10]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for a coordinate that does not fit the layout.
    pub fn slice(&self, coord: impl IntoCoord) -> Result<Tensor<&[T]>, Error> {
        let (start, layout) = self.sliced(coord)?;
        Ok(self.reshaped(start, layout))
    }

    fn sliced(&self, coord: impl IntoCoord) -> Result<(i64, Layout), Error> {
        let coord = coord.into_coord()?;
        let offset = self.layout().at(coord.start())?;
        Ok((self.beyond_start(offset)?, self.layout().slice(&coord)?))
    }

    /// Returns the tile at `coord` of the tensor cut by `tiler`: the tile's modes stay (CuTe's `local_tile`,
    /// `inner_partition`).
    ///
    /// # Errors
    ///
    /// Returns an error if the tiler does not divide the tensor: the last tiles would reach outside of it. Returns an
    /// error for a coordinate of another number of modes than the tiles have (CuTe takes one number for all of them as
    /// their index), or if the layout algebra has no result.
    #[doc(alias = "inner_partition")]
    pub fn local_tile(
        &self,
        tiler: impl IntoTiler,
        coord: impl IntoIntTuple,
    ) -> Result<Tensor<&[T]>, Error> {
        self.part(Cut::tile(tiler, coord)?)
    }

    /// Returns the same as [`Tensor::local_tile`], by some modes of a tiler and of a coordinate of more modes than the
    /// tensor: of a tile of M, N and K those of A are `[0, 2]`. CuTe's `local_tile` with a projection `Step<_1,X,_1>`.
    ///
    /// ```
    /// use colex_tiled::Tensor;
    /// let b = Tensor::new((0..512).collect::<Vec<i32>>(), "(16,32):(32,1)")?;
    /// let tile = b.local_tile_of((128, 8, 16), (0, 1, 0), &[1, 2])?;
    /// assert_eq!(tile, b.local_tile((8, 16), (1, 0))?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::local_tile`], and an error for modes that are not there.
    pub fn local_tile_of(
        &self,
        tiler: impl IntoTiler,
        coord: impl IntoIntTuple,
        modes: &[usize],
    ) -> Result<Tensor<&[T]>, Error> {
        self.part(Cut::tile(tiler, coord)?.of(modes)?)
    }

    /// Returns the elements at `coord` of every tile: the modes of the rest stay (CuTe's `outer_partition`).
    ///
    /// ```
    /// use colex_tiled::Tensor;
    /// let tensor = Tensor::new((0..64).collect::<Vec<i32>>(), "(8,8):(1,8)")?;
    /// let rest = tensor.outer_partition((4, 2), (1, 1))?;
    /// assert_eq!(rest.layout().to_string(), "(2,4):(4,16)");
    /// assert_eq!(rest.get((1, 1))?, &(9 + 4 + 16));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::local_tile`].
    pub fn outer_partition(
        &self,
        tiler: impl IntoTiler,
        coord: impl IntoIntTuple,
    ) -> Result<Tensor<&[T]>, Error> {
        self.part(Cut::rest(tiler, coord)?)
    }

    /// Returns what thread `index` of `threads` has of the tensor: tiles of the threads' extents, and of each the
    /// element at the thread's place (CuTe's `local_partition`). Unlike CuTe's, `threads` need not be compact.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::local_tile`], and an error if `threads` has no such index.
    pub fn local_partition(
        &self,
        threads: impl IntoLayout,
        index: i64,
    ) -> Result<Tensor<&[T]>, Error> {
        self.part(Cut::thread(threads, index)?)
    }

    /// Returns the same as [`Tensor::local_partition`], by some modes of the threads: those that differ along the
    /// others have the same. CuTe's `local_partition` with a projection.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::local_partition`], and an error for modes that are not there.
    pub fn local_partition_of(
        &self,
        threads: impl IntoLayout,
        index: i64,
        modes: &[usize],
    ) -> Result<Tensor<&[T]>, Error> {
        self.part(Cut::thread(threads, index)?.of(modes)?)
    }

    /// Returns the elements that a thread's partition of this tensor's layout names.
    ///
    /// ```
    /// use colex_tiled::{Tensor, TiledCopy};
    /// let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint64_t>")?, 32, "4:1", "2:1")?;
    /// let tensor = Tensor::new((10..18).collect::<Vec<i32>>(), "8:1")?;
    /// let part = copy.slice(3)?.partition_src(tensor.layout())?;
    /// assert_eq!(tensor.partition(&part)?.elements()?, [&16, &17]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for a partition of coordinates, or for one that reaches outside of the data.
    pub fn partition(&self, partition: &Partition) -> Result<Tensor<&[T]>, Error> {
        let start = offset_of(partition)?;
        let part = self.reshaped(0, partition.layout.clone());
        part.starting_at(self.beyond_start(start)?)
    }

    fn part(&self, cut: Cut) -> Result<Tensor<&[T]>, Error> {
        let (start, layout) = self.cut(&cut)?;
        Ok(self.reshaped(start, layout))
    }

    fn cut(&self, cut: &Cut) -> Result<(i64, Layout), Error> {
        if !self.layout().is_divided_by(&cut.tiler)? {
            let why = format!(
                "{} does not divide {}; partition its coordinates and copy by predicate",
                cut.tiler,
                self.layout()
            );
            return Err(Error::assumption(cut.operation, why));
        }
        let (divided, part, at) = cut.apply(self.layout())?;
        Ok((self.beyond_start(divided.at(at)?)?, part))
    }
}

/// The offset where a partition starts.
fn offset_of(partition: &Partition) -> Result<i64, Error> {
    let start = partition
        .start
        .as_leaf()
        .filter(|_| !partition.layout.has_coordinate_values());
    let start = start.ok_or_else(|| {
        Error::assumption(
            "partition",
            format!("{partition} names coordinates, not offsets"),
        )
    })?;
    Ok(start.value())
}

impl<T, D: DerefMut<Target = [T]>> Tensor<D> {
    /// Returns the same as [`Tensor::slice`], to be written to.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::slice`].
    pub fn slice_mut(&mut self, coord: impl IntoCoord) -> Result<Tensor<&mut [T]>, Error> {
        let (start, layout) = self.sliced(coord)?;
        Ok(Tensor::known(&mut self.data_mut()[..], start, layout))
    }

    /// Returns the same as [`Tensor::local_tile`], to be written to.
    ///
    /// ```
    /// use colex_tiled::Tensor;
    /// let mut tensor = Tensor::new(vec![0; 16], "(4,4):(1,4)")?;
    /// tensor.local_tile_mut((2, 2), (1, 0))?.fill(7)?;
    /// assert_eq!(tensor.reduce(0, |sum, x| sum + x)?, 28);
    /// assert_eq!(tensor.get((3, 1))?, &7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::local_tile`].
    pub fn local_tile_mut(
        &mut self,
        tiler: impl IntoTiler,
        coord: impl IntoIntTuple,
    ) -> Result<Tensor<&mut [T]>, Error> {
        self.part_mut(Cut::tile(tiler, coord)?)
    }

    /// Returns the same as [`Tensor::local_tile_of`], to be written to.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::local_tile_of`].
    pub fn local_tile_of_mut(
        &mut self,
        tiler: impl IntoTiler,
        coord: impl IntoIntTuple,
        modes: &[usize],
    ) -> Result<Tensor<&mut [T]>, Error> {
        self.part_mut(Cut::tile(tiler, coord)?.of(modes)?)
    }

    /// Returns the same as [`Tensor::outer_partition`], to be written to.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::outer_partition`].
    pub fn outer_partition_mut(
        &mut self,
        tiler: impl IntoTiler,
        coord: impl IntoIntTuple,
    ) -> Result<Tensor<&mut [T]>, Error> {
        self.part_mut(Cut::rest(tiler, coord)?)
    }

    /// Returns the same as [`Tensor::local_partition`], to be written to.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::local_partition`].
    pub fn local_partition_mut(
        &mut self,
        threads: impl IntoLayout,
        index: i64,
    ) -> Result<Tensor<&mut [T]>, Error> {
        self.part_mut(Cut::thread(threads, index)?)
    }

    /// Returns the same as [`Tensor::local_partition_of`], to be written to.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::local_partition_of`].
    pub fn local_partition_of_mut(
        &mut self,
        threads: impl IntoLayout,
        index: i64,
        modes: &[usize],
    ) -> Result<Tensor<&mut [T]>, Error> {
        self.part_mut(Cut::thread(threads, index)?.of(modes)?)
    }

    /// Returns the same as [`Tensor::partition`], to be written to.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::partition`].
    pub fn partition_mut(&mut self, partition: &Partition) -> Result<Tensor<&mut [T]>, Error> {
        let start = self.beyond_start(offset_of(partition)?)?;
        let data = &mut self.data_mut()[..];
        Tensor::known(data, 0, partition.layout.clone()).starting_at(start)
    }

    fn part_mut(&mut self, cut: Cut) -> Result<Tensor<&mut [T]>, Error> {
        let (start, layout) = self.cut(&cut)?;
        Ok(Tensor::known(&mut self.data_mut()[..], start, layout))
    }
}
