//! Whether an integer is at least 0 because others are.
//!
//! An integer is written as a sum of products of registers, quotients, remainders and minima. A fact is an integer that is
//! at least 0. Facts, times products that are not negative, are subtracted until the rest is at least 0 by its ranges. Facts
//! come from the place of an access and from the definition of the quotients, remainders and minima themselves.

use std::collections::BTreeMap;

use crate::index::{Index, Node};

/// The number of facts that one proof uses.
const DEPTH: usize = 6;

/// The number of steps after which a search ends.
const STEPS: usize = 400;

/// Whether the integer is at least 0 wherever the facts are.
pub(crate) fn follows(margin: &Index, facts: &[Index]) -> bool {
    let mut search = Search::default();
    for fact in facts {
        let fact = search.sum_of(fact);
        search.facts.extend(fact);
    }
    let Some(margin) = search.sum_of(margin) else {
        return false;
    };
    // The shortest proofs first.
    (0..=DEPTH).any(|depth| {
        search.steps = 0;
        search.proves(&margin, depth)
    })
}

/// A sum of products, by the places of their factors among the atoms, in order; that of no factor is the constant.
type Sum = BTreeMap<Vec<usize>, i128>;

#[derive(Default)]
struct Search {
    /// What is not taken apart.
    atoms: Vec<Index>,
    facts: Vec<Sum>,
    steps: usize,
}

fn constant(c: i128) -> Sum {
    Sum::from([(Vec::new(), c)])
}

/// `a + c b`
fn plus(a: &Sum, b: &Sum, c: i128) -> Option<Sum> {
    let mut sum = a.clone();
    for (product, n) in b {
        let of = sum.entry(product.clone()).or_default();
        *of = of.checked_add(n.checked_mul(c)?)?;
    }
    sum.retain(|_, n| *n != 0);
    Some(sum)
}

fn times(a: &Sum, b: &Sum) -> Option<Sum> {
    let mut all = Sum::new();
    for (x, n) in a {
        let mut of = Sum::new();
        for (y, m) in b {
            let mut product = [&x[..], &y[..]].concat();
            product.sort_unstable();
            of.insert(product, n.checked_mul(*m)?);
        }
        all = plus(&all, &of, 1)?;
    }
    Some(all)
}

/// The factors of a product without those of another one, if it has them all.
fn without(product: &[usize], of: &[usize]) -> Option<Vec<usize>> {
    let mut rest = product.to_vec();
    for factor in of {
        let at = rest.iter().position(|x| x == factor)?;
        rest.remove(at);
    }
    Some(rest)
}

impl Search {
    fn sum_of(&mut self, index: &Index) -> Option<Sum> {
        Some(match &index.0.node {
            Node::Sum(terms, c) => {
                let mut sum = constant(i128::from(*c));
                for (x, c) in terms {
                    sum = plus(&sum, &self.sum_of(x)?, i128::from(*c))?;
                }
                sum
            }
            Node::Opaque(x) => self.sum_of(x)?,
            Node::Product(a, b) => times(&self.sum_of(a)?, &self.sum_of(b)?)?,
            Node::BitField(x, mask, shift) => {
                // The bits from the lowest one on, times a power of two.
                let kept = mask
                    & if *shift < 0 {
                        u64::MAX << -shift
                    } else {
                        u64::MAX
                    };
                let low = kept.trailing_zeros() as i32;
                if low == 0 && x.0.bits & !kept == 0 {
                    return times(
                        &self.sum_of(x)?,
                        &constant(1i128.checked_shl(*shift as u32)?),
                    );
                }
                let field = x.bits_node(kept, -low);
                let up = u32::try_from(low + shift).ok().filter(|up| *up < 64)?;
                let field = match field.as_constant() {
                    Some(c) => constant(i128::from(c)),
                    None => self.atom(&field),
                };
                times(&field, &constant(1 << up))?
            }
            Node::Leaf(_)
            | Node::Quotient(..)
            | Node::Remainder(..)
            | Node::Xor(..)
            | Node::Min(..)
            | Node::Select(_) => self.atom(index),
            Node::Poison(_) => return None,
        })
    }

    fn atom(&mut self, index: &Index) -> Sum {
        let known = self.atoms.iter().position(|x| x == index);
        let at = known.unwrap_or(self.atoms.len());
        match known {
            None => self.atoms.push(index.clone()),
            Some(_) => {
                let (a, b) = (self.atoms[at].range(), index.range());
                self.atoms[at] = index.known_within((a.0.max(b.0), a.1.min(b.1)));
            }
        }
        Sum::from([(vec![at], 1)])
    }

    /// The smallest and the largest value of a product.
    fn range(&self, product: &[usize]) -> (i128, i128) {
        product.iter().fold((1, 1), |(low, high), at| {
            let (a, b) = self.atoms[*at].range();
            let ends = [low, high].map(|x| [a, b].map(|y| x.saturating_mul(i128::from(y))));
            let ends = ends.as_flattened();
            (
                ends[0].min(ends[1]).min(ends[2]).min(ends[3]),
                ends[0].max(ends[1]).max(ends[2]).max(ends[3]),
            )
        })
    }

    /// The smallest value of a product with a coefficient.
    fn least(&self, product: &[usize], c: i128) -> i128 {
        let (low, high) = self.range(product);
        (if c < 0 { high } else { low }).saturating_mul(c)
    }

    fn proves(&mut self, sum: &Sum, depth: usize) -> bool {
        self.steps += 1;
        let least = |(product, c): (&Vec<usize>, &i128)| self.least(product, *c);
        let all = sum.iter().map(least).fold(0, i128::saturating_add);
        if all >= 0 {
            return true;
        }
        if depth == 0 || self.steps > STEPS {
            return false;
        }
        // First those that may be below 0; of the others, a fact may know more than the range.
        let mut products: Vec<_> = sum
            .iter()
            .map(|(product, c)| (product.clone(), *c))
            .collect();
        products.retain(|(product, _)| !product.is_empty());
        products.sort_by_key(|(product, c)| self.least(product, *c) >= 0);
        for (product, c) in products {
            let mut facts = self.facts.clone();
            for at in &product {
                facts.extend(self.definition(*at).into_iter().flatten());
                if product.len() > 1 {
                    facts.extend(self.ends(*at).into_iter().flatten());
                }
            }
            for fact in facts {
                for (part, n) in &fact {
                    let Some(rest) = without(&product, part)
                        .filter(|_| !part.is_empty() && c % n == 0 && c / n > 0)
                    else {
                        continue;
                    };
                    if rest.iter().any(|at| self.atoms[*at].range().0 < 0) {
                        continue;
                    }
                    let scaled = times(&fact, &Sum::from([(rest, 1)]));
                    let rest = scaled.and_then(|fact| plus(sum, &fact, -(c / n)));
                    if rest.is_some_and(|rest| self.proves(&rest, depth - 1)) {
                        return true;
                    }
                }
            }
            if let Some(more) = self.of_quotient(sum, &product, c)
                && self.proves(&more, depth - 1)
            {
                return true;
            }
        }
        false
    }

    /// What is at least 0 by the range of an atom.
    fn ends(&self, at: usize) -> [Option<Sum>; 2] {
        let own = Sum::from([(vec![at], 1)]);
        let [low, high] = <[i64; 2]>::from(self.atoms[at].range()).map(|x| constant(x.into()));
        [plus(&own, &low, -1), plus(&high, &own, -1)]
    }

    /// What is at least 0 by the definition of an atom.
    fn definition(&mut self, at: usize) -> Vec<Option<Sum>> {
        let index = self.atoms[at].clone();
        let own = Sum::from([(vec![at], 1)]);
        let mut all = Vec::new();
        match &index.0.node {
            Node::BitField(x, mask, shift) if x.range().0 >= 0 => {
                let below = i128::from(x.0.bits & !mask);
                if let (Some(x), Some(field)) =
                    (self.sum_of(x), times(&own, &constant(1 << -shift)))
                {
                    let rest = plus(&x, &field, -1);
                    all.push(
                        rest.as_ref()
                            .and_then(|rest| plus(&constant(below), rest, -1)),
                    );
                    all.push(rest);
                }
            }
            Node::Remainder(a, b) if b.range().0 >= 1 => {
                if let Some(b) = self.sum_of(b) {
                    all.push(plus(&b, &own, -1).and_then(|rest| plus(&rest, &constant(1), -1)));
                }
                if a.range().0 >= 0
                    && let Some(a) = self.sum_of(a)
                {
                    all.push(plus(&a, &own, -1));
                }
            }
            Node::Quotient(a, b) if b.range().0 >= 1 => {
                if let (Some(a), Some(b)) = (self.sum_of(a), self.sum_of(b)) {
                    let whole = times(&b, &own);
                    all.push(whole.and_then(|whole| plus(&a, &whole, -1)));
                }
            }
            Node::Min(a, b) => {
                for x in [a, b] {
                    let x = self.sum_of(x);
                    all.push(x.and_then(|x| plus(&x, &own, -1)));
                }
            }
            _ => {}
        }
        all
    }

    /// `A - a / b >= 0` is `A b + b - 1 - a >= 0`.
    fn of_quotient(&mut self, sum: &Sum, product: &[usize], c: i128) -> Option<Sum> {
        let &[at] = product else { return None };
        let index = self.atoms[at].clone();
        let Node::Quotient(a, b) = &index.0.node else {
            return None;
        };
        if c != -1 || b.range().0 < 1 {
            return None;
        }
        let mut most = sum.clone();
        most.remove(product);
        let (a, b) = (self.sum_of(a)?, self.sum_of(b)?);
        let beyond = times(&plus(&most, &constant(1), 1)?, &b)?;
        plus(&plus(&beyond, &a, -1)?, &constant(1), -1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Owner;
    use crate::index::Leaf;
    use colex_ir::{Reg, RegType};

    const RANGES: [(i64, i64); 3] = [(-3, 5), (0, 7), (1, 4)];

    fn leaf(index: u32) -> Index {
        let (low, high) = RANGES[index as usize];
        let ty = RegType::B32;
        let leaf = Leaf {
            reg: Reg { index, ty },
            stamp: 0,
            is_signed: false,
            owner: Owner::NONE,
        };
        Index::leaf(leaf, (low, high), 1, 0)
    }

    /// A formula over the three registers.
    fn drawn(next: &mut impl FnMut(u64) -> i64, depth: u32) -> Index {
        if depth == 0 {
            return match next(4) {
                3 => (next(9) - 2).into(),
                n => leaf(n as u32),
            };
        }
        let (a, b) = (drawn(next, depth - 1), drawn(next, depth - 1));
        match next(9) {
            0 => a + b,
            1 => a - b,
            2 => a * b,
            3 => a * (next(7) - 3),
            4 => a / (next(5) + 1),
            5 => a % (next(5) + 1),
            6 => a.min(&b),
            7 if b.range().0 >= 0 && b.range().1 >= 1 => a / (b + 1),
            8 if b.range().0 >= 0 && b.range().1 >= 1 => a % (b + 1),
            _ => a,
        }
    }

    /// Where facts are said to imply an integer, it is at least 0 for all numbers for which they are.
    #[test]
    fn law_what_follows_is_true() {
        let mut state = 7u64;
        let mut next = |below: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            ((state >> 33) % below) as i64
        };
        let (mut cases, mut proved) = (0, 0);
        for _ in 0..600 {
            let facts: Vec<Index> = (0..3).map(|_| drawn(&mut next, 2)).collect();
            let noise = drawn(&mut next, 1);
            let margin = match next(3) {
                0 => drawn(&mut next, 2),
                1 => &facts[0] + &facts[1] * next(3) + noise,
                _ => &facts[0] * leaf(2) + &facts[2] + noise,
            };
            if !follows(&margin, &facts) {
                continue;
            }
            proved += 1;
            for x in RANGES[0].0..=RANGES[0].1 {
                for y in RANGES[1].0..=RANGES[1].1 {
                    for z in RANGES[2].0..=RANGES[2].1 {
                        let value = |reg: Reg| Some([x, y, z][reg.index as usize]);
                        let at_least_0 = |i: &Index| i.eval(&value).is_some_and(|i| i >= 0);
                        if facts.iter().all(at_least_0) {
                            assert!(
                                at_least_0(&margin),
                                "{facts:?} say nothing of {margin} at {x}, {y}, {z}"
                            );
                            cases += 1;
                        }
                    }
                }
            }
        }
        assert!(proved > 100, "{proved}");
        println!("law claims.what_follows: {cases} cases");
    }
}
