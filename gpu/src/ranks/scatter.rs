//! Product and reduce-scatter: each block computes a tile of a term of C and stores it into the slot of its rank at the chunk's
//! owner, the rank's own chunk last; the last blocks add the slots in the order of the ranks.

use colex_atom::Arch;
use colex_ir::{Compare, Kernel, Type};

use super::kernel::{Parts, count, dot, elements, raise, wait};
use super::plan::Sizes;

pub(super) fn kernel(sizes: &Sizes, arch: Arch) -> Kernel {
    let mut p = Parts::new("product_scatter", sizes, arch);
    let computes = sizes.ranks * sizes.tiles;
    let multiplies = p.k.setp(Compare::Lt, Type::U32, p.block, computes);
    p.branch(multiplies, multiply, |p| add(p, computes));
    p.k.finish()
}

/// One block computes a tile of the term of a chunk.
pub(super) fn multiply(p: &mut Parts<'_>) {
    let sizes = p.sizes;
    let each = sizes.rows * sizes.columns;
    let (rank, round) = (p.rank, p.round);
    let first = p.is_first();
    let is_block_0 = p.k.setp(Compare::Eq, Type::U32, p.block, 0);
    // The memory of this rank may be written from here on: the first block, which certainly runs, tells all others.
    let others: Vec<_> = p.ready.iter().skip(1).copied().collect();
    let others: Vec<_> = others
        .into_iter()
        .map(|flags| p.word(flags, rank))
        .collect();
    p.k.if_(is_block_0, |k| {
        k.if_(first, |k| {
            others.iter().for_each(|flag| raise(k, *flag, round))
        });
    });
    let step = p.k.div(Type::U32, p.block, sizes.tiles);
    let tile = p.k.rem(Type::U32, p.block, sizes.tiles);
    let next = p.k.add(Type::U32, step, 1);
    let number = p.k.rem(Type::U32, next, sizes.ranks);
    let owner = p.after(number);
    let [slots, arrived] = [&p.shared, &p.arrived].map(|list| Parts::pick(&mut p.k, list, number));
    let arrived = p.word(arrived, rank);
    let ready = p.word(p.ready[0], owner);
    let is_own = p.k.setp(Compare::Eq, Type::U32, number, 0);
    p.k.if_else(is_own, |_| {}, |k| k.if_(first, |k| wait(k, ready, round)));
    p.k.sync();
    let (index, [row, column], exists) = p.element(tile);
    let row = p.k.mad(Type::U32, owner, sizes.rows, row);
    let [row_of_a, row_of_b] = [(p.a, row), (p.b, column)].map(|(base, at)| p.word(base, at));
    let at = p.k.mad(Type::U32, rank, each, index);
    let to = p.word(slots, at);
    let m = sizes.ranks * sizes.rows;
    p.k.if_(exists, |k| {
        let sum = dot(k, [row_of_a, row_of_b], [m, sizes.columns], sizes.k);
        k.store(elements(), to, sum);
    });
    p.k.sync();
    p.k.if_(first, |k| count(k, arrived));
}

/// One block adds the terms of a tile of this rank's chunk; `before` blocks come before those that do.
pub(super) fn add(p: &mut Parts<'_>, before: i64) {
    let sizes = p.sizes;
    let each = sizes.rows * sizes.columns;
    let tile = p.k.sub(Type::U32, p.block, before);
    let least = p.k.mul(Type::U32, p.round, sizes.tiles);
    let (flags, first) = (p.arrived[0], p.is_first());
    p.k.if_(first, |k| {
        for rank in 0..sizes.ranks {
            wait(k, colex_ir::Address::from(flags).at(4 * rank), least);
        }
    });
    p.k.sync();
    let (index, [row, column], exists) = p.element(tile);
    let from = p.word(p.shared[0], index);
    let to = if sizes.reduces {
        // The same place of C on all ranks.
        let row = p.k.mad(Type::U32, p.rank, sizes.rows, row);
        let index = p.k.mad(Type::U32, column, sizes.ranks * sizes.rows, row);
        let all = p.sums.clone().into_iter();
        all.map(|c| p.word(c, index)).collect()
    } else {
        vec![p.word(p.c, index)]
    };
    p.k.if_(exists, |k| {
        let mut sum = k.load(elements(), from);
        for rank in 1..sizes.ranks {
            let apart = k.add(Type::S64, from, 4 * rank * each);
            let term = k.load(elements(), apart);
            sum = k.add(Type::F32, sum, term);
        }
        to.into_iter().for_each(|to| k.store(elements(), to, sum));
    });
}
