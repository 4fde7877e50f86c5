//! A kernel, its launch on the simulator, and a change that the simulator refuses.
//!
//! Run it with `cargo run -p colex-book --example run`; each line `== .. ==` names a piece of the chapter.

use colex_atom::Arch;
use colex_gpu::ir::{Access, Compare, Kernel, KernelBuilder, Space, Special, Type};
use colex_gpu::{Device, Launch};

fn main() -> Result<(), colex_gpu::Error> {
    launched()?;
    changed()?;
    Ok(())
}

// ANCHOR: kernel
/// y = a x + y, one element per thread.
fn axpy(target: Arch, compare: Compare) -> Kernel {
    let mut k = KernelBuilder::new("axpy", target);
    // The parameters: two pointers and two numbers.
    let (x, y) = (k.pointer("x"), k.pointer("y"));
    let (a, n) = (k.scalar("a", Type::F32), k.scalar("n", Type::U32));
    let (x, y, a, n) = (k.param(x), k.param(y), k.param(a), k.param(n));

    // i = blockIdx.x * blockDim.x + threadIdx.x
    let block = k.mov(Type::U32, Special::Ctaid(0));
    let threads = k.mov(Type::U32, Special::NTid(0));
    let thread = k.mov(Type::U32, Special::Tid(0));
    let i = k.mad(Type::U32, block, threads, thread);

    let inside = k.setp(compare, Type::U32, i, n); // with Compare::Lt: i < n
    k.if_(inside, |k| {
        let offset = k.mul_wide(Type::U32, i, 4); // 4 * i bytes, in 64 bits
        let (x, y) = (k.add(Type::S64, x, offset), k.add(Type::S64, y, offset));
        let access = Access::new(Space::Global, Type::F32);
        let (x_i, y_i) = (k.load(access, x), k.load(access, y));
        let sum = k.mad(Type::F32, a, x_i, y_i);
        k.store(access, y, sum);
    });
    k.finish()
}
// ANCHOR_END: kernel

/// Runs the kernel on 27 elements.
fn launched() -> Result<(), colex_gpu::Error> {
    println!("\n== launched ==");
    // ANCHOR: launched
    let device = Device::simulator(Arch::Sm80);
    let kernel = device.load(&axpy(device.arch(), Compare::Lt))?;

    let x = device.upload(&(0..27).map(|i| i as f32).collect::<Vec<_>>())?;
    let y = device.upload(&[1f32; 27])?;
    let arguments = [(&x).into(), (&y).into(), 2f32.into(), 27u32.into()];
    device.launch(&kernel, Launch::new(4, 8), &arguments)?; // 4 blocks of 8 threads
    println!("{:?}", &y.download()?[..8]);
    // ANCHOR_END: launched
    Ok(())
}

/// Runs the kernel with a comparison that lets one thread too many through.
fn changed() -> Result<(), colex_gpu::Error> {
    println!("\n== changed ==");
    // ANCHOR: changed
    let device = Device::simulator(Arch::Sm80);
    let kernel = device.load(&axpy(device.arch(), Compare::Le))?; // i <= n

    let (x, y) = (device.upload(&[1f32; 27])?, device.upload(&[1f32; 27])?);
    let arguments = [(&x).into(), (&y).into(), 2f32.into(), 27u32.into()];
    match device.launch(&kernel, Launch::new(4, 8), &arguments) {
        Ok(()) => println!("it ran"),
        Err(error) => println!("{error}"),
    }
    // ANCHOR_END: changed
    Ok(())
}
