//! The elements of a tensor map.

/// The element type of a tensor map (`CUtensorMapDataType`). It decides the width, and what reductions compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TmaElement {
    /// 8 bits, also for the 8-bit floats.
    U8,
    /// Unsigned 16 bits.
    U16,
    /// Unsigned 32 bits.
    U32,
    /// Signed 32 bits.
    S32,
    /// Unsigned 64 bits.
    U64,
    /// Signed 64 bits.
    S64,
    /// IEEE binary16.
    F16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
    /// The upper half of a binary32.
    Bf16,
    /// A binary32 that a load rounds to `tf32`: see [`TmaElement::loaded_bits`].
    Tf32,
}

impl TmaElement {
    /// Returns the bytes of one element.
    pub fn bytes(self) -> i64 {
        match self {
            TmaElement::U8 => 1,
            TmaElement::U16 | TmaElement::F16 | TmaElement::Bf16 => 2,
            TmaElement::U32 | TmaElement::S32 | TmaElement::F32 | TmaElement::Tf32 => 4,
            TmaElement::U64 | TmaElement::S64 | TmaElement::F64 => 8,
        }
    }

    /// Returns the name of the constant in `cuda.h`.
    pub fn cuda(self) -> &'static str {
        match self {
            TmaElement::U8 => "CU_TENSOR_MAP_DATA_TYPE_UINT8",
            TmaElement::U16 => "CU_TENSOR_MAP_DATA_TYPE_UINT16",
            TmaElement::U32 => "CU_TENSOR_MAP_DATA_TYPE_UINT32",
            TmaElement::S32 => "CU_TENSOR_MAP_DATA_TYPE_INT32",
            TmaElement::U64 => "CU_TENSOR_MAP_DATA_TYPE_UINT64",
            TmaElement::S64 => "CU_TENSOR_MAP_DATA_TYPE_INT64",
            TmaElement::F16 => "CU_TENSOR_MAP_DATA_TYPE_FLOAT16",
            TmaElement::F32 => "CU_TENSOR_MAP_DATA_TYPE_FLOAT32",
            TmaElement::F64 => "CU_TENSOR_MAP_DATA_TYPE_FLOAT64",
            TmaElement::Bf16 => "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16",
            TmaElement::Tf32 => "CU_TENSOR_MAP_DATA_TYPE_TFLOAT32",
        }
    }
}

impl TmaElement {
    /// Returns the bits that a load leaves in shared memory for an element with these bits in global memory.
    ///
    /// Only [`Tf32`](TmaElement::Tf32) changes them. A finite binary32 is rounded to the nearest `tf32`, to even
    /// between two, subnormal numbers included; an infinity stays; every NaN becomes `0x7fffe000`. A store changes
    /// nothing. No manual says so: an H200 (driver 580.159.04) did this to 2,048 words with all ties, subnormals,
    /// infinities and NaNs among them.
    ///
    /// ```
    /// use colex_atom::TmaElement;
    ///
    /// assert_eq!(TmaElement::Tf32.loaded_bits(0x3f80_1000), 0x3f80_0000); // between two: to even
    /// assert_eq!(TmaElement::Tf32.loaded_bits(0x3f80_3000), 0x3f80_4000);
    /// assert_eq!(TmaElement::Tf32.loaded_bits(0xffc1_2345), 0x7fff_e000);
    /// assert_eq!(TmaElement::F32.loaded_bits(0x3f80_1000), 0x3f80_1000);
    /// ```
    pub fn loaded_bits(self, bits: u64) -> u64 {
        const EXPONENT: u64 = 0x7f80_0000;
        const MANTISSA: u64 = 0x007f_ffff;
        match self {
            TmaElement::Tf32 if bits & EXPONENT != EXPONENT => {
                // Half of the last place that stays, less one unless that place is odd: ties go to even.
                (bits + 0xfff + (bits >> 13 & 1)) & !0x1fff
            }
            TmaElement::Tf32 if bits & MANTISSA != 0 => 0x7fff_e000,
            _ => bits,
        }
    }

    /// Returns whether it is a float, and so has a NaN.
    pub fn is_float(self) -> bool {
        use TmaElement::{Bf16, F16, F32, F64, Tf32};
        matches!(self, F16 | F32 | F64 | Bf16 | Tf32)
    }
}
