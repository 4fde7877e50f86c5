//! The measured plans of attention.

use core::fmt;

use colex_device::{Buffer, Device};

use super::call::prepared;
use super::plan::{AttentionOperands, AttentionPlan};
use super::problem::{AttentionProblem, AttentionTensor, Sequences};
use crate::autotune::{self, Autotune, Tuned};
use crate::error::Error;
use crate::gemm::problem::GemmElement;
use crate::method::AttentionMethod;
use crate::scratch::{Workspace, aligned};

/// A problem, as the file of plans knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct TunedAttention(String);

impl Tuned for TunedAttention {
    type Plan = AttentionPlan;
}

impl TunedAttention {
    fn of(problem: &AttentionProblem, operands: &AttentionOperands) -> TunedAttention {
        // These two change no kernel and no time.
        let alike = AttentionProblem {
            scale: 1.0,
            softcap: problem.softcap.map(|_| 1.0),
            ..*problem
        };
        let (vectors, strides) = (operands.vectors, problem.strides);
        TunedAttention(format!("{alike}, vectors {vectors:?}, strides {strides:?}"))
    }
}

impl fmt::Display for TunedAttention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the plan for a call that would take the fastest one; `None` stands for that of the model.
///
/// # Errors
///
/// Returns the device's error if the operands of a measurement cannot be allocated, and the errors of the kernels.
pub(super) fn tuned<T: GemmElement>(
    measured: &Autotune,
    problem: &AttentionProblem,
    operands: AttentionOperands,
    device: &Device,
    addresses: [u64; 4],
) -> Result<Option<AttentionPlan>, Error> {
    // The lengths of other sequences are on the device.
    if problem.is_nothing() || problem.sequences != [Sequences::Batch; 2] {
        return Ok(None);
    }
    let tuned = TunedAttention::of(problem, &operands);
    let plans = || candidates(problem, operands, device);
    measured.plan(&tuned, device, plans, |few| {
        fastest::<T>(few, problem, device, addresses)
    })
}

/// The plans that may be measured, that of the model first: then those that differ from it in one number, and the other plans of
/// the model.
fn candidates(
    problem: &AttentionProblem,
    operands: AttentionOperands,
    device: &Device,
) -> Vec<AttentionPlan> {
    let (arch, multiprocessors) = (device.arch(), device.limits().multiprocessors);
    let Ok(first) = AttentionPlan::fastest(problem, operands, arch, multiprocessors) else {
        return Vec::new();
    };
    let mut all = vec![first];
    let mut add = |plan: AttentionPlan| {
        let checked = plan.check(arch);
        let taken = checked.and_then(|()| plan.check_problem(problem)).is_ok();
        if taken && !all.contains(&plan) {
            all.push(plan);
        }
    };
    let [rows, keys] = first.tile;
    let early = !first.early;
    add(AttentionPlan { early, ..first });
    match first.method {
        AttentionMethod::Hopper => {
            let (pairs, strip) = (!first.pairs && operands.is_causal(), 4);
            add(AttentionPlan {
                pairs,
                strip,
                ..first
            });
            let rows = rows / first.consumers;
            for (consumers, keys) in [(3, 80), (2, 128), (3, 128)] {
                let tile = [rows * consumers, keys];
                add(AttentionPlan {
                    tile,
                    consumers,
                    ..first
                });
            }
            let turns = !first.turns;
            add(AttentionPlan { turns, ..first });
        }
        AttentionMethod::Ampere => {
            for (keys, stages) in [(32, 2), (32, 4), (keys, 3), (128, 2)] {
                let tile = [rows, keys];
                add(AttentionPlan {
                    tile,
                    stages,
                    ..first
                });
            }
            // Smaller steps in twice as many parts keep as many loads under way, and lanes add many parts in one wait.
            let narrow = [rows, keys / 2];
            for (tile, stages, splits) in [
                (first.tile, first.stages, first.splits),
                (first.tile, 3, first.splits),
                (narrow, first.stages, 2 * first.splits),
            ] {
                add(AttentionPlan {
                    tile,
                    stages,
                    splits,
                    by_lanes: true,
                    ..first
                });
            }
        }
    }
    let ranked = AttentionPlan::alternatives(problem, operands, arch, multiprocessors);
    ranked.into_iter().for_each(add);
    all
}

/// Returns the number of elements from the first to the last of a tensor.
fn reach<const N: usize>(extents: [i64; N], strides: [i64; N]) -> usize {
    let ends = extents.into_iter().zip(strides);
    let last: i64 = ends
        .map(|(extent, stride)| (extent - 1).max(0) * stride)
        .sum();
    last as usize + 1
}

/// Returns the plan with the smallest median time.
fn fastest<T: GemmElement>(
    plans: &[AttentionPlan],
    problem: &AttentionProblem,
    device: &Device,
    addresses: [u64; 4],
) -> Result<AttentionPlan, Error> {
    let [first, _, ..] = plans else {
        return Ok(plans[0]);
    };
    let tensors = AttentionTensor::ALL;
    // Each copy keeps the alignment of the caller's tensors.
    let pieces = tensors.map(|tensor| {
        let elements = reach(problem.extents(tensor), problem.strides[tensor as usize]);
        aligned(elements * T::BYTES) + 256
    });
    let [batch, heads, queries, _] = problem.extents(AttentionTensor::O);
    let sums = (problem.log_sum_exp).then(|| reach([batch, heads, queries], problem.sum_strides));
    let sinks = problem.sinks.map(|stride| reach([heads], [stride]));
    let copies = autotune::copies(pieces.iter().sum());
    let longest = pieces.iter().copied().max().unwrap_or(0) / T::BYTES;
    let numbers = autotune::numbers(longest, T::from_f64);
    let mut memory: Vec<Buffer<T>> = Vec::new();
    let mut other: Vec<Buffer<f32>> = Vec::new();
    let mut places = Vec::new();
    for _ in 0..copies {
        let mut place = Vec::new();
        for (bytes, address) in pieces.into_iter().zip(addresses) {
            let buffer = device.upload(&numbers[..bytes / T::BYTES])?;
            place.push(buffer.address() + address % 256);
            memory.push(buffer);
        }
        for count in [sums, sinks].into_iter().flatten() {
            let buffer = device.zeros::<f32>(count)?;
            place.push(buffer.address());
            other.push(buffer);
        }
        places.push(place);
    }
    let (mut runs, mut parts) = (Vec::new(), Vec::new());
    for plan in plans {
        let bytes = plan.workspace(problem) as usize;
        let workspace = match bytes {
            0 => None,
            // A plan for whose parts of the keys there is no memory is not measured.
            _ => match Workspace::Own(device).take_spare(bytes)? {
                None => continue,
                of_parts => of_parts,
            },
        };
        let calls = places.iter().map(|place| {
            let workspace = workspace.iter().map(Buffer::address);
            let at: Vec<u64> = place.iter().copied().chain(workspace).collect();
            prepared(*plan, *problem, device, &at)
        });
        runs.push((*plan, calls.collect::<Result<Vec<_>, Error>>()?));
        parts.extend(workspace);
    }
    let fastest = autotune::fastest(device, copies, &runs)?;
    drop((memory, other, parts));
    Ok(fastest.unwrap_or(*first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::Mask;
    use colex_atom::{Arch, Ty};

    /// The plans that may be measured begin with that of a call, are all taken by the problem, and differ.
    #[test]
    fn law_the_candidates_begin_with_the_plan_of_the_model() {
        let mut count = 0;
        for arch in [Arch::Sm80, Arch::Sm90a] {
            let device = Device::simulator(arch);
            let multiprocessors = device.limits().multiprocessors;
            for (width, mask) in [64, 96, 128, 192, 256]
                .into_iter()
                .flat_map(|width| [(width, Mask::Full), (width, Mask::Causal)])
            {
                for lengths in [[1, 5000], [100, 100], [4096, 4096]] {
                    let problem = AttentionProblem::new(Ty::Bf16, 2, [8, 2], lengths, [width; 2]);
                    let problem = problem.mask(mask);
                    let operands = AttentionOperands::of(&problem, [0; 4]);
                    let plans = candidates(&problem, operands, &device);
                    let usual =
                        AttentionPlan::fastest(&problem, operands, arch, multiprocessors).ok();
                    assert_eq!(plans.first().copied(), usual, "{problem}");
                    let mut names: Vec<String> =
                        plans.iter().map(|plan| plan.to_string()).collect();
                    for plan in &plans {
                        let checked = plan.check(arch).and_then(|()| plan.check_problem(&problem));
                        assert_eq!(checked.map_err(|e| e.to_string()), Ok(()), "{plan}");
                    }
                    assert!(plans.len() > 1, "{problem}");
                    names.sort();
                    names.dedup();
                    assert_eq!(names.len(), plans.len(), "{problem}: {names:?}");
                    count += plans.len();
                }
            }
        }
        println!("law attention.candidates: {count} plans");
    }

    /// The name of a problem in the file is that of its times: neither the scale nor the number of the soft-cap changes it, and
    /// each fact that a kernel is built from does.
    #[test]
    fn the_name_of_a_problem_in_the_file() {
        let problem = AttentionProblem::new(Ty::Bf16, 1, [2, 1], [3, 5], [64; 2]);
        let name = |problem: &AttentionProblem| {
            TunedAttention::of(problem, &AttentionOperands::of(problem, [0; 4])).to_string()
        };
        assert_eq!(
            name(&problem),
            "attention bf16, batch 1, heads 2 on 1, 3 queries, 5 keys, features 64, full, scale 1, vectors [8, 8, 8, 8], strides \
             [[384, 192, 64, 1], [320, 320, 64, 1], [320, 320, 64, 1], [384, 192, 64, 1]]"
        );
        let scaled = AttentionProblem {
            scale: 3.0,
            ..problem
        };
        assert_eq!(name(&scaled), name(&problem));
        let causal = problem.mask(Mask::Causal);
        let sinks = AttentionProblem {
            sinks: Some(1),
            ..problem
        };
        assert!(name(&causal) != name(&problem) && name(&sinks) != name(&problem));
    }
}
