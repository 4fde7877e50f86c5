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
    /// Operands of f32 by three products in tf32, known as 3xTF32: each number is the sum of a high part, the nearest tf32, and a
    /// low part, and the product of the low parts is left out. Sums are in binary32.
    ///
    /// The error of an element of C is at most `(2^-20 + K 2^-21) |A| |B|^T`, for alpha 1 and beta 0, for numbers that are 0 or
    /// 2^-100 to 2^127 in size, where the products and sums fit f32. It is that of f32 but for a small factor; in
    /// [`Tf32`](Self::Tf32) it is about `2^-10 |A| |B|^T`. Infinities and NaN reach C as they do in f32. A call writes the
    /// parts of A and of B to memory first, three times as much as the factors
    /// ([`Gemm::workspace`](crate::gemm::Gemm::workspace)). Where no kernel multiplies tf32 (before sm_80, and by the kernels of
    /// SIMT and Volta), the product is in [`F32`](Self::F32).
    ///
    /// ```
    /// use colex_gpu::Device;
    /// use colex_gpu::kernels::{Compute, GemmProblem};
    ///
    /// let device = Device::open();
    /// // The small term of 1 + 2^-20 is the rest after the subtraction of 1: tf32 has 10 bits behind the point.
    /// let a = device.upload(&[1.0 + 2_f32.powi(-20), -1.0])?;
    /// let b = device.upload(&[1_f32, 1.0])?;
    /// for (compute, rest) in [(Compute::Tf32, 0.0), (Compute::Tf32x3, 2_f32.powi(-20))] {
    ///     let mut c = device.poisoned::<f32>(1)?;
    ///     GemmProblem::new(1, 1, 2).compute(compute).on(&a, &b, &mut c)?.run()?;
    ///     assert_eq!(c.download()?, [rest]);
    /// }
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    Tf32x3,
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
            Compute::Tf32x3 => "3xTF32",
            Compute::F64 => "f64",
            Compute::S32 => "s32",
        })
    }
}

/// The kind of a kernel: the generation of instructions that it is built from, and for which products.
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
    /// One multiply-add per thread and instruction, where the threads of a block share K: for one row, or few.
    Gemv,
}

impl fmt::Display for GemmMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GemmMethod::Simt => "SIMT",
            GemmMethod::Volta => "Volta",
            GemmMethod::Ampere => "Ampere",
            GemmMethod::Hopper => "Hopper",
            GemmMethod::Gemv => "GEMV",
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
