//! Bank conflicts and the choice of a swizzle, against counting by hand.

use std::collections::{HashMap, HashSet};

use colex_atom::{Access, Banks, choose_swizzle};
use colex_layout::{Layout, Swizzle};
use law::law;

#[path = "../../../layout/tests/laws/law.rs"]
mod law;

/// The most distinct words in one of `count` banks over the phases, with a map of sets.
fn degree(offsets: &[i64], width: i64, [count, word]: [i64; 2]) -> usize {
    let lanes = usize::try_from(count * word / width.max(word)).expect("few lanes");
    let worst = |phase: &[i64]| {
        let mut banks: HashMap<i64, HashSet<i64>> = HashMap::new();
        for byte in phase.iter().flat_map(|x| *x..*x + width) {
            banks
                .entry(byte / word % count)
                .or_default()
                .insert(byte / word);
        }
        banks.values().map(HashSet::len).max().unwrap_or(0)
    };
    offsets.chunks(lanes).map(worst).max().unwrap_or(0)
}

fn accesses() -> impl Iterator<Item = Access> {
    let lanes = [
        "32:1",
        "32:32",
        "(8,4):(64,8)",
        "(8,4):(8,64)",
        "(4,8):(2,64)",
        "(16,2):(64,8)",
        "32:0",
        "(8,4):(128,16)",
    ];
    lanes.into_iter().flat_map(|text| {
        let layout: Layout = text.parse().expect("the text is a layout");
        [(2, 2), (2, 4), (2, 8), (2, 16), (4, 4), (4, 16), (1, 1)]
            .into_iter()
            .filter_map(move |(element, width)| {
                Access::new(
                    &format!("{text} of {element} by {width}"),
                    &layout,
                    element,
                    width,
                )
                .ok()
            })
    })
}

#[test]
fn conflicts_counted() {
    law("conflicts_counted", "accesses", 120, |count| {
        for (access, [banks, word]) in accesses()
            .flat_map(|access| [[32, 4], [16, 8], [64, 4], [8, 16]].map(|b| (access.clone(), b)))
        {
            let conflicts = access.conflicts(Banks::new(banks, word).expect("powers of two"));
            assert_eq!(
                conflicts.degree(),
                degree(access.offsets(), access.width(), [banks, word]),
                "{} in {banks} banks of {word}",
                access.name()
            );
            *count += 1;
        }
    });
}

/// A choice is free of conflicts, keeps each lane's bytes together, and no smaller number of bits does it.
#[test]
fn choice_is_free_and_smallest() {
    law("choice_is_free_and_smallest", "pairs", 200, |count| {
        let all: Vec<Access> = accesses().collect();
        for (a, b) in all
            .iter()
            .flat_map(|a| all.iter().map(move |b| (a, b)))
            .step_by(5)
        {
            let pair = [a.clone(), b.clone()];
            let free = |sw: Swizzle| {
                pair.iter().all(|x| {
                    let moved: Vec<i64> = x.offsets().iter().map(|o| sw.apply(*o)).collect();
                    degree(&moved, x.width(), [32, 4]) <= 1
                })
            };
            let base = i64::from(a.width().max(b.width()).trailing_zeros());
            match choose_swizzle(&pair) {
                Ok(choice) => {
                    assert!(free(choice.swizzle), "{choice}");
                    assert!(
                        choice.swizzle.is_identity() || choice.swizzle.base() >= base,
                        "{choice}"
                    );
                    let fewer = (1..choice.swizzle.bits()).flat_map(|bits| {
                        (base..8).flat_map(move |m| {
                            (bits..8).flat_map(move |s| {
                                [Swizzle::new(bits, m, s), Swizzle::new(bits, m, -s)]
                            })
                        })
                    });
                    for sw in fewer.flatten() {
                        assert!(!free(sw), "{sw} is smaller than {choice}");
                    }
                }
                Err(error) => {
                    let no = error.no_swizzle().expect("there are accesses");
                    for sw in (0..=3)
                        .flat_map(|bits| {
                            (base..7)
                                .flat_map(move |m| (bits..5).map(move |s| Swizzle::new(bits, m, s)))
                        })
                        .flatten()
                    {
                        let within = sw.from_mask() | sw.into_mask();
                        let used = pair.iter().flat_map(|x| x.offsets()).fold(15, |m, x| m | x);
                        assert!(within > used || !free(sw), "{sw} makes {no} false");
                    }
                }
            }
            *count += 1;
        }
    });
}

#[test]
fn banks_are_powers_of_two() {
    assert_eq!(Banks::new(32, 4), Ok(Banks::SHARED));
    for (count, word) in [(0, 4), (32, 0), (24, 4), (-1, 4), (1 << 40, 4)] {
        let error = Banks::new(count, word).expect_err("no such banks");
        assert_eq!(
            error.to_string(),
            format!(
                "Banks of {count} banks of {word} bytes: both are powers of two, and their product is at most 2^31"
            )
        );
    }
}

#[test]
fn choice_sentences() {
    let column = Access::new("column", "32:32", 4, 4).expect("aligned");
    let choice = choose_swizzle(std::slice::from_ref(&column)).expect("Sw<5,2,5> does it");
    assert_eq!(
        choice.to_string(),
        "Sw<5,2,5> XORs bits 7..11 of the byte offset into bits 2..6\n  \
         column: 32 -> 1 words in a bank (its lanes differ in bits 7..11 of the byte offset)\n"
    );
    let far =
        Access::from_bytes("far", vec![0, 128, 256, 384, 512, 640, 768, 896], 16).expect("aligned");
    let odd = Access::from_bytes("odd", vec![0, 144, 288, 432, 576, 720, 864, 1008], 16)
        .expect("aligned");
    let no = choose_swizzle(&[far, odd]).expect_err("what mends one breaks the other");
    assert_eq!(
        no.to_string(),
        "none of the 45 swizzles within the tile makes every access free of bank conflicts; the best, Sw<2,4,4>, \
         leaves 2 words of far in a bank"
    );
    let askew =
        Access::from_bytes("askew", vec![0, 20], 16).expect_err("20 is not a multiple of 16");
    assert_eq!(
        askew.to_string(),
        "Access of askew: lane 1 starts at byte 20, not at a multiple of 16"
    );
}

#[test]
fn nothing_to_choose_for() {
    assert_eq!(
        choose_swizzle(&[]).map_err(|e| e.to_string()),
        Err("choose_swizzle of no access: there is nothing to choose for".to_string())
    );
}
