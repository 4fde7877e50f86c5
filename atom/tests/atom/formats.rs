//! The number formats, against the `half` crate, Rust's own conversions, and the tables of their standards.

use colex_atom::{FloatFormat, Rounding, Ty, Value};

/// A stream of 64-bit words (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

fn same(x: f64, y: f64) -> bool {
    x.is_nan() && y.is_nan() || x.to_bits() == y.to_bits()
}

/// Each number of a format, the middles between neighbours, and what lies just beside those.
fn interesting(format: FloatFormat, patterns: u64) -> impl Iterator<Item = f32> {
    (0..patterns).flat_map(move |bits| {
        let x = format.decode(bits) as f32;
        let next = format.decode(bits + 1) as f32;
        let middle = if next.is_finite() {
            x + (next - x) / 2.0
        } else {
            x * 1.0625
        };
        [
            x,
            -x,
            middle,
            middle.next_up(),
            middle.next_down(),
            -middle,
            x * 1e-3,
            x * 3.0,
        ]
    })
}

#[test]
fn half_decodes_the_same() {
    for bits in 0..=u16::MAX {
        let (f16, bf16) = (half::f16::from_bits(bits), half::bf16::from_bits(bits));
        assert!(
            same(FloatFormat::F16.decode(bits.into()), f16.to_f64()),
            "f16 {bits:#06x}"
        );
        assert!(
            same(FloatFormat::BF16.decode(bits.into()), bf16.to_f64()),
            "bf16 {bits:#06x}"
        );
    }
    println!("law format.decode: {} cases", 2 * 65536);
}

/// From `f32`, since `half` 2.7 loses low bits when it converts from `f64`: it rounds
/// `2^-25 + 2^-77` to zero, not to `2^-24`.
#[test]
fn half_encodes_the_same() {
    let mut cases = 0;
    for x in interesting(FloatFormat::F16, 0x7c00).filter(|x| !x.is_nan()) {
        let ours = FloatFormat::F16.encode(x.into(), Rounding::Nearest);
        assert_eq!(ours, u64::from(half::f16::from_f32(x).to_bits()), "{x:e}");
        cases += 1;
    }
    for x in interesting(FloatFormat::BF16, 0x7f80).filter(|x| !x.is_nan()) {
        let ours = FloatFormat::BF16.encode(x.into(), Rounding::Nearest);
        assert_eq!(ours, u64::from(half::bf16::from_f32(x).to_bits()), "{x:e}");
        cases += 1;
    }
    println!("law format.encode: {cases} cases");
}

#[test]
fn rust_converts_the_same() {
    let mut random = Random(7);
    let mut cases = 0;
    for _ in 0..200_000 {
        let bits = random.next();
        let wild = f64::from_bits(bits);
        let tame =
            f32::from_bits(bits as u32) as f64 * (1.0 + f64::from(bits as u8) * 2f64.powi(-33));
        for x in [wild, tame] {
            let ours = FloatFormat::F32.encode(x, Rounding::Nearest) as u32;
            let rust = x as f32;
            assert!(
                rust.is_nan() && x.is_nan() || ours == rust.to_bits(),
                "{x:e}"
            );
            assert!(
                same(
                    FloatFormat::F64.decode(FloatFormat::F64.encode(x, Rounding::Zero)),
                    x
                ),
                "{x:e}"
            );
            cases += 1;
        }
        let single = f32::from_bits(bits as u32);
        assert!(
            same(
                FloatFormat::F32.decode(u64::from(bits as u32)),
                single.into()
            ),
            "{single:e}"
        );
    }
    println!("law format.f32_f64: {cases} cases");
}

/// Decoding what was encoded gives it back; towards zero gives the neighbour below in magnitude.
#[test]
fn every_format_keeps_its_numbers() {
    let mut cases = 0;
    for ty in Ty::ALL {
        let Some(format) = FloatFormat::of(ty) else {
            continue;
        };
        let patterns = 1 << (format.exponent_bits + format.fraction_bits).min(16);
        for bits in 0..patterns {
            let bits = bits << format.unused_bits;
            let x = format.decode(bits);
            if x.is_nan() {
                assert_eq!(
                    format.encode(x, Rounding::Nearest),
                    format.nan().unwrap(),
                    "{ty}"
                );
                continue;
            }
            for rounding in [Rounding::Nearest, Rounding::Zero] {
                assert_eq!(format.encode(x, rounding), bits, "{ty} {bits:#x} = {x:e}");
            }
            if x.is_finite() && x > 0.0 {
                let below = format.round(x.next_down(), Rounding::Zero);
                assert_eq!(
                    format.encode(below, Rounding::Zero),
                    bits - (1 << format.unused_bits),
                    "{ty} {bits:#x}"
                );
            }
            cases += 1;
        }
    }
    println!("law format.round_trip: {cases} cases");
}

/// OCP OFP8 rev. 1.0, table 1 and 2; OCP MX rev. 1.0, tables 2 to 4.
#[test]
fn the_small_formats_have_their_standards_limits() {
    let limits = [
        (FloatFormat::E4M3, 448.0, 2f64.powi(-9)),
        (FloatFormat::E5M2, 57344.0, 2f64.powi(-16)),
        (FloatFormat::E3M2, 28.0, 2f64.powi(-4)),
        (FloatFormat::E2M3, 7.5, 2f64.powi(-3)),
        (FloatFormat::E2M1, 6.0, 0.5),
    ];
    for (format, max, smallest) in limits {
        assert_eq!(format.max(), max);
        assert_eq!(format.decode(1), smallest);
        assert_eq!(format.ulp(0.0), smallest);
        assert_eq!(
            format.decode(format.encode_saturating(1e30, Rounding::Nearest)),
            max
        );
        assert_eq!(
            format.decode(format.encode_saturating(-1e30, Rounding::Nearest)),
            -max
        );
    }
    assert!(FloatFormat::E4M3.decode(0x7f).is_nan() && FloatFormat::E4M3.decode(0xff).is_nan());
    assert_eq!(FloatFormat::E4M3.encode(465.0, Rounding::Nearest), 0x7f);
    assert_eq!(FloatFormat::E4M3.encode(463.0, Rounding::Nearest), 0x7e);
    assert_eq!(FloatFormat::E5M2.decode(0x7c), f64::INFINITY);
    assert_eq!(FloatFormat::E5M2.encode(61440.0, Rounding::Nearest), 0x7c);
    assert_eq!(FloatFormat::E5M2.encode(61440.0, Rounding::Zero), 0x7b);
    assert_eq!(FloatFormat::E2M1.encode(f64::NAN, Rounding::Nearest), 0);
}

/// The tensor core does not read the low 13 bits of a `tf32` operand.
#[test]
fn tf32_ignores_its_low_bits() {
    let pi = std::f32::consts::PI.to_bits();
    assert_eq!(Value::decode(Ty::Tf32, &[pi.into()]), Value::Real(3.140625));
    assert_eq!(
        Value::Real(std::f64::consts::PI).encode(Ty::Tf32)[0],
        0x4049_0000
    );
    assert_eq!(Value::decode(Ty::Tf32, &[0x3f80_1fff]), Value::Real(1.0));
}

/// Both ends of every integer type, and the numbers beside zero, are read as themselves and written back.
#[test]
fn law_integers_are_read_as_their_numbers() {
    let mut cases = 0;
    for ty in Ty::ALL.into_iter().filter(|ty| ty.is_integer()) {
        let bits = ty.bits();
        let is_signed = matches!(ty, Ty::S64 | Ty::S32 | Ty::S16 | Ty::S8 | Ty::S4);
        let (least, greatest) = if is_signed {
            (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
        } else {
            (0, (1_i128 << bits) - 1)
        };
        for number in [
            least,
            least + 1,
            0,
            1,
            greatest / 2,
            greatest / 2 + 1,
            greatest,
        ] {
            let pattern = (number as u64) & (u64::MAX >> (64 - bits));
            let value = Value::decode(ty, &[pattern]);
            assert_eq!(value.real(), number as f64, "{number} of {ty}");
            assert_eq!(value.to_string(), number.to_string(), "{number} of {ty}");
            assert_eq!(i128::from(value.int()), number.min(i64::MAX.into()));
            assert_eq!(value.encode(ty), [pattern, 0, 0], "{number} of {ty}");
            cases += 1;
        }
        // The greatest power of two of the type, as a real.
        let power = (greatest as u128 + 1) >> 1;
        assert_eq!(
            Value::Real(power as f64).encode(ty)[0],
            u64::try_from(power).unwrap(),
            "{ty}"
        );
    }
    println!("law number.integers: {cases} cases");
}
