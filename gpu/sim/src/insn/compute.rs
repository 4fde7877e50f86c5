//! Instructions from registers to registers.

use std::borrow::Cow;

use crate::lane::bits::{Lanes, lanes};
use crate::lane::convert::Cvt;
use crate::lane::lanewise::MANY;
use crate::lane::{convert, float, integer};
use crate::machine::exec::{Exec, low, map};
use crate::report::fault::{Fault, FaultKind};
use colex_ir::{Alu, BinaryOp, Compare, Guard, Operand, Reg, RegType, TernaryOp, Type, UnaryOp};

impl Exec<'_, '_, '_> {
    /// Executes an instruction that only computes.
    pub(crate) fn alu(&mut self, op: &Alu, mask: u32) -> Result<(), Fault> {
        match op {
            Alu::Mov { d, a } => self.mov(*d, *a, mask)?,
            Alu::Pack { d, parts } => self.pack(*d, parts, mask)?,
            Alu::Unpack { parts, a } => self.unpack(parts, *a, mask)?,
            Alu::Unary { op, ty, d, a } => self.unary(*op, *ty, *d, *a, mask)?,
            Alu::Binary { op, ty, d, a, b } => self.binary(*op, *ty, *d, [*a, *b], mask)?,
            Alu::Ternary { op, ty, d, a, b, c } => {
                self.ternary(*op, *ty, *d, [*a, *b, *c], mask)?
            }
            Alu::Lop3 { d, a, b, c, table } => {
                let [a, b, c] = self.values([*a, *b, *c], Type::B32, mask)?;
                let f = |l: usize| integer::lop3(a[l] as u32, b[l] as u32, c[l] as u32, *table);
                let values = map(|lane| u64::from(f(lane)), mask);
                self.set(*d, mask, &values)?;
            }
            Alu::Bfi {
                ty,
                d,
                a,
                b,
                start,
                length,
            } => {
                if !matches!(ty.bits(), 32 | 64) {
                    return Err(self.unsupported(format_args!("bfi of {ty}")));
                }
                let [a, b] = self.values([*a, *b], *ty, mask)?;
                let [start, length] = self.values([*start, *length], Type::U32, mask)?;
                let f = |l: usize| integer::insert(ty.bits(), a[l], b[l], start[l], length[l]);
                let values = map(f, mask);
                self.set(*d, mask, &values)?;
            }
            Alu::Setp { cmp, ty, p, a, b } => self.setp(*cmp, *ty, *p, [*a, *b], mask)?,
            Alu::PredLogic { op, p, a, b } => self.pred_logic(*op, *p, [*a, *b], mask)?,
            Alu::Selp { ty, d, a, b, p } => {
                let chosen = self.guard((*p).into(), mask)?;
                let a = self.value(*a, *ty, chosen)?;
                let b = self.value(*b, *ty, mask & !chosen)?;
                let pick = |lane: usize| match chosen >> lane & 1 {
                    1 => a[lane],
                    _ => b[lane],
                };
                let values = map(pick, mask);
                self.set(*d, mask, &values)?;
            }
            Alu::Cvt {
                to,
                from,
                rounding,
                saturate,
                d,
                a,
            } => {
                let cvt = Cvt {
                    to: *to,
                    from: *from,
                    rounding: *rounding,
                    saturate: *saturate,
                };
                self.cvt(cvt, *d, *a, mask)?;
            }
            Alu::CvtPack {
                to,
                relu,
                d,
                hi,
                lo,
                ..
            } => {
                let [hi, lo] = self.values([*hi, *lo], Type::F32, mask)?;
                if convert::pack(*to, *relu, 0, 0).is_none() {
                    return Err(self.unsupported(format_args!("a conversion into pairs of {to}")));
                }
                let values = map(
                    |l| convert::pack(*to, *relu, hi[l], lo[l]).unwrap_or(0),
                    mask,
                );
                self.set(*d, mask, &values)?;
            }
            Alu::Dp4a { signed, d, a, b, c } => {
                let [a, b, c] = self.values([*a, *b, *c], Type::B32, mask)?;
                let values = map(
                    |l| dp4a(*signed, a[l] as u32, b[l] as u32, c[l] as u32),
                    mask,
                );
                self.set(*d, mask, &values)?;
            }
        }
        Ok(())
    }

    /// Several operands of one type.
    pub(crate) fn values<const N: usize>(
        &self,
        operands: [Operand; N],
        ty: Type,
        mask: u32,
    ) -> Result<[[u64; 32]; N], Fault> {
        let mut values = [[0; 32]; N];
        for (value, operand) in values.iter_mut().zip(operands) {
            *value = self.value(operand, ty, mask)?;
        }
        Ok(values)
    }

    fn mov(&mut self, d: Reg, a: Operand, mask: u32) -> Result<(), Fault> {
        if d.ty == RegType::Pred {
            let holds = match a {
                Operand::Reg(a) => self.guard(a.into(), mask)?,
                Operand::Int(x) if x != 0 => mask,
                Operand::Int(_) | Operand::Float(_) | Operand::Special(_) => 0,
            };
            self.set_pred(d, mask, holds)?;
            return Ok(());
        }
        let values = self.value(a, untyped(d.ty), mask)?;
        self.set(d, mask, &values)
    }

    /// An operand without a copy of a register's lanes.
    fn operand(&self, operand: Operand, ty: Type, mask: u32) -> Result<Cow<'_, Lanes>, Fault> {
        Ok(match operand {
            Operand::Reg(reg) if reg.ty != RegType::Pred => Cow::Borrowed(self.reg(reg, mask)?),
            Operand::Reg(_) | Operand::Int(_) | Operand::Float(_) | Operand::Special(_) => {
                Cow::Owned(self.value(operand, ty, mask)?)
            }
        })
    }

    fn pack(&mut self, d: Reg, parts: &[Reg], mask: u32) -> Result<(), Fault> {
        let mut values = [0; 32];
        for (i, part) in parts.iter().enumerate() {
            let width = part.ty.bits();
            let part = self.reg(*part, mask)?;
            for (value, part) in values.iter_mut().zip(part) {
                *value |= (part & low(width)) << (i as u32 * width).min(63);
            }
        }
        self.set(d, mask, &values)
    }

    fn unpack(&mut self, parts: &[Reg], a: Reg, mask: u32) -> Result<(), Fault> {
        let whole = *self.reg(a, mask)?;
        for (i, part) in parts.iter().enumerate() {
            let width = part.ty.bits();
            let values = whole.map(|x| x >> (i as u32 * width).min(63) & low(width));
            self.set(*part, mask, &values)?;
        }
        Ok(())
    }

    fn unary(&mut self, op: UnaryOp, ty: Type, d: Reg, a: Operand, mask: u32) -> Result<(), Fault> {
        if d.ty == RegType::Pred {
            let a = self.value(a, Type::B32, mask)?;
            let holds = (0..32).fold(0, |m, lane| m | u32::from(a[lane] == 0) << lane);
            self.set_pred(d, mask, holds)?;
            return Ok(());
        }
        let scalar = float::half_of(ty).unwrap_or(ty);
        let f = if ty.is_float() {
            float::unary(op, scalar)
        } else {
            integer::unary(op, ty)
        };
        let f = f.ok_or_else(|| self.unsupported(format_args!("{} of {ty}", op.ptx())))?;
        let a = self.operand(a, ty, mask)?;
        let a = &*a;
        let values = if scalar != ty {
            in_halves(|half| (f.all)(&half(a)))
        } else if mask.count_ones() < MANY {
            map(|lane| (f.one)(a[lane]), mask)
        } else {
            (f.all)(a)
        };
        self.set(d, mask, &values)
    }

    fn binary(
        &mut self,
        op: BinaryOp,
        ty: Type,
        d: Reg,
        [a, b]: [Operand; 2],
        mask: u32,
    ) -> Result<(), Fault> {
        let scalar = float::half_of(ty).unwrap_or(ty);
        let f = if ty.is_float() {
            float::binary(op, scalar)
        } else {
            integer::binary(op, ty)
        };
        let f = f.ok_or_else(|| self.unsupported(format_args!("{} of {ty}", op.ptx())))?;
        let a = self.operand(a, ty, mask)?;
        let b = self.operand(b, op.second(ty), mask)?;
        let (a, b) = (&*a, &*b);
        let values = if scalar != ty {
            in_halves(|half| (f.all)(&half(a), &half(b)))
        } else if mask.count_ones() < MANY {
            map(|lane| (f.one)(a[lane], b[lane]), mask)
        } else {
            (f.all)(a, b)
        };
        self.set(d, mask, &values)
    }

    fn ternary(
        &mut self,
        op: TernaryOp,
        ty: Type,
        d: Reg,
        [a, b, c]: [Operand; 3],
        mask: u32,
    ) -> Result<(), Fault> {
        let scalar = float::half_of(ty).unwrap_or(ty);
        let f = if ty.is_float() {
            float::ternary(op, scalar)
        } else {
            integer::ternary(op, ty)
        };
        let f = f.ok_or_else(|| self.unsupported(format_args!("{} of {ty}", op.ptx())))?;
        let [ta, tb, tc] = op.operands(ty);
        let a = self.operand(a, ta, mask)?;
        let b = self.operand(b, tb, mask)?;
        let c = self.operand(c, tc, mask)?;
        let (a, b, c) = (&*a, &*b, &*c);
        let keep = low(d.ty.bits());
        let values = if scalar != ty {
            in_halves(|half| (f.all)(&half(a), &half(b), &half(c)))
        } else if mask.count_ones() < MANY {
            map(|lane| (f.one)(a[lane], b[lane], c[lane]) & keep, mask)
        } else {
            (f.all)(a, b, c).map(|x| x & keep)
        };
        self.set(d, mask, &values)
    }

    fn setp(
        &mut self,
        cmp: Compare,
        ty: Type,
        p: Reg,
        operands: [Operand; 2],
        mask: u32,
    ) -> Result<(), Fault> {
        let f = if ty.is_float() {
            float::compare(cmp, ty)
        } else {
            integer::compare(cmp, ty)
        };
        let f = f.ok_or_else(|| self.unsupported(format_args!("setp.{} of {ty}", cmp.ptx())))?;
        let [a, b] = operands;
        let a = self.operand(a, ty, mask)?;
        let b = self.operand(b, ty, mask)?;
        let (a, b) = (&*a, &*b);
        let holds = if mask.count_ones() < MANY {
            let bit = |lane: usize| u32::from((f.one)(a[lane], b[lane])) << lane;
            lanes(mask).fold(0, |holds, lane| holds | bit(lane))
        } else {
            (f.all)(a, b)
        };
        self.set_pred(p, mask, holds)?;
        Ok(())
    }

    fn pred_logic(
        &mut self,
        op: BinaryOp,
        p: Reg,
        [a, b]: [Guard; 2],
        mask: u32,
    ) -> Result<(), Fault> {
        use BinaryOp::{
            Add, And, Div, Max, MaxNan, Min, MinNan, Mul, MulHi, MulWide, Or, Rem, Shl, Shr, Sub,
            Xor,
        };
        let (a, b) = (self.guard(a, mask)?, self.guard(b, mask)?);
        let holds = match op {
            And => a & b,
            Or => a | b,
            Xor => a ^ b,
            Add | Sub | Mul | MulHi | MulWide | Div | Rem | Min | Max | MinNan | MaxNan | Shl
            | Shr => {
                return Err(self.unsupported(format_args!("{} of predicates", op.ptx())));
            }
        };
        self.set_pred(p, mask, holds)?;
        Ok(())
    }

    fn cvt(&mut self, cvt: Cvt, d: Reg, a: Operand, mask: u32) -> Result<(), Fault> {
        let (to, from) = (cvt.to, cvt.from);
        let a = self.value(a, from, mask)?;
        let bits = d.ty.bits();
        let one = |lane: usize| match (from, to) {
            (Type::E4m3x2 | Type::E5m2x2, Type::F16x2) => convert::widen_pair(from, a[lane]),
            (Type::F16x2, Type::E4m3x2 | Type::E5m2x2) => convert::narrow_pair(to, a[lane]),
            _ => cvt.apply(a[lane], bits),
        };
        if one(0).is_none() {
            return Err(self.fault_warp(
                FaultKind::Unsupported,
                format!("the simulator does not execute a conversion from {from} to {to}"),
            ));
        }
        let values = map(|lane| one(lane).unwrap_or(0), mask);
        self.set(d, mask, &values)
    }
}

/// The type as which a register's bits are moved.
fn untyped(ty: RegType) -> Type {
    match ty {
        RegType::Pred => Type::Pred,
        RegType::B16 => Type::B16,
        RegType::B32 => Type::B32,
        RegType::B64 => Type::B64,
        RegType::F32 => Type::F32,
        RegType::F64 => Type::F64,
    }
}

/// A function of 16 bits on each half of 32: `f` is given what picks the half.
fn in_halves(f: impl Fn(fn(&Lanes) -> Lanes) -> Lanes) -> Lanes {
    let low = f(|x| x.map(|x| x & 0xffff));
    let high = f(|x| x.map(|x| x >> 16 & 0xffff));
    core::array::from_fn(|lane| low[lane] | high[lane] << 16)
}

/// The sum of `c` and of four products of bytes, modulo 2^32 (PTX ISA 9.7.1, `dp4a`).
fn dp4a(signed: [bool; 2], a: u32, b: u32, c: u32) -> u64 {
    let byte = |signed: bool, byte: u8| {
        if signed {
            i32::from(byte as i8)
        } else {
            i32::from(byte)
        }
    };
    let pairs = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    let products = pairs.map(|(a, b)| byte(signed[0], a) * byte(signed[1], b));
    u64::from(c.wrapping_add(products.sum::<i32>() as u32))
}
