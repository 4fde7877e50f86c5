//! Classes of registers.

use core::fmt;

/// The class of a register: its width and the file it is declared in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RegClass {
    /// One bit, the outcome of a comparison.
    Pred,
    /// 16 bits: a half, a bfloat, a short; 8-bit values are widened into it.
    B16,
    /// 32 bits: an integer, or several narrower values side by side.
    B32,
    /// 64 bits: an integer, an address, a descriptor.
    B64,
    /// A binary32.
    F32,
    /// A binary64.
    F64,
}

impl RegClass {
    /// Every class, in the order of its number: `class as usize` is its place.
    pub const ALL: [RegClass; 6] = [
        RegClass::Pred,
        RegClass::B16,
        RegClass::B32,
        RegClass::B64,
        RegClass::F32,
        RegClass::F64,
    ];

    /// Returns the width in bits; 1 for a predicate.
    #[inline]
    pub fn bits(self) -> u32 {
        match self {
            RegClass::Pred => 1,
            RegClass::B16 => 16,
            RegClass::B32 | RegClass::F32 => 32,
            RegClass::B64 | RegClass::F64 => 64,
        }
    }

    /// Returns the word of its declaration in PTX, and of an untyped move.
    pub fn ptx(self) -> &'static str {
        match self {
            RegClass::Pred => "pred",
            RegClass::B16 => "b16",
            RegClass::B32 => "b32",
            RegClass::B64 => "b64",
            RegClass::F32 => "f32",
            RegClass::F64 => "f64",
        }
    }

    /// Returns the letters that its registers' names begin with.
    pub fn prefix(self) -> &'static str {
        match self {
            RegClass::Pred => "p",
            RegClass::B16 => "h",
            RegClass::B32 => "r",
            RegClass::B64 => "rd",
            RegClass::F32 => "f",
            RegClass::F64 => "fd",
        }
    }
}

impl fmt::Display for RegClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.ptx())
    }
}

/// The registers of one operand in one thread.
///
/// Element `v` of a thread lies at bit `v * bits` of them, counted from the lowest bit of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Registers {
    /// The number of registers.
    pub count: usize,
    /// The class of the registers.
    pub class: RegClass,
}

impl fmt::Display for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.count, self.class.ptx())
    }
}
