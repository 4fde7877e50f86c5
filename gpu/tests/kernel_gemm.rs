//! Matrix products against the host's, on the simulator.

use colex_atom::{Arch, Ty};
use colex_gpu::Device;
use colex_gpu::kernels::gemm::{GemmCall, GemmMethod, GemmPlan, Operands};
use colex_gpu::kernels::{GemmElement, GemmProblem, Major, MatrixName, reference};

/// Every plan's kernel is one that the verifier passes and the printer prints.
#[test]
fn every_plan_prints() {
    let orders = [Major::First, Major::Second];
    let mut cases = 0;
    for (method, arch) in [
        (GemmMethod::Ampere, Arch::Sm80),
        (GemmMethod::Hopper, Arch::Sm90a),
    ] {
        for a in orders {
            for b in orders {
                for c in orders {
                    for (vectors, beta, out) in [
                        ([8, 8, 8], false, Ty::Bf16),
                        ([8, 8, 1], true, Ty::F32),
                        ([2, 1, 1], true, Ty::Bf16),
                    ] {
                        let operands = Operands {
                            ab: Ty::Bf16,
                            c: out,
                            majors: [a, b, c],
                            vectors,
                            beta,
                        };
                        if method == GemmMethod::Hopper && vectors[0] < 8 {
                            continue;
                        }
                        let plan = GemmPlan::new(method, operands);
                        let built = plan.build(arch).unwrap_or_else(|e| panic!("{plan}: {e}"));
                        if let Err(problems) = built.kernel.verify() {
                            panic!("{plan} {operands:?}: {problems}");
                        }
                        let text = built.kernel.ptx().unwrap_or_else(|e| panic!("{plan}: {e}"));
                        if let Ok(folder) = std::env::var("COLEX_PTX") {
                            std::fs::write(
                                format!(
                                    "{folder}/{method}_{a:?}{b:?}{c:?}_{}_{beta}.ptx",
                                    vectors[0]
                                ),
                                text,
                            )
                            .expect("it is written");
                        }
                        cases += 1;
                    }
                }
            }
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
    let [a, b] = [MatrixName::A, MatrixName::B].map(|name| {
        fill(name)
            .into_iter()
            .map(half::bf16::from_f64)
            .collect::<Vec<_>>()
    });
    let old: Vec<C> = fill(MatrixName::C).into_iter().map(C::from_f64).collect();
    let (da, db) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let dc = match problem.beta {
        0.0 => device.poisoned::<C>(old.len()).unwrap(),
        _ => device.upload(&old).unwrap(),
    };
    let call = GemmCall::new(&problem, &da, &db, &dc, Some(method))
        .unwrap_or_else(|e| panic!("{problem}: {e}"));
    assert_eq!(call.plan().method, method);
    call.run(&device)
        .unwrap_or_else(|e| panic!("{problem} by {}: {e}", call.plan()));
    let found = reference::matrix(&problem, MatrixName::C, &dc.download().unwrap());
    let expected = reference::gemm(&problem, &a, &b, &old);
    let error = reference::relative_error(&found, &expected);
    assert!(error < 4e-3, "{problem} by {}: {error}", call.plan());
}

#[test]
fn ampere_is_right_at_odd_sizes_and_in_every_order() {
    let mut cases = 0;
    for (m, n, k) in [(128, 128, 64), (130, 70, 40), (17, 150, 100)] {
        for majors in 0..8 {
            let major = |bit: i32| {
                if majors >> bit & 1 == 1 {
                    Major::First
                } else {
                    Major::Second
                }
            };
            let problem = GemmProblem::new(m, n, k)
                .major(MatrixName::A, major(0))
                .major(MatrixName::B, major(1))
                .major(MatrixName::C, major(2));
            check::<half::bf16>(Arch::Sm80, GemmMethod::Ampere, problem);
            check::<f32>(
                Arch::Sm80,
                GemmMethod::Ampere,
                problem.alpha(0.5).beta(-2.0),
            );
            cases += 2;
        }
    }
    println!("law gemm.ampere: {cases} cases");
}

#[test]
fn hopper_is_right_at_odd_sizes_and_in_every_order() {
    let mut cases = 0;
    for (m, n, k) in [(256, 256, 128), (136, 264, 72)] {
        for majors in 0..8 {
            let major = |bit: i32| {
                if majors >> bit & 1 == 1 {
                    Major::First
                } else {
                    Major::Second
                }
            };
            let problem = GemmProblem::new(m, n, k)
                .major(MatrixName::A, major(0))
                .major(MatrixName::B, major(1))
                .major(MatrixName::C, major(2));
            check::<half::bf16>(Arch::Sm90a, GemmMethod::Hopper, problem);
            check::<f32>(
                Arch::Sm90a,
                GemmMethod::Hopper,
                problem.alpha(0.5).beta(-2.0),
            );
            cases += 2;
        }
    }
    println!("law gemm.hopper: {cases} cases");
}
