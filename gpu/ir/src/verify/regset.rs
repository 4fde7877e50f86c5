//! Sets of registers.

use crate::Stmt;
use crate::rows::Rows;

/// A set of registers of a kernel, one bit each, by their numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RegSet(Vec<u64>);

impl RegSet {
    /// An empty set of the registers of a kernel.
    pub(super) fn new(rows: &Rows<'_>) -> Self {
        RegSet::of(rows.count())
    }

    fn of(count: usize) -> Self {
        RegSet(vec![0; count.div_ceil(64)])
    }

    /// Adds a register; one of another kernel has no place.
    pub(super) fn insert(&mut self, number: usize) {
        if let Some(word) = self.0.get_mut(number / 64) {
            *word |= 1 << (number % 64);
        }
    }

    pub(super) fn contains(&self, number: usize) -> bool {
        let word = self.0.get(number / 64);
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(super) fn clear(&mut self) {
        self.0.fill(0);
    }

    /// Adds every register that the statements write, at any depth.
    pub(super) fn add_written(&mut self, body: &[Stmt], rows: &Rows<'_>) {
        for known in rows.block(body) {
            for reg in known.defs {
                self.insert(rows.number_of(*reg));
            }
            for inner in known.stmt.op.blocks() {
                self.add_written(inner, rows);
            }
        }
    }

    /// Keeps what is in both.
    pub(super) fn intersect(&mut self, other: &RegSet) {
        self.0
            .iter_mut()
            .zip(&other.0)
            .for_each(|(own, other)| *own &= other);
    }

    /// Adds what is in the other.
    pub(super) fn unite(&mut self, other: &RegSet) {
        self.0
            .iter_mut()
            .zip(&other.0)
            .for_each(|(own, other)| *own |= other);
    }

    /// The numbers in it, from the least.
    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> + '_ {
        self.0
            .iter()
            .enumerate()
            .flat_map(|(at, word)| bits(at, *word))
    }

    /// The set difference.
    pub(super) fn difference(&self, other: &RegSet) -> Vec<usize> {
        let pairs = self.0.iter().zip(&other.0).enumerate();
        let left = pairs.flat_map(|(at, (own, other))| bits(at, own & !other));
        left.collect()
    }
}

/// The numbers of the bits of a word.
fn bits(at: usize, mut left: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
        left &= left - 1;
        Some(at * 64 + bit)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn sets_are_those_of_the_standard_library() {
        let of = |step: usize| (0..200).step_by(step).collect::<BTreeSet<usize>>();
        let (twos, threes) = (of(2), of(3));
        let set = |numbers: &BTreeSet<usize>| {
            let mut set = RegSet::of(200);
            assert!(set.is_empty() && !numbers.iter().any(|number| set.contains(*number)));
            numbers.iter().for_each(|number| set.insert(*number));
            assert!(!set.is_empty() && numbers.iter().all(|number| set.contains(*number)));
            set
        };
        let (a, b) = (set(&twos), set(&threes));
        assert!(a.numbers().eq(twos.iter().copied()));
        assert!(a.difference(&b).iter().eq(twos.difference(&threes)));
        let (mut both, mut either) = (a.clone(), a.clone());
        both.intersect(&b);
        assert!(both.numbers().eq(twos.intersection(&threes).copied()));
        either.unite(&b);
        assert!(either.numbers().eq(twos.union(&threes).copied()));
        either.clear();
        assert!(either.is_empty() && either == RegSet::of(200));
        // A register of another kernel is in no set.
        both.insert(usize::MAX);
        assert!(!both.contains(usize::MAX) && !both.contains(1000));
    }
}
