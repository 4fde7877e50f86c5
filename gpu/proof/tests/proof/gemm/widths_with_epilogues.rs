//! Kernels for several widths with an epilogue of the caller: each width of whole parts of C stores what other tiles store.

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::Epilogue;
use colex_gpu::kernels::gemm::{Division, GemmMethod, GemmPlan};
use colex_gpu::kernels::{View, ViewMut};
use colex_gpu::{Device, Gemm};
use colex_layout::Layout;
use colex_proof::soak::takes;
use colex_sched::pipeline::Schedule::{self, Cooperative, Pingpong};
use colex_sim::SimOptions;
use half::bf16;

fn number(i: i64) -> bf16 {
    bf16::from_f64(((i * 5 + i / 7) % 13) as f64 / 4.0 - 1.5)
}

/// The epilogues: a bias and GELU; a bias, a residual and the coordinates, which TMA brings; a second output, and sums of rows.
fn epilogues() -> [Epilogue; 3] {
    let gelu = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator() + e.tensor("bias", Ty::Bf16).to(Ty::F32);
        x.gelu().to(Ty::Bf16)
    });
    let residual = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator() + e.tensor("bias", Ty::Bf16).to(Ty::F32);
        let x = x + e.tensor("residual", Ty::Bf16).to(Ty::F32);
        let place = e.row() * 2 - e.column();
        (x + place.to(Ty::F32) * 0.25).to(Ty::Bf16)
    });
    let outputs = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator() + e.tensor("bias", Ty::Bf16).to(Ty::F32);
        e.output("before", x.clone());
        e.row_sums("sums", x.clone());
        x.max(0.0).to(Ty::Bf16)
    });
    [gelu, residual, outputs].map(|epilogue| epilogue.expect("an epilogue"))
}

/// The bits of all outputs of a product of M, N and 24 by a plan.
fn run(
    (number_of, epilogue): (usize, &Epilogue),
    [m, n]: [i64; 2],
    seed: u64,
    plan: impl Fn(&mut GemmPlan),
) -> Vec<u32> {
    let k = 24;
    let order = colex_sim::Schedule::from_seed(seed);
    let device = Device::simulator_with(Arch::Sm90a, SimOptions::default().schedule(order));
    let upload = |count: i64| {
        let numbers: Vec<bf16> = (0..count).map(number).collect();
        device.upload(&numbers).expect("memory")
    };
    let apart = n + 8;
    let (a, b, bias, old) = (upload(m * k), upload(n * k), upload(n), upload(m * apart));
    let all = (m * n) as usize;
    let mut c = device.poisoned::<bf16>(all).expect("C");
    let mut before = device.poisoned::<f32>(all).expect("an output");
    let mut sums = device.poisoned::<f32>(m as usize).expect("sums");
    let layout = |strides: (i64, i64)| Layout::new((m, n), strides).expect("a layout");
    {
        let (of_a, of_b) = (a.view((m, k)).expect("A"), b.view((n, k)).expect("B"));
        let of_c = c.view_mut((m, n)).expect("C");
        let bias = View::new(&bias, layout((0, 1))).expect("it fits");
        let residual = View::new(&old, layout((apart, 1))).expect("it fits");
        let before = ViewMut::new(&mut before, layout((n, 1))).expect("it fits");
        let sums = sums.view_mut(m).expect("it fits");
        let gemm = Gemm::new(&of_a, &of_b, &of_c)
            .epilogue(epilogue)
            .tensor("bias", &bias);
        let gemm = match number_of {
            1 => gemm.tensor("residual", &residual),
            2 => gemm.output("before", &before).output("sums", &sums),
            _ => gemm,
        };
        let call = gemm.prepare_with(|operands, _| {
            let mut of = GemmPlan::new(GemmMethod::Hopper, operands);
            plan(&mut of);
            Ok(of)
        });
        let call = call.unwrap_or_else(|why| panic!("{m}x{n}: {why}"));
        call.run(&device)
            .unwrap_or_else(|why| panic!("{call}: {why}"));
    }
    let c = c.download().expect("C");
    let mut bits: Vec<u32> = c.iter().map(|x| x.to_bits().into()).collect();
    if number_of == 2 {
        for memory in [before, sums] {
            let all = memory.download().expect("an output");
            bits.extend(all.iter().map(|x| x.to_bits()));
        }
    }
    bits
}

/// Every width of whole parts of four widest tiles, with each epilogue, whole and in two parts, where a block has one tile and where it has
/// several, with exchanged operands, by both schedules, in drawn orders of the asynchronous work.
#[test]
fn law_widths_with_epilogues_store_what_other_tiles_store() {
    type Case = ([i64; 3], i64, Schedule, [i64; 3], &'static [i64]);
    let cases: [Case; 4] = [
        (
            [128, 256, 64],
            2,
            Cooperative,
            [2, 1, 1],
            &[160, 192, 224, 256],
        ),
        ([192, 192, 64], 3, Cooperative, [1, 2, 1], &[128, 160, 192]),
        ([64, 96, 64], 1, Cooperative, [1, 1, 1], &[64, 96]),
        ([128, 192, 64], 1, Pingpong, [1, 1, 1], &[128, 160, 192]),
    ];
    let epilogues = epilogues();
    let mut count = 0;
    for (number, (tile, warps, schedule, cluster, widths)) in cases.into_iter().enumerate() {
        for (i, &columns) in widths.iter().enumerate() {
            for (of, epilogue) in epilogues.iter().enumerate() {
                // Blocks of the device have several tiles in some of the cases.
                let is_long = (i + of) % 3 == 0;
                if is_long && !takes(4, number + i) {
                    continue;
                }
                let swap = (i + of) % 2 == 1;
                let rows = if is_long {
                    67 * tile[0] - 8
                } else {
                    tile[0] + 40
                };
                let others = 2 * columns - 24;
                let [m, n] = if swap { [others, rows] } else { [rows, others] };
                let is_divided = schedule == Cooperative && !is_long && of != 1;
                let seed = count as u64;
                let found = run((of, epilogue), [m, n], seed, |plan| {
                    *plan = GemmPlan {
                        tile,
                        columns,
                        warps: [warps, 1],
                        schedule,
                        cluster,
                        swap,
                        stages: 4,
                        ..*plan
                    };
                    if is_divided {
                        (plan.split, plan.division) = (2, Division::SplitKFixup);
                    }
                });
                let wanted = run((of, epilogue), [m, n], seed, |plan| {
                    *plan = GemmPlan {
                        tile: [64, 64, 16],
                        warps: [1, 1],
                        cluster: [1, 1, 1],
                        stages: 3,
                        ..*plan
                    };
                });
                assert!(
                    found == wanted,
                    "{tile:?} of {columns} columns, {schedule:?}, epilogue {of}, swap {swap}, {m}x{n}"
                );
                count += 1;
            }
        }
    }
    println!("law widths.epilogues: {count} products");
}

/// Another width than one of whole parts is refused.
#[test]
fn a_width_of_no_whole_parts_is_refused_with_an_epilogue() {
    let [gelu, ..] = epilogues();
    let device = Device::simulator(Arch::Sm90a);
    let number = |count: usize| device.zeros::<bf16>(count).expect("memory");
    let (a, b, bias) = (number(256 * 64), number(256 * 64), number(256));
    let mut c = number(256 * 256);
    let (of_a, of_b) = (a.view((256, 64)).expect("A"), b.view((256, 64)).expect("B"));
    let bias = View::new(&bias, Layout::new((256, 256), (0, 1)).expect("a layout"));
    let of_c = c.view_mut((256, 256)).expect("C");
    let call = Gemm::new(&of_a, &of_b, &of_c)
        .epilogue(&gelu)
        .tensor("bias", &bias.expect("it fits"));
    let why = call.prepare_with(|operands, _| {
        Ok(GemmPlan {
            tile: [128, 128, 64],
            columns: 112,
            warps: [2, 1],
            stages: 4,
            ..GemmPlan::new(GemmMethod::Hopper, operands)
        })
    });
    assert_eq!(
        why.map(drop).expect_err("it is refused").to_string(),
        "the plan's number of columns of a tile with an epilogue of the caller is 112: the Hopper kernel takes 32 to 128, in multiples of 32"
    );
}
