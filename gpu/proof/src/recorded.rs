//! What the simulator saw a kernel do at barriers, as a pipeline of `colex_sched`: its checker then walks every
//! interleaving that the barriers allow, not only the one that the simulator took.
//!
//! The actors are the warps, and beside each warp of a warpgroup its part of the tensor cores, which reads between the
//! moment that the warp issues a product and the moment that the whole warpgroup's is complete. The slots are the bytes of
//! shared memory that asynchronous copies fill; what the instructions of a warp write there is left to the simulator, which
//! finds its races. An item is the number of the copy into a slot: first, second, and so on.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use colex_sched::pipeline::{Actor, Barrier, Pipeline, Slot, Step, check};
use colex_sim::{BarrierAt, Event, EventKind, Grouped, SharedBytes};

/// A recorded run of one cluster.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The run.
    pub pipeline: Pipeline,
    /// How many of the barriers are mbarriers of the kernel; they are the first.
    pub mbarriers: usize,
}

/// What the checker has walked of a run.
#[derive(Clone, Copy, Debug)]
pub struct Checked {
    /// Warps, and their parts of the tensor cores.
    pub actors: usize,
    /// Loads, waits, and reads of what was loaded.
    pub steps: [usize; 3],
    /// Distinct states.
    pub states: usize,
}

impl Recorded {
    /// Walks every interleaving.
    ///
    /// # Errors
    ///
    /// The fault, with the steps of all actors; or that nothing was loaded, waited for or read, so that there is nothing to
    /// check.
    pub fn check(&self) -> Result<Checked, String> {
        let all = || self.pipeline.actors.iter().flat_map(|actor| &actor.steps);
        let count = |is: fn(&Step) -> bool| all().filter(|step| is(step)).count();
        let steps = [
            count(|step| matches!(step, Step::Load { .. })),
            count(|step| matches!(step, Step::Wait { .. } | Step::WaitGroups { .. })),
            count(|step| matches!(step, Step::Multiply { .. })),
        ];
        if steps.contains(&0) {
            let [loads, waits, reads] = steps;
            return Err(format!(
                "{loads} loads, {waits} waits and {reads} reads are no pipeline"
            ));
        }
        match check(&self.pipeline) {
            Ok(report) => Ok(Checked {
                actors: self.pipeline.actors.len(),
                steps,
                states: report.states,
            }),
            Err(fault) => Err(format!("{fault}\n{}", self.pipeline)),
        }
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [loads, waits, reads] = self.steps;
        let Checked { actors, states, .. } = self;
        write!(
            f,
            "{actors} actors, {loads} loads, {waits} waits, {reads} reads; {states} states"
        )
    }
}

/// A warp: its block's rank, and its number there.
type Warp = (usize, usize);

/// The most landings of a run that is checked.
const MOST_LANDINGS: usize = 1 << 12;

/// Copies that a warp begins one after the other, with nothing between them.
#[derive(Debug, Default)]
struct Load {
    to: Vec<SharedBytes>,
    tells: Vec<(BarrierAt, i64)>,
    /// The slots that it fills: class, and the item that it is there.
    fills: Vec<(usize, u16)>,
}

/// Bytes that the same loads fill: one slot, or several where a barrier counts in finer steps.
#[derive(Debug)]
struct Class {
    block: usize,
    start: usize,
    bytes: usize,
    loads: Vec<usize>,
    slots: std::ops::Range<usize>,
}

/// What is read of the slots: the classes, by item.
type Reads = BTreeMap<u16, BTreeSet<usize>>;

/// An mbarrier of the kernel.
#[derive(Debug)]
struct Counted {
    arrivals: i64,
    /// What all numbers of arrivals are multiples of.
    scale: i64,
}

/// Returns the run of a cluster.
///
/// # Errors
///
/// What happened that a pipeline has no step for.
pub fn recorded(events: &[Event], cluster: u32) -> Result<Recorded, String> {
    let events: Vec<&Event> = events.iter().filter(|e| e.cluster == cluster).collect();
    let mut run = Run::default();
    run.find_loads(&events);
    run.find_classes();
    run.count_barriers(&events)?;
    run.cut_slots(&events)?;
    run.find_reads(&events);
    run.act(&events)
}

#[derive(Debug, Default)]
struct Run {
    loads: Vec<Load>,
    /// The load of each copy, and the load that begins at an event.
    load_of: HashMap<u64, usize>,
    begins: HashMap<usize, usize>,
    classes: Vec<Class>,
    /// The bytes of the classes: where they begin, where they end, and whose they are.
    pieces: BTreeMap<(usize, usize), (usize, usize)>,
    barriers: BTreeMap<BarrierAt, Counted>,
    /// Bytes of a landing that barriers are told of.
    grain: i64,
    /// What the instruction of an event reads, and what an operation reads.
    reads_at: HashMap<usize, Reads>,
    reads_of: HashMap<u64, Reads>,
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn warp(event: &Event) -> Warp {
    (event.block, event.warp)
}

/// Whether the warp itself does it, at this moment of its program.
fn is_own(kind: &EventKind) -> bool {
    !matches!(
        kind,
        EventKind::Landed { .. } | EventKind::Read { by: Some(_), .. }
    )
}

impl Run {
    fn find_loads(&mut self, events: &[&Event]) {
        let mut open: HashMap<Warp, usize> = HashMap::new();
        for (i, event) in events.iter().enumerate() {
            if !is_own(&event.kind) {
                continue;
            }
            let before = open.remove(&warp(event));
            let EventKind::Copy {
                number,
                to,
                tells,
                grouped,
            } = &event.kind
            else {
                continue;
            };
            let load = before.filter(|_| *grouped).unwrap_or_else(|| {
                self.loads.push(Load::default());
                self.begins.insert(i, self.loads.len() - 1);
                self.loads.len() - 1
            });
            self.load_of.insert(*number, load);
            self.loads[load].to.extend(to);
            self.loads[load].tells.extend(tells);
            if *grouped {
                open.insert(warp(event), load);
            }
        }
    }

    fn find_classes(&mut self) {
        let mut ends: BTreeSet<(usize, usize)> = BTreeSet::new();
        for bytes in self.loads.iter().flat_map(|load| &load.to) {
            ends.extend([(bytes.block, bytes.start), (bytes.block, bytes.end)]);
        }
        let ends: Vec<(usize, usize)> = ends.into_iter().collect();
        let mut covers: Vec<Vec<usize>> = vec![Vec::new(); ends.len()];
        for (i, load) in self.loads.iter().enumerate() {
            for bytes in &load.to {
                let first = ends.partition_point(|end| *end < (bytes.block, bytes.start));
                let inside = ends[first..]
                    .iter()
                    .take_while(|end| **end < (bytes.block, bytes.end));
                for cover in &mut covers[first..first + inside.count()] {
                    if cover.last() != Some(&i) {
                        cover.push(i);
                    }
                }
            }
        }
        let mut known: HashMap<(usize, Vec<usize>), usize> = HashMap::new();
        for (at, loads) in covers.into_iter().enumerate() {
            if loads.is_empty() {
                continue;
            }
            let ((block, start), (_, end)) = (ends[at], ends[at + 1]);
            let class = *known.entry((block, loads.clone())).or_insert_with(|| {
                for (item, load) in loads.iter().enumerate() {
                    self.loads[*load]
                        .fills
                        .push((self.classes.len(), item as u16));
                }
                self.classes.push(Class {
                    block,
                    start,
                    bytes: 0,
                    loads,
                    slots: 0..0,
                });
                self.classes.len() - 1
            });
            self.classes[class].bytes += end - start;
            self.pieces.insert((block, start), (end, class));
        }
    }

    fn count_barriers(&mut self, events: &[&Event]) -> Result<(), String> {
        for event in events {
            match &event.kind {
                EventKind::Init { barrier, arrivals } => {
                    let arrivals = i64::from(*arrivals);
                    let fresh = Counted {
                        arrivals,
                        scale: arrivals,
                    };
                    if self.barriers.insert(*barrier, fresh).is_some() {
                        return Err(format!("the barrier at {barrier:?} is initialised twice"));
                    }
                }
                EventKind::Arrive { barrier, count, .. } => {
                    let counted = self.barriers.get_mut(barrier);
                    let counted = counted.ok_or(format!("no barrier at {barrier:?}"))?;
                    counted.scale = gcd(counted.scale, i64::from(*count));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The barrier that hears of a load's bytes in a block.
    fn told(&self, load: usize, block: usize) -> Option<BarrierAt> {
        let mut tells = self.loads[load].tells.iter().map(|(barrier, _)| *barrier);
        tells.find(|barrier| barrier.0 == block)
    }

    fn cut_slots(&mut self, events: &[&Event]) -> Result<(), String> {
        let expected = events.iter().filter_map(|event| match event.kind {
            EventKind::Arrive { bytes, .. } => Some(bytes),
            _ => None,
        });
        let is_told = |class: &&Class| {
            class
                .loads
                .iter()
                .any(|l| self.told(*l, class.block).is_some())
        };
        let told: Vec<i64> = self
            .classes
            .iter()
            .filter(is_told)
            .map(|c| c.bytes as i64)
            .collect();
        self.grain = expected.chain(told).fold(0, gcd).max(1);
        let (mut slots, mut landings) = (0, 0);
        for class in 0..self.classes.len() {
            let Class {
                block,
                bytes,
                ref loads,
                ..
            } = self.classes[class];
            let count = if loads.iter().any(|l| self.told(*l, block).is_some()) {
                bytes / self.grain as usize
            } else {
                1
            };
            landings += count * loads.len();
            self.classes[class].slots = slots..slots + count;
            slots += count;
        }
        if landings <= MOST_LANDINGS {
            Ok(())
        } else {
            Err(format!("{landings} landings of {} bytes", self.grain))
        }
    }

    /// The classes of some bytes.
    fn classes_of(&self, bytes: &SharedBytes) -> impl Iterator<Item = usize> + '_ {
        let SharedBytes { block, start, end } = *bytes;
        let before = self.pieces.range((block, 0)..(block, start)).next_back();
        let inside = self.pieces.range((block, start)..(block, end));
        let before = before.filter(move |(_, (to, _))| *to > start);
        before
            .into_iter()
            .chain(inside)
            .map(|(_, (_, class))| *class)
    }

    fn find_reads(&mut self, events: &[&Event]) {
        let mut contents: Vec<Option<u16>> = vec![None; self.classes.len()];
        for (i, event) in events.iter().enumerate() {
            match &event.kind {
                EventKind::Landed { number } => {
                    if let Some(load) = self.load_of.get(number) {
                        for (class, item) in &self.loads[*load].fills {
                            contents[*class] = Some(*item);
                        }
                    }
                }
                EventKind::Write { to } => {
                    for class in to.iter().flat_map(|bytes| self.classes_of(bytes)) {
                        contents[class] = None;
                    }
                }
                EventKind::Read { by, from } => {
                    let mut reads = Reads::new();
                    for class in from.iter().flat_map(|bytes| self.classes_of(bytes)) {
                        if let Some(item) = contents[class] {
                            reads.entry(item).or_default().insert(class);
                        }
                    }
                    let all = match by {
                        Some(number) => self.reads_of.entry(*number).or_default(),
                        None => self.reads_at.entry(i).or_default(),
                    };
                    join(all, reads);
                }
                _ => {}
            }
        }
    }

    /// One step for each item that is read.
    fn multiplies(&self, reads: &Reads) -> Vec<Step> {
        let step = |(item, classes): (&u16, &BTreeSet<usize>)| Step::Multiply {
            item: *item,
            slots: classes
                .iter()
                .flat_map(|c| self.classes[*c].slots.clone())
                .collect(),
        };
        reads.iter().map(step).collect()
    }

    fn act(self, events: &[&Event]) -> Result<Recorded, String> {
        let mut barriers = Barriers::new(&self, events)?;
        let mut warps: BTreeMap<Warp, Program> = BTreeMap::new();
        for (i, event) in events.iter().enumerate() {
            if is_own(&event.kind) {
                let program = warps.entry(warp(event)).or_default();
                let done = program.step(&self, &mut barriers, i, event);
                done.map_err(|why| format!("{}:{}: {why}", event.at.file(), event.at.line()))?;
            }
        }
        let mut actors = Vec::new();
        for ((block, number), mut program) in warps {
            program.flush(&self, &mut barriers, (block, number))?;
            let mut add = |name: String, steps: Vec<Step>| {
                if !steps.is_empty() {
                    actors.push(Actor { name, block, steps });
                }
            };
            let name = format!("warp {number} of block {block}");
            add(format!("the tensor cores of {name}"), program.products);
            add(name, program.steps);
        }
        let slots = self.classes.iter().flat_map(|class| {
            let name = format!("bytes from {} of block {}", class.start, class.block);
            let slot = Slot {
                name,
                block: class.block,
            };
            vec![slot; class.slots.len()]
        });
        let pipeline = Pipeline {
            name: "a recorded run".to_string(),
            slots: slots.collect(),
            barriers: barriers.all,
            actors,
        };
        Ok(Recorded {
            pipeline,
            mbarriers: self.barriers.len(),
        })
    }
}

fn join(all: &mut Reads, more: Reads) {
    for (item, classes) in more {
        all.entry(item).or_default().extend(classes);
    }
}

/// The barriers of a run: those of the kernel, and those that stand for what the device does by itself.
struct Barriers {
    all: Vec<Barrier>,
    /// Where the mbarriers, the named barriers and the cluster's are.
    counted: BTreeMap<BarrierAt, usize>,
    named: BTreeMap<(usize, usize), usize>,
    cluster: Option<usize>,
    /// For each group of products that a warpgroup commits, the barrier that completes with it.
    done: HashMap<(usize, usize, usize), usize>,
}

impl Barriers {
    fn new(run: &Run, events: &[&Event]) -> Result<Barriers, String> {
        let mut barriers = Barriers {
            all: Vec::new(),
            counted: BTreeMap::new(),
            named: BTreeMap::new(),
            cluster: None,
            done: HashMap::new(),
        };
        for (at, Counted { arrivals, scale }) in &run.barriers {
            let name = format!("the barrier at byte {} of block {}", at.1, at.0);
            let index = barriers.add(name, at.0, arrivals / scale);
            barriers.counted.insert(*at, index);
        }
        let mut parties: BTreeMap<(usize, usize), (BTreeSet<usize>, Option<u32>)> = BTreeMap::new();
        let mut in_cluster: BTreeSet<Warp> = BTreeSet::new();
        for event in events {
            match event.kind {
                EventKind::Named { id, threads, .. } => {
                    let party = parties.entry((event.block, id)).or_default();
                    party.0.insert(event.warp);
                    party.1 = party.1.or(threads);
                }
                EventKind::ClusterArrive => {
                    in_cluster.insert(warp(event));
                }
                _ => {}
            }
        }
        for ((block, id), (warps, threads)) in parties {
            let wanted = threads.map_or(warps.len(), |threads| threads as usize / 32);
            if wanted != warps.len() {
                let found = warps.len();
                return Err(format!(
                    "barrier {id} of block {block} is for {wanted} warps, and {found} take part"
                ));
            }
            let name = format!("barrier {id} of block {block}");
            let index = barriers.add(name, block, wanted as i64);
            barriers.named.insert((block, id), index);
        }
        if !in_cluster.is_empty() {
            let count = in_cluster.len() as i64;
            barriers.cluster =
                Some(barriers.add("the barrier of the cluster".to_string(), 0, count));
        }
        Ok(barriers)
    }

    fn add(&mut self, name: String, block: usize, arrivals: i64) -> usize {
        let arrivals = u16::try_from(arrivals).unwrap_or(u16::MAX);
        self.all.push(Barrier {
            name,
            block,
            arrivals,
        });
        self.all.len() - 1
    }

    fn counted(&self, at: &BarrierAt) -> Result<usize, String> {
        let index = self.counted.get(at).copied();
        index.ok_or_else(|| {
            format!(
                "no barrier was initialised at byte {} of block {}",
                at.1, at.0
            )
        })
    }
}

/// The steps of a warp, and of its part of the tensor cores.
#[derive(Default)]
struct Program {
    steps: Vec<Step>,
    products: Vec<Step>,
    /// What it reads since its last step, and what the products read that it has issued since.
    reading: Reads,
    issuing: Reads,
    /// How many groups of products it has committed, and for how many it has waited.
    committed: usize,
    waited: usize,
    /// How many reads each group of bulk stores has, the open one last.
    stores: Vec<u16>,
    cluster_waits: u8,
}

impl Program {
    /// Writes down what has been read, by instructions and by products.
    fn flush(
        &mut self,
        run: &Run,
        barriers: &mut Barriers,
        (block, warp): Warp,
    ) -> Result<(), String> {
        if !self.reading.is_empty() {
            if self.stores.iter().any(|reads| *reads > 0) {
                return Err(
                    "it reads what a copy brought while its own stores read such bytes".to_string(),
                );
            }
            self.steps
                .extend(run.multiplies(&std::mem::take(&mut self.reading)));
            self.steps.push(Step::Retire { pending: 0 });
        }
        if !self.issuing.is_empty() {
            let name = format!("the products that warp {warp} of block {block} issues");
            let issued = barriers.add(name, block, 1);
            self.steps.push(Step::Arrive { barrier: issued });
            let group = (block, warp / 4, self.committed);
            let done = match barriers.done.get(&group) {
                Some(done) => {
                    barriers.all[*done].arrivals += 1;
                    *done
                }
                None => {
                    let name = format!(
                        "products {} of warpgroup {} of block {block}",
                        group.2, group.1
                    );
                    let done = barriers.add(name, block, 1);
                    barriers.done.insert(group, done);
                    done
                }
            };
            self.products.push(Step::Wait {
                barrier: issued,
                parity: 0,
            });
            self.products
                .extend(run.multiplies(&std::mem::take(&mut self.issuing)));
            self.products.push(Step::Retire { pending: 0 });
            self.products.push(Step::Arrive { barrier: done });
        }
        Ok(())
    }

    fn step(
        &mut self,
        run: &Run,
        barriers: &mut Barriers,
        i: usize,
        event: &Event,
    ) -> Result<(), String> {
        match &event.kind {
            EventKind::Init { .. } | EventKind::Write { .. } => return Ok(()),
            EventKind::Read { .. } => {
                join(
                    &mut self.reading,
                    run.reads_at.get(&i).cloned().unwrap_or_default(),
                );
                return Ok(());
            }
            EventKind::Product { number } => {
                join(
                    &mut self.issuing,
                    run.reads_of.get(number).cloned().unwrap_or_default(),
                );
                return Ok(());
            }
            EventKind::Copy { grouped: true, .. } if !run.begins.contains_key(&i) => return Ok(()),
            _ => self.flush(run, barriers, warp(event))?,
        }
        match &event.kind {
            EventKind::Arrive {
                barrier,
                count,
                bytes,
            } => {
                let at = barriers.counted(barrier)?;
                let mut count = i64::from(*count) / run.barriers[barrier].scale;
                if *bytes > 0 {
                    let loads = u16::try_from(bytes / run.grain).unwrap_or(u16::MAX);
                    self.steps.push(Step::Expect { barrier: at, loads });
                    count -= 1;
                }
                self.steps
                    .extend((0..count).map(|_| Step::Arrive { barrier: at }));
            }
            EventKind::Wait { barrier, parity } => {
                let barrier = barriers.counted(barrier)?;
                self.steps.push(Step::Wait {
                    barrier,
                    parity: *parity,
                });
            }
            EventKind::Copy { number, .. } => self.copy(run, barriers, i, *number)?,
            EventKind::Commit(Grouped::Copies) => self.steps.push(Step::Commit),
            EventKind::WaitGroups(Grouped::Copies, pending) => {
                let pending = *pending as u16;
                self.steps.push(Step::WaitGroups { pending });
            }
            EventKind::Commit(Grouped::Products) => self.committed += 1,
            EventKind::WaitGroups(Grouped::Products, pending) => {
                let complete = self.committed.saturating_sub(*pending as usize);
                for group in self.waited..complete {
                    // A group that reads no slot has no barrier.
                    let done = barriers.done.get(&(event.block, event.warp / 4, group));
                    self.steps.extend(done.map(|barrier| Step::Wait {
                        barrier: *barrier,
                        parity: 0,
                    }));
                }
                self.waited = self.waited.max(complete);
            }
            EventKind::Commit(Grouped::Stores) => {
                self.open_store();
                self.stores.push(0);
            }
            EventKind::WaitGroups(Grouped::Stores, pending) => {
                // The open group and the last complete ones may still read.
                let still = self.stores.len().saturating_sub(*pending as usize + 1);
                let pending = self.stores[still.min(self.stores.len())..].iter().sum();
                self.stores.drain(..still);
                self.steps.push(Step::Retire { pending });
            }
            EventKind::Named { id, waits, .. } => {
                let barrier = barriers.named[&(event.block, *id)];
                self.steps.push(if *waits {
                    Step::Sync { barrier }
                } else {
                    Step::SyncArrive { barrier }
                });
            }
            EventKind::ClusterArrive => {
                let barrier = barriers.cluster.ok_or("no cluster")?;
                self.steps.push(Step::Arrive { barrier });
            }
            EventKind::ClusterWait => {
                let barrier = barriers.cluster.ok_or("no cluster")?;
                let parity = self.cluster_waits % 2;
                self.steps.push(Step::Wait { barrier, parity });
                self.cluster_waits += 1;
            }
            EventKind::Expect { .. } => {
                return Err("bytes are expected without an arrival".to_string());
            }
            EventKind::ArriveAfterCopies { .. } => {
                return Err("an arrival follows copies that may still be under way".to_string());
            }
            EventKind::Init { .. }
            | EventKind::Write { .. }
            | EventKind::Read { .. }
            | EventKind::Product { .. }
            | EventKind::Landed { .. } => {}
        }
        Ok(())
    }

    /// The reads of the open group of bulk stores.
    fn open_store(&mut self) -> &mut u16 {
        if self.stores.is_empty() {
            self.stores.push(0);
        }
        self.stores.last_mut().expect("one was pushed")
    }

    fn copy(
        &mut self,
        run: &Run,
        barriers: &Barriers,
        i: usize,
        number: u64,
    ) -> Result<(), String> {
        let load = run.begins[&i];
        let mut by_item: BTreeMap<u16, Vec<(usize, Option<usize>)>> = BTreeMap::new();
        for (class, item) in &run.loads[load].fills {
            let class = &run.classes[*class];
            let told = match run.told(load, class.block) {
                Some(at) => Some(barriers.counted(&at)?),
                None => None,
            };
            let to = by_item.entry(*item).or_default();
            to.extend(class.slots.clone().map(|slot| (slot, told)));
        }
        let loads = by_item
            .into_iter()
            .map(|(item, to)| Step::Load { item, to });
        self.steps.extend(loads);
        if let Some(reads) = run.reads_of.get(&number) {
            let reads = run.multiplies(reads);
            *self.open_store() += reads.len() as u16;
            self.steps.extend(reads);
        }
        Ok(())
    }
}
