//! The Volta GEMM: `mma.sync.m8n8k4`, each of a warp's four quad-pairs a product of 8 by 8 by 4.
//!
//! The instruction takes A and B with either mode contiguous: a tile lies in shared memory as its matrix does in global
//! memory, and a thread reads four neighbours of it.

use colex_atom::Arch;
use colex_layout::Layout;
use colex_tiled::{Operand, TiledMma};

use super::plan::GemmPlan;
use super::register_staged;
use super::register_staged::{Kind, Way};
use crate::kernels::Major;
use colex_tensor::{Built, Error};

/// Elements that follow each row or column in shared memory: 16 bytes, so that eight rows begin in different banks.
const MORE: i64 = 8;

/// The kernel of a plan.
pub(crate) fn build(plan: &GemmPlan, arch: Arch) -> Result<Built, Error> {
    let kind = Kind {
        name: "gemm_sm70",
        plan,
        mma: tiled_mma(plan)?,
        ways: [Operand::A, Operand::B].map(|operand| way(plan, operand)),
        turned: false,
        // A thread's accumulators come in pairs along N.
        neighbours: match plan.operands.major(Operand::C) {
            Major::First => 1,
            Major::Second => 2,
        },
    };
    register_staged::build(kind, arch)
}

/// Two by two quad-pairs a warp, and warps along M and N.
pub(crate) fn tiled_mma(plan: &GemmPlan) -> Result<TiledMma, Error> {
    // BLAS's letters: A is transposed where K is contiguous, B where N is.
    let letter = |operand, first, second| match plan.operands.major(operand) {
        Major::First => first,
        Major::Second => second,
    };
    let (a, b) = (letter(Operand::A, 'N', 'T'), letter(Operand::B, 'T', 'N'));
    let ty = plan.operands.ab.cute();
    let atom = colex_atom::mma(&format!("SM70_8x8x4_F32{ty}{ty}F32_{a}{b}"))?;
    let [m, n] = plan.warps;
    let atoms = format!("((2,{m}),(2,{n}),1):((1,4),(2,{}),0)", 4 * m);
    let literal = "the plan's numbers make a layout";
    let whole = "(_,_,_)".parse().expect(literal);
    Ok(TiledMma::new(atom, &atoms.parse().expect(literal), &whole)?)
}

fn way(plan: &GemmPlan, operand: Operand) -> Way {
    let [mn, bk] = operand.modes().map(|mode| plan.tile[mode]);
    let text = match plan.operands.major(operand) {
        Major::First => format!("({mn},{bk},2):(1,{},{})", mn + MORE, (mn + MORE) * bk),
        Major::Second => format!("({mn},{bk},2):({},1,{})", bk + MORE, (bk + MORE) * mn),
    };
    let layout: Layout = text.parse().expect("the plan's numbers make a layout");
    Way {
        ty: plan.operands.ab,
        layout,
        write: MORE,
        read: 4,
    }
}
