//! Kernels for several widths of their tiles: each width multiplies as a kernel of that width alone does.

use colex_atom::{Arch, Ty};
use colex_gpu::kernels::gemm::{Division, GemmMethod, GemmPlan, Operands};
use colex_gpu::kernels::{GemmElement, GemmProblem, Major, Operand};
use colex_gpu::{Device, Gemm};
use colex_ir::launch::{Argument, Launch, TensorMapArgument};
use colex_ir::{Control, Memory, Op, Space, Stmt};
use colex_layout::Layout;
use colex_proof::kernels::gemm::GemmCase;
use colex_proof::kernels::trapped;
use colex_proof::soak::{share_of, takes};
use colex_sched::pipeline::Schedule::{Cooperative, Pingpong};
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

/// A plan of a kernel whose widest tile is `tile`, with tiles of `columns` columns.
fn narrowed(usual: &GemmPlan, tile: [i64; 3], cluster: [i64; 3], columns: i64) -> GemmPlan {
    GemmPlan {
        tile,
        columns,
        warps: [tile[0] / 64, 1],
        cluster,
        stages: 3,
        ..*usual
    }
}

/// The step of the widths of a kernel.
fn step(ab: Ty, widest: i64, [along_m, ..]: [i64; 3]) -> i64 {
    if ab != Ty::S8 && widest <= 128 && along_m == 1 {
        8
    } else {
        16
    }
}

/// The widths of a kernel.
fn widths(widest: i64, step: i64) -> impl Iterator<Item = i64> {
    (1..=widest / step)
        .map(move |units| units * step)
        .filter(move |width| 2 * width > widest)
}

fn device(seed: u64) -> Device {
    let options = SimOptions::default().schedule(Schedule::from_seed(seed));
    Device::simulator_with(Arch::Sm90a, options)
}

/// Leading dimensions that tensor maps describe.
fn aligned(problem: GemmProblem, vector: i64) -> GemmProblem {
    Operand::ALL.into_iter().fold(problem, |problem, operand| {
        let [(rows, _), (columns, _)] = problem.extents(operand);
        let along = match problem.majors[operand as usize] {
            Major::First => rows,
            Major::Second => columns,
        };
        problem.leading(operand, (along + vector - 1) / vector * vector)
    })
}

/// The majors of A, B and C by the bits of a number.
fn ordered(problem: GemmProblem, bits: usize) -> GemmProblem {
    let major = |bit: usize| [Major::Second, Major::First][bits >> bit & 1];
    problem
        .major(Operand::A, major(0))
        .major(Operand::B, major(1))
        .major(Operand::C, major(2))
}

/// Every width of seven widest tiles, of one to three consumers, with K whole and in two parts, with clusters along each mode and both, of a part of a tile, of one and of several, with K
/// that ends within a step, in every order of the matrices, with exchanged operands, early and in order, by both schedules, as the asynchronous work comes first, last or at random.
#[test]
fn law_every_width_multiplies() {
    let tiles = [
        ([64, 64, 64], Cooperative),
        ([64, 96, 32], Cooperative),
        ([128, 128, 64], Cooperative),
        ([64, 128, 64], Pingpong),
        ([128, 64, 64], Pingpong),
        ([128, 256, 64], Cooperative),
        ([192, 96, 32], Cooperative),
    ];
    let clusters = [[1, 1, 1], [2, 1, 1], [1, 2, 1], [2, 2, 1], [1, 4, 1]];
    let (mut count, mut number) = (0, 0);
    for (tile, schedule) in tiles {
        let [bm, bn, bk] = tile;
        for columns in widths(bn, 8) {
            for (i, cluster) in clusters.into_iter().enumerate() {
                if columns % step(Ty::Bf16, bn, cluster) != 0 {
                    continue;
                }
                for swap in [false, true] {
                    let at = number;
                    number += 1;
                    // Each extent meets each other one.
                    if !takes(5, at + at / 5) {
                        continue;
                    }
                    let rows = [2 * bm + 40, bm, 24, 2 * bm * cluster[0] + 8][at % 4];
                    let n = [2 * columns + 24, columns, 8, 3 * columns + 40][at / 2 % 4];
                    let [m, n] = if swap { [n, rows] } else { [rows, n] };
                    let k = [3 * bk + 8, 40, 2 * bk, bk + 24][at % 3];
                    let problem = GemmProblem::new(m, n, k).alpha(2.0);
                    // What the kernel sees as B is contiguous along K.
                    let right = if swap { 1 } else { 2 };
                    let problem = aligned(ordered(problem, (at + i) & !right), 8);
                    let found =
                        product_on(&device(at as u64), GemmMethod::Hopper, problem, |plan| {
                            *plan = GemmPlan {
                                swap,
                                schedule,
                                early: at % 3 == 1,
                                ..narrowed(plan, tile, cluster, columns)
                            };
                            if schedule == Pingpong {
                                plan.warps = [1, 1];
                            } else if k > 2 * bk {
                                (plan.split, plan.division) = (2, Division::SplitKFixup);
                            }
                        });
                    assert_eq!(
                        found,
                        Ok(0.0),
                        "{tile:?} of {columns} columns, {cluster:?}, {schedule:?}, swap {swap}, {problem}"
                    );
                    count += 1;
                }
            }
        }
    }
    println!("law widths.products: {count} cases");
}

/// The same of all types of A, B and C, in every order of the matrices.
#[test]
fn law_every_width_of_all_types_multiplies() {
    fn by<T: GemmElement, C: GemmElement>(ab: Ty, c: Ty, is_tf32: bool, number: usize) -> usize {
        let mut cases = 0;
        let [tile, cluster] = [
            [[64, 64, 1], [1, 1, 1]],
            [[128, 128, 1], [2, 1, 1]],
            [[64, 96, 1], [1, 2, 1]],
        ][number % 3];
        let step = 1024 / i64::from(ab.bits());
        let tile = [tile[0], tile[1], step];
        for columns in widths(tile[1], self::step(ab, tile[1], cluster)) {
            if !takes(4, columns as usize / 8 + number / 3 + share_of(ab)) {
                continue;
            }
            let problem = GemmProblem::new(tile[0] + 48, 2 * columns + 16, 2 * step + 16);
            let problem = aligned(ordered(problem, number & !2), 16);
            let operands = Operands {
                majors: problem.majors,
                ..operands(ab, c)
            };
            let usual = GemmPlan::new(GemmMethod::Hopper, operands);
            let plan = narrowed(&usual, tile, cluster, columns);
            let case = GemmCase::new(problem);
            let case = if is_tf32 { case.tf32() } else { case };
            let done = case.run_by::<T, C>(&device(number as u64), &plan);
            done.unwrap_or_else(|why| panic!("{plan}, {problem}, {number}: {why}"));
            cases += 1;
        }
        cases
    }
    let mut cases = 0;
    for number in 0..8 {
        cases += by::<bf16, bf16>(Ty::Bf16, Ty::Bf16, false, number);
        cases += by::<bf16, f32>(Ty::Bf16, Ty::F32, false, number);
        cases += by::<f16, f16>(Ty::F16, Ty::F16, false, number);
        cases += by::<f16, f32>(Ty::F16, Ty::F32, false, number);
        cases += by::<f32, f32>(Ty::Tf32, Ty::F32, true, number);
        cases += by::<f32, bf16>(Ty::Tf32, Ty::Bf16, true, number);
        cases += by::<i8, i32>(Ty::S8, Ty::S32, false, number);
    }
    println!("law widths.types: {cases} cases");
}

/// Numbers whose sums are rounded.
fn rounded(count: i64, from: i64) -> Vec<bf16> {
    let number = |i: i64| bf16::from_f64((i as f64 * 0.7311).sin());
    (from..from + count).map(number).collect()
}

/// The bits of the product of rounded numbers by a plan.
fn bits(device: &Device, [m, n, k]: [i64; 3], change: impl FnOnce(&mut GemmPlan)) -> Vec<u32> {
    let (a, b) = (rounded(m * k, 0), rounded(n * k, 3));
    let (a, b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let mut c = device.poisoned::<f32>((m * n) as usize).unwrap();
    {
        let (a, b) = (a.view((m, k)).unwrap(), b.view((n, k)).unwrap());
        let c = c.view_mut((m, n)).unwrap();
        let call = Gemm::new(&a, &b, &c).prepare_with(|operands, _| {
            let mut plan = GemmPlan::new(GemmMethod::Hopper, operands);
            change(&mut plan);
            Ok(plan)
        });
        call.unwrap().run(device).unwrap();
    }
    c.download().unwrap().iter().map(|x| x.to_bits()).collect()
}

/// The bits of a product are those of the plan whose kernel has that width alone, by every schedule.
#[test]
fn law_widths_have_the_bits_of_one_width() {
    let mut count = 0;
    for (tile, cluster) in [
        ([64, 64, 64], [1, 1, 1]),
        ([128, 128, 32], [2, 1, 1]),
        ([64, 96, 16], [1, 2, 1]),
        ([128, 256, 64], [2, 1, 1]),
    ] {
        let [bm, bn, bk] = tile;
        for columns in widths(bn, step(Ty::Bf16, bn, cluster)) {
            let extents = [bm + 24, 2 * columns + 20, 4 * bk + 8];
            let (split, division) = match columns / 8 % 3 {
                0 => (1, Division::SplitK),
                _ => (2, Division::SplitKFixup),
            };
            let one = bits(&device(0), extents, |plan| {
                *plan = GemmPlan {
                    columns: 0,
                    split,
                    division,
                    ..narrowed(plan, [bm, columns, bk], cluster, columns)
                };
            });
            for seed in (0..3).filter(|seed| takes(3, *seed as usize + columns as usize / 16)) {
                let found = bits(&device(seed), extents, |plan| {
                    *plan = GemmPlan {
                        split,
                        division,
                        ..narrowed(plan, tile, cluster, columns)
                    };
                });
                assert!(found == one, "{tile:?} of {columns} columns, seed {seed}");
                count += 1;
            }
        }
    }
    println!("law widths.bits: {count} cases");
}

/// All widths and all extents have one kernel, and no launch of it can trap.
#[test]
fn law_all_widths_have_one_kernel() {
    let device = Device::simulator(Arch::Sm90a);
    let of = || device.zeros::<bf16>(1 << 18).unwrap();
    let (a, b, c) = (of(), of(), of());
    let extents = |columns: i64| [[512, 512, 512], [1, 8, 8], [200, columns + 16, 104]];
    let cases = widths(256, 16).flat_map(|columns| extents(columns).map(|of| (columns, of)));
    let cases: Vec<(i64, [i64; 3])> = cases.collect();
    let mut written = vec![c; cases.len()];
    let calls = cases.iter().zip(&mut written).map(|((columns, of), c)| {
        let [m, n, k] = *of;
        let gemm = GemmProblem::new(m, n, k).on(&a, &b, c).unwrap();
        let call = gemm.prepare_with(|operands, _| {
            let usual = GemmPlan::new(GemmMethod::Hopper, operands);
            Ok(narrowed(&usual, [128, 256, 64], [2, 1, 1], *columns))
        });
        call.unwrap()
    });
    let calls: Vec<_> = calls.collect();
    let first = calls[0].built().unwrap();
    assert_eq!(trapped(&first.kernel), [""; 0]);
    for call in &calls {
        assert!(std::ptr::eq(call.built().unwrap(), first), "{call}");
    }
    println!("law widths.kernels: {} cases", calls.len());
}

/// A kernel may be changed before it runs.
type Change<'a> = &'a dyn Fn(&mut Vec<Stmt>);

/// What a launch says of the width: the rows of B's boxes, the columns of the tiles in steps of 8, and the tiles along N.
type Said = [i64; 3];

const EXTENTS: [i64; 3] = [72, 100, 136];

/// C by a kernel of widths of 72 to 128 columns, where nothing has written it -1.
fn launched(change: Change<'_>, [rows, units, tiles]: Said, seed: u64) -> Result<Vec<f32>, Fault> {
    let [m, n, k] = EXTENTS;
    let usual = GemmPlan::new(GemmMethod::Hopper, operands(Ty::Bf16, Ty::F32));
    let plan = narrowed(&usual, [64, 128, 64], [1; 3], 80);
    let mut built = plan.build(Arch::Sm90a).unwrap();
    change(&mut built.kernel.body);
    let mut ranks = Ranks::connected(1).unwrap();
    let mut place = |bytes: i64| ranks.allocate(0, bytes as u64).unwrap();
    let (at_a, at_b, at_c) = (place(m * k * 2), place(n * k * 2), place(m * n * 4));
    let bytes = |all: Vec<bf16>| -> Vec<u8> { all.iter().flat_map(|x| x.to_le_bytes()).collect() };
    ranks.write(at_a, &bytes(rounded(m * k, 0))).unwrap();
    ranks.write(at_b, &bytes(rounded(n * k, 3))).unwrap();
    let nothing = (-1f32).to_le_bytes().repeat((m * n) as usize);
    ranks.write(at_c, &nothing).unwrap();
    let layout = |extents: (i64, i64)| Layout::new(extents, (extents.1, 1)).unwrap();
    let (of_a, of_b, of_c) = (layout((m, k)), layout((n, k)), layout((m, n)));
    let map = |map, address| {
        let encoded = None;
        let of = TensorMapArgument {
            map,
            address,
            encoded,
        };
        Arg::Value(Argument::from(of))
    };
    let narrow = built.narrowed_tensor_map("B", of_b, rows).unwrap();
    let mut given = vec![
        map(built.tensor_map("A", of_a).unwrap(), at_a),
        map(narrow, at_b),
        map(built.tensor_map("C", of_c.clone()).unwrap(), at_c),
        Arg::checked(at_c, &of_c),
    ];
    given.extend([m, n, k, units, tiles].map(|n| Arg::Value(Argument::U32(n as u32))));
    given.extend([1.0, 0.0].map(|x| Arg::Value(Argument::F32(x))));
    let arguments = [Some(built.arguments(&given).unwrap())];
    let launch = Launch::new(2, 256).dynamic_shared(built.dynamic_shared());
    let options = SimOptions::default().seed(seed);
    ranks.simulate(&built.kernel, &launch, &arguments, &options)?;
    let bytes = ranks.read(at_c, (m * n * 4) as u64).unwrap();
    let words = bytes.as_chunks::<4>().0.iter();
    Ok(words.map(|word| f32::from_le_bytes(*word)).collect())
}

/// Removes the statements for which `is_it` holds; returns how many.
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

/// A barrier that expects the bytes of another width, tiles that lie where those of another width do, a tail that is not stored and a main loop of another width
/// are all found.
#[test]
fn law_planted_faults_of_widths_are_found() {
    let [_, n, _] = EXTENTS;
    let as_it_is: Change<'_> = &|_| ();
    let right = launched(as_it_is, [96, 12, 2], 0).unwrap();
    for seed in 0..3 {
        for (rows, tiles) in [(72, 2), (80, 2), (104, 1), (112, 1), (128, 1)] {
            let found = launched(as_it_is, [rows, rows / 8, tiles], seed);
            assert!(found.unwrap() == right, "{rows} columns, seed {seed}");
        }
        // The barrier waits for more bytes than the box brings, and for fewer.
        let fault = launched(as_it_is, [80, 12, 2], seed).expect_err("a box of 80 rows");
        assert_eq!(fault.kind(), FaultKind::Deadlock, "{fault}");
        let fault = launched(as_it_is, [96, 10, 2], seed).expect_err("a box of 96 rows");
        println!("{:?}: {fault}", fault.kind());
        // The threads store nothing: 16 columns behind two whole parts of 32.
        let no_tail = |body: &mut Vec<Stmt>| {
            let stores = |stmt: &Stmt| {
                matches!(&stmt.op, Op::Memory(Memory::Store { access, .. })
                    if access.space == Space::Global)
            };
            assert!(removed(body, &stores) > 0);
        };
        let cut = launched(&no_tail, [80, 10, 2], seed).unwrap();
        for (at, (found, right)) in cut.iter().zip(&right).enumerate() {
            let is_tail = (64..80).contains(&(at as i64 % n));
            let expected = if is_tail { -1.0 } else { *right };
            assert_eq!(found.to_bits(), expected.to_bits(), "element {at}");
        }
        // Nothing writes the columns of the second tile.
        let short = launched(as_it_is, [96, 12, 1], seed).unwrap();
        for (at, (found, right)) in short.iter().zip(&right).enumerate() {
            let expected = if at as i64 % n < 96 { *right } else { -1.0 };
            assert_eq!(found.to_bits(), expected.to_bits(), "element {at}");
        }
    }
    println!("law widths.planted: 12 faults");
}

/// What it does not take, and what is said of a plan.
#[test]
fn widths_have_limits() {
    let by = |change: fn(&mut GemmPlan)| {
        said(GemmMethod::Hopper, |plan| {
            *plan = narrowed(plan, [128, 256, 64], [2, 1, 1], 176);
            change(plan);
        })
    };
    for columns in [128, 150, 272, -16] {
        let found = said(GemmMethod::Hopper, |plan| {
            *plan = narrowed(plan, [128, 256, 64], [2, 1, 1], columns);
        });
        assert_eq!(
            found,
            format!(
                "the plan's number of columns of a tile is {columns}: the Hopper kernel takes 144 to 256, in multiples of 16"
            )
        );
    }
    assert_eq!(
        by(|plan| (plan.tile[1], plan.cluster) = (248, [1; 3])),
        "the plan's widest tile along N is 248: the Hopper kernel takes 16 to 256, in multiples of 16"
    );
    for division in [Division::SplitK, Division::StreamK] {
        let found = said(GemmMethod::Hopper, |plan| {
            *plan = GemmPlan {
                split: 2,
                division,
                ..narrowed(plan, [128, 256, 64], [2, 1, 1], 176)
            };
        });
        assert_eq!(
            found,
            "the plan's kernel has several widths: it takes K whole, or the block that comes last adds the parts"
        );
    }
    assert_eq!(
        by(|plan| plan.cluster = [1, 1, 2]),
        "the plan asks for 2 blocks along K of a cluster with several widths: the Hopper kernel takes at most 1, 1 fewer"
    );
    assert_eq!(
        by(|plan| plan.cluster = [4, 1, 1]),
        "the plan asks for 4 blocks along M of a cluster with several widths: the Hopper kernel takes at most 2, 2 fewer"
    );
    assert_eq!(
        by(|plan| (plan.gather, plan.cluster) = (true, [1; 3])),
        "the plan's kernel has several widths: TMA loads A and B, and threads do not"
    );
    assert_eq!(
        by(|plan| plan.operands.majors[1] = Major::First),
        "the plan's kernel has several widths: B, or A if the plan swaps them, is contiguous along K"
    );
    assert_eq!(
        by(|plan| {
            plan.swap = true;
            plan.operands.majors[0] = Major::First;
        }),
        "the plan's kernel has several widths: B, or A if the plan swaps them, is contiguous along K"
    );
    assert_eq!(
        by(|plan| plan.operands.beta = true),
        "the plan's kernel has several widths: it does not read C"
    );
    assert_eq!(
        by(|plan| plan.operands.vectors[2] = 2),
        "the plan's kernel has several widths: TMA stores C, which has 16 or 32 bits and rows (or columns) of whole vectors of 16 bytes"
    );
    assert_eq!(
        said(GemmMethod::Ampere, |plan| plan.columns = 112),
        "the plan's kernel has several widths: the Ampere kernel has one, and the Hopper kernel takes several"
    );
    let usual = GemmPlan::new(GemmMethod::Hopper, operands(Ty::Bf16, Ty::Bf16));
    let plan = narrowed(&usual, [128, 256, 64], [2, 1, 1], 176);
    assert_eq!(
        plan.to_string(),
        "Hopper bf16 to bf16, tile 128x176x64 of up to 256 columns, 3 stages, 2 consumers, cluster 2x1x1, grouped 8 along n"
    );
}
