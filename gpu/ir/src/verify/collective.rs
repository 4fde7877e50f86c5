//! Divergence analysis: all threads of its cohort reach a collective instruction.

use std::panic::Location;

use super::diagnostic::Diagnostic;
use super::problem::Problem;
use super::regset::RegSet;
use super::uniform::{UniformValues, Uniformity, WHOLE};
use crate::rows::{Known, Rows};
use crate::{Control, Guard, Kernel, Operand, Reg, Row, Stmt};

/// Finds collective instructions that divergent control flow lets only some of their threads reach.
pub(super) fn check(kernel: &Kernel, rows: &Rows<'_>) -> Vec<Diagnostic> {
    let mut walk = CollectiveWalk {
        rows,
        whole: whole(kernel),
        loops: Vec::new(),
        values: UniformValues::new(kernel, rows),
        found: Vec::new(),
        silent: 0,
    };
    walk.block(&kernel.body, Active::all_threads());
    walk.found
}

/// The binary logarithm of the threads that hold the whole block, if it is known to be that small.
fn whole(kernel: &Kernel) -> u32 {
    let threads: Option<u64> = kernel
        .block
        .map(|block| block.iter().map(|&n| u64::from(n)).product());
    threads.map_or(WHOLE, |threads| {
        threads.next_power_of_two().trailing_zeros()
    })
}

/// The threads that execute a statement: of each group of `2^group` threads, all or none.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Active {
    group: u32,
    /// The branch that divides larger groups.
    parted: Option<&'static Location<'static>>,
}

impl Active {
    fn all_threads() -> Self {
        Active {
            group: WHOLE,
            parted: None,
        }
    }

    fn under(self, group: u32, at: &'static Location<'static>) -> Self {
        if group < self.group {
            Active {
                group,
                parted: Some(at),
            }
        } else {
            self
        }
    }

    fn and(self, other: Active) -> Self {
        if other.group < self.group {
            other
        } else {
            self
        }
    }
}

/// The state of an open loop.
struct CollectiveLoop {
    /// The threads that take part in it, without those that left it early.
    inside: Active,
    /// The numbers of the registers that are written in it.
    written: Vec<usize>,
    /// Their values where it is left.
    breaks: Option<Vec<Uniformity>>,
    /// Their values where it is begun again.
    again: Option<Vec<Uniformity>>,
}

struct CollectiveWalk<'a> {
    rows: &'a Rows<'a>,
    whole: u32,
    loops: Vec<CollectiveLoop>,
    values: UniformValues<'a>,
    found: Vec<Diagnostic>,
    /// Above 0 while the fixpoint of a loop is computed: findings are reported only in the last walk.
    silent: u32,
}

impl CollectiveWalk<'_> {
    /// Walks a block; returns the threads that continue after it, or `None` if none does.
    fn block(&mut self, body: &[Stmt], active: Active) -> Option<Active> {
        let mut active = active;
        let rows = self.rows;
        for known in rows.block(body) {
            active = self.stmt(known, active)?;
        }
        Some(active)
    }

    fn stmt(&mut self, known: Known<'_>, active: Active) -> Option<Active> {
        let stmt = known.stmt;
        let own = match stmt.guard {
            None => active,
            Some(guard) => active.under(self.group(guard.pred), stmt.at),
        };
        // The threads without the guard continue where those with it leave.
        let others = stmt.guard.map(|_| own);
        match stmt.op.control() {
            Some(Control::If { p, then, other }) => match self.branch(stmt, *p, then, other, own) {
                None => others,
                Some(after) if after == own => Some(active),
                Some(after) => Some(after),
            },
            Some(Control::Loop { body }) => {
                self.repeat(body, own);
                // All threads reconverge at the end of the loop, except those that have exited.
                let gone = exits(body).then(|| own.under(0, stmt.at));
                Some(gone.unwrap_or(active))
            }
            Some(Control::Break) => {
                self.leave(own, |open| &mut open.breaks);
                others
            }
            Some(Control::Continue) => {
                self.leave(own, |open| &mut open.again);
                others
            }
            Some(Control::Exit) => others,
            // A trap ends the grid, so the threads that go on do so together.
            Some(Control::Trap) => stmt.guard.map(|_| active),
            Some(Control::Comment(_)) | None => {
                self.collective(known, own);
                self.values.execute(known);
                Some(active)
            }
        }
    }

    fn written(&self, blocks: [&[Stmt]; 2]) -> Vec<usize> {
        let mut all = RegSet::new(self.rows);
        for body in blocks {
            all.add_written(body, self.rows);
        }
        all.numbers().collect()
    }

    fn group(&self, reg: Reg) -> u32 {
        self.values.of(reg).group()
    }

    fn branch(
        &mut self,
        stmt: &Stmt,
        p: Guard,
        then: &[Stmt],
        other: &[Stmt],
        own: Active,
    ) -> Option<Active> {
        let parted = self.group(p.pred);
        let inside = own.under(parted, stmt.at);
        let written = self.written([then, other]);
        let before = self.values.snapshot(&written);
        let a = self.block(then, inside);
        let after_then = self.values.snapshot(&written);
        self.values.restore(&written, &before);
        let b = self.block(other, inside);
        match (a, b) {
            (None, None) => return None,
            (Some(_), None) => self.values.restore(&written, &after_then),
            (None, Some(_)) => {}
            (Some(_), Some(_)) => {
                self.values.join(&written, &after_then);
                self.values.part(&written, parted);
            }
        }
        match (a, b) {
            (Some(a), Some(b)) if a == inside && b == inside => Some(own),
            (a, b) => a.into_iter().chain(b).reduce(Active::and),
        }
    }

    /// Records the threads that leave the loop, or this iteration of it, and their values.
    fn leave(
        &mut self,
        own: Active,
        kept: impl FnOnce(&mut CollectiveLoop) -> &mut Option<Vec<Uniformity>>,
    ) {
        let Some(open) = self.loops.last_mut() else {
            return;
        };
        open.inside = open.inside.and(own);
        let values = self.values.snapshot(&open.written);
        let kept = kept(open);
        match kept {
            None => *kept = Some(values),
            Some(kept) => {
                let joined = kept.iter().zip(values).map(|(a, b)| a.join(b));
                *kept = joined.collect();
            }
        }
    }

    fn repeat(&mut self, body: &[Stmt], own: Active) {
        let written = self.written([body, &[]]);
        let mut inside = own;
        self.silent += 1;
        // A fixpoint: the values at the end of one iteration are those at the beginning of the next. It ends since
        // values only become less uniform, and each has finitely many levels.
        loop {
            let before = self.values.snapshot(&written);
            let open = self.turn(body, inside, &written);
            self.values.restore(&written, &before);
            if let Some(again) = &open.again {
                self.values.join(&written, again);
            }
            self.values.part(&written, open.inside.group);
            let settled = self.values.snapshot(&written) == before && open.inside == inside;
            inside = open.inside;
            if settled {
                break;
            }
        }
        self.silent -= 1;
        let open = self.turn(body, inside, &written);
        if let Some(values) = open.breaks.or(open.again) {
            self.values.restore(&written, &values);
        }
        self.values.part(&written, open.inside.group);
    }

    /// One turn of a loop.
    fn turn(&mut self, body: &[Stmt], inside: Active, written: &[usize]) -> CollectiveLoop {
        self.loops.push(CollectiveLoop {
            inside,
            written: written.to_vec(),
            breaks: None,
            again: None,
        });
        let on = self.block(body, inside);
        if let Some(on) = on {
            self.leave(on, |open| &mut open.again);
        }
        self.loops.pop().expect("pushed above")
    }

    fn collective(&mut self, Known { stmt, row, .. }: Known<'_>, active: Active) {
        let Some(needs) = row.cohort else {
            return;
        };
        if self.silent > 0 {
            return;
        }
        let problem = match active.parted {
            Some(parted) if active.group < needs.log2().min(self.whole) => {
                Some(Problem::Divergent {
                    mnemonic: stmt.op.mnemonic(),
                    needs,
                    parted,
                })
            }
            _ => self.varying(row),
        };
        if let Some(problem) = problem {
            let at = stmt.at;
            self.found.push(Diagnostic { at, problem });
        }
    }

    /// Operands that all threads of the group must agree on.
    fn varying(&self, row: &Row<'_>) -> Option<Problem> {
        let (needs, operands) = row.same.as_ref()?;
        let least = needs.log2().min(self.whole);
        let regs = operands.iter().copied().filter_map(Operand::reg);
        let mut varying = regs.filter(|reg| self.group(*reg) < least);
        varying.next().map(|reg| Problem::Varying {
            mnemonic: row.mnemonic.to_string(),
            reg,
            needs: *needs,
        })
    }
}

/// Whether a thread may end inside.
fn exits(body: &[Stmt]) -> bool {
    use Control::{Break, Comment, Continue, Exit, If, Loop, Trap};
    body.iter().any(|stmt| match stmt.op.control() {
        Some(Exit) => true,
        Some(If { .. } | Loop { .. } | Break | Continue | Trap | Comment(_)) | None => {
            stmt.op.blocks().into_iter().any(exits)
        }
    })
}
