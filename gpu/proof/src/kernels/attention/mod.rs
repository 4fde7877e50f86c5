//! Attention on a device, against a softmax in double precision.

pub mod families;
pub mod pages;

use colex_atom::{Arch, Ty};
use colex_gpu::attention::{
    Attention, AttentionMethod, AttentionPlan, AttentionProblem, AttentionTensor, Mask, reference,
};
use colex_gpu::kernels::GemmElement;
use colex_gpu::{Buffer, Device, View, ViewMut};
use colex_layout::Layout;
use half::{bf16, f16};

use crate::sweep::Random;

/// Computes drawn problems on a device, and compares every element: types, head sizes, lengths, groups, masks, soft-caps,
/// strides, alignments, magnitudes, sinks and plans, packs of heads and parts of the keys among them. Elements outside of the
/// tensors are NaN, and stay. A second run of each plan has the same bits. Returns the number of elements.
///
/// # Errors
///
/// Returns the first problem whose result is wrong, in words.
pub fn check(device: &Device, seed: u64, rounds: usize) -> Result<usize, String> {
    let mut r = Random::of(seed, "attention");
    let mut count = 0;
    for round in 0..rounds {
        let run = if r.one_in(2) { run::<f16> } else { run::<bf16> };
        count += run(device, &mut r).map_err(|why| format!("round {round} of {seed}: {why}"))?;
    }
    Ok(count)
}

/// Draws a problem of tensors of `ty`.
fn draw(r: &mut Random, ty: Ty) -> AttentionProblem {
    let widths = [64, 64, 64, 96, 128, 192, 256];
    let inner = r.one(&widths);
    let outer = if inner == 192 && r.one_in(2) {
        128
    } else {
        inner
    };
    // A step of serving has few queries, and more heads of Q for each head of K.
    let serves = r.one_in(3);
    let of_keys = 1 + r.below(2_i64);
    let heads = of_keys * r.one(if serves { &[1, 4, 6, 8] } else { &[1, 2, 3] });
    let batch = 1 + r.below(2_i64);
    // Large heads have short sequences: the simulator takes as long for each product.
    let most = (64 * 200 / inner).max(80);
    let length = |r: &mut Random| match r.below(8_u64) {
        0 => 1,
        1 => 64 * (1 + r.below(2_i64)),
        _ => 1 + r.below(most),
    };
    let queries = if serves {
        1 + r.below(3_i64)
    } else {
        length(r)
    };
    let lengths = [queries, if r.one_in(12) { 0 } else { length(r) }];
    let mut problem = AttentionProblem::new(ty, batch, [heads, of_keys], lengths, [inner, outer]);
    problem.mask = match r.below(4_u64) {
        0 => Mask::Full,
        1 | 2 => Mask::Causal,
        _ => {
            let side = |r: &mut Random| match r.below(4_u64) {
                0 => 0,
                1 => u32::MAX,
                _ => r.below(90_u32),
            };
            let [left, right] = [side(r), side(r)];
            Mask::Window { left, right }
        }
    };
    if r.one_in(3) {
        problem.softcap = Some(r.one(&[0.5, 5.0, 50.0]));
    }
    if r.one_in(3) {
        problem.scale *= r.one(&[0.1, 3.0]);
    }
    for tensor in AttentionTensor::ALL {
        let [batch, heads, length, features] = problem.extents(tensor);
        let pad = r.one(&[8, 8, 8, 4, 2, 1]);
        let extents = [batch, heads, length];
        let mut strides = [0, 0, 0, 1];
        let mut next = features;
        for mode in r.permutation(3) {
            strides[mode] = next + pad * r.below(3_i64);
            next = strides[mode] * extents[mode].max(1);
        }
        problem.strides[tensor as usize] = strides;
    }
    if r.one_in(2) {
        let [batch, heads, length, _] = problem.extents(AttentionTensor::O);
        let sums = [[heads * length, length, 1], [1, length * batch, batch]];
        problem.log_sum_exp = true;
        problem.sum_strides = r.one(&sums);
    }
    problem.sinks = r.one_in(3).then(|| r.below(3_i64));
    problem
}

/// Draws the sinks of the heads of a problem: numbers, and -inf. The vector is empty where the problem has none.
pub(super) fn sinks(r: &mut Random, problem: &AttentionProblem) -> Vec<f32> {
    let stride = problem.sinks.unwrap_or(0);
    let count = 1 + (problem.heads[0] - 1) * stride;
    let number = |_| match r.below(6_u64) {
        0 => f32::NEG_INFINITY,
        1 => 60.0,
        _ => r.below(800_i16).into(),
    };
    let drawn = (0..count).map(number);
    // Most are about as large as scores.
    let all = drawn.map(|x: f32| if x > 60.0 { x / 100.0 - 4.0 } else { x });
    problem.sinks.map_or(Vec::new(), |_| all.collect())
}

/// The layout of a tensor; `None` if it has no element.
fn layout(problem: &AttentionProblem, tensor: AttentionTensor) -> Option<Layout> {
    problem.layout(tensor).ok()
}

/// Memory for a tensor, from this element on, with drawn numbers in its elements and NaN elsewhere.
fn filled<T: GemmElement>(
    r: &mut Random,
    layout: Option<&Layout>,
    first: usize,
    magnitude: f64,
) -> Result<Vec<T>, String> {
    let Some(layout) = layout else {
        return Ok(vec![T::from_f64(f64::NAN); first + 8]);
    };
    let length = layout.cosize().map_err(|e| e.to_string())? as usize;
    let mut all = vec![T::from_f64(f64::NAN); first + length];
    for offset in layout.offsets().map_err(|e| e.to_string())? {
        let number = r.below(4001_i32) - 2000;
        all[first + offset as usize] = T::from_f64(f64::from(number) / 1000.0 * magnitude);
    }
    Ok(all)
}

fn run<T: GemmElement>(device: &Device, r: &mut Random) -> Result<usize, String> {
    let problem = draw(r, T::TY);
    let what = problem.to_string();
    let text = |e: &dyn std::fmt::Display| format!("{what}: {e}");
    let tensors = AttentionTensor::ALL.map(|tensor| layout(&problem, tensor));
    // Scores of some tens, or of thousands.
    let magnitude = r.one(&[1.0, 1.0, 1.0, 20.0]);
    let first = AttentionTensor::ALL.map(|_| r.one(&[0, 0, 0, 8, 4, 1]));
    let [q, k, v] = [0, 1, 2].map(|i| {
        let magnitude = if i < 2 { magnitude } else { 1.0 };
        filled::<T>(r, tensors[i].as_ref(), first[i], magnitude)
    });
    let (q, k, v) = (q?, k?, v?);
    let upload = |elements: &[T]| device.upload(elements).map_err(|e| text(&e));
    let (on_q, on_k, on_v) = (upload(&q)?, upload(&k)?, upload(&v)?);
    let [.., of_o] = &tensors;
    let of_o = of_o.as_ref().expect("there are queries");
    let length = first[3] + of_o.cosize().map_err(|e| text(&e))? as usize;
    let on_o = device.poisoned::<T>(length).map_err(|e| text(&e))?;
    let [batch, heads, queries, outer] = problem.extents(AttentionTensor::O);
    let sinks = sinks(r, &problem);
    let on_sinks = upload_or_one(device, &sinks).map_err(|e| text(&e))?;
    let mut on_sums = device
        .poisoned::<f32>((batch * heads * queries) as usize)
        .map_err(|e| text(&e))?;
    let downloaded = |sums: &Buffer<f32>| {
        let o = on_o.download().map_err(|e| text(&e))?;
        Ok::<_, String>((o, sums.download().map_err(|e| text(&e))?))
    };
    let first_run;
    {
        let sums_of_first = on_sums.clone();
        let at = |buffer: &Buffer<T>, i: usize| {
            let count = buffer.len();
            buffer.slice(first[i]..count).map_err(|e| text(&e))
        };
        let (q, k, v) = (at(&on_q, 0)?, at(&on_k, 1)?, at(&on_v, 2)?);
        let mut o = on_o.slice(first[3]..length).map_err(|e| text(&e))?;
        let view = |buffer, i: usize| match &tensors[i] {
            Some(layout) => View::new(buffer, layout),
            None => View::row_major(buffer, problem.extents(AttentionTensor::ALL[i])),
        };
        let [q, k, v] = [(&q, 0), (&k, 1), (&v, 2)].map(|(buffer, i)| view(buffer, i));
        let (q, k, v) = (
            q.map_err(|e| text(&e))?,
            k.map_err(|e| text(&e))?,
            v.map_err(|e| text(&e))?,
        );
        let o = ViewMut::new(&mut o, of_o).map_err(|e| text(&e))?;
        let mut call = Attention::new(&q, &k, &v, &o)
            .mask(problem.mask)
            .scale(problem.scale);
        if let Some(cap) = problem.softcap {
            call = call.softcap(cap);
        }
        let sums;
        if problem.log_sum_exp {
            let layout =
                Layout::new([batch, heads, queries], problem.sum_strides).map_err(|e| text(&e))?;
            sums = ViewMut::new(&mut on_sums, layout).map_err(|e| text(&e))?;
            call = call.log_sum_exp(&sums);
        }
        let of_sinks;
        if let Some(stride) = problem.sinks {
            let layout = Layout::new(heads, stride).map_err(|e| text(&e))?;
            of_sinks = View::new(&on_sinks, layout).map_err(|e| text(&e))?;
            call = call.sinks(&of_sinks);
        }
        let drawn = [
            r.one(&[[1, 16], [2, 32], [3, 48], [4, 64], [4, 128], [6, 96]]),
            [r.one(&[16, 32, 48, 64]), 2 + r.below(2_i64)],
        ];
        let group = problem.heads[0] / problem.heads[1];
        let divisors: Vec<i64> = (1..=group).filter(|n| group % n == 0).collect();
        let packs = r.one(&divisors);
        let splits = r.one(&[1, 1, 2, 3, 7]);
        let prepared = if r.one_in(2) {
            call.prepare()
        } else {
            let [[consumers, queries], [keys, stages]] = drawn;
            let prepared = call.prepare_with(|operands, _| {
                let plan = AttentionPlan::new(AttentionMethod::Ampere, operands);
                Ok(AttentionPlan {
                    tile: [queries, keys],
                    consumers,
                    stages,
                    packs,
                    splits,
                    by_lanes: splits % 2 == 1 && splits > 1,
                    early: stages == 3 && device.arch() >= Arch::Sm90,
                    ..plan
                })
            });
            // A drawn plan may be more than a block has: the default one is not.
            match prepared {
                Err(error) if error.plan().is_some() => call.prepare(),
                other => other,
            }
        };
        let prepared = prepared.map_err(|e| text(&e))?;
        let again = || {
            let run = prepared.run(device);
            run.map_err(|e| format!("{what}, {prepared}: {e}"))
        };
        again()?;
        first_run = downloaded(&sums_of_first)?;
        // NaN in every element: the second run has to write all of them too.
        on_o.fill_bytes(0xff).map_err(|e| text(&e))?;
        again()?;
    }
    let (found, sums) = downloaded(&on_sums)?;
    if bits_of(&found) != bits_of(&first_run.0) || bits_of(&sums) != bits_of(&first_run.1) {
        return Err(format!("{what}: two runs of a plan differ in bits"));
    }
    let parts = [&q[first[0]..], &k[first[1]..], &v[first[2]..]];
    let (found, sums) = (
        Found {
            all: &found,
            first: first[3],
        },
        &sums[..],
    );
    compare(&problem, parts, &sinks, found, sums).map_err(|why| format!("{what}: {why}"))?;
    Ok((batch * heads * queries * outer) as usize)
}

/// The bits of the values of elements.
fn bits_of<T: GemmElement>(elements: &[T]) -> Vec<u64> {
    elements.iter().map(|x| x.to_f64().to_bits()).collect()
}

/// Uploads numbers, or one number if there are none.
pub(super) fn upload_or_one(device: &Device, numbers: &[f32]) -> Result<Buffer<f32>, String> {
    let numbers = if numbers.is_empty() { &[0.0] } else { numbers };
    device.upload(numbers).map_err(|e| e.to_string())
}

/// What a kernel has written: the output begins at element `first`.
pub(super) struct Found<'a, T> {
    pub(super) all: &'a [T],
    pub(super) first: usize,
}

/// Compares the output and the sums with the reference.
pub(super) fn compare<T: GemmElement>(
    problem: &AttentionProblem,
    [q, k, v]: [&[T]; 3],
    sinks: &[f32],
    found: Found<'_, T>,
    sums: &[f32],
) -> Result<(), String> {
    let Found { all: found, first } = found;
    let right = reference::attention_with_sinks(problem, q, k, v, sinks);
    // The mean of the sizes of the values bounds the error of their mean; the sum of the sizes of a score's products that of
    // the score.
    let size = |all: &[T]| -> Vec<T> {
        let size = all.iter().map(|x| T::from_f64(x.to_f64().abs()));
        size.collect()
    };
    let [of_q, of_k, of_v] = [q, k, v].map(size);
    let sizes = reference::attention_with_sinks(problem, q, k, &of_v, sinks).output;
    let plain = AttentionProblem {
        softcap: None,
        sinks: None,
        ..*problem
    };
    // The log-sum-exp of the sizes is above the largest of them.
    let largest = reference::attention(&plain, &of_q, &of_k, &of_v).log_sum_exp;
    let unit = if T::TY == Ty::F16 {
        2f64.powi(-11)
    } else {
        2f64.powi(-8)
    };
    let mut is_own = vec![false; found.len()];
    let strides = problem.strides[AttentionTensor::O as usize];
    for ((b, h, i, d), right) in right.output.indexed_iter() {
        let at = [b, h, i, d].into_iter().zip(strides);
        let at: i64 = at.map(|(x, stride)| x as i64 * stride).sum();
        is_own[first + at as usize] = true;
        let score = score_error(problem, largest[(b, h, i)]);
        let found = found[first + at as usize].to_f64();
        let allowed = sizes[(b, h, i, d)] * (3.0 * unit + 2.0 * score) + 1e-6;
        // A NaN is far from any number.
        let apart = (found - right).abs();
        if apart.is_nan() || apart > allowed {
            return Err(format!(
                "O({b},{h},{i},{d}) is {found} and should be {right}: {allowed:.2e} is allowed"
            ));
        }
    }
    let beyond = found
        .iter()
        .zip(&is_own)
        .find(|(x, own)| !**own && !x.to_f64().is_nan());
    if beyond.is_some() {
        return Err("memory outside of O was written".into());
    }
    if !problem.log_sum_exp {
        return Ok(());
    }
    let strides = problem.sum_strides;
    for ((b, h, i), right) in right.log_sum_exp.indexed_iter() {
        let at = [b, h, i].into_iter().zip(strides);
        let at: i64 = at.map(|(x, stride)| x as i64 * stride).sum();
        let found = f64::from(sums[at as usize]);
        let allowed = score_error(problem, largest[(b, h, i)]) + right.abs() * 1e-6;
        let apart = (found - right).abs();
        if found != *right && (apart.is_nan() || apart > allowed) {
            return Err(format!(
                "the log-sum-exp ({b},{h},{i}) is {found} and should be {right}: {allowed:.2e} is allowed"
            ));
        }
    }
    Ok(())
}

/// The error of a score that is summed in f32: a rounding of the largest partial sum for each instruction and product in it,
/// that of the powers, and that of the capping function.
fn score_error(problem: &AttentionProblem, largest: f64) -> f64 {
    let largest = if largest.is_finite() {
        largest.abs()
    } else {
        0.0
    };
    let capping = f64::from(problem.softcap.unwrap_or(0.0)) * 2f64.powi(-20);
    let rounding = (problem.features[0] as f64 / 4.0 + 4.0) * 2f64.powi(-24);
    largest * rounding + capping + 1e-5
}
