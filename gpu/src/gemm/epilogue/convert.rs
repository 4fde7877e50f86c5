//! Conversion of operands to the type of the product, and scaling and rounding of the results.

use colex_atom::{Arch, Ty};

use colex_ir::{Alu, BinaryOp, Compare, Reg, Rounding, TernaryOp, Type};
use colex_tensor::{Builder, Fragment};

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

/// Numbers in the order of their registers, as numbers of the type that they are summed in.
pub(crate) fn convert_operand(k: &mut Builder, from: &Fragment, to: Ty) -> Fragment {
    if from.ty() == to || !matches!(from.ty(), Ty::S8 | Ty::Bf16) {
        return k.convert(from, to);
    }
    let wide = k.fragment(to, from.layout());
    let packed = from.packed() as usize;
    let parts = from
        .regs()
        .iter()
        .flat_map(|reg| (0..packed).map(move |i| (*reg, i)));
    k.emit(|k| {
        for ((reg, place), d) in parts.zip(wide.regs()) {
            match from.ty() {
                Ty::S8 => {
                    // A shift to the top and an arithmetic shift down extend the sign.
                    let up = k.shl(Type::B32, reg, 24 - 8 * place as i64);
                    k.binary_to(BinaryOp::Shr, Type::S32, *d, up, 24);
                }
                _ => {
                    // The bits of a bf16 are the upper half of the binary32. Before Ampere no instruction converts it.
                    let bits = match place {
                        0 => k.shl(Type::B32, reg, 16),
                        _ => k.and(Type::B32, reg, 0xffff_0000u32),
                    };
                    k.mov_to(*d, bits);
                }
            }
        }
    });
    wide
}

/// `alpha sum + beta old` as numbers of type `c`; `sum` and `old` may be overwritten.
pub(crate) fn scale_and_round(
    k: &mut Builder,
    c: Ty,
    sum: &Fragment,
    old: Option<&Fragment>,
    [alpha, beta]: [Reg; 2],
) -> Fragment {
    if sum.ty() == Ty::S32 {
        return integers(k, sum, old, [alpha, beta]);
    }
    let total = match old {
        None => {
            k.axpby(alpha, sum, None, sum);
            sum.clone()
        }
        Some(old) => {
            let old = convert_operand(k, old, sum.ty());
            k.axpby(alpha, sum, Some(beta.into()), &old);
            old
        }
    };
    match c {
        // Since Ampere one instruction rounds two numbers.
        Ty::Bf16 if k.target() < Arch::Sm80 => rounded(k, &total),
        Ty::F16 if k.target() < Arch::Sm80 => halves(k, &total),
        _ => k.convert(&total, c),
    }
}

/// Rounds numbers of binary32 to the nearest f16, one by one.
fn halves(k: &mut Builder, from: &Fragment) -> Fragment {
    let out = k.fragment(Ty::F16, from.layout());
    k.emit(|k| {
        for (pair, d) in from.regs().chunks(2).zip(out.regs()) {
            let mut parts: Vec<Reg> = pair
                .iter()
                .map(|x| k.cvt(Type::F16, Type::F32, *x))
                .collect();
            if parts.len() == 1 {
                parts.push(k.mov(Type::B16, 0));
            }
            k.push(Alu::Pack { d: *d, parts });
        }
    });
    out
}

/// Rounds numbers of binary32 to the nearest bf16, ties to even, on architectures without such an instruction.
fn rounded(k: &mut Builder, from: &Fragment) -> Fragment {
    let out = k.fragment(Ty::Bf16, from.layout());
    k.emit(|k| {
        for (pair, d) in from.regs().chunks(2).zip(out.regs()) {
            let mut halves = Vec::new();
            for x in pair {
                let bits = k.mov(Type::B32, *x);
                let last = k.shr(Type::U32, bits, 16);
                let odd = k.and(Type::B32, last, 1);
                let half = k.add(Type::U32, odd, 0x7fff);
                let up = k.add(Type::U32, bits, half);
                let nan = k.setp(Compare::Nan, Type::F32, *x, *x);
                halves.push(k.selp(Type::B32, 0x7fff_0000u32, up, nan));
            }
            let low = k.shr(Type::U32, halves[0], 16);
            let high = match halves.get(1) {
                Some(high) => k.and(Type::B32, *high, 0xffff_0000u32),
                None => k.mov(Type::B32, 0),
            };
            k.binary_to(BinaryOp::Or, Type::B32, *d, low, high);
        }
    });
    out
}

/// Scales integers: in binary64, rounded to the nearest integer at the end.
fn integers(
    k: &mut Builder,
    sum: &Fragment,
    old: Option<&Fragment>,
    [alpha, beta]: [Reg; 2],
) -> Fragment {
    let out = k.fragment(Ty::S32, sum.layout());
    k.emit(|k| {
        for (i, (x, d)) in sum.regs().iter().zip(out.regs()).enumerate() {
            let x = k.cvt(Type::F64, Type::S32, *x);
            let mut y = k.mul(Type::F64, x, alpha);
            if let Some(old) = old.and_then(|old| old.regs().get(i)) {
                let z = k.cvt(Type::F64, Type::S32, *old);
                y = k.ternary(TernaryOp::Fma, Type::F64, z, beta, y);
            }
            k.cvt_to(*d, Type::S32, Type::F64, Rounding::Rni, y);
        }
    });
    out
}
