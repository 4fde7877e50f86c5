//! Integer instructions on one lane: the bits of the sources to the bits of the result.

use colex_ir::{BinaryOp, Compare, TernaryOp, Type, UnaryOp};

use super::lanewise::{Binary, Comparison, Ternary, Unary, comparison, lanewise};

macro_rules! integer {
    ($module:ident, $int:ty, $unsigned:ty, $wide:ty, $wide_unsigned:ty) => {
        mod $module {
            use super::{
                Binary, BinaryOp, Compare, Comparison, Ternary, TernaryOp, Unary, UnaryOp,
                comparison, lanewise,
            };

            type Int = $int;
            type Wide = $wide;
            const BITS: u32 = Int::BITS;

            fn bits(x: Int) -> u64 {
                x as $unsigned as u64
            }

            fn wide(x: Wide) -> u64 {
                x as $wide_unsigned as u64
            }

            pub(crate) fn unary(op: UnaryOp) -> Option<Unary> {
                Some(match op {
                    UnaryOp::Neg => lanewise!(|a| bits((a as Int).wrapping_neg())),
                    UnaryOp::Abs => lanewise!(|a| {
                        let a = a as Int;
                        #[allow(unused_comparisons, reason = "one text for both signs")]
                        bits(if a < 0 { (0 as Int).wrapping_sub(a) } else { a })
                    }),
                    UnaryOp::Not => lanewise!(|a| bits(!(a as Int))),
                    UnaryOp::Popc => lanewise!(|a| u64::from((a as Int).count_ones())),
                    UnaryOp::Clz => lanewise!(|a| u64::from((a as Int).leading_zeros())),
                    UnaryOp::Brev => lanewise!(|a| bits((a as Int).reverse_bits())),
                    UnaryOp::Bfind => lanewise!(|a| {
                        let a = a as Int;
                        #[allow(unused_comparisons, reason = "one text for both signs")]
                        let a = if a < 0 { !a } else { a };
                        u64::from((BITS - 1).wrapping_sub(a.leading_zeros()))
                    }),
                    _ => return None,
                })
            }

            pub(crate) fn binary(op: BinaryOp) -> Option<Binary> {
                Some(match op {
                    BinaryOp::Add => lanewise!(|a, b| bits((a as Int).wrapping_add(b as Int))),
                    BinaryOp::Sub => lanewise!(|a, b| bits((a as Int).wrapping_sub(b as Int))),
                    BinaryOp::Mul => lanewise!(|a, b| bits((a as Int).wrapping_mul(b as Int))),
                    BinaryOp::MulHi => lanewise!(|a, b| bits(
                        ((a as Int as Wide * b as Int as Wide) >> BITS) as Int
                    )),
                    BinaryOp::MulWide => {
                        lanewise!(|a, b| wide(a as Int as Wide * b as Int as Wide))
                    }
                    // What the hardware gives where the manual leaves it open.
                    BinaryOp::Div => lanewise!(|a, b| match b as Int {
                        0 => bits(!0),
                        b => bits((a as Int).wrapping_div(b)),
                    }),
                    BinaryOp::Rem => lanewise!(|a, b| match b as Int {
                        0 => bits(a as Int),
                        b => bits((a as Int).wrapping_rem(b)),
                    }),
                    BinaryOp::Min => lanewise!(|a, b| bits((a as Int).min(b as Int))),
                    BinaryOp::Max => lanewise!(|a, b| bits((a as Int).max(b as Int))),
                    BinaryOp::And => lanewise!(|a, b| bits(a as Int & b as Int)),
                    BinaryOp::Or => lanewise!(|a, b| bits(a as Int | b as Int)),
                    BinaryOp::Xor => lanewise!(|a, b| bits(a as Int ^ b as Int)),
                    BinaryOp::Shl => lanewise!(|a, b| match b as u32 {
                        b if b < BITS => bits((a as Int) << b),
                        _ => 0,
                    }),
                    BinaryOp::Shr => lanewise!(|a, b| match b as u32 {
                        b if b < BITS => bits(a as Int >> b),
                        _ => bits((a as Int >> (BITS - 1)) >> 1),
                    }),
                    BinaryOp::MinNan | BinaryOp::MaxNan => return None,
                })
            }

            pub(crate) fn ternary(op: TernaryOp) -> Option<Ternary> {
                Some(match op {
                    TernaryOp::Mad => lanewise!(|a, b, c| bits(
                        (a as Int).wrapping_mul(b as Int).wrapping_add(c as Int)
                    )),
                    TernaryOp::MadHi => lanewise!(|a, b, c| {
                        let high = ((a as Int as Wide * b as Int as Wide) >> BITS) as Int;
                        bits(high.wrapping_add(c as Int))
                    }),
                    TernaryOp::MadWide => lanewise!(|a, b, c| {
                        wide((a as Int as Wide * b as Int as Wide).wrapping_add(c as Wide))
                    }),
                    TernaryOp::Bfe => lanewise!(|a, start, length| super::extract(
                        BITS,
                        Int::MIN != 0,
                        a,
                        start,
                        length
                    )),
                    _ => return None,
                })
            }

            pub(crate) fn compare(cmp: Compare) -> Option<Comparison> {
                Some(match cmp {
                    Compare::Eq => comparison!(|a, b| a as Int == b as Int),
                    Compare::Ne => comparison!(|a, b| a as Int != b as Int),
                    Compare::Lt => comparison!(|a, b| (a as Int) < b as Int),
                    Compare::Le => comparison!(|a, b| a as Int <= b as Int),
                    Compare::Gt => comparison!(|a, b| a as Int > b as Int),
                    Compare::Ge => comparison!(|a, b| a as Int >= b as Int),
                    _ => return None,
                })
            }
        }
    };
}

integer!(of_u16, u16, u16, u32, u32);
integer!(of_s16, i16, u16, i32, u32);
integer!(of_u32, u32, u32, u64, u64);
integer!(of_s32, i32, u32, i64, u64);
integer!(of_u64, u64, u64, u128, u128);
integer!(of_s64, i64, u64, i128, u128);

/// Calls the function of the module that fits the type; untyped bits count as unsigned.
macro_rules! by_type {
    ($ty:expr, $function:ident($argument:expr)) => {
        match $ty {
            Type::B8 | Type::U8 | Type::B16 | Type::U16 => of_u16::$function($argument),
            Type::S8 | Type::S16 => of_s16::$function($argument),
            Type::B32 | Type::U32 => of_u32::$function($argument),
            Type::S32 => of_s32::$function($argument),
            Type::B64 | Type::U64 => of_u64::$function($argument),
            Type::S64 => of_s64::$function($argument),
            _ => None,
        }
    };
}

/// An instruction with one source; `None` if there is none of that type.
pub(crate) fn unary(op: UnaryOp, ty: Type) -> Option<Unary> {
    by_type!(ty, unary(op))
}

/// An instruction with two sources.
pub(crate) fn binary(op: BinaryOp, ty: Type) -> Option<Binary> {
    match (op, ty.bits()) {
        (BinaryOp::MulWide, 64) => None,
        _ => by_type!(ty, binary(op)),
    }
}

/// An instruction with three sources.
pub(crate) fn ternary(op: TernaryOp, ty: Type) -> Option<Ternary> {
    match (op, ty.bits()) {
        (TernaryOp::Prmt, 32) => Some(lanewise!(|a, b, c| permute(a, b, c))),
        (TernaryOp::ShfL, 32) => Some(lanewise!(|a, b, c| {
            let both = (b << 32 | a & 0xffff_ffff) << (c & 31);
            both >> 32
        })),
        (TernaryOp::ShfR, 32) => Some(lanewise!(
            |a, b, c| (b << 32 | a & 0xffff_ffff) >> (c & 31) & 0xffff_ffff
        )),
        (TernaryOp::MadWide, 64) => None,
        _ => by_type!(ty, ternary(op)),
    }
}

/// A comparison.
pub(crate) fn compare(cmp: Compare, ty: Type) -> Option<Comparison> {
    by_type!(ty, compare(cmp))
}

/// `prmt`: byte `i` of the result is the one of the eight bytes `b:a` that nibble `i` of `c` names, or its sign.
fn permute(a: u64, b: u64, c: u64) -> u64 {
    let bytes = b << 32 | a & 0xffff_ffff;
    (0..4).fold(0, |result, i| {
        let nibble = c >> (4 * i) & 0xf;
        let byte = (bytes >> (8 * (nibble & 7))) as u8;
        let byte = match nibble & 8 {
            0 => byte,
            _ => (byte as i8 >> 7) as u8,
        };
        result | u64::from(byte) << (8 * i)
    })
}

/// `lop3`: bit by bit, the truth table's entry.
pub(crate) fn lop3(a: u32, b: u32, c: u32, table: u8) -> u32 {
    (0..8u32).filter(|i| table >> i & 1 == 1).fold(0, |d, i| {
        let pick = |x: u32, bit: u32| if i >> bit & 1 == 1 { x } else { !x };
        d | pick(a, 2) & pick(b, 1) & pick(c, 0)
    })
}

/// `bfi`: the low `length` bits of `a` into `b` at `start`.
pub(crate) fn insert(bits: u32, a: u64, b: u64, start: u64, length: u64) -> u64 {
    let (start, length) = (start as u32 & 0xff, length as u32 & 0xff);
    if start >= bits || length == 0 {
        return b;
    }
    let length = length.min(bits - start);
    let mask = (u64::MAX >> (64 - length)) << start;
    b & !mask | (a << start) & mask
}

/// `bfe`: `length` bits of `a` from bit `start`; above them zeros, or for a signed type the field's top bit.
fn extract(bits: u32, signed: bool, a: u64, start: u64, length: u64) -> u64 {
    let (start, length) = (start as u32 & 0xff, length as u32 & 0xff);
    let bit = |at: u32| a >> at & 1;
    let sign = if signed && length > 0 {
        bit((start + length - 1).min(bits - 1))
    } else {
        0
    };
    let at = |i: u32| {
        if i < length && start + i < bits {
            bit(start + i)
        } else {
            sign
        }
    };
    (0..bits).fold(0, |d, i| d | at(i) << i)
}
