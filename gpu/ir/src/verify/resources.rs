//! The resources of a block: the registers that `setmaxnreg` moves between warpgroups, and the threads that its named
//! barriers wait for.

use std::collections::HashSet;
use std::panic::Location;

use super::diagnostic::Diagnostic;
use super::interval::{Interval, IntervalValues};
use super::problem::Problem;
use super::regset::RegSet;
use super::wgmma;
use crate::rows::{Known, Rows};
use crate::{Control, Kernel, Op, Stmt, Sync, SyncEffect};

/// 32-bit registers of a multiprocessor (CUDA C++ Programming Guide, "Compute capabilities": the same since sm_70).
const REGISTER_FILE: u32 = 1 << 16;

/// The most registers with which the assembler lets a kernel with `setmaxnreg` begin: seen with ptxas 12.9, which gives
/// 248 to blocks of 128 and of 256 threads, and for `.maxnreg 255`.
const MOST_AT_ENTRY: u32 = 248;

/// The granularity of the registers of a thread.
pub const STEP: u32 = 8;

/// The fewest registers that `setmaxnreg` leaves a thread (PTX ISA 9.7.19.5).
pub const LEAST: u32 = 24;

/// Threads of a warpgroup.
const GROUP: u32 = 128;

/// The registers that a thread needs at entry beside those of one `wgmma`. Seen with ptxas 12.9, which refuses a kernel with fewer
/// by C7602, for 4 to 128 accumulators, with A in shared memory and in registers.
pub const BESIDE_WGMMA: u32 = 26;

/// Returns the registers with which a thread of a block begins if `min_blocks` blocks must fit a multiprocessor.
pub fn registers_at_entry(threads: u32, min_blocks: u32) -> u32 {
    let threads = threads.max(1).next_multiple_of(32);
    let share = REGISTER_FILE / threads.saturating_mul(min_blocks.max(1));
    (share / STEP * STEP).clamp(LEAST, MOST_AT_ENTRY)
}

/// Returns the registers with which a thread of a kernel begins, if the kernel says enough for the assembler to know.
pub fn at_entry(kernel: &Kernel) -> Option<u32> {
    match (kernel.max_registers, kernel.block, kernel.min_blocks) {
        (Some(most), ..) => Some(most.min(MOST_AT_ENTRY)),
        (None, Some(block), Some(min_blocks)) => {
            Some(registers_at_entry(threads(block), min_blocks))
        }
        _ => None,
    }
}

fn threads(block: [u32; 3]) -> u32 {
    block.iter().fold(1, |all, &n| all.saturating_mul(n))
}

/// Everything that no block can be given.
pub(super) fn check(kernel: &Kernel, rows: &Rows<'_>) -> Vec<Diagnostic> {
    let mut all = barriers(kernel);
    all.extend(registers(kernel, rows));
    all.extend(products(kernel));
    all
}

/// `wgmma`s that work on more registers than a thread begins with. `setmaxnreg` gives a thread more later, but the assembler counts
/// those at entry.
fn products(kernel: &Kernel) -> Vec<Diagnostic> {
    let Some(entry) = at_entry(kernel) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    kernel.walk(&mut |stmt| {
        if let Some((d, a)) = wgmma::registers(&stmt.op) {
            let own = (d.len() + a.len()) as u32;
            if own + BESIDE_WGMMA > entry {
                all.push(Diagnostic {
                    at: stmt.at,
                    problem: Problem::WgmmaRegisters { own, entry },
                });
            }
        }
    });
    all
}

/// Barriers that wait for more threads than the block has.
fn barriers(kernel: &Kernel) -> Vec<Diagnostic> {
    let Some(block) = kernel.block.map(threads) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    kernel.walk(&mut |stmt| {
        if let Some(SyncEffect::Waits { threads: Some(n) }) = effect(&stmt.op)
            && (32..=1024).contains(&n)
            && n > i64::from(block.next_multiple_of(32))
        {
            all.push(Diagnostic {
                at: stmt.at,
                problem: Problem::BarrierBlock { threads: n, block },
            });
        }
    });
    all
}

/// The effect of an instruction on its threads, if it synchronises any.
fn effect(op: &Op) -> Option<SyncEffect> {
    op.sync().map(Sync::effect)
}

/// One `setmaxnreg` that a warpgroup executes.
#[derive(Clone, Copy, Debug)]
struct Ask {
    increase: bool,
    count: u32,
    at: &'static Location<'static>,
}

/// What warpgroups ask for by `setmaxnreg`, against what their block begins with (PTX ISA 9.7.19.5: a decrease gives
/// registers to a pool of the block, and an increase waits until the pool has enough).
fn registers(kernel: &Kernel, rows: &Rows<'_>) -> Vec<Diagnostic> {
    let mut any = false;
    let mut right = true;
    kernel.walk(&mut |stmt| {
        if let Some(SyncEffect::Registers { count, .. }) = effect(&stmt.op) {
            any = true;
            right &= (LEAST..=256).contains(&count) && count % STEP == 0;
        }
    });
    let (true, Some(entry), Some(block)) = (any && right, at_entry(kernel), kernel.block) else {
        return Vec::new();
    };
    let threads = threads(block);
    if !threads.is_multiple_of(GROUP) || threads > 1024 {
        // The declaration is refused for that.
        return Vec::new();
    }
    let asked: Vec<Vec<Ask>> = (0..threads / GROUP)
        .map(|group| asks(kernel, rows, group))
        .collect();
    let directions = directions(&asked, entry, threads);
    if directions.is_empty() {
        pool(&asked, entry).into_iter().collect()
    } else {
        directions
    }
}

/// Increases to fewer registers than a warpgroup has, and decreases to more.
fn directions(asked: &[Vec<Ask>], entry: u32, threads: u32) -> Vec<Diagnostic> {
    let (mut all, mut known) = (Vec::new(), HashSet::new());
    for asks in asked {
        let mut held = entry;
        for ask in asks {
            let wrong = if ask.increase {
                ask.count < held
            } else {
                ask.count > held
            };
            if wrong && known.insert((ask.at, held)) {
                all.push(Diagnostic {
                    at: ask.at,
                    problem: Problem::SetMaxRegDirection {
                        increase: ask.increase,
                        count: ask.count,
                        held,
                        entry,
                        threads,
                    },
                });
            }
            held = ask.count;
        }
    }
    all
}

/// The finding of a block whose warpgroups wait for registers for ever, in any order of arrival: the registers that
/// they ask for are more than the block has.
fn pool(asked: &[Vec<Ask>], entry: u32) -> Option<Diagnostic> {
    let start = vec![0; asked.len()];
    let (mut open, mut seen) = (vec![start.clone()], HashSet::from([start]));
    let held = |group: usize, done: usize| match done {
        0 => entry,
        _ => asked[group][done - 1].count,
    };
    let all = entry * asked.len() as u32;
    let mut deadlock = None;
    while let Some(done) = open.pop() {
        if (done.iter().zip(asked)).all(|(done, asks)| *done == asks.len()) {
            return None;
        }
        let taken: u32 = done.iter().enumerate().map(|(g, n)| held(g, *n)).sum();
        let mut moves = 0;
        for (group, asks) in asked.iter().enumerate() {
            let Some(ask) = asks.get(done[group]) else {
                continue;
            };
            let after = taken - held(group, done[group]) + ask.count;
            if ask.increase && after > all {
                continue;
            }
            moves += 1;
            let mut next = done.clone();
            next[group] += 1;
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
        if moves == 0 {
            deadlock = Some(done);
        }
        if seen.len() > MOST_STATES {
            return None;
        }
    }
    let done = deadlock?;
    let waiting = |group: usize| asked[group].get(done[group]);
    let at = (0..asked.len()).find_map(waiting)?.at;
    let wanted = (0..asked.len()).map(|group| match waiting(group) {
        Some(ask) => ask.count,
        None => held(group, done[group]),
    });
    Some(Diagnostic {
        at,
        problem: Problem::RegisterPool {
            asked: wanted.collect(),
            entry,
        },
    })
}

/// The most states that the search visits: those of eight with three `setmaxnreg` each.
const MOST_STATES: usize = 1 << 16;

/// The `setmaxnreg`s that a warpgroup certainly executes, in order.
fn asks(kernel: &Kernel, rows: &Rows<'_>, group: u32) -> Vec<Ask> {
    let mut walk = RegisterWalk {
        rows,
        values: IntervalValues::of_threads(kernel, rows, group * GROUP..(group + 1) * GROUP),
        found: Vec::new(),
    };
    walk.block(&kernel.body, true);
    walk.found
}

/// A walk through the kernel as one warpgroup sees it.
struct RegisterWalk<'a> {
    rows: &'a Rows<'a>,
    values: IntervalValues<'a>,
    found: Vec<Ask>,
}

impl<'a> RegisterWalk<'a> {
    /// Walks a block that is certainly or possibly executed; returns whether the warpgroup may continue after it.
    fn block(&mut self, body: &'a [Stmt], certain: bool) -> bool {
        let mut certain = certain;
        let rows = self.rows;
        for known in rows.block(body) {
            match self.stmt(known, certain) {
                Goes::On => {}
                Goes::Perhaps => certain = false,
                Goes::Nowhere => return false,
            }
        }
        true
    }

    fn stmt(&mut self, known: Known<'a>, certain: bool) -> Goes {
        let stmt = known.stmt;
        let guard = match stmt.guard {
            None => Interval::TRUE,
            Some(guard) => self.values.guard(guard),
        };
        if guard == Interval::FALSE {
            return Goes::On;
        }
        let sure = guard == Interval::TRUE;
        match stmt.op.control() {
            Some(Control::If { p, then, other }) => {
                self.branch(self.values.guard(*p), then, other, certain)
            }
            Some(Control::Loop { body }) => {
                self.forget(body);
                self.block(body, certain);
                self.forget(body);
                // A loop that does not end the kernel is left by a `break`, wherever that stands.
                if ends(body) { Goes::Perhaps } else { Goes::On }
            }
            // A trap ends the grid, so what follows is not left to others.
            Some(Control::Trap) if !sure => Goes::On,
            Some(Control::Break | Control::Continue | Control::Exit | Control::Trap) => {
                if sure {
                    Goes::Nowhere
                } else {
                    Goes::Perhaps
                }
            }
            Some(Control::Comment(_)) | None => {
                if let Some(SyncEffect::Registers { increase, count }) = effect(&stmt.op)
                    && certain
                    && sure
                {
                    self.found.push(Ask {
                        increase,
                        count,
                        at: stmt.at,
                    });
                }
                self.values.execute(known, sure);
                Goes::On
            }
        }
    }

    fn branch(&mut self, p: Interval, then: &'a [Stmt], other: &'a [Stmt], certain: bool) -> Goes {
        let one = |walk: &mut Self, body| {
            if walk.block(body, certain) {
                Goes::On
            } else {
                Goes::Nowhere
            }
        };
        if p == Interval::TRUE {
            return one(self, then);
        }
        if p == Interval::FALSE {
            return one(self, other);
        }
        let before = self.values.clone();
        let a = self.block(then, false);
        let after = std::mem::replace(&mut self.values, before);
        let b = self.block(other, false);
        match (a, b) {
            (false, false) => return Goes::Nowhere,
            (true, false) => self.values = after,
            (false, true) => {}
            (true, true) => self.values.join(&after),
        }
        if a && b { Goes::On } else { Goes::Perhaps }
    }

    /// Registers that a loop writes may hold anything while it runs.
    fn forget(&mut self, body: &[Stmt]) {
        let mut written = RegSet::new(self.rows);
        written.add_written(body, self.rows);
        self.values.forget(&written);
    }
}

/// Whether a thread may end inside.
fn ends(body: &[Stmt]) -> bool {
    use Control::{Break, Comment, Continue, Exit, If, Loop, Trap};
    body.iter().any(|stmt| match stmt.op.control() {
        Some(Exit) => true,
        Some(If { .. } | Loop { .. } | Break | Continue | Trap | Comment(_)) | None => {
            stmt.op.blocks().into_iter().any(ends)
        }
    })
}

/// Where a warpgroup goes after a statement.
enum Goes {
    /// To the next one.
    On,
    /// Some of its threads, or none, to the next one.
    Perhaps,
    /// Not to the next one.
    Nowhere,
}
