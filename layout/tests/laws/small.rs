//! All small layouts, built from numbers.

use colex_layout::{IntTuple, Layout};

/// The flat layout of `(extent, stride)` modes; a single mode stands without parentheses.
pub(crate) fn layout(modes: &[(i64, i64)]) -> Layout {
    if let [(extent, stride)] = modes {
        return Layout::leaf(*extent, *stride).expect("a positive extent and an integer stride");
    }
    let (shape, stride): (Vec<i64>, Vec<i64>) = modes.iter().copied().unzip();
    Layout::new(shape, stride).expect("positive extents and integer strides")
}

/// Every choice of one `(extent, stride)` for each of `rank` modes.
pub(crate) fn modes(rank: usize, extents: &[i64], strides: &[i64]) -> Vec<Vec<(i64, i64)>> {
    let leaf: Vec<_> = extents
        .iter()
        .flat_map(|&s| strides.iter().map(move |&d| (s, d)))
        .collect();
    let mut all = vec![vec![]];
    for _ in 0..rank {
        let longer = |m: &Vec<(i64, i64)>| {
            let m = m.clone();
            leaf.iter().map(move |l| [&m[..], &[*l]].concat())
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// Every nesting of `leaves` leaves that the laws are checked on.
pub(crate) fn nestings(leaves: usize) -> Vec<IntTuple> {
    let texts: &[&str] = match leaves {
        1 => &["0", "(0)", "((0))"],
        2 => &["(0,0)", "((0,0))", "((0),0)", "(0,(0))", "((0),(0))"],
        3 => &[
            "(0,0,0)",
            "(0,(0,0))",
            "((0,0),0)",
            "((0,0,0))",
            "((0,(0,0)))",
            "((0),(0,0))",
            "((0,(0)),0)",
        ],
        _ => panic!("nestings of {leaves} leaves are not listed"),
    };
    let nesting = |t: &&str| t.parse().expect("a tuple of zeros");
    texts.iter().map(nesting).collect()
}

/// The same modes in each of their nestings in turn, so that every nesting meets many modes.
pub(crate) fn nested(all: Vec<Vec<(i64, i64)>>) -> impl Iterator<Item = Layout> {
    let by_rank: Vec<Vec<IntTuple>> = (1..=3).map(nestings).collect();
    all.into_iter().enumerate().map(move |(i, modes)| {
        let choices = &by_rank[modes.len() - 1];
        let profile = &choices[i % choices.len()];
        let flat = layout(&modes).flatten();
        flat.unflatten(profile)
            .expect("as many leaves as the profile")
    })
}

/// Ranks 1 to 3, extents up to 7, negative strides and 0 among them, in all nestings by turns.
pub(crate) fn layouts() -> impl Iterator<Item = Layout> {
    let all: Vec<i64> = (1..=7).collect();
    let wide: Vec<i64> = (-4..=14).collect();
    nested(modes(1, &all, &wide))
        .chain(nested(modes(
            2,
            &all,
            &[-7, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 12],
        )))
        .chain(nested(modes(
            3,
            &[1, 2, 3, 4, 7],
            &[-1, 0, 1, 2, 3, 4, 6, 12],
        )))
}

/// Whether the laws walk all cases: with `all` in the environment variable `COLEX_LAWS`, as `cargo xtask soak` has it.
pub(crate) fn is_all() -> bool {
    std::env::var("COLEX_LAWS").as_deref() == Ok("all")
}

/// The step at which a law samples its cases: `n`, or 1 where the laws walk all.
pub(crate) fn every(n: usize) -> usize {
    if is_all() { 1 } else { n }
}

/// Each `n`-th of `all`, from another one for every number `i`, or all where the laws walk all: a law over pairs meets every left
/// and every right element.
pub(crate) fn in_turn<T>(
    i: usize,
    n: usize,
    all: impl Iterator<Item = T>,
) -> impl Iterator<Item = T> {
    let step = every(n);
    all.skip(i % step).step_by(step)
}
