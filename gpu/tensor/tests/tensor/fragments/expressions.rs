//! Expressions on the simulator against the host, and the host against other arithmetic.

use colex_atom::{Arch, Ty};
use colex_gpu::Device;
use colex_ir::{BinaryOp, UnaryOp};
use colex_proof::kernels::fragments::{
    RegisterPlace, TYPES, check, conversions, element, formula, is_there, kernel,
};
use colex_proof::sweep::Random;
use colex_tensor::{Builder, Expr, Formula, Fragment, Mask, Round};
use half::{bf16, f16};

use crate::refused;

/// `COLEX_EXPRESSIONS=20000` draws as many formulas.
#[test]
fn law_expressions_are_those_of_the_host() {
    let count = std::env::var("COLEX_EXPRESSIONS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(120);
    let mut r = Random::new(17);
    let mut cases = 0;
    for number in 0..count {
        let arch = r.one(&[Arch::Sm70, Arch::Sm75, Arch::Sm80, Arch::Sm89, Arch::Sm90a]);
        let kinds: Vec<Ty> = TYPES.into_iter().filter(|ty| is_there(arch, *ty)).collect();
        let types: Vec<Ty> = (0..1 + r.below(3)).map(|_| r.one(&kinds)).collect();
        let (ty, depth) = (r.one(&kinds), 1 + r.below(4));
        let f = formula(&mut r, &types, (ty, true), depth);
        let n = r.one(&[1, 2, 3, 4, 8]);
        let places: Vec<RegisterPlace> = (0..4)
            .map(|_| {
                r.one(&[
                    RegisterPlace::Compact,
                    RegisterPlace::Compact,
                    RegisterPlace::Apart,
                    RegisterPlace::Plain,
                ])
            })
            .collect();
        // Before Ampere bf16 has no fused product.
        let is_refused = arch < Arch::Sm80
            && kernel(arch, &types, n, &f, &places)
                .is_err_and(|e| e.what().contains("fma of bf16"));
        if !is_refused {
            let device = Device::simulator(arch);
            match check(&device, &types, (&f, 0.0), (n, &places), &mut r) {
                Ok(done) => cases += done,
                // The verifier names what an architecture does not have.
                Err(why) if arch == Arch::Sm70 && why.contains("came with sm_75") => {}
                Err(why) => panic!("formula {number} for {arch}: {why}"),
            }
        }
    }
    println!("law expressions: {cases} elements");
}

/// Every pair of types, in every way in which they are converted.
#[test]
fn law_conversions() {
    let mut r = Random::new(5);
    let mut cases = 0;
    for (from, to) in TYPES.iter().flat_map(|from| TYPES.map(|to| (*from, to))) {
        let eighth = [from, to]
            .iter()
            .any(|ty| matches!(ty, Ty::E4m3 | Ty::E5m2));
        let arch = if eighth {
            Arch::Sm90a
        } else {
            r.one(&[Arch::Sm80, Arch::Sm90a])
        };
        for (i, formula) in conversions(from, to).iter().enumerate() {
            let places = [r.one(&[RegisterPlace::Compact, RegisterPlace::Apart])];
            let n = r.one(&[1, 2, 4]);
            let done = check(
                &Device::simulator(arch),
                &[from],
                (formula, 0.0),
                (n, &places),
                &mut r,
            );
            cases += done.unwrap_or_else(|why| panic!("{from} to {to}, way {i}: {why}"));
        }
    }
    println!("law conversions: {cases} elements");
}

fn low(ty: Ty, bits: u64) -> u64 {
    bits & (u64::MAX >> (64 - ty.bits()))
}

/// The host's conversions against those of Rust and of `half`.
#[test]
fn law_the_host_converts_as_rust_does() {
    let mut r = Random::new(3);
    let mut cases = 0;
    let of = |from: Ty, to: Ty, bits: u64| {
        Expr::input(0, from)
            .to(to)
            .evaluate(&[bits])
            .expect("a number")
    };
    for _ in 0..4000 {
        let bits = element(&mut r, Ty::F32);
        let x = f32::from_bits(bits as u32);
        let wide = f64::from(x);
        let mut pairs = vec![
            (Ty::S8, low(Ty::S8, x as i8 as u64)),
            (Ty::U8, x as u8 as u64),
            (Ty::S16, low(Ty::S16, x as i16 as u64)),
            (Ty::U16, x as u16 as u64),
            (Ty::S32, low(Ty::S32, x as i32 as u64)),
            (Ty::U32, x as u32 as u64),
        ];
        if !x.is_nan() {
            pairs.extend([
                (Ty::F16, f16::from_f32(x).to_bits().into()),
                (Ty::Bf16, bf16::from_f32(x).to_bits().into()),
                (Ty::F64, wide.to_bits()),
                (Ty::S64, x as i64 as u64),
                (Ty::U64, x as u64),
            ]);
        }
        for (to, expected) in pairs {
            assert_eq!(of(Ty::F32, to, bits), expected, "{x} to {to}");
            cases += 1;
        }
        let word = r.bits();
        let pairs = [
            (Ty::S32, Ty::S64, word as i32 as i64 as u64),
            (Ty::S32, Ty::U64, word as i32 as u64),
            (Ty::U32, Ty::S64, word as u32 as i64 as u64),
            (Ty::S64, Ty::U8, word as u8 as u64),
            (Ty::U64, Ty::F32, u64::from((word as f32).to_bits())),
            (Ty::S64, Ty::F64, (word as i64 as f64).to_bits()),
            (Ty::U16, Ty::S8, u64::from(word as i8 as u8)),
        ];
        for (from, to, expected) in pairs {
            assert_eq!(
                of(from, to, low(from, word)),
                expected,
                "{word:#x} of {from} to {to}"
            );
            cases += 1;
        }
    }
    // What an H200 makes of a NaN: 0 of a binary32 in up to 32 bits, else the top bit, or the nearest end of a narrow type.
    let nan = [
        (Ty::S8, [0, 0x80]),
        (Ty::U8, [0, 0xff]),
        (Ty::S16, [0, 0x8000]),
        (Ty::U16, [0, 0xffff]),
        (Ty::S32, [0, 0x8000_0000]),
        (Ty::U32, [0, 0x8000_0000]),
        (Ty::S64, [1 << 63; 2]),
        (Ty::U64, [1 << 63; 2]),
    ];
    for (to, expected) in nan {
        let narrow = of(Ty::F32, to, f32::NAN.to_bits().into());
        let wide = of(Ty::F64, to, f64::NAN.to_bits());
        assert_eq!([narrow, wide], expected, "NaN to {to}");
        cases += 2;
    }
    println!("law expressions.host_conversions: {cases} numbers");
}

/// `a b + c` of f16 in units of 2^-48, rounded by integers.
fn exact_fma([a, b, c]: [f16; 3]) -> f16 {
    let units = |x: f16| (f64::from(x) * 2f64.powi(24)) as i128;
    let sum = units(a) * units(b) + (units(c) << 24);
    let magnitude = sum.unsigned_abs();
    // The least subnormal is 2^-24.
    let top = 128 - magnitude.leading_zeros() as i32;
    let shift = (top - 11).max(24);
    let (kept, rest) = (magnitude >> shift, magnitude & ((1 << shift) - 1));
    let half = 1_u128 << (shift - 1);
    let up = rest > half || rest == half && kept & 1 == 1;
    let value = (kept + u128::from(up)) as f64 * 2f64.powi(shift - 48);
    f16::from_f64(if sum < 0 { -value } else { value })
}

#[test]
fn law_the_host_fuses_exactly() {
    let mut r = Random::new(11);
    let (x, y, z) = (
        Expr::input(0, Ty::F16),
        Expr::input(1, Ty::F16),
        Expr::input(2, Ty::F16),
    );
    let fused = x.fma(y, z);
    let mut cases = 0;
    for _ in 0..40000 {
        // Sums that fall near a tie: one term is much smaller than the other.
        let all = [0, 1, 2].map(|_| f16::from_bits(r.bits() as u16));
        if all.iter().any(|x| !x.is_finite()) {
            continue;
        }
        let bits = all.map(|x| u64::from(x.to_bits()));
        let (found, expected) = (fused.evaluate(&bits).expect("a number"), exact_fma(all));
        let found = f16::from_bits(found as u16);
        assert!(found == expected, "{all:?}: {found} and {expected}");
        cases += 1;
    }
    println!("law expressions.host_fma: {cases} numbers");
}

/// `erfc(z)` by its continued fraction, or its series.
fn erfc(z: f64) -> f64 {
    if z < 2.5 {
        let (mut term, mut sum) = (z, z);
        for n in 1..80 {
            term *= -z * z / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        return 1.0 - sum * 2.0 / std::f64::consts::PI.sqrt();
    }
    let fraction = (1..120)
        .rev()
        .fold(0.0, |s, n| f64::from(n) / 2.0 / (z + s));
    (-z * z).exp() / (std::f64::consts::PI.sqrt() * (z + fraction))
}

/// What the documentation says of the functions' errors.
#[test]
fn law_functions_are_as_accurate_as_they_say() {
    type Function = (&'static str, Expr, fn(f64) -> f64, f64, f64);
    let x = || Expr::input(0, Ty::F32);
    let gelu_tanh = |x: f64| {
        let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
        x / (1.0 + (-2.0 * u).exp())
    };
    let power = |n: i32| 2f64.powi(n);
    let all: [Function; 8] = [
        ("exp", x().exp(), f64::exp, power(-19), 0.0),
        (
            "log",
            x().abs().log(),
            |x| x.abs().ln(),
            power(-21),
            power(-21),
        ),
        (
            "sigmoid",
            x().sigmoid(),
            |x| 1.0 / (1.0 + (-x).exp()),
            power(-19),
            0.0,
        ),
        (
            "silu",
            x().silu(),
            |x| x / (1.0 + (-x).exp()),
            power(-19),
            0.0,
        ),
        ("tanh", x().tanh(), f64::tanh, 0.0, power(-21)),
        (
            "erf",
            x().erf(),
            |x| x.signum() * (1.0 - erfc(x.abs())),
            0.0,
            power(-20),
        ),
        (
            "gelu",
            x().gelu(),
            |x| {
                x * if x < 0.0 {
                    0.5 * erfc(x.abs() * std::f64::consts::FRAC_1_SQRT_2)
                } else {
                    1.0 - 0.5 * erfc(x * std::f64::consts::FRAC_1_SQRT_2)
                }
            },
            2f64.powf(-16.7),
            0.0,
        ),
        (
            "gelu_tanh",
            x().gelu_tanh(),
            gelu_tanh,
            power(-17),
            power(-60),
        ),
    ];
    let mut cases = 0;
    for (name, formula, exact, relative, absolute) in &all {
        for i in -8000..8000 {
            let x = i as f32 / 1000.0 + 0.0003;
            let found = formula.evaluate(&[x.to_bits().into()]).expect("a number");
            let (found, exact) = (f64::from(f32::from_bits(found as u32)), exact(x.into()));
            let error = (found - exact).abs();
            assert!(
                error <= relative * exact.abs() + absolute,
                "{name} of {x}: {found}, and {exact} exactly"
            );
            cases += 1;
        }
    }
    println!("law expressions.accuracy: {cases} numbers");
}

/// Below -8 GELU is within 2^-60 of the exact function, and 0 at last; above 8 it is its argument. No infinity but that of
/// infinity, and no NaN is lost.
#[test]
fn law_gelu_is_right_at_both_ends() {
    let formula = Expr::input(0, Ty::F32).gelu();
    let gelu = |x: f32| {
        let found = formula.evaluate(&[x.to_bits().into()]).expect("a number");
        f32::from_bits(found as u32)
    };
    let mut cases = 0;
    for i in 8000..40_000_u16 {
        let x = f32::from(i) / 1000.0 + 0.0003;
        let exact = -0.5 * f64::from(x) * erfc(f64::from(x) * std::f64::consts::FRAC_1_SQRT_2);
        let found = f64::from(gelu(-x));
        assert!(
            found <= 0.0 && (found - exact).abs() <= 2f64.powi(-60),
            "gelu of -{x}: {found}, and {exact} exactly"
        );
        assert_eq!(gelu(x), x);
        cases += 2;
    }
    let mut x = 15.0_f32;
    while x.is_finite() {
        assert_eq!((gelu(-x).to_bits(), gelu(x)), ((-0.0_f32).to_bits(), x));
        (x, cases) = (x * 1.5, cases + 2);
    }
    assert_eq!(gelu(0.0).to_bits(), 0);
    assert_eq!(gelu(-0.0).to_bits(), (-0.0_f32).to_bits());
    assert_eq!(gelu(f32::INFINITY), f32::INFINITY);
    assert!(gelu(f32::NAN).is_nan() && gelu(f32::NEG_INFINITY).is_nan());
    println!("law expressions.gelu_ends: {} numbers", cases + 5);
}

/// Pairs of 16-bit floats take the packed instructions of their architecture.
#[test]
fn pairs_take_one_instruction() {
    let text = |arch: Arch, ty: Ty, formula: fn(&Expr) -> Expr| {
        let mut k = Builder::new("k", arch, 32);
        let x = k.fragment(ty, "_4:_1");
        k.fill(&x, 1.0);
        k.assign(&x, formula(&Expr::from(&x)));
        k.finish()
            .expect("a kernel")
            .kernel
            .ptx()
            .expect("its text")
    };
    type Case = (Arch, Ty, fn(&Expr) -> Expr, &'static str);
    let all: [Case; 8] = [
        (Arch::Sm70, Ty::F16, |x| x + 1.5, "add.rn.f16x2"),
        (Arch::Sm70, Ty::F16, |x| x.fma(2.0, 1.5), "fma.rn.f16x2"),
        (Arch::Sm80, Ty::F16, |x| x.relu(), "max.f16x2"),
        (Arch::Sm80, Ty::Bf16, |x| x * 1.5, "fma.rn.bf16x2"),
        (Arch::Sm90a, Ty::Bf16, |x| x * 1.5, "mul.rn.bf16x2"),
        (Arch::Sm80, Ty::Bf16, |x| -x, "neg.bf16x2"),
        (
            Arch::Sm80,
            Ty::F16,
            |x| (x.to(Ty::F32) * 0.1).to(Ty::F16),
            "cvt.rn.f16x2.f32",
        ),
        (
            Arch::Sm80,
            Ty::F16,
            |x| x.to(Ty::F32).silu().to(Ty::F16),
            "cvt.rn.f16x2.f32",
        ),
    ];
    for (arch, ty, formula, word) in all {
        let text = text(arch, ty, formula);
        assert_eq!(text.matches(word).count(), 2, "{arch} {ty}: {text}");
    }
}

/// A fragment that is read at other indices than it is written is read first.
#[test]
fn what_shares_registers_is_read_before_it_is_written() -> Result<(), Box<dyn std::error::Error>> {
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let x = k.fragment(Ty::F32, "(_2,_2):(_1,_2)");
    let index = Expr::from(k.lane()).to(Ty::F32);
    for (i, place) in [(0, (0, 0)), (1, (1, 0)), (2, (0, 1)), (3, (1, 1))] {
        k.assign(&x.slice(place), &index + i);
    }
    k.assign(&x, x.with_layout("(_2,_2):(_2,_1)"));
    assert_eq!(
        colex_proof::examples::elements(k, &x)?[1],
        [1.0, 3.0, 2.0, 4.0]
    );
    Ok(())
}

/// Wrong uses, in the words of `finish`, at the line of the operator.
#[test]
fn wrong_expressions_are_refused() {
    let warp = || Builder::new("k", Arch::Sm80, 32);
    let scene = |k: &mut Builder| {
        let x = k.fragment(Ty::F32, "_4:_1");
        let h = k.fragment(Ty::F16, "_4:_1");
        k.fill(&x, 1.0);
        k.fill(&h, 1.0);
        (x, h)
    };
    let said = |call: fn(&mut Builder, (Fragment, Fragment))| refused(warp(), scene, call);
    assert_eq!(
        said(|k, (x, h)| k.assign(&x, &x + &h)),
        "expression: add of f32 and f16: both have one type, and `.to(Ty::F16)` converts"
    );
    assert_eq!(
        said(|k, (x, h)| k.assign(&x, &h)),
        "assign: f16 into elements of f32: `.to(Ty::F32)` converts"
    );
    assert_eq!(
        said(|k, (x, _)| k.assign(&x, Expr::from(&x).to(Ty::Tf32) + 1.0)),
        "expression: add of tf32: it has no arithmetic, and `.to(Ty::F32)` converts it"
    );
    assert_eq!(
        said(|k, (x, _)| k.assign(&x, &x & &x)),
        "expression: and of f32: it is for integers, and `.to(Ty::S32)` converts it"
    );
    assert_eq!(
        said(|k, (x, _)| k.assign(&x, (Expr::from(&x).to(Ty::S8) + 300).to(Ty::F32))),
        "assign: 300 is no s8, which goes from -128 to 127"
    );
    assert_eq!(
        said(|k, (x, _)| k.assign(&x, Expr::from(&x).to(Ty::F64).exp2().to(Ty::F32))),
        "assign: ex2.approx of f64: no instruction computes it, and `.to(Ty::F32)` converts"
    );
    assert_eq!(
        said(|k, (x, _)| k.assign(&x, Expr::from(&x).to(Ty::F64).gelu().to(Ty::F32))),
        "expression: f64: the function is computed in f32, and `.to(Ty::F32)` converts"
    );
    assert_eq!(
        said(|k, (x, _)| k.assign(&x, Expr::from(&x).to(Ty::E4m3).to(Ty::F32))),
        "assign: e4m3 is converted since sm_89, and the kernel is for sm_80"
    );
    assert_eq!(
        said(|k, (x, _)| k.assign(&x, Expr::from(&x).rounded(Ty::F16, Round::Up).to(Ty::F32))),
        "convert: f32 to f16, rounded up; to nearest it is"
    );
    assert_eq!(
        said(|k, (x, _)| k.assign(&x, Expr::input(0, Ty::F32) + &x)),
        "assign: input 0 of the expression is no element of a kernel: `over` binds it"
    );
    assert_eq!(
        said(|k, (x, h)| k.assign(&x, Expr::input(0, Ty::F32).over([&h]) + &x)),
        "over: input 0 is of f32, and f16 is given"
    );
    assert_eq!(
        said(|k, _| drop(k.map(2.0))),
        "map: constants alone have no type: `assign` and `fill` take that of their fragment"
    );
    assert_eq!(
        said(|k, (x, _)| {
            let other = k.fragment(Ty::F32, "(_3,_2):(_1,_3)");
            k.assign(&x, &x + &other);
        }),
        "assign: a fragment of (_3,_2) and one of _4: they have the same number of elements, or the same modes where extents of \
         1 are broadcast"
    );
    assert_eq!(
        refused(
            Builder::new("k", Arch::Sm75, 32),
            |k| k.fragment(Ty::Bf16, "_2:_1"),
            |k, x| {
                k.fill(&x, 1.0);
                k.assign(&x, Expr::from(&x).fma(2.0, 1.0));
            }
        ),
        "assign: fma of bf16 rounds once since sm_80, and the kernel is for sm_75: `.to(Ty::F32)` converts"
    );
    assert_eq!(
        said(|k, (x, _)| k.assign(&x, Expr::from(&x).to(Ty::S32).sqrt().to(Ty::F32))),
        "expression: sqrt of s32: it is for floats, and `.to(Ty::F32)` converts it"
    );
    assert_eq!(
        said(|k, (x, _)| drop(k.map(Expr::unary(UnaryOp::Popc, Expr::from(&x).to(Ty::U32))))),
        "expression: popc counts bits of one register: `emit` adds it"
    );
    assert_eq!(
        said(|k, (x, _)| drop(k.map(Expr::binary(BinaryOp::MulHi, Expr::from(&x).to(Ty::U32), 3)))),
        "expression: mul.hi: convert to the wider type and multiply there"
    );
    assert_eq!(
        said(|k, (x, _)| drop(k.map(Expr::from(1).lt(2).select(&x, 0)))),
        "expression: a comparison of constants: one side has a type"
    );
    assert_eq!(
        said(|k, (x, _)| {
            let register = Expr::register(x.regs()[0], Ty::F16);
            k.map(register);
        }),
        "register: %f0 of 32 bits as an element of f16"
    );
    assert_eq!(
        said(|k, (x, _)| {
            k.condition(Expr::from(&x).lt(1.0));
        }),
        "condition: a comparison of 4 elements: a branch takes that of one"
    );
    assert_eq!(
        said(|k, _| {
            let x = k.fragment(Ty::S4, "_8:_1");
            k.assign(&x, 1);
        }),
        "assign: elements of s4; those of 8 to 64 bits are computed"
    );
    let mut k = warp();
    let thread = k.thread();
    let is_first = Mask::from(k.equal(&thread, &0.into()));
    let chosen = is_first.select(Expr::input(0, Ty::F32), 0.0);
    assert_eq!(
        chosen.evaluate(&[0]).unwrap_err().what(),
        "evaluate: only a kernel knows its predicates"
    );
    let fragment = Builder::new("k", Arch::Sm80, 32).fragment(Ty::F32, "_1:_1");
    assert_eq!(
        (Expr::from(&fragment) + 1.0)
            .evaluate(&[])
            .unwrap_err()
            .what(),
        "evaluate: only a kernel knows its registers: take an `input`"
    );
    assert_eq!(
        Expr::input(1, Ty::F32).evaluate(&[0]).unwrap_err().what(),
        "evaluate: input 1, and 1 are given"
    );
}

/// A formula is the expression that it was made from, and its text is read as the same formula.
#[test]
fn law_formulas_are_read_as_they_are_printed() {
    let mut r = Random::new(20);
    let (mut cases, mut distinct) = (0, std::collections::HashSet::new());
    for _ in 0..400 {
        let types: Vec<Ty> = (0..1 + r.below(3)).map(|_| r.one(&TYPES)).collect();
        let (ty, depth) = (r.one(&TYPES), 1 + r.below(6));
        let expr = formula(&mut r, &types, (ty, true), depth);
        let made = expr.formula().expect("an expression over inputs");
        let text = made.to_string();
        let read: Formula = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(made, read, "{text}");
        assert_eq!(read.to_string(), text);
        assert_eq!(made.expr().formula().expect("the same"), made);
        assert_eq!(made.ty(), ty);
        #[cfg(feature = "serde")]
        {
            let json = serde_json::to_string(&made).expect("text");
            let back: Formula = serde_json::from_str(&json).expect("the formula");
            assert_eq!(back, made);
        }
        for _ in 0..4 {
            let inputs: Vec<u64> = types.iter().map(|ty| element(&mut r, *ty)).collect();
            let found = made.evaluate(&inputs).expect("a number");
            let wanted = expr.evaluate(&inputs).expect("a number");
            assert_eq!(found, wanted, "{text} of {inputs:?}");
            cases += 1;
        }
        distinct.insert(made);
    }
    assert!(distinct.len() > 250, "{} formulas", distinct.len());
    println!("law formulas: {cases} cases");
}

/// A chain of steps and a step that is used twice at every level print in as many words as they have steps.
#[test]
fn formulas_print_each_step_once() {
    let x = Expr::input(0, Ty::F32);
    let mut chain = x.clone();
    let mut doubled = x.clone();
    for _ in 0..300 {
        chain = (chain + 1.0).max(0.0);
        doubled = &doubled + &doubled;
    }
    for expr in [chain, doubled] {
        let made = expr.formula().expect("a formula");
        let text = made.to_string();
        assert!(text.len() < 20_000, "{} bytes", text.len());
        assert_eq!(text.parse::<Formula>().expect("read"), made);
    }
    let gelu = x.gelu_tanh().to(Ty::F16).formula().expect("a formula");
    assert_eq!(
        gelu.named(&["acc"]),
        "cvt.rn.f16(mul(acc, rcp(add(1.0, ex2.approx(mul(acc, fma(mul(acc, acc), -0.1029432395800235, \
         -2.302208198144325)))))))"
    );
}

#[test]
fn formulas_that_are_none_are_refused_with_sentences() {
    let refused = |text: &str| text.parse::<Formula>().unwrap_err().what();
    assert_eq!(
        refused("add(x0:f32, "),
        "formula: at byte 12 a name, a number or an operation is expected"
    );
    assert_eq!(
        refused("add(x0:f32 x1:f32)"),
        "formula: at byte 11 there is `x`, and `)` is expected"
    );
    assert_eq!(
        refused("add(x0:f32, bias)"),
        "formula: at byte 12 there is no `bias`: an input is written as `x0:f32`"
    );
    assert_eq!(
        Formula::parse("bias", &[]).unwrap_err().what(),
        "formula: at byte 0 there is no `bias`: there are no inputs"
    );
    assert_eq!(
        Formula::parse("bias", &[("acc", Ty::F32)])
            .unwrap_err()
            .what(),
        "formula: at byte 0 there is no `bias`: the input is acc"
    );
    assert_eq!(
        refused("power(x0:f32, 2)"),
        "formula: at byte 0 there is no operation `power` of an element, an element"
    );
    assert_eq!(
        refused("lt(x0:f32, 1)"),
        "formula: at byte 0 there is a condition, and no element"
    );
    assert_eq!(
        refused("x0:f32 x1:f32"),
        "formula: at byte 7 the formula has ended"
    );
    assert_eq!(
        refused("add(x0:f32, x1:f16)"),
        "expression: add of f32 and f16: both have one type, and `.to(Ty::F16)` converts"
    );
    assert_eq!(
        refused("1.5"),
        "formula: constants alone have no type: `.to` states it"
    );
    let deep = format!("{}x0:f32{}", "neg(".repeat(201), ")".repeat(201));
    assert_eq!(
        refused(&deep),
        "formula: at byte 800 there are more than 200 levels"
    );
    let fragment = Builder::new("k", Arch::Sm80, 32).fragment(Ty::F32, "_1:_1");
    assert_eq!(
        Expr::from(&fragment).formula().unwrap_err().what(),
        "formula: fragments, registers, indices and predicates are a kernel's: a formula is over `input`s"
    );
}

/// A step that is read twice at every level is one step to every walk over a formula, and too long a chain is refused.
#[test]
fn formulas_of_short_texts_are_short_work() {
    for (name, operation) in [
        ("and", BinaryOp::And),
        ("or", BinaryOp::Or),
        ("xor", BinaryOp::Xor),
    ] {
        let mut text = "m0 = lt(x0:f32, 1.0); ".to_string();
        for i in 0..60 {
            text += &format!("m{} = {name}(m{i}, m{i}); ", i + 1);
        }
        let formula: Formula = (text + "select(m60, 1.0, x0:f32)")
            .parse()
            .expect("a formula");
        let given = |x: f32| u64::from(x.to_bits());
        let held = operation != BinaryOp::Xor;
        let right = if held { 1.0 } else { 0.5 };
        assert_eq!(
            formula.evaluate(&[given(0.5)]).expect("a number"),
            given(right)
        );
        assert_eq!(formula.renumbered(|i| i), formula);
        let mut k = Builder::new("k", Arch::Sm80, 32);
        let x = k.fragment(Ty::F32, "_1:_1");
        k.fill(&x, 0.5);
        let found = k.map(formula.expr().over([&x]));
        let found = colex_proof::examples::elements(k, &found).expect("a kernel");
        assert_eq!(found[0], [right]);
    }
    let chain = |steps: usize| {
        let mut text = "t0 = add(x0:f32, 1.0); ".to_string();
        for i in 1..steps {
            text += &format!("t{i} = add(t{}, 1.0); ", i - 1);
        }
        text + &format!("t{}", steps - 1)
    };
    let longest: Formula = chain(1024).parse().expect("a formula");
    assert_eq!(
        longest.evaluate(&[0]).expect("a number"),
        u64::from(1024_f32.to_bits())
    );
    let text = chain(100_000);
    let at = text.find("t1024 = ").expect("the step") + "t1024 = ".len();
    assert_eq!(
        text.parse::<Formula>().unwrap_err().what(),
        format!(
            "formula: at byte {at} 1025 steps follow each other, and a formula has at most 1024"
        )
    );
    let mut expr = Expr::input(0, Ty::F32);
    (0..1025).for_each(|_| expr = &expr + 1.0);
    assert_eq!(
        expr.formula().unwrap_err().what(),
        "formula: 1025 steps follow each other, and a formula has at most 1024"
    );
}

/// A constant above the numbers of 63 bits is itself in an element of 64 bits without a sign.
#[test]
fn constants_of_64_bits_are_whole() {
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let x = k.fragment(Ty::U64, "_1:_1");
    k.fill(&x, 5.0);
    let sum = k.map(&x + 1e19);
    let quotient = k.map((&sum / 1_000_000_000_000_000_000_i64).to(Ty::F32));
    assert_eq!(
        colex_proof::examples::elements(k, &quotient).expect("a kernel")[0],
        [10.0]
    );
}

/// An integer beyond 32 bits with a sign is refused in an expression, and compared as it is.
#[test]
fn wide_integers_in_expressions() {
    let refused = refused(
        Builder::new("k", Arch::Sm80, 32),
        |k| k.index_argument("n", 0..1 << 32),
        |k, n| {
            k.map(Expr::from(n).to(Ty::F32));
        },
    );
    assert_eq!(
        refused,
        "map: r0 lies from 0 to 4294967295, and an expression computes with numbers of s32: `within` says what no rule finds"
    );
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let many = k.emit(|ir| ir.mov(colex_ir::Type::U32, 3_000_000_000_i64));
    let many = k.index_of(many, 0..1 << 32);
    let thread = k.thread();
    let all = [
        Expr::from(&thread).lt(&many),
        Expr::from(&many).le(&thread),
        Expr::from(&many).gt(5),
        Expr::from(&many).equals(&thread),
        Expr::from(&many).ge(3_000_000_000_i64),
    ];
    let found = k.fragment(Ty::S32, "_5:_1");
    for (i, mask) in (0..).zip(all) {
        k.assign(&found.values(i, 1), mask.select(1, 0));
    }
    let found = colex_proof::examples::elements(k, &found).expect("a kernel");
    assert_eq!(found[7], [1.0, 0.0, 1.0, 0.0, 1.0]);
}

/// A register of the destination that an expression names is read before it is written.
#[test]
fn registers_of_the_destination_are_read_first() {
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let f = k.fragment(Ty::F32, "_2:_1");
    k.fill(&f.values(0, 1), 1.0);
    k.fill(&f.values(1, 1), 2.0);
    let first = Expr::register(f.regs()[0], Ty::F32);
    k.assign(&f, &f - first);
    assert_eq!(
        colex_proof::examples::elements(k, &f).expect("a kernel")[0],
        [0.0, 1.0]
    );
    // Pairs of a source are computed together, and each is written before the next is read.
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let (f, x) = (k.fragment(Ty::F32, "_2:_1"), k.fragment(Ty::F16, "_2:_1"));
    k.fill(&x, 0.5);
    k.fill(&f.values(0, 1), 1.0);
    k.fill(&f.values(1, 1), 2.0);
    let first = Expr::register(f.regs()[0], Ty::F32);
    k.assign(&f, Expr::from(&x).to(Ty::F32) + first);
    assert_eq!(
        colex_proof::examples::elements(k, &f).expect("a kernel")[0],
        [1.5, 1.5]
    );
}
