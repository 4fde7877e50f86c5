//! One warp executing.

use super::Machine;
use super::port::Site;
use crate::lane::float;
use crate::report::fault::{Fault, FaultKind};
use crate::state::block::Group;
use crate::state::program::Step;
use crate::state::wait::Wait;
use crate::state::warp::{FULL, InFlight, Lanes, Warp, lanes};
use colex_ir::{
    Atom, Control, Guard, Memory, Op, Operand, Reg, RegType, Special, Stmt, Sync, Type,
};

/// The outcome of an instruction.
pub(crate) enum Flow {
    /// The next one.
    Next,
    /// The instruction has set the next step.
    Jumped,
    /// The next one, after other warps have had their turn.
    Yield,
    /// The warp waits for an event.
    Wait(Wait),
}

/// A warp, its cluster and the machine, for the time of some instructions.
pub(crate) struct Exec<'s, 'a, 'k> {
    pub(crate) m: &'s mut Machine<'a, 'k>,
    pub(crate) g: &'s mut Group,
    pub(crate) w: &'s mut Warp,
}

impl<'k> Exec<'_, '_, 'k> {
    /// Runs at most `steps` instructions; returns whether the warp's turn can continue.
    pub(crate) fn run(&mut self, steps: usize) -> Result<bool, Fault> {
        for _ in 0..steps {
            match self.m.program.steps[self.w.pc] {
                Step::Do(stmt) => match self.stmt(stmt)? {
                    Flow::Next => self.w.pc += 1,
                    Flow::Jumped => {}
                    Flow::Yield => {
                        self.w.pc += 1;
                        return Ok(false);
                    }
                    Flow::Wait(wait) => {
                        self.w.wait = Some(wait);
                        return Ok(false);
                    }
                },
                Step::If { guard, other, end } => {
                    let holds = self.guard(guard, self.w.active)?;
                    self.w.enter_if(holds, other, end);
                }
                Step::Else { end } => self.w.enter_else(end),
                Step::EndIf => self.w.leave_if(),
                Step::Loop { end } => self.w.enter_loop(end),
                Step::EndLoop { start } => self.end_round(start)?,
                Step::End => {
                    self.w.exited = self.w.exists;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn stmt(&mut self, stmt: &'k Stmt) -> Result<Flow, Fault> {
        let mask = match stmt.guard {
            None => self.w.active,
            Some(guard) => self.guard(guard, self.w.active)?,
        };
        if mask == 0 {
            return Ok(Flow::Next);
        }
        if let (Op::Control(Control::Comment(_)), Some(claim)) = (&stmt.op, stmt.claim) {
            self.check_claim(claim, mask)?;
            return Ok(Flow::Next);
        }
        self.m.counts[self.w.pc].executed += 1;
        self.count_step()?;
        if let Some(claim) = stmt.claim {
            self.check_claim(claim, mask)?;
        }
        if serves_others(&stmt.op) {
            self.w.idle = None;
            self.g.served += 1;
            // An atomic operation may change nothing: it says so itself.
            if !is_atomic(&stmt.op) {
                self.progress();
            }
        }
        self.instruction(&stmt.op, mask)
    }

    /// Counts an instruction of the warp.
    fn count_step(&mut self) -> Result<(), Fault> {
        self.w.steps += 1;
        if self.w.steps <= self.m.options.max_steps {
            return Ok(());
        }
        let side = self.m.side_that_waits(self.w);
        let side = side.map_or(String::new(), |side| format!(" ({side})"));
        let what = format!(
            "the warp has executed {} instructions, as many as `SimOptions::max_steps` allows: does it wait for \
             something that never happens{side}? If not, raise that bound",
            self.m.options.max_steps
        );
        Err(self.fault_warp(FaultKind::Limit, what))
    }

    /// The end of a loop's body. A round without an instruction counts as one, so that every loop reaches the bound.
    fn end_round(&mut self, start: usize) -> Result<(), Fault> {
        if self.w.steps == self.w.steps_at_round {
            self.count_step()?;
        }
        self.w.steps_at_round = self.w.steps;
        self.w.end_round(start);
        Ok(())
    }

    /// The warp has done something that others may wait for.
    pub(crate) fn progress(&mut self) {
        self.m.progress += 1;
        self.w.polls.clear();
    }

    /// The lanes of `mask` in which a guard holds.
    pub(crate) fn guard(&self, guard: Guard, mask: u32) -> Result<u32, Fault> {
        let at = self.pred(guard.pred)?;
        self.check_written(guard.pred, self.w.preds_written[at], mask)?;
        let holds = if guard.when {
            self.w.preds[at]
        } else {
            !self.w.preds[at]
        };
        Ok(holds & mask)
    }

    /// Where a register that is no predicate lies.
    pub(crate) fn slot(&self, reg: Reg) -> Result<usize, Fault> {
        let slot = self.m.program.slot(reg);
        slot.ok_or_else(|| self.no_register(reg, "a register of values"))
    }

    /// The number of a predicate.
    fn pred(&self, reg: Reg) -> Result<usize, Fault> {
        let at = reg.index as usize;
        if reg.ty == RegType::Pred && at < self.w.preds.len() {
            Ok(at)
        } else {
            Err(self.no_register(reg, "a predicate"))
        }
    }

    fn no_register(&self, reg: Reg, wanted: &str) -> Fault {
        let what = format!("{reg} is not {wanted} of this kernel");
        self.fault_warp(FaultKind::Operand, what)
    }

    /// Writes a predicate.
    pub(crate) fn set_pred(
        &mut self,
        reg: impl core::borrow::Borrow<Reg>,
        mask: u32,
        values: u32,
    ) -> Result<(), Fault> {
        let at = self.pred(*reg.borrow())?;
        self.w.write_pred(at, mask, values);
        Ok(())
    }

    fn check_written(&self, reg: Reg, written: u32, mask: u32) -> Result<(), Fault> {
        let missing = mask & !written;
        if missing == 0 || !self.m.options.uninitialised {
            return Ok(());
        }
        let lane = missing.trailing_zeros() as usize;
        Err(self.fault(
            FaultKind::Uninitialised,
            lane,
            format!("register {reg} is read but was never written"),
        ))
    }

    /// The value of a register that is no predicate.
    pub(crate) fn reg(&self, reg: Reg, mask: u32) -> Result<&Lanes, Fault> {
        let slot = self.slot(reg)?;
        if self.w.busy[slot] != 0 {
            return Err(self.in_flight(reg, "read"));
        }
        self.check_written(reg, self.w.written[slot], mask)?;
        Ok(&self.w.regs[slot])
    }

    fn in_flight(&self, reg: Reg, verb: &str) -> Fault {
        let slot = self.m.program.slot(reg);
        let holds = |product: &&InFlight| {
            let mut held = product.slots.iter().chain(&product.sources);
            held.any(|held| Some(*held) == slot)
        };
        let products = &self.w.products;
        let open = products.open.iter().find(holds);
        let product = open.or_else(|| products.groups.iter().flatten().find(holds));
        let name = product.map_or("a `wgmma`".to_string(), |product| {
            let site = Site {
                pc: product.pc,
                ..Site::of(self.w, 0)
            };
            self.m.described(&site)
        });
        let first = match open {
            Some(_) => "`wgmma.commit_group` and `wgmma.wait_group`",
            None => "`wgmma.wait_group`",
        };
        self.fault_warp(
            FaultKind::InFlight,
            format!("register {reg} is {verb} while {name} holds it: {first} must come first"),
        )
    }

    /// Refuses a register that was not written, unless a product under way writes it.
    pub(crate) fn check_initialised(&self, reg: Reg, mask: u32) -> Result<(), Fault> {
        let slot = self.slot(reg)?;
        match self.w.busy[slot] {
            0 => self.check_written(reg, self.w.written[slot], mask),
            _ => Ok(()),
        }
    }

    /// Writes a register that is no predicate.
    pub(crate) fn set(&mut self, reg: Reg, mask: u32, values: &Lanes) -> Result<(), Fault> {
        let slot = self.slot(reg)?;
        if self.w.busy[slot] != 0 {
            return Err(self.in_flight(reg, "written"));
        }
        self.w.write(slot, mask, values);
        Ok(())
    }

    /// The value of an operand, a constant in the bits of `ty`.
    pub(crate) fn value(&self, operand: Operand, ty: Type, mask: u32) -> Result<Lanes, Fault> {
        Ok(match operand {
            Operand::Reg(reg) if reg.ty == RegType::Pred => {
                let holds = self.guard(reg.into(), mask)?;
                core::array::from_fn(|lane| u64::from(holds >> lane & 1))
            }
            Operand::Reg(reg) => *self.reg(reg, mask)?,
            Operand::Int(x) => [x as u64 & low(ty.bits()); 32],
            Operand::Float(x) => [float::constant(ty, x); 32],
            Operand::Special(special) => self.special(special),
        })
    }

    /// The value of an operand that must be the same in all lanes.
    pub(crate) fn uniform(&self, operand: Operand, what: &str, mask: u32) -> Result<u64, Fault> {
        if let Operand::Int(x) = operand {
            return Ok(x as u64 & low(Type::B32.bits()));
        }
        let values = self.value(operand, Type::B32, mask)?;
        let first = values[mask.trailing_zeros() as usize & 31];
        match lanes(mask).find(|lane| values[*lane] != first) {
            None => Ok(first),
            Some(lane) => Err(self.fault(
                FaultKind::Divergence,
                lane,
                format!(
                    "{what} is {} here and {first} in another thread of the warp; it must be the same in all",
                    values[lane]
                ),
            )),
        }
    }

    pub(crate) fn special(&self, special: Special) -> Lanes {
        let launch = &self.m.launch;
        let block = &self.g.blocks[self.w.block];
        let all = |x: u64| [x; 32];
        let at = |of: [u32; 3], axis: u8| u64::from(of[usize::from(axis.min(2))]);
        let in_clusters =
            |of: [u32; 3]| core::array::from_fn(|axis| of[axis] / launch.cluster[axis].max(1));
        match special {
            Special::Tid(axis) => {
                core::array::from_fn(|lane| at(self.m.thread(self.w.first + lane as u32), axis))
            }
            Special::NTid(axis) => all(at(launch.block, axis)),
            Special::Ctaid(axis) => all(at(block.ctaid, axis)),
            Special::NCtaid(axis) => all(at(launch.grid, axis)),
            Special::LaneId => core::array::from_fn(|lane| lane as u64),
            Special::ClusterCtaRank => all(u64::from(block.rank)),
            Special::ClusterNCtaRank => all(launch.cluster_blocks()),
            Special::ClusterCtaid(axis) => {
                let a = usize::from(axis.min(2));
                all(u64::from(block.ctaid[a] % launch.cluster[a].max(1)))
            }
            Special::ClusterNCtaid(axis) => all(at(launch.cluster, axis)),
            Special::ClusterId(axis) => all(at(in_clusters(block.ctaid), axis)),
            Special::NClusterId(axis) => all(at(in_clusters(launch.grid), axis)),
            Special::Clock64 | Special::GlobalTimer => all(self.w.steps),
            Special::SmId => all(u64::from(block.sm)),
            Special::DynamicSharedSize => all(u64::from(launch.dynamic_shared)),
        }
    }

    /// A fault of one thread.
    pub(crate) fn fault(&self, kind: FaultKind, lane: usize, what: impl Into<String>) -> Fault {
        self.m.fault(self.g, &Site::of(self.w, lane), kind, what)
    }

    /// A fault of the whole warp.
    pub(crate) fn fault_warp(&self, kind: FaultKind, what: impl Into<String>) -> Fault {
        let site = Site {
            whole: true,
            ..Site::of(self.w, 0)
        };
        self.m.fault(self.g, &site, kind, what)
    }

    /// An instruction that all lanes of the warp have to execute.
    pub(crate) fn collective(&self, mask: u32) -> Result<(), Fault> {
        let missing = self.w.alive() & !mask;
        if missing == 0 {
            return Ok(());
        }
        let lane = missing.trailing_zeros() as usize;
        let thread = self.m.thread(self.w.first + lane as u32);
        Err(self.fault_warp(
            FaultKind::Divergence,
            format!(
                "all threads of a warp execute this together, but {} of them do not, the first of them thread ({},{},{})",
                missing.count_ones(),
                thread[0],
                thread[1],
                thread[2]
            ),
        ))
    }

    /// The fault of an operation that its type does not have.
    pub(crate) fn unsupported(&self, what: impl core::fmt::Display) -> Fault {
        self.fault_warp(
            FaultKind::Unsupported,
            format!("the simulator does not execute {what}"),
        )
    }
}

/// Whether an instruction may let another warp go on.
fn serves_others(op: &Op) -> bool {
    match op {
        Op::Memory(op) => match op {
            Memory::Store { .. } | Memory::Atomic { .. } | Memory::Reduce { .. } => true,
            Memory::AddressOf { .. }
            | Memory::Load { .. }
            | Memory::Mapa { .. }
            | Memory::Cvta { .. }
            | Memory::PrefetchTensorMap { .. }
            | Memory::CreatePolicy { .. }
            | Memory::Print { .. }
            | Memory::Text { .. } => false,
        },
        Op::Sync(op) => match op {
            Sync::Barrier { .. }
            | Sync::ClusterArrive { .. }
            | Sync::MbarrierInit { .. }
            | Sync::MbarrierArrive { .. }
            | Sync::MbarrierExpect { .. } => true,
            Sync::WarpSync { .. }
            | Sync::ClusterWait
            | Sync::Fence(_)
            | Sync::MbarrierInval { .. }
            | Sync::MbarrierTry { .. }
            | Sync::MbarrierWait { .. }
            | Sync::SetMaxReg { .. }
            | Sync::GridDependency { .. }
            | Sync::NanoSleep { .. } => false,
        },
        Op::Atom(Atom::Mma { .. } | Atom::Copy { .. }) => true,
        // These instructions act only on the registers and the groups of their own warp.
        Op::Alu(_) | Op::Exchange(_) | Op::Async(_) | Op::Control(_) => false,
    }
}

/// Whether an instruction is an atomic operation.
fn is_atomic(op: &Op) -> bool {
    match op {
        Op::Memory(Memory::Atomic { .. } | Memory::Reduce { .. }) => true,
        Op::Memory(
            Memory::AddressOf { .. }
            | Memory::Load { .. }
            | Memory::Store { .. }
            | Memory::Mapa { .. }
            | Memory::Cvta { .. }
            | Memory::PrefetchTensorMap { .. }
            | Memory::CreatePolicy { .. }
            | Memory::Print { .. }
            | Memory::Text { .. },
        )
        | Op::Alu(_)
        | Op::Exchange(_)
        | Op::Sync(_)
        | Op::Async(_)
        | Op::Control(_)
        | Op::Atom(_) => false,
    }
}

/// The lowest bits of a word.
pub(crate) fn low(bits: u32) -> u64 {
    u64::MAX >> (64 - bits.clamp(1, 64))
}

/// A value computed in each lane.
pub(crate) fn map(f: impl Fn(usize) -> u64, mask: u32) -> Lanes {
    match mask {
        FULL => core::array::from_fn(f),
        mask => {
            let mut values = [0; 32];
            lanes(mask).for_each(|lane| values[lane] = f(lane));
            values
        }
    }
}
