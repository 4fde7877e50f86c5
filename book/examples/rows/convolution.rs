//! Convolutions: the matrix over the activations as a layout, padding, the routes to the kernels, and an epilogue.
//!
//! Run it with `cargo run -p colex-book --example rows_convolution`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::convolution::reference;
use colex_gpu::gemm::{Convolution, ConvolutionProblem, Epilogue};
use colex_gpu::{Device, View};
use colex_layout::Layout;
use half::bf16;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    matrix()?;
    padding()?;
    routes()?;
    epilogue()?;
    Ok(())
}

/// The matrix over an image without padding.
fn matrix() -> Result<(), Box<dyn Error>> {
    println!("\n== matrix ==");
    // ANCHOR: matrix
    // One image of 4 by 5 pixels with 2 channels, and a filter of 3 by 3 taps.
    let (h, w, c) = (4, 5, 2);
    let (r, s) = (3, 3);
    let (p, q) = (h - r + 1, w - s + 1);
    let rows = Layout::new((q, p), (c, w * c))?;
    let columns = Layout::new((c, s, r), (1, c, w * c))?;
    let matrix = Layout::concat([&rows, &columns])?;
    println!(
        "{matrix}: {} elements over {}",
        matrix.size(),
        matrix.cosize()?
    );
    // Position (p, q) = (1, 2) under the tap (r, s) = (2, 0): pixel (1 + 2, 2 + 0).
    let element = matrix.at(((2, 1), (0, 0, 2)))?;
    println!("{element} = {}", ((1 + 2) * w + 2) * c);
    // ANCHOR_END: matrix
    Ok(())
}

/// What padding changes.
fn padding() -> Result<(), Box<dyn Error>> {
    println!("\n== padding ==");
    // ANCHOR: padding
    let problem = ConvolutionProblem::new(1, [1, 5], 1, 1, [1, 3]).padding([0, 1]);
    println!("{problem}");
    let image = [1.0f32, 2.0, 3.0, 4.0, 5.0];
    println!("{:?}", reference::convolution(&problem, &image, &[1.0; 3])?);
    // The layout of the matrix, from the first pixel on: its last row goes on where an image ends.
    let matrix = Layout::new((5, 3), (1, 1))?;
    let pixel = |row: i64, tap: i64| matrix.at((row, tap)).map(|offset| offset - 1);
    println!("{} and {}", pixel(0, 0)?, pixel(4, 2)?);
    // ANCHOR_END: padding
    Ok(())
}

/// Which kernel takes which convolution.
fn routes() -> Result<(), Box<dyn Error>> {
    println!("\n== routes ==");
    // ANCHOR: routes
    let device = Device::simulator(Arch::Sm90a);
    let memory = device.zeros::<bf16>(1 << 14)?;
    let mut out = device.zeros::<bf16>(1 << 14)?;
    for (channels, taps) in [(64, 3), (64, 1), (3, 3)] {
        let x = memory.view((2, 6, 6, channels))?;
        let filters = memory.view((16, taps, taps, channels))?;
        let y = out.view_mut((2, 6, 6, 16))?;
        let call = Convolution::new(&x, &filters, &y)
            .padding([taps / 2; 2])
            .prepare()?;
        let built = call.built().ok_or("a kernel")?;
        let names: Vec<_> = built.parameters().map(|parameter| parameter.name).collect();
        let written = call.written().map(|built| &built.kernel.name);
        println!(
            "{taps}x{taps} of {channels} channels: {written:?}, {:?}",
            &names[..3]
        );
    }
    // ANCHOR_END: routes
    Ok(())
}

/// A bias and ReLU, as data.
fn epilogue() -> Result<(), Box<dyn Error>> {
    println!("\n== epilogue ==");
    // ANCHOR: epilogue
    let device = Device::simulator(Arch::Sm90a);
    let problem = ConvolutionProblem::new(2, [5, 7], 16, 8, [3, 3])
        .stride([2, 2])
        .padding([1, 1]);
    let x: Vec<bf16> = (0..2 * 5 * 7 * 16)
        .map(|i| bf16::from_f32((i % 5 - 2) as f32))
        .collect();
    let filters: Vec<bf16> = (0..8 * 9 * 16)
        .map(|i| bf16::from_f32((i % 3 - 1) as f32))
        .collect();
    let sums = reference::convolution(&problem, &x, &filters)?;
    let (x, filters) = (device.upload(&x)?, device.upload(&filters)?);
    let bias = device.upload(&[-8f32, 8.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0])?;
    let mut y = device.poisoned::<f32>(2 * 3 * 4 * 8)?;
    let formula = Epilogue::new(Ty::F32, |e| {
        (e.accumulator() + e.tensor("bias", Ty::F32)).relu()
    })?;
    Convolution::new(
        &x.view((2, 5, 7, 16))?,
        &filters.view((8, 3, 3, 16))?,
        &y.view_mut((2, 3, 4, 8))?,
    )
    .stride(problem.stride)
    .padding_of(problem.padding)
    .product()?
    .epilogue(&formula)
    .tensor("bias", &View::new(&bias, "(24,8):(0,1)")?)
    .run()?;
    let (y, bias) = (y.download()?, bias.download()?);
    let wrong = (0..y.len()).filter(|i| y[*i] != (sums[*i] as f32 + bias[i % 8]).max(0.0));
    println!("{} elements, {} wrong", y.len(), wrong.count());
    // ANCHOR_END: epilogue
    Ok(())
}
