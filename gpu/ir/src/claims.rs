//! Claims: the assumptions of unpredicated accesses about their coordinates.
//!
//! An instruction has only an address, and an address beyond the end of a row lies in the next row. The builder of tensors
//! therefore records, for each unpredicated access, the coordinates that it reaches and the extents of the tensor, both as
//! [`Expression`]s. A launch is checked against the claims of accesses that certainly run
//! ([`crate::launch::LaunchClaims`]), and the simulator checks the claim of every access that it executes. Before an access
//! whose claim no launch decides, the builder inserts instructions that compare the same coordinates, and a conditional
//! trap.
//!
//! An integer's declared range is a claim too: comparisons and divisions are simplified by it. A [`crate::Control::Comment`]
//! without text carries it, so that nothing is printed.

use std::cmp::Ordering;
use std::fmt;
use std::panic::Location;

use crate::operand::{ParamId, Reg, Special};

/// A variable of an [`Expression`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// A special register.
    Special(Special),
    /// A parameter of 32 or 64 bits.
    Parameter {
        /// Which.
        id: ParamId,
        /// Whether it may be below 0.
        signed: bool,
    },
    /// A register, when the access is executed.
    Register {
        /// Which.
        reg: Reg,
        /// Whether it may be below 0.
        signed: bool,
    },
}

/// A step of an [`Expression`]: it pops its operands from a stack and pushes its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Term {
    /// Pushes a number.
    Number(i64),
    /// Pushes the value of a variable.
    Value(Value),
    /// `a + b`
    Add,
    /// `a * b`
    Multiply,
    /// `a / b`, rounded down.
    Quotient,
    /// `a % b`, never negative.
    Remainder,
    /// `a ^ b`
    Xor,
    /// The minimum.
    Minimum,
    /// `(a & mask) << shift`, or `>> -shift`.
    Bits {
        /// The bits that stay.
        mask: u64,
        /// By how much they move to the left.
        shift: i32,
    },
    /// `c` where `a < b`, else `d`.
    Select,
}

/// An integer expression over values of the launch and of a thread, in reverse Polish notation.
///
/// ```
/// use colex_ir::Special;
/// use colex_ir::claims::{Expression, Term, Value};
///
/// let block = Expression::value(Value::Special(Special::Ctaid(0)));
/// let last = block.binary(Term::Multiply, &Expression::number(128)).binary(Term::Add, &Expression::number(127));
/// assert_eq!(last.evaluate(&|_| Some(3)), Some(511));
/// assert_eq!(last.evaluate(&|_| None), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expression {
    terms: Vec<Term>,
}

impl Expression {
    /// Returns a constant.
    pub fn number(number: i64) -> Expression {
        Expression {
            terms: vec![Term::Number(number)],
        }
    }

    /// Returns the expression of a variable.
    pub fn value(value: Value) -> Expression {
        Expression {
            terms: vec![Term::Value(value)],
        }
    }

    /// Returns the expression of a binary operation on this one and another.
    #[must_use]
    pub fn binary(mut self, operation: Term, other: &Expression) -> Expression {
        self.terms.extend_from_slice(&other.terms);
        self.terms.push(operation);
        self
    }

    /// Returns the bit field `(self & mask) << shift`.
    #[must_use]
    pub fn bits(mut self, mask: u64, shift: i32) -> Expression {
        self.terms.push(Term::Bits { mask, shift });
        self
    }

    /// Returns `then` where `a < b`, else `other`.
    pub fn select([a, b, then, other]: [Expression; 4]) -> Expression {
        let mut terms = a.terms;
        terms.extend(b.terms);
        terms.extend(then.terms);
        terms.extend(other.terms);
        terms.push(Term::Select);
        Expression { terms }
    }

    /// Returns the variables in the order of the steps.
    pub fn values(&self) -> impl Iterator<Item = Value> + '_ {
        self.terms.iter().filter_map(|term| match term {
            Term::Value(value) => Some(*value),
            Term::Number(_)
            | Term::Add
            | Term::Multiply
            | Term::Quotient
            | Term::Remainder
            | Term::Xor
            | Term::Minimum
            | Term::Bits { .. }
            | Term::Select => None,
        })
    }

    /// Returns the value of the expression, given the values of its variables; `None` if one is unknown, on division by 0, and
    /// if a number does not fit 64 bits.
    pub fn evaluate(&self, value: &dyn Fn(Value) -> Option<i64>) -> Option<i64> {
        let mut stack: Vec<i64> = Vec::with_capacity(8);
        for term in &self.terms {
            let mut pop = || stack.pop();
            let result = match *term {
                Term::Number(number) => number,
                Term::Value(read) => value(read)?,
                Term::Bits { mask, shift } => moved(pop()? as u64 & mask, shift),
                Term::Add => pop()?.checked_add(pop()?)?,
                Term::Multiply => pop()?.checked_mul(pop()?)?,
                Term::Xor => pop()? ^ pop()?,
                Term::Minimum => pop()?.min(pop()?),
                Term::Quotient => {
                    let (b, a) = (pop()?, pop()?);
                    a.checked_div_euclid(b)?
                }
                Term::Remainder => {
                    let (b, a) = (pop()?, pop()?);
                    a.checked_rem_euclid(b)?
                }
                Term::Select => {
                    let (other, then, b, a) = (pop()?, pop()?, pop()?, pop()?);
                    if a < b { then } else { other }
                }
            };
            stack.push(result);
        }
        stack.pop()
    }
}

/// Bits moved to the left, or to the right.
fn moved(bits: u64, shift: i32) -> i64 {
    let by = shift.unsigned_abs();
    let moved = if shift >= 0 {
        bits.checked_shl(by)
    } else {
        bits.checked_shr(by)
    };
    moved.unwrap_or(0) as i64
}

/// The claim about one mode of a tensor: the coordinates of the access, from `low` to `high`, are at least 0 and below
/// `extent`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bound {
    /// The tensor's name.
    pub tensor: String,
    /// The mode.
    pub mode: usize,
    /// The first coordinate; `None` if it cannot be below 0.
    pub low: Option<Expression>,
    /// The last coordinate.
    pub high: Expression,
    /// The extent.
    pub extent: Expression,
}

impl Bound {
    /// Returns a coordinate that certainly lies outside, if there is one, and the extent.
    pub fn outside(&self, value: &dyn Fn(Value) -> Option<i64>) -> Option<(i64, i64)> {
        let extent = self.extent.evaluate(value)?;
        let low = self.low.as_ref().and_then(|low| low.evaluate(value));
        if let Some(low) = low.filter(|low| *low < 0) {
            return Some((low, extent));
        }
        let high = self.high.evaluate(value)?;
        (high >= extent).then_some((high, extent))
    }
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Test {
    /// An integer and a constant are in this order.
    Compare(Expression, Ordering, i64),
    /// All tests have the values that are given with them.
    All(Vec<(Test, bool)>),
}

impl Test {
    /// Returns whether it holds, if the values decide that.
    pub fn holds(&self, value: &dyn Fn(Value) -> Option<i64>) -> Option<bool> {
        match self {
            Test::Compare(a, order, b) => {
                let a = a.evaluate(value)?;
                Some(a.cmp(b) == *order)
            }
            Test::All(tests) => tests.iter().try_fold(true, |all, (test, wanted)| {
                Some(all && test.holds(value)? == *wanted)
            }),
        }
    }

    /// Visits every expression in it.
    pub fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        match self {
            Test::Compare(expression, ..) => visit(expression),
            Test::All(tests) => tests.iter().for_each(|(test, _)| test.visit(visit)),
        }
    }
}

/// A branch or a loop around an access.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Around {
    /// A branch that is taken if the test has the given value.
    Branch(Test, bool),
    /// A loop whose counter goes from `start` to `end` (excluded) by `step`, without another exit.
    Loop {
        /// The counter.
        counter: Reg,
        /// Its first value.
        start: Expression,
        /// The end, which it stays below.
        end: Expression,
        /// The step.
        step: Expression,
    },
}

impl Around {
    /// Visits every expression in it.
    pub fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        match self {
            Around::Branch(test, _) => test.visit(visit),
            Around::Loop {
                start, end, step, ..
            } => [start, end, step].into_iter().for_each(visit),
        }
    }
}

/// The conditions under which an access certainly runs: the branches and loops around it, and threads of a block.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Certain {
    /// The branches and loops around it.
    pub around: Vec<Around>,
    /// The threads that reach farthest.
    pub threads: Vec<u32>,
}

/// What the author of a kernel has declared of an integer.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// The integer.
    pub value: Expression,
    /// The range in which it lies, both ends included.
    pub range: (i64, i64),
    /// The number that it is a multiple of.
    pub multiple: i64,
}

impl Declared {
    /// Returns the integer if it is another than was declared.
    pub fn broken(&self, value: &dyn Fn(Value) -> Option<i64>) -> Option<i64> {
        let value = self.value.evaluate(value)?;
        let holds = (self.range.0..=self.range.1).contains(&value) && value % self.multiple == 0;
        (!holds).then_some(value)
    }
}

/// `0 to 7`, `0 to 60 and a multiple of 4`
impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.range.0, self.range.1)?;
        match self.multiple {
            1 => Ok(()),
            n => write!(f, " and a multiple of {n}"),
        }
    }
}

/// The claim of an access, or of a declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The coordinates that it reaches; empty for a claim that was given up.
    pub bounds: Vec<Bound>,
    /// The declaration.
    pub declared: Option<Declared>,
    /// The conditions under which it certainly runs, if a launch can decide them.
    pub certain: Option<Certain>,
    /// The call of the builder that made the access.
    pub at: &'static Location<'static>,
}

impl Claim {
    /// Visits every expression of what it claims.
    pub fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        for bound in &self.bounds {
            bound.low.iter().for_each(&mut *visit);
            visit(&bound.high);
            visit(&bound.extent);
        }
        self.declared.iter().for_each(|d| visit(&d.value));
    }
}

/// A claim of a kernel, by its place among [`crate::Kernel::claims`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimId(pub u32);
