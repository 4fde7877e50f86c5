//! Products in tf32 and of bytes whose A or B is contiguous along M or N: Hopper's kernel transposes their tiles in shared memory.

use colex_atom::{Arch, Ty};
use colex_gpu::Device;
use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan, Operands};
use colex_gpu::kernels::{Compute, GemmProblem, Major, Operand};
use colex_proof::kernels::gemm::{GemmCase, orders};
use colex_proof::soak::takes;
use colex_sched::pipeline::Schedule::{Cooperative, Pingpong};
use colex_sim::{Schedule, SimOptions};

use super::stores;

type Shape = ([i64; 3], i64, [i64; 3], i64, bool);

/// A tile, consumers (0 are two by pingpong), a cluster, parts of K, and whether A and B are swapped: blocks of a warp of 32, 16 and
/// 8 rows and columns, more and fewer of them than warps, tiles that blocks share and parts of K.
const SHAPES: [Shape; 10] = [
    ([128, 128, 32], 2, [2, 1, 1], 1, false),
    ([64, 96, 32], 1, [1, 1, 1], 1, false),
    ([64, 16, 64], 1, [1, 1, 1], 3, true),
    ([64, 24, 8], 1, [1, 1, 1], 1, false),
    ([64, 8, 8], 1, [1, 1, 1], 1, true),
    ([128, 64, 32], 2, [2, 2, 1], 1, false),
    ([192, 40, 16], 3, [1, 1, 1], 2, false),
    ([64, 64, 32], 0, [1, 1, 1], 1, false),
    ([64, 64, 64], 1, [1, 1, 2], 1, false),
    ([64, 32, 32], 1, [1, 4, 1], 1, true),
];

/// Every order of A, B and C, at extents that tiles and vectors do not divide, with rings that turn more than twice, has the host's
/// bits in every schedule.
fn multiplies_in_every_order(ab: Ty) -> usize {
    let mut cases = 0;
    let vector = 128 / i64::from(ab.bits());
    for (i, (tile, consumers, cluster, split, swap)) in SHAPES.into_iter().enumerate() {
        for (j, majors) in (orders().into_iter().enumerate()).filter(|(j, _)| takes(4, i + j)) {
            let [m, n, k] = tile;
            // An instruction on bytes has whole multiples of 16 columns.
            let (n, k) = match ab {
                Ty::S8 => ((n + 15) / 16 * 16, 4 * k),
                _ => (n, k),
            };
            let tile = [m, n, k];
            let [m, n] = if swap { [n, m] } else { [m, n] };
            let steps = 7 * cluster[2] * split;
            let problem =
                GemmProblem::new(m + 7, n + 3, k * steps - 5).beta([0.0, -2.0][(i + j) % 2]);
            let problem = Operand::ALL.into_iter().fold(problem, |problem, operand| {
                let problem = problem.major(operand, majors[operand as usize]);
                let [(rows, _), (columns, _)] = problem.extents(operand);
                let along = match problem.majors[operand as usize] {
                    Major::First => rows,
                    Major::Second => columns,
                };
                problem.leading(operand, (along + vector - 1) / vector * vector)
            });
            let operands = Operands {
                ab,
                c: if ab == Ty::S8 { Ty::S32 } else { Ty::F32 },
                majors,
                vectors: [vector, vector, 1],
                beta: problem.beta != 0.0,
                gated: false,
            };
            let plan = GemmPlan {
                tile,
                warps: [consumers.max(1), 1],
                schedule: match consumers {
                    0 => Pingpong,
                    _ => Cooperative,
                },
                stages: 3,
                cluster,
                split,
                swap,
                ..GemmPlan::new(GemmMethod::Hopper, operands)
            };
            let seed = (8 * i + j) as u64;
            let options = SimOptions::default().schedule(Schedule::from_seed(seed));
            let device = Device::simulator_with(Arch::Sm90a, options);
            let case = GemmCase::new(problem);
            let done = match ab {
                Ty::S8 => case.run_by::<i8, i32>(&device, &plan),
                _ => case.tf32().run_by::<f32, f32>(&device, &plan),
            };
            done.unwrap_or_else(|why| panic!("{plan}, {majors:?}, {problem}, seed {seed}: {why}"));
            cases += 1;
        }
    }
    cases
}

#[test]
fn law_tf32_of_every_order_is_transposed_in_shared_memory() {
    let cases = multiplies_in_every_order(Ty::Tf32);
    println!("law gemm.transposed_tf32: {cases} cases");
}

#[test]
fn law_bytes_of_every_order_are_transposed_in_shared_memory() {
    let cases = multiplies_in_every_order(Ty::S8);
    println!("law gemm.transposed_bytes: {cases} cases");
}

/// The reads and writes that transpose have no bank conflicts where tiles have whole lines of 128 bytes along M and N and, of bytes,
/// along K.
#[test]
fn law_tiles_are_transposed_without_bank_conflicts() {
    let mut cases = 0;
    for shape in [
        ([128, 128, 64], 2, [2, 1, 1]),
        ([64, 96, 64], 1, [1, 1, 1]),
        ([64, 64, 128], 1, [1, 1, 1]),
        ([192, 32, 64], 3, [1, 1, 1]),
        ([64, 64, 16], 1, [1, 1, 1]),
    ] {
        for majors in orders().into_iter().filter(|of| of[2] == Major::First) {
            let [m, n, _] = shape.0;
            let problem = GemmProblem::new(m + 40, n + 24, 280).compute(Compute::Tf32);
            let problem = Operand::ALL.into_iter().fold(problem, |problem, operand| {
                problem.major(operand, majors[operand as usize])
            });
            let device = Device::simulator(Arch::Sm90a);
            let conflicts = stores::run::<f32, f32>(&device, problem, shape);
            assert_eq!(conflicts, 0, "{shape:?}, {majors:?}");
            cases += 1;
            if m % 128 == 0 && n % 128 == 0 {
                let problem = GemmProblem {
                    m: m + 32,
                    n: n + 48,
                    k: 528,
                    compute: None,
                    ..problem
                };
                let conflicts = stores::run::<i8, i32>(&device, problem, shape);
                assert_eq!(conflicts, 0, "{shape:?}, {majors:?} of bytes");
                cases += 1;
            }
        }
    }
    println!("law gemm.transposed_banks: {cases} cases");
}
