//! What a reducing copy does with the value that is already there.

use crate::number::{FloatFormat, Rounding, low_mask};

/// The operation of `cp.reduce.async.bulk` (PTX ISA 9.7.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// The sum.
    Add,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// Counts up to the new value, then from 0 again.
    Inc,
    /// Counts down from the new value to 0, then from it again.
    Dec,
    /// Both bits.
    And,
    /// Either bit.
    Or,
    /// One bit but not both.
    Xor,
}

/// The type that a reduction works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// The tensor map says it.
    Mapped,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 32-bit integer.
    S32,
    /// 32 bits.
    B32,
    /// Unsigned 64-bit integer.
    U64,
    /// Signed 64-bit integer.
    S64,
    /// 64 bits.
    B64,
    /// IEEE binary16.
    F16,
    /// The upper half of a binary32.
    Bf16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
}

impl Scalar {
    /// Returns the width in bits; 0 where the tensor map says it.
    pub fn bits(self) -> u32 {
        match self {
            Scalar::Mapped => 0,
            Scalar::F16 | Scalar::Bf16 => 16,
            Scalar::U32 | Scalar::S32 | Scalar::B32 | Scalar::F32 => 32,
            Scalar::U64 | Scalar::S64 | Scalar::B64 | Scalar::F64 => 64,
        }
    }

    /// Returns the type's word in a PTX opcode; nothing where the tensor map says it.
    pub fn ptx(self) -> &'static str {
        match self {
            Scalar::Mapped => "",
            Scalar::U32 => "u32",
            Scalar::S32 => "s32",
            Scalar::B32 => "b32",
            Scalar::U64 => "u64",
            Scalar::S64 => "s64",
            Scalar::B64 => "b64",
            Scalar::F16 => "f16",
            Scalar::Bf16 => "bf16",
            Scalar::F32 => "f32",
            Scalar::F64 => "f64",
        }
    }

    fn format(self) -> Option<FloatFormat> {
        match self {
            Scalar::F16 => Some(FloatFormat::F16),
            Scalar::Bf16 => Some(FloatFormat::BF16),
            Scalar::F32 => Some(FloatFormat::F32),
            Scalar::F64 => Some(FloatFormat::F64),
            _ => None,
        }
    }

    /// The integer that the low bits spell.
    fn integer(self, bits: u64) -> i128 {
        match self {
            Scalar::S32 => i128::from(bits as u32 as i32),
            Scalar::S64 => i128::from(bits as i64),
            _ => i128::from(bits),
        }
    }
}

impl Reduction {
    /// Returns the operation's word in a PTX opcode: `add`, `min`, .. The sum of 16-bit floats is `add.noftz`: the
    /// instruction keeps subnormals, and PTX wants that written out.
    pub fn ptx(self, ty: Scalar) -> &'static str {
        match self {
            Reduction::Add if ty.bits() == 16 => "add.noftz",
            Reduction::Add => "add",
            Reduction::Min => "min",
            Reduction::Max => "max",
            Reduction::Inc => "inc",
            Reduction::Dec => "dec",
            Reduction::And => "and",
            Reduction::Or => "or",
            Reduction::Xor => "xor",
        }
    }

    /// Returns the value in memory after `new` arrives where `old` was; both are the bits of a value of the type.
    ///
    /// Float sums round to nearest even and keep subnormals; minimum and maximum prefer a number to a NaN; a sum that
    /// is no number is the format's NaN, but binary64 keeps the NaN that arrives, or else the one that was there, bit
    /// for bit and signalling. (An H200 did so for random bits of every type.) With [`Scalar::Mapped`] both are 64-bit
    /// unsigned integers.
    ///
    /// ```
    /// use colex_atom::{Reduction, Scalar};
    ///
    /// assert_eq!(Reduction::Add.combine(Scalar::U32, u64::from(u32::MAX), 2), 1);
    /// assert_eq!(Reduction::Min.combine(Scalar::S32, 0xffff_ffff, 5), 0xffff_ffff);
    /// assert_eq!(Reduction::Inc.combine(Scalar::U32, 3, 3), 0);
    /// let f16 = |x: f64| colex_atom::FloatFormat::F16.encode(x, colex_atom::Rounding::Nearest);
    /// assert_eq!(Reduction::Add.combine(Scalar::F16, f16(1.5), f16(2.0)), f16(3.5));
    /// ```
    pub fn combine(self, ty: Scalar, old: u64, new: u64) -> u64 {
        let mask = if ty == Scalar::Mapped {
            u64::MAX
        } else {
            low_mask(ty.bits())
        };
        let (old, new) = (old & mask, new & mask);
        match ty.format() {
            Some(format) => self.combine_floats(format, old, new),
            None => self.combine_integers(ty, old, new) & mask,
        }
    }

    fn combine_floats(self, format: FloatFormat, old: u64, new: u64) -> u64 {
        let (a, b) = (format.decode(old), format.decode(new));
        if format == FloatFormat::F64 && self == Reduction::Add && (a.is_nan() || b.is_nan()) {
            return if b.is_nan() { new } else { old };
        }
        let result = match self {
            Reduction::Min => a.min(b),
            Reduction::Max => a.max(b),
            // Binary64 holds the sum of two shorter floats well enough that rounding twice changes nothing.
            _ => a + b,
        };
        format.encode(result, Rounding::Nearest)
    }

    fn combine_integers(self, ty: Scalar, old: u64, new: u64) -> u64 {
        let (a, b) = (ty.integer(old), ty.integer(new));
        match self {
            Reduction::Add => old.wrapping_add(new),
            Reduction::Min => {
                if b < a {
                    new
                } else {
                    old
                }
            }
            Reduction::Max => {
                if b > a {
                    new
                } else {
                    old
                }
            }
            Reduction::Inc => {
                if old >= new {
                    0
                } else {
                    old + 1
                }
            }
            Reduction::Dec => {
                if old == 0 || old > new {
                    new
                } else {
                    old - 1
                }
            }
            Reduction::And => old & new,
            Reduction::Or => old | new,
            Reduction::Xor => old ^ new,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_wrap_at_the_new_value() {
        let run = |reduction: Reduction, from: u64| -> Vec<u64> {
            std::iter::successors(Some(from), |&old| {
                Some(reduction.combine(Scalar::U32, old, 3))
            })
            .take(6)
            .collect()
        };
        assert_eq!(run(Reduction::Inc, 2), [2, 3, 0, 1, 2, 3]);
        assert_eq!(run(Reduction::Dec, 1), [1, 0, 3, 2, 1, 0]);
        assert_eq!(Reduction::Inc.combine(Scalar::U32, 9, 3), 0);
        assert_eq!(Reduction::Dec.combine(Scalar::U32, 9, 3), 3);
    }

    #[test]
    fn signs_are_seen_by_the_signed_types_only() {
        let minus_one = 0xffff_ffff;
        assert_eq!(Reduction::Max.combine(Scalar::S32, minus_one, 1), 1);
        assert_eq!(Reduction::Max.combine(Scalar::U32, minus_one, 1), minus_one);
        assert_eq!(Reduction::Min.combine(Scalar::S64, u64::MAX, 1), u64::MAX);
        assert_eq!(Reduction::Min.combine(Scalar::U64, u64::MAX, 1), 1);
    }

    #[test]
    fn float_sums_are_those_of_the_host() {
        let mut cases = 0;
        for i in 0..2000u32 {
            let a = f32::from_bits(i.wrapping_mul(2_654_435_761) >> 1 & 0x4fff_ffff);
            let b = f32::from_bits(i.wrapping_mul(0x9e37_79b1).rotate_left(7) & 0x4fff_ffff);
            let sum = Reduction::Add.combine(Scalar::F32, a.to_bits().into(), b.to_bits().into());
            assert_eq!(sum as u32, (a + b).to_bits(), "{a} + {b}");
            cases += 1;
        }
        println!("law reduction.f32_add: {cases} cases");
    }

    #[test]
    fn nans_are_the_formats_own_or_kept() {
        let add = |ty, old, new| Reduction::Add.combine(ty, old, new);
        assert_eq!(add(Scalar::F32, 0x7f80_0001, 0x3f80_0000), 0x7fff_ffff);
        assert_eq!(
            add(Scalar::F64, 0x4f58_290e_7f33_c2ea, 0xfff8_9fb6_f310_813a),
            0xfff8_9fb6_f310_813a
        );
        assert_eq!(
            add(Scalar::F64, 0x7ff0_0000_0000_0001, 0),
            0x7ff0_0000_0000_0001
        );
        assert_eq!(
            add(Scalar::F64, 0x0136_fd03_b3df_d5b7, 0x7ff5_82b7_64cc_7ee3),
            0x7ff5_82b7_64cc_7ee3,
            "seen on an H200"
        );
    }

    #[test]
    fn a_number_beats_a_nan() {
        let (nan, one) = (f32::NAN.to_bits().into(), 1.0f32.to_bits().into());
        assert_eq!(Reduction::Min.combine(Scalar::F32, nan, one), one);
        assert_eq!(Reduction::Max.combine(Scalar::F32, one, nan), one);
    }
}
