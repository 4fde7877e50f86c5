//! Devices in a program: time, a context of the program's own, raw handles, and a graph.
//!
//! Run it with `cargo run -p colex-book --example kernel_devices`; each line `== .. ==` names a piece of the chapter.
//! What depends on the machine goes to standard error.

use std::error::Error;
use std::sync::Arc;

use colex_atom::Arch;
use colex_gpu::cuda::RawStream;
use colex_gpu::cuda::cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use colex_gpu::cuda::cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use colex_gpu::ir::{Access, Compare, Kernel, KernelBuilder, Space, Special, Type};
use colex_gpu::kernels::GemmProblem;
use colex_gpu::{Device, DeviceError, Launch, Repeats, View, copy};
use colex_layout::Layout;

fn main() -> Result<(), Box<dyn Error>> {
    timed()?;
    with_cudarc()?;
    with_raw_handles()?;
    in_a_graph()?;
    Ok(())
}

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

/// Takes the time of a launch, where there is a GPU.
fn timed() -> Result<(), Box<dyn Error>> {
    println!("\n== timed ==");
    // ANCHOR: timed
    let device = Device::open();
    let kernel = device.load(&axpy(device.arch()))?;
    let n = 1000u32;
    let (x, y) = (
        device.upload(&vec![1f32; n as usize])?,
        device.zeros::<f32>(n as usize)?,
    );
    let arguments = [(&x).into(), (&y).into(), 2f32.into(), n.into()];
    let work =
        |device: &Device| device.launch(&kernel, Launch::new(n.div_ceil(256), 256), &arguments);
    work(&device)?;
    println!("y[999] = {}", y.download()?[999]);

    match device.time(Repeats::default(), work) {
        Ok(timing) => {
            eprintln!("{timing}, {:?}, {:?}", kernel.origin(), kernel.resources());
            assert!(timing.median() > 0.0);
        }
        Err(error) => eprintln!("{error}"),
    }
    let nothing = |_: &Device| Ok::<(), DeviceError>(());
    let refused = Device::simulator(Arch::Sm90a).time(Repeats::default(), nothing);
    println!("{}", refused.unwrap_err());
    // ANCHOR_END: timed
    Ok(())
}

// ANCHOR: with_cudarc
/// Adds twice x to y, both of n elements.
fn add_twice(
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    x: &CudaSlice<f32>,
    y: &mut CudaSlice<f32>,
    n: u32,
) -> Result<(), DeviceError> {
    let device = Device::from_cuda(context, stream)?;
    let kernel = device.load(&axpy(device.arch()))?;
    let (x, y) = (device.borrow_slice(x)?, device.borrow_slice_mut(y)?);
    let arguments = [x.argument(), y.argument(), 2f32.into(), n.into()];
    device.launch(&kernel, Launch::new(n.div_ceil(256), 256), &arguments)
}
// ANCHOR_END: with_cudarc

/// Launches in a context and a stream that `cudarc` made, where there is a GPU.
fn with_cudarc() -> Result<(), Box<dyn Error>> {
    // ANCHOR: with_cudarc
    if Device::gpu(0).is_ok() {
        let context = CudaContext::new(0)?;
        let stream = context.new_stream()?;
        let x = stream.clone_htod(&[1f32, 2.0, 3.0])?;
        let mut y = stream.clone_htod(&[10f32, 20.0, 30.0])?;
        add_twice(context, stream.clone(), &x, &mut y, 3)?;
        assert_eq!(stream.clone_dtoh(&y)?, [12.0, 24.0, 36.0]);
    }
    assert!(Device::simulator(Arch::Sm90a).cuda().is_none());
    // ANCHOR_END: with_cudarc
    Ok(())
}

// ANCHOR: with_raw_handles
/// The sum of the elements of a column of a matrix that another library owns, row after row.
///
/// # Safety
///
/// Context and stream live for the call; `matrix` is the address of `rows * columns` numbers.
unsafe fn column_sum(
    raw: RawStream,
    matrix: u64,
    [rows, columns]: [usize; 2],
    j: usize,
) -> Result<f32, Box<dyn Error>> {
    // SAFETY: the caller promises that both live for the call; nothing made here outlives it.
    let device = unsafe { Device::from_raw(raw)? };
    let (first, length) = (matrix + 4 * j as u64, rows * columns - j);
    // SAFETY: the caller promises the matrix; `length` of its numbers lie from `first` on.
    let memory = unsafe { device.borrow_raw::<f32>(first, length)? };
    let column = View::new(&memory, Layout::new(rows as i64, columns as i64)?)?;
    let mut out = device.zeros::<f32>(rows)?;
    copy(&column, &out.view_mut(rows as i64)?)?;
    Ok(out.download()?.iter().sum())
}
// ANCHOR_END: with_raw_handles

/// Works in the stream of another library, where there is a GPU.
fn with_raw_handles() -> Result<(), Box<dyn Error>> {
    // ANCHOR: with_raw_handles
    let device = Device::open();
    if let Some(raw) = device.raw() {
        let matrix = device.upload(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
        // SAFETY: `device` and `matrix` live until the end of the block.
        let sum = unsafe { column_sum(raw, matrix.address(), [2, 3], 1)? };
        assert_eq!(sum, 7.0);
    }
    // ANCHOR_END: with_raw_handles
    Ok(())
}

/// Captures a product into a graph of the program's, where there is a GPU, and runs that with other data.
fn in_a_graph() -> Result<(), Box<dyn Error>> {
    // ANCHOR: in_a_graph
    if Device::gpu(0).is_ok() {
        let context = CudaContext::new(0)?;
        let stream = context.new_stream()?;
        let device = Device::from_cuda(context, stream.clone())?;
        let (a, b) = (device.upload(&[1f32, 2.0])?, device.upload(&[3f32, 4.0])?);
        let sum = device.zeros::<f32>(1)?;
        let mut written = sum.clone(); // a second handle of the same memory
        // Builds and loads the kernel: in a capture that would be refused.
        let product = GemmProblem::new(1, 1, 2)
            .on(&a, &b, &mut written)?
            .prepare()?;

        stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL)?;
        let captured = product.run(&device);
        let graph = stream.end_capture(CUgraphInstantiate_flags(0))?;
        captured?;
        let graph = graph.ok_or("nothing was captured")?;

        a.write(&[5.0, 6.0])?;
        graph.launch()?;
        assert_eq!(sum.download()?, [39.0]);
        // Drop the graph before the call and the memory that it uses.
        drop(graph);
        drop(product);
    }
    // ANCHOR_END: in_a_graph
    Ok(())
}
