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

/// The names of the operands.
const NAMES: [&str; 3] = ["A", "B", "C"];

impl RankProblem {
    /// Returns the product that takes A (M by K) and B (N by K) of these layouts over the ranks, and gives C (M by N) of the third one:
    /// the inverse of [`layouts`](RankProblem::layouts). So a program that has its tensors as layouts does not say which collective the
    /// product needs.
    ///
    /// ```
    /// use colex_gpu::ranks::RankProblem;
    /// use colex_sched::{Overlap, RankLayout};
    ///
    /// // Four ranks. The last mode is the rank: a step of it goes to other columns of A and of B, and to other rows of C.
    /// let a = RankLayout::new(&[64, 32], &"(64,8,4):(1,64,512)".parse()?, false)?;
    /// let b = RankLayout::new(&[48, 32], &"(48,8,4):(1,48,384)".parse()?, false)?;
    /// let c = RankLayout::new(&[64, 48], &"(16,48,4):(1,64,16)".parse()?, false)?;
    /// let problem = RankProblem::of_layouts([&a, &b, &c])?;
    /// assert_eq!(problem, RankProblem { overlap: Overlap::ProductScatter, ranks: 4, m: 64, n: 48, k: 32 });
    ///
    /// // A that every rank has in whole: `local_product` says what C is then, and nothing is sent.
    /// let whole = RankLayout::new(&[64, 32], &"(64,32,4):(1,64,0)".parse()?, false)?;
    /// assert_eq!(
    ///     RankProblem::of_layouts([&whole, &b, &c]).unwrap_err().to_string(),
    ///     "A replicated, B sharded along mode 1, C sharded along mode 0: a product over ranks takes A and B sharded along mode 0 for C \
    ///      sharded along mode 1, or A and B sharded along mode 1 for C sharded along mode 0 or replicated"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for an operand that is no matrix, operands over different numbers of ranks, extents that differ, a layout
    /// that is no [`Placement`], placements that no product takes or gives, and those of [`layouts`](RankProblem::layouts).
    pub fn of_layouts(layouts: [&RankLayout; 3]) -> Result<RankProblem, Error> {
        for (name, layout) in NAMES.into_iter().zip(layouts) {
            let modes = layout.shape().len();
            if modes != 2 {
                return Err(RankError::NoMatrix { name, modes }.into());
            }
        }
        let [a, b, c] = layouts;
        let ranks = a.ranks();
        for (name, layout) in NAMES.into_iter().zip(layouts) {
            let given = layout.ranks();
            if given != ranks {
                return Err(RankError::OtherRanks { name, given, ranks }.into());
            }
        }
        let (m, n, k) = (a.shape()[0], b.shape()[0], a.shape()[1]);
        let pairs = [
            ("B", b.shape()[1], "columns", ("A", k)),
            ("C", c.shape()[0], "rows", ("A", m)),
            ("C", c.shape()[1], "columns", ("the transpose of B", n)),
        ];
        for (name, given, of, (other, wanted)) in pairs {
            if given != wanted {
                return Err(RankError::Extent {
                    name,
                    given,
                    of,
                    other,
                    wanted,
                }
                .into());
            }
        }
        let mut placements = [Placement::Replicate; 3];
        for ((placement, name), layout) in placements.iter_mut().zip(NAMES).zip(layouts) {
            *placement = layout.placement().ok_or_else(|| RankError::NoPlacement {
                name,
                layout: layout.layout().to_string(),
            })?;
        }
        let overlaps = [
            Overlap::GatherProduct,
            Overlap::ProductScatter,
            Overlap::ProductReduce,
        ];
        for overlap in overlaps {
            let problem = RankProblem {
                overlap,
                ranks,
                m,
                n,
                k,
            };
            // One rank holds all in every placement, which then is the first one.
            let of_it = problem.layouts().ok();
            let of_it = of_it.map(|all| all.map(|layout| layout.placement()));
            if of_it == Some(placements.map(Some)) {
                return Ok(problem);
            }
        }
        // The rows that are added are divided in an all-reduce too.
        if placements
            == [
                Placement::Shard(1),
                Placement::Shard(1),
                Placement::Replicate,
            ]
        {
            let overlap = Overlap::ProductReduce;
            let problem = RankProblem {
                overlap,
                ranks,
                m,
                n,
                k,
            };
            problem.layouts()?;
        }
        let [a, b, c] = placements.map(|placement| placement.to_string());
        Err(RankError::NoProduct { a, b, c }.into())
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
