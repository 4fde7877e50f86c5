//! The SIMT GEMM: products of single threads.
//!
//! Run it with `cargo run -p colex-book --example kernel_simt`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::kernels::GemmProblem;
use colex_gpu::kernels::gemm::GemmMethod;
use colex_gpu::tensor::{self, AtThread, Builder, TensorKernel};
use colex_gpu::{Device, Load, gemm};
use colex_layout::Layout;
use colex_tiled::{Operand, TiledCopy, TiledMma};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    before()?;
    one_tile()?;
    after()?;
    library()?;
    no_kernel()?;
    exercise_1()?;
    exercise_2()?;
    Ok(())
}

// ANCHOR: plain
/// C = A B^T with one element of C per thread.
pub(crate) fn plain() -> Result<TensorKernel, tensor::Error> {
    let mut k = Builder::new("plain", Arch::Sm70, 256);
    let matrix: Layout = "(1024,1024):(1024,_1)".parse()?;
    let a = k.tensor("a", Ty::F32, &matrix);
    let b = k.tensor("b", Ty::F32, &matrix);
    let c = k.tensor("c", Ty::F32, &matrix);
    let (thread, m, n) = (k.thread(), k.block_index(0), k.block_index(1));
    let fma = colex_atom::mma("UniversalFMA<float>")?;
    let fma = TiledMma::new(fma, "(16,16,1):(16,1,0)", (.., .., ..))?;
    let word = || colex_atom::copy("UniversalCopy<uint32_t>");
    let copy = |operand| TiledCopy::for_operand(word()?, 32, &fma, operand);
    let (of_a, of_b, of_c) = (copy(Operand::A)?, copy(Operand::B)?, copy(Operand::C)?);
    let ra = k.fragment_of(&fma, Operand::A, [16, 16]); // (MMA, MMA_M, MMA_K)
    let rb = k.fragment_of(&fma, Operand::B, [16, 16]); // (MMA, MMA_N, MMA_K)
    let sums = k.accumulators(&fma, [16, 16]); // (MMA, MMA_M, MMA_N)
    // ANCHOR_END: plain
    // ANCHOR: plain_loop
    let steps = (a.extent(1) + 15) / 16;
    k.for_(0, &steps, 1, |k, step| {
        let slab_a = a.local_tile((16, 16), (&m, step)); // (BLK_M, BLK_K)
        let slab_b = b.local_tile((16, 16), (&n, step)); // (BLK_N, BLK_K)
        let from_a = of_a.at(&thread).partition_src(&slab_a); // (CPY, CPY_M, CPY_K)
        let from_b = of_b.at(&thread).partition_src(&slab_b); // (CPY, CPY_N, CPY_K)
        k.copy_in_bounds(&of_a, &from_a, &ra.retile(&of_a));
        k.copy_in_bounds(&of_b, &from_b, &rb.retile(&of_b));
        k.mma(&fma, &sums, &ra, &rb, &sums);
    });
    let tile = c.local_tile((16, 16), (m, n)); // (BLK_M, BLK_N)
    let to = of_c.at(&thread).partition_dst(&tile); // (CPY, CPY_M, CPY_N)
    k.copy_in_bounds(&of_c, &sums.retile(&of_c), &to);
    k.finish()
}
// ANCHOR_END: plain_loop

// ANCHOR: count
/// 128 by 128 by 64 on the simulator, compared with the host: instructions, sectors, conflicts.
fn count(built: &TensorKernel, tile: u32) -> Result<[u64; 3], Box<dyn Error>> {
    let device = Device::simulator(Arch::Sm70);
    let a: Vec<f32> = (0..128 * 64).map(|i| (i % 7) as f32 - 3.0).collect();
    let b: Vec<f32> = (0..128 * 64).map(|i| (i % 5) as f32 - 2.0).collect();
    let (on_a, on_b) = (device.upload(&a)?, device.upload(&b)?);
    let mut on_c = device.poisoned::<f32>(128 * 128)?;
    let (view_a, view_b) = (on_a.view((128, 64))?, on_b.view((128, 64))?);
    let views = (view_a, view_b, on_c.view_mut((128, 128))?);
    let report = built
        .load(&device)?
        .profile([128 / tile, 128 / tile], views)?;
    for (i, found) in on_c.download()?.into_iter().enumerate() {
        let products = (0..64).map(|l| a[i / 128 * 64 + l] * b[i % 128 * 64 + l]);
        assert_eq!(found, products.sum::<f32>(), "element {i}");
    }
    Ok([
        report.instructions,
        report.sectors().0,
        report.bank_conflicts(),
    ])
}
// ANCHOR_END: count

/// Multiplies with one element of C per thread.
fn before() -> Result<(), Box<dyn Error>> {
    println!("\n== before ==");
    // ANCHOR: before
    let [instructions, sectors, conflicts] = count(&plain()?, 16)?;
    println!("{instructions} instructions, {sectors} sectors, {conflicts} conflicts");
    // ANCHOR_END: before
    Ok(())
}

// ANCHOR: tiled
/// The same with 4 by 4 elements per thread, and columns of the slabs `column` words apart.
pub(crate) fn tiled(column: i64, second_sync: bool) -> Result<TensorKernel, tensor::Error> {
    let mut k = Builder::new("tiled", Arch::Sm70, 256);
    let matrix: Layout = "(1024,1024):(1024,_1)".parse()?;
    let a = k.tensor("a", Ty::F32, &matrix);
    let b = k.tensor("b", Ty::F32, &matrix);
    let c = k.tensor("c", Ty::F32, &matrix);
    let (thread, m, n) = (k.thread(), k.block_index(0), k.block_index(1));
    let fma = colex_atom::mma("UniversalFMA<float>")?;
    let mine = ("(16,4):(4,1)", "(16,4):(4,1)", ..);
    let fma = TiledMma::new(fma, "(16,16,1):(16,1,0)", mine)?;

    let columns = Layout::new((64, 16), (1, column))?;
    let sa = k.shared_tensor(Ty::F32, columns.clone());
    let sb = k.shared_tensor(Ty::F32, columns);
    let (word, four) = ("UniversalCopy<uint32_t>", "UniversalCopy<uint128_t>");
    let (threads, values) = ("(64,4):(4,1)", "(1,4):(0,1)");
    let load = TiledCopy::new(colex_atom::copy(four)?, 32, threads, values)?;
    let put = TiledCopy::new(colex_atom::copy(word)?, 32, threads, values)?;
    let read_a = TiledCopy::for_operand(colex_atom::copy(four)?, 32, &fma, Operand::A)?;
    let read_b = TiledCopy::for_operand(colex_atom::copy(four)?, 32, &fma, Operand::B)?;
    // ANCHOR_END: tiled
    // ANCHOR: tiled_partitions
    let into_sa = put.at(&thread).partition_dst(&sa); // (CPY, CPY_M, CPY_K)
    let into_sb = put.at(&thread).partition_dst(&sb); // (CPY, CPY_N, CPY_K)
    let from_sa = read_a.at(&thread).partition_src(&sa); // (CPY, CPY_M, CPY_K)
    let from_sb = read_b.at(&thread).partition_src(&sb); // (CPY, CPY_N, CPY_K)
    let ra = k.fragment_of(&fma, Operand::A, [64, 16]); // (MMA, MMA_M, MMA_K)
    let rb = k.fragment_of(&fma, Operand::B, [64, 16]); // (MMA, MMA_N, MMA_K)
    let sums = k.accumulators(&fma, [64, 64]); // (MMA, MMA_M, MMA_N)
    // ANCHOR_END: tiled_partitions
    // ANCHOR: tiled_loop
    let steps = (a.extent(1) + 15) / 16;
    k.for_(0, &steps, 1, |k, step| {
        for (matrix, row, to) in [(&a, &m, &into_sa), (&b, &n, &into_sb)] {
            let slab = matrix.local_tile((64, 16), (row, step)); // (BLK_M, BLK_K)
            let from = load.at(&thread).partition_src(&slab); // (CPY, CPY_M, CPY_K)
            let held = k.fragment_like(&from);
            k.copy_in_bounds(&load, &from, &held);
            k.copy(&put, &held, to);
        }
        k.sync();
        k.copy(&read_a, &from_sa, &ra.retile(&read_a));
        k.copy(&read_b, &from_sb, &rb.retile(&read_b));
        k.mma(&fma, &sums, &ra, &rb, &sums);
        if second_sync {
            k.sync();
        }
    });
    // ANCHOR_END: tiled_loop
    // ANCHOR: tiled_end
    let tile = c.local_tile((64, 64), (m, n)); // (BLK_M, BLK_N)
    let store = TiledCopy::for_operand(colex_atom::copy(word)?, 32, &fma, Operand::C)?;
    let to = store.at(&thread).partition_dst(&tile); // (CPY, CPY_M, CPY_N)
    k.copy_in_bounds(&store, &sums.retile(&store), &to);
    k.finish()
}
// ANCHOR_END: tiled_end

/// Multiplies with 4 by 4 elements of C per thread.
fn one_tile() -> Result<(), Box<dyn Error>> {
    println!("\n== one_tile ==");
    // ANCHOR: one_tile
    let [instructions, sectors, conflicts] = count(&tiled(68, true)?, 64)?;
    println!("{instructions} instructions, {sectors} sectors, {conflicts} conflicts");
    // ANCHOR_END: one_tile
    Ok(())
}

/// Reads the report of the copies.
fn after() -> Result<(), Box<dyn Error>> {
    println!("\n== after ==");
    // ANCHOR: after
    for line in tiled(68, true)?.report().to_string().lines() {
        println!("{}", line.split("): ").last().unwrap_or(line));
    }
    // ANCHOR_END: after
    Ok(())
}

/// Counts what the library's kernel does.
fn library() -> Result<(), Box<dyn Error>> {
    println!("\n== library ==");
    // ANCHOR: library
    let device = Device::simulator(Arch::Sm70);
    let problem = GemmProblem::new(128, 128, 64);
    let (a, b) = (
        device.zeros::<f32>(128 * 64)?,
        device.zeros::<f32>(128 * 64)?,
    );
    let mut c = device.poisoned::<f32>(128 * 128)?;
    let call = problem
        .on(&a, &b, &mut c)?
        .method(GemmMethod::Simt)
        .prepare()?;
    println!("{call}");
    let report = call.profile(&device)?.remove(0);
    println!(
        "{} instructions, {} sectors of at least {}, {} conflicts",
        report.instructions,
        report.sectors().0,
        report.sectors().1,
        report.bank_conflicts()
    );
    // ANCHOR_END: library
    Ok(())
}

/// Shows types that no kernel multiplies.
fn no_kernel() -> Result<(), Box<dyn Error>> {
    println!("\n== no_kernel ==");
    // ANCHOR: no_kernel
    let device = Device::open();
    let (a, mut c) = (device.zeros::<f64>(16)?, device.zeros::<f32>(16)?);
    let (left, right) = (a.view((4, 4))?, a.view((4, 4))?);
    let error = gemm(&left, &right, &c.view_mut((4, 4))?).unwrap_err();
    println!("{error}");
    // ANCHOR_END: no_kernel
    Ok(())
}

/// Exercise 1: the second barrier is left out.
fn exercise_1() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_1 ==");
    // ANCHOR: exercise_1
    println!("{}", count(&tiled(68, false)?, 64).unwrap_err());
    // ANCHOR_END: exercise_1
    Ok(())
}

/// Exercise 2: conflicts under other layouts.
fn exercise_2() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_2 ==");
    // ANCHOR: exercise_2
    for column in [64, 68, 72] {
        let conflicts = count(&tiled(column, true)?, 64)?[2];
        println!("{column} words per column: {conflicts} conflicts");
    }
    println!("{}", tiled(66, true).unwrap_err());
    // ANCHOR_END: exercise_2
    Ok(())
}
