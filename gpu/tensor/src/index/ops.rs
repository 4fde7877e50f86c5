//! Arithmetic, evaluation and text of an [`Index`].

use std::fmt;
use std::ops::{Add, BitXor, Div, Mul, Neg, Rem, Sub};

use super::fields::{product, quotient, remainder};
use super::walk::Walked;
use super::{Index, Node, moved, sum};
use colex_ir::Reg;

impl From<i64> for Index {
    fn from(value: i64) -> Self {
        Index::constant(value)
    }
}

impl From<i32> for Index {
    fn from(value: i32) -> Self {
        Index::constant(i64::from(value))
    }
}

impl From<&Index> for Index {
    fn from(index: &Index) -> Self {
        index.clone()
    }
}

macro_rules! operator {
    ($($trait:ident $method:ident |$a:ident, $b:ident| $body:expr;)*) => { $(
        impl<B: Into<Index>> $trait<B> for Index {
            type Output = Index;
            #[track_caller]
            fn $method(self, other: B) -> Index {
                let ($a, $b): (Index, Index) = (self, other.into());
                if let Some(poison) = $a.either_poison(&$b) {
                    return poison;
                }
                $body
            }
        }

        impl<B: Into<Index>> $trait<B> for &Index {
            type Output = Index;
            #[track_caller]
            fn $method(self, other: B) -> Index {
                let ($a, $b): (Index, Index) = (self.clone(), other.into());
                if let Some(poison) = $a.either_poison(&$b) {
                    return poison;
                }
                $body
            }
        }
    )* };
}

operator! {
    Add add |a, b| sum(vec![(a, 1), (b, 1)], 0);
    Sub sub |a, b| sum(vec![(a, 1), (b, -1)], 0);
    Mul mul |a, b| product(&a, &b);
    BitXor bitxor |a, b| a.xor(&b);
    Div div |a, b| match b.as_constant() {
        Some(d) if d > 0 => quotient(&a, d),
        _ => by_register(Node::Quotient, "/", &a, &b),
    };
    Rem rem |a, b| match b.as_constant() {
        Some(d) if d > 0 => remainder(&a, d),
        _ => by_register(Node::Remainder, "%", &a, &b),
    };
}

impl Neg for Index {
    type Output = Index;
    #[track_caller]
    fn neg(self) -> Index {
        sum(vec![(self, -1)], 0)
    }
}

/// A quotient or remainder by what only the kernel knows.
#[track_caller]
fn by_register(node: fn(Index, Index) -> Node, sign: &str, a: &Index, b: &Index) -> Index {
    let (low, high) = b.range();
    if low < 0 || high < 1 {
        return Index::no_integer(format!(
            "{} {sign} {}: the divisor lies from {low} to {high}, and a divisor is above 0",
            Inner(a),
            Inner(b)
        ));
    }
    let (low, high) = a.range();
    let divisor = b.range().1.max(1);
    let range = match node(a.clone(), b.clone()) {
        Node::Quotient(..) => (low.min(0), high.max(0)),
        _ => (0, high.min(divisor - 1).max(0)),
    };
    let range = if low < 0 && range.0 == 0 {
        (0, divisor - 1)
    } else {
        range
    };
    Index::pair(node, a, b, range)
}

/// The formulas of a schedule, written once over `colex_sched::Arith`, with registers for numbers. What a formula takes to lie in
/// a range keeps the range that the rules derive: [`Builder::tile_at`](crate::Builder::tile_at) checks the ranges of an order.
///
/// ```
/// # use colex_tensor::prelude::*;
/// let mut k = Builder::new("k", Arch::Sm80, 32);
/// let thread = k.thread();
/// let [m, n] = colex_sched::formula::identity(thread, Index::from(0), Index::from(4));
/// assert_eq!((m.to_string(), n.to_string()), ("r0 >> 2".to_string(), "r0 & 3".to_string()));
/// ```
impl colex_sched::Arith for Index {
    fn min(a: Self, b: Self) -> Self {
        Index::min(&a, &b)
    }

    fn select_lt(a: Self, b: Self, then: Self, other: Self) -> Self {
        Index::select_less(&a, &b, &then, &other)
    }
}

/// A number of a formula whose ranges [`Builder::tile_at`](crate::Builder::tile_at) checks.
#[derive(Clone)]
pub(crate) struct Checked(pub(crate) Index);

macro_rules! checked {
    ($($trait:ident $method:ident)*) => { $(
        impl $trait for Checked {
            type Output = Checked;
            fn $method(self, other: Checked) -> Checked {
                Checked(self.0.$method(other.0))
            }
        }
    )* };
}
checked! { Add add Sub sub Mul mul Div div Rem rem }

impl From<i64> for Checked {
    fn from(value: i64) -> Self {
        Checked(value.into())
    }
}

impl colex_sched::Arith for Checked {
    fn min(a: Self, b: Self) -> Self {
        Checked(a.0.min(&b.0))
    }

    fn select_lt(a: Self, b: Self, then: Self, other: Self) -> Self {
        Checked(Index::select_less(&a.0, &b.0, &then.0, &other.0))
    }

    fn within(self, range: std::ops::Range<i64>) -> Self {
        Checked(Index::within(&self.0, range))
    }
}

impl Index {
    /// Builds the index of a schedule's formula from the values of its variables; `None` if one is missing.
    ///
    /// ```
    /// use colex_tensor::Index;
    /// use colex_sched::Expr;
    ///
    /// let e = Expr::var("x") * Expr::from(6) % Expr::from(4);
    /// let index = Index::from_formula(&e, &|name| (name == "x").then(|| Index::from(3)));
    /// assert_eq!(index.and_then(|x| x.as_constant()), Some(2));
    /// assert!(Index::from_formula(&e, &|_| None).is_none());
    /// ```
    pub fn from_formula(
        formula: &colex_sched::Expr,
        value: &dyn Fn(&str) -> Option<Index>,
    ) -> Option<Index> {
        use colex_sched::{Expr, Op};
        let lower = |e: &Expr| Index::from_formula(e, value);
        Some(match formula {
            Expr::Const(c) => Index::constant(*c),
            Expr::Var(name) => value(name)?,
            Expr::Binary(op, a, b) => {
                let (a, b) = (lower(a)?, lower(b)?);
                match op {
                    Op::Add => a + b,
                    Op::Sub => a - b,
                    Op::Mul => a * b,
                    Op::Div => a / b,
                    Op::Rem => a % b,
                    Op::Min => a.min(&b),
                }
            }
            Expr::Select(parts) => {
                let [a, b, then, other] = parts.as_ref();
                Index::select_less(&lower(a)?, &lower(b)?, &lower(then)?, &lower(other)?)
            }
        })
    }

    /// Returns the value of the index, given the value of each register; `None` if a register is unknown, and on
    /// division by zero or overflow.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 128);
    /// let x = k.thread();
    /// assert_eq!((x.clone() % 7 * 3 + 1).eval(&|_| Some(20)), Some(19));
    /// ```
    pub fn eval(&self, value: &dyn Fn(Reg) -> Option<i64>) -> Option<i64> {
        self.eval_in(value, &mut Walked::default())
    }

    fn eval_in(
        &self,
        value: &dyn Fn(Reg) -> Option<i64>,
        walked: &mut Walked<Option<i64>>,
    ) -> Option<i64> {
        walked.of(self, |walked| {
            let mut of = |x: &Index| x.eval_in(value, walked);
            match &self.0.node {
                Node::Leaf(leaf) => value(leaf.reg),
                Node::Poison(_) => None,
                Node::Sum(terms, constant) => terms.iter().try_fold(*constant, |total, (x, c)| {
                    total.checked_add(of(x)?.checked_mul(*c)?)
                }),
                Node::BitField(x, mask, shift) => {
                    let kept = of(x)? as u64 & mask;
                    Some(moved(kept, *shift) as i64)
                }
                Node::Product(a, b) => of(a)?.checked_mul(of(b)?),
                Node::Quotient(a, b) => of(a)?.checked_div_euclid(of(b)?),
                Node::Remainder(a, b) => of(a)?.checked_rem_euclid(of(b)?),
                Node::Xor(a, b) => Some(of(a)? ^ of(b)?),
                Node::Min(a, b) => Some(of(a)?.min(of(b)?)),
                Node::Select(parts) => {
                    let [a, b, then, other] = parts.as_ref();
                    let chosen = if of(a)? < of(b)? { then } else { other };
                    of(chosen)
                }
                Node::Opaque(x) => of(x),
            }
        })
    }
}

/// The nodes up to which a part is printed within a larger expression.
const PRINTED: u32 = 200;

/// As an expression of C over register names, with `(...)` for large parts.
impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.node {
            Node::Leaf(leaf) => write!(f, "{}{}", leaf.reg.ty.prefix(), leaf.reg.index),
            Node::Sum(terms, constant) => print_sum(f, terms, *constant),
            Node::BitField(x, mask, shift) => print_bits(f, x, *mask, *shift),
            Node::Product(a, b) => write!(f, "{} * {}", Inner(a), Inner(b)),
            Node::Quotient(a, b) => write!(f, "{} / {}", Inner(a), Inner(b)),
            Node::Remainder(a, b) => write!(f, "{} % {}", Inner(a), Inner(b)),
            Node::Xor(a, b) => write!(f, "{} ^ {}", Inner(a), Inner(b)),
            Node::Min(a, b) => write!(f, "min({}, {})", Whole(a), Whole(b)),
            Node::Select(parts) => {
                let [a, b, then, other] = parts.as_ref();
                write!(
                    f,
                    "{} < {} ? {} : {}",
                    Inner(a),
                    Inner(b),
                    Inner(then),
                    Inner(other)
                )
            }
            Node::Opaque(x) => fmt::Display::fmt(&Whole(x), f),
            Node::Poison(poison) => write!(f, "no integer ({})", poison.why),
        }
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Without parentheses of its own.
struct Whole<'a>(&'a Index);

impl fmt::Display for Whole<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.0.nodes > PRINTED {
            return f.write_str("...");
        }
        fmt::Display::fmt(self.0, f)
    }
}

/// In parentheses unless it is one word.
struct Inner<'a>(&'a Index);

impl fmt::Display for Inner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.0.node {
            Node::Leaf(_) | Node::Min(..) => fmt::Display::fmt(&Whole(self.0), f),
            _ if self.0.as_constant().is_some() => fmt::Display::fmt(self.0, f),
            Node::Opaque(x) => write!(f, "{}", Inner(x)),
            _ => write!(f, "({})", Whole(self.0)),
        }
    }
}

fn print_sum(f: &mut fmt::Formatter<'_>, terms: &[(Index, i64)], constant: i64) -> fmt::Result {
    for (i, (x, c)) in terms.iter().enumerate() {
        let sign = match (i, *c < 0) {
            (0, false) => "",
            (0, true) => "-",
            (_, false) => " + ",
            (_, true) => " - ",
        };
        f.write_str(sign)?;
        match c.unsigned_abs() {
            1 => write!(f, "{}", Inner(x))?,
            c => write!(f, "{} * {c}", Inner(x))?,
        }
    }
    match (terms.is_empty(), constant) {
        (true, c) => write!(f, "{c}"),
        (_, 0) => Ok(()),
        (_, c) if c < 0 => write!(f, " - {}", c.unsigned_abs()),
        (_, c) => write!(f, " + {c}"),
    }
}

fn print_bits(f: &mut fmt::Formatter<'_>, x: &Index, mask: u64, shift: i32) -> fmt::Result {
    let out = if shift < 0 { (1u64 << -shift) - 1 } else { 0 };
    let whole = mask == x.0.bits & !out;
    match (whole, shift) {
        (true, s) if s < 0 => write!(f, "{} >> {}", Inner(x), -s),
        (true, s) => write!(f, "{} << {s}", Inner(x)),
        (false, 0) => write!(f, "{} & {mask}", Inner(x)),
        (false, s) if s < 0 => write!(f, "({} & {mask}) >> {}", Inner(x), -s),
        (false, s) => write!(f, "({} & {mask}) << {s}", Inner(x)),
    }
}
