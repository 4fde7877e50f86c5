//! Floating-point instructions on one lane: the bits of the sources to the bits of the result.
//!
//! Results that are no number are the canonical NaN of PTX, all bits but the sign. Sums and products of 16-bit floats
//! are computed in binary64 and rounded once.

use colex_atom::{FloatFormat, Rounding};

use super::lanewise::{Binary, Comparison, Ternary, Unary, comparison, lanewise};

use colex_ir::{BinaryOp, Compare, Float, FloatPair, TernaryOp, Type, UnaryOp};

/// A float's format: bits to a number and back.
trait Format {
    fn of(bits: u64) -> f64;
    fn bits(x: f64) -> u64;
}

struct F16;
struct Bf16;
struct F32;
struct F64;

impl Format for F16 {
    fn of(bits: u64) -> f64 {
        FloatFormat::F16.decode(bits)
    }
    fn bits(x: f64) -> u64 {
        FloatFormat::F16.encode(x, Rounding::Nearest)
    }
}

impl Format for Bf16 {
    fn of(bits: u64) -> f64 {
        f64::from(f32::from_bits((bits as u32) << 16))
    }
    fn bits(x: f64) -> u64 {
        FloatFormat::BF16.encode(x, Rounding::Nearest)
    }
}

impl Format for F32 {
    fn of(bits: u64) -> f64 {
        f64::from(f32::from_bits(bits as u32))
    }
    fn bits(x: f64) -> u64 {
        if x.is_nan() {
            0x7fff_ffff
        } else {
            u64::from((x as f32).to_bits())
        }
    }
}

impl Format for F64 {
    fn of(bits: u64) -> f64 {
        f64::from_bits(bits)
    }
    fn bits(x: f64) -> u64 {
        if x.is_nan() {
            0x7fff_ffff_ffff_ffff
        } else {
            x.to_bits()
        }
    }
}

/// The smaller (or larger): a number before a NaN, -0 before +0.
fn least(a: f64, b: f64, larger: bool) -> f64 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ if a == b => {
            if a.is_sign_negative() != larger {
                a
            } else {
                b
            }
        }
        _ if (a < b) != larger => a,
        _ => b,
    }
}

/// `a * b + c` rounded to odd in binary64: exact products of formats up to binary32, one rounding later.
fn fused(a: f64, b: f64, c: f64) -> f64 {
    let product = a * b;
    let sum = product + c;
    if !sum.is_finite() {
        return sum;
    }
    let part = sum - product;
    let lost = (product - (sum - part)) + (c - part);
    match (lost == 0.0, sum.to_bits() & 1) {
        (true, _) | (_, 1) => sum,
        _ if (lost > 0.0) == (sum > 0.0) || sum == 0.0 => f64::from_bits(sum.to_bits() + 1),
        _ => f64::from_bits(sum.to_bits() - 1),
    }
}

/// The smaller (or larger), -0 before +0, or NaN if one of the two is.
fn least_or_nan(a: f64, b: f64, larger: bool) -> f64 {
    if a.is_nan() || b.is_nan() {
        return f64::NAN;
    }
    least(a, b, larger)
}

/// A subnormal binary32 or bfloat16 as zero of its sign (PTX ISA, `.ftz`): both have the exponents of a binary32.
fn flushed(x: f64) -> f64 {
    if x.abs() < f64::from(f32::MIN_POSITIVE) {
        0.0f64.copysign(x)
    } else {
        x
    }
}

/// The instructions that have only a form that takes and gives subnormals as zero (`.ftz`).
fn flushing_unary_of<T: Format>(op: UnaryOp) -> Option<Unary> {
    Some(match op {
        UnaryOp::Rcp => lanewise!(|a| flush::<T>(a, |x| 1.0 / x)),
        UnaryOp::Rsqrt => lanewise!(|a| flush::<T>(a, |x| 1.0 / x.sqrt())),
        UnaryOp::Ex2 => lanewise!(|a| flush::<T>(a, f64::exp2)),
        UnaryOp::Lg2 => lanewise!(|a| flush::<T>(a, f64::log2)),
        UnaryOp::Sin => lanewise!(|a| flush::<T>(a, f64::sin)),
        UnaryOp::Cos => lanewise!(|a| flush::<T>(a, f64::cos)),
        UnaryOp::Neg
        | UnaryOp::Abs
        | UnaryOp::Sqrt
        | UnaryOp::Tanh
        | UnaryOp::Not
        | UnaryOp::Popc
        | UnaryOp::Clz
        | UnaryOp::Brev
        | UnaryOp::Bfind => return None,
    })
}

/// The bits of a function's result, with zeros in place of subnormals.
fn flush<T: Format>(a: u64, f: impl Fn(f64) -> f64) -> u64 {
    T::bits(flushed(f(flushed(T::of(a)))))
}

fn unary_of<T: Format>(op: UnaryOp) -> Option<Unary> {
    Some(match op {
        UnaryOp::Neg => lanewise!(|a| T::bits(-T::of(a))),
        UnaryOp::Abs => lanewise!(|a| T::bits(T::of(a).abs())),
        UnaryOp::Rcp => lanewise!(|a| T::bits(1.0 / T::of(a))),
        UnaryOp::Sqrt => lanewise!(|a| T::bits(T::of(a).sqrt())),
        UnaryOp::Rsqrt => lanewise!(|a| T::bits(1.0 / T::of(a).sqrt())),
        UnaryOp::Ex2 => lanewise!(|a| T::bits(T::of(a).exp2())),
        UnaryOp::Lg2 => lanewise!(|a| T::bits(T::of(a).log2())),
        UnaryOp::Sin => lanewise!(|a| T::bits(T::of(a).sin())),
        UnaryOp::Cos => lanewise!(|a| T::bits(T::of(a).cos())),
        UnaryOp::Tanh => lanewise!(|a| T::bits(T::of(a).tanh())),
        UnaryOp::Not | UnaryOp::Popc | UnaryOp::Clz | UnaryOp::Brev | UnaryOp::Bfind => {
            return None;
        }
    })
}

fn binary_of<T: Format>(op: BinaryOp) -> Option<Binary> {
    use BinaryOp::{
        Add, And, Div, Max, MaxNan, Min, MinNan, Mul, MulHi, MulWide, Or, Rem, Shl, Shr, Sub, Xor,
    };
    Some(match op {
        Add => lanewise!(|a, b| T::bits(T::of(a) + T::of(b))),
        Sub => lanewise!(|a, b| T::bits(T::of(a) - T::of(b))),
        Mul => lanewise!(|a, b| T::bits(T::of(a) * T::of(b))),
        Div => lanewise!(|a, b| T::bits(T::of(a) / T::of(b))),
        Min => lanewise!(|a, b| T::bits(least(T::of(a), T::of(b), false))),
        Max => lanewise!(|a, b| T::bits(least(T::of(a), T::of(b), true))),
        MinNan => lanewise!(|a, b| T::bits(least_or_nan(T::of(a), T::of(b), false))),
        MaxNan => lanewise!(|a, b| T::bits(least_or_nan(T::of(a), T::of(b), true))),
        MulHi | MulWide | Rem | And | Or | Xor | Shl | Shr => return None,
    })
}

/// The type of each half of a pair.
pub(crate) fn half_of(ty: Type) -> Option<Type> {
    match ty.float_pair()? {
        FloatPair::F16x2 => Some(Type::F16),
        FloatPair::Bf16x2 => Some(Type::Bf16),
        FloatPair::E4m3x2 | FloatPair::E5m2x2 => None,
    }
}

/// An instruction with one source; `None` if there is none of that type.
pub(crate) fn unary(op: UnaryOp, ty: Type) -> Option<Unary> {
    match ty.float()? {
        // Of a NaN too, only the sign changes.
        Float::F32 if op == UnaryOp::Neg => Some(lanewise!(|a| a ^ 0x8000_0000)),
        Float::F32 if op == UnaryOp::Abs => Some(lanewise!(|a| a & 0x7fff_ffff)),
        Float::F16 => unary_of::<F16>(op),
        Float::Bf16 if op == UnaryOp::Ex2 => flushing_unary_of::<Bf16>(op),
        Float::Bf16 => unary_of::<Bf16>(op),
        Float::F32 => flushing_unary_of::<F32>(op).or_else(|| unary_of::<F32>(op)),
        Float::F64 => unary_of::<F64>(op),
        Float::Tf32 => None,
    }
}

/// An instruction with two sources.
pub(crate) fn binary(op: BinaryOp, ty: Type) -> Option<Binary> {
    match ty.float()? {
        Float::F16 => binary_of::<F16>(op),
        Float::Bf16 => binary_of::<Bf16>(op),
        Float::F32 => binary_of::<F32>(op),
        Float::F64 => binary_of::<F64>(op),
        Float::Tf32 => None,
    }
}

fn fma_of<T: Format>(a: u64, b: u64, c: u64) -> u64 {
    T::bits(fused(T::of(a), T::of(b), T::of(c)))
}

/// `a * b + c`, rounded once.
pub(crate) fn fma(ty: Type) -> Option<Ternary> {
    Some(match ty.float()? {
        Float::F16 => lanewise!(|a, b, c| fma_of::<F16>(a, b, c)),
        Float::Bf16 => lanewise!(|a, b, c| fma_of::<Bf16>(a, b, c)),
        Float::F32 => lanewise!(|a, b, c| {
            let [a, b, c] = [a, b, c].map(|x| f32::from_bits(x as u32));
            let d = a.mul_add(b, c);
            u64::from(if d.is_nan() { 0x7fff_ffff } else { d.to_bits() })
        }),
        Float::F64 => lanewise!(|a, b, c| {
            let [a, b, c] = [a, b, c].map(f64::from_bits);
            F64::bits(a.mul_add(b, c))
        }),
        Float::Tf32 => return None,
    })
}

/// `fma` for floats, nothing else.
pub(crate) fn ternary(op: TernaryOp, ty: Type) -> Option<Ternary> {
    use TernaryOp::{Bfe, Fma, Mad, MadHi, MadWide, Prmt, ShfL, ShfR};
    match op {
        Fma => fma(ty),
        Mad | MadHi | MadWide | Prmt | ShfL | ShfR | Bfe => None,
    }
}

/// Whether two numbers cannot be compared.
fn apart<T: Format>(a: u64, b: u64) -> bool {
    T::of(a).is_nan() || T::of(b).is_nan()
}

fn compare_of<T: Format>(cmp: Compare) -> Comparison {
    match cmp {
        Compare::Eq => comparison!(|a, b| T::of(a) == T::of(b)),
        Compare::Ne => comparison!(|a, b| T::of(a) < T::of(b) || T::of(a) > T::of(b)),
        Compare::Lt => comparison!(|a, b| T::of(a) < T::of(b)),
        Compare::Le => comparison!(|a, b| T::of(a) <= T::of(b)),
        Compare::Gt => comparison!(|a, b| T::of(a) > T::of(b)),
        Compare::Ge => comparison!(|a, b| T::of(a) >= T::of(b)),
        Compare::Equ => comparison!(|a, b| T::of(a) == T::of(b) || apart::<T>(a, b)),
        Compare::Neu => comparison!(|a, b| T::of(a) != T::of(b)),
        Compare::Ltu => comparison!(|a, b| T::of(a) < T::of(b) || apart::<T>(a, b)),
        Compare::Gtu => comparison!(|a, b| T::of(a) > T::of(b) || apart::<T>(a, b)),
        Compare::Nan => comparison!(|a, b| apart::<T>(a, b)),
    }
}

/// A comparison.
pub(crate) fn compare(cmp: Compare, ty: Type) -> Option<Comparison> {
    Some(match ty.float()? {
        Float::F16 => compare_of::<F16>(cmp),
        Float::Bf16 => compare_of::<Bf16>(cmp),
        Float::F32 => compare_of::<F32>(cmp),
        Float::F64 => compare_of::<F64>(cmp),
        Float::Tf32 => return None,
    })
}

/// The bits of a constant in an instruction's type.
pub(crate) fn constant(ty: Type, x: f64) -> u64 {
    match (ty.float(), ty.float_pair()) {
        (Some(Float::F64), _) => x.to_bits(),
        (Some(Float::F16), _) => F16::bits(x),
        (Some(Float::Bf16), _) => Bf16::bits(x),
        (_, Some(FloatPair::F16x2)) => F16::bits(x) * 0x1_0001,
        (_, Some(FloatPair::Bf16x2)) => Bf16::bits(x) * 0x1_0001,
        (Some(Float::F32 | Float::Tf32), _)
        | (_, Some(FloatPair::E4m3x2 | FloatPair::E5m2x2))
        | (None, None) => u64::from((x as f32).to_bits()),
    }
}
