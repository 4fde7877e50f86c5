//! Products in groups, against a loop over cuBLASLt in a captured graph: bf16, K contiguous in A and B, N in C.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use colex_gpu::gemm::Groups;
use colex_gpu::kernels::gemm::{Gemm, GemmCall, GemmPlan};
use colex_gpu::kernels::{CopyCall, GemmProblem, View, ViewMut};
use colex_gpu::{Buffer, Device, Repeats, Timing};
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
algorithms for this number of rows alone; results compared with cuBLASLt's; the time to read the weights is that of as many bytes \
at the rate of a copy in the same round";

/// N and K of an expert.
const EXPERTS: [[i64; 2]; 2] = [[4096, 7168], [7168, 2048]];

/// How rows are distributed over groups.
#[derive(Clone, Copy)]
enum Spread {
    Even,
    /// The group of rank `i` has a share of `1 / i`.
    Zipf,
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
        "{}, {}; {PROTOCOL}\ngroups x rows, N x K: cuBLASLt's loop (us), the weights read once (us) | contender (us), speed over the \
         loop, over the reading",
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
        let weights = device.uninitialised::<bf16>(most * (n * k) as usize)?;
        normal(&weights)?;
        for (groups, total, spread) in SHAPES {
            let spread_name = match spread {
                Spread::Even => "even",
                Spread::Zipf => "Zipf",
            };
            let rows = rows(groups, total, spread);
            let title = format!("{groups} groups, {total} rows, {spread_name}, {n}x{k}");
            one(
                device,
                (&title, &rows, [n, k]),
                (&weights, &copied),
                &mut lines,
            )?;
        }
    }
    Ok(())
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
    let mut offsets = vec![0_u32];
    for count in rows {
        offsets.push(offsets[offsets.len() - 1] + *count as u32);
    }
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
        let library = Opponent::new::<bf16, bf16>(device, &problem, CHOICES)?;
        let [x, y] = [
            a.slice(..(count * k) as usize)?,
            raw.slice(..(count * n) as usize)?,
        ];
        let factors = (groups as usize).min(8);
        let factors: Result<Vec<Buffer<bf16>>, _> = (0..factors)
            .map(|i| used.slice(i * (n * k) as usize..(i + 1) * (n * k) as usize))
            .collect();
        let factors = factors?;
        let times = {
            let (library, x, y, factors) = (&library, &x, &y, &factors);
            let works: Vec<Box<Work<'_>>> = (0..library.choices())
                .map(|choice| -> Box<Work<'_>> {
                    Box::new(move |device, i| {
                        let b = &factors[i % factors.len()];
                        library.run(device, choice, [x, b], y)
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
        opponents.insert(count, (library, fastest.unwrap_or(0)));
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
    let mut works: Vec<Box<Work<'_>>> = vec![
        Box::new(|device, _| library(device)),
        Box::new(|device, _| copied.run(device)),
    ];
    for (_, call) in &calls {
        works.push(Box::new(move |device, _| call.run(device)));
    }
    let works: Vec<&Work<'_>> = works.iter().map(|work| &**work).collect();
    let times = device.time_in_turns(REPEATS, &works)?;
    let medians: Vec<f64> = times.iter().map(Timing::median).collect();
    let with_rows = rows.iter().filter(|count| **count > 0).count() as f64;
    let bytes = with_rows * (n * k) as f64 * 2.0;
    let reading = bytes / (2.0 * COPIED as f64) * medians[1];
    println!("{title}: {:.1}, {reading:.1}", medians[0]);
    for ((name, call), time) in calls.iter().zip(&medians[2..]) {
        println!(
            "  {name:<24} {time:>9.1}  {:.3}  {:.3}  {call}",
            medians[0] / time,
            reading / time
        );
        lines.write(&json!({
            "groups": groups, "rows": total, "title": title, "n": n, "k": k, "contender": name, "plan": call.to_string(),
            "us": round(*time), "library_us": round(medians[0]), "read_us": round(reading),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_distributed_without_a_rest() {
        for (groups, total, spread) in SHAPES {
            let rows = rows(groups, total, spread);
            assert_eq!((rows.len(), rows.iter().sum::<i64>()), (groups, total));
        }
        let zipf = rows(64, 4096, Spread::Zipf);
        assert_eq!(zipf.iter().max(), Some(&864));
    }
}
