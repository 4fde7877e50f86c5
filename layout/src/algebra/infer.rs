//! From values to the layout that produces them: what one reads off a figure.
//!
//! The modes are found in one pass, in the order of the index. While the values of a leaf rise by equal steps, one
//! mode is open; where a step differs, the mode ends there and the next begins. So the result is coalesced, and it
//! is the only coalesced one; the first value that cannot be right ends the pass.

use alloc::boxed::Box;
use core::convert::Infallible;

use smallvec::{SmallVec, smallvec};

use crate::error::ErrorKind;
use crate::layout::LeafMode;
use crate::{Contradiction, Error, InferError, Int, IntTuple, IntoIntTuple, Layout, Seen};

/// The most values that [`Layout::infer`] looks at: 2^30.
pub const INFER_BOUND: i64 = 1 << 30;

impl Layout {
    /// Returns the layout with these values, `l.at(i) == values[i]`: coalesced, which makes it the only one.
    ///
    /// Laws `infer_table` (the layout of `l.table()` is `l.coalesce(..)`) and `infer_first` (the error shows the least
    /// index at which no layout of that size agrees with the values so far).
    ///
    /// # Errors
    ///
    /// Returns an error for no values, for more than [`INFER_BOUND`] values, or for values that no layout has; the last
    /// names the first values that contradict each other.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// assert_eq!(Layout::infer(&[0, 2, 4, 6, 1, 3, 5, 7])?.to_string(), "(4,2):(2,1)");
    /// assert_eq!(
    ///     Layout::infer(&[0, 3, 12, 21]).unwrap_err().to_string(),
    ///     "no layout of shape 4 has these values: it is 3 at 1 and 12 at 2, which makes 15 at 3, but it is 21",
    /// );
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn infer(values: &[i64]) -> Result<Self, Error> {
        if values.is_empty() {
            return Err(Error::operand(
                "infer",
                "no values",
                "a layout has at least one coordinate, so it needs at least one value",
            ));
        }
        let size = i64::try_from(values.len()).map_err(|_| ErrorKind::Overflow {
            left: i64::MAX,
            operator: '+',
            right: 1,
        })?;
        Self::infer_with(size, |i| values[usize::try_from(i).expect("0 <= i < len")])
    }

    /// Returns the layout of `size` with `l.at(i) == f(i)`. Asks for each value once, up to the first contradiction.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::infer`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let transposed = Layout::infer_with(32, |i| i % 4 * 8 + i / 4)?;
    /// assert_eq!(transposed.to_string(), "(4,8):(8,1)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn infer_with(size: i64, f: impl FnMut(i64) -> i64) -> Result<Self, Error> {
        Self::infer_modes(size, f)
    }

    /// Returns the layout whose modes are those of `shape`, each leaf refined where its values need it, with
    /// `l.at(i) == f(i)` at every linear index of `shape`.
    ///
    /// A table of threads by values has the shape `(threads,values)` and the index `thread + threads * value`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::infer`], and an error if the size of `shape` does not fit in 64 bits.
    ///
    /// # Example
    ///
    /// Volta's accumulator, read off its figure: where (as `m + 8 n`) thread `t` of the eight of a quad pair holds its
    /// value `v`.
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let figure = |t: i64, v: i64| {
    ///     let m = (t & 1) + (v & 2) + (t & 4);
    ///     let n = (v & 1) + (t & 2) + (v & 4);
    ///     m + 8 * n
    /// };
    /// let accumulator = Layout::infer_modes((8, 8), |i| figure(i % 8, i / 8))?;
    /// assert_eq!(accumulator.to_string(), "((2,2,2),(2,2,2)):((1,16,4),(8,2,32))");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn infer_modes(
        shape: impl IntoIntTuple,
        mut f: impl FnMut(i64) -> i64,
    ) -> Result<Self, Error> {
        let shape = &shape.into_int_tuple()?;
        crate::layout::check_shape(shape)?;
        let size = shape.product()?.value();
        if size > INFER_BOUND {
            return Err(ErrorKind::TooMany {
                operation: "infer",
                of: shape.text(),
                count: size,
                bound: INFER_BOUND,
            }
            .into());
        }
        let asked = |i| Ok::<_, Infallible>(f(i));
        match infer(shape, INFER_BOUND, asked) {
            Ok(Inferred::Found(modes)) => Ok(modes.over(shape)),
            Ok(Inferred::Contradicted(contradiction)) => {
                Err(ErrorKind::Infer(Box::new(InferError {
                    shape: shape.clone(),
                    contradiction: *contradiction,
                }))
                .into())
            }
            Ok(Inferred::GaveUp) => unreachable!("the size was compared with the bound"),
            Err(never) => match never {},
        }
    }
}

/// What looking at the values of a shape gave.
#[expect(
    clippy::large_enum_variant,
    reason = "it lives for one match, and the common case stays off the heap"
)]
pub(crate) enum Inferred {
    Found(OpenModes),
    Contradicted(Box<Contradiction>),
    /// The first values, as many as the bound, agree.
    GaveUp,
}

/// The modes of each leaf of the shape, as far as its values have been seen.
pub(crate) struct OpenModes(SmallVec<[LeafModes; 4]>);

/// The closed modes of one leaf, and the open one.
struct LeafModes {
    /// Size of the leaf.
    size: i64,
    /// How many indices one step of the leaf is.
    weight: i64,
    /// Extent and stride.
    closed: SmallVec<[(i64, i64); 4]>,
    /// The product of the closed extents.
    below: i64,
    /// The stride of the open mode.
    step: i64,
}

/// Why a value does not continue a leaf.
enum Mismatch {
    Run { implied: i128 },
    Sum { low: i64 },
}

impl LeafModes {
    fn new(size: i64, weight: i64) -> Self {
        Self {
            size,
            weight,
            closed: SmallVec::new(),
            below: 1,
            step: 0,
        }
    }

    /// The value at a digit already seen (or one that the closed modes reach).
    fn value(&self, digit: i64) -> i64 {
        let (mut rest, mut sum) = (digit, 0);
        for (extent, stride) in &self.closed {
            sum += rest % extent * stride;
            rest /= extent;
        }
        sum + rest * self.step
    }

    /// Takes the value at the next digit, from 1 on.
    fn see(&mut self, digit: i64, found: i64) -> Result<(), Mismatch> {
        let (low, high) = (digit % self.below, digit / self.below);
        if high == 1 && low == 0 {
            self.step = found;
            return Ok(());
        }
        // The product is taken in 128 bits: in 64 it could wrap and equal the value by accident.
        let steps = i128::from(high) * i128::from(self.step);
        if low != 0 {
            let implied = i128::from(self.value(low)) + steps;
            let agrees = implied == i128::from(found);
            return if agrees {
                Ok(())
            } else {
                Err(Mismatch::Sum { low })
            };
        }
        if steps == i128::from(found) {
            return Ok(());
        }
        // The open mode would end here, so the extents up to it multiply to `digit`. In every layout that product divides
        // the size of the leaf, so no later value helps.
        if self.size % digit != 0 {
            return Err(Mismatch::Run { implied: steps });
        }
        self.closed.push((high, self.step));
        (self.below, self.step) = (digit, found);
        Ok(())
    }

    /// All modes as extent and stride; a leaf of size 1 is `1:0`.
    fn modes(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        let open = (self.size / self.below, self.step);
        self.closed.iter().copied().chain([open])
    }
}

/// Looks at the values of `shape` in the order of the index: at most `bound` of them.
pub(crate) fn infer<E>(
    shape: &IntTuple,
    bound: i64,
    mut f: impl FnMut(i64) -> Result<i64, E>,
) -> Result<Inferred, E> {
    let mut weight = 1;
    let mut modes = OpenModes(SmallVec::new());
    for extent in shape.leaves() {
        modes.0.push(LeafModes::new(extent.value(), weight));
        weight *= extent.value();
    }
    let mut digits: SmallVec<[i64; 12]> = smallvec![0; modes.0.len()];
    for index in 0..weight.min(bound) {
        let found = f(index)?;
        if let Err(why) = modes.see(&digits, index, found) {
            return Ok(Inferred::Contradicted(Box::new(why.in_shape(shape))));
        }
        advance(&mut digits, &modes);
    }
    Ok(if weight <= bound {
        Inferred::Found(modes)
    } else {
        Inferred::GaveUp
    })
}

/// The digits of the next index.
fn advance(digits: &mut [i64], modes: &OpenModes) {
    for (digit, leaf) in digits.iter_mut().zip(&modes.0) {
        *digit += 1;
        if *digit < leaf.size {
            return;
        }
        *digit = 0;
    }
}

/// A contradiction by linear indices.
struct Conflict {
    at: i64,
    found: i64,
    kind: ConflictKind,
}

enum ConflictKind {
    Origin,
    /// The first step, what it implies, the extent and the size it does not divide.
    Run((i64, i64), i128, i64, i64),
    /// Two indices with their values.
    Sum((i64, i64), (i64, i64)),
}

impl OpenModes {
    /// Extent and stride of the modes of one leaf of the shape.
    pub(crate) fn of(&self, leaf: usize) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.0[leaf].modes()
    }

    /// Takes the value at the index with these digits, all before it having been seen.
    fn see(&mut self, digits: &[i64], at: i64, found: i64) -> Result<(), Conflict> {
        let conflict = |kind| Conflict { at, found, kind };
        let Some(top) = digits.iter().rposition(|d| *d != 0) else {
            return if found == 0 {
                Ok(())
            } else {
                Err(conflict(ConflictKind::Origin))
            };
        };
        // A layout is additive in its digits, so only an index with one digit other than 0 tells something new; every other
        // value is a check.
        let below = self.0[..top].iter().zip(digits);
        let low: i64 = below.map(|(leaf, d)| leaf.value(*d)).sum();
        let leaf = &mut self.0[top];
        let (digit, weight) = (digits[top], leaf.weight);
        let high_at = digit * weight;
        if high_at != at {
            let high = leaf.value(digit);
            if i128::from(low) + i128::from(high) == i128::from(found) {
                return Ok(());
            }
            return Err(conflict(ConflictKind::Sum(
                (at - high_at, low),
                (high_at, high),
            )));
        }
        leaf.see(digit, found).map_err(|clash| {
            conflict(match clash {
                Mismatch::Run { implied } => {
                    ConflictKind::Run((leaf.below * weight, leaf.step), implied, digit, leaf.size)
                }
                Mismatch::Sum { low } => ConflictKind::Sum(
                    (low * weight, leaf.value(low)),
                    ((digit - low) * weight, leaf.value(digit - low)),
                ),
            })
        })
    }

    /// The layout over the nesting of `shape`; its extents are as static as those of `shape`.
    fn over(&self, shape: &IntTuple) -> Layout {
        Layout(shape.refine(|at, extent, out| {
            let modes = self.of(at);
            let pieces: SmallVec<[LeafMode; 4]> = modes
                .map(|(n, d)| LeafMode::new(extent.with_value(n), d.into()))
                .collect();
            out.pieces(&pieces);
        }))
    }
}

impl Conflict {
    fn in_shape(self, shape: &IntTuple) -> Contradiction {
        let seen = |(index, value)| Seen {
            coord: shape.coord(index).expect("an index of the shape").plain(),
            value,
        };
        let found = seen((self.at, self.found));
        match self.kind {
            ConflictKind::Origin => Contradiction::Origin { found },
            ConflictKind::Sum(low, high) => Contradiction::Sum {
                low: seen(low),
                high: seen(high),
                found,
            },
            ConflictKind::Run(step, implied, extent, size) => Contradiction::Run {
                step: seen(step),
                implied,
                found,
                extent,
                size,
            },
        }
    }
}

impl IntTuple {
    /// The same values, all dynamic, so that coordinates print as plain numbers.
    fn plain(&self) -> Self {
        self.map(|n| Int::Dynamic(n.value()))
    }
}
