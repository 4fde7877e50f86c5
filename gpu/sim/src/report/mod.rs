//! The report of a simulation: its counts and warnings.

pub(crate) mod dump;
pub(crate) mod event;
pub(crate) mod fault;
#[cfg(feature = "serde")]
mod serialize;
pub(crate) mod show;
pub(crate) mod trace;

use core::fmt;
use std::panic::Location;

use event::Event;

/// The counts of one instruction of the kernel, over all warps.
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[derive(Clone, Debug, PartialEq)]
pub struct LineCount {
    /// The instruction.
    pub instruction: String,
    /// The call of the builder that made it.
    #[cfg_attr(
        feature = "serde",
        serde(flatten, serialize_with = "colex_ir::serialize::place")
    )]
    pub at: &'static Location<'static>,
    /// The number of times that a warp executed it.
    pub executed: u64,
    /// Shared memory: the passes over the banks.
    pub passes: u64,
    /// Shared memory: the passes without bank conflicts.
    pub least_passes: u64,
    /// Global memory: the 32-byte sectors that were accessed.
    pub sectors: u64,
    /// Global memory: the sectors that the same bytes would fill if they were contiguous.
    pub least_sectors: u64,
}

impl LineCount {
    /// Returns the passes lost to bank conflicts.
    pub fn bank_conflicts(&self) -> u64 {
        self.passes - self.least_passes
    }
}

/// A benign data race: formally a race, whose result does not depend on the order. The kernel ran to its end.
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The instruction.
    pub instruction: String,
    /// The call of the builder that made it.
    #[cfg_attr(
        feature = "serde",
        serde(flatten, serialize_with = "colex_ir::serialize::place")
    )]
    pub at: &'static Location<'static>,
    /// The sentence about the first occurrence.
    #[cfg_attr(feature = "serde", serde(rename = "sentence"))]
    pub what: String,
    /// The number of occurrences in this instruction, counted per thread.
    pub count: u64,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, line) = (self.at.file(), self.at.line());
        write!(f, "{file}:{line}: `{}`: {}", self.instruction, self.what)?;
        match self.count {
            1 => Ok(()),
            more => write!(f, "; {more} stores of this instruction do so"),
        }
    }
}

/// A line that a thread printed.
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// The coordinates of the block in the grid.
    pub block: [u32; 3],
    /// The coordinates of the thread in its block.
    pub thread: [u32; 3],
    /// The call of the builder.
    #[cfg_attr(
        feature = "serde",
        serde(flatten, serialize_with = "colex_ir::serialize::place")
    )]
    pub at: &'static Location<'static>,
    /// The line, without its end.
    pub text: String,
}

/// The report of a kernel's simulation.
///
/// The counts of [`lines`](Report::lines) are by instruction, in program order; each names the source line that built
/// it.
///
/// ```
/// use colex_atom::Arch;
/// use colex_ir::{Access, KernelBuilder, Space, Special, Type};
/// use colex_sim::{Memory, SimOptions, simulate};
/// use colex_ir::launch::Launch;
///
/// // Each thread of a warp writes the first word of a row of 128 bytes: all are in one bank.
/// let mut k = KernelBuilder::new("column", Arch::Sm80);
/// let tile = k.shared("tile", 4096, 16);
/// let base = k.address_of(tile);
/// let thread = k.mov(Type::U32, Special::Tid(0));
/// let row = k.mad(Type::U32, thread, 128, base);
/// k.store(Access::new(Space::Shared, Type::U32), row, thread);
/// let report = simulate(&k.finish(), &Launch::new(1, 32), &[], &mut Memory::default(), &SimOptions::default())?;
/// let text = report.to_string();
/// assert!(text.starts_with(
///     "1 blocks, 4 instructions of warps; a thread names 3 registers of 32 bits, a block has 4096 bytes of shared memory\n\
///      global memory: 0 sectors of 32 bytes, and 0 would do; shared memory: 31 passes lost to bank conflicts\n"
/// ));
/// assert!(text.ends_with("`st.shared.u32 [%r2], %r1`: 32 passes of 1\n"));
/// # Ok::<(), colex_sim::Fault>(())
/// ```
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The number of instructions that all warps executed.
    pub instructions: u64,
    /// The number of blocks.
    pub blocks: u64,
    /// The virtual registers of a thread, in 32-bit registers.
    pub registers: u32,
    /// The shared memory of a block in bytes, static and dynamic.
    pub shared: u32,
    /// The counts of each instruction.
    pub lines: Vec<LineCount>,
    /// Unordered stores of the same value by two blocks.
    pub warnings: Vec<Warning>,
    /// The events at barriers and in shared memory, if [`SimOptions::events`](crate::SimOptions::events) is set.
    pub events: Vec<Event>,
    /// The lines that the kernel printed, in the order of execution.
    pub printed: Vec<Printed>,
}

impl Report {
    /// Returns the passes lost to bank conflicts by all instructions.
    pub fn bank_conflicts(&self) -> u64 {
        self.lines.iter().map(LineCount::bank_conflicts).sum()
    }

    /// Returns the sectors of global memory that all instructions accessed, and the sectors that the same bytes would
    /// fill.
    pub fn sectors(&self) -> (u64, u64) {
        let sum = |of: fn(&LineCount) -> u64| self.lines.iter().map(of).sum();
        (sum(|line| line.sectors), sum(|line| line.least_sectors))
    }
}

/// What was executed, and the lines whose accesses cost more than they must.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sectors, least) = self.sectors();
        writeln!(
            f,
            "{} blocks, {} instructions of warps; a thread names {} registers of 32 bits, a block has {} bytes of shared \
             memory",
            self.blocks, self.instructions, self.registers, self.shared
        )?;
        writeln!(
            f,
            "global memory: {sectors} sectors of 32 bytes, and {least} would do; shared memory: {} passes lost to bank \
             conflicts",
            self.bank_conflicts()
        )?;
        for line in &self.lines {
            let place = format!(
                "{}:{}: `{}`",
                line.at.file(),
                line.at.line(),
                line.instruction
            );
            if line.bank_conflicts() > 0 {
                writeln!(
                    f,
                    "{place}: {} passes of {}",
                    line.passes, line.least_passes
                )?;
            }
            if line.sectors > line.least_sectors {
                writeln!(
                    f,
                    "{place}: {} sectors of {}",
                    line.sectors, line.least_sectors
                )?;
            }
        }
        self.warnings
            .iter()
            .try_for_each(|warning| writeln!(f, "{warning}"))
    }
}

/// The counts of one instruction while it runs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) executed: u64,
    pub(crate) passes: u64,
    pub(crate) least_passes: u64,
    pub(crate) sectors: u64,
    pub(crate) least_sectors: u64,
}

impl Count {
    /// Adds those of other warps.
    pub(crate) fn add(&mut self, other: &Count) {
        self.executed += other.executed;
        self.passes += other.passes;
        self.least_passes += other.least_passes;
        self.sectors += other.sectors;
        self.least_sectors += other.least_sectors;
    }
}
