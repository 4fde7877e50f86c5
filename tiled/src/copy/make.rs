//! Tiled copies that fit a tiled MMA, another copy, or given addresses.

use colex_atom::CopyAtom;
use colex_layout::{IntTuple, IntoLayout, Layout, Stride, Tiler, Tuple};

use crate::Error;
use crate::copy::{Side, TiledCopy};
use crate::error::ErrorKind;
use crate::mma::{Operand, TiledMma};
use crate::tensor::extents::{check_walk, fixed, size};

impl TiledCopy {
    /// Returns the copy whose threads hold what they hold of an operand of `mma`: CuTe's `make_tiled_copy_A`, `_B`,
    /// `_C`.
    ///
    /// ```
    /// # use colex_tiled::{Operand, TiledCopy, TiledMma};
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (.., .., ..))?;
    /// let load = TiledCopy::for_operand(colex_atom::copy("SM75_U32x4_LDSM_N")?, 16, &mma, Operand::A)?;
    /// assert_eq!((load.threads(), load.tile_shape()?.to_string()), (128, "(_32,_16)".to_string()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledCopy::from_tv`] and [`TiledMma::tv`].
    #[doc(alias = "make_tiled_copy_A")]
    #[doc(alias = "make_tiled_copy_B")]
    #[doc(alias = "make_tiled_copy_C")]
    pub fn for_operand(
        atom: CopyAtom,
        bits: i64,
        mma: &TiledMma,
        operand: Operand,
    ) -> Result<Self, Error> {
        let tile = IntTuple::flat(mma.operand_tile(operand).map(fixed));
        let tv = mma.tv(operand)?;
        let need = size(&atom.val_layouts(bits)?.reference, 1);
        let have = size(&tv, 1);
        if need > 0 && have % need != 0 {
            return Err(ErrorKind::OperandCount {
                atom: atom.name(),
                operand: operand.name(),
                bits,
                have,
                need,
            }
            .into());
        }
        Self::from_tv(atom, bits, tv, Tiler::try_from(&tile)?)
    }

    /// Returns the smallest copy that moves whole atoms of the accumulators of `mma`: CuTe's `make_tiled_copy_C_atom`.
    ///
    /// ```
    /// # use colex_tiled::{Operand, TiledCopy, TiledMma};
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (.., .., ..))?;
    /// let store = TiledCopy::for_accumulator_atom(colex_atom::copy("UniversalCopy<uint64_t>")?, 32, &mma)?;
    /// assert_eq!(store.threads(), 128);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the atom takes more values than a thread has. It also returns the errors of
    /// [`TiledCopy::from_tv`].
    #[doc(alias = "make_tiled_copy_C_atom")]
    pub fn for_accumulator_atom(atom: CopyAtom, bits: i64, mma: &TiledMma) -> Result<Self, Error> {
        let tv = mma.tv(Operand::C)?;
        let values = size(&atom.val_layouts(bits)?.src, 1);
        if values > size(&tv, 1) {
            return Err(ErrorKind::Count {
                atom: atom.name(),
                what: "values",
                have: size(&tv, 1),
                need: values,
            }
            .into());
        }
        let first = Layout::column_major(IntTuple::flat([fixed(size(&tv, 0)), fixed(values)]))?;
        let tv = tv.composition(&first)?;
        let tile = IntTuple::flat(mma.operand_tile(Operand::C).map(fixed));
        let (tiler, tv) = covered(&tile, &tv)?;
        Self::from_tv(atom, bits, tv, tiler)
    }

    /// Returns the copy whose threads hold what the given side of `copy` holds: CuTe's `make_tiled_copy_S`, `_D`.
    ///
    /// ```
    /// # use colex_tiled::{Side, TiledCopy};
    /// # let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint128_t>")?, 32, "(8,4):(1,8)", "(4,1):(1,4)")?;
    /// let single = TiledCopy::for_side(colex_atom::copy("UniversalCopy<uint32_t>")?, 32, &copy, Side::Destination)?;
    /// assert_eq!(format!("{:#}", single.tv()), "(32,(4,1)):(4,(1,0))");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledCopy::from_tv`] and [`TiledCopy::tv_of`].
    #[doc(alias = "make_tiled_copy_S")]
    #[doc(alias = "make_tiled_copy_D")]
    pub fn for_side(
        atom: CopyAtom,
        bits: i64,
        copy: &TiledCopy,
        side: Side,
    ) -> Result<Self, Error> {
        Self::from_tv(atom, bits, copy.tv_of(side)?, copy.tiler().clone())
    }

    /// Returns the copy in which `(thread, value)` moves the element at the offset `tv` of `data`: CuTe's
    /// `make_cotiled_copy`.
    ///
    /// ```
    /// use colex_layout::Layout;
    /// use colex_tiled::TiledCopy;
    ///
    /// let (tv, data): (Layout, Layout) = ("(8,4):(4,1)".parse()?, "(4,8):(1,4)".parse()?);
    /// let copy = TiledCopy::cotiled(colex_atom::copy("UniversalCopy<uint128_t>")?, 32, &tv, &data)?;
    /// assert_eq!(format!("{:#}", copy.tv()), "(8,4):(4,1)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if `tv` names an offset that `data` does not have (CuTe looks at the values of the first thread
    /// only), or names more than 2^26. It also returns the errors of [`TiledCopy::from_tv`].
    #[doc(alias = "make_cotiled_copy")]
    pub fn cotiled(
        atom: CopyAtom,
        bits: i64,
        tv: impl IntoLayout,
        data: impl IntoLayout,
    ) -> Result<Self, Error> {
        let tv = &tv.into_layout()?;
        let data = &data.into_layout()?;
        check_named(tv, data)?;
        let inverse = Layout::concat([&data.left_inverse()?, &Layout::unit()])?;
        let tv_data = inverse.composition(tv)?;
        let (tiler, tv) = covered(&data.shape().product_each()?, &tv_data)?;
        Self::from_tv(atom, bits, tv, tiler)
    }
}

/// Refuses threads and values that name an offset where the data has nothing.
fn check_named(tv: &Layout, data: &Layout) -> Result<(), Error> {
    check_walk("cotiled", tv)?;
    let threads = size(tv, 0);
    for (index, offset) in (0..).zip(tv.table()?) {
        if data.coord_of(offset).is_err() {
            let (thread, value) = (index % threads, index / threads);
            return Err(Error::assumption(
                "cotiled",
                format!(
                    "thread {thread} names by its value {value} the offset {offset} ({tv}), which the data {data} \
                     does not have"
                ),
            ));
        }
    }
    Ok(())
}

/// The part of a tile of extents `tile` that `tv` reaches, as a tiler, and `tv` as indices of that part.
fn covered(tile: &IntTuple, tv: &Layout) -> Result<(Tiler, Layout), Error> {
    let mut modes = Vec::new();
    for i in 0..tile.rank() {
        let only = Tuple::flat((0..tile.rank()).map(|j| Stride::constant(i64::from(i == j))));
        let along = Layout::new(tile.clone(), only)?.composition(tv)?;
        modes.push(Tiler::Layout(along.filter(..)));
    }
    let tiler = Tiler::Modes(modes);
    let part = Layout::column_major(tile.clone())?.composition(&tiler)?;
    let tv = part.left_inverse()?.composition(tv)?;
    Ok((tiler, tv))
}
