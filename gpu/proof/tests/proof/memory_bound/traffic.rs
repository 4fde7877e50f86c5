//! The traffic that plans count: that of the simulator, and at most a factor of the bytes that must be moved.

use std::collections::{BTreeMap, HashSet};

use colex_atom::{Arch, Ty};
use colex_gpu::elementwise::{Gather, Map, MapExpression, Pairing, Rotary};
use colex_gpu::kernels::GemmElement;
use colex_gpu::memory_bound::{MemoryBoundCall, MemoryBoundPlan, Traffic};
use colex_gpu::quantise::{Quantise, TensorScalePlan};
use colex_gpu::reduce::scan::{Scan, ScanPlan, ScanProblem};
use colex_gpu::reduce::top_k::{TopK, TopKPlan, TopKProblem};
use colex_gpu::reduce::{Reduce, ReduceFunction, ReducePlan, ReduceProblem};
use colex_gpu::rowwise::{RowFunction, RowStorage, Rowwise, RowwisePlan, RowwiseProblem};
use colex_gpu::sim::Report;
use colex_gpu::{Device, Error, Rates, View, ViewMut};
use colex_layout::Layout;
use colex_proof::sweep::Random;
use half::{bf16, f16};

use super::simulator;

/// The bytes of a sector of the memory.
const SECTOR: i64 = 32;

/// The sectors of the memory that launches touch on the simulator, in bytes.
fn touched(reports: &[Report]) -> i64 {
    let sectors: u64 = reports.iter().map(|report| report.sectors().0).sum();
    SECTOR * sectors as i64
}

/// The cases of the law, and those in which counts differ.
#[derive(Default)]
struct Compared {
    cases: usize,
    wrong: Vec<String>,
}

impl Compared {
    fn takes(&mut self, is_right: bool, what: &str, numbers: &[i64]) {
        self.cases += 1;
        if !is_right {
            self.wrong.push(format!("{what}: {numbers:?}"));
        }
    }

    /// A call whose accesses are of whole sectors: the simulator counts the bytes of the plan, and the first access touches no other sector.
    fn whole<P: MemoryBoundPlan>(
        &mut self,
        what: &str,
        device: &Device,
        call: Result<MemoryBoundCall<'_, P>, Error>,
    ) {
        self.beside(what, device, call, 0);
    }

    /// A call of whole sectors but for this number of results, each of them written alone: a sector has up to `SECTOR` bytes for a result
    /// of the type.
    fn beside<P: MemoryBoundPlan>(
        &mut self,
        what: &str,
        device: &Device,
        call: Result<MemoryBoundCall<'_, P>, Error>,
        beyond: i64,
    ) {
        let call = call.unwrap_or_else(|why| panic!("{what}: {why}"));
        let traffic = call.traffic().expect("elements");
        let found = touched(&call.profile(device).expect("a run"));
        let what = format!("{what}, {call}");
        let is_right = (traffic.moved..=traffic.moved + beyond).contains(&found)
            && traffic.sectors == traffic.least_sectors;
        let Traffic {
            moved,
            sectors,
            least_sectors,
            ..
        } = traffic;
        self.takes(
            is_right,
            &what,
            &[found, moved, beyond, sectors, least_sectors],
        );
    }
}

/// Tensors of whole sectors of each type: a plan moves the bytes that it counts, and its first access touches no other sector. A result of
/// a reduction, a scale or an index that a warp accesses alone takes a sector.
#[test]
fn law_plans_count_the_traffic_of_the_simulator() {
    let device = simulator(Arch::Sm90a, 5);
    let mut compared = Compared::default();
    for shape in [(4, 64), (3, 1024), (16, 256), (2, 40_000), (1, 64)] {
        of_type::<f32>(&device, shape, &mut compared);
        of_type::<bf16>(&device, shape, &mut compared);
        of_type::<f16>(&device, shape, &mut compared);
    }
    // A column of a row-major matrix: each element lies in a sector of its own.
    let x = device.upload(&vec![1.0_f32; 64 * 64]).expect("memory");
    let mut y = device.poisoned::<f32>(64).expect("memory");
    let column = View::new(&x, "64:64").expect("a view");
    let call = Scan::new(&column, 0, &y.view_mut(64).expect("a view")).prepare();
    let traffic = call.expect("a call").traffic().expect("sums");
    assert_eq!((traffic.sectors, traffic.least_sectors), (32, 4));
    let Compared { cases, wrong } = compared;
    assert!(
        wrong.is_empty(),
        "{} of {cases}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    println!("law memory_bound.traffic: {} cases", cases + 1);
}

fn of_type<T: GemmElement>(
    device: &Device,
    (rows, columns): (usize, usize),
    compared: &mut Compared,
) {
    let size = T::BYTES as i64;
    let shape = (rows, columns);
    let [n, m] = [rows, columns].map(|extent| extent as i64);
    let count = rows * columns;
    let ones = || {
        device
            .upload(&vec![T::from_f64(1.0); count])
            .expect("memory")
    };
    let written = |count: usize| device.poisoned::<T>(count).expect("memory");
    let (x, residual) = (ones(), ones());
    let [mut y, mut sum] = [(); 2].map(|()| written(count));
    let from = x.view(shape).expect("a view");
    let what = |name: &str| format!("{name} of {} {shape:?}", T::TY);
    {
        let to = y.view_mut(shape).expect("a view");
        for function in RowFunction::ALL {
            let call = Rowwise::new(function, &from, &to);
            compared.whole(&what(&function.to_string()), device, call.prepare());
            if function.is_norm() {
                let residual = residual.view(shape).expect("a view");
                let sum = sum.view_mut(shape).expect("a view");
                let call = call.clone().residual(&residual, &sum);
                let name = what(&format!("{function} with a residual"));
                compared.whole(&name, device, call.prepare());
            }
            if function.is_norm() && rows == 1 {
                // Each of several rows reads the weights again, from a cache.
                let weight = residual.view(columns).expect("a view");
                let call = call.weight(&weight);
                let name = what(&format!("{function} with a weight"));
                compared.whole(&name, device, call.prepare());
            }
        }
        let scan = Scan::new(&from, 1, &to).prepare_with(|problem| {
            let plan = ScanPlan::fastest(problem);
            Ok(ScanPlan { turns: 0, ..plan })
        });
        compared.whole(&what("scan"), device, scan);
        let twice = format!("(x: tensor {}) -> y {{ add(x, x) }}", T::TY);
        let twice: MapExpression = twice.parse().expect("a map");
        let map = Map::new(&twice).input("x", &from).output("y", &to);
        compared.whole(&what("map"), device, map.prepare());
        let index: Vec<i32> = (0..rows as i32).rev().collect();
        let index = device.upload(&index).expect("memory");
        let index = index.view(rows).expect("a view");
        let gather = Gather::new(&from, &index, &to).prepare().expect("a call");
        // Each access of a warp reads the numbers of its rows, most of them from a cache.
        let moved = gather.traffic().expect("elements").moved - 4 * n;
        let plan = gather.plan().expect("elements");
        let vector = plan.vector;
        let of_index = touched(&gather.profile(device).expect("a run")) - moved;
        let tile = plan.threads * plan.accesses * vector;
        // Warps without rows read an index too.
        let accesses = (n * m + tile - 1) / tile * tile / (32 * vector);
        let is_right = of_index > 0 && of_index <= SECTOR * accesses;
        compared.takes(
            is_right,
            &what("gather"),
            &[of_index, accesses, vector, moved],
        );
    }
    for pairing in [Pairing::Interleaved, Pairing::Halves] {
        let heads = (1, rows, columns / 64, 64);
        let (from, to) = (x.view(heads), y.view_mut(heads));
        let (from, to) = (from.expect("a view"), to.expect("a view"));
        let call = Rotary::new(pairing, &from, &to).prepare().expect("a call");
        let moved = call.calls().iter().map(|call| call.traffic());
        let moved: i64 = moved.map(|traffic| traffic.expect("elements").moved).sum();
        let found = touched(&call.profile(device).expect("a run"));
        compared.takes(found == moved, &what(&pairing.to_string()), &[found, moved]);
    }
    // Rows beside each other, of few columns and of many.
    for [rows, columns] in [[m, n], [n, m]]
        .into_iter()
        .filter(|[n, m]| n * m > 64 && *m > 1)
    {
        // Few rows of 16 bits in a block end inside of sectors.
        let ends_inside = rows % (SECTOR / size) > 0;
        if ends_inside && (columns < 1000 || size < 4) {
            continue;
        }
        let beside = Layout::new((rows, columns), (1, rows)).expect("a layout");
        let from = View::new(&x, beside.clone()).expect("a view");
        let to = ViewMut::new(&mut y, beside).expect("a view");
        let call = Rowwise::new(RowFunction::Softmax, &from, &to).prepare();
        let plan = *call
            .as_ref()
            .expect("a call")
            .plan()
            .expect("there are rows");
        let is_turned = matches!(plan.storage, RowStorage::Turned { .. });
        assert_eq!(is_turned, rows > 1, "{plan}");
        let name = what(&format!("softmax of {rows} rows beside each other"));
        compared.whole(&name, device, call);
    }
    for mode in [0, 1] {
        let results = [columns, rows][mode];
        let mut sums = written(results);
        let sums = sums.view_mut(results).expect("a view");
        let call = Reduce::new(ReduceFunction::Sum, &from, &[mode], &sums);
        let call = call.prepare_with(|problem| {
            let plan = ReducePlan::fastest(problem)?;
            Ok(ReducePlan { parts: 1, ..plan })
        });
        // Along the last mode, each row has a result of its own.
        let beyond = [0, n * (SECTOR - size)][mode];
        let name = what(&format!("sum along mode {mode}"));
        compared.beside(&name, device, call, beyond);
    }
    let mut q = device.poisoned::<i8>(count).expect("memory");
    let mut scales = device.poisoned::<f32>(rows).expect("memory");
    // A row alone has accesses of single elements, which touch a sector several times.
    if rows > 1 {
        let q = q.view_mut(shape).expect("a view");
        let scales = scales.view_mut(rows).expect("a view");
        let call = Quantise::new(Ty::S8, &from, &q).rows(&scales);
        let call = call.prepare().expect("a call");
        let problem = call.problem().expect("rows");
        let moved = call.plan().expect("rows").bytes(problem);
        let found = touched(&call.profile(device).expect("a run"));
        let most = moved + n * (SECTOR - 4);
        let is_right = (moved..=most).contains(&found);
        compared.takes(is_right, &what("quantisation"), &[found, moved, most]);
    }
    // As many results of a row as a sector holds. All elements are the same, so that the first ones are selected.
    let k = (SECTOR / size) as usize;
    let mut values = written(rows * k);
    let mut indices = device.poisoned::<i32>(rows * k).expect("memory");
    let values = values.view_mut((rows, k)).expect("a view");
    let indices = indices.view_mut((rows, k)).expect("a view");
    let call = TopK::new(&from, 1, &values, &indices).prepare_with(|problem| {
        let plan = TopKPlan::fastest(problem);
        Ok(TopKPlan { parts: 1, ..plan })
    });
    let call = call.expect("a call");
    let (plan, problem) = (call.plan().expect("rows"), call.problem().expect("rows"));
    let [moved, must] = [plan.bytes(problem), problem.compulsory_bytes()];
    let found = touched(&call.profile(device).expect("a run"));
    // A search that ends early reads less than the most that the plan counts.
    let is_right = if plan.held {
        found == moved
    } else {
        (must..=moved).contains(&found)
    };
    compared.takes(
        is_right,
        &what(&format!("top-k, {call}")),
        &[found, moved, must],
    );
}

/// The factors that plans keep, and the largest ones that a law finds, each with its number of cases.
#[derive(Default)]
struct Factors {
    found: BTreeMap<&'static str, (f64, usize)>,
    wrong: Vec<String>,
}

impl Factors {
    fn takes(&mut self, kind: &'static str, most: f64, [moved, must]: [i64; 2], what: &str) {
        let factor = moved as f64 / must as f64;
        if moved < must || factor > most {
            self.wrong.push(format!(
                "{kind}, {what}: {moved} bytes are moved, {must} must be: {factor:.4} times, not {most}"
            ));
        }
        let (worst, cases) = self.found.entry(kind).or_default();
        (*worst, *cases) = (worst.max(factor), *cases + 1);
    }
}

/// A number from 1 to a power of two, of which each has the same share.
fn extent(r: &mut Random, most: u32) -> i64 {
    let log = r.below(u64::from(most) + 1);
    1 + r.below(1_i64 << log)
}

const TYPES: [Ty; 3] = [Ty::F32, Ty::F16, Ty::Bf16];
const ARCHS: [Arch; 3] = [Arch::Sm70, Arch::Sm80, Arch::Sm90a];

/// Contiguous tensors of drawn shapes and types: the default plan counts at most a factor of the bytes that must be moved, which follows from
/// how often it reads the elements.
#[test]
fn law_default_plans_move_at_most_a_factor_of_their_bytes() {
    let mut r = Random::of(31, "factors");
    let mut factors = Factors::default();
    for _ in 0..4000 {
        let (ty, arch) = (r.one(&TYPES), r.one(&ARCHS));
        of_rows(&mut r, ty, arch, &mut factors);
        of_reductions(&mut r, ty, arch, &mut factors);
    }
    let device = simulator(Arch::Sm90a, 6);
    of_calls::<f32>(&device, &mut r, &mut factors);
    of_calls::<bf16>(&device, &mut r, &mut factors);
    let mut cases = 0;
    for (kind, (worst, of_kind)) in &factors.found {
        println!("law memory_bound.factors, {kind}: {of_kind} cases, at most {worst:.4}");
        cases += of_kind;
    }
    println!("law memory_bound.factors: {cases} cases");
    let wrong = factors.wrong;
    assert!(
        wrong.is_empty(),
        "{} of {cases}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The factor of a function of rows: 1 if something holds a row, and otherwise what each pass but the first reads again.
fn of_row_plan(
    factors: &mut Factors,
    plan: &RowwisePlan,
    problem: &RowwiseProblem,
    has_residual: bool,
) {
    let what = format!("{problem}, {plan}");
    let bytes = [plan.bytes(problem), problem.compulsory_bytes()];
    match plan.storage {
        RowStorage::Registers
        | RowStorage::Ahead { .. }
        | RowStorage::Alternating { .. }
        | RowStorage::Teams { .. }
        | RowStorage::Divided { .. }
        | RowStorage::Staged { .. }
        | RowStorage::Shifted { .. }
        | RowStorage::Turned { again: false } => {
            factors.takes("rows that are held", 1.0, bytes, &what);
        }
        // One tensor is read again: of two that must be moved, or of four.
        RowStorage::Turned { again: true } => {
            let most = if has_residual { 1.25 } else { 1.5 };
            factors.takes("rows beside each other in passes", most, bytes, &what);
        }
        // Half of the tensors are read again once, and twice in a layer norm.
        RowStorage::Passes { .. } if problem.function() == RowFunction::LayerNorm => {
            factors.takes("rows of a layer norm in passes", 2.0, bytes, &what);
        }
        RowStorage::Passes { .. } => {
            factors.takes("rows in passes", 1.5, bytes, &what);
        }
    }
}

fn of_rows(r: &mut Random, ty: Ty, arch: Arch, factors: &mut Factors) {
    let function = r.one(&RowFunction::ALL);
    let (rows, columns) = (extent(r, 12), extent(r, 20));
    for problem in [
        Ok(RowwiseProblem::new(function, ty, [rows, columns])),
        RowwiseProblem::along(function, ty, &[columns, rows], 0),
    ] {
        let problem = problem.expect("a problem");
        let plan = RowwisePlan::fastest_on(&problem, arch, Rates::of(arch)).expect("a plan");
        of_row_plan(factors, &plan, &problem, false);
    }
}

fn of_reductions(r: &mut Random, ty: Ty, arch: Arch, factors: &mut Factors) {
    let extents = [extent(r, 11), extent(r, 16), extent(r, 11)];
    let modes = r.one(&[&[0_usize][..], &[1], &[2], &[0, 1], &[0, 2], &[0, 1, 2]]);
    let function = r.one(&[ReduceFunction::Sum, ReduceFunction::Max]);
    let problem = ReduceProblem::new(function, ty, &extents, modes).expect("a problem");
    let plan = ReducePlan::fastest_on(&problem, arch).expect("a plan");
    let bytes = [plan.bytes(&problem), problem.compulsory_bytes()];
    let what = format!("{problem} of {extents:?} along {modes:?}, {plan}");
    if plan.workspace(&problem) == 0 {
        factors.takes("reductions without parts", 1.0, bytes, &what);
    } else {
        factors.takes("reductions in parts", 1.05, bytes, &what);
    }
    let problem = ScanProblem::new(ty, extents).expect("a problem");
    let plan = ScanPlan::fastest(&problem);
    let bytes = [plan.bytes(&problem), problem.compulsory_bytes()];
    let what = format!("{problem} of {extents:?}, {plan}");
    if plan.workspace(&problem) == 0 {
        factors.takes("scans in one launch", 1.0, bytes, &what);
    } else {
        // The elements are read again, and each part of a sum has at least 28 elements, for a total that is written and read.
        factors.takes("scans in two launches", 1.58, bytes, &what);
    }
    let columns = extent(r, 20);
    let k = (1 + r.below(256_i64)).min(columns);
    let problem = TopKProblem::new(ty, [extent(r, 12), columns], k).expect("a problem");
    let plan = TopKPlan::fastest(&problem);
    let bytes = [plan.bytes(&problem), problem.compulsory_bytes()];
    let what = format!("{problem}, {plan}");
    if plan.held {
        factors.takes("selections from registers", 4.0 / 3.0, bytes, &what);
    } else {
        // A pass for each digit of an element and of its index, and the candidates of parts.
        factors.takes("selections in passes", 7.0, bytes, &what);
    }
}

/// The kernels whose problems only calls have.
fn of_calls<T: GemmElement>(device: &Device, r: &mut Random, factors: &mut Factors) {
    const MOST: usize = 1 << 18;
    let of = || device.zeros::<T>(MOST).expect("memory");
    let (x, residual, weight) = (of(), of(), of());
    let [mut y, mut sum] = [(); 2].map(|()| of());
    let mut q = device.zeros::<i8>(MOST).expect("memory");
    let mut scales = device.zeros::<f32>(MOST).expect("memory");
    let index = device.zeros::<i32>(MOST).expect("memory");
    let add = format!("(x: tensor {0}, b: tensor {0}) -> y {{ add(x, b) }}", T::TY);
    let add: MapExpression = add.parse().expect("a map");
    for i in 0..40 {
        let columns = extent(r, 18);
        let rows = (extent(r, 8)).min(MOST as i64 / columns);
        let shape = (rows, columns);
        let (from, to) = (x.view(shape), y.view_mut(shape));
        let (from, to) = (from.expect("a view"), to.expect("a view"));
        let of_residual = residual.view(shape).expect("a view");
        for function in [RowFunction::RmsNorm, RowFunction::LayerNorm] {
            let weight = weight.view(columns).expect("a view");
            let sum = sum.view_mut(shape).expect("a view");
            let call = Rowwise::new(function, &from, &to).residual(&of_residual, &sum);
            let call = if i % 2 == 0 {
                call.weight(&weight)
            } else {
                call
            };
            let problem = call.problem().expect("a problem").expect("rows");
            let plan = call.plan().expect("a plan").expect("rows");
            of_row_plan(factors, &plan, &problem, true);
        }
        let mut of_map = |problem: Result<Option<_>, Error>, what: &str| {
            let problem: colex_gpu::elementwise::ElementwiseProblem =
                problem.expect("a problem").expect("elements");
            let bytes = [problem.moved_bytes(), problem.compulsory_bytes()];
            factors.takes("maps, gathers and rotary embeddings", 1.0, bytes, what);
        };
        let map = Map::new(&add).input("x", &from).input("b", &of_residual);
        of_map(map.output("y", &to).problem(), "a map");
        let index = index.view(rows).expect("a view");
        of_map(Gather::new(&from, &index, &to).problem(), "a gather");
        // Of two features, the pairs are apart, so that both of a pair count whole sectors.
        let features = 2 * (2 + r.below(63_i64));
        let heads = (1, r.below(4_i64) + 1, extent(r, 8), features);
        let (from_heads, to_heads) = (x.view(heads), residual.clone());
        let mut to_heads = to_heads;
        let to_heads = to_heads.view_mut(heads).expect("a view");
        for pairing in [Pairing::Interleaved, Pairing::Halves] {
            let call = Rotary::new(pairing, from_heads.as_ref().expect("a view"), &to_heads);
            of_map(call.problem(), &pairing.to_string());
        }
        let q = q.view_mut(shape).expect("a view");
        let scales = scales.view_mut(rows).expect("a view");
        let call = Quantise::new(Ty::S8, &from, &q).rows(&scales).prepare();
        let call = call.expect("a call");
        let (plan, problem) = (call.plan().expect("rows"), call.problem().expect("rows"));
        let bytes = [plan.bytes(problem), problem.compulsory_bytes()];
        let what = format!("{problem}, {plan}");
        if plan.held {
            factors.takes("quantisation of rows that are held", 1.0, bytes, &what);
        } else {
            // Four bytes of five are read again, or two of three.
            factors.takes("quantisation in passes", 1.8, bytes, &what);
        }
    }
    for _ in 0..200 {
        let count = (1 << 20) + 8 * extent(r, 24);
        let size = T::BYTES as i64;
        let at_once = TensorScalePlan::at_once(T::TY, Ty::S8, Arch::Sm90a, 132);
        for plan in [
            TensorScalePlan::fastest(T::TY, Ty::S8),
            at_once.expect("a plan"),
        ] {
            let bytes = [plan.bytes(count), count * (size + 1) + 4];
            let what = format!("{count} elements, {plan}");
            factors.takes("quantisation of tensors", 1.81, bytes, &what);
        }
    }
}

/// A layout of modes in any order, with gaps, and of an input with elements that are repeated along modes.
fn strided(r: &mut Random, extents: &[i64], is_input: bool) -> Layout {
    let mut strides = vec![0; extents.len()];
    let mut next = r.one(&[1, 1, 2]);
    for mode in r.permutation(extents.len()) {
        if !(is_input && r.one_in(3)) {
            strides[mode] = next;
            next = next * extents[mode] + r.one(&[0, 0, 3]);
        }
    }
    let numbers = |all: &[i64]| {
        let all: Vec<String> = all.iter().map(i64::to_string).collect();
        format!("({})", all.join(","))
    };
    let text = format!("{}:{}", numbers(extents), numbers(&strides));
    text.parse().expect("a layout")
}

/// Inputs whose elements are repeated along modes: every problem counts each element of its tensors once.
#[test]
fn law_compulsory_bytes_are_those_of_the_distinct_elements() {
    const MOST: usize = 1 << 12;
    let mut r = Random::of(7, "distinct elements");
    let device = simulator(Arch::Sm80, 6);
    let x = device.zeros::<f32>(MOST).expect("memory");
    let weights = device.zeros::<f32>(MOST).expect("memory");
    let mut written = device.zeros::<f32>(MOST).expect("memory");
    let mut second = device.zeros::<i32>(MOST).expect("memory");
    let mut q = device.zeros::<i8>(MOST).expect("memory");
    let relu: MapExpression = "(x: tensor f32) -> y { max(x, 0) }".parse().expect("a map");
    let (mut cases, mut repeated) = (0, 0);
    for round in 0..400 {
        let extents: Vec<i64> = (0..3).map(|_| 1 + r.below(6_i64)).collect();
        let mode = r.below(3_usize);
        let of_x = strided(&mut r, &extents, true);
        let of_y = strided(&mut r, &extents, false);
        let distinct: HashSet<i64> = of_x.offsets().expect("offsets").collect();
        let (read, count) = (4 * distinct.len() as i64, of_x.size());
        repeated += usize::from(read < 4 * count);
        let from = View::new(&x, &of_x).expect("a view");
        let mut takes = |what: &str, found: i64, wanted: i64| {
            assert_eq!(found, wanted, "{what} of {of_x} along {mode}");
            cases += 1;
        };
        {
            let to = ViewMut::new(&mut written, &of_y).expect("a view");
            let scan = Scan::new(&from, mode, &to).problem();
            let scan = scan.expect("a problem").expect("elements");
            takes("scan", scan.compulsory_bytes(), read + 4 * count);
            let plan = ScanPlan::fastest(&scan);
            assert!(plan.bytes(&scan) >= scan.compulsory_bytes());
            let map = Map::new(&relu).input("x", &from).output("y", &to);
            let map = map.problem().expect("a problem").expect("elements");
            takes("map", map.compulsory_bytes(), read + 4 * count);
            let of_weights = strided(&mut r, &extents[2..], true);
            let weight = View::new(&weights, &of_weights).expect("a view");
            let own: HashSet<i64> = of_weights.offsets().expect("offsets").collect();
            let rows = Rowwise::new(RowFunction::RmsNorm, &from, &to).weight(&weight);
            let rows = rows.problem().expect("a problem").expect("rows");
            let wanted = read + 4 * count + 4 * own.len() as i64;
            takes("norm", rows.compulsory_bytes(), wanted);
        }
        let kept: Vec<i64> = (0..3)
            .filter(|at| *at != mode)
            .map(|at| extents[at])
            .collect();
        let results: i64 = kept.iter().product();
        {
            let of_results = strided(&mut r, &kept, false);
            let to = ViewMut::new(&mut written, &of_results).expect("a view");
            let sum = Reduce::new(ReduceFunction::Sum, &from, &[mode], &to).problem();
            let sum = sum.expect("a problem").expect("elements");
            takes("sum", sum.compulsory_bytes(), read + 4 * results);
        }
        {
            let k = 1 + r.below(extents[mode]);
            let mut selected = extents.clone();
            selected[mode] = k;
            let values = strided(&mut r, &selected, false);
            let values = ViewMut::new(&mut written, &values).expect("a view");
            let indices = ViewMut::row_major(&mut second, (selected[0], selected[1], selected[2]));
            let top = TopK::new(&from, mode, &values, &indices.expect("a view")).problem();
            let top = top.expect("a problem").expect("elements");
            takes("top-k", top.compulsory_bytes(), read + 8 * k * results);
            let plan = TopKPlan::fastest(&top);
            assert!(plan.bytes(&top) >= top.compulsory_bytes());
        }
        if round < 60 {
            let to = ViewMut::new(&mut q, &of_y).expect("a view");
            let scales = ViewMut::row_major(&mut written, (extents[0], extents[1]));
            let call = Quantise::new(Ty::S8, &from, &to).rows(&scales.expect("a view"));
            let call = call.prepare().expect("a call");
            let problem = call.problem().expect("rows");
            let rows = extents[0] * extents[1];
            takes(
                "quantisation",
                problem.compulsory_bytes(),
                read + count + 4 * rows,
            );
        }
    }
    assert!(repeated > 200, "{repeated}");
    println!("law memory_bound.compulsory: {cases} cases");
}
