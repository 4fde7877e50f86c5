//! Which product the layouts of its operands ask for.

use colex_gpu::ranks::RankProblem;
use colex_sched::{Overlap, Placement, RankLayout};

use super::OVERLAPS;

fn said(layouts: [&RankLayout; 3]) -> String {
    RankProblem::of_layouts(layouts).unwrap_err().to_string()
}

/// All placements of all operands over one to four ranks: those of a product give it back, and no others are taken.
#[test]
fn law_the_layouts_of_a_product_name_it() {
    let mut cases = 0;
    for ranks in 1..=4 {
        for [m, n, k] in [[1, 2, 3], [4, 4, 4], [12, 24, 36], [12, 7, 12], [8, 12, 5]] {
            let shapes = [[m, k], [n, k], [m, n]];
            let products = OVERLAPS.map(|overlap| RankProblem {
                overlap,
                ranks,
                m,
                n,
                k,
            });
            let all = Placement::all(2).collect::<Vec<_>>();
            for at in 0..64 {
                let placements = [at % 4, at / 4 % 4, at / 16].map(|at| all[at]);
                let made: Result<Vec<_>, _> = placements
                    .iter()
                    .zip(shapes)
                    .map(|(placement, shape)| placement.layout(&shape, ranks))
                    .collect();
                let Ok(layouts) = made else { continue };
                let [a, b, c] = &layouts[..] else {
                    unreachable!("three operands")
                };
                let found = RankProblem::of_layouts([a, b, c]);
                let expected = products.iter().find(|product| {
                    let own = product.layouts();
                    own.is_ok_and(|own| {
                        let is_same = |(one, other): (&RankLayout, &RankLayout)| {
                            one.placement() == other.placement()
                        };
                        own.iter().zip(&layouts).all(is_same)
                    })
                });
                assert_eq!(
                    found.as_ref().ok(),
                    expected,
                    "{placements:?} {ranks} {m} {n} {k}"
                );
                if let Ok(found) = found {
                    let own = found.layouts().unwrap();
                    for (own, given) in own.iter().zip(&layouts) {
                        for local in 0..own.part_size() {
                            let index = own.index(local, ranks - 1).unwrap();
                            assert_eq!(index, given.index(local, ranks - 1).unwrap());
                        }
                    }
                }
                cases += 1;
            }
        }
    }
    println!("law ranks.of_layouts: {cases} cases");
}

#[test]
fn layouts_of_no_product_are_refused() {
    let of = |placement: Placement, shape: &[i64], ranks| placement.layout(shape, ranks).unwrap();
    let k = Placement::Shard(1);
    let a = of(k, &[8, 12], 2);
    let b = of(k, &[4, 12], 2);
    let c = of(Placement::Shard(0), &[8, 4], 2);
    let problem = RankProblem::of_layouts([&a, &b, &c]).unwrap();
    assert_eq!(problem.overlap, Overlap::ProductScatter);

    let turns: colex_layout::Layout = "(8,6,2):(1,16,8)".parse().unwrap();
    let turns = RankLayout::new(&[8, 12], &turns, false).unwrap();
    let odd = of(k, &[7, 12], 2);
    let whole = of(Placement::Replicate, &[7, 4], 2);
    let takes = "a product over ranks takes A and B sharded along mode 0 for C sharded along mode 1, or A and B sharded along mode 1 for C \
         sharded along mode 0 or replicated";
    assert_eq!(
        [
            said([&of(Placement::Replicate, &[8], 2), &b, &c]),
            said([&a, &of(k, &[4, 12], 3), &c]),
            said([&a, &of(k, &[4, 6], 2), &c]),
            said([&a, &b, &of(Placement::Replicate, &[6, 4], 2)]),
            said([&a, &b, &of(Placement::Replicate, &[8, 5], 2)]),
            said([&turns, &b, &c]),
            said([&a, &b, &of(Placement::Partial, &[8, 4], 2)]),
            said([&odd, &b, &whole]),
        ],
        [
            "A has 1 modes: the operands of a product over ranks are matrices".to_string(),
            "B is over 3 ranks, and A over 2".to_string(),
            "B has 6 columns, and A has 12".to_string(),
            "C has 6 rows, and A has 8".to_string(),
            "C has 5 columns, and the transpose of B has 4".to_string(),
            "A has the layout (8,6,2):(1,16,8), which is no placement: a product over ranks takes a matrix that is sharded along one mode, \
             or replicated"
                .to_string(),
            format!("A sharded along mode 1, B sharded along mode 1, C a partial sum: {takes}"),
            "C: mode 0 of extent 7 over 2 ranks: the extent must be a multiple, and 8 is the next one".to_string(),
        ]
    );
}
