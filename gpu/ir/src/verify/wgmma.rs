//! Registers of asynchronous matrix instructions: `wgmma.fence` hands them over, and `wgmma.wait_group` returns them
//! (PTX ISA 9.7.15.7).

use std::collections::{BTreeMap, HashSet};
use std::panic::Location;

use super::diagnostic::Diagnostic;
use super::problem::Problem;
use super::rows::{Regs, Rows};
use crate::{Async, Atom, Control, Op, Reg, Stmt};

/// More groups than this are never told apart.
const GROUPS: usize = 8;

/// Finds accumulators and registers of A that are accessed while a `wgmma` is in flight, or passed to one without a
/// fence.
pub(super) fn check(body: &[Stmt], rows: &Rows<'_>) -> Vec<Diagnostic> {
    let mut walk = WgmmaWalk {
        rows,
        handed: Regs::default(),
        found: Vec::new(),
        reported: HashSet::new(),
        loops: Vec::new(),
    };
    each(body, &mut |stmt| {
        if let Some((d, a)) = product(&stmt.op) {
            walk.handed.extend(d.iter().chain(a));
        }
    });
    if !walk.handed.is_empty() {
        let end = walk.block(body, WgmmaState::default());
        walk.end(end);
    }
    walk.found
}

fn each(body: &[Stmt], visit: &mut dyn FnMut(&Stmt)) {
    for stmt in body {
        visit(stmt);
        stmt.op
            .blocks()
            .into_iter()
            .for_each(|inner| each(inner, visit));
    }
}

/// The registers that a `wgmma` works on: D, and A where it is in registers.
fn product(op: &Op) -> Option<(&[Reg], &[Reg])> {
    match op.atom() {
        Some(Atom::Mma { atom, d, a, .. }) if atom.b_in_shared() => {
            Some((d, if atom.a_in_shared() { &[] } else { a }))
        }
        Some(Atom::Mma { .. } | Atom::Copy { .. }) | None => None,
    }
}

/// A register that a `wgmma` works on: where it was issued, and whether it writes it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Use {
    issued: &'static Location<'static>,
    writes: bool,
}

type Group = BTreeMap<Reg, Use>;

/// The products in flight at a point.
#[derive(Clone, Debug, Default, PartialEq)]
struct WgmmaState {
    fenced: bool,
    /// Registers touched since the last fence.
    touched: Regs,
    /// Issued and not committed.
    open: Group,
    /// Committed groups, newest first.
    committed: Vec<Group>,
}

impl WgmmaState {
    fn join(&mut self, other: &WgmmaState) {
        self.fenced &= other.fenced;
        self.touched.extend(&other.touched);
        self.open.extend(&other.open);
        for (i, group) in other.committed.iter().enumerate() {
            match self.committed.get_mut(i) {
                Some(own) => own.extend(group),
                None => self.committed.push(group.clone()),
            }
        }
    }

    fn commit(&mut self) {
        self.committed.insert(0, std::mem::take(&mut self.open));
        if self.committed.len() > GROUPS {
            let oldest = self.committed.split_off(GROUPS);
            let last = &mut self.committed[GROUPS - 1];
            oldest.into_iter().for_each(|group| last.extend(group));
        }
    }

    /// The `wgmma` that works on a register, if one does.
    fn busy(&self, reg: Reg, writes: bool) -> Option<Use> {
        let groups = self.committed.iter().chain([&self.open]);
        let mut uses = groups.filter_map(|group| group.get(&reg));
        uses.find(|used| used.writes || writes).copied()
    }
}

/// The states where a loop is left, and where it is begun again.
#[derive(Default)]
struct WgmmaLoop {
    breaks: Option<WgmmaState>,
    again: Option<WgmmaState>,
}

struct WgmmaWalk<'a> {
    rows: &'a Rows<'a>,
    /// The registers that any `wgmma` works on; no others matter.
    handed: Regs,
    found: Vec<Diagnostic>,
    reported: HashSet<(&'static Location<'static>, Reg)>,
    loops: Vec<WgmmaLoop>,
}

fn merge(into: &mut Option<WgmmaState>, state: WgmmaState) {
    match into {
        None => *into = Some(state),
        Some(own) => own.join(&state),
    }
}

impl WgmmaWalk<'_> {
    fn block(&mut self, body: &[Stmt], state: WgmmaState) -> Option<WgmmaState> {
        let mut state = state;
        for stmt in body {
            state = self.stmt(stmt, state)?;
        }
        Some(state)
    }

    fn stmt(&mut self, stmt: &Stmt, mut state: WgmmaState) -> Option<WgmmaState> {
        let before = stmt.guard.map(|_| state.clone());
        let after = match stmt.op.control() {
            Some(Control::If { then, other, .. }) => {
                self.touch(stmt, &mut state);
                let mut after = self.block(then, state.clone());
                if let Some(other) = self.block(other, state) {
                    merge(&mut after, other);
                }
                after
            }
            Some(Control::Loop { body }) => self.repeat(body, state),
            Some(Control::Break) => {
                if let Some(open) = self.loops.last_mut() {
                    merge(&mut open.breaks, state);
                }
                None
            }
            Some(Control::Continue) => {
                if let Some(open) = self.loops.last_mut() {
                    merge(&mut open.again, state);
                }
                None
            }
            Some(Control::Exit) => {
                self.end(Some(state));
                None
            }
            Some(Control::Trap | Control::Comment(_)) | None => {
                self.plain(stmt, &mut state);
                return Some(state);
            }
        };
        match (after, before) {
            (Some(mut after), Some(before)) => {
                after.join(&before);
                Some(after)
            }
            (after, before) => after.or(before),
        }
    }

    fn plain(&mut self, stmt: &Stmt, state: &mut WgmmaState) {
        match &stmt.op {
            Op::Async(Async::WgmmaFence) => {
                state.fenced = true;
                state.touched.clear();
            }
            Op::Async(Async::WgmmaCommit) => state.commit(),
            Op::Async(Async::WgmmaWait { pending }) => {
                state.committed.truncate(*pending as usize);
            }
            Op::Async(
                Async::CpAsyncArrive { .. }
                | Async::CpAsyncCommit
                | Async::CpAsyncWait { .. }
                | Async::BulkCommit
                | Async::BulkWait { .. },
            )
            | Op::Alu(_)
            | Op::Memory(_)
            | Op::Exchange(_)
            | Op::Sync(_)
            | Op::Control(_) => self.touch(stmt, state),
            Op::Atom(Atom::Mma { .. } | Atom::Copy { .. }) => match product(&stmt.op) {
                Some((d, a)) => self.issue(stmt, d, a, state),
                None => self.touch(stmt, state),
            },
        }
    }

    fn issue(&mut self, stmt: &Stmt, d: &[Reg], a: &[Reg], state: &mut WgmmaState) {
        let touched = d.iter().chain(a).find(|reg| state.touched.contains(reg));
        if !state.fenced || touched.is_some() {
            let reg = touched.copied().filter(|_| state.fenced);
            let first = d.iter().chain(a).next().copied();
            if let Some(first) = first {
                self.report(stmt, first, |mnemonic| Problem::WgmmaFence {
                    mnemonic,
                    reg,
                });
            }
        }
        for (regs, writes) in [(a, false), (d, true)] {
            let issued = stmt.at;
            state
                .open
                .extend(regs.iter().map(|reg| (*reg, Use { issued, writes })));
        }
    }

    /// An instruction that is not a `wgmma` reads and writes registers.
    fn touch(&mut self, stmt: &Stmt, state: &mut WgmmaState) {
        let rows = self.rows;
        let writes = || rows.defs(&stmt.op).iter().map(|reg| (*reg, true));
        let all = || rows.reads(stmt).map(|reg| (reg, false)).chain(writes());
        for (reg, written) in all() {
            if let Some(used) = state.busy(reg, written) {
                let issued = used.issued;
                self.report(stmt, reg, |mnemonic| Problem::WgmmaInFlight {
                    mnemonic,
                    regs: vec![reg],
                    issued,
                });
            }
        }
        let handed = all().map(|(reg, _)| reg);
        let handed = handed.filter(|reg| self.handed.contains(reg));
        state.touched.extend(handed);
    }

    fn report(&mut self, stmt: &Stmt, reg: Reg, problem: impl FnOnce(String) -> Problem) {
        if self.reported.insert((stmt.at, reg)) {
            self.found.push(Diagnostic {
                at: stmt.at,
                problem: problem(stmt.op.mnemonic()),
            });
        }
    }

    fn repeat(&mut self, body: &[Stmt], state: WgmmaState) -> Option<WgmmaState> {
        let mut state = state;
        loop {
            let found = self.found.len();
            self.loops.push(WgmmaLoop::default());
            let on = self.block(body, state.clone());
            let mut open = self.loops.pop().expect("pushed above");
            if let Some(on) = on {
                merge(&mut open.again, on);
            }
            let mut next = state.clone();
            if let Some(again) = &open.again {
                next.join(again);
            }
            if next == state {
                return open.breaks;
            }
            // Findings are reported only in the last iteration of the fixpoint, which has seen every path into the
            // loop.
            for diagnostic in self.found.split_off(found) {
                self.reported.retain(|(at, _)| *at != diagnostic.at);
            }
            state = next;
        }
    }

    fn end(&mut self, state: Option<WgmmaState>) {
        let Some(state) = state else { return };
        let groups = state.committed.iter().chain([&state.open]);
        let first = groups.flat_map(Group::iter).find(|(_, used)| used.writes);
        if let Some((reg, used)) = first
            && self.reported.insert((used.issued, *reg))
        {
            self.found.push(Diagnostic {
                at: used.issued,
                problem: Problem::WgmmaUnwaited {
                    mnemonic: "wgmma".into(),
                },
            });
        }
    }
}
