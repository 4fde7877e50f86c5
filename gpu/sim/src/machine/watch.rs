//! What looks at warps while they run: a trace of threads, and the stepping of one warp.

use std::panic::Location;

use super::Machine;
use super::exec::Exec;
use crate::lane::bits::lanes;
use crate::report::fault::Fault;
use crate::report::show::typed;
use crate::report::trace::{Trace, TraceOptions, Traced};
use crate::state::program::{Program, Step};
use crate::state::warp::Warp;
use colex_ir::{Address, Base, Operand, Reg, RegType, Stmt, Sync, SyncEffect, Type};

/// Where a warp that is stepped stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// Before its next statement.
    Statement,
    /// Before its next statement of another source line.
    NewLine,
    /// Before its next statement of a source line: a file whose path ends so, and the line.
    Line(String, u32),
    /// Before its next barrier or wait.
    Barrier,
    /// When the launch has ended.
    End,
}

/// What looks at warps.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) trace: Option<(TraceOptions, Trace)>,
    /// The block and the warp that are stepped.
    pub(crate) stepped: ([u32; 3], u32),
    /// Where it stops, if one is stepped.
    pub(crate) until: Option<Until>,
    /// The statement before which it stopped, and whether it may stop at the next one: it goes on from where it stopped.
    pub(crate) from: Option<&'static Location<'static>>,
    pub(crate) moved: bool,
    pub(crate) stopped: bool,
}

/// The entries of a trace that one instruction made: the place in the list and the lane of each.
struct Listed<'k> {
    stmt: &'k Stmt,
    entries: Vec<(usize, usize)>,
    seen: usize,
}

/// The bits of a register in one lane, if it was written there; predicates too.
pub(crate) fn register(program: &Program<'_>, warp: &Warp, reg: Reg, lane: usize) -> Option<u64> {
    if reg.ty == RegType::Pred {
        let at = reg.index as usize;
        let is_written = warp.preds_written.get(at)? >> lane & 1 == 1;
        return is_written.then(|| u64::from(warp.preds[at] >> lane & 1));
    }
    let slot = program.slot(reg)?;
    (warp.written[slot] >> lane & 1 == 1).then(|| warp.regs[slot][lane])
}

impl<'k> Machine<'_, 'k> {
    pub(crate) fn is_stopped(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.stopped)
    }

    /// The statement of the author's that a warp executes next.
    pub(crate) fn next_statement(&self, warp: &Warp) -> Option<&'k Stmt> {
        match self.program.steps[warp.pc] {
            Step::Do(stmt) => Some(stmt),
            Step::If { .. } | Step::Loop { .. } => self.program.stmts[warp.pc],
            Step::Else { .. } | Step::EndIf | Step::EndLoop { .. } | Step::End => None,
        }
    }
}

impl<'k> Exec<'_, '_, 'k> {
    /// Runs instructions as [`Exec::run`] does, looked at one by one.
    pub(crate) fn run_watched(&mut self, steps: usize) -> Result<bool, Fault> {
        for _ in 0..steps {
            if self.stops() {
                return Ok(true);
            }
            let listed = self.trace_reads();
            let ran = self.run(1);
            match (&ran, listed) {
                (Ok(_), Some(listed)) => self.trace_writes(&listed),
                // The warp comes here again when its bytes are there.
                (Err(_), Some(listed)) if self.m.waits() => self.untrace(&listed),
                _ => {}
            }
            if !ran? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the warp that is stepped has arrived.
    fn stops(&mut self) -> bool {
        let stmt = self.m.next_statement(self.w);
        let place = (self.g.blocks[self.w.block].ctaid, self.w.first / 32);
        let (Some(stmt), Some(watch)) = (stmt, &mut self.m.watch) else {
            return false;
        };
        if watch.stepped != place {
            return false;
        }
        let Some(until) = &watch.until else {
            return false;
        };
        let line = |at: &Location<'static>| (at.file(), at.line());
        watch.stopped = watch.moved
            && match until {
                Until::Statement => true,
                Until::NewLine => watch.from.map(line) != Some(line(stmt.at)),
                Until::Line(file, line) => {
                    stmt.at.line() == *line && stmt.at.file().ends_with(&file[..])
                }
                Until::Barrier => matches!(
                    stmt.op.sync().map(Sync::effect),
                    Some(SyncEffect::Waits { .. })
                ),
                Until::End => false,
            };
        watch.moved = !watch.stopped;
        if watch.stopped {
            watch.from = Some(stmt.at);
        }
        watch.stopped
    }

    /// Lists the next instruction and what it reads, for each chosen thread that executes it.
    fn trace_reads(&mut self) -> Option<Listed<'k>> {
        let Step::Do(stmt) = self.m.program.steps[self.w.pc] else {
            return None;
        };
        let mut watch = self.m.watch.take()?;
        let listed = watch.trace.as_mut().and_then(|(options, trace)| {
            let block = self.g.blocks[self.w.block].ctaid;
            if !options.takes_line(stmt.at) || !options.threads.iter().any(|(of, _)| *of == block) {
                return None;
            }
            let mask = match stmt.guard {
                None => self.w.active,
                Some(guard) => self.guard(guard, self.w.active).unwrap_or(0),
            };
            let mut listed = Listed {
                stmt,
                entries: Vec::new(),
                seen: trace.seen,
            };
            for lane in lanes(mask) {
                let thread = self.m.thread(self.w.first + lane as u32);
                if !options.threads.contains(&(block, thread)) {
                    continue;
                }
                trace.seen += 1;
                if trace.seen <= options.skip || trace.steps.len() >= options.first {
                    continue;
                }
                listed.entries.push((trace.steps.len(), lane));
                let addresses = stmt.op.uses().addresses;
                let places = addresses.iter().filter_map(|a| self.place_at(a, lane));
                trace.steps.push(Traced {
                    block,
                    thread,
                    at: stmt.at,
                    instruction: self.m.instruction(stmt),
                    reads: self
                        .values_of(stmt, false, lane)
                        .into_iter()
                        .chain(places)
                        .collect(),
                    writes: Vec::new(),
                });
            }
            Some(listed)
        });
        self.m.watch = Some(watch);
        listed
    }

    /// Completes the entries by what the instruction has written.
    fn trace_writes(&mut self, listed: &Listed<'k>) {
        for (entry, lane) in &listed.entries {
            let writes = self.values_of(listed.stmt, true, *lane);
            let trace = self.m.watch.as_mut().and_then(|watch| watch.trace.as_mut());
            if let Some((_, trace)) = trace {
                trace.steps[*entry].writes = writes;
            }
        }
    }

    /// Takes the entries back.
    fn untrace(&mut self, listed: &Listed<'k>) {
        let trace = self.m.watch.as_mut().and_then(|watch| watch.trace.as_mut());
        if let (Some((_, trace)), Some((first, _))) = (trace, listed.entries.first()) {
            trace.steps.truncate(*first);
            trace.seen = listed.seen;
        }
    }

    /// The registers and special registers that an instruction reads or writes, with their values in a lane.
    fn values_of(&self, stmt: &Stmt, written: bool, lane: usize) -> Vec<(String, String)> {
        let uses = stmt.op.operands().into_iter();
        let guard = stmt
            .guard
            .filter(|_| !written)
            .map(|guard| (Operand::Reg(guard.pred), Some(Type::Pred)));
        let own = uses
            .filter(|of| of.is_written == written)
            .map(|of| (of.operand, of.ty));
        let shown = own.chain(guard).filter_map(|(operand, ty)| {
            let (name, class, bits, ty) = match operand {
                Operand::Reg(reg) => {
                    let bits = register(self.m.program, self.w, reg, lane)?;
                    (reg.to_string(), reg.ty, bits, ty)
                }
                Operand::Special(special) => {
                    let class = special.register();
                    let ty = if class == RegType::B64 {
                        Type::U64
                    } else {
                        Type::U32
                    };
                    (
                        special.to_string(),
                        class,
                        self.special(special)[lane],
                        Some(ty),
                    )
                }
                Operand::Int(_) | Operand::Float(_) => return None,
            };
            Some((name, typed(ty, class, bits)))
        });
        let mut all: Vec<(String, String)> = Vec::new();
        shown.for_each(|value| {
            if !all.contains(&value) {
                all.push(value);
            }
        });
        all
    }

    /// What lies at an address in a lane: ``[%rd2]=byte 4 of `data` ``
    fn place_at(&self, a: &Address, lane: usize) -> Option<(String, String)> {
        let address = self.address(a, 1 << lane).ok()?[lane];
        let name = match a.base {
            Base::Reg(reg) if reg.ty == RegType::B64 => {
                self.m.memory.beginning(address)?;
                self.m.global_name(address)
            }
            Base::Param(_) => return None,
            Base::Reg(_) | Base::Shared(_) | Base::DynamicShared => {
                let inside = address as usize & ((1 << crate::state::block::WINDOW_BITS) - 1);
                let at = inside.checked_sub(crate::state::block::SHARED_BASE as usize)?;
                // What is no shared address is no place there: an address of 32 bits may be an operand of its own.
                (at < self.g.blocks[self.w.block].shared.len()).then(|| self.m.shared_name(at))?
            }
        };
        let base = match a.base {
            Base::Reg(reg) => reg.to_string(),
            Base::Shared(_) | Base::DynamicShared | Base::Param(_) => "shared".to_string(),
        };
        let offset = match a.offset {
            0 => String::new(),
            offset => format!("{offset:+}"),
        };
        Some((format!("[{base}{offset}]"), name))
    }
}
