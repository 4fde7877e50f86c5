//! Product and all-reduce: as product and reduce-scatter, but each owner stores its sums into C of all ranks, and counts their
//! tiles there; the last block of a rank waits for those of the others.

use colex_atom::Arch;
use colex_ir::{Address, Compare, Kernel, Type};

use super::kernel::{Parts, count, wait};
use super::plan::Sizes;
use super::scatter;

pub(super) fn kernel(sizes: &Sizes, arch: Arch) -> Kernel {
    let mut p = Parts::new("product_reduce", sizes, arch);
    let computes = sizes.ranks * sizes.tiles;
    let multiplies = p.k.setp(Compare::Lt, Type::U32, p.block, computes);
    p.branch(multiplies, scatter::multiply, |p| {
        let adds =
            p.k.setp(Compare::Lt, Type::U32, p.block, computes + sizes.tiles);
        p.branch(adds, |p| add(p, computes), settle);
    });
    p.k.finish()
}

/// One block adds the terms of a tile of this rank's chunk, for all ranks.
fn add(p: &mut Parts<'_>, before: i64) {
    scatter::add(p, before);
    let (rank, first) = (p.rank, p.is_first());
    let others: Vec<_> = p.landed.iter().skip(1).copied().collect();
    let others: Vec<_> = others.into_iter().map(|to| p.word(to, rank)).collect();
    p.k.sync();
    p.k.if_(first, |k| {
        others.into_iter().for_each(|counter| count(k, counter));
    });
}

/// The last block waits until the other ranks have stored their sums here: the kernel ends after that. It waits alone, so that all
/// blocks that add find a multiprocessor.
fn settle(p: &mut Parts<'_>) {
    let sizes = p.sizes;
    let least = p.k.mul(Type::U32, p.round, sizes.tiles);
    let (counters, rank, first) = (p.landed[0], p.rank, p.is_first());
    p.k.if_(first, |k| {
        for other in 0..sizes.ranks {
            let is_own = k.setp(Compare::Eq, Type::U32, rank, other);
            let counter = Address::from(counters).at(4 * other);
            k.if_else(is_own, |_| {}, |k| wait(k, counter, least));
        }
    });
}
