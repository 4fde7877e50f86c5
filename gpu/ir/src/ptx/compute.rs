//! Arithmetic and logic.

use super::names::{Lines, predicate, registers, vector};
use crate::{
    Address, Base, BinaryOp, Guard, Op, Operand, ParamType, Reg, RegType, TernaryOp, Type, UnaryOp,
};

impl Lines<'_> {
    /// Writes an arithmetic instruction; false if it is of another kind.
    pub(super) fn compute(&mut self, op: &Op) -> bool {
        match op {
            Op::Mov { d, a } => self.mov(*d, *a),
            Op::AddressOf { d, a } => self.address_of(*d, *a),
            Op::Pack { d, parts } => {
                let parts = vector(&registers(parts));
                self.push(format!("mov.b{} {d}, {parts};", d.ty.bits()));
            }
            Op::Unpack { parts, a } => {
                let parts = vector(&registers(parts));
                self.push(format!("mov.b{} {parts}, {a};", a.ty.bits()));
            }
            Op::Unary { op, ty, d, a } => {
                let a = self.operand(*a, *ty);
                self.push(format!("{} {d}, {a};", unary(*op, *ty)));
            }
            Op::Binary { op, ty, d, a, b } => {
                let shift = matches!(op, BinaryOp::Shl | BinaryOp::Shr);
                let (a, b) = (
                    self.operand(*a, *ty),
                    self.operand(*b, if shift { Type::U32 } else { *ty }),
                );
                self.push(format!("{} {d}, {a}, {b};", binary(*op, *ty)));
            }
            Op::Ternary { op, ty, d, a, b, c } => {
                let types = ternary_types(*op, *ty);
                let [a, b, c] = [(a, types[0]), (b, types[1]), (c, types[2])]
                    .map(|(operand, ty)| self.operand(*operand, ty));
                self.push(format!("{} {d}, {a}, {b}, {c};", ternary(*op, *ty)));
            }
            Op::Lop3 { d, a, b, c, table } => {
                let [a, b, c] = [a, b, c].map(|operand| self.operand(*operand, Type::B32));
                self.push(format!("lop3.b32 {d}, {a}, {b}, {c}, {table:#04x};"));
            }
            Op::Bfi {
                ty,
                d,
                a,
                b,
                start,
                length,
            } => {
                let [a, b] = [a, b].map(|operand| self.operand(*operand, *ty));
                let [start, length] =
                    [start, length].map(|operand| self.operand(*operand, Type::U32));
                self.push(format!(
                    "bfi.b{} {d}, {a}, {b}, {start}, {length};",
                    ty.bits()
                ));
            }
            Op::Setp { cmp, ty, p, a, b } => {
                let [a, b] = [a, b].map(|operand| self.operand(*operand, *ty));
                self.push(format!("setp.{}.{ty} {p}, {a}, {b};", cmp.ptx()));
            }
            Op::PredLogic { op, p, a, b } => self.predicate_logic(*op, *p, *a, *b),
            Op::Selp { ty, d, a, b, p } => {
                let [a, b] = [a, b].map(|operand| self.operand(*operand, *ty));
                self.push(format!("selp.{} {d}, {a}, {b}, {p};", moved(*ty)));
            }
            _ => return self.convert(op),
        }
        true
    }

    fn mov(&mut self, d: Reg, a: Operand) {
        let line = match a {
            Operand::Special(special) => {
                format!("mov.u{} {d}, {special};", special.register().bits())
            }
            Operand::Reg(a) if a.ty == d.ty => format!("mov.{} {d}, {a};", d.ty),
            Operand::Float(_) => {
                let ty = if d.ty == RegType::F64 {
                    Type::F64
                } else {
                    Type::F32
                };
                format!("mov.{} {d}, {};", d.ty, self.operand(a, ty))
            }
            _ => {
                let word = match d.ty {
                    RegType::Pred => "pred".to_string(),
                    ty => format!("b{}", ty.bits()),
                };
                format!("mov.{word} {d}, {};", self.operand(a, Type::B32))
            }
        };
        self.push(line);
    }

    /// A 32-bit register gets an address in its space, a 64-bit register a generic one.
    fn address_of(&mut self, d: Reg, a: Address) {
        let text = self.address(a);
        match a.base {
            Base::Reg(base) => {
                self.push(format!("add.s{} {d}, {base}, {};", d.ty.bits(), a.offset));
            }
            Base::Param(id) => {
                let map = self.kernel.params.get(id.index());
                self.push(format!("mov.b64 {d}, {text};"));
                if map.is_some_and(|param| param.ty == ParamType::TensorMap) {
                    self.push(format!("cvta.param.u64 {d}, {d};"));
                }
            }
            _ if d.ty.bits() == 64 => {
                self.push(format!("mov.b64 {d}, {text};"));
                self.push(format!("cvta.shared.u64 {d}, {d};"));
            }
            _ => self.push(format!("mov.b32 {d}, {text};")),
        }
    }

    /// `not` of a predicate reads `a` alone.
    fn predicate_logic(&mut self, op: BinaryOp, p: Reg, a: Guard, b: Guard) {
        let line = match op {
            BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => {
                format!("{}.pred {p}, {}, {};", op.ptx(), predicate(a), predicate(b))
            }
            _ => format!("mov.pred {p}, {};", predicate(a)),
        };
        self.push(line);
    }
}

/// The opcode of an instruction with one source.
fn unary(op: UnaryOp, ty: Type) -> String {
    let word = op.ptx();
    match op {
        UnaryOp::Neg | UnaryOp::Abs if !ty.is_float() => format!("{word}.s{}", ty.bits()),
        UnaryOp::Not if ty == Type::Pred => "not.pred".to_string(),
        UnaryOp::Not | UnaryOp::Popc | UnaryOp::Clz | UnaryOp::Brev => {
            format!("{word}.b{}", ty.bits())
        }
        UnaryOp::Bfind => format!("{word}.{}{}", sign(ty), ty.bits()),
        UnaryOp::Rcp if ty == Type::F32 => "rcp.approx.ftz.f32".to_string(),
        UnaryOp::Rcp | UnaryOp::Sqrt => format!("{word}.rn.{ty}"),
        UnaryOp::Rsqrt | UnaryOp::Ex2 | UnaryOp::Lg2 | UnaryOp::Sin | UnaryOp::Cos
            if ty == Type::F32 =>
        {
            format!("{word}.ftz.f32")
        }
        UnaryOp::Ex2 if matches!(ty, Type::Bf16 | Type::Bf16x2) => format!("{word}.ftz.{ty}"),
        _ => format!("{word}.{ty}"),
    }
}

/// The opcode of an instruction with two sources.
fn binary(op: BinaryOp, ty: Type) -> String {
    let word = op.ptx();
    let bits = ty.bits();
    match op {
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => match ty {
            Type::Pred => format!("{word}.pred"),
            _ => format!("{word}.b{bits}"),
        },
        BinaryOp::Shl => format!("shl.b{bits}"),
        BinaryOp::Shr => format!("shr.{}{bits}", sign(ty)),
        BinaryOp::Min | BinaryOp::Max if ty.is_float() => format!("{word}.{ty}"),
        _ if ty.is_float() => format!("{word}.rn.{ty}"),
        BinaryOp::Mul => format!("mul.lo.{}{bits}", sign(ty)),
        _ => format!("{word}.{}{bits}", sign(ty)),
    }
}

/// The opcode of an instruction with three sources.
fn ternary(op: TernaryOp, ty: Type) -> String {
    let word = op.ptx();
    match op {
        TernaryOp::Fma => format!("{word}.{ty}"),
        TernaryOp::Prmt | TernaryOp::ShfL | TernaryOp::ShfR => format!("{word}.b32"),
        _ => format!("{word}.{}{}", sign(ty), ty.bits()),
    }
}

/// The types that its three sources are read in.
pub fn ternary_types(op: TernaryOp, ty: Type) -> [Type; 3] {
    let wide = match (ty.bits(), ty.is_signed()) {
        (16, false) => Type::U32,
        (16, true) => Type::S32,
        (_, false) => Type::U64,
        (_, true) => Type::S64,
    };
    match op {
        TernaryOp::MadWide => [ty, ty, wide],
        TernaryOp::Bfe => [ty, Type::U32, Type::U32],
        TernaryOp::ShfL | TernaryOp::ShfR => [Type::B32, Type::B32, Type::U32],
        TernaryOp::Prmt => [Type::B32; 3],
        _ => [ty; 3],
    }
}

/// The letter of an integer type: untyped bits count as unsigned.
fn sign(ty: Type) -> char {
    if ty.is_signed() { 's' } else { 'u' }
}

/// The word of a type where bits are only moved.
pub(super) fn moved(ty: Type) -> String {
    match ty {
        Type::F32 | Type::F64 => ty.to_string(),
        _ if ty.is_float() => format!("b{}", ty.bits()),
        _ => ty.to_string(),
    }
}
