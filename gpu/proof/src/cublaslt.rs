//! cuBLASLt, the baseline of matrix products.

use colex_atom::Ty;
use colex_gpu::cuda::{CublasLt, LtBias, LtCompute, LtMatrix, LtProduct, LtType};
use colex_gpu::kernels::{Compute, GemmElement, GemmProblem, Major, Operand};
use colex_gpu::{Buffer, Device, Error};

/// A product of the library, computed by the algorithms that cuBLASLt chooses.
pub struct Opponent {
    library: CublasLt,
    /// Whether C is stored as its transpose, so that the factors change places.
    swapped: bool,
}

impl Opponent {
    /// Returns a problem with at most `count` algorithms, the library's first choice first.
    ///
    /// # Errors
    ///
    /// Returns an error if the problem is not valid, and the errors of [`CublasLt::new`].
    pub fn new<A: GemmElement, C: GemmElement>(
        device: &Device,
        problem: &GemmProblem,
        count: usize,
    ) -> Result<Opponent, Error> {
        Opponent::with_bias::<A, C>(device, problem, None, count)
    }

    /// Returns a problem whose C has a number added, if a bias is given: one for each place along C's contiguous mode.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`new`](Opponent::new).
    pub fn with_bias<A: GemmElement, C: GemmElement>(
        device: &Device,
        problem: &GemmProblem,
        bias: Option<LtBias>,
        count: usize,
    ) -> Result<Opponent, Error> {
        problem.check()?;
        let major = |name: Operand| problem.majors[name as usize];
        let swapped = major(Operand::C) == Major::Second;
        // The first factor has C's rows (or, swapped, columns) as its rows; a matrix stored by its second index is the
        // transpose of what the library sees.
        let a = matrix::<A>(
            problem,
            Operand::A,
            (major(Operand::A) == Major::Second) != swapped,
        );
        let b = matrix::<A>(
            problem,
            Operand::B,
            (major(Operand::B) == Major::First) != swapped,
        );
        let (compute, scale) = types(problem.compute.unwrap_or(A::COMPUTE));
        let [first, second] = if swapped { [b, a] } else { [a, b] };
        let product = LtProduct {
            first,
            second,
            sum: matrix::<C>(problem, Operand::C, false),
            compute,
            scale,
            alpha: problem.alpha,
            beta: problem.beta,
        };
        Ok(Opponent {
            library: CublasLt::with_bias(device, &product, bias, count)?,
            swapped,
        })
    }

    /// Returns the number of algorithms that the library found.
    pub fn choices(&self) -> usize {
        self.library.choices()
    }

    /// Enqueues the product on a stream of its device, with one of the algorithms; 0 is the library's first choice.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`CublasLt::run`].
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
fn matrix<T: GemmElement>(problem: &GemmProblem, name: Operand, transposed: bool) -> LtMatrix {
    let [first, second] = problem.extents(name).map(|(extent, _)| extent as u64);
    let (rows, columns) = match problem.majors[name as usize] {
        Major::First => (first, second),
        Major::Second => (second, first),
    };
    LtMatrix {
        ty: data_type(T::TY),
        rows,
        columns,
        leading: problem.leading_of(name),
        transposed,
    }
}

fn types(compute: Compute) -> (LtCompute, LtType) {
    match compute {
        // What it is as exact as.
        Compute::F32 | Compute::Tf32x3 => (LtCompute::F32, LtType::F32),
        Compute::Tf32 => (LtCompute::Tf32, LtType::F32),
        Compute::F64 => (LtCompute::F64, LtType::F64),
        Compute::S32 => (LtCompute::S32, LtType::S32),
    }
}

fn data_type(ty: Ty) -> LtType {
    match ty {
        Ty::F64 => LtType::F64,
        Ty::F16 => LtType::F16,
        Ty::Bf16 => LtType::Bf16,
        Ty::S32 => LtType::S32,
        Ty::S8 => LtType::S8,
        _ => LtType::F32,
    }
}
