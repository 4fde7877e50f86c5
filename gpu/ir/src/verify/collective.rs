//! Instructions that threads execute together are reached by all of them.

use std::collections::HashSet;
use std::panic::Location;

use super::diagnostic::Diagnostic;
use super::problem::Problem;
use super::uniform::{Together, Value, Values, WHOLE};
use crate::{Guard, Kernel, Op, Operand, Reg, Stmt};

/// Finds collective instructions that the control flow lets only some of their threads reach.
pub(super) fn check(kernel: &Kernel) -> Vec<Diagnostic> {
    let mut walk = Walk {
        kernel,
        whole: whole(kernel),
        loops: Vec::new(),
        values: Values::default(),
        found: Vec::new(),
        silent: 0,
    };
    walk.block(&kernel.body, Active::everybody());
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

/// Who executes a statement: groups of `2^group` threads, all or none of each.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Active {
    group: u32,
    /// What parts larger groups.
    parted: Option<&'static Location<'static>>,
}

impl Active {
    fn everybody() -> Self {
        Active {
            group: WHOLE,
            parted: None,
        }
    }

    fn under(self, group: u32, at: &'static Location<'static>) -> Self {
        match group < self.group {
            true => Active {
                group,
                parted: Some(at),
            },
            false => self,
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

/// What is known about an open loop.
struct Open {
    /// Who takes part in it, after all that left it early.
    inside: Active,
    /// The registers that are written in it.
    written: Vec<Reg>,
    /// Their values where it is left.
    breaks: Option<Vec<Value>>,
    /// Their values where it is begun again.
    again: Option<Vec<Value>>,
}

struct Walk<'a> {
    kernel: &'a Kernel,
    whole: u32,
    loops: Vec<Open>,
    values: Values,
    found: Vec<Diagnostic>,
    /// Above 0 while a loop is walked to see what it does to values.
    silent: u32,
}

impl Walk<'_> {
    /// Walks a block; the answer is who goes on after it, if anybody does.
    fn block(&mut self, body: &[Stmt], active: Active) -> Option<Active> {
        let mut active = active;
        for stmt in body {
            active = self.stmt(stmt, active)?;
        }
        Some(active)
    }

    fn stmt(&mut self, stmt: &Stmt, active: Active) -> Option<Active> {
        let own = match stmt.guard {
            None => active,
            Some(guard) => active.under(self.group(guard.pred), stmt.at),
        };
        // Others go on where those with the guard leave.
        let others = stmt.guard.map(|_| own);
        match &stmt.op {
            Op::If { p, then, other } => match self.branch(stmt, *p, then, other, own) {
                None => others,
                Some(after) if after == own => Some(active),
                Some(after) => Some(after),
            },
            Op::Loop { body } => {
                self.repeat(body, own);
                // All meet again where the loop ends, but for those that ended for good.
                let gone = exits(body).then(|| own.under(0, stmt.at));
                Some(gone.unwrap_or(active))
            }
            Op::Break | Op::Continue => {
                self.leave(&stmt.op, own);
                others
            }
            Op::Exit | Op::Trap => others,
            _ => {
                self.collective(stmt, own);
                self.values.execute(self.kernel, stmt);
                Some(active)
            }
        }
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
        let written = written([then, other]);
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

    /// Notes who leaves the loop, or this turn of it, and with which values.
    fn leave(&mut self, op: &Op, own: Active) {
        let Some(open) = self.loops.last_mut() else {
            return;
        };
        open.inside = open.inside.and(own);
        let kept = match op {
            Op::Break => &mut open.breaks,
            _ => &mut open.again,
        };
        let values = self.values.snapshot(&open.written);
        match kept {
            None => *kept = Some(values),
            Some(kept) => {
                let joined = kept.iter().zip(values).map(|(a, b)| a.join(b));
                *kept = joined.collect();
            }
        }
    }

    fn repeat(&mut self, body: &[Stmt], own: Active) {
        let written = written([body, &[]]);
        let mut inside = own;
        self.silent += 1;
        // Until nothing changes: what a turn leaves behind is there when the next one begins.
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
    fn turn(&mut self, body: &[Stmt], inside: Active, written: &[Reg]) -> Open {
        self.loops.push(Open {
            inside,
            written: written.to_vec(),
            breaks: None,
            again: None,
        });
        let on = self.block(body, inside);
        if let Some(on) = on {
            self.leave(&Op::Continue, on);
        }
        self.loops.pop().expect("pushed above")
    }

    fn collective(&mut self, stmt: &Stmt, active: Active) {
        let Some(needs) = needs(&stmt.op) else {
            return;
        };
        if self.silent > 0 {
            return;
        }
        let problem = match active.parted {
            Some(parted) if active.group < needs.log2().min(self.whole) => {
                Some(Problem::Divergent {
                    word: stmt.op.word(),
                    needs,
                    parted,
                })
            }
            _ => self.varying(stmt),
        };
        if let Some(problem) = problem {
            let at = stmt.at;
            self.found.push(Diagnostic { at, problem });
        }
    }

    /// Operands that all threads of the group must agree on.
    fn varying(&self, stmt: &Stmt) -> Option<Problem> {
        let (needs, operands): (Together, Vec<Operand>) = match &stmt.op {
            Op::Mma { atom, a, b, .. } if atom.b_in_shared() => {
                let a = a.iter().filter(|_| atom.a_in_shared());
                let all = a.chain(b).map(Operand::from).collect();
                (Together::Warpgroup, all)
            }
            Op::Barrier { id, threads, .. } => {
                (Together::Warp, [*id].into_iter().chain(*threads).collect())
            }
            _ => return None,
        };
        let least = needs.log2().min(self.whole);
        operands.into_iter().find_map(|operand| match operand {
            Operand::Reg(reg) if self.group(reg) < least => Some(Problem::Varying {
                word: stmt.op.word(),
                reg,
                needs,
            }),
            _ => None,
        })
    }
}

/// Who executes an instruction together, if it is collective.
pub(super) fn needs(op: &Op) -> Option<Together> {
    const FULL: Operand = Operand::Int(0xffff_ffff);
    match op {
        Op::Barrier { threads: None, .. } | Op::ClusterArrive { .. } | Op::ClusterWait => {
            Some(Together::Block)
        }
        Op::Barrier { .. } => Some(Together::Warp),
        Op::Shuffle { mask, .. }
        | Op::Vote { mask, .. }
        | Op::Redux { mask, .. }
        | Op::Elect { mask, .. }
        | Op::WarpSync { mask } => (*mask == FULL).then_some(Together::Warp),
        Op::Mma { atom, .. } => group(atom.threads()),
        Op::Copy { atom, .. } => group(atom.threads()),
        Op::WgmmaFence | Op::WgmmaCommit | Op::WgmmaWait { .. } => Some(Together::Warp),
        Op::SetMaxReg { .. } => Some(Together::Warpgroup),
        _ => None,
    }
}

fn group(threads: usize) -> Option<Together> {
    match threads {
        0 | 1 => None,
        2..=32 => Some(Together::Warp),
        _ => Some(Together::Warpgroup),
    }
}

/// Whether a thread may end inside.
fn exits(body: &[Stmt]) -> bool {
    body.iter()
        .any(|stmt| stmt.op == Op::Exit || stmt.op.blocks().into_iter().any(exits))
}

fn written(blocks: [&[Stmt]; 2]) -> Vec<Reg> {
    let mut all = HashSet::new();
    for body in blocks {
        super::assigned::written(body, &mut all);
    }
    all.into_iter().collect()
}
