//! Calling a product: views with any strides, and a program's own memory.
//!
//! Run it with `cargo run -p colex-book --example kernel_call`; each line `== .. ==` names a piece of the chapter.

use colex_atom::Arch;
use colex_gpu::cuda::cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use colex_gpu::kernels::GemmProblem;
use colex_gpu::{Device, Gemm, View};
use std::error::Error;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    any_strides()?;
    own_memory()?;
    exercise_1()?;
    exercise_2()?;
    Ok(())
}

/// Multiplies a view whose rows overlap.
fn any_strides() -> Result<(), Box<dyn Error>> {
    println!("\n== any_strides ==");
    // ANCHOR: any_strides
    let device = Device::simulator(Arch::Sm80);
    let signal: Vec<f32> = (0..10).map(|i| (i * i) as f32).collect();
    let (signal, taps) = (device.upload(&signal)?, device.upload(&[1f32, -2.0, 1.0])?);
    let mut out = device.poisoned::<f32>(8)?;

    // A convolution: row i of A is the window of three elements that begins at element i.
    // The rows overlap.
    let windows = View::new(&signal, "(8,3):(1,1)")?;
    let gemm = Gemm::new(&windows, &taps.view((1, 3))?, &out.view_mut((8, 1))?);
    let call = gemm.prepare()?;
    println!("{call}");
    call.run(&device)?;
    assert_eq!(out.download()?, [2.0; 8]); // the second difference of i * i
    // ANCHOR_END: any_strides
    Ok(())
}

// ANCHOR: own_memory
/// C = A B^T, of M by K, N by K and M by N numbers.
fn multiply(
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    [m, n, k]: [i64; 3],
    [a, b]: [&CudaSlice<f32>; 2],
    c: &mut CudaSlice<f32>,
) -> Result<(), colex_gpu::Error> {
    let device = Device::from_cuda(context, stream)?;
    let (a, b, mut c) = (
        device.borrow_slice(a)?,
        device.borrow_slice(b)?,
        device.borrow_slice_mut(c)?,
    );
    GemmProblem::new(m, n, k).on(&a, &b, &mut c)?.run()
}
// ANCHOR_END: own_memory

/// Multiplies slices of `cudarc` in a stream of the program, where there is a GPU.
fn own_memory() -> Result<(), Box<dyn Error>> {
    // ANCHOR: own_memory
    if Device::gpu(0).is_ok() {
        let context = CudaContext::new(0)?;
        let stream = context.new_stream()?;
        let (a, b) = (
            stream.clone_htod(&[1f32, 2.0, 3.0, 4.0])?,
            stream.clone_htod(&[1f32, 10.0])?,
        );
        let mut c = stream.alloc_zeros(2)?;
        multiply(context, stream.clone(), [2, 1, 2], [&a, &b], &mut c)?;
        assert_eq!(stream.clone_dtoh(&c)?, [21.0, 43.0]);
    }
    // ANCHOR_END: own_memory
    Ok(())
}

/// Prints what a product does with four layouts of A.
fn exercise_1() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_1 ==");
    // ANCHOR: exercise_1
    let device = Device::simulator(Arch::Sm80);
    let (numbers, b) = (device.zeros::<f32>(64)?, device.zeros::<f32>(5 * 8)?);
    let mut c = device.zeros::<f32>(3 * 5)?;
    for layout in ["(3,8):(8,1)", "(3,8):(1,3)", "(3,8):(16,2)", "(3,8):(0,1)"] {
        let a = View::new(&numbers, layout)?;
        let call = Gemm::new(&a, &b.view((5, 8))?, &c.view_mut((3, 5))?).prepare()?;
        println!("{layout}: {call}");
    }
    // ANCHOR_END: exercise_1
    Ok(())
}

/// Scales C without a product.
fn exercise_2() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_2 ==");
    // ANCHOR: exercise_2
    let device = Device::simulator(Arch::Sm80);
    let (a, b) = (device.zeros::<f32>(3)?, device.zeros::<f32>(2)?);
    let mut c = device.upload(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    let (a, b) = (a.view((3, 0))?, b.view((2, 0))?); // K is 0
    Gemm::new(&a, &b, &c.view_mut((3, 2))?).beta(0.5).run()?;
    println!("{:?}", c.download()?);
    // ANCHOR_END: exercise_2
    Ok(())
}
