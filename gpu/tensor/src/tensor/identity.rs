//! Tensors of coordinates: what a partition cuts of them says where the elements of a thread lie.

use std::rc::Rc;

use colex_atom::{Space, Ty};
use colex_layout::{Int, IntTuple, Layout};

use super::{Dense, Tensor, View};
use crate::error::ErrorKind;
use crate::failure::FirstFailure;
use crate::index::Index;

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
                    begins: vec![Index::constant(0); extents.len()],
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
