//! What a kernel from tensors is checked for: alignments at launch, and the grid.
//!
//! Run it with `cargo run -p colex-book --example kernel_checks`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::tensor::{Arg, AtThread, Builder, RawMemory};
use colex_gpu::{Device, Load};
use colex_layout::Layout;
use colex_tiled::TiledCopy;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    two_partitions()?;
    at_launch()?;
    grid()?;
    undecided()?;
    exercise_1()?;
    exercise_2()?;
    Ok(())
}

/// Stores registers by the partition of another operation than the one that filled them.
fn two_partitions() -> Result<(), Box<dyn Error>> {
    println!("\n== two_partitions ==");
    // ANCHOR: two_partitions
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let [from, to] = ["from", "to"].map(|name| k.tensor(name, Ty::F32, "(_4,_8):(_8,_1)"));
    let thread = k.thread();
    let word = || colex_atom::copy("UniversalCopy<uint32_t>");
    let load = TiledCopy::new(word()?, 32, "(4,8):(8,1)", "(1,1):(0,0)")?;
    let store = TiledCopy::new(word()?, 32, "(4,8):(1,4)", "(1,1):(0,0)")?;
    let source = load.at(&thread).partition_src(&from); // (CPY, CPY_M, CPY_N)
    let held = k.fragment_like(&source);
    k.copy(&load, &source, &held);
    let target = store.at(&thread).partition_dst(&to); // (CPY, CPY_M, CPY_N)
    k.copy(&store, &held, &target);
    println!("{}", k.finish().map(|_| ()).unwrap_err());
    // ANCHOR_END: two_partitions
    Ok(())
}

/// Shows what a launch asks of strides and addresses.
fn at_launch() -> Result<(), Box<dyn Error>> {
    println!("\n== at_launch ==");
    // ANCHOR: at_launch
    let mut k = Builder::new("k", Arch::Sm80, 128);
    let a = k.tensor("a", Ty::F16, "(1024,1024):(1024,_1)");
    let (thread, m) = (k.thread(), k.block_index(0));
    let shared = k.shared_tensor(Ty::F16, "(16,64):(64,1)");
    let load = colex_atom::copy("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>")?;
    let load = TiledCopy::new(load, 16, "(16,8):(8,1)", "(1,8):(0,1)")?;
    let tile = a.local_tile((16, 64), (m, 0)); // (BLK_M, BLK_K)
    let mine = load.at(&thread);
    let from = mine.partition_src(&tile); // (CPY, CPY_M, CPY_K)
    let to = mine.partition_dst(&shared); // (CPY, CPY_M, CPY_K)
    k.copy_in_bounds(&load, &from, &to);
    let built = k.finish()?;

    let memory = |address| RawMemory {
        address,
        bytes: 104 * 100 * 2,
        ty: Ty::F16,
    };
    let packed: Layout = "(100,100):(100,_1)".parse()?;
    println!(
        "{}",
        built
            .arguments(&[Arg::raw(memory(0x1000), &packed)])
            .unwrap_err()
    );
    let padded: Layout = "(100,100):(104,_1)".parse()?;
    println!(
        "{}",
        built
            .arguments(&[Arg::raw(memory(0x1008), &padded)])
            .unwrap_err()
    );
    assert!(
        built
            .arguments(&[Arg::raw(memory(0x1000), &padded)])
            .is_ok()
    );
    // ANCHOR_END: at_launch
    Ok(())
}

/// Shows a grid that is too large for a tensor.
fn grid() -> Result<(), Box<dyn Error>> {
    println!("\n== grid ==");
    // ANCHOR: grid
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let a = k.tensor("a", Ty::F32, "(64,64):(64,_1)");
    let (thread, n) = (k.thread(), k.block_index(0));
    let load = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let load = TiledCopy::new(load, 32, "(4,8):(8,1)", "(1,1):(0,0)")?;
    let tile = a.local_tile((4, 8), (0, n)); // (BLK_M, BLK_N)
    let from = load.at(&thread).partition_src(&tile); // (CPY, CPY_M, CPY_N)
    let held = k.fragment_like(&from);
    k.copy(&load, &from, &held);
    let built = k.finish()?;

    let device = Device::simulator(Arch::Sm80);
    let data = device.zeros::<f32>(128)?;
    let kernel = built.load(&device)?;
    kernel.launch([2], (data.view((8, 16))?,))?;
    let refused = kernel
        .launch([3], (data.view((8, 16))?,))
        .unwrap_err()
        .to_string();
    println!("{refused}");
    // ANCHOR_END: grid
    Ok(())
}

/// Shows an access that no launch decides: its tile is a variable of the kernel.
fn undecided() -> Result<(), Box<dyn Error>> {
    println!("\n== undecided ==");
    // ANCHOR: undecided
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let a = k.tensor("a", Ty::F32, "(64,64):(64,_1)");
    let (thread, first) = (k.thread(), k.block_index(0));
    let next = k.var(first, 0..8); // a kernel may set it to another tile
    let n = k.get(&next);
    let load = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let load = TiledCopy::new(load, 32, "(4,8):(8,1)", "(1,1):(0,0)")?;
    let tile = a.local_tile((4, 8), (0, n)); // (BLK_M, BLK_N)
    let from = load.at(&thread).partition_src(&tile); // (CPY, CPY_M, CPY_N)
    let held = k.fragment_like(&from);
    k.copy(&load, &from, &held);
    let built = k.finish()?;
    println!("a trap: {}", built.kernel.ptx()?.contains("trap;"));

    let device = Device::simulator(Arch::Sm80);
    let data = device.zeros::<f32>(128)?;
    let kernel = built.load(&device)?;
    kernel.launch([2], (data.view((8, 16))?,))?;
    let fault = kernel
        .launch([3], (data.view((8, 16))?,))
        .unwrap_err()
        .to_string();
    println!("{fault}");
    // ANCHOR_END: undecided
    Ok(())
}

/// The kernel of `grid` for three blocks on 20 columns, with `copy` and with `copy_in_bounds`.
fn exercise_1() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_1 ==");
    // ANCHOR: exercise_1
    for in_bounds in [false, true] {
        let mut k = Builder::new("k", Arch::Sm80, 32);
        let a = k.tensor("a", Ty::F32, "(64,64):(64,_1)");
        let (thread, n) = (k.thread(), k.block_index(0));
        let load = colex_atom::copy("UniversalCopy<uint32_t>")?;
        let load = TiledCopy::new(load, 32, "(4,8):(8,1)", "(1,1):(0,0)")?;
        let tile = a.local_tile((4, 8), (0, n)); // (BLK_M, BLK_N)
        let from = load.at(&thread).partition_src(&tile); // (CPY, CPY_M, CPY_N)
        let held = k.fragment_like(&from);
        if in_bounds {
            k.copy_in_bounds(&load, &from, &held);
        } else {
            k.copy(&load, &from, &held);
        }
        let device = Device::simulator(Arch::Sm80);
        let data = device.zeros::<f32>(160)?;
        let launched = k
            .finish()?
            .load(&device)?
            .launch([3], (data.view((8, 20))?,));
        match launched {
            Ok(()) => println!("accepted"),
            Err(error) => println!("{error}"),
        }
    }
    // ANCHOR_END: exercise_1
    Ok(())
}

/// Exchanges the halves of a tile, by the threads that loaded them and by others.
fn exercise_2() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_2 ==");
    // ANCHOR: exercise_2
    for threads in ["(4,8):(8,1)", "(4,8):(1,4)"] {
        let mut k = Builder::new("k", Arch::Sm80, 32);
        let [x, y] = ["x", "y"].map(|name| k.tensor(name, Ty::F32, "(_4,_16):(_16,_1)"));
        let thread = k.thread();
        let word = || colex_atom::copy("UniversalCopy<uint32_t>");
        let load = TiledCopy::new(word()?, 32, "(4,8):(8,1)", "(1,1):(0,0)")?;
        let store = TiledCopy::new(word()?, 32, threads, "(1,1):(0,0)")?;
        let from = load.at(&thread).partition_src(&x); // (CPY, CPY_M, CPY_N)
        let into = store.at(&thread).partition_dst(&y); // (CPY, CPY_M, CPY_N)
        let held = k.fragment_like(&from);
        k.copy(&load, &from, &held);
        for (half, place) in [(0, 1), (1, 0)] {
            k.copy(
                &store,
                &held.slice((.., .., half)),
                &into.slice((.., .., place)),
            );
        }
        match k.finish() {
            Ok(_) => println!("{threads}: accepted"),
            Err(error) => println!("{threads}: {error}"),
        }
    }
    // ANCHOR_END: exercise_2
    Ok(())
}
