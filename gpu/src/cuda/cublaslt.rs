//! cuBLASLt: what a matrix product is measured against.

use std::ffi::c_void;

use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys;

use crate::buffer::Buffer;
use crate::device::{Device, Kind};
use crate::error::Error;
use crate::kernels::{Compute, GemmElement, GemmProblem, Major, MatrixName};

/// Bytes of scratch memory an algorithm may ask for.
const WORKSPACE: usize = 64 << 20;

/// One problem as cuBLASLt's own choices solve it.
pub struct CublasLt {
    device: Device,
    handle: sys::cublasLtHandle_t,
    product: sys::cublasLtMatmulDesc_t,
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    choices: Vec<sys::cublasLtMatmulHeuristicResult_t>,
    workspace: Buffer<u8>,
    /// Whether C is stored as its transpose, so that the factors change places.
    swapped: bool,
    factors: [Factor; 2],
}

/// Alpha or beta in the type of the sums.
#[derive(Clone, Copy)]
enum Factor {
    F32(f32),
    F64(f64),
    S32(i32),
}

impl Factor {
    fn of(compute: Compute, value: f64) -> Factor {
        match compute {
            Compute::F32 | Compute::Tf32 => Factor::F32(value as f32),
            Compute::F64 => Factor::F64(value),
            Compute::S32 => Factor::S32(value as i32),
        }
    }

    fn pointer(&self) -> *const c_void {
        match self {
            Factor::F32(x) => std::ptr::from_ref(x).cast(),
            Factor::F64(x) => std::ptr::from_ref(x).cast(),
            Factor::S32(x) => std::ptr::from_ref(x).cast(),
        }
    }
}

/// Makes the device's context current on this thread.
fn bind(device: &Device) -> Result<(), Error> {
    match &device.0 {
        Kind::Gpu(gpu) => gpu.bind(),
        Kind::Simulator(_) => Ok(()),
    }
}

fn refused(call: &'static str) -> impl Fn(CublasError) -> Error {
    move |CublasError(status)| Error::Driver {
        call,
        code: status as u32,
        name: format!("{status:?}"),
        text: "cuBLASLt said no more".to_string(),
    }
}

impl CublasLt {
    /// Asks for at most `count` algorithms for a problem, its own first choice first.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] on the simulator or without the library; [`Error::Kernel`] for a problem that is none;
    /// [`Error::Driver`] with the library's status.
    pub fn new<A: GemmElement, C: GemmElement>(
        device: &Device,
        problem: &GemmProblem,
        count: usize,
    ) -> Result<CublasLt, Error> {
        problem.check()?;
        let lacks = |why| Error::Unsupported {
            what: "run cuBLASLt",
            device: device.name(),
            why,
        };
        if device.cuda().is_none() {
            return Err(lacks("there is none on the host"));
        }
        // SAFETY: looks for a library and closes it again.
        if !unsafe { sys::is_culib_present() } {
            return Err(lacks("libcublasLt is not where libraries are looked for"));
        }
        bind(device)?;
        let compute = problem.compute.unwrap_or(A::COMPUTE);
        let (ty, scale) = types(compute);
        let swapped = problem.majors[MatrixName::C as usize] == Major::Second;
        let mut new = CublasLt {
            device: device.clone(),
            handle: result::create_handle().map_err(refused("cublasLtCreate"))?,
            product: result::create_matmul_desc(ty, scale)
                .map_err(refused("cublasLtMatmulDescCreate"))?,
            layouts: layouts::<A, C>(problem)?,
            choices: Vec::new(),
            workspace: device.uninitialised(WORKSPACE)?,
            swapped,
            factors: [problem.alpha, problem.beta].map(|value| Factor::of(compute, value)),
        };
        new.transpose(problem)?;
        new.ask(count)?;
        Ok(new)
    }

    /// Says of both factors whether they are transposed. In its columns, A is (M,K) and B is (K,N).
    fn transpose(&mut self, problem: &GemmProblem) -> Result<(), Error> {
        let major = |name: MatrixName| problem.majors[name as usize];
        let (a, b) = (major(MatrixName::A), major(MatrixName::B));
        // The first factor has C's rows (or, swapped, columns) as its rows; a matrix stored by its second index is
        // the transpose of what the library sees.
        let operations = match self.swapped {
            false => [a == Major::Second, b == Major::First],
            true => [b == Major::Second, a == Major::First],
        };
        let attributes = [
            sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA,
            sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSB,
        ];
        for (attribute, operation) in attributes.into_iter().zip(operations) {
            // `CUBLAS_OP_N` is 0 and `CUBLAS_OP_T` 1.
            let operation = i32::from(operation);
            let value = std::ptr::from_ref(&operation).cast();
            // SAFETY: the descriptor lives, and the value has the attribute's type.
            unsafe {
                result::set_matmul_desc_attribute(
                    self.product,
                    attribute,
                    value,
                    size_of_val(&operation),
                )
            }
            .map_err(refused("cublasLtMatmulDescSetAttribute"))?;
        }
        Ok(())
    }

    fn ask(&mut self, count: usize) -> Result<(), Error> {
        let preference =
            result::create_matmul_pref().map_err(refused("cublasLtMatmulPreferenceCreate"))?;
        let most = WORKSPACE;
        let attribute =
            sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        let [first, second, c] = self.in_order();
        let (mut found, mut choices) = (0, Vec::with_capacity(count));
        // SAFETY: all descriptors live; the library stores at most `count` results, for which there is room, and says
        // how many; what it stored is plain data.
        let asked = unsafe {
            let set = result::set_matmul_pref_attribute(
                preference,
                attribute,
                std::ptr::from_ref(&most).cast(),
                size_of_val(&most),
            );
            let asked = set.and_then(|()| {
                sys::cublasLtMatmulAlgoGetHeuristic(
                    self.handle,
                    self.product,
                    first,
                    second,
                    c,
                    c,
                    preference,
                    count as i32,
                    choices.as_mut_ptr(),
                    &mut found,
                )
                .result()
            });
            let destroyed = result::destroy_matmul_pref(preference);
            choices.set_len(found as usize);
            asked.and(destroyed)
        };
        self.choices = choices;
        asked.map_err(refused("cublasLtMatmulAlgoGetHeuristic"))
    }

    /// The layouts of the first factor, the second, and C.
    fn in_order(&self) -> [sys::cublasLtMatrixLayout_t; 3] {
        let [a, b, c] = self.layouts;
        if self.swapped { [b, a, c] } else { [a, b, c] }
    }

    /// How many algorithms it answered with.
    pub fn choices(&self) -> usize {
        self.choices.len()
    }

    /// Gives the product by one of its algorithms, 0 its own choice, to a stream of its device.
    ///
    /// # Errors
    ///
    /// Those of [`GemmProblem::check_buffers`]; [`Error::Driver`] with the library's status.
    pub fn run<A: GemmElement, C: GemmElement>(
        &self,
        device: &Device,
        choice: usize,
        [a, b]: [&Buffer<A>; 2],
        c: &Buffer<C>,
    ) -> Result<(), Error> {
        let Some((_, stream)) = device.cuda().filter(|_| device.is(&self.device)) else {
            return Err(Error::OtherDevice {
                what: "the product",
                device: device.name(),
                holder: self.device.name(),
            });
        };
        bind(device)?;
        let [first, second, third] = self.in_order();
        let [x, y] = if self.swapped { [b, a] } else { [a, b] };
        let [alpha, beta] = &self.factors;
        let pointer = |address: u64| address as *const c_void;
        // SAFETY: all descriptors live, the buffers are on this device, and the factors have the type of the sums.
        unsafe {
            result::matmul(
                self.handle,
                self.product,
                alpha.pointer(),
                beta.pointer(),
                pointer(x.address()),
                first,
                pointer(y.address()),
                second,
                pointer(c.address()),
                third,
                c.address() as *mut c_void,
                third,
                &self.choices[choice].algo,
                self.workspace.address() as *mut c_void,
                WORKSPACE,
                stream.cu_stream().cast(),
            )
        }
        .map_err(refused("cublasLtMatmul"))
    }
}

impl Drop for CublasLt {
    fn drop(&mut self) {
        // SAFETY: each has one owner, which is being dropped.
        unsafe {
            for layout in self.layouts {
                let _ = result::destroy_matrix_layout(layout);
            }
            let _ = result::destroy_matmul_desc(self.product);
            let _ = result::destroy_handle(self.handle);
        }
    }
}

/// The matrices as the library sees them: columns of what runs fastest.
fn layouts<A: GemmElement, C: GemmElement>(
    problem: &GemmProblem,
) -> Result<[sys::cublasLtMatrixLayout_t; 3], Error> {
    let layout = |name: MatrixName, ty| {
        let [first, second] = problem.extents(name).map(|(extent, _)| extent as u64);
        let (rows, columns) = match problem.majors[name as usize] {
            Major::First => (first, second),
            Major::Second => (second, first),
        };
        result::create_matrix_layout(ty, rows, columns, problem.leading_of(name))
            .map_err(refused("cublasLtMatrixLayoutCreate"))
    };
    let (factor, sum) = (data_type(A::TY), data_type(C::TY));
    Ok([
        layout(MatrixName::A, factor)?,
        layout(MatrixName::B, factor)?,
        layout(MatrixName::C, sum)?,
    ])
}

fn types(compute: Compute) -> (sys::cublasComputeType_t, sys::cudaDataType) {
    use sys::cublasComputeType_t::*;
    match compute {
        Compute::F32 => (CUBLAS_COMPUTE_32F, sys::cudaDataType::CUDA_R_32F),
        Compute::Tf32 => (CUBLAS_COMPUTE_32F_FAST_TF32, sys::cudaDataType::CUDA_R_32F),
        Compute::F64 => (CUBLAS_COMPUTE_64F, sys::cudaDataType::CUDA_R_64F),
        Compute::S32 => (CUBLAS_COMPUTE_32I, sys::cudaDataType::CUDA_R_32I),
    }
}

fn data_type(ty: colex_atom::Ty) -> sys::cudaDataType {
    use colex_atom::Ty;
    use sys::cudaDataType::*;
    match ty {
        Ty::F64 => CUDA_R_64F,
        Ty::F16 => CUDA_R_16F,
        Ty::Bf16 => CUDA_R_16BF,
        Ty::S32 => CUDA_R_32I,
        Ty::S8 => CUDA_R_8I,
        _ => CUDA_R_32F,
    }
}
