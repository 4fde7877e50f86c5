//! `Rounds`: the order in which a rank has begun the rounds of its products, which must be that of all ranks.
//!
//! A collective of NCCL takes what the other ranks give it, and does not know of which product that is. Two products of one size whose
//! rounds a rank runs in another order would get each other's numbers, without an error.

use std::collections::VecDeque;

use super::session::StepSaid;
use crate::error::HostError;

/// The rounds that are kept and told, unless all ranks are known to agree on them. After more of them the digest alone tells an order.
const MOST: usize = 512;

/// A round: the number of its product, and its number in this product. Both count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RoundOf {
    pub(super) product: u32,
    pub(super) round: u32,
}

/// Rounds in the order in which a rank has begun them, behind those on which all ranks agree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rounds {
    /// The rounds before the first of these.
    before: u64,
    begun: VecDeque<RoundOf>,
}

impl Rounds {
    /// The number of the first round behind all of these, counted from 0.
    fn end(&self) -> u64 {
        self.before + self.begun.len() as u64
    }

    /// Notes a round behind `before` others.
    fn push(&mut self, before: u64, round: RoundOf) {
        if self.begun.is_empty() {
            self.before = before;
        }
        if self.end() == before && self.begun.len() < MOST {
            self.begun.push_back(round);
        }
    }

    /// Forgets the first rounds, on which all ranks agree.
    fn forget(&mut self, agreed: u64) {
        while self.before < agreed && self.begun.pop_front().is_some() {
            self.before += 1;
        }
    }

    fn at(&self, place: u64) -> Option<RoundOf> {
        let index = place.checked_sub(self.before)?;
        self.begun.get(usize::try_from(index).ok()?).copied()
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let each = self.begun.iter();
        let each = each.flat_map(|of| [of.product, of.round].map(u32::to_le_bytes));
        let before = self.before.to_le_bytes();
        before.into_iter().chain(each.flatten()).collect()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Rounds> {
        let (before, rest) = bytes.split_first_chunk::<8>()?;
        let (words, []) = rest.as_chunks::<8>() else {
            return None;
        };
        // The number of the product is in the lower half.
        let of = |word: &[u8; 8]| {
            let word = u64::from_le_bytes(*word);
            RoundOf {
                product: word as u32,
                round: (word >> 32) as u32,
            }
        };
        Some(Rounds {
            before: u64::from_le_bytes(*before),
            begun: words.iter().map(of).collect(),
        })
    }
}

/// The first round of this rank where another one has begun another round: of the first rank that did so.
pub(super) fn other_order(all: &[StepSaid], own: usize) -> Option<HostError> {
    let here = &all.get(own)?.rounds;
    (here.before..here.end()).find_map(|place| {
        let here = here.at(place)?;
        all.iter().enumerate().find_map(|(rank, said)| {
            let there = said.rounds.at(place).filter(|there| *there != here)?;
            let [there, here] = [there, here].map(|of| [of.round, of.product]);
            Some(HostError::Order { rank, there, here })
        })
    })
}

/// How many rounds of a rank are known to be those of all ranks, once none of them is another one.
pub(super) fn agreed(all: &[StepSaid]) -> u64 {
    let ends = all.iter().map(|said| said.rounds.end());
    ends.min().unwrap_or(0)
}

/// The rounds of a rank, and a digest of their order.
#[derive(Default)]
pub(super) struct RoundOrder {
    rounds: Rounds,
    begun: u64,
    /// The product of the last round.
    product: u32,
    digest: u32,
}

impl RoundOrder {
    /// The number of rounds that have begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    pub(super) fn rounds(&self) -> &Rounds {
        &self.rounds
    }

    /// Notes that a round begins.
    pub(super) fn begin(&mut self, round: RoundOf) {
        self.rounds.push(self.begun, round);
        // Where the product stays the same, the digest does too: each byte of it that changes costs a fill.
        if round.product != self.product {
            let word = (self.begun as u32).wrapping_mul(0x9e37_79b9) ^ round.product;
            let mixed = (self.digest.rotate_left(5) ^ word).wrapping_mul(0x85eb_ca6b);
            self.digest = mixed ^ mixed >> 15;
            self.product = round.product;
        }
        self.begun += 1;
    }

    /// What is the same on all ranks that have begun the same rounds in the same order: their number and the digest of their order.
    pub(super) fn mark(&self) -> [u32; 2] {
        // Equal numbers are 2^32 rounds apart.
        [self.begun as u32, self.digest]
    }

    /// Notes that all ranks agree on the first rounds.
    pub(super) fn agreed(&mut self, rounds: u64) {
        self.rounds.forget(rounds);
    }
}

#[cfg(test)]
mod tests {
    use super::super::session::Step;
    use super::*;

    fn of(product: u32, round: u32) -> RoundOf {
        RoundOf { product, round }
    }

    /// The order of a rank that begins rounds of these products.
    fn begun(products: &[u32]) -> RoundOrder {
        let mut order = RoundOrder::default();
        for (at, product) in products.iter().enumerate() {
            let earlier = products[..at].iter().filter(|one| *one == product);
            order.begin(of(*product, earlier.count() as u32 + 1));
        }
        order
    }

    fn said(order: &RoundOrder) -> StepSaid {
        let rounds = order.rounds().clone();
        StepSaid {
            rounds,
            ..StepSaid::of(Step::Exchange, order.begun(), Vec::new())
        }
    }

    /// All orders of up to five rounds of three products, on two ranks that may be at different places.
    #[test]
    fn law_the_first_round_in_another_order_is_named_and_marks_tell_all_orders() {
        let orders: Vec<Vec<u32>> = (0..=5)
            .flat_map(|length| {
                (0..3u32.pow(length))
                    .map(move |drawn| (0..length).map(|at| drawn / 3u32.pow(at) % 3 + 1).collect())
            })
            .collect();
        let mut cases = 0;
        for x in &orders {
            for y in &orders {
                let each = [x, y].map(|products| begun(products));
                let all = each.each_ref().map(said);
                let first = x.iter().zip(y).position(|(x, y)| x != y);
                let expected = first.map(|at| {
                    let number = |order: &[u32]| {
                        let earlier = order[..at].iter().filter(|one| **one == order[at]);
                        [earlier.count() as u32 + 1, order[at]]
                    };
                    let [here, there] = [number(x), number(y)];
                    [(1, here, there), (0, there, here)]
                });
                for own in 0..2 {
                    let expected = expected.map(|ranks| {
                        let (rank, here, there) = ranks[own];
                        HostError::Order { rank, there, here }
                    });
                    assert_eq!(other_order(&all, own), expected, "{x:?} {y:?}");
                }
                assert_eq!(each[0].mark() == each[1].mark(), x == y, "{x:?} {y:?}");
                assert_eq!(agreed(&all), x.len().min(y.len()) as u64);
                cases += 1;
            }
        }
        println!("law the_first_round_in_another_order_is_named: {cases} cases");
    }

    #[test]
    fn law_rounds_are_the_same_after_their_way_and_no_part_of_a_message_is_others() {
        let mut cases = 0;
        for count in 0..5u32 {
            for forgotten in 0..=u64::from(count) {
                let mut order = begun(&(1..=count).collect::<Vec<_>>());
                order.agreed(forgotten);
                let bytes = order.rounds().to_bytes();
                assert_eq!(Rounds::from_bytes(&bytes).as_ref(), Some(order.rounds()));
                for length in 0..bytes.len() {
                    let is_whole = length >= 8 && length % 8 == 0;
                    let part = Rounds::from_bytes(&bytes[..length]);
                    assert_eq!(part.is_some(), is_whole);
                    cases += 1;
                }
            }
        }
        println!("law rounds_are_the_same_after_their_way: {cases} cases");
    }

    /// The rounds that are kept are at most as many as are told, and begin again behind those that all ranks agree on.
    #[test]
    fn rounds_beyond_the_most_are_not_kept() {
        let mut order = RoundOrder::default();
        let more = MOST as u32 + 10;
        for round in 1..=more {
            order.begin(of(1, round));
        }
        assert_eq!(order.rounds().end(), MOST as u64);
        order.agreed(order.rounds().end());
        order.begin(of(2, 1));
        assert_eq!(order.rounds().at(u64::from(more)), Some(of(2, 1)));
        assert_eq!(order.rounds().at(MOST as u64), None);
        assert_eq!(order.rounds().end(), order.begun());
    }
}
