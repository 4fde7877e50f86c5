//! Functions of rows on a device, against double precision.

use colex_atom::{Arch, Ty};
use colex_gpu::kernels::GemmElement;
use colex_gpu::rowwise::{
    RowFunction, RowStorage, RowTensor, Rowwise, RowwisePlan, RowwiseProblem, reference,
};
use colex_gpu::{Buffer, Device, Error, Rates, View, ViewMut};
use colex_layout::{IntTuple, Layout, Stride, Tuple};
use half::{bf16, f16};

use crate::soak;
use crate::sweep::Random;

/// Computes drawn functions of rows on a device, and compares every element: types, shapes of one to three modes, strides,
/// alignments, tensors, NaN and infinities, plans. Elements outside of the tensors are NaN, and stay. On a GPU, which computes long rows
/// quickly, one draw in sixty has rows of 2^16 columns or more, and the default plans of all lengths that [`check_lengths`] names run too.
/// Returns the number of elements.
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
    if !device.is_simulator() {
        count += check_lengths(device)?;
    }
    Ok(count)
}

/// The longest rows of the checks, and the bytes of a tensor from which on teams of blocks may have its rows.
pub const LONGEST: i64 = 1 << 20;
const OF_TEAMS: i64 = 1 << 26;

/// The most rows of a tensor: more than the clusters of a launch that has as many as run at once, so that a cluster has several rows.
const MOST_ROWS: i64 = 600;

/// The lengths below which plans are compared at each multiple of eight, and the distance of those above.
const NEAR: i64 = 1 << 14;
const STEP: i64 = 1 << 8;

/// The rows of this length that make up a tensor which teams may have, and at most [`MOST_ROWS`].
fn enough_rows(ty: Ty, columns: i64) -> i64 {
    let row = columns * i64::from(ty.bits()) / 8;
    ((OF_TEAMS + row - 1) / row).min(MOST_ROWS)
}

/// Returns the default plan of a call on a device of this architecture with these rates: of rows of this length that lie one after the
/// other, in a tensor as large as those of teams are.
///
/// # Errors
///
/// Returns an error if no kernel takes the type.
pub fn plan_of_length(
    (arch, rates): (Arch, Rates),
    function: RowFunction,
    ty: Ty,
    columns: i64,
) -> Result<RowwisePlan, Error> {
    let problem = RowwiseProblem::new(function, ty, [enough_rows(ty, columns), columns]);
    RowwisePlan::fastest_on(&problem, arch, rates)
}

/// Returns the lengths at which the default plan becomes another one, up to [`LONGEST`]: the last length of one storage, number of blocks or
/// number of threads, and the first length of the next, of those that are `odd` more than a multiple of eight. Of more than 2^14 columns, a
/// plan that has fewer than 256 lengths may be missed.
///
/// # Errors
///
/// Returns an error if no kernel takes the type.
pub fn ends(on: (Arch, Rates), function: RowFunction, ty: Ty, odd: i64) -> Result<Vec<i64>, Error> {
    let kind = |columns: i64| {
        let plan = plan_of_length(on, function, ty, columns + odd)?;
        let groups = match plan.storage {
            RowStorage::Alternating { groups, .. } | RowStorage::Teams { groups, .. } => groups,
            RowStorage::Registers
            | RowStorage::Ahead { .. }
            | RowStorage::Shifted { .. }
            | RowStorage::Staged { .. }
            | RowStorage::Divided { .. }
            | RowStorage::Turned { .. }
            | RowStorage::Passes { .. } => 1,
        };
        let storage = core::mem::discriminant(&plan.storage);
        Ok::<_, Error>((storage, groups, plan.blocks, plan.threads))
    };
    let (near, far) = (1..NEAR / 8, NEAR / STEP..=LONGEST / STEP);
    let all: Vec<i64> = near.map(|i| 8 * i).chain(far.map(|i| STEP * i)).collect();
    let mut found = Vec::new();
    for pair in all.windows(2) {
        let (mut last, mut first) = (pair[0], pair[1]);
        let (before, after) = (kind(last)?, kind(first)?);
        if before == after {
            continue;
        }
        while first - last > 8 {
            let middle = (last + first) / 16 * 8;
            if kind(middle)? == before {
                last = middle;
            } else {
                first = middle;
            }
        }
        found.extend([last + odd, first + odd]);
    }
    found.dedup();
    Ok(found)
}

/// Computes functions of rows of each length at which the default plan of the device becomes another one, and of 2^18, 2^19 and 2^20 columns,
/// by the default plans, and compares every element. The tensors have up to 64 MiB and more, so that teams have rows too, and so that a
/// cluster has several rows. Returns the number of elements.
///
/// # Errors
///
/// Returns the first problem whose result is wrong, in words.
pub fn check_lengths(device: &Device) -> Result<usize, String> {
    fn of<T: GemmElement>(
        device: &Device,
        function: RowFunction,
        columns: i64,
    ) -> Result<usize, String> {
        let shape = [enough_rows(T::TY, columns), columns].map(|extent| extent as usize);
        check_rows::<T>(device, function, shape, None)
    }
    let on = (device.arch(), device.rates());
    let lengths = |function, ty, odd| {
        let found = ends(on, function, ty, odd);
        found.map_err(|e| format!("{function} of {ty}: {e}"))
    };
    let each = if soak::takes_all() { 1 } else { 12 };
    let mut count = 0;
    for function in RowFunction::ALL {
        for columns in [1 << 18, 1 << 19, LONGEST] {
            count += of::<f32>(device, function, columns)?;
            count += of::<bf16>(device, function, columns)?;
            count += of::<f16>(device, function, columns)?;
        }
        // Of odd lengths, the functions of each kind have the same plans. The simulator has all lengths, and a device one in twelve: all
        // would take minutes.
        let is_first = matches!(function, RowFunction::Softmax | RowFunction::LayerNorm);
        for odd in if is_first { &[0, 1][..] } else { &[0] } {
            for columns in lengths(function, Ty::F32, *odd)?.into_iter().step_by(each) {
                count += of::<f32>(device, function, columns)?;
            }
            for columns in lengths(function, Ty::Bf16, *odd)?.into_iter().step_by(each) {
                count += of::<bf16>(device, function, columns)?;
            }
        }
    }
    Ok(count)
}

/// The different rows of a tensor of long rows. It repeats them, so that few rows are computed twice, and so that no two rows of a team or
/// of a turn are the same.
const DIFFERENT: usize = 7;

/// Computes a function of rows that lie one after the other, by this plan or the default one, and compares every element. Each of the
/// different rows has numbers of another size, so that the totals of another row are wrong ones. Returns the number of elements.
///
/// # Errors
///
/// Returns the first element that is wrong, in words.
pub fn check_rows<T: GemmElement>(
    device: &Device,
    function: RowFunction,
    [rows, columns]: [usize; 2],
    plan: Option<RowwisePlan>,
) -> Result<usize, String> {
    let what = format!("{function} of {rows} rows of {columns} {}", T::TY);
    let text = |e: &dyn std::fmt::Display| format!("{what}: {e}");
    let different = rows.min(DIFFERENT);
    let number = |i: usize| {
        let size = 1.0 + (i / columns) as f64 / 4.0;
        T::from_f64(((i * 7919 % 613) as f64 / 100.0 - 3.0) * size)
    };
    let own: Vec<T> = (0..different * columns).map(number).collect();
    let mut x = Vec::with_capacity(rows * columns);
    while x.len() < rows * columns {
        x.extend_from_slice(&own[..own.len().min(rows * columns - x.len())]);
    }
    let from = device.upload(&x).map_err(|e| text(&e))?;
    let to = device.poisoned::<T>(x.len()).map_err(|e| text(&e))?;
    let by = (|| -> Result<String, Error> {
        let mut to = to.clone();
        let (x, y) = (from.view((rows, columns))?, to.view_mut((rows, columns))?);
        let call = Rowwise::new(function, &x, &y);
        let Some(plan) = plan else {
            // As `run` of a call, which keeps its memory for teams.
            call.run()?;
            device.synchronize()?;
            let plan = call.plan()?;
            return Ok(plan.map_or(String::new(), |plan| plan.to_string()));
        };
        let call = call.prepare_with(|_, _| Ok(plan))?;
        call.run(device)?;
        device.synchronize()?;
        Ok(call.to_string())
    })();
    let by = by.map_err(|e| text(&e))?;
    let found = to.download().map_err(|e| text(&e))?;
    let mut first_of: Vec<Vec<u8>> = Vec::new();
    for (row, y) in found.chunks(columns).enumerate() {
        // Most rows have the bits of the first of their kind.
        let bytes = T::to_bytes(y);
        if first_of.get(row % different) == Some(&bytes) {
            continue;
        }
        let at = row % different * columns;
        let x: Vec<f64> = own[at..at + columns].iter().map(|x| x.to_f64()).collect();
        let want = reference::row(function, &x, None, None, 1e-5);
        let largest = want.iter().fold(0.0, |most: f64, y| most.max(y.abs()));
        // Twice half a unit of the type's digits, the smallest number of f16, and the sums of f32.
        let bound = match T::TY {
            Ty::F16 => largest * 2f64.powi(-10) + 2f64.powi(-24),
            _ if T::BYTES == 2 => largest * 2f64.powi(-8),
            _ => largest * 4e-6,
        };
        for (place, (want, found)) in want.iter().zip(y).enumerate() {
            let apart = (want - found.to_f64()).abs();
            // Also where the difference is NaN, as of an element that was not written.
            if apart.is_nan() || apart > bound {
                return Err(format!(
                    "{what}, {by}: element {place} of row {row} is {found:?}, not {want}"
                ));
            }
        }
        if row < different {
            first_of.push(bytes);
        }
    }
    Ok(rows * columns)
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
        let lag = r.one(&[0, 0, 1, 2]);
        let plan = RowwisePlan {
            meets_once: true,
            vector: 128 / i64::from(plan.operands.ty.bits()),
            threads: 32 << r.below(3_u32),
            rows: 1,
            accesses: 1 + r.below(4_i64),
            blocks: r.one(&[2, 3, 4, 7, 16, 33]),
            storage: RowStorage::Teams {
                groups,
                slots: groups * (lag + 1 + r.below(2_i64)),
                teams: 1 + r.below(3_i64),
                lag,
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
    // A simulator computes long rows in laws of their own.
    let is_long = !device.is_simulator() && r.one_in(60);
    let columns = match r.below(4_u64) {
        _ if is_long => r.one(&[1 << 16, 1 << 18, 1 << 19, LONGEST]) + r.one(&[0, 0, 8, 1]),
        0 => r.one(&[1, 2, 33, 1000, 1027, 4096]),
        1 => 8 * (1 + r.below(200_i64)),
        _ => 1 + r.below(600_i64),
    };
    let most = (8192 / columns).clamp(if is_long { 3 } else { 1 }, 7);
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
        // A few threads would add too many elements of a long row one after the other for the sums of f32.
        let own = own.filter(|_| r.one_in(2)).filter(|_| !is_long);
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

/// Compares the results of a row with the function of its elements in double precision, or with its elements if there is no function. The
/// elements of `x` have the sums of a residual, rounded to the type.
///
/// # Errors
///
/// Returns the first element that is wrong, in words.
pub fn compare_row<T: GemmElement>(
    function: Option<RowFunction>,
    x: &[f64],
    [weight, bias]: [Option<&[f64]>; 2],
    epsilon: f32,
    y: &[f64],
) -> Result<(), String> {
    let step = match T::TY.bits() {
        32 => 2f64.powi(-24),
        _ if T::TY == Ty::F16 => 2f64.powi(-11),
        _ => 2f64.powi(-8),
    };
    let want = match function {
        None => x.to_vec(),
        Some(function) => reference::row(function, x, weight, bias, epsilon.into()),
    };
    let largest = want
        .iter()
        .filter(|x| x.is_finite())
        .fold(0.0, |a: f64, x| a.max(x.abs()));
    let of_mean = match function {
        Some(RowFunction::LayerNorm) => mean_error(x, weight, epsilon),
        Some(_) | None => 0.0,
    };
    if y.len() != want.len() {
        return Err(format!("{} elements, not {}", y.len(), want.len()));
    }
    for (place, (y, want)) in y.iter().zip(want).enumerate() {
        let apart = (y - want).abs();
        // One rounding to the type, the smallest numbers of f16, and the error of f32 and its functions; and of a layer norm, what the
        // rounded mean adds where a row varies little.
        let allowed = want.abs() * 1.01 * step + 1e-5 * largest + 2f64.powi(-24) + of_mean;
        let is_right = *y == want || y.is_nan() && want.is_nan() || apart <= allowed;
        if !is_right {
            return Err(format!("element {place} is {y}, not {want}"));
        }
    }
    Ok(())
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
    let of_y = match output {
        RowTensor::Sum => None,
        _ => Some(function),
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
        let mut y = Vec::new();
        for at in offsets(given, row)? {
            let place = given.first + at as usize;
            is_written[place] = true;
            y.push(found[place].to_f64());
        }
        let weights = [weight.as_deref(), bias.as_deref()];
        let right = compare_row::<T>(of_y, &x, weights, epsilon, &y);
        right.map_err(|why| format!("{} in row {row}: {why}", output.name()))?;
    }
    for (i, is_written) in is_written.iter().enumerate() {
        let bytes = T::to_bytes(&found[i..=i]);
        if !is_written && bytes.iter().any(|byte| *byte != 0xff) {
            return Err(format!("element {i} of {} was written", output.name()));
        }
    }
    Ok((rows * columns) as usize)
}
