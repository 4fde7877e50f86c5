//! What is computed along the modes of a tensor.

use core::fmt;

use colex_atom::Ty;
use colex_layout::{Int, IntTuple, Layout, Stride, Tuple};

use super::plan::MOST_SHIFTED;
use crate::error::{Error, ErrorKind, ReduceError};
use crate::memory_bound::modes::{self, shown};
use crate::memory_bound::plan::{WIDEST, refused_operands};

/// A function of the elements of a tensor along some of its modes.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceFunction {
    /// The sum.
    Sum,
    /// The sum over the number of elements.
    Mean,
    /// The largest element. A NaN counts as larger than every number.
    Max,
    /// The smallest element. A NaN counts as smaller than every number.
    Min,
    /// The sum of the squares, in f32: it is infinite from the square of 1.8e19 on.
    SquareSum,
    /// The root of the sum of the squares. It is infinite where that sum is, and 0 where all squares are below f32's least number: the
    /// elements are not scaled, so their sizes must lie between 1e-19 and 1e19.
    Norm,
    /// The largest size of an element. A NaN counts for none, as in the scale of a [quantisation](mod@crate::quantise): of NaN alone it
    /// is 0. Elements are floats.
    AbsMax,
    /// The index of the largest element, the lowest of several. A NaN counts as larger than every number.
    ArgMax,
    /// The index of the smallest element, the lowest of several. A NaN counts as smaller than every number.
    ArgMin,
}

impl ReduceFunction {
    /// All of them.
    pub const ALL: [ReduceFunction; 9] = [
        ReduceFunction::Sum,
        ReduceFunction::Mean,
        ReduceFunction::Max,
        ReduceFunction::Min,
        ReduceFunction::SquareSum,
        ReduceFunction::Norm,
        ReduceFunction::AbsMax,
        ReduceFunction::ArgMax,
        ReduceFunction::ArgMin,
    ];

    /// Returns whether its result is an index.
    pub fn is_index(self) -> bool {
        matches!(self, ReduceFunction::ArgMax | ReduceFunction::ArgMin)
    }

    /// Returns whether it is a sum, with another number at its end perhaps.
    pub(crate) fn is_sum(self) -> bool {
        match self {
            ReduceFunction::Sum
            | ReduceFunction::Mean
            | ReduceFunction::SquareSum
            | ReduceFunction::Norm => true,
            ReduceFunction::Max
            | ReduceFunction::Min
            | ReduceFunction::AbsMax
            | ReduceFunction::ArgMax
            | ReduceFunction::ArgMin => false,
        }
    }

    /// Returns whether what is added are squares.
    pub(crate) fn is_of_squares(self) -> bool {
        matches!(self, ReduceFunction::SquareSum | ReduceFunction::Norm)
    }

    /// Returns whether it looks for the largest element.
    pub(crate) fn is_largest(self) -> bool {
        matches!(
            self,
            ReduceFunction::Max | ReduceFunction::AbsMax | ReduceFunction::ArgMax
        )
    }

    /// Returns whether it is one of the elements, or the size of one, and no index.
    pub(crate) fn is_best(self) -> bool {
        !self.is_sum() && !self.is_index()
    }

    /// Returns the type of the numbers that several blocks leave for one result. A best element has the type of the elements, which loses
    /// nothing.
    pub(crate) fn part_ty(self, ty: Ty) -> Ty {
        match self {
            _ if self.is_index() => Ty::S64,
            _ if ty.is_integer() => Ty::S32,
            _ if self.is_best() => ty,
            _ => Ty::F32,
        }
    }
}

impl fmt::Display for ReduceFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReduceFunction::Sum => "sum",
            ReduceFunction::Mean => "mean",
            ReduceFunction::Max => "max",
            ReduceFunction::Min => "min",
            ReduceFunction::SquareSum => "sum of squares",
            ReduceFunction::Norm => "norm",
            ReduceFunction::AbsMax => "abs-max",
            ReduceFunction::ArgMax => "arg-max",
            ReduceFunction::ArgMin => "arg-min",
        })
    }
}

/// The part of a reduction that a kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceStage {
    /// All of it.
    Whole,
    /// The elements of one part of several, for each result.
    Part,
    /// The parts.
    Combine,
}

/// What a kernel knows of its tensors: all but their extents, strides and addresses.
///
/// ```
/// use colex_atom::Ty;
/// use colex_gpu::reduce::{ReduceFunction, ReduceOperands, ReduceProblem};
///
/// let problem = ReduceProblem::new(ReduceFunction::Sum, Ty::Bf16, &[64, 100, 1000], &[1])?;
/// let operands: ReduceOperands = problem.operands();
/// // The last mode is kept and runs fastest: a thread has 8 columns.
/// assert_eq!((operands.keeps_inner, operands.vector, operands.stored), (true, 8, 8));
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReduceOperands {
    /// The function.
    pub function: ReduceFunction,
    /// The part of it that the kernel has.
    pub stage: ReduceStage,
    /// The type of the elements.
    pub ty: Ty,
    /// The type of the results.
    pub result: Ty,
    /// The type of the elements that an arg-max or arg-min stores too, if it does: that of the tensor.
    pub values: Option<Ty>,
    /// Whether the inner mode, which runs fastest, is kept; otherwise it is reduced.
    pub keeps_inner: bool,
    /// The modes of the results, the inner one left out: at least 1.
    pub outer: usize,
    /// The modes that are reduced, the inner one left out: at least 1.
    pub reduced: usize,
    /// Whether the inner mode has the stride 1.
    pub contiguous: bool,
    /// The elements that one access takes of the tensor, at most.
    pub vector: i64,
    /// The results that one access stores, at most.
    pub stored: i64,
}

impl ReduceOperands {
    /// Checks that there are kernels for the types and modes.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let function = self.function;
        let must = if self.stage != ReduceStage::Whole {
            "a plan is for the whole reduction"
        } else if !(1..=MOST_MODES).contains(&self.outer)
            || !(1..=MOST_MODES).contains(&self.reduced)
        {
            "a kernel has 1 to 16 modes of each kind"
        } else if self.values.is_some() && !function.is_index() {
            "the results of a function other than arg-max and arg-min are the values"
        } else if self.values.is_some_and(|values| values != self.ty) {
            "the values have the type of the elements"
        } else {
            return check_types(function, self.ty, self.result);
        };
        Err(refused_operands(self, must))
    }
}

/// One mode of a tensor: its extent, and its strides in the tensor and in the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReduceMode {
    pub(crate) extent: i64,
    pub(crate) stride: i64,
    /// In the results, and in the values of an arg-max; 0 if the mode is reduced.
    pub(crate) outputs: [i64; 2],
}

impl ReduceMode {
    /// The mode of one element.
    const ONE: ReduceMode = ReduceMode {
        extent: 1,
        stride: 0,
        outputs: [0; 2],
    };
}

/// A reduction of a tensor: its modes, and the strides of all tensors.
///
/// Modes that are one mode in all tensors are joined, and those of extent 1 are left out. The *inner* mode is that with the least
/// stride.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReduceProblem {
    pub(crate) function: ReduceFunction,
    pub(crate) stage: ReduceStage,
    pub(crate) ty: Ty,
    pub(crate) result: Ty,
    pub(crate) values: Option<Ty>,
    pub(crate) keeps_inner: bool,
    /// The modes of the results, the inner one left out: at least one.
    pub(crate) outer: Vec<ReduceMode>,
    /// The modes that are reduced, the inner one left out: at least one.
    pub(crate) reduced: Vec<ReduceMode>,
    pub(crate) inner: ReduceMode,
    /// The elements of a result, by which a mean divides.
    pub(crate) count: i64,
    /// The elements of which the addresses of the tensor, the results and the values are multiples.
    pub(crate) aligned: [i64; 3],
}

/// A mode of the tensor before it is sorted: whether it is kept, and what it is.
pub(crate) type GivenMode = (bool, ReduceMode);

/// The most elements along the modes of one kind.
pub(crate) const MOST: i64 = 1 << 30;

/// The most modes of one kind.
const MOST_MODES: usize = 16;

/// The largest stride.
const MOST_STRIDE: i64 = (1 << 40) - 1;

/// The types of the elements.
pub(crate) const TYPES: [Ty; 4] = [Ty::F32, Ty::F16, Ty::Bf16, Ty::S32];

impl ReduceProblem {
    /// Builds the problem of a row-major tensor of these extents, along these of its modes, with row-major results of the same
    /// type (of an arg-max and arg-min: of `s32`), at addresses that are multiples of 16 bytes.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::reduce::{ReduceFunction, ReduceProblem};
    ///
    /// let problem = ReduceProblem::new(ReduceFunction::Sum, Ty::F32, &[4, 5, 6], &[0, 2])?;
    /// assert_eq!(problem.to_string(), "sum f32, 5 results of 24");
    /// assert_eq!(problem.compulsory_bytes(), 4 * (120 + 5));
    /// let refused = ReduceProblem::new(ReduceFunction::Sum, Ty::F32, &[4, 5], &[2]).unwrap_err();
    /// assert_eq!(refused.to_string(), "mode 2 is named, and x (4,5) has 2 modes: modes are counted from 0");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such mode, or if no kernel takes the type, the extents or the modes.
    pub fn new(
        function: ReduceFunction,
        ty: Ty,
        extents: &[i64],
        modes: &[usize],
    ) -> Result<ReduceProblem, Error> {
        check_modes(function, extents, modes)?;
        let result = if function.is_index() { Ty::S32 } else { ty };
        if extents.contains(&0) {
            let what = "an extent";
            return Err(ErrorKind::Empty { what }.into());
        }
        let given = row_major_modes(extents, modes)?;
        ReduceProblem::of(function, [ty, result], None, &given, [WIDEST; 3])
    }

    /// The problem of these modes, in the order of the tensor.
    pub(crate) fn of(
        function: ReduceFunction,
        [ty, result]: [Ty; 2],
        values: Option<Ty>,
        given: &[GivenMode],
        aligned: [i64; 3],
    ) -> Result<ReduceProblem, Error> {
        let count = (given.iter().filter(|(kept, _)| !kept))
            .fold(1, |all: i64, (_, mode)| all.saturating_mul(mode.extent));
        let of = |kept: bool| -> Vec<ReduceMode> {
            let modes = given.iter().filter(|(is, _)| *is == kept);
            joined(modes.map(|(_, mode)| *mode).collect())
        };
        let (mut outer, mut reduced) = (of(true), of(false));
        // A stride of 0 repeats an element: no other mode runs slower.
        let least = |modes: &[ReduceMode]| {
            let strides = modes.iter().map(|mode| match mode.stride.abs() {
                0 => i64::MAX,
                stride => stride,
            });
            let indexed = strides.enumerate().map(|(at, stride)| (stride, at));
            indexed.min()
        };
        let (kept, gone) = (least(&outer), least(&reduced));
        let keeps_inner = match (kept, gone) {
            (Some((kept, _)), Some((gone, _))) => kept < gone,
            (kept, _) => kept.is_some(),
        };
        let from = if keeps_inner {
            (&mut outer, kept)
        } else {
            (&mut reduced, gone)
        };
        let inner = match from {
            (modes, Some((_, at))) => modes.remove(at),
            (_, None) => ReduceMode::ONE,
        };
        for modes in [&mut outer, &mut reduced] {
            if modes.is_empty() {
                modes.push(ReduceMode::ONE);
            }
        }
        let problem = ReduceProblem {
            function,
            stage: ReduceStage::Whole,
            ty,
            result,
            values,
            keeps_inner,
            outer,
            reduced,
            inner,
            count,
            aligned,
        };
        problem.check()?;
        Ok(problem)
    }

    /// A problem with these operands, whose numbers serve the reports.
    pub(crate) fn like(operands: &ReduceOperands) -> ReduceProblem {
        let stride = if operands.contiguous { 1 } else { 2 };
        let modes = |count: usize, kept: bool| -> Vec<ReduceMode> {
            let of = |i: i64| ReduceMode {
                extent: extent_for_reports(i),
                stride: 4096 << i,
                outputs: [if kept { 4096 << i } else { 0 }; 2],
            };
            (0..count as i64).map(of).collect()
        };
        let stored = if operands.stored > 1 { 1 } else { 2 };
        ReduceProblem {
            function: operands.function,
            stage: operands.stage,
            ty: operands.ty,
            result: operands.result,
            values: operands.values,
            keeps_inner: operands.keeps_inner,
            outer: modes(operands.outer, true),
            reduced: modes(operands.reduced, false),
            inner: ReduceMode {
                extent: 4096,
                stride,
                outputs: [if operands.keeps_inner { stored } else { 0 }; 2],
            },
            count: 4096,
            aligned: [WIDEST; 3],
        }
    }

    /// The problem of the kernel that leaves, for each result, the numbers of `parts` parts in the workspace.
    pub(crate) fn first(&self, parts: i64) -> ReduceProblem {
        let ty = self.function.part_ty(self.ty);
        // The inner results run fastest; of results without them, the parts.
        let step = if self.keeps_inner { 1 } else { parts };
        let mut next = if self.keeps_inner {
            self.inner.extent
        } else {
            step
        };
        let mut outer = self.outer.clone();
        for mode in &mut outer {
            mode.outputs = [next; 2];
            next = next.saturating_mul(mode.extent);
        }
        let outputs = [if self.keeps_inner { 1 } else { 0 }; 2];
        ReduceProblem {
            stage: ReduceStage::Part,
            result: ty,
            values: None,
            outer,
            inner: ReduceMode {
                outputs,
                ..self.inner
            },
            aligned: [self.aligned[0], WIDEST, WIDEST],
            ..self.clone()
        }
    }

    /// The problem of the kernel that combines the numbers that [`first`](Self::first) leaves.
    pub(crate) fn second(&self, parts: i64) -> ReduceProblem {
        let first = self.first(parts);
        let mut outer = self.outer.clone();
        for (mode, written) in outer.iter_mut().zip(&first.outer) {
            mode.stride = written.outputs[0];
        }
        let part = ReduceMode {
            extent: parts,
            stride: if self.keeps_inner { self.results() } else { 1 },
            outputs: [0; 2],
        };
        let (reduced, inner) = if self.keeps_inner {
            let inner = ReduceMode {
                stride: 1,
                ..self.inner
            };
            (part, inner)
        } else {
            (ReduceMode::ONE, part)
        };
        ReduceProblem {
            stage: ReduceStage::Combine,
            ty: first.result,
            outer,
            reduced: vec![reduced],
            inner,
            aligned: [WIDEST, self.aligned[1], self.aligned[2]],
            ..self.clone()
        }
    }

    /// The problem of results that have no element: what is read is one number for all.
    pub(crate) fn of_nothing(&self) -> ReduceProblem {
        let still = |mode: &ReduceMode| ReduceMode { stride: 0, ..*mode };
        ReduceProblem {
            stage: ReduceStage::Combine,
            ty: self.function.part_ty(self.ty),
            outer: self.outer.iter().map(still).collect(),
            reduced: vec![ReduceMode::ONE],
            inner: still(&self.inner),
            count: 0,
            ..self.clone()
        }
    }

    /// Returns the function.
    pub fn function(&self) -> ReduceFunction {
        self.function
    }

    /// Returns the number of results.
    pub fn results(&self) -> i64 {
        let inner = if self.keeps_inner {
            self.inner.extent
        } else {
            1
        };
        inner.saturating_mul(size(&self.outer))
    }

    /// Returns the number of elements of each result.
    pub fn count(&self) -> i64 {
        self.count
    }

    /// Returns the bytes that any kernel moves: each element and each result once.
    pub fn compulsory_bytes(&self) -> i64 {
        let bytes = |ty: Ty| i64::from(ty.bits()) / 8;
        let values = self.values.map_or(0, bytes);
        let of_result = bytes(self.result).saturating_add(values);
        let elements = match self.count {
            0 => 0,
            _ => {
                let modes = self.outer.iter().chain(&self.reduced);
                distinct(modes.chain([&self.inner]))
            }
        };
        let read = elements.saturating_mul(bytes(self.ty));
        read.saturating_add(self.results().saturating_mul(of_result))
    }

    /// Returns what a kernel knows of the tensors.
    pub fn operands(&self) -> ReduceOperands {
        ReduceOperands {
            function: self.function,
            stage: self.stage,
            ty: self.ty,
            result: self.result,
            values: self.values,
            keeps_inner: self.keeps_inner,
            outer: self.outer.len(),
            reduced: self.reduced.len(),
            contiguous: self.inner.stride == 1,
            vector: self.vector(),
            stored: self.stored(),
        }
    }

    /// The widest access to the tensor, in elements.
    fn vector(&self) -> i64 {
        if self.inner.stride != 1 {
            return 1;
        }
        let strides = self.outer.iter().chain(&self.reduced);
        let strides: Vec<i64> = strides.map(|mode| mode.stride).collect();
        widest(self.ty, self.inner.extent, self.aligned[0], &strides)
    }

    /// Whether the rows lie one after the other, of few enough elements, from a multiple of `vector` elements on, so that a kernel may
    /// take them as one mode.
    pub(crate) fn is_one_run(&self, vector: i64) -> bool {
        let follows = |outer: &ReduceMode| outer.extent == 1 || outer.stride == self.inner.extent;
        let all = size(&self.outer).saturating_mul(self.inner.extent);
        let is_one = self.outer.len() == 1 && size(&self.reduced) == 1 && self.inner.stride == 1;
        is_one
            && !self.keeps_inner
            && all <= MOST_SHIFTED
            && self.outer.iter().all(follows)
            && self.aligned[0] % vector.max(1) == 0
    }

    /// The widest access to all outputs, in elements.
    fn stored(&self) -> i64 {
        if !self.keeps_inner {
            return 1;
        }
        let of = |output: usize, ty: Ty| {
            if self.inner.outputs[output] != 1 {
                return 1;
            }
            let strides: Vec<i64> = self.outer.iter().map(|mode| mode.outputs[output]).collect();
            widest(ty, self.inner.extent, self.aligned[1 + output], &strides)
        };
        let stored = of(0, self.result);
        let values = self.values.map(|ty| of(1, ty));
        values.map_or(stored, |values| stored.min(values))
    }

    /// Returns the layouts of the tensors in the modes of the kernel: (outer, reduced, inner) of the elements, (outer, inner) of
    /// the results, and of the values if there are any. What several blocks leave has a mode of `parts` behind.
    pub(crate) fn layouts(&self, parts: i64) -> Result<Vec<Layout>, colex_layout::Error> {
        let unit = |extent: i64, stride: i64, is_one: bool| {
            if is_one {
                Layout::leaf(Int::Dynamic(extent), Int::Static(1))
            } else {
                dynamic(extent, stride)
            }
        };
        let ReduceMode {
            extent,
            stride,
            outputs,
        } = self.inner;
        let mut all = vec![Layout::concat(&[
            nest(&self.outer, &|mode| mode.stride)?,
            nest(&self.reduced, &|mode| mode.stride)?,
            unit(extent, stride, stride == 1)?,
        ])?];
        let stored = self.stored() > 1;
        let count = 1 + usize::from(self.values.is_some());
        for (output, stride) in outputs.into_iter().enumerate().take(count) {
            let inner = if self.keeps_inner {
                unit(extent, stride, stored)?
            } else {
                Layout::leaf(Int::Static(1), Int::Static(0))?
            };
            let mut modes = vec![nest(&self.outer, &|mode| mode.outputs[output])?, inner];
            if self.stage == ReduceStage::Part {
                let step = if self.keeps_inner { self.results() } else { 1 };
                modes.push(dynamic(parts, step)?);
            }
            all.push(Layout::concat(&modes)?);
        }
        Ok(all)
    }

    /// Returns the layout of the numbers that `parts` blocks leave for each result: (outer, inner, parts), in the memory that
    /// [`first`](Self::first) describes.
    pub(crate) fn parts_layout(&self, parts: i64) -> Result<Layout, colex_layout::Error> {
        let first = self.first(parts);
        let outer = nest(&first.outer, &|mode| mode.outputs[0])?;
        let [inner, part] = if self.keeps_inner {
            let inner = Layout::leaf(Int::Dynamic(self.inner.extent), Int::Static(1))?;
            [inner, dynamic(parts, self.results())?]
        } else {
            let inner = Layout::leaf(Int::Static(1), Int::Static(0))?;
            [inner, Layout::leaf(Int::Dynamic(parts), Int::Static(1))?]
        };
        Layout::concat(&[outer, inner, part])
    }

    /// Checks what no kernel takes.
    pub(crate) fn check(&self) -> Result<(), Error> {
        check_types(self.function, self.ty, self.result)?;
        check_sizes("the number of results", &self.outer)?;
        check_sizes("the number of reduced elements", &self.reduced)?;
        check_sizes("the extent of the inner mode", &[self.inner])
    }
}

/// The layout of one mode whose numbers only the launch knows.
fn dynamic(extent: i64, stride: i64) -> Result<Layout, colex_layout::Error> {
    Layout::leaf(Int::Dynamic(extent), Stride::Int(Int::Dynamic(stride)))
}

/// The layout of several modes as one.
fn nest(
    modes: &[ReduceMode],
    stride: &dyn Fn(&ReduceMode) -> i64,
) -> Result<Layout, colex_layout::Error> {
    match modes {
        [one] => dynamic(one.extent, stride(one)),
        _ => {
            let shape = IntTuple::flat(modes.iter().map(|mode| Int::Dynamic(mode.extent)));
            let strides = modes
                .iter()
                .map(|mode| Stride::Int(Int::Dynamic(stride(mode))));
            Layout::new(shape, Tuple::flat(strides))
        }
    }
}

/// Checks that a kernel counts the elements of modes together, and takes as many modes with such strides.
pub(crate) fn check_sizes(what: &'static str, modes: &[ReduceMode]) -> Result<(), Error> {
    let extent = size(modes);
    if extent > MOST {
        let most = MOST;
        return Err(ErrorKind::Extent { what, extent, most }.into());
    }
    if modes.len() > MOST_MODES {
        let (found, most) = (modes.len(), MOST_MODES);
        return Err(ReduceError::Rank { found, most }.into());
    }
    let mut strides = modes
        .iter()
        .flat_map(|mode| [mode.outputs[0], mode.outputs[1], mode.stride]);
    match strides.find(|stride| stride.unsigned_abs() > MOST_STRIDE.unsigned_abs()) {
        Some(stride) => {
            let most = MOST_STRIDE;
            Err(ReduceError::Stride { stride, most }.into())
        }
        None => Ok(()),
    }
}

/// The elements of the modes together.
pub(crate) fn size(modes: &[ReduceMode]) -> i64 {
    modes
        .iter()
        .fold(1, |all, mode| all.saturating_mul(mode.extent))
}

/// The number of coordinates along the modes that move a tensor: its distinct elements, unless they overlap.
pub(crate) fn distinct<'m>(modes: impl IntoIterator<Item = &'m ReduceMode>) -> i64 {
    let modes = modes.into_iter().filter(|mode| mode.stride != 0);
    modes.fold(1, |all, mode| all.saturating_mul(mode.extent))
}

/// The extent of an outer mode in a problem whose numbers serve the reports: those of two kinds of 16 modes each, and of an inner
/// mode, have a product of 63 bits.
pub(super) fn extent_for_reports(mode: i64) -> i64 {
    match mode {
        0 => 64,
        1 => 16,
        _ => 2,
    }
}

/// The widest access of a type along a mode of stride 1, in elements.
pub(super) fn widest(ty: Ty, extent: i64, aligned: i64, strides: &[i64]) -> i64 {
    let most = WIDEST * 8 / i64::from(ty.bits());
    let divides = |vector: i64| {
        extent % vector == 0 && aligned % vector == 0 && strides.iter().all(|s| s % vector == 0)
    };
    let mut vectors = [16, 8, 4, 2].into_iter().filter(|v| *v <= most);
    vectors.find(|vector| divides(*vector)).unwrap_or(1)
}

/// Modes without those of extent 1, those joined that follow one another in all tensors.
pub(super) fn joined(mut modes: Vec<ReduceMode>) -> Vec<ReduceMode> {
    modes.retain(|mode| mode.extent != 1);
    let pair = |modes: &[ReduceMode]| {
        let follows = |inner: &ReduceMode, outer: &ReduceMode| {
            let next = |a: i64, b: i64| a.checked_mul(inner.extent) == Some(b);
            next(inner.stride, outer.stride)
                && next(inner.outputs[0], outer.outputs[0])
                && next(inner.outputs[1], outer.outputs[1])
                && inner.extent.saturating_mul(outer.extent) <= MOST
        };
        let count = modes.len();
        (0..count)
            .flat_map(|inner| (0..count).map(move |outer| (inner, outer)))
            .find(|(inner, outer)| inner != outer && follows(&modes[*inner], &modes[*outer]))
    };
    while let Some((inner, outer)) = pair(&modes) {
        modes[inner].extent *= modes[outer].extent;
        modes.remove(outer);
    }
    modes
}

/// Returns the strides of a row-major tensor of a shape that no view has. Those that overflow are too large for a kernel.
///
/// # Errors
///
/// Returns an error if an extent is negative or more than a kernel counts.
pub(crate) fn row_major(extents: &[i64]) -> Result<Vec<i64>, Error> {
    let (what, most) = ("an extent", MOST);
    if let Some(&extent) = extents.iter().find(|n| !(0..=MOST).contains(*n)) {
        return Err(ErrorKind::Extent { what, extent, most }.into());
    }
    Ok(modes::row_major(extents))
}

/// The modes of a row-major tensor that is reduced along these of them, with row-major results. Nothing is read of a tensor without
/// elements, whose strides are 0.
pub(crate) fn row_major_modes(extents: &[i64], modes: &[usize]) -> Result<Vec<GivenMode>, Error> {
    let is_empty = extents.contains(&0);
    let is_kept = |at: usize| !modes.contains(&at);
    let with_ones: Vec<i64> = (extents.iter().enumerate())
        .map(|(at, extent)| if is_kept(at) { *extent } else { 1 })
        .collect();
    let (of_x, of_results) = (row_major(extents)?, row_major(&with_ones)?);
    let mode = |at: usize| {
        let mode = ReduceMode {
            extent: extents[at].max(1),
            stride: if is_empty { 0 } else { of_x[at] },
            outputs: [if is_kept(at) { of_results[at] } else { 0 }; 2],
        };
        (is_kept(at), mode)
    };
    Ok((0..extents.len()).map(mode).collect())
}

/// Checks that a tensor has a mode.
pub(crate) fn check_mode(mode: usize, extents: &[i64]) -> Result<(), Error> {
    let rank = extents.len();
    if mode >= rank {
        let x = shown(extents);
        return Err(ReduceError::Mode { mode, x, rank }.into());
    }
    Ok(())
}

/// Checks that the modes are those of a tensor, each once, and one of an index.
pub(crate) fn check_modes(
    function: ReduceFunction,
    extents: &[i64],
    modes: &[usize],
) -> Result<(), Error> {
    for (i, &mode) in modes.iter().enumerate() {
        check_mode(mode, extents)?;
        if modes[..i].contains(&mode) {
            return Err(ReduceError::Again { mode }.into());
        }
    }
    if function.is_index() && modes.len() != 1 {
        let (function, found) = (function.to_string(), modes.len());
        return Err(ReduceError::OneMode { function, found }.into());
    }
    Ok(())
}

/// Checks that there are kernels for the types.
pub(crate) fn check_types(function: ReduceFunction, ty: Ty, result: Ty) -> Result<(), Error> {
    let name = || function.to_string();
    if !TYPES.contains(&ty) {
        let function = name();
        return Err(ReduceError::Type { function, ty }.into());
    }
    if ty.is_integer() && matches!(function, ReduceFunction::Mean | ReduceFunction::Norm) {
        let function = name();
        return Err(ReduceError::Integers { function, ty }.into());
    }
    if ty.is_integer() && function == ReduceFunction::AbsMax {
        return Err(ReduceError::Sizes { ty }.into());
    }
    let can: Vec<Ty> = if function.is_index() {
        vec![Ty::S32, Ty::S64]
    } else if ty.is_integer() || ty == Ty::F32 {
        vec![ty]
    } else {
        vec![ty, Ty::F32]
    };
    if !can.contains(&result) {
        let function = name();
        return Err(ReduceError::Result {
            function,
            ty,
            result,
            can,
        }
        .into());
    }
    Ok(())
}

/// `sum f32, 5 results of 24`
impl fmt::Display for ReduceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (results, count) = (self.results(), self.count);
        let s = if results == 1 { "" } else { "s" };
        write!(
            f,
            "{} {}, {results} result{s} of {count}",
            self.function, self.ty
        )?;
        if self.result != self.ty {
            write!(f, " in {}", self.result)?;
        }
        if self.values.is_some() {
            f.write_str(", with the values")?;
        }
        Ok(())
    }
}
