//! Epilogues as data: what becomes of the accumulators of a product.

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use colex_atom::{Class, Ty};
use colex_ir::BinaryOp;
use colex_tensor::{Builder, Expr, Formula, Fragment, Round};

use super::arguments::list;
use super::closure::{EpilogueClosure, EpilogueElements, input_name, known, register};
use crate::error::{Error, ErrorKind};
use crate::gemm::problem::{EpilogueWork, MOST_EXTENT};

/// What becomes of the accumulators of a product, element by element: a formula for C, and formulas for further outputs.
///
/// A formula is a [`colex_tensor::Expr`]: arithmetic, activations, comparisons and conversions, with the type and the rounding
/// of every step. Its inputs are the accumulator, that of a second right factor, what C held before, the row and the column of the
/// element, elements of named tensors, and named scalars of the launch.
/// A tensor is given at the call by any layout of the shape (M,N): the bias of a column has stride 0 along M. The kernel, and
/// [`Epilogue::evaluate`] on the host, compute the same formula with the same roundings.
///
/// An epilogue compares, hashes and prints; its text parses to an equal epilogue, and is its serialised form.
///
/// ```
/// use colex_atom::Ty;
/// use colex_gpu::gemm::Epilogue;
/// use colex_gpu::{Device, Gemm, View};
///
/// let relu = Epilogue::new(Ty::F32, |e| {
///     let bias = e.tensor("bias", Ty::F32);
///     e.accumulator().fma(e.scalar("scale", Ty::F32), bias).relu()
/// })?;
/// assert_eq!(
///     relu.to_string(),
///     "(acc: f32, bias: tensor f32, scale: scalar f32) -> C { max(fma(acc, scale, bias), 0) }"
/// );
/// assert_eq!(relu, relu.to_string().parse()?);
///
/// let device = Device::open();
/// let (a, b) = (device.upload(&[1f32, 2.0, 3.0, 4.0])?, device.upload(&[1f32, 0.0, 0.0, 1.0])?);
/// let bias = device.upload(&[-3f32, 10.0])?;
/// let mut c = device.poisoned::<f32>(4)?;
/// Gemm::new(&a.view((2, 2))?, &b.view((2, 2))?, &c.view_mut((2, 2))?)
///     .epilogue(&relu)
///     .scalar("scale", 2.0)
///     .tensor("bias", &View::new(&bias, "(2,2):(0,1)")?) // one number for each column
///     .run()?;
/// assert_eq!(c.download()?, [0.0, 14.0, 3.0, 18.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Epilogue(Arc<Definition>);

#[derive(PartialEq, Eq, Hash)]
struct Definition {
    inputs: Vec<EpilogueInput>,
    /// The first is C.
    outputs: Vec<EpilogueOutput>,
    reductions: Vec<EpilogueReduction>,
    /// In the order of their inputs.
    closures: Vec<EpilogueClosure>,
    /// Whether it is that of the transposed product, whose rows are the columns of C.
    is_turned: bool,
    /// Of what is above, computed once: an epilogue is a part of the key of every call.
    hash: u64,
}

/// An input of an epilogue's formulas.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EpilogueInput {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub ty: Ty,
    /// What it is.
    pub kind: EpilogueInputKind,
}

/// What an input of an epilogue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EpilogueInputKind {
    /// The accumulator of the element, `acc`.
    Accumulator,
    /// The accumulator of the second right factor, `acc2`.
    SecondAccumulator,
    /// What C holds before the product, `c`.
    C,
    /// The row of the element in C, `row`.
    Row,
    /// The column of the element in C, `column`.
    Column,
    /// The element that a closure computes.
    Closure,
    /// The element of a tensor that the call gives.
    Tensor,
    /// A number that the call gives.
    Scalar,
}

/// An output of an epilogue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EpilogueOutput {
    /// Its name: `C` of the first.
    pub name: String,
    /// The formula of an element over the epilogue's inputs.
    pub formula: Formula,
}

/// A vector of sums or maxima over the rows or the columns of C's coordinates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EpilogueReduction {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: EpilogueReductionKind,
    /// The formula of the elements that are reduced, over the epilogue's inputs.
    pub formula: Formula,
}

/// What a vector of an epilogue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EpilogueReductionKind {
    /// The sum of each row: M numbers.
    RowSums,
    /// The largest element of each row: M numbers.
    RowMaxima,
    /// The sum of each column: N numbers.
    ColumnSums,
    /// The largest element of each column: N numbers.
    ColumnMaxima,
}

impl EpilogueInputKind {
    /// The mode of C, 0 for M, of whose coordinate it is.
    pub(crate) fn coordinate(self) -> Option<usize> {
        match self {
            EpilogueInputKind::Row => Some(0),
            EpilogueInputKind::Column => Some(1),
            EpilogueInputKind::Accumulator
            | EpilogueInputKind::SecondAccumulator
            | EpilogueInputKind::C
            | EpilogueInputKind::Tensor
            | EpilogueInputKind::Scalar
            | EpilogueInputKind::Closure => None,
        }
    }
}

impl EpilogueReductionKind {
    pub(crate) const ALL: [EpilogueReductionKind; 4] = [
        EpilogueReductionKind::RowSums,
        EpilogueReductionKind::RowMaxima,
        EpilogueReductionKind::ColumnSums,
        EpilogueReductionKind::ColumnMaxima,
    ];

    /// The operation.
    pub(crate) fn op(self) -> BinaryOp {
        match self {
            EpilogueReductionKind::RowSums | EpilogueReductionKind::ColumnSums => BinaryOp::Add,
            EpilogueReductionKind::RowMaxima | EpilogueReductionKind::ColumnMaxima => BinaryOp::Max,
        }
    }

    /// The mode of C, 0 for M, whose coordinates the vector has.
    pub(crate) fn kept(self) -> usize {
        match self {
            EpilogueReductionKind::RowSums | EpilogueReductionKind::RowMaxima => 0,
            EpilogueReductionKind::ColumnSums | EpilogueReductionKind::ColumnMaxima => 1,
        }
    }
}

/// `row sums`
impl fmt::Display for EpilogueReductionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EpilogueReductionKind::RowSums => "row sums",
            EpilogueReductionKind::RowMaxima => "row maxima",
            EpilogueReductionKind::ColumnSums => "column sums",
            EpilogueReductionKind::ColumnMaxima => "column maxima",
        })
    }
}

/// The lanes among which the elements of a row are divided.
pub(crate) const LANES: usize = 32;

impl EpilogueReduction {
    /// Returns the sum or the largest of the elements of one row or column on the host, with the roundings of the kernel: element
    /// `i` belongs to part `i % 32`, each part is reduced in ascending order, and the parts by a tree at the distances 1, 2, 4, 8
    /// and 16. The elements are bits, in the type of the formula. The sum of none is -0.0 or 0.
    ///
    /// ```
    /// # use colex_atom::Ty;
    /// # use colex_gpu::gemm::Epilogue;
    /// let sums = Epilogue::new(Ty::F32, |e| {
    ///     e.row_sums("sums", e.accumulator());
    ///     e.accumulator()
    /// })?;
    /// let bits = |x: f32| u64::from(x.to_bits());
    /// // Element 32 is added to element 0 first: the sum of all in ascending order would be 1.
    /// let mut row = vec![bits(0.0); 33];
    /// (row[0], row[1], row[32]) = (bits(1e9), bits(1.0), bits(-1e9));
    /// let sums = sums.reductions().next().unwrap();
    /// assert_eq!(sums.evaluate(&row)?, bits(1.0));
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if it is asked for the largest of no elements.
    pub fn evaluate(&self, elements: &[u64]) -> Result<u64, Error> {
        let (op, ty) = (self.kind.op(), self.formula.ty());
        let both = Expr::binary(op, Expr::input(0, ty), Expr::input(1, ty));
        let mut parts: Vec<u64> = match (op, elements.last()) {
            // The lanes beyond a short row have its last element.
            (BinaryOp::Max, Some(last)) => {
                let at = |lane: usize| *elements.get(lane).unwrap_or(last);
                (0..LANES).map(at).collect()
            }
            (BinaryOp::Max, None) => {
                let name = &self.name;
                return refuse(format!("{name} has the largest of no elements"));
            }
            _ => vec![nothing(ty).evaluate(&[])?; LANES],
        };
        let first = if op == BinaryOp::Max { LANES } else { 0 };
        for (i, element) in elements.iter().enumerate().skip(first) {
            let part = &mut parts[i % LANES];
            *part = both.evaluate(&[*part, *element])?;
        }
        for distance in [1, 2, 4, 8, 16] {
            let pair = |lane: usize| Ok(both.evaluate(&[parts[lane], parts[lane ^ distance]])?);
            parts = (0..LANES).map(pair).collect::<Result<_, Error>>()?;
        }
        Ok(parts[0])
    }
}

/// What changes no sum: of floats -0.
pub(crate) fn nothing(ty: Ty) -> Expr {
    match ty {
        Ty::S32 => Expr::from(0).to(ty),
        ty => Expr::from(-0.0).to(ty),
    }
}

/// The instructions of [`Epilogue::scaled`].
fn scaled_instructions(accumulator: Ty, c: Ty, reads_c: bool) -> u32 {
    let wide = match accumulator {
        Ty::S32 => Ty::F64,
        ty => ty,
    };
    let converts = |from: Ty, to: Ty| u32::from(from != to);
    let old = u32::from(reads_c) * (converts(c, wide) + 1);
    converts(accumulator, wide) + 1 + old + converts(wide, c)
}

/// An epilogue that is being described: [`Epilogue::new`] hands it to a function.
#[derive(Debug)]
pub struct EpilogueBuilder {
    /// The number of its first input in the expressions that it hands out.
    first: usize,
    inputs: Vec<EpilogueInput>,
    outputs: Vec<(String, Expr)>,
    reductions: Vec<(String, EpilogueReductionKind, Expr)>,
    closures: Vec<EpilogueClosure>,
    /// The first error of a closure.
    refused: Option<Error>,
}

/// More inputs than an epilogue has. The inputs of a builder are numbered from a multiple of it on, which other builders of the
/// process do not have: so their expressions are told apart. Smaller numbers are places in the epilogue that takes them.
const MOST_INPUTS: usize = 1 << 19;

/// The builders of the process until the numbers begin again.
const BUILDERS: usize = (1 << 12) - 1;

/// The builders of the process so far.
static BUILT: AtomicUsize = AtomicUsize::new(0);

/// The name of the output that every product has.
pub(crate) const C: &str = "C";

/// The name of the accumulator of the second right factor.
const SECOND: &str = "acc2";

/// The names of the coordinates of C.
const ROW: &str = "row";
const COLUMN: &str = "column";

/// The names of the parameters that products have, and of the inputs of every epilogue.
const RESERVED: [&str; 30] = [
    "addresses",
    "arrived",
    "awaited",
    "counts",
    "departed",
    "first_chunk",
    "offsets",
    "rows_of_C",
    "tail_of_C",
    "tiles_n",
    "undivided",
    "units",
    "words",
    "A",
    "B",
    "B2",
    "C",
    "acc",
    "acc2",
    "c",
    "m",
    "n",
    "k",
    "l0",
    "l1",
    "l2",
    "parts",
    "workspace",
    ROW,
    COLUMN,
];

impl EpilogueBuilder {
    fn input(&mut self, name: &str, ty: Ty, kind: EpilogueInputKind) -> Expr {
        let same = |input: &EpilogueInput| input.name == name && input.kind == kind;
        let known = self.inputs.iter().position(same);
        let number = known.unwrap_or(self.inputs.len());
        if known.is_none() {
            let name = name.to_string();
            self.inputs.push(EpilogueInput { name, ty, kind });
        }
        Expr::input(self.first + number, ty)
    }

    /// The formula over places among the inputs, of an output or a closure.
    ///
    /// # Errors
    ///
    /// Returns an error if it has an input of another builder.
    fn own(&self, name: &str, formula: &Formula) -> Result<Formula, Error> {
        let own = self.first..self.first + self.inputs.len();
        let is_known = |number: usize| number < MOST_INPUTS || own.contains(&number);
        if !formula.inputs().all(|(number, _)| is_known(number)) {
            return refuse(format!(
                "{name} takes an input of another epilogue: each epilogue takes those of its own builder"
            ));
        }
        Ok(formula.renumbered(|number| number % MOST_INPUTS))
    }

    /// Returns the accumulator.
    ///
    /// ```
    /// # use colex_atom::Ty;
    /// # use colex_gpu::gemm::Epilogue;
    /// let relu = Epilogue::new(Ty::F32, |e| e.accumulator().relu())?;
    /// assert_eq!(relu.to_string(), "(acc: f32) -> C { max(acc, 0) }");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn accumulator(&self) -> Expr {
        Expr::input(self.first, self.inputs[0].ty)
    }

    /// Returns the accumulator of the same element of the product with the second right factor, which the call gives by
    /// [`Gemm::b2`](crate::Gemm::b2).
    ///
    /// ```
    /// # use colex_atom::Ty;
    /// # use colex_gpu::gemm::Epilogue;
    /// let swiglu = Epilogue::new(Ty::F32, |e| e.accumulator().silu() * e.second_accumulator())?;
    /// assert!(swiglu.to_string().starts_with("(acc: f32, acc2: f32) -> C { "));
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn second_accumulator(&mut self) -> Expr {
        let ty = self.inputs[0].ty;
        self.input(SECOND, ty, EpilogueInputKind::SecondAccumulator)
    }

    /// Returns what C, whose elements have type `ty`, holds before the product.
    ///
    /// ```
    /// # use colex_atom::Ty;
    /// # use colex_gpu::gemm::Epilogue;
    /// let sum = Epilogue::new(Ty::F32, |e| e.c(Ty::F32) + e.accumulator())?;
    /// assert_eq!(sum.to_string(), "(acc: f32, c: f32) -> C { add(c, acc) }");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn c(&mut self, ty: Ty) -> Expr {
        self.input("c", ty, EpilogueInputKind::C)
    }

    /// Returns the row of the element in C, an `s32` from 0 on. In a batch, and in groups with a matrix each, it counts from the first
    /// row of the product's own matrix; in groups of contiguous rows, from the first row of C.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::gemm::Epilogue;
    /// use colex_gpu::{Device, Gemm};
    ///
    /// // A causal mask: no query sees a later key.
    /// let causal = Epilogue::new(Ty::F32, |e| {
    ///     e.column().le(e.row()).select(e.accumulator(), f64::NEG_INFINITY)
    /// })?;
    /// assert!(causal.to_string().starts_with("(acc: f32, column: s32, row: s32) -> C { select("));
    /// let device = Device::open();
    /// let a = device.upload(&[1f32, 2.0, 3.0, 4.0])?;
    /// let mut c = device.poisoned::<f32>(4)?;
    /// let x = a.view((2, 2))?;
    /// Gemm::new(&x, &x, &c.view_mut((2, 2))?).epilogue(&causal).run()?;
    /// assert_eq!(c.download()?, [5.0, f32::NEG_INFINITY, 11.0, 25.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn row(&mut self) -> Expr {
        self.input(ROW, Ty::S32, EpilogueInputKind::Row)
    }

    /// Returns the column of the element in C, an `s32` from 0 on.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::gemm::Epilogue;
    ///
    /// // Numbers of positions, added without a tensor that holds them.
    /// let slopes = Epilogue::new(Ty::F32, |e| {
    ///     let distance = (e.column() - e.row()).to(Ty::F32);
    ///     distance.fma(e.scalar("slope", Ty::F32), e.accumulator())
    /// })?;
    /// let bits = |x: f32| u64::from(x.to_bits());
    /// // Row 1, column 4: 10 + 3 * 0.5. The inputs are the accumulator and the scalar.
    /// assert_eq!(slopes.evaluate_at([1, 4], &[bits(10.0), bits(0.5)])?, [bits(11.5)]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn column(&mut self) -> Expr {
        self.input(COLUMN, Ty::S32, EpilogueInputKind::Column)
    }

    /// Returns the element of a tensor of type `ty`, which the call gives by a layout of the shape (M,N).
    ///
    /// ```
    /// # use colex_atom::Ty;
    /// # use colex_gpu::gemm::Epilogue;
    /// let sum = Epilogue::new(Ty::F32, |e| e.accumulator() + e.tensor("bias", Ty::F32))?;
    /// assert_eq!(sum.to_string(), "(acc: f32, bias: tensor f32) -> C { add(acc, bias) }");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn tensor(&mut self, name: &str, ty: Ty) -> Expr {
        self.input(name, ty, EpilogueInputKind::Tensor)
    }

    /// Returns a number of type `ty` that the call gives: `f32`, `f64` or `s32`.
    ///
    /// ```
    /// # use colex_atom::Ty;
    /// # use colex_gpu::gemm::Epilogue;
    /// let half = Epilogue::new(Ty::F32, |e| e.accumulator() * e.scalar("s", Ty::F32))?;
    /// assert_eq!(half.to_string(), "(acc: f32, s: scalar f32) -> C { mul(acc, s) }");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn scalar(&mut self, name: &str, ty: Ty) -> Expr {
        self.input(name, ty, EpilogueInputKind::Scalar)
    }

    /// Returns the elements of type `ty` that a closure computes: for what an expression does not say, in the kernels of every
    /// architecture.
    ///
    /// The closure gets the builder of the kernel, some of a thread's elements of each argument as a fragment of one mode, and where
    /// in C these elements lie. It adds instructions, and returns an expression over the fragments, whose elements have the same
    /// order. A kernel calls it for each part of its accumulators. How many elements a thread has at once, and which, differs between
    /// kernels. In a GEMV, threads that share K have the same elements. The threads of a warp run it together, but not those of a block:
    /// it may exchange elements within a warp. A barrier, at which some warps of the block never arrive, is refused when a kernel is
    /// built.
    ///
    /// An epilogue compares, hashes and prints the name, the version and the arguments: caches of plans and kernels take them for the
    /// function. So the closure captures nothing, and a process has one function under a name and a version. Another function
    /// takes another version. An epilogue may apply one function several times: the inputs with its elements are `rotate`, `rotate_2`
    /// and so on. The text of an epilogue parses where the process has built one with this closure before. The host does not
    /// evaluate it.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::gemm::{Epilogue, GemmMethod};
    /// use colex_gpu::{Device, Gemm, View};
    ///
    /// // Rotary embeddings: each pair of neighbours in a row is turned by an angle.
    /// let rotated = Epilogue::new(Ty::F32, |e| {
    ///     let (x, [cos, sin]) = (e.accumulator(), ["cos", "sin"].map(|name| e.tensor(name, Ty::F32)));
    ///     e.apply("rotate", 1, Ty::F32, [x, cos, sin], |k, [x, cos, sin], elements| {
    ///         let d = k.fragment(Ty::F32, x.layout());
    ///         for [even, odd] in elements.pairs_of_columns()? {
    ///             let at = |of: &colex_tensor::Fragment, i: i64| of.values(i, 1);
    ///             let ([u, v], [c, s]) = ([at(&x, even), at(&x, odd)], [at(&cos, even), at(&sin, even)]);
    ///             k.assign(&at(&d, even), &u * &c - &v * &s);
    ///             k.assign(&at(&d, odd), &u * &s + &v * &c);
    ///         }
    ///         Ok(d.into())
    ///     })
    /// })?;
    /// assert_eq!(
    ///     rotated.to_string(),
    ///     "(acc: f32, cos: tensor f32, sin: tensor f32, rotate: closure f32) -> \
    ///      C { rotate } rotate: closure 1 { acc } { cos } { sin }"
    /// );
    /// let device = Device::simulator(Arch::Sm80);
    /// let ones = vec![half::f16::ONE; 16 * 16];
    /// let a = device.upload(&ones)?;
    /// let (cos, sin) = (device.upload(&[0f32, 1.0])?, device.upload(&[1f32, 0.0])?);
    /// let mut c = device.poisoned::<f32>(16 * 8)?;
    /// // One angle for each of the pairs (0,1) and (2,3), and again.
    /// let [cos, sin] = [&cos, &sin].map(|of| View::new(of, "(16,(2,2,2)):(0,(0,1,0))"));
    /// Gemm::new(&a.view((16, 16))?, &a.slice(..8 * 16)?.view((8, 16))?, &c.view_mut((16, 8))?)
    ///     .method(GemmMethod::Ampere)
    ///     .epilogue(&rotated)
    ///     .tensor("cos", &cos?)
    ///     .tensor("sin", &sin?)
    ///     .run()?;
    /// assert_eq!(c.download()?[..4], [-16.0, 16.0, 16.0, 16.0]); // a quarter turn, and none
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Epilogue::new`] fails if the closure captures values, or if another function has its name and version. A call fails with the
    /// error that the closure returns, and if the closure adds a barrier of more than a warp.
    pub fn apply<const N: usize, F>(
        &mut self,
        name: &str,
        version: u32,
        ty: Ty,
        arguments: [Expr; N],
        closure: F,
    ) -> Expr
    where
        F: Fn(&mut Builder, [Fragment; N], &EpilogueElements) -> Result<Expr, colex_tensor::Error>
            + Send
            + Sync
            + 'static,
    {
        let formulas = arguments.into_iter().map(|argument| {
            let formula = argument.formula()?;
            self.own(name, &formula)
        });
        let formulas: Result<Vec<Formula>, Error> = formulas.collect();
        let before = self.closures.iter().filter(|other| other.name == name);
        let input = input_name(name, before.count());
        let body = register((name, version), ty, closure);
        let body = body.map_err(|why| Error::from(ErrorKind::Epilogue { why }));
        match formulas.and_then(|formulas| Ok((formulas, body?))) {
            Ok((arguments, body)) => self.closures.push(EpilogueClosure {
                name: name.to_string(),
                version,
                ty,
                arguments,
                body,
            }),
            Err(error) => self.refused = self.refused.take().or(Some(error)),
        }
        self.inputs.push(EpilogueInput {
            name: input,
            ty,
            kind: EpilogueInputKind::Closure,
        });
        Expr::input(self.first + self.inputs.len() - 1, ty)
    }

    /// Adds an output beside C, which the call gives by a layout of the shape (M,N).
    ///
    /// ```
    /// # use colex_atom::Ty;
    /// # use colex_gpu::gemm::Epilogue;
    /// let both = Epilogue::new(Ty::F32, |e| {
    ///     e.output("before", e.accumulator());
    ///     e.accumulator().relu()
    /// })?;
    /// assert_eq!(both.to_string(), "(acc: f32) -> C { max(acc, 0) } before { acc }");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn output(&mut self, name: &str, element: impl Into<Expr>) {
        self.outputs.push((name.to_string(), element.into()));
    }

    /// Adds a vector of the sums of the rows: one `f32`, `f64` or `s32` for each row, which the call gives by
    /// [`Gemm::output`](crate::Gemm::output) with a layout of the shape (M), or (M,L..) of a batch or of groups along K.
    ///
    /// A second kernel adds the elements in an order that depends on nothing but the length of a row
    /// ([`EpilogueReduction::evaluate`]): the bits are the same in every run, for every plan and on every device. It reads C or the
    /// output whose formula is the same, or else memory to which the product writes the elements.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::gemm::Epilogue;
    /// use colex_gpu::{Device, Gemm};
    ///
    /// // What a normalisation of the rows needs: the sums of the squares.
    /// let squares = Epilogue::new(Ty::F32, |e| {
    ///     let x = e.accumulator();
    ///     e.row_sums("squares", x.clone() * x.clone());
    ///     x
    /// })?;
    /// assert_eq!(squares.to_string(), "(acc: f32) -> C { acc } squares: row sums { mul(acc, acc) }");
    /// let device = Device::open();
    /// let a = device.upload(&[1f32, 2.0, 3.0, 4.0])?;
    /// let (mut c, mut sums) = (device.poisoned::<f32>(4)?, device.poisoned::<f32>(2)?);
    /// let x = a.view((2, 2))?;
    /// Gemm::new(&x, &x, &c.view_mut((2, 2))?)
    ///     .epilogue(&squares)
    ///     .output("squares", &sums.view_mut(2)?)
    ///     .run()?;
    /// assert_eq!(sums.download()?, [25.0 + 121.0, 121.0 + 625.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn row_sums(&mut self, name: &str, element: impl Into<Expr>) {
        self.reduce(name, EpilogueReductionKind::RowSums, element.into());
    }

    /// Adds a vector of the largest element of each row, as [`row_sums`](Self::row_sums) adds one of sums. Of numbers and NaNs it is
    /// the largest number, and of NaNs alone a NaN.
    ///
    /// ```
    /// # use colex_atom::Ty;
    /// # use colex_gpu::gemm::Epilogue;
    /// let most = Epilogue::new(Ty::F32, |e| {
    ///     e.row_maxima("most", e.accumulator().abs()); // what a scale of each row for `e4m3` needs
    ///     e.accumulator()
    /// })?;
    /// assert_eq!(most.to_string(), "(acc: f32) -> C { acc } most: row maxima { abs(acc) }");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn row_maxima(&mut self, name: &str, element: impl Into<Expr>) {
        self.reduce(name, EpilogueReductionKind::RowMaxima, element.into());
    }

    /// Adds a vector of the sums of the columns, of the shape (N), as [`row_sums`](Self::row_sums) adds one of the rows: the gradient
    /// of a bias is one.
    ///
    /// ```
    /// # use colex_atom::Ty;
    /// # use colex_gpu::gemm::Epilogue;
    /// let gradient = Epilogue::new(Ty::F32, |e| {
    ///     e.column_sums("bias", e.accumulator());
    ///     e.accumulator()
    /// })?;
    /// assert_eq!(gradient.to_string(), "(acc: f32) -> C { acc } bias: column sums { acc }");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn column_sums(&mut self, name: &str, element: impl Into<Expr>) {
        self.reduce(name, EpilogueReductionKind::ColumnSums, element.into());
    }

    /// Adds a vector of the largest element of each column, of the shape (N), as [`row_maxima`](Self::row_maxima) adds one of the
    /// rows.
    ///
    /// ```
    /// # use colex_atom::Ty;
    /// # use colex_gpu::gemm::Epilogue;
    /// let most = Epilogue::new(Ty::S32, |e| {
    ///     e.column_maxima("most", e.accumulator());
    ///     e.accumulator()
    /// })?;
    /// assert_eq!(most, most.to_string().parse()?);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn column_maxima(&mut self, name: &str, element: impl Into<Expr>) {
        self.reduce(name, EpilogueReductionKind::ColumnMaxima, element.into());
    }

    fn reduce(&mut self, name: &str, kind: EpilogueReductionKind, element: Expr) {
        self.reductions.push((name.to_string(), kind, element));
    }
}

fn refuse<T>(why: String) -> Result<T, Error> {
    Err(ErrorKind::Epilogue { why }.into())
}

/// The names that have a meaning in the text of a formula, and those that no parameter of a kernel has.
const TAKEN: [&str; 7] = [
    "inf",
    "NaN",
    "true",
    "false",
    "_",
    "WARP_SZ",
    "dynamic_shared",
];

/// Why a name is none of an input or output of formulas, if it is not.
pub(crate) fn name_refusal(name: &str, reserved: &[&str], what: &str) -> Option<String> {
    let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
    let goes_on = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = name.starts_with(begins) && name.chars().all(goes_on);
    let is_parameter = |part: &str| name.contains(part);
    if !is_name || ["_extent_", "_stride_"].into_iter().any(is_parameter) {
        return Some(format!(
            "`{name}` is no name of an input or output: letters, digits and `_` are, without `_extent_` and `_stride_`"
        ));
    }
    let temporary = name.strip_prefix(['t', 'x']);
    let is_step = temporary.is_some_and(|n| !n.is_empty() && n.parse::<u64>().is_ok());
    let is_reserved = reserved.contains(&name) || TAKEN.contains(&name);
    (is_reserved || is_step)
        .then(|| format!("`{name}` has a meaning in every {what}: take another name"))
}

impl Epilogue {
    /// Builds an epilogue of products whose accumulators have type `accumulator`: `f32` of floats, `f64` of `f64`, `s32` of
    /// integers. The function returns the element of C.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::gemm::Epilogue;
    ///
    /// // GELU for the next layer, and its argument for the backward pass.
    /// let epilogue = Epilogue::new(Ty::F32, |e| {
    ///     let x = e.accumulator() + e.tensor("bias", Ty::Bf16).to(Ty::F32);
    ///     e.output("before", x.to(Ty::Bf16));
    ///     x.gelu().to(Ty::Bf16)
    /// })?;
    /// assert_eq!(epilogue.outputs().count(), 2);
    /// let error = Epilogue::new(Ty::F32, |e| e.accumulator() + e.tensor("bias", Ty::Bf16)).unwrap_err();
    /// assert!(error.to_string().ends_with("add of f32 and bf16: both have one type, and `.to(Ty::Bf16)` converts"));
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if no product has such accumulators, if a formula was refused when it was made, consists of constants or
    /// takes an input of another builder, if an element has less than 8 bits, if a scalar has another type than `f32`, `f64` and `s32`, or if a name is given twice
    /// or is none.
    pub fn new(
        accumulator: Ty,
        build: impl FnOnce(&mut EpilogueBuilder) -> Expr,
    ) -> Result<Epilogue, Error> {
        let acc = EpilogueInput {
            name: "acc".to_string(),
            ty: accumulator,
            kind: EpilogueInputKind::Accumulator,
        };
        let number = BUILT.fetch_add(1, Ordering::Relaxed) % BUILDERS;
        let mut builder = EpilogueBuilder {
            first: (number + 1) * MOST_INPUTS,
            inputs: vec![acc],
            outputs: Vec::new(),
            reductions: Vec::new(),
            closures: Vec::new(),
            refused: None,
        };
        let c = build(&mut builder);
        if let Some(error) = builder.refused {
            return Err(error);
        }
        builder.outputs.insert(0, (C.to_string(), c));
        let output = |(name, expr): &(String, Expr)| {
            let (name, formula) = (name.clone(), builder.own(name, &expr.formula()?)?);
            Ok::<_, Error>(EpilogueOutput { name, formula })
        };
        let outputs = builder.outputs.iter().map(output);
        let outputs = outputs.collect::<Result<_, _>>()?;
        let reduction = |(name, kind, expr): &(String, EpilogueReductionKind, Expr)| {
            Ok::<_, Error>(EpilogueReduction {
                name: name.clone(),
                kind: *kind,
                formula: builder.own(name, &expr.formula()?)?,
            })
        };
        let reductions = builder.reductions.iter().map(reduction);
        let reductions = reductions.collect::<Result<_, _>>()?;
        Epilogue::of(builder.inputs, outputs, reductions, builder.closures)
    }

    /// Checks the terms of an epilogue.
    fn of(
        inputs: Vec<EpilogueInput>,
        outputs: Vec<EpilogueOutput>,
        reductions: Vec<EpilogueReduction>,
        closures: Vec<EpilogueClosure>,
    ) -> Result<Epilogue, Error> {
        let accumulator = inputs[0].ty;
        if ![Ty::F32, Ty::F64, Ty::S32].contains(&accumulator) {
            return refuse(format!(
                "no product has accumulators of {accumulator}: they are f32, f64 or s32"
            ));
        }
        for (i, input) in inputs.iter().enumerate() {
            let is_same = |other: &EpilogueInput| {
                other.kind == input.kind
                    && !matches!(
                        input.kind,
                        EpilogueInputKind::Tensor
                            | EpilogueInputKind::Scalar
                            | EpilogueInputKind::Closure
                    )
            };
            if inputs[..i].iter().any(is_same) {
                return refuse(format!(
                    "`{}` stands twice among the inputs: each stands once",
                    input.name
                ));
            }
        }
        let mut names: Vec<&str> = Vec::new();
        let given = |input: &&EpilogueInput| {
            matches!(
                input.kind,
                EpilogueInputKind::Tensor | EpilogueInputKind::Scalar | EpilogueInputKind::Closure
            )
        };
        let all = inputs.iter().filter(given).map(|input| &input.name);
        let all = all.chain(outputs.iter().skip(1).map(|output| &output.name));
        for name in all.chain(reductions.iter().map(|reduction| &reduction.name)) {
            // Parameters of several owners and lists: `C_1`, `list_0`.
            let numbered = ["C_", "list_"]
                .into_iter()
                .find_map(|of| name.strip_prefix(of));
            let is_numbered = numbered.is_some_and(|n| n.parse::<u64>().is_ok());
            let own = [&name[..]];
            let reserved: &[&str] = if is_numbered { &own } else { &RESERVED };
            if let Some(why) = name_refusal(name, reserved, "epilogue") {
                return refuse(why);
            }
            if names.contains(&&name[..]) {
                return refuse(format!(
                    "`{name}` names two inputs or outputs: each has its own name"
                ));
            }
            names.push(name);
        }
        let second = inputs
            .iter()
            .find(|input| input.kind == EpilogueInputKind::SecondAccumulator);
        if let Some(second) = second.filter(|second| second.ty != accumulator) {
            return refuse(format!(
                "{SECOND} is of {}, and acc of {accumulator}: the accumulators have one type",
                second.ty
            ));
        }
        let is_element = |ty: Ty| ty.bits() >= 8 && !matches!(ty.class(), Class::Complex { .. });
        for EpilogueInput { name, ty, kind } in &inputs {
            if *kind == EpilogueInputKind::Scalar && ![Ty::F32, Ty::F64, Ty::S32].contains(ty) {
                return refuse(format!(
                    "the scalar {name} is of {ty}: a launch passes f32, f64 and s32, and `.to` converts"
                ));
            }
            if kind.coordinate().is_some() && *ty != Ty::S32 {
                return refuse(format!("{name} is of {ty}: a coordinate of C is an s32"));
            }
            if !is_element(*ty) {
                return refuse(format!(
                    "{name} has elements of {ty}: those of an epilogue are floats and integers of 8 to 64 bits"
                ));
            }
        }
        let c = inputs
            .iter()
            .find(|input| input.kind == EpilogueInputKind::C);
        if let Some(c) = c.filter(|c| c.ty != outputs[0].formula.ty()) {
            return refuse(format!(
                "C is read as {} and written as {}: it has one type",
                c.ty,
                outputs[0].formula.ty()
            ));
        }
        for EpilogueReduction {
            name,
            kind,
            formula,
        } in &reductions
        {
            let ty = formula.ty();
            if ![Ty::F32, Ty::F64, Ty::S32].contains(&ty) {
                return refuse(format!(
                    "{name} has {kind} of {ty}: sums and maxima are of f32, f64 and s32, and `.to` converts"
                ));
            }
        }
        let outputs_of = outputs.iter().map(|output| (&output.name, &output.formula));
        let vectors = reductions.iter().map(|one| (&one.name, &one.formula));
        // Each with the number of inputs that it may have: a closure has those before its own.
        let whole = outputs_of
            .chain(vectors)
            .map(|(name, formula)| (name, formula, inputs.len()));
        let own = inputs
            .iter()
            .enumerate()
            .filter(|(_, input)| input.kind == EpilogueInputKind::Closure);
        let pairs = closures.iter().zip(own);
        let arguments = pairs.flat_map(|(closure, (number, _))| {
            let arguments = closure.arguments.iter();
            arguments.map(move |formula| (&closure.name, formula, number))
        });
        for (name, formula, count) in whole.chain(arguments) {
            // An input that was asked for with two types.
            for (number, ty) in formula.inputs() {
                let Some(own) = inputs[..count].get(number) else {
                    return refuse(format!(
                        "{name} has input {number}, which is not the epilogue's"
                    ));
                };
                if own.ty != ty {
                    let (input, own) = (&own.name, own.ty);
                    return refuse(format!("{input} is of {own}, and {name} takes it as {ty}"));
                }
            }
        }
        Ok(Epilogue::hashed(
            (inputs, outputs, reductions),
            closures,
            false,
        ))
    }

    /// The epilogue of terms that were checked.
    fn hashed(
        (inputs, outputs, reductions): (
            Vec<EpilogueInput>,
            Vec<EpilogueOutput>,
            Vec<EpilogueReduction>,
        ),
        closures: Vec<EpilogueClosure>,
        is_turned: bool,
    ) -> Epilogue {
        let mut hasher = std::hash::DefaultHasher::new();
        (&inputs, &outputs, &reductions, &closures, is_turned).hash(&mut hasher);
        Epilogue(Arc::new(Definition {
            inputs,
            outputs,
            reductions,
            closures,
            is_turned,
            hash: hasher.finish(),
        }))
    }

    /// Returns `alpha acc + beta c` as numbers of type `c`, the epilogue of products that have no other: integers in binary64,
    /// rounded to nearest at the end. If `reads_c` is false, it is `alpha acc`.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::gemm::Epilogue;
    ///
    /// assert_eq!(
    ///     Epilogue::scaled(Ty::F32, Ty::F16, true)?.to_string(),
    ///     "(acc: f32, alpha: scalar f32, beta: scalar f32, c: f16) -> \
    ///      C { cvt.rn.f16(fma(acc, alpha, mul(cvt.rn.f32(c), beta))) }"
    /// );
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Epilogue::new`]: of an accumulator that no product has, and of a C whose numbers are not converted.
    pub fn scaled(accumulator: Ty, c: Ty, reads_c: bool) -> Result<Epilogue, Error> {
        let wide = match accumulator {
            Ty::S32 => Ty::F64,
            ty => ty,
        };
        Epilogue::new(accumulator, |e| {
            let [alpha, beta] = ["alpha", "beta"].map(|name| e.scalar(name, wide));
            let sum = e.accumulator().to(wide);
            let total = if !reads_c {
                sum * alpha
            } else {
                let old = e.c(c).to(wide);
                if wide == Ty::F64 && c == Ty::S32 {
                    old.fma(beta, sum * alpha)
                } else {
                    sum.fma(alpha, old * beta)
                }
            };
            total.rounded(c, Round::Nearest)
        })
    }

    /// Returns the inputs in the order of their numbers; the accumulator is the first.
    ///
    /// ```
    /// # use colex_atom::Ty;
    /// # use colex_gpu::gemm::Epilogue;
    /// let scaled = Epilogue::scaled(Ty::F32, Ty::F32, false)?;
    /// let names: Vec<&str> = scaled.inputs().map(|input| &input.name[..]).collect();
    /// assert_eq!(names, ["acc", "alpha", "beta"]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn inputs(&self) -> impl Iterator<Item = &EpilogueInput> {
        self.0.inputs.iter()
    }

    /// Returns the outputs; C is the first.
    ///
    /// ```
    /// # use colex_atom::Ty;
    /// # use colex_gpu::gemm::Epilogue;
    /// let scaled = Epilogue::scaled(Ty::S32, Ty::S32, false)?;
    /// assert_eq!(scaled.outputs().next().unwrap().formula.ty(), Ty::S32);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn outputs(&self) -> impl Iterator<Item = &EpilogueOutput> {
        self.0.outputs.iter()
    }

    /// Returns the vectors of sums and maxima.
    ///
    /// ```
    /// # use colex_atom::Ty;
    /// # use colex_gpu::gemm::{Epilogue, EpilogueReductionKind};
    /// let sums: Epilogue = "(acc: f32) -> C { acc } sums: row sums { abs(acc) }".parse()?;
    /// let sums = sums.reductions().next().unwrap();
    /// assert_eq!((&sums.name[..], sums.kind), ("sums", EpilogueReductionKind::RowSums));
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn reductions(&self) -> impl Iterator<Item = &EpilogueReduction> {
        self.0.reductions.iter()
    }

    /// The epilogue without its vectors, whose outputs have all elements that these are made from, and for each vector the number
    /// of the output that has its elements in the order of C, which those of some names do not have. An output that is there for a
    /// vector only has the vector's name.
    pub(crate) fn with_elements(&self, is_listed: impl Fn(&str) -> bool) -> (Epilogue, Vec<usize>) {
        let mut outputs = self.0.outputs.clone();
        let mut found = Vec::new();
        for EpilogueReduction { name, formula, .. } in self.reductions() {
            let has_it = |own: &EpilogueOutput| own.formula == *formula && !is_listed(&own.name);
            let known = outputs.iter().position(has_it);
            found.push(known.unwrap_or(outputs.len()));
            if known.is_none() {
                outputs.push(EpilogueOutput {
                    name: name.clone(),
                    formula: formula.clone(),
                });
            }
        }
        let inputs = self.0.inputs.clone();
        let all = Epilogue::of(inputs, outputs, Vec::new(), self.0.closures.clone());
        let all = all.expect("invariant: names and formulas were checked");
        (all, found)
    }

    /// Whether a formula reads what C held.
    pub(crate) fn reads_c(&self) -> bool {
        let is_c = |(number, _): (usize, Ty)| self.0.inputs[number].kind == EpilogueInputKind::C;
        let formulas = self.outputs().flat_map(|output| output.formula.inputs());
        let reduced = self.reductions().flat_map(|one| one.formula.inputs());
        let arguments = self.closures().flat_map(|closure| &closure.arguments);
        let arguments = arguments.flat_map(Formula::inputs);
        formulas.chain(reduced).chain(arguments).any(is_c)
    }

    /// The work for one element of C beyond the scaled sum, which every product has: that of all outputs and vectors, and of what
    /// closures are given. What the tensors of a call vary along, an epilogue does not know.
    pub(crate) fn work_beyond_scaled(&self) -> EpilogueWork {
        let accumulator = self.0.inputs[0].ty;
        let c = self.0.outputs[0].formula.ty();
        let scaled = scaled_instructions(accumulator, c, self.reads_c());
        let special_functions = self.sum_of(Formula::special_functions);
        // A special function has 8 slots.
        let more = special_functions.saturating_mul(7);
        let instructions = self.sum_of(Formula::issue_slots).saturating_sub(more);
        EpilogueWork {
            instructions: instructions.saturating_sub(scaled),
            special_functions,
            tensor_bytes: 0,
        }
    }

    fn sum_of(&self, count: impl Fn(&Formula) -> u32) -> u32 {
        let outputs = self.outputs().map(|output| &output.formula);
        let reduced = self.reductions().map(|one| &one.formula);
        let arguments = self.closures().flat_map(|closure| &closure.arguments);
        let counts = outputs.chain(reduced).chain(arguments).map(count);
        counts.fold(0, u32::saturating_add)
    }

    /// Returns the closures, in the order of their inputs.
    ///
    /// ```
    /// # use colex_atom::Ty;
    /// # use colex_gpu::gemm::Epilogue;
    /// let doubled = Epilogue::new(Ty::F32, |e| {
    ///     let x = e.accumulator();
    ///     e.apply("doubled", 1, Ty::F32, [x], |_, [x], _| Ok(&x + &x))
    /// })?;
    /// let doubled = doubled.closures().next().unwrap();
    /// assert_eq!((&doubled.name[..], doubled.version, doubled.arguments.len()), ("doubled", 1, 1));
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn closures(&self) -> impl Iterator<Item = &EpilogueClosure> {
        self.0.closures.iter()
    }

    /// Whether a formula or a closure may read the coordinates of C.
    pub(crate) fn has_coordinates(&self) -> bool {
        let reads = |input: &EpilogueInput| input.kind.coordinate().is_some();
        !self.0.closures.is_empty() || self.inputs().any(reads)
    }

    /// Whether its rows are the columns of C.
    pub(crate) fn is_turned(&self) -> bool {
        self.0.is_turned
    }

    /// The epilogue of the transposed product. It is no epilogue that a caller builds.
    pub(crate) fn turned(&self) -> Epilogue {
        if !self.has_coordinates() {
            return self.clone();
        }
        let Definition {
            inputs,
            outputs,
            reductions,
            closures,
            is_turned,
            hash: _,
        } = &*self.0;
        let terms = (inputs.clone(), outputs.clone(), reductions.clone());
        Epilogue::hashed(terms, closures.clone(), !is_turned)
    }

    /// Whether it has the accumulators of two right factors.
    pub(crate) fn is_gated(&self) -> bool {
        let mut inputs = self.inputs();
        inputs.any(|input| input.kind == EpilogueInputKind::SecondAccumulator)
    }

    /// Returns one element of each output on the host, with the roundings of the kernel. The inputs are the bits of elements, in
    /// the order of [`Epilogue::inputs`].
    ///
    /// ```
    /// # use colex_atom::Ty;
    /// # use colex_gpu::gemm::Epilogue;
    /// let scaled = Epilogue::scaled(Ty::F32, Ty::F32, false)?;
    /// let bits = |x: f32| u64::from(x.to_bits());
    /// assert_eq!(scaled.evaluate(&[bits(3.0), bits(0.5), bits(0.0)])?, [bits(1.5)]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if there are not as many numbers as inputs, if a formula may read the coordinates of C, which
    /// [`Epilogue::evaluate_at`] takes, or if the epilogue has a closure.
    pub fn evaluate(&self, inputs: &[u64]) -> Result<Vec<u64>, Error> {
        self.check_closures()?;
        if self.has_coordinates() {
            return refuse(
                "it reads coordinates of C, which `evaluate_at([row, column], &inputs)` takes"
                    .to_string(),
            );
        }
        self.check_count("evaluate", inputs.len())?;
        let value = |output: &EpilogueOutput| Ok(output.formula.evaluate(inputs)?);
        self.outputs().map(value).collect()
    }

    /// Returns the element of each output at a row and a column of C on the host, with the roundings of the kernel. The inputs are
    /// the bits of elements, in the order of [`Epilogue::inputs`] without the coordinates.
    ///
    /// ```
    /// # use colex_atom::Ty;
    /// # use colex_gpu::gemm::Epilogue;
    /// let lower = Epilogue::new(Ty::F32, |e| e.column().le(e.row()).select(e.accumulator(), 0.0))?;
    /// let bits = |x: f32| u64::from(x.to_bits());
    /// assert_eq!(lower.evaluate_at([2, 2], &[bits(3.0)])?, [bits(3.0)]);
    /// assert_eq!(lower.evaluate_at([2, 3], &[bits(3.0)])?, [bits(0.0)]);
    /// let error = lower.evaluate(&[bits(3.0)]).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "epilogue: it reads coordinates of C, which `evaluate_at([row, column], &inputs)` takes"
    /// );
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if there are not as many numbers as inputs, if a coordinate is none of a matrix that a product has, or if the
    /// epilogue has a closure.
    pub fn evaluate_at(&self, at: [i64; 2], inputs: &[u64]) -> Result<Vec<u64>, Error> {
        self.check_closures()?;
        if at.iter().any(|at| !(0..MOST_EXTENT).contains(at)) {
            let [row, column] = at;
            return refuse(format!(
                "the element ({row},{column}): coordinates of C are from 0 to {}",
                MOST_EXTENT - 1
            ));
        }
        self.check_count("evaluate_at", inputs.len())?;
        let mut given = inputs.iter();
        let inputs = self
            .inputs()
            .map_while(|input| match input.kind.coordinate() {
                Some(mode) => Some(at[mode] as u64),
                None => given.next().copied(),
            });
        let inputs: Vec<u64> = inputs.collect();
        let value = |output: &EpilogueOutput| Ok(output.formula.evaluate(&inputs)?);
        self.outputs().map(value).collect()
    }

    /// Refuses another number of inputs, beside the coordinates, than there are.
    fn check_count(&self, name: &str, given: usize) -> Result<(), Error> {
        let inputs = self.inputs();
        let inputs = inputs.filter(|input| input.kind.coordinate().is_none());
        let names: Vec<&str> = inputs.map(|input| &input.name[..]).collect();
        if given == names.len() {
            return Ok(());
        }
        let s = if given == 1 { "" } else { "s" };
        refuse(format!(
            "`{name}` is given {given} number{s}, and its inputs are {}: each has one, in this order",
            list(names.into_iter())
        ))
    }

    /// Refuses to evaluate closures.
    fn check_closures(&self) -> Result<(), Error> {
        match self.closures().next() {
            Some(closure) => refuse(format!(
                "the closure {} adds instructions to a kernel: the host does not evaluate it",
                closure.name
            )),
            None => Ok(()),
        }
    }
}

impl PartialEq for Epilogue {
    fn eq(&self, other: &Epilogue) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for Epilogue {}

impl Hash for Epilogue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash.hash(state);
    }
}

impl fmt::Display for Epilogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let input = |EpilogueInput { name, ty, kind }: &EpilogueInput| match kind {
            EpilogueInputKind::Tensor => format!("{name}: tensor {ty}"),
            EpilogueInputKind::Scalar => format!("{name}: scalar {ty}"),
            EpilogueInputKind::Closure => format!("{name}: closure {ty}"),
            EpilogueInputKind::Accumulator
            | EpilogueInputKind::SecondAccumulator
            | EpilogueInputKind::C
            | EpilogueInputKind::Row
            | EpilogueInputKind::Column => format!("{name}: {ty}"),
        };
        let inputs: Vec<String> = self.inputs().map(input).collect();
        write!(f, "({}) ->", inputs.join(", "))?;
        let names: Vec<&str> = self.inputs().map(|input| &input.name[..]).collect();
        for EpilogueOutput { name, formula } in self.outputs() {
            write!(f, " {name} {{ {} }}", formula.named(&names))?;
        }
        for EpilogueReduction {
            name,
            kind,
            formula,
        } in self.reductions()
        {
            write!(f, " {name}: {kind} {{ {} }}", formula.named(&names))?;
        }
        for closure in self.closures() {
            write!(f, " {}: closure {}", closure.name, closure.version)?;
            for argument in &closure.arguments {
                write!(f, " {{ {} }}", argument.named(&names))?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Epilogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A closure as the text of an epilogue names it.
struct GivenClosure {
    name: String,
    version: u32,
    arguments: Vec<Formula>,
}

/// The closures of a text, which the process must have.
fn closures_of(
    inputs: &[EpilogueInput],
    given: Vec<GivenClosure>,
) -> Result<Vec<EpilogueClosure>, Error> {
    let of_closure = |input: &&EpilogueInput| input.kind == EpilogueInputKind::Closure;
    let own: Vec<&EpilogueInput> = inputs.iter().filter(of_closure).collect();
    let names = own.iter().map(|input| input.name.clone());
    let wanted = given
        .iter()
        .enumerate()
        .map(|(at, GivenClosure { name, .. })| {
            let before = given[..at].iter().filter(|other| other.name == *name);
            input_name(name, before.count())
        });
    if !names.eq(wanted) {
        return refuse(
            "each closure among its inputs has its arguments behind the outputs, in that order"
                .to_string(),
        );
    }
    let closure = |(input, given): (&EpilogueInput, GivenClosure)| {
        let GivenClosure {
            name,
            version,
            arguments,
        } = given;
        let Some(body) = known((&name, version), input.ty, arguments.len()) else {
            return refuse(format!(
                "the closure {name} of version {version}, of {} arguments and {}, is no function of this process: build an epilogue \
                 with it first",
                arguments.len(),
                input.ty
            ));
        };
        Ok(EpilogueClosure {
            name,
            version,
            ty: input.ty,
            arguments,
            body,
        })
    };
    own.into_iter().zip(given).map(closure).collect()
}

impl FromStr for Epilogue {
    type Err = Error;

    fn from_str(text: &str) -> Result<Epilogue, Error> {
        let form =
            "an epilogue is written as `(acc: f32, bias: tensor f32) -> C { add(acc, bias) }`";
        let wrong = |part: &str| refuse(format!("`{}`: {form}", part.trim()));
        let Some((inputs, outputs)) = text.split_once("->") else {
            return wrong(text);
        };
        let list = inputs.trim();
        let Some(list) = list
            .strip_prefix('(')
            .and_then(|list| list.strip_suffix(')'))
        else {
            return wrong(inputs);
        };
        let mut all = Vec::new();
        for (i, input) in list.split(',').enumerate() {
            let Some((name, kind)) = input.split_once(':') else {
                return wrong(input);
            };
            let words: Vec<&str> = kind.split_whitespace().collect();
            let (kind, ty) = match (name.trim(), &words[..]) {
                ("acc", [ty]) if i == 0 => (EpilogueInputKind::Accumulator, ty),
                (SECOND, [ty]) if i > 0 => (EpilogueInputKind::SecondAccumulator, ty),
                ("c", [ty]) if i > 0 => (EpilogueInputKind::C, ty),
                (ROW, [ty]) if i > 0 => (EpilogueInputKind::Row, ty),
                (COLUMN, [ty]) if i > 0 => (EpilogueInputKind::Column, ty),
                (_, ["tensor", ty]) if i > 0 => (EpilogueInputKind::Tensor, ty),
                (_, ["scalar", ty]) if i > 0 => (EpilogueInputKind::Scalar, ty),
                (_, ["closure", ty]) if i > 0 => (EpilogueInputKind::Closure, ty),
                _ => return wrong(input),
            };
            let Some(ty) = Ty::ALL.into_iter().find(|own| own.to_string() == **ty) else {
                return refuse(format!("`{}`: there is no type {ty}", input.trim()));
            };
            let name = name.trim().to_string();
            all.push(EpilogueInput { name, ty, kind });
        }
        let known: Vec<(&str, Ty)> = all
            .iter()
            .map(|input| (&input.name[..], input.ty))
            .collect();
        let (mut formulas, mut reductions, mut given) = (Vec::new(), Vec::new(), Vec::new());
        let mut rest = outputs.trim();
        while !rest.is_empty() {
            let found = rest.split_once('{').and_then(|(name, rest)| {
                let (formula, rest) = rest.split_once('}')?;
                Some((name.trim(), formula, rest.trim()))
            });
            let Some((name, formula, after)) = found else {
                return wrong(rest);
            };
            if formulas.is_empty() && name != C {
                return wrong(rest);
            }
            let formula = Formula::parse(formula, &known)?;
            let section = rest;
            rest = after;
            if name.is_empty() {
                // A further argument of a closure.
                let Some(GivenClosure { arguments, .. }) = given.last_mut() else {
                    return wrong(section);
                };
                arguments.push(formula);
                continue;
            }
            match name.split_once(':') {
                Some((name, words)) if words.trim().starts_with("closure") => {
                    let version = words.trim().trim_start_matches("closure").trim();
                    let Ok(version) = version.parse() else {
                        return refuse(format!("`{}`: a closure has a version", words.trim()));
                    };
                    given.push(GivenClosure {
                        name: name.trim().to_string(),
                        version,
                        arguments: vec![formula],
                    });
                }
                _ if !given.is_empty() => return wrong(section),
                None if reductions.is_empty() => {
                    let name = name.to_string();
                    formulas.push(EpilogueOutput { name, formula });
                }
                None => return wrong(section),
                Some((name, words)) => {
                    let words: Vec<&str> = words.split_whitespace().collect();
                    let mut kinds = EpilogueReductionKind::ALL.into_iter();
                    let Some(kind) = kinds.find(|kind| kind.to_string() == words.join(" ")) else {
                        return refuse(format!(
                            "`{}`: a vector has row sums, row maxima, column sums or column maxima",
                            words.join(" ")
                        ));
                    };
                    let name = name.trim().to_string();
                    reductions.push(EpilogueReduction {
                        name,
                        kind,
                        formula,
                    });
                }
            }
        }
        if formulas.is_empty() {
            return wrong(text);
        }
        let closures = closures_of(&all, given)?;
        Epilogue::of(all, formulas, reductions, closures)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Epilogue {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Epilogue {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
