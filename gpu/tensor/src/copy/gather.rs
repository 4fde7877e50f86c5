//! Gathers, scatters and atomic operations: accesses at coordinates that a kernel computes or loads.

use std::panic::Location;

use colex_atom::Ty;
use colex_ir::claims::ClaimId;
use colex_ir::{
    Access, Address, AtomicOp, Compare, Control, Memory, Operand, Reg, RegType, Space, Type,
};
use colex_layout::{IntTuple, Layout};

use crate::build::Builder;
use crate::build::claims::Reach;
use crate::build::flow::{Cond, zero_of};
use crate::error::ErrorKind;
use crate::fragment::elements::{Elements, Outside};
use crate::fragment::elementwise::{form, poison};
use crate::fragment::expr::lower::{Lower, lane_type, leaves, pair_type};
use crate::fragment::expr::{Expr, is_half};
use crate::fragment::{Fragment, class};
use crate::index::Index;
use crate::tensor::{Tensor, View, layout_extent};

/// One access: where it begins, and under which condition it happens.
struct ElementAccess {
    bytes: Index,
    cond: Cond,
    claim: Option<ClaimId>,
}

/// The places of a call, and the layout of the elements that they have.
struct Accesses {
    all: Vec<ElementAccess>,
    layout: Layout,
}

/// A coordinate, as far as its value is known.
enum Coordinate {
    /// An integer with a range.
    Index(Index),
    /// An element of data, in a register that nothing else writes.
    Data(Reg, Ty),
}

/// The values of an integer type that fits 32 bits.
fn values_of(ty: Ty) -> (i64, i64) {
    match ty {
        Ty::U8 => (0, 0xff),
        Ty::U16 => (0, 0xffff),
        Ty::S8 => (-0x80, 0x7f),
        Ty::S16 => (-0x8000, 0x7fff),
        Ty::U32 => (0, u32::MAX.into()),
        _ => (i32::MIN.into(), i32::MAX.into()),
    }
}

/// The type in which PTX has an atomic operation on elements of a type, alone or in pairs of 16-bit floats.
fn atomic_type(op: AtomicOp, ty: Ty, in_pairs: bool) -> Option<Type> {
    let of = match ty {
        Ty::S32 => Type::S32,
        Ty::U32 => Type::U32,
        Ty::S64 => Type::S64,
        Ty::U64 => Type::U64,
        Ty::F32 => Type::F32,
        Ty::F64 => Type::F64,
        Ty::F16 | Ty::Bf16 if in_pairs => pair_type(ty),
        Ty::F16 => Type::F16,
        Ty::Bf16 => Type::Bf16,
        _ => return None,
    };
    let is_word = matches!(of.bits(), 32 | 64) && !is_half(ty);
    match op {
        // Modulo 2^64 the sum is the same.
        AtomicOp::Add if ty == Ty::S64 => Some(Type::U64),
        AtomicOp::Add => Some(of),
        AtomicOp::Min | AtomicOp::Max => (is_word && ty.is_integer()).then_some(of),
        AtomicOp::And | AtomicOp::Or | AtomicOp::Xor if !ty.is_integer() => None,
        AtomicOp::And | AtomicOp::Or | AtomicOp::Xor | AtomicOp::Exch => {
            is_word.then_some(if of.bits() == 64 {
                Type::B64
            } else {
                Type::B32
            })
        }
        AtomicOp::Inc | AtomicOp::Dec => (ty == Ty::U32).then_some(Type::U32),
        AtomicOp::Cas => None,
    }
}

impl Builder {
    /// Loads the elements, into a fresh fragment with the shape of their coordinates. Elements that are not accessed are 0.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::{Device, Load};
    /// use colex_tensor::{AtThread, Builder};
    /// use colex_tiled::TiledCopy;
    ///
    /// // Each thread loads an index, and the element there.
    /// let mut k = Builder::new("permute", Arch::Sm80, 32);
    /// let ids = k.tensor("ids", Ty::S32, "_32:_1");
    /// let [x, y] = ["x", "y"].map(|name| k.tensor(name, Ty::F32, "32:_1"));
    /// let thread = k.thread();
    /// let id = k.gather(&ids.elements(&thread));
    /// let found = k.gather(&x.elements(&id));
    /// k.scatter(&found, &y.elements(thread));
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let ids: Vec<i32> = (0..32).map(|i| if i == 5 { -1 } else { 31 - i }).collect();
    /// let numbers: Vec<f32> = (0..20).map(|i| i as f32).collect();
    /// let (ids, x, mut y) = (device.upload(&ids)?, device.upload(&numbers)?, device.poisoned::<f32>(32)?);
    /// let ids = colex_gpu::View::new(&ids, (colex_layout::C::<32>, colex_layout::C::<1>))?;
    /// k.finish()?.load(&device)?.launch([1], (ids, x.view(20)?, y.view_mut(32)?))?;
    /// let y = y.download()?;
    /// assert_eq!((y[5], y[6], y[20], y[31]), (0.0, 0.0, 11.0, 0.0)); // x has 20 elements
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::map`]; if there is not one coordinate of an integer type per mode; if the
    /// tensor is a thread's part of a tile; and if vectors are not aligned or fill no registers.
    #[track_caller]
    pub fn gather(&mut self, from: &Elements) -> Fragment {
        let ty = from.tensor.ty;
        self.access(
            "gather",
            from,
            &[],
            |k| k.inert_fragment(ty),
            Self::gathered,
        )
    }

    /// Stores `values` in the elements, whose shape they are broadcast to. Of several values for one element in one thread the
    /// last stays; of several threads that store to one element, which value stays is a data race.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let tile = k.shared_tensor(Ty::F16, "(32,2):(1,32)");
    /// let thread = k.thread();
    /// k.scatter(1.0, &tile.elements((&thread, 0)));
    /// k.scatter(-1.0, &tile.elements((Index::constant(31) - &thread, 1)));
    /// k.sync();
    /// let columns = k.fragment(Ty::S32, "_2:_1");
    /// (0..2).for_each(|i| k.assign(&columns.values(i, 1), i));
    /// let row = k.gather(&tile.elements((thread, &columns)));
    /// assert_eq!(elements(k, &row)?[3], [1.0, -1.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::gather`], if `values` have another type than the tensor, and if the tensor
    /// has one element at several coordinates.
    #[track_caller]
    pub fn scatter(&mut self, values: impl Into<Expr>, to: &Elements) {
        self.access(
            "scatter",
            to,
            &[values.into()],
            |_| (),
            |k, places, to, values| {
                k.writes("scatter", &to.tensor)?;
                k.scattered(places, to, &values[0])
            },
        );
    }

    /// Applies `op` to each of the elements and one of `values`, as one indivisible operation, and returns the elements of
    /// before (`atom`). Where those are not used, [`Builder::atomic_update`] is cheaper.
    ///
    /// | operation | elements |
    /// |---|---|
    /// | `Add` | `s32`, `u32`, `s64`, `u64`, `f32`, `f64`, `f16`, and `bf16` since sm_90; [`vectors`](Elements::vectors) of 16-bit floats two by two |
    /// | `Min`, `Max` | `s32`, `u32`, `s64`, `u64` |
    /// | `And`, `Or`, `Xor` | the same |
    /// | `Exch` | the same, `f32` and `f64` |
    /// | `Inc`, `Dec` | `u32` |
    ///
    /// The order in which threads come is not defined. Sums of integers do not depend on it; sums of floats do, since each
    /// addition rounds, and so does every old value. An access that is not atomic, of the same element at the same time, is a
    /// data race. (PTX ISA 9.7.13, `atom`.)
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_ir::AtomicOp;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 64);
    /// let count = k.shared_tensor(Ty::S32, "1:1");
    /// let thread = k.thread();
    /// k.scatter(0, &count.elements(0).only(Expr::from(&thread).equals(0)));
    /// k.sync();
    /// let ticket = k.atomic(AtomicOp::Add, &count.elements(0), 1); // a number of its own for each thread
    /// let mut tickets: Vec<f32> = elements(k, &ticket)?.concat();
    /// tickets.sort_by(f32::total_cmp);
    /// assert_eq!(tickets, (0..64).map(|i| i as f32).collect::<Vec<_>>());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::scatter`], and if the elements have no such operation.
    #[track_caller]
    pub fn atomic(&mut self, op: AtomicOp, at: &Elements, values: impl Into<Expr>) -> Fragment {
        let ty = at.tensor.ty;
        let inert = |k: &mut Self| k.inert_fragment(ty);
        self.access(
            "atomic",
            at,
            &[values.into()],
            inert,
            |k, places, at, values| {
                k.writes("atomic", &at.tensor)?;
                k.updated("atomic", Atomic::Old(op), places, (at, values))
            },
        )
    }

    /// Applies `op` to each of the elements and one of `values` as [`Builder::atomic`] does, and returns nothing (`red`).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_ir::AtomicOp;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 64);
    /// let bins = k.shared_tensor(Ty::S32, "32:1");
    /// let thread = k.thread();
    /// k.scatter(0, &bins.elements(&thread)); // threads 32 to 63 have no bin
    /// k.sync();
    /// k.atomic_update(AtomicOp::Add, &bins.elements(&thread / 16), 1);
    /// k.sync();
    /// let counts = k.gather(&bins.elements(&thread));
    /// assert_eq!(elements(k, &counts)?[..5].concat(), [16.0, 16.0, 16.0, 16.0, 0.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::atomic`], and for `Exch`.
    #[track_caller]
    pub fn atomic_update(&mut self, op: AtomicOp, at: &Elements, values: impl Into<Expr>) {
        self.access(
            "atomic_update",
            at,
            &[values.into()],
            |_| (),
            |k, places, at, values| {
                k.writes("atomic_update", &at.tensor)?;
                if op == AtomicOp::Exch {
                    let why =
                        "exch without its old value: `scatter` stores, and `atomic` returns it";
                    return Err(ErrorKind::operands("atomic_update", why));
                }
                k.updated("atomic_update", Atomic::Forgotten(op), places, (at, values))?;
                Ok(())
            },
        );
    }

    /// Replaces each of the elements by one of `new`, where its bits are those of one of `expected`, as one indivisible
    /// operation, and returns the elements of before (`atom.cas`): it was replaced where they equal `expected`.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 64);
    /// let owner = k.shared_tensor(Ty::S32, "1:1");
    /// let thread = k.thread();
    /// k.scatter(-1, &owner.elements(0).only(Expr::from(&thread).equals(0)));
    /// k.sync();
    /// let before = k.compare_and_swap(&owner.elements(0), -1, &thread);
    /// let is_owner = k.map(Expr::from(&before).equals(-1).select(Expr::from(&thread), -1));
    /// let owners = elements(k, &is_owner)?.concat();
    /// assert_eq!(owners.iter().filter(|owner| **owner >= 0.0).count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::scatter`], and if the elements have 8 bits or are vectors.
    #[track_caller]
    pub fn compare_and_swap(
        &mut self,
        at: &Elements,
        expected: impl Into<Expr>,
        new: impl Into<Expr>,
    ) -> Fragment {
        let ty = at.tensor.ty;
        let inert = |k: &mut Self| k.inert_fragment(ty);
        let values = [expected.into(), new.into()];
        self.access(
            "compare_and_swap",
            at,
            &values,
            inert,
            |k, places, at, values| {
                k.writes("compare_and_swap", &at.tensor)?;
                k.updated("compare_and_swap", Atomic::Swap, places, (at, values))
            },
        )
    }

    /// Returns the addresses of the elements in bytes: of type `u64` in global memory, which are generic addresses too, and
    /// `u32` in shared memory. The address of an element that is not accessed is 0.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let tile = k.shared_tensor(Ty::F32, "(4,32):(33,1)");
    /// let thread = k.thread();
    /// let [own, first] = [tile.elements((2, &thread)), tile.elements((0, 0))].map(|of| k.addresses(&of));
    /// let distance = k.map(&own - &first);
    /// assert_eq!(elements(k, &distance)?[5], [4.0 * (2.0 * 33.0 + 5.0)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::gather`].
    #[track_caller]
    pub fn addresses(&mut self, of: &Elements) -> Fragment {
        let is_wide = of.tensor.memory() == Space::Global;
        let ty = if is_wide { Ty::U64 } else { Ty::U32 };
        let one = Elements {
            vector: None,
            ..of.clone()
        };
        let inert = |k: &mut Self| k.inert_fragment(ty);
        self.access("addresses", &one, &[], inert, |k, places, _, _| {
            let d = k.new_fragment(ty, &places.layout)?;
            for (place, reg) in places.all.into_iter().zip(d.regs.clone()) {
                let address = k.lower(&place.bytes, is_wide);
                if place.cond != Cond::Known(true) {
                    k.ir.mov_to(reg, 0);
                }
                k.where_(place.cond, |ir| ir.mov_to(reg, address));
            }
            Ok(d)
        })
    }

    /// Computes the places of the elements, and runs `body` with them, unless something is wrong.
    #[track_caller]
    fn access<T>(
        &mut self,
        operation: &'static str,
        of: &Elements,
        values: &[Expr],
        inert: impl FnOnce(&mut Self) -> T,
        body: impl FnOnce(&mut Self, Accesses, &Elements, &[Expr]) -> Result<T, ErrorKind>,
    ) -> T {
        let at = Location::caller();
        let mask = of.only.as_ref().map(|only| only.select(1, 0));
        let mut all = of.at.iter().chain(&mask).chain(values);
        if let Some((kind, at)) = all.find_map(|expr| poison(expr, at)) {
            self.failure.keep(kind, at);
            return inert(self);
        }
        self.attempt(at, inert, |k| {
            k.own_memory(&[&of.tensor])?;
            of.check(operation)?;
            let ty = of.tensor.ty;
            if let Some(other) = values.iter().filter_map(Expr::ty).find(|own| *own != ty) {
                let why = format!("{other} into elements of {ty}: `.to(Ty::{ty:?})` converts");
                return Err(ErrorKind::operands(operation, why));
            }
            let places = k.element_places(operation, of, mask.as_ref())?;
            body(k, places, of, values)
        })
    }

    /// Notes that a tensor is written, and refuses one with an element at several coordinates.
    fn writes(&mut self, operation: &'static str, tensor: &Tensor) -> Result<(), ErrorKind> {
        let layout = match &tensor.view {
            View::Coords { of, .. } => {
                self.launch.write(of.slot);
                &of.layout
            }
            View::Offsets { layout, .. } => layout,
        };
        if layout.is_static() && !layout.is_injective()? {
            let why = format!(
                "{layout} has one element at several coordinates: which value stays would be a race"
            );
            return Err(ErrorKind::operands(operation, why));
        }
        Ok(())
    }

    /// The places of the elements, in the order of the indices of their coordinates.
    fn element_places(
        &mut self,
        operation: &'static str,
        of: &Elements,
        mask: Option<&Expr>,
    ) -> Result<Accesses, ErrorKind> {
        let all: Vec<Expr> = of.at.iter().chain(mask).flat_map(leaves).collect();
        self.own_leaves(&all)?;
        let form = form(operation, &all)?;
        let mut lower = Lower::new(self, operation);
        for expr in of.at.iter().chain(mask) {
            lower.bind(expr, &form)?;
        }
        let places = (0..form.size() as usize)
            .map(|i| place(&mut lower, operation, of, i))
            .collect::<Result<_, ErrorKind>>()?;
        let layout = match of.vector {
            None => form,
            Some((_, count)) => {
                let vector = Layout::column_major(count)?.shape().clone();
                let shape = IntTuple::concat(&[vector, form.shape().clone()]);
                Layout::column_major(shape)?.to_static()
            }
        };
        Ok(Accesses {
            all: places,
            layout,
        })
    }

    /// Asks for what vectors need: neighbours, the first on a multiple of their number.
    fn check_vectors(
        &mut self,
        operation: &'static str,
        of: &Elements,
        (at, bytes): (&[Index], &Index),
    ) -> Result<(), ErrorKind> {
        let Some((mode, count)) = of.vector else {
            return Ok(());
        };
        let tensor = &of.tensor;
        let refuse = |why: String| Err(ErrorKind::operands(operation, why));
        let width = i64::from(tensor.ty.bits()) / 8;
        let extent = extent_of(tensor, mode);
        if at[mode].alignment() % count != 0 {
            return refuse(format!(
                "vectors of {count} along mode {mode} begin at {}, which is no multiple of {count}",
                at[mode]
            ));
        }
        let is_run = match &tensor.view {
            // Within a vector the low bits of the offset count, and no swizzle moves them.
            View::Offsets {
                swizzle, layout, ..
            } => {
                let first = layout.mode(mode).and_then(|m| m.leaves().first().cloned());
                swizzle.into_mask() & (count - 1) == 0
                    && first.is_some_and(|leaf| {
                        leaf.stride.coefficient().value() == 1 && leaf.extent.value() % count == 0
                    })
            }
            View::Coords { .. } => {
                let mut next = at.to_vec();
                next[mode] = &next[mode] + 1;
                (tensor.bytes_of(&next) - bytes).as_constant() == Some(width)
            }
        };
        if !is_run {
            let layout = match &tensor.view {
                View::Coords { of, .. } => &of.layout,
                View::Offsets { layout, .. } => layout,
            };
            return refuse(format!(
                "vectors of {count} along mode {mode} of {layout}, whose elements are no neighbours in whole vectors"
            ));
        }
        let View::Coords { of: dense, .. } = &tensor.view else {
            if (bytes - &tensor.base).alignment() % (count * width).min(16) != 0 {
                return refuse(format!(
                    "vectors of {count} in {}, which begin at {bytes}: its strides are multiples of {count}",
                    tensor.layout()
                ));
            }
            return Ok(());
        };
        let coordinates = tensor.coordinates_of(at);
        self.check_start(operation, dense, &coordinates, count)?;
        self.launch
            .require(dense.slot, None, (count * width).min(16));
        if of.outside == Outside::Stated {
            return Ok(());
        }
        // Of a tile both ends count: that of the tile, and that of the tensor.
        let own = tensor.neighbours_along(mode);
        let of_tensor = own.map(|own| &dense.extents[own]);
        for extent in [Some(&extent), of_tensor].into_iter().flatten() {
            if extent.alignment() % count == 0 {
                continue;
            }
            match own.and_then(|own| dense.dynamic_extent(own)) {
                Some(leaf) if Some(extent) == of_tensor => {
                    self.launch.require(dense.slot, Some(leaf), count);
                }
                _ => {
                    return refuse(format!(
                        "vectors of {count} along mode {mode} of {}, whose extent {extent} is no multiple of {count}",
                        dense.name
                    ));
                }
            }
        }
        Ok(())
    }

    fn gathered(
        &mut self,
        places: Accesses,
        from: &Elements,
        _: &[Expr],
    ) -> Result<Fragment, ErrorKind> {
        let (ty, count) = (from.tensor.ty, from.count());
        let space = from.tensor.memory();
        let d = self.new_fragment(ty, &places.layout)?;
        if ty.bits() >= 32 || count > 1 {
            let per = registers("gather", ty, count)?;
            let all = d.regs.clone();
            for (place, regs) in places.all.into_iter().zip(all.chunks(per)) {
                self.clear_unless(&place, regs);
                let width = (16 / (regs[0].ty.bits() as usize / 8)).max(1);
                for (i, regs) in regs.chunks(width).enumerate() {
                    let access = Access::new(space, Type::untyped(regs[0].ty));
                    self.perform(&place, 16 * i as i64, |ir, a| ir.load_to(access, regs, a));
                }
            }
            return Ok(d);
        }
        let mut regs = Vec::new();
        for place in places.all {
            let half = self.ir.reg(RegType::B16);
            self.clear_unless(&place, &[half]);
            let access = Access::new(space, memory_type(ty));
            self.perform(&place, 0, |ir, a| ir.load_to(access, &[half], a));
            regs.push(self.ir.cvt(Type::U32, Type::U16, half));
        }
        self.packed_from(d, regs)
    }

    /// A fragment with elements of less than 32 bits, each given in a register of its own.
    fn packed_from(&mut self, d: Fragment, regs: Vec<Reg>) -> Result<Fragment, ErrorKind> {
        let apart = Layout::leaf(d.layout.size(), d.packed())?.composition(&d.layout)?;
        let each = Fragment {
            layout: apart.to_static(),
            regs,
            ..d.clone()
        };
        self.assigned("gather", &d, &each.into())?;
        Ok(d)
    }

    fn clear_unless(&mut self, place: &ElementAccess, regs: &[Reg]) {
        if place.cond != Cond::Known(true) {
            for reg in regs {
                self.ir.mov_to(*reg, zero_of(reg.ty));
            }
        }
    }

    /// Adds an instruction at a place, under its condition.
    fn perform(
        &mut self,
        place: &ElementAccess,
        after: i64,
        body: impl FnOnce(&mut colex_ir::KernelBuilder, Address),
    ) {
        let is_wide = self.is_wide(place);
        let address = self.address(&(&place.bytes + after), is_wide);
        self.where_(place.cond, |k| {
            k.claiming(place.claim.filter(|_| after == 0), |k| body(k, address))
        });
    }

    /// Whether addresses of a place have 64 bits, as those of global memory do.
    fn is_wide(&self, place: &ElementAccess) -> bool {
        let (rest, _) = place.bytes.split();
        let range = rest.range();
        self.launch.base_of(&rest).is_none() && range.1 > i64::from(u32::MAX)
    }

    fn scattered(
        &mut self,
        places: Accesses,
        to: &Elements,
        values: &Expr,
    ) -> Result<(), ErrorKind> {
        let (ty, count) = (to.tensor.ty, to.count());
        let space = to.tensor.memory();
        let mut lower = self.values("scatter", &[values], &places)?;
        let per = registers("scatter", ty, count)?;
        for (i, place) in places.all.iter().enumerate() {
            let group: Vec<usize> = (i * count as usize..(i + 1) * count as usize).collect();
            let regs = if count > 1 && ty.bits() < 32 {
                vector_registers(&mut lower, values, ty, &group)?
            } else {
                let lanes = lower.eval(values, ty, &group, &[])?;
                let each = lower.each(lanes);
                each.into_iter()
                    .map(|x| stored(&mut lower, ty, x))
                    .collect()
            };
            debug_assert_eq!(regs.len(), per);
            let width = (16 / (regs[0].ty.bits() as usize / 8)).max(1);
            for (i, regs) in regs.chunks(width).enumerate() {
                let memory = if count > 1 {
                    Type::untyped(regs[0].ty)
                } else {
                    memory_type(ty)
                };
                let access = Access::new(space, memory);
                lower.k.perform(place, 16 * i as i64, |ir, a| {
                    ir.store_vector(access, a, regs);
                });
            }
        }
        Ok(())
    }

    /// What computes values in the shape of the places.
    fn values(
        &mut self,
        operation: &'static str,
        values: &[&Expr],
        places: &Accesses,
    ) -> Result<Lower<'_>, ErrorKind> {
        for value in values {
            self.own_leaves(&leaves(value))?;
        }
        let mut lower = Lower::new(self, operation);
        for value in values {
            lower.bind(value, &places.layout)?;
        }
        Ok(lower)
    }

    fn updated(
        &mut self,
        operation: &'static str,
        atomic: Atomic,
        places: Accesses,
        (at, values): (&Elements, &[Expr]),
    ) -> Result<Fragment, ErrorKind> {
        let (ty, space, count) = (at.tensor.ty, at.tensor.memory(), at.count());
        let in_pairs = is_half(ty) && count > 1;
        let kind = atomic.ty(operation, ty, in_pairs, at)?;
        let op = atomic.op();
        let d = self.new_fragment(ty, &places.layout)?;
        let values: Vec<&Expr> = values.iter().collect();
        let mut lower = self.values(operation, &values, &places)?;
        let (step, bytes) = if in_pairs {
            (2, 4)
        } else {
            (1, i64::from(ty.bits()) / 8)
        };
        let mut old = Vec::new();
        for (i, place) in places.all.iter().enumerate() {
            for (n, e) in (0..count).step_by(step).enumerate() {
                let first = i * count as usize + e as usize;
                let group: Vec<usize> = (first..first + step).collect();
                let mut operands = Vec::new();
                for value in &values {
                    let lanes = lower.eval(value, ty, &group, &[])?;
                    operands.push(if in_pairs {
                        lower.pairs(ty, lanes)[0]
                    } else {
                        let each = lower.each(lanes);
                        stored(&mut lower, ty, each[0])
                    });
                }
                let result = match (atomic, d.packed()) {
                    (Atomic::Forgotten(_), _) => None,
                    (_, 1) => Some(d.regs[first]),
                    _ if in_pairs => Some(d.regs[first / 2]),
                    _ => Some(lower.k.ir.reg(RegType::B16)),
                };
                lower.k.clear_unless(place, result.as_slice());
                let mut operands = operands.into_iter().map(Operand::from);
                let (s, t) = (operands.next().unwrap_or(Operand::Int(0)), operands.next());
                let order = at.order;
                lower
                    .k
                    .perform(place, bytes * n as i64, |ir, a| match result {
                        None => ir.push(Memory::Reduce {
                            op,
                            space,
                            ty: kind,
                            order,
                            a,
                            s: vec![s],
                        }),
                        Some(d) => ir.push(Memory::Atomic {
                            op,
                            space,
                            ty: kind,
                            order,
                            d,
                            a,
                            s,
                            t,
                        }),
                    });
                if let Some(half) = result.filter(|reg| reg.ty == RegType::B16) {
                    old.push(lower.k.ir.cvt(Type::U32, Type::U16, half));
                }
            }
        }
        if old.is_empty() {
            return Ok(d);
        }
        self.packed_from(d, old)
    }
}

/// An atomic operation, and whether its old value is used.
#[derive(Clone, Copy)]
enum Atomic {
    Old(AtomicOp),
    Forgotten(AtomicOp),
    Swap,
}

impl Atomic {
    fn op(self) -> AtomicOp {
        match self {
            Atomic::Old(op) | Atomic::Forgotten(op) => op,
            Atomic::Swap => AtomicOp::Cas,
        }
    }

    /// The type of the instruction, if there is one.
    fn ty(
        self,
        operation: &'static str,
        ty: Ty,
        in_pairs: bool,
        at: &Elements,
    ) -> Result<Type, ErrorKind> {
        let refuse = |why: String| Err(ErrorKind::operands(operation, why));
        let op = match self {
            Atomic::Swap if ty.bits() >= 16 && at.vector.is_none() => {
                return Ok(match ty.bits() {
                    16 => Type::B16,
                    32 => Type::B32,
                    _ => Type::B64,
                });
            }
            Atomic::Swap => {
                return refuse(format!(
                    "{} of {ty}; one element of 16, 32 or 64 bits is compared at a time",
                    if at.vector.is_some() {
                        "vectors"
                    } else {
                        "elements"
                    }
                ));
            }
            Atomic::Old(AtomicOp::Cas) | Atomic::Forgotten(AtomicOp::Cas) => {
                return refuse("cas has two values: `compare_and_swap` takes them".into());
            }
            Atomic::Old(op) | Atomic::Forgotten(op) => op,
        };
        atomic_type(op, ty, in_pairs).map_or_else(
            || {
                let wanted = match op {
                    AtomicOp::Add => "s32, u32, s64, u64, f32, f64, f16 and bf16",
                    AtomicOp::Exch => "s32, u32, s64, u64, f32 and f64",
                    AtomicOp::Inc | AtomicOp::Dec => "u32",
                    _ => "s32, u32, s64 and u64",
                };
                refuse(format!(
                    "{} of {ty}; there is one of {wanted}, and a loop of `compare_and_swap` computes others",
                    op.ptx()
                ))
            },
            Ok,
        )
    }
}

/// The registers of a vector of elements.
fn registers(operation: &'static str, ty: Ty, count: i64) -> Result<usize, ErrorKind> {
    let bits = count * i64::from(ty.bits());
    let own = i64::from(class(ty).bits());
    if count > 1 && (bits % own != 0 || bits > 128) {
        let why = format!(
            "vectors of {count} elements of {ty} have {bits} bits; those of 32, 64 and 128 bits fill registers"
        );
        return Err(ErrorKind::operands(operation, why));
    }
    Ok((bits / own).max(1) as usize)
}

/// The type as which an element of memory is loaded and stored.
fn memory_type(ty: Ty) -> Type {
    match ty.bits() {
        8 => Type::B8,
        16 => Type::B16,
        _ => Type::untyped(class(ty)),
    }
}

/// An operand in a register that is stored.
fn stored(lower: &mut Lower<'_>, ty: Ty, x: Operand) -> Reg {
    match x {
        Operand::Reg(reg) if ty.bits() < 32 && reg.ty == RegType::B32 => {
            lower.k.ir.cvt(Type::U16, Type::U32, reg)
        }
        Operand::Int(x) if ty.bits() < 32 && ty.is_integer() => {
            lower.k.ir.mov(Type::B16, x & ((1 << ty.bits()) - 1))
        }
        x => lower.word(ty, x),
    }
}

/// Elements of less than 32 bits side by side in registers of 32.
fn vector_registers(
    lower: &mut Lower<'_>,
    values: &Expr,
    ty: Ty,
    group: &[usize],
) -> Result<Vec<Reg>, ErrorKind> {
    let lanes = lower.eval(values, ty, group, &[])?;
    if is_half(ty) {
        return Ok(lower.pairs(ty, lanes));
    }
    let each = lower.each(lanes);
    let per = 32 / ty.bits() as usize;
    let word = |some: &[Operand]| {
        let halves: Vec<Reg> = some.iter().map(|x| stored(lower, ty, *x)).collect();
        let mut pair = |two: &[Reg]| match two {
            [low, high] if per == 4 => {
                let high = lower.k.ir.shl(Type::B16, *high, 8);
                let low = lower.k.ir.and(Type::B16, *low, 0xff);
                lower.k.ir.or(Type::B16, low, high)
            }
            _ => two[0],
        };
        let parts: Vec<Reg> = halves.chunks(per / 2).map(&mut pair).collect();
        lower.k.ir.pack(RegType::B32, &parts)
    };
    Ok(each.chunks(per).map(word).collect())
}

/// The extent of a mode of the layout, which may be dynamic.
pub(super) fn extent_of(tensor: &Tensor, mode: usize) -> Index {
    if let View::Coords { of, start, .. } = &tensor.view
        && let Some(own) = tensor.parameter_mode(mode)
        && tensor.has_whole_mode(mode)
    {
        if of.narrowed.contains(&own) {
            return &of.extents[own] - &start[own];
        }
        return of.extents[own].clone();
    }
    layout_extent(tensor.layout(), mode)
}

/// A place of one element.
fn place(
    lower: &mut Lower<'_>,
    operation: &'static str,
    of: &Elements,
    i: usize,
) -> Result<ElementAccess, ErrorKind> {
    let mut coordinates = Vec::new();
    for expr in &of.at {
        coordinates.push(coordinate(lower, expr, i)?);
    }
    let wanted = match &of.only {
        Some(mask) => {
            let known = lower.mask(mask, &[i])?;
            lower.k.cond_of(known[0])
        }
        None => Cond::Known(true),
    };
    let k = &mut *lower.k;
    let (tensor, outside) = (&of.tensor, of.outside);
    let mut inside = Cond::Known(true);
    let mut at = Vec::new();
    for (mode, coordinate) in coordinates.iter().enumerate() {
        let extent = extent_of(tensor, mode);
        let (index, test) = k.bounded(coordinate, &extent, outside);
        inside = k.both(inside, test);
        at.push(index);
    }
    let mut claim = None;
    if let View::Coords {
        of: dense,
        start,
        stated_inside,
        ..
    } = &tensor.view
    {
        let count = of.count();
        let along: Vec<Option<usize>> = (0..at.len()).map(|i| tensor.parameter_mode(i)).collect();
        for (mode, x) in tensor.coordinates_of(&at).into_iter().enumerate() {
            let (begin, extent) = (&dense.begins[mode], &dense.extents[mode]);
            let mut own = (0..at.len()).filter(|i| along[*i] == Some(mode));
            let (given, other) = (own.next(), own.next());
            let is_whole = |i: &usize| other.is_none() && tensor.has_whole_mode(*i);
            let high = match of.vector {
                Some((vector, _)) if tensor.neighbours_along(vector) == Some(mode) => {
                    &x + (count - 1)
                }
                _ => x.clone(),
            };
            // A mode that no coordinate moves along was fixed: the author of a tile that is stated inside answers for it.
            let is_fixed = *stated_inside && given.is_none() && x == start[mode];
            if outside == Outside::Stated || is_fixed {
                // The claim is of the whole range of the data.
                let low = match given.filter(is_whole).map(|i| &coordinates[i]) {
                    Some(Coordinate::Data(reg, ty)) => {
                        let data = Index::leaf(k.leaf(*reg), values_of(*ty), 1, k.depth());
                        &start[mode] + data
                    }
                    _ => x.clone(),
                };
                let high = &high - &x + &low;
                let claim = *claim.get_or_insert_with(|| k.open_claim());
                k.claim_reach(
                    claim,
                    Reach {
                        tensor: dense.name.clone(),
                        mode,
                        low,
                        high,
                        extent: extent.clone(),
                    },
                );
                continue;
            }
            // Of a whole mode that nothing has moved the coordinate itself was compared above.
            let is_compared =
                given.filter(is_whole).is_some() && (&start[mode] - begin).as_constant() == Some(0);
            if !is_compared {
                let above = k.less(&(begin - 1), &x);
                let below = k.less(&x, extent);
                inside = k.both(inside, above);
                inside = k.both(inside, below);
            }
        }
    }
    if outside == Outside::Trap && inside != Cond::Known(true) {
        let wrong = k.both(wanted, Builder::not(inside));
        k.where_(wrong, |ir| ir.push(Control::Trap));
        inside = Cond::Known(true);
    }
    let bytes = tensor.bytes_of(&at);
    k.check_vectors(operation, of, (&at, &bytes))?;
    Ok(ElementAccess {
        bytes,
        cond: k.both(wanted, inside),
        claim,
    })
}

/// One coordinate of an element.
fn coordinate(lower: &mut Lower<'_>, expr: &Expr, i: usize) -> Result<Coordinate, ErrorKind> {
    if let Some(index) = lower.index(expr, i) {
        return Ok(Coordinate::Index(index));
    }
    let ty = expr.ty().unwrap_or(Ty::S32);
    let lanes = lower.eval(expr, ty, &[i], &[])?;
    Ok(match lower.each(lanes)[0] {
        Operand::Int(x) => Coordinate::Index(Index::constant(x)),
        // What is written later is another value.
        x => Coordinate::Data(lower.k.ir.mov(lane_type(ty), x), ty),
    })
}

impl Builder {
    /// A coordinate within an extent, and whether it is there.
    fn bounded(
        &mut self,
        coordinate: &Coordinate,
        extent: &Index,
        outside: Outside,
    ) -> (Index, Cond) {
        let yes = Cond::Known(true);
        if outside != Outside::Stated && extent.range().1 < 1 {
            return (Index::constant(0), Cond::Known(false));
        }
        // The last coordinate that `Outside::Clamp` takes, and whether there is one: a narrowed part may be empty.
        let is_there = |k: &mut Self| {
            let last = extent.max_of(&Index::constant(1)) - 1;
            (last, k.less(&Index::constant(0), extent))
        };
        let (reg, ty) = match coordinate {
            Coordinate::Index(index) if outside == Outside::Clamp => {
                let zero = Index::constant(0);
                let low = Index::select_less(index, &zero, &zero, index);
                let (last, is_there) = is_there(self);
                return (low.min(&last), is_there);
            }
            Coordinate::Index(index) if outside == Outside::Stated => return (index.clone(), yes),
            Coordinate::Index(index) => {
                let above = self.less(&Index::constant(-1), index);
                let below = self.less(index, extent);
                return (index.clone(), self.both(above, below));
            }
            Coordinate::Data(reg, ty) => (*reg, *ty),
        };
        let lane = lane_type(ty);
        let is_wide = ty.bits() == 64;
        let of_range = |k: &mut Self, reg: Reg| {
            let reg = if is_wide {
                k.ir.cvt(Type::U32, Type::U64, reg)
            } else {
                reg
            };
            let last = extent.range().1 - 1;
            Index::leaf(k.leaf(reg), (0, last), 1, k.depth())
        };
        let (low, high) = values_of(ty);
        let is_inside = !is_wide && low >= 0 && high < extent.range().0;
        if is_inside {
            return (
                Index::leaf(self.leaf(reg), (low, high), 1, self.depth()),
                yes,
            );
        }
        let number = |k: &mut Self, x: &Index| -> Operand {
            match (x.as_constant(), is_wide) {
                (Some(x), _) => x.into(),
                (None, true) => k.wide_value(x).into(),
                (None, false) => k.value(x).into(),
            }
        };
        match outside {
            Outside::Stated => (of_range(self, reg), yes),
            Outside::Clamp => {
                let (last, is_there) = is_there(self);
                let last = number(self, &last);
                let reg = if lane.is_signed() {
                    self.ir.max(lane, reg, 0)
                } else {
                    reg
                };
                let reg = self.ir.min(lane, reg, last);
                (of_range(self, reg), is_there)
            }
            Outside::Skip | Outside::Trap => {
                // As an integer without a sign a negative one is larger than every extent.
                let unsigned = if is_wide { Type::U64 } else { Type::U32 };
                let end = number(self, &extent.max_of(&Index::constant(0)));
                let test = self.ir.setp(Compare::Lt, unsigned, reg, end);
                (of_range(self, reg), self.holds(test))
            }
        }
    }
}
