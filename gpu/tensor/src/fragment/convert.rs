//! Conversion of fragments to other element types.

use std::panic::Location;

use colex_atom::Ty;

use super::{Fragment, class};
use crate::build::Builder;
use crate::error::ErrorKind;
use colex_ir::{Reg, RegType, Rounding, Type};

/// The type that an instruction reads an element as.
fn scalar(ty: Ty) -> Option<Type> {
    Some(match ty {
        Ty::F64 => Type::F64,
        Ty::F32 => Type::F32,
        Ty::F16 => Type::F16,
        Ty::Bf16 => Type::Bf16,
        Ty::S32 => Type::S32,
        _ => return None,
    })
}

impl Builder {
    /// Converts the elements to another type, under the same layout, in fresh registers: between `f64`, `f32`, `f16`,
    /// `bf16` and `s32`, rounded to nearest even (toward zero into integers, `f64` and `s32` to the narrow ones through
    /// `f32`), and `f32` to `tf32`.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_tensor::Builder;
    ///
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let sums = k.fragment(Ty::F32, "_4:_1");
    /// k.clear(&sums);
    /// let halves = k.convert(&sums, Ty::F16);
    /// assert_eq!((halves.regs().len(), halves.packed()), (2, 2));
    /// assert_eq!(k.convert(&halves, Ty::F32).regs().len(), 4);
    /// k.convert(&halves, Ty::S8);
    /// let error = k.finish().unwrap_err();
    /// assert_eq!(error.what(), "convert: f16 to s8; f64, f32, f16, bf16 and s32 are converted into each other");
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if a type is not one of these.
    #[track_caller]
    pub fn convert(&mut self, from: &Fragment, to: Ty) -> Fragment {
        let inert = |k: &mut Self| k.inert_fragment(to);
        self.attempt(Location::caller(), inert, |k| k.converted(from, to))
    }

    fn converted(&mut self, from: &Fragment, to: Ty) -> Result<Fragment, ErrorKind> {
        self.own_fragments(&[from])?;
        if from.ty == to {
            return Ok(from.clone());
        }
        let target = if to == Ty::Tf32 {
            Some(Type::Tf32)
        } else {
            scalar(to)
        };
        let is_tf32 = to == Ty::Tf32 && from.ty != Ty::F32;
        let (Some(source), Some(target), false) = (scalar(from.ty), target, is_tf32) else {
            let why = format!(
                "{} to {to}; f64, f32, f16, bf16 and s32 are converted into each other",
                from.ty
            );
            return Err(ErrorKind::operands("convert", why));
        };
        let elements = self.elements(from, source);
        let regs = match (source, target) {
            (Type::F32, Type::F16) => self.paired(&elements, Type::F16x2),
            (Type::F32, Type::Bf16) => self.paired(&elements, Type::Bf16x2),
            _ => self.each_converted(&elements, source, target),
        };
        let converted = Fragment {
            ty: to,
            regs,
            ..from.clone()
        };
        self.hold_same(&converted, from);
        Ok(converted)
    }

    /// The elements of all registers, each in its own.
    fn elements(&mut self, from: &Fragment, ty: Type) -> Vec<Reg> {
        let packed = from.regs[0].ty.bits() > ty.bits();
        let split = |reg: &Reg| {
            if packed {
                self.ir.unpack(RegType::B16, *reg)
            } else {
                vec![*reg]
            }
        };
        from.regs.iter().flat_map(split).collect()
    }

    /// Two elements of `f32` rounded into one register; zero beside the last of an odd number.
    fn paired(&mut self, elements: &[Reg], ty: Type) -> Vec<Reg> {
        let pair = |pair: &[Reg]| match pair {
            [lo, hi] => self.ir.cvt_pack(ty, *hi, *lo),
            [lo, ..] => self.ir.cvt_pack(ty, 0.0, *lo),
            [] => unreachable!("chunks are not empty"),
        };
        elements.chunks(2).map(pair).collect()
    }

    fn each_converted(&mut self, elements: &[Reg], from: Type, to: Type) -> Vec<Reg> {
        let convert = |reg: &Reg| self.one(*reg, from, to);
        let regs: Vec<Reg> = elements.iter().map(convert).collect();
        if to.bits() >= 32 {
            return regs;
        }
        let zero = regs.len() % 2 == 1;
        let zero = zero.then(|| self.ir.mov(Type::B16, 0));
        let regs: Vec<Reg> = regs.into_iter().chain(zero).collect();
        let pack = |pair: &[Reg]| self.ir.pack(class(Ty::F16), pair);
        regs.chunks(2).map(pack).collect()
    }

    fn one(&mut self, reg: Reg, from: Type, to: Type) -> Reg {
        let narrow = |ty: Type| ty.is_float() && ty.bits() == 16;
        // PTX converts the narrow floats only to and from `f32`.
        if narrow(from) && to != Type::F32 || narrow(to) && from != Type::F32 {
            let middle = self.one(reg, from, Type::F32);
            return self.one(middle, Type::F32, to);
        }
        if to == Type::Tf32 {
            let d = self.ir.reg(RegType::B32);
            self.ir.cvt_to(d, to, from, Rounding::Rna, reg);
            return d;
        }
        self.ir.cvt(to, from, reg)
    }
}
