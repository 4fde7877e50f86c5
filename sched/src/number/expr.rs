//! Integer expressions: a schedule's formula as data, for the host to evaluate and a kernel to lower.
//!
//! Each formula of [`crate::formula`] is written once over [`Arith`]. With `i64` it computes; with [`Expr`] it
//! yields the tree of operations, which prints, evaluates, and translates into instructions node by node.
//!
//! ```
//! use colex_sched::{Expr, formula};
//! let [m, n] = formula::identity(Expr::var("bx"), Expr::var("by"), Expr::from(4));
//! assert_eq!(m.to_string(), "bx / 4");
//! assert_eq!(n.to_string(), "by * 4 + bx % 4");
//! ```

use std::fmt;
use std::ops::{Add, Div, Mul, Range, Rem, Sub};
use std::rc::Rc;

/// What a formula needs of its numbers. Operands are never negative, so `/` and `%` have one meaning.
pub trait Arith:
    Clone
    + From<i64>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Rem<Output = Self>
{
    /// Returns the smaller of `a` and `b`. Not a method, so that `x.min(y)` stays the one of [`Ord`].
    fn min(a: Self, b: Self) -> Self;

    /// Returns `then` where `a < b`, else `other`.
    fn select_lt(a: Self, b: Self, then: Self, other: Self) -> Self;

    /// The same value, which a formula knows to lie in `range` for the extents that kernels take. What becomes
    /// instructions needs it to see that a register of 32 bits is enough; a number is what it is.
    #[must_use]
    fn within(self, range: Range<i64>) -> Self {
        let _ = range;
        self
    }
}

impl Arith for i64 {
    fn min(a: i64, b: i64) -> i64 {
        Ord::min(a, b)
    }

    fn select_lt(a: i64, b: i64, then: i64, other: i64) -> i64 {
        if a < b { then } else { other }
    }
}

/// An operation on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `a / b`, rounded down (operands are not negative)
    Div,
    /// `a % b`
    Rem,
    /// the smaller of `a` and `b`
    Min,
}

/// A formula as a tree. Constructors fold constants, so `x * 1`, `x / 1` and `x + 0` are `x`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// A number known when the kernel is built.
    Const(i64),
    /// A number known when it runs, by name: a block index, a number of tiles.
    Var(&'static str),
    /// An operation on two expressions.
    Binary(Op, Rc<Expr>, Rc<Expr>),
    /// `[a, b, then, other]`: `then` where `a < b`, else `other`.
    Select(Rc<[Expr; 4]>),
}

impl Expr {
    /// Returns the variable `name`.
    pub const fn var(name: &'static str) -> Expr {
        Expr::Var(name)
    }

    /// Returns the value, given a value for each variable; `None` on an unknown variable, a division by zero or
    /// overflow.
    ///
    /// ```
    /// # use colex_sched::Expr;
    /// let e = (Expr::var("x") + Expr::from(5)) / Expr::from(2);
    /// assert_eq!(e.eval(&|name| (name == "x").then_some(8)), Some(6));
    /// assert_eq!(e.eval(&|_| None), None);
    /// ```
    pub fn eval(&self, value: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        match self {
            Expr::Const(c) => Some(*c),
            Expr::Var(name) => value(name),
            Expr::Binary(op, a, b) => apply(*op, a.eval(value)?, b.eval(value)?),
            Expr::Select(parts) => {
                let [a, b, then, other] = parts.as_ref();
                if a.eval(value)? < b.eval(value)? {
                    then.eval(value)
                } else {
                    other.eval(value)
                }
            }
        }
    }

    /// Returns how many operations a straightforward lowering emits (shared parts counted each time they occur).
    pub fn operations(&self) -> usize {
        match self {
            Expr::Const(_) | Expr::Var(_) => 0,
            Expr::Binary(_, a, b) => 1 + a.operations() + b.operations(),
            Expr::Select(parts) => 2 + parts.iter().map(Expr::operations).sum::<usize>(),
        }
    }
}

fn apply(op: Op, a: i64, b: i64) -> Option<i64> {
    match op {
        Op::Add => a.checked_add(b),
        Op::Sub => a.checked_sub(b),
        Op::Mul => a.checked_mul(b),
        Op::Div => a.checked_div(b),
        Op::Rem => a.checked_rem(b),
        Op::Min => Some(a.min(b)),
    }
}

fn binary(op: Op, a: Expr, b: Expr) -> Expr {
    match (op, &a, &b) {
        (_, Expr::Const(x), Expr::Const(y)) => match apply(op, *x, *y) {
            Some(z) => Expr::Const(z),
            None => Expr::Binary(op, Rc::new(a), Rc::new(b)),
        },
        (Op::Add, Expr::Const(0), _) | (Op::Mul, Expr::Const(1), _) => b,
        (Op::Add | Op::Sub, _, Expr::Const(0)) | (Op::Mul | Op::Div, _, Expr::Const(1)) => a,
        (Op::Rem, _, Expr::Const(1))
        | (Op::Mul, _, Expr::Const(0))
        | (Op::Mul, Expr::Const(0), _) => Expr::Const(0),
        _ => Expr::Binary(op, Rc::new(a), Rc::new(b)),
    }
}

macro_rules! operator {
    ($($trait:ident $method:ident)*) => { $(
        impl $trait for Expr {
            type Output = Expr;
            fn $method(self, other: Expr) -> Expr {
                binary(Op::$trait, self, other)
            }
        }
    )* };
}
operator! { Add add Sub sub Mul mul Div div Rem rem }

impl From<i64> for Expr {
    fn from(value: i64) -> Expr {
        Expr::Const(value)
    }
}

impl Arith for Expr {
    fn min(a: Expr, b: Expr) -> Expr {
        binary(Op::Min, a, b)
    }

    fn select_lt(a: Expr, b: Expr, then: Expr, other: Expr) -> Expr {
        match (&a, &b) {
            (Expr::Const(x), Expr::Const(y)) => {
                if x < y {
                    then
                } else {
                    other
                }
            }
            _ => Expr::Select(Rc::new([a, b, then, other])),
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(self, f, 0)
    }
}

/// Prints with parentheses only where `rank` (0 sum, 1 product, 2 right operand of a product) asks for them.
fn print(e: &Expr, f: &mut fmt::Formatter<'_>, rank: u8) -> fmt::Result {
    let (sign, own) = match e {
        Expr::Const(c) => return write!(f, "{c}"),
        Expr::Var(name) => return f.write_str(name),
        Expr::Select(parts) => {
            let [a, b, then, other] = parts.as_ref();
            return write!(f, "({a} < {b} ? {then} : {other})");
        }
        Expr::Binary(Op::Min, a, b) => return write!(f, "min({a}, {b})"),
        Expr::Binary(Op::Add, ..) => ("+", 0),
        Expr::Binary(Op::Sub, ..) => ("-", 0),
        Expr::Binary(Op::Mul, ..) => ("*", 1),
        Expr::Binary(Op::Div, ..) => ("/", 1),
        Expr::Binary(Op::Rem, ..) => ("%", 1),
    };
    let Expr::Binary(_, a, b) = e else {
        unreachable!("the other kinds returned above")
    };
    if own < rank {
        f.write_str("(")?;
    }
    print(a, f, own)?;
    write!(f, " {sign} ")?;
    print(b, f, own + u8::from(sign != "+"))?;
    if own < rank { f.write_str(")") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_between_constants_is_made_at_once() {
        let chosen = |a: i64, b: i64| Expr::select_lt(a.into(), b.into(), 10.into(), 20.into());
        assert_eq!(chosen(1, 2), Expr::Const(10));
        assert_eq!(chosen(2, 2), Expr::Const(20));
        assert_eq!(chosen(3, 2), Expr::Const(20));
    }
}
