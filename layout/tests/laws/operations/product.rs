//! Products: the block, and where its copies begin.

use colex_layout::{IntTuple, Layout, LayoutLeft, LayoutRight, Tiler};
use proptest::prelude::*;

use crate::law::law;
use crate::random;
use crate::reference::{leaves, table};
use crate::small;

fn blocks() -> Vec<Layout> {
    let one = small::modes(1, &[1, 2, 3, 4, 7], &[0, 1, 2, 3]);
    let two = small::modes(2, &[1, 2, 3, 4, 6], &[0, 1, 2, 3, 4, 6, 10]);
    small::nested(one.into_iter().chain(two).collect()).collect()
}

fn tilers() -> Vec<Layout> {
    let one = small::modes(1, &[1, 2, 3, 4, 6], &[0, 1, 2, 3]);
    let two = small::modes(2, &[1, 2, 3, 4], &[0, 1, 2, 3, 4, 6]);
    small::nested(one.into_iter().chain(two).collect()).collect()
}

fn each_product(mut check: impl FnMut(&Layout, &Layout, &Layout)) {
    let tilers = tilers();
    for (i, block) in blocks().into_iter().enumerate() {
        for tiler in small::in_turn(i, 3, tilers.iter()) {
            if let Ok(product) = block.logical_product(tiler) {
                check(&block, tiler, &product);
            }
        }
    }
}

fn is_injective(layout: &Layout) -> bool {
    let mut values = table(&leaves(layout));
    values.sort_unstable();
    values.windows(2).all(|w| w[0] != w[1])
}

#[test]
fn product_block() {
    law("product_block", "pairs", 100_000, |count| {
        each_product(|block, tiler, product| {
            assert_eq!(product.rank(), 2, "{block} x {tiler} = {product}");
            assert_eq!(
                product.mode(0).as_ref(),
                Some(block),
                "{block} x {tiler} = {product}"
            );
            *count += 1;
        });
    });
}

/// Copy `j` begins at place `T(j)` of the complement.
#[test]
fn product_at() {
    law("product_at", "pairs", 100_000, |count| {
        each_product(|block, tiler, product| {
            let n = tiler.cosize().expect("small");
            let places = block
                .complement(block.size() * n)
                .expect("the product has it");
            if places.size() < n {
                return;
            }
            let places = table(&leaves(&places));
            let expected: Vec<_> = table(&leaves(tiler))
                .iter()
                .map(|j| places[*j as usize])
                .collect();
            let copies = product.mode(1).expect("rank 2");
            assert_eq!(
                table(&leaves(&copies)),
                expected,
                "{block} x {tiler} = {product}"
            );
            *count += 1;
        });
    });
}

/// Copies of a block that repeats nothing do not overlap, unless the tiler repeats a copy.
#[test]
fn product_disjoint() {
    law("product_disjoint", "pairs", 15_000, |count| {
        each_product(|block, tiler, product| {
            if is_injective(block) && is_injective(tiler) {
                assert!(is_injective(product), "{block} x {tiler} = {product}");
                *count += 1;
            }
        });
    });
}

/// The modes of block and copies, both brought to one rank, side by side.
#[test]
fn blocked_and_raked_product() {
    law("blocked_and_raked_product", "pairs", 40_000, |count| {
        let tilers = tilers();
        for (i, block) in blocks().into_iter().enumerate() {
            for tiler in small::in_turn(i, 3, tilers.iter()) {
                let (blocked, raked) = (block.blocked_product(tiler), block.raked_product(tiler));
                // CuTe zips a single mode and a tuple in one order only.
                let single = block.rank().max(tiler.rank()) == 1;
                assert!(
                    single || blocked.is_ok() == raked.is_ok(),
                    "{block} x {tiler}"
                );
                let (Ok(blocked), Ok(raked)) = (blocked, raked) else {
                    continue;
                };
                check_sides(&block, tiler, &blocked, &raked);
                *count += 1;
            }
        }
    });
}

fn check_sides(block: &Layout, tiler: &Layout, blocked: &Layout, raked: &Layout) {
    let rank = block.rank().max(tiler.rank());
    let pad = |l: &Layout| {
        l.append_to_rank(rank, Layout::unit())
            .expect("at most this rank")
    };
    let product = pad(block).logical_product(pad(tiler)).expect("as blocked");
    let [blocks, copies] = [0, 1].map(|i| product.mode(i).expect("rank 2"));
    let sides = blocks.modes().zip(copies.modes());
    if blocks.is_leaf() {
        let sides = Layout::concat([&blocks, &copies]).expect("small");
        assert_eq!(
            Layout::concat([&sides]).as_ref(),
            Ok(blocked),
            "{block} x {tiler}"
        );
        return;
    }
    for (k, (b, c)) in sides.enumerate() {
        let inside = Layout::concat([&b, &c]).ok();
        assert_eq!(blocked.mode(k), inside, "{block} x {tiler}: {blocked}");
        let outside = Layout::concat([&c, &b]).ok();
        assert_eq!(raked.mode(k), outside, "{block} x {tiler}: {raked}");
    }
}

#[test]
fn product_by_mode() {
    let tiles: Vec<Layout> = small::modes(1, &[1, 2, 3], &[1, 2])
        .iter()
        .map(|m| small::layout(m))
        .collect();
    law("product_by_mode", "blocks and tilers", 15_000, |count| {
        for a in blocks().iter().filter(|a| a.rank() > 1) {
            for (t, u) in tiles.iter().flat_map(|t| tiles.iter().map(move |u| (t, u))) {
                let tiler = Tiler::from([t, u]);
                let modes: Vec<_> = a.modes().collect();
                let parts = [modes[0].logical_product(t), modes[1].logical_product(u)];
                let [Ok(first), Ok(second)] = parts else {
                    assert!(a.logical_product(&tiler).is_err(), "{a} x {tiler}");
                    continue;
                };
                let half = |i| [&first, &second].map(|p| p.mode(i).expect("rank 2"));
                let ([t0, t1], [r0, r1]) = (half(0), half(1));
                let concat = |m: &[&Layout]| Layout::concat(m.iter().copied()).expect("small");
                let tile = concat(&[&t0, &t1]);
                assert_eq!(
                    a.logical_product(&tiler),
                    Ok(concat(&[&first, &second])),
                    "{a} x {tiler}"
                );
                assert_eq!(
                    a.zipped_product(&tiler),
                    Ok(concat(&[&tile, &concat(&[&r0, &r1])]))
                );
                assert_eq!(
                    a.tiled_product(&tiler),
                    Ok(concat(&[&tile, &r0, &r1])),
                    "{a} x {tiler}"
                );
                assert_eq!(
                    a.flat_product(&tiler),
                    Ok(concat(&[&t0, &t1, &r0, &r1])),
                    "{a} x {tiler}"
                );
                *count += 1;
            }
        }
    });
}

/// The shape is reached, the block stands at the origin, and a compact block fills the target exactly.
#[test]
fn tile_to_shape_fills() {
    law(
        "tile_to_shape_fills",
        "blocks, targets and orders",
        500,
        |count| {
            for block in [[2, 4], [3, 2], [1, 8], [4, 1]] {
                let made =
                    [Layout::column_major(block), Layout::row_major(block)].map(Result::unwrap);
                for (m, n) in (1..=12).flat_map(|m| (1..=12).map(move |n| (m, n))) {
                    let target = IntTuple::from((m, n));
                    let divides = m % block[0] == 0 && n % block[1] == 0;
                    for b in &made {
                        for tiled in [
                            b.tile_to_shape(&target, LayoutLeft),
                            b.tile_to_shape(&target, LayoutRight),
                            b.tile_to_shape(&target, (2, 1)),
                        ] {
                            assert_eq!(tiled.is_ok(), divides, "{b} to {target}");
                            let Ok(tiled) = tiled else { continue };
                            assert_eq!(tiled.shape().product_each().as_ref(), Ok(&target));
                            let mut all = table(&leaves(&tiled));
                            for c in b.shape().coords().unwrap() {
                                assert_eq!(tiled.at(&c), b.at(&c), "{b} to {target}");
                            }
                            all.sort_unstable();
                            assert!(all.into_iter().eq(0..m * n), "{b} to {target}: {tiled}");
                            *count += 1;
                        }
                    }
                }
            }
        },
    );
}

#[test]
fn product_disjoint_large() {
    let accepted = std::cell::Cell::new(0);
    let pairs = (random::compact(3), random::compact(3));
    random::check(3_000, pairs, |(block, tiler)| {
        let Ok(product) = block.logical_product(Tiler::from(&tiler)) else {
            return Ok(());
        };
        prop_assert_eq!(product.mode(0), Some(block.clone()));
        prop_assert_eq!(
            product.is_injective(),
            Ok(true),
            "{} x {} = {}",
            block,
            tiler,
            product
        );
        accepted.set(accepted.get() + 1);
        Ok(())
    });
    law("product_disjoint", "random pairs", 2_000, |count| {
        *count += accepted.get()
    });
}
