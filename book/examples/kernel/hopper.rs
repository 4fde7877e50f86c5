//! The first Hopper GEMM: a producer and a consumer.
//!
//! Run it with `cargo run -p colex-book --example kernel_hopper`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::kernels::GemmProblem;
use colex_gpu::kernels::gemm::GemmMethod;
use colex_gpu::tensor::{AtThread, Builder, TensorKernel};
use colex_gpu::{Device, Load};
use colex_layout::{ComposedLayout, Layout};
use colex_tiled::{Operand, TiledCopy, TiledMma};
use half::f16;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    ring()?;
    after()?;
    exercise_1()?;
    exercise_2()?;
    exercise_3()?;
    Ok(())
}

// ANCHOR: arguments
/// A stage: two slabs of 64 by 64 halves.
const STAGE_BYTES: i64 = 2 * 64 * 64 * 2;

/// C = A B^T by one producer warp and one consumer.
pub fn product() -> Result<TensorKernel, Box<dyn Error>> {
    let mut k = Builder::new("ring", Arch::Sm90a, 256);
    // Three stages. One arrival of the producer fills a stage, one of the consumer empties it.
    let ring = k.pipeline(3, 1, 1);
    let slab: ComposedLayout = "Sw<3,3,3> o 0 o (64,64):(64,1)".parse()?;
    let stages: ComposedLayout = "Sw<3,3,3> o 0 o (64,64,3):(64,1,4096)".parse()?;
    let sa = k.shared_tensor(Ty::F16, stages.clone());
    let sb = k.shared_tensor(Ty::F16, stages);
    let matrix: Layout = "(1024,1024):(1024,_1)".parse()?;
    // Boxes of 64 by 64, which land under the layout `slab`, each for one block of the cluster.
    let a = k.tma_tensor("a", Ty::F16, &matrix, [64, 64], &slab, 1);
    let b = k.tma_tensor("b", Ty::F16, &matrix, [64, 64], &slab, 1);
    let c = k.tensor("c", Ty::F32, &matrix);
    let steps = k.index_argument("steps", 1..1 << 20);
    let (thread, m, n) = (k.thread(), k.block_index(0), k.block_index(1));
    let (group, warp) = (k.uniform(128), k.uniform(32));
    k.start_pipelines(&[&ring], false); // a barrier of the block: there is no cluster
    // ANCHOR_END: arguments

    // ANCHOR: operations
    let mma = colex_atom::mma("SM90_64x64x16_F32F16F16_SS")?;
    let mma = TiledMma::new(mma, "1:0", (.., .., ..))?;
    let store = colex_atom::copy("UniversalCopy<uint64_t>")?;
    let store = TiledCopy::for_operand(store, 32, &mma, Operand::C)?;
    // ANCHOR_END: operations
    // ANCHOR: consumer
    let consumes = k.equal(&group, &0.into());
    k.if_else(
        consumes,
        |k| {
            let thread = k.within(thread, 0..128);
            // The last argument is the first thread of the warpgroup.
            let da = k.gmma_operand(&mma, Operand::A, &sa, &0.into()); // (MMA_M, MMA_K, STAGE)
            let db = k.gmma_operand(&mma, Operand::B, &sb, &0.into()); // (MMA_N, MMA_K, STAGE)
            let sums = k.fragment_of(&mma, Operand::C, [64, 64]); // (MMA, MMA_M, MMA_N)
            let consumer = k.consumer(&ring, &thread);
            k.for_(0, &steps, 1, |k, step| {
                let stage = consumer.wait(k);
                let adds = k.less(&0.into(), step);
                k.wgmma_fence();
                k.wgmma_tile(&mma, &sums, &da.at(&stage), &db.at(&stage), adds);
                k.wgmma_commit();
                k.wgmma_wait(0);
                consumer.release(k, &stage);
            });
            // ANCHOR_END: consumer
            // ANCHOR: epilogue
            let tile = c.local_tile((64, 64), (&m, &n)); // (BLK_M, BLK_N)
            let to = store.at(&thread).partition_dst(&tile); // (CPY, CPY_M, CPY_N)
            k.copy_in_bounds(&store, &sums.retile(&store), &to);
        },
        // ANCHOR_END: epilogue
        // ANCHOR: producer
        |k| {
            let first = k.equal(&warp, &4.into());
            k.if_(first, |k| {
                let one = k.elected();
                k.if_(one, |k| {
                    let producer = k.tma_producer(&ring, STAGE_BYTES);
                    k.for_(0, &steps, 1, |k, step| {
                        let stage = producer.acquire(k);
                        let full = stage.barrier();
                        k.tma_load(&a, (&m, step), &sa.at(2, &stage), &full);
                        k.tma_load(&b, (&n, step), &sb.at(2, &stage), &full);
                        producer.commit(k, &stage);
                    });
                });
            });
        },
    );
    Ok(k.finish()?)
}
// ANCHOR_END: producer

// ANCHOR: check
/// 100 by 70 by 264 on the simulator, compared with the host.
fn check(built: &TensorKernel) -> Result<(), Box<dyn Error>> {
    let device = Device::simulator(Arch::Sm90a);
    let number = |i: usize| f16::from_f32((i * 7 % 11) as f32 / 4.0 - 1.0);
    let a: Vec<f16> = (0..100 * 264).map(number).collect();
    let b: Vec<f16> = (3..70 * 264 + 3).map(number).collect();
    let (on_a, on_b) = (device.upload(&a)?, device.upload(&b)?);
    let mut on_c = device.poisoned::<f32>(100 * 70)?;
    let (view_a, view_b) = (on_a.view((100, 264))?, on_b.view((70, 264))?);
    let view_c = on_c.view_mut((100, 70))?;
    built
        .load(&device)?
        .launch([2, 2], (view_a, view_b, view_c, 5_u32))?;
    for (i, found) in on_c.download()?.into_iter().enumerate() {
        let product = |l| f32::from(a[i / 70 * 264 + l]) * f32::from(b[i % 70 * 264 + l]);
        assert_eq!(found, (0..264).map(product).sum::<f32>(), "element {i}");
    }
    Ok(())
}
// ANCHOR_END: check

/// Multiplies with one producer warp and one consumer.
fn ring() -> Result<(), Box<dyn Error>> {
    // ANCHOR: ring
    check(&product()?)?;
    // ANCHOR_END: ring
    Ok(())
}

/// Compares the instructions of two kernels.
fn after() -> Result<(), Box<dyn Error>> {
    println!("\n== after ==");
    // ANCHOR: after
    let device = Device::simulator(Arch::Sm90a);
    let problem = GemmProblem::new(256, 256, 256);
    let (a, b) = (
        device.zeros::<f16>(256 * 256)?,
        device.zeros::<f16>(256 * 256)?,
    );
    let mut c = device.poisoned::<f16>(256 * 256)?;
    let gemm = problem.on(&a, &b, &mut c)?;
    let count = |method| -> Result<u64, colex_gpu::Error> {
        Ok(gemm.clone().method(method).prepare()?.profile(&device)?[0].instructions)
    };
    let (ampere, hopper) = (count(GemmMethod::Ampere)?, count(GemmMethod::Hopper)?);
    println!("Ampere: {ampere} instructions, Hopper: {hopper}");
    // ANCHOR_END: after
    Ok(())
}

// ANCHOR: by_hand
/// The same kernel, whose producer itself announces `bytes` per stage.
/// With or without the fence of the consumer.
fn by_hand(bytes: i64, fences: bool) -> Result<TensorKernel, Box<dyn Error>> {
    let mut k = Builder::new("ring", Arch::Sm90a, 256);
    let ring = k.pipeline(3, 2, 1); // two arrivals fill a stage: commit and announcement
    let slab: ComposedLayout = "Sw<3,3,3> o 0 o (64,64):(64,1)".parse()?;
    let stages: ComposedLayout = "Sw<3,3,3> o 0 o (64,64,3):(64,1,4096)".parse()?;
    let (sa, sb) = (
        k.shared_tensor(Ty::F16, stages.clone()),
        k.shared_tensor(Ty::F16, stages),
    );
    let matrix: Layout = "(1024,1024):(1024,_1)".parse()?;
    let a = k.tma_tensor("a", Ty::F16, &matrix, [64, 64], &slab, 1);
    let b = k.tma_tensor("b", Ty::F16, &matrix, [64, 64], &slab, 1);
    let c = k.tensor("c", Ty::F32, &matrix);
    let steps = k.index_argument("steps", 1..1 << 20);
    let (thread, m, n) = (k.thread(), k.block_index(0), k.block_index(1));
    let (group, warp) = (k.uniform(128), k.uniform(32));
    k.start_pipelines(&[&ring], false);
    let mma = colex_atom::mma("SM90_64x64x16_F32F16F16_SS")?;
    let mma = TiledMma::new(mma, "1:0", (.., .., ..))?;
    let store = colex_atom::copy("UniversalCopy<uint64_t>")?;
    let store = TiledCopy::for_operand(store, 32, &mma, Operand::C)?;
    // ANCHOR_END: by_hand
    // ANCHOR: by_hand_sides
    let (consumes, first) = (k.equal(&group, &0.into()), k.equal(&warp, &4.into()));
    k.if_(consumes, |k| {
        let thread = k.within(thread, 0..128);
        let da = k.gmma_operand(&mma, Operand::A, &sa, &0.into()); // (MMA_M, MMA_K, STAGE)
        let db = k.gmma_operand(&mma, Operand::B, &sb, &0.into()); // (MMA_N, MMA_K, STAGE)
        let sums = k.accumulators(&mma, [64, 64]); // (MMA, MMA_M, MMA_N)
        let consumer = k.consumer(&ring, &thread);
        k.for_(0, &steps, 1, |k, step| {
            let stage = consumer.wait(k);
            let adds = k.less(&(-1).into(), step); // always: the sums begin with zeros
            if fences {
                k.wgmma_fence();
            }
            k.wgmma_tile(&mma, &sums, &da.at(&stage), &db.at(&stage), adds);
            k.wgmma_commit();
            k.wgmma_wait(0);
            consumer.release(k, &stage);
        });
        let tile = c.local_tile((64, 64), (&m, &n)); // (BLK_M, BLK_N)
        let to = store.at(&thread).partition_dst(&tile); // (CPY, CPY_M, CPY_N)
        k.copy_in_bounds(&store, &sums.retile(&store), &to);
    });
    k.if_(first, |k| {
        let one = k.elected();
        k.if_(one, |k| {
            let producer = k.producer(&ring);
            k.for_(0, &steps, 1, |k, step| {
                let stage = producer.acquire(k);
                let full = stage.barrier();
                let address = k.address(&full, false);
                k.emit(|k| k.mbarrier_arrive_expect(address, bytes));
                k.tma_load(&a, (&m, step), &sa.at(2, &stage), &full);
                k.tma_load(&b, (&n, step), &sb.at(2, &stage), &full);
                producer.commit(k, &stage);
            });
        });
    });
    Ok(k.finish()?)
}
// ANCHOR_END: by_hand_sides

/// Exercise 1: the bytes of one slab are announced, and two are copied.
fn exercise_1() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_1 ==");
    // ANCHOR: exercise_1
    let fault = check(&by_hand(STAGE_BYTES / 2, true)?).unwrap_err();
    println!("{fault}");
    // ANCHOR_END: exercise_1
    Ok(())
}

/// Exercise 2: 16 bytes too many are announced.
fn exercise_2() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_2 ==");
    // ANCHOR: exercise_2
    let fault = check(&by_hand(STAGE_BYTES + 16, true)?).unwrap_err();
    println!("{fault}");
    // ANCHOR_END: exercise_2
    Ok(())
}

/// Exercise 3: the fence before the products is left out.
fn exercise_3() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_3 ==");
    // ANCHOR: exercise_3
    match by_hand(STAGE_BYTES, false).and_then(|built| check(&built)) {
        Ok(()) => println!("nothing"),
        Err(refused) => println!("{refused}"),
    }
    // ANCHOR_END: exercise_3
    Ok(())
}
