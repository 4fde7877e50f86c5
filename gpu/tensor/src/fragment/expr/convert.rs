//! Conversions of the elements of an expression.

use colex_atom::{Arch, Ty};
use colex_ir::{Alu, BinaryOp, Compare, Operand, Reg, RegType, Rounding, Type};

use super::evaluate::range;
use super::lower::{Lanes, Lower, lane_type, of, pair_type};
use super::{Round, Saturate};
use crate::error::ErrorKind;

fn is_eighth(ty: Ty) -> bool {
    matches!(ty, Ty::E4m3 | Ty::E5m2)
}

/// The rounding of an instruction from a float to an integer.
fn to_integer(round: Round) -> Rounding {
    match round {
        Round::Nearest => Rounding::Rni,
        Round::Zero => Rounding::Rzi,
        Round::Down => Rounding::Rmi,
        Round::Up => Rounding::Rpi,
    }
}

impl Lower<'_> {
    fn cvt(
        &mut self,
        to: Type,
        from: Type,
        round: Option<Rounding>,
        a: Operand,
        d: Option<Reg>,
    ) -> Reg {
        let d = d.unwrap_or_else(|| self.k.ir.reg(to.register()));
        self.k.ir.cvt_to(d, to, from, round, a);
        d
    }

    /// Refuses 8-bit floats where no instruction converts them.
    fn check_eighth(&self, ty: Ty) -> Result<(), ErrorKind> {
        if is_eighth(ty) && self.k.target() < Arch::Sm89 {
            return self.refuse(format!(
                "{ty} is converted since sm_89, and the kernel is for {}",
                self.k.target()
            ));
        }
        Ok(())
    }

    /// Floats of less than 32 bits, `tf32` or `f64` in binary32.
    pub(crate) fn widened(&mut self, lanes: Lanes, from: Ty) -> Result<Vec<Operand>, ErrorKind> {
        self.check_eighth(from)?;
        let word = |k: &mut Self, bits: Reg| -> Operand { k.k.ir.mov(Type::F32, bits).into() };
        Ok(match (from, lanes) {
            // The bits of a bf16 are the upper half of the binary32.
            (Ty::Bf16, Lanes::Pairs(pairs)) => {
                let two = |pair: Reg| {
                    let low = self.k.ir.shl(Type::B32, pair, 16);
                    let high = self.k.ir.and(Type::B32, pair, 0xffff_0000_u32);
                    [word(self, low), word(self, high)]
                };
                pairs.into_iter().flat_map(two).collect()
            }
            (Ty::F16 | Ty::Bf16, lanes) => {
                let each = self.each(lanes);
                let one = |x: Operand| match x {
                    Operand::Reg(half) if from == Ty::Bf16 => {
                        let zero = self.k.ir.mov(Type::B16, 0);
                        let bits = self.k.ir.pack(RegType::B32, &[zero, half]);
                        word(self, bits)
                    }
                    Operand::Reg(_) => self.cvt(Type::F32, Type::F16, None, x, None).into(),
                    constant => constant,
                };
                each.into_iter().map(one).collect()
            }
            (Ty::E4m3 | Ty::E5m2, lanes) => {
                let pair = if from == Ty::E4m3 {
                    Type::E4m3x2
                } else {
                    Type::E5m2x2
                };
                let halves = |k: &mut Self, x: Reg| {
                    let both = k.cvt(Type::F16x2, pair, Some(Rounding::Rn), x.into(), None);
                    k.k.ir.unpack(RegType::B16, both)
                };
                let halves: Vec<Reg> = match lanes {
                    Lanes::Pairs(pairs) => {
                        pairs.into_iter().flat_map(|x| halves(self, x)).collect()
                    }
                    Lanes::Each(each) => {
                        let one = |x| {
                            let x = self.word(from, x);
                            halves(self, x)[0]
                        };
                        each.into_iter().map(one).collect()
                    }
                };
                let one = |x: Reg| self.cvt(Type::F32, Type::F16, None, x.into(), None).into();
                halves.into_iter().map(one).collect()
            }
            (Ty::Tf32, lanes) => {
                let each = self.each(lanes);
                let one = |x: Operand| {
                    let x = self.word(from, x);
                    let bits = self.k.ir.and(Type::B32, x, 0xffff_e000_u32);
                    word(self, bits)
                };
                each.into_iter().map(one).collect()
            }
            (Ty::F64, lanes) => {
                let each = self.each(lanes);
                let one = |x: Operand| {
                    let x = self.word(from, x);
                    self.cvt(Type::F32, Type::F64, Some(Rounding::Rn), x.into(), None)
                        .into()
                };
                each.into_iter().map(one).collect()
            }
            (_, lanes) => self.each(lanes),
        })
    }

    /// Numbers of binary32 rounded to nearest in a type of 16 bits.
    pub(crate) fn narrowed(&mut self, wide: Vec<Operand>, ty: Ty, to: &[Reg]) -> Lanes {
        let is_ampere = self.k.target() >= Arch::Sm80;
        let kind = pair_type(ty);
        if wide.len().is_multiple_of(2) && is_ampere {
            let pair = |(i, pair): (usize, &[Operand])| {
                let d = of(to, i, kind).unwrap_or_else(|| self.k.ir.reg(RegType::B32));
                let (hi, lo) = (pair[1], pair[0]);
                self.k.ir.push(Alu::CvtPack {
                    to: kind,
                    from: Type::F32,
                    relu: false,
                    d,
                    hi,
                    lo,
                });
                d
            };
            return Lanes::Pairs(wide.chunks(2).enumerate().map(pair).collect());
        }
        let one = |x: Operand| match ty {
            Ty::Bf16 if !is_ampere => self.rounded_bf16(x).into(),
            _ => self
                .cvt(lane_type(ty), Type::F32, Some(Rounding::Rn), x, None)
                .into(),
        };
        Lanes::Each(wide.into_iter().map(one).collect())
    }

    /// Rounds binary32 to the nearest bf16, ties to even, on architectures without such an instruction.
    fn rounded_bf16(&mut self, x: Operand) -> Reg {
        let ir = &mut self.k.ir;
        let x = ir.mov(Type::F32, x);
        let bits = ir.mov(Type::B32, x);
        let last = ir.shr(Type::U32, bits, 16);
        let odd = ir.and(Type::B32, last, 1);
        let half = ir.add(Type::U32, odd, 0x7fff);
        let up = ir.add(Type::U32, bits, half);
        let nan = ir.setp(Compare::Nan, Type::F32, x, x);
        let word = ir.selp(Type::B32, 0x7fff_0000_u32, up, nan);
        ir.unpack(RegType::B16, word)[1]
    }

    /// The bounds of a saturating conversion, as constants of the type that is clamped. Into 8-bit floats every conversion
    /// saturates.
    fn bounds(from: Ty, to: Ty) -> [Option<Operand>; 2] {
        if is_eighth(to) {
            return [None, None];
        }
        if let Some(format) = colex_atom::FloatFormat::of(to) {
            let is_narrower = match colex_atom::FloatFormat::of(from) {
                Some(own) => own.max() > format.max(),
                None => false,
            };
            return [-format.max(), format.max()].map(|x| is_narrower.then_some(Operand::Float(x)));
        }
        if !from.is_integer() {
            return [None, None];
        }
        let ((low, high), (least, most)) = (range(to), range(from));
        [
            (low > least).then_some(Operand::Int(low as i64)),
            (high < most).then_some(Operand::Int(high as i64)),
        ]
    }

    pub(crate) fn convert(
        &mut self,
        lanes: Lanes,
        (from, to): (Ty, Ty),
        (round, saturate): (Round, Saturate),
        d: &[Reg],
    ) -> Result<Lanes, ErrorKind> {
        self.check_eighth(to)?;
        let kinds = [from, to].map(|ty| colex_atom::FloatFormat::of(ty).is_some());
        match kinds {
            [false, false] => {
                let each = self.each(lanes);
                let each = self.clamped(each, (from, to), lane_type(from), saturate);
                Ok(self.integers(each, from, to, d))
            }
            [true, false] => {
                let (kind, each) = match from {
                    Ty::F64 => (Type::F64, self.each(lanes)),
                    _ => (Type::F32, self.widened(lanes, from)?),
                };
                let into = lane_type(to);
                let one = |(i, x): (usize, Operand)| {
                    let own = of(d, i, into).filter(|_| to.bits() >= 32);
                    let x = self.cvt(into, kind, Some(to_integer(round)), x, own);
                    self.near_range(to, x).into()
                };
                let all = each.into_iter().enumerate().map(one).collect();
                Ok(Lanes::Each(all))
            }
            [false, true] => {
                let each = self.each(lanes);
                let into = if to == Ty::F64 { Type::F64 } else { Type::F32 };
                let own = if matches!(to, Ty::F64 | Ty::F32) {
                    d
                } else {
                    &[]
                };
                let one = |(i, x): (usize, Operand)| {
                    let x = self.word(from, x);
                    self.cvt(
                        into,
                        lane_type(from),
                        Some(Rounding::Rn),
                        x.into(),
                        of(own, i, into),
                    )
                    .into()
                };
                let all: Vec<Operand> = each.into_iter().enumerate().map(one).collect();
                Ok(self.float_of(all, to, Round::Nearest, d))
            }
            [true, true] => self.floats(lanes, (from, to), (round, saturate), d),
        }
    }

    /// An integer of 32 bits at the nearest end of the range of a narrower type.
    fn near_range(&mut self, to: Ty, x: Reg) -> Reg {
        if to.bits() >= 32 {
            return x;
        }
        let (low, high) = range(to);
        let x = match low {
            0 => x,
            _ => self.k.ir.max(lane_type(to), x, low as i64),
        };
        self.k.ir.min(lane_type(to), x, high as i64)
    }

    /// Values at the nearest end of the range of the other type, if that is narrower; a NaN stays.
    fn clamped(
        &mut self,
        each: Vec<Operand>,
        (from, to): (Ty, Ty),
        kind: Type,
        saturate: Saturate,
    ) -> Vec<Operand> {
        let bounds = Self::bounds(from, to);
        if saturate == Saturate::Wrap || bounds == [None, None] {
            return each;
        }
        let mut one = |x: Operand| {
            let a = match x {
                Operand::Reg(reg) => reg,
                other => self.k.ir.mov(kind, other),
            };
            let mut near = a;
            for (op, bound) in [BinaryOp::Max, BinaryOp::Min].into_iter().zip(bounds) {
                if let Some(bound) = bound {
                    near = self.binary_to(op, kind, [near.into(), bound], None);
                }
            }
            if kind.is_float() {
                let nan = self.k.ir.setp(Compare::Nan, kind, a, a);
                near = self.k.ir.selp(kind, a, near, nan);
            }
            near.into()
        };
        each.into_iter().map(&mut one).collect()
    }

    /// Integers of another width, modulo 2^bits.
    fn integers(&mut self, each: Vec<Operand>, from: Ty, to: Ty, d: &[Reg]) -> Lanes {
        let one = |(i, x): (usize, Operand)| {
            let x = self.word(from, x);
            let own = of(d, i, lane_type(to));
            let is_held = range(from).0 >= range(to).0 && range(from).1 <= range(to).1;
            match (from.bits() == 64, to.bits() == 64) {
                (true, true) => x.into(),
                (false, true) => {
                    let (wide, narrow) = match lane_type(from) {
                        Type::S32 => (Type::S64, Type::S32),
                        _ => (Type::U64, Type::U32),
                    };
                    self.cvt(wide, narrow, None, x.into(), own).into()
                }
                (true, false) => {
                    let own = own.filter(|_| to.bits() >= 32);
                    let x = self.cvt(Type::U32, Type::U64, None, x.into(), own);
                    self.wrapped(to, x, None).into()
                }
                (false, false) if is_held => x.into(),
                (false, false) => self.wrapped(to, x, own).into(),
            }
        };
        Lanes::Each(each.into_iter().enumerate().map(one).collect())
    }

    fn floats(
        &mut self,
        lanes: Lanes,
        (from, to): (Ty, Ty),
        (round, saturate): (Round, Saturate),
        d: &[Reg],
    ) -> Result<Lanes, ErrorKind> {
        if from == Ty::F64 {
            let each = self.each(lanes);
            let each = self.clamped(each, (from, to), Type::F64, saturate);
            let rounding = if round == Round::Nearest {
                Rounding::Rn
            } else {
                Rounding::Rz
            };
            let own = if to == Ty::F32 { d } else { &[] };
            let one = |(i, x): (usize, Operand)| {
                let x = self.word(from, x);
                self.cvt(
                    Type::F32,
                    Type::F64,
                    Some(rounding),
                    x.into(),
                    of(own, i, Type::F32),
                )
                .into()
            };
            let all = each.into_iter().enumerate().map(one).collect();
            return Ok(self.float_of(all, to, round, d));
        }
        let wide = self.widened(lanes, from)?;
        let wide = self.clamped(wide, (from, to), Type::F32, saturate);
        if to == Ty::F64 {
            let one = |(i, x): (usize, Operand)| {
                let x = self.word(Ty::F32, x);
                self.cvt(Type::F64, Type::F32, None, x.into(), of(d, i, Type::F64))
                    .into()
            };
            return Ok(Lanes::Each(wide.into_iter().enumerate().map(one).collect()));
        }
        Ok(self.float_of(wide, to, round, d))
    }

    /// Numbers of binary32 in another float type.
    fn float_of(&mut self, wide: Vec<Operand>, to: Ty, round: Round, d: &[Reg]) -> Lanes {
        match to {
            Ty::F32 | Ty::F64 => Lanes::Each(wide),
            Ty::F16 | Ty::Bf16 if round == Round::Nearest => self.narrowed(wide, to, d),
            Ty::Bf16 if self.k.target() < Arch::Sm80 => {
                // The upper half is what rounding toward zero leaves.
                let one = |x: Operand| {
                    let x = self.k.ir.mov(Type::B32, x);
                    self.k.ir.unpack(RegType::B16, x)[1].into()
                };
                Lanes::Each(wide.into_iter().map(one).collect())
            }
            Ty::F16 | Ty::Bf16 => {
                let one = |x: Operand| {
                    self.cvt(lane_type(to), Type::F32, Some(Rounding::Rz), x, None)
                        .into()
                };
                Lanes::Each(wide.into_iter().map(one).collect())
            }
            Ty::Tf32 => {
                let one = |(i, x): (usize, Operand)| {
                    self.cvt(
                        Type::Tf32,
                        Type::F32,
                        Some(Rounding::Rna),
                        x,
                        of(d, i, Type::B32),
                    )
                    .into()
                };
                Lanes::Each(wide.into_iter().enumerate().map(one).collect())
            }
            _ => {
                let kind = if to == Ty::E4m3 {
                    Type::E4m3x2
                } else {
                    Type::E5m2x2
                };
                let mut pair = |pair: &[Operand]| {
                    let hi = pair.get(1).copied().unwrap_or(Operand::Float(0.0));
                    self.k.ir.cvt_pack(kind, hi, pair[0])
                };
                match wide.len() % 2 {
                    0 => Lanes::Pairs(wide.chunks(2).map(&mut pair).collect()),
                    _ => Lanes::Each(wide.chunks(1).map(&mut pair).map(Operand::from).collect()),
                }
            }
        }
    }
}
