//! Matrix products against the host's, on the simulator.

mod convolution;
mod fixup;
mod gemv;
mod groups;
mod lists;
mod parts;
mod pointers;
mod same_plan;
mod stores;
mod stream_k;
mod transposed;
mod widths;
mod widths_with_epilogues;

use colex_atom::{Arch, Ty};
use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan, Operands};
use colex_gpu::kernels::{Compute, GemmElement, GemmProblem, Major, Operand, reference};
use colex_gpu::{Device, Gemm, View};
use colex_proof::kernels::gemm::high_low;
use colex_proof::kernels::gemm::{GemmCase, gemm_cases, orders};
use colex_proof::soak::{draws, share_of, takes};
use colex_sim::{Schedule, SimOptions};
use half::{bf16, f16};

/// Methods, the architectures that they are printed for, types of A and B and of C, and vectors.
const PLANS: [(GemmMethod, Arch, Ty, Ty, [i64; 3]); 20] = [
    (GemmMethod::Simt, Arch::Sm70, Ty::F32, Ty::F32, [4, 4, 4]),
    (GemmMethod::Simt, Arch::Sm70, Ty::F32, Ty::F16, [1, 1, 1]),
    (GemmMethod::Simt, Arch::Sm70, Ty::F64, Ty::F64, [2, 1, 2]),
    (GemmMethod::Simt, Arch::Sm70, Ty::Bf16, Ty::Bf16, [8, 1, 8]),
    (GemmMethod::Simt, Arch::Sm90a, Ty::Bf16, Ty::Bf16, [1, 1, 1]),
    (GemmMethod::Simt, Arch::Sm70, Ty::S8, Ty::S32, [16, 1, 4]),
    (GemmMethod::Volta, Arch::Sm70, Ty::F16, Ty::F16, [8, 8, 8]),
    (GemmMethod::Volta, Arch::Sm90a, Ty::F16, Ty::F32, [1, 2, 1]),
    (
        GemmMethod::Ampere,
        Arch::Sm80,
        Ty::Bf16,
        Ty::Bf16,
        [8, 8, 8],
    ),
    (GemmMethod::Ampere, Arch::Sm90a, Ty::F16, Ty::F32, [8, 8, 1]),
    (
        GemmMethod::Ampere,
        Arch::Sm80,
        Ty::Bf16,
        Ty::Bf16,
        [2, 1, 1],
    ),
    (GemmMethod::Ampere, Arch::Sm80, Ty::Tf32, Ty::F32, [4, 1, 4]),
    (GemmMethod::Ampere, Arch::Sm80, Ty::F64, Ty::F64, [2, 1, 2]),
    (GemmMethod::Ampere, Arch::Sm80, Ty::S8, Ty::S32, [16, 2, 4]),
    (
        GemmMethod::Hopper,
        Arch::Sm90a,
        Ty::Bf16,
        Ty::Bf16,
        [8, 8, 8],
    ),
    (GemmMethod::Hopper, Arch::Sm90a, Ty::F16, Ty::F32, [8, 8, 1]),
    (GemmMethod::Hopper, Arch::Sm90a, Ty::F16, Ty::F32, [8, 8, 4]),
    (
        GemmMethod::Hopper,
        Arch::Sm90a,
        Ty::Tf32,
        Ty::F32,
        [4, 4, 4],
    ),
    (
        GemmMethod::Hopper,
        Arch::Sm90a,
        Ty::Tf32,
        Ty::Bf16,
        [4, 4, 8],
    ),
    (
        GemmMethod::Hopper,
        Arch::Sm90a,
        Ty::S8,
        Ty::S32,
        [16, 16, 4],
    ),
];

/// A tile comes in as few boxes as its rows of 128 bytes leave: one where K is contiguous, else one for every 64 halves
/// along M or N, and no more for each of the two blocks that share B.
#[test]
fn hopper_brings_its_tiles_in_few_boxes() {
    for majors in orders() {
        let operands = Operands {
            ab: Ty::Bf16,
            c: Ty::Bf16,
            majors,
            vectors: [8, 8, 8],
            beta: false,
            gated: false,
        };
        let plan = GemmPlan::new(GemmMethod::Hopper, operands);
        let [m, n, _] = plan.tile;
        let boxes = |major: Major, along: i64| match major {
            Major::First => along / 64,
            Major::Second => 1,
        };
        let ptx = plan.build(Arch::Sm90a).unwrap().kernel.ptx().unwrap();
        let loads = |what: &str| ptx.lines().filter(|line| line.contains(what)).count() as i64;
        let all = loads("cp.async.bulk.tensor.2d.shared::cluster.global");
        let shared = loads(".multicast::cluster");
        assert_eq!(all - shared, boxes(majors[0], m), "A of {majors:?}");
        assert_eq!(shared, boxes(majors[1], n), "B of {majors:?}");
    }
}

/// Every plan's kernel is one that the verifier passes and the printer prints.
#[test]
fn every_plan_prints() {
    let mut cases = 0;
    for (i, (method, arch, ab, c, vectors)) in PLANS.into_iter().enumerate() {
        for (j, majors) in orders().into_iter().enumerate() {
            let operands = Operands {
                ab,
                c,
                majors,
                vectors,
                beta: j % 2 == 1,
                gated: false,
            };
            let plan = GemmPlan::new(method, operands);
            let built = plan.build(arch).unwrap_or_else(|e| panic!("{plan}: {e}"));
            if let Err(problems) = built.kernel.verify() {
                panic!("{plan} {operands:?}: {problems}");
            }
            let text = built.kernel.ptx().unwrap_or_else(|e| panic!("{plan}: {e}"));
            if let Ok(folder) = std::env::var("COLEX_PTX") {
                let file = format!("{folder}/{arch}_{method}_{i}_{j}.ptx");
                std::fs::write(file, text).expect("it is written");
            }
            cases += 1;
        }
    }
    println!("law gemm.plans_print: {cases} cases");
}

/// The product of random matrices by a plan on the simulator, against the host's in doubles.
fn check<C: GemmElement>(arch: Arch, method: GemmMethod, problem: GemmProblem) {
    let device = Device::simulator(arch);
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((seed >> 40) as f64 / (1u64 << 23) as f64) - 1.0
    };
    let mut fill = |name| {
        let length = problem.layout(name).unwrap().cosize().unwrap();
        (0..length).map(|_| random()).collect::<Vec<f64>>()
    };
    let [a, b] = [Operand::A, Operand::B].map(|name| {
        fill(name)
            .into_iter()
            .map(half::bf16::from_f64)
            .collect::<Vec<_>>()
    });
    let old: Vec<C> = fill(Operand::C).into_iter().map(C::from_f64).collect();
    let (da, db) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let dc = match problem.beta {
        0.0 => device.poisoned::<C>(old.len()).unwrap(),
        _ => device.upload(&old).unwrap(),
    };
    let mut written = dc.clone();
    let gemm = problem.on(&da, &db, &mut written);
    let call = gemm.and_then(|gemm| gemm.method(method).prepare());
    let call = call.unwrap_or_else(|e| panic!("{problem}: {e}"));
    assert_eq!(call.plan().map(|plan| plan.method), Some(method));
    call.run(&device)
        .unwrap_or_else(|e| panic!("{problem} by {call}: {e}"));
    let found = reference::matrix(&problem, Operand::C, &dc.download().unwrap());
    let expected = reference::gemm(&problem, &a, &b, &old);
    let error = reference::relative_error(&found, &expected);
    assert!(error < 4e-3, "{problem} by {call}: {error}");
}

/// Products of these extents in all eight orders, into bf16 and, with alpha and beta, into f32: how many.
fn in_every_order(arch: Arch, method: GemmMethod, extents: &[[i64; 3]]) -> usize {
    for [m, n, k] in extents {
        for majors in 0..8 {
            let major = |bit: i32| match majors >> bit & 1 {
                1 => Major::First,
                _ => Major::Second,
            };
            let problem = GemmProblem::new(*m, *n, *k)
                .major(Operand::A, major(0))
                .major(Operand::B, major(1))
                .major(Operand::C, major(2));
            check::<half::bf16>(arch, method, problem);
            check::<f32>(arch, method, problem.alpha(0.5).beta(-2.0));
        }
    }
    extents.len() * 16
}

#[test]
fn ampere_is_right_at_odd_sizes_and_in_every_order() {
    let extents = [[128, 128, 64], [130, 70, 40], [17, 150, 100]];
    let cases = in_every_order(Arch::Sm80, GemmMethod::Ampere, &extents);
    println!("law gemm.ampere: {cases} cases");
}

#[test]
fn hopper_is_right_at_odd_sizes_and_in_every_order() {
    let extents = [[256, 256, 128], [136, 264, 72]];
    let cases = in_every_order(Arch::Sm90a, GemmMethod::Hopper, &extents);
    println!("law gemm.hopper: {cases} cases");
}

/// C comes and goes through shared memory, by 16 and by 32 bits, where its rows are whole vectors of 16 bytes; where they
/// are not, or columns are contiguous, by each thread its own.
#[test]
fn hopper_reads_c_at_every_extent() {
    let by = |extents: [[i64; 3]; 4]| {
        extents.map(|[m, n, k]| {
            GemmCase::new(GemmProblem::new(m, n, k).alpha(3.0).beta(-2.0)).by(GemmMethod::Hopper)
        })
    };
    let cases = || by([[128, 256, 64], [136, 264, 328], [65, 520, 8], [9, 68, 72]]).to_vec();
    all::<bf16, bf16>(Arch::Sm90a, cases());
    all::<f16, bf16>(Arch::Sm90a, cases());
    all::<f16, f32>(Arch::Sm90a, cases());
}

/// More tiles than blocks: a block's barriers go on from tile to tile, also where a tile takes each an odd number of times.
#[test]
fn hopper_reads_c_of_one_tile_after_the_other() {
    let device = Device::simulator(Arch::Sm90a);
    let [m, n, k] = [2304, 1024, 8];
    let problem = GemmProblem::new(m, n, k).beta(1.0);
    let row = |i: usize, extent: i64| i as i64 / extent % 5;
    let a: Vec<f16> = (0..(m * k) as usize)
        .map(|i| f16::from_f64(row(i, k) as f64))
        .collect();
    let c: Vec<f16> = (0..(m * n) as usize)
        .map(|i| f16::from_f64((i % 7) as f64))
        .collect();
    let (da, db) = (
        device.upload(&a).unwrap(),
        device.upload(&a[..(n * k) as usize]).unwrap(),
    );
    let dc = device.upload(&c).unwrap();
    let mut written = dc.clone();
    let gemm = problem.on(&da, &db, &mut written).unwrap();
    let call = gemm.prepare_with(|operands, _| {
        let usual = GemmPlan::new(GemmMethod::Hopper, operands);
        Ok(GemmPlan {
            tile: [128, 128, 64],
            stages: 6,
            ..usual
        })
    });
    call.unwrap().run(&device).unwrap_or_else(|e| panic!("{e}"));
    for (i, found) in dc.download().unwrap().into_iter().enumerate() {
        let product = 8 * (i as i64 / n % 5) * (i as i64 % n % 5);
        assert_eq!(
            found.to_f64(),
            product as f64 + c[i].to_f64(),
            "element {i}"
        );
    }
}

/// The sample that tools with a long breath get has every kernel, and products along K that fill every stage again.
#[test]
fn the_sample_has_every_kernel() {
    use colex_proof::kernels::gemm::{every_case, sampled_cases};
    fn check<T: GemmElement>() {
        let methods = |cases: Vec<GemmCase>| {
            let mut methods: Vec<_> = cases.iter().map(|case| case.method).collect();
            methods.sort();
            methods.dedup();
            methods
        };
        let (every, sampled) = (
            every_case::<T>(Arch::Sm90a),
            sampled_cases::<T>(Arch::Sm90a),
        );
        assert!(sampled.len() < every.len() / 5);
        let long = sampled.iter().filter(|case| case.problem.k > 512).count();
        assert_eq!(methods(every), methods(sampled));
        assert!(long >= 2, "{long}");
    }
    check::<f32>();
    check::<i32>();
    check::<i8>();
    check::<f16>();
    check::<bf16>();
}

/// Every case of a short list on the simulator of an architecture, and every fourth one of a long list: of each type and
/// architecture others.
fn all<T: GemmElement, C: GemmElement>(arch: Arch, cases: Vec<GemmCase>) {
    let device = Device::simulator(arch);
    let share = share_of(T::NAME) + share_of(C::NAME) + share_of(arch);
    let step = if cases.len() > 16 { 4 } else { 1 };
    let cases = cases.into_iter().enumerate();
    let cases: Vec<GemmCase> = cases
        .filter(|(i, _)| takes(step, i + share))
        .map(|(_, case)| case)
        .collect();
    for case in &cases {
        if let Err(failure) = case.run::<T, C>(&device) {
            panic!("{} to {}: {case}: {failure}", T::NAME, C::NAME);
        }
    }
    println!("law gemm.{}_{}: {} cases", T::NAME, C::NAME, cases.len());
}

fn simt() -> Vec<GemmCase> {
    gemm_cases(Some(GemmMethod::Simt), 1)
}

#[test]
fn simt_multiplies_f32() {
    all::<f32, f32>(Arch::Sm70, simt());
}

#[test]
fn simt_multiplies_f64() {
    all::<f64, f64>(Arch::Sm70, simt());
}

#[test]
fn simt_multiplies_f16() {
    all::<f16, f16>(Arch::Sm70, simt());
}

/// Before Ampere nothing rounds to bf16: the kernel does it by bits.
#[test]
fn simt_multiplies_bf16_on_every_architecture() {
    all::<bf16, bf16>(Arch::Sm70, simt());
    all::<bf16, bf16>(Arch::Sm80, simt());
}

#[test]
fn simt_multiplies_bytes_and_words() {
    all::<i8, i32>(Arch::Sm70, simt());
    all::<i32, i32>(Arch::Sm70, simt());
}

#[test]
fn volta_multiplies_f16() {
    let cases = || gemm_cases(Some(GemmMethod::Volta), 1);
    all::<f16, f16>(Arch::Sm70, cases());
    all::<f16, f32>(Arch::Sm80, cases());
}

/// On every device there is a kernel for what has no other.
#[test]
fn every_type_has_a_kernel() {
    let odd = || vec![GemmCase::new(GemmProblem::new(33, 17, 9)).shifted([1, 1, 1])];
    for arch in [Arch::Sm70, Arch::Sm75, Arch::Sm80, Arch::Sm90a] {
        all::<f32, f32>(arch, odd());
        all::<f32, f16>(arch, odd());
        all::<f64, f64>(arch, odd());
        all::<f16, f32>(arch, odd());
        all::<bf16, f16>(arch, odd());
        all::<i8, i32>(arch, odd());
    }
}

#[test]
fn the_sentences_of_types() {
    let device = Device::simulator(Arch::Sm80);
    let problem = GemmProblem::new(4, 4, 4);
    let (a, mut c) = (
        device.zeros::<f64>(16).unwrap(),
        device.zeros::<f32>(16).unwrap(),
    );
    fn said<T: GemmElement, C: GemmElement>(
        gemm: Result<colex_gpu::Gemm<'_, T, C>, colex_gpu::Error>,
    ) -> String {
        let refused = gemm.unwrap().run().expect_err("it is refused");
        refused.to_string()
    }
    assert_eq!(
        said(problem.on(&a, &a, &mut c)),
        "no kernel multiplies f64 into f32: C must be f64"
    );
    let halves = device.zeros::<f16>(16).unwrap();
    let mut other = device.zeros::<f64>(16).unwrap();
    assert_eq!(
        said(problem.on(&halves, &halves, &mut other)),
        "no kernel multiplies f16 into f64: C must be f32, f16 or bf16"
    );
    let tf32 = problem.compute(Compute::Tf32);
    assert_eq!(
        said(tf32.on(&a, &a, &mut other)),
        "products of f64 are not computed in tf32: they are in f64"
    );
    let single = device.zeros::<f32>(16).unwrap();
    assert_eq!(
        said(problem.beta(-1e-60).on(&single, &single, &mut c)),
        "beta is -1e-60, and f32 holds 1e-45 to 3.4028235e38 in size: products of f32 are scaled in f32"
    );
    assert_eq!(
        said(problem.alpha(1e300).on(&single, &single, &mut c)),
        "alpha is 1e300, and f32 holds 1e-45 to 3.4028235e38 in size: products of f32 are scaled in f32"
    );
    let elsewhere = Device::simulator(Arch::Sm80).zeros::<f32>(16).unwrap();
    assert_eq!(
        said(problem.on(&single, &elsewhere, &mut c)),
        "B is on one simulator of sm_80 and is used with another: all that a call uses must be on one device"
    );
}

/// Types beyond halves, in all orders: rows by `ldmatrix`, columns by element.
#[test]
fn ampere_multiplies_doubles_and_bytes() {
    let cases = || gemm_cases(Some(GemmMethod::Ampere), 1);
    all::<f64, f64>(Arch::Sm80, cases());
    all::<i8, i32>(Arch::Sm80, cases());
    all::<f64, f64>(Arch::Sm80, gemm_cases(None, 2));
    all::<i8, i32>(Arch::Sm80, gemm_cases(None, 16));
}

/// A block of sm_89 has no room for the sums beside three stages: each thread stores its own there.
#[test]
fn ampere_multiplies_in_little_shared_memory() {
    let cases = || {
        gemm_cases(Some(GemmMethod::Ampere), 1)
            .into_iter()
            .step_by(9)
            .collect()
    };
    all::<i8, i32>(Arch::Sm89, cases());
    all::<bf16, f32>(Arch::Sm89, cases());
}

#[test]
fn ampere_multiplies_tf32() {
    let tf32 = |whole| {
        gemm_cases(None, whole)
            .into_iter()
            .map(GemmCase::tf32)
            .collect()
    };
    all::<f32, f32>(Arch::Sm80, tf32(1));
    all::<f32, f32>(Arch::Sm80, tf32(4));
    all::<f32, f16>(Arch::Sm90a, tf32(4));
    all::<f32, f32>(Arch::Sm75, tf32(1));
}

#[test]
fn hopper_multiplies_tf32_and_bytes() {
    let along_k = |vector: i64| {
        let cases = gemm_cases(Some(GemmMethod::Hopper), vector).into_iter();
        cases.filter(|case| case.problem.majors[..2] == [Major::Second; 2])
    };
    let large = [[136, 264, 72], [256, 256, 128], [65, 520, 16]];
    let large = || {
        large.map(|[m, n, k]| {
            GemmCase::new(GemmProblem::new(m, n, k).alpha(3.0).beta(-2.0)).by(GemmMethod::Hopper)
        })
    };
    let tf32 = || along_k(4).chain(large()).map(GemmCase::tf32).collect();
    all::<f32, f32>(Arch::Sm90a, tf32());
    all::<f32, bf16>(Arch::Sm90a, tf32());
    let bytes = along_k(16).chain(large().into_iter().skip(1));
    all::<i8, i32>(Arch::Sm90a, bytes.collect());
    // In every order, by the kernel that the library takes.
    let any = |vector| gemm_cases(None, vector);
    all::<f32, f32>(
        Arch::Sm90a,
        any(4).into_iter().map(GemmCase::tf32).collect(),
    );
    all::<i8, i32>(Arch::Sm90a, any(16));
}

/// TMA rounds tf32 as it loads, to the nearest: 1 + 2^-11 is between two, of which 1 is the even one; a bit more is nearer to
/// 1 + 2^-10.
#[test]
fn hopper_rounds_tf32_to_the_nearest() {
    let device = Device::simulator(Arch::Sm90a);
    let problem = GemmProblem::new(4, 1, 4).compute(Compute::Tf32);
    let (tie, more) = (
        1.0 + 0.5f32.powi(11),
        1.0 + 0.5f32.powi(11) + 0.5f32.powi(20),
    );
    let odd = 1.0 + 3.0 * 0.5f32.powi(11);
    let numbers = [tie, more, odd, -more];
    let zeros = [0.0; 4];
    let rows = numbers.map(|x| [x, 0.0, 0.0, 0.0]);
    let columns = [numbers, zeros, zeros, zeros];
    let b = device.upload(&[1.0f32, 0.0, 0.0, 0.0]).unwrap();
    // Along M, A is transposed in shared memory.
    for (major, a) in [(Major::Second, rows), (Major::First, columns)] {
        let a = device.upload(a.as_flattened()).unwrap();
        let mut c = device.poisoned::<f32>(4).unwrap();
        let problem = problem.major(Operand::A, major);
        let gemm = problem.on(&a, &b, &mut c).unwrap();
        gemm.method(GemmMethod::Hopper).run().unwrap();
        let step = 0.5f32.powi(10);
        assert_eq!(
            c.download().unwrap(),
            [1.0, 1.0 + step, 1.0 + 2.0 * step, -1.0 - step]
        );
    }
}

/// The instruction would cut the lower bits off: 1 + 2^-11 is the nearer to 1 + 2^-10 (ties go away from zero).
#[test]
fn tf32_is_rounded_to_the_nearest() {
    let device = Device::simulator(Arch::Sm80);
    let problem = GemmProblem::new(1, 1, 1).compute(Compute::Tf32);
    let (a, b) = (
        device.upload(&[1.0f32 + 0.5f32.powi(11)]),
        device.upload(&[1.0f32]),
    );
    let (a, b, mut c) = (a.unwrap(), b.unwrap(), device.poisoned::<f32>(1).unwrap());
    let gemm = problem.on(&a, &b, &mut c);
    gemm.and_then(|gemm| gemm.run())
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(c.download().unwrap(), [1.0f32 + 0.5f32.powi(10)]);
}

/// What there is on a device is what its plan says.
#[test]
fn the_library_takes_the_newest_kernel() {
    let aligned = GemmProblem::new(64, 64, 64);
    let method = |arch, problem: GemmProblem| {
        let device = Device::simulator(arch);
        let (a, b) = (
            device.zeros::<f16>(8192).unwrap(),
            device.zeros::<f16>(8192).unwrap(),
        );
        let mut c = device.zeros::<f16>(8192).unwrap();
        let call = problem.on(&a, &b, &mut c).unwrap().prepare().unwrap();
        *call.plan().unwrap()
    };
    let odd = aligned.leading(Operand::A, 65);
    let methods = [
        (Arch::Sm70, aligned, GemmMethod::Volta),
        (Arch::Sm75, odd, GemmMethod::Volta),
        (Arch::Sm80, aligned, GemmMethod::Ampere),
        (Arch::Sm90a, odd, GemmMethod::Hopper),
        (Arch::Sm90a, aligned, GemmMethod::Hopper),
    ];
    for (arch, problem, expected) in methods {
        assert_eq!(
            method(arch, problem).method,
            expected,
            "{problem} on {arch}"
        );
    }
}

#[test]
fn the_sentences_of_methods() {
    let device = Device::simulator(Arch::Sm80);
    let said = |method| {
        let (a, mut c) = (
            device.zeros::<f32>(16).unwrap(),
            device.zeros::<f32>(16).unwrap(),
        );
        let gemm = GemmProblem::new(4, 4, 4).on(&a, &a, &mut c).unwrap();
        let refused = gemm.method(method).prepare();
        refused.expect_err("it is refused").to_string()
    };
    assert_eq!(
        said(GemmMethod::Volta),
        "the Volta kernel does not multiply f32, 4 of A and 4 of B at once, on sm_80: it takes f16, and needs sm_70"
    );
    assert_eq!(
        said(GemmMethod::Ampere),
        "the Ampere kernel does not multiply f32, 4 of A and 4 of B at once, on sm_80: it takes f16, bf16, tf32, s8 or \
         f64, and needs sm_80"
    );
    assert_eq!(
        said(GemmMethod::Hopper),
        "the Hopper kernel does not multiply f32, 4 of A and 4 of B at once, on sm_80: it takes f16, bf16, tf32 or \
         s8 in vectors of 16 bytes, and needs sm_90a"
    );
    let device = Device::simulator(Arch::Sm90a);
    let (a, mut c) = (
        device.zeros::<f32>(16).unwrap(),
        device.zeros::<f32>(16).unwrap(),
    );
    // Of tf32 it takes every order, but no rows that begin between multiples of 16 bytes.
    let problem = GemmProblem::new(2, 4, 4).compute(Compute::Tf32);
    let problem = problem.major(Operand::A, Major::First);
    let gemm = problem.on(&a, &a, &mut c).unwrap();
    let refused = gemm.method(GemmMethod::Hopper).prepare();
    assert_eq!(
        refused.expect_err("it is refused").to_string(),
        "the Hopper kernel does not multiply tf32, 2 of A and 4 of B at once, on sm_90a: it takes f16, bf16, tf32 or s8 in \
         vectors of 16 bytes, and needs sm_90a"
    );
}

/// The law of 3xTF32: each element is as near to the sum over K as is stated, at any strides, with alpha and beta, in batches and
/// with two right factors, in any order in which asynchronous work completes. Plain tf32 is not.
#[test]
fn law_three_products_of_tf32_are_as_exact_as_stated() {
    for (seed, arch) in [(3, Arch::Sm80), (4, Arch::Sm90a)] {
        let schedules = [Schedule::Latest, Schedule::Earliest, Schedule::Random(seed)];
        let devices = schedules
            .map(|schedule| Device::simulator_with(arch, SimOptions::default().schedule(schedule)));
        let found =
            high_low::check(&devices, seed, draws(6)).unwrap_or_else(|said| panic!("{said}"));
        assert!(found.worse_in_tf32 * 2 > found.products, "{found}");
        assert!(found.packed * 10 > found.products, "{found}");
        println!("law gemm.three_products: {arch}: {found}");
    }
    // Where nothing multiplies tf32, the product is in f32.
    let device = Device::simulator(Arch::Sm75);
    let found = high_low::check(std::slice::from_ref(&device), 5, draws(4));
    let found = found.unwrap_or_else(|said| panic!("{said}"));
    assert_eq!(found.worse_in_tf32, 0);
}

/// Infinities and NaN reach C by three products as they do in f32, and so does a number whose nearest tf32 would be infinite.
#[test]
fn three_products_of_tf32_keep_what_is_not_finite() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let max = 2_f32.powi(127) * (2.0 - 2_f32.powi(-12));
    let numbers = [inf, -inf, nan, max, -max, 0.0, -8190.5, 4097.0, 1.0, 0.25];
    let count = numbers.len() as i64;
    for arch in [Arch::Sm80, Arch::Sm90a] {
        let device = Device::simulator(arch);
        let problem = GemmProblem::new(count, count, 1);
        let x = device.upload(&numbers).unwrap();
        let product = |compute| {
            let mut c = device
                .poisoned::<f32>(numbers.len() * numbers.len())
                .unwrap();
            let problem = problem.compute(compute);
            problem.on(&x, &x, &mut c).unwrap().run().unwrap();
            c.download().unwrap()
        };
        let (found, right) = (product(Compute::Tf32x3), product(Compute::F32));
        for (i, (found, right)) in found.into_iter().zip(right).enumerate() {
            let [a, b] = [i / numbers.len(), i % numbers.len()].map(|at| numbers[at]);
            let near = (found - right).abs() <= right.abs() * 0.5_f32.powi(19);
            // Where the product of the high parts is beyond f32, so may that of a low one be, with another sign.
            let beyond = right.is_infinite() && a.is_finite() && b.is_finite();
            let is_right = near || found == right || found.is_nan() && (right.is_nan() || beyond);
            assert!(is_right, "{a} {b}: {found}, and in f32 {right}");
        }
    }
}

/// Three products need three times the factors in memory, of the call or of the caller; K may be a third of what a layout has.
#[test]
fn three_products_of_tf32_say_what_they_need() {
    let device = Device::simulator(Arch::Sm90a);
    let problem = GemmProblem::new(5, 7, 6).compute(Compute::Tf32x3);
    let (a, b) = (
        device.upload(&[1.5f32; 30]).unwrap(),
        device.upload(&[0.5f32; 42]).unwrap(),
    );
    let mut c = device.poisoned::<f32>(35).unwrap();
    let out = c.clone();
    let gemm = problem.on(&a, &b, &mut c).unwrap();
    // Rows of 18 numbers begin at multiples of 16 bytes, matrices at multiples of 256.
    assert_eq!(gemm.workspace().unwrap(), 512 + 768);
    let mut short = device.uninitialised::<u8>(512).unwrap();
    let refused = gemm.prepare_in(&mut short).expect_err("it is refused");
    assert!(refused.is_workspace_refused(), "{refused}");
    let mut memory = device.uninitialised::<u8>(1280).unwrap();
    let call = gemm.prepare_in(&mut memory).unwrap();
    let names: Vec<_> = call.in_parts().map(|(name, _)| name).collect();
    assert_eq!(names, ["A", "B"]);
    call.run(&device).unwrap();
    assert_eq!(out.download().unwrap(), [4.5; 35]);
    let reports = call.profile(&device).unwrap();
    assert_eq!(reports.len(), 3, "two factors and the product");

    let halves = device.zeros::<f16>(64).unwrap();
    let mut other = device.zeros::<f32>(64).unwrap();
    let gemm = GemmProblem::new(8, 8, 8).compute(Compute::Tf32x3);
    let refused = gemm.on(&halves, &halves, &mut other).unwrap().run();
    assert_eq!(
        refused.expect_err("it is refused").to_string(),
        "products of f16 are not computed in 3xTF32: they are in f32"
    );
    let long = device.zeros::<f32>(1).unwrap();
    let repeated = View::new(&long, "(1,800000000):(0,0)").unwrap();
    let mut one = device.zeros::<f32>(1).unwrap();
    let product = Gemm::new(&repeated, &repeated, &one.view_mut((1, 1)).unwrap());
    let refused = product.compute(Compute::Tf32x3).prepare();
    assert_eq!(
        refused.expect_err("it is refused").to_string(),
        "three times K is 2400000000: it must be 0 to 2147352576"
    );
}
