//! Gathers, scatters and atomic operations: a histogram, an embedding, a stencil, a maximum by compare-and-swap.
//!
//! Run it with `cargo run -p colex-book --example kernel_gathers`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::ir::AtomicOp;
use colex_gpu::ir::BinaryOp::Add;
use colex_gpu::tensor::{AtThread, Builder, Expr, Outside, TensorKernel};
use colex_gpu::testing::{self, Output};
use colex_gpu::{Device, Load, View, ViewMut};
use colex_layout::C;
use colex_tiled::TiledCopy;
use half::bf16;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    bounds()?;
    run_histogram()?;
    run_embedding()?;
    run_add()?;
    run_stencil()?;
    stencil_costs()?;
    run_largest()?;
    run_pages()?;
    two_threads()?;
    refusals();
    Ok(())
}

/// What an index outside does.
fn bounds() -> Result<(), Box<dyn Error>> {
    println!("\n== bounds ==");
    // ANCHOR: bounds
    let device = Device::open();
    let x = device.upload(&[10.0_f32, 11.0, 12.0, 13.0])?;
    let ids: Vec<i32> = (0..32).map(|i| i - 2).collect();
    let ids = device.upload(&ids)?;
    for outside in [Outside::Skip, Outside::Clamp] {
        let mut k = Builder::new("gather", Arch::Sm80, 32);
        let ids_of = k.tensor("ids", Ty::S32, "_32:_1");
        let [from, to] = ["x", "y"].map(|name| k.tensor(name, Ty::F32, "32:_1"));
        let thread = k.thread();
        let id = k.gather(&ids_of.elements(&thread));
        let found = k.gather(&from.elements(&id).outside(outside));
        k.scatter(&found, &to.elements(&thread));

        let mut y = device.poisoned::<f32>(32)?;
        let ids = View::new(&ids, (C::<32>, C::<1>))?;
        k.finish()?
            .load(&device)?
            .launch([1], (ids, x.view(4)?, y.view_mut(32)?))?;
        println!("{outside:?}: {:?}", &y.download()?[..8]);
    }
    // ANCHOR_END: bounds
    Ok(())
}

// ANCHOR: histogram
/// How often each byte occurs: a block counts 2048 bytes in shared memory, and adds its counts.
fn histogram() -> Result<TensorKernel, Box<dyn Error>> {
    let mut k = Builder::new("histogram", Arch::Sm80, 256);
    let x = k.tensor("x", Ty::U8, "1000:_1");
    let total = k.tensor("total", Ty::U32, "_256:_1");
    let counts = k.shared_tensor(Ty::U32, "256:1");
    let (thread, block) = (k.thread(), k.block_index(0));
    let block = k.within(block, 0..1 << 19);
    k.scatter(0, &counts.elements(&thread));
    k.sync();
    for i in 0..8 {
        let place = &block * 2048 + &thread + i * 256;
        let byte = k.gather(&x.elements(&place));
        let is_there = Expr::from(&place).lt(x.extent(0));
        k.atomic_update(AtomicOp::Add, &counts.elements(&byte).only(is_there), 1);
    }
    k.sync();
    let count = k.gather(&counts.elements(&thread));
    k.atomic_update(AtomicOp::Add, &total.elements(&thread), &count);
    Ok(k.finish()?)
}
// ANCHOR_END: histogram

/// Compares the histogram with the host.
fn run_histogram() -> Result<(), Box<dyn Error>> {
    println!("\n== run_histogram ==");
    // ANCHOR: run_histogram
    let bytes: Vec<u8> = (0..5000_u32).map(|i| (i * i / 7) as u8).collect();
    let kernel = histogram()?;
    let total = testing::in_every_schedule(Arch::Sm80, 4, |device| {
        let (x, mut total) = (device.upload(&bytes)?, device.zeros::<u32>(256)?);
        let counts = ViewMut::new(&mut total, (C::<256>, C::<1>))?;
        let views = (x.view(bytes.len())?, counts);
        kernel
            .load(device)?
            .launch([bytes.len().div_ceil(2048)], views)?;
        Ok(total.download()?)
    })?;
    let mut expected = [0_u32; 256];
    for byte in &bytes {
        expected[usize::from(*byte)] += 1;
    }
    assert_eq!(total, expected);
    println!("{} of 0, {} of 255", expected[0], expected[255]);
    // ANCHOR_END: run_histogram
    Ok(())
}

// ANCHOR: embedding
/// Rows of a table by their numbers: a block per token, four numbers of its row per thread.
fn embedding() -> Result<TensorKernel, Box<dyn Error>> {
    let mut k = Builder::new("embedding", Arch::Sm80, 64);
    let tokens = k.tensor("tokens", Ty::U32, "1000:_1");
    let table = k.tensor("table", Ty::Bf16, "(50000,_256):(_256,_1)");
    let out = k.tensor("out", Ty::Bf16, "(1000,_256):(_256,_1)");
    let (token, column) = (k.block_index(0), k.thread() * 4);
    let id = k.gather(&tokens.elements(&token));
    let row = k.gather(&table.elements((&id, &column)).vectors(1, 4));
    k.scatter(&row, &out.elements((&token, &column)).vectors(1, 4));
    Ok(k.finish()?)
}
// ANCHOR_END: embedding

/// Gathers rows, of which one is not there.
fn run_embedding() -> Result<(), Box<dyn Error>> {
    println!("\n== run_embedding ==");
    // ANCHOR: run_embedding
    let kernel = embedding()?;
    let text = kernel.kernel.ptx()?;
    println!(
        "loads of a thread: {}",
        text.matches("ld.global.v2.b32").count()
    );
    let (tokens, rows) = ([7_u32, 3, 40, 7], 20);
    let table: Vec<bf16> = (0..rows * 256)
        .map(|i| bf16::from_f32((i / 256) as f32))
        .collect();
    let device = Device::open();
    let (ids, table) = (device.upload(&tokens)?, device.upload(&table)?);
    let mut out = device.poisoned::<bf16>(tokens.len() * 256)?;
    let rows_of = |n: usize| ((n, C::<256>), (C::<256>, C::<1>));
    let views = (
        ids.view(tokens.len())?,
        View::new(&table, rows_of(rows))?,
        ViewMut::new(&mut out, rows_of(tokens.len()))?,
    );
    kernel.load(&device)?.launch([tokens.len()], views)?;
    for (token, row) in tokens.iter().zip(out.download()?.chunks(256)) {
        assert!(row.iter().all(|x| *x == row[0]));
        println!("token {token}: {}", row[0]);
    }
    // ANCHOR_END: run_embedding
    Ok(())
}

// ANCHOR: add
/// `z = x + y` of vectors of any length: four numbers per thread.
fn add() -> Result<TensorKernel, colex_gpu::tensor::Error> {
    let mut k = Builder::new("add", Arch::Sm80, 256);
    let [x, y, z] = ["x", "y", "z"].map(|name| k.tensor(name, Ty::F32, "1000:_1"));
    let (thread, block) = (k.thread(), k.block_index(0));
    let first = (k.within(block, 0..1 << 20) * 256 + thread) * 4;
    k.for_vector(first, &x.extent(0), 4, |k, run| {
        let [x, y] = [&x, &y].map(|tensor| k.gather(&run.of(tensor, ())));
        k.scatter(&x + &y, &run.of(&z, ()));
    });
    k.finish()
}
// ANCHOR_END: add

/// Compares sums of several lengths with the host, under several schedules.
fn run_add() -> Result<(), Box<dyn Error>> {
    println!("\n== run_add ==");
    // ANCHOR: run_add
    for n in testing::sizes(1024) {
        let numbers = |step: usize| (0..n).map(move |i| (i * step % 613) as f32);
        let [left, right] = [7919, 104729].map(|step| numbers(step).collect::<Vec<f32>>());
        let found = testing::in_every_schedule(Arch::Sm80, 4, |device| {
            let (x, y) = (device.upload(&left)?, device.upload(&right)?);
            let mut z = Output::<f32>::new(device, n)?;
            let views = (x.view(n)?, y.view(n)?, z.buffer().view_mut(n)?);
            add()?.load(device)?.launch([n.div_ceil(1024)], views)?;
            z.elements()
        })?;
        assert!((0..n).all(|i| found[i] == left[i] + right[i]));
        println!("{n} sums, the last is {}", found[n - 1]);
    }
    // ANCHOR_END: run_add
    Ok(())
}

// ANCHOR: stencil
/// The mean of the 3 by 3 numbers around each number; those beyond the edge count as 0.
/// With a tile in shared memory, or without.
fn stencil(shared: bool) -> Result<TensorKernel, Box<dyn Error>> {
    let mut k = Builder::new("stencil", Arch::Sm80, (32, 8));
    let [x, y] = ["x", "y"].map(|name| k.tensor(name, Ty::F32, "(100,100):(100,_1)"));
    let word = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let copy = TiledCopy::new(word, 32, "(8,32):(32,1)", "(1,1):(0,0)")?;
    let mine = copy.at(&k.thread());
    let (m, n) = (k.block_index(1) * 8, k.block_index(0) * 32);
    let around = x.local_tile((10, 34), (0, 0)).offset_by((&m - 1, &n - 1)); // (TILE_M, TILE_N)
    let tile = if shared {
        let tile = k.shared_tensor(Ty::F32, "(10,34):(34,1)");
        let from = mine.partition_src(&around); // (CPY, CPY_M, CPY_N)
        let to = mine.partition_dst(&tile); // (CPY, CPY_M, CPY_N)
        let held = k.fragment_like(&from);
        k.copy_in_bounds(&copy, &from, &held);
        k.copy_in_bounds(&copy, &held, &to);
        k.sync();
        tile
    } else {
        around
    };
    let window = mine.partition_src(&tile.windows((3, 3))); // (CPY, CPY_M, CPY_N, 3, 3)
    let near = k.fragment_like(&window);
    k.copy_in_bounds(&copy, &window, &near);
    let sum = k.reduce_all(Add, &near);
    let (row, column) = (m + k.thread_index(1), n + k.thread_index(0));
    k.scatter(&sum / 9.0, &y.elements((row, column)));
    Ok(k.finish()?)
}
// ANCHOR_END: stencil

/// Compares both stencils with the host.
fn run_stencil() -> Result<(), Box<dyn Error>> {
    println!("\n== run_stencil ==");
    // ANCHOR: run_stencil
    let (rows, columns) = (21_usize, 50_usize);
    let numbers: Vec<f32> = (0..rows * columns)
        .map(|i| (i * 7919 % 613) as f32)
        .collect();
    let grid = [columns.div_ceil(32), rows.div_ceil(8)];
    for shared in [false, true] {
        let kernel = stencil(shared)?;
        let found = testing::in_every_schedule(Arch::Sm80, 4, |device| {
            let x = device.upload(&numbers)?;
            let mut y = Output::<f32>::new(device, rows * columns)?;
            let views = (
                x.view((rows, columns))?,
                y.buffer().view_mut((rows, columns))?,
            );
            kernel.load(device)?.launch(grid, views)?;
            y.elements()
        })?;
        for (i, y) in found.iter().enumerate() {
            // Rows are shifted by `rows` and columns by 1, so that no number is negative.
            let near = (i / columns + rows - 1..i / columns + rows + 2)
                .flat_map(|m| (0..3).map(move |b| (m, i % columns + b)))
                .filter(|(m, n)| (rows..2 * rows).contains(m) && (1..=columns).contains(n));
            let sum: f32 = near
                .map(|(m, n)| numbers[(m - rows) * columns + n - 1])
                .sum();
            assert!((sum / 9.0 - y).abs() < 1e-3);
        }
        let last = found[rows * columns - 1];
        println!("{:.3} {:.3} .. {last:.3}", found[0], found[1]);
    }
    // ANCHOR_END: run_stencil
    Ok(())
}

/// Counts the sectors of global memory of both stencils.
fn stencil_costs() -> Result<(), Box<dyn Error>> {
    println!("\n== stencil_costs ==");
    // ANCHOR: stencil_costs
    let device = Device::simulator(Arch::Sm80);
    let x = device.zeros::<f32>(256 * 256)?;
    for shared in [false, true] {
        let mut y = device.zeros::<f32>(256 * 256)?;
        let views = (x.view((256, 256))?, y.view_mut((256, 256))?);
        let kernel = stencil(shared)?.load(&device)?;
        let report = kernel.profile([256 / 32, 256 / 8], views)?;
        let (touched, _) = report.sectors();
        println!(
            "tile in shared memory {shared}: {touched} sectors, {} bank conflicts",
            report.bank_conflicts()
        );
    }
    // ANCHOR_END: stencil_costs
    Ok(())
}

// ANCHOR: largest
/// The largest of many floats, which PTX has no atomic operation for.
fn largest() -> Result<TensorKernel, Box<dyn Error>> {
    let mut k = Builder::new("largest", Arch::Sm80, 128);
    let x = k.tensor("x", Ty::F32, "1000:_1");
    let top = k.tensor("top", Ty::F32, "_1:_1").elements(0);
    let (thread, block) = (k.thread(), k.block_index(0));
    let place = k.within(block, 0..1 << 20) * 128 + thread;
    let is_there = Expr::from(&place).lt(x.extent(0));
    let own = k.gather(&x.elements(&place));
    k.assign(&own, is_there.select(&own, f64::NEG_INFINITY));
    let seen = k.compare_and_swap(&top, &own, &own); // an atomic read
    k.loop_(|k| {
        let is_larger = k.condition(Expr::from(&own).gt(&seen));
        k.break_unless(is_larger);
        let now = k.compare_and_swap(&top, &seen, &own);
        k.assign(&seen, &now);
    });
    Ok(k.finish()?)
}
// ANCHOR_END: largest

/// Compares the largest with the host.
fn run_largest() -> Result<(), Box<dyn Error>> {
    println!("\n== run_largest ==");
    // ANCHOR: run_largest
    let numbers: Vec<f32> = (0..1000).map(|i| (i * 7919 % 613) as f32 - 700.0).collect();
    let device = Device::open();
    let x = device.upload(&numbers)?;
    let mut top = device.upload(&[f32::NEG_INFINITY])?;
    let place = ViewMut::new(&mut top, (C::<1>, C::<1>))?;
    let kernel = largest()?.load(&device)?;
    kernel.launch(
        [numbers.len().div_ceil(128)],
        (x.view(numbers.len())?, place),
    )?;
    println!("{:?}", top.download()?);
    // ANCHOR_END: run_largest
    Ok(())
}

// ANCHOR: pages
/// Twice the numbers of rows in allocations of their own, a block per row.
fn pages() -> Result<TensorKernel, Box<dyn Error>> {
    let mut k = Builder::new("pages", Arch::Sm80, 32);
    let pages = k.tensor("pages", Ty::U64, "100:1");
    let out = k.tensor("out", Ty::F32, "(100,_32):(_32,_1)");
    let (page, thread) = (k.block_index(0), k.thread());
    let address = k.gather(&pages.elements(&page).outside(Outside::Trap));
    let row = k.tensor_stated_at(&address, Ty::F32, "_32:_1");
    let x = k.gather(&row.elements(&thread));
    k.scatter(&x * 2.0, &out.elements((&page, &thread)));
    Ok(k.finish()?)
}
// ANCHOR_END: pages

/// Rows by their addresses, of which one is wrong the second time.
fn run_pages() -> Result<(), Box<dyn Error>> {
    println!("\n== run_pages ==");
    // ANCHOR: run_pages
    let device = Device::simulator(Arch::Sm80);
    let kernel = pages()?.load(&device)?;
    let rows = [
        device.upload(&[1.5_f32; 32])?,
        device.upload(&[4.0_f32; 32])?,
    ];
    let [first, second] = [rows[0].address(), rows[1].address()];
    for addresses in [[second, first], [second, 0x10]] {
        let pages = device.upload(&addresses)?;
        let mut out = device.poisoned::<f32>(64)?;
        let to = ViewMut::new(&mut out, ((2, C::<32>), (C::<32>, C::<1>)))?;
        match kernel.launch([2], (pages.view(2)?, to)) {
            Ok(()) => println!("{} {}", out.download()?[0], out.download()?[32]),
            Err(why) => println!("{}", why.to_string().lines().next().unwrap_or_default()),
        }
    }
    // ANCHOR_END: run_pages
    Ok(())
}

/// Two threads scatter to one element.
fn two_threads() -> Result<(), Box<dyn Error>> {
    println!("\n== two_threads ==");
    // ANCHOR: two_threads
    let mut k = Builder::new("collide", Arch::Sm80, 64);
    let y = k.tensor("y", Ty::S32, "_32:_1");
    let thread = k.thread();
    k.scatter(&thread, &y.elements(&thread % 32));
    let device = Device::simulator(Arch::Sm80);
    let mut y = device.zeros::<i32>(32)?;
    let y = ViewMut::new(&mut y, (C::<32>, C::<1>))?;
    let refused = k.finish()?.load(&device)?.launch([1], (y,)).unwrap_err();
    println!("{refused}");
    // ANCHOR_END: two_threads
    Ok(())
}

/// What is refused, and what the simulator names.
fn refusals() {
    println!("\n== refusals ==");
    // ANCHOR: refusals
    let kernel = || {
        let mut k = Builder::new("k", Arch::Sm80, 64);
        let x = k.tensor("x", Ty::F32, "1000:_1");
        let thread = k.thread();
        (k, x, thread)
    };
    let (mut k, x, thread) = kernel();
    k.atomic_update(AtomicOp::Max, &x.elements(thread), 1.0);
    println!("{}", k.finish().unwrap_err().what());
    let (mut k, x, thread) = kernel();
    k.scatter(1.0, &x.elements(&thread).vectors(0, 4));
    println!("{}", k.finish().unwrap_err().what());
    let (mut k, x, thread) = kernel();
    k.scatter(&thread, &x.elements(&thread));
    println!("{}", k.finish().unwrap_err().what());
    // ANCHOR_END: refusals
}
