//! Plans of the kernel library with any numbers: the right product, or a refusal that names the limit.

use std::collections::HashSet;

use colex_atom::{Arch, Ty};
use colex_gpu::attention::{Attention, AttentionMethod};
use colex_gpu::gemm::{Epilogue, Groups};
use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan, Operands};
use colex_gpu::kernels::{
    Compute, CopyPlan, GemmElement, GemmProblem, LoopNest, Major, Operand, reference,
};
use colex_gpu::{Device, Gemm, PlanRefusal, View, ViewMut};
use colex_layout::Layout;
use colex_proof::kernels::gemm::GemmCase;
use colex_proof::kernels::plans::listed::ListedPlan;
use colex_proof::kernels::plans::{COPY_METHODS, PlanCase, Tally};
use colex_proof::kernels::{listed_plans, trapped};
use colex_proof::soak::{draws, takes};
use colex_proof::sweep::Random;
use colex_sched::pipeline::Schedule::{Cooperative, Pingpong};
use colex_sched::{Order, RasterOrder, ThreadblockSwizzle};
use colex_sim::{Schedule, SimOptions};
use half::{bf16, f16};

/// The largest error of the product of a problem by a plan, or what is said instead.
fn product(
    arch: Arch,
    method: GemmMethod,
    problem: GemmProblem,
    change: impl FnOnce(&mut GemmPlan),
) -> Result<f64, String> {
    product_on(&Device::simulator(arch), method, problem, change)
}

/// The same on a device.
pub(super) fn product_on(
    device: &Device,
    method: GemmMethod,
    problem: GemmProblem,
    change: impl FnOnce(&mut GemmPlan),
) -> Result<f64, String> {
    let fill = |name, by: usize| -> Vec<f16> {
        let length = problem
            .layout(name)
            .expect("extents")
            .cosize()
            .expect("small");
        let value = |i| f16::from_f64(((i * by + i / 7) % 13) as f64 - 6.0);
        (0..length as usize).map(value).collect()
    };
    let (a, b) = (fill(Operand::A, 5), fill(Operand::B, 3));
    let old: Vec<f32> = fill(Operand::C, 2).into_iter().map(f32::from).collect();
    let (da, db) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let dc = match problem.beta {
        0.0 => device.poisoned::<f32>(old.len()).unwrap(),
        _ => device.upload(&old).unwrap(),
    };
    let mut written = dc.clone();
    let gemm = problem.on(&da, &db, &mut written);
    let gemm = gemm.map_err(|refused| refused.to_string())?;
    let call = gemm.prepare_with(|operands, _| {
        let mut plan = GemmPlan::new(method, operands);
        change(&mut plan);
        Ok(plan)
    });
    let call = call.map_err(|refused| refused.to_string())?;
    // The launch decides every access of the library's kernels.
    if let Some(built) = call.built() {
        assert_eq!(trapped(&built.kernel), [""; 0], "{:?}", call.plan());
    }
    call.run(device)
        .map_err(|fault| format!("the simulator: {fault}"))?;
    let found = reference::matrix(&problem, Operand::C, &dc.download().unwrap());
    let expected = reference::gemm(&problem, &a, &b, &old);
    let apart = found.iter().zip(&expected).map(|(x, y)| (x - y).abs());
    Ok(apart.fold(0.0, |most, x| if x > most || x.is_nan() { x } else { most }))
}

/// The launch decides every access of the library's kernels: none has a trap, so none pays for the check.
#[test]
fn no_kernel_of_the_library_traps() {
    let samples = colex_proof::corpus::samples().expect("they are built");
    for sample in &samples {
        assert_eq!(trapped(&sample.kernel), [""; 0], "{}", sample.kernel.name);
    }
    println!("law plans.no_traps: {} cases", samples.len());
}

pub(super) fn said(method: GemmMethod, change: impl FnOnce(&mut GemmPlan)) -> String {
    let problem = GemmProblem::new(256, 256, 128);
    product(Arch::Sm90a, method, problem, change).expect_err("it is refused")
}

/// Its launch never ended on a device: the consumer asked for fewer registers than it had, and the producer waited for two
/// consumers.
#[test]
fn one_consumer_warpgroup_multiplies() {
    for [m, n, k] in [[64, 128, 64], [200, 264, 200], [1, 8, 8]] {
        let problem = GemmProblem::new(m, n, k).alpha(2.0).beta(-1.0);
        let by = |consumers: i64| {
            product(Arch::Sm90a, GemmMethod::Hopper, problem, |plan| {
                plan.warps = [consumers, 1];
                plan.tile = [64 * consumers, 128, 64];
            })
        };
        assert_eq!([1, 2, 3].map(by), [Ok(0.0), Ok(0.0), Ok(0.0)], "{problem}");
    }
}

/// Two blocks to a warpgroup's rows and a fourth consumer: other numbers of registers each.
#[test]
fn a_tile_of_less_than_a_row_of_the_swizzle_multiplies() {
    let problem = GemmProblem::new(130, 72, 88);
    let found = product(Arch::Sm90a, GemmMethod::Hopper, problem, |plan| {
        plan.tile = [128, 32, 16];
        plan.stages = 2;
    });
    assert_eq!(found, Ok(0.0));
    let found = product(Arch::Sm90a, GemmMethod::Hopper, problem, |plan| {
        plan.tile = [256, 64, 32];
        plan.warps = [4, 1];
    });
    assert_eq!(found, Ok(0.0));
}

/// A thread has 48 and 40 elements of C there, which are no whole parts of 32: those beyond were not stored.
#[test]
fn every_element_of_an_odd_tile_is_stored() {
    for (n, major) in [(96, Major::First), (80, Major::Second), (160, Major::First)] {
        let problem = GemmProblem::new(130, 2 * n + 8, 72)
            .major(Operand::C, major)
            .beta(1.0);
        let found = product(Arch::Sm90a, GemmMethod::Hopper, problem, |plan| {
            plan.tile = [128, n, 64];
        });
        assert_eq!(found, Ok(0.0), "{n}");
    }
}

/// Threads along M were taken to be along N where N runs fastest in C, and others read what none had written.
#[test]
fn threads_of_a_block_that_is_not_square_multiply() {
    for major in [Major::First, Major::Second] {
        let problem = GemmProblem::new(70, 40, 20)
            .major(Operand::C, major)
            .beta(1.0);
        let found = product(Arch::Sm80, GemmMethod::Simt, problem, |plan| {
            plan.warps = [16, 4];
            plan.tile = [64, 16, 8];
        });
        assert_eq!(found, Ok(0.0), "{major:?}");
    }
}

/// Three warps along a mode that runs fastest: no row of a swizzle is a part or a multiple of theirs.
#[test]
fn three_warps_multiply_in_every_order() {
    for majors in [[Major::First; 3], [Major::Second; 3]] {
        let mut problem = GemmProblem::new(200, 104, 72);
        problem.majors = majors;
        let found = product(Arch::Sm80, GemmMethod::Ampere, problem, |plan| {
            plan.warps = [4, 3];
            plan.tile = [192, 96, 64];
            plan.stages = 2;
        });
        assert_eq!(found, Ok(0.0), "{majors:?}");
    }
}

/// The fragments of the next step would take the place of those that are not multiplied yet.
#[test]
fn one_step_along_k_is_refused() {
    let said = said(GemmMethod::Ampere, |plan| plan.tile[2] = 16);
    assert_eq!(
        said,
        "the plan's tile along K is 16: the Ampere kernel takes 32 to 1024, in multiples of 16"
    );
}

fn along_m(width: i64) -> Order {
    Order::Grouped {
        width,
        raster: RasterOrder::AlongM,
    }
}

/// Every order that is not grouped, by every kernel: its places outnumber the tiles, or it is a table.
#[test]
fn orders_without_a_formula_are_refused() {
    use GemmMethod::{Ampere, Hopper, Simt, Volta};
    let mut cases = 0;
    let swizzles = ThreadblockSwizzle::all().into_iter().map(Order::Swizzle);
    for order in Order::candidates().into_iter().chain(swizzles) {
        for method in [Simt, Volta, Ampere, Hopper] {
            if let Order::Grouped { .. } = order {
                continue;
            }
            let expected = format!(
                "the plan's order is {order}: the {method} kernel takes grouped orders, for example grouped 8 along m"
            );
            assert_eq!(said(method, |plan| plan.order = order), expected);
            cases += 1;
        }
    }
    println!("law plans.orders_without_a_formula: {cases} cases");
}

#[test]
fn zeros_are_refused() {
    use GemmMethod::{Ampere, Hopper, Simt, Volta};
    assert_eq!(
        said(Hopper, |plan| plan.tile[0] = 0),
        "the plan's tile along M is 0: the Hopper kernel takes 128 to 256, in multiples of 128"
    );
    assert_eq!(
        said(Ampere, |plan| plan.tile[1] = 0),
        "the plan's tile along N is 0: the Ampere kernel takes 32 to 1024, in multiples of 32"
    );
    assert_eq!(
        said(Volta, |plan| plan.tile[2] = 0),
        "the plan's tile along K is 0: the Volta kernel takes 4 to 1024, in multiples of 4"
    );
    assert_eq!(
        said(Simt, |plan| plan.warps = [0, 16]),
        "the plan's number of warps along M is 0: the SIMT kernel takes 1 to 1024"
    );
    assert_eq!(
        said(Ampere, |plan| plan.warps[1] = 0),
        "the plan's number of warps along N is 0: the Ampere kernel takes 1 to 32"
    );
    assert_eq!(
        said(Simt, |plan| plan.order = along_m(0)),
        "the plan's strip width is 0: the SIMT kernel takes 1 to 65536"
    );
    assert_eq!(
        said(Ampere, |plan| plan.stages = 0),
        "the plan's number of stages is 0: the Ampere kernel takes 2 to 64"
    );
    assert_eq!(
        said(Ampere, |plan| plan.operands.vectors[2] = 0),
        "the plan's vector of C is 0: an access takes a power of two, 1 to 4 elements of f32"
    );
}

/// One stage alone would wait for itself.
#[test]
fn what_is_too_much_is_refused() {
    use GemmMethod::{Ampere, Hopper, Simt};
    // No product of a plan's numbers overflows before they are compared with their limits.
    assert_eq!(
        said(Hopper, |plan| plan.operands.vectors[1] = i64::MIN),
        "the Hopper kernel does not multiply f16, 8 of A and -9223372036854775808 of B at once, on sm_90a: it takes f16, \
         bf16, tf32 or s8 in vectors of 16 bytes, and needs sm_90a"
    );
    assert_eq!(
        said(Hopper, |plan| plan.stages = 1),
        "the plan's number of stages is 1: the Hopper kernel takes 2 to 64"
    );
    assert_eq!(
        said(Simt, |plan| plan.stages = 3),
        "the plan's number of stages is 3: the SIMT kernel takes 2 only"
    );
    assert_eq!(
        said(Hopper, |plan| plan.warps = [1, 2]),
        "the plan's number of warps along N is 2: the Hopper kernel takes 1 only"
    );
    assert_eq!(
        said(Simt, |plan| plan.warps = [64, 32]),
        "the plan asks for 2048 threads in a block: the SIMT kernel takes at most 1024, 1024 fewer"
    );
    assert_eq!(
        said(Hopper, |plan| plan.warps = [1, 1]),
        "the plan asks for 256 registers for a thread's sums: the Hopper kernel takes at most 255, 1 fewer"
    );
    // ptxas refuses this kernel with C7602.
    assert_eq!(
        said(Hopper, |plan| {
            plan.tile = [192, 256, 64];
            plan.warps = [3, 1];
            plan.stages = 2;
        }),
        "the plan asks for 128 registers for a consumer's sums at entry: the Hopper kernel takes at most 102, 26 fewer"
    );
    assert_eq!(
        said(Ampere, |plan| plan.tile = [1 << 40, 128, 32]),
        "the plan's tile along M is 1099511627776: the Ampere kernel takes 32 to 1024, in multiples of 32"
    );
    assert_eq!(
        said(Simt, |plan| plan.order = along_m(i64::MAX)),
        "the plan's strip width is 9223372036854775807: the SIMT kernel takes 1 to 65536"
    );
    assert_eq!(
        said(Ampere, |plan| {
            plan.tile = [48, 32, 32];
            plan.warps = [3, 1];
        }),
        "the 96 threads of the plan's block have no equal shares of B's tile of 32 x 32 elements, which the Ampere kernel needs"
    );
    assert_eq!(
        said(Hopper, |plan| plan.stages = 5),
        "the plan asks for 245760 bytes of shared memory for A and B: the Hopper kernel takes at most 232448, 13312 fewer"
    );
}

#[test]
fn a_plan_of_another_call_is_refused() {
    use GemmMethod::{Ampere, Hopper};
    assert_eq!(
        said(Ampere, |plan| plan.operands.ab = Ty::Bf16),
        "the plan was made for another product: A and B are of bf16 in the plan and f16 in the call"
    );
    assert_eq!(
        said(Ampere, |plan| plan.operands.c = Ty::F16),
        "the plan was made for another product: C is of f16 in the plan and f32 in the call"
    );
    assert_eq!(
        said(Hopper, |plan| plan.operands.majors[1] = Major::First),
        "the plan was made for another product: B runs fastest along its first index in the plan and second index in the call"
    );
    assert_eq!(
        said(Ampere, |plan| plan.operands.beta = true),
        "the plan was made for another product: C is read in the plan and not read in the call"
    );
    let odd = GemmProblem::new(64, 64, 63);
    let refused = product(Arch::Sm80, Ampere, odd, |plan| plan.operands.vectors[0] = 8);
    assert_eq!(
        refused,
        Err("the plan was made for another product: A is read by 8 elements in the plan and no more than 1 can be in the call".into())
    );
}

#[test]
fn a_plan_that_is_not_whole_is_refused() {
    let by = |problem, whole| {
        product(Arch::Sm80, GemmMethod::Ampere, problem, |plan| {
            plan.whole = whole
        })
    };
    assert_eq!(
        by(GemmProblem::new(128, 128, 72), true),
        Err("the plan says that its tiles divide the problem, and 32 does not divide K, which is 72: leave `whole` false".into())
    );
    assert_eq!(by(GemmProblem::new(128, 256, 64), true), Ok(0.0));
    assert_eq!(by(GemmProblem::new(128, 256, 64), false), Ok(0.0));
}

/// The kernel counts tiles in 31 bits.
#[test]
fn more_tiles_than_the_kernel_counts_are_refused() {
    let device = Device::simulator(Arch::Sm90a);
    let (a, b, mut c) = (
        device.zeros::<i8>(1 << 26).unwrap(),
        device.zeros::<i8>(1).unwrap(),
        device.zeros::<i32>(1 << 26).unwrap(),
    );
    let problem = GemmProblem::new(1 << 26, 1, 1);
    let call = problem
        .on(&a, &b, &mut c)
        .unwrap()
        .prepare_with(|operands, _| {
            let usual = GemmPlan::new(GemmMethod::Simt, operands);
            Ok(GemmPlan {
                tile: [4, 4, 1],
                warps: [1, 1],
                order: along_m(65536),
                ..usual
            })
        });
    assert_eq!(
        call.expect_err("it is refused").to_string(),
        "the plan asks for 1099511627776 tiles in a strip of its order: the SIMT kernel takes at most 1073741823, 1098437885953 fewer"
    );
}

/// The plan of the kernel: plans that differ in their columns alone have one.
fn kernel_of(plan: &GemmPlan) -> GemmPlan {
    GemmPlan {
        columns: if plan.columns == 0 { 0 } else { plan.tile[1] },
        ..*plan
    }
}

/// Every list of a type has at most 24 kernels.
#[test]
fn every_list_has_at_most_24_kernels() {
    let count = |plans: Vec<GemmPlan>| {
        let kernels: HashSet<GemmPlan> = plans.iter().map(kernel_of).collect();
        assert!((16..=24).contains(&kernels.len()), "{}", kernels.len());
        plans.len()
    };
    for (ab, c, vector) in [
        (Ty::Bf16, Ty::Bf16, 8),
        (Ty::F16, Ty::F32, 8),
        (Ty::F16, Ty::F16, 1),
    ] {
        let operands = Operands {
            ab,
            c,
            majors: [Major::Second; 3],
            vectors: [vector, vector, vector.min(128 / i64::from(c.bits()))],
            beta: false,
            gated: false,
        };
        let plain = count(GemmPlan::candidates(operands, Arch::Sm90a));
        count(GemmPlan::candidates_with_epilogue(operands, Arch::Sm90a));
        let of_one = count(GemmPlan::candidates_of_one(operands, Arch::Sm90a));
        let own = GemmPlan::candidates_of_one_with_epilogue(operands, Arch::Sm90a);
        let with_epilogue = count(own);
        // Four kernels of eight widths and four of six in the places of eight plans; with an epilogue two of four widths and three of six.
        let [more, more_with_epilogue] = if vector == 8 && c.bits() == 16 {
            [48, 21]
        } else {
            [0, 0]
        };
        assert_eq!(of_one, plain + more, "{ab} to {c}");
        assert_eq!(with_epilogue, plain + more_with_epilogue, "{ab} to {c}");
        let with_beta = Operands {
            beta: true,
            ..operands
        };
        let of_one = GemmPlan::candidates_of_one(with_beta, Arch::Sm90a);
        assert_eq!(of_one, GemmPlan::candidates(with_beta, Arch::Sm90a));
    }
}

/// The library never returns a plan that it has not multiplied by: each plan of the list, where warps go as they may.
#[test]
fn every_plan_of_the_list_multiplies() {
    let lists = [8, 1].map(|vector| listed_plans(Ty::F16, vector));
    for plans in &lists {
        // A list has at most 24 kernels, of which some differ where C has an epilogue or for one product alone.
        let kernels: HashSet<GemmPlan> = plans.iter().map(kernel_of).collect();
        assert!((16..=37).contains(&kernels.len()), "{}", kernels.len());
    }
    let plans = lists.concat();
    for (i, listed) in plans.iter().enumerate() {
        // One tile and a half, and parts of K of which the last has no whole step.
        let [m, n, k] = listed.tile;
        let [m, n] = if listed.swap { [n, m] } else { [m, n] };
        let odd = i64::from(listed.operands.vectors[0] == 1);
        let problem = GemmProblem::new(m / 2 + 3, n + 8 - odd, k * listed.cluster[2] + 40 - odd)
            // A kernel for several widths stores whole vectors of C, and does not read it.
            .major(
                Operand::C,
                [Major::First, Major::Second][if listed.columns == 0 { i % 2 } else { 1 }],
            )
            .beta([0.0, f64::from(listed.columns == 0)][i / 2 % 2]);
        let options = SimOptions::default().seed(i as u64 + 1);
        let device = Device::simulator_with(Arch::Sm90a, options);
        let found = product_on(&device, listed.method, problem, |plan| {
            *plan = GemmPlan {
                operands: plan.operands,
                ..*listed
            };
        });
        assert_eq!(found, Ok(0.0), "{listed}, {problem}");
    }
    println!("law plans.listed: {} cases", plans.len());
}

/// Each plan of the lists multiplies, those of two right factors too, with two turns of each ring: every row of every list, for types, in
/// an order and with an alignment that are drawn for it. `cargo xtask soak` takes every row for all types and in all orders, and
/// `COLEX_LISTED=all` with every alignment.
#[test]
fn law_plans_of_the_list_multiply_in_every_order() {
    let plans = ListedPlan::simulated(3).expect("a wish");
    if let Ok(folder) = std::env::var("COLEX_PTX") {
        for (i, plan) in plans.iter().enumerate() {
            for sample in plan.samples().unwrap_or_else(|e| panic!("{plan}: {e}")) {
                let file = format!("{folder}/listed_{i}_{}.ptx", sample.kernel.name);
                std::fs::write(file, sample.kernel.ptx().expect("it is printed"))
                    .expect("it is written");
            }
        }
    }
    if std::env::var_os("COLEX_LISTED").is_none() {
        every_list_is_there(&plans);
    }
    let run = |(seed, plan): (u64, &ListedPlan)| plan.run(seed).err();
    let failed: Vec<String> = (1..).zip(&plans).filter_map(run).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    println!("law plans.listed_in_every_order: {} cases", plans.len());
}

/// A kernel whose consumers take turns passes in every schedule: two of its kernels have had schedules in which the simulator reported a
/// data race that is none, since the engine of a load had done a store that one lane had waited for.
#[test]
fn law_pingpong_kernels_that_read_c_pass_in_every_schedule() {
    let mut cases = 0;
    for gated in [false, true] {
        let operands = Operands {
            ab: Ty::Bf16,
            c: Ty::Bf16,
            majors: [Major::First; 3],
            vectors: [8; 3],
            beta: true,
            gated,
        };
        let plans = GemmPlan::candidates(operands, Arch::Sm90a).into_iter();
        let in_turns = plans.filter(|plan| plan.schedule == Pingpong);
        for plan in in_turns.map(ListedPlan) {
            for seed in 1..=draws(8) as u64 {
                assert_eq!(plan.run(seed), Ok(()));
                cases += 1;
            }
        }
    }
    assert!(cases > 0);
    println!("law plans.pingpong_in_every_schedule: {cases} cases");
}

/// No input of an epilogue may have the name of a parameter of a kernel: otherwise a formula would suit some plans, and others not.
#[test]
fn law_names_of_parameters_are_no_names_of_an_epilogue() {
    let plans = ListedPlan::simulated(6).expect("a wish");
    let mut names = HashSet::new();
    let mut add = |built: colex_tensor::TensorKernel| {
        names.extend(
            built
                .parameters()
                .map(|parameter| parameter.name.to_string()),
        );
    };
    // A kernel of two right factors has the parameters of one of one, and `B2`.
    let of_one = plans.iter().filter(|plan| !plan.0.operands.gated);
    for ListedPlan(plan) in of_one {
        add(plan.build(Arch::Sm90a).expect("it is built"));
        if let Some(sum) = plan.build_sum(Arch::Sm90a).expect("it is built") {
            add(sum);
        }
        for kind in [Groups::Rows, Groups::Masked, Groups::AlongK] {
            if let Ok(built) = plan.build_groups(kind, Arch::Sm90a) {
                add(built);
            }
        }
    }
    // Those of chunks, lists and flags that come while a kernel runs have other calls.
    let others = [
        "first_chunk",
        "arrived",
        "awaited",
        "counts",
        "departed",
        "addresses",
        "list_0",
        "C_1",
    ];
    names.extend(others.map(str::to_string));
    // The formula of a product without an epilogue has these scalars.
    for name in ["alpha", "beta"] {
        assert!(names.remove(name), "{name}");
    }
    assert!(names.len() > 20, "{names:?}");
    for name in &names {
        let built = Epilogue::new(Ty::F32, |e| e.accumulator() * e.scalar(name, Ty::F32));
        let why = built.expect_err(name).to_string();
        assert_eq!(
            why,
            format!("epilogue: `{name}` has a meaning in every epilogue: take another name")
        );
    }
    println!("law plans.parameter_names: {} cases", names.len());
}

/// Each row of the lists has a plan, and each list plans for 16-bit factors with C of 16 and of 32 bits.
fn every_list_is_there(plans: &[ListedPlan]) {
    for [is_unmapped, is_gated] in [[false, false], [false, true], [true, false], [true, true]] {
        let of_list = || {
            let all = plans.iter();
            all.filter(|plan| plan.list() == [is_unmapped, is_gated])
        };
        for types in [
            [Ty::Bf16, Ty::Bf16],
            [Ty::Bf16, Ty::F32],
            [Ty::F16, Ty::F16],
            [Ty::F16, Ty::F32],
        ] {
            let is_of = |plan: &ListedPlan| [plan.0.operands.ab, plan.0.operands.c] == types;
            assert!(
                of_list().any(is_of),
                "{types:?}, unmapped {is_unmapped}, gated {is_gated}"
            );
        }
    }
    // A row as its plans are printed, without what follows from the operands.
    let row = |plan: &GemmPlan| {
        let Operands { ab, gated, .. } = plan.operands;
        let [m, n, k] = plan.tile;
        let tile = match plan.method {
            GemmMethod::Gemv => [0; 3],
            _ => [m, n, k * i64::from(ab.bits()) / 16],
        };
        let units = (plan.warps, plan.cluster, plan.schedule);
        let parts = (plan.split, plan.division);
        let flags = [plan.swap, plan.gather, gated, plan.columns != 0];
        format!("{} {tile:?} {units:?} {parts:?} {flags:?}", plan.method)
    };
    let found: HashSet<String> = plans.iter().map(|plan| row(&plan.0)).collect();
    let mut wanted = HashSet::new();
    for (vector, gated) in [(8, false), (8, true), (1, false), (1, true)] {
        let operands = Operands {
            ab: Ty::F16,
            c: Ty::F16,
            majors: [Major::Second; 3],
            vectors: [vector; 3],
            beta: false,
            gated,
        };
        let lists = [
            GemmPlan::candidates,
            GemmPlan::candidates_with_epilogue,
            GemmPlan::candidates_of_one,
            GemmPlan::candidates_of_one_with_epilogue,
        ];
        let all = lists.iter().flat_map(|list| list(operands, Arch::Sm90a));
        wanted.extend(all.map(|plan| row(&plan)));
    }
    let missing: Vec<&String> = wanted.difference(&found).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Two consumers take tiles in turn: blocks of an even and of an odd number of tiles, several turns of the ring, clusters of one
/// and of two, C in both orders, read and not.
#[test]
fn consumers_by_pingpong_multiply() {
    let mut cases = 0;
    let plans = [
        ([64, 16, 16], [1, 1, 1], 3, false, false),
        ([128, 16, 16], [2, 1, 1], 2, false, false),
        ([64, 32, 16], [1, 2, 1], 3, true, false),
        ([64, 32, 32], [1, 1, 1], 2, false, true),
    ];
    for (number, (tile, cluster, stages, swap, gather)) in plans.into_iter().enumerate() {
        // Of the clusters that run at once, most compute four of the clusters' tiles, and some three: each consumer takes two.
        let clusters = 132 / (cluster[0] * cluster[1]);
        let tiles = 4 * clusters - 7;
        let [rows, columns] = [0, 1].map(|mode| tile[mode] * cluster[mode]);
        let along_m = 16;
        let along_n = tiles / along_m;
        let [m, n] = [rows * along_m - 5, columns * along_n - 8];
        for (case, (major, beta)) in [
            (Major::Second, 0.0),
            (Major::Second, -2.0),
            (Major::First, 1.0),
        ]
        .into_iter()
        .enumerate()
        .filter(|(case, _)| takes(3, number + case))
        {
            let [m, n] = if swap { [n, m] } else { [m, n] };
            let problem = GemmProblem::new(m, n, 3 * tile[2] - 5)
                .leading(Operand::A, 3 * tile[2])
                .leading(Operand::B, 3 * tile[2])
                .leading(Operand::C, m.max(n) + 16 - m.max(n) % 8)
                .major(Operand::C, major)
                .beta(beta);
            let options = SimOptions::default().schedule(Schedule::from_seed(case as u64));
            let device = Device::simulator_with(Arch::Sm90a, options);
            let found = product_on(&device, GemmMethod::Hopper, problem, |plan| {
                *plan = GemmPlan {
                    tile,
                    warps: [1, 1],
                    schedule: Pingpong,
                    cluster,
                    stages,
                    swap,
                    gather,
                    ..*plan
                };
            });
            assert_eq!(found, Ok(0.0), "{tile:?}, {problem}");
            cases += 1;
        }
    }
    println!("law plans.pingpong: {cases} cases");
}

/// Four blocks of a cluster load parts of one tile for all, along M, along N and along both: tiles of A and B in both orders,
/// several turns of the ring, tiles beyond the matrix, a divided K.
#[test]
fn clusters_of_four_blocks_share_tiles() {
    let mut cases = 0;
    for (cluster, tile, split) in [
        ([4, 1, 1], [64, 64, 64], 1),
        ([1, 4, 1], [128, 32, 16], 1),
        ([2, 2, 1], [64, 32, 32], 1),
        ([2, 2, 1], [128, 16, 16], 3),
        ([4, 1, 1], [128, 96, 16], 2),
    ] {
        let [rows, columns] = [0, 1].map(|mode| tile[mode] * cluster[mode]);
        for (seed, [of_a, of_b], more) in [
            (1, [Major::Second, Major::Second], [0, 0]),
            (2, [Major::First, Major::Second], [-tile[0], 8]),
            (3, [Major::Second, Major::First], [8, -tile[1]]),
            (4, [Major::First, Major::First], [-8, -8]),
        ] {
            let [m, n] = [rows + more[0], 2 * columns + more[1]].map(|n| n.max(8));
            let problem = GemmProblem::new(m, n, 5 * tile[2] - 8)
                .major(Operand::A, of_a)
                .major(Operand::B, of_b);
            let options = SimOptions::default().schedule(Schedule::from_seed(seed));
            let device = Device::simulator_with(Arch::Sm90a, options);
            let found = product_on(&device, GemmMethod::Hopper, problem, |plan| {
                *plan = GemmPlan {
                    tile,
                    warps: [tile[0] / 64, 1],
                    cluster,
                    split,
                    stages: 2,
                    ..*plan
                };
            });
            assert_eq!(found, Ok(0.0), "{cluster:?}, {tile:?}, {problem}");
            cases += 1;
        }
    }
    println!("law plans.clusters_of_four: {cases} cases");
}

/// What a pingpong schedule does not take.
#[test]
fn a_pingpong_schedule_has_limits() {
    let by = |change: fn(&mut GemmPlan)| {
        said(GemmMethod::Hopper, |plan| {
            plan.schedule = Pingpong;
            plan.tile = [64, 128, 64];
            plan.warps = [1, 1];
            plan.cluster = [1, 1, 1];
            change(plan);
        })
    };
    assert_eq!(
        by(|plan| (plan.tile[0], plan.warps[0]) = (128, 2)),
        "the plan asks for 2 warpgroups for a tile by pingpong: the Hopper kernel takes at most 1, 1 fewer"
    );
    assert_eq!(
        by(|plan| plan.split = 3),
        "the plan asks for 3 parts of K by pingpong: the Hopper kernel takes at most 1, 2 fewer"
    );
    assert_eq!(
        by(|plan| plan.cluster[2] = 2),
        "the plan asks for 2 blocks along K of a cluster by pingpong: the Hopper kernel takes at most 1, 1 fewer"
    );
    assert_eq!(
        said(GemmMethod::Simt, |plan| plan.schedule = Pingpong),
        "the plan asks for 2 tiles of a block at once: the SIMT kernel takes at most 1, 1 fewer"
    );
}

/// Kernels that begin early give the same bits, in parts of K and whole; other kernels than Hopper's refuse to.
#[test]
fn kernels_that_begin_early_multiply() {
    let mut cases = 0;
    for (cluster, split, schedule) in [
        ([1, 1, 1], 1, Cooperative),
        ([2, 1, 1], 3, Cooperative),
        ([1, 1, 2], 2, Cooperative),
        ([1, 2, 1], 1, Pingpong),
    ] {
        for (gather, swap) in [(false, false), (false, true), (true, false)] {
            let cluster = if gather { [1, 1, cluster[2]] } else { cluster };
            let problem = GemmProblem::new(130, 72, 264);
            let device = Device::simulator_with(Arch::Sm90a, SimOptions::default().seed(cases + 1));
            let found = product_on(&device, GemmMethod::Hopper, problem, |plan| {
                *plan = GemmPlan {
                    tile: [64, 32, 64],
                    warps: [1, 1],
                    stages: 3,
                    early: true,
                    cluster,
                    split,
                    schedule,
                    gather,
                    swap,
                    ..*plan
                };
            });
            assert_eq!(found, Ok(0.0), "{cluster:?}, {split} parts, {schedule:?}");
            cases += 1;
        }
    }
    println!("law plans.early: {cases} cases");
    let problem = GemmProblem::new(2, 72, 264);
    let gemv = |arch: Arch| product(arch, GemmMethod::Gemv, problem, |plan| plan.early = true);
    assert_eq!(gemv(Arch::Sm90a), Ok(0.0));
    let refused = gemv(Arch::Sm80).expect_err("sm_80 has no early begin");
    assert!(
        refused.contains(
            "the plan's kernels begin early: kernels do so from sm_90 on, and not on sm_80"
        ),
        "{refused}"
    );
    for method in [GemmMethod::Simt, GemmMethod::Ampere] {
        assert_eq!(
            said(method, |plan| plan.early = true),
            format!(
                "the plan's kernels begin early: the {method} kernel does not, and the Hopper and GEMV kernels do"
            )
        );
    }
}

/// The same of tf32 and of bytes, in four schedules, with C in both orders, read and not.
#[test]
fn every_plan_of_the_list_multiplies_tf32_and_bytes() {
    let mut cases = 0;
    let lists = [listed_plans(Ty::Tf32, 4), listed_plans(Ty::S8, 16)];
    for plans in &lists {
        assert!((16..=24).contains(&plans.len()), "{}", plans.len());
        assert!(plans.iter().all(|plan| plan.method == GemmMethod::Hopper));
    }
    for (i, listed) in lists.iter().flatten().enumerate() {
        // One tile and a half, and parts of K of which the last has no whole step.
        let [m, n, k] = listed.tile;
        let [m, n] = if listed.swap { [n, m] } else { [m, n] };
        let vector = listed.operands.vectors[0];
        let problem = GemmProblem::new(m / 2 + 3, n + 8, k * listed.cluster[2] + 13)
            .major(Operand::C, [Major::Second, Major::First][i / 4 % 2])
            .beta([0.0, -2.0][i / 2 % 2]);
        let along_k = (problem.k + vector - 1) / vector * vector;
        let problem = problem
            .leading(Operand::A, along_k)
            .leading(Operand::B, along_k)
            .leading(Operand::C, ((m / 2 + 3).max(n + 8) + 3) / 4 * 4);
        let case = GemmCase::new(problem);
        let plan = GemmPlan {
            operands: Operands {
                majors: problem.majors,
                beta: problem.beta != 0.0,
                ..listed.operands
            },
            ..*listed
        };
        let schedule = Schedule::from_seed(i as u64 % 4);
        let options = SimOptions::default().schedule(schedule);
        let device = Device::simulator_with(Arch::Sm90a, options);
        let done = match listed.operands.ab {
            Ty::Tf32 => case.tf32().run_by::<f32, f32>(&device, &plan),
            _ => case.run_by::<i8, i32>(&device, &plan),
        };
        done.unwrap_or_else(|why| panic!("{listed}, {problem}, {schedule:?}: {why}"));
        cases += 1;
    }
    println!("law plans.listed_tf32_and_bytes: {cases} cases");
}

/// Parts of K of tf32 and of bytes, summed over a cluster and through a workspace, in four schedules.
#[test]
fn parts_of_k_of_tf32_and_bytes_are_summed() {
    let mut cases = 0;
    for (ty, bytes) in [(Ty::Tf32, 4), (Ty::S8, 1)] {
        for (i, (columns, along_k, split)) in [(64, 2, 1), (32, 1, 3), (64, 4, 2), (128, 8, 1)]
            .into_iter()
            .enumerate()
        {
            for seed in 0..4 {
                let k = 16 * (17 + 40 * i as i64);
                let problem = GemmProblem::new(70, 72, k).beta([0.0, 3.0][i % 2]);
                let device = Device::simulator_with(
                    Arch::Sm90a,
                    SimOptions::default().schedule(Schedule::from_seed(seed)),
                );
                let c = if ty == Ty::S8 { Ty::S32 } else { Ty::F32 };
                let operands = Operands {
                    ab: ty,
                    c,
                    majors: problem.majors,
                    vectors: [16 / bytes, 16 / bytes, 4],
                    beta: problem.beta != 0.0,
                    gated: false,
                };
                let plan = GemmPlan {
                    tile: [64, columns, 64 / bytes],
                    warps: [1, 1],
                    cluster: [1, 1, along_k],
                    split,
                    stages: 3,
                    ..GemmPlan::new(GemmMethod::Hopper, operands)
                };
                let case = GemmCase::new(problem);
                let done = match ty {
                    Ty::Tf32 => case.tf32().run_by::<f32, f32>(&device, &plan),
                    _ => case.run_by::<i8, i32>(&device, &plan),
                };
                done.unwrap_or_else(|why| panic!("{plan}, {problem}, seed {seed}: {why}"));
                cases += 1;
            }
        }
    }
    println!("law plans.parts_of_k_of_tf32_and_bytes: {cases} cases");
}

/// `wgmma` takes tf32 and bytes along K only: tiles of another order are transposed in shared memory, or a copy packs the operand
/// where that is asked for, or where the model says that it is faster, as for A of a large product of tf32 and for B of one of bytes.
#[test]
fn other_orders_of_tf32_and_bytes_are_transposed_or_packed() {
    let device = Device::simulator(Arch::Sm90a);
    let of_f32 = |[m, n, k]: [usize; 3], packs: Option<bool>| {
        let (a, b) = (
            device.zeros::<f32>(m * k).unwrap(),
            device.zeros::<f32>(n * k).unwrap(),
        );
        let mut c = device.zeros::<f32>(m * n).unwrap();
        let a = View::new(&a, ((m, k), (1, m))).unwrap();
        let (b, c) = (b.view((n, k)).unwrap(), c.view_mut((m, n)).unwrap());
        let gemm = Gemm::new(&a, &b, &c).compute(Compute::Tf32);
        let gemm = packs.into_iter().fold(gemm, |gemm, packs| gemm.pack(packs));
        let call = gemm.prepare().unwrap();
        (call.plan().unwrap().method, call.packed().count())
    };
    let of_i8 = |[m, n, k]: [usize; 3], packs: Option<bool>| {
        let (a, b) = (
            device.zeros::<i8>(m * k).unwrap(),
            device.zeros::<i8>(n * k).unwrap(),
        );
        let mut c = device.zeros::<i32>(m * n).unwrap();
        let b = View::new(&b, ((n, k), (1, n))).unwrap();
        let (a, c) = (a.view((m, k)).unwrap(), c.view_mut((m, n)).unwrap());
        let gemm = Gemm::new(&a, &b, &c);
        let gemm = packs.into_iter().fold(gemm, |gemm, packs| gemm.pack(packs));
        let call = gemm.prepare().unwrap();
        (call.plan().unwrap().method, call.packed().count())
    };
    let (large, small) = ([4096, 4096, 4096], [64, 64, 64]);
    for (shape, packed) in [(large, 1), (small, 0)] {
        assert_eq!(of_f32(shape, None), (GemmMethod::Hopper, packed));
        assert_eq!(of_i8(shape, None), (GemmMethod::Hopper, packed));
        for packs in [false, true] {
            let expected = (GemmMethod::Hopper, usize::from(packs));
            assert_eq!(of_f32(shape, Some(packs)), expected);
            assert_eq!(of_i8(shape, Some(packs)), expected);
        }
    }
}

/// A warpgroup of Hopper's kernel loads rows of any alignment: by `cp.async` of 16, 8 and 4 bytes, and through registers.
#[test]
fn threads_load_rows_of_any_alignment_for_wgmma() {
    let mut cases = 0;
    let tiles = [
        ([64, 32, 64], 1, 1, false),
        ([128, 64, 32], 2, 1, true),
        ([64, 64, 64], 1, 3, false),
        ([64, 16, 16], 1, 1, true),
        ([128, 32, 64], 2, 2, false),
    ];
    for (i, (tile, consumers, split, swap)) in tiles.into_iter().enumerate() {
        for (m, n, k) in [
            (70, 72, 136),
            (67, 45, 84),
            (130, 41, 90),
            (33, 65, 71),
            (1, 3, 2),
        ] {
            let major = |i: usize| [Major::First, Major::Second][i % 2];
            let problem = GemmProblem::new(m, n, k)
                .major(Operand::A, major(cases / 2))
                .major(Operand::B, major(cases / 3))
                .major(Operand::C, major(cases / 5))
                .beta([0.0, 1.0][i % 2]);
            let options = SimOptions::default().seed(cases as u64 + 1);
            let device = Device::simulator_with(Arch::Sm90a, options);
            let found = product_on(&device, GemmMethod::Hopper, problem, |plan| {
                *plan = GemmPlan {
                    tile,
                    warps: [consumers, 1],
                    cluster: [1; 3],
                    split,
                    swap,
                    gather: true,
                    stages: 3,
                    ..*plan
                };
            });
            assert_eq!(found, Ok(0.0), "{tile:?}, {problem}");
            cases += 1;
        }
    }
    println!("law plans.gathered: {cases} cases");
}

/// Clusters divide K through a workspace: parts beyond K, several tiles for a cluster, tiles that are not divided, multicast
/// and blocks along K, C read and not.
#[test]
fn parts_of_k_are_summed_through_a_workspace() {
    let plan = |tile: [i64; 3], warps: i64, cluster: [i64; 3], split: i64, swap: bool| {
        move |plan: &mut GemmPlan| {
            *plan = GemmPlan {
                tile,
                warps: [warps, 1],
                cluster,
                split,
                swap,
                stages: 3,
                ..*plan
            };
        }
    };
    let plans = [
        plan([64, 32, 64], 1, [1, 1, 1], 2, false),
        plan([64, 32, 16], 1, [1, 1, 1], 7, true),
        plan([128, 64, 64], 2, [2, 1, 1], 3, false),
        plan([128, 32, 32], 2, [1, 2, 1], 4, true),
        plan([64, 64, 64], 1, [1, 1, 2], 2, false),
        plan([128, 64, 32], 2, [1, 1, 4], 3, false),
    ];
    let mut cases = 0;
    for (i, plan) in plans.into_iter().enumerate() {
        for (m, n, k, beta) in [(70, 72, 264, 0.0), (130, 72, 72, 1.0), (1, 8, 1000, 0.0)] {
            let problem = GemmProblem::new(m, n, k)
                .major(Operand::C, [Major::First, Major::Second][i % 2])
                .beta(beta);
            let options = SimOptions::default().seed(cases + 1);
            let device = Device::simulator_with(Arch::Sm90a, options);
            let undivided = if m > 1 { (i as i64 + m) % 2 } else { 0 };
            let found = product_on(&device, GemmMethod::Hopper, problem, |changed| {
                plan(changed);
                changed.undivided = undivided;
                changed.early = cases % 2 == 1;
            });
            assert_eq!(
                found,
                Ok(0.0),
                "plan {i}, {undivided} tiles whole, {problem}"
            );
            cases += 1;
        }
    }
    println!("law plans.parts_of_k: {cases} cases");
}

/// Parts of K are summed for the tiles behind any number of whole ones, 0 to all of them: the whole ones have the bits of a plan without
/// parts, and the divided ones those of a plan that divides all.
#[test]
fn law_tiles_stay_whole_in_front_of_the_divided_ones() {
    let (m, n, k) = (100_usize, 40, 264);
    let number = |i: usize| bf16::from_f64((i as f64 * 0.7311).sin());
    let a: Vec<bf16> = (0..m * k).map(number).collect();
    let b: Vec<bf16> = (3..n * k + 3).map(number).collect();
    let bits =
        |cluster: [i64; 3], split: i64, undivided: i64, seed: u64| -> Result<Vec<u32>, String> {
            let device = Device::simulator_with(Arch::Sm90a, SimOptions::default().seed(seed));
            let (a, b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
            let mut c = device.poisoned::<f32>(m * n).unwrap();
            let (a, b) = (a.view((m, k)).unwrap(), b.view((n, k)).unwrap());
            let call =
                Gemm::new(&a, &b, &c.view_mut((m, n)).unwrap()).prepare_with(|operands, _| {
                    Ok(GemmPlan {
                        tile: [64, 32, 64],
                        warps: [1, 1],
                        cluster,
                        split,
                        undivided,
                        stages: 3,
                        ..GemmPlan::new(GemmMethod::Hopper, operands)
                    })
                });
            let call = call.map_err(|error| error.to_string())?;
            call.run(&device).unwrap();
            Ok(c.download().unwrap().iter().map(|x| x.to_bits()).collect())
        };
    let mut cases = 0;
    // 2 by 2 tiles of 64 by 32, and 1 by 2 of clusters of two along M.
    for (cluster, tiles, split) in [([1, 1, 1], 4, 3), ([2, 1, 1], 2, 2), ([1, 1, 2], 4, 2)] {
        let whole = bits(cluster, 1, 0, 1).unwrap();
        let divided = bits(cluster, split, 0, 1).unwrap();
        assert_ne!(whole, divided);
        let mut kept = 0;
        for undivided in 0..=tiles {
            let found = bits(cluster, split, undivided, undivided as u64 + 2).unwrap();
            let mut of_whole = 0;
            for (i, found) in found.iter().enumerate() {
                let is_whole = *found == whole[i];
                assert!(
                    is_whole || *found == divided[i],
                    "element {i}, {undivided} whole"
                );
                of_whole += usize::from(is_whole);
            }
            // Every tile more keeps more elements of the plan without parts.
            assert!(
                undivided == 0 || of_whole > kept,
                "{undivided} tiles: {of_whole} elements"
            );
            kept = of_whole;
            cases += 1;
        }
        assert_eq!(kept, m * n);
        let error = bits(cluster, split, tiles + 1, 1).unwrap_err();
        assert_eq!(
            error,
            format!(
                "the plan asks for {} tiles that are not divided: the Hopper kernel takes at most {tiles}, 1 fewer",
                tiles + 1
            )
        );
    }
    println!("law plans.undivided: {cases} cases");
}

/// One plan gives the same bits in every run, also where the blocks of a cluster divide K; and with `batch_invariant` a row
/// has the same bits among any number of rows.
#[test]
fn bits_do_not_depend_on_the_run_or_the_batch() {
    let (n, k) = (72, 1096);
    let random = |count: usize, seed: u64| -> Vec<f16> {
        let mut state = seed;
        let mut next = || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 40) as f64 / f64::from(1 << 23) - 1.0
        };
        (0..count).map(|_| f16::from_f64(next())).collect()
    };
    let (a, b) = (random(200 * k, 1), random(n * k, 2));
    let bits = |rows: std::ops::Range<usize>, seed: u64, along_k: Option<[i64; 2]>| -> Vec<u32> {
        let device = Device::simulator_with(Arch::Sm90a, SimOptions::default().seed(seed));
        let (m, at) = (rows.len(), rows.start * k);
        let da = device.upload(&a[at..at + m * k]).unwrap();
        let (db, mut c) = (
            device.upload(&b).unwrap(),
            device.poisoned::<f32>(m * n).unwrap(),
        );
        let (va, vb) = (da.view((m, k)).unwrap(), db.view((n, k)).unwrap());
        let vc = c.view_mut((m, n)).unwrap();
        let gemm = Gemm::new(&va, &vb, &vc);
        let call = match along_k {
            None => gemm.batch_invariant().prepare().unwrap(),
            Some([along_k, split]) => gemm
                .prepare_with(|operands, _| {
                    Ok(GemmPlan {
                        tile: [64, 64, 64],
                        warps: [1, 1],
                        cluster: [1, 1, along_k],
                        split,
                        ..GemmPlan::new(GemmMethod::Hopper, operands)
                    })
                })
                .unwrap(),
        };
        assert_eq!(call.plan().unwrap().method, GemmMethod::Hopper);
        call.run(&device).unwrap();
        c.download().unwrap().iter().map(|x| x.to_bits()).collect()
    };
    let mut cases = 0;
    for along_k in [[2, 1], [4, 1], [1, 3], [2, 2]] {
        let first = bits(0..40, 1, Some(along_k));
        for seed in 2..5 {
            assert_eq!(
                bits(0..40, seed, Some(along_k)),
                first,
                "{along_k:?} blocks and parts along K"
            );
            cases += 1;
        }
    }
    let all = bits(0..200, 1, None);
    for rows in [7..8, 3..67, 70..199] {
        assert_eq!(
            bits(rows.clone(), 1, None),
            all[rows.start * n..rows.end * n]
        );
        cases += 1;
    }
    println!("law plans.same_bits: {cases} cases");
}

/// With `batch_invariant`, a row of C has the same bits in products of one row and of many, for rows of every length: those that a
/// tensor map describes and those that none does, and for one column and two; and of tf32 in a product of more than 256 rows.
#[test]
fn law_rows_of_a_batch_invariant_product_have_the_same_bits() {
    let mut r = Random::of(7, "invariant");
    let mut cases = 0;
    let known = [
        (7, 2713),
        (66, 1161),
        (1, 1001),
        (2, 999),
        (1, 8841),
        (3, 40),
    ];
    let drawn: Vec<(usize, usize)> = (0..draws(3))
        .map(|_| (1 + r.below(80_usize), 1 + r.below(1400_usize)))
        .collect();
    for (n, k) in known.into_iter().chain(drawn) {
        let some = [0..1, 77..78, 3..5, 60..124];
        cases += rows_have_the_same_bits::<bf16>(&mut r, [130, n, k], None, &some);
    }
    let some = [0..1, 150..151, 3..68, 20..290];
    cases += rows_have_the_same_bits::<f32>(&mut r, [300, 72, 520], Some(Compute::Tf32), &some);
    println!("law plans.batch_invariant: {cases} cases");
}

/// Compares the bits of a product of drawn numbers with those of the products of some of its rows, and returns how many products ran.
fn rows_have_the_same_bits<T: GemmElement>(
    r: &mut Random,
    [m, n, k]: [usize; 3],
    compute: Option<Compute>,
    some: &[std::ops::Range<usize>],
) -> usize {
    let device = Device::simulator(Arch::Sm90a);
    let mut random = |count: usize| -> Vec<T> {
        let one = |_| T::from_f64(f64::from(r.below(4001_i32) - 2000) / 1000.0);
        (0..count).map(one).collect()
    };
    let (a, b) = (random(m * k), random(n * k));
    let (a, b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let bits = |rows: std::ops::Range<usize>| -> (Vec<u32>, String) {
        let own = a.slice(rows.start * k..rows.end * k).unwrap();
        let mut c = device.poisoned::<f32>(rows.len() * n).unwrap();
        let said = {
            let (x, w) = (own.view((rows.len(), k)).unwrap(), b.view((n, k)).unwrap());
            let of_c = c.view_mut((rows.len(), n)).unwrap();
            let gemm = Gemm::new(&x, &w, &of_c).batch_invariant();
            let gemm = compute.into_iter().fold(gemm, Gemm::compute);
            let call = gemm.prepare().unwrap();
            call.run(&device).unwrap();
            call.to_string()
        };
        let found = c.download().unwrap().iter().map(|x| x.to_bits()).collect();
        (found, said)
    };
    let (all, by) = bits(0..m);
    for rows in some {
        let (found, said) = bits(rows.clone());
        assert_eq!(
            found,
            all[rows.start * n..rows.end * n],
            "{n} columns, K {k}, rows {rows:?} by {said}, all by {by}"
        );
    }
    1 + some.len()
}

/// The same where the rows of A or of C are contiguous along M, so that their distance, and with it what a kernel may access at once, changes
/// with the number of rows; and for matrices that begin anywhere in memory.
#[test]
fn law_rows_in_every_order_have_the_bits_of_any_number_of_rows() {
    let mut r = Random::of(11, "invariant orders");
    let mut cases = 0;
    let drawn: Vec<[usize; 2]> = (0..draws(2))
        .map(|_| [1 + r.below(80_usize), 1 + r.below(600_usize)])
        .collect();
    for [n, k] in [[72, 264], [7, 131], [1, 520]].into_iter().chain(drawn) {
        for majors in 0..4 {
            let majors = [majors & 1 != 0, majors & 2 != 0];
            let some = [0..1, 77..78, 3..5, 60..125, 60..124];
            cases += ordered_rows_have_the_same_bits(&mut r, [130, n, k], majors, &some);
        }
    }
    println!("law plans.batch_invariant_orders: {cases} cases");
}

/// Compares the bits and the orders of sums as [`rows_have_the_same_bits`] does, of products whose A and C are, or are not, contiguous along
/// M.
fn ordered_rows_have_the_same_bits(
    r: &mut Random,
    [m, n, k]: [usize; 3],
    along_m: [bool; 2],
    some: &[std::ops::Range<usize>],
) -> usize {
    let device = Device::simulator(Arch::Sm90a);
    let mut random = |count: usize| -> Vec<bf16> {
        let one = |_| bf16::from_f64(f64::from(r.below(4001_i32) - 2000) / 1000.0);
        (0..count).map(one).collect()
    };
    let (a, b) = (random(m * k), random(n * k));
    let b = device.upload(&b).unwrap();
    let product = |rows: std::ops::Range<usize>, begin: usize| {
        let count = rows.len();
        let [of_a, of_c] = [(along_m[0], k), (along_m[1], n)].map(|(is_along, columns)| {
            let [rows, columns] = [count, columns].map(|n| n as i64);
            let steps = if is_along { (1, rows) } else { (columns, 1) };
            Layout::new((rows, columns), steps).unwrap()
        });
        let mut own = vec![bf16::ZERO; begin];
        own.extend((0..count * k).map(|at| {
            let (i, column) = if along_m[0] {
                (at % count, at / count)
            } else {
                (at / k, at % k)
            };
            a[(rows.start + i) * k + column]
        }));
        let own = device.upload(&own).unwrap();
        let own = own.slice(begin..).unwrap();
        let c = device.poisoned::<bf16>(begin + count * n).unwrap();
        let mut c = c.slice(begin..).unwrap();
        let said = {
            let (x, w) = (View::new(&own, &of_a).unwrap(), b.view((n, k)).unwrap());
            let of_c = ViewMut::new(&mut c, &of_c).unwrap();
            let gemm = Gemm::new(&x, &w, &of_c).batch_invariant();
            let call = gemm.prepare().unwrap();
            call.run(&device).unwrap();
            let plan = call.plan().unwrap();
            format!("{} with {} blocks along K", plan.method, plan.cluster[2])
        };
        let found = c.download().unwrap();
        let found: Vec<u16> = (0..count * n)
            .map(|at| {
                let (i, j) = (at / n, at % n);
                found[if along_m[1] { i + j * count } else { at }].to_bits()
            })
            .collect();
        (found, said)
    };
    let (all, by) = product(0..m, 0);
    for (begin, rows) in [0, 1, 0, 8, 0].into_iter().zip(some.iter().cycle()) {
        let (found, said) = product(rows.clone(), begin);
        let of = format!("{n} columns, K {k}, along M {along_m:?}, rows {rows:?} from {begin}");
        assert_eq!(said, by, "{of}");
        assert_eq!(found, all[rows.start * n..rows.end * n], "{of} by {said}");
    }
    6
}

/// A batch-invariant call takes a given plan that sums rows in the order of its own choice, with the same bits, and refuses others.
#[test]
fn plans_that_sum_rows_in_another_order_are_no_batch_invariant_ones() {
    let device = Device::simulator(Arch::Sm90a);
    let (m, n, k) = (100_usize, 72, 264);
    let number = |i: usize| bf16::from_f64((i as f64 * 0.7311).sin());
    let a = device
        .upload(&(0..m * k).map(number).collect::<Vec<_>>())
        .unwrap();
    let b = device
        .upload(&(3..n * k + 3).map(number).collect::<Vec<_>>())
        .unwrap();
    let mut c = device.poisoned::<f32>(m * n).unwrap();
    let read = c.clone();
    let bits = || -> Vec<u32> {
        let found = read.download().unwrap();
        found.iter().map(|x| x.to_bits()).collect()
    };
    let of_c = c.view_mut((m, n)).unwrap();
    let gemm = Gemm::new(&a.view((m, k)).unwrap(), &b.view((n, k)).unwrap(), &of_c);
    let gemm = gemm.batch_invariant();
    gemm.run().unwrap();
    let wanted = bits();
    let with = |method: GemmMethod, change: &dyn Fn(&mut GemmPlan)| {
        gemm.prepare_with(|operands, _| {
            let mut plan = GemmPlan::new(method, operands);
            change(&mut plan);
            Ok(plan)
        })
    };
    let taken: [&dyn Fn(&mut GemmPlan); 3] = [
        &|_| (),
        &|plan| (plan.tile, plan.warps) = ([64, 32, 16], [1, 1]),
        &|plan| (plan.tile, plan.warps, plan.swap) = ([64, 16, 64], [1, 1], true),
    ];
    for (i, change) in taken.into_iter().enumerate() {
        read.fill_bytes(0xff).unwrap();
        with(GemmMethod::Hopper, change)
            .unwrap()
            .run(&device)
            .unwrap();
        assert_eq!(bits(), wanted, "plan {i}");
    }
    // Numbers that no kernel takes are refused as those of another call are.
    let plain = Gemm::new(&a.view((m, k)).unwrap(), &b.view((n, k)).unwrap(), &of_c);
    type Field = fn(&mut GemmPlan) -> &mut i64;
    let fields: [Field; 10] = [
        |plan| &mut plan.tile[0],
        |plan| &mut plan.tile[1],
        |plan| &mut plan.tile[2],
        |plan| &mut plan.columns,
        |plan| &mut plan.cluster[0],
        |plan| &mut plan.cluster[1],
        |plan| &mut plan.cluster[2],
        |plan| &mut plan.split,
        |plan| &mut plan.undivided,
        |plan| &mut plan.stages,
    ];
    let mut wild = 0;
    for method in [GemmMethod::Hopper, GemmMethod::Ampere, GemmMethod::Simt] {
        for field in fields {
            for number in [0, -1, 1 << 40, i64::MIN, i64::MAX] {
                for split in [1, 2] {
                    let plan = |operands, _| {
                        let mut plan = GemmPlan::new(method, operands);
                        plan.split = split;
                        *field(&mut plan) = number;
                        Ok(plan)
                    };
                    if let Err(error) = plain.prepare_with(plan) {
                        let found = gemm.prepare_with(plan).map(drop);
                        assert_eq!(found, Err(error));
                        wild += 1;
                    }
                }
            }
        }
    }
    println!("law plans.batch_invariant: {wild} cases");
    let cluster: &dyn Fn(&mut GemmPlan) =
        &|plan| (plan.tile, plan.warps, plan.cluster) = ([64, 64, 64], [1, 1], [1, 1, 2]);
    let refused = [
        (
            GemmMethod::Hopper,
            cluster,
            "number of a cluster's blocks along K is 2: with 1",
        ),
        (
            GemmMethod::Hopper,
            &|plan| plan.split = 3,
            "number of parts of K is 3: with 1",
        ),
        (GemmMethod::Ampere, &|_| (), "method is Ampere: with Hopper"),
    ];
    for (method, change, why) in refused {
        let error = with(method, change).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "the product is batch-invariant, and the plan's {why} the bits of a row do not depend on the number of rows"
            )
        );
        assert_eq!(error.plan(), Some(PlanRefusal::Call));
    }
}

/// Rows of 16-bit numbers that no tensor map describes are packed where that is faster.
#[test]
fn rows_of_odd_lengths_are_packed_for_hopper() {
    let device = Device::simulator(Arch::Sm90a);
    let (m, n, k) = (4095, 4097, 4099);
    let a = device.zeros::<f16>(m * k).unwrap();
    let (b, mut c) = (
        device.zeros::<f16>(n * k).unwrap(),
        device.zeros::<f16>(m * n).unwrap(),
    );
    let (va, vb) = (a.view((m, k)).unwrap(), b.view((n, k)).unwrap());
    let call = Gemm::new(&va, &vb, &c.view_mut((m, n)).unwrap())
        .prepare()
        .unwrap();
    assert_eq!(call.plan().unwrap().method, GemmMethod::Hopper);
    assert_eq!(call.packed().count(), 2);
    let (m, n, k) = (65, 33, 63);
    let (va, vb) = (a.view((m, k)).unwrap(), b.view((n, k)).unwrap());
    let call = Gemm::new(&va, &vb, &c.view_mut((m, n)).unwrap())
        .prepare()
        .unwrap();
    assert_eq!(call.plan().unwrap().method, GemmMethod::Hopper);
    assert_eq!(call.packed().count(), 0);
}

#[test]
fn clusters_that_no_kernel_has_are_refused() {
    use GemmMethod::{Ampere, Hopper};
    assert_eq!(
        said(Ampere, |plan| plan.cluster = [2, 1, 1]),
        "the plan's number of a cluster's blocks along M is 2: the Ampere kernel takes 1 only"
    );
    assert_eq!(
        said(Hopper, |plan| plan.cluster = [1, 1, 16]),
        "the plan's number of a cluster's blocks along K is 16: the Hopper kernel takes 1 to 8"
    );
    assert_eq!(
        said(Hopper, |plan| plan.cluster = [2, 3, 1]),
        "the plan asks for 6 blocks along M and N in a cluster: the Hopper kernel takes at most 4, 2 fewer"
    );
    assert_eq!(
        said(Hopper, |plan| plan.cluster = [3, 1, 1]),
        "the plan's number of blocks along M and N in a cluster is 3: the Hopper kernel takes 2 to 4, in multiples of 2"
    );
    assert_eq!(
        said(Hopper, |plan| plan.cluster = [2, 1, 2]),
        "the plan asks for 2 blocks along M and N in a cluster that divides K: the Hopper kernel takes at most 1, 1 fewer"
    );
    assert_eq!(
        said(Hopper, |plan| plan.cluster = [1, 1, 4]),
        "the plan asks for 327680 bytes of shared memory for A, B and the sums of a cluster: the Hopper kernel takes at most \
         232448, 95232 fewer"
    );
    assert_eq!(
        said(Ampere, |plan| plan.swap = true),
        "the plan swaps A and B: the Ampere kernel does not, and the Hopper and GEMV kernels do"
    );
    assert_eq!(
        said(Ampere, |plan| plan.gather = true),
        "the plan loads A and B by the threads of a warpgroup: the Ampere kernel does not for f16, and the Hopper kernel does for \
         f16 and bf16"
    );
    assert_eq!(
        said(Hopper, |plan| {
            plan.cluster = [1, 1, 3];
            plan.tile = [128, 64, 64];
        }),
        "the plan's tile along N is 64: the Hopper kernel takes 24 to 240, in multiples of 24"
    );
}

/// What is said of the plan of a product of bf16 with these views, before and after it is prepared.
fn explained(
    layouts: [&str; 3],
    change: impl Fn(Gemm<'_, bf16, bf16>) -> Gemm<'_, bf16, bf16>,
) -> [String; 2] {
    let device = Device::simulator(Arch::Sm90a);
    let length = |layout: &str| {
        let layout: colex_layout::Layout = layout.parse().unwrap();
        layout.cosize().unwrap() as usize
    };
    let [a, b] = [0, 1].map(|i| device.zeros::<bf16>(length(layouts[i])).unwrap());
    let mut c = device.zeros::<bf16>(length(layouts[2])).unwrap();
    let (a, b) = (
        View::new(&a, layouts[0]).unwrap(),
        View::new(&b, layouts[1]).unwrap(),
    );
    let c = colex_gpu::ViewMut::new(&mut c, layouts[2]).unwrap();
    let gemm = change(Gemm::new(&a, &b, &c));
    let before = gemm.explain().unwrap();
    let call = gemm.prepare().unwrap();
    if let Some(plan) = call.plan() {
        assert!(before.contains(&format!("{plan}: ")), "{plan}: {before}");
    }
    [before, call.explain()]
}

/// A call says which plan it takes, with the terms of its cost and the next best ones, and why matrices are packed.
#[test]
fn what_a_call_says_of_its_plan() {
    let plain = [
        "(64,4096):(4096,1)",
        "(512,4096):(4096,1)",
        "(64,512):(512,1)",
    ];
    let [before, after] = explained(plain, |gemm| gemm);
    assert_eq!(before, after);
    assert_eq!(
        before.lines().collect::<Vec<_>>(),
        [
            "Hopper bf16 to bf16, tile 64x32x128, 8 stages, 1 consumers, cluster 2x1x1, 4 parts of K, early, grouped 8 along n, A and B swapped: 5.0 us: 1.5 fixed, 0.2 x (6.3 mainloop, 0.2 epilogue, 0.0 sum), 1.6 parts, memory 1.0",
            "  Hopper bf16 to bf16, tile 64x32x128, 8 stages, 1 consumers, cluster 2x1x1, 8 parts of K, early, grouped 8 along n, A and B swapped: 5.1 us: 1.9 fixed, 0.1 x (6.6 mainloop, 0.2 epilogue, 0.0 sum), 1.8 parts, memory 1.0",
            "  Hopper bf16 to bf16, tile 64x16x128, 10 stages, 1 consumers, cluster 1x1x1, 4 parts of K, early, grouped 8 along n: 5.3 us: 1.9 fixed, 0.2 x (5.8 mainloop, 0.1 epilogue, 0.0 sum), 1.6 parts, memory 1.0",
            "  Hopper bf16 to bf16, tile 64x128x64, 8 stages, 1 consumers, cluster 1x1x1, 8 parts of K, early, grouped 8 along n: 5.3 us: 1.4 fixed, 0.1 x (12.7 mainloop, 0.3 epilogue, 0.0 sum), 2.1 parts, memory 1.0",
            "  Hopper bf16 to bf16, tile 64x16x128, 10 stages, 1 consumers, cluster 1x1x2, early, grouped 8 along n, A and B swapped: 5.4 us: 1.5 fixed, 1.0 x (2.6 mainloop, 0.2 epilogue, 0.9 sum), 0.0 parts, memory 1.0",
            "  Hopper bf16 to bf16, tile 64x128x64, 8 stages, 1 consumers, cluster 1x1x1, 16 parts of K, early, grouped 8 along n: 5.4 us: 1.5 fixed, 0.1 x (12.7 mainloop, 0.4 epilogue, 0.0 sum), 2.6 parts, memory 1.0",
        ]
    );
    let first = |layouts, change: fn(Gemm<'_, bf16, bf16>) -> Gemm<'_, bf16, bf16>| {
        let of = |said: &String| said.lines().next().map(str::to_string);
        explained(layouts, change)
            .each_ref()
            .map(of)
            .map(Option::unwrap)
    };
    let odd = [
        "(300,777):(777,1)",
        "(200,777):(777,1)",
        "(300,200):(200,1)",
    ];
    let by_threads = "Hopper bf16 to bf16, tile 64x32x64, 7 stages, 1 consumers, cluster 1x1x1, 6 parts of K, early, grouped 8 \
                      along n, loaded by threads: 6.8 us: 1.1 fixed, 0.2 x (15.4 mainloop, 0.2 epilogue, 0.0 sum), 2.2 parts, memory 0.2";
    assert_eq!(
        first(odd, |gemm| gemm),
        [
            "nothing is packed: 7.6 us with copies that pack, 6.8 us without",
            by_threads
        ]
    );
    let strided = ["(300,64):(128,2)", "(200,64):(64,1)", "(300,200):(200,1)"];
    assert_eq!(
        first(strided, |gemm| gemm),
        [
            "A is packed: no kernel takes such strides",
            "pack A: 19200:2 -> 19200:1 of 2 bytes: strided, 2 bytes per access"
        ]
    );
    let long = [
        "(1024,4097):(4097,1)",
        "(1024,4097):(4097,1)",
        "(1024,1024):(1024,1)",
    ];
    let [said, step] = first(long, |gemm| gemm);
    assert_eq!(
        said,
        "A and B are packed: 54.9 us with copies that pack, 104.6 us without"
    );
    assert_eq!(
        step,
        "pack A: (4097,1024):(1,4097) -> (4097,1024):(1,4104) of 2 bytes: strided, 2 bytes per access"
    );
    let ampere = "Ampere bf16 to bf16, tile 128x128x32, 4 stages, grouped 8 along m: 63.9 us: 0.7 fixed, 1.0 x (61.3 mainloop, 1.9 \
                  epilogue, 0.0 sum), 0.0 parts, memory 1.0";
    assert_eq!(
        first(plain, |gemm| gemm.method(GemmMethod::Ampere)),
        [ampere; 2]
    );
}

/// The times of the model are those of the device: of one product by one plan, they differ between two architectures.
#[test]
fn what_a_call_says_of_its_plan_is_of_the_device() {
    let said = [Arch::Sm80, Arch::Sm90a].map(|arch| {
        let device = Device::simulator(arch);
        let x = device.zeros::<bf16>(1024 * 1024).unwrap();
        let mut written = device.zeros::<bf16>(1024 * 1024).unwrap();
        let rows = x.view((1024, 1024)).unwrap();
        let c = written.view_mut((1024, 1024)).unwrap();
        let gemm = Gemm::new(&rows, &rows, &c).method(GemmMethod::Ampere);
        let product = gemm.explain().unwrap();
        assert_eq!(gemm.prepare().unwrap().explain(), product);
        let heads = x.view((1, 16, 1024, 64)).unwrap();
        let o = written.view_mut((1, 16, 1024, 64)).unwrap();
        let attention = Attention::new(&heads, &heads, &heads, &o);
        let attention = attention.method(AttentionMethod::Ampere).explain().unwrap();
        [product, attention].map(|said| {
            let (plan, cost) = said.split_once(": ").unwrap();
            let (time, _) = cost.split_once(" us").unwrap();
            (plan.to_string(), time.parse::<f64>().unwrap())
        })
    });
    let [[product, attention], [other_product, other_attention]] = said;
    for ((plan, time), (other_plan, other_time)) in
        [(product, other_product), (attention, other_attention)]
    {
        assert_eq!(plan, other_plan);
        // An A100 has fewer multiprocessors than an H200, and lower clocks.
        assert!(time > 1.05 * other_time, "{plan}: {time} and {other_time}");
    }
}

/// What is said of a product that is refused is the refusal.
#[test]
fn what_is_refused_is_not_explained() {
    let device = Device::simulator(Arch::Sm90a);
    let a = device.zeros::<bf16>(64).unwrap();
    let mut c = device.zeros::<bf16>(64).unwrap();
    let (x, c) = (a.view((8, 8)).unwrap(), c.view_mut((4, 16)).unwrap());
    let gemm = Gemm::new(&x, &x, &c);
    let refused = gemm.run().unwrap_err().to_string();
    assert_eq!(
        refused,
        "M is 8 in A and 4 in C: A is (M,K), B (N,K) and C (M,N)"
    );
    assert_eq!(gemm.explain().unwrap_err().to_string(), refused);
    assert_eq!(gemm.load_plans().unwrap_err().to_string(), refused);
    let mut d = device.zeros::<bf16>(64).unwrap();
    let (none, d) = (a.view((0, 8)).unwrap(), d.view_mut((0, 8)).unwrap());
    let gemm = Gemm::new(&none, &x, &d);
    assert_eq!(gemm.explain().unwrap(), "nothing to do");
    assert_eq!(gemm.prepare().unwrap().explain(), "nothing to do");
    assert_eq!(gemm.load_plans().unwrap(), 0);
}

/// Drawn plans: those that are accepted give the right result at every size, and the others are refused with a sentence;
/// nothing panics. `COLEX_PLANS=2000x20` draws 2,000 plans with 20 problems each.
#[test]
fn drawn_plans_are_right_or_refused() {
    let wish = std::env::var("COLEX_PLANS").unwrap_or_else(|_| format!("{}x1", draws(200)));
    let (plans, problems) = wish.split_once('x').expect("two numbers");
    let (plans, problems): (u64, usize) = (plans.parse().unwrap(), problems.parse().unwrap());
    let mut tally = Tally::default();
    let mut failed = Vec::new();
    for number in 0..plans {
        let (case, dice) = PlanCase::draw(1, number, None);
        let run = || case.run(dice.clone(), problems, None, true);
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
            Ok(outcome) => {
                tally.add(&outcome);
                failed.extend(outcome.failed);
            }
            Err(_) => failed.push(format!("plan {number} panics: {case}")),
        }
    }
    println!("{tally}");
    assert!(
        failed.is_empty(),
        "{} failures:\n{}",
        failed.len(),
        failed.join("\n")
    );
    assert_eq!(tally.never_accepted(), [""; 0]);
    let [plans, accepted, right] = tally.totals();
    assert!(3 * accepted > plans, "{accepted} of {plans}");
    println!(
        "law plans.drawn: {} cases, {accepted} of {plans} plans accepted",
        right
    );
}

/// What a copy's plan is made of may be anything: it is made or refused.
#[test]
fn copy_plans_of_any_numbers_are_made_or_refused() {
    let wild = [0, 1, 2, 3, 4, 8, 16, -1, 5, 1 << 40, i64::MAX, i64::MIN];
    let layouts = [
        ["1000:1", "1000:1"],
        ["(64,96):(96,1)", "(64,96):(1,64)"],
        ["(16,5,4):(1,32,160)", "(16,5,4):(1,16,80)"],
        [
            "(1048576,1048576):(1048576,1)",
            "(1048576,1048576):(1,1048576)",
        ],
        ["4611686018427387904:1", "4611686018427387904:1"],
        ["(2147483648,4):(5,1)", "(2147483648,4):(7,1)"],
        ["(2,2147483648):(1,2)", "(2,2147483648):(1,4)"],
        // A stride, or an extent, times another number has no number of 64 bits.
        ["(2,2):(4611686018427387904,1)", "(2,2):(1,2)"],
        ["(2,2):(1,2)", "(2,2):(4611686018427387904,1)"],
        [
            "(2305843009213693952,2):(2,1)",
            "(2305843009213693952,2):(1,2305843009213693952)",
        ],
        [
            "(8,8,2):(8,1,4611686018427387904)",
            "(8,8,2):(1,8,4611686018427387904)",
        ],
    ];
    let (mut made, mut refused) = (0, 0);
    for [source, destination] in layouts {
        let nest = LoopNest::new(source, destination).expect("one shape");
        for bytes in wild {
            for most in wild {
                let Ok(vector) = nest.aligned_vector(bytes, most, [0, 0]) else {
                    continue;
                };
                let width = vector.checked_mul(bytes);
                let fits = width.is_some_and(|width| width <= most);
                assert!(vector == 1 || fits, "{vector} of {bytes} in {most}");
            }
            for addresses in [[0, 0], [256, 1], [3, 5], [u64::MAX, 0], [8, 1 << 63]] {
                for arch in [Arch::Sm70, Arch::Sm90a] {
                    let mut count = |is_made: bool| if is_made { made += 1 } else { refused += 1 };
                    count(CopyPlan::choose(&nest, bytes, addresses, arch).is_ok());
                    for method in COPY_METHODS {
                        let plan = CopyPlan::new(&nest, bytes, addresses, arch, method);
                        count(plan.is_ok());
                        for squares in wild.map(|n| [n, 2]).into_iter().chain(wild.map(|n| [1, n]))
                        {
                            if let Ok(plan) = &plan {
                                count(plan.clone().with_squares(squares).is_ok());
                            }
                        }
                    }
                }
            }
        }
    }
    println!(
        "law plans.copies: {} cases, {refused} refused",
        made + refused
    );
    let nest = LoopNest::new("8:1", "8:1").expect("one shape");
    let said = |bytes, addresses| {
        let refused = CopyPlan::choose(&nest, bytes, addresses, Arch::Sm80);
        refused.expect_err("it is refused").to_string()
    };
    assert_eq!(
        said(0, [0, 0]),
        "the strided kernel does not copy 8:1 -> 8:1: elements of 0 bytes; 1, 2, 4 and 8 are copied"
    );
    assert_eq!(
        said(4, [0, 6]),
        "the strided kernel does not copy 8:1 -> 8:1: the address 0x6 is not a multiple of 4 bytes"
    );
}

/// Plans and problems drawn over all fields: what is said of them ends, without a panic.
#[test]
fn law_what_is_said_of_any_product_ends() {
    let devices = [Arch::Sm70, Arch::Sm80, Arch::Sm90a].map(Device::simulator);
    let mut r = Random::new(0x6e33);
    let mut accepted = 0;
    let cases = 40_000;
    for _ in 0..cases {
        let mut number = |usual: &[i64]| match r.below(25_u64) {
            0 => r.one(&[-1, 0, 3, 1 << 31, 1 << 40, i64::MIN, i64::MAX]),
            _ => r.one(usual),
        };
        let [m, n, k] = [(); 3].map(|()| number(&[1, 7, 64, 100, 4096, 16384]));
        let mut problem = GemmProblem::new(m, n, k).batch(number(&[1, 1, 1, 3]));
        let majors =
            [(); 3].map(|()| [Major::First, Major::Second][(number(&[0, 1]) & 1) as usize]);
        for (matrix, major) in [Operand::A, Operand::B, Operand::C].into_iter().zip(majors) {
            problem = problem.major(matrix, major);
            if number(&[0, 0, 1]) == 1 {
                problem = problem.leading(matrix, number(&[64, 100, 16384]));
            }
        }
        let types = [
            Ty::Bf16,
            Ty::F16,
            Ty::F32,
            Ty::Tf32,
            Ty::S8,
            Ty::F64,
            Ty::S4,
        ];
        let [ab, c] = [(); 2].map(|()| types[number(&[0, 0, 1, 2, 3, 4, 5]).clamp(0, 6) as usize]);
        let operands = Operands {
            ab,
            c,
            majors,
            vectors: [(); 3].map(|()| number(&[1, 4, 8, 8, 16])),
            beta: number(&[0, 1]) == 1,
            gated: number(&[0, 0, 0, 1]) == 1,
        };
        let methods = [
            GemmMethod::Simt,
            GemmMethod::Volta,
            GemmMethod::Ampere,
            GemmMethod::Hopper,
        ];
        let method = methods[number(&[0, 1, 2, 3, 3]).clamp(0, 3) as usize];
        let mut plan = GemmPlan {
            tile: [(); 3].map(|()| number(&[16, 64, 128, 256])),
            stages: number(&[2, 4]),
            warps: [number(&[1, 2, 4]), number(&[1, 2])],
            cluster: [(); 3].map(|()| number(&[1, 1, 2])),
            split: number(&[1, 1, 8]),
            undivided: number(&[0, 0, 5]),
            columns: number(&[0, 0, 48, 144]),
            early: number(&[0, 0, 1]) == 1,
            swap: number(&[0, 1]) == 1,
            gather: number(&[0, 0, 1]) == 1,
            whole: number(&[0, 0, 1]) == 1,
            ..GemmPlan::new(method, operands)
        };
        if number(&[0, 1]) == 1 {
            plan.schedule = Pingpong;
        }
        if number(&[0, 1]) == 1 {
            let (width, raster) = (number(&[1, 8]), RasterOrder::AlongM);
            plan.order = Order::Grouped { width, raster };
        }
        let device = &devices[number(&[0, 1, 2]).clamp(0, 2) as usize];
        let plans = GemmPlan::candidates(operands, device.arch());
        for plan in plans.into_iter().take(2).chain([plan]) {
            let _ = (plan.workspace(&problem), plan.to_string(), plan.steps());
            let _ = plan.explain(&problem, device);
        }
        let alternatives = GemmPlan::alternatives(&problem, operands, device);
        for plan in alternatives.into_iter().take(2) {
            assert_eq!(
                plan.check(device.arch()).map_err(|error| error.to_string()),
                Ok(())
            );
        }
        for matrix in [Operand::A, Operand::B, Operand::C] {
            let _ = (
                problem.layout(matrix),
                problem.extents(matrix),
                problem.leading_of(matrix),
            );
        }
        let _ = (problem.check(), problem.to_string());
        accepted += u32::from(plan.check(device.arch()).is_ok());
    }
    println!("law plans.said: {cases} cases, {accepted} plans accepted");
}
