//! `QuantisePlan`: how rows are divided among threads, and the reasons for it.

use core::fmt;

use colex_atom::Arch;
use colex_tensor::TensorKernel;

use super::kernel;
use super::problem::{MOST_MODES, QuantiseOperands, QuantiseProblem, check_source, check_target};
use crate::error::{Error, QuantiseError};
use crate::memory_bound::plan::{
    MOST_THREADS, PlanCheck, WIDEST, check_operands, check_width, counted, div_up, product,
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
    /// The accesses of a thread that are under way at once.
    pub accesses: i64,
    /// Whether the threads have a whole row in registers. Otherwise it is read again for the results.
    pub held: bool,
}

/// The bytes of a row that a thread has in registers, preferred and at most.
const PREFERRED: i64 = 32;
const HELD: i64 = 128;

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
    /// Returns the plan that reads each row once where the registers of a block hold it, with 32 bytes for each thread, or more
    /// where the threads of a block are too few. A longer row is read again, and found in the caches.
    ///
    /// # Errors
    ///
    /// Returns an error if no kernel takes the types.
    pub fn fastest(problem: &QuantiseProblem, _: Arch) -> Result<QuantisePlan, Error> {
        let operands = problem.operands();
        let plan = QuantisePlan {
            operands,
            vector: operands.vector,
            threads: 1,
            rows: 1,
            accesses: 1,
            held: true,
        };
        let size = i64::from(operands.from.bits()) / 8;
        let vectors = div_up(problem.columns(), plan.vector);
        let preferred = (PREFERRED / (size * plan.vector)).clamp(1, plan.most_accesses());
        let threads = (0..).map(|log| 1_i64 << log);
        let mut threads = threads.take_while(|threads| *threads <= HELD_THREADS);
        let short = threads.find(|threads| threads * preferred >= vectors);
        let of_threads = |threads: i64| QuantisePlan {
            threads,
            accesses: div_up(vectors, threads),
            rows: (THREADS / threads).max(1),
            ..plan
        };
        Ok(match short {
            Some(threads) => of_threads(threads),
            None if div_up(vectors, HELD_THREADS) <= plan.most_accesses() => {
                of_threads(HELD_THREADS)
            }
            None => QuantisePlan {
                threads: HELD_THREADS,
                accesses: PASS_ACCESSES.min(plan.most_accesses()),
                held: false,
                ..plan
            },
        })
    }

    /// The most accesses whose elements fit into the registers of a thread.
    fn most_accesses(&self) -> i64 {
        let size = i64::from(self.operands.from.bits()) / 8;
        let most = if self.vector == 1 {
            MOST_SINGLE
        } else {
            MOST_ELEMENTS
        };
        (HELD / size).min(most) / self.vector.max(1)
    }

    /// Returns the columns that a block has at once.
    pub(crate) fn chunk(&self) -> i64 {
        product([self.threads, self.vector, self.accesses])
    }

    /// Returns the bytes that the kernel moves between memory and registers for a problem.
    pub fn bytes(&self, problem: &QuantiseProblem) -> i64 {
        let size = i64::from(self.operands.from.bits()) / 8;
        let again = if self.held { 0 } else { size };
        let again = problem.rows().saturating_mul(problem.columns() * again);
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
        let (allowed, columns, all) = (self.operands.vector, problem.columns(), self.chunk());
        let [moved, must] = [self.bytes(problem), problem.compulsory_bytes()];
        let [elements, sharing, of_block, of_rows, grid, accesses] = [
            (vector, "element"),
            (threads, "thread"),
            (threads.saturating_mul(rows), "thread"),
            (rows, "row"),
            (self.grid(problem), "block"),
            (self.accesses, "access"),
        ]
        .map(counted);
        let chunks = if self.held {
            String::new()
        } else {
            format!(", in {}", counted((div_up(columns, all), "turn")))
        };
        let how = if self.held {
            "Rows stay in registers"
        } else {
            "Rows are read twice"
        };
        format!(
            "{problem}\n\
             An access takes {elements}, {bytes} bytes: addresses, strides and columns allow {allowed}.\n\
             {sharing} and {accesses} make {all} columns, and a row has {columns}{chunks}.\n\
             A block of {of_block} has {of_rows}; the launch has {grid}.\n\
             {how}: {moved} bytes are moved, and {must} must be."
        )
    }

    /// Returns the blocks of a launch.
    pub(crate) fn grid(&self, problem: &QuantiseProblem) -> i64 {
        div_up(problem.rows(), self.rows)
    }

    /// Checks that the kernel can be built: every number.
    ///
    /// # Errors
    ///
    /// Returns an error that names the number, and what the kernel takes.
    pub fn check(&self, _: Arch) -> Result<(), Error> {
        let operands = &self.operands;
        check_source(operands.from)?;
        check_target(operands.to)?;
        let check = PlanCheck {
            kernel: &"quantisation",
            operands,
        };
        let modes = i64::try_from(operands.modes).unwrap_or(i64::MAX);
        let of = [1, MOST_MODES as i64, 1];
        check.number("number of modes of the rows", modes, of)?;
        let must = "accesses of several elements need columns with the stride 1";
        check.access((self.vector, operands.from), operands.contiguous, must)?;
        // Two bytes have no place of their own in a register.
        if self.vector == 2 {
            let most = WIDEST * 8 / i64::from(operands.from.bits());
            check.number("vector", self.vector, [4, most, 4])?;
        }
        check.power("number of threads of a row", self.threads, MOST_THREADS)?;
        let others = MOST_THREADS / self.threads;
        check.power("number of rows of a block", self.rows, others)?;
        let most = self.most_accesses();
        check.number("number of accesses", self.accesses, [1, most, 1])?;
        check.block(self.threads * self.rows)
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
        let plan = (self.vector, self.operands.contiguous);
        check_width(plan, (call.vector, call.contiguous), "columns")?;
        let (all, columns) = (self.chunk(), problem.columns());
        if self.held && all < columns {
            return Err(QuantiseError::Held { all, columns }.into());
        }
        Ok(())
    }

    /// Builds the kernel for an architecture. Its parameters are x, q and the scales, each (rows, columns).
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
            (self.accesses, "access"),
        ]
        .map(counted);
        let how = if self.held { "registers" } else { "passes" };
        write!(
            f,
            "vectors of {}, {threads} for a row, {rows} in a block, {accesses}, rows in {how}",
            self.vector
        )
    }
}
