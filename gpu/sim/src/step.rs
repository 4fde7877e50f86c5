//! Stepping: a launch that runs to a statement, a line or a barrier of one warp, and tables of what is there.

use std::panic::Location;

use crate::lane::bits::{lanes, word};
use crate::machine::running::Cluster;
use crate::machine::watch::{Until, Watch, register};
use crate::machine::{Clusters, Machine, check_launch};
use crate::options::SimOptions;
use crate::report::Report;
use crate::report::fault::Fault;
use crate::report::show::{Table, element, typed};
use crate::state::memory::Memory;
use crate::state::program::Program;
use crate::state::warp::Warp;
use colex_ir::launch::{Argument, Launch};
use colex_ir::{Kernel, Reg, RegType, SharedRegion};

/// A kernel and a launch of it, ready to be stepped.
#[derive(Debug)]
pub struct Prepared<'k> {
    program: Program<'k>,
    launch: Launch,
    arguments: Vec<Argument>,
}

impl<'k> Prepared<'k> {
    /// Prepares a launch of a kernel.
    pub fn new(kernel: &'k Kernel, launch: &Launch, arguments: &[Argument]) -> Prepared<'k> {
        Prepared {
            program: Program::new(kernel),
            launch: *launch,
            arguments: arguments.to_vec(),
        }
    }

    /// Starts the launch, and stops before its first statement.
    ///
    /// # Errors
    ///
    /// Returns a [`Fault`] if the kernel was not built for the launch.
    pub fn start<'a>(
        &'a self,
        memory: &'a mut Memory,
        options: &SimOptions,
    ) -> Result<Stepper<'a, 'k>, Fault> {
        check_launch(&self.program, &self.launch, &self.arguments, options)?;
        let program = &self.program;
        let mut machine = Machine::new(program, &self.launch, &self.arguments, memory, options);
        // The first statement is a place to stop at.
        machine.watch = Some(Box::new(Watch {
            moved: true,
            ..Watch::default()
        }));
        Ok(Stepper {
            machine,
            clusters: Clusters::default(),
            has_ended: false,
        })
    }
}

/// Where a warp has stopped: before a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The coordinates of the block in the grid.
    pub block: [u32; 3],
    /// The number of the warp in its block.
    pub warp: u32,
    /// The call of the builder that made the statement.
    pub at: &'static Location<'static>,
    /// The statement.
    pub instruction: String,
    /// The lanes that execute it, one bit each.
    pub active: u32,
}

/// A launch that runs until one warp reaches a place, and goes on from there. The other warps run as the schedule says.
///
/// It needs no threads and no input or output of the host: a program steps it, or [`Stepper::command`] with the words of a
/// command line.
///
/// ```
/// use colex_atom::Arch;
/// use colex_ir::launch::Launch;
/// use colex_ir::{KernelBuilder, Special, Type};
/// use colex_sim::{Memory, Prepared, SimOptions, Until};
///
/// let mut k = KernelBuilder::new("steps", Arch::Sm80);
/// let tid = k.mov(Type::U32, Special::Tid(0));
/// let twice = k.add(Type::U32, tid, tid);
/// k.add(Type::U32, twice, 1);
/// let kernel = k.finish();
///
/// let prepared = Prepared::new(&kernel, &Launch::new(1, 64), &[]);
/// let mut memory = Memory::default();
/// let mut stepper = prepared.start(&mut memory, &SimOptions::default())?;
/// stepper.watch([0, 0, 0], 1);
/// stepper.run(&Until::Statement)?; // before the first statement of warp 1
/// stepper.run(&Until::Statement)?;
/// let stop = stepper.run(&Until::Statement)?.expect("a statement is left");
/// assert_eq!(stop.instruction, "%r2 = add.u32 %r1, 1");
/// let table = stepper.registers(&[tid, twice]);
/// assert_eq!(table.rows[0], ["lane", "%r0", "%r1"]);
/// assert_eq!(table.rows[32], ["31", "0x3f", "0x7e"]);
/// assert_eq!(stepper.finish()?.instructions, 6);
/// # Ok::<(), colex_sim::Fault>(())
/// ```
#[derive(Debug)]
pub struct Stepper<'a, 'k> {
    machine: Machine<'a, 'k>,
    clusters: Clusters,
    has_ended: bool,
}

impl Stepper<'_, '_> {
    fn watching(&mut self) -> &mut Watch {
        self.machine.watch.get_or_insert_default()
    }

    /// Chooses the warp that is stepped: the first of block (0,0,0) if none is chosen.
    pub fn watch(&mut self, block: [u32; 3], warp: u32) {
        let watch = self.watching();
        watch.stepped = (block, warp);
        watch.moved = true;
        watch.from = None;
    }

    /// Runs until the warp stops; returns `None` when the launch has ended.
    ///
    /// # Errors
    ///
    /// Returns the [`Fault`] of the launch. It has ended then.
    pub fn run(&mut self, until: &Until) -> Result<Option<Stop>, Fault> {
        if self.has_ended {
            return Ok(None);
        }
        let watch = self.watching();
        watch.until = Some(until.clone());
        watch.stopped = false;
        let ran = self.machine.go(&mut self.clusters);
        self.has_ended = !matches!(ran, Ok(false));
        ran.map_err(|fault| fault.after(std::mem::take(&mut self.machine.printed)))?;
        Ok(self.stop())
    }

    /// Returns where the warp has stopped; `None` before the beginning and after the end.
    pub fn stop(&self) -> Option<Stop> {
        let (_, warp) = self.stopped()?;
        let stmt = self.machine.next_statement(warp)?;
        let (block, number) = self.machine.watch.as_ref()?.stepped;
        Some(Stop {
            block,
            warp: number,
            at: stmt.at,
            instruction: self.machine.instruction(stmt),
            active: warp.active,
        })
    }

    /// Runs to the end of the launch.
    ///
    /// # Errors
    ///
    /// Returns the [`Fault`] of the launch.
    pub fn finish(mut self) -> Result<Report, Fault> {
        self.run(&Until::End)?;
        let report = self.machine.report();
        let (events, printed) = (self.machine.events, self.machine.printed);
        Ok(Report {
            events,
            printed,
            ..report
        })
    }

    /// The cluster and the warp that are stepped, while they exist.
    fn stopped(&self) -> Option<(&Cluster, &Warp)> {
        let (block, number) = self.machine.watch.as_ref()?.stepped;
        self.clusters.running.iter().find_map(|cluster| {
            let is_it = |warp: &&Warp| {
                warp.first / 32 == number && cluster.group.blocks[warp.block].ctaid == block
            };
            Some((cluster, cluster.warps.iter().find(is_it)?))
        })
    }

    /// Returns a table of registers: a row for each lane. A register that was not written has the value `-`.
    pub fn registers(&self, registers: &[Reg]) -> Table {
        let names = registers.iter().map(Reg::to_string);
        let mut rows = vec![std::iter::once("lane".to_string()).chain(names).collect()];
        if let Some((_, warp)) = self.stopped() {
            rows.extend(lanes(warp.exists).map(|lane| {
                let values = registers.iter().map(|reg| {
                    let bits = register(self.machine.program, warp, *reg, lane);
                    bits.map_or("-".to_string(), |bits| typed(None, reg.ty, bits))
                });
                std::iter::once(lane.to_string()).chain(values).collect()
            }));
        }
        let title = "registers".to_string();
        Table { title, rows }
    }

    /// Returns a table of the fragment of that name: a row for each lane, with the coordinates of the elements where they
    /// are known. Returns `None` if no fragment has the name.
    pub fn fragment(&self, name: &str) -> Option<Table> {
        let fragments = &self.machine.program.kernel.fragments;
        let fragment = fragments.iter().find(|fragment| fragment.name == name)?;
        let mut rows = Vec::new();
        if let Some((_, warp)) = self.stopped() {
            for lane in lanes(warp.exists) {
                let thread = warp.first as usize + lane;
                let elements = fragment.elements.iter().enumerate();
                let elements = elements.map(|(i, (reg, at))| {
                    let bits = register(self.machine.program, warp, *reg, lane);
                    let unused = 64 - fragment.ty.bits().min(64);
                    let value = bits.map(|bits| bits >> at << unused >> unused);
                    let value = value.map_or("-".to_string(), |bits| element(fragment.ty, bits));
                    format!("{}={value}", fragment.label(thread, i))
                });
                rows.push(std::iter::once(lane.to_string()).chain(elements).collect());
            }
        }
        let title = format!("{name}, a fragment of {}", fragment.ty);
        Some(Table { title, rows })
    }

    /// Returns a table of the tensor in shared memory of that name, or of the barriers: a matrix has its rows and columns,
    /// other tensors a row for each coordinate. Bytes that were not written have the value `-`. Returns `None` if nothing in
    /// shared memory has the name.
    pub fn shared(&self, name: &str) -> Option<Table> {
        let regions = &self.machine.program.kernel.shared_regions;
        let region = regions
            .iter()
            .find(|region| region.name.as_deref() == Some(name))?;
        let (cluster, warp) = self.stopped()?;
        let block = &cluster.group.blocks[warp.block];
        let start = (self.machine.dynamic_at + region.start) as usize;
        let title = format!("{name}, {}", region.what);
        if region.unit.0 == "barrier" {
            let header = ["barrier", "phase", "arrived", "bytes missing"];
            let mut rows = vec![header.map(String::from).to_vec()];
            for number in 0..region.bytes / 8 {
                let barrier = block.mbarriers.get(start + 8 * number as usize);
                rows.push(match barrier {
                    None => vec![number.to_string(), "-".to_string()],
                    Some(barrier) => vec![
                        number.to_string(),
                        barrier.phase.to_string(),
                        format!("{} of {}", barrier.count - barrier.pending, barrier.count),
                        barrier.bytes.to_string(),
                    ],
                });
            }
            return Some(Table { title, rows });
        }
        let each = (region.unit.1.max(1)) as usize;
        let value = |offset: i64| {
            let at = start + usize::try_from(offset).ok()? * each;
            let written = block
                .written
                .get(at..at + each)?
                .iter()
                .all(|written| *written);
            let bits = word(&block.shared[at..], each.min(8));
            written.then(|| {
                region
                    .ty
                    .map_or(format!("{bits:#x}"), |ty| element(ty, bits))
            })
        };
        let shown = |offset: i64| value(offset).unwrap_or_else(|| "-".to_string());
        Some(Table {
            title,
            rows: rows_of(region, shown).unwrap_or_default(),
        })
    }

    /// Executes a command of a command line, and returns what it shows:
    ///
    /// | | |
    /// |---|---|
    /// | `step`, `line`, `barrier`, `end` | runs to the next statement, line, barrier, or to the end |
    /// | `to kernel.rs:12` | runs to that line |
    /// | `warp 3`, `block 1 0 0` | chooses the warp that is stepped, or the block |
    /// | `show NAME ..` | tables of fragments, tensors in shared memory, barriers and registers such as `%r5` |
    ///
    /// # Errors
    ///
    /// Returns the [`Fault`] of the launch.
    pub fn command(&mut self, command: &str) -> Result<String, Fault> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let number = |word: &str| word.parse::<u32>().ok();
        let stepped = self.watching().stepped;
        let until = match words[..] {
            ["step"] => Until::Statement,
            ["line"] => Until::NewLine,
            ["barrier"] => Until::Barrier,
            ["end"] => Until::End,
            ["to", place] => match place
                .rsplit_once(':')
                .map(|(file, line)| (file, number(line)))
            {
                Some((file, Some(line))) => Until::Line(file.to_string(), line),
                _ => return Ok("a place is a file and a line: `to kernel.rs:12`\n".to_string()),
            },
            ["warp", warp] => match number(warp) {
                Some(warp) => {
                    self.watch(stepped.0, warp);
                    return Ok(String::new());
                }
                None => return Ok("a warp has a number: `warp 3`\n".to_string()),
            },
            ["block", x, y, z] => match [x, y, z].map(number) {
                [Some(x), Some(y), Some(z)] => {
                    self.watch([x, y, z], stepped.1);
                    return Ok(String::new());
                }
                _ => return Ok("a block has three coordinates: `block 1 0 0`\n".to_string()),
            },
            ["show", ref names @ ..] => {
                return Ok(names.iter().map(|name| self.show(name)).collect());
            }
            _ => {
                let commands =
                    "step, line, barrier, end, to FILE:LINE, warp N, block X Y Z, show NAME ..\n";
                return Ok(commands.to_string());
            }
        };
        Ok(match self.run(&until)? {
            None => "the launch has ended\n".to_string(),
            Some(stop) => {
                let [x, y, z] = stop.block;
                let (file, line) = (stop.at.file(), stop.at.line());
                format!(
                    "block ({x},{y},{z}) warp {} at {file}:{line}: {}\n",
                    stop.warp, stop.instruction
                )
            }
        })
    }

    /// The table of one name.
    fn show(&self, name: &str) -> String {
        let table = self.fragment(name).or_else(|| self.shared(name));
        match (table, self.register_named(name)) {
            (Some(table), _) => table.to_string(),
            (None, Some(reg)) => self.registers(&[reg]).to_string(),
            (None, None) => format!("nothing is called `{name}`\n"),
        }
    }

    /// `%r5`
    fn register_named(&self, name: &str) -> Option<Reg> {
        let kernel = self.machine.program.kernel;
        RegType::ALL.into_iter().find_map(|ty| {
            let digits = name.strip_prefix('%')?.strip_prefix(ty.prefix())?;
            let index = digits.parse().ok()?;
            (index < kernel.count(ty)).then_some(Reg { index, ty })
        })
    }
}

/// The rows of a table of elements under a layout.
fn rows_of(region: &SharedRegion, shown: impl Fn(i64) -> String) -> Option<Vec<Vec<String>>> {
    let Some(layout) = &region.layout else {
        let units = 0..i64::from(region.bytes / region.unit.1.max(1));
        return Some(units.map(|i| vec![i.to_string(), shown(i)]).collect());
    };
    let offsets = layout.offsets().ok()?;
    let modes: Vec<i64> = layout.inner().modes().map(|mode| mode.size()).collect();
    let [m, n] = modes[..] else {
        let cells = offsets.enumerate().map(|(i, offset)| {
            let coordinate = layout.shape().coord(i as i64).ok()?;
            Some(vec![coordinate.to_string(), shown(offset)])
        });
        return cells.collect();
    };
    let all: Vec<i64> = offsets.collect();
    let header = std::iter::once(String::new()).chain((0..n).map(|j| j.to_string()));
    let mut rows = vec![header.collect()];
    rows.extend((0..m).map(|i| {
        let row = (0..n).map(|j| shown(all[(i + j * m) as usize]));
        std::iter::once(i.to_string()).chain(row).collect()
    }));
    Some(rows)
}
