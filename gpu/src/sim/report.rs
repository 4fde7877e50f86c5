//! What a simulation counted.

use std::panic::Location;

/// What one instruction of the kernel did, over all warps.
#[derive(Clone, Debug, PartialEq)]
pub struct LineCount {
    /// The instruction.
    pub instruction: String,
    /// The call of the builder that made it.
    pub at: &'static Location<'static>,
    /// How often a warp executed it.
    pub executed: u64,
    /// Shared memory: the passes that the banks needed.
    pub passes: u64,
    /// Shared memory: the passes that would have been enough without bank conflicts.
    pub least_passes: u64,
    /// Global memory: the sectors of 32 bytes that were touched.
    pub sectors: u64,
    /// Global memory: the sectors that the bytes would fill if they lay together.
    pub least_sectors: u64,
}

impl LineCount {
    /// The passes lost to bank conflicts.
    pub fn bank_conflicts(&self) -> u64 {
        self.passes - self.least_passes
    }
}

/// What a kernel did on the simulator.
///
/// [`line`](Report::lines) counts are by instruction, in program order; each names the source line that built it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// How many instructions all warps executed.
    pub instructions: u64,
    /// How many blocks ran.
    pub blocks: u64,
    /// 32-bit registers that a thread's virtual registers would fill.
    pub registers: u32,
    /// Bytes of shared memory of a block, static and dynamic.
    pub shared: u32,
    /// What each instruction did.
    pub lines: Vec<LineCount>,
}

impl Report {
    /// The passes lost to bank conflicts by all instructions.
    pub fn bank_conflicts(&self) -> u64 {
        self.lines.iter().map(LineCount::bank_conflicts).sum()
    }

    /// The sectors of global memory that all instructions touched, and how many would have been enough.
    pub fn sectors(&self) -> (u64, u64) {
        let sum = |of: fn(&LineCount) -> u64| self.lines.iter().map(of).sum();
        (sum(|line| line.sectors), sum(|line| line.least_sectors))
    }
}

/// The counts of one instruction while it runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) executed: u64,
    pub(super) passes: u64,
    pub(super) least_passes: u64,
    pub(super) sectors: u64,
    pub(super) least_sectors: u64,
}
