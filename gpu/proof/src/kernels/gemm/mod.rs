//! The library's products against the reference, for the tests on the simulator and `xtask gpu kernels` on a GPU.

pub mod convolution;
pub mod groups;
pub mod high_low;

use core::fmt;

use colex_atom::{Arch, Ty};

use super::copies::{Failure, compare};
use crate::sweep::Random;
use colex_device::Device;
use colex_gpu::Error;
use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan};
use colex_gpu::kernels::{Compute, GemmElement, GemmProblem, Major, Operand, reference};

/// One product to be checked.
#[derive(Clone, Copy, Debug)]
pub struct GemmCase {
    /// The product.
    pub problem: GemmProblem,
    /// Elements by which A, B and C begin after an address that is a multiple of 256 bytes.
    pub shift: [usize; 3],
    /// The kernel; `None` for the one that the library takes.
    pub method: Option<GemmMethod>,
    /// Whether the call is batch-invariant.
    pub is_batch_invariant: bool,
}

/// Elements behind C that must stay as they are.
const TAIL: usize = 64;

impl GemmCase {
    /// Returns a product in aligned buffers by the kernel that the library takes.
    pub fn new(problem: GemmProblem) -> GemmCase {
        GemmCase {
            problem,
            shift: [0; 3],
            method: None,
            is_batch_invariant: false,
        }
    }

    /// Returns the same by that kernel.
    #[must_use]
    pub fn by(self, method: GemmMethod) -> GemmCase {
        GemmCase {
            method: Some(method),
            ..self
        }
    }

    /// Returns the same case in buffers that begin this number of elements later.
    #[must_use]
    pub fn shifted(self, shift: [usize; 3]) -> GemmCase {
        GemmCase { shift, ..self }
    }

    /// Returns the same, the operands rounded to tf32.
    #[must_use]
    pub fn tf32(self) -> GemmCase {
        GemmCase {
            problem: self.problem.compute(Compute::Tf32),
            ..self
        }
    }

    /// Runs the case on a device and compares every element of C's buffer bit by bit, including those that no
    /// coordinate names and that must keep their values. The numbers are small multiples of an eighth, so that no
    /// kernel rounds before the end. Returns the kernel that ran.
    ///
    /// # Errors
    ///
    /// Returns a [`Failure`] if the product fails or an element is wrong.
    pub fn run<T: GemmElement, C: GemmElement>(
        &self,
        device: &Device,
    ) -> Result<GemmMethod, Failure> {
        Ok(self.attempt::<T, C>(device, None, true)??)
    }

    /// Runs the case by a plan, and compares as [`run`](GemmCase::run) does.
    ///
    /// # Errors
    ///
    /// Returns a [`Failure`] if the plan is refused, if the product fails or if an element is wrong.
    pub fn run_by<T: GemmElement, C: GemmElement>(
        &self,
        device: &Device,
        plan: &GemmPlan,
    ) -> Result<(), Failure> {
        self.attempt::<T, C>(device, Some(plan), true)??;
        Ok(())
    }

    /// The same by a plan, if there is one; the inner error is that of a product that is refused before its launch.
    /// Without `launch` nothing is run.
    pub(super) fn attempt<T: GemmElement, C: GemmElement>(
        &self,
        device: &Device,
        plan: Option<&GemmPlan>,
        launch: bool,
    ) -> Result<Result<GemmMethod, Error>, Failure> {
        let problem = &self.problem;
        let [a, b] = [(Operand::A, 1), (Operand::B, 2)].map(|(name, seed)| {
            numbers::<T>(length(problem, name) + self.shift[name as usize], seed)
        });
        let end = length(problem, Operand::C) + self.shift[2] + TAIL;
        let before = match problem.beta {
            0.0 => C::from_bytes(&vec![0xff; end * C::BYTES]),
            _ => numbers::<C>(end, 3),
        };
        let [da, db] = [device.upload(&a)?, device.upload(&b)?];
        let dc = device.upload(&before)?;
        let (sa, sb) = (da.slice(self.shift[0]..)?, db.slice(self.shift[1]..)?);
        let mut sc = dc.slice(self.shift[2]..)?;
        let call = problem
            .on(&sa, &sb, &mut sc)
            .map(|gemm| {
                if self.is_batch_invariant {
                    gemm.batch_invariant()
                } else {
                    gemm
                }
            })
            .and_then(|gemm| match (plan, self.method) {
                (None, None) => gemm.prepare(),
                (None, Some(method)) => gemm.method(method).prepare(),
                (Some(plan), _) => gemm.prepare_with(|_, _| Ok(*plan)),
            });
        let call = match call {
            Ok(call) => call,
            Err(refused) => return Ok(Err(refused)),
        };
        let method = call.plan().expect("a case has elements").method;
        let trapped = call.built().map(|built| super::trapped(&built.kernel));
        if let Some(trapped) = trapped.filter(|claims| !claims.is_empty()) {
            return Err(Failure::Traps(trapped));
        }
        if launch {
            call.run(device)?;
            let expected = self.expected(&a, &b, &before);
            compare(&dc.download()?, &expected)?;
        }
        Ok(Ok(method))
    }

    /// C's buffer afterwards.
    fn expected<T: GemmElement, C: GemmElement>(&self, a: &[T], b: &[T], before: &[C]) -> Vec<C> {
        let (problem, shift) = (&self.problem, self.shift);
        let product = reference::gemm(problem, &a[shift[0]..], &b[shift[1]..], &before[shift[2]..]);
        let layout = problem.layout(Operand::C).expect("a checked problem");
        let mut after = before.to_vec();
        for ((i, j), value) in product.indexed_iter() {
            let at = layout
                .at((i as i64, j as i64))
                .expect("indices of the matrix");
            after[shift[2] + at as usize] = C::from_f64(*value);
        }
        after
    }
}

fn length(problem: &GemmProblem, name: Operand) -> usize {
    let layout = problem.layout(name).expect("a case has extents");
    layout.cosize().expect("a case is small") as usize
}

/// Numbers from -8 to 8, of floats an eighth of them.
fn numbers<T: GemmElement>(count: usize, seed: u64) -> Vec<T> {
    let scale = if T::COMPUTE == Compute::S32 {
        1.0
    } else {
        0.125
    };
    let mut random = Random::new(seed);
    (0..count)
        .map(|_| T::from_f64((random.below(17) as f64 - 8.0) * scale))
        .collect()
}

/// Returns small products of elements of a type: by the kernels that the library takes on an architecture, and by every
/// one that takes them.
pub fn every_case<T: GemmElement>(arch: Arch) -> Vec<GemmCase> {
    let (ab, vector) = (T::TY, 16 / T::BYTES as i64);
    let by = |method, whole| gemm_cases(Some(method), whole);
    let mut cases = [
        gemm_cases(None, 1),
        gemm_cases(None, vector),
        by(GemmMethod::Simt, 1),
    ]
    .concat();
    if matches!(ab, Ty::F16 | Ty::Bf16 | Ty::F32) {
        cases.extend([by(GemmMethod::Gemv, 1), by(GemmMethod::Gemv, vector)].concat());
    }
    if ab == Ty::F16 {
        cases.extend(by(GemmMethod::Volta, 1));
    }
    if arch >= Arch::Sm80 && ab != Ty::S32 {
        let ampere = [by(GemmMethod::Ampere, 1), by(GemmMethod::Ampere, vector)].concat();
        cases.extend(ampere.into_iter().map(|case| match ab {
            Ty::F32 => case.tf32(),
            _ => case,
        }));
    }
    if arch == Arch::Sm90a && matches!(ab, Ty::F16 | Ty::Bf16) {
        cases.extend(by(GemmMethod::Hopper, vector));
    }
    if arch == Arch::Sm90a && matches!(ab, Ty::F32 | Ty::S8) {
        let hopper = by(GemmMethod::Hopper, vector).into_iter();
        cases.extend(hopper.map(|case| match ab {
            Ty::F32 => case.tf32(),
            _ => case,
        }));
    }
    cases
}

/// Returns a seventh of [`every_case`], some of every kernel, and for each kernel a product along K of more tiles than
/// are on their way at once: what a tool that slows kernels down a hundredfold gets through in a minute.
pub fn sampled_cases<T: GemmElement>(arch: Arch) -> Vec<GemmCase> {
    let every = every_case::<T>(arch);
    let mut methods: Vec<Option<GemmMethod>> = Vec::new();
    for case in &every {
        if !methods.contains(&case.method) {
            methods.push(case.method);
        }
    }
    let long = methods.into_iter().map(|method| {
        let like = every.iter().find(|case| case.method == method);
        let compute = like.and_then(|case| case.problem.compute);
        let mut problem = GemmProblem::new(136, 72, 528).alpha(3.0).beta(-2.0);
        problem.compute = compute;
        GemmCase {
            method,
            ..GemmCase::new(problem)
        }
    });
    every.iter().copied().step_by(7).chain(long).collect()
}

/// Returns products of many tiles.
pub fn large_cases() -> Vec<GemmCase> {
    let problem = GemmProblem::new;
    let [a, b] = [Operand::A, Operand::B];
    let problems = [
        problem(2048, 1536, 1024),
        problem(1001, 777, 513),
        problem(1000, 1016, 520)
            .major(a, Major::First)
            .alpha(3.0)
            .beta(-2.0),
        problem(4096, 264, 2056).major(b, Major::First),
    ];
    problems.map(GemmCase::new).to_vec()
}

/// Returns small products by a kernel: even and odd extents, every order, leading dimensions, shifted buffers, alpha
/// and beta. `whole` is how many elements a tensor map or a vector of 16 bytes wants leading dimensions to be multiples
/// of; 1 for a kernel that takes any.
pub fn gemm_cases(method: Option<GemmMethod>, whole: i64) -> Vec<GemmCase> {
    let mut cases = Vec::new();
    for (i, majors) in orders().into_iter().enumerate() {
        for [m, n, k] in [SIZES[0], SIZES[1 + i % (SIZES.len() - 1)]] {
            let mut problem = GemmProblem::new(m, n, k);
            problem.majors = majors;
            for (name, more) in Operand::ALL.into_iter().zip([3, 1, 5]) {
                let touching = problem.leading_of(name);
                let leading = (touching + (i as i64 % 2) * more + whole - 1) / whole * whole;
                problem = problem.leading(name, leading);
            }
            let (plain, scaled) = (problem, problem.alpha(3.0).beta(-2.0));
            cases.extend([plain, scaled].map(|problem| GemmCase {
                method,
                ..GemmCase::new(problem)
            }));
        }
    }
    if whole == 1 {
        let problem = GemmProblem::new(33, 34, 35).beta(1.0);
        cases.push(
            GemmCase {
                method,
                ..GemmCase::new(problem)
            }
            .shifted([1, 2, 3]),
        );
        // Rows of whole pairs, and of no more.
        cases.push(GemmCase {
            method,
            ..GemmCase::new(GemmProblem::new(34, 50, 22))
        });
        cases.push(GemmCase {
            method,
            ..GemmCase::new(GemmProblem::new(1, 1, 1))
        });
    }
    cases
}

/// M, N and K.
const SIZES: [[i64; 3]; 5] = [
    [64, 32, 48],
    [37, 41, 19],
    [130, 66, 40],
    [5, 150, 7],
    [129, 8, 33],
];

/// Returns what runs fastest in A, B and C, in all eight ways.
pub fn orders() -> Vec<[Major; 3]> {
    let both = [Major::First, Major::Second];
    let mut orders = Vec::new();
    for a in both {
        for b in both {
            orders.extend(both.map(|c| [a, b, c]));
        }
    }
    orders
}

impl fmt::Display for GemmCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.problem)?;
        if self.shift != [0; 3] {
            write!(f, ", {:?} elements later", self.shift)?;
        }
        if self.is_batch_invariant {
            write!(f, ", batch-invariant")?;
        }
        match self.method {
            None => Ok(()),
            Some(method) => write!(f, ", by {method}"),
        }
    }
}
