//! The combination of the parts of the keys: the second kernel of a plan that divides them.
//!
//! A block of the first kernel attends to its part of the keys as if there were no others, and leaves in the workspace, for
//! each row, the maximum of the scores in the exponent of 2, the sum of the powers under it, and the output before the
//! division. The second kernel brings the parts of a row under their common maximum and adds them in a fixed order,
//! so that the same plan gives the same bits. A sink is one more term of a row's sum, which the second kernel adds once.
//!
//! A thread has four features of a row and adds all parts in the order of the keys, four of which it loads at once: with `n`
//! parts it waits for memory `n / 2` times, since it needs their common maximum first. In a plan by lanes a warp has the four features: lane `i`
//! adds parts `i`, `i + 32` and so on, each under the maximum so far, and the lanes add their sums by shuffles. Up to 32 parts
//! are one wait.
//!
//! The workspace has a row for each query that a sequence may have, also where queries are packed: sequences that overlap have
//! rows of their own. How many queries a packed sequence has is known on the device only. The second kernel reads the offsets as
//! the first one does, and neither reads nor stores anything for rows behind the last query of a sequence.

use std::f64::consts::{LN_2, LOG2_E};

use colex_atom::{Arch, Ty};
use colex_ir::launch::{Argument, Launch};
use colex_ir::{BinaryOp, Sync};
use colex_layout::{C, Int, Layout};
use colex_tensor::{Arg, Builder, Elements, Error, Expr, Fragment, Index, Tensor, TensorKernel};

use super::family::{checked_sum, rows_of};
use super::plan::AttentionPlan;
use super::problem::{AttentionProblem, AttentionTensor, Sequences};
use crate::gemm::sm90::begin_early;

/// The most parts of the keys.
pub(crate) const MOST_SPLITS: i64 = 128;

/// The most rows of all tiles together: the queries of all heads and sequences.
pub(crate) const MOST_ROWS: i64 = 1 << 24;

/// The threads of a block.
const THREADS: i64 = 128;

/// The features of a thread.
const VECTOR: i64 = 4;

/// The number of parts that a thread loads before it adds them, while there are as many.
const IN_FLIGHT: i64 = 4;

/// The lanes of a warp, which share the parts of a row in a plan by lanes.
const LANES: i64 = 32;

/// The name of the kernel.
const NAME: &str = "attention_combine";

/// The queries of all heads and sequences, each as long as the longest.
fn rows(problem: &AttentionProblem) -> i64 {
    let [heads, _] = problem.heads;
    let rows = problem.batch.saturating_mul(heads);
    rows.saturating_mul(problem.lengths[0])
}

/// Returns the bytes at which the outputs, the maxima and the sums of the parts begin in the workspace, and its length.
pub(crate) fn places(problem: &AttentionProblem, plan: &AttentionPlan) -> [u64; 4] {
    let rows = rows(problem).saturating_mul(plan.splits);
    let numbers = |of_row: i64| rows.saturating_mul(of_row).saturating_mul(4).max(0) as u64;
    let outputs = numbers(plan.operands.features[1]);
    // The alignment of a piece of memory.
    let one = numbers(1).next_multiple_of(256);
    let sums = outputs.saturating_add(one);
    [0, outputs, sums, sums.saturating_add(one)]
}

/// Returns the layouts of the parts as the first kernel writes them: ((head of the pack, sequence), feature, pack, batch, part)
/// for the outputs, and the same without features for the maxima and the sums.
pub(crate) fn written(
    problem: &AttentionProblem,
    plan: &AttentionPlan,
) -> Result<[Layout; 2], colex_layout::Error> {
    let ([heads, _], [queries, _], outer) =
        (problem.heads, problem.lengths, plan.operands.features[1]);
    let packs = plan.packs;
    let layout = |of_row: i64| {
        let dynamic = Int::Dynamic;
        let (queries, heads, batch) =
            (queries.max(1), (heads / packs).max(1), problem.batch.max(1));
        let pack = of_row.saturating_mul(packs).saturating_mul(queries);
        let sequence = pack.saturating_mul(heads);
        let part = sequence.saturating_mul(batch);
        let extents = [queries, heads, batch, plan.splits].map(dynamic);
        let [pack, sequence, part] = [pack, sequence, part].map(dynamic);
        let steps = [of_row, packs * of_row].map(Int::Static);
        (extents, steps, [pack, sequence, part])
    };
    let ([queries, heads, batch, parts], [of_head, of_query], [a, b, c]) = layout(outer);
    let (head, features) = (Int::Static(packs), Int::Static(outer));
    let outputs = Layout::new(
        ((head, queries), features, heads, batch, parts),
        ((of_head, of_query), Int::Static(1), a, b, c),
    )?;
    let (_, [of_head, of_query], [a, b, c]) = layout(1);
    let of_rows = Layout::new(
        ((head, queries), heads, batch, parts),
        ((of_head, of_query), a, b, c),
    )?;
    Ok([outputs, of_rows])
}

/// Returns the layouts of the second kernel: (row, feature, part) for the outputs of the parts, (row, part) for their maxima and
/// sums, then (row, feature) for O, (row, 1) for the log-sum-exp if it is an output, and (row, 1) for the sinks if there are any.
/// A row is (head of the pack, sequence,
/// pack, batch).
///
/// Of packed queries the layouts behind those of the parts are those of the first kernel: of O, of the log-sum-exp, of the sinks
/// and of the query offsets.
pub(crate) fn read(
    problem: &AttentionProblem,
    plan: &AttentionPlan,
) -> Result<Vec<Layout>, colex_layout::Error> {
    let dynamic = Int::Dynamic;
    let (outer, packs) = (plan.operands.features[1], plan.packs);
    let rows = rows(problem).max(1);
    let parts = dynamic(plan.splits);
    let of_part = dynamic(rows.saturating_mul(outer));
    let one = Int::Static(1);
    let mut all = vec![
        Layout::new(
            (dynamic(rows), Int::Static(outer), parts),
            (Int::Static(outer), one, of_part),
        )?,
        Layout::new((dynamic(rows), parts), (one, dynamic(rows)))?,
    ];
    if plan.operands.packed[0] {
        let optional = [problem.log_sum_exp, problem.sinks.is_some()];
        let behind = optional.map(usize::from).iter().sum::<usize>();
        // The query offsets come first behind them.
        let layouts = problem.kernel_layouts(packs)?.into_iter();
        all.extend(layouts.skip(AttentionTensor::O as usize).take(behind + 2));
        return Ok(all);
    }
    let row = |[of_batch, of_head, of_query]: [i64; 3]| {
        let pack = dynamic(of_head.saturating_mul(packs));
        (dynamic(of_head), dynamic(of_query), pack, dynamic(of_batch))
    };
    let [queries, heads, batch] =
        [problem.lengths[0], problem.heads[0] / packs, problem.batch].map(|n| dynamic(n.max(1)));
    let extents = (Int::Static(packs), queries, heads, batch);
    let [of_batch, of_head, of_query, of_feature] = problem.strides[AttentionTensor::O as usize];
    all.push(Layout::new(
        (extents, Int::Static(outer)),
        (row([of_batch, of_head, of_query]), Int::Static(of_feature)),
    )?);
    if problem.log_sum_exp {
        let strides = (row(problem.sum_strides), Int::Static(0));
        all.push(Layout::new((extents, one), strides)?);
    }
    if let Some(of_head) = problem.sinks {
        let strides = (row([0, of_head, 0]), Int::Static(0));
        all.push(Layout::new((extents, one), strides)?);
    }
    Ok(all)
}

/// Returns the grid of the second kernel.
pub(crate) fn launch(problem: &AttentionProblem, plan: &AttentionPlan) -> Launch {
    let of_item = if plan.by_lanes { LANES } else { 1 };
    let threads = rows(problem) * (plan.operands.features[1] / VECTOR) * of_item;
    let blocks = (threads + THREADS - 1) / THREADS;
    Launch::new(blocks as u32, THREADS as u32)
}

/// Returns the arguments of the second kernel behind its tensors: of packed queries the most queries of a sequence.
pub(crate) fn numbers(problem: &AttentionProblem, plan: &AttentionPlan) -> Vec<Arg<'static>> {
    let most = (plan.operands.packed[0]).then(|| problem.lengths[0].clamp(1, MOST_ROWS) as u32);
    let most = most.map(|most| Arg::Value(Argument::U32(most)));
    most.into_iter().collect()
}

/// Builds the second kernel. Its parameters are tensors of f32, the outputs of the parts, their maxima and their sums, then O,
/// the log-sum-exp if it is an output, and the sinks if there are any; of packed queries their offsets and the most queries of a
/// sequence. A thread has four features of a row, or in a plan by lanes a warp.
pub(crate) fn build(plan: &AttentionPlan, arch: Arch) -> Result<TensorKernel, Error> {
    let operands = &plan.operands;
    let ([inner, outer], f32) = (operands.features, Ty::F32);
    let mut k = Builder::new(NAME, arch, THREADS as u32);
    // Extents and strides are arguments: these serve the reports.
    let heads = [8 * plan.packs, 8];
    let mut form = AttentionProblem::new(operands.ty, 4, heads, [4, 1024], [inner, outer]);
    form.log_sum_exp = operands.log_sum_exp;
    form.sinks = operands.sinks.then_some(1);
    if operands.packed[0] {
        form.sequences[0] = Sequences::Packed { rows: 4096 };
    }
    let plan = AttentionPlan { splits: 2, ..*plan };
    let layouts = read(&form, &plan)?;
    let outputs = k.tensor("outputs", f32, &layouts[0]);
    let [tops, sums] = ["tops", "sums"].map(|name| k.tensor(name, f32, &layouts[1]));
    let o = k.tensor("O", operands.ty, &layouts[2]);
    let mut behind = layouts[3..].iter();
    let mut optional = |is_there: bool, name: &str, ty: Ty| {
        let layout = is_there.then(|| behind.next()).flatten()?;
        Some(k.tensor(name, ty, layout))
    };
    let log_sums = optional(operands.log_sum_exp, "log_sum_exp", f32);
    let sinks = optional(operands.sinks, "sinks", f32);
    let offsets = optional(operands.packed[0], "query_offsets", Ty::U32);
    let most = (offsets.is_some()).then(|| k.index_argument("queries", 1..MOST_ROWS + 1));

    let parts = k.within(outputs.extent(2), 1..MOST_SPLITS + 1);
    let vectors = outer / VECTOR;
    let block = k.block_index(0);
    let (item, lane) = if plan.by_lanes {
        let warps = THREADS / LANES;
        let (warp, lane) = (k.uniform(LANES as u32), k.lane());
        let block = k.within(block, 0..MOST_ROWS * 64 / warps);
        (block * warps + k.within(&warp, 0..warps), Some(lane))
    } else {
        let block = k.within(block, 0..MOST_ROWS * 64 / THREADS);
        (block * THREADS + k.thread(), None)
    };
    let (row, feature) = (&item / vectors, &item % vectors * VECTOR);
    match (plan.early, plan.next_early) {
        (true, false) => begin_early(&mut k),
        // The launch behind this one waits for its end, and so for that of the parts.
        (true, true) => k.emit(|ir| {
            ir.push(Sync::GridDependency { wait: false });
            ir.push(Sync::GridDependency { wait: true });
        }),
        (false, _) => {}
    }
    let mut to = RowOutput {
        o,
        log_sums,
        at: vec![row.clone()],
    };
    let (mut parts, mut of_sink) = (parts, vec![row.clone(), 0.into()]);
    if let (Some(offsets), Some(most)) = (&offsets, &most) {
        let (head, rest) = (&row % plan.packs, &row / plan.packs);
        let (query, rest) = (&rest % most, rest / most);
        let packs = to.o.extent(2);
        let (pack, sequence) = (&rest % &packs, rest / packs);
        let rows = to.o.extent(0) / plan.packs;
        let [first, end] = rows_of(&mut k, offsets, &sequence, &rows, most);
        // A row that no query has has no parts.
        parts = Index::select_less(&query, &(&end - &first), &parts, &0.into());
        of_sink = vec![&pack * plan.packs + &head];
        to = to.narrow([first, end].map(|row| row * plan.packs));
        to.at = vec![query * plan.packs + head, pack, 0.into()];
    }
    let of_parts = PartSums {
        tensors: [outputs, tops, sums],
        at: [row, feature.clone()],
        parts,
    };
    let sink = sinks.map(|sinks| {
        let at: Vec<Expr> = of_sink.iter().map(Expr::from).collect();
        let sink = k.gather(&sinks.elements(at));
        k.map(Expr::from(&sink) * LOG2_E)
    });
    let [top, sum, out] = match &lane {
        Some(lane) => of_parts.by_lanes(&mut k, lane, sink.as_ref()),
        None => of_parts.in_order(&mut k, sink.as_ref()),
    };
    let checked = checked_sum(&Expr::from(&top), &Expr::from(&sum));
    k.assign(&sum, checked);
    let is_empty = Expr::from(&sum).equals(0.0);
    let inverse = k.map(is_empty.select(0.0, Expr::from(&sum).recip()));
    k.assign(&out, &out * &inverse);
    let result = k.convert(&out, operands.ty);
    let vector = operands.vectors[AttentionTensor::O as usize].min(VECTOR);
    // All lanes have the result.
    let leads = lane.map(|lane| Expr::from(&lane).equals(0));
    for i in (0..VECTOR).step_by(vector as usize) {
        let to = to.output(&(&feature + i)).vectors(1, vector);
        let to = match &leads {
            Some(leads) => to.only(leads.clone()),
            None => to,
        };
        k.scatter(result.values(i, vector), &to);
    }
    if let Some(at) = to.log_sum() {
        let log_sum = k.map((Expr::from(&sum).log2() + &top) * LN_2);
        let is_first = Expr::from(&feature).equals(0);
        let is_first = match &leads {
            Some(leads) => is_first & leads.clone(),
            None => is_first,
        };
        k.scatter(&log_sum, &at.only(is_first));
    }
    k.finish()
}

/// A number, the same in every thread.
fn number(k: &mut Builder, value: f64) -> Fragment {
    let one = k.fragment(Ty::F32, (C::<1>, C::<0>));
    k.fill(&one, value);
    one
}

/// A row that sees no key has the maximum -inf, from which nothing is subtracted.
fn under(k: &mut Builder, top: &Fragment) -> Fragment {
    let is_empty = Expr::from(top).equals(f64::NEG_INFINITY);
    k.map(is_empty.select(0.0, top))
}

/// Where a row of the second kernel goes.
struct RowOutput {
    o: Tensor,
    log_sums: Option<Tensor>,
    /// The row; of packed queries (row of the sequence, pack, batch).
    at: Vec<Index>,
}

impl RowOutput {
    /// The rows of a sequence.
    fn narrow(self, [from, to]: [Index; 2]) -> RowOutput {
        let rows = |tensor: &Tensor| tensor.narrow(0, &from, &to);
        RowOutput {
            o: rows(&self.o),
            log_sums: self.log_sums.as_ref().map(rows),
            ..self
        }
    }

    /// The output from a feature on.
    fn output(&self, feature: &Index) -> Elements {
        let (row, behind) = (&self.at[..1], &self.at[1..]);
        let at = row.iter().chain([feature]).chain(behind);
        let at: Vec<Expr> = at.map(Expr::from).collect();
        self.o.elements(at)
    }

    /// The log-sum-exp, if it is an output. That of a row without further modes has a second one of extent 1.
    fn log_sum(&self) -> Option<Elements> {
        let mut at: Vec<Expr> = self.at.iter().map(Expr::from).collect();
        if at.len() == 1 {
            at.push(Expr::from(&Index::from(0)));
        }
        self.log_sums.as_ref().map(|sums| sums.elements(at))
    }
}

/// The parts of four features of a row.
struct PartSums {
    /// The outputs of the parts, their maxima and their sums.
    tensors: [Tensor; 3],
    /// The row, and the first of the features.
    at: [Index; 2],
    /// The number of parts.
    parts: Index,
}

impl PartSums {
    /// The loads of a part: its maximum, its sum and its outputs.
    fn load(&self, k: &mut Builder, part: &Index) -> [Fragment; 3] {
        let ([outputs, tops, sums], [row, feature]) = (&self.tensors, &self.at);
        let [top, sum] = [tops, sums].map(|of| k.gather(&of.elements((row, part))));
        let out = outputs.elements((row, feature, part));
        [top, sum, k.gather(&out.vectors(1, VECTOR))]
    }

    /// Adds the parts in their order: their common maximum first, then the sum and the outputs under it.
    fn in_order(&self, k: &mut Builder, sink: Option<&Fragment>) -> [Fragment; 3] {
        let ([_, tops, _], [row, _]) = (&self.tensors, &self.at);
        // The parts from `first` on: all loads of them, and then `add` for each.
        let each = |k: &mut Builder, add: &dyn Fn(&mut Builder, &Index, i64)| {
            let whole = &self.parts / IN_FLIGHT * IN_FLIGHT;
            k.for_(0, &whole, IN_FLIGHT, |k, first| add(k, first, IN_FLIGHT));
            k.for_(&whole, &self.parts, 1, |k, first| add(k, first, 1));
        };
        let top = number(k, f64::NEG_INFINITY);
        each(k, &|k, first, count| {
            let load = |i| k.gather(&tops.elements((row, first + i)));
            let loaded: Vec<Fragment> = (0..count).map(load).collect();
            for one in loaded {
                k.assign(&top, Expr::from(&top).max(&one));
            }
        });
        if let Some(sink) = sink {
            k.assign(&top, Expr::from(&top).max(sink));
        }
        let under = under(k, &top);
        let sum = number(k, 0.0);
        if let Some(sink) = sink {
            k.assign(&sum, (Expr::from(sink) - &under).exp2());
        }
        let out = k.fragment(Ty::F32, (C::<VECTOR>, C::<1>));
        k.clear(&out);
        each(k, &|k, first, count| {
            let loaded: Vec<_> = (0..count).map(|i| self.load(k, &(first + i))).collect();
            for [of_part, sum_of_part, out_of_part] in loaded {
                let weight = k.map((&of_part - &under).exp2());
                k.assign(&sum, Expr::from(&sum_of_part).fma(&weight, &sum));
                k.assign(&out, Expr::from(&out_of_part).fma(&weight, &out));
            }
        });
        [top, sum, out]
    }

    /// Adds the parts of each lane under the maximum so far, and then those of the lanes.
    fn by_lanes(&self, k: &mut Builder, lane: &Index, sink: Option<&Fragment>) -> [Fragment; 3] {
        let (top, sum) = (number(k, f64::NEG_INFINITY), number(k, 0.0));
        let out = k.fragment(Ty::F32, (C::<VECTOR>, C::<1>));
        k.clear(&out);
        k.for_(lane, &self.parts, LANES, |k, part| {
            let [of_part, sum_of_part, out_of_part] = self.load(k, part);
            let new = k.map(Expr::from(&top).max(&of_part));
            let under = under(k, &new);
            let [shrink, weight] = [&top, &of_part].map(|of| k.map((of - &under).exp2()));
            k.assign(&top, &new);
            k.assign(&sum, &sum * &shrink);
            k.assign(&sum, Expr::from(&sum_of_part).fma(&weight, &sum));
            k.assign(&out, &out * &shrink);
            k.assign(&out, Expr::from(&out_of_part).fma(&weight, &out));
        });
        let all = k.reduce_warp(BinaryOp::Max, &top);
        if let Some(sink) = sink {
            k.assign(&all, Expr::from(&all).max(sink));
        }
        let under = under(k, &all);
        let weight = k.map((Expr::from(&top) - &under).exp2());
        let sum = k.reduce_warp(BinaryOp::Add, &sum * &weight);
        if let Some(sink) = sink {
            let own = k.map((Expr::from(sink) - &under).exp2());
            k.assign(&sum, &sum + &own);
        }
        let out = k.reduce_warp(BinaryOp::Add, &out * &weight);
        [all, sum, out]
    }
}
