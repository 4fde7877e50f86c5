//! Arithmetic and logic.

use super::names::{Lines, predicate, registers, vector};
use crate::{
    Address, Alu, Base, BinaryOp, Guard, Operand, ParamType, Reg, RegType, Rounding, TernaryOp,
    Type, UnaryOp,
};

impl Lines<'_> {
    /// Writes an arithmetic instruction.
    pub(super) fn alu(&mut self, op: &Alu) {
        match op {
            Alu::Mov { d, a } => self.mov(*d, *a),
            Alu::Pack { d, parts } => {
                let parts = vector(&registers(parts));
                self.push(format!("mov.b{} {d}, {parts};", d.ty.bits()));
            }
            Alu::Unpack { parts, a } => {
                let parts = vector(&registers(parts));
                self.push(format!("mov.b{} {parts}, {a};", a.ty.bits()));
            }
            Alu::Unary { op, ty, d, a } => {
                let a = self.operand(*a, *ty);
                self.push(format!("{} {d}, {a};", unary(*op, *ty)));
            }
            Alu::Binary { op, ty, d, a, b } => {
                let a = self.operand(*a, *ty);
                let b = self.operand(*b, op.second(*ty));
                self.push(format!("{} {d}, {a}, {b};", binary(*op, *ty)));
            }
            Alu::Ternary { op, ty, d, a, b, c } => {
                let types = op.operands(*ty);
                let [a, b, c] = [(a, types[0]), (b, types[1]), (c, types[2])]
                    .map(|(operand, ty)| self.operand(*operand, ty));
                self.push(format!("{} {d}, {a}, {b}, {c};", ternary(*op, *ty)));
            }
            Alu::Lop3 { d, a, b, c, table } => {
                let [a, b, c] = [a, b, c].map(|operand| self.operand(*operand, Type::B32));
                self.push(format!("lop3.b32 {d}, {a}, {b}, {c}, {table:#04x};"));
            }
            Alu::Bfi {
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
            Alu::Setp { cmp, ty, p, a, b } => {
                let [a, b] = [a, b].map(|operand| self.operand(*operand, *ty));
                self.push(format!("setp.{}.{ty} {p}, {a}, {b};", cmp.ptx()));
            }
            Alu::PredLogic { op, p, a, b } => self.predicate_logic(*op, *p, *a, *b),
            Alu::Selp { ty, d, a, b, p } => {
                let [a, b] = [a, b].map(|operand| self.operand(*operand, *ty));
                self.push(format!("selp.{} {d}, {a}, {b}, {p};", moved(*ty)));
            }
            Alu::Cvt {
                to,
                from,
                rounding,
                saturate,
                d,
                a,
            } => {
                let a = self.operand(*a, *from);
                self.push(format!(
                    "{} {d}, {a};",
                    cvt(*to, *from, *rounding, *saturate)
                ));
            }
            Alu::CvtPack {
                to,
                from,
                relu,
                d,
                hi,
                lo,
            } => {
                let [hi, lo] = [hi, lo].map(|operand| self.operand(*operand, *from));
                let finite = if to.is_fp8_pair() { ".satfinite" } else { "" };
                let relu = if *relu { ".relu" } else { "" };
                self.push(format!("cvt.rn{finite}{relu}.{to}.{from} {d}, {hi}, {lo};"));
            }
        }
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
            Operand::Reg(_) | Operand::Int(_) => {
                let word = if d.ty == RegType::Pred {
                    "pred".to_string()
                } else {
                    format!("b{}", d.ty.bits())
                };
                format!("mov.{word} {d}, {};", self.operand(a, Type::B32))
            }
        };
        self.push(line);
    }

    /// A 32-bit register gets an address in its space, a 64-bit register a generic one.
    pub(super) fn address_of(&mut self, d: Reg, a: Address) {
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
            Base::Shared(_) | Base::DynamicShared if d.ty.bits() == 64 => {
                self.push(format!("mov.b64 {d}, {text};"));
                self.push(format!("cvta.shared.u64 {d}, {d};"));
            }
            Base::Shared(_) | Base::DynamicShared => self.push(format!("mov.b32 {d}, {text};")),
        }
    }

    /// `not` of a predicate reads `a` alone.
    fn predicate_logic(&mut self, op: BinaryOp, p: Reg, a: Guard, b: Guard) {
        let line = match op {
            BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => {
                format!("{}.pred {p}, {}, {};", op.ptx(), predicate(a), predicate(b))
            }
            BinaryOp::Add
            | BinaryOp::Sub
            | BinaryOp::Mul
            | BinaryOp::MulHi
            | BinaryOp::MulWide
            | BinaryOp::Div
            | BinaryOp::Rem
            | BinaryOp::Min
            | BinaryOp::Max
            | BinaryOp::Shl
            | BinaryOp::Shr => format!("mov.pred {p}, {};", predicate(a)),
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
        UnaryOp::Ex2 if ty.is_bf16() => format!("{word}.ftz.{ty}"),
        UnaryOp::Neg
        | UnaryOp::Abs
        | UnaryOp::Rsqrt
        | UnaryOp::Ex2
        | UnaryOp::Lg2
        | UnaryOp::Sin
        | UnaryOp::Cos
        | UnaryOp::Tanh => format!("{word}.{ty}"),
    }
}

/// The opcode of an instruction with two sources.
fn binary(op: BinaryOp, ty: Type) -> String {
    let word = op.ptx();
    let bits = ty.bits();
    match op {
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor if ty == Type::Pred => format!("{word}.pred"),
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => format!("{word}.b{bits}"),
        BinaryOp::Shl => format!("shl.b{bits}"),
        BinaryOp::Shr => format!("shr.{}{bits}", sign(ty)),
        BinaryOp::Min | BinaryOp::Max if ty.is_float() => format!("{word}.{ty}"),
        BinaryOp::Add
        | BinaryOp::Sub
        | BinaryOp::Mul
        | BinaryOp::MulHi
        | BinaryOp::MulWide
        | BinaryOp::Div
        | BinaryOp::Rem
            if ty.is_float() =>
        {
            format!("{word}.rn.{ty}")
        }
        BinaryOp::Mul => format!("mul.lo.{}{bits}", sign(ty)),
        BinaryOp::Add
        | BinaryOp::Sub
        | BinaryOp::MulHi
        | BinaryOp::MulWide
        | BinaryOp::Div
        | BinaryOp::Rem
        | BinaryOp::Min
        | BinaryOp::Max => format!("{word}.{}{bits}", sign(ty)),
    }
}

/// The opcode of an instruction with three sources.
fn ternary(op: TernaryOp, ty: Type) -> String {
    let word = op.ptx();
    match op {
        TernaryOp::Fma => format!("{word}.{ty}"),
        TernaryOp::Prmt | TernaryOp::ShfL | TernaryOp::ShfR => format!("{word}.b32"),
        TernaryOp::Mad | TernaryOp::MadHi | TernaryOp::MadWide | TernaryOp::Bfe => {
            format!("{word}.{}{}", sign(ty), ty.bits())
        }
    }
}

fn cvt(to: Type, from: Type, rounding: Option<Rounding>, saturate: bool) -> String {
    let rounding = rounding.map_or(String::new(), |rounding| format!(".{}", rounding.ptx()));
    let saturate = match saturate {
        true => ".sat",
        false if to.is_fp8_pair() => ".satfinite",
        false => "",
    };
    format!("cvt{rounding}{saturate}.{to}.{from}")
}

/// The letter of an integer type: untyped bits count as unsigned.
fn sign(ty: Type) -> char {
    if ty.is_signed() { 's' } else { 'u' }
}

/// The word of a type where bits are only moved.
pub(super) fn moved(ty: Type) -> String {
    if ty.is_float() && ![Type::F32, Type::F64].contains(&ty) {
        format!("b{}", ty.bits())
    } else {
        ty.to_string()
    }
}
