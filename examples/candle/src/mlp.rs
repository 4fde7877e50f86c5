//! The feed-forward block of a language model: `(silu(x gate^T) * (x up^T)) down^T`, two kernels in place of four.

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::CudaDType;
use candle_core::cuda_backend::cudarc::driver::DeviceRepr;
use candle_core::{
    CpuStorage, CudaStorage, CustomOp3, DType, Error, Layout, Result, Shape, Tensor, bail,
};
use colex_gpu::gemm::Epilogue;
use colex_gpu::kernels::GemmElement;
use colex_gpu::{Gemm, View, ViewMut, gemm};
use half::{bf16, f16};

use super::{beside, layout};

/// Of `x` (M,K), the rows of gate and then those of up (2N,K), and `down` (D,N): the block's output (M,D).
pub struct GatedMlp;

impl CustomOp3 for GatedMlp {
    fn name(&self) -> &'static str {
        "colex-gated-mlp"
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        bail!("colex-gated-mlp takes tensors on a GPU")
    }

    fn cuda_fwd(
        &self,
        x: &CudaStorage,
        x_at: &Layout,
        gate_up: &CudaStorage,
        gate_up_at: &Layout,
        down: &CudaStorage,
        down_at: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        let tensors = [(x, x_at), (gate_up, gate_up_at), (down, down_at)];
        match x.dtype() {
            DType::BF16 => block::<bf16>(tensors),
            DType::F16 => block::<f16>(tensors),
            other => bail!("colex-gated-mlp takes bf16 and f16, and the tensor is of {other:?}"),
        }
    }
}

fn block<T: CudaDType + DeviceRepr + GemmElement>(
    [(x, x_at), (gate_up, gate_up_at), (down, down_at)]: [(&CudaStorage, &Layout); 3],
) -> Result<(CudaStorage, Shape)> {
    let (m, k) = x_at.shape().dims2()?;
    let (both, also_k) = gate_up_at.shape().dims2()?;
    let (d, n) = down_at.shape().dims2()?;
    if k != also_k || both != 2 * n {
        bail!(
            "colex-gated-mlp: gate and up have the shape ({both},{also_k}): ({},{k}) is needed for x ({m},{k}) and down ({d},{n})",
            2 * n
        );
    }
    let candle = x.device().clone();
    let device = beside(&candle)?;
    // SAFETY: the products write every element.
    let (mut hidden, mut out) = unsafe { (candle.alloc::<T>(m * n)?, candle.alloc::<T>(m * d)?) };
    {
        let x = x.as_cuda_slice::<T>()?.slice(x_at.start_offset()..);
        let gate = gate_up
            .as_cuda_slice::<T>()?
            .slice(gate_up_at.start_offset()..);
        let behind = gate_up_at.start_offset() + n * gate_up_at.stride()[0];
        let up = gate_up.as_cuda_slice::<T>()?.slice(behind..);
        let down = down.as_cuda_slice::<T>()?.slice(down_at.start_offset()..);
        let x = device.borrow_slice(&x).map_err(Error::wrap)?;
        let gate = device.borrow_slice(&gate).map_err(Error::wrap)?;
        let up = device.borrow_slice(&up).map_err(Error::wrap)?;
        let down = device.borrow_slice(&down).map_err(Error::wrap)?;
        let mut hidden = device.borrow_slice_mut(&mut hidden).map_err(Error::wrap)?;
        let mut out = device.borrow_slice_mut(&mut out).map_err(Error::wrap)?;
        let x = View::new(&x, layout(&[m, k], x_at.stride())?).map_err(Error::wrap)?;
        let factor = layout(&[n, k], gate_up_at.stride())?;
        let gate = View::new(&gate, factor.clone()).map_err(Error::wrap)?;
        let up = View::new(&up, factor).map_err(Error::wrap)?;
        let down = View::new(&down, layout(&[d, n], down_at.stride())?).map_err(Error::wrap)?;
        let rows = layout(&[m, n], &[n, 1])?;
        let swiglu = Epilogue::new(colex_atom::Ty::F32, |e| {
            (e.accumulator().silu() * e.second_accumulator()).to(T::TY)
        });
        {
            let written = ViewMut::new(&mut hidden, rows.clone()).map_err(Error::wrap)?;
            let gated = Gemm::new(&x, &gate, &written).b2(&up);
            let gated = gated.epilogue(&swiglu.map_err(Error::wrap)?);
            gated.run().map_err(Error::wrap)?;
        }
        let hidden = View::new(&hidden, rows).map_err(Error::wrap)?;
        let out = ViewMut::new(&mut out, layout(&[m, d], &[d, 1])?).map_err(Error::wrap)?;
        gemm(&hidden, &down, &out).map_err(Error::wrap)?;
    }
    Ok((
        CudaStorage::wrap_cuda_slice(out, candle),
        Shape::from((m, d)),
    ))
}

/// Checks the operation on a small problem on the GPU, with the rows of gate and up in one tensor. Returns the largest difference from the
/// block that candle computes on the host in f32. It needs none of candle's kernels.
pub fn check(device: &candle_core::Device) -> Result<f32> {
    // M tokens of K features, N hidden features, and D of the output.
    let (m, k, n, d) = (37, 64, 48, 40);
    let matrix = |shape: (usize, usize), seed: usize, most: f32| {
        let number = |i: usize| (((i * 7919 + seed) % 401) as f32 / 200.0 - 1.0) * most;
        let all = (0..shape.0 * shape.1).map(|i| f16::from_f32(number(i)));
        Tensor::from_vec(all.collect::<Vec<f16>>(), shape, &candle_core::Device::Cpu)
    };
    let x = matrix((m, k), 1, 1.0)?;
    let gate_up = matrix((2 * n, k), 2, 0.25)?;
    let down = matrix((d, n), 3, 0.0625)?;
    let there = |tensor: &Tensor| tensor.to_device(device);
    let found = there(&x)?.apply_op3_no_bwd(&there(&gate_up)?, &there(&down)?, &GatedMlp)?;
    let found = found.to_device(&candle_core::Device::Cpu)?;
    let wide = |tensor: &Tensor| tensor.to_dtype(DType::F32);
    let expected = by_candle(&wide(&x)?, &wide(&gate_up)?, &wide(&down)?)?;
    let off = super::apart(&found, &expected)?;
    // The roundings of the hidden elements and of the output to f16 are 8e-4 at most here; ReLU in place of SiLU would be 0.26.
    if off.is_nan() || off > 2e-3 {
        bail!("a small gated feed-forward block is {off} apart from candle's on the host");
    }
    Ok(off)
}

/// The same by candle's own kernels.
pub fn by_candle(x: &Tensor, gate_up: &Tensor, down: &Tensor) -> Result<Tensor> {
    let both = x.matmul(&gate_up.t()?)?;
    let n = both.dim(1)? / 2;
    let hidden = (both.narrow(1, 0, n)?.silu()? * both.narrow(1, n, n)?)?;
    hidden.matmul(&down.t()?)
}
