//! Transpose: a tile turns in shared memory.
//!
//! Run it with `cargo run -p colex-book --example kernel_transpose`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::ir::FenceKind;
use colex_gpu::kernels::{CopyCall, CopyMethod};
use colex_gpu::tensor::{self, AtThread, Builder, TensorKernel};
use colex_gpu::{Device, Load, transpose};
use colex_layout::{Layout, Swizzle, Tiler};
use colex_tiled::TiledCopy;
use half::bf16;
use std::collections::HashSet;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    before()?;
    transposed()?;
    matrices()?;
    engine()?;
    diagonal()?;
    after()?;
    permuted()?;
    exercise_1()?;
    exercise_4()?;
    Ok(())
}

/// Counts the sectors and instructions of two kernels.
fn before() -> Result<(), Box<dyn Error>> {
    println!("\n== before ==");
    // ANCHOR: before
    let device = Device::simulator(Arch::Sm90a);
    let (from, mut to) = (
        device.upload(&[bf16::ONE; 256 * 256])?,
        device.poisoned::<bf16>(256 * 256)?,
    );
    let rows = from.view((256, 256))?;
    let columns = to.view_t_mut((256, 256))?;
    let reported = |method| -> Result<_, colex_gpu::Error> {
        let report = CopyCall::new(&rows, &columns, Some(method))?
            .profile(&device)?
            .remove(0);
        Ok((report.sectors(), report.instructions))
    };
    for method in [CopyMethod::Naive, CopyMethod::Swizzled] {
        let ((touched, enough), instructions) = reported(method)?;
        println!("{method:?}: {touched} sectors of at least {enough}, {instructions} instructions");
    }
    // ANCHOR_END: before
    Ok(())
}

// ANCHOR: tile
/// Transposes tiles of 32 by 32, which lie in shared memory under the layout `shared`.
fn kernel(shared: &str) -> Result<TensorKernel, tensor::Error> {
    let mut k = Builder::new("transpose", Arch::Sm80, 256);
    let from = k.tensor("from", Ty::F32, "(1,1):(1,_1)");
    let to = k.tensor("to", Ty::F32, "(1,1):(_1,1)");
    let place = [k.block_index(0), k.block_index(1)];
    let from = from.local_tile((32, 32), &place); // (BLK_M, BLK_N)
    let to = to.local_tile((32, 32), &place); // (BLK_M, BLK_N)
    let tile = k.shared_tensor(Ty::F32, shared);
    let (word, one) = (colex_atom::copy("UniversalCopy<uint32_t>")?, "(1,1):(1,1)");
    let by_row = TiledCopy::new(word.clone(), 32, "(8,32):(32,1)", one)?;
    let by_column = TiledCopy::new(word, 32, "(32,8):(1,32)", one)?;
    let thread = k.thread();
    // ANCHOR_END: tile
    // ANCHOR: turn
    let mine = by_row.at(&thread);
    let src = mine.partition_src(&from); // (CPY, CPY_M, CPY_N)
    let dst = mine.partition_dst(&tile); // (CPY, CPY_M, CPY_N)
    let regs = k.fragment_like(&src);
    k.copy(&by_row, &src, &regs);
    k.copy(&by_row, &regs, &dst);
    k.sync();
    let mine = by_column.at(&thread);
    let src = mine.partition_src(&tile); // (CPY, CPY_M, CPY_N)
    let dst = mine.partition_dst(&to); // (CPY, CPY_M, CPY_N)
    let regs = k.fragment_like(&src);
    k.copy(&by_column, &src, &regs);
    k.copy(&by_column, &regs, &dst);
    k.finish()
}
// ANCHOR_END: turn

// ANCHOR: counted
/// The passes of shared memory lost to bank conflicts, and the sectors: touched, and enough.
fn counted(shared: &str) -> Result<(u64, (u64, u64)), Box<dyn Error>> {
    let device = Device::simulator(Arch::Sm80);
    let data: Vec<f32> = (0..64 * 96).map(|i| i as f32).collect();
    let (from, mut to) = (device.upload(&data)?, device.poisoned::<f32>(64 * 96)?);
    let views = (from.view((64, 96))?, to.view_t_mut((64, 96))?);
    let report = kernel(shared)?.load(&device)?.profile([2, 3], views)?;
    let found = to.download()?;
    assert!((0..64).all(|i| (0..96).all(|j| found[i + 64 * j] == data[96 * i + j])));
    Ok((report.bank_conflicts(), report.sectors()))
}
// ANCHOR_END: counted

/// Transposes by a tile in shared memory, under three layouts.
fn transposed() -> Result<(), Box<dyn Error>> {
    println!("\n== transposed ==");
    // ANCHOR: transposed
    let layouts = [
        "(32,32):(32,1)",
        "(32,32):(33,1)",
        "Sw<5,0,5> o 0 o (32,32):(32,1)",
    ];
    for shared in layouts {
        let (lost, (touched, enough)) = counted(shared)?;
        println!("{shared}: {lost} passes lost; {touched} sectors, and {enough} would do");
    }
    // ANCHOR_END: transposed
    Ok(())
}

/// Cuts the layout of the matrices out of the tile.
fn matrices() -> Result<(), Box<dyn Error>> {
    println!("\n== matrices ==");
    // ANCHOR: matrices
    // Mode 0: rows of a matrix, warps. Mode 1: a pair, the pairs of a row, matrices, warps.
    let tile = Layout::column_major(((8, 2), (2, 4, 4, 4)))?;
    let part = |paths: &[&[usize]]| -> Result<Layout, colex_layout::Error> {
        let modes: Result<Vec<Layout>, _> = paths.iter().map(|path| tile.get(path)).collect();
        Layout::concat(&modes?)
    };
    let threads = part(&[&[1, 1], &[0, 0], &[1, 3], &[0, 1]])?;
    let values = part(&[&[1, 0], &[1, 2]])?;
    println!("{threads:#}");
    println!("{values:#}");
    // ANCHOR_END: matrices
    Ok(())
}

// ANCHOR: square
/// Transposes squares of 64 by 64 elements of 16 bits: TMA moves, four warps turn.
fn square(fences: bool) -> Result<TensorKernel, Box<dyn Error>> {
    let mut k = Builder::new("transpose_square", Arch::Sm90a, 128);
    // Mode 0 is contiguous in the source, mode 1 in the destination.
    let (inside, outside) = (
        "Sw<3,3,3> o 0 o (64,64):(1,64)",
        "Sw<3,3,3> o 0 o (64,64):(64,1)",
    );
    let from = "(1024,1024):(_1,1024)";
    let from = k.tma_tensor("from", Ty::U16, from, [64, 64], inside, 1);
    let to = "(1024,1024):(1024,_1)";
    let to = k.tma_tensor("to", Ty::U16, to, [64, 64], outside, 1);
    let inside = k.shared_tensor(Ty::U16, inside);
    let outside = k.shared_tensor(Ty::U16, outside);

    // Mode 0: rows of a matrix, warps. Mode 1: a pair, the pairs of a row, matrices, warps.
    let tile = Layout::column_major(((8, 2), (2, 4, 4, 2)))?;
    let part = |paths: &[&[usize]]| -> Result<Layout, colex_layout::Error> {
        let modes: Result<Vec<Layout>, _> = paths.iter().map(|path| tile.get(path)).collect();
        Layout::concat(&modes?)
    };
    let threads = part(&[&[1, 1], &[0, 0], &[1, 3], &[0, 1]])?;
    let tv = Layout::concat([&threads, &part(&[&[1, 0], &[1, 2]])?])?.to_static();
    let tiler: Tiler = "(16,64)".parse()?;
    let read = colex_atom::copy("SM75_U16x8_LDSM_T")?;
    let read = TiledCopy::from_tv(read, 16, tv.clone(), tiler.clone())?;
    let write = colex_atom::copy("SM90_U32x4_STSM_N")?;
    let write = TiledCopy::from_tv(write, 16, tv, tiler)?;
    // ANCHOR_END: square
    // ANCHOR: square_turn
    let (thread, block) = (k.thread(), [k.block_index(0), k.block_index(1)]);
    let landed = k.barriers(1);
    let first = k.equal(&thread, &0.into());
    k.if_(first, |k| {
        k.init_barriers(&landed, 1);
        k.fence(FenceKind::MbarrierInit);
        k.arrive_expect(&landed.at(0), from.tile_bytes());
        k.tma_load(&from, &block, &inside, &landed.at(0));
    });
    k.sync(); // the barrier exists for all threads
    k.wait(&landed.at(0), &0.into());
    let src = read.at(&thread).partition_src(&inside); // (CPY, CPY_M, CPY_N)
    let dst = write.at(&thread).partition_dst(&outside); // (CPY, CPY_M, CPY_N)
    // Four rounds, in each the eight values of a thread.
    let held = k.fragment(Ty::U16, Layout::column_major((8, 4))?.to_static());
    k.copy(&read, &src, &held);
    k.copy(&write, &held, &dst);
    if fences {
        k.fence(FenceKind::ProxyAsyncShared); // TMA reads what the threads have written
    }
    k.sync();
    k.if_(first, |k| {
        k.tma_store(&to, &block, &outside);
        k.bulk_commit();
        k.bulk_wait(0, true);
    });
    Ok(k.finish()?)
}
// ANCHOR_END: square_turn

/// Transposes 104 by 136 elements by TMA.
fn engine() -> Result<(), Box<dyn Error>> {
    println!("\n== engine ==");
    // ANCHOR: engine
    let device = Device::simulator(Arch::Sm90a);
    let (m, n) = (104_usize, 136_usize);
    let data: Vec<u16> = (0..m * n).map(|i| i as u16).collect();
    let (from, mut to) = (device.upload(&data)?, device.poisoned::<u16>(m * n)?);
    let views = (from.view_t((n, m))?, to.view_mut((n, m))?);
    let grid = [n.div_ceil(64), m.div_ceil(64)];
    let report = square(true)?.load(&device)?.profile(grid, views)?;
    let found = to.download()?;
    assert!((0..m).all(|i| (0..n).all(|j| found[m * j + i] == data[n * i + j])));
    println!(
        "{} instructions, {} passes lost to bank conflicts",
        report.instructions,
        report.bank_conflicts()
    );
    // ANCHOR_END: engine
    Ok(())
}

/// Places eight threads on a diagonal of micro-tiles.
fn diagonal() -> Result<(), Box<dyn Error>> {
    println!("\n== diagonal ==");
    // ANCHOR: diagonal
    let diagonal = Swizzle::new(3, 0, -3)?;
    let places: Vec<(i64, i64)> = (0..8)
        .map(|x| diagonal.apply(x))
        .map(|y| (y % 8, y / 8))
        .collect();
    println!("{places:?}");
    let next: Vec<(i64, i64)> = (8..12)
        .map(|x| diagonal.apply(x))
        .map(|y| (y % 8, y / 8))
        .collect();
    println!("{next:?}");

    // The place of a chunk in its row: four words of rows of 32, swizzled.
    let square = Swizzle::new(3, 2, 3)?;
    let place = |chunk: i64, row: i64| square.apply(32 * row + 4 * chunk) % 32 / 4;
    for t in 0..8 {
        let threads = (8 * t..8 * t + 8).map(|x| diagonal.apply(x));
        let tiles: Vec<(i64, i64)> = threads.map(|y| (y % 8, y / 8)).collect();
        for i in 0..4 {
            let reads: HashSet<i64> = tiles.iter().map(|&(c, r)| place(c, 4 * r + i)).collect();
            let writes: HashSet<i64> = tiles.iter().map(|&(c, r)| place(r, 4 * c + i)).collect();
            assert_eq!((reads.len(), writes.len()), (8, 8));
        }
    }
    // ANCHOR_END: diagonal
    Ok(())
}

/// Transposes by TMA.
fn after() -> Result<(), Box<dyn Error>> {
    println!("\n== after ==");
    // ANCHOR: after
    let device = Device::simulator(Arch::Sm90a);
    let data: Vec<u32> = (0..256 * 256).collect();
    let (from, mut to) = (device.upload(&data)?, device.poisoned::<u32>(256 * 256)?);
    let rows = from.view((256, 256))?;
    let columns = to.view_t_mut((256, 256))?;
    let call = CopyCall::new(&rows, &columns, None)?;
    assert_eq!(call.plan().unwrap().method(), CopyMethod::Tma);
    let report = call.profile(&device)?.remove(0);
    let ((touched, enough), instructions) = (report.sectors(), report.instructions);
    println!("Tma: {touched} sectors of at least {enough}, {instructions} instructions");
    let (blocks, lost) = (report.blocks, report.bank_conflicts());
    println!("{blocks} blocks, {lost} passes lost");
    println!("{:?}", to.slice(256..260)?.download()?);
    // ANCHOR_END: after
    Ok(())
}

/// Transposes every matrix of a batch, and shows what is no permutation.
fn permuted() -> Result<(), Box<dyn Error>> {
    println!("\n== permuted ==");
    // ANCHOR: permuted
    let device = Device::open();
    let data: Vec<u16> = (0..2 * 24 * 16).collect();
    let (from, mut to) = (device.upload(&data)?, device.poisoned::<u16>(data.len())?);
    // Batches of (24,16), each transposed.
    let a = from.view((2, 24, 16))?;
    transpose(&a, &to.view_mut((2, 16, 24))?, &[0, 2, 1])?;
    let found = to.download()?;
    assert!((0..768).all(|i| found[i] == data[i / 384 * 384 + i % 24 * 16 + i % 384 / 24]));

    let error = transpose(&a, &to.view_mut((2, 16, 24))?, &[0, 2, 2]).unwrap_err();
    println!("{error}");
    // ANCHOR_END: permuted
    Ok(())
}

// ANCHOR: exercise_1
/// The same without the barrier.
fn broken() -> Result<TensorKernel, tensor::Error> {
    let mut k = Builder::new("transpose", Arch::Sm80, 256);
    let from = k.tensor("from", Ty::F32, "(1,1):(1,_1)");
    let to = k.tensor("to", Ty::F32, "(1,1):(_1,1)");
    let place = [k.block_index(0), k.block_index(1)];
    let from = from.local_tile((32, 32), &place); // (BLK_M, BLK_N)
    let to = to.local_tile((32, 32), &place); // (BLK_M, BLK_N)
    let tile = k.shared_tensor(Ty::F32, "(32,32):(33,1)");
    let (word, one) = (colex_atom::copy("UniversalCopy<uint32_t>")?, "(1,1):(1,1)");
    let by_row = TiledCopy::new(word.clone(), 32, "(8,32):(32,1)", one)?;
    let by_column = TiledCopy::new(word, 32, "(32,8):(1,32)", one)?;
    let thread = k.thread();
    for (copy, src, dst) in [(by_row, &from, &tile), (by_column, &tile, &to)] {
        let src = copy.at(&thread).partition_src(src); // (CPY, CPY_M, CPY_N)
        let dst = copy.at(&thread).partition_dst(dst); // (CPY, CPY_M, CPY_N)
        let regs = k.fragment_like(&src);
        k.copy(&copy, &src, &regs);
        k.copy(&copy, &regs, &dst);
    }
    k.finish()
}
// ANCHOR_END: exercise_1

/// Exercise 1: the barrier is left out.
fn exercise_1() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_1 ==");
    // ANCHOR: exercise_1
    let device = Device::simulator(Arch::Sm80);
    let (from, mut to) = (
        device.zeros::<f32>(64 * 96)?,
        device.poisoned::<f32>(64 * 96)?,
    );
    let views = (from.view((64, 96))?, to.view_t_mut((64, 96))?);
    let fault = broken()?
        .load(&device)?
        .launch([2, 3], views)
        .unwrap_err()
        .to_string();
    println!("{fault}");
    // ANCHOR_END: exercise_1
    Ok(())
}

/// Exercise 4: the fence between the threads and TMA is left out.
fn exercise_4() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_4 ==");
    // ANCHOR: exercise_4
    let device = Device::simulator(Arch::Sm90a);
    let (from, mut to) = (device.zeros::<u16>(64 * 64)?, device.zeros::<u16>(64 * 64)?);
    let views = (from.view_t((64, 64))?, to.view_mut((64, 64))?);
    let built = square(false)?;
    let run = built
        .load(&device)
        .and_then(|loaded| loaded.launch([1, 1], views));
    println!("{}", run.unwrap_err());
    // ANCHOR_END: exercise_4
    Ok(())
}
