//! The description of a product in groups, and what the numbers of its groups mean, on the host.

use core::fmt;
use core::ops::Range;

use super::Groups;
use super::choose::most_tall;
use super::tiles::MOST_GROUPS;
use crate::gemm::plan::GemmPlan;
use crate::gemm::problem::GemmProblem;

/// A product in groups: its kind, the number of groups, and the extents of its matrices.
///
/// ```
/// use colex_gpu::gemm::{GroupProblem, Groups};
///
/// let problem = GroupProblem { kind: Groups::Rows, groups: 3, m: 10, n: 64, k: 32 };
/// assert_eq!(problem.to_string(), "3 groups of rows, 10x64x32");
/// assert_eq!(problem.spans(&[2, 5, 5, 9]), [2..5, 5..5, 5..9]);
/// // Beyond M there is nothing, and a group that would end before it begins is empty.
/// assert_eq!(problem.spans(&[0, 8, 3, 99]), [0..8, 8..8, 8..10]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupProblem {
    /// How the product is divided.
    pub kind: Groups,
    /// The number of groups.
    pub groups: i64,
    /// Rows of A and C: of all groups, or the most of a group if the rows are masked.
    pub m: i64,
    /// Rows of B, columns of C.
    pub n: i64,
    /// Columns of A and B: of all groups if these are along K.
    pub k: i64,
}

impl GroupProblem {
    /// Returns what each group has for these numbers: rows of A and C, or, of groups along K, columns of A and B.
    ///
    /// Numbers that are missing count as 0, and those that are too many are not read. A negative extent has nothing, and a product
    /// has at most 65,536 groups: none beyond these is returned.
    pub fn spans(&self, numbers: &[u32]) -> Vec<Range<i64>> {
        let extent = match self.kind {
            Groups::Rows | Groups::Masked => self.m,
            Groups::AlongK => self.k,
        };
        let extent = extent.max(0);
        let at = |i: i64| {
            let number = usize::try_from(i).ok().and_then(|i| numbers.get(i));
            number.map_or(0, |number| i64::from(*number).min(extent))
        };
        let mut largest = at(0);
        let of = |group: i64| match self.kind {
            Groups::Rows => {
                let first = largest;
                largest = largest.max(at(group + 1));
                first..largest
            }
            Groups::Masked => 0..at(group),
            Groups::AlongK => at(group)..at(group + 1).max(at(group)),
        };
        (0..self.groups.min(MOST_GROUPS)).map(of).collect()
    }

    /// Returns the most tiles that a plan's kernel has for the groups, regardless of their numbers: blocks beyond the tiles that
    /// there are end at once.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::gemm::{GroupProblem, Groups};
    /// use colex_gpu::kernels::Major;
    /// use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan, Operands};
    ///
    /// let majors = [Major::Second; 3];
    /// let operands = Operands { ab: Ty::Bf16, c: Ty::Bf16, majors, vectors: [8; 3], beta: false, gated: false };
    /// let plan = GemmPlan::new(GemmMethod::Ampere, operands); // tiles of 128 by 128
    /// let problem = GroupProblem { kind: Groups::Rows, groups: 8, m: 1024, n: 256, k: 64 };
    /// // Of 1024 rows in 8 groups, at most 8 tiles along M begin anew.
    /// assert_eq!(problem.most_tiles(&plan), (1024 / 128 + 8) * 2);
    /// ```
    pub fn most_tiles(&self, plan: &GemmPlan) -> i64 {
        let problem = GemmProblem::new(self.m.max(0), self.n.max(0), self.k.max(0));
        let problem = problem.batch(self.groups.max(0));
        let plan = plan.possible();
        let wide = problem.n / plan.tile[1] + i64::from(problem.n % plan.tile[1] != 0);
        most_tall(self.kind, &plan, &problem).saturating_mul(wide)
    }
}

/// `3 groups of rows, 10x64x32`.
impl fmt::Display for GroupProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GroupProblem {
            kind,
            groups,
            m,
            n,
            k,
        } = self;
        write!(f, "{groups} {kind}, {m}x{n}x{k}")
    }
}
