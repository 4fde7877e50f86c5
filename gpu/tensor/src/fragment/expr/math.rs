//! Named functions of expressions.

use std::f64::consts::{LN_2, LOG2_E};
use std::panic::Location;

use colex_atom::{Class, Ty};
use colex_ir::{BinaryOp, Compare, UnaryOp};

use super::{Expr, ExprNode, Mask, Round, Saturate, common, is_half};
use crate::error::ErrorKind;

/// `log2(erfc(z) exp(z^2) / t)` for `t = 1 / (1 + z / 2)` and `z` from 0 to 10, within 8e-8: the polynomial in `t` that has
/// the function's values at the 10 Chebyshev nodes of 1/6..1, lowest power first.
const ERFC: [f64; 10] = [
    -1.82566555,
    1.4409385,
    0.555846788,
    0.0597217504,
    -0.0281440943,
    -0.0575149496,
    -1.0769284,
    1.7244933,
    -1.00633258,
    0.213585307,
];

/// `log2 Φ(-z)`, where `Φ` is the normal distribution, for `z` from 0 to 8.6, within 8e-6: the polynomial in `z` of the least
/// largest error, whose coefficients are numbers of binary32, lowest power first. It falls on until 18, where it is -208.
const LOG_TAIL: [f64; 9] = [
    -0.999992847,
    -1.15132368,
    -0.458186656,
    -0.0543502644,
    0.0087705208,
    -0.0010247688,
    8.00743219e-05,
    -3.70083785e-06,
    7.59330021e-08,
];

/// From here on `2^LOG_TAIL` is 0 in binary32: it is `2^-164` here.
const TAIL_END: f64 = 15.0;

/// `sqrt(2 / pi)`, and the factor of the cube in the tanh form of GELU (Hendrycks and Gimpel 2016).
const GELU: [f64; 2] = [0.797_884_560_802_865_4, 0.044715];

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => {
        impl Expr {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self) -> Expr {
                Expr::unary(UnaryOp::$op, self)
            }
        )*}
    };
}

unary! {
    /// Builds the magnitude; of the least signed integer it is that integer.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// assert_eq!(Expr::input(0, Ty::S8).abs().evaluate(&[0xff])?, 1);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    abs = Abs;
    /// Builds the square root, rounded to nearest even.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let root = Expr::input(0, Ty::F64).sqrt();
    /// assert_eq!(f64::from_bits(root.evaluate(&[2.0_f64.to_bits()])?), 2.0_f64.sqrt());
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    sqrt = Sqrt;
    /// Builds `1 / x`: rounded to nearest even in `f64`, approximate in `f32` (`rcp.approx.ftz.f32`, within 1 unit in the last
    /// place for every input; PTX ISA 9.7.3.13). `1.0 / x` is rounded to nearest even in every type.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let inverse = Expr::input(0, Ty::F64).recip();
    /// assert_eq!(f64::from_bits(inverse.evaluate(&[4.0_f64.to_bits()])?), 0.25);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    recip = Rcp;
    /// Builds `1 / sqrt(x)`, approximate: `rsqrt.approx.ftz.f32` has a relative error of at most 2^-22.9 for every positive `x`;
    /// for `rsqrt.approx.f64` no bound is given (PTX ISA 9.7.3.16).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let inverse = Expr::input(0, Ty::F32).rsqrt();
    /// assert_eq!(f32::from_bits(inverse.evaluate(&[4.0_f32.to_bits().into()])? as u32), 0.5);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    rsqrt = Rsqrt;
    /// Builds `2^x`, approximate (`ex2.approx.ftz.f32`, within 2 units in the last place of the correctly rounded result for
    /// every input; PTX ISA 9.7.3.21).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let power = Expr::input(0, Ty::F32).exp2();
    /// assert_eq!(f32::from_bits(power.evaluate(&[3.0_f32.to_bits().into()])? as u32), 8.0);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    exp2 = Ex2;
    /// Builds the binary logarithm, approximate (`lg2.approx.ftz.f32`: within 2^-22 absolutely between 0.5 and 2, and within
    /// 2^-22 relatively for all other positive `x`; PTX ISA 9.7.3.20).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let log = Expr::input(0, Ty::F32).log2();
    /// assert_eq!(f32::from_bits(log.evaluate(&[8.0_f32.to_bits().into()])? as u32), 3.0);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    log2 = Lg2;
    /// Builds the sine, approximate: `sin.approx.ftz.f32` has an absolute error of at most 2^-20.5 between -2π and 2π, 2^-14.7
    /// between -100π and 100π, and no bound beyond (PTX ISA 9.7.3.18).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let sine = Expr::input(0, Ty::F32).sin();
    /// assert_eq!(sine.evaluate(&[0])?, 0);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    sin = Sin;
    /// Builds the cosine, approximate as the [sine](Expr::sin) is, with the same bounds (`cos.approx.ftz.f32`; PTX ISA
    /// 9.7.3.19).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let cosine = Expr::input(0, Ty::F32).cos();
    /// assert_eq!(f32::from_bits(cosine.evaluate(&[0])? as u32), 1.0);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    cos = Cos;
    /// Builds the hyperbolic tangent by one instruction: `tanh.approx.f32` has a relative error of at most 2^-11 for every input
    /// (PTX ISA 9.7.3.22). [`Expr::tanh`] is more accurate.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// assert_eq!(Expr::input(0, Ty::F32).tanh_approx().evaluate(&[0])?, 0);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    tanh_approx = Tanh;
}

macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident = $op:ident, $of_7_and_5:literal;)*) => {
        impl Expr {$(
            $(#[$doc])*
            ///
            /// ```
            /// # use colex_tensor::prelude::*;
            /// let x = Expr::input(0, Ty::S32);
            #[doc = concat!("let chosen = x.", stringify!($name), "(5).select(&x, 0);")]
            #[doc = concat!("assert_eq!(chosen.evaluate(&[7])?, ", $of_7_and_5, " * 7);")]
            /// # Ok::<(), colex_tensor::Error>(())
            /// ```
            #[track_caller]
            pub fn $name(&self, other: impl Into<Expr>) -> Mask {
                self.compare(Compare::$op, other.into())
            }
        )*}
    };
}

comparisons! {
    /// Builds the condition `self < other`, which does not hold for a NaN.
    lt = Lt, 0;
    /// Builds the condition `self <= other`, which does not hold for a NaN.
    le = Le, 0;
    /// Builds the condition `self > other`, which does not hold for a NaN.
    gt = Gt, 1;
    /// Builds the condition `self >= other`, which does not hold for a NaN.
    ge = Ge, 1;
    /// Builds the condition `self == other`, which does not hold for a NaN.
    equals = Eq, 0;
    /// Builds the condition that `self` and `other` differ, which holds for a NaN.
    differs = Neu, 1;
}

/// The polynomial of a variable by Horner's rule, from its coefficients, lowest power first.
#[track_caller]
fn polynomial(x: &Expr, coefficients: &[f64]) -> Expr {
    let mut powers = coefficients.iter().rev();
    let first = Expr::from(*powers.next().expect("a polynomial has a coefficient"));
    powers.fold(first, |sum, coefficient| x.fma(sum, *coefficient))
}

impl Expr {
    /// Builds the smaller of two elements; of a number and a NaN, the number.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// assert_eq!(Expr::input(0, Ty::U16).min(5).evaluate(&[7])?, 5);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn min(&self, other: impl Into<Expr>) -> Expr {
        Expr::binary(BinaryOp::Min, self, other)
    }

    /// Builds the larger of two elements; of a number and a NaN, the number.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// assert_eq!(Expr::input(0, Ty::U16).max(9).evaluate(&[7])?, 9);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn max(&self, other: impl Into<Expr>) -> Expr {
        Expr::binary(BinaryOp::Max, self, other)
    }

    /// Builds the smaller of two floats, or NaN if one of them is. Its instruction exists from Ampere on, for `f32` and 16-bit floats.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let least = Expr::input(0, Ty::F32).min_nan(Expr::input(1, Ty::F32));
    /// let of = |x: f32, y: f32| least.evaluate(&[x, y].map(|x| u64::from(x.to_bits())));
    /// assert_eq!(of(7.0, 5.0)?, u64::from(5_f32.to_bits()));
    /// assert!(f32::from_bits(of(7.0, f32::NAN)? as u32).is_nan());
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`](crate::Builder::finish) fails if an expression with this operation is used whose operands have two
    /// types, or are integers or of `f64`, or before Ampere.
    #[track_caller]
    pub fn min_nan(&self, other: impl Into<Expr>) -> Expr {
        Expr::binary(BinaryOp::MinNan, self, other)
    }

    /// Builds the larger of two floats, or NaN if one of them is. Its instruction exists from Ampere on, for `f32` and 16-bit floats.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let x = k.fragment(Ty::Bf16, "_4:_1");
    /// k.fill(&x, 1.0);
    /// k.assign(&x, Expr::from(&x).max_nan(2.0));
    /// assert!(k.finish()?.kernel.ptx()?.contains("max.NaN.bf16x2"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As of [`min_nan`](Expr::min_nan).
    #[track_caller]
    pub fn max_nan(&self, other: impl Into<Expr>) -> Expr {
        Expr::binary(BinaryOp::MaxNan, self, other)
    }

    /// Builds `self * factor + term`: rounded once in a float type, modulo 2^bits in an integer type.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// assert_eq!(Expr::input(0, Ty::S16).fma(3, 1).evaluate(&[7])?, 22);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`](crate::Builder::finish) fails if an expression with this operation is used whose operands have two
    /// types, or are of `bf16` before Ampere.
    #[track_caller]
    pub fn fma(&self, factor: impl Into<Expr>, term: impl Into<Expr>) -> Expr {
        let at = Location::caller();
        let all = [self.clone(), factor.into(), term.into()];
        let checked = common("fma", &[&all[0], &all[1], &all[2]]).and_then(|ty| {
            ty.map_or(Ok(()), |ty| super::check_type("fma", ty, None))
                .map(|()| ty)
        });
        match checked {
            Ok(ty) => Expr::new(ExprNode::Fma(all), ty, at),
            Err(kind) => Expr::poison(kind, at),
        }
    }

    /// Builds the element between `low` and `high`: `low` of a NaN.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// assert_eq!(Expr::input(0, Ty::S32).clamp(0, 6).evaluate(&[7])?, 6);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn clamp(&self, low: impl Into<Expr>, high: impl Into<Expr>) -> Expr {
        self.max(low).min(high)
    }

    /// Builds `max(x, 0)`: 0 of a NaN.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// assert_eq!(Expr::input(0, Ty::S8).relu().evaluate(&[0xfe])?, 0);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn relu(&self) -> Expr {
        self.max(0)
    }

    /// Builds the element rounded to nearest even in type `ty`; a float becomes an integer toward zero, and at the least or the
    /// largest integer beyond that, 0 of a NaN (of a binary64, or in 64 bits, the top bit alone; all ones in `U8` and `U16`); an integer becomes a narrower one modulo 2^bits.
    /// `f64` and integers become floats of less than 32 bits by way of `f32`. Numbers beyond the largest `e4m3` or `e5m2`
    /// become that (`satfinite`).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let x = Expr::input(0, Ty::F32);
    /// let bits = u64::from((-1.75_f32).to_bits());
    /// assert_eq!(x.to(Ty::S8).evaluate(&[bits])?, 0xff); // -1
    /// assert_eq!(x.to(Ty::F16).evaluate(&[bits])?, 0xbf00);
    /// assert_eq!(x.to(Ty::E4m3).evaluate(&[bits])?, 0xbe);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`](crate::Builder::finish) fails if an expression with this conversion is used for an element of less
    /// than 8 bits or a complex one, and for 8-bit floats before Ada (`sm_89`).
    #[track_caller]
    pub fn to(&self, ty: Ty) -> Expr {
        let into_integer = ty.is_integer() && self.ty().is_some_and(|from| !from.is_integer());
        let round = if into_integer {
            Round::Zero
        } else {
            Round::Nearest
        };
        self.converted(ty, round, Saturate::Wrap)
    }

    /// Builds the element converted as [`Expr::to`] does, rounded as `round` says. A float is rounded to a narrower one to
    /// nearest or toward zero (into 8-bit floats to nearest only), and to an integer in all four ways.
    ///
    /// ```
    /// # use colex_atom::Ty;
    /// # use colex_tensor::{Expr, Round};
    /// let x = Expr::input(0, Ty::F32);
    /// let bits = u64::from(2.5_f32.to_bits());
    /// assert_eq!(x.rounded(Ty::U8, Round::Nearest).evaluate(&[bits])?, 2);
    /// assert_eq!(x.rounded(Ty::U8, Round::Up).evaluate(&[bits])?, 3);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`](crate::Builder::finish) fails as for [`Expr::to`], and if the types have no such rounding.
    #[track_caller]
    pub fn rounded(&self, ty: Ty, round: Round) -> Expr {
        self.converted(ty, round, Saturate::Wrap)
    }

    /// Builds the element converted to nearest even; into a type of a smaller range, what lies beyond it becomes the least or the
    /// largest finite number. This is how a quantised output is stored: `(x * scale).saturating(Ty::S8)`.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// assert_eq!(Expr::input(0, Ty::S32).saturating(Ty::U8).evaluate(&[300])?, 255);
    /// let x = Expr::input(0, Ty::F32).saturating(Ty::F16);
    /// assert_eq!(x.evaluate(&[1e6_f32.to_bits().into()])?, 0x7bff);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`](crate::Builder::finish) fails as for [`Expr::to`].
    #[track_caller]
    pub fn saturating(&self, ty: Ty) -> Expr {
        self.converted(ty, Round::Nearest, Saturate::Clamp)
    }

    #[track_caller]
    pub(crate) fn converted(&self, ty: Ty, round: Round, saturate: Saturate) -> Expr {
        let at = Location::caller();
        let is_word = |ty: Ty| !matches!(ty.class(), Class::Complex { .. }) && ty.bits() >= 8;
        let from = self.ty();
        let refuse = |why: String| Expr::poison(ErrorKind::operands("convert", why), at);
        let from_name = from.map_or("a constant".to_string(), |from| from.to_string());
        if !is_word(ty) || from.is_some_and(|from| !is_word(from)) {
            return refuse(format!(
                "{from_name} to {ty}; floats and integers of 8 to 64 bits are converted into each other"
            ));
        }
        let to_integer = ty.is_integer();
        let from_float = from.is_none_or(|from| !from.is_integer());
        let exists = match round {
            Round::Nearest => true,
            Round::Zero if !from_float => false,
            Round::Zero => to_integer || !matches!(ty, Ty::E4m3 | Ty::E5m2 | Ty::Tf32),
            Round::Up | Round::Down => to_integer && from_float,
        };
        if !exists {
            return refuse(format!(
                "{from_name} to {ty}, rounded {}; to nearest it is",
                match round {
                    Round::Nearest => "to nearest",
                    Round::Zero => "toward zero",
                    Round::Up => "up",
                    Round::Down => "down",
                }
            ));
        }
        if from == Some(ty) {
            return self.clone();
        }
        Expr::new(
            ExprNode::Convert(self.clone(), round, saturate),
            Some(ty),
            at,
        )
    }

    /// What `function` makes of it in `f32`, rounded to its type.
    #[track_caller]
    fn in_f32(&self, function: impl FnOnce(&Expr) -> Expr) -> Expr {
        match self.ty() {
            Some(ty) if is_half(ty) => function(&self.to(Ty::F32)).to(ty),
            Some(ty) if ty != Ty::F32 => {
                let why =
                    format!("{ty}: the function is computed in f32, and `.to(Ty::F32)` converts");
                Expr::poison(ErrorKind::operands("expression", why), Location::caller())
            }
            _ => function(self),
        }
    }

    /// Builds `e^x` as `2^(x log2 e)` in `f32`, whose relative error grows with `|x|`: about `(2 + |x|) 2^-23`.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let power = Expr::input(0, Ty::F32).exp();
    /// assert_eq!(f32::from_bits(power.evaluate(&[0])? as u32), 1.0);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn exp(&self) -> Expr {
        self.in_f32(|x| (x * LOG2_E).exp2())
    }

    /// Builds the natural logarithm as `log2(x) ln 2` in `f32`, with the error of [`Expr::log2`].
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let log = Expr::input(0, Ty::F32).log();
    /// assert_eq!(f32::from_bits(log.evaluate(&[1.0_f32.to_bits().into()])? as u32), 0.0);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn log(&self) -> Expr {
        self.in_f32(|x| x.log2() * LN_2)
    }

    /// Builds `1 / (1 + e^-x)` in `f32`, within about 2^-21 of it relatively for `|x|` up to 16.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let half = Expr::input(0, Ty::F32).sigmoid();
    /// assert_eq!(f32::from_bits(half.evaluate(&[0])? as u32), 0.5);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn sigmoid(&self) -> Expr {
        self.in_f32(|x| (1.0 + (x * -LOG2_E).exp2()).recip())
    }

    /// Builds `x / (1 + e^-x)` (SiLU, swish) with the error of [`Expr::sigmoid`].
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// assert_eq!(Expr::input(0, Ty::F32).silu().evaluate(&[0])?, 0);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn silu(&self) -> Expr {
        self.in_f32(|x| x * x.sigmoid())
    }

    /// Builds the hyperbolic tangent as `1 - 2 / (1 + e^2x)` in `f32`, within 2^-21 absolutely.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let one = Expr::input(0, Ty::F32).tanh();
    /// assert_eq!(f32::from_bits(one.evaluate(&[100.0_f32.to_bits().into()])? as u32), 1.0);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn tanh(&self) -> Expr {
        self.in_f32(|x| {
            let denominator = 1.0 + (x * (2.0 * LOG2_E)).exp2();
            denominator.recip().fma(-2.0, 1.0)
        })
    }

    /// `erfc(z)` of `z >= 0`, within about 2^-20 relatively: `t 2^(P(t) - z^2 log2 e)` with `t = 1 / (1 + z / 2)`.
    #[track_caller]
    fn upper_tail(&self) -> Expr {
        let t = self.fma(0.5, 1.0).recip();
        let start = (self * self) * -LOG2_E;
        &t * (polynomial(&t, &ERFC) + start).exp2()
    }

    /// Builds the error function in `f32`, within 2^-20 absolutely.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let one = Expr::input(0, Ty::F32).erf();
    /// assert_eq!(f32::from_bits(one.evaluate(&[5.0_f32.to_bits().into()])? as u32), 1.0);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn erf(&self) -> Expr {
        self.in_f32(|x| {
            let inner = 1.0 - x.abs().upper_tail();
            x.lt(0.0).select(-&inner, &inner)
        })
    }

    /// Builds `x Φ(x)`, where `Φ` is the normal distribution: the exact form of GELU, in `f32`. From -8 up, where it is
    /// -5e-15, it is within 2^-16.7 relatively; below, within 2^-60 absolutely. It is infinity of infinity, and a NaN of a NaN
    /// and of -infinity.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let y = Expr::input(0, Ty::F32).gelu();
    /// let y = f32::from_bits(y.evaluate(&[1.0_f32.to_bits().into()])? as u32);
    /// assert!((y - 0.841_344_75).abs() < 1e-5);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn gelu(&self) -> Expr {
        self.in_f32(|x| {
            // An epilogue repeats these instructions for each accumulator: one power, and no division.
            let z = x.abs().min(TAIL_END);
            let tail = polynomial(&z, &LOG_TAIL).exp2();
            x * x.lt(0.0).select(&tail, tail.fma(-1.0, 1.0))
        })
    }

    /// Builds GELU in its tanh form, `x / 2 (1 + tanh(sqrt(2 / π) (x + 0.044715 x^3)))` (Hendrycks and Gimpel 2016), as
    /// `x / (1 + e^-2u)` in `f32`: `GELU_taylor` of CUTLASS.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let y = Expr::input(0, Ty::F32).gelu_tanh();
    /// let y = f32::from_bits(y.evaluate(&[1.0_f32.to_bits().into()])? as u32);
    /// assert!((y - 0.841_192).abs() < 1e-6);
    /// # Ok::<(), colex_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn gelu_tanh(&self) -> Expr {
        self.in_f32(|x| {
            let [root, cube] = [GELU[0], GELU[0] * GELU[1]].map(|factor| factor * -2.0 * LOG2_E);
            let power = (x * (x * x).fma(cube, root)).exp2(); // e^-2u
            x * (1.0 + power).recip()
        })
    }
}
