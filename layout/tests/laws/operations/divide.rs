//! Division: the layout composed with the tile and what it skips, in four groupings.

use colex_layout::{IntTuple, Layout, Tiler, Unbounded};
use proptest::prelude::*;

use crate::law::law;
use crate::random;
use crate::reference::{at, is_compatible, leaves, table};
use crate::small;

fn divided() -> Vec<Layout> {
    let one = small::modes(1, &[1, 4, 6, 7, 12, 24], &[-1, 0, 1, 3]);
    let mut all = small::modes(2, &[2, 3, 4, 6, 8], &[1, 2, 4, 10]);
    all.extend(one);
    for shape in [[4, 6, 2], [6, 4, 8], [2, 7, 3], [8, 2, 4]] {
        for strides in [[1, 10, 100], [24, 1, 6], [2, 3, 5], [1, 0, 7]] {
            all.push(shape.into_iter().zip(strides).collect());
        }
    }
    small::nested(all).collect()
}

fn tiles() -> Vec<Layout> {
    let one = small::modes(1, &[1, 2, 3, 4, 6, 7, 8], &[0, 1, 2, 3, 4, 6, 8]);
    let two = small::modes(2, &[1, 2, 3, 4], &[1, 2, 3, 4, 6, 8]);
    small::nested(one.into_iter().chain(two).collect()).collect()
}

/// The offsets of the tile and those between tiles, by the definition: `T(i) + C(j)`.
fn visited(a: &Layout, tile: &Layout) -> Option<Vec<i64>> {
    let rest = tile.complement(a.coalesce(..).shape()).ok()?;
    let (inside, between) = (table(&leaves(tile)), table(&leaves(&rest)));
    let sum = |j: &i64| inside.iter().map(|i| i + j).collect::<Vec<_>>();
    Some(between.iter().flat_map(sum).collect())
}

/// Every pair with the indices that the tile and the rest visit, and the quotient if there is one.
fn each_pair(mut check: impl FnMut(&Layout, &Layout, &[i64], Option<Layout>)) {
    let tiles = tiles();
    for (i, a) in divided().into_iter().enumerate() {
        for tile in small::in_turn(i, 3, tiles.iter()) {
            if let Some(indices) = visited(&a, tile) {
                check(&a, tile, &indices, a.logical_divide(tile).ok());
            }
        }
    }
}

#[test]
fn divide_at() {
    law("divide_at", "pairs", 20_000, |count| {
        each_pair(|a, tile, indices, quotient| {
            let Some(quotient) = quotient else { return };
            let own = leaves(a);
            let expected: Vec<_> = indices.iter().map(|i| at(&own, *i)).collect();
            assert_eq!(
                table(&leaves(&quotient)),
                expected,
                "{a} / {tile} = {quotient}"
            );
            *count += 1;
        });
    });
}

#[test]
fn divide_rank() {
    law("divide_rank", "pairs", 20_000, |count| {
        each_pair(|a, tile, _, quotient| {
            let Some(quotient) = quotient else { return };
            assert_eq!(quotient.rank(), 2, "{a} / {tile} = {quotient}");
            let first = quotient.mode(0).expect("rank 2").shape();
            assert!(
                is_compatible(&tile.shape(), &first),
                "{a} / {tile} = {quotient}"
            );
            *count += 1;
        });
    });
}

/// Exact means that each index is visited once.
#[test]
fn divide_exact() {
    law("divide_exact", "pairs", 20_000, |count| {
        each_pair(|a, tile, indices, quotient| {
            if quotient.is_none() {
                return;
            }
            let mut sorted = indices.to_vec();
            sorted.sort_unstable();
            let once = sorted.iter().copied().eq(0..a.size());
            let tiler = Tiler::from(tile);
            assert_eq!(a.is_divided_by(&tiler), Ok(once), "{a} / {tile}");
            assert_eq!(a.logical_divide_exact(&tiler).is_ok(), once, "{a} / {tile}");
            *count += 1;
        });
    });
}

#[test]
fn evenly_divides_shapes() {
    let shapes: Vec<IntTuple> = (1..=24_i64).map(Into::into).collect();
    law("evenly_divides", "shapes and tiles", 1_000, |count| {
        for shape in &shapes {
            let n = shape.as_leaf().expect("an integer").value();
            for tile in tiles() {
                let Some(mut sorted) = visited(&small::layout(&[(n, 1)]), &tile) else {
                    continue;
                };
                sorted.sort_unstable();
                let once = sorted.iter().copied().eq(0..n);
                let tiler = Tiler::from(&tile);
                assert_eq!(shape.evenly_divides(&tiler), Ok(once), "{shape} by {tile}");
                let both = IntTuple::concat([shape, &6.into()]);
                let by_mode = Tiler::Modes(vec![tiler.clone(), 4.into()]);
                assert_eq!(
                    both.evenly_divides(&by_mode),
                    Ok(false),
                    "{both} by {by_mode}"
                );
                let by_mode = Tiler::Modes(vec![tiler, 3.into()]);
                assert_eq!(
                    both.evenly_divides(&by_mode),
                    Ok(once),
                    "{both} by {by_mode}"
                );
                *count += 1;
            }
        }
    });
}

/// By mode, each mode is divided by its own tile; the groupings hold the same modes.
#[test]
fn divide_by_mode() {
    let tiles: Vec<Layout> = small::modes(1, &[1, 2, 3, 4], &[1, 2])
        .iter()
        .map(|m| small::layout(m))
        .collect();
    law("divide_by_mode", "layouts and tilers", 10_000, |count| {
        for a in divided().iter().filter(|a| a.rank() > 1) {
            for (t, u) in tiles.iter().flat_map(|t| tiles.iter().map(move |u| (t, u))) {
                let tiler = Tiler::from([t, u]);
                let modes: Vec<_> = a.modes().collect();
                let parts = [modes[0].logical_divide(t), modes[1].logical_divide(u)];
                let [Ok(first), Ok(second)] = parts else {
                    assert!(a.logical_divide(&tiler).is_err(), "{a} / {tiler}");
                    continue;
                };
                let expected = [vec![first.clone(), second.clone()], modes[2..].to_vec()].concat();
                let logical = a.logical_divide(&tiler).expect("both parts divide");
                assert_eq!(
                    Ok(&logical),
                    Layout::concat(&expected).as_ref(),
                    "{a} / {tiler}"
                );
                check_groupings(a, &tiler, [&first, &second], &modes[2..]);
                *count += 1;
            }
        }
    });
}

fn check_groupings(a: &Layout, tiler: &Tiler, parts: [&Layout; 2], others: &[Layout]) {
    let half = |i: usize| parts.map(|p| p.mode(i).expect("rank 2"));
    let ([t0, t1], [r0, r1]) = (half(0), half(1));
    let concat = |modes: &[&Layout]| Layout::concat(modes.iter().copied()).expect("small");
    let rests: Vec<&Layout> = [&r0, &r1].into_iter().chain(others).collect();
    let tile = concat(&[&t0, &t1]);
    let name = || format!("{a} / {tiler}");
    assert_eq!(
        a.zipped_divide(tiler),
        Ok(concat(&[&tile, &concat(&rests)])),
        "{}",
        name()
    );
    let tiled: Vec<&Layout> = [&tile].into_iter().chain(rests.iter().copied()).collect();
    assert_eq!(a.tiled_divide(tiler), Ok(concat(&tiled)), "{}", name());
    let flat: Vec<&Layout> = [&t0, &t1].into_iter().chain(rests).collect();
    assert_eq!(a.flat_divide(tiler), Ok(concat(&flat)), "{}", name());
}

#[test]
fn divide_at_large() {
    let accepted = std::cell::Cell::new(0);
    let pairs = (random::compact(4), random::compact(3));
    random::check(5_000, pairs, |(a, tile)| {
        let Ok(quotient) = a.logical_divide(Tiler::from(&tile)) else {
            return Ok(());
        };
        let rest = tile
            .complement(a.coalesce(..).shape())
            .expect("the divide has it");
        let n = tile.size();
        for i in random::probes(&quotient) {
            let index = tile.at(i % n).and_then(|t| Ok((t, rest.at(i / n)?)));
            let Ok((t, r)) = index else { continue };
            if let (Ok(expected), Ok(got)) = (a.at(Unbounded(t + r)), quotient.at(i)) {
                prop_assert_eq!(got, expected, "{} / {} = {} at {}", a, tile, quotient, i);
            }
        }
        accepted.set(accepted.get() + 1);
        Ok(())
    });
    law("divide_at", "random pairs", 2_800, |count| {
        *count += accepted.get()
    });
}
