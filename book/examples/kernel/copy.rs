//! Copy: one run of elements, widths from the algebra, and the library's call.
//!
//! Run it with `cargo run -p colex-book --example kernel_copy`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::kernels::{CopyCall, CopyMethod, LoopNest};
use colex_gpu::tensor::{self, AtThread, Builder, TensorKernel};
use colex_gpu::{Device, Load, ViewMut, copy};
use colex_layout::Layout;
use colex_tiled::TiledCopy;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    before()?;
    common_vector()?;
    loops()?;
    library()?;
    engine()?;
    refusals();
    exercise_1()?;
    exercise_2()?;
    Ok(())
}

// ANCHOR: before
/// A copy of one run of elements: `vector` of them a thread.
pub(crate) fn kernel(vector: i64) -> Result<TensorKernel, tensor::Error> {
    let mut k = Builder::new("copy", Arch::Sm80, 128);
    // How long the run is, the launch says; that elements are neighbours is known now.
    let (from, to) = (
        k.tensor("from", Ty::F32, "1:_1"),
        k.tensor("to", Ty::F32, "1:_1"),
    );
    let atom = colex_atom::copy(&format!("UniversalCopy<uint{}_t>", 32 * vector))?;
    let tiled = TiledCopy::new(atom, 32, "128:1", &Layout::column_major(vector)?)?;
    let (thread, block) = (k.thread(), k.block_index(0));
    let block = k.within(block, 0..1 << 20);
    let tile = [128 * vector];
    let mine = tiled.at(&thread);
    let from = from.local_tile(tile, &block); // (BLK_M)
    let to = to.local_tile(tile, block); // (BLK_M)
    let src = mine.partition_src(&from); // (CPY, CPY_M)
    let dst = mine.partition_dst(&to); // (CPY, CPY_M)
    let regs = k.fragment_like(&src);
    k.copy_in_bounds(&tiled, &src, &regs);
    k.copy_in_bounds(&tiled, &regs, &dst);
    k.finish()
}
// ANCHOR_END: before

/// Copies by single elements and by vectors of four, and counts.
fn before() -> Result<(), Box<dyn Error>> {
    println!("\n== before ==");
    // ANCHOR: before
    let device = Device::simulator(Arch::Sm80);
    let data: Vec<f32> = (0..5000).map(|i| i as f32).collect();
    for vector in [1, 4] {
        let (from, mut to) = (device.upload(&data)?, device.poisoned::<f32>(5000)?);
        let kernel = kernel(vector)?.load(&device)?;
        let blocks = 5000_u32.div_ceil(128 * vector as u32);
        let report = kernel.profile([blocks], (from.view(5000)?, to.view_mut(5000)?))?;
        assert_eq!(to.download()?, data);
        let (touched, enough) = report.sectors();
        println!(
            "{} instructions, {touched} sectors of at least {enough}",
            report.instructions
        );
    }
    // ANCHOR_END: before
    Ok(())
}

/// Asks how many elements one access may take.
fn common_vector() -> Result<(), Box<dyn Error>> {
    // ANCHOR: common_vector
    let (from, to): (Layout, Layout) = ("(8,6):(1,8)".parse()?, "(8,6):(1,10)".parse()?);
    assert_eq!(from.max_common_vector(&to)?, 8);
    // Both walk the rows, in either order of their modes: all 48 are one run.
    let (from, to): (Layout, Layout) = ("(8,(3,2)):(6,(1,3))".parse()?, "(8,6):(6,1)".parse()?);
    assert_eq!(from.max_common_vector(&to)?, 48);
    // ANCHOR_END: common_vector
    Ok(())
}

/// Plans the fewest loops that do a copy.
fn loops() -> Result<(), Box<dyn Error>> {
    println!("\n== loops ==");
    // ANCHOR: loops
    let nest = LoopNest::new("(8,(3,2)):(6,(1,3))", "(8,6):(6,1)")?;
    println!("{nest}, vectors of {}", nest.vector()?);
    // Rows of 8 with gaps: two loops, vectors within a row.
    let nest = LoopNest::new("(6,8):(8,1)", "(6,8):(10,1)")?;
    println!("{nest}, vectors of {}", nest.vector()?);
    // 16 bytes of f32 would be 4, but the destination's rows begin at multiples of 2.
    assert_eq!(nest.aligned_vector(4, 16, [0, 0])?, 2);
    // ANCHOR_END: loops
    Ok(())
}

/// Copies by the library's call.
fn library() -> Result<(), Box<dyn Error>> {
    println!("\n== library ==");
    // ANCHOR: library
    let device = Device::open(); // a GPU if there is one
    let data: Vec<u16> = (0..4800).collect();
    let (from, mut to) = (device.upload(&data)?, device.poisoned::<u16>(6000)?);
    let rows = from.view((60, 80))?;
    let spread = ViewMut::new(&mut to, "(60,80):(96,1)")?;
    copy(&rows, &spread)?;
    let call = CopyCall::new(&rows, &spread, None)?;
    println!("{}", call.plan().unwrap());
    assert_eq!(to.slice(96..176)?.download()?, data[80..160]);
    // ANCHOR_END: library
    Ok(())
}

/// Copies by `cp.async.bulk`.
fn engine() -> Result<(), Box<dyn Error>> {
    // ANCHOR: engine
    let device = Device::simulator(Arch::Sm90a);
    let data: Vec<u32> = (0..10_000).collect();
    let (from, mut to) = (device.upload(&data)?, device.poisoned::<u32>(10_000)?);
    let (from, onto) = (from.view(10_000)?, to.view_mut(10_000)?);
    let copy = |method| CopyCall::new(&from, &onto, Some(method))?.profile(&device);
    let (bulk, flat) = (copy(CopyMethod::Bulk)?, copy(CopyMethod::Flat)?);
    assert_eq!(to.download()?, data);
    // Two whole chunks and a rest by vectors; and everything by vectors.
    assert_eq!((bulk.len(), bulk[0].blocks, flat.len()), (2, 2, 1));
    // ANCHOR_END: engine
    Ok(())
}

/// Shows copies that the plan refuses.
fn refusals() {
    println!("\n== refusals ==");
    // ANCHOR: refusals
    let refused = |from: &str, to: &str| LoopNest::new(from, to).unwrap_err().to_string();
    println!("{}", refused("(2,2):(1,2)", "(2,2):(1,1)"));
    println!("{}", refused("(6,4):(1,7)", "(8,3):(1,9)"));
    // ANCHOR_END: refusals
}

// ANCHOR: exercise_1
/// The same by vectors of four, without predicates.
fn broken() -> Result<TensorKernel, tensor::Error> {
    let mut k = Builder::new("copy", Arch::Sm80, 128);
    let (from, to) = (
        k.tensor("from", Ty::F32, "1:_1"),
        k.tensor("to", Ty::F32, "1:_1"),
    );
    let atom = colex_atom::copy("UniversalCopy<uint128_t>")?;
    let tiled = TiledCopy::new(atom, 32, "128:1", "4:1")?;
    let (thread, block) = (k.thread(), k.block_index(0));
    let block = k.within(block, 0..1 << 20);
    let mine = tiled.at(&thread);
    let from = from.local_tile(512, &block).stated_inside(); // (BLK_M)
    let to = to.local_tile(512, block).stated_inside(); // (BLK_M)
    let src = mine.partition_src(&from); // (CPY, CPY_M)
    let dst = mine.partition_dst(&to); // (CPY, CPY_M)
    let regs = k.fragment_like(&src);
    k.copy(&tiled, &src, &regs);
    k.copy(&tiled, &regs, &dst);
    k.finish()
}
// ANCHOR_END: exercise_1

/// Exercise 1: a copy without predicates.
fn exercise_1() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_1 ==");
    // ANCHOR: exercise_1
    let device = Device::simulator(Arch::Sm80);
    let (from, mut to) = (device.zeros::<f32>(5000)?, device.poisoned::<f32>(5000)?);
    let kernel = broken()?.load(&device)?;
    let refused = kernel
        .launch([10], (from.view(5000)?, to.view_mut(5000)?))
        .unwrap_err()
        .to_string();
    println!("{refused}");
    kernel.launch([9], (from.view(5000)?, to.view_mut(5000)?))?;
    // ANCHOR_END: exercise_1
    Ok(())
}

/// Exercise 2: vectors of two.
fn exercise_2() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_2 ==");
    // ANCHOR: exercise_2
    let device = Device::simulator(Arch::Sm80);
    let (from, mut to) = (device.zeros::<f32>(5000)?, device.poisoned::<f32>(5000)?);
    let pairs = kernel(2)?.load(&device)?;
    let report = pairs.profile([20], (from.view(5000)?, to.view_mut(5000)?))?;
    let (sectors, _) = report.sectors();
    println!("{} instructions, {sectors} sectors", report.instructions);
    // ANCHOR_END: exercise_2
    Ok(())
}
