//! Tensors and outputs of an epilogue whose rows a list on the device names.

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::{Epilogue, Groups};
use colex_gpu::kernels::gemm::GemmPlan;
use colex_gpu::{Device, Error, Gemm, View, ViewMut};
use colex_layout::Layout;
use colex_proof::sweep::Random;
use colex_sim::{Schedule, SimOptions};
use half::bf16;

/// `acc + residual`, stored as `scattered`; C holds the accumulators.
fn residual() -> Epilogue {
    let formula = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator();
        let residual = e.tensor("residual", Ty::F32);
        e.output("scattered", x.clone() + residual);
        x
    });
    formula.expect("an epilogue")
}

/// A matrix of this many rows and columns in one of the two orders, with gaps.
fn matrix(r: &mut Random, rows: i64, columns: i64) -> Layout {
    let gap = r.one(&[0, 0, 4, 1]);
    let (shape, stride) = ((rows, columns), (columns + gap, 1));
    let layout = if r.one_in(3) {
        Layout::new(shape, (1, rows + gap))
    } else {
        Layout::new(shape, stride)
    };
    layout.expect("extents above 0")
}

/// One product: `residual` is read and `scattered` is written at the rows of two lists, some numbers of which are no rows.
fn one(device: &Device, r: &mut Random) -> Result<(), String> {
    let text = |e: Error| e.to_string();
    let m = r.one(&[1, 2, 17, 70, 130, 200]);
    let [n, k] = [8, 8].map(|unit| unit * (1 + r.below(12_i64)));
    // As many rows as the product, one among them, or more.
    let [of_residual, of_output] = [(); 2].map(|()| {
        if r.one_in(4) {
            m
        } else {
            1 + m + r.below(40_i64)
        }
    });
    let small = |r: &mut Random, count: i64| -> Vec<bf16> {
        let one = |_| bf16::from_f32((r.below(7_i32) - 3) as f32);
        (0..count).map(one).collect()
    };
    let (a, b) = (small(r, m * k), small(r, n * k));
    // Some rows of the residual are read several times, and some are none.
    let read: Vec<u32> = (0..m)
        .map(|_| {
            if r.one_in(9) {
                r.one(&[of_residual as u32, u32::MAX, 1 << 31])
            } else {
                r.below(of_residual) as u32
            }
        })
        .collect();
    let mut written: Vec<i32> = r.permutation(of_output as usize)[..m as usize]
        .iter()
        .map(|row| *row as i32)
        .collect();
    for row in &mut written {
        if r.one_in(9) {
            *row = r.one(&[of_output as i32, -1, i32::MIN, i32::MAX]);
        }
    }
    let [mut at_residual, at_output] = [of_residual, of_output].map(|rows| matrix(r, rows, n));
    // Rows or columns that are all one: a number that is no row still reads zeros.
    if r.one_in(4) {
        let strides = r.one(&[(0, 1), (1, 0), (0, 0)]);
        at_residual = Layout::new((of_residual, n), strides).expect("extents above 0");
    }
    let length = |layout: &Layout| layout.cosize().expect("a cosize") as usize;
    let old: Vec<f32> = (0..length(&at_residual)).map(|i| (i % 91) as f32).collect();
    let epilogue = residual();
    let (da, db) = (
        device.upload(&a).map_err(|e| e.to_string())?,
        device.upload(&b).map_err(|e| e.to_string())?,
    );
    let residual = device.upload(&old).map_err(|e| e.to_string())?;
    let [mut c, mut output] = [(m * n) as usize, length(&at_output)]
        .map(|count| device.upload(&vec![f32::NAN; count]).expect("memory"));
    let (found_c, found) = (c.clone(), output.clone());
    let (read_rows, written_rows) = (
        device.upload(&read).expect("memory"),
        device.upload(&written).expect("memory"),
    );
    let said = {
        let x = da.view((m, k)).map_err(|e| e.to_string())?;
        let w = db.view((n, k)).map_err(|e| e.to_string())?;
        let of_c = c.view_mut((m, n)).map_err(|e| e.to_string())?;
        let old = View::new(&residual, &at_residual).map_err(|e| e.to_string())?;
        let to = ViewMut::new(&mut output, &at_output).map_err(|e| e.to_string())?;
        let (read, written) = (
            read_rows.view(m).map_err(|e| e.to_string())?,
            written_rows.view(m).map_err(|e| e.to_string())?,
        );
        let product = Gemm::new(&x, &w, &of_c).epilogue(&epilogue);
        let product =
            product
                .tensor_rows("residual", &old, &read)
                .output_rows("scattered", &to, &written);
        // A plan of the list, or the usual one.
        let mut plans = Vec::new();
        let usual = product.prepare_with(|operands, arch| {
            plans = GemmPlan::candidates_with_epilogue(operands, arch);
            plans.extend(GemmPlan::candidates_of_one_with_epilogue(operands, arch));
            Ok(GemmPlan::new(colex_gpu::gemm::GemmMethod::Simt, operands))
        });
        usual.map_err(text)?;
        let drawn = (0..8).find_map(|_| {
            let plan = r.one(&plans);
            let plan = if r.one_in(3) && plan.method == colex_gpu::gemm::GemmMethod::Hopper {
                GemmPlan { split: 2, ..plan }
            } else {
                plan
            };
            product.prepare_with(|_, _| Ok(plan)).ok()
        });
        let call = match drawn.filter(|_| !r.one_in(4)) {
            Some(call) => call,
            None => product.prepare().map_err(text)?,
        };
        call.run(device).map_err(|e| format!("{call}: {e}"))?;
        call.to_string()
    };
    let of_c = found_c.download().map_err(|e| e.to_string())?;
    let mut expected = vec![f32::NAN; found.len()];
    for i in 0..m {
        for j in 0..n {
            let at = |l: i64| a[(i * k + l) as usize].to_f32() * b[(j * k + l) as usize].to_f32();
            let sum: f32 = (0..k).map(at).sum();
            if of_c[(i * n + j) as usize] != sum {
                return Err(format!("{m}x{n}x{k}, {said}: C at ({i},{j})"));
            }
            let place = |layout: &Layout, row: i64, rows: i64| -> Option<usize> {
                let strides: Vec<i64> = layout
                    .leaves()
                    .iter()
                    .map(|leaf| leaf.stride.coefficient().value())
                    .collect();
                (0..rows)
                    .contains(&row)
                    .then(|| (row * strides[0] + j * strides[1]) as usize)
            };
            let old = place(&at_residual, i64::from(read[i as usize]), of_residual)
                .map_or(0.0, |at| old[at]);
            if let Some(at) = place(&at_output, i64::from(written[i as usize]), of_output) {
                expected[at] = sum + old;
            }
        }
    }
    let found = found.download().map_err(|e| e.to_string())?;
    let is_same = |(x, y): (&f32, &f32)| x == y || x.is_nan() && y.is_nan();
    match found.iter().zip(&expected).position(|pair| !is_same(pair)) {
        None => Ok(()),
        Some(at) => Err(format!(
            "{m}x{n}x{k}, {said}: element {at} of {at_output} is {}, not {}",
            found[at], expected[at]
        )),
    }
}

/// The rows of a tensor that is read and of an output are those that lists name, by every kernel and in several schedules, of
/// matrices of one row and of rows that are all one too; a row that is none counts as zeros and is not written, and all others
/// stay.
#[test]
fn law_rows_of_a_list_are_read_and_written() {
    let mut cases = 0;
    for (arch, rounds) in [
        (Arch::Sm70, 6),
        (Arch::Sm75, 6),
        (Arch::Sm80, 12),
        (Arch::Sm90a, 40),
    ] {
        for seed in 0..2 {
            let options = SimOptions::default().schedule(Schedule::from_seed(seed));
            let device = Device::simulator_with(arch, options);
            let mut r = Random::of(seed, "lists");
            for round in 0..rounds {
                one(&device, &mut r)
                    .unwrap_or_else(|why| panic!("{arch}, round {round} of {seed}: {why}"));
                cases += 1;
            }
        }
    }
    println!("law epilogues.lists: {cases} cases");
}

/// The rows that experts return go back to their tokens: a list over the rows of all groups.
#[test]
fn rows_of_groups_are_scattered() -> Result<(), Error> {
    let device = Device::simulator(Arch::Sm90a);
    let (rows, n, k) = (150_i64, 16_i64, 16_i64);
    let a: Vec<bf16> = (0..rows * k)
        .map(|i| bf16::from_f32((i / k % 5) as f32))
        .collect();
    let b: Vec<bf16> = (0..3 * n * k)
        .map(|i| bf16::from_f32((i / (n * k) + 1) as f32))
        .collect();
    let list: Vec<u32> = (0..rows).map(|i| (i * 7 % rows) as u32).collect();
    let (a, b) = (device.upload(&a)?, device.upload(&b)?);
    let (list_of, offsets) = (device.upload(&list)?, device.upload(&[3_u32, 70, 70, 140])?);
    let old = device.zeros::<f32>(n as usize)?;
    let mut c = device.poisoned::<f32>((rows * n) as usize)?;
    let mut output = device.upload(&vec![-1_f32; (rows * n) as usize])?;
    let epilogue = residual();
    Gemm::new(
        &a.view((rows, k))?,
        &View::new(&b, "(16,16,3):(16,1,256)")?,
        &c.view_mut((rows, n))?,
    )
    .epilogue(&epilogue)
    .tensor("residual", &View::new(&old, "(150,16):(0,1)")?)
    .output_rows(
        "scattered",
        &output.view_mut((rows, n))?,
        &list_of.view(rows)?,
    )
    .groups(Groups::Rows, &offsets.view(4)?)
    .run()?;
    let found = output.download()?;
    for i in 0..rows {
        let group = match i {
            3..70 => 1.0,
            70..140 => 3.0,
            _ => 0.0,
        };
        let expected = if group == 0.0 {
            -1.0
        } else {
            (i % 5) as f32 * 16.0 * group
        };
        let to = i64::from(list[i as usize]);
        for j in 0..n {
            assert_eq!(found[(to * n + j) as usize], expected, "row {i}");
        }
    }
    Ok(())
}

/// Vectors are of the rows of the product: a tensor that is read by a list has part in them, and an output that is written by a list
/// keeps its rows, so that the elements of its formula are reduced in their own order.
#[test]
fn law_vectors_beside_lists_are_of_the_rows_of_the_product() -> Result<(), Error> {
    let (m, n, k) = (16_i64, 24_i64, 8_i64);
    let epilogue = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator() + e.tensor("residual", Ty::F32);
        let third = x.clone() * (1.0 / 3.0);
        e.output("scattered", third.clone());
        e.row_sums("sums", x.clone());
        e.row_sums("thirds", third.clone());
        e.column_sums("columns", third);
        x
    })?;
    let number = |i: i64| bf16::from_f32((i % 7 - 3) as f32);
    let in_a: Vec<bf16> = (0..m * k).map(number).collect();
    let in_b: Vec<bf16> = (0..n * k).map(|i| number(i * 3)).collect();
    // Of nine rows, some numbers name none.
    let in_old: Vec<f32> = (0..9 * n).map(|i| (i % 11) as f32).collect();
    let of_old: Vec<u32> = (0..m as u32).map(|i| i * 5 % 11).collect();
    let of_output: Vec<u32> = (0..m as u32).map(|i| i * 3 % 16).collect();
    let x = |i: i64, j: i64| -> f32 {
        let term =
            |l: i64| in_a[(i * k + l) as usize].to_f32() * in_b[(j * k + l) as usize].to_f32();
        let sum = (0..k).map(term).fold(0_f32, |sum, term| sum + term);
        let row = i64::from(of_old[i as usize]);
        sum + if row < 9 {
            in_old[(row * n + j) as usize]
        } else {
            0.0
        }
    };
    for arch in [Arch::Sm70, Arch::Sm80, Arch::Sm90a] {
        let device = Device::simulator(arch);
        let (a, b) = (device.upload(&in_a)?, device.upload(&in_b)?);
        let (old, of_old) = (device.upload(&in_old)?, device.upload(&of_old)?);
        let list = device.upload(&of_output)?;
        let poisoned = |count: i64| device.poisoned::<f32>(count as usize);
        let (mut c, mut scattered) = (poisoned(m * n)?, poisoned(m * n)?);
        let (mut sums, mut thirds, mut columns) = (poisoned(m)?, poisoned(m)?, poisoned(n)?);
        Gemm::new(&a.view((m, k))?, &b.view((n, k))?, &c.view_mut((m, n))?)
            .epilogue(&epilogue)
            .tensor_rows("residual", &old.view((9, n))?, &of_old.view(m)?)
            .output_rows("scattered", &scattered.view_mut((m, n))?, &list.view(m)?)
            .output("sums", &sums.view_mut(m)?)
            .output("thirds", &thirds.view_mut(m)?)
            .output("columns", &columns.view_mut(n)?)
            .run()?;
        let (c, scattered) = (c.download()?, scattered.download()?);
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            assert_eq!(c[(i * n + j) as usize], x(i, j), "({i},{j}) on {arch}");
            let row = i64::from(of_output[i as usize]);
            let third = scattered[(row * n + j) as usize];
            assert_eq!(third, x(i, j) * (1.0 / 3.0), "({i},{j}) on {arch}");
        }
        let found = [sums.download()?, thirds.download()?, columns.download()?];
        for (one, found) in epilogue.reductions().zip(&found) {
            let (count, length) = if one.name == "columns" {
                (n, m)
            } else {
                (m, n)
            };
            for at in 0..count {
                let element = |of: i64| match &one.name[..] {
                    "sums" => x(at, of),
                    "thirds" => x(at, of) * (1.0 / 3.0),
                    _ => x(of, at) * (1.0 / 3.0),
                };
                let own = (0..length).map(|of| u64::from(element(of).to_bits()));
                let wanted = one.evaluate(&own.collect::<Vec<u64>>())?;
                let found = u64::from(found[at as usize].to_bits());
                assert_eq!(found, wanted, "number {at} of {} on {arch}", one.name);
            }
        }
    }
    Ok(())
}

/// Two rows with one number are a data race, which the simulator names.
#[test]
fn one_row_twice_is_a_data_race() -> Result<(), Error> {
    let device = Device::simulator(Arch::Sm80);
    let x = device.upload(&vec![bf16::ONE; 64 * 16])?;
    let old = device.zeros::<f32>(16)?;
    let rows = device.upload(&[5_u32; 64])?;
    let (mut c, mut output) = (
        device.poisoned::<f32>(64 * 64)?,
        device.zeros::<f32>(64 * 64)?,
    );
    let x = x.view((64, 16))?;
    let call = Gemm::new(&x, &x, &c.view_mut((64, 64))?)
        .epilogue(&residual())
        .tensor("residual", &View::new(&old, "(64,64):(0,0)")?)
        .output_rows("scattered", &output.view_mut((64, 64))?, &rows.view(64)?)
        .run();
    let why = call.expect_err("a race").to_string();
    assert!(
        why.contains("`scattered`") && why.contains("nothing orders the two"),
        "{why}"
    );
    Ok(())
}

/// A product of no rows has nothing to do, with lists of no rows too; a tensor of no rows has none that a list could name.
#[test]
fn lists_of_no_rows_are_empty() -> Result<(), Error> {
    let device = Device::simulator(Arch::Sm90a);
    let x = device.zeros::<bf16>(128)?;
    let (old, rows) = (device.zeros::<f32>(256)?, device.zeros::<u32>(16)?);
    let (mut c, mut to) = (device.zeros::<f32>(256)?, device.zeros::<f32>(256)?);
    let epilogue = residual();
    let b = x.view((16, 8))?;
    {
        let (none, c, to) = (x.view((0, 8))?, c.view_mut((0, 16))?, to.view_mut((0, 16))?);
        let call = Gemm::new(&none, &b, &c)
            .epilogue(&epilogue)
            .tensor_rows("residual", &old.view((9, 16))?, &rows.view(0)?)
            .output("scattered", &to)
            .prepare()?;
        assert_eq!(call.to_string(), "nothing to do");
    }
    let (c, to) = (c.view_mut((16, 16))?, to.view_mut((16, 16))?);
    let refused = Gemm::new(&b, &b, &c)
        .epilogue(&epilogue)
        .tensor_rows("residual", &old.view((0, 16))?, &rows.view(16)?)
        .output("scattered", &to)
        .run();
    assert_eq!(
        refused.expect_err("it is refused").to_string(),
        "epilogue: residual has the shape (0,16): a tensor whose rows are a list has at least one, and as many columns as the \
         product, 16"
    );
    Ok(())
}

#[test]
fn what_suits_no_list_gets_a_sentence() -> Result<(), Error> {
    let device = Device::simulator(Arch::Sm90a);
    let x = device.zeros::<bf16>(4096)?;
    let old = device.zeros::<f32>(4096)?;
    let rows = device.zeros::<u32>(64)?;
    let epilogue = residual();
    let refused = |of_residual: (i64, i64), list: &str| {
        let (mut c, mut output) = (
            device.zeros::<f32>(4096).expect("memory"),
            device.zeros::<f32>(4096).expect("memory"),
        );
        let matrix = x.view((16, 8)).expect("a view");
        let of_c = c.view_mut((16, 16)).expect("a view");
        let to = output.view_mut((16, 16)).expect("a view");
        let list = View::new(&rows, list).expect("a view");
        let refused = Gemm::new(&matrix, &matrix, &of_c)
            .epilogue(&epilogue)
            .tensor_rows("residual", &old.view(of_residual).expect("a view"), &list)
            .output("scattered", &to)
            .run();
        refused.expect_err("it is refused").to_string()
    };
    let batch = {
        let (mut c, mut output) = (device.zeros::<f32>(512)?, device.zeros::<f32>(512)?);
        let matrices = View::new(&x, "(16,8,2):(8,1,128)")?;
        let of_c = ViewMut::new(&mut c, "(16,16,2):(16,1,256)")?;
        let to = ViewMut::new(&mut output, "(16,16,2):(16,1,256)")?;
        let refused = Gemm::new(&matrices, &matrices, &of_c)
            .epilogue(&epilogue)
            .tensor_rows("residual", &old.view((9, 16))?, &rows.view(16)?)
            .output("scattered", &to)
            .run();
        refused.expect_err("it is refused").to_string()
    };
    let masked = {
        let (mut c, mut output) = (device.zeros::<f32>(512)?, device.zeros::<f32>(512)?);
        let matrices = View::new(&x, "(16,8,2):(8,1,128)")?;
        let of_c = ViewMut::new(&mut c, "(16,16,2):(16,1,256)")?;
        let to = ViewMut::new(&mut output, "(16,16,2):(16,1,256)")?;
        let refused = Gemm::new(&matrices, &matrices, &of_c)
            .groups(Groups::Masked, &rows.view(2)?)
            .epilogue(&epilogue)
            .tensor_rows("residual", &old.view((9, 16))?, &rows.view(16)?)
            .output("scattered", &to)
            .run();
        refused.expect_err("it is refused").to_string()
    };
    let sums = {
        let (mut c, mut sums) = (device.zeros::<f32>(256)?, device.zeros::<f32>(16)?);
        let matrix = x.view((16, 8))?;
        let epilogue = Epilogue::new(Ty::F32, |e| {
            let x = e.accumulator() + e.tensor("residual", Ty::F32);
            e.row_sums("sums", x.clone());
            x
        })?;
        let refused = Gemm::new(&matrix, &matrix, &c.view_mut((16, 16))?)
            .epilogue(&epilogue)
            .tensor("residual", &old.view((16, 16))?)
            .output_rows("sums", &sums.view_mut(16)?, &rows.view(16)?)
            .run();
        refused.expect_err("it is refused").to_string()
    };
    assert_eq!(
        [
            refused((9, 16), "15:1"),
            refused((9, 16), "16:2"),
            refused((9, 15), "16:1"),
            batch,
            masked,
            sums
        ],
        [
            "epilogue: the rows of residual are 15:1, and the product has 16: a list has one number for each, without gaps",
            "epilogue: the rows of residual are 16:2, and the product has 16: a list has one number for each, without gaps",
            "epilogue: residual has the shape (9,15), and the product 16 columns: a tensor whose rows are a list has as many \
             columns, and any number of rows",
            "epilogue: the rows of residual are a list, and C has 1 mode behind its matrix: a list is of the rows of one matrix",
            "epilogue: the rows of residual are a list, and C has 1 mode behind its matrix: a list is of the rows of one matrix",
            "epilogue: sums has row sums, and its rows are a list: the vectors are of rows in their order",
        ]
    );
    Ok(())
}
