//! What is added up along a mode of a tensor.

use core::fmt;

use colex_atom::Ty;
use colex_layout::{Int, IntTuple, Layout, Stride, Tuple};

use crate::error::{Error, ErrorKind, ReduceError};
use crate::memory_bound::plan::WIDEST;
use crate::reduce::problem::{
    MOST, ReduceMode, TYPES, check_sizes, distinct, extent_for_reports, joined, size, widest,
};

/// What a kernel knows of its tensors: all but their extents, strides and addresses.
///
/// ```
/// use colex_atom::Ty;
/// use colex_gpu::reduce::scan::{ScanOperands, ScanProblem};
///
/// let problem = ScanProblem::new(Ty::Bf16, [1, 100, 1000])?;
/// let operands: ScanOperands = problem.operands();
/// // The last mode is not added up, and runs fastest: a thread has 8 columns.
/// assert_eq!((operands.keeps_inner, operands.vector), (true, 8));
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScanOperands {
    /// The type of the elements.
    pub ty: Ty,
    /// Whether an element is left out of its own sum.
    pub exclusive: bool,
    /// Whether another mode than that of the sums runs fastest.
    pub keeps_inner: bool,
    /// The other modes, that one left out: at least 1.
    pub outer: usize,
    /// Whether the mode that runs fastest has the stride 1 in both tensors.
    pub contiguous: bool,
    /// The elements that one access takes of both tensors, at most.
    pub vector: i64,
}

/// Cumulative sums along a mode of a tensor: the extents, and the strides of both tensors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScanProblem {
    pub(crate) ty: Ty,
    pub(crate) exclusive: bool,
    pub(crate) keeps_inner: bool,
    /// The other modes, the inner one left out: at least one.
    pub(crate) outer: Vec<ReduceMode>,
    /// The mode of the sums.
    pub(crate) along: ReduceMode,
    /// The inner mode, if it is another one; else one element.
    pub(crate) inner: ReduceMode,
    /// The elements of which the addresses of both tensors are multiples.
    pub(crate) aligned: [i64; 2],
}

/// The mode of one element.
const ONE: ReduceMode = ReduceMode {
    extent: 1,
    stride: 0,
    outputs: [0; 2],
};

impl ScanProblem {
    /// Builds the problem of row-major tensors of three modes, at addresses that are multiples of 16 bytes: the sums run along the
    /// second one, and include each element.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::reduce::scan::ScanProblem;
    ///
    /// let problem = ScanProblem::new(Ty::F32, [64, 1000, 1])?;
    /// assert_eq!(problem.to_string(), "cumulative sum f32, 64 sums of 1000");
    /// assert_eq!(problem.compulsory_bytes(), 2 * 4 * 64000);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if no kernel takes the type or the extents.
    pub fn new(ty: Ty, [outer, along, inner]: [i64; 3]) -> Result<ScanProblem, Error> {
        for extent in [outer, along, inner] {
            if extent == 0 {
                let what = "an extent";
                return Err(ErrorKind::Empty { what }.into());
            }
            if !(1..=MOST).contains(&extent) {
                let (what, most) = ("an extent", MOST);
                return Err(ErrorKind::Extent { what, extent, most }.into());
            }
        }
        let mode = |extent: i64, stride: i64| ReduceMode {
            extent,
            stride,
            outputs: [stride; 2],
        };
        let others = vec![mode(outer, along.saturating_mul(inner)), mode(inner, 1)];
        ScanProblem::of(ty, false, others, mode(along, inner), [WIDEST; 2])
    }

    /// The problem of the other modes and that of the sums.
    pub(crate) fn of(
        ty: Ty,
        exclusive: bool,
        others: Vec<ReduceMode>,
        along: ReduceMode,
        aligned: [i64; 2],
    ) -> Result<ScanProblem, Error> {
        // One element has no neighbour along the mode, regardless of its stride.
        let along = if along.extent == 1 { ONE } else { along };
        let mut outer = joined(others);
        let steps = |mode: &ReduceMode| match mode.stride.abs() {
            0 => i64::MAX,
            stride => stride,
        };
        let least = (outer.iter().enumerate()).min_by_key(|(_, mode)| steps(mode));
        let inner = match least {
            Some((at, mode)) if along.extent == 1 || steps(mode) < steps(&along) => Some(at),
            _ => None,
        };
        let inner_mode = inner.map_or(ONE, |at| outer.remove(at));
        if outer.is_empty() {
            outer.push(ONE);
        }
        let problem = ScanProblem {
            ty,
            exclusive,
            keeps_inner: inner.is_some(),
            outer,
            along,
            inner: inner_mode,
            aligned,
        };
        problem.check()?;
        Ok(problem)
    }

    /// A problem with these operands, whose numbers serve the reports.
    pub(crate) fn like(operands: &ScanOperands) -> ScanProblem {
        let fastest = if operands.contiguous { 1 } else { 2 };
        let mode = |extent: i64, stride: i64| ReduceMode {
            extent,
            stride,
            outputs: [stride; 2],
        };
        let [along, inner] = if operands.keeps_inner {
            [mode(64, 4096), mode(4096, fastest)]
        } else {
            [mode(4096, fastest), ONE]
        };
        ScanProblem {
            ty: operands.ty,
            exclusive: operands.exclusive,
            keeps_inner: operands.keeps_inner,
            outer: (0..operands.outer as i64)
                .map(|i| mode(extent_for_reports(i), 1 << (20 + i)))
                .collect(),
            along,
            inner,
            aligned: [WIDEST; 2],
        }
    }

    /// Returns the number of sums, each along the mode.
    pub fn sums(&self) -> i64 {
        size(&self.outer).saturating_mul(self.inner.extent)
    }

    /// Returns the bytes that any kernel moves: each element is read once, and each sum written once.
    pub fn compulsory_bytes(&self) -> i64 {
        let sums = self.sums().saturating_mul(self.along.extent);
        let written = sums.saturating_mul(i64::from(self.ty.bits()) / 8);
        self.read_bytes().saturating_add(written)
    }

    /// The bytes of the elements: one that is repeated along a mode counts once.
    pub(crate) fn read_bytes(&self) -> i64 {
        let modes = self.outer.iter().chain([&self.along, &self.inner]);
        distinct(modes).saturating_mul(i64::from(self.ty.bits()) / 8)
    }

    /// The mode that runs fastest.
    fn fastest(&self) -> &ReduceMode {
        if self.keeps_inner {
            &self.inner
        } else {
            &self.along
        }
    }

    fn is_contiguous(&self) -> bool {
        let ReduceMode {
            stride, outputs, ..
        } = self.fastest();
        *stride == 1 && outputs[0] == 1
    }

    /// Returns what a kernel knows of the tensors.
    pub fn operands(&self) -> ScanOperands {
        let vector = if self.is_contiguous() {
            let mut slow: Vec<&ReduceMode> = self.outer.iter().collect();
            if self.keeps_inner {
                slow.push(&self.along);
            }
            let of = |stride: &dyn Fn(&ReduceMode) -> i64, aligned: i64| {
                let strides: Vec<i64> = slow.iter().map(|mode| stride(mode)).collect();
                widest(self.ty, self.fastest().extent, aligned, &strides)
            };
            let [x, y] = self.aligned;
            of(&|mode| mode.stride, x).min(of(&|mode| mode.outputs[0], y))
        } else {
            1
        };
        ScanOperands {
            ty: self.ty,
            exclusive: self.exclusive,
            keeps_inner: self.keeps_inner,
            outer: self.outer.len(),
            contiguous: self.is_contiguous(),
            vector,
        }
    }

    /// Returns the layouts of x and y, (outer, along, inner), and of the sums of `parts` parts.
    pub(crate) fn layouts(&self, parts: i64) -> Result<[Layout; 3], colex_layout::Error> {
        let dynamic = |extent: i64, stride: i64| {
            Layout::leaf(Int::Dynamic(extent), Stride::Int(Int::Dynamic(stride)))
        };
        let fast = |extent: i64, stride: i64| {
            if self.is_contiguous() {
                Layout::leaf(Int::Dynamic(extent), Int::Static(1))
            } else {
                dynamic(extent, stride)
            }
        };
        let one = || Layout::leaf(Int::Static(1), Int::Static(0));
        let of = |stride: &dyn Fn(&ReduceMode) -> i64| {
            let outer = match &self.outer[..] {
                [one] => dynamic(one.extent, stride(one))?,
                modes => {
                    let shape = IntTuple::flat(modes.iter().map(|mode| Int::Dynamic(mode.extent)));
                    let strides = modes
                        .iter()
                        .map(|mode| Stride::Int(Int::Dynamic(stride(mode))));
                    Layout::new(shape, Tuple::flat(strides))?
                }
            };
            let (along, inner) = (&self.along, &self.inner);
            let fastest = if self.keeps_inner {
                [
                    dynamic(along.extent, stride(along))?,
                    fast(inner.extent, stride(inner))?,
                ]
            } else {
                [fast(along.extent, stride(along))?, one()?]
            };
            let [along, inner] = fastest;
            Layout::concat(&[outer, along, inner])
        };
        let (outer, inner) = (size(&self.outer), self.inner.extent);
        let last = if self.keeps_inner {
            Layout::leaf(Int::Dynamic(inner), Int::Static(1))?
        } else {
            one()?
        };
        let sums = [
            dynamic(outer, parts.saturating_mul(inner))?,
            dynamic(parts, inner)?,
            last,
        ];
        Ok([
            of(&|mode| mode.stride)?,
            of(&|mode| mode.outputs[0])?,
            Layout::concat(&sums)?,
        ])
    }

    fn check(&self) -> Result<(), Error> {
        let function = || "cumulative sum".to_string();
        if !TYPES.contains(&self.ty) {
            let (function, ty) = (function(), self.ty);
            return Err(ReduceError::Type { function, ty }.into());
        }
        check_sizes("the number of sums", &self.outer)?;
        check_sizes("the extent of the mode of the sums", &[self.along])?;
        check_sizes("the extent of the inner mode", &[self.inner])
    }
}

/// `cumulative sum f32, 64 sums of 1000`
impl fmt::Display for ScanProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sums, along) = (self.sums(), self.along.extent);
        let s = if sums == 1 { "" } else { "s" };
        let kind = if self.exclusive { "exclusive " } else { "" };
        write!(
            f,
            "{kind}cumulative sum {}, {sums} sum{s} of {along}",
            self.ty
        )
    }
}
