//! Classes of registers.

use core::fmt;

/// A kind of PTX register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegClass {
    /// `.b16`: one 16-bit element.
    B16,
    /// `.b32`: packed elements, lowest bits first, or one 32-bit integer.
    B32,
    /// `.f32`.
    F32,
    /// `.f64`.
    F64,
    /// `.b64` with a shared-memory matrix descriptor.
    Descriptor,
    /// `.b64`: an address or a cache policy.
    B64,
}

impl RegClass {
    /// The width in bits.
    pub fn bits(self) -> u32 {
        match self {
            RegClass::B16 => 16,
            RegClass::B32 | RegClass::F32 => 32,
            RegClass::F64 | RegClass::Descriptor | RegClass::B64 => 64,
        }
    }

    /// The register type as PTX declares it, without the dot.
    pub fn ptx(self) -> &'static str {
        match self {
            RegClass::B16 => "b16",
            RegClass::B32 => "b32",
            RegClass::F32 => "f32",
            RegClass::F64 => "f64",
            RegClass::Descriptor | RegClass::B64 => "b64",
        }
    }
}

/// The registers of one operand in one thread.
///
/// Element `v` of a thread lies at bit `v * bits` of them, counted from the lowest bit of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Registers {
    /// How many.
    pub count: usize,
    /// Of which kind.
    pub class: RegClass,
}

impl fmt::Display for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.count, self.class.ptx())
    }
}
