//! Tensors at addresses that a kernel has loaded.

use std::panic::Location;

use colex_atom::{Space, Ty};
use colex_ir::Reg;
use colex_layout::{IntoLayout, Swizzle};

use super::elementwise::form;
use super::expr::Expr;
use super::expr::lower::{Lower, lane_type, leaves};
use crate::build::Builder;
use crate::error::ErrorKind;
use crate::index::Index;
use crate::tensor::{Tensor, View};

impl Builder {
    /// Returns a tensor in global memory at an address that the kernel has loaded, such as one of an array of pointers: a single
    /// element of type `u64`. The layout is static.
    ///
    /// The caller states that memory with the elements of the layout lies at the address, that it is a multiple of 16 bytes, and
    /// that no other thread writes what this kernel reads. No launch can check this, and the memory is not among the arguments
    /// that [`TensorKernel::arguments`](crate::TensorKernel::arguments) compares. The simulator knows all allocations of its
    /// device, and refuses an access outside of them; a GPU accesses what is at the address.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::{Device, Load, View, ViewMut};
    /// use colex_layout::C;
    /// use colex_tensor::Builder;
    ///
    /// let mut k = Builder::new("sum", Arch::Sm80, 32);
    /// let pointers = k.tensor("pointers", Ty::U64, "_2:_1");
    /// let out = k.tensor("out", Ty::F32, "_32:_1");
    /// let thread = k.thread();
    /// let [x, y] = [0, 1].map(|i| {
    ///     let address = k.gather(&pointers.elements(i));
    ///     let row = k.tensor_stated_at(&address, Ty::F32, "32:1");
    ///     k.gather(&row.elements(&thread))
    /// });
    /// k.scatter(&x + &y, &out.elements(thread));
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let rows = [device.upload(&[1.5_f32; 32])?, device.upload(&[2.0_f32; 32])?];
    /// let pointers = device.upload(&[rows[0].address(), rows[1].address()])?;
    /// let mut out = device.poisoned::<f32>(32)?;
    /// let views = (
    ///     View::new(&pointers, (C::<2>, C::<1>))?,
    ///     ViewMut::new(&mut out, (C::<32>, C::<1>))?,
    /// );
    /// k.finish()?.load(&device)?.launch([1], views)?;
    /// assert_eq!(out.download()?, [3.5; 32]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::tensor`]; if the layout is dynamic or has offsets below 0; and if the address
    /// is not one element of type `u64`.
    #[track_caller]
    pub fn tensor_stated_at(
        &mut self,
        address: impl Into<Expr>,
        ty: Ty,
        layout: impl IntoLayout,
    ) -> Tensor {
        let address = address.into();
        let inert = |k: &mut Self| Tensor::inert(&k.failure, Space::Global, ty);
        self.attempt(Location::caller(), inert, |k| {
            let refuse = |why: String| ErrorKind::operands("tensor_stated_at", why);
            let layout = layout.into_layout()?.to_static();
            let is_whole = (layout.leaves().iter())
                .all(|l| l.stride.as_int().is_some_and(|stride| stride.value() >= 0));
            if !is_whole || !ty.bits().is_multiple_of(8) {
                return Err(refuse(format!(
                    "elements of {ty} under {layout}: whole bytes under strides from 0 on"
                )));
            }
            if address.ty() != Some(Ty::U64) {
                let found = address.ty().map_or("no type", Ty::ptx);
                return Err(refuse(format!(
                    "an address of {found}: it is one element of u64"
                )));
            }
            let reg = k.single("tensor_stated_at", &address)?;
            let range = (0, (1 << 62) - 1);
            let base = Index::leaf(k.leaf(reg), range, 16, k.depth());
            k.claim_range(&base, range, 16);
            Ok(Tensor {
                space: Space::Global,
                ty,
                base,
                view: View::Offsets {
                    swizzle: Swizzle::IDENTITY,
                    layout,
                    start: Index::constant(0),
                    after: Index::constant(0),
                },
                ends: Vec::new(),
                share: None,
                failure: k.failure.clone(),
            })
        })
    }

    /// Returns a parameter, with its extents and strides, at an address that the kernel has loaded: one of several matrices of the
    /// same layout. The address is a single element of type `u64`.
    ///
    /// The caller states what [`tensor_stated_at`](Builder::tensor_stated_at) says of the memory, and that the address is a multiple
    /// of `multiple` bytes, which the kernel checks.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::{Device, Load, View, ViewMut};
    /// use colex_tensor::Builder;
    ///
    /// let mut k = Builder::new("last", Arch::Sm80, 32);
    /// let pointers = k.tensor("pointers", Ty::U64, "(2):(_1)");
    /// let row = k.tensor("row", Ty::F32, "(32):(_1)");
    /// let out = k.tensor("out", Ty::F32, "_32:_1");
    /// let (thread, last) = (k.thread(), pointers.extent(0) - 1);
    /// let address = k.gather(&pointers.elements(last));
    /// let row = k.tensor_moved_to(&row, &address, 4);
    /// let x = k.gather(&row.elements(&thread)); // 0 beyond the extent of the parameter
    /// k.scatter(&x, &out.elements(thread));
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let rows = [device.upload(&[1.5_f32; 32])?, device.upload(&[2.0_f32; 32])?];
    /// let pointers = device.upload(&[rows[0].address(), rows[1].address()])?;
    /// let mut out = device.poisoned::<f32>(32)?;
    /// let views = (
    ///     View::new(&pointers, "(2):(_1)")?,
    ///     View::new(&rows[0], "(32):(_1)")?,
    ///     ViewMut::new(&mut out, "_32:_1")?,
    /// );
    /// k.finish()?.load(&device)?.launch([1], views)?;
    /// assert_eq!(out.download()?, [2.0; 32]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if the tensor is not a whole parameter, if the address is not one element of type `u64`, or if
    /// `multiple` is no power of two from the bytes of an element to 16.
    #[track_caller]
    pub fn tensor_moved_to(
        &mut self,
        tensor: &Tensor,
        address: impl Into<Expr>,
        multiple: i64,
    ) -> Tensor {
        let address = address.into();
        let inert = |_: &mut Self| tensor.clone();
        self.attempt(Location::caller(), inert, |k| {
            k.own_memory(&[tensor])?;
            let refuse = |why: String| ErrorKind::operands("tensor_moved_to", why);
            let is_whole = matches!(&tensor.view, View::Coords { tile, .. } if tile.is_empty());
            if !is_whole {
                return Err(refuse(
                    "a part of a tensor: a whole parameter has another address".into(),
                ));
            }
            let bytes = i64::from(tensor.ty.bits()) / 8;
            if !(multiple.count_ones() == 1 && (bytes..=16).contains(&multiple)) {
                return Err(refuse(format!(
                    "an address that is a multiple of {multiple} bytes: a power of two from {bytes} to 16"
                )));
            }
            if address.ty() != Some(Ty::U64) {
                let found = address.ty().map_or("no type", Ty::ptx);
                return Err(refuse(format!(
                    "an address of {found}: it is one element of u64"
                )));
            }
            let reg = k.single("tensor_moved_to", &address)?;
            let range = (0, (1 << 62) - 1);
            let base = Index::leaf(k.leaf(reg), range, multiple, k.depth());
            k.claim_range(&base, range, multiple);
            Ok(Tensor {
                base,
                ..tensor.clone()
            })
        })
    }

    /// The value of an expression of one element, in a register that nothing else writes.
    fn single(&mut self, operation: &'static str, expr: &Expr) -> Result<Reg, ErrorKind> {
        let all = leaves(expr);
        self.own_leaves(&all)?;
        let form = form(operation, &all)?;
        if form.size() != 1 {
            let why = format!("{} elements, and one is an address", form.size());
            return Err(ErrorKind::operands(operation, why));
        }
        let ty = expr.ty().unwrap_or(Ty::S32);
        let mut lower = Lower::new(self, operation);
        lower.bind(expr, &form)?;
        let lanes = lower.eval(expr, ty, &[0], &[])?;
        let value = lower.each(lanes)[0];
        Ok(lower.k.ir.mov(lane_type(ty), value))
    }
}
