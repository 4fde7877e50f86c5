//! `ScanPlan`: how sums are divided among threads and blocks, and the reasons for it.

use core::fmt;

use colex_atom::{Arch, Ty};
use colex_tensor::TensorKernel;

use super::kernel::{self, ScanStage};
use super::problem::{ScanOperands, ScanProblem};
use crate::error::{Error, ReduceError};
use crate::memory_bound::plan::{
    MOST_THREADS, PlanCheck, check_operands, check_width, counted, div_up, power_up, product,
};
use crate::reduce::plan::{MOST_BLOCKS, MOST_COLUMNS};
use crate::reduce::problem::{MOST, size};

/// How a kernel divides cumulative sums among its threads and blocks.
///
/// If the mode of the sums runs fastest, the threads of a block share a sum: in one turn, each of them has `accesses` vectors, one
/// after the other. Otherwise a thread has the sums of a vector of the inner mode, and reads `accesses` elements of each
/// at once.
///
/// # Order
///
/// Every number is computed in `f32` (integers: in 32 bits), and rounded to the type once, where it is stored. Along a thread's own
/// sums, elements are added one by one to the sum before them. Where a block shares a sum, a turn adds in this order: the elements of
/// a thread one by one; the lanes before a lane at the distances 1, 2, 4, 8 and 16; the warps before a warp one by one;
/// `(warps + lanes) + own`. The total of the earlier turns of the part is added on the left. A part begins with the sum of the
/// totals of the parts before it, added one by one; the first with 0. [`reference`](super::reference::sums) does the same on the
/// host.
///
/// ```
/// use colex_atom::{Arch, Ty};
/// use colex_gpu::reduce::scan::{ScanPlan, ScanProblem};
///
/// let problem = ScanProblem::new(Ty::F32, [4096, 4096, 1])?;
/// let plan = ScanPlan::fastest(&problem);
/// assert_eq!(plan.to_string(), "cumulative sum f32, vectors of 4, threads 1x128, 1 access");
/// plan.check(Arch::Sm80)?;
/// let refused = ScanPlan { along: 16, ..plan }.check(Arch::Sm80).unwrap_err();
/// assert_eq!(
///     refused.to_string(),
///     "the plan's number of threads of a block is 16: the cumulative sum kernel takes 32 to 1024, in multiples of 32"
/// );
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScanPlan {
    /// What the kernel knows of its tensors.
    pub operands: ScanOperands,
    /// The elements of an access: a power of two, and at most 16 bytes.
    pub vector: i64,
    /// The threads along the other modes, if a thread has its own sums: a power of two.
    pub rows: i64,
    /// The threads along the mode that runs fastest: a power of two.
    pub along: i64,
    /// The accesses of a thread that are under way at once.
    pub accesses: i64,
    /// The turns of a block, if blocks share a sum; 0 if a block has all of them.
    pub turns: i64,
}

/// The threads of a block that shares a sum, and of one whose threads have their own.
const THREADS: i64 = 128;
const OWN_THREADS: i64 = 128;

/// The elements of a thread in a turn, the accesses of one that has its own sums, and the most.
const ITEMS: i64 = 2;
const ACCESSES: i64 = 8;
const MOST_ITEMS: i64 = 64;

/// The blocks of a launch up to which sums are divided.
const SHARING_BLOCKS: i64 = 2112;

/// The bytes of accesses that are under way at once from which on threads that have their own sums are as fast as the memory: sums are not
/// divided then, since parts are read twice.
const ENOUGH_BYTES: i64 = 4 << 20;

/// The least turns of a part, and the most parts.
const LEAST_TURNS: i64 = 4;
const PARTS: i64 = 128;
pub(crate) const MOST_PARTS: i64 = 65535;

impl ScanPlan {
    /// Returns the plan of a problem: accesses of 16 bytes where the tensors allow them, and as many parts as fill a GPU if there
    /// are few sums. Threads that have their own sums share none if 4 MiB are under way without parts.
    pub fn fastest(problem: &ScanProblem) -> ScanPlan {
        let operands = problem.operands();
        let vector = operands.vector;
        let plan = ScanPlan {
            operands,
            vector,
            rows: 1,
            along: 1,
            accesses: 1,
            turns: 0,
        };
        let plan = if problem.keeps_inner {
            let along = power_up(div_up(problem.inner.extent, vector)).min(OWN_THREADS);
            let rows = power_up(size(&problem.outer)).min(OWN_THREADS / along);
            let accesses = ACCESSES.min(problem.along.extent).max(1);
            ScanPlan {
                along,
                rows: rows.max(div_up(32, along)),
                accesses,
                ..plan
            }
        } else {
            let vectors = div_up(problem.along.extent, vector);
            // Several accesses of a thread leave gaps between the threads.
            let accesses = (ITEMS / vector).min(div_up(vectors, 32)).max(1);
            let along = power_up(div_up(vectors, accesses)).clamp(32, THREADS);
            ScanPlan {
                along,
                accesses,
                ..plan
            }
        };
        let [x, y, _] = plan.grid(problem);
        let size = i64::from(operands.ty.bits()) / 8;
        let of_block = product([plan.threads(), plan.accesses, vector, size]);
        if problem.keeps_inner && product([x, y, of_block]) >= ENOUGH_BYTES {
            return plan;
        }
        let wanted = (SHARING_BLOCKS / x.saturating_mul(y).max(1)).min(PARTS);
        let all = plan.all_turns(problem);
        let parts = wanted.min(all / LEAST_TURNS);
        if parts < 2 {
            return plan;
        }
        ScanPlan {
            turns: div_up(all, parts),
            ..plan
        }
    }

    /// Returns the elements along the mode of the sums that a block has in a turn.
    pub(crate) fn chunk(&self) -> i64 {
        if self.operands.keeps_inner {
            return self.accesses;
        }
        product([self.along, self.vector, self.accesses])
    }

    fn all_turns(&self, problem: &ScanProblem) -> i64 {
        div_up(problem.along.extent, self.chunk())
    }

    /// Returns the number of blocks that share a sum.
    pub fn parts(&self, problem: &ScanProblem) -> i64 {
        match self.turns {
            ..1 => 1,
            turns => div_up(self.all_turns(problem), turns),
        }
    }

    /// Returns the bytes of memory for the totals of the parts.
    pub fn workspace(&self, problem: &ScanProblem) -> i64 {
        match self.parts(problem) {
            1 => 0,
            parts => problem.sums().saturating_mul(parts).saturating_mul(4),
        }
    }

    /// Returns the bytes that the kernels move for a problem: with parts, the elements are read twice.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::reduce::scan::{ScanPlan, ScanProblem};
    ///
    /// let problem = ScanProblem::new(Ty::F32, [1, 1 << 20, 1])?;
    /// let plan = ScanPlan::fastest(&problem);
    /// assert_eq!(plan.parts(&problem), 128);
    /// assert_eq!(plan.bytes(&problem), 3 * (4 << 20) + 2 * 4 * 128);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn bytes(&self, problem: &ScanProblem) -> i64 {
        let must = problem.compulsory_bytes();
        if self.parts(problem) <= 1 {
            return must;
        }
        let totals = self.workspace(problem).saturating_mul(2);
        must.saturating_add(problem.read_bytes())
            .saturating_add(totals)
    }

    /// Says in sentences how the plan divides a problem.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::reduce::scan::{ScanPlan, ScanProblem};
    ///
    /// let problem = ScanProblem::new(Ty::F32, [4096, 1000, 1])?;
    /// assert_eq!(
    ///     ScanPlan::fastest(&problem).explain(&problem),
    ///     "cumulative sum f32, 4096 sums of 1000
    /// An access takes 4 elements, 16 bytes: addresses, strides and extents allow 4.
    /// The threads of a block share a sum: 128 threads and 1 access make 512 elements, in 2 turns.
    /// The launch has 4096 blocks of 128 threads; no two of them share a sum.
    /// 32768000 bytes are moved, and 32768000 must be."
    /// );
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn explain(&self, problem: &ScanProblem) -> String {
        let bytes = self
            .vector
            .saturating_mul(i64::from(self.operands.ty.bits()))
            / 8;
        let allowed = self.operands.vector;
        let chunk = self.chunk();
        let [elements, along, accesses, turns, threads] = [
            (self.vector, "element"),
            (self.along, "thread"),
            (self.accesses, "access"),
            (self.all_turns(problem), "turn"),
            (self.threads(), "thread"),
        ]
        .map(counted);
        let how = if self.operands.keeps_inner {
            let inner = problem.inner.extent;
            format!(
                "A thread has its own sums: {along} lie along an inner mode of {inner}, and {accesses} make a turn, of {turns}."
            )
        } else {
            format!(
                "The threads of a block share a sum: {along} and {accesses} make {chunk} elements, in {turns}."
            )
        };
        let [x, y, parts] = self.grid(problem);
        let blocks = x.saturating_mul(y).saturating_mul(parts);
        let blocks = counted((blocks, "block"));
        let launch = match parts {
            1 => format!("The launch has {blocks} of {threads}; no two of them share a sum."),
            _ => format!(
                "Each of two launches has {blocks} of {threads}; {parts} of them share a sum, and the first launch adds up \
                 their parts."
            ),
        };
        let [moved, must] = [self.bytes(problem), problem.compulsory_bytes()];
        format!(
            "{problem}\n\
             An access takes {elements}, {bytes} bytes: addresses, strides and extents allow {allowed}.\n\
             {how}\n\
             {launch}\n\
             {moved} bytes are moved, and {must} must be."
        )
    }

    /// Returns the threads of a block.
    pub(crate) fn threads(&self) -> i64 {
        self.rows.saturating_mul(self.along)
    }

    /// Returns the blocks of a launch: along the other modes, along an inner mode that has no sums, of which a block has several
    /// tiles if there are too many, and along the parts.
    pub(crate) fn grid(&self, problem: &ScanProblem) -> [i64; 3] {
        let tile = self.along.saturating_mul(self.vector);
        let columns = if problem.keeps_inner {
            div_up(problem.inner.extent, tile).min(MOST_COLUMNS)
        } else {
            1
        };
        let rows = div_up(size(&problem.outer), self.rows);
        [rows, columns, self.parts(problem)]
    }

    /// Checks that the kernel can be built: every number.
    ///
    /// # Errors
    ///
    /// Returns an error that names the number, and what the kernel takes.
    pub fn check(&self, _: Arch) -> Result<(), Error> {
        let operands = &self.operands;
        let check = self.plan_check();
        if !matches!(operands.ty, Ty::F32 | Ty::F16 | Ty::Bf16 | Ty::S32) {
            let (function, ty) = ("cumulative sum".to_string(), operands.ty);
            return Err(ReduceError::Type { function, ty }.into());
        }
        if !(1..=16).contains(&operands.outer) {
            return check.refuse("a kernel has 1 to 16 outer modes");
        }
        let must = "accesses of several elements need an inner mode with the stride 1";
        check.access((self.vector, operands.ty), operands.contiguous, must)?;
        let what = "number of threads along the inner mode";
        check.power(what, self.along, MOST_THREADS)?;
        let most = if operands.keeps_inner {
            MOST_THREADS / self.along
        } else {
            1
        };
        check.power("number of threads along the rows", self.rows, most)?;
        check.block(self.threads())?;
        let most = MOST_ITEMS / self.vector;
        check.number("number of accesses", self.accesses, [1, most, 1])?;
        check.number("number of turns of a part", self.turns, [0, MOST, 1])
    }

    fn plan_check(&self) -> PlanCheck<'_> {
        PlanCheck {
            kernel: &"cumulative sum",
            operands: &self.operands,
        }
    }

    /// Checks that the plan is for a problem.
    ///
    /// # Errors
    ///
    /// Returns an error if tensors, types or modes are others, if the plan's accesses are wider than the tensors allow, or if the
    /// launch has too many blocks.
    pub(crate) fn check_problem(&self, problem: &ScanProblem) -> Result<(), Error> {
        let call = problem.operands();
        let like = ScanOperands {
            vector: call.vector,
            contiguous: call.contiguous,
            ..self.operands
        };
        check_operands(&self.operands, &like, &call)?;
        let plan = (self.vector, self.operands.contiguous);
        check_width(plan, (call.vector, call.contiguous), "extents")?;
        let [rows, _, parts] = self.grid(problem);
        self.plan_check().limit("blocks", rows, MOST_BLOCKS)?;
        self.plan_check().limit("parts", parts, MOST_PARTS)
    }

    /// Returns whether the plan is for a problem: its tensors, and accesses that they allow.
    pub fn takes(&self, problem: &ScanProblem) -> bool {
        self.check_problem(problem).is_ok()
    }

    /// Builds the kernel that stores the sums, for an architecture. Its parameters are `x` and `y` (outer, along, inner), and, if the
    /// plan has parts, their totals (outer, part, inner) as the first kernel leaves them.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::reduce::scan::{ScanPlan, ScanProblem};
    ///
    /// let problem = ScanProblem::new(Ty::Bf16, [100, 4096, 1])?;
    /// let plan = ScanPlan::fastest(&problem);
    /// let text = plan.build(Arch::Sm80)?.kernel.ptx()?;
    /// assert_eq!(text.matches("ld.global.v4.b32").count() as i64, plan.accesses);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`check`](ScanPlan::check), and the error of the layout algebra, with the line of the kernel.
    pub fn build(&self, arch: Arch) -> Result<TensorKernel, Error> {
        self.check(arch)?;
        let stage = match self.turns {
            0 => ScanStage::Whole,
            _ => ScanStage::Parts,
        };
        let built = self.unverified(arch, stage)?;
        built.kernel.verify()?;
        Ok(built)
    }

    /// Builds the kernel of a stage, for a load, which verifies it.
    pub(crate) fn unverified(&self, arch: Arch, stage: ScanStage) -> Result<TensorKernel, Error> {
        Ok(kernel::build(self, arch, stage)?)
    }
}

/// `cumulative sum of f32, along the inner one, 1 mode outside`
impl fmt::Display for ScanOperands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.exclusive { "exclusive " } else { "" };
        let of = if self.keeps_inner {
            "another mode than"
        } else {
            ""
        };
        let space = if of.is_empty() { "" } else { " " };
        let modes = counted((i64::try_from(self.outer).unwrap_or(i64::MAX), "mode"));
        write!(
            f,
            "{kind}cumulative sum of {}, along {of}{space}the inner one, {modes} outside",
            self.ty
        )
    }
}

/// `cumulative sum f32, vectors of 4, threads 1x128, 1 access, 16 turns in a part`
impl fmt::Display for ScanPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.operands.exclusive {
            "exclusive "
        } else {
            ""
        };
        let accesses = counted((self.accesses, "access"));
        let (ty, vector, rows, along) = (self.operands.ty, self.vector, self.rows, self.along);
        write!(
            f,
            "{kind}cumulative sum {ty}, vectors of {vector}, threads {rows}x{along}, {accesses}"
        )?;
        if self.turns != 0 {
            let turns = counted((self.turns, "turn"));
            write!(f, ", {turns} in a part")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts that the comments above the operands and the plan show.
    #[test]
    fn operands_and_plans_of_sums_are_written_as_their_comments_say() {
        let problem = ScanProblem::new(Ty::F32, [1, 4096, 1]).expect("a problem");
        let operands = problem.operands();
        assert_eq!(
            operands.to_string(),
            "cumulative sum of f32, along the inner one, 1 mode outside"
        );
        let plan = ScanPlan {
            operands,
            vector: 4,
            rows: 1,
            along: 128,
            accesses: 1,
            turns: 16,
        };
        assert_eq!(
            plan.to_string(),
            "cumulative sum f32, vectors of 4, threads 1x128, 1 access, 16 turns in a part"
        );
    }
}
