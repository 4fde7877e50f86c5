//! Plans whose block that comes last adds the other parts of K: the bits are those of as many parts that a second kernel adds.

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::Epilogue;
use colex_gpu::kernels::gemm::{Division, GemmMethod, GemmPlan, Operands};
use colex_gpu::kernels::{GemmElement, GemmProblem, Major, Operand};
use colex_gpu::{Device, Gemm, View, testing};
use colex_ir::launch::{Argument, Launch, TensorMapArgument};
use colex_ir::{Control, Memory, Op, Order, Scope, Stmt, Sync};
use colex_layout::Layout;
use colex_proof::kernels::gemm::GemmCase;
use colex_proof::soak::takes;
use colex_sched::pipeline::Schedule::Pingpong;
use colex_sim::{Fault, FaultKind, Ranks, Schedule, SimOptions};
use colex_tensor::Arg;
use half::{bf16, f16};

use crate::plans::{product_on, said};

fn operands(ab: Ty, c: Ty) -> Operands {
    let vector = |ty: Ty| 128 / i64::from(ty.bits());
    Operands {
        ab,
        c,
        majors: [Major::Second; 3],
        vectors: [vector(ab), vector(ab), vector(c)],
        beta: false,
        gated: false,
    }
}

/// A plan of tiles in parts behind whole ones.
fn divided(
    usual: &GemmPlan,
    tile: [i64; 3],
    cluster: [i64; 3],
    [parts, undivided]: [i64; 2],
) -> GemmPlan {
    GemmPlan {
        tile,
        warps: [tile[0] / 64, 1],
        cluster,
        split: parts,
        division: Division::SplitKFixup,
        undivided,
        stages: 3,
        ..*usual
    }
}

fn device(seed: u64) -> Device {
    let options = SimOptions::default().schedule(Schedule::from_seed(seed));
    Device::simulator_with(Arch::Sm90a, options)
}

/// Two parts and more, one step, parts of unequal length, fewer steps than parts, ends of K within a step, whole tiles in front, all tiles whole, more parts than clusters run at
/// once, clusters along every mode, exchanged operands, loads by threads, C read and not, and kernels that begin early, under every
/// schedule.
#[test]
fn law_products_whose_blocks_add_parts_multiply() {
    let (tile, wide) = ([64, 32, 16], [128, 64, 32]);
    // M, N, K, the tile, the cluster, the parts, and the whole tiles in front.
    let cases = [
        ([130, 60, 104], tile, [1, 1, 1], [2, 0]),
        ([130, 60, 112], tile, [1, 1, 1], [2, 1]),
        ([130, 60, 16], tile, [1, 1, 1], [2, 2]),
        ([130, 60, 104], tile, [1, 1, 1], [2, 6]),
        ([130, 60, 104], tile, [1, 1, 1], [3, 0]),
        ([130, 60, 40], tile, [1, 1, 1], [8, 1]),
        ([1, 8, 8], tile, [1, 1, 1], [5, 0]),
        ([1, 8, 1000], tile, [1, 1, 1], [8, 0]),
        ([200, 136, 264], tile, [2, 1, 1], [2, 1]),
        ([200, 136, 264], tile, [1, 2, 1], [3, 0]),
        ([200, 136, 264], wide, [2, 2, 1], [2, 0]),
        ([130, 136, 264], wide, [1, 1, 2], [3, 1]),
        ([130, 136, 520], tile, [1, 1, 4], [2, 0]),
        ([1300, 400, 72], tile, [1, 1, 1], [2, 3]),
    ];
    let mut count = 0;
    for (i, ([m, n, k], tile, cluster, [parts, undivided])) in cases.into_iter().enumerate() {
        for (way, (swap, gather)) in [(false, false), (true, false), (false, true)]
            .into_iter()
            .enumerate()
        {
            if gather && cluster[0] * cluster[1] > 1 {
                continue;
            }
            for seed in (0..3).filter(|&seed| takes(3, i + way + seed as usize)) {
                let major = |i: usize| [Major::First, Major::Second][i % 2];
                let at = i + seed as usize;
                let problem = GemmProblem::new(m, n, k)
                    .major(Operand::A, major(at))
                    .major(Operand::B, major(at / 2))
                    .major(Operand::C, major(at / 3))
                    .beta([0.0, -2.0][at % 2]);
                // Rows that tensor maps describe; threads load rows of any alignment.
                let aligned = |problem: GemmProblem, operand: Operand| {
                    let [(rows, _), (columns, _)] = problem.extents(operand);
                    let along = match problem.majors[operand as usize] {
                        Major::First => rows,
                        Major::Second => columns,
                    };
                    problem.leading(operand, (along + 7) / 8 * 8)
                };
                let problem = if gather {
                    problem
                } else {
                    Operand::ALL.into_iter().fold(problem, aligned)
                };
                let found = product_on(&device(seed), GemmMethod::Hopper, problem, |plan| {
                    let undivided = if swap { undivided.min(3) } else { undivided };
                    *plan = GemmPlan {
                        swap,
                        gather,
                        early: at % 3 == 1,
                        ..divided(plan, tile, cluster, [parts, undivided])
                    };
                });
                assert_eq!(
                    found,
                    Ok(0.0),
                    "{tile:?}, {cluster:?}, {parts} parts, {undivided}, swap {swap}, gather {gather}, {problem}, seed {seed}"
                );
                count += 1;
            }
        }
    }
    println!("law fixup.products: {count} cases");
}

/// The same of all types of A, B and C.
#[test]
fn law_parts_of_all_types_that_blocks_add_multiply() {
    fn by<T: GemmElement, C: GemmElement>(ab: Ty, c: Ty, is_tf32: bool, seed: u64) {
        let problem = GemmProblem::new(130, 80, 272).beta(if seed == 1 { 3.0 } else { 0.0 });
        let operands = Operands {
            majors: problem.majors,
            beta: problem.beta != 0.0,
            ..operands(ab, c)
        };
        let step = 512 / i64::from(ab.bits());
        let usual = GemmPlan::new(GemmMethod::Hopper, operands);
        let cluster = [[1, 1, 1], [2, 1, 1], [1, 1, 2]][seed as usize];
        let plan = divided(&usual, [64, 32, step], cluster, [2 + seed as i64, 1]);
        let case = GemmCase::new(problem);
        let case = if is_tf32 { case.tf32() } else { case };
        let done = case.run_by::<T, C>(&device(seed), &plan);
        done.unwrap_or_else(|why| panic!("{plan}, {problem}, seed {seed}: {why}"));
    }
    for seed in 0..3 {
        by::<bf16, bf16>(Ty::Bf16, Ty::Bf16, false, seed);
        by::<bf16, f32>(Ty::Bf16, Ty::F32, false, seed);
        by::<f16, f16>(Ty::F16, Ty::F16, false, seed);
        by::<f16, f32>(Ty::F16, Ty::F32, false, seed);
        by::<f32, f32>(Ty::Tf32, Ty::F32, true, seed);
        by::<i8, i32>(Ty::S8, Ty::S32, false, seed);
    }
    println!("law fixup.types: 18 cases");
}

/// Numbers whose sums are rounded.
fn rounded(count: usize, from: usize) -> Vec<bf16> {
    let number = |i: usize| bf16::from_f64((i as f64 * 0.7311).sin());
    (from..from + count).map(number).collect()
}

fn bits(all: &[f32]) -> Vec<u32> {
    all.iter().map(|x| x.to_bits()).collect()
}

/// C has, bit by bit, the sum of the products of the parts in their order, in every run of a call and of two calls, under every schedule. So
/// has C by as many parts that a second kernel adds.
#[test]
fn law_every_run_has_the_bits_of_the_sum_of_the_parts_in_their_order() {
    let (m, n, k) = (100_usize, 90_usize, 136_usize);
    let (a, b) = (rounded(m * k, 0), rounded(n * k, 3));
    let run = |change: &dyn Fn(&mut GemmPlan), columns: std::ops::Range<usize>, seed: u64| {
        let device = device(seed);
        let (da, db) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let c = device.poisoned::<f32>(m * n).unwrap();
        let mut written = c.clone();
        let length = (columns.end - columns.start) as i64;
        let part = |rows: usize, of: &colex_gpu::Buffer<bf16>| {
            of.slice(columns.start..(rows - 1) * k + columns.end)
                .unwrap()
        };
        let (pa, pb) = (part(m, &da), part(n, &db));
        let layout = |rows: usize| Layout::new((rows as i64, length), (k as i64, 1)).unwrap();
        let (va, vb) = (
            View::new(&pa, layout(m)).unwrap(),
            View::new(&pb, layout(n)).unwrap(),
        );
        let view = written.view_mut((m as i64, n as i64)).unwrap();
        let gemm = Gemm::new(&va, &vb, &view);
        let prepared = || {
            let call = gemm.prepare_with(|operands, _| {
                let mut plan = GemmPlan::new(GemmMethod::Hopper, operands);
                plan = GemmPlan {
                    tile: [64, 32, 16],
                    warps: [1, 1],
                    cluster: [1; 3],
                    stages: 3,
                    ..plan
                };
                change(&mut plan);
                Ok(plan)
            });
            call.unwrap()
        };
        let mut found: Option<Vec<u32>> = None;
        for call in [prepared(), prepared()] {
            for _ in 0..2 {
                call.run(&device).unwrap();
                let c = bits(&c.download().unwrap());
                assert!(found.as_ref().is_none_or(|found| *found == c), "{seed}");
                found = Some(c);
            }
        }
        found.unwrap()
    };
    let whole = run(&|_| (), 0..k, 0);
    let mut count = 0;
    // 9 steps: the first parts have one more than the others.
    for (parts, ends) in [
        (2, &[5, 9][..]),
        (3, &[3, 6, 9]),
        (4, &[3, 5, 7, 9]),
        (7, &[2, 4, 5, 6, 7, 8, 9]),
    ] {
        let begins = [0].into_iter().chain(ends.iter().copied());
        let products = begins.zip(ends).map(|(begin, end)| {
            let end = (end * 16).min(k);
            run(&|_| (), begin * 16..end, 1)
        });
        let products: Vec<Vec<u32>> = products.collect();
        for undivided in [0, 1, 4, 6] {
            let expected = (0..m * n).map(|at| {
                // The usual order: along N, and the rows of a strip together.
                let tile = (at % n / 32) * 2 + at / n / 64;
                if (tile as i64) < undivided {
                    whole[at]
                } else {
                    let numbers = products.iter().map(|of_part| f32::from_bits(of_part[at]));
                    numbers.fold(-0.0, |sum, x| sum + x).to_bits()
                }
            });
            let expected: Vec<u32> = expected.collect();
            let by = |plan: &mut GemmPlan| {
                *plan = divided(plan, [64, 32, 16], [1; 3], [parts, undivided]);
            };
            let share = parts + undivided;
            for seed in (0..5).filter(|seed| takes(4, *seed as usize + share as usize)) {
                let found = run(&by, 0..k, seed);
                assert!(found == expected, "{parts} parts, {undivided}, seed {seed}");
                count += 1;
            }
            let by_two_kernels = |plan: &mut GemmPlan| {
                by(plan);
                plan.division = Division::SplitK;
            };
            let found = run(&by_two_kernels, 0..k, 2);
            assert!(found == expected, "{parts} parts, {undivided}");
        }
    }
    println!("law fixup.bits: {count} cases");
}

/// A kernel may be changed before it runs.
type Change<'a> = &'a dyn Fn(&mut Vec<Stmt>);

/// The bits of C by as many parts after as many launches, and the words that they leave, where all blocks run at once.
fn launched(
    change: Change<'_>,
    [parts, launches]: [i64; 2],
    seed: u64,
) -> Result<[Vec<u32>; 2], Fault> {
    let (m, n, k) = (128_i64, 64_i64, 208_i64);
    let usual = GemmPlan::new(GemmMethod::Hopper, operands(Ty::Bf16, Ty::F32));
    let plan = divided(&usual, [128, 32, 16], [1; 3], [parts, 0]);
    let mut built = plan.build(Arch::Sm90a).unwrap();
    change(&mut built.kernel.body);
    let mut ranks = Ranks::connected(1).unwrap();
    let mut place = |bytes: i64| ranks.allocate(0, bytes as u64).unwrap();
    let (at_a, at_b, at_c) = (place(m * k * 2), place(n * k * 2), place(m * n * 4));
    let problem = GemmProblem::new(m, n, k);
    let (workspace, words) = (place(plan.workspace(&problem)), place(4 * 4));
    let bytes = |all: Vec<bf16>| -> Vec<u8> { all.iter().flat_map(|x| x.to_le_bytes()).collect() };
    ranks
        .write(at_a, &bytes(rounded((m * k) as usize, 0)))
        .unwrap();
    ranks
        .write(at_b, &bytes(rounded((n * k) as usize, 3)))
        .unwrap();
    ranks.write(words, &[0; 16]).unwrap();
    let map = |name: &str, extents: (i64, i64), address| {
        let layout = Layout::new(extents, (extents.1, 1)).unwrap();
        let map = built.tensor_map(name, layout).unwrap();
        let encoded = None;
        Argument::from(TensorMapArgument {
            map,
            address,
            encoded,
        })
    };
    let mut given = vec![
        map("A", (m, k), at_a),
        map("B", (n, k), at_b),
        map("C", (m, n), at_c),
    ];
    // Two tiles.
    given.extend([m, n, k, parts, 0].map(|n| Argument::U32(n as u32)));
    given.extend([workspace, words].map(Argument::U64));
    given.extend([1.0, 0.0].map(Argument::F32));
    let given: Vec<Arg<'_>> = given.into_iter().map(Arg::Value).collect();
    let arguments = [Some(built.arguments(&given).unwrap())];
    let launch = Launch::new(2 * parts as u32, 384)
        .dynamic_shared(built.dynamic_shared())
        .cooperative();
    for _ in 0..launches {
        // What no launch stores is seen.
        ranks
            .write(at_c, &vec![0xff; (m * n * 4) as usize])
            .unwrap();
        let options = SimOptions::default().seed(seed);
        ranks.simulate(&built.kernel, &launch, &arguments, &options)?;
    }
    let read = |at: u64, bytes: i64| {
        let bytes = ranks.read(at, bytes as u64).unwrap();
        let words = bytes.as_chunks::<4>().0.iter();
        words.map(|word| u32::from_le_bytes(*word)).collect()
    };
    Ok([read(at_c, m * n * 4), read(words, 16)])
}

/// Where all blocks run beside each other, the bits and the words that are left do not depend on which part comes last.
#[test]
fn law_blocks_beside_each_other_leave_the_same_bits() {
    for parts in [2, 3, 5] {
        let expected = launched(&|_| (), [parts, 1], 0).unwrap();
        assert_eq!(expected[1], [0; 4]);
        for seed in 0..8 {
            let found = launched(&|_| (), [parts, 2], seed).unwrap();
            assert!(found == expected, "{parts} parts, {seed}");
        }
    }
    println!("law fixup.beside: 24 cases");
}

/// Changes every statement of a body for which `edit` says so; returns how many.
fn edited(body: &mut Vec<Stmt>, edit: &dyn Fn(&mut Stmt) -> bool) -> usize {
    let mut count = 0;
    for stmt in body {
        count += usize::from(edit(stmt));
        match &mut stmt.op {
            Op::Control(Control::If { then, other, .. }) => {
                count += edited(then, edit) + edited(other, edit);
            }
            Op::Control(Control::Loop { body }) => count += edited(body, edit),
            _ => {}
        }
    }
    count
}

/// Removes every statement for which `is_it` holds; returns how many.
fn removed(body: &mut Vec<Stmt>, is_it: &dyn Fn(&Stmt) -> bool) -> usize {
    let before = body.len();
    body.retain(|stmt| !is_it(stmt));
    let mut count = before - body.len();
    for stmt in body {
        match &mut stmt.op {
            Op::Control(Control::If { then, other, .. }) => {
                count += removed(then, is_it) + removed(other, is_it);
            }
            Op::Control(Control::Loop { body }) => count += removed(body, is_it),
            _ => {}
        }
    }
    count
}

/// A missing order, wait, barrier or reset is named.
#[test]
fn law_planted_faults_of_a_fixup_are_found() {
    let acquires = |stmt: &Stmt| {
        matches!(&stmt.op, Op::Memory(Memory::Load { access, .. })
            if access.order == Order::Acquire(Scope::Gpu))
    };
    let releases = |stmt: &Stmt| {
        matches!(
            &stmt.op,
            Op::Memory(Memory::Reduce {
                order: Order::Release(Scope::Gpu),
                ..
            })
        )
    };
    let waits = |stmt: &Stmt| matches!(&stmt.op, Op::Control(Control::Loop { body }) if body.iter().any(acquires));
    let relaxed_load = |body: &mut Vec<Stmt>| {
        let count = edited(body, &|stmt| match &mut stmt.op {
            Op::Memory(Memory::Load { access, .. })
                if access.order == Order::Acquire(Scope::Gpu) =>
            {
                access.order = Order::Relaxed(Scope::Gpu);
                true
            }
            _ => false,
        });
        assert_eq!(count, 1);
    };
    let relaxed_flag = |body: &mut Vec<Stmt>| {
        let count = edited(body, &|stmt| match &mut stmt.op {
            Op::Memory(Memory::Reduce { order, .. }) if *order == Order::Release(Scope::Gpu) => {
                *order = Order::Relaxed(Scope::Gpu);
                true
            }
            _ => false,
        });
        assert_eq!(count, 1);
    };
    let no_wait = |body: &mut Vec<Stmt>| assert_eq!(removed(body, &waits), 1);
    let no_flag = |body: &mut Vec<Stmt>| assert_eq!(removed(body, &releases), 1);
    let no_reset = |body: &mut Vec<Stmt>| {
        let count = removed(body, &|stmt| {
            matches!(&stmt.op, Op::Memory(Memory::Store { access, .. })
                if access.order == Order::Relaxed(Scope::Gpu))
        });
        assert_eq!(count, 1);
    };
    // A flag that one thread sets before the others have stored.
    let no_barrier = |body: &mut Vec<Stmt>| {
        let count = edited(body, &|stmt| {
            let Op::Control(Control::If { then, other, .. }) = &mut stmt.op else {
                return false;
            };
            let mut found = false;
            for branch in [then, other] {
                let leads = branch.iter().position(|stmt| {
                    matches!(&stmt.op, Op::Control(Control::If { then, .. }) if then.iter().any(releases))
                });
                let barrier = leads.and_then(|at| {
                    let before = branch[..at].iter();
                    before
                        .rev()
                        .position(|stmt| matches!(&stmt.op, Op::Sync(Sync::Barrier { .. })))
                        .map(|back| at - 1 - back)
                });
                if let Some(at) = barrier {
                    branch.remove(at);
                    found = true;
                }
            }
            found
        });
        assert_eq!(count, 1);
    };
    use FaultKind::{Deadlock, Race};
    let planted: [(&str, Change<'_>, i64, FaultKind, &str); 5] = [
        (
            "a look that does not acquire",
            &relaxed_load,
            1,
            Race,
            "acquir",
        ),
        (
            "a flag that does not release",
            &relaxed_flag,
            1,
            Race,
            "releas",
        ),
        ("no wait", &no_wait, 1, Race, "workspace"),
        ("no flag", &no_flag, 1, Deadlock, "words"),
        (
            "no barrier before the flag",
            &no_barrier,
            1,
            Race,
            "workspace",
        ),
    ];
    for (name, change, launches, kind, says) in planted {
        for parts in [2, 3] {
            for seed in 0..3 {
                let fault = launched(change, [parts, launches], seed).expect_err(name);
                let of = format!("{name}, {parts} parts, {seed}: {fault}");
                assert_eq!(fault.kind(), kind, "{of}");
                assert!(of.contains(says), "{of}");
            }
        }
    }
    // Without the reset, no warpgroup of the next launch is the last.
    let kept = launched(&no_reset, [3, 1], 0).unwrap();
    assert_eq!(kept[1], [3 + 2 * 16; 4]);
    let next = launched(&no_reset, [3, 2], 0).unwrap();
    assert!(next[0].iter().all(|bits| *bits == u32::MAX));
    println!("law fixup.planted: {} faults", planted.len() + 1);
}

/// The epilogue of the block that adds is that of a whole tile, after two parts and after three: with tensors, one of which TMA brings, with two right factors, and with an
/// output beside C.
#[test]
fn law_an_epilogue_has_the_sum_of_the_parts() {
    let (m, n, k) = (150_i64, 72_i64, 136_i64);
    let gated = Epilogue::new(Ty::F32, |e| {
        let bias = e.tensor("bias", Ty::F32);
        let x = e.accumulator() + e.second_accumulator() * 3.0 + bias;
        e.output("negative", -x.clone());
        x
    });
    let residual = Epilogue::new(Ty::F32, |e| {
        e.accumulator() + e.tensor("bias", Ty::F32) + e.tensor("residual", Ty::F32)
    });
    let (gated, residual) = (gated.expect("an epilogue"), residual.expect("an epilogue"));
    let number = |i: i64, of: i64| bf16::from_f64(((i * 7 + i / 11) % of - of / 2) as f64);
    let halves = |count: i64, of: i64| -> Vec<bf16> { (0..count).map(|i| number(i, of)).collect() };
    let (a, b, b2) = (halves(m * k, 5), halves(n * k, 7), halves(n * k, 3));
    let bias: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let old: Vec<f32> = (0..m * n).map(|i| ((i * 5) % 17) as f32).collect();
    let sum = |right: &[bf16], i: i64, j: i64| -> f32 {
        let term = |l: i64| a[(i * k + l) as usize].to_f32() * right[(j * k + l) as usize].to_f32();
        (0..k).map(term).sum()
    };
    let places = || (0..m).flat_map(|i| (0..n).map(move |j| (i, j)));
    let row = || Layout::new((m, n), (0, 1)).expect("a layout");
    for (numbers, tile) in [
        ([2, 0], [64, 32, 16]),
        ([2, 3], [128, 32, 32]),
        ([3, 0], [64, 32, 16]),
    ] {
        let found = testing::in_every_schedule(Arch::Sm90a, 3, |device| {
            let (a, b, b2) = (device.upload(&a)?, device.upload(&b)?, device.upload(&b2)?);
            let bias = device.upload(&bias)?;
            let mut c = device.upload(&vec![f32::NAN; (m * n) as usize])?;
            let mut negative = device.upload(&vec![f32::NAN; (m * n) as usize])?;
            {
                let (left, right, second) = (a.view((m, k))?, b.view((n, k))?, b2.view((n, k))?);
                let (c, negative) = (c.view_mut((m, n))?, negative.view_mut((m, n))?);
                let bias = View::new(&bias, row())?;
                let product = Gemm::new(&left, &right, &c).b2(&second).epilogue(&gated);
                let product = product.tensor("bias", &bias).output("negative", &negative);
                let call = product.prepare_with(|operands, _| {
                    let usual = GemmPlan::new(GemmMethod::Hopper, operands);
                    Ok(divided(&usual, tile, [1; 3], numbers))
                })?;
                call.run(device)?;
            }
            let negated = negative.download()?.into_iter().map(|x| -x);
            let negated: Vec<f32> = negated.collect();
            Ok((bits(&c.download()?), bits(&negated)))
        });
        let (c, negated) = found.unwrap_or_else(|why| panic!("{numbers:?}: {why}"));
        let expected = places().map(|(i, j)| sum(&b, i, j) + sum(&b2, i, j) * 3.0 + j as f32);
        let expected: Vec<f32> = expected.collect();
        assert!(c == bits(&expected) && negated == c, "{numbers:?}");
        let found = testing::in_every_schedule(Arch::Sm90a, 3, |device| {
            let (a, b) = (device.upload(&a)?, device.upload(&b)?);
            let (bias, old) = (device.upload(&bias)?, device.upload(&old)?);
            let mut c = device.upload(&vec![f32::NAN; (m * n) as usize])?;
            {
                let (left, right) = (a.view((m, k))?, b.view((n, k))?);
                let (bias, old) = (View::new(&bias, row())?, old.view((m, n))?);
                let c = c.view_mut((m, n))?;
                let product = Gemm::new(&left, &right, &c).epilogue(&residual);
                let product = product.tensor("bias", &bias).tensor("residual", &old);
                let call = product.prepare_with(|operands, _| {
                    let usual = GemmPlan::new(GemmMethod::Hopper, operands);
                    Ok(divided(&usual, tile, [1; 3], numbers))
                })?;
                call.run(device)?;
            }
            Ok(bits(&c.download()?))
        });
        let c = found.unwrap_or_else(|why| panic!("{numbers:?}: {why}"));
        let expected = places().map(|(i, j)| sum(&b, i, j) + j as f32 + old[(i * n + j) as usize]);
        let expected: Vec<f32> = expected.collect();
        assert!(c == bits(&expected), "{numbers:?}");
    }
    println!("law fixup.epilogues: 6 cases");
}

/// The workspace has a place for one of two parts of each tile that is divided, and for all of more.
#[test]
fn law_a_workspace_has_a_place_for_each_part_that_is_written() {
    let usual = GemmPlan::new(GemmMethod::Hopper, operands(Ty::Bf16, Ty::Bf16));
    for (cluster, undivided) in [([1, 1, 1], 0), ([2, 1, 1], 1), ([1, 1, 2], 2)] {
        let plan = divided(&usual, [64, 32, 16], cluster, [2, undivided]);
        let problem = GemmProblem::new(130, 60, 104);
        let along = |extent: i64, tile: i64| (extent + tile - 1) / tile;
        let tiles = along(130, 64 * cluster[0]) * along(60, 32) - undivided;
        let bytes = tiles * 64 * 32 * 4 * cluster[0];
        assert_eq!(plan.workspace(&problem), bytes, "{plan}");
        let two = GemmPlan {
            division: Division::SplitK,
            ..plan
        };
        assert_eq!(two.workspace(&problem), 2 * bytes, "{plan}");
        assert!(plan.build_sum(Arch::Sm90a).unwrap().is_none());
        let three = GemmPlan { split: 3, ..plan };
        assert_eq!(three.workspace(&problem), 3 * bytes, "{three}");
    }
    println!("law fixup.workspace: 3 cases");
}

/// What it does not take, and what is said of a plan.
#[test]
fn a_fixup_has_limits() {
    let by = |change: fn(&mut GemmPlan)| {
        said(GemmMethod::Hopper, |plan| {
            *plan = divided(plan, [64, 32, 16], [1; 3], [2, 0]);
            change(plan);
        })
    };
    assert_eq!(
        by(|plan| plan.split = 1),
        "the plan's number of parts of K that a block adds is 1: the Hopper kernel takes 2 to 8"
    );
    assert_eq!(
        by(|plan| plan.split = 9),
        "the plan's number of parts of K that a block adds is 9: the Hopper kernel takes 2 to 8"
    );
    assert_eq!(
        by(|plan| plan.schedule = Pingpong),
        "the plan asks for 2 parts of K by pingpong: the Hopper kernel takes at most 1, 1 fewer"
    );
    assert_eq!(
        said(GemmMethod::Ampere, |plan| plan.division =
            Division::SplitKFixup),
        "the plan divides K into parts that a block adds: the Ampere kernel does not, and the Hopper kernel does"
    );
    let usual = GemmPlan::new(GemmMethod::Hopper, operands(Ty::Bf16, Ty::Bf16));
    let plan = divided(&usual, [128, 256, 64], [2, 1, 1], [2, 132]);
    assert_eq!(
        plan.to_string(),
        "Hopper bf16 to bf16, tile 128x256x64, 3 stages, 2 consumers, cluster 2x1x1, 2 parts of K added by the last block after 132 \
         tiles, grouped 8 along n"
    );
}
