//! One element, as the host computes with it.

use core::fmt;

use super::{Class, FloatFormat, Rounding, Ty};

/// The number an element stands for.
///
/// ```
/// use colex_atom::{Ty, Value};
///
/// assert_eq!(Value::decode(Ty::E4m3, &[0x38]), Value::Real(1.0));
/// assert_eq!(Value::decode(Ty::S4, &[0xf]), Value::Int(-1));
/// assert_eq!(Value::Real(0.1).encode(Ty::F16)[0], 0x2e66);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A real number; every format of [`Ty`] fits in an `f64`.
    Real(f64),
    /// An integer below 2^63, or a bit.
    Int(i64),
    /// An integer from 2^63 on, which only a `U64` has; [`decode`](Value::decode) makes smaller ones an
    /// [`Int`](Value::Int).
    Large(u64),
    /// The parts of a complex number: two of a `C64`, three of a `GC64` (the third of a `C64` is 0).
    Complex([f64; 3]),
}

impl Value {
    /// Returns the zero of a type.
    pub const fn zero(ty: Ty) -> Self {
        match ty.class() {
            Class::Float(_) => Value::Real(0.0),
            Class::Integer { .. } => Value::Int(0),
            Class::Complex { .. } => Value::Complex([0.0; 3]),
        }
    }

    /// Returns the complex number `re + im i`.
    pub const fn complex(re: f64, im: f64) -> Self {
        Value::Complex([re, im, 0.0])
    }

    /// Reads an element from its bits, lowest 64 first; missing words are zero, bits above the type's are ignored.
    ///
    /// ```
    /// use colex_atom::{Ty, Value};
    ///
    /// assert_eq!(Value::decode(Ty::U64, &[1 << 63]).real(), 9223372036854775808.0);
    /// assert_eq!(Value::decode(Ty::S64, &[1 << 63]).real(), -9223372036854775808.0);
    /// ```
    pub fn decode(ty: Ty, words: &[u64]) -> Self {
        let word = |i: usize| words.get(i).copied().unwrap_or(0);
        let low = word(0) & low_mask(ty.bits());
        match ty.class() {
            Class::Float(format) => Value::Real(format.decode(low)),
            Class::Integer { signed: false } => {
                i64::try_from(low).map_or(Value::Large(low), Value::Int)
            }
            Class::Integer { signed: true } => {
                let unused = 64 - ty.bits();
                Value::Int((low << unused) as i64 >> unused)
            }
            Class::Complex { parts } => {
                let mut value = [0.0; 3];
                for (i, part) in value.iter_mut().enumerate().take(parts) {
                    *part = f64::from_bits(word(i));
                }
                Value::Complex(value)
            }
        }
    }

    /// Returns the element's bits, lowest 64 first: floats rounded to nearest, integers wrapped to their width.
    ///
    /// A number of another class is converted first: a real is rounded to an integer of 64 bits, an integer becomes
    /// real, a complex loses its imaginary part.
    pub fn encode(self, ty: Ty) -> [u64; 3] {
        match ty.class() {
            Class::Float(format) => [format.encode(self.real(), Rounding::Nearest), 0, 0],
            Class::Integer { .. } => [self.low_word(ty) & low_mask(ty.bits()), 0, 0],
            Class::Complex { parts } => {
                let mut words = [0; 3];
                for (word, part) in words.iter_mut().zip(self.parts()).take(parts) {
                    *word = part.to_bits();
                }
                words
            }
        }
    }

    /// The lowest 64 bits of the number as an integer. A real from 2^63 on is an integer of a `U64`, and saturates to
    /// the greatest of the other types.
    fn low_word(self, ty: Ty) -> u64 {
        match self {
            Value::Int(x) => x as u64,
            Value::Large(x) => x,
            Value::Real(_) | Value::Complex(_) => {
                let real = self.real().round_ties_even();
                if ty == Ty::U64 && real >= 0.0 {
                    real as u64
                } else {
                    real as i64 as u64
                }
            }
        }
    }

    /// Returns the number as a real: the real part of a complex one.
    pub fn real(self) -> f64 {
        match self {
            Value::Real(x) => x,
            Value::Int(x) => x as f64,
            Value::Large(x) => x as f64,
            Value::Complex([re, ..]) => re,
        }
    }

    /// Returns the number as an integer, at most the greatest `i64`: a real is rounded to the nearest.
    pub fn int(self) -> i64 {
        match self {
            Value::Real(x) => x.round_ties_even() as i64,
            Value::Int(x) => x,
            Value::Large(x) => i64::try_from(x).unwrap_or(i64::MAX),
            Value::Complex([re, ..]) => re.round_ties_even() as i64,
        }
    }

    /// Returns the parts of the number as a complex one.
    pub fn parts(self) -> [f64; 3] {
        match self {
            Value::Complex(parts) => parts,
            other => [other.real(), 0.0, 0.0],
        }
    }

    /// Returns the complex number that a `GC64` accumulator means: `(t0 - t1) + (t2 - t0 - t1) i`.
    pub fn from_gauss(self) -> Self {
        let [t0, t1, t2] = self.parts();
        Value::complex(t0 - t1, t2 - t0 - t1)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Real(x) => write!(f, "{x}"),
            Value::Int(x) => write!(f, "{x}"),
            Value::Large(x) => write!(f, "{x}"),
            Value::Complex([a, b, c]) if *c == 0.0 => write!(f, "({a}, {b})"),
            Value::Complex([a, b, c]) => write!(f, "({a}, {b}, {c})"),
        }
    }
}

/// A mask of the lowest `bits` bits, at most 64.
pub(crate) const fn low_mask(bits: u32) -> u64 {
    if bits >= 64 {
        u64::MAX
    } else {
        (1 << bits) - 1
    }
}

impl FloatFormat {
    /// Returns the format of a type, if it is a real one.
    pub const fn of(ty: Ty) -> Option<Self> {
        match ty.class() {
            Class::Float(format) => Some(format),
            _ => None,
        }
    }
}
