//! Tensors in global memory as parameters of a kernel, and tensors in shared memory.

use std::panic::Location;
use std::rc::Rc;

use colex_atom::{Space, Ty};
use colex_layout::{ComposedLayout, IntoComposedLayout, IntoLayout, Layout, LeafMode};

use super::Builder;
use super::launch::{Asked, Slot, TensorSlot, ValueSlot};
use crate::error::ErrorKind;
use crate::index::{Index, Node};
use crate::tensor::coord::IntoIndices;
use crate::tensor::offset::period;
use crate::tensor::{Dense, MAX_EXTENT, Tensor, View, whole};
use colex_ir::{Base, ParamId, ParamType, Reg, SharedRegion, Type};

/// The alignment of a block's shared memory, which the widest swizzle of TMA needs.
const USUAL_ALIGNMENT: u32 = 1024;

/// The greatest alignment of a place in shared memory.
const MOST_ALIGNMENT: u32 = 1 << 16;

impl Builder {
    /// Declares a tensor in global memory that the launch passes.
    ///
    /// Its parameters are a pointer, then the layout's dynamic leaves in the order of [`Layout::dynamic_values`]: extents
    /// as 32-bit numbers, strides as 64-bit ones. Static leaves are constants of the kernel. The values of dynamic leaves
    /// in `layout` are examples, for reports. Dynamic extents are at most [`MAX_EXTENT`], strides below 2^40 in absolute
    /// value.
    ///
    /// ```
    /// # use colex_atom::{Arch, Ty};
    /// # use colex_tensor::{Builder, MAX_EXTENT};
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let a = k.tensor("a", Ty::F32, "(100,_64):(64,_1)");
    /// assert_eq!(a.extent(0).range(), (1, MAX_EXTENT)); // an argument of the launch
    /// assert_eq!(a.extent(1).as_constant(), Some(64)); // a constant of the kernel
    /// let parameters = k.finish()?.kernel.params;
    /// assert_eq!(parameters.iter().map(|p| &p.name[..]).collect::<Vec<_>>(), ["a", "a_extent_0", "a_stride_0"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if `layout` is not a layout, if its strides are not integers, or if elements are
    /// narrower than a byte.
    #[track_caller]
    pub fn tensor(&mut self, name: &str, ty: Ty, layout: impl IntoLayout) -> Tensor {
        let inert = |k: &mut Self| Tensor::inert(&k.failure, Space::Global, ty);
        self.attempt(Location::caller(), inert, |k| {
            k.new_tensor(name, ty, &layout.into_layout()?)
        })
    }

    fn new_tensor(&mut self, name: &str, ty: Ty, layout: &Layout) -> Result<Tensor, ErrorKind> {
        if layout.leaves().iter().any(|l| l.stride.as_int().is_none())
            || !ty.bits().is_multiple_of(8)
        {
            let why = format!(
                "{name} of {ty} is {layout}; a parameter has integer strides and whole bytes"
            );
            return Err(ErrorKind::operands("tensor", why));
        }
        let align = ty.bits() / 8;
        let pointer = self.ir.parameter(name, ParamType::Pointer { align });
        let base = self.parameter_value(pointer, 0..1 << 62, i64::from(ty.bits() / 8));
        let mut extents = Vec::new();
        for (i, leaf) in layout.leaves().iter().enumerate() {
            extents.push(if leaf.extent.is_static() {
                leaf.extent.value().into()
            } else {
                let id = self.ir.scalar(&format!("{name}_extent_{i}"), Type::U32);
                let index = self.parameter_value(id, 1..MAX_EXTENT + 1, 1);
                self.example(&index, leaf.extent.value());
                index
            });
        }
        let mut strides = Vec::new();
        for (i, leaf) in layout.leaves().iter().enumerate() {
            let stride = leaf.stride.coefficient();
            strides.push(if stride.is_static() {
                Index::constant(stride.value())
            } else {
                let id = self.ir.scalar(&format!("{name}_stride_{i}"), Type::S64);
                let index = self.parameter_value(id, -(1 << 40)..1 << 40, 1);
                self.example(&index, stride.value());
                index
            });
        }
        let mut leaves = extents.into_iter().zip(strides);
        let modes: Vec<Vec<(Index, Index)>> = layout
            .modes()
            .map(|mode| leaves.by_ref().take(mode.leaves().len()).collect())
            .collect();
        let product = |mode: &Vec<(Index, Index)>| {
            mode.iter()
                .fold(Index::constant(1), |n, (extent, _)| n * extent)
        };
        let of = Dense {
            slot: self.launch.slots.len(),
            name: name.to_string(),
            layout: layout.clone(),
            begins: vec![Index::constant(0); modes.len()],
            extents: modes.iter().map(product).collect(),
            modes,
            narrowed: Vec::new(),
        };
        self.launch.slots.push(Slot::Tensor(Box::new(TensorSlot {
            name: name.to_string(),
            param: pointer,
            ty,
            layout: layout.clone(),
            align: i64::from(ty.bits() / 8),
            is_written: false,
            asked: vec![Asked::default(); layout.dynamic_values().len()],
        })));
        let start = vec![Index::constant(0); of.modes.len()];
        Ok(Tensor {
            space: Space::Global,
            ty,
            base,
            view: View::Coords {
                layout: whole(layout)?,
                start,
                of: Rc::new(of),
                tile: Vec::new(),
                stated_inside: false,
            },
            ends: Vec::new(),
            share: None,
            failure: self.failure.clone(),
        })
    }

    /// Notes the value of a parameter in the layout that the kernel is built with, for reports.
    fn example(&mut self, index: &Index, value: i64) {
        if let Node::Leaf(leaf) = &index.0.node {
            self.reports.values.arguments.insert(leaf.reg, value);
        }
    }

    /// The value of a parameter, loaded once at the beginning.
    #[track_caller]
    fn parameter_value(
        &mut self,
        id: ParamId,
        range: std::ops::Range<i64>,
        multiple: i64,
    ) -> Index {
        let reg = self.ir.hoisted(0, |k| k.param(id));
        self.claims.parameter(reg, id);
        let leaf = self.leaf(reg);
        Index::leaf(leaf, (range.start, range.end - 1), multiple, 0)
    }

    /// Declares a scalar of type `ty` that the launch passes, and returns the register that holds it.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_ir::{RegType, Type};
    /// # use colex_ir::launch::Argument;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let alpha = k.scalar_argument("alpha", Type::F32);
    /// assert_eq!(alpha.ty, RegType::F32);
    /// let arguments = k.finish()?.arguments(&[Arg::Value(2.5_f32.into())])?;
    /// assert_eq!(arguments, [Argument::F32(2.5)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn scalar_argument(&mut self, name: &str, ty: Type) -> Reg {
        self.new_scalar(name, ty, None)
    }

    #[track_caller]
    fn new_scalar(&mut self, name: &str, ty: Type, range: Option<(i64, i64)>) -> Reg {
        self.launch.slots.push(Slot::Value(ValueSlot {
            name: name.to_string(),
            ty,
            range,
        }));
        let id = self.ir.parameter(name, ParamType::Scalar(ty));
        let at = Location::caller();
        let reg = self.site(at, |k| k.ir.hoisted(0, |k| k.param(id)));
        self.claims.parameter(reg, id);
        reg
    }

    /// Declares a 32-bit integer that the launch passes, and returns it as an index. It lies in `range` (end excluded):
    /// [`crate::TensorKernel::arguments`] refuses other values.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let n = k.index_argument("n", 0..100);
    /// assert_eq!(n.range(), (0, 99));
    /// let error = k.finish()?.arguments(&[Arg::Value(200_u32.into())]).unwrap_err();
    /// assert_eq!(error.to_string(), "argument n: 200, and the kernel takes 0 to 99");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn index_argument(&mut self, name: &str, range: std::ops::Range<i64>) -> Index {
        let range = self.ends("index_argument", range, Location::caller());
        let reg = self.new_scalar(name, Type::U32, Some(range));
        let index = Index::leaf(self.leaf(reg), range, 1, 0);
        self.example(&index, range.0);
        index
    }

    /// Allocates a tensor in the block's shared memory. Its layout, swizzled or not, is always static. The memory is
    /// part of the dynamic shared memory, whose size is [`crate::TensorKernel::dynamic_shared`].
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let tile = k.shared_tensor(Ty::F16, "(64,32):(32,1)");
    /// assert_eq!(tile.layout().to_string(), "(_64,_32):(_32,_1)");
    /// assert_eq!(k.finish()?.dynamic_shared(), 64 * 32 * 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if `layout` is not a layout or has no size in memory, if elements are narrower than a
    /// byte, if an offset is below 0, or if the block does not have enough shared memory.
    #[track_caller]
    pub fn shared_tensor(&mut self, ty: Ty, layout: impl IntoComposedLayout) -> Tensor {
        let inert = |k: &mut Self| Tensor::inert(&k.failure, Space::Shared, ty);
        self.attempt(Location::caller(), inert, |k| {
            k.new_shared(ty, &layout.into_composed_layout()?)
        })
    }

    fn new_shared(&mut self, ty: Ty, layout: &ComposedLayout) -> Result<Tensor, ErrorKind> {
        let swizzle = layout.swizzle();
        let inner = layout.inner().to_static();
        let refuse = |why: String| ErrorKind::operands("shared_tensor", why);
        if !ty.bits().is_multiple_of(8) {
            return Err(refuse(format!(
                "{ty} is no whole number of bytes; u8 holds several"
            )));
        }
        let elements = (layout.base_offset()).checked_add(inner.cosize()?);
        // A swizzle that mixes into higher bits reaches to the end of its period.
        let elements = if swizzle.into_mask() > swizzle.from_mask() {
            elements.and_then(|n| {
                let period = period(swizzle);
                ((n - 1) / period + 1).checked_mul(period)
            })
        } else {
            elements
        };
        let down = |l: &LeafMode| {
            let stride = l.stride.coefficient().value();
            stride.min(0).saturating_mul(l.extent.value() - 1)
        };
        let lowest = (inner.leaves().iter())
            .map(down)
            .fold(0, i64::saturating_add);
        if layout.base_offset().saturating_add(lowest) < 0 {
            return Err(refuse(format!("{layout} has offsets below 0")));
        }
        let bytes = elements.and_then(|n| n.checked_mul(i64::from(ty.bits()) / 8));
        let bytes = bytes.and_then(|n| u32::try_from(n).ok());
        let Some(bytes) = bytes else {
            return Err(refuse(format!("{layout} of {ty} takes 4 GiB and more")));
        };
        let period = period(swizzle) * i64::from(ty.bits()) / 8;
        let base = self.shared_bytes(bytes, period.max(128) as u32);
        let unit = ("element", ty.bits() / 8);
        self.describe_shared(
            format!("{ty} tensor {layout}"),
            bytes,
            unit,
            Some((ty, layout)),
        );
        Ok(Tensor {
            space: Space::Shared,
            ty,
            base,
            view: View::Offsets {
                swizzle,
                layout: inner,
                start: Index::constant(layout.base_offset()),
                after: Index::constant(0),
            },
            ends: Vec::new(),
            share: None,
            failure: self.failure.clone(),
        })
    }

    /// Describes the region of shared memory that was allocated last, for messages.
    #[track_caller]
    pub(crate) fn describe_shared(
        &mut self,
        what: String,
        bytes: u32,
        unit: (&'static str, u32),
        elements: Option<(Ty, &ComposedLayout)>,
    ) {
        let here = Location::caller();
        let site = self.ir.set_location(None);
        self.ir.set_location(site);
        self.ir.shared_region(SharedRegion {
            name: None,
            what,
            start: self.launch.shared.saturating_sub(bytes),
            bytes,
            unit,
            ty: elements.map(|(ty, _)| ty),
            layout: elements.map(|(_, layout)| layout.clone()),
            at: site.unwrap_or(here),
        });
    }

    /// Reserves `bytes` bytes of the block's shared memory, aligned to `align` (a power of two up to 65536), and returns their address.
    ///
    /// If the block does not have enough shared memory, or if the alignment is not such a power of two, [`Builder::finish`]
    /// returns an error.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let (a, b) = (k.shared_bytes(100, 16), k.shared_bytes(4, 64));
    /// assert_eq!((b - a).as_constant(), Some(128)); // the next multiple of 64 bytes
    /// assert_eq!(k.finish()?.dynamic_shared(), 132);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn shared_bytes(&mut self, bytes: u32, align: u32) -> Index {
        let at = Location::caller();
        let align = align.max(16);
        if !align.is_power_of_two() || align > MOST_ALIGNMENT {
            let why =
                format!("an alignment of {align} bytes; powers of two up to {MOST_ALIGNMENT} are");
            self.fail(ErrorKind::operands("shared_bytes", why), at);
            return 0.into();
        }
        let offset = self.launch.shared.next_multiple_of(align);
        let most = colex_ir::launch::Limits::of(self.ir.target()).shared;
        match offset.checked_add(bytes).filter(|end| *end <= most) {
            Some(end) => {
                self.launch.shared = end;
                self.describe_shared(format!("{bytes} bytes"), bytes, ("byte", 1), None);
            }
            None => {
                let why = format!(
                    "{bytes} bytes after {offset} others, and a block of {} has {most}",
                    self.ir.target()
                );
                self.fail(ErrorKind::operands("shared memory", why), at);
                return 0.into();
            }
        }
        self.ir.dynamic_shared(align.max(USUAL_ALIGNMENT));
        let known = self
            .launch
            .bases
            .iter()
            .find(|(_, base)| **base == Base::DynamicShared);
        let reg = match known {
            Some((reg, _)) => *reg,
            None => {
                let reg = self.site(at, |k| {
                    k.ir.hoisted(0, |k| k.address_of(Base::DynamicShared))
                });
                self.launch.bases.insert(reg, Base::DynamicShared);
                reg
            }
        };
        let leaf = self.leaf(reg);
        Index::leaf(leaf, (0, (1 << 30) - 1), 1024, 0) + i64::from(offset)
    }
}

impl Builder {
    /// Returns the tensor of the coordinates of these extents, CuTe's `make_identity_tensor`: it has no memory. Cut as another tensor
    /// is cut, it says where in that tensor the elements of a thread lie ([`Tensor::coordinates`],
    /// [`Expr::coordinate`](crate::Expr::coordinate)).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let [rows, row] = ["rows", "row"].map(|name| k.index_argument(name, 1..1000));
    /// let places = k.identity_tensor((&rows, 64));
    /// let tile = places.local_tile((8, 16), (&row, 2));
    /// assert_eq!(tile.coordinates(9), [row * 8 + 1, 33.into()]); // index 9 of the tile is (1, 1)
    ///
    /// k.gather(&places.elements((0, 0)));
    /// assert!(k.finish().unwrap_err().to_string().contains("a tensor of coordinates has no memory"));
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if there are no extents, if one may be below 1 or is above [`MAX_EXTENT`], or if the tensor is loaded from or stored to.
    #[track_caller]
    pub fn identity_tensor(&mut self, extents: impl IntoIndices) -> Tensor {
        let extents = extents.into_indices();
        let inert = |k: &mut Self| Tensor::inert(&k.failure, Space::Global, Ty::S32);
        self.attempt(Location::caller(), inert, |k| {
            k.failure.own_indices(&extents)?;
            let is_extent = |extent: &Index| {
                let fits = extent.as_constant().is_none_or(|n| n <= MAX_EXTENT);
                extent.range().0 > 0 && fits || extent.poison().is_some()
            };
            if extents.is_empty() || !extents.iter().all(is_extent) {
                let found: Vec<String> = extents.iter().map(|n| n.to_string()).collect();
                let found = found.join(",");
                let why = format!(
                    "the extents ({found}): a tensor of coordinates has one from 1 to {MAX_EXTENT} for each mode"
                );
                return Err(ErrorKind::operands("identity_tensor", why));
            }
            Tensor::identity_of(&extents, &k.failure)
        })
    }

    /// Refuses tensors of another builder, and those without memory.
    pub(crate) fn own_memory(&self, tensors: &[&Tensor]) -> Result<(), ErrorKind> {
        self.own_tensors(tensors)?;
        let is_there = |tensor: &&Tensor| match &tensor.view {
            View::Coords { of, .. } => !of.modes.is_empty(),
            View::Offsets { .. } => true,
        };
        if tensors.iter().all(is_there) {
            return Ok(());
        }
        let why = "a tensor of coordinates has no memory: `Expr::coordinate` reads its coordinates";
        Err(ErrorKind::operands("memory", why.to_string()))
    }
}
