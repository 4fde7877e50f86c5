//! Each integer instruction against a reference, over edge values and random ones.

use colex_ir::launch::Launch;
use colex_ir::{BinaryOp, KernelBuilder, Operand, Reg, RegType, TernaryOp, Type, UnaryOp};

use super::helpers::*;

/// Runs `build` on each triple of 64-bit words; what it returns, as 64 bits.
pub(crate) fn each(
    triples: &[[u64; 3]],
    ty: Type,
    build: impl Fn(&mut KernelBuilder, [Reg; 3]) -> Reg,
) -> Vec<u64> {
    let mut k = kernel("each");
    let [input, output] = ["input", "output"].map(|name| k.pointer(name));
    let i = global_thread(&mut k);
    let from = element(&mut k, input, i, 24);
    let words = [0, 1, 2].map(|j| {
        let at = k.add(Type::S64, from, 8 * j);
        let word = k.load(global(Type::B64), at);
        narrow(&mut k, word, ty.register())
    });
    let d = build(&mut k, words);
    let wide = widen(&mut k, d);
    let to = element(&mut k, output, i, 8);
    k.store(global(Type::B64), to, wide);
    let kernel = k.finish();

    let mut host = Host::default();
    let mut padded = triples.to_vec();
    padded.resize(triples.len().next_multiple_of(32), [0, 1, 0]);
    let words: Vec<u32> = padded
        .iter()
        .flatten()
        .flat_map(|x| [*x as u32, (*x >> 32) as u32])
        .collect();
    host.words(&words);
    let out = host.empty(padded.len() as u64 * 8);
    let blocks = padded.len() as u32 / 32;
    host.run(&kernel, Launch::new(blocks, 32)).unwrap();
    let found = host.read(out, triples.len() * 2);
    found
        .chunks(2)
        .map(|w| u64::from(w[0]) | u64::from(w[1]) << 32)
        .collect()
}

/// The low bits of a 64-bit register, in another class.
fn narrow(k: &mut KernelBuilder, word: Reg, ty: RegType) -> Reg {
    match ty {
        RegType::B64 => word,
        RegType::F64 => {
            let d = k.reg(RegType::F64);
            k.mov_to(d, word);
            d
        }
        ty if ty.bits() == 32 => {
            let d = k.unpack(RegType::B32, word)[0];
            let e = k.reg(ty);
            k.mov_to(e, d);
            e
        }
        _ => k.unpack(RegType::B16, word)[0],
    }
}

/// Any register as 64 bits.
fn widen(k: &mut KernelBuilder, d: Reg) -> Reg {
    let wide = k.reg(RegType::B64);
    match d.ty {
        RegType::Pred => {
            let one = k.selp(Type::U64, Operand::Int(1), Operand::Int(0), d);
            return one;
        }
        _ => k.mov_to(wide, d),
    }
    wide
}

const EDGES: [u64; 12] = [
    0,
    1,
    2,
    31,
    32,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];

/// Every pair of edges with each third edge in turn, and random triples.
pub(crate) fn triples() -> Vec<[u64; 3]> {
    let mut dice = Dice(5);
    let edges = EDGES
        .iter()
        .flat_map(|a| EDGES.iter().map(move |b| [*a, *b]));
    let edges = edges.enumerate().map(|(i, [a, b])| [a, b, EDGES[i % 12]]);
    let random = (0..400).map(|_| [dice.next(), dice.next(), dice.next()]);
    edges.chain(random).collect()
}

const INTEGERS: [Type; 6] = [
    Type::U16,
    Type::S16,
    Type::U32,
    Type::S32,
    Type::U64,
    Type::S64,
];

/// The number that the low bits spell.
fn number(ty: Type, x: u64) -> i128 {
    let unused = 64 - ty.bits();
    if ty.is_signed() {
        i128::from((x << unused) as i64 >> unused)
    } else {
        i128::from(x << unused >> unused)
    }
}

fn bits(ty: Type, x: i128) -> u64 {
    x as u64 & (u64::MAX >> (64 - ty.bits()))
}

#[test]
fn integers_with_two_sources() {
    let triples = triples();
    let mut cases = 0;
    for ty in INTEGERS {
        let width = ty.bits();
        for &op in BinaryOp::ALL {
            let is_of_floats = matches!(op, BinaryOp::MinNan | BinaryOp::MaxNan);
            if op == BinaryOp::MulWide && width == 64 || is_of_floats {
                continue;
            }
            let found = each(&triples, ty, |k, [a, b, _]| match op {
                BinaryOp::Shl | BinaryOp::Shr => k.binary(op, ty, a, 3),
                _ => k.binary(op, ty, a, b),
            });
            for (t, found) in triples.iter().zip(found) {
                let (a, b) = (number(ty, t[0]), number(ty, t[1]));
                let expected = match op {
                    BinaryOp::Add => bits(ty, a + b),
                    BinaryOp::Sub => bits(ty, a - b),
                    BinaryOp::Mul => bits(ty, a.wrapping_mul(b)),
                    BinaryOp::MulHi if ty == Type::U64 => ((a as u128 * b as u128) >> 64) as u64,
                    BinaryOp::MulHi => bits(ty, (a * b) >> width),
                    BinaryOp::MulWide => (a * b) as u64 & (u64::MAX >> (64 - 2 * width)),
                    BinaryOp::Div if b == 0 => bits(ty, -1),
                    BinaryOp::Rem if b == 0 => bits(ty, a),
                    BinaryOp::Div => bits(ty, a / b),
                    BinaryOp::Rem => bits(ty, a % b),
                    BinaryOp::Min => bits(ty, a.min(b)),
                    BinaryOp::Max => bits(ty, a.max(b)),
                    BinaryOp::MinNan | BinaryOp::MaxNan => unreachable!("of floats alone"),
                    BinaryOp::And => bits(ty, a & b),
                    BinaryOp::Or => bits(ty, a | b),
                    BinaryOp::Xor => bits(ty, a ^ b),
                    BinaryOp::Shl => bits(ty, a << 3),
                    BinaryOp::Shr => bits(ty, a >> 3),
                };
                assert_eq!(found, expected, "{op:?} {ty} of {a} and {b}");
                cases += 1;
            }
        }
    }
    println!("law sim.integer_binary: {cases} cases");
}

#[test]
fn integers_with_one_and_three_sources() {
    let triples = triples();
    let mut cases = 0;
    for ty in INTEGERS {
        let width = ty.bits();
        for op in [
            UnaryOp::Neg,
            UnaryOp::Abs,
            UnaryOp::Not,
            UnaryOp::Popc,
            UnaryOp::Clz,
            UnaryOp::Brev,
            UnaryOp::Bfind,
        ] {
            let found = each(&triples, ty, |k, [a, ..]| k.unary(op, ty, a));
            for (t, found) in triples.iter().zip(found) {
                let (a, word) = (number(ty, t[0]), bits(ty, number(ty, t[0])));
                let positions = || (0..width).filter(|i| word >> i & 1 == 1);
                let expected = match op {
                    UnaryOp::Neg => bits(ty, -a),
                    UnaryOp::Abs => bits(ty, a.abs()),
                    UnaryOp::Not => bits(ty, !a),
                    UnaryOp::Popc => positions().count() as u64,
                    UnaryOp::Clz => u64::from(width - positions().max().map_or(0, |i| i + 1)),
                    UnaryOp::Brev => positions().map(|i| 1 << (width - 1 - i)).sum(),
                    _ => {
                        // The highest bit that differs from the sign.
                        let word = if a < 0 { bits(ty, !a) } else { word };
                        let top = (0..width).rev().find(|i| word >> i & 1 == 1);
                        top.map_or(0xffff_ffff, u64::from)
                    }
                };
                assert_eq!(found, expected, "{op:?} {ty} of {a}");
                cases += 1;
            }
        }
        for op in [TernaryOp::Mad, TernaryOp::MadHi] {
            let found = each(&triples, ty, |k, [a, b, c]| k.ternary(op, ty, a, b, c));
            for (t, found) in triples.iter().zip(found) {
                let [a, b, c] = t.map(|x| number(ty, x));
                let high = match ty {
                    Type::U64 => ((a as u128 * b as u128) >> 64) as i128,
                    _ => a.wrapping_mul(b) >> width,
                };
                let expected = match op {
                    TernaryOp::Mad => bits(ty, a.wrapping_mul(b).wrapping_add(c)),
                    _ => bits(ty, high.wrapping_add(c)),
                };
                assert_eq!(found, expected, "{op:?} {ty} of {a}, {b}, {c}");
                cases += 1;
            }
        }
    }
    println!("law sim.integer_unary_ternary: {cases} cases");
}

#[test]
fn bits_are_picked_by_the_manual() {
    let triples = triples();
    let found = each(&triples, Type::B32, |k, [a, b, c]| {
        k.ternary(TernaryOp::Prmt, Type::B32, a, b, c)
    });
    let fields = each(&triples, Type::S32, |k, [a, b, c]| {
        k.ternary(TernaryOp::Bfe, Type::S32, a, b, c)
    });
    let funnels = each(&triples, Type::B32, |k, [a, b, c]| {
        k.ternary(TernaryOp::ShfL, Type::B32, a, b, c)
    });
    for (i, t) in triples.iter().enumerate() {
        let [a, b, c] = t.map(|x| x as u32);
        let bytes: Vec<u8> = a.to_le_bytes().into_iter().chain(b.to_le_bytes()).collect();
        let byte = |n: u32| {
            let byte = bytes[(n & 7) as usize];
            let sign = if byte >> 7 == 1 { 0xff } else { 0 };
            if n & 8 == 0 { byte } else { sign }
        };
        let expected = u32::from_le_bytes([0, 4, 8, 12].map(|at| byte(c >> at & 15)));
        assert_eq!(
            found[i],
            u64::from(expected),
            "prmt of {a:#x}, {b:#x}, {c:#x}"
        );
        // PTX ISA 9.7.1, `bfe`, bit by bit.
        let (pos, len) = (b & 0xff, c & 0xff);
        let bit = |at: u32| a >> at & 1;
        let sign = if len == 0 {
            0
        } else {
            bit((pos + len - 1).min(31))
        };
        let expected = (0..32).fold(0u32, |d, i| {
            let one = if i < len && pos + i <= 31 {
                bit(pos + i)
            } else {
                sign
            };
            d | one << i
        });
        assert_eq!(
            fields[i],
            u64::from(expected),
            "bfe of {a:#x}, {pos}, {len}"
        );
        let expected = match c & 31 {
            0 => b,
            n => b << n | a >> (32 - n),
        };
        assert_eq!(
            funnels[i],
            u64::from(expected),
            "shf.l of {a:#x}, {b:#x}, {c}"
        );
    }
}

#[test]
fn four_products_of_bytes() {
    let triples = triples();
    let mut cases = 0;
    for signed in [[false, false], [false, true], [true, false], [true, true]] {
        let found = each(&triples, Type::U32, |k, [a, b, c]| k.dp4a(signed, a, b, c));
        for ([a, b, c], found) in triples.iter().zip(found) {
            // Digit by digit in base 256, without wrapping.
            let digit = |x: &u64, at: u32, signed: bool| {
                let digit = i128::from(*x) >> (8 * at) & 0xff;
                if signed && digit >= 128 {
                    digit - 256
                } else {
                    digit
                }
            };
            let product = |at| digit(a, at, signed[0]) * digit(b, at, signed[1]);
            let sum: i128 = (0..4).map(product).sum::<i128>() + i128::from(*c as u32);
            let expected = bits(Type::U32, sum);
            assert_eq!(found, expected, "{signed:?}, {a:#x}, {b:#x}, {c:#x}");
            cases += 1;
        }
    }
    println!("law sim.dp4a: {cases} cases");
}

#[test]
fn lanes_with_the_same_value() {
    let mut dice = Dice(11);
    let mut cases = 0;
    for kinds in [1, 2, 5, 40] {
        // Values that differ in the upper half alone are the same for 32 bits.
        let keys = [dice.next(), dice.next(), dice.next()];
        let value = |x: u64| keys[0].wrapping_add((x % kinds % 3) << 40 | (x % kinds / 3) << 3);
        let triples: Vec<[u64; 3]> = (0..64).map(|_| [value(dice.next()), 0, 0]).collect();
        for ty in [Type::B32, Type::B64] {
            let any = each(&triples, ty, |k, [a, ..]| k.match_any(ty, a));
            let all = each(&triples, ty, |k, [a, ..]| k.match_all(ty, a).0);
            let agree = each(&triples, ty, |k, [a, ..]| {
                let (_, agree) = k.match_all(ty, a);
                k.selp(Type::U32, 1, 0, agree)
            });
            for lane in 0..64 {
                let warp = lane / 32 * 32..lane / 32 * 32 + 32;
                let key = |lane: usize| bits(ty, i128::from(triples[lane][0]));
                let same = warp.map(|other| u64::from(key(other) == key(lane)));
                let same = same.enumerate().fold(0, |mask, (i, one)| mask | one << i);
                let every = same == 0xffff_ffff;
                assert_eq!(any[lane], same, "{ty}, lane {lane}");
                assert_eq!(all[lane], if every { same } else { 0 }, "{ty}, lane {lane}");
                assert_eq!(agree[lane], u64::from(every), "{ty}, lane {lane}");
                cases += 3;
            }
        }
    }
    println!("law sim.match: {cases} cases");
}
