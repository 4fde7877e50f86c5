//! A kernel from tensors: a product of any size.
//!
//! Run it with `cargo run -p colex-book --example kernel_tensors`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::tensor::{AtThread, Builder, TensorKernel};
use colex_gpu::{Device, Load, View};
use colex_layout::{C, ComposedLayout, Layout};
use colex_tiled::{Operand, TiledCopy, TiledMma};
use half::f16;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    whole_product()?;
    refused()?;
    exercise_1()?;
    Ok(())
}

// ANCHOR: arguments
/// C = A B^T, A and B contiguous along K. Exercise 1 leaves out the second barrier of a step.
fn product(second_sync: bool) -> Result<TensorKernel, Box<dyn Error>> {
    let mut k = Builder::new("product", Arch::Sm80, 128);
    let dynamic: Layout = "(1024,1024):(1024,_1)".parse()?;
    let a = k.tensor("a", Ty::F16, &dynamic);
    let b = k.tensor("b", Ty::F16, &dynamic);
    let c = k.tensor("c", Ty::F32, &dynamic);
    let (thread, m, n) = (k.thread(), k.block_index(0), k.block_index(1));

    let rows: ComposedLayout = "Sw<3,3,3> o 0 o (64,64):(64,1)".parse()?;
    let sa = k.shared_tensor(Ty::F16, rows.clone());
    let sb = k.shared_tensor(Ty::F16, rows);
    // ANCHOR_END: arguments

    // ANCHOR: operations
    let load = colex_atom::copy("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>")?;
    let load = TiledCopy::new(load, 16, "(16,8):(8,1)", "(1,8):(0,1)")?;
    let mma = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let mma = TiledMma::new(mma, "(2,2,1):(1,2,0)", (32, 32, 16))?;
    let matrices = || colex_atom::copy("SM75_U32x4_LDSM_N");
    let read_a = TiledCopy::for_operand(matrices()?, 16, &mma, Operand::A)?;
    let read_b = TiledCopy::for_operand(matrices()?, 16, &mma, Operand::B)?;
    let store = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let store = TiledCopy::for_operand(store, 32, &mma, Operand::C)?;
    // ANCHOR_END: operations

    // ANCHOR: partitions
    let mine = load.at(&thread);
    let into_sa = mine.partition_dst(&sa); // (CPY, CPY_M, CPY_K)
    let into_sb = mine.partition_dst(&sb); // (CPY, CPY_N, CPY_K)
    let from_sa = read_a.at(&thread).partition_src(&sa); // (CPY, CPY_M, CPY_K)
    let from_sb = read_b.at(&thread).partition_src(&sb); // (CPY, CPY_N, CPY_K)
    let ra = k.fragment_of(&mma, Operand::A, [64, 64]); // (MMA, MMA_M, MMA_K)
    let rb = k.fragment_of(&mma, Operand::B, [64, 64]); // (MMA, MMA_N, MMA_K)
    let sums = k.accumulators(&mma, [64, 64]); // (MMA, MMA_M, MMA_N)
    // ANCHOR_END: partitions

    // ANCHOR: mainloop
    let steps = (a.extent(1) + 63) / 64;
    k.for_(0, &steps, 1, |k, step| {
        let slab_a = a.local_tile((64, 64), (&m, step)); // (BLK_M, BLK_K)
        let slab_b = b.local_tile((64, 64), (&n, step)); // (BLK_N, BLK_K)
        k.copy_in_bounds(&load, &mine.partition_src(&slab_a), &into_sa); // (CPY, CPY_M, CPY_K)
        k.copy_in_bounds(&load, &mine.partition_src(&slab_b), &into_sb); // (CPY, CPY_N, CPY_K)
        k.cp_async_commit();
        k.cp_async_wait(0);
        k.sync();
        k.copy(&read_a, &from_sa, &ra.retile(&read_a));
        k.copy(&read_b, &from_sb, &rb.retile(&read_b));
        k.mma(&mma, &sums, &ra, &rb, &sums);
        if second_sync {
            k.sync();
        }
    });
    // ANCHOR_END: mainloop

    // ANCHOR: epilogue
    let tile = c.local_tile((64, 64), (m, n)); // (BLK_M, BLK_N)
    let into_c = store.at(&thread).partition_dst(&tile); // (CPY, CPY_M, CPY_N)
    k.copy_in_bounds(&store, &sums.retile(&store), &into_c);
    Ok(k.finish()?)
}
// ANCHOR_END: epilogue

// ANCHOR: check
/// Runs it on the GPU if there is one, on the simulator if not, and compares with the host.
fn check(built: &TensorKernel, [m, n, k]: [usize; 3]) -> Result<(), Box<dyn Error>> {
    let ld = k.next_multiple_of(8);
    let number = |i: usize| f16::from_f32((i * 7 % 11) as f32 / 4.0 - 1.0);
    let (a, b): (Vec<f16>, Vec<f16>) = (
        (0..m * ld).map(number).collect(),
        (3..n * ld + 3).map(number).collect(), // other numbers than those of a
    );
    let device = Device::open();
    let kernel = built.load(&device)?;
    let (on_a, on_b) = (device.upload(&a)?, device.upload(&b)?);
    let mut on_c = device.poisoned::<f32>(m * n)?;
    let view_a = View::new(&on_a, ((m, k), (ld, C::<1>)))?;
    let view_b = View::new(&on_b, ((n, k), (ld, C::<1>)))?;
    let grid = [m.div_ceil(64), n.div_ceil(64)];
    kernel.launch(grid, (view_a, view_b, on_c.view_mut((m, n))?))?;
    for (i, found) in on_c.download()?.into_iter().enumerate() {
        let (row, column) = (i / n * ld, i % n * ld);
        let products = (0..k).map(|l| f32::from(a[row + l]) * f32::from(b[column + l]));
        assert_eq!(
            found,
            products.sum::<f32>(),
            "element {i} of {m} by {n} by {k}"
        );
    }
    Ok(())
}
// ANCHOR_END: check

/// Builds the kernel and compares it with the host at three sizes.
fn whole_product() -> Result<(), Box<dyn Error>> {
    println!("\n== whole_product ==");
    // ANCHOR: whole_product
    let built = product(true)?;
    check(&built, [64, 64, 64])?;
    check(&built, [70, 33, 100])?;
    check(&built, [1, 1, 1])?;

    let costs = built.report().to_string(); // per operation: its text (its source line): its cost
    for line in costs.lines() {
        let (operation, cost) = line.rsplit_once("): ").ok_or("a line without a cost")?;
        let (_, at) = operation
            .rsplit_once('/')
            .ok_or("a line without its place")?;
        println!("{at}: {cost}");
    }
    // ANCHOR_END: whole_product
    Ok(())
}

/// Shows a partition of dynamic extents.
fn refused() -> Result<(), Box<dyn Error>> {
    println!("\n== refused ==");
    // ANCHOR: refused
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let a = k.tensor("a", Ty::F32, "(100,100):(100,_1)");
    let thread = k.thread();
    let copy = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let copy = TiledCopy::new(copy, 32, "(8,4):(4,1)", "(1,1):(0,0)")?;
    copy.at(&thread).partition_src(&a); // (CPY, CPY_M, CPY_N)
    let error = k.finish().unwrap_err();
    println!("{}", error.what());
    assert!(error.at().line() > 0);
    // ANCHOR_END: refused
    Ok(())
}

// ANCHOR: exercise_1
/// One block on the simulator: what it says, with `k` numbers along K.
fn said(built: &TensorKernel, k: usize) -> Result<String, Box<dyn Error>> {
    let device = Device::simulator(Arch::Sm80);
    let (a, mut c) = (
        device.zeros::<f16>(64 * k)?,
        device.poisoned::<f32>(64 * 64)?,
    );
    let slab = a.view((64, k))?;
    let launched = built
        .load(&device)?
        .launch([1], (&slab, &slab, c.view_mut((64, 64))?));
    Ok(launched.map_or_else(|fault| fault.to_string(), |()| "no fault".into()))
}
// ANCHOR_END: exercise_1

/// Exercise 1: the second barrier is left out.
fn exercise_1() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_1 ==");
    // ANCHOR: exercise_1
    let without = product(false)?;
    println!("K = 64, one barrier per step: {}", said(&without, 64)?);
    println!("K = 128, one barrier per step: {}", said(&without, 128)?);
    println!("K = 128, two: {}", said(&product(true)?, 128)?);
    // ANCHOR_END: exercise_1
    Ok(())
}
