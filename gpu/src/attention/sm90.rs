//! The Hopper family: a producer warp loads Q once and K and V through two rings of stages by TMA; consumer warpgroups
//! compute `S = Q K^T` and `O += P V` by `wgmma`, with the softmax between the two in registers.
//!
//! A consumer issues the scores of the next block of keys before the second product of the current block, and computes the
//! softmax of the one while the other runs (Shah et al. 2024, FlashAttention-3).

use std::f64::consts::{LN_2, LOG2_E};

use colex_atom::{Arch, Ty};
use colex_device::Device;
use colex_ir::launch::{Argument, Launch, Limits};
use colex_ir::verify::{BESIDE_WGMMA, LEAST, STEP, registers_at_entry};
use colex_ir::{BinaryOp, FenceKind, Reg, Type};
use colex_layout::{C, Int, IntTuple, Layout};
use colex_sched::pipeline::WarpSpecialized;
use colex_sched::{Order, RasterOrder};
use colex_tensor::{
    Arg, AtThread, Builder, Consumer, Error, Expr, Fragment, GmmaOperand, Index, Pipeline, Rows,
    Tensor, TensorKernel, TileGrid, TmaTensor,
};
use colex_tiled::{Operand, TiledCopy, TiledMma};

use super::cost::{Pace, h200};
use super::family::{AttentionFamily, HEADS, add_sink, checked_sum, rows_of};
use super::pages;
use super::plan::{AttentionOperands, AttentionPlan};
use super::problem::{self, AttentionProblem, AttentionTensor, Mask, Sequences};
use super::schedule::{self, MOST_ITEMS, MOST_SEQUENCES};
use crate::calls::unencoded;
use crate::error::{AttentionError, ErrorKind, PlanRefusal};
use crate::gemm::operand::{boxed_layout, shares, uneven};
use crate::gemm::sm90::{begin_early, clusters_at_once};
use crate::kernels::Major;

/// The most consumers: with the producer's warpgroup, a block has 1024 threads.
const MOST_CONSUMERS: i64 = 7;

/// The most blocks of a cluster.
const MOST_BLOCKS: i64 = 4;

/// Threads of a warpgroup, and the rows of its instructions.
const GROUP: i64 = 128;
const ROWS: i64 = 64;

/// The threads of two consumers, which meet where one lets the next issue its products.
const PAIR: u32 = 2 * GROUP as u32;

/// A page that no pool has.
const NO_PAGE: i64 = (1 << 31) - (1 << 17);

/// The numbers of pages that are loaded at once.
const IN_FLIGHT: usize = 4;

/// Numbers that a thread stores at once.
const VECTOR: i64 = 8;

/// The most registers of a thread that a warpgroup may ask for in multiples of 8: one more than a thread addresses.
const MOST_OF_A_THREAD: i64 = 256;

/// The most registers that a consumer's thread asks for.
const MOST_REGISTERS: u32 = 240;

/// The registers of a thread of the producer that looks up the places of sequences, and of pages: with fewer it spills.
const PLACES: u32 = 56;
const PLACES_OF_PAGES: u32 = 88;

/// The largest number of queries, and of keys.
const MOST_LENGTH: i64 = 1 << 24;

/// The keys of a step of 256 features.
const WIDE_KEYS: i64 = 80;

/// Whether both products have 256 features and no score is masked or capped, of sequences of one length that lie in no pages.
fn is_wide(operands: &AttentionOperands) -> bool {
    let is_plain = operands.bounded == [false; 2] && !operands.softcap;
    let varies = operands.packed != [false; 2] || operands.page.is_some();
    operands.features == [256; 2] && is_plain && !varies
}

/// The keys of a step of 192 features of Q and K, and 128 of V.
const UNEQUAL_KEYS: i64 = 96;

/// Whether a consumer computes one product after the other by default: two consumers of 256 features in turns, in full and under a
/// causal mask, and two of 192 and 128 features under a causal mask. They were 2 to 4 % faster so on an H100 and on H200s
/// (`PERFORMANCE.md`). Other masks and tiles were not measured, and 192 and 128 features in full were slower.
///
/// A hypothesis, not profiled: both products of 64 queries and 80 keys take 1280 clocks, longer than the softmax between them, so
/// that the products of the other consumer hide it alone; and a consumer has the scores of one block in its registers, not of two.
fn in_sequence(operands: &AttentionOperands, consumers: i64, keys: i64) -> bool {
    let varies = operands.packed != [false; 2] || operands.page.is_some();
    if varies || operands.softcap || consumers != 2 {
        return false;
    }
    match operands.features {
        [256, 256] => (operands.is_causal() || is_wide(operands)) && keys == WIDE_KEYS,
        [192, 128] => operands.is_causal() && keys == UNEQUAL_KEYS,
        _ => false,
    }
}

/// Whether steps of 80 keys compute at least 5 % more keys than steps of 64.
fn pads(keys: i64) -> bool {
    let keys = keys.min(MOST_LENGTH);
    let [wide, narrow] = [WIDE_KEYS, 64].map(|step| (keys + step - 1) / step * step);
    wide * 100 >= narrow * 105
}

/// TMA into rings of stages, and `wgmma`. The consumers of a plan are warpgroups, of 64 queries each.
pub(crate) struct HopperAttention;

impl AttentionFamily for HopperAttention {
    /// The tiles whose accumulators fill the registers.
    fn default_of(&self, plan: AttentionPlan) -> AttentionPlan {
        let operands = &plan.operands;
        // The places of sequences and pages take registers of the consumers, of which these tiles leave some.
        let varies = operands.packed != [false; 2] || operands.page.is_some();
        let (consumers, keys, turns, ahead) = match operands.features.into() {
            (..=64, _) if varies => (2, 128, true, 2),
            (193.., _) if varies && operands.is_causal() => (2, 64, true, 1),
            (193.., _) if operands.page.is_some() => (1, 48, false, 1),
            (193.., _) if varies => (2, 32, true, 1),
            (..=64, _) => (3, 128, true, 2),
            (65..=128, _) => (2, 128, true, 2),
            (129..=192, ..=128) => (2, UNEQUAL_KEYS, false, 2),
            (129..=192, _) => (2, 80, false, 2),
            _ => (2, 80, true, 1),
        };
        AttentionPlan {
            tile: [ROWS * consumers, keys],
            consumers,
            turns,
            ahead,
            pairs: operands.is_causal(),
            overlap: !in_sequence(operands, consumers, keys),
            persistent: true,
            ..plan
        }
    }

    /// Three consumers of 64 features want long rows under a causal mask: up to 2048 queries two were faster on an H200, from
    /// 4096 on three.
    ///
    /// Each consumer has a query. Of no more than 64 keys, or 32, a step has as many. Of 256 features without a mask, a step has 64
    /// keys where steps of 80 would compute 5 % more keys than steps of 64.
    ///
    /// Sequences are sorted where a block could have several items: a block that has one has nothing to balance.
    fn suited_to(
        &self,
        plan: AttentionPlan,
        problem: &AttentionProblem,
        multiprocessors: i64,
    ) -> AttentionPlan {
        let ([queries, of_keys], [_, keys]) = (problem.lengths, plan.tile);
        // Numbers that no kernel takes stay as they are, for the check to name them.
        if !(1..=MOST_CONSUMERS).contains(&plan.consumers) {
            return plan;
        }
        let was_in_sequence = in_sequence(&plan.operands, plan.consumers, keys);
        let is_short = plan.operands.is_causal() && queries < 3072;
        let most = match plan.operands.features[0] {
            ..=64 if is_short => 2,
            _ => plan.consumers,
        };
        let needed = (queries.max(1) / ROWS + i64::from(queries % ROWS > 0)).max(1);
        let consumers = plan.consumers.min(most).min(needed);
        let fewer = match of_keys {
            ..=32 => keys.min(32),
            33..=64 => keys.min(64),
            _ if is_wide(&plan.operands) && keys == WIDE_KEYS && pads(of_keys) => 64,
            _ => keys,
        };
        // The blocks of a cluster share the keys of a step.
        let of_cluster = plan.cluster.max(1).saturating_mul(8);
        let keys = if fewer % of_cluster == 0 { fewer } else { keys };
        let plan = AttentionPlan {
            tile: [ROWS * consumers, keys],
            consumers,
            turns: plan.turns && consumers > 1,
            // What was measured of the default tile says nothing of another one.
            overlap: plan.overlap
                || (was_in_sequence && !in_sequence(&plan.operands, consumers, keys)),
            // Fewer threads have more registers at entry: the numbers of others are not theirs.
            registers: plan.registers.filter(|_| consumers == plan.consumers),
            ..plan
        };
        let is_counted = (2..=MOST_SEQUENCES).contains(&problem.batch);
        let has_several = schedule::most_items(&plan, problem) > multiprocessors;
        let sorted = plan.operands.packed[0] && is_counted && has_several;
        AttentionPlan { sorted, ..plan }
    }

    /// A block is alone on its multiprocessor, and computes tile after tile. What a step waits for is in the time of its scores.
    fn pace(&self, plan: &AttentionPlan, multiprocessors: i64) -> Pace {
        let alone = if plan.consumers == 1 {
            h200::ALONE
        } else {
            1.0
        };
        Pace {
            places: multiprocessors.max(1),
            beside: 1,
            launch: h200::HOPPER_LAUNCH,
            waits: [0.0, 1.0],
            score: h200::HOPPER.map(|of| of * alone),
        }
    }

    fn check(&self, plan: &AttentionPlan, arch: Arch) -> Result<(), crate::Error> {
        let refused = |why: &str| Err(AttentionError::plan(PlanRefusal::Combination, why).into());
        let of_ampere = [
            (plan.packs != 1, "packs no heads"),
            (plan.prefetch.is_some(), "asks for no keys before it waits"),
            (plan.beside != 0, "bounds no blocks beside each other"),
            (plan.splits != 1, "does not divide the keys"),
        ];
        if let Some((_, what)) = of_ampere.iter().find(|(is_there, _)| *is_there) {
            return refused(&format!("the Hopper kernel {what}: the Ampere kernel does"));
        }
        if plan.sorted && !plan.operands.packed[0] {
            return refused(
                "the plan sorts sequences: only those of packed queries have lengths of their own",
            );
        }
        if plan.turns && plan.consumers == 1 {
            return refused("the plan's consumers take turns: it has one consumer");
        }
        if plan.pairs && !plan.operands.is_causal() {
            return refused(
                "the plan computes tiles of queries in pairs: only under a causal mask one sees many keys and the other few",
            );
        }
        HopperKernel::of(plan, arch).map(drop)
    }

    fn check_problem(&self, problem: &AttentionProblem) -> Result<(), crate::Error> {
        let extents = [
            ("queries", problem.lengths[0], MOST_LENGTH),
            ("keys", problem.lengths[1], MOST_LENGTH),
            ("heads", problem.heads[0], 1 << 16),
            ("sequences", problem.batch, 1 << 16),
        ];
        for (what, found, end) in extents {
            if !(1..end).contains(&found) {
                let most = end - 1;
                let why = format!("{found} {what}: the Hopper kernel takes 1 to {most}");
                return Err(AttentionError::plan(PlanRefusal::Limit, why).into());
            }
        }
        Ok(())
    }

    fn build(&self, plan: &AttentionPlan, arch: Arch) -> Result<TensorKernel, crate::Error> {
        Ok(HopperKernel::of(plan, arch)?.build(arch)?)
    }

    fn arguments<'a>(
        &self,
        (plan, problem): (&AttentionPlan, &AttentionProblem),
        built: &TensorKernel,
        layouts: &'a [Layout],
        addresses: &[u64],
    ) -> Result<Vec<Arg<'a>>, crate::Error> {
        let mut given = Vec::new();
        for (i, (layout, address)) in layouts.iter().zip(addresses).enumerate() {
            // The rows of packed queries are stored by threads.
            let by_map = |tensor: &&AttentionTensor| {
                **tensor != AttentionTensor::O || !plan.operands.packed[0]
            };
            given.push(match AttentionTensor::ALL.get(i).filter(by_map) {
                Some(tensor) => {
                    let map = built.tensor_map(tensor.name(), layout)?;
                    Arg::Value(unencoded(map, *address))
                }
                None => Arg::checked(*address, layout),
            });
        }
        let ([queries, keys], [heads, of_keys]) = (problem.lengths, problem.heads);
        let numbers = [queries, keys, heads, problem.batch, heads / of_keys];
        given.extend(numbers.map(|n| Arg::Value(Argument::U32(n as u32))));
        if let Sequences::Packed { rows } = problem.sequences[1] {
            given.push(Arg::Value(Argument::U32(rows as u32)));
        }
        let [factor, inner] = problem.factors();
        let mut scores = vec![Argument::F32(factor)];
        if problem.softcap.is_some() {
            scores.push(Argument::F32(inner));
        }
        if let Mask::Window { left, right } = problem.mask {
            // No query is further from a key than this.
            let most = MOST_LENGTH as u32 - 1;
            scores.extend([left, right].map(|n| Argument::U32(n.min(most))));
        }
        given.extend(scores.into_iter().map(Arg::Value));
        Ok(given)
    }

    fn launch(&self, problem: &AttentionProblem, plan: &AttentionPlan, device: &Device) -> Launch {
        let items = schedule::most_items(plan, problem);
        let size = plan.cluster as u32;
        let clusters = if plan.persistent {
            let multiprocessors = device.limits().multiprocessors.into();
            items.min(clusters_at_once(plan.cluster, multiprocessors))
        } else {
            items
        };
        let launch = Launch::new(
            clusters as u32 * size,
            ((plan.consumers + 1) * GROUP) as u32,
        );
        match size {
            1 => launch,
            _ => launch.cluster(size),
        }
    }
}

/// What a kernel of the family is built for.
struct HopperKernel {
    /// The type of Q, K, V and O.
    ty: Ty,
    /// Features of a query and a key, and of a value.
    widths: [i64; 2],
    /// Consumer warpgroups, of 64 queries each.
    consumers: i64,
    /// Keys of a block.
    keys: i64,
    /// Stages of each of the two rings.
    stages: i64,
    /// Tiles of queries that are in shared memory at once.
    ahead: i64,
    /// Whether a block computes tiles in pairs, a long and a short one.
    pairs: bool,
    /// Whether the keys before a query's place are bounded, and those after it. Both are aligned at the end.
    bounded: [bool; 2],
    /// Whether scores are capped.
    softcap: bool,
    /// Whether consumers take turns in issuing their products.
    alternates: bool,
    /// Heads of a strip.
    strip: i64,
    /// Whether the logarithms of the sums are stored.
    log_sums: bool,
    /// Whether heads have sinks.
    sinks: bool,
    /// Whether the queries of all sequences lie in the rows of one tensor, and whether their keys do.
    packed: [bool; 2],
    /// The rows of a page, if keys lie in pages.
    page: Option<i64>,
    /// Whether a kernel before this one has sorted the sequences.
    sorted: bool,
    /// Whether it may begin before the launch before it has ended.
    early: bool,
    /// Whether the next scores are issued before the present product with values.
    overlap: bool,
    /// The blocks of a cluster, which share their keys and values.
    cluster: i64,
    /// The registers of a thread of the producer and of a consumer, if the plan has them.
    registers: Option<[i64; 2]>,
}

impl HopperKernel {
    fn of(plan: &AttentionPlan, arch: Arch) -> Result<HopperKernel, crate::Error> {
        let unbuilt = |why: String| Err(ErrorKind::from(AttentionError::Unbuilt { why }).into());
        let refuse = |part, why: String| Err(AttentionError::plan(part, why).into());
        let operands = &plan.operands;
        let AttentionPlan {
            tile: [queries, keys],
            consumers,
            stages,
            strip,
            ..
        } = *plan;
        if arch != Arch::Sm90a {
            return unbuilt(format!(
                "the Hopper kernel runs on sm_90a, and not on {arch}"
            ));
        }
        if !HEADS.contains(&operands.features) {
            return Err(plan.other_features(&HEADS));
        }
        if operands.vectors != [8; 4] {
            let why = format!(
                "addresses and strides allow {:?} elements per access to Q, K, V and O: the Hopper kernel takes 8",
                operands.vectors
            );
            return refuse(PlanRefusal::Vector, why);
        }
        let numbers = [
            ("number of consumers", consumers, 1, MOST_CONSUMERS, 1),
            (
                "number of queries of a block",
                queries,
                ROWS.saturating_mul(consumers),
                ROWS.saturating_mul(consumers),
                1,
            ),
            ("number of keys of a block", keys, 16, 256, 16),
            ("number of stages", stages, 1, 16, 1),
            ("number of heads of a strip", strip, 1, 1 << 16, 1),
            ("number of tiles of queries ahead", plan.ahead, 1, 4, 1),
            (
                "number of blocks of a cluster",
                plan.cluster,
                1,
                MOST_BLOCKS,
                1,
            ),
        ];
        for (what, found, least, most, step) in numbers {
            if (least..=most).contains(&found) && found % step == 0 {
                continue;
            }
            let takes = match (least == most, step) {
                (true, _) => format!("{least} for {consumers} consumers"),
                (_, 1) => format!("{least} to {most}"),
                _ => format!("multiples of {step} to {most}"),
            };
            let why = format!("the plan's {what} is {found}: the Hopper kernel takes {takes}");
            return refuse(PlanRefusal::Number, why);
        }
        if let Some(page) = operands.page {
            let rows = pages::STEP..=pages::MOST_ROWS;
            plan.number("page of keys", page, rows, pages::STEP)?;
        }
        if plan.cluster > 1 {
            let of = [
                (operands.bounded != [false; 2], "a mask"),
                (operands.packed != [false; 2], "packed sequences"),
                (operands.page.is_some(), "pages"),
            ];
            if let Some((_, what)) = of.iter().find(|(is_there, _)| *is_there) {
                let why = format!(
                    "the plan has clusters of {} blocks: with {what} each block of the Hopper kernel loads its own keys",
                    plan.cluster
                );
                return refuse(PlanRefusal::Combination, why);
            }
            // The swizzle permutes the rows of eight.
            let step = 8 * plan.cluster;
            if keys % step != 0 {
                let why = format!(
                    "the plan's number of keys of a block is {keys}: clusters of {} blocks of the Hopper kernel take multiples of {step}",
                    plan.cluster
                );
                return refuse(PlanRefusal::Number, why);
            }
        }
        let [inner, outer] = operands.features;
        let stages_of_q = consumers * plan.ahead;
        let elements = ROWS * inner * stages_of_q + keys * (inner + outer) * stages;
        // Each stage has a barrier for each side.
        let barriers = 16 * (stages_of_q + 2 * stages);
        let bytes = elements * i64::from(operands.ty.bits()) / 8 + barriers;
        let room = i64::from(Limits::of(arch).shared);
        plan.limit("bytes of shared memory for Q, K and V", bytes, room)?;
        let threads = ((consumers + 1) * GROUP) as u32;
        let entry = i64::from(registers_at_entry(threads, 1));
        // The first product has its sums in registers, the second its sums and four registers of weights.
        let own = (keys / 2).max(outer / 2 + 4);
        plan.limit(
            "registers for a product of a consumer at entry",
            own,
            (entry - i64::from(BESIDE_WGMMA)).max(0),
        )?;
        if let Some([producer, consumer]) = plan.registers {
            let (least, step) = (i64::from(LEAST), i64::from(STEP));
            plan.number(
                "number of registers of the producer",
                producer,
                least..=entry,
                step,
            )?;
            plan.number(
                "number of registers of a consumer",
                consumer,
                entry..=MOST_OF_A_THREAD,
                step,
            )?;
            let all = producer + consumers * consumer;
            let what = "registers for a thread of each warpgroup";
            plan.limit(what, all, entry * (consumers + 1))?;
        }
        Ok(HopperKernel {
            ty: operands.ty,
            widths: operands.features,
            consumers,
            keys,
            stages,
            ahead: plan.ahead,
            pairs: plan.pairs,
            bounded: operands.bounded,
            softcap: operands.softcap,
            alternates: plan.turns,
            strip,
            log_sums: operands.log_sum_exp,
            sinks: operands.sinks,
            packed: operands.packed,
            page: operands.page,
            sorted: plan.sorted,
            early: plan.early,
            overlap: plan.overlap,
            cluster: plan.cluster,
            registers: plan.registers,
        })
    }

    /// Returns the keys of a block that one copy brings: all, or those that lie in one page.
    fn part(&self) -> i64 {
        self.page
            .map_or(self.keys, |page| pages::part(page, self.keys))
    }

    /// Returns the features of K and of V that one copy brings: all, or, of a part of the keys, those that follow each other in
    /// shared memory, whose rows the swizzle permutes.
    fn slabs(&self) -> [i64; 2] {
        if self.part() == self.keys {
            return self.widths;
        }
        let of = |width: i64| if width % 64 == 0 { 64 } else { 32 };
        self.widths.map(of)
    }

    /// Returns the queries of a block.
    fn queries(&self) -> i64 {
        ROWS * self.consumers
    }

    /// Returns the threads of a block.
    fn threads(&self) -> u32 {
        ((self.consumers + 1) * GROUP) as u32
    }

    /// The registers of the consumers' threads and of the producer's, after the producer has given up what it does not need.
    fn registers(&self) -> Option<[u32; 2]> {
        if let Some([producer, consumer]) = self.registers {
            return Some([consumer as u32, producer as u32]);
        }
        let groups = self.consumers as u32 + 1;
        let entry = registers_at_entry(self.threads(), 1);
        let kept = match (self.page, self.packed) {
            (Some(_), _) => PLACES_OF_PAGES,
            (None, [false, false]) => LEAST,
            (None, _) => PLACES,
        };
        let share = (entry * groups - kept) / self.consumers as u32 / STEP * STEP;
        let most = share.min(MOST_REGISTERS);
        (most > entry).then_some([most, kept])
    }

    /// The two products: `S = Q K^T` with both factors in shared memory, `O += P V` with P in registers. V is by keys, so that
    /// its numbers are contiguous.
    fn products(&self) -> Result<[TiledMma; 2], Error> {
        let ty = self.ty.cute();
        let scores = colex_atom::mma(&format!("SM90_64x{}x16_F32{ty}{ty}_SS", self.keys))?;
        let out = colex_atom::mma(&format!("SM90_64x{}x16_F32{ty}{ty}_RS", self.widths[1]))?;
        let mut options = out.options();
        options.major_b = Major::First;
        let out = out.with_options(options)?;
        let one = "(1,1,1):(0,0,0)";
        Ok([
            TiledMma::new(scores, one, "(_,_,_)")?,
            TiledMma::new(out, one, "(_,_,_)")?,
        ])
    }

    /// The copy of a consumer's rows of the output from shared memory, by vectors of 8.
    fn store_rows(&self) -> Result<TiledCopy, Error> {
        let tile = [ROWS, self.widths[1]];
        let shares = shares(Major::Second, tile, 8, GROUP, self.ty);
        let shares = shares.ok_or_else(|| uneven(tile, GROUP))?;
        let atom = colex_atom::copy(&format!("UniversalCopy<uint{}_t>", 16 * shares.vector))?;
        let bits = i64::from(self.ty.bits());
        Ok(TiledCopy::new(atom, bits, &shares.threads, &shares.values)?)
    }

    /// The form of a tensor with rows of `width` features in global memory: two modes of a tile, then heads and batch.
    fn form(&self, major: Major, width: i64) -> Result<Layout, Error> {
        let fixed = |n: i64| Int::Static(n);
        let any = |n: i64| Int::Dynamic(n);
        let (shape, stride) = match major {
            Major::Second => (
                [any(1024), fixed(width), any(4), any(2)],
                [any(width), fixed(1), any(1024 * width), any(4096 * width)],
            ),
            Major::First => (
                [fixed(width), any(1024), any(4), any(2)],
                [fixed(1), any(width), any(1024 * width), any(4096 * width)],
            ),
        };
        Ok(Layout::new(IntTuple::flat(shape), IntTuple::flat(stride))?)
    }

    /// Builds the kernel, with the parameters of [`AttentionPlan::build`]. The tiles of queries of all heads lie in strips of
    /// heads, in which the heads run fastest.
    fn build(&self, arch: Arch) -> Result<TensorKernel, Error> {
        let mut k = Builder::new("attention_sm90", arch, self.threads());
        k.min_blocks(1);
        let size = self.cluster as u32;
        if size > 1 {
            k.cluster([size, 1, 1]);
        }
        let (ty, bits) = (self.ty, self.ty.bits());
        let [inner, outer] = self.widths;
        let by_rows = self.form(Major::Second, inner)?;
        let by_columns = self.form(Major::First, outer)?;
        let of_output = self.form(Major::Second, outer)?;
        let tile = |shape: &[i64]| boxed_layout(Major::Second, bits, shape);
        let across = |shape: &[i64]| boxed_layout(Major::First, bits, shape);
        let keys = self.keys;
        let q = k.tma_tensor("Q", ty, &by_rows, [ROWS, inner], tile(&[ROWS, inner])?, 1);
        let (part, [of_key, of_value]) = (self.part(), self.slabs());
        let slab = tile(&[part, of_key])?;
        let keys_map = k.tma_tensor("K", ty, &by_rows, [part, of_key], slab, self.cluster);
        let slab = across(&[of_value, part])?;
        let tile_of_values = [of_value, part];
        let values_map = k.tma_tensor("V", ty, &by_columns, tile_of_values, slab, self.cluster);
        let output = if self.packed[0] {
            HopperOutput::Rows(Box::new(k.tensor("O", ty, &of_output)))
        } else {
            let rows = tile(&[ROWS, outer])?;
            let o = k.tma_tensor("O", ty, &of_output, [ROWS, outer], rows, 1);
            HopperOutput::Tiles(Box::new(o))
        };
        let log_sums = self
            .log_sums
            .then(|| k.tensor("log_sums", Ty::F32, "(1024,4,2):(1,1024,4096)"));
        let sinks = (self.sinks).then(|| k.tensor("sinks", Ty::F32, "4:1"));
        let names = ["query_offsets", "key_offsets"];
        let offsets = [0, 1].map(|side| {
            let is_there = self.packed[side];
            is_there.then(|| k.tensor(names[side], Ty::U32, "3:_1"))
        });
        let pages = self.page.map(|_| {
            [("page_table", "(2,64):(64,1)"), ("key_lengths", "2:_1")]
                .map(|(name, form)| k.tensor(name, Ty::U32, form))
        });
        let schedule = (self.sorted).then(|| {
            [("starts", "3:_1"), ("order", "2:_1")]
                .map(|(name, form)| k.tensor(name, Ty::U32, form))
        });
        let [queries, length] =
            ["queries", "keys"].map(|name| k.index_argument(name, 1..MOST_LENGTH));
        let [heads, batches, sharing] =
            ["heads", "batches", "sharing"].map(|name| k.index_argument(name, 1..1 << 16));
        let most_rows = problem::MOST_LENGTH + 1;
        let rows_of_keys = (self.packed[1]).then(|| k.index_argument("rows_of_keys", 0..most_rows));
        let scale = k.scalar_argument("scale", Type::F32);
        let inner_scale = (self.softcap).then(|| k.scalar_argument("inner", Type::F32));
        let side = |k: &mut Builder, name| k.index_argument(name, 0..MOST_LENGTH);
        let sides = match self.bounded {
            [true, true] => [Some(side(&mut k, "left")), Some(side(&mut k, "right"))],
            [true, false] => [Some(side(&mut k, "left")), None],
            // A causal mask is a window without keys on this side.
            [false, true] => [None, Some(0.into())],
            [false, false] => [None, None],
        };
        let held_q = k.shared_tensor(ty, tile(&[ROWS, inner, self.consumers * self.ahead])?);
        let held_k = k.shared_tensor(ty, tile(&[keys, inner, self.stages])?);
        let held_v = k.shared_tensor(ty, across(&[outer, keys, self.stages])?);
        let consumers = self.consumers as u32;
        // Each consumer has stages of its own of the queries' ring. It releases one when its output has left it.
        let of_queries = k.pipeline(self.consumers * self.ahead, 1, 1);
        let ring = WarpSpecialized {
            consumers: consumers as usize,
            cluster: [self.cluster as usize, 1],
            in_flight: 0,
            ..WarpSpecialized::cooperative(self.stages as usize, 1, 8)
        };
        let [of_keys, of_values] = [(); 2].map(|()| k.pipeline_of(&ring));
        let rings = [of_queries, of_keys, of_values];
        if self.early {
            // The first load needs the maps; one thread brings them while others initialise barriers.
            let thread = k.thread();
            let producer = k.equal(&thread, &(self.consumers * GROUP).into());
            k.if_(producer, |k| {
                for map in [&q, &keys_map, &values_map] {
                    k.prefetch_map(map);
                }
            });
        }
        let rank = match size {
            1 => 0.into(),
            _ => k.cluster_rank(size),
        };
        k.start_pipelines(&[&rings[0], &rings[1], &rings[2]], size > 1);
        if self.early {
            begin_early(&mut k);
        }

        let tiles = (&queries + (self.queries() - 1)) / self.queries();
        let order = Order::Grouped {
            width: self.strip,
            raster: RasterOrder::AlongM,
        };
        let along = if self.pairs {
            (&tiles + 1) / 2
        } else {
            (&tiles + (self.cluster - 1)) / self.cluster
        };
        let grid = k.tile_grid(order, [along, &heads * batches]);
        let grid = grid.expect("invariant: a grouped order has a formula");
        let [scores, out] = self.products()?;
        let kernel = AttentionKernel {
            plan: self,
            products: [&scores, &out],
            rows: [
                Rows::new(&scores, [ROWS, keys])?,
                Rows::new(&out, [ROWS, outer])?,
            ],
            store: TiledCopy::for_accumulator_atom(
                colex_atom::copy("SM90_U32x4_STSM_N")?,
                i64::from(bits),
                &out,
            )?,
            store_rows: self.store_rows()?,
            written: Layout::new((ROWS, outer), (1, ROWS))?.to_static(),
            maps: [q, keys_map, values_map],
            output,
            offsets,
            pages,
            schedule,
            rows_of_keys,
            held: [held_q, held_k, held_v],
            log_sums,
            sinks,
            rings,
            grid,
            tiles,
            lengths: [queries, length],
            heads: [heads, sharing],
            scale,
            inner_scale,
            sides,
            group: k.uniform(GROUP as u32),
            first: k.block_index(0) / self.cluster,
            stride: k.grid_extent(0) / self.cluster,
            rank,
        };
        let produces = k.equal(&kernel.group, &self.consumers.into());
        k.if_else(produces, |k| kernel.produce(k), |k| kernel.consume(k));
        k.finish()
    }
}

/// The larger of two indices.
fn larger(a: &Index, b: &Index) -> Index {
    -((-a.clone()).min(&-b.clone()))
}

/// Where O is written.
enum HopperOutput {
    /// In tiles, by TMA.
    Tiles(Box<TmaTensor>),
    /// Row by row: the next rows are those of another sequence.
    Rows(Box<Tensor>),
}

/// A sequence: for its queries and its keys the first row, how many there are, and the place of the sequence in the batch.
#[derive(Clone)]
struct SequencePlace {
    first: [Index; 2],
    lengths: [Index; 2],
    batch: [Index; 2],
}

/// A tile of queries of a head.
struct QueryTile {
    tile: Index,
    head: Index,
    sequence: SequencePlace,
    /// The last block of keys of which the tile sees a part, and the number of such blocks, at least 1.
    last: Index,
    blocks: Index,
    /// The steps, counted from the last block, in which all queries see whole blocks. The first step is not among them.
    whole: [Index; 2],
}

/// What the producer and the consumers share.
struct AttentionKernel<'a> {
    plan: &'a HopperKernel,
    products: [&'a TiledMma; 2],
    /// The rows of the scores, and of the output.
    rows: [Rows; 2],
    store: TiledCopy,
    store_rows: TiledCopy,
    /// The part of the queries' place that the output takes: its rows may be shorter.
    written: Layout,
    /// Q, K and V in global memory.
    maps: [TmaTensor; 3],
    output: HopperOutput,
    /// Where the sequences of packed queries and keys begin, and the rows of all keys.
    offsets: [Option<Tensor>; 2],
    /// The table of pages and the numbers of keys.
    pages: Option<[Tensor; 2]>,
    /// The first item of each sequence in the order of the schedule, and the sequences in that order.
    schedule: Option<[Tensor; 2]>,
    rows_of_keys: Option<Index>,
    /// The stages of Q, K and V.
    held: [Tensor; 3],
    log_sums: Option<Tensor>,
    sinks: Option<Tensor>,
    /// Those of Q, K and V.
    rings: [Pipeline; 3],
    /// Tiles of queries, and heads of all sequences.
    grid: TileGrid,
    tiles: Index,
    /// The numbers of queries and of keys, the largest of packed sequences.
    lengths: [Index; 2],
    /// The heads of Q, and how many of them share one of K.
    heads: [Index; 2],
    /// What multiplies a score in the exponent of 2, and, where scores are capped, before its hyperbolic tangent.
    scale: Reg,
    inner_scale: Option<Reg>,
    /// How many keys before and after a query's place it sees, where they are bounded.
    sides: [Option<Index>; 2],
    group: Index,
    /// The first item of the cluster, and how many there are until its next.
    first: Index,
    stride: Index,
    /// The rank of the block in its cluster.
    rank: Index,
}

/// A consumer's registers and its sides of the rings.
struct ConsumerThread {
    group: Index,
    lane: Index,
    consumers: [Consumer; 3],
    /// Descriptors of the stages of Q, K and V.
    descriptors: [GmmaOperand; 3],
    scores: Fragment,
    out: Fragment,
    /// The largest score of each row so far, the sum of its weights, and what the last step has multiplied them by.
    top: Fragment,
    sum: Fragment,
    shrink: Fragment,
    /// The rows of which the thread has a part, and its first column.
    own_rows: Vec<Index>,
    column: Index,
    /// For each score of the thread: the slot of its row, and its column after the thread's first.
    columns: Vec<(usize, Index)>,
}

impl AttentionKernel<'_> {
    fn produce(&self, k: &mut Builder) {
        if let Some([_, kept]) = self.plan.registers() {
            k.set_max_registers(false, kept);
        }
        let warp = k.uniform(32);
        let is_first = k.equal(&warp, &(self.plan.consumers * 4).into());
        k.if_(is_first, |k| {
            let one = k.elected();
            k.if_(one, |k| self.load(k));
        });
    }

    /// Executes `body` for the tiles of this block.
    fn each_item(&self, k: &mut Builder, body: impl Fn(&mut Builder, QueryTile)) {
        if let Some(schedule) = &self.schedule {
            return self.each_scheduled(k, schedule, body);
        }
        let last = k.within(self.grid.size(), 1..MOST_ITEMS);
        let (first, stride) = (self.first.clone(), self.stride.clone());
        k.for_(first, &last, stride, |k, number| {
            let [place, head] = k.tile_at(&self.grid, number);
            let [heads, _] = &self.heads;
            let sequence = self.sequence(k, &(&head / heads));
            let place = match self.plan.cluster {
                1 => place,
                blocks => place * blocks + &self.rank,
            };
            self.each_tile(k, [&place, &(head % heads)], &sequence, &body);
        });
    }

    /// Executes `body` for the tiles of this block in the order of the schedule. The blocks take items forwards and backwards in
    /// turn: that which has the largest item of a round has the smallest of the next.
    fn each_scheduled(
        &self,
        k: &mut Builder,
        [starts, order]: &[Tensor; 2],
        body: impl Fn(&mut Builder, QueryTile),
    ) {
        let [heads, _] = &self.heads;
        let count = k.within(order.extent(0), 1..MOST_SEQUENCES + 1);
        // The bounds of what is read hold anyway: a minimum states them.
        let start_of = |k: &mut Builder, rank: &Index| {
            let start = k.gather(&starts.elements(rank));
            let start = k.index_of(start.regs()[0], 0..1 << 32);
            start.min(&(MOST_ITEMS - 1).into())
        };
        let all = start_of(k, &count);
        let first = self.first.min(&(MOST_ITEMS - 1).into());
        let twice = self.stride.min(&MOST_ITEMS.into()) * 2;
        let one = Index::from(1);
        let number = k.var(&first, 0..1 << 32);
        let step = k.var(larger(&(&twice - 1 - first * 2), &one), 0..1 << 32);
        k.loop_(|k| {
            let now = k.get(&number);
            let is_one = k.less(&now, &all);
            k.break_unless(is_one);
            // The last sequence whose items begin no later. Those without an item begin where the next one does.
            let ends: [Index; 2] = [0.into(), count.clone()];
            let [low, high] = ends.map(|at| k.var(at, 0..MOST_SEQUENCES + 1));
            k.loop_(|k| {
                let [from, to] = [&low, &high].map(|of| k.get(of));
                let is_open = k.less(&(&from + 1), &to);
                k.break_unless(is_open);
                let middle = (&from + &to) / 2;
                let start = start_of(k, &middle);
                let next = [
                    Index::select_less(&now, &start, &from, &middle),
                    Index::select_less(&now, &start, &middle, &to),
                ];
                // Both are computed from what they replace.
                let [next_low, next_high] = next.map(|at| k.var(at, 0..MOST_SEQUENCES + 1));
                for (of, next) in [(&low, next_low), (&high, next_high)] {
                    let next = k.get(&next);
                    k.set(of, next);
                }
            });
            let rank = k.get(&low);
            let item =
                larger(&(&now - start_of(k, &rank)), &0.into()).min(&(MOST_ITEMS - 1).into());
            let batch = k.gather(&order.elements(&rank));
            let batch = k.index_of(batch.regs()[0], 0..1 << 32);
            let sequence = self.sequence(k, &batch.min(&(MOST_SEQUENCES - 1).into()));
            let mut along =
                (&sequence.lengths[0] + (self.plan.queries() - 1)) / self.plan.queries();
            if self.plan.pairs {
                along = (along + 1) / 2;
            }
            let along = larger(&along, &one);
            // The heads of a strip run fastest, then the tiles.
            let (place, head) = match self.plan.strip {
                1 => (&item % &along, &item / &along),
                strip => {
                    let of_strip = &along * strip;
                    let first = &item / &of_strip * strip;
                    let width = larger(&(heads - &first).min(&strip.into()), &one);
                    let within = &item % &of_strip;
                    (&within / &width, first + within % width)
                }
            };
            let (place, head) = (place.min(&MOST_LENGTH.into()), head.min(&(heads - 1)));
            self.each_tile(k, [&place, &head], &sequence, &body);
            let [now, by] = [&number, &step].map(|of| k.get(of));
            let by = by.min(&(2 * MOST_ITEMS).into());
            let next = larger(&(&twice - &by), &one);
            k.set(&number, now.min(&MOST_ITEMS.into()) + by);
            k.set(&step, next);
        });
    }

    /// Executes `body` for the tile, or the pair of tiles, at a place of a head of a sequence.
    fn each_tile(
        &self,
        k: &mut Builder,
        [place, head]: [&Index; 2],
        sequence: &SequencePlace,
        body: impl Fn(&mut Builder, QueryTile),
    ) {
        let is_packed = self.plan.packed[0];
        let tiles = if is_packed {
            (&sequence.lengths[0] + (self.plan.queries() - 1)) / self.plan.queries()
        } else {
            self.tiles.clone()
        };
        // Tiles that see most keys come first.
        let from_end = &tiles - 1 - place;
        let last_first = larger(&from_end, &0.into());
        let is_causal = self.plan.bounded == [false, true];
        let tile = if is_causal { &last_first } else { place };
        let (one, none) = (Index::from(1), Index::from(0));
        // In no schedule, a sequence with fewer queries than others may have no such tile.
        let may_be_none = is_packed && self.schedule.is_none();
        let count = match (is_causal && self.plan.pairs, may_be_none) {
            (false, false) => return body(k, self.item(tile.clone(), head, sequence.clone())),
            (false, true) => Index::select_less(place, &tiles, &one, &none),
            // The tile in the middle has no other.
            (true, false) => Index::select_less(place, &from_end, &2.into(), &one),
            (true, true) => {
                let middle = Index::select_less(&from_end, place, &none, &one);
                Index::select_less(place, &from_end, &2.into(), &middle)
            }
        };
        k.for_(0, &count, 1, |k, turn| {
            let tile = if self.plan.pairs && is_causal {
                Index::select_less(turn, &one, &last_first, place)
            } else {
                tile.clone()
            };
            // The minimum states a bound that holds anyway, and that no proof finds.
            let tile = tile.min(&self.tiles);
            let item = self.item(tile, head, sequence.clone());
            body(k, item);
        });
    }

    /// Where a sequence lies.
    fn sequence(&self, k: &mut Builder, batch: &Index) -> SequencePlace {
        let mut of = SequencePlace {
            first: [0.into(), 0.into()],
            lengths: self.lengths.clone(),
            batch: [batch.clone(), batch.clone()],
        };
        let rows_of_queries = match &self.output {
            HopperOutput::Rows(o) => Some(o.extent(0)),
            HopperOutput::Tiles(_) => None,
        };
        let rows = [rows_of_queries, self.rows_of_keys.clone()];
        for (side, (offsets, rows)) in self.offsets.iter().zip(rows).enumerate() {
            let (Some(offsets), Some(rows)) = (offsets, rows) else {
                continue;
            };
            let [first, end] = rows_of(k, offsets, batch, &rows, &self.lengths[side]);
            of.lengths[side] = (end - &first).min(&self.lengths[side]);
            of.first[side] = first;
            of.batch[side] = 0.into();
        }
        if let Some([_, lengths]) = &self.pages {
            let length = k.gather(&lengths.elements(batch));
            let length = k.index_of(length.regs()[0], 0..1 << 32);
            of.lengths[1] = length.min(&self.lengths[1]);
            of.batch[1] = batch.clone();
        }
        of
    }

    /// A tile of queries and the blocks of keys that it sees.
    fn item(&self, tile: Index, head: &Index, sequence: SequencePlace) -> QueryTile {
        let plan = self.plan;
        let [queries, keys] = &sequence.lengths;
        let [left, right] = &self.sides;
        let ends = |n: &Index| (n + (plan.keys - 1)) / plan.keys;
        // The place of the first query among the keys, all of which lie in the range of a register.
        let place = (&tile * plan.queries() + keys - queries).min(keys);
        let (first, from) = match left {
            Some(left) => {
                // The first key that a query sees, and the first that all see.
                let seen = larger(&(&place - left), &0.into());
                let by_all = larger(&(&place + (plan.queries() - 1) - left), &0.into());
                (seen / plan.keys, ends(&by_all))
            }
            None => (0.into(), 0.into()),
        };
        let (end, to) = match right {
            Some(right) => {
                // The first key that no query sees, and the first that the first query does not see.
                let seen = (&place + plan.queries() + right).min(keys);
                let by_all = larger(&(&place + 1 + right).min(keys), &0.into());
                (larger(&ends(&seen), &(&first + 1)), by_all / plan.keys)
            }
            // On the device a sequence may have no key, and one block all the same.
            None if plan.packed[1] || plan.page.is_some() => {
                (larger(&ends(keys), &(&first + 1)), ends(keys) - 1)
            }
            None => (ends(keys), ends(keys) - 1),
        };
        let blocks = &end - &first;
        let masked = larger(&(&end - to), &1.into()).min(&blocks);
        let whole = larger(&(&end - from).min(&blocks), &masked);
        QueryTile {
            tile,
            sequence,
            head: head.clone(),
            last: end - 1,
            blocks,
            whole: [masked, whole],
        }
    }

    /// Loads the first block of K, Q, and the other blocks, from the last to the first.
    fn load(&self, k: &mut Builder) {
        let [queries, keys, values] = &self.maps;
        let [held_q, held_k, held_v] = &self.held;
        let bytes = [queries, keys, values].map(TmaTensor::tile_bytes);
        let (part, slabs, widths) = (self.plan.part(), self.plan.slabs(), self.plan.widths);
        let parts = [0, 1].map(|i| self.plan.keys / part * (widths[i] / slabs[i]));
        let bytes = [bytes[0], parts[0] * bytes[1], parts[1] * bytes[2]];
        let [of_queries, of_keys, of_values] =
            [0, 1, 2].map(|i| k.tma_producer(&self.rings[i], bytes[i]));
        let [_, sharing] = &self.heads;
        let receivers = (self.plan.cluster > 1).then(|| {
            let all = k.value(&((1 << self.plan.cluster) - 1).into());
            k.emit(|ir| ir.cvt(Type::U16, Type::U32, all))
        });
        let fill =
            |k: &mut Builder, map: &TmaTensor, at: &[Index; 4], to: &Tensor, full: &Index| {
                match receivers {
                    Some(mask) => k.tma_load_multicast(map, at, to, full, &self.rank, mask),
                    None => k.tma_load(map, at, to, full),
                }
            };
        self.each_item(k, |k, item| {
            let QueryTile {
                tile,
                head,
                sequence,
                last,
                blocks,
                ..
            } = &item;
            let [batch, batch_of_keys] = &sequence.batch;
            let at_first = |map: &TmaTensor, mode: usize, side: usize| {
                if !self.plan.packed[side] {
                    return map.clone();
                }
                let mut by = [(); 4].map(|()| Index::from(0));
                by[mode] = sequence.first[side].clone();
                map.offset_by(by)
            };
            let queries = &at_first(queries, 0, 0);
            let (keys, values) = (&at_first(keys, 0, 1), &at_first(values, 1, 1));
            let shared = head / sharing;
            let load_keys = |k: &mut Builder, block: &Index| {
                let stage = of_keys.acquire(k);
                if self.pages.is_some() {
                    let held = held_k.at(2, &stage);
                    self.each_page(k, (sequence, block), |k, i, [row, page]| {
                        for slab in 0..widths[0] / slabs[0] {
                            let at = [row.clone(), slab.into(), shared.clone(), page.clone()];
                            let to = held.local_tile((part, slabs[0]), (i, slab));
                            k.tma_load(keys, &at, &to, &stage.barrier());
                        }
                    });
                    return of_keys.commit(k, &stage);
                }
                let at = [
                    block.clone(),
                    0.into(),
                    shared.clone(),
                    batch_of_keys.clone(),
                ];
                fill(k, keys, &at, &held_k.at(2, &stage), &stage.barrier());
                of_keys.commit(k, &stage);
            };
            let load_values = |k: &mut Builder, block: &Index| {
                let stage = of_values.acquire(k);
                if self.pages.is_some() {
                    let held = held_v.at(2, &stage);
                    self.each_page(k, (sequence, block), |k, i, [row, page]| {
                        for slab in 0..widths[1] / slabs[1] {
                            let at = [slab.into(), row.clone(), shared.clone(), page.clone()];
                            let to = held.local_tile((slabs[1], part), (slab, i));
                            k.tma_load(values, &at, &to, &stage.barrier());
                        }
                    });
                    return of_values.commit(k, &stage);
                }
                let at = [
                    0.into(),
                    block.clone(),
                    shared.clone(),
                    batch_of_keys.clone(),
                ];
                fill(k, values, &at, &held_v.at(2, &stage), &stage.barrier());
                of_values.commit(k, &stage);
            };
            load_keys(k, last);
            for group in 0..self.plan.consumers {
                let stage = of_queries.acquire(k);
                let row = tile * self.plan.consumers + group;
                let at = [row, 0.into(), head.clone(), batch.clone()];
                k.tma_load(queries, &at, &held_q.at(2, &stage), &stage.barrier());
                of_queries.commit(k, &stage);
            }
            load_values(k, last);
            k.for_(1, blocks, 1, |k, step| {
                let block = larger(&(last - step), &0.into());
                load_keys(k, &block);
                load_values(k, &block);
            });
        });
        if self.plan.cluster > 1 {
            of_keys.tail(k);
            of_values.tail(k);
        }
    }

    /// Gives `load` the parts of a block of keys: for each its place in the block, and its place in a page and the page. Of a part
    /// behind the last key, and of a page that the pool does not have, TMA brings zeros.
    fn each_page(
        &self,
        k: &mut Builder,
        (sequence, block): (&SequencePlace, &Index),
        load: impl Fn(&mut Builder, i64, [Index; 2]),
    ) {
        let (Some([table, _]), Some(page)) = (&self.pages, self.plan.page) else {
            return;
        };
        let (keys, part) = (self.plan.keys, self.plan.part());
        let beyond = Index::from(NO_PAGE);
        let parts: Vec<i64> = (0..keys / part).collect();
        for parts in parts.chunks(IN_FLIGHT) {
            // Some numbers are on their way before the first is used.
            let numbers: Vec<(i64, Index, Index)> = (parts.iter())
                .map(|i| {
                    let key = block * keys + i * part;
                    let found = k.gather(&table.elements((&sequence.batch[1], &key / page)));
                    (*i, key, k.index_of(found.regs()[0], -1 << 31..1 << 31))
                })
                .collect();
            for (i, key, number) in numbers {
                let number = number.min(&beyond);
                let number = Index::select_less(&key, &sequence.lengths[1], &number, &beyond);
                load(k, i, [key % page / part, number]);
            }
        }
    }

    fn consume(&self, k: &mut Builder) {
        if let Some([registers, _]) = self.plan.registers() {
            k.set_max_registers(true, registers);
        }
        let thread = self.consumer(k);
        let [of_queries, ..] = &thread.consumers;
        let consumers = self.plan.consumers;
        if self.plan.alternates {
            let first = k.equal(&thread.group, &0.into());
            k.if_(first, |k| k.arrive_named(&1.into(), PAIR));
        }
        if consumers > 1 {
            of_queries.skip(k, &thread.group);
        }
        self.each_item(k, |k, item| {
            self.attend(k, &thread, &item);
            if consumers > 1 {
                of_queries.skip(k, &(consumers - 1).into());
            }
        });
        let leads = k.equal(&thread.lane, &0.into());
        k.where_(leads, |ir| ir.bulk_wait(0, false));
    }

    /// Computes a consumer's rows of a tile.
    fn attend(&self, k: &mut Builder, thread: &ConsumerThread, item: &QueryTile) {
        let [of_queries, of_keys, of_values] = &thread.consumers;
        let [scores, out] = self.products;
        let (consumers, alternates) = (self.plan.consumers, self.plan.alternates);
        let overlap = self.plan.overlap;
        let ConsumerThread {
            top, sum, group, ..
        } = thread;
        k.fill(top, f64::NEG_INFINITY);
        k.fill(sum, 0.0);
        k.clear(&thread.out);
        let last = &item.last;
        let clears = self.plan.packed[1] || self.plan.page.is_some();

        let query = of_queries.wait(k).index();
        let stage = of_keys.wait(k);
        self.multiply_keys(k, thread, [&query, &stage.index()]);
        k.wgmma_wait(0);
        of_keys.release(k, &stage);
        self.cap(k, thread);
        self.hide(k, thread, item, last);
        self.softmax(k, thread);
        let weights = k.convert(&thread.scores, self.plan.ty);
        let factor = weights.as_operand(scores, out, Operand::A, (ROWS, self.plan.keys));

        // A consumer takes its turn at the barrier of its number and one, at which the consumer before it arrives.
        let own = group + 1;
        let next = Index::select_less(group, &(consumers - 1).into(), &(group + 2), &1.into());
        let steps = |k: &mut Builder, from: &Index, to: &Index, hides: bool| {
            k.for_(from, to, 1, |k, step| {
                // All consumers meet there, which they must not do in turns.
                if clears {
                    let stage = of_values.wait(k);
                    self.clear_beyond(k, thread, item, [step, &stage.index()]);
                }
                let stage_k = of_keys.wait(k);
                if alternates {
                    k.sync_named(&own, PAIR);
                }
                if overlap {
                    self.multiply_keys(k, thread, [&query, &stage_k.index()]);
                }
                let stage_v = if clears {
                    of_values.held(k)
                } else {
                    of_values.wait(k)
                };
                self.multiply_values(k, thread, &factor, &stage_v.index());
                if !overlap {
                    self.multiply_keys(k, thread, [&query, &stage_k.index()]);
                }
                if alternates {
                    k.arrive_named(&next, PAIR);
                }
                // The product that was issued first has ended, and then the scores have.
                k.wgmma_wait(1);
                if !overlap {
                    of_values.release(k, &stage_v);
                    k.wgmma_wait(0);
                }
                of_keys.release(k, &stage_k);
                self.cap(k, thread);
                if hides {
                    self.hide(k, thread, item, &(last - step));
                }
                self.softmax(k, thread);
                if overlap {
                    k.wgmma_wait(0);
                    of_values.release(k, &stage_v);
                }
                k.assign(&weights, Expr::from(&thread.scores).to(self.plan.ty));
                self.rescale(k, thread);
            });
        };
        let [from, to] = &item.whole;
        let [is_left_bounded, is_right_bounded] = self.plan.bounded;
        if is_right_bounded {
            steps(k, &1.into(), from, true);
        }
        steps(k, from, to, false);
        if is_left_bounded {
            steps(k, to, &item.blocks, true);
        }
        let mut stage = of_values.wait(k);
        if clears {
            self.clear_beyond(k, thread, item, [&item.blocks, &stage.index()]);
            stage = of_values.held(k);
        }
        self.multiply_values(k, thread, &factor, &stage.index());
        k.wgmma_wait(0);
        of_values.release(k, &stage);
        self.store(k, thread, item, &query);
        let queries = of_queries.held(k);
        of_queries.release(k, &queries);
    }

    fn consumer(&self, k: &mut Builder) -> ConsumerThread {
        let plan = self.plan;
        let [scores, out] = self.products;
        let group = k.within(&self.group, 0..plan.consumers);
        let lane = k.thread() % GROUP;
        let [q, keys, values] = &self.held;
        let leader = Index::from(0);
        let descriptors = [
            k.gmma_operand(scores, Operand::A, q, &leader),
            k.gmma_operand(scores, Operand::B, keys, &leader),
            k.gmma_operand(out, Operand::B, values, &leader),
        ];
        let places = scores.at(&lane).places(Operand::C, (ROWS, plan.keys));
        let [_, first] = places[0].clone();
        let rows = self.rows[0].layout();
        let slot = |i: i64| rows.at(i).unwrap_or(0) as usize;
        let columns = (0..).zip(places.iter());
        let columns = columns.map(|(i, [_, n])| (slot(i), n - &first)).collect();
        let mut own_rows = vec![Index::from(0); self.rows[0].count() as usize];
        for (i, [m, _]) in (0..).zip(places.iter()) {
            own_rows[slot(i)] = m.clone();
        }
        ConsumerThread {
            consumers: [0, 1, 2].map(|i| {
                // Each thread of a consumer waits; the first one arrives for all.
                k.consumer(&self.rings[i], &lane)
            }),
            group,
            lane,
            descriptors,
            scores: k.fragment_of(scores, Operand::C, (ROWS, plan.keys)),
            out: k.fragment_of(out, Operand::C, (ROWS, plan.widths[1])),
            top: k.row_values(&self.rows[0], Ty::F32),
            sum: k.row_values(&self.rows[0], Ty::F32),
            shrink: k.row_values(&self.rows[0], Ty::F32),
            own_rows,
            column: first,
            columns,
        }
    }

    /// Sets the values behind the last key of the sequence to zero: those rows are of other sequences, and a weight of 0 times a NaN
    /// is a NaN. Only the block of step 1 has such rows.
    fn clear_beyond(
        &self,
        k: &mut Builder,
        thread: &ConsumerThread,
        item: &QueryTile,
        [step, stage]: [&Index; 2],
    ) {
        let (keys, features) = (self.plan.keys, self.plan.widths[1]);
        let left = &item.sequence.lengths[1] - &item.last * keys;
        let left = larger(&left, &0.into()).min(&keys.into());
        let first = Index::select_less(step, &2.into(), &left, &keys.into());
        let has_others = k.less(&first, &keys.into());
        k.if_(has_others, |k| {
            let consumers = self.plan.consumers;
            let threads = consumers * GROUP;
            let vectors = features / VECTOR;
            let values = self.held[2].at(2, stage);
            let zeros = k.fragment(self.plan.ty, (C::<VECTOR>, C::<1>));
            k.clear(&zeros);
            let own = &thread.group * GROUP + &thread.lane;
            let count = (Index::from(keys) - &first) * vectors;
            k.for_(own, &count, threads, |k, i| {
                let key = (&first + i / vectors).min(&(keys - 1).into());
                let at = values.elements((i % vectors * VECTOR, key));
                k.scatter(zeros.values(0, VECTOR), &at.vectors(0, VECTOR));
            });
            k.fence(FenceKind::ProxyAsyncShared);
            k.sync_named(&(1 + 2 * consumers).into(), threads as u32);
        });
    }

    /// Issues the scores of a stage of queries and one of keys.
    fn multiply_keys(&self, k: &mut Builder, thread: &ConsumerThread, [query, key]: [&Index; 2]) {
        let [q, keys, _] = &thread.descriptors;
        let (q, keys) = (q.at(query), keys.at(key));
        k.wgmma_fence();
        k.wgmma_tile(self.products[0], &thread.scores, &q, &keys, false);
        k.wgmma_commit();
    }

    /// Issues the product of the weights and a stage of values.
    fn multiply_values(
        &self,
        k: &mut Builder,
        thread: &ConsumerThread,
        weights: &Fragment,
        stage: &Index,
    ) {
        let [_, _, values] = &thread.descriptors;
        k.wgmma_fence();
        k.wgmma_tile(
            self.products[1],
            &thread.out,
            weights,
            &values.at(stage),
            true,
        );
        k.wgmma_commit();
    }

    /// Caps the scores.
    fn cap(&self, k: &mut Builder, thread: &ConsumerThread) {
        if let Some(inner) = self.inner_scale {
            let scores = &thread.scores;
            k.assign(scores, (Expr::from(scores) * Expr::from(inner)).tanh());
        }
    }

    /// Sets the scores of keys that a row does not see to minus infinity.
    fn hide(&self, k: &mut Builder, thread: &ConsumerThread, item: &QueryTile, block: &Index) {
        let [queries, keys] = &item.sequence.lengths;
        let [left, right] = &self.sides;
        let first = &item.tile * self.plan.queries() + &thread.group * ROWS;
        let before = block * self.plan.keys + &thread.column;
        let place = |m: &Index| &first + m + keys - queries;
        let end = |m: &Index| match right {
            Some(right) => keys.min(&(place(m) + 1 + right)),
            None => keys.clone(),
        };
        let rows = thread.own_rows.iter();
        let ends: Vec<Index> = rows.clone().map(|m| end(m) - &before).collect();
        // The last key before those that a row sees.
        let from = left.as_ref().map(|left| -> Vec<Index> {
            let last = |m: &Index| place(m) - left - 1 - &before;
            rows.map(last).collect()
        });
        k.mask(&thread.scores, f64::NEG_INFINITY, |k, i| {
            let (row, column) = &thread.columns[i as usize];
            let mut sees = k.less(column, &ends[*row]);
            if let Some(from) = &from {
                let is_after = k.less(&from[*row], column);
                sees = k.both(sees, is_after);
            }
            sees
        });
    }

    /// Scores become weights under the new maximum: `2^(scale (score - top))`.
    fn softmax(&self, k: &mut Builder, thread: &ConsumerThread) {
        let rows = &self.rows[0];
        let ConsumerThread {
            scores,
            top,
            sum,
            shrink,
            ..
        } = thread;
        let scale = Expr::register(self.scale, Ty::F32);
        let [new, base] = [(); 2].map(|()| k.row_values(rows, Ty::F32));
        let all_new = rows.broadcast_rows(&new);
        k.assign(&new, top);
        k.assign(&all_new, Expr::from(&all_new).max(scores));
        k.reduce_rows(BinaryOp::Max, rows, &new);
        // Of a row that has seen no key, every weight is 2^(-inf - 0).
        let is_empty = Expr::from(&new).equals(f64::NEG_INFINITY);
        k.assign(&base, is_empty.select(0.0, -(Expr::from(&new) * &scale)));
        let fall = (Expr::from(top) - &new) * &scale;
        k.assign(shrink, is_empty.select(0.0, fall).exp2());
        k.assign(top, &new);
        k.assign(sum, sum * shrink);
        let all_base = rows.broadcast_rows(&base);
        k.assign(scores, Expr::from(scores).fma(&scale, &all_base).exp2());
        let all_sum = rows.broadcast_rows(sum);
        k.assign(&all_sum, &all_sum + scores);
    }

    /// Brings the output under the new maximum.
    fn rescale(&self, k: &mut Builder, thread: &ConsumerThread) {
        let ConsumerThread { out, shrink, .. } = thread;
        let all = self.rows[1].broadcast_rows(shrink);
        k.assign(out, out * &all);
    }

    /// Divides by the sums, and stores. The consumer's queries have been read: its output takes their place.
    fn store(&self, k: &mut Builder, thread: &ConsumerThread, item: &QueryTile, query: &Index) {
        let QueryTile {
            tile,
            head,
            sequence,
            ..
        } = item;
        let [batch, _] = &sequence.batch;
        let rows_of_sequence = |tensor: &Tensor| {
            let first = &sequence.first[0];
            if self.plan.packed[0] {
                tensor.narrow(0, first, &(first + &sequence.lengths[0]))
            } else {
                tensor.clone()
            }
        };
        let ConsumerThread {
            group,
            lane,
            out,
            top,
            sum,
            ..
        } = thread;
        k.reduce_rows(BinaryOp::Add, &self.rows[0], sum);
        // From here on the maximum is an exponent of 2.
        let exponent = k.map(Expr::from(top) * Expr::register(self.scale, Ty::F32));
        let shrink = self.sinks.as_ref().map(|sinks| {
            let sink = k.gather(&sinks.elements(head));
            let sinks = k.row_values(&self.rows[0], Ty::F32);
            for slot in 0..sinks.layout().size() {
                k.assign(&sinks.values(slot, 1), Expr::from(&sink) * LOG2_E);
            }
            add_sink(k, [&exponent, sum], &sinks)
        });
        let checked = checked_sum(&(&exponent).into(), &sum.into());
        k.assign(sum, checked);
        let row = tile * self.plan.consumers + group;
        if let Some(log_sums) = &self.log_sums {
            let log_sums = rows_of_sequence(log_sums);
            let logs = k.map((Expr::from(sum).log2() + &exponent) * LN_2);
            let leads = Expr::from(&thread.column).equals(0);
            for (slot, m) in (0..).zip(&thread.own_rows) {
                let at = (&row * ROWS + m, head, batch);
                let to = log_sums.elements(at).only(leads.clone());
                k.scatter(logs.values(slot, 1), &to);
            }
        }
        let is_empty = Expr::from(sum).equals(0.0);
        k.assign(sum, is_empty.select(0.0, Expr::from(sum).recip()));
        if let Some(shrink) = shrink {
            k.assign(sum, sum * &shrink);
        }
        let sum = self.rows[1].broadcast_rows(sum);
        k.assign(out, out * &sum);
        let rounded = k.convert(out, self.plan.ty).retile(&self.store);
        let buffer = self.held[0].at(2, query).compose(&self.written);
        let to = self.store.at(lane).partition_dst(&buffer);
        k.copy(&self.store, &rounded, &to);
        k.fence(FenceKind::ProxyAsyncShared);
        let met = group + (1 + self.plan.consumers);
        k.sync_named(&met, GROUP as u32);
        let at = [row, 0.into(), head.clone(), batch.clone()];
        match &self.output {
            HopperOutput::Tiles(o) => {
                let leads = k.equal(lane, &0.into());
                k.if_(leads, |k| {
                    k.tma_store(o, &at, &buffer);
                    k.bulk_commit();
                    // The loads of the next queries follow.
                    k.bulk_wait(0, true);
                });
            }
            HopperOutput::Rows(o) => {
                let tile = rows_of_sequence(o).local_tile((ROWS, self.plan.widths[1]), at);
                let copy = self.store_rows.at(lane);
                let (from, to) = (copy.partition_src(&buffer), copy.partition_dst(&tile));
                let through = k.fragment_like(&from);
                k.copy(&self.store_rows, &from, &through);
                k.copy_in_bounds(&self.store_rows, &through, &to);
                // All have read when the first thread releases the place.
                k.sync_named(&met, GROUP as u32);
            }
        }
    }
}
