//! Softmax and norms of rows by the kernels of the library against double precision.

use colex_atom::{Arch, Ty};
use colex_gpu::kernels::GemmElement;
use colex_gpu::rowwise::{
    RowFunction, RowStorage, Rowwise, RowwisePlan, RowwiseProblem, reference,
};
use colex_gpu::sim::{Schedule, SimOptions};
use colex_gpu::testing::{self, Output};
use colex_gpu::{Buffer, Device, Rates, View, ViewMut, cumulative_sum, softmax};
use colex_ir::launch::Launch;
use colex_layout::{Int, IntTuple, Layout, Stride, Tuple};
use colex_proof::kernels::rowwise::{LONGEST, check_rows, ends, plan_of_length};
use colex_proof::soak::{draws, takes};
use colex_proof::sweep::Random;
use colex_tensor::Arg;
use half::{bf16, f16};

/// The lanes of a warp.
const WARP: i64 = 32;

/// Rows of which shared memory keeps nothing.
const PASSES: RowStorage = RowStorage::Passes { kept: 0 };

/// Rows that are staged in shared memory, one tile of each block.
const STAGED: RowStorage = RowStorage::Staged {
    rows: 0,
    clusters: 0,
};

/// Rows that begin anywhere, one of each block.
const SHIFTED: RowStorage = RowStorage::Shifted {
    rows: 0,
    clusters: 0,
};

fn simulator(arch: Arch, seed: u64) -> Device {
    let options = SimOptions::default().schedule(Schedule::from_seed(seed));
    Device::simulator_with(arch, options)
}

/// Types, shapes, strides, alignments, NaN and infinities, and plans.
#[test]
fn law_functions_of_rows_are_those_of_the_reference() {
    let count = draws(15);
    let mut elements = 0;
    let archs = [Arch::Sm80, Arch::Sm90a, Arch::Sm70, Arch::Sm90a];
    for (i, arch) in archs.into_iter().enumerate() {
        let device = simulator(arch, i as u64);
        let found = colex_proof::kernels::rowwise::check(&device, 40 + i as u64, count);
        elements += found.unwrap_or_else(|why| panic!("{arch}: {why}"));
    }
    println!("law rowwise: {} cases, {elements} elements", 4 * count);
}

/// The result of a plan for a function of rows of f32.
fn result(
    arch: Arch,
    function: RowFunction,
    [rows, columns]: [usize; 2],
    x: &[f32],
    plan: impl Fn(RowwisePlan) -> RowwisePlan,
) -> Vec<f32> {
    let found = testing::in_every_schedule(arch, 3, |device| {
        let x = device.upload(x)?;
        let mut y = Output::<f32>::new(device, rows * columns)?;
        let (from, to) = (
            x.view((rows, columns))?,
            y.buffer().view_mut((rows, columns))?,
        );
        let call = Rowwise::new(function, &from, &to)
            .prepare_with(|problem, arch| Ok(plan(RowwisePlan::fastest(problem, arch)?)))?;
        call.run(device)?;
        // Elements that are NaN count as not written, so that they are compared as bits of another sign.
        let bits = y.buffer().download()?;
        Ok(bits.iter().map(|x| x.to_bits()).collect::<Vec<u32>>())
    });
    let found = found.unwrap_or_else(|why| panic!("{function}: {why}"));
    found.into_iter().map(f32::from_bits).collect()
}

/// Rows in the registers of a warp, a block and a cluster, and rows in passes, under several schedules.
#[test]
fn law_plans_of_rows_agree() {
    let [rows, columns] = [3, 1000];
    let x: Vec<f32> = (0..rows * columns)
        .map(|i| (i * 7919 % 613) as f32 / 60.0 - 5.0)
        .collect();
    let held = |threads, accesses, blocks| {
        move |plan| RowwisePlan {
            threads,
            rows: 1,
            accesses,
            blocks,
            ..plan
        }
    };
    let passes = |threads, accesses, blocks| {
        move |plan| RowwisePlan {
            threads,
            rows: 1,
            accesses,
            blocks,
            storage: RowStorage::Passes { kept: 0 },
            ..plan
        }
    };
    let ahead = |(threads, accesses): (i64, i64), rows, blocks, (ahead, clusters): (i64, i64)| {
        move |plan| RowwisePlan {
            threads,
            rows,
            accesses,
            blocks,
            storage: RowStorage::Ahead {
                rows: ahead,
                clusters,
            },
            ..plan
        }
    };
    let kept = |threads, blocks, kept| {
        move |plan| RowwisePlan {
            threads,
            rows: 1,
            accesses: 1,
            blocks,
            storage: RowStorage::Passes { kept },
            ..plan
        }
    };
    let alternating = |(threads, accesses), blocks, [groups, slots, clusters]: [i64; 3]| {
        move |plan| RowwisePlan {
            threads,
            rows: 1,
            accesses,
            blocks,
            storage: RowStorage::Alternating {
                groups,
                slots,
                clusters,
            },
            ..plan
        }
    };
    let mut cases = 0;
    for function in RowFunction::ALL {
        let found = [
            result(Arch::Sm80, function, [rows, columns], &x, |plan| plan),
            result(Arch::Sm80, function, [rows, columns], &x, held(32, 8, 1)),
            result(Arch::Sm80, function, [rows, columns], &x, held(256, 1, 1)),
            result(Arch::Sm90a, function, [rows, columns], &x, held(64, 2, 2)),
            result(Arch::Sm80, function, [rows, columns], &x, passes(64, 1, 1)),
            result(Arch::Sm90a, function, [rows, columns], &x, passes(32, 2, 2)),
            // One row after the other; two at a time, of which the second tile has one; by a block of many warps; by a cluster.
            result(
                Arch::Sm80,
                function,
                [rows, columns],
                &x,
                ahead((32, 8), 1, 1, (2, 1)),
            ),
            result(
                Arch::Sm80,
                function,
                [rows, columns],
                &x,
                ahead((64, 4), 2, 1, (1, 1)),
            ),
            result(
                Arch::Sm80,
                function,
                [rows, columns],
                &x,
                ahead((256, 1), 1, 1, (3, 2)),
            ),
            result(
                Arch::Sm90a,
                function,
                [rows, columns],
                &x,
                ahead((64, 2), 1, 2, (2, 1)),
            ),
            // One chunk of many is kept, and more than there are.
            result(Arch::Sm80, function, [rows, columns], &x, kept(32, 1, 1)),
            result(Arch::Sm80, function, [rows, columns], &x, kept(256, 1, 3)),
            result(Arch::Sm90a, function, [rows, columns], &x, kept(32, 2, 2)),
        ];
        // The warps of a row meet once: of a block with one row and with several, of a cluster, in passes, and shifted.
        let once: [&dyn Fn(RowwisePlan) -> RowwisePlan; 14] = [
            &held(256, 1, 1),
            &held(64, 2, 2),
            &|plan| RowwisePlan {
                rows: 2,
                ..held(256, 1, 1)(plan)
            },
            &ahead((256, 2), 2, 1, (1, 1)),
            &held(32, 3, 4),
            &kept(64, 2, 1),
            &ahead((256, 1), 1, 1, (3, 1)),
            &ahead((64, 2), 1, 2, (2, 1)),
            &kept(256, 1, 1),
            &|plan| RowwisePlan {
                vector: 4,
                threads: 64,
                rows: 1,
                accesses: 4,
                storage: SHIFTED,
                ..plan
            },
            // Groups take rows in turn: of one block, with as many slots as groups, of clusters, and one group alone.
            &alternating((64, 4), 1, [2, 4, 1]),
            &alternating((32, 8), 1, [3, 3, 1]),
            &alternating((32, 4), 2, [2, 2, 1]),
            &alternating((64, 2), 2, [1, 2, 2]),
        ];
        let once = once.map(|plan| {
            let once = |of| RowwisePlan {
                meets_once: true,
                ..plan(of)
            };
            result(Arch::Sm90a, function, [rows, columns], &x, once)
        });
        for (i, found) in found.iter().chain(&once).enumerate() {
            for (x, found) in x.chunks(columns).zip(found.chunks(columns)) {
                let x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
                let want = reference::row(function, &x, None, None, 1e-5);
                let far = want
                    .iter()
                    .zip(found)
                    .map(|(a, b)| (a - f64::from(*b)).abs());
                let largest = want.iter().fold(0.0, |a: f64, x| a.max(x.abs()));
                let far = far.fold(0.0, f64::max);
                assert!(
                    far <= 4e-6 * largest,
                    "{function}, plan {i}: {far} of {largest}"
                );
            }
            cases += 1;
        }
    }
    println!("law rowwise.plans: {cases} cases");
}

/// Runs a plan under several schedules, in each of which the bits are the same, and compares every row with double precision: rows with a
/// NaN, with infinities and of -inf alone are among those of a softmax.
fn rows_are_right<T: GemmElement>(
    function: RowFunction,
    [rows, columns]: [usize; 2],
    plan: impl Fn(&RowwiseProblem) -> RowwisePlan,
) {
    let number = |i: usize| T::from_f64((i * 7919 % 613) as f64 / 60.0 - 5.0);
    let mut x: Vec<T> = (0..rows * columns).map(number).collect();
    if function == RowFunction::Softmax {
        // Rows with a NaN, with infinities, and of -inf alone.
        let others = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        for (row, other) in x.chunks_mut(columns).zip(others) {
            row[columns / 2] = T::from_f64(other);
        }
        if let Some(row) = x.chunks_mut(columns).nth(3) {
            row.fill(T::from_f64(f64::NEG_INFINITY));
        }
    }
    let found = testing::in_every_schedule(Arch::Sm90a, 4, |device| {
        let from = device.upload(&x)?;
        let mut y = Output::<T>::new(device, rows * columns)?;
        let shape = (rows, columns);
        let (from, to) = (from.view(shape)?, y.buffer().view_mut(shape)?);
        let call =
            Rowwise::new(function, &from, &to).prepare_with(|problem, _| Ok(plan(problem)))?;
        call.run(device)?;
        let all = y.elements()?;
        // A NaN is another number than itself, so the schedules are compared as bits.
        Ok(all
            .iter()
            .map(|y| y.to_f64().to_bits())
            .collect::<Vec<u64>>())
    });
    let found = found.unwrap_or_else(|why| panic!("{function}, {rows} of {columns}: {why}"));
    let found: Vec<f64> = found.into_iter().map(f64::from_bits).collect();
    for (x, found) in x.chunks(columns).zip(found.chunks(columns)) {
        let x: Vec<f64> = x.iter().map(|x| x.to_f64()).collect();
        let want = reference::row(function, &x, None, None, 1e-5);
        let largest = want.iter().fold(0.0, |a: f64, x| a.max(x.abs()));
        let step = if T::BYTES == 2 { 2f64.powi(-8) } else { 4e-6 };
        for (want, found) in want.iter().zip(found) {
            let apart = (want - found).abs();
            assert!(
                apart <= step * largest || want.is_nan() && found.is_nan(),
                "{function}, {rows} rows of {columns}: {found}, not {want}"
            );
        }
    }
}

/// Rows of a group or two in turn, of a block or a cluster, and of a team.
const IN_TURN: RowStorage = RowStorage::Alternating {
    groups: 2,
    slots: 2,
    clusters: 2,
};
const IN_TEAMS: RowStorage = RowStorage::Teams {
    groups: 1,
    slots: 1,
    teams: 2,
    lag: 0,
};
const IN_TEAMS_OF_TWO_GROUPS: RowStorage = RowStorage::Teams {
    groups: 2,
    slots: 4,
    teams: 1,
    lag: 0,
};
const IN_TEAMS_BEHIND: RowStorage = RowStorage::Teams {
    groups: 2,
    slots: 4,
    teams: 1,
    lag: 1,
};

/// Rows that groups of threads take in turn: of each number of rows from one to several turns of the ring, of lengths that end inside of
/// a vector's tile, between two blocks, and before the last blocks of a cluster; in both widths, with NaN and infinities, under several
/// schedules.
#[test]
fn law_rows_in_turn_are_those_of_the_reference() {
    let functions = [
        RowFunction::Softmax,
        RowFunction::LogSoftmax,
        RowFunction::RmsNorm,
        RowFunction::LayerNorm,
    ];
    let mut cases = 0;
    // Threads and accesses; blocks; groups, slots and clusters.
    for (i, (of_thread, blocks, turns)) in [
        ((32, 2), 1, [2, 2, 1]),
        ((32, 2), 1, [2, 4, 2]),
        ((64, 1), 1, [3, 6, 1]),
        ((32, 3), 2, [2, 4, 1]),
        ((32, 1), 4, [2, 2, 2]),
        ((64, 1), 2, [4, 4, 1]),
        ((32, 1), 8, [1, 2, 1]),
        // One group whose slot has the next row soon, up to the most threads; and the most numbers of a thread.
        ((1024, 1), 1, [1, 1, 1]),
        ((256, 1), 2, [1, 1, 1]),
        ((32, 16), 1, [1, 1, 2]),
        ((32, 16), 2, [2, 2, 1]),
    ]
    .into_iter()
    .enumerate()
    {
        let plan = |problem: &RowwiseProblem| RowwisePlan {
            operands: problem.operands(),
            vector: problem.operands().vector,
            threads: of_thread.0,
            rows: 1,
            accesses: of_thread.1,
            blocks,
            storage: RowStorage::Alternating {
                groups: turns[0],
                slots: turns[1],
                clusters: turns[2],
            },
            meets_once: true,
            keeps_weights: false,
        };
        let all = (of_thread.0 * of_thread.1 * blocks) as usize;
        let of_block = all / blocks as usize;
        let slots = turns[1] as usize;
        for (j, vectors) in [all, all - 1, of_block, of_block / 2 + 1, 1]
            .into_iter()
            .enumerate()
        {
            let rows = [3 * slots + 2, 1, slots, 2 * slots + 1, 2][(i + j) % 5];
            let function = functions[(i + j) % 4];
            rows_are_right::<f32>(function, [rows, 4 * vectors], plan);
            rows_are_right::<bf16>(function, [rows, 8 * vectors], plan);
            cases += 2;
        }
    }
    println!("law rowwise.turns: {cases} cases");
}

/// Rows that registers and shared memory hold together: with and without chunks in registers, with fewer and more rows than clusters, of
/// lengths that end inside of the last chunk, between two blocks, and with its first vector; by warps that meet once and twice, by few warps
/// and by clusters, with vectors of each width, several rows in a block, in every type, with NaN and infinities, under several schedules.
#[test]
fn law_divided_rows_are_those_of_the_reference() {
    let mut cases = 0;
    // Threads and accesses; rows and blocks; chunks in registers and in shared memory, and clusters.
    for (i, (of_thread, [rows, blocks], of_row)) in [
        ((32, 1), [1, 1], [1, 2, 1]),
        ((64, 2), [1, 1], [0, 3, 2]),
        ((256, 1), [1, 1], [2, 1, 3]),
        ((512, 1), [1, 1], [1, 1, 1]),
        ((64, 1), [2, 1], [3, 2, 1]),
        ((32, 1), [1, 2], [2, 3, 1]),
        ((64, 2), [1, 4], [1, 1, 2]),
        ((256, 1), [1, 2], [8, 1, 1]),
    ]
    .into_iter()
    .enumerate()
    {
        let [held, kept, clusters] = of_row;
        let chunk = (of_thread.0 * of_thread.1) as usize;
        let turn = chunk * blocks as usize;
        let full = turn * (held + kept - 1) as usize;
        let lengths = [full + turn, full + turn - 1, full + 1, full + chunk / 2];
        for (j, vectors) in lengths.into_iter().enumerate() {
            let function = RowFunction::ALL[(i + j) % 4];
            let narrow = j == 1;
            let plan = |problem: &RowwiseProblem| {
                let operands = problem.operands();
                let vector = 128 / i64::from(operands.ty.bits()) / if narrow { 2 } else { 1 };
                let plan = RowwisePlan {
                    operands,
                    vector,
                    threads: of_thread.0,
                    rows,
                    accesses: of_thread.1,
                    blocks,
                    storage: RowStorage::Divided {
                        held,
                        kept,
                        clusters,
                    },
                    meets_once: false,
                    keeps_weights: false,
                };
                let once = RowwisePlan {
                    meets_once: true,
                    ..plan
                };
                let is_once = j != 2 && once.check(Arch::Sm90a).is_ok();
                if is_once { once } else { plan }
            };
            let at_once = (rows * clusters) as usize;
            let rows = [3 * at_once + 1, at_once, 1, 2 * at_once + 1][(i + j) % 4];
            let columns = |most: usize| most / if narrow { 2 } else { 1 } * vectors;
            match (i + j) % 3 {
                0 => rows_are_right::<f32>(function, [rows, columns(4)], plan),
                1 => rows_are_right::<bf16>(function, [rows, columns(8)], plan),
                _ => rows_are_right::<f16>(function, [rows, columns(8)], plan),
            }
            cases += 1;
        }
    }
    println!("law rowwise.divided: {cases} cases");
}

/// Views whose rows lie beside each other, by the default plan or another one, under several schedules, compared with double precision:
/// (other rows, rows beside each other, columns). A call of a norm may have a residual, weights and a bias.
fn turned_rows_are_right<T: GemmElement>(
    arch: Arch,
    function: RowFunction,
    [others, rows, columns]: [usize; 3],
    has_all: bool,
    plan: &dyn Fn(&RowwiseProblem) -> Option<RowwisePlan>,
) {
    let number = |i: usize, step: usize| T::from_f64((i * step % 613) as f64 / 60.0 - 5.0);
    let count = others * rows * columns;
    let of =
        |count: usize, step: usize| -> Vec<T> { (0..count).map(|i| number(i, step)).collect() };
    let [mut x, residual] = [7919, 104_729].map(|step| of(count, step));
    let [weight, bias] = [31, 47].map(|step| of(columns, step));
    let at = |other: usize, row: usize, column: usize| (other * columns + column) * rows + row;
    if !function.is_norm() {
        // Rows with a NaN, with infinities, and of -inf alone.
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        for (row, odd) in (0..rows).zip(odd) {
            x[at(0, row, columns / 2)] = T::from_f64(odd);
        }
        if rows > 3 {
            for column in 0..columns {
                x[at(others - 1, 3, column)] = T::from_f64(f64::NEG_INFINITY);
            }
        }
    }
    let has_all = has_all && function.is_norm();
    let found = testing::in_every_schedule(arch, 3, |device| {
        let [x, residual] = [&x, &residual].map(|of| device.upload(of));
        let [weight, bias] = [&weight, &bias].map(|of| device.upload(of));
        let (x, residual, weight, bias) = (x?, residual?, weight?, bias?);
        let (mut y, mut sum) = (Output::new(device, count)?, Output::new(device, count)?);
        let [n, m, k] = [others, rows, columns].map(|extent| extent as i64);
        let layout = Layout::new((n, m, k), (m * k, 1, m)).expect("a layout");
        let (from, to) = (
            View::new(&x, layout.clone())?,
            ViewMut::new(y.buffer(), layout.clone())?,
        );
        let mut call = Rowwise::new(function, &from, &to);
        let (of_residual, of_sum) = (
            View::new(&residual, layout.clone())?,
            ViewMut::new(sum.buffer(), layout)?,
        );
        if has_all {
            call = call.residual(&of_residual, &of_sum);
            call = call
                .weight(&weight.view(columns)?)
                .bias(&bias.view(columns)?);
        }
        let call = call.prepare_with(|problem, arch| match plan(problem) {
            Some(plan) => Ok(plan),
            None => RowwisePlan::fastest(problem, arch),
        })?;
        let chosen = call.plan().expect("there are rows");
        assert!(
            matches!(chosen.storage, RowStorage::Turned { .. }),
            "{chosen}"
        );
        call.run(device)?;
        let (y, sum) = (
            y.elements()?,
            if has_all { sum.elements()? } else { Vec::new() },
        );
        let all = y.iter().chain(&sum);
        Ok(all.map(|y| y.to_f64().to_bits()).collect::<Vec<u64>>())
    });
    let what = format!("{function}, {others} x {rows} rows of {columns} {}", T::TY);
    let found = found.unwrap_or_else(|why| panic!("{what}: {why}"));
    let found: Vec<f64> = found.into_iter().map(f64::from_bits).collect();
    let wide = |of: &[T]| -> Vec<f64> { of.iter().map(|x| x.to_f64()).collect() };
    let of_columns = [&weight, &bias].map(|of| has_all.then(|| wide(of)));
    for (other, row) in (0..others).flat_map(|other| (0..rows).map(move |row| (other, row))) {
        let places = (0..columns).map(|column| at(other, row, column));
        let row_of = |of: &[f64]| -> Vec<f64> { places.clone().map(|at| of[at]).collect() };
        let mut x = row_of(&wide(&x));
        if has_all {
            let both = x.iter().zip(row_of(&wide(&residual)));
            x = both
                .map(|(x, r)| T::from_f64(f64::from((x + r) as f32)).to_f64())
                .collect();
            assert_eq!(row_of(&found[count..]), x, "{what}: the sum");
        }
        let [weight, bias] = of_columns.each_ref().map(Option::as_deref);
        let want = reference::row(function, &x, weight, bias, 1e-5);
        let largest = want.iter().fold(0.0, |a: f64, x| a.max(x.abs()));
        let step = if T::BYTES == 2 { 2f64.powi(-8) } else { 6e-6 };
        for (want, found) in want.iter().zip(row_of(&found)) {
            let apart = (want - found).abs();
            assert!(
                apart <= step * largest || want.is_nan() && found.is_nan() || *want == found,
                "{what}, row {row}: {found}, not {want}"
            );
        }
    }
}

/// Rows that lie beside each other, in registers and in passes: by vectors of each width, by few and many threads beside each other and
/// along the columns, by warps that share rows or do not, by clusters of each size; with fewer rows than a block has, rows that end inside
/// of a block, one row and one column, and lengths that end inside of a turn and between blocks; in every type, with NaN and infinities,
/// with a residual, weights and a bias, under several schedules.
#[test]
fn law_turned_rows_are_those_of_the_reference() {
    let mut cases = 0;
    // Threads beside each other and along the columns, blocks, and accesses.
    for (i, ([across, threads], blocks, accesses)) in [
        ([8, 4], 1, 5),
        ([8, 16], 1, 3),
        ([4, 64], 1, 2),
        ([32, 1], 1, 7),
        ([64, 2], 1, 4),
        ([1, 32], 1, 3),
        ([16, 8], 1, 1),
        ([1, 256], 1, 1),
        ([8, 4], 2, 2),
        ([4, 32], 4, 2),
        ([32, 2], 8, 1),
        ([64, 1], 2, 3),
        ([2, 64], 8, 1),
    ]
    .into_iter()
    .enumerate()
    {
        let all = (threads * blocks * accesses) as usize;
        let of_block = (threads * accesses) as usize;
        for (j, again) in [false, true, false, true].into_iter().enumerate() {
            let columns = match (again, (i + j) % 5) {
                (_, 0) => all,
                (_, 1) => 2,
                (false, 2) => all - of_block / 2,
                (false, _) => all.div_ceil(2).max(2) - 1,
                (true, 2) => all + 1,
                (true, _) => 2 * all + of_block / 2 + 1,
            };
            // One column would have the stride 1.
            let columns = columns.max(2);
            let width = [8_i64, 4, 2, 1][(i + j / 2) % 4];
            let of_block = (across * width) as usize;
            let widths = width as usize;
            let rows = [
                of_block + widths,
                of_block,
                widths,
                2 * of_block + 3 * widths,
            ][(i + j) % 4];
            let plan = |problem: &RowwiseProblem| {
                let operands = problem.operands();
                let vector = width.min(operands.turned);
                Some(RowwisePlan {
                    operands,
                    vector,
                    threads,
                    rows: across * vector,
                    accesses,
                    blocks,
                    storage: RowStorage::Turned { again },
                    meets_once: false,
                    keeps_weights: false,
                })
            };
            let function = RowFunction::ALL[(i + j) % 4];
            let shape = [1 + (i + j) % 3, rows, columns];
            let has_all = (i + j / 2) % 2 == 0;
            match (i + j) % 3 {
                0 => turned_rows_are_right::<f32>(Arch::Sm90a, function, shape, has_all, &plan),
                1 => turned_rows_are_right::<bf16>(Arch::Sm90a, function, shape, has_all, &plan),
                _ => turned_rows_are_right::<f16>(Arch::Sm90a, function, shape, has_all, &plan),
            }
            cases += 1;
        }
    }
    // The default plans of each architecture.
    for (i, arch) in [Arch::Sm70, Arch::Sm75, Arch::Sm80, Arch::Sm90a]
        .into_iter()
        .enumerate()
    {
        for (j, shape) in [
            [2, 40, 300],
            [3, 7, 20],
            [1, 8, 1100],
            [1, 24, 17],
            [2, 33, 65],
            [1, 1000, 3],
            [1, 16, 2600],
        ]
        .into_iter()
        .enumerate()
        {
            let function = RowFunction::ALL[(i + j) % 4];
            turned_rows_are_right::<f32>(arch, function, shape, j % 2 == 0, &|_| None);
            turned_rows_are_right::<f16>(arch, function, shape, j % 2 == 1, &|_| None);
            cases += 2;
        }
    }
    println!("law rowwise.turned: {cases} cases");
}

/// A layer norm of turned rows by one pass for both totals is as exact as one in registers, which subtracts the mean first: of rows with
/// a large mean, of rows whose first columns are far from the others, of a ramp, and of one large number among small ones.
#[test]
fn law_a_layer_norm_of_turned_rows_in_passes_is_as_exact() {
    let (rows, columns) = (8, 3000);
    let noise = |i: usize| (i * 7919 % 613) as f32 / 306.0 - 1.0;
    let kinds: [&dyn Fn(usize) -> f32; 5] = [
        &|i| 1000.0 + noise(i),
        &|i| if i < 600 { 0.0 } else { 1e4 } + noise(i),
        &|i| i as f32 + noise(i),
        &|i| if i == 0 { 1e6 } else { noise(i) },
        &|_| 3.3,
    ];
    // Two units in the last place of the mean, and some of the largest result.
    let allowed = |x: &[f64], y: &[f64]| {
        let largest = |of: &[f64]| of.iter().fold(0.0, |a: f64, x| a.max(x.abs()));
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
        2f64.powi(-22) * mean.abs() / (variance + 1e-5).sqrt() + 3e-6 * largest(y)
    };
    for (kind, of) in kinds.into_iter().enumerate() {
        // The rows begin at other columns of the noise.
        let number = |row: usize, column: usize| of(column) + noise(row);
        let x: Vec<f32> = (0..rows * columns)
            .map(|at| number(at % rows, at / rows))
            .collect();
        let error = |blocks: i64, threads: i64, again: bool| {
            let device = simulator(Arch::Sm90a, 3);
            let from = device.upload(&x).expect("memory");
            let mut y = device.poisoned::<f32>(rows * columns).expect("memory");
            let [m, n] = [rows, columns].map(|extent| extent as i64);
            let layout = Layout::new((m, n), (1, m)).expect("a layout");
            {
                let view = View::new(&from, layout.clone()).expect("a view");
                let to = ViewMut::new(&mut y, layout).expect("a view");
                let call = Rowwise::new(RowFunction::LayerNorm, &view, &to);
                let call = call.prepare_with(|problem, arch| {
                    let plan = RowwisePlan::fastest(problem, arch)?;
                    let all = threads * blocks;
                    Ok(RowwisePlan {
                        vector: 4,
                        rows: 8,
                        threads,
                        blocks,
                        accesses: if again { 4 } else { (n + all - 1) / all },
                        storage: RowStorage::Turned { again },
                        ..plan
                    })
                });
                let call = call.expect("a call");
                call.run(&device).expect("a run");
            }
            let y = y.download().expect("results");
            let mut most = 0.0_f64;
            for row in 0..rows {
                let x: Vec<f64> = (0..columns).map(|i| f64::from(number(row, i))).collect();
                let all = reference::row(RowFunction::LayerNorm, &x, None, None, 1e-5);
                for (i, want) in all.iter().enumerate() {
                    let apart = (want - f64::from(y[i * rows + row])).abs();
                    most = most.max(apart / allowed(&x, &all));
                }
            }
            most
        };
        let held = error(2, 128, false);
        for (blocks, threads) in [(1, 16), (1, 128), (4, 32)] {
            let again = error(blocks, threads, true);
            assert!(
                again <= 1.0 && held <= 1.0,
                "kind {kind}, {threads} threads, {blocks} blocks: {again} in passes, {held} in registers"
            );
        }
    }
    println!("law rowwise.turned.norm: 15 cases");
}

/// The plans of rows beside each other: how many threads take a column at once and share a row, accesses, blocks, and whether rows are read
/// again.
#[test]
fn the_plan_of_turned_rows_follows_from_their_bytes() {
    let of = |arch, function, ty, extents: &[i64], along| {
        let problem = RowwiseProblem::along(function, ty, extents, along).expect("a problem");
        let plan = RowwisePlan::fastest(&problem, arch).expect("a plan");
        let RowStorage::Turned { again } = plan.storage else {
            panic!("{plan}");
        };
        assert!(plan.check(arch).is_ok() && plan.takes(&problem), "{plan}");
        let across = plan.rows / plan.vector;
        let numbers = [across, plan.threads, plan.accesses, plan.blocks];
        // A row is read once, or twice.
        let must = problem.compulsory_bytes();
        let moved = if again { must + must / 2 } else { must };
        assert_eq!(plan.bytes(&problem), moved, "{plan}");
        (numbers, again)
    };
    let softmax =
        |arch, ty, extents: &[i64], along| of(arch, RowFunction::Softmax, ty, extents, along);
    let [hopper, ampere] = [Arch::Sm90a, Arch::Sm80];
    for ty in [Ty::Bf16, Ty::F32] {
        let found = |arch, extents: &[i64], along| softmax(arch, ty, extents, along);
        // Few columns: as many threads share a row as have eight columns each.
        assert_eq!(found(hopper, &[8, 1 << 20], 0), ([128, 1, 8, 1], false));
        assert_eq!(found(hopper, &[100, 65536], 0), ([8, 16, 7, 1], false));
        assert_eq!(found(hopper, &[256, 65536], 0), ([8, 32, 8, 1], false));
        // 128 bytes of 512 columns are 64 KiB, and so are 64 bytes of 1024.
        assert_eq!(found(hopper, &[512, 65536], 0), ([8, 32, 16, 1], false));
        // Of `f32`, twice the threads take 128 bytes.
        let across = if ty == Ty::F32 { 8 } else { 4 };
        let held = ([across, 64, 16, 1], false);
        assert_eq!(found(hopper, &[1000, 65536], 0), held);
        assert_eq!(found(hopper, &[64, 1024, 1024], 1), held);
        // Clusters hold longer ones.
        assert_eq!(found(hopper, &[4096, 16384], 0), ([4, 64, 16, 4], false));
        assert_eq!(found(hopper, &[8192, 16384], 0), ([4, 64, 16, 8], false));
        // Longer ones are read again, by clusters if few rows have too few blocks.
        assert_eq!(found(hopper, &[8193, 16384], 0), ([8, 32, 4, 1], true));
        // Without clusters, a block of twice the threads holds twice the columns.
        assert_eq!(found(ampere, &[2048, 16384], 0), ([4, 128, 16, 1], false));
        assert_eq!(found(ampere, &[2049, 16384], 0), ([8, 64, 4, 1], true));
    }
    assert_eq!(
        softmax(hopper, Ty::Bf16, &[65536, 1024], 0),
        ([4, 64, 4, 8], true)
    );
    assert_eq!(
        softmax(hopper, Ty::F32, &[65536, 1024], 0),
        ([8, 32, 4, 8], true)
    );
    // A row of single elements beside each other, and fewer rows than threads.
    assert_eq!(
        softmax(hopper, Ty::Bf16, &[100, 4097], 0),
        ([32, 8, 7, 2], false)
    );
    assert_eq!(
        softmax(hopper, Ty::F32, &[100, 2], 0),
        ([1, 32, 4, 1], false)
    );
    // A norm reads its rows twice too.
    let norm = of(hopper, RowFunction::LayerNorm, Ty::Bf16, &[65536, 1024], 0);
    assert_eq!(norm, ([4, 64, 4, 8], true));
}

/// Rows that are staged in shared memory: of each length up to 70 numbers and of some longer ones, by each number of threads, in blocks of one
/// warp and of several, with fewer rows than a block has and with more; the last block has some of its rows, and the tensors end inside of a
/// vector. In every type, with NaN and infinities, under several schedules.
#[test]
fn law_staged_rows_are_those_of_the_reference() {
    let mut cases = 0;
    for (i, columns) in (1..=70).chain([129, 257, 511]).enumerate() {
        for (j, log) in (0..6).enumerate() {
            // Each length has each number of threads in turn; short ones more often.
            if columns > 9 && (i + j) % 3 > 0 {
                continue;
            }
            let threads = 1_i64 << log;
            let accesses = (columns as i64 + threads - 1) / threads;
            if accesses > 64 {
                continue;
            }
            let of_block = [32, 64, 128][(i + j) % 3];
            let after = |[rows, clusters]: [i64; 2]| RowStorage::Staged { rows, clusters };
            let clusters = 1 + (i % 2) as i64;
            let storages = [STAGED, after([0, clusters]), after([1, clusters])];
            let plan = |problem: &RowwiseProblem| {
                let operands = problem.operands();
                let vector = (128 / i64::from(operands.ty.bits())) >> (i % 2);
                RowwisePlan {
                    operands,
                    vector,
                    threads,
                    rows: (of_block / threads).max(vector),
                    accesses,
                    blocks: 1,
                    storage: storages[(i + j) % 3],
                    meets_once: false,
                    keeps_weights: false,
                }
            };
            let own = (of_block / threads).max(8) as usize;
            let rows = [own, 1, own + 1, 2 * own + 3, own - 1, 5][(i + 2 * j) % 6];
            let function = RowFunction::ALL[(i + j) % 4];
            match (i + j) % 4 {
                0 => rows_are_right::<f32>(function, [rows, columns], plan),
                1 => rows_are_right::<f16>(function, [rows, columns], plan),
                _ => rows_are_right::<bf16>(function, [rows, columns], plan),
            }
            cases += 1;
        }
    }
    println!("law rowwise.staged: {cases} cases");
}

/// Norms of staged rows with a residual, weights and a bias: the sums have the bits of one rounding, and the norm is that of the rounded sums.
#[test]
fn law_staged_norms_with_a_residual_are_those_of_the_reference() {
    let number = |i: usize, step: usize| bf16::from_f64((i * step % 613) as f64 / 60.0 - 5.0);
    let mut cases = 0;
    for (i, columns) in [1_usize, 7, 32, 33, 40, 65, 70].into_iter().enumerate() {
        for threads in [1_i64, 2, 8] {
            let rows = [70, 128, 5, 33][(i + threads as usize) % 4];
            let of = |count: usize, step| -> Vec<bf16> {
                (0..count).map(|at| number(at, step)).collect()
            };
            let [x, residual] = [7919, 104_729].map(|step| of(rows * columns, step));
            let [weight, bias] = [31, 47].map(|step| of(columns, step));
            let accesses = (columns as i64 + threads - 1) / threads;
            if accesses > 64 {
                continue;
            }
            let function = [RowFunction::RmsNorm, RowFunction::LayerNorm][(i + cases) % 2];
            let found = testing::in_every_schedule(Arch::Sm80, 3, |device| {
                let [x, residual] = [&x, &residual].map(|of| device.upload(of));
                let [weight, bias] = [&weight, &bias].map(|of| device.upload(of));
                let (x, residual, weight, bias) = (x?, residual?, weight?, bias?);
                let count = rows * columns;
                let (mut y, mut sum) = (Output::new(device, count)?, Output::new(device, count)?);
                let shape = (rows, columns);
                let call = Rowwise::new(function, &x.view(shape)?, &y.buffer().view_mut(shape)?);
                let call = call
                    .residual(&residual.view(shape)?, &sum.buffer().view_mut(shape)?)
                    .weight(&weight.view(columns)?)
                    .bias(&bias.view(columns)?)
                    .prepare_with(|problem, _| {
                        Ok(RowwisePlan {
                            operands: problem.operands(),
                            vector: 8,
                            threads,
                            rows: (64 / threads).max(8),
                            accesses,
                            blocks: 1,
                            storage: RowStorage::Staged {
                                rows: [0, 1, 0][cases % 3],
                                clusters: [0, 2, 1][cases % 3],
                            },
                            meets_once: false,
                            keeps_weights: false,
                        })
                    })?;
                call.run(device)?;
                Ok([y.elements()?, sum.elements()?].concat())
            });
            let found = found.unwrap_or_else(|why| panic!("{function}, {columns}: {why}"));
            let (y, sum) = found.split_at(rows * columns);
            let wide = |of: &[bf16]| -> Vec<f64> { of.iter().map(|x| x.to_f64()).collect() };
            let [weight, bias] = [&weight, &bias].map(|of| wide(of));
            for row in 0..rows {
                let at = row * columns..(row + 1) * columns;
                let both = x[at.clone()].iter().zip(&residual[at.clone()]);
                let want: Vec<bf16> = both
                    .map(|(x, r)| bf16::from_f32(x.to_f32() + r.to_f32()))
                    .collect();
                assert_eq!(sum[at.clone()], want, "{function}, {columns}, row {row}");
                let want = reference::row(function, &wide(&want), Some(&weight), Some(&bias), 1e-5);
                let largest = want.iter().fold(0.0, |a: f64, y| a.max(y.abs()));
                // The factors and the terms are of size 5, and nearly cancel each other where a row has one element.
                for (y, want) in y[at].iter().zip(want) {
                    let apart = (y.to_f64() - want).abs();
                    assert!(
                        apart <= 2f64.powi(-8) * largest + 4e-5,
                        "{function}, {columns}, row {row}: {y}, not {want}"
                    );
                }
            }
            cases += 1;
        }
    }
    println!("law rowwise.staged_norms: {cases} cases");
}

/// Blocks that have one tile of staged rows after the other keep the weights of their columns, and change no bit: of norms with each of the
/// tensors, in every type, with fewer tiles than blocks, as many and more, with a tile ahead and without, under several schedules.
#[test]
fn law_staged_tiles_one_after_the_other_change_no_bit() {
    let mut cases = 0;
    let mut r = Random::new(0x57a6);
    for columns in [1, 2, 5, 8, 17, 31, 33, 40, 64, 65, 129] {
        for function in [RowFunction::RmsNorm, RowFunction::LayerNorm] {
            let given = [r.one_in(2), r.one_in(2), r.one_in(3)];
            let (ahead, blocks) = (r.below(2_i64), 1 + r.below(3_i64));
            let threads = 1_i64 << r.below(if columns < 8 { 1_u32 } else { 4 });
            let threads = if columns > 64 {
                threads.max(4)
            } else {
                threads
            };
            let plan = |problem: &RowwiseProblem| {
                let operands = problem.operands();
                let vector = 128 / i64::from(operands.ty.bits());
                RowwisePlan {
                    operands,
                    vector,
                    threads,
                    rows: (64 / threads).max(vector),
                    accesses: (columns as i64 + threads - 1) / threads,
                    blocks: 1,
                    storage: RowStorage::Staged {
                        rows: ahead,
                        clusters: blocks,
                    },
                    meets_once: false,
                    keeps_weights: false,
                }
            };
            let each = |problem: &RowwiseProblem| RowwisePlan {
                storage: STAGED,
                ..plan(problem)
            };
            let all = ((64 / threads).max(8) * blocks) as usize;
            let rows = r.one(&[2 * all + 3, all + 1, 3 * all, all, all - 1, 1]);
            let shape = [rows, columns];
            match r.below(3_u64) {
                0 => agree::<f32>(function, shape, given, &plan, &each),
                1 => agree::<f16>(function, shape, given, &plan, &each),
                _ => agree::<bf16>(function, shape, given, &plan, &each),
            }
            cases += 1;
        }
    }
    println!("law rowwise.staged_tiles: {cases} cases");
}

/// What a plan of staged rows says, and what it refuses.
#[test]
fn staged_rows_are_those_of_the_plan() {
    let problem = |columns| RowwiseProblem::new(RowFunction::Softmax, Ty::Bf16, [1000, columns]);
    let of_33 = problem(33);
    let plan = RowwisePlan::fastest(&of_33, Arch::Sm90a).expect("a plan");
    assert_eq!(
        plan.to_string(),
        "softmax bf16, vectors of 8, 1 thread for a row, 128 rows in a block, 33 accesses, rows staged in shared memory"
    );
    assert_eq!(
        plan.explain(&of_33),
        "softmax bf16, 1000 rows of 33\n\
         An access takes 8 elements, 16 bytes: addresses, strides and columns allow 1.\n\
         1 thread and 33 accesses make 33 columns, and a row has 33.\n\
         A block of 128 threads has 128 rows; the launch has 8 blocks.\n\
         A block copies its rows to shared memory and the results from there, and a thread takes single elements: 132000 bytes are moved, \
         and 132000 must be."
    );
    assert!(plan.takes(&of_33) && !plan.takes(&problem(31)) && !plan.takes(&problem(35)));
    let two = RowwisePlan {
        threads: 2,
        rows: 64,
        accesses: 17,
        ..plan
    };
    assert!(two.takes(&of_33) && two.takes(&problem(34)) && !two.takes(&problem(32)));
    let tiles = RowwisePlan {
        storage: RowStorage::Staged {
            rows: 1,
            clusters: 5,
        },
        ..plan
    };
    assert_eq!(
        tiles.to_string(),
        "softmax bf16, vectors of 8, 1 thread for a row, 128 rows in a block, 33 accesses, rows staged in shared memory, 1 tile ahead, \
         5 blocks"
    );
    let text = tiles.explain(&of_33);
    assert!(
        text.contains("A block of 128 threads has 128 rows; the launch has 5 blocks."),
        "{text}"
    );
    for (changed, why) in [
        (
            RowwisePlan {
                threads: 64,
                rows: 8,
                ..plan
            },
            "the plan's number of threads of a staged row is 64: the softmax kernel takes 1 to 32",
        ),
        (
            RowwisePlan { rows: 4, ..plan },
            "the plan's number of rows of a block of staged rows is 4: the softmax kernel takes 32 to 1024",
        ),
        (
            RowwisePlan {
                accesses: 65,
                ..plan
            },
            "the plan's number of accesses is 65: the softmax kernel takes 1 to 64",
        ),
        (
            RowwisePlan {
                storage: RowStorage::Staged {
                    rows: 0,
                    clusters: 4097,
                },
                ..plan
            },
            "the plan's number of blocks of staged rows is 4097: the softmax kernel takes 0 to 4096",
        ),
        (
            RowwisePlan {
                storage: RowStorage::Staged {
                    rows: 1,
                    clusters: 0,
                },
                ..plan
            },
            "the plan's number of tiles of staged rows ahead is 1: the softmax kernel takes 0 only",
        ),
    ] {
        let refused = changed.check(Arch::Sm90a).expect_err("it is refused");
        assert_eq!(refused.to_string(), why);
    }
}

/// If registers and shared memory of a number of blocks can hold a row together by some division of its chunks, the plan that the library
/// makes of these blocks is such a one.
#[test]
fn law_divided_plans_hold_the_rows_that_a_plan_holds() {
    let (mut held_by_some, mut cases) = (0, 0);
    for (ty, step) in [(Ty::F32, 2048), (Ty::Bf16, 4096)] {
        for columns in (step..=64 * step).step_by(step as usize) {
            for (threads, beside) in [(1024, 1), (512, 1), (512, 2), (256, 4)] {
                for blocks in [1, 2, 8] {
                    let problem = RowwiseProblem::new(RowFunction::Softmax, ty, [1000, columns]);
                    let made =
                        RowwisePlan::divided(&problem, Arch::Sm90a, blocks, [threads, beside]);
                    let like = RowwisePlan::fastest(&problem, Arch::Sm90a).expect("a plan");
                    let vector = like.operands.vector;
                    let chunks = columns / (threads * vector * blocks);
                    let holds = (1..chunks).any(|kept| {
                        let plan = RowwisePlan {
                            vector,
                            threads,
                            rows: 1,
                            accesses: 1,
                            blocks,
                            storage: RowStorage::Divided {
                                held: chunks - kept,
                                kept,
                                clusters: 1,
                            },
                            meets_once: true,
                            keeps_weights: false,
                            ..like
                        };
                        let is_beside = plan.check(Arch::Sm90a).is_ok() && plan.takes(&problem);
                        is_beside && beside == 1
                    });
                    held_by_some += usize::from(holds);
                    cases += 1;
                    assert!(
                        !holds || made.is_ok(),
                        "{ty}, {columns} columns, {blocks} blocks of {threads} threads: {made:?}"
                    );
                }
            }
        }
    }
    println!("law rowwise.divided: {cases} cases, {held_by_some} held");
    assert!(held_by_some > 0);
}

/// The plan that the library makes for rows of 156 KiB: a block holds one, and two blocks share a multiprocessor.
#[test]
fn two_blocks_hold_rows_beside_each_other() {
    let problem = RowwiseProblem::new(RowFunction::Softmax, Ty::F32, [1000, 40_000]);
    let plan = RowwisePlan::divided(&problem, Arch::Sm90a, 1, [512, 2]).expect("a plan");
    let kernel = plan.build(Arch::Sm90a).expect("a kernel").kernel;
    assert_eq!(kernel.min_blocks, Some(2));
    let shorter = RowwiseProblem::new(RowFunction::Softmax, Ty::F32, [1000, 38_912]);
    assert!(plan.takes(&problem) && !plan.takes(&shorter));
    assert_eq!(plan.bytes(&problem), problem.compulsory_bytes());
    assert_eq!(
        plan.explain(&problem),
        "softmax f32, 1000 rows of 40000\n\
         An access takes 4 elements, 16 bytes: addresses, strides and columns allow 4.\n\
         512 threads and 20 accesses make 40960 columns, and a row has 40000.\n\
         A block of 512 threads has 1 row; the launch has 264 blocks.\n\
         The warps of a row meet once: each gives its own totals.\n\
         Registers hold 6 chunks of a row, and shared memory keeps 14 chunks: 320000000 bytes are moved, and 320000000 must be."
    );
}

/// Rows of teams, whose blocks meet through global memory: by one, two and three groups, with fewer and more rows than teams, rows that no
/// number of blocks divides, blocks without a part of a row, and more blocks than a warp has lanes; in every type, with NaN and infinities,
/// under several schedules.
#[test]
fn law_rows_of_teams_are_those_of_the_reference() {
    let functions = [
        RowFunction::Softmax,
        RowFunction::LogSoftmax,
        RowFunction::RmsNorm,
        RowFunction::LayerNorm,
    ];
    let mut cases = 0;
    // Threads and accesses; blocks of a team; groups, slots and teams.
    for (i, (of_thread, blocks, turns)) in [
        ((32, 2), 2, [1, 1, 1, 0]),
        ((32, 1), 3, [1, 2, 2, 0]),
        ((64, 1), 5, [2, 2, 1, 0]),
        ((64, 2), 3, [1, 1, 3, 0]),
        ((32, 1), 2, [3, 3, 2, 0]),
        ((32, 1), 34, [1, 1, 1, 0]),
        ((256, 1), 2, [1, 1, 2, 0]),
        // Results that are one and more rows behind, with slots for these alone and for more.
        ((32, 2), 2, [1, 2, 1, 1]),
        ((64, 1), 3, [1, 4, 2, 2]),
        ((64, 1), 5, [2, 4, 1, 1]),
        ((32, 1), 3, [2, 8, 2, 2]),
        ((32, 1), 34, [1, 2, 1, 1]),
        ((256, 1), 2, [1, 5, 2, 3]),
    ]
    .into_iter()
    .enumerate()
    {
        let plan = |problem: &RowwiseProblem| RowwisePlan {
            operands: problem.operands(),
            vector: problem.operands().vector,
            threads: of_thread.0,
            rows: 1,
            accesses: of_thread.1,
            blocks,
            storage: RowStorage::Teams {
                groups: turns[0],
                slots: turns[1],
                teams: turns[2],
                lag: turns[3],
            },
            meets_once: true,
            keeps_weights: false,
        };
        let all = (of_thread.0 * of_thread.1 * blocks) as usize;
        let of_block = all / blocks as usize;
        let at_once = (turns[0] * turns[2]) as usize;
        for (j, vectors) in [all, all - 1, of_block + 1, of_block / 2 + 1, 1]
            .into_iter()
            .enumerate()
        {
            // Many blocks wait in turn on a host.
            if blocks > WARP && j > 1 {
                break;
            }
            let rows = [3 * at_once + 1, 1, at_once, 2 * at_once + 1, 2][(i + j) % 5];
            let function = functions[(i + j) % 4];
            match j % 3 {
                0 => rows_are_right::<f32>(function, [rows, 4 * vectors], plan),
                1 => rows_are_right::<bf16>(function, [rows, 8 * vectors], plan),
                _ => rows_are_right::<f16>(function, [rows, 8 * vectors], plan),
            }
            cases += 1;
        }
    }
    println!("law rowwise.teams: {cases} cases");
}

/// The words of 32 bits in front of those of the blocks of teams: the last tag of all launches so far, the blocks that have counted
/// themselves, and the words of blocks that launches have had.
const HEADER: usize = 32;

/// Launches a plan in teams in memory that other launches have had, and returns the bits of the results.
fn in_words(
    device: &Device,
    (plan, function): (&RowwisePlan, RowFunction),
    (x, columns): (&[f32], usize),
    words: &Buffer<u32>,
) -> Result<Vec<u32>, Box<dyn std::error::Error>> {
    let rows = x.len() / columns;
    let (from, y) = (device.upload(x)?, device.poisoned::<f32>(x.len())?);
    let [r, c] = [rows, columns].map(|n| Int::Dynamic(n as i64));
    let of_rows = Layout::new(IntTuple::flat([r]), Tuple::flat([Stride::Int(c)]))?;
    let of_tensors = Layout::concat(&[of_rows, Layout::leaf(c, Int::Static(1))?])?;
    let count = plan.workspace() / 4;
    let of_words = Layout::concat(&[Layout::leaf(Int::Dynamic(count), Int::Static(1))?])?;
    let built = plan.build(Arch::Sm90a)?;
    let mut given = vec![
        Arg::tensor(&from, &of_tensors),
        Arg::tensor(&y, &of_tensors),
        Arg::tensor(words, &of_words),
    ];
    if function.is_norm() {
        given.push(Arg::Value(1e-5_f32.into()));
    }
    let RowStorage::Teams { groups, teams, .. } = plan.storage else {
        panic!("{plan}");
    };
    let blocks = plan.blocks * teams.min(rows as i64);
    let launch = Launch::new(blocks as u32, (plan.threads * groups) as u32);
    let launch = launch.dynamic_shared(built.dynamic_shared()).cooperative();
    let arguments = built.arguments(&given)?;
    device.launch(&device.load(&built.kernel)?, launch, &arguments)?;
    Ok(y.download()?.iter().map(|y| y.to_bits()).collect())
}

/// A drawn plan in teams with rows for it: a function with one total, one with two and one with four, few and many blocks, groups and teams.
fn of_teams(r: &mut Random) -> (RowwisePlan, RowFunction, [usize; 2]) {
    let function = r.one(&[
        RowFunction::Softmax,
        RowFunction::RmsNorm,
        RowFunction::LayerNorm,
    ]);
    let (threads, blocks) = (r.one(&[32, 64]), r.one(&[2, 3, 5]));
    let [groups, teams] = [1 + r.below(3_i64), 1 + r.below(3_i64)];
    let lag = r.one(&[0, 1, 2]);
    let columns = 4 * threads * blocks - 4 * r.below(3_i64);
    let rows = 1 + r.below(3 * groups * teams + 1);
    let problem = RowwiseProblem::new(function, Ty::F32, [rows, columns]);
    let plan = RowwisePlan {
        operands: problem.operands(),
        vector: 4,
        threads,
        rows: 1,
        accesses: 1,
        blocks,
        storage: RowStorage::Teams {
            groups,
            slots: groups * (lag + 1 + r.below(2_i64)),
            teams,
            lag,
        },
        meets_once: true,
        keeps_weights: false,
    };
    (plan, function, [rows, columns].map(|n| n as usize))
}

/// Launches one after the other in the same memory, of plans that have other words than those before, each word with a tag that some
/// launch left there, under several schedules: the bits of each are those of a launch in memory of its own, and near the double
/// precision. The last tag is that of all rows so far.
#[test]
fn law_teams_meet_by_words_of_their_row() -> Result<(), Box<dyn std::error::Error>> {
    let mut cases = 0;
    for seed in 0..8 {
        let device = simulator(Arch::Sm90a, seed);
        let words = device.zeros::<u32>(HEADER + 8 * 6 * 5 * 9)?;
        let mut r = Random::new(70 + seed);
        let mut last_tag = 0;
        for _ in 0..5 {
            let (plan, function, [rows, columns]) = of_teams(&mut r);
            let RowStorage::Teams { groups, teams, .. } = plan.storage else {
                continue;
            };
            // The same plan again finds its own words of the launch before.
            for _ in 0..2 {
                let x: Vec<f32> = (0..rows * columns)
                    .map(|_| r.below(4001_i32) as f32 / 500.0 - 4.0)
                    .collect();
                let plan_of = (&plan, function);
                let found = in_words(&device, plan_of, (&x, columns), &words)?;
                let own = device.zeros::<u32>(plan.workspace() as usize / 4)?;
                let alone = in_words(&device, plan_of, (&x, columns), &own)?;
                assert!(found == alone, "{plan}, {rows} rows, seed {seed}");
                for (x, found) in x.chunks(columns).zip(found.chunks(columns)) {
                    let x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
                    let want = reference::row(function, &x, None, None, 1e-5);
                    let largest = want.iter().fold(0.0, |a: f64, x| a.max(x.abs()));
                    for (want, found) in want.iter().zip(found) {
                        let found = f64::from(f32::from_bits(*found));
                        assert!(
                            (want - found).abs() <= 4e-6 * largest,
                            "{plan}: {found}, not {want}"
                        );
                    }
                }
                let at_once = groups as usize * rows.min(teams as usize);
                last_tag += rows.div_ceil(at_once) as u32;
                let header = words.slice(..2)?.download()?;
                assert_eq!(header, [last_tag, 0], "{plan}, {rows} rows");
                cases += 1;
            }
        }
    }
    println!("law rowwise.teams_words: {cases} cases");
    Ok(())
}

/// Results that are rows behind have the bits of a plan whose rows stay in registers: the totals are added in the same order. A softmax of
/// `f32` is no case, whose powers in registers are those under the maximum of a warp.
#[test]
fn law_rows_behind_have_the_bits_of_rows_in_registers() -> Result<(), Box<dyn std::error::Error>> {
    let mut cases = 0;
    for seed in 0..6 {
        let device = simulator(Arch::Sm90a, seed);
        let mut r = Random::new(110 + seed);
        for _ in 0..8 {
            let (plan, function, [rows, columns]) = of_teams(&mut r);
            let RowStorage::Teams { groups, teams, .. } = plan.storage else {
                continue;
            };
            if function == RowFunction::Softmax {
                continue;
            }
            let with = |lag, slots| RowwisePlan {
                storage: RowStorage::Teams {
                    groups,
                    slots: groups * slots,
                    teams,
                    lag,
                },
                ..plan
            };
            let x: Vec<f32> = (0..rows * columns)
                .map(|_| r.below(4001_i32) as f32 / 500.0 - 4.0)
                .collect();
            let bits = |plan: RowwisePlan| {
                let words = device.zeros::<u32>(plan.workspace() as usize / 4)?;
                in_words(&device, (&plan, function), (&x, columns), &words)
            };
            let held = bits(with(0, 1))?;
            for (lag, slots) in [(1, 2), (1, 3), (2, 3), (3, 6)] {
                let behind = with(lag, slots);
                assert!(bits(behind)? == held, "{behind}, {rows} rows, seed {seed}");
                cases += 1;
            }
        }
    }
    println!("law rowwise.rows_behind: {cases} cases");
    Ok(())
}

/// The check of [`law_teams_meet_by_words_of_their_row`] sees tags that begin at 1 in each launch: if the last tag is set back to 0 before
/// a launch, blocks take words of the launch before. Of one row, since a block that is rows ahead would overwrite words that others await.
#[test]
fn words_of_an_older_launch_are_taken_where_tags_repeat() -> Result<(), Box<dyn std::error::Error>>
{
    let problem = RowwiseProblem::new(RowFunction::Softmax, Ty::F32, [1, 640]);
    let plan = RowwisePlan::in_teams(&problem, Arch::Sm90a, [5, 5], [32, 1])?;
    let (mut right, mut wrong) = (0, 0);
    for seed in 0..4 {
        let device = simulator(Arch::Sm90a, seed);
        let words = device.zeros::<u32>(plan.workspace() as usize / 4)?;
        for launch in 0..4 {
            let x: Vec<f32> = (0..640)
                .map(|i| ((i * 7919 + launch * 31) % 613) as f32 / 60.0)
                .collect();
            let plan_of = (&plan, RowFunction::Softmax);
            let own = device.zeros::<u32>(words.len())?;
            let alone = in_words(&device, plan_of, (&x, 640), &own)?;
            words.slice(..1)?.write(&[0])?;
            let found = in_words(&device, plan_of, (&x, 640), &words)?;
            let count = if found == alone {
                &mut right
            } else {
                &mut wrong
            };
            *count += 1;
        }
    }
    // The first launch of each device finds no older word.
    assert!(right >= 4 && wrong >= 4, "{right} right, {wrong} wrong");
    Ok(())
}

/// Where tags reach the end of 32 bits, the last launch that has enough of them makes all words 0 that launches have written, also those
/// of a larger plan, and tags begin at 1 again.
#[test]
fn law_tags_of_teams_begin_again() -> Result<(), Box<dyn std::error::Error>> {
    // Behind it, fewer tags are left than a launch may need.
    const LAST: u32 = u32::MAX - (1 << 22);
    let mut cases = 0;
    for seed in 0..4 {
        let device = simulator(Arch::Sm90a, seed);
        let mut r = Random::new(90 + seed);
        for below in 0..4 {
            let words = device.zeros::<u32>(HEADER + 8 * 6 * 5 * 9)?;
            let mut last_tag = LAST - below;
            words.slice(..1)?.write(&[last_tag])?;
            for _ in 0..4 {
                let (plan, function, [rows, columns]) = of_teams(&mut r);
                let RowStorage::Teams { groups, teams, .. } = plan.storage else {
                    continue;
                };
                let x: Vec<f32> = (0..rows * columns)
                    .map(|_| r.below(4001_i32) as f32 / 500.0 - 4.0)
                    .collect();
                let plan_of = (&plan, function);
                let found = in_words(&device, plan_of, (&x, columns), &words)?;
                let own = device.zeros::<u32>(plan.workspace() as usize / 4)?;
                let alone = in_words(&device, plan_of, (&x, columns), &own)?;
                assert!(found == alone, "{plan}, {rows} rows, seed {seed}");
                let at_once = groups as usize * rows.min(teams as usize);
                last_tag += rows.div_ceil(at_once) as u32;
                let all = words.download()?;
                if last_tag > LAST {
                    last_tag = 0;
                    assert!(all[HEADER..].iter().all(|word| *word == 0), "{plan}");
                }
                assert_eq!(all[..2], [last_tag, 0], "{plan}, {rows} rows");
                cases += 1;
            }
        }
    }
    println!("law rowwise.teams_tags: {cases} cases");
    Ok(())
}

/// A call in teams runs any number of times in its own memory: each launch finds there what the one before left.
#[test]
fn law_teams_run_again_in_their_memory() -> Result<(), colex_gpu::Error> {
    let mut cases = 0;
    for seed in 0..3 {
        let device = simulator(Arch::Sm90a, seed);
        let columns = 4 * 64 * 3;
        for rows in [1, 4, 7] {
            let x: Vec<f32> = (0..rows * columns).map(|i| (i % 97) as f32 / 9.0).collect();
            let from = device.upload(&x)?;
            let y = device.poisoned::<f32>(rows * columns)?;
            let mut written = y.clone();
            let shape = (rows, columns);
            let teams = |problem: &RowwiseProblem, _| {
                RowwisePlan::in_teams(problem, Arch::Sm90a, [3, 7], [32, 1])
            };
            let mut first = Vec::new();
            let call = Rowwise::new(
                RowFunction::Softmax,
                &from.view(shape)?,
                &written.view_mut(shape)?,
            )
            .prepare_with(teams)?;
            assert!(call.plan().is_some_and(|plan| plan.workspace() > 0));
            for _ in 0..3 {
                y.fill_bytes(0xff)?;
                call.run(&device)?;
                let found: Vec<u32> = y.download()?.iter().map(|y| y.to_bits()).collect();
                if first.is_empty() {
                    first.clone_from(&found);
                }
                assert_eq!(found, first, "{rows} rows");
                cases += 1;
            }
        }
    }
    println!("law rowwise.teams_again: {cases} cases");
    Ok(())
}

/// Rows that begin anywhere, of any number of columns, and whose vectors do not: one of each block, and one after the other.
#[test]
fn law_shifted_rows_are_those_of_the_reference() {
    let shifted = |[rows, clusters]: [i64; 2], meets_once| {
        move |plan: RowwisePlan| RowwisePlan {
            vector: 4,
            threads: 64,
            rows: 1,
            accesses: 2,
            storage: RowStorage::Shifted { rows, clusters },
            meets_once,
            ..plan
        }
    };
    let mut cases = 0;
    for columns in (1..=12).chain([63, 64, 65, 253, 254, 255, 509, 512, 515]) {
        for function in RowFunction::ALL {
            for (of, rows, is_once) in [([0, 0], 5, false), ([0, 4], 9, true), ([1, 4], 11, false)]
            {
                // Each length has one of both kinds of blocks with several rows.
                if of[1] > 0 && (columns + of[0] as usize).is_multiple_of(2) {
                    continue;
                }
                let x: Vec<f32> = (0..rows * columns)
                    .map(|i| (i * 7919 % 613) as f32 / 60.0 - 5.0)
                    .collect();
                let plan = shifted(of, is_once);
                let found = result(Arch::Sm80, function, [rows, columns], &x, plan);
                for (x, found) in x.chunks(columns).zip(found.chunks(columns)) {
                    let x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
                    let want = reference::row(function, &x, None, None, 1e-5);
                    let largest = want.iter().fold(0.0, |a: f64, x| a.max(x.abs()));
                    for (want, found) in want.iter().zip(found) {
                        let apart = (want - f64::from(*found)).abs();
                        assert!(
                            apart <= 4e-6 * largest + 1e-6,
                            "{function}, {columns} columns, {of:?}: {found}, not {want}"
                        );
                    }
                }
                cases += 1;
            }
        }
    }
    println!("law rowwise.shifted: {cases} cases");
}

/// Blocks that have one shifted row after the other keep the weights of their columns: their norms have the bits of those of a block for each
/// row, which loads them for it, and are those of the reference. With each of the tensors of a norm, in every type, with vectors of each
/// width, of rows that begin equally far behind a vector or each elsewhere, of fewer rows than blocks, as many and more, with a row ahead and
/// without, under several schedules.
#[test]
fn law_shifted_rows_one_after_the_other_change_no_bit() {
    let (mut cases, mut of_kinds) = (0, [0; 3]);
    let mut r = Random::new(0x5171);
    let lengths = (1..=17).chain([63, 64, 66, 255, 257, 510, 512, 513, 515, 519, 770, 1027]);
    for columns in lengths {
        for function in [RowFunction::RmsNorm, RowFunction::LayerNorm] {
            let given = [r.one_in(2), r.one_in(2), r.one_in(3)];
            let (is_once, ahead) = (r.one_in(2), r.below(2_i64));
            let [blocks, threads] = [1 + r.below(3_i64), r.one(&[64, 128])];
            let narrower = r.below(2_u32);
            let plan = |problem: &RowwiseProblem| {
                let operands = problem.operands();
                let vector = (128 / i64::from(operands.ty.bits())) >> narrower;
                let whole = columns as i64 / vector;
                RowwisePlan {
                    operands,
                    vector,
                    threads,
                    rows: 1,
                    accesses: ((whole + threads - 1) / threads).max(1),
                    blocks: 1,
                    storage: RowStorage::Shifted {
                        rows: ahead,
                        clusters: blocks * vector,
                    },
                    meets_once: is_once,
                    keeps_weights: false,
                }
            };
            let ty = r.below(3_u64);
            let all = ((blocks * (if ty == 0 { 4 } else { 8 })) >> narrower) as usize;
            let rows = r.one(&[2 * all + 3, all + 1, 3 * all, all, all - 1, 1, 5 * all - 1]);
            let shape = [rows, columns];
            match ty {
                0 => shifted_norms_are_right::<f32>(function, shape, given, &plan),
                1 => shifted_norms_are_right::<f16>(function, shape, given, &plan),
                _ => shifted_norms_are_right::<bf16>(function, shape, given, &plan),
            }
            cases += 1;
            let kind = if rows <= all { 0 } else { 1 + ahead as usize };
            of_kinds[kind] += 1;
        }
    }
    println!("law rowwise.shifted_norms: {cases} cases");
    assert!(of_kinds.iter().all(|count| *count > 3), "{of_kinds:?}");
}

/// Compares the bits of a plan of shifted rows one after the other with those of a block for each row, and both with the reference.
fn shifted_norms_are_right<T: GemmElement>(
    function: RowFunction,
    [rows, columns]: [usize; 2],
    given: [bool; 3],
    plan: &dyn Fn(&RowwiseProblem) -> RowwisePlan,
) {
    let each = |problem: &RowwiseProblem| RowwisePlan {
        storage: SHIFTED,
        ..plan(problem)
    };
    agree::<T>(function, [rows, columns], given, plan, &each);
    let device = simulator(Arch::Sm90a, 1);
    let found = norm_bits::<T>(&device, function, [rows, columns], given, plan);
    let [found, sums] = found.expect("it runs");
    let number = |step: usize, i: usize| T::from_f64((i * step % 613) as f64 / 60.0 - 4.0);
    let of_columns = |step| (0..columns).map(|i| number(step, i).to_f64()).collect();
    let [weight, bias]: [Vec<f64>; 2] = [31, 47].map(of_columns);
    let weight = given[0].then_some(&weight[..]);
    let bias = given[1].then_some(&bias[..]);
    for row in 0..rows {
        let at = row * columns..(row + 1) * columns;
        let x: Vec<f64> = at
            .clone()
            .map(|i| {
                let (x, residual) = (number(7919, i).to_f64(), number(104_729, i).to_f64());
                if !given[2] {
                    return x;
                }
                let sum = T::from_f64(f64::from(x as f32 + residual as f32)).to_f64();
                assert_eq!(f64::from_bits(sums[i]), sum, "{function}, row {row}");
                sum
            })
            .collect();
        let want = reference::row(function, &x, weight, bias, 1e-5);
        let largest = want.iter().fold(0.0, |a: f64, y| a.max(y.abs()));
        let step = if T::BYTES == 2 { 2f64.powi(-8) } else { 1e-5 };
        // The factors and the terms are of size 6, and nearly cancel each other where a row has one element.
        let most = step * largest + 5e-5;
        for (column, (y, want)) in found[at].iter().zip(want).enumerate() {
            let y = f64::from_bits(*y);
            assert!(
                (y - want).abs() <= most,
                "{function} {}, {rows} rows of {columns}, {given:?}, row {row}, column {column}: {y}, not {want}",
                T::TY
            );
        }
    }
}

/// A layer norm whose warps meet once is as near to double precision as one whose warps meet twice: of rows with a large mean and small
/// differences, with a trend, so that warps have other means than the row, with one large number, of equal numbers, of numbers near the
/// largest ones, and with warps and blocks that have no columns or some; in registers, by clusters, with several rows in a block and in
/// passes. The error may be 1.5 times as large, or two units in the last place of the largest result larger.
#[test]
fn law_a_layer_norm_that_meets_once_is_as_exact() {
    let number = |i: usize| (i * 7919 % 613) as f64 / 613.0 - 0.5;
    // Threads, accesses and blocks, and columns that fill them and that do not.
    let shapes = [
        ((256, 1), 1, 2, [1024, 1000, 4, 132]),
        ((256, 4), 1, 1, [4096, 3972, 1028, 2052]),
        ((64, 3), 4, 1, [3072, 2308, 768, 1160]),
        ((32, 2), 2, 1, [512, 508, 128, 4]),
        // Rows that no vector divides are shifted.
        ((128, 2), 1, 1, [1027, 1025, 515, 67]),
    ];
    let [mut cases, mut rows_of_all] = [0; 2];
    for ((threads, accesses), blocks, rows_of_block, lengths) in shapes {
        for columns in lengths {
            let kinds: [&dyn Fn(usize) -> f64; 9] = [
                &number,
                &|i| 1000.0 + number(i),
                &|i| -30_000.0 + number(i) / 4.0,
                &|i| 1000.0 + i as f64 / columns as f64 + number(i) / 8.0,
                &|i| 100.0 * i as f64 / columns as f64 + number(i),
                &|i| 1e5 + 4.0 * i as f64 / columns as f64,
                &|i| if i == 3 { 1e4 } else { 1.0 + number(i) / 64.0 },
                &|_| 0.1,
                &|i| 1e30 * (1.0 + number(i) / 1024.0),
            ];
            let x: Vec<f32> = (kinds.iter())
                .flat_map(|of| (0..columns).map(|i| of(i) as f32))
                .collect();
            let storages = [
                RowStorage::Registers,
                RowStorage::Ahead {
                    rows: 1,
                    clusters: 2,
                },
                PASSES,
                SHIFTED,
                RowStorage::Shifted {
                    rows: 1,
                    clusters: 4,
                },
                IN_TURN,
                IN_TEAMS,
            ];
            for storage in storages {
                let is_shifted = matches!(storage, RowStorage::Shifted { .. });
                let is_in_turn = storage == IN_TURN || storage == IN_TEAMS;
                let has_groups = rows_of_block == 1 && (storage == IN_TURN || blocks > 1);
                if is_shifted != (columns % 4 > 0) || is_in_turn && !has_groups {
                    continue;
                }
                let errors = [true, false].map(|meets_once| {
                    let plan = |plan| RowwisePlan {
                        vector: 4,
                        threads,
                        rows: rows_of_block,
                        accesses,
                        blocks,
                        // Groups that take rows in turn meet once alone.
                        storage: if is_in_turn && !meets_once {
                            RowStorage::Registers
                        } else {
                            storage
                        },
                        meets_once,
                        ..plan
                    };
                    let shape = [kinds.len(), columns];
                    let found = result(Arch::Sm90a, RowFunction::LayerNorm, shape, &x, plan);
                    let pairs = x.chunks(columns).zip(found.chunks(columns));
                    let of_row = |(x, found): (&[f32], &[f32])| {
                        let x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
                        let want = reference::row(RowFunction::LayerNorm, &x, None, None, 1e-5);
                        let largest = want.iter().fold(0.0, |a: f64, x| a.max(x.abs()));
                        let far = want.iter().zip(found);
                        let far = far.map(|(want, found)| (want - f64::from(*found)).abs());
                        let far = far.map(|far| if far.is_nan() { f64::INFINITY } else { far });
                        let far = far.fold(0.0, f64::max);
                        [far, largest]
                    };
                    pairs.map(of_row).collect::<Vec<_>>()
                });
                for (kind, (once, twice)) in errors[0].iter().zip(&errors[1]).enumerate() {
                    let [far, largest] = *once;
                    rows_of_all += 1;
                    let rounding = largest * f64::from(f32::EPSILON);
                    // Where warps that meet twice are exactly right, two products that cancel may leave a rounding of their own.
                    let cancelled = 1e-12;
                    assert!(
                        far <= (1.5 * twice[0]).max(twice[0] + 2.0 * rounding + cancelled),
                        "{threads} threads, {blocks} blocks, {columns} columns, {storage:?}, row {kind}: {far} once and {} twice, of \
                         {largest}",
                        twice[0],
                    );
                }
                cases += 1;
            }
        }
    }
    println!("law rowwise.moments: {cases} cases, {rows_of_all} rows");
}

/// Computes a layer norm of rows of equal numbers by a plan, with and without a weight and a bias, and compares every result with 0, or with
/// the bias. The sums of the numbers are those of f32. Rows lie one after the other, or beside each other. Returns the storage of the plan.
fn equal_numbers_are_right<T: GemmElement>(
    arch: Arch,
    [rows, columns]: [usize; 2],
    is_turned: bool,
    plan: &dyn Fn(RowwisePlan) -> RowwisePlan,
) -> RowStorage {
    let device = simulator(arch, columns as u64);
    let number = |row: usize| [500.0, 12352.0, -0.371_093_75, 3.0, 0.0][row % 5];
    let strides = if is_turned { [1, rows] } else { [columns, 1] };
    let place = |row: usize, column: usize| row * strides[0] + column * strides[1];
    let [m, n, of_row, of_column] =
        [rows, columns, strides[0], strides[1]].map(|number| number as i64);
    let layout = Layout::new((m, n), (of_row, of_column)).expect("a layout");
    let mut x = vec![T::from_f64(0.0); rows * columns];
    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
        x[place(row, column)] = T::from_f64(number(row));
    }
    let of_columns = |step: usize| -> Vec<T> {
        let number = |i: usize| T::from_f64((i * step % 613) as f64 / 60.0 - 4.0);
        (0..columns).map(number).collect()
    };
    let [weight, bias] = [31, 47].map(of_columns);
    let from = device.upload(&x).expect("memory");
    let [of_weight, of_bias] = [&weight, &bias].map(|of| device.upload(of).expect("memory"));
    let mut storage = RowStorage::Registers;
    for has_weights in [false, true] {
        let mut y = device.poisoned::<T>(x.len()).expect("memory");
        let text = {
            let view = View::new(&from, &layout).expect("a view");
            let to = ViewMut::new(&mut y, &layout).expect("a view");
            let mut call = Rowwise::new(RowFunction::LayerNorm, &view, &to);
            if has_weights {
                call = call
                    .weight(&of_weight.view(columns).expect("a view"))
                    .bias(&of_bias.view(columns).expect("a view"));
            }
            let call = call.prepare_with(|problem, arch| {
                let fastest = RowwisePlan::fastest_on(problem, arch, Rates::of(arch))?;
                Ok(plan(fastest))
            });
            let call = call.unwrap_or_else(|why| panic!("{rows} rows of {columns}: {why}"));
            call.run(&device).expect("a run");
            storage = call.plan().expect("there are rows").storage;
            call.to_string()
        };
        let y = y.download().expect("results");
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)))
        {
            let want = if has_weights {
                bias[column].to_f64()
            } else {
                0.0
            };
            let found = y[place(row, column)].to_f64();
            assert_eq!(
                found,
                want,
                "{text}: row {row} of {rows}, column {column} of {columns}, {}, {}",
                number(row),
                T::TY
            );
        }
    }
    storage
}

/// A layer norm of a row of equal numbers is exactly 0, or the bias, if f32 has the sums of the numbers: of every storage, of warps that meet
/// once and twice, of clusters and teams, and of lengths whose reciprocal no float has.
#[test]
fn law_a_layer_norm_of_equal_numbers_is_its_bias() {
    let own = |(threads, accesses): (i64, i64), [rows, blocks]: [i64; 2], storage| {
        move |plan| RowwisePlan {
            vector: 4,
            threads,
            rows,
            accesses,
            blocks,
            storage,
            meets_once: false,
            keeps_weights: false,
            ..plan
        }
    };
    let ahead = |rows, clusters| RowStorage::Ahead { rows, clusters };
    let shifted = |rows, clusters| RowStorage::Shifted { rows, clusters };
    let divided = |held, kept, clusters| RowStorage::Divided {
        held,
        kept,
        clusters,
    };
    let kept = |kept| RowStorage::Passes { kept };
    let of_two = RowStorage::Staged {
        rows: 1,
        clusters: 2,
    };
    let registers = RowStorage::Registers;
    let (mut cases, mut storages) = (0, Vec::new());
    // Threads and accesses, rows and blocks, storage, columns, and whether warps meet twice, once, or in both ways.
    let [twice, once, both] = [&[false][..], &[true], &[false, true]];
    for (of_thread, of_block, storage, columns, meetings) in [
        ((32, 8), [1, 1], registers, 1000, twice),
        ((256, 1), [1, 1], registers, 1000, both),
        ((64, 2), [1, 2], registers, 1000, both),
        ((32, 8), [1, 1], ahead(2, 1), 1000, twice),
        ((256, 1), [1, 1], ahead(3, 2), 1000, both),
        ((64, 2), [1, 2], ahead(2, 1), 1000, both),
        ((64, 1), [1, 1], kept(0), 1000, twice),
        ((256, 1), [1, 1], kept(3), 3000, both),
        ((32, 1), [1, 2], kept(2), 1000, both),
        ((128, 2), [1, 1], shifted(0, 0), 1027, both),
        ((128, 2), [1, 1], shifted(1, 4), 1027, both),
        ((8, 9), [8, 1], STAGED, 70, twice),
        ((8, 9), [8, 1], of_two, 70, twice),
        ((64, 2), [1, 1], divided(0, 3, 2), 1500, twice),
        ((256, 1), [1, 1], divided(2, 1, 3), 3000, both),
        ((64, 2), [1, 4], divided(1, 1, 2), 4000, both),
        ((64, 4), [1, 1], IN_TURN, 1000, once),
        ((64, 2), [1, 2], IN_TURN, 1000, once),
        ((64, 1), [1, 5], IN_TEAMS, 1000, once),
        ((64, 1), [1, 5], IN_TEAMS_BEHIND, 1000, once),
    ] {
        for meets_once in meetings {
            let plan = |of| RowwisePlan {
                meets_once: *meets_once,
                ..own(of_thread, of_block, storage)(of)
            };
            equal_numbers_are_right::<f32>(Arch::Sm90a, [7, columns], false, &plan);
            storages.push(core::mem::discriminant(&storage));
            cases += 2;
        }
    }
    // Rows beside each other: blocks and threads, in registers and in passes.
    for (blocks, threads, again) in [
        (2, 128, false),
        (1, 16, true),
        (1, 128, true),
        (4, 32, true),
    ] {
        let columns = 3000;
        let storage = RowStorage::Turned { again };
        let accesses = if again {
            4
        } else {
            (columns + threads * blocks - 1) / (threads * blocks)
        };
        let plan = own((threads, accesses), [8, blocks], storage);
        equal_numbers_are_right::<f32>(Arch::Sm90a, [8, columns as usize], true, &plan);
        storages.push(core::mem::discriminant(&storage));
        cases += 2;
    }
    // Default plans.
    for (i, columns) in [3, 7, 33, 100, 1000, 1027, 4100, 7168]
        .into_iter()
        .enumerate()
    {
        let arch = [Arch::Sm90a, Arch::Sm80][i % 2];
        let run = [
            equal_numbers_are_right::<f32>,
            equal_numbers_are_right::<bf16>,
            equal_numbers_are_right::<f16>,
        ];
        for run in run {
            let storage = run(arch, [7, columns], false, &|plan| plan);
            storages.push(core::mem::discriminant(&storage));
            if columns < 2000 {
                run(arch, [24, columns], true, &|plan| plan);
            }
            cases += 4;
        }
    }
    println!("law rowwise.equal_numbers: {cases} cases");
    // Each storage that there is.
    let kinds: std::collections::HashSet<_> = storages.into_iter().collect();
    assert_eq!(kinds.len(), 9);
}

/// The bits of the results and of the sums of a norm by a plan, with the tensors that are `given`: the weight, the bias, and the residual with
/// the sum. Numbers of which some are negative, and the mean of a row is not 0.
fn norm_bits<T: GemmElement>(
    device: &Device,
    function: RowFunction,
    [rows, columns]: [usize; 2],
    [has_weight, has_bias, has_residual]: [bool; 3],
    plan: impl Fn(&RowwiseProblem) -> RowwisePlan,
) -> Result<[Vec<u64>; 2], colex_gpu::Error> {
    let numbers = |count: usize, step: usize| -> Vec<T> {
        let number = |i: usize| T::from_f64((i * step % 613) as f64 / 60.0 - 4.0);
        (0..count).map(number).collect()
    };
    let count = rows * columns;
    let [x, residual] = [7919, 104_729].map(|step| device.upload(&numbers(count, step)));
    let [weight, bias] = [31, 47].map(|step| device.upload(&numbers(columns, step)));
    let (x, residual, weight, bias) = (x?, residual?, weight?, bias?);
    let (mut y, mut sum) = (
        Output::<T>::new(device, count)?,
        Output::<T>::new(device, count)?,
    );
    let shape = (rows, columns);
    {
        let (x, y) = (x.view(shape)?, y.buffer().view_mut(shape)?);
        let mut call = Rowwise::new(function, &x, &y);
        if has_weight {
            call = call.weight(&weight.view(columns)?);
        }
        if has_bias {
            call = call.bias(&bias.view(columns)?);
        }
        if has_residual {
            call = call.residual(&residual.view(shape)?, &sum.buffer().view_mut(shape)?);
        }
        let call = call.prepare_with(|problem, _| Ok(plan(problem)))?;
        call.run(device)?;
    }
    let bits = |of: Vec<T>| of.iter().map(|y| y.to_f64().to_bits()).collect();
    let sums = if has_residual {
        sum.elements()?
    } else {
        Vec::new()
    };
    Ok([bits(y.elements()?), bits(sums)])
}

/// Norms whose blocks keep the weight and the bias in shared memory have the bits of those that load them for each row: with a weight, a bias
/// and both, with and without a residual, in every type, with each number of tiles ahead from 0 to 3, by one row in a block and by several, by
/// few warps and by many that meet once and twice, by clusters, with vectors of each width, of lengths that end before the last vector, inside
/// of the row's threads and with its first vector, with fewer tiles of rows than clusters and with more, under several schedules.
#[test]
fn law_weights_kept_in_shared_memory_change_no_bit() {
    let [mut cases, mut index, mut once] = [0; 3];
    let mut r = Random::new(0x4e36);
    // Threads and accesses; rows and blocks; tiles ahead and clusters.
    for (of_thread, [rows, blocks], [ahead, clusters]) in [
        ((32, 1), [1, 1], [0, 1]),
        ((32, 2), [1, 1], [1, 2]),
        ((64, 3), [2, 1], [0, 2]),
        ((16, 2), [4, 1], [2, 1]),
        ((256, 1), [1, 1], [0, 2]),
        ((256, 2), [1, 1], [1, 1]),
        ((256, 1), [2, 1], [3, 1]),
        ((512, 1), [1, 1], [1, 2]),
        ((64, 1), [1, 2], [0, 1]),
        ((32, 2), [1, 4], [1, 1]),
    ] {
        let all = (of_thread.0 * of_thread.1 * blocks) as usize;
        for (vectors, narrow) in [
            (all, false),
            (all - 1, true),
            (all / 2 + 1, false),
            (1, false),
        ] {
            for function in [RowFunction::RmsNorm, RowFunction::LayerNorm] {
                for given in [[true, false], [false, true], [true, true]] {
                    for has_residual in [false, true] {
                        index += 1;
                        // Neither the two functions nor the three sets of tensors repeat each eleventh time.
                        if !takes(11, index) {
                            continue;
                        }
                        let is_once = r.one_in(2);
                        let plan = |problem: &RowwiseProblem| {
                            let operands = problem.operands();
                            let narrower = if narrow { 4 } else { 1 };
                            let plan = RowwisePlan {
                                operands,
                                vector: 128 / i64::from(operands.ty.bits()) / narrower,
                                threads: of_thread.0,
                                rows,
                                accesses: of_thread.1,
                                blocks,
                                storage: RowStorage::Ahead {
                                    rows: ahead,
                                    clusters,
                                },
                                meets_once: is_once,
                                keeps_weights: true,
                            };
                            RowwisePlan {
                                meets_once: is_once && plan.check(Arch::Sm90a).is_ok(),
                                ..plan
                            }
                        };
                        let loads = |problem: &RowwiseProblem| RowwisePlan {
                            storage: RowStorage::Registers,
                            keeps_weights: false,
                            ..plan(problem)
                        };
                        let at_once = (rows * clusters) as usize;
                        let turns = [3 * at_once + 1, at_once, 1, 2 * at_once];
                        let count = r.one(&turns);
                        let given = [given[0], given[1], has_residual];
                        let width = |most: usize| most / if narrow { 4 } else { 1 } * vectors;
                        let ty = r.below(3_u64);
                        let shape = [count, width(if ty == 0 { 4 } else { 8 })];
                        match ty {
                            0 => agree::<f32>(function, shape, given, &plan, &loads),
                            1 => agree::<f16>(function, shape, given, &plan, &loads),
                            _ => agree::<bf16>(function, shape, given, &plan, &loads),
                        }
                        once += usize::from(is_once);
                        cases += 1;
                    }
                }
            }
        }
    }
    // Groups that take rows in turn, of a block, a cluster and a team: all of them read what the first group has copied.
    for (i, (of_thread, blocks, storage)) in [
        ((32, 2), 1, IN_TURN),
        ((64, 1), 2, IN_TURN),
        ((32, 2), 2, IN_TEAMS),
        ((32, 1), 3, IN_TEAMS_OF_TWO_GROUPS),
        ((32, 1), 3, IN_TEAMS_BEHIND),
        ((64, 2), 2, IN_TEAMS_BEHIND),
    ]
    .into_iter()
    .enumerate()
    {
        let all = (of_thread.0 * of_thread.1 * blocks) as usize;
        for (j, vectors) in [all, all - 1, all / 2 + 1, 1].into_iter().enumerate() {
            let function = [RowFunction::RmsNorm, RowFunction::LayerNorm][(i + j) % 2];
            let plan = |problem: &RowwiseProblem| RowwisePlan {
                operands: problem.operands(),
                vector: problem.operands().vector,
                threads: of_thread.0,
                rows: 1,
                accesses: of_thread.1,
                blocks,
                storage,
                meets_once: true,
                keeps_weights: true,
            };
            let loads = |problem: &RowwiseProblem| RowwisePlan {
                keeps_weights: false,
                ..plan(problem)
            };
            let given = [[true, false], [false, true], [true, true]][(i + 2 * j) % 3];
            let given = [given[0], given[1], false];
            let rows = r.one(&[1, 3, 7]);
            match j % 3 {
                0 => agree::<f32>(function, [rows, 4 * vectors], given, &plan, &loads),
                1 => agree::<f16>(function, [rows, 8 * vectors], given, &plan, &loads),
                _ => agree::<bf16>(function, [rows, 8 * vectors], given, &plan, &loads),
            }
            cases += 1;
        }
    }
    println!("law rowwise.kept_weights: {cases} cases");
    assert!(once > 0 && once < cases, "{once} of {cases}");
}

/// Compares the bits of two plans of a norm, of the first one under several schedules.
fn agree<T: GemmElement>(
    function: RowFunction,
    shape: [usize; 2],
    given: [bool; 3],
    plan: &dyn Fn(&RowwiseProblem) -> RowwisePlan,
    other: &dyn Fn(&RowwiseProblem) -> RowwisePlan,
) {
    let what = format!("{function} {}, {shape:?}, {given:?}", T::TY);
    let device = simulator(Arch::Sm90a, 0);
    let want = norm_bits::<T>(&device, function, shape, given, other);
    let want = want.unwrap_or_else(|why| panic!("{what}: {why}"));
    let found = testing::in_every_schedule(Arch::Sm90a, 3, |device| {
        norm_bits::<T>(device, function, shape, given, plan)
    });
    let found = found.unwrap_or_else(|why| panic!("{what}: {why}"));
    let problem = RowwiseProblem::new(function, T::TY, shape.map(|n| n as i64));
    assert!(found == want, "{what}: {}", plan(&problem));
}

/// A block that keeps the weight and the bias loads them once, and other ones for each row: the simulator counts as many bytes as the plan
/// says.
#[test]
fn weights_are_loaded_once_for_each_block() -> Result<(), colex_gpu::Error> {
    let device = simulator(Arch::Sm90a, 5);
    let [rows, columns] = [12, 1024];
    let x = device.zeros::<bf16>(rows * columns)?;
    let [weight, bias] = [
        device.zeros::<bf16>(columns)?,
        device.zeros::<bf16>(columns)?,
    ];
    let mut y = device.poisoned::<bf16>(rows * columns)?;
    let shape = (rows, columns);
    let call = Rowwise::new(RowFunction::LayerNorm, &x.view(shape)?, &y.view_mut(shape)?);
    let call = call
        .weight(&weight.view(columns)?)
        .bias(&bias.view(columns)?);
    let of = |plan: RowwisePlan| -> Result<(i64, String), colex_gpu::Error> {
        let call = call.prepare_with(|_, _| Ok(plan))?;
        let reports = call.profile(&device)?;
        let sectors: u64 = reports.iter().map(|report| report.sectors().0).sum();
        let problem = call.problem().cloned().expect("there are rows");
        Ok((32 * sectors as i64, plan.explain(&problem)))
    };
    let problem = call.problem()?.expect("there are rows");
    let fastest = RowwisePlan::fastest(&problem, Arch::Sm90a)?;
    for (ahead, of_block) in [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2)] {
        let kept = RowwisePlan {
            threads: 64,
            rows: of_block,
            accesses: 2,
            storage: RowStorage::Ahead {
                rows: ahead,
                clusters: 5,
            },
            keeps_weights: true,
            ..fastest
        };
        let loads = RowwisePlan {
            keeps_weights: false,
            ..kept
        };
        let of_rows = (2 * 2 * rows * columns) as i64;
        let of_weights = (2 * 2 * columns) as i64;
        let (bytes, text) = of(kept)?;
        assert_eq!(bytes, of_rows + 5 * of_block * of_weights, "{kept}");
        let said = format!(
            "all blocks load {} bytes of them, and {} without it.",
            5 * of_block * of_weights,
            12 * of_weights
        );
        assert!(text.contains(&said), "{text}");
        assert_eq!(of(loads)?.0, of_rows + 12 * of_weights, "{loads}");
    }
    Ok(())
}

/// What a plan that keeps weights says, and what it refuses.
#[test]
fn plans_that_keep_weights_say_so_or_are_refused() -> Result<(), colex_gpu::Error> {
    let problem = RowwiseProblem::new(RowFunction::LayerNorm, Ty::Bf16, [4096, 16384]);
    let mut plan = RowwisePlan::fastest(&problem, Arch::Sm90a)?;
    let without = plan;
    plan.operands.given[2] = true;
    plan.operands.given[3] = true;
    for (ahead, clusters) in [(0, 264), (1, 264), (2, 132), (4, 132)] {
        let kept = plan.keeping_weights(Arch::Sm90a, ahead)?;
        let storage = RowStorage::Ahead {
            rows: ahead,
            clusters,
        };
        assert_eq!(kept.storage, storage);
        let kernel = kept.build(Arch::Sm90a)?.kernel;
        assert_eq!(kernel.min_blocks, Some(clusters as u32 / 132), "{kept}");
    }
    let kept = plan.keeping_weights(Arch::Sm90a, 0)?;
    let two = RowwisePlan {
        rows: 2,
        threads: 256,
        accesses: 8,
        ..kept
    };
    let refused = |plan: RowwisePlan, arch| match plan.check(arch) {
        Err(error) => error.to_string(),
        Ok(()) => panic!("{plan} is accepted"),
    };
    assert!(two.check(Arch::Sm90a).is_ok());
    let ahead = |rows| RowStorage::Ahead { rows, clusters: 1 };
    let operands =
        "the operands of the plan are `layer norm of bf16, x, weight, bias, y, rows of 1 mode`";
    let mut softmax = RowwisePlan {
        keeps_weights: true,
        storage: ahead(1),
        ..without
    };
    softmax.operands.function = RowFunction::Softmax;
    let elsewhere = |storage| RowwisePlan { storage, ..kept };
    let needs_ahead = format!(
        "{operands}: blocks keep the weight and the bias that have one tile of rows in registers after the other"
    );
    for (plan, arch, why) in [
        (
            RowwisePlan {
                keeps_weights: true,
                storage: ahead(1),
                ..without
            },
            Arch::Sm90a,
            "the operands of the plan are `layer norm of bf16, x, y, rows of 1 mode`: shared memory keeps the weight and the bias of a \
             norm that has one of them"
                .to_string(),
        ),
        (
            softmax,
            Arch::Sm90a,
            "the operands of the plan are `softmax of bf16, x, y, rows of 1 mode`: shared memory keeps the weight and the bias of a norm \
             that has one of them"
                .to_string(),
        ),
        (elsewhere(RowStorage::Registers), Arch::Sm90a, needs_ahead.clone()),
        (elsewhere(PASSES), Arch::Sm90a, needs_ahead.clone()),
        (
            elsewhere(RowStorage::Divided {
                held: 0,
                kept: 1,
                clusters: 1,
            }),
            Arch::Sm90a,
            needs_ahead,
        ),
        (
            kept,
            Arch::Sm75,
            "the plan's accesses go to shared memory by asynchronous copies: these take 4, 8 or 16 bytes, and architectures since sm_80 \
             have them (this one is sm_75)"
                .to_string(),
        ),
        (
            RowwisePlan {
                vector: 1,
                ..kept
            },
            Arch::Sm90a,
            "the plan's accesses go to shared memory by asynchronous copies: these take 4, 8 or 16 bytes, and architectures since sm_80 \
             have them (this one is sm_90a)"
                .to_string(),
        ),
        (
            RowwisePlan {
                storage: ahead(5),
                ..kept
            },
            Arch::Sm90a,
            "the plan asks for 237568 bytes of shared memory for rows and weights: the layer norm kernel takes at most 232448, 5120 fewer"
                .to_string(),
        ),
        (
            RowwisePlan {
                storage: ahead(2),
                ..two
            },
            Arch::Sm90a,
            "the plan asks for 270336 bytes of shared memory for rows and weights: the layer norm kernel takes at most 232448, 37888 fewer"
                .to_string(),
        ),
    ] {
        assert_eq!(refused(plan, arch), why);
    }
    assert!(plan.keeping_weights(Arch::Sm90a, 5).is_err());
    Ok(())
}

#[test]
fn law_nan_and_infinity_of_rows() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let mut x = vec![1.0f32; 6 * 40];
    x[7] = nan;
    x[40 + 39] = inf;
    x[80..120].fill(-inf);
    x[120 + 3] = -inf;
    (x[160], x[161]) = (inf, -inf);
    let passes = |plan| RowwisePlan {
        threads: 32,
        rows: 1,
        accesses: 1,
        storage: RowStorage::Passes { kept: 0 },
        ..plan
    };
    let kept = |plan| RowwisePlan {
        storage: RowStorage::Passes { kept: 1 },
        ..passes(plan)
    };
    let ahead = |plan| RowwisePlan {
        threads: 32,
        rows: 1,
        accesses: 1,
        storage: RowStorage::Ahead {
            rows: 2,
            clusters: 2,
        },
        ..plan
    };
    let shifted = |plan| RowwisePlan {
        threads: 64,
        rows: 1,
        accesses: 1,
        storage: SHIFTED,
        ..plan
    };
    let once = |plan: RowwisePlan| RowwisePlan {
        threads: 256,
        meets_once: true,
        ..plan
    };
    let (once_held, once_kept) = (
        |plan| once(RowwisePlan { rows: 1, ..plan }),
        |plan| once(kept(plan)),
    );
    let (once_ahead, once_shifted) = (|plan| once(ahead(plan)), |plan| once(shifted(plan)));
    let once_in_turn = |plan| RowwisePlan {
        rows: 1,
        storage: RowStorage::Alternating {
            groups: 2,
            slots: 2,
            clusters: 2,
        },
        meets_once: true,
        ..ahead(plan)
    };
    let plans: [&dyn Fn(RowwisePlan) -> RowwisePlan; 9] = [
        &|plan| plan,
        &passes,
        &kept,
        &ahead,
        &shifted,
        &once_held,
        &once_kept,
        &once_ahead,
        &once_shifted,
    ];
    let plans = plans.map(|plan| (Arch::Sm80, plan));
    for (arch, plan) in plans.into_iter().chain([(Arch::Sm90a, &once_in_turn as _)]) {
        let y = result(arch, RowFunction::Softmax, [6, 40], &x, plan);
        for row in [0, 1, 2, 4] {
            assert!(
                y[40 * row..40 * row + 40].iter().all(|y| y.is_nan()),
                "row {row}"
            );
        }
        assert_eq!(y[123], 0.0);
        assert!((y[120] - 1.0 / 39.0).abs() < 1e-7 && (y[200] - 0.025).abs() < 1e-8);
        let y = result(arch, RowFunction::LogSoftmax, [6, 40], &x, plan);
        assert_eq!(y[123], -inf);
        assert!(y[..120].iter().all(|y| y.is_nan()));
    }
    println!("law rowwise.nan: 120 rows");
}

/// One row that a block does not hold: in passes of a block, in the registers of a cluster, in passes of a cluster.
#[test]
fn long_rows_are_held_by_a_cluster_or_read_in_passes() {
    let ahead = RowStorage::Ahead {
        rows: 4,
        clusters: 30,
    };
    for (arch, columns, storage, blocks) in [
        (Arch::Sm80, 40_000, PASSES, 1),
        (Arch::Sm90a, 40_000, ahead, 4),
        (Arch::Sm90a, 40_001, PASSES, 2),
    ] {
        long_row(arch, columns, storage, blocks);
    }
}

fn long_row(arch: Arch, columns: usize, storage: RowStorage, blocks: i64) {
    let x: Vec<f32> = (0..columns)
        .map(|i| (i * 7919 % 613) as f32 / 100.0)
        .collect();
    let wide: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
    let want = reference::row(RowFunction::Softmax, &wide, None, None, 0.0);
    let problem = RowwiseProblem::new(RowFunction::Softmax, Ty::F32, [1, columns as i64]);
    let plan = RowwisePlan::fastest(&problem, arch).expect("a plan");
    assert_eq!((plan.storage, plan.blocks), (storage, blocks), "{plan}");
    let device = simulator(arch, 1);
    let (from, mut to) = (
        device.upload(&x).expect("memory"),
        Output::<f32>::new(&device, columns).expect("memory"),
    );
    softmax(
        &from.view(columns).expect("a view"),
        &to.buffer().view_mut(columns).expect("a view"),
    )
    .expect("it runs");
    let found = to.elements().expect("all elements");
    for (found, want) in found.iter().zip(&want) {
        assert!(
            (f64::from(*found) - want).abs() <= 2e-6 * want,
            "{found} {want}"
        );
    }
}

/// Rows of tensors of 64 MiB and more, the threads and blocks of their plan on an H200, and its groups, slots, teams and lag.
type LaggingByDefault = (RowFunction, Ty, i64, (i64, i64), [i64; 4]);

/// What was measured to be the fastest.
const LAGGING_BY_DEFAULT: [LaggingByDefault; 15] = [
    (
        RowFunction::RmsNorm,
        Ty::F32,
        32768,
        (256, 8),
        [4, 12, 16, 2],
    ),
    (
        RowFunction::RmsNorm,
        Ty::F32,
        65536,
        (256, 16),
        [4, 12, 8, 2],
    ),
    (
        RowFunction::RmsNorm,
        Ty::F32,
        1 << 20,
        (256, 128),
        [2, 6, 1, 1],
    ),
    (
        RowFunction::RmsNorm,
        Ty::Bf16,
        65536,
        (256, 8),
        [4, 12, 16, 2],
    ),
    (
        RowFunction::RmsNorm,
        Ty::Bf16,
        1 << 20,
        (128, 128),
        [4, 12, 1, 2],
    ),
    (
        RowFunction::LayerNorm,
        Ty::F32,
        65536,
        (128, 16),
        [4, 12, 8, 2],
    ),
    (
        RowFunction::LayerNorm,
        Ty::F32,
        1 << 19,
        (128, 128),
        [4, 12, 1, 2],
    ),
    (
        RowFunction::LayerNorm,
        Ty::F32,
        1 << 20,
        (256, 128),
        [2, 6, 1, 1],
    ),
    (
        RowFunction::LayerNorm,
        Ty::Bf16,
        65536,
        (128, 8),
        [4, 12, 16, 2],
    ),
    (
        RowFunction::LayerNorm,
        Ty::Bf16,
        1 << 20,
        (128, 128),
        [4, 12, 1, 2],
    ),
    (
        RowFunction::Softmax,
        Ty::Bf16,
        196_608,
        (128, 16),
        [4, 8, 8, 1],
    ),
    (
        RowFunction::Softmax,
        Ty::F32,
        1 << 18,
        (256, 32),
        [2, 6, 4, 1],
    ),
    (
        RowFunction::LogSoftmax,
        Ty::F32,
        1 << 20,
        (256, 128),
        [2, 6, 1, 1],
    ),
    (
        RowFunction::Softmax,
        Ty::Bf16,
        1 << 19,
        (128, 64),
        [6, 12, 2, 1],
    ),
    (
        RowFunction::LogSoftmax,
        Ty::Bf16,
        1 << 20,
        (128, 128),
        [6, 12, 1, 1],
    ),
];

/// A faster memory makes the second pass of a row worth less, and the wait of a cluster's blocks for each other more: from some rate on,
/// all rows of a length are in passes, and a slower memory has the cluster. From some rate on, a block has two rows of a layer norm, and
/// registers and shared memory hold the rows of a softmax together: of `f32` those of more than 64 KiB and at most 512 KiB; of 16 bits those of
/// more than 32 KiB and at most 256 KiB, and of more than 384 KiB and less than 512 KiB. From this rate on, teams whose results lag behind their
/// totals have the longer rows up to 4 MiB, those of 16 bits of 512 KiB and of more than 256 KiB and at most 384 KiB, and those of a norm of more than 88 KiB. Below it, groups of threads take the rows of `f32` of more
/// than 256 KiB and at most 512 KiB in turn, and one block keeps all of the rows of 96 to 128 KiB. Teams without a lag have the other rows of
/// more than 512 KiB, in 16 bits of 512 KiB and more, where a model finds them faster than passes. Other lengths, functions and types have the
/// same plan at any rate.
#[test]
fn law_the_plan_of_rows_follows_the_rate_of_the_memory() {
    let usual = Rates::of(Arch::Sm90a);
    let h100 = Rates {
        memory_clock: 2_619_000,
        bus: 5120,
        ..usual
    };
    let on = |function, ty, columns, rates| {
        let problem = RowwiseProblem::new(function, ty, [1 << 10, columns]);
        let plan = RowwisePlan::fastest_on(&problem, Arch::Sm90a, rates).expect("a plan");
        assert!(
            plan.check(Arch::Sm90a).is_ok() && plan.takes(&problem),
            "{plan}"
        );
        plan
    };
    let kept = RowStorage::Passes { kept: 8 };
    let of_two = RowStorage::Divided {
        held: 2,
        kept: 14,
        clusters: 132,
    };
    // Tensors of less than 64 MiB have no teams.
    let small = |function, ty, columns| {
        let problem = RowwiseProblem::new(function, ty, [1 << 5, columns]);
        RowwisePlan::fastest_on(&problem, Arch::Sm90a, usual).expect("a plan")
    };
    for function in [RowFunction::RmsNorm, RowFunction::LayerNorm] {
        for (ty, columns) in [(Ty::F32, 65536), (Ty::Bf16, 131_072)] {
            let plan = small(function, ty, columns);
            assert_eq!((plan.threads, plan.blocks, plan.storage), (512, 2, of_two));
        }
    }
    let behind = |groups, slots, teams, lag| RowStorage::Teams {
        groups,
        slots,
        teams,
        lag,
    };
    // The teams of measured lengths whose results lag behind their totals.
    for (function, ty, columns, of_block, storage) in LAGGING_BY_DEFAULT {
        let plan = on(function, ty, columns, usual);
        let [groups, slots, teams, lag] = storage;
        let found = (plan.threads, plan.blocks, plan.storage);
        let (threads, blocks) = of_block;
        let wanted = (threads, blocks, behind(groups, slots, teams, lag));
        assert_eq!(found, wanted, "{plan}");
    }
    // By a slower memory, a norm has four groups of threads in each block if two such teams have room, an RMSNorm otherwise two, and a layer
    // norm one.
    for (function, ty, [threads, groups]) in [
        (RowFunction::RmsNorm, Ty::F32, [512, 2]),
        (RowFunction::RmsNorm, Ty::Bf16, [256, 4]),
        (RowFunction::LayerNorm, Ty::F32, [1024, 1]),
        (RowFunction::LayerNorm, Ty::Bf16, [256, 4]),
    ] {
        let plan = on(function, ty, 1 << 20, h100);
        let RowStorage::Teams {
            groups: found,
            teams,
            ..
        } = plan.storage
        else {
            panic!("{plan}");
        };
        let found = (plan.threads, plan.blocks, found, teams);
        assert_eq!(found, (threads, 64, groups, 2), "{plan}");
    }
    let in_turn = |clusters| RowStorage::Alternating {
        groups: 2,
        slots: 2,
        clusters,
    };
    let of_rates = |function, columns, rates| {
        let plan = on(function, Ty::F32, columns, rates);
        (plan.threads, plan.blocks, plan.storage)
    };
    let of_turns = |function, columns| of_rates(function, columns, usual);
    let of_slow = |function, columns| of_rates(function, columns, h100);
    for function in [RowFunction::Softmax, RowFunction::LogSoftmax] {
        // Registers and shared memory hold rows together.
        for (columns, of_row, [held, kept]) in [
            (16388, (512, 1), [0, 9]),
            (22528, (512, 1), [0, 11]),
            (22532, (1024, 1), [0, 6]),
            (53248, (1024, 1), [0, 13]),
            (53252, (256, 4), [1, 13]),
            (65536, (256, 4), [3, 13]),
            (65540, (256, 4), [0, 17]),
            (106_496, (256, 4), [8, 18]),
            (106_500, (256, 8), [1, 13]),
            (131_072, (256, 8), [3, 13]),
        ] {
            let (threads, blocks) = of_row;
            let storage = RowStorage::Divided {
                held,
                kept,
                clusters: 4096,
            };
            assert_eq!(of_turns(function, columns), (threads, blocks, storage));
        }
        let of_teams = |groups, teams| behind(groups, groups, teams, 0);
        // Four groups of threads, or as many as leave two teams to the device.
        assert_eq!(of_slow(function, 131_076), (256, 17, of_teams(4, 7)));
        assert_eq!(of_slow(function, 196_608), (256, 24, of_teams(4, 5)));
        assert_eq!(of_slow(function, 262_148), (256, 33, of_teams(4, 4)));
        assert_eq!(of_slow(function, 1 << 19), (256, 64, of_teams(4, 2)));
        assert_eq!(of_slow(function, 1 << 20), (512, 64, of_teams(2, 2)));
        // A row of more than 4 MiB.
        assert_eq!(of_turns(function, 1 << 21), (1024, 64, of_teams(1, 2)));
        // Registers and shared memory hold up to 1 MiB of a small tensor together again.
        for (columns, held, kept) in [(196_612, 0, 13), (1 << 18, 2, 14)] {
            let storage = RowStorage::Divided {
                held,
                kept,
                clusters: 28,
            };
            let plan = small(function, Ty::F32, columns);
            assert_eq!((plan.threads, plan.blocks, plan.storage), (512, 8, storage));
        }
        // Beyond what all multiprocessors hold.
        assert_eq!(of_turns(function, 1 << 23), (512, 8, kept));
        for (ty, shape, blocks) in [
            (Ty::F32, [16, 1 << 20], Some(128)),
            (Ty::F32, [15, 1 << 20], None),
            (Ty::Bf16, [32, 1 << 21], Some(128)),
            (Ty::Bf16, [15, 1 << 21], None),
            (Ty::Bf16, [64, 1 << 20], Some(128)),
            (Ty::Bf16, [128, 1 << 19], Some(64)),
            (Ty::Bf16, [128, (1 << 19) + 8], Some(103)),
            (Ty::Bf16, [256, 1 << 18], Some(32)),
            (Ty::Bf16, [256, (1 << 18) + 8], Some(37)),
        ] {
            let problem = RowwiseProblem::new(function, ty, shape);
            let plan = RowwisePlan::fastest_on(&problem, Arch::Sm90a, usual).expect("a plan");
            let is_of_teams = matches!(plan.storage, RowStorage::Teams { .. });
            assert_eq!(is_of_teams.then_some(plan.blocks), blocks, "{plan}");
        }
    }
    assert!(matches!(
        on(RowFunction::Softmax, Ty::F32, 65536, h100).storage,
        RowStorage::Ahead { .. }
    ));
    for rates in [usual, h100] {
        let of_one = on(RowFunction::LogSoftmax, Ty::F32, 16384, rates);
        assert_eq!(of_one.storage, kept);
    }
    for columns in [65540, 131_072] {
        let long = on(RowFunction::Softmax, Ty::F32, columns, h100);
        assert_eq!((long.threads, long.storage), (256, in_turn(14)));
    }
    for columns in [24576, 31740, 31744, 32768] {
        let whole = on(RowFunction::Softmax, Ty::F32, columns, h100);
        assert_eq!((whole.threads, whole.storage), (1024, kept));
    }
    let beside = RowStorage::Ahead {
        rows: 1,
        clusters: 264,
    };
    let of_norm = |rates| {
        let plan = on(RowFunction::LayerNorm, Ty::Bf16, 16384, rates);
        (plan.threads, plan.rows, plan.accesses, plan.storage)
    };
    assert_eq!(of_norm(usual), (256, 2, 8, beside));
    assert_eq!(of_norm(h100), (512, 1, 4, beside));
    let mut cases = 0;
    for function in RowFunction::ALL {
        for ty in [Ty::F32, Ty::F16, Ty::Bf16] {
            for columns in [
                33,
                4096,
                12288,
                16384,
                24576,
                24584,
                32768,
                40_000,
                49152,
                49156,
                65536,
                65537,
                131_072,
                131_076,
                // 384 KiB of 16 bits and 768 KiB of f32, and the first longer row.
                196_608,
                196_616,
                200_000,
                262_144,
                // 768 KiB of 16 bits, and the first longer row.
                393_216,
                393_224,
                400_000,
                524_288,
                524_296,
                1 << 20,
            ] {
                let problem = RowwiseProblem::new(function, ty, [1 << 10, columns]);
                let fastest = RowwisePlan::fastest(&problem, Arch::Sm90a).expect("a plan");
                let is_norm = function == RowFunction::LayerNorm;
                let row = columns * i64::from(ty.bits()) / 8;
                let is_vectors = row % 16 == 0;
                // One of two blocks that lie beside each other has the row of a layer norm.
                let is_of_one = is_vectors && is_norm && (24577..=32768).contains(&row);
                // One block has two rows of a layer norm of `f32` that would be one after the other.
                let is_of_pair =
                    is_vectors && is_norm && ty == Ty::F32 && (32769..=65536).contains(&row);
                let is_whole =
                    is_vectors && !function.is_norm() && (98304..=131_072).contains(&row);
                let is_of_four = ty == Ty::F32 && !is_norm && (32769..=65536).contains(&columns);
                let is_of_groups =
                    ty == Ty::F32 && !function.is_norm() && (49153..=131_072).contains(&columns);
                // The wait of a team weighs more the faster the memory is, so that it has the rows of a slow one.
                let least = match function {
                    RowFunction::RmsNorm => 1 << 18,
                    _ if ty == Ty::F32 => 1 << 19,
                    _ => (1 << 19) - 1,
                };
                let is_of_teams = row > least;
                // One block has one row of a layer norm of 16 bits, and the next one on its way.
                let is_of_next =
                    is_vectors && is_norm && ty != Ty::F32 && (32769..=65536).contains(&row);
                let divided = match (function, ty) {
                    (RowFunction::RmsNorm, Ty::F32) => &[49153..=90_112][..],
                    (RowFunction::RmsNorm, _) => &[32769..=90_112],
                    (RowFunction::LayerNorm, _) => &[65537..=90_112],
                    (_, Ty::F32) => &[65537..=524_288],
                    _ => &[32769..=262_144, 393_217..=524_287],
                };
                let is_divided = is_vectors && divided.iter().any(|of| of.contains(&row));
                let behind = match (function.is_norm(), ty) {
                    (true, _) => &[90_113..=4_194_304][..],
                    (false, Ty::F32) => &[524_289..=4_194_304],
                    (false, _) => &[262_145..=393_216, 524_288..=4_194_304],
                };
                let is_of_behind = is_vectors && behind.iter().any(|of| of.contains(&row));
                let is_weighed = is_divided
                    || is_of_behind
                    || is_vectors && (is_of_four || is_of_groups || is_of_teams)
                    || is_of_one
                    || is_of_pair
                    || is_of_next
                    || is_whole;
                let is_of_slow = is_of_teams || is_whole;
                let (mut was_again, mut was_ever) = (is_of_slow, false);
                for clock in (200_000..6_000_000).step_by(200_000) {
                    let rates = Rates {
                        memory_clock: clock,
                        ..usual
                    };
                    let plan = on(function, ty, columns, rates);
                    let is_again = plan != fastest;
                    assert!(is_weighed || !is_again, "{plan}");
                    let is_fast = rates.memory() >= 4_000_000;
                    let is_held = matches!(plan.storage, RowStorage::Divided { .. });
                    assert_eq!(is_held, is_divided && is_fast, "{plan} at {clock}");
                    let is_behind = matches!(plan.storage, RowStorage::Teams { lag: 1.., .. });
                    assert_eq!(is_behind, is_of_behind && is_fast, "{plan} at {clock}");
                    if is_held || is_behind {
                        // Any rate from here on has this plan, also where teams without a lag had the rows at a lower one.
                        was_ever = true;
                        cases += 1;
                        continue;
                    }
                    let is_monotonic = if is_of_slow {
                        was_again || !is_again
                    } else {
                        is_again || !was_again
                    };
                    assert!(is_monotonic, "{plan} at {clock}");
                    let is_right = match plan.storage {
                        RowStorage::Alternating { .. } => {
                            is_of_groups && (is_fast || row > 1 << 18)
                        }
                        RowStorage::Teams { .. } => is_of_teams,
                        _ if is_of_next => plan.rows == 1 && plan.threads == 512,
                        _ if is_norm => plan.rows == 2,
                        _ if is_whole => plan.threads == 1024 && !is_fast,
                        _ => plan.storage == kept,
                    };
                    assert!(!is_again || is_right, "{plan}");
                    was_again = is_again;
                    was_ever |= is_again;
                    cases += 1;
                }
                assert_eq!(was_ever, is_weighed, "{function} {ty} {columns}");
            }
        }
    }
    println!("law rowwise.rates: {cases} cases");
}

/// The plans of lengths that were measured on an H200.
#[test]
fn the_plan_of_rows_is_the_measured_one() {
    let plan = |function, ty, columns, arch| {
        let problem = RowwiseProblem::new(function, ty, [1 << 12, columns]);
        let plan = RowwisePlan::fastest(&problem, arch).expect("a plan");
        assert!(plan.check(arch).is_ok() && plan.takes(&problem), "{plan}");
        let RowwisePlan {
            threads,
            accesses,
            blocks,
            storage,
            ..
        } = plan;
        (threads, accesses, blocks, storage)
    };
    let softmax = |ty, columns| plan(RowFunction::Softmax, ty, columns, Arch::Sm90a);
    let registers = RowStorage::Registers;
    assert_eq!(softmax(Ty::F32, 33), (8, 5, 1, registers));
    assert_eq!(softmax(Ty::Bf16, 33), (1, 33, 1, STAGED));
    assert_eq!(softmax(Ty::Bf16, 511), (16, 32, 1, STAGED));
    assert_eq!(softmax(Ty::F32, 4096), (256, 4, 1, registers));
    assert_eq!(softmax(Ty::F32, 4097), (512, 9, 1, registers));
    assert_eq!(softmax(Ty::Bf16, 4097), (128, 4, 1, SHIFTED));
    assert_eq!(softmax(Ty::Bf16, 16383), (512, 4, 1, SHIFTED));
    // 128 threads with five accesses have no lane without work; 256 with three would have a sixth without.
    assert_eq!(softmax(Ty::Bf16, 5120), (128, 5, 1, registers));
    assert_eq!(softmax(Ty::F32, 5120), (256, 5, 1, registers));
    let before = plan(RowFunction::Softmax, Ty::Bf16, 1 << 20, Arch::Sm80);
    assert_eq!(before, (512, 4, 1, PASSES));
}

/// The default plan of a norm with a weight, and a bias if it is a layer norm, by the rates of an H200.
fn norm_plan<T: GemmElement>(
    function: RowFunction,
    [rows, columns]: [i64; 2],
    with_residual: bool,
) -> RowwisePlan {
    let device = Device::simulator(Arch::Sm90a);
    let of = |count: i64| device.poisoned::<T>(count as usize).expect("memory");
    let [x, residual] = [(); 2].map(|()| of(rows * columns));
    let [mut y, mut sum] = [(); 2].map(|()| of(rows * columns));
    let weight = of(columns);
    let shape = (rows, columns);
    let (x, y) = (x.view(shape), y.view_mut(shape));
    let (x, y) = (x.expect("x"), y.expect("y"));
    let weight = weight.view(columns).expect("a weight");
    let mut call = Rowwise::new(function, &x, &y).weight(&weight);
    if function == RowFunction::LayerNorm {
        call = call.bias(&weight);
    }
    if with_residual {
        let (residual, sum) = (residual.view(shape), sum.view_mut(shape));
        call = call.residual(&residual.expect("residual"), &sum.expect("sum"));
    }
    let plan = call.plan().expect("a plan").expect("a problem");
    assert!(plan.check(Arch::Sm90a).is_ok(), "{plan}");
    plan
}

/// The plans of norms with weights whose rows no vector divides: a block has one row after the other, and keeps the weights. Of an
/// RMSNorm with a residual, each row has a block. Rows of `f32` and of few numbers have other plans; the number of rows changes nothing.
#[test]
fn norms_with_weights_of_any_length_have_shifted_rows() {
    let after = |clusters| RowStorage::Shifted { rows: 1, clusters };
    for function in [RowFunction::RmsNorm, RowFunction::LayerNorm] {
        for (columns, [threads, accesses, clusters]) in [
            (513, [64, 1, 1056]),
            (2055, [64, 4, 1056]),
            (2056 + 1, [128, 3, 528]),
            (4097, [128, 4, 528]),
            (4105, [256, 3, 264]),
            (8201, [512, 3, 128]),
            (16401, [1024, 3, 128]),
        ] {
            for rows in [1, 3, 1000] {
                for found in [
                    norm_plan::<bf16>(function, [rows, columns], false),
                    norm_plan::<f16>(function, [rows, columns], false),
                ] {
                    assert_eq!(found.storage, after(clusters), "{found}");
                    assert_eq!(
                        (found.threads, found.accesses),
                        (threads, accesses),
                        "{found}"
                    );
                    assert!(!found.meets_once, "{found}");
                    let kernel = found.build(Arch::Sm90a).expect("a kernel").kernel;
                    let text = kernel.ptx().expect("text");
                    assert!(!text.contains("trap"), "{found}");
                    assert_eq!(
                        kernel.min_blocks,
                        Some((512 / threads as u32).max(1)),
                        "{found}"
                    );
                }
            }
        }
        let is_shifted = |plan: RowwisePlan| matches!(plan.storage, RowStorage::Shifted { .. });
        assert!(!is_shifted(norm_plan::<f32>(function, [3, 4097], false)));
        assert!(!is_shifted(norm_plan::<bf16>(function, [3, 511], false)));
        assert!(!is_shifted(norm_plan::<bf16>(function, [3, 4096], false)));
    }
    let said = |function, with_residual| {
        norm_plan::<bf16>(function, [1000, 4097], with_residual).to_string()
    };
    assert_eq!(
        said(RowFunction::LayerNorm, false),
        "layer norm bf16, vectors of 8, 128 threads for a row, 1 row in a block, 4 accesses, shifted rows in registers, 1 row ahead, \
         528 blocks"
    );
    assert_eq!(
        said(RowFunction::LayerNorm, true),
        "layer norm bf16, vectors of 8, 256 threads for a row, 1 row in a block, 2 accesses, shifted rows in registers, 1 row ahead, \
         264 blocks"
    );
    assert_eq!(
        said(RowFunction::RmsNorm, true),
        "RMSNorm bf16, vectors of 8, 128 threads for a row, 1 row in a block, 4 accesses, shifted rows in registers"
    );
}

/// A layer norm with weights keeps them in shared memory on a fast memory, by 512 threads, up to 32 KiB of a row and without a row ahead.
/// Longer rows of 16 bits, up to 64 KiB, keep them too, and have the next row on its way.
#[test]
fn a_layer_norm_of_long_rows_keeps_its_weights() {
    for (columns, accesses, ahead, clusters) in [
        (16384, 4, 0, 528),
        (16392, 5, 1, 132),
        (24576, 6, 1, 132),
        (32768, 8, 1, 132),
    ] {
        let plan = norm_plan::<bf16>(RowFunction::LayerNorm, [3, columns], false);
        let storage = RowStorage::Ahead {
            rows: ahead,
            clusters,
        };
        let found = (plan.keeps_weights, plan.meets_once);
        assert_eq!(found, (true, false), "{plan}");
        assert_eq!(
            (plan.threads, plan.rows, plan.accesses, plan.storage),
            (512, 1, accesses, storage)
        );
        let other = norm_plan::<bf16>(RowFunction::LayerNorm, [3, columns], true);
        assert!(!other.keeps_weights, "{other}");
        let other = norm_plan::<bf16>(RowFunction::RmsNorm, [3, columns], false);
        assert!(!other.keeps_weights, "{other}");
    }
    for other in [
        norm_plan::<bf16>(RowFunction::LayerNorm, [3, 32776], false),
        norm_plan::<f32>(RowFunction::LayerNorm, [3, 16384], false),
    ] {
        assert!(!other.keeps_weights, "{other}");
    }
}

/// Longer rows, by what fits into the shared memory of Hopper's multiprocessors.
#[test]
fn the_plan_of_long_rows_follows_from_their_bytes() {
    let plan = |function, ty, columns| {
        let problem = RowwiseProblem::new(function, ty, [1 << 12, columns]);
        let plan = RowwisePlan::fastest(&problem, Arch::Sm90a).expect("a plan");
        assert!(
            plan.check(Arch::Sm90a).is_ok() && plan.takes(&problem),
            "{plan}"
        );
        (plan.threads, plan.accesses, plan.blocks, plan.storage)
    };
    let softmax = |ty, columns| plan(RowFunction::Softmax, ty, columns);
    let ahead = |rows, clusters| RowStorage::Ahead { rows, clusters };
    let kept = RowStorage::Passes { kept: 8 };
    assert_eq!(softmax(Ty::Bf16, 16384), (512, 4, 1, RowStorage::Registers));
    assert_eq!(softmax(Ty::F32, 16384), (512, 1, 1, kept));
    // Of 16 bits, what one block does not hold is read again.
    for ty in [Ty::Bf16, Ty::F16] {
        assert_eq!(softmax(ty, 65536), (512, 1, 1, kept));
    }
    assert_eq!(softmax(Ty::F32, 65536), (1024, 4, 4, ahead(3, 30)));
    // One block has 128 KiB, two have 256, and eight have 512 and more.
    assert_eq!(softmax(Ty::Bf16, 65544), (512, 1, 2, kept));
    assert_eq!(softmax(Ty::Bf16, 131_072), (512, 1, 2, kept));
    assert_eq!(softmax(Ty::Bf16, 131_080), (512, 1, 4, kept));
    assert_eq!(softmax(Ty::F32, 131_068), (512, 1, 4, kept));
    // 512 threads would keep up to 72 KiB of a part of eight blocks, but for a turn; four blocks of 256 beside each other are faster.
    assert_eq!(softmax(Ty::F32, 131_072), (256, 1, 8, kept));
    assert_eq!(softmax(Ty::Bf16, 1 << 18), (256, 1, 8, kept));
    assert_eq!(softmax(Ty::F32, 147_456), (256, 1, 8, kept));
    assert_eq!(softmax(Ty::F32, 147_488), (512, 1, 8, kept));
    assert_eq!(softmax(Ty::Bf16, 40_000), (512, 1, 1, kept));
    assert_eq!(softmax(Ty::F32, 40_000), (1024, 3, 4, ahead(4, 30)));
    // Two blocks of a cluster would hold the row; passes of one are faster.
    assert_eq!(softmax(Ty::F32, 32768), (512, 1, 1, kept));
    assert_eq!(softmax(Ty::F32, 16388), (512, 1, 1, kept));
    assert_eq!(softmax(Ty::Bf16, 32768), (512, 1, 1, kept));
    assert_eq!(softmax(Ty::Bf16, 24584), (512, 1, 1, kept));
    assert_eq!(softmax(Ty::Bf16, 24576), (256, 1, 1, kept));
    for ty in [Ty::F32, Ty::Bf16] {
        assert_eq!(softmax(ty, 1 << 20), (512, 1, 8, kept));
    }
    assert_eq!(softmax(Ty::F32, 1 << 18), (512, 1, 8, kept));
    // By the rates of an H200, whole rows of more than 32 KiB are in passes, up to 48 KiB by half of the threads.
    let of_h200 = |ty, columns| {
        let problem = RowwiseProblem::new(RowFunction::Softmax, ty, [1 << 12, columns]);
        let plan = RowwisePlan::fastest_on(&problem, Arch::Sm90a, Rates::of(Arch::Sm90a));
        let plan = plan.expect("a plan");
        assert!(plan.takes(&problem) && plan.meets_once, "{plan}");
        (plan.threads, plan.accesses, plan.blocks, plan.storage)
    };
    assert_eq!(of_h200(Ty::Bf16, 16384), (512, 4, 1, RowStorage::Registers));
    assert_eq!(of_h200(Ty::F32, 12288), (256, 1, 1, kept));
    assert_eq!(of_h200(Ty::F32, 16384), (512, 1, 1, kept));
    let divided = |held, kept, clusters| RowStorage::Divided {
        held,
        kept,
        clusters,
    };
    assert_eq!(of_h200(Ty::Bf16, 24576), (512, 1, 1, divided(0, 6, 4096)));
    assert_eq!(of_h200(Ty::Bf16, 24584), (512, 1, 1, divided(0, 7, 4096)));
    assert_eq!(of_h200(Ty::F32, 40_000), (1024, 1, 1, divided(0, 10, 4096)));
    assert_eq!(of_h200(Ty::Bf16, 40_000), (512, 1, 1, divided(0, 10, 4096)));
    assert_eq!(of_h200(Ty::Bf16, 65536), (512, 1, 1, divided(2, 14, 4096)));
    assert_eq!(of_h200(Ty::F32, 65536), (256, 1, 4, divided(3, 13, 4096)));
    assert_eq!(of_h200(Ty::F32, 131_072), (256, 1, 8, divided(3, 13, 4096)));
    let norm = |columns| plan(RowFunction::LayerNorm, Ty::Bf16, columns);
    assert_eq!(norm(16384), (512, 4, 1, ahead(1, 264)));
    assert_eq!(norm(32768), (1024, 4, 1, ahead(1, 132)));
    assert_eq!(norm(65536), (1024, 4, 2, ahead(3, 66)));
    let kept = RowStorage::Passes { kept: 9 };
    assert_eq!(norm(1 << 20), (1024, 1, 8, kept));
}

/// Where 8 and more warps, a cluster or shifted rows take the powers of a row in vectors, they meet once by default; so do those of a layer
/// norm that has its rows in registers. A block has two rows of a layer norm with a residual only where its threads have as many registers
/// as there are.
#[test]
fn the_meetings_and_the_rows_of_a_block_are_the_measured_ones() {
    let rates = Rates::of(Arch::Sm90a);
    let on = |function, ty, columns| {
        let problem = RowwiseProblem::new(function, ty, [1 << 12, columns]);
        RowwisePlan::fastest_on(&problem, Arch::Sm90a, rates).expect("a plan")
    };
    for function in RowFunction::ALL {
        let is_softmax = !function.is_norm();
        for (ty, columns, is_once) in [
            (Ty::F32, 4096, true),
            (Ty::Bf16, 4096, false),
            (Ty::F32, 4097, false),
            (Ty::Bf16, 4097, true),
            (Ty::Bf16, 16384, true),
            (Ty::F32, 16384, true),
            (Ty::F32, 65536, true),
            (Ty::F32, 1 << 20, true),
            (Ty::F32, 33, false),
        ] {
            let plan = on(function, ty, columns);
            let is_layer_norm = function == RowFunction::LayerNorm;
            let is_held = plan.storage == RowStorage::Registers
                || matches!(plan.storage, RowStorage::Ahead { .. });
            let is_pair = plan.rows == 2 && plan.operands.ty == Ty::F32;
            let has_registers = (plan.rows == 1 || is_pair) && plan.threads < 1024;
            let is_of_teams = matches!(plan.storage, RowStorage::Teams { .. });
            let has_two_totals =
                is_softmax || is_of_teams || is_layer_norm && is_held && has_registers;
            assert_eq!(plan.meets_once, has_two_totals && is_once, "{plan}");
        }
    }
    let device = Device::simulator(Arch::Sm90a);
    for (function, columns, rows) in [
        (RowFunction::LayerNorm, 16384, 2),
        (RowFunction::LayerNorm, 14344, 2),
        (RowFunction::LayerNorm, 14336, 1),
        (RowFunction::LayerNorm, 5120, 1),
        (RowFunction::RmsNorm, 16384, 1),
    ] {
        let zeros = || device.zeros::<half::bf16>(columns).expect("memory");
        let [x, residual, mut y, mut sum] = [(); 4].map(|()| zeros());
        let shape = (1, columns as i64);
        let call = Rowwise::new(
            function,
            &x.view(shape).expect("x"),
            &y.view_mut(shape).expect("y"),
        );
        let plan = call
            .residual(
                &residual.view(shape).expect("residual"),
                &sum.view_mut(shape).expect("sum"),
            )
            .plan();
        let plan = plan.expect("a plan").expect("a problem");
        assert_eq!((plan.threads, plan.rows), (256, rows), "{plan}");
    }
}

/// A norm with a residual holds a row that one without reads again.
#[test]
fn a_residual_is_a_reason_to_hold_a_row() {
    let device = Device::simulator(Arch::Sm90a);
    for (columns, held) in [(32768, (512, 8, 1)), (65536, (512, 8, 2))] {
        let zeros = || device.zeros::<half::bf16>(columns).expect("memory");
        let [x, residual, mut y, mut sum] = [(); 4].map(|()| zeros());
        let shape = (1, columns as i64);
        let call = Rowwise::new(
            RowFunction::RmsNorm,
            &x.view(shape).expect("x"),
            &y.view_mut(shape).expect("y"),
        );
        let plan = call.plan().expect("a plan").expect("a problem");
        assert!(plan.storage != RowStorage::Registers, "{plan}");
        let call = call.residual(
            &residual.view(shape).expect("residual"),
            &sum.view_mut(shape).expect("sum"),
        );
        let plan = call.plan().expect("a plan").expect("a problem");
        assert_eq!((plan.threads, plan.accesses, plan.blocks), held, "{plan}");
        assert!(plan.storage == RowStorage::Registers, "{plan}");
    }
}

/// A launch has at most 2^31 - 1 blocks: a plan takes no problem that needs more.
#[test]
fn law_plans_of_rows_take_the_blocks_of_a_launch() {
    let of = |rows| RowwiseProblem::new(RowFunction::Softmax, Ty::Bf16, [rows, 1000]);
    let mut cases = 0;
    for arch in [Arch::Sm80, Arch::Sm90a] {
        let fastest = RowwisePlan::fastest(&of(100), arch).expect("a plan");
        for rows in [1, 2, 4, 8] {
            let plan = RowwisePlan { rows, ..fastest };
            let most = rows * ((1 << 31) - 1);
            assert!(plan.takes(&of(1)) && plan.takes(&of(most)), "{plan}");
            assert!(!plan.takes(&of(most + 1)), "{plan}");
            assert!(!plan.takes(&of(i64::MAX)), "{plan}");
            cases += 4;
        }
    }
    println!("law rowwise.blocks: {cases} cases");
}

#[test]
fn refused_functions_of_rows_say_what_would_be_right() {
    let device = Device::simulator(Arch::Sm90a);
    let memory = device.zeros::<f32>(400).expect("memory");
    let mut output = device.zeros::<f32>(400).expect("memory");
    let x = memory.view((2, 100)).expect("a view");
    let error =
        |result: Result<(), colex_gpu::Error>| result.expect_err("it is refused").to_string();
    let mut found = Vec::new();
    {
        let y = output.view_mut((100, 2)).expect("a view");
        found.push(error(softmax(&x, &y)));
    }
    {
        let y = output.view_mut((2, 100)).expect("a view");
        let of = |function| Rowwise::new(function, &x, &y);
        let w = memory.view(99).expect("a view");
        found.push(error(of(RowFunction::Softmax).weight(&w).run()));
        found.push(error(of(RowFunction::RmsNorm).weight(&w).run()));
        found.push(error(of(RowFunction::RmsNorm).epsilon(-1.0).run()));
        let planned = |change: &dyn Fn(&mut RowwisePlan)| {
            let call = of(RowFunction::Softmax).prepare_with(|problem, arch| {
                let mut plan = RowwisePlan::fastest(problem, arch)?;
                change(&mut plan);
                Ok(plan)
            });
            call.expect_err("it is refused").to_string()
        };
        found.push(planned(&|plan| plan.vector = 3));
        found.push(planned(&|plan| plan.accesses = 9));
        found.push(planned(&|plan| plan.blocks = 16));
        found.push(planned(&|plan| plan.blocks = 2));
        found.push(planned(&|plan| plan.threads = 1));
        found.push(planned(&|plan| {
            plan.operands.function = RowFunction::LogSoftmax
        }));
        found.push(planned(&|plan| plan.accesses = 3));
        found.push(planned(&|plan| {
            (plan.threads, plan.rows, plan.accesses, plan.blocks) = (1024, 1, 8, 8)
        }));
        found.push(planned(&|plan| {
            (plan.threads, plan.rows, plan.blocks) = (16, 1, 2)
        }));
        found.push(planned(&|plan| plan.operands.given[4] = false));
        found.push(planned(&|plan| plan.operands.given[2] = true));
        found.push(planned(&|plan| {
            plan.operands.function = RowFunction::RmsNorm;
            plan.operands.given[1] = true;
        }));
        found.push(planned(&|plan| plan.operands.modes = usize::MAX));
        found.push(planned(&|plan| {
            (plan.operands.contiguous, plan.vector) = (false, 4)
        }));
        let ahead = |rows, clusters| RowStorage::Ahead { rows, clusters };
        found.push(planned(&|plan| plan.meets_once = true));
        found.push(planned(&|plan| plan.storage = ahead(-1, 1)));
        found.push(planned(&|plan| plan.storage = ahead(1, 0)));
        found.push(planned(&|plan| plan.storage = ahead(64, 1)));
        found.push(planned(&|plan| {
            plan.storage = RowStorage::Passes { kept: 65 }
        }));
        let turns = |plan: &mut RowwisePlan, threads, [groups, slots, clusters]: [i64; 3]| {
            let storage = RowStorage::Alternating {
                groups,
                slots,
                clusters,
            };
            (plan.threads, plan.rows, plan.accesses) = (threads, 1, 1);
            (plan.storage, plan.meets_once) = (storage, true);
        };
        found.push(planned(&|plan| {
            turns(plan, 32, [2, 2, 1]);
            plan.vector = 2;
        }));
        found.push(planned(&|plan| {
            turns(plan, 32, [2, 2, 1]);
            plan.meets_once = false;
        }));
        found.push(planned(&|plan| {
            turns(plan, 32, [2, 2, 1]);
            plan.rows = 2;
        }));
        found.push(planned(&|plan| turns(plan, 16, [2, 2, 1])));
        found.push(planned(&|plan| turns(plan, 32, [9, 9, 1])));
        found.push(planned(&|plan| turns(plan, 512, [3, 3, 1])));
        found.push(planned(&|plan| turns(plan, 32, [3, 2, 1])));
        found.push(planned(&|plan| turns(plan, 32, [2, 2, 0])));
        found.push(planned(&|plan| {
            turns(plan, 512, [2, 2, 1]);
            plan.accesses = 9;
        }));
        found.push(planned(&|plan| {
            turns(plan, 512, [2, 64, 1]);
            plan.accesses = 8;
        }));
        found.push(planned(&|plan| {
            turns(plan, 32, [2, 2, 1]);
            plan.accesses = 17;
        }));
        let divided = |plan: &mut RowwisePlan, [held, kept, clusters]: [i64; 3]| {
            (plan.threads, plan.rows, plan.accesses) = (32, 1, 1);
            plan.storage = RowStorage::Divided {
                held,
                kept,
                clusters,
            };
        };
        found.push(planned(&|plan| divided(plan, [0, 0, 1])));
        found.push(planned(&|plan| divided(plan, [-1, 1, 1])));
        found.push(planned(&|plan| divided(plan, [9, 1, 1])));
        found.push(planned(&|plan| divided(plan, [1, 1, 0])));
        found.push(planned(&|plan| divided(plan, [1, 2, 1])));
        let behind = |plan: &mut RowwisePlan, blocks, [groups, slots, teams, lag]: [i64; 4]| {
            let storage = RowStorage::Teams {
                groups,
                slots,
                teams,
                lag,
            };
            (plan.threads, plan.rows, plan.accesses, plan.blocks) = (32, 1, 1, blocks);
            (plan.storage, plan.meets_once) = (storage, true);
        };
        let teams = |plan: &mut RowwisePlan, blocks, [groups, slots, teams]: [i64; 3]| {
            behind(plan, blocks, [groups, slots, teams, 0]);
        };
        found.push(planned(&|plan| teams(plan, 1, [1, 1, 1])));
        found.push(planned(&|plan| teams(plan, 257, [1, 1, 1])));
        found.push(planned(&|plan| teams(plan, 3, [1, 1, 0])));
        found.push(planned(&|plan| teams(plan, 3, [2, 3, 1])));
        found.push(planned(&|plan| behind(plan, 3, [1, 2, 1, 2])));
        found.push(planned(&|plan| behind(plan, 3, [2, 4, 1, -1])));
        found.push(planned(&|plan| {
            teams(plan, 132, [1, 1, 2]);
            plan.threads = 1024;
            plan.accesses = 8;
        }));
        let shifted = |plan: &mut RowwisePlan, [threads, rows, blocks]: [i64; 3]| {
            plan.storage = SHIFTED;
            (plan.threads, plan.rows, plan.blocks) = (threads, rows, blocks);
        };
        found.push(planned(&|plan| shifted(plan, [64, 2, 1])));
        found.push(planned(&|plan| shifted(plan, [64, 1, 2])));
        found.push(planned(&|plan| shifted(plan, [32, 1, 1])));
        found.push(planned(&|plan| {
            shifted(plan, [64, 1, 1]);
            plan.operands.modes = 2;
        }));
        for (rows, clusters) in [(0, 6), (0, 4100), (1, 0), (2, 4)] {
            found.push(planned(&|plan| {
                shifted(plan, [64, 1, 1]);
                plan.vector = 4;
                plan.storage = RowStorage::Shifted { rows, clusters };
            }));
        }
        let problem = of(RowFunction::Softmax).problem().expect("a problem");
        let plan = RowwisePlan::fastest(&problem.expect("rows"), Arch::Sm70).expect("a plan");
        let plan = RowwisePlan {
            storage: RowStorage::Passes { kept: 1 },
            ..plan
        };
        let refused = plan.check(Arch::Sm70).expect_err("it is refused");
        found.push(refused.to_string());
    }
    {
        let layout = Layout::new((4, (5, 5)), (25, (5, 1))).expect("a layout");
        let x = View::new(&memory, &layout).expect("a view");
        let y = ViewMut::new(&mut output, &layout).expect("a view");
        found.push(error(softmax(&x, &y)));
    }
    {
        let layout = Layout::new((2, 33), (36, 1)).expect("a layout");
        let x = View::new(&memory, &layout).expect("a view");
        let y = ViewMut::new(&mut output, &layout).expect("a view");
        let call = Rowwise::new(RowFunction::Softmax, &x, &y).prepare_with(|problem, arch| {
            let plan = RowwisePlan::fastest(problem, arch)?;
            let storage = SHIFTED;
            Ok(RowwisePlan {
                vector: 4,
                threads: 64,
                rows: 1,
                storage,
                ..plan
            })
        });
        found.push(call.expect_err("it is refused").to_string());
    }
    {
        let x = memory.view((2, 33)).expect("a view");
        let y = output.view_mut((2, 33)).expect("a view");
        let call = Rowwise::new(RowFunction::Softmax, &x, &y).prepare_with(|problem, arch| {
            let plan = RowwisePlan::fastest(problem, arch)?;
            Ok(RowwisePlan { vector: 2, ..plan })
        });
        found.push(call.expect_err("it is refused").to_string());
    }
    let doubles = device.zeros::<f64>(4).expect("memory");
    let mut to = device.zeros::<f64>(4).expect("memory");
    let result = softmax(
        &doubles.view(4).expect("a view"),
        &to.view_mut(4).expect("a view"),
    );
    found.push(error(result));
    assert_eq!(
        found,
        [
            "y has the shape (100,2), and x (2,100): both must be equal",
            "the softmax has no weight: norms have one",
            "weight has the shape 99: it must be 100, the columns of x (2,100)",
            "epsilon is -1: it must be a number that is at least 0",
            "the plan's vector is 3: the softmax kernel takes a power of two, 1 to 4",
            "the plan's number of accesses is 9: the softmax kernel takes 1 to 8",
            "the plan's number of blocks of a row is 16: the softmax kernel takes a power of two, 1 to 8",
            "the plan's number of rows of a block of a cluster is 16: the softmax kernel takes 1 only",
            "the plan's number of threads of a block is 16: the softmax kernel takes 32 to 1024, in multiples of 32",
            "the plan was made for another call: log-softmax of f32, x, y, rows of 1 mode in the plan and softmax of f32, x, y, \
             rows of 1 mode in the call",
            "the plan holds rows of up to 96 columns, and the call has 100: more threads or accesses hold them, or rows in passes",
            "the plan's last tile begins 229276 columns behind the row: it may begin 65536 behind it",
            "the plan's number of threads of a block of a cluster is 16: the softmax kernel takes 32 to 1024, in multiples of 32",
            "the operands of the plan are `softmax of f32, x, rows of 1 mode`: the kernel reads x and writes y",
            "the operands of the plan are `softmax of f32, x, weight, y, rows of 1 mode`: norms have weights, a bias or a residual",
            "the operands of the plan are `RMSNorm of f32, x, residual, y, rows of 1 mode`: a kernel that adds a residual writes \
             the sum",
            "the operands of the plan are `softmax of f32, x, y, rows of 9223372036854775807 modes`: rows have 1 to 16 modes",
            "the operands of the plan are `softmax of f32, x, y, rows of 1 mode`: accesses of several elements need columns with \
             the stride 1",
            "the operands of the plan are `softmax of f32, x, y, rows of 1 mode`: warps meet once only where 8 and \
             more, a cluster or shifted rows exchange totals",
            "the plan's number of tiles of rows ahead is -1: the softmax kernel takes 0 to 64",
            "the plan's number of clusters is 0: the softmax kernel takes 1 to 4096",
            "the plan asks for 532480 bytes of shared memory for rows: the softmax kernel takes at most 232448, 300032 fewer",
            "the plan's number of chunks that are kept is 65: the softmax kernel takes 0 to 64",
            "the plan's groups take rows in turn that bulk copies bring: accesses take 16 bytes, and architectures since sm_90 have \
             these copies (this one is sm_90a)",
            "the operands of the plan are `softmax of f32, x, y, rows of 1 mode`: rows that groups take in turn are those of one \
             tensor, and their warps meet once",
            "the plan's number of rows of a group is 2: the softmax kernel takes 1 only",
            "the plan's number of threads of a group is 16: the softmax kernel takes 32 to 1024, in multiples of 32",
            "the plan's number of groups that take rows in turn is 9: the softmax kernel takes 1 to 8",
            "the plan's number of groups that take rows in turn is 3: the softmax kernel takes 1 to 2",
            "the plan's number of slots of rows is 2: the softmax kernel takes 3 to 64, in multiples of 3",
            "the plan's number of clusters is 0: the softmax kernel takes 1 to 4096",
            "the plan asks for 147456 bytes in the registers of a block: the softmax kernel takes at most 131072, 16384 fewer",
            "the plan asks for 4202496 bytes of shared memory for rows: the softmax kernel takes at most 232448, 3970048 fewer",
            "the plan's number of accesses is 17: the softmax kernel takes 1 to 16",
            "the plan's number of chunks that shared memory keeps is 0: the softmax kernel takes 1 to 64",
            "the plan's number of chunks that registers hold is -1: the softmax kernel takes 0 to 64",
            "the plan asks for 144 bytes in the registers of a thread: the softmax kernel takes at most 128, 16 fewer",
            "the plan's number of clusters is 0: the softmax kernel takes 1 to 4096",
            "the plan's registers and shared memory hold rows that reach into the last chunk, of more than 256 columns, and the call \
             has 100: a plan of fewer chunks takes it",
            "the plan's number of blocks of a team is 1: the softmax kernel takes 2 to 256",
            "the plan's number of blocks of a team is 257: the softmax kernel takes 2 to 256",
            "the plan's number of teams is 0: the softmax kernel takes 1 to 4096",
            "the plan's number of slots of rows is 3: the softmax kernel takes 2 to 64, in multiples of 2",
            "the plan's number of slots of a group is 2: the softmax kernel takes 3 to 64",
            "the plan's number of rows behind is -1: the softmax kernel takes 0 to 64",
            "the plan asks for 264 blocks of teams, which all run at once: the softmax kernel takes at most 132, 132 fewer",
            "the plan's number of rows of a block of shifted rows is 2: the softmax kernel takes 1 only",
            "the plan's number of blocks of a shifted row is 2: the softmax kernel takes 1 only",
            "the plan's number of threads of a shifted row is 32: the softmax kernel takes 64 to 1024, in multiples of 32",
            "the operands of the plan are `softmax of f32, x, y, rows of 2 modes`: shifted rows are one mode of each tensor",
            "the plan's number of blocks of shifted rows is 6: the softmax kernel takes 0 to 4096, in multiples of 4",
            "the plan's number of blocks of shifted rows is 4100: the softmax kernel takes 0 to 4096, in multiples of 4",
            "the plan's number of shifted rows ahead is 1: the softmax kernel takes 0 only",
            "the plan's number of shifted rows ahead is 2: the softmax kernel takes 0 to 1",
            "the plan's accesses go to shared memory by asynchronous copies: these take 4, 8 or 16 bytes, and architectures since \
             sm_80 have them (this one is sm_70)",
            "the columns of (4,(5,5)):(25,(5,1)) have several strides: they must have one",
            "the plan's rows are shifted: the tensors of rows must begin at a multiple of the plan's accesses, each row where the one \
             before it ends, and have at most 1073741824 elements",
            "the plan's accesses take 2 elements: addresses, strides and columns of the call allow 1",
            "functions of rows of f64: the tensors must be f32, f16 or bf16",
        ]
    );
    // More rows than the counters of teams reach.
    let problem = RowwiseProblem::new(RowFunction::Softmax, Ty::F32, [(1 << 22) + 1, 400]);
    let teams = RowwisePlan::in_teams(&problem, Arch::Sm90a, [4, 132], [32, 1]);
    assert_eq!(
        teams.expect_err("it is refused").to_string(),
        "the plan's blocks are in teams, which count up to 4194304 rows, and the call has 4194305: a plan of clusters or in passes has \
         no such limit"
    );
    let same = memory.clone();
    let mut other = memory.clone();
    let y = other.view_mut((2, 100)).expect("a view");
    let error = softmax(&same.view((2, 100)).expect("a view"), &y).expect_err("they overlap");
    assert!(error.is_overlap(), "{error}");
}

#[test]
fn more_rows_or_columns_than_a_kernel_counts_are_refused() {
    let most = 1 << 30;
    for (extents, what) in [([most + 1, 2], "rows"), ([2, most + 1], "columns")] {
        let refused = RowwiseProblem::along(RowFunction::Softmax, Ty::Bf16, &extents, 1);
        assert_eq!(
            refused.expect_err("it is refused").to_string(),
            format!("the number of {what} is 1073741825: it must be 0 to 1073741824")
        );
    }
    let taken = RowwiseProblem::along(RowFunction::Softmax, Ty::Bf16, &[most, most], 1);
    assert!(taken.is_ok());
}

#[test]
fn nothing_is_done_for_views_without_elements() {
    let device = Device::simulator(Arch::Sm80);
    let x = device.zeros::<f32>(4).expect("memory");
    let mut y = device.zeros::<f32>(4).expect("memory");
    let (x, y) = (
        x.view((0, 4)).expect("a view"),
        y.view_mut((0, 4)).expect("a view"),
    );
    let call = Rowwise::new(RowFunction::Softmax, &x, &y)
        .prepare()
        .expect("a call");
    assert_eq!(call.to_string(), "nothing to do");
    call.run(&device).expect("nothing to do");
}

/// Plans and problems drawn over all fields: what is computed of them ends, without a panic, and a plan that the check accepts
/// is built.
#[test]
fn law_a_plan_of_rows_that_the_check_accepts_is_built() {
    let mut r = Random::new(0x7011);
    let [mut accepted, mut refused, mut keeping] = [0; 3];
    let count = 20_000;
    for i in 0..count {
        let mut number = |usual: &[i64]| match r.below(25_u64) {
            0 => r.one(&[-1, 0, 3, 1 << 31, 1 << 40, i64::MIN, i64::MAX]),
            _ => r.one(usual),
        };
        let extents = [
            number(&[1, 3, 100]),
            number(&[1, 33, 1000, 4096, 65536, 1 << 20]),
        ];
        let function = RowFunction::ALL[number(&[0, 1, 2, 3]).clamp(0, 3) as usize];
        let types = [Ty::F32, Ty::F16, Ty::Bf16, Ty::F64, Ty::S4];
        let ty = types[number(&[0, 0, 1, 2]).clamp(0, 4) as usize];
        let arch = [Arch::Sm70, Arch::Sm80, Arch::Sm90a][number(&[0, 1, 2]).clamp(0, 2) as usize];
        let problem = RowwiseProblem::new(function, ty, extents);
        let along = RowwiseProblem::along(function, ty, &[extents[1], extents[0]], 0);
        let is_turned = number(&[0, 0, 0, 1]) == 1;
        let problem = along.ok().filter(|_| is_turned).unwrap_or(problem);
        let mut operands = problem.operands();
        if number(&[0, 0, 0, 1]) == 1 {
            operands.turned = number(&[0, 1, 8]);
            operands.modes = number(&[1, 2, 3]) as usize;
            operands.contiguous = number(&[0, 1]) == 1;
            operands.vector = number(&[1, 2, 4, 8]);
            for (at, given) in operands.given.iter_mut().enumerate() {
                *given = number(&[[1, 1, 1, 0], [0, 0, 0, 1]][usize::from(at % 4 > 0)]) == 1;
            }
        }
        let mut plan = RowwisePlan {
            operands,
            vector: number(&[1, 2, 4, 8]),
            threads: number(&[1, 8, 32, 128, 256, 512, 1024]),
            rows: number(&[1, 1, 2, 4, 32]),
            accesses: number(&[1, 2, 4, 5, 16, 32]),
            blocks: number(&[1, 1, 1, 2, 8, 33]),
            storage: match number(&[0, 0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 8, 8]) {
                8 => RowStorage::Turned {
                    again: number(&[0, 1]) == 1,
                },
                7 => RowStorage::Staged {
                    rows: number(&[0, 0, 1]),
                    clusters: number(&[0, 0, 1, 7]),
                },
                6 => RowStorage::Divided {
                    held: number(&[0, 1, 2, 8]),
                    kept: number(&[1, 2, 14]),
                    clusters: number(&[1, 14, 132]),
                },
                0 => RowStorage::Registers,
                5 => RowStorage::Teams {
                    groups: number(&[1, 2, 3]),
                    slots: number(&[1, 2, 6]),
                    teams: number(&[1, 4, 16]),
                    lag: number(&[0, 0, 1, 2]),
                },
                3 => RowStorage::Shifted {
                    rows: number(&[0, 0, 1]),
                    clusters: number(&[0, 0, 8, 16]),
                },
                4 => RowStorage::Alternating {
                    groups: number(&[1, 2, 3]),
                    slots: number(&[2, 4, 6]),
                    clusters: number(&[1, 14, 132]),
                },
                1 => RowStorage::Ahead {
                    rows: number(&[0, 1, 2, 3]),
                    clusters: number(&[1, 14, 132]),
                },
                _ => RowStorage::Passes {
                    kept: number(&[0, 0, 1, 9]),
                },
            },
            meets_once: number(&[0, 0, 1]) == 1,
            keeps_weights: false,
        };
        if let RowStorage::Turned { .. } = plan.storage {
            // Few plans have whole warps of rows beside each other.
            plan.rows = plan.rows.saturating_mul(plan.vector);
            plan.meets_once = number(&[0, 0, 0, 1]) == 1;
            if number(&[0, 1]) == 1 {
                (plan.operands.contiguous, plan.operands.turned) = (false, 8);
            }
        }
        // Few other plans may keep weights.
        plan.keeps_weights = match plan.storage {
            RowStorage::Ahead { .. } | RowStorage::Teams { .. } => number(&[0, 1]) == 1,
            _ => number(&[0, 0, 0, 0, 0, 0, 0, 1]) == 1,
        };
        if plan.keeps_weights && function.is_norm() {
            plan.operands.given[number(&[2, 3]).clamp(2, 3) as usize] = true;
        }
        if let Ok(fastest) = RowwisePlan::fastest(&problem, arch) {
            if number(&[0, 0, 1]) == 1 {
                plan = fastest;
            }
            let _ = (fastest.bytes(&problem), fastest.explain(&problem));
        }
        let _ = (
            plan.bytes(&problem),
            plan.explain(&problem),
            plan.takes(&problem),
        );
        let _ = (
            plan.to_string(),
            problem.to_string(),
            problem.compulsory_bytes(),
        );
        match plan.check(arch) {
            Err(_) => refused += 1,
            Ok(()) => {
                accepted += 1;
                keeping += usize::from(plan.keeps_weights);
                // Every plan is checked, and one accepted plan in 32 is built, and one in 4 of those that keep weights.
                if (accepted % 32 == 1 || plan.keeps_weights && keeping % 4 == 1)
                    && let Err(error) = plan.build(arch)
                {
                    panic!(
                        "case {i}, {plan} of {operands:?} on {arch:?}, is accepted and not built: {error}"
                    );
                }
            }
        }
    }
    println!(
        "law rowwise.built: {count} cases, {accepted} accepted, {keeping} of them keep weights, {refused} refused"
    );
    assert!(keeping > 10, "only {keeping} plans keep weights");
    assert!(
        accepted > count / 50,
        "only {accepted} of {count} plans are accepted"
    );
}

/// As many modes as a kernel takes: every kernel is built.
#[test]
fn law_rowwise_kernels_of_many_modes_are_built() {
    let mut cases = 0;
    for arch in [Arch::Sm80, Arch::Sm90a] {
        for modes in 1..=16 {
            let problem = RowwiseProblem::new(RowFunction::Softmax, Ty::F32, [64, 1000]);
            let mut plan = RowwisePlan::fastest(&problem, arch).expect("a plan");
            plan.operands.modes = modes;
            let built = plan.build(arch);
            assert!(built.is_ok(), "{}: {:?}", plan.operands, built.err());
            cases += 1;
        }
    }
    println!("law rowwise.modes: {cases} cases");
}

/// Which lengths a law takes: of those below a number of columns, one in as many as stand beside it; all with `COLEX_LAWS=all` or more draws.
const TAKEN: [(i64, usize); 3] = [(1 << 12, 4), (1 << 15, 12), (2 * LONGEST, 200)];

/// Rows whose lengths are the last ones of a default plan and the first ones of the next, up to 2^20 columns, by the plans that calls have on
/// the device of each architecture whose rates are known: of vectors and of single elements, in both widths, of every function. Plans of
/// teams are those of tensors of 64 MiB, for two rows. One length of each storage is among those that a short run takes, and 2^20 columns.
#[test]
fn law_rows_at_the_ends_of_each_storage_are_those_of_the_host() {
    let is_all = std::env::var("COLEX_LAWS").as_deref() == Ok("all");
    let (mut cases, mut lengths) = (0, 0);
    let mut storages = Vec::new();
    for (arch, functions) in [
        (Arch::Sm90a, &RowFunction::ALL[..]),
        (Arch::Sm80, &[RowFunction::RmsNorm, RowFunction::Softmax]),
    ] {
        for function in functions {
            for (ty, check) in [
                (
                    Ty::F32,
                    check_rows::<f32> as fn(&Device, RowFunction, _, _) -> _,
                ),
                (Ty::Bf16, check_rows::<bf16>),
            ] {
                for odd in [0, 1] {
                    let on = (arch, Rates::of(arch));
                    let mut all = ends(on, *function, ty, odd).expect("plans");
                    all.push(LONGEST + odd);
                    for columns in all {
                        lengths += 1;
                        let plan = plan_of_length(on, *function, ty, columns).expect("a plan");
                        let storage = core::mem::discriminant(&plan.storage);
                        let is_new = arch == Arch::Sm90a && !storages.contains(&storage);
                        let of = TAKEN.iter().find(|(end, _)| columns < *end);
                        let (_, one_of) = of.expect("a length");
                        let is_longest = columns == LONGEST && *function == RowFunction::LogSoftmax;
                        let is_wanted = is_all || is_new || arch == Arch::Sm90a && is_longest;
                        if !is_wanted && !takes(*one_of, lengths) {
                            continue;
                        }
                        let device = simulator(arch, columns as u64);
                        let shape = [2, columns as usize];
                        if let Err(why) = check(&device, *function, shape, Some(plan)) {
                            panic!("{arch}, {why}");
                        }
                        if is_new {
                            storages.push(storage);
                        }
                        cases += 1;
                    }
                }
            }
        }
    }
    println!(
        "law rowwise.ends: {cases} of {lengths} lengths, {} storages",
        storages.len()
    );
    // Registers, ahead, shifted, staged, divided, teams and passes; the others are the default of no contiguous rows on an H200.
    assert_eq!(storages.len(), 7, "{cases} lengths");
}

/// The columns of one matrix are tensors that share no element, though their bytes overlap.
#[test]
fn columns_of_a_packed_matrix_are_apart() {
    let device = simulator(Arch::Sm90a, 3);
    let numbers: Vec<f32> = (0..4 * 24).map(|i| (i * 37 % 19) as f32).collect();
    let packed = device.upload(&numbers).expect("memory");
    let [q, k, v] = [0, 8, 16].map(|first| packed.slice(first..packed.len()).expect("a part"));
    let layout = Layout::new((4, 8), (24, 1)).expect("a layout");
    let view =
        |part: &Buffer<f32>| View::new(Box::leak(Box::new(part.clone())), &layout).expect("a view");
    let (mut into_k, mut into_v) = (k, v);
    let (of_k, of_v) = (
        ViewMut::new(&mut into_k, &layout).expect("a view"),
        ViewMut::new(&mut into_v, &layout).expect("a view"),
    );
    softmax(&view(&q), &of_k).expect("it runs");
    cumulative_sum(&view(&q), 1, &of_v).expect("it runs");
    let found = packed.download().expect("elements");
    for (row, numbers) in found.chunks(24).zip(numbers.chunks(24)) {
        assert_eq!(row[..8], numbers[..8]);
        let wide: Vec<f64> = numbers[..8].iter().map(|x| f64::from(*x)).collect();
        let want = reference::row(RowFunction::Softmax, &wide, None, None, 0.0);
        for (found, want) in row[8..16].iter().zip(want) {
            assert!((f64::from(*found) - want).abs() < 1e-6);
        }
        assert_eq!(row[23], numbers[..8].iter().sum::<f32>());
    }
    // One column further, they share seven of eight.
    let mut near = packed.slice(1..packed.len()).expect("a part");
    let near = ViewMut::new(&mut near, &layout).expect("a view");
    let refused = softmax(&view(&q), &near).expect_err("they overlap");
    assert!(refused.is_overlap(), "{refused}");
}

/// What the norms say of squares that f32 does not hold, of infinities and of rows of zeros.
#[test]
fn norms_of_numbers_whose_squares_overflow_are_as_described() {
    let passes = |plan| RowwisePlan {
        threads: 32,
        rows: 1,
        accesses: 1,
        storage: PASSES,
        ..plan
    };
    let plans: [&dyn Fn(RowwisePlan) -> RowwisePlan; 2] = [&|plan| plan, &passes];
    for plan in plans {
        let mut x = vec![1e20f32; 3 * 40];
        x[40..80].fill(1e18);
        x[80..].fill(2.0);
        x[81] = f32::INFINITY;
        let y = result(Arch::Sm80, RowFunction::RmsNorm, [3, 40], &x, plan);
        assert!(y[..40].iter().all(|y| *y == 0.0), "{:?}", &y[..40]);
        assert!(y[40..80].iter().all(|y| (y - 1.0).abs() < 1e-5));
        assert!(y[80] == 0.0 && y[81].is_nan() && y[82] == 0.0);
        let y = result(Arch::Sm80, RowFunction::LayerNorm, [3, 40], &x, plan);
        assert!(y[80..].iter().all(|y| y.is_nan()));
    }
    let device = simulator(Arch::Sm80, 1);
    let x = device.zeros::<f32>(8).expect("memory");
    for epsilon in [1e-5, 0.0] {
        for function in [RowFunction::RmsNorm, RowFunction::LayerNorm] {
            let mut y = device.poisoned::<f32>(8).expect("memory");
            {
                let (x, y) = (x.view(8).expect("a view"), y.view_mut(8).expect("a view"));
                let call = Rowwise::new(function, &x, &y).epsilon(epsilon);
                call.run().expect("it runs");
            }
            let y = y.download().expect("elements");
            let is_right = |y: &f32| if epsilon > 0.0 { *y == 0.0 } else { y.is_nan() };
            assert!(y.iter().all(is_right), "{function}: {y:?}");
        }
    }
}
