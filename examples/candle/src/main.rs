//! `candle-core` and Colex in one program, in candle's own stream: a matrix product of tensors with any strides, the gated
//! feed-forward block of a language model, and attention, each as an operation of candle.

mod attention;
mod matmul;
mod mlp;

use std::time::{Duration, Instant};

use candle_core::{CudaDevice, DType, Error, Result, Tensor};

use attention::ScaledDotProduct;
use matmul::Matmul;
use mlp::GatedMlp;

/// Colex's device on the stream of candle's.
fn beside(candle: &CudaDevice) -> Result<colex_gpu::Device> {
    let stream = candle.cuda_stream();
    colex_gpu::Device::from_cuda(stream.context().clone(), stream).map_err(Error::wrap)
}

/// The layout of a tensor by its extents and strides.
fn layout(shape: &[usize], stride: &[usize]) -> Result<colex_layout::Layout> {
    let modes = |of: &[usize]| {
        colex_layout::IntTuple::flat(of.iter().map(|n| colex_layout::Int::from(*n as i64)))
    };
    colex_layout::Layout::new(modes(shape), modes(stride)).map_err(Error::wrap)
}

/// The median time of a call, the device waited for.
fn time(device: &candle_core::Device, call: impl Fn() -> Result<Tensor>) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..51 {
        device.synchronize()?;
        let start = Instant::now();
        let product = call()?;
        device.synchronize()?;
        times.push(start.elapsed());
        drop(product);
    }
    times.sort();
    Ok(times[times.len() / 2])
}

/// The largest difference of two tensors.
fn apart(a: &Tensor, b: &Tensor) -> Result<f32> {
    let off = (a.to_dtype(DType::F32)? - b.to_dtype(DType::F32)?)?;
    off.abs()?.flatten_all()?.max(0)?.to_scalar::<f32>()
}

fn main() -> Result<()> {
    if let Err(why) = colex_gpu::Device::gpu(0) {
        let off = attention::check(&candle_core::Device::Cpu)?;
        println!("attention on the simulator: at most {off} apart");
        println!("no product and no gated feed-forward block: {why}");
        return Ok(());
    }
    let device = candle_core::Device::new_cuda(0)?;
    let off = attention::check(&device)?;
    println!("attention of a small problem: at most {off} apart");
    let off = mlp::check(&device)?;
    println!("a small gated feed-forward block: at most {off} apart");
    if std::env::args().nth(1).as_deref() == Some("attention") {
        return measure_attention(&device);
    }
    let random =
        |shape: (usize, usize)| Tensor::randn(0f32, 1f32, shape, &device)?.to_dtype(DType::BF16);
    let wide = random((4096, 3 * 4096))?;
    let cases = [
        ("row-major", random((4096, 4096))?, random((4096, 4096))?),
        (
            "a transposed",
            random((4096, 4096))?.t()?,
            random((4096, 4096))?,
        ),
        (
            "columns of a wider tensor",
            wide.narrow(1, 4096, 4096)?,
            wide.narrow(1, 0, 4096)?,
        ),
        (
            "every second column",
            wide.narrow(1, 0, 8192)?
                .reshape((4096, 4096, 2))?
                .narrow(2, 0, 1)?
                .squeeze(2)?,
            random((4096, 4096))?,
        ),
    ];
    for (name, a, b) in &cases {
        let copied = [a, b].into_iter().filter(|tensor| !tensor.is_contiguous());
        let bytes: usize = copied
            .map(|tensor| tensor.elem_count() * tensor.dtype().size_in_bytes())
            .sum();
        let theirs = || a.contiguous()?.matmul(&b.contiguous()?);
        let ours = || a.apply_op2_no_bwd(b, &Matmul);
        let off = apart(&theirs()?, &ours()?)?;
        let (theirs, ours) = (time(&device, theirs)?, time(&device, ours)?);
        println!(
            "{name}: candle {theirs:?}, of which contiguous() reads and writes {bytes} bytes; Colex {ours:?}; at most {off} apart"
        );
    }

    let x = random((512, 4096))?;
    let gate_up = (random((2 * 14336, 4096))? * 0.02)?;
    let down = (random((4096, 14336))? * 0.02)?;
    let theirs = || mlp::by_candle(&x, &gate_up, &down);
    let ours = || x.apply_op3_no_bwd(&gate_up, &down, &GatedMlp);
    let off = apart(&theirs()?, &ours()?)?;
    let (theirs, ours) = (time(&device, theirs)?, time(&device, ours)?);
    println!("a gated feed-forward block: candle {theirs:?}; Colex {ours:?}; at most {off} apart");

    measure_attention(&device)
}

/// Attention of 2 sequences of 2048 tokens with 16 heads of 128 features, by candle and by Colex.
fn measure_attention(device: &candle_core::Device) -> Result<()> {
    let random =
        |shape: (usize, usize)| Tensor::randn(0f32, 1f32, shape, device)?.to_dtype(DType::BF16);
    // Token by token, all heads of each: candle copies these, Colex does not.
    let by_tokens = |heads: usize| {
        random((2 * 2048, heads * 128))?
            .reshape((2, 2048, heads, 128))?
            .transpose(1, 2)
    };
    let (q, k, v) = (by_tokens(16)?, by_tokens(16)?, by_tokens(16)?);
    let theirs = || attention::by_candle(&q, &k, &v);
    let ours = || q.apply_op3_no_bwd(&k, &v, &ScaledDotProduct { causal: false });
    let off = apart(&theirs()?, &ours()?)?;
    let (theirs, ours) = (time(device, theirs)?, time(device, ours)?);
    println!("attention: candle {theirs:?}; Colex {ours:?}; at most {off} apart");
    Ok(())
}
