//! Reads of bytes that are not written yet: which access would have written them.
//!
//! The simulator stops a reader of such bytes and lets all other warps continue. No thread can observe anything after a read
//! that is not complete, so a write of the bytes that happens now is not ordered after the read; and it was not ordered
//! before it. The two are a data race in either order. When no other warp can continue, no write precedes the read. The
//! readers then get zeros and continue for a while, only to find the access that writes the bytes too late.

use super::Machine;
use super::place::Target;
use super::port::{Accessor, Site};
use super::race_text::{CurrentAccess, EarlierAccess};
use super::running::{Cluster, Progress};
use crate::order::clock::{Epoch, Proxy, View};
use crate::order::hash::Map;
use crate::order::lockstep::Lockstep;
use crate::report::fault::{Fault, FaultKind};
use crate::state::block::Group;

/// The number of reads that are remembered. The first ones suffice for a report.
const MOST: usize = 64;

/// The number of instructions that all warps may execute in a row without a store, an arrival or the like, once a read
/// waits for its bytes. After it, the running warps are taken to wait for the reader.
const QUIET: u64 = 1 << 21;

/// The number of instructions that the readers may execute with zeros in place of the bytes.
const WITH_ZEROS: u64 = 1 << 18;

/// The use that a thread or an engine makes of bytes that are not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    /// As a barrier.
    Barrier,
}

impl Use {
    fn word(self) -> &'static str {
        match self {
            Use::Read => "read",
            Use::Barrier => "use",
        }
    }
}

/// A read of bytes that are not written yet.
#[derive(Debug)]
pub(crate) struct Suspect {
    /// The fault to report if they are never written.
    fault: Fault,
    used: Use,
    /// The bytes, in the cluster of that number.
    cluster: u32,
    target: Target,
    bytes: usize,
    /// The reader, and what was known there.
    site: Site,
    agent: usize,
    clock: u32,
    proxy: Proxy,
    view: View,
    warp: usize,
    lockstep: Lockstep,
    /// The access that writes them after the read, in words.
    later: Option<String>,
}

impl Suspect {
    fn accessor(&self) -> Accessor<'_> {
        Accessor {
            site: self.site,
            agent: self.agent,
            clock: self.clock,
            proxy: self.proxy,
            view: &self.view,
            warp: self.warp,
            lockstep: &self.lockstep,
        }
    }

    fn epoch(&self) -> Epoch {
        self.accessor().epoch()
    }

    /// The first byte of an access that this one wants too, counted from the beginning of that access.
    fn shares(&self, cluster: u32, target: Target, bytes: usize) -> Option<std::ops::Range<usize>> {
        let (own, other) = match (self.target, target) {
            (Target::Global(own), Target::Global(other)) => (own, other),
            (
                Target::Shared { block, at: own },
                Target::Shared {
                    block: there,
                    at: other,
                },
            ) if block == there && cluster == self.cluster => (own as u64, other as u64),
            _ => return None,
        };
        let first = own.max(other);
        let end = (own + self.bytes as u64).min(other + bytes as u64);
        (first < end).then(|| (first - other) as usize..(end - other) as usize)
    }

    /// Whether an access of a cluster is ordered after this read.
    fn before(&self, cluster: u32, accessor: &Accessor<'_>) -> bool {
        if cluster == self.cluster {
            accessor.knows(self.epoch())
        } else {
            let known = accessor.view.of(self.cluster);
            known.is_some_and(|(seen, _)| self.epoch().before(seen))
        }
    }
}

/// The reads that wait for their bytes, and what became of them.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    all: Vec<Suspect>,
    /// The read that has just failed, until its warp or engine has been stopped.
    caught: Option<Suspect>,
    /// The cluster of the first one, in which no warp can continue.
    parked: Option<Cluster>,
    /// Whether a fault names the writer of the bytes of one.
    named: bool,
    /// How many instructions had been executed when a thread or an engine last did something that others may wait for.
    active: u64,
}

impl Suspects {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Records progress that others may wait for, at this count of executed instructions.
    pub(crate) fn served(&mut self, executed: u64) {
        self.active = executed;
    }

    /// Whether no warp has made progress for others for long, though a read waits for that.
    pub(crate) fn in_vain(&self, executed: u64) -> bool {
        !self.is_empty() && executed.saturating_sub(self.active) > QUIET
    }

    /// Whether a read of the cluster waits for its bytes.
    pub(crate) fn holds(&self, cluster: u32) -> bool {
        self.all.iter().any(|suspect| suspect.cluster == cluster)
    }
}

impl Machine<'_, '_> {
    /// Records a use of bytes that are not written; the fault is reported if no write follows.
    pub(crate) fn catch(
        &mut self,
        g: &Group,
        accessor: &Accessor<'_>,
        (target, bytes): (Target, usize),
        used: Use,
        fault: Fault,
    ) -> Fault {
        // Without the histories it is not known what is ordered.
        if self.options.races {
            self.suspects.caught = Some(Suspect {
                fault: fault.clone(),
                used,
                cluster: g.number,
                target,
                bytes,
                site: accessor.site,
                agent: accessor.agent,
                clock: accessor.clock,
                proxy: accessor.proxy,
                view: accessor.view.clone(),
                warp: accessor.warp,
                lockstep: accessor.lockstep.clone(),
                later: None,
            });
        }
        fault
    }

    /// Whether a fault is a read that is to wait for its bytes; it is remembered.
    pub(crate) fn waits(&mut self) -> bool {
        let Some(suspect) = self.suspects.caught.take() else {
            return false;
        };
        if self.suspects.is_empty() {
            self.suspects.active = self.executed;
        }
        if self.suspects.all.len() < MOST {
            self.suspects.all.push(suspect);
        }
        true
    }

    /// Called before a write: if a read waits for them, nothing orders the two, or the write comes too late.
    pub(crate) fn meet_suspects(
        &mut self,
        g: &mut Group,
        accessor: &Accessor<'_>,
        target: Target,
        bytes: usize,
    ) -> Result<(), Fault> {
        for i in 0..self.suspects.all.len() {
            let Some(range) = self.suspects.all[i].shares(g.number, target, bytes) else {
                continue;
            };
            let Some(at) = self.first_unwritten(g, target, range) else {
                continue;
            };
            let suspect = &self.suspects.all[i];
            if suspect.before(g.number, accessor) {
                if suspect.later.is_none() {
                    let writer = self.accused(g, accessor, suspect.cluster);
                    self.suspects.all[i].later = Some(writer);
                }
                continue;
            }
            let fault = self.unordered(g, suspect, accessor, target.after(at));
            self.suspects.named = true;
            return Err(fault);
        }
        Ok(())
    }

    /// The first byte of a part of an access that is not written.
    fn first_unwritten(
        &mut self,
        g: &Group,
        target: Target,
        range: std::ops::Range<usize>,
    ) -> Option<usize> {
        let written = match target {
            Target::Global(address) => {
                let first = address + range.start as u64;
                self.memory.get(first, range.len() as u64).ok()?.1
            }
            Target::Shared { block, at } => {
                &g.blocks[block].written[at + range.start..at + range.end]
            }
            Target::Param(_) => return None,
        };
        let first = written.iter().position(|written| !written)?;
        Some(range.start + first)
    }

    /// The fault of a read that nothing orders after the write of its bytes.
    fn unordered(
        &self,
        g: &Group,
        suspect: &Suspect,
        writer: &Accessor<'_>,
        byte: Target,
    ) -> Fault {
        let reader = suspect.accessor();
        let what = format!(
            "{} is {} by {}, which nothing orders before this {}: {}",
            self.byte_name(byte),
            match suspect.used {
                Use::Read => "written",
                Use::Barrier => "initialised",
            },
            self.accused(g, writer, suspect.cluster),
            suspect.used.word(),
            self.remedy(
                g,
                CurrentAccess {
                    accessor: &reader,
                    cluster: suspect.cluster,
                    writes: false,
                },
                EarlierAccess {
                    epoch: writer.epoch(),
                    cluster: g.number,
                    writes: true,
                },
            ),
        );
        let atomic = |accessor: &Accessor<'_>| accessor.proxy == Proxy::Atomic;
        let kind = match suspect.used {
            // Atomic accesses do not race, and yet the one may come before the other.
            Use::Read if atomic(&reader) && atomic(writer) => FaultKind::Uninitialised,
            Use::Read | Use::Barrier => FaultKind::Race,
        };
        match suspect.fault.place() {
            Some(place) => Fault::new(kind, what).at(place.clone()),
            None => Fault::new(kind, what),
        }
    }

    /// A cluster in which no warp can continue, because of reads that wait for their bytes. Others may still write those in
    /// global memory.
    pub(crate) fn park(&mut self, cluster: Cluster) -> Result<(), Fault> {
        let first = self.suspects.all.first();
        let Some(first) = first.filter(|first| first.cluster == cluster.group.number) else {
            return Ok(());
        };
        let local = matches!(first.target, Target::Shared { .. });
        self.suspects.parked = Some(cluster);
        if local { Err(self.verdict()) } else { Ok(()) }
    }

    /// No warp has made progress for the readers for long.
    pub(crate) fn give_up(&mut self, running: Vec<Cluster>) -> Fault {
        self.headline(Fault::new(FaultKind::Limit, ""), running)
    }

    /// What a fault stands for, in clusters that run, if a read waits for its bytes.
    pub(crate) fn headline(&mut self, fault: Fault, running: Vec<Cluster>) -> Fault {
        use FaultKind::{
            Barrier, Deadlock, Divergence, EarlyExit, InFlight, Launch, Limit, Misaligned,
            MissingFence, Operand, OutOfBounds, Race, Trap, Uninitialised, Unsupported,
        };
        let consequence = match fault.kind() {
            Deadlock | Limit | Trap => true,
            Launch | OutOfBounds | Misaligned | Uninitialised | Race | MissingFence | InFlight
            | EarlyExit | Divergence | Barrier | Operand | Unsupported => false,
        };
        let Some(first) = self.suspects.all.first().filter(|_| consequence) else {
            return fault;
        };
        let number = first.cluster;
        let mut running = running.into_iter();
        if let Some(cluster) = running.find(|cluster| cluster.group.number == number) {
            self.suspects.parked = Some(cluster);
        }
        self.verdict()
    }

    /// The end of a launch: reads that wait for their bytes have waited in vain.
    pub(crate) fn last_word(&mut self) -> Result<(), Fault> {
        if self.suspects.is_empty() {
            Ok(())
        } else {
            Err(self.verdict())
        }
    }

    /// The fault of the first read that waits for its bytes.
    fn verdict(&mut self) -> Fault {
        if let Some(cluster) = self.suspects.parked.take()
            && let Some(fault) = self.with_zeros(cluster)
        {
            return fault;
        }
        let late = self.suspects.all.iter().position(|s| s.later.is_some());
        let suspect = &self.suspects.all[late.unwrap_or(0)];
        match &suspect.later {
            None => suspect.fault.clone(),
            Some(later) => suspect.fault.saying(|what| {
                format!(
                    "{what}: {later} {} it only after this {}",
                    match suspect.used {
                        Use::Read => "writes",
                        Use::Barrier => "initialises",
                    },
                    suspect.used.word()
                )
            }),
        }
    }

    /// Lets readers go on with zeros, until a write of what they should have read.
    fn with_zeros(&mut self, mut cluster: Cluster) -> Option<Fault> {
        self.options.uninitialised = false;
        cluster.thaw();
        let end = self.executed + WITH_ZEROS;
        self.options.max_instructions = end;
        loop {
            match self.advance(&mut cluster) {
                Ok(Progress::More | Progress::Idle) if self.executed < end => {}
                Err(fault) if self.suspects.named => return Some(fault),
                _ => return None,
            }
        }
    }
}

/// A byte of memory: of global memory by its address, of shared memory by cluster, block and place.
type Byte = (Option<(u32, usize)>, u64);

/// The most warps whose writes are remembered of a byte.
const WRITES: usize = 8;

/// Bytes that were first written by atomic or ordered stores, which do not race with reads of their kind: a read that
/// knows of no write may come before all of them.
#[derive(Debug, Default)]
pub(crate) struct Firsts(Map<Byte, Vec<(u32, Epoch)>>);

impl Firsts {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn bytes_of(g: &Group, target: Target, count: usize) -> impl Iterator<Item = Byte> {
    let (home, first) = match target {
        Target::Global(address) => (None, address),
        Target::Shared { block, at } => (Some((g.number, block)), at as u64),
        Target::Param(at) => (None, at as u64),
    };
    (0..count as u64).map(move |i| (home, first + i))
}

impl Machine<'_, '_> {
    /// Remembers an atomic write to bytes of which some were not written, or to bytes that began so.
    pub(crate) fn remember_first(
        &mut self,
        g: &Group,
        accessor: &Accessor<'_>,
        target: Target,
        written: &[bool],
    ) {
        let own = (g.number, accessor.epoch());
        for (byte, written) in bytes_of(g, target, written.len()).zip(written) {
            if !written {
                self.firsts.0.insert(byte, vec![own]);
            } else if let Some(all) = self.firsts.0.get_mut(&byte) {
                // Of each warp the earliest tells most.
                let same = |(cluster, epoch): &(u32, Epoch)| {
                    *cluster == own.0 && epoch.agent() == own.1.agent()
                };
                if all.iter().any(same) {
                    continue;
                }
                if all.len() < WRITES {
                    all.push(own);
                } else {
                    self.firsts.0.remove(&byte);
                }
            }
        }
    }

    /// Forgets bytes that a plain write has made ready.
    pub(crate) fn forget_first(&mut self, g: &Group, target: Target, count: usize) {
        for byte in bytes_of(g, target, count) {
            self.firsts.0.remove(&byte);
        }
    }

    /// Refuses an atomic read that may come before every write of a byte.
    pub(crate) fn check_first(
        &self,
        g: &Group,
        accessor: &Accessor<'_>,
        target: Target,
        count: usize,
    ) -> Result<(), Fault> {
        for (i, byte) in bytes_of(g, target, count).enumerate() {
            let Some(writes) = self.firsts.0.get(&byte) else {
                continue;
            };
            let known = |(cluster, epoch): &(u32, Epoch)| {
                if *cluster == g.number {
                    accessor.knows(*epoch)
                } else {
                    let known = accessor.view.of(*cluster);
                    known.is_some_and(|(seen, _)| epoch.before(seen))
                }
            };
            if writes.iter().any(known) {
                continue;
            }
            let (cluster, epoch) = writes[0];
            let reader = CurrentAccess {
                accessor,
                cluster: g.number,
                writes: false,
            };
            let writer = EarlierAccess {
                epoch,
                cluster,
                writes: true,
            };
            let what = format!(
                "{} is written by {}, which nothing orders before this read: {}",
                self.byte_name(target.after(i)),
                self.accused_at(g, epoch, cluster, g.number),
                self.remedy(g, reader, writer),
            );
            return Err(self.fault(g, &accessor.site, FaultKind::Uninitialised, what));
        }
        Ok(())
    }
}
