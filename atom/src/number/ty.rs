//! Element types.

use core::fmt;

use super::FloatFormat;

/// The type of one matrix element.
///
/// ```
/// use colex_atom::Ty;
///
/// assert_eq!(Ty::Bf16.bits(), 16);
/// assert_eq!(Ty::Tf32.ptx(), "tf32");
/// assert_eq!(Ty::Bf16.cute(), "BF16");
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ty {
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    F32,
    /// 8 bits of exponent, 10 of fraction, in the upper 19 bits of a 32-bit word.
    Tf32,
    /// IEEE binary16.
    F16,
    /// The upper half of a binary32.
    Bf16,
    /// 4 bits of exponent, 3 of fraction; no infinities, NaN is `0x7f` and `0xff` (OCP OFP8).
    E4m3,
    /// 5 bits of exponent, 2 of fraction, with infinities and NaNs (OCP OFP8).
    E5m2,
    /// 3 bits of exponent, 2 of fraction, finite only (OCP MX).
    E3m2,
    /// 2 bits of exponent, 3 of fraction, finite only (OCP MX).
    E2m3,
    /// 2 bits of exponent, 1 of fraction, finite only (OCP MX).
    E2m1,
    /// Signed 64-bit integer.
    S64,
    /// Unsigned 64-bit integer.
    U64,
    /// Signed 32-bit integer.
    S32,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 16-bit integer.
    S16,
    /// Unsigned 16-bit integer.
    U16,
    /// Signed 8-bit integer.
    S8,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 4-bit integer.
    S4,
    /// Unsigned 4-bit integer.
    U4,
    /// One bit.
    B1,
    /// A pair of binary64: real part, then imaginary part.
    C64,
    /// Three binary64, the partial sums of Gauss's complex product:
    /// `t0 = Σ re·re`, `t1 = Σ im·im`, `t2 = Σ (re+im)·(re+im)` (`mma_sm80.hpp`).
    Gc64,
}

/// How a type's bits are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A real number in the given format.
    Float(FloatFormat),
    /// A two's complement (`signed`) or plain binary integer.
    Integer {
        /// Whether the top bit is the sign.
        signed: bool,
    },
    /// Two or three binary64 side by side.
    Complex {
        /// The number of registers.
        parts: usize,
    },
}

impl Ty {
    /// Every type.
    pub const ALL: [Ty; 23] = {
        use Ty::*;
        [
            F64, F32, Tf32, F16, Bf16, E4m3, E5m2, E3m2, E2m3, E2m1, S64, U64, S32, U32, S16, U16,
            S8, U8, S4, U4, B1, C64, Gc64,
        ]
    };

    /// Returns the bits one element takes in memory and in registers.
    pub const fn bits(self) -> u32 {
        match self {
            Ty::Gc64 => 192,
            Ty::C64 => 128,
            Ty::F64 | Ty::S64 | Ty::U64 => 64,
            Ty::F32 | Ty::Tf32 | Ty::S32 | Ty::U32 => 32,
            Ty::F16 | Ty::Bf16 | Ty::S16 | Ty::U16 => 16,
            Ty::E4m3 | Ty::E5m2 | Ty::S8 | Ty::U8 => 8,
            Ty::E3m2 | Ty::E2m3 => 6,
            Ty::E2m1 | Ty::S4 | Ty::U4 => 4,
            Ty::B1 => 1,
        }
    }

    /// Returns how the bits are read.
    pub const fn class(self) -> Class {
        match self {
            Ty::F64 => Class::Float(FloatFormat::F64),
            Ty::F32 => Class::Float(FloatFormat::F32),
            Ty::Tf32 => Class::Float(FloatFormat::TF32),
            Ty::F16 => Class::Float(FloatFormat::F16),
            Ty::Bf16 => Class::Float(FloatFormat::BF16),
            Ty::E4m3 => Class::Float(FloatFormat::E4M3),
            Ty::E5m2 => Class::Float(FloatFormat::E5M2),
            Ty::E3m2 => Class::Float(FloatFormat::E3M2),
            Ty::E2m3 => Class::Float(FloatFormat::E2M3),
            Ty::E2m1 => Class::Float(FloatFormat::E2M1),
            Ty::S64 | Ty::S32 | Ty::S16 | Ty::S8 | Ty::S4 => Class::Integer { signed: true },
            Ty::U64 | Ty::U32 | Ty::U16 | Ty::U8 | Ty::U4 | Ty::B1 => {
                Class::Integer { signed: false }
            }
            Ty::C64 => Class::Complex { parts: 2 },
            Ty::Gc64 => Class::Complex { parts: 3 },
        }
    }

    /// Returns whether elements are integers (or bits).
    pub const fn is_integer(self) -> bool {
        matches!(self.class(), Class::Integer { .. })
    }

    /// Returns the type's word in a PTX opcode; the complex types are made of `f64`.
    pub const fn ptx(self) -> &'static str {
        match self {
            Ty::F64 | Ty::C64 | Ty::Gc64 => "f64",
            Ty::F32 => "f32",
            Ty::Tf32 => "tf32",
            Ty::F16 => "f16",
            Ty::Bf16 => "bf16",
            Ty::E4m3 => "e4m3",
            Ty::E5m2 => "e5m2",
            Ty::E3m2 => "e3m2",
            Ty::E2m3 => "e2m3",
            Ty::E2m1 => "e2m1",
            Ty::S64 => "s64",
            Ty::U64 => "u64",
            Ty::S32 => "s32",
            Ty::U32 => "u32",
            Ty::S16 => "s16",
            Ty::U16 => "u16",
            Ty::S8 => "s8",
            Ty::U8 => "u8",
            Ty::S4 => "s4",
            Ty::U4 => "u4",
            Ty::B1 => "b1",
        }
    }

    /// Returns the type's letters in the name of a CuTe operation.
    pub const fn cute(self) -> &'static str {
        match self {
            Ty::F64 => "F64",
            Ty::F32 => "F32",
            Ty::Tf32 => "TF32",
            Ty::F16 => "F16",
            Ty::Bf16 => "BF16",
            Ty::E4m3 => "E4M3",
            Ty::E5m2 => "E5M2",
            Ty::E3m2 => "E3M2",
            Ty::E2m3 => "E2M3",
            Ty::E2m1 => "E2M1",
            Ty::S64 => "S64",
            Ty::U64 => "U64",
            Ty::S32 => "S32",
            Ty::U32 => "U32",
            Ty::S16 => "S16",
            Ty::U16 => "U16",
            Ty::S8 => "S8",
            Ty::U8 => "U8",
            Ty::S4 => "S4",
            Ty::U4 => "U4",
            Ty::B1 => "U1",
            Ty::C64 => "C64",
            Ty::Gc64 => "GC64",
        }
    }

    /// Returns the C++ type that CuTe's traits and `UniversalFMA` call it by.
    pub const fn cpp(self) -> &'static str {
        match self {
            Ty::F64 => "double",
            Ty::F32 => "float",
            Ty::Tf32 => "tfloat32_t",
            Ty::F16 => "half_t",
            Ty::Bf16 => "bfloat16_t",
            Ty::E4m3 => "float_e4m3_t",
            Ty::E5m2 => "float_e5m2_t",
            Ty::E3m2 => "float_e3m2_t",
            Ty::E2m3 => "float_e2m3_t",
            Ty::E2m1 => "float_e2m1_t",
            Ty::S64 => "int64_t",
            Ty::U64 => "uint64_t",
            Ty::S32 => "int32_t",
            Ty::U32 => "uint32_t",
            Ty::S16 => "int16_t",
            Ty::U16 => "uint16_t",
            Ty::S8 => "int8_t",
            Ty::U8 => "uint8_t",
            Ty::S4 => "int4_t",
            Ty::U4 => "uint4_t",
            Ty::B1 => "uint1_t",
            Ty::C64 => "complex<double>",
            Ty::Gc64 => "GaussComplex",
        }
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ty::C64 => f.write_str("c64"),
            Ty::Gc64 => f.write_str("gc64"),
            other => f.write_str(other.ptx()),
        }
    }
}
