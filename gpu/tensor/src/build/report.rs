//! The report of a kernel: the memory traffic of its copies and the counts of its matrix instructions, from the
//! addresses that they were built with.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::panic::Location;

use colex_atom::{Access, Banks, SECTOR_BYTES, Space, Touched};

use super::Builder;
use crate::index::Index;
use colex_ir::Reg;

/// The report of a kernel: one line for each call of `copy` or `mma`, in program order.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub(crate) lines: Vec<Line>,
    pub(crate) values: Values,
}

/// The values of registers with which addresses are evaluated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    /// The indices of the thread along the axes of the block: `number / places[0] % places[1]`.
    pub(crate) threads: HashMap<Reg, [i64; 2]>,
    /// Numbers of warps or warpgroups, with their threads.
    pub(crate) groups: HashMap<Reg, i64>,
    /// Counters of loops whose ends are constants, one after the other.
    pub(crate) counters: HashSet<Reg>,
    /// Arguments, as the layouts said that the kernel was built with.
    pub(crate) arguments: HashMap<Reg, i64>,
}

/// The report of one call of `copy` or `mma`.
#[derive(Clone, Debug)]
pub struct Line {
    /// The name of the atom.
    pub atom: String,
    /// The number of instructions that each thread issues.
    pub instructions: i64,
    /// The location of the call.
    pub at: &'static Location<'static>,
    /// Whether the instructions are predicated, or read only a part of their bytes.
    pub predicated: bool,
    /// What else there is to say.
    pub(crate) note: String,
    pub(crate) ends: Vec<End>,
}

/// One end of a copy in memory.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) side: &'static str,
    pub(crate) space: Space,
    pub(crate) bytes: i64,
    pub(crate) threads: i64,
    /// Where each instruction begins.
    pub(crate) addresses: Vec<Index>,
}

/// The traffic of the instructions of a call in one memory, summed over all warps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// `source` or `destination`.
    pub side: &'static str,
    /// The memory space.
    pub space: Space,
    /// The width of a thread's access in bytes.
    pub bytes: i64,
    /// The passes (wavefronts) over the banks of shared memory, or the 32-byte sectors of global memory.
    pub cost: usize,
    /// The fewest passes or sectors for the same bytes.
    pub least: usize,
    /// The degree of the worst bank conflict: 1 if there is none, and 0 for global memory.
    pub degree: usize,
}

impl Line {
    /// Returns the memory traffic of the call, which is empty for matrix instructions.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint32_t>")?, 32, "(4,8):(8,1)", "(1,1):(0,0)")?;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let a = k.tensor("a", Ty::F32, "(64,64):(64,1)");
    /// let src = copy.at(&k.thread()).partition_src(&a.local_tile((4, 8), (0, 0))); // (CPY, CPY_M, CPY_N)
    /// let held = k.fragment_like(&src);
    /// k.copy(&copy, &src, &held);
    /// let built = k.finish()?;
    /// let traffic = built.report().lines()[0].traffic(built.report());
    /// assert_eq!((traffic[0].side, traffic[0].cost), ("source", 4)); // 4 rows of 32 bytes, a sector each
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn traffic(&self, report: &Report) -> Vec<Traffic> {
        let ends = self.ends.iter();
        ends.filter_map(|end| end.traffic(&report.values)).collect()
    }
}

impl Report {
    /// Returns the lines of the report, one for each call, in the order of the kernel.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(1,1,1):(0,0,0)", (16, 8, 16))?;
    /// let [a, b] = [Operand::A, Operand::B].map(|operand| k.fragment_of(&mma, operand, [if operand == Operand::A { 32 } else { 16 }, 16]));
    /// # k.clear(&a);
    /// # k.clear(&b);
    /// let c = k.accumulators(&mma, (32, 16));
    /// k.mma(&mma, &c, &a, &b, &c);
    /// let built = k.finish()?;
    /// let line = &built.report().lines()[0];
    /// assert_eq!((&line.atom[..], line.instructions), ("SM80_16x8x16_F32F16F16F32_TN", 4));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }
}

impl Values {
    /// What a register holds in a thread, if the thread decides it.
    pub(crate) fn of_thread(&self, reg: Reg, thread: i64) -> Option<i64> {
        if let Some([before, extent]) = self.threads.get(&reg) {
            return Some(thread / before % extent);
        }
        self.groups.get(&reg).map(|threads| thread / threads)
    }

    /// Whether a register takes the ends of its range in every launch.
    pub(crate) fn is_bounded(&self, reg: Reg) -> bool {
        self.threads.contains_key(&reg)
            || self.groups.contains_key(&reg)
            || self.counters.contains(&reg)
    }

    fn of(&self, reg: Reg, thread: i64) -> i64 {
        let argument = self.arguments.get(&reg).copied();
        self.of_thread(reg, thread).or(argument).unwrap_or(0)
    }
}

impl End {
    /// `None` if an address cannot be evaluated, since it divides by a value that only the launch knows.
    fn traffic(&self, values: &Values) -> Option<Traffic> {
        let (mut cost, mut least, mut degree) = (0, 0, 0);
        for address in &self.addresses {
            for first in (0..self.threads).step_by(32) {
                let warp = first..self.threads.min(first + 32);
                let starts = warp.map(|t| address.eval(&|reg| Some(values.of(reg, t))));
                let starts: Vec<i64> = starts.collect::<Option<_>>()?;
                if self.space == Space::Global {
                    let touched = Touched::of(starts, self.bytes, SECTOR_BYTES);
                    cost += touched.blocks;
                    least += touched.least;
                    continue;
                }
                let conflicts = Access::from_bytes("copy", starts, self.bytes)
                    .ok()?
                    .conflicts(Banks::SHARED);
                cost += conflicts.passes();
                least += conflicts.phases.len();
                degree = degree.max(conflicts.degree());
            }
        }
        Some(Traffic {
            side: self.side,
            space: self.space,
            bytes: self.bytes,
            cost,
            least,
            degree,
        })
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Traffic {
            side,
            bytes,
            cost,
            least,
            degree,
            ..
        } = self;
        match self.space {
            Space::Global => write!(
                f,
                "{side}: vectors of {bytes} bytes touch {cost} sectors, and {least} would do"
            ),
            _ if *degree <= 1 => write!(
                f,
                "{side}: vectors of {bytes} bytes take {cost} passes, no bank conflicts"
            ),
            _ => write!(
                f,
                "{side}: vectors of {bytes} bytes take {cost} passes, and {least} would do: {degree} words meet in a bank"
            ),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            write!(
                f,
                "{} x {} ({}:{})",
                line.instructions,
                line.atom,
                line.at.file(),
                line.at.line()
            )?;
            let words = line.traffic(self).into_iter().map(|t| t.to_string());
            let words = Some(line.note.clone())
                .filter(|n| !n.is_empty())
                .into_iter()
                .chain(words);
            for (i, word) in words.enumerate() {
                write!(f, "{}{word}", if i == 0 { ": " } else { "; " })?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl Builder {
    pub(crate) fn note(&mut self, atom: String, instructions: i64, note: String, ends: Vec<End>) {
        let site = self.ir.set_location(None);
        self.ir.set_location(site);
        self.reports.lines.push(Line {
            predicated: false,
            atom,
            instructions,
            at: site.unwrap_or(Location::caller()),
            note,
            ends,
        });
    }
}
