//! What chosen threads have executed.

use core::fmt;
use std::ops::RangeInclusive;
use std::panic::Location;

/// Which instructions a trace lists.
///
/// ```
/// use colex_sim::TraceOptions;
///
/// let options = TraceOptions::of_thread([0, 0, 0], [5, 0, 0]);
/// assert_eq!((options.threads.len(), options.skip, options.first), (1, 0, 1000));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceOptions {
    /// The threads, each by the coordinates of its block in the grid and its own in the block.
    pub threads: Vec<([u32; 3], [u32; 3])>,
    /// The instructions that are left out first.
    pub skip: usize,
    /// The most instructions that are listed.
    pub first: usize,
    /// The only source lines whose instructions are listed: a file whose path ends so, and its lines.
    pub lines: Option<(String, RangeInclusive<u32>)>,
}

impl TraceOptions {
    /// Returns the options of the first 1000 instructions of one thread.
    pub fn of_thread(block: [u32; 3], thread: [u32; 3]) -> TraceOptions {
        TraceOptions {
            threads: vec![(block, thread)],
            skip: 0,
            first: 1000,
            lines: None,
        }
    }

    pub(crate) fn takes_line(&self, at: &Location<'_>) -> bool {
        let takes = |(file, lines): &(String, RangeInclusive<u32>)| {
            at.file().ends_with(&file[..]) && lines.contains(&at.line())
        };
        self.lines.as_ref().is_none_or(takes)
    }
}

/// An instruction that a thread executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    /// The coordinates of the block in the grid.
    pub block: [u32; 3],
    /// The coordinates of the thread in its block.
    pub thread: [u32; 3],
    /// The call of the builder.
    pub at: &'static Location<'static>,
    /// The instruction.
    pub instruction: String,
    /// The registers that it read, then its addresses, each with its value.
    pub reads: Vec<(String, String)>,
    /// The registers that it wrote, each with its value.
    pub writes: Vec<(String, String)>,
}

/// The instructions that the chosen threads executed, in the order of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The instructions.
    pub steps: Vec<Traced>,
    /// The number of instructions of these threads and lines, listed or not.
    pub seen: usize,
}

/// `kernel.rs:12  block (0,0,0) thread (5,0,0)  %f2 = add.f32 %f0, %f1  %f0=1 %f1=2 -> %f2=3`
impl fmt::Display for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [bx, by, bz] = self.block;
        let [x, y, z] = self.thread;
        let file = self.at.file().rsplit('/').next().unwrap_or_default();
        write!(
            f,
            "{file}:{}  block ({bx},{by},{bz}) thread ({x},{y},{z})  {}",
            self.at.line(),
            self.instruction
        )?;
        let list = |values: &[(String, String)]| {
            let words: Vec<String> = values
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            words.join(" ")
        };
        if !self.reads.is_empty() {
            write!(f, "  {}", list(&self.reads))?;
        }
        if !self.writes.is_empty() {
            write!(f, "  -> {}", list(&self.writes))?;
        }
        Ok(())
    }
}

/// A line for each instruction, and how many are not listed.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps
            .iter()
            .try_for_each(|step| writeln!(f, "{step}"))?;
        match self.seen - self.steps.len() {
            0 => Ok(()),
            more => writeln!(f, "{more} more are not listed"),
        }
    }
}
