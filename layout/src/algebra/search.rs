//! The search that follows a refused composition: complete over the modes of the right-hand side, and bounded.
//!
//! The rule of composition is sound but not complete. A result over the modes of `B` exists exactly when the values
//! `A(B(c))` are those of a layout whose modes refine the leaves of `B`, and that can be read off the values.
//!
//! Not all values need to be read. The walk of composition cuts each leaf of `B` into parts, each of which stays within
//! one digit of `A`, and a last part that straddles digits. Parts are then grouped: where the largest digits of two groups
//! add up to less than the extent of each mode of `A`, no coordinate carries between them, so `A(B(c))` is the sum of
//! what each group gives, and a layout exists exactly when each group has one. Only groups of several parts and parts
//! that straddle digits are read, value by value.
//!
//! Cutting a leaf loses nothing: a part ends where the values of the leaf cease to rise by equal steps, and there a
//! mode of the coalesced result must end too.

use alloc::boxed::Box;
use alloc::vec::Vec;

use smallvec::{SmallVec, smallvec};

use crate::algebra::composition::{Case, Check, DigitSums, Walker};
use crate::algebra::infer::{Inferred, OpenModes, infer};
use crate::error::ErrorKind;
use crate::layout::LeafMode;
use crate::layout::coalesce::{Flat, Tail, coalesced, layout_of};
use crate::tuple::int::mul;
use crate::{CompositionError, Contradiction, Error, Int, IntTuple, Layout, Search, Seen, Stride};

/// How many coordinates of the right-hand modes that clash the search looks at before it gives up.
pub const SEARCH_BOUND: i64 = 1 << 16;

impl CompositionError {
    /// The layout that exists all the same, or this error with what the search found.
    pub(crate) fn or_search(mut self: Box<Self>) -> Result<Layout, Error> {
        match search(&self.lhs, &self.rhs) {
            Ok(result) => Ok(result),
            Err(why) => {
                self.search = why;
                Err(ErrorKind::Composition(self).into())
            }
        }
    }
}

/// The layout over the modes of `rhs` that equals `lhs(rhs(c))` at every coordinate.
fn search(lhs: &Layout, rhs: &Layout) -> Result<Layout, Search> {
    integers(lhs).map_err(Search::Failed)?;
    let flat = coalesced(lhs.leaves(), Tail::Continue);
    let parts = parts(&flat, rhs).map_err(Search::Failed)?;
    let groups = groups(&flat, &parts).map_err(Search::Failed)?;
    let mut modes: Vec<PartModes> = parts.iter().map(Part::known).collect();
    let mut failure: Option<(i64, Search)> = None;
    // Groups do not carry into one another, so each is read with the other coordinates at 0: the cost is the sum of
    // their sizes, not the product. All are read, so that the error is the first contradiction by coordinate.
    for group in groups.iter().filter(|g| g.is_open(&parts)) {
        match read(lhs, rhs, &parts, group) {
            Ok(found) => {
                let members = group.members.iter().enumerate();
                members.for_each(|(i, part)| modes[*part] = found.of(i).collect());
            }
            Err(why) => {
                let rank = rank_of(&why, rhs);
                if failure.as_ref().is_none_or(|(least, _)| rank < *least) {
                    failure = Some((rank, why));
                }
            }
        }
    }
    match failure {
        Some((_, why)) => Err(why),
        None => Ok(result(lhs, rhs, &parts, &modes)),
    }
}

/// Offsets add only where strides are integers.
fn integers(lhs: &Layout) -> Result<(), Error> {
    let other = |l: &&LeafMode| !matches!(l.stride, Stride::Int(_));
    match lhs.leaves().iter().find(other) {
        None => Ok(()),
        Some(_) => Err(Error::stride_kind(
            "the search for a composition",
            lhs.text(),
            "integer strides on the left",
        )),
    }
}

/// Extent and stride of the modes of one part of the result.
type PartModes = SmallVec<[(i64, i64); 2]>;

/// A part of a leaf of the right-hand side: `extent` steps of `stride`, after `before` steps of the parts before it.
struct Part {
    leaf: usize,
    before: i64,
    extent: i64,
    stride: i64,
    /// The one digit that it stays in, or `None` if it straddles digits.
    stays: Option<Stay>,
}

/// How a part stays within one mode of the left-hand side.
struct Stay {
    left_mode: usize,
    /// Its largest digit there.
    digit: i64,
    /// Its stride in the result.
    stride: i64,
}

impl Part {
    /// The mode of the result, where it is known without reading values.
    fn known(&self) -> PartModes {
        self.stays
            .as_ref()
            .map(|stay| smallvec![(self.extent, stay.stride)])
            .unwrap_or_default()
    }

    /// Whether it gives offsets other than 0.
    const fn moves(&self) -> bool {
        self.extent > 1 && self.stride != 0
    }
}

/// The parts of all leaves, as far as the walk through the modes of `flat` comes.
fn parts(flat: &Flat, rhs: &Layout) -> Result<Vec<Part>, Error> {
    let mut parts = Vec::new();
    let mut sums = DigitSums::from_elem(Default::default(), flat.len());
    for (leaf, mode) in rhs.leaves().iter().enumerate() {
        let stride = rhs.int_stride("composition on the right", mode)?;
        let mut visits: SmallVec<[_; 4]> = SmallVec::new();
        let mut walker = Walker::new(flat, leaf, mode.extent, stride, Check::Sound)?;
        walker.run(&mut sums, &mut |visit| visits.push(visit))?;
        let mut before = 1;
        for visit in visits {
            let stays = match (visit.case, visit.piece) {
                (Case::Carries, _) => None,
                (_, Some(piece)) => Some(Stay {
                    left_mode: visit.left_mode,
                    digit: (piece.size() - 1).saturating_mul(visit.stride.saturating_abs()),
                    // One step only: the stride is never taken.
                    stride: match piece.size() {
                        1 => 0,
                        _ => piece.stride.coefficient().value(),
                    },
                }),
                _ => continue,
            };
            let extent = visit.piece.map_or(visit.extent, LeafMode::size);
            parts.push(Part {
                leaf,
                before,
                extent,
                stride: mul(stride.value(), if extent > 1 { before } else { 0 })?,
                stays,
            });
            before *= extent;
        }
    }
    Ok(parts)
}

/// Parts that may carry into one another, and the largest digit of their sums in every left mode.
struct Group {
    members: SmallVec<[usize; 4]>,
    digits: SmallVec<[i64; 12]>,
}

impl Group {
    fn new(members: SmallVec<[usize; 4]>, flat: &Flat, parts: &[Part]) -> Result<Self, Error> {
        let mut group = Self {
            members,
            digits: smallvec![0; flat.len()],
        };
        match (&group.members[..], &parts[group.members[0]].stays) {
            ([_], Some(stay)) => group.digits[stay.left_mode] = stay.digit,
            _ => group.digits = largest_digits(flat, &group.layout(parts))?,
        }
        Ok(group)
    }

    /// The members as a layout of their own: coordinates to offsets of the right-hand side.
    fn layout(&self, parts: &[Part]) -> Layout {
        let leaf = |i: &usize| LeafMode::new(parts[*i].extent.into(), parts[*i].stride.into());
        layout_of(self.members.iter().map(leaf).collect())
    }

    /// Whether its modes in the result are found by reading values only.
    fn is_open(&self, parts: &[Part]) -> bool {
        self.members.len() > 1 || parts[self.members[0]].stays.is_none()
    }
}

/// The largest digit in every left mode: that of each value, or a bound where there are too many values.
fn largest_digits(flat: &Flat, group: &Layout) -> Result<SmallVec<[i64; 12]>, Error> {
    let end = flat.len() - 1;
    let before = &flat[..end];
    let mut digits: SmallVec<[i64; 12]> = smallvec![0; flat.len()];
    if group.size() <= SEARCH_BOUND {
        for index in 0..group.size() {
            let mut rest = crate::tuple::int::abs(group.at_unbounded(index)?)?;
            for (digit, mode) in digits.iter_mut().zip(before) {
                *digit = (*digit).max(rest % mode.size());
                rest /= mode.size();
            }
            digits[end] = digits[end].max(rest);
        }
        return Ok(digits);
    }
    // Every offset is a multiple of `step` and at most `reach`.
    let mut reach = group.cosize()? - 1;
    let strides = group
        .leaves()
        .iter()
        .map(|l| l.stride.coefficient().value());
    let mut step = strides.fold(0, crate::tuple::int::gcd);
    for (digit, mode) in digits.iter_mut().zip(before) {
        let s = mode.size();
        *digit = if reach < s {
            reach
        } else {
            s - crate::tuple::int::gcd(step, s)
        };
        (reach, step) = (reach / s, if step % s == 0 { step / s } else { 1 });
    }
    digits[end] = reach;
    Ok(digits)
}

/// The parts in groups that do not carry into one another.
fn groups(flat: &Flat, parts: &[Part]) -> Result<Vec<Group>, Error> {
    let group = |members| Group::new(members, flat, parts);
    let mut groups = Vec::new();
    for i in 0..parts.len() {
        groups.push(group(smallvec![i])?);
    }
    // Where offsets go up and down, they borrow from any higher digit.
    let up = parts.iter().any(|p| p.moves() && p.stride > 0);
    let down = parts.iter().any(|p| p.moves() && p.stride < 0);
    let touched = |k: &usize| groups.iter().any(|g| g.digits[*k] > 0);
    if up && down && (0..flat.len()).filter(touched).count() > 1 {
        let moves = |g: &Group| g.members.iter().any(|i| parts[*i].moves());
        merge(&mut groups, moves, group)?;
    }
    let ends = &flat[..flat.len() - 1];
    // A merged group may have larger digits than its members had, so earlier modes are asked again; every round leaves
    // fewer groups, as no group overflows a mode alone, which ends the loop. The last mode has no digit above it to
    // carry into.
    while let Some(k) = (0..ends.len()).find(|k| overflows(&groups, *k, ends[*k].size())) {
        merge(&mut groups, |g| g.digits[k] > 0, group)?;
    }
    Ok(groups)
}

/// Whether the largest digits of several groups in a left mode reach its extent.
fn overflows(groups: &[Group], k: usize, extent: i64) -> bool {
    let sum = groups.iter().map(|g| i128::from(g.digits[k])).sum::<i128>();
    sum >= i128::from(extent)
}

/// Makes one group of those that `joins` chooses.
fn merge(
    groups: &mut Vec<Group>,
    joins: impl Fn(&Group) -> bool,
    group: impl Fn(SmallVec<[usize; 4]>) -> Result<Group, Error>,
) -> Result<(), Error> {
    let mut members: SmallVec<[usize; 4]> = SmallVec::new();
    groups.retain(|g| {
        let joined = joins(g);
        if joined {
            members.extend(g.members.iter().copied());
        }
        !joined
    });
    members.sort_unstable();
    groups.push(group(members)?);
    Ok(())
}

/// Reads the values of one group, all other coordinates being 0.
fn read(lhs: &Layout, rhs: &Layout, parts: &[Part], group: &Group) -> Result<OpenModes, Search> {
    let layout = group.layout(parts);
    let value = |i| lhs.at_unbounded(layout.at_unbounded(i)?);
    let why = match infer(&layout.shape(), SEARCH_BOUND, value).map_err(Search::Failed)? {
        Inferred::Found(modes) => return Ok(modes),
        Inferred::Contradicted(why) => Some(*why),
        Inferred::GaveUp => contradicting_corner(&layout.shape(), value).map_err(Search::Failed)?,
    };
    Err(match why {
        Some(why) => Search::Contradicted(Box::new(in_rhs(why, rhs, parts, group))),
        None => Search::GaveUp {
            bound: SEARCH_BOUND,
            size: layout.size(),
        },
    })
}

/// Where the values at the last coordinates of the first modes and of the next one do not add up.
///
/// Most carries show there, also beyond the coordinates that the search reads one by one.
fn contradicting_corner(
    shape: &IntTuple,
    value: impl Fn(i64) -> Result<i64, Error>,
) -> Result<Option<Contradiction>, Error> {
    let seen = |index: i64| {
        let coord = shape.coord(index)?;
        let value = value(index)?;
        Ok::<_, Error>(Seen { coord, value })
    };
    let mut before = 1;
    for extent in shape.leaves() {
        let (low, high) = (seen(before - 1)?, seen((extent.value() - 1) * before)?);
        before *= extent.value();
        let found = seen(before - 1)?;
        if i128::from(low.value) + i128::from(high.value) != i128::from(found.value) {
            return Ok(Some(Contradiction::Sum { low, high, found }));
        }
    }
    Ok(None)
}

/// The contradiction with the coordinates of the right-hand side in place of those of the group.
fn in_rhs(why: Contradiction, rhs: &Layout, parts: &[Part], group: &Group) -> Contradiction {
    let shape = rhs.shape();
    let seen = |seen: Seen| {
        let mut digits: SmallVec<[Int; 12]> = smallvec![Int::Dynamic(0); rhs.leaves().len()];
        for (digit, part) in seen.coord.leaves().iter().zip(&group.members) {
            let Part { leaf, before, .. } = parts[*part];
            digits[leaf] = Int::Dynamic(digits[leaf].value() + digit.value() * before);
        }
        let coord: IntTuple = shape.with_leaves(&digits);
        Seen { coord, ..seen }
    };
    match why {
        Contradiction::Origin { found } => Contradiction::Origin { found: seen(found) },
        Contradiction::Sum { low, high, found } => Contradiction::Sum {
            low: seen(low),
            high: seen(high),
            found: seen(found),
        },
        Contradiction::Run {
            step,
            implied,
            found,
            extent,
            size,
        } => {
            // Only a part that straddles digits has such a run, and it is the last of its leaf.
            let at = found.coord.leaves().iter().zip(&group.members);
            let mut moved = at.filter(|(digit, _)| digit.value() != 0);
            let before = moved.next().map_or(1, |(_, part)| parts[*part].before);
            Contradiction::Run {
                step: seen(step),
                implied,
                found: seen(found),
                extent: extent * before,
                size: size * before,
            }
        }
    }
}

/// Which failure tells most: a contradiction, the first one by its coordinate, before a search that did not end.
fn rank_of(why: &Search, rhs: &Layout) -> i64 {
    match why {
        Search::Contradicted(why) => {
            let (Contradiction::Origin { found }
            | Contradiction::Run { found, .. }
            | Contradiction::Sum { found, .. }) = &**why;
            rhs.shape().index(&found.coord).unwrap_or(i64::MAX - 2)
        }
        Search::Failed(_) => i64::MAX - 1,
        Search::GaveUp { .. } | Search::NotTried => i64::MAX,
    }
}

/// The modes of all parts over the nesting of the right-hand side.
fn result(lhs: &Layout, rhs: &Layout, parts: &[Part], modes: &[PartModes]) -> Layout {
    let known = lhs.is_static();
    Layout(rhs.0.refine(|at, leaf, out| {
        let is_static = known && leaf.extent.is_static() && leaf.stride.coefficient().is_static();
        let int = |n| {
            if is_static {
                Int::Static(n)
            } else {
                Int::Dynamic(n)
            }
        };
        // The parts are in the order of their leaves.
        let first = parts.partition_point(|part| part.leaf < at);
        let count = parts[first..].partition_point(|part| part.leaf == at);
        let pieces: SmallVec<[LeafMode; 4]> = modes[first..first + count]
            .iter()
            .flatten()
            .map(|(n, d)| LeafMode::new(int(*n), Stride::Int(int(*d))))
            .collect();
        out.pieces(&pieces);
    }))
}
