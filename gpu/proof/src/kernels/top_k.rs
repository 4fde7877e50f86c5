//! Selections along a mode on a device, bit for bit those of the host.

use colex_gpu::kernels::GemmElement;
use colex_gpu::reduce::ReduceIndex;
use colex_gpu::reduce::top_k::{MOST_K, TopK, TopKCall, TopKPlan, TopKProblem, reference};
use colex_gpu::{Device, View, ViewMut};
use half::{bf16, f16};

use super::reduce::{Target, layout};
use crate::sweep::Random;

/// Computes drawn selections on a device, and compares every result: types, shapes of one to three modes, strides, alignments, many
/// equal elements, NaN and infinities, both directions, plans. Elements outside of the outputs are all ones, and stay. Returns the
/// number of elements.
///
/// # Errors
///
/// Returns the first problem whose result is wrong, in words.
pub fn check(device: &Device, seed: u64, rounds: usize) -> Result<usize, String> {
    let mut r = Random::of(seed, "top-k");
    let mut count = 0;
    for round in 0..rounds {
        let run = r.one(&[
            selected::<f32, i32>,
            selected::<f16, i32>,
            selected::<bf16, i64>,
            selected::<i32, i32>,
        ]);
        count += run(device, &mut r).map_err(|why| format!("round {round} of {seed}: {why}"))?;
    }
    Ok(count)
}

/// A plan of any numbers for a problem; `None` if the drawn numbers are none of a plan.
fn drawn_plan(r: &mut Random, problem: &TopKProblem, device: &Device) -> Option<TopKPlan> {
    let plan = TopKPlan::fastest(problem);
    let plan = TopKPlan {
        vector: (plan.vector >> r.below(2_u32)).max(1),
        threads: 32 << r.below(4_u32),
        accesses: 1 + r.below(5_i64),
        held: r.one_in(2),
        slots: 1 << r.below(8_u32),
        digit: r.one(&[0, 4, 5, 8, 11]),
        index_bits: plan.index_bits + r.below(4_i64),
        parts: r.one(&[1, 1, 2, 3, 7]),
        ..plan
    };
    let fits = plan.check(device.arch()).is_ok() && plan.takes(problem);
    fits.then_some(plan)
}

/// The elements of a tensor: few different ones, or many, and some that are no numbers.
fn input<T: GemmElement>(r: &mut Random, count: usize) -> Vec<T> {
    let kinds: u64 = r.one(&[1, 3, 40, 5000]);
    let wild = r.one(&[0, 0, 40, 4]);
    let is_integer = T::TY.is_integer();
    let one = |r: &mut Random| {
        if wild > 0 && r.one_in(wild) {
            return if is_integer {
                r.one(&[i32::MIN.into(), i32::MAX.into(), 0.0])
            } else {
                r.one(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1e-7])
            };
        }
        let number = r.below(kinds) as f64 - (kinds / 2) as f64;
        if is_integer { number } else { number / 64.0 }
    };
    (0..count).map(|_| T::from_f64(one(r))).collect()
}

fn selected<T: GemmElement, I: ReduceIndex + Into<i64>>(
    device: &Device,
    r: &mut Random,
) -> Result<usize, String> {
    let rank = 1 + r.below(3_usize);
    let mode = r.below(rank);
    let mut extents: Vec<i64> = (0..rank).map(|_| 1 + r.below(4_i64)).collect();
    extents[mode] = match r.below(4_u64) {
        0 => 1 + r.below(40_i64),
        1 => 8 * (1 + r.below(100_i64)),
        2 => 1 + r.below(600_i64),
        _ => r.one(&[256, 257, 1024, 2000]),
    };
    let extent = extents[mode];
    let k = match r.below(4_u64) {
        0 => extent,
        1 => r.one(&[1, 2, 8, 64]),
        _ => 1 + r.below(100_i64),
    };
    let k = k.min(extent).min(MOST_K);
    let smallest = r.one_in(2);
    let of_x = layout(r, &extents, false);
    let which = if smallest { "smallest" } else { "largest" };
    let what = format!("{k} {which} of {} {of_x} along {mode}", T::TY);
    let text = |e: &dyn std::fmt::Display| format!("{what}: {e}");
    let first = r.one(&[0, 0, 0, 8, 4, 1]);
    let length = first + of_x.cosize().map_err(|e| text(&e))? as usize;
    let elements = input::<T>(r, length);
    let memory = device.upload(&elements).map_err(|e| text(&e))?;
    let memory = memory.slice(first..length).map_err(|e| text(&e))?;
    let x = View::new(&memory, &of_x).map_err(|e| text(&e))?;
    let mut results = extents.clone();
    results[mode] = k;
    let of_values = Target::<T>::new(device, r, &results)?;
    let of_indices = Target::<I>::new(device, r, &results)?;
    {
        let (mut values, mut indices) = (of_values.part()?, of_indices.part()?);
        let values = ViewMut::new(&mut values, &of_values.layout).map_err(|e| text(&e))?;
        let indices = ViewMut::new(&mut indices, &of_indices.layout).map_err(|e| text(&e))?;
        let call = TopK::new(&x, mode, &values, &indices);
        let call = if smallest { call.smallest() } else { call };
        run(device, r, &call, &what)?;
    }
    let values = of_values.results().map_err(|e| text(&e))?;
    let indices = of_indices.results().map_err(|e| text(&e))?;
    // The results of one selection lie at a stride of the extents before the mode.
    let step: i64 = extents[..mode].iter().product();
    let after: i64 = extents[mode + 1..].iter().product();
    let offsets: Vec<i64> = of_x.offsets().map_err(|e| text(&e))?.collect();
    for (inner, outer) in (0..after).flat_map(|outer| (0..step).map(move |inner| (inner, outer))) {
        let at = |extent: i64, place: i64| (inner + step * (place + extent * outer)) as usize;
        let own: Vec<T> = (0..extent)
            .map(|place| elements[first + offsets[at(extent, place)] as usize])
            .collect();
        let numbers: Vec<f64> = own.iter().map(|x| x.to_f64()).collect();
        let want = reference::indices(&numbers, k as usize, smallest);
        for (place, want) in (0..k).zip(want) {
            let found: i64 = indices[at(k, place)].into();
            let value = values[at(k, place)];
            let is_same = T::to_bytes(&[value]) == T::to_bytes(&[own[want]]);
            if found != want as i64 || !is_same {
                let (value, right) = (value.to_f64(), own[want].to_f64());
                return Err(text(&format!(
                    "element {place} of selection ({inner},{outer}) is {value} at {found}, not {right} at {want}"
                )));
            }
        }
    }
    Ok(extents.iter().product::<i64>() as usize)
}

fn run<T: GemmElement>(
    device: &Device,
    r: &mut Random,
    call: &TopK<'_, T>,
    what: &str,
) -> Result<(), String> {
    let text = |e: &dyn std::fmt::Display| format!("{what}: {e}");
    let problem = call.problem().map_err(|e| text(&e))?.ok_or("elements")?;
    let own = (0..60).find_map(|_| drawn_plan(r, &problem, device));
    let own = own.filter(|_| !r.one_in(4));
    let prepared: Result<TopKCall<'_>, _> = match own {
        Some(plan) => call.prepare_with(|_| Ok(plan)),
        None if r.one_in(2) => call.prepare(),
        None => {
            call.run().map_err(|e| text(&e))?;
            return device.synchronize().map_err(|e| text(&e));
        }
    };
    let prepared = prepared.map_err(|e| text(&e))?;
    let what = format!("{what}, {prepared}");
    prepared.run(device).map_err(|e| format!("{what}: {e}"))?;
    device.synchronize().map_err(|e| format!("{what}: {e}"))
}
