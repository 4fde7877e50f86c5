//! cuBLASLt: what a matrix product is measured against.

use colex_atom::Ty;
use colex_gpu::cuda::cudarc::cublaslt::sys;
use colex_gpu::cuda::{CublasLt, LtMatrix, LtProduct};
use colex_gpu::kernels::{Compute, GemmElement, GemmProblem, Major, MatrixName};
use colex_gpu::{Buffer, Device, Error};

/// A product of the library as cuBLASLt's own choices compute it.
pub struct Opponent {
    library: CublasLt,
    /// Whether C is stored as its transpose, so that the factors change places.
    swapped: bool,
}

impl Opponent {
    /// Asks for at most `count` algorithms for a problem, the library's own first choice first.
    ///
    /// # Errors
    ///
    /// Fails for a problem that is none, and as [`CublasLt::new`] does.
    pub fn new<A: GemmElement, C: GemmElement>(
        device: &Device,
        problem: &GemmProblem,
        count: usize,
    ) -> Result<Opponent, Error> {
        problem.check()?;
        let major = |name: MatrixName| problem.majors[name as usize];
        let swapped = major(MatrixName::C) == Major::Second;
        // The first factor has C's rows (or, swapped, columns) as its rows; a matrix stored by its second index is the
        // transpose of what the library sees.
        let a = matrix::<A>(
            problem,
            MatrixName::A,
            (major(MatrixName::A) == Major::Second) != swapped,
        );
        let b = matrix::<A>(
            problem,
            MatrixName::B,
            (major(MatrixName::B) == Major::First) != swapped,
        );
        let (compute, scale) = types(problem.compute.unwrap_or(A::COMPUTE));
        let [first, second] = if swapped { [b, a] } else { [a, b] };
        let product = LtProduct {
            first,
            second,
            sum: matrix::<C>(problem, MatrixName::C, false),
            compute,
            scale,
            alpha: problem.alpha,
            beta: problem.beta,
        };
        Ok(Opponent {
            library: CublasLt::new(device, &product, count)?,
            swapped,
        })
    }

    /// Returns how many algorithms the library answered with.
    pub fn choices(&self) -> usize {
        self.library.choices()
    }

    /// Gives the product by one of its algorithms, 0 its own choice, to a stream of its device.
    ///
    /// # Errors
    ///
    /// Those of [`CublasLt::run`].
    pub fn run<A: GemmElement, C: GemmElement>(
        &self,
        device: &Device,
        choice: usize,
        [a, b]: [&Buffer<A>; 2],
        c: &Buffer<C>,
    ) -> Result<(), Error> {
        let [first, second] = if self.swapped { [b, a] } else { [a, b] };
        Ok(self.library.run(device, choice, [first, second], c)?)
    }
}

/// A matrix as the library sees it: columns of what runs fastest.
fn matrix<T: GemmElement>(problem: &GemmProblem, name: MatrixName, transposed: bool) -> LtMatrix {
    let [first, second] = problem.extents(name).map(|(extent, _)| extent as u64);
    let (rows, columns) = match problem.majors[name as usize] {
        Major::First => (first, second),
        Major::Second => (second, first),
    };
    LtMatrix {
        ty: data_type(T::TY),
        element_bytes: T::BYTES as u64,
        rows,
        columns,
        leading: problem.leading_of(name),
        transposed,
    }
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

fn data_type(ty: Ty) -> sys::cudaDataType {
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
