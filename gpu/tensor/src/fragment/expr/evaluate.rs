//! What an expression comes to on the host.

use colex_atom::{FloatFormat, Rounding, Ty};
use colex_ir::{BinaryOp, Compare, UnaryOp};

use super::{Expr, ExprData, ExprNode, Mask, Round, Saturate, Test, is_half};
use crate::build::flow::Cond;
use crate::error::{Error, ErrorKind};
use std::collections::HashMap;
use std::panic::Location;
use std::rc::Rc;

/// The numbers of one evaluation.
struct Host<'a> {
    inputs: &'a [u64],
    known: HashMap<(*const ExprData, Ty), u64>,
    /// Whether a condition holds.
    held: HashMap<*const Test, bool>,
}

type Outcome<T> = Result<T, (ErrorKind, &'static Location<'static>)>;

impl Expr {
    /// Returns the value of a formula over inputs, computed on the host with the roundings of a kernel. `inputs` and the result
    /// are the bits of elements in their types; approximate instructions are the exact function rounded to nearest.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_tensor::Expr;
    ///
    /// // Each operation of f16 rounds: 2048 + 1 is 2048.
    /// let x = Expr::input(0, Ty::F16);
    /// let f16 = |x: f32| u64::from(half::f16::from_f32(x).to_bits());
    /// assert_eq!((&x + 1.0 - 2048.0).evaluate(&[f16(2048.0)])?, f16(0.0));
    /// let wide = (x.to(Ty::F32) + 1.0 - 2048.0).to(Ty::F16);
    /// assert_eq!(wide.evaluate(&[f16(2048.0)])?, f16(1.0));
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if there are fewer inputs than the formula has, if it contains what only a kernel knows (fragments,
    /// registers, [`Index`](crate::Index)es), or if it was refused when it was made, with the line of that call.
    #[track_caller]
    pub fn evaluate(&self, inputs: &[u64]) -> Result<u64, Error> {
        let at = Location::caller();
        let Some(ty) = self.ty() else {
            let found = match &self.0.node {
                ExprNode::Poison(kind) => (kind.clone(), self.0.at),
                _ => (
                    ErrorKind::operands("evaluate", "constants alone have no type"),
                    at,
                ),
            };
            return Err(Error::at_call(found.0, found.1));
        };
        let (known, held) = (HashMap::new(), HashMap::new());
        let mut host = Host {
            inputs,
            known,
            held,
        };
        host.value(self, ty)
            .map_err(|(kind, at)| Error::at_call(kind, at))
    }
}

/// The format of a float type.
fn format(ty: Ty) -> Option<FloatFormat> {
    FloatFormat::of(ty)
}

fn mask(ty: Ty) -> u64 {
    u64::MAX >> (64 - ty.bits())
}

/// The integer that bits spell.
fn integer(ty: Ty, bits: u64) -> i128 {
    let bits = bits & mask(ty);
    let (low, _) = range(ty);
    let is_negative = low < 0 && bits >> (ty.bits() - 1) == 1;
    i128::from(bits) - if is_negative { 1 << ty.bits() } else { 0 }
}

/// The least and the largest integer of a type.
pub(crate) fn range(ty: Ty) -> (i128, i128) {
    let signed = matches!(ty.class(), colex_atom::Class::Integer { signed: true });
    let half = 1_i128 << (ty.bits() - 1);
    if signed {
        (-half, half - 1)
    } else {
        (0, 2 * half - 1)
    }
}

/// A number rounded to the integers as `round` says.
fn whole(x: f64, round: Round) -> f64 {
    match round {
        Round::Nearest => x.round_ties_even(),
        Round::Zero => x.trunc(),
        Round::Down => x.floor(),
        Round::Up => x.ceil(),
    }
}

/// `a b + c` of formats of up to 24 bits, so that rounding it once more is rounding the exact sum: rounded to odd.
fn fused(a: f64, b: f64, c: f64) -> f64 {
    let product = a * b;
    let sum = product + c;
    let part = sum - product;
    let lost = (product - (sum - part)) + (c - part);
    if !sum.is_finite() || lost == 0.0 || sum.to_bits() & 1 == 1 {
        return sum;
    }
    if lost > 0.0 {
        sum.next_up()
    } else {
        sum.next_down()
    }
}

/// The smaller or the larger of two numbers; of a number and a NaN, the number, and -0 is below +0.
fn least(a: f64, b: f64, larger: bool) -> f64 {
    let pick = match (a.is_nan(), b.is_nan()) {
        (true, _) => false,
        (_, true) => true,
        _ => (a.total_cmp(&b) == std::cmp::Ordering::Less) != larger,
    };
    if pick { a } else { b }
}

impl Host<'_> {
    fn value(&mut self, expr: &Expr, ty: Ty) -> Outcome<u64> {
        let key = (Rc::as_ptr(&expr.0), ty);
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        let bits = self
            .compute(expr, ty)
            .map_err(|(kind, at)| (kind, at.unwrap_or(expr.0.at)))?;
        self.known.insert(key, bits);
        Ok(bits)
    }

    #[allow(
        clippy::type_complexity,
        reason = "where is known of what an operand said"
    )]
    fn compute(
        &mut self,
        expr: &Expr,
        ty: Ty,
    ) -> Result<u64, (ErrorKind, Option<&'static Location<'static>>)> {
        let refuse = |why: String| Err((ErrorKind::operands("evaluate", why), None));
        let mut of = |expr: &Expr, ty| self.value(expr, ty).map_err(|(kind, at)| (kind, Some(at)));
        Ok(match &expr.0.node {
            ExprNode::Input(i) => match self.inputs.get(*i) {
                Some(bits) => bits & mask(ty),
                None => return refuse(format!("input {i}, and {} are given", self.inputs.len())),
            },
            ExprNode::Fragment(_) | ExprNode::Register(_) | ExprNode::Indices(..) => {
                return refuse("only a kernel knows its registers: take an `input`".into());
            }
            ExprNode::Real(x) => real_constant(ty, *x).or_else(refuse)?,
            ExprNode::Integer(x) => integer_constant(ty, *x).or_else(refuse)?,
            ExprNode::Poison(kind) => return Err((kind.clone(), None)),
            ExprNode::Convert(x, round, saturate) => match x.ty() {
                Some(from) => convert(of(x, from)?, (from, ty), *round, *saturate),
                None => of(x, ty)?,
            },
            ExprNode::Unary(op, x) => unary(*op, ty, of(x, ty)?),
            ExprNode::Binary(op, a, b) => binary(*op, ty, of(a, ty)?, of(b, ty)?),
            ExprNode::Fma([a, b, c]) => fma(ty, of(a, ty)?, of(b, ty)?, of(c, ty)?),
            ExprNode::Select(test, a, b) => {
                let (a, b) = (of(a, ty)?, of(b, ty)?);
                let holds = self.holds(test).map_err(|(kind, at)| (kind, Some(at)))?;
                if holds { a } else { b }
            }
        })
    }

    fn holds(&mut self, test: &Mask) -> Outcome<bool> {
        let key = Rc::as_ptr(&test.0);
        if let Some(known) = self.held.get(&key) {
            return Ok(*known);
        }
        let holds = self.tested(test)?;
        self.held.insert(key, holds);
        Ok(holds)
    }

    fn tested(&mut self, test: &Mask) -> Outcome<bool> {
        Ok(match &*test.0 {
            Test::Compare(cmp, a, b, ty) => {
                let (a, b) = (self.value(a, *ty)?, self.value(b, *ty)?);
                match format(*ty) {
                    Some(of) => compare(*cmp, of.decode(a).partial_cmp(&of.decode(b))),
                    None => compare(*cmp, Some(integer(*ty, a).cmp(&integer(*ty, b)))),
                }
            }
            Test::Both(op, a, b) => match (op, self.holds(a)?, self.holds(b)?) {
                (BinaryOp::And, a, b) => a & b,
                (BinaryOp::Or, a, b) => a | b,
                (_, a, b) => a ^ b,
            },
            Test::Not(a) => !self.holds(a)?,
            Test::Conds(conds) => match &conds[..] {
                [Cond::Known(known)] => *known,
                _ => {
                    let why = "only a kernel knows its predicates";
                    return Err((ErrorKind::operands("evaluate", why), Location::caller()));
                }
            },
            Test::Poison(kind, at) => return Err((kind.clone(), at)),
        })
    }
}

/// A real constant in a type: rounded to a float, and an integer only as it is.
pub(crate) fn real_constant(ty: Ty, x: f64) -> Result<u64, String> {
    match format(ty) {
        Some(of) => Ok(of.encode(x, Rounding::Nearest)),
        None if x.fract() == 0.0 && x.abs() < 1e20 => {
            integer_constant(ty, x as i128).map_err(|_| format!("{x} is no {ty}"))
        }
        None => Err(format!("{x} is no {ty}")),
    }
}

/// An integer constant in a type.
pub(crate) fn integer_constant(ty: Ty, x: i128) -> Result<u64, String> {
    if let Some(of) = format(ty) {
        return Ok(of.encode(x as f64, Rounding::Nearest));
    }
    if !ty.is_integer() {
        return Err(format!("{x} is no {ty}"));
    }
    let (low, high) = range(ty);
    if x < low || x > high {
        return Err(format!("{x} is no {ty}, which goes from {low} to {high}"));
    }
    Ok(x as u64 & mask(ty))
}

fn compare(cmp: Compare, order: Option<std::cmp::Ordering>) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let one_of = |orders: &[std::cmp::Ordering]| order.is_some_and(|order| orders.contains(&order));
    match cmp {
        Compare::Eq => one_of(&[Equal]),
        Compare::Ne => one_of(&[Less, Greater]),
        Compare::Lt => one_of(&[Less]),
        Compare::Le => one_of(&[Less, Equal]),
        Compare::Gt => one_of(&[Greater]),
        Compare::Ge => one_of(&[Greater, Equal]),
        Compare::Equ => order.is_none_or(|order| order == Equal),
        Compare::Neu => order != Some(Equal),
        Compare::Ltu => order.is_none_or(|order| order == Less),
        Compare::Gtu => order.is_none_or(|order| order == Greater),
        Compare::Nan => order.is_none(),
    }
}

fn unary(op: UnaryOp, ty: Ty, x: u64) -> u64 {
    let Some(of) = format(ty) else {
        let x = integer(ty, x);
        let y = match op {
            UnaryOp::Neg => -x,
            UnaryOp::Abs => x.abs(),
            _ => !x,
        };
        return y as u64 & mask(ty);
    };
    let sign = 1 << (ty.bits() - 1);
    let single = |x: f64| if is_half(ty) { f64::from(x as f32) } else { x };
    // The approximate instructions of binary32, which compute halves too, take and give subnormals as zeros (`.ftz`).
    let flushed = |f: fn(f64) -> f64| {
        let flush = |x: f64| match ty {
            Ty::F64 => x,
            _ if x.abs() < f64::from(f32::MIN_POSITIVE) => 0.0_f64.copysign(x),
            _ => x,
        };
        flush(f(flush(of.decode(x))))
    };
    let y = match op {
        UnaryOp::Neg => return x ^ sign,
        UnaryOp::Abs => return x & !sign,
        UnaryOp::Sqrt => of.decode(x).sqrt(),
        UnaryOp::Tanh => of.decode(x).tanh(),
        UnaryOp::Rcp => flushed(|x| 1.0 / x),
        UnaryOp::Rsqrt => flushed(|x| 1.0 / x.sqrt()),
        UnaryOp::Ex2 => flushed(f64::exp2),
        UnaryOp::Lg2 => flushed(f64::log2),
        UnaryOp::Sin => flushed(f64::sin),
        UnaryOp::Cos => flushed(f64::cos),
        UnaryOp::Not | UnaryOp::Popc | UnaryOp::Clz | UnaryOp::Brev | UnaryOp::Bfind => f64::NAN,
    };
    of.encode(single(y), Rounding::Nearest)
}

fn binary(op: BinaryOp, ty: Ty, a: u64, b: u64) -> u64 {
    if let Some(of) = format(ty) {
        let (x, y) = (of.decode(a), of.decode(b));
        let z = match op {
            BinaryOp::Add => x + y,
            BinaryOp::Sub => x - y,
            BinaryOp::Mul => x * y,
            BinaryOp::Div => x / y,
            BinaryOp::Min => least(x, y, false),
            BinaryOp::Max => least(x, y, true),
            BinaryOp::MinNan | BinaryOp::MaxNan if x.is_nan() || y.is_nan() => f64::NAN,
            BinaryOp::MinNan => least(x, y, false),
            BinaryOp::MaxNan => least(x, y, true),
            _ => f64::NAN,
        };
        return of.encode(z, Rounding::Nearest);
    }
    let (x, y) = (integer(ty, a), integer(ty, b));
    // A register shifts by up to its own width.
    let by = u32::try_from(b & 0xffff_ffff).unwrap_or(u32::MAX);
    let z = match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x.wrapping_mul(y),
        BinaryOp::Div => x.checked_div(y).unwrap_or(-1),
        BinaryOp::Rem => x.checked_rem(y).unwrap_or(x),
        BinaryOp::Min => x.min(y),
        BinaryOp::Max => x.max(y),
        BinaryOp::And => x & y,
        BinaryOp::Or => x | y,
        BinaryOp::Xor => x ^ y,
        BinaryOp::Shl if by >= ty.bits() => 0,
        BinaryOp::Shl => x << by,
        BinaryOp::Shr => x >> by.min(ty.bits()),
        BinaryOp::MulHi | BinaryOp::MulWide | BinaryOp::MinNan | BinaryOp::MaxNan => 0,
    };
    z as u64 & mask(ty)
}

fn fma(ty: Ty, a: u64, b: u64, c: u64) -> u64 {
    let Some(of) = format(ty) else {
        return binary(BinaryOp::Add, ty, binary(BinaryOp::Mul, ty, a, b), c);
    };
    let [x, y, z] = [a, b, c].map(|bits| of.decode(bits));
    match ty {
        Ty::F64 => x.mul_add(y, z).to_bits(),
        _ => of.encode(fused(x, y, z), Rounding::Nearest),
    }
}

/// The bits of an element in another type.
pub(crate) fn convert(bits: u64, (from, to): (Ty, Ty), round: Round, saturate: Saturate) -> u64 {
    let (low, high) = match format(to) {
        Some(of) => (-of.max(), of.max()),
        None => (0.0, 0.0),
    };
    match (format(from), format(to)) {
        (None, None) => {
            let x = integer(from, bits);
            let (low, high) = range(to);
            let x = if saturate == Saturate::Clamp {
                x.clamp(low, high)
            } else {
                x
            };
            x as u64 & mask(to)
        }
        (Some(of), None) => {
            let x = whole(of.decode(bits), round);
            let (low, high) = range(to);
            let y = match (x.is_nan(), from == Ty::F64 || to.bits() == 64) {
                (true, true) if low < 0 => low,
                (true, true) => (1 << (to.bits().max(32) - 1)).min(high),
                (true, false) => 0,
                (false, _) => (x as i128).clamp(low, high),
            };
            y as u64 & mask(to)
        }
        (None, Some(of)) => {
            let x = integer(from, bits);
            match to {
                Ty::F64 => (x as f64).to_bits(),
                _ => narrowed(of, (x as f32).into(), (to, round)),
            }
        }
        (Some(own), Some(of)) => {
            let x = own.decode(bits);
            let x = if saturate == Saturate::Clamp && !x.is_nan() && own.max() > high {
                x.clamp(low, high)
            } else {
                x
            };
            // By way of binary32, as the instructions go.
            let x = match (from, to) {
                (Ty::F64, Ty::F32 | Ty::F64) | (_, Ty::F32) => x,
                (Ty::F64, _) => FloatFormat::F32.round(x, rounding(round)),
                _ => x,
            };
            narrowed(of, x, (to, round))
        }
    }
}

fn rounding(round: Round) -> Rounding {
    match round {
        Round::Nearest => Rounding::Nearest,
        Round::Zero | Round::Down | Round::Up => Rounding::Zero,
    }
}

/// A number in a format.
fn narrowed(of: FloatFormat, x: f64, (to, round): (Ty, Round)) -> u64 {
    match to {
        Ty::E4m3 | Ty::E5m2 => of.encode_saturating(x, Rounding::Nearest),
        // Ties away from zero.
        Ty::Tf32 => {
            let word = (x as f32).to_bits();
            if x.is_finite() {
                u64::from(word + 0x1000) & !0x1fff
            } else {
                of.encode(x, Rounding::Nearest)
            }
        }
        _ => of.encode(x, rounding(round)),
    }
}
