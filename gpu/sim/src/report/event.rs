//! Events of warps and asynchronous engines at barriers and in shared memory, in the order in which they happened.

use std::panic::Location;

/// A barrier in shared memory: the rank of its block in the cluster, and the place of its first byte there.
pub type BarrierAt = (usize, usize);

/// A contiguous range of bytes of shared memory.
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharedBytes {
    /// The rank of their block in the cluster.
    pub block: usize,
    /// The offset of the first byte.
    pub start: usize,
    /// The offset after the last byte.
    pub end: usize,
}

impl SharedBytes {
    pub(crate) fn new(block: usize, start: usize, count: usize) -> Self {
        SharedBytes {
            block,
            start,
            end: start + count,
        }
    }
}

/// One event, listed if [`SimOptions::events`](crate::SimOptions::events) is set.
///
/// ```
/// use colex_atom::Arch;
/// use colex_ir::launch::Launch;
/// use colex_ir::{FenceKind, KernelBuilder};
/// use colex_sim::{EventKind, Memory, SimOptions, simulate};
///
/// let mut k = KernelBuilder::new("alone", Arch::Sm90);
/// let barrier = k.shared("barrier", 8, 8);
/// let leads = k.elect();
/// k.if_(leads, |k| {
///     k.mbarrier_init(barrier, 1);
///     k.fence(FenceKind::MbarrierInit);
///     k.mbarrier_arrive(barrier);
/// });
/// k.warp_sync();
/// k.mbarrier_wait(barrier, 0);
/// let options = SimOptions { events: true, ..SimOptions::default() };
/// let report = simulate(&k.finish(), &Launch::new(1, 32), &[], &mut Memory::default(), &options)?;
/// let last: Vec<&EventKind> = report.events.iter().rev().take(2).map(|event| &event.kind).collect();
/// assert_eq!(*last[1], EventKind::Arrive { barrier: (0, 0), count: 1, bytes: 0 });
/// assert_eq!(*last[0], EventKind::Wait { barrier: (0, 0), parity: 0 });
/// # Ok::<(), colex_sim::Fault>(())
/// ```
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The number of the cluster in the launch.
    pub cluster: u32,
    /// The rank of the warp's block in the cluster.
    pub block: usize,
    /// The warp's number in its block: the one that executed the instruction.
    pub warp: usize,
    /// The call of the builder that made the instruction.
    #[cfg_attr(
        feature = "serde",
        serde(flatten, serialize_with = "colex_ir::serialize::place")
    )]
    pub at: &'static Location<'static>,
    /// The kind of the event.
    pub kind: EventKind,
}

/// The asynchronous operations that complete in groups. Each kind has its own groups.
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "snake_case")
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grouped {
    /// Copies of single threads: `cp.async`.
    Copies,
    /// Bulk copies out of shared memory: `cp.async.bulk`.
    Stores,
    /// Products of a warpgroup: `wgmma`.
    Products,
}

/// The kind of an event. Asynchronous operations have a number that is unique in a cluster.
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "snake_case")
)]
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind {
    /// `mbarrier.init`.
    Init {
        /// The barrier.
        barrier: BarrierAt,
        /// The arrivals of a phase.
        arrivals: u32,
    },
    /// `mbarrier.arrive`, by one lane or several.
    Arrive {
        /// The barrier.
        barrier: BarrierAt,
        /// The arrivals of all lanes together.
        count: u32,
        /// The bytes that the phase then also waits for.
        bytes: i64,
    },
    /// `mbarrier.expect_tx`, which does not arrive.
    Expect {
        /// The barrier.
        barrier: BarrierAt,
        /// The bytes.
        bytes: i64,
    },
    /// An arrival that follows the copies of a thread: `cp.async.mbarrier.arrive`.
    ArriveAfterCopies {
        /// The barrier.
        barrier: BarrierAt,
    },
    /// A wait for a phase, listed when it begins. A `test_wait` or `try_wait` is listed when it finds the phase
    /// complete.
    Wait {
        /// The barrier.
        barrier: BarrierAt,
        /// The parity of the phase.
        parity: u8,
    },
    /// An asynchronous copy that reads or writes shared memory begins.
    Copy {
        /// Its number.
        number: u64,
        /// The bytes of shared memory that it will write.
        to: Vec<SharedBytes>,
        /// The barriers that count its bytes.
        tells: Vec<(BarrierAt, i64)>,
        /// Whether it belongs to the groups of `cp.async`.
        grouped: bool,
    },
    /// A copy has written its bytes.
    Landed {
        /// Its number.
        number: u64,
    },
    /// A warp takes part in a product of its warpgroup.
    Product {
        /// Its number.
        number: u64,
    },
    /// Shared memory is read: by an instruction of the warp, or by an operation.
    Read {
        /// The number of the operation.
        by: Option<u64>,
        /// The bytes that are read.
        from: Vec<SharedBytes>,
    },
    /// An instruction of the warp writes shared memory.
    Write {
        /// The bytes that are written.
        to: Vec<SharedBytes>,
    },
    /// The operations since the last one form a group.
    Commit(Grouped),
    /// A wait until at most this number of groups is in flight.
    WaitGroups(Grouped, u32),
    /// A barrier of the block: `barrier.sync`, or with `waits` false `barrier.arrive`.
    Named {
        /// Its number.
        id: usize,
        /// The threads that take part; all of the block without a number.
        threads: Option<u32>,
        /// Whether the warp waits for the others.
        waits: bool,
    },
    /// An arrival at the cluster's barrier.
    ClusterArrive,
    /// A wait at the cluster's barrier.
    ClusterWait,
}

impl EventKind {
    /// Takes in what another lane, or the next bytes, of the same instruction did; gives it back if that is something else.
    fn join(&mut self, next: EventKind) -> Result<(), EventKind> {
        match (self, next) {
            (
                EventKind::Arrive {
                    barrier,
                    count,
                    bytes,
                },
                EventKind::Arrive {
                    barrier: other,
                    count: more,
                    bytes: others,
                },
            ) if *barrier == other => {
                *count += more;
                *bytes += others;
                Ok(())
            }
            (
                EventKind::Read { by, from },
                EventKind::Read {
                    by: other,
                    from: more,
                },
            ) if *by == other => {
                more.into_iter().for_each(|bytes| add(from, bytes));
                Ok(())
            }
            (EventKind::Write { to }, EventKind::Write { to: more }) => {
                more.into_iter().for_each(|bytes| add(to, bytes));
                Ok(())
            }
            (own @ EventKind::Wait { .. }, next) if *own == next => Ok(()),
            (_, next) => Err(next),
        }
    }
}

/// Adds bytes to a list, to its last entry if they follow that.
pub(crate) fn add(list: &mut Vec<SharedBytes>, bytes: SharedBytes) {
    match list.last_mut() {
        Some(last) if last.block == bytes.block && last.end == bytes.start => last.end = bytes.end,
        _ => list.push(bytes),
    }
}

/// Adds an event to a list, to the last one if the same instruction did both.
pub(crate) fn push(list: &mut Vec<Event>, event: Event) {
    let same = |last: &&mut Event| {
        let place = |e: &Event| (e.cluster, e.block, e.warp, e.at);
        place(last) == place(&event)
    };
    let kind = match list.last_mut().filter(same) {
        None => return list.push(event),
        Some(last) => match last.kind.join(event.kind) {
            Ok(()) => return,
            Err(kind) => kind,
        },
    };
    list.push(Event { kind, ..event });
}
