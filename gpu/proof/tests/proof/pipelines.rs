//! Kernels with a pipeline, recorded on the simulator and walked by the checker of `colex_sched`: what the barriers of a
//! built kernel allow has no fault, and what they allow without one of them has.

use std::collections::BTreeSet;

use colex_atom::{Arch, Interleave, L2Promotion, OobFill, TensorMap, TmaElement, TmaSwizzle, Ty};
use colex_gpu::attention::{Attention, AttentionMethod, AttentionOperands, AttentionPlan};
use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan, Operands};
use colex_gpu::kernels::{
    Compute, CopyCall, CopyMethod, GemmElement, GemmProblem, Major, Operand, View, ViewMut,
};
use colex_gpu::{Device, Element};
use colex_ir::Kernel;
use colex_ir::launch::{Argument, Launch, TensorMapArgument};
use colex_layout::Layout;
use colex_proof::corpus::{self, Sample};
use colex_proof::kernels::{copy_samples, product_samples};
use colex_proof::recorded::{Recorded, recorded};
use colex_proof::soak::takes;
use colex_sched::pipeline::{Barrier, Fault, Pipeline, Schedule, Step, check_within};
use colex_sched::{Order, RasterOrder};
use colex_sim::{Event, EventKind, Memory, Report, SimOptions, simulate};
use half::{bf16, f16};

/// The most states of a walk to a planted fault: most are found in few, and the search for a nearer one then ends sooner.
const STATES: [usize; 2] = [2_000, 200_000];

/// Whether a kernel waits for what completes later at barriers, or in groups of `cp.async`.
fn is_pipelined(kernel: &Kernel) -> bool {
    let text = kernel.ptx().expect("the kernel was built");
    text.contains("mbarrier.init") || text.contains("cp.async.commit_group")
}

fn device(arch: Arch) -> Device {
    let options = SimOptions {
        events: true,
        ..SimOptions::default()
    };
    Device::simulator_with(arch, options)
}

/// What was seen of all kernels.
#[derive(Default)]
struct Seen {
    kernels: BTreeSet<String>,
    runs: usize,
    states: usize,
    planted: usize,
}

impl Seen {
    /// Checks the run of a kernel's first cluster.
    fn check(&mut self, kernel: &str, what: &str, events: &[Event]) {
        let checked = recorded(events, 0).and_then(|run| Ok((run.check()?, run)));
        let (checked, run) = checked.unwrap_or_else(|why| panic!("{kernel}, {what}: {why}"));
        let before = self.planted;
        self.plant(&run, &format!("{kernel}, {what}"));
        println!(
            "{kernel}, {what}: {checked}; {} planted faults refused",
            self.planted - before
        );
        self.kernels.insert(kernel.to_string());
        self.runs += 1;
        self.states += checked.states;
    }

    /// Plants faults, each of which the checker refuses: at one barrier of each kind, or with `COLEX_PLANTED=all` at all.
    fn plant(&mut self, run: &Recorded, name: &str) {
        let all = std::env::var("COLEX_PLANTED").is_ok_and(|wish| wish == "all");
        let steps = || run.pipeline.actors.iter().flat_map(|actor| &actor.steps);
        let count = |is: &dyn Fn(&Step) -> bool| steps().filter(|step| is(step)).count();
        let mut refuse = |what: &str, broken: &Pipeline| {
            let mut found = STATES.iter().map(|most| check_within(broken, *most));
            let ended = found.find(|found| !matches!(found, Err(Fault::TooManyStates { .. })));
            assert!(
                matches!(&ended, Some(Err(fault)) if !matches!(fault, Fault::Malformed { .. })),
                "{name}: {what}, and the checker finds {ended:?}:\n{broken}"
            );
            self.planted += 1;
        };
        let mut kinds = BTreeSet::new();
        for barrier in 0..run.mbarriers {
            let waits =
                |step: &Step| matches!(step, Step::Wait { barrier: b, .. } if *b == barrier);
            let tells = |step: &Step| match step {
                Step::Load { to, .. } => to.iter().any(|(_, told)| *told == Some(barrier)),
                _ => false,
            };
            let arrives = |step: &Step| match step {
                Step::Arrive { barrier: b } | Step::Expect { barrier: b, .. } => *b == barrier,
                _ => false,
            };
            // Where no thread waits for the first phase, its arrivals make no difference.
            let first = Step::Wait { barrier, parity: 0 };
            let is_full = count(&tells) > 0;
            let Barrier {
                name: called,
                arrivals,
                ..
            } = &run.pipeline.barriers[barrier];
            if count(&|step| *step == first) == 0 || !(kinds.insert((is_full, *arrivals)) || all) {
                continue;
            }
            if is_full {
                let broken = without(&run.pipeline, waits);
                refuse(&format!("no thread waits for {called}"), &broken);
            }
            let mut broken = run.pipeline.clone();
            for step in broken.actors.iter_mut().flat_map(|actor| &mut actor.steps) {
                match step {
                    Step::Wait { barrier: b, parity } if *b == barrier => *parity ^= 1,
                    _ => {}
                }
            }
            refuse(
                &format!("every wait for {called} is for the other phase"),
                &broken,
            );
            let mut broken = run.pipeline.clone();
            let arrival = broken.actors.iter_mut().find_map(|actor| {
                let at = actor.steps.iter().position(arrives)?;
                Some(actor.steps.remove(at))
            });
            assert!(arrival.is_some(), "{name}: no thread arrives at {called}");
            refuse(&format!("an arrival at {called} is missing"), &broken);
        }
        let waits = |step: &Step| matches!(step, Step::WaitGroups { .. });
        if count(&waits) > 0 {
            refuse(
                "no thread waits for groups of copies",
                &without(&run.pipeline, waits),
            );
            let commits = |step: &Step| matches!(step, Step::Commit);
            refuse("no group is committed", &without(&run.pipeline, commits));
            let meets = |step: &Step| matches!(step, Step::Sync { .. });
            if count(&meets) > 0 {
                refuse(
                    "no warp waits for the others",
                    &without(&run.pipeline, meets),
                );
            }
        }
    }
}

/// A pipeline without some of its steps.
fn without(pipeline: &Pipeline, dropped: impl Fn(&Step) -> bool) -> Pipeline {
    let mut all = pipeline.clone();
    for actor in &mut all.actors {
        actor.steps.retain(|step| !dropped(step));
    }
    all
}

/// Runs a product by a plan, and returns its kernel with what happened.
fn product<T: GemmElement, C: GemmElement>(
    arch: Arch,
    problem: GemmProblem,
    plan: GemmPlan,
) -> (Kernel, Vec<Event>) {
    let device = device(arch);
    let length = |name| {
        let layout = problem.layout(name).expect("a problem has extents");
        layout.cosize().expect("it is small") as usize
    };
    let zeros = |count: usize| T::from_bytes(&vec![0; count * T::BYTES]);
    let a = device
        .upload(&zeros(length(Operand::A)))
        .expect("a simulator");
    let b = device
        .upload(&zeros(length(Operand::B)))
        .expect("a simulator");
    let c = C::from_bytes(&vec![0; length(Operand::C) * C::BYTES]);
    let mut c = device.upload(&c).expect("a simulator");
    let call = problem
        .on(&a, &b, &mut c)
        .and_then(|gemm| gemm.prepare_with(|_, _| Ok(plan)));
    let call = call.unwrap_or_else(|error| panic!("{plan}: {error}"));
    let mut reports = call
        .profile(&device)
        .unwrap_or_else(|fault| panic!("{plan}: {fault}"));
    let built = call.built().expect("the problem has elements");
    (built.kernel.clone(), reports.remove(0).events)
}

/// The same of types that a plan names.
fn product_of(arch: Arch, problem: GemmProblem, plan: GemmPlan) -> (Kernel, Vec<Event>) {
    let Operands { ab, c, .. } = plan.operands;
    match (ab, c) {
        (Ty::F16, Ty::F16) => product::<f16, f16>(arch, problem, plan),
        (Ty::F16, Ty::F32) => product::<f16, f32>(arch, problem, plan),
        (Ty::Bf16, Ty::F32) => product::<bf16, f32>(arch, problem, plan),
        (Ty::Bf16, Ty::Bf16) => product::<bf16, bf16>(arch, problem, plan),
        (Ty::Tf32, Ty::F32) => product::<f32, f32>(arch, problem.compute(Compute::Tf32), plan),
        (Ty::S8, Ty::S32) => product::<i8, i32>(arch, problem, plan),
        (ab, c) => {
            panic!("no kernel with a pipeline multiplied {ab} into {c}: give its types a case here")
        }
    }
}

/// A problem of `m` by `n` by `k` tiles of a plan.
fn problem(plan: &GemmPlan, [m, n, k]: [i64; 3]) -> GemmProblem {
    let [bm, bn, bk] = plan.tile;
    let mut problem = GemmProblem::new(m * bm, n * bn, k * bk);
    problem.majors = plan.operands.majors;
    problem.beta(if plan.operands.beta { 1.0 } else { 0.0 })
}

/// The library's products: every sample with more tiles along K than are on their way at once, and Hopper's in small tiles
/// of which a cluster takes more than one.
fn products(seen: &mut Seen) {
    for (i, (method, arch, operands)) in product_samples().into_iter().enumerate() {
        // Of the three orders of each case another one.
        if !takes(3, i + i / 3) {
            continue;
        }
        let plan = GemmPlan::new(method, operands);
        let kernel = plan.build(arch).expect("a sample is built").kernel;
        if is_pipelined(&kernel) {
            let blocks = if method == GemmMethod::Hopper { 2 } else { 1 };
            let problem = problem(&plan, [blocks, 1, plan.stages + 1]);
            let (kernel, events) = product_of(arch, problem, plan);
            seen.check(&kernel.name, &format!("{plan}, {problem}"), &events);
        }
    }
    for (raster, warps, stages) in [(RasterOrder::AlongM, 1, 2), (RasterOrder::AlongN, 2, 3)] {
        for (c, beta) in [(Ty::F16, false), (Ty::F32, true)] {
            let operands = Operands {
                ab: Ty::F16,
                c,
                majors: [Major::Second; 3],
                vectors: [8, 8, 128 / i64::from(c.bits())],
                beta,
                gated: false,
            };
            let plan = GemmPlan {
                tile: [64 * warps, 32, 16],
                warps: [warps, 1],
                stages,
                order: Order::Grouped { width: 3, raster },
                ..GemmPlan::new(GemmMethod::Hopper, operands)
            };
            // 72 clusters' tiles for the 66 clusters of a device.
            let tiles = problem(&plan, [18, 8, 2]);
            let (kernel, events) = product_of(Arch::Sm90a, tiles, plan);
            seen.check(&kernel.name, &format!("{plan}, {tiles}"), &events);
            // Consumers that take tiles in turn: two, and for some clusters a third.
            let plan = GemmPlan {
                tile: [64, 32, 16],
                warps: [1, 1],
                schedule: Schedule::Pingpong,
                ..plan
            };
            let tiles = problem(&plan, [36, 8, 2]);
            let (kernel, events) = product_of(Arch::Sm90a, tiles, plan);
            seen.check(&kernel.name, &format!("{plan}, {tiles}"), &events);
        }
    }
}

/// Runs a copy, and returns its kernel with what was counted.
fn copy<T: Element>(
    arch: Arch,
    method: CopyMethod,
    [source, destination]: [&Layout; 2],
) -> (Kernel, Vec<Report>) {
    let device = device(arch);
    let buffer = |layout: &Layout| {
        let count = layout.cosize().expect("it is small") as usize;
        device
            .upload(&T::from_bytes(&vec![0; count * T::BYTES]))
            .expect("a simulator")
    };
    let (from, mut to) = (buffer(source), buffer(destination));
    let from = View::new(&from, source.clone()).expect("it fits");
    let to = ViewMut::new(&mut to, destination.clone()).expect("it fits");
    let call = CopyCall::new(&from, &to, Some(method)).expect("a sample");
    let kernel = call
        .plan()
        .expect("a sample has elements")
        .kernel(arch)
        .expect("a sample is built")
        .kernel
        .clone();
    (
        kernel,
        call.profile(&device).expect("the sample has no fault"),
    )
}

/// The library's copies through shared memory.
fn copies(seen: &mut Seen) {
    for (method, [source, destination], bytes, arch) in copy_samples() {
        macro_rules! by_width {
            ($($width:literal => $ty:ty),*) => {
                match bytes {
                    $($width => copy::<$ty>(arch, method, [&source, &destination]),)*
                    other => panic!("no element has {other} bytes"),
                }
            };
        }
        let (kernel, reports) = by_width!(1 => u8, 2 => f16, 4 => f32, 8 => f64);
        if !is_pipelined(&kernel) {
            continue;
        }
        let waits = |report: &&Report| {
            let mut kinds = report.events.iter().map(|event| &event.kind);
            kinds.any(|kind| matches!(kind, EventKind::Init { .. }))
        };
        // What is left of the elements may be the matter of a kernel without barriers.
        let report = reports.iter().find(waits).expect("a launch of the kernel");
        let what = format!("{method}, {bytes} bytes");
        seen.check(&kernel.name, &what, &report.events);
    }
}

/// A matrix of bf16 by boxes of 64 columns, as a tensor map.
fn map(memory: &mut Memory, rows: i64, columns: i64, swizzle: TmaSwizzle) -> Argument {
    let address = memory
        .allocate((rows * columns * 2) as u64)
        .expect("it is small");
    memory
        .write(address, &vec![0; (rows * columns * 2) as usize])
        .expect("it was allocated");
    let map = TensorMap {
        element: TmaElement::Bf16,
        dims: vec![columns, rows],
        strides: vec![columns * 2],
        extents: vec![64, rows],
        element_strides: vec![1, 1],
        im2col: None,
        swizzle,
        interleave: Interleave::None,
        l2: L2Promotion::None,
        fill: OobFill::Zero,
    };
    Argument::TensorMap(Box::new(TensorMapArgument {
        map,
        address,
        encoded: None,
    }))
}

/// The kernels of the corpus that are not the library's.
fn samples(seen: &mut Seen, all: &[Sample]) {
    for sample in all {
        let kernel = &sample.kernel;
        if seen.kernels.contains(&kernel.name) || !is_pipelined(kernel) {
            continue;
        }
        let mut memory = Memory::default();
        let buffer = |memory: &mut Memory, bytes: u64| {
            let at = memory.allocate(bytes).expect("it is small");
            memory
                .write(at, &vec![0; bytes as usize])
                .expect("it was allocated");
            Argument::Pointer(at)
        };
        let (launch, arguments) = match kernel.name.as_str() {
            // One tile more is loaded than multiplied.
            "pipelined" => {
                let source = buffer(&mut memory, 6 * 1024);
                let result = buffer(&mut memory, 32 * 16);
                (Launch::new(1, 32), vec![source, Argument::U32(5), result])
            }
            "warpgroups" => {
                let a = map(&mut memory, 64, 6 * 64, TmaSwizzle::B128);
                let b = map(&mut memory, 128, 6 * 64, TmaSwizzle::B128);
                let result = buffer(&mut memory, 128 * 256);
                let launch = Launch::new(1, 256).dynamic_shared(4 * (64 + 128) * 128);
                (launch, vec![a, b, Argument::U32(6), result])
            }
            "through_shared" => {
                let maps = [(); 2].map(|()| map(&mut memory, 64, 128, TmaSwizzle::None));
                (Launch::new(2, 32).cluster(2), maps.to_vec())
            }
            other => panic!("`{other}` waits at barriers: say here how it is launched"),
        };
        let options = SimOptions {
            events: true,
            ..SimOptions::default()
        };
        let report = simulate(kernel, &launch, &arguments, &mut memory, &options);
        let report = report.unwrap_or_else(|fault| panic!("{}: {fault}", kernel.name));
        seen.check(&kernel.name, &kernel.target.to_string(), &report.events);
    }
}

/// A kernel of the corpus or the library that waits at barriers and is not among the runs has no case here, or no events.
#[test]
fn the_checker_accepts_every_pipeline_and_refuses_it_with_a_fault() {
    let mut seen = Seen::default();
    products(&mut seen);
    copies(&mut seen);
    let all = corpus::samples().expect("samples are built");
    samples(&mut seen, &all);
    for Sample { kernel, .. } in &all {
        assert!(
            seen.kernels.contains(&kernel.name) || !is_pipelined(kernel),
            "`{}` was not recorded",
            kernel.name
        );
    }
    println!(
        "law recorded.pipelines: {} runs, {} states",
        seen.runs, seen.states
    );
    println!("law recorded.planted_faults: {} cases", seen.planted);
}

/// Runs attention to 160 keys of one head of 64 features by a plan, and returns the kernel, its plan in words and what happened.
fn attention_of(
    arch: Arch,
    queries: i64,
    plan: impl FnOnce(AttentionOperands) -> AttentionPlan,
) -> (Kernel, String, Vec<Event>) {
    let device = device(arch);
    let x = device.upload(&[f16::ONE; 160 * 64]).expect("a simulator");
    let mut o = device.poisoned::<f16>(128 * 64).expect("a simulator");
    let [q, keys] = [queries, 160].map(|rows| x.view((1, 1, rows, 64)).expect("it fits"));
    let output = o.view_mut((1, 1, queries, 64)).expect("it fits");
    let call = Attention::new(&q, &keys, &keys, &output);
    let call = call
        .prepare_with(|operands, _| Ok(plan(operands)))
        .expect("a kernel takes the plan");
    let mut reports = call
        .profile(&device)
        .unwrap_or_else(|fault| panic!("{call}: {fault}"));
    let kernel = &call.built().expect("there are queries").kernel;
    (kernel.clone(), call.to_string(), reports.remove(0).events)
}

/// The library's attention on Hopper, of five blocks of keys in rings of two stages: each ring turns twice.
#[test]
fn the_checker_accepts_the_pipelines_of_attention_and_refuses_them_with_a_fault() {
    type Change = fn(&mut AttentionPlan);
    let mut seen = Seen::default();
    let cases: [(&str, i64, Change); 4] = [
        ("one consumer", 64, |_| {}),
        ("one product after the other", 64, |plan| {
            plan.overlap = false;
        }),
        ("consumers in turns", 128, |plan| {
            (plan.tile[0], plan.consumers, plan.turns) = (128, 2, true);
        }),
        ("a cluster", 128, |plan| plan.cluster = 2),
    ];
    for (what, queries, change) in cases {
        let (kernel, call, events) = attention_of(Arch::Sm90a, queries, |operands| {
            let mut plan = AttentionPlan {
                tile: [64, 32],
                consumers: 1,
                turns: false,
                stages: 2,
                ..AttentionPlan::new(AttentionMethod::Hopper, operands)
            };
            change(&mut plan);
            plan
        });
        assert!(is_pipelined(&kernel), "{what}");
        seen.check(&kernel.name, &format!("{what}, {call}"), &events);
    }
    println!(
        "law recorded.attention: {} runs, {} states, {} planted faults",
        seen.runs, seen.states, seen.planted
    );
}

/// The library's attention on Ampere, whose warps all load and multiply: the stages are groups of `cp.async`, which each thread
/// waits for, and barriers of the block say that the others have.
#[test]
fn the_checker_accepts_attention_by_groups_of_copies_and_names_a_planted_fault() {
    let mut seen = Seen::default();
    // Consumers, stages, keys of a step, parts of the keys; and what the checker says of both planted faults.
    let cases = [
        (
            (4, 2, 32, 1),
            [
                "warp 0 of block 0, step 33: the load of 2 overwrites bytes from 12288 of block 0, where 1 is still to be read",
                "warp 3 of block 0, step 36: the multiply of 2 reads bytes from 8192 of block 0, which is waiting for 2 to land",
            ],
        ),
        (
            (4, 3, 32, 1),
            [
                "warp 0 of block 0, step 35: the load of 2 overwrites bytes from 8192 of block 0, where 1 is still to be read",
                "warp 3 of block 0, step 38: the multiply of 1 reads bytes from 12288 of block 0, which is waiting for 1 to land",
            ],
        ),
        (
            (2, 4, 16, 1),
            [
                "warp 0 of block 0, step 67: the load of 3 overwrites bytes from 4096 of block 0, where 2 is still to be read",
                "warp 0 of block 0, step 70: the multiply of 2 reads bytes from 6144 of block 0, which is waiting for 2 to land",
            ],
        ),
        (
            (4, 2, 16, 2),
            [
                "warp 0 of block 0, step 33: the load of 2 overwrites bytes from 10240 of block 0, where 1 is still to be read",
                "warp 3 of block 0, step 36: the multiply of 2 reads bytes from 8192 of block 0, which is waiting for 2 to land",
            ],
        ),
    ];
    for ((consumers, stages, keys, splits), faults) in cases {
        let (kernel, call, events) =
            attention_of(Arch::Sm80, 16 * consumers, |operands| AttentionPlan {
                tile: [16 * consumers, keys],
                consumers,
                stages,
                splits,
                ..AttentionPlan::new(AttentionMethod::Ampere, operands)
            });
        assert!(is_pipelined(&kernel), "{call}");
        seen.check(&kernel.name, &call, &events);
        let run = recorded(&events, 0).expect("it was checked");
        let planted = |change: fn(&mut Vec<Step>)| {
            let mut broken = run.pipeline.clone();
            let mut actors = broken.actors.iter_mut();
            let first = actors.find(|actor| actor.name == "warp 0 of block 0");
            change(&mut first.expect("it loads and reads").steps);
            let fault = check_within(&broken, STATES[1]).expect_err("a fault was planted");
            fault.to_string()
        };
        // The warp begins the loads of a step before the others have read what these overwrite.
        let early = planted(|steps| {
            let at = steps
                .windows(2)
                .rposition(|two| matches!(two, [Step::Sync { .. }, Step::Load { .. }]));
            let at = at.expect("a step begins with the others");
            let behind = steps[at..].iter().position(|step| *step == Step::Commit);
            steps[at..=at + behind.expect("the loads are a group")].rotate_left(1);
        });
        // The warp waits for one group fewer than the step has.
        let unwaited = planted(|steps| {
            let last = steps
                .iter()
                .rposition(|step| matches!(step, Step::Multiply { .. }));
            let mut before = steps[..last.expect("it reads")].iter_mut().rev();
            let pending = before.find_map(|step| match step {
                Step::WaitGroups { pending } => Some(pending),
                _ => None,
            });
            *pending.expect("it waits for its copies") += 1;
        });
        assert_eq!([&*early, &*unwaited], faults, "{call}");
    }
    println!(
        "law recorded.attention_groups: {} runs, {} states, {} planted faults",
        seen.runs, seen.states, seen.planted
    );
}
