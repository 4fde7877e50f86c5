//! Attention of tensors (batch, heads, sequence, features) with any strides: token by token or head by head, without a copy. Tensors
//! on the host are computed by the simulator, so that a program can be tested without a GPU.

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::CudaDType;
use candle_core::cuda_backend::cudarc::driver::DeviceRepr;
use candle_core::{
    CpuStorage, CudaStorage, CustomOp3, DType, Error, Layout, Result, Shape, Tensor, WithDType,
    bail,
};
use colex_atom::Arch;
use colex_gpu::attention::{Attention, Mask};
use colex_gpu::kernels::GemmElement;
use colex_gpu::{Buffer, Device, View, ViewMut};
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
        q: &CpuStorage,
        q_at: &Layout,
        k: &CpuStorage,
        k_at: &Layout,
        v: &CpuStorage,
        v_at: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let tensors = [(q, q_at), (k, k_at), (v, v_at)];
        match q.dtype() {
            DType::BF16 => self.simulated::<bf16>(tensors),
            DType::F16 => self.simulated::<f16>(tensors),
            other => bail!("colex-attention takes bf16 and f16, and the tensor is of {other:?}"),
        }
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
            let q = View::new(&q, strided(q_at)?).map_err(Error::wrap)?;
            let k = View::new(&k, strided(k_at)?).map_err(Error::wrap)?;
            let v = View::new(&v, strided(v_at)?).map_err(Error::wrap)?;
            let o = ViewMut::new(&mut o, row_major(shape)?).map_err(Error::wrap)?;
            self.run([&q, &k, &v], &o)?;
        }
        Ok((
            CudaStorage::wrap_cuda_slice(o, candle),
            Shape::from(shape.to_vec()),
        ))
    }
}

/// Colex's layout of a tensor of candle.
fn strided(at: &Layout) -> Result<colex_layout::Layout> {
    layout(at.dims(), at.stride())
}

/// The row-major layout of a shape.
fn row_major(shape: [usize; 4]) -> Result<colex_layout::Layout> {
    let [_, heads, length, features] = shape;
    let head = length * features;
    layout(&shape, &[heads * head, head, features, 1])
}

impl ScaledDotProduct {
    /// Attention of these views.
    fn run<T: GemmElement>(&self, [q, k, v]: [&View<'_, T>; 3], o: &ViewMut<'_, T>) -> Result<()> {
        let mask = if self.causal {
            Mask::Causal
        } else {
            Mask::Full
        };
        let call = Attention::new(q, k, v, o).mask(mask);
        call.run().map_err(Error::wrap)
    }

    /// The same of tensors on the host, by the simulator.
    fn simulated<T: WithDType + GemmElement>(
        &self,
        [(q, q_at), (k, k_at), (v, v_at)]: [(&CpuStorage, &Layout); 3],
    ) -> Result<(CpuStorage, Shape)> {
        let (batch, heads, length, _) = q_at.shape().dims4()?;
        let shape = [batch, heads, length, v_at.shape().dims4()?.3];
        let device = Device::simulator(Arch::Sm90a);
        let upload = |storage: &CpuStorage, at: &Layout| -> Result<Buffer<T>> {
            let elements = &storage.as_slice::<T>()?[at.start_offset()..];
            device.upload(elements).map_err(Error::wrap)
        };
        let (q, k, v) = (upload(q, q_at)?, upload(k, k_at)?, upload(v, v_at)?);
        let mut o = device
            .poisoned::<T>(shape.iter().product())
            .map_err(Error::wrap)?;
        {
            let q = View::new(&q, strided(q_at)?).map_err(Error::wrap)?;
            let k = View::new(&k, strided(k_at)?).map_err(Error::wrap)?;
            let v = View::new(&v, strided(v_at)?).map_err(Error::wrap)?;
            let o = ViewMut::new(&mut o, row_major(shape)?).map_err(Error::wrap)?;
            self.run([&q, &k, &v], &o)?;
        }
        let o = o.download().map_err(Error::wrap)?;
        Ok((T::to_cpu_storage_owned(o), Shape::from(shape.to_vec())))
    }
}

/// Checks the operation on a small problem whose tensors lie token by token: on the GPU if there is one, and else by the simulator.
/// Returns the largest difference from a softmax that candle computes on the host in f32. It needs none of candle's kernels.
pub fn check(device: &candle_core::Device) -> Result<f32> {
    let tokens = |length: usize, seed: usize| {
        let count = length * 2 * 64;
        let number = |i: usize| ((i * 7919 + seed) % 401) as f32 / 200.0 - 1.0;
        let all: Vec<f16> = (0..count).map(|i| f16::from_f32(number(i))).collect();
        Tensor::from_vec(all, (1, length, 2, 64), &candle_core::Device::Cpu)
    };
    let (q, k, v) = (tokens(37, 1)?, tokens(50, 2)?, tokens(50, 3)?);
    let by_heads = |x: &Tensor| x.to_device(device)?.transpose(1, 2);
    let op = ScaledDotProduct { causal: false };
    let found = by_heads(&q)?.apply_op3_no_bwd(&by_heads(&k)?, &by_heads(&v)?, &op)?;
    let found = found.to_device(&candle_core::Device::Cpu)?;
    let wide = |x: &Tensor| x.transpose(1, 2)?.to_dtype(DType::F32);
    let expected = by_candle(&wide(&q)?, &wide(&k)?, &wide(&v)?)?;
    let off = super::apart(&found, &expected)?;
    if off.is_nan() || off > 2e-3 {
        bail!("attention of a small problem is {off} apart from candle's on the host");
    }
    Ok(off)
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
