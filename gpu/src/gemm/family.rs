//! A family of GEMM kernels: the types it multiplies, its default plan and limits, the kernels it builds and their
//! launches.

use std::ops::RangeInclusive;

use colex_atom::{Arch, Ty};
use colex_device::Device;
use colex_ir::launch::Launch;
use colex_tensor::{Arg, Error, TensorKernel};
use colex_tiled::TiledMma;

use super::batch::{Batch, BatchForm};
use super::epilogue::terms::KernelEpilogue;
use super::plan::{GemmPlan, Operands};
use super::plan_check::MOST_TILE;
use super::{gemv, simt, sm70, sm80, sm90};
use crate::kernels::GemmProblem;
use crate::method::GemmMethod;
use colex_layout::Layout;

/// The largest number of pipeline stages.
pub(crate) const MOST_STAGES: i64 = 64;

/// The numbers of a family's default plan.
pub(crate) struct Numbers {
    pub(crate) tile: [i64; 3],
    pub(crate) stages: i64,
    pub(crate) warps: [i64; 2],
    pub(crate) cluster: [i64; 3],
}

/// A family of kernels. Everything that depends on the family is in the file that implements it.
pub(crate) trait GemmFamily {
    /// Returns the types that it multiplies.
    fn types(&self) -> &'static [Ty];

    /// Returns the architecture since which it runs.
    fn since(&self) -> Arch;

    /// Whether it runs on an architecture.
    fn runs_on(&self, arch: Arch) -> bool {
        arch >= self.since()
    }

    /// Whether its loads take vectors of A and B of the widths that the operands state.
    fn reads(&self, _: &Operands) -> bool {
        true
    }

    /// Returns the type of A and B in shared memory.
    fn held(&self, operands: &Operands) -> Ty {
        operands.ab
    }

    /// Returns the numbers of its default plan.
    fn numbers(&self, operands: &Operands) -> Numbers;

    /// Returns the largest number of its units (threads, warps or warpgroups) along M and along N. Along one mode alone,
    /// they fill a block.
    fn most_units(&self) -> [i64; 2];

    /// Returns the largest number of blocks of a cluster along M, N and K on an architecture.
    fn most_cluster(&self, _: Arch) -> [i64; 3] {
        [1; 3]
    }

    /// Returns the largest number of parts into which clusters divide K.
    fn most_split(&self) -> i64 {
        1
    }

    /// Returns the number of threads of a block that hold accumulators.
    fn consumers(&self, plan: &GemmPlan) -> i64;

    /// Returns the number of threads of a block.
    fn threads(&self, plan: &GemmPlan) -> i64 {
        self.consumers(plan)
    }

    /// Returns the number of threads of a block that copy tiles into shared memory.
    fn copiers(&self, plan: &GemmPlan) -> i64 {
        self.threads(plan)
    }

    /// Returns the numbers that must divide the tile's extents: the tile of the matrix instructions of all units.
    fn steps(&self, plan: &GemmPlan) -> [i64; 3];

    /// Returns the largest extents of a tile.
    fn most_tile(&self, _: &Operands) -> [i64; 3] {
        [MOST_TILE; 3]
    }

    /// Returns the smallest extent of a tile along K, for steps of that extent.
    fn least_k(&self, step: i64) -> i64 {
        step
    }

    /// Returns the numbers of stages that it takes.
    fn stages(&self) -> RangeInclusive<i64>;

    /// Returns the number of products (multiply-adds) that one instruction of every unit computes.
    fn products(&self, plan: &GemmPlan) -> i64;

    /// Checks that a thread's part of a tile is one that the kernel can hold. `sums` is the number of registers of a
    /// thread's accumulators.
    ///
    /// # Errors
    ///
    /// Returns an error if the plan exceeds a limit of the kernel, or if the threads have no equal shares of a tile.
    fn check_shares(&self, plan: &GemmPlan, sums: i64) -> Result<(), crate::Error>;

    /// Whether a kernel for tiles that divide the problem needs fewer predicates.
    fn gains_from_whole(&self) -> bool {
        false
    }

    /// Whether its loads of A and B may read a part of a vector at the end of a row.
    fn loads_parts(&self) -> bool {
        false
    }

    /// Returns the matrix instruction repeated over the units.
    ///
    /// # Errors
    ///
    /// Returns the error of the layout algebra if a layout has no such partition.
    fn tiled_mma(&self, plan: &GemmPlan) -> Result<TiledMma, Error>;

    /// Builds the kernel of a plan over a batch with an epilogue. Its launch takes the matrices, what this family adds, and the terms of the
    /// epilogue.
    ///
    /// # Errors
    ///
    /// Returns the error of the layout algebra if a layout has no such partition.
    fn build(
        &self,
        plan: &GemmPlan,
        batch: BatchForm,
        epilogue: &KernelEpilogue,
        arch: Arch,
    ) -> Result<TensorKernel, Error>;

    /// Returns the launch arguments of the matrices of a problem: the layouts and addresses of A, B and C, and the address of a
    /// second right factor, which has the layout of B and follows it.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel was not built for a layout.
    fn matrices<'a>(
        &self,
        _: &GemmProblem,
        _: (&GemmPlan, &Batch, BatchForm),
        _: &TensorKernel,
        layouts: &'a [Layout; 3],
        ([a, b, c], second): ([u64; 3], Option<u64>),
    ) -> Result<Vec<Arg<'a>>, crate::Error> {
        let [of_a, of_b, of_c] = layouts;
        let mut given = vec![Arg::checked(a, of_a), Arg::checked(b, of_b)];
        given.extend(second.map(|second| Arg::checked(second, of_b)));
        given.push(Arg::checked(c, of_c));
        Ok(given)
    }

    /// Returns the grid of a launch for `tiles` tiles along M and N of a number of products.
    fn launch(&self, _: &GemmPlan, tiles: [i64; 3], threads: u32, _: &Device) -> Launch {
        let [m, n, products] = tiles;
        let blocks = m.saturating_mul(n).saturating_mul(products);
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        Launch::new(blocks, threads)
    }
}

impl GemmMethod {
    /// The methods for products of any extents. If several take a problem, the fastest comes first.
    pub(crate) const BY_SPEED: [GemmMethod; 4] = [
        GemmMethod::Hopper,
        GemmMethod::Ampere,
        GemmMethod::Volta,
        GemmMethod::Simt,
    ];

    /// Returns the family of the method.
    pub(crate) fn family(self) -> &'static dyn GemmFamily {
        match self {
            GemmMethod::Simt => &simt::Simt,
            GemmMethod::Volta => &sm70::Volta,
            GemmMethod::Ampere => &sm80::Ampere,
            GemmMethod::Hopper => &sm90::Hopper,
            GemmMethod::Gemv => &gemv::Gemv,
        }
    }

    /// Whether it multiplies such matrices on an architecture.
    pub(crate) fn fits(self, operands: &Operands, arch: Arch) -> bool {
        let family = self.family();
        family.runs_on(arch) && family.reads(operands) && family.types().contains(&operands.ab)
    }
}
