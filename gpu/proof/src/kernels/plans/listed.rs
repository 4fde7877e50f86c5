//! The kernels of the lists of plans, in every order of the matrices: for the simulator and the assembler.
//!
//! `COLEX_LISTED` says how many: a number of each type in each order, or `all`. A test runs them on the simulator, and
//! `cargo xtask verify --only "ptxas, kernels"` puts them before the assembler.

use core::fmt;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use colex_atom::{Arch, Ty};
use colex_device::Device;
use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan, Operands};
use colex_gpu::kernels::{Compute, GemmElement, GemmProblem, Major, Operand};
use colex_sim::{Schedule, SimOptions};
use half::{bf16, f16};

use super::super::gemm::{GemmCase, orders};
use crate::sample::Sample;
use crate::sweep::Random;

/// The types of A and B, and of C, that the lists have plans for.
const TYPES: [[Ty; 2]; 6] = [
    [Ty::Bf16, Ty::Bf16],
    [Ty::Bf16, Ty::F32],
    [Ty::F16, Ty::F16],
    [Ty::F16, Ty::F32],
    [Ty::Tf32, Ty::F32],
    [Ty::S8, Ty::S32],
];

/// Bytes of an access to A and B, and to C: with tensor maps, with one of A and B, and by threads.
const ACCESSES: [[i64; 3]; 7] = [
    [16, 16, 16],
    [16, 16, 4],
    [16, 2, 16],
    [2, 16, 2],
    [8, 8, 8],
    [4, 4, 4],
    [2, 2, 2],
];

/// A plan that a call on `sm_90a` may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListedPlan(pub GemmPlan);

impl fmt::Display for ListedPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Operands {
            majors,
            vectors,
            beta,
            ..
        } = self.0.operands;
        write!(f, "{}, {majors:?}, vectors {vectors:?}", self.0)?;
        f.write_str(if beta { ", C is read" } else { "" })
    }
}

impl ListedPlan {
    /// Returns the plans that `COLEX_LISTED` wishes, or one for every `share` types and orders; by a seed, where they are drawn.
    ///
    /// # Errors
    ///
    /// Returns an error if the variable is neither a number nor `all`.
    pub fn wished(share: usize, seed: u64) -> Result<Vec<ListedPlan>, String> {
        match std::env::var("COLEX_LISTED") {
            Err(_) => Ok(ListedPlan::some(1, seed)
                .into_iter()
                .step_by(share)
                .collect()),
            Ok(wish) if wish == "all" => Ok(ListedPlan::every()),
            Ok(wish) => match wish.parse() {
                Ok(each) => Ok(ListedPlan::some(each, seed)),
                Err(_) => Err(format!("COLEX_LISTED is {wish}: a number, or `all`")),
            },
        }
    }

    /// Returns every plan that a call on `sm_90a` may choose, with an epilogue and without: for all types, orders and alignments, with C
    /// read and not.
    pub fn every() -> Vec<ListedPlan> {
        let mut all = Vec::new();
        for types in TYPES {
            for majors in orders() {
                for accesses in ACCESSES {
                    for beta in [false, true] {
                        let operands = operands(types, majors, accesses, beta);
                        all.extend(of_all_lists(operands).into_iter().map(ListedPlan));
                    }
                }
            }
        }
        let mut known = HashSet::new();
        all.retain(|plan| known.insert(*plan));
        all
    }

    /// Returns some of the plans: `each` of every type in every order, of the rows of the lists in turn and of other facts by chance.
    pub fn some(each: usize, seed: u64) -> Vec<ListedPlan> {
        let mut r = Random::of(seed, "listed");
        let mut all = Vec::new();
        for ab in [Ty::Bf16, Ty::F16, Ty::Tf32, Ty::S8] {
            let of: Vec<[Ty; 2]> = TYPES.into_iter().filter(|types| types[0] == ab).collect();
            for majors in orders() {
                for _ in 0..each {
                    let (types, accesses, beta) = (r.one(&of), r.one(&ACCESSES), r.one_in(2));
                    let operands = operands(types, majors, accesses, beta);
                    let plans = of_all_lists(operands);
                    all.push(ListedPlan(plans[(seed as usize + all.len()) % plans.len()]));
                }
            }
        }
        let mut known = HashSet::new();
        all.retain(|plan| known.insert(*plan));
        all
    }

    /// Runs a product of a tile and a part of one, with two turns of the ring of each part of K, on the simulator in a schedule of a
    /// seed, and compares every bit.
    ///
    /// # Errors
    ///
    /// Returns what is wrong, in words.
    pub fn run(&self, seed: u64) -> Result<(), String> {
        let plan = &self.0;
        let Operands {
            ab,
            c,
            majors,
            vectors,
            beta,
            ..
        } = plan.operands;
        let [m, n, k] = plan.tile;
        let [m, n] = if plan.swap { [n, m] } else { [m, n] };
        let beyond = vectors.into_iter().max().unwrap_or(1);
        let up = |n: i64| (n + 15) / 16 * 16;
        let along_k = 2 * plan.stages * plan.cluster[2] * plan.split;
        let problem = GemmProblem::new(up(m / 2) + beyond, n + beyond, k * along_k + beyond)
            .major(Operand::A, majors[0])
            .major(Operand::B, majors[1])
            .major(Operand::C, majors[2])
            .beta(if beta { -2.0 } else { 0.0 });
        let problem = Operand::ALL.into_iter().fold(problem, |problem, operand| {
            let [(rows, _), (columns, _)] = problem.extents(operand);
            let along = match problem.majors[operand as usize] {
                Major::First => rows,
                Major::Second => columns,
            };
            problem.leading(operand, up(along))
        });
        let options = SimOptions::default().schedule(Schedule::from_seed(seed));
        let device = Device::simulator_with(Arch::Sm90a, options);
        fn by<T: GemmElement, C: GemmElement>(
            problem: GemmProblem,
            device: &Device,
            plan: &GemmPlan,
        ) -> Result<(), String> {
            let case = GemmCase::new(problem);
            case.run_by::<T, C>(device, plan)
                .map_err(|why| why.to_string())
        }
        let done = match (ab, c) {
            (Ty::Bf16, Ty::Bf16) => by::<bf16, bf16>(problem, &device, plan),
            (Ty::Bf16, _) => by::<bf16, f32>(problem, &device, plan),
            (Ty::F16, Ty::F16) => by::<f16, f16>(problem, &device, plan),
            (Ty::F16, _) => by::<f16, f32>(problem, &device, plan),
            (Ty::Tf32, _) => by::<f32, f32>(problem.compute(Compute::Tf32), &device, plan),
            _ => by::<i8, i32>(problem, &device, plan),
        };
        done.map_err(|why| format!("{self}, {problem}, seed {seed}: {why}"))
    }

    /// Returns the kernels of the plan for the assembler: that of the product, and the one that adds parts of K.
    ///
    /// # Errors
    ///
    /// Returns why one is not built.
    pub fn samples(&self) -> Result<Vec<Sample>, colex_gpu::Error> {
        let plan = &self.0;
        // A plan of one consumer begins with 255 registers.
        let product = Sample::new(plan.build(Arch::Sm90a)?.kernel, 255);
        // Where A or B do not run along K, or their rows are short of a vector, Ampere's kernel reads numbers one by one, and ptxas is
        // known to spill.
        let is_along_k = plan.operands.majors[..2] == [Major::Second; 2];
        let has_vectors = plan.operands.vectors[..2].iter().all(|n| *n > 1);
        let product = match plan.method {
            GemmMethod::Ampere if !(is_along_k && has_vectors) => product.spilling(1024),
            // That of 128 by 256 for a C of 32 bits with M fastest spills too.
            GemmMethod::Hopper
                if plan.operands.c.bits() == 32 && plan.operands.majors[2] == Major::First =>
            {
                product.spilling(16)
            }
            _ => product,
        };
        let sum = plan.build_sum(Arch::Sm90a)?;
        let sum = sum.map(|sum| Sample::new(sum.kernel, 96));
        Ok([product].into_iter().chain(sum).collect())
    }
}

/// Returns the candidates on `sm_90a` for these operands, and behind them those that only a product with an epilogue has, or only one
/// product.
pub(in crate::kernels) fn of_all_lists(operands: Operands) -> Vec<GemmPlan> {
    let mut all = GemmPlan::candidates(operands, Arch::Sm90a);
    let more = [
        GemmPlan::candidates_with_epilogue(operands, Arch::Sm90a),
        GemmPlan::candidates_of_one(operands, Arch::Sm90a),
        GemmPlan::candidates_of_one_with_epilogue(operands, Arch::Sm90a),
    ];
    for plan in more.into_iter().flatten() {
        if !all.contains(&plan) {
            all.push(plan);
        }
    }
    all
}

/// Matrices of such types, orders and accesses.
fn operands([ab, c]: [Ty; 2], majors: [Major; 3], accesses: [i64; 3], beta: bool) -> Operands {
    let vector = |ty: Ty, bytes: i64| (8 * bytes / i64::from(ty.bits())).max(1);
    let [of_a, of_b, of_c] = accesses;
    let vectors = [vector(ab, of_a), vector(ab, of_b), vector(c, of_c)];
    Operands {
        ab,
        c,
        majors,
        // Bytes go one by one, or four or more at once.
        vectors: vectors.map(|n| if ab == Ty::S8 && n == 2 { 1 } else { n }),
        beta,
        gated: false,
    }
}

/// Returns the kernels of the plans that are wished, each text once; of none that are wished, those of a few plans.
///
/// # Errors
///
/// Returns why one is not built, in words.
pub(in crate::kernels) fn samples() -> Result<Vec<Sample>, String> {
    let plans = ListedPlan::wished(6, 5)?;
    let mut known = HashSet::new();
    let mut all = Vec::new();
    for plan in plans {
        for sample in plan.samples().map_err(|why| format!("{plan}: {why}"))? {
            let text = sample
                .kernel
                .ptx()
                .map_err(|why| format!("{plan}: {why}"))?;
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            if known.insert(hasher.finish()) {
                all.push(sample);
            }
        }
    }
    Ok(all)
}
