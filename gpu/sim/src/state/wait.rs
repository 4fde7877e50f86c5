//! The reasons for which a warp waits.

/// The reason why a warp does not continue.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wait {
    /// A named barrier of its block, at the time that `round` rounds were complete.
    Named { id: usize, round: u64 },
    /// The cluster's barrier, at the time that `phase` phases were complete.
    Cluster { phase: u64 },
    /// Barriers in shared memory: block, place and parity of each, and the lanes that wait.
    Mbarriers(Vec<(usize, usize, u64)>, u32),
    /// Asynchronous operations, by number. The sources only of those that have read them, if `read`.
    Operations { numbers: Vec<u64>, read: bool },
    /// Until this number of registers is free for its warp.
    Registers(i64),
}
