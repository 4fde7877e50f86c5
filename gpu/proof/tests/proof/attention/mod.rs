//! Attention by the kernels of the library against softmax in double precision.

mod families;
mod schedules;

use colex_atom::{Arch, Ty};
use colex_gpu::attention::{
    Attention, AttentionMethod, AttentionOperands, AttentionPlan, AttentionProblem,
    AttentionTensor, Mask, reference,
};
use colex_gpu::kernels::GemmElement;
use colex_gpu::sim::{Schedule, SimOptions};
use colex_gpu::testing::Output;
use colex_gpu::{Device, Element, LaunchArg, Load, View, ViewMut};
use colex_layout::Layout;
use colex_proof::kernels::trapped;
use colex_proof::soak::{draws, takes};
use colex_proof::sweep::Random;
use half::{bf16, f16};

/// A layout of the modes of a tensor of the problem, in the order in which the kernel has them.
fn view_of(problem: &AttentionProblem, tensor: AttentionTensor) -> Layout {
    let (extents, strides) = (problem.extents(tensor), problem.strides[tensor as usize]);
    let modes = match tensor {
        AttentionTensor::V => [3, 2, 1, 0],
        _ => [2, 3, 1, 0],
    };
    let [shape, stride] = [extents, strides].map(|of| modes.map(|mode: usize| of[mode]));
    Layout::new(
        (shape[0], shape[1], shape[2], shape[3]),
        (stride[0], stride[1], stride[2], stride[3]),
    )
    .expect("extents above 0")
}

/// The sinks of the heads of a problem: some among the scores, one that is none, and one above them.
fn sinks_of(problem: &AttentionProblem) -> Vec<f32> {
    let stride = problem.sinks.unwrap_or(0);
    let sinks = [0.5, f32::NEG_INFINITY, 3.0, -2.0, 40.0];
    let mut all = vec![f32::NAN; (1 + (problem.heads[0] - 1) * stride) as usize];
    for head in 0..problem.heads[0] {
        all[(head * stride) as usize] = sinks[head as usize % sinks.len()];
    }
    all
}

/// Runs a plan of Hopper, and returns the relative error of the output and the largest one of the log-sum-exp.
fn run<T: Element + GemmElement>(
    problem: &AttentionProblem,
    change: impl FnOnce(&mut AttentionPlan),
    (blocks, seed): (usize, u64),
    number: &mut dyn FnMut() -> f32,
) -> Result<[f64; 2], String> {
    let said = |e: &dyn std::fmt::Display| e.to_string();
    let operands = AttentionOperands::of(problem, [0; 4]);
    let mut plan = AttentionPlan::new(AttentionMethod::Hopper, operands);
    change(&mut plan);
    let built = plan.build(Arch::Sm90a).map_err(|e| said(&e))?;
    assert_eq!(trapped(&built.kernel), [""; 0], "{plan}");
    let options = SimOptions::default().schedule(Schedule::from_seed(seed));
    let device = Device::simulator_with(Arch::Sm90a, options);
    let length = |tensor| {
        let layout = problem.layout(tensor).expect("a checked problem");
        layout.cosize().expect("small") as usize
    };
    let mut fill = |tensor| -> Vec<T> {
        (0..length(tensor))
            .map(|_| T::from_f64(f64::from(number())))
            .collect()
    };
    let (q, k, v) = (
        fill(AttentionTensor::Q),
        fill(AttentionTensor::K),
        fill(AttentionTensor::V),
    );
    let [on_q, on_k, on_v] = [&q, &k, &v].map(|host| device.upload(host).expect("memory"));
    let [batch, heads, queries, _] = problem.extents(AttentionTensor::O);
    let [_, keys] = problem.lengths;
    let mut out = Output::<T>::new(&device, length(AttentionTensor::O)).expect("memory");
    let mut sums = Output::<f32>::new(&device, (batch * heads * queries) as usize).expect("memory");
    let layouts = AttentionTensor::ALL.map(|tensor| view_of(problem, tensor));
    let of_sums =
        Layout::new((queries, heads, batch), (1, queries, heads * queries)).expect("extents");
    let kernel = built.load(&device).map_err(|e| said(&e))?;
    let sinks = sinks_of(problem);
    let on_sinks = device.upload(&sinks).expect("memory");
    let mut given: Vec<LaunchArg<'_>> = Vec::new();
    for (on, layout) in [&on_q, &on_k, &on_v].into_iter().zip(&layouts) {
        given.push(View::new(on, layout).map_err(|e| said(&e))?.into());
    }
    given.push(
        ViewMut::new(out.buffer(), &layouts[3])
            .map_err(|e| said(&e))?
            .into(),
    );
    if problem.log_sum_exp {
        given.push(
            ViewMut::new(sums.buffer(), &of_sums)
                .map_err(|e| said(&e))?
                .into(),
        );
    }
    if let Some(stride) = problem.sinks {
        let layout = Layout::new(heads, stride).expect("extents");
        given.push(View::new(&on_sinks, layout).map_err(|e| said(&e))?.into());
    }
    let sharing = problem.heads[0] / problem.heads[1];
    given.extend([queries, keys, heads, batch, sharing].map(|n| LaunchArg::from(n as u32)));
    match problem.softcap {
        Some(cap) => {
            given.push((cap * std::f32::consts::LOG2_E).into());
            given.push((problem.scale / cap).into());
        }
        None => given.push((problem.scale * std::f32::consts::LOG2_E).into()),
    }
    if let Mask::Window { left, right } = problem.mask {
        given.extend([left, right].map(|n| LaunchArg::from(n.min((1 << 24) - 1))));
    }
    kernel
        .launch([blocks], given)
        .map_err(|e| format!("{problem}, {plan}: {e}"))?;
    let found = out
        .elements()
        .map_err(|e| format!("{problem}, {plan}: {e}"))?;
    let expected = reference::attention_with_sinks(problem, &q, &k, &v, &sinks);
    let layout = problem
        .layout(AttentionTensor::O)
        .expect("a checked problem");
    let (mut apart, mut norm) = (0.0, 0.0);
    for (at, want) in expected.output.indexed_iter() {
        let at = [at.0, at.1, at.2, at.3].map(|i| i as i64);
        let offset = layout
            .at((at[0], at[1], at[2], at[3]))
            .expect("a coordinate");
        let found: f64 = found[offset as usize].to_f64();
        apart += (found - want) * (found - want);
        norm += want * want;
    }
    let mut worst = 0.0f64;
    if problem.log_sum_exp {
        let found = sums
            .elements()
            .map_err(|e| format!("{problem}, {plan}: {e}"))?;
        for (found, want) in found.iter().zip(expected.log_sum_exp.iter()) {
            let apart = if f64::from(*found) == *want {
                0.0
            } else {
                (f64::from(*found) - want).abs()
            };
            worst = if apart > worst || apart.is_nan() {
                apart
            } else {
                worst
            };
        }
    }
    Ok([
        if norm == 0.0 {
            apart
        } else {
            (apart / norm).sqrt()
        },
        worst,
    ])
}

/// Every mask, number of features, grouping, length and plan that the Hopper kernel takes, in adversarial schedules: each ring
/// is filled several times, blocks of keys are whole, masked and empty, and some queries see no key.
#[test]
fn law_hopper_attention_is_that_of_the_reference() {
    let cases = draws(8);
    let mut r = Random::new(2107);
    let mut worst = [0.0f64; 2];
    for case in 0..cases {
        let [width, outer] = [
            [64, 64],
            [128, 128],
            [64, 64],
            [96, 96],
            [64, 64],
            [256, 256],
            [192, 128],
            [192, 192],
        ][case % 8];
        let groups = [1, 1, 2, 3][r.below(4)];
        let of_keys = 1 + r.below(2) as i64;
        let lengths = [1 + r.below(200) as i64, 1 + r.below(260) as i64];
        let ty = if r.below(2) == 0 { Ty::Bf16 } else { Ty::F16 };
        let batch = 1 + r.below(2) as i64;
        let mut problem = AttentionProblem::new(
            ty,
            batch,
            [of_keys * groups, of_keys],
            lengths,
            [width, outer],
        );
        let side = |r: &mut Random| [0, 3, 70, 150, u32::MAX][r.below(5)];
        problem.mask = match r.below(4) {
            0 => Mask::Full,
            1 => Mask::Causal,
            _ => Mask::Window {
                left: side(&mut r),
                right: side(&mut r),
            },
        };
        if r.below(3) == 0 {
            problem.softcap = Some([0.5, 20.0][r.below(2)]);
        }
        problem.log_sum_exp = r.below(3) != 0;
        problem.sinks = [None, Some(1), Some(2)][r.below(3)];
        // Heads beside each other in a row, as a projection leaves them.
        if r.below(2) == 0 {
            for (tensor, strides) in AttentionTensor::ALL.into_iter().zip(&mut problem.strides) {
                let heads = problem.heads
                    [usize::from(matches!(tensor, AttentionTensor::K | AttentionTensor::V))];
                let length = problem.lengths
                    [usize::from(matches!(tensor, AttentionTensor::K | AttentionTensor::V))];
                let width = problem.features
                    [usize::from(matches!(tensor, AttentionTensor::V | AttentionTensor::O))];
                *strides = [length * heads * width, width, heads * width, 1];
            }
        }
        let consumers = 1 + r.below(3) as i64;
        let keys = [32, 48, 64, 80][r.below(4)];
        let stages = 1 + r.below(3) as i64;
        let (turns, strip) = (r.below(2) == 0, 1 + r.below(3) as i64);
        let (pairs, ahead) = (r.below(2) == 0, 1 + r.below(2) as i64);
        let (overlap, has_registers) = (r.below(2) == 0, r.below(2) == 0);
        let scale = [1.0, 4.0][r.below(2)];
        let mut number = {
            let mut r = Random::new(case as u64);
            move || (r.below(4001) as f32 / 1000.0 - 2.0) * scale
        };
        // Three consumers with 256 features have too few registers at entry.
        let consumers = if outer > 128 {
            consumers.min(2)
        } else {
            consumers
        };
        let change = |plan: &mut AttentionPlan| {
            plan.tile = [64 * consumers, keys];
            plan.consumers = consumers;
            plan.stages = stages;
            plan.turns = turns && consumers > 1;
            plan.strip = strip;
            plan.pairs = pairs && plan.operands.bounded == [false, true];
            plan.ahead = ahead;
            plan.overlap = overlap;
            plan.early = case % 2 == 1;
            let of_consumer = [248, 208, 160][consumers as usize - 1];
            plan.registers = has_registers.then_some([24, of_consumer]);
            // Wide heads leave no room for what was drawn.
            if plan.check(Arch::Sm90a).is_err() {
                (plan.stages, plan.ahead, plan.tile[1]) = (1, 1, 32);
            }
        };
        let at = (1 + r.below(4), case as u64);
        let found = match ty {
            Ty::Bf16 => run::<bf16>(&problem, change, at, &mut number),
            _ => run::<f16>(&problem, change, at, &mut number),
        };
        let [apart, sums] = found.unwrap_or_else(|e| panic!("case {case}: {e}"));
        let allowed = if ty == Ty::Bf16 { 5e-3 } else { 7e-4 };
        assert!(apart < allowed, "case {case}: {problem}: {apart:.1e}");
        assert!(
            sums < 1e-4,
            "case {case}: {problem}: log-sum-exp {sums:.1e}"
        );
        worst = [worst[0].max(apart), worst[1].max(sums)];
    }
    println!(
        "law attention.hopper: {cases} cases, worst {:.1e} and {:.1e}",
        worst[0], worst[1]
    );
}

#[test]
fn plans_that_the_hopper_kernel_does_not_take_are_refused() {
    let problem = AttentionProblem::new(Ty::F16, 1, [2, 2], [100, 100], [128, 128]);
    let said = |problem: &AttentionProblem, change: &dyn Fn(&mut AttentionPlan)| {
        let operands = AttentionOperands::of(problem, [0; 4]);
        let mut plan = AttentionPlan::new(AttentionMethod::Hopper, operands);
        change(&mut plan);
        plan.build(Arch::Sm90a)
            .expect_err("it is refused")
            .to_string()
    };
    let nothing = |_: &mut AttentionPlan| ();
    let mut odd = problem;
    odd.strides[1][2] = 132;
    let wide = AttentionProblem::new(Ty::F16, 1, [2, 2], [200, 100], [256, 256]);
    assert_eq!(
        [
            said(&problem, &|plan| plan.tile[1] = 100),
            said(&problem, &|plan| plan.tile[0] = 100),
            said(&problem, &|plan| plan.consumers = 8),
            said(&problem, &|plan| plan.strip = 0),
            said(&problem, &|plan| plan.stages = 3),
            said(&problem, &|plan| plan.packs = 2),
            said(&problem, &|plan| plan.splits = 2),
            said(&problem, &|plan| plan.cluster = 5),
            said(&problem, &|plan| (plan.cluster, plan.tile[1]) = (4, 80)),
            said(&problem.mask(Mask::Causal), &|plan| plan.cluster = 2),
            said(&problem, &|plan| plan.registers = Some([30, 240])),
            said(&problem, &|plan| plan.registers = Some([24, 160])),
            said(&problem, &|plan| plan.registers = Some([40, 240])),
            said(&wide, &|plan| {
                (plan.tile, plan.consumers) = ([192, 32], 3);
                (plan.stages, plan.ahead) = (1, 1);
            }),
            said(
                &AttentionProblem::new(Ty::F16, 1, [2, 2], [100, 100], [128, 64]),
                &nothing
            ),
            said(&odd, &nothing),
            said(&problem, &|plan| {
                (plan.tile[0], plan.consumers, plan.turns) = (64, 1, true);
            }),
            said(&problem, &|plan| plan.pairs = true),
            said(&problem.mask(Mask::Window { left: 9, right: 0 }), &|plan| {
                plan.pairs = true;
            }),
        ],
        [
            "the plan's number of keys of a block is 100: the Hopper kernel takes multiples of 16 to 256",
            "the plan's number of queries of a block is 100: the Hopper kernel takes 128 for 2 consumers",
            "the plan's number of consumers is 8: the Hopper kernel takes 1 to 7",
            "the plan's number of heads of a strip is 0: the Hopper kernel takes 1 to 65536",
            "the plan asks for 262304 bytes of shared memory for Q, K and V: the Hopper attention kernel takes at most 232448, 29856 fewer",
            "the Hopper kernel packs no heads: the Ampere kernel does",
            "the Hopper kernel does not divide the keys: the Ampere kernel does",
            "the plan's number of blocks of a cluster is 5: the Hopper kernel takes 1 to 4",
            "the plan's number of keys of a block is 80: clusters of 4 blocks of the Hopper kernel take multiples of 32",
            "the plan has clusters of 2 blocks: with a mask each block of the Hopper kernel loads its own keys",
            "the plan's number of registers of the producer is 30: the Hopper attention kernel takes 24 to 168, in multiples of 8",
            "the plan's number of registers of a consumer is 160: the Hopper attention kernel takes 168 to 256, in multiples of 8",
            "the plan asks for 520 registers for a thread of each warpgroup: the Hopper attention kernel takes at most 504, 16 fewer",
            "the plan asks for 132 registers for a product of a consumer at entry: the Hopper attention kernel takes at most 102, 30 fewer",
            "heads of 128 features of Q and K and 64 of V: the Hopper kernel takes heads of 64, 96, 128, 192 with 128 of V, 192 or 256 features",
            "addresses and strides allow [8, 4, 8, 8] elements per access to Q, K, V and O: the Hopper kernel takes 8",
            "the plan's consumers take turns: it has one consumer",
            "the plan computes tiles of queries in pairs: only under a causal mask one sees many keys and the other few",
            "the plan computes tiles of queries in pairs: only under a causal mask one sees many keys and the other few",
        ]
    );
}

/// Plans drawn over all fields: the check refuses a plan with a sentence, or its kernel is built. The build alone refuses none.
#[test]
fn law_a_plan_that_the_check_accepts_is_built() {
    let count = draws(6_000);
    let builds_all = count > 6_000;
    let mut r = Random::new(0x91a2);
    let [mut accepted, mut refused] = [0; 2];
    for i in 0..count {
        let mut of = |from: &[i64]| r.one(from);
        let widths = [64, 96, 128, 192, 256];
        let width = of(&widths);
        let features = [
            width,
            if of(&[0, 0, 0, 1]) == 1 {
                of(&widths)
            } else {
                width
            },
        ];
        let method = [AttentionMethod::Ampere, AttentionMethod::Hopper][of(&[0, 1]) as usize];
        let arch = [Arch::Sm80, Arch::Sm86, Arch::Sm90a][of(&[0, 1, 2, 2]) as usize];
        let wide = of(&[0, 0, 0, 1]) == 0;
        let vector = |n: i64| if wide { 8 } else { n };
        let operands = AttentionOperands {
            ty: [Ty::F16, Ty::Bf16, Ty::B1, Ty::S4]
                [of(&[0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 3]) as usize],
            features,
            bounded: [of(&[0, 1]) == 1, of(&[0, 1]) == 1],
            softcap: of(&[0, 1]) == 1,
            log_sum_exp: of(&[0, 1]) == 1,
            sinks: of(&[0, 1]) == 1,
            packed: [of(&[0, 0, 0, 1]) == 1; 2],
            page: [None, None, Some(16), Some(48), Some(24)][of(&[0, 0, 1, 2, 3, 4]) as usize],
            vectors: [0; 4].map(|_| vector(of(&[1, 2, 4, 8]))),
        };
        let consumers = of(&[1, 2, 3, 4, 5, 6, 7, 8, 12, 16]);
        let is_ampere = method == AttentionMethod::Ampere;
        let rows = if is_ampere {
            16 * consumers * of(&[1, 1, 2])
        } else {
            64 * consumers
        };
        let mut plan = AttentionPlan {
            tile: [
                rows,
                of(&[
                    1, 8, 15, 16, 32, 48, 64, 80, 96, 112, 128, 160, 176, 192, 256,
                ]),
            ],
            consumers,
            stages: of(&[2, 2, 2, 3, 4]),
            turns: of(&[0, 1]) == 1,
            pairs: of(&[0, 1]) == 1,
            ahead: of(&[1, 1, 2]),
            strip: of(&[1, 1, 3]),
            overlap: of(&[0, 1]) == 1,
            persistent: of(&[0, 1]) == 1,
            cluster: of(&[1, 1, 1, 2, 3, 4]),
            sorted: of(&[0, 0, 1]) == 1,
            early: of(&[0, 0, 1]) == 1,
            registers: match of(&[0, 0, 0, 1]) {
                0 => None,
                _ => Some([
                    of(&[24, 32, 40, 56, 30]),
                    of(&[128, 160, 200, 232, 240, 248]),
                ]),
            },
            ..AttentionPlan::new(method, operands)
        };
        if is_ampere {
            plan = AttentionPlan {
                turns: false,
                pairs: false,
                ahead: 1,
                strip: 1,
                overlap: false,
                persistent: false,
                cluster: 1,
                sorted: false,
                early: arch == Arch::Sm90a && plan.early,
                prefetch: of(&[0, 0, 1]).eq(&1).then(|| of(&[0, 1, 2, 8, 9])),
                next_early: of(&[0, 0, 1]) == 1,
                beside: of(&[0, 0, 1, 2, 8]),
                registers: None,
                packs: of(&[1, 1, 2, 3, 7, 64]),
                splits: of(&[1, 1, 2, 128]),
                by_lanes: of(&[0, 1]) == 1,
                ..plan
            };
        }
        // One number in eight is none that a plan could have.
        let wild = of(&[-1, 0, 1 << 40, i64::MIN, i64::MAX]);
        match of(&[
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
        ]) {
            1 => plan.tile[0] = wild,
            2 => plan.tile[1] = wild,
            3 => plan.consumers = wild,
            4 => plan.stages = wild,
            5 => plan.strip = wild,
            6 => plan.ahead = wild,
            7 => (plan.packs, plan.splits) = (wild, of(&[1, i64::MAX])),
            8 => plan.registers = Some([wild, of(&[wild, 240])]),
            9 => plan.cluster = wild,
            10 => plan.beside = wild,
            11 => plan.prefetch = Some(wild),
            _ => (),
        }
        // What is computed of any plan and any problem ends, without a panic.
        let mut number = |usual: &[i64]| match r.below(6_u64) {
            0 => r.one(&[-1, 0, 1 << 31, 1 << 40, i64::MIN, i64::MAX]),
            _ => r.one(usual),
        };
        let heads = [number(&[1, 8, 32]), number(&[1, 2, 8])];
        let lengths = [number(&[1, 5, 512, 4096]), number(&[1, 100, 4096])];
        let (batch, width) = (number(&[1, 4]), number(&[width]));
        let mut problem = AttentionProblem::new(operands.ty, batch, heads, lengths, [width; 2]);
        problem.strides[1][2] = number(&[width]);
        problem.mask = match number(&[1, 2, 3]) {
            1 => Mask::Full,
            2 => Mask::Causal,
            left => Mask::Window {
                left: left as u32,
                right: 3,
            },
        };
        let multiprocessors = number(&[132]) as u32;
        let suited = plan.suited_to(&problem, multiprocessors);
        for plan in [plan, suited] {
            let _ = plan.cost(&problem, multiprocessors).to_string();
            let _ = plan.workspace(&problem);
        }
        if plan.check(arch).is_ok() {
            let suited = suited.check(arch).map_err(|error| error.to_string());
            assert_eq!(suited, Ok(()), "case {i}, {plan} on {arch:?}");
        }
        let of_problem = AttentionOperands::of(&problem, [0; 4]);
        for plan in AttentionPlan::alternatives(&problem, of_problem, arch, multiprocessors) {
            assert_eq!(plan.check(arch).map_err(|error| error.to_string()), Ok(()));
        }
        for tensor in AttentionTensor::ALL {
            let _ = problem.layout(tensor);
        }
        let _ = (
            problem.check(),
            problem.mask.keys(lengths[0], lengths),
            problem.is_nothing(),
        );
        match plan.check(arch) {
            // Another plan may be taken, or no kernel takes the problem, or it has no meaning: keys in pages and in rows at once.
            Err(error) => {
                let is_meant = !(operands.packed[1] && operands.page.is_some());
                assert!(
                    error.plan().is_some() || error.is_unsupported() || !is_meant,
                    "case {i}, {plan} on {arch:?}: {error}"
                );
                refused += 1;
            }
            // Every plan is checked, and one accepted plan in eight is built.
            Ok(()) if accepted % 8 == 0 || builds_all => {
                accepted += 1;
                match plan.build(arch) {
                    Ok(built) => assert_eq!(
                        built.kernel.verify().map_err(|error| error.to_string()),
                        Ok(()),
                        "case {i}, {plan} on {arch:?}"
                    ),
                    Err(error) => {
                        panic!("case {i}, {plan} on {arch:?}, is accepted and not built: {error}")
                    }
                }
            }
            Ok(()) => accepted += 1,
        }
    }
    println!("law attention.plans: {count} cases, {accepted} accepted, {refused} refused");
    assert!(
        accepted > count / 100,
        "only {accepted} of {count} plans are accepted"
    );
}

/// Random calls of the library: types, head sizes, lengths, groups, masks, soft-caps, strides, alignments, magnitudes and plans. Each runs
/// with the asynchronous copies as late as possible, as early as possible, and at random.
#[test]
fn law_attention_is_that_of_the_reference() {
    let count = draws(2);
    let (mut elements, mut cases) = (0, 0);
    for (i, arch) in [Arch::Sm80, Arch::Sm86, Arch::Sm90a]
        .into_iter()
        .enumerate()
    {
        for seed in 0..3 {
            let options = SimOptions::default().schedule(Schedule::from_seed(seed));
            let device = Device::simulator_with(arch, options);
            let found = colex_proof::kernels::attention::check(&device, 30 + i as u64, count);
            elements += found.unwrap_or_else(|why| panic!("{arch}, schedule {seed}: {why}"))[0];
            cases += count;
        }
    }
    println!("law attention: {cases} cases, {elements} elements");
}

/// Sequences of any lengths in the rows of one tensor, with offsets that lie.
#[test]
fn law_attention_of_packed_sequences_is_that_of_each() {
    let rounds = draws(5);
    let (mut cases, mut elements) = (0, 0);
    for (i, arch) in [Arch::Sm80, Arch::Sm90a].into_iter().enumerate() {
        for seed in (0..3).filter(|seed| takes(3, i + *seed as usize)) {
            let options = SimOptions::default().schedule(Schedule::from_seed(seed));
            let device = Device::simulator_with(arch, options);
            let found =
                colex_proof::kernels::sequences::check_packed(&device, 70 + i as u64, rounds);
            elements += found.unwrap_or_else(|why| panic!("{arch}, schedule {seed}: {why}"))[0];
            cases += rounds;
        }
    }
    println!("law attention.packed: {cases} cases, {elements} elements");
}

/// Keys in the pages of a pool, with a table that lies.
#[test]
fn law_attention_to_pages_is_that_of_their_keys() {
    let rounds = draws(6);
    let (mut cases, mut elements) = (0, 0);
    for (i, arch) in [Arch::Sm80, Arch::Sm90a].into_iter().enumerate() {
        for seed in (0..3).filter(|seed| takes(3, i + *seed as usize)) {
            let options = SimOptions::default().schedule(Schedule::from_seed(seed));
            let device = Device::simulator_with(arch, options);
            let found =
                colex_proof::kernels::attention::pages::check_paged(&device, 90 + i as u64, rounds);
            elements += found.unwrap_or_else(|why| panic!("{arch}, schedule {seed}: {why}"))[0];
            cases += rounds;
        }
    }
    println!("law attention.pages: {cases} cases, {elements} elements");
}

/// Every combination of a call's options has the numbers of the reference or the documented error, and so has every combination of places
/// and masks with a field of a plan that only one method, or not every call, takes.
#[test]
fn law_every_combination_of_options_is_computed_or_refused() {
    use colex_proof::kernels::attention::options::{check_options, check_plan_options};
    let (mut of_calls, mut of_plans) = ([0; 2], [0; 2]);
    for arch in [Arch::Sm75, Arch::Sm80, Arch::Sm90a] {
        let device = Device::simulator(arch);
        let add = |sums: &mut [usize; 2], found: Result<[usize; 2], String>| {
            let found = found.unwrap_or_else(|why| panic!("{arch}: {why}"));
            sums.iter_mut().zip(found).for_each(|(sum, n)| *sum += n);
        };
        // A device of sm_90a has every kernel: it computes every places, with the scores and the methods in turn.
        let step = if arch == Arch::Sm90a { 5 } else { 11 };
        add(&mut of_calls, check_options(&device, step));
        if arch >= Arch::Sm80 {
            add(&mut of_plans, check_plan_options(&device));
        }
    }
    println!(
        "law attention.options: calls {} computed, {} refused; plans {} computed, {} refused",
        of_calls[0], of_calls[1], of_plans[0], of_plans[1]
    );
}

/// NaN and infinities in Q, K and V reach what the reference says, also in packed sequences and in pages of keys, and each field of a
/// plan changes nothing: the checks that a GPU runs with more rounds and plans.
#[test]
fn law_attention_of_any_numbers_and_fields_is_that_of_the_reference() {
    let rounds = draws(3);
    let mut counts = [0; 2];
    for (i, arch) in [Arch::Sm80, Arch::Sm90a].into_iter().enumerate() {
        let options = SimOptions::default().schedule(Schedule::from_seed(i as u64));
        let device = Device::simulator_with(arch, options);
        let special =
            colex_proof::kernels::attention::check_special(&device, 33 + i as u64, rounds);
        let packed =
            colex_proof::kernels::sequences::check_special_packed(&device, 35 + i as u64, rounds);
        let paged = colex_proof::kernels::attention::pages::check_special_paged(
            &device,
            37 + i as u64,
            rounds,
        );
        let fields = colex_proof::kernels::attention::check_fields(&device);
        for found in [special, packed, paged, fields] {
            let found = found.unwrap_or_else(|why| panic!("{arch}: {why}"));
            counts = [counts[0] + found[0], counts[1] + found[1]];
        }
    }
    let [elements, plans] = counts;
    println!("law attention.fields: {elements} elements of {plans} plans");
}

/// The numbers of Q, K and V.
fn numbers_of(problem: &AttentionProblem) -> [Vec<f16>; 3] {
    let mut r = Random::new(5);
    [0, 1, 2].map(|i| {
        let extents = problem.extents(AttentionTensor::ALL[i]);
        let number = |_| f16::from_f32(r.below(4001) as f32 / 1000.0 - 2.0);
        (0..extents.iter().product::<i64>()).map(number).collect()
    })
}

/// Runs a call on the simulator with a plan of the Ampere kernel, and returns the bits of O and of the log-sum-exp.
fn bits(
    problem: &AttentionProblem,
    schedule: u64,
    change: &dyn Fn(AttentionPlan) -> AttentionPlan,
) -> (Vec<u16>, Vec<u32>) {
    let on = (Arch::Sm80, AttentionMethod::Ampere);
    bits_on(on, problem, schedule, change)
}

/// The same with a plan of another kernel, and for another architecture.
fn bits_on(
    (arch, method): (Arch, AttentionMethod),
    problem: &AttentionProblem,
    schedule: u64,
    change: &dyn Fn(AttentionPlan) -> AttentionPlan,
) -> (Vec<u16>, Vec<u32>) {
    let options = SimOptions::default().schedule(Schedule::from_seed(schedule));
    let device = Device::simulator_with(arch, options);
    let numbers = numbers_of(problem);
    let [q, k, v] = [0, 1, 2].map(|i| {
        let memory = device.upload(&numbers[i]).expect("memory");
        (memory, problem.extents(AttentionTensor::ALL[i]))
    });
    let [batch, heads, queries, features] = problem.extents(AttentionTensor::O);
    let count = (batch * heads * queries) as usize;
    let mut o = device
        .poisoned::<f16>(count * features as usize)
        .expect("memory");
    let mut sums = device.poisoned::<f32>(count).expect("memory");
    {
        let [q, k, v] = [&q, &k, &v].map(|(memory, shape)| memory.view(*shape).expect("a view"));
        let o = o
            .view_mut([batch, heads, queries, features])
            .expect("a view");
        let sums = sums.view_mut([batch, heads, queries]).expect("a view");
        let call = Attention::new(&q, &k, &v, &o)
            .mask(problem.mask)
            .log_sum_exp(&sums);
        let sinks = device.upload(&sinks_of(problem)).expect("memory");
        let of_sinks;
        let call = match problem.sinks {
            Some(stride) => {
                let layout = Layout::new(heads, stride).expect("extents");
                of_sinks = View::new(&sinks, layout).expect("a view");
                call.sinks(&of_sinks)
            }
            None => call,
        };
        let plan = |operands, _| Ok(change(AttentionPlan::new(method, operands)));
        let call = call
            .prepare_with(plan)
            .expect("a plan that the kernel takes");
        call.run(&device)
            .unwrap_or_else(|e| panic!("{problem}, {call}: {e}"));
    }
    let o = o.download().expect("all is written");
    let sums = sums.download().expect("all is written");
    (
        o.iter().map(|x| x.to_bits()).collect(),
        sums.iter().map(|x| x.to_bits()).collect(),
    )
}

/// The problems of serving: few queries, some heads of Q for each head of K, keys that no tile divides, and none.
fn serving() -> Vec<AttentionProblem> {
    let masks = [
        Mask::Full,
        Mask::Causal,
        Mask::Window { left: 20, right: 0 },
    ];
    let mut all = Vec::new();
    for (queries, group, keys) in [(1, 4, 150), (3, 6, 97), (5, 3, 64), (7, 2, 3), (1, 8, 0)] {
        for mask in masks {
            let problem =
                AttentionProblem::new(Ty::F16, 2, [2 * group, 2], [queries, keys], [64, 64]);
            all.push(problem.mask(mask));
        }
    }
    all
}

/// A row does not depend on the rows beside it: the heads of a pack have the bits that they have alone.
#[test]
fn law_packed_heads_have_the_bits_of_separate_ones() {
    let mut cases = 0;
    for (number, problem) in serving().into_iter().enumerate() {
        let group = problem.heads[0] / problem.heads[1];
        let alone = bits(&problem, 0, &|plan| plan);
        for packs in (2..=group).filter(|packs| group % packs == 0) {
            let tiles = [(16, 1), (32, 2), (64, 4)].into_iter().enumerate();
            let number = number + packs as usize;
            for (_, (tile, consumers)) in tiles.filter(|(i, _)| takes(3, number + i)) {
                let found = bits(&problem, packs as u64, &|plan| AttentionPlan {
                    tile: [tile, plan.tile[1]],
                    consumers,
                    packs,
                    ..plan
                });
                assert_eq!(found, alone, "{problem}, packs of {packs}, {tile} rows");
                cases += 1;
            }
        }
    }
    println!("law attention.packs: {cases} cases");
}

/// NaN reaches what IEEE arithmetic says: a NaN of Q its row, one of K the rows that see the key, one of V its column. A score
/// of -inf is a key that is not seen, one of +inf makes a NaN, and large scores do not overflow. Both kernels.
#[test]
fn law_nan_and_infinity_reach_what_arithmetic_says() {
    const KEYS: usize = 70;
    const QUERIES: usize = 5;
    const WIDTH: usize = 64;
    let mut r = Random::new(77);
    let mut drawn = |count: usize| -> Vec<f16> {
        let numbers = (0..count).map(|_| r.below(2001) as f32 / 1000.0 - 1.0);
        numbers.map(f16::from_f32).collect()
    };
    let clean = [QUERIES, KEYS, KEYS].map(|rows| drawn(rows * WIDTH));
    let problem = AttentionProblem::new(Ty::F16, 1, [1, 1], [QUERIES as i64, KEYS as i64], [64; 2]);
    let causal = problem.mask(Mask::Causal);
    type Change = fn(&mut [Vec<f16>; 3]);
    type IsNan = fn(usize, usize) -> bool;
    fn enlarge([q, k, _]: &mut [Vec<f16>; 3], factor: f32) {
        for x in q.iter_mut().chain(k) {
            *x = f16::from_f32(x.to_f32() * factor);
        }
    }
    // The problem, what is changed, and whether the output (query, feature) is then NaN.
    let cases: [(&AttentionProblem, Change, IsNan); 7] = [
        (
            &problem,
            |[q, ..]| q[2 * WIDTH + 7] = f16::NAN,
            |i, _| i == 2,
        ),
        (
            &causal,
            |[_, k, _]| k[68 * WIDTH] = f16::NAN,
            // Query i sees the keys up to i + 65.
            |i, _| i >= 3,
        ),
        (
            &problem,
            |[.., v]| v[3 * WIDTH + 9] = f16::NAN,
            |_, d| d == 9,
        ),
        (
            &problem,
            |[q, k, _]| {
                q.iter_mut().step_by(WIDTH).for_each(|x| *x = f16::ONE);
                k[4 * WIDTH] = f16::NEG_INFINITY;
            },
            |_, _| false,
        ),
        (
            &problem,
            |[q, k, _]| {
                q.iter_mut().step_by(WIDTH).for_each(|x| *x = f16::ONE);
                k[4 * WIDTH] = f16::INFINITY;
            },
            |_, _| true,
        ),
        (&problem, |of| enlarge(of, 2000.0), |_, _| false),
        // The exponents of 2 are some 2^30.
        (&problem, |of| enlarge(of, 60000.0), |_, _| true),
    ];
    for arch in [Arch::Sm80, Arch::Sm90a] {
        let device = Device::simulator(arch);
        for (number, (problem, change, is_nan)) in cases.iter().enumerate() {
            let mut host = clean.clone();
            change(&mut host);
            let [q, k, v] = &host;
            let [on_q, on_k, on_v] = [q, k, v].map(|all| device.upload(all).expect("memory"));
            let mut o = device.poisoned::<f16>(QUERIES * WIDTH).expect("memory");
            {
                let [q, k, v] = [(&on_q, QUERIES), (&on_k, KEYS), (&on_v, KEYS)]
                    .map(|(on, rows)| on.view((1, 1, rows as i64, WIDTH as i64)).expect("a view"));
                let o = o
                    .view_mut((1, 1, QUERIES as i64, WIDTH as i64))
                    .expect("a view");
                let call = Attention::new(&q, &k, &v, &o).mask(problem.mask);
                call.run()
                    .unwrap_or_else(|e| panic!("{arch}, case {number}: {e}"));
            }
            let found = o.download().expect("what was computed");
            let right = reference::attention(problem, q, k, v).output;
            for ((_, _, i, d), right) in right.indexed_iter() {
                let found = found[i * WIDTH + d].to_f64();
                let at = format!("{arch}, case {number}, O({i},{d}): {found}, and {right}");
                assert_eq!(found.is_nan(), is_nan(i, d), "{at}");
                assert!(is_nan(i, d) || (found - right).abs() < 2e-3, "{at}");
            }
        }
    }
    println!("law attention.nan: {} cases", 2 * cases.len());
}

/// The parts of the keys together are all of them: close to the kernel that divides nothing, with the same bits in every
/// schedule, and exactly 0 and -inf where a query sees no key. Parts without keys are among them.
#[test]
fn law_parts_of_the_keys_are_all_of_them() {
    let mut cases = 0;
    for (number, problem) in serving().into_iter().enumerate() {
        let group = problem.heads[0] / problem.heads[1];
        let (whole, sums) = bits(&problem, 0, &|plan| plan);
        // Of 70 parts, some lanes add three.
        let plans = [
            (2, false),
            (3, false),
            (9, false),
            (2, true),
            (3, true),
            (70, true),
        ];
        let plans = plans.into_iter().enumerate();
        for (i, (splits, by_lanes)) in plans.filter(|(i, _)| takes(3, number + i)) {
            let change = |plan: AttentionPlan| AttentionPlan {
                tile: [16, 32],
                consumers: 1,
                packs: if i % 2 == 0 { group } else { 1 },
                splits,
                by_lanes,
                ..plan
            };
            let first = bits(&problem, 1, &change);
            // In another order of events: once by lanes and once not.
            if i % 3 == 0 {
                let again = bits(&problem, 2, &change);
                assert_eq!(first, again, "{problem}, {splits} parts");
            }
            for (found, right) in first.0.iter().zip(&whole) {
                let [found, right] = [found, right].map(|x| f16::from_bits(*x).to_f32());
                assert!((found - right).abs() <= 2e-3, "{problem}: {found} {right}");
            }
            for (found, right) in first.1.iter().zip(&sums) {
                let [found, right] = [found, right].map(|x| f32::from_bits(*x));
                let close = found == right || (found - right).abs() <= 1e-5;
                assert!(close, "{problem}: {found} {right}");
            }
            cases += 1;
        }
    }
    println!("law attention.parts: {cases} cases");
}

/// Kernels that begin early have the bits of those that do not: both methods, whole and with parts of the keys that are added in
/// both ways. Before sm_90 they are refused.
#[test]
fn law_attention_that_begins_early_has_the_same_bits() {
    let (ampere, hopper) = (AttentionMethod::Ampere, AttentionMethod::Hopper);
    let mut cases = 0;
    let problems = serving().into_iter().filter(|of| of.lengths[1] > 0);
    for (number, problem) in problems.enumerate() {
        for (_, (method, splits, by_lanes)) in [
            (ampere, 1, false),
            (ampere, 3, false),
            (ampere, 3, true),
            (hopper, 1, false),
        ]
        .into_iter()
        .enumerate()
        .filter(|(i, _)| takes(3, number / 2 + i))
        {
            let [late, early] = [false, true].map(|early| {
                let change = |plan: AttentionPlan| AttentionPlan {
                    splits,
                    by_lanes,
                    early,
                    ..plan
                };
                let seed = if early { 3 } else { 0 };
                bits_on((Arch::Sm90a, method), &problem, seed, &change)
            });
            assert_eq!(early, late, "{problem}, {method}, {splits} parts");
            cases += 1;
            if method == hopper {
                continue;
            }
            // What a block does before it waits, and how many blocks there are at once, changes no bits.
            for (i, (prefetch, beside)) in [(Some(0), 0), (Some(1), 2), (Some(3), 1), (None, 3)]
                .into_iter()
                .enumerate()
                .filter(|(i, _)| takes(4, number + splits as usize / 2 + i))
            {
                let change = |plan: AttentionPlan| AttentionPlan {
                    splits,
                    by_lanes,
                    early: true,
                    prefetch,
                    next_early: splits > 1 && i % 2 == 1,
                    beside,
                    ..plan
                };
                let found = bits_on((Arch::Sm90a, method), &problem, 5 + i as u64, &change);
                assert_eq!(found, late, "{problem}, {splits} parts, {prefetch:?}");
                cases += 1;
            }
        }
    }
    println!("law attention.early: {cases} cases");
    let problem = AttentionProblem::new(Ty::F16, 1, [2, 2], [100, 100], [64, 64]);
    let plan = AttentionPlan {
        early: true,
        ..AttentionPlan::new(ampere, AttentionOperands::of(&problem, [0; 4]))
    };
    let refused = plan
        .check(Arch::Sm80)
        .expect_err("sm_80 has no early begin");
    assert_eq!(
        refused.to_string(),
        "the plan's kernels begin early: kernels do so from sm_90 on, and not on sm_80"
    );
}

/// What a plan may say of its begin, and where.
#[test]
fn refused_begins_say_what_would_be_right() {
    let problem = AttentionProblem::new(Ty::F16, 1, [8, 2], [1, 1000], [64, 64]);
    let refused = |method, change: &dyn Fn(&mut AttentionPlan)| {
        let operands = AttentionOperands::of(&problem, [0; 4]);
        let mut plan = AttentionPlan {
            early: true,
            ..AttentionPlan::new(method, operands)
        };
        change(&mut plan);
        plan.check(Arch::Sm90a).expect_err("refused").to_string()
    };
    let (ampere, hopper) = (AttentionMethod::Ampere, AttentionMethod::Hopper);
    let sentences = [
        refused(ampere, &|plan| {
            (plan.early, plan.prefetch) = (false, Some(0))
        }),
        refused(ampere, &|plan| plan.next_early = true),
        refused(ampere, &|plan| plan.prefetch = Some(9)),
        refused(ampere, &|plan| {
            (plan.prefetch, plan.operands.page) = (Some(1), Some(16));
        }),
        refused(ampere, &|plan| {
            (plan.prefetch, plan.operands.vectors[2]) = (Some(1), 4);
        }),
        refused(ampere, &|plan| plan.beside = 9),
        refused(hopper, &|plan| plan.prefetch = Some(1)),
        refused(hopper, &|plan| plan.beside = 2),
    ];
    assert_eq!(
        sentences,
        [
            "the plan asks the L2 cache for keys before it waits: its kernels do not begin early",
            "the plan lets the launch behind its second kernel begin early: it needs several parts of the keys, and an early \
             begin of its own",
            "the plan's number of steps asked for before the wait is 9: the Ampere attention kernel takes 0 to 8",
            "the plan asks the L2 cache for keys before it waits: where those of packed sequences and of pages lie is known \
             after the wait",
            "the plan asks the L2 cache for keys before it waits: rows of K and V must be read by 8 elements",
            "the plan's number of blocks beside each other is 9: the Ampere attention kernel takes 0 to 8",
            "the Hopper kernel asks for no keys before it waits: the Ampere kernel does",
            "the Hopper kernel bounds no blocks beside each other: the Ampere kernel does",
        ]
    );
}

/// A sink is one more term of each row's sum, in every plan: whole, with packs of heads, and once with parts of the keys. A sink
/// of -inf has the bits of a call without sinks. A row that sees no key has zeros and the sink.
#[test]
fn law_a_sink_is_counted_once() {
    let (mut cases, mut empty) = (0, 0);
    for (number, problem) in serving().into_iter().enumerate() {
        let group = problem.heads[0] / problem.heads[1];
        let with_sinks = AttentionProblem {
            sinks: Some(2),
            ..problem
        };
        let [q, k, v] = numbers_of(&problem);
        let sinks = sinks_of(&with_sinks);
        let right = reference::attention_with_sinks(&with_sinks, &q, &k, &v, &sinks);
        let plans = [
            (1, 1, false),
            (group, 1, false),
            (group, 2, false),
            (1, 3, false),
            (group, 9, false),
            (group, 9, true),
            (1, 2, true),
        ];
        let plans = plans.into_iter().enumerate();
        for (i, (packs, splits, by_lanes)) in plans.filter(|(i, _)| takes(4, number + i)) {
            let change = |plan: AttentionPlan| AttentionPlan {
                tile: [16, 32],
                consumers: 1,
                packs,
                splits,
                by_lanes,
                ..plan
            };
            let (found, sums) = bits(&with_sinks, i as u64, &change);
            let (plain, _) = bits(&problem, i as u64, &change);
            let [_, heads, queries, _] = problem.extents(AttentionTensor::O);
            for (at, (found, right)) in found.iter().zip(&right.output).enumerate() {
                let head = at as i64 / (64 * queries) % heads;
                if sinks[2 * head as usize] == f32::NEG_INFINITY {
                    assert_eq!(*found, plain[at], "{problem}, element {at}");
                }
                let found = f64::from(f16::from_bits(*found).to_f32());
                let what = format!("{problem}, {packs} packs, {splits} parts: {found} {right}");
                assert!((found - right).abs() <= 2e-3, "{what}");
            }
            for (at, (found, right)) in sums.iter().zip(&right.log_sum_exp).enumerate() {
                let found = f64::from(f32::from_bits(*found));
                let close = found == *right || (found - right).abs() <= 1e-5;
                assert!(close, "{problem}: {found} {right}");
                let head = at as i64 / queries % heads;
                if *right == f64::from(sinks[2 * head as usize]) {
                    empty += 1;
                }
            }
            cases += 1;
        }
    }
    println!("law attention.sinks: {cases} cases, {empty} rows without a key");
    assert!(empty > 0);
}

/// One query and many keys: the default plan divides them, takes its memory from the stream's, and says the same each time.
#[test]
fn one_query_of_many_keys_is_divided_by_itself() {
    let device = Device::simulator(Arch::Sm80);
    let mut r = Random::new(6);
    let mut upload = |count: usize| {
        let number = |_| f16::from_f32(r.below(4001) as f32 / 1000.0 - 2.0);
        let host: Vec<f16> = (0..count).map(number).collect();
        let memory = device.upload(&host).expect("memory");
        (host, memory)
    };
    let keys = 1500;
    let ((q, on_q), (k, on_k), (v, on_v)) = (upload(4 * 64), upload(keys * 64), upload(keys * 64));
    let mut o = device.poisoned::<f16>(4 * 64).expect("memory");
    let queries = on_q.view((1, 4, 1, 64)).expect("a view");
    let [on_k, on_v] = [&on_k, &on_v].map(|of| of.view((1, 1, keys as i64, 64)).expect("a view"));
    let mut found = Vec::new();
    for _ in 0..2 {
        let to = o.view_mut((1, 4, 1, 64)).expect("a view");
        let call = Attention::new(&queries, &on_k, &on_v, &to);
        let plan = call.plan().expect("a plan");
        assert_eq!(
            plan.to_string(),
            "Ampere f16, features 64, tile 16x64, 1 consumers, 2 stages, packs of 4 heads, 24 parts of the keys, added by lanes"
        );
        call.run().expect("it runs");
        found.push(o.download().expect("all is written"));
    }
    assert_eq!(found[0], found[1]);
    let problem = AttentionProblem::new(Ty::F16, 1, [4, 1], [1, keys as i64], [64, 64]);
    let right = reference::attention(&problem, &q, &k, &v).output;
    for (found, right) in found[0].iter().zip(&right) {
        assert!(
            (f64::from(found.to_f32()) - right).abs() < 1e-3,
            "{found} {right}"
        );
    }
}

/// The blocks of a cluster load a part of the keys and values each, for all of them: rings that go round twice at least, tiles of
/// queries that the last cluster has not for all of its blocks, several tiles for each cluster, and lengths that fill no block
/// of keys, with asynchronous copies as late as possible, as early as possible and at random.
#[test]
fn law_the_blocks_of_a_cluster_share_keys_and_values() {
    // Features, blocks of a cluster, consumers, keys, stages, queries; clusters, and whether consumers take turns.
    let plans = [
        (64, 2, 1, 16, 1, 200, 1, false),
        (64, 2, 2, 48, 2, 270, 2, true),
        (64, 3, 1, 48, 3, 270, 2, false),
        (64, 4, 1, 32, 2, 330, 1, false),
        (128, 2, 3, 80, 1, 500, 1, true),
        (256, 2, 2, 48, 2, 150, 1, true),
    ];
    let mut worst = [0.0f64; 2];
    for (case, (width, cluster, consumers, keys, stages, queries, clusters, turns)) in
        plans.into_iter().enumerate()
    {
        let lengths = [queries, (2 * stages).max(3) * keys - keys + 7];
        let heads = if width == 64 { [2, 1] } else { [1, 1] };
        let mut problem = AttentionProblem::new(Ty::F16, 1, heads, lengths, [width; 2]);
        problem.log_sum_exp = true;
        let change = |plan: &mut AttentionPlan| {
            *plan = AttentionPlan {
                tile: [64 * consumers, keys],
                consumers,
                stages,
                ahead: 1,
                turns,
                cluster,
                early: case % 2 == 1,
                strip: 1 + case as i64 % 2,
                overlap: case != 2,
                ..*plan
            };
        };
        let blocks = (cluster * clusters) as usize;
        let mut first = None;
        for seed in [0, 1, 300 + case as u64] {
            let mut r = Random::new(case as u64);
            let mut number = move || r.below(4001) as f32 / 1000.0 - 2.0;
            let found = run::<f16>(&problem, change, (blocks, seed), &mut number);
            let [apart, sums] = found.unwrap_or_else(|e| panic!("case {case}: {e}"));
            assert!(
                apart < 7e-4 && sums < 1e-4,
                "case {case}, schedule {seed}: {apart:.1e}, {sums:.1e}"
            );
            // The same bits are as far from the reference.
            assert_eq!(
                *first.get_or_insert([apart, sums]),
                [apart, sums],
                "{case}, {seed}"
            );
            worst = [worst[0].max(apart), worst[1].max(sums)];
        }
    }
    let [apart, sums] = worst;
    println!(
        "law attention.clusters: {} plans in 3 schedules, worst {apart:.1e} and {sums:.1e}",
        plans.len()
    );
}
