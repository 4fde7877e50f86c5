//! SwiGLU in one product, against a plain product with as many operations, and against cuBLASLt followed by an elementwise
//! kernel: bf16, K contiguous in A and B, N in C.

use std::path::Path;

use anyhow::{Result, ensure};
use colex_atom::Ty;
use colex_gpu::elementwise::{Map, MapExpression};
use colex_gpu::gemm::Epilogue;
use colex_gpu::kernels::gemm::{Gemm, GemmCall, GemmMethod, GemmPlan};
use colex_gpu::kernels::{GemmProblem, View, ViewMut};
use colex_gpu::{Device, Repeats, Timing};
use colex_layout::Layout;
use colex_proof::cublaslt::Opponent;
use colex_sched::pipeline::Schedule;
use half::bf16;
use serde_json::json;

use super::sweep::{CHOICES, Lines, PROTOCOL, Work, difference, normal, round, samples};
use crate::bench::device::{commit, driver};
use crate::bench::host;

/// M, N of each factor, K: the sizes of the goal, and those of a step of decoding.
const SHAPES: [[i64; 3]; 2] = [[8192, 14336, 4096], [64, 14336, 4096]];

const REPEATS: Repeats = Repeats {
    warmups: 1,
    samples: 9,
    batch: 3,
};

pub(in crate::bench) fn run(device: &Device, json: Option<&Path>) -> Result<()> {
    let mut lines = Lines::new(json)?;
    println!(
        "{}, {}; {PROTOCOL}\nspeed over a plain product of as many operations | over the fastest of {CHOICES} algorithms of \
         cuBLASLt and a map",
        device.name(),
        driver(device)
    );
    lines.write(&json!({
        "bench": "swiglu", "device": device.name(), "driver": driver(device), "date": host::today(), "commit": commit(),
        "protocol": PROTOCOL,
    }))?;
    SHAPES
        .into_iter()
        .try_for_each(|shape| one(device, shape, &mut lines))
}

/// The plan whose consumers take tiles in turn.
fn in_turn(plan: GemmPlan) -> GemmPlan {
    GemmPlan {
        schedule: Schedule::Pingpong,
        ..plan
    }
}

/// The plans beside the usual one.
fn variants(usual: GemmPlan) -> Vec<GemmPlan> {
    let of = |[m, n]: [i64; 2], warps: i64, cluster: [i64; 3], stages: i64| GemmPlan {
        tile: [m, n, usual.tile[2]],
        warps: [warps, 1],
        cluster,
        stages,
        swap: false,
        split: 1,
        undivided: 0,
        ..usual
    };
    vec![
        of([128, 128], 2, [2, 1, 1], 4),
        of([128, 128], 2, [1, 2, 1], 4),
        of([128, 128], 2, [1, 1, 1], 4),
        of([128, 96], 2, [2, 1, 1], 5),
        of([64, 128], 1, [2, 1, 1], 5),
        of([64, 64], 1, [1, 1, 1], 8),
        in_turn(of([128, 96], 1, [2, 1, 1], 4)),
        in_turn(of([128, 96], 1, [1, 2, 1], 4)),
        in_turn(of([128, 64], 1, [2, 1, 1], 5)),
    ]
}

fn one(device: &Device, [m, n, k]: [i64; 3], lines: &mut Lines) -> Result<()> {
    let a = device.uninitialised::<bf16>((m * k) as usize)?;
    let factors = device.uninitialised::<bf16>((2 * n * k) as usize)?;
    normal(&a)?;
    normal(&factors)?;
    let (gate, up) = (
        factors.slice(..(n * k) as usize)?,
        factors.slice((n * k) as usize..)?,
    );
    let mut wide = device.uninitialised::<bf16>((m * 2 * n) as usize)?;
    let raw_wide = wide.clone();
    let mut narrow = device.uninitialised::<bf16>((m * n) as usize)?;
    let raw_narrow = narrow.clone();
    let mut mapped = device.uninitialised::<bf16>((m * n) as usize)?;
    let raw_mapped = mapped.clone();

    let swiglu = Epilogue::new(Ty::F32, |e| {
        (e.accumulator().silu() * e.second_accumulator()).to(Ty::Bf16)
    })?;
    let a_view = a.view((m, k))?;
    let narrow_view = narrow.view_mut((m, n))?;
    let gated = Gemm::new(&a_view, &gate.view((n, k))?, &narrow_view);
    let gated = gated.b2(&up.view((n, k))?).epilogue(&swiglu);
    let wide_view = wide.view_mut((m, 2 * n))?;
    let plain = Gemm::new(&a_view, &factors.view((2 * n, k))?, &wide_view).prepare()?;
    let mut calls: Vec<(String, GemmCall<'_>)> = vec![
        ("plain".to_string(), plain),
        ("swiglu".to_string(), gated.prepare()?),
    ];
    if let Some(usual) = calls[1].1.plan().copied() {
        for plan in variants(usual) {
            if usual.method != GemmMethod::Hopper || plan == usual {
                continue;
            }
            match gated.prepare_with(|_, _| Ok(plan)) {
                Ok(call) => calls.push(("swiglu".to_string(), call)),
                Err(why) => println!("  {plan}: {why}"),
            }
        }
    }
    let problem = GemmProblem::new(m, 2 * n, k);
    let library = Opponent::new::<bf16, bf16>(device, &problem, CHOICES)?;
    let formula = MapExpression::new(|e| {
        let [gate, up] = ["gate", "up"].map(|name| e.tensor(name, Ty::Bf16).to(Ty::F32));
        e.output("y", (gate.silu() * up).to(Ty::Bf16));
    })?;
    let half = Layout::new((m, n), (2 * n, 1))?;
    let behind = raw_wide.slice(n as usize..)?;
    let (left, right) = (
        View::new(&raw_wide, half.clone())?,
        View::new(&behind, half)?,
    );
    let mapped_view: ViewMut<'_, bf16> = mapped.view_mut((m, n))?;
    let map = Map::new(&formula)
        .input("gate", &left)
        .input("up", &right)
        .output("y", &mapped_view)
        .prepare()?;

    library.run(device, 0, [&a, &factors], &raw_wide)?;
    map.run(device)?;
    let expected = samples(&raw_mapped)?;
    for (_, call) in &calls[1..] {
        raw_narrow.fill_bytes(0xff)?;
        call.run(device)?;
        let off = difference(&samples(&raw_narrow)?, &expected);
        ensure!(off < 2e-2, "{m}x{n}x{k}: {call} is {off:.1e} off");
    }
    let mut works: Vec<Box<Work<'_>>> = Vec::new();
    for (_, call) in &calls {
        works.push(Box::new(move |device, _| call.run(device)));
    }
    for choice in 0..library.choices() {
        let (library, map, a, factors, c) = (&library, &map, &a, &factors, &raw_wide);
        works.push(Box::new(move |device, _| {
            library.run(device, choice, [a, factors], c)?;
            map.run(device)
        }));
    }
    let works: Vec<&Work<'_>> = works.iter().map(|work| &**work).collect();
    let times = device.time_in_turns(REPEATS, &works)?;
    let medians: Vec<f64> = times.iter().map(Timing::median).collect();
    let best = medians[calls.len()..]
        .iter()
        .copied()
        .fold(f64::INFINITY, f64::min);
    println!(
        "{m}x2x{n}x{k}: plain {:.1} us, cuBLASLt and a map {best:.1} us",
        medians[0]
    );
    for ((name, call), time) in calls.iter().zip(&medians) {
        println!(
            "  {name} {time:.1} us  {:.3} | {:.3}  {call}",
            medians[0] / time,
            best / time
        );
        lines.write(&json!({
            "m": m, "n": n, "k": k, "contender": name, "plan": call.to_string(), "us": round(*time),
            "over_plain": round(medians[0] / time), "over_library": round(best / time),
        }))?;
    }
    Ok(())
}
