//! Plans of convolutions by im2col tensor maps.

use colex_atom::Arch;

use super::form::{Im2col, check};
use crate::gemm::choose::{Machine, SOME_ROWS};
use crate::gemm::plan::{GemmPlan, Operands};
use crate::gemm::prepared::Wish;
use crate::gemm::problem::GemmProblem;
use crate::method::GemmMethod;

/// The plan of the list that the model says is the fastest for what it loads: whole tiles of channels under each tap.
///
/// The kernel sums a tile of channels under all taps before the next one, so the tile along K decides the order of a sum. A plan
/// that does not depend on the batch has the tile of [`SOME_ROWS`] positions.
pub(crate) fn choose(
    im2col: &Im2col,
    wish: Wish,
    problem: &GemmProblem,
    of: (Operands, Arch),
    machine: Machine,
) -> GemmPlan {
    let step = (wish == Wish::BatchInvariant).then(|| {
        let some = GemmProblem {
            m: SOME_ROWS,
            ..*problem
        };
        fastest(im2col, (wish, None), &some, of, machine).tile[2]
    });
    fastest(im2col, (wish, step), problem, of, machine)
}

/// Whether a call with this wish takes a plan that divides K among clusters, or does not.
fn is_wanted(wish: Wish, plan: &GemmPlan, divides: bool) -> bool {
    match wish {
        Wish::Whole => !divides,
        // Each row is summed in one order.
        Wish::BatchInvariant => !divides && plan.cluster[2] == 1,
        Wish::Plan(_) | Wish::Method(_) | Wish::Fastest => true,
    }
}

/// The plans of the list that load by an im2col tensor map.
fn taken(operands: Operands, arch: Arch) -> impl Iterator<Item = GemmPlan> {
    // How they begin is measured for plain products alone.
    let in_order = |plan| GemmPlan {
        early: false,
        ..plan
    };
    let plans = GemmPlan::candidates(operands, arch).into_iter();
    plans.map(in_order).filter(|plan| check(plan).is_ok())
}

/// The plans that a call can choose for any number of positions. Those that divide K among clusters have two parts: their kernels take any
/// number.
pub(crate) fn choosable(
    wish: Wish,
    (operands, arch): (Operands, Arch),
) -> impl Iterator<Item = GemmPlan> {
    let list: Vec<_> = taken(operands, arch).collect();
    let divides = |plan: &GemmPlan| plan.split > 1 && !plan.is_alone_whole(&list);
    let wanted = |plan: &&GemmPlan| is_wanted(wish, plan, divides(plan));
    let wanted: Vec<_> = list.iter().filter(wanted).copied().collect();
    wanted.into_iter()
}

/// The fastest plan of the list with a tile along K, if one is given.
fn fastest(
    im2col: &Im2col,
    (wish, step): (Wish, Option<i64>),
    problem: &GemmProblem,
    (operands, arch): (Operands, Arch),
    machine: Machine,
) -> GemmPlan {
    let loaded = |plan: &GemmPlan| GemmProblem {
        k: im2col.loaded(plan.tile[2]),
        ..*problem
    };
    let list: Vec<_> = taken(operands, arch).collect();
    let plans = list
        .iter()
        .flat_map(|plan| plan.in_parts(&loaded(plan), machine, plan.is_alone_whole(&list)));
    let plans = plans.filter(|plan| !plan.is_only_measured());
    let plans = plans.filter(|plan| step.is_none_or(|step| plan.tile[2] == step));
    let divides = |plan: &GemmPlan| plan.divided_tiles(problem) > 0;
    let wanted = plans.filter(|plan| is_wanted(wish, plan, divides(plan)));
    let timed = wanted.map(|plan| {
        let time = plan.cost(&loaded(&plan), machine).total();
        (time, plan)
    });
    let best = timed.min_by(|x, y| x.0.total_cmp(&y.0));
    match best {
        Some((_, plan)) => plan,
        None => GemmPlan::new(GemmMethod::Hopper, operands),
    }
}
