#![doc = include_str!("../README.md")]
//!
//! What the tensor memory accelerator is told, a [`TensorMap`], and the boxes that make up a tile, are derived from
//! two layouts by a [`TmaPlan`]; for a convolution, whose tiles are columns of pixels, by an [`Im2colPlan`].
//!
//! The ladder of CuTe is kept: [`MmaOp`] is what to write, [`MmaTraits`] what it means, [`MmaAtom`] both (and so
//! [`CopyOp`], [`CopyTraits`], [`CopyAtom`]), with the arithmetic ([`MmaAtom::execute`]) that host execution, the
//! simulator and the hardware check share.

mod arith;
mod copy;
mod error;
mod gmma;
mod machine;
mod memory;
mod mma;
mod names;
mod number;
mod show;
mod tma;
mod tv;

pub use arith::{Exactness, Operand};
pub use copy::{
    Argument, CopyAtom, CopyForm, CopyOp, CopyOperand, CopyOperands, CopyRow, CopySearch,
    CopyTraits, Defect, MAX_TRANSACTION_BYTES, OperandKind, Reduction, Route, Scalar, Side, Sizes,
    ValLayouts, copy_atoms, copy_rows,
};
pub use error::Error;
pub use gmma::{GmmaDescriptor, SmemSwizzle, gmma_smem_atom};
pub use machine::{Arch, PtxVersion, RegClass, Registers, Release, Space};
pub use memory::{
    Access, Banks, Choice, Conflicts, Effect, MAX_LANES, NoSwizzle, Phase, SECTOR_BYTES, Touched,
    choose_swizzle, choose_swizzle_for,
};
pub use mma::{
    Form, GmmaOptions, Major, MmaAtom, MmaOp, MmaOperands, MmaRow, MmaSearch, MmaTraits, Rule,
    mma_atoms, rows,
};
pub use number::{Class, FloatFormat, Fragment, Rounding, Ty, Value};
pub use tma::{
    BoxElement, Im2colInstruction, Im2colPlan, Im2colStart, Im2colTile, Interleave, L2Promotion,
    OobFill, PixelBox, Taps, TensorMap, TmaElement, TmaInstruction, TmaPlan, TmaSwizzle, TmaTile,
};

/// Returns the atom of that name, in any of CuTe's spellings.
///
/// ```
/// assert_eq!(colex_atom::mma("SM90::GMMA::MMA_64x128x16_F32F16F16_SS<GMMA::Major::K, GMMA::Major::K>")?.mnk(), [64, 128, 16]);
/// let error = colex_atom::mma("SM80_16x8x16_F32F16F16F32").unwrap_err();
/// assert!(error.to_string().starts_with("no MMA operation is called `SM80_16x8x16_F32F16F16F32`; the nearest are SM80_16x8x16_F32F16F16F32_TN"));
/// # Ok::<(), colex_atom::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error for a name that no operation has, with the nearest names; for an N that the instruction does not
/// have; and for template arguments that it does not have.
pub fn mma(name: &str) -> Result<MmaAtom, Error> {
    name.parse()
}

/// Returns the copy of that name, in any of CuTe's spellings.
///
/// ```
/// assert_eq!(colex_atom::copy("UniversalCopy<float>")?.name(), "UniversalCopy<uint32_t>");
/// assert_eq!(colex_atom::copy("SM90_TMA_LOAD_2D::PREFETCH")?.op()?.ptx, "cp.async.bulk.prefetch.tensor.2d.L2.global.tile");
/// let error = colex_atom::copy("SM75_U32x3_LDSM_N").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "no copy operation is called `SM75_U32x3_LDSM_N`; the nearest are SM75_U32x1_LDSM_N, SM75_U32x2_LDSM_N, SM75_U32x4_LDSM_N"
/// );
/// # Ok::<(), colex_atom::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error for a name that no operation has, with the nearest names; for a TMA operation without a rank; and
/// for a type that is too wide or too narrow.
pub fn copy(name: &str) -> Result<CopyAtom, Error> {
    name.parse()
}
