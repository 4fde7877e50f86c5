//! The running device: it starts clusters and lets their warps take turns.

pub(crate) mod claims;
mod complete;
pub(crate) mod cores;
pub(crate) mod exec;
pub(crate) mod names;
pub(crate) mod place;
pub(crate) mod port;
pub(crate) mod product;
pub(crate) mod race_text;
pub(crate) mod ranks;
pub(crate) mod running;
pub(crate) mod suspect;
pub(crate) mod wait_text;
pub(crate) mod watch;

use std::collections::BTreeMap;
use std::sync::{Arc, Once};

use crate::lane::plan::{Plan, Routes};
use crate::machine::cores::Waiting;
use crate::machine::place::Inside;
use crate::machine::product::Places;
use crate::machine::ranks::{Devices, Peers};
use crate::machine::running::{Cluster, Progress};
use crate::machine::suspect::{Firsts, Suspects};
use crate::machine::watch::Watch;
use crate::options::{PrintTo, SimOptions};
use crate::order::global::Global;
use crate::order::hash::Map;
use crate::order::release::Release;
use crate::order::strength::Strengths;
use crate::report::event::Event;
use crate::report::fault::{Fault, FaultKind};
use crate::report::trace::{Trace, TraceOptions};
use crate::report::{Count, Printed, Report};
use crate::state::block::SHARED_BASE;
use crate::state::memory::Memory;
use crate::state::program::{Program, is_system, reduces, strength};
use colex_ir::launch::{Argument, EntrySignature, Launch, LaunchClaims};
use colex_ir::{Kernel, Stmt};

/// The state that all clusters share.
#[derive(Debug)]
pub(crate) struct Machine<'a, 'k> {
    pub(crate) program: &'a Program<'k>,
    pub(crate) launch: Launch,
    pub(crate) memory: &'a mut Memory,
    /// The accesses of global memory, and the clocks that releases have published there.
    pub(crate) global: Global,
    /// Which accesses are atomic with each other.
    pub(crate) strengths: Arc<Strengths>,
    pub(crate) ordered: Map<u64, Release>,
    /// Stores of the same value by two blocks, by step: the sentence about the first, and how many there were.
    pub(crate) equal: BTreeMap<usize, (String, u64)>,
    /// The ranks, and their arguments.
    pub(crate) devices: Devices<'a>,
    /// The number of times that something happened for which others may wait.
    pub(crate) progress: u64,
    pub(crate) options: SimOptions,
    pub(crate) counts: Vec<Count>,
    /// The events, if they are listed, and the number of the operation that completes now.
    pub(crate) events: Vec<Event>,
    pub(crate) operation: u64,
    /// Whether several cores ran blocks.
    pub(crate) is_spread: bool,
    /// The lines that were printed.
    pub(crate) printed: Vec<Printed>,
    /// The number of instructions that all warps have executed.
    pub(crate) executed: u64,
    /// Reads that wait for their bytes, and bytes that atomic stores wrote first.
    pub(crate) suspects: Suspects,
    pub(crate) firsts: Firsts,
    /// The tables of the rows, by step.
    pub(crate) plans: Map<usize, Arc<Plan>>,
    pub(crate) routes: Map<usize, Arc<Routes>>,
    /// Where the tiles of `wgmma` lie, by descriptor, extents, width and major.
    pub(crate) tiles: Map<(u64, usize, usize, usize, bool), Arc<Places>>,
    /// Boxes inside of their tensors, by rank, step, place in shared memory and address of the tensor map: each rank has maps
    /// of its own at the same addresses.
    pub(crate) boxes: Map<(u32, usize, usize, u64), Inside>,
    /// Where dynamic shared memory begins in a block's.
    pub(crate) dynamic_at: u32,
    pub(crate) shared_bytes: u32,
    /// What looks at warps while they run; without it nothing does.
    pub(crate) watch: Option<Box<Watch>>,
}

/// The clusters that run, and how many were started.
#[derive(Debug, Default)]
pub(crate) struct Clusters {
    pub(crate) running: Vec<Cluster>,
    started: usize,
    /// Whether it was tried to run the others on several cores.
    tried: bool,
    /// The rounds since all had ended.
    rounds: u32,
}

impl<'a, 'k> Machine<'a, 'k> {
    pub(crate) fn new(
        program: &'a Program<'k>,
        launch: &Launch,
        arguments: &'a [Argument],
        memory: &'a mut Memory,
        options: &SimOptions,
    ) -> Self {
        Machine::on_ranks(
            program,
            launch,
            (vec![Some(arguments)], None),
            memory,
            options,
        )
    }

    /// The same on several devices: the arguments of each rank that is launched.
    pub(crate) fn on_ranks(
        program: &'a Program<'k>,
        launch: &Launch,
        (arguments, peers): (Vec<Option<&'a [Argument]>>, Option<&'a Peers>),
        memory: &'a mut Memory,
        options: &SimOptions,
    ) -> Self {
        let clusters = launch.blocks() / launch.cluster_blocks().max(1);
        let clusters = u32::try_from(clusters).unwrap_or(u32::MAX);
        let each = arguments.iter();
        let params = each.map(|all| parameters(program, all.unwrap_or_default()));
        let devices = Devices::new(
            arguments.clone(),
            params.collect(),
            peers,
            (clusters, launch.cooperative),
            options.schedule,
        );
        let global = Global::new(launch.threads().div_ceil(32) as usize);
        let steps = || program.stmts.iter();
        let strengths = Arc::new(Strengths::new(
            steps().map(|stmt| stmt.and_then(strength)),
            steps().map(|stmt| stmt.is_some_and(reduces)),
        ));
        let global = global.with_strengths(strengths.clone());
        let global = match peers {
            None => global,
            Some(peers) => {
                let is_system = |stmt: &Option<&Stmt>| stmt.is_some_and(is_system);
                let steps = program.stmts.iter().map(is_system);
                global.on_devices(clusters, steps.collect(), peers.reductions_meet)
            }
        };
        let dynamic_at = dynamic_at(program);
        Machine {
            program,
            launch: *launch,
            memory,
            global,
            strengths,
            equal: BTreeMap::new(),
            ordered: Map::default(),
            devices,
            progress: 0,
            options: *options,
            counts: vec![Count::default(); program.steps.len()],
            events: Vec::new(),
            operation: 0,
            is_spread: false,
            printed: Vec::new(),
            executed: 0,
            suspects: Suspects::default(),
            firsts: Firsts::default(),
            plans: Map::default(),
            routes: Map::default(),
            tiles: Map::default(),
            boxes: Map::default(),
            dynamic_at,
            shared_bytes: match launch.dynamic_shared {
                0 => program.static_shared,
                bytes => dynamic_at + bytes,
            },
            watch: None,
        }
    }

    /// Runs every block.
    pub(crate) fn run(&mut self) -> Result<(), Fault> {
        self.go(&mut Clusters::default()).map(drop)
    }

    /// The next cluster that has not started.
    fn start(&self, clusters: &mut Clusters) -> Option<Cluster> {
        let number = self.devices.next(clusters.started)?;
        let at = self.cluster_at(number)?;
        clusters.started += 1;
        Some(self.cluster(number, at))
    }

    /// The number of clusters that have not started.
    fn left(&self, started: usize) -> usize {
        (started..)
            .take_while(|started| self.devices.next(*started).is_some())
            .count()
    }

    /// The coordinates of a cluster among the clusters of the grid; `None` after the last.
    fn cluster_at(&self, number: usize) -> Option<[u32; 3]> {
        let all = self.devices.clusters() as usize * self.devices.count() as usize;
        let exists = number < all;
        let number = self.devices.within(number as u32) as usize;
        let size = self.launch.cluster;
        let extents = [0, 1, 2].map(|axis| (self.launch.grid[axis] / size[axis].max(1)) as usize);
        let [x, y, z] = extents;
        let at = || [number % x, number / x % y, number / x / y].map(|n| n as u32);
        (exists && number < x * y * z).then(at)
    }

    /// Runs every block, or until the watch stops; returns whether all have ended.
    pub(crate) fn go(&mut self, clusters: &mut Clusters) -> Result<bool, Fault> {
        loop {
            if clusters.running.is_empty() {
                clusters.rounds = 0;
                // The first cluster has shown how long one takes.
                let alone = !self.devices.are_several();
                if alone && self.executed > 0 && !std::mem::replace(&mut clusters.tried, true) {
                    let waiting = (clusters.started..)
                        .map_while(|number| Some((number, self.cluster_at(number)?)));
                    let waiting: Vec<Waiting> = waiting.collect();
                    self.is_spread = self.watch.is_none() && self.spread(&waiting);
                    if self.is_spread {
                        return self.last_word().map(|()| true);
                    }
                }
                for _ in 0..self.devices.at_once(self.options.schedule) {
                    let next = self.start(clusters);
                    clusters.running.extend(next);
                }
                if clusters.running.is_empty() {
                    return self.last_word().map(|()| true);
                }
            }
            let running = &mut clusters.running;
            let mut index = 0;
            let mut blocked = None;
            let (mut moved, mut idle) = (false, false);
            let before = self.progress;
            while index < running.len() {
                let mut progress = self.advance(&mut running[index]);
                if matches!(progress, Ok(Progress::Done)) {
                    progress = self.drain(&mut running[index]).map(|()| Progress::Done);
                }
                match progress {
                    Ok(Progress::More) => moved = true,
                    Ok(Progress::Idle) => (moved, idle) = (true, true),
                    Ok(Progress::Done | Progress::Blocked)
                        if self.suspects.holds(running[index].group.number) =>
                    {
                        moved = true;
                        self.park(running.swap_remove(index))?;
                        continue;
                    }
                    Ok(Progress::Done) => {
                        moved = true;
                        self.progress += 1;
                        let ended = running.swap_remove(index);
                        self.end_cluster(&ended)?;
                        continue;
                    }
                    Ok(Progress::Blocked) => blocked = Some(index),
                    Ok(Progress::Stopped) => return Ok(false),
                    Err(fault) => return Err(self.headline(fault, std::mem::take(running))),
                }
                index += 1;
            }
            if let Some(index) = blocked.filter(|_| !moved) {
                let fault = self.deadlock(&running[index]);
                return Err(self.headline(fault, std::mem::take(running)));
            }
            if self.suspects.in_vain(self.executed) {
                return Err(self.give_up(std::mem::take(running)));
            }
            // A block that still runs may wait for one that has not started.
            clusters.rounds += 1;
            let starts = idle || !self.program.independent || clusters.rounds > cores::ROUNDS;
            let holds_out = self.holds_out(&clusters.running);
            if starts
                && !holds_out
                && !clusters.running.is_empty()
                && let Some(next) = self.start(clusters)
            {
                clusters.running.push(next);
                self.progress += 1;
            }
            if self.devices.meet() || holds_out {
                let running = &mut clusters.running;
                let left = self.left(clusters.started);
                if self.progress != before || left > 0 && !holds_out {
                    self.look_again(running);
                } else if let Some(fault) = self.hang(running, left)? {
                    return Err(self.headline(fault, std::mem::take(running)));
                }
            }
        }
    }
}

/// Where dynamic shared memory begins in a block's. The alignment is that of the address, which begins after what the system keeps.
fn dynamic_at(program: &Program<'_>) -> u32 {
    let align = program.kernel.dynamic_shared.unwrap_or(16).max(1);
    (SHARED_BASE + program.static_shared).next_multiple_of(align) - SHARED_BASE
}

/// The bytes of the parameters.
fn parameters(program: &Program<'_>, arguments: &[Argument]) -> Vec<u8> {
    let mut bytes = vec![0; program.param_bytes as usize];
    for (at, argument) in program.params.iter().zip(arguments) {
        let word = match argument {
            Argument::U16(x) => x.to_le_bytes().to_vec(),
            Argument::U32(x) => x.to_le_bytes().to_vec(),
            Argument::U64(x) | Argument::Pointer(x) => x.to_le_bytes().to_vec(),
            Argument::F32(x) => x.to_le_bytes().to_vec(),
            Argument::F64(x) => x.to_le_bytes().to_vec(),
            Argument::TensorMap(_) => vec![0; 128],
        };
        let at = *at as usize;
        let room = bytes.len().saturating_sub(at).min(word.len());
        bytes[at..at + room].copy_from_slice(&word[..room]);
    }
    bytes
}

/// Runs a kernel on several devices; none for a rank that is not launched.
pub(crate) fn simulate_on_ranks(
    kernel: &Kernel,
    launch: &Launch,
    (arguments, peers): (&[Option<Vec<Argument>>], &Peers),
    memory: &mut Memory,
    options: &SimOptions,
) -> Result<Report, Fault> {
    let program = Program::new(kernel);
    for (rank, all) in arguments.iter().enumerate() {
        let Some(all) = all else { continue };
        check_launch(&program, launch, all, options)
            .map_err(|fault| fault.saying(|what| format!("rank {rank}: {what}")))?;
    }
    let arguments: Vec<Option<&[Argument]>> = arguments.iter().map(Option::as_deref).collect();
    let ranks = arguments.len() as u64;
    let blocks = launch.blocks().saturating_mul(ranks);
    if blocks > options.max_blocks {
        return Err(too_many(blocks, options));
    }
    let mut machine =
        Machine::on_ranks(&program, launch, (arguments, Some(peers)), memory, options);
    let result = machine.run();
    finish(machine, result)
}

/// Refuses a launch that the kernel was not built for.
pub(crate) fn check_launch(
    program: &Program<'_>,
    launch: &Launch,
    arguments: &[Argument],
    options: &SimOptions,
) -> Result<(), Fault> {
    let kernel = program.kernel;
    let limits = colex_ir::launch::Limits::of(kernel.target);
    let wrong = |what: String| Fault::new(FaultKind::Launch, what);
    let signature = EntrySignature::of(kernel)
        .map_err(|param| wrong(format!("no argument fits `{}`, {:?}", param.name, param.ty)))?;
    signature
        .check(launch, arguments)
        .and_then(|()| launch.check(&limits, program.static_shared))
        .and_then(|()| LaunchClaims::of(kernel).check(launch, arguments))
        .map_err(|error| wrong(error.to_string()))?;
    let begin = dynamic_at(program);
    let end = begin.saturating_add(launch.dynamic_shared);
    if launch.dynamic_shared > 0 && end > limits.shared {
        return Err(wrong(format!(
            "dynamic shared memory of {} bytes begins at byte {begin} of the block's, by its alignment, and ends at byte {end}: \
             a block has at most {} bytes",
            launch.dynamic_shared, limits.shared
        )));
    }
    if launch.blocks() > options.max_blocks {
        return Err(too_many(launch.blocks(), options));
    }
    Ok(())
}

fn too_many(blocks: u64, options: &SimOptions) -> Fault {
    Fault::new(
        FaultKind::Limit,
        format!(
            "the grid has {blocks} blocks, and `SimOptions::max_blocks` allows {}: launch fewer on the simulator, or raise \
             that bound",
            options.max_blocks
        ),
    )
}

/// What a program is told whose simulator is not optimised.
const UNOPTIMISED: &str = r#"The simulator is built without optimisation, and is 10 to 20 times slower than with these lines in the Cargo.toml of your workspace:

[profile.dev.package."*"]
opt-level = 2
"#;

/// The number of instructions from which on a launch is long enough for that to matter.
const LONG: u64 = 1 << 20;

/// Says once what makes an unoptimised simulator fast.
fn advise(is_unoptimised: bool, executed: u64, said: &Once, say: impl FnOnce(&str)) {
    if is_unoptimised && executed >= LONG {
        said.call_once(|| say(UNOPTIMISED));
    }
}

/// Runs a kernel on simulated memory.
pub(crate) fn simulate(
    kernel: &Kernel,
    launch: &Launch,
    arguments: &[Argument],
    memory: &mut Memory,
    options: &SimOptions,
) -> Result<Report, Fault> {
    simulate_watched(kernel, launch, arguments, memory, options, None).0
}

/// The same, and a trace of what chosen threads execute.
pub(crate) fn simulate_watched(
    kernel: &Kernel,
    launch: &Launch,
    arguments: &[Argument],
    memory: &mut Memory,
    options: &SimOptions,
    traced: Option<&TraceOptions>,
) -> (Result<Report, Fault>, Trace) {
    let program = Program::new(kernel);
    if let Err(fault) = check_launch(&program, launch, arguments, options) {
        return (Err(fault), Trace::default());
    }
    let mut machine = Machine::new(&program, launch, arguments, memory, options);
    machine.watch = traced.map(|traced| {
        Box::new(Watch {
            trace: Some((traced.clone(), Trace::default())),
            ..Watch::default()
        })
    });
    let result = machine.run();
    let trace = machine.watch.take().and_then(|watch| watch.trace);
    let trace = trace.map_or(Trace::default(), |(_, trace)| trace);
    (finish(machine, result), trace)
}

/// The report of a launch that has ended, or its fault, after what it printed.
fn finish(machine: Machine<'_, '_>, result: Result<(), Fault>) -> Result<Report, Fault> {
    static SAID: Once = Once::new();
    advise(cfg!(unoptimised), machine.executed, &SAID, |text| {
        eprintln!("{text}");
    });
    let report = machine.report();
    let (events, printed) = (machine.events, machine.printed);
    if machine.options.print_to == PrintTo::Stdout {
        printed.iter().for_each(|line| println!("{}", line.text));
    }
    match result {
        Ok(()) => Ok(Report {
            events,
            printed,
            ..report
        }),
        Err(fault) => Err(fault.after(printed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The accesses that are remembered have numbers of 32 bits: a launch that wants more ends with a fault.
    #[test]
    fn law_more_accesses_than_have_numbers_are_a_limit() {
        use colex_atom::Arch;
        use colex_ir::{AtomicOp, KernelBuilder, Space, Type};
        let run = |adds: usize| {
            let mut k = KernelBuilder::new("adds", Arch::Sm90a);
            let word = k.pointer("word");
            let word = k.param(word);
            for _ in 0..adds {
                k.reduce(AtomicOp::Add, Space::Global, Type::U32, word, &[word]);
            }
            let kernel = k.finish();
            let mut memory = Memory::default();
            let at = memory.allocate(4).unwrap();
            memory.write(at, &[0; 4]).unwrap();
            let arguments = [Argument::Pointer(at)];
            let program = Program::new(&kernel);
            let launch = Launch::new(1, 32);
            let options = SimOptions::default();
            let mut machine = Machine::new(&program, &launch, &arguments, &mut memory, &options);
            machine.global = Global::new(1).with_room(10);
            machine.run()
        };
        run(9).unwrap();
        let fault = run(11).unwrap_err();
        assert_eq!(fault.kind(), FaultKind::Limit);
        assert_eq!(
            fault.what(),
            "10 accesses of global memory by warps are remembered, and there is room for no more: simulate a smaller \
             problem, or switch off `SimOptions::races`"
        );
    }

    #[test]
    fn an_unoptimised_simulator_says_so_once() {
        let said = Once::new();
        let mut texts = Vec::new();
        for (is_unoptimised, executed) in [
            (false, LONG),
            (true, LONG - 1),
            (true, LONG),
            (true, 2 * LONG),
        ] {
            advise(is_unoptimised, executed, &said, |text| {
                texts.push((executed, text.to_string()));
            });
        }
        assert_eq!(texts, [(LONG, UNOPTIMISED.to_string())]);
    }
}
