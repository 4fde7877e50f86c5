//! Stores of C by Hopper's kernel: in both orders, of 16 and of 32 bits, through shared memory by TMA.

use colex_atom::{Arch, Ty};
use colex_gpu::Device;
use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan, Operands};
use colex_gpu::kernels::{Compute, GemmElement, GemmProblem, Major, Operand, reference};
use colex_sched::pipeline::Schedule::{Cooperative, Pingpong};
use colex_sim::{Schedule, SimOptions};
use half::{bf16, f16};

/// Tiles, consumers and clusters: parts of 32, 64 and 128 bytes along N, an odd number of parts, several instructions along M, parts
/// of K over a cluster, and tiles in turn.
const SHAPES: [([i64; 3], i64, [i64; 3]); 8] = [
    ([128, 128, 64], 2, [2, 1, 1]),
    ([64, 96, 64], 1, [1, 1, 1]),
    ([128, 64, 64], 1, [1, 2, 1]),
    ([64, 48, 64], 1, [1, 1, 1]),
    ([64, 16, 64], 1, [1, 1, 1]),
    ([192, 32, 64], 3, [1, 1, 1]),
    ([64, 64, 64], 1, [1, 1, 2]),
    ([64, 64, 64], 0, [1, 1, 1]),
];

/// The plan of a shape for these operands; 0 consumers are two by pingpong.
fn plan(operands: Operands, (tile, consumers, cluster): ([i64; 3], i64, [i64; 3])) -> GemmPlan {
    let [m, n, k] = tile;
    let bits = i64::from(operands.ab.bits());
    GemmPlan {
        tile: [m, n, 16 * k / bits],
        warps: [consumers.max(1), 1],
        schedule: match consumers {
            0 => Pingpong,
            _ => Cooperative,
        },
        stages: 3,
        cluster,
        ..GemmPlan::new(GemmMethod::Hopper, operands)
    }
}

/// Runs a product of small integers by a plan, compares each bit with the host's, and returns the passes of shared memory that bank
/// conflicts cost.
pub(super) fn run<T: GemmElement, C: GemmElement>(
    device: &Device,
    problem: GemmProblem,
    shape: ([i64; 3], i64, [i64; 3]),
) -> u64 {
    let fill = |name, by: usize| -> Vec<f64> {
        let length = problem
            .layout(name)
            .expect("extents")
            .cosize()
            .expect("small");
        let value = |i| ((i * by + i / 7) % 13) as f64 - 6.0;
        (0..length as usize).map(value).collect()
    };
    let of = |values: Vec<f64>| -> Vec<T> { values.into_iter().map(T::from_f64).collect() };
    let (a, b) = (of(fill(Operand::A, 5)), of(fill(Operand::B, 3)));
    let old: Vec<C> = fill(Operand::C, 2).into_iter().map(C::from_f64).collect();
    let (da, db) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let dc = match problem.beta {
        0.0 => device.poisoned::<C>(old.len()).unwrap(),
        _ => device.upload(&old).unwrap(),
    };
    let mut written = dc.clone();
    let gemm = problem.on(&da, &db, &mut written).unwrap();
    let call = gemm.prepare_with(|operands, _| Ok(plan(operands, shape)));
    let call = call.unwrap_or_else(|e| panic!("{problem}: {e}"));
    let text = call.built().expect("a kernel").kernel.ptx().unwrap();
    assert!(
        text.contains("cp.async.bulk.tensor.2d.global") && !text.contains("st.global"),
        "{call} stores by TMA alone"
    );
    let reports = call
        .profile(device)
        .unwrap_or_else(|e| panic!("{call}: {e}"));
    let found = reference::matrix(&problem, Operand::C, &dc.download().unwrap());
    let expected = reference::gemm(&problem, &a, &b, &old);
    let expected = expected.mapv(|x| C::from_f64(x).to_f64());
    assert!(found == expected, "{problem} by {call}");
    reports.iter().map(|report| report.bank_conflicts()).sum()
}

/// C of 16 and of 32 bits, in both orders and read or not, goes through shared memory by TMA with the host's bits, in several
/// schedules; the buffers of the parts are free of bank conflicts but where a thread has pairs of 32 bits along N.
#[test]
fn law_c_is_stored_by_tma_in_both_orders() {
    let mut cases = 0;
    for (i, shape) in SHAPES.into_iter().enumerate() {
        for (j, major) in [Major::First, Major::Second].into_iter().enumerate() {
            let seed = (2 * i + j) as u64;
            let options = SimOptions::default().schedule(Schedule::from_seed(seed));
            let device = Device::simulator_with(Arch::Sm90a, options);
            let [m, n, _] = shape.0;
            // A tile and a part of one, several turns of the ring.
            let problem = GemmProblem::new(m + 40, n + 24, 280).major(Operand::C, major);
            let problem = problem.alpha(2.0).beta([0.0, -1.0][(i + j) % 2]);
            let bytes = GemmProblem {
                n: n + 32,
                k: 528,
                ..problem
            };
            let conflicts = [
                run::<f16, f32>(&device, problem, shape),
                run::<f32, f32>(&device, problem.compute(Compute::Tf32), shape),
                // Above 24 columns, an instruction on bytes has whole multiples of 16.
                run::<i8, i32>(&device, bytes, shape),
                run::<bf16, bf16>(&device, problem, shape),
            ];
            // The sums of a cluster are written and read by threads.
            let is_free = major == Major::First && shape.2[2] == 1;
            if is_free {
                assert_eq!(conflicts, [0; 4], "{shape:?}");
            }
            cases += conflicts.len();
        }
    }
    println!("law gemm.stores: {cases} cases");
}

/// Rows of C that begin between two multiples of 16 bytes have no tensor map: each thread stores its own elements.
#[test]
fn c_without_a_tensor_map_is_stored_by_threads() {
    for (c, vector) in [(Ty::F32, 2), (Ty::F32, 1), (Ty::Bf16, 4)] {
        for major in [Major::First, Major::Second] {
            let operands = Operands {
                ab: Ty::Bf16,
                c,
                majors: [Major::Second, Major::Second, major],
                vectors: [8, 8, vector],
                beta: false,
                gated: false,
            };
            let built = plan(operands, SHAPES[0]).build(Arch::Sm90a).unwrap();
            let text = built.kernel.ptx().unwrap();
            assert!(text.contains("st.global") && !text.contains("tensor.2d.global"));
        }
    }
}
