//! Products in groups, against a loop over cuBLASLt in a captured graph: bf16, K contiguous in A and B, N in C. Then the gradients
//! of their weights, groups along K: rows token by token, so that M is contiguous in A and N in B.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::Result;
use colex_gpu::gemm::Groups;
use colex_gpu::kernels::gemm::{Gemm, GemmCall, GemmPlan};
use colex_gpu::kernels::{CopyCall, GemmProblem, Major, View, ViewMut};
use colex_gpu::{Buffer, Device, Error, Repeats, Timing};
use colex_layout::Layout;
use colex_proof::cublaslt::Opponent;
use half::bf16;
use serde_json::json;

use super::sweep::{CHOICES, Lines, Work, difference, normal, round, samples};
use crate::bench::device::{commit, driver};
use crate::bench::host;
use crate::verdict::{Checked, Ended};

/// How the numbers are taken.
const PROTOCOL: &str = "one process; graphs of calls replayed in turn, another one first in each round; medians; normal numbers; \
weights larger than the second-level cache; cuBLASLt's graph has one product for each group that has rows, by the fastest of its \
algorithms for this number of rows alone; results compared with cuBLASLt's; the time to read the weights, or to write their \
gradients, is that of as many bytes at the rate of a copy in the same round";

/// N and K of an expert.
const EXPERTS: [[i64; 2]; 2] = [[4096, 7168], [7168, 2048]];

/// How rows are distributed over groups.
#[derive(Clone, Copy)]
enum Spread {
    Even,
    /// The group of rank `i` has a share of `1 / i`.
    Zipf,
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Spread::Even => "even",
            Spread::Zipf => "Zipf",
        })
    }
}

/// The number of groups, their rows in all, and how these are distributed.
const SHAPES: [(usize, i64, Spread); 6] = [
    (8, 8 * 2048, Spread::Even),
    (8, 8 * 512, Spread::Even),
    (64, 4096, Spread::Even),
    (64, 4096, Spread::Zipf),
    (256, 16384, Spread::Even),
    (256, 16384, Spread::Zipf),
];

/// Bytes of the copy that stands for the bandwidth.
const COPIED: usize = 1 << 30;

const REPEATS: Repeats = Repeats {
    warmups: 1,
    samples: 9,
    batch: 3,
};

/// A change to the library's plan: its name, rows of a tile, columns, blocks of a cluster, stages.
type GroupPlan = (&'static str, [i64; 2], [i64; 3], i64);

/// Plans beside that of the library.
const VARIANTS: [GroupPlan; 8] = [
    ("128x256, cluster 2x1", [128, 256], [2, 1, 1], 4),
    ("128x256, cluster 1x2", [128, 256], [1, 2, 1], 4),
    ("128x256, cluster 1x1", [128, 256], [1, 1, 1], 4),
    ("128x128, cluster 2x1", [128, 128], [2, 1, 1], 6),
    ("128x128, cluster 1x1", [128, 128], [1, 1, 1], 6),
    ("64x256, cluster 1x1", [64, 256], [1, 1, 1], 5),
    ("64x256, cluster 1x2", [64, 256], [1, 2, 1], 5),
    ("64x128, cluster 1x1", [64, 128], [1, 1, 1], 8),
];

fn varied((_, [m, n], cluster, stages): GroupPlan, plan: GemmPlan) -> GemmPlan {
    GemmPlan {
        tile: [m, n, plan.tile[2]],
        warps: [m / 64, 1],
        cluster,
        stages,
        ..plan
    }
}

/// The rows of each group.
fn rows(groups: usize, total: i64, spread: Spread) -> Vec<i64> {
    let share = |rank: usize| match spread {
        Spread::Even => 1.0,
        Spread::Zipf => 1.0 / (rank + 1) as f64,
    };
    let whole: f64 = (0..groups).map(share).sum();
    let part = |rank: usize| (total as f64 * share(rank) / whole) as i64;
    let mut rows: Vec<i64> = (0..groups).map(part).collect();
    // Rounding down leaves less than one row for each group.
    let rest = total - rows.iter().sum::<i64>();
    for count in rows.iter_mut().take(rest as usize) {
        *count += 1;
    }
    // The largest groups are not the first: 37 divides no number of groups.
    let mut mixed = vec![0; groups];
    for (rank, count) in rows.into_iter().enumerate() {
        mixed[rank * 37 % groups] = count;
    }
    mixed
}

/// The library's groups against the loop.
pub(in crate::bench) fn run(device: &Device, json: Option<&Path>) -> Result<()> {
    let mut lines = Lines::new(json)?;
    println!(
        "{}, {}; {PROTOCOL}\ngroups x rows, N x K: cuBLASLt's loop (us), the weights read or their gradients written once (us) | contender (us), speed over the \
         loop, over the reading or writing",
        device.name(),
        driver(device)
    );
    lines.write(&json!({
        "bench": "groups", "device": device.name(), "driver": driver(device), "date": host::today(),
        "commit": commit(), "protocol": PROTOCOL,
    }))?;
    let from = device.uninitialised::<bf16>(COPIED / 2)?;
    normal(&from)?;
    let mut to = device.uninitialised::<bf16>(COPIED / 2)?;
    let line = Layout::new(COPIED as i64 / 2, 1)?;
    let (from, to) = (
        View::new(&from, line.clone())?,
        ViewMut::new(&mut to, line)?,
    );
    let copied = CopyCall::new(&from, &to, None)?;
    for [n, k] in EXPERTS {
        let most = SHAPES.iter().map(|(groups, ..)| *groups).max().unwrap_or(1);
        let mut weights = device.uninitialised::<bf16>(most * (n * k) as usize)?;
        normal(&weights)?;
        for (groups, total, spread) in SHAPES {
            let rows = rows(groups, total, spread);
            let title = format!("{groups} groups, {total} rows, {spread}, {n}x{k}");
            one(
                device,
                (&title, &rows, [n, k]),
                (&weights, &copied),
                &mut lines,
            )?;
        }
        // They take the place of the weights.
        for (groups, total, spread) in SHAPES {
            let rows = rows(groups, total, spread);
            let title = format!("gradients, {groups} groups, {total} rows, {spread}, {n}x{k}");
            gradients(
                device,
                (&title, &rows, [n, k]),
                (&mut weights, &copied),
                &mut lines,
            )?;
        }
    }
    Ok(())
}

/// cuBLASLt's product for a problem, with the number of the algorithm that is the fastest on these factors in turn.
fn fastest(
    device: &Device,
    problem: &GemmProblem,
    factors: &[[Buffer<bf16>; 2]],
    y: &Buffer<bf16>,
) -> Result<(Opponent, usize)> {
    let library = Opponent::new::<bf16, bf16>(device, problem, CHOICES)?;
    let times = {
        let library = &library;
        let works: Vec<Box<Work<'_>>> = (0..library.choices())
            .map(|choice| -> Box<Work<'_>> {
                Box::new(move |device, i| {
                    let [a, b] = &factors[i % factors.len()];
                    library.run(device, choice, [a, b], y)
                })
            })
            .collect();
        let works: Vec<&Work<'_>> = works.iter().map(|work| &**work).collect();
        let few = Repeats {
            warmups: 1,
            samples: 3,
            batch: 8,
        };
        device.time_in_turns(few, &works)?
    };
    let medians: Vec<f64> = times.iter().map(Timing::median).collect();
    let fastest = (0..medians.len()).min_by(|x, y| medians[*x].total_cmp(&medians[*y]));
    Ok((library, fastest.unwrap_or(0)))
}

/// The offsets of groups with these rows.
fn offsets_of(rows: &[i64]) -> Vec<u32> {
    let mut offsets = vec![0_u32];
    for count in rows {
        offsets.push(offsets[offsets.len() - 1] + *count as u32);
    }
    offsets
}

/// One distribution of rows over experts.
fn one(
    device: &Device,
    (title, rows, [n, k]): (&str, &[i64], [i64; 2]),
    (weights, copied): (&Buffer<bf16>, &CopyCall<'_>),
    lines: &mut Lines,
) -> Result<()> {
    let groups = rows.len() as i64;
    let total: i64 = rows.iter().sum();
    let most = rows.iter().copied().max().unwrap_or(1).max(1);
    let offsets = offsets_of(rows);
    let counts: Vec<u32> = rows.iter().map(|count| *count as u32).collect();
    let a = device.uninitialised::<bf16>((total * k) as usize)?;
    normal(&a)?;
    let mut c = device.uninitialised::<bf16>((total * n) as usize)?;
    let raw = c.clone();
    let masked_a = device.uninitialised::<bf16>((groups * most * k) as usize)?;
    normal(&masked_a)?;
    let mut masked_c = device.uninitialised::<bf16>((groups * most * n) as usize)?;
    let (offsets, counts) = (device.upload(&offsets)?, device.upload(&counts)?);
    let used = weights.slice(..(groups * n * k) as usize)?;

    // Products of the library by number of rows, each with its fastest algorithm.
    let mut opponents: BTreeMap<i64, (Opponent, usize)> = BTreeMap::new();
    for count in rows.iter().copied().filter(|count| *count > 0) {
        if opponents.contains_key(&count) {
            continue;
        }
        let problem = GemmProblem::new(count, n, k);
        let [x, y] = [
            a.slice(..(count * k) as usize)?,
            raw.slice(..(count * n) as usize)?,
        ];
        let factors = (groups as usize).min(8);
        let factors: Result<Vec<[Buffer<bf16>; 2]>, Error> = (0..factors)
            .map(|i| {
                let factor = used.slice(i * (n * k) as usize..(i + 1) * (n * k) as usize)?;
                Ok([x.clone(), factor])
            })
            .collect();
        opponents.insert(count, fastest(device, &problem, &factors?, &y)?);
    }
    let mut loops = Vec::new();
    let mut first = 0;
    for (group, count) in rows.iter().enumerate().filter(|(_, count)| **count > 0) {
        let part = |buffer: &Buffer<bf16>, from: i64, count: i64, width: i64| {
            buffer.slice((from * width) as usize..((from + count) * width) as usize)
        };
        let x = part(&a, first, *count, k)?;
        let b = part(&used, group as i64 * n, n, k)?;
        let y = part(&raw, first, *count, n)?;
        loops.push((&opponents[count], x, b, y));
        first += count;
    }
    let library = |device: &Device| {
        let mut loops = loops.iter();
        loops.try_for_each(|((library, choice), x, b, y)| library.run(device, *choice, [x, b], y))
    };

    let experts = Layout::new((n, k, groups), (k, 1, n * k))?;
    let experts = View::new(&used, &experts)?;
    let of_rows = a.view((total, k))?;
    let to_rows = c.view_mut((total, n))?;
    let by_rows = Gemm::new(&of_rows, &experts, &to_rows);
    let offsets = offsets.view(groups + 1)?;
    let by_rows = by_rows.groups(Groups::Rows, &offsets);
    let of_masked = Layout::new((most, k, groups), (k, 1, most * k))?;
    let of_masked = View::new(&masked_a, &of_masked)?;
    let to_masked = Layout::new((most, n, groups), (n, 1, most * n))?;
    let to_masked = ViewMut::new(&mut masked_c, &to_masked)?;
    let masked = Gemm::new(&of_masked, &experts, &to_masked);
    let counts = counts.view(groups)?;
    let masked = masked.groups(Groups::Masked, &counts);
    let mut calls: Vec<(String, GemmCall<'_>)> = vec![
        ("ours".to_string(), by_rows.prepare()?),
        ("ours, masked".to_string(), masked.prepare()?),
    ];
    let usual = calls[0].1.plan().copied();
    for variant in VARIANTS {
        let change = |plan: Option<GemmPlan>| plan.map(|plan| varied(variant, plan));
        if let Some(plan) = change(usual).filter(|plan| Some(*plan) != usual) {
            match by_rows.prepare_with(|_, _| Ok(plan)) {
                Ok(call) => calls.push((variant.0.to_string(), call)),
                Err(why) => println!("  {}: {why}", variant.0),
            }
        }
    }

    library(device)?;
    let expected = samples(&raw)?;
    let mut wrong = Vec::new();
    for (name, call) in calls.iter().filter(|(name, _)| !name.contains("masked")) {
        raw.fill_bytes(0xff)?;
        call.run(device)?;
        let off = difference(&samples(&raw)?, &expected);
        if off.is_nan() || off > 1e-2 {
            wrong.push(format!("{title}: {name}: {off:.1e} off"));
        }
    }
    let with_rows = rows.iter().filter(|count| **count > 0).count() as i64;
    let shape = Shape {
        title,
        groups,
        total,
        sides: [n, k],
        bytes: with_rows * n * k * 2,
    };
    report(device, &shape, (&library, copied), (&calls, &wrong), lines)
}

/// A distribution of rows, for the report.
struct Shape<'a> {
    title: &'a str,
    groups: i64,
    total: i64,
    /// N and K of an expert.
    sides: [i64; 2],
    /// The bytes of the weights, or of their gradients.
    bytes: i64,
}

/// What enqueues the loop over cuBLASLt.
type LibraryRun<'a> = dyn Fn(&Device) -> Result<(), Error> + 'a;

/// Measures the loop and the calls in turn, and writes what was found.
fn report(
    device: &Device,
    shape: &Shape<'_>,
    (library, copied): (&LibraryRun<'_>, &CopyCall<'_>),
    (calls, wrong): (&[(String, GemmCall<'_>)], &[String]),
    lines: &mut Lines,
) -> Result<()> {
    let Shape {
        title,
        groups,
        total,
        sides: [n, k],
        bytes,
    } = *shape;
    let mut works: Vec<Box<Work<'_>>> = vec![
        Box::new(|device, _| library(device)),
        Box::new(|device, _| copied.run(device)),
    ];
    for (_, call) in calls {
        works.push(Box::new(move |device, _| call.run(device)));
    }
    let works: Vec<&Work<'_>> = works.iter().map(|work| &**work).collect();
    let times = device.time_in_turns(REPEATS, &works)?;
    let medians: Vec<f64> = times.iter().map(Timing::median).collect();
    // A copy reads and writes.
    let once = bytes as f64 / (2.0 * COPIED as f64) * medians[1];
    println!("{title}: {:.1}, {once:.1}", medians[0]);
    for ((name, call), time) in calls.iter().zip(&medians[2..]) {
        println!(
            "  {name:<24} {time:>9.1}  {:.3}  {:.3}  {call}",
            medians[0] / time,
            once / time
        );
        lines.write(&json!({
            "groups": groups, "rows": total, "title": title, "n": n, "k": k, "contender": name, "plan": call.to_string(),
            "us": round(*time), "library_us": round(medians[0]), "read_us": round(once),
            "speed": round(medians[0] / time),
        }))?;
    }
    Checked {
        data: json!({"us": medians.iter().map(|t| round(*t)).collect::<Vec<_>>()}),
        ..Checked::new(title, Ended::of(wrong.is_empty()), PROTOCOL)
    }
    .complaining(&wrong.join("\n"))
    .add();
    anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// The layouts of the gradients of experts of N by K, one product in groups along K: A is the gradients of the outputs and B the
/// inputs, both token by token, as (N, rows) and (K, rows); C is (N, K, group).
fn gradient_layouts([n, k]: [i64; 2], total: i64, groups: i64) -> Result<[Layout; 3]> {
    Ok([
        Layout::new((n, total), (1, n))?,
        Layout::new((k, total), (1, k))?,
        Layout::new((n, k, groups), (k, 1, n * k))?,
    ])
}

/// The gradients of the weights of one distribution of rows: the product of a group has its rows as K. They are written in the place
/// of the weights.
fn gradients(
    device: &Device,
    (title, rows, [n, k]): (&str, &[i64], [i64; 2]),
    (weights, copied): (&mut Buffer<bf16>, &CopyCall<'_>),
    lines: &mut Lines,
) -> Result<()> {
    let groups = rows.len() as i64;
    let total: i64 = rows.iter().sum();
    let [outputs, inputs] = [n, k].map(|width| device.uninitialised((total * width) as usize));
    let (outputs, inputs): (Buffer<bf16>, Buffer<bf16>) = (outputs?, inputs?);
    normal(&outputs)?;
    normal(&inputs)?;
    let raw = weights.slice(..(groups * n * k) as usize)?;
    let mut c = raw.clone();
    // The factors and the gradient of a group.
    let mut first = 0;
    let mut of_groups = Vec::new();
    for (group, count) in rows.iter().enumerate() {
        let part = |buffer: &Buffer<bf16>, width: i64| {
            buffer.slice((first * width) as usize..((first + count) * width) as usize)
        };
        let group = group as i64;
        let y = raw.slice((group * n * k) as usize..((group + 1) * n * k) as usize)?;
        of_groups.push((*count, [part(&outputs, n)?, part(&inputs, k)?], y));
        first += count;
    }
    of_groups.retain(|(count, ..)| *count > 0);
    let mut opponents: BTreeMap<i64, (Opponent, usize)> = BTreeMap::new();
    for (count, ..) in &of_groups {
        if opponents.contains_key(count) {
            continue;
        }
        let problem = GemmProblem {
            majors: [Major::First, Major::First, Major::Second],
            ..GemmProblem::new(n, k, *count)
        };
        let alike = of_groups
            .iter()
            .filter(|(other, ..)| other == count)
            .take(8);
        let factors: Vec<[Buffer<bf16>; 2]> =
            alike.map(|(_, factors, _)| factors.clone()).collect();
        let (_, _, y) = &of_groups[0];
        opponents.insert(*count, fastest(device, &problem, &factors, y)?);
    }
    let library = |device: &Device| {
        let mut groups = of_groups.iter();
        groups.try_for_each(|(count, [a, b], y)| {
            let (library, choice) = &opponents[count];
            library.run(device, *choice, [a, b], y)
        })
    };
    let [of_a, of_b, of_c] = gradient_layouts([n, k], total, groups)?;
    let (a, b) = (View::new(&outputs, of_a)?, View::new(&inputs, of_b)?);
    let c = ViewMut::new(&mut c, of_c)?;
    let offsets = device.upload(&offsets_of(rows))?;
    let offsets = offsets.view(groups + 1)?;
    let product = Gemm::new(&a, &b, &c).groups(Groups::AlongK, &offsets);
    let mut calls: Vec<(String, GemmCall<'_>)> = vec![("ours".to_string(), product.prepare()?)];
    let usual = calls[0].1.plan().copied();
    for variant in VARIANTS {
        let change = |plan: Option<GemmPlan>| plan.map(|plan| varied(variant, plan));
        if let Some(plan) = change(usual).filter(|plan| Some(*plan) != usual) {
            match product.prepare_with(|_, _| Ok(plan)) {
                Ok(call) => calls.push((variant.0.to_string(), call)),
                Err(why) => println!("  {}: {why}", variant.0),
            }
        }
    }
    raw.fill_bytes(0)?;
    library(device)?;
    let expected = samples(&raw)?;
    let mut wrong = Vec::new();
    for (name, call) in &calls {
        raw.fill_bytes(0xff)?;
        call.run(device)?;
        let off = difference(&samples(&raw)?, &expected);
        if off.is_nan() || off > 1e-2 {
            wrong.push(format!("{title}: {name}: {off:.1e} off"));
        }
    }
    let shape = Shape {
        title,
        groups,
        total,
        sides: [n, k],
        bytes: groups * n * k * 2,
    };
    report(device, &shape, (&library, copied), (&calls, &wrong), lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use colex_atom::Arch;

    #[test]
    fn rows_are_distributed_without_a_rest() {
        for (groups, total, spread) in SHAPES {
            let rows = rows(groups, total, spread);
            assert_eq!((rows.len(), rows.iter().sum::<i64>()), (groups, total));
        }
        let zipf = rows(64, 4096, Spread::Zipf);
        assert_eq!(zipf.iter().max(), Some(&864));
    }

    /// The product whose layouts are measured is the gradient of each expert's weights, also of one without rows.
    #[test]
    fn gradients_are_the_sums_over_the_rows_of_a_group() {
        let device = Device::simulator(Arch::Sm90a);
        let ([n, k], rows) = ([16, 24], [5, 0, 11]);
        let (total, groups) = (16, 3);
        let numbers = |count: i64, step: i64| -> Vec<bf16> {
            let number = |i: i64| bf16::from_f32((i * step % 7 - 3) as f32);
            (0..count).map(number).collect()
        };
        let (outputs, inputs) = (numbers(total * n, 5), numbers(total * k, 3));
        let [a, b] = [&outputs, &inputs].map(|of| device.upload(of).expect("memory"));
        let mut c = device
            .poisoned::<bf16>((groups * n * k) as usize)
            .expect("memory");
        let offsets = device.upload(&offsets_of(&rows)).expect("memory");
        {
            let [of_a, of_b, of_c] = gradient_layouts([n, k], total, groups).expect("layouts");
            let (a, b) = (
                View::new(&a, of_a).expect("A"),
                View::new(&b, of_b).expect("B"),
            );
            let c = ViewMut::new(&mut c, of_c).expect("C");
            let offsets = offsets.view(groups + 1).expect("a view");
            let product = Gemm::new(&a, &b, &c).groups(Groups::AlongK, &offsets);
            product.run().expect("it runs");
        }
        let found = c.download().expect("all is written");
        let mut first = 0;
        for (group, count) in rows.into_iter().enumerate() {
            for (i, j) in (0..n).flat_map(|i| (0..k).map(move |j| (i, j))) {
                let term = |row: i64| {
                    let [y, x] = [
                        outputs[(row * n + i) as usize],
                        inputs[(row * k + j) as usize],
                    ];
                    y.to_f32() * x.to_f32()
                };
                let sum: f32 = (first..first + count).map(term).sum();
                let at = (group as i64 * n * k + i * k + j) as usize;
                assert_eq!(found[at].to_f32(), sum, "group {group}, ({i},{j})");
            }
            first += count;
        }
    }
}
