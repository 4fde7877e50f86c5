//! Laws of tensors over ranks: over all small shapes and numbers of ranks, and over random large ones.

use colex_layout::Layout;
use colex_sched::{
    ChunkSpan, ChunkTimes, ChunkWork, Collective, Error, GemmCoord, Overlap, OverlapPlan,
    Placement, RankLayout, Route, local_product,
};
use proptest::prelude::*;

/// All shapes of one to three modes with small extents.
fn shapes() -> Vec<Vec<i64>> {
    let mut all: Vec<Vec<i64>> = Vec::new();
    for a in 1..=6 {
        all.push(vec![a]);
        for b in 1..=6 {
            all.push(vec![a, b]);
            all.extend((1..=4).map(|c| vec![a, b, c]));
        }
    }
    all
}

/// The coordinates of an element, the first mode fastest.
fn coordinates(shape: &[i64], index: i64) -> Vec<i64> {
    let mut rest = index;
    let digits = shape.iter().map(|extent| {
        let digit = rest % extent;
        rest /= extent;
        digit
    });
    digits.collect()
}

fn index(shape: &[i64], coordinates: &[i64]) -> i64 {
    let modes = shape.iter().zip(coordinates).rev();
    modes.fold(0, |index, (extent, at)| index * extent + at)
}

/// The ranks that hold an element of a placement, and where in their parts, by its definition.
fn holders(placement: Placement, shape: &[i64], ranks: i64, element: i64) -> Vec<(i64, i64)> {
    match placement {
        Placement::Replicate | Placement::Partial => (0..ranks).map(|r| (r, element)).collect(),
        Placement::Shard(mode) => {
            let mut at = coordinates(shape, element);
            let part = shape[mode] / ranks;
            let rank = at[mode] / part;
            at[mode] %= part;
            let mut local = shape.to_vec();
            local[mode] = part;
            vec![(rank, index(&local, &at))]
        }
    }
}

#[test]
fn law_a_placement_holds_what_it_says() {
    let mut cases = 0;
    for shape in shapes() {
        let size: i64 = shape.iter().product();
        for ranks in 1..=6 {
            for placement in Placement::all(shape.len()) {
                let layout = placement.layout(&shape, ranks);
                if let Placement::Shard(mode) = placement
                    && shape[mode] % ranks != 0
                {
                    let (extent, next) = (shape[mode], (shape[mode] / ranks + 1) * ranks);
                    assert_eq!(
                        layout.unwrap_err().to_string(),
                        format!(
                            "mode {mode} of extent {extent} over {ranks} ranks: the extent must be a multiple, and {next} is \
                             the next one"
                        )
                    );
                    continue;
                }
                let layout = layout.unwrap();
                assert_eq!((layout.ranks(), layout.shape()), (ranks, &shape[..]));
                assert_eq!(layout.is_sum(), placement == Placement::Partial);
                for element in 0..size {
                    let held = layout.holders(element).unwrap();
                    assert_eq!(held, holders(placement, &shape, ranks, element));
                    assert_eq!(held.len() as i64, layout.times());
                    for (rank, local) in held {
                        assert_eq!(layout.index(local, rank), Ok(element));
                    }
                }
                // On one rank all but the sum are the same.
                let same = layout.placement().unwrap();
                let same = same.layout(&shape, ranks).unwrap();
                assert_eq!(same.is_sum(), layout.is_sum());
                assert!(
                    same.layout().is_same_function(layout.layout()),
                    "{placement}"
                );
                cases += size;
            }
        }
    }
    println!("law ranks.placements: {cases} cases");
}

/// What is wrong with a layout over ranks, by a list of all that it holds.
fn is_consistent(shape: &[i64], layout: &Layout) -> bool {
    let size: i64 = shape.iter().product();
    let ranks = layout.modes().last().unwrap().size();
    let part = layout.size() / ranks;
    let mut held = vec![vec![0; ranks as usize]; size as usize];
    for (at, index) in layout.offsets().unwrap().enumerate() {
        match held.get_mut(index as usize) {
            Some(held) => held[at / part as usize] += 1,
            None => return false,
        }
    }
    let times: Vec<i64> = held.iter().map(|ranks| ranks.iter().sum()).collect();
    times.iter().all(|n| *n > 0 && *n == times[0])
        && held.iter().flatten().all(|by_one| *by_one <= 1)
}

/// Holds a counterexample of a sentence against the list of what the layout holds.
fn check_counterexample(shape: &[i64], layout: &Layout, error: &Error) {
    let text = error.to_string();
    let start = format!(
        "{layout} over ({}): ",
        shape
            .iter()
            .map(i64::to_string)
            .collect::<Vec<_>>()
            .join(",")
    );
    let what = text
        .strip_prefix(&start)
        .unwrap_or_else(|| panic!("{text}"));
    let numbers: Vec<i64> = what
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .collect();
    let ranks = layout.modes().last().unwrap().size();
    let part = (layout.size() / ranks) as usize;
    let all: Vec<i64> = layout.offsets().unwrap().collect();
    let by = |element: i64| -> Vec<i64> {
        let places = all
            .iter()
            .enumerate()
            .filter(|(_, index)| **index == element);
        places.map(|(at, _)| (at / part) as i64).collect()
    };
    let modes = shape.len();
    if what.ends_with("is held by no rank") {
        assert!(by(index(shape, &numbers)).is_empty(), "{text}");
    } else if what.ends_with("twice") {
        let held = by(index(shape, &numbers[1..]));
        let times = held.iter().filter(|rank| **rank == numbers[0]).count();
        assert!(times > 1, "{text}");
    } else if what.contains("in another place") {
        let held = by(index(shape, &numbers[..modes]));
        assert!(
            numbers[modes..].iter().all(|rank| held.contains(rank)),
            "{text}"
        );
    } else {
        assert!(by(numbers[1]).contains(&numbers[0]), "{text}");
        assert!(numbers[1] >= shape.iter().product(), "{text}");
    }
}

#[test]
fn law_the_check_finds_what_a_list_finds() {
    let (mut right, mut wrong) = (0, 0);
    let modes: Vec<(i64, i64)> = [1, 2, 3, 4]
        .into_iter()
        .flat_map(|extent| [0, 1, 2, 3, 4, 6, 8].map(|stride| (extent, stride)))
        .collect();
    for shape in [
        vec![4],
        vec![6],
        vec![2, 2],
        vec![2, 4],
        vec![3, 4],
        vec![2, 2, 2],
    ] {
        for a in &modes {
            for b in &modes {
                for r in &modes {
                    let layout = Layout::new((a.0, b.0, r.0), (a.1, b.1, r.1)).unwrap();
                    let found = RankLayout::new(&shape, &layout, false);
                    assert_eq!(
                        found.is_ok(),
                        is_consistent(&shape, &layout),
                        "{layout} {shape:?}"
                    );
                    match found {
                        Ok(_) => right += 1,
                        Err(error) => {
                            assert!(error.is_inconsistent());
                            check_counterexample(&shape, &layout, &error);
                            wrong += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(right > 100 && wrong > 1000);
    println!("law ranks.consistent: {} cases", right + wrong);
}

proptest! {
    /// Compact modes of up to 62 bits dealt out to the part and to a grid of ranks, in any order, are consistent; with one stride
    /// changed they are not.
    #[test]
    fn law_large_layouts_are_consistent_until_a_stride_changes(
        bits in prop::collection::vec(1u32..8, 2..9),
        order in any::<u64>(),
        repeats in 1i64..5,
        broken in any::<usize>(),
    ) {
        let mut strides: Vec<(i64, i64)> = Vec::new();
        let mut end = 0;
        for bit in &bits {
            strides.push((1 << bit, 1i64 << end));
            end += bit;
        }
        let (mut part, mut rank): (Vec<_>, Vec<_>) = (Vec::new(), vec![(repeats, 0)]);
        for (at, mode) in strides.iter().enumerate() {
            if order >> at & 1 == 0 { part.push(*mode) } else { rank.push(*mode) }
        }
        part.push((1, 0));
        let turn = order as usize % part.len();
        part.rotate_left(turn);
        let built = |part: &[(i64, i64)], rank: &[(i64, i64)]| {
            let leaves = |modes: &[(i64, i64)]| -> Vec<Layout> {
                modes.iter().map(|(extent, stride)| Layout::leaf(*extent, *stride).unwrap()).collect()
            };
            let rank = Layout::concat(&leaves(rank)).unwrap();
            let mut all = leaves(part);
            all.push(rank);
            Layout::concat(&all)
        };
        let shape = [1i64 << (end / 2), 1 << (end - end / 2)];
        let layout = built(&part, &rank).unwrap();
        let tensor = RankLayout::new(&shape, &layout, false).unwrap();
        prop_assert_eq!(tensor.times(), repeats);
        for index in [0, (1i64 << end) - 1, (1 << end) / 3] {
            let held = tensor.holders(index).unwrap();
            prop_assert_eq!(held.len() as i64, repeats);
            for (rank, local) in held {
                prop_assert_eq!(tensor.index(local, rank).unwrap(), index);
            }
        }
        let moving: Vec<usize> = (0..part.len()).filter(|at| part[*at].0 > 1).collect();
        if !moving.is_empty() {
            let at = moving[broken % moving.len()];
            part[at].1 += 1;
            let layout = built(&part, &rank).unwrap();
            prop_assert!(RankLayout::new(&shape, &layout, false).unwrap_err().is_inconsistent());
        }
    }
}

/// Numbers that look random, and are small.
fn numbers(count: i64, seed: i64) -> Vec<i64> {
    (0..count)
        .map(|i| (i * i * 7 + i * 13 + seed * 31 + 5) % 17 - 8)
        .collect()
}

/// A tensor as the ranks hold it: of a sum, terms on every rank.
fn held(placement: Placement, shape: &[i64], ranks: i64, whole: &[i64]) -> Vec<Vec<i64>> {
    let layout = placement.layout(shape, ranks).unwrap();
    let mut parts = layout.split(whole).unwrap();
    if placement == Placement::Partial && ranks > 1 {
        for (rank, part) in (0..).zip(&mut parts) {
            let sign = if rank == 0 { 1 - ranks } else { 1 };
            part.iter_mut()
                .zip(numbers(whole.len() as i64, 3))
                .for_each(|(x, y)| *x += sign * y);
        }
    }
    parts
}

fn join(
    placement: Placement,
    shape: &[i64],
    ranks: i64,
    parts: &[Vec<i64>],
) -> Result<Vec<i64>, Error> {
    placement.layout(shape, ranks)?.join(parts, |a, b| a + b)
}

/// What a collective makes of the parts, by its definition.
fn run(
    collective: Collective,
    from: Placement,
    shape: &[i64],
    ranks: i64,
    parts: &[Vec<i64>],
) -> Vec<Vec<i64>> {
    let size: i64 = shape.iter().product();
    // The part along a mode of a tensor of this shape.
    let cut = |shape: &[i64], mode: usize, rank: i64, of: &[i64]| -> Vec<i64> {
        let each = shape[mode] / ranks;
        let inside = (0..of.len() as i64).filter(|at| coordinates(shape, *at)[mode] / each == rank);
        inside.map(|at| of[at as usize]).collect()
    };
    let sum = || {
        (0..size as usize)
            .map(|at| parts.iter().map(|part| part[at]).sum())
            .collect::<Vec<i64>>()
    };
    let gather = |mode: usize, parts: &[Vec<i64>]| -> Vec<i64> {
        let mut local = shape.to_vec();
        local[mode] /= ranks;
        let element = |at| {
            let mut at = coordinates(shape, at);
            let rank = at[mode] / local[mode];
            at[mode] %= local[mode];
            parts[rank as usize][index(&local, &at) as usize]
        };
        (0..size).map(element).collect()
    };
    let all = 0..ranks;
    match collective {
        Collective::Nothing => parts.to_vec(),
        Collective::AllGather { mode } => all.map(|_| gather(mode, parts)).collect(),
        Collective::ReduceScatter { mode } => {
            all.map(|rank| cut(shape, mode, rank, &sum())).collect()
        }
        Collective::AllReduce => all.map(|_| sum()).collect(),
        Collective::AllToAll { from, to } => {
            let whole = gather(from, parts);
            all.map(|rank| cut(shape, to, rank, &whole)).collect()
        }
        Collective::Slice { mode } => all
            .map(|rank| cut(shape, mode, rank, &parts[rank as usize]))
            .collect(),
        Collective::Embed => match from {
            Placement::Shard(mode) => {
                let zeros: Vec<Vec<i64>> = parts.iter().map(|part| vec![0; part.len()]).collect();
                let among = |rank: i64| {
                    let mut alone = zeros.clone();
                    alone[rank as usize] = parts[rank as usize].clone();
                    gather(mode, &alone)
                };
                all.map(among).collect()
            }
            Placement::Replicate | Placement::Partial => {
                let own = |rank: i64| {
                    if rank == 0 {
                        parts[0].clone()
                    } else {
                        vec![0; size as usize]
                    }
                };
                all.map(own).collect()
            }
        },
    }
}

#[test]
fn law_a_collective_leads_from_one_placement_to_the_other() {
    let mut cases = 0;
    for shape in [vec![12], vec![4, 6], vec![12, 2], vec![2, 4, 6]] {
        let size: i64 = shape.iter().product();
        let whole = numbers(size, 1);
        for ranks in [1, 2, 3, 4, 6] {
            for from in Placement::all(shape.len()) {
                for to in Placement::all(shape.len()) {
                    let collective = Collective::between(from, to);
                    assert_eq!(collective.apply(from), Ok(to));
                    let fits = [from, to].iter().all(|p| p.layout(&shape, ranks).is_ok());
                    if !fits {
                        continue;
                    }
                    let parts = held(from, &shape, ranks, &whole);
                    let after = run(collective, from, &shape, ranks, &parts);
                    assert_eq!(
                        join(to, &shape, ranks, &after).as_ref(),
                        Ok(&whole),
                        "{collective}"
                    );
                    // Nothing is sent on one rank, nor by what is local.
                    let sent = collective.sent(&shape, ranks).unwrap();
                    use Collective::{Embed, Nothing, Slice};
                    let local = ranks == 1 || matches!(collective, Nothing | Slice { .. } | Embed);
                    assert_eq!(sent == 0, local, "{collective} {ranks}");
                    cases += 1;
                }
            }
        }
    }
    println!("law ranks.collectives: {cases} cases");
}

#[test]
fn law_a_collective_refuses_every_other_placement() {
    let all: Vec<Placement> = Placement::all(3).collect();
    let mut cases = 0;
    for a in &all {
        for b in &all {
            let collective = Collective::between(*a, *b);
            for from in &all {
                // What takes this placement to the same one.
                let takes = Collective::between(*from, *b) == collective
                    || collective == Collective::Nothing;
                let found = collective.apply(*from);
                assert_eq!(found.is_ok(), takes, "{collective} of {from}");
                if let Err(error) = found {
                    assert!(error.is_placement());
                }
                cases += 1;
            }
        }
    }
    println!("law ranks.refused: {cases} cases");
}

/// A product of whole matrices: C = A B^T, the first mode fastest.
fn multiply(m: i64, n: i64, k: i64, a: &[i64], b: &[i64]) -> Vec<i64> {
    let at = |x: &[i64], rows: i64, row: i64, column: i64| x[(row + rows * column) as usize];
    let element = |index: i64| {
        let (row, column) = (index % m, index / m);
        (0..k).map(|l| at(a, m, row, l) * at(b, n, column, l)).sum()
    };
    (0..m * n).map(element).collect()
}

/// The extents of a rank's part.
fn part(placement: Placement, shape: [i64; 2], ranks: i64) -> [i64; 2] {
    let mut part = shape;
    if let Placement::Shard(mode) = placement {
        part[mode] /= ranks;
    }
    part
}

/// The products of what each rank holds; none if the extents along K differ.
fn local_products(
    [a, b]: [Placement; 2],
    [m, n, k]: [i64; 3],
    ranks: i64,
    parts: [&[Vec<i64>]; 2],
) -> Option<Vec<Vec<i64>>> {
    let ([m, ka], [n, kb]) = (part(a, [m, k], ranks), part(b, [n, k], ranks));
    let all = parts[0].iter().zip(parts[1]);
    (ka == kb).then(|| all.map(|(a, b)| multiply(m, n, ka, a, b)).collect())
}

#[test]
fn law_a_local_product_is_a_placement_of_the_product_or_none_is() {
    let (mut taken, mut refused) = (0, 0);
    for ranks in [2, 3] {
        for [m, n, k] in
            [[1, 1, 1], [2, 1, 3], [1, 2, 2], [2, 3, 1], [3, 2, 2]].map(|e| e.map(|x| x * ranks))
        {
            let (a, b) = (numbers(m * k, 1), numbers(n * k, 2));
            let c = multiply(m, n, k, &a, &b);
            for at_a in Placement::all(2) {
                for at_b in Placement::all(2) {
                    let [pa, pb] = [
                        held(at_a, &[m, k], ranks, &a),
                        held(at_b, &[n, k], ranks, &b),
                    ];
                    let local = local_products([at_a, at_b], [m, n, k], ranks, [&pa, &pb]);
                    match local_product(at_a, at_b) {
                        Ok(at_c) => {
                            let local = local.unwrap();
                            assert_eq!(join(at_c, &[m, n], ranks, &local).as_ref(), Ok(&c));
                            taken += 1;
                        }
                        Err(error) => {
                            assert!(error.is_placement());
                            // For every placement of the parts, they are not the product.
                            for at_c in Placement::all(2) {
                                let joined = local
                                    .as_ref()
                                    .map(|local| join(at_c, &[m, n], ranks, local));
                                assert_ne!(joined, Some(Ok(c.clone())), "{at_a} {at_b} {at_c}");
                            }
                            refused += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!((taken, refused), (60, 100));
    println!("law ranks.products: {} cases", taken + refused);
}

#[test]
fn law_every_route_leads_to_the_product() {
    let mut cases = 0;
    for ranks in [1, 2, 4] {
        for [m, n, k] in [[4, 4, 4], [8, 4, 12], [4, 6, 8], [3, 5, 7]] {
            let problem = GemmCoord::new(m, n, k);
            let (a, b) = (numbers(m * k, 1), numbers(n * k, 2));
            let product = multiply(m, n, k, &a, &b);
            for [from_a, from_b, to] in Placement::all(2)
                .flat_map(|a| Placement::all(2).map(move |b| [a, b]))
                .flat_map(|[a, b]| Placement::all(2).map(move |c| [a, b, c]))
            {
                let routes = match Route::all([from_a, from_b], to, problem, ranks) {
                    Ok(routes) => routes,
                    Err(_) => {
                        let fits = [(from_a, [m, k]), (from_b, [n, k]), (to, [m, n])];
                        assert!(
                            fits.iter()
                                .any(|(p, shape)| p.layout(shape, ranks).is_err())
                        );
                        continue;
                    }
                };
                assert!(!routes.is_empty());
                let cost = |route: &Route| (route.work, route.sent);
                assert!(routes.windows(2).all(|two| cost(&two[0]) <= cost(&two[1])));
                for route in routes {
                    let pa = run(
                        route.a.0,
                        from_a,
                        &[m, k],
                        ranks,
                        &held(from_a, &[m, k], ranks, &a),
                    );
                    let pb = run(
                        route.b.0,
                        from_b,
                        &[n, k],
                        ranks,
                        &held(from_b, &[n, k], ranks, &b),
                    );
                    let at = [route.a.1, route.b.1];
                    let local = local_products(at, [m, n, k], ranks, [&pa, &pb]).unwrap();
                    let after = run(route.c.1, route.c.0, &[m, n], ranks, &local);
                    assert_eq!(
                        join(to, &[m, n], ranks, &after).as_ref(),
                        Ok(&product),
                        "{route:?}"
                    );
                    let sent = [
                        route.a.0.sent(&[m, k], ranks),
                        route.b.0.sent(&[n, k], ranks),
                        route.c.1.sent(&[m, n], ranks),
                    ];
                    assert_eq!(
                        sent.into_iter().map(Result::unwrap).sum::<i64>(),
                        route.sent
                    );
                    cases += 1;
                }
            }
        }
    }
    println!("law ranks.routes: {cases} cases");
}

#[test]
fn every_refusal_verbatim() {
    let said = |error: Error| error.to_string();
    let big = 1 << 62;
    let shard = Placement::Shard(0);
    let refused = [
        (
            shard.layout(&[], 2),
            "the number of modes is 0: it must be at least 1",
        ),
        (
            shard.layout(&[4, 0], 2),
            "an extent of the tensor is 0: it must be at least 1",
        ),
        (
            shard.layout(&[4, -3], 2),
            "an extent of the tensor is -3: it must be at least 1",
        ),
        (
            shard.layout(&[4], 0),
            "the number of ranks is 0: it must be at least 1",
        ),
        (
            shard.layout(&[4], 65537),
            "the number of ranks is 65537: it can be at most 65536",
        ),
        (
            shard.layout(&[big, 4], 2),
            "the number of elements is beyond 64-bit integers",
        ),
        (
            Placement::Replicate.layout(&[big], 2),
            "the number of elements on all ranks is beyond 64-bit integers",
        ),
        (
            Placement::Shard(2).layout(&[4, 4], 2),
            "mode 2 of a tensor of 2 modes, numbered from 0",
        ),
    ];
    for (result, sentence) in refused {
        assert_eq!(said(result.unwrap_err()), sentence);
    }
    let layouts = [
        (
            "(4,2):(1,4)",
            "(4,2):(1,4) over (4,4): element (0,2) is held by no rank",
        ),
        (
            "(4,2,2):(1,4,6)",
            "(4,2,2):(1,4,6) over (4,4): element (2,1) is held by rank 0 and, in another place of its part, by rank 1",
        ),
        (
            "(4,4,2):(1,4,16)",
            "(4,4,2):(1,4,16) over (4,4): rank 1 holds index 16, and the tensor has 16 elements",
        ),
        (
            "(4,(2,3),2):(1,(0,4),0)",
            "(4,(2,3),2):(1,(0,4),0) over (4,4): rank 0 holds element (0,0) twice",
        ),
        (
            "(4,5):(1,4)",
            "(4,5):(1,4) over (4,4): rank 4 holds index 16, and the tensor has 16 elements",
        ),
        (
            "16:1",
            "16:1: its last mode is the rank, and there is no other",
        ),
        ("(4,4):(1,-4)", "(4,4):(1,-4): the stride -4 is negative"),
        (
            "(4,4):(1@0,1@1)",
            "(4,4):(1@0,1@1): the stride 1@0 is no integer",
        ),
    ];
    for (layout, sentence) in layouts {
        let layout: Layout = layout.parse().unwrap();
        let error = RankLayout::new(&[4, 4], &layout, false).unwrap_err();
        assert!(error.is_inconsistent());
        assert_eq!(said(error), sentence);
    }
    let rows = shard.layout(&[4, 2], 2).unwrap();
    assert_eq!(
        said(rows.first(2).unwrap_err()),
        "rank (2,0,0) is outside (2,1,1)"
    );
    assert_eq!(
        said(rows.holders(8).unwrap_err()),
        "element (8,0,0) is outside (8,1,1)"
    );
    assert_eq!(
        said(rows.split(&[1, 2]).unwrap_err()),
        "2 elements of the tensor, and it takes 8"
    );
    let add = |a: &i64, b: &i64| a + b;
    assert_eq!(
        said(rows.join(&[vec![0; 4]], add).unwrap_err()),
        "1 parts, and it takes 2"
    );
    assert_eq!(
        said(rows.join(&[vec![0; 4], vec![0; 3]], add).unwrap_err()),
        "3 elements of a part, and it takes 4"
    );
    let takes = [
        (
            Collective::AllGather { mode: 1 },
            "an all-gather along mode 1 of a tensor that is a partial sum: it takes one sharded along mode 1",
        ),
        (
            Collective::Slice { mode: 0 },
            "a slice along mode 0 of a tensor that is a partial sum: it takes one that is replicated",
        ),
        (
            Collective::Embed,
            "a padding with zeros of a tensor that is a partial sum: it takes one that is replicated or sharded",
        ),
        (
            Collective::AllToAll { from: 0, to: 1 },
            "an all-to-all from mode 0 to mode 1 of a tensor that is a partial sum: it takes one sharded along mode 0",
        ),
    ];
    for (collective, sentence) in takes {
        assert_eq!(
            said(collective.apply(Placement::Partial).unwrap_err()),
            sentence
        );
    }
    let reduce = Collective::ReduceScatter { mode: 1 };
    assert_eq!(
        said(reduce.apply(Placement::Replicate).unwrap_err()),
        "a reduce-scatter along mode 1 of a tensor that is replicated: it takes a partial sum"
    );
    assert_eq!(
        said(reduce.sent(&[4, 6], 4).unwrap_err()),
        "mode 1 of extent 6 over 4 ranks: the extent must be a multiple, and 8 is the next one"
    );
    assert_eq!(
        said(Collective::AllReduce.sent(&[i64::MAX], 2).unwrap_err()),
        "the number of elements that a rank sends is beyond 64-bit integers"
    );
    assert_eq!(
        said(local_product(Placement::Shard(2), shard).unwrap_err()),
        "A sharded along mode 2, B sharded along mode 0: a matrix has modes 0 and 1"
    );
    let route = |m: i64, ranks: i64| {
        let problem = GemmCoord::new(m, 4, 4);
        Route::all([shard, shard], shard, problem, ranks).map(|_| ())
    };
    assert_eq!(
        said(route(0, 2).unwrap_err()),
        "extent m of the problem is 0: it must be at least 1"
    );
    assert_eq!(
        said(route(big, 2).unwrap_err()),
        "the number of elements is beyond 64-bit integers"
    );
    assert_eq!(
        said(route(6, 4).unwrap_err()),
        "mode 0 of extent 6 over 4 ranks: the extent must be a multiple, and 8 is the next one"
    );
}

const OVERLAPS: [Overlap; 3] = [
    Overlap::GatherProduct,
    Overlap::ProductScatter,
    Overlap::ProductReduce,
];

#[test]
fn law_a_timeline_is_possible_and_waits_for_nothing_else() {
    let mut cases = 0;
    for overlap in OVERLAPS {
        for ranks in 1..=9 {
            let plan = OverlapPlan::new(overlap, ranks).unwrap();
            let all: Vec<i64> = (0..ranks).collect();
            for rank in 0..ranks {
                let chunks = plan.chunks(rank).unwrap();
                let own = match overlap {
                    Overlap::GatherProduct => chunks[0],
                    Overlap::ProductScatter | Overlap::ProductReduce => chunks[chunks.len() - 1],
                };
                assert_eq!(own, rank);
                let mut sorted = chunks.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, all);
            }
            // At each step every rank receives from one other.
            for step in 0..(ranks - 1) as usize {
                let mut to: Vec<i64> = (0..ranks)
                    .map(|rank| plan.peers(rank).unwrap()[step])
                    .collect();
                to.sort_unstable();
                assert_eq!(to, all);
            }
            for (send, product, add) in [
                (0, 1, 1),
                (1, 0, 0),
                (3, 5, 2),
                (5, 3, 2),
                (4, 4, 0),
                (50, 1, 7),
            ] {
                let times = ChunkTimes { send, product, add };
                let spans = plan.timeline(&times).unwrap();
                let of = |rank: i64, sends: bool| {
                    let is = |work: ChunkWork| matches!(work, ChunkWork::Send { .. });
                    spans
                        .iter()
                        .filter(move |span| span.rank == rank && is(span.work) == sends)
                };
                for rank in 0..ranks {
                    for sends in [false, true] {
                        let spans: Vec<_> = of(rank, sends).collect();
                        assert!(spans.windows(2).all(|two| two[0].end <= two[1].start));
                    }
                    // What a step needs is there when it begins, and it begins no later than that and its rank allow.
                    for span in spans.iter().filter(|span| span.rank == rank) {
                        let sends = matches!(span.work, ChunkWork::Send { .. });
                        let before = of(rank, sends)
                            .filter(|other| other.end <= span.start && *other != span);
                        let free = before.map(|other| other.end).max().unwrap_or(0);
                        let product = |by: i64| {
                            let mut all = spans.iter();
                            let found = all.find(|s| {
                                s.rank == by
                                    && s.chunk == span.chunk
                                    && s.work == ChunkWork::Product
                            });
                            found.unwrap().end
                        };
                        let sent = |from: i64, to: i64| {
                            let mut all = spans.iter();
                            let work = ChunkWork::Send { to };
                            let found = all.find(|s| {
                                s.rank == from && s.chunk == span.chunk && s.work == work
                            });
                            found.unwrap().end
                        };
                        let needs = match (overlap, span.work) {
                            (Overlap::GatherProduct, ChunkWork::Product) if span.chunk != rank => {
                                sent(span.chunk, rank)
                            }
                            (Overlap::ProductReduce, ChunkWork::Send { .. })
                                if span.chunk == rank =>
                            {
                                let is_sum = |s: &&ChunkSpan| s.work == ChunkWork::Add;
                                let mut own = spans.iter().filter(|s| s.rank == rank);
                                own.find(is_sum).unwrap().end
                            }
                            (
                                Overlap::ProductScatter | Overlap::ProductReduce,
                                ChunkWork::Send { .. },
                            ) => product(rank),
                            (_, ChunkWork::Add) => {
                                let others = (0..ranks).filter(|other| *other != rank);
                                others
                                    .map(|other| sent(other, rank))
                                    .max()
                                    .unwrap_or(0)
                                    .max(product(rank))
                            }
                            _ => 0,
                        };
                        assert!(span.start >= needs, "{span:?}");
                        assert!(span.start <= needs.max(free), "{span:?}");
                    }
                }
                let time = plan.time(&times).unwrap();
                assert!(time <= plan.time_apart(&times).unwrap());
                assert!(time >= (send * (ranks as u64 - 1)).max(product * ranks as u64));
                cases += 1;
            }
        }
    }
    println!("law ranks.timeline: {cases} cases");
}

#[test]
fn every_refusal_of_a_plan_verbatim() {
    let said = |error: Error| error.to_string();
    for overlap in OVERLAPS {
        for ranks in [0, -1, i64::MIN] {
            let error = OverlapPlan::new(overlap, ranks).unwrap_err();
            assert_eq!(
                said(error),
                format!("the number of ranks is {ranks}: it must be at least 1")
            );
        }
        let error = OverlapPlan::new(overlap, 65).unwrap_err();
        assert_eq!(
            said(error),
            "the number of ranks is 65: it can be at most 64"
        );
        let plan = OverlapPlan::new(overlap, 4).unwrap();
        for error in [plan.chunks(4).unwrap_err(), plan.peers(-1).unwrap_err()] {
            assert!(error.is_outside());
        }
        assert_eq!(
            said(plan.chunks(4).unwrap_err()),
            "rank (4,0,0) is outside (4,1,1)"
        );
        for times in [
            ChunkTimes {
                send: u64::MAX,
                product: 1,
                add: 1,
            },
            ChunkTimes {
                send: 1,
                product: u64::MAX,
                add: 1,
            },
        ] {
            for error in [
                plan.timeline(&times).unwrap_err(),
                plan.time_apart(&times).unwrap_err(),
            ] {
                assert_eq!(said(error), "a time of the plan is beyond 64-bit integers");
            }
        }
        let long = ChunkTimes {
            send: 1,
            product: 1 << 40,
            add: 0,
        };
        assert!(said(plan.picture(&long).unwrap_err()).starts_with("a picture of "));
    }
}
