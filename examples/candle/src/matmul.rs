//! `a.matmul(b)` of tensors with any strides. candle multiplies what its library takes as it is, and copies the rest with
//! `contiguous()` first. Colex takes the strides as a layout.

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::CudaDType;
use candle_core::cuda_backend::cudarc::driver::DeviceRepr;
use candle_core::{CpuStorage, CudaStorage, CustomOp2, DType, Error, Layout, Result, Shape, bail};
use colex_gpu::kernels::GemmElement;
use colex_gpu::{View, ViewMut, gemm};
use half::{bf16, f16};

use super::{beside, layout};

/// `a.matmul(b)` of an (M,K) and a (K,N) tensor with any strides.
pub struct Matmul;

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
    let device = beside(&candle)?;
    // SAFETY: the product writes every element.
    let mut c = unsafe { candle.alloc::<T>(m * n)? };
    {
        let a_slice = a.as_cuda_slice::<T>()?.slice(a_at.start_offset()..);
        let b_slice = b.as_cuda_slice::<T>()?.slice(b_at.start_offset()..);
        let a = device.borrow_slice(&a_slice).map_err(Error::wrap)?;
        let b = device.borrow_slice(&b_slice).map_err(Error::wrap)?;
        let mut c = device.borrow_slice_mut(&mut c).map_err(Error::wrap)?;
        // Colex's product is C (M,N) of A (M,K) and B (N,K), as CuTe's is: B's modes change places.
        let a = View::new(&a, layout(&[m, k], a_at.stride())?);
        let b = View::new(&b, layout(&[n, k], &[b_at.stride()[1], b_at.stride()[0]])?);
        let c = ViewMut::new(&mut c, layout(&[m, n], &[n, 1])?);
        let (a, b, c) = (
            a.map_err(Error::wrap)?,
            b.map_err(Error::wrap)?,
            c.map_err(Error::wrap)?,
        );
        gemm(&a, &b, &c).map_err(Error::wrap)?;
    }
    Ok((CudaStorage::wrap_cuda_slice(c, candle), Shape::from((m, n))))
}
