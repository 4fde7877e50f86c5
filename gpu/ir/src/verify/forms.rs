//! Which instructions exist for which types (PTX ISA 9.7).

use crate::{AtomicOp, BinaryOp, Compare, Op, Rounding, TernaryOp, Type, UnaryOp};
use Type::*;

const UNSIGNED: &[Type] = &[U16, U32, U64];
const SIGNED: &[Type] = &[S16, S32, S64];
const INTEGERS: &[Type] = &[U16, U32, U64, S16, S32, S64];
const INTEGERS_TO_32: &[Type] = &[U16, U32, S16, S32];
const INTEGERS_FROM_32: &[Type] = &[U32, U64, S32, S64];
const BITS: &[Type] = &[B16, B32, B64];
const BITS_FROM_32: &[Type] = &[B32, B64];
const WORDS: &[Type] = &[B32, U32, S32];
const SINGLES: &[Type] = &[F32, F64];
const HALVES: &[Type] = &[F16, F16x2, Bf16, Bf16x2];
const SCALAR_HALVES: &[Type] = &[F16, Bf16];

/// Says what is wrong with the types of an instruction: the forms that exist.
pub(super) fn check(op: &Op) -> Result<(), String> {
    let lists = match op {
        Op::Unary { op, ty, .. } => return among(*ty, unary(*op)),
        Op::Binary { op, ty, .. } => return among(*ty, &binary(*op)),
        Op::Ternary { op, ty, .. } => return among(*ty, &ternary(*op)),
        Op::Setp { cmp, ty, .. } => return among(*ty, &compare(*cmp)),
        Op::Selp { ty, .. } => return narrow(*ty),
        Op::Bfi { ty, .. } => return among(*ty, &[BITS_FROM_32, INTEGERS_FROM_32]),
        Op::Cvt {
            to,
            from,
            rounding,
            saturate,
            ..
        } => return convert(*to, *from, *rounding, *saturate),
        Op::CvtPack { to, from, relu, .. } => return convert_pair(*to, *from, *relu),
        Op::PredLogic { op, .. } => (*op, &[BinaryOp::And, BinaryOp::Or, BinaryOp::Xor][..]),
        Op::Redux { op, ty, .. } => return redux(*op, *ty),
        Op::Atomic { op, ty, t, .. } => {
            if t.is_some() != (*op == AtomicOp::Cas) {
                return Err("only `cas` takes a second value, and it needs one".into());
            }
            return among(*ty, &atomic(*op));
        }
        Op::Reduce { op, ty, s, .. } => return reduce(*op, *ty, s.len()),
        Op::CreatePolicy {
            primary, fraction, ..
        } => return policy(primary, *fraction),
        _ => return Ok(()),
    };
    let (op, all) = lists;
    if all.contains(&op) {
        Ok(())
    } else {
        Err("predicates have `and`, `or` and `xor`".into())
    }
}

fn among(ty: Type, lists: &[&[Type]]) -> Result<(), String> {
    if lists.iter().any(|list| list.contains(&ty)) {
        return Ok(());
    }
    let names: Vec<&str> = lists
        .iter()
        .flat_map(|list| list.iter().map(|ty| ty.ptx()))
        .collect();
    Err(match names.split_last() {
        Some((last, [])) => format!("it is for {last} only"),
        Some((last, before)) => format!("it is for {} and {last}", before.join(", ")),
        None => "there is no such instruction".into(),
    })
}

fn unary(op: UnaryOp) -> &'static [&'static [Type]] {
    match op {
        UnaryOp::Neg => &[UNSIGNED, SIGNED, HALVES, SINGLES],
        UnaryOp::Abs => &[SIGNED, HALVES, SINGLES],
        UnaryOp::Not => &[&[Pred], BITS, INTEGERS],
        UnaryOp::Popc | UnaryOp::Clz | UnaryOp::Brev => &[BITS_FROM_32, INTEGERS_FROM_32],
        UnaryOp::Bfind => &[INTEGERS_FROM_32],
        UnaryOp::Rcp | UnaryOp::Sqrt | UnaryOp::Rsqrt => &[SINGLES],
        UnaryOp::Ex2 | UnaryOp::Tanh => &[HALVES, &[F32]],
        UnaryOp::Lg2 | UnaryOp::Sin | UnaryOp::Cos => &[&[F32]],
    }
}

fn binary(op: BinaryOp) -> Vec<&'static [Type]> {
    match op {
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Min | BinaryOp::Max => {
            vec![INTEGERS, HALVES, SINGLES]
        }
        BinaryOp::MulHi | BinaryOp::Rem => vec![INTEGERS],
        BinaryOp::MulWide => vec![INTEGERS_TO_32],
        BinaryOp::Div => vec![INTEGERS, SINGLES],
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => vec![&[Pred], BITS, INTEGERS],
        BinaryOp::Shl | BinaryOp::Shr => vec![BITS, INTEGERS],
    }
}

fn ternary(op: TernaryOp) -> Vec<&'static [Type]> {
    match op {
        TernaryOp::Mad | TernaryOp::MadHi => vec![INTEGERS],
        TernaryOp::MadWide => vec![INTEGERS_TO_32],
        TernaryOp::Fma => vec![HALVES, SINGLES],
        TernaryOp::Prmt | TernaryOp::ShfL | TernaryOp::ShfR => vec![WORDS],
        TernaryOp::Bfe => vec![INTEGERS_FROM_32],
    }
}

fn compare(cmp: Compare) -> Vec<&'static [Type]> {
    match cmp {
        Compare::Eq | Compare::Ne => vec![BITS, INTEGERS, SCALAR_HALVES, SINGLES],
        Compare::Lt | Compare::Le | Compare::Gt | Compare::Ge => {
            vec![INTEGERS, SCALAR_HALVES, SINGLES]
        }
        _ => vec![SCALAR_HALVES, SINGLES],
    }
}

fn narrow(ty: Type) -> Result<(), String> {
    match ty.bits() {
        16 | 32 | 64 => Ok(()),
        _ => Err("it is for types of 16, 32 and 64 bits".into()),
    }
}

fn redux(op: BinaryOp, ty: Type) -> Result<(), String> {
    match op {
        BinaryOp::Add | BinaryOp::Min | BinaryOp::Max => among(ty, &[&[U32, S32]]),
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => among(ty, &[WORDS]),
        _ => Err("`redux` has add, min, max, and, or and xor".into()),
    }
}

fn atomic(op: AtomicOp) -> Vec<&'static [Type]> {
    match op {
        AtomicOp::Add => vec![&[U32, S32, U64], HALVES, SINGLES],
        AtomicOp::Min | AtomicOp::Max => vec![INTEGERS_FROM_32],
        AtomicOp::Inc | AtomicOp::Dec => vec![&[U32]],
        AtomicOp::And | AtomicOp::Or | AtomicOp::Xor | AtomicOp::Exch => {
            vec![BITS_FROM_32, INTEGERS_FROM_32]
        }
        AtomicOp::Cas => vec![BITS, INTEGERS],
    }
}

fn reduce(op: AtomicOp, ty: Type, count: usize) -> Result<(), String> {
    let paired = matches!(ty, F16x2 | Bf16x2);
    let least = matches!(op, AtomicOp::Min | AtomicOp::Max);
    match (op, count) {
        (AtomicOp::Exch | AtomicOp::Cas, _) => {
            Err("`red` forgets the old value, so it has no exch and no cas".into())
        }
        (_, 1) => among(ty, &atomic(op)),
        (AtomicOp::Add, 2 | 4) if ty == F32 => Ok(()),
        (AtomicOp::Add, 2 | 4) if paired => Ok(()),
        (_, 2 | 4) if paired && least => Ok(()),
        (AtomicOp::Add, 2 | 4 | 8) if SCALAR_HALVES.contains(&ty) => Ok(()),
        (_, 2 | 4 | 8) if SCALAR_HALVES.contains(&ty) && least => Ok(()),
        _ => Err("vectors add 2 or 4 of f32, and add, min or max 2 or 4 of f16x2 and bf16x2, or 2, 4 or 8 of f16 and bf16".into()),
    }
}

fn policy(primary: &str, fraction: f32) -> Result<(), String> {
    let known = [
        "evict_last",
        "evict_normal",
        "evict_first",
        "evict_unchanged",
    ];
    match known.contains(&primary) && fraction > 0.0 && fraction <= 1.0 {
        true => Ok(()),
        false => Err("a policy is evict_last, evict_normal, evict_first or evict_unchanged for a fraction above 0 and up to 1".into()),
    }
}

fn convert_pair(to: Type, from: Type, relu: bool) -> Result<(), String> {
    let _ = relu;
    match (to, from) {
        (F16x2 | Bf16x2 | E4m3x2 | E5m2x2, F32) => Ok(()),
        _ => Err("two f32 become f16x2, bf16x2, e4m3x2 or e5m2x2".into()),
    }
}

fn convert(to: Type, from: Type, rounding: Option<Rounding>, saturate: bool) -> Result<(), String> {
    use Rounding::{Rmi, Rn, Rna, Rni, Rpi, Rz, Rzi};
    let integer = |ty: Type| matches!(ty, U8 | S8) || INTEGERS.contains(&ty);
    let float = |ty: Type| SCALAR_HALVES.contains(&ty) || SINGLES.contains(&ty);
    let to_integer = matches!(rounding, Some(Rni | Rzi | Rmi | Rpi));
    let to_float = matches!(rounding, Some(Rn | Rz));
    let wanted = |ok: bool, why: &str| if ok { Ok(()) } else { Err(why.to_string()) };
    match (to, from) {
        (F16x2, E4m3x2 | E5m2x2) | (E4m3x2 | E5m2x2, F16x2) => {
            wanted(rounding == Some(Rn) && !saturate, "it rounds to nearest (rn)")
        }
        (Tf32, F32) => wanted(
            matches!(rounding, Some(Rna | Rn | Rz)) && !saturate,
            "it rounds by rna, rn or rz",
        ),
        _ if integer(to) && integer(from) => wanted(
            rounding.is_none() && !(saturate && contains(to, from)),
            "between integers nothing is rounded, and only what may not fit saturates",
        ),
        _ if [to, from].contains(&Bf16) && [to, from].iter().any(|ty| ty.bits() == 8) => {
            wanted(false, "bf16 and integers of 8 bits become each other by way of a wider type")
        }
        _ if integer(to) && float(from) => wanted(
            to_integer && !(saturate && from == Bf16),
            "a float becomes an integer by rni, rzi, rmi or rpi",
        ),
        _ if float(to) && integer(from) => wanted(
            to_float && !(saturate && to == Bf16),
            "an integer becomes a float by rn or rz",
        ),
        _ if float(to) && float(from) => float_to_float(to, from, rounding, saturate),
        _ => Err("conversions are between integers of 8 to 64 bits, f16, bf16, f32 and f64, from f32 to tf32, and between f16x2 and e4m3x2 or e5m2x2".into()),
    }
}

fn float_to_float(
    to: Type,
    from: Type,
    rounding: Option<Rounding>,
    saturate: bool,
) -> Result<(), String> {
    use Rounding::{Rmi, Rn, Rni, Rpi, Rz, Rzi};
    let same = to == from;
    let widens = to.bits() > from.bits();
    match rounding {
        Some(Rni | Rzi | Rmi | Rpi) if same && to != Bf16 => Ok(()),
        None if same && to != Bf16 => Ok(()),
        None if widens && !(saturate && (to == Bf16 || from == Bf16)) => Ok(()),
        Some(Rn | Rz) if to.bits() < from.bits() && !(saturate && to == Bf16) => Ok(()),
        Some(Rn | Rz) if !same && to.bits() == from.bits() && !saturate => Ok(()),
        _ if same => Err("a float is rounded to an integer by rni, rzi, rmi or rpi".into()),
        _ if widens => Err("a wider float holds it exactly: no rounding".into()),
        _ => Err("a narrower float needs rn or rz".into()),
    }
}

/// Whether an integer type holds every value of another.
fn contains(to: Type, from: Type) -> bool {
    match (to.is_signed(), from.is_signed()) {
        (true, true) | (false, false) => to.bits() >= from.bits(),
        (true, false) => to.bits() > from.bits(),
        (false, true) => false,
    }
}
