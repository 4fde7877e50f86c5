//! Cumulative sums on the host, in the order of a plan.

use super::plan::ScanPlan;

/// Returns the sums of `x` along its mode in the order of additions of a plan ([`ScanPlan`]), in `f32` before the result is rounded
/// to the type: the kernels have the same bits.
///
/// ```
/// use colex_atom::Ty;
/// use colex_gpu::reduce::scan::{ScanPlan, ScanProblem, reference};
///
/// let plan = ScanPlan::fastest(&ScanProblem::new(Ty::F32, [1, 4, 1])?);
/// assert_eq!(reference::sums(&plan, &[1.0, 2.0, 3.0, 4.0]), [1.0, 3.0, 6.0, 10.0]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
///
/// # Panics
///
/// Panics if the plan's numbers are none of a kernel.
pub fn sums(plan: &ScanPlan, x: &[f32]) -> Vec<f32> {
    let chunk = plan.chunk() as usize;
    let of_part = match plan.turns {
        0 => x.len().max(1),
        turns => chunk.saturating_mul(turns as usize),
    };
    let parts: Vec<&[f32]> = x.chunks(of_part).collect();
    let mut sums = Vec::new();
    let mut before: Vec<f32> = Vec::new();
    for part in parts {
        let first = before.iter().fold(0.0, |sum, total| sum + total);
        before.push(in_part(plan, part, 0.0, &mut Vec::new()));
        in_part(plan, part, first, &mut sums);
    }
    sums
}

/// Adds the sums of a part that begin with a number, and returns the last one.
fn in_part(plan: &ScanPlan, x: &[f32], first: f32, sums: &mut Vec<f32>) -> f32 {
    let is_exclusive = plan.operands.exclusive;
    let mut carry = first;
    if plan.operands.keeps_inner {
        for x in x {
            let next = carry + x;
            sums.push(if is_exclusive { carry } else { next });
            carry = next;
        }
        return carry;
    }
    let items = (plan.vector * plan.accesses) as usize;
    let threads = plan.along as usize;
    for turn in x.chunks(items * threads) {
        let of = |thread: usize, item: usize| turn.get(thread * items + item).copied();
        // The prefixes of each thread, and its lanes' sums.
        let mut prefixes = vec![vec![0.0_f32; items]; threads];
        for (thread, own) in prefixes.iter_mut().enumerate() {
            let mut sum = of(thread, 0).unwrap_or(0.0);
            own[0] = sum;
            for (item, to) in own.iter_mut().enumerate().skip(1) {
                sum += of(thread, item).unwrap_or(0.0);
                *to = sum;
            }
        }
        let mut lanes: Vec<f32> = prefixes.iter().map(|own| own[items - 1]).collect();
        for distance in [1, 2, 4, 8, 16] {
            let earlier = lanes.clone();
            for thread in 0..threads {
                if thread % 32 >= distance {
                    lanes[thread] = earlier[thread - distance] + earlier[thread];
                }
            }
        }
        let (mut total, mut warps) = (-0.0_f32, Vec::new());
        for warp in lanes.chunks(32) {
            warps.push(total);
            total += warp[warp.len() - 1];
        }
        for (place, _) in turn.iter().enumerate() {
            let (thread, item) = (place / items, place % items);
            let lane = if thread % 32 == 0 {
                -0.0
            } else {
                lanes[thread - 1]
            };
            let before = warps[thread / 32] + lane;
            let sum = match (is_exclusive, item) {
                (true, 0) => before,
                (true, _) => before + prefixes[thread][item - 1],
                (false, _) => before + prefixes[thread][item],
            };
            sums.push(carry + sum);
        }
        carry += total;
    }
    carry
}
