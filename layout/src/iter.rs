//! Walking all coordinates and offsets without division.

use smallvec::SmallVec;

use crate::coalesce::{Tail, coalesced};
use crate::int::mul;
use crate::{Error, Int, IntTuple, Layout, Stride};

/// One mode of the walk.
#[derive(Clone, Copy)]
struct Wheel {
    extent: i64,
    stride: i64,
    /// Today's digit.
    digit: i64,
}

/// All offsets of a layout in the order of the index, by an odometer: no division, no multiplication.
#[derive(Clone)]
pub struct Offsets {
    /// The modes after the first, which `next` and `fold` treat as their inner loop.
    outer: SmallVec<[Wheel; 12]>,
    inner: Wheel,
    offset: i64,
    left: i64,
}

impl Layout {
    /// All offsets in the order of the index, without division.
    ///
    /// `for_each` and `fold` run an inner loop over the first mode and are the fastest.
    ///
    /// # Errors
    ///
    /// [`Error::StrideKind`] for coordinate and XOR strides, [`Error::Overflow`] when an offset does not fit 64 bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let rows: Layout = "(2,3):(3,1)".parse()?;
    /// assert_eq!(rows.offsets()?.collect::<Vec<_>>(), [0, 3, 1, 4, 2, 5]);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn offsets(&self) -> Result<Offsets, Error> {
        self.check_reach()?;
        let flat = coalesced(self.leaves(), Tail::Drop);
        let mut wheels: SmallVec<[Wheel; 12]> = SmallVec::new();
        for leaf in &flat {
            let stride = self.int_stride("offsets", leaf)?.value();
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
            offset: 0,
            left: self.size(),
        })
    }

    /// Every partial sum of steps must fit, so that the walk needs no checks.
    fn check_reach(&self) -> Result<(), Error> {
        let mut reach = 0_i64;
        for leaf in self.leaves() {
            let d = match leaf.stride {
                Stride::Int(d) => d.value(),
                _ => continue,
            };
            let part = mul(leaf.size(), crate::int::abs(d)?)?;
            reach = crate::int::add(reach, part)?;
        }
        Ok(())
    }
}

impl Offsets {
    /// Moves the outer wheels one step on after the inner mode has gone round.
    fn carry(&mut self) {
        for wheel in &mut self.outer {
            wheel.digit += 1;
            self.offset += wheel.stride;
            if wheel.digit < wheel.extent {
                return;
            }
            self.offset -= wheel.stride * wheel.extent;
            wheel.digit = 0;
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
        self.inner.digit += 1;
        self.offset += self.inner.stride;
        if self.inner.digit == self.inner.extent {
            self.inner.digit = 0;
            self.offset -= self.inner.stride * self.inner.extent;
            self.carry();
        }
        Some(offset)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        (left, Some(left))
    }

    fn fold<B, F: FnMut(B, i64) -> B>(mut self, init: B, mut f: F) -> B {
        let mut acc = init;
        while self.left > 0 {
            let run = (self.inner.extent - self.inner.digit).min(self.left);
            let (mut offset, stride) = (self.offset, self.inner.stride);
            for _ in 0..run {
                acc = f(acc, offset);
                offset += stride;
            }
            self.left -= run;
            self.offset = offset - stride * self.inner.extent;
            self.inner.digit = 0;
            self.carry();
        }
        acc
    }
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
    /// All coordinates of this shape, the first mode fastest.
    ///
    /// # Errors
    ///
    /// [`Error::Extent`] when an extent is below 1.
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

    /// All coordinates of this shape, leaf `order[0]` fastest, then `order[1]`, and so on.
    ///
    /// # Errors
    ///
    /// [`Error::Extent`] when an extent is below 1, [`Error::Operand`] when `order` is not a permutation of the leaves.
    pub fn coords_in_order(&self, order: &[usize]) -> Result<Coords, Error> {
        let mut seen: SmallVec<[usize; 12]> = SmallVec::from_slice(order);
        seen.sort_unstable();
        if !seen.iter().copied().eq(0..self.leaves().len()) {
            return Err(Error::Operand {
                operation: "coords_in_order",
                operand: self.text(),
                why: alloc::format!(
                    "{order:?} is not an order of its {} leaves",
                    self.leaves().len()
                )
                .into(),
            });
        }
        self.walk(SmallVec::from_slice(order))
    }

    fn walk(&self, order: SmallVec<[usize; 12]>) -> Result<Coords, Error> {
        if let Some(extent) = self.leaves().iter().find(|n| n.value() < 1) {
            return Err(Error::Extent {
                extent: extent.value(),
                shape: self.text(),
            });
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
