//! The memory port: all accesses by warps and asynchronous engines go through it. It checks bounds, initialisation and
//! data races.

use super::Machine;
use super::place::Target;
use super::suspect::Use;
use crate::lane::bits::{all, copy, same, set_all};
use crate::order::clock::{Clock, Proxy, View};
use crate::order::global::Mark;
use crate::order::shadow::{Access, AccessKind, check_access};
use crate::report::event::{self, Event, EventKind, SharedBytes};
use crate::report::fault::{Fault, FaultKind, Place};
pub(crate) use crate::state::accessor::{Accessor, Site};
use crate::state::block::Group;
use crate::state::memory::ErrorKind;

impl Machine<'_, '_> {
    pub(crate) fn place(&self, g: &Group, site: &Site) -> Place {
        self.place_in(g.number, site)
    }

    pub(crate) fn fault(
        &self,
        g: &Group,
        site: &Site,
        kind: FaultKind,
        what: impl Into<String>,
    ) -> Fault {
        Fault::new(kind, what).at(self.place(g, site))
    }

    /// Lists an event, if events are requested.
    pub(crate) fn record(&mut self, g: &Group, site: &Site, kind: impl FnOnce() -> EventKind) {
        if !self.options.events {
            return;
        }
        if let Some(stmt) = self.program.stmts[site.pc] {
            let event = Event {
                cluster: g.number,
                block: site.block,
                warp: site.first as usize / 32,
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
        accessor: &Accessor<'_>,
        target: Target,
        buffer: &mut [u8],
    ) -> Result<(), Fault> {
        let count = buffer.len();
        match target {
            Target::Global(address) => {
                self.check_rank(g, accessor, (address, count), false)?;
                // Races are checked before initialisation: if a write is not ordered before this read, only the
                // schedule decides whether the bytes are written.
                self.check_global_access(g, accessor, address, count, AccessKind::Read)?;
                self.read_first(g, accessor, target, count)?;
                match self.memory.get(address, count as u64) {
                    Ok((bytes, written)) => {
                        copy(buffer, bytes);
                        if !self.options.uninitialised || all(written) {
                            return Ok(());
                        }
                    }
                    Err(fault) => return Err(self.memory_fault(g, &accessor.site, fault)),
                }
                // The error that names the first byte that was never written.
                match self.memory.read(address, count as u64) {
                    Ok(_) => Ok(()),
                    Err(fault) => {
                        let fault = self.memory_fault(g, &accessor.site, *fault.kind());
                        Err(self.catch(g, accessor, (target, count), Use::Read, fault))
                    }
                }
            }
            Target::Shared { block, at } => {
                self.check_access(g, accessor, block, at, count, AccessKind::Read)?;
                let by = (accessor.agent >= g.warps).then_some(self.operation);
                self.record(g, &accessor.site, || EventKind::Read {
                    by,
                    from: vec![SharedBytes::new(block, at, count)],
                });
                self.read_first(g, accessor, target, count)?;
                let held = &g.blocks[block];
                copy(buffer, &held.shared[at..at + count]);
                let written = &held.written[at..at + count];
                let unwritten = if self.options.uninitialised && !all(written) {
                    written.iter().position(|w| !w)
                } else {
                    None
                };
                match unwritten {
                    None => Ok(()),
                    Some(i) => {
                        let fault = self.unwritten_shared(g, &accessor.site, at + i);
                        Err(self.catch(g, accessor, (target, count), Use::Read, fault))
                    }
                }
            }
            Target::Param(at) => match self
                .devices
                .params(g.rank)
                .get(at..at.saturating_add(count))
            {
                Some(bytes) => {
                    buffer.copy_from_slice(bytes);
                    Ok(())
                }
                None => {
                    let size = self.devices.params(g.rank).len();
                    let what =
                        format!("{count} bytes at {at} of the parameters, which have {size}");
                    Err(self.fault(g, &accessor.site, FaultKind::OutOfBounds, what))
                }
            },
        }
    }

    /// Writes the bytes that a target names.
    pub(crate) fn write(
        &mut self,
        g: &mut Group,
        accessor: &Accessor<'_>,
        target: Target,
        data: &[u8],
    ) -> Result<(), Fault> {
        if !self.suspects.is_empty() {
            self.meet_suspects(g, accessor, target, data.len())?;
        }
        match target {
            Target::Global(address) => {
                self.check_rank(g, accessor, (address, data.len()), true)?;
                // A store of the value that is there already is a race of its own kind: harmless among the lanes of one
                // instruction, and a warning between blocks.
                let same = self.memory.get(address, data.len() as u64);
                let same = same.is_ok_and(|(bytes, written)| holds(bytes, written, data));
                let kind = if same {
                    AccessKind::Rewrite
                } else {
                    AccessKind::Write
                };
                self.check_global_access(g, accessor, address, data.len(), kind)?;
                match self.memory.get_mut(address, data.len() as u64) {
                    Ok((bytes, written)) => {
                        copy(bytes, data);
                        if accessor.proxy == Proxy::Atomic {
                            let before = written.to_vec();
                            written.fill(true);
                            self.remember_first(g, accessor, target, &before);
                            return Ok(());
                        }
                        set_all(written);
                    }
                    Err(fault) => return Err(self.memory_fault(g, &accessor.site, fault)),
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
                let kind = if same {
                    AccessKind::Rewrite
                } else {
                    AccessKind::Write
                };
                self.check_access(g, accessor, block, at, data.len(), kind)?;
                if let Some(barrier) = g.blocks[block].mbarriers.among(at, data.len()) {
                    let what = format!(
                        "this writes over {}: `mbarrier.inval` must come before another use of its bytes",
                        self.barrier_name(barrier)
                    );
                    return Err(self.fault(g, &accessor.site, FaultKind::Barrier, what));
                }
                if accessor.agent < g.warps {
                    self.record(g, &accessor.site, || EventKind::Write {
                        to: vec![SharedBytes::new(block, at, data.len())],
                    });
                }
                let held = &mut g.blocks[block];
                copy(&mut held.shared[here.clone()], data);
                if accessor.proxy == Proxy::Atomic {
                    let before = held.written[here.clone()].to_vec();
                    held.written[here].fill(true);
                    self.remember_first(g, accessor, target, &before);
                    return Ok(());
                }
                set_all(&mut held.written[here]);
                self.made_ready(g, target, data.len());
                Ok(())
            }
            Target::Param(_) => Err(self.fault(
                g,
                &accessor.site,
                FaultKind::OutOfBounds,
                "parameters cannot be written",
            )),
        }
    }

    /// Refuses an atomic read of bytes that all writes may follow.
    fn read_first(
        &self,
        g: &Group,
        accessor: &Accessor<'_>,
        target: Target,
        count: usize,
    ) -> Result<(), Fault> {
        let looks = accessor.proxy == Proxy::Atomic
            && !self.firsts.is_empty()
            && self.options.uninitialised
            && self.options.races;
        if looks {
            self.check_first(g, accessor, target, count)
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

    /// Checks an access to shared memory for data races with the accesses before it.
    pub(crate) fn check_access(
        &mut self,
        g: &mut Group,
        accessor: &Accessor<'_>,
        block: usize,
        at: usize,
        count: usize,
        kind: AccessKind,
    ) -> Result<(), Fault> {
        if !self.options.races {
            return Ok(());
        }
        if block != accessor.site.block || accessor.agent >= g.warps {
            g.remember_visit(block, at, accessor);
        }
        let warps = g.warps_per_block();
        let owners = block * warps..(block + 1) * warps;
        let access = Access {
            owners: Some((owners, g.warps)),
            strengths: Some(&self.strengths),
            ..accessor.access(kind)
        };
        let Group { blocks, reads, .. } = g;
        match check_access(&mut blocks[block].cells, (at, count), reads, &access) {
            Ok(()) if block != accessor.site.block => {
                self.check_begun(g, accessor, (block, at), kind)
            }
            Ok(()) => Ok(()),
            Err((i, race)) => {
                let byte = self.shared_name(at + i);
                Err(self.race(g, accessor, &byte, race, g.number, kind))
            }
        }
    }

    /// The shared memory of another block exists once that block has begun.
    fn check_begun(
        &self,
        g: &Group,
        accessor: &Accessor<'_>,
        (block, at): (usize, usize),
        kind: AccessKind,
    ) -> Result<(), Fault> {
        let view = accessor.view;
        let warps = g.warps_per_block();
        let mut of_block = block * warps..(block + 1) * warps;
        if view.all_begun || of_block.any(|warp| view.seen.get(warp) > 0) {
            return Ok(());
        }
        let verb = match kind {
            AccessKind::Read => "reads",
            AccessKind::Write | AccessKind::Rewrite => "writes",
        };
        let what = format!(
            "this {verb} {} in block {block} of the cluster, and nothing orders it after the beginning of that block: a \
             barrier of the cluster before it is missing",
            self.shared_name(at)
        );
        Err(self.fault(g, &accessor.site, FaultKind::Race, what))
    }

    /// Checks an access to global memory for data races with the accesses before it, of all clusters.
    fn check_global_access(
        &mut self,
        g: &Group,
        accessor: &Accessor<'_>,
        address: u64,
        count: usize,
        kind: AccessKind,
    ) -> Result<(), Fault> {
        if !self.options.races || count == 0 || !self.memory.has(address, count as u64) {
            return Ok(());
        }
        if self.global.is_full() {
            let what = format!(
                "{} accesses of global memory by warps are remembered, and there is room for no more: simulate a smaller \
                 problem, or switch off `SimOptions::races`",
                self.global.remembered()
            );
            return Err(self.fault(g, &accessor.site, FaultKind::Limit, what));
        }
        let access = accessor.access(kind);
        match self.global.check_access(g.number, address, count, &access) {
            Ok(None) => Ok(()),
            Ok(Some(other)) => {
                self.note_equal(g, accessor, address, other);
                Ok(())
            }
            Err((i, race, cluster)) => {
                let byte = self.global_name(address + i as u64);
                Err(self.race(g, accessor, &byte, race, cluster, kind))
            }
        }
    }

    /// A load by `ld.global.nc` sees no write of its launch for sure.
    pub(crate) fn check_constant(
        &mut self,
        g: &Group,
        accessor: &Accessor<'_>,
        target: Target,
        count: usize,
    ) -> Result<(), Fault> {
        let Target::Global(address) = target else {
            return Ok(());
        };
        if !self.options.races {
            return Ok(());
        }
        match self.global.written(address, count) {
            None => Ok(()),
            Some((i, other)) => {
                let what = format!(
                    "this reads {} by `ld.global.nc`, and {} writes it in the same launch: the load may find the value from \
                     before that, and a load without `.nc` is needed",
                    self.global_name(address + i as u64),
                    self.accused_at(g, other.epoch, other.cluster, g.number)
                );
                Err(self.fault(g, &accessor.site, FaultKind::Race, what))
            }
        }
    }

    /// Records that two unordered blocks store the same value at one place: a note, since every order gives that value.
    fn note_equal(&mut self, g: &Group, accessor: &Accessor<'_>, address: u64, other: Mark) {
        if let Some((_, count)) = self.equal.get_mut(&accessor.site.pc) {
            *count += 1;
            return;
        }
        let block = |cluster: u32, agent: usize| {
            let [x, y, z] = self.block_at(cluster, agent / g.warps_per_block());
            let rank = self.devices.suffix(self.devices.rank_of(cluster));
            format!("({x},{y},{z}){rank}")
        };
        let what = format!(
            "blocks {} and {} store the same value at {}, and nothing orders the two: harmless as long as the values are \
             equal",
            block(other.cluster, other.epoch.agent()),
            block(g.number, accessor.agent),
            self.global_name(address),
        );
        self.equal.insert(accessor.site.pc, (what, 1));
    }

    /// The fault of an invalid access to global memory.
    fn memory_fault(&self, g: &Group, site: &Site, fault: ErrorKind) -> Fault {
        let (kind, what) = match fault {
            ErrorKind::OutOfBounds {
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
            ErrorKind::OutOfBounds { address, bytes, .. } => (
                FaultKind::OutOfBounds,
                format!(
                    "{bytes} bytes at {address:#x} are in no allocation, and the first begins above"
                ),
            ),
            ErrorKind::Unwritten {
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
            other @ (ErrorKind::OutOfMemory { .. }
            | ErrorKind::OutOfAddresses { .. }
            | ErrorKind::Ranks { .. }
            | ErrorKind::NoRank { .. }
            | ErrorKind::NotAllocated { .. }) => (FaultKind::OutOfBounds, other.to_string()),
        };
        self.fault(g, site, kind, what)
    }

    /// The sentence for a byte of shared memory that was never written.
    fn unwritten_shared(&self, g: &Group, site: &Site, at: usize) -> Fault {
        let what = format!("{} is read but was never written", self.shared_name(at));
        self.fault(g, site, FaultKind::Uninitialised, what)
    }

    /// The sentence for bytes beyond a block's shared memory.
    pub(crate) fn beyond_shared(&self, at: i64, bytes: usize, size: usize) -> String {
        let nearest = self.nearest_below(at.max(0) as usize);
        let nearest = nearest.map_or(String::new(), |name| {
            format!("; the nearest below is {name}")
        });
        format!(
            "{bytes} bytes at byte {at} of the block's shared memory, which has {size} bytes{nearest}"
        )
    }
}

/// Returns whether all bytes are written and equal `data`.
fn holds(bytes: &[u8], written: &[bool], data: &[u8]) -> bool {
    same(bytes, data) && all(written)
}

/// Returns the vector clock of an agent of a fresh cluster: only its own first step.
pub(crate) fn beginning(agents: usize, agent: usize) -> View {
    let mut view = View::new(agents);
    view.seen.raise(agent, 1);
    view
}

/// Starts the next step of an agent. A release publishes the clock before it, so what the agent does afterwards is not
/// ordered by that release.
pub(crate) fn tick(clock: &mut Clock, agent: usize) {
    clock.raise(agent, clock.get(agent) + 1);
}
