//! Every family of plans that calls choose, and the rings that a caller may choose, in adversarial schedules.

use colex_gpu::sim::Schedule;
use colex_proof::kernels::attention::families::{Cover, cover};
use colex_proof::soak::takes;

/// Traits that some drawn plan has.
const TRAITS: [&str; 35] = [
    "sm_80",
    "sm_90a",
    "Ampere",
    "Hopper",
    "f16",
    "bf16",
    "features 64/64",
    "features 96/96",
    "features 128/128",
    "features 192/128",
    "features 192/192",
    "features 256/256",
    "mask full",
    "mask causal",
    "mask window",
    "queries of one length",
    "queries packed",
    "keys of one length",
    "keys packed",
    "keys in pages",
    "whole keys",
    "parts in order",
    "parts by lanes",
    "vectors of 1",
    "vectors of 8",
    "capped",
    "log-sum-exp",
    "sinks",
    "packs",
    "sorted",
    "early",
    "turns",
    "pairs",
    "overlap",
    "not overlap",
];

/// The plans that calls choose, over types, head sizes, masks, caps, sinks, packed sequences, pages, packs of heads, parts of the
/// keys, orders of sequences, alignments and architectures, with every pair of these that a chosen plan has; and plans with one to
/// four stages and one to four consumers, with clusters, strips of heads, numbers of registers, steps asked for before the wait, a bound of
/// the blocks beside each other and a sum of parts that lets the next launch begin, which a caller may choose. Each turns every ring twice, which the record of the simulator counts, and has whole and masked blocks of keys and a row without a key. It
/// runs with asynchronous copies as late as possible, as early as possible and at random, which give the same bits, and of the first
/// every element is compared with a softmax in doubles.
#[test]
fn law_every_family_of_plans_turns_its_rings_twice() {
    let of_all: Cover = cover(21, 4000).expect("every problem has a plan");
    for trait_of_issue in TRAITS {
        let is_there = of_all.traits.contains(trait_of_issue);
        assert!(
            is_there,
            "no plan is `{trait_of_issue}`: {:?}",
            of_all.traits
        );
    }
    for (i, family) in of_all.families.iter().enumerate() {
        family.check_turns().unwrap_or_else(|why| panic!("{why}"));
        let run = |schedule, checks| {
            let found = family.run(schedule, checks);
            found.unwrap_or_else(|why| panic!("{why}"))
        };
        let first = run(Schedule::Latest, true);
        let others = [Schedule::Earliest, Schedule::Random(2 + i as u64)];
        for (_, schedule) in (others.into_iter().enumerate()).filter(|(j, _)| takes(8, i + 4 * j)) {
            assert!(
                run(schedule, false) == first,
                "{family}: {schedule:?} has other bits"
            );
        }
    }
    println!(
        "law attention.families: {} plans in the latest schedule, each fourth one in another, {} kinds, {} pairs of traits",
        of_all.families.len(),
        of_all.kinds,
        of_all.pairs
    );
}
