//! `Swizzle<B,M,S>`: the XOR of one group of bits into another.

pub(crate) mod composed;
mod linear;
pub(crate) mod matrix;
pub(crate) mod xor;

use alloc::format;
use core::fmt;

use crate::algebra::recast::factors;
use crate::error::ErrorKind;
use crate::{Compose, Error, Layout};

/// The permutation `x ^ ((x & Y) >> S)` of the integers: `B` bits from bit `M + max(S,0)` on (the mask Y) are XORed
/// into the `B` bits from bit `M - min(S,0)` on (the mask Z).
///
/// It is its own inverse. Invariants: `B`, `M >= 0`, `|S| >= B`, and all bits lie below bit 62.
///
/// # Example
///
/// ```
/// use colex_layout::Swizzle;
/// let sw = Swizzle::new(3, 4, 3)?;
/// assert_eq!(sw.apply(128), 128 + 16);
/// assert_eq!(sw.apply(sw.apply(1000)), 1000);
/// assert_eq!(sw.to_string(), "Sw<3,4,3>");
/// assert_eq!(
///     Swizzle::new(3, 0, 2).unwrap_err().to_string(),
///     "Sw<3,0,2>: the shift is less than the bits, so the bits would overlap themselves",
/// );
/// # Ok::<(), colex_layout::Error>(())
/// ```
///
/// Source: `cute/swizzle.hpp`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Swizzle {
    bits: u8,
    base: u8,
    shift: i8,
}

/// The bits that a swizzle may touch end below this one.
const LAST_BIT: i64 = 62;

impl Swizzle {
    /// The swizzle that changes nothing, in CuTe's spelling `Sw<0,4,3>`.
    pub const IDENTITY: Self = Self {
        bits: 0,
        base: 4,
        shift: 3,
    };

    /// Returns all swizzles of the lowest `width` bits, by increasing number of bits; the identity first. No swizzle
    /// touches a bit beyond the lowest 62.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Swizzle;
    /// let all: Vec<String> = Swizzle::within(3).map(|sw| sw.to_string()).collect();
    /// assert_eq!(all[..4], ["Sw<0,4,3>", "Sw<1,0,1>", "Sw<1,0,-1>", "Sw<1,0,2>"]);
    /// assert_eq!(all.len(), 7);
    /// ```
    pub fn within(width: i64) -> impl Iterator<Item = Self> {
        let width = width.min(LAST_BIT);
        let proper = (1..=width / 2).flat_map(move |bits| {
            (0..=width - 2 * bits).flat_map(move |base| {
                let far = width - base - bits;
                (bits..=far)
                    .flat_map(move |shift| [shift, -shift])
                    .filter_map(move |s| Self::new(bits, base, s).ok())
            })
        });
        core::iter::once(Self::IDENTITY).chain(proper)
    }

    /// Returns `Swizzle<bits,base,shift>`.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of bits or the base is negative, if `|shift| < bits`, or if a bit lies beyond bit
    /// 62.
    pub fn new(bits: i64, base: i64, shift: i64) -> Result<Self, Error> {
        let refuse = |why| {
            ErrorKind::Swizzle {
                bits,
                base,
                shift,
                why,
            }
            .into()
        };
        if bits < 0 || base < 0 {
            return Err(refuse("the number of bits and the base are at least 0"));
        }
        if shift.checked_abs().is_none_or(|s| s < bits) {
            return Err(refuse(
                "the shift is less than the bits, so the bits would overlap themselves",
            ));
        }
        let last = bits
            .checked_add(base)
            .and_then(|n| n.checked_add(shift.abs()));
        if last.is_none_or(|n| n > LAST_BIT) {
            return Err(refuse("it reaches beyond bit 62"));
        }
        Ok(Self {
            bits: bits as u8,
            base: base as u8,
            shift: shift as i8,
        })
    }

    /// Returns the swizzle that XORs the bits of `from` into the bits of `into` (CuTe's `make_swizzle<Y,Z>`).
    ///
    /// # Errors
    ///
    /// Returns an error if the masks are not two runs of equally many bits. It also returns the errors of
    /// [`Swizzle::new`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Swizzle;
    /// assert_eq!(Swizzle::from_masks(0xC0, 0x06)?, Swizzle::new(2, 1, 5)?);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[doc(alias = "make_swizzle")]
    pub fn from_masks(from: i64, into: i64) -> Result<Self, Error> {
        if from == 0 && into == 0 {
            return Self::new(0, 0, 0);
        }
        let refuse = || {
            Error::operand(
                "from_masks",
                format!("{from:#x} into {into:#x}"),
                "the masks are not two runs of equally many bits, apart from each other",
            )
        };
        if from <= 0 || into <= 0 {
            return Err(refuse());
        }
        let (y, z) = (
            i64::from(from.trailing_zeros()),
            i64::from(into.trailing_zeros()),
        );
        let swizzle =
            Self::new(i64::from(from.count_ones()), y.min(z), y - z).map_err(|_| refuse())?;
        if swizzle.from_mask() == from && swizzle.into_mask() == into {
            Ok(swizzle)
        } else {
            Err(refuse())
        }
    }

    /// Returns the number of bits, `B`.
    #[must_use]
    pub const fn bits(self) -> i64 {
        self.bits as i64
    }

    /// Returns the number of low bits that stay, `M`.
    #[must_use]
    pub const fn base(self) -> i64 {
        self.base as i64
    }

    /// Returns the distance between the two groups of bits, `S`.
    #[must_use]
    pub const fn shift(self) -> i64 {
        self.shift as i64
    }

    /// Returns whether it changes nothing.
    #[must_use]
    pub const fn is_identity(self) -> bool {
        self.bits == 0
    }

    /// Returns the mask Y: the bits that are read.
    #[must_use]
    pub const fn from_mask(self) -> i64 {
        let up = if self.shift > 0 { self.shift } else { 0 };
        ((1 << self.bits) - 1) << (self.base as i64 + up as i64)
    }

    /// Returns the mask Z: the bits that change.
    #[must_use]
    pub const fn into_mask(self) -> i64 {
        let up = if self.shift < 0 {
            -(self.shift as i64)
        } else {
            0
        };
        ((1 << self.bits) - 1) << (self.base as i64 + up)
    }

    /// Returns the swizzled value; negative values keep their sign bits.
    #[must_use]
    pub const fn apply(self, x: i64) -> i64 {
        let read = x & self.from_mask();
        if self.shift >= 0 {
            x ^ (read >> self.shift)
        } else {
            x ^ (read << -self.shift)
        }
    }

    /// Returns `self o inner`: of a swizzle the one swizzle that equals both in a row, of a layout the composed layout.
    ///
    /// # Errors
    ///
    /// Returns an error if no single swizzle equals both in a row. It also returns the errors of
    /// [`IntoLayout`](crate::IntoLayout).
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Swizzle;
    /// let (a, b) = (Swizzle::new(1, 0, -5)?, Swizzle::new(3, 0, -5)?);
    /// assert_eq!(a.composition(b)?.to_string(), "Sw<2,1,-5>");
    /// assert_eq!(a.composition("(8,64):(64,1)")?.to_string(), "Sw<1,0,-5> o 0 o (8,64):(64,1)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn composition<I: Compose<Self>>(self, inner: I) -> Result<I::Output, Error> {
        inner.compose(&self)
    }

    pub(crate) fn composition_swizzle(self, other: Self) -> Result<Self, Error> {
        let from = self.from_mask() ^ other.from_mask();
        let into = self.into_mask() ^ other.into_mask();
        let joined = match (self.is_identity(), other.is_identity()) {
            (true, _) => Ok(other),
            (_, true) => Ok(self),
            _ => Self::from_masks(from, into),
        };
        // Both sides are linear over F2, so agreeing on every bit is agreeing everywhere.
        let same =
            |s: Self| (0..LAST_BIT).all(|k| s.apply(1 << k) == self.apply(other.apply(1 << k)));
        joined.ok().filter(|s| same(*s)).ok_or_else(|| {
            Error::operand(
                "composition",
                format!("{self} o {other}"),
                "no single swizzle equals both in a row",
            )
        })
    }

    /// Returns the swizzle in units of `n` elements.
    ///
    /// Bits below the unit vanish: with `M < log2(n)` fewer bits remain, as in CuTe.
    ///
    /// # Errors
    ///
    /// Returns an error if `n` is not a power of two.
    pub fn upcast(self, n: i64) -> Result<Self, Error> {
        let base = self.base() - log2_factor("upcast", self, n)?;
        if base >= 0 {
            Self::new(self.bits(), base, self.shift())
        } else {
            Self::new((self.bits() + base).max(0), 0, self.shift())
        }
    }

    /// Returns the swizzle in units of `1/n` element.
    ///
    /// # Errors
    ///
    /// Returns an error if `n` is not a power of two, or if a bit would lie beyond bit 62.
    pub fn downcast(self, n: i64) -> Result<Self, Error> {
        Self::new(
            self.bits(),
            self.base() + log2_factor("downcast", self, n)?,
            self.shift(),
        )
    }

    /// Returns the swizzle of elements of `old_bits` as one of elements of `new_bits`.
    ///
    /// # Errors
    ///
    /// Returns an error if the ratio is not a power of two.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Swizzle;
    /// let bytes = Swizzle::new(3, 4, 3)?;
    /// assert_eq!(bytes.recast(8, 16)?, Swizzle::new(3, 3, 3)?);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[doc(alias = "recast_layout")]
    pub fn recast(self, old_bits: i64, new_bits: i64) -> Result<Self, Error> {
        let (larger, smaller) = factors("recast", &self, old_bits, new_bits)?;
        if larger.count_ones() + smaller.count_ones() > 2 {
            return Err(Error::operand(
                "recast",
                format!("{self} from {old_bits} to {new_bits} bits"),
                "one size is not a power of two times the other",
            ));
        }
        self.upcast(larger)?.downcast(smaller)
    }

    /// Returns the largest power of two of neighbours that stay neighbours, `2^M`.
    #[must_use]
    pub const fn max_alignment(self) -> i64 {
        1 << self.base
    }

    /// Returns the swizzle as a layout of the `2^(B+M+|S|)` integers that it permutes, with XOR strides.
    ///
    /// CuTe's `make_layout(Swizzle)` has size `B+M+|S|`; the exponent is meant.
    ///
    /// # Errors
    ///
    /// Returns an error if the size does not fit in 64 bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Swizzle;
    /// let table = Swizzle::new(1, 0, 1)?.to_layout()?.table()?;
    /// assert_eq!(table, [0, 1, 3, 2]);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn to_layout(self) -> Result<Layout, Error> {
        let size = 1 << (self.bits() + self.base() + self.shift().abs());
        let (xor, _) =
            crate::ComposedLayout::new(self, 0, Layout::column_major(size)?)?.to_xor()?;
        Ok(xor)
    }
}

fn log2_factor(operation: &'static str, swizzle: Swizzle, n: i64) -> Result<i64, Error> {
    if n > 0 && n.count_ones() == 1 {
        return Ok(i64::from(n.trailing_zeros()));
    }
    Err(Error::operand(
        operation,
        format!("{swizzle} by {n}"),
        "the factor is not a power of two",
    ))
}

impl fmt::Display for Swizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sw<{},{},{}>", self.bits, self.base, self.shift)
    }
}

impl fmt::Debug for Swizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
