//! Registers and constants of an instruction: their classes, widths and ranges.

use super::Found;
use super::problem::Problem;
use crate::ptx::ternary_types;
use crate::{
    BinaryOp, Guard, Kernel, Op, Operand, Reg, RegType, TernaryOp, Type, UnaryOp, VoteMode,
};

/// One operand and the type it is read or written in.
struct Slot {
    role: &'static str,
    operand: Operand,
    ty: Type,
}

/// Checks every operand that has a type of its own; addresses and atoms are checked elsewhere.
pub(super) fn check(op: &Op, found: &mut Found<'_>) {
    match op {
        Op::Mov { d, a } => return mov(*d, *a, found),
        Op::Pack { d, parts } => return parts_of(*d, parts, found),
        Op::Unpack { parts, a } => return parts_of(*a, parts, found),
        _ => {}
    }
    for slot in slots(op) {
        check_slot(&slot, found);
    }
    for (operand, last, right) in narrow(op) {
        match operand {
            Operand::Int(value) if !(0..=last).contains(&value) => found.add(Problem::Constant {
                word: found.word(),
                value: operand,
                right: right.to_string(),
            }),
            _ => {}
        }
    }
}

/// Operands of which a constant goes from 0 to less than their type holds: the last, and the sentence.
fn narrow(op: &Op) -> Vec<(Operand, i64, &'static str)> {
    let field = |operand: &Operand| (*operand, 255, "bits are counted from 0 to 255");
    let phase = |operand: &Operand| (*operand, 1, "a parity is 0 or 1");
    match op {
        Op::Ternary {
            op: TernaryOp::Bfe,
            b,
            c,
            ..
        } => vec![field(b), field(c)],
        Op::Bfi { start, length, .. } => vec![field(start), field(length)],
        Op::MbarrierTry { parity, .. } | Op::MbarrierWait { parity, .. } => vec![phase(parity)],
        _ => Vec::new(),
    }
}

/// Registers that exist.
pub(super) fn known(kernel: &Kernel, reg: Reg, found: &mut Found<'_>) {
    let count = kernel.count(reg.ty);
    if reg.index >= count {
        found.add(Problem::Foreign {
            what: format!("register {reg}"),
            count: count as usize,
        });
    }
}

/// A guard's predicate is one.
pub(super) fn guard(guard: Guard, found: &mut Found<'_>) {
    check_slot(&slot("guard", guard.pred, Type::Pred), found);
}

fn slot(role: &'static str, operand: impl Into<Operand>, ty: Type) -> Slot {
    Slot {
        role,
        operand: operand.into(),
        ty,
    }
}

fn slots(op: &Op) -> Vec<Slot> {
    let d = |reg: &Reg, ty| slot("destination", *reg, ty);
    let s = |operand: &Operand, ty| slot("source", *operand, ty);
    match op {
        Op::Unary { op, ty, d: dst, a } => {
            let counts = matches!(op, UnaryOp::Popc | UnaryOp::Clz | UnaryOp::Bfind);
            let to = if counts { Type::U32 } else { *ty };
            vec![d(dst, to), s(a, *ty)]
        }
        Op::Binary {
            op,
            ty,
            d: dst,
            a,
            b,
        } => {
            let shift = matches!(op, BinaryOp::Shl | BinaryOp::Shr);
            let to = if *op == BinaryOp::MulWide {
                wide(*ty)
            } else {
                *ty
            };
            let b = s(b, if shift { Type::U32 } else { *ty });
            vec![d(dst, to), s(a, *ty), b]
        }
        Op::Ternary {
            op,
            ty,
            d: dst,
            a,
            b,
            c,
        } => {
            let types = ternary_types(*op, *ty);
            let to = match op {
                TernaryOp::MadWide => types[2],
                _ => *ty,
            };
            vec![d(dst, to), s(a, types[0]), s(b, types[1]), s(c, types[2])]
        }
        Op::Lop3 {
            d: dst, a, b, c, ..
        } => {
            let ty = Type::B32;
            vec![d(dst, ty), s(a, ty), s(b, ty), s(c, ty)]
        }
        Op::Bfi {
            ty,
            d: dst,
            a,
            b,
            start,
            length,
        } => vec![
            d(dst, *ty),
            s(a, *ty),
            s(b, *ty),
            s(start, Type::U32),
            s(length, Type::U32),
        ],
        Op::Setp { ty, p, a, b, .. } => vec![d(p, Type::Pred), s(a, *ty), s(b, *ty)],
        Op::PredLogic { p, a, b, .. } => [*p, a.pred, b.pred]
            .map(|reg| slot("predicate", reg, Type::Pred))
            .into(),
        Op::Selp {
            ty,
            d: dst,
            a,
            b,
            p,
        } => vec![
            d(dst, *ty),
            s(a, *ty),
            s(b, *ty),
            slot("predicate", *p, Type::Pred),
        ],
        Op::Cvt {
            to,
            from,
            d: dst,
            a,
            ..
        } => vec![d(dst, *to), s(a, *from)],
        Op::CvtPack {
            to,
            from,
            d: dst,
            hi,
            lo,
            ..
        } => vec![d(dst, *to), s(hi, *from), s(lo, *from)],
        Op::If { p, .. } => vec![slot("condition", p.pred, Type::Pred)],
        _ => memory_slots(op),
    }
}

fn memory_slots(op: &Op) -> Vec<Slot> {
    let d = |reg: &Reg, ty| slot("destination", *reg, ty);
    let s = |operand: &Operand, ty| slot("source", *operand, ty);
    let policy = |reg: Option<Reg>| reg.map(|reg| slot("cache policy", reg, Type::B64));
    match op {
        Op::Load { access, d: dst, .. } => {
            let loaded = dst.iter().map(|reg| d(reg, access.ty));
            loaded.chain(policy(access.policy)).collect()
        }
        Op::Store { access, s: src, .. } => {
            let stored = src.iter().map(|operand| s(operand, access.ty));
            stored.chain(policy(access.policy)).collect()
        }
        Op::Atomic {
            ty,
            d: dst,
            s: src,
            t,
            ..
        } => {
            let sources = [Some(src), t.as_ref()].into_iter().flatten();
            let sources = sources.map(|operand| s(operand, *ty));
            [d(dst, *ty)].into_iter().chain(sources).collect()
        }
        Op::Reduce { ty, s: src, .. } => src.iter().map(|operand| s(operand, *ty)).collect(),
        Op::Mapa { d: dst, a, rank } => {
            vec![d(dst, Type::U32), s(a, Type::U32), s(rank, Type::U32)]
        }
        Op::Cvta { d: dst, a, .. } => vec![d(dst, Type::U64), s(a, Type::U64)],
        Op::CreatePolicy { d: dst, .. } => vec![d(dst, Type::B64)],
        Op::AddressOf { d: dst, .. } => match dst.ty {
            RegType::B64 => vec![d(dst, Type::B64)],
            _ => vec![d(dst, Type::U32)],
        },
        _ => sync_slots(op),
    }
}

fn sync_slots(op: &Op) -> Vec<Slot> {
    let number = |operand: &Operand| slot("source", *operand, Type::U32);
    let mask = |operand: &Operand| slot("mask", *operand, Type::U32);
    match op {
        Op::Shuffle {
            d,
            p,
            a,
            lane,
            clamp,
            mask: lanes,
            ..
        } => {
            let p = p.map(|p| slot("predicate", p, Type::Pred));
            let rest = [
                slot("destination", *d, Type::B32),
                slot("source", *a, Type::B32),
                slot("lane", *lane, Type::U32),
                number(clamp),
                mask(lanes),
            ];
            rest.into_iter().chain(p).collect()
        }
        Op::Vote {
            mode,
            d,
            p,
            mask: lanes,
        } => {
            let to = match mode {
                VoteMode::Ballot => Type::B32,
                _ => Type::Pred,
            };
            vec![
                slot("destination", *d, to),
                slot("predicate", p.pred, Type::Pred),
                mask(lanes),
            ]
        }
        Op::Redux {
            ty,
            d,
            a,
            mask: lanes,
            ..
        } => vec![
            slot("destination", *d, *ty),
            slot("source", *a, *ty),
            mask(lanes),
        ],
        Op::Elect { p, mask: lanes } => vec![slot("destination", *p, Type::Pred), mask(lanes)],
        Op::ActiveMask { d } => vec![slot("destination", *d, Type::B32)],
        Op::WarpSync { mask: lanes } => vec![mask(lanes)],
        Op::MbarrierTry { p, parity, .. } => {
            vec![slot("destination", *p, Type::Pred), number(parity)]
        }
        Op::Barrier { .. }
        | Op::MbarrierInit { .. }
        | Op::MbarrierArrive { .. }
        | Op::MbarrierExpect { .. }
        | Op::MbarrierWait { .. }
        | Op::NanoSleep { .. } => op.parts().sources.iter().map(number).collect(),
        _ => Vec::new(),
    }
}

fn wide(ty: Type) -> Type {
    ternary_types(TernaryOp::MadWide, ty)[2]
}

fn check_slot(slot: &Slot, found: &mut Found<'_>) {
    let ty = slot.ty;
    match slot.operand {
        Operand::Reg(reg) if !holds(reg.ty, ty) => found.add(Problem::Class {
            word: found.word(),
            role: slot.role,
            reg,
            takes: classes(ty),
        }),
        Operand::Special(special) if special.axis().is_some_and(|axis| axis > 2) => {
            found.add(Problem::Axis {
                word: found.word(),
                special: slot.operand,
            });
        }
        Operand::Special(special) if !holds(special.register(), ty) => {
            found.add(Problem::SpecialWidth {
                word: found.word(),
                special: slot.operand,
                is: special.register(),
            });
        }
        Operand::Int(_) | Operand::Float(_) => {
            if let Err(right) = fits(slot.operand, ty) {
                found.add(Problem::Constant {
                    word: found.word(),
                    value: slot.operand,
                    right,
                });
            }
        }
        _ => {}
    }
}

/// Whether a register of that class can be read or written in that type.
pub(super) fn holds(class: RegType, ty: Type) -> bool {
    match ty {
        Type::Pred => class == RegType::Pred,
        Type::B8 | Type::U8 | Type::S8 => class == RegType::B16,
        Type::B128 => false,
        Type::F32 => matches!(class, RegType::F32 | RegType::B32),
        Type::F64 => matches!(class, RegType::F64 | RegType::B64),
        Type::B16 | Type::B32 | Type::B64 => class != RegType::Pred && class.bits() == ty.bits(),
        _ => class == ty.register(),
    }
}

/// The classes that hold a type, in words.
fn classes(ty: Type) -> String {
    let all: Vec<&str> = (RegType::ALL.into_iter())
        .filter(|class| holds(*class, ty))
        .map(RegType::ptx)
        .collect();
    match all.as_slice() {
        [] => "no register".to_string(),
        all => format!("a register of class {}", all.join(" or ")),
    }
}

/// Whether a constant can be written in a type; if not, what would be right.
fn fits(value: Operand, ty: Type) -> Result<(), String> {
    match value {
        Operand::Float(value) if ty.is_float() => match ty.constant(value) {
            _ if !value.is_finite() || value.abs() <= largest(ty) => Ok(()),
            _ => Err(format!("the largest {ty} is {:e}", largest(ty))),
        },
        Operand::Float(_) => Err(format!("{ty} is no floating-point type")),
        Operand::Int(value) if ty.is_float() => Err(format!("write {:?}", value as f64)),
        Operand::Int(value) if ty == Type::Pred => match value {
            0 | 1 => Ok(()),
            _ => Err("a predicate is 0 or 1".into()),
        },
        Operand::Int(_) if ty == Type::B128 => Err("no instruction holds 128 bits".into()),
        Operand::Int(value) => {
            let (low, high) = range(ty);
            match i128::from(value) >= low && i128::from(value) <= high {
                true => Ok(()),
                false => Err(format!("{ty} goes from {low} to {high}")),
            }
        }
        _ => Ok(()),
    }
}

/// Signed and unsigned constants of the same bits are both taken.
fn range(ty: Type) -> (i128, i128) {
    let bits = ty.bits();
    (-(1 << (bits - 1)), (1 << bits) - 1)
}

fn largest(ty: Type) -> f64 {
    match ty {
        Type::F64 => f64::MAX,
        Type::F16 | Type::F16x2 => 65504.0,
        Type::E4m3x2 => 448.0,
        Type::E5m2x2 => 57344.0,
        Type::Bf16 | Type::Bf16x2 => f64::from(f32::from_bits(0x7f7f_0000)),
        _ => f64::from(f32::MAX),
    }
}

/// `mov` takes its type from its destination.
fn mov(d: Reg, a: Operand, found: &mut Found<'_>) {
    let ty = d.ty.untyped();
    match a {
        Operand::Float(_) if d.ty == RegType::B32 => {
            check_slot(&slot("source", a, Type::F32), found);
        }
        _ => check_slot(&slot("source", a, ty), found),
    }
}

fn parts_of(whole: Reg, parts: &[Reg], found: &mut Found<'_>) {
    let bits: u32 = parts.iter().map(|part| part.ty.bits()).sum();
    let alike = parts
        .windows(2)
        .all(|pair| pair[0].ty.bits() == pair[1].ty.bits());
    let right = alike && matches!(parts.len(), 2 | 4) && bits == whole.ty.bits();
    if !right {
        found.add(Problem::Parts {
            word: found.word(),
            parts: bits,
            whole: whole.ty.bits(),
        });
    }
}
