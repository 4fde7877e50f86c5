//! What a simulation checks, and in which order things happen.

/// How the simulator runs a kernel.
///
/// ```
/// use colex_sim::{Schedule, SimOptions};
///
/// let options = SimOptions::default().seed(7);
/// assert_eq!(options.schedule, Schedule::Random(7));
/// assert!(options.races && options.counts);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimOptions {
    /// The order in which warps advance and asynchronous operations complete.
    pub schedule: Schedule,
    /// Whether races in shared memory and missing proxy fences are faults.
    pub races: bool,
    /// Whether reads of memory that was never written are faults; if not, such memory holds zeros.
    pub uninitialised: bool,
    /// Whether bank conflicts and sectors are counted.
    pub counts: bool,
    /// Whether the report lists what happened at barriers and in shared memory, one event after the other; it does not
    /// unless asked.
    pub events: bool,
    /// Whether float products sum as Hopper's tensor cores do, bit for bit; if not, exactly and rounded once.
    pub hopper_sums: bool,
    /// How many instructions one warp may execute before the simulation gives up: 50 million unless set otherwise.
    pub max_steps: u64,
    /// How many instructions all warps together may execute: 4 billion unless set otherwise, which take some minutes.
    pub max_instructions: u64,
    /// How many blocks a grid may have: 2^20 unless set otherwise.
    pub max_blocks: u64,
}

impl Default for SimOptions {
    fn default() -> Self {
        SimOptions {
            schedule: Schedule::Latest,
            races: true,
            uninitialised: true,
            counts: true,
            events: false,
            hopper_sums: true,
            max_steps: 50_000_000,
            max_instructions: 4_000_000_000,
            max_blocks: 1 << 20,
        }
    }
}

impl SimOptions {
    /// Returns these options with the given schedule.
    pub fn schedule(self, schedule: Schedule) -> Self {
        SimOptions { schedule, ..self }
    }

    /// Returns these options with the schedule [`Schedule::from_seed`] of a number.
    pub fn seed(self, seed: u64) -> Self {
        self.schedule(Schedule::from_seed(seed))
    }
}

/// The order in which the simulator runs warps and completes asynchronous operations.
///
/// A correct kernel gives the same result under every schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Warps take turns; an asynchronous operation completes as late as it can: when no warp can continue without it.
    Latest,
    /// Warps take turns; an asynchronous operation completes as early as it can: after the turn that issued it.
    Earliest,
    /// Warps and operations are chosen by a pseudo-random sequence with this seed.
    Random(u64),
}

impl Schedule {
    /// Returns [`Latest`](Schedule::Latest) for 0, [`Earliest`](Schedule::Earliest) for 1, and a random schedule with
    /// this seed for every other number: a loop over seeds covers the two extremes.
    ///
    /// ```
    /// use colex_sim::Schedule;
    ///
    /// let schedules = [0, 1, 2].map(Schedule::from_seed);
    /// assert_eq!(schedules, [Schedule::Latest, Schedule::Earliest, Schedule::Random(2)]);
    /// ```
    pub fn from_seed(seed: u64) -> Self {
        match seed {
            0 => Schedule::Latest,
            1 => Schedule::Earliest,
            seed => Schedule::Random(seed),
        }
    }
}

/// A sequence of numbers that look random (Steele, Lea and Flood 2014, SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Dice(seed)
    }

    /// A number below `bound`, which is at least 1.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ x >> 31) % bound.max(1) as u64) as usize
    }
}
