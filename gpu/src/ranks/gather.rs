//! All-gather and product: the first blocks send the rank's chunk of A to the others, one block for each, and raise a flag
//! there; the others multiply the chunks in the order in which they come, the rank's own first.

use colex_atom::Arch;
use colex_ir::{Compare, Kernel, Type};

use super::kernel::{Parts, dot, elements, raise, wait};
use super::plan::{RankPlan, Sizes};

pub(super) fn kernel(sizes: &Sizes, arch: Arch) -> Kernel {
    let mut p = Parts::new("gather_product", sizes, arch);
    let senders = sizes.ranks - 1;
    if senders == 0 {
        multiply(&mut p, 0);
        return p.k.finish();
    }
    let sends = p.k.setp(Compare::Lt, Type::U32, p.block, senders);
    p.branch(sends, send, |p| multiply(p, senders));
    p.k.finish()
}

/// One block sends the chunk of this rank to another one.
fn send(p: &mut Parts<'_>) {
    let sizes = p.sizes;
    let chunk = sizes.rows * sizes.k;
    let step = p.k.add(Type::U32, p.block, 1);
    let peer = p.after(step);
    let [there, arrived, ready] =
        [&p.shared, &p.arrived, &p.ready].map(|list| Parts::pick(&mut p.k, list, step));
    let (rank, round) = (p.rank, p.round);
    let own_ready = p.word(p.ready[0], peer);
    let [arrived, ready] = [arrived, ready].map(|flags| p.word(flags, rank));
    let first = p.is_first();
    p.k.if_(first, |k| {
        // The memory of this rank may be written from here on; and that of the other one, when it says so.
        raise(k, ready, round);
        wait(k, own_ready, round);
    });
    p.k.sync();
    let (a, thread) = (p.a, p.thread);
    let begin = p.k.mul(Type::U32, rank, chunk);
    let there = p.word(there, begin);
    p.k.for_range(thread, chunk, i64::from(RankPlan::THREADS), |k, i| {
        let offset = k.mul_wide(Type::U32, i, 4);
        let [from, to] = [a, there].map(|base| k.add(Type::S64, base, offset));
        let x = k.load(elements(), from);
        k.store(elements(), to, x);
    });
    p.k.sync();
    p.k.if_(first, |k| raise(k, arrived, round));
}

/// One block computes a tile of a chunk; `before` blocks come before those that do.
fn multiply(p: &mut Parts<'_>, before: i64) {
    let sizes = p.sizes;
    let number = p.k.sub(Type::U32, p.block, before);
    let step = p.k.div(Type::U32, number, sizes.tiles);
    let tile = p.k.rem(Type::U32, number, sizes.tiles);
    // The chunk of the rank `step` places before this one is the one that comes as number `step`.
    let back = p.k.sub(Type::U32, sizes.ranks, step);
    let chunk = p.after(back);
    let (round, rank) = (p.round, p.rank);
    let base = if before == 0 {
        p.a
    } else {
        let flag = p.word(p.arrived[0], chunk);
        let first = p.is_first();
        let is_own = p.k.setp(Compare::Eq, Type::U32, chunk, rank);
        p.k.if_else(is_own, |_| {}, |k| k.if_(first, |k| wait(k, flag, round)));
        p.k.sync();
        let begin = p.k.mul(Type::U32, chunk, sizes.rows * sizes.k);
        let gathered = p.word(p.shared[0], begin);
        p.k.selp(Type::B64, p.a, gathered, is_own)
    };
    let (_, [row, column], exists) = p.element(tile);
    let [row_of_a, row_of_b] = [(base, row), (p.b, column)].map(|(base, at)| p.word(base, at));
    let rows = p.k.mad(Type::U32, chunk, sizes.rows, row);
    let m = sizes.ranks * sizes.rows;
    let at = p.k.mad(Type::U32, column, m, rows);
    let to = p.word(p.c, at);
    p.k.if_(exists, |k| {
        let sum = dot(
            k,
            [row_of_a, row_of_b],
            [sizes.rows, sizes.columns],
            sizes.k,
        );
        k.store(elements(), to, sum);
    });
}
