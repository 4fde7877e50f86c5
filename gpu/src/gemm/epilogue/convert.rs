//! Conversion of operands to the type of the product, and scaling and rounding of the results.

use colex_atom::Ty;

use colex_ir::{Reg, Type};
use colex_tensor::{Builder, Expr, Fragment, Round};

/// The accumulator type of products of a type.
pub(crate) fn sum_type(ab: Ty) -> Ty {
    match ab {
        Ty::F64 => Ty::F64,
        Ty::S8 | Ty::S32 => Ty::S32,
        _ => Ty::F32,
    }
}

/// The type of alpha and beta: binary32 for accumulators of binary32, else binary64, which holds every 32-bit integer.
pub(crate) fn scale_type(ab: Ty) -> Type {
    match sum_type(ab) {
        Ty::F32 => Type::F32,
        _ => Type::F64,
    }
}

/// The types that C may have.
pub(crate) fn outputs(ab: Ty) -> &'static [Ty] {
    match ab {
        Ty::F64 => &[Ty::F64],
        Ty::S8 | Ty::S32 => &[Ty::S32],
        _ => &[Ty::F32, Ty::F16, Ty::Bf16],
    }
}

/// `alpha sum + beta old` as numbers of type `c`, under the layout of `sum`: integers in binary64, rounded to nearest at the end.
pub(crate) fn scale_and_round(
    k: &mut Builder,
    c: Ty,
    sum: &Fragment,
    old: Option<&Fragment>,
    [alpha, beta]: [Reg; 2],
) -> Fragment {
    let wide = match sum.ty() {
        Ty::S32 => Ty::F64,
        ty => ty,
    };
    let of = |fragment: &Fragment| Expr::from(fragment).to(wide);
    let total = match old {
        None => of(sum) * alpha,
        Some(old) if wide == Ty::F64 && c == Ty::S32 => of(old).fma(beta, of(sum) * alpha),
        Some(old) => of(sum).fma(alpha, of(old) * beta),
    };
    let out = k.fragment(c, sum.layout());
    k.assign(&out, total.rounded(c, Round::Nearest));
    out
}
