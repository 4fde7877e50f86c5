//! Convolutions: the matrix over the activations as a layout, padding, a kernel, the routes to the kernels, and an epilogue.
//!
//! Run it with `cargo run -p colex-book --example rows_convolution`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Taps, Ty};
use colex_gpu::gemm::convolution::reference;
use colex_gpu::gemm::{Convolution, ConvolutionProblem, Epilogue};
use colex_gpu::tensor::{AtThread, Builder, TensorKernel};
use colex_gpu::{Argument, Device, LaunchArg, Load, View};
use colex_layout::{ComposedLayout, Layout};
use colex_tiled::{Operand, TiledCopy, TiledMma};
use half::{bf16, f16};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    matrix()?;
    padding()?;
    by_loads()?;
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

/// A stage: 64 positions and 64 filters, each with 64 channels of two bytes.
const STAGE_BYTES: i64 = 2 * 64 * 64 * 2;

/// The kernel of the Hopper chapter with another producer: a filter of 3 by 3 taps.
fn kernel() -> Result<TensorKernel, Box<dyn Error>> {
    // ANCHOR: maps
    let mut k = Builder::new("convolution", Arch::Sm90a, 256);
    let ring = k.pipeline(3, 1, 1);
    let slab: ComposedLayout = "Sw<3,3,3> o 0 o (64,64):(64,1)".parse()?;
    let stages: ComposedLayout = "Sw<3,3,3> o 0 o (64,64,3):(64,1,4096)".parse()?;
    let sa = k.shared_tensor(Ty::F16, stages.clone());
    let sb = k.shared_tensor(Ty::F16, stages);
    // A is the image under the filter. B has the modes (K, C, (S,R)).
    let a = k.im2col_tensor("a", Ty::F16, &[3, 3], &slab, 1);
    let b = k.tma_tensor("b", Ty::F16, "(64,64,9):(576,_1,64)", [64, 64], &slab, 1);
    let c = k.tensor("c", Ty::F32, "(1024,1024):(1024,_1)");
    // ANCHOR_END: maps
    let steps = k.index_argument("steps", 1..1 << 20);
    let (thread, m, n) = (k.thread(), k.block_index(0), k.block_index(1));
    let (group, warp) = (k.uniform(128), k.uniform(32));
    k.start_pipelines(&[&ring], false);
    let mma = colex_atom::mma("SM90_64x64x16_F32F16F16_SS")?;
    let mma = TiledMma::new(mma, "1:0", (.., .., ..))?;
    let store = colex_atom::copy("UniversalCopy<uint64_t>")?;
    let store = TiledCopy::for_operand(store, 32, &mma, Operand::C)?;
    let consumes = k.equal(&group, &0.into());
    k.if_else(
        consumes,
        |k| {
            let thread = k.within(thread, 0..128);
            let da = k.gmma_operand(&mma, Operand::A, &sa, &0.into()); // (MMA_M, MMA_K, STAGE)
            let db = k.gmma_operand(&mma, Operand::B, &sb, &0.into()); // (MMA_N, MMA_K, STAGE)
            let sums = k.fragment_of(&mma, Operand::C, [64, 64]); // (MMA, MMA_M, MMA_N)
            let consumer = k.consumer(&ring, &thread);
            k.for_(0, &steps, 1, |k, step| {
                let stage = consumer.wait(k);
                let adds = k.less(&0.into(), step);
                k.wgmma_fence();
                k.wgmma_tile(&mma, &sums, &da.at(&stage), &db.at(&stage), adds);
                k.wgmma_commit();
                k.wgmma_wait(0);
                consumer.release(k, &stage);
            });
            let tile = c.local_tile((64, 64), (&m, &n)); // (BLK_M, BLK_N)
            let to = store.at(&thread).partition_dst(&tile); // (CPY, CPY_M, CPY_N)
            k.copy_in_bounds(&store, &sums.retile(&store), &to);
        },
        |k| {
            let first = k.equal(&warp, &4.into());
            k.if_(first, |k| {
                let one = k.elected();
                k.if_(one, |k| {
                    // ANCHOR: producer
                    let producer = k.tma_producer(&ring, STAGE_BYTES);
                    let pixels = k.im2col_pixels(&a, &m, &0.into()); // q, p and n of the first row
                    k.for_(0, &steps, 1, |k, step| {
                        let (channels, tap) = (step / 9, step % 9); // 64 channels, one tap
                        let taps = (&tap % 3, &tap / 3); // s and r
                        let stage = producer.acquire(k);
                        let (full, to) = (stage.barrier(), sa.at(2, &stage));
                        k.im2col_load(&a, &pixels, &channels, taps, &to, &full);
                        k.tma_load(&b, (&n, &channels, &tap), &sb.at(2, &stage), &full);
                        producer.commit(k, &stage);
                    });
                    // ANCHOR_END: producer
                });
            });
        },
    );
    Ok(k.finish()?)
}

/// Runs the kernel and compares it with the host.
fn by_loads() -> Result<(), Box<dyn Error>> {
    println!("\n== by_loads ==");
    // ANCHOR: by_loads
    let device = Device::simulator(Arch::Sm90a);
    let problem = ConvolutionProblem::new(2, [5, 7], 72, 8, [3, 3]).padding([1, 1]);
    let number = |i: usize| f16::from_f32((i * 7 % 11) as f32 - 5.0);
    let x: Vec<f16> = (0..2 * 5 * 7 * 72).map(number).collect();
    let filters: Vec<f16> = (3..8 * 9 * 72 + 3).map(number).collect();
    let sums = reference::convolution(&problem, &x, &filters)?;

    let built = kernel()?;
    let padded = Taps {
        padding: [1, 1],
        ..Taps::new(3)
    };
    // The image (C,W,H,N), and the numbers of the filter along W and H.
    let image = "(72,7,5,2):(1,72,504,2520)";
    let (map, numbers) = built.im2col_arguments("a", image, &[padded; 2])?;
    let (x, filters) = (device.upload(&x)?, device.upload(&filters)?);
    let mut y = device.poisoned::<f32>(2 * 5 * 7 * 8)?;
    let map = Argument::from(device.tensor_map(&map, &x)?);
    let mut arguments: Vec<LaunchArg<'_>> = vec![map.into()];
    arguments.extend(numbers.into_iter().map(LaunchArg::from));
    arguments.push(View::new(&filters, "(8,72,9):(648,_1,72)")?.into());
    arguments.push(y.view_mut((70, 8))?.into());
    arguments.push(18_u32.into()); // two steps of channels, nine taps
    built.load(&device)?.launch([2], arguments)?;
    let found = y.download()?;
    let wrong = (0..560).filter(|i| f64::from(found[*i]) != sums[*i]);
    println!("{} elements, {} wrong", found.len(), wrong.count());
    // ANCHOR_END: by_loads
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
