//! Walking all coordinates and offsets without division.

use smallvec::SmallVec;

use crate::error::ErrorKind;
use crate::layout::coalesce::{Tail, coalesced};
use crate::tuple::int::{add, bit_length, mul};
use crate::{Error, Int, IntTuple, Layout, Stride};

/// One mode of the walk.
#[derive(Clone, Copy)]
struct Wheel {
    extent: i64,
    stride: i64,
    /// The current digit.
    digit: i64,
}

/// How a step changes the offset.
#[derive(Clone, Copy, PartialEq)]
enum StepKind {
    Add,
    Xor,
}

/// All offsets of a layout in the order of the index, by an odometer: no division, no multiplication.
#[derive(Clone)]
pub struct Offsets {
    /// The modes after the first, which `next` and `fold` treat as their inner loop.
    outer: SmallVec<[Wheel; 12]>,
    inner: Wheel,
    kind: StepKind,
    offset: i64,
    left: i64,
}

impl Layout {
    /// Returns all offsets in the order of the index, without division.
    ///
    /// `for_each` and `fold` run an inner loop over the first mode and are the fastest.
    ///
    /// # Errors
    ///
    /// Returns an error for coordinate strides, or if an offset does not fit in 64 bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let rows: Layout = "(2,3):(3,1)".parse()?;
    /// assert_eq!(rows.offsets()?.collect::<Vec<_>>(), [0, 3, 1, 4, 2, 5]);
    /// let swizzled: Layout = "(2,4):(^5,^1)".parse()?;
    /// assert_eq!(swizzled.offsets()?.collect::<Vec<_>>(), [0, 5, 1, 4, 2, 7, 3, 6]);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn offsets(&self) -> Result<Offsets, Error> {
        let kind = if self.is_xor() {
            StepKind::Xor
        } else {
            StepKind::Add
        };
        let flat = coalesced(self.leaves(), Tail::Drop);
        let [mut least, mut greatest] = [0_i64; 2];
        let mut wheels: SmallVec<[Wheel; 12]> = SmallVec::new();
        for leaf in &flat {
            // The least and the greatest offset fit, so all do. A step between them may not: the walk wraps around.
            let stride = match leaf.stride {
                Stride::Xor(d) => {
                    let greatest_bit = bit_length(leaf.size()).saturating_sub(1);
                    mul(d.value(), 1 << greatest_bit)?;
                    d.value()
                }
                _ => {
                    let stride = self.int_stride("offsets", leaf)?.value();
                    let last = mul(leaf.size() - 1, stride)?;
                    let end = if last < 0 { &mut least } else { &mut greatest };
                    *end = add(*end, last)?;
                    stride
                }
            };
            wheels.push(Wheel {
                extent: leaf.size(),
                stride,
                digit: 0,
            });
        }
        let inner = wheels.remove(0);
        Ok(Offsets {
            outer: wheels,
            inner,
            kind,
            offset: 0,
            left: self.size(),
        })
    }
}

impl Wheel {
    /// What the step from one digit to the next changes: bit `k` flips with all bits below it.
    fn flip(self, from: i64, to: i64) -> i64 {
        let (mut changed, mut shifted, mut result) = (from ^ to, self.stride, 0);
        while changed != 0 {
            if changed & 1 == 1 {
                result ^= shifted;
            }
            changed >>= 1;
            shifted <<= 1;
        }
        result
    }
}

impl Offsets {
    /// Moves the outer wheels one step on after the inner mode has gone round.
    fn carry(&mut self) {
        for wheel in &mut self.outer {
            let from = wheel.digit;
            wheel.digit = if from + 1 < wheel.extent { from + 1 } else { 0 };
            match self.kind {
                StepKind::Add => {
                    let step = wheel.stride.wrapping_mul(wheel.digit - from);
                    self.offset = self.offset.wrapping_add(step);
                }
                StepKind::Xor => self.offset ^= wheel.flip(from, wheel.digit),
            }
            if wheel.digit > 0 {
                return;
            }
        }
    }

    /// The step of the inner mode, and the carry after its last.
    #[inline]
    fn step(&mut self) {
        let from = self.inner.digit;
        let last = from + 1 == self.inner.extent;
        self.inner.digit = if last { 0 } else { from + 1 };
        match self.kind {
            StepKind::Add => {
                let step = self.inner.stride.wrapping_mul(self.inner.digit - from);
                self.offset = self.offset.wrapping_add(step);
            }
            StepKind::Xor => self.offset ^= self.inner.flip(from, self.inner.digit),
        }
        if last {
            self.carry();
        }
    }
}

impl Iterator for Offsets {
    type Item = i64;

    #[inline]
    fn next(&mut self) -> Option<i64> {
        if self.left == 0 {
            return None;
        }
        let offset = self.offset;
        self.left -= 1;
        self.step();
        Some(offset)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        (left, Some(left))
    }

    fn fold<B, F: FnMut(B, i64) -> B>(mut self, init: B, mut f: F) -> B {
        let mut acc = init;
        while self.left > 0 {
            let (from, stride) = (self.inner.digit, self.inner.stride);
            let run = (self.inner.extent - from).min(self.left);
            match self.kind {
                StepKind::Add => {
                    let mut offset = self.offset;
                    for _ in 0..run {
                        acc = f(acc, offset);
                        offset = offset.wrapping_add(stride);
                    }
                    self.offset = self.offset.wrapping_sub(stride.wrapping_mul(from));
                }
                StepKind::Xor => {
                    let start = self.offset ^ self.inner.flip(from, 0);
                    acc = xor_run(acc, start, self.inner, from..from + run, &mut f);
                    self.offset = start;
                }
            }
            self.left -= run;
            self.inner.digit = 0;
            self.carry();
        }
        acc
    }
}

/// The offsets `start ^ digit * stride` over F2; the product is an ordinary one where the stride is one bit.
fn xor_run<B>(
    init: B,
    start: i64,
    wheel: Wheel,
    digits: core::ops::Range<i64>,
    f: &mut impl FnMut(B, i64) -> B,
) -> B {
    if wheel.stride.count_ones() <= 1 {
        return digits.fold(init, |acc, digit| f(acc, start ^ (digit * wheel.stride)));
    }
    let mut offset = start ^ wheel.flip(0, digits.start);
    digits.fold(init, |acc, digit| {
        let now = offset;
        offset ^= wheel.flip(digit, digit + 1);
        f(acc, now)
    })
}

impl ExactSizeIterator for Offsets {}

/// All hierarchical coordinates of a shape in colexicographical order, by an odometer.
#[derive(Clone)]
pub struct Coords {
    shape: IntTuple,
    /// The leaves from the fastest to the slowest.
    order: SmallVec<[usize; 12]>,
    digits: SmallVec<[Int; 12]>,
    done: bool,
}

impl IntTuple {
    /// Returns all coordinates of this shape, the first mode fastest.
    ///
    /// # Errors
    ///
    /// Returns an error if an extent is below 1.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::IntTuple;
    /// let shape: IntTuple = "(2,(1,2))".parse()?;
    /// let all: Vec<String> = shape.coords()?.map(|c| c.to_string()).collect();
    /// assert_eq!(all, ["(0,(0,0))", "(1,(0,0))", "(0,(0,1))", "(1,(0,1))"]);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[doc(alias = "make_coord_iterator")]
    pub fn coords(&self) -> Result<Coords, Error> {
        self.walk((0..self.leaves().len()).collect())
    }

    /// Returns all coordinates of this shape, leaf `order[0]` fastest, then `order[1]`, and so on.
    ///
    /// # Errors
    ///
    /// Returns an error if an extent is below 1, or if `order` is not a permutation of the leaves.
    pub fn coords_in_order(&self, order: &[usize]) -> Result<Coords, Error> {
        let mut seen: SmallVec<[usize; 12]> = SmallVec::from_slice(order);
        seen.sort_unstable();
        if !seen.iter().copied().eq(0..self.leaves().len()) {
            return Err(Error::operand(
                "coords_in_order",
                self.text(),
                alloc::format!(
                    "{order:?} is not an order of its {} leaves",
                    self.leaves().len()
                ),
            ));
        }
        self.walk(SmallVec::from_slice(order))
    }

    fn walk(&self, order: SmallVec<[usize; 12]>) -> Result<Coords, Error> {
        if let Some(extent) = self.leaves().iter().find(|n| n.value() < 1) {
            return Err(ErrorKind::Extent {
                extent: extent.value(),
                shape: self.text(),
            }
            .into());
        }
        let digits = SmallVec::from_elem(Int::Dynamic(0), self.leaves().len());
        Ok(Coords {
            shape: self.clone(),
            order,
            digits,
            done: false,
        })
    }
}

impl Iterator for Coords {
    type Item = IntTuple;

    fn next(&mut self) -> Option<IntTuple> {
        if self.done {
            return None;
        }
        let coord = self.shape.with_leaves(&self.digits);
        self.done = true;
        for &leaf in &self.order {
            let digit = self.digits[leaf].value() + 1;
            if digit < self.shape.leaves()[leaf].value() {
                self.digits[leaf] = Int::Dynamic(digit);
                self.done = false;
                break;
            }
            self.digits[leaf] = Int::Dynamic(0);
        }
        Some(coord)
    }
}

/// All coordinates of a layout with their offsets, the first mode fastest: what `for (coord, offset) in &layout` walks.
///
/// A coordinate nests as the shape does. Its offset is a `Result`, since a layout of coordinates has none and the last
/// offsets of a layout may not fit 64 bits.
#[derive(Clone)]
pub struct Points<'a> {
    layout: &'a Layout,
    coords: Coords,
}

impl<'a> IntoIterator for &'a Layout {
    type Item = (IntTuple, Result<i64, Error>);
    type IntoIter = Points<'a>;

    /// Walks all coordinates with their offsets in CuTe's (colexicographical) order.
    ///
    /// Law `points_are_offsets`: the coordinates are those of [`IntTuple::coords`] of the shape, and each offset is
    /// [`Layout::at`] at its coordinate.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let rows = Layout::new((2, 3), (3, 1))?;
    /// let mut walked = Vec::new();
    /// for (coord, offset) in &rows {
    ///     walked.push(format!("{coord} at {}", offset?));
    /// }
    /// assert_eq!(walked, ["(0,0) at 0", "(1,0) at 3", "(0,1) at 1", "(1,1) at 4", "(0,2) at 2", "(1,2) at 5"]);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    fn into_iter(self) -> Points<'a> {
        let coords = self.shape().coords();
        Points {
            layout: self,
            coords: coords.expect("the extents of a layout are at least 1"),
        }
    }
}

impl Iterator for Points<'_> {
    type Item = (IntTuple, Result<i64, Error>);

    fn next(&mut self) -> Option<Self::Item> {
        let coord = self.coords.next()?;
        let offset = self.layout.offset_of_digits(coord.leaves());
        Some((coord, offset))
    }
}
