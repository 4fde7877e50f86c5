//! A program that uses `cudarc` with features of its own choice multiplies its slices by Colex.

use std::error::Error;

use colex_gpu::{Device, View, ViewMut, gemm};
use colex_layout::Layout;
use cudarc::driver::CudaContext;

fn main() -> Result<(), Box<dyn Error>> {
    // Colex opens the driver itself and says what is missing, where cudarc would panic.
    if let Err(why) = Device::gpu(0) {
        println!("no product: {why}");
        return Ok(());
    }
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let (m, n, k) = (48, 40, 32);
    let number = |i: i64| ((i * 7) % 13 - 6) as f32;
    let a: Vec<f32> = (0..m * k).map(number).collect();
    let b: Vec<f32> = (0..k * n).map(number).collect();
    let (a_slice, b_slice) = (stream.clone_htod(&a)?, stream.clone_htod(&b)?);
    let mut c_slice = stream.alloc_zeros::<f32>((m * n) as usize)?;

    let device = Device::from_cuda(context, stream.clone())?;
    {
        let (a, b) = (
            device.borrow_slice(&a_slice)?,
            device.borrow_slice(&b_slice)?,
        );
        let mut c = device.borrow_slice_mut(&mut c_slice)?;
        // A (M,K) is stored column after column, and B (N,K) row after row of its transpose.
        let a = View::new(&a, Layout::new((m, k), (1, m))?)?;
        let b = View::new(&b, Layout::new((n, k), (1, n))?)?;
        gemm(&a, &b, &ViewMut::new(&mut c, Layout::new((m, n), (n, 1))?)?)?;
    }
    let c = stream.clone_dtoh(&c_slice)?;
    for i in 0..m {
        for j in 0..n {
            let sum: f32 = (0..k)
                .map(|l| a[(i + m * l) as usize] * b[(j + n * l) as usize])
                .sum();
            assert_eq!(c[(i * n + j) as usize], sum, "C({i},{j})");
        }
    }
    println!(
        "{m}x{n}x{k} on {} in a stream of cudarc: right",
        device.name()
    );
    Ok(())
}
