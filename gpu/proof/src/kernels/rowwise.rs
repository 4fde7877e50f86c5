//! Functions of rows on a device, against double precision.

use colex_gpu::kernels::GemmElement;
use colex_gpu::rowwise::{
    RowFunction, RowStorage, RowTensor, Rowwise, RowwisePlan, RowwiseProblem, reference,
};
use colex_gpu::{Buffer, Device, View, ViewMut};
use colex_layout::{IntTuple, Layout, Stride, Tuple};
use half::{bf16, f16};

use crate::sweep::Random;

/// Computes drawn functions of rows on a device, and compares every element: types, shapes of one to three modes, strides,
/// alignments, tensors, NaN and infinities, plans. Elements outside of the tensors are NaN, and stay. Returns the number of
/// elements.
///
/// # Errors
///
/// Returns the first problem whose result is wrong, in words.
pub fn check(device: &Device, seed: u64, rounds: usize) -> Result<usize, String> {
    let mut r = Random::of(seed, "rowwise");
    let mut count = 0;
    for round in 0..rounds {
        let run = r.one(&[run::<f32>, run::<f16>, run::<bf16>]);
        count += run(device, &mut r).map_err(|why| format!("round {round} of {seed}: {why}"))?;
    }
    Ok(count)
}

/// A layout of these extents: modes in any order, with gaps, and repeated rows of an input. `beside` is the mode of rows that lie beside
/// each other, mostly with the stride 1.
fn layout(r: &mut Random, extents: &[i64], is_output: bool, beside: Option<usize>) -> Layout {
    let mut strides = vec![0; extents.len()];
    let pad = r.one(&[0, 0, 8, 8, 4, 1]);
    let last = extents.len() - 1;
    // Mostly the columns run fastest.
    let mut order: Vec<usize> = match r.below(4_u64) {
        0 => r.permutation(extents.len()),
        _ => (0..extents.len()).rev().collect(),
    };
    let mut next = if r.one_in(6) { 2 } else { 1 };
    if order[0] != last && r.one_in(2) {
        order.reverse();
    }
    if let Some(beside) = beside {
        order = r.permutation(extents.len());
        order.retain(|mode| *mode != beside);
        order.insert(0, beside);
        next = if r.one_in(12) { 2 } else { 1 };
    }
    for mode in order {
        strides[mode] = next;
        next = next * extents[mode] + pad;
        if mode != last && Some(mode) != beside && !is_output && r.one_in(8) {
            strides[mode] = 0;
        }
    }
    let shape = IntTuple::flat(extents.iter().map(|n| colex_layout::Int::Dynamic(*n)));
    let strides = Tuple::flat(strides.into_iter().map(Stride::from));
    Layout::new(shape, strides).expect("extents above 0")
}

/// A tensor: its layout, its elements from `first` on, and where they are on the device.
struct TensorOfRows<T> {
    layout: Layout,
    first: usize,
    host: Vec<T>,
    device: Buffer<T>,
}

impl<T: GemmElement> TensorOfRows<T> {
    fn at(&self) -> Result<Buffer<T>, String> {
        let count = self.device.len();
        let part = self.device.slice(self.first..count);
        part.map_err(|e| e.to_string())
    }

    fn row(&self, offsets: &[i64]) -> Vec<f64> {
        let of = |offset: &i64| self.host[self.first + *offset as usize].to_f64();
        offsets.iter().map(of).collect()
    }
}

/// The numbers of an input: small ones, large ones, and some that are none.
fn numbers(r: &mut Random, count: usize, wild: bool) -> Vec<f64> {
    let magnitude = r.one(&[1.0, 1.0, 8.0]);
    let one = |r: &mut Random| {
        if wild && r.one_in(400) {
            return r.one(&[
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::NEG_INFINITY,
            ]);
        }
        f64::from(r.below(4001_i32) - 2000) / 1000.0 * magnitude
    };
    (0..count).map(|_| one(r)).collect()
}

/// A plan of any numbers for a problem; `None` if the drawn numbers are none of a plan.
fn drawn(r: &mut Random, problem: &RowwiseProblem, device: &Device) -> Option<RowwisePlan> {
    let plan = RowwisePlan::fastest(problem, device.arch()).ok()?;
    let threads = 1 << r.below(11_u32);
    let rows = 1 << r.below(6_u32);
    let once = r.one_in(3);
    let groups = 1 + r.below(3_i64);
    if plan.operands.turned > 0 && !r.one_in(4) {
        return turned(r, problem, device, plan);
    }
    if r.one_in(6) {
        let plan = RowwisePlan {
            meets_once: true,
            vector: 128 / i64::from(plan.operands.ty.bits()),
            threads: 32 << r.below(3_u32),
            rows: 1,
            accesses: 1 + r.below(4_i64),
            blocks: r.one(&[2, 3, 4, 7, 16, 33]),
            storage: RowStorage::Teams {
                groups,
                slots: groups * (1 + r.below(2_i64)),
                teams: 1 + r.below(3_i64),
            },
            ..plan
        };
        let fits = plan.check(device.arch()).is_ok() && plan.takes(problem);
        return fits.then_some(plan);
    }
    if r.one_in(4) {
        let vector = r.one(&[1, 4]) * 32 / i64::from(plan.operands.ty.bits());
        let clusters = r.one(&[0, 1, 2]) * vector;
        let plan = RowwisePlan {
            meets_once: once,
            vector,
            threads: 1 << (6 + r.below(3_u32)),
            rows: 1,
            accesses: 1 + r.below(4_i64),
            blocks: 1,
            storage: RowStorage::Shifted {
                rows: r.below(2_i64).min(clusters),
                clusters,
            },
            ..plan
        };
        let fits = plan.check(device.arch()).is_ok() && plan.takes(problem);
        return fits.then_some(plan);
    }
    if r.one_in(4) {
        let threads = 1 << r.below(5_u32);
        let tiles = r.below(4_i64);
        let vector = (128 / i64::from(plan.operands.ty.bits())) >> r.below(3_u32);
        let plan = RowwisePlan {
            meets_once: false,
            vector,
            threads,
            rows: (r.one(&[32, 64, 128]) / threads).max(vector),
            accesses: (problem.columns() + threads - 1) / threads,
            blocks: 1,
            storage: RowStorage::Staged {
                rows: r.below(2_i64).min(tiles),
                clusters: tiles,
            },
            ..plan
        };
        let fits = plan.check(device.arch()).is_ok() && plan.takes(problem);
        return fits.then_some(plan);
    }
    let has_weights = [RowTensor::Weight, RowTensor::Bias].map(|of| plan.operands.has(of));
    let keeps = r.one_in(2) && has_weights.contains(&true);
    let plan = RowwisePlan {
        vector: (plan.vector >> r.below(2_u32)).max(1),
        threads,
        meets_once: once,
        rows,
        accesses: 1 + r.below(8_i64),
        blocks: r.one(&[1, 1, 1, 2, 4, 8]),
        storage: match r.below(6_u64) {
            5 => RowStorage::Divided {
                held: r.below(3_i64),
                kept: 1 + r.below(3_i64),
                clusters: 1 + r.below(4_i64),
            },
            0 => RowStorage::Registers,
            4 => RowStorage::Alternating {
                groups,
                slots: groups * (1 + r.below(2_i64)),
                clusters: 1 + r.below(4_i64),
            },
            1 | 2 => RowStorage::Ahead {
                rows: r.below(4_i64),
                clusters: 1 + r.below(4_i64),
            },
            _ => RowStorage::Passes {
                kept: r.below(4_i64),
            },
        },
        ..plan
    };
    let plan = RowwisePlan {
        keeps_weights: keeps && matches!(plan.storage, RowStorage::Ahead { .. }),
        ..plan
    };
    let fits = plan.check(device.arch()).is_ok() && plan.takes(problem);
    fits.then_some(plan)
}

/// A plan of rows beside each other of any numbers.
fn turned(
    r: &mut Random,
    problem: &RowwiseProblem,
    device: &Device,
    plan: RowwisePlan,
) -> Option<RowwisePlan> {
    let vector = (plan.operands.turned >> r.below(3_u32)).max(1);
    let (across, threads) = (1 << r.below(7_u32), 1 << r.below(8_u32));
    let blocks = r.one(&[1, 1, 2, 4, 8]);
    let again = r.one_in(2);
    let whole = (problem.columns() + threads * blocks - 1) / (threads * blocks);
    let plan = RowwisePlan {
        vector,
        threads,
        rows: across * vector,
        accesses: if again { 1 + r.below(6_i64) } else { whole },
        blocks,
        storage: RowStorage::Turned { again },
        meets_once: false,
        keeps_weights: false,
        ..plan
    };
    let fits = plan.check(device.arch()).is_ok() && plan.takes(problem);
    fits.then_some(plan)
}

fn run<T: GemmElement>(device: &Device, r: &mut Random) -> Result<usize, String> {
    let function = r.one(&RowFunction::ALL);
    let columns = match r.below(4_u64) {
        0 => r.one(&[1, 2, 33, 1000, 1027, 4096]),
        1 => 8 * (1 + r.below(200_i64)),
        _ => 1 + r.below(600_i64),
    };
    let most = (8192 / columns).clamp(1, 7);
    let mut extents: Vec<i64> = (0..r.below(3_usize)).map(|_| 1 + r.below(most)).collect();
    // Rows beside each other: a mode of them of its own, among the others.
    let mut columns = columns;
    let beside = if r.one_in(3) {
        columns = r.one(&[1, 2, 7, 33, 100, 257, 600, columns]);
        let most = (16384 / columns).max(1);
        let rows = match r.below(3_u64) {
            0 => r.one(&[1, 3, 8, 64, 256]),
            1 => 8 * (1 + r.below(24_i64)),
            _ => 1 + r.below(150_i64),
        };
        let at = r.below(extents.len() + 1);
        for extent in &mut extents {
            *extent = (*extent).min(3);
        }
        extents.insert(at, rows.min(most));
        Some(at)
    } else {
        None
    };
    extents.push(columns);
    let mut tensors = vec![RowTensor::X, RowTensor::Y];
    if function.is_norm() {
        if r.one_in(2) {
            tensors.extend([RowTensor::Residual, RowTensor::Sum]);
        }
        let of_columns = [RowTensor::Weight, RowTensor::Bias];
        tensors.extend(of_columns.into_iter().filter(|_| r.one_in(2)));
    }
    let wild = r.one_in(4);
    let epsilon = r.one(&[1e-5f32, 0.25]);
    let what = format!("{function} of {extents:?} {}", T::TY);
    let text = |e: &dyn std::fmt::Display| format!("{what}: {e}");
    let mut all: [Option<TensorOfRows<T>>; 6] = Default::default();
    for tensor in tensors {
        let own = [columns];
        let extents = if tensor.is_of_columns() {
            &own[..]
        } else {
            &extents[..]
        };
        let beside = beside.filter(|_| !tensor.is_of_columns());
        let layout = layout(r, extents, tensor.is_output(), beside);
        let first = r.one(&[0, 0, 0, 8, 4, 1]);
        let length = first + layout.cosize().map_err(|e| text(&e))? as usize;
        let mut host = vec![T::from_f64(f64::NAN); length];
        let device = if tensor.is_output() {
            device.poisoned::<T>(length)
        } else {
            let offsets: Vec<i64> = layout.offsets().map_err(|e| text(&e))?.collect();
            let wild = wild && tensor == RowTensor::X;
            for (offset, x) in offsets.iter().zip(numbers(r, offsets.len(), wild)) {
                host[first + *offset as usize] = T::from_f64(x);
            }
            device.upload(&host)
        };
        let device = device.map_err(|e| text(&e))?;
        all[tensor as usize] = Some(TensorOfRows {
            layout,
            first,
            host,
            device,
        });
    }
    let mut buffers = Vec::new();
    for given in &all {
        buffers.push(given.as_ref().map(TensorOfRows::at).transpose()?);
    }
    {
        let [x, residual, weight, bias, y, sum] = &mut buffers[..] else {
            return Err("six tensors".into());
        };
        let layout = |tensor: RowTensor| all[tensor as usize].as_ref().map(|given| &given.layout);
        let (Some(x), Some(y)) = (x, y) else {
            return Err("x and y".into());
        };
        let of_x = View::new(&*x, layout(RowTensor::X).expect("x")).map_err(|e| text(&e))?;
        let of_y = ViewMut::new(y, layout(RowTensor::Y).expect("y")).map_err(|e| text(&e))?;
        let mut call = Rowwise::new(function, &of_x, &of_y).epsilon(epsilon);
        if let (Some(weight), Some(layout)) = (weight, layout(RowTensor::Weight)) {
            call = call.weight(&View::new(&*weight, layout).map_err(|e| text(&e))?);
        }
        if let (Some(bias), Some(layout)) = (bias, layout(RowTensor::Bias)) {
            call = call.bias(&View::new(&*bias, layout).map_err(|e| text(&e))?);
        }
        if let (Some(residual), Some(sum)) = (residual, sum) {
            let residual = View::new(&*residual, layout(RowTensor::Residual).expect("residual"));
            let sum = ViewMut::new(sum, layout(RowTensor::Sum).expect("sum"));
            call = call.residual(
                &residual.map_err(|e| text(&e))?,
                &sum.map_err(|e| text(&e))?,
            );
        }
        let problem = call.problem().map_err(|e| text(&e))?.ok_or("elements")?;
        let own = (0..20).find_map(|_| drawn(r, &problem, device));
        let own = own.filter(|_| r.one_in(2));
        let prepared = match own {
            Some(plan) => call.prepare_with(|_, _| Ok(plan)),
            None => call.prepare(),
        };
        let prepared = prepared.map_err(|e| text(&e))?;
        let what = format!("{what}, {prepared}");
        prepared.run(device).map_err(|e| format!("{what}: {e}"))?;
        device.synchronize().map_err(|e| format!("{what}: {e}"))?;
    }
    let mut count = 0;
    for output in [RowTensor::Y, RowTensor::Sum] {
        count += compare(&all, output, function, epsilon).map_err(|e| text(&e))?;
    }
    Ok(count)
}

/// The error of a layer norm's results that comes from the mean in f32: half a unit in the last place of the largest element, twice for
/// means of means, over the deviation and times the largest weight.
fn mean_error(x: &[f64], weight: Option<&[f64]>, epsilon: f32) -> f64 {
    let largest = |all: &[f64]| all.iter().fold(0.0, |a: f64, x| a.max(x.abs()));
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
    let deviation = (variance + f64::from(epsilon)).sqrt();
    let found = 2f64.powi(-23) * largest(x) / deviation * weight.map_or(1.0, largest);
    if found.is_finite() { found } else { 0.0 }
}

/// Compares an output with the reference, and checks that nothing else was written.
fn compare<T: GemmElement>(
    all: &[Option<TensorOfRows<T>>; 6],
    output: RowTensor,
    function: RowFunction,
    epsilon: f32,
) -> Result<usize, String> {
    let of = |tensor: RowTensor| all[tensor as usize].as_ref();
    let Some(given) = of(output) else {
        return Ok(0);
    };
    let found = given.device.download().map_err(|e| e.to_string())?;
    let mut is_written = vec![false; found.len()];
    let shape: Vec<i64> = given.layout.modes().map(|mode| mode.size()).collect();
    let (columns, outer) = shape.split_last().expect("columns");
    let rows: i64 = outer.iter().product();
    let offsets = |given: &TensorOfRows<T>, row: i64| -> Result<Vec<i64>, String> {
        // Colexicographic: the last mode is that of the columns.
        (0..*columns)
            .map(|c| given.layout.at(row + rows * c).map_err(|e| e.to_string()))
            .collect()
    };
    let column = |tensor: RowTensor| {
        of(tensor).map(|given| {
            let all: Vec<i64> = given.layout.offsets().expect("a vector").collect();
            given.row(&all)
        })
    };
    let (weight, bias) = (column(RowTensor::Weight), column(RowTensor::Bias));
    let rounded = |x: f64| T::from_f64(f64::from(x as f32)).to_f64();
    let step = match T::TY.bits() {
        32 => 2f64.powi(-24),
        _ if T::TY == colex_atom::Ty::F16 => 2f64.powi(-11),
        _ => 2f64.powi(-8),
    };
    for row in 0..rows {
        let x = of(RowTensor::X).expect("x");
        let mut x = x.row(&offsets(x, row)?);
        if let Some(residual) = of(RowTensor::Residual) {
            let residual = residual.row(&offsets(residual, row)?);
            x = x
                .iter()
                .zip(residual)
                .map(|(x, r)| rounded(x + r))
                .collect();
        }
        let want = match output {
            RowTensor::Sum => x.clone(),
            _ => reference::row(
                function,
                &x,
                weight.as_deref(),
                bias.as_deref(),
                epsilon.into(),
            ),
        };
        let largest = want
            .iter()
            .filter(|x| x.is_finite())
            .fold(0.0, |a: f64, x| a.max(x.abs()));
        let of_mean = match (output, function) {
            (RowTensor::Y, RowFunction::LayerNorm) => mean_error(&x, weight.as_deref(), epsilon),
            _ => 0.0,
        };
        for (at, want) in offsets(given, row)?.into_iter().zip(want) {
            let place = given.first + at as usize;
            is_written[place] = true;
            let y = found[place].to_f64();
            let apart = (y - want).abs();
            // One rounding to the type, the smallest numbers of f16, and the error of f32 and its functions; and of a layer norm, what the
            // rounded mean adds where a row varies little.
            let allowed = want.abs() * 1.01 * step + 1e-5 * largest + 2f64.powi(-24) + of_mean;
            let is_right = y == want || y.is_nan() && want.is_nan() || apart <= allowed;
            if !is_right {
                return Err(format!("{} is {y} in row {row}, not {want}", output.name()));
            }
        }
    }
    for (i, is_written) in is_written.iter().enumerate() {
        let bytes = T::to_bytes(&found[i..=i]);
        if !is_written && bytes.iter().any(|byte| *byte != 0xff) {
            return Err(format!("element {i} of {} was written", output.name()));
        }
    }
    Ok((rows * columns) as usize)
}
