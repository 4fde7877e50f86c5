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
    at_launch()?;
    grid()?;
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
    let today: Layout = "(100,100):(100,_1)".parse()?;
    println!(
        "{}",
        built
            .arguments(&[Arg::raw(memory(0x1000), &today)])
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
