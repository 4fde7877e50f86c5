//! Attention of tensors (batch, heads, sequence, features) with any strides: token by token or head by head, without a copy.

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::CudaDType;
use candle_core::cuda_backend::cudarc::driver::DeviceRepr;
use candle_core::{
    CpuStorage, CudaStorage, CustomOp3, DType, Error, Layout, Result, Shape, Tensor, bail,
};
use colex_gpu::attention::{Attention, Mask};
use colex_gpu::kernels::GemmElement;
use colex_gpu::{View, ViewMut};
use half::{bf16, f16};

use super::{beside, layout};

/// softmax(scale Q K^T) V. There may be fewer heads of K and V than of Q, whose number they divide.
pub struct ScaledDotProduct {
    pub causal: bool,
}

impl CustomOp3 for ScaledDotProduct {
    fn name(&self) -> &'static str {
        "colex-attention"
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
        bail!("colex-attention takes tensors on a GPU")
    }

    fn cuda_fwd(
        &self,
        q: &CudaStorage,
        q_at: &Layout,
        k: &CudaStorage,
        k_at: &Layout,
        v: &CudaStorage,
        v_at: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        let tensors = [(q, q_at), (k, k_at), (v, v_at)];
        match q.dtype() {
            DType::BF16 => self.of::<bf16>(tensors),
            DType::F16 => self.of::<f16>(tensors),
            other => bail!("colex-attention takes bf16 and f16, and the tensor is of {other:?}"),
        }
    }
}

impl ScaledDotProduct {
    fn of<T: CudaDType + DeviceRepr + GemmElement>(
        &self,
        [(q, q_at), (k, k_at), (v, v_at)]: [(&CudaStorage, &Layout); 3],
    ) -> Result<(CudaStorage, Shape)> {
        let (batch, heads, length, _) = q_at.shape().dims4()?;
        let features = v_at.shape().dims4()?.3;
        let candle = q.device().clone();
        let device = beside(&candle)?;
        let shape = [batch, heads, length, features];
        // SAFETY: the kernel writes every element.
        let mut o = unsafe { candle.alloc::<T>(shape.iter().product())? };
        {
            let q = q.as_cuda_slice::<T>()?.slice(q_at.start_offset()..);
            let k = k.as_cuda_slice::<T>()?.slice(k_at.start_offset()..);
            let v = v.as_cuda_slice::<T>()?.slice(v_at.start_offset()..);
            let q = device.borrow_slice(&q).map_err(Error::wrap)?;
            let k = device.borrow_slice(&k).map_err(Error::wrap)?;
            let v = device.borrow_slice(&v).map_err(Error::wrap)?;
            let mut o = device.borrow_slice_mut(&mut o).map_err(Error::wrap)?;
            let of = |at: &Layout| layout(at.dims(), at.stride());
            let q = View::new(&q, of(q_at)?).map_err(Error::wrap)?;
            let k = View::new(&k, of(k_at)?).map_err(Error::wrap)?;
            let v = View::new(&v, of(v_at)?).map_err(Error::wrap)?;
            let head = length * features;
            let row_major = layout(&shape, &[heads * head, head, features, 1])?;
            let o = ViewMut::new(&mut o, row_major).map_err(Error::wrap)?;
            let mask = if self.causal {
                Mask::Causal
            } else {
                Mask::Full
            };
            let call = Attention::new(&q, &k, &v, &o).mask(mask);
            call.run().map_err(Error::wrap)?;
        }
        Ok((
            CudaStorage::wrap_cuda_slice(o, candle),
            Shape::from(shape.to_vec()),
        ))
    }
}

/// The same by candle's own kernels, without a mask: every score is a number in memory.
pub fn by_candle(q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
    let scale = 1.0 / (q.dim(3)? as f64).sqrt();
    let (q, k, v) = (q.contiguous()?, k.contiguous()?, v.contiguous()?);
    let scores = (q.matmul(&k.t()?)? * scale)?.to_dtype(DType::F32)?;
    let top = scores.max_keepdim(3)?;
    let weights = scores.broadcast_sub(&top)?.exp()?;
    let weights = weights.broadcast_div(&weights.sum_keepdim(3)?)?;
    weights.to_dtype(q.dtype())?.matmul(&v)
}
