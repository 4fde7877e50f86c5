//! The way to memory, for warps and for engines: bounds, initialisation, races.

use super::Machine;
use super::place::Target;
use super::suspect::Use;
use crate::order::clock::{Clock, Proxy, View};
use crate::order::global::Mark;
use crate::order::shadow::{Does, touch};
use crate::report::event::{self, Event, EventKind, SharedBytes};
use crate::report::fault::{Fault, FaultKind, Place};
pub(crate) use crate::state::accessor::{Spot, Who};
use crate::state::block::Group;
use crate::state::memory::MemoryFault;

impl Machine<'_, '_> {
    pub(crate) fn place(&self, g: &Group, spot: &Spot) -> Place {
        let stmt = self.program.stmts[spot.pc.min(self.program.stmts.len() - 1)];
        Place {
            block: g.blocks[spot.block].ctaid,
            thread: self.thread(spot.first + spot.lane as u32),
            warp: spot.whole,
            instruction: stmt.map_or("exit".to_string(), |stmt| self.instruction(stmt)),
            at: stmt
                .or(self.program.kernel.body.last())
                .map_or(core::panic::Location::caller(), |stmt| stmt.at),
        }
    }

    pub(crate) fn fault(
        &self,
        g: &Group,
        spot: &Spot,
        kind: FaultKind,
        what: impl Into<String>,
    ) -> Fault {
        Fault::new(kind, what).at(self.place(g, spot))
    }

    /// Lists what happened, where that is asked for.
    pub(crate) fn record(&mut self, g: &Group, spot: &Spot, kind: impl FnOnce() -> EventKind) {
        if !self.options.events {
            return;
        }
        if let Some(stmt) = self.program.stmts[spot.pc] {
            let event = Event {
                cluster: g.number,
                block: spot.block,
                warp: spot.first as usize / 32,
                at: stmt.at,
                kind: kind(),
            };
            event::push(&mut self.events, event);
        }
    }

    /// Reads the bytes that a target names.
    pub(crate) fn read(
        &mut self,
        g: &mut Group,
        who: &Who<'_>,
        target: Target,
        buffer: &mut [u8],
    ) -> Result<(), Fault> {
        let count = buffer.len();
        match target {
            Target::Global(address) => {
                self.touch_global(g, who, address, count, Does::Read)?;
                self.read_first(g, who, target, count)?;
                match self.memory.get(address, count as u64) {
                    Ok((bytes, written)) => {
                        buffer.copy_from_slice(bytes);
                        if !self.options.uninitialised || written.iter().all(|w| *w) {
                            return Ok(());
                        }
                    }
                    Err(fault) => return Err(self.memory_fault(g, &who.spot, fault)),
                }
                // The first byte that nobody wrote, in words.
                match self.memory.read(address, count as u64) {
                    Ok(_) => Ok(()),
                    Err(fault) => {
                        let fault = self.memory_fault(g, &who.spot, fault);
                        Err(self.catch(g, who, (target, count), Use::Read, fault))
                    }
                }
            }
            Target::Shared { block, at } => {
                self.touch(g, who, block, at, count, Does::Read)?;
                let by = (who.agent >= g.warps).then_some(self.operation);
                self.record(g, &who.spot, || EventKind::Read {
                    by,
                    from: vec![SharedBytes::new(block, at, count)],
                });
                self.read_first(g, who, target, count)?;
                let held = &g.blocks[block];
                buffer.copy_from_slice(&held.shared[at..at + count]);
                let unwritten = held.written[at..at + count].iter().position(|w| !w);
                match unwritten.filter(|_| self.options.uninitialised) {
                    None => Ok(()),
                    Some(i) => {
                        let fault = self.unwritten_shared(g, &who.spot, at + i);
                        Err(self.catch(g, who, (target, count), Use::Read, fault))
                    }
                }
            }
            Target::Param(at) => match self.params.get(at..at.saturating_add(count)) {
                Some(bytes) => {
                    buffer.copy_from_slice(bytes);
                    Ok(())
                }
                None => {
                    let size = self.params.len();
                    let what =
                        format!("{count} bytes at {at} of the parameters, which have {size}");
                    Err(self.fault(g, &who.spot, FaultKind::OutOfBounds, what))
                }
            },
        }
    }

    /// Writes the bytes that a target names.
    pub(crate) fn write(
        &mut self,
        g: &mut Group,
        who: &Who<'_>,
        target: Target,
        data: &[u8],
    ) -> Result<(), Fault> {
        if !self.suspects.is_empty() {
            self.meet_suspects(g, who, target, data.len())?;
        }
        match target {
            Target::Global(address) => {
                let same = self.memory.get(address, data.len() as u64);
                let same = same.is_ok_and(|(bytes, written)| holds(bytes, written, data));
                let does = if same { Does::Rewrite } else { Does::Write };
                self.touch_global(g, who, address, data.len(), does)?;
                match self.memory.get(address, data.len() as u64) {
                    Ok((bytes, written)) => {
                        bytes.copy_from_slice(data);
                        if who.proxy == Proxy::Atomic {
                            let before = written.to_vec();
                            written.fill(true);
                            self.remember_first(g, who, target, &before);
                            return Ok(());
                        }
                        written.fill(true);
                    }
                    Err(fault) => return Err(self.memory_fault(g, &who.spot, fault)),
                }
                self.made_ready(g, target, data.len());
                Ok(())
            }
            Target::Shared { block, at } => {
                let here = at..at + data.len();
                let held = &g.blocks[block];
                let same = holds(
                    &held.shared[here.clone()],
                    &held.written[here.clone()],
                    data,
                );
                let does = if same { Does::Rewrite } else { Does::Write };
                self.touch(g, who, block, at, data.len(), does)?;
                if who.agent < g.warps {
                    self.record(g, &who.spot, || EventKind::Write {
                        to: vec![SharedBytes::new(block, at, data.len())],
                    });
                }
                let held = &mut g.blocks[block];
                held.shared[here.clone()].copy_from_slice(data);
                if who.proxy == Proxy::Atomic {
                    let before = held.written[here.clone()].to_vec();
                    held.written[here].fill(true);
                    self.remember_first(g, who, target, &before);
                    return Ok(());
                }
                held.written[here].fill(true);
                self.made_ready(g, target, data.len());
                Ok(())
            }
            Target::Param(_) => Err(self.fault(
                g,
                &who.spot,
                FaultKind::OutOfBounds,
                "parameters cannot be written",
            )),
        }
    }

    /// Refuses an atomic read of bytes that all writes may follow.
    fn read_first(
        &self,
        g: &Group,
        who: &Who<'_>,
        target: Target,
        count: usize,
    ) -> Result<(), Fault> {
        let looks = who.proxy == Proxy::Atomic
            && !self.firsts.is_empty()
            && self.options.uninitialised
            && self.options.races;
        if looks {
            self.check_first(g, who, target, count)
        } else {
            Ok(())
        }
    }

    /// A plain write makes bytes ready, however they began.
    fn made_ready(&mut self, g: &Group, target: Target, count: usize) {
        if !self.firsts.is_empty() {
            self.forget_first(g, target, count);
        }
    }

    /// Compares an access to shared memory with those before it.
    pub(crate) fn touch(
        &mut self,
        g: &mut Group,
        who: &Who<'_>,
        block: usize,
        at: usize,
        count: usize,
        does: Does,
    ) -> Result<(), Fault> {
        if !self.options.races {
            return Ok(());
        }
        if block != who.spot.block || who.agent >= g.warps {
            g.remember_visit(block, who);
        }
        let access = who.access(does);
        let Group { blocks, reads, .. } = g;
        let cells = &mut blocks[block].cells[at..at + count];
        match touch(cells, reads, &access) {
            Ok(()) => Ok(()),
            Err((i, clash)) => {
                let byte = self.shared_name(at + i);
                Err(self.clash(g, who, &byte, clash, g.number, does))
            }
        }
    }

    /// Compares an access to global memory with those before it, of all clusters.
    fn touch_global(
        &mut self,
        g: &Group,
        who: &Who<'_>,
        address: u64,
        count: usize,
        does: Does,
    ) -> Result<(), Fault> {
        if !self.options.races || count == 0 || self.memory.get(address, count as u64).is_err() {
            return Ok(());
        }
        let access = who.access(does);
        match self.global.touch(g.number, address, count, &access) {
            Ok(None) => Ok(()),
            Ok(Some(other)) => {
                self.note_equal(g, who, address, other);
                Ok(())
            }
            Err((i, clash, cluster)) => {
                let byte = self.global_name(address + i as u64);
                Err(self.clash(g, who, &byte, clash, cluster, does))
            }
        }
    }

    /// Remembers that two blocks have stored the same value at the same place.
    fn note_equal(&mut self, g: &Group, who: &Who<'_>, address: u64, other: Mark) {
        if let Some((_, count)) = self.equal.get_mut(&who.spot.pc) {
            *count += 1;
            return;
        }
        let block = |cluster: u32, agent: usize| {
            let [x, y, z] = self.block_at(cluster, agent / g.warps_per_block());
            format!("({x},{y},{z})")
        };
        let what = format!(
            "blocks {} and {} store the same value at {}, and nothing orders the two: harmless as long as the values are \
             equal",
            block(other.cluster, other.epoch.agent()),
            block(g.number, who.agent),
            self.global_name(address),
        );
        self.equal.insert(who.spot.pc, (what, 1));
    }

    /// The sentence for global memory that was not used as it should be.
    fn memory_fault(&self, g: &Group, spot: &Spot, fault: MemoryFault) -> Fault {
        let (kind, what) = match fault {
            MemoryFault::OutOfBounds {
                address,
                bytes,
                nearest: Some((start, length)),
            } => (
                FaultKind::OutOfBounds,
                format!(
                    "{bytes} bytes at byte {} of {}, which has {length} bytes",
                    address - start,
                    self.buffer_name(start)
                ),
            ),
            MemoryFault::OutOfBounds { address, bytes, .. } => (
                FaultKind::OutOfBounds,
                format!(
                    "{bytes} bytes at {address:#x} are in no allocation, and the first begins above"
                ),
            ),
            MemoryFault::Unwritten {
                address,
                allocation,
            } => (
                FaultKind::Uninitialised,
                format!(
                    "byte {} of {} is read but was never written",
                    address - allocation,
                    self.buffer_name(allocation)
                ),
            ),
            other @ (MemoryFault::OutOfMemory { .. } | MemoryFault::NotAllocated { .. }) => {
                (FaultKind::OutOfBounds, other.to_string())
            }
        };
        self.fault(g, spot, kind, what)
    }

    /// The sentence for a byte of shared memory that nobody wrote.
    fn unwritten_shared(&self, g: &Group, spot: &Spot, at: usize) -> Fault {
        let what = format!("{} is read but was never written", self.shared_name(at));
        self.fault(g, spot, FaultKind::Uninitialised, what)
    }

    /// The sentence for bytes beyond a block's shared memory.
    pub(crate) fn beyond_shared(&self, at: i64, bytes: usize, size: usize) -> String {
        let nearest = match self.variable(at.max(0) as usize) {
            Some((name, start, length)) => {
                format!("; the nearest below is `{name}`, {length} bytes at byte {start}")
            }
            None => String::new(),
        };
        format!(
            "{bytes} bytes at byte {at} of the block's shared memory, which has {size} bytes{nearest}"
        )
    }
}

/// Whether some bytes were written, and are these.
fn holds(bytes: &[u8], written: &[bool], data: &[u8]) -> bool {
    bytes == data && written.iter().all(|written| *written)
}

/// What an agent of a fresh cluster knows: its own beginning.
pub(crate) fn beginning(agents: usize, agent: usize) -> View {
    let mut view = View::new(agents);
    view.seen.raise(agent, 1);
    view
}

/// Another moment in the life of an agent: what it does from now on is not covered by what it has passed on.
pub(crate) fn tick(clock: &mut Clock, agent: usize) {
    clock.raise(agent, clock.get(agent) + 1);
}
