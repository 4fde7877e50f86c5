//! Arithmetic on fragments, element by element.

use std::panic::Location;

use colex_atom::Ty;

use super::Fragment;
use crate::build::Builder;
use crate::build::flow::Cond;
use crate::error::ErrorKind;
use colex_ir::{Alu, BinaryOp, KernelBuilder, Operand, Reg, TernaryOp, Type, UnaryOp};

/// A source of an element-wise operation: the element at the same index of another fragment, or one value for all
/// elements.
#[derive(Clone, Copy, Debug)]
pub enum FragmentExpr<'a> {
    /// A fragment with the same number of elements.
    Each(&'a Fragment),
    /// A register or a constant.
    All(Operand),
}

impl<'a> From<&'a Fragment> for FragmentExpr<'a> {
    fn from(fragment: &'a Fragment) -> Self {
        FragmentExpr::Each(fragment)
    }
}

macro_rules! from_operand {
    ($($ty:ty),*) => {$(
        impl From<$ty> for FragmentExpr<'_> {
            fn from(value: $ty) -> Self {
                FragmentExpr::All(value.into())
            }
        }
    )*};
}
from_operand!(Reg, Operand, f32, f64, i32, i64);

/// The type of an instruction on elements that have a register each.
fn lone(operation: &'static str, fragment: &Fragment) -> Result<Type, ErrorKind> {
    match fragment.ty {
        Ty::F32 => Ok(Type::F32),
        Ty::F64 => Ok(Type::F64),
        Ty::S32 => Ok(Type::S32),
        other => Err(ErrorKind::operands(
            operation,
            format!("elements of {other}; f32, f64 and s32 are (`convert` makes them)"),
        )),
    }
}

/// A number as an element of a type. A float type rounds it; an integer type must hold it exactly.
fn number(operation: &'static str, ty: Type, value: f64) -> Result<Operand, ErrorKind> {
    let whole = value as i32;
    match ty.is_float() {
        true => Ok(ty.constant(value)),
        false if f64::from(whole) == value => Ok(Operand::Int(whole.into())),
        false => {
            let why = format!("{value} is no {ty}");
            Err(ErrorKind::operands(operation, why))
        }
    }
}

/// The fragments among what an instruction writes and reads.
fn fragments<'a>(d: &'a Fragment, terms: &[FragmentExpr<'a>]) -> Vec<&'a Fragment> {
    let each = terms.iter().filter_map(|term| match term {
        FragmentExpr::Each(fragment) => Some(*fragment),
        FragmentExpr::All(_) => None,
    });
    std::iter::once(d).chain(each).collect()
}

impl FragmentExpr<'_> {
    /// The operand for each element of `d`.
    fn of(&self, operation: &'static str, d: &Fragment) -> Result<Vec<Operand>, ErrorKind> {
        let size = d.layout.size();
        let fragment = match self {
            FragmentExpr::All(operand) => return Ok(vec![*operand; size as usize]),
            FragmentExpr::Each(fragment) => fragment,
        };
        if (fragment.ty, fragment.layout.size()) != (d.ty, size) {
            let why = format!(
                "{} elements of {} for {size} of {}: as many of the same type are",
                fragment.layout.size(),
                fragment.ty,
                d.ty
            );
            return Err(ErrorKind::operands(operation, why));
        }
        (0..size)
            .map(|i| Ok(fragment.element(i)?.0.into()))
            .collect()
    }
}

/// The register of every element. If several elements share one register, the operation reduces into it, so it must
/// also read it.
fn registers(
    operation: &'static str,
    d: &Fragment,
    read: &[Vec<Operand>],
) -> Result<Vec<Reg>, ErrorKind> {
    let regs = (0..d.layout.size()).map(|i| Ok(d.element(i)?.0));
    let regs = regs.collect::<Result<Vec<Reg>, ErrorKind>>()?;
    let gathers = |term: &Vec<Operand>| term.iter().zip(&regs).all(|(a, d)| *a == Operand::Reg(*d));
    if !d.layout.is_injective()? && !read.iter().any(gathers) {
        let why = format!(
            "{} has one register for several elements, and none of them is read: only the last would stay",
            d.layout
        );
        return Err(ErrorKind::operands(operation, why));
    }
    Ok(regs)
}

impl Builder {
    /// Computes `d[i] = op(a[i])`, in the order of `i`. `d` may be `a`.
    ///
    /// ```
    /// # use colex_atom::{Arch, Ty};
    /// # use colex_ir::UnaryOp;
    /// # use colex_proof::examples::elements;
    /// # use colex_tensor::Builder;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let x = k.fragment(Ty::F32, "_2:_1");
    /// k.fill(&x, -4.0);
    /// k.map1(UnaryOp::Abs, &x, &x);
    /// k.map1(UnaryOp::Sqrt, &x, &x);
    /// assert_eq!(elements(k, &x)?[0], [2.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if elements are packed into a register, if types or sizes differ, if fragments hold different
    /// elements of their tiles at the same index, or if `d` has one register for several elements and the operation does not
    /// read `d`.
    #[track_caller]
    pub fn map1<'a>(&mut self, op: UnaryOp, d: &Fragment, a: impl Into<FragmentExpr<'a>>) {
        self.each(
            "map1",
            Location::caller(),
            d,
            [a.into()],
            |k, ty, d, [a]| {
                k.push(Alu::Unary { op, ty, d, a });
            },
        );
    }

    /// Computes `d[i] = a[i] op b[i]`, in the order of `i`. `d` may be `a` or `b`.
    ///
    /// There is one instruction for each index, and elements at one offset share a register. A fragment whose layout has stride
    /// 0 along the columns of another one therefore has one number for each row: as a source it is broadcast along the row, and
    /// as the destination it is the reduction of the row. [`Rows::broadcast_rows`](crate::Rows::broadcast_rows) builds such a
    /// fragment from one number per row.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_ir::BinaryOp;
    /// use colex_tensor::Builder;
    ///
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let x = k.fragment(Ty::F32, "(_2,_3):(_1,_2)");
    /// let top = k.fragment(Ty::F32, "(_2,_3):(_1,_0)");
    /// k.fill(&x, 1.0);
    /// k.fill(&top, f64::NEG_INFINITY);
    /// k.map2(BinaryOp::Max, &top, &top, &x);
    /// k.map2(BinaryOp::Sub, &x, &x, &top);
    /// let text = k.finish()?.kernel.ptx()?;
    /// assert_eq!(text.matches("max.f32").count(), 6);
    /// assert!(text.contains("max.f32 %f6, %f6, %f4;") && text.contains("sub.rn.f32 %f5, %f5, %f7;"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::map1`].
    #[track_caller]
    pub fn map2<'a>(
        &mut self,
        op: BinaryOp,
        d: &Fragment,
        a: impl Into<FragmentExpr<'a>>,
        b: impl Into<FragmentExpr<'a>>,
    ) {
        let terms = [a.into(), b.into()];
        self.each("map2", Location::caller(), d, terms, |k, ty, d, [a, b]| {
            k.binary_to(op, ty, d, a, b);
        });
    }

    /// Computes `d[i] = a[i] b[i] + c[i]`, in the order of `i`, rounded once if it is a float. `d` may be any of the
    /// three.
    ///
    /// ```
    /// # use colex_atom::{Arch, Ty};
    /// # use colex_proof::examples::elements;
    /// # use colex_tensor::Builder;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let x = k.fragment(Ty::F32, "_2:_1");
    /// k.fill(&x, 3.0);
    /// k.fma(&x, &x, 10.0_f32, 0.5_f32);
    /// assert_eq!(elements(k, &x)?[0], [30.5, 30.5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::map1`].
    #[track_caller]
    pub fn fma<'a>(
        &mut self,
        d: &Fragment,
        a: impl Into<FragmentExpr<'a>>,
        b: impl Into<FragmentExpr<'a>>,
        c: impl Into<FragmentExpr<'a>>,
    ) {
        let terms = [a.into(), b.into(), c.into()];
        self.each(
            "fma",
            Location::caller(),
            d,
            terms,
            |k, ty, d, [a, b, c]| {
                let op = if ty.is_float() {
                    TernaryOp::Fma
                } else {
                    TernaryOp::Mad
                };
                k.ternary_to(op, ty, d, a, b, c);
            },
        );
    }

    /// Copies `d[i] = a[i]`, in the order of `i`: fragments of one type and size under any two layouts.
    ///
    /// ```
    /// # use colex_atom::{Arch, Ty};
    /// # use colex_proof::examples::elements;
    /// # use colex_tensor::Builder;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let [x, d] = ["(_2,_2):(_1,_2)", "(_2,_2):(_2,_1)"].map(|layout| k.fragment(Ty::F32, layout));
    /// k.fill(&x, 1.0);
    /// k.fill(&x.slice((.., 1)), 7.0);
    /// k.assign(&d, &x);
    /// assert_eq!(elements(k, &d)?[0], [1.0, 1.0, 7.0, 7.0]); // in the order of the indices
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::map1`].
    #[track_caller]
    pub fn assign<'a>(&mut self, d: &Fragment, a: impl Into<FragmentExpr<'a>>) {
        self.each(
            "assign",
            Location::caller(),
            d,
            [a.into()],
            |k, _, d, [a]| {
                k.mov_to(d, a);
            },
        );
    }

    /// Adds the instruction `op` for every element of `d`, in the order of their indices.
    fn each<const N: usize>(
        &mut self,
        operation: &'static str,
        at: &'static Location<'static>,
        d: &Fragment,
        terms: [FragmentExpr<'_>; N],
        op: impl Fn(&mut KernelBuilder, Type, Reg, [Operand; N]),
    ) {
        self.run(at, |k| {
            k.own_fragments(&fragments(d, &terms))?;
            let ty = lone(operation, d)?;
            let read = terms.iter().map(|term| term.of(operation, d));
            let read = read.collect::<Result<Vec<Vec<Operand>>, ErrorKind>>()?;
            let to = registers(operation, d, &read)?;
            k.check_each(operation, &fragments(d, &terms))?;
            for (i, d) in to.into_iter().enumerate() {
                op(&mut k.ir, ty, d, std::array::from_fn(|term| read[term][i]));
            }
            Ok(())
        });
    }

    /// Sets every element to `value`, converted to the element type.
    ///
    /// ```
    /// # use colex_atom::{Arch, Ty};
    /// # use colex_proof::examples::elements;
    /// # use colex_tensor::Builder;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let x = k.fragment(Ty::F32, "_2:_1");
    /// k.fill(&x, f64::NEG_INFINITY);
    /// assert_eq!(elements(k, &x)?[0], [f32::NEG_INFINITY; 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::map1`], and if the type does not hold the number.
    #[track_caller]
    pub fn fill(&mut self, d: &Fragment, value: f64) {
        self.run(Location::caller(), |k| {
            k.own_fragments(&[d])?;
            let value = number("fill", lone("fill", d)?, value)?;
            for reg in d.named()? {
                k.ir.mov_to(reg, value);
            }
            k.forget(d)
        });
    }

    /// Sets the elements for which `keep` does not hold to `value`, for example those beyond the end of a row or above the
    /// diagonal. `keep` is called with the index of each element in the fragment's layout.
    ///
    /// ```
    /// # use colex_atom::{Arch, Ty};
    /// # use colex_proof::examples::elements;
    /// # use colex_tensor::Builder;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let (x, lane) = (k.fragment(Ty::F32, "_3:_1"), k.lane());
    /// k.fill(&x, 1.0);
    /// k.mask(&x, 0.0, |k, i| k.less(&i.into(), &lane)); // keeps element `i` where `i < lane`
    /// assert_eq!(elements(k, &x)?[1..3], [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::map1`].
    #[track_caller]
    pub fn mask(
        &mut self,
        d: &Fragment,
        value: f64,
        mut keep: impl FnMut(&mut Builder, i64) -> Cond,
    ) {
        let at = Location::caller();
        self.run(at, |k| {
            k.own_fragments(&[d])?;
            let value = number("mask", lone("mask", d)?, value)?;
            let to = (0..d.layout.size()).map(|i| Ok(d.element(i)?.0));
            let to = to.collect::<Result<Vec<Reg>, ErrorKind>>()?;
            for (i, d) in (0..).zip(to) {
                let cond = keep(k, i);
                match k.known(cond, at) {
                    Ok(true) => {}
                    Ok(false) => k.ir.mov_to(d, value),
                    Err(guard) => {
                        k.ir.when(guard.negated(), |k| k.mov_to(d, value));
                    }
                }
            }
            Ok(())
        });
    }
}
