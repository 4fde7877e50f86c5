//! Reductions of tensors on a device, against double precision.

use colex_gpu::kernels::GemmElement;
use colex_gpu::reduce::scan::{self, Scan, ScanPlan, ScanProblem};
use colex_gpu::reduce::{
    Reduce, ReduceCall, ReduceFunction, ReduceIndex, ReducePlan, ReduceProblem, reference,
};
use colex_gpu::{Buffer, Device, Element, View, ViewMut};
use colex_layout::{Int, IntTuple, Layout, Stride, Tuple};
use half::{bf16, f16};

use crate::sweep::Random;

/// Computes drawn reductions on a device, and compares every result: types, shapes of one to four modes, any of them reduced,
/// strides, alignments, NaN and infinities, plans. Elements outside of the outputs are all ones, and stay. Returns the number of
/// elements.
///
/// # Errors
///
/// Returns the first problem whose result is wrong, in words.
pub fn check(device: &Device, seed: u64, rounds: usize) -> Result<usize, String> {
    let mut r = Random::of(seed, "reduce");
    let mut count = 0;
    for round in 0..rounds {
        let run = r.one(&[
            numbers::<f32, f32>,
            numbers::<f16, f16>,
            numbers::<bf16, bf16>,
            numbers::<bf16, f32>,
            numbers::<f16, f32>,
            numbers::<i32, i32>,
            indices::<f32, i32>,
            indices::<bf16, i64>,
            indices::<f16, i32>,
            indices::<i32, i64>,
        ]);
        count += run(device, &mut r).map_err(|why| format!("round {round} of {seed}: {why}"))?;
    }
    Ok(count)
}

/// A layout of these extents: modes in any order, with gaps, and repeated elements of an input.
pub(super) fn layout(r: &mut Random, extents: &[i64], is_output: bool) -> Layout {
    let mut strides = vec![0; extents.len()];
    let pad = r.one(&[0, 0, 0, 8, 4, 1]);
    let order = match r.below(3_u64) {
        0 => r.permutation(extents.len()),
        _ => (0..extents.len()).rev().collect(),
    };
    let mut next = if r.one_in(8) { 2 } else { 1 };
    for (at, mode) in order.into_iter().enumerate() {
        strides[mode] = next;
        next = next * extents[mode] + pad;
        if at > 0 && !is_output && r.one_in(10) {
            strides[mode] = 0;
        }
    }
    let shape = IntTuple::flat(extents.iter().map(|n| Int::Dynamic(*n)));
    let strides = Tuple::flat(strides.into_iter().map(Stride::from));
    Layout::new(shape, strides).expect("extents above 0")
}

/// The numbers of an input: small integers, whose sums are exact in any order, other ones, and some that are none.
pub(super) fn input<T: GemmElement>(r: &mut Random, count: usize) -> Vec<T> {
    let is_whole = r.one_in(2) || T::TY.is_integer();
    let wild = r.one_in(4) && !T::TY.is_integer();
    let one = |r: &mut Random| {
        if wild && r.one_in(300) {
            return r.one(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0]);
        }
        if is_whole {
            return f64::from(r.below(9_i32) - 4);
        }
        f64::from(r.below(4001_i32) - 2000) / 1000.0
    };
    (0..count).map(|_| T::from_f64(one(r))).collect()
}

/// A drawn tensor, the modes along which it is reduced, and the extents of the results.
struct Drawn<T> {
    x: Vec<T>,
    first: usize,
    layout: Layout,
    extents: Vec<i64>,
    modes: Vec<usize>,
    results: Vec<i64>,
}

fn drawn<T: GemmElement>(r: &mut Random, only_one: bool) -> Result<Drawn<T>, String> {
    let rank = 1 + r.below(4_usize);
    let mut left: i64 = r.one(&[3000, 9000, 20000]);
    let mut extents = Vec::new();
    for _ in 0..rank {
        let extent = match r.below(5_u64) {
            0 => r.one(&[1, 2, 3]),
            1 => 8 * (1 + r.below(32_i64)),
            2 => 1 + r.below(2000_i64),
            _ => 1 + r.below(40_i64),
        };
        extents.push(extent.clamp(1, left.max(1)));
        left /= extents.last().copied().unwrap_or(1);
    }
    let order = r.permutation(rank);
    let extents: Vec<i64> = order.iter().map(|at| extents[*at]).collect();
    let modes: Vec<usize> = if only_one {
        vec![r.below(rank)]
    } else {
        let mut modes: Vec<usize> = (0..rank).filter(|_| r.one_in(2)).collect();
        if modes.is_empty() && !r.one_in(6) {
            modes.push(r.below(rank));
        }
        modes
    };
    let layout = layout(r, &extents, false);
    let first = r.one(&[0, 0, 0, 8, 4, 1]);
    let length = first + layout.cosize().map_err(|e| e.to_string())? as usize;
    let is_kept = |mode: usize| !modes.contains(&mode);
    let mut results: Vec<i64> = (0..rank)
        .filter(|m| is_kept(*m))
        .map(|m| extents[m])
        .collect();
    if results.is_empty() {
        results.push(1);
    } else if r.one_in(4) {
        results = (0..rank)
            .map(|m| if is_kept(m) { extents[m] } else { 1 })
            .collect();
    }
    Ok(Drawn {
        x: input(r, length),
        first,
        layout,
        extents,
        modes,
        results,
    })
}

impl<T: GemmElement> Drawn<T> {
    /// The elements of each result, in colexicographic order of the kept modes and of the reduced ones.
    fn groups(&self) -> Result<Vec<Vec<f64>>, String> {
        let count: i64 = self.results.iter().product();
        let mut groups = vec![Vec::new(); count as usize];
        let offsets = self.layout.offsets().map_err(|e| e.to_string())?;
        for (index, offset) in (0_i64..).zip(offsets) {
            let (mut rest, mut group, mut step) = (index, 0, 1);
            for (mode, extent) in self.extents.iter().enumerate() {
                if !self.modes.contains(&mode) {
                    group += rest % extent * step;
                    step *= extent;
                }
                rest /= extent;
            }
            groups[group as usize].push(self.x[self.first + offset as usize].to_f64());
        }
        Ok(groups)
    }
}

/// An output with all bits set: its layout, and where it begins.
pub(super) struct Target<U> {
    pub(super) layout: Layout,
    first: usize,
    memory: Buffer<U>,
}

impl<U: Element> Target<U> {
    pub(super) fn new(
        device: &Device,
        r: &mut Random,
        extents: &[i64],
    ) -> Result<Target<U>, String> {
        let layout = layout(r, extents, true);
        let first = r.one(&[0, 0, 0, 8, 4, 1]);
        let length = first + layout.cosize().map_err(|e| e.to_string())? as usize;
        let memory = device.poisoned::<U>(length).map_err(|e| e.to_string())?;
        Ok(Target {
            layout,
            first,
            memory,
        })
    }

    pub(super) fn part(&self) -> Result<Buffer<U>, String> {
        let part = self.memory.slice(self.first..self.memory.len());
        part.map_err(|e| e.to_string())
    }

    /// The results, in the order of their indices; an error if anything else was written.
    pub(super) fn results(&self) -> Result<Vec<U>, String> {
        let found = self.memory.download().map_err(|e| e.to_string())?;
        let mut is_result = vec![false; found.len()];
        let mut results = Vec::new();
        for offset in self.layout.offsets().map_err(|e| e.to_string())? {
            let place = self.first + offset as usize;
            is_result[place] = true;
            results.push(found[place]);
        }
        for (i, is_result) in is_result.iter().enumerate() {
            let bytes = U::to_bytes(&found[i..=i]);
            if !is_result && bytes.iter().any(|byte| *byte != 0xff) {
                return Err(format!("element {i} of an output was written"));
            }
        }
        Ok(results)
    }
}

/// A plan of any numbers for a problem; `None` if the drawn numbers are none of a plan.
fn drawn_plan(r: &mut Random, problem: &ReduceProblem, device: &Device) -> Option<ReducePlan> {
    let plan = ReducePlan::fastest(problem).ok()?;
    let plan = ReducePlan {
        vector: (plan.vector >> r.below(2_u32)).max(1),
        rows: 1 << r.below(5_u32),
        across: 1 << r.below(6_u32),
        along: 1 << r.below(9_u32),
        accesses: 1 + r.below(5_i64),
        turns_inner: r.one_in(2),
        parts_inner: r.one_in(3),
        parts: r.one(&[1, 1, 2, 3, 8]),
        last_adds: r.one_in(2),
        min_blocks: r.below(2_i64),
        prefetches: r.one_in(3),
        ..plan
    };
    let plan = if r.one_in(4) {
        let vector = 128 / i64::from(problem.operands().ty.bits());
        ReducePlan {
            vector,
            across: 1,
            turns_inner: true,
            parts_inner: true,
            shifted: true,
            ..plan
        }
    } else {
        plan
    };
    let plan = if r.one_in(3) {
        let cluster = r.one(&[2, 4, 8]);
        ReducePlan {
            parts: cluster * r.one(&[1, 1, 2, 3]),
            last_adds: true,
            cluster,
            ..plan
        }
    } else {
        plan
    };
    let fits = plan.check(device.arch()).is_ok() && plan.takes(problem);
    fits.then_some(plan)
}

fn run<T: GemmElement>(
    device: &Device,
    r: &mut Random,
    call: &Reduce<'_, T>,
    what: &str,
) -> Result<(), String> {
    let text = |e: &dyn std::fmt::Display| format!("{what}: {e}");
    let problem = call.problem().map_err(|e| text(&e))?.ok_or("elements")?;
    let own = (0..30).find_map(|_| drawn_plan(r, &problem, device));
    let own = own.filter(|_| r.one_in(2));
    let prepared: Result<ReduceCall<'_>, _> = match own {
        Some(plan) => call.prepare_with(|_| Ok(plan)),
        None if r.one_in(2) => call.prepare(),
        None => {
            call.run().map_err(|e| text(&e))?;
            return device.synchronize().map_err(|e| text(&e));
        }
    };
    let prepared = prepared.map_err(|e| text(&e))?;
    let what = format!("{what}, {prepared}");
    // Twice, since blocks that count each other leave their counters for the next run.
    let ran = prepared.run(device).and_then(|()| prepared.run(device));
    ran.map_err(|e| format!("{what}: {e}"))?;
    device.synchronize().map_err(|e| format!("{what}: {e}"))
}

fn numbers<T: GemmElement, U: GemmElement>(
    device: &Device,
    r: &mut Random,
) -> Result<usize, String> {
    let functions: Vec<ReduceFunction> = (ReduceFunction::ALL.into_iter())
        .filter(|f| !f.is_index())
        .filter(|f| {
            let of_floats = [
                ReduceFunction::Mean,
                ReduceFunction::Norm,
                ReduceFunction::AbsMax,
            ];
            !(T::TY.is_integer() && of_floats.contains(f))
        })
        .collect();
    let function = r.one(&functions);
    let drawn = drawn::<T>(r, false)?;
    let what = format!(
        "{function} of {} {} along {:?} into {}",
        T::TY,
        drawn.layout,
        drawn.modes,
        U::TY
    );
    let text = |e: &dyn std::fmt::Display| format!("{what}: {e}");
    let memory = device.upload(&drawn.x).map_err(|e| text(&e))?;
    let memory = memory
        .slice(drawn.first..memory.len())
        .map_err(|e| text(&e))?;
    let x = View::new(&memory, &drawn.layout).map_err(|e| text(&e))?;
    let target = Target::<U>::new(device, r, &drawn.results)?;
    {
        let mut part = target.part()?;
        let y = ViewMut::new(&mut part, &target.layout).map_err(|e| text(&e))?;
        let call = Reduce::new(function, &x, &drawn.modes, &y);
        run(device, r, &call, &what)?;
    }
    let found = target.results().map_err(|e| text(&e))?;
    let step = match U::TY.bits() {
        32 => 2f64.powi(-24),
        _ if U::TY == colex_atom::Ty::F16 => 2f64.powi(-11),
        _ => 2f64.powi(-8),
    };
    let groups = drawn.groups()?;
    for (at, (found, elements)) in found.iter().zip(&groups).enumerate() {
        let (found, want) = (found.to_f64(), reference::elements(function, elements));
        let largest = elements.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        let size = |x: f64| match function {
            ReduceFunction::SquareSum => x * x,
            _ => x.abs(),
        };
        let sizes: f64 = elements.iter().map(|x| size(*x)).sum();
        let count = elements.len() as f64;
        // One rounding of each addition, and one of the result; the smallest numbers of f16.
        let allowed = match function {
            ReduceFunction::Max | ReduceFunction::Min | ReduceFunction::AbsMax => 0.0,
            ReduceFunction::Mean => sizes / count * count.min(1000.0) * 2f64.powi(-24),
            ReduceFunction::Norm => largest * count.sqrt() * 1e-5,
            _ => sizes * count.min(1000.0) * 2f64.powi(-24),
        };
        let allowed = allowed + 1.01 * want.abs() * step + 2f64.powi(-24);
        let is_exact = T::TY.is_integer() || allowed == 0.0;
        let is_right = if is_exact {
            found == want
        } else {
            // A half-precision result may be beyond the largest number.
            let narrow = U::from_f64(want).to_f64();
            found == want
                || found == narrow
                || found.is_nan() && want.is_nan()
                || (found - want).abs() <= allowed
        };
        if !is_right {
            return Err(text(&format!("result {at} is {found}, not {want}")));
        }
    }
    Ok(drawn.extents.iter().product::<i64>() as usize)
}

fn indices<T: GemmElement, I: ReduceIndex + Into<i64>>(
    device: &Device,
    r: &mut Random,
) -> Result<usize, String> {
    let function = r.one(&[ReduceFunction::ArgMax, ReduceFunction::ArgMin]);
    let drawn = drawn::<T>(r, true)?;
    let what = format!(
        "{function} of {} {} along {:?} into {}",
        T::TY,
        drawn.layout,
        drawn.modes,
        <I as ReduceIndex>::TY
    );
    let text = |e: &dyn std::fmt::Display| format!("{what}: {e}");
    let memory = device.upload(&drawn.x).map_err(|e| text(&e))?;
    let memory = memory
        .slice(drawn.first..memory.len())
        .map_err(|e| text(&e))?;
    let x = View::new(&memory, &drawn.layout).map_err(|e| text(&e))?;
    let target = Target::<I>::new(device, r, &drawn.results)?;
    let of_values = Target::<T>::new(device, r, &drawn.results)?;
    let with_values = r.one_in(2);
    {
        let (mut part, mut values) = (target.part()?, of_values.part()?);
        let y = ViewMut::new(&mut part, &target.layout).map_err(|e| text(&e))?;
        let mut call = Reduce::index(function, &x, drawn.modes[0], &y);
        let values = ViewMut::new(&mut values, &of_values.layout).map_err(|e| text(&e))?;
        if with_values {
            call = call.values(&values);
        }
        run(device, r, &call, &what)?;
    }
    let found = target.results().map_err(|e| text(&e))?;
    let values = of_values.results().map_err(|e| text(&e))?;
    for (at, elements) in drawn.groups()?.iter().enumerate() {
        let index: i64 = found[at].into();
        let want = reference::elements(function, elements);
        if index as f64 != want {
            return Err(text(&format!("index {at} is {index}, not {want}")));
        }
        let (value, want) = (values[at].to_f64(), elements[index as usize]);
        if with_values && value != want && !(value.is_nan() && want.is_nan()) {
            return Err(text(&format!("value {at} is {value}, not {want}")));
        }
    }
    Ok(drawn.extents.iter().product::<i64>() as usize)
}

/// Computes drawn cumulative sums on a device, and compares the bits of every sum with those of the host: types, shapes of one to four
/// modes, strides, alignments, NaN and infinities, plans. Returns the number of elements.
///
/// # Errors
///
/// Returns the first problem whose result is wrong, in words.
pub fn check_scans(device: &Device, seed: u64, rounds: usize) -> Result<usize, String> {
    let mut r = Random::of(seed, "scan");
    let mut count = 0;
    for round in 0..rounds {
        let run = r.one(&[
            scanned::<f32>,
            scanned::<f16>,
            scanned::<bf16>,
            scanned::<i32>,
        ]);
        count += run(device, &mut r).map_err(|why| format!("round {round} of {seed}: {why}"))?;
    }
    Ok(count)
}

/// A plan of any numbers for a problem; `None` if the drawn numbers are none of a plan.
fn drawn_scan(r: &mut Random, problem: &ScanProblem, device: &Device) -> Option<ScanPlan> {
    let plan = ScanPlan::fastest(problem);
    let plan = ScanPlan {
        vector: (plan.vector >> r.below(2_u32)).max(1),
        rows: 1 << r.below(4_u32),
        along: 1 << r.below(9_u32),
        accesses: 1 + r.below(5_i64),
        turns: r.one(&[0, 0, 1, 2, 5]),
        ..plan
    };
    let fits = plan.check(device.arch()).is_ok() && plan.takes(problem);
    fits.then_some(plan)
}

fn scanned<T: GemmElement>(device: &Device, r: &mut Random) -> Result<usize, String> {
    let drawn = drawn::<T>(r, true)?;
    let mode = drawn.modes[0];
    let what = format!("cumulative sum of {} {} along {mode}", T::TY, drawn.layout);
    let text = |e: &dyn std::fmt::Display| format!("{what}: {e}");
    let memory = device.upload(&drawn.x).map_err(|e| text(&e))?;
    let memory = memory
        .slice(drawn.first..memory.len())
        .map_err(|e| text(&e))?;
    let x = View::new(&memory, &drawn.layout).map_err(|e| text(&e))?;
    let target = Target::<T>::new(device, r, &drawn.extents)?;
    let exclusive = r.one_in(2);
    let plan = {
        let mut part = target.part()?;
        let y = ViewMut::new(&mut part, &target.layout).map_err(|e| text(&e))?;
        let call = Scan::new(&x, mode, &y);
        let call = if exclusive { call.exclusive() } else { call };
        let problem = call.problem().map_err(|e| text(&e))?.ok_or("elements")?;
        let own = (0..30).find_map(|_| drawn_scan(r, &problem, device));
        let own = own.filter(|_| r.one_in(2));
        match own {
            None if r.one_in(2) => {
                call.run().map_err(|e| text(&e))?;
                call.plan().map_err(|e| text(&e))?.ok_or("elements")?
            }
            own => {
                let prepared = call
                    .prepare_with(|problem| Ok(own.unwrap_or_else(|| ScanPlan::fastest(problem))));
                let prepared = prepared.map_err(|e| text(&e))?;
                let ran = prepared.run(device).and_then(|()| prepared.run(device));
                ran.map_err(|e| text(&format!("{prepared}: {e}")))?;
                *prepared.plan().ok_or("elements")?
            }
        }
    };
    device.synchronize().map_err(|e| text(&e))?;
    let what = format!("{what}, {plan}");
    let found = target.results()?;
    let mut groups: Vec<Vec<(f32, i32, usize)>> = Vec::new();
    let mut numbers = std::collections::HashMap::new();
    let offsets = drawn.layout.offsets().map_err(|e| e.to_string())?;
    for (index, offset) in (0_i64..).zip(offsets) {
        let (mut rest, mut place) = (index, Vec::new());
        for (at, extent) in drawn.extents.iter().enumerate() {
            if at != mode {
                place.push(rest % extent);
            }
            rest /= extent;
        }
        let next = groups.len();
        let group = *numbers.entry(place).or_insert(next);
        if group == groups.len() {
            groups.push(Vec::new());
        }
        let x = drawn.x[drawn.first + offset as usize].to_f64();
        groups[group].push((x as f32, x as i32, index as usize));
    }
    for group in &groups {
        let x: Vec<f32> = group.iter().map(|(x, ..)| *x).collect();
        let sums = scan::reference::sums(&plan, &x);
        let mut want: Vec<f64> = sums.into_iter().map(f64::from).collect();
        if T::TY.is_integer() {
            let mut sum = 0_i32;
            want = group
                .iter()
                .map(|(_, x, _)| {
                    let before = sum;
                    sum = sum.wrapping_add(*x);
                    f64::from(if exclusive { before } else { sum })
                })
                .collect();
        }
        for ((_, _, index), want) in group.iter().zip(want) {
            let (found, want) = (found[*index].to_f64(), T::from_f64(want).to_f64());
            let is_same = found.to_bits() == want.to_bits() || found.is_nan() && want.is_nan();
            if !is_same {
                return Err(format!("{what}: sum {index} is {found}, not {want}"));
            }
        }
    }
    Ok(found.len())
}
