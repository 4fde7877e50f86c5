//! Plans of products in groups.

use colex_atom::{Arch, Major};
use colex_tiled::Operand;

use super::Groups;
use super::tiles::{MOST_GROUPS, MOST_ROWS, MOST_TILES};
use crate::error::{Error, ErrorKind};
use crate::gemm::plan::{GemmPlan, Operands};
use crate::gemm::problem::GemmProblem;
use crate::method::GemmMethod;
use colex_sched::pipeline::Schedule;

/// A part of K that is on average at most this long is a short sum.
const SHORT: i64 = 128;

fn refuse<T>(why: String) -> Result<T, Error> {
    Err(ErrorKind::Groups { why }.into())
}

/// The operands as the kernel of a method takes them, and whether its threads load (`gather`): a part of a matrix that begins or
/// ends at any element of its contiguous mode has no vectors along it. TMA brings a part of K that begins at any element, and the
/// consumers clear what lies behind it. The rows of A may be read behind a group, where they are masked.
pub(crate) fn narrowed(
    groups: Groups,
    (method, gather): (GemmMethod, bool),
    operands: Operands,
) -> Operands {
    let mut operands = operands;
    let is_by_tma = method == GemmMethod::Hopper && !gather;
    for operand in Operand::ALL {
        let major = operands.majors[operand as usize];
        let is_cut = match (groups, operand) {
            (Groups::Rows, Operand::A | Operand::C) => major == Major::First,
            // Hopper's kernel stores whole tiles by TMA, and others by element.
            (Groups::Masked, Operand::C) => major == Major::First && method != GemmMethod::Hopper,
            (Groups::AlongK, Operand::A | Operand::B) => major == Major::Second && !is_by_tma,
            (Groups::Rows, Operand::B)
            | (Groups::Masked, Operand::A | Operand::B)
            | (Groups::AlongK, Operand::C) => false,
        };
        if is_cut {
            operands.vectors[operand as usize] = 1;
        }
    }
    operands
}

/// Whether a plan's kernel computes such groups of a problem.
///
/// # Errors
///
/// Returns an error that says what it does not take.
pub(crate) fn check(groups: Groups, plan: &GemmPlan, problem: &GemmProblem) -> Result<(), Error> {
    if plan.method == GemmMethod::Gemv {
        return refuse(
            "the GEMV kernel computes one row of one product: the kernels of all rows take groups"
                .to_string(),
        );
    }
    if plan.swap {
        return refuse("the plan swaps A and B: groups have their rows in A".to_string());
    }
    if plan.gather && groups.has_rows() {
        return refuse(
            "the plan loads by threads: the Hopper kernel loads groups of rows by TMA".to_string(),
        );
    }
    if plan.split != 1 || plan.cluster[2] != 1 {
        return refuse(format!(
            "the plan divides K into {} parts for {} blocks of a cluster each: K of a group is not divided",
            plan.split, plan.cluster[2]
        ));
    }
    if plan.schedule == Schedule::Pingpong {
        return refuse(
            "the plan is a pingpong schedule, whose consumers know the tile after theirs: tiles of groups take a cooperative one"
                .to_string(),
        );
    }
    let cut = match groups {
        Groups::Rows | Groups::Masked => ("M", problem.m),
        Groups::AlongK => ("K", problem.k),
    };
    for (what, extent, most) in [
        (cut.0, cut.1, MOST_ROWS),
        ("the number of groups", problem.batch, MOST_GROUPS),
    ] {
        if extent > most {
            return Err(ErrorKind::Extent { what, extent, most }.into());
        }
    }
    let (tall, wide) = (
        most_tall(groups, plan, problem),
        tiles(problem.n, plan.tile[1]),
    );
    plan.limit(
        "tiles of all groups",
        tall.saturating_mul(wide),
        MOST_TILES - 1,
    )
}

fn tiles(extent: i64, tile: i64) -> i64 {
    extent / tile + i64::from(extent % tile != 0)
}

/// The most tiles along M of all groups, regardless of the numbers on the device.
pub(crate) fn most_tall(groups: Groups, plan: &GemmPlan, problem: &GemmProblem) -> i64 {
    let tile = plan.tile[0].max(1);
    match groups {
        // Each group has at most one tile more than its rows fill.
        Groups::Rows => (problem.m / tile).saturating_add(problem.batch),
        Groups::Masked | Groups::AlongK => tiles(problem.m, tile).saturating_mul(problem.batch),
    }
}

/// The plan of a product in groups: the fastest method that takes it, with tiles for the rows that a group has on average.
pub(crate) fn choose(
    groups: Groups,
    problem: &GemmProblem,
    operands: Operands,
    arch: Arch,
) -> GemmPlan {
    let rows = match groups {
        Groups::Rows => problem.m / problem.batch.max(1),
        Groups::Masked | Groups::AlongK => problem.m,
    };
    let columns = problem.k / problem.batch.max(1);
    let ways = GemmMethod::BY_SPEED
        .into_iter()
        .flat_map(|method| [false, true].map(|gather| (method, gather)));
    // Rows of A are loaded by TMA, or by another method.
    let ways = ways.filter(|(method, gather)| {
        !gather || (*method == GemmMethod::Hopper && !groups.has_rows())
    });
    for (method, gather) in ways {
        let operands = narrowed(groups, (method, gather), operands);
        let usual = GemmPlan {
            gather,
            ..GemmPlan::new(method, operands)
        };
        let suits = |plan: &GemmPlan| {
            plan.check_kernel(arch).is_ok() && check(groups, plan, problem).is_ok()
        };
        let suited = suited(groups, &usual, (rows, columns));
        let found = [suited, Some(usual)].into_iter().flatten();
        if let Some(plan) = found.into_iter().find(suits) {
            return plan;
        }
    }
    // Its check says what is wrong.
    GemmPlan::new(
        GemmMethod::Simt,
        narrowed(groups, (GemmMethod::Simt, false), operands),
    )
}

/// A plan of Hopper's kernel for groups of this number of rows. Few rows have one consumer, and more stages. Blocks share tiles of
/// B only where most groups have rows for both; how many rows of masked matrices count is not known. Where threads load, blocks
/// share nothing.
fn suited(groups: Groups, usual: &GemmPlan, (rows, columns): (i64, i64)) -> Option<GemmPlan> {
    if usual.method != GemmMethod::Hopper {
        return None;
    }
    let [m, n, k] = usual.tile;
    if !groups.has_rows() {
        // Short sums are bound by the stores of C, which begin earlier in smaller tiles: measured.
        let is_short = columns <= SHORT;
        let narrow = usual.gather || is_short;
        return Some(GemmPlan {
            tile: [m, if narrow { n / 2 } else { n }, k],
            stages: if is_short && !usual.gather {
                6
            } else {
                usual.stages
            },
            cluster: [if is_short && !usual.gather { 2 } else { 1 }, 1, 1],
            ..*usual
        });
    }
    Some(match rows {
        ..=64 => GemmPlan {
            tile: [64, n, k],
            warps: [1, 1],
            cluster: [1, 1, 1],
            stages: 5,
            ..*usual
        },
        65..1024 => GemmPlan {
            cluster: [1, 1, 1],
            ..*usual
        },
        _ if groups == Groups::Masked => GemmPlan {
            cluster: [1, 2, 1],
            ..*usual
        },
        _ => GemmPlan {
            cluster: [2, 1, 1],
            ..*usual
        },
    })
}
