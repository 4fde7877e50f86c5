//! `cvt` on one lane.

use colex_atom::{FloatFormat, Rounding as To};

use colex_ir::{Float, FloatPair, Rounding, Type};

/// The format of a scalar float.
fn format(ty: Type) -> Option<FloatFormat> {
    ty.float().map(Float::format)
}

/// The integer that bits of a type spell.
fn integer(ty: Type, bits: u64) -> i128 {
    if ty.is_signed() {
        i128::from(extended(ty, bits) as i64)
    } else {
        i128::from(extended(ty, bits))
    }
}

/// The low bits of an integer of a type, extended by its sign, if it has one, to 64 bits.
fn extended(ty: Type, bits: u64) -> u64 {
    let unused = 64 - ty.bits();
    if ty.is_signed() {
        ((bits << unused) as i64 >> unused) as u64
    } else {
        bits << unused >> unused
    }
}

/// The smallest and largest integer of a type.
fn range(ty: Type) -> (i128, i128) {
    if ty.is_signed() {
        (-(1 << (ty.bits() - 1)), (1 << (ty.bits() - 1)) - 1)
    } else {
        (0, (1 << ty.bits()) - 1)
    }
}

/// The rounding of `cvt`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cvt {
    pub(crate) to: Type,
    pub(crate) from: Type,
    pub(crate) rounding: Option<Rounding>,
    pub(crate) saturate: bool,
}

impl Cvt {
    /// The bits of the result, in the width of the destination register; `None` for a pair of types that `cvt` does
    /// not connect.
    pub(crate) fn apply(self, bits: u64, register_bits: u32) -> Option<u64> {
        if self.to.bits() > 64 || self.from.bits() > 64 {
            return None;
        }
        let mask = u64::MAX >> (64 - register_bits);
        Some(match (format(self.from), format(self.to)) {
            (Some(from), Some(to)) => self.float(from.decode(low(self.from, bits)), to),
            (Some(from), None) if !self.to.is_float() => {
                self.to_integer(from.decode(low(self.from, bits))) & mask
            }
            (None, Some(to)) if !self.from.is_float() => {
                self.of_integer(integer(self.from, bits), to)
            }
            (None, None) if !self.from.is_float() && !self.to.is_float() => {
                // A narrow result is extended by its sign to the width of the register.
                if !self.saturate {
                    return Some(extended(self.to, extended(self.from, bits)) & mask);
                }
                let (least, most) = range(self.to);
                let x = integer(self.from, bits).clamp(least, most);
                extended(self.to, x as u64) & mask
            }
            _ => return None,
        })
    }

    fn float(self, x: f64, to: FloatFormat) -> u64 {
        let x = match self.rounding {
            Some(Rounding::Rni) => x.round_ties_even(),
            Some(Rounding::Rzi) => x.trunc(),
            Some(Rounding::Rmi) => x.floor(),
            Some(Rounding::Rpi) => x.ceil(),
            _ => x,
        };
        let x = match (self.saturate, x.is_nan()) {
            (true, true) => 0.0,
            (true, false) => x.clamp(0.0, 1.0),
            (false, _) => x,
        };
        round(x, to, self.rounding)
    }

    fn to_integer(self, x: f64) -> u64 {
        let x = match self.rounding {
            Some(Rounding::Rni) => x.round_ties_even(),
            Some(Rounding::Rmi) => x.floor(),
            Some(Rounding::Rpi) => x.ceil(),
            _ => x.trunc(),
        };
        let (least, most) = range(self.to);
        // Beyond the range the nearest end. A NaN becomes 0; of a binary64 or in 64 bits it becomes the top bit alone
        // (PTX ISA 9.7.9, `cvt`), and in fewer than 32 bits the end of the range that is nearest to that of 32 (an H200).
        let y = match (x.is_nan(), self.from == Type::F64 || self.to.bits() == 64) {
            (true, true) if self.to.is_signed() => least,
            (true, true) => (1 << (self.to.bits().max(32) - 1)).min(most),
            (true, false) => 0,
            (false, _) => (x as i128).clamp(least, most),
        };
        y as u64
    }

    fn of_integer(self, x: i128, to: FloatFormat) -> u64 {
        // An integer of 64 bits may not fit a binary64: what is lost is kept as the last bit, so that it rounds once.
        let near = x as f64;
        let back = near as i128;
        let x = match (back == x, near.to_bits() & 1) {
            (true, _) => near,
            // The last bit of a binary64 has its place: towards zero, the number before the nearest if that is beyond.
            _ if to == FloatFormat::F64 => {
                let beyond = back.unsigned_abs() > x.unsigned_abs();
                let towards_zero = matches!(self.rounding, Some(Rounding::Rz));
                return near.to_bits() - u64::from(beyond && towards_zero);
            }
            (_, 1) => near,
            _ if (back < x) == (near > 0.0) => f64::from_bits(near.to_bits() + 1),
            _ => f64::from_bits(near.to_bits() - 1),
        };
        round(x, to, self.rounding)
    }
}

fn low(ty: Type, bits: u64) -> u64 {
    bits & (u64::MAX >> (64 - ty.bits()))
}

/// A number in a format, rounded as the conversion says.
fn round(x: f64, to: FloatFormat, rounding: Option<Rounding>) -> u64 {
    match rounding {
        Some(Rounding::Rz) => to.encode(x, To::Zero),
        Some(Rounding::Rna) => {
            let away = to.encode(x, To::Zero);
            let step = to.ulp(to.decode(away));
            if x.is_finite() && (x - to.decode(away)).abs() * 2.0 >= step {
                to.encode(to.decode(away) + step.copysign(x), To::Nearest)
            } else {
                to.encode(x, To::Nearest)
            }
        }
        _ => to.encode(x, To::Nearest),
    }
}

/// `cvt` of two binary32 into a pair, `lo` in the low half; `None` if there is none of that type.
pub(crate) fn pack(to: Type, relu: bool, hi: u64, lo: u64) -> Option<u64> {
    let pair = to.float_pair()?;
    let (format, bits) = (pair.format(), pair.half_bits());
    let one = |x: u64| {
        let x = f64::from(f32::from_bits(x as u32));
        let x = if relu && x < 0.0 { 0.0 } else { x };
        // Pairs of 8-bit floats exist with `.satfinite` only.
        match bits {
            8 => format.encode_saturating(x, To::Nearest),
            _ => format.encode(x, To::Nearest),
        }
    };
    Some(one(hi) << bits | one(lo))
}

/// `cvt` of a pair of 8-bit floats into a pair of halves.
pub(crate) fn widen_pair(from: Type, bits: u64) -> Option<u64> {
    let from = match from.float_pair()? {
        pair @ (FloatPair::E4m3x2 | FloatPair::E5m2x2) => pair.format(),
        FloatPair::F16x2 | FloatPair::Bf16x2 => return None,
    };
    let one = |x: u64| FloatFormat::F16.encode(from.decode(x & 0xff), To::Nearest);
    Some(one(bits >> 8) << 16 | one(bits))
}

/// `cvt` of a pair of halves into a pair of 8-bit floats, which exists with `.satfinite` only.
pub(crate) fn narrow_pair(to: Type, bits: u64) -> Option<u64> {
    let to = match to.float_pair()? {
        pair @ (FloatPair::E4m3x2 | FloatPair::E5m2x2) => pair.format(),
        FloatPair::F16x2 | FloatPair::Bf16x2 => return None,
    };
    let one = |x: u64| to.encode_saturating(FloatFormat::F16.decode(x & 0xffff), To::Nearest);
    Some(one(bits >> 16) << 8 | one(bits))
}
