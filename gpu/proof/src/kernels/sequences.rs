//! Attention of sequences of any lengths on a device, against a softmax in double precision for each of them.

use colex_atom::Arch;
use colex_gpu::attention::{Attention, AttentionMethod, AttentionPlan, AttentionProblem, Mask};
use colex_gpu::kernels::GemmElement;
use colex_gpu::{Buffer, Device, Error, View, ViewMut};
use colex_layout::Layout;
use half::{bf16, f16};

use super::attention::{
    ElementsAndPlans, Expected, Found, Numbers, WIDTHS, add, sinks, upload_or_one,
};
use crate::sweep::Random;

/// Computes drawn calls on packed sequences on a device, and compares every element: lengths, 0 among them, gaps between
/// sequences, offsets beyond the last row, head sizes, magnitudes, masks, soft-caps, groups, sinks, packs of heads, parts of the
/// keys, tiles, orders and sorted sequences. On a GPU each call has a plan of every kernel. Rows of no sequence are NaN, and stay.
/// Returns the number of elements, and that of the plans.
///
/// # Errors
///
/// Returns the first call whose result is wrong, in words.
pub fn check_packed(device: &Device, seed: u64, rounds: usize) -> Result<ElementsAndPlans, String> {
    check(
        device,
        Random::of(seed, "sequences"),
        rounds,
        Numbers::Finite,
    )
    .map_err(|why| format!("{why}, seed {seed}"))
}

/// Computes drawn calls on packed sequences with NaN, inf and -inf in Q, K and V, and compares every element: what reaches which
/// element of a sequence, and that nothing reaches its neighbours. Returns the number of elements, and that of the plans.
///
/// A NaN, or an infinity, of V may make a NaN of its feature for a query that does not see the key too.
///
/// # Errors
///
/// Returns the first call whose result is wrong, in words.
pub fn check_special_packed(
    device: &Device,
    seed: u64,
    rounds: usize,
) -> Result<ElementsAndPlans, String> {
    let r = Random::of(seed, "special sequences");
    check(device, r, rounds, Numbers::Special).map_err(|why| format!("{why}, seed {seed}"))
}

fn check(
    device: &Device,
    mut r: Random,
    rounds: usize,
    numbers: Numbers,
) -> Result<ElementsAndPlans, String> {
    let mut counts = [0; 2];
    for round in 0..rounds {
        let run = if r.one_in(2) { run::<f16> } else { run::<bf16> };
        let found = run(device, &mut r, WIDTHS[round % WIDTHS.len()], numbers);
        add(
            &mut counts,
            found.map_err(|why| format!("round {round}: {why}"))?,
        );
    }
    Ok(counts)
}

/// The rows of one side: offsets, how many rows the tensor has, and the most of a sequence.
pub(super) struct PackedRows {
    pub(super) offsets: Vec<u32>,
    pub(super) rows: i64,
    pub(super) most: i64,
}

impl PackedRows {
    pub(super) fn draw(r: &mut Random, count: i64, most: i64) -> PackedRows {
        // Rows before the first sequence.
        let mut offsets = vec![r.below(5_u32)];
        for _ in 0..count {
            let length = match r.below(5_u64) {
                0 => 0,
                1 => 1,
                _ => r.below(most as u32 + 1),
            };
            offsets.push(offsets[offsets.len() - 1] + length);
        }
        let last = i64::from(offsets[offsets.len() - 1]);
        let mut rows = PackedRows {
            rows: (last + r.below(9_i64)).max(1),
            most,
            offsets,
        };
        match r.below(4_u64) {
            // The tensor ends within the last sequence.
            0 => rows.rows = (last - r.below(4_i64)).max(1),
            // The last sequence ends before it begins, or beyond all rows.
            1 => rows.offsets[count as usize] = r.one(&[0, u32::MAX - 2]),
            // A sequence that is longer than the longest has a part.
            2 => rows.most = (most - r.below(most)).max(1),
            _ => {}
        }
        rows
    }

    /// The rows of a sequence, as the documentation of the call has them.
    pub(super) fn sequence(&self, i: usize) -> [i64; 2] {
        let [first, end] = [0, 1].map(|j| i64::from(self.offsets[i + j]).min(self.rows));
        [first, (end - first).clamp(0, self.most)]
    }

    /// Whether each row is one of a sequence.
    pub(super) fn owned(&self) -> Vec<bool> {
        let mut owned = vec![false; self.rows as usize];
        for i in 0..self.offsets.len() - 1 {
            let [first, length] = self.sequence(i);
            owned[first as usize..(first + length) as usize].fill(true);
        }
        owned
    }
}

/// A tensor (row, head, feature) in a drawn order, with drawn numbers in the rows of the sequences and NaN elsewhere.
fn filled<T: GemmElement>(
    r: &mut Random,
    rows: &PackedRows,
    [heads, features]: [i64; 2],
    magnitude: f64,
) -> Result<(Vec<T>, Layout), String> {
    let pad = features + 8 * r.below(2_i64);
    let strides = if r.one_in(2) {
        [heads * pad, pad, 1]
    } else {
        [pad, rows.rows * pad, 1]
    };
    let layout = Layout::new([rows.rows, heads, features], strides).map_err(|e| e.to_string())?;
    let length = layout.cosize().map_err(|e| e.to_string())? as usize;
    let mut all = vec![T::from_f64(f64::NAN); length];
    for (row, owned) in rows.owned().into_iter().enumerate() {
        if !owned {
            continue;
        }
        for (head, feature) in (0..heads).flat_map(|h| (0..features).map(move |d| (h, d))) {
            let at = row as i64 * strides[0] + head * strides[1] + feature;
            let number = r.below(4001_i32) - 2000;
            all[at as usize] = T::from_f64(f64::from(number) / 1000.0 * magnitude);
        }
    }
    Ok((all, layout))
}

/// The rows of a sequence as (head, row, feature), compact.
pub(super) fn compact<T: GemmElement>(
    all: &[T],
    layout: &Layout,
    [first, length]: [i64; 2],
) -> Vec<T> {
    let extents: Vec<i64> = layout.modes().map(|mode| mode.size()).collect();
    let mut part = Vec::new();
    for head in 0..extents[1] {
        for row in first..first + length {
            let at = (0..extents[2]).map(|d| layout.at((row, head, d)).expect("a coordinate"));
            part.extend(at.map(|at| all[at as usize]));
        }
    }
    part
}

/// The plans that a drawn call has besides its default: one of each kernel, of which one or none on the simulator.
fn drawn_plans(
    device: &Device,
    r: &mut Random,
    usual: &AttentionPlan,
    group: i64,
) -> Vec<AttentionPlan> {
    let operands = usual.operands;
    let [consumers, rows] = r.one(&[[1, 16], [2, 32], [4, 64]]);
    let splits = r.one(&[1, 2, 5]);
    let mut all = vec![AttentionPlan {
        tile: [rows, r.one(&[16, 32, 48, 64])],
        consumers,
        stages: 2 + r.below(2_i64),
        packs: r.one(&[1, group]),
        splits,
        by_lanes: splits > 1 && r.one_in(2),
        early: device.arch() >= Arch::Sm90 && r.one_in(2),
        ..AttentionPlan::new(AttentionMethod::Ampere, operands)
    }];
    if device.arch() == Arch::Sm90a {
        let consumers = 1 + r.below(3_i64);
        let [turns, pairs, sorted, overlap, persistent, early] = [(); 6].map(|()| r.one_in(2));
        let [stages, ahead, strip] = [(); 3].map(|()| 1 + r.below(2_i64));
        all.push(AttentionPlan {
            tile: [64 * consumers, r.one(&[32, 48, 64, 80])],
            consumers,
            stages,
            turns: turns && consumers > 1,
            pairs: pairs && operands.bounded == [false, true],
            ahead,
            strip,
            sorted: sorted && operands.packed[0],
            overlap,
            persistent,
            early,
            ..AttentionPlan::new(AttentionMethod::Hopper, operands)
        });
        // The default of the kernel, which a short call does not sort.
        all.push(AttentionPlan {
            sorted: operands.packed[0],
            ..AttentionPlan::new(AttentionMethod::Hopper, operands)
        });
    }
    if device.is_simulator() {
        return if r.one_in(3) {
            Vec::new()
        } else {
            vec![r.one(&all)]
        };
    }
    all
}

fn run<T: GemmElement>(
    device: &Device,
    r: &mut Random,
    [width, outer]: [i64; 2],
    numbers: Numbers,
) -> Result<ElementsAndPlans, String> {
    let of_keys = 1 + r.below(2_i64);
    let group = r.one(&[1, 2, 4]);
    let heads = of_keys * group;
    let batch = 1 + r.below(4_i64);
    let most = r.one(&[3, 40, 90]);
    let queries = PackedRows::draw(r, batch, most);
    let most_keys = most + r.below(40_i64);
    let keys = PackedRows::draw(r, batch, most_keys);
    let mask = match r.below(4_u64) {
        0 => Mask::Full,
        1 | 2 => Mask::Causal,
        _ => Mask::Window {
            left: r.below(40_u32),
            right: r.below(10_u32),
        },
    };
    let wants_sums = r.one_in(2);
    let softcap = r.one_in(3).then(|| r.one(&[0.5, 5.0, 50.0, 1000.0]));
    let features = [width, outer];
    let mut of_heads = AttentionProblem::new(T::TY, 1, [heads, of_keys], [1, 1], features);
    of_heads.sinks = r.one_in(3).then_some(1);
    let sinks = sinks(r, &of_heads);
    let what = format!(
        "{} of {features:?} features, heads {heads} on {of_keys}, {mask}, cap {softcap:?}, queries {:?} of {} up to {}, keys {:?} of {} \
         up to {}",
        T::NAME,
        queries.offsets,
        queries.rows,
        queries.most,
        keys.offsets,
        keys.rows,
        keys.most
    );
    let text = |e: &dyn std::fmt::Display| format!("{what}: {e}");
    let magnitude = numbers.magnitude(r);
    let (mut q, of_q) = filled::<T>(r, &queries, [heads, width], magnitude)?;
    let (mut k, of_k) = filled::<T>(r, &keys, [of_keys, width], magnitude)?;
    let (mut v, of_v) = filled::<T>(r, &keys, [of_keys, outer], 1.0)?;
    let (o, of_o) = filled::<T>(r, &queries, [heads, outer], 1.0)?;
    numbers.plant(r, [&mut q, &mut k, &mut v]);
    let upload = |elements: &[T]| device.upload(elements).map_err(|e| text(&e));
    let (on_q, on_k, on_v) = (upload(&q)?, upload(&k)?, upload(&v)?);
    let on_o = device.poisoned::<T>(o.len()).map_err(|e| text(&e))?;
    let count = (queries.rows * heads) as usize;
    let on_sums = device.poisoned::<f32>(count).map_err(|e| text(&e))?;
    let (mut o_of_call, mut sums_of_call) = (on_o.clone(), on_sums.clone());
    let on_sinks = upload_or_one(device, &sinks).map_err(|e| text(&e))?;
    let offsets = [&queries, &keys].map(|rows| device.upload(&rows.offsets));
    let [of_queries, of_rows_of_keys] = offsets;
    let (of_queries, of_rows_of_keys) = (
        of_queries.map_err(|e| text(&e))?,
        of_rows_of_keys.map_err(|e| text(&e))?,
    );
    let views = [(&on_q, &of_q), (&on_k, &of_k), (&on_v, &of_v)]
        .map(|(buffer, layout)| View::new(buffer, layout).map_err(|e| text(&e)));
    let [of_q_view, of_k_view, of_v_view] = views;
    let written = ViewMut::new(&mut o_of_call, &of_o).map_err(|e| text(&e))?;
    let sums = sums_of_call
        .view_mut((queries.rows, heads))
        .map_err(|e| text(&e))?;
    let [of_queries, of_rows_of_keys] =
        [&of_queries, &of_rows_of_keys].map(|of| of.view(batch + 1).map_err(|e| text(&e)));
    let mut call = Attention::new(&of_q_view?, &of_k_view?, &of_v_view?, &written)
        .mask(mask)
        .query_offsets(&of_queries?, queries.most)
        .key_offsets(&of_rows_of_keys?, keys.most);
    if wants_sums {
        call = call.log_sum_exp(&sums);
    }
    if let Some(cap) = softcap {
        call = call.softcap(cap);
    }
    let of_sinks;
    if !sinks.is_empty() {
        of_sinks = on_sinks.view(heads).map_err(|e| text(&e))?;
        call = call.sinks(&of_sinks);
    }
    // What the reference says of each sequence.
    let mut expected = Vec::new();
    for i in 0..batch as usize {
        let (of_sequence, seen) = (queries.sequence(i), keys.sequence(i));
        if of_sequence[1] == 0 {
            continue;
        }
        let lengths = [of_sequence[1], seen[1]];
        let mut problem =
            AttentionProblem::new(T::TY, 1, [heads, of_keys], lengths, features).mask(mask);
        problem.log_sum_exp = wants_sums;
        problem.sinks = of_heads.sinks;
        problem.softcap = softcap;
        let parts = [
            compact(&q, &of_q, of_sequence),
            compact(&k, &of_k, seen),
            compact(&v, &of_v, seen),
        ];
        let parts = parts.each_ref().map(|part| &part[..]);
        expected.push((i, problem, Expected::of(&problem, parts, &sinks)));
    }
    let drawn = DrawnCall {
        what,
        queries: &queries,
        heads: [heads, group],
        written: (&on_o, &on_sums),
        expected,
    };
    drawn.run_plans(device, r, &call, |all, rows| compact(all, &of_o, rows))
}

/// A drawn call on sequences, with what its plans write.
pub(super) struct DrawnCall<'a, T> {
    /// The call in words.
    pub(super) what: String,
    /// The rows of queries.
    pub(super) queries: &'a PackedRows,
    /// The heads of Q, and those of them that read one head of K.
    pub(super) heads: [i64; 2],
    /// The memory of O, and of the log-sum-exps as (row, head).
    pub(super) written: (&'a Buffer<T>, &'a Buffer<f32>),
    /// What the reference says of each sequence that has queries, and its number.
    pub(super) expected: Vec<(usize, AttentionProblem, Expected)>,
}

impl<T: GemmElement> DrawnCall<'_, T> {
    /// Runs the default plan and drawn ones ([`drawn_plans`]), and compares the rows of each sequence, and those of none. `rows_of`
    /// returns the rows of a range (first, length) of O as (head, row, feature), compact.
    pub(super) fn run_plans(
        &self,
        device: &Device,
        r: &mut Random,
        call: &Attention<'_, T>,
        rows_of: impl Fn(&[T], [i64; 2]) -> Vec<T>,
    ) -> Result<ElementsAndPlans, String> {
        let what = &self.what;
        let text = |e: &dyn std::fmt::Display| format!("{what}: {e}");
        let [_, group] = self.heads;
        let mut counts = [0; 2];
        let usual = call.plan().map_err(|e| text(&e))?;
        let plans = drawn_plans(device, r, &usual, group);
        for plan in std::iter::once(None).chain(plans.into_iter().map(Some)) {
            let prepared = match plan {
                None => call.prepare(),
                Some(plan) => match call.prepare_with(|_, _| Ok(plan)) {
                    // A drawn plan may be more than a block has.
                    Err(error) if error.plan().is_some() => continue,
                    other => other,
                },
            };
            let prepared = prepared.map_err(|e| text(&e))?;
            counts[0] += self.check(&prepared.to_string(), || prepared.run(device), &rows_of)?;
            counts[1] += 1;
        }
        Ok(counts)
    }

    /// Runs the call by a plan, and compares the rows of each sequence, and those of none. Returns the number of elements.
    pub(super) fn check(
        &self,
        plan: &str,
        run: impl FnOnce() -> Result<(), Error>,
        rows_of: impl Fn(&[T], [i64; 2]) -> Vec<T>,
    ) -> Result<usize, String> {
        let text = |e: &dyn std::fmt::Display| format!("{}, {plan}: {e}", self.what);
        let ([heads, _], (on_o, on_sums)) = (self.heads, self.written);
        on_o.fill_bytes(0xff).map_err(|e| text(&e))?;
        on_sums.fill_bytes(0xff).map_err(|e| text(&e))?;
        run().map_err(|e| text(&e))?;
        let found = on_o.download().map_err(|e| text(&e))?;
        let sums = on_sums.download().map_err(|e| text(&e))?;
        let mut count = 0;
        for (i, problem, expected) in &self.expected {
            let of_sequence = self.queries.sequence(*i);
            let [first, length] = of_sequence;
            let of_call = rows_of(&found, of_sequence);
            let sums: Vec<f32> = (0..heads)
                .flat_map(|head| (first..first + length).map(move |row| row * heads + head))
                .map(|at| sums[at as usize])
                .collect();
            let written = Found {
                all: &of_call,
                first: 0,
            };
            expected
                .compare(problem, written, &sums)
                .map_err(|why| text(&format!("sequence {i}: {why}")))?;
            count += of_call.len();
        }
        check_rest(self.queries, heads, &sums, |row| rows_of(&found, [row, 1]))
            .map_err(|why| text(&why))?;
        Ok(count)
    }
}

/// Checks that the rows of no sequence are as they were: NaN, with their sums.
fn check_rest<T: GemmElement>(
    queries: &PackedRows,
    heads: i64,
    sums: &[f32],
    of_row: impl Fn(i64) -> Vec<T>,
) -> Result<(), String> {
    for (row, owned) in queries.owned().into_iter().enumerate() {
        let first = row * heads as usize;
        let is_written = sums[first..first + heads as usize]
            .iter()
            .any(|x| !x.is_nan());
        let numbers = of_row(row as i64);
        if !owned && (is_written || numbers.iter().any(|x| !x.to_f64().is_nan())) {
            return Err(format!("row {row} of no sequence was written"));
        }
    }
    Ok(())
}
