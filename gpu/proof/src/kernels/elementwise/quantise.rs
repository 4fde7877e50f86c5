//! Quantisation on a device, against the host bit for bit.

use colex_atom::{Arch, Ty};
use colex_gpu::kernels::GemmElement;
use colex_gpu::quantise::{Quantise, QuantiseAccess, QuantisePlan, QuantiseProblem, reference};
use colex_gpu::{Device, Element, Error, View, ViewMut};
use colex_layout::Layout;
use half::{bf16, f16};

use super::layout;
use crate::sweep::Random;

/// Computes drawn quantisations on a device, and compares every number and every scale: types, shapes, strides, rows, blocks and tensors,
/// plans. One draw in eight, on a simulator one in 24, has a few rows of 4097 to 65536 columns: the longest ones that a block holds, and
/// longer ones in passes. Returns the number of elements.
///
/// # Errors
///
/// Returns the first result that is wrong, in words.
pub fn check(device: &Device, seed: u64, rounds: usize) -> Result<usize, String> {
    let mut r = Random::of(seed, "quantise");
    let mut count = 0;
    for round in 0..rounds {
        let to = if device.arch() >= Arch::Sm89 {
            r.one(&[Ty::S8, Ty::E4m3, Ty::E5m2])
        } else {
            Ty::S8
        };
        let run = match to {
            Ty::S8 => r.one(&[
                quantised::<f32, i8>,
                quantised::<bf16, i8>,
                quantised::<f16, i8>,
            ]),
            _ => r.one(&[
                quantised::<f32, u8>,
                quantised::<bf16, u8>,
                quantised::<f16, u8>,
            ]),
        };
        let found = run(device, &mut r, to);
        count += found.map_err(|why| format!("round {round} of {seed}: {why}"))?;
    }
    Ok(count)
}

/// A plan of any numbers for a problem; `None` if the drawn numbers are none of a plan.
fn drawn(r: &mut Random, problem: &QuantiseProblem, arch: Arch) -> Option<QuantisePlan> {
    let plan = QuantisePlan::fastest(problem, arch).ok()?;
    let access = r.one(&[
        plan.access,
        QuantiseAccess::Rows,
        QuantiseAccess::Shifted,
        QuantiseAccess::Staged,
    ]);
    let is_staged = access == QuantiseAccess::Staged;
    let threads = 1 << r.below(if is_staged { 6_u32 } else { 10 });
    let plan = QuantisePlan {
        vector: r.one(&[1, 4, 8]),
        threads,
        rows: 1 << r.below(5_u32),
        accesses: if is_staged {
            (problem.columns() + threads - 1) / threads
        } else {
            1 + r.below(8_i64)
        },
        blocks: r.one(&[1, 1, 2, 4, 8]),
        kept: r.one(&[0, 0, 1, 2]),
        access,
        held: is_staged || r.one_in(2),
        ..plan
    };
    (plan.check(arch).is_ok() && plan.takes(problem)).then_some(plan)
}

fn quantised<T: GemmElement, Q: Element>(
    device: &Device,
    r: &mut Random,
    to: Ty,
) -> Result<usize, String> {
    let is_long = r.one_in(if device.is_simulator() { 24 } else { 8 });
    let columns = match r.below(3_u64) {
        _ if is_long => r.one(&[4097, 16384, 32769, 65536]),
        0 => r.one(&[1, 33, 128, 300, 1000]),
        1 => 128 * (1 + r.below(5_i64)),
        _ => 1 + r.below(700_i64),
    };
    let mut extents: Vec<i64> = (0..1 + r.below(2_usize))
        .map(|_| 1 + r.below(if is_long { 2 } else { 6_i64 }))
        .collect();
    let block = [None, Some(128), Some(32)][r.below(3_usize)];
    let tensor = r.one_in(6).then_some(0.37_f32);
    let length = block.unwrap_or(columns);
    let mut of_scales = extents.clone();
    if block.is_some() {
        of_scales.push((columns + length - 1) / length);
    }
    let rows: i64 = extents.iter().product();
    extents.push(columns);
    let what = format!(
        "{} to {to} of {extents:?}, blocks {block:?}, scale {tensor:?}",
        T::TY
    );
    let text = |e: &dyn std::fmt::Display| format!("{what}: {e}");
    let layouts = [
        layout(r, &extents, false),
        layout(r, &extents, true),
        layout(r, &of_scales, true),
    ];
    let first = r.one(&[0, 0, 0, 8, 4, 1]);
    let count = |layout: &Layout| {
        let cosize = layout.cosize().map_err(|e| text(&e))?;
        Ok::<_, String>(first + cosize as usize)
    };
    let magnitude = r.one(&[1.0, 1e-3, 3e4, 1e-37, 1e-40]);
    let is_wild = r.one_in(8);
    let x: Vec<T> = (0..count(&layouts[0])?)
        .map(|_| {
            let wild = is_wild && r.one_in(300);
            T::from_f64(if wild {
                r.one(&[f64::NAN, f64::INFINITY, 0.0])
            } else {
                f64::from(r.below(4001_i32) - 2000) / 2000.0 * magnitude
            })
        })
        .collect();
    let on_x = device.upload(&x).map_err(|e| text(&e))?;
    let q = device
        .poisoned::<Q>(count(&layouts[1])?)
        .map_err(|e| text(&e))?;
    let scales = device
        .poisoned::<f32>(count(&layouts[2])?)
        .map_err(|e| text(&e))?;
    let plan = (|| -> Result<String, Error> {
        let from = on_x.slice(first..)?;
        let (mut to_q, mut to_scales) = (q.slice(first..)?, scales.slice(first..)?);
        let of_scales = ViewMut::new(&mut to_scales, &layouts[2])?;
        let call = Quantise::new(
            to,
            &View::new(&from, &layouts[0])?,
            &ViewMut::new(&mut to_q, &layouts[1])?,
        );
        let call = match (tensor, block) {
            (Some(scale), _) => call.tensor(scale),
            (None, Some(block)) => call.blocks(block, &of_scales),
            (None, None) => call.rows(&of_scales),
        };
        let usual = r.one_in(2);
        let random = std::cell::RefCell::new(r);
        let prepared = call.prepare_with(|problem, arch| {
            let own = (0..200).find_map(|_| drawn(&mut random.borrow_mut(), problem, arch));
            match own.filter(|_| !usual) {
                Some(plan) => Ok(plan),
                None => QuantisePlan::fastest(problem, arch),
            }
        })?;
        if let Some(kernel) = prepared.built() {
            assert!(
                crate::kernels::trapped(&kernel.kernel).is_empty(),
                "{prepared}"
            );
        }
        prepared.run(device)?;
        device.synchronize()?;
        Ok(prepared.to_string())
    })();
    let plan = plan.map_err(|e| text(&e))?;
    let found = q.download().map_err(|e| text(&e))?;
    let found_scales = scales.download().map_err(|e| text(&e))?;
    let mut expected = vec![0xff_u8; found.len()];
    let mut expected_scales = vec![u32::MAX; found_scales.len()];
    let at = |layout: &Layout, i: i64| -> Result<usize, String> {
        Ok(first + layout.at(i).map_err(|e| text(&e))? as usize)
    };
    for row in 0..rows {
        let mut begin = 0;
        while begin < columns {
            let end = (begin + length).min(columns);
            let mut numbers = Vec::new();
            for column in begin..end {
                numbers.push(x[at(&layouts[0], row + rows * column)?].to_f64() as f32);
            }
            let (scale, own) = match tensor {
                None => reference::row(to, &numbers).map_err(|e| text(&e))?,
                Some(scale) => (scale, by_scale(to, &numbers, scale)),
            };
            for (column, one) in (begin..end).zip(own) {
                expected[at(&layouts[1], row + rows * column)?] = one;
            }
            if tensor.is_none() {
                let number = if block.is_some() { begin / length } else { 0 };
                let place = at(&layouts[2], row + rows * number)?;
                expected_scales[place] = scale.to_bits();
            }
            begin = end;
        }
    }
    for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let found = Q::to_bytes(&[*found])[0];
        if !crate::kernels::fragments::alike(to, found.into(), (*expected).into()) {
            return Err(format!(
                "{what}, {plan}: number {i} is {found:#x} and should be {expected:#x}"
            ));
        }
    }
    for (i, (found, expected)) in found_scales.iter().zip(&expected_scales).enumerate() {
        let is_same =
            found.to_bits() == *expected || found.is_nan() && f32::from_bits(*expected).is_nan();
        if !is_same {
            let expected = f32::from_bits(*expected);
            return Err(format!(
                "{what}, {plan}: scale {i} is {found} and should be {expected}"
            ));
        }
    }
    Ok((rows * columns) as usize)
}

/// Numbers that a scale of their tensor divides.
fn by_scale(to: Ty, x: &[f32], scale: f32) -> Vec<u8> {
    use colex_tensor::Expr;
    let element = (Expr::input(0, Ty::F32) * Expr::input(1, Ty::F32)).saturating(to);
    let bits = |x: f32| u64::from(x.to_bits());
    let one = |x: &f32| element.evaluate(&[bits(*x), bits(1.0 / scale)]);
    x.iter()
        .map(|x| one(x).expect("two inputs") as u8)
        .collect()
}
