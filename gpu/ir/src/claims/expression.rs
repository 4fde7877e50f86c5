//! Integer expressions whose equal parts are computed once.

use std::collections::HashMap;
use std::sync::Arc;

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

/// What a step of an [`Expression`] computes from the results of earlier steps, its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Term {
    /// A number.
    Number(i64),
    /// The value of a variable.
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

/// The place of an operand that a step does not have.
const NONE: u32 = u32::MAX;

/// A term, and the places of the steps that compute its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Step {
    term: Term,
    of: [u32; 4],
}

impl Step {
    fn leaf(term: Term) -> Step {
        Step {
            term,
            of: [NONE; 4],
        }
    }
}

/// An integer expression over values of the launch and of a thread: steps, each of which computes a number from the results of
/// earlier ones.
///
/// Equal parts of an expression are one step, so a coordinate that others are computed from costs one step wherever it is used.
/// [`Expressions`] builds many expressions from parts that they share.
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
    /// The operands of a step before it, in the order in which it has them, and the whole last; none is there twice.
    steps: Arc<[Step]>,
}

impl Expression {
    /// Returns a constant.
    pub fn number(number: i64) -> Expression {
        Expression {
            steps: [Step::leaf(Term::Number(number))].into(),
        }
    }

    /// Returns the expression of a variable.
    pub fn value(value: Value) -> Expression {
        Expression {
            steps: [Step::leaf(Term::Value(value))].into(),
        }
    }

    /// Returns the expression of a binary operation on this one and another.
    #[must_use]
    pub fn binary(self, operation: Term, other: &Expression) -> Expression {
        let mut all = Expressions::default();
        let (a, b) = (all.add(&self), all.add(other));
        let whole = all.binary(operation, a, b);
        all.expression(whole)
    }

    /// Returns the bit field `(self & mask) << shift`.
    #[must_use]
    pub fn bits(self, mask: u64, shift: i32) -> Expression {
        let mut all = Expressions::default();
        let of = all.add(&self);
        let field = all.bits(of, mask, shift);
        all.expression(field)
    }

    /// Returns `then` where `a < b`, else `other`.
    pub fn select([a, b, then, other]: [Expression; 4]) -> Expression {
        let mut all = Expressions::default();
        let parts = [a, b, then, other].map(|part| all.add(&part));
        let chosen = all.select(parts);
        all.expression(chosen)
    }

    /// Returns the variables, each once, in the order of the steps.
    pub fn values(&self) -> impl Iterator<Item = Value> + '_ {
        self.steps.iter().filter_map(|step| match step.term {
            Term::Value(value) => Some(value),
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

    /// Returns the number of steps: an evaluation takes each once.
    ///
    /// ```
    /// use colex_ir::Special;
    /// use colex_ir::claims::{Expression, Term, Value};
    ///
    /// let mut square = Expression::value(Value::Special(Special::Ctaid(0)));
    /// for _ in 0..5 {
    ///     square = square.clone().binary(Term::Multiply, &square);
    /// }
    /// assert_eq!(square.steps(), 6); // and 63, if each factor were computed again
    /// assert_eq!(square.evaluate(&|_| Some(2)), Some(1 << 32));
    /// ```
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Returns the value of the expression, given the values of its variables; `None` if one is unknown, on division by 0, and
    /// if a number does not fit 64 bits.
    pub fn evaluate(&self, value: &dyn Fn(Value) -> Option<i64>) -> Option<i64> {
        self.evaluate_within(value).ok()
    }

    /// The same, and where a number does not fit 64 bits, the nearest one that does.
    pub(super) fn evaluate_within(
        &self,
        value: &dyn Fn(Value) -> Option<i64>,
    ) -> Result<i64, NoValue> {
        let mut results: Vec<i64> = Vec::with_capacity(self.steps.len());
        for Step { term, of } in self.steps.iter() {
            let operand = |i: usize| {
                let known = results.get(of[i] as usize).copied();
                known.ok_or(NoValue::Unknown)
            };
            let both = || Ok((operand(0)?, operand(1)?));
            let result = match *term {
                Term::Number(number) => number,
                Term::Value(read) => value(read).ok_or(NoValue::Unknown)?,
                Term::Bits { mask, shift } => moved(operand(0)? as u64 & mask, shift),
                Term::Add => {
                    let (a, b) = both()?;
                    fitting(i128::from(a) + i128::from(b))?
                }
                Term::Multiply => {
                    let (a, b) = both()?;
                    fitting(i128::from(a) * i128::from(b))?
                }
                Term::Xor => both().map(|(a, b)| a ^ b)?,
                Term::Minimum => both().map(|(a, b)| a.min(b))?,
                Term::Quotient => {
                    let (a, b) = both()?;
                    let quotient = i128::from(a).checked_div_euclid(i128::from(b));
                    fitting(quotient.ok_or(NoValue::Unknown)?)?
                }
                Term::Remainder => {
                    let (a, b) = both()?;
                    let rest = i128::from(a).checked_rem_euclid(i128::from(b));
                    fitting(rest.ok_or(NoValue::Unknown)?)?
                }
                Term::Select => {
                    let ((a, b), then, other) = (both()?, operand(2)?, operand(3)?);
                    if a < b { then } else { other }
                }
            };
            results.push(result);
        }
        results.pop().ok_or(NoValue::Unknown)
    }
}

/// Why an expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoValue {
    /// A variable is unknown, or a divisor is 0.
    Unknown,
    /// A number does not fit 64 bits: the nearest that does.
    Overflow(i64),
}

impl NoValue {
    /// The nearest number of 64 bits, if there is a number.
    pub(super) fn overflow(self) -> Option<i64> {
        match self {
            NoValue::Unknown => None,
            NoValue::Overflow(nearest) => Some(nearest),
        }
    }
}

/// The number in 64 bits.
fn fitting(number: i128) -> Result<i64, NoValue> {
    let nearest = if number < 0 { i64::MIN } else { i64::MAX };
    i64::try_from(number).map_err(|_| NoValue::Overflow(nearest))
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

/// A part of the [`Expressions`] that returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part(u32);

/// Expressions that are built from common parts: an equal part is there once, however often it is asked for.
///
/// ```
/// use colex_ir::Special;
/// use colex_ir::claims::{Expressions, Term, Value};
///
/// let mut all = Expressions::default();
/// let (block, eight) = (all.value(Value::Special(Special::Ctaid(0))), all.number(8));
/// let first = all.binary(Term::Multiply, block, eight);
/// let seven = all.number(7);
/// let last = all.binary(Term::Add, first, seven);
/// assert_eq!(all.binary(Term::Multiply, block, eight), first);
/// assert_eq!(all.expression(last).evaluate(&|_| Some(2)), Some(23));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Expressions {
    steps: Vec<Step>,
    places: HashMap<Step, u32>,
}

impl Expressions {
    fn step(&mut self, step: Step) -> Part {
        let next = self.steps.len() as u32;
        let place = *self.places.entry(step).or_insert(next);
        if place == next {
            self.steps.push(step);
        }
        Part(place)
    }

    /// Returns a constant.
    pub fn number(&mut self, number: i64) -> Part {
        self.step(Step::leaf(Term::Number(number)))
    }

    /// Returns a variable.
    pub fn value(&mut self, value: Value) -> Part {
        self.step(Step::leaf(Term::Value(value)))
    }

    /// Returns a binary operation on two parts.
    pub fn binary(&mut self, term: Term, Part(a): Part, Part(b): Part) -> Part {
        let of = [a, b, NONE, NONE];
        self.step(Step { term, of })
    }

    /// Returns the bit field `(of & mask) << shift`.
    pub fn bits(&mut self, Part(of): Part, mask: u64, shift: i32) -> Part {
        let term = Term::Bits { mask, shift };
        let of = [of, NONE, NONE, NONE];
        self.step(Step { term, of })
    }

    /// Returns `then` where `a < b`, else `other`.
    pub fn select(&mut self, parts: [Part; 4]) -> Part {
        let term = Term::Select;
        let of = parts.map(|Part(place)| place);
        self.step(Step { term, of })
    }

    /// Adds the steps of an expression, and returns the whole of it.
    fn add(&mut self, expression: &Expression) -> Part {
        let mut places: Vec<u32> = Vec::with_capacity(expression.steps.len());
        for Step { term, of } in expression.steps.iter() {
            let at = |place: u32| places.get(place as usize).copied().unwrap_or(NONE);
            let Part(place) = self.step(Step {
                term: *term,
                of: of.map(at),
            });
            places.push(place);
        }
        Part(places.pop().unwrap_or(NONE))
    }

    /// Returns the expression of a part.
    pub fn expression(&self, Part(whole): Part) -> Expression {
        let mut steps: Vec<Step> = Vec::new();
        // The operands of a step have lower places.
        let known = self.steps.len().min(whole as usize + 1);
        let mut places = vec![NONE; known];
        let mut open = vec![(whole, false)];
        while let Some((place, has_operands)) = open.pop() {
            let at = place as usize;
            if at >= known || places[at] != NONE {
                continue;
            }
            let Step { term, of } = self.steps[at];
            if has_operands {
                let of = of.map(|of| places.get(of as usize).copied().unwrap_or(NONE));
                places[at] = steps.len() as u32;
                steps.push(Step { term, of });
            } else {
                open.push((place, true));
                open.extend(of.into_iter().rev().map(|of| (of, false)));
            }
        }
        let steps = steps.into();
        Expression { steps }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of a drawn part, and the part as both ways to build it have it.
    type Drawn = (Option<i64>, Expression, Part);

    fn add(all: &mut Expressions, parts: &[Drawn], next: &mut impl FnMut(u64) -> u64) -> Drawn {
        let below = parts.len() as u64;
        let [a, b, c, d] = [(); 4].map(|()| &parts[next(below.max(1)) as usize % parts.len()]);
        let both = a.0.zip(b.0);
        let two = |all: &mut Expressions, term, value: Option<i64>| {
            let expression = a.1.clone().binary(term, &b.1);
            (value, expression, all.binary(term, a.2, b.2))
        };
        match next(9) {
            0 => two(all, Term::Add, both.and_then(|(a, b)| a.checked_add(b))),
            1 => two(
                all,
                Term::Multiply,
                both.and_then(|(a, b)| a.checked_mul(b)),
            ),
            2 => two(
                all,
                Term::Quotient,
                both.and_then(|(a, b)| a.checked_div_euclid(b)),
            ),
            3 => two(
                all,
                Term::Remainder,
                both.and_then(|(a, b)| a.checked_rem_euclid(b)),
            ),
            4 => two(all, Term::Xor, both.map(|(a, b)| a ^ b)),
            5 => two(all, Term::Minimum, both.map(|(a, b)| a.min(b))),
            6 => {
                let (mask, shift) = (0xff, next(5) as i32 - 2);
                let field = a.0.map(|a| moved(a as u64 & mask, shift));
                let expression = a.1.clone().bits(mask, shift);
                (field, expression, all.bits(a.2, mask, shift))
            }
            7 => {
                let number = next(7) as i64 - 3;
                (Some(number), Expression::number(number), all.number(number))
            }
            _ => {
                let chosen = both.zip(c.0.zip(d.0));
                let chosen = chosen.map(|((a, b), (c, d))| if a < b { c } else { d });
                let expression = Expression::select([&a.1, &b.1, &c.1, &d.1].map(Clone::clone));
                (chosen, expression, all.select([a.2, b.2, c.2, d.2]))
            }
        }
    }

    /// An expression has the value that its operations give, with no more steps than there were parts, in both ways to build
    /// it.
    #[test]
    fn law_expressions_share_their_parts() {
        let mut state = 5u64;
        let mut next = |below: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let (mut cases, mut known) = (0, 0);
        for _ in 0..200 {
            let mut all = Expressions::default();
            let x = Value::Special(Special::Ctaid(0));
            let mut parts: Vec<Drawn> = vec![(Some(3), Expression::value(x), all.value(x))];
            for _ in 0..30 {
                let part = add(&mut all, &parts, &mut next);
                parts.push(part);
            }
            for (value, expression, part) in &parts {
                let shared = all.expression(*part);
                assert_eq!(shared, *expression);
                assert_eq!(shared.evaluate(&|_| Some(3)), *value, "{shared:?}");
                assert!(shared.steps() <= parts.len());
                cases += 1;
                known += usize::from(value.is_some());
            }
        }
        assert!(known * 3 > cases, "{known} of {cases} have a value");
        println!("law claims.expressions: {cases} cases");
    }
}
