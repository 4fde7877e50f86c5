//! Conditions, branches and loops.

use std::panic::Location;

use super::claims::{Opened, Says};
use super::lower::narrow_type;
use super::{Builder, Scope};
use crate::error::ErrorKind;
use crate::failure::Owner;
use crate::index::{Index, LIMIT};
use colex_ir::{BinaryOp, Control, Guard, KernelBuilder, Operand, Reg, RegType, ScaleD};

/// A condition: known when the kernel is built, or held in a predicate register.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cond {
    /// It holds in every thread, or in none.
    Known(bool),
    /// It holds in the threads whose predicate says so.
    Where(Predicate),
}

/// A predicate register of a kernel, or its negation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicate {
    guard: Guard,
    owner: Owner,
}

impl Predicate {
    /// Returns the register, and whether it is negated.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let thread = k.thread();
    /// let Cond::Where(first) = k.equal(&thread, &0.into()) else { unreachable!() };
    /// assert!(first.guard().when); // the register itself, not its negation
    /// ```
    pub fn guard(self) -> Guard {
        self.guard
    }

    fn negated(self) -> Predicate {
        Predicate {
            guard: self.guard.negated(),
            ..self
        }
    }
}

impl From<Reg> for Cond {
    fn from(pred: Reg) -> Self {
        Cond::Where(Predicate {
            guard: pred.into(),
            owner: Owner::NONE,
        })
    }
}

/// Whether a product is added to what there is.
impl From<ScaleD> for Cond {
    fn from(scale: ScaleD) -> Self {
        match scale {
            ScaleD::Zero => Cond::Known(false),
            ScaleD::One => Cond::Known(true),
            ScaleD::Pred(pred) => pred.into(),
        }
    }
}

impl From<bool> for Cond {
    fn from(known: bool) -> Self {
        Cond::Known(known)
    }
}

impl Builder {
    /// Branches: the threads for which the condition holds execute `body`.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let number = k.var(0, 0..8);
    /// let lane = k.lane();
    /// let is_last = k.equal(&lane, &31.into());
    /// k.if_(is_last, |k| k.set(&number, 7));
    /// let now = k.get(&number);
    /// assert_eq!(values(k, &now)?[29..], [0, 0, 7]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn if_(&mut self, cond: Cond, body: impl FnOnce(&mut Self)) {
        self.if_else(cond, body, |_| ());
    }

    /// Branches: the threads for which the condition holds execute `then`, the others execute `other`.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let number = k.var(0, 0..8);
    /// let lane = k.lane();
    /// let is_low = k.less(&lane, &30.into());
    /// k.if_else(is_low, |k| k.set(&number, 3), |k| k.set(&number, 7));
    /// let now = k.get(&number);
    /// assert_eq!(values(k, &now)?[28..], [3, 3, 7, 7]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn if_else(
        &mut self,
        cond: Cond,
        then: impl FnOnce(&mut Self),
        other: impl FnOnce(&mut Self),
    ) {
        self.if_else_at(Location::caller(), cond, then, other);
    }

    /// [`Builder::if_else`] in a call of that place.
    pub(crate) fn if_else_at(
        &mut self,
        at: &'static Location<'static>,
        cond: Cond,
        then: impl FnOnce(&mut Self),
        other: impl FnOnce(&mut Self),
    ) {
        let p = match self.known(cond, at) {
            Ok(true) => return then(self),
            Ok(false) => return other(self),
            Err(guard) => guard,
        };
        let before = self.held.elements.clone();
        let then = self.body(false, |k| {
            k.opened(Opened::Branch(p));
            k.under(p);
            then(k);
        });
        let after_then = std::mem::replace(&mut self.held.elements, before);
        let other = self.body(false, |k| {
            k.opened(Opened::Branch(p));
            k.under(p.negated());
            other(k);
        });
        self.held.join(after_then);
        self.site(at, |k| k.ir.push(Control::If { p, then, other }));
    }

    /// Repeats `body` until it [breaks](Builder::break_unless).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let (number, lane) = (k.var(0, 0..33), k.lane());
    /// k.loop_(|k| {
    ///     let now = k.get(&number);
    ///     let more = k.less(&now, &lane);
    ///     k.break_unless(more);
    ///     k.set(&number, now + 1);
    /// });
    /// let now = k.get(&number);
    /// assert_eq!(values(k, &now)?[..3], [0, 1, 2]); // each thread leaves the loop at its own turn
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn loop_(&mut self, body: impl FnOnce(&mut Self)) {
        let at = Location::caller();
        let mut turns = None;
        let body = self.body(true, |k| {
            body(k);
            turns = k.scopes.last_mut().map(|s| std::mem::take(&mut s.turns));
        });
        if let Some(turns) = turns {
            let ended = self.end_turns(&turns);
            self.run(at, |_| ended);
        }
        self.site(at, |k| k.ir.push(Control::Loop { body }));
    }

    /// Executes `body(i)` for `i` from `start` to `end` (excluded) by `step`; not at all if `start >= end`. The three numbers
    /// and `end + step - 1` must fit 32 bits, which have a sign where `start` may be below 0; where the kernel computes them, the
    /// last is refused as for [`Builder::index_of`].
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let sum = k.var(0, 0..100);
    /// k.for_(0, 10, 2, |k, i| {
    ///     let now = k.get(&sum);
    ///     k.set(&sum, now + i);
    /// });
    /// let now = k.get(&sum);
    /// assert_eq!(values(k, &now)?[0], 2 + 4 + 6 + 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if the step may be below 1, or if 32 bits do not hold the ends.
    #[track_caller]
    pub fn for_(
        &mut self,
        start: impl Into<Index>,
        end: impl Into<Index>,
        step: impl Into<Index>,
        body: impl FnOnce(&mut Self, &Index),
    ) {
        self.for_at(
            Location::caller(),
            [start.into(), end.into(), step.into()],
            body,
        );
    }

    /// The same loop, ascribed to a call.
    pub(crate) fn for_at(
        &mut self,
        at: &'static Location<'static>,
        [mut start, mut end, mut step]: [Index; 3],
        body: impl FnOnce(&mut Self, &Index),
    ) {
        let own = self.failure.own_indices([&start, &end, &step]);
        if let Err(kind) = own.and_then(|()| for_ends(&start, &end, &step)) {
            self.fail(kind, at);
            (start, end, step) = (0.into(), 1.into(), 1.into());
        }
        let range = start.range().0..(end.range().1).max(start.range().0 + 1);
        // Counters are numbers of 32 bits, the one after the last too.
        let largest = counter_end(start.range().0);
        self.site(at, |k| {
            let beyond = range.end + step.range().1;
            if beyond - 1 > largest && counter_behind([&start, &end, &step]).is_none() {
                k.claim_range(&(&end + &step - 1), (-LIMIT, largest), 1);
            }
            let beyond = beyond.min(largest + 1);
            let first = start.clone();
            let ends = [&first, &end].map(Index::as_constant);
            let is_known = ends.iter().all(Option::is_some) && step.as_constant() == Some(1);
            let i = k.var(start, range.start..beyond);
            if is_known {
                k.reports.values.counters.insert(k.variable(&i));
            }
            // If the first iteration is certain, the test is at the end of the loop. There is one test fewer, and the
            // body's writes are definite on every path.
            let certain = first.range().1 < end.range().0;
            let ask = |k: &mut Self| {
                let now = k.get(&i);
                let more = k.site(at, |k| k.less(&now, &end));
                k.site(at, |k| k.break_unless(more));
            };
            k.loop_(|k| {
                if !certain {
                    ask(k);
                }
                let now = k.get(&i);
                k.opened_loop(&now, [&first, &end, &step]);
                body(k, &now.known_within((range.start, range.end - 1)));
                let now = k.get(&i);
                k.site(at, |k| k.assign_var(&i, &(now + &step)));
                if certain {
                    ask(k);
                }
            });
        });
    }

    /// Leaves the innermost loop in the threads for which the condition does not hold.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let (turns, lane) = (k.var(0, 0..100), k.lane());
    /// k.for_(0, 10, 1, |k, i| {
    ///     let more = k.less(i, &lane);
    ///     k.break_unless(more);
    ///     let now = k.get(&turns);
    ///     k.set(&turns, now + 1);
    /// });
    /// let now = k.get(&turns);
    /// assert_eq!(values(k, &now)?[..3], [0, 1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn break_unless(&mut self, cond: Cond) {
        match self.known(cond, Location::caller()) {
            Ok(true) => {}
            Ok(false) => self.ir.push(Control::Break),
            Err(guard) => self.ir.break_if(guard.negated()),
        }
    }

    /// Predicates the instructions that `body` adds: only the threads for which the condition holds execute them,
    /// without a branch. Returns the result of `body`; `None` if the condition is known not to hold.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let (number, lane) = (k.var(0, 0..8), k.lane());
    /// let is_first = k.equal(&lane, &0.into());
    /// let register = k.variable(&number);
    /// k.where_(is_first, |ir| ir.mov_to(register, 7));
    /// k.touch(&number);
    /// let now = k.get(&number);
    /// assert_eq!(values(k, &now)?[..3], [7, 0, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn where_<T>(
        &mut self,
        cond: Cond,
        body: impl FnOnce(&mut KernelBuilder) -> T,
    ) -> Option<T> {
        match self.known(cond, Location::caller()) {
            Ok(true) => Some(body(&mut self.ir)),
            Ok(false) => None,
            Err(guard) => Some(self.ir.when(guard, body)),
        }
    }

    /// Returns the conjunction of two conditions.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let (number, lane) = (k.var(0, 0..2), k.lane());
    /// let (low, high) = (k.less(&0.into(), &lane), k.less(&lane, &3.into()));
    /// let is_between = k.both(low, high);
    /// k.if_(is_between, |k| k.set(&number, 1));
    /// let now = k.get(&number);
    /// assert_eq!(values(k, &now)?[..4], [0, 1, 1, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn both(&mut self, a: Cond, b: Cond) -> Cond {
        for cond in [a, b] {
            let _ = self.known(cond, Location::caller());
        }
        match (a, b) {
            (Cond::Known(true), other) | (other, Cond::Known(true)) => other,
            (Cond::Known(false), _) | (_, Cond::Known(false)) => Cond::Known(false),
            (Cond::Where(a), Cond::Where(b)) if a == b => Cond::Where(a),
            (Cond::Where(a), Cond::Where(b)) => {
                let (a, b) = (a.guard, b.guard);
                let both = self.ir.pred(BinaryOp::And, a, b);
                self.claims.says(both, Says::Both(a, b));
                self.holds(both)
            }
        }
    }

    /// The condition that a predicate of this kernel holds.
    pub(crate) fn holds(&self, pred: Reg) -> Cond {
        Cond::Where(Predicate {
            guard: pred.into(),
            owner: self.failure.owner(),
        })
    }

    /// The condition that is known, or that a guard of this kernel says.
    pub(crate) fn cond_of(&self, known: Result<bool, Guard>) -> Cond {
        match known {
            Ok(known) => Cond::Known(known),
            Err(guard) => Cond::Where(Predicate {
                guard,
                owner: self.failure.owner(),
            }),
        }
    }

    /// Whether a condition holds, or the predicate that says so, which must be of this kernel.
    pub(crate) fn known(
        &mut self,
        cond: Cond,
        at: &'static Location<'static>,
    ) -> Result<bool, Guard> {
        match cond {
            Cond::Known(known) => Ok(known),
            Cond::Where(predicate) => {
                if let Err(kind) = self.failure.own("a condition", predicate.owner) {
                    self.fail(kind, at);
                }
                Err(predicate.guard)
            }
        }
    }

    /// Returns the negation of a condition.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// assert_eq!(Builder::not(Cond::Known(true)), Cond::Known(false));
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let lane = k.lane();
    /// let is_first = k.equal(&lane, &0.into());
    /// assert_eq!(Builder::not(Builder::not(is_first)), is_first);
    /// ```
    pub fn not(cond: Cond) -> Cond {
        match cond {
            Cond::Known(known) => Cond::Known(!known),
            Cond::Where(predicate) => Cond::Where(predicate.negated()),
        }
    }

    /// Notes the condition under which the innermost body runs.
    fn under(&mut self, condition: Guard) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.condition = Some(condition);
        }
    }

    fn body(&mut self, repeats: bool, body: impl FnOnce(&mut Self)) -> Vec<colex_ir::Stmt> {
        self.stamp += 1;
        let site = self.ir.set_location(None);
        self.scopes.push(Scope::new(repeats, self.stamp));
        self.ir.open_scope();
        let before = self.pipelines.begin_body(repeats);
        body(self);
        let ended = self.pipelines.end_body(before, repeats);
        let stmts = self.ir.close_scope();
        self.scopes.pop();
        if let Err((kind, at)) = ended {
            self.failure.keep(kind, at);
        }
        self.ir.set_location(site);
        stmts
    }
}

/// A loop goes up, and counts in 32 bits.
fn for_ends(start: &Index, end: &Index, step: &Index) -> Result<(), ErrorKind> {
    for index in [start, end, step] {
        if let Some(poison) = index.poison() {
            return Err(poison.kind());
        }
        if narrow_type(index.range()).is_none() {
            let (index, range) = (index.to_string(), index.range());
            return Err(ErrorKind::Wide { index, range });
        }
    }
    let (low, high) = step.range();
    if low < 0 || high < 1 {
        let why = format!("the step {step} lies from {low} to {high}: a loop goes up");
        return Err(ErrorKind::operands("for_", why));
    }
    let largest = counter_end(start.range().0);
    if let Some(behind) = counter_behind([start, end, step]).filter(|behind| *behind > largest) {
        let why = format!(
            "the counter reaches {behind} behind the end {end}, and is a number of 32 bits up to {largest}"
        );
        return Err(ErrorKind::operands("for_", why));
    }
    Ok(())
}

/// The first number of a counter that is not below the end, of constants.
fn counter_behind(ends: [&Index; 3]) -> Option<i64> {
    let [start, end, step] = ends.map(Index::as_constant);
    let (start, end, step) = (start?, end?, step?);
    Some(start + (end - start).max(0).div_euclid(step) * step)
        .map(|last| if last < end { last + step } else { last })
}

/// The largest number of the 32-bit type that a counter from `first` on has.
fn counter_end(first: i64) -> i64 {
    if first < 0 {
        i64::from(i32::MAX)
    } else {
        i64::from(u32::MAX)
    }
}

/// The constant zero as an operand of a class.
pub(crate) fn zero_of(ty: RegType) -> Operand {
    match ty {
        RegType::F32 | RegType::F64 => Operand::Float(0.0),
        _ => Operand::Int(0),
    }
}
