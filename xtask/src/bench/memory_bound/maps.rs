//! Elementwise kernels and quantisation, against a copy of as many compulsory bytes.

use std::cell::Cell;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use colex_atom::Ty;
use colex_gpu::elementwise::{ElementwisePlan, Gather, Map, MapExpression, Pairing, Rotary};
use colex_gpu::kernels::{CopyCall, GemmElement, View, ViewMut};
use colex_gpu::quantise::{Quantise, QuantiseAccess, QuantisePlan, TensorScalePlan};
use colex_gpu::reduce::{Reduce, ReduceFunction};
use colex_gpu::{Buffer, Device, Element, Error};
use colex_layout::Layout;
use half::bf16;
use serde_json::{Value, json};

use crate::bench::Asked;
use crate::bench::device::{Contender, PROTOCOL, commit, driver};
use crate::bench::host;
use crate::bench::product::sweep::normal;

/// Bytes of all operands that are rotated: several times the L2 cache.
const ROTATED: i64 = 240 << 20;

/// The bytes of the tensors.
const SIZES: [i64; 2] = [64 << 20, 256 << 20];

/// What runs one prepared call.
type SetRun<'a> = Box<dyn Fn(&Device) -> Result<(), Error> + 'a>;

/// A way to do the work, on each set of operands.
type Way<'a> = (String, Vec<SetRun<'a>>);

/// What was measured, one line for each contender.
struct Lines<'a, 'b> {
    device: &'a Device,
    asked: &'a mut Asked<'b>,
    lines: Vec<Value>,
}

pub(in crate::bench) fn run(
    device: &Device,
    json: Option<&Path>,
    asked: &mut Asked<'_>,
) -> Result<()> {
    println!("{PROTOCOL}; operands rotated over 240 MB; normal numbers");
    let mut lines = Lines {
        device,
        asked,
        lines: Vec::new(),
    };
    for bytes in SIZES {
        add(&mut lines, bytes)?;
        gelu(&mut lines, bytes)?;
        row(&mut lines, bytes)?;
        for row in [256, 1024, 8192] {
            gather(&mut lines, bytes, row, false)?;
            gather(&mut lines, bytes, row, true)?;
        }
        for pairing in [Pairing::Halves, Pairing::Interleaved] {
            for has_tables in [true, false] {
                rotary(&mut lines, bytes, pairing, has_tables)?;
            }
        }
    }
    lines.write(json)
}

/// Quantisation: a whole tensor by the scale that it has, then rows and blocks.
pub(in crate::bench) fn quantisations(
    device: &Device,
    json: Option<&Path>,
    asked: &mut Asked<'_>,
) -> Result<()> {
    println!("{PROTOCOL}; operands rotated over 240 MB; normal numbers");
    let mut lines = Lines {
        device,
        asked,
        lines: Vec::new(),
    };
    for bytes in SIZES {
        of_tensor::<bf16, u8>(&mut lines, bytes, Ty::E4m3)?;
        of_tensor::<bf16, i8>(&mut lines, bytes, Ty::S8)?;
        of_tensor::<f32, u8>(&mut lines, bytes, Ty::E4m3)?;
    }
    for bytes in SIZES {
        for columns in [33, 1000, 4096, 4097, 16384, 65536, 1 << 20] {
            quantise::<bf16>(&mut lines, bytes, Ty::E4m3, columns, None)?;
        }
        quantise::<bf16>(&mut lines, bytes, Ty::E4m3, 4096, Some(128))?;
        quantise::<f32>(&mut lines, bytes, Ty::E4m3, 4096, Some(128))?;
    }
    lines.write(json)
}

impl Lines<'_, '_> {
    /// Writes the lines to a file, if one is given.
    fn write(&self, json: Option<&Path>) -> Result<()> {
        let Some(path) = json else { return Ok(()) };
        let text: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(path, text)
            .with_context(|| format!("{} cannot be written", path.display()))?;
        println!("\nwritten to {}", path.display());
        Ok(())
    }
}

/// The number of sets of operands that have this number of bytes.
fn sets(bytes: i64) -> usize {
    (ROTATED / bytes + 1) as usize
}

/// Normal numbers.
fn numbers<T: GemmElement>(device: &Device, count: i64) -> Result<Buffer<T>> {
    let buffer = device.uninitialised::<T>(count as usize)?;
    normal(&buffer)?;
    Ok(buffer)
}

impl Lines<'_, '_> {
    /// Measures ways to do what must move `bytes` bytes, and a copy of as many.
    fn measure(&mut self, title: &str, bytes: i64, case: &Value, ways: Vec<Way<'_>>) -> Result<()> {
        let device = self.device;
        let count = bytes / 8;
        let line = Layout::new(count, 1)?;
        let (mut from, mut to) = (Vec::new(), Vec::new());
        for _ in 0..sets(bytes) {
            from.push(numbers::<f32>(device, count)?);
            to.push(device.uninitialised::<f32>(count as usize)?);
        }
        let copies = from.iter().zip(&mut to).map(|(from, to)| {
            let from = View::new(from, line.clone())?;
            let call = CopyCall::new(&from, &ViewMut::new(to, line.clone())?, None)?;
            Ok::<SetRun<'_>, Error>(Box::new(move |device| call.run(device)))
        });
        let copies = copies.collect::<Result<Vec<_>, Error>>()?;
        let all = [("copy of as many bytes".to_string(), copies)];
        let all: Vec<Way<'_>> = all.into_iter().chain(ways).collect();
        let contenders = all.iter().map(|(name, runs)| {
            let next = Cell::new(0);
            Contender::new(name.clone(), move |device| {
                next.set((next.get() + 1) % runs.len());
                runs[next.get()](device)
            })
        });
        let mut contenders: Vec<Contender<'_>> = contenders.collect();
        let times = (self.asked).take_turns(device, &mut contenders, case, [21, 4])?;
        println!("\n{title}: {bytes} bytes");
        let copy = times[0].median();
        for (contender, time) in contenders.iter().zip(&times) {
            let (us, rate) = (time.median(), bytes as f64 / time.median() / 1e6);
            let ratio = copy / us;
            println!(
                "  {:<44} {rate:>8.3} TB/s  ratio {ratio:.3}  {time}",
                contender.name
            );
            self.lines.push(json!({
                "bench": "maps", "case": title, "name": contender.name, "bytes": bytes, "us": us, "TB/s": rate,
                "of copy": ratio, "samples": time.samples(), "device": device.name(), "driver": driver(device),
                "commit": commit(), "date": host::today(),
            }));
        }
        Ok(())
    }
}

/// Plans near a plan, with what differs.
fn around(plan: &ElementwisePlan) -> Vec<(String, ElementwisePlan)> {
    let mut plans = vec![(format!("default: {plan}"), plan.clone())];
    for accesses in [1, 2, 4, 8] {
        for threads in [128, 256, 512] {
            let changed = ElementwisePlan {
                accesses,
                threads,
                ..plan.clone()
            };
            if changed != *plan {
                plans.push((format!("{threads} threads, {accesses} accesses"), changed));
            }
        }
    }
    plans
}

/// The ways of plans around the default one. `prepare` prepares the call on a set of operands with a plan.
fn ways<'a>(
    plan: &ElementwisePlan,
    lines: &Lines<'_, '_>,
    sets: usize,
    prepare: impl Fn(usize, &ElementwisePlan) -> Result<SetRun<'a>, Error>,
) -> Result<Vec<Way<'a>>> {
    let mut ways = Vec::new();
    let mut plans = around(plan);
    if !lines.asked.has_others() {
        plans.truncate(1);
    }
    for (name, plan) in plans {
        if plan.check(lines.device.arch()).is_err() {
            continue;
        }
        let runs = (0..sets).map(|set| prepare(set, &plan));
        ways.push((name, runs.collect::<Result<Vec<_>, Error>>()?));
    }
    Ok(ways)
}

/// Measures maps on sets of operands.
fn maps(lines: &mut Lines<'_, '_>, title: &str, case: &Value, calls: &[Map<'_>]) -> Result<()> {
    let first = calls.first().context("there is a set of operands")?;
    let (Some(problem), Some(plan)) = (first.problem()?, first.plan()?) else {
        return Ok(());
    };
    let ways = ways(&plan, lines, calls.len(), |set, plan| {
        let call = calls[set].prepare_with(|_, _| Ok(plan.clone()))?;
        Ok(Box::new(move |device: &Device| call.run(device)))
    })?;
    lines.measure(title, problem.compulsory_bytes(), case, ways)
}

fn add(lines: &mut Lines<'_, '_>, bytes: i64) -> Result<()> {
    let title = format!("bf16 add, {} MiB", bytes >> 20);
    if !lines.asked.has(&title) {
        return Ok(());
    }
    let (device, count) = (lines.device, bytes / 2);
    let sum = MapExpression::new(|m| {
        let sum = m.tensor("a", Ty::Bf16) + m.tensor("b", Ty::Bf16);
        m.output("y", sum);
    })?;
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for _ in 0..sets(3 * bytes) {
        read.push([
            numbers::<bf16>(device, count)?,
            numbers::<bf16>(device, count)?,
        ]);
        written.push(device.uninitialised::<bf16>(count as usize)?);
    }
    let calls = read.iter().zip(&mut written).map(|([a, b], y)| {
        let (a, b, y) = (a.view(count)?, b.view(count)?, y.view_mut(count)?);
        Ok(Map::new(&sum).input("a", &a).input("b", &b).output("y", &y))
    });
    let calls = calls.collect::<Result<Vec<_>, Error>>()?;
    let case = json!({"kind": "add", "type": "bf16", "extents": [count]});
    maps(lines, &title, &case, &calls)
}

fn gelu(lines: &mut Lines<'_, '_>, bytes: i64) -> Result<()> {
    let title = format!("f32 gelu, {} MiB", bytes >> 20);
    if !lines.asked.has(&title) {
        return Ok(());
    }
    let (device, count) = (lines.device, bytes / 4);
    let gelu = MapExpression::new(|m| {
        let x = m.tensor("x", Ty::F32);
        m.output("y", x.gelu());
    })?;
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for _ in 0..sets(2 * bytes) {
        read.push(numbers::<f32>(device, count)?);
        written.push(device.uninitialised::<f32>(count as usize)?);
    }
    let calls = read.iter().zip(&mut written).map(|(x, y)| {
        let (x, y) = (x.view(count)?, y.view_mut(count)?);
        Ok(Map::new(&gelu).input("x", &x).output("y", &y))
    });
    let calls = calls.collect::<Result<Vec<_>, Error>>()?;
    let case = json!({"kind": "gelu", "type": "f32", "extents": [count]});
    maps(lines, &title, &case, &calls)
}

fn row(lines: &mut Lines<'_, '_>, bytes: i64) -> Result<()> {
    let (device, columns) = (lines.device, 4096);
    let title = format!("bf16 add of a row of {columns}, {} MiB", bytes >> 20);
    if !lines.asked.has(&title) {
        return Ok(());
    }
    let rows = bytes / 2 / columns;
    let sum = MapExpression::new(|m| {
        let sum = m.tensor("x", Ty::Bf16) + m.tensor("row", Ty::Bf16);
        m.output("y", sum);
    })?;
    let bias = numbers::<bf16>(device, columns)?;
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for _ in 0..sets(2 * bytes) {
        read.push(numbers::<bf16>(device, rows * columns)?);
        written.push(device.uninitialised::<bf16>((rows * columns) as usize)?);
    }
    let same = Layout::new((rows, columns), (0, 1))?;
    let calls = read.iter().zip(&mut written).map(|(x, y)| {
        let shape = (rows, columns);
        let (x, y) = (x.view(shape)?, y.view_mut(shape)?);
        let bias = View::new(&bias, &same)?;
        Ok(Map::new(&sum)
            .input("x", &x)
            .input("row", &bias)
            .output("y", &y))
    });
    let calls = calls.collect::<Result<Vec<_>, Error>>()?;
    let case = json!({"kind": "add of a row", "type": "bf16", "extents": [rows, columns]});
    maps(lines, &title, &case, &calls)
}

/// Rows that are named at random, two thirds of which are read; or each row once, in a drawn order.
fn gather(lines: &mut Lines<'_, '_>, bytes: i64, row: i64, once: bool) -> Result<()> {
    let which = if once { "each once" } else { "drawn" };
    let title = format!(
        "gather of rows of {row} bytes, {which}, {} MiB",
        bytes >> 20
    );
    if !lines.asked.has(&title) {
        return Ok(());
    }
    let (device, columns) = (lines.device, row / 2);
    let named = bytes / row;
    let rows = named;
    let (mut read, mut written) = (Vec::new(), Vec::new());
    let mut state = 0x9e37_79b9_u64;
    for _ in 0..sets(2 * bytes) {
        let mut below = |most: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % most as u64) as usize
        };
        let mut index: Vec<i32> = (0..named as i32).collect();
        for at in (0..index.len()).rev() {
            if once {
                index.swap(at, below(at + 1));
            } else {
                index[at] = below(rows as usize) as i32;
            }
        }
        read.push((
            numbers::<bf16>(device, rows * columns)?,
            device.upload(&index)?,
            index,
        ));
        written.push(device.uninitialised::<bf16>((named * columns) as usize)?);
    }
    let distinct = |index: &[i32]| {
        let mut all = index.to_vec();
        all.sort_unstable();
        all.dedup();
        all.len() as i64
    };
    // The rows that are read, what is written, and the index.
    let moved = distinct(&read[0].2) * row + named * row + 4 * named;
    let calls = read
        .iter()
        .zip(&mut written)
        .map(|((table, index, _), out)| {
            let (table, index) = (table.view((rows, columns))?, index.view(named)?);
            Ok(Gather::new(
                &table,
                &index,
                &out.view_mut((named, columns))?,
            ))
        });
    let calls = calls.collect::<Result<Vec<_>, Error>>()?;
    let Some(plan) = calls[0].plan()? else {
        return Ok(());
    };
    let ways = ways(&plan, lines, calls.len(), |set, plan| {
        let call = calls[set].prepare_with(|_, _| Ok(plan.clone()))?;
        Ok(Box::new(move |device: &Device| call.run(device)))
    })?;
    let case = json!({"kind": "gather", "type": "bf16", "extents": [rows, columns], "once": once});
    lines.measure(&title, moved, &case, ways)
}

fn rotary(lines: &mut Lines<'_, '_>, bytes: i64, pairing: Pairing, has_tables: bool) -> Result<()> {
    let by = if has_tables { "tables" } else { "a base" };
    let title = format!(
        "rotary embedding, {pairing}, by {by}, bf16, {} MiB",
        bytes >> 20
    );
    if !lines.asked.has(&title) {
        return Ok(());
    }
    let (device, heads, features) = (lines.device, 32, 128);
    let sequence = bytes / 2 / heads / features;
    let shape = (1, heads, sequence, features);
    let count = heads * sequence * features;
    let tables = [(); 2].map(|()| numbers::<f32>(device, sequence * features / 2));
    let [cos, sin] = tables;
    let (cos, sin) = (cos?, sin?);
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for _ in 0..sets(2 * bytes) {
        read.push(numbers::<bf16>(device, count)?);
        written.push(device.uninitialised::<bf16>(count as usize)?);
    }
    // In memory (sequence, head, feature), as a projection leaves it.
    let layout = Layout::new(shape, (0, features, heads * features, 1))?;
    let calls = read.iter().zip(&mut written).map(|(x, y)| {
        let (x, y) = (View::new(x, &layout)?, ViewMut::new(y, &layout)?);
        let call = Rotary::new(pairing, &x, &y);
        let of_tables = (sequence, features / 2);
        Ok(if has_tables {
            call.tables(&cos.view(of_tables)?, &sin.view(of_tables)?)
        } else {
            call
        })
    });
    let calls = calls.collect::<Result<Vec<_>, Error>>()?;
    let (Some(problem), Some(plan)) = (calls[0].problem()?, calls[0].plan()?) else {
        return Ok(());
    };
    let ways = ways(&plan, lines, calls.len(), |set, plan| {
        let call = calls[set].prepare_with(|_, _| Ok(plan.clone()))?;
        Ok(Box::new(move |device: &Device| call.run(device)))
    })?;
    let case = json!({
        "kind": "rotary embedding", "type": "bf16", "extents": [sequence, heads, features],
        "halves": pairing == Pairing::Halves, "tables": has_tables,
    });
    lines.measure(&title, problem.compulsory_bytes(), &case, ways)
}

/// A tensor by a scale that is given, by one that is computed from it, and the reduction of the latter alone. The tensor is read twice
/// for a computed scale: the bytes are those of one reading and one writing.
fn of_tensor<T: GemmElement, Q: Element>(
    lines: &mut Lines<'_, '_>,
    bytes: i64,
    to: Ty,
) -> Result<()> {
    let title = format!(
        "quantisation of a tensor, {} to {to}, {} MiB",
        T::TY,
        bytes >> 20
    );
    if !lines.asked.has(&title) {
        return Ok(());
    }
    let device = lines.device;
    let count = bytes / T::BYTES as i64;
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for _ in 0..sets(2 * bytes) {
        read.push(numbers::<T>(device, count)?);
        written.push((
            device.uninitialised::<Q>(count as usize)?,
            device.uninitialised::<f32>(1)?,
        ));
    }
    let mut ways: [Vec<SetRun<'_>>; 3] = [Vec::new(), Vec::new(), Vec::new()];
    let two = TensorScalePlan::fastest(T::TY, to);
    let mut plans = vec![
        two,
        TensorScalePlan {
            reversed: false,
            ..two
        },
        TensorScalePlan { blocks: 264, ..two },
        TensorScalePlan {
            threads: 256,
            blocks: 1056,
            ..two
        },
    ];
    plans.extend(scales_at_once(device, [T::TY, to]));
    let mut is_first = true;
    let (of_first, of_scale) = (written[0].0.clone(), written[0].1.clone());
    let named = plans.iter().map(|plan| (plan.to_string(), Vec::new()));
    let mut by_plans: Vec<Way<'_>> = named.collect();
    for (x, (q, scale)) in read.iter().zip(&mut written) {
        let (x, q, scale) = (x.view(count)?, q.view_mut(count)?, scale.view_mut(1)?);
        let most = Reduce::new(ReduceFunction::AbsMax, &x, &[0], &scale).prepare()?;
        let given = Quantise::new(to, &x, &q).tensor(0.5).prepare()?;
        let computed = Quantise::new(to, &x, &q).tensor_scale(&scale).prepare()?;
        let numbers = || Ok::<_, Error>((of_first.download()?, of_scale.download()?));
        let want = if is_first {
            computed.run(device)?;
            Some(numbers()?)
        } else {
            None
        };
        is_first = false;
        for (plan, (_, runs)) in plans.iter().zip(&mut by_plans) {
            let call = Quantise::new(to, &x, &q).tensor_scale_by(&scale, *plan);
            let call = call.prepare()?;
            if let Some(want) = &want {
                of_first.fill_bytes(0xff)?;
                call.run(device)?;
                ensure!(numbers()? == *want, "{plan}: other bits than by default");
            }
            runs.push(Box::new(move |device| call.run(device)));
        }
        ways[0].push(Box::new(move |device| given.run(device)));
        ways[1].push(Box::new(move |device| computed.run(device)));
        ways[2].push(Box::new(move |device| most.run(device)));
    }
    let [given, computed, most] = ways;
    let mut ways = vec![
        ("a scale that is given".to_string(), given),
        ("a scale that is computed".to_string(), computed),
        ("the largest size alone".to_string(), most),
    ];
    if lines.asked.has_others() {
        ways.extend(by_plans);
    }
    let case = json!({
        "kind": "quantisation of a tensor", "type": T::NAME, "to": to.to_string(), "extents": [count],
    });
    lines.measure(&title, bytes + count, &case, ways)
}

/// Plans of a tensor's scale whose blocks run at once, around the default one: other numbers of accesses in registers and shared memory,
/// of threads, of accesses at once, and other orders and hints. Those that the device does not take are left out.
fn scales_at_once(device: &Device, [from, to]: [Ty; 2]) -> Vec<TensorScalePlan> {
    let (arch, multiprocessors) = (device.arch(), device.limits().multiprocessors);
    let Ok(plan) = TensorScalePlan::at_once(from, to, arch, multiprocessors) else {
        return Vec::new();
    };
    let of = |change: &dyn Fn(&mut TensorScalePlan)| {
        let mut plan = plan;
        change(&mut plan);
        plan
    };
    let all = [
        plan,
        of(&|plan| plan.cached = 0),
        of(&|plan| plan.cached /= 2),
        of(&|plan| plan.cached = plan.cached * 3 / 2),
        of(&|plan| plan.reversed = false),
        of(&|plan| (plan.accesses, plan.held, plan.again_first) = (4, 18, true)),
        of(&|plan| {
            (plan.accesses, plan.held, plan.again_first) = (4, 18, true);
            plan.cached = 0;
        }),
        of(&|plan| plan.accesses = 4),
        of(&|plan| plan.held = 12),
        of(&|plan| plan.held = 0),
        of(&|plan| plan.kept /= 2),
        of(&|plan| plan.kept = 0),
        of(&|plan| {
            (plan.threads, plan.held, plan.accesses) = (1024, 6, 4);
            (plan.kept, plan.cached) = (plan.kept / 2, plan.cached / 2);
        }),
        of(&|plan| {
            (plan.threads, plan.held, plan.accesses) = (1024, 4, 4);
            (plan.kept, plan.cached) = (plan.kept / 2, 0);
        }),
        of(&|plan| {
            (plan.threads, plan.held) = (256, 48);
            (plan.kept, plan.cached) = (plan.kept * 2, plan.cached * 2);
        }),
    ];
    all.into_iter()
        .filter(|plan| plan.check(arch).is_ok())
        .collect()
}

/// Plans of rows that no vector divides, and of rows beyond the registers of a block, each with the share of a copy's speed that was predicted
/// for 64 MiB of `bf16` on an H200 before the first measurement.
fn long_and_odd_rows(plan: &QuantisePlan, columns: i64, bytes: i64) -> Vec<(String, QuantisePlan)> {
    let vector = 16 / bytes;
    let of = |access: QuantiseAccess, numbers: [i64; 4], kept: i64, held: bool, share: f64| {
        let [blocks, threads, rows, accesses] = numbers;
        let plan = QuantisePlan {
            vector,
            threads,
            rows,
            accesses,
            blocks,
            kept,
            access,
            held,
            ..*plan
        };
        (format!("predicted {share:.2}: {plan}"), plan)
    };
    let staged = |threads: i64, rows: i64, share: f64| {
        let elements = (columns + threads - 1) / threads;
        of(
            QuantiseAccess::Staged,
            [1, threads, rows, elements],
            0,
            true,
            share,
        )
    };
    let shifted = |threads: i64, rows: i64, accesses: i64, share: f64| {
        let numbers = [1, threads, rows, accesses];
        of(QuantiseAccess::Shifted, numbers, 0, true, share)
    };
    let cluster = |blocks: i64, threads: i64, accesses: i64, kept: i64, share: f64| {
        let numbers = [blocks, threads, 1, accesses];
        of(QuantiseAccess::Rows, numbers, kept, true, share)
    };
    let again = |blocks: i64, threads: i64, accesses: i64, kept: i64, share: f64| {
        let numbers = [blocks, threads, 1, accesses];
        of(QuantiseAccess::Rows, numbers, kept, false, share)
    };
    match columns {
        33 => vec![
            staged(1, 64, 0.93),
            staged(1, 128, 0.92),
            staged(2, 32, 0.90),
            staged(2, 64, 0.90),
            staged(4, 16, 0.85),
        ],
        4097 => vec![
            shifted(256, 1, 2, 0.95),
            shifted(128, 1, 4, 0.93),
            shifted(128, 2, 4, 0.93),
            shifted(512, 1, 1, 0.92),
            shifted(64, 2, 8, 0.85),
        ],
        65536 => vec![
            cluster(4, 512, 4, 0, 0.90),
            cluster(4, 256, 8, 0, 0.90),
            cluster(2, 512, 8, 0, 0.89),
            cluster(8, 256, 4, 0, 0.89),
            cluster(8, 512, 2, 0, 0.88),
            cluster(2, 1024, 4, 0, 0.86),
            cluster(1, 1024, 8, 0, 0.80),
            cluster(2, 512, 4, 1, 0.88),
        ],
        0x10_0000 => vec![
            cluster(8, 1024, 8, 1, 0.82),
            cluster(8, 1024, 4, 3, 0.82),
            again(8, 512, 4, 3, 0.80),
            again(8, 512, 8, 1, 0.80),
            again(8, 512, 8, 0, 0.70),
            again(8, 512, 4, 0, 0.62),
        ],
        _ => Vec::new(),
    }
}

fn quantise<T: GemmElement>(
    lines: &mut Lines<'_, '_>,
    bytes: i64,
    to: Ty,
    columns: i64,
    block: Option<i64>,
) -> Result<()> {
    let of = match block {
        Some(block) => format!("blocks of {block}"),
        None => format!("rows of {columns}"),
    };
    let title = format!(
        "quantisation of {of}, {} to {to}, {} MiB",
        T::TY,
        bytes >> 20
    );
    if !lines.asked.has(&title) {
        return Ok(());
    }
    let device = lines.device;
    let rows = bytes / T::BYTES as i64 / columns;
    let count = rows * columns;
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for _ in 0..sets(2 * bytes) {
        read.push(numbers::<T>(device, count)?);
        let scales = rows * block.map_or(1, |block| columns / block);
        written.push((
            device.uninitialised::<u8>(count as usize)?,
            device.uninitialised::<f32>(scales as usize)?,
        ));
    }
    let calls = read.iter().zip(&mut written).map(|(x, (q, scales))| {
        let shape = (rows, columns);
        let call = Quantise::new(to, &x.view(shape)?, &q.view_mut(shape)?);
        Ok(match block {
            Some(block) => call.blocks(block, &scales.view_mut((rows, columns / block))?),
            None => call.rows(&scales.view_mut(rows)?),
        })
    });
    let calls = calls.collect::<Result<Vec<_>, Error>>()?;
    let first = calls[0].prepare()?;
    let (Some(plan), Some(problem)) = (first.plan(), first.problem()) else {
        return Ok(());
    };
    let mut plans = vec![(format!("default: {plan}"), *plan)];
    let others: &[[i64; 2]] = if lines.asked.has_others() {
        &[[2, 1], [4, 1], [1, 2], [1, 4]]
    } else {
        &[]
    };
    for [up, down] in others {
        if plan.access == QuantiseAccess::Staged {
            break;
        }
        let threads = plan.threads * up / down;
        let accesses = (plan.accesses * down + up - 1) / up;
        for rows in [1, plan.rows * down / up, 2 * plan.rows * down / up] {
            let changed = QuantisePlan {
                threads,
                accesses,
                rows,
                ..*plan
            };
            let name = format!("{threads} threads, {accesses} accesses, {rows} rows");
            plans.push((name, changed));
        }
    }
    if lines.asked.has_others() {
        plans.extend(long_and_odd_rows(plan, columns, T::BYTES as i64));
    }
    let mut ways: Vec<Way<'_>> = Vec::new();
    for (name, plan) in plans {
        if plan.check(device.arch()).is_err() || !plan.takes(problem) {
            continue;
        }
        let runs = calls.iter().map(|call| {
            let call = call.prepare_with(|_, _| Ok(plan))?;
            Ok::<SetRun<'_>, Error>(Box::new(move |device: &Device| call.run(device)))
        });
        ways.push((name, runs.collect::<Result<Vec<_>, Error>>()?));
    }
    let case = json!({
        "kind": "quantisation of blocks", "type": T::NAME, "to": to.to_string(), "extents": [rows, columns],
        "block": block.unwrap_or(columns),
    });
    lines.measure(&title, problem.compulsory_bytes(), &case, ways)
}
