//! `Elements`: elements of a tensor at coordinates that a kernel computes or loads.

use colex_atom::Space;
use colex_ir::{Order, Reg};

use crate::error::ErrorKind;
use crate::fragment::Fragment;
use crate::fragment::expr::{Expr, Mask};
use crate::index::Index;
use crate::tensor::offset::{layout_at_coordinates, swizzled};
use crate::tensor::{Tensor, View};

/// What an access does where a coordinate lies outside of the tensor: below 0, or at the extent or above. A negative
/// coordinate is never one from the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Outside {
    /// The access does not happen: a gather yields 0, and so does the old value of an atomic operation.
    #[default]
    Skip,
    /// The access takes the nearest coordinate, mode by mode. Of a tile that reaches beyond its tensor, nothing beyond the tensor
    /// is accessed.
    Clamp,
    /// The kernel ends with an error (`trap`).
    Trap,
    /// The caller states that no coordinate lies outside, and no instruction tests it. The simulator refuses a coordinate
    /// that does in global memory, and an access beyond the memory of the tensor; a GPU accesses what is there.
    Stated,
}

/// The elements of a tensor at coordinates, one expression for each mode: what [`Builder::gather`], [`Builder::scatter`]
/// and [`Builder::atomic`] access.
///
/// The coordinates are [`Expr`]essions of integers: elements of fragments, constants, and every [`Index`]. They are broadcast to
/// one shape as [`Builder::map`] broadcasts them, and there is one access for each element of it. No launch knows what a fragment
/// holds, so every access tests its coordinates, unless their types or ranges decide the test; [`Elements::outside`] says
/// what happens outside.
///
/// ```
/// use colex_atom::{Arch, Ty};
/// use colex_proof::examples::elements;
/// use colex_tensor::{Builder, Expr, Index};
///
/// let mut k = Builder::new("k", Arch::Sm80, 32);
/// let table = k.shared_tensor(Ty::F32, "(4,32):(32,1)");
/// let thread = k.thread();
/// let row = k.fragment(Ty::S32, "_4:_1");
/// (0..4).for_each(|i| k.assign(&row.values(i, 1), i));
/// k.scatter(Expr::from(&row).to(Ty::F32) * 10.0, &table.elements((&row, &thread))); // a column per thread
/// k.sync();
/// let reversed = k.gather(&table.elements((3 - &row, Index::constant(31) - &thread)));
/// assert_eq!(elements(k, &reversed)?[7], [30.0, 20.0, 10.0, 0.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`Builder::map`]: crate::Builder::map
/// [`Builder::gather`]: crate::Builder::gather
/// [`Builder::scatter`]: crate::Builder::scatter
/// [`Builder::atomic`]: crate::Builder::atomic
#[derive(Clone, Debug)]
pub struct Elements {
    pub(crate) tensor: Tensor,
    pub(crate) at: Vec<Expr>,
    pub(crate) only: Option<Mask>,
    pub(crate) outside: Outside,
    pub(crate) order: Order,
    /// The mode along which an access takes several elements, and how many.
    pub(crate) vector: Option<(usize, i64)>,
}

impl Tensor {
    /// Returns the elements at `at`: a coordinate for each mode of the tensor's layout.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let tile = k.shared_tensor(Ty::F32, "32:1");
    /// let thread = k.thread();
    /// k.scatter(2.5, &tile.elements(&thread));
    /// k.sync();
    /// let next = k.gather(&tile.elements(&thread + 1)); // thread 31 has none
    /// assert_eq!(elements(k, &next)?[30..], [[2.5], [0.0]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn elements(&self, at: impl IntoCoordinates) -> Elements {
        Elements {
            tensor: self.clone(),
            at: at.into_coordinates(),
            only: None,
            outside: Outside::default(),
            order: Order::Weak,
            vector: None,
        }
    }

    /// The coordinates in the parameter of the element at a coordinate of each mode; of a tensor in shared memory none.
    pub(crate) fn coordinates_of(&self, at: &[Index]) -> Vec<Index> {
        let View::Coords { start, layout, .. } = &self.view else {
            return Vec::new();
        };
        let mut steps = layout_at_coordinates(layout, at);
        steps.resize(start.len(), Index::constant(0));
        start.iter().zip(steps).map(|(s, step)| s + step).collect()
    }

    /// The address in bytes of the element at a coordinate of each mode.
    pub(crate) fn bytes_of(&self, at: &[Index]) -> Index {
        match &self.view {
            View::Coords { of, .. } => self.bytes_in(of, &self.coordinates_of(at)),
            View::Offsets {
                swizzle,
                layout,
                start,
                after,
            } => {
                let offsets = layout_at_coordinates(layout, at);
                let offset = offsets.into_iter().fold(start.clone(), |sum, x| sum + x);
                let bytes = i64::from(self.ty.bits()) / 8;
                &self.base + (swizzled(*swizzle, &offset) + after) * bytes
            }
        }
    }

    /// The space of its memory, as instructions name it.
    pub(crate) fn memory(&self) -> colex_ir::Space {
        match self.space {
            Space::Global => colex_ir::Space::Global,
            Space::Cluster => colex_ir::Space::Cluster,
            _ => colex_ir::Space::Shared,
        }
    }
}

impl Elements {
    /// Returns the same elements with another treatment of coordinates outside of the tensor; the default is
    /// [`Outside::Skip`].
    ///
    /// ```
    /// # use colex_atom::{Arch, Ty};
    /// # use colex_proof::examples::elements;
    /// # use colex_tensor::{Builder, Outside};
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let tile = k.shared_tensor(Ty::F32, "32:1");
    /// let thread = k.thread();
    /// k.scatter(2.5, &tile.elements(&thread));
    /// k.sync();
    /// let next = k.gather(&tile.elements(&thread + 1).outside(Outside::Clamp));
    /// assert_eq!(elements(k, &next)?[30..], [[2.5], [2.5]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn outside(self, outside: Outside) -> Elements {
        Elements { outside, ..self }
    }

    /// Returns the same elements, of which only those are accessed for which `only` holds; the others are treated as
    /// [`Outside::Skip`] treats coordinates outside.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let tile = k.shared_tensor(Ty::F32, "32:1");
    /// let thread = k.thread();
    /// k.scatter(2.5, &tile.elements(&thread));
    /// k.sync();
    /// let is_even = (Expr::from(&thread) & 1).equals(0);
    /// let some = k.gather(&tile.elements(&thread).only(is_even));
    /// assert_eq!(elements(k, &some)?[..3], [[2.5], [0.0], [2.5]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn only(self, only: Mask) -> Elements {
        let only = match self.only {
            Some(before) => before & only,
            None => only,
        };
        Elements {
            only: Some(only),
            ..self
        }
    }

    /// Returns the same elements with the memory order and the scope of atomic operations on them. Where nothing is said,
    /// they are relaxed and of the scope of the device (PTX ISA 8.4).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_ir::{AtomicOp, Order, Scope};
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let sums = k.tensor("sums", Ty::F32, "_32:_1");
    /// let thread = k.thread();
    /// k.atomic_update(AtomicOp::Add, &sums.elements(&thread).ordered(Order::Relaxed(Scope::Cta)), 1.0);
    /// assert!(k.finish()?.kernel.ptx()?.contains("red.relaxed.cta.global.add.f32"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn ordered(self, order: Order) -> Elements {
        Elements { order, ..self }
    }

    /// Returns vectors of `count` elements along mode `mode`, each from the coordinate on: a row of an embedding, not one number
    /// of it. They are the first mode of the shape, before those of the coordinates. A load or store takes a vector with one
    /// instruction, so that it has up to 16 bytes. An atomic operation takes the elements of a vector one by one, but 16-bit
    /// floats two by two (`f16x2`, `bf16x2`).
    ///
    /// Vectors are aligned: the coordinate along the mode is a multiple of `count` by the rules of [`Index`], and so is the
    /// extent, unless [`Outside::Stated`] says that every vector lies inside. Of dynamic extents and strides the launch is
    /// asked. [`Builder::for_vector`](crate::Builder::for_vector) takes the elements of a mode of any extent.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let tile = k.shared_tensor(Ty::F32, "(32,8):(8,1)");
    /// let thread = k.thread();
    /// k.scatter(1.5, &tile.elements((&thread, 4)).vectors(1, 4));
    /// k.scatter(0.5, &tile.elements((&thread, 0)).vectors(1, 4));
    /// k.sync();
    /// let halves = k.gather(&tile.elements((-thread + 31, 4)).vectors(1, 4));
    /// assert_eq!(halves.layout().shape().to_string(), "(_4,_1)");
    /// assert_eq!(elements(k, &halves)?[0], [1.5; 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn vectors(self, mode: usize, count: i64) -> Elements {
        Elements {
            vector: (count != 1).then_some((mode, count)),
            ..self
        }
    }

    /// How many elements an access takes.
    pub(crate) fn count(&self) -> i64 {
        self.vector.map_or(1, |(_, count)| count)
    }

    /// Refuses coordinates that are none of the tensor's.
    pub(crate) fn check(&self, operation: &'static str) -> Result<(), ErrorKind> {
        let refuse = |why: String| Err(ErrorKind::operands(operation, why));
        let (tensor, rank) = (&self.tensor, self.tensor.layout().rank());
        if tensor.share.is_some() {
            return refuse(
                "a thread's part of a tile, whose modes are those of a partition: take elements of the tile".into(),
            );
        }
        if self.at.len() != rank {
            return refuse(format!(
                "{} coordinates of {}, which has {rank} modes",
                self.at.len(),
                tensor.layout().shape()
            ));
        }
        if let Some(ty) = self
            .at
            .iter()
            .filter_map(Expr::ty)
            .find(|ty| !ty.is_integer())
        {
            return refuse(format!(
                "a coordinate of {ty}: it is an integer, and `.to(Ty::S32)` converts"
            ));
        }
        match self.vector {
            Some((mode, count)) if mode >= rank || !matches!(count, 2 | 4 | 8 | 16) => {
                refuse(format!(
                    "vectors of {count} along mode {mode} of {rank}: 2, 4, 8 or 16 elements along a mode of the tensor"
                ))
            }
            Some(_) if self.outside == Outside::Clamp => {
                refuse("vectors are not clamped: clamp the coordinate".into())
            }
            _ => Ok(()),
        }
    }
}

/// Coordinates of elements, an [`Expr`] for each mode: a tuple of up to five of them, an array, or one alone. Fragments,
/// [`Index`]es, registers and integers are expressions.
///
/// ```
/// use colex_atom::{Arch, Ty};
/// use colex_tensor::Builder;
///
/// let mut k = Builder::new("k", Arch::Sm80, 32);
/// let (table, thread) = (k.tensor("table", Ty::F32, "(100,32):(32,_1)"), k.thread());
/// let ids = k.fragment(Ty::S32, "_4:_1");
/// k.fill(&ids, 7.0);
/// let x = k.gather(&table.elements((&ids, thread)));
/// assert_eq!(x.layout().to_string(), "_4:_1");
/// ```
pub trait IntoCoordinates {
    /// Returns the coordinates, mode by mode.
    fn into_coordinates(self) -> Vec<Expr>;
}

macro_rules! alone {
    ($($ty:ty),*) => {$(
        impl IntoCoordinates for $ty {
            #[track_caller]
            fn into_coordinates(self) -> Vec<Expr> {
                vec![self.into()]
            }
        }
    )*};
}
alone!(
    Expr, &Expr, Fragment, &Fragment, Index, &Index, Reg, i32, i64
);

/// No coordinate: what [`VectorRun::of`](crate::VectorRun::of) takes of a tensor of one mode.
impl IntoCoordinates for () {
    fn into_coordinates(self) -> Vec<Expr> {
        Vec::new()
    }
}

impl IntoCoordinates for Vec<Expr> {
    fn into_coordinates(self) -> Vec<Expr> {
        self
    }
}

impl<T: Into<Expr>, const N: usize> IntoCoordinates for [T; N] {
    #[track_caller]
    fn into_coordinates(self) -> Vec<Expr> {
        self.into_iter().map(Into::into).collect()
    }
}

macro_rules! tuples {
    ($($($name:ident)*;)*) => {$(
        impl<$($name: Into<Expr>),*> IntoCoordinates for ($($name,)*) {
            #[allow(non_snake_case, reason = "the fields have the names of their types")]
            #[track_caller]
            fn into_coordinates(self) -> Vec<Expr> {
                let ($($name,)*) = self;
                vec![$($name.into()),*]
            }
        }
    )*};
}
tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
}
