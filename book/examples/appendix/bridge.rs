//! Coming from CuTe: the kernels of `sgemm_1.cu` and `sgemm_sm80.cu`, step by step.
//!
//! Run it with `cargo run -p colex-book --example appendix_bridge`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::tensor::{AtThread, Builder, Index, TensorKernel};
use colex_gpu::{Device, Load, View, ViewMut};
use colex_layout::{C, Layout, layout};
use colex_tiled::{Operand, TiledCopy, TiledMma};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    majors()?;
    simple()?;
    pipelined()?;
    tv_layout()?;
    Ok(())
}

/// Names the two orders of an operand.
fn majors() -> Result<(), Box<dyn Error>> {
    println!("\n== majors ==");
    // ANCHOR: majors
    let (m, k) = (128, 8);
    let m_major = Layout::new((m, k), (C::<1>, m))?; // the N of BLAS for A
    let k_major = Layout::new((m, k), (k, C::<1>))?; // the T of BLAS for A
    println!("{m_major}  M-major");
    println!("{k_major}  K-major");
    // ANCHOR_END: majors
    Ok(())
}

// ANCHOR: simple_tensors
/// The kernel of `sgemm_1.cu`: C = A B^T, A M-major, B N-major, one stage of shared memory.
fn sgemm_1() -> Result<TensorKernel, Box<dyn Error>> {
    let mut k = Builder::new("sgemm_1", Arch::Sm80, 256);
    let major = Layout::new((1, 1), (C::<1>, 1))?; // only the 1 of C::<1> is static
    let ma = k.tensor("a", Ty::F32, &major); // (M, K)
    let mb = k.tensor("b", Ty::F32, &major); // (N, K)
    let mc = k.tensor("c", Ty::F32, &major); // (M, N)
    let (thread, m, n) = (k.thread(), k.block_index(0), k.block_index(1));

    let slab = Layout::new((128, 8), (1, 128))?;
    let sa = k.shared_tensor(Ty::F32, &slab); // (BLK_M, BLK_K)
    let sb = k.shared_tensor(Ty::F32, &slab); // (BLK_N, BLK_K)
    // ANCHOR_END: simple_tensors

    // ANCHOR: simple_threads
    let word = || colex_atom::copy("UniversalCopy<uint32_t>");
    let (t_a, one) = (Layout::new((32, 8), (1, 32))?, Layout::new((1, 1), (0, 0))?);
    let copy = TiledCopy::new(word()?, 32, &t_a, &one)?; // tA and tB
    let t_c = Layout::new((16, 16, 1), (1, 16, 0))?;
    let fma = colex_atom::mma("UniversalFMA<float>")?;
    let mma = TiledMma::new(fma, &t_c, (.., .., ..))?; // tC
    let read_a = TiledCopy::for_operand(word()?, 32, &mma, Operand::A)?;
    let read_b = TiledCopy::for_operand(word()?, 32, &mma, Operand::B)?;
    let store = TiledCopy::for_operand(word()?, 32, &mma, Operand::C)?;
    // ANCHOR_END: simple_threads

    // ANCHOR: simple_partitions
    let mine = copy.at(&thread);
    let t_asa = mine.partition_dst(&sa); // (CPY, CPY_M, CPY_K)
    let t_bsb = mine.partition_dst(&sb); // (CPY, CPY_N, CPY_K)
    let t_xsa = read_a.at(&thread).partition_src(&sa); // (CPY, CPY_M, CPY_K)
    let t_xsb = read_b.at(&thread).partition_src(&sb); // (CPY, CPY_N, CPY_K)
    let t_cra = k.fragment_of(&mma, Operand::A, [128, 8]); // (MMA, MMA_M, MMA_K)
    let t_crb = k.fragment_of(&mma, Operand::B, [128, 8]); // (MMA, MMA_N, MMA_K)
    let t_crc = k.accumulators(&mma, [128, 128]); // (MMA, MMA_M, MMA_N)
    // ANCHOR_END: simple_partitions

    // ANCHOR: simple_loop
    let k_tiles = (ma.extent(1) + 7) / 8;
    k.for_(0, &k_tiles, 1, |k, k_tile| {
        for (matrix, place, into) in [(&ma, &m, &t_asa), (&mb, &n, &t_bsb)] {
            let tile = matrix.local_tile((128, 8), (place, k_tile)); // (BLK_M, BLK_K)
            let t_aga = mine.partition_src(&tile); // (CPY, CPY_M, CPY_K)
            let registers = k.fragment_like(&t_aga);
            k.copy_in_bounds(&copy, &t_aga, &registers);
            k.copy(&copy, &registers, into);
        }
        k.sync();
        k.copy(&read_a, &t_xsa, &t_cra.retile(&read_a));
        k.copy(&read_b, &t_xsb, &t_crb.retile(&read_b));
        k.mma(&mma, &t_crc, &t_cra, &t_crb, &t_crc);
        k.sync();
    });
    // ANCHOR_END: simple_loop

    // ANCHOR: simple_end
    let gc = mc.local_tile((128, 128), (m, n)); // (BLK_M, BLK_N)
    let t_cgc = store.at(&thread).partition_dst(&gc); // (CPY, CPY_M, CPY_N)
    k.copy_in_bounds(&store, &t_crc.retile(&store), &t_cgc);
    Ok(k.finish()?)
}
// ANCHOR_END: simple_end

// ANCHOR: check
/// Multiplies 132 by 72 by 20 on the simulator, and compares every element with the host.
/// Returns the lost passes.
fn check(built: &TensorKernel) -> Result<u64, Box<dyn Error>> {
    let [m, n, k] = [132usize, 72, 20];
    let a: Vec<f32> = (0..m * k).map(|i| (i % 7) as f32 - 3.0).collect();
    let b: Vec<f32> = (0..n * k).map(|i| (i % 5) as f32 - 2.0).collect();
    let device = Device::simulator(Arch::Sm80);
    let (on_a, on_b) = (device.upload(&a)?, device.upload(&b)?);
    let mut on_c = device.poisoned::<f32>(m * n)?;
    let views = (
        View::new(&on_a, ((m, k), (C::<1>, m)))?,
        View::new(&on_b, ((n, k), (C::<1>, n)))?,
        ViewMut::new(&mut on_c, ((m, n), (C::<1>, m)))?,
    );
    let report = built.load(&device)?.profile([2, 1], views)?;
    for (i, found) in on_c.download()?.into_iter().enumerate() {
        let products = (0..k).map(|l| a[i % m + l * m] * b[i / m + l * n]);
        assert_eq!(found, products.sum::<f32>(), "element {i}");
    }
    Ok(report.bank_conflicts())
}
// ANCHOR_END: check

/// Runs the kernel of `sgemm_1.cu`.
fn simple() -> Result<(), Box<dyn Error>> {
    println!("\n== simple ==");
    // ANCHOR: simple
    let built = sgemm_1()?;
    println!("{} passes lost to bank conflicts", check(&built)?);
    // ANCHOR_END: simple
    Ok(())
}

// ANCHOR: stages
/// The kernel of `sgemm_sm80.cu`: three stages of shared memory, filled by `cp.async`.
fn sgemm_sm80() -> Result<TensorKernel, Box<dyn Error>> {
    let mut k = Builder::new("sgemm_sm80", Arch::Sm80, 256);
    let major = Layout::new((1, 1), (C::<1>, 1))?;
    let ma = k.tensor("a", Ty::F32, &major); // (M, K)
    let mb = k.tensor("b", Ty::F32, &major); // (N, K)
    let mc = k.tensor("c", Ty::F32, &major); // (M, N)
    let (thread, m, n) = (k.thread(), k.block_index(0), k.block_index(1));

    let slabs = Layout::new((128, 8, 3), (1, 128, 1024))?;
    let sa = k.shared_tensor(Ty::F32, &slabs); // (BLK_M, BLK_K, PIPE)
    let sb = k.shared_tensor(Ty::F32, &slabs); // (BLK_N, BLK_K, PIPE)

    let four = colex_atom::copy("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>")?;
    let (threads, values) = (Layout::new((32, 8), (1, 32))?, Layout::new((4, 1), (1, 0))?);
    let copy = TiledCopy::new(four, 32, &threads, &values)?;
    let t_c = Layout::new((16, 16, 1), (1, 16, 0))?;
    let mma = TiledMma::new(colex_atom::mma("UniversalFMA<float>")?, &t_c, (.., .., ..))?;
    let word = || colex_atom::copy("UniversalCopy<uint32_t>");
    let read_a = TiledCopy::for_operand(word()?, 32, &mma, Operand::A)?; // s2r_copy_a
    let read_b = TiledCopy::for_operand(word()?, 32, &mma, Operand::B)?; // s2r_copy_b
    let store = TiledCopy::for_operand(word()?, 32, &mma, Operand::C)?;
    // ANCHOR_END: stages

    // ANCHOR: stage_partitions
    let mine = copy.at(&thread);
    let t_asa = mine.partition_dst(&sa); // (CPY, CPY_M, CPY_K, PIPE)
    let t_bsb = mine.partition_dst(&sb); // (CPY, CPY_N, CPY_K, PIPE)
    let t_xsa = read_a.at(&thread).partition_src(&sa); // (CPY, CPY_M, CPY_K, PIPE)
    let t_xsb = read_b.at(&thread).partition_src(&sb); // (CPY, CPY_N, CPY_K, PIPE)
    let t_cra = k.fragment_of(&mma, Operand::A, [128, 8]); // (MMA, MMA_M, MMA_K)
    let t_crb = k.fragment_of(&mma, Operand::B, [128, 8]); // (MMA, MMA_N, MMA_K)
    let t_crc = k.accumulators(&mma, [128, 128]); // (MMA, MMA_M, MMA_N)
    // ANCHOR_END: stage_partitions

    // ANCHOR: prefetch
    let fetch = |k: &mut Builder, k_tile: &Index| {
        for (matrix, place, into) in [(&ma, &m, &t_asa), (&mb, &n, &t_bsb)] {
            let tile = matrix.local_tile((128, 8), (place, k_tile)); // (BLK_M, BLK_K)
            let t_aga = mine.partition_src(&tile); // (CPY, CPY_M, CPY_K)
            k.copy_in_bounds(&copy, &t_aga, &into.at(3, k_tile % 3));
        }
        k.cp_async_commit();
    };
    fetch(&mut k, &0.into());
    fetch(&mut k, &1.into());
    // ANCHOR_END: prefetch

    // ANCHOR: stage_loop
    let k_tiles = (ma.extent(1) + 7) / 8;
    k.for_(0, &k_tiles, 1, |k, k_tile| {
        k.cp_async_wait(1);
        k.sync();
        fetch(k, &(k_tile + 2));
        k.copy(&read_a, &t_xsa.at(3, k_tile % 3), &t_cra.retile(&read_a));
        k.copy(&read_b, &t_xsb.at(3, k_tile % 3), &t_crb.retile(&read_b));
        k.mma(&mma, &t_crc, &t_cra, &t_crb, &t_crc);
    });
    k.cp_async_wait(0);
    // ANCHOR_END: stage_loop

    // ANCHOR: stage_end
    let gc = mc.local_tile((128, 128), (m, n)); // (BLK_M, BLK_N)
    let t_cgc = store.at(&thread).partition_dst(&gc); // (CPY, CPY_M, CPY_N)
    k.copy_in_bounds(&store, &t_crc.retile(&store), &t_cgc);
    Ok(k.finish()?)
}
// ANCHOR_END: stage_end

/// Runs the kernel of `sgemm_sm80.cu`.
fn pipelined() -> Result<(), Box<dyn Error>> {
    println!("\n== pipelined ==");
    // ANCHOR: pipelined
    let built = sgemm_sm80()?;
    println!("{} passes lost to bank conflicts", check(&built)?);
    println!("{} bytes of shared memory", built.dynamic_shared());
    // ANCHOR_END: pipelined
    Ok(())
}

/// Prints the TV layouts of a tiled copy and of a tiled multiplication.
fn tv_layout() -> Result<(), Box<dyn Error>> {
    println!("\n== tv_layout ==");
    // ANCHOR: tv_layout
    let word = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let copy = TiledCopy::new(word, 32, &layout!((4,8):(8,1)), &layout!((1,2):(0,1)))?;
    println!("{:#}  of the tile {:#}", copy.tv(), copy.tiler());

    let mma = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let mma = TiledMma::new(mma, &layout!((2,2,1):(1,2,0)), (32, 32, 16))?;
    println!("{:#}", mma.tv(Operand::C)?);
    // ANCHOR_END: tv_layout
    Ok(())
}
