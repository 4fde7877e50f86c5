//! From an expression to instructions, for the elements of a fragment.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use colex_atom::{Arch, Ty};
use colex_ir::{Alu, BinaryOp, Compare, Guard, Operand, Reg, RegType, TernaryOp, Type, UnaryOp};
use colex_layout::Layout;

use super::evaluate::{integer_constant, real_constant};
use super::{Expr, ExprData, ExprNode, Mask, Test, is_half};
use crate::build::Builder;
use crate::build::flow::Cond;
use crate::build::held::Part;
use crate::error::ErrorKind;
use crate::fragment::Fragment;
use crate::index::Index;

/// The values of a few elements, in the order of their indices.
#[derive(Clone, Debug)]
pub(crate) enum Lanes {
    /// Each in an operand of its own, as [`lane_type`] says; floats of 16 bits may be constants that are not rounded yet.
    Each(Vec<Operand>),
    /// Pairs of 16-bit floats, each pair in one register of 32 bits; pairs of 8-bit floats, in one of 16.
    Pairs(Vec<Reg>),
}

/// The type in which one element is computed: integers of less than 32 bits are extended to 32.
pub(crate) fn lane_type(ty: Ty) -> Type {
    match ty {
        Ty::F64 => Type::F64,
        Ty::F32 => Type::F32,
        Ty::Tf32 => Type::B32,
        Ty::F16 => Type::F16,
        Ty::Bf16 => Type::Bf16,
        Ty::E4m3 | Ty::E5m2 => Type::B16,
        Ty::S64 => Type::S64,
        Ty::U64 => Type::U64,
        Ty::S32 | Ty::S16 | Ty::S8 => Type::S32,
        _ => Type::U32,
    }
}

/// The type of a pair of 16-bit floats.
pub(crate) fn pair_type(ty: Ty) -> Type {
    if ty == Ty::Bf16 {
        Type::Bf16x2
    } else {
        Type::F16x2
    }
}

/// A leaf of the expression: what it is at every index of the destination.
enum ExprLeaf {
    Parts { parts: Vec<Part>, packed: i64 },
    Indices(Vec<Index>),
}

/// The node of an expression, and the type in which constants are read.
type Key = (*const ExprData, Ty);

pub(crate) struct Lower<'k> {
    pub(crate) k: &'k mut Builder,
    operation: &'static str,
    leaves: HashMap<*const ExprData, ExprLeaf>,
    /// The leaves below each node.
    below: HashMap<*const ExprData, Rc<Vec<*const ExprData>>>,
    /// What was computed, by the number of elements and the parts of registers that it was computed from.
    memo: HashMap<(Key, usize, Vec<Part>), Lanes>,
    halves: HashMap<Reg, Vec<Reg>>,
}

/// Operands, which may be constants, as registers of the destination where they are to be.
pub(crate) fn of(to: &[Reg], i: usize, ty: Type) -> Option<Reg> {
    to.get(i)
        .copied()
        .filter(|reg| reg.ty == ty.register() || is_alike(reg.ty, ty))
}

/// Whether an instruction of that type writes a register of that class.
fn is_alike(class: RegType, ty: Type) -> bool {
    match ty {
        Type::F32 => class == RegType::B32,
        Type::F64 => class == RegType::B64,
        _ => false,
    }
}

impl<'k> Lower<'k> {
    pub(crate) fn new(k: &'k mut Builder, operation: &'static str) -> Self {
        Lower {
            k,
            operation,
            leaves: HashMap::new(),
            below: HashMap::new(),
            memo: HashMap::new(),
            halves: HashMap::new(),
        }
    }

    pub(crate) fn refuse<T>(&self, why: impl Into<String>) -> Result<T, ErrorKind> {
        Err(ErrorKind::operands(self.operation, why))
    }

    /// Notes what the leaves are at the indices of `form`.
    pub(crate) fn bind(&mut self, expr: &Expr, form: &Layout) -> Result<(), ErrorKind> {
        self.below(expr);
        for leaf in leaves(expr) {
            let key = Rc::as_ptr(&leaf.0);
            let leaf = match &leaf.0.node {
                ExprNode::Fragment(fragment) => {
                    let numbers = broadcast(self.operation, &fragment.layout, form)?;
                    let parts = numbers.into_iter().map(|i| fragment.element(i));
                    ExprLeaf::Parts {
                        parts: parts.collect::<Result<_, _>>()?,
                        packed: fragment.packed(),
                    }
                }
                ExprNode::Indices(indices, layout) => {
                    let numbers = broadcast(self.operation, layout, form)?;
                    ExprLeaf::Indices(
                        numbers
                            .into_iter()
                            .map(|i| indices[i as usize].clone())
                            .collect(),
                    )
                }
                _ => continue,
            };
            self.leaves.insert(key, leaf);
        }
        Ok(())
    }

    fn below(&mut self, expr: &Expr) -> Rc<Vec<*const ExprData>> {
        let key = Rc::as_ptr(&expr.0);
        if let Some(known) = self.below.get(&key) {
            return Rc::clone(known);
        }
        let mut all = match expr.0.node {
            ExprNode::Fragment(_) | ExprNode::Indices(..) => vec![key],
            _ => Vec::new(),
        };
        for operand in operands(expr) {
            all.extend(self.below(&operand).iter());
        }
        all.sort();
        all.dedup();
        let all = Rc::new(all);
        self.below.insert(key, Rc::clone(&all));
        all
    }

    /// The parts of registers of all leaves of fragments at one index of the destination.
    pub(crate) fn parts_at(&self, i: usize) -> impl Iterator<Item = Part> + '_ {
        self.leaves.values().filter_map(move |leaf| match leaf {
            ExprLeaf::Parts { parts, .. } => Some(parts[i]),
            ExprLeaf::Indices(_) => None,
        })
    }

    /// The parts at all indices of the first leaf that has several elements in a register.
    pub(crate) fn packed_parts(&self, expr: &Expr) -> Option<Vec<Part>> {
        let packed = |leaf: &Expr| match self.leaves.get(&Rc::as_ptr(&leaf.0)) {
            Some(ExprLeaf::Parts { parts, packed }) if *packed > 1 => Some(parts.clone()),
            _ => None,
        };
        leaves(expr).iter().find_map(packed)
    }

    /// Forgets what was computed: a register that it was computed from has changed.
    pub(crate) fn forget(&mut self) {
        self.memo.clear();
        self.halves.clear();
    }

    /// Computes an expression for a group of indices, whose values come into the registers `to` if the last instruction can
    /// write them.
    pub(crate) fn eval(
        &mut self,
        expr: &Expr,
        ty: Ty,
        group: &[usize],
        to: &[Reg],
    ) -> Result<Lanes, ErrorKind> {
        let below = self.below(expr);
        let mut parts = Vec::new();
        for leaf in below.iter() {
            match &self.leaves[leaf] {
                ExprLeaf::Parts { parts: all, .. } => parts.extend(group.iter().map(|i| all[*i])),
                ExprLeaf::Indices(all) => {
                    // Indices that are equal are one value.
                    let first = |i: &usize| all.iter().position(|x| *x == all[*i]).unwrap_or(*i);
                    let place = |i: &usize| {
                        (
                            Reg {
                                index: first(i) as u32,
                                ty: RegType::Pred,
                            },
                            0,
                        )
                    };
                    parts.extend(group.iter().map(place));
                }
            }
        }
        let key = ((Rc::as_ptr(&expr.0), ty), group.len(), parts);
        if let Some(known) = self.memo.get(&key) {
            return Ok(known.clone());
        }
        let lanes = self.compute(expr, ty, group, to)?;
        self.memo.insert(key, lanes.clone());
        Ok(lanes)
    }

    fn compute(
        &mut self,
        expr: &Expr,
        ty: Ty,
        group: &[usize],
        to: &[Reg],
    ) -> Result<Lanes, ErrorKind> {
        let none: &[Reg] = &[];
        let same = |operand: Operand| Lanes::Each(vec![operand; group.len()]);
        Ok(match &expr.0.node {
            ExprNode::Input(i) => {
                return self.refuse(format!(
                    "input {i} of the expression is no element of a kernel: `over` binds it"
                ));
            }
            ExprNode::Poison(kind) => return Err(kind.clone()),
            ExprNode::Real(x) => {
                real_constant(ty, *x).or_else(|why| self.refuse(why))?;
                same(constant(ty, *x))
            }
            ExprNode::Integer(x) => {
                integer_constant(ty, *x).or_else(|why| self.refuse(why))?;
                same(if ty.is_integer() {
                    Operand::Int(*x as i64)
                } else {
                    constant(ty, *x as f64)
                })
            }
            ExprNode::Register(reg) => same((*reg).into()),
            ExprNode::Indices(..) => self.indices(expr, group)?,
            ExprNode::Fragment(_) => self.load(expr, ty, group)?,
            ExprNode::Convert(x, round, saturate) => match x.ty() {
                Some(from) => {
                    let x = self.eval(x, from, group, none)?;
                    self.convert(x, (from, ty), (*round, *saturate), to)?
                }
                None => self.eval(x, ty, group, to)?,
            },
            ExprNode::Unary(op, x) => {
                let x = self.eval(x, ty, group, none)?;
                self.unary(*op, ty, x, to)?
            }
            ExprNode::Binary(op, a, b) => {
                let (a, b) = (
                    self.eval(a, ty, group, none)?,
                    self.eval(b, ty, group, none)?,
                );
                self.binary(*op, ty, a, b, to)?
            }
            ExprNode::Fma([a, b, c]) => {
                let [a, b, c] = [a, b, c].map(|x| self.eval(x, ty, group, none));
                self.fma(ty, [a?, b?, c?], to)?
            }
            ExprNode::Select(mask, a, b) => {
                let tests = self.mask(mask, group)?;
                let (a, b) = (
                    self.eval(a, ty, group, none)?,
                    self.eval(b, ty, group, none)?,
                );
                self.select(ty, &tests, a, b, to)
            }
        })
    }

    fn indices(&mut self, expr: &Expr, group: &[usize]) -> Result<Lanes, ErrorKind> {
        let Some(ExprLeaf::Indices(all)) = self.leaves.get(&Rc::as_ptr(&expr.0)) else {
            return self.refuse("an index that was not bound");
        };
        let some: Vec<Index> = group.iter().map(|i| all[*i].clone()).collect();
        if let Some(wide) = some.iter().find(|index| !is_s32(index)) {
            let (low, high) = wide.range();
            return self.refuse(format!(
                "{wide} lies from {low} to {high}, and an expression computes with numbers of s32: `within` says what no rule \
                 finds"
            ));
        }
        Ok(Lanes::Each(
            some.iter().map(|index| self.k.operand(index)).collect(),
        ))
    }

    /// The elements of a fragment.
    fn load(&mut self, expr: &Expr, ty: Ty, group: &[usize]) -> Result<Lanes, ErrorKind> {
        let Some(ExprLeaf::Parts { parts, packed }) = self.leaves.get(&Rc::as_ptr(&expr.0)) else {
            return self.refuse("a fragment that was not bound");
        };
        let (parts, packed): (Vec<Part>, i64) =
            (group.iter().map(|i| parts[*i]).collect(), *packed);
        let is_packed_float = is_half(ty) || matches!(ty, Ty::E4m3 | Ty::E5m2);
        let neighbours = |pair: &[Part]| match pair {
            [(a, i), (b, j)] => a == b && i % 2 == 0 && *j == i + 1,
            _ => false,
        };
        if is_packed_float && packed > 1 && parts.chunks(2).all(neighbours) {
            let pair = |pair: &[Part]| {
                if is_half(ty) {
                    pair[0].0
                } else {
                    self.half(pair[0].0, pair[0].1 / 2)
                }
            };
            return Ok(Lanes::Pairs(parts.chunks(2).map(pair).collect()));
        }
        let one = |(reg, part): Part| self.part(ty, reg, part);
        Ok(Lanes::Each(
            parts.into_iter().map(one).map(Operand::from).collect(),
        ))
    }

    /// A half of a register of 32 bits.
    fn half(&mut self, reg: Reg, i: i64) -> Reg {
        let k = &mut *self.k;
        let halves = self
            .halves
            .entry(reg)
            .or_insert_with(|| k.ir.unpack(RegType::B16, reg));
        halves[i as usize]
    }

    /// One element of a register.
    fn part(&mut self, ty: Ty, reg: Reg, part: i64) -> Reg {
        let bits = i64::from(ty.bits());
        match (ty, reg.ty.bits()) {
            (_, width) if i64::from(width) <= bits => reg,
            _ if is_half(ty) => self.half(reg, part),
            (Ty::E4m3 | Ty::E5m2, _) => {
                let half = self.half(reg, part / 2);
                match part % 2 {
                    0 => self.k.ir.and(Type::B16, half, 0xff),
                    _ => self.k.ir.shr(Type::U16, half, 8),
                }
            }
            _ => self
                .k
                .ir
                .ternary(TernaryOp::Bfe, lane_type(ty), reg, bits * part, bits),
        }
    }

    /// Values in registers that nothing else writes: those that are in one of `taken` are copied.
    pub(crate) fn kept(&mut self, lanes: Lanes, taken: impl Fn(Reg) -> bool) -> Lanes {
        let mut copy = |reg: Reg| {
            if !taken(reg) {
                return reg;
            }
            let d = self.k.ir.reg(reg.ty);
            self.k.ir.mov_to(d, reg);
            d
        };
        match lanes {
            Lanes::Pairs(pairs) => Lanes::Pairs(pairs.into_iter().map(copy).collect()),
            Lanes::Each(each) => {
                let one = |x| match x {
                    Operand::Reg(reg) => Operand::Reg(copy(reg)),
                    other => other,
                };
                Lanes::Each(each.into_iter().map(one).collect())
            }
        }
    }

    /// Operands of one type one by one, in registers or as constants.
    pub(crate) fn each(&mut self, lanes: Lanes) -> Vec<Operand> {
        match lanes {
            Lanes::Each(all) => all,
            Lanes::Pairs(pairs) => {
                let split = |pair: Reg| match pair.ty {
                    RegType::B32 => vec![self.half(pair, 0), self.half(pair, 1)],
                    _ => vec![
                        self.k.ir.and(Type::B16, pair, 0xff),
                        self.k.ir.shr(Type::U16, pair, 8),
                    ],
                };
                pairs
                    .into_iter()
                    .flat_map(split)
                    .map(Operand::from)
                    .collect()
            }
        }
    }

    /// Floats of 16 bits in pairs, if their number is even.
    pub(crate) fn pairs(&mut self, ty: Ty, lanes: Lanes) -> Vec<Reg> {
        let each = match lanes {
            Lanes::Pairs(pairs) => return pairs,
            Lanes::Each(each) => each,
        };
        let pair = |pair: &[Operand]| {
            if let [Operand::Float(a), Operand::Float(b)] = pair
                && a.to_bits() == b.to_bits()
            {
                return self.k.ir.mov(pair_type(ty), *a);
            }
            let parts: Vec<Reg> = pair.iter().map(|x| self.word(ty, *x)).collect();
            self.k.ir.pack(RegType::B32, &parts)
        };
        each.chunks(2).map(pair).collect()
    }

    /// An operand in a register: a constant is moved there.
    pub(crate) fn word(&mut self, ty: Ty, operand: Operand) -> Reg {
        match operand {
            Operand::Reg(reg) => reg,
            other => self.k.ir.mov(lane_type(ty), other),
        }
    }

    /// Whether the architecture has an instruction of 16-bit floats; where it has not, binary32 gives the same result.
    fn has(&self, op: BinaryOp, ty: Ty) -> bool {
        match op {
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul => {
                ty == Ty::F16 || self.k.target() >= Arch::Sm80
            }
            BinaryOp::Min | BinaryOp::Max | BinaryOp::MinNan | BinaryOp::MaxNan => {
                self.k.target() >= Arch::Sm80
            }
            _ => false,
        }
    }

    fn unary(&mut self, op: UnaryOp, ty: Ty, x: Lanes, to: &[Reg]) -> Result<Lanes, ErrorKind> {
        let lane = lane_type(ty);
        if is_half(ty) {
            let native = matches!(op, UnaryOp::Neg | UnaryOp::Abs)
                && (ty == Ty::F16 || self.k.target() >= Arch::Sm80);
            return Ok(match (native, x) {
                (true, Lanes::Pairs(pairs)) => {
                    let ty = pair_type(ty);
                    let one = |(i, x): (usize, Reg)| self.unary_to(op, ty, x.into(), of(to, i, ty));
                    Lanes::Pairs(pairs.into_iter().enumerate().map(one).collect())
                }
                (true, Lanes::Each(each)) => {
                    let each: Vec<Reg> = each.into_iter().map(|x| self.word(ty, x)).collect();
                    let one = |x: Reg| self.unary_to(op, lane, x.into(), None).into();
                    Lanes::Each(each.into_iter().map(one).collect())
                }
                (false, x) => {
                    let wide = self.widened(x, ty)?;
                    let one = |x: Operand| self.unary_to(op, Type::F32, x, None).into();
                    let wide = wide.into_iter().map(one).collect();
                    self.narrowed(wide, ty, to)
                }
            });
        }
        let each = self.each(x);
        if op == UnaryOp::Abs && lane.float().is_none() && !lane.is_signed() {
            return Ok(Lanes::Each(each));
        }
        // Of types of 64 bits there are few.
        if ty == Ty::F64
            && !matches!(
                op,
                UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Rcp | UnaryOp::Sqrt | UnaryOp::Rsqrt
            )
        {
            return self.refuse(format!(
                "{} of f64: no instruction computes it, and `.to(Ty::F32)` converts",
                op.ptx()
            ));
        }
        let one = |(i, x): (usize, Operand)| {
            let x = self.word(ty, x);
            let to = of(to, i, lane).filter(|_| ty.bits() >= 32);
            let d = self.unary_to(op, lane, x.into(), to);
            self.wrapped(ty, d, None).into()
        };
        Ok(Lanes::Each(each.into_iter().enumerate().map(one).collect()))
    }

    fn unary_to(&mut self, op: UnaryOp, ty: Type, a: Operand, to: Option<Reg>) -> Reg {
        let d = to.unwrap_or_else(|| self.k.ir.reg(ty.register()));
        self.k.ir.push(Alu::Unary { op, ty, d, a });
        d
    }

    pub(crate) fn binary_to(
        &mut self,
        op: BinaryOp,
        ty: Type,
        [a, b]: [Operand; 2],
        to: Option<Reg>,
    ) -> Reg {
        let d = to.unwrap_or_else(|| self.k.ir.reg(ty.register()));
        self.k.ir.binary_to(op, ty, d, a, b);
        d
    }

    fn fma_to(&mut self, ty: Type, [a, b, c]: [Operand; 3], to: Option<Reg>) -> Reg {
        let d = to.unwrap_or_else(|| self.k.ir.reg(ty.register()));
        let op = if ty.is_float() {
            TernaryOp::Fma
        } else {
            TernaryOp::Mad
        };
        self.k.ir.ternary_to(op, ty, d, a, b, c);
        d
    }

    /// An integer of less than 32 bits modulo its range.
    pub(crate) fn wrapped(&mut self, ty: Ty, reg: Reg, to: Option<Reg>) -> Reg {
        if ty.bits() >= 32 || !ty.is_integer() {
            return reg;
        }
        let d = to.unwrap_or_else(|| self.k.ir.reg(RegType::B32));
        self.k.ir.ternary_to(
            TernaryOp::Bfe,
            lane_type(ty),
            d,
            reg,
            0,
            i64::from(ty.bits()),
        );
        d
    }

    pub(crate) fn binary(
        &mut self,
        op: BinaryOp,
        ty: Ty,
        a: Lanes,
        b: Lanes,
        to: &[Reg],
    ) -> Result<Lanes, ErrorKind> {
        if is_half(ty) && self.has(op, ty) {
            // Before Hopper bf16 has no sum and no product, but a fused one, which rounds the same.
            let terms =
                |k: &mut Self, one: &dyn Fn(&mut Self, f64) -> Operand, [a, b]: [Operand; 2]| {
                    let [one, minus, zero] = [1.0, -1.0, -0.0].map(|x| one(k, x));
                    match op {
                        BinaryOp::Add => [a, one, b],
                        BinaryOp::Sub => [b, minus, a],
                        _ => [a, b, zero],
                    }
                };
            let fuses = ty == Ty::Bf16
                && self.k.target() < Arch::Sm90
                && matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul);
            let is_paired = |lanes: &Lanes| matches!(lanes, Lanes::Pairs(_));
            let (kind, paired) = if is_paired(&a) || is_paired(&b) {
                (pair_type(ty), true)
            } else {
                (lane_type(ty), false)
            };
            let (a, b): (Vec<Reg>, Vec<Reg>) = if paired {
                (self.pairs(ty, a), self.pairs(ty, b))
            } else {
                let [a, b] = [a, b].map(|lanes| {
                    let each = self.each(lanes);
                    each.into_iter().map(|x| self.word(ty, x)).collect()
                });
                (a, b)
            };
            let number = |k: &mut Self, x: f64| -> Operand { k.k.ir.mov(kind, x).into() };
            let one = |(i, (a, b)): (usize, (Reg, Reg))| {
                let to = of(to, i, kind).filter(|_| paired);
                if fuses {
                    let terms = terms(self, &number, [a.into(), b.into()]);
                    self.fma_to(kind, terms, to)
                } else {
                    self.binary_to(op, kind, [a.into(), b.into()], to)
                }
            };
            let all: Vec<Reg> = a.into_iter().zip(b).enumerate().map(one).collect();
            return Ok(if paired {
                Lanes::Pairs(all)
            } else {
                Lanes::Each(all.into_iter().map(Operand::from).collect())
            });
        }
        if is_half(ty) {
            let (a, b) = (self.widened(a, ty)?, self.widened(b, ty)?);
            let one = |(a, b)| self.binary_to(op, Type::F32, [a, b], None).into();
            let wide = a.into_iter().zip(b).map(one).collect();
            return Ok(self.narrowed(wide, ty, to));
        }
        let lane = lane_type(ty);
        let (a, b) = (self.each(a), self.each(b));
        let one = |(i, (a, b)): (usize, (Operand, Operand))| {
            let a = self.word(ty, a);
            let to = of(to, i, lane);
            let (shifts, is_narrow) = (matches!(op, BinaryOp::Shl | BinaryOp::Shr), ty.bits() < 32);
            let b = match (shifts, ty.bits(), b) {
                // The count is one of 32 bits, and what leaves the type does not come back.
                (true, 64, Operand::Reg(b)) => self.k.ir.cvt(Type::U32, Type::U64, b).into(),
                (true, _, Operand::Int(b)) => Operand::Int(b & 0xffff_ffff),
                (_, _, b) => b,
            };
            let exact = matches!(
                op,
                BinaryOp::Min
                    | BinaryOp::Max
                    | BinaryOp::And
                    | BinaryOp::Or
                    | BinaryOp::Xor
                    | BinaryOp::Rem
                    | BinaryOp::Shr
            );
            if !is_narrow || exact {
                return self.binary_to(op, lane, [a.into(), b], to).into();
            }
            let d = self.binary_to(op, lane, [a.into(), b], None);
            self.wrapped(ty, d, to).into()
        };
        Ok(Lanes::Each(
            a.into_iter().zip(b).enumerate().map(one).collect(),
        ))
    }

    fn fma(&mut self, ty: Ty, all: [Lanes; 3], to: &[Reg]) -> Result<Lanes, ErrorKind> {
        if ty == Ty::Bf16 && self.k.target() < Arch::Sm80 {
            return self.refuse(format!(
                "fma of bf16 rounds once since sm_80, and the kernel is for {}: `.to(Ty::F32)` converts",
                self.k.target()
            ));
        }
        let lane = lane_type(ty);
        if is_half(ty) && all.iter().any(|lanes| matches!(lanes, Lanes::Pairs(_))) {
            let [a, b, c] = all.map(|lanes| self.pairs(ty, lanes));
            let kind = pair_type(ty);
            let one = |i: usize| {
                self.fma_to(kind, [a[i], b[i], c[i]].map(Operand::from), of(to, i, kind))
            };
            return Ok(Lanes::Pairs((0..a.len()).map(one).collect()));
        }
        let [a, b, c] = all.map(|lanes| self.each(lanes));
        let one = |i: usize| {
            let operands = if is_half(ty) {
                [a[i], b[i], c[i]].map(|x| self.word(ty, x).into())
            } else {
                [self.word(ty, a[i]).into(), b[i], c[i]]
            };
            let d = self.fma_to(lane, operands, of(to, i, lane).filter(|_| ty.bits() >= 32));
            self.wrapped(ty, d, None).into()
        };
        Ok(Lanes::Each((0..a.len()).map(one).collect()))
    }

    /// The integer that an index is for one element, where the expression is an index and nothing else.
    pub(crate) fn index(&self, expr: &Expr, i: usize) -> Option<Index> {
        match self.leaves.get(&Rc::as_ptr(&expr.0))? {
            ExprLeaf::Indices(all) => all.get(i).cloned(),
            ExprLeaf::Parts { .. } => None,
        }
    }

    /// Whether a condition holds for each of a group of elements.
    pub(crate) fn mask(
        &mut self,
        mask: &Mask,
        group: &[usize],
    ) -> Result<Vec<Result<bool, Guard>>, ErrorKind> {
        self.mask_in(mask, group, &mut HashMap::new())
    }

    /// The same, each part of the condition once.
    fn mask_in(
        &mut self,
        mask: &Mask,
        group: &[usize],
        known: &mut HashMap<*const Test, Vec<Result<bool, Guard>>>,
    ) -> Result<Vec<Result<bool, Guard>>, ErrorKind> {
        if let Some(known) = known.get(&Rc::as_ptr(&mask.0)) {
            return Ok(known.clone());
        }
        let found = self.tested(mask, group, known)?;
        known.insert(Rc::as_ptr(&mask.0), found.clone());
        Ok(found)
    }

    fn tested(
        &mut self,
        mask: &Mask,
        group: &[usize],
        known: &mut HashMap<*const Test, Vec<Result<bool, Guard>>>,
    ) -> Result<Vec<Result<bool, Guard>>, ErrorKind> {
        let site = std::panic::Location::caller();
        if let Test::Compare(cmp, a, b, _) = &*mask.0
            && let Some(pairs) = self.wide_pairs(a, b, group)
        {
            let compare = |(a, b): &(Index, Index)| self.compared(*cmp, a, b);
            return Ok(pairs.iter().map(compare).collect());
        }
        Ok(match &*mask.0 {
            Test::Compare(cmp, a, b, ty) => {
                let (a, b) = (
                    self.eval(a, *ty, group, &[])?,
                    self.eval(b, *ty, group, &[])?,
                );
                let (kind, a, b) = if is_half(*ty) {
                    (Type::F32, self.widened(a, *ty)?, self.widened(b, *ty)?)
                } else {
                    (lane_type(*ty), self.each(a), self.each(b))
                };
                let compare = |(a, b): (Operand, Operand)| {
                    let a = match a {
                        Operand::Reg(reg) => reg,
                        other => self.k.ir.mov(kind, other),
                    };
                    Err(self.k.ir.setp(signless(*cmp, kind), kind, a, b).into())
                };
                a.into_iter().zip(b).map(compare).collect()
            }
            Test::Both(op, a, b) => {
                let (a, b) = (
                    self.mask_in(a, group, known)?,
                    self.mask_in(b, group, known)?,
                );
                let both = |(a, b): (Result<bool, Guard>, Result<bool, Guard>)| match (op, a, b) {
                    (_, Err(a), Err(b)) => Err(self.k.ir.pred(*op, a, b).into()),
                    (BinaryOp::And, Ok(known), other) | (BinaryOp::And, other, Ok(known)) => {
                        if known {
                            other
                        } else {
                            Ok(false)
                        }
                    }
                    (BinaryOp::Or, Ok(known), other) | (BinaryOp::Or, other, Ok(known)) => {
                        if known { Ok(true) } else { other }
                    }
                    (_, Ok(known), other) | (_, other, Ok(known)) => negated(other, known),
                };
                a.into_iter().zip(b).map(both).collect()
            }
            Test::Not(a) => {
                let all = self.mask_in(a, group, known)?.into_iter();
                all.map(|test| negated(test, true)).collect()
            }
            Test::Conds(conds) => {
                let of = |i: &usize| conds[(*i).min(conds.len() - 1)];
                group.iter().map(|i| self.k.known(of(i), site)).collect()
            }
            Test::Poison(kind, _) => return Err(kind.clone()),
        })
    }

    /// Both sides of a comparison of integers, of which one does not fit `s32`.
    fn wide_pairs(&self, a: &Expr, b: &Expr, group: &[usize]) -> Option<Vec<(Index, Index)>> {
        let side = |expr: &Expr, i: usize| match &expr.0.node {
            ExprNode::Integer(x) => i64::try_from(*x).ok().map(Index::constant),
            _ => self.index(expr, i),
        };
        let pair = |i: &usize| Some((side(a, *i)?, side(b, *i)?));
        let pairs: Vec<(Index, Index)> = group.iter().map(pair).collect::<Option<_>>()?;
        let is_wide = |(a, b): &(Index, Index)| !is_s32(a) || !is_s32(b);
        pairs.iter().any(is_wide).then_some(pairs)
    }

    /// A comparison of integers of any range.
    fn compared(&mut self, cmp: Compare, a: &Index, b: &Index) -> Result<bool, Guard> {
        let k = &mut *self.k;
        let cond = match cmp {
            Compare::Lt | Compare::Ltu => k.less(a, b),
            Compare::Gt | Compare::Gtu => k.less(b, a),
            Compare::Le => Builder::not(k.less(b, a)),
            Compare::Ge => Builder::not(k.less(a, b)),
            Compare::Eq | Compare::Equ => k.equal(a, b),
            Compare::Ne | Compare::Neu => Builder::not(k.equal(a, b)),
            Compare::Nan => Cond::Known(false),
        };
        k.known(cond, std::panic::Location::caller())
    }

    fn select(
        &mut self,
        ty: Ty,
        tests: &[Result<bool, Guard>],
        a: Lanes,
        b: Lanes,
        to: &[Reg],
    ) -> Lanes {
        let lane = lane_type(ty);
        let (a, b) = (self.each(a), self.each(b));
        let one = |(i, (a, b)): (usize, (Operand, Operand))| {
            let guard = match tests[i] {
                Ok(true) => return a,
                Ok(false) => return b,
                Err(guard) => guard,
            };
            let (a, b) = if guard.when { (a, b) } else { (b, a) };
            let [a, b] = [a, b].map(|x| {
                if is_half(ty) {
                    self.word(ty, x).into()
                } else {
                    x
                }
            });
            let d = of(to, i, lane).unwrap_or_else(|| self.k.ir.reg(lane.register()));
            self.k.ir.push(Alu::Selp {
                ty: lane,
                d,
                a,
                b,
                p: guard.pred,
            });
            d.into()
        };
        Lanes::Each(a.into_iter().zip(b).enumerate().map(one).collect())
    }
}

/// Whether `s32` holds every value of an integer; one that has no value is refused for that.
fn is_s32(index: &Index) -> bool {
    let (low, high) = index.range();
    index.poison().is_some() || low >= i64::from(i32::MIN) && high <= i64::from(i32::MAX)
}

/// `!=` of integers knows no NaN.
fn signless(cmp: Compare, ty: Type) -> Compare {
    match cmp {
        Compare::Neu if !ty.is_float() => Compare::Ne,
        other => other,
    }
}

fn negated(test: Result<bool, Guard>, negate: bool) -> Result<bool, Guard> {
    match test {
        Ok(known) => Ok(known != negate),
        Err(guard) if negate => Err(guard.negated()),
        Err(guard) => Err(guard),
    }
}

/// A real constant as an operand, rounded to its type.
fn constant(ty: Ty, x: f64) -> Operand {
    let near = colex_atom::Rounding::Nearest;
    match colex_atom::FloatFormat::of(ty) {
        Some(_) if ty == Ty::F64 => Operand::Float(x),
        Some(of) if is_half(ty) || ty == Ty::F32 => Operand::Float(of.round(x, near)),
        Some(of) => Operand::Int(of.encode(x, near) as i64),
        // The bits of an integer of 64 bits without a sign.
        None => Operand::Int(x as i128 as i64),
    }
}

/// The operands of a node, those of its condition too.
fn operands(expr: &Expr) -> Vec<Expr> {
    let mut all = Vec::new();
    match &expr.0.node {
        ExprNode::Convert(x, ..) | ExprNode::Unary(_, x) => all.push(x.clone()),
        ExprNode::Binary(_, a, b) => all.extend([a.clone(), b.clone()]),
        ExprNode::Fma(three) => all.extend(three.iter().cloned()),
        ExprNode::Select(mask, a, b) => {
            mask.parts(&mut HashSet::new(), &mut |part| {
                if let Test::Compare(_, a, b, _) = &*part.0 {
                    all.extend([a.clone(), b.clone()]);
                }
            });
            all.extend([a.clone(), b.clone()]);
        }
        ExprNode::Input(_)
        | ExprNode::Fragment(_)
        | ExprNode::Register(_)
        | ExprNode::Indices(..)
        | ExprNode::Real(_)
        | ExprNode::Integer(_)
        | ExprNode::Poison(_) => {}
    }
    all
}

/// The nodes of an expression, each once, operands before what they are operands of.
pub(crate) fn nodes(expr: &Expr) -> Vec<Expr> {
    fn walk(expr: &Expr, all: &mut Vec<Expr>, seen: &mut HashSet<*const ExprData>) {
        if seen.insert(Rc::as_ptr(&expr.0)) {
            operands(expr)
                .iter()
                .for_each(|operand| walk(operand, all, seen));
            all.push(expr.clone());
        }
    }
    let (mut all, mut seen) = (Vec::new(), HashSet::new());
    walk(expr, &mut all, &mut seen);
    all
}

/// The leaves of an expression, each once.
pub(crate) fn leaves(expr: &Expr) -> Vec<Expr> {
    let is_leaf =
        |expr: &Expr| matches!(expr.0.node, ExprNode::Fragment(_) | ExprNode::Indices(..));
    nodes(expr).into_iter().filter(is_leaf).collect()
}

/// The fragments of an expression.
pub(crate) fn fragments(leaves: &[Expr]) -> Vec<&Fragment> {
    let fragments = leaves.iter().filter_map(|leaf| match &leaf.0.node {
        ExprNode::Fragment(fragment) => Some(fragment),
        _ => None,
    });
    fragments.collect()
}

/// The index in `layout` for each index of `form`.
pub(crate) fn broadcast(
    operation: &'static str,
    layout: &Layout,
    form: &Layout,
) -> Result<Vec<i64>, ErrorKind> {
    let (size, wanted) = (layout.size(), form.size());
    if size == wanted {
        return Ok((0..size).collect());
    }
    if size == 1 {
        return Ok(vec![0; wanted as usize]);
    }
    let modes: Vec<(i64, i64)> = layout
        .modes()
        .map(|m| m.size())
        .zip(form.modes().map(|m| m.size()))
        .collect();
    let fits =
        layout.rank() == form.rank() && modes.iter().all(|(own, form)| own == form || *own == 1);
    if !fits {
        let why = format!(
            "a fragment of {} and one of {}: they have the same number of elements, or the same modes where extents of 1 are \
             broadcast",
            layout.shape(),
            form.shape()
        );
        return Err(ErrorKind::operands(operation, why));
    }
    let mut all = vec![0];
    let mut stride = 1;
    for (own, extent) in modes {
        let step = if own == 1 { 0 } else { stride };
        all = (0..extent)
            .flat_map(|i| all.iter().map(move |x| x + i * step))
            .collect();
        stride *= own;
    }
    Ok(all)
}
