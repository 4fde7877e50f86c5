//! Products with few rows by the kernel whose threads share K, on the simulator.

use colex_atom::{Arch, Ty};
use colex_gpu::Device;
use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan, Operands};
use colex_gpu::kernels::{GemmElement, GemmProblem, Major, Operand};
use colex_proof::kernels::gemm::{GemmCase, gemm_cases};
use colex_proof::soak::{share_of, takes};
use half::{bf16, f16};

/// Every case of a list on the simulator of an architecture.
fn all<T: GemmElement, C: GemmElement>(arch: Arch, cases: Vec<GemmCase>) {
    let device = Device::simulator(arch);
    // Of each type others.
    let (all, first) = (cases.len(), share_of(T::TY));
    let cases = cases.into_iter().enumerate();
    let cases: Vec<GemmCase> = cases
        .filter(|(i, _)| takes(5, i + first))
        .map(|(_, case)| case)
        .collect();
    for case in &cases {
        if let Err(failure) = case.run::<T, C>(&device) {
            panic!("{} to {}: {case}: {failure}", T::NAME, C::NAME);
        }
    }
    println!(
        "law gemv.{}_{}: {} cases of {all}",
        T::NAME,
        C::NAME,
        cases.len()
    );
}

/// One row and several, in all orders; elements one by one and in vectors.
#[test]
fn gemv_multiplies_every_size() {
    let cases = |whole| gemm_cases(Some(GemmMethod::Gemv), whole);
    all::<f16, f16>(Arch::Sm70, [cases(1), cases(8)].concat());
    all::<bf16, f32>(Arch::Sm90a, cases(1));
    all::<f32, f32>(Arch::Sm80, cases(4));
}

/// The plans of one row: threads along N and K, vectors, blocks of a cluster along K, in both orders of the right factor, and
/// swapped, for extents about those of a tile.
#[test]
fn law_gemv_shares_k_in_every_way() {
    let device = Device::simulator(Arch::Sm90a);
    let (mut cases, mut number) = (0, 0);
    for (along_n, vector, cluster) in [
        (1, 1, 1),
        (1, 2, 3),
        (1, 8, 8),
        (2, 4, 1),
        (8, 1, 1),
        (8, 8, 1),
        (32, 2, 1),
        (64, 1, 1),
        (256, 4, 1),
    ] {
        for (swap, major, rows) in [
            (false, Major::Second, 1),
            (false, Major::First, 2),
            (true, Major::Second, 3),
            (true, Major::First, 1),
        ] {
            let mut operands = Operands {
                ab: Ty::Bf16,
                c: Ty::F32,
                majors: [Major::Second; 3],
                vectors: [vector, vector, 1],
                beta: rows == 2,
                gated: false,
            };
            operands.majors[if swap { 0 } else { 1 }] = major;
            let mut plan = GemmPlan {
                warps: [1, along_n],
                cluster: [1, 1, cluster],
                swap,
                ..GemmPlan::new(GemmMethod::Gemv, operands)
            };
            let [_, n, k] = plan.steps();
            plan.tile = [rows, n, k];
            for [more_n, more_k] in [[0, 0], [vector, -vector], [-vector, 2 * k + vector]] {
                number += 1;
                if !takes(4, number) {
                    continue;
                }
                let (n, k) = ((n + more_n).max(vector), (k * cluster + more_k).max(vector));
                let [m, n] = if swap { [n, rows] } else { [rows, n] };
                let mut problem = GemmProblem::new(m, n, k).beta(f64::from(operands.beta));
                problem.majors = operands.majors;
                for name in [Operand::A, Operand::B] {
                    let pitch = (problem.leading_of(name) + vector - 1) / vector * vector;
                    problem = problem.leading(name, pitch);
                }
                let case = GemmCase::new(problem);
                if let Err(failure) = case.run_by::<bf16, f32>(&device, &plan) {
                    panic!("{case}, {plan}: {failure}");
                }
                cases += 1;
            }
        }
    }
    println!("law gemm.gemv_shares_k: {cases} cases");
}

/// What the kernel does not take is refused, and named.
#[test]
fn the_sentences_of_gemv() {
    let operands = Operands {
        ab: Ty::Bf16,
        c: Ty::Bf16,
        majors: [Major::Second; 3],
        vectors: [8, 8, 8],
        beta: false,
        gated: false,
    };
    let usual = GemmPlan::new(GemmMethod::Gemv, operands);
    assert_eq!(
        usual.to_string(),
        "GEMV bf16 to bf16, tile 1x32x256, 8 threads along N, 1 blocks along K, grouped 8 along m"
    );
    let on = Arch::Sm90a;
    let refused = [
        (
            on,
            GemmPlan {
                warps: [1, 3],
                tile: [1, 12, 1360],
                ..usual
            },
        ),
        (
            on,
            GemmPlan {
                tile: [16, 32, 256],
                ..usual
            },
        ),
        (
            on,
            GemmPlan {
                tile: [1, 64, 512],
                ..usual
            },
        ),
        (
            on,
            GemmPlan {
                tile: [1, 30, 256],
                ..usual
            },
        ),
        (on, GemmPlan { stages: 2, ..usual }),
        (
            on,
            GemmPlan {
                cluster: [1, 1, 2],
                ..usual
            },
        ),
        (
            Arch::Sm80,
            GemmPlan {
                cluster: [1, 1, 2],
                ..usual
            },
        ),
    ];
    let sentences = [
        "the plan asks for 1 threads of 256 beyond whole groups along N: the GEMV kernel takes at most 0, 1 fewer",
        "the plan asks for 512 sums of a thread: the GEMV kernel takes at most 64, 448 fewer",
        "the plan asks for 144 elements of A and B that a thread loads at once: the GEMV kernel takes at most 64, 80 fewer",
        "the plan's tile along N is 30: the GEMV kernel takes 8 to 1024, in multiples of 8",
        "the plan's number of stages is 2: the GEMV kernel takes 1 only",
        "the plan asks for 8 threads along N in a cluster that divides K: the GEMV kernel takes at most 1, 7 fewer",
        "the plan's number of a cluster's blocks along K is 2: the GEMV kernel takes 1 only",
    ];
    for ((arch, plan), sentence) in refused.into_iter().zip(sentences) {
        assert_eq!(plan.check(arch).unwrap_err().to_string(), sentence);
    }
}
