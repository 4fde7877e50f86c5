//! How products and attention are computed: accumulator types and generations of instructions.

use core::fmt;

/// The accumulator type of a product, and the rounding of its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compute {
    /// Products and sums in binary32 (operands f16, bf16 or f32).
    F32,
    /// Operands of f32 rounded to the nearest tf32, sums in binary32. Between two, TMA rounds to the even one for the Hopper
    /// kernel, and the Ampere kernel rounds away from zero.
    Tf32,
    /// Everything in binary64.
    F64,
    /// Products of bytes, sums in 32-bit integers.
    S32,
}

impl fmt::Display for Compute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Compute::F32 => "f32",
            Compute::Tf32 => "tf32",
            Compute::F64 => "f64",
            Compute::S32 => "s32",
        })
    }
}

/// The generation of instructions that a kernel is built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GemmMethod {
    /// One multiply-add per thread and instruction.
    Simt,
    /// `mma.sync` of quad-pairs.
    Volta,
    /// `cp.async` in stages, `ldmatrix`, `mma.sync`.
    Ampere,
    /// TMA, mbarriers, `wgmma`: one producer warpgroup, and consumer warpgroups.
    Hopper,
}

impl fmt::Display for GemmMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GemmMethod::Simt => "SIMT",
            GemmMethod::Volta => "Volta",
            GemmMethod::Ampere => "Ampere",
            GemmMethod::Hopper => "Hopper",
        })
    }
}

/// The generation of instructions that an attention kernel is built from.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttentionMethod {
    /// `cp.async` in stages, `ldmatrix`, `mma.sync`.
    Ampere,
    /// TMA in stages by a producer warp, `wgmma`.
    Hopper,
}

impl fmt::Display for AttentionMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AttentionMethod::Ampere => "Ampere",
            AttentionMethod::Hopper => "Hopper",
        })
    }
}
