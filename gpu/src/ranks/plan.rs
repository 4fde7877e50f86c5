//! The plan of a product over ranks.

use core::fmt;

use colex_atom::Arch;
use colex_ir::Kernel;
use colex_ir::launch::Launch;
use colex_sched::{Overlap, OverlapPlan};
use colex_sim::{Ranks, Report, SimOptions};

use super::buffers::RankBuffers;
use super::problem::RankProblem;
use super::{gather, reduce, scatter};
use crate::error::{Error, RankError};

/// The way of the data between the ranks.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RankPath {
    /// One rank, which sends nothing.
    Local,
    /// Chunks go into the memory of the other ranks while the product runs: the kernel stores them, or copy engines copy them, each
    /// with a flag.
    PeerMemory,
    /// Copy engines copy all chunks, and the product runs before or after that.
    OneAfterAnother,
    /// The collectives of NCCL, one for each piece of all chunks, beside the product of another piece. Simulated ranks have copies
    /// and sums of the host in their place, which adds as a ring of ranks does.
    NcclInChunks,
    /// One collective of NCCL, before or after the product; on simulated ranks as [`RankPath::NcclInChunks`].
    NcclAfter,
}

impl RankPath {
    /// Whether a library brings the data to the other ranks.
    pub(crate) fn is_by_nccl(self) -> bool {
        matches!(self, RankPath::NcclAfter | RankPath::NcclInChunks)
    }
}

impl fmt::Display for RankPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RankPath::Local => "one rank alone",
            RankPath::PeerMemory => "peer memory",
            RankPath::OneAfterAnother => "copies, one after another with the product",
            RankPath::NcclInChunks => "NCCL in chunks",
            RankPath::NcclAfter => "NCCL, one after another with the product",
        })
    }
}

/// How a product over ranks is computed: the path, the order of the chunks, and the launch, which is that of every rank.
///
/// ```
/// use colex_atom::Arch;
/// use colex_gpu::ranks::{RankPath, RankPlan, RankProblem};
/// use colex_gpu::sim::SimOptions;
/// use colex_sched::Overlap;
///
/// let problem = RankProblem { overlap: Overlap::GatherProduct, ranks: 2, m: 4, n: 2, k: 3 };
/// let plan = RankPlan::new(problem)?;
/// assert_eq!(plan.path(), RankPath::PeerMemory);
/// assert_eq!(plan.order().chunks(1)?, [1, 0]);
///
/// // Each rank has two rows of A, all ones on rank 0 and all twos on rank 1, and one row of B.
/// let a = [vec![1.0; 6], vec![2.0; 6]];
/// let b = [vec![1.0; 3], vec![10.0; 3]];
/// let (c, _) = plan.simulate(Arch::Sm90a, &a, &b, &SimOptions::default())?;
/// // Each rank has one column of C.
/// assert_eq!(c, [[3.0, 3.0, 6.0, 6.0], [30.0, 30.0, 60.0, 60.0]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankPlan {
    problem: RankProblem,
    order: OverlapPlan,
    pub(super) sizes: Sizes,
}

/// Extents of one rank's part, all within 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) ranks: i64,
    /// The rows and columns of a chunk of C.
    pub(super) rows: i64,
    pub(super) columns: i64,
    /// The extent along K of what a rank multiplies.
    pub(super) k: i64,
    /// The blocks that compute a chunk, and all.
    pub(super) tiles: i64,
    pub(super) blocks: i64,
    /// Whether every rank has the whole sum.
    pub(super) reduces: bool,
}

impl RankPlan {
    /// The threads of a block.
    pub const THREADS: u32 = 64;

    /// Returns the plan of a product.
    ///
    /// # Errors
    ///
    /// As [`RankProblem::layouts`], and an error for more than [`OverlapPlan::MOST_RANKS`] ranks or a part of 2^31 elements and more.
    pub fn new(problem: RankProblem) -> Result<RankPlan, Error> {
        let [a, b, c] = problem.layouts()?;
        let order =
            OverlapPlan::new(problem.overlap, problem.ranks).map_err(|why| RankError::Operand {
                name: "the plan",
                why,
            })?;
        let ranks = problem.ranks;
        let (rows, columns, k) = match problem.overlap {
            Overlap::GatherProduct => (problem.m / ranks, problem.n / ranks, problem.k),
            Overlap::ProductScatter | Overlap::ProductReduce => {
                (problem.m / ranks, problem.n, problem.k / ranks)
            }
        };
        // What a rank addresses by 32 bits: its operands, the gathered A, the slots of all ranks.
        let (whole_a, terms) = (problem.m.checked_mul(k), problem.m.checked_mul(columns));
        let parts = [
            ("A", Some(a.part_size())),
            ("B", Some(b.part_size())),
            ("C", Some(c.part_size())),
            ("the gathered A", whole_a),
            ("the terms of C", terms),
        ];
        for (name, elements) in parts {
            if elements.is_none_or(|elements| elements > i64::from(i32::MAX)) {
                let problem = problem.to_string();
                return Err(RankError::Large { name, problem }.into());
            }
        }
        let tiles = (rows * columns + i64::from(Self::THREADS) - 1) / i64::from(Self::THREADS);
        let more = match problem.overlap {
            Overlap::GatherProduct => ranks - 1,
            Overlap::ProductScatter => tiles,
            // One block waits for the sums of the others.
            Overlap::ProductReduce => tiles + 1,
        };
        Ok(RankPlan {
            problem,
            order,
            sizes: Sizes {
                ranks,
                rows,
                columns,
                k,
                tiles,
                blocks: ranks * tiles + more,
                reduces: problem.overlap == Overlap::ProductReduce,
            },
        })
    }

    /// Returns the plan of the product that all ranks are about to compute, one problem from each.
    ///
    /// ```
    /// use colex_gpu::ranks::{RankPlan, RankProblem};
    /// use colex_sched::Overlap;
    ///
    /// let own = RankProblem { overlap: Overlap::GatherProduct, ranks: 2, m: 4, n: 2, k: 3 };
    /// let other = RankProblem { k: 4, ..own };
    /// assert_eq!(
    ///     RankPlan::agreed(&[own, other]).unwrap_err().to_string(),
    ///     "rank 1 asks for all-gather and product, 4 x 2 x 4 over 2 ranks, and rank 0 for all-gather and product, 4 x 2 x 3 \
    ///      over 2 ranks: all ranks compute one product"
    /// );
    /// ```
    ///
    /// # Errors
    ///
    /// As [`RankPlan::new`], and an error that names the first rank whose problem differs from that of rank 0, or if there are not as
    /// many problems as ranks.
    pub fn agreed(problems: &[RankProblem]) -> Result<RankPlan, Error> {
        let Some(first) = problems.first() else {
            return Err(RankError::Parts {
                name: "problems",
                given: 0,
                ranks: 1,
            }
            .into());
        };
        if let Some(rank) = problems.iter().position(|problem| problem != first) {
            let (problem, first) = (problems[rank].to_string(), first.to_string());
            return Err(RankError::Disagree {
                rank,
                problem,
                first,
            }
            .into());
        }
        if problems.len() as i64 != first.ranks {
            return Err(RankError::Parts {
                name: "problems",
                given: problems.len(),
                ranks: first.ranks,
            }
            .into());
        }
        RankPlan::new(*first)
    }

    /// Returns the problem that it was made for.
    pub fn problem(&self) -> &RankProblem {
        &self.problem
    }

    /// Returns the way of the data between the ranks.
    pub fn path(&self) -> RankPath {
        match self.problem.ranks {
            1 => RankPath::Local,
            _ => RankPath::PeerMemory,
        }
    }

    /// Returns the order of the chunks, with its timeline.
    pub fn order(&self) -> &OverlapPlan {
        &self.order
    }

    /// Returns the launch of each rank.
    ///
    /// # Errors
    ///
    /// Returns an error for 2^31 blocks and more.
    pub fn launch(&self) -> Result<Launch, Error> {
        let blocks = u32::try_from(self.sizes.blocks).ok();
        let blocks = blocks.filter(|blocks| *blocks <= i32::MAX as u32);
        let (name, problem) = ("the grid", self.problem.to_string());
        let blocks = blocks.ok_or(RankError::Large { name, problem })?;
        Ok(Launch::new(blocks, RankPlan::THREADS))
    }

    /// Returns the kernel of every rank. [`RankBuffers`] has what it takes.
    ///
    /// # Errors
    ///
    /// Returns an error if the architecture does not have its instructions.
    pub fn kernel(&self, arch: Arch) -> Result<Kernel, Error> {
        let kernel = match self.problem.overlap {
            Overlap::GatherProduct => gather::kernel(&self.sizes, arch),
            Overlap::ProductScatter => scatter::kernel(&self.sizes, arch),
            Overlap::ProductReduce => reduce::kernel(&self.sizes, arch),
        };
        kernel.verify()?;
        Ok(kernel)
    }

    /// Computes the product on a simulated machine with the parts of A and B of each rank, and returns those of C.
    ///
    /// # Errors
    ///
    /// Returns an error unless there is a part of the right size for each rank, and the simulator's fault if a launch has one.
    pub fn simulate(
        &self,
        arch: Arch,
        a: &[Vec<f32>],
        b: &[Vec<f32>],
        options: &SimOptions,
    ) -> Result<(Vec<Vec<f32>>, Report), Error> {
        let mut ranks = Ranks::connected(self.problem.ranks as usize)?;
        let buffers = RankBuffers::new(self, &mut ranks)?;
        buffers.write(&mut ranks, a, b)?;
        let arguments =
            (0..self.problem.ranks as usize).map(|rank| buffers.arguments(rank, 1).map(Some));
        let arguments = arguments.collect::<Result<Vec<_>, Error>>()?;
        let report = ranks.simulate(&self.kernel(arch)?, &self.launch()?, &arguments, options)?;
        Ok((buffers.read(&ranks)?, report))
    }
}
