//! The arguments of a launch, and the types of parameters.

use core::fmt;

use colex_atom::TensorMap;
use half::{bf16, f16};

/// One argument of a launch.
///
/// ```
/// use colex_ir::launch::Argument;
///
/// assert_eq!(Argument::from(-1i32), Argument::U32(0xffff_ffff));
/// assert_eq!(Argument::from(1.0f32), Argument::F32(1.0));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// 16 bits: an integer, or the bits of an `f16` or a `bf16`.
    U16(u16),
    /// A 32-bit integer of either sign.
    U32(u32),
    /// A 64-bit integer of either sign.
    U64(u64),
    /// A binary32.
    F32(f32),
    /// A binary64.
    F64(f64),
    /// An address in the device's global memory.
    Pointer(u64),
    /// A tensor map, by value.
    TensorMap(Box<TensorMapArgument>),
}

/// A tensor map bound to the memory it describes.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorMapArgument {
    /// The tensor and its box.
    pub map: TensorMap,
    /// Where the tensor begins in the device's global memory.
    pub address: u64,
    /// The 128 bytes that the hardware reads, as the driver encoded them; `None` on the simulator, which reads `map`.
    pub encoded: Option<[u64; 16]>,
}

impl Argument {
    /// Returns whether a parameter of this type takes the argument. Integers and floats of one width do not mix, but a
    /// parameter of untyped bits takes both.
    pub fn fits(&self, parameter: ParameterType) -> bool {
        matches!(
            (self, parameter),
            (Argument::U16(_), ParameterType::B16)
                | (Argument::U32(_), ParameterType::U32 | ParameterType::B32)
                | (Argument::F32(_), ParameterType::F32 | ParameterType::B32)
                | (
                    Argument::U64(_) | Argument::Pointer(_),
                    ParameterType::U64 | ParameterType::B64
                )
                | (Argument::F64(_), ParameterType::F64 | ParameterType::B64)
                | (Argument::TensorMap(_), ParameterType::TensorMap)
        )
    }

    /// Returns a description of its type for messages: `a 32-bit integer`.
    pub fn what(&self) -> &'static str {
        match self {
            Argument::U16(_) => "16 bits",
            Argument::U32(_) => "a 32-bit integer",
            Argument::U64(_) => "a 64-bit integer",
            Argument::F32(_) => "an f32",
            Argument::F64(_) => "an f64",
            Argument::Pointer(_) => "a pointer",
            Argument::TensorMap(_) => "a tensor map",
        }
    }
}

macro_rules! from {
    ($($ty:ty, $value:ident => $argument:expr;)*) => {$(
        impl From<$ty> for Argument {
            fn from($value: $ty) -> Argument {
                $argument
            }
        }
    )*};
}

from! {
    u16, value => Argument::U16(value);
    i16, value => Argument::U16(value as u16);
    f16, value => Argument::U16(value.to_bits());
    bf16, value => Argument::U16(value.to_bits());
    u32, value => Argument::U32(value);
    i32, value => Argument::U32(value as u32);
    u64, value => Argument::U64(value);
    i64, value => Argument::U64(value as u64);
    f32, value => Argument::F32(value);
    f64, value => Argument::F64(value);
    TensorMapArgument, value => Argument::TensorMap(Box::new(value));
}

/// The type of a parameter of a kernel, as its `.entry` declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParameterType {
    /// Any 16 bits (`.b16`, `.u16`, `.s16`, `.f16`).
    B16,
    /// A 32-bit integer (`.u32`, `.s32`).
    U32,
    /// Any 32 bits (`.b32`).
    B32,
    /// A binary32 (`.f32`).
    F32,
    /// A 64-bit integer or an address (`.u64`, `.s64`).
    U64,
    /// Any 64 bits (`.b64`).
    B64,
    /// A binary64 (`.f64`).
    F64,
    /// A tensor map (`.align 64 .b8 name[128]`).
    TensorMap,
}

impl ParameterType {
    /// Returns its size among the parameters in bytes.
    pub fn bytes(self) -> usize {
        match self {
            ParameterType::B16 => 2,
            ParameterType::U32 | ParameterType::B32 | ParameterType::F32 => 4,
            ParameterType::U64 | ParameterType::B64 | ParameterType::F64 => 8,
            ParameterType::TensorMap => 128,
        }
    }
}

/// The words after `.param`: `.u64`, and `.align 64 .b8[128]` for a tensor map.
impl fmt::Display for ParameterType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ParameterType::B16 => ".b16",
            ParameterType::U32 => ".u32",
            ParameterType::B32 => ".b32",
            ParameterType::F32 => ".f32",
            ParameterType::U64 => ".u64",
            ParameterType::B64 => ".b64",
            ParameterType::F64 => ".f64",
            ParameterType::TensorMap => ".align 64 .b8[128]",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_fits_its_own_type_and_untyped_bits() {
        use ParameterType::*;
        let all = [B16, U32, B32, F32, U64, B64, F64, TensorMap];
        let fits = |argument: Argument| -> Vec<ParameterType> {
            all.into_iter().filter(|&ty| argument.fits(ty)).collect()
        };
        assert_eq!(fits(f16::ONE.into()), [B16]);
        assert_eq!(fits(7u32.into()), [U32, B32]);
        assert_eq!(fits((-7i64).into()), [U64, B64]);
        assert_eq!(fits(7f32.into()), [B32, F32]);
        assert_eq!(fits(7f64.into()), [B64, F64]);
        assert_eq!(fits(Argument::Pointer(256)), [U64, B64]);
    }
}
