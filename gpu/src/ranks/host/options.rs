//! What a caller may choose of a product over ranks.

use core::fmt;
use std::time::Duration;

use super::links::LinkSpeeds;
use crate::ranks::RankPath;

/// What a caller may choose of a product over devices.
///
/// ```
/// use colex_gpu::ranks::{RankOptions, RankPath};
///
/// let options = RankOptions { path: Some(RankPath::OneAfterAnother), ..RankOptions::default() };
/// assert_eq!(options.pieces, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RankOptions {
    /// The path; `None` for [`RankPath::PeerMemory`] where the streams of all devices set flags and a kernel takes the product on this path,
    /// else for [`RankPath::OneAfterAnother`], and for the faster path of NCCL where a device has no access to the memory of another one.
    /// By peer memory the kernel is Hopper's, and rows of the terms of a sum are whole vectors of 16 bytes.
    pub path: Option<RankPath>,
    /// The pieces of a chunk: copies, each with a flag, or collectives of NCCL. `None` for one copy, and for as many collectives
    /// as are predicted to be the fastest.
    pub pieces: Option<i64>,
    /// What brings the terms of a sum to their owners on the path [`RankPath::PeerMemory`]; `None` for copy engines, and for the kernel in
    /// an all-reduce of which the caller asks for several pieces. An all-gather has no terms, and NCCL brings them by itself: there only
    /// `None` is accepted.
    pub sends: Option<RankSends>,
    /// What adds the slots of an owner on the path [`RankPath::PeerMemory`]; `None` for a kernel of its own, which was faster than the
    /// epilogue on four H200. As of `sends`, only `None` is accepted for an all-gather and for NCCL.
    pub sums: Option<RankSums>,
    /// The speeds by which paths are compared.
    pub links: LinkSpeeds,
    /// The longest time in which NCCL makes the communicators or begins a collective; `None` for a minute. With a process for each rank it is
    /// at most half of the time of their meeting.
    pub nccl_within: Option<Duration>,
}

/// What brings the terms of a sum over ranks to their owners while the product runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RankSends {
    /// The copy engine of each rank: the kernel tells when the terms of an owner are stored ([`Gemm::departures`](crate::Gemm::departures)),
    /// and the engine sends them in one piece while the kernel computes those of the next owner.
    Engines,
    /// The kernel itself, tile by tile, by TMA into the memory of the owner.
    Kernel,
    /// The kernel itself, by reductions of TMA: it adds each tile to the one sum that the owner has, which is zeros before
    /// ([`Gemm::adds`](crate::Gemm::adds)). There are no slots, and nothing is added afterwards. The sum is rounded to the type of the
    /// slots at each addition, and the order of the additions is that in which they happen: two runs may differ in the last
    /// bits.
    ///
    /// The devices of one process have to be linked such that atomic operations work between them
    /// ([`Device::has_native_atomics`](crate::Device::has_native_atomics)). Ranks of several processes do not know each other's devices: there
    /// the caller has to know it.
    Reduction,
}

impl fmt::Display for RankSends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RankSends::Engines => "terms sent by copy engines",
            RankSends::Kernel => "terms stored by kernels",
            RankSends::Reduction => "terms added by kernels",
        })
    }
}

/// What adds the slots in the memory of an owner, in f32 with one rounding to C and in the same order in every run. The first two add in
/// the order of the ranks: their bits are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RankSums {
    /// A kernel behind the product, which reads all slots.
    Kernel,
    /// The product of the rank's own chunk, in its epilogue: a launch of its own behind the product of all other chunks
    /// ([`Gemm::but_last`](crate::Gemm::but_last)), when the terms of the others have come. The own term has no slot, and the slots of the
    /// others are read beside the main loop.
    Epilogue,
    /// Both, in a reduce-scatter whose terms copy engines send: the epilogue of the product of the own chunk adds this number of slots,
    /// those that come first, and a kernel adds the others to that. The first slot is that of the rank before this one, the next one that of
    /// the rank before that, and so on; at least one slot is early, and at least one is not.
    ///
    /// The order of the additions: the own term, which is an f32 in the accumulators, then the early slots as they come. This sum is rounded to
    /// the type of the slots, as every other term is, and takes the place of the own term. The kernel then adds it and the other slots
    /// in the order of the ranks. So a sum is rounded as often as with [`RankSums::Kernel`], and with slots of f32 it keeps f32;
    /// but the last bits may differ.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_gpu::Device;
    /// # use colex_gpu::ranks::{RankDevices, RankOptions, RankProblem, RankProduct, RankSums};
    /// # use colex_sched::Overlap;
    /// # use half::bf16;
    /// let device = Device::simulator(Arch::Sm90a);
    /// let ranks = RankDevices::new(&[device.clone(), device.clone(), device])?;
    /// let problem = RankProblem { overlap: Overlap::ProductScatter, ranks: 3, m: 24, n: 16, k: 48 };
    /// let of = |early| {
    ///     let options = RankOptions { sums: Some(RankSums::Early(early)), ..RankOptions::default() };
    ///     RankProduct::<bf16, bf16>::new(&ranks, problem, &options)
    /// };
    /// let said = of(1)?.explain()?;
    /// assert!(said.contains("slots of bf16, the first 1 added by the epilogue of the owner's product"), "{said}");
    /// assert_eq!(
    ///     of(2).unwrap_err().to_string(),
    ///     "2 early slots of the 2 of other ranks: at least one is early, and at least one is not"
    /// );
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    Early(i64),
}
