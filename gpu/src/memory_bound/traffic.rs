//! The traffic of a plan, counted by the layouts of its tensors, and the time that it takes: the model that all plans share.

use core::fmt;

use colex_atom::{Arch, SECTOR_BYTES, Touched};
use colex_layout::{IntTuple, Layout};

use super::call::MemoryBoundPlan;
use super::plan::{WARP, counted};

/// What the launches of a plan ask of the memory.
///
/// ```
/// use colex_atom::Arch;
/// use colex_gpu::Device;
/// use colex_gpu::rowwise::{RowFunction, Rowwise};
///
/// let device = Device::simulator(Arch::Sm90a);
/// let x = device.upload(&[1.0f32; 4 * 1024])?;
/// let mut y = device.poisoned::<f32>(4 * 1024)?;
/// let call = Rowwise::new(RowFunction::Softmax, &x.view((4, 1024))?, &y.view_mut((4, 1024))?).prepare()?;
/// let traffic = call.traffic().expect("there are rows");
/// assert_eq!((traffic.moved, traffic.compulsory), (2 * 4 * 4096, 2 * 4 * 4096));
/// // A warp reads 32 vectors of 16 bytes beside each other.
/// assert_eq!((traffic.sectors, traffic.least_sectors), (16, 16));
/// // The simulator counts the same.
/// let sectors: u64 = call.profile(&device)?.iter().map(|report| report.sectors().0).sum();
/// assert_eq!(32 * sectors as i64, traffic.moved);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// The bytes that any kernel moves: every element that is read or written, once.
    pub compulsory: i64,
    /// The bytes that the plan moves.
    pub moved: i64,
    /// The sectors of 32 bytes that the first access of a warp touches.
    pub sectors: i64,
    /// The sectors that the bytes of this access fill.
    pub least_sectors: i64,
    /// The bytes that a thread asks for before it waits for the first.
    pub under_way: i64,
    /// The threads of a block.
    pub threads: i64,
    /// The blocks of the largest launch.
    pub blocks: i64,
    /// The launches, each of which waits for the one before it.
    pub launches: i64,
}

/// The microseconds that the model predicts for an H200.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrafficTime {
    /// The sectors that are moved, at the rate of the memory, or at the rate of the bytes that are under way.
    pub bytes: f64,
    /// The wait for the first bytes.
    pub latency: f64,
    /// The launches.
    pub launches: f64,
}

impl TrafficTime {
    /// Returns the sum.
    pub fn total(&self) -> f64 {
        self.bytes + self.latency + self.launches
    }
}

/// `19.9 us: bytes 14.6, latency 0.8, launches 4.5`
impl fmt::Display for TrafficTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TrafficTime {
            bytes,
            latency,
            launches,
        } = self;
        write!(
            f,
            "{:.1} us: bytes {bytes:.1}, latency {latency:.1}, launches {launches:.1}",
            self.total()
        )
    }
}

/// The numbers of an H200. `PERFORMANCE.md` has the rate of its memory, and the time of a second kernel; the others are those of the
/// architecture, or chosen.
mod h200 {
    /// Bytes in a microsecond.
    pub(super) const MEMORY: f64 = 4.64e6;
    /// Microseconds from a load to its bytes.
    pub(super) const LATENCY: f64 = 0.8;
    /// Microseconds of the first launch, and of each that waits for another.
    pub(super) const LAUNCH: f64 = 1.5;
    pub(super) const NEXT_LAUNCH: f64 = 3.0;
    /// The multiprocessors, and what one of them has: bytes in a microsecond, threads, blocks and registers.
    pub(super) const MULTIPROCESSORS: i64 = 132;
    pub(super) const RATE: f64 = 0.1e6;
    pub(super) const THREADS: i64 = 2048;
    pub(super) const BLOCKS: i64 = 32;
    pub(super) const REGISTERS: i64 = 65536;
    /// The registers of a thread beside those of its loads.
    pub(super) const OWN_REGISTERS: i64 = 40;
}

impl Traffic {
    /// Returns the time that the model predicts for an H200: the sectors at the rate of the memory, unless too few bytes are under way
    /// or too few multiprocessors have a block.
    ///
    /// ```
    /// use colex_gpu::memory_bound::Traffic;
    ///
    /// let traffic = Traffic {
    ///     compulsory: 67_117_056,
    ///     moved: 68_198_400,
    ///     sectors: 16,
    ///     least_sectors: 16,
    ///     under_way: 256,
    ///     threads: 128,
    ///     blocks: 528,
    ///     launches: 2,
    /// };
    /// assert_eq!(traffic.time().to_string(), "20.0 us: bytes 14.7, latency 0.8, launches 4.5");
    /// // Half of each sector is not asked for.
    /// let half = Traffic { sectors: 32, ..traffic };
    /// assert_eq!(half.time().bytes, 2.0 * traffic.time().bytes);
    /// // One block has 32 KiB under way, and no other is there to hide the wait for them.
    /// let alone = Traffic { blocks: 1, ..traffic };
    /// assert!(alone.time().bytes > 100.0 * traffic.time().bytes);
    /// ```
    pub fn time(&self) -> TrafficTime {
        let threads = self.threads.max(1);
        let registers = (self.under_way.max(0) / 4).saturating_add(h200::OWN_REGISTERS);
        let beside = (h200::THREADS / threads)
            .min(h200::REGISTERS / registers.saturating_mul(threads).max(1))
            .clamp(1, h200::BLOCKS);
        let blocks = self.blocks.max(1);
        let at_once = blocks.min(h200::MULTIPROCESSORS * beside) as f64;
        let under_way = at_once * threads as f64 * self.under_way.max(1) as f64;
        let busy = blocks.min(h200::MULTIPROCESSORS) as f64;
        let rate = (under_way / h200::LATENCY)
            .min(busy * h200::RATE)
            .min(h200::MEMORY);
        let touched = self.sectors.max(1) as f64 / self.least_sectors.max(1) as f64;
        TrafficTime {
            bytes: self.moved.max(0) as f64 * touched / rate,
            latency: h200::LATENCY,
            launches: h200::LAUNCH + h200::NEXT_LAUNCH * (self.launches.max(1) - 1) as f64,
        }
    }

    /// Returns the same traffic with the sectors of the first access of a warp, whose elements have these offsets.
    pub(crate) fn touching(self, offsets: Vec<i64>, bytes: i64, width: i64) -> Traffic {
        let width = width.saturating_mul(bytes);
        let starts = offsets.iter().filter_map(|at| at.checked_mul(bytes));
        if offsets.is_empty() || !(1..=1 << 16).contains(&width) {
            return self;
        }
        let touched = Touched::of(starts, width, SECTOR_BYTES);
        Traffic {
            sectors: touched.blocks as i64,
            least_sectors: touched.least as i64,
            ..self
        }
    }
}

/// Returns the offsets of the elements at which the lanes of the first warp begin, of those that lie within the layout's modes.
pub(crate) fn first_access<const N: usize>(
    layout: Option<&Layout>,
    place: impl Fn(i64) -> [i64; N],
) -> Vec<i64> {
    let Some(layout) = layout else {
        return Vec::new();
    };
    let at = |lane: i64| {
        let coordinate = IntTuple::flat(place(lane).map(Into::into));
        layout.at(&coordinate).ok()
    };
    (0..WARP).filter_map(at).collect()
}

/// The most plans that are named behind a plan.
const NAMED: usize = 2;

/// What a call on a device of an architecture says of its plan: the plan's own sentences, the sectors, the time of the model, and the plans
/// beside it that the architecture takes.
pub(crate) fn explained<P: MemoryBoundPlan>(plan: &P, problem: &P::Problem, arch: Arch) -> String {
    let (sentences, traffic) = (plan.sentences(problem), plan.counted(problem));
    let Traffic {
        sectors,
        least_sectors,
        ..
    } = traffic;
    let touched = counted((sectors, "sector"));
    let sectors = if sectors == least_sectors {
        format!(
            "The first access of a warp touches {touched} of 32 bytes, and uses all of their bytes."
        )
    } else {
        format!(
            "The first access of a warp touches {touched} of 32 bytes, and its bytes fill {least_sectors}."
        )
    };
    let time = traffic.time();
    let mut text = format!("{sentences}\n{sectors}\nPredicted on an H200: {time}.");
    let is_for = |other: &P| other.check_for(arch, problem).is_ok();
    let mut others: Vec<(f64, P)> = (plan.neighbours(problem).into_iter())
        .filter(|other| other != plan && is_for(other))
        .map(|other| (other.counted(problem).time().total(), other))
        .collect();
    others.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    for (time, other) in others.into_iter().take(NAMED) {
        text += &format!("\nBeside it, {time:.1} us: {other}");
    }
    text
}
