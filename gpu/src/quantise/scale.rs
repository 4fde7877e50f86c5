//! `TensorScalePlan`: the computed scale of a whole tensor, in two launches, of which the second one reads the tensor backwards, or in one
//! launch whose blocks all run at once.

use core::fmt;
use std::sync::LazyLock;

use colex_atom::{Arch, CopyAtom, Ty};
use colex_device::Memo;
use colex_ir::BinaryOp::Max;
use colex_ir::Cache;
use colex_ir::launch::Limits;
use colex_layout::{C, Int, Layout};
use colex_tensor::{Arg, AtThread, Builder, Expr, Fragment, Hints, Index, Tensor, TensorKernel};
use colex_tiled::TiledCopy;

use super::at_once;
use super::kernel::scale_of;
use super::problem::{MOST, check_source, check_target};
use crate::error::{Error, QuantiseError};
use crate::memory_bound::call::{BuiltKernels, LaunchGrid, Made, Planned, Preparing, SharedMemory};
use crate::memory_bound::plan::{PlanCheck, WIDEST, counted, div_up, product, steps};
use crate::memory_bound::traffic::Traffic;
use crate::scratch::WordKind;

/// How one launch or two quantise a tensor whose elements lie without gaps, by a scale that they compute.
///
/// *Two launches* ([`fastest`](TensorScalePlan::fastest)): the blocks of the first one find the largest size in their parts of the tensor.
/// Each block of the second one makes the scale of all of these sizes, and quantises its parts. If `reversed`, it begins with the elements
/// that were read last, which the L2 cache still has. The second reading and the results are marked as used once, so that they
/// take no place from the others.
///
/// *One launch* ([`at_once`](TensorScalePlan::at_once)), if registers hold or shared memory keeps some accesses of a thread: all blocks run
/// at once, one on each multiprocessor. Each reads its part of the tensor, and waits until all others have found their largest size. Then it
/// quantises what it holds and keeps, and reads only the rest again.
///
/// ```
/// use colex_atom::{Arch, Ty};
/// use colex_gpu::Device;
/// use colex_gpu::quantise::{Quantise, TensorScalePlan};
///
/// let device = Device::simulator(Arch::Sm80);
/// let x = device.upload(&[1f32, -2.0, 0.25, 0.5, 4.0, 0.0, -8.0, 3.0])?;
/// let (mut q, mut scale) = (device.poisoned::<i8>(8)?, device.poisoned::<f32>(1)?);
/// let plan = TensorScalePlan { threads: 32, accesses: 1, blocks: 2, ..TensorScalePlan::fastest(Ty::F32, Ty::S8) };
/// assert_eq!(
///     plan.to_string(),
///     "scale of a tensor, f32 to s8, vectors of 4, 2 blocks of 32 threads, 1 access, read again in reverse order"
/// );
/// let call = Quantise::new(Ty::S8, &x.view((2, 4))?, &q.view_mut((2, 4))?);
/// call.tensor_scale_by(&scale.view_mut(1)?, plan).run()?;
/// assert_eq!(scale.download()?, [8.0 / 127.0]);
/// assert_eq!(q.download()?, [16, -32, 4, 8, 64, 0, -127, 48]);
/// let refused = TensorScalePlan { blocks: 0, ..plan }.check(Arch::Sm80).unwrap_err();
/// assert_eq!(refused.to_string(), "the plan's number of blocks is 0: the quantisation kernel takes 1 to 4096");
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorScalePlan {
    /// The type of the numbers.
    pub from: Ty,
    /// The type that they are quantised to.
    pub to: Ty,
    /// The threads of a block: a multiple of 32.
    pub threads: i64,
    /// The accesses of 16 bytes of a thread that are under way at once: in one launch, of those that are read twice.
    pub accesses: i64,
    /// The blocks of each launch, each of which has parts of the tensor. In one launch, the device has a multiprocessor for each.
    pub blocks: i64,
    /// Whether the second reading begins with the elements that the first one has read last.
    pub reversed: bool,
    /// The accesses of a thread whose elements stay in registers. If neither registers nor shared memory have any, there are two launches.
    pub held: i64,
    /// The accesses of a thread whose elements stay in shared memory.
    pub kept: i64,
    /// The accesses of a thread that the L2 cache is to have for the second reading, of one launch: all elements but those of
    /// the last such accesses are marked as the first to leave the cache. If it is 0, no elements are marked.
    pub cached: i64,
    /// Whether one launch reads the elements again before it quantises those in registers and in shared memory. Two launches have none
    /// there, so it is false.
    pub again_first: bool,
}

/// The default: four blocks on each multiprocessor of an H200, with 128 KiB under way.
const THREADS: i64 = 512;
const ACCESSES: i64 = 4;
const BLOCKS: i64 = 528;

/// The threads of a block that runs beside no other: 128 registers of each hold more than 64 registers of twice as many, since each thread
/// has some for itself.
const THREADS_AT_ONCE: i64 = 512;

/// The accesses of what such a thread holds nowhere: on an H200, 64 MiB of `bf16` took 0.84 of a copy's speed with 4 and 0.82 with 8 to
/// `e4m3`, 0.75 and 0.73 to `s8`; of `f32` 0.82 and 0.82.
const ACCESSES_AT_ONCE: i64 = 4;

/// The accesses that such a thread holds: with more, registers spill.
const HELD: i64 = 20;

/// The bytes of what is read twice that the L2 cache is to have. Half of its 50 MiB on an H200: each half of the
/// multiprocessors has a cache of its own.
const CACHED_BYTES: i64 = 24 << 20;

/// The bytes of a tensor from which on a call takes one launch by default. On an H200, 64 MiB are at 0.73 to 0.84 of a copy's speed, and at
/// 0.59 to 0.61 by two launches; 256 MiB at 0.59 to 0.63, and 0.55 to 0.58. Smaller ones were not measured.
const LEAST_AT_ONCE: i64 = 1 << 25;

/// The most blocks that meet in a launch: a lane looks at the words of 8.
const MOST_AT_ONCE: i64 = 256;

/// The registers of a multiprocessor, those of a thread at most, and those of a thread that hold no elements at least.
const REGISTERS: i64 = 65536;
const MOST_REGISTERS: i64 = 255;
const OWN_REGISTERS: i64 = 32;

/// The bytes of shared memory for what the warps of a block have found, at most.
const OF_WARPS: i64 = 1024;

/// The words in front of those of the blocks: the first one counts the blocks that have seen all words, and the others stay 0.
pub(super) const WORDS_HEADER: i64 = 4;

/// The bytes of a tensor up to which a call with a computed scale takes two launches by default. On an H200, 64 MiB took 0.62 of a copy's
/// speed and not 0.50 to 0.52; 256 MiB 0.56 to 0.59 and not 0.56 to 0.60. Sizes between them were not measured.
const MOST_BYTES: i64 = 1 << 27;

/// The most accesses, whose elements a thread has in registers, and the most blocks, whose sizes each block reads.
const MOST_ACCESSES: i64 = 8;
const MOST_BLOCKS: i64 = 4096;

/// What such a call must have.
const APART: &str = "x and q must have their elements in one order without gaps, whole accesses of them and at most 1073741824, and \
                     begin at multiples of an access";

impl TensorScalePlan {
    /// Returns the plan of two launches for large tensors: of 64 MiB, none of five others was more than 0.003 of a copy's speed faster on an
    /// H200.
    pub fn fastest(from: Ty, to: Ty) -> TensorScalePlan {
        TensorScalePlan {
            from,
            to,
            threads: THREADS,
            accesses: ACCESSES,
            blocks: BLOCKS,
            reversed: true,
            held: 0,
            kept: 0,
            cached: 0,
            again_first: false,
        }
    }

    /// Returns the plan of one launch on a device with a number of multiprocessors: one block on each of them, or on 256, with as many
    /// accesses in registers and shared memory as they have room for.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::quantise::TensorScalePlan;
    ///
    /// let plan = TensorScalePlan::at_once(Ty::Bf16, Ty::E4m3, Arch::Sm90a, 132)?;
    /// assert_eq!(
    ///     plan.to_string(),
    ///     "scale of a tensor, bf16 to e4m3, vectors of 8, 132 blocks of 512 threads at once, 20 accesses in registers, 28 accesses in \
    ///      shared memory, 4 accesses of the others, read again in reverse order, 24 of them from the cache"
    /// );
    /// let older = TensorScalePlan::at_once(Ty::Bf16, Ty::S8, Arch::Sm75, 40).unwrap_err();
    /// assert_eq!(
    ///     older.to_string(),
    ///     "the plan's blocks run at once and read the tensor by asynchronous copies, which architectures since sm_80 have (this one is \
    ///      sm_75)"
    /// );
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`check`](TensorScalePlan::check).
    pub fn at_once(
        from: Ty,
        to: Ty,
        arch: Arch,
        multiprocessors: u32,
    ) -> Result<TensorScalePlan, Error> {
        let blocks = i64::from(multiprocessors).clamp(1, MOST_AT_ONCE);
        let of_access = THREADS_AT_ONCE * WIDEST;
        let plan = TensorScalePlan {
            threads: THREADS_AT_ONCE,
            accesses: ACCESSES_AT_ONCE,
            blocks,
            held: HELD,
            kept: (i64::from(Limits::of(arch).shared) - OF_WARPS) / of_access,
            cached: div_up(CACHED_BYTES, of_access * blocks),
            ..TensorScalePlan::fastest(from, to)
        };
        plan.check(arch)?;
        Ok(plan)
    }

    /// Returns the plan that a call has by default for a number of elements on a device of an architecture and a number of multiprocessors;
    /// `None` for tensors that are too large for two launches and a device whose blocks do not run at once. By two launches, smaller ones
    /// have the next power of two of the blocks that have a part, so that few kernels take all numbers of elements.
    pub(crate) fn default_of(
        [from, to]: [Ty; 2],
        elements: i64,
        (arch, multiprocessors): (Arch, u32),
    ) -> Option<TensorScalePlan> {
        let plan = TensorScalePlan::fastest(from, to);
        let bytes = elements.saturating_mul(i64::from(from.bits()) / 8);
        if bytes >= LEAST_AT_ONCE
            && let Ok(plan) = TensorScalePlan::at_once(from, to, arch, multiprocessors)
        {
            return Some(plan);
        }
        let parts = div_up(elements, plan.chunk()).clamp(1, plan.blocks);
        let blocks = (parts as u64).next_power_of_two() as i64;
        (bytes <= MOST_BYTES).then_some(TensorScalePlan {
            blocks: blocks.min(plan.blocks),
            ..plan
        })
    }

    /// Returns the elements of an access: those of 16 bytes.
    pub(super) fn vector(&self) -> i64 {
        WIDEST * 8 / i64::from(self.from.bits()).max(1)
    }

    /// Returns the elements of an access of all threads of a block.
    pub(super) fn of_access(&self) -> i64 {
        product([self.threads, self.vector()])
    }

    /// Returns the accesses of a thread that stay in registers and in shared memory.
    pub(super) fn on_chip(&self) -> i64 {
        self.held.saturating_add(self.kept)
    }

    /// Returns whether there is one launch, whose blocks all run at once.
    pub(crate) fn is_at_once(&self) -> bool {
        self.on_chip() > 0
    }

    /// Returns whether the blocks of one launch wait for each other.
    pub(crate) fn meets(&self) -> bool {
        self.is_at_once() && self.blocks > 1
    }

    /// Returns the words of 32 bits through which the blocks of one launch meet.
    pub(crate) fn words(&self) -> i64 {
        if self.meets() {
            product([div_up(self.blocks, 4), 4]).saturating_add(WORDS_HEADER)
        } else {
            0
        }
    }

    /// Returns the elements that are read twice.
    fn again(&self, elements: i64) -> i64 {
        if !self.is_at_once() {
            return elements;
        }
        let on_chip = product([self.of_access(), self.on_chip(), self.blocks]);
        elements.saturating_sub(on_chip).max(0)
    }

    /// Returns the elements that a block has at once.
    fn chunk(&self) -> i64 {
        product([self.threads, self.vector(), self.accesses])
    }

    /// Returns the bytes that the launches read and write for a number of elements. The L2 cache has a part of those that are
    /// read twice.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::quantise::TensorScalePlan;
    ///
    /// let plan = TensorScalePlan::fastest(Ty::Bf16, Ty::E4m3);
    /// assert_eq!(plan.bytes(1 << 20), (2 + 2 + 1 << 20) + 4 + 2 * 4 * 528);
    /// // Registers and shared memory hold 48 accesses of each of 132 * 512 threads.
    /// let plan = TensorScalePlan::at_once(Ty::Bf16, Ty::E4m3, Arch::Sm90a, 132)?;
    /// assert_eq!(plan.bytes(1 << 20), (2 + 1 << 20) + 4 + 2 * 4 * 132);
    /// let again = (1 << 26) - 16 * 48 * 132 * 512;
    /// assert_eq!(plan.bytes(1 << 25), (2 + 1 << 25) + again + 4 + 2 * 4 * 132);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn bytes(&self, elements: i64) -> i64 {
        let size = i64::from(self.from.bits()) / 8;
        let parts = self.blocks.saturating_mul(8);
        let again = self.again(elements).saturating_mul(size);
        let all = elements.saturating_mul(size + 1).saturating_add(again);
        all.saturating_add(parts).saturating_add(4)
    }

    /// Returns the memory that blocks share: for the largest size of each, or the words through which they meet.
    pub(crate) fn shared(&self) -> SharedMemory {
        if self.is_at_once() {
            let words = Some((WordKind::Counters, self.words()));
            return SharedMemory { bytes: 0, words };
        }
        SharedMemory::of(self.blocks.saturating_mul(4))
    }

    /// Says in sentences how the plan divides a tensor of a number of elements.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::quantise::TensorScalePlan;
    ///
    /// let plan = TensorScalePlan::fastest(Ty::Bf16, Ty::E4m3);
    /// assert_eq!(
    ///     plan.explain(1 << 25),
    ///     "quantisation of bf16 to e4m3, a tensor of 33554432 elements
    /// An access takes 8 elements, 16 bytes.
    /// 528 blocks of 512 threads with 4 accesses have 8650752 elements at once, and there are 33554432, in 4 turns.
    /// The first launch finds the largest size of each block; the second one reads these and the elements again, the last ones first.
    /// 167776388 bytes are moved or found in a cache, and 100663300 must be moved."
    /// );
    /// ```
    pub fn explain(&self, elements: i64) -> String {
        let TensorScalePlan { from, to, .. } = self;
        let [of, accesses, threads, blocks] = [
            (self.vector(), "element"),
            (self.accesses, "access"),
            (self.threads, "thread"),
            (self.blocks, "block"),
        ]
        .map(counted);
        let at_once = product([self.chunk(), self.blocks]);
        let turns = counted((div_up(elements, at_once), "turn"));
        let order = if self.reversed { "last" } else { "first" };
        let [moved, must] = [self.bytes(elements), self.compulsory(elements)];
        if self.is_at_once() {
            let [held, kept, cached] = [self.held, self.kept, self.cached].map(|n| {
                let all = product([self.of_access(), self.blocks]);
                (counted((n, "access")), product([n, all]))
            });
            let again = self.again(elements);
            let first = if self.again_first { "before" } else { "after" };
            let hint = match self.cached {
                0 => "No elements are marked for the second-level cache.".to_string(),
                _ => format!(
                    "All but the last {} of those, at most {} elements, are marked as the first to leave the second-level cache.",
                    cached.0, cached.1
                ),
            };
            return format!(
                "quantisation of {from} to {to}, a tensor of {elements} elements\n\
                 An access takes {of}, 16 bytes.\n\
                 {blocks} of {threads} run at once. Registers hold {} of each thread, {} elements, and shared memory keeps {}, {} \
                 elements.\n\
                 {again} elements are read twice, by {accesses} of a thread at once: the second time the {order} ones first, {first} the \
                 results of those on the chip.\n\
                 {hint}\n\
                 {moved} bytes are moved or found in a cache, and {must} must be moved.",
                held.0, held.1, kept.0, kept.1
            );
        }
        format!(
            "quantisation of {from} to {to}, a tensor of {elements} elements\n\
             An access takes {of}, 16 bytes.\n\
             {blocks} of {threads} with {accesses} have {at_once} elements at once, and there are {elements}, in {turns}.\n\
             The first launch finds the largest size of each block; the second one reads these and the elements again, the {order} ones \
             first.\n\
             {moved} bytes are moved or found in a cache, and {must} must be moved."
        )
    }

    /// The bytes that any kernel moves.
    fn compulsory(&self, elements: i64) -> i64 {
        let of_element = i64::from(self.from.bits()) / 8 + 1;
        elements.saturating_mul(of_element).saturating_add(4)
    }

    /// Checks that the kernels can be built: every number.
    ///
    /// # Errors
    ///
    /// Returns an error that names the number, and what the kernel takes.
    pub fn check(&self, arch: Arch) -> Result<(), Error> {
        check_source(self.from)?;
        check_target(self.to)?;
        let check = self.plan_check(&"");
        check.block(self.threads)?;
        check.number("number of accesses", self.accesses, [1, MOST_ACCESSES, 1])?;
        let of_thread = (REGISTERS / self.threads).min(MOST_REGISTERS) - OWN_REGISTERS;
        let held = [0, of_thread * 4 / WIDEST, 1];
        check.number("number of accesses in registers", self.held, held)?;
        let shared = i64::from(Limits::of(arch).shared) - OF_WARPS;
        let kept = [0, (shared / (self.threads * WIDEST)).max(0), 1];
        check.number("number of accesses in shared memory", self.kept, kept)?;
        if !self.is_at_once() {
            let what = "number of accesses in the cache, by two launches,";
            check.number(what, self.cached, [0, 0, 1])?;
            if self.again_first {
                let operands = format!("{} to {}", self.from, self.to);
                return self.plan_check(&operands).refuse(
                    "two launches have no elements on the chip before which others are read again: `again_first` is false",
                );
            }
            return check.number("number of blocks", self.blocks, [1, MOST_BLOCKS, 1]);
        }
        if arch < Arch::Sm80 {
            return Err(QuantiseError::Asynchronous { arch }.into());
        }
        let cached = [0, MOST, 1];
        check.number("number of accesses in the cache", self.cached, cached)?;
        check.number(
            "number of blocks at once",
            self.blocks,
            [1, MOST_AT_ONCE, 1],
        )
    }

    /// Checks that a device has a multiprocessor for each block of one launch.
    pub(crate) fn check_device(&self, multiprocessors: u32) -> Result<(), Error> {
        if !self.is_at_once() {
            return Ok(());
        }
        let check = self.plan_check(&"");
        check.limit(
            "blocks at once on the device",
            self.blocks,
            multiprocessors.into(),
        )
    }

    fn plan_check<'a>(&self, operands: &'a dyn fmt::Display) -> PlanCheck<'a> {
        PlanCheck {
            kernel: &"quantisation",
            operands,
        }
    }

    /// Checks that the plan is for tensors with these layouts and addresses, and returns the number of their elements.
    pub(crate) fn elements(
        &self,
        [from, to]: [Ty; 2],
        [x, q]: [&Layout; 2],
        [x_at, q_at]: [u64; 2],
    ) -> Result<i64, Error> {
        let operands = format!("{} to {}", self.from, self.to);
        let check = self.plan_check(&operands);
        if [from, to] != [self.from, self.to] {
            check.refuse("x and q must have these types")?;
        }
        let (count, vector) = (x.size(), self.vector());
        // Modes of one element may have any strides.
        let strides = |layout: &Layout| {
            let leaves = layout.leaves().iter();
            let leaves = leaves.filter(|leaf| leaf.extent.value() > 1);
            leaves.map(|leaf| leaf.stride).collect::<Vec<_>>()
        };
        let is_whole = x.cosize().is_ok_and(|all| all == count);
        let has_no_gaps = is_whole && x.is_injective().unwrap_or(false) && strides(x) == strides(q);
        let is_aligned = x_at.is_multiple_of(WIDEST as u64) && q_at.is_multiple_of(vector as u64);
        if !has_no_gaps || !is_aligned || count % vector != 0 || count > MOST {
            check.refuse(APART)?;
        }
        Ok(count)
    }

    /// Builds the kernels of the launches for an architecture, in their order. The parameters of the one whose blocks run at once are x, q,
    /// the scale, and the words through which several blocks meet.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`check`](TensorScalePlan::check), and an error with the line of the kernel if the architecture lacks the
    /// conversion: 8-bit floats are since sm_89.
    pub fn build(&self, arch: Arch) -> Result<Vec<TensorKernel>, Error> {
        let kernels = self.launches().iter().map(|launch| {
            let built = self.kernel_of(arch, *launch)?;
            built.kernel.verify()?;
            Ok(built)
        });
        kernels.collect()
    }

    /// Builds the kernel of a launch.
    fn kernel_of(&self, arch: Arch, launch: ScaleLaunch) -> Result<TensorKernel, Error> {
        self.check(arch)?;
        Ok(match launch {
            ScaleLaunch::Only => at_once::build(self, arch)?,
            ScaleLaunch::First => build(self, arch, false)?,
            ScaleLaunch::Second => build(self, arch, true)?,
        })
    }

    /// Returns the launches in their order.
    fn launches(&self) -> &'static [ScaleLaunch] {
        if self.is_at_once() {
            &[ScaleLaunch::Only]
        } else {
            &[ScaleLaunch::First, ScaleLaunch::Second]
        }
    }
}

/// A launch of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleLaunch {
    /// The one whose blocks run at once.
    Only,
    First,
    Second,
}

/// The layout of a tensor of which one element follows the other, as one row, and that of a line.
pub(super) fn row(elements: Int) -> Result<Layout, colex_layout::Error> {
    let one = Layout::leaf(Int::Static(1), Int::Static(0))?;
    Layout::concat(&[one, Layout::leaf(elements, Int::Static(1))?])
}

pub(super) fn line(elements: Int) -> Result<Layout, colex_layout::Error> {
    Layout::concat(&[Layout::leaf(elements, Int::Static(1))?])
}

/// The copy of `bits` bits.
pub(super) fn universal(bits: i64) -> CopyAtom {
    let name = format!("UniversalCopy<uint{bits}_t>");
    colex_atom::copy(&name).expect("8 to 128 bits are in the table")
}

fn build(
    plan: &TensorScalePlan,
    arch: Arch,
    is_second: bool,
) -> Result<TensorKernel, colex_tensor::Error> {
    let name = if is_second {
        "quantise_tensor"
    } else {
        "largest_size"
    };
    let mut k = Builder::new(name, arch, plan.threads as u32);
    let x = k.tensor("x", plan.from, row(Int::Dynamic(1 << 16))?);
    let parts = k.tensor("parts", Ty::F32, line(Int::Dynamic(16))?);
    let outputs = if is_second {
        let q = k.tensor("q", plan.to, row(Int::Dynamic(1 << 16))?);
        Some((q, k.tensor("scale", Ty::F32, line(Int::Static(1))?)))
    } else {
        None
    };
    let vector = plan.vector();
    let over = Layout::new((1, plan.threads), (0, 1))?;
    let values = Layout::new((1, vector), (0, 1))?;
    let bits = i64::from(plan.from.bits());
    let tiled = |bits: i64| TiledCopy::new(universal(bits * vector), bits, &over, &values);
    let (from, to) = (tiled(bits)?, tiled(8)?);
    let (thread, chunk) = (k.thread(), plan.chunk());
    let block = k.block_index(0);
    let block = k.within(block, 0..plan.blocks);
    let columns = k.within(x.extent(1), 1..MOST + 1);
    let tiles = (columns + (chunk - 1)) / chunk;
    let part = |copy: &TiledCopy, of: &Tensor, tile: &Index| {
        let tile = of.local_tile((1, chunk), (0, tile));
        copy.at(&thread).partition_src(&tile) // (CPY, CPY_M, CPY_N)
    };
    let once = Hints {
        cache: Cache::Cs,
        ..Hints::default()
    };
    let wide = |x: &Fragment| Expr::from(x).to(Ty::F32);
    let own = k.fragment(Ty::F32, (C::<1>, C::<0>));
    k.fill(&own, 0.0);
    let Some((q, scale)) = outputs else {
        k.for_(&block, &tiles, plan.blocks, |k, tile| {
            let of = part(&from, &x, tile);
            let held = k.fragment_like(&of);
            // Those beyond the end are 0.
            k.copy_in_bounds(&from, &of, &held);
            let more = k.reduce_all(Max, wide(&held).abs());
            k.assign(&own, Expr::from(&own).max(&more));
        });
        let most = k.reduce_block(Max, &own);
        let is_first = Expr::from(&thread).equals(0);
        k.scatter(&most, &parts.elements(&block).only(is_first));
        return k.finish();
    };
    for i in 0..div_up(plan.blocks, plan.threads) {
        let more = k.gather(&parts.elements(&thread + i * plan.threads));
        k.assign(&own, Expr::from(&own).max(&more));
    }
    let most = k.reduce_block(Max, &own);
    let found = k.map(scale_of(&most, plan.to));
    let is_first = Expr::from(&thread).equals(0) & Expr::from(&block).equals(0);
    k.scatter(&found, &scale.elements(Index::constant(0)).only(is_first));
    let is_zero = Expr::from(&found).equals(0.0);
    let inverse = k.map(is_zero.select(0.0, Expr::from(1.0) / &found));
    k.for_(&block, &tiles, plan.blocks, |k, tile| {
        let tile = if plan.reversed {
            k.within(&tiles - tile - 1, 0..MOST)
        } else {
            tile.clone()
        };
        let (of, goes) = (part(&from, &x, &tile), part(&to, &q, &tile));
        let held = k.fragment_like(&of);
        k.copy_in_bounds(once.on(&from), &of, &held);
        let numbers = k.fragment_like(&goes);
        k.assign(&numbers, (wide(&held) * &inverse).saturating(plan.to));
        k.copy_in_bounds(once.on(&to), &numbers, &goes);
    });
    k.finish()
}

static BUILT: BuiltKernels<TensorScalePlan> = LazyLock::new(|| Memo::new(64));

impl Planned for TensorScalePlan {
    /// The number of the elements.
    type Problem = i64;
    type Stage = ScaleLaunch;
    type Key = (TensorScalePlan, i64);

    fn sentences(&self, elements: &i64) -> String {
        self.explain(*elements)
    }

    fn counted(&self, elements: &i64) -> Traffic {
        Traffic {
            compulsory: self.compulsory(*elements),
            moved: self.bytes(*elements),
            sectors: 16,
            least_sectors: 16,
            // The copies to shared memory are under way beside the loads.
            under_way: product([self.accesses.saturating_add(self.kept), WIDEST]),
            threads: self.threads,
            blocks: self.blocks,
            launches: self.launches().len() as i64,
        }
    }

    fn neighbours(&self, _: &i64) -> Vec<TensorScalePlan> {
        let plan = *self;
        let accesses = steps(plan.accesses).map(|accesses| TensorScalePlan { accesses, ..plan });
        if plan.is_at_once() {
            let held = steps(plan.held).map(|held| TensorScalePlan { held, ..plan });
            let kept = steps(plan.kept).map(|kept| TensorScalePlan { kept, ..plan });
            let two = TensorScalePlan::fastest(plan.from, plan.to);
            let all = accesses.into_iter().chain(held).chain(kept);
            return all.chain([two]).collect();
        }
        let blocks = steps(plan.blocks).map(|blocks| TensorScalePlan { blocks, ..plan });
        accesses.into_iter().chain(blocks).collect()
    }

    fn check_for(&self, arch: Arch, _: &i64) -> Result<(), Error> {
        self.check(arch)
    }

    fn kernel(&self, arch: Arch, launch: ScaleLaunch) -> Result<TensorKernel, Error> {
        self.kernel_of(arch, launch)
    }

    fn stages(&self, _: &i64) -> Result<Vec<(Self, ScaleLaunch)>, Error> {
        let launches = self.launches().iter();
        Ok(launches.map(|launch| (*self, *launch)).collect())
    }

    fn kernels() -> &'static BuiltKernels<TensorScalePlan> {
        &BUILT
    }

    /// The addresses are those of x, q and the scale, and of the workspace or the words unless there is one block. By two launches, its
    /// largest size lies in the place of the scale until then.
    fn prepare(
        (plan, elements): &(TensorScalePlan, i64),
        on: &Preparing<'_, Self>,
    ) -> Result<Made<Self>, Error> {
        let parts = on.addresses.len() - 1;
        let count = Int::Dynamic(*elements);
        let layouts = || -> Result<[Layout; 4], colex_layout::Error> {
            let [of_parts, words] = [plan.blocks, plan.words().max(1)].map(Int::Dynamic);
            let one = line(Int::Static(1))?;
            Ok([row(count)?, line(of_parts)?, line(words)?, one])
        };
        let [all, of_parts, words, one] = layouts().map_err(colex_tensor::Error::from)?;
        let mut launches = Vec::new();
        for launch in plan.launches() {
            let order = match launch {
                ScaleLaunch::Only if plan.meets() => {
                    vec![(0, &all), (1, &all), (2, &one), (parts, &words)]
                }
                ScaleLaunch::Only => vec![(0, &all), (1, &all), (2, &one)],
                ScaleLaunch::First => vec![(0, &all), (parts, &of_parts)],
                ScaleLaunch::Second => {
                    vec![(0, &all), (parts, &of_parts), (1, &all), (2, &one)]
                }
            };
            let given: Vec<Arg<'_>> = order
                .iter()
                .map(|(at, layout)| Arg::checked(on.addresses[*at], layout))
                .collect();
            let grid = LaunchGrid {
                blocks: [plan.blocks, 1, 1],
                threads: plan.threads,
                cluster: 1,
                at_once: plan.meets(),
            };
            let kernel = on.kernel(plan, *launch)?;
            let order = order.iter().map(|(at, _)| *at);
            launches.push(on.launch(&kernel, &given, order, grid)?);
        }
        Ok(Made {
            plan: *plan,
            problem: *elements,
            launches,
        })
    }
}

/// `scale of a tensor, bf16 to e4m3, vectors of 8, 528 blocks of 512 threads, 4 accesses, read again in reverse order`
impl fmt::Display for TensorScalePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [threads, accesses, blocks] = [
            (self.threads, "thread"),
            (self.accesses, "access"),
            (self.blocks, "block"),
        ]
        .map(counted);
        let order = if self.reversed {
            "reverse order"
        } else {
            "the same order"
        };
        let (TensorScalePlan { from, to, .. }, vector) = (self, self.vector());
        write!(
            f,
            "scale of a tensor, {from} to {to}, vectors of {vector}, "
        )?;
        if !self.is_at_once() {
            return write!(
                f,
                "{blocks} of {threads}, {accesses}, read again in {order}"
            );
        }
        let [held, kept] = [self.held, self.kept].map(|n| counted((n, "access")));
        write!(
            f,
            "{blocks} of {threads} at once, {held} in registers, {kept} in shared memory, {accesses} of the others, read again in {order}"
        )?;
        if self.again_first {
            f.write_str(" before the first results")?;
        }
        match self.cached {
            0 => Ok(()),
            cached => write!(f, ", {cached} of them from the cache"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_plan_has_blocks_by_the_elements_or_runs_at_once() {
        let of = |arch, elements| {
            TensorScalePlan::default_of([Ty::Bf16, Ty::E4m3], elements, (arch, 78))
        };
        let blocks = |elements| of(Arch::Sm75, elements).map(|plan| plan.blocks);
        // A block has 16384 elements at once.
        let found = [8, 16384, 16392, 40_000, 512 << 14, (512 << 14) + 8, 1 << 25].map(blocks);
        assert_eq!(found, [1, 1, 2, 4, 512, 528, 528].map(Some));
        assert_eq!(blocks(1 << 26), Some(528));
        assert_eq!(blocks((1 << 26) + 8), None);
        // Blocks run at once from 32 MiB on, one on each multiprocessor, of any number of elements.
        for (elements, is_at_once) in [
            (8, false),
            ((1 << 24) - 8, false),
            (1 << 24, true),
            ((1 << 26) + 8, true),
            (MOST, true),
        ] {
            let plan = of(Arch::Sm90a, elements).expect("a plan");
            assert_eq!(plan.is_at_once(), is_at_once, "{elements}");
            assert_eq!(plan.blocks == 78, is_at_once, "{plan}");
        }
    }
}
