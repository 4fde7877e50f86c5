//! `Fragment`: a tensor in a thread's registers.

mod address;
pub(crate) mod along;
pub(crate) mod as_operand;
pub(crate) mod contents;
pub(crate) mod convert;
pub(crate) mod dump;
pub(crate) mod elements;
pub(crate) mod elementwise;
pub(crate) mod expr;
pub(crate) mod reduce;
pub(crate) mod rows;

use std::panic::Location;
use std::rc::Rc;

use colex_atom::{MmaAtom, Ty};
use colex_layout::{Int, IntTuple, IntoLayout, Layout};
use colex_tiled::{Operand, TiledMma};

use crate::build::Builder;
use crate::build::flow::zero_of;
use crate::error::ErrorKind;
use crate::failure::FirstFailure;
use crate::tensor::coord::SliceCoord;
use crate::tensor::partition::MAX_REGISTERS;
use colex_ir::{Reg, RegType};

/// Elements in registers under a layout: element `e` lies at bit `e * bits` of the registers one after the other.
///
/// A slice shares the registers of its fragment; no element is copied.
///
/// The builder knows which element of which tile a register holds: the one that it was made for ([`Builder::fragment_of`],
/// [`Builder::fragment_like`]), or that an operation has put there. A copy of all of a fragment takes exactly these elements of
/// its other end. A copy of a part ([`Fragment::slice`], [`Fragment::values`], [`Fragment::gathered`]) may move them, since
/// registers are storage too, but all that one operation has put there by one shift, the same in every thread. Arithmetic
/// on parts refuses nothing. What [`Builder::emit`] writes is not followed.
#[derive(Clone, Debug, PartialEq)]
pub struct Fragment {
    pub(crate) ty: Ty,
    pub(crate) layout: Layout,
    pub(crate) start: i64,
    pub(crate) regs: Vec<Reg>,
    /// Whether it may be all of a thread's part of a tile, not a few elements that were cut out of it.
    pub(crate) is_whole: bool,
    /// The rows that it has a number for each of.
    pub(crate) rows: Option<Rc<crate::fragment::rows::RowsHeld>>,
    /// The operand of a product that it was made for.
    pub(crate) operand: Option<Operand>,
    /// The first failure of the kernel that it belongs to.
    pub(crate) failure: FirstFailure,
}

/// The class of register that values of a type live in.
pub(crate) fn class(ty: Ty) -> RegType {
    match ty {
        Ty::F64 => RegType::F64,
        Ty::F32 => RegType::F32,
        Ty::S64 | Ty::U64 => RegType::B64,
        _ => RegType::B32,
    }
}

impl Fragment {
    /// Returns the type of an element.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// assert_eq!(k.fragment(Ty::F16, "_4:_1").ty(), Ty::F16);
    /// ```
    pub fn ty(&self) -> Ty {
        self.ty
    }

    /// Returns what `body` makes of this fragment; where it fails, the failure is kept and the fragment itself is handed out.
    pub(crate) fn attempt(
        &self,
        at: &'static Location<'static>,
        body: impl FnOnce() -> Result<Fragment, ErrorKind>,
    ) -> Fragment {
        self.failure.attempt(at, || self.clone(), body)
    }

    /// Returns the same registers as elements of another type of the same width.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let bits = k.fragment(Ty::F16, "_4:_1");
    /// let same = bits.as_type(Ty::Bf16);
    /// assert_eq!((same.ty(), same.regs()), (Ty::Bf16, bits.regs()));
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if the type has another width or its registers are of another class.
    #[track_caller]
    pub fn as_type(&self, ty: Ty) -> Fragment {
        self.attempt(Location::caller(), || {
            crate::tensor::same_width("as_type", self.ty, ty)?;
            if class(self.ty) != class(ty) {
                let why = format!(
                    "{} and {ty} live in registers of different classes",
                    self.ty
                );
                return Err(ErrorKind::operands("as_type", why));
            }
            Ok(Fragment { ty, ..self.clone() })
        })
    }

    /// Returns the layout.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let x = k.fragment(Ty::F32, "(_2,_3):(_1,_2)");
    /// assert_eq!(x.layout().to_string(), "(_2,_3):(_1,_2)");
    /// ```
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns all registers, including those that a slice does not name.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let x = k.fragment(Ty::F16, "_8:_1");
    /// assert_eq!(x.regs().len(), 4); // two elements per register
    /// ```
    pub fn regs(&self) -> &[Reg] {
        &self.regs
    }

    /// Returns the number of elements that share a register.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// assert_eq!(k.fragment(Ty::F16, "_8:_1").packed(), 2);
    /// assert_eq!(k.fragment(Ty::F32, "_8:_1").packed(), 1);
    /// ```
    pub fn packed(&self) -> i64 {
        i64::from((self.regs[0].ty.bits() / self.ty.bits()).max(1))
    }

    /// Returns the part that a coordinate keeps: `..` keeps a mode, and a constant fixes it.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let x = k.fragment(Ty::F32, "(_2,_3):(_1,_2)");
    /// k.fill(&x, 1.0);
    /// k.fill(&x.slice((.., 2)), 7.0); // the last column
    /// assert_eq!(elements(k, &x)?[0], [1.0, 1.0, 1.0, 1.0, 7.0, 7.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if the coordinate does not fit the layout or is known only at run time.
    #[track_caller]
    pub fn slice(&self, coord: impl Into<SliceCoord>) -> Fragment {
        let coord = coord.into();
        self.attempt(Location::caller(), || {
            let coord = coord.constant("slice")?;
            let (layout, offset) = self.layout.slice_and_offset(&coord)?;
            Ok(Fragment {
                layout,
                start: self.start + offset,
                is_whole: false,
                rows: None,
                ..self.clone()
            })
        })
    }

    /// Returns the same registers under another layout, as `TiledCopy::retile` gives it.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let x = k.fragment(Ty::F32, "(_2,_3):(_1,_2)");
    /// let transposed = x.with_layout("(_3,_2):(_2,_1)");
    /// k.fill(&x, 1.0);
    /// k.fill(&x.slice((0, ..)), 7.0);
    /// assert_eq!(elements(k, &transposed)?[0], [7.0, 7.0, 7.0, 1.0, 1.0, 1.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if `layout` is not a layout.
    #[track_caller]
    pub fn with_layout(&self, layout: impl IntoLayout) -> Fragment {
        self.attempt(Location::caller(), || Ok(self.under(layout.into_layout()?)))
    }

    pub(crate) fn under(&self, layout: Layout) -> Fragment {
        Fragment {
            is_whole: self.is_whole && layout.size() == self.layout.size(),
            layout,
            rows: None,
            operand: None,
            ..self.clone()
        }
    }

    /// Returns the same registers in the modes of a copy's partitions: CuTe's `retile_S`, `retile_D`.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(1,1,1):(0,0,0)", (16, 16, 16))?;
    /// let load = TiledCopy::for_operand(colex_atom::copy("SM75_U32x4_LDSM_N")?, 16, &mma, Operand::A)?;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let a = k.fragment_of(&mma, Operand::A, (16, 32));
    /// assert_eq!(a.layout().to_string(), "((_2,_2,_2),_1,_2):((_1,_2,_4),_0,_8)"); // (MMA, MMA_M, MMA_K)
    /// assert_eq!(a.retile(&load).layout().to_string(), "((8,_1),_1,_2):((_1,_0),_0,_8)"); // (CPY, CPY_M, CPY_K)
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if the layout has no such partition.
    #[doc(alias = "retile_S")]
    #[doc(alias = "retile_D")]
    #[track_caller]
    pub fn retile(&self, copy: &colex_tiled::TiledCopy) -> Fragment {
        self.attempt(Location::caller(), || {
            Ok(Fragment {
                layout: copy.retile(&self.layout)?,
                ..self.clone()
            })
        })
    }

    /// Returns `count` values from index `first` of the layout on, as one mode. A copy of a few values at a time takes them from
    /// large accumulators in their own order, that of `TiledCopy::for_accumulator_atom`.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let x = k.fragment(Ty::F32, "(_2,_4):(_1,_2)");
    /// k.fill(&x, 1.0);
    /// k.fill(&x.values(2, 4), 7.0);
    /// assert_eq!(elements(k, &x)?[0], [1.0, 1.0, 7.0, 7.0, 7.0, 7.0, 1.0, 1.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if the values are not contiguous in the registers.
    #[track_caller]
    pub fn values(&self, first: i64, count: i64) -> Fragment {
        self.attempt(Location::caller(), || self.neighbours(first, count))
    }

    fn neighbours(&self, first: i64, count: i64) -> Result<Fragment, ErrorKind> {
        let start = self.layout.at(first)?;
        for i in 1..count {
            if self.layout.at(first + i)? != start + i {
                let why = format!(
                    "values {first} and {i} further of {} are not {i} apart",
                    self.layout
                );
                return Err(ErrorKind::operands("values", why));
            }
        }
        Ok(Fragment {
            layout: Layout::column_major(count)?.to_static(),
            start: self.start + start,
            is_whole: false,
            rows: None,
            ..self.clone()
        })
    }

    /// Returns `count` values from index `first` of the layout on, as a compact fragment of exactly their registers.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let x = k.fragment(Ty::F32, "(_2,_2):(_2,_1)");
    /// let column = x.gathered(0, 2);
    /// assert_eq!(column.regs(), [x.regs()[0], x.regs()[2]]);
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if elements are packed into registers.
    #[track_caller]
    pub fn gathered(&self, first: i64, count: i64) -> Fragment {
        self.attempt(Location::caller(), || self.gather(first, count))
    }

    fn gather(&self, first: i64, count: i64) -> Result<Fragment, ErrorKind> {
        if self.packed() > 1 {
            let why = format!("{} elements of {} share a register", self.packed(), self.ty);
            return Err(ErrorKind::operands("gathered", why));
        }
        let size = self.layout.size();
        let end = first.checked_add(count).filter(|end| *end <= size);
        let Some(end) = end.filter(|_| first >= 0 && count > 0) else {
            let why = format!(
                "{count} elements from {first} on of {}, which has {size}",
                self.layout
            );
            return Err(ErrorKind::operands("gathered", why));
        };
        let regs = (first..end).map(|i| self.element(i).map(|(reg, _)| reg));
        Ok(Fragment {
            start: 0,
            is_whole: false,
            rows: None,
            regs: regs.collect::<Result<_, _>>()?,
            layout: Layout::column_major(count)?.to_static(),
            ..self.clone()
        })
    }

    /// The register of the element at an index of the layout, and which of its parts.
    pub(crate) fn element(&self, index: i64) -> Result<(Reg, i64), ErrorKind> {
        let offset = self.start + self.layout.at(index)?;
        let packed = self.packed();
        let place = usize::try_from(offset.div_euclid(packed)).ok();
        match place.and_then(|place| self.regs.get(place)) {
            Some(reg) => Ok((*reg, offset % packed)),
            None => {
                let why = format!(
                    "element {index} of {} has offset {offset}, and there are {} registers of {packed}",
                    self.layout,
                    self.regs.len()
                );
                Err(ErrorKind::operands("registers", why))
            }
        }
    }

    /// The registers of the elements that the layout names, each once, in the order of the layout.
    pub(crate) fn named(&self) -> Result<Vec<Reg>, ErrorKind> {
        let mut seen = std::collections::HashSet::new();
        let mut regs = Vec::new();
        for i in 0..self.layout.size() {
            let (reg, _) = self.element(i)?;
            if seen.insert(reg) {
                regs.push(reg);
            }
        }
        Ok(regs)
    }

    /// The registers of `count` elements from an index of the layout on, which must fill them in order.
    pub(crate) fn run(&self, first: i64, count: i64) -> Result<Vec<Reg>, ErrorKind> {
        let packed = self.packed();
        let mut regs = Vec::new();
        for i in first..first + count {
            let (reg, part) = self.element(i)?;
            if part != (i - first) % packed {
                let why = format!(
                    "element {i} of {} is part {part} of {reg}, and the instruction takes {packed} neighbours in order",
                    self.layout
                );
                return Err(ErrorKind::operands("registers", why));
            }
            if part == 0 {
                regs.push(reg);
            } else if regs.last() != Some(&reg) {
                let why = format!(
                    "elements {} and {i} of {} lie in two registers",
                    i - 1,
                    self.layout
                );
                return Err(ErrorKind::operands("registers", why));
            }
        }
        Ok(regs)
    }
}

impl Builder {
    /// Allocates uninitialised registers for the elements of a layout, one element for each offset. The first copy or
    /// arithmetic that fills the fragment decides which elements of a tile it holds. Later operations on it refuse fragments
    /// that hold other elements.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let x = k.fragment(Ty::F32, "(_2,_3):(_1,_2)");
    /// k.fill(&x, 1.5);
    /// assert_eq!(elements(k, &x)?[31], [1.5; 6]); // in the last thread
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if the layout is dynamic, if the layout algebra has no result, or if there are more
    /// than [`MAX_REGISTERS`] registers.
    #[doc(alias = "make_rmem_tensor")]
    #[track_caller]
    pub fn fragment(&mut self, ty: Ty, layout: impl IntoLayout) -> Fragment {
        let inert = |k: &mut Self| k.inert_fragment(ty);
        self.attempt(Location::caller(), inert, |k| {
            k.new_fragment(ty, &layout.into_layout()?)
        })
    }

    /// One register that nothing is done with: what a failed call hands out.
    pub(crate) fn inert_fragment(&mut self, ty: Ty) -> Fragment {
        Fragment {
            ty,
            layout: Layout::leaf(Int::Static(1), Int::Static(0)).expect("one element"),
            start: 0,
            regs: vec![self.ir.reg(class(ty))],
            is_whole: false,
            rows: None,
            operand: None,
            failure: self.failure.clone(),
        }
    }

    /// Registers for the elements of a layout, if they are not too many.
    fn registers(
        &mut self,
        call: &'static str,
        (ty, layout): (Ty, &Layout),
        class: RegType,
        count: i128,
    ) -> Result<Vec<Reg>, ErrorKind> {
        if count > MAX_REGISTERS.into() {
            let why = format!(
                "{layout} of {ty} takes {count} registers; a thread has 255, and a fragment {MAX_REGISTERS} at most"
            );
            return Err(ErrorKind::operands(call, why));
        }
        Ok(self.ir.regs(class, count as usize))
    }

    pub(crate) fn new_fragment(&mut self, ty: Ty, layout: &Layout) -> Result<Fragment, ErrorKind> {
        crate::tensor::partition::fixed("fragment", layout)?;
        if ty.bits() > 64 {
            let why = format!(
                "elements of {ty} have {} bits, and a register has at most 64: a fragment of their real and imaginary parts has \
                 them one by one",
                ty.bits()
            );
            return Err(ErrorKind::operands("fragment", why));
        }
        let elements = layout.cosize()?;
        let class = class(ty);
        let packed = i64::from((class.bits() / ty.bits()).max(1));
        let count = (elements - 1).div_euclid(packed) + 1;
        let regs = self.registers("fragment", (ty, layout), class, count.into())?;
        Ok(Fragment {
            ty,
            layout: layout.clone(),
            start: 0,
            regs,
            is_whole: true,
            rows: None,
            operand: None,
            failure: self.failure.clone(),
        })
    }

    /// Allocates registers for a thread's part of a tensor in memory, compact in colexicographic order.
    ///
    /// ```
    /// # use colex_proof::examples::copied;
    /// let to = copied((4, 8), |k, copy, src, dst| {
    ///     let held = k.fragment_like(src);
    ///     assert_eq!(held.layout().size(), src.layout().size());
    ///     k.copy(copy, src, &held);
    ///     k.copy(copy, &held, dst);
    /// })?;
    /// assert_eq!(to[31], 31.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::fragment`].
    #[track_caller]
    pub fn fragment_like(&mut self, part: &crate::tensor::Tensor) -> Fragment {
        let inert = |k: &mut Self| k.inert_fragment(part.ty());
        self.attempt(Location::caller(), inert, |k| {
            let layout = Layout::column_major(part.layout().shape())?;
            k.fragment_under(part, &layout.to_static())
        })
    }

    /// Allocates registers for a thread's part of a tensor in memory, one register per element, for copies narrower than a
    /// register.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint16_t>")?, 16, "(4,8):(8,1)", "(1,2):(0,1)")?;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let a = k.tensor("a", Ty::F16, "(64,64):(64,_1)");
    /// let src = copy.at(&k.thread()).partition_src(&a.local_tile((4, 16), (0, 0))); // (CPY, CPY_M, CPY_N)
    /// assert_eq!(k.fragment_like(&src).regs().len(), 1);
    /// assert_eq!(k.fragment_unpacked(&src).layout().to_string(), "((_1,_2),_1,_1):((_0,_2),_0,_0)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::fragment`].
    #[track_caller]
    pub fn fragment_unpacked(&mut self, part: &crate::tensor::Tensor) -> Fragment {
        let inert = |k: &mut Self| k.inert_fragment(part.ty());
        self.attempt(Location::caller(), inert, |k| {
            let packed = i64::from((class(part.ty()).bits() / part.ty().bits()).max(1));
            let values = Layout::column_major(part.layout().shape())?;
            let apart = Layout::leaf(values.size(), packed)?.composition(&values)?;
            k.fragment_under(part, &apart.to_static())
        })
    }

    /// Registers for a thread's part of a tensor in memory, under a layout of its size.
    fn fragment_under(
        &mut self,
        part: &crate::tensor::Tensor,
        layout: &Layout,
    ) -> Result<Fragment, ErrorKind> {
        self.own_tensors(&[part])?;
        let fragment = self.new_fragment(part.ty(), layout)?;
        if let Some(held) = self.held_in_memory(part)? {
            self.declare(&fragment, &held)?;
        }
        Ok(fragment)
    }

    /// Allocates registers for a thread's part of A, B or C of a tile: CuTe's `partition_fragment_A`, `B`, `C`.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (32, 32, 16))?;
    /// let mut k = Builder::new("k", Arch::Sm80, 128);
    /// let a = k.fragment_of(&mma, Operand::A, (64, 32));
    /// assert_eq!(a.layout().to_string(), "((_2,_2,_2),_2,_2):((_1,_2,_4),_8,_16)"); // (MMA, MMA_M, MMA_K)
    /// assert_eq!(a.ty(), Ty::F16);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails with the errors of [`colex_tiled::ThrMma::fragment`].
    #[doc(alias = "partition_fragment_A")]
    #[doc(alias = "partition_fragment_B")]
    #[doc(alias = "partition_fragment_C")]
    #[track_caller]
    pub fn fragment_of(
        &mut self,
        mma: &TiledMma,
        operand: Operand,
        tile: impl Into<[i64; 2]>,
    ) -> Fragment {
        let inert = |k: &mut Self| k.inert_fragment(element(mma.atom(), operand));
        let tile = tile.into();
        self.attempt(Location::caller(), inert, |k| {
            k.operand_fragment(mma, operand, tile)
        })
    }

    fn operand_fragment(
        &mut self,
        mma: &TiledMma,
        operand: Operand,
        extents: [i64; 2],
    ) -> Result<Fragment, ErrorKind> {
        let atom = mma.atom();
        let is_shared = match operand {
            Operand::A => atom.a_in_shared(),
            Operand::B => atom.b_in_shared(),
            Operand::C => false,
        };
        if is_shared {
            let why = format!(
                "{} reads {operand:?} from shared memory, and no register holds it: `gmma_operand` makes its descriptors",
                atom.name()
            );
            return Err(ErrorKind::operands("fragment_of", why));
        }
        let tile = Layout::column_major(IntTuple::flat(extents.map(Int::Static)))?.to_static();
        let layout = mma.slice(0)?.fragment(&tile, operand)?.to_static();
        let class = register_class(mma.atom(), operand)?;
        let ty = element(mma.atom(), operand);
        let bits = i128::from(layout.cosize()?) * i128::from(ty.bits());
        let count = (bits - 1).div_euclid(class.bits().into()) + 1;
        let regs = self.registers("fragment_of", (ty, &layout), class, count)?;
        let fragment = Fragment {
            ty,
            layout,
            start: 0,
            regs,
            is_whole: true,
            rows: None,
            operand: Some(operand),
            failure: self.failure.clone(),
        };
        let held = self.held_by_operand(mma, operand, extents)?;
        self.declare(&fragment, &held)?;
        Ok(fragment)
    }

    /// Sets every register that the fragment's layout names to zero.
    ///
    /// If the layout has offsets beyond the registers, [`Builder::finish`] returns an error.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let x = k.fragment(Ty::F32, "_3:_1");
    /// k.clear(&x);
    /// assert_eq!(elements(k, &x)?[0], [0.0; 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn clear(&mut self, fragment: &Fragment) {
        self.run(Location::caller(), |k| {
            k.own_fragments(&[fragment])?;
            for reg in fragment.named()? {
                k.ir.mov_to(reg, zero_of(reg.ty));
            }
            k.forget(fragment)
        });
    }
}

/// The type of an operand's elements.
pub(crate) fn element(atom: &MmaAtom, operand: Operand) -> Ty {
    match operand {
        Operand::A => atom.elements().0,
        Operand::B => atom.elements().1,
        Operand::C => atom.row().c,
    }
}

/// The class of register that an operand of an instruction wants.
pub(crate) fn register_class(atom: &MmaAtom, operand: Operand) -> Result<RegType, ErrorKind> {
    let op = atom.op()?;
    let registers = match operand {
        Operand::A => op.a,
        Operand::B => op.b,
        Operand::C => op.c,
    };
    Ok(registers.class)
}
