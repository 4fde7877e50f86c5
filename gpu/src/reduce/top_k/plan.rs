//! `TopKPlan`: how a selection is divided among threads and blocks, and the reasons for it.

use core::fmt;

use colex_atom::{Arch, Ty};
use colex_tensor::TensorKernel;

use super::kernel::{self, TopKStage};
use super::problem::{MOST_K, TopKOperands, TopKProblem, which};
use crate::error::{Error, ReduceError};
use crate::memory_bound::plan::{
    MOST_THREADS, PlanCheck, check_operands, check_width, counted, div_up, power_up, product,
};
use crate::reduce::plan::MOST_BLOCKS;
use crate::reduce::problem::{MOST, TYPES};

/// How a kernel divides a selection among its threads and blocks.
///
/// Each element has a *key*, an integer that is ordered as the elements are, and its index: a larger key comes first, and of equal
/// keys the lower index. No two elements of a row have the same key and index, so that the result does not depend on the plan.
///
/// A block looks for a threshold that at least `k` elements reach, and at most as many as it has `slots`. It counts how
/// many keys have each value of their first `digit` bits, takes the value at which the count reaches `k`, then goes on with the next
/// bits of the keys that have it; and then with the bits of the indices. It stops as soon as the elements fit the slots. Then it stores
/// the elements that reach the threshold in the slots, in shared memory, and sorts them.
///
/// If there are few long rows, several blocks share one: each leaves the elements of its part in memory, not sorted, and a second kernel
/// selects among them.
///
/// ```
/// use colex_atom::{Arch, Ty};
/// use colex_gpu::reduce::top_k::{TopKPlan, TopKProblem};
///
/// let problem = TopKProblem::new(Ty::F32, [4096, 10_000], 50)?;
/// let plan = TopKPlan::fastest(&problem);
/// assert_eq!(
///     plan.to_string(),
///     "largest of f32, vectors of 4, 512 threads, 5 accesses in registers, 64 slots, digits of 11 bits"
/// );
/// plan.check(Arch::Sm80)?;
/// let refused = TopKPlan { slots: 48, ..plan }.check(Arch::Sm80).unwrap_err();
/// assert_eq!(
///     refused.to_string(),
///     "the plan's number of slots is 48: the top-k kernel takes a power of two, 1 to 4096"
/// );
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TopKPlan {
    /// What the kernel knows of its tensors.
    pub operands: TopKOperands,
    /// The elements of an access: a power of two, and at most 16 bytes.
    pub vector: i64,
    /// The threads of a block: a power of two, at least 32.
    pub threads: i64,
    /// The accesses of a thread that are under way at once.
    pub accesses: i64,
    /// Whether the elements of a thread stay in registers, so that they are read once: the accesses cover the row.
    pub held: bool,
    /// The elements that a block sorts: a power of two, at least `k`.
    pub slots: i64,
    /// The bits that one pass over the elements decides; 0 if there is none, and the slots take the whole row.
    pub digit: i64,
    /// The bits of the indices of a row.
    pub index_bits: i64,
    /// The blocks that share a row.
    pub parts: i64,
}

/// The threads of a block by default, the most elements in the registers of a thread, and those of a turn by default.
const THREADS: i64 = 512;
const MOST_ITEMS: i64 = 32;
const ITEMS: i64 = 16;

/// The most accesses of a thread.
const MOST_ACCESSES: i64 = 32;

/// The least slots, and the row up to which all elements are sorted at once.
const LEAST_SLOTS: i64 = 32;
const SORTED: i64 = 256;

/// The blocks up to which rows are divided, and the most parts.
const BLOCKS: i64 = 264;
const MOST_PARTS: i64 = 256;

/// The least and the most bits of a pass.
const LEAST_DIGIT: i64 = 4;
const MOST_DIGIT: i64 = 11;

/// The elements from which on slots beside them cost more time than they save: they are sorted, and those of each part are read again. On an
/// H200, 2048 of 2^20 took 107 us with 2048 slots and 118 with 4096 in `bf16`, and 104 and 122 in `f32`.
const MANY: i64 = 1024;

/// The most bits of an index.
const MOST_INDEX_BITS: i64 = 30;

impl TopKPlan {
    /// Returns the plan of a problem: accesses of 16 bytes where the tensor allows them, a row in the registers of its block if they
    /// hold it, and as many parts as fill a GPU if there are few long rows.
    pub fn fastest(problem: &TopKProblem) -> TopKPlan {
        let operands = problem.operands();
        let extent = problem.along.extent;
        // A few slots more than elements end the search early.
        let roomy = power_up(problem.k + problem.k / 4).clamp(LEAST_SLOTS, MOST_K);
        let slots = if extent <= SORTED {
            power_up(extent).max(LEAST_SLOTS)
        } else if problem.k >= MANY {
            power_up(problem.k)
        } else {
            roomy
        };
        let vector = operands.vector;
        let plan = TopKPlan {
            operands,
            vector,
            threads: 32,
            accesses: 1,
            held: false,
            slots,
            digit: 0,
            index_bits: bits(extent),
            parts: 1,
        }
        .covering(extent, MOST_ITEMS);
        let wanted = (BLOCKS / problem.selections()).min(MOST_PARTS);
        // A part leaves as many candidates as there are slots: as many parts as make both kernels read the same.
        let balanced = power_up((extent / roomy.max(slots)).isqrt());
        let parts = wanted.min(balanced).min(div_up(extent, plan.chunk()));
        if plan.held || parts < 2 {
            return plan;
        }
        TopKPlan { parts, ..plan }
    }

    /// The same plan with the threads, accesses and digits for a row of this extent, which stays in registers if a thread has at most
    /// `items` elements.
    fn covering(self, extent: i64, items: i64) -> TopKPlan {
        let vectors = div_up(extent, self.vector);
        // The slots are sorted by one thread for each pair.
        let least = (self.slots / 2).clamp(32, THREADS);
        let threads = power_up(div_up(vectors, (4 / self.vector).max(1))).clamp(32, THREADS);
        let threads = threads.max(least);
        let all = div_up(vectors, threads);
        let held = all * self.vector <= items;
        let accesses = if held { all } else { ITEMS / self.vector };
        let digit = match extent {
            _ if extent <= self.slots => 0,
            ..=4096 => 8,
            _ => MOST_DIGIT,
        };
        TopKPlan {
            threads,
            accesses,
            held,
            digit,
            ..self
        }
    }

    /// The plan of the kernel that selects among the candidates of the parts.
    pub(crate) fn second(&self) -> TopKPlan {
        let candidates = self.parts.saturating_mul(self.slots);
        let plan = TopKPlan {
            // One slot for each of an odd number of parts allows no pairs.
            vector: self.slots.clamp(1, 2),
            parts: 1,
            ..*self
        };
        // A candidate takes two registers.
        plan.covering(candidates, ITEMS)
    }

    /// Returns the elements that the threads of a block read at once.
    pub(crate) fn chunk(&self) -> i64 {
        product([self.threads, self.vector, self.accesses])
    }

    /// Returns the bytes of memory for the candidates of the parts.
    pub fn workspace(&self, problem: &TopKProblem) -> i64 {
        match self.parts {
            ..2 => 0,
            parts => (problem.selections().saturating_mul(parts))
                .saturating_mul(self.slots)
                .saturating_mul(8),
        }
    }

    /// Returns the bytes that the kernels move for a problem, the most that they may: an element is read in every pass, unless it
    /// stays in a register, and so is a candidate. A search that ends early reads less.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::reduce::top_k::{TopKPlan, TopKProblem};
    ///
    /// let problem = TopKProblem::new(Ty::F32, [4096, 10_000], 50)?;
    /// let plan = TopKPlan::fastest(&problem);
    /// assert!(plan.held);
    /// // The values of the results are read once more.
    /// assert_eq!(plan.bytes(&problem), problem.compulsory_bytes() + 4096 * 50 * 4);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn bytes(&self, problem: &TopKProblem) -> i64 {
        let element = i64::from(problem.ty.bits()) / 8;
        let read = problem.read_bytes();
        let again = (problem.selections()).saturating_mul(problem.k * element);
        let reads = |plan: &TopKPlan| {
            if plan.held {
                1
            } else {
                plan.passes().len() as i64 + 1
            }
        };
        let mut moved = problem
            .compulsory_bytes()
            .saturating_add(again)
            .saturating_add(read.saturating_mul(reads(self) - 1));
        if self.parts > 1 {
            let candidates = self.workspace(problem);
            let all = candidates.saturating_mul(1 + reads(&self.second()));
            moved = moved.saturating_add(all);
        }
        moved
    }

    /// Says in sentences how the plan divides a problem.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::reduce::top_k::{TopKPlan, TopKProblem};
    ///
    /// let problem = TopKProblem::new(Ty::Bf16, [4096, 1000], 8)?;
    /// assert_eq!(
    ///     TopKPlan::fastest(&problem).explain(&problem),
    ///     "8 largest of 1000 bf16, 4096 times
    /// An access takes 8 elements, 16 bytes: addresses, strides and extents allow 8.
    /// 128 threads and 1 access make 1024 elements, which stay in registers: the row has 1000, in 1 turn.
    /// At most 4 passes of 8 bits leave at most 32 elements, which the block sorts.
    /// The launch has 4096 blocks of 128 threads; no two of them share a row.
    /// 8454144 bytes are moved at most, and 8388608 must be."
    /// );
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn explain(&self, problem: &TopKProblem) -> String {
        let bytes = self
            .vector
            .saturating_mul(i64::from(self.operands.ty.bits()))
            / 8;
        let (allowed, extent, chunk) = (self.operands.vector, problem.along.extent, self.chunk());
        let passes = self.passes().len() as i64;
        let (digit, slots, parts) = (self.digit, self.slots, self.parts);
        let blocks = problem.selections().saturating_mul(parts);
        let [elements, threads, accesses, turns, passes, blocks] = [
            (self.vector, "element"),
            (self.threads, "thread"),
            (self.accesses, "access"),
            (div_up(extent, chunk), "turn"),
            (passes, "pass"),
            (blocks, "block"),
        ]
        .map(counted);
        let stay = if self.held {
            ", which stay in registers"
        } else {
            ""
        };
        let search = if digit == 0 {
            format!("The block sorts the row in {slots} slots.")
        } else {
            format!(
                "At most {passes} of {digit} bits leave at most {slots} elements, which the block sorts."
            )
        };
        let launch = match parts {
            ..2 => format!("The launch has {blocks} of {threads}; no two of them share a row."),
            _ => format!(
                "{parts} blocks share a row, and a second kernel selects among their candidates; the first launch has {blocks} of \
                 {threads}."
            ),
        };
        let [moved, must] = [self.bytes(problem), problem.compulsory_bytes()];
        format!(
            "{problem}\n\
             An access takes {elements}, {bytes} bytes: addresses, strides and extents allow {allowed}.\n\
             {threads} and {accesses} make {chunk} elements{stay}: the row has {extent}, in {turns}.\n\
             {search}\n\
             {launch}\n\
             {moved} bytes are moved at most, and {must} must be."
        )
    }

    /// Returns the passes of the search in their order.
    pub(crate) fn passes(&self) -> Vec<TopKPass> {
        if self.digit < 1 {
            return Vec::new();
        }
        let split = |of_index: bool, from: i64, to: i64| {
            let mut passes = Vec::new();
            let mut high = from;
            while high > to {
                let width = self.digit.min(high - to);
                high -= width;
                passes.push(TopKPass {
                    of_index,
                    shift: high,
                    width,
                });
            }
            passes
        };
        // Floats of 16 bits have no lower bits in f32.
        let lowest = match self.operands.ty {
            Ty::Bf16 => 16,
            Ty::F16 => 13,
            _ => 0,
        };
        let mut passes = split(false, 32, lowest);
        passes.extend(split(true, self.index_bits.min(MOST_INDEX_BITS), 0));
        passes
    }

    /// Checks that the kernel can be built: every number.
    ///
    /// # Errors
    ///
    /// Returns an error that names the number, and what the kernel takes.
    pub fn check(&self, _: Arch) -> Result<(), Error> {
        let operands = &self.operands;
        let check = self.plan_check();
        if !TYPES.contains(&operands.ty) {
            let (function, ty) = ("top-k".to_string(), operands.ty);
            return Err(ReduceError::Type { function, ty }.into());
        }
        if !matches!(operands.index, Ty::S32 | Ty::S64) {
            return check.refuse("the indices are of s32 or s64");
        }
        if !(1..=16).contains(&operands.outer) {
            return check.refuse("a kernel has 1 to 16 outer modes");
        }
        let must = "accesses of several elements need a mode with the stride 1";
        check.access((self.vector, operands.ty), operands.contiguous, must)?;
        check.power("number of threads of a block", self.threads, MOST_THREADS)?;
        check.block(self.threads)?;
        let most = MOST_ACCESSES.min(MOST_ITEMS / self.vector);
        check.number("number of accesses", self.accesses, [1, most, 1])?;
        check.power("number of slots", self.slots, MOST_K)?;
        if self.digit != 0 {
            let of = [LEAST_DIGIT, MOST_DIGIT, 1];
            check.number("number of bits of a pass", self.digit, of)?;
        }
        let of = [0, MOST_INDEX_BITS, 1];
        check.number("number of bits of an index", self.index_bits, of)?;
        check.number("number of parts", self.parts, [1, MOST_PARTS, 1])?;
        if self.parts > 1 && self.held {
            return check.refuse("the parts of a row stay in no registers");
        }
        if self.parts > 1 && self.digit == 0 {
            return check.refuse("the parts of a row are searched in passes of at least 4 bits");
        }
        Ok(())
    }

    fn plan_check(&self) -> PlanCheck<'_> {
        PlanCheck {
            kernel: &"top-k",
            operands: &self.operands,
        }
    }

    /// Checks that the plan is for a problem.
    ///
    /// # Errors
    ///
    /// Returns an error if tensors, types or modes are others, if the plan's accesses are wider than the tensor allows, if the slots,
    /// the registers or the bits of the indices do not cover what they must, or if the launch has too many blocks.
    pub(crate) fn check_problem(&self, problem: &TopKProblem) -> Result<(), Error> {
        let call = problem.operands();
        let like = TopKOperands {
            vector: call.vector,
            contiguous: call.contiguous,
            ..self.operands
        };
        check_operands(&self.operands, &like, &call)?;
        let plan = (self.vector, self.operands.contiguous);
        check_width(plan, (call.vector, call.contiguous), "extents")?;
        let extent = problem.along.extent;
        let slots = if self.digit == 0 { extent } else { problem.k };
        let chunk = if self.held { extent } else { 1 };
        for (what, found, least) in [
            ("slots", self.slots, slots),
            ("elements in registers", self.chunk(), chunk),
            ("bits of an index", self.index_bits, bits(extent)),
        ] {
            if found < least {
                return Err(ReduceError::Covers { what, found, least }.into());
            }
        }
        let blocks = problem.selections().saturating_mul(self.parts);
        self.plan_check().limit("blocks", blocks, MOST_BLOCKS)
    }

    /// Returns whether the plan is for a problem: its tensors, accesses that they allow, and enough slots.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::reduce::top_k::{TopKPlan, TopKProblem};
    ///
    /// let of = |k| TopKProblem::new(Ty::F32, [64, 1000], k);
    /// let plan = TopKPlan::fastest(&of(50)?);
    /// assert_eq!(plan.slots, 64);
    /// assert!(plan.takes(&of(64)?) && !plan.takes(&of(65)?));
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn takes(&self, problem: &TopKProblem) -> bool {
        self.check_problem(problem).is_ok()
    }

    /// Builds the kernel for an architecture: that of the first launch, if there are parts. Its parameters are `x` (outer, along),
    /// and the `values` and `indices` (outer, selected) or, if there are parts, the
    /// `candidates` (outer, candidate) of `s64` and the number of elements that are selected.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::reduce::top_k::{TopKPlan, TopKProblem};
    ///
    /// let problem = TopKProblem::new(Ty::Bf16, [100, 4096], 8)?;
    /// let plan = TopKPlan::fastest(&problem);
    /// let text = plan.build(Arch::Sm80)?.kernel.ptx()?;
    /// assert_eq!(text.matches("ld.global.v4.b32").count() as i64, plan.accesses);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`check`](TopKPlan::check), and the error of the layout algebra, with the line of the kernel.
    pub fn build(&self, arch: Arch) -> Result<TensorKernel, Error> {
        self.check(arch)?;
        let stage = match self.parts {
            1 => TopKStage::Whole,
            _ => TopKStage::Part,
        };
        let built = self.unverified(arch, stage)?;
        built.kernel.verify()?;
        Ok(built)
    }

    /// Builds the kernel of a stage, for a load, which verifies it.
    pub(crate) fn unverified(&self, arch: Arch, stage: TopKStage) -> Result<TensorKernel, Error> {
        Ok(kernel::build(self, arch, stage)?)
    }

    /// The most blocks for which the kernel counts.
    pub(crate) fn most_blocks(&self) -> i64 {
        MOST.saturating_mul(self.parts).min(MOST_BLOCKS)
    }
}

/// A pass of the search: some bits of the keys, or of the indices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopKPass {
    pub(crate) of_index: bool,
    /// The lowest bit, and the number of bits.
    pub(crate) shift: i64,
    pub(crate) width: i64,
}

/// The bits of the indices of `extent` elements.
fn bits(extent: i64) -> i64 {
    i64::from(64 - (extent.max(1) - 1).leading_zeros())
}

/// `largest of f32, vectors of 4, 512 threads, 5 accesses in registers, 64 slots, digits of 11 bits, 8 parts`
impl fmt::Display for TopKPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TopKOperands { ty, smallest, .. } = self.operands;
        let [threads, accesses, slots] = [
            (self.threads, "thread"),
            (self.accesses, "access"),
            (self.slots, "slot"),
        ]
        .map(counted);
        let held = if self.held { " in registers" } else { "" };
        let (which, vector) = (which(smallest), self.vector);
        write!(
            f,
            "{which} of {ty}, vectors of {vector}, {threads}, {accesses}{held}, {slots}"
        )?;
        if self.digit != 0 {
            write!(f, ", digits of {} bits", self.digit)?;
        }
        if self.parts > 1 {
            write!(f, ", {} parts", self.parts)?;
        }
        Ok(())
    }
}
