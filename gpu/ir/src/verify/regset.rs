//! Sets of registers.

use crate::{Reg, RegType};

/// A set of registers, one bit each, by class.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RegSet([Vec<u64>; 6]);

impl RegSet {
    /// Adds a register; false if it was there.
    pub(super) fn insert(&mut self, reg: Reg) -> bool {
        let (word, bit) = (reg.index as usize / 64, 1 << (reg.index % 64));
        let words = &mut self.0[reg.ty as usize];
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        let fresh = words[word] & bit == 0;
        words[word] |= bit;
        fresh
    }

    pub(super) fn contains(&self, reg: Reg) -> bool {
        let word = self.0[reg.ty as usize].get(reg.index as usize / 64);
        word.is_some_and(|word| word >> (reg.index % 64) & 1 == 1)
    }

    /// Keeps what is in both.
    pub(super) fn intersect(&mut self, other: &RegSet) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            own.truncate(other.len());
            own.iter_mut()
                .zip(other)
                .for_each(|(own, other)| *own &= other);
        }
    }

    /// The set difference.
    pub(super) fn difference(&self, other: &RegSet) -> Vec<Reg> {
        let mut all = Vec::new();
        for (i, ty) in RegType::ALL.into_iter().enumerate() {
            for (at, word) in self.0[i].iter().enumerate() {
                let mut left = word & !other.0[i].get(at).copied().unwrap_or(0);
                while left != 0 {
                    let index = at as u32 * 64 + left.trailing_zeros();
                    all.push(Reg { index, ty });
                    left &= left - 1;
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_those_of_the_standard_library() {
        let reg = |index: u32, ty| Reg { index, ty };
        let of = |step: u32| -> Vec<Reg> {
            let singles = (0..200)
                .step_by(step as usize)
                .map(|i| reg(i, RegType::F32));
            singles
                .chain(
                    (0..70)
                        .step_by(step as usize)
                        .map(|i| reg(i, RegType::Pred)),
                )
                .collect()
        };
        let (twos, threes) = (of(2), of(3));
        let set = |regs: &[Reg]| {
            let mut set = RegSet::default();
            assert!(regs.iter().all(|reg| set.insert(*reg)));
            assert!(!regs.iter().any(|reg| set.insert(*reg)));
            set
        };
        let (a, b) = (set(&twos), set(&threes));
        let mut both = a.clone();
        both.intersect(&b);
        let hash = |regs: Vec<Reg>| regs.into_iter().collect::<std::collections::BTreeSet<_>>();
        let is_in = |all: &[Reg], reg: &Reg| all.contains(reg);
        let expected: Vec<Reg> = twos
            .iter()
            .copied()
            .filter(|r| !is_in(&threes, r))
            .collect();
        assert_eq!(hash(a.difference(&b)), hash(expected));
        let expected: Vec<Reg> = twos.iter().copied().filter(|r| is_in(&threes, r)).collect();
        assert_eq!(
            hash(both.difference(&RegSet::default())),
            hash(expected.clone())
        );
        assert!(expected.iter().all(|reg| both.contains(*reg)));
        assert!(!both.contains(reg(2, RegType::F32)) && !both.contains(reg(999, RegType::B64)));
    }
}
