//! Sums as instructions.

use super::Builder;
use super::lower::{fits, is_wide_leaf, narrow_type};
use crate::index::{Index, Node, sum};
use colex_ir::{KernelBuilder, Reg, TernaryOp, Type};

impl Builder {
    /// Terms that change in outer bodies are summed there; the others are added one by one.
    pub(crate) fn lower_sum(
        &mut self,
        terms: &[(Index, i64)],
        constant: i64,
        wide: bool,
        home: usize,
    ) -> Reg {
        // What differs by a constant only shares everything else.
        if constant != 0 && terms.len() + usize::from(terms.iter().any(|(_, c)| *c != 1)) > 1 {
            let rest = self.lower(&sum(terms.to_vec(), 0), wide);
            let ty = if wide { Type::S64 } else { Type::U32 };
            return self.emit_at(home, |k| k.add(ty, rest, constant));
        }
        // What the current loop does not change is one register, computed outside of it.
        let (mut terms, outer): (Vec<_>, Vec<_>) = terms
            .iter()
            .cloned()
            .partition(|(x, _)| self.home(x.0.depth) == home);
        let mut acc = None;
        if !outer.is_empty() {
            acc = Some(self.lower(&sum(outer, 0), wide));
        }
        if wide {
            return self.wide_sum(terms, constant, acc, home);
        }
        // A term that is a register already begins: the others multiply and add onto it.
        terms.sort_by_key(|(x, c)| *c != 1 || masked(x).is_some());
        for (x, c) in terms {
            let (x, c) = match masked(&x) {
                Some((inner, factor)) => (inner, c.wrapping_mul(factor)),
                None => (x, c),
            };
            let value = self.lower(&x, false);
            // The result fits 32 bits, so arithmetic modulo 2^32 gives it: a factor may wrap, and needs its low half only.
            let c = i64::from(c as i32);
            acc = Some(self.emit_at(home, |k| match (acc, c) {
                (None, 1) => value,
                (None, c) => scaled(k, value, c),
                (Some(acc), 1) => k.add(Type::U32, acc, value),
                (Some(acc), -1) => k.sub(Type::U32, acc, value),
                (Some(acc), c) => k.mad(Type::U32, value, c, acc),
            }));
        }
        self.plus(acc, constant, Type::U32, home)
    }

    pub(crate) fn plus(&mut self, acc: Option<Reg>, constant: i64, ty: Type, home: usize) -> Reg {
        match (acc, constant) {
            (None, c) => self.emit_at(home, |k| k.mov(ty, c)),
            (Some(acc), 0) => acc,
            (Some(acc), c) => self.emit_at(home, |k| k.add(ty, acc, c)),
        }
    }

    /// Narrow terms are added in 32 bits as long as their sum fits, then widened together.
    pub(crate) fn wide_sum(
        &mut self,
        terms: Vec<(Index, i64)>,
        constant: i64,
        mut acc: Option<Reg>,
        home: usize,
    ) -> Reg {
        let fits = |(x, c): &(Index, i64)| narrow_type(sum(vec![(x.clone(), *c)], 0).range());
        let (narrow, wide): (Vec<_>, Vec<_>) = terms.into_iter().partition(|t| fits(t).is_some());
        for (x, c) in wide {
            acc = Some(self.add_wide(&x, c, acc, home));
        }
        // Each term fits 32 bits, which their sum need not: its own range decides.
        let cohort = sum(narrow.clone(), 0);
        match narrow_type(cohort.range()) {
            _ if narrow.is_empty() => {}
            Some(_) if narrow.len() > 1 => acc = Some(self.add_wide(&cohort, 1, acc, home)),
            _ => {
                for (x, c) in narrow {
                    acc = Some(self.add_wide(&x, c, acc, home));
                }
            }
        }
        self.plus(acc, constant, Type::S64, home)
    }

    pub(crate) fn add_wide(&mut self, x: &Index, c: i64, acc: Option<Reg>, home: usize) -> Reg {
        let narrow = narrow_type(x.range()).filter(|ty| fits(*ty, c));
        match (narrow, acc) {
            (Some(ty), Some(acc)) if !is_wide_leaf(x) => {
                let value = self.lower(x, false);
                self.emit_at(home, |k| k.ternary(TernaryOp::MadWide, ty, value, c, acc))
            }
            (Some(ty), None) if c != 1 && !is_wide_leaf(x) => {
                let value = self.lower(x, false);
                self.emit_at(home, |k| k.mul_wide(ty, value, c))
            }
            (_, acc) => {
                let value = self.lower(x, true);
                self.emit_at(home, |k| match (acc, c) {
                    (None, 1) => value,
                    (None, c) => k.mul(Type::S64, value, c),
                    (Some(acc), 1) => k.add(Type::S64, acc, value),
                    (Some(acc), c) => k.mad(Type::S64, value, c, acc),
                })
            }
        }
    }
}

/// A field that is masked and then moved left, as what is masked and the factor that moves it.
fn masked(x: &Index) -> Option<(Index, i64)> {
    match &x.0.node {
        Node::BitField(of, mask, shift) if *shift > 0 => Some((of.bits(*mask, 0), 1 << shift)),
        _ => None,
    }
}

fn scaled(k: &mut KernelBuilder, value: Reg, c: i64) -> Reg {
    if c > 0 && c.count_ones() == 1 {
        k.shl(Type::B32, value, i64::from(c.trailing_zeros()))
    } else {
        k.mul(Type::U32, value, c)
    }
}
