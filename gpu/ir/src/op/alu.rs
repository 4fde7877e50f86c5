//! Instructions from registers to registers of one thread (PTX ISA 9.7.1 to 9.7.8).

use crate::build::KernelBuilder;
use crate::modifiers::{BinaryOp, Compare, Rounding, TernaryOp, UnaryOp};
use crate::needs::Needs;
use crate::operand::{Operand, Reg};
use crate::row::{Arg, EXISTS, Formula, Ptx, Row, Word};
use crate::stmt::Guard;
use crate::ty::{RegType, Type, bits_word};
use crate::types::{
    BITS, BITS_FROM_32, HALVES, INTEGERS, INTEGERS_FROM_32, INTEGERS_TO_32, SCALAR_HALVES, SIGNED,
    SINGLES, UNSIGNED, WORDS, among,
};
use colex_atom::Arch;
use core::slice::from_ref;

/// An instruction from registers to registers of one thread.
#[cfg_attr(new_op = "outside", non_exhaustive)]
#[derive(Clone, Debug, PartialEq)]
#[allow(
    missing_docs,
    reason = "fields are PTX's: d the destination, a b c the sources, p a predicate"
)]
pub enum Alu {
    /// `mov`
    Mov { d: Reg, a: Operand },
    /// `mov` of narrower registers into a wider one, lowest first.
    Pack { d: Reg, parts: Vec<Reg> },
    /// `mov` of a wide register into narrower ones, lowest first.
    Unpack { parts: Vec<Reg>, a: Reg },
    Unary {
        op: UnaryOp,
        ty: Type,
        d: Reg,
        a: Operand,
    },
    Binary {
        op: BinaryOp,
        ty: Type,
        d: Reg,
        a: Operand,
        b: Operand,
    },
    Ternary {
        op: TernaryOp,
        ty: Type,
        d: Reg,
        a: Operand,
        b: Operand,
        c: Operand,
    },
    /// `lop3`: any function of three bits, by its truth table.
    Lop3 {
        d: Reg,
        a: Operand,
        b: Operand,
        c: Operand,
        table: u8,
    },
    /// `bfi`: `length` bits of `a` into `b` at bit `start`.
    Bfi {
        ty: Type,
        d: Reg,
        a: Operand,
        b: Operand,
        start: Operand,
        length: Operand,
    },
    /// `setp`
    Setp {
        cmp: Compare,
        ty: Type,
        p: Reg,
        a: Operand,
        b: Operand,
    },
    /// `and`, `or`, `xor` or `not` (no `b`) of predicates.
    PredLogic {
        op: BinaryOp,
        p: Reg,
        a: Guard,
        b: Guard,
    },
    /// `selp`: `a` where `p`, else `b`.
    Selp {
        ty: Type,
        d: Reg,
        a: Operand,
        b: Operand,
        p: Reg,
    },
    /// `cvt`
    Cvt {
        to: Type,
        from: Type,
        rounding: Option<Rounding>,
        saturate: bool,
        d: Reg,
        a: Operand,
    },
    /// `cvt` of two numbers into a packed pair.
    CvtPack {
        to: Type,
        from: Type,
        relu: bool,
        d: Reg,
        hi: Operand,
        lo: Operand,
    },
    /// `dp4a`: four products of bytes, signed or not, added to `c`.
    Dp4a {
        signed: [bool; 2],
        d: Reg,
        a: Operand,
        b: Operand,
        c: Operand,
    },
    /// A variant that no `match` knows: `cargo xtask verify` sees that the compiler names every place that has to.
    #[cfg(new_op = "inside")]
    New,
}

/// The sentence on the position and the length of a bit field.
const FIELD: &str = "bits are counted from 0 to 255";

impl Alu {
    /// The row of the instruction.
    pub(crate) fn row(&self) -> Row<'_> {
        match self {
            Alu::Mov { d, a } => Row::alone("mov", Ptx::Mov { d: *d, a: *a }, Needs::BASE, EXISTS)
                .formula(Formula::Copy(a))
                .slot("destination", Arg::Write(from_ref(d)), None)
                .s(a, moved(*d, *a)),
            Alu::Pack { d, parts } => Row {
                pieces: Some(pieces(parts, *d)),
                ..Row::alone(
                    "pack",
                    Word::of(&["mov.", bits_word(d.ty.bits())]),
                    Needs::BASE,
                    EXISTS,
                )
            }
            .function()
            .slot("destination", Arg::Write(from_ref(d)), None)
            .regs("source", parts, None),
            Alu::Unpack { parts, a } => Row {
                pieces: Some(pieces(parts, *a)),
                ..Row::alone(
                    "unpack",
                    Word::of(&["mov.", bits_word(a.ty.bits())]),
                    Needs::BASE,
                    EXISTS,
                )
            }
            .function()
            .slot("destination", Arg::Write(parts), None)
            .regs("source", from_ref(a), None),
            Alu::Unary { op, ty, d, a } => {
                let mnemonic = Word::of(&[op.ptx(), ".", ty.ptx()]);
                Row::alone(
                    mnemonic,
                    op.opcode(*ty),
                    op.needs(*ty),
                    among(*ty, op.types()),
                )
                .function()
                .d(d, op.result(*ty))
                .s(a, *ty)
            }
            Alu::Binary { op, ty, d, a, b } => {
                let mnemonic = Word::of(&[op.ptx(), ".", ty.ptx()]);
                Row::alone(
                    mnemonic,
                    op.opcode(*ty),
                    op.needs(*ty),
                    among(*ty, op.types()),
                )
                .formula(Formula::Binary(*op, *ty, a, b))
                .d(d, op.result(*ty))
                .s(a, *ty)
                .s(b, op.second(*ty))
            }
            Alu::Ternary { op, ty, d, a, b, c } => {
                let types = op.operands(*ty);
                let mnemonic = Word::of(&[op.ptx(), ".", ty.ptx()]);
                let form = among(*ty, op.types());
                let row = Row::alone(mnemonic, op.opcode(*ty), op.needs(*ty), form);
                let row = row.d(d, op.result(*ty)).s(a, types[0]).s(b, types[1]);
                let row = if *op == TernaryOp::Bfe {
                    row.most(255, FIELD).s(c, types[2]).most(255, FIELD)
                } else {
                    row.s(c, types[2])
                };
                row.formula(op.formula(a, b, c))
            }
            Alu::Lop3 { d, a, b, c, table } => Row::alone(
                format!("lop3.{table:#04x}"),
                Ptx::Line {
                    opcode: "lop3.b32".into(),
                    last: Some(format!("{table:#04x}")),
                },
                Needs::BASE,
                EXISTS,
            )
            .function()
            .d(d, Type::B32)
            .s(a, Type::B32)
            .s(b, Type::B32)
            .s(c, Type::B32),
            Alu::Bfi {
                ty,
                d,
                a,
                b,
                start,
                length,
            } => {
                let opcode = Word::of(&["bfi.", ty.untyped_word()]);
                Row::alone(
                    Word::of(&["bfi.", ty.ptx()]),
                    opcode,
                    Needs::BASE,
                    among(*ty, &[BITS_FROM_32, INTEGERS_FROM_32]),
                )
                .function()
                .d(d, *ty)
                .s(a, *ty)
                .s(b, *ty)
                .s(start, Type::U32)
                .most(255, FIELD)
                .s(length, Type::U32)
                .most(255, FIELD)
            }
            Alu::Setp { cmp, ty, p, a, b } => {
                let mnemonic = Word::of(&["setp.", cmp.ptx(), ".", ty.ptx()]);
                let needs = if *ty == Type::Bf16 {
                    Needs::HOPPER
                } else {
                    Needs::BASE
                };
                Row::alone(mnemonic.clone(), mnemonic, needs, among(*ty, cmp.types()))
                    .formula(Formula::Compare(*cmp, *ty, a, b))
                    .d(p, Type::Pred)
                    .s(a, *ty)
                    .s(b, *ty)
            }
            Alu::PredLogic { op, p, a, b } => {
                let mnemonic = Word::of(&[op.ptx(), ".pred"]);
                let form = if [BinaryOp::And, BinaryOp::Or, BinaryOp::Xor].contains(op) {
                    Ok(())
                } else {
                    Err("predicates have `and`, `or` and `xor`".into())
                };
                Row::alone(mnemonic.clone(), mnemonic, Needs::BASE, form)
                    .formula(Formula::Logic(*op, *a, *b))
                    .slot("predicate", Arg::Write(from_ref(p)), Some(Type::Pred))
                    .guard("predicate", *a)
                    .guard("predicate", *b)
            }
            Alu::Selp { ty, d, a, b, p } => {
                let opcode = Word::of(&["selp.", ty.moved()]);
                let form = match ty.bits() {
                    16 | 32 | 64 => Ok(()),
                    _ => Err("it is for types of 16, 32 and 64 bits".into()),
                };
                Row::alone(Word::of(&["selp.", ty.ptx()]), opcode, Needs::BASE, form)
                    .formula(Formula::Select(*p, a, b))
                    .d(d, *ty)
                    .s(a, *ty)
                    .s(b, *ty)
                    .regs("predicate", from_ref(p), Some(Type::Pred))
            }
            Alu::Cvt {
                to,
                from,
                rounding,
                saturate,
                d,
                a,
            } => {
                let (dot, rounds) = rounding.map_or(("", ""), |rounding| (".", rounding.ptx()));
                let modifier = if *saturate { ".sat" } else { "" };
                let saturates = if *saturate {
                    ".sat"
                } else if to.is_fp8_pair() {
                    ".satfinite"
                } else {
                    ""
                };
                let keeps = !to.is_float() && !from.is_float() && to.bits() >= 32;
                Row::alone(
                    Word::of(&["cvt", dot, rounds, modifier, ".", to.ptx(), ".", from.ptx()]),
                    Word::of(&[
                        "cvt",
                        dot,
                        rounds,
                        saturates,
                        ".",
                        to.ptx(),
                        ".",
                        from.ptx(),
                    ]),
                    convert_needs(*to, *from, *rounding),
                    convert(*to, *from, *rounding, *saturate),
                )
                .formula(if keeps {
                    Formula::Copy(a)
                } else {
                    Formula::Function
                })
                .d(d, *to)
                .s(a, *from)
            }
            Alu::CvtPack {
                to,
                from,
                relu,
                d,
                hi,
                lo,
            } => {
                let relu = if *relu { ".relu" } else { "" };
                let (finite, needs) = if to.is_fp8_pair() {
                    (".satfinite", FP8)
                } else {
                    ("", Needs::AMPERE)
                };
                Row::alone(
                    Word::of(&["cvt", relu, ".", to.ptx(), ".", from.ptx()]),
                    Word::of(&["cvt.rn", finite, relu, ".", to.ptx(), ".", from.ptx()]),
                    needs,
                    convert_pair(*to, *from),
                )
                .function()
                .d(d, *to)
                .s(hi, *from)
                .s(lo, *from)
            }
            Alu::Dp4a { signed, d, a, b, c } => {
                let [ta, tb] = signed.map(|signed| if signed { Type::S32 } else { Type::U32 });
                let ty = dp4a_result(*signed);
                let mnemonic = format!("dp4a.{ta}.{tb}");
                Row::alone(mnemonic.clone(), mnemonic, Needs::BASE, EXISTS)
                    .function()
                    .d(d, ty)
                    .s(a, ta)
                    .s(b, tb)
                    .s(c, ty)
            }
        }
    }
}

/// The type of a sum of four products, and of what is added to it: signed if one of the operands is.
fn dp4a_result(signed: [bool; 2]) -> Type {
    if signed.contains(&true) {
        Type::S32
    } else {
        Type::U32
    }
}

impl KernelBuilder {
    /// Adds a conversion, rounded to nearest even where it rounds (toward zero into an integer), plain where it cannot.
    #[track_caller]
    pub fn cvt(&mut self, to: Type, from: Type, a: impl Into<Operand>) -> Reg {
        let rounding = match (to.is_float(), from.is_float()) {
            (true, true) if to.bits() < from.bits() || to == Type::Tf32 => Some(Rounding::Rn),
            // A pair of 8-bit floats is rounded in both directions.
            (true, true) if from.is_fp8_pair() => Some(Rounding::Rn),
            (true, true) | (false, false) => None,
            (true, false) => Some(Rounding::Rn),
            (false, true) => Some(Rounding::Rzi),
        };
        let d = self.reg(to.register());
        self.cvt_to(d, to, from, rounding, a);
        d
    }

    /// Adds a conversion into `d`, rounded as `rounding` says.
    #[track_caller]
    pub fn cvt_to(
        &mut self,
        d: Reg,
        to: Type,
        from: Type,
        rounding: impl Into<Option<Rounding>>,
        a: impl Into<Operand>,
    ) {
        self.push(Alu::Cvt {
            to,
            from,
            rounding: rounding.into(),
            saturate: false,
            d,
            a: a.into(),
        });
    }

    /// Returns two numbers rounded into a pair, `lo` in the low half.
    #[track_caller]
    pub fn cvt_pack(&mut self, to: Type, hi: impl Into<Operand>, lo: impl Into<Operand>) -> Reg {
        let d = self.reg(to.register());
        let (hi, lo) = (hi.into(), lo.into());
        self.push(Alu::CvtPack {
            to,
            from: Type::F32,
            relu: false,
            d,
            hi,
            lo,
        });
        d
    }

    /// Adds the products of four pairs of bytes to `c` (`dp4a`, PTX ISA 9.7.1): `a` and `b` hold four integers of 8
    /// bits each, lowest first. `signed` says of `a` and of `b` whether they are signed; the sum is taken modulo
    /// 2^32.
    ///
    /// ```
    /// # use colex_ir::*;
    /// # let mut k = KernelBuilder::new("k", colex_atom::Arch::Sm70);
    /// let (a, b) = (k.mov(Type::U32, 0x0102_03ff), k.mov(Type::U32, 0x0101_0102));
    /// let sum = k.dp4a([true, false], a, b, 10);
    /// let kernel = k.finish();
    /// assert_eq!(kernel.body[2].op.mnemonic(), "dp4a.s32.u32");
    /// assert!(kernel.ptx()?.contains("dp4a.s32.u32 %r2, %r0, %r1, 10;"));
    /// # Ok::<(), verify::Refused>(())
    /// ```
    #[track_caller]
    pub fn dp4a(
        &mut self,
        signed: [bool; 2],
        a: impl Into<Operand>,
        b: impl Into<Operand>,
        c: impl Into<Operand>,
    ) -> Reg {
        let d = self.reg(dp4a_result(signed).register());
        let (a, b, c) = (a.into(), b.into(), c.into());
        self.push(Alu::Dp4a { signed, d, a, b, c });
        d
    }
}

/// The type that `mov` reads its source in: it takes it from its destination.
fn moved(d: Reg, a: Operand) -> Type {
    match a {
        Operand::Float(_) if d.ty == RegType::B32 => Type::F32,
        Operand::Float(_) | Operand::Reg(_) | Operand::Int(_) | Operand::Special(_) => {
            Type::untyped(d.ty)
        }
    }
}

/// The bits of parts and of the whole, and whether 2 or 4 parts of equal width make up the whole.
fn pieces(parts: &[Reg], whole: Reg) -> (u32, u32, bool) {
    let bits: u32 = parts.iter().map(|part| part.ty.bits()).sum();
    let alike = parts
        .windows(2)
        .all(|pair| pair[0].ty.bits() == pair[1].ty.bits());
    let right = alike && matches!(parts.len(), 2 | 4) && bits == whole.ty.bits();
    (bits, whole.ty.bits(), right)
}

/// Conversions from and to 8-bit floats, on Ada and later.
const FP8: Needs = Needs::new(Arch::Sm89, 8, 1);

impl UnaryOp {
    /// Returns the type of its result.
    pub fn result(self, ty: Type) -> Type {
        if [UnaryOp::Popc, UnaryOp::Clz, UnaryOp::Bfind].contains(&self) {
            Type::U32
        } else {
            ty
        }
    }

    fn opcode(self, ty: Type) -> Word {
        use UnaryOp::{
            Abs, Bfind, Brev, Clz, Cos, Ex2, Lg2, Neg, Not, Popc, Rcp, Rsqrt, Sin, Sqrt, Tanh,
        };
        let mnemonic = self.ptx();
        match self {
            Neg | Abs if !ty.is_float() => Word::of(&[mnemonic, ".s", &ty.integer()[1..]]),
            Not if ty == Type::Pred => "not.pred".into(),
            Not | Popc | Clz | Brev => Word::of(&[mnemonic, ".", ty.untyped_word()]),
            Bfind => Word::of(&[mnemonic, ".", ty.integer()]),
            Rcp if ty == Type::F32 => "rcp.approx.ftz.f32".into(),
            Rcp | Sqrt => Word::of(&[mnemonic, ".rn.", ty.ptx()]),
            Rsqrt | Ex2 | Lg2 | Sin | Cos if ty == Type::F32 => Word::of(&[mnemonic, ".ftz.f32"]),
            Ex2 if ty.is_bf16() => Word::of(&[mnemonic, ".ftz.", ty.ptx()]),
            Neg | Abs | Rsqrt | Ex2 | Lg2 | Sin | Cos | Tanh => {
                Word::of(&[mnemonic, ".", ty.ptx()])
            }
        }
    }

    fn types(self) -> &'static [&'static [Type]] {
        match self {
            UnaryOp::Neg => &[UNSIGNED, SIGNED, HALVES, SINGLES],
            UnaryOp::Abs => &[SIGNED, HALVES, SINGLES],
            UnaryOp::Not => &[&[Type::Pred], BITS, INTEGERS],
            UnaryOp::Popc | UnaryOp::Clz | UnaryOp::Brev => &[BITS_FROM_32, INTEGERS_FROM_32],
            UnaryOp::Bfind => &[INTEGERS_FROM_32],
            UnaryOp::Rcp | UnaryOp::Sqrt | UnaryOp::Rsqrt => &[SINGLES],
            UnaryOp::Ex2 | UnaryOp::Tanh => &[HALVES, &[Type::F32]],
            UnaryOp::Lg2 | UnaryOp::Sin | UnaryOp::Cos => &[&[Type::F32]],
        }
    }

    fn needs(self, ty: Type) -> Needs {
        use UnaryOp::{
            Abs, Bfind, Brev, Clz, Cos, Ex2, Lg2, Neg, Not, Popc, Rcp, Rsqrt, Sin, Sqrt, Tanh,
        };
        let (half, brain) = (ty.is_f16(), ty.is_bf16());
        match self {
            Tanh | Ex2 if brain => Needs::HOPPER,
            Tanh => Needs::new(Arch::Sm75, 7, 0),
            Ex2 if half => Needs::new(Arch::Sm75, 7, 0),
            Neg | Abs if brain => Needs::AMPERE,
            Abs if half => Needs::new(Arch::Sm70, 6, 5),
            Neg | Abs | Not | Popc | Clz | Brev | Bfind | Rcp | Sqrt | Rsqrt | Ex2 | Lg2 | Sin
            | Cos => Needs::BASE,
        }
    }
}

impl BinaryOp {
    /// Returns the type of its result.
    pub fn result(self, ty: Type) -> Type {
        if self == BinaryOp::MulWide {
            ty.wide()
        } else {
            ty
        }
    }

    /// Returns the type that its second source is read in.
    pub fn second(self, ty: Type) -> Type {
        if [BinaryOp::Shl, BinaryOp::Shr].contains(&self) {
            Type::U32
        } else {
            ty
        }
    }

    fn opcode(self, ty: Type) -> Word {
        use BinaryOp::{
            Add, And, Div, Max, MaxNan, Min, MinNan, Mul, MulHi, MulWide, Or, Rem, Shl, Shr, Sub,
            Xor,
        };
        let mnemonic = self.ptx();
        match self {
            And | Or | Xor if ty == Type::Pred => Word::of(&[mnemonic, ".pred"]),
            And | Or | Xor => Word::of(&[mnemonic, ".", ty.untyped_word()]),
            Shl => Word::of(&["shl.", ty.untyped_word()]),
            Shr => Word::of(&["shr.", ty.integer()]),
            Min | Max | MinNan | MaxNan if ty.is_float() => Word::of(&[mnemonic, ".", ty.ptx()]),
            Add | Sub | Mul | MulHi | MulWide | Div | Rem if ty.is_float() => {
                Word::of(&[mnemonic, ".rn.", ty.ptx()])
            }
            Mul => Word::of(&["mul.lo.", ty.integer()]),
            Add | Sub | MulHi | MulWide | Div | Rem | Min | Max | MinNan | MaxNan => {
                Word::of(&[mnemonic, ".", ty.integer()])
            }
        }
    }

    fn types(self) -> &'static [&'static [Type]] {
        match self {
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Min | BinaryOp::Max => {
                &[INTEGERS, HALVES, SINGLES]
            }
            BinaryOp::MinNan | BinaryOp::MaxNan => &[HALVES, &[Type::F32]],
            BinaryOp::MulHi | BinaryOp::Rem => &[INTEGERS],
            BinaryOp::MulWide => &[INTEGERS_TO_32],
            BinaryOp::Div => &[INTEGERS, SINGLES],
            BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => &[&[Type::Pred], BITS, INTEGERS],
            BinaryOp::Shl | BinaryOp::Shr => &[BITS, INTEGERS],
        }
    }

    fn needs(self, ty: Type) -> Needs {
        use BinaryOp::{
            Add, And, Div, Max, MaxNan, Min, MinNan, Mul, MulHi, MulWide, Or, Rem, Shl, Shr, Sub,
            Xor,
        };
        match self {
            MinNan | MaxNan => Needs::AMPERE,
            Min | Max if ty.is_f16() || ty.is_bf16() => Needs::AMPERE,
            Add | Sub | Mul | MulHi | MulWide | Div | Rem | Min | Max | And | Or | Xor | Shl
            | Shr => {
                if ty.is_bf16() {
                    Needs::HOPPER
                } else {
                    Needs::BASE
                }
            }
        }
    }
}

impl TernaryOp {
    /// Returns the types that its three sources are read in.
    pub fn operands(self, ty: Type) -> [Type; 3] {
        match self {
            TernaryOp::MadWide => [ty, ty, ty.wide()],
            TernaryOp::Bfe => [ty, Type::U32, Type::U32],
            TernaryOp::ShfL | TernaryOp::ShfR => [Type::B32, Type::B32, Type::U32],
            TernaryOp::Prmt => [Type::B32; 3],
            TernaryOp::Mad | TernaryOp::MadHi | TernaryOp::Fma => [ty; 3],
        }
    }

    /// Returns the type of its result.
    pub fn result(self, ty: Type) -> Type {
        if self == TernaryOp::MadWide {
            ty.wide()
        } else {
            ty
        }
    }

    fn opcode(self, ty: Type) -> Word {
        let mnemonic = self.ptx();
        match self {
            TernaryOp::Fma => Word::of(&[mnemonic, ".", ty.ptx()]),
            TernaryOp::Prmt | TernaryOp::ShfL | TernaryOp::ShfR => Word::of(&[mnemonic, ".b32"]),
            TernaryOp::Mad | TernaryOp::MadHi | TernaryOp::MadWide | TernaryOp::Bfe => {
                Word::of(&[mnemonic, ".", ty.integer()])
            }
        }
    }

    /// The facts about its value.
    fn formula<'a>(self, a: &'a Operand, b: &Operand, c: &Operand) -> Formula<'a> {
        match (self, b, c) {
            (TernaryOp::Bfe, Operand::Int(start), Operand::Int(_)) => Formula::Field(a, *start),
            _ => Formula::Function,
        }
    }

    fn types(self) -> &'static [&'static [Type]] {
        match self {
            TernaryOp::Mad | TernaryOp::MadHi => &[INTEGERS],
            TernaryOp::MadWide => &[INTEGERS_TO_32],
            TernaryOp::Fma => &[HALVES, SINGLES],
            TernaryOp::Prmt | TernaryOp::ShfL | TernaryOp::ShfR => &[WORDS],
            TernaryOp::Bfe => &[INTEGERS_FROM_32],
        }
    }

    fn needs(self, ty: Type) -> Needs {
        use TernaryOp::{Bfe, Fma, Mad, MadHi, MadWide, Prmt, ShfL, ShfR};
        match self {
            Fma if ty.is_bf16() => Needs::AMPERE,
            Fma | Mad | MadHi | MadWide | Prmt | ShfL | ShfR | Bfe => Needs::BASE,
        }
    }
}

impl Compare {
    fn types(self) -> &'static [&'static [Type]] {
        match self {
            Compare::Eq | Compare::Ne => &[BITS, INTEGERS, SCALAR_HALVES, SINGLES],
            Compare::Lt | Compare::Le | Compare::Gt | Compare::Ge => {
                &[INTEGERS, SCALAR_HALVES, SINGLES]
            }
            Compare::Equ | Compare::Neu | Compare::Ltu | Compare::Gtu | Compare::Nan => {
                &[SCALAR_HALVES, SINGLES]
            }
        }
    }
}

fn convert_pair(to: Type, from: Type) -> Result<(), String> {
    use Type::{Bf16x2, E4m3x2, E5m2x2, F16x2, F32};
    match (to, from) {
        (F16x2 | Bf16x2 | E4m3x2 | E5m2x2, F32) => Ok(()),
        _ => Err("two f32 become f16x2, bf16x2, e4m3x2 or e5m2x2".into()),
    }
}

fn convert(to: Type, from: Type, rounding: Option<Rounding>, saturate: bool) -> Result<(), String> {
    use Rounding::{Rmi, Rn, Rna, Rni, Rpi, Rz, Rzi};
    use Type::{Bf16, E4m3x2, E5m2x2, F16x2, F32, S8, Tf32, U8};
    let integer = |ty: Type| [U8, S8].contains(&ty) || INTEGERS.contains(&ty);
    let float = |ty: Type| SCALAR_HALVES.contains(&ty) || SINGLES.contains(&ty);
    let is = |all: &[Rounding]| rounding.is_some_and(|rounding| all.contains(&rounding));
    let wanted = |ok: bool, why: &str| if ok { Ok(()) } else { Err(why.to_string()) };
    match (to, from) {
        (F16x2, E4m3x2 | E5m2x2) | (E4m3x2 | E5m2x2, F16x2) => {
            wanted(rounding == Some(Rn) && !saturate, "it rounds to nearest (rn)")
        }
        (Tf32, F32) => wanted(
            is(&[Rna, Rn, Rz]) && !saturate,
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
            is(&[Rni, Rzi, Rmi, Rpi]) && !(saturate && from == Bf16),
            "a float becomes an integer by rni, rzi, rmi or rpi",
        ),
        _ if float(to) && integer(from) => wanted(
            is(&[Rn, Rz]) && !(saturate && to == Bf16),
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
    use Type::Bf16;
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

fn convert_needs(to: Type, from: Type, rounding: Option<Rounding>) -> Needs {
    match (to, from) {
        _ if to.is_fp8_pair() || from.is_fp8_pair() => FP8,
        (Type::Tf32, _) if rounding == Some(Rounding::Rna) => Needs::AMPERE,
        (Type::Tf32, _) => Needs::HOPPER,
        (Type::Bf16, Type::F32) => Needs::AMPERE,
        (Type::F32, Type::Bf16) => Needs::new(Arch::Sm80, 7, 1),
        (Type::Bf16, _) | (_, Type::Bf16) => Needs::HOPPER,
        _ => Needs::BASE,
    }
}
