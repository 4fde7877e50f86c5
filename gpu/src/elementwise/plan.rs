//! `ElementwisePlan`: how the coordinates are divided among threads, and the reasons for it.

use core::fmt;

use colex_atom::Arch;
use colex_tensor::{MAX_EXTENT, TensorKernel};

use super::kernel;
use super::nest::Nest;
use super::operands::{
    Access, ElementwiseOperand, ElementwiseOperands, ElementwiseProblem, KnownOperands, OperandForm,
};
use crate::error::{ElementwiseError, Error};
use crate::memory_bound::plan::{
    MOST_THREADS, PlanCheck, WARP, check_operands, counted, div_up, product,
};

/// How an elementwise kernel divides the coordinates among its threads.
///
/// ```
/// use colex_atom::Arch;
/// use colex_gpu::elementwise::{ElementwisePlan, Map, MapExpression};
/// use colex_gpu::{Device, View};
///
/// let device = Device::simulator(Arch::Sm90a);
/// let (x, bias) = (device.zeros::<f32>(4000)?, device.zeros::<f32>(40)?);
/// let mut y = device.zeros::<f32>(4000)?;
/// let add: MapExpression = "(x: tensor f32, bias: tensor f32) -> y { add(x, bias) }".parse()?;
/// let bias = View::new(&bias, "(100,40):(0,1)")?;
/// let (x, y) = (x.view((100, 40))?, y.view_mut((100, 40))?);
/// let call = Map::new(&add).input("x", &x).input("bias", &bias).output("y", &y);
/// let plan = call.plan()?.expect("there are elements");
/// assert_eq!(plan.to_string(), "map, vectors of 4, 128 threads, 1 access");
/// plan.check(Arch::Sm90a)?;
/// let refused = ElementwisePlan { threads: 48, ..plan }.check(Arch::Sm90a).unwrap_err();
/// assert_eq!(
///     refused.to_string(),
///     "the plan's number of threads is 48: the map kernel takes 32 to 1024, in multiples of 32"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ElementwisePlan {
    /// What the kernel knows of its operands.
    pub operands: ElementwiseOperands,
    /// The neighbouring coordinates that a thread has at once: a power of two, up to [`ElementwiseOperands::vector`].
    pub vector: i64,
    /// The vectors of a thread that are under way at once.
    pub accesses: i64,
    /// The threads of a block.
    pub threads: i64,
}

/// The threads of a block by default.
const THREADS: i64 = 128;

/// The bytes that a thread reads before it computes, by default, and the most accesses for them.
const PREFERRED: i64 = 32;
const MOST_ACCESSES: i64 = 8;

/// The blocks below which a thread takes fewer accesses by default: four on each of 132 multiprocessors.
const FEW_BLOCKS: i64 = 528;

/// The most elements of all operands that a thread holds.
const MOST_HELD: i64 = 256;

/// The most vectors of a launch: 32 bits count their coordinates.
const MOST: i64 = MAX_EXTENT - (1 << 17);

impl ElementwisePlan {
    /// Returns the plan that has 32 bytes under way for each thread, if there are enough blocks.
    ///
    /// # Errors
    ///
    /// Returns no error today; a later architecture may refuse an operand.
    pub fn fastest(problem: &ElementwiseProblem, _: Arch) -> Result<ElementwisePlan, Error> {
        let operands = problem.operands().clone();
        let vector = operands.vector();
        let read = operands.iter().filter(|operand| !operand.is_output);
        let read: i64 = read
            .map(|operand| {
                let own = i64::from(operand.ty.bits()) / 8;
                match operand.access {
                    Access::Once => own,
                    _ if operand.kind == OperandForm::Pairs => 2 * own * vector,
                    _ => own * vector,
                }
            })
            .sum();
        let plan = ElementwisePlan {
            operands,
            vector,
            accesses: 1,
            threads: THREADS,
        };
        let mut accesses = 1;
        let is_more = |accesses: i64| {
            let next = ElementwisePlan {
                accesses: 2 * accesses,
                ..plan.clone()
            };
            read * accesses < PREFERRED
                && next.blocks(problem.nest()) >= FEW_BLOCKS
                && next.held() <= MOST_HELD / 2
        };
        while accesses < MOST_ACCESSES && is_more(accesses) {
            accesses *= 2;
        }
        Ok(ElementwisePlan { accesses, ..plan })
    }

    /// The elements that a thread holds.
    fn held(&self) -> i64 {
        let of = self.operands.0.operands.iter().map(|o| match o.kind {
            OperandForm::Pairs => 2,
            OperandForm::Tensor | OperandForm::Rows { .. } | OperandForm::Coordinate => 1,
        });
        let all: i64 = of.sum();
        let numbers = [self.vector, self.accesses];
        numbers.into_iter().fold(all, i64::saturating_mul)
    }

    /// The coordinates of a block.
    pub(crate) fn tile(&self) -> i64 {
        product([self.vector, self.threads, self.accesses])
    }

    /// The blocks of a launch over a nest.
    pub(crate) fn blocks(&self, nest: &Nest) -> i64 {
        let (inner, outer) = nest.loops().split_first().expect("a nest has a loop");
        let vectors = div_up(inner.extent, self.vector);
        let outer = outer.iter().map(|step| step.extent);
        let vectors = outer.fold(vectors, i64::saturating_mul);
        div_up(vectors, self.threads.saturating_mul(self.accesses))
    }

    /// The parts of a nest that launches take, with the element at which each begins in every operand.
    pub(crate) fn parts(&self, nest: &Nest) -> Vec<(Nest, Vec<i64>)> {
        let has_pairs = |operand: &ElementwiseOperand| operand.kind == OperandForm::Pairs;
        // The extents of pairs are those of their elements.
        let most = if self.operands.iter().any(has_pairs) {
            MOST / 2
        } else {
            MOST
        };
        nest.parts(self.vector, most / self.vector.max(1))
    }

    /// The blocks of the largest launch.
    pub(crate) fn most_blocks(&self) -> i64 {
        MOST / self.tile().max(1) + 1
    }

    /// Says in sentences how the plan divides a problem.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::elementwise::{Map, MapExpression};
    /// use colex_gpu::{Device, View};
    ///
    /// let device = Device::simulator(Arch::Sm90a);
    /// let (x, bias) = (device.zeros::<f32>(4000)?, device.zeros::<f32>(40)?);
    /// let mut y = device.zeros::<f32>(4000)?;
    /// let add: MapExpression = "(x: tensor f32, bias: tensor f32) -> y { add(x, bias) }".parse()?;
    /// let bias = View::new(&bias, "(100,40):(0,1)")?;
    /// let (x, y) = (x.view((100, 40))?, y.view_mut((100, 40))?);
    /// let call = Map::new(&add).input("x", &x).input("bias", &bias).output("y", &y);
    /// let (problem, plan) = (call.problem()?.expect("elements"), call.plan()?.expect("elements"));
    /// assert_eq!(
    ///     plan.explain(&problem),
    ///     "map (x: tensor f32, bias: tensor f32) -> y { add(x, bias) }: 40 by (1,1,1), 100 by (40,0,40)
    /// A thread takes 4 neighbours at once, of x in accesses of 16 bytes, of bias of 16 bytes, of y of 16 bytes.
    /// A block of 128 threads with 1 access each has 512 coordinates of 4000; the launch has 8 blocks.
    /// 32160 bytes are moved, and 32160 must be."
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn explain(&self, problem: &ElementwiseProblem) -> String {
        let (size, tile) = (problem.nest().size(), self.tile());
        let parts = self.parts(problem.nest());
        let blocks = parts.iter().map(|(nest, _)| self.blocks(nest));
        let blocks = counted((blocks.fold(0, i64::saturating_add), "block"));
        let launches = match parts.len() {
            1 => "the launch has".to_string(),
            several => format!("{several} launches have"),
        };
        let mut each = Vec::new();
        for operand in self.operands.iter() {
            let own = operand
                .width(self.vector)
                .saturating_mul(operand.ty.bits().into())
                / 8;
            let in_accesses = if each.is_empty() { "in accesses " } else { "" };
            each.push(match operand.access {
                Access::Vector(_) => format!(
                    "of {} {in_accesses}of {}",
                    operand.name,
                    counted((own, "byte"))
                ),
                Access::Strided => format!(
                    "of {} {in_accesses}of one element, which lie apart",
                    operand.name
                ),
                Access::Once => format!("of {} one element for all", operand.name),
            });
        }
        let [moved, must] = [problem.moved_bytes(), problem.compulsory_bytes()];
        let accesses = counted((self.accesses, "access"));
        format!(
            "{problem}\n\
             A thread takes {} at once, {}.\n\
             A block of {} with {accesses} each has {tile} coordinates of {size}; {launches} {blocks}.\n\
             {moved} bytes are moved, and {must} must be.",
            counted((self.vector, "neighbour")),
            each.join(", "),
            counted((self.threads, "thread")),
        )
    }

    /// Checks that the kernel can be built: every number.
    ///
    /// # Errors
    ///
    /// Returns an error that names the number, and what the kernel takes.
    pub fn check(&self, _: Arch) -> Result<(), Error> {
        let KnownOperands { what, vector, .. } = *self.operands.0;
        let check = PlanCheck {
            kernel: &what,
            operands: &self.operands,
        };
        let is_power = self.vector >= 1 && self.vector & (self.vector - 1) == 0;
        if !is_power || self.vector > vector {
            let (plan, call) = (self.vector, vector);
            return Err(ElementwiseError::Vector { plan, call }.into());
        }
        let of = [WARP, MOST_THREADS, WARP];
        check.number("number of threads", self.threads, of)?;
        let what = "number of accesses";
        check.number(what, self.accesses, [1, MOST_ACCESSES, 1])?;
        let most = MOST_HELD / (self.held() / self.accesses).max(1);
        check.number(what, self.accesses, [1, most.max(1), 1])
    }

    /// Checks that the plan is for a problem.
    pub(crate) fn check_problem(&self, problem: &ElementwiseProblem) -> Result<(), Error> {
        check_operands(&self.operands, &self.operands, problem.operands())
    }

    /// Builds the kernel for an architecture.
    ///
    /// Its parameters are the scalars, then the tensors in the order of [`ElementwiseOperands::iter`], each over the loops.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::elementwise::{Map, MapExpression};
    /// use colex_gpu::Device;
    ///
    /// let device = Device::simulator(Arch::Sm90a);
    /// let (x, mut y) = (device.zeros::<f32>(1000)?, device.zeros::<f32>(1000)?);
    /// let relu: MapExpression = "(x: tensor f32) -> y { max(x, 0) }".parse()?;
    /// let (x, y) = (x.view(1000)?, y.view_mut(1000)?);
    /// let plan = Map::new(&relu).input("x", &x).output("y", &y).plan()?.expect("elements");
    /// assert!(plan.build(Arch::Sm90a)?.kernel.ptx()?.contains("ld.global.v4"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`check`](ElementwisePlan::check), and an error with the line of the kernel if the architecture
    /// lacks a conversion of the formulas.
    pub fn build(&self, arch: Arch) -> Result<TensorKernel, Error> {
        let built = self.unverified(arch)?;
        built.kernel.verify()?;
        Ok(built)
    }

    /// Builds the kernel as [`build`](ElementwisePlan::build) does, for a load, which verifies it.
    pub(crate) fn unverified(&self, arch: Arch) -> Result<TensorKernel, Error> {
        self.check(arch)?;
        Ok(kernel::build(self, arch)?)
    }
}

/// `map, vectors of 4, 128 threads, 1 access`
impl fmt::Display for ElementwisePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ElementwisePlan {
            operands,
            vector,
            accesses,
            threads,
        } = self;
        let what = operands.0.what;
        let accesses = counted((*accesses, "access"));
        write!(
            f,
            "{what}, vectors of {vector}, {}, {accesses}",
            counted((*threads, "thread"))
        )
    }
}
