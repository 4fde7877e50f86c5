//! The kernels of the lists of plans, in every order of the matrices: for the simulator and the assembler.
//!
//! `COLEX_LISTED` says how many: a number of each type in each order, or `all`. A test runs them on the simulator, and
//! `cargo xtask verify --only "ptxas, kernels"` puts them before the assembler.

use core::fmt;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use colex_atom::{Arch, Ty};
use colex_device::Device;
use colex_gpu::View;
use colex_gpu::gemm::Epilogue;
use colex_gpu::kernels::gemm::{Division, GemmMethod, GemmPlan, Operands};
use colex_gpu::kernels::{Compute, GemmElement, GemmProblem, Major, Operand, reference};
use colex_sched::pipeline;
use colex_sim::{Schedule, SimOptions};
use colex_tensor::Expr;
use half::{bf16, f16};

use super::super::copies::{Failure, compare};
use super::super::gemm::{GemmCase, orders};
use super::super::trapped;
use crate::sample::Sample;
use crate::soak;
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
            // The plan says how many right factors it has.
            gated: _,
            ab: _,
            c: _,
        } = self.0.operands;
        write!(f, "{}, {majors:?}, vectors {vectors:?}", self.0)?;
        f.write_str(if beta { ", C is read" } else { "" })
    }
}

/// What a row of the lists says of its plans. The rest follows from the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Row {
    method: GemmMethod,
    /// With the bytes of a row along K: of all types a tile has as many. The GEMV kernel's follows from its threads.
    tile: [i64; 3],
    warps: [i64; 2],
    schedule: pipeline::Schedule,
    cluster: [i64; 3],
    split: i64,
    division: Division,
    swap: bool,
    gather: bool,
    gated: bool,
    /// The stages of a kernel for several widths, which has as many for all operands.
    stages: Option<i64>,
}

impl Row {
    fn of(plan: &GemmPlan) -> Row {
        let [m, n, k] = plan.tile;
        let bytes = k * i64::from(plan.operands.ab.bits()) / 8;
        Row {
            method: plan.method,
            tile: match plan.method {
                GemmMethod::Gemv => [0; 3],
                _ => [m, n, bytes],
            },
            warps: plan.warps,
            schedule: plan.schedule,
            cluster: plan.cluster,
            split: plan.split,
            division: plan.division,
            swap: plan.swap,
            gather: plan.gather,
            gated: plan.operands.gated,
            stages: (plan.columns != 0).then_some(plan.stages),
        }
    }
}

impl ListedPlan {
    /// Returns the plans that `COLEX_LISTED` wishes, or one for every `share` types and orders; by a seed, where they are drawn.
    ///
    /// # Errors
    ///
    /// Returns an error if the variable is neither a number nor `all`.
    pub fn wished(share: usize, seed: u64) -> Result<Vec<ListedPlan>, String> {
        let wished = ListedPlan::by_wish(&[false], seed)?;
        Ok(wished.unwrap_or_else(|| {
            ListedPlan::some(1, seed)
                .into_iter()
                .step_by(share)
                .collect()
        }))
    }

    /// Returns the plans that the simulator runs: those that `COLEX_LISTED` wishes, or every row of every list once, each for other types
    /// and for drawn orders and alignments. Where laws draw more than usual ([`soak`]), it is every row for all types and in all orders.
    ///
    /// # Errors
    ///
    /// Returns an error if the variable is neither a number nor `all`.
    pub fn simulated(seed: u64) -> Result<Vec<ListedPlan>, String> {
        if let Some(wished) = ListedPlan::by_wish(&[false, true], seed)? {
            return Ok(wished);
        }
        let mut r = Random::of(seed, "simulated");
        let mut of_rows = Rows::default();
        let mut all = Vec::new();
        for types in TYPES {
            for majors in orders() {
                of_rows.add(every_of(types, majors, &[false, true]));
                if soak::takes_all() {
                    all.extend(std::mem::take(&mut of_rows).draw(&mut r));
                }
            }
        }
        all.extend(of_rows.draw(&mut r));
        Ok(all)
    }

    /// The plans that `COLEX_LISTED` wishes, if it is set.
    fn by_wish(gated: &[bool], seed: u64) -> Result<Option<Vec<ListedPlan>>, String> {
        match std::env::var("COLEX_LISTED") {
            Err(_) => Ok(None),
            Ok(wish) if wish == "all" => Ok(Some(ListedPlan::every(gated))),
            Ok(wish) => match wish.parse() {
                Ok(each) => Ok(Some(ListedPlan::some(each, seed))),
                Err(_) => Err(format!("COLEX_LISTED is {wish}: a number, or `all`")),
            },
        }
    }

    /// Every plan that a call on `sm_90a` may choose, with an epilogue and without: for all types, orders and alignments, with C read and
    /// not. `gated` says whether it has one right factor or two.
    fn every(gated: &[bool]) -> Vec<ListedPlan> {
        let pairs = TYPES.into_iter().flat_map(|types| {
            let all = orders().into_iter();
            all.map(move |majors| (types, majors))
        });
        let all = pairs.flat_map(|(types, majors)| every_of(types, majors, gated));
        let mut known = HashSet::new();
        all.filter(|plan| known.insert(*plan))
            .map(ListedPlan)
            .collect()
    }

    /// Returns some of the plans with one right factor: `each` of every type in every order, of the rows of the lists in turn and of other
    /// facts by chance.
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

    /// Returns the list that the plan is of, in words that name no kind of call: whether the rows of A and B have any alignment, and
    /// whether there are two right factors.
    pub fn list(&self) -> [bool; 2] {
        let Operands {
            ab, vectors, gated, ..
        } = self.0.operands;
        let whole = 128 / i64::from(ab.bits());
        [vectors[..2] != [whole; 2], gated]
    }

    /// Runs a product of a tile and a part of one, with two turns of the ring of each part of K, on the simulator in a schedule of a
    /// seed, and compares every bit.
    ///
    /// # Errors
    ///
    /// Returns what is wrong, in words.
    pub fn run(&self, seed: u64) -> Result<(), String> {
        let problem = self.problem();
        let options = SimOptions::default().schedule(Schedule::from_seed(seed));
        let device = Device::simulator_with(Arch::Sm90a, options);
        let plan = &self.0;
        let done = match (plan.operands.ab, plan.operands.c) {
            (Ty::Bf16, Ty::Bf16) => run_by::<bf16, bf16>(problem, &device, plan),
            (Ty::Bf16, _) => run_by::<bf16, f32>(problem, &device, plan),
            (Ty::F16, Ty::F16) => run_by::<f16, f16>(problem, &device, plan),
            (Ty::F16, _) => run_by::<f16, f32>(problem, &device, plan),
            (Ty::Tf32, _) => run_by::<f32, f32>(problem, &device, plan),
            _ => run_by::<i8, i32>(problem, &device, plan),
        };
        done.map_err(|why| format!("{self}, {problem}, seed {seed}: {why}"))
    }

    fn problem(&self) -> GemmProblem {
        let plan = &self.0;
        let Operands {
            ab,
            c: _,
            majors,
            vectors,
            beta,
            gated,
        } = plan.operands;
        let [m, n, k] = plan.tile;
        let [m, n] = if plan.swap { [n, m] } else { [m, n] };
        let beyond = vectors.into_iter().max().unwrap_or(1);
        let up = |n: i64| (n + 15) / 16 * 16;
        // With two right factors, one turn and a step: the same rows take two turns with one factor.
        let turns = if gated {
            plan.stages + 1
        } else {
            2 * plan.stages
        };
        let along_k = turns * plan.cluster[2] * plan.split;
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
        match ab {
            Ty::Tf32 => problem.compute(Compute::Tf32),
            _ => problem,
        }
    }

    /// Returns the kernels of the plan with one right factor for the assembler: that of the product, and the one that adds parts of K.
    ///
    /// # Errors
    ///
    /// Returns why one is not built.
    pub fn samples(&self) -> Result<Vec<Sample>, colex_gpu::Error> {
        let plan = &self.0;
        // A plan of one consumer begins with 255 registers.
        let product = Sample::new(plan.build(Arch::Sm90a)?.kernel, 255);
        // What ptxas spills of few kernels, in bytes: where factors of other than 16 bits lie along M or N, and where threads load
        // A and B or C has no whole vectors.
        let transposes =
            plan.operands.ab.bits() != 16 && plan.operands.majors[..2] != [Major::Second; 2];
        let spilled = match plan.method {
            GemmMethod::Hopper if transposes => 224,
            GemmMethod::Hopper if plan.gather || plan.operands.vectors[2] == 1 => 16,
            GemmMethod::Ampere => 8,
            _ => 0,
        };
        let product = product.spilling(spilled);
        let sum = plan.build_sum(Arch::Sm90a)?;
        let sum = sum.map(|sum| Sample::new(sum.kernel, 128));
        Ok([product].into_iter().chain(sum).collect())
    }
}

/// Runs a product by a plan and compares every bit: with one right factor, or the difference of the products with two.
fn run_by<T: GemmElement, C: GemmElement>(
    problem: GemmProblem,
    device: &Device,
    plan: &GemmPlan,
) -> Result<(), Failure> {
    if !plan.operands.gated {
        return GemmCase::new(problem).run_by::<T, C>(device, plan);
    }
    let sums = match T::TY {
        Ty::S8 => Ty::S32,
        _ => Ty::F32,
    };
    let reads_c = problem.beta != 0.0;
    let to = |x: Expr, ty: Ty| if C::TY == sums { x } else { x.to(ty) };
    let difference = Epilogue::new(sums, |e| {
        let apart = e.accumulator() - e.second_accumulator();
        let apart = if reads_c {
            apart - to(e.c(C::TY), sums)
        } else {
            apart
        };
        to(apart, C::TY)
    })?;
    let layouts = Operand::ALL.map(|of| problem.layout(of).expect("a product has extents"));
    let lengths = layouts
        .each_ref()
        .map(|layout| layout.cosize().expect("a product is small") as usize);
    let (a, first) = (numbers::<T>(lengths[0], 1), numbers::<T>(lengths[1], 2));
    let second = numbers::<T>(lengths[1], 4);
    let before = numbers::<C>(lengths[2], 3);
    let [of_a, of_first, of_second] = [&a, &first, &second].map(|numbers| device.upload(numbers));
    let (of_a, of_first, of_second) = (of_a?, of_first?, of_second?);
    let of_c = device.upload(&before)?;
    let mut written = of_c.clone();
    let behind = View::new(&of_second, &layouts[1])?;
    let product = problem
        .beta(0.0)
        .on(&of_a, &of_first, &mut written)?
        .b2(&behind)
        .epilogue(&difference);
    let call = product.prepare_with(|_, _| Ok(*plan))?;
    for built in call.built().into_iter().chain(call.built_sum()) {
        let found = trapped(&built.kernel);
        if !found.is_empty() {
            return Err(Failure::Traps(found));
        }
    }
    call.run(device)?;
    let beta = if reads_c { -1.0 } else { 0.0 };
    let of_first = reference::gemm(&problem.beta(beta), &a, &first, &before);
    let of_second = reference::gemm(&problem.beta(0.0), &a, &second, &before);
    let mut expected = before;
    for ((i, j), value) in (of_first - of_second).indexed_iter() {
        let at = layouts[2].at((i as i64, j as i64));
        expected[at.expect("an element of C") as usize] = C::from_f64(*value);
    }
    compare(&of_c.download()?, &expected)
}

/// Numbers from -8 to 8, of floats an eighth of them: no kernel rounds a sum of their products.
fn numbers<T: GemmElement>(count: usize, seed: u64) -> Vec<T> {
    let scale = if T::COMPUTE == Compute::S32 {
        1.0
    } else {
        0.125
    };
    let mut r = Random::new(seed);
    (0..count)
        .map(|_| T::from_f64((r.below(17) as f64 - 8.0) * scale))
        .collect()
}

/// Plans by their rows.
#[derive(Default)]
struct Rows {
    places: HashMap<Row, usize>,
    plans: Vec<Vec<GemmPlan>>,
}

impl Rows {
    fn add(&mut self, plans: impl Iterator<Item = GemmPlan>) {
        for plan in plans {
            let place = *self
                .places
                .entry(Row::of(&plan))
                .or_insert(self.plans.len());
            match self.plans.get_mut(place) {
                Some(of_row) => of_row.push(plan),
                None => self.plans.push(vec![plan]),
            }
        }
    }

    /// A plan of each row: the types in turn where the row has plans for them, the rest by chance.
    fn draw(self, r: &mut Random) -> impl Iterator<Item = ListedPlan> {
        let turns = TYPES.into_iter().cycle();
        self.plans.into_iter().zip(turns).map(|(of_row, types)| {
            let of_types = of_row.iter().copied();
            let of_types = of_types.filter(|plan| [plan.operands.ab, plan.operands.c] == types);
            let of_types: Vec<GemmPlan> = of_types.collect();
            ListedPlan(r.one(if of_types.is_empty() {
                &of_row
            } else {
                &of_types
            }))
        })
    }
}

/// Every plan for matrices of such types and orders: of all alignments, with C read and not.
fn every_of(types: [Ty; 2], majors: [Major; 3], gated: &[bool]) -> impl Iterator<Item = GemmPlan> {
    let accesses = ACCESSES.into_iter();
    accesses.flat_map(move |accesses| {
        let both = [false, true].into_iter();
        both.flat_map(move |beta| {
            gated.iter().flat_map(move |gated| {
                of_all_lists(Operands {
                    gated: *gated,
                    ..operands(types, majors, accesses, beta)
                })
            })
        })
    })
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
