//! Registers of asynchronous matrix instructions: `wgmma.fence` hands them over, and `wgmma.wait_group` returns them
//! (PTX ISA 9.7.15.7).

use std::collections::{BTreeMap, HashSet};
use std::panic::Location;

use super::diagnostic::Diagnostic;
use super::problem::Problem;
use super::regset::RegSet;
use crate::rows::{Known, Rows};
use crate::{Async, Atom, Control, Op, Reg, Stmt};

/// More groups than this are never told apart.
const GROUPS: usize = 8;

/// Finds accumulators and registers of A that are accessed while a `wgmma` is in flight, or passed to one without a
/// fence.
pub(super) fn check(body: &[Stmt], rows: &Rows<'_>) -> Vec<Diagnostic> {
    let mut walk = WgmmaWalk {
        rows,
        handed: RegSet::new(rows),
        found: Vec::new(),
        reported: HashSet::new(),
        loops: Vec::new(),
    };
    each(body, &mut |stmt| {
        if let Some((d, a)) = registers(&stmt.op) {
            for reg in d.iter().chain(a) {
                walk.handed.insert(rows.number_of(*reg));
            }
        }
    });
    if !walk.handed.is_empty() {
        let end = walk.block(body, WgmmaState::new(rows));
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
pub(super) fn registers(op: &Op) -> Option<(&[Reg], &[Reg])> {
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
#[derive(Clone, Debug, PartialEq)]
struct WgmmaState {
    fenced: bool,
    /// Registers touched since the last fence.
    touched: RegSet,
    /// Issued and not committed.
    open: Group,
    /// Committed groups, newest first.
    committed: Vec<Group>,
}

impl WgmmaState {
    fn new(rows: &Rows<'_>) -> Self {
        WgmmaState {
            fenced: false,
            touched: RegSet::new(rows),
            open: Group::new(),
            committed: Vec::new(),
        }
    }

    fn join(&mut self, other: &WgmmaState) {
        self.fenced &= other.fenced;
        self.touched.unite(&other.touched);
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
    handed: RegSet,
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
        let rows = self.rows;
        for known in rows.block(body) {
            state = self.stmt(known, state)?;
        }
        Some(state)
    }

    fn stmt(&mut self, known: Known<'_>, mut state: WgmmaState) -> Option<WgmmaState> {
        let stmt = known.stmt;
        if let Some(Control::Trap | Control::Comment(_)) | None = stmt.op.control() {
            self.plain(known, &mut state);
            return Some(state);
        }
        let before = stmt.guard.map(|_| state.clone());
        let after = match stmt.op.control() {
            Some(Control::If { then, other, .. }) => {
                self.touch(known, &mut state);
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
            Some(Control::Trap | Control::Comment(_)) | None => Some(state),
        };
        match (after, before) {
            (Some(mut after), Some(before)) => {
                after.join(&before);
                Some(after)
            }
            (after, before) => after.or(before),
        }
    }

    fn plain(&mut self, known: Known<'_>, state: &mut WgmmaState) {
        let stmt = known.stmt;
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
            | Op::Control(_) => self.touch(known, state),
            Op::Atom(Atom::Mma { .. } | Atom::Copy { .. }) => match registers(&stmt.op) {
                Some((d, a)) => self.issue(stmt, d, a, state),
                None => self.touch(known, state),
            },
        }
    }

    fn issue(&mut self, stmt: &Stmt, d: &[Reg], a: &[Reg], state: &mut WgmmaState) {
        let is_touched = |reg: &&Reg| state.touched.contains(self.rows.number_of(**reg));
        let touched = d.iter().chain(a).find(is_touched);
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
    fn touch(&mut self, known: Known<'_>, state: &mut WgmmaState) {
        let reads = known.reads.iter().map(|reg| (*reg, false));
        let writes = known.defs.iter().map(|reg| (*reg, true));
        for (reg, written) in reads.chain(writes) {
            let number = self.rows.number_of(reg);
            if !self.handed.contains(number) {
                continue;
            }
            state.touched.insert(number);
            if let Some(used) = state.busy(reg, written) {
                let issued = used.issued;
                self.report(known.stmt, reg, |mnemonic| Problem::WgmmaInFlight {
                    mnemonic,
                    regs: vec![reg],
                    issued,
                });
            }
        }
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
