//! The normal form of bit fields, quotients and remainders.

use super::{Index, Node, align, moved, sum, term_bits};

/// Adds `x * c` to terms: equal terms and fields of the same integer under the same shift become one, whose constant is
/// returned. None if a number does not fit 64 bits.
pub(crate) fn add_term(terms: &mut Vec<(Index, i64)>, x: Index, c: i64) -> Option<i64> {
    let (x, c) = match (&x.0.node, c.count_ones() == 1 && c > 0) {
        (Node::BitField(_, _, shift), true) if shift + c.trailing_zeros() as i32 > 62 => {
            return None;
        }
        (Node::BitField(of, mask, shift), true) if c > 1 => {
            (bits(of, *mask, shift + c.trailing_zeros() as i32), 1)
        }
        _ => (x, c),
    };
    // `tid % 32` and `tid / 32 * 32` are two fields of `tid`: joined, they are `tid` again. This is how the coordinates of
    // a partition cancel, and why equal addresses become equal expressions.
    if let (Node::BitField(of, mask, shift), 1) = (&x.0.node, c) {
        let same = |(y, d): &(Index, i64)| match &y.0.node {
            Node::BitField(other, m, s) => *d == 1 && other == of && s == shift && m & mask == 0,
            _ => false,
        };
        if let Some(at) = terms.iter().position(same) {
            let (other, _) = terms.remove(at);
            let Node::BitField(_, m, s) = &other.0.node else {
                unreachable!("found as a field")
            };
            let joined = bits(of, mask | m, *s);
            // All fields of a sum are the sum, which may have a constant.
            let (inner, constant) = joined.terms();
            return (inner.into_iter()).try_fold(constant, |sum, (y, d)| {
                sum.checked_add(add_term(terms, y, d)?)
            });
        }
    }
    // The same for divisors that are no powers of two: `x / d * d + x % d` is `x`.
    if let Some((partner, whole)) = divided(terms, &x, c) {
        terms.remove(partner);
        let inner = whole.0.terms().0.into_iter();
        return { inner }.try_fold(0_i64, |sum, (y, d)| {
            sum.checked_add(add_term(terms, y, d.checked_mul(whole.1)?)?)
        });
    }
    match terms.iter_mut().find(|(y, _)| *y == x) {
        Some((_, d)) => *d = d.checked_add(c)?,
        None => terms.push((x, c)),
    }
    Some(0)
}

/// A quotient times its divisor, beside the remainder, is the dividend: the place of the other term, and what both are.
fn divided(terms: &[(Index, i64)], x: &Index, c: i64) -> Option<(usize, (Index, i64))> {
    let find = |of: &Index, by: &Index, remainder: bool, c: i64| {
        terms
            .iter()
            .position(|(y, d)| match (&y.0.node, remainder) {
                (Node::Remainder(a, b), true) | (Node::Quotient(a, b), false) => {
                    *d == c && a == of && b == by
                }
                _ => false,
            })
    };
    match &x.0.node {
        Node::Quotient(of, by) => {
            let d = by.as_constant().filter(|d| *d > 0 && c % d == 0)?;
            let at = find(of, by, true, c / d)?;
            Some((at, (of.clone(), c / d))).filter(|_| of.terms().1 == 0)
        }
        Node::Remainder(of, by) => {
            let d = by.as_constant()?;
            let at = find(of, by, false, c.checked_mul(d)?)?;
            Some((at, (of.clone(), c))).filter(|_| of.terms().1 == 0)
        }
        _ => None,
    }
}

/// `(x & mask) << shift`, or `>> -shift`.
pub(crate) fn bits(x: &Index, mask: u64, shift: i32) -> Index {
    // What is shifted out at the bottom is not looked at; what cannot be set need not be masked.
    let out = if shift < 0 { (1u64 << -shift) - 1 } else { 0 };
    let mask = mask & !out;
    if let Some(value) = x.as_constant() {
        return Index::constant(signed(value, mask, shift));
    }
    let mask = if x.0.range.0 >= 0 {
        mask & x.0.bits
    } else {
        mask
    };
    if mask == 0 {
        return Index::constant(0);
    }
    let whole = mask == x.0.bits & !out;
    match &x.0.node {
        // A field of a field is one field: no chain of masks and shifts is built.
        Node::BitField(of, inner, s) => {
            let through = moved(mask, -*s) & inner;
            bits(of, through, shift + s)
        }
        _ if whole && shift == 0 && x.0.range.0 >= 0 => x.clone(),
        _ if whole && shift > 0 && x.0.range.0 >= 0 => sum(vec![(x.clone(), 1 << shift)], 0),
        Node::Sum(..) => of_sum(x, mask, shift),
        _ => x.bits_node(mask, shift),
    }
}

fn signed(value: i64, mask: u64, shift: i32) -> i64 {
    let kept = (value as u64 & mask) as i64;
    if shift >= 0 {
        kept << shift
    } else {
        kept >> -shift
    }
}

/// Terms whose bits no other term touches are taken one by one; terms above the mask go.
fn of_sum(x: &Index, mask: u64, shift: i32) -> Index {
    let (mut terms, mut constant) = x.terms();
    // The carries of a sum go up only: a multiple of more than the highest bit of the mask changes nothing.
    let top = 64 - mask.leading_zeros();
    if top < 63 {
        let period = 1i64 << top;
        terms.retain(|(y, c)| align(*c).saturating_mul(y.alignment()) < period);
        constant = constant.rem_euclid(period);
    }
    let set: Vec<u64> = terms.iter().map(|(y, c)| term_bits(y, *c)).collect();
    let mut all = constant as u64;
    let mut clash = 0;
    for bits in &set {
        clash |= all & bits;
        all |= bits;
    }
    if clash == 0 {
        let mut result = Index::constant(signed(constant, mask, shift));
        for (y, c) in terms {
            result = result + of_term(&y, c, mask, shift);
        }
        return result;
    }
    // Multiples of the lowest bit of the mask that clash with nothing: only a right shift to the top keeps them apart.
    let low = mask.trailing_zeros();
    let open =
        mask >> low == u64::MAX >> low || (x.0.range.0 >= 0 && mask == x.0.bits >> low << low);
    if shift < 0 && low == shift.unsigned_abs() && open {
        return quotient(x, 1 << low);
    }
    sum(terms, constant).bits_node(mask, shift)
}

fn of_term(y: &Index, c: i64, mask: u64, shift: i32) -> Index {
    if c.count_ones() == 1 {
        let s = c.trailing_zeros() as i32;
        return bits(y, moved(mask, -s), shift + s);
    }
    let term = sum(vec![(y.clone(), c)], 0);
    let out = if shift < 0 { (1u64 << -shift) - 1 } else { 0 };
    match term.0.bits & mask {
        0 => Index::constant(0),
        // No bit is lost: the product itself moves.
        kept if kept == term.0.bits && shift >= 0 => sum(vec![(term, 1 << shift)], 0),
        kept if kept == term.0.bits && term.0.bits & out == 0 && c % (1 << -shift) == 0 => {
            sum(vec![(y.clone(), c >> -shift)], 0)
        }
        _ => term.bits_node(mask, shift),
    }
}

/// `x / d`, rounded down, for a constant above 0.
#[track_caller]
pub(crate) fn quotient(x: &Index, d: i64) -> Index {
    if let Some(value) = x.as_constant() {
        return Index::constant(value.div_euclid(d));
    }
    let (low, high) = x.0.range;
    if d == 1 {
        return x.clone();
    }
    if low >= 0 && high < d {
        return Index::constant(0);
    }
    // `(a d + b) / d` is `a + b / d`, also below zero, since `/` rounds down.
    let (out, rest) = multiples(x, d);
    if out.as_constant() != Some(0) {
        return out + quotient(&rest, d);
    }
    let shift = d.trailing_zeros();
    if d.count_ones() == 1 && low >= 0 {
        let clean = |(y, c): &(Index, i64)| term_bits(y, *c);
        let (terms, constant) = x.terms();
        let mut all = constant.max(0) as u64;
        let disjoint = constant >= 0
            && terms.iter().map(clean).all(|bits| {
                let free = all & bits == 0;
                all |= bits;
                free
            });
        if disjoint {
            return bits(x, u64::MAX << shift, -(shift as i32));
        }
        return x.bits_node(x.0.bits >> shift << shift, -(shift as i32));
    }
    let range = (low.div_euclid(d), high.div_euclid(d));
    Index::pair(Node::Quotient, x, &Index::constant(d), range)
}

/// `x % d`, never negative, for a constant above 0.
#[track_caller]
pub(crate) fn remainder(x: &Index, d: i64) -> Index {
    if let Some(value) = x.as_constant() {
        return Index::constant(value.rem_euclid(d));
    }
    let (low, high) = x.0.range;
    if low >= 0 && high < d {
        return x.clone();
    }
    let (_, rest) = multiples(x, d);
    if rest != *x {
        return remainder(&rest, d);
    }
    if d.count_ones() == 1 {
        return bits(x, d as u64 - 1, 0);
    }
    Index::pair(Node::Remainder, x, &Index::constant(d), (0, d - 1))
}

/// `(a, b)` with `x = a d + b`, as much in `a` as is seen to be a multiple.
fn multiples(x: &Index, d: i64) -> (Index, Index) {
    let (terms, constant) = x.terms();
    let (out, rest): (Vec<_>, Vec<_>) = terms.into_iter().partition(|(_, c)| c % d == 0);
    let out = out.into_iter().map(|(y, c)| (y, c / d)).collect();
    (
        sum(out, constant.div_euclid(d)),
        sum(rest, constant.rem_euclid(d)),
    )
}

/// The product; a constant factor and the constants of sums go into coefficients.
#[track_caller]
pub(crate) fn product(a: &Index, b: &Index) -> Index {
    if let Some(c) = b.as_constant() {
        return sum(vec![(a.clone(), c)], 0);
    }
    if a.as_constant().is_some() {
        return product(b, a);
    }
    let (terms, constant) = a.terms();
    // What a loop changes is multiplied by itself, so that the rest is computed once outside of it.
    let mut depths: Vec<u32> = terms.iter().map(|(x, _)| x.0.depth).collect();
    depths.sort_unstable();
    depths.dedup();
    let mut result = sum(vec![(b.clone(), constant)], 0);
    for depth in depths {
        let part = terms.iter().filter(|(x, _)| x.0.depth == depth);
        let part = sum(part.cloned().collect(), 0);
        let corners = [a_end(&part, b, 0, 0), a_end(&part, b, 0, 1)]
            .into_iter()
            .chain([a_end(&part, b, 1, 0), a_end(&part, b, 1, 1)]);
        let range = corners.fold((i64::MAX, i64::MIN), |(l, h), x| (l.min(x), h.max(x)));
        result = result + Index::pair(Node::Product, &part, b, range);
    }
    result
}

fn a_end(a: &Index, b: &Index, i: usize, j: usize) -> i64 {
    let ends = |x: &Index, i| if i == 0 { x.0.range.0 } else { x.0.range.1 };
    ends(a, i).saturating_mul(ends(b, j))
}
