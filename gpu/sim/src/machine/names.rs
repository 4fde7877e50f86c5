//! Names for places: threads, buffers, variables in shared memory; and the report.

use super::Machine;
use super::place::Target;
use super::port::Site;
use crate::report::{LineCount, Report, Warning};
use colex_ir::launch::Argument;
use colex_ir::{Control, Escaped, RegType, SharedRegion, Stmt};

impl Machine<'_, '_> {
    /// The place of a thread of the block.
    pub(crate) fn thread(&self, number: u32) -> [u32; 3] {
        let [x, y, _] = self.launch.block;
        [number % x, number / x % y, number / x / y]
    }

    /// The place in the grid of a block of a cluster.
    pub(crate) fn block_at(&self, cluster: u32, rank: usize) -> [u32; 3] {
        let (size, grid) = (self.launch.cluster, self.launch.grid);
        let cluster = self.devices.within(cluster);
        let [x, y] = [0, 1].map(|axis| (grid[axis] / size[axis].max(1)).max(1));
        let at = [cluster % x, cluster / x % y, cluster / x / y];
        let rank = rank as u32;
        let inside = [
            rank % size[0],
            rank / size[0] % size[1],
            rank / size[0] / size[1],
        ];
        [0, 1, 2].map(|axis| at[axis] * size[axis] + inside[axis])
    }

    /// The instruction, as the kernel's listing has it.
    pub(crate) fn instruction(&self, stmt: &Stmt) -> String {
        use Control::{Break, Comment, Continue, Exit, If, Loop, Trap};
        // A comment is a step where a declaration is checked.
        match stmt.op.control() {
            Some(Comment(_)) => "the range of an integer".to_string(),
            Some(If { .. } | Loop { .. } | Break | Continue | Exit | Trap) | None => {
                colex_ir::instruction(self.program.kernel, &stmt.op)
            }
        }
    }

    /// `` `st.shared.u32 ..` (file.rs:12) ``
    pub(crate) fn described(&self, site: &Site) -> String {
        match self.program.stmts.get(site.pc).copied().flatten() {
            Some(stmt) => format!(
                "`{}` ({}:{})",
                self.instruction(stmt),
                stmt.at.file(),
                stmt.at.line()
            ),
            None => "something".to_string(),
        }
    }

    /// The parameter that points to an allocation, or its address.
    pub(crate) fn buffer_name(&self, allocation: u64) -> String {
        let params = &self.program.kernel.params;
        let points = |argument: &Argument| match argument {
            Argument::Pointer(at) | Argument::U64(at) => *at >= allocation,
            Argument::TensorMap(map) => map.address >= allocation,
            Argument::U16(_) | Argument::U32(_) | Argument::F32(_) | Argument::F64(_) => false,
        };
        let address = |argument: &Argument| match argument {
            Argument::Pointer(at) | Argument::U64(at) => *at,
            Argument::TensorMap(map) => map.address,
            Argument::U16(_) | Argument::U32(_) | Argument::F32(_) | Argument::F64(_) => u64::MAX,
        };
        let owner = self.memory.rank_of(allocation, 0).unwrap_or(0);
        // The owner's name for it, or else another rank's.
        let ranks = [owner].into_iter().chain(0..self.devices.count());
        let name = ranks.into_iter().find_map(|rank| {
            let all = params.iter().zip(self.devices.arguments(rank));
            let named = all.filter(|(_, a)| points(a));
            let nearest = named.min_by_key(|(_, argument)| address(argument));
            let nearest = nearest.filter(|(_, a)| self.memory.holds(allocation, address(a)));
            nearest.map(|(param, _)| format!("`{}`", Escaped(&param.name)))
        });
        let name = name.unwrap_or_else(|| format!("the allocation at {allocation:#x}"));
        format!("{name}{}", self.devices.suffix(owner))
    }

    /// The variable of shared memory at or before a place: its name, beginning and bytes.
    fn variable(&self, at: usize) -> Option<(String, usize, usize)> {
        let statics = self.program.kernel.shared.iter().zip(&self.program.shared);
        let statics = statics.map(|(v, start)| {
            let name = format!("`{}`", Escaped(&v.name));
            (name, *start as usize, v.bytes as usize)
        });
        let dynamic = (self.launch.dynamic_shared > 0).then(|| {
            let bytes = self.launch.dynamic_shared as usize;
            let name = "dynamic shared memory".to_string();
            (name, self.dynamic_at as usize, bytes)
        });
        statics
            .chain(dynamic)
            .filter(|(_, start, _)| *start <= at)
            .max_by_key(|(_, start, _)| *start)
    }

    /// The described part of dynamic shared memory at or before a place, and the bytes from its beginning to there.
    fn region(&self, at: usize) -> Option<(&SharedRegion, u32)> {
        let at = (at as u64).checked_sub(u64::from(self.dynamic_at))?;
        let at = u32::try_from(at).ok()?;
        let regions = &self.program.kernel.shared_regions;
        let before = regions.iter().rev().find(|region| region.start <= at)?;
        Some((before, at - before.start))
    }

    /// A byte of shared memory: ``byte 4 of `tile` ``, ``element (0,1) of `tile`, the shared ..``
    pub(crate) fn shared_name(&self, at: usize) -> String {
        let region = self.region(at);
        if let Some((region, inside)) = region.filter(|(region, inside)| *inside < region.bytes) {
            return region.describe(inside);
        }
        let beyond = region.map_or(String::new(), |(region, inside)| {
            let title = region.title();
            format!(", {} bytes after the end of {title}", inside - region.bytes)
        });
        match self.variable(at) {
            Some((name, start, bytes)) if at < start + bytes => {
                format!("byte {} of {name}{beyond}", at - start)
            }
            _ => format!("byte {at} of shared memory{beyond}"),
        }
    }

    /// A barrier in shared memory: by its number in an array, else by its byte.
    pub(crate) fn barrier_name(&self, at: usize) -> String {
        match self.region(at) {
            Some((region, inside)) if region.unit.0 == "barrier" && inside < region.bytes => {
                region.describe(inside)
            }
            _ => format!("the barrier at {}", self.shared_name(at)),
        }
    }

    /// What lies nearest below bytes beyond shared memory.
    pub(crate) fn nearest_below(&self, at: usize) -> Option<String> {
        if let Some((region, _)) = self.region(at) {
            let start = self.dynamic_at + region.start;
            return Some(format!(
                "{}, {} bytes at byte {start}",
                region.title(),
                region.bytes
            ));
        }
        let (name, start, bytes) = self.variable(at)?;
        Some(format!("{name}, {bytes} bytes at byte {start}"))
    }

    /// A byte by its variable or buffer.
    pub(crate) fn byte_name(&self, byte: Target) -> String {
        match byte {
            Target::Global(address) => self.global_name(address),
            Target::Shared { at, .. } => self.shared_name(at),
            Target::Param(at) => format!("byte {at} of the parameters"),
        }
    }

    /// ``byte 4 of `data` ``
    pub(crate) fn global_name(&self, address: u64) -> String {
        let allocation = self.memory.beginning(address).unwrap_or(address);
        format!(
            "byte {} of {}",
            address - allocation,
            self.buffer_name(allocation)
        )
    }

    /// Returns the report.
    pub(crate) fn report(&self) -> Report {
        let kernel = self.program.kernel;
        let steps = self.program.stmts.iter().zip(&self.counts);
        let lines = steps
            .filter(|(_, count)| count.executed > 0)
            .filter_map(|(stmt, count)| {
                stmt.map(|stmt| LineCount {
                    instruction: self.instruction(stmt),
                    at: stmt.at,
                    executed: count.executed,
                    passes: count.passes,
                    least_passes: count.least_passes,
                    sectors: count.sectors,
                    least_sectors: count.least_sectors,
                })
            });
        let warnings = self.equal.iter().filter_map(|(pc, (what, count))| {
            let stmt = self.program.stmts.get(*pc).copied().flatten()?;
            Some(Warning {
                instruction: self.instruction(stmt),
                at: stmt.at,
                what: what.clone(),
                count: *count,
            })
        });
        let words = RegType::ALL.map(|ty| match ty {
            RegType::Pred => 0,
            ty @ (RegType::B16 | RegType::B32 | RegType::B64 | RegType::F32 | RegType::F64) => {
                kernel.count(ty) * ty.bits().div_ceil(32)
            }
        });
        Report {
            instructions: self.counts.iter().map(|count| count.executed).sum(),
            blocks: self.launch.blocks() * self.devices.launched(),
            registers: words.iter().sum(),
            shared: self.shared_bytes,
            lines: lines.collect(),
            warnings: warnings.collect(),
            events: Vec::new(),
            printed: Vec::new(),
        }
    }
}
