//! The order of packed sequences: the kernel that sorts them, and attention in that order.

use std::collections::HashMap;

use colex_atom::{Arch, Ty};
use colex_gpu::attention::{
    Attention, AttentionMethod, AttentionOperands, AttentionPlan, AttentionProblem, Mask, Sequences,
};
use colex_gpu::sim::{Schedule, SimOptions};
use colex_gpu::{Device, LaunchArg, Load};
use colex_proof::kernels::trapped;
use colex_proof::soak::draws;
use colex_proof::sweep::Random;
use half::f16;

/// The rows of a side: offsets, the rows of the tensor, and the most of a sequence.
struct Side {
    offsets: Vec<u32>,
    rows: i64,
    most: i64,
}

impl Side {
    /// Lengths with ties, 0 and 1, and offsets that lie in one case of three.
    fn draw(r: &mut Random, count: usize, longest: u32) -> Side {
        let mut offsets = vec![r.below(3_u32)];
        for _ in 0..count {
            let length = match r.below(6_u64) {
                0 => 0,
                1 => 1,
                2 => longest / 2,
                3 => longest,
                _ => r.below(longest + 1),
            };
            offsets.push(offsets[offsets.len() - 1] + length);
        }
        let last = i64::from(offsets[count]);
        let (mut rows, mut most) = (last.max(1), i64::from(longest.max(1)));
        match r.below(6_u64) {
            0 => offsets[count] = r.one(&[0, u32::MAX]),
            1 => (rows, most) = ((last * 2 / 3).max(1), (most / 2).max(1)),
            _ => {}
        }
        Side {
            offsets,
            rows,
            most: most.min(rows),
        }
    }

    /// The length of a sequence, by the words of the documentation.
    fn length(&self, i: usize) -> i64 {
        let [first, end] = [0, 1].map(|j| i64::from(self.offsets[i + j]).min(self.rows));
        (end - first).clamp(0, self.most)
    }
}

/// The sequences from the most keys to the fewest, and where the items of each begin.
fn sorted(keys: &[i64], items: &[i64]) -> (Vec<u32>, Vec<u32>) {
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    order.sort_by_key(|i| -keys[*i as usize]);
    let mut starts = vec![0];
    for i in &order {
        starts.push(starts[starts.len() - 1] + items[*i as usize] as u32);
    }
    (order, starts)
}

fn tiles(length: i64, tile: i64, pairs: bool) -> i64 {
    let tiles = (length + tile - 1) / tile;
    if pairs { (tiles + 1) / 2 } else { tiles }
}

/// The kernel's order is the host's: drawn lengths, with 0, 1 and ties among them, more sequences than a block has warps, offsets
/// that lie, keys that are packed, in pages and of one length.
#[test]
fn law_the_kernel_sorts_sequences_as_the_host_does() {
    let mut r = Random::new(0x50f7);
    let counts = [2, 3, 7, 8, 9, 31, 32, 33, 40, 100, 257];
    for (case, count) in counts.into_iter().cycle().take(33).enumerate() {
        let longest = r.one(&[3, 300, 5000]);
        let (queries, keys) = (
            Side::draw(&mut r, count, longest),
            Side::draw(&mut r, count, longest),
        );
        let heads = 1 + r.below(4_i64);
        let kind = r.below(3_u64);
        let mut problem = AttentionProblem::new(
            Ty::F16,
            count as i64,
            [heads; 2],
            [queries.most, keys.most],
            [64; 2],
        );
        problem.sequences[0] = Sequences::Packed { rows: queries.rows };
        problem.sequences[1] = match kind {
            0 => Sequences::Batch,
            1 => Sequences::Packed { rows: keys.rows },
            _ => Sequences::Paged {
                pages: 400,
                rows: 16,
                entries: 400,
                strides: [400, 1],
            },
        };
        problem.mask = r.one(&[Mask::Full, Mask::Causal]);
        let consumers = 1 + r.below(3_i64);
        let plan = AttentionPlan {
            consumers,
            tile: [64 * consumers, 64],
            turns: consumers > 1,
            pairs: r.one_in(2) && problem.mask == Mask::Causal,
            sorted: true,
            ..AttentionPlan::new(
                AttentionMethod::Hopper,
                AttentionOperands::of(&problem, [0; 4]),
            )
        };
        let lengths: Vec<i64> = (0..count).map(|i| queries.length(i)).collect();
        let of_page: Vec<u32> = (0..count).map(|i| keys.length(i) as u32).collect();
        let of_keys: Vec<i64> = match kind {
            0 => lengths.clone(),
            _ => (0..count).map(|i| keys.length(i)).collect(),
        };
        let paired = plan.pairs && problem.mask == Mask::Causal;
        let items: Vec<i64> = (lengths.iter())
            .map(|length| tiles(*length, plan.tile[0], paired) * heads)
            .collect();

        if case < 6 {
            // The order adds no check that traps.
            let [found, right] = [true, false].map(|sorted| {
                let built = AttentionPlan { sorted, ..plan }.build(Arch::Sm90a);
                trapped(&built.expect("it is built").kernel)
            });
            assert_eq!(found, right, "{plan}");
        }
        let options = SimOptions::default().schedule(Schedule::from_seed(case as u64));
        let device = Device::simulator_with(Arch::Sm90a, options);
        let built = plan.build_schedule(Arch::Sm90a).expect("it is built");
        let kernel = built
            .expect("the plan sorts")
            .load(&device)
            .expect("it loads");
        let on_queries = device.upload(&queries.offsets).expect("memory");
        let on_keys = device.upload(&keys.offsets).expect("memory");
        let on_lengths = device.upload(&of_page).expect("memory");
        let mut starts = device.poisoned::<u32>(count + 1).expect("memory");
        let mut order = device.poisoned::<u32>(count).expect("memory");
        let mut given: Vec<LaunchArg<'_>> = Vec::new();
        let (longer, shorter) = (count as i64 + 1, count as i64);
        given.push(on_queries.view(longer).expect("a view").into());
        match kind {
            0 => {}
            1 => given.push(on_keys.view(longer).expect("a view").into()),
            _ => given.push(on_lengths.view(shorter).expect("a view").into()),
        }
        given.push(starts.view_mut(longer).expect("a view").into());
        given.push(order.view_mut(shorter).expect("a view").into());
        given.extend(
            [queries.most, keys.most, heads, queries.rows].map(|n| LaunchArg::from(n as u32)),
        );
        if kind == 1 {
            given.push((keys.rows as u32).into());
        }
        let launched = kernel.launch([count.div_ceil(8)], given);
        launched.unwrap_or_else(|e| panic!("case {case}: {e}"));
        let found = (
            order.download().expect("all is written"),
            starts.download().expect("all is written"),
        );
        let right = sorted(&of_keys, &items);
        assert_eq!(
            found, right,
            "case {case}, {count} sequences of {lengths:?}"
        );
    }
    println!("law attention.schedule: 33 cases");
}

/// The bits of O and of the log-sum-exp of packed sequences.
fn bits(
    (queries, keys): (&Side, &Side),
    [heads, of_keys]: [i64; 2],
    mask: Mask,
    seed: u64,
    change: &dyn Fn(AttentionPlan) -> AttentionPlan,
) -> (Vec<u16>, Vec<u32>) {
    let options = SimOptions::default().schedule(Schedule::from_seed(seed));
    let device = Device::simulator_with(Arch::Sm90a, options);
    let mut r = Random::new(5);
    let mut upload = |rows: i64, heads: i64| {
        let number = |_| f16::from_f32(r.below(4001) as f32 / 1000.0 - 2.0);
        let host: Vec<f16> = (0..rows * heads * 64).map(number).collect();
        device.upload(&host).expect("memory")
    };
    let (q, k, v) = (
        upload(queries.rows, heads),
        upload(keys.rows, of_keys),
        upload(keys.rows, of_keys),
    );
    let count = (queries.rows * heads) as usize;
    // Rows of no sequence keep this number.
    let mut o = device
        .upload(&vec![f16::from_f32(77.0); count * 64])
        .expect("memory");
    let mut sums = device.upload(&vec![77f32; count]).expect("memory");
    {
        let [of_queries, of_rows] =
            [queries, keys].map(|side| device.upload(&side.offsets).expect("memory"));
        let end = queries.offsets.len() as i64;
        let (of_queries, of_rows) = (
            of_queries.view(end).expect("a view"),
            of_rows.view(end).expect("a view"),
        );
        let q = q.view((queries.rows, heads, 64)).expect("a view");
        let [k, v] = [&k, &v].map(|of| of.view((keys.rows, of_keys, 64)).expect("a view"));
        let o = o.view_mut((queries.rows, heads, 64)).expect("a view");
        let sums = sums.view_mut((queries.rows, heads)).expect("a view");
        let call = Attention::new(&q, &k, &v, &o)
            .mask(mask)
            .log_sum_exp(&sums)
            .query_offsets(&of_queries, queries.most)
            .key_offsets(&of_rows, keys.most)
            .prepare_with(|operands, _| {
                Ok(change(AttentionPlan::new(
                    AttentionMethod::Hopper,
                    operands,
                )))
            })
            .expect("a plan that the kernel takes");
        call.run(&device).unwrap_or_else(|e| panic!("{call}: {e}"));
    }
    let (o, sums) = (
        o.download().expect("memory"),
        sums.download().expect("memory"),
    );
    (
        o.iter().map(|x| x.to_bits()).collect(),
        sums.iter().map(|x| x.to_bits()).collect(),
    )
}

/// The order of the sequences changes no bit of an output, in adversarial schedules: lengths with 0, 1 and ties, offsets that lie,
/// groups, strips and pairs.
#[test]
fn law_sorted_sequences_have_the_bits_of_unsorted_ones() {
    let mut r = Random::new(0xa77e);
    let cases = draws(8) as u64;
    for case in 0..cases {
        // In one case of eight each of the 132 blocks of the simulator takes items of three rounds.
        let has_rounds = case % 8 == 1;
        let (count, longest) = if has_rounds {
            (90, 3)
        } else {
            (r.one(&[2, 3, 5, 9]), r.one(&[3, 70, 150]))
        };
        let queries = Side::draw(&mut r, count, longest);
        let keys = Side::draw(&mut r, count, longest);
        let of_keys = 1 + r.below(2_i64);
        let heads = if has_rounds {
            6
        } else {
            of_keys * r.one(&[1, 3])
        };
        let items: i64 = (0..count)
            .map(|i| tiles(queries.length(i), 64, false) * heads)
            .sum();
        assert!(!has_rounds || items > 2 * 132, "{items} items");
        let mask = match case % 3 {
            0 => Mask::Causal,
            1 => Mask::Full,
            _ => Mask::Window { left: 30, right: 9 },
        };
        let (pairs, strip, ahead) = (r.one_in(2), r.one(&[1, 2, 4]), 1 + r.below(2_i64));
        let change = |plan: AttentionPlan| AttentionPlan {
            tile: [64, 32],
            consumers: 1,
            turns: false,
            pairs: pairs && mask == Mask::Causal,
            strip,
            ahead,
            ..plan
        };
        let of = (&queries, &keys);
        let right = bits(of, [heads, of_keys], mask, 2 * case, &change);
        let found = bits(of, [heads, of_keys], mask, 2 * case + 1, &|plan| {
            AttentionPlan {
                sorted: true,
                ..change(plan)
            }
        });
        if has_rounds {
            // A third run of this batch takes seconds.
            assert_eq!(found, right, "case {case}: {:?}", queries.offsets);
            continue;
        }
        // The order of the products, the number of blocks and the registers change none either.
        let of_plan = bits(of, [heads, of_keys], mask, 2 * case + 2, &|plan| {
            AttentionPlan {
                sorted: case % 2 == 0,
                overlap: false,
                persistent: false,
                registers: Some([56, 248]),
                ..change(plan)
            }
        });
        assert_eq!(of_plan, right, "case {case}: another plan");
        assert_eq!(
            found, right,
            "case {case}: {:?} and {:?}",
            queries.offsets, keys.offsets
        );
    }
    println!("law attention.sorted: {cases} cases");
}

/// The parts of the keys of packed queries are all of them, in adversarial schedules: close to the kernel that divides nothing,
/// with the same bits in every schedule. Lengths with 0, 1 and ties, offsets that lie, groups and packs; more parts than some
/// sequences have keys. Rows of no sequence stay as they were, and a query that sees no key has exactly 0 and -inf.
#[test]
fn law_parts_of_packed_queries_are_all_of_them() {
    let mut r = Random::new(0x5b17);
    let cases = draws(8) as u64;
    let mut empty = 0;
    for case in 0..cases {
        let (count, longest) = (r.one(&[1, 3, 9]), r.one(&[1, 3, 20]));
        let queries = Side::draw(&mut r, count, longest);
        let keys = Side::draw(&mut r, count, 8 * longest);
        let of_keys = 1 + r.below(2_i64);
        let packs = r.one(&[1, 2, 4]);
        let heads = [of_keys * packs, of_keys];
        let mask = match case % 3 {
            0 => Mask::Causal,
            1 => Mask::Full,
            _ => Mask::Window { left: 30, right: 9 },
        };
        let [rows, consumers] = r.one(&[[16, 1], [32, 2]]);
        let splits = r.one(&[2, 3, 9]);
        let (by_lanes, early) = (case % 2 == 1, r.one_in(2));
        let of = (&queries, &keys);
        let run = |seed, splits| {
            bits(of, heads, mask, seed, &|plan| AttentionPlan {
                tile: [rows, 16],
                consumers,
                packs,
                splits,
                by_lanes: by_lanes && splits > 1,
                early,
                ..AttentionPlan::new(AttentionMethod::Ampere, plan.operands)
            })
        };
        let (right, found) = (run(3 * case, 1), run(3 * case + 1, splits));
        let what = format!(
            "case {case}: {splits} parts, {:?} and {:?}",
            queries.offsets, keys.offsets
        );
        assert!(run(3 * case + 2, splits) == found, "{what}: other bits");
        if case < 4 {
            let mut problem = AttentionProblem::new(Ty::F16, 3, heads, [9, 99], [64; 2]);
            problem.sequences = [Sequences::Packed { rows: 20 }; 2];
            let operands = AttentionOperands::of(&problem, [0; 4]);
            let plan = AttentionPlan {
                packs,
                splits,
                by_lanes,
                ..AttentionPlan::new(AttentionMethod::Ampere, operands)
            };
            let second = plan.build_combination(Arch::Sm90a).expect("it is built");
            let second = second.expect("the plan divides the keys");
            assert_eq!(trapped(&second.kernel), [""; 0], "{plan}");
        }
        for (found, right) in found.0.iter().zip(&right.0) {
            let [found, right] = [found, right].map(|x| f16::from_bits(*x).to_f32());
            assert!((found - right).abs() <= 2e-3, "{what}: {found} {right}");
        }
        for (found, right) in found.1.iter().zip(&right.1) {
            let [found, right] = [found, right].map(|x| f32::from_bits(*x));
            let close = found == right || (found - right).abs() <= 1e-5;
            assert!(close, "{what}: {found} {right}");
            empty += usize::from(right == f32::NEG_INFINITY);
        }
    }
    assert!(empty > 0);
    println!("law attention.packed_parts: {cases} cases, {empty} rows without a key");
}

/// Zipf's law: the longest length over 1, 2, 3 and so on, until all rows are taken.
fn zipf(rows: i64, longest: i64) -> Vec<i64> {
    let (mut lengths, mut left) = (Vec::new(), rows);
    for rank in 1.. {
        let length = (longest / rank).max(1).min(left);
        lengths.push(length);
        left -= length;
        if left == 0 {
            break;
        }
    }
    lengths
}

/// The steps of keys of an item: of a tile, or of a pair, of a sequence with as many keys as queries.
fn steps(length: i64, [rows, keys]: [i64; 2], place: i64, causal: bool) -> i64 {
    let all = tiles(length, rows, false);
    let of = |tile: i64| {
        let seen = if causal {
            ((tile + 1) * rows).min(length)
        } else {
            length
        };
        (seen + keys - 1) / keys
    };
    if !causal {
        return of(place);
    }
    let long = all - 1 - place;
    of(long) + if place < long { of(place) } else { 0 }
}

/// The items that the blocks of a launch take: for each number of the schedule the block, in rounds that go forwards and
/// backwards in turn.
fn block_of(number: i64, blocks: i64) -> i64 {
    let (round, at) = (number / blocks, number % blocks);
    if round % 2 == 0 { at } else { blocks - 1 - at }
}

/// Of the sequences of `bench varlen` (16 heads of 128 features on 132 multiprocessors), the busiest block has at most 5 % more
/// steps than the mean; in the order of the batch it has over 10 % more. Every item appears once.
#[test]
fn law_the_schedule_balances_sequences_of_zipf_lengths() {
    let (tile, heads, blocks) = ([128, 128], 16, 132);
    let lengths = zipf(32768, 8192);
    let mut drawn = lengths.clone();
    let mut r = Random::new(9);
    for i in (1..drawn.len()).rev() {
        drawn.swap(i, r.below(i as u64 + 1) as usize);
    }
    let mut items = 0;
    for causal in [false, true] {
        let along: Vec<i64> = drawn
            .iter()
            .map(|n| tiles(*n, tile[0], causal) * heads)
            .collect();
        let (order, starts) = sorted(&drawn, &along);
        let mut loads = vec![0i64; blocks as usize];
        let mut seen = HashMap::new();
        for number in 0..i64::from(starts[drawn.len()]) {
            let rank = starts.partition_point(|start| i64::from(*start) <= number) - 1;
            let sequence = order[rank] as usize;
            let of_head = along[sequence] / heads;
            let within = number - i64::from(starts[rank]);
            let (head, place) = (within / of_head, within % of_head);
            *seen.entry((sequence, head, place)).or_insert(0) += 1;
            loads[block_of(number, blocks) as usize] += steps(drawn[sequence], tile, place, causal);
        }
        assert_eq!(seen.len() as i64, along.iter().sum::<i64>());
        assert!(seen.values().all(|times| *times == 1));
        items += seen.len();
        // Before: as many items for each sequence as for the longest, and block b has those of b, b + blocks, ..
        let longest = tiles(lengths[0], tile[0], causal);
        let mut before = vec![0i64; blocks as usize];
        for number in 0..longest * heads * drawn.len() as i64 {
            let (place, length) = (number % longest, drawn[(number / longest / heads) as usize]);
            if place < tiles(length, tile[0], causal) {
                before[(number % blocks) as usize] += steps(length, tile, place, causal);
            }
        }
        assert_eq!(before.iter().sum::<i64>(), loads.iter().sum::<i64>());
        let imbalance = |loads: &[i64]| {
            let most = loads.iter().copied().max().unwrap_or(0);
            (most * blocks) as f64 / loads.iter().sum::<i64>() as f64
        };
        let found = [imbalance(&loads), imbalance(&before)];
        println!("{}: {found:.3?}", if causal { "causal" } else { "full" });
        assert!(
            found[0] <= 1.05 && found[1] > 1.1,
            "causal {causal}: {found:?}"
        );
    }
    println!("law attention.balance: {items} items");
}

#[test]
fn orders_that_no_kernel_takes_are_refused() {
    let plain = AttentionProblem::new(Ty::F16, 3, [2; 2], [100, 100], [64; 2]);
    let mut packed = plain;
    packed.sequences = [Sequences::Packed { rows: 300 }; 2];
    let plan = |method, problem: &AttentionProblem| AttentionPlan {
        sorted: true,
        ..AttentionPlan::new(method, AttentionOperands::of(problem, [0; 4]))
    };
    let said = |plan: AttentionPlan, arch| plan.check(arch).expect_err("it is refused").to_string();
    assert_eq!(
        [
            said(plan(AttentionMethod::Hopper, &plain), Arch::Sm90a),
            said(plan(AttentionMethod::Ampere, &packed), Arch::Sm80),
        ],
        [
            "the plan sorts sequences: only those of packed queries have lengths of their own",
            "the Ampere kernel sorts no sequences: the Hopper kernel does",
        ]
    );
    // A call with more sequences than are sorted keeps their order.
    let suited = |batch| {
        let problem = AttentionProblem { batch, ..packed };
        let operands = AttentionOperands::of(&problem, [0; 4]);
        let plan = AttentionPlan::new(AttentionMethod::Hopper, operands);
        plan.suited_to(&problem, 132).sorted
    };
    assert_eq!(
        [3, 132, 133, 2048, 2049].map(suited),
        [false, true, true, true, false]
    );
}
