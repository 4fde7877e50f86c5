//! Attention to keys in the pages of a pool on a device, against a softmax in double precision for each sequence.

use colex_gpu::attention::{Attention, AttentionProblem, Mask};
use colex_gpu::kernels::GemmElement;
use colex_gpu::{Device, View, ViewMut};
use colex_layout::Layout;
use half::{bf16, f16};

use super::{ElementsAndPlans, Expected, Numbers, WIDTHS, add, sinks, upload_or_one};
use crate::kernels::sequences::{DrawnCall, PackedRows};
use crate::sweep::Random;

/// Computes drawn calls on keys in pages on a device, and compares every element: rows of a page, orders of the pool, lengths,
/// 0 among them, pages that several sequences have, numbers of pages that the pool does not have, head sizes, magnitudes, masks,
/// soft-caps, groups, sinks, packed queries, packs of heads, parts of the keys added in both ways, tiles, orders and sorted sequences. On a GPU
/// each call has a plan of every kernel. Rows beyond the last key of a page, and pages of no sequence, are NaN. Returns the number of
/// elements, and that of the plans.
///
/// # Errors
///
/// Returns the first call whose result is wrong, in words.
pub fn check_paged(device: &Device, seed: u64, rounds: usize) -> Result<ElementsAndPlans, String> {
    check(device, Random::of(seed, "pages"), rounds, Numbers::Finite)
        .map_err(|why| format!("{why}, seed {seed}"))
}

/// Computes drawn calls on keys in pages with NaN, inf and -inf in Q, K and V, and compares every element: what reaches which element
/// of a sequence, also of keys that several sequences have. Returns the number of elements, and that of the plans.
///
/// A NaN, or an infinity, of V may make a NaN of its feature for a query that does not see the key too.
///
/// # Errors
///
/// Returns the first call whose result is wrong, in words.
pub fn check_special_paged(
    device: &Device,
    seed: u64,
    rounds: usize,
) -> Result<ElementsAndPlans, String> {
    let r = Random::of(seed, "special pages");
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

/// The keys of all sequences.
struct PagedRows {
    pages: i64,
    /// The rows of a page.
    rows: i64,
    entries: i64,
    table: Vec<i32>,
    lengths: Vec<u32>,
    most: i64,
}

impl PagedRows {
    fn draw(r: &mut Random, batch: i64) -> PagedRows {
        let rows = r.one(&[16, 16, 32, 48, 64, 80, 128]);
        let entries = 1 + r.below(200 / rows);
        let pages = 1 + r.below(2 * entries * batch);
        let entry = |_| match r.below(12_u64) {
            0 => r.one(&[-1, pages as i32, i32::MAX, i32::MIN]),
            _ => r.below(pages as i32),
        };
        let table = (0..batch * entries).map(entry).collect();
        let all = rows * entries;
        let length = |r: &mut Random| match r.below(6_u64) {
            0 => r.one(&[0, 1, rows, all]),
            1 => r.one(&[all + 1, i64::from(u32::MAX)]),
            _ => r.below(all + 1),
        };
        let lengths = (0..batch).map(|_| length(r) as u32).collect();
        let most = if r.one_in(3) { 1 + r.below(all) } else { all };
        PagedRows {
            pages,
            rows,
            entries,
            table,
            lengths,
            most,
        }
    }

    fn length(&self, sequence: usize) -> i64 {
        i64::from(self.lengths[sequence]).min(self.most)
    }

    /// The row of the pool (page, row) that a key has; `None` if the pool has no such page.
    fn place(&self, sequence: usize, key: i64) -> Option<[i64; 2]> {
        let entry = sequence as i64 * self.entries + key / self.rows;
        let page = i64::from(self.table[entry as usize]);
        (0..self.pages)
            .contains(&page)
            .then_some([page, key % self.rows])
    }

    /// A pool (page, head, row, feature) in a drawn order, with drawn numbers in the rows of keys and NaN elsewhere.
    fn filled<T: GemmElement>(
        &self,
        r: &mut Random,
        [heads, features]: [i64; 2],
        magnitude: f64,
    ) -> Result<(Vec<T>, Layout), String> {
        let pad = features + 8 * r.below(2_i64);
        let strides = if r.one_in(2) {
            [heads * self.rows * pad, self.rows * pad, pad, 1]
        } else {
            [heads * self.rows * pad, pad, heads * pad, 1]
        };
        let layout = Layout::new([self.pages, heads, self.rows, features], strides);
        let layout = layout.map_err(|e| e.to_string())?;
        let length = layout.cosize().map_err(|e| e.to_string())? as usize;
        let mut all = vec![T::from_f64(f64::NAN); length];
        for sequence in 0..self.lengths.len() {
            for key in 0..self.length(sequence) {
                let Some([page, row]) = self.place(sequence, key) else {
                    continue;
                };
                for (head, feature) in (0..heads).flat_map(|h| (0..features).map(move |d| (h, d))) {
                    let at = page * strides[0] + head * strides[1] + row * strides[2] + feature;
                    let number = r.below(4001_i32) - 2000;
                    all[at as usize] = T::from_f64(f64::from(number) / 1000.0 * magnitude);
                }
            }
        }
        Ok((all, layout))
    }

    /// The keys of a sequence as (head, key, feature), compact.
    fn compact<T: GemmElement>(&self, all: &[T], layout: &Layout, sequence: usize) -> Vec<T> {
        let extents: Vec<i64> = layout.modes().map(|mode| mode.size()).collect();
        let mut part = Vec::new();
        for head in 0..extents[1] {
            for key in 0..self.length(sequence) {
                let place = self.place(sequence, key);
                part.extend((0..extents[3]).map(|d| match place {
                    Some([page, row]) => {
                        let at = layout.at((page, head, row, d)).expect("a coordinate");
                        all[at as usize]
                    }
                    None => T::from_f64(0.0),
                }));
            }
        }
        part
    }
}

fn run<T: GemmElement>(
    device: &Device,
    r: &mut Random,
    features: [i64; 2],
    numbers: Numbers,
) -> Result<ElementsAndPlans, String> {
    let [inner, outer] = features;
    let of_keys = 1 + r.below(2_i64);
    let group = r.one(&[1, 2, 4]);
    let heads = of_keys * group;
    let batch = 1 + r.below(3_i64);
    let keys = PagedRows::draw(r, batch);
    // Rows of queries: those of sequences of one length are a special case.
    let most = r.one(&[1, 1, 3, 40, 70]);
    let is_packed = r.one_in(3);
    let queries = if is_packed {
        PackedRows::draw(r, batch, most)
    } else {
        let rows = batch * most;
        PackedRows {
            offsets: (0..=batch).map(|i| (i * most) as u32).collect(),
            rows,
            most,
        }
    };
    let mask = match r.below(4_u64) {
        0 | 1 => Mask::Full,
        2 => Mask::Causal,
        _ => Mask::Window {
            left: r.below(40_u32),
            right: r.below(10_u32),
        },
    };
    let softcap = r.one_in(3).then(|| r.one(&[0.5, 5.0, 50.0, 1000.0]));
    let mut of_heads = AttentionProblem::new(T::TY, 1, [heads, of_keys], [1, 1], features);
    of_heads.sinks = r.one_in(3).then_some(1);
    let sinks = sinks(r, &of_heads);
    let what = format!(
        "{} of {features:?} features, heads {heads} on {of_keys}, {mask}, cap {softcap:?}, queries {:?} of {} up to {}{}, {} pages of {}, \
         table {:?} by {}, lengths {:?} up to {}",
        T::NAME,
        queries.offsets,
        queries.rows,
        queries.most,
        if is_packed { ", packed" } else { "" },
        keys.pages,
        keys.rows,
        keys.table,
        keys.entries,
        keys.lengths,
        keys.most,
    );
    let text = |e: &dyn std::fmt::Display| format!("{what}: {e}");
    let magnitude = numbers.magnitude(r);
    let number = |_| T::from_f64(f64::from(r.below(4001_i32) - 2000) / 1000.0 * magnitude);
    let mut q: Vec<T> = (0..queries.rows * heads * inner).map(number).collect();
    let (mut k, of_k) = keys.filled::<T>(r, [of_keys, inner], magnitude)?;
    let (mut v, of_v) = keys.filled::<T>(r, [of_keys, outer], 1.0)?;
    numbers.plant(r, [&mut q, &mut k, &mut v]);
    let upload = |elements: &[T]| device.upload(elements).map_err(|e| text(&e));
    let (on_q, on_k, on_v) = (upload(&q)?, upload(&k)?, upload(&v)?);
    let count = (queries.rows * heads) as usize;
    let on_o = device.poisoned::<T>(count * outer as usize);
    let on_o = on_o.map_err(|e| text(&e))?;
    let on_sums = device.poisoned::<f32>(count).map_err(|e| text(&e))?;
    let (mut o_of_call, mut sums_of_call) = (on_o.clone(), on_sums.clone());
    let on_sinks = upload_or_one(device, &sinks)?;
    let offsets = device.upload(&queries.offsets).map_err(|e| text(&e))?;
    let table = device.upload(&keys.table).map_err(|e| text(&e))?;
    let lengths = device.upload(&keys.lengths).map_err(|e| text(&e))?;
    let layout = |shape: &[i64], strides: &[i64]| Layout::new(shape, strides);
    // The rows of queries, or of outputs, of this many features.
    let of_rows = |width: i64| {
        let row = heads * width;
        let layout = if is_packed {
            layout(&[queries.rows, heads, width], &[row, width, 1])
        } else {
            layout(&[batch, heads, most, width], &[most * row, width, row, 1])
        };
        layout.map_err(|e| text(&e))
    };
    let of_sums = if is_packed {
        layout(&[queries.rows, heads], &[heads, 1])
    } else {
        layout(&[batch, heads, most], &[most * heads, 1, heads])
    };
    let (of_q, of_o, of_sums) = (of_rows(inner)?, of_rows(outer)?, of_sums);
    let [q_view, k_view, v_view] = [(&on_q, &of_q), (&on_k, &of_k), (&on_v, &of_v)]
        .map(|(buffer, layout)| View::new(buffer, layout).map_err(|e| text(&e)));
    let o = ViewMut::new(&mut o_of_call, &of_o).map_err(|e| text(&e))?;
    let of_sums = of_sums.map_err(|e| text(&e))?;
    let sums = ViewMut::new(&mut sums_of_call, &of_sums).map_err(|e| text(&e))?;
    let table = table.view((batch, keys.entries)).map_err(|e| text(&e))?;
    let lengths = lengths.view(batch).map_err(|e| text(&e))?;
    let offsets = offsets.view(batch + 1).map_err(|e| text(&e))?;
    let mut call = Attention::new(&q_view?, &k_view?, &v_view?, &o)
        .mask(mask)
        .log_sum_exp(&sums)
        .pages(&table, &lengths, keys.most);
    if is_packed {
        call = call.query_offsets(&offsets, queries.most);
    }
    if let Some(cap) = softcap {
        call = call.softcap(cap);
    }
    let of_sinks;
    if !sinks.is_empty() {
        of_sinks = on_sinks.view(heads).map_err(|e| text(&e))?;
        call = call.sinks(&of_sinks);
    }
    // The rows of a sequence as (head, row, feature), of a tensor of this many features.
    let rows_of = |all: &[T], [first, length]: [i64; 2], width: i64| -> Vec<T> {
        let rows = (0..heads).flat_map(|head| (first..first + length).map(move |row| (row, head)));
        let first = rows.map(|(row, head)| ((row * heads + head) * width) as usize);
        first
            .flat_map(|at| all[at..at + width as usize].to_vec())
            .collect()
    };
    // What the reference says of each sequence.
    let mut expected = Vec::new();
    for i in 0..batch as usize {
        let of_sequence = queries.sequence(i);
        let [_, length] = of_sequence;
        if length == 0 {
            continue;
        }
        let lengths = [length, keys.length(i)];
        let mut problem =
            AttentionProblem::new(T::TY, 1, [heads, of_keys], lengths, features).mask(mask);
        problem.log_sum_exp = true;
        problem.sinks = of_heads.sinks;
        problem.softcap = softcap;
        let parts = [
            rows_of(&q, of_sequence, inner),
            keys.compact(&k, &of_k, i),
            keys.compact(&v, &of_v, i),
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
    drawn.run_plans(device, r, &call, |all, rows| rows_of(all, rows, outer))
}
