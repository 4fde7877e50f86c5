//! From an [`Index`] to instructions.

use std::cmp::Ordering;
use std::panic::Location;

use super::Builder;
use super::claims::Says;
use super::flow::Cond;
use crate::error::ErrorKind;
use crate::index::{Index, Node};
use colex_ir::{Address, BinaryOp, Compare, KernelBuilder, Operand, Reg, RegType, Type};

/// The 32-bit type that holds a range, if there is one.
pub(crate) fn narrow_type((low, high): (i64, i64)) -> Option<Type> {
    if low >= 0 && high <= i64::from(u32::MAX) {
        Some(Type::U32)
    } else if low >= i64::from(i32::MIN) && high <= i64::from(i32::MAX) {
        Some(Type::S32)
    } else {
        None
    }
}

impl Builder {
    /// Returns the value in a register of 32 bits.
    ///
    /// If 32 bits do not hold the range of the value, [`Builder::finish`] returns an error.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_ir::RegType;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let tid = k.thread();
    /// let register = k.value(&(&tid * 3));
    /// assert_eq!(register.ty, RegType::B32);
    /// assert_eq!(k.value(&(tid * 3)), register); // computed once
    /// ```
    #[track_caller]
    pub fn value(&mut self, index: &Index) -> Reg {
        let at = Location::caller();
        self.own_indices([index], at);
        if narrow_type(index.range()).is_none() {
            match index.poison() {
                Some(poison) => self.fail_poison(poison, at),
                None => {
                    let (index, range) = (index.to_string(), index.range());
                    self.fail(ErrorKind::Wide { index, range }, at);
                }
            }
        }
        self.site(at, |k| k.lower(index, false))
    }

    /// Returns the value in a register of 64 bits.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_ir::RegType;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let tid = k.thread();
    /// assert_eq!(k.wide_value(&(tid * (1_i64 << 40))).ty, RegType::B64);
    /// ```
    #[track_caller]
    pub fn wide_value(&mut self, index: &Index) -> Reg {
        self.site(Location::caller(), |k| k.lower(index, true))
    }

    /// Returns a constant as an immediate, and any other index in a 32-bit register.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let tid = k.thread();
    /// assert_eq!(k.operand(&7.into()), colex_ir::Operand::Int(7));
    /// assert_eq!(k.operand(&tid), k.value(&tid).into());
    /// ```
    #[track_caller]
    pub fn operand(&mut self, index: &Index) -> Operand {
        match index.as_constant() {
            Some(constant) => constant.into(),
            None => self.value(index).into(),
        }
    }

    /// Returns an address in bytes: a register, and a constant that becomes the immediate offset of the instruction.
    /// The register has 64 bits for global memory, and else 32 bits.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let (start, tid) = (k.shared_bytes(256, 16), k.thread());
    /// let address = k.address(&(start + tid * 4 + 128), false);
    /// assert_eq!(address.offset, 128); // an immediate of the instruction
    /// ```
    #[track_caller]
    pub fn address(&mut self, bytes: &Index, global: bool) -> Address {
        self.own_indices([bytes], Location::caller());
        let (rest, constant) = bytes.split();
        let base = match self.launch.base_of(&rest) {
            Some(base) => Address::from(base),
            None if global => self.wide_value(&rest).into(),
            None => self.value(&rest).into(),
        };
        base.at(constant)
    }

    /// Returns the condition `a < b`.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let tid = k.thread();
    /// assert_eq!(k.less(&tid, &32.into()), Cond::Known(true)); // its range says so
    /// assert!(matches!(k.less(&tid, &7.into()), Cond::Where(_)));
    /// ```
    #[track_caller]
    pub fn less(&mut self, a: &Index, b: &Index) -> Cond {
        self.own_indices([a, b], Location::caller());
        // What a comparison folds to is right where they lie in their ranges.
        [a, b].into_iter().for_each(|x| self.claim_owed(x));
        let (ra, rb) = (a.range(), b.range());
        match (ra.1 < rb.0, ra.0 >= rb.1) {
            (true, _) => Cond::Known(true),
            (_, true) => Cond::Known(false),
            _ => self.site(Location::caller(), |k| k.compare(Compare::Gt, b - a)),
        }
    }

    /// Returns the condition `a == b`.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let tid = k.thread();
    /// assert_eq!(k.equal(&tid, &32.into()), Cond::Known(false)); // its range says so
    /// assert_eq!(k.equal(&(&tid % 8 + &tid / 8 * 8), &tid), Cond::Known(true));
    /// assert!(matches!(k.equal(&tid, &7.into()), Cond::Where(_)));
    /// ```
    #[track_caller]
    pub fn equal(&mut self, a: &Index, b: &Index) -> Cond {
        self.own_indices([a, b], Location::caller());
        [a, b].into_iter().for_each(|x| self.claim_owed(x));
        let difference = b - a;
        let (low, high) = difference.range();
        match difference.as_constant() {
            Some(d) => Cond::Known(d == 0),
            None if low > 0 || high < 0 => Cond::Known(false),
            None => self.site(Location::caller(), |k| k.compare(Compare::Eq, difference)),
        }
    }

    /// `difference > 0` or `== 0`, its constant on the other side: places that differ by constants share a register.
    fn compare(&mut self, cmp: Compare, difference: Index) -> Cond {
        let (rest, constant) = difference.split();
        let [low, high] = [rest.range().0, rest.range().1].map(|end| end.saturating_add(constant));
        match cmp {
            Compare::Gt if low > 0 => return Cond::Known(true),
            Compare::Gt if high <= 0 => return Cond::Known(false),
            _ => {}
        }
        // `-x > c` is `x < -c`: a lone negative term needs no register of its own.
        let (rest, cmp, bound) = match &rest.terms().0[..] {
            [(x, -1)] if cmp == Compare::Gt => (x.clone(), Compare::Lt, constant),
            [(x, -1)] => (x.clone(), cmp, constant),
            _ => (rest, cmp, constant.saturating_neg()),
        };
        let key = (rest.clone(), bound, cmp);
        if let Some(p) = self.scopes.iter().rev().find_map(|s| s.tests.get(&key)) {
            return self.holds(*p);
        }
        let (wide, ty) = match narrow_type(rest.range()) {
            Some(ty) if narrow_type((bound, bound)).is_some() && fits(ty, bound) => (false, ty),
            _ => (true, Type::S64),
        };
        // A register of 32 bits wraps, so the comparison is narrow only if both sides fit one type: signed 64 bits otherwise.
        let value = self.lower(&rest, wide);
        let home = self.home(rest.0.depth);
        let p = self.ir.hoisted(home, |k| k.setp(cmp, ty, value, bound));
        let order = match cmp {
            Compare::Gt => Ordering::Greater,
            Compare::Lt => Ordering::Less,
            _ => Ordering::Equal,
        };
        self.claims.says(p, Says::Compare(rest, order, bound));
        self.scopes[home].tests.insert(key, p);
        self.holds(p)
    }

    /// Keeps the failure of numbers of which one is of another builder.
    pub(crate) fn own_indices<const N: usize>(
        &mut self,
        indices: [&Index; N],
        at: &'static Location<'static>,
    ) {
        if let Err(kind) = self.failure.own_indices(indices) {
            self.fail(kind, at);
        }
    }

    /// The register of an expression: an earlier one, or one that is computed in the outermost body where its leaves
    /// are known.
    pub(crate) fn lower(&mut self, index: &Index, wide: bool) -> Reg {
        self.own_indices([index], Location::caller());
        self.claim_owed(index);
        let key = (index.clone(), wide);
        if let Some(reg) = self.scopes.iter().rev().find_map(|s| s.values.get(&key)) {
            return *reg;
        }
        // A value is computed in the outermost body where its leaves are known, outside of loops: one register serves every
        // use, and no iteration computes it again.
        let home = self.home(index.0.depth);
        let reg = match (wide, narrow_type(index.range())) {
            (true, Some(ty)) if !is_wide_leaf(index) => {
                let narrow = self.lower(index, false);
                let to = if ty == Type::S32 {
                    Type::S64
                } else {
                    Type::U64
                };
                self.emit_at(home, |k| k.cvt(to, ty, narrow))
            }
            (false, None) => {
                let value = self.lower(index, true);
                self.emit_at(home, |k| k.cvt(Type::U32, Type::U64, value))
            }
            _ => self.compute(index, wide, home),
        };
        self.scopes[home].values.insert(key, reg);
        reg
    }

    pub(crate) fn emit_at(
        &mut self,
        home: usize,
        body: impl FnOnce(&mut KernelBuilder) -> Reg,
    ) -> Reg {
        self.ir.hoisted(home, body)
    }

    fn compute(&mut self, index: &Index, wide: bool, home: usize) -> Reg {
        let bits = if wide { Type::B64 } else { Type::B32 };
        match &index.0.node {
            Node::Leaf(leaf) => {
                self.check_leaf(leaf);
                match (wide, leaf.reg.ty.bits()) {
                    (false, 64) => self.emit_at(home, |k| k.cvt(Type::U32, Type::U64, leaf.reg)),
                    (true, 32) if leaf.is_signed => {
                        self.emit_at(home, |k| k.cvt(Type::S64, Type::S32, leaf.reg))
                    }
                    (true, 32) => self.emit_at(home, |k| k.cvt(Type::U64, Type::U32, leaf.reg)),
                    _ => leaf.reg,
                }
            }
            Node::Poison(poison) => {
                self.fail_poison(poison, Location::caller());
                self.ir.reg(if wide { RegType::B64 } else { RegType::B32 })
            }
            Node::Opaque(x) => self.lower(x, wide),
            Node::Sum(terms, constant) => self.lower_sum(terms, *constant, wide, home),
            Node::BitField(x, mask, shift) => self.lower_bits(x, *mask, *shift, wide, home),
            Node::Product(a, b) => self.lower_product(a, b, wide, home),
            Node::Quotient(a, b) => self.lower_quotient(a, b, wide, home),
            Node::Remainder(a, b) => {
                // The quotient is a value of its own, so a kernel that uses `a / b` and `a % b` divides once.
                let quotient = self.lower(&(a / b), wide);
                let (a, minus) = (self.lower(a, wide), self.either(&(-b.clone()), wide));
                let ty = if wide { Type::S64 } else { Type::S32 };
                self.emit_at(home, |k| k.mad(ty, quotient, minus, a))
            }
            Node::Xor(a, b) => {
                let (a, b) = (self.lower(a, wide), self.either(b, wide));
                self.emit_at(home, |k| k.xor(bits, a, b))
            }
            Node::Min(a, b) => {
                // 32 bits hold both operands only in one type.
                let asked = wide;
                let both = hull(a, b);
                let wide = wide || narrow_type(both).is_none();
                let ty = match (wide, both.0 < 0) {
                    (true, true) => Type::S64,
                    (true, false) => Type::U64,
                    (false, true) => Type::S32,
                    (false, false) => Type::U32,
                };
                let (a, b) = (self.lower(a, wide), self.either(b, wide));
                let least = self.emit_at(home, |k| k.min(ty, a, b));
                self.of_width(least, [wide, asked], home)
            }
            Node::Select(parts) => {
                let [a, b, then, other] = parts.as_ref();
                let cond = self.less(a, b);
                let cond = self.known(cond, Location::caller());
                let (then, other) = (self.either(then, wide), self.either(other, wide));
                self.emit_at(home, |k| match cond {
                    Ok(known) => k.mov(bits, if known { then } else { other }),
                    Err(g) if g.when => k.selp(bits, then, other, g.pred),
                    Err(g) => k.selp(bits, other, then, g.pred),
                })
            }
        }
    }

    fn either(&mut self, index: &Index, wide: bool) -> Operand {
        match index.as_constant() {
            Some(constant) => constant.into(),
            None => self.lower(index, wide).into(),
        }
    }

    fn lower_bits(&mut self, x: &Index, mask: u64, shift: i32, wide: bool, home: usize) -> Reg {
        let asked = wide;
        let wide = wide || narrow_type(x.range()).is_none();
        let ty = if wide { Type::B64 } else { Type::B32 };
        let unsigned = if wide { Type::U64 } else { Type::U32 };
        let value = self.lower(x, wide);
        let out = if shift < 0 { (1u64 << -shift) - 1 } else { 0 };
        let whole = mask == x.0.bits & !out;
        let word = |mask: u64| {
            if wide {
                mask as i64
            } else {
                i64::from(mask as u32)
            }
        };
        let found = match shift {
            0 => self.emit_at(home, |k| k.and(ty, value, word(mask))),
            s if s > 0 => {
                let kept = self.lower(&x.bits(mask, 0), wide);
                self.emit_at(home, |k| k.shl(ty, kept, i64::from(s)))
            }
            s => self.emit_at(home, |k| {
                let down = k.shr(unsigned, value, i64::from(-s));
                if whole {
                    down
                } else {
                    k.and(ty, down, word(mask >> -s))
                }
            }),
        };
        self.of_width(found, [wide, asked], home)
    }

    /// A value that was computed in 64 bits, in the width that is asked for: it fits.
    fn of_width(&mut self, value: Reg, [computed, asked]: [bool; 2], home: usize) -> Reg {
        if computed == asked {
            return value;
        }
        self.emit_at(home, |k| k.cvt(Type::U32, Type::U64, value))
    }

    fn lower_product(&mut self, a: &Index, b: &Index, wide: bool, home: usize) -> Reg {
        let types = [a, b].map(|x| narrow_type(x.range()));
        match (wide, types) {
            (true, [Some(x), Some(y)]) if x == y => {
                let (a, b) = (self.lower(a, false), self.lower(b, false));
                self.emit_at(home, |k| k.mul_wide(x, a, b))
            }
            _ => {
                let ty = if wide { Type::S64 } else { Type::U32 };
                let (a, b) = (self.lower(a, wide), self.lower(b, wide));
                self.emit_at(home, |k| k.mul(ty, a, b))
            }
        }
    }

    /// Rounds down; `div` truncates, which differs for negative numbers.
    fn lower_quotient(&mut self, a: &Index, b: &Index, wide: bool, home: usize) -> Reg {
        let asked = wide;
        let wide = wide || narrow_type(hull(a, b)).is_none();
        let (unsigned, signed) = if wide {
            (Type::U64, Type::S64)
        } else {
            (Type::U32, Type::S32)
        };
        let (value, by) = (self.lower(a, wide), self.either(b, wide));
        let power = b.as_constant().filter(|d| d.count_ones() == 1);
        let found = self.emit_at(home, |k| match power {
            Some(d) => {
                let ty = if a.range().0 < 0 { signed } else { unsigned };
                k.shr(ty, value, i64::from(d.trailing_zeros()))
            }
            None if a.range().0 >= 0 => k.binary(BinaryOp::Div, unsigned, value, by),
            None => {
                let quotient = k.div(signed, value, by);
                let product = k.mul(signed, quotient, by);
                let above = k.setp(Compare::Gt, signed, product, value);
                let less = k.sub(signed, quotient, 1);
                k.selp(unsigned, less, quotient, above)
            }
        });
        self.of_width(found, [wide, asked], home)
    }
}

/// The range that holds the values of both.
fn hull(a: &Index, b: &Index) -> (i64, i64) {
    let (a, b) = (a.range(), b.range());
    (a.0.min(b.0), a.1.max(b.1))
}

pub(crate) fn is_wide_leaf(x: &Index) -> bool {
    matches!(&x.0.node, Node::Leaf(leaf) if leaf.reg.ty.bits() == 64)
}

/// Whether an instruction of that type can hold the constant.
pub(crate) fn fits(ty: Type, c: i64) -> bool {
    match ty {
        Type::U32 => u32::try_from(c).is_ok(),
        _ => i32::try_from(c).is_ok(),
    }
}
