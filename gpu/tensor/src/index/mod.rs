//! `Index`: an integer that a thread computes.

pub(crate) mod fields;
pub(crate) mod ops;
pub(crate) mod poison;
pub(crate) mod walk;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::error::ErrorKind;
use crate::failure::{FirstFailure, Owner};
use crate::index::poison::Poison;
use crate::index::walk::Walked;
use colex_ir::Reg;

/// Bounds beyond which a range is not followed: no register holds more.
pub(crate) const LIMIT: i64 = 1 << 62;

/// An integer that a thread computes when the kernel runs: an expression over registers whose ranges are known.
///
/// The expression is simplified to a normal form as it is built. Constants fold. Quotients, remainders and products by
/// powers of two become one *bit field*: bits of an integer, masked and shifted. A sum keeps its constant apart, since an
/// instruction takes it as an immediate. Multiples of the divisor are taken out of quotients and dropped from remainders.
/// `/` rounds down and `%` is never negative, also for negative numbers. A divisor is at least 1: one that may be negative is
/// refused by [`Builder::finish`](crate::Builder::finish), and one that turns out to be 0 as for
/// [`Builder::index_of`](crate::Builder::index_of).
///
/// ```
/// # use colex_tensor::prelude::*;
/// let mut k = Builder::new("k", Arch::Sm80, 128);
/// let tid = k.thread();
/// assert_eq!((&tid / 32 * 32 + &tid % 32).to_string(), "r0");
/// assert_eq!(((&tid % 8) * 64 + 5 + &tid / 8 + 2).to_string(), "((r0 & 7) << 6) + (r0 >> 3) + 7");
/// assert_eq!(((&tid * 12 + 7) / 12).to_string(), "r0");
/// assert_eq!((&tid / 128).to_string(), "0");
/// ```
#[derive(Clone)]
pub struct Index(pub(crate) Arc<Data>);

/// A node with what is known of it.
pub(crate) struct Data {
    pub(crate) node: Node,
    hash: u64,
    /// Its nodes, those of a part as often as it is used: a walk that takes no part twice takes far fewer.
    nodes: u32,
    /// Whether it or a part of it has no value.
    is_poisoned: bool,
    /// The smallest and the largest value.
    pub(crate) range: (i64, i64),
    /// The bits that may be set; all if it may be negative.
    pub(crate) bits: u64,
    /// The deepest scope of its leaves.
    pub(crate) depth: u32,
    /// The builder of its leaves.
    owner: Owner,
    /// The integer and the range that say so, where it was taken to lie in `range` and nothing has claimed that yet.
    taken: Option<(Index, (i64, i64))>,
    /// Whether its value is right only where a part of it lies in a range that nothing has claimed yet.
    pub(crate) owes: bool,
}

/// A register with the moment it was read: a register that is written again is another leaf, and so is one that is read as a
/// number with a sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Leaf {
    pub(crate) reg: Reg,
    pub(crate) stamp: u32,
    /// Whether it may be below 0.
    pub(crate) is_signed: bool,
    pub(crate) owner: Owner,
}

/// Not the owner, whose number differs from run to run.
impl Hash for Leaf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.reg.hash(state);
        self.stamp.hash(state);
        // A leaf without a sign hashes as it always has, and listings keep their order.
        if self.is_signed {
            self.is_signed.hash(state);
        }
    }
}

/// The node of an [`Index`].
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    Leaf(Leaf),
    /// A constant, and terms with their coefficients: no term is a sum or a constant, none occurs twice.
    Sum(Vec<(Index, i64)>, i64),
    /// `(x & mask) << shift`, or `>> -shift`.
    BitField(Index, u64, i32),
    Product(Index, Index),
    Quotient(Index, Index),
    Remainder(Index, Index),
    Xor(Index, Index),
    Min(Index, Index),
    /// `then` where `a < b`, else `other`.
    Select(Box<[Index; 4]>),
    /// A sum that stays together, so that others can be built upon its register.
    Opaque(Index),
    /// No integer at all, and why.
    Poison(Poison),
}

impl Node {
    fn owner(&self) -> Owner {
        match self {
            Node::Leaf(leaf) => leaf.owner,
            Node::Sum(terms, _) => {
                let owners = terms.iter().map(|(x, _)| x.owner());
                owners.fold(Owner::NONE, Owner::and)
            }
            Node::BitField(x, ..) | Node::Opaque(x) => x.owner(),
            Node::Product(a, b)
            | Node::Quotient(a, b)
            | Node::Remainder(a, b)
            | Node::Xor(a, b)
            | Node::Min(a, b) => a.owner().and(b.owner()),
            Node::Select(parts) => parts.iter().map(Index::owner).fold(Owner::NONE, Owner::and),
            Node::Poison(_) => Owner::NONE,
        }
    }

    /// Whether a part of it [owes](Data::owes) a claim, or it divides by what may be 0.
    fn owes(&self) -> bool {
        match self {
            Node::Leaf(_) | Node::Poison(_) => false,
            Node::Sum(terms, _) => terms.iter().any(|(x, _)| x.0.owes),
            Node::BitField(x, ..) | Node::Opaque(x) => x.0.owes,
            Node::Quotient(a, b) | Node::Remainder(a, b) => a.0.owes || b.0.owes || b.0.range.0 < 1,
            Node::Product(a, b) | Node::Xor(a, b) | Node::Min(a, b) => a.0.owes || b.0.owes,
            Node::Select(parts) => parts.iter().any(|x| x.0.owes),
        }
    }
}

impl Data {
    pub(crate) fn build(node: Node, range: (i64, i64), bits: u64, depth: u32) -> Index {
        Data::taking(node, range, bits, depth, None)
    }

    /// The same of an integer that is taken to lie in the range.
    fn taking(
        node: Node,
        range: (i64, i64),
        bits: u64,
        depth: u32,
        taken: Option<(Index, (i64, i64))>,
    ) -> Index {
        let mut hasher = Mixer(0);
        node.hash(&mut hasher);
        let claimed = taken.as_ref().map_or(0, |(claimed, _)| claimed.0.nodes);
        let (mut nodes, mut is_poisoned) =
            (claimed.saturating_add(1), matches!(node, Node::Poison(_)));
        node.parts(&mut |part| {
            nodes = part.0.nodes.saturating_add(nodes);
            is_poisoned |= part.0.is_poisoned;
        });
        let range = (range.0.max(-LIMIT), range.1.min(LIMIT));
        // A negative value may have every high bit set, so no mask of it is redundant.
        let bits = if range.0 < 0 { u64::MAX } else { bits };
        Index(Arc::new(Data {
            owner: node.owner(),
            owes: taken.is_some() || node.owes(),
            taken,
            node,
            hash: hasher.finish(),
            nodes,
            is_poisoned,
            range,
            bits,
            depth,
        }))
    }
}

/// The same number on every run: listings do not depend on a seed. Nodes are hashed as they are built, word by word.
struct Mixer(u64);

impl Mixer {
    fn add(&mut self, word: u64) {
        // The multiplier is odd, and its bits are spread.
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.add(u64::from(*byte)));
    }

    fn write_u32(&mut self, word: u32) {
        self.add(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.add(word);
    }

    fn write_usize(&mut self, word: usize) {
        self.add(word as u64);
    }
}

impl PartialEq for Index {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            // The range is no part of equality: one node has one register, however much is known of it.
            || (self.0.hash == other.0.hash && walk::is_same(self, other))
    }
}

impl Eq for Index {}

impl Hash for Index {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash.hash(state);
    }
}

impl Index {
    pub(crate) fn leaf(leaf: Leaf, range: (i64, i64), multiple: i64, depth: u32) -> Index {
        let leaf = Leaf {
            is_signed: range.0 < 0,
            ..leaf
        };
        let bits = below(range.1) & !((multiple as u64 & (multiple as u64).wrapping_neg()) - 1);
        Data::build(Node::Leaf(leaf), range, bits, depth)
    }

    /// The builder that it is of.
    pub(crate) fn owner(&self) -> Owner {
        self.0.owner
    }

    /// Builds a constant.
    ///
    /// ```
    /// # use colex_tensor::Index;
    /// assert_eq!((Index::constant(3) * 4).as_constant(), Some(12));
    /// ```
    pub fn constant(value: i64) -> Index {
        Data::build(
            Node::Sum(Vec::new(), value),
            (value, value),
            value as u64,
            0,
        )
    }

    /// Returns the value of the index, if it is a constant.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let tid = Builder::new("k", Arch::Sm80, 32).thread();
    /// assert_eq!((&tid - &tid).as_constant(), Some(0));
    /// assert_eq!(tid.as_constant(), None);
    /// ```
    pub fn as_constant(&self) -> Option<i64> {
        match &self.0.node {
            Node::Sum(terms, constant) if terms.is_empty() => Some(*constant),
            _ => None,
        }
    }

    /// Returns bounds of the value: the smallest and the largest one, both included.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let tid = Builder::new("k", Arch::Sm80, 32).thread();
    /// assert_eq!((tid % 8 * 4 + 1).range(), (1, 29));
    /// ```
    pub fn range(&self) -> (i64, i64) {
        self.0.range
    }

    /// Returns the largest power of two that is known to divide the value; `1 << 62` for 0.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let tid = Builder::new("k", Arch::Sm80, 32).thread();
    /// assert_eq!((tid * 24 + 16).alignment(), 8);
    /// ```
    pub fn alignment(&self) -> i64 {
        match &self.0.node {
            Node::Sum(terms, constant) => {
                let of = |(x, c): &(Index, i64)| align(*c).saturating_mul(x.alignment());
                let least = terms.iter().map(of).min().unwrap_or(LIMIT);
                least.min(align(*constant)).min(LIMIT)
            }
            Node::Opaque(x) => x.alignment(),
            Node::Product(a, b) => a.alignment().saturating_mul(b.alignment()).min(LIMIT),
            _ => align(self.0.bits as i64).min(LIMIT),
        }
    }

    /// Its terms with their coefficients, and its constant.
    pub(crate) fn terms(&self) -> (Vec<(Index, i64)>, i64) {
        match &self.0.node {
            Node::Sum(terms, constant) => (terms.clone(), *constant),
            _ => (vec![(self.clone(), 1)], 0),
        }
    }

    /// Without its constant, and the constant.
    pub(crate) fn split(&self) -> (Index, i64) {
        let (terms, constant) = self.terms();
        (sum(terms, 0), constant)
    }

    /// The same value under one name: sums built upon it share its register instead of taking its terms apart.
    pub(crate) fn unit(&self) -> Index {
        let (rest, constant) = self.split();
        match &rest.0.node {
            Node::Sum(terms, _) if terms.len() > 1 => {
                let data = &rest.0;
                let unit = Node::Opaque(rest.clone());
                Data::build(unit, data.range, data.bits, data.depth) + constant
            }
            _ => self.clone(),
        }
    }

    /// The same value, in a `range` (end excluded) that the caller claims or knows. If none of its possible values lies in the
    /// range, a kernel that uses the index is refused.
    #[track_caller]
    pub(crate) fn within(&self, range: std::ops::Range<i64>) -> Index {
        let (low, high) = self.0.range;
        if low >= range.start && high < range.end {
            return self.clone();
        }
        if (low >= range.end || high < range.start) && self.poison().is_none() {
            return Index::no_integer(format!(
                "{self} lies from {low} to {high}, and never in {}..{}",
                range.start, range.end
            ));
        }
        self.known_within((range.start, range.end - 1))
    }

    /// The same value in a `range` (end excluded) that the caller takes it to lie in, times `step`. What computes the value
    /// claims that first: [`Builder::claim_owed`](crate::Builder::claim_owed).
    #[track_caller]
    pub(crate) fn taken_within(&self, range: std::ops::Range<i64>, step: i64) -> Index {
        let inside = self.within(range);
        if inside.poison().is_some() || inside.0.range == self.0.range {
            return inside * step;
        }
        let Data {
            node,
            range,
            bits,
            depth,
            ..
        } = &*inside.0;
        // Branches compare the product with an extent, so the claim is of the product.
        let last = range.1.saturating_mul(step).saturating_add(step - 1);
        let claim = (self * step, (range.0.saturating_mul(step), last));
        Data::taking(node.clone(), *range, *bits, *depth, Some(claim)) * step
    }

    /// The integers that its value takes to lie in ranges, both ends included, without a claim: the parts first.
    pub(crate) fn owed(&self, found: &mut Vec<(Index, (i64, i64))>) {
        self.owed_in(found, &mut Walked::default());
    }

    fn owed_in(&self, found: &mut Vec<(Index, (i64, i64))>, walked: &mut Walked<()>) {
        if !self.0.owes {
            return;
        }
        walked.of(self, |walked| {
            (self.0.node).parts(&mut |part| part.owed_in(found, walked));
            if let Node::Quotient(_, divisor) | Node::Remainder(_, divisor) = &self.0.node
                && divisor.0.range.0 < 1
            {
                found.push((divisor.clone(), (1, divisor.0.range.1)));
            }
            if let Some(claim) = &self.0.taken {
                claim.0.owed_in(found, walked);
                found.push(claim.clone());
            }
        });
    }

    /// The same value in a range, both ends included, which the kernel keeps it in, or a claim demands.
    pub(crate) fn known_within(&self, (first, last): (i64, i64)) -> Index {
        let (low, high) = self.0.range;
        let range = (low.max(first), high.min(last));
        let bits = self.0.bits & below(range.1);
        // A sum would be taken apart, and its terms know nothing of the range.
        let node = match &self.0.node {
            Node::Sum(..) => Node::Opaque(self.clone()),
            other => other.clone(),
        };
        Data::taking(node, range, bits, self.0.depth, self.0.taken.clone())
    }

    /// Returns the minimum of two indices.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let least = k.thread().min(&2.into());
    /// assert_eq!(values(k, &least)?[..4], [0, 1, 2, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn min(&self, other: &Index) -> Index {
        if let Some(poison) = self.either_poison(other) {
            return poison;
        }
        let (a, b) = (self.0.range, other.0.range);
        if a.1 <= b.0 {
            return self.clone();
        }
        if b.1 <= a.0 {
            return other.clone();
        }
        let range = (a.0.min(b.0), a.1.min(b.1));
        let depth = self.0.depth.max(other.0.depth);
        Data::build(
            Node::Min(self.clone(), other.clone()),
            range,
            below(range.1),
            depth,
        )
    }

    /// Returns the maximum of two indices.
    pub(crate) fn max_of(&self, other: &Index) -> Index {
        if (self - other).range().0 >= 0 {
            return self.clone();
        }
        let (a, b) = (self.0.range, other.0.range);
        let range = (a.0.max(b.0), a.1.max(b.1));
        let chosen = Index::select_less(self, other, other, self);
        if chosen.0.range == range || chosen.poison().is_some() {
            return chosen;
        }
        chosen.known_within(range)
    }

    /// Returns `then` where `a < b`, else `other`.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let chosen = Index::select_less(&k.thread(), &2.into(), &7.into(), &9.into());
    /// assert_eq!(values(k, &chosen)?[..4], [7, 7, 9, 9]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn select_less(a: &Index, b: &Index, then: &Index, other: &Index) -> Index {
        if let Some(poison) = a.either_poison(b).or_else(|| then.either_poison(other)) {
            return poison;
        }
        if a.0.range.1 < b.0.range.0 || then == other {
            return then.clone();
        }
        if a.0.range.0 >= b.0.range.1 {
            return other.clone();
        }
        let parts = [a.clone(), b.clone(), then.clone(), other.clone()];
        let depth = parts.iter().map(|x| x.0.depth).max().unwrap_or(0);
        let (t, o) = (then.0.range, other.0.range);
        let bits = then.0.bits | other.0.bits;
        Data::build(
            Node::Select(Box::new(parts)),
            (t.0.min(o.0), t.1.max(o.1)),
            bits,
            depth,
        )
    }

    /// Returns the bitwise exclusive or. Neither may be negative.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let flipped = k.thread().xor(&1.into());
    /// assert_eq!(values(k, &flipped)?[..4], [1, 0, 3, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn xor(&self, other: &Index) -> Index {
        if let Some(poison) = self.either_poison(other) {
            return poison;
        }
        match (self.as_constant(), other.as_constant()) {
            (Some(a), Some(b)) => return Index::constant(a ^ b),
            (Some(0), _) => return other.clone(),
            (_, Some(0)) => return self.clone(),
            _ if self.0.range.0 < 0 || other.0.range.0 < 0 => {
                return Index::no_integer(format!("{self} ^ {other}: neither may be negative"));
            }
            _ => {}
        }
        if self.0.bits & other.0.bits == 0 {
            return self + other;
        }
        let bits = self.0.bits | other.0.bits;
        let depth = self.0.depth.max(other.0.depth);
        Data::build(
            Node::Xor(self.clone(), other.clone()),
            (0, bits as i64),
            bits,
            depth,
        )
    }

    /// `(self & mask) << shift`, or `>> -shift`.
    pub(crate) fn bits(&self, mask: u64, shift: i32) -> Index {
        crate::index::fields::bits(self, mask, shift)
    }

    /// The bits of this integer that an instruction keeps for `(self & mask) << shift`: it masks nothing that its range leaves
    /// clear.
    pub(crate) fn kept(&self, mask: u64, shift: i32) -> u64 {
        let out = if shift < 0 { (1u64 << -shift) - 1 } else { 0 };
        if mask == self.0.bits & !out {
            !out
        } else {
            mask
        }
    }

    pub(crate) fn bits_node(&self, mask: u64, shift: i32) -> Index {
        let set = moved(self.0.bits & mask, shift);
        let mut high = set.min(LIMIT as u64) as i64;
        // Where only low bits are dropped, order is kept.
        let above = u64::MAX << mask.trailing_zeros();
        if self.0.range.0 >= 0 && self.0.bits & above & !mask == 0 {
            high = high.min(moved(self.0.range.1 as u64 & above, shift) as i64);
        }
        let range = (0, high);
        Data::build(
            Node::BitField(self.clone(), mask, shift),
            range,
            set,
            self.0.depth,
        )
    }

    pub(crate) fn pair(
        node: fn(Index, Index) -> Node,
        a: &Index,
        b: &Index,
        range: (i64, i64),
    ) -> Index {
        let depth = a.0.depth.max(b.0.depth);
        Data::build(node(a.clone(), b.clone()), range, below(range.1), depth)
    }
}

/// `bits` moved left, or right if `shift` is negative.
pub(crate) fn moved(bits: u64, shift: i32) -> u64 {
    let moved = if shift >= 0 {
        bits.checked_shl(shift.unsigned_abs())
    } else {
        bits.checked_shr(shift.unsigned_abs())
    };
    moved.unwrap_or(0)
}

/// The bits that a number from 0 to `high` may have.
pub(crate) fn below(high: i64) -> u64 {
    if high <= 0 {
        return 0;
    }
    u64::MAX >> (high as u64).leading_zeros()
}

/// The largest power of two that divides `n`; `1 << 62` for 0.
pub(crate) fn align(n: i64) -> i64 {
    let n = n as u64;
    if n == 0 {
        LIMIT
    } else {
        (n & n.wrapping_neg()).min(LIMIT as u64) as i64
    }
}

/// The bits that `x * coefficient` may have, if it cannot be negative.
pub(crate) fn term_bits(x: &Index, coefficient: i64) -> u64 {
    let (low, high) = x.0.range;
    if low < 0 || coefficient < 0 {
        return u64::MAX;
    }
    if coefficient.count_ones() == 1 {
        return x.0.bits << coefficient.trailing_zeros();
    }
    let multiple = align(coefficient).saturating_mul(x.alignment()).min(LIMIT) as u64;
    below(high.saturating_mul(coefficient)) & !(multiple - 1)
}

/// The sum of terms and a constant, in normal form.
#[track_caller]
pub(crate) fn sum(terms: Vec<(Index, i64)>, constant: i64) -> Index {
    match gathered(&terms, constant) {
        Some((flat, total)) => of_flat(flat, total),
        None => {
            let parts: Vec<String> = terms.iter().map(|(x, c)| format!("({x}) * {c}")).collect();
            let parts = parts.join(" + ");
            Index::no_integer(format!(
                "{parts} + {constant}: a factor or a constant of it does not fit 64 bits"
            ))
        }
    }
}

/// The terms of a sum, none twice and none a sum, and its constant; none if one of the numbers does not fit 64 bits.
fn gathered(terms: &[(Index, i64)], constant: i64) -> Option<(Vec<(Index, i64)>, i64)> {
    let of = |x: &Index| match &x.0.node {
        Node::Sum(inner, _) => inner.len(),
        _ => 1,
    };
    let mut flat: Vec<(Index, i64)> = Vec::with_capacity(terms.iter().map(|(x, _)| of(x)).sum());
    let mut total = constant;
    let mut add = |y: &Index, c: i64| crate::index::fields::add_term(&mut flat, y.clone(), c);
    for (x, c) in terms {
        let Node::Sum(inner, k) = &x.0.node else {
            total = total.checked_add(add(x, *c)?)?;
            continue;
        };
        total = total.checked_add(k.checked_mul(*c)?)?;
        for (y, d) in inner {
            total = total.checked_add(add(y, c.checked_mul(*d)?)?)?;
        }
    }
    // Terms cancel only once all are gathered; a factor of 0 left here would make equal integers unequal nodes.
    flat.retain(|(_, c)| *c != 0);
    Some((flat, total))
}

fn of_flat(flat: Vec<(Index, i64)>, total: i64) -> Index {
    if let ([(x, 1)], 0) = (&flat[..], total) {
        return x.clone();
    }
    let (mut low, mut high, mut set) = (total, total, total as u64);
    let mut multiple = align(total);
    let mut depth = 0;
    for (x, c) in &flat {
        let ends = [x.0.range.0, x.0.range.1].map(|end| end.saturating_mul(*c));
        low = low.saturating_add(ends[0].min(ends[1]));
        high = high.saturating_add(ends[0].max(ends[1]));
        let bits = term_bits(x, *c);
        // A carry begins at the lowest bit that both may have, and goes no lower.
        let common = bits & set;
        set |= bits;
        if common != 0 {
            set |= u64::MAX << common.trailing_zeros();
        }
        multiple = multiple.min(align(*c).saturating_mul(x.alignment()));
        depth = depth.max(x.0.depth);
    }
    set &= below(high) & !(multiple.clamp(1, LIMIT) as u64 - 1);
    Data::build(Node::Sum(flat, total), (low, high), set, depth)
}

impl FirstFailure {
    /// Refuses numbers of which one is of another builder.
    pub(crate) fn own_indices<'a>(
        &self,
        indices: impl IntoIterator<Item = &'a Index>,
    ) -> Result<(), ErrorKind> {
        let mut indices = indices.into_iter();
        indices.try_for_each(|index| self.own("an index", index.owner()))
    }
}
