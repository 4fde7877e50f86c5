//! Binary floating-point formats: bits to numbers and back, rounded once.

/// What the top exponent means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Specials {
    /// Infinity and NaNs, as in IEEE 754.
    Ieee,
    /// All ones (exponent and fraction) is NaN; everything else is a number.
    NanOnly,
    /// Every pattern is a number.
    None,
}

/// How a number between two representable ones is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest, ties to the even one (`.rn`).
    Nearest,
    /// Towards zero (`.rz`): what a datapath does that drops low bits.
    Zero,
}

/// A binary floating-point format of at most 64 bits.
///
/// Sign, exponent and fraction, from the top; the exponent's bias is `2^(exponent_bits-1) - 1`;
/// the lowest exponent holds the subnormal numbers. Some formats leave low bits of their word unused.
///
/// ```
/// use colex_atom::{FloatFormat, Rounding};
///
/// assert_eq!(FloatFormat::E4M3.decode(0x7e), 448.0);
/// assert_eq!(FloatFormat::F16.encode(1.0 / 3.0, Rounding::Nearest), 0x3555);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatFormat {
    /// Width of the exponent field.
    pub exponent_bits: u32,
    /// Width of the fraction field.
    pub fraction_bits: u32,
    /// Unused bits below the fraction: ignored when read, zero when written.
    pub unused_bits: u32,
    specials: Specials,
}

impl FloatFormat {
    /// IEEE binary64.
    pub const F64: Self = Self::ieee(11, 52, 0);
    /// IEEE binary32.
    pub const F32: Self = Self::ieee(8, 23, 0);
    /// A binary32 whose low 13 bits the tensor core does not read.
    pub const TF32: Self = Self::ieee(8, 10, 13);
    /// IEEE binary16.
    pub const F16: Self = Self::ieee(5, 10, 0);
    /// The upper half of a binary32.
    pub const BF16: Self = Self::ieee(8, 7, 0);
    /// OCP OFP8 E4M3, largest number 448.
    pub const E4M3: Self = Self {
        specials: Specials::NanOnly,
        ..Self::ieee(4, 3, 0)
    };
    /// OCP OFP8 E5M2, largest number 57344.
    pub const E5M2: Self = Self::ieee(5, 2, 0);
    /// OCP MX E3M2, largest number 28.
    pub const E3M2: Self = Self {
        specials: Specials::None,
        ..Self::ieee(3, 2, 0)
    };
    /// OCP MX E2M3, largest number 7.5.
    pub const E2M3: Self = Self {
        specials: Specials::None,
        ..Self::ieee(2, 3, 0)
    };
    /// OCP MX E2M1, largest number 6.
    pub const E2M1: Self = Self {
        specials: Specials::None,
        ..Self::ieee(2, 1, 0)
    };

    /// A binary32 with 13 bits of fraction: how Hopper sums 8-bit floats.
    pub(crate) const SUM_FP8: Self = Self::ieee(8, 13, 0);

    const fn ieee(exponent_bits: u32, fraction_bits: u32, unused_bits: u32) -> Self {
        Self {
            exponent_bits,
            fraction_bits,
            unused_bits,
            specials: Specials::Ieee,
        }
    }

    /// Returns the exponent of the smallest normal number.
    pub const fn min_exponent(self) -> i32 {
        2 - (1 << (self.exponent_bits - 1))
    }

    const fn top_exponent(self) -> u64 {
        (1 << self.exponent_bits) - 1
    }

    const fn fraction_mask(self) -> u64 {
        (1 << self.fraction_bits) - 1
    }

    const fn sign_bit(self) -> u64 {
        1 << (self.exponent_bits + self.fraction_bits)
    }

    /// Returns the pattern of a quiet NaN: the canonical one of the tensor cores, all fraction bits set.
    pub const fn nan(self) -> Option<u64> {
        match self.specials {
            Specials::None => None,
            _ => Some((self.sign_bit() - 1) << self.unused_bits),
        }
    }

    /// Returns the largest finite number.
    pub fn max(self) -> f64 {
        let all = self.sign_bit() - 1;
        let bits = match self.specials {
            Specials::Ieee => all - self.fraction_mask() - 1,
            Specials::NanOnly => all - 1,
            Specials::None => all,
        };
        self.decode(bits << self.unused_bits)
    }

    /// Returns the number a pattern stands for; exact, since every format here fits in an `f64`.
    #[inline]
    pub fn decode(self, bits: u64) -> f64 {
        let bits = bits >> self.unused_bits;
        let sign = if bits & self.sign_bit() != 0 {
            -1.0
        } else {
            1.0
        };
        let fraction = bits & self.fraction_mask();
        let exponent = (bits >> self.fraction_bits) & self.top_exponent();
        if exponent == self.top_exponent() && self.specials != Specials::None {
            match self.specials {
                Specials::Ieee if fraction == 0 => return sign * f64::INFINITY,
                Specials::NanOnly if fraction != self.fraction_mask() => {}
                _ => return f64::NAN,
            }
        }
        if exponent != 0 {
            // A normal number has the same fraction as an f64.
            let fraction = fraction << (52 - self.fraction_bits);
            let exponent = (exponent as i32 + self.bias_to_f64()) as u64;
            return sign * f64::from_bits(exponent << 52 | fraction);
        }
        let (significand, exponent) = match exponent {
            0 => (fraction, self.min_exponent()),
            e => (
                fraction | 1 << self.fraction_bits,
                e as i32 - 1 + self.min_exponent(),
            ),
        };
        sign * times_power_of_two(significand as f64, exponent - self.fraction_bits as i32)
    }

    /// Returns the pattern nearest to `x`, rounded once.
    ///
    /// Beyond the largest number [`Rounding::Nearest`] gives infinity, or NaN where there is none, or the
    /// largest number where there is neither; [`Rounding::Zero`] gives the largest number.
    #[inline]
    pub fn encode(self, x: f64, rounding: Rounding) -> u64 {
        let sign = if x.is_sign_negative() {
            self.sign_bit() << self.unused_bits
        } else {
            0
        };
        if x.is_nan() {
            return self.nan().unwrap_or(0);
        }
        let magnitude = if x.is_infinite() {
            self.overflow()
        } else {
            self.encode_finite(x.abs(), rounding)
        };
        sign | magnitude << self.unused_bits
    }

    /// Returns the same as [`encode`](Self::encode), but numbers beyond the largest become the largest (`.satfinite`).
    pub fn encode_saturating(self, x: f64, rounding: Rounding) -> u64 {
        self.encode(
            if x.is_nan() {
                x
            } else {
                x.clamp(-self.max(), self.max())
            },
            rounding,
        )
    }

    /// Returns the number nearest to `x` that the format has: `decode(encode(x))`.
    pub fn round(self, x: f64, rounding: Rounding) -> f64 {
        self.decode(self.encode(x, rounding))
    }

    /// Returns the distance between neighbouring numbers at the size of `x`.
    pub fn ulp(self, x: f64) -> f64 {
        let exponent = exponent_of(x.abs()).max(self.min_exponent());
        times_power_of_two(1.0, exponent - self.fraction_bits as i32)
    }

    /// What lies beyond the largest number, without the sign.
    fn overflow(self) -> u64 {
        match self.specials {
            Specials::Ieee => self.top_exponent() << self.fraction_bits,
            Specials::NanOnly | Specials::None => self.sign_bit() - 1,
        }
    }

    /// The difference between the exponent field of a normal number as an f64 and its own.
    fn bias_to_f64(self) -> i32 {
        1022 + self.min_exponent()
    }

    fn encode_finite(self, x: f64, rounding: Rounding) -> u64 {
        let bits = self.units(x, rounding);
        let first_too_large = match self.specials {
            Specials::Ieee => self.top_exponent() << self.fraction_bits,
            Specials::NanOnly => self.sign_bit() - 1,
            Specials::None => self.sign_bit(),
        };
        match rounding {
            _ if bits < first_too_large => bits,
            Rounding::Zero => first_too_large - 1,
            Rounding::Nearest => self.overflow(),
        }
    }

    /// The rounded pattern of a number that is not negative, as if there were no largest one.
    fn units(self, x: f64, rounding: Rounding) -> u64 {
        let bias = self.bias_to_f64();
        let cut = 52 - self.fraction_bits;
        let bits = x.to_bits();
        // A normal number of the format: the bits of the fraction that it does not have are rounded off, and a carry out
        // of the fraction walks into the exponent field, as it should.
        if cut > 0 && (bits >> 52) as i32 > bias {
            let rounded = match rounding {
                Rounding::Nearest => bits + ((1 << (cut - 1)) - 1) + (bits >> cut & 1),
                Rounding::Zero => bits,
            };
            return (rounded >> cut) - ((bias as u64) << self.fraction_bits);
        }
        let exponent = exponent_of(x).max(self.min_exponent());
        // In units of the last place: exact, or (below the smallest subnormal) correct as a fraction.
        let units = times_power_of_two(x, self.fraction_bits as i32 - exponent);
        let units = match rounding {
            Rounding::Nearest => units.round_ties_even(),
            Rounding::Zero => units.trunc(),
        };
        (((exponent - self.min_exponent()) as u64) << self.fraction_bits) + units as u64
    }
}

/// `floor(log2(x))` of a positive finite number; the lowest `i32` stands in for zero's.
pub(crate) fn exponent_of(x: f64) -> i32 {
    if x == 0.0 {
        return i32::MIN;
    }
    let bits = x.to_bits();
    match (bits >> 52) & 0x7ff {
        0 => 63 - (bits & ((1 << 52) - 1)).leading_zeros() as i32 - 1074,
        e => e as i32 - 1023,
    }
}

/// `x * 2^n`, in steps that cannot overflow on the way to a representable result.
pub(crate) fn times_power_of_two(x: f64, n: i32) -> f64 {
    let power = |n: i32| f64::from_bits(((n + 1023) as u64) << 52);
    match n {
        -1022..=1023 => x * power(n),
        n if n < 0 => x * power(-1022) * power((n + 1022).max(-1022)),
        n => x * power(1023) * power((n - 1023).min(1023)),
    }
}
