//! The device while it runs a kernel: blocks and clusters come, warps take turns.

use super::block::{Block, Group, SHARED_BASE};
use super::exec::Exec;
use super::fault::{Fault, FaultKind};
use super::flat::Program;
use super::memory::Memory;
use super::options::{Dice, SimOptions};
use super::report::{Count, Report};
use super::wait::Wait;
use super::warp::Warp;
use crate::argument::Argument;
use crate::ir::{Kernel, RegType};
use crate::launch::Launch;

/// How many steps a warp takes before another has its turn.
const TURN: usize = 256;

/// How many turns a cluster takes before another one starts beside it.
const PATIENCE: usize = 4096;

/// What all clusters share.
pub(super) struct Machine<'a, 'k> {
    pub(super) program: &'a Program<'k>,
    pub(super) launch: Launch,
    pub(super) memory: &'a mut Memory,
    pub(super) params: Vec<u8>,
    pub(super) arguments: &'a [Argument],
    pub(super) options: SimOptions,
    pub(super) counts: Vec<Count>,
    pub(super) dice: Dice,
    /// Where dynamic shared memory begins in a block's.
    pub(super) dynamic_at: u32,
    pub(super) shared_bytes: u32,
}

/// A cluster that runs.
struct Cluster {
    group: Group,
    warps: Vec<Warp>,
    next: usize,
}

impl<'a, 'k> Machine<'a, 'k> {
    pub(super) fn new(
        program: &'a Program<'k>,
        launch: &Launch,
        arguments: &'a [Argument],
        memory: &'a mut Memory,
        options: &SimOptions,
    ) -> Self {
        let align = program.kernel.dynamic_shared.unwrap_or(16).max(1);
        // The alignment is that of the address, which begins after what the system keeps.
        let dynamic_at =
            (SHARED_BASE + program.static_shared).next_multiple_of(align) - SHARED_BASE;
        Machine {
            program,
            launch: *launch,
            memory,
            params: parameters(program, arguments),
            arguments,
            options: *options,
            counts: vec![Count::default(); program.steps.len()],
            dice: Dice::new(options.seed),
            dynamic_at,
            shared_bytes: match launch.dynamic_shared {
                0 => program.static_shared,
                bytes => dynamic_at + bytes,
            },
        }
    }

    /// Runs every block.
    pub(super) fn run(&mut self) -> Result<(), Fault> {
        let size = self.launch.cluster;
        let clusters: Vec<[u32; 3]> = {
            let [x, y, z] = [0, 1, 2].map(|axis| self.launch.grid[axis] / size[axis].max(1));
            let along_y = move |z| (0..y).flat_map(move |y| (0..x).map(move |x| [x, y, z]));
            (0..z).flat_map(along_y).collect()
        };
        let mut waiting = clusters.into_iter().enumerate();
        let mut running: Vec<Cluster> = Vec::new();
        loop {
            if running.is_empty() {
                let Some((number, at)) = waiting.next() else {
                    return Ok(());
                };
                running.push(self.cluster(number, at));
            }
            let mut index = 0;
            let mut stuck = None;
            let mut moved = false;
            while index < running.len() {
                match self.advance(&mut running[index])? {
                    Progress::Done => {
                        moved = true;
                        running.swap_remove(index);
                        continue;
                    }
                    Progress::More => moved = true,
                    Progress::Stuck => stuck = Some(index),
                }
                index += 1;
            }
            if let Some(index) = stuck.filter(|_| !moved) {
                return Err(self.deadlock(&running[index]));
            }
            // Whoever still runs may wait for a block that has not started.
            if !running.is_empty()
                && let Some((number, at)) = waiting.next()
            {
                running.push(self.cluster(number, at));
            }
        }
    }

    fn cluster(&self, number: usize, at: [u32; 3]) -> Cluster {
        let size = self.launch.cluster;
        let program = self.program;
        let threads = self.launch.threads() as u32;
        let per_block = threads.div_ceil(32);
        let blocks: Vec<Block> = (0..self.launch.cluster_blocks() as u32)
            .map(|rank| {
                let inside = [
                    rank % size[0],
                    rank / size[0] % size[1],
                    rank / size[0] / size[1],
                ];
                let ctaid = [0, 1, 2].map(|axis| at[axis] * size[axis] + inside[axis]);
                Block {
                    ctaid,
                    rank,
                    sm: (number as u32 * size.iter().product::<u32>() + rank) % 132,
                    shared: vec![0; self.shared_bytes as usize],
                    written: vec![false; self.shared_bytes as usize],
                    named: Default::default(),
                    live_warps: per_block,
                }
            })
            .collect();
        let preds = program.kernel.count(RegType::Pred) as usize;
        let warps = (0..blocks.len() as u32 * per_block)
            .map(|w| {
                let (block, first) = ((w / per_block) as usize, w % per_block * 32);
                Warp::new(w as usize, block, first, threads, program.registers, preds)
            })
            .collect();
        Cluster {
            group: Group { blocks },
            warps,
            next: 0,
        }
    }

    /// Lets the warps of a cluster take turns, for a while.
    fn advance(&mut self, cluster: &mut Cluster) -> Result<Progress, Fault> {
        for _ in 0..PATIENCE {
            let Some(w) = self.choose(cluster) else {
                let done = cluster.warps.iter().all(|warp| warp.alive() == 0);
                return Ok(if done {
                    Progress::Done
                } else {
                    Progress::Stuck
                });
            };
            let Cluster { group, warps, .. } = cluster;
            let warp = &mut warps[w];
            if warp.wait.take().is_some() {
                warp.pc += 1;
            }
            let mut exec = Exec {
                m: self,
                g: group,
                w: warp,
            };
            exec.run(TURN)?;
            if warp.alive() == 0 {
                let block = &mut group.blocks[warp.block];
                block.live_warps -= 1;
                let live = block.live_warps * 32;
                block.named.iter_mut().for_each(|named| {
                    named.complete(live);
                });
            }
        }
        Ok(Progress::More)
    }

    /// A warp that can go on.
    fn choose(&mut self, cluster: &mut Cluster) -> Option<usize> {
        let count = cluster.warps.len();
        let start = match self.options.seed {
            0 | 1 => cluster.next,
            _ => self.dice.below(count),
        };
        cluster.next = (start + 1) % count;
        (0..count)
            .map(|i| (start + i) % count)
            .find(|w| ready(&cluster.warps[*w], &cluster.group))
    }

    fn deadlock(&self, cluster: &Cluster) -> Fault {
        let waiting: Vec<&Warp> = cluster
            .warps
            .iter()
            .filter(|warp| warp.alive() != 0)
            .collect();
        let numbers: Vec<String> = waiting.iter().map(|warp| warp.index.to_string()).collect();
        let what = format!(
            "nobody can go on: warps {} wait, and nothing is under way that could wake one",
            numbers.join(", ")
        );
        let fault = Fault::new(FaultKind::Deadlock, what);
        match waiting.first() {
            Some(warp) => fault.at(self.place(&cluster.group, warp, 0, true)),
            None => fault,
        }
    }
}

/// How far a cluster came.
enum Progress {
    More,
    Done,
    Stuck,
}

/// Whether a warp can go on.
fn ready(warp: &Warp, group: &Group) -> bool {
    warp.alive() != 0
        && match &warp.wait {
            None => true,
            Some(Wait::Barrier { id, round }) => {
                group.blocks[warp.block].named[*id].rounds > *round
            }
        }
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

/// Refuses a launch that the kernel was not built for.
fn check_launch(kernel: &Kernel, launch: &Launch, arguments: &[Argument]) -> Result<(), Fault> {
    let wrong = |what: String| Err(Fault::new(FaultKind::Launch, what));
    let limits = crate::launch::Limits::of(kernel.target);
    if let Err(error) = launch.check(&limits, 0) {
        return wrong(error.to_string());
    }
    for (what, wanted, given) in [
        ("blocks", kernel.block, launch.block),
        ("clusters", kernel.cluster, launch.cluster),
    ] {
        if let Some(wanted) = wanted.filter(|wanted| *wanted != given) {
            let name = &kernel.name;
            return wrong(format!(
                "`{name}` was built for {what} of {wanted:?} and is launched with {given:?}"
            ));
        }
    }
    match kernel.params.len() == arguments.len() {
        true => Ok(()),
        false => wrong(format!(
            "`{}` has {} parameters, and {} arguments were given",
            kernel.name,
            kernel.params.len(),
            arguments.len()
        )),
    }
}

/// Runs a kernel on simulated memory.
pub(super) fn simulate(
    kernel: &Kernel,
    launch: &Launch,
    arguments: &[Argument],
    memory: &mut Memory,
    options: &SimOptions,
) -> Result<Report, Fault> {
    check_launch(kernel, launch, arguments)?;
    let program = Program::new(kernel);
    let mut machine = Machine::new(&program, launch, arguments, memory, options);
    machine.run()?;
    Ok(machine.report())
}
