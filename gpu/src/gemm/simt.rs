//! The SIMT GEMM: one multiply-add of one thread at a time, for every type, order, size and alignment.
//!
//! Elements are converted to the accumulator type on their way into shared memory, where M (or N) is contiguous. The
//! contiguous mode of C takes the place of M, so that each thread has neighbouring elements of C.

use std::ops::RangeInclusive;

use colex_atom::{Arch, Ty};
use colex_layout::Layout;
use colex_tiled::{Operand, TiledMma};

use super::batch::BatchForm;
use super::epilogue::convert::sum_type;
use super::epilogue::terms::KernelEpilogue;
use super::family::{GemmFamily, Numbers};
use super::plan::{GemmPlan, Operands};
use super::plan_check::MOST_THREADS;
use super::register_staged;
use super::register_staged::{RegisterStagedGemm, SmemTile};
use crate::kernels::Major;
use colex_tensor::{Error, TensorKernel};

/// One multiply-add per thread. The units of a plan are threads.
pub(crate) struct Simt;

impl GemmFamily for Simt {
    fn types(&self) -> &'static [Ty] {
        &[Ty::F64, Ty::F32, Ty::F16, Ty::Bf16, Ty::S32, Ty::S8]
    }

    fn since(&self) -> Arch {
        Arch::Sm70
    }

    fn held(&self, operands: &Operands) -> Ty {
        sum_type(operands.ab)
    }

    fn numbers(&self, operands: &Operands) -> Numbers {
        let edge = match sum_type(operands.ab) {
            Ty::F64 => 64,
            _ => 128,
        };
        Numbers {
            tile: [edge, edge, 16],
            stages: 2,
            warps: [16, 16],
            cluster: [1; 3],
        }
    }

    fn most_units(&self) -> [i64; 2] {
        [MOST_THREADS; 2]
    }

    fn consumers(&self, plan: &GemmPlan) -> i64 {
        plan.warps[0] * plan.warps[1]
    }

    fn steps(&self, plan: &GemmPlan) -> [i64; 3] {
        let [m, n] = plan.warps.map(|n| n * neighbours(plan.operands.ab));
        [m, n, 1]
    }

    fn stages(&self) -> RangeInclusive<i64> {
        2..=2
    }

    fn products(&self, plan: &GemmPlan) -> i64 {
        plan.warps[0] * plan.warps[1]
    }

    fn check_shares(&self, plan: &GemmPlan, _: i64) -> Result<(), crate::Error> {
        plan.check_copies()
    }

    fn tiled_mma(&self, plan: &GemmPlan) -> Result<TiledMma, Error> {
        tiled_mma(plan)
    }

    fn build(
        &self,
        plan: &GemmPlan,
        batch: BatchForm,
        epilogue: &KernelEpilogue,
        arch: Arch,
    ) -> Result<TensorKernel, Error> {
        build(plan, batch, epilogue, arch)
    }
}

/// The kernel of a plan.
fn build(
    plan: &GemmPlan,
    batch: BatchForm,
    epilogue: &KernelEpilogue,
    arch: Arch,
) -> Result<TensorKernel, Error> {
    let gemm = RegisterStagedGemm {
        name: "gemm_simt",
        plan,
        batch,
        mma: tiled_mma(plan)?,
        tiles: [Operand::A, Operand::B].map(|operand| way(plan, operand)),
        transposed: transposed(plan),
        neighbours: neighbours(plan.operands.ab),
    };
    register_staged::build(gemm, epilogue, arch)
}

/// Whether the product is computed transposed, with N in the place of M.
fn transposed(plan: &GemmPlan) -> bool {
    plan.operands.major(Operand::C) == Major::Second
}

/// The number of elements that a thread reads at once from shared memory and owns along M and N: 16 bytes.
fn neighbours(ab: Ty) -> i64 {
    128 / i64::from(sum_type(ab).bits())
}

/// One thread's multiply-add over a grid of threads, each with neighbours along M and N.
fn tiled_mma(plan: &GemmPlan) -> Result<TiledMma, Error> {
    let atom = match sum_type(plan.operands.ab) {
        Ty::F64 => "UniversalFMA<double>",
        Ty::S32 => "UniversalFMA<int32_t>",
        _ => "UniversalFMA<float>",
    };
    let v = neighbours(plan.operands.ab);
    let [m, n] = plan.warps;
    let [x, y] = if transposed(plan) { [n, m] } else { [m, n] };
    let neighbours = |threads| Layout::new((threads, v), (v, 1));
    Ok(TiledMma::new(
        colex_atom::mma(atom)?,
        ((x, y, 1), (1, x, 0)),
        (neighbours(x)?, neighbours(y)?, ..),
    )?)
}

/// M (or N) is contiguous, and each column is padded by the elements that a thread reads at once. Stores of a warp
/// along K then fall into different banks.
fn way(plan: &GemmPlan, operand: Operand) -> SmemTile {
    let [mn, bk] = operand.modes().map(|mode| plan.tile[mode]);
    let read = neighbours(plan.operands.ab);
    let column = mn + read;
    let layout = Layout::new((mn, bk, 2), (1, column, column * bk));
    let layout = layout.expect("the plan's numbers make a layout");
    SmemTile {
        ty: sum_type(plan.operands.ab),
        layout,
        write: match plan.operands.major(operand) {
            Major::First => read,
            Major::Second => 1,
        },
        read,
    }
}
