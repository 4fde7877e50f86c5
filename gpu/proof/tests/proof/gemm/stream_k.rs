//! Plans that divide K by stream-K: the steps of all tiles that are not whole are one row, whose shares cross the borders of tiles.
//! Plans of split-K have kernels without that walk.

use std::collections::HashSet;

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::Epilogue;
use colex_gpu::kernels::gemm::{Division, GemmMethod, GemmPlan, Operands};
use colex_gpu::kernels::{GemmElement, GemmProblem, Major, Operand};
use colex_gpu::{Device, Gemm, testing};
use colex_proof::kernels::gemm::GemmCase;
use colex_proof::soak::takes;
use colex_proof::sweep::Random;
use colex_sched::StreamKRow;
use colex_sched::pipeline::Schedule::Pingpong;
use colex_sim::{Schedule, SimOptions};
use colex_tensor::TensorKernel;
use half::{bf16, f16};

use crate::plans::{product_on, said};

/// Matrices that are contiguous along K and N, with rows that tensor maps describe. C is not read.
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

/// Those of bf16.
fn halves() -> Operands {
    operands(Ty::Bf16, Ty::Bf16)
}

/// A plan of tiles of one consumer, in shares behind whole tiles.
fn shared(
    usual: &GemmPlan,
    tile: [i64; 3],
    cluster: [i64; 3],
    [shares, undivided]: [i64; 2],
) -> GemmPlan {
    GemmPlan {
        tile,
        warps: [tile[0] / 64, 1],
        cluster,
        split: shares,
        division: Division::StreamK,
        undivided,
        stages: 3,
        ..*usual
    }
}

fn device(seed: u64) -> Device {
    let options = SimOptions::default().schedule(Schedule::from_seed(seed));
    Device::simulator_with(Arch::Sm90a, options)
}

/// Shares of one step and of several tiles, more shares than steps, one that has all, ends of K within a step, clusters along every mode,
/// exchanged operands, loads by threads, C read and not, kernels that begin early, whole tiles in front, and more shares than
/// clusters run at once, under every schedule.
#[test]
fn law_shares_of_the_steps_of_all_tiles_multiply() {
    let (tile, wide) = ([64, 32, 16], [128, 64, 32]);
    // M, N, K, the tile, the cluster, the shares, and the whole tiles in front.
    let cases = [
        // 6 tiles of 7 steps; a share of 21 steps crosses two borders.
        ([130, 60, 104], tile, [1, 1, 1], [2, 0]),
        ([130, 60, 104], tile, [1, 1, 1], [4, 0]),
        ([130, 60, 104], tile, [1, 1, 1], [5, 1]),
        ([130, 60, 104], tile, [1, 1, 1], [13, 2]),
        ([130, 60, 104], tile, [1, 1, 1], [1024, 0]),
        ([130, 60, 104], tile, [1, 1, 1], [3, 6]),
        ([1, 8, 8], tile, [1, 1, 1], [3, 0]),
        ([1, 8, 1000], tile, [1, 1, 1], [7, 0]),
        ([200, 136, 264], tile, [2, 1, 1], [3, 1]),
        ([200, 136, 264], tile, [1, 2, 1], [5, 0]),
        ([200, 136, 264], wide, [2, 2, 1], [2, 0]),
        ([130, 136, 264], wide, [1, 1, 2], [3, 1]),
        ([130, 136, 520], tile, [1, 1, 4], [5, 0]),
        ([260, 200, 72], wide, [1, 1, 1], [7, 0]),
        ([640, 320, 72], [64, 32, 16], [1, 1, 1], [250, 3]),
    ];
    let mut count = 0;
    for (i, ([m, n, k], tile, cluster, numbers)) in cases.into_iter().enumerate() {
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
                    let numbers = if numbers[1] > 5 && swap {
                        [numbers[0], 3]
                    } else {
                        numbers
                    };
                    *plan = GemmPlan {
                        swap,
                        gather,
                        early: at % 3 == 1,
                        ..shared(plan, tile, cluster, numbers)
                    };
                });
                assert_eq!(
                    found,
                    Ok(0.0),
                    "{tile:?}, {cluster:?}, {numbers:?}, swap {swap}, gather {gather}, {problem}, seed {seed}"
                );
                count += 1;
            }
        }
    }
    println!("law stream_k.products: {count} cases");
}

/// The same of all types of A, B and C.
#[test]
fn law_shares_of_all_types_multiply() {
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
        let plan = shared(&usual, [64, 32, step], cluster, [4, 1]);
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
    println!("law stream_k.types: 18 cases");
}

/// Numbers whose sums are rounded.
fn rounded(count: usize, from: usize) -> Vec<bf16> {
    let number = |i: usize| bf16::from_f64((i as f64 * 0.7311).sin());
    (from..from + count).map(number).collect()
}

/// C is, bit by bit, what the schedule of `colex-sched` says: each tile is the sum, in the order of K, of the products of the parts that
/// the shares of the row have of it, and a tile that a share has whole is the product of a plan that divides nothing. Every run
/// gives these bits, under every schedule of the blocks, on one multiprocessor and on many.
#[test]
fn law_shares_are_summed_in_the_order_of_the_schedule() {
    // 2 by 3 tiles of 9 steps, the last of half a step.
    let (m, n, k) = (100_usize, 90_usize, 136_usize);
    let tile = [64, 32, 16];
    let steps = 9;
    let (a, b) = (rounded(m * k, 0), rounded(n * k, 3));
    let run =
        |change: &dyn Fn(&mut GemmPlan), columns: std::ops::Range<usize>, seed: u64| -> Vec<f32> {
            let device = device(seed);
            let (da, db) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
            let mut c = device.poisoned::<f32>(m * n).unwrap();
            let length = (columns.end - columns.start) as i64;
            let part = |rows: usize, of: &colex_gpu::Buffer<bf16>| {
                of.slice(columns.start..(rows - 1) * k + columns.end)
                    .unwrap()
            };
            let (pa, pb) = (part(m, &da), part(n, &db));
            let layout = |rows: usize| {
                colex_layout::Layout::new((rows as i64, length), (k as i64, 1)).unwrap()
            };
            let (va, vb) = (
                colex_gpu::View::new(&pa, layout(m)).unwrap(),
                colex_gpu::View::new(&pb, layout(n)).unwrap(),
            );
            let call = Gemm::new(&va, &vb, &c.view_mut((m as i64, n as i64)).unwrap())
                .prepare_with(|operands, _| {
                    let mut plan = GemmPlan::new(GemmMethod::Hopper, operands);
                    plan = GemmPlan {
                        tile,
                        warps: [1, 1],
                        cluster: [1; 3],
                        stages: 3,
                        ..plan
                    };
                    change(&mut plan);
                    Ok(plan)
                });
            call.unwrap().run(&device).unwrap();
            c.download().unwrap()
        };
    let whole = run(&|_| (), 0..k, 0);
    // The products of ranges of steps, each computed once.
    let mut known = std::collections::HashMap::new();
    let mut count = 0;
    let mut crossed = 0;
    for (shares, undivided) in [
        (1024, 0),
        (2, 0),
        (4, 0),
        (5, 0),
        (7, 0),
        (3, 1),
        (4, 2),
        (5, 4),
        (3, 5),
    ] {
        let row = StreamKRow::new(6 - undivided, steps, shares, 2).unwrap();
        crossed += usize::from((0..shares).any(|share| row.work(share).count() > 2));
        let by = |plan: &mut GemmPlan| *plan = shared(plan, tile, [1; 3], [shares, undivided]);
        let found = run(&by, 0..k, 2);
        let mut expected = vec![f32::NAN; m * n];
        for tile_m in 0..2 {
            for tile_n in 0..3 {
                // The usual order: along N, and the rows of a strip together.
                let number = (tile_n * 2 + tile_m) as i64 - undivided;
                let of_tile =
                    (0..m * n).filter(|at| (at / n / 64, at % n / 32) == (tile_m, tile_n));
                let mut parts = Vec::new();
                for share in row.peers(number).into_iter().flatten() {
                    let part = row.work(share).find(|(tile, _)| *tile == number).unwrap().1;
                    parts.push(part);
                }
                for at in of_tile {
                    expected[at] = if parts.len() < 2 {
                        whole[at]
                    } else {
                        parts.iter().fold(-0.0, |sum, part| {
                            let product = known.entry(part.clone()).or_insert_with(|| {
                                let columns =
                                    part.start as usize * 16..(part.end as usize * 16).min(k);
                                run(&|_| (), columns, 1)
                            });
                            sum + product[at]
                        })
                    };
                }
            }
        }
        let bits = |all: &[f32]| all.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
        assert_eq!(
            bits(&found),
            bits(&expected),
            "{shares} shares behind {undivided} tiles"
        );
        for seed in [0, 1, 3, 4] {
            assert_eq!(bits(&run(&by, 0..k, seed)), bits(&found), "seed {seed}");
        }
        count += 1;
    }
    assert!(
        crossed > 0 && known.len() > 10,
        "{crossed}, {}",
        known.len()
    );
    println!("law stream_k.order: {count} cases, {} parts", known.len());
}

/// The workspace has a place for each share and each tile but one, and the largest that a plan asks for is exactly what is used: the
/// simulator refuses an access beyond it.
#[test]
fn law_a_workspace_has_a_place_for_each_part() {
    let usual = GemmPlan::new(GemmMethod::Hopper, halves());
    let mut cases = 0;
    for (m, n, shares, undivided) in [
        (130, 60, 4, 0),
        (130, 60, 4, 2),
        (130, 60, 1000, 0),
        (130, 60, 4, 6),
        (1, 1, 2, 0),
    ] {
        for cluster in [[1, 1, 1], [2, 1, 1], [1, 1, 2]] {
            let plan = shared(&usual, [64, 32, 16], cluster, [shares, undivided]);
            let problem = GemmProblem::new(m, n, 104);
            let along = |extent: i64, tile: i64| (extent + tile - 1) / tile;
            let tiles = along(m, 64 * cluster[0]) * along(n, 32) - undivided;
            let places = if tiles > 0 { shares + tiles - 1 } else { 0 };
            assert_eq!(
                plan.workspace(&problem),
                places * 64 * 32 * 4 * cluster[0],
                "{plan}"
            );
            cases += 1;
        }
    }
    println!("law stream_k.workspace: {cases} cases");
}

/// An epilogue with a tensor, a second right factor and an output beside C has the sums of tiles in parts and of whole ones.
#[test]
fn law_an_epilogue_has_the_sums_of_shares() {
    let (m, n, k) = (150_i64, 72_i64, 136_i64);
    let formula = Epilogue::new(Ty::F32, |e| {
        let bias = e.tensor("bias", Ty::F32);
        let x = e.accumulator() + e.second_accumulator() * 3.0 + bias;
        e.output("negative", -x.clone());
        x
    });
    let formula = formula.expect("an epilogue");
    let number = |i: i64, of: i64| bf16::from_f64(((i * 7 + i / 11) % of - of / 2) as f64);
    let halves = |count: i64, of: i64| -> Vec<bf16> { (0..count).map(|i| number(i, of)).collect() };
    let (a, b, b2) = (halves(m * k, 5), halves(n * k, 7), halves(n * k, 3));
    let bias: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let sum = |right: &[bf16], i: i64, j: i64| -> f32 {
        let term = |l: i64| a[(i * k + l) as usize].to_f32() * right[(j * k + l) as usize].to_f32();
        (0..k).map(term).sum()
    };
    let places = (0..m).flat_map(|i| (0..n).map(move |j| (i, j)));
    let expected: Vec<f32> = places
        .map(|(i, j)| sum(&b, i, j) + sum(&b2, i, j) * 3.0 + j as f32)
        .collect();
    for (shares, undivided) in [(4, 0), (2, 0), (5, 3)] {
        let found = testing::in_every_schedule(Arch::Sm90a, 3, |device| {
            let (a, b, b2) = (device.upload(&a)?, device.upload(&b)?, device.upload(&b2)?);
            let bias = device.upload(&bias)?;
            let mut c = device.upload(&vec![f32::NAN; expected.len()])?;
            let mut negative = device.upload(&vec![f32::NAN; expected.len()])?;
            {
                let (left, right, second) = (a.view((m, k))?, b.view((n, k))?, b2.view((n, k))?);
                let (c, negative) = (c.view_mut((m, n))?, negative.view_mut((m, n))?);
                let row = colex_layout::Layout::new((m, n), (0, 1)).expect("a layout");
                let bias = colex_gpu::View::new(&bias, row)?;
                let product = Gemm::new(&left, &right, &c).b2(&second).epilogue(&formula);
                let product = product.tensor("bias", &bias).output("negative", &negative);
                let call = product.prepare_with(|operands, _| {
                    let usual = GemmPlan::new(GemmMethod::Hopper, operands);
                    Ok(shared(&usual, [64, 32, 16], [1; 3], [shares, undivided]))
                })?;
                call.run(device)?;
            }
            let bits = |all: Vec<f32>| all.into_iter().map(f32::to_bits).collect::<Vec<u32>>();
            let negated = negative.download()?.into_iter().map(|x| -x).collect();
            Ok((bits(c.download()?), bits(negated)))
        });
        let (c, negated) = found.unwrap_or_else(|why| panic!("{shares} shares: {why}"));
        let wanted: Vec<u32> = expected.iter().map(|x| x.to_bits()).collect();
        assert!(
            c == wanted && negated == wanted,
            "{shares} shares behind {undivided} tiles"
        );
    }
}

/// What stream-K does not take, and what is said of a plan that it does.
#[test]
fn shares_have_limits() {
    let by = |change: fn(&mut GemmPlan)| {
        said(GemmMethod::Hopper, |plan| {
            *plan = shared(plan, [64, 32, 16], [1; 3], [4, 0]);
            change(plan);
        })
    };
    assert_eq!(
        by(|plan| plan.split = 1),
        "the plan's number of shares by stream-K is 1: the Hopper kernel takes 2 to 1024"
    );
    assert_eq!(
        by(|plan| plan.split = 1025),
        "the plan's number of shares by stream-K is 1025: the Hopper kernel takes 2 to 1024"
    );
    assert_eq!(
        by(|plan| plan.schedule = Pingpong),
        "the plan asks for 4 parts of K by pingpong: the Hopper kernel takes at most 1, 3 fewer"
    );
    assert_eq!(
        by(|plan| plan.undivided = 40),
        "the plan asks for 40 tiles that are not divided: the Hopper kernel takes at most 32, 8 fewer"
    );
    assert_eq!(
        said(GemmMethod::Ampere, |plan| plan.division = Division::StreamK),
        "the plan divides K by stream-K: the Ampere kernel does not, and the Hopper kernel does"
    );
    let usual = GemmPlan::new(GemmMethod::Hopper, halves());
    let plan = shared(&usual, [128, 256, 64], [2, 1, 1], [66, 132]);
    assert_eq!(
        plan.to_string(),
        "Hopper bf16 to bf16, tile 128x256x64, 3 stages, 2 consumers, cluster 2x1x1, stream-K in 66 shares after 132 tiles, grouped 8 along n"
    );
    let plan = GemmPlan {
        undivided: 0,
        ..plan
    };
    assert!(
        plan.to_string()
            .contains("cluster 2x1x1, stream-K in 66 shares, grouped"),
        "{plan}"
    );
    let device = Device::simulator(Arch::Sm90a);
    let problem = GemmProblem::new(256 * 64, 128 * 32, 16);
    let refused = product_on(&device, GemmMethod::Hopper, problem, |usual| {
        *usual = shared(usual, [256, 128, 16], [1; 3], [1024, 0]);
    });
    assert_eq!(
        refused.expect_err("it is refused"),
        "the plan asks for 402522112 bytes of workspace for the parts of K: the Hopper kernel takes at most 268435456, 134086656 fewer"
    );
    let long = GemmProblem::new(64, 8 * 64, 16 << 21);
    let plan = shared(&usual, [64, 8, 16], [1; 3], [4, 0]);
    assert_eq!(plan.workspace(&long), 67 * 2048);
}

/// The plans that a call chooses among have a share for each cluster that runs at once, behind whole rounds, wherever a rest of the tiles
/// leaves clusters idle. A call takes none of them by itself: the first of the plans, which is the one that it takes, is not by
/// stream-K.
#[test]
fn law_alternatives_have_a_share_for_each_cluster() {
    let device = Device::simulator(Arch::Sm90a);
    let mut cases = 0;
    let mut shapes = vec![
        (1536, 1408, 8192),
        (1000, 5000, 4096),
        (2176, 2176, 4096),
        (4224, 4352, 4096),
        (4096, 4096, 4096),
        (64, 4096, 4096),
        (100, 100, 100),
    ];
    let mut random = Random::of(5, "shares");
    shapes.extend((0..300).map(|_| {
        let mut extent = || 8 * (1 + random.below(1024_i64));
        (extent(), extent(), extent())
    }));
    for (m, n, k) in shapes {
        let problem = GemmProblem::new(m, n, k);
        let plans = GemmPlan::alternatives(&problem, halves(), &device);
        assert_ne!(plans[0].division, Division::StreamK, "{problem}");
        for plan in plans
            .iter()
            .filter(|plan| plan.division == Division::StreamK)
        {
            let blocks: i64 = plan.cluster.iter().product();
            let at_once = 132 / blocks;
            let most = if blocks > 2 {
                at_once * 10 / 11
            } else {
                at_once
            };
            assert_eq!(
                (plan.split, plan.undivided % most),
                (most, 0),
                "{problem}: {plan}"
            );
            let [tile_m, tile_n] = if plan.swap { [1, 0] } else { [0, 1] };
            let along = |extent: i64, mode: usize| {
                let tile = plan.tile[mode] * plan.cluster[mode];
                (extent + tile - 1) / tile
            };
            let tiles = along(m, tile_m) * along(n, tile_n);
            assert!(
                plan.undivided < tiles && tiles - plan.undivided < most,
                "{problem}: {plan}"
            );
            let bytes = plan.workspace(&problem);
            assert!(bytes > 0 && bytes <= 1 << 28, "{problem}: {plan}");
            cases += 1;
        }
    }
    println!("law stream_k.alternatives: {cases} cases");
}

/// The instructions of a kernel, and its loops: the branches to a label above them.
fn length(built: &TensorKernel) -> [i64; 2] {
    let text = built.kernel.ptx().expect("a right kernel");
    let (mut count, mut loops, mut above) = (0, 0, HashSet::new());
    for line in text.lines().map(str::trim) {
        if let Some(label) = line.strip_suffix(':') {
            above.insert(label);
        }
        let instruction = line.strip_suffix(';').filter(|line| !line.starts_with('.'));
        let Some(instruction) = instruction else {
            continue;
        };
        count += 1;
        let mut words = instruction.split_whitespace().rev();
        let target = words.next().filter(|_| instruction.contains("bra"));
        loops += i64::from(target.is_some_and(|label| above.contains(label)));
    }
    [count, loops]
}

/// The kernel of equal parts has the loops of the one that divides nothing, and beside the stores of a part's sums at most 110
/// instructions more: those that find a part, and choose between its sums and C. The one that adds has two loops over the parts of its
/// tile, and at most 350 instructions. The walk over the borders of tiles is in the kernels of stream-K alone, where both limits are
/// exceeded.
#[test]
fn law_equal_parts_have_no_instructions_of_shares() {
    const MORE: i64 = 110;
    const SUM: i64 = 350;
    let arch = Arch::Sm90a;
    let (mut cases, mut most) = (0, [0; 2]);
    for [ab, c] in [[Ty::Bf16, Ty::Bf16], [Ty::S8, Ty::S32]] {
        let listed = GemmPlan::candidates(operands(ab, c), arch);
        let has_sum = |plan: &GemmPlan| plan.split > 1 && plan.division == Division::SplitK;
        for plan in listed.into_iter().filter(has_sum) {
            let product = |plan: GemmPlan| length(&plan.build(arch).expect("a kernel"));
            let sum = |plan: GemmPlan| {
                let built = plan.build_sum(arch).expect("a kernel");
                length(&built.expect("the plan has parts"))
            };
            let [whole, loops] = product(GemmPlan { split: 1, ..plan });
            let [m, n, _] = plan.tile;
            // A store of four sums, for each of 128 threads of a consumer.
            let stores = m * n / (plan.warps[0] * 128 * 4);
            let more = |plan: GemmPlan| {
                let [count, loops] = product(plan);
                [count - whole - stores, loops]
            };
            let [parts, loops_of_parts] = more(plan);
            let [adds, loops_of_sum] = sum(plan);
            assert!(parts <= MORE && adds <= SUM, "{plan}: {parts} and {adds}");
            assert_eq!([loops_of_parts, loops_of_sum], [loops, 2], "{plan}");
            most = [most[0].max(parts), most[1].max(adds)];
            if cases == 0 {
                let shares = GemmPlan {
                    division: Division::StreamK,
                    ..plan
                };
                let [walk, loops_of_walk] = more(shares);
                let [adds, _] = sum(shares);
                assert!(walk > 2 * MORE && adds > SUM, "{walk} and {adds}");
                assert!(loops_of_walk > loops, "{loops_of_walk} and {loops}");
            }
            cases += 1;
        }
    }
    println!(
        "law stream_k.lengths: {cases} plans, at most {} instructions more, and {} that add",
        most[0], most[1]
    );
}

/// A batch-invariant product takes no shares, given or chosen.
#[test]
fn a_batch_invariant_product_takes_no_shares() {
    let device = Device::simulator(Arch::Sm90a);
    let (m, n, k) = (1536_i64, 1408_i64, 8192_i64);
    let a = device.zeros::<bf16>((m * k) as usize).unwrap();
    let b = device.zeros::<bf16>((n * k) as usize).unwrap();
    let mut c = device.zeros::<bf16>((m * n) as usize).unwrap();
    let (va, vb) = (a.view((m, k)).unwrap(), b.view((n, k)).unwrap());
    let gemm = Gemm::new(&va, &vb, &c.view_mut((m, n)).unwrap()).batch_invariant();
    let call = gemm.prepare().unwrap();
    let plan = call.plan().unwrap();
    assert_eq!(plan.workspace(&GemmProblem::new(m, n, k)), 0, "{plan}");
    let error = gemm.prepare_with(|operands, _| {
        let usual = GemmPlan::new(GemmMethod::Hopper, operands);
        Ok(GemmPlan {
            split: 66,
            division: Division::StreamK,
            ..usual
        })
    });
    assert_eq!(
        error.unwrap_err().to_string(),
        "the product is batch-invariant, and the plan's number of parts of K is 66: with 1 the bits of a row do not depend on the number of \
         rows"
    );
}
