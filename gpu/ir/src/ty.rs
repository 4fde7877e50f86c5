//! Register classes, and the types as which instructions read registers.

use std::fmt;

pub use colex_atom::RegClass as RegType;
use colex_atom::{FloatFormat, Rounding};

use super::operand::Operand;

/// The type that an instruction works on (PTX ISA 5.2): how it reads the bits of its registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names are PTX's own")]
pub enum Type {
    Pred,
    B8,
    U8,
    S8,
    B16,
    U16,
    S16,
    F16,
    Bf16,
    B32,
    U32,
    S32,
    F32,
    Tf32,
    F16x2,
    Bf16x2,
    E4m3x2,
    E5m2x2,
    B64,
    U64,
    S64,
    F64,
    B128,
}

/// A type of one floating-point number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are PTX's own")]
pub enum Float {
    F16,
    Bf16,
    F32,
    Tf32,
    F64,
}

/// A type of two floating-point numbers, the first in the low half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are PTX's own")]
pub enum FloatPair {
    F16x2,
    Bf16x2,
    E4m3x2,
    E5m2x2,
}

impl Float {
    /// Returns the format of the number.
    #[inline]
    pub fn format(self) -> FloatFormat {
        match self {
            Float::F16 => FloatFormat::F16,
            Float::Bf16 => FloatFormat::BF16,
            Float::F32 => FloatFormat::F32,
            Float::Tf32 => FloatFormat::TF32,
            Float::F64 => FloatFormat::F64,
        }
    }
}

impl FloatPair {
    /// Returns the format of each of the two numbers.
    #[inline]
    pub fn format(self) -> FloatFormat {
        match self {
            FloatPair::F16x2 => FloatFormat::F16,
            FloatPair::Bf16x2 => FloatFormat::BF16,
            FloatPair::E4m3x2 => FloatFormat::E4M3,
            FloatPair::E5m2x2 => FloatFormat::E5M2,
        }
    }

    /// Returns the bits of each of the two numbers.
    #[inline]
    pub fn half_bits(self) -> u32 {
        match self {
            FloatPair::F16x2 | FloatPair::Bf16x2 => 16,
            FloatPair::E4m3x2 | FloatPair::E5m2x2 => 8,
        }
    }
}

impl Type {
    /// Returns the type as one floating-point number, if it is one.
    #[inline]
    pub fn float(self) -> Option<Float> {
        match self {
            Type::F16 => Some(Float::F16),
            Type::Bf16 => Some(Float::Bf16),
            Type::F32 => Some(Float::F32),
            Type::Tf32 => Some(Float::Tf32),
            Type::F64 => Some(Float::F64),
            Type::F16x2 | Type::Bf16x2 | Type::E4m3x2 | Type::E5m2x2 => None,
            Type::Pred | Type::B8 | Type::B16 | Type::B32 | Type::B64 | Type::B128 => None,
            Type::U8 | Type::U16 | Type::U32 | Type::U64 => None,
            Type::S8 | Type::S16 | Type::S32 | Type::S64 => None,
        }
    }

    /// Returns the type as two floating-point numbers, if it is two.
    #[inline]
    pub fn float_pair(self) -> Option<FloatPair> {
        match self {
            Type::F16x2 => Some(FloatPair::F16x2),
            Type::Bf16x2 => Some(FloatPair::Bf16x2),
            Type::E4m3x2 => Some(FloatPair::E4m3x2),
            Type::E5m2x2 => Some(FloatPair::E5m2x2),
            Type::F16 | Type::Bf16 | Type::F32 | Type::Tf32 | Type::F64 => None,
            Type::Pred | Type::B8 | Type::B16 | Type::B32 | Type::B64 | Type::B128 => None,
            Type::U8 | Type::U16 | Type::U32 | Type::U64 => None,
            Type::S8 | Type::S16 | Type::S32 | Type::S64 => None,
        }
    }

    /// Returns the type that reads the bits of a register as they are.
    pub fn untyped(register: RegType) -> Type {
        match register {
            RegType::Pred => Type::Pred,
            RegType::B16 => Type::B16,
            RegType::B32 => Type::B32,
            RegType::B64 => Type::B64,
            RegType::F32 => Type::F32,
            RegType::F64 => Type::F64,
        }
    }

    /// Returns the width in bits.
    #[inline]
    pub fn bits(self) -> u32 {
        match self {
            Type::Pred => 1,
            Type::B8 | Type::U8 | Type::S8 => 8,
            Type::B16 | Type::U16 | Type::S16 | Type::F16 | Type::Bf16 => 16,
            Type::E4m3x2 | Type::E5m2x2 => 16,
            Type::B32 | Type::U32 | Type::S32 | Type::F32 | Type::Tf32 => 32,
            Type::F16x2 | Type::Bf16x2 => 32,
            Type::B64 | Type::U64 | Type::S64 | Type::F64 => 64,
            Type::B128 => 128,
        }
    }

    /// Returns a number as a constant of this type, rounded to nearest even; in a packed type, a pair of it.
    ///
    /// ```
    /// use colex_ir::{Operand, Type};
    ///
    /// assert_eq!(Type::F16.constant(1.0), Operand::Int(0x3c00));
    /// assert_eq!(Type::Bf16x2.constant(-2.0), Operand::Int(0xc000_c000));
    /// assert_eq!(Type::F32.constant(1.0), Operand::Float(1.0));
    /// ```
    pub fn constant(self, value: f64) -> Operand {
        let bits = |format: FloatFormat| format.encode(value, Rounding::Nearest) as i64;
        match (self.float(), self.float_pair()) {
            (Some(float @ (Float::F16 | Float::Bf16)), _) => Operand::Int(bits(float.format())),
            (_, Some(pair)) => {
                let half = bits(pair.format());
                Operand::Int(half << pair.half_bits() | half)
            }
            (Some(Float::F32 | Float::Tf32 | Float::F64) | None, None) => Operand::Float(value),
        }
    }

    /// Returns the type's suffix in an opcode.
    pub fn ptx(self) -> &'static str {
        match self {
            Type::Pred => "pred",
            Type::B8 => "b8",
            Type::U8 => "u8",
            Type::S8 => "s8",
            Type::B16 => "b16",
            Type::U16 => "u16",
            Type::S16 => "s16",
            Type::F16 => "f16",
            Type::Bf16 => "bf16",
            Type::B32 => "b32",
            Type::U32 => "u32",
            Type::S32 => "s32",
            Type::F32 => "f32",
            Type::Tf32 => "tf32",
            Type::F16x2 => "f16x2",
            Type::Bf16x2 => "bf16x2",
            Type::E4m3x2 => "e4m3x2",
            Type::E5m2x2 => "e5m2x2",
            Type::B64 => "b64",
            Type::U64 => "u64",
            Type::S64 => "s64",
            Type::F64 => "f64",
            Type::B128 => "b128",
        }
    }

    /// Returns whether it is a number with a fraction.
    #[inline]
    pub fn is_float(self) -> bool {
        self.float().is_some() || self.float_pair().is_some()
    }

    /// Returns whether it is an integer whose top bit is the sign.
    #[inline]
    pub fn is_signed(self) -> bool {
        matches!(self, Type::S8 | Type::S16 | Type::S32 | Type::S64)
    }

    /// The word of the integers of its width: untyped bits count as unsigned.
    pub(crate) fn integer(self) -> &'static str {
        match (self.bits(), self.is_signed()) {
            (1, _) => "u1",
            (8, true) => "s8",
            (8, false) => "u8",
            (16, true) => "s16",
            (16, false) => "u16",
            (32, true) => "s32",
            (32, false) => "u32",
            (64, true) => "s64",
            (64, false) => "u64",
            _ => "u128",
        }
    }

    /// The word of untyped bits of its width.
    pub(crate) fn untyped_word(self) -> &'static str {
        bits_word(self.bits())
    }

    /// The word of the type where bits are only moved.
    pub(crate) fn moved(self) -> &'static str {
        if self.is_float() && ![Type::F32, Type::F64].contains(&self) {
            self.untyped_word()
        } else {
            self.ptx()
        }
    }

    /// Whether it is `f16` or a pair of them.
    pub(crate) fn is_f16(self) -> bool {
        [Type::F16, Type::F16x2].contains(&self)
    }

    /// Whether it is `bf16` or a pair of them.
    pub(crate) fn is_bf16(self) -> bool {
        [Type::Bf16, Type::Bf16x2].contains(&self)
    }

    /// Whether it is a pair of 8-bit floats: conversions into it always saturate.
    pub(crate) fn is_fp8_pair(self) -> bool {
        [Type::E4m3x2, Type::E5m2x2].contains(&self)
    }

    /// Returns the type of a product in twice the width.
    pub fn wide(self) -> Type {
        match (self.bits(), self.is_signed()) {
            (16, false) => Type::U32,
            (16, true) => Type::S32,
            (_, false) => Type::U64,
            (_, true) => Type::S64,
        }
    }

    /// Returns the class of register that a new value of this type gets. 8-bit values live in 16-bit registers.
    pub fn register(self) -> RegType {
        match (self, self.float()) {
            (Type::Pred, _) => RegType::Pred,
            (_, Some(Float::F32)) => RegType::F32,
            (_, Some(Float::F64)) => RegType::F64,
            (_, Some(Float::F16 | Float::Bf16 | Float::Tf32) | None) => match self.bits() {
                8 | 16 => RegType::B16,
                32 => RegType::B32,
                _ => RegType::B64,
            },
        }
    }
}

/// The word of that many untyped bits, the width of a type or of a register.
pub(crate) fn bits_word(bits: u32) -> &'static str {
    match bits {
        1 => "b1",
        8 => "b8",
        16 => "b16",
        32 => "b32",
        64 => "b64",
        _ => "b128",
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.ptx())
    }
}
