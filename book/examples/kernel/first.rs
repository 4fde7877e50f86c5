//! The first kernel: y = a x + y, written, printed, launched, and launched with mistakes.
//!
//! Run it with `cargo run -p colex-book --example kernel_first`; each line `== .. ==` names a piece of the chapter.
//! What depends on the machine goes to standard error.

use std::error::Error;

use colex_atom::Arch;
use colex_gpu::ir::{Access, Compare, Kernel, KernelBuilder, Space, Special, Type};
use colex_gpu::{Argument, Device, Launch};

fn main() -> Result<(), Box<dyn Error>> {
    text();
    ptx()?;
    launched()?;
    no_gpu();
    wrong_launch()?;
    same_bits()?;
    too_far()?;
    exercise_1()?;
    exercise_2()?;
    exercise_3()?;
    Ok(())
}

// ANCHOR: axpy
/// y = a x + y, one element per thread.
fn axpy(target: Arch) -> Kernel {
    let mut k = KernelBuilder::new("axpy", target);
    let (x, y) = (k.pointer("x"), k.pointer("y"));
    let (a, n) = (k.scalar("a", Type::F32), k.scalar("n", Type::U32));
    let (x, y, a, n) = (k.param(x), k.param(y), k.param(a), k.param(n));
    let block = k.mov(Type::U32, Special::Ctaid(0));
    let threads = k.mov(Type::U32, Special::NTid(0));
    let thread = k.mov(Type::U32, Special::Tid(0));
    let i = k.mad(Type::U32, block, threads, thread);
    let inside = k.setp(Compare::Lt, Type::U32, i, n);
    k.if_(inside, |k| {
        let offset = k.mul_wide(Type::U32, i, 4);
        let (x, y) = (k.add(Type::S64, x, offset), k.add(Type::S64, y, offset));
        let access = Access::new(Space::Global, Type::F32);
        let (x_i, y_i) = (k.load(access, x), k.load(access, y));
        let sum = k.mad(Type::F32, a, x_i, y_i);
        k.store(access, y, sum);
    });
    k.finish()
}
// ANCHOR_END: axpy

/// Prints the kernel as text.
fn text() {
    println!("\n== text ==");
    // ANCHOR: text
    print!("{}", axpy(Arch::Sm70));
    // ANCHOR_END: text
}

/// Prints the kernel as PTX.
fn ptx() -> Result<(), Box<dyn Error>> {
    println!("\n== ptx ==");
    // ANCHOR: ptx
    print!("{}", axpy(Arch::Sm70).ptx()?);
    // ANCHOR_END: ptx
    Ok(())
}

/// Launches the kernel on the first GPU, or on the simulator.
fn launched() -> Result<(), Box<dyn Error>> {
    // ANCHOR: launched
    let device = Device::open();
    let kernel = device.load(&axpy(device.arch()))?;

    let x = device.upload(&(0..27).map(|i| i as f32).collect::<Vec<_>>())?;
    let y = device.upload(&[1f32; 27])?;
    let arguments = [(&x).into(), (&y).into(), 2f32.into(), 27u32.into()];
    device.launch(&kernel, Launch::new(4, 8), &arguments)?;

    let result = y.download()?;
    assert!(
        result
            .iter()
            .enumerate()
            .all(|(i, &y)| y == (2 * i + 1) as f32)
    );
    assert_eq!(result[26], 53.0);
    // ANCHOR_END: launched
    Ok(())
}

/// Says which GPU there is, or why there is none.
fn no_gpu() {
    // ANCHOR: no_gpu
    assert_eq!(Device::open().is_simulator(), Device::gpu(0).is_err());
    match Device::gpu(0) {
        Ok(device) => eprintln!("{}, {}", device.name(), device.arch()),
        // On a machine without one: "no NVIDIA driver was found (libcuda.so or nvcuda.dll)".
        Err(why) => assert!(why.is_no_gpu(), "{why}"),
    }
    // ANCHOR_END: no_gpu
}

/// Shows what a launch with wrong arguments is told.
fn wrong_launch() -> Result<(), Box<dyn Error>> {
    println!("\n== wrong_launch ==");
    // ANCHOR: wrong_launch
    let device = Device::open();
    let kernel = device.load(&axpy(device.arch()))?;
    let x = device.zeros::<f32>(27)?;
    let vectors = [Argument::from(&x), Argument::from(&x)];
    let said = |launch: Launch, numbers: &[Argument]| {
        let arguments = [&vectors, numbers].concat();
        kernel
            .check_launch(&launch, &arguments)
            .unwrap_err()
            .to_string()
    };

    let launch = Launch::new(4, 8);
    println!("{}", said(launch, &[2f32.into()]));
    println!("{}", said(launch, &[2.0.into(), 27u32.into()]));
    println!("{}", said(launch, &[2f32.into(), 27i64.into()]));
    println!(
        "{}",
        said(Launch::new(1, 2048), &[2f32.into(), 27u32.into()])
    );
    // ANCHOR_END: wrong_launch
    Ok(())
}

/// Compares the result with that of the host, bit by bit.
fn same_bits() -> Result<(), Box<dyn Error>> {
    // ANCHOR: same_bits
    let device = Device::open();
    let kernel = device.load(&axpy(device.arch()))?;
    let a = 0.1f32;
    for n in [1u32, 7, 8, 9, 255, 256, 257, 1000] {
        let xs: Vec<f32> = (0..n).map(|i| 1.0 / (i + 1) as f32).collect();
        let ys: Vec<f32> = (0..n).map(|i| (i as f32).sqrt()).collect();
        let (x, y) = (device.upload(&xs)?, device.upload(&ys)?);
        let arguments = [(&x).into(), (&y).into(), a.into(), n.into()];
        device.launch(&kernel, Launch::new(n.div_ceil(256), 256), &arguments)?;
        for ((&x, &before), after) in xs.iter().zip(&ys).zip(y.download()?) {
            assert_eq!(after.to_bits(), a.mul_add(x, before).to_bits());
        }
    }
    // ANCHOR_END: same_bits
    Ok(())
}

/// The same with `Le` for `Lt`: one thread goes on beyond the end.
fn axpy_too_far(target: Arch) -> Kernel {
    let mut k = KernelBuilder::new("axpy", target);
    let (x, y) = (k.pointer("x"), k.pointer("y"));
    let (a, n) = (k.scalar("a", Type::F32), k.scalar("n", Type::U32));
    let (x, y, a, n) = (k.param(x), k.param(y), k.param(a), k.param(n));
    let block = k.mov(Type::U32, Special::Ctaid(0));
    let threads = k.mov(Type::U32, Special::NTid(0));
    let thread = k.mov(Type::U32, Special::Tid(0));
    let i = k.mad(Type::U32, block, threads, thread);
    let inside = k.setp(Compare::Le, Type::U32, i, n);
    k.if_(inside, |k| {
        let offset = k.mul_wide(Type::U32, i, 4);
        let (x, y) = (k.add(Type::S64, x, offset), k.add(Type::S64, y, offset));
        let access = Access::new(Space::Global, Type::F32);
        let (x_i, y_i) = (k.load(access, x), k.load(access, y));
        let sum = k.mad(Type::F32, a, x_i, y_i);
        k.store(access, y, sum);
    });
    k.finish()
}

/// Shows what the simulator says of the kernel that goes too far.
fn too_far() -> Result<(), Box<dyn Error>> {
    println!("\n== too_far ==");
    // ANCHOR: too_far
    let device = Device::simulator(Arch::Sm80);
    let kernel = device.load(&axpy_too_far(device.arch()))?;

    let (x, y) = (device.zeros::<f32>(27)?, device.zeros::<f32>(27)?);
    let arguments = [(&x).into(), (&y).into(), 2f32.into(), 27u32.into()];
    let error = device
        .launch(&kernel, Launch::new(4, 8), &arguments)
        .unwrap_err();
    let fault = error.fault().expect("the simulator names the mistake");
    println!("{:?}: {}", fault.kind(), fault.what());
    println!("{}", fault.place().expect("an instruction did it"));
    // ANCHOR_END: too_far
    Ok(())
}

/// Exercise 1: a fixed grid does any number of elements.
fn exercise_1() -> Result<(), Box<dyn Error>> {
    // ANCHOR: exercise_1
    let device = Device::open();
    let mut k = KernelBuilder::new("axpy_loop", device.arch());
    let (x, y) = (k.pointer("x"), k.pointer("y"));
    let (a, n) = (k.scalar("a", Type::F32), k.scalar("n", Type::U32));
    let (x, y, a, n) = (k.param(x), k.param(y), k.param(a), k.param(n));
    let (block, thread) = (
        k.mov(Type::U32, Special::Ctaid(0)),
        k.mov(Type::U32, Special::Tid(0)),
    );
    let (blocks, threads) = (
        k.mov(Type::U32, Special::NCtaid(0)),
        k.mov(Type::U32, Special::NTid(0)),
    );
    let first = k.mad(Type::U32, block, threads, thread);
    let all = k.mul(Type::U32, blocks, threads);
    k.for_range(first, n, all, |k, i| {
        let offset = k.mul_wide(Type::U32, i, 4);
        let (x, y) = (k.add(Type::S64, x, offset), k.add(Type::S64, y, offset));
        let access = Access::new(Space::Global, Type::F32);
        let (x_i, y_i) = (k.load(access, x), k.load(access, y));
        let sum = k.mad(Type::F32, a, x_i, y_i);
        k.store(access, y, sum);
    });
    let kernel = k.finish();
    assert!(kernel.ptx()?.contains("    bra $loop0;\n"));

    let kernel = device.load(&kernel)?;
    let (x, y) = (device.upload(&[1f32; 1000])?, device.zeros::<f32>(1000)?);
    let arguments = [(&x).into(), (&y).into(), 3f32.into(), 1000u32.into()];
    device.launch(&kernel, Launch::new(2, 64), &arguments)?;
    assert_eq!(y.download()?, [3.0; 1000]);
    // ANCHOR_END: exercise_1
    Ok(())
}

/// Exercise 2: a kernel for blocks of 256 threads only.
fn exercise_2() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_2 ==");
    // ANCHOR: exercise_2
    let device = Device::open();
    let mut k = KernelBuilder::new("nothing", device.arch());
    k.block([256, 1, 1]);
    let kernel = device.load(&k.finish())?;
    println!(
        "{}",
        kernel.check_launch(&Launch::new(4, 8), &[]).unwrap_err()
    );
    // ANCHOR_END: exercise_2
    Ok(())
}

/// Exercise 3: the buffers are longer than the vectors.
fn exercise_3() -> Result<(), Box<dyn Error>> {
    // ANCHOR: exercise_3
    let device = Device::open();
    let untouched = |kernel: Kernel| -> Result<bool, Box<dyn Error>> {
        let kernel = device.load(&kernel)?;
        let (x, y) = (device.upload(&[1f32; 32])?, device.upload(&[7f32; 32])?);
        let arguments = [(&x).into(), (&y).into(), 2f32.into(), 27u32.into()];
        device.launch(&kernel, Launch::new(4, 8), &arguments)?;
        Ok(y.slice(27..)?.download()? == [7.0; 5])
    };
    assert!(untouched(axpy(device.arch()))?);
    assert!(!untouched(axpy_too_far(device.arch()))?);
    // ANCHOR_END: exercise_3
    Ok(())
}
