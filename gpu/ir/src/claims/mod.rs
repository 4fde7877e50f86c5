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

mod expression;

use std::cmp::Ordering;
use std::fmt;
use std::panic::Location;

use crate::operand::Reg;

use expression::NoValue;
pub use expression::{Expression, Expressions, Part, Term, Value};

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
    /// Returns a coordinate that certainly lies outside, if there is one, and the extent. A number that does not fit 64 bits lies
    /// outside: the kernel does not compute it. The nearest number of 64 bits takes its place.
    pub fn outside(&self, value: &dyn Fn(Value) -> Option<i64>) -> Option<(i64, i64)> {
        let extent = match self.extent.evaluate_within(value) {
            Ok(extent) => extent,
            Err(none) => {
                let extent = none.overflow()?;
                return Some((extent, extent));
            }
        };
        let low = self.low.as_ref().map(|low| low.evaluate_within(value));
        match low {
            Some(Ok(low)) if low < 0 => return Some((low, extent)),
            Some(Err(NoValue::Overflow(low))) => return Some((low, extent)),
            _ => {}
        }
        match self.high.evaluate_within(value) {
            Ok(high) => (high >= extent).then_some((high, extent)),
            Err(none) => none.overflow().map(|high| (high, extent)),
        }
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
    /// Returns the integer if it is another than was declared. In the place of a number that does not fit 64 bits, it returns the
    /// nearest one that does.
    pub fn broken(&self, value: &dyn Fn(Value) -> Option<i64>) -> Option<i64> {
        let value = match self.value.evaluate_within(value) {
            Ok(value) => value,
            Err(none) => return none.overflow(),
        };
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
