//! What is multiplied, and how it lies over the ranks.

use core::fmt;

use colex_sched::{Overlap, Placement, RankLayout};

use crate::error::{Error, RankError};

/// A product of matrices over ranks.
///
/// [`Overlap::GatherProduct`] takes A and B sharded along their rows and gives C sharded along its columns: the rows of A are
/// gathered. [`Overlap::ProductScatter`] takes A and B sharded along K and gives C sharded along its rows: the terms of C are
/// reduced and scattered. [`Overlap::ProductReduce`] takes the same A and B and gives every rank the whole C.
///
/// ```
/// use colex_gpu::ranks::RankProblem;
/// use colex_sched::{Overlap, Placement};
///
/// let problem = RankProblem { overlap: Overlap::ProductScatter, ranks: 4, m: 64, n: 48, k: 32 };
/// assert_eq!(problem.placements(), [Placement::Shard(1), Placement::Shard(1), Placement::Shard(0)]);
/// let [a, _, c] = problem.layouts()?;
/// assert_eq!((a.part_size(), c.part_size()), (64 * 8, 16 * 48));
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RankProblem {
    /// What is communicated.
    pub overlap: Overlap,
    /// The number of ranks.
    pub ranks: i64,
    /// The rows of the whole A and C.
    pub m: i64,
    /// The rows of the whole B, which are the columns of C.
    pub n: i64,
    /// The columns of the whole A and B.
    pub k: i64,
}

impl RankProblem {
    /// Returns the placements of A, B and C.
    pub fn placements(&self) -> [Placement; 3] {
        let (rows, columns) = (Placement::Shard(0), Placement::Shard(1));
        match self.overlap {
            Overlap::GatherProduct => [rows, rows, columns],
            Overlap::ProductScatter => [columns, columns, rows],
            Overlap::ProductReduce => [columns, columns, Placement::Replicate],
        }
    }

    /// Returns the layouts of A, B and C over the ranks. A rank holds its part with the first mode fastest.
    ///
    /// # Errors
    ///
    /// Returns an error for an extent below 1, a number of ranks below 1, a size that does not fit in 64 bits, or a sharded extent
    /// that is not a multiple of the ranks. The rows of C are a multiple in any case, since each rank adds a chunk of them.
    pub fn layouts(&self) -> Result<[RankLayout; 3], Error> {
        let shapes = [[self.m, self.k], [self.n, self.k], [self.m, self.n]];
        let [a, b, c] = self.placements();
        let layout = |name: &'static str, placement: Placement, shape: [i64; 2]| {
            let layout = placement.layout(&shape, self.ranks);
            layout.map_err(|why| Error::from(RankError::Operand { name, why }))
        };
        let all = [
            layout("A", a, shapes[0])?,
            layout("B", b, shapes[1])?,
            layout("C", c, shapes[2])?,
        ];
        if self.overlap == Overlap::ProductReduce {
            layout("C", Placement::Shard(0), shapes[2])?;
        }
        Ok(all)
    }
}

impl fmt::Display for RankProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} x {} x {} over {} ranks",
            self.overlap, self.m, self.n, self.k, self.ranks
        )
    }
}
