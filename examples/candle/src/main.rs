//! `candle-core` and Colex in one program: a matrix product of tensors with any strides, in candle's own stream.
//!
//! candle multiplies what its library takes as it is, and copies the rest with `contiguous()` first. Colex takes the
//! strides as a layout.

use std::time::{Duration, Instant};

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::CudaDType;
use candle_core::cuda_backend::cudarc::driver::DeviceRepr;
use candle_core::{
    CpuStorage, CudaStorage, CustomOp2, DType, Error, Layout, Result, Shape, Tensor, bail,
};
use colex_gpu::kernels::GemmElement;
use colex_gpu::{View, ViewMut, gemm};
use half::{bf16, f16};

/// `a.matmul(b)` of an (M,K) and a (K,N) tensor with any strides.
struct Matmul;

impl CustomOp2 for Matmul {
    fn name(&self) -> &'static str {
        "colex-matmul"
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        bail!("colex-matmul multiplies tensors on a GPU: a tensor on the host has `matmul`")
    }

    fn cuda_fwd(
        &self,
        a: &CudaStorage,
        a_at: &Layout,
        b: &CudaStorage,
        b_at: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        match a.dtype() {
            DType::BF16 => product::<bf16>(a, a_at, b, b_at),
            DType::F16 => product::<f16>(a, a_at, b, b_at),
            DType::F32 => product::<f32>(a, a_at, b, b_at),
            DType::F64 => product::<f64>(a, a_at, b, b_at),
            other => {
                bail!("colex-matmul takes bf16, f16, f32 and f64, and the tensor is of {other:?}")
            }
        }
    }
}

/// Multiplies two matrices of one type.
fn product<T: CudaDType + DeviceRepr + GemmElement>(
    a: &CudaStorage,
    a_at: &Layout,
    b: &CudaStorage,
    b_at: &Layout,
) -> Result<(CudaStorage, Shape)> {
    let ((m, k), (also_k, n)) = (a_at.shape().dims2()?, b_at.shape().dims2()?);
    if k != also_k {
        bail!("colex-matmul: ({m},{k}) and ({also_k},{n}) do not have one K");
    }
    let candle = a.device().clone();
    let stream = candle.cuda_stream();
    let device =
        colex_gpu::Device::from_cuda(stream.context().clone(), stream).map_err(Error::wrap)?;
    // SAFETY: the product writes every element.
    let mut c = unsafe { candle.alloc::<T>(m * n)? };
    {
        let a_slice = a.as_cuda_slice::<T>()?.slice(a_at.start_offset()..);
        let b_slice = b.as_cuda_slice::<T>()?.slice(b_at.start_offset()..);
        let a = device.borrow_slice(&a_slice).map_err(Error::wrap)?;
        let b = device.borrow_slice(&b_slice).map_err(Error::wrap)?;
        let mut c = device.borrow_slice_mut(&mut c).map_err(Error::wrap)?;
        // Colex's product is C (M,N) of A (M,K) and B (N,K), as CuTe's is: B's modes change places.
        let a = View::new(&a, layout((m, k), (a_at.stride()[0], a_at.stride()[1]))?);
        let b = View::new(&b, layout((n, k), (b_at.stride()[1], b_at.stride()[0]))?);
        let c = ViewMut::new(&mut c, layout((m, n), (n, 1))?);
        let (a, b, c) = (
            a.map_err(Error::wrap)?,
            b.map_err(Error::wrap)?,
            c.map_err(Error::wrap)?,
        );
        gemm(&a, &b, &c).map_err(Error::wrap)?;
    }
    Ok((CudaStorage::wrap_cuda_slice(c, candle), Shape::from((m, n))))
}

/// The layout of a matrix by its extents and strides.
fn layout(shape: (usize, usize), stride: (usize, usize)) -> Result<colex_layout::Layout> {
    let [m, n, down, across] = [shape.0, shape.1, stride.0, stride.1].map(|x| x as i64);
    colex_layout::Layout::new((m, n), (down, across)).map_err(Error::wrap)
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

fn main() -> Result<()> {
    if let Err(why) = colex_gpu::Device::gpu(0) {
        println!("no product: {why}");
        return Ok(());
    }
    let device = candle_core::Device::new_cuda(0)?;
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
        let off = (theirs()?.to_dtype(DType::F32)? - ours()?.to_dtype(DType::F32)?)?;
        let off = off.abs()?.flatten_all()?.max(0)?.to_scalar::<f32>()?;
        let (theirs, ours) = (time(&device, theirs)?, time(&device, ours)?);
        println!(
            "{name}: candle {theirs:?}, of which contiguous() reads and writes {bytes} bytes; Colex {ours:?}; at most {off} apart"
        );
    }
    Ok(())
}
