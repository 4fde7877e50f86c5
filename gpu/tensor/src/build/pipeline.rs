//! Pipelines over a ring of stages in shared memory, and their participants: producers and consumers.
//!
//! What a participant holds is followed while the kernel is written. A loop repeats its body, and a branch may be left out,
//! so each body must leave every participant as it found it; then what holds of one turn holds of all of them.

use std::cell::Cell;
use std::collections::HashSet;
use std::panic::Location;
use std::rc::Rc;

use super::Builder;
use super::barrier::Barriers;
use super::flow::Cond;
use super::variable::Var;
use crate::error::ErrorKind;
use crate::failure::FirstFailure;
use crate::index::Index;
use colex_ir::{Async, BinaryOp, Compare, FenceKind, Guard, Reg, Type};
use colex_sched::pipeline::WarpSpecialized;

type CallSite = &'static Location<'static>;

/// A ring of stages: two mbarriers per stage, one says that it is full and one that it is empty.
///
/// Its participants, [`Producer`] and [`Consumer`], keep the stage and the parity that they stand at.
///
/// ```
/// use colex_atom::Arch;
/// use colex_tensor::{Builder, Pipeline};
///
/// let mut k = Builder::new("k", Arch::Sm90a, 384);
/// // What the schedule says: how many stages there are, and how many arrivals each phase takes.
/// let schedule = colex_sched::pipeline::WarpSpecialized::cooperative(4, 1, 8);
/// let ring = k.pipeline_of(&schedule);
/// assert_eq!((ring.stages(), ring.arrivals()), (4, [1, 2]));
/// ```
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// Completed when a stage's data has landed.
    pub(crate) full: Barriers,
    /// Completed when all consumers have released a stage.
    pub(crate) empty: Barriers,
    /// Completed when a relay has passed a stage on, and the number of its threads: consumers wait for it.
    passed: Option<(Barriers, u32)>,
    stages: i64,
    arrivals: [u32; 2],
    /// Multiplies that a consumer leaves running, so that it releases as many stages later.
    in_flight: usize,
    /// Blocks of the cluster along m and n.
    cluster: [i64; 2],
    number: usize,
    failure: FirstFailure,
}

impl Pipeline {
    /// Returns the numbers of arrivals that complete a phase of the full and of the empty barriers.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 384);
    /// assert_eq!(k.pipeline(4, 1, 2).arrivals(), [1, 2]);
    /// ```
    pub fn arrivals(&self) -> [u32; 2] {
        self.arrivals
    }

    /// Returns the number of stages of the ring.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 384);
    /// assert_eq!(k.pipeline(4, 1, 2).stages(), 4);
    /// ```
    pub fn stages(&self) -> i64 {
        self.stages
    }

    /// Returns the ring that a number of threads fill together: each of them arrives at a full barrier.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_tensor::Builder;
    /// let mut k = Builder::new("k", Arch::Sm90a, 384);
    /// assert_eq!(k.pipeline(4, 1, 2).filled_by(128).arrivals(), [128, 2]);
    /// ```
    #[must_use]
    pub fn filled_by(self, threads: u32) -> Pipeline {
        Pipeline {
            arrivals: [threads, self.arrivals[1]],
            ..self
        }
    }
}

/// The side of a pipeline that fills stages: CUTLASS's `producer_acquire`, `producer_commit`, `producer_tail`.
#[doc(alias = "PipelineProducer")]
#[doc(alias = "PipelineTmaAsync")]
#[derive(Clone, Debug)]
pub struct Producer(Participant);

/// A side between the producer and the consumers of a pipeline: threads that change a full stage where it is, and pass it on.
///
/// A ring that TMA fills has a relay where its tiles are not in the order that the consumers read: the relay's threads transpose
/// them, for example. See [`Builder::relay`].
#[derive(Clone, Debug)]
pub struct Relay(Participant);

/// The side of a pipeline that reads stages: CUTLASS's `consumer_wait`, `consumer_release`.
#[doc(alias = "PipelineConsumer")]
#[derive(Clone, Debug)]
pub struct Consumer {
    of: Participant,
    /// The lane of the consumer, the block of the cluster at whose barrier it arrives, and whether it does.
    arrives: Option<(Index, Cond)>,
    /// The stages waited for before, the latest first, whose multiplies may still run.
    before: Vec<Var>,
}

/// What a [`Producer`] and a [`Consumer`] have in common.
#[derive(Clone, Debug)]
struct Participant {
    number: usize,
    ring: Ring,
    state: State,
}

/// The memory that keeps the participants in step.
#[derive(Clone, Debug)]
enum Ring {
    Barriers(Pipeline, Fill),
    /// Groups of `cp.async`, and the barrier of the block.
    Groups {
        number: usize,
        failure: FirstFailure,
    },
}

/// How a stage becomes full.
#[derive(Clone, Debug)]
enum Fill {
    /// Loads report that many bytes.
    Bytes(i64),
    /// Loads report that number of bytes, a number of the launch.
    Number(Index),
    /// The producer's threads arrive when they commit.
    Arrivals,
    /// The producer's threads arrive when the copies by `cp.async` that they have begun have landed.
    Copies,
}

/// Where a participant stands.
#[derive(Clone, Debug)]
enum State {
    /// The stage, and the parity of the phase waited for there.
    Phase(Var, Var),
    /// The place of a stage among the participants' own.
    Groups,
}

/// A stage that a participant has: between [`Producer::acquire`] and [`Producer::commit`], between [`Relay::wait`] and
/// [`Relay::pass`], or between [`Consumer::wait`] and [`Consumer::release`]. It is the place of the stage mode: `tensor.at(3, &stage)`.
#[derive(Clone, Debug)]
pub struct Stage {
    index: Index,
    /// The barrier that loads into it report to.
    barrier: Option<Index>,
    participant: usize,
    handle: u32,
    opened: CallSite,
    /// Where it was committed or released.
    closed: Rc<Cell<Option<CallSite>>>,
    words: &'static Words,
}

/// What is said of a side.
#[derive(Debug, PartialEq)]
struct Words {
    actor: &'static str,
    open: &'static str,
    close: &'static str,
    closed: &'static str,
}

/// The most stages of a ring of `cp.async` groups.
const MOST_STAGES: i64 = 1 << 16;

/// The most items that a participant skips at once, so that the count of its stages fits 32 bits.
const MOST_ITEMS: i64 = 1 << 31;

/// What the bytes of a copy by TMA are multiples of.
const TMA_BYTES: i64 = 16;

/// The most bytes that an mbarrier counts in a phase.
const MOST_BYTES: i64 = (1 << 20) - 1;

const PRODUCER: Words = Words {
    actor: "producer",
    open: "acquire",
    close: "commit",
    closed: "committed",
};
const RELAY: Words = Words {
    actor: "relay",
    open: "wait",
    close: "pass",
    closed: "passed on",
};
const CONSUMER: Words = Words {
    actor: "consumer",
    open: "wait",
    close: "release",
    closed: "released",
};

impl Stage {
    /// Returns the number of the stage.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let (ring, lane) = (k.pipeline(2, 32, 1), k.lane());
    /// # k.start_pipelines(&[&ring], false);
    /// # let producer = k.producer(&ring);
    /// let stage = producer.acquire(&mut k);
    /// assert_eq!(stage.index().range(), (0, 1)); // one of two stages
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails where it is used after it was committed or released.
    #[track_caller]
    pub fn index(&self) -> Index {
        self.alive(&self.index)
    }

    /// Returns the barrier that loads into the stage report to.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let (ring, lane) = (k.pipeline(2, 32, 1), k.lane());
    /// # k.start_pipelines(&[&ring], false);
    /// # let producer = k.producer(&ring);
    /// let stage = producer.acquire(&mut k);
    /// assert_eq!(stage.barrier().alignment(), 8); // the address of its full barrier
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Stage::index`]; for a stage of `cp.async`, whose groups have no barrier.
    #[track_caller]
    pub fn barrier(&self) -> Index {
        match &self.barrier {
            Some(barrier) => self.alive(barrier),
            None => {
                let why = "a stage of `cp.async` groups has none: `commit` closes the group of its copies";
                Index::poison_of(ErrorKind::operands("barrier", why), Location::caller())
            }
        }
    }

    #[track_caller]
    fn alive(&self, index: &Index) -> Index {
        let Some(closed) = self.closed.get() else {
            return index.clone();
        };
        let Words {
            open, closed: how, ..
        } = self.words;
        let why = format!(
            "the stage of the `{open}` in line {} is used after it was {how} in line {}: it belongs to the other side by then",
            self.opened.line(),
            closed.line()
        );
        Index::poison_of(ErrorKind::operands("stage", why), Location::caller())
    }
}

impl From<&Stage> for Index {
    #[track_caller]
    fn from(stage: &Stage) -> Index {
        stage.index()
    }
}

/// What is known of the pipelines of a kernel while it is written.
#[derive(Debug, Default)]
pub(crate) struct Pipelines {
    rings: Vec<RingSoFar>,
    members: Vec<Member>,
    /// Registers that hold the stage of a participant.
    pub(crate) stages: HashSet<Reg>,
    handles: u32,
}

/// A ring as the kernel is being written.
#[derive(Debug)]
struct RingSoFar {
    made: CallSite,
    /// Whether its barriers are initialised; groups have none.
    is_started: bool,
    /// Where it was given a relay.
    relayed: Option<CallSite>,
    groups: Option<Groups>,
}

/// The stages of a ring of `cp.async` groups.
#[derive(Clone, Debug)]
struct Groups {
    stages: i64,
    now: Counts,
    write: Place,
    read: Place,
    meeting: Meeting,
    last: CallSite,
}

/// What the turns of a loop have to do with each other.
#[derive(Clone, Copy, Debug, Default)]
struct Meeting {
    /// The least room that an acquire of this body has found before the threads met, and that acquire.
    tight: Option<(i64, CallSite)>,
    /// Whether they have met in this body.
    has_met: bool,
}

/// What the stages of a ring of groups are in use for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    /// Committed and not yet waited for.
    filled: i64,
    /// Waited for and not yet released.
    held: i64,
    /// Released since the threads met: others may still read them.
    unmet: i64,
}

/// The next stage of a side.
#[derive(Clone, Debug)]
enum Place {
    /// A number, and how many bodies were open when it became that.
    Known(i64, usize),
    Var(Var),
}

/// A participant as the kernel is being written.
#[derive(Debug)]
struct Member {
    ring: usize,
    words: &'static Words,
    open: Option<(u32, CallSite)>,
    /// The last call.
    last: CallSite,
    made: CallSite,
    /// The bodies that were open when it was made.
    bodies: Vec<u32>,
    /// The conditions under which it works.
    role: Vec<(Guard, CallSite)>,
    has_worked: bool,
    /// Where stages of earlier steps were left to be released.
    behind: Option<CallSite>,
    tail: Option<CallSite>,
    must_tail: bool,
}

/// What a body must leave as it was.
pub(crate) struct Before {
    open: Vec<Option<(u32, CallSite)>>,
    counts: Vec<Option<(Counts, Meeting)>>,
}

impl Meeting {
    /// Notes the room that an acquire has found. Behind a meeting, the turn before has no part in it.
    fn acquire(&mut self, room: i64, at: CallSite) {
        if !self.has_met && self.tight.is_none_or(|(least, _)| room < least) {
            self.tight = Some((room, at));
        }
    }
}

impl Pipelines {
    fn handle(&mut self) -> u32 {
        self.handles += 1;
        self.handles
    }

    /// Notes what the participants have when a body begins. In a loop the stages that they have are those of each turn.
    pub(crate) fn begin_body(&mut self, repeats: bool) -> Before {
        if repeats {
            for i in 0..self.members.len() {
                let handle = self.handle();
                if let Some(open) = &mut self.members[i].open {
                    open.0 = handle;
                }
            }
        }
        let counts = |ring: &mut RingSoFar| {
            let groups = ring.groups.as_mut()?;
            let meeting = groups.meeting;
            if repeats {
                groups.meeting = Meeting::default();
            }
            Some((groups.now, meeting))
        };
        Before {
            open: self.members.iter().map(|m| m.open).collect(),
            counts: self.rings.iter_mut().map(counts).collect(),
        }
    }

    /// Refuses a body that leaves a participant otherwise than it found it.
    pub(crate) fn end_body(
        &mut self,
        before: Before,
        repeats: bool,
    ) -> Result<(), (ErrorKind, CallSite)> {
        for i in 0..self.members.len() {
            let was = before.open.get(i).copied().flatten();
            let fresh = self.handle();
            let member = &mut self.members[i];
            let Words {
                open,
                close,
                closed,
                ..
            } = member.words;
            match (was, &mut member.open) {
                (None, Some((_, at))) => {
                    let why = format!(
                        "the loop or branch ends, and the stage is not {closed}: `{close}` it in the body that has the `{open}`"
                    );
                    return Err((ErrorKind::operands(open, why), at));
                }
                (Some((_, at)), None) => {
                    let why = format!(
                        "the stage is of the `{open}` in line {}, outside of this loop or branch: leave a body with as many \
                         stages as it began with",
                        at.line()
                    );
                    return Err((ErrorKind::operands(close, why), member.last));
                }
                (Some((handle, _)), Some(now)) if now.0 != handle => now.0 = fresh,
                _ => {}
            }
        }
        for (ring, (was, outer)) in self
            .rings
            .iter_mut()
            .zip(before.counts)
            .filter_map(|(ring, was)| Some((ring.groups.as_mut()?, was?)))
        {
            let (now, last) = (ring.now, ring.last);
            if [now.filled, now.held] != [was.filled, was.held] {
                let why = format!(
                    "the loop or branch begins with {} stages on their way and {} waited for, and ends with {} and {}: commit, \
                     wait for and release as many in each body",
                    was.filled, was.held, now.filled, now.held
                );
                return Err((ErrorKind::operands("pipeline", why), last));
            }
            let inner = ring.meeting;
            if repeats
                && let Some((room, at)) = inner.tight
                && now.unmet - was.unmet > room
            {
                let why = "the stage may still be read: a turn of the loop before has released it, and since then the threads \
                           have not met in a `wait` or a `sync`";
                return Err((ErrorKind::operands("acquire", why), at));
            }
            ring.now.unmet = now.unmet.max(was.unmet);
            if repeats {
                // The loop may have had no turn.
                ring.meeting = outer;
                if let Some((room, at)) = inner.tight {
                    ring.meeting.acquire(room, at);
                }
            }
        }
        Ok(())
    }

    /// Notes that the threads of the block have met.
    pub(crate) fn met(&mut self) {
        for groups in self.rings.iter_mut().filter_map(|r| r.groups.as_mut()) {
            groups.now.unmet = 0;
            groups.meeting.has_met = true;
        }
    }

    /// Refuses a kernel that ends in the middle of a pipeline.
    pub(crate) fn check_end(&self) -> Result<(), (ErrorKind, CallSite)> {
        for member in &self.members {
            let Words {
                open,
                close,
                closed,
                ..
            } = member.words;
            let groups = &self.rings[member.ring].groups;
            // What was read last need not be released: the block's shared memory ends with it.
            let may_keep = groups.is_some() && *member.words == CONSUMER;
            if let Some((_, at)) = member.open
                && !may_keep
            {
                let why = format!("the kernel ends, and the stage is not {closed}: `{close}` it");
                return Err((ErrorKind::operands(open, why), at));
            }
            if let Some(at) = member.behind {
                let why = "the stages of the last steps are still held: `release_rest` after the loop releases them";
                return Err((ErrorKind::operands("release_behind", why), at));
            }
            if member.must_tail && member.has_worked && member.tail.is_none() {
                let why = "the blocks of a cluster arrive at each other's barriers: end with the producer's `tail`, which waits \
                           for them";
                return Err((ErrorKind::operands("producer", why), member.made));
            }
        }
        for (number, ring) in self.rings.iter().enumerate() {
            let works = |words: &Words| {
                let mut own = self.members.iter().filter(|member| member.ring == number);
                own.any(|member| *member.words == *words && member.has_worked)
            };
            if let Some(at) = ring.relayed
                && works(&CONSUMER)
                && !works(&RELAY)
            {
                let why = "consumers wait for stages that no relay passes on: `Builder::relay` makes the side that does";
                return Err((ErrorKind::operands("relayed", why), at));
            }
        }
        for groups in self.rings.iter().filter_map(|r| r.groups.as_ref()) {
            if groups.now.filled > 0 {
                let why = "the kernel ends, and copies into the ring may be on their way: end with the producer's `tail`, which \
                           waits for them";
                return Err((ErrorKind::operands("commit", why), groups.last));
            }
        }
        Ok(())
    }
}

impl Ring {
    fn number(&self) -> usize {
        match self {
            Ring::Barriers(pipeline, _) => pipeline.number,
            Ring::Groups { number, .. } => *number,
        }
    }

    fn failure(&self) -> &FirstFailure {
        match self {
            Ring::Barriers(pipeline, _) => &pipeline.failure,
            Ring::Groups { failure, .. } => failure,
        }
    }
}

/// The stage after one.
fn after(stage: &Index, stages: i64) -> Index {
    let last = Index::from(stages - 1);
    Index::select_less(stage, &last, &(stage + 1), &0.into()).within(0..stages)
}

impl Builder {
    /// Builds a ring of `stages` stages whose full barriers take `producers` arrivals and whose empty barriers take `consumers` arrivals.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 384);
    /// let ring = k.pipeline(4, 1, 2);
    /// assert_eq!(ring.stages(), 4);
    /// assert_eq!(ring.arrivals(), [1, 2]);
    /// ```
    #[track_caller]
    pub fn pipeline(&mut self, stages: i64, producers: u32, consumers: u32) -> Pipeline {
        // A closure would be the caller that instructions and errors name.
        let full = self.barriers_for("full ", stages);
        let empty = self.barriers_for("empty ", stages);
        Pipeline {
            full,
            empty,
            passed: None,
            stages,
            arrivals: [producers, consumers],
            in_flight: 0,
            cluster: [1, 1],
            number: self.new_ring(None, Location::caller()),
            failure: self.failure.clone(),
        }
    }

    fn new_ring(&mut self, groups: Option<Groups>, made: CallSite) -> usize {
        self.pipelines.rings.push(RingSoFar {
            made,
            is_started: groups.is_some(),
            relayed: None,
            groups,
        });
        self.pipelines.rings.len() - 1
    }

    /// Builds the ring of a schedule, with its number of stages and the arrivals of its full and empty barriers.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 384);
    /// let schedule = colex_sched::pipeline::WarpSpecialized::cooperative(4, 1, 8);
    /// let ring = k.pipeline_of(&schedule);
    /// assert_eq!((ring.stages(), ring.arrivals()), (4, [1, 2]));
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if the schedule is not valid.
    #[track_caller]
    pub fn pipeline_of(&mut self, schedule: &WarpSpecialized) -> Pipeline {
        if let Err(error) = schedule.check() {
            self.fail(error.into(), Location::caller());
            return self.pipeline(1, 1, 1);
        }
        // A schedule that was checked has few of each.
        let [full, empty] = schedule.arrivals().map(|count| count as u32);
        Pipeline {
            in_flight: schedule.in_flight,
            cluster: schedule.cluster.map(|blocks| blocks as i64),
            ..self.pipeline(schedule.stages as i64, full, empty)
        }
    }

    /// Returns the ring with a relay of `threads` threads: a further barrier per stage says that each of them has passed the stage
    /// on, and the consumers wait for that one.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_tensor::Builder;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// let (ring, lane) = (k.pipeline(2, 32, 1), k.lane());
    /// let ring = k.relayed(ring, 32);
    /// k.start_pipelines(&[&ring], false);
    /// let (producer, relay, consumer) = (k.producer(&ring), k.relay(&ring), k.consumer(&ring, &lane));
    /// let filled = producer.acquire(&mut k);
    /// producer.commit(&mut k, &filled);
    /// let full = relay.wait(&mut k);
    /// // .. the threads change what the stage holds ..
    /// relay.pass(&mut k, &full);
    /// let passed = consumer.wait(&mut k);
    /// consumer.release(&mut k, &passed);
    /// assert_eq!(values(k, &lane)?[31], 31);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails for no threads, for a ring that has a relay, for a ring whose barriers are initialised, and for
    /// a ring of another kernel; where consumers wait for a relay that never works.
    #[track_caller]
    pub fn relayed(&mut self, ring: Pipeline, threads: u32) -> Pipeline {
        let at = Location::caller();
        let passed = self.barriers_for("passed ", ring.stages);
        let unchanged = ring.clone();
        self.attempt(
            at,
            |_| unchanged,
            |k| {
                if ring.failure != k.failure {
                    return Err(ErrorKind::Foreign { what: "a pipeline" });
                }
                let refuse = |why: &str| Err(ErrorKind::operands("relayed", why.to_string()));
                if threads == 0 {
                    return refuse("a relay of 0 threads passes nothing on");
                }
                let known = &mut k.pipelines.rings[ring.number];
                if known.is_started {
                    return refuse("the barriers are initialised: give the ring its relay before `start_pipelines`");
                }
                if known.relayed.replace(at).is_some() {
                    return refuse("the ring has a relay");
                }
                Ok(Pipeline {
                    passed: Some((passed, threads)),
                    ..ring
                })
            },
        )
    }

    /// Returns the relay of a ring that was given one by [`relayed`](Builder::relayed). All of its threads wait and pass.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// # let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let (ring, lane) = (k.pipeline(2, 32, 1), k.lane());
    /// let ring = k.relayed(ring, 32);
    /// # k.start_pipelines(&[&ring], false);
    /// let (producer, relay, consumer) = (k.producer(&ring), k.relay(&ring), k.consumer(&ring, &lane));
    /// k.for_(0, 5, 1, |k, _| {
    ///     let stage = producer.acquire(k);
    ///     producer.commit(k, &stage);
    ///     let stage = relay.wait(k);
    ///     relay.pass(k, &stage);
    ///     let stage = consumer.wait(k);
    ///     consumer.release(k, &stage);
    /// });
    /// assert_eq!(values(k, &lane)?[31], 31);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails for a ring without a relay.
    #[track_caller]
    pub fn relay(&mut self, ring: &Pipeline) -> Relay {
        let at = Location::caller();
        let state = self.phase(ring, 0, at);
        // A ring of another builder is refused as such.
        if ring.failure == self.failure && ring.passed.is_none() {
            let why = "the ring has no relay: `Builder::relayed` gives it one";
            self.fail(ErrorKind::operands("relay", why), at);
        }
        let ring = Ring::Barriers(ring.clone(), Fill::Arrivals);
        Relay(self.participant(ring, state, &RELAY, false, at))
    }

    /// Initialises the barriers of the rings in thread 0, and synchronises the block or, if `cluster` is set, the
    /// cluster.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// let (ring, tid) = (k.pipeline(2, 32, 1), k.thread());
    /// k.start_pipelines(&[&ring], false);
    /// let (producer, consumer) = (k.producer(&ring), k.consumer(&ring, &tid));
    /// let stage = producer.acquire(&mut k);
    /// producer.commit(&mut k, &stage);
    /// let stage = consumer.wait(&mut k); // 32 arrivals have filled stage 0
    /// consumer.release(&mut k, &stage);
    /// assert_eq!(values(k, &tid)?[31], 31);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn start_pipelines(&mut self, rings: &[&Pipeline], cluster: bool) {
        let at = Location::caller();
        for ring in rings {
            if ring.failure == self.failure {
                self.pipelines.rings[ring.number].is_started = true;
            }
        }
        self.site(at, |k| {
            let tid = k.thread();
            let first = k.equal(&tid, &0.into());
            k.if_(first, |k| {
                k.site(at, |k| {
                    for ring in rings {
                        k.init_barriers(&ring.full, ring.arrivals[0]);
                        k.init_barriers(&ring.empty, ring.arrivals[1]);
                        if let Some((passed, threads)) = &ring.passed {
                            k.init_barriers(passed, *threads);
                        }
                    }
                    k.ir.fence(FenceKind::MbarrierInit);
                });
            });
            if cluster {
                k.ir.cluster_sync()
            } else {
                k.ir.sync()
            }
        });
    }

    /// Returns a producer of a ring whose threads write stages themselves and arrive when they commit (CUTLASS's
    /// `PipelineAsync`).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// # let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let (ring, lane) = (k.pipeline(2, 32, 1), k.lane());
    /// # k.start_pipelines(&[&ring], false);
    /// let producer = k.producer(&ring); // all 32 threads arrive when they commit
    /// let stage = producer.acquire(&mut k);
    /// producer.commit(&mut k, &stage);
    /// let [stage, _] = producer.state(&mut k);
    /// assert_eq!(values(k, &stage)?[0], 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn producer(&mut self, ring: &Pipeline) -> Producer {
        self.producer_of(ring, Fill::Arrivals, Location::caller())
    }

    /// Returns a producer of a ring whose threads fill stages by `cp.async` (CUTLASS's `PipelineAsync` with
    /// `cpasync_barrier_arrive_noinc`). They do not wait for the copies: a commit lets them arrive when the copies have
    /// landed. A consumer that reads by `wgmma` needs a fence between the proxies after its wait.
    ///
    /// ```
    /// # use colex_atom::{Arch, Ty};
    /// # use colex_proof::examples::values;
    /// # use colex_tensor::Builder;
    /// # let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let (ring, tid) = (k.pipeline(2, 32, 1), k.thread());
    /// # k.start_pipelines(&[&ring], false);
    /// let (producer, consumer) = (k.copy_producer(&ring), k.consumer(&ring, &tid));
    /// let stage = producer.acquire(&mut k);
    /// // .. copies by `cp.async` into the stage ..
    /// producer.commit(&mut k, &stage);
    /// let stage = consumer.wait(&mut k);
    /// consumer.release(&mut k, &stage);
    /// assert_eq!(values(k, &tid)?[31], 31);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn copy_producer(&mut self, ring: &Pipeline) -> Producer {
        self.producer_of(ring, Fill::Copies, Location::caller())
    }

    /// Returns a producer of a ring that TMA fills, `bytes` bytes in each stage (CUTLASS's `PipelineTmaAsync`): one thread
    /// has it. [`Producer::acquire`] tells the stage's barrier of the bytes, and [`Builder::finish`] compares them with
    /// what the loads of the same body bring.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_tensor::Builder;
    ///
    /// let mut k = Builder::new("ring", Arch::Sm90a, 64);
    /// let a = k.tma_tensor("a", Ty::F32, "(96,32):(32,_1)", [32, 32], "(32,32):(32,1)", 1);
    /// let stages = k.shared_tensor(Ty::F32, "(32,32,2):(32,1,1024)");
    /// let ring = k.pipeline(2, 1, 1);
    /// k.start_pipelines(&[&ring], false);
    /// let (warp, lane) = (k.uniform(32), k.lane());
    /// let produces = k.equal(&warp, &1.into());
    /// k.if_else(
    ///     produces,
    ///     |k| {
    ///         let one = k.elected();
    ///         k.if_(one, |k| {
    ///             let producer = k.tma_producer(&ring, a.tile_bytes());
    ///             k.for_(0, 3, 1, |k, step| {
    ///                 let stage = producer.acquire(k);
    ///                 k.tma_load(&a, (step, 0), &stages.at(2, &stage), &stage.barrier());
    ///                 producer.commit(k, &stage);
    ///             });
    ///         });
    ///     },
    ///     |k| {
    ///         let consumer = k.consumer(&ring, &lane);
    ///         k.for_(0, 3, 1, |k, _| {
    ///             let stage = consumer.wait(k);
    ///             // .. what reads `stages.at(2, &stage)` ..
    ///             consumer.release(k, &stage);
    ///         });
    ///     },
    /// );
    /// assert!(k.finish().is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if `bytes` is below 1 or no multiple of 16.
    #[track_caller]
    pub fn tma_producer(&mut self, ring: &Pipeline, bytes: i64) -> Producer {
        let at = Location::caller();
        if bytes < 1 || bytes % TMA_BYTES != 0 {
            let why = format!("{bytes} bytes: TMA brings multiples of {TMA_BYTES}");
            self.fail(ErrorKind::operands("tma_producer", why), at);
        }
        self.producer_of(ring, Fill::Bytes(bytes), at)
    }

    /// Returns a producer as [`Builder::tma_producer`] does, of a ring whose stages get a number of bytes that the launch decides: those of
    /// [narrowed](Builder::narrowed_map) boxes.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 64);
    /// let rows = k.index_argument("rows", 1..9) * 8;
    /// # let (ring, lane) = (k.pipeline(2, 1, 1), k.lane());
    /// # let slab = "(64,64):(64,1)";
    /// # let a = k.tma_tensor("a", Ty::F16, "(256,256):(256,_1)", &[64, 64], slab, 1);
    /// # let stages = k.shared_tensor(Ty::F16, "(64,64,2):(64,1,4096)");
    /// # k.start_pipelines(&[&ring], false);
    /// # let warp = k.uniform(32);
    /// # let one = k.elected();
    /// let few = k.narrowed_map(&a, 0, &rows); // tiles of `rows` rows, of 128 bytes
    /// # let produces = k.equal(&warp, &0.into());
    /// # let is_it = k.both(produces, one);
    /// # k.if_(is_it, |k| {
    /// let producer = k.tma_producer_of(&ring, &(rows * 128));
    /// # let stage = producer.acquire(k);
    /// # k.tma_load(&few, (0, 0), &stages.at(2, &stage), &stage.barrier());
    /// # producer.commit(k, &stage);
    /// # });
    /// # let consumes = k.equal(&warp, &1.into());
    /// # k.if_(consumes, |k| {
    /// #     let consumer = k.consumer(&ring, &lane);
    /// #     let stage = consumer.wait(k);
    /// #     consumer.release(k, &stage);
    /// # });
    /// assert!(k.finish().is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if `bytes` may be below 1 or above 1048575, or need not be a multiple of 16.
    #[track_caller]
    pub fn tma_producer_of(&mut self, ring: &Pipeline, bytes: &Index) -> Producer {
        let at = Location::caller();
        self.own_indices([bytes], at);
        let (least, most) = bytes.range();
        let is_right = least >= 1 && most <= MOST_BYTES && bytes.alignment() % TMA_BYTES == 0;
        if bytes.poison().is_none() && !is_right {
            let why = format!(
                "{bytes} bytes, {least} to {most}: TMA brings multiples of {TMA_BYTES}, and a barrier counts at most {MOST_BYTES}"
            );
            self.fail(ErrorKind::operands("tma_producer_of", why), at);
        }
        self.producer_of(ring, Fill::Number(bytes.clone()), at)
    }

    fn producer_of(&mut self, ring: &Pipeline, fill: Fill, at: CallSite) -> Producer {
        let state = self.phase(ring, 1, at);
        let must_tail = ring.cluster != [1, 1];
        let ring = Ring::Barriers(ring.clone(), fill);
        Producer(self.participant(ring, state, &PRODUCER, must_tail, at))
    }

    /// Returns a consumer of a ring. `lane` is the number of the thread among those that arrive once together: in its
    /// warpgroup where stages are read by `wgmma`. The first of them arrives, or the first few, one at each block of the
    /// cluster that loads into this block's stages.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// # let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let (ring, lane) = (k.pipeline(2, 32, 1), k.lane());
    /// # k.start_pipelines(&[&ring], false);
    /// let (producer, consumer) = (k.producer(&ring), k.consumer(&ring, &lane));
    /// k.for_(0, 5, 1, |k, _| {
    ///     let stage = producer.acquire(k);
    ///     producer.commit(k, &stage);
    ///     let stage = consumer.wait(k);
    ///     consumer.release(k, &stage);
    /// });
    /// let [stage, parity] = consumer.state(&mut k);
    /// assert_eq!(values(k, &(stage * 10 + parity))?[0], 10); // item 5 of a ring of two stages
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn consumer(&mut self, ring: &Pipeline, lane: &Index) -> Consumer {
        let at = Location::caller();
        let state = self.phase(ring, 0, at);
        self.site(at, |k| {
            let [cm, cn] = ring.cluster;
            let is_arriver = k.less(lane, &(cm + cn - 1).into());
            let before = (0..ring.in_flight).map(|_| k.var(0, 0..ring.stages));
            let before = before.collect();
            let block = k.loader(ring, lane);
            let ring = Ring::Barriers(ring.clone(), Fill::Arrivals);
            Consumer {
                of: k.participant(ring, state, &CONSUMER, false, at),
                arrives: Some((block, is_arriver)),
                before,
            }
        })
    }

    /// The rank of the block that the lane tells: those of this block's column of the cluster, then those of its row.
    fn loader(&mut self, ring: &Pipeline, lane: &Index) -> Index {
        let [cm, cn] = ring.cluster;
        if cm == 1 || cn == 1 {
            return lane.clone();
        }
        let rank = self.cluster_rank((cm * cn) as u32);
        let (m, n) = (&rank % cm, &rank / cm);
        if (cm, cn) == (2, 2) {
            // All but the opposite one, in the order of their ranks: the bound of the lane decides that of the rank.
            let (lane, opposite) = (lane.min(&2.into()), Index::from(3) - &rank);
            return Index::select_less(&lane, &opposite, &lane, &(&lane + 1));
        }
        let other = lane - cm;
        let other = Index::select_less(&other, &n, &other, &(&other + 1));
        Index::select_less(lane, &cm.into(), &(&n * cm + lane), &(other * cm + m))
    }

    /// Returns the two sides of a ring of `stages` stages that groups of `cp.async` fill (CUTLASS's multistage mainloop).
    /// All threads of the block are on both sides: each copies its part of a stage, and reads all parts.
    ///
    /// [`Consumer::wait`] waits for the thread's own copies and then for the other threads. What was released may be
    /// acquired again after the next `wait` or [`Builder::sync`].
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_tensor::{AtThread, Builder};
    /// use colex_tiled::TiledCopy;
    ///
    /// let mut k = Builder::new("ring", Arch::Sm80, 32);
    /// let a = k.tensor("a", Ty::F32, "(_32,_96):(_96,_1)");
    /// let stages = k.shared_tensor(Ty::F32, "(32,4,3):(4,1,128)");
    /// let copy = TiledCopy::new(colex_atom::copy("SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>")?, 32, "32:1", "(1,4):(0,1)")?;
    /// let mine = copy.at(&k.thread());
    /// let into = mine.partition_dst(&stages);
    /// let (producer, consumer) = k.cp_async_pipeline(3);
    /// let fetch = |k: &mut Builder, step| {
    ///     let stage = producer.acquire(k);
    ///     k.copy(&copy, &mine.partition_src(&a.local_tile((32, 4), (0, step))), &into.at(3, &stage));
    ///     producer.commit(k, &stage);
    /// };
    /// fetch(&mut k, 0.into());
    /// fetch(&mut k, 1.into());
    /// k.for_(0, 22, 1, |k, step| {
    ///     let stage = consumer.wait(k);
    ///     fetch(k, step + 2);
    ///     // .. what reads `stages.at(2, &stage)` ..
    ///     consumer.release(k, &stage);
    /// });
    /// producer.tail(&mut k);
    /// assert!(k.finish()?.kernel.ptx()?.contains("cp.async.wait_group 1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails for fewer than one stage or more than 65536.
    #[track_caller]
    pub fn cp_async_pipeline(&mut self, stages: i64) -> (Producer, Consumer) {
        let at = Location::caller();
        if !(1..=MOST_STAGES).contains(&stages) {
            let why = format!("{stages} stages: a ring has 1 to {MOST_STAGES}");
            self.fail(ErrorKind::operands("cp_async_pipeline", why), at);
        }
        let stages = stages.clamp(1, MOST_STAGES);
        let begin = || Place::Known(0, self.scopes.len());
        let groups = Groups {
            stages,
            now: Counts::default(),
            write: begin(),
            read: begin(),
            meeting: Meeting::default(),
            last: at,
        };
        let number = self.new_ring(Some(groups), at);
        let ring = Ring::Groups {
            number,
            failure: self.failure.clone(),
        };
        let mut side = |words| self.participant(ring.clone(), State::Groups, words, false, at);
        let (producer, consumer) = (side(&PRODUCER), side(&CONSUMER));
        let consumer = Consumer {
            of: consumer,
            arrives: None,
            before: Vec::new(),
        };
        (Producer(producer), consumer)
    }

    /// The state in which a participant begins: stage 0, waiting for the first phase of the full barriers, or for the phase
    /// before the first of the empty ones, which counts as complete.
    fn phase(&mut self, ring: &Pipeline, parity: i64, at: CallSite) -> State {
        self.site(at, |k| {
            let (stage, parity) = (k.var(0, 0..ring.stages), k.var(parity, 0..2));
            k.pipelines.stages.insert(stage.reg);
            State::Phase(stage, parity)
        })
    }

    fn participant(
        &mut self,
        ring: Ring,
        state: State,
        words: &'static Words,
        must_tail: bool,
        at: CallSite,
    ) -> Participant {
        let number = self.pipelines.members.len();
        let is_own = *ring.failure() == self.failure;
        if !is_own {
            self.fail(ErrorKind::Foreign { what: "a pipeline" }, at);
        }
        self.pipelines.members.push(Member {
            ring: if is_own { ring.number() } else { 0 },
            words,
            open: None,
            last: at,
            made: at,
            bodies: self.scopes.iter().map(|s| s.began).collect(),
            role: self.role(at),
            has_worked: false,
            behind: None,
            tail: None,
            must_tail,
        });
        Participant {
            number,
            ring,
            state,
        }
    }

    /// The conditions under which the open bodies run, and that part the threads: a launch decides the others for all of them.
    fn role(&self, at: CallSite) -> Vec<(Guard, CallSite)> {
        let guards = self.scopes.iter().filter_map(|s| s.condition);
        let guards = guards.filter(|guard| !self.claims.is_of_launch(*guard));
        guards.map(|guard| (guard, at)).collect()
    }

    /// What every call of a participant asks: that it is of this kernel, made in an open body, and in its warp role.
    fn work(
        &mut self,
        of: &Participant,
        operation: &'static str,
        at: CallSite,
    ) -> Result<(), ErrorKind> {
        let refuse = |why: String| Err(ErrorKind::operands(operation, why));
        if *of.ring.failure() != self.failure {
            return Err(ErrorKind::Foreign {
                what: "a participant",
            });
        }
        let here = self.role(at);
        let member = &self.pipelines.members[of.number];
        let Words { actor, .. } = member.words;
        let bodies = self.scopes.iter().map(|s| s.began);
        if !bodies
            .take(member.bodies.len())
            .eq(member.bodies.iter().copied())
        {
            return refuse(format!(
                "the {actor} is made in line {}, in a loop or branch that has ended: make it where all of its calls see it",
                member.made.line()
            ));
        }
        for (guard, then) in &member.role {
            if here
                .iter()
                .any(|(now, _)| self.claims.excludes(*guard, *now))
            {
                return refuse(format!(
                    "the {actor} works in line {} for other threads: a participant belongs to one warp role",
                    then.line()
                ));
            }
        }
        if !self.pipelines.rings[member.ring].is_started {
            return refuse(format!(
                "the barriers of the pipeline in line {} are not initialised: `start_pipelines` comes first",
                self.pipelines.rings[member.ring].made.line()
            ));
        }
        if let Some(tail) = member.tail {
            return refuse(format!(
                "the {actor} has ended with the `tail` in line {}",
                tail.line()
            ));
        }
        let member = &mut self.pipelines.members[of.number];
        if !member.has_worked {
            member.has_worked = true;
            member.role = here;
        }
        member.last = at;
        if let Some(groups) = &mut self.pipelines.rings[member.ring].groups {
            groups.last = at;
        }
        Ok(())
    }

    /// The next stage of a participant, for which `wait` waits; an inert one where something fails.
    fn awaited_stage(
        &mut self,
        of: &Participant,
        words: &'static Words,
        at: CallSite,
        wait: impl FnOnce(&mut Builder, &Stage) -> Result<(), ErrorKind>,
    ) -> Stage {
        self.attempt(
            at,
            |k| k.inert_stage(words, at),
            |k| {
                k.work(of, words.open, at)?;
                let stage = k.open_stage(of, at)?;
                wait(k, &stage)?;
                Ok(stage)
            },
        )
    }

    /// Opens a stage: the next one of the participant.
    fn open_stage(&mut self, of: &Participant, at: CallSite) -> Result<Stage, ErrorKind> {
        let words = self.pipelines.members[of.number].words;
        let Words {
            open,
            close,
            closed,
            ..
        } = words;
        if let Some((_, before)) = self.pipelines.members[of.number].open {
            let why = format!(
                "the stage of the `{open}` in line {} is not {closed} yet: `{close}` it first",
                before.line()
            );
            return Err(ErrorKind::operands(open, why));
        }
        let handle = self.pipelines.handle();
        self.pipelines.members[of.number].open = Some((handle, at));
        let index = self.stage_of(of);
        let barrier = match &of.ring {
            Ring::Barriers(pipeline, _) => Some(pipeline.full.at(&index)),
            Ring::Groups { .. } => None,
        };
        Ok(Stage {
            index,
            barrier,
            participant: of.number,
            handle,
            opened: at,
            closed: Rc::default(),
            words,
        })
    }

    /// Closes a stage that the participant has open.
    fn close_stage(
        &mut self,
        of: &Participant,
        stage: &Stage,
        operation: &'static str,
        at: CallSite,
    ) -> Result<(), ErrorKind> {
        let refuse = |why: String| Err(ErrorKind::operands(operation, why));
        let members = &self.pipelines.members;
        let member = &members[of.number];
        let Words { actor, closed, .. } = member.words;
        let opened = stage.opened.line();
        if stage.participant != of.number {
            let other = members.get(stage.participant);
            let line = |member: &Member| self.pipelines.rings[member.ring].made.line();
            return refuse(match other {
                Some(other) if other.ring != member.ring => format!(
                    "the stage of line {opened} is of the pipeline in line {}, and this {actor} is of the one in line {}",
                    line(other),
                    line(member)
                ),
                Some(other) if other.words != member.words => format!(
                    "the stage of line {opened} is the {}'s: a {actor} has it by `{}`",
                    other.words.actor, member.words.open
                ),
                _ => format!("the stage of line {opened} is another {actor}'s"),
            });
        }
        if let Some(before) = stage.closed.get() {
            return refuse(format!(
                "the stage of the `{}` in line {opened} is {closed} already, in line {}",
                member.words.open,
                before.line()
            ));
        }
        if member.open.is_none_or(|(handle, _)| handle != stage.handle) {
            return refuse(format!(
                "the stage of line {opened} is not the one that the {actor} has here: a turn of a loop has another one, and `held` \
                 names it"
            ));
        }
        stage.closed.set(Some(at));
        self.pipelines.members[of.number].open = None;
        Ok(())
    }

    /// The stage where a participant stands.
    fn stage_of(&mut self, of: &Participant) -> Index {
        match &of.state {
            State::Phase(stage, _) => self.get(stage),
            State::Groups => {
                let is_producer = *self.pipelines.members[of.number].words == PRODUCER;
                self.place(of.ring.number(), is_producer)
            }
        }
    }

    /// The next stage of a side of a ring of groups: a number, until a loop changes it.
    fn place(&mut self, ring: usize, is_producer: bool) -> Index {
        let depth = self.scopes.len();
        let loops = |from: usize, k: &Self| k.scopes[from..].iter().any(|s| s.repeats);
        let groups = self.pipelines.rings[ring].groups.as_mut();
        let groups = groups.expect("invariant: a ring of groups has counts");
        let stages = groups.stages;
        let place = if is_producer {
            &mut groups.write
        } else {
            &mut groups.read
        };
        let place = place.clone();
        let var = match place {
            Place::Known(n, _) if stages == 1 => return n.into(),
            Place::Known(n, open) => {
                let since = open.min(depth);
                if !loops(since, self) {
                    return n.into();
                }
                // The register is written before the loop that changes it.
                let reg = self.ir.hoisted(since - 1, |k| k.mov(Type::U32, n));
                let stamp = self.scopes[since - 1].began;
                self.written.insert(reg, stamp);
                self.pipelines.stages.insert(reg);
                let var = Var {
                    reg,
                    range: (0, stages - 1),
                    owner: self.failure.owner(),
                };
                let groups = self.pipelines.rings[ring].groups.as_mut();
                let groups = groups.expect("invariant: a ring of groups has counts");
                *(if is_producer {
                    &mut groups.write
                } else {
                    &mut groups.read
                }) = Place::Var(var.clone());
                var
            }
            Place::Var(var) => var,
        };
        self.get(&var)
    }

    /// A participant goes on to the next stage.
    fn step(&mut self, of: &Participant) {
        match &of.state {
            State::Phase(stage, parity) => self.step_phase(stage, parity),
            State::Groups => {
                let number = of.ring.number();
                let is_producer = *self.pipelines.members[of.number].words == PRODUCER;
                let now = self.place(number, is_producer);
                let depth = self.scopes.len();
                let groups = self.pipelines.rings[number].groups.as_mut();
                let groups = groups.expect("invariant: a ring of groups has counts");
                let next = after(&now, groups.stages);
                let place = if is_producer {
                    &mut groups.write
                } else {
                    &mut groups.read
                };
                match (place, next.as_constant()) {
                    (Place::Var(var), _) => {
                        let var = var.clone();
                        self.set(&var, &next);
                        self.forget_stage(var.reg);
                    }
                    (place, Some(n)) => *place = Place::Known(n, depth),
                    _ => {}
                }
            }
        }
    }

    /// Nothing that was computed from a stage is found again after the participant has gone on.
    fn forget_stage(&mut self, stage: Reg) {
        for scope in &mut self.scopes {
            scope.values.retain(|(index, _), _| !index.reads(stage));
            scope.tests.retain(|(index, _, _), _| !index.reads(stage));
            scope.sizes.retain(|(index, _), _| !index.reads(stage));
        }
    }

    /// To the next stage; after the last one, to stage 0 in the other phase.
    fn step_phase(&mut self, stage: &Var, parity: &Var) {
        let now = self.get(parity);
        let stages = stage.range.1 + 1;
        let reg = stage.reg;
        self.ir.binary_to(BinaryOp::Add, Type::U32, reg, reg, 1);
        let last = self.ir.setp(Compare::Eq, Type::U32, reg, stages);
        let wrapped = self.ir.selp(Type::B32, 0, reg, last);
        self.ir.mov_to(reg, wrapped);
        self.written_now(stage);
        let flip = self.ir.selp(Type::B32, 1, 0, last);
        let value = self.value(&now);
        let flipped = self.ir.xor(Type::B32, value, flip);
        self.ir.mov_to(parity.reg, flipped);
        self.written_now(parity);
        self.forget_stage(stage.reg);
    }

    /// By `items` stages, a number known only in the kernel.
    fn skip(&mut self, of: &Participant, items: &Index, at: CallSite) {
        self.run(at, |k| {
            k.work(of, "skip", at)?;
            let State::Phase(stage, parity) = &of.state else {
                let why =
                    "a ring of `cp.async` groups has all of its stages filled and read in turn";
                return Err(ErrorKind::operands("skip", why));
            };
            if let Some((_, open)) = k.pipelines.members[of.number].open {
                let why = format!("the stage of line {} is still open", open.line());
                return Err(ErrorKind::operands("skip", why));
            }
            let stages = stage.range.1 + 1;
            // Beyond 32 bits the stage and the parity would be those of another number of items.
            let items = k.within(items.clone(), 0..MOST_ITEMS);
            let all = k.get(stage) + items;
            let other = (k.get(parity) + &all / stages) % 2;
            let next = &all % stages;
            // Both are computed before either is written.
            let (next, other) = (k.operand(&next), k.operand(&other));
            for (var, value) in [(stage, next), (parity, other)] {
                k.ir.mov_to(var.reg, value);
                k.written_now(var);
            }
            k.forget_stage(stage.reg);
            Ok(())
        });
    }

    /// A stage that nothing is done with: what a failed call hands out.
    fn inert_stage(&self, words: &'static Words, at: CallSite) -> Stage {
        Stage {
            index: 0.into(),
            barrier: Some(0.into()),
            participant: usize::MAX,
            handle: 0,
            opened: at,
            closed: Rc::default(),
            words,
        }
    }
}

impl Producer {
    /// Waits until the next stage is empty, and returns it. A TMA producer also tells the stage's barrier of the bytes
    /// that its loads will bring.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// # let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let (ring, lane) = (k.pipeline(2, 32, 1), k.lane());
    /// # k.start_pipelines(&[&ring], false);
    /// # let producer = k.producer(&ring);
    /// let stage = producer.acquire(&mut k); // an empty stage
    /// let index = k.var(stage.index(), 0..2);
    /// producer.commit(&mut k, &stage);
    /// let index = k.get(&index);
    /// assert_eq!(values(k, &index)?[0], 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails where the stage before is not committed; in another warp role than the producer's other
    /// calls; before [`Builder::start_pipelines`]; of `cp.async`, where every stage is in use.
    #[doc(alias = "producer_acquire")]
    #[track_caller]
    pub fn acquire(&self, k: &mut Builder) -> Stage {
        let at = Location::caller();
        let of = &self.0;
        k.awaited_stage(of, &PRODUCER, at, |k, stage| {
            match (&of.ring, &of.state) {
                (Ring::Barriers(ring, fill), State::Phase(_, parity)) => {
                    let parity = k.get(parity);
                    k.wait(&ring.empty.at(&stage.index), &parity);
                    match (fill, &stage.barrier) {
                        (Fill::Bytes(bytes), Some(full)) => k.arrive_expect(full, *bytes),
                        (Fill::Number(bytes), Some(full)) => k.arrive_expect_number(full, bytes),
                        (Fill::Bytes(_) | Fill::Number(_), None)
                        | (Fill::Arrivals | Fill::Copies, _) => {}
                    }
                }
                (ring, _) => k.room(ring.number(), at)?,
            }
            Ok(())
        })
    }

    /// Hands the stage to the consumers and advances to the next one.
    ///
    /// What completes the stage depends on how it was filled. Threads that wrote it themselves arrive at its barrier.
    /// Copies by `cp.async` become a group that the consumer waits for. TMA's loads complete the barrier's bytes, and
    /// `commit` adds nothing.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let (ring, lane) = (k.pipeline(2, 32, 1), k.lane());
    /// # k.start_pipelines(&[&ring], false);
    /// # let producer = k.producer(&ring);
    /// let stage = producer.acquire(&mut k);
    /// producer.commit(&mut k, &stage);
    /// producer.commit(&mut k, &stage);
    /// assert!(k.finish().is_err()); // it is committed already
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails for a stage that the producer has not acquired, or has committed already.
    #[doc(alias = "producer_commit")]
    #[track_caller]
    pub fn commit(&self, k: &mut Builder, stage: &Stage) {
        let at = Location::caller();
        k.run(at, |k| {
            k.work(&self.0, "commit", at)?;
            k.close_stage(&self.0, stage, "commit", at)?;
            match &self.0.ring {
                Ring::Barriers(_, Fill::Bytes(_) | Fill::Number(_)) => {}
                Ring::Barriers(ring, Fill::Arrivals) => k.arrive(&ring.full.at(&stage.index)),
                Ring::Barriers(ring, Fill::Copies) => {
                    let a = k.address(&ring.full.at(&stage.index), false);
                    k.ir.push(Async::CpAsyncArrive { a, noinc: true });
                }
                Ring::Groups { number, .. } => {
                    k.ir.cp_async_commit();
                    if let Some(groups) = &mut k.pipelines.rings[*number].groups {
                        groups.now.filled += 1;
                    }
                }
            }
            k.step(&self.0);
            Ok(())
        });
    }

    /// Ends the producer: waits until the consumers have released all stages, since a block must not end while another may
    /// still arrive at its barriers; of `cp.async`, until all copies have landed.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// # let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let (ring, lane) = (k.pipeline(2, 32, 1), k.lane());
    /// # k.start_pipelines(&[&ring], false);
    /// let (producer, consumer) = (k.producer(&ring), k.consumer(&ring, &lane));
    /// k.for_(0, 5, 1, |k, _| {
    ///     let stage = producer.acquire(k);
    ///     producer.commit(k, &stage);
    ///     let stage = consumer.wait(k);
    ///     consumer.release(k, &stage);
    /// });
    /// producer.tail(&mut k); // the consumers have released all stages
    /// assert_eq!(values(k, &lane)?[31], 31);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails where a stage is not committed.
    #[doc(alias = "producer_tail")]
    #[track_caller]
    pub fn tail(&self, k: &mut Builder) {
        let at = Location::caller();
        k.run(at, |k| {
            k.work(&self.0, "tail", at)?;
            let member = &mut k.pipelines.members[self.0.number];
            if let Some((_, open)) = member.open {
                let why = format!(
                    "the stage of the `acquire` in line {} is not committed",
                    open.line()
                );
                return Err(ErrorKind::operands("tail", why));
            }
            member.tail = Some(at);
            match (&self.0.ring, &self.0.state) {
                (Ring::Barriers(ring, _), State::Phase(stage, parity)) => {
                    let turns = [0, ring.stages, 1].map(Index::from);
                    k.for_at(at, turns, |k, _| {
                        k.site(at, |k| {
                            let (now, phase) = (k.get(stage), k.get(parity));
                            k.wait(&ring.empty.at(&now), &phase);
                            k.step_phase(stage, parity);
                        });
                    });
                }
                (ring, _) => {
                    k.ir.cp_async_wait(0);
                    if let Some(groups) = &mut k.pipelines.rings[ring.number()].groups {
                        groups.now.filled = 0;
                    }
                }
            }
            Ok(())
        });
    }

    /// Advances by `items` stages without filling them: those of another producer.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// # let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let (ring, lane) = (k.pipeline(2, 32, 1), k.lane());
    /// # k.start_pipelines(&[&ring], false);
    /// let producer = k.producer(&ring);
    /// producer.skip(&mut k, &3.into());
    /// let [stage, parity] = producer.state(&mut k);
    /// assert_eq!(values(k, &(stage * 10 + parity))?[0], 10); // stage 1 of the second round
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails where a stage is open, for `cp.async`, and for fewer than 0 or more than 2^31 - 1 items. A number
    /// that only the kernel knows is refused as for [`Builder::within`].
    #[track_caller]
    pub fn skip(&self, k: &mut Builder, items: &Index) {
        k.skip(&self.0, items, Location::caller());
    }

    /// Returns the stage where the producer stands and, where the ring has barriers, the parity that it waits for there.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// # let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let (ring, lane) = (k.pipeline(2, 32, 1), k.lane());
    /// # k.start_pipelines(&[&ring], false);
    /// let producer = k.producer(&ring);
    /// let [stage, parity] = producer.state(&mut k);
    /// assert_eq!(values(k, &(stage * 10 + parity))?[0], 1); // stage 0, which is empty from the beginning
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn state(&self, k: &mut Builder) -> [Index; 2] {
        k.place_of(&self.0)
    }
}

impl Builder {
    fn place_of(&mut self, of: &Participant) -> [Index; 2] {
        let parity = match &of.state {
            State::Phase(_, parity) => self.get(parity),
            State::Groups => 0.into(),
        };
        [self.stage_of(of), parity]
    }

    /// Refuses to acquire a stage of a ring of groups that is in use.
    fn room(&mut self, ring: usize, at: CallSite) -> Result<(), ErrorKind> {
        let groups = self.pipelines.rings[ring].groups.as_mut();
        let groups = groups.expect("invariant: a ring of groups has counts");
        let Counts {
            filled,
            held,
            unmet,
        } = groups.now;
        let room = groups.stages - (filled + held + unmet + 1);
        if room < 0 {
            let why = format!(
                "none of the {} stages is free: {filled} are on their way, {held} waited for, and {unmet} released since the \
                 threads met in a `wait` or a `sync`",
                groups.stages
            );
            return Err(ErrorKind::operands("acquire", why));
        }
        groups.meeting.acquire(room, at);
        Ok(())
    }
}

impl Relay {
    /// Waits until the next stage is full, and returns it.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// # let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let (ring, lane) = (k.pipeline(2, 32, 1), k.lane());
    /// # let ring = k.relayed(ring, 32);
    /// # k.start_pipelines(&[&ring], false);
    /// # let (producer, relay) = (k.producer(&ring), k.relay(&ring));
    /// # let stage = producer.acquire(&mut k);
    /// # producer.commit(&mut k, &stage);
    /// let stage = relay.wait(&mut k);
    /// assert_eq!(stage.index().range(), (0, 1)); // one of two stages
    /// relay.pass(&mut k, &stage);
    /// assert_eq!(values(k, &lane)?[31], 31);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails where the stage before is not passed on; in another warp role than the relay's other calls; before
    /// [`Builder::start_pipelines`].
    #[track_caller]
    pub fn wait(&self, k: &mut Builder) -> Stage {
        let of = &self.0;
        k.awaited_stage(of, &RELAY, Location::caller(), |k, stage| {
            if let (Ring::Barriers(ring, _), State::Phase(_, parity)) = (&of.ring, &of.state) {
                let parity = k.get(parity);
                k.wait(&ring.full.at(&stage.index), &parity);
            }
            Ok(())
        })
    }

    /// Hands the stage to the consumers, and goes on to the next one: the thread has changed what it changes. Consumers that
    /// read by `wgmma` need a fence between the proxies ([`FenceKind::ProxyAsyncShared`]) in front of this.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// # let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let (ring, lane) = (k.pipeline(2, 32, 1), k.lane());
    /// # let ring = k.relayed(ring, 32);
    /// # k.start_pipelines(&[&ring], false);
    /// # let (producer, relay) = (k.producer(&ring), k.relay(&ring));
    /// # let stage = producer.acquire(&mut k);
    /// # producer.commit(&mut k, &stage);
    /// let stage = relay.wait(&mut k);
    /// relay.pass(&mut k, &stage);
    /// assert_eq!(values(k, &lane)?[31], 31);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails for a stage that the relay has not waited for, or has passed on already.
    #[track_caller]
    pub fn pass(&self, k: &mut Builder, stage: &Stage) {
        let at = Location::caller();
        k.run(at, |k| {
            k.work(&self.0, "pass", at)?;
            k.close_stage(&self.0, stage, "pass", at)?;
            if let Ring::Barriers(ring, _) = &self.0.ring
                && let Some((passed, _)) = &ring.passed
            {
                k.arrive(&passed.at(&stage.index));
            }
            k.step(&self.0);
            Ok(())
        });
    }
}

impl Consumer {
    /// Waits until the next stage is full, and returns it. In a pipeline of `cp.async`, a thread waits for its own copies,
    /// and then at a barrier for those of the other threads of the block.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// # let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let (ring, lane) = (k.pipeline(2, 32, 1), k.lane());
    /// # k.start_pipelines(&[&ring], false);
    /// let (producer, consumer) = (k.producer(&ring), k.consumer(&ring, &lane));
    /// let stage = producer.acquire(&mut k);
    /// producer.commit(&mut k, &stage);
    /// let stage = consumer.wait(&mut k); // the stage is full
    /// let index = k.var(stage.index(), 0..2);
    /// consumer.release(&mut k, &stage);
    /// let index = k.get(&index);
    /// assert_eq!(values(k, &index)?[0], 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails where the stage before is not released; in another warp role than the consumer's other
    /// calls; before [`Builder::start_pipelines`]; of `cp.async`, where none is on its way.
    #[doc(alias = "consumer_wait")]
    #[track_caller]
    pub fn wait(&self, k: &mut Builder) -> Stage {
        let of = &self.of;
        k.awaited_stage(of, &CONSUMER, Location::caller(), |k, stage| {
            match (&of.ring, &of.state) {
                (Ring::Barriers(ring, _), State::Phase(_, parity)) => {
                    let parity = k.get(parity);
                    let passed = ring.passed.as_ref().map(|(passed, _)| passed);
                    let barrier = passed.unwrap_or(&ring.full).at(&stage.index);
                    k.wait(&barrier, &parity);
                }
                _ => {
                    let groups = k.pipelines.rings[of.ring.number()].groups.as_mut();
                    let groups = groups.expect("invariant: a ring of groups has counts");
                    if groups.now.filled < 1 {
                        let why = "no stage is on its way: `commit` one first";
                        return Err(ErrorKind::operands("wait", why));
                    }
                    groups.now.filled -= 1;
                    groups.now.held += 1;
                    let pending = groups.now.filled as u32;
                    k.cp_async_wait(pending);
                    k.sync();
                }
            }
            Ok(())
        })
    }

    /// Returns the stage that the consumer has: in a loop whose turns begin with a stage that the turn before has waited for.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// # let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let (ring, lane) = (k.pipeline(2, 32, 1), k.lane());
    /// # k.start_pipelines(&[&ring], false);
    /// # let (producer, consumer) = (k.producer(&ring), k.consumer(&ring, &lane));
    /// # let filled = producer.acquire(&mut k);
    /// # producer.commit(&mut k, &filled);
    /// consumer.wait(&mut k);
    /// let stage = consumer.held(&mut k); // the same stage
    /// let index = k.var(stage.index(), 0..2);
    /// consumer.release(&mut k, &stage);
    /// let index = k.get(&index);
    /// assert_eq!(values(k, &index)?[0], 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails where it has none.
    #[track_caller]
    pub fn held(&self, k: &mut Builder) -> Stage {
        let at = Location::caller();
        let of = &self.of;
        k.attempt(
            at,
            |k| k.inert_stage(&CONSUMER, at),
            |k| {
                k.work(of, "held", at)?;
                let Some((_, opened)) = k.pipelines.members[of.number].open.take() else {
                    let why = "the consumer has no stage: `wait` for one";
                    return Err(ErrorKind::operands("held", why));
                };
                let stage = k.open_stage(of, at)?;
                Ok(Stage { opened, ..stage })
            },
        )
    }

    /// Hands the stage back to the producer, and goes on to the next one: nothing reads it any more.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// # let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let (ring, lane) = (k.pipeline(2, 32, 1), k.lane());
    /// # k.start_pipelines(&[&ring], false);
    /// # let (producer, consumer) = (k.producer(&ring), k.consumer(&ring, &lane));
    /// # let filled = producer.acquire(&mut k);
    /// # producer.commit(&mut k, &filled);
    /// let stage = consumer.wait(&mut k);
    /// consumer.release(&mut k, &stage);
    /// let [stage, _] = consumer.state(&mut k);
    /// assert_eq!(values(k, &stage)?[0], 1); // the consumer stands at the next stage
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails for a stage that the consumer has not waited for, or has released already.
    #[doc(alias = "consumer_release")]
    #[track_caller]
    pub fn release(&self, k: &mut Builder, stage: &Stage) {
        let at = Location::caller();
        k.run(at, |k| {
            k.work(&self.of, "release", at)?;
            if let Some(behind) = k.pipelines.members[self.of.number].behind {
                let why = format!(
                    "stages of the steps before are still held, since the `release_behind` in line {}: `release_rest` first",
                    behind.line()
                );
                return Err(ErrorKind::operands("release", why));
            }
            k.close_stage(&self.of, stage, "release", at)?;
            match &self.of.ring {
                Ring::Groups { number, .. } => {
                    if let Some(groups) = &mut k.pipelines.rings[*number].groups {
                        groups.now.held -= 1;
                        groups.now.unmet += 1;
                    }
                }
                Ring::Barriers(ring, _) => self.arrive(k, ring, &stage.index, Cond::Known(true)),
            }
            k.step(&self.of);
            Ok(())
        });
    }

    /// Advances to the next stage while multiplies of this one still run, and releases the stage of as many steps before as
    /// the schedule leaves multiplies in flight. `step` counts the steps of a tile from 0: its first ones have none before.
    ///
    /// [`Consumer::release_rest`] releases what is left behind the last step.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let schedule = colex_sched::pipeline::WarpSpecialized::cooperative(4, 1, 8);
    /// # let mut k = Builder::new("k", Arch::Sm90a, 384);
    /// let ring = k.pipeline_of(&schedule); // leaves one multiply in flight
    /// # k.start_pipelines(&[&ring], false);
    /// # let lane = k.thread() % 128;
    /// let consumer = k.consumer(&ring, &lane);
    /// k.for_(0, 8, 1, |k, step| {
    ///     let stage = consumer.wait(k);
    ///     // .. a multiply of the stage, which may still run ..
    ///     consumer.release_behind(k, &stage, step);
    /// });
    /// consumer.release_rest(&mut k, &8.into());
    /// assert!(k.finish().is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Consumer::release`]; for a ring whose schedule leaves none in flight.
    #[track_caller]
    pub fn release_behind(&self, k: &mut Builder, stage: &Stage, step: &Index) {
        let at = Location::caller();
        k.run(at, |k| {
            k.work(&self.of, "release_behind", at)?;
            let (Ring::Barriers(ring, _), Some(oldest)) = (&self.of.ring, self.before.last())
            else {
                let why = "the schedule leaves no multiply in flight: `release` the stage";
                return Err(ErrorKind::operands("release_behind", why));
            };
            k.close_stage(&self.of, stage, "release_behind", at)?;
            k.pipelines.members[self.of.number].behind = Some(at);
            let had = k.less(&(self.before.len() as i64 - 1).into(), step);
            let free = k.get(oldest);
            self.arrive(k, ring, &free, had);
            for i in (1..self.before.len()).rev() {
                let younger = k.get(&self.before[i - 1]);
                k.set(&self.before[i], younger);
            }
            k.set(&self.before[0], &stage.index);
            k.step(&self.of);
            Ok(())
        });
    }

    /// Releases the stages that [`Consumer::release_behind`] has left behind the last of a tile's `steps` steps: their
    /// multiplies have ended.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let schedule = colex_sched::pipeline::WarpSpecialized::cooperative(4, 1, 8);
    /// # let mut k = Builder::new("k", Arch::Sm90a, 384);
    /// let ring = k.pipeline_of(&schedule); // leaves one multiply in flight
    /// # k.start_pipelines(&[&ring], false);
    /// # let lane = k.thread() % 128;
    /// let consumer = k.consumer(&ring, &lane);
    /// k.for_(0, 8, 1, |k, step| {
    ///     let stage = consumer.wait(k);
    ///     consumer.release_behind(k, &stage, step);
    /// });
    /// consumer.release_rest(&mut k, &8.into());
    /// assert!(k.finish().is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails where a stage is not released, and where nothing was left behind.
    #[track_caller]
    pub fn release_rest(&self, k: &mut Builder, steps: &Index) {
        let at = Location::caller();
        k.run(at, |k| {
            k.work(&self.of, "release_rest", at)?;
            let member = &mut k.pipelines.members[self.of.number];
            if let Some((_, open)) = member.open {
                let why = format!(
                    "the stage of the `wait` in line {} is not released",
                    open.line()
                );
                return Err(ErrorKind::operands("release_rest", why));
            }
            let (Ring::Barriers(ring, _), Some(_)) = (&self.of.ring, member.behind.take()) else {
                let why = "no stage is left behind: `release_behind` leaves some";
                return Err(ErrorKind::operands("release_rest", why));
            };
            for (i, before) in self.before.iter().enumerate().rev() {
                let had = k.less(&(i as i64).into(), steps);
                let free = k.get(before);
                self.arrive(k, ring, &free, had);
            }
            Ok(())
        });
    }

    /// Arrives at the empty barriers of a stage, where the condition holds.
    fn arrive(&self, k: &mut Builder, ring: &Pipeline, stage: &Index, cond: Cond) {
        let Some((block, is_arriver)) = &self.arrives else {
            return;
        };
        let cond = k.both(cond, *is_arriver);
        let barrier = ring.empty.at(stage);
        if ring.cluster != [1, 1] {
            return k.arrive_at(&barrier, block, cond);
        }
        let address = k.address(&barrier, false);
        k.where_(cond, |ir| ir.mbarrier_arrive(address));
    }

    /// Advances by `items` stages without reading them: those of another consumer that takes tiles in turn.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// # let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let (ring, lane) = (k.pipeline(2, 32, 1), k.lane());
    /// # k.start_pipelines(&[&ring], false);
    /// let consumer = k.consumer(&ring, &lane);
    /// consumer.skip(&mut k, &3.into());
    /// let [stage, parity] = consumer.state(&mut k);
    /// assert_eq!(values(k, &(stage * 10 + parity))?[0], 11); // stage 1 of the second round
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails where a stage is open, for `cp.async`, and for fewer than 0 or more than 2^31 - 1 items. A number
    /// that only the kernel knows is refused as for [`Builder::within`].
    #[track_caller]
    pub fn skip(&self, k: &mut Builder, items: &Index) {
        k.skip(&self.of, items, Location::caller());
    }

    /// Returns the stage where the consumer stands and, where the ring has barriers, the parity that it waits for there.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// # let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let (ring, lane) = (k.pipeline(2, 32, 1), k.lane());
    /// # k.start_pipelines(&[&ring], false);
    /// let consumer = k.consumer(&ring, &lane);
    /// let [stage, parity] = consumer.state(&mut k);
    /// assert_eq!(values(k, &(stage * 10 + parity))?[0], 0); // stage 0, waiting for its first phase
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn state(&self, k: &mut Builder) -> [Index; 2] {
        k.place_of(&self.of)
    }
}
