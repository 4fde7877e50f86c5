//! Right and left inverses, the nullspace, and what two layouts have in common.

use alloc::format;

use smallvec::SmallVec;

use crate::layout::LeafMode;
use crate::layout::coalesce::{Flat, Tail, coalesced, layout_of};
use crate::tuple::Tuple;
use crate::tuple::int::{add, mul};
use crate::{Error, Int, IntoLayout, Layout, Stride};

impl Layout {
    /// Returns the layout that `self` undoes: `self.at(r.at(i)) == i` for all `i < size(r)`.
    ///
    /// It takes the modes that continue one another from stride 1; a layout without stride 1 gives `1:0`. Where no offset
    /// repeats and no stride is negative, no layout that `self` undoes is longer. `(3,2):(1,2)` repeats an offset: it
    /// gives `3:1`, and also undoes `(2,2):(1,3)`.
    ///
    /// Law `right_inverse_at`.
    ///
    /// # Errors
    ///
    /// Returns an error for coordinate and XOR strides, or if a number does not fit in 64 bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let rows: Layout = "(_4,_8):(_8,_1)".parse()?;
    /// assert_eq!(rows.right_inverse()?.to_string(), "(_8,_4):(_4,_1)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    ///
    /// Source: `right_inverse` in `cute/layout.hpp`.
    pub fn right_inverse(&self) -> Result<Self, Error> {
        self.right_inverse_noting(&mut |_| ())
    }

    /// [`Layout::right_inverse`]; `note` sees every mode.
    pub(crate) fn right_inverse_noting(&self, note: &mut impl FnMut(Pick)) -> Result<Self, Error> {
        let mut result: Flat = SmallVec::from_slice(&[LeafMode::UNIT]);
        let mut current = Int::Static(1);
        let modes = self.sorted_modes("right_inverse")?;
        // Which mode comes next depends on all strides.
        let order = modes
            .iter()
            .fold(Int::Static(0), |order, m| order.taint(m.stride, 0));
        for mode in modes {
            let taken = mode.stride.is(current.value());
            note(mode.pick(current, taken.then_some(mode.size())));
            if taken {
                let index = mode.before.taint(order, mode.before.value());
                let extent = mode.extent.taint(order, mode.size());
                result.push(LeafMode::new(extent, Stride::Int(index)));
                current = mode.extent.times(mode.stride)?;
            }
        }
        Self::checked(layout_of(coalesced(&result, Tail::Drop)).0)
    }

    /// Returns the layout that finds an index for every offset: `self.at(l.at(self.at(i))) == self.at(i)`, all three
    /// within their sizes.
    ///
    /// Where `self` is injective this is `l.at(self.at(i)) == i`.
    ///
    /// Law `left_inverse_at`.
    ///
    /// # Errors
    ///
    /// Returns an error if a stride does not divide the next one, is negative, if offsets carry into a digit that the
    /// inverse cannot tell, or for strides of another kind, if a number does not fit in 64 bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let every_second: Layout = "4:2".parse()?;
    /// assert_eq!(every_second.left_inverse()?, "(2,4):(0,1)".parse()?);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    ///
    /// Source: `left_inverse` in `cute/layout.hpp`.
    pub fn left_inverse(&self) -> Result<Self, Error> {
        self.left_inverse_noting(&mut |_| ())
    }

    /// [`Layout::left_inverse`]; `note` sees every mode.
    pub(crate) fn left_inverse_noting(&self, note: &mut impl FnMut(Pick)) -> Result<Self, Error> {
        let refuse = |why: alloc::string::String| Error::operand("left_inverse", self.text(), why);
        let modes = self.sorted_modes("left_inverse")?;
        let last = *modes.last().expect("a coalesced layout has a mode");
        let mut result = Flat::new();
        let (mut size, mut before) = (Int::Static(1), Int::Static(0));
        for mode in modes.iter().filter(|m| !m.stride.is(0)) {
            let (d, n) = (mode.stride.value(), size.value());
            let divides = d >= 0 && d % n == 0;
            note(mode.pick(size, divides.then(|| d / n)));
            if d < 0 {
                return Err(refuse(format!("stride {d} is negative")));
            }
            if d % n != 0 {
                return Err(refuse(format!(
                    "stride {d} is not a multiple of stride {n} below it"
                )));
            }
            result.push(LeafMode::new(
                mode.stride.taint(size, d / n),
                Stride::Int(before),
            ));
            (size, before) = (mode.stride, mode.before);
        }
        result.push(LeafMode::new(last.extent, Stride::Int(before)));
        self.check_digits(&modes).map_err(|m| refuse(m.into()))?;
        Self::checked(layout_of(coalesced(&result, Tail::Drop)).0)
    }

    /// No digit of an offset may exceed the extent of the mode it is read from, where modes overlap.
    fn check_digits(&self, modes: &[CoalescedMode]) -> Result<(), &'static str> {
        let mut reach = 0;
        let mut steps = modes.iter().filter(|m| !m.stride.is(0)).peekable();
        while let Some(mode) = steps.next() {
            let (s, d) = (mode.extent.value(), mode.stride.value());
            reach = mul(s - 1, d)
                .and_then(|own| add(reach, own))
                .map_err(|_| "its offsets do not fit 64 bits")?;
            let digit = match steps.peek() {
                Some(next) => (reach / d).min(next.stride.value() / d - 1),
                None => reach / d,
            };
            if digit >= s {
                return Err(
                    "its modes overlap, and their sums need a digit that no single mode has",
                );
            }
        }
        Ok(())
    }

    /// The coalesced modes by increasing stride, each with the index at which it starts.
    fn sorted_modes(
        &self,
        operation: &'static str,
    ) -> Result<SmallVec<[CoalescedMode; 12]>, Error> {
        let flat = coalesced(self.leaves(), Tail::Drop);
        let mut modes: SmallVec<[CoalescedMode; 12]> = SmallVec::new();
        let mut before = Int::Static(1);
        for leaf in &flat {
            let stride = self.int_stride(operation, leaf)?;
            modes.push(CoalescedMode {
                extent: leaf.extent,
                stride,
                before,
            });
            before = before.times(leaf.extent)?;
        }
        exchange_sort(&mut modes);
        Ok(modes)
    }

    /// Returns the indices at which the layout is 0 by its stride-0 modes: `self.at(n.at(i)) == 0`.
    ///
    /// # Errors
    ///
    /// Returns an error if a number does not fit in 64 bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let l: Layout = "(4,3,2):(1,0,4)".parse()?;
    /// assert_eq!(l.nullspace()?.to_string(), "3:4");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn nullspace(&self) -> Result<Self, Error> {
        let compact = Self::column_major(self.shape().flatten())?;
        let zeros = compact
            .leaves()
            .iter()
            .zip(self.leaves())
            .filter(|(_, l)| l.stride.is_zero())
            .map(|(c, _)| *c);
        let zeros: Flat = zeros.collect();
        match zeros[..] {
            [] => Ok(Self(Tuple::leaf(LeafMode::UNIT))),
            [leaf] => Ok(Self(Tuple::leaf(leaf))),
            _ => Ok(Self(Tuple::flat(zeros))),
        }
    }

    /// Returns the longest first part of the right inverse of `other` that both undo: `self.at(r.at(i)) == i` and
    /// `other.at(r.at(i)) == i`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::max_common_vector`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let (a, b): (Layout, Layout) = ("(8,4):(1,8)".parse()?, "(8,4):(1,16)".parse()?);
    /// assert_eq!(a.max_common_layout(&b)?, "8:1".parse()?);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn max_common_layout(&self, other: impl IntoLayout) -> Result<Self, Error> {
        other.with_layout(|other| self.common_layout(other, i64::MAX))
    }

    /// [`Layout::max_common_layout`] of at most `most` indices.
    pub(crate) fn common_layout(&self, other: &Self, most: i64) -> Result<Self, Error> {
        let inverse = other.right_inverse()?;
        let n = self.common_run(&inverse)?;
        if n.is(1) {
            return Ok(Self(Tuple::leaf(LeafMode::UNIT)));
        }
        let n = n.with_value(whole_modes(&inverse, n.value().min(most)));
        inverse.composition(&Self::leaf(n, Stride::constant(1))?)
    }

    /// Returns how many elements from the first on are contiguous in both: what one vector access may move.
    ///
    /// That is the largest `n` such that both have the offsets `0..n` at the same indices, where `other` has them at
    /// those of its right inverse.
    ///
    /// Law `max_common_vector_longest`.
    ///
    /// # Errors
    ///
    /// Returns an error for coordinate strides, for XOR strides of `other`, if a number does not fit in 64 bits, or if
    /// the run cannot be told from [`RUN_BOUND`] of its elements, which takes XOR strides that set the same bits or
    /// strides of `self` whose carries cancel one another.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let (a, b): (Layout, Layout) = ("(8,4):(1,8)".parse()?, "(8,4):(1,16)".parse()?);
    /// assert_eq!(a.max_common_vector(&b)?, 8);
    /// assert_eq!("4:1".parse::<Layout>()?.max_common_vector("6:1")?, 4);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn max_common_vector(&self, other: impl IntoLayout) -> Result<i64, Error> {
        let inverse = other.with_layout(Layout::right_inverse)?;
        Ok(self.common_run(&inverse)?.value())
    }

    /// The largest `n` with `self.at(inverse.at(k)) == k` for all `k < n`, within both.
    fn common_run(&self, inverse: &Self) -> Result<Int, Error> {
        let n = Run::new(self, inverse)?.length()?;
        Ok(if self.is_static() && inverse.is_static() {
            Int::Static(n)
        } else {
            Int::Dynamic(n)
        })
    }
}

/// How many elements [`Layout::max_common_vector`] looks at one by one before it gives up.
pub const RUN_BOUND: i64 = 1 << 16;

/// The search for the first `k` with `layout(inverse(k)) != k`, which passes over rows that repeat the row before.
struct Run<'a> {
    layout: &'a Layout,
    /// The modes of the inverse as `(extent, stride, size of the modes before)`.
    modes: SmallVec<[(i64, i64, i64); 12]>,
    /// The modes of the layout as `(extent, stride, size of the modes before)`; empty where strides do not add.
    digits: SmallVec<[(i64, i64, i64); 12]>,
    looked_at: i64,
}

impl<'a> Run<'a> {
    fn new(layout: &'a Layout, inverse: &Layout) -> Result<Self, Error> {
        let table = |flat: &Flat| {
            let mut before = 1;
            let modes = flat.iter().map(|leaf| {
                let mode = (leaf.size(), leaf.stride.coefficient().value(), before);
                before *= leaf.size();
                mode
            });
            modes.collect::<SmallVec<[_; 12]>>()
        };
        let flat = coalesced(layout.leaves(), Tail::Drop);
        for leaf in &flat {
            if let Stride::Basis(_) = leaf.stride {
                layout.int_stride("max_common_vector", leaf)?;
            }
        }
        // XOR strides that set no bit twice add as integers do.
        let adds = !layout.is_xor() || layout.sets_bits_once()?;
        Ok(Self {
            layout,
            modes: table(&coalesced(inverse.leaves(), Tail::Drop)),
            digits: if adds { table(&flat) } else { SmallVec::new() },
            looked_at: 0,
        })
    }

    fn length(&mut self) -> Result<i64, Error> {
        self.matching(0, 0, self.modes.len())
    }

    /// How many of the first `k` below the size of the first `modes` modes have `layout(index + inverse(k))` at
    /// `offset + k`.
    fn matching(&mut self, index: i64, offset: i64, modes: usize) -> Result<i64, Error> {
        let Some(lower) = modes.checked_sub(1) else {
            self.looked_at += 1;
            if self.looked_at > RUN_BOUND {
                return Err(Error::operand(
                    "max_common_vector",
                    self.layout.text(),
                    format!(
                        "the search for the end of the contiguous run gave up after {RUN_BOUND} of its elements"
                    ),
                ));
            }
            let within = index < self.layout.size();
            return Ok(i64::from(
                within && self.layout.at_unbounded(index)? == offset,
            ));
        };
        let (extent, step, size) = self.modes[lower];
        let mut row = 0;
        while row < extent {
            let Some(start) = row.checked_mul(step).and_then(|d| d.checked_add(index)) else {
                return Ok(row * size);
            };
            let matching = self.matching(start, offset + row * size, lower)?;
            if matching < size {
                return Ok(row * size + matching);
            }
            row += 1 + self.repeats(start, lower).min(extent - row - 1);
        }
        Ok(extent * size)
    }

    /// How many rows after the one at the index `start`, which matches, match as well because no digit but the one
    /// that counts them changes.
    fn repeats(&self, start: i64, lower: usize) -> i64 {
        let (_, step, size) = self.modes[lower];
        // A mode that steps by 0 has one row.
        let counts = |d: &&(i64, i64, i64)| step != 0 && step % d.2 == 0;
        let Some((extent, stride, before)) = self.digits.iter().rev().find(counts).copied() else {
            return 0;
        };
        if (step / before).checked_mul(stride) != Some(size) {
            return 0;
        }
        // The highest index of a row, and what it is within one round of the digit.
        let round = i128::from(before) * i128::from(extent);
        let highest = |keeps: &dyn Fn(i128) -> bool| -> i128 {
            let modes = self.modes[..lower].iter();
            let steps = modes.map(|m| (i128::from(m.0) - 1, i128::from(m.1)));
            steps
                .filter(|(_, d)| keeps(*d))
                .map(|(most, d)| most * d)
                .sum()
        };
        let room = |end: i128, at: i128| (end - 1 - at).max(0) / i128::from(step);
        let whole = i128::from(self.layout.size());
        let rows = room(whole, i128::from(start) + highest(&|_| true));
        // The last digit has no end but that of the layout.
        let rows = if round == whole {
            rows
        } else {
            rows.min(room(
                round,
                i128::from(start) % round + highest(&|d| d % round != 0),
            ))
        };
        i64::try_from(rows).unwrap_or(i64::MAX)
    }
}

/// What an inverse does with one coalesced mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// The mode, `extent:stride`.
    pub mode: LeafMode,
    /// The index at which the mode starts: the size of the modes before it.
    pub index: i64,
    /// The stride that a right inverse can use next, or the stride below this one for a left inverse.
    pub current: i64,
    /// The extent that the inverse gets: the mode's own (right), or how often `current` divides its stride (left).
    /// `None` where it gets none.
    pub extent: Option<i64>,
}

/// The longest run of at most `n` indices that is a layout: whole modes, and a part of the next one.
fn whole_modes(layout: &Layout, n: i64) -> i64 {
    let mut whole = 1;
    for leaf in layout.leaves() {
        if leaf.size() > n / whole {
            return n / whole * whole;
        }
        whole *= leaf.size();
    }
    whole
}

/// A coalesced mode: its extent and stride, and the size of the modes before it.
#[derive(Clone, Copy)]
struct CoalescedMode {
    extent: Int,
    stride: Int,
    before: Int,
}

impl CoalescedMode {
    fn size(self) -> i64 {
        self.extent.value()
    }

    fn pick(self, current: Int, extent: Option<i64>) -> Pick {
        Pick {
            mode: LeafMode::new(self.extent, Stride::Int(self.stride)),
            index: self.before.value(),
            current: current.value(),
            extent,
        }
    }
}

/// CuTe's sort by stride; where strides tie, its order decides which mode an inverse picks.
fn exchange_sort(modes: &mut [CoalescedMode]) {
    for i in 0..modes.len() {
        for j in i + 1..modes.len() {
            if modes[j].stride < modes[i].stride {
                modes.swap(i, j);
            }
        }
    }
}
