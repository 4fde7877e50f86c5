//! Beside a program's own use of CUDA.

use anyhow::{Result, ensure};
use colex_gpu::cuda::cudarc::driver::CudaContext;
use colex_gpu::{Device, Launch};

use super::{ADD, refused, same};

/// A device from a context and a stream, and launches on the program's own slices.
pub(super) fn beside(device: &Device) -> Result<String> {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let beside = Device::from_cuda(context.clone(), stream.clone())?;
    let a = stream.clone_htod(&[1f32, 2.0, 3.0])?;
    let b = stream.clone_htod(&[10f32, 20.0, 30.0])?;
    let mut c = stream.alloc_zeros::<f32>(3)?;
    let function = beside.load_ptx(ADD, "add")?;
    {
        let (a, b, c) = (
            beside.borrow_slice(&a)?,
            beside.borrow_slice(&b)?,
            beside.borrow_slice_mut(&mut c)?,
        );
        let arguments = [a.argument(), b.argument(), c.argument(), 3u32.into()];
        beside.launch(&function, Launch::new(1, 32), &arguments)?;
    }
    same("the sums", stream.clone_dtoh(&c)?, vec![11.0, 22.0, 33.0])?;
    // Both are in the primary context, and so one device: the function is taken, and what is missing is its arguments.
    let other = refused(
        "a function without its arguments",
        device.launch(&function, Launch::new(1, 32), &[]),
    )?;
    ensure!(other.launch().is_some(), "{other}");
    Ok("launched on slices of cudarc, in its context and stream".to_string())
}
