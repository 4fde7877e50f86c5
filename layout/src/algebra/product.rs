//! Products: a block repeated in the order that a tiler says.

use crate::algebra::divide::{Unpack, unit_layout};
use crate::layout::LeafMode;
use crate::tuple::Tuple;
use crate::{
    Error, Int, IntTuple, IntoIntTuple, IntoLayout, IntoTiler, Layout, ModeOrder, TilerRef,
};

impl Layout {
    /// Returns `self`, repeated as `tiler` says: mode 0 is the block, mode 1 goes from copy to copy.
    /// `A x T = (A, complement(A, |A| * cosize(T)) o T)`.
    ///
    /// The block is the inner, fastest part; the tiler says how many copies there are and in which order.
    /// With a tuple tiler each mode is multiplied by its own tiler; `_` and missing modes stay.
    ///
    /// Laws `product_block` (mode 0 is `self`), `product_at` (mode 1 is the composition above, at every index) and
    /// `product_disjoint` (copies of an injective block do not overlap).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::complement`] of the block and of [`Layout::composition`], and an error if the
    /// tiler has more modes than `self`, and an error if a number does not fit in 64 bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let block: Layout = "(2,2):(4,1)".parse()?;
    /// assert_eq!(block.logical_product("6:1")?.to_string(), "((2,2),(2,3)):((4,1),(2,8))");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    ///
    /// Source: `logical_product` in `cute/layout.hpp`; `Cecka 2026`.
    pub fn logical_product(&self, tiler: impl IntoTiler) -> Result<Self, Error> {
        tiler.with_tiler(|tiler| self.logical_product_by(tiler))
    }

    fn logical_product_by(&self, tiler: TilerRef<'_>) -> Result<Self, Error> {
        match tiler {
            TilerRef::All => Ok(self.clone()),
            TilerRef::Int(n) => self.multiply(&unit_layout(n)?),
            TilerRef::Layout(t) => self.multiply(t),
            TilerRef::Modes(modes) => {
                self.check_tiler_rank("logical_product", tiler, modes.len())?;
                self.mode_by_mode(modes, Self::logical_product_by)
            }
        }
    }

    fn multiply(&self, tiler: &Self) -> Result<Self, Error> {
        let places = self.places(tiler)?.1;
        Self::concat([self, &places.composition(tiler)?])
    }

    /// Where copies of the block may begin, and the target below which these places are.
    pub(crate) fn places(&self, tiler: &Self) -> Result<(Int, Self), Error> {
        let count = tiler.cosize_int()?;
        let target = self.size_int().times(count)?;
        let places = self.complement(target)?;
        if places.size() >= count.value() {
            return Ok((target, places));
        }
        // Strides that do not divide one another leave fewer places below that target than CuTe assumes: its
        // copies would then fall onto the block.
        let target = self.filtered().cosize_int()?.times(count)?;
        Ok((target, self.complement(target)?))
    }

    /// Returns [`Layout::logical_product`] with the blocks gathered in mode 0 and the copies in mode 1.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::logical_product`], and an error if a part of the tiler is `_`.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let block: Layout = "(2,5):(5,1)".parse()?;
    /// assert_eq!(block.zipped_product("(3:5,4:6)")?.to_string(), "((2,5),(3,4)):((5,1),(10,30))");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn zipped_product(&self, tiler: impl IntoTiler) -> Result<Self, Error> {
        tiler.with_tiler(|tiler| self.zipped_product_by(tiler))
    }

    fn zipped_product_by(&self, tiler: TilerRef<'_>) -> Result<Self, Error> {
        self.check_no_all("zipped_product", tiler)?;
        self.logical_product_by(tiler)?.tile_unzip_by(tiler)
    }

    /// Returns [`Layout::zipped_product`] with the copies unpacked.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::zipped_product`].
    pub fn tiled_product(&self, tiler: impl IntoTiler) -> Result<Self, Error> {
        tiler.with_tiler(|tiler| self.tiled_product_by(tiler))
    }

    fn tiled_product_by(&self, tiler: TilerRef<'_>) -> Result<Self, Error> {
        Ok(self.zipped_product_by(tiler)?.unpack(Unpack::Rest))
    }

    /// Returns [`Layout::zipped_product`] with blocks and copies unpacked.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::zipped_product`].
    pub fn flat_product(&self, tiler: impl IntoTiler) -> Result<Self, Error> {
        tiler.with_tiler(|tiler| self.flat_product_by(tiler))
    }

    fn flat_product_by(&self, tiler: TilerRef<'_>) -> Result<Self, Error> {
        Ok(self.zipped_product_by(tiler)?.unpack(Unpack::Both))
    }

    /// Returns the block repeated over `tiler` mode by mode, block inside: `((b0,t0),(b1,t1),..)`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::logical_product`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let (block, tiler): (Layout, Layout) = ("(2,5):(5,1)".parse()?, "(3,4):(1,3)".parse()?);
    /// assert_eq!(block.blocked_product(&tiler)?.to_string(), "((2,3),(5,4)):((5,10),(1,30))");
    /// assert_eq!(block.raked_product(&tiler)?.to_string(), "((3,2),(4,5)):((10,5),(30,1))");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn blocked_product(&self, tiler: impl IntoLayout) -> Result<Self, Error> {
        tiler.with_layout(|tiler| self.blocked_product_by("blocked_product", tiler))
    }

    fn blocked_product_by(&self, operation: &'static str, tiler: &Self) -> Result<Self, Error> {
        let [block, copies] = self.ranked_product(tiler)?;
        let regrouped = block.0.zip_as(&copies.0, operation, [&self.0, &tiler.0]);
        regrouped.map(Self)
    }

    /// Returns the block repeated over `tiler` mode by mode, block interleaved: `((t0,b0),(t1,b1),..)`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::logical_product`].
    pub fn raked_product(&self, tiler: impl IntoLayout) -> Result<Self, Error> {
        tiler.with_layout(|tiler| {
            let [block, copies] = self.ranked_product(tiler)?;
            let regrouped = copies
                .0
                .zip_as(&block.0, "raked_product", [&self.0, &tiler.0]);
            regrouped.map(Self)
        })
    }

    /// Block and copies, both brought to the larger rank with modes of extent 1.
    fn ranked_product(&self, tiler: &Self) -> Result<[Self; 2], Error> {
        let rank = self.rank().max(tiler.rank());
        let (block, tiler) = (self.padded(rank)?, tiler.padded(rank)?);
        let product = block.multiply(&tiler)?;
        let mut modes = product.modes();
        let mut next = || {
            modes
                .next()
                .expect("a logical product by a layout has rank 2")
        };
        Ok([next(), next()])
    }

    fn padded(&self, rank: usize) -> Result<Self, Error> {
        Ok(Self(
            self.0.append_to_rank(rank, &Tuple::leaf(LeafMode::UNIT))?,
        ))
    }

    /// Returns the block repeated until it has `shape`, first along the mode that `order` puts first.
    ///
    /// `order` is a [`ModeOrder`]: [`LayoutLeft`](crate::LayoutLeft) (CuTe's default) repeats along mode 0 first,
    /// [`LayoutRight`](crate::LayoutRight) along the last mode, and a tuple along the mode of its least number.
    ///
    /// # Errors
    ///
    /// Returns an error if the block has more modes than `shape` or does not divide it, if `order` nests where `shape`
    /// does not, or if [`Layout::logical_product`] returns one.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::{Layout, LayoutLeft};
    /// let block = Layout::new((2, 4), (4, 1))?;
    /// let down = block.tile_to_shape((4, 8), LayoutLeft)?;
    /// assert_eq!(down.to_string(), "((2,2),(4,2)):((4,8),(1,16))");
    /// let across = block.tile_to_shape((4, 8), (2, 1))?;
    /// assert_eq!(across.to_string(), "((2,2),(4,2)):((4,16),(1,8))");
    /// assert_eq!(
    ///     block.tile_to_shape((4, 6), LayoutLeft).unwrap_err().to_string(),
    ///     "tile_to_shape of (2,4):(4,1): extent 4 of the block does not divide extent 6 of mode 1 of the shape (4,6)",
    /// );
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    ///
    /// Source: `tile_to_shape` in `cute/layout.hpp`.
    pub fn tile_to_shape(
        &self,
        shape: impl IntoIntTuple,
        order: impl ModeOrder,
    ) -> Result<Self, Error> {
        let shape = shape.into_int_tuple()?;
        let copies = Self::ordered(self.copies_in(&shape)?, order)?;
        let block = self.padded(shape.rank())?;
        block.blocked_product_by("tile_to_shape", &copies)
    }

    /// How many copies of the block fit along each mode of `shape`.
    fn copies_in(&self, shape: &IntTuple) -> Result<IntTuple, Error> {
        if self.rank() > shape.rank() {
            let needs = "a block of at most the rank of the shape";
            return Err(crate::tuple::int_tuple::rank_error(
                "tile_to_shape",
                self,
                shape,
                needs,
            ));
        }
        let block = self.padded(shape.rank())?.shape().product_each()?;
        let target = shape.product_each()?;
        let modes = block.leaves().iter().zip(target.leaves()).enumerate();
        let mut undivided = modes.filter(|(_, (b, t))| t.value() % b.value() != 0);
        if let Some((i, (b, t))) = undivided.next() {
            return Err(Error::operand(
                "tile_to_shape",
                self.text(),
                alloc::format!(
                    "extent {b} of the block does not divide extent {t} of mode {i} of the shape {shape}"
                ),
            ));
        }
        target.ceil_div(&block)
    }
}
