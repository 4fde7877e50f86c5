//! The Ampere family: K and V through a ring of `cp.async` stages, `ldmatrix` and `mma.sync`, and between the two products
//! a softmax in registers (Dao 2023, FlashAttention-2).

use std::f64::consts::{LN_2, LOG2_E};

use colex_atom::Arch;
use colex_device::Device;
use colex_ir::launch::{Argument, Launch, Limits};
use colex_ir::{Address, BinaryOp, Compare, CopyArgs, End, Reg, Type};
use colex_layout::Layout;
use colex_tensor::{
    Arg, AtThread, Builder, Error, Expr, Fragment, Index, MAX_EXTENT, Places, Rows, Tensor,
    TensorKernel,
};
use colex_tiled::{Operand, TiledCopy, TiledMma};

use super::combine::{self, MOST_SPLITS};
use super::cost::{self, CountedWork, Pace, h200};
use super::family::{AttentionFamily, HEADS, above_0, add_sink, checked_sum, rows_of};
use super::pages::{self, PagedTiles};
use super::plan::{AttentionOperands, AttentionPlan};
use super::problem::{AttentionProblem, AttentionTensor, MOST_LENGTH, Mask, Sequences, TYPES};
use crate::error::{AttentionError, ErrorKind, PlanRefusal};
use crate::gemm::operand::{OperandTiles, Tiles};
use crate::gemm::sm90::begin_early;
use crate::kernels::Major;

/// A ring of `cp.async` stages and `mma.sync`. The consumers of a plan are warps, which divide the queries of a block.
pub(crate) struct AmpereAttention;

/// The rows of an instruction, and the columns of two, which one `ldmatrix` brings.
const STEP: i64 = 16;

/// The columns of an instruction.
const COLUMNS: i64 = 8;

/// The most registers of a thread for the sums of both products and for the weights; the rest is for addresses and loads.
const MOST_SUMS: i64 = 208;

/// The shared memory of a multiprocessor, which those of sm_80 have at least but for sm_86 and its like.
const MULTIPROCESSOR: i64 = 160 << 10;

/// Times of the model that are no further apart are equal.
const CLOSE: f64 = 1.02;

/// The most blocks that a plan may bound those of a multiprocessor to.
const MOST_BESIDE: i64 = 8;

/// The most heads whose queries share a tile.
const MOST_PACKS: i64 = 256;

/// The most rows of a tile of queries, and of one of keys.
const MOST_ROWS: i64 = 256;

/// The warps of a block.
const CONSUMERS: std::ops::RangeInclusive<i64> = 1..=16;

impl AttentionFamily for AmpereAttention {
    /// The tiles take at most 96 KiB, which all architectures since sm_80 have.
    fn default_of(&self, plan: AttentionPlan) -> AttentionPlan {
        let keys = match plan.operands.features[0] {
            ..=128 => 64,
            _ => 32,
        };
        AttentionPlan {
            tile: [64, keys],
            ..plan
        }
    }

    /// The queries of as many heads that read one head of K as fit into one tile are packed into it. The tile has no more rows
    /// than they need.
    fn suited_to(
        &self,
        plan: AttentionPlan,
        problem: &AttentionProblem,
        multiprocessors: i64,
    ) -> AttentionPlan {
        let [heads, of_keys] = problem.heads;
        let ([most, keys], queries) = (plan.tile, problem.lengths[0].max(1));
        // Numbers that no kernel takes stay as they are, for the check to name them.
        if !(1..=MOST_ROWS).contains(&most) || !(1..=MOST_ROWS).contains(&keys) {
            return plan;
        }
        let group = (heads.max(1) / of_keys.max(1)).max(1);
        let fits = |packs: &i64| group % packs == 0 && queries.saturating_mul(*packs) <= most;
        let packs = (1..=most).rev().find(fits).unwrap_or(1);
        let rows = queries.saturating_mul(packs).min(most);
        // A power of two: the threads share tiles of 96 and 192 features too.
        let consumers = ((rows + STEP - 1) / STEP) as u64;
        let consumers = consumers.next_power_of_two() as i64;
        let suited = AttentionPlan {
            tile: [STEP * consumers, keys],
            consumers,
            packs,
            ..plan
        };
        // A larger tile may not have room, and other threads may not share it: the plan's own was checked, or is for the check to name.
        let plan = if suited.tile[0] <= most && is_shared(&suited) {
            suited
        } else {
            AttentionPlan { packs, ..plan }
        };
        // Heads of rows take registers, of which accumulators of 256 features leave few.
        let plan = match (packs, plan.operands.features[1]) {
            (2.., 256) => with_half_the_keys(plan),
            _ => plan,
        };
        // Several tiles are a prefill, whose default divides nothing.
        if queries.saturating_mul(packs) > plan.tile[0] {
            return plan;
        }
        let [_, keys] = plan.tile;
        let steps = problem.lengths[1].saturating_add(keys - 1) / keys;
        let work = CountedWork::of(&plan, problem, multiprocessors);
        let by_lanes = |splits: i64| splits > 1 && work.wants_lanes(splits);
        let time = |splits: &i64| work.cost(*splits, by_lanes(*splits)).total();
        let divided = 1..=steps.clamp(1, MOST_SPLITS);
        // Of equal times the fewest parts are taken.
        let least = divided.clone().min_by(|x, y| time(x).total_cmp(&time(y)));
        let least = least.unwrap_or(1);
        // Equal parts are worth more than the model can tell: on an H200, 32 parts of 2048 steps take 0.985 of the time of 33.
        let close = |splits: &i64| steps % splits == 0 && time(splits) <= CLOSE * time(&least);
        let equal = divided.filter(close);
        let splits = equal.min_by(|x, y| time(x).total_cmp(&time(y)));
        let splits = splits.unwrap_or(least);
        // Where enough heads and sequences read all of their keys, blocks of fewer keys keep more loads under way: on an H200, 64
        // sequences of 8192 keys take 0.91 of the time. Parts of one sequence are slower with them.
        let plan = match (splits, plan.packs, plan.operands.features) {
            (1, 2.., [128, 128]) => with_half_the_keys(plan),
            _ => plan,
        };
        AttentionPlan {
            splits,
            // A warp reads as many parts at once: on an H200, one sequence of 131,072 keys in 32 parts takes 0.97 of the time.
            by_lanes: by_lanes(splits),
            next_early: plan.next_early && splits > 1,
            ..plan
        }
    }

    fn pace(&self, plan: &AttentionPlan, multiprocessors: i64) -> Pace {
        // Tiles of few numbers of 1 bit take less than a byte.
        let of_block = shared(&plan.operands, plan.tile, plan.stages).max(1);
        let room = (MULTIPROCESSOR / of_block).max(1);
        let beside = match plan.beside {
            1.. => room.min(plan.beside),
            _ => room,
        };
        let [inner, outer] = plan.operands.features;
        let [once, of_feature] = h200::STEP;
        let step = once + of_feature * (plan.tile[1] * (inner + outer)) as f64;
        Pace {
            places: multiprocessors.max(1).saturating_mul(beside),
            beside,
            launch: h200::LAUNCH,
            waits: [step, h200::TILE],
            score: h200::AMPERE,
        }
    }

    fn check(&self, plan: &AttentionPlan, arch: Arch) -> Result<(), crate::Error> {
        let method = plan.method;
        let refused = |why: AttentionError| Err(ErrorKind::from(why).into());
        if !HEADS.contains(&plan.operands.features) {
            return Err(plan.other_features(&HEADS));
        }
        let since = Arch::Sm80;
        if arch < since {
            return refused(AttentionError::Arch {
                method,
                since,
                arch,
            });
        }
        let of_hopper = [
            (plan.strip != 1, "computes no strips of heads"),
            (plan.ahead != 1, "loads no tiles of queries ahead"),
            (plan.cluster != 1, "has no clusters"),
            (plan.pairs, "pairs no tiles"),
            (plan.turns, "gives its consumers no turns"),
            (plan.sorted, "sorts no sequences"),
            (plan.overlap, "overlaps no products"),
            (plan.persistent, "has no persistent blocks"),
            (
                plan.registers.is_some(),
                "gives its warps no numbers of registers",
            ),
        ];
        if let Some((_, what)) = of_hopper.iter().find(|(is_there, _)| *is_there) {
            let why = format!("the Ampere kernel {what}: the Hopper kernel does");
            return refused(AttentionError::plan(PlanRefusal::Combination, why));
        }
        let [queries, keys] = plan.tile;
        plan.number("number of consumers", plan.consumers, CONSUMERS, 1)?;
        let rows = STEP * plan.consumers;
        plan.number(
            "tile of queries",
            queries,
            rows..=MOST_ROWS / rows * rows,
            rows,
        )?;
        plan.number("tile of keys", keys, STEP..=MOST_ROWS, STEP)?;
        plan.number("number of stages", plan.stages, 2..=8, 1)?;
        plan.number("number of packed heads", plan.packs, 1..=MOST_PACKS, 1)?;
        plan.number(
            "number of parts of the keys",
            plan.splits,
            1..=MOST_SPLITS,
            1,
        )?;
        plan.number(
            "number of blocks beside each other",
            plan.beside,
            0..=MOST_BESIDE,
            1,
        )?;
        if let Some(steps) = plan.prefetch {
            plan.number("number of steps asked for before the wait", steps, 0..=8, 1)?;
            let operands = &plan.operands;
            let is_known = operands.packed == [false; 2] && operands.page.is_none();
            let [_, of_keys, of_values, _] = operands.vectors;
            let why = match (is_known, of_keys.min(of_values)) {
                (false, _) => {
                    "the plan asks the L2 cache for keys before it waits: where those of packed sequences and of pages lie is known \
                     after the wait"
                }
                (true, ..8) => {
                    "the plan asks the L2 cache for keys before it waits: rows of K and V must be read by 8 elements"
                }
                (true, _) => "",
            };
            if !why.is_empty() {
                return refused(AttentionError::plan(PlanRefusal::Combination, why));
            }
        }
        let bytes = shared(&plan.operands, plan.tile, plan.stages);
        let room = i64::from(Limits::of(arch).shared);
        plan.limit("bytes of shared memory for Q, K and V", bytes, room)?;
        let sums = queries * (plan.operands.features[1] + keys + keys / 2) / (32 * plan.consumers);
        plan.limit("registers for a thread's sums and weights", sums, MOST_SUMS)?;
        check_shares(plan)
    }

    fn build(&self, plan: &AttentionPlan, arch: Arch) -> Result<TensorKernel, crate::Error> {
        Ok(build(plan, arch)?)
    }

    fn arguments<'a>(
        &self,
        (plan, problem): (&AttentionPlan, &AttentionProblem),
        _: &TensorKernel,
        layouts: &'a [Layout],
        addresses: &[u64],
    ) -> Result<Vec<Arg<'a>>, crate::Error> {
        let tensors = addresses.iter().zip(layouts);
        let tensors = tensors.map(|(at, layout)| Arg::checked(*at, layout));
        let numbers = Scores::arguments(plan, problem);
        Ok(tensors.chain(numbers.into_iter().map(Arg::Value)).collect())
    }

    fn launch(&self, problem: &AttentionProblem, plan: &AttentionPlan, _: &Device) -> Launch {
        let blocks = u32::try_from(blocks(problem, plan)).unwrap_or(u32::MAX);
        Launch::new(blocks, 32 * plan.consumers as u32)
    }
}

/// Checks that the threads of a plan share its tiles, and the pages of its keys, equally.
fn check_shares(plan: &AttentionPlan) -> Result<(), crate::Error> {
    let threads = 32 * plan.consumers;
    if let Some(page) = plan.operands.page {
        plan.number(
            "page of keys",
            page,
            pages::STEP..=pages::MOST_ROWS,
            pages::STEP,
        )?;
        let part = pages::part(page, plan.tile[1]);
        let [_, of_keys, of_values] = tiles(plan);
        let parts = [
            (
                "a page of K",
                of_keys,
                [part, of_keys.tile[1]],
                steps(plan)[1],
            ),
            (
                "a page of V",
                of_values,
                [of_values.tile[0], part],
                steps(plan)[2],
            ),
        ];
        for (what, tiles, tile, step) in parts {
            if !(Tiles { tile, ..tiles }).are_shared(threads, step) {
                return Err(plan.no_shares(what, tile, threads));
            }
        }
    }
    let operands = tiles(plan).into_iter().zip(steps(plan));
    for ((tiles, step), what) in operands.zip(["Q", "K", "V"]) {
        if !tiles.are_shared(threads, step) {
            return Err(plan.no_shares(what, tiles.tile, threads));
        }
    }
    Ok(())
}

/// Whether the threads of a plan share its tiles, of a plan with any numbers.
fn is_shared(plan: &AttentionPlan) -> bool {
    let AttentionOperands {
        ty,
        features,
        vectors,
        ..
    } = &plan.operands;
    let is_known = TYPES.contains(ty) && HEADS.contains(features);
    let has_vectors = vectors.iter().all(|n| matches!(n, 1 | 2 | 4 | 8));
    let has_steps = (plan.tile.iter()).all(|n| (1..=MOST_ROWS).contains(n) && n % STEP == 0);
    let has_threads = CONSUMERS.contains(&plan.consumers);
    is_known && has_vectors && has_steps && has_threads && check_shares(plan).is_ok()
}

/// Returns the plan with half as many keys in a step, or the plan itself, if instructions do not divide these or threads do not share
/// them.
fn with_half_the_keys(plan: AttentionPlan) -> AttentionPlan {
    let [rows, keys] = plan.tile;
    let half = AttentionPlan {
        tile: [rows, keys / 2],
        ..plan
    };
    if keys % (2 * STEP) == 0 && is_shared(&half) {
        half
    } else {
        plan
    }
}

/// The blocks of a problem: a tile of rows of a pack of heads, and a part of the keys.
fn blocks(problem: &AttentionProblem, plan: &AttentionPlan) -> i64 {
    cost::tiles(problem, plan)
        .saturating_mul(problem.heads[0] / plan.packs)
        .saturating_mul(problem.batch)
        .saturating_mul(plan.splits)
}

/// The bytes of shared memory that Q and the stages of K and V take.
fn shared(operands: &AttentionOperands, [queries, keys]: [i64; 2], stages: i64) -> i64 {
    let [inner, outer] = operands.features;
    let elements = queries * inner + keys * (inner + outer) * stages;
    elements * i64::from(operands.ty.bits()) / 8
}

/// The bytes of shared memory of which at most this number of blocks of a multiprocessor have as much; 0 for any number. A
/// multiprocessor has 1 KiB more than its largest block, and keeps 1 KiB for each.
fn bounding(beside: i64, arch: Arch) -> i64 {
    match beside {
        1.. => (i64::from(Limits::of(arch).shared) / (beside + 1) / 128 + 1) * 128,
        _ => 0,
    }
}

/// The tiles of Q, K and V. V is the right factor of P V: a row of it is a feature.
fn tiles(plan: &AttentionPlan) -> [Tiles; 3] {
    let ([queries, keys], [inner, outer]) = (plan.tile, plan.operands.features);
    let of = |tensor: AttentionTensor, tile, major| Tiles {
        tile,
        major,
        ty: plan.operands.ty,
        vector: plan.operands.vectors[tensor as usize],
        whole: false,
    };
    [
        of(AttentionTensor::Q, [queries, inner], Major::Second),
        of(AttentionTensor::K, [keys, inner], Major::Second),
        of(AttentionTensor::V, [outer, keys], Major::First),
    ]
}

/// The numbers of neighbouring elements of Q, K and V that the threads read at once: a row of Q or K, and for each key the
/// columns of an instruction.
fn steps(plan: &AttentionPlan) -> [i64; 3] {
    let inner = plan.operands.features[0];
    [inner, inner, COLUMNS]
}

/// The kernel of a plan. Its parameters: Q, K and O as (sequence, feature, head, batch), V as (feature, sequence, head,
/// batch), the log-sum-exp as (sequence, head, batch) if it is an output, the sinks as (head) if there are any, then those of
/// [`Scores`]. A block computes a tile
/// of the queries of a head, or of a pack of heads; the tiles of a head follow each other, so that the cache holds its K and V.
fn build(plan: &AttentionPlan, arch: Arch) -> Result<TensorKernel, Error> {
    let ([bm, bn], operands) = (plan.tile, &plan.operands);
    let AttentionOperands {
        ty,
        features: [inner, outer],
        ..
    } = *operands;
    // The warps lie along M only: no row leaves its warp.
    let name = ty.cute();
    let mma = colex_atom::mma(&format!("SM80_16x8x16_F32{name}{name}F32_TN"))?;
    let warps = plan.consumers;
    let mma = TiledMma::new(mma, ((warps, 1, 1), (1, 0, 0)), (STEP * warps, STEP, STEP))?;
    let mut k = Builder::new("attention_sm80", arch, 32 * warps as u32);
    // Extents and strides are arguments: these serve the reports.
    let mut form = AttentionProblem::new(ty, 4, [8 * plan.packs, 8], [1024, 1024], [inner, outer]);
    form.log_sum_exp = operands.log_sum_exp;
    form.sinks = operands.sinks.then_some(1);
    form.sequences = operands.packed.map(|is_packed| {
        if is_packed {
            Sequences::Packed { rows: 4096 }
        } else {
            Sequences::Batch
        }
    });
    if let Some(rows) = operands.page {
        form.sequences[1] = Sequences::Paged {
            pages: 512,
            rows,
            entries: 64,
            strides: [64, 1],
        };
    }
    let layouts = form.kernel_layouts(plan.packs)?;
    let [q, keys, values] =
        [0, 1, 2].map(|i| k.tensor(AttentionTensor::ALL[i].name(), ty, &layouts[i]));
    let output = if plan.splits > 1 {
        let [outputs, rows] = combine::written(&form, plan)?;
        KernelOutput::Parts {
            outputs: k.tensor("outputs", F32, &outputs),
            rows: (["tops", "sums"].into_iter())
                .map(|name| k.tensor(name, F32, &rows))
                .collect(),
        }
    } else {
        let o = k.tensor("O", ty, &layouts[AttentionTensor::O as usize]);
        let mut behind = layouts[AttentionTensor::ALL.len()..].iter();
        let mut optional = |is_there: bool, name: &str| {
            let layout = is_there.then(|| behind.next()).flatten()?;
            Some(k.tensor(name, F32, layout))
        };
        KernelOutput::Whole {
            o,
            log_sums: optional(operands.log_sum_exp, "log_sum_exp").map(Box::new),
            sinks: optional(operands.sinks, "sinks").map(Box::new),
        }
    };
    let behind = AttentionTensor::ALL.len()
        + usize::from(operands.log_sum_exp)
        + usize::from(operands.sinks);
    let mut numbers = layouts[behind..].iter();
    let mut numbers = |is_there: bool, name: &str| {
        let layout = is_there.then(|| numbers.next()).flatten()?;
        Some(k.tensor(name, U32, layout))
    };
    let [of_queries, of_keys] = operands.packed;
    let offsets = [(of_queries, "query_offsets"), (of_keys, "key_offsets")];
    let offsets = offsets.map(|(is_there, name)| numbers(is_there, name));
    let is_paged = operands.page.is_some();
    let [table, of_lengths] = ["page_table", "key_lengths"].map(|name| numbers(is_paged, name));
    let mut scores_of = Scores::declare(&mut k, plan);

    let tiles_m = (&scores_of.queries * plan.packs + (bm - 1)) / bm;
    let block = k.block_index(0);
    // The parts of a tile are neighbours.
    let (part, block) = match &output {
        KernelOutput::Parts { outputs, .. } => {
            let parts = k.within(outputs.extent(4), 2..MOST_SPLITS + 1);
            (Some((&block % &parts, parts.clone())), block / parts)
        }
        KernelOutput::Whole { .. } => (None, block),
    };
    let (tile, rest) = (&block % &tiles_m, &block / &tiles_m);
    // Under a causal mask the last tile of queries has the most keys: it begins first.
    let tile = match operands.bounded {
        [_, true] => above_0(&(&tiles_m - 1 - tile)),
        _ => tile,
    };
    let (heads, tid) = (q.extent(2), k.thread());
    let (head, batch) = (&rest % &heads, &rest / &heads);
    let of_keys = &head / &scores_of.group;
    if plan.early && plan.prefetch.is_none() {
        begin_early(&mut k);
    }
    // The rows of the block's sequence, among those of all.
    let (mut q, mut keys, mut values, mut output) = (q, keys, values, output);
    let mut batches = [batch.clone(), batch.clone()];
    if let Some(offsets) = &offsets[0] {
        let rows = q.extent(0) / plan.packs;
        let [first, end] = rows_of(&mut k, offsets, &batch, &rows, &scores_of.queries);
        let [from, to] = [&first, &end].map(|row| row * plan.packs);
        q = q.narrow(0, &from, &to);
        output = output.narrow(&from, &to);
        scores_of.queries = end - first;
        batches[0] = 0.into();
    }
    if let Some(offsets) = &offsets[1] {
        let rows = keys.extent(0);
        let [first, end] = rows_of(&mut k, offsets, &batch, &rows, &scores_of.keys);
        keys = keys.narrow(0, &first, &end);
        values = values.narrow(1, &first, &end);
        scores_of.keys = end - first;
        batches[1] = 0.into();
    }
    if let Some(lengths) = &of_lengths {
        let length = k.gather(&lengths.elements(&batch));
        let length = k.index_of(length.regs()[0], 0..1 << 32);
        scores_of.keys = length.min(&scores_of.keys);
    }
    let sequence = batch;
    // The parts of packed queries have rows for each sequence.
    let batch_of_output = match &output {
        KernelOutput::Parts { .. } => sequence.clone(),
        KernelOutput::Whole { .. } => batches[0].clone(),
    };
    let [batch, batch_of_keys] = batches;

    let [of_q, of_k, of_v] = tiles(plan);
    let [of_q_at_once, of_k_at_once, of_v_at_once] = steps(plan);
    let a = OperandTiles::new(&mut k, of_q, (&mma, Operand::A), q, (1, of_q_at_once))?;
    let b = (&mma, Operand::B);
    let [pool_of_keys, pool_of_values] = [&keys, &values].map(Tensor::clone);
    let asked = [&keys, &values].map(Tensor::clone);
    let keys = OperandTiles::new(&mut k, of_k, b, keys, (plan.stages, of_k_at_once))?;
    let values = OperandTiles::new(&mut k, of_v, b, values, (plan.stages, of_v_at_once))?;
    let paged = match (operands.page, table) {
        (Some(page), Some(table)) => Some(PagedTiles::new(
            &mut k,
            (plan, page),
            [&keys, &values],
            [pool_of_keys, pool_of_values, table],
            [sequence, of_keys.clone(), scores_of.keys.clone()],
        )?),
        _ => None,
    };
    let taken = shared(operands, plan.tile, plan.stages);
    if let bytes @ 1.. = bounding(plan.beside, arch) - taken {
        k.shared_tensor(colex_atom::Ty::U8, Layout::new(bytes, 1)?);
    }
    let scores = k.fragment_of(&mma, Operand::C, [bm, bn]); // (MMA, MMA_M, MMA_N)
    let softmax = Softmax::new(&mut k, &mma, plan)?;
    let places = mma.at(&tid).places(Operand::C, [bm, bn]);
    let mut visible = Visible::new(&scores_of, places, &softmax.rows, &tile, plan)?;
    if let Some((part, parts)) = &part {
        visible.narrow(part, parts);
    }
    if operands.packed[0] {
        // The tile lies behind the last query of a sequence that is shorter than others.
        let rows = &scores_of.queries * plan.packs;
        visible.end = Index::select_less(&visible.row, &rows, &visible.end, &visible.first);
    }

    if let Some(steps) = plan.prefetch {
        for index in [&visible.first, &visible.end, &tile, &head, &batch, &of_keys] {
            // What the first addresses are computed from: most of it is divisions.
            k.value(index);
        }
        visible.ask(&mut k, (plan, steps), &asked, [&of_keys, &batch_of_keys])?;
        begin_early(&mut k);
    }

    let (once, landed) = k.cp_async_pipeline(1);
    let stage = once.acquire(&mut k);
    a.fetch(&mut k, [&tile, &0.into(), &head, &batch], &stage);
    once.commit(&mut k, &stage);
    let (producer, consumer) = k.cp_async_pipeline(plan.stages);
    // Tiles beyond the last one that the block sees lie beyond the keys: their copies yield zeros and read nothing.
    let beyond = &scores_of.keys / bn + 1;
    let fetch = |k: &mut Builder, step: &Index| {
        let stage = producer.acquire(k);
        let next = step + 1;
        let step = Index::select_less(step, &visible.end, step, &beyond);
        match &paged {
            Some(pages) => {
                pages.fetch(k, &step, &stage);
                pages.look_up(k, &next);
            }
            None => {
                keys.fetch(k, [&step, &0.into(), &of_keys, &batch_of_keys], &stage);
                values.fetch(k, [&0.into(), &step, &of_keys, &batch_of_keys], &stage);
            }
        }
        producer.commit(k, &stage);
    };
    if let Some(pages) = &paged {
        pages.look_up(&mut k, &visible.first);
    }
    for step in 0..plan.stages - 1 {
        fetch(&mut k, &(&visible.first + step));
    }
    let stage = landed.wait(&mut k);
    let steps = a.steps();
    for i in 0..steps {
        a.read(&mut k, i, &stage);
    }
    k.for_(&visible.first, &visible.end, 1, |k, step| {
        let stage = consumer.wait(k);
        fetch(k, &(step + (plan.stages - 1)));
        k.clear(&scores);
        for i in 0..steps {
            keys.read(k, i, &stage);
            k.mma(&mma, &scores, &a.step(i), &keys.step(i), &scores);
        }
        if let Some(inner) = scores_of.inner {
            k.assign(&scores, (Expr::from(&scores) * Expr::from(inner)).tanh());
        }
        visible.hide(k, &scores, step);
        softmax.step(k, &scores, scores_of.factor);
        let weights = k.convert(&scores, ty);
        let weights = weights.as_operand(&mma, &mma, Operand::A, [bm, bn]);
        for i in 0..values.steps() {
            values.read(k, i, &stage);
            let of_step = weights.slice((.., .., i));
            k.mma(&mma, &softmax.out, &of_step, &values.step(i), &softmax.out);
        }
        consumer.release(k, &stage);
    });
    // A block must not end while its `cp.async` copies write to its shared memory.
    producer.tail(&mut k);
    softmax.join(&mut k);
    let mut behind = vec![head.clone(), batch_of_output];
    let (result, to) = match output {
        KernelOutput::Parts { outputs, rows } => {
            behind.extend(part.map(|(part, _)| part));
            for (values, to) in [&softmax.top, &softmax.sum].into_iter().zip(rows) {
                visible.store(&mut k, values, (&to, &behind));
            }
            (softmax.out, outputs)
        }
        KernelOutput::Whole { o, log_sums, sinks } => {
            let sinks = sinks.map(|of| {
                let values = k.row_values(&softmax.rows, F32);
                visible.sinks(&mut k, values, (&of, &head))
            });
            softmax.end(&mut k, sinks.as_ref());
            if let Some(log_sums) = log_sums {
                visible.store(&mut k, &softmax.sum, (&log_sums, &behind));
            }
            (k.convert(&softmax.out, ty), o)
        }
    };
    let store = match (plan.splits, operands.vectors[AttentionTensor::O as usize]) {
        (2.., _) => "UniversalCopy<uint64_t>",
        (_, 1) => "UniversalCopy<uint16_t>",
        _ => "UniversalCopy<uint32_t>",
    };
    let bits = i64::from(result.ty().bits());
    let store = TiledCopy::for_operand(colex_atom::copy(store)?, bits, &mma, Operand::C)?;
    let at: Vec<Index> = [tile, 0.into()].into_iter().chain(behind).collect();
    let tile = to.local_tile((bm, outer), at);
    let into = store.at(&tid).partition_dst(&tile); // (CPY, CPY_M, CPY_N)
    k.copy_in_bounds(&store, &result.retile(&store), &into);
    k.finish()
}

/// The types of the sums and of offsets.
const F32: colex_atom::Ty = colex_atom::Ty::F32;
const U32: colex_atom::Ty = colex_atom::Ty::U32;

/// Where a block's rows go.
enum KernelOutput {
    /// To O, and their log-sum-exp to its tensor if it is an output. A head may have a sink.
    Whole {
        o: Tensor,
        log_sums: Option<Box<Tensor>>,
        sinks: Option<Box<Tensor>>,
    },
    /// To the workspace: the outputs of a part of the keys before the division, and the maxima and sums of its rows.
    Parts { outputs: Tensor, rows: Vec<Tensor> },
}

impl KernelOutput {
    /// The rows from `first` to `end` of O and of the log-sum-exp. The parts have rows for each sequence: as many as these, from 0
    /// on.
    fn narrow(self, first: &Index, end: &Index) -> KernelOutput {
        let rows = |tensor: &Tensor| tensor.narrow(0, first, end);
        match self {
            KernelOutput::Whole { o, log_sums, sinks } => KernelOutput::Whole {
                o: rows(&o),
                log_sums: log_sums.map(|sums| Box::new(rows(&sums))),
                sinks,
            },
            KernelOutput::Parts {
                outputs,
                rows: of_parts,
            } => {
                let count = end - first;
                let rows = |tensor: &Tensor| tensor.narrow(0, 0, &count);
                KernelOutput::Parts {
                    outputs: rows(&outputs),
                    rows: of_parts.iter().map(rows).collect(),
                }
            }
        }
    }
}

/// The arguments of the scores: the lengths, the group, the factor, the soft-cap's factor and the window.
struct Scores {
    queries: Index,
    keys: Index,
    /// The packs of heads of Q that read one head of K.
    group: Index,
    /// What multiplies a score in the exponent of 2.
    factor: Reg,
    /// What multiplies a score before its hyperbolic tangent.
    inner: Option<Reg>,
    /// How many keys before a query's place, and how many after it, the query sees.
    left: Option<Index>,
    right: Option<Index>,
}

impl Scores {
    fn declare(k: &mut Builder, plan: &AttentionPlan) -> Scores {
        let operands = &plan.operands;
        let [left, right] = operands.bounded;
        Scores {
            queries: k.index_argument("queries", 1..MOST_LENGTH / plan.packs + 1),
            keys: k.index_argument("keys", 0..MOST_LENGTH + 1),
            group: k.index_argument("group", 1..MAX_EXTENT + 1),
            factor: k.scalar_argument("factor", Type::F32),
            inner: (operands.softcap).then(|| k.scalar_argument("inner", Type::F32)),
            left: left.then(|| k.index_argument("left", 0..MOST_LENGTH + 1)),
            // A causal mask is a window without keys on this side.
            right: match (left, right) {
                (true, true) => Some(k.index_argument("right", 0..MOST_LENGTH + 1)),
                (false, true) => Some(0.into()),
                (_, false) => None,
            },
        }
    }

    /// Returns the values of a problem.
    fn arguments(plan: &AttentionPlan, problem: &AttentionProblem) -> Vec<Argument> {
        // The launch refuses a number that the kernel does not take.
        let number = |n: i64| Argument::U32(u32::try_from(n).unwrap_or(u32::MAX));
        let [heads, of_keys] = problem.heads;
        let [factor, inner] = problem.factors();
        let mut all = problem.lengths.map(number).to_vec();
        all.push(number(heads / of_keys.max(1) / plan.packs));
        all.push(Argument::F32(factor));
        if problem.softcap.is_some() {
            all.push(Argument::F32(inner));
        }
        if let Mask::Window { left, right } = problem.mask {
            // No query is further from a key than this.
            all.extend([left, right].map(|n| number(MOST_LENGTH.min(n.into()))));
        }
        all
    }
}

/// The keys that the queries of a block see.
struct Visible<'a> {
    of: &'a Scores,
    places: Places,
    /// The row of a thread, among those it has a part of, of each score.
    slots: Layout,
    tile: [i64; 2],
    /// The heads of Q that share a tile: a row is (head of the pack, query).
    packs: i64,
    /// The place of query 0 among the keys.
    shift: Index,
    /// The block's first row.
    row: Index,
    /// The first tile of keys, and the end of the tiles.
    first: Index,
    end: Index,
}

impl<'a> Visible<'a> {
    fn new(
        of: &'a Scores,
        places: Places,
        rows: &Rows,
        tile: &Index,
        plan: &AttentionPlan,
    ) -> Result<Visible<'a>, Error> {
        let [bm, bn] = plan.tile;
        let row = tile * bm;
        let shift = &of.keys - &of.queries;
        let past = ((&row + (bm - 1)) / plan.packs + 1).min(&of.queries);
        let seen = match &of.right {
            Some(right) => above_0(&(past + &shift + right).min(&of.keys)),
            None => of.keys.clone(),
        };
        let place = &row / plan.packs + &shift;
        let first = match &of.left {
            Some(left) => above_0(&(&place - left)) / bn,
            None => 0.into(),
        };
        Ok(Visible {
            of,
            places,
            slots: rows.layout().clone(),
            tile: plan.tile,
            packs: plan.packs,
            shift,
            row,
            first,
            end: (seen + (bn - 1)) / bn,
        })
    }

    /// The place among the keys of the query of a row of the tile.
    fn place(&self, row: impl Into<Index>) -> Index {
        (&self.row + row.into()) / self.packs + &self.shift
    }

    /// Sets scores of keys that are not there, or that the mask hides, to minus infinity. A step of which every query sees
    /// every key has none.
    fn hide(&self, k: &mut Builder, scores: &Fragment, step: &Index) {
        let [bm, bn] = self.tile;
        let start = step * bn;
        let end = |place: &Index| match &self.of.right {
            Some(right) => (place + right + 1).min(&self.of.keys),
            None => self.of.keys.clone(),
        };
        let of_first = end(&self.place(0));
        let mut sees_all = k.less(&(&start + (bn - 1)), &of_first);
        if let Some(left) = &self.of.left {
            let from = k.less(&(self.place(bm - 1) - 1 - left), &start);
            sees_all = k.both(sees_all, from);
        }
        k.if_(Builder::not(sees_all), |k| {
            k.mask(scores, f64::NEG_INFINITY, |k, i| {
                let [m, n] = &self.places[i];
                let (place, key) = (self.place(m), &start + n);
                let mut sees = k.less(&key, &end(&place));
                if let Some(left) = &self.of.left {
                    let from = k.less(&(place - left - 1), &key);
                    sees = k.both(sees, from);
                }
                sees
            });
        });
    }

    /// Keeps one of the parts of the tiles of keys: as many tiles in each, or none in the last ones.
    fn narrow(&mut self, part: &Index, parts: &Index) {
        let tiles = above_0(&(&self.end - &self.first));
        let of_part = (tiles + (parts - 1)) / parts;
        let first = &self.first + part * &of_part;
        // The last parts begin no later than where the keys end: a place that 32 bits hold for every tile.
        let first = first.min(&self.end);
        self.end = (&first + of_part).min(&self.end);
        self.first = first;
    }

    /// Asks the L2 cache for the keys and values of the first steps that are whole. It reads nothing that the kernel sees, so the launch before
    /// this one may still write them. One thread makes a request for each step and tensor, where the rows of a head follow each
    /// other in memory. Where they do not, each row needs its own request, and a warp makes those of its lanes one after the
    /// other, which takes longer than the wait: there are none.
    fn ask(
        &self,
        k: &mut Builder,
        (plan, steps): (&AttentionPlan, i64),
        tensors: &[Tensor; 2],
        [head, batch]: [&Index; 2],
    ) -> Result<(), Error> {
        let [_, bn] = plan.tile;
        let bits = i64::from(plan.operands.ty.bits());
        let atom = colex_atom::copy("SM90_BULK_COPY_G2S::PREFETCH")?;
        let first = &self.first * bn;
        let end = (&self.end * bn).min(&self.of.keys);
        let [keys, values] = tensors;
        let rows = |row: &Index| {
            [
                keys.elements((row, 0, head, batch)),
                values.elements((0, row, head, batch)),
            ]
        };
        // An address outside of the tensor is 0.
        let at = rows(&first).map(|row| k.addresses(&row).regs()[0]);
        let next = rows(&(&first + 1)).map(|row| k.addresses(&row).regs()[0]);
        let thread = k.thread();
        let is_first = k.equal(&thread, &0.into());
        for (i, features) in plan.operands.features.into_iter().enumerate() {
            let of_row = features * bits / 8;
            let atom = atom.with_bits(8 * bn * of_row)?;
            let is_run = k.emit(|ir| {
                let apart = ir.sub(Type::U64, next[i], at[i]);
                ir.setp(Compare::Eq, Type::U64, apart, of_row)
            });
            for step in 0..steps {
                let from = &first + step * bn;
                let exists = k.less(&(&from + (bn - 1)), &end);
                let asks = k.both(is_first, exists);
                let args = CopyArgs {
                    src: End::Memory(Address::from(at[i]).at(step * bn * of_row)),
                    ..CopyArgs::default()
                };
                k.if_(asks, |k| {
                    k.emit(|ir| ir.when(is_run, |ir| ir.copy_atom(&atom, args)));
                });
            }
        }
        Ok(())
    }

    /// Returns the sinks of a thread's rows as exponents of 2, in the fragment `values`. The head is a pack where heads are packed.
    fn sinks(&self, k: &mut Builder, values: Fragment, (of, head): (&Tensor, &Index)) -> Fragment {
        for (slot, m) in self.rows(&values) {
            let head = head * self.packs + (&self.row + m) % self.packs;
            let sink = k.gather(&of.elements(head));
            k.assign(&values.values(slot, 1), Expr::from(&sink) * LOG2_E);
        }
        values
    }

    /// The slots of a fragment that has a number for each row, with their rows in the tile.
    fn rows(&self, values: &Fragment) -> Vec<(i64, Index)> {
        let slots = self.slots.offsets().expect("accumulators have places");
        let slots: Vec<i64> = slots.collect();
        let row = |slot: i64| {
            let first = slots.iter().position(|s| *s == slot);
            let [m, _] = &self.places[first.expect("a row has scores") as i64];
            (slot, m.clone())
        };
        (0..values.layout().size()).map(row).collect()
    }

    /// Stores a number of each row, by the thread that has the first column of the row.
    fn store(&self, k: &mut Builder, values: &Fragment, (to, behind): (&Tensor, &[Index])) {
        let [_, column] = &self.places[0];
        for (slot, m) in self.rows(values) {
            let is_first = Expr::from(column).equals(0);
            let at = [&self.row + m].into_iter().chain(behind.iter().cloned());
            let at: Vec<Expr> = at.map(Expr::from).collect();
            let at = to.elements(at).only(is_first);
            k.scatter(values.values(slot, 1), &at);
        }
    }
}

/// A softmax whose rows arrive in pieces: the maximum so far, and the sums under it.
struct Softmax {
    rows: Rows,
    rows_of_out: Rows,
    /// The maximum of the scores times the factor.
    top: Fragment,
    /// The sum of the powers, at the end its logarithm.
    sum: Fragment,
    out: Fragment,
}

impl Softmax {
    fn new(k: &mut Builder, mma: &TiledMma, plan: &AttentionPlan) -> Result<Softmax, Error> {
        let ([bm, bn], outer) = (plan.tile, plan.operands.features[1]);
        let rows = Rows::new(mma, [bm, bn])?;
        let f32 = colex_atom::Ty::F32;
        let (top, sum) = (k.row_values(&rows, f32), k.row_values(&rows, f32));
        k.fill(&top, f64::NEG_INFINITY);
        k.fill(&sum, 0.0);
        Ok(Softmax {
            rows,
            rows_of_out: Rows::new(mma, [bm, outer])?,
            top,
            sum,
            out: k.accumulators(mma, [bm, outer]), // (MMA, MMA_M, MMA_N)
        })
    }

    /// Turns scores into weights under the new maximum, `2^(factor score - top)`, and brings the sums under it.
    fn step(&self, k: &mut Builder, scores: &Fragment, factor: Reg) {
        let f32 = colex_atom::Ty::F32;
        let rows = &self.rows;
        let (new, under) = (k.row_values(rows, f32), k.row_values(rows, f32));
        k.fill(&new, f64::NEG_INFINITY);
        let of_row = rows.broadcast_rows(&new);
        k.assign(&of_row, Expr::from(&of_row).max(scores));
        k.reduce_rows(BinaryOp::Max, rows, &new);
        // The maximum is kept rounded after the factor, as it is subtracted: what remains of earlier weights is exact
        // also where scores are large.
        k.assign(&new, (Expr::from(&new) * Expr::from(factor)).max(&self.top));
        // A row that has seen no key has the maximum -inf, from which nothing is subtracted.
        let is_empty = Expr::from(&new).equals(f64::NEG_INFINITY);
        k.assign(&under, is_empty.select(0.0, &new));
        let shrink = k.map((&self.top - &under).exp2());
        k.assign(&self.top, &new);
        k.assign(&self.sum, &self.sum * &shrink);
        let shrink = self.rows_of_out.broadcast_rows(&shrink);
        k.assign(&self.out, &self.out * &shrink);

        k.assign(&under, -&under);
        let under = rows.broadcast_rows(&under);
        k.assign(
            scores,
            Expr::from(scores).fma(Expr::from(factor), &under).exp2(),
        );
        let sum = rows.broadcast_rows(&self.sum);
        k.assign(&sum, &sum + scores);
    }

    /// Adds the parts of the sums that the lanes of a row have.
    fn join(&self, k: &mut Builder) {
        k.reduce_rows(BinaryOp::Add, &self.rows, &self.sum);
    }

    /// Adds the sinks of the rows, divides by the sums, and leaves their logarithms.
    fn end(&self, k: &mut Builder, sinks: Option<&Fragment>) {
        let shrink = sinks.map(|sinks| add_sink(k, [&self.top, &self.sum], sinks));
        let checked = checked_sum(&(&self.top).into(), &(&self.sum).into());
        k.assign(&self.sum, checked);
        let is_empty = Expr::from(&self.sum).equals(0.0);
        let inverse = k.map(is_empty.select(0.0, Expr::from(&self.sum).recip()));
        if let Some(shrink) = shrink {
            k.assign(&inverse, &inverse * &shrink);
        }
        let inverse = self.rows_of_out.broadcast_rows(&inverse);
        k.assign(&self.out, &self.out * &inverse);
        k.assign(&self.sum, (Expr::from(&self.sum).log2() + &self.top) * LN_2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::AttentionMethod;
    use colex_atom::Ty;

    /// Each number of a problem is that of the argument, also of more heads than there can be queries: the kernel finds the head of K by
    /// them.
    #[test]
    fn law_the_numbers_of_the_scores_are_those_of_the_problem() {
        let mut cases = 0;
        let groups = [1, 8, 1 << 28, (1 << 28) + 1, (1 << 29) + 11, MAX_EXTENT];
        let lengths = [[1, 0], [7, 300], [MOST_LENGTH, MOST_LENGTH]];
        for (group, lengths) in groups.into_iter().flat_map(|n| lengths.map(|of| (n, of))) {
            for mask in [
                Mask::Full,
                Mask::Window {
                    left: 3,
                    right: u32::MAX,
                },
            ] {
                let mut problem = AttentionProblem::new(Ty::F16, 1, [group, 1], lengths, [64; 2]);
                problem.strides[AttentionTensor::Q as usize] = [0, 64, 64, 1];
                let operands = AttentionOperands::of(&problem.mask(mask), [0; 4]);
                let plan = AttentionPlan::new(AttentionMethod::Ampere, operands);
                let found = Scores::arguments(&plan, &problem.mask(mask));
                let [factor, _] = problem.factors();
                let right = [lengths[0], lengths[1], group].map(|n| Argument::U32(n as u32));
                let mut right = right.to_vec();
                right.push(Argument::F32(factor));
                if mask != Mask::Full {
                    right.extend([3, MOST_LENGTH as u32].map(Argument::U32));
                }
                assert_eq!(found, right, "{group} {lengths:?} {mask}");
                cases += 1;
            }
        }
        // A pack of heads counts once.
        let problem = AttentionProblem::new(Ty::F16, 1, [1 << 30, 1], [1, 9], [64; 2]);
        let operands = AttentionOperands::of(&problem, [0; 4]);
        let plan = AttentionPlan::new(AttentionMethod::Ampere, operands);
        let packed = Scores::arguments(&AttentionPlan { packs: 2, ..plan }, &problem);
        assert_eq!(packed[2], Argument::U32(1 << 29));
        // The kernel takes the most heads too.
        let device = Device::simulator(Arch::Sm80);
        let mut problem = AttentionProblem::new(Ty::F16, 1, [MAX_EXTENT, 2], [1, 9], [64; 2]);
        for strides in &mut problem.strides {
            strides[0] = 0;
        }
        let at = [1, 2, 3, 4].map(|i| i << 40);
        let launches = plan.launches(&problem, &device, &at).expect("a launch");
        let group = Argument::U32((MAX_EXTENT / 2) as u32);
        assert!(launches[0].arguments.contains(&group), "{launches:?}");
        println!("law attention.arguments: {cases} cases");
    }
}
