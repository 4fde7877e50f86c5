//! Two right factors by a pingpong schedule, which the default plan of SwiGLU on an H200 has.

use std::collections::HashMap;

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::{Epilogue, GemmMethod, GemmPlan};
use colex_gpu::{Device, Gemm};
use colex_proof::soak::takes;
use colex_sched::pipeline::Schedule::Pingpong;
use colex_sim::SimOptions;
use half::bf16;

/// The rows of A and of both right factors repeat after as many rows, which divide no tile: a tile at another place has other bits.
const PERIODS: [i64; 2] = [11, 13];

/// SwiGLU by tiles of 128 by 96 whose consumers take turns, where blocks have more than one tile, alone and in clusters of two, has the
/// bits of the host.
#[test]
fn law_two_factors_by_pingpong_have_the_bits_of_the_host() {
    let swiglu = Epilogue::new(Ty::F32, |e| {
        (e.accumulator().silu() * e.second_accumulator()).to(Ty::Bf16)
    });
    let swiglu = swiglu.expect("an epilogue");
    let number = |i: i64| bf16::from_f64(((i * 5 + i / 7) % 13) as f64 / 4.0 - 1.5);
    // Two tiles more than a device has multiprocessors, and 2 clusters of two more. The last case has the steps of the default plan.
    let (m, n, k) = (67 * 128 - 8, 2 * 96 - 8, 40);
    let [of_rows, of_columns] = PERIODS;
    let in_a = |i: i64, l: i64| number(i % of_rows * k + l);
    let in_b = |j: i64, l: i64| number(3 * (j % of_columns * k + l) + 1);
    let in_b2 = |j: i64, l: i64| number(j % of_columns * k + l + 9);
    let matrix = |rows: i64, of: &dyn Fn(i64, i64) -> bf16| -> Vec<bf16> {
        let rows = (0..rows).flat_map(|i| (0..k).map(move |l| (i, l)));
        rows.map(|(i, l)| of(i, l)).collect()
    };
    let (a, b, b2) = (matrix(m, &in_a), matrix(n, &in_b), matrix(n, &in_b2));
    // Multiples of 1/16, whose sums are exact in every order.
    let sum = |i: i64, j: i64, of: &dyn Fn(i64, i64) -> bf16| -> u64 {
        let term = |l: i64| in_a(i, l).to_f32() * of(j, l).to_f32();
        (0..k).map(term).sum::<f32>().to_bits().into()
    };
    let mut wanted = HashMap::new();
    for (i, j) in (0..of_rows).flat_map(|i| (0..of_columns).map(move |j| (i, j))) {
        let found = swiglu.evaluate(&[sum(i, j, &in_b), sum(i, j, &in_b2)]);
        wanted.insert((i, j), found.expect("a number")[0]);
    }
    let mut elements = 0;
    let cases = [([1, 1, 1], 16), ([2, 1, 1], 16), ([2, 1, 1], 64)];
    for (case, (cluster, step)) in cases.into_iter().enumerate() {
        if step == 64 && !takes(3, case + 2) {
            continue;
        }
        let order = colex_sim::Schedule::from_seed(case as u64);
        let device = Device::simulator_with(Arch::Sm90a, SimOptions::default().schedule(order));
        let upload = |all: &[bf16]| device.upload(all).expect("memory");
        let (a, b, b2) = (upload(&a), upload(&b), upload(&b2));
        let mut c = device.poisoned::<bf16>((m * n) as usize).expect("C");
        let call = Gemm::new(
            &a.view((m, k)).expect("A"),
            &b.view((n, k)).expect("B"),
            &c.view_mut((m, n)).expect("C"),
        )
        .b2(&b2.view((n, k)).expect("the second B"))
        .epilogue(&swiglu)
        .prepare_with(|operands, _| {
            Ok(GemmPlan {
                tile: [128, 96, step],
                warps: [1, 1],
                schedule: Pingpong,
                cluster,
                stages: 4,
                ..GemmPlan::new(GemmMethod::Hopper, operands)
            })
        });
        let call = call.unwrap_or_else(|why| panic!("cluster {cluster:?}: {why}"));
        let plan = call.plan().expect("a plan");
        assert_eq!((plan.schedule, plan.operands.gated), (Pingpong, true));
        call.run(&device)
            .unwrap_or_else(|why| panic!("{call}: {why}"));
        drop(call);
        let found = c.download().expect("C");
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            assert_eq!(
                u64::from(found[(i * n + j) as usize].to_bits()),
                wanted[&(i % of_rows, j % of_columns)],
                "({i},{j}) by clusters of {cluster:?}, steps of {step}"
            );
            elements += 1;
        }
    }
    println!("law epilogue.two_factors_by_pingpong: {elements} elements");
}
