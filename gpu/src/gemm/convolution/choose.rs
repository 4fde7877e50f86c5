//! Plans of convolutions by im2col tensor maps.

use colex_atom::Arch;

use super::form::{Im2col, check};
use crate::gemm::plan::{GemmPlan, Operands};
use crate::gemm::prepared::Wish;
use crate::gemm::problem::GemmProblem;
use crate::method::GemmMethod;

/// The plan of the list that the model says is the fastest for what it loads: whole tiles of channels under each tap.
pub(crate) fn choose(
    im2col: &Im2col,
    wish: Wish,
    problem: &GemmProblem,
    (operands, arch): (Operands, Arch),
    multiprocessors: i64,
) -> GemmPlan {
    let is_wanted = |plan: &GemmPlan| match wish {
        Wish::Whole => plan.split == 1,
        // Each row is summed in one order.
        Wish::BatchInvariant => plan.split == 1 && plan.cluster[2] == 1,
        Wish::Plan(_) | Wish::Method(_) | Wish::Fastest => true,
    };
    let loaded = |plan: &GemmPlan| GemmProblem {
        k: im2col.loaded(plan.tile[2]),
        ..*problem
    };
    let plans = GemmPlan::candidates(operands, arch).into_iter();
    let plans = plans.filter(|plan| check(plan).is_ok());
    let plans = plans.flat_map(|plan| plan.in_parts(&loaded(&plan), multiprocessors));
    let timed = plans.filter(is_wanted).map(|plan| {
        let time = plan.cost(&loaded(&plan), multiprocessors).total();
        (time, plan)
    });
    let best = timed.min_by(|x, y| x.0.total_cmp(&y.0));
    match best {
        Some((_, plan)) => plan,
        None => GemmPlan::new(GemmMethod::Hopper, operands),
    }
}
