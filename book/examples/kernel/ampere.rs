//! The Ampere GEMM: copies that no thread waits for.
//!
//! Run it with `cargo run -p colex-book --example kernel_ampere`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::kernels::gemm::GemmMethod;
use colex_gpu::kernels::{Compute, GemmProblem};
use colex_gpu::tensor::{self, AtThread, Builder, Index, TensorKernel};
use colex_gpu::{Device, Gemm, Load, gemm};
use colex_layout::{ComposedLayout, Layout, Swizzle};
use colex_tiled::{Operand, TiledCopy, TiledMma};
use half::f16;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    overlapped()?;
    after()?;
    library()?;
    tf32()?;
    exercise_1()?;
    exercise_2()?;
    exercise_3()?;
    Ok(())
}

// ANCHOR: stages
/// C = A B^T with `stages` stages; a step waits until at most `pending` groups are under way.
pub(crate) fn staged(stages: i64, pending: u32) -> Result<TensorKernel, tensor::Error> {
    let mut k = Builder::new("staged", Arch::Sm80, 128);
    let matrix: Layout = "(1024,1024):(1024,_1)".parse()?;
    let a = k.tensor("a", Ty::F16, &matrix);
    let b = k.tensor("b", Ty::F16, &matrix);
    let c = k.tensor("c", Ty::F32, &matrix);
    let (thread, m, n) = (k.thread(), k.block_index(0), k.block_index(1));
    let slabs = Layout::new((64, 32, stages), (32, 1, 2048))?;
    let slabs = ComposedLayout::new(Swizzle::new(2, 3, 3)?, 0, slabs)?;
    let sa = k.shared_tensor(Ty::F16, slabs.clone());
    let sb = k.shared_tensor(Ty::F16, slabs);
    let load = colex_atom::copy("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>")?;
    let load = TiledCopy::new(load, 16, "(32,4):(4,1)", "(1,8):(0,1)")?;
    let mma = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let mma = TiledMma::new(mma, "(2,2,1):(1,2,0)", (32, 32, 16))?;
    let matrices = || colex_atom::copy("SM75_U32x4_LDSM_N");
    let read_a = TiledCopy::for_operand(matrices()?, 16, &mma, Operand::A)?;
    let read_b = TiledCopy::for_operand(matrices()?, 16, &mma, Operand::B)?;
    // ANCHOR_END: stages
    // ANCHOR: partitions
    let mine = load.at(&thread);
    let into_sa = mine.partition_dst(&sa); // (CPY, CPY_M, CPY_K, STAGE)
    let into_sb = mine.partition_dst(&sb); // (CPY, CPY_N, CPY_K, STAGE)
    let from_sa = read_a.at(&thread).partition_src(&sa); // (CPY, CPY_M, CPY_K, STAGE)
    let from_sb = read_b.at(&thread).partition_src(&sb); // (CPY, CPY_N, CPY_K, STAGE)
    let ra = k.fragment_of(&mma, Operand::A, [64, 32]); // (MMA, MMA_M, MMA_K)
    let rb = k.fragment_of(&mma, Operand::B, [64, 32]); // (MMA, MMA_N, MMA_K)
    let sums = k.accumulators(&mma, [64, 64]); // (MMA, MMA_M, MMA_N)
    // ANCHOR_END: partitions

    // ANCHOR: fetch
    let fetch = |k: &mut Builder, step: &Index| {
        let slab_a = a.local_tile((64, 32), (&m, step)); // (BLK_M, BLK_K)
        let slab_b = b.local_tile((64, 32), (&n, step)); // (BLK_N, BLK_K)
        k.copy_in_bounds(
            &load,
            &mine.partition_src(&slab_a), // (CPY, CPY_M, CPY_K)
            &into_sa.at(3, step % stages),
        );
        k.copy_in_bounds(
            &load,
            &mine.partition_src(&slab_b), // (CPY, CPY_N, CPY_K)
            &into_sb.at(3, step % stages),
        );
        k.cp_async_commit();
    };
    for step in 0..stages - 1 {
        fetch(&mut k, &step.into());
    }
    // ANCHOR_END: fetch
    // ANCHOR: mainloop
    let steps = (a.extent(1) + 31) / 32;
    k.for_(0, &steps, 1, |k, step| {
        k.cp_async_wait(pending);
        k.sync();
        fetch(k, &(step + (stages - 1)));
        k.copy(&read_a, &from_sa.at(3, step % stages), &ra.retile(&read_a));
        k.copy(&read_b, &from_sb.at(3, step % stages), &rb.retile(&read_b));
        k.mma(&mma, &sums, &ra, &rb, &sums);
    });
    // ANCHOR_END: mainloop
    // ANCHOR: epilogue
    k.cp_async_wait(0);
    let store = colex_atom::copy("UniversalCopy<uint64_t>")?;
    let store = TiledCopy::for_operand(store, 32, &mma, Operand::C)?;
    let tile = c.local_tile((64, 64), (m, n)); // (BLK_M, BLK_N)
    let to = store.at(&thread).partition_dst(&tile); // (CPY, CPY_M, CPY_N)
    k.copy_in_bounds(&store, &sums.retile(&store), &to);
    k.finish()
}
// ANCHOR_END: epilogue

// ANCHOR: check
/// 64 by 64 by 128 on the simulator, compared with the host.
fn check(built: &TensorKernel) -> Result<(), Box<dyn Error>> {
    let device = Device::simulator(Arch::Sm80);
    let number = |i: usize| f16::from_f32((i * 7 % 11) as f32 / 4.0 - 1.0);
    let a: Vec<f16> = (0..64 * 128).map(number).collect();
    let b: Vec<f16> = (3..64 * 128 + 3).map(number).collect();
    let (on_a, on_b) = (device.upload(&a)?, device.upload(&b)?);
    let mut on_c = device.poisoned::<f32>(64 * 64)?;
    let (view_a, view_b) = (on_a.view((64, 128))?, on_b.view((64, 128))?);
    built
        .load(&device)?
        .launch([1], (view_a, view_b, on_c.view_mut((64, 64))?))?;
    for (i, found) in on_c.download()?.into_iter().enumerate() {
        let product = |l| f32::from(a[i / 64 * 128 + l]) * f32::from(b[i % 64 * 128 + l]);
        assert_eq!(found, (0..128).map(product).sum::<f32>(), "element {i}");
    }
    Ok(())
}
// ANCHOR_END: check

/// Multiplies with three stages.
fn overlapped() -> Result<(), Box<dyn Error>> {
    println!("\n== overlapped ==");
    // ANCHOR: overlapped
    let built = staged(3, 1)?;
    check(&built)?;
    println!("{} bytes of shared memory", built.dynamic_shared());
    // ANCHOR_END: overlapped
    Ok(())
}

/// Reads the report of the copies.
fn after() -> Result<(), Box<dyn Error>> {
    println!("\n== after ==");
    // ANCHOR: after
    for line in staged(3, 1)?.report().to_string().lines() {
        println!("{}", line.split("): ").last().unwrap_or(line));
    }
    // ANCHOR_END: after
    Ok(())
}

/// Counts what the library's kernel does.
fn library() -> Result<(), Box<dyn Error>> {
    println!("\n== library ==");
    // ANCHOR: library
    let device = Device::simulator(Arch::Sm80);
    let problem = GemmProblem::new(256, 256, 256);
    let (a, b) = (
        device.zeros::<f16>(256 * 256)?,
        device.zeros::<f16>(256 * 256)?,
    );
    let mut c = device.poisoned::<f16>(256 * 256)?;
    let call = problem.on(&a, &b, &mut c)?.prepare()?;
    assert_eq!(call.plan().unwrap().method, GemmMethod::Ampere);
    let report = call.profile(&device)?.remove(0);
    assert_eq!(report.bank_conflicts(), 0);
    // Every sector that is touched is used whole.
    let (touched, enough) = report.sectors();
    assert_eq!(touched, enough);
    println!("{} instructions", report.instructions);
    // ANCHOR_END: library
    Ok(())
}

/// Multiplies with floats, and rounded to tf32.
fn tf32() -> Result<(), Box<dyn Error>> {
    println!("\n== tf32 ==");
    // ANCHOR: tf32
    let device = Device::simulator(Arch::Sm80);
    let number = device.upload(&[0.3f32])?;
    let (one, mut c) = (device.upload(&[1.0f32])?, device.poisoned::<f32>(1)?);
    let (a, b) = (number.view((1, 1))?, one.view((1, 1))?);
    gemm(&a, &b, &c.view_mut((1, 1))?)?;
    println!("{:?}", c.download()?);
    Gemm::new(&a, &b, &c.view_mut((1, 1))?)
        .compute(Compute::Tf32)
        .run()?;
    println!("{:?}", c.download()?); // 1229 / 4096
    // ANCHOR_END: tf32
    Ok(())
}

/// Exercise 1: one group too many is on its way.
fn exercise_1() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_1 ==");
    // ANCHOR: exercise_1
    println!("{}", check(&staged(3, 2)?).unwrap_err());
    // ANCHOR_END: exercise_1
    Ok(())
}

/// Exercise 2: nothing is on its way.
fn exercise_2() -> Result<(), Box<dyn Error>> {
    // ANCHOR: exercise_2
    check(&staged(3, 0)?)?;
    // ANCHOR_END: exercise_2
    Ok(())
}

/// Exercise 3: four stages.
fn exercise_3() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_3 ==");
    // ANCHOR: exercise_3
    let built = staged(4, 2)?;
    check(&built)?;
    println!("{} bytes of shared memory", built.dynamic_shared());
    assert!(check(&staged(4, 3)?).is_err());
    // ANCHOR_END: exercise_3
    Ok(())
}
