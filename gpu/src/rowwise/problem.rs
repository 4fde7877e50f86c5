//! What is computed of the rows of a tensor.

use core::fmt;

use colex_atom::Ty;
use colex_layout::{Int, IntTuple, Layout, Stride, Tuple};

use super::plan::MOST_SHIFTED;
use crate::error::{Error, ErrorKind, RowwiseError};
use crate::memory_bound::modes::{modes, one_leaf, parts};
use crate::memory_bound::plan::{WIDEST, refused_operands};

/// A function of each row of a tensor.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowFunction {
    /// `e^x` over the sum of it along the row.
    Softmax,
    /// The natural logarithm of the softmax.
    LogSoftmax,
    /// `x` over the root of the mean of its squares along the row.
    RmsNorm,
    /// `x` less its mean along the row, over the root of its variance.
    LayerNorm,
}

impl RowFunction {
    /// All of them.
    pub const ALL: [RowFunction; 4] = [
        RowFunction::Softmax,
        RowFunction::LogSoftmax,
        RowFunction::RmsNorm,
        RowFunction::LayerNorm,
    ];

    /// Returns whether it is a norm, which has an epsilon and may have weights and a residual.
    pub fn is_norm(self) -> bool {
        match self {
            RowFunction::Softmax | RowFunction::LogSoftmax => false,
            RowFunction::RmsNorm | RowFunction::LayerNorm => true,
        }
    }

    /// Returns how often a kernel that cannot hold a row reads it.
    pub(crate) fn reads(self) -> i64 {
        match self {
            // The mean, the squares of the differences from it, the result.
            RowFunction::LayerNorm => 3,
            RowFunction::Softmax | RowFunction::LogSoftmax | RowFunction::RmsNorm => 2,
        }
    }
}

impl fmt::Display for RowFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RowFunction::Softmax => "softmax",
            RowFunction::LogSoftmax => "log-softmax",
            RowFunction::RmsNorm => "RMSNorm",
            RowFunction::LayerNorm => "layer norm",
        })
    }
}

/// A tensor of a function of rows.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowTensor {
    /// The input.
    X,
    /// What is added to the input before a norm.
    Residual,
    /// The factors of the columns.
    Weight,
    /// The terms of the columns.
    Bias,
    /// The output.
    Y,
    /// The sum of the input and the residual, an output too.
    Sum,
}

impl RowTensor {
    /// All tensors, in the order of a kernel's parameters.
    pub const ALL: [RowTensor; 6] = [
        RowTensor::X,
        RowTensor::Residual,
        RowTensor::Weight,
        RowTensor::Bias,
        RowTensor::Y,
        RowTensor::Sum,
    ];

    /// Returns its name in a sentence and among the parameters of a kernel.
    pub fn name(self) -> &'static str {
        match self {
            RowTensor::X => "x",
            RowTensor::Residual => "residual",
            RowTensor::Weight => "weight",
            RowTensor::Bias => "bias",
            RowTensor::Y => "y",
            RowTensor::Sum => "sum",
        }
    }

    /// Returns whether it has one element for each column, and no rows.
    pub fn is_of_columns(self) -> bool {
        match self {
            RowTensor::Weight | RowTensor::Bias => true,
            RowTensor::X | RowTensor::Residual | RowTensor::Y | RowTensor::Sum => false,
        }
    }

    /// Returns whether a kernel writes it.
    pub fn is_output(self) -> bool {
        match self {
            RowTensor::Y | RowTensor::Sum => true,
            RowTensor::X | RowTensor::Residual | RowTensor::Weight | RowTensor::Bias => false,
        }
    }
}

/// What a kernel knows of its tensors: all but their extents, strides and addresses.
///
/// ```
/// use colex_atom::Ty;
/// use colex_gpu::rowwise::{RowFunction, RowwiseOperands, RowwiseProblem};
///
/// let problem = RowwiseProblem::new(RowFunction::Softmax, Ty::Bf16, [100, 1000]);
/// let operands: RowwiseOperands = problem.operands();
/// assert_eq!((operands.vector, operands.modes), (8, 1)); // 1000 is a multiple of 8
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowwiseOperands {
    /// The function.
    pub function: RowFunction,
    /// The type of all tensors.
    pub ty: Ty,
    /// The modes of the rows.
    pub modes: usize,
    /// Whether the columns of all tensors have the stride 1.
    pub contiguous: bool,
    /// The elements that one access takes of any tensor along the columns, at most.
    pub vector: i64,
    /// The elements that one access takes along the rows, at most; 0 if columns have the stride 1, or if no mode of the rows has
    /// it in every tensor with rows.
    pub turned: i64,
    /// Which tensors there are, in the order of [`RowTensor::ALL`].
    pub given: [bool; 6],
}

impl RowwiseOperands {
    /// Returns the tensors, in the order of a kernel's parameters.
    pub fn tensors(&self) -> impl Iterator<Item = RowTensor> + use<> {
        let given = self.given;
        (RowTensor::ALL.into_iter().zip(given)).filter_map(|(tensor, is)| is.then_some(tensor))
    }

    /// Checks that there are the tensors of the function and modes of rows.
    pub(crate) fn check(&self) -> Result<(), Error> {
        check_type(self.ty)?;
        let [x, residual, weight, bias, y, sum] = self.given;
        let must = if !(x && y) {
            "the kernel reads x and writes y"
        } else if !self.function.is_norm() && (residual || weight || bias || sum) {
            "norms have weights, a bias or a residual"
        } else if residual != sum {
            "a kernel that adds a residual writes the sum"
        } else if !(1..=MOST_MODES).contains(&self.modes) {
            "rows have 1 to 16 modes"
        } else {
            return Ok(());
        };
        Err(refused_operands(self, must))
    }

    /// Returns whether there is such a tensor.
    pub fn has(&self, tensor: RowTensor) -> bool {
        self.given[tensor as usize]
    }
}

/// A function of the rows of a tensor: the extents, and the strides of all tensors.
///
/// Modes of the rows that are one mode in all tensors are joined, and those of one row are left out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowwiseProblem {
    function: RowFunction,
    ty: Ty,
    /// The extents of the modes of the rows, which are at least one.
    rows: Vec<i64>,
    columns: i64,
    tensors: Vec<(RowTensor, Strides)>,
}

/// The strides of a tensor, and the elements of which its address is a multiple.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Strides {
    rows: Vec<i64>,
    column: i64,
    aligned: i64,
}

/// The most rows and the most columns.
pub(crate) const MOST: i64 = 1 << 30;

/// The most modes of the rows.
const MOST_MODES: usize = 16;

/// The largest stride.
const MOST_STRIDE: i64 = (1 << 40) - 1;

/// The types of the tensors.
pub(crate) const TYPES: [Ty; 3] = [Ty::F32, Ty::F16, Ty::Bf16];

impl RowwiseProblem {
    /// Builds the problem of row-major tensors `x` and `y` of (rows, columns), at addresses that are multiples of 16 bytes.
    pub fn new(function: RowFunction, ty: Ty, [rows, columns]: [i64; 2]) -> RowwiseProblem {
        let strides = || Strides {
            rows: vec![columns],
            column: 1,
            aligned: WIDEST,
        };
        RowwiseProblem {
            function,
            ty,
            rows: vec![rows],
            columns,
            tensors: vec![(RowTensor::X, strides()), (RowTensor::Y, strides())],
        }
    }

    /// Builds the problem of row-major tensors `x` and `y` of these extents, whose rows lie along one of their modes, at addresses that are
    /// multiples of 16 bytes.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::rowwise::{RowFunction, RowwiseProblem};
    ///
    /// let problem = RowwiseProblem::along(RowFunction::Softmax, Ty::Bf16, &[4096, 16384], 0)?;
    /// assert_eq!(problem.to_string(), "softmax bf16, 16384 rows of 4096");
    /// // The rows lie beside each other: an access takes an element of each of 8.
    /// assert_eq!((problem.operands().vector, problem.operands().turned), (1, 8));
    /// let refused = RowwiseProblem::along(RowFunction::Softmax, Ty::Bf16, &[4096, 16384], 2).unwrap_err();
    /// assert_eq!(refused.to_string(), "mode 2 is named, and the tensors have 2 modes: modes are counted from 0");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such mode, or if no kernel takes the type or the extents.
    pub fn along(
        function: RowFunction,
        ty: Ty,
        extents: &[i64],
        mode: usize,
    ) -> Result<RowwiseProblem, Error> {
        check_type(ty)?;
        let rank = extents.len();
        if mode >= rank {
            return Err(RowwiseError::Mode { mode, rank }.into());
        }
        if extents.iter().any(|extent| *extent < 1) {
            let what = "an extent";
            return Err(ErrorKind::Empty { what }.into());
        }
        let mut strides = vec![1_i64; rank];
        for at in (1..rank).rev() {
            strides[at - 1] = strides[at].saturating_mul(extents[at]);
        }
        let is_row = |at: &usize| *at != mode;
        let row = || (0..rank).filter(is_row);
        let of = || Strides {
            rows: row().map(|at| strides[at]).collect(),
            column: if extents[mode] == 1 { 1 } else { strides[mode] },
            aligned: WIDEST,
        };
        let mut problem = RowwiseProblem {
            function,
            ty,
            rows: row().map(|at| extents[at]).collect(),
            columns: extents[mode],
            tensors: vec![(RowTensor::X, of()), (RowTensor::Y, of())],
        };
        problem.join();
        problem.check()?;
        Ok(problem)
    }

    /// A problem with these operands, whose numbers serve the reports.
    pub(crate) fn like(operands: &RowwiseOperands) -> RowwiseProblem {
        let is_turned = operands.turned > 0;
        let column = match (operands.contiguous, is_turned) {
            (true, _) => 1,
            (false, false) => 2,
            (false, true) => 64,
        };
        let row = |i: i64| match i {
            0 if is_turned => 1,
            _ => 4096 << i,
        };
        let strides = |tensor: RowTensor| Strides {
            rows: if tensor.is_of_columns() {
                vec![0; operands.modes]
            } else {
                (0..operands.modes as i64).map(row).collect()
            },
            column,
            aligned: WIDEST,
        };
        RowwiseProblem {
            function: operands.function,
            ty: operands.ty,
            // The product of all extents has 63 bits.
            rows: (0..operands.modes)
                .map(|mode| if mode < 2 { 64 } else { 2 })
                .collect(),
            columns: 4096,
            tensors: operands
                .tensors()
                .map(|tensor| (tensor, strides(tensor)))
                .collect(),
        }
    }

    /// The problem of the same rows with another number of columns.
    pub(crate) fn with_columns(&self, columns: i64) -> RowwiseProblem {
        let mut problem = RowwiseProblem {
            columns,
            ..self.clone()
        };
        if columns == 1 {
            for (_, strides) in &mut problem.tensors {
                strides.column = 1;
            }
        }
        problem
    }

    /// The problem of such tensors of other extents, whose rows lie one after the other without gaps.
    pub(crate) fn with_extents(&self, [rows, columns]: [i64; 2]) -> RowwiseProblem {
        let strides = |(tensor, strides): &(RowTensor, Strides)| {
            let row = if tensor.is_of_columns() { 0 } else { columns };
            let strides = Strides {
                rows: vec![row],
                column: 1,
                aligned: strides.aligned,
            };
            (*tensor, strides)
        };
        RowwiseProblem {
            function: self.function,
            ty: self.ty,
            rows: vec![rows],
            columns,
            tensors: self.tensors.iter().map(strides).collect(),
        }
    }

    /// The problem of these layouts at these addresses. The last mode is that of the columns, and is one leaf. Those of the rows are the
    /// parts that all tensors have.
    pub(crate) fn of(
        function: RowFunction,
        ty: Ty,
        layouts: &[(RowTensor, &Layout, u64)],
    ) -> Result<RowwiseProblem, Error> {
        let bytes = i64::from(ty.bits()) / 8;
        let (mut tensors, mut all, mut columns) = (Vec::new(), Vec::new(), 1);
        for &(tensor, layout, address) in layouts {
            let mut own = modes(layout);
            let last = own.pop().expect("a layout has modes");
            let Some((extent, column)) = one_leaf(&last) else {
                let layout = layout.to_string();
                return Err(RowwiseError::ColumnStrides { layout }.into());
            };
            columns = extent;
            let strides = Strides {
                rows: Vec::new(),
                column: if columns == 1 { 1 } else { column },
                aligned: 1 << (address / bytes as u64).trailing_zeros().min(4),
            };
            tensors.push((tensor, strides));
            all.push(own);
        }
        let mut extents = Vec::new();
        for at in 0..all[0].len() {
            // A tensor of columns has no mode of rows.
            let of_rows: Vec<&Layout> = all.iter().filter_map(|modes| modes.get(at)).collect();
            let Some(found) = parts(&of_rows) else {
                let layout = layouts[0].1.to_string();
                return Err(RowwiseError::Modes { layout }.into());
            };
            for (extent, strides) in found {
                extents.push(extent);
                let mut strides = strides.into_iter();
                for (tensor, of) in &mut tensors {
                    let own = (!tensor.is_of_columns()).then(|| strides.next());
                    of.rows.push(own.flatten().unwrap_or(0));
                }
            }
        }
        let mut problem = RowwiseProblem {
            function,
            ty,
            rows: extents,
            columns,
            tensors,
        };
        problem.join();
        Ok(problem)
    }

    /// Joins modes of the rows that follow one another in all tensors.
    fn join(&mut self) {
        let keep = |at: usize, problem: &mut RowwiseProblem| {
            problem.rows.remove(at);
            for (_, strides) in &mut problem.tensors {
                strides.rows.remove(at);
            }
        };
        while let Some(at) = self.rows.iter().position(|extent| *extent == 1) {
            keep(at, self);
        }
        // The outer mode of a pair goes.
        let pair = |problem: &RowwiseProblem| {
            let count = problem.rows.len();
            let follows = |inner: usize, outer: usize| {
                let extent = problem.rows[inner];
                inner != outer
                    && problem.tensors.iter().all(|(_, strides)| {
                        strides.rows[inner].checked_mul(extent) == Some(strides.rows[outer])
                    })
            };
            (0..count)
                .flat_map(|inner| (0..count).map(move |outer| (inner, outer)))
                .find(|(inner, outer)| follows(*inner, *outer))
        };
        while let Some((inner, outer)) = pair(self) {
            self.rows[inner] = self.rows[inner].saturating_mul(self.rows[outer]);
            keep(outer, self);
        }
        if self.rows.is_empty() {
            self.rows.push(1);
            for (_, strides) in &mut self.tensors {
                strides.rows.push(0);
            }
        }
    }

    /// Returns the function.
    pub fn function(&self) -> RowFunction {
        self.function
    }

    /// Returns the type of the tensors.
    pub fn ty(&self) -> Ty {
        self.ty
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> i64 {
        self.rows
            .iter()
            .fold(1, |all, extent| all.saturating_mul(*extent))
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> i64 {
        self.columns
    }

    /// Returns the bytes that any kernel moves: each element of the inputs and outputs once.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::rowwise::{RowFunction, RowwiseProblem};
    ///
    /// let problem = RowwiseProblem::new(RowFunction::Softmax, Ty::Bf16, [100, 1000]);
    /// assert_eq!(problem.compulsory_bytes(), 2 * 2 * 100 * 1000);
    /// ```
    pub fn compulsory_bytes(&self) -> i64 {
        // One that is repeated along a mode counts once, as the weights do along all rows.
        let of = |strides: &Strides| {
            let modes = self.rows.iter().zip(&strides.rows);
            let modes = modes.chain([(&self.columns, &strides.column)]);
            let moving = modes.filter(|(_, stride)| **stride != 0);
            moving.fold(1, |all: i64, (extent, _)| all.saturating_mul(*extent))
        };
        let elements = self.tensors.iter().map(|(_, strides)| of(strides));
        let elements = elements.fold(0, i64::saturating_add);
        elements.saturating_mul(i64::from(self.ty.bits()) / 8)
    }

    /// Returns what a kernel knows of the tensors.
    pub fn operands(&self) -> RowwiseOperands {
        let mut given = [false; 6];
        for (tensor, _) in &self.tensors {
            given[*tensor as usize] = true;
        }
        RowwiseOperands {
            function: self.function,
            ty: self.ty,
            modes: self.rows.len(),
            contiguous: self.is_contiguous(),
            vector: self.vector(),
            turned: self.turned(),
            given,
        }
    }

    fn is_contiguous(&self) -> bool {
        self.tensors.iter().all(|(_, strides)| strides.column == 1)
    }

    /// The widest access of all tensors, in elements.
    fn vector(&self) -> i64 {
        if !self.is_contiguous() {
            return 1;
        }
        let most = WIDEST * 8 / i64::from(self.ty.bits());
        let divides = |vector: i64| {
            self.columns % vector == 0
                && self.tensors.iter().all(|(_, strides)| {
                    strides.aligned % vector == 0 && strides.rows.iter().all(|s| s % vector == 0)
                })
        };
        let mut vectors = [16, 8, 4, 2].into_iter().filter(|v| *v <= most);
        vectors.find(|vector| divides(*vector)).unwrap_or(1)
    }

    /// The tensors that have rows.
    fn of_rows(&self) -> impl Iterator<Item = &Strides> {
        let all = self.tensors.iter();
        all.filter(|(tensor, _)| !tensor.is_of_columns())
            .map(|(_, strides)| strides)
    }

    /// The mode of the rows that has the stride 1 in every tensor with rows, where the columns have another one.
    fn inner(&self) -> Option<usize> {
        let is_inner = |mode: &usize| self.of_rows().all(|strides| strides.rows[*mode] == 1);
        let mut modes = 0..self.rows.len();
        modes.find(|mode| !self.is_contiguous() && is_inner(mode))
    }

    /// The rows that lie beside each other, and how often there are as many.
    pub(crate) fn beside(&self) -> Option<[i64; 2]> {
        let inner = self.rows[self.inner()?];
        Some([inner, self.rows() / inner.max(1)])
    }

    /// The widest access along the rows, in elements, or 0.
    fn turned(&self) -> i64 {
        let Some(inner) = self.inner() else {
            return 0;
        };
        let most = WIDEST * 8 / i64::from(self.ty.bits());
        let divides = |vector: i64| {
            let others = |strides: &Strides| {
                let mut rows = strides.rows.iter().enumerate();
                rows.all(|(mode, s)| mode == inner || s % vector == 0)
            };
            self.rows[inner] % vector == 0
                && self.of_rows().all(|strides| {
                    strides.aligned % vector == 0 && strides.column % vector == 0 && others(strides)
                })
        };
        let mut vectors = [8, 4, 2].into_iter().filter(|v| *v <= most);
        vectors.find(|vector| divides(*vector)).unwrap_or(1)
    }

    /// Returns whether the rows of all tensors that have rows lie one after the other without gaps, from a multiple of a vector on.
    pub(crate) fn has_no_gaps(&self, vector: i64) -> bool {
        let is_one = |(tensor, strides): &(RowTensor, Strides)| {
            let follows = self.rows() == 1 || strides.rows == [self.columns];
            tensor.is_of_columns() || follows && strides.aligned % vector.max(1) == 0
        };
        let all = self.rows().saturating_mul(self.columns);
        self.rows.len() == 1
            && self.is_contiguous()
            && all <= MOST_SHIFTED
            && self.tensors.iter().all(is_one)
    }

    /// Returns the layouts of the tensors in the modes of the kernel: (rows, column), the rows of several modes if there are
    /// several.
    pub(crate) fn layouts(&self) -> Result<Vec<Layout>, colex_layout::Error> {
        let contiguous = self.is_contiguous();
        let layout = |(tensor, strides): &(RowTensor, Strides)| {
            let column = if contiguous {
                Int::Static(1)
            } else {
                Int::Dynamic(strides.column)
            };
            let rows = if tensor.is_of_columns() {
                Layout::leaf(Int::Dynamic(self.rows()), Int::Static(0))?
            } else {
                let shape = IntTuple::flat(self.rows.iter().map(|n| Int::Dynamic(*n)));
                let strides = strides.rows.iter().map(|s| Stride::Int(Int::Dynamic(*s)));
                Layout::new(shape, Tuple::flat(strides))?
            };
            Layout::concat(&[rows, Layout::leaf(Int::Dynamic(self.columns), column)?])
        };
        self.tensors.iter().map(layout).collect()
    }

    /// Returns the layouts of the tensors where rows lie beside each other: (other rows, column, row), and (column) of those that
    /// have no rows.
    pub(crate) fn turned_layouts(&self) -> Result<Vec<Layout>, colex_layout::Error> {
        let inner = self.inner().unwrap_or_default();
        let leaf = |extent: i64, stride: i64| {
            Layout::leaf(Int::Dynamic(extent), Stride::Int(Int::Dynamic(stride)))
        };
        let layout = |(tensor, strides): &(RowTensor, Strides)| {
            let column = leaf(self.columns, strides.column)?;
            if tensor.is_of_columns() {
                return Layout::concat(&[column]);
            }
            let modes = self.rows.iter().zip(&strides.rows).enumerate();
            let mut others: Vec<(i64, i64)> = modes
                .filter(|(mode, _)| *mode != inner)
                .map(|(_, (extent, stride))| (*extent, *stride))
                .collect();
            if others.is_empty() {
                others.push((1, 0));
            }
            let outer = match others[..] {
                [(extent, stride)] => leaf(extent, stride)?,
                _ => {
                    let shape = IntTuple::flat(others.iter().map(|(n, _)| Int::Dynamic(*n)));
                    let strides = others.iter().map(|(_, s)| Stride::Int(Int::Dynamic(*s)));
                    Layout::new(shape, Tuple::flat(strides))?
                }
            };
            let row = Layout::leaf(Int::Dynamic(self.rows[inner]), Int::Static(1))?;
            Layout::concat(&[outer, column, row])
        };
        self.tensors.iter().map(layout).collect()
    }

    /// Checks what no kernel takes.
    pub(crate) fn check(&self) -> Result<(), Error> {
        check_type(self.ty)?;
        for (what, extent) in [
            ("the number of rows", self.rows()),
            ("the number of columns", self.columns),
        ] {
            if extent > MOST {
                let most = MOST;
                return Err(ErrorKind::Extent { what, extent, most }.into());
            }
        }
        for (tensor, strides) in &self.tensors {
            let all = strides.rows.iter().chain([&strides.column]);
            if let Some(stride) = all
                .copied()
                .find(|s| s.unsigned_abs() > MOST_STRIDE.unsigned_abs())
            {
                let what = tensor.name();
                let most = MOST_STRIDE;
                return Err(RowwiseError::Stride { what, stride, most }.into());
            }
        }
        Ok(())
    }
}

/// Checks that there are kernels for a type.
pub(crate) fn check_type(ty: Ty) -> Result<(), Error> {
    if TYPES.contains(&ty) {
        Ok(())
    } else {
        Err(RowwiseError::Type { ty }.into())
    }
}

/// `softmax bf16, 100 rows of 1000`
impl fmt::Display for RowwiseProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, columns) = (self.rows(), self.columns);
        write!(f, "{} {}, {rows} rows of {columns}", self.function, self.ty)?;
        let others = self.tensors.iter().map(|(tensor, _)| *tensor);
        for tensor in others.filter(|of| !matches!(of, RowTensor::X | RowTensor::Y)) {
            write!(f, ", {}", tensor.name())?;
        }
        Ok(())
    }
}
