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
/// Returns the errors of the kernels and of the device, but for that of one without memory for a measurement.
pub(super) fn tuned<T: GemmElement>(
    measured: &Autotune,
    problem: &AttentionProblem,
    operands: AttentionOperands,
    device: &Device,
    addresses: [u64; 4],
) -> Result<Option<AttentionPlan>, Error> {
    if problem.is_nothing() {
        return Ok(None);
    }
    let problem = &measured_problem(problem);
    let tuned = TunedAttention::of(problem, &operands);
    let plans = || candidates(problem, operands, device);
    measured.plan(&tuned, device, plans, |few| {
        fastest::<T>(few, problem, device, addresses)
    })
}

/// The most bytes of the keys of a pool that is measured, and those of its values: in a larger one, sequences have pages in common.
const POOL: i64 = 1 << 30;

/// The problem that is measured in place of one: keys in pages lie in a compact pool of no more pages than the sequences fill. The
/// modes of the pool have the order of the caller's.
fn measured_problem(problem: &AttentionProblem) -> AttentionProblem {
    let mut measured = *problem;
    let Sequences::Paged { pages, rows, .. } = problem.sequences[1] else {
        return measured;
    };
    let entries = of_sequence(problem, rows);
    let [heads, features] = [
        problem.heads[1],
        problem.features[0].max(problem.features[1]),
    ];
    let of_page = i64::from(problem.ty.bits() / 8) * heads * rows * features;
    let filled = problem.batch.saturating_mul(entries);
    let pages = pages.min(filled).min(POOL / of_page.max(1)).max(1);
    measured.sequences[1] = Sequences::Paged {
        pages,
        rows,
        entries,
        strides: [entries, 1],
    };
    for tensor in [AttentionTensor::K, AttentionTensor::V] {
        let [_, _, _, features] = problem.extents(tensor);
        let extents = [pages, heads, rows];
        let given = problem.strides[tensor as usize];
        let mut order = [0, 1, 2];
        order.sort_by_key(|mode| given[*mode]);
        let mut next = features;
        for mode in order {
            measured.strides[tensor as usize][mode] = next;
            next *= extents[mode];
        }
    }
    measured
}

/// The entries of a sequence with the most keys in the table of pages.
fn of_sequence(problem: &AttentionProblem, rows: i64) -> i64 {
    (problem.lengths[1] / rows.max(1) + i64::from(problem.lengths[1] % rows.max(1) > 0)).max(1)
}

/// The number with which `i * step % count` goes through all numbers below `count`, in an order without neighbours.
fn scattering(count: i64) -> i64 {
    let is_coprime = |step: &i64| {
        let (mut a, mut b) = (*step, count);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    let first = (count as f64 * 0.618) as i64;
    (first.max(1)..=count.max(1)).find(is_coprime).unwrap_or(1)
}

/// The lengths of `count` sequences that are measured: the longest has `most` rows, and the others fall as a power of their rank, the
/// largest with which all fit into `rows`. They are scattered, in an order that depends on their number alone: the sequence with
/// the most queries has the most keys.
fn ranked(count: i64, most: i64, rows: i64) -> Vec<i64> {
    let most = most.min(rows).max(0);
    let length = |rank: i64, power: f64| (most as f64 * (rank as f64).powf(-power)) as i64;
    let fits = |power: f64| (1..=count).map(|rank| length(rank, power)).sum::<i64>() <= rows;
    let [mut least, mut enough] = [0.0, 64.0];
    if fits(least) {
        enough = least;
    }
    // Each halving is a bit of the power.
    for _ in 0..24 {
        let middle = (least + enough) / 2.0;
        *(if fits(middle) {
            &mut enough
        } else {
            &mut least
        }) = middle;
    }
    let mut lengths = vec![0; count as usize];
    let step = scattering(count);
    for rank in 1..=count {
        let at = (i128::from(rank - 1) * i128::from(step) % i128::from(count)) as usize;
        lengths[at] = length(rank, enough);
    }
    lengths
}

/// The numbers of a measured problem that a call has on the device: the offsets of packed sequences, or the table of pages and the
/// numbers of keys. Offsets are those of [`ranked`] lengths; sequences of keys in pages all have the most keys, in scattered pages.
fn numbers_of(problem: &AttentionProblem) -> Vec<Vec<u32>> {
    let batch = problem.batch;
    let mut all = Vec::new();
    for (of, most) in problem.sequences.into_iter().zip(problem.lengths) {
        match of {
            Sequences::Batch => {}
            Sequences::Packed { rows } => {
                let mut offsets = vec![0u32];
                let mut end = 0;
                for length in ranked(batch, most, rows) {
                    end += length;
                    offsets.push(end as u32);
                }
                all.push(offsets);
            }
            Sequences::Paged { pages, entries, .. } => {
                let (count, step) = (i128::from(batch * entries), i128::from(scattering(pages)));
                let page = |i: i128| (i * step % i128::from(pages)) as u32;
                all.push((0..count).map(page).collect());
                all.push(vec![most as u32; batch as usize]);
            }
        }
    }
    all
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
    let sorted = !first.sorted;
    add(AttentionPlan { sorted, ..first });
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

/// Returns the plan with the smallest median time; `None` if there is no memory for the parts of the keys of any.
fn fastest<T: GemmElement>(
    plans: &[AttentionPlan],
    problem: &AttentionProblem,
    device: &Device,
    addresses: [u64; 4],
) -> Result<Option<AttentionPlan>, Error> {
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
    let numbers = autotune::numbers(T::from_f64);
    let mut memory: Vec<Buffer<T>> = Vec::new();
    let mut other: Vec<Buffer<f32>> = Vec::new();
    let numbers_of = numbers_of(problem);
    let given = numbers_of.iter().map(|numbers| device.upload(numbers));
    let given = given.collect::<Result<Vec<Buffer<u32>>, _>>()?;
    let mut places = Vec::new();
    for _ in 0..copies {
        let mut place = Vec::new();
        for (bytes, address) in pieces.into_iter().zip(addresses) {
            let buffer = autotune::repeated(device, &numbers, bytes / T::BYTES)?;
            place.push(buffer.address() + address % 256);
            memory.push(buffer);
        }
        for count in [sums, sinks].into_iter().flatten() {
            let buffer = device.zeros::<f32>(count)?;
            place.push(buffer.address());
            other.push(buffer);
        }
        place.extend(given.iter().map(Buffer::address));
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
    drop((memory, other, given, parts));
    Ok(fastest)
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

    /// Packed sequences and keys in pages, as a call describes them: compact rows and pages.
    fn varying() -> Vec<AttentionProblem> {
        let mut all = Vec::new();
        for (features, mask) in [([64, 64], Mask::Causal), ([192, 128], Mask::Full)] {
            let mut packed = AttentionProblem::new(Ty::F16, 3, [4, 2], [40, 50], features);
            packed.sequences = [
                Sequences::Packed { rows: 70 },
                Sequences::Packed { rows: 90 },
            ];
            for tensor in AttentionTensor::ALL {
                let [_, heads, _, features] = packed.extents(tensor);
                packed.strides[tensor as usize] = [0, features, heads * features, 1];
            }
            let mut paged = AttentionProblem::new(Ty::F16, 3, [4, 2], [2, 70], features);
            paged.sequences[1] = Sequences::Paged {
                pages: 1000,
                rows: 16,
                entries: 9,
                strides: [9, 1],
            };
            for tensor in [AttentionTensor::K, AttentionTensor::V] {
                let [_, heads, rows, features] = paged.extents(tensor);
                paged.strides[tensor as usize] =
                    [2 * heads * rows * features, features, heads * features, 1];
            }
            all.extend([packed, paged].map(|problem| problem.mask(mask)));
        }
        all
    }

    /// The lengths that are measured: the longest is the largest, all together fill the rows but for their roundings, and those of
    /// the same number of sequences are in the same order.
    #[test]
    fn law_measured_lengths_fill_the_rows() {
        let mut cases = 0;
        for count in [1, 2, 3, 7, 64, 1000] {
            for most in [1, 5, 300, 9000] {
                for rows in [
                    1,
                    most,
                    2 * most,
                    count * most / 2 + 1,
                    count * most,
                    1 << 20,
                ] {
                    let lengths = ranked(count, most, rows);
                    let (sum, longest) = (lengths.iter().sum::<i64>(), lengths.iter().max());
                    let said = format!("{count} of {most} in {rows}: {lengths:?}");
                    assert_eq!(longest, Some(&most.min(rows)), "{said}");
                    let all = rows.min(count * most.min(rows));
                    // Each length is rounded down.
                    assert!(sum <= all && sum + count >= all, "{sum}, {said}");
                    assert_eq!(lengths.len() as i64, count, "{said}");
                    let mut order: Vec<usize> = (0..lengths.len()).collect();
                    order.sort_by_key(|i| -lengths[*i]);
                    assert_eq!(order[0], 0, "{said}");
                    cases += 1;
                }
            }
        }
        for count in 1..200 {
            let step = scattering(count);
            let all: std::collections::BTreeSet<i64> =
                (0..count).map(|i| i * step % count).collect();
            assert_eq!(all.len() as i64, count, "{step}");
        }
        println!("law attention.ranked: {cases} cases");
    }

    /// What is measured in place of a call has the numbers that its kernel reads: offsets that ascend to the rows, a page for each
    /// entry, and no more pages than the sequences fill.
    #[test]
    fn the_numbers_of_a_measured_problem() {
        let [packed, paged, ..] = varying()[..] else {
            panic!("two problems at least");
        };
        let said = |problem: &AttentionProblem| {
            let measured = measured_problem(problem);
            let name = TunedAttention::of(&measured, &AttentionOperands::of(problem, [0; 4]));
            (name.to_string(), numbers_of(&measured))
        };
        let (name, numbers) = said(&packed);
        assert_eq!(
            name,
            "attention f16, batch 3, heads 4 on 2, up to 40 queries in 70 rows, up to 50 keys in 90 rows, features 64, causal, \
             scale 1, vectors [8, 8, 8, 8], strides [[0, 64, 256, 1], [0, 64, 128, 1], [0, 64, 128, 1], [0, 64, 256, 1]]"
        );
        assert!(
            numbers.iter().all(|of| of.len() == 4 && of.is_sorted()),
            "{numbers:?}"
        );
        let (name, numbers) = said(&paged);
        // Five pages of each sequence, in a pool without gaps.
        assert_eq!(
            name,
            "attention f16, batch 3, heads 4 on 2, 2 queries, up to 70 keys in 15 pages of 16, features 64, causal, scale 1, \
             vectors [8, 8, 8, 8], strides [[512, 128, 64, 1], [2048, 64, 128, 1], [2048, 64, 128, 1], [512, 128, 64, 1]]"
        );
        let [table, lengths] = &numbers[..] else {
            panic!("a table and lengths: {numbers:?}");
        };
        let pages: std::collections::BTreeSet<&u32> = table.iter().collect();
        assert_eq!(
            (table.len(), pages.len(), &lengths[..]),
            (15, 15, &[70; 3][..])
        );
    }

    /// Runs a plan for a measured problem on the simulator, and returns O.
    fn computed(plan: &AttentionPlan, problem: &AttentionProblem) -> Vec<f32> {
        let device = Device::simulator(Arch::Sm90a);
        let numbers = autotune::numbers(half::f16::from_f64);
        let mut at = Vec::new();
        let mut memory = Vec::new();
        for tensor in AttentionTensor::ALL {
            let count = reach(problem.extents(tensor), problem.strides[tensor as usize]);
            let buffer = if tensor == AttentionTensor::O {
                device.zeros(count).expect("memory")
            } else {
                autotune::repeated(&device, &numbers, count).expect("memory")
            };
            at.push(buffer.address());
            memory.push(buffer);
        }
        let given: Vec<Buffer<u32>> = (numbers_of(problem).iter())
            .map(|of| device.upload(of).expect("memory"))
            .collect();
        at.extend(given.iter().map(Buffer::address));
        let workspace = plan.workspace(problem) as usize;
        let parts = device.zeros::<u8>(workspace.max(1)).expect("memory");
        at.extend((workspace > 0).then(|| parts.address()));
        let call = prepared(*plan, *problem, &device, &at).expect("a call");
        call.run(&device)
            .unwrap_or_else(|e| panic!("{problem}, {plan}: {e}"));
        let found = memory[3].download().expect("numbers");
        found.iter().map(|x| x.to_f32()).collect()
    }

    /// Every plan that may be measured computes what the plan of the model does, on the numbers that a measurement makes: packed
    /// sequences, keys in pages, and sequences of one length.
    #[test]
    fn law_the_candidates_compute_what_the_plan_of_the_model_does() {
        let device = Device::simulator(Arch::Sm90a);
        let plain = AttentionProblem::new(Ty::F16, 1, [4, 2], [70, 90], [64; 2]);
        let mut cases = 0;
        for problem in varying().into_iter().chain([plain.mask(Mask::Causal)]) {
            let problem = measured_problem(&problem);
            let operands = AttentionOperands::of(&problem, [0; 4]);
            let plans = candidates(&problem, operands, &device);
            assert!(plans.len() > 2, "{problem}");
            if problem.sequences[0] != Sequences::Batch {
                assert!(plans.iter().any(|plan| plan.sorted), "{problem}");
            }
            let right = computed(&plans[0], &problem);
            assert!(right.iter().any(|x| *x != 0.0), "{problem}");
            for plan in plans[1..].iter().take(7) {
                let found = computed(plan, &problem);
                for (found, right) in found.iter().zip(&right) {
                    let apart = (found - right).abs();
                    assert!(apart <= 4e-3, "{problem}, {plan}: {found} and {right}");
                }
                cases += 1;
            }
        }
        println!("law attention.candidates compute: {cases} plans");
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
