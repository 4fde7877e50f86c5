//! Expressions over the elements of fragments.
//!
//! An [`Expr`] is a formula for one element. Its leaves are the elements of fragments, registers that hold one value for all
//! elements, constants, [`Index`]es, and numbered inputs ([`Expr::input`]). Operators and methods build it, and no instruction
//! is added before [`Builder::map`](crate::Builder::map) or [`Builder::assign`](crate::Builder::assign) takes it. One formula
//! serves both executors: [`Expr::over`] puts fragments in the place of the inputs, and [`Expr::evaluate`] computes the same
//! formula on the host, with the same roundings. [`Expr::formula`] makes data of it, a [`Formula`](crate::Formula) that compares,
//! prints and parses.
//!
//! # Types
//!
//! An operation works in the type of its operands, and its result has that type: `f64`, `f32`, `f16`, `bf16`, or an integer of
//! 8 to 64 bits. Operands of two types are refused; [`Expr::to`] converts. A constant takes the type of what it meets. The
//! types `tf32`, `e4m3` and `e5m2` have no arithmetic: they are only converted.
//!
//! # Rounding
//!
//! | operation | result |
//! |---|---|
//! | `+ - * /`, [`Expr::fma`], [`Expr::sqrt`] | rounded once to nearest even, in every float type, as `half_t` of CUTLASS does |
//! | `min`, `max`, `abs`, `-x`, comparisons, [`Mask::select`] | exact; `min` and `max` prefer a number to a NaN, `min_nan` and `max_nan` the NaN |
//! | [`Expr::recip`], [`Expr::rsqrt`], [`Expr::exp2`], [`Expr::log2`], [`Expr::sin`], [`Expr::cos`], [`Expr::tanh_approx`] | one approximate instruction in `f32` (PTX ISA 9.7.3); a 16-bit float is computed in `f32` and rounded once |
//! | [`Expr::exp`], [`Expr::log`], [`Expr::sigmoid`], [`Expr::silu`], [`Expr::tanh`], [`Expr::erf`], [`Expr::gelu`], [`Expr::gelu_tanh`] | a few operations in `f32`, and one rounding to a 16-bit type |
//! | `+ - *` of integers | modulo 2^bits; `/` and `%` toward zero |
//!
//! Pairs of 16-bit floats in one register take one packed instruction (`fma.rn.f16x2`, `add.rn.bf16x2`, `cvt.rn.f16x2.f32`)
//! where the architecture has it. Where it does not, they are computed in `f32`, with the same result.
//!
//! The host computes approximate instructions as the exact function rounded to nearest, and so does the simulator. A GPU
//! differs from that by the error that the PTX ISA states for the instruction: at most 2 units in the last place of `f32`, but
//! for `tanh.approx`, whose relative error is at most 2^-11, and for `sin.approx` and `cos.approx`, whose absolute error is
//! about 2^-20 between -π and π. Arguments and results of these instructions that are subnormal become 0 on a GPU.
//!
//! # Shapes
//!
//! A fragment meets another one index by index if the sizes agree. A fragment of the same rank that has extent 1 along some
//! modes is broadcast along them, and a fragment of one element along all. A fragment whose layout has stride 0 along a mode
//! is broadcast by its layout.

pub(crate) mod convert;
pub(crate) mod evaluate;
pub(crate) mod formula;
pub(crate) mod lower;
pub(crate) mod math;

use std::collections::{HashMap, HashSet};
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};
use std::panic::Location;
use std::rc::Rc;

use colex_atom::{Class, Ty};
use colex_ir::{BinaryOp, Compare, Reg, RegType, UnaryOp};
use colex_layout::Layout;

use crate::build::flow::Cond;
use crate::error::ErrorKind;
use crate::fragment::Fragment;
use crate::index::Index;
use crate::tensor::Tensor;
use crate::tensor::partition::MAX_REGISTERS;

/// No fragment has more elements: registers have 32 bits, and no element less than one.
const MOST_ELEMENTS: i64 = 32 * MAX_REGISTERS;

/// A formula for one element of a fragment.
///
/// ```
/// use colex_atom::{Arch, Ty};
/// use colex_proof::examples::elements;
/// use colex_tensor::{Builder, Expr};
///
/// // A formula over two inputs, on the host ..
/// let (x, y) = (Expr::input(0, Ty::F32), Expr::input(1, Ty::F32));
/// let formula = (2.0 * x + y).max(0.0);
/// let bits = |x: f32| u64::from(x.to_bits());
/// assert_eq!(formula.evaluate(&[bits(3.0), bits(0.5)])?, bits(6.5));
///
/// // .. and over fragments of a kernel.
/// let mut k = Builder::new("k", Arch::Sm80, 32);
/// let [x, y] = [3.0, 0.5].map(|value| {
///     let fragment = k.fragment(Ty::F32, "_4:_1");
///     k.fill(&fragment, value);
///     fragment
/// });
/// let d = k.map(formula.over([&x, &y]));
/// assert_eq!(elements(k, &d)?[0], [6.5; 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Expr(pub(crate) Rc<ExprData>);

/// A condition on one element: the comparison of two expressions.
///
/// ```
/// use colex_atom::{Arch, Ty};
/// use colex_proof::examples::elements;
/// use colex_tensor::{Builder, Expr};
///
/// let mut k = Builder::new("k", Arch::Sm80, 32);
/// let x = k.fragment(Ty::F32, "_2:_1");
/// k.fill(&x, -4.0);
/// let is_small = Expr::from(&x).lt(0.0) & Expr::from(&x).gt(-8.0);
/// let d = k.map(is_small.select(-&x, 1.0));
/// assert_eq!(elements(k, &d)?[0], [4.0; 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mask(pub(crate) Rc<Test>);

#[derive(Debug)]
pub(crate) struct ExprData {
    pub(crate) node: ExprNode,
    /// The type of its value; none of constants.
    pub(crate) ty: Option<Ty>,
    pub(crate) at: &'static Location<'static>,
}

#[derive(Debug)]
pub(crate) enum ExprNode {
    Input(usize),
    Fragment(Fragment),
    Register(Reg),
    /// One for all elements, or one for each element of a layout.
    Indices(Vec<Index>, Layout),
    Real(f64),
    Integer(i128),
    Convert(Expr, Round, Saturate),
    Unary(UnaryOp, Expr),
    Binary(BinaryOp, Expr, Expr),
    Fma([Expr; 3]),
    Select(Mask, Expr, Expr),
    Poison(ErrorKind),
}

#[derive(Debug)]
pub(crate) enum Test {
    /// The operands, and their type.
    Compare(Compare, Expr, Expr, Ty),
    Both(BinaryOp, Mask, Mask),
    Not(Mask),
    /// One for all elements, or one for each.
    Conds(Vec<Cond>),
    Poison(ErrorKind, &'static Location<'static>),
}

/// The rounding of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Round {
    /// To the nearest number, ties to the even one; into `tf32`, ties away from zero.
    Nearest,
    /// Toward zero.
    Zero,
    /// Down, into integers only.
    Down,
    /// Up, into integers only.
    Up,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Saturate {
    Wrap,
    Clamp,
}

/// Whether operations exist in a type.
pub(crate) fn has_arithmetic(ty: Ty) -> bool {
    match ty.class() {
        Class::Float(_) => matches!(ty, Ty::F64 | Ty::F32 | Ty::F16 | Ty::Bf16),
        Class::Integer { .. } => ty.bits() >= 8,
        Class::Complex { .. } => false,
    }
}

/// Whether it is a float of 16 bits, which approximate functions compute in `f32`.
pub(crate) fn is_half(ty: Ty) -> bool {
    matches!(ty, Ty::F16 | Ty::Bf16)
}

/// The sentence on a type without the operation, if there is none.
fn check_type(name: &str, ty: Ty, is_float: Option<bool>) -> Result<(), ErrorKind> {
    let why = match is_float {
        _ if !has_arithmetic(ty) => {
            format!("{name} of {ty}: it has no arithmetic, and `.to(Ty::F32)` converts it")
        }
        Some(true) if ty.is_integer() => {
            format!("{name} of {ty}: it is for floats, and `.to(Ty::F32)` converts it")
        }
        Some(false) if !ty.is_integer() => {
            format!("{name} of {ty}: it is for integers, and `.to(Ty::S32)` converts it")
        }
        _ => return Ok(()),
    };
    Err(ErrorKind::operands("expression", why))
}

/// Which types a unary operation has: floats, integers, or both.
fn unary_class(op: UnaryOp) -> Option<bool> {
    match op {
        UnaryOp::Neg | UnaryOp::Abs => None,
        UnaryOp::Not | UnaryOp::Popc | UnaryOp::Clz | UnaryOp::Brev | UnaryOp::Bfind => Some(false),
        UnaryOp::Rcp
        | UnaryOp::Sqrt
        | UnaryOp::Rsqrt
        | UnaryOp::Ex2
        | UnaryOp::Lg2
        | UnaryOp::Sin
        | UnaryOp::Cos
        | UnaryOp::Tanh => Some(true),
    }
}

/// The same of a binary operation.
fn binary_class(op: BinaryOp) -> Option<bool> {
    match op {
        BinaryOp::Add
        | BinaryOp::Sub
        | BinaryOp::Mul
        | BinaryOp::Div
        | BinaryOp::Min
        | BinaryOp::Max => None,
        BinaryOp::MinNan | BinaryOp::MaxNan => Some(true),
        BinaryOp::MulHi
        | BinaryOp::MulWide
        | BinaryOp::Rem
        | BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::Xor
        | BinaryOp::Shl
        | BinaryOp::Shr => Some(false),
    }
}

impl Expr {
    pub(crate) fn new(node: ExprNode, ty: Option<Ty>, at: &'static Location<'static>) -> Expr {
        Expr(Rc::new(ExprData { node, ty, at }))
    }

    pub(crate) fn poison(kind: ErrorKind, at: &'static Location<'static>) -> Expr {
        Expr::new(ExprNode::Poison(kind), None, at)
    }

    /// Builds input `number` of a formula, an element of type `ty`: [`Expr::over`] puts a fragment in its place, and
    /// [`Expr::evaluate`] a number.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let square = Expr::input(0, Ty::S32) * Expr::input(0, Ty::S32);
    /// assert_eq!(square.evaluate(&[7])?, 49);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn input(number: usize, ty: Ty) -> Expr {
        Expr::new(ExprNode::Input(number), Some(ty), Location::caller())
    }

    /// Builds the value of a register as an element of type `ty`: one value for all elements.
    ///
    /// The register has the width of the type; one of 8 bits has none.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_ir::Type;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let alpha = k.scalar_argument("alpha", Type::F16);
    /// let x = k.fragment(Ty::F16, "_4:_1");
    /// k.fill(&x, 1.0);
    /// k.assign(&x, &x * Expr::register(alpha, Ty::F16));
    /// assert!(k.finish()?.kernel.ptx()?.contains("mul.rn.f16x2"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn register(register: Reg, ty: Ty) -> Expr {
        let at = Location::caller();
        let is_word = ty.bits() >= 16 && register.ty.bits() == ty.bits();
        if !is_word || register.ty == RegType::Pred {
            let why = format!(
                "{register} of {} bits as an element of {ty}",
                register.ty.bits()
            );
            return Expr::poison(ErrorKind::operands("register", why), at);
        }
        Expr::new(ExprNode::Register(register), Some(ty), at)
    }

    /// Builds the coordinate along mode `mode` of the tensor in global memory, of each element of a thread's part of it: an
    /// integer of type `s32`. A fragment of that part meets it element by element.
    ///
    /// ```
    /// use colex_proof::examples::copied;
    /// use colex_tensor::Expr;
    ///
    /// // What lies above the diagonal becomes 0.
    /// let to = copied((4, 8), |k, copy, src, dst| {
    ///     let held = k.fragment_like(src);
    ///     k.copy(copy, src, &held);
    ///     let [m, n] = [0, 1].map(|mode| Expr::coordinate(src, mode));
    ///     k.assign(&held, n.le(m).select(&held, 0.0));
    ///     k.copy(copy, &held, dst);
    /// })?;
    /// assert_eq!(to[8..12], [8.0, 9.0, 0.0, 0.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`](crate::Builder::finish) fails if the expression is used and the tensor is in shared memory, has no
    /// such mode, or has more elements than a fragment.
    #[track_caller]
    pub fn coordinate(part: &Tensor, mode: usize) -> Expr {
        let at = Location::caller();
        if part.failure.is_set() {
            // The part may be a whole tensor, since nothing is cut after a failure.
            return Expr::from(0);
        }
        let count = part.layout().size();
        if count > MOST_ELEMENTS {
            let why = format!(
                "a tensor of {count} elements, of which a thread holds {MOST_ELEMENTS} at most: partition it first"
            );
            return Expr::poison(ErrorKind::operands("coordinate", why), at);
        }
        let of = |i: i64| {
            let all = part.coordinates_at(i)?;
            let why = format!("mode {mode} of a tensor of {}", all.len());
            all.get(mode)
                .cloned()
                .ok_or_else(|| ErrorKind::operands("coordinate", why))
        };
        let layout = part.layout();
        match (0..count).map(of).collect() {
            Ok(all) => Expr::new(ExprNode::Indices(all, layout.clone()), Some(Ty::S32), at),
            Err(kind) => Expr::poison(kind, at),
        }
    }

    /// Returns the type of the value; `None` of constants alone.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let x = Expr::input(0, Ty::F16);
    /// assert_eq!((&x * 2.0).ty(), Some(Ty::F16));
    /// assert_eq!((x.to(Ty::F32) * 2.0).ty(), Some(Ty::F32));
    /// assert_eq!(Expr::from(2.0).ty(), None);
    /// ```
    pub fn ty(&self) -> Option<Ty> {
        self.0.ty
    }

    /// Builds an operation of one operand. Methods such as [`Expr::sqrt`] name most of them.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_ir::UnaryOp;
    /// assert_eq!(Expr::unary(UnaryOp::Abs, Expr::input(0, Ty::S8)).evaluate(&[0xfe])?, 2);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn unary(op: UnaryOp, a: impl Into<Expr>) -> Expr {
        let (a, at) = (a.into(), Location::caller());
        let checked = match (op, a.ty()) {
            (UnaryOp::Popc | UnaryOp::Clz | UnaryOp::Brev | UnaryOp::Bfind, _) => {
                let why = format!("{} counts bits of one register: `emit` adds it", op.ptx());
                Err(ErrorKind::operands("expression", why))
            }
            (_, Some(ty)) => check_type(op.ptx(), ty, unary_class(op)),
            (_, None) => Ok(()),
        };
        match checked {
            Ok(()) => Expr::new(ExprNode::Unary(op, a.clone()), a.ty(), at),
            Err(kind) => Expr::poison(kind, at),
        }
    }

    /// Builds an operation of two operands of one type. Operators and methods such as [`Expr::max`] name most of them.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let larger = Expr::binary(BinaryOp::Max, Expr::input(0, Ty::U8), 100);
    /// assert_eq!(larger.evaluate(&[7])?, 100);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn binary(op: BinaryOp, a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
        let (a, b, at) = (a.into(), b.into(), Location::caller());
        let checked = common(op.ptx(), &[&a, &b]).and_then(|ty| {
            match (op, ty) {
                (BinaryOp::MulHi | BinaryOp::MulWide, _) => {
                    let why = format!("{}: convert to the wider type and multiply there", op.ptx());
                    return Err(ErrorKind::operands("expression", why));
                }
                (BinaryOp::MinNan | BinaryOp::MaxNan, Some(Ty::F64)) => {
                    let why = format!("{} of f64: it is for f32, f16 and bf16", op.ptx());
                    return Err(ErrorKind::operands("expression", why));
                }
                (_, Some(ty)) => check_type(op.ptx(), ty, binary_class(op))?,
                (_, None) => {}
            }
            Ok(ty)
        });
        match checked {
            Ok(ty) => Expr::new(ExprNode::Binary(op, a, b), ty, at),
            Err(kind) => Expr::poison(kind, at),
        }
    }

    #[track_caller]
    pub(crate) fn compare(&self, cmp: Compare, other: Expr) -> Mask {
        let at = Location::caller();
        let checked = common(cmp.ptx(), &[self, &other]).and_then(|ty| match ty {
            Some(ty) => check_type(cmp.ptx(), ty, None).map(|()| ty),
            None => Err(ErrorKind::operands(
                "expression",
                "a comparison of constants: one side has a type",
            )),
        });
        Mask(Rc::new(match checked {
            Ok(ty) => Test::Compare(cmp, self.clone(), other, ty),
            Err(kind) => Test::Poison(kind, at),
        }))
    }

    /// Returns the formula with `inputs` in the place of its inputs: the expression at place `i` for input `i`.
    ///
    /// If there is none for an input, or one of another type, [`Builder::finish`](crate::Builder::finish) fails where the
    /// expression is used.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let (x, y) = (Expr::input(0, Ty::F32), Expr::input(1, Ty::F32));
    /// let difference = &x - &y;
    /// let swapped = difference.over([&y, &x]);
    /// let [one, three] = [1.0_f32, 3.0].map(|x| u64::from(x.to_bits()));
    /// assert_eq!(difference.evaluate(&[three, one])?, u64::from(2.0_f32.to_bits()));
    /// assert_eq!(swapped.evaluate(&[one, three])?, u64::from(2.0_f32.to_bits()));
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    pub fn over<T: Into<Expr>>(&self, inputs: impl IntoIterator<Item = T>) -> Expr {
        let inputs: Vec<Expr> = inputs.into_iter().map(Into::into).collect();
        self.replaced(&inputs, &mut Replaced::default())
    }

    fn replaced(&self, inputs: &[Expr], done: &mut Replaced) -> Expr {
        let key = Rc::as_ptr(&self.0);
        if let Some(expr) = done.elements.get(&key) {
            return expr.clone();
        }
        let mut of = |expr: &Expr| expr.replaced(inputs, done);
        let node = match &self.0.node {
            ExprNode::Input(i) => match inputs.get(*i) {
                Some(input) if input.ty() == self.ty() || input.ty().is_none() => {
                    return input.clone();
                }
                Some(input) => {
                    let names = [self.ty(), input.ty()].map(|ty| ty.map_or("", Ty::ptx));
                    let why = format!("input {i} is of {}, and {} is given", names[0], names[1]);
                    ExprNode::Poison(ErrorKind::operands("over", why))
                }
                None => return self.clone(),
            },
            ExprNode::Convert(x, round, saturate) => ExprNode::Convert(of(x), *round, *saturate),
            ExprNode::Unary(op, x) => ExprNode::Unary(*op, of(x)),
            ExprNode::Binary(op, a, b) => ExprNode::Binary(*op, of(a), of(b)),
            ExprNode::Fma(all) => ExprNode::Fma(all.each_ref().map(of)),
            ExprNode::Select(mask, a, b) => {
                let (a, b) = (of(a), of(b));
                ExprNode::Select(mask.replaced(inputs, done), a, b)
            }
            ExprNode::Fragment(_)
            | ExprNode::Register(_)
            | ExprNode::Indices(..)
            | ExprNode::Real(_)
            | ExprNode::Integer(_)
            | ExprNode::Poison(_) => return self.clone(),
        };
        let expr = Expr::new(node, self.ty(), self.0.at);
        done.elements.insert(key, expr.clone());
        expr
    }
}

/// What the parts of an expression have become over other inputs.
#[derive(Default)]
struct Replaced {
    elements: HashMap<*const ExprData, Expr>,
    conditions: HashMap<*const Test, Mask>,
}

impl Mask {
    /// Visits it and the conditions that it is made of, but for those that are seen.
    pub(crate) fn parts<'a>(
        &'a self,
        seen: &mut HashSet<*const Test>,
        visit: &mut dyn FnMut(&'a Mask),
    ) {
        if !seen.insert(Rc::as_ptr(&self.0)) {
            return;
        }
        visit(self);
        match &*self.0 {
            Test::Both(_, a, b) => [a, b].into_iter().for_each(|part| part.parts(seen, visit)),
            Test::Not(a) => a.parts(seen, visit),
            Test::Compare(..) | Test::Conds(_) | Test::Poison(..) => {}
        }
    }

    fn replaced(&self, inputs: &[Expr], done: &mut Replaced) -> Mask {
        let key = Rc::as_ptr(&self.0);
        if let Some(mask) = done.conditions.get(&key) {
            return mask.clone();
        }
        let mask = self.over(inputs, done);
        done.conditions.insert(key, mask.clone());
        mask
    }

    fn over(&self, inputs: &[Expr], done: &mut Replaced) -> Mask {
        Mask(Rc::new(match &*self.0 {
            Test::Compare(cmp, a, b, ty) => {
                let (a, b) = (a.replaced(inputs, done), b.replaced(inputs, done));
                Test::Compare(*cmp, a, b, *ty)
            }
            Test::Both(op, a, b) => {
                Test::Both(*op, a.replaced(inputs, done), b.replaced(inputs, done))
            }
            Test::Not(a) => Test::Not(a.replaced(inputs, done)),
            Test::Conds(_) | Test::Poison(..) => return self.clone(),
        }))
    }

    /// Builds the element `a` where the condition holds, else `b`; both are of one type.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let x = Expr::input(0, Ty::S32);
    /// let sign = x.lt(0).select(-1, x.gt(0).select(1, x.clone()));
    /// assert_eq!(sign.evaluate(&[7])?, 1);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn select(&self, a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
        let (a, b, at) = (a.into(), b.into(), Location::caller());
        match common("select", &[&a, &b]) {
            Ok(ty) => Expr::new(ExprNode::Select(self.clone(), a, b), ty, at),
            Err(kind) => Expr::poison(kind, at),
        }
    }
}

/// The one type of several operands; none if all are constants.
fn common(name: &str, operands: &[&Expr]) -> Result<Option<Ty>, ErrorKind> {
    let mut ty: Option<Ty> = None;
    for operand in operands {
        // What is wrong with an operand is said where it was made.
        match (ty, operand.ty()) {
            (Some(a), Some(b)) if a != b => {
                let why = format!(
                    "{name} of {a} and {b}: both have one type, and `.to(Ty::{b:?})` converts"
                );
                return Err(ErrorKind::operands("expression", why));
            }
            (None, other) => ty = other,
            _ => {}
        }
    }
    Ok(ty)
}

impl From<&Fragment> for Expr {
    #[track_caller]
    fn from(fragment: &Fragment) -> Self {
        fragment.clone().into()
    }
}

impl From<Fragment> for Expr {
    #[track_caller]
    fn from(fragment: Fragment) -> Self {
        let ty = fragment.ty;
        Expr::new(ExprNode::Fragment(fragment), Some(ty), Location::caller())
    }
}

impl From<&Expr> for Expr {
    fn from(expr: &Expr) -> Self {
        expr.clone()
    }
}

/// A register of `f32` or `f64`, or a signed integer of 32 or 64 bits: [`Expr::register`] says another type.
impl From<Reg> for Expr {
    #[track_caller]
    fn from(register: Reg) -> Self {
        let ty = match register.ty {
            RegType::F32 => Ty::F32,
            RegType::F64 => Ty::F64,
            RegType::B64 => Ty::S64,
            _ => Ty::S32,
        };
        Expr::register(register, ty)
    }
}

/// A signed integer of 32 bits.
impl From<&Index> for Expr {
    #[track_caller]
    fn from(index: &Index) -> Self {
        let one = Layout::column_major(1).expect("one element").to_static();
        Expr::new(
            ExprNode::Indices(vec![index.clone()], one),
            Some(Ty::S32),
            Location::caller(),
        )
    }
}

impl From<Index> for Expr {
    #[track_caller]
    fn from(index: Index) -> Self {
        (&index).into()
    }
}

macro_rules! constants {
    ($($node:ident: $($ty:ty),*;)*) => {$($(
        impl From<$ty> for Expr {
            #[track_caller]
            fn from(value: $ty) -> Self {
                Expr::new(ExprNode::$node(value.into()), None, Location::caller())
            }
        }
    )*)*};
}
constants! {
    Real: f32, f64;
    Integer: i32, i64, u32, u64;
}

/// A condition that holds for all elements of a thread, or for none.
impl From<Cond> for Mask {
    fn from(cond: Cond) -> Self {
        Mask(Rc::new(Test::Conds(vec![cond])))
    }
}

macro_rules! operators {
    ($($trait:ident $name:ident = $op:ident;)*) => {$(
        operators!(@of Expr, $trait $name $op);
        operators!(@of &Expr, $trait $name $op);
        operators!(@of Fragment, $trait $name $op);
        operators!(@of &Fragment, $trait $name $op);
        operators!(@number f64 i32 Reg, $trait $name $op);
    )*};
    (@of $left:ty, $trait:ident $name:ident $op:ident) => {
        impl<R: Into<Expr>> $trait<R> for $left {
            type Output = Expr;
            #[track_caller]
            fn $name(self, other: R) -> Expr {
                Expr::binary(BinaryOp::$op, self, other)
            }
        }
    };
    (@number $($left:ty)*, $trait:ident $name:ident $op:ident) => {$(
        operators!(@left $left, Expr, $trait $name $op);
        operators!(@left $left, &Expr, $trait $name $op);
        operators!(@left $left, Fragment, $trait $name $op);
        operators!(@left $left, &Fragment, $trait $name $op);
    )*};
    (@left $left:ty, $right:ty, $trait:ident $name:ident $op:ident) => {
        impl $trait<$right> for $left {
            type Output = Expr;
            #[track_caller]
            fn $name(self, other: $right) -> Expr {
                Expr::binary(BinaryOp::$op, self, other)
            }
        }
    };
}
operators! {
    Add add = Add;
    Sub sub = Sub;
    Mul mul = Mul;
    Div div = Div;
    Rem rem = Rem;
    BitAnd bitand = And;
    BitOr bitor = Or;
    BitXor bitxor = Xor;
    Shl shl = Shl;
    Shr shr = Shr;
}

macro_rules! signs {
    ($($of:ty),*) => {$(
        impl Neg for $of {
            type Output = Expr;
            #[track_caller]
            fn neg(self) -> Expr {
                Expr::unary(UnaryOp::Neg, self)
            }
        }

        impl Not for $of {
            type Output = Expr;
            #[track_caller]
            fn not(self) -> Expr {
                Expr::unary(UnaryOp::Not, self)
            }
        }
    )*};
}
signs!(Expr, &Expr, Fragment, &Fragment);

macro_rules! logic {
    ($($trait:ident $name:ident = $op:ident;)*) => {$(
        impl $trait for Mask {
            type Output = Mask;
            fn $name(self, other: Mask) -> Mask {
                Mask(Rc::new(Test::Both(BinaryOp::$op, self, other)))
            }
        }
    )*};
}
logic! {
    BitAnd bitand = And;
    BitOr bitor = Or;
    BitXor bitxor = Xor;
}

impl Not for Mask {
    type Output = Mask;
    fn not(self) -> Mask {
        Mask(Rc::new(Test::Not(self)))
    }
}
