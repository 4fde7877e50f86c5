//! The order of packed sequences: a kernel that runs before that of the products, and sorts the sequences by their length.
//!
//! The host does not know the lengths, so that without an order every sequence has as many items as the longest one could
//! have, most of which are empty where lengths differ. The kernel writes two vectors into the workspace: the sequences in
//! descending order of their numbers of keys, and where the items of each begin. An item is a tile of queries of a head, or a
//! pair of them under a causal mask. The blocks of the second kernel take the items from the longest sequence on, forwards and
//! backwards in turn.
//!
//! A warp counts the sequences before its own, and their items. The counts are sums of integers, so that the order is the same
//! in every run.

use colex_atom::{Arch, Ty};
use colex_ir::BinaryOp;
use colex_ir::launch::{Argument, Launch};
use colex_layout::{Int, Layout};
use colex_tensor::{Arg, Builder, Error, Expr, Index, TensorKernel};

use super::family::rows_of;
use super::plan::AttentionPlan;
use super::problem::{AttentionProblem, MOST_LENGTH, Sequences};
use crate::gemm::sm90::begin_early;

/// The most sequences that are ordered: the work grows with the square of their number.
pub(crate) const MOST_SEQUENCES: i64 = 2048;

/// All items are fewer than this.
pub(crate) const MOST_ITEMS: i64 = 1 << 30;

/// The warps of a block, each of which has a sequence, and their lanes.
const WARPS: i64 = 8;
const LANES: i64 = 32;

/// The name of the kernel.
const NAME: &str = "attention_schedule";

/// Returns the bytes at which the first items and the order begin in the workspace, and its length.
pub(crate) fn places(problem: &AttentionProblem) -> [u64; 3] {
    // Each vector begins at a multiple of the alignment of a piece of memory.
    let bytes = |count: i64| {
        let bytes = count.saturating_mul(4).max(0) as u64;
        bytes.next_multiple_of(256)
    };
    let starts = bytes(problem.batch.saturating_add(1));
    [0, starts, starts.saturating_add(bytes(problem.batch))]
}

/// Returns the layouts of the two vectors: the first item of each sequence, and the end of the last; the sequences.
pub(crate) fn layouts(problem: &AttentionProblem) -> Result<[Layout; 2], colex_layout::Error> {
    let of = |count: i64| Layout::new(Int::Dynamic(count.max(1)), Int::Static(1));
    Ok([of(problem.batch.saturating_add(1))?, of(problem.batch)?])
}

/// Returns the tiles of queries of a head, the pairs of tiles, or the tiles of clusters, of a sequence of this length.
pub(crate) fn along(plan: &AttentionPlan, queries: i64) -> i64 {
    let rows = plan.tile[0].max(1);
    let tiles = queries / rows + i64::from(queries % rows > 0);
    if plan.pairs && plan.operands.is_causal() {
        tiles / 2 + tiles % 2
    } else {
        let blocks = plan.cluster.max(1);
        tiles / blocks + i64::from(tiles % blocks > 0)
    }
}

/// Returns the items of all sequences if each is as long as the longest: what the launch counts with.
pub(crate) fn most_items(plan: &AttentionPlan, problem: &AttentionProblem) -> i64 {
    along(plan, problem.lengths[0])
        .saturating_mul(problem.heads[0])
        .saturating_mul(problem.batch)
}

/// Returns the grid of the kernel.
pub(crate) fn launch(problem: &AttentionProblem) -> Launch {
    let blocks = (problem.batch + WARPS - 1) / WARPS;
    Launch::new(blocks as u32, (WARPS * LANES) as u32)
}

/// Returns the arguments behind the tensors.
pub(crate) fn numbers(problem: &AttentionProblem) -> Vec<Arg<'static>> {
    let rows = problem.sequences.map(|of| match of {
        Sequences::Packed { rows } => Some(rows),
        Sequences::Batch | Sequences::Paged { .. } => None,
    });
    let [queries, keys] = problem.lengths;
    let numbers = [queries, keys, problem.heads[0]].into_iter();
    let numbers = numbers.chain(rows.into_iter().flatten());
    numbers
        .map(|n| Arg::Value(Argument::U32(n as u32)))
        .collect()
}

/// Builds the kernel, with the parameters of [`AttentionPlan::build_schedule`].
pub(crate) fn build(plan: &AttentionPlan, arch: Arch) -> Result<TensorKernel, Error> {
    let operands = &plan.operands;
    let mut k = Builder::new(NAME, arch, (WARPS * LANES) as u32);
    let of_queries = k.tensor("query_offsets", Ty::U32, "3:_1");
    let of_keys = (operands.packed[1]).then(|| k.tensor("key_offsets", Ty::U32, "3:_1"));
    let key_lengths = (operands.page).map(|_| k.tensor("key_lengths", Ty::U32, "2:_1"));
    let starts = k.tensor("starts", Ty::U32, "3:_1");
    let order = k.tensor("order", Ty::U32, "2:_1");
    let most = ["queries", "keys"].map(|name| k.index_argument(name, 1..1 << 24));
    let heads = k.index_argument("heads", 1..1 << 16);
    let rows_of_queries = k.index_argument("rows_of_queries", 0..MOST_LENGTH + 1);
    let rows_of_keys =
        (operands.packed[1]).then(|| k.index_argument("rows_of_keys", 0..MOST_LENGTH + 1));

    let count = k.within(order.extent(0), 1..MOST_SEQUENCES + 1);
    // The number of keys of a sequence, by which an item takes its time, and its tiles or pairs of a head.
    let measured = |k: &mut Builder, sequence: &Index| -> [Index; 2] {
        let [first, end] = rows_of(k, &of_queries, sequence, &rows_of_queries, &most[0]);
        let queries = k.within(end - first, 0..1 << 24);
        let rows = plan.tile[0];
        let mut items = (&queries + (rows - 1)) / rows;
        if plan.pairs && operands.is_causal() {
            items = (items + 1) / 2;
        }
        let keys = match (&of_keys, &rows_of_keys, &key_lengths) {
            (Some(offsets), Some(rows), _) => {
                let [first, end] = rows_of(k, offsets, sequence, rows, &most[1]);
                k.within(end - first, 0..1 << 24)
            }
            (_, _, Some(lengths)) => {
                let length = k.gather(&lengths.elements(sequence));
                k.index_of(length.regs()[0], 0..1 << 32).min(&most[1])
            }
            _ => queries,
        };
        [keys, items]
    };
    let block = k.block_index(0);
    let block = k.within(block, 0..MOST_SEQUENCES / WARPS);
    let (warp, lane) = (k.uniform(LANES as u32), k.lane());
    let own = block * WARPS + k.within(&warp, 0..WARPS);
    if plan.early {
        begin_early(&mut k);
    }
    let is_one = k.less(&own, &count);
    k.if_(is_one, |k| {
        let [own_keys, own_items] = measured(k, &own);
        let before = k.var(0, 0..MOST_SEQUENCES + 1);
        let items = k.var(0, 0..MOST_ITEMS);
        k.for_(&lane, &count, LANES, |k, other| {
            let [keys, of_other] = measured(k, other);
            // Of two sequences with as many keys, that with the smaller number comes first.
            let first = keys + Index::select_less(other, &own, &1.into(), &0.into());
            let one = Index::select_less(&own_keys, &first, &1.into(), &0.into());
            let of_other = Index::select_less(&own_keys, &first, &of_other, &0.into());
            let now = k.get(&before);
            k.set(&before, now + one);
            let now = k.get(&items);
            k.set(&items, now + of_other);
        });
        let [rank, items] = [(&before, MOST_SEQUENCES), (&items, MOST_ITEMS)].map(|(of, end)| {
            let now = k.get(of);
            let own = Expr::register(k.value(&now), Ty::U32);
            let sum = k.reduce_warp(BinaryOp::Add, own);
            k.index_of(sum.regs()[0], 0..end)
        });
        let [start, end] =
            [items.clone(), items + own_items].map(|items| k.within(items * &heads, 0..MOST_ITEMS));
        let leads = k.equal(&lane, &0.into());
        k.if_(leads, |k| {
            let number = |k: &mut Builder, of: &Index| {
                let register = k.value(of);
                k.map(Expr::register(register, Ty::U32))
            };
            let [start, end, own] = [&start, &end, &own].map(|of| number(k, of));
            k.scatter(start, &starts.elements(&rank));
            k.scatter(own, &order.elements(&rank));
            let is_last = k.equal(&rank, &(&count - 1));
            k.if_(is_last, |k| k.scatter(end, &starts.elements(&count)));
        });
    });
    k.finish()
}
