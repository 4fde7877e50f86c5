//! Blocks of a grid on several cores of the host, with the results and the verdicts of one.
//!
//! Each core runs clusters on a copy of the memory, with histories of its own. What the cores have accessed is compared
//! afterwards: if none has written a byte that another one has accessed, no cluster can have seen another, and what each
//! has written is put together. If one has, or if there is a fault, a note or a wait between clusters, what the cores did
//! is forgotten, and one core runs the clusters in their order.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::Machine;
use super::running::Progress;
use crate::order::global::{Global, PAGE};
use crate::order::hash::Map;
use crate::report::Count;
use crate::state::memory::Memory;

/// The number of instructions of a grid from which on it is worth another thread.
const WORTH: u64 = 1 << 14;

/// The number of times that a cluster whose warps make progress goes on before another one starts beside it, if no
/// instruction of the kernel is made for blocks that wait for each other.
pub(crate) const ROUNDS: u32 = 8;

/// The most cores.
const MOST: usize = 128;

/// The bytes of memory that all copies together may take.
const COPIES: u64 = 4 << 30;

/// What one core did.
struct Part {
    memory: Memory,
    global: Global,
    counts: Vec<Count>,
    executed: u64,
}

/// A cluster that has not started: its number and its place in the grid.
pub(crate) type Waiting = (usize, [u32; 3]);

impl Machine<'_, '_> {
    /// Runs clusters on several cores, after others have run on one; returns whether it did.
    pub(crate) fn spread(&mut self, clusters: &[Waiting]) -> bool {
        let cores = self.cores(clusters.len() as u64);
        if cores < 2 {
            return false;
        }
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let program = self.program;
        let (launch, arguments) = (self.launch, self.devices.arguments(0));
        let mut options = self.options;
        options.max_instructions -= self.executed.min(options.max_instructions);
        let one = |memory: Memory| -> Option<Part> {
            let mut memory = memory;
            let mut machine = Machine::new(program, &launch, arguments, &mut memory, &options);
            while let Some(cluster) = clusters.get(next.fetch_add(1, Ordering::Relaxed)) {
                if !machine.runs_alone(*cluster, &stop) {
                    stop.store(true, Ordering::Relaxed);
                    return None;
                }
            }
            let Machine {
                global,
                counts,
                executed,
                ..
            } = machine;
            Some(Part {
                memory,
                global,
                counts,
                executed,
            })
        };
        let memory = &*self.memory;
        let parts: Vec<Option<Part>> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..cores)
                .map(|_| scope.spawn(|| one(memory.clone())))
                .collect();
            let first = one(memory.clone());
            let others = others.into_iter().map(|other| match other.join() {
                Ok(part) => part,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            [first].into_iter().chain(others).collect()
        });
        let parts: Option<Vec<Part>> = parts.into_iter().collect();
        parts.is_some_and(|parts| self.put_together(parts))
    }

    /// The cores that this many clusters are worth.
    fn cores(&self, clusters: u64) -> usize {
        let options = &self.options;
        // The histories say what each core has accessed.
        let may = options.races && !options.events && !cfg!(target_family = "wasm");
        let work = self.executed.saturating_mul(clusters);
        if !may || work < WORTH || !self.program.independent || !self.suspects.is_empty() {
            return 1;
        }
        let own = || std::thread::available_parallelism().map_or(1, usize::from);
        let cores = match options.cores {
            0 => own(),
            cores => cores,
        };
        let room = COPIES / self.memory.bytes().saturating_mul(2).max(1);
        let most = clusters.min(room).min(MOST as u64);
        cores.min(most as usize)
    }

    /// Runs one cluster to its end; returns whether it has seen nothing that depends on others, and no fault.
    fn runs_alone(&mut self, (number, at): Waiting, stop: &AtomicBool) -> bool {
        let mut cluster = self.cluster(number, at);
        for _ in 0..=ROUNDS {
            match self.advance(&mut cluster) {
                _ if stop.load(Ordering::Relaxed) => return false,
                Ok(Progress::More) => {}
                Ok(Progress::Done) => {
                    let drained = self.drain(&mut cluster).is_ok();
                    return drained && self.suspects.is_empty() && self.equal.is_empty();
                }
                Ok(Progress::Idle | Progress::Blocked | Progress::Stopped) | Err(_) => {
                    return false;
                }
            }
        }
        false
    }

    /// Takes over what cores did, if none of them has met another.
    fn put_together(&mut self, parts: Vec<Part>) -> bool {
        let mut owners = Owners::default();
        let globals = [&self.global]
            .into_iter()
            .chain(parts.iter().map(|part| &part.global));
        let apart = (1..)
            .zip(globals)
            .all(|(core, global)| owners.add(core, global));
        let executed: u64 = parts.iter().map(|part| part.executed).sum();
        if !apart || self.executed + executed > self.options.max_instructions {
            return false;
        }
        self.executed += executed;
        for part in parts {
            for touched in part.global.touched().filter(|touched| touched.writes) {
                self.memory
                    .take_over(&part.memory, touched.address, touched.bytes);
            }
            for (count, more) in self.counts.iter_mut().zip(&part.counts) {
                count.add(more);
            }
        }
        true
    }
}

/// For each byte, by pages, which core has written it and which one has read it.
#[derive(Default)]
struct Owners(Map<u64, Vec<[u8; 2]>>);

impl Owners {
    const NO_CORE: u8 = 0;
    const SEVERAL: u8 = u8::MAX;

    /// Adds what a core has accessed; returns whether it has written nothing that another one has accessed, and the
    /// other way round.
    fn add(&mut self, core: u8, global: &Global) -> bool {
        let another = |owner: u8| owner != Owners::NO_CORE && owner != core;
        global.touched().all(|touched| {
            let page = self.0.entry(touched.address / PAGE);
            let page = page.or_insert_with(|| vec![[Owners::NO_CORE; 2]; PAGE as usize]);
            let first = (touched.address % PAGE) as usize;
            page[first..first + touched.bytes]
                .iter_mut()
                .all(|[writer, reader]| {
                    let clash = another(*writer) || touched.writes && another(*reader);
                    if touched.writes {
                        *writer = core;
                    }
                    if touched.reads {
                        *reader = if another(*reader) {
                            Owners::SEVERAL
                        } else {
                            core
                        };
                    }
                    !clash
                })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;
    use crate::report::fault::Fault;
    use crate::state::program::Program;
    use crate::{Schedule, SimOptions};
    use colex_atom::Arch;
    use colex_ir::launch::{Argument, Launch};
    use colex_ir::{Access, AtomicOp, Compare, Kernel, KernelBuilder, Space, Special, Type};

    const BLOCKS: u32 = 24;

    /// The bytes that a block writes.
    const PART: i64 = 128;

    /// How the blocks of a test's kernel meet.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Meet {
        Nowhere,
        /// The last block stores beyond its part.
        Race,
        /// All blocks store the same word.
        Equal,
        /// A block in the middle reads what was never written.
        Unwritten,
        Atomic,
    }

    /// Each thread adds up numbers in a loop, through shared memory, and stores its sum.
    fn kernel(meet: Meet) -> Kernel {
        let mut k = KernelBuilder::new("sums", Arch::Sm90a);
        let [from, to] = [k.pointer("from"), k.pointer("to")];
        let tile = k.shared("tile", 256, 16);
        let [from, to] = [from, to].map(|pointer| k.param(pointer));
        let tile = k.address_of(tile);
        let global = Access::new(Space::Global, Type::U32);
        let shared = Access::new(Space::Shared, Type::U32);
        let thread = k.mov(Type::U32, Special::Tid(0));
        let block = k.mov(Type::U32, Special::Ctaid(0));
        let number = k.mad(Type::U32, block, 32, thread);
        let offset = k.mul_wide(Type::U32, number, 4);
        let [from, to] = [from, to].map(|base| k.add(Type::S64, base, offset));
        let place = k.mad(Type::U32, thread, 4, tile);
        let sum = k.mov(Type::U32, 0);
        for _ in 0..160 {
            let x = k.load(global, from);
            k.store(shared, place, x);
            let x = k.load(shared, place);
            let more = k.add(Type::U32, sum, x);
            k.mov_to(sum, more);
        }
        k.store(global, to, sum);
        match meet {
            Meet::Nowhere => {}
            Meet::Race => {
                let last = k.setp(Compare::Eq, Type::U32, block, i64::from(BLOCKS) - 1);
                k.if_(last, |k| {
                    let beyond = k.sub(Type::S64, to, PART);
                    k.store(global, beyond, thread);
                });
            }
            Meet::Equal => {
                let base = k.sub(Type::S64, to, offset);
                let word = k.add(Type::S64, base, PART * i64::from(BLOCKS));
                k.store(global, word, 7);
            }
            Meet::Unwritten => {
                let middle = k.setp(Compare::Eq, Type::U32, block, 11);
                k.if_(middle, |k| {
                    let beyond = k.add(Type::S64, to, PART * i64::from(BLOCKS));
                    let x = k.load(global, beyond);
                    k.store(global, to, x);
                });
            }
            Meet::Atomic => {
                let word = k.add(Type::S64, to, PART * i64::from(BLOCKS));
                k.reduce(AtomicOp::Add, Space::Global, Type::U32, word, &[thread]);
            }
        }
        k.finish()
    }

    /// The verdict, the memory afterwards, and whether several cores ran blocks.
    fn run(meet: Meet, options: SimOptions) -> (Result<Report, Fault>, Vec<u8>, bool) {
        let kernel = kernel(meet);
        let bytes = PART as u64 * u64::from(BLOCKS);
        let mut memory = Memory::default();
        let [from, to] = [bytes, 2 * bytes].map(|bytes| memory.allocate(bytes).unwrap());
        let numbers: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
        memory.write(from, &numbers).unwrap();
        if meet != Meet::Unwritten {
            memory.write(to, &vec![0; 2 * bytes as usize]).unwrap();
        }
        let arguments = [Argument::Pointer(from), Argument::Pointer(to)];
        let program = Program::new(&kernel);
        let launch = Launch::new(BLOCKS, 32);
        let mut machine = Machine::new(&program, &launch, &arguments, &mut memory, &options);
        let verdict = machine.run().map(|()| machine.report());
        let is_spread = machine.is_spread;
        let held = memory.read(to, bytes).unwrap_or_default();
        (verdict, held, is_spread)
    }

    #[test]
    fn every_number_of_cores_gives_the_report_of_one() {
        let mut cases = 0;
        for meet in [
            Meet::Nowhere,
            Meet::Race,
            Meet::Equal,
            Meet::Unwritten,
            Meet::Atomic,
        ] {
            for seed in [0, 2] {
                let options = SimOptions::default().schedule(Schedule::from_seed(seed));
                let (verdict, bytes, is_spread) = run(meet, options.cores(1));
                assert!(!is_spread);
                let fails = matches!(meet, Meet::Race | Meet::Unwritten);
                assert_eq!(verdict.is_err(), fails, "{meet:?}: {verdict:?}");
                let notes = verdict.as_ref().map_or(0, |report| report.warnings.len());
                assert_eq!(notes, usize::from(meet == Meet::Equal));
                for cores in [2, 3, 8] {
                    let (other, others, is_spread) = run(meet, options.cores(cores));
                    assert_eq!(
                        is_spread,
                        meet == Meet::Nowhere,
                        "{meet:?} on {cores} cores"
                    );
                    let texts = [&verdict, &other].map(|v| v.as_ref().err().map(Fault::to_string));
                    assert_eq!(texts[0], texts[1]);
                    assert_eq!(
                        (verdict.as_ref().ok(), &bytes),
                        (other.as_ref().ok(), &others)
                    );
                    cases += 1;
                }
            }
        }
        println!("law every_number_of_cores_gives_the_report_of_one: {cases} cases");
    }
}
