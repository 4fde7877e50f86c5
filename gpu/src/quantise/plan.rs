//! `QuantisePlan`: how rows are divided among threads, and the reasons for it.

use core::fmt;

use colex_atom::Arch;
use colex_ir::launch::Limits;
use colex_tensor::TensorKernel;

use super::kernel;
use super::problem::{
    MOST_MODES, MOST_RUN, QuantiseOperands, QuantiseProblem, check_source, check_target,
};
use crate::error::{Error, QuantiseError};
use crate::memory_bound::plan::{
    MOST_GRID, MOST_THREADS, PlanCheck, WARP, WIDEST, check_operands, check_width, counted, div_up,
    has_clusters, product,
};

/// How a kernel divides rows among its threads.
///
/// ```
/// use colex_atom::{Arch, Ty};
/// use colex_gpu::Device;
/// use colex_gpu::quantise::{Quantise, QuantisePlan};
/// use half::bf16;
///
/// let device = Device::simulator(Arch::Sm90a);
/// let (x, mut q) = (device.zeros::<bf16>(4096)?, device.zeros::<u8>(4096)?);
/// let mut scales = device.zeros::<f32>(32)?;
/// let (x, q) = (x.view((4, 1024))?, q.view_mut((4, 1024))?);
/// let call = Quantise::new(Ty::E4m3, &x, &q).blocks(128, &scales.view_mut((4, 8))?).prepare()?;
/// let plan = *call.plan().expect("there are elements");
/// assert_eq!(plan.to_string(), "vectors of 8, 8 threads for a row, 16 rows in a block, 2 accesses, rows in registers");
/// let refused = QuantisePlan { threads: 48, ..plan }.check(Arch::Sm90a).unwrap_err();
/// assert_eq!(
///     refused.to_string(),
///     "the plan's number of threads of a row is 48: the quantisation kernel takes a power of two, 1 to 1024"
/// );
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuantisePlan {
    /// What the kernel knows of its tensors.
    pub operands: QuantiseOperands,
    /// The elements of an access: 1, 4 or 8, and at most 16 bytes.
    pub vector: i64,
    /// The threads of a block that share a row: a power of two.
    pub threads: i64,
    /// The rows of a block: a power of two.
    pub rows: i64,
    /// The accesses of a thread that are under way at once; of rows staged in shared memory, the elements that a thread has of a row.
    pub accesses: i64,
    /// The blocks of a cluster that share a row: 1, 2, 4 or 8. They take its turns together, and exchange their largest sizes through
    /// distributed shared memory. Several need clusters, which architectures have since sm_90, and one row in a block.
    pub blocks: i64,
    /// The turns of a row whose elements shared memory keeps, the first ones; registers keep those of the last turn. A thread stores its own
    /// elements there and reads no others.
    pub kept: i64,
    /// Where the accesses to a row begin.
    pub access: QuantiseAccess,
    /// Whether registers and shared memory hold a whole row. Otherwise the turns between those of shared memory and the last one are read
    /// again for the results, the last ones first.
    pub held: bool,
}

/// Where the accesses to a row begin.
///
/// ```
/// use colex_atom::{Arch, Ty};
/// use colex_gpu::Device;
/// use colex_gpu::quantise::{Quantise, QuantiseAccess};
/// use half::bf16;
///
/// let device = Device::simulator(Arch::Sm90a);
/// let (x, mut q) = (device.zeros::<bf16>(3000)?, device.zeros::<u8>(3000)?);
/// let mut scales = device.zeros::<f32>(1000)?;
/// let mut access = |columns: i64| {
///     let (x, q) = (x.view((3, columns))?, q.view_mut((3, columns))?);
///     let call = Quantise::new(Ty::E4m3, &x, &q).rows(&scales.view_mut(3)?).prepare()?;
///     Ok::<_, colex_gpu::Error>(call.plan().expect("there are elements").access)
/// };
/// assert_eq!(access(1000)?, QuantiseAccess::Rows); // 8 divides 1000
/// assert_eq!(access(999)?, QuantiseAccess::Shifted);
/// assert_eq!(access(33)?, QuantiseAccess::Staged);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuantiseAccess {
    /// With the first column of the row. The vector divides the columns and the strides of the rows.
    Rows,
    /// At multiples of the vector in memory, wherever a row begins. Rows lie one after the other without gaps. So an element of x and its
    /// number in q are equally far behind such a multiple, and one shift serves both. The row is peeled: threads take the
    /// vectors inside of it, and single elements at both ends.
    Shifted,
    /// With the first of the rows of a block. Rows lie one after the other without gaps, so those of a block are one span of elements, which
    /// it copies to shared memory by vectors. There, each thread takes single elements of a row. The numbers go back through shared memory.
    /// Of short rows, whose threads are lanes of one warp.
    Staged,
}

/// The bytes of a row that a thread has in registers, preferred, preferred of a shifted row, and at most. On an H200, rows of 4097 `bf16` were
/// at 1.01 and 1.03 of a copy by 128 threads with 64 bytes each, and at 0.92 by 256 threads with 32.
const PREFERRED: i64 = 32;
const SHIFTED_PREFERRED: i64 = 64;
const HELD: i64 = 128;

/// Rows whose length is not a multiple of the vector: the columns from which on they are peeled, and below which rows are staged; the elements that a thread
/// has of a staged row by default, and the threads of such a block. Those of the rows of a log-softmax are the same
/// (`rowwise/plan.rs`), and were not measured here.
const SHIFTED_COLUMNS: i64 = 256;
const STAGED: i64 = 40;
const STAGED_THREADS: i64 = 64;

/// The blocks of a row beyond the registers of one block, the fewest first, and the bytes of such a row that a thread prefers.
const CLUSTERS: [i64; 3] = [2, 4, 8];
const CLUSTER_PREFERRED: i64 = 64;

/// The bytes of a turn in shared memory that leave a multiprocessor room for two blocks of 512 threads, and the most of one of 1024.
const KEPT_BESIDE: i64 = 96 << 10;
const KEPT_ALONE: i64 = 208 << 10;

/// The turns that shared memory keeps of a row that is read again, and the most turns.
const PASS_KEPT: i64 = 3;
const MOST_KEPT: i64 = 64;

/// The bytes of shared memory that the largest sizes of the warps take, and alignments.
const RESERVED: i64 = 1024;

/// The threads of a multiprocessor of which each has as many registers as a long row needs.
const RESIDENT: i64 = 1024;

/// The most elements that a thread has in registers; accesses of one element hold each apart.
const MOST_ELEMENTS: i64 = 64;
const MOST_SINGLE: i64 = 32;

/// The threads of a block of several rows.
const THREADS: i64 = 128;

/// The most threads of a row in registers, and those of a row in passes.
const HELD_THREADS: i64 = 512;

/// The accesses of a thread that reads a row in passes.
const PASS_ACCESSES: i64 = 4;

impl QuantisePlan {
    /// Returns the plan that reads each row once where the chip holds it.
    ///
    /// - The registers of a block hold rows of up to 64 KiB: 32 bytes for each thread, or more where the threads of a block are too few.
    /// - Rows whose length is not a multiple of the vector, and that lie one after the other, are peeled ([`QuantiseAccess::Shifted`]) from
    ///   256 columns on; shorter ones are staged in shared memory ([`QuantiseAccess::Staged`]).
    /// - On Hopper, longer rows are divided among the blocks of a cluster: the fewest of 2, 4 and 8 whose threads have 64 bytes each in
    ///   registers and as many in shared memory, or 8 whose threads have up to 128 bytes of both. Eight blocks of 1024 threads hold 2 MiB so.
    /// - Longer ones are read again, and found in the caches in part. A cluster of 8 blocks reads them on Hopper, and one block elsewhere.
    ///
    /// # Errors
    ///
    /// Returns an error if no kernel takes the types.
    pub fn fastest(problem: &QuantiseProblem, arch: Arch) -> Result<QuantisePlan, Error> {
        let operands = problem.operands();
        let plan = QuantisePlan {
            operands,
            vector: operands.vector,
            threads: 1,
            rows: 1,
            accesses: 1,
            blocks: 1,
            kept: 0,
            access: QuantiseAccess::Rows,
            held: true,
        };
        let columns = problem.columns();
        let widest = WIDEST / plan.size();
        if plan.vector == 1 && problem.run() == widest {
            let plan = QuantisePlan {
                vector: widest,
                ..plan
            };
            if columns < SHIFTED_COLUMNS {
                return Ok(plan.staged(columns));
            }
            let access = QuantiseAccess::Shifted;
            // Fewer elements than a vector are left at the ends, or there is one vector less inside.
            return Ok(QuantisePlan { access, ..plan }.of_vectors(columns / widest, arch));
        }
        Ok(plan.of_vectors(div_up(columns, plan.vector), arch))
    }

    /// The plan of short rows that a block stages in shared memory.
    fn staged(self, columns: i64) -> QuantisePlan {
        let mut threads = (0..).map(|log| 1 << log);
        let threads = threads.find(|threads| div_up(columns, *threads) <= STAGED);
        let threads = threads.expect("staged rows are short");
        QuantisePlan {
            threads,
            rows: (STAGED_THREADS / threads).max(self.vector),
            accesses: div_up(columns, threads),
            access: QuantiseAccess::Staged,
            ..self
        }
    }

    /// The plan of rows of this number of vectors.
    fn of_vectors(self, vectors: i64, arch: Arch) -> QuantisePlan {
        let bytes = self.size() * self.vector;
        let preferred = match self.access {
            QuantiseAccess::Shifted => SHIFTED_PREFERRED,
            QuantiseAccess::Rows | QuantiseAccess::Staged => PREFERRED,
        };
        let preferred = (preferred / bytes).clamp(1, self.most_accesses());
        let threads = (0..).map(|log| 1_i64 << log);
        let mut threads = threads.take_while(|threads| *threads <= HELD_THREADS);
        let least = self.least_threads();
        let short = threads.find(|threads| *threads >= least && threads * preferred >= vectors);
        let of_threads = |threads: i64| QuantisePlan {
            threads,
            accesses: div_up(vectors, threads),
            rows: (THREADS / threads).max(1),
            ..self
        };
        match short {
            Some(threads) => of_threads(threads),
            None if div_up(vectors, HELD_THREADS) <= self.most_accesses() => {
                of_threads(HELD_THREADS)
            }
            None if has_clusters(arch) => self.of_cluster(vectors),
            None => QuantisePlan {
                threads: HELD_THREADS,
                accesses: PASS_ACCESSES.min(self.most_accesses()),
                held: false,
                ..self
            },
        }
    }

    /// The plan of long rows that the blocks of a cluster share.
    fn of_cluster(self, vectors: i64) -> QuantisePlan {
        let (bytes, most) = (self.size() * self.vector, self.most_accesses());
        let of = |blocks: i64, threads: i64, kept: i64| QuantisePlan {
            threads,
            blocks,
            kept,
            accesses: div_up(div_up(vectors, blocks * threads), kept + 1),
            ..self
        };
        // Half of a row in shared memory and half the blocks were faster than registers alone on an H200: rows of 65536 `bf16` at 0.925 and 1.00
        // of a copy by two blocks, and at 0.73 and 0.72 by four. Single elements have no shared memory.
        let kept = i64::from(self.vector > 1);
        let spread = CLUSTERS.map(|blocks| of(blocks, HELD_THREADS, kept));
        let is_preferred = |plan: &&QuantisePlan| plan.accesses * bytes <= CLUSTER_PREFERRED;
        if let Some(plan) = spread.iter().find(is_preferred) {
            return *plan;
        }
        let [.., blocks] = CLUSTERS;
        // Single elements have no shared memory.
        let turns = if self.vector == 1 { 0..1 } else { 0..3 };
        let all = [(HELD_THREADS, KEPT_BESIDE), (MOST_THREADS, KEPT_ALONE)];
        let mut all = all.iter().flat_map(|(threads, shared)| {
            let plans = turns.clone().map(|kept| of(blocks, *threads, kept));
            plans.filter(|plan| plan.accesses <= most && plan.kept_bytes() <= *shared)
        });
        all.next().unwrap_or(QuantisePlan {
            threads: HELD_THREADS,
            blocks,
            accesses: PASS_ACCESSES.min(most),
            kept: if self.vector == 1 { 0 } else { PASS_KEPT },
            held: false,
            ..self
        })
    }

    /// The bytes of a number.
    fn size(&self) -> i64 {
        i64::from(self.operands.from.bits()) / 8
    }

    /// The threads that a row needs: where vectors are shifted, one for each single element at both ends.
    fn least_threads(&self) -> i64 {
        match self.access {
            QuantiseAccess::Shifted => product([2, self.vector]),
            QuantiseAccess::Rows | QuantiseAccess::Staged => 1,
        }
    }

    /// The most accesses whose elements fit into the registers of a thread.
    fn most_accesses(&self) -> i64 {
        let size = self.size();
        let most = if self.vector == 1 {
            MOST_SINGLE
        } else {
            MOST_ELEMENTS
        };
        (HELD / size).min(most) / self.vector.max(1)
    }

    /// Returns the columns that a block has at once.
    pub(crate) fn chunk(&self) -> i64 {
        match self.access {
            QuantiseAccess::Staged => product([self.threads, self.accesses]),
            QuantiseAccess::Rows | QuantiseAccess::Shifted => {
                product([self.threads, self.vector, self.accesses])
            }
        }
    }

    /// Returns the columns that the blocks of a row have at once.
    pub(crate) fn turn(&self) -> i64 {
        product([self.chunk(), self.blocks])
    }

    /// Returns the columns for which registers and shared memory have room.
    fn capacity(&self) -> i64 {
        let all = product([self.turn(), self.kept.saturating_add(1)]);
        match self.access {
            // Fewer elements than a vector are left at the ends, or there is one vector less inside.
            QuantiseAccess::Shifted => all.saturating_add(self.vector.saturating_sub(1)),
            QuantiseAccess::Rows | QuantiseAccess::Staged => all,
        }
    }

    /// Returns the turns of a row that are not in shared memory, less the last one, which is in registers: they are read again.
    pub(crate) fn turns_again(&self, columns: i64) -> i64 {
        if self.held {
            return 0;
        }
        let columns = match self.access {
            QuantiseAccess::Shifted => columns - columns % self.vector.max(1),
            QuantiseAccess::Rows | QuantiseAccess::Staged => columns,
        };
        let turns = div_up(columns, self.turn());
        turns.saturating_sub(self.kept.saturating_add(1)).max(0)
    }

    /// Returns the threads of a block.
    pub(crate) fn threads_of_block(&self) -> i64 {
        product([self.threads, self.rows])
    }

    /// Returns the vectors of each thread that a block with staged rows copies.
    pub(crate) fn staged_vectors(&self) -> i64 {
        div_up(self.accesses, self.vector)
    }

    /// Returns the elements of shared memory for the rows of a block with staged rows.
    pub(crate) fn span(&self) -> i64 {
        product([self.staged_vectors(), self.threads_of_block(), self.vector])
    }

    /// Returns the bytes of shared memory for the turns that a block keeps.
    fn kept_bytes(&self) -> i64 {
        product([self.kept, self.chunk(), self.rows, self.size()])
    }

    /// Returns the blocks for which a multiprocessor has registers, of a plan whose threads have many: 64 for each thread. `None` if the
    /// assembler needs no such bound.
    pub(crate) fn beside(&self) -> Option<i64> {
        let is_new = self.blocks > 1 || self.access == QuantiseAccess::Shifted;
        let is_many = product([self.accesses, self.vector]) > MOST_SINGLE;
        (is_new && is_many).then(|| (RESIDENT / self.threads_of_block()).max(1))
    }

    /// Returns the bytes that the kernel moves between memory and registers for a problem.
    pub fn bytes(&self, problem: &QuantiseProblem) -> i64 {
        let again = product([
            self.turns_again(problem.columns()),
            self.turn(),
            self.size(),
        ]);
        let again = problem.rows().saturating_mul(again);
        problem.compulsory_bytes().saturating_add(again)
    }

    /// Says in sentences how the plan divides a problem.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::Device;
    /// use colex_gpu::quantise::Quantise;
    ///
    /// let device = Device::simulator(Arch::Sm90a);
    /// let (x, mut q) = (device.zeros::<f32>(4000)?, device.zeros::<i8>(4000)?);
    /// let mut scales = device.zeros::<f32>(4)?;
    /// let (x, q) = (x.view((4, 1000))?, q.view_mut((4, 1000))?);
    /// let call = Quantise::new(Ty::S8, &x, &q).rows(&scales.view_mut(4)?).prepare()?;
    /// let (plan, problem) = (call.plan().expect("elements"), call.problem().expect("elements"));
    /// assert_eq!(
    ///     plan.explain(problem),
    ///     "quantisation of f32 to s8, 4 rows of 1000
    /// An access takes 4 elements, 16 bytes: addresses, strides and columns allow 4.
    /// 128 threads and 2 accesses make 1024 columns, and a row has 1000.
    /// A block of 128 threads has 1 row; the launch has 4 blocks.
    /// Rows stay in registers: 20016 bytes are moved, and 20016 must be."
    /// );
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn explain(&self, problem: &QuantiseProblem) -> String {
        let QuantisePlan {
            vector,
            threads,
            rows,
            ..
        } = *self;
        let bytes = vector.saturating_mul(i64::from(self.operands.from.bits())) / 8;
        let (allowed, columns) = (self.operands.vector, problem.columns());
        let [moved, must] = [self.bytes(problem), problem.compulsory_bytes()];
        let [elements, sharing, of_block, of_rows, grid, accesses] = [
            (vector, "element"),
            (threads, "thread"),
            (threads.saturating_mul(rows), "thread"),
            (rows, "row"),
            (self.grid(problem), "block"),
            (self.accesses, self.access_name()),
        ]
        .map(counted);
        let turns = div_up(columns, self.turn());
        let chunks = match turns {
            1 => String::new(),
            turns => format!(", in {}", counted((turns, "turn"))),
        };
        let access = match self.access {
            QuantiseAccess::Rows => format!(
                "An access takes {elements}, {bytes} bytes: addresses, strides and columns allow {allowed}."
            ),
            QuantiseAccess::Shifted => format!(
                "An access takes {elements}, {bytes} bytes, at a multiple of them in memory; at both ends of a row, single elements are left."
            ),
            QuantiseAccess::Staged => format!(
                "An access takes {elements}, {bytes} bytes, of all rows of a block; in shared memory, a thread takes single elements of a row."
            ),
        };
        let together = match self.blocks {
            1 => String::new(),
            blocks => format!(", in each of {blocks} blocks,"),
        };
        let cluster = match self.blocks {
            1 => String::new(),
            blocks => format!(", in clusters of {blocks}"),
        };
        let shared = counted((self.kept_bytes(), "byte"));
        let (again, kept) = (self.turns_again(columns), counted((self.kept, "turn")));
        let how = match (self.access, self.kept) {
            (QuantiseAccess::Staged, _) => "Rows stay in shared memory".to_string(),
            (_, 0) if self.held => "Rows stay in registers".to_string(),
            (_, 0) => format!(
                "Registers keep the last turn, and {} read twice",
                match again {
                    1 => "1 turn is".to_string(),
                    again => format!("{again} turns are"),
                }
            ),
            _ if self.held => {
                format!(
                    "Rows stay in registers and shared memory, {kept} there, {shared} of each block"
                )
            }
            _ => format!(
                "Registers keep the last turn, shared memory {kept}, {shared} of each block, and {} read twice",
                match again {
                    1 => "1 turn is".to_string(),
                    again => format!("{again} turns are"),
                }
            ),
        };
        let turn = self.turn();
        format!(
            "{problem}\n\
             {access}\n\
             {sharing} and {accesses}{together} make {turn} columns, and a row has {columns}{chunks}.\n\
             A block of {of_block} has {of_rows}; the launch has {grid}{cluster}.\n\
             {how}: {moved} bytes are moved, and {must} must be."
        )
    }

    /// Returns the blocks of a launch.
    pub(crate) fn grid(&self, problem: &QuantiseProblem) -> i64 {
        product([div_up(problem.rows(), self.rows), self.blocks])
    }

    /// What the number of accesses counts.
    fn access_name(&self) -> &'static str {
        match self.access {
            QuantiseAccess::Staged => "element",
            QuantiseAccess::Rows | QuantiseAccess::Shifted => "access",
        }
    }

    /// Checks that the kernel can be built: every number.
    ///
    /// # Errors
    ///
    /// Returns an error that names the number, and what the kernel takes.
    pub fn check(&self, arch: Arch) -> Result<(), Error> {
        let operands = &self.operands;
        check_source(operands.from)?;
        check_target(operands.to)?;
        let check = self.plan_check();
        let modes = i64::try_from(operands.modes).unwrap_or(i64::MAX);
        let of = [1, MOST_MODES as i64, 1];
        check.number("number of modes of the rows", modes, of)?;
        let must = "accesses of several elements need columns with the stride 1";
        // Two bytes have no place of their own in a register.
        let most = WIDEST * 8 / i64::from(operands.from.bits());
        let widths = [1, 4, 8].into_iter().filter(|width| *width <= most);
        check.one_of("vector", self.vector, widths.collect())?;
        check.access((self.vector, operands.from), operands.contiguous, must)?;
        check.power("number of threads of a row", self.threads, MOST_THREADS)?;
        let others = MOST_THREADS / self.threads;
        check.power("number of rows of a block", self.rows, others)?;
        let clusters = if has_clusters(arch) { 8 } else { 1 };
        check.power("number of blocks of a row", self.blocks, clusters)?;
        if self.blocks > 1 {
            let what = "number of rows of a block of a cluster";
            check.number(what, self.rows, [1, 1, 1])?;
            let what = "number of threads of a block of a cluster";
            check.number(what, self.threads, [WARP, MOST_THREADS, WARP])?;
        }
        let most = match self.access {
            QuantiseAccess::Staged => MOST_ELEMENTS,
            QuantiseAccess::Rows | QuantiseAccess::Shifted => self.most_accesses(),
        };
        check.number("number of accesses", self.accesses, [1, most, 1])?;
        let most_kept = match self.access {
            QuantiseAccess::Rows | QuantiseAccess::Shifted if self.vector > 1 => MOST_KEPT,
            _ => 0,
        };
        let what = "number of turns that shared memory keeps";
        check.number(what, self.kept, [0, most_kept, 1])?;
        let shared = i64::from(Limits::of(arch).shared);
        // Warps of one block that share a row exchange a number of each thread.
        let totals = match self.blocks {
            1 if self.threads > WARP => product([4, self.threads_of_block()]),
            _ => 0,
        };
        let kept = self.kept_bytes().saturating_add(RESERVED);
        let kept = kept.saturating_add(totals);
        check.limit("bytes of shared memory for a row", kept, shared)?;
        match self.access {
            QuantiseAccess::Rows => {}
            QuantiseAccess::Shifted => {
                if !operands.contiguous {
                    return check.refuse("shifted rows need columns with the stride 1");
                }
                let of = [self.least_threads(), MOST_THREADS, 1];
                check.number("number of threads of a shifted row", self.threads, of)?;
            }
            QuantiseAccess::Staged => self.check_staged(&check, shared)?,
        }
        check.block(self.threads_of_block())
    }

    /// Checks what a plan needs whose blocks copy whole rows to shared memory.
    fn check_staged(&self, check: &PlanCheck<'_>, shared: i64) -> Result<(), Error> {
        if !self.operands.contiguous || !self.held {
            return check.refuse("staged rows are held, and their columns have the stride 1");
        }
        check.number("number of blocks of a staged row", self.blocks, [1, 1, 1])?;
        let what = "number of threads of a staged row";
        check.number(what, self.threads, [1, WARP, 1])?;
        // A span of rows begins with a vector.
        let what = "number of rows of a block of staged rows";
        check.number(what, self.rows, [self.vector, MOST_THREADS, 1])?;
        // The elements, and a byte for each number.
        let bytes = product([self.span(), self.size() + 1]).saturating_add(RESERVED);
        check.limit("bytes of shared memory for rows", bytes, shared)
    }

    /// Checks that the plan is for a problem.
    pub(crate) fn check_problem(&self, problem: &QuantiseProblem) -> Result<(), Error> {
        let call = problem.operands();
        let like = QuantiseOperands {
            vector: call.vector,
            contiguous: call.contiguous,
            ..self.operands
        };
        check_operands(&self.operands, &like, &call)?;
        let how = match self.access {
            QuantiseAccess::Rows => {
                let plan = (self.vector, self.operands.contiguous);
                check_width(plan, (call.vector, call.contiguous), "columns")?;
                None
            }
            QuantiseAccess::Shifted => Some("shifted"),
            QuantiseAccess::Staged => Some("staged in shared memory"),
        };
        if let Some(how) = how.filter(|_| problem.run() < self.vector) {
            let most = MOST_RUN;
            return Err(QuantiseError::Gaps { how, most }.into());
        }
        let (all, columns) = (self.capacity(), problem.columns());
        if self.held && all < columns {
            return Err(QuantiseError::Held { all, columns }.into());
        }
        let full = all.saturating_sub(self.threads);
        if self.access == QuantiseAccess::Staged && columns <= full {
            return Err(QuantiseError::Elements { full, columns }.into());
        }
        let blocks = self.grid(problem);
        self.plan_check().limit("blocks", blocks, MOST_GRID)
    }

    fn plan_check(&self) -> PlanCheck<'_> {
        PlanCheck {
            kernel: &"quantisation",
            operands: &self.operands,
        }
    }

    /// Returns whether the plan is for a problem: its types and modes, accesses that its tensors allow, and room for a row that it holds.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::Device;
    /// use colex_gpu::quantise::{Quantise, QuantisePlan};
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let (x, mut q) = (device.zeros::<f32>(4000)?, device.zeros::<i8>(4000)?);
    /// let mut scales = device.zeros::<f32>(4)?;
    /// let (x, q) = (x.view((4, 1000))?, q.view_mut((4, 1000))?);
    /// let call = Quantise::new(Ty::S8, &x, &q).rows(&scales.view_mut(4)?).prepare()?;
    /// let (plan, problem) = (*call.plan().expect("elements"), call.problem().expect("elements"));
    /// assert!(plan.takes(problem));
    /// assert!(!QuantisePlan { threads: 64, ..plan }.takes(problem)); // its registers hold 512 columns
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn takes(&self, problem: &QuantiseProblem) -> bool {
        self.check_problem(problem).is_ok()
    }

    /// Builds the kernel for an architecture. Its parameters are x, q and the scales, each (rows, columns); of rows that lie one after the
    /// other, x and q are one mode, and the number of columns is the last parameter.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`check`](QuantisePlan::check), and an error with the line of the kernel if the architecture lacks
    /// the conversion: 8-bit floats are since sm_89.
    pub fn build(&self, arch: Arch) -> Result<TensorKernel, Error> {
        let built = self.unverified(arch)?;
        built.kernel.verify()?;
        Ok(built)
    }

    /// Builds the kernel as [`build`](QuantisePlan::build) does, for a load, which verifies it.
    pub(crate) fn unverified(&self, arch: Arch) -> Result<TensorKernel, Error> {
        self.check(arch)?;
        Ok(kernel::build(self, arch)?)
    }
}

/// `vectors of 8, 8 threads for a row, 16 rows in a block, 2 accesses, rows in registers`
impl fmt::Display for QuantisePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [threads, rows, accesses] = [
            (self.threads, "thread"),
            (self.rows, "row"),
            (self.accesses, self.access_name()),
        ]
        .map(counted);
        write!(
            f,
            "vectors of {}, {threads} for a row, {rows} in a block, {accesses}, ",
            self.vector
        )?;
        if self.blocks != 1 {
            write!(f, "clusters of {}, ", counted((self.blocks, "block")))?;
        }
        let which = match self.access {
            QuantiseAccess::Rows => "",
            QuantiseAccess::Shifted => "shifted ",
            QuantiseAccess::Staged => "staged ",
        };
        let how = if self.held { "registers" } else { "passes" };
        write!(f, "{which}rows in {how}")?;
        match self.kept {
            0 => Ok(()),
            kept => write!(f, " and {} in shared memory", counted((kept, "turn"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use colex_atom::Ty;
    use colex_layout::Layout;

    use super::*;

    /// A launch has at most 2^31 - 1 blocks: a plan takes no problem that needs more.
    #[test]
    fn law_plans_take_the_blocks_of_a_launch() -> Result<(), Error> {
        let of = |rows: i64| {
            let [x, scales] = [1024, 1].map(|stride: i64| Layout::leaf(rows, stride));
            let (x, scales) = (x.expect("a layout"), scales.expect("a layout"));
            QuantiseProblem::of([Ty::F32, Ty::S8], [&x, &x, &scales], 1024, [1, 1], [0; 3])
        };
        let fastest = QuantisePlan::fastest(&of(100)?, Arch::Sm90a)?;
        let mut refused = Vec::new();
        for (rows, blocks) in [(1 << 30, 1), ((1 << 30) - 1, 2), (1 << 30, 2), (1 << 30, 8)] {
            let plan = QuantisePlan {
                rows: 1,
                blocks,
                ..fastest
            };
            let problem = of(rows)?;
            assert_eq!(plan.takes(&problem), rows * blocks < 1 << 31, "{plan}");
            refused.extend(plan.check_problem(&problem).err().map(|e| e.to_string()));
        }
        assert_eq!(
            refused,
            [
                "the plan asks for 2147483648 blocks: the quantisation kernel takes at most 2147483647, 1 fewer",
                "the plan asks for 8589934592 blocks: the quantisation kernel takes at most 2147483647, 6442450945 fewer",
            ]
        );
        Ok(())
    }
}
