//! Definite assignment: on every path of the control flow, each register is written before it is read.

use std::collections::{HashMap, HashSet};

use super::diagnostic::Diagnostic;
use super::problem::Problem;
use super::regset::RegSet;
use super::rows::{Regs, Rows};
use crate::{Atom, Control, Guard, Reg, RegType, ScaleD, Stmt};

/// Finds the registers that are read on a path on which no instruction wrote them; each is reported once.
pub(super) fn check(body: &[Stmt], rows: &Rows<'_>) -> Vec<Diagnostic> {
    let mut walk = AssignmentWalk {
        rows,
        found: Vec::new(),
        reported: HashSet::new(),
        left: Vec::new(),
    };
    walk.block(body, AssignmentState::default());
    walk.found
}

/// The registers written at a point; `None` if the point is unreachable. Unreachable is the neutral element of `meet`.
type Reached = Option<AssignmentState>;

#[derive(Clone, Default)]
struct AssignmentState {
    written: RegSet,
    /// Registers written only by the threads in which a guard holds.
    where_: HashMap<Reg, HashSet<Guard>>,
    /// The guards that hold here, from the enclosing branches.
    holds: HashSet<Guard>,
}

impl AssignmentState {
    fn write(&mut self, reg: Reg, guard: Option<Guard>) {
        // A new predicate says nothing about what the old one guarded.
        if reg.ty == RegType::Pred {
            let others = |guard: &Guard| guard.pred != reg;
            self.where_
                .values_mut()
                .for_each(|guards| guards.retain(others));
            self.holds.retain(others);
        }
        let Some(guard) = guard.filter(|guard| !self.holds.contains(guard)) else {
            self.written.insert(reg);
            return;
        };
        let guards = self.where_.entry(reg).or_default();
        guards.insert(guard);
        // A write under `p` and a write under `!p` reach every thread.
        if guards.contains(&guard.negated()) {
            self.written.insert(reg);
        }
    }

    fn has(&self, reg: Reg, guard: Option<Guard>) -> bool {
        let known = |guards: &HashSet<Guard>| {
            guard.is_some_and(|guard| guards.contains(&guard)) || !guards.is_disjoint(&self.holds)
        };
        self.written.contains(reg) || self.where_.get(&reg).is_some_and(known)
    }

    /// Returns what is written on both of two paths.
    fn meet(mut self, other: &AssignmentState) -> AssignmentState {
        self.written.intersect(&other.written);
        let written = std::mem::take(&mut self.written);
        self.where_ = (self.where_.into_iter())
            // A register that is written on both paths needs no guard any more.
            .filter(|(reg, _)| !written.contains(*reg))
            .filter_map(|(reg, mut guards)| {
                let others = other.where_.get(&reg);
                guards.retain(|guard| {
                    other.written.contains(reg) || others.is_some_and(|o| o.contains(guard))
                });
                (!guards.is_empty()).then_some((reg, guards))
            })
            .collect();
        self.written = written;
        self.holds.retain(|guard| other.holds.contains(guard));
        self
    }
}

fn meet(a: Reached, b: Reached) -> Reached {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.meet(&b)),
        (a, b) => a.or(b),
    }
}

struct AssignmentWalk<'a> {
    rows: &'a Rows<'a>,
    found: Vec<Diagnostic>,
    reported: HashSet<Reg>,
    /// The registers written at the exits of the open loops.
    left: Vec<Reached>,
}

impl AssignmentWalk<'_> {
    fn block(&mut self, body: &[Stmt], state: AssignmentState) -> Reached {
        let mut state = state;
        for stmt in body {
            state = self.stmt(stmt, state)?;
        }
        Some(state)
    }

    fn stmt(&mut self, stmt: &Stmt, mut state: AssignmentState) -> Reached {
        self.reads(stmt, &state);
        let after = match stmt.op.control() {
            Some(Control::If { p, then, other }) => self.branch(*p, then, other, state.clone()),
            Some(Control::Loop { body }) => self.repeat(body, state.clone()),
            Some(Control::Break) => {
                let left = self.left.pop();
                let left = left.map(|left| meet(left, Some(state.clone())));
                self.left.extend(left);
                None
            }
            Some(Control::Continue | Control::Exit | Control::Trap) => None,
            Some(Control::Comment(_)) | None => {
                for &reg in self.rows.defs(&stmt.op) {
                    state.write(reg, stmt.guard);
                }
                return Some(state);
            }
        };
        // A guarded statement may not execute: in threads without the guard nothing changed, so both paths meet here.
        if stmt.guard.is_some() {
            meet(after, Some(state))
        } else {
            after
        }
    }

    fn reads(&mut self, stmt: &Stmt, state: &AssignmentState) {
        for reg in read(stmt, self.rows) {
            let guard = stmt.guard.filter(|guard| guard.pred != reg);
            if !state.has(reg, guard) && self.reported.insert(reg) {
                self.found.push(Diagnostic {
                    at: stmt.at,
                    problem: Problem::Unwritten {
                        mnemonic: stmt.op.mnemonic(),
                        regs: vec![reg],
                    },
                });
            }
        }
    }

    fn branch(
        &mut self,
        p: Guard,
        then: &[Stmt],
        other: &[Stmt],
        state: AssignmentState,
    ) -> Reached {
        let under = |guard: Guard| {
            let mut state = state.clone();
            state.holds.insert(guard);
            state
        };
        let a = self.block(then, under(p));
        let b = self.block(other, under(p.negated()));
        let a = known_under(a, p, &state);
        let b = known_under(b, p.negated(), &state);
        meet(a, b)
    }

    fn repeat(&mut self, body: &[Stmt], state: AssignmentState) -> Reached {
        // A later iteration begins with predicates that an earlier one has written: facts about them do not hold in the
        // body. Registers need no fixpoint: what is written before the loop stays written, and the first iteration is
        // the one with the fewest writes.
        let mut state = state;
        let mut predicates = Regs::default();
        written(body, self.rows, &mut predicates);
        state
            .holds
            .retain(|guard| !predicates.contains(&guard.pred));
        for guards in state.where_.values_mut() {
            guards.retain(|guard| !predicates.contains(&guard.pred));
        }
        self.left.push(None);
        self.block(body, state);
        self.left.pop().flatten()
    }
}

/// After a branch, what was written in it is written where its condition held.
fn known_under(state: Reached, p: Guard, before: &AssignmentState) -> Reached {
    state.map(|mut state| {
        if state.holds.contains(&p) {
            for reg in state.written.difference(&before.written) {
                state.where_.entry(reg).or_default().insert(p);
            }
        }
        state.holds.remove(&p);
        state
    })
}

/// Every register that the statements write, at any depth.
pub(super) fn written(body: &[Stmt], rows: &Rows<'_>, into: &mut Regs) {
    for stmt in body {
        into.extend(rows.defs(&stmt.op));
        stmt.op
            .blocks()
            .into_iter()
            .for_each(|inner| written(inner, rows, into));
    }
}

/// The registers that are certainly read. A `wgmma` with a predicated `scale-d` reads D only if the predicate holds.
fn read(stmt: &Stmt, rows: &Rows<'_>) -> Vec<Reg> {
    let all = rows.reads(stmt);
    match stmt.op.atom() {
        Some(Atom::Mma {
            d,
            a,
            scale_d: ScaleD::Pred(_),
            ..
        }) => all
            .filter(|reg| a.contains(reg) || !d.contains(reg))
            .collect(),
        Some(Atom::Mma { .. } | Atom::Copy { .. }) | None => all.collect(),
    }
}
