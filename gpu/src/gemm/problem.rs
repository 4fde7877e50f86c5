//! `GemmProblem`: the description of a matrix product, which is checked before a kernel is chosen.

use core::fmt;

use colex_atom::{Major, Ty};
use colex_layout::{IntTuple, Layout, Stride, Tuple};
use colex_tiled::Operand;
use half::{bf16, f16};

use super::call::Gemm;
use crate::error::{Error, ErrorKind};
use crate::method::Compute;
use colex_device::{DeviceSlice, Element, View, ViewMut};

// Collectives move every element of a product.
#[cfg(not(feature = "nccl"))]
use colex_device::Element as CollectiveElement;
#[cfg(feature = "nccl")]
use colex_device::cuda::NcclElement as CollectiveElement;

/// An element type of GEMM operands and results.
pub trait GemmElement: Element + CollectiveElement {
    /// Its type in the table of atoms.
    const TY: Ty;

    /// The default accumulator type of products of such elements.
    const COMPUTE: Compute;

    /// Its value.
    fn to_f64(self) -> f64;

    /// Rounds to the nearest value of the type.
    fn from_f64(value: f64) -> Self;
}

macro_rules! gemm_elements {
    ($($ty:ident = $name:ident, $compute:ident, $to:expr, $from:expr;)*) => {$(
        impl GemmElement for $ty {
            const TY: Ty = Ty::$name;
            const COMPUTE: Compute = Compute::$compute;

            fn to_f64(self) -> f64 {
                $to(self)
            }

            fn from_f64(value: f64) -> $ty {
                $from(value)
            }
        }
    )*};
}

gemm_elements! {
    f64 = F64, F64, |x| x, |x| x;
    f32 = F32, F32, f64::from, |x| x as f32;
    f16 = F16, F32, f16::to_f64, |x| f16::from_f32(odd(x));
    bf16 = Bf16, F32, bf16::to_f64, |x| bf16::from_f32(odd(x));
    i32 = S32, S32, f64::from, |x: f64| x.round() as i32;
    i8 = S8, S32, f64::from, |x: f64| x.round() as i8;
}

/// Rounds to `f32` such that a second rounding to a half is that of the number itself: one that `f32` does not hold becomes the one
/// of its two neighbours whose last bit is 1. `half`'s own conversions from `f64` ignore the lower 32 bits.
fn odd(x: f64) -> f32 {
    let nearest = x as f32;
    let back = f64::from(nearest);
    if back == x || !nearest.is_finite() {
        return nearest;
    }
    let towards_zero = if back.abs() > x.abs() {
        f32::from_bits(nearest.to_bits() - 1)
    } else {
        nearest
    };
    f32::from_bits(towards_zero.to_bits() | 1)
}

/// Whether `f32` holds a number but for a rounding: a finite one stays finite, and one that is not 0 does not become 0.
pub(crate) fn holds_f32(x: f64) -> bool {
    let narrow = x as f32;
    x.is_finite() == narrow.is_finite() && (x == 0.0) == (narrow == 0.0)
}

/// `C = alpha A B^T + beta C` with A (M,K), B (N,K) and C (M,N): the shapes and majors of CuTe's GEMM.
///
/// ```
/// use colex_gpu::kernels::{GemmProblem, Major, Operand};
///
/// let problem = GemmProblem::new(512, 256, 128).major(Operand::B, Major::First).alpha(0.5);
/// assert_eq!(problem.to_string(), "gemm 512x256x128, A (512,128):(128,1), B (256,128):(1,256), C (512,256):(256,1), alpha 0.5, beta 0");
///
/// let error = problem.leading(Operand::A, 100).check().unwrap_err();
/// assert_eq!(error.to_string(), "lda is 100: it must be at least K, which is 128");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GemmProblem {
    /// Rows of A and C.
    pub m: i64,
    /// Rows of B, columns of C.
    pub n: i64,
    /// Columns of A and B.
    pub k: i64,
    /// The number of products of these extents, whose matrices follow each other.
    pub batch: i64,
    /// The contiguous modes of A, B and C.
    pub majors: [Major; 3],
    /// Elements from one row (or column) of A, B and C to the next; `None` if they touch.
    pub leading: [Option<i64>; 3],
    /// The factor of the product.
    pub alpha: f64,
    /// The factor of the old C. If it is 0, C is not read.
    pub beta: f64,
    /// The accumulator type; `None` for [`GemmElement::COMPUTE`] of the operands.
    pub compute: Option<Compute>,
    /// What an epilogue of the caller does for each element of C; `None` if C is the scaled sum. The choice of a plan reads it; a
    /// kernel does not.
    pub epilogue: Option<EpilogueWork>,
    /// Whether a chosen plan keeps A and B in their places. In a swapped product, neighbouring columns of C belong to different threads,
    /// which a closure of the epilogue may need in one.
    pub keeps_sides: bool,
    /// Whether the product is alone: the modes of a batch of its call have the extent 1, and it has no groups, lists or chunks, and is no
    /// convolution. The choice of a plan reads it: a kernel for [several widths](crate::kernels::gemm::GemmPlan::columns) computes one product.
    pub alone: bool,
}

/// What an epilogue of the caller does for each element of C beyond the scaled sum, as far as the choice of a plan knows it.
///
/// ```
/// use colex_atom::{Arch, Ty};
/// use colex_gpu::Device;
/// use colex_gpu::kernels::gemm::{GemmPlan, Operands};
/// use colex_gpu::kernels::{EpilogueWork, GemmProblem, Major};
/// use colex_sched::pipeline::Schedule;
///
/// let majors = [Major::Second; 3];
/// let operands = Operands { ab: Ty::Bf16, c: Ty::Bf16, majors, vectors: [8; 3], beta: false, gated: false };
/// let device = Device::simulator(Arch::Sm90a);
/// let first = |problem: &GemmProblem| GemmPlan::alternatives(problem, operands, &device)[0];
/// // One of several products in a launch, whose plans have one width.
/// let plain = GemmProblem { alone: false, ..GemmProblem::new(8192, 8192, 8192) };
/// assert_eq!(first(&plain).schedule, Schedule::Cooperative);
/// // A residual of 16 bits and a bias: the pingpong schedule hides what they cost.
/// let work = EpilogueWork { instructions: 3, special_functions: 0, tensor_bytes: 2 };
/// let residual = GemmProblem { epilogue: Some(work), ..plain };
/// assert_eq!(first(&residual).schedule, Schedule::Pingpong);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EpilogueWork {
    /// Instructions of its formulas: the steps of a [`Formula`](colex_tensor::Formula) but inputs and constants.
    pub instructions: u32,
    /// Those of them that the special function units execute
    /// ([`Formula::special_functions`](colex_tensor::Formula::special_functions)).
    pub special_functions: u32,
    /// Bytes of elements that it reads from tensors which vary along both modes of C, such as a residual. A tensor that varies along one
    /// of them, such as a bias, counts by its instructions alone.
    pub tensor_bytes: u32,
}

/// The largest stride that a kernel takes as it is.
pub(crate) const MOST: i64 = i32::MAX as i64;

/// The largest extent: kernels count coordinates with 32 bits, also those of tiles that reach beyond the end.
pub(crate) const MOST_EXTENT: i64 = colex_tensor::MAX_EXTENT;

impl GemmProblem {
    /// Returns the product of compact matrices with K contiguous in A and B, N contiguous in C, alpha 1 and beta 0.
    pub fn new(m: i64, n: i64, k: i64) -> GemmProblem {
        GemmProblem {
            m,
            n,
            k,
            batch: 1,
            majors: [Major::Second; 3],
            leading: [None; 3],
            alpha: 1.0,
            beta: 0.0,
            compute: None,
            epilogue: None,
            keeps_sides: false,
            alone: true,
        }
    }

    /// Returns the same problem with the contiguous mode of `matrix` set.
    #[must_use]
    pub fn major(mut self, matrix: Operand, major: Major) -> GemmProblem {
        self.majors[matrix as usize] = major;
        self
    }

    /// Returns the same problem with `elements` elements from one row (or column) of a matrix to the next.
    #[must_use]
    pub fn leading(mut self, matrix: Operand, elements: i64) -> GemmProblem {
        self.leading[matrix as usize] = Some(elements);
        self
    }

    /// Returns the problem of a number of such products, each matrix behind the one before.
    ///
    /// ```
    /// use colex_gpu::{Device, kernels::GemmProblem};
    ///
    /// let device = Device::open();
    /// let (a, b) = (device.upload(&[1f32, 2.0, 3.0])?, device.upload(&[4f32, 5.0, 6.0])?);
    /// let mut c = device.poisoned::<f32>(3)?;
    /// let products = GemmProblem::new(1, 1, 1).batch(3);
    /// assert_eq!(
    ///     products.to_string(),
    ///     "gemm 1x1x1, 3 times, A (1,1,3):(1,1,1), B (1,1,3):(1,1,1), C (1,1,3):(1,1,1), alpha 1, beta 0"
    /// );
    /// products.on(&a, &b, &mut c)?.run()?;
    /// assert_eq!(c.download()?, [4.0, 10.0, 18.0]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    #[must_use]
    pub fn batch(self, batch: i64) -> GemmProblem {
        GemmProblem { batch, ..self }
    }

    /// Returns the same problem with another factor of the product.
    #[must_use]
    pub fn alpha(self, alpha: f64) -> GemmProblem {
        GemmProblem { alpha, ..self }
    }

    /// Returns the same problem with another factor of the old C.
    #[must_use]
    pub fn beta(self, beta: f64) -> GemmProblem {
        GemmProblem { beta, ..self }
    }

    /// Returns the same problem with another accumulator type, for example [`Compute::Tf32`] for operands of f32.
    #[must_use]
    pub fn compute(self, compute: Compute) -> GemmProblem {
        GemmProblem {
            compute: Some(compute),
            ..self
        }
    }

    /// Returns the extents of a matrix, and their names.
    pub fn extents(&self, matrix: Operand) -> [(i64, &'static str); 2] {
        let (m, n, k) = ((self.m, "M"), (self.n, "N"), (self.k, "K"));
        match matrix {
            Operand::A => [m, k],
            Operand::B => [n, k],
            Operand::C => [m, n],
        }
    }

    /// Returns the leading dimension of a matrix, in elements.
    pub fn leading_of(&self, matrix: Operand) -> i64 {
        let [first, second] = self.extents(matrix);
        let touching = match self.majors[matrix as usize] {
            Major::First => first.0,
            Major::Second => second.0,
        };
        self.leading[matrix as usize].unwrap_or(touching)
    }

    /// Returns the layout of a matrix: `(M,K):(lda,1)` or `(M,K):(1,lda)`.
    ///
    /// # Errors
    ///
    /// Returns an error if an extent or the number of products is below 0 or above 2^31 - 2^17, or is 0, since no layout has an
    /// extent of 0.
    pub fn layout(&self, matrix: Operand) -> Result<Layout, Error> {
        let extents = self.extents(matrix);
        for (extent, what) in extents {
            check_extent(what, extent)?;
            if extent == 0 {
                return Err(ErrorKind::Empty { what }.into());
            }
        }
        if self.batch != 1 {
            let what = "the number of products";
            check_extent(what, self.batch)?;
            if self.batch == 0 {
                return Err(ErrorKind::Empty { what }.into());
            }
        }
        let ([extents, strides], modes) = self.numbers(matrix);
        let shape = IntTuple::flat(extents[..modes].iter().map(|extent| (*extent).into()));
        let stride = Tuple::flat(strides[..modes].iter().map(|stride| Stride::from(*stride)));
        Ok(Layout::new(shape, stride).map_err(colex_tensor::Error::from)?)
    }

    /// The extents and the strides of a matrix, and its number of modes: a single product has no mode of the batch.
    fn numbers(&self, matrix: Operand) -> ([[i64; 3]; 2], usize) {
        let [first, second] = self.extents(matrix).map(|(extent, _)| extent);
        let [down, across] = match self.majors[matrix as usize] {
            Major::First => [1, self.leading_of(matrix)],
            Major::Second => [self.leading_of(matrix), 1],
        };
        let numbers = [
            [first, second, self.batch],
            [down, across, self.apart(matrix)],
        ];
        (numbers, if self.batch == 1 { 2 } else { 3 })
    }

    /// The problem with extents from 0 to the greatest that fit 31 bits: what is computed of one before its check fits 64 bits.
    pub(crate) fn possible(&self) -> GemmProblem {
        let within = |n: i64| n.clamp(0, MOST);
        GemmProblem {
            m: within(self.m),
            n: within(self.n),
            k: within(self.k),
            batch: within(self.batch),
            leading: self.leading.map(|elements| elements.map(within)),
            ..*self
        }
    }

    /// Returns the number of elements from one matrix of a batch to the next.
    fn apart(&self, matrix: Operand) -> i64 {
        let [first, second] = self.extents(matrix).map(|(extent, _)| extent);
        let rows = match self.majors[matrix as usize] {
            Major::First => second,
            Major::Second => first,
        };
        rows.saturating_mul(self.leading_of(matrix))
    }

    /// Returns the problem whose C is the transpose of this one's: `C^T = alpha B A^T + beta C^T`.
    pub(crate) fn turned(&self) -> GemmProblem {
        let ([a, b, c], [lda, ldb, ldc]) = (self.majors, self.leading);
        GemmProblem {
            m: self.n,
            n: self.m,
            majors: [b, a, c.transposed()],
            leading: [ldb, lda, ldc],
            ..*self
        }
    }

    /// Checks the extents and the leading dimensions.
    ///
    /// # Errors
    ///
    /// Returns an error if an extent or the number of products is below 0 or above 2^31 - 2^17, or if a leading dimension is too
    /// short or above 2^31 - 1.
    pub fn check(&self) -> Result<(), Error> {
        check_extent("the number of products", self.batch)?;
        for (matrix, what) in NAMED {
            let [first, second] = self.extents(matrix);
            let (least, over) = match self.majors[matrix as usize] {
                Major::First => first,
                Major::Second => second,
            };
            check_extent(first.1, first.0)?;
            check_extent(second.1, second.0)?;
            let found = self.leading_of(matrix);
            if found < least {
                return Err(ErrorKind::LeadingDimension {
                    what,
                    found,
                    least,
                    over,
                }
                .into());
            }
            check_to(what, found, MOST)?;
        }
        Ok(())
    }

    /// Returns the product of the matrices in these buffers, with the shapes and leading dimensions of the problem.
    ///
    /// ```
    /// use colex_gpu::{Device, kernels::GemmProblem};
    ///
    /// let device = Device::open();
    /// let (a, b) = (device.upload(&[2f32; 3])?, device.upload(&[3f32; 3])?);
    /// let mut c = device.poisoned::<f32>(1)?;
    /// GemmProblem::new(1, 1, 3).on(&a, &b, &mut c)?.run()?;
    /// assert_eq!(c.download()?, [18.0]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`check`](Self::check) and of a view, and an error if a buffer does not hold its matrix.
    pub fn on<'a, T: GemmElement, C: GemmElement>(
        &self,
        a: &'a impl DeviceSlice<T>,
        b: &'a impl DeviceSlice<T>,
        c: &'a mut impl DeviceSlice<C>,
    ) -> Result<Gemm<'a, T, C>, Error> {
        self.check()?;
        for (operand, length) in [
            (Operand::A, a.count()),
            (Operand::B, b.count()),
            (Operand::C, c.count()),
        ] {
            self.check_length(operand, length)?;
        }
        let [of_a, of_b, of_c] = [Operand::A, Operand::B, Operand::C].map(|of| self.numbers(of));
        let ([extents, strides], modes) = of_a;
        let a = View::strided(a, &extents[..modes], &strides[..modes])?;
        let ([extents, strides], modes) = of_b;
        let b = View::strided(b, &extents[..modes], &strides[..modes])?;
        let ([extents, strides], modes) = of_c;
        let c = ViewMut::strided(c, &extents[..modes], &strides[..modes])?;
        let gemm = Gemm::of([a, b], (*c).clone());
        let gemm = gemm.alpha(self.alpha).beta(self.beta);
        Ok(gemm.compute_if(self.compute).majors(self.majors))
    }

    /// Checks that memory of `length` elements holds a matrix.
    fn check_length(&self, matrix: Operand, length: usize) -> Result<(), Error> {
        let [first, second] = self.extents(matrix).map(|(extent, _)| extent - 1);
        let (slow, fast) = match self.majors[matrix as usize] {
            Major::First => (second, first),
            Major::Second => (first, second),
        };
        // One more than the last offset, of 62 bits: `check` has seen that each number has 31.
        let need = slow * self.leading_of(matrix) + fast + 1;
        let before = (self.batch - 1).saturating_mul(self.apart(matrix));
        let need = need.saturating_add(before);
        if first >= 0 && second >= 0 && self.batch > 0 && need > length as i64 {
            return Err(ErrorKind::Short {
                what: matrix.name(),
                need,
                length,
            }
            .into());
        }
        Ok(())
    }
}

const NAMED: [(Operand, &str); 3] = [
    (Operand::A, "lda"),
    (Operand::B, "ldb"),
    (Operand::C, "ldc"),
];

pub(crate) fn check_extent(what: &'static str, extent: i64) -> Result<(), Error> {
    check_to(what, extent, MOST_EXTENT)
}

fn check_to(what: &'static str, extent: i64, most: i64) -> Result<(), Error> {
    if (0..=most).contains(&extent) {
        Ok(())
    } else {
        Err(ErrorKind::Extent { what, extent, most }.into())
    }
}

/// `gemm 512x256x128, A .., B .., C .., alpha 1, beta 0`.
impl fmt::Display for GemmProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gemm {}x{}x{}", self.m, self.n, self.k)?;
        if self.batch != 1 {
            write!(f, ", {} times", self.batch)?;
        }
        for matrix in Operand::ALL {
            let name = matrix.name();
            match self.layout(matrix) {
                Ok(layout) => write!(f, ", {name} {layout}")?,
                Err(error) => write!(f, ", {name}: {error}")?,
            }
        }
        write!(f, ", alpha {}, beta {}", self.alpha, self.beta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the neighbours of every finite number of a half type that is not negative: a number between two rounds to the
    /// nearer one, and the one in the middle to that with an even last bit, however small the difference from the middle is.
    fn rounds_to_nearest<T: GemmElement + PartialEq>(of: fn(u16) -> T, finite: u16) -> usize {
        let mut cases = 0;
        for bits in 0..finite {
            let [low, high] = [bits, bits + 1].map(|bits| of(bits).to_f64());
            let middle = low.midpoint(high);
            let [below, above] = [-1.0, 1.0].map(|sign| middle * (1.0 + sign * 2f64.powi(-50)));
            let even = if bits % 2 == 0 { low } else { high };
            for (x, want) in [
                (low, low),
                (below, low),
                (middle, even),
                (above, high),
                (high, high),
            ] {
                for sign in [1.0, -1.0] {
                    let found = T::from_f64(sign * x).to_f64();
                    assert_eq!(found, sign * want, "{x:e} between {low:e} and {high:e}");
                    cases += 1;
                }
            }
        }
        cases
    }

    #[test]
    fn law_a_number_rounds_to_the_nearest_half() {
        let cases =
            rounds_to_nearest(f16::from_bits, 0x7bff) + rounds_to_nearest(bf16::from_bits, 0x7f7f);
        assert_eq!(f16::from_f64(1e9), f16::INFINITY);
        assert!(<bf16 as GemmElement>::from_f64(f64::NAN).is_nan());
        assert!(<f16 as GemmElement>::from_f64(-1e-300).is_sign_negative());
        println!("law gemm.rounds_to_half: {cases} cases");
    }
}
