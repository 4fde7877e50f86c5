//! Each floating-point instruction against a reference, over edge values and random ones.

use colex_atom::{FloatFormat, Rounding};
use colex_ir::{BinaryOp, Compare, Type, UnaryOp};
use half::{bf16, f16};

use super::arithmetic::{each, triples};
use super::helpers::Dice;

const FLOATS: [f64; 14] = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    3.0,
    0.1,
    65504.0,
    -65520.0,
    1e-8,
    3.0e38,
    -1e-40,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

/// Every pair of edge values with a third, and random ones, as the bits of a type.
fn float_triples(ty: Type) -> Vec<[u64; 3]> {
    let mut dice = Dice(9);
    let bits = |x: f64| match ty {
        Type::F64 => x.to_bits(),
        Type::F16 => u64::from(f16::from_f64(x).to_bits()),
        Type::Bf16 => u64::from(bf16::from_f64(x).to_bits()),
        _ => u64::from((x as f32).to_bits()),
    };
    let edges = FLOATS
        .iter()
        .flat_map(|a| FLOATS.iter().map(move |b| [*a, *b]));
    let edges = edges
        .enumerate()
        .map(|(i, [a, b])| [a, b, FLOATS[i % 13]].map(bits));
    let mask = u64::MAX >> (64 - ty.bits());
    let random = (0..600).map(|_| [0; 3].map(|_| dice.next() & mask));
    edges.chain(random).collect()
}

/// The bits of a result, any NaN as one.
fn canonical(ty: Type, bits: u64) -> u64 {
    let nan = match ty {
        Type::F64 => f64::from_bits(bits).is_nan(),
        Type::F16 => f16::from_bits(bits as u16).is_nan(),
        Type::Bf16 => bf16::from_bits(bits as u16).is_nan(),
        _ => f32::from_bits(bits as u32).is_nan(),
    };
    if nan { u64::MAX } else { bits }
}

/// A function of numbers in a type, rounded once: through binary64 for the narrow ones.
fn rounded(
    ty: Type,
    words: [u64; 3],
    f: impl Fn([f64; 3]) -> f64,
    g: impl Fn([f32; 3]) -> f32,
) -> u64 {
    let bits = match ty {
        Type::F64 => f(words.map(f64::from_bits)).to_bits(),
        Type::F16 => {
            let x = f(words.map(|x| f16::from_bits(x as u16).to_f64()));
            u64::from(f16::from_f64(x).to_bits())
        }
        Type::Bf16 => {
            let x = f(words.map(|x| bf16::from_bits(x as u16).to_f64()));
            u64::from(bf16::from_f64(x).to_bits())
        }
        _ => u64::from(g(words.map(|x| f32::from_bits(x as u32))).to_bits()),
    };
    canonical(ty, bits)
}

#[test]
fn floats_with_two_and_three_sources() {
    let mut cases = 0;
    for ty in [Type::F16, Type::Bf16, Type::F32, Type::F64] {
        let triples = float_triples(ty);
        for op in [
            BinaryOp::Add,
            BinaryOp::Sub,
            BinaryOp::Mul,
            BinaryOp::Min,
            BinaryOp::Max,
            BinaryOp::MinNan,
            BinaryOp::MaxNan,
            BinaryOp::Div,
        ] {
            let keeps_nan = matches!(op, BinaryOp::MinNan | BinaryOp::MaxNan);
            if op == BinaryOp::Div && ty.bits() == 16 || keeps_nan && ty == Type::F64 {
                continue;
            }
            let found = each(&triples, ty, |k, [a, b, _]| k.binary(op, ty, a, b));
            for (t, found) in triples.iter().zip(found) {
                let expected = match op {
                    BinaryOp::Add => rounded(ty, *t, |[a, b, _]| a + b, |[a, b, _]| a + b),
                    BinaryOp::Sub => rounded(ty, *t, |[a, b, _]| a - b, |[a, b, _]| a - b),
                    BinaryOp::Mul => rounded(ty, *t, |[a, b, _]| a * b, |[a, b, _]| a * b),
                    BinaryOp::Div => rounded(ty, *t, |[a, b, _]| a / b, |[a, b, _]| a / b),
                    BinaryOp::Min => rounded(
                        ty,
                        *t,
                        |[a, b, _]| lesser(a, b, false),
                        |[a, b, _]| lesser(a.into(), b.into(), false) as f32,
                    ),
                    BinaryOp::MinNan | BinaryOp::MaxNan => rounded(
                        ty,
                        *t,
                        |[a, b, _]| lesser_or_nan(a, b, op == BinaryOp::MaxNan),
                        |[a, b, _]| {
                            lesser_or_nan(a.into(), b.into(), op == BinaryOp::MaxNan) as f32
                        },
                    ),
                    _ => rounded(
                        ty,
                        *t,
                        |[a, b, _]| lesser(a, b, true),
                        |[a, b, _]| lesser(a.into(), b.into(), true) as f32,
                    ),
                };
                assert_eq!(canonical(ty, found), expected, "{op:?} {ty} of {t:x?}");
                cases += 1;
            }
        }
        let found = each(&triples, ty, |k, [a, b, c]| k.mad(ty, a, b, c));
        for (t, found) in triples.iter().zip(found) {
            let expected = match ty.bits() {
                // The exact sum, by integers: a product of halves has 22 bits, of bfloats 16.
                16 => canonical(ty, exact_fma(ty, *t)),
                _ => rounded(
                    ty,
                    *t,
                    |[a, b, c]| a.mul_add(b, c),
                    |[a, b, c]| a.mul_add(b, c),
                ),
            };
            assert_eq!(canonical(ty, found), expected, "fma {ty} of {t:x?}");
            cases += 1;
        }
    }
    println!("law sim.float_arithmetic: {cases} cases");
}

/// The smaller or larger, -0 before 0; a NaN if there is one.
fn lesser_or_nan(a: f64, b: f64, larger: bool) -> f64 {
    if a.is_nan() || b.is_nan() {
        return f64::NAN;
    }
    lesser(a, b, larger)
}

/// The smaller or larger, -0 before 0, a number before a NaN.
fn lesser(a: f64, b: f64, larger: bool) -> f64 {
    let (low, high) = match a.partial_cmp(&b) {
        None if a.is_nan() => (b, b),
        None => (a, a),
        Some(std::cmp::Ordering::Less) => (a, b),
        Some(std::cmp::Ordering::Greater) => (b, a),
        Some(std::cmp::Ordering::Equal) if a.is_sign_negative() => (a, b),
        Some(std::cmp::Ordering::Equal) => (b, a),
    };
    if larger { high } else { low }
}

/// `a * b + c` of 16-bit floats, through the exact dot product of the instructions' arithmetic.
fn exact_fma(ty: Type, [a, b, c]: [u64; 3]) -> u64 {
    let format = if ty == Type::F16 {
        FloatFormat::F16
    } else {
        FloatFormat::BF16
    };
    let [x, y, z] = [a, b, c].map(|bits| format.decode(bits));
    let product = x * y;
    let sum = product + z;
    if !sum.is_finite() {
        return format.encode(sum, Rounding::Nearest);
    }
    // What the sum lost decides a tie.
    let lost = if product.abs() >= z.abs() {
        z - (sum - product)
    } else {
        product - (sum - z)
    };
    let near = format.encode(sum, Rounding::Nearest);
    let back = format.decode(near);
    let tie = (sum - back).abs() * 2.0 == format.ulp(sum);
    if tie && lost != 0.0 && back.is_finite() {
        format.encode(
            sum + lost.signum() * format.ulp(sum) / 4.0,
            Rounding::Nearest,
        )
    } else {
        near
    }
}

#[test]
fn comparisons_of_every_kind() {
    let mut cases = 0;
    for ty in [Type::F16, Type::F32, Type::F64] {
        let triples = float_triples(ty);
        for &cmp in Compare::ALL {
            let found = each(&triples, ty, |k, [a, b, _]| k.setp(cmp, ty, a, b));
            for (t, found) in triples.iter().zip(found) {
                let [a, b, _] = t.map(|bits| match ty {
                    Type::F64 => f64::from_bits(bits),
                    Type::F16 => f16::from_bits(bits as u16).to_f64(),
                    _ => f64::from(f32::from_bits(bits as u32)),
                });
                let order = a.partial_cmp(&b);
                let is = |wanted: &[std::cmp::Ordering]| order.is_some_and(|o| wanted.contains(&o));
                use std::cmp::Ordering::{Equal, Greater, Less};
                let expected = match cmp {
                    Compare::Eq => is(&[Equal]),
                    Compare::Ne => is(&[Less, Greater]),
                    Compare::Lt => is(&[Less]),
                    Compare::Le => is(&[Less, Equal]),
                    Compare::Gt => is(&[Greater]),
                    Compare::Ge => is(&[Greater, Equal]),
                    Compare::Equ => !is(&[Less, Greater]),
                    Compare::Neu => !is(&[Equal]),
                    Compare::Ltu => !is(&[Greater, Equal]),
                    Compare::Gtu => !is(&[Less, Equal]),
                    Compare::Nan => order.is_none(),
                };
                assert_eq!(found, u64::from(expected), "{cmp:?} {ty} of {a} and {b}");
                cases += 1;
            }
        }
    }
    println!("law sim.compare: {cases} cases");
}

#[test]
fn conversions_round_once() {
    let mut cases = 0;
    let narrow = |x: f64, ty: Type| match ty {
        Type::F16 => u64::from(f16::from_f64(x).to_bits()),
        Type::Bf16 => u64::from(bf16::from_f64(x).to_bits()),
        Type::F32 => u64::from((x as f32).to_bits()),
        _ => x.to_bits(),
    };
    let floats = [Type::F16, Type::Bf16, Type::F32, Type::F64];
    for from in floats {
        let triples = float_triples(from);
        let number = |bits: u64| match from {
            Type::F64 => f64::from_bits(bits),
            Type::F16 => f16::from_bits(bits as u16).to_f64(),
            Type::Bf16 => bf16::from_bits(bits as u16).to_f64(),
            _ => f64::from(f32::from_bits(bits as u32)),
        };
        for to in floats.into_iter().filter(|to| *to != from) {
            let found = each(&triples, from, |k, [a, ..]| k.cvt(to, from, a));
            for (t, found) in triples.iter().zip(found) {
                let expected = canonical(to, narrow(number(t[0]), to));
                assert_eq!(
                    canonical(to, found),
                    expected,
                    "{from} to {to}: {:#x}",
                    t[0]
                );
                cases += 1;
            }
        }
        for to in [Type::S32, Type::U32, Type::S64, Type::U64] {
            let found = each(&triples, from, |k, [a, ..]| k.cvt(to, from, a));
            for (t, found) in triples.iter().zip(found) {
                let x = number(t[0]);
                let expected = match to {
                    // An H200 does so.
                    _ if x.is_nan() && to.bits() == 64 => 1 << 63,
                    _ if x.is_nan() && from == Type::F64 => 1 << 31,
                    Type::S32 => u64::from(x as i32 as u32),
                    Type::U32 => u64::from(x as u32),
                    Type::S64 => x as i64 as u64,
                    _ => x as u64,
                };
                assert_eq!(found, expected, "{from} to {to}: {x}");
                cases += 1;
            }
        }
    }
    let triples = triples();
    for from in [Type::S32, Type::U32, Type::S64, Type::U64] {
        let found = each(&triples, from, |k, [a, ..]| k.cvt(Type::F32, from, a));
        for (t, found) in triples.iter().zip(found) {
            let expected = match from {
                Type::S32 => t[0] as i32 as f32,
                Type::U32 => t[0] as u32 as f32,
                Type::S64 => t[0] as i64 as f32,
                _ => t[0] as f32,
            };
            assert_eq!(
                found,
                u64::from(expected.to_bits()),
                "{from} to f32: {:#x}",
                t[0]
            );
            cases += 1;
        }
    }
    println!("law sim.convert: {cases} cases");
}

/// Integers of 64 bits become the nearest binary64, or with `.rz` the nearest one that is no farther from zero.
#[test]
fn law_integers_become_binary64_with_both_roundings() {
    let near = |bits: i64| [bits - 1, bits, bits + 1, bits + 2, bits + 3, bits + 5];
    let edges = [
        0,
        1 << 53,
        (1 << 62) + 1,
        i64::MAX - 5,
        i64::MIN + 1,
        -(1 << 53) - 3,
    ];
    let mut triples = super::arithmetic::triples();
    triples.extend(edges.into_iter().flat_map(near).map(|x| [x as u64, 0, 0]));
    let mut cases = 0;
    for from in [Type::U64, Type::S64] {
        for rounding in [colex_ir::Rounding::Rn, colex_ir::Rounding::Rz] {
            let found = each(&triples, from, |k, [a, ..]| {
                let d = k.reg(colex_ir::RegType::F64);
                k.cvt_to(d, Type::F64, from, rounding, a);
                d
            });
            for (t, found) in triples.iter().zip(found) {
                let x = match from {
                    Type::S64 => i128::from(t[0] as i64),
                    _ => i128::from(t[0]),
                };
                let y = f64::from_bits(found);
                let distance = |y: f64| (y as i128 - x).abs();
                let neighbours =
                    [y.to_bits() - u64::from(y != 0.0), y.to_bits() + 1].map(f64::from_bits);
                let is_right = match rounding {
                    colex_ir::Rounding::Rz => {
                        let beyond = neighbours[1] as i128;
                        (y as i128).abs() <= x.abs()
                            && (beyond.abs() > x.abs() || beyond == y as i128)
                    }
                    _ => neighbours
                        .iter()
                        .all(|other| distance(*other) >= distance(y)),
                };
                assert!(is_right, "{rounding:?} of {x}: {y:e}");
                cases += 1;
            }
        }
    }
    println!("law sim.integers_to_binary64: {cases} cases");
}

/// `.ftz` takes a subnormal for zero of its sign, and gives zero for one.
#[test]
fn law_approximations_flush_subnormals() {
    let subnormal = f32::from_bits(0x0040_0000);
    let infinity = f32::INFINITY;
    let rows = [
        (UnaryOp::Rcp, subnormal, infinity),
        (UnaryOp::Rcp, -subnormal, -infinity),
        (UnaryOp::Rcp, 1.5 * 2f32.powi(127), 0.0),
        (UnaryOp::Rcp, -1.5 * 2f32.powi(127), -0.0),
        (UnaryOp::Rcp, 4.0, 0.25),
        (UnaryOp::Rcp, f32::MIN_POSITIVE, 2f32.powi(126)),
        (UnaryOp::Rsqrt, subnormal, infinity),
        (UnaryOp::Rsqrt, -subnormal, -infinity),
        (UnaryOp::Rsqrt, 4.0, 0.5),
        (UnaryOp::Lg2, subnormal, -infinity),
        (UnaryOp::Lg2, 8.0, 3.0),
        (UnaryOp::Ex2, -127.0, 0.0),
        (UnaryOp::Ex2, -126.0, f32::MIN_POSITIVE),
        (UnaryOp::Ex2, subnormal, 1.0),
        (UnaryOp::Sin, -subnormal, -0.0),
        (UnaryOp::Cos, subnormal, 1.0),
        // It has no `.ftz`.
        (
            UnaryOp::Sqrt,
            f32::from_bits(1 << 20),
            f32::from_bits(1 << 20).sqrt(),
        ),
    ];
    for (op, x, expected) in rows {
        let bits = [[u64::from(x.to_bits()), 0, 0]; 32];
        let found = each(&bits, Type::F32, |k, [a, ..]| k.unary(op, Type::F32, a));
        assert_eq!(found[0], u64::from(expected.to_bits()), "{op:?} of {x:e}");
    }
    for (x, expected) in [(-127.0, 0.0), (-126.0, f32::MIN_POSITIVE), (3.0, 8.0)] {
        let bits = [[u64::from(bf16::from_f32(x).to_bits()), 0, 0]; 32];
        let found = each(&bits, Type::Bf16, |k, [a, ..]| {
            k.unary(UnaryOp::Ex2, Type::Bf16, a)
        });
        assert_eq!(
            found[0],
            u64::from(bf16::from_f32(expected).to_bits()),
            "ex2 of {x}"
        );
    }
}

/// A pair of halves becomes a pair of 8-bit floats, each rounded to the nearest and no larger than the largest.
#[test]
fn law_pairs_of_halves_become_pairs_of_8_bits() {
    let mut dice = Dice(3);
    let edges = [
        0, 0x8000, 0x3c00, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 1, 0x5f00, 0x5f40, 0x7b00,
    ];
    let mut pairs: Vec<u64> = edges
        .iter()
        .flat_map(|a| edges.iter().map(move |b| a << 16 | b))
        .collect();
    pairs.extend((0..400).map(|_| dice.next() & 0xffff_ffff));
    let triples: Vec<[u64; 3]> = pairs.iter().map(|x| [*x, 0, 0]).collect();
    for (to, format) in [
        (Type::E4m3x2, FloatFormat::E4M3),
        (Type::E5m2x2, FloatFormat::E5M2),
    ] {
        let found = each(&triples, Type::B32, |k, [a, ..]| k.cvt(to, Type::F16x2, a));
        for (pair, found) in pairs.iter().zip(found) {
            let one = |half: u64| {
                let x = f16::from_bits(half as u16).to_f64();
                format.encode_saturating(x, Rounding::Nearest)
            };
            assert_eq!(
                found,
                one(pair >> 16) << 8 | one(pair & 0xffff),
                "{to} of {pair:#x}"
            );
        }
    }
}
