//! A family of product kernels: what it multiplies, its usual numbers and their limits, what it builds and launches.

use std::ops::RangeInclusive;

use colex_atom::{Arch, Ty};
use colex_device::Device;
use colex_ir::launch::Launch;
use colex_tensor::{Arg, Error, TensorKernel};
use colex_tiled::TiledMma;

use super::plan::{GemmPlan, Operands};
use super::plan_check::MOST_TILE;
use super::{simt, sm70, sm80, sm90};
use crate::kernels::GemmProblem;
use crate::method::GemmMethod;
use colex_layout::Layout;

/// The most tiles on their way at once.
pub(crate) const MOST_STAGES: i64 = 64;

/// The numbers of a plan that a family chooses.
pub(crate) struct Numbers {
    pub(crate) tile: [i64; 3],
    pub(crate) stages: i64,
    pub(crate) warps: [i64; 2],
}

/// One family of kernels. Its file holds all that the library knows of it.
pub(crate) trait GemmFamily {
    /// Returns the types that it multiplies.
    fn types(&self) -> &'static [Ty];

    /// Returns the architecture since which it runs.
    fn since(&self) -> Arch;

    /// Whether it runs on an architecture.
    fn runs_on(&self, arch: Arch) -> bool {
        arch >= self.since()
    }

    /// Whether it reads A and B by such vectors.
    fn reads(&self, _: &Operands) -> bool {
        true
    }

    /// Returns the type of A and B in shared memory.
    fn held(&self, operands: &Operands) -> Ty {
        operands.ab
    }

    /// Returns the numbers of its usual plan.
    fn numbers(&self, operands: &Operands) -> Numbers;

    /// Returns the most of its units (threads, warps or warpgroups) along M and along N: along one of them alone they fill
    /// a block.
    fn most_units(&self) -> [i64; 2];

    /// Returns the threads of a block that hold sums.
    fn consumers(&self, plan: &GemmPlan) -> i64;

    /// Returns the threads of a block.
    fn threads(&self, plan: &GemmPlan) -> i64 {
        self.consumers(plan)
    }

    /// Returns what the tile's extents are multiples of: what the matrix instructions of all units take.
    fn steps(&self, plan: &GemmPlan) -> [i64; 3];

    /// Returns the largest extents of a tile.
    fn most_tile(&self, _: &Operands) -> [i64; 3] {
        [MOST_TILE; 3]
    }

    /// Returns the smallest extent of a tile along K, for steps of that extent.
    fn least_k(&self, step: i64) -> i64 {
        step
    }

    /// Returns how many tiles may be on their way.
    fn stages(&self) -> RangeInclusive<i64>;

    /// Returns the products of one instruction of every unit.
    fn products(&self, plan: &GemmPlan) -> i64;

    /// Refuses what its threads' parts of a tile cannot be, `sums` being the registers of a thread's sums.
    ///
    /// # Errors
    ///
    /// Fails for more than the kernel has, and for a tile of which the threads do not have equal shares.
    fn check_shares(&self, plan: &GemmPlan, sums: i64) -> Result<(), crate::Error>;

    /// Whether a kernel for tiles that divide the problem asks for less.
    fn gains_from_whole(&self) -> bool {
        false
    }

    /// Whether its loads of A and B take the part of a vector that there is.
    fn loads_parts(&self) -> bool {
        false
    }

    /// Returns the matrix instruction repeated over the units.
    ///
    /// # Errors
    ///
    /// What the algebra refuses.
    fn tiled_mma(&self, plan: &GemmPlan) -> Result<TiledMma, Error>;

    /// Builds the kernel of a plan.
    ///
    /// # Errors
    ///
    /// What the algebra refuses.
    fn build(&self, plan: &GemmPlan, arch: Arch) -> Result<TensorKernel, Error>;

    /// Returns the matrices of a problem as the kernel takes them: under these layouts, at these addresses.
    ///
    /// # Errors
    ///
    /// A layout that the kernel was not built for.
    fn matrices<'a>(
        &self,
        _: &GemmProblem,
        _: &GemmPlan,
        _: &TensorKernel,
        layouts: &'a [Layout; 3],
        addresses: [u64; 3],
    ) -> Result<Vec<Arg<'a>>, crate::Error> {
        let pairs = addresses.into_iter().zip(layouts);
        Ok(pairs.map(|(at, layout)| Arg::checked(at, layout)).collect())
    }

    /// Returns the grid of a launch for `tiles` tiles along M and N.
    fn launch(&self, tiles: [i64; 2], threads: u32, _: &Device) -> Launch {
        let blocks = u32::try_from(tiles[0] * tiles[1]).unwrap_or(u32::MAX);
        Launch::new(blocks, threads)
    }
}

impl GemmMethod {
    /// All methods, the fastest first where several fit.
    pub(crate) const BY_SPEED: [GemmMethod; 4] = [
        GemmMethod::Hopper,
        GemmMethod::Ampere,
        GemmMethod::Volta,
        GemmMethod::Simt,
    ];

    /// Returns the family that the method is.
    pub(crate) fn family(self) -> &'static dyn GemmFamily {
        match self {
            GemmMethod::Simt => &simt::Simt,
            GemmMethod::Volta => &sm70::Volta,
            GemmMethod::Ampere => &sm80::Ampere,
            GemmMethod::Hopper => &sm90::Hopper,
        }
    }

    /// Whether it multiplies such matrices on an architecture.
    pub(crate) fn fits(self, operands: &Operands, arch: Arch) -> bool {
        let family = self.family();
        family.runs_on(arch) && family.reads(operands) && family.types().contains(&operands.ab)
    }
}
