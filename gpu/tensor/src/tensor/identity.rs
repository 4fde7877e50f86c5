//! Tensors of coordinates: what a partition cuts of them says where the elements of a thread lie.

use std::panic::Location;
use std::rc::Rc;

use colex_atom::{Space, Ty};
use colex_layout::{Int, IntTuple, Layout};

use super::coord::IntoIndices;
use super::{Dense, Tensor, View};
use crate::build::Builder;
use crate::error::ErrorKind;
use crate::failure::FirstFailure;
use crate::index::Index;

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
    /// [`Builder::finish`] fails if there are no extents, if one may be below 1, or if the tensor is loaded from or stored to.
    #[track_caller]
    pub fn identity_tensor(&mut self, extents: impl IntoIndices) -> Tensor {
        let extents = extents.into_indices();
        let inert = |k: &mut Self| Tensor::inert(&k.failure, Space::Global, Ty::S32);
        self.attempt(Location::caller(), inert, |k| {
            k.failure.own_indices(&extents)?;
            let is_extent = |extent: &Index| extent.range().0 > 0 || extent.poison().is_some();
            if extents.is_empty() || !extents.iter().all(is_extent) {
                let found: Vec<String> = extents.iter().map(|n| n.to_string()).collect();
                let found = found.join(",");
                let why = format!(
                    "the extents ({found}): a tensor of coordinates has one from 1 on for each mode"
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

impl Tensor {
    /// The coordinates of these extents.
    pub(crate) fn identity_of(
        extents: &[Index],
        failure: &FirstFailure,
    ) -> Result<Tensor, ErrorKind> {
        let shape = extents.iter().map(|extent| match extent.as_constant() {
            Some(extent) => Int::Static(extent),
            None => Int::Dynamic(extent.range().0.max(1)),
        });
        let layout = Layout::identity(IntTuple::flat(shape))?;
        Ok(Tensor {
            space: Space::Global,
            ty: Ty::S32,
            base: 0.into(),
            view: View::Coords {
                start: vec![Index::constant(0); extents.len()],
                of: Rc::new(Dense {
                    slot: 0,
                    name: "a tensor of coordinates".to_string(),
                    layout: layout.clone(),
                    modes: Vec::new(),
                    extents: extents.to_vec(),
                    narrowed: Vec::new(),
                }),
                layout,
                tile: Vec::new(),
                stated_inside: false,
            },
            ends: Vec::new(),
            share: None,
            failure: failure.clone(),
        })
    }
}
