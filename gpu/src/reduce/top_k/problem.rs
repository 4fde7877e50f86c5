//! Which elements are selected along a mode of a tensor.

use core::fmt;

use colex_atom::Ty;
use colex_layout::{Int, IntTuple, Layout, Stride, Tuple};

use crate::error::{Error, ErrorKind, ReduceError};
use crate::memory_bound::plan::WIDEST;
use crate::reduce::problem::{
    MOST, ReduceMode, TYPES, check_sizes, distinct, extent_for_reports, joined, size, widest,
};

/// The most elements that a call selects along the mode.
pub const MOST_K: i64 = 4096;

/// What a kernel knows of its tensors: all but their extents, strides and addresses.
///
/// ```
/// use colex_atom::Ty;
/// use colex_gpu::reduce::top_k::{TopKOperands, TopKProblem};
///
/// let operands: TopKOperands = TopKProblem::new(Ty::Bf16, [64, 1000], 8)?.operands();
/// assert_eq!((operands.contiguous, operands.vector), (true, 8));
/// assert_eq!(operands.to_string(), "largest of bf16, indices of s32, 1 mode outside");
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TopKOperands {
    /// The type of the elements.
    pub ty: Ty,
    /// The type of the indices.
    pub index: Ty,
    /// Whether the smallest elements are selected.
    pub smallest: bool,
    /// The other modes: at least 1.
    pub outer: usize,
    /// Whether the mode has the stride 1 in `x`.
    pub contiguous: bool,
    /// The elements that one access takes of `x`, at most.
    pub vector: i64,
}

/// A selection along a mode of a tensor: the extents, and the strides of all tensors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TopKProblem {
    pub(crate) ty: Ty,
    pub(crate) index: Ty,
    pub(crate) smallest: bool,
    /// The other modes, with their strides in `x`, and in the values and the indices: at least one.
    pub(crate) outer: Vec<ReduceMode>,
    /// The mode; its extent is that of `x`.
    pub(crate) along: ReduceMode,
    /// The elements that are selected.
    pub(crate) k: i64,
    /// The elements of which the address of `x` is a multiple.
    pub(crate) aligned: i64,
}

/// The mode of one element.
const ONE: ReduceMode = ReduceMode {
    extent: 1,
    stride: 0,
    outputs: [0; 2],
};

impl TopKProblem {
    /// Builds the problem of the `k` largest elements of each row of a row-major matrix, with row-major results and indices of
    /// `s32`, at addresses that are multiples of 16 bytes.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::reduce::top_k::TopKProblem;
    ///
    /// let problem = TopKProblem::new(Ty::F32, [64, 1000], 8)?;
    /// assert_eq!(problem.to_string(), "8 largest of 1000 f32, 64 times");
    /// assert_eq!(problem.compulsory_bytes(), 4 * 64_000 + 64 * 8 * (4 + 4));
    /// let refused = TopKProblem::new(Ty::F32, [64, 5], 8).unwrap_err();
    /// assert_eq!(refused.to_string(), "the 8 largest of 5 elements: there must be at most 5");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if no kernel takes the type or the extents, if `k` is less than 1 or larger than 4096, or if a row has less
    /// than `k` elements.
    pub fn new(ty: Ty, [rows, columns]: [i64; 2], k: i64) -> Result<TopKProblem, Error> {
        for extent in [rows, columns] {
            let what = "an extent";
            if extent == 0 {
                return Err(ErrorKind::Empty { what }.into());
            }
            if !(1..=MOST).contains(&extent) {
                let most = MOST;
                return Err(ErrorKind::Extent { what, extent, most }.into());
            }
        }
        let row = ReduceMode {
            extent: rows,
            stride: columns,
            outputs: [k; 2],
        };
        let along = ReduceMode {
            extent: columns,
            stride: 1,
            outputs: [1; 2],
        };
        TopKProblem::of([ty, Ty::S32], false, vec![row], (along, k), WIDEST)
    }

    /// The problem of the other modes, and of the mode with the number of selected elements.
    pub(crate) fn of(
        [ty, index]: [Ty; 2],
        smallest: bool,
        others: Vec<ReduceMode>,
        (along, k): (ReduceMode, i64),
        aligned: i64,
    ) -> Result<TopKProblem, Error> {
        // One element has no neighbour along the mode, regardless of its stride.
        let along = if along.extent == 1 { ONE } else { along };
        let mut outer = joined(others);
        if outer.is_empty() {
            outer.push(ONE);
        }
        let problem = TopKProblem {
            ty,
            index,
            smallest,
            outer,
            along,
            k,
            aligned,
        };
        problem.check()?;
        Ok(problem)
    }

    /// A problem with these operands, whose numbers serve the reports.
    pub(crate) fn like(operands: &TopKOperands) -> TopKProblem {
        let mode = |extent: i64, stride: i64| ReduceMode {
            extent,
            stride,
            outputs: [stride; 2],
        };
        TopKProblem {
            ty: operands.ty,
            index: operands.index,
            smallest: operands.smallest,
            outer: (0..operands.outer as i64)
                .map(|i| mode(extent_for_reports(i), 1 << (20 + i)))
                .collect(),
            along: mode(4096, if operands.contiguous { 1 } else { 2 }),
            k: 64,
            aligned: WIDEST,
        }
    }

    /// Returns the number of selections, each along the mode.
    pub fn selections(&self) -> i64 {
        size(&self.outer)
    }

    /// Returns the number of elements that each selection has.
    pub fn k(&self) -> i64 {
        self.k
    }

    /// Returns the bytes that any kernel moves: each element is read once, and each result written once.
    pub fn compulsory_bytes(&self) -> i64 {
        let bytes = |ty: Ty| i64::from(ty.bits()) / 8;
        let of_one = (bytes(self.ty) + bytes(self.index)).saturating_mul(self.k);
        let written = self.selections().saturating_mul(of_one);
        self.read_bytes().saturating_add(written)
    }

    /// The bytes of the elements: one that is repeated along a mode counts once.
    pub(crate) fn read_bytes(&self) -> i64 {
        let modes = self.outer.iter().chain([&self.along]);
        distinct(modes).saturating_mul(i64::from(self.ty.bits()) / 8)
    }

    /// Returns what a kernel knows of the tensors.
    pub fn operands(&self) -> TopKOperands {
        let contiguous = self.along.stride == 1;
        let strides: Vec<i64> = self.outer.iter().map(|mode| mode.stride).collect();
        TopKOperands {
            ty: self.ty,
            index: self.index,
            smallest: self.smallest,
            outer: self.outer.len(),
            contiguous,
            vector: if contiguous {
                widest(self.ty, self.along.extent, self.aligned, &strides)
            } else {
                1
            },
        }
    }

    /// Returns the layouts of x, the values and the indices, (outer, along), and of the candidates of `parts` parts with `slots`
    /// each, (outer, candidate).
    pub(crate) fn layouts(
        &self,
        parts: i64,
        slots: i64,
    ) -> Result<[Layout; 4], colex_layout::Error> {
        let dynamic = |extent: i64, stride: i64| {
            Layout::leaf(Int::Dynamic(extent), Stride::Int(Int::Dynamic(stride)))
        };
        let of = |stride: &dyn Fn(&ReduceMode) -> i64, along: Layout| {
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
            Layout::concat(&[outer, along])
        };
        let along = &self.along;
        let read = if along.stride == 1 {
            Layout::leaf(Int::Dynamic(along.extent), Int::Static(1))?
        } else {
            dynamic(along.extent, along.stride)?
        };
        let candidates = parts.saturating_mul(slots);
        let candidates = [
            dynamic(self.selections(), candidates)?,
            Layout::leaf(Int::Dynamic(candidates), Int::Static(1))?,
        ];
        Ok([
            of(&|mode| mode.stride, read)?,
            of(&|mode| mode.outputs[0], dynamic(self.k, along.outputs[0])?)?,
            of(&|mode| mode.outputs[1], dynamic(self.k, along.outputs[1])?)?,
            Layout::concat(&candidates)?,
        ])
    }

    fn check(&self) -> Result<(), Error> {
        if !TYPES.contains(&self.ty) {
            let (function, ty) = ("top-k".to_string(), self.ty);
            return Err(ReduceError::Type { function, ty }.into());
        }
        // Before the strides of the results, which grow with k.
        let (k, extent) = (self.k, self.along.extent);
        let most = extent.min(MOST_K);
        if !(1..=most).contains(&k) {
            let which = which(self.smallest);
            return Err(ReduceError::Selected {
                which,
                k,
                extent,
                most,
            }
            .into());
        }
        check_sizes("the number of selections", &self.outer)?;
        check_sizes("the extent of the mode", &[self.along])?;
        Ok(())
    }
}

/// The word for the elements that are selected.
pub(crate) fn which(smallest: bool) -> &'static str {
    if smallest { "smallest" } else { "largest" }
}

/// `8 largest of 1000 f32, 64 times`
impl fmt::Display for TopKProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (k, extent, ty) = (self.k, self.along.extent, self.ty);
        let which = which(self.smallest);
        write!(f, "{k} {which} of {extent} {ty}")?;
        match self.selections() {
            1 => write!(f, ", once"),
            times => write!(f, ", {times} times"),
        }
    }
}

/// `largest of bf16, indices of s32, 1 mode outside`
impl fmt::Display for TopKOperands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (outer, s) = (self.outer, if self.outer == 1 { "" } else { "s" });
        write!(
            f,
            "{} of {}, indices of {}, {outer} mode{s} outside",
            which(self.smallest),
            self.ty,
            self.index
        )
    }
}
