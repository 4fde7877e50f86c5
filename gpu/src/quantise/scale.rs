//! `TensorScalePlan`: the computed scale of a whole tensor in two launches, of which the second one reads the tensor backwards.

use core::fmt;
use std::sync::LazyLock;

use colex_atom::{Arch, CopyAtom, Ty};
use colex_device::Memo;
use colex_ir::BinaryOp::Max;
use colex_ir::Cache;
use colex_layout::{C, Int, Layout};
use colex_tensor::{Arg, AtThread, Builder, Expr, Fragment, Hints, Index, Tensor, TensorKernel};
use colex_tiled::TiledCopy;

use super::kernel::scale_of;
use super::problem::{MOST, check_source, check_target};
use crate::error::Error;
use crate::memory_bound::call::{BuiltKernels, LaunchGrid, Made, Planned, Preparing};
use crate::memory_bound::plan::{PlanCheck, WIDEST, counted, div_up, product, steps};
use crate::memory_bound::traffic::Traffic;

/// How two launches quantise a tensor whose elements lie without gaps, by a scale that they compute.
///
/// The blocks of the first launch find the largest size in their parts of the tensor. Each block of the second one makes the scale of
/// all of these sizes, and quantises its parts. If `reversed`, it begins with the elements that were read last, which the second-level
/// cache still has. The second reading and the results are marked as used once, so that they take no place from the others.
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
    /// The accesses of 16 bytes of a thread that are under way at once.
    pub accesses: i64,
    /// The blocks of each launch, each of which has parts of the tensor.
    pub blocks: i64,
    /// Whether the second launch begins with the elements that the first one has read last.
    pub reversed: bool,
}

/// The default: four blocks on each multiprocessor of an H200, with 128 KiB under way.
const THREADS: i64 = 512;
const ACCESSES: i64 = 4;
const BLOCKS: i64 = 528;

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
    /// Returns the plan for large tensors: of 64 MiB, none of five others was more than 0.003 of a copy's speed faster on an H200.
    pub fn fastest(from: Ty, to: Ty) -> TensorScalePlan {
        TensorScalePlan {
            from,
            to,
            threads: THREADS,
            accesses: ACCESSES,
            blocks: BLOCKS,
            reversed: true,
        }
    }

    /// Returns the plan that a call has by default for a number of elements, `None` for larger tensors. Smaller ones have the next power of
    /// two of the blocks that have a part, so that few kernels take all numbers of elements.
    pub(crate) fn default_of(from: Ty, to: Ty, elements: i64) -> Option<TensorScalePlan> {
        let plan = TensorScalePlan::fastest(from, to);
        let bytes = elements.saturating_mul(i64::from(from.bits()) / 8);
        let parts = div_up(elements, plan.chunk()).clamp(1, plan.blocks);
        let blocks = (parts as u64).next_power_of_two() as i64;
        (bytes <= MOST_BYTES).then_some(TensorScalePlan {
            blocks: blocks.min(plan.blocks),
            ..plan
        })
    }

    /// Returns the elements of an access: those of 16 bytes.
    fn vector(&self) -> i64 {
        WIDEST * 8 / i64::from(self.from.bits()).max(1)
    }

    /// Returns the elements that a block has at once.
    fn chunk(&self) -> i64 {
        product([self.threads, self.vector(), self.accesses])
    }

    /// Returns the bytes that the two launches read and write for a number of elements. The second-level cache has a part of those
    /// that are read twice.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::quantise::TensorScalePlan;
    ///
    /// let plan = TensorScalePlan::fastest(Ty::Bf16, Ty::E4m3);
    /// assert_eq!(plan.bytes(1 << 20), (2 + 2 + 1 << 20) + 4 + 2 * 4 * 528);
    /// ```
    pub fn bytes(&self, elements: i64) -> i64 {
        let size = i64::from(self.from.bits()) / 8;
        let parts = self.blocks.saturating_mul(8);
        let all = elements.saturating_mul(2 * size + 1);
        all.saturating_add(parts).saturating_add(4)
    }

    /// Returns the bytes of memory for the largest size of each block.
    pub(crate) fn workspace(&self) -> i64 {
        self.blocks.saturating_mul(4)
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
    pub fn check(&self, _: Arch) -> Result<(), Error> {
        check_source(self.from)?;
        check_target(self.to)?;
        let check = self.plan_check(&"");
        check.block(self.threads)?;
        check.number("number of accesses", self.accesses, [1, MOST_ACCESSES, 1])?;
        check.number("number of blocks", self.blocks, [1, MOST_BLOCKS, 1])
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

    /// Builds the first kernel, or the second one.
    fn kernel_of(&self, arch: Arch, is_second: bool) -> Result<TensorKernel, Error> {
        self.check(arch)?;
        Ok(build(self, arch, is_second)?)
    }
}

/// The layout of a tensor of which one element follows the other, as one row, and that of a line.
fn row(elements: Int) -> Result<Layout, colex_layout::Error> {
    let one = Layout::leaf(Int::Static(1), Int::Static(0))?;
    Layout::concat(&[one, Layout::leaf(elements, Int::Static(1))?])
}

fn line(elements: Int) -> Result<Layout, colex_layout::Error> {
    Layout::concat(&[Layout::leaf(elements, Int::Static(1))?])
}

/// The copy of `bits` bits.
fn universal(bits: i64) -> CopyAtom {
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
    /// Whether the kernel is the second one.
    type Stage = bool;
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
            under_way: product([self.accesses, WIDEST]),
            threads: self.threads,
            blocks: self.blocks,
            launches: 2,
        }
    }

    fn neighbours(&self, _: &i64) -> Vec<TensorScalePlan> {
        let plan = *self;
        let accesses = steps(plan.accesses).map(|accesses| TensorScalePlan { accesses, ..plan });
        let blocks = steps(plan.blocks).map(|blocks| TensorScalePlan { blocks, ..plan });
        accesses.into_iter().chain(blocks).collect()
    }

    fn check_for(&self, arch: Arch, _: &i64) -> Result<(), Error> {
        self.check(arch)
    }

    fn kernel(&self, arch: Arch, is_second: bool) -> Result<TensorKernel, Error> {
        self.kernel_of(arch, is_second)
    }

    fn stages(&self, _: &i64) -> Result<Vec<(Self, bool)>, Error> {
        Ok([false, true].map(|is_second| (*self, is_second)).to_vec())
    }

    fn kernels() -> &'static BuiltKernels<TensorScalePlan> {
        &BUILT
    }

    /// The addresses are those of x, q and the scale, and of the workspace unless there is one block, whose largest size lies in the
    /// place of the scale until then.
    fn prepare(
        (plan, elements): &(TensorScalePlan, i64),
        on: &Preparing<'_, Self>,
    ) -> Result<Made<Self>, Error> {
        let parts = on.addresses.len() - 1;
        let count = Int::Dynamic(*elements);
        let layouts = || -> Result<[Layout; 3], colex_layout::Error> {
            let one = line(Int::Static(1))?;
            Ok([row(count)?, line(Int::Dynamic(plan.blocks))?, one])
        };
        let [all, of_parts, one] = layouts().map_err(colex_tensor::Error::from)?;
        let mut launches = Vec::new();
        let (first, second) = ([0, parts], [0, parts, 1, 2]);
        for (order, is_second) in [(&first[..], false), (&second[..], true)] {
            let layouts = [&all, &of_parts, &all, &one];
            let given: Vec<Arg<'_>> = (order.iter().zip(layouts))
                .map(|(at, layout)| Arg::checked(on.addresses[*at], layout))
                .collect();
            let grid = LaunchGrid {
                blocks: [plan.blocks, 1, 1],
                threads: plan.threads,
                cluster: 1,
                at_once: false,
            };
            let kernel = on.kernel(plan, is_second)?;
            launches.push(on.launch(&kernel, &given, order.iter().copied(), grid)?);
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
        let TensorScalePlan { from, to, .. } = self;
        write!(
            f,
            "scale of a tensor, {from} to {to}, vectors of {}, {blocks} of {threads}, {accesses}, read again in {order}",
            self.vector()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_plan_has_blocks_by_the_elements_up_to_128_mib() {
        let blocks = |elements| {
            let plan = TensorScalePlan::default_of(Ty::Bf16, Ty::E4m3, elements);
            plan.map(|plan| plan.blocks)
        };
        // A block has 16384 elements at once.
        let found = [8, 16384, 16392, 40_000, 512 << 14, (512 << 14) + 8, 1 << 25].map(blocks);
        assert_eq!(found, [1, 1, 2, 4, 512, 528, 528].map(Some));
        assert_eq!(blocks(1 << 26), Some(528));
        assert_eq!(blocks((1 << 26) + 8), None);
    }
}
