//! Definite assignment: on every path of the control flow, each register is written before it is read.

use std::collections::HashSet;

use super::diagnostic::Diagnostic;
use super::problem::Problem;
use super::regset::RegSet;
use crate::rows::{Known, NumberMap, Rows};
use crate::{Atom, Control, Guard, Reg, RegType, ScaleD, Stmt};

/// Finds the registers that are read on a path on which no instruction wrote them; each is reported once.
pub(super) fn check(body: &[Stmt], rows: &Rows<'_>) -> Vec<Diagnostic> {
    let mut walk = AssignmentWalk {
        rows,
        found: Vec::new(),
        reported: HashSet::new(),
        left: Vec::new(),
    };
    walk.block(body, AssignmentState::new(rows));
    walk.found
}

/// The registers written at a point; `None` if the point is unreachable. Unreachable is the neutral element of `meet`.
type Reached = Option<AssignmentState>;

#[derive(Clone)]
struct AssignmentState {
    written: RegSet,
    /// Registers written only by the threads in which a guard holds, by their numbers.
    where_: NumberMap<usize, Vec<Guard>>,
    /// The guards that hold here, from the enclosing branches.
    holds: Vec<Guard>,
    /// The predicates of these guards, and some that no guard has any more.
    guards: RegSet,
}

/// Adds a guard to those that are different from it.
fn add(guards: &mut Vec<Guard>, guard: Guard) {
    if !guards.contains(&guard) {
        guards.push(guard);
    }
}

impl AssignmentState {
    fn new(rows: &Rows<'_>) -> Self {
        AssignmentState {
            written: RegSet::new(rows),
            where_: NumberMap::default(),
            holds: Vec::new(),
            guards: RegSet::new(rows),
        }
    }

    fn write(&mut self, rows: &Rows<'_>, reg: Reg, guard: Option<Guard>) {
        let number = rows.number_of(reg);
        // A new predicate says nothing about what the old one guarded.
        if reg.ty == RegType::Pred && self.guards.contains(number) {
            let others = |guard: &Guard| guard.pred != reg;
            self.where_
                .values_mut()
                .for_each(|guards| guards.retain(others));
            self.holds.retain(others);
        }
        let Some(guard) = guard.filter(|guard| !self.holds.contains(guard)) else {
            self.written.insert(number);
            return;
        };
        self.guards.insert(rows.number_of(guard.pred));
        let guards = self.where_.entry(number).or_default();
        add(guards, guard);
        // A write under `p` and a write under `!p` reach every thread.
        if guards.contains(&guard.negated()) {
            self.written.insert(number);
        }
    }

    fn has(&self, number: usize, guard: Option<Guard>) -> bool {
        let holds = |known: &Guard| guard == Some(*known) || self.holds.contains(known);
        let known = |guards: &Vec<Guard>| guards.iter().any(holds);
        self.written.contains(number) || self.where_.get(&number).is_some_and(known)
    }

    /// Returns what is written on both of two paths.
    fn meet(mut self, other: &AssignmentState) -> AssignmentState {
        self.written.intersect(&other.written);
        self.guards.unite(&other.guards);
        let written = &self.written;
        self.where_.retain(|reg, guards| {
            // A register that is written on both paths needs no guard any more.
            if written.contains(*reg) {
                return false;
            }
            let others = other.where_.get(reg);
            guards.retain(|guard| {
                other.written.contains(*reg) || others.is_some_and(|o| o.contains(guard))
            });
            !guards.is_empty()
        });
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
        let rows = self.rows;
        for known in rows.block(body) {
            state = self.stmt(known, state)?;
        }
        Some(state)
    }

    fn stmt(&mut self, known: Known<'_>, mut state: AssignmentState) -> Reached {
        let stmt = known.stmt;
        self.reads(known, &state);
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
                for &reg in known.defs {
                    state.write(self.rows, reg, stmt.guard);
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

    fn reads(&mut self, known: Known<'_>, state: &AssignmentState) {
        let stmt = known.stmt;
        for &reg in known.reads {
            let guard = stmt.guard.filter(|guard| guard.pred != reg);
            let has = state.has(self.rows.number_of(reg), guard);
            if !has && is_read(stmt, reg) && self.reported.insert(reg) {
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
            state.guards.insert(self.rows.number_of(guard.pred));
            add(&mut state.holds, guard);
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
        let mut predicates = RegSet::new(self.rows);
        predicates.add_written(body, self.rows);
        let stays = |guard: &Guard| !predicates.contains(self.rows.number_of(guard.pred));
        state.holds.retain(stays);
        for guards in state.where_.values_mut() {
            guards.retain(stays);
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
                add(state.where_.entry(reg).or_default(), p);
            }
        }
        state.holds.retain(|guard| *guard != p);
        state
    })
}

/// Whether a register among those that a statement names as read is certainly read. A `wgmma` with a predicated `scale-d` reads
/// D only if the predicate holds.
fn is_read(stmt: &Stmt, reg: Reg) -> bool {
    match stmt.op.atom() {
        Some(Atom::Mma {
            d,
            a,
            scale_d: ScaleD::Pred(_),
            ..
        }) => a.contains(&reg) || !d.contains(&reg),
        Some(Atom::Mma { .. } | Atom::Copy { .. }) | None => true,
    }
}
