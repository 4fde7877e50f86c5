//! Registers and constants of an instruction: their classes, widths and ranges.

use super::Findings;
use super::problem::Problem;
use crate::{Float, FloatPair, Guard, Kernel, Operand, Reg, RegType, Row, Type};

/// Checks every operand that has a type of its own; addresses and atoms are checked elsewhere.
pub(super) fn check(row: &Row<'_>, found: &mut Findings<'_>) {
    if let Some((parts, whole, false)) = row.pieces {
        let mnemonic = found.mnemonic();
        found.add(Problem::Parts {
            mnemonic,
            parts,
            whole,
        });
    }
    for slot in &row.slots {
        let Some(ty) = slot.ty else { continue };
        for reg in slot.arg.writes() {
            check_operand(slot.role, reg.into(), ty, found);
        }
        slot.arg
            .each_source(|operand| check_operand(slot.role, operand, ty, found));
    }
    for slot in &row.slots {
        let Some((last, right)) = slot.most else {
            continue;
        };
        for operand in slot.arg.sources() {
            if integer(operand).is_some_and(|value| !(0..=last).contains(&value)) {
                found.add(Problem::Constant {
                    mnemonic: found.mnemonic(),
                    value: operand,
                    right: right.to_string(),
                });
            }
        }
    }
}

fn integer(operand: Operand) -> Option<i64> {
    match operand {
        Operand::Int(value) => Some(value),
        Operand::Reg(_) | Operand::Float(_) | Operand::Special(_) => None,
    }
}

/// Registers that exist.
pub(super) fn known(kernel: &Kernel, reg: Reg, found: &mut Findings<'_>) {
    let count = kernel.count(reg.ty);
    if reg.index >= count {
        found.add(Problem::Foreign {
            what: format!("register {reg}"),
            count: count as usize,
        });
    }
}

/// A guard's predicate is one.
pub(super) fn guard(guard: Guard, found: &mut Findings<'_>) {
    check_operand("guard", guard.pred.into(), Type::Pred, found);
}

fn check_operand(role: &'static str, operand: Operand, ty: Type, found: &mut Findings<'_>) {
    match operand {
        Operand::Reg(reg) if !holds(reg.ty, ty) => found.add(Problem::Class {
            mnemonic: found.mnemonic(),
            role,
            reg,
            takes: classes(ty),
        }),
        Operand::Special(special) if special.axis().is_some_and(|axis| axis > 2) => {
            found.add(Problem::Axis {
                mnemonic: found.mnemonic(),
                special: operand,
            });
        }
        Operand::Special(special) if !holds(special.register(), ty) => {
            found.add(Problem::SpecialWidth {
                mnemonic: found.mnemonic(),
                special: operand,
                is: special.register(),
            });
        }
        Operand::Int(_) | Operand::Float(_) => {
            if let Err(right) = fits(operand, ty) {
                found.add(Problem::Constant {
                    mnemonic: found.mnemonic(),
                    value: operand,
                    right,
                });
            }
        }
        Operand::Reg(_) | Operand::Special(_) => {}
    }
}

/// Whether a register of that class can be read or written in that type.
pub(super) fn holds(class: RegType, ty: Type) -> bool {
    use Type::{
        B8, B16, B32, B64, B128, Bf16, Bf16x2, E4m3x2, E5m2x2, F16, F16x2, F32, F64, Pred, S8, S16,
        S32, S64, Tf32, U8, U16, U32, U64,
    };
    match ty {
        Pred => class == RegType::Pred,
        B8 | U8 | S8 => class == RegType::B16,
        B128 => false,
        F32 => matches!(class, RegType::F32 | RegType::B32),
        F64 => matches!(class, RegType::F64 | RegType::B64),
        B16 | B32 | B64 => class != RegType::Pred && class.bits() == ty.bits(),
        U16 | S16 | F16 | Bf16 | U32 | S32 | Tf32 | F16x2 | Bf16x2 | E4m3x2 | E5m2x2 | U64
        | S64 => class == ty.register(),
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
        Operand::Float(value) if ty.is_float() => {
            if !value.is_finite() || value.abs() <= largest(ty) {
                Ok(())
            } else {
                Err(format!("the largest {ty} is {:e}", largest(ty)))
            }
        }
        Operand::Float(_) => Err(format!("{ty} is no floating-point type")),
        Operand::Int(value) if ty.is_float() => Err(format!("write {:?}", value as f64)),
        Operand::Int(value) if ty == Type::Pred => match value {
            0 | 1 => Ok(()),
            _ => Err("a predicate is 0 or 1".into()),
        },
        Operand::Int(_) if ty == Type::B128 => Err("no instruction holds 128 bits".into()),
        Operand::Int(value) => {
            let (low, high) = range(ty);
            if i128::from(value) >= low && i128::from(value) <= high {
                Ok(())
            } else {
                Err(format!("{ty} goes from {low} to {high}"))
            }
        }
        Operand::Reg(_) | Operand::Special(_) => Ok(()),
    }
}

/// Signed and unsigned constants of the same bits are both taken.
fn range(ty: Type) -> (i128, i128) {
    let bits = ty.bits();
    (-(1 << (bits - 1)), (1 << bits) - 1)
}

fn largest(ty: Type) -> f64 {
    match (ty.float(), ty.float_pair()) {
        (Some(Float::F64), _) => f64::MAX,
        (Some(Float::F16), _) | (_, Some(FloatPair::F16x2)) => 65504.0,
        (Some(Float::Bf16), _) | (_, Some(FloatPair::Bf16x2)) => {
            f64::from(f32::from_bits(0x7f7f_0000))
        }
        (_, Some(FloatPair::E4m3x2)) => 448.0,
        (_, Some(FloatPair::E5m2x2)) => 57344.0,
        (Some(Float::F32 | Float::Tf32) | None, None) => f64::from(f32::MAX),
    }
}
