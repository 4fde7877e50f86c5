//! The stride at a leaf: an integer, a coordinate (`1@0`) or an XOR bit-vector (`^72`).

use core::fmt;

use crate::error::ErrorKind;
use crate::tuple::int::mul;
use crate::{Error, Int};

/// The stride of one leaf mode: what one step of the coordinate adds to the result.
///
/// Strides form a semimodule over the integers: they can be scaled, and their multiples can be combined.
/// Integers and basis vectors combine by addition, XOR bit-vectors by exclusive or; all strides of one layout are of
/// one kind, where the integer 0 belongs to every kind (`Cecka 2026`, on integer, coordinate and F2 strides).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stride {
    /// An integer: positive, zero or negative.
    Int(Int),
    /// A multiple of a basis vector: `4@0` is four steps along mode 0 of a coordinate.
    Basis(Basis),
    /// A bit-vector over F2, written `^72`: bit `k` of the coordinate contributes `72 << k`, and contributions XOR.
    Xor(Int),
}

/// A scaled basis vector `value@path`, one direction of a hierarchical coordinate.
///
/// CuTe's `ScaledBasis` (`cute/numeric/arithmetic_tuple.hpp`). The text names the *innermost* index first:
/// `E<1,0>` is mode 0 of mode 1 and prints `1@0@1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Basis {
    /// The coefficient.
    pub value: Int,
    path: BasisPath,
}

/// The longest path of a [`Basis`]: six levels, each of at most 256 modes.
pub const MAX_BASIS_DEPTH: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct BasisPath {
    len: u8,
    modes: [u8; MAX_BASIS_DEPTH],
}

impl Basis {
    /// Returns the vector `value` along the mode that `path` names, outermost index first.
    ///
    /// # Errors
    ///
    /// Returns an error if the path is empty, deeper than [`MAX_BASIS_DEPTH`], or names a mode beyond 255.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::{Basis, Int};
    /// assert_eq!(Basis::new(Int::Dynamic(5), &[1, 0])?.to_string(), "5@0@1");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn new(value: Int, path: &[usize]) -> Result<Self, Error> {
        if path.is_empty() || path.len() > MAX_BASIS_DEPTH {
            return Err(ErrorKind::BasisPath {
                depth: path.len(),
                mode: 0,
            }
            .into());
        }
        let mut modes = [0; MAX_BASIS_DEPTH];
        for (slot, &mode) in modes.iter_mut().zip(path) {
            *slot = u8::try_from(mode).map_err(|_| ErrorKind::BasisPath {
                depth: path.len(),
                mode,
            })?;
        }
        Ok(Self {
            value,
            path: BasisPath {
                len: path.len() as u8,
                modes,
            },
        })
    }

    /// The vector `value` along one mode of a flat coordinate.
    pub(crate) const fn along(value: Int, mode: u8) -> Self {
        let mut modes = [0; MAX_BASIS_DEPTH];
        modes[0] = mode;
        Self {
            value,
            path: BasisPath { len: 1, modes },
        }
    }

    /// The same direction with another coefficient.
    pub(crate) const fn with_value(self, value: Int) -> Self {
        Self {
            value,
            path: self.path,
        }
    }

    /// Returns the mode indices from the outermost to the innermost.
    pub fn path(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.path.modes[..usize::from(self.path.len)]
            .iter()
            .map(|&m| usize::from(m))
    }

    /// Returns whether both point along the same mode.
    #[must_use]
    pub fn is_parallel(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Stride {
    /// Returns the static integer `n`.
    #[must_use]
    pub const fn constant(n: i64) -> Self {
        Self::Int(Int::Static(n))
    }

    /// Returns the XOR bit-vector `^bits`: bit `k` of the coordinate contributes `bits << k`, and contributions XOR.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::{C, Layout, Stride};
    /// let swizzled = Layout::new((8, 64), (Stride::xor(72), Stride::xor(C::<1>)))?;
    /// assert_eq!(swizzled.to_string(), "(8,64):(^72,^_1)");
    /// assert_eq!(swizzled.at((3, 8))?, 208);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[must_use]
    pub fn xor(bits: impl Into<Int>) -> Self {
        Self::Xor(bits.into())
    }

    /// Returns the integer, if the stride is one.
    #[must_use]
    pub const fn as_int(self) -> Option<Int> {
        match self {
            Self::Int(n) => Some(n),
            _ => None,
        }
    }

    /// Returns the coefficient: the integer itself, the factor of a basis vector, or the bits of an XOR stride.
    #[must_use]
    pub const fn coefficient(self) -> Int {
        match self {
            Self::Int(n) | Self::Xor(n) | Self::Basis(Basis { value: n, .. }) => n,
        }
    }

    /// Returns whether a step changes nothing.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.coefficient().value() == 0
    }

    /// Returns the same direction with another coefficient.
    #[must_use]
    pub const fn with_coefficient(self, value: Int) -> Self {
        match self {
            Self::Int(_) => Self::Int(value),
            Self::Xor(_) => Self::Xor(value),
            Self::Basis(b) => Self::Basis(b.with_value(value)),
        }
    }

    /// Returns `self` scaled by an integer: the result of `factor` steps.
    ///
    /// An XOR stride scales by powers of two only: `^d` times `2^k` is `^(d << k)`, and other multiples of it are not
    /// F2-linear in the coordinate.
    ///
    /// # Errors
    ///
    /// Returns an error if a number does not fit in 64 bits, or for an XOR stride and a factor that is not a power of
    /// two.
    #[inline]
    pub fn times(self, factor: Int) -> Result<Self, Error> {
        let c = self.coefficient();
        if let Self::Xor(_) = self {
            let k = factor.value();
            if k != 0 && !(k > 0 && k.count_ones() == 1) {
                return Err(ErrorKind::XorScale {
                    stride: c.value(),
                    factor: k,
                }
                .into());
            }
        }
        Ok(self.with_coefficient(c.taint(factor, mul(c.value(), factor.value())?)))
    }

    /// Whether `extent` steps of `self` make one step of `next`: the two modes `extent:self` and `_:next` are one.
    pub(crate) fn continues(self, extent: Int, next: Self) -> bool {
        match (self, next) {
            (Self::Int(a), Self::Int(b)) => {
                a.value().checked_mul(extent.value()) == Some(b.value())
            }
            (Self::Basis(a), Self::Basis(b)) => {
                a.is_parallel(&b)
                    && a.value.value().checked_mul(extent.value()) == Some(b.value.value())
            }
            // F2: extent must be a power of two, so that the digits above it are whole bits.
            (Self::Xor(a), Self::Xor(b)) => {
                extent.value().count_ones() == 1
                    && a.value().checked_mul(extent.value()) == Some(b.value())
            }
            // The integer 0 is the zero of every kind: two zero strides of different kinds are one mode.
            _ => self.is_zero() && next.is_zero(),
        }
    }
}

impl From<i64> for Stride {
    fn from(n: i64) -> Self {
        Self::Int(n.into())
    }
}

impl From<Int> for Stride {
    fn from(n: Int) -> Self {
        Self::Int(n)
    }
}

impl From<Basis> for Stride {
    fn from(b: Basis) -> Self {
        Self::Basis(b)
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)?;
        let modes = &self.path.modes[..usize::from(self.path.len)];
        modes.iter().rev().try_for_each(|mode| write!(f, "@{mode}"))
    }
}

impl fmt::Display for Stride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(n) => n.fmt(f),
            Self::Basis(b) => b.fmt(f),
            Self::Xor(n) => {
                f.write_str("^")?;
                n.fmt(f)
            }
        }
    }
}
