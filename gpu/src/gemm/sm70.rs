//! The Volta GEMM: `mma.sync.m8n8k4`, each of a warp's four quad-pairs a product of 8 by 8 by 4.
//!
//! The instruction takes A and B with either mode contiguous: a tile lies in shared memory as its matrix does in global
//! memory, and a thread reads four neighbours of it.

use std::ops::RangeInclusive;

use colex_atom::{Arch, Ty};
use colex_layout::Layout;
use colex_tiled::{Operand, TiledMma};

use super::batch::BatchForm;
use super::epilogue::terms::KernelEpilogue;
use super::family::{GemmFamily, Numbers};
use super::plan::{GemmPlan, Operands};
use super::plan_check::MOST_THREADS;
use super::register_staged;
use super::register_staged::{RegisterStagedGemm, SmemTile};
use crate::kernels::Major;
use colex_tensor::{Error, TensorKernel};

/// The padding of each row or column in shared memory: 16 bytes, so that eight consecutive rows begin in different
/// banks.
const MORE: i64 = 8;

/// `mma.sync` of quad-pairs; the units of a plan are warps.
pub(crate) struct Volta;

impl GemmFamily for Volta {
    fn types(&self) -> &'static [Ty] {
        &[Ty::F16]
    }

    fn since(&self) -> Arch {
        Arch::Sm70
    }

    fn numbers(&self, _: &Operands) -> Numbers {
        Numbers {
            tile: [128, 128, 32],
            stages: 2,
            warps: [2, 4],
            cluster: [1; 3],
        }
    }

    fn most_units(&self) -> [i64; 2] {
        [MOST_THREADS / 32; 2]
    }

    fn consumers(&self, plan: &GemmPlan) -> i64 {
        plan.warps[0] * plan.warps[1] * 32
    }

    fn steps(&self, plan: &GemmPlan) -> [i64; 3] {
        let [m, n] = plan.warps;
        [16 * m, 16 * n, 4]
    }

    fn stages(&self) -> RangeInclusive<i64> {
        2..=2
    }

    fn products(&self, plan: &GemmPlan) -> i64 {
        self.steps(plan).iter().product()
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
        name: "gemm_sm70",
        plan,
        batch,
        mma: tiled_mma(plan)?,
        tiles: [Operand::A, Operand::B].map(|operand| way(plan, operand)),
        transposed: false,
        // A thread's accumulators come in pairs along N.
        neighbours: match plan.operands.major(Operand::C) {
            Major::First => 1,
            Major::Second => 2,
        },
    };
    register_staged::build(gemm, epilogue, arch)
}

/// Two by two quad-pairs per warp, and warps along M and N.
fn tiled_mma(plan: &GemmPlan) -> Result<TiledMma, Error> {
    // The letters of BLAS: A is transposed if K is contiguous, B if N is.
    let letter = |operand, first, second| match plan.operands.major(operand) {
        Major::First => first,
        Major::Second => second,
    };
    let (a, b) = (letter(Operand::A, 'N', 'T'), letter(Operand::B, 'T', 'N'));
    let ty = plan.operands.ab.cute();
    let atom = colex_atom::mma(&format!("SM70_8x8x4_F32{ty}{ty}F32_{a}{b}"))?;
    let [m, n] = plan.warps;
    let atoms = (((2, m), (2, n), 1), ((1, 4), (2, 4 * m), 0));
    Ok(TiledMma::new(atom, atoms, (.., .., ..))?)
}

fn way(plan: &GemmPlan, operand: Operand) -> SmemTile {
    let [mn, bk] = operand.modes().map(|mode| plan.tile[mode]);
    let stride = match plan.operands.major(operand) {
        Major::First => (1, mn + MORE, (mn + MORE) * bk),
        Major::Second => (bk + MORE, 1, (bk + MORE) * mn),
    };
    let layout = Layout::new((mn, bk, 2), stride).expect("the plan's numbers make a layout");
    SmemTile {
        ty: plan.operands.ab,
        layout,
        write: MORE,
        read: 4,
    }
}
