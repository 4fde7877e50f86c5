//! The options of a simulation: its checks, its limits and its schedule.

/// The options of a simulation: its checks, limits and schedule.
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
    /// Whether a read of memory that was never written is a fault. If not, such memory holds zeros.
    pub uninitialised: bool,
    /// Whether bank conflicts and sectors are counted.
    pub counts: bool,
    /// Whether the report lists the events at barriers and in shared memory, in order. Off by default.
    pub events: bool,
    /// Where the lines go that a kernel prints. They are in the report too.
    pub print_to: PrintTo,
    /// Whether float products are summed as Hopper's tensor cores sum them, bit for bit. If not, they are summed
    /// exactly and rounded once.
    pub hopper_sums: bool,
    /// The most instructions of one warp, after which the simulation stops with a fault. The default is 50 million.
    pub max_steps: u64,
    /// The most instructions of all warps together. The default is 4 billion, which take some minutes.
    pub max_instructions: u64,
    /// The most blocks of a grid. The default is 2^20.
    pub max_blocks: u64,
    /// The cores of the host that blocks of a large grid run on. The default, 0, stands for all of them.
    ///
    /// The report, the memory and the fault are those of one core, for every number. One core runs kernels that race
    /// between blocks, that use atomic or ordered accesses of global memory or reducing copies, or that fault; and
    /// everything with `races` off, with `events` on, on several devices, or on a host without threads.
    pub cores: usize,
}

impl Default for SimOptions {
    fn default() -> Self {
        SimOptions {
            schedule: Schedule::Latest,
            races: true,
            uninitialised: true,
            counts: true,
            events: false,
            print_to: PrintTo::Stdout,
            hopper_sums: true,
            max_steps: 50_000_000,
            max_instructions: 4_000_000_000,
            max_blocks: 1 << 20,
            cores: 0,
        }
    }
}

impl SimOptions {
    /// Returns these options with the given schedule.
    pub fn schedule(self, schedule: Schedule) -> Self {
        SimOptions { schedule, ..self }
    }

    /// Returns these options with a number of cores of the host.
    ///
    /// ```
    /// use colex_sim::SimOptions;
    ///
    /// assert_eq!(SimOptions::default().cores(1).cores, 1);
    /// ```
    pub fn cores(self, cores: usize) -> Self {
        SimOptions { cores, ..self }
    }

    /// Returns these options with the schedule [`Schedule::from_seed`] of a number.
    pub fn seed(self, seed: u64) -> Self {
        self.schedule(Schedule::from_seed(seed))
    }
}

/// Where the lines go that a kernel prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrintTo {
    /// To the standard output of the process at the end of the launch, as a GPU's driver does; and to the report.
    Stdout,
    /// To [`Report::printed`](crate::Report::printed) alone, or [`Fault::printed`](crate::Fault::printed).
    Report,
}

/// The order in which the simulator runs warps and completes asynchronous operations.
///
/// A correct kernel gives the same result under every schedule. Of several devices ([`Ranks`](crate::Ranks)), the latest one
/// starts the ranks in their order and runs each as far as it gets, the earliest one in the opposite order, and a random one
/// lets them run beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Warps run in turn. An asynchronous operation completes as late as possible: when no warp can continue without
    /// it.
    Latest,
    /// Warps run in turn. An asynchronous operation completes as early as possible: after the turn that issued it.
    Earliest,
    /// A pseudo-random sequence with this seed chooses the next warp and the next operation.
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
    /// The sequence of a cluster under a schedule.
    pub(crate) fn of(schedule: Schedule, cluster: usize) -> Self {
        match schedule {
            Schedule::Latest | Schedule::Earliest => Dice(0),
            // The sequences of clusters whose numbers follow are far from each other.
            Schedule::Random(seed) => Dice(seed ^ (cluster as u64) << 32),
        }
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
