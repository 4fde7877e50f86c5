//! The integer at a leaf: static (`_4`) or dynamic (`4`).

use core::fmt;

use crate::Error;
use crate::error::ErrorKind;

/// An integer that remembers whether it is static, as in CuTe.
///
/// `Static(4)` prints `_4` and is known when a kernel is built; `Dynamic(4)` prints `4` and is today's value of a
/// number that a launch may change.
/// The algebra computes with the values; what was computed from a dynamic integer is dynamic.
/// Two integers are equal when their values are, as `_4 == 4` is in CuTe.
///
/// # Example
///
/// ```
/// use colex_layout::Int;
/// assert_eq!(Int::Static(4), Int::Dynamic(4));
/// assert_eq!(Int::Static(4).to_string(), "_4");
/// assert_eq!(Int::Static(4).times(Int::Dynamic(2))?.to_string(), "8");
/// # Ok::<(), colex_layout::Error>(())
/// ```
///
/// Source: `cute/numeric/integral_constant.hpp`.
#[derive(Clone, Copy, Debug)]
pub enum Int {
    /// Known when the kernel is built; prints with a leading underscore.
    Static(i64),
    /// Known at launch; holds the current value.
    Dynamic(i64),
}

impl Int {
    /// Returns the value.
    #[must_use]
    pub const fn value(self) -> i64 {
        match self {
            Self::Static(n) | Self::Dynamic(n) => n,
        }
    }

    /// Returns whether the value is known when a kernel is built.
    #[must_use]
    pub const fn is_static(self) -> bool {
        matches!(self, Self::Static(_))
    }

    /// Returns the same staticness with another value.
    #[must_use]
    pub const fn with_value(self, value: i64) -> Self {
        match self {
            Self::Static(_) => Self::Static(value),
            Self::Dynamic(_) => Self::Dynamic(value),
        }
    }

    /// `value`, dynamic if `self` or `other` is.
    pub(crate) const fn taint(self, other: Self, value: i64) -> Self {
        match (self, other) {
            (Self::Static(_), Self::Static(_)) => Self::Static(value),
            _ => Self::Dynamic(value),
        }
    }

    /// Returns the product.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not fit in 64 bits.
    #[inline]
    pub fn times(self, other: Self) -> Result<Self, Error> {
        Ok(self.taint(other, mul(self.value(), other.value())?))
    }

    /// Returns the sum.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not fit in 64 bits.
    #[inline]
    pub fn plus(self, other: Self) -> Result<Self, Error> {
        Ok(self.taint(other, add(self.value(), other.value())?))
    }

    /// Returns the quotient rounded up, `ceil(self / other)`.
    ///
    /// # Errors
    ///
    /// Returns an error for a division by 0 and if a number does not fit in 64 bits.
    #[inline]
    pub fn ceil_div(self, other: Self) -> Result<Self, Error> {
        Ok(self.taint(other, ceil_div(self.value(), other.value())?))
    }

    /// Returns the smaller of two.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        self.taint(other, self.value().min(other.value()))
    }

    pub(crate) const fn is(self, value: i64) -> bool {
        self.value() == value
    }
}

#[cold]
fn overflow(left: i64, operator: char, right: i64) -> Error {
    ErrorKind::Overflow {
        left,
        operator,
        right,
    }
    .into()
}

/// The checked product.
#[inline]
pub(crate) fn mul(a: i64, b: i64) -> Result<i64, Error> {
    match a.checked_mul(b) {
        Some(n) => Ok(n),
        None => Err(overflow(a, '*', b)),
    }
}

/// The checked sum.
#[inline]
pub(crate) fn add(a: i64, b: i64) -> Result<i64, Error> {
    match a.checked_add(b) {
        Some(n) => Ok(n),
        None => Err(overflow(a, '+', b)),
    }
}

/// The checked absolute value.
#[inline]
pub(crate) fn abs(a: i64) -> Result<i64, Error> {
    match a.checked_abs() {
        Some(n) => Ok(n),
        None => Err(overflow(0, '-', a)),
    }
}

/// `ceil(a / b)`, toward positive infinity, checked.
#[inline]
pub(crate) fn ceil_div(a: i64, b: i64) -> Result<i64, Error> {
    if b == 0 {
        return Err(ErrorKind::DivideByZero { dividend: a }.into());
    }
    let Some(quotient) = a.checked_div(b) else {
        return Err(overflow(a, '/', b));
    };
    let exact = a % b == 0;
    Ok(if exact || (a < 0) != (b < 0) {
        quotient
    } else {
        quotient + 1
    })
}

/// The greatest common divisor of the absolute values; `gcd(0, n) = |n|`.
pub(crate) const fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    // Only gcd(MIN, MIN) or gcd(MIN, 0) exceeds i64; saturating keeps every use (a divisor of something) harmless.
    if a > i64::MAX as u64 {
        i64::MAX
    } else {
        a as i64
    }
}

/// How many bits the coordinates `0..extent` have.
pub(crate) fn bit_length(extent: i64) -> u32 {
    64 - (extent - 1).leading_zeros()
}

impl PartialEq for Int {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value()
    }
}

impl Eq for Int {}

impl core::hash::Hash for Int {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.value().hash(state);
    }
}

impl PartialOrd for Int {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Int {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.value().cmp(&other.value())
    }
}

/// A plain number is dynamic, as a literal in CuTe's C++ is.
impl From<i64> for Int {
    fn from(n: i64) -> Self {
        Self::Dynamic(n)
    }
}

/// `_4` or `4`; the alternate form `{:#}` leaves the static mark out.
impl fmt::Display for Int {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.is_static() && !f.alternate() {
            "_"
        } else {
            ""
        };
        write!(f, "{mark}{}", self.value())
    }
}
