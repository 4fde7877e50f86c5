//! Names that messages and tables show.

use std::panic::Location;
use std::rc::Rc;

use super::Builder;
use super::barrier::Barriers;
use super::held::{Element, HeldElements, Part};
use super::pipeline::Pipeline;
use crate::error::ErrorKind;
use crate::index::Index;
use crate::tensor::Tensor;
use colex_atom::{Space, Ty};
use colex_ir::NamedFragment;

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// What [`Builder::name`] gives a name to: a tensor in shared memory, barriers, a pipeline, a fragment.
pub trait Nameable: sealed::Sealed {
    #[doc(hidden)]
    fn named(&self, k: &mut Builder, name: &str) -> Result<(), String>;
}

impl sealed::Sealed for Tensor {}

impl Nameable for Tensor {
    fn named(&self, k: &mut Builder, name: &str) -> Result<(), String> {
        if self.space != Space::Shared {
            return Err("a tensor in global memory has the name of its parameter".to_string());
        }
        k.name_region(&self.base, name)
    }
}

impl sealed::Sealed for Barriers {}

impl Nameable for Barriers {
    fn named(&self, k: &mut Builder, name: &str) -> Result<(), String> {
        k.name_region(&self.base, name)
    }
}

impl sealed::Sealed for Pipeline {}

impl Nameable for Pipeline {
    fn named(&self, k: &mut Builder, name: &str) -> Result<(), String> {
        k.name_region(&self.full.base, &format!("{name}.full"))?;
        k.name_region(&self.empty.base, &format!("{name}.empty"))
    }
}

/// A fragment that has a name: its type, and the part of a register that each element is.
#[derive(Debug)]
pub(crate) struct NamedParts {
    pub(crate) name: String,
    pub(crate) ty: Ty,
    pub(crate) parts: Vec<Part>,
}

impl Builder {
    /// Gives a tensor in shared memory, an array of barriers or a pipeline a name, which the faults of the simulator show,
    /// or a fragment, whose registers a `Stepper` shows under it. The barriers of a pipeline `ring` are `ring.full` and
    /// `ring.empty`.
    ///
    /// ```
    /// # use colex_atom::{Arch, Ty};
    /// # use colex_tensor::Builder;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let tile = k.shared_tensor(Ty::F16, "(64,32):(32,1)");
    /// k.name("tile", &tile);
    /// let kernel = k.finish()?.kernel;
    /// let byte_66 = kernel.shared_regions[0].describe(66);
    /// assert!(byte_66.starts_with("element (1,1) of `tile`, the shared f16 tensor (64,32):(32,1) ("));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if the name is given twice, or if it is given to a tensor in global memory, which has
    /// the name of its parameter.
    #[track_caller]
    pub fn name(&mut self, name: &str, what: &impl Nameable) {
        self.run(Location::caller(), |k| {
            what.named(k, name)
                .map_err(|why| ErrorKind::operands("name", why))
        });
    }

    /// Names the part of shared memory that an address lies in.
    fn name_region(&mut self, base: &Index, name: &str) -> Result<(), String> {
        let (_, byte) = base.split();
        let region = u32::try_from(byte)
            .ok()
            .and_then(|byte| self.ir.region_at(byte));
        let Some(region) = region else {
            return Err("it is no shared memory of this kernel".to_string());
        };
        region.name = Some(name.to_string());
        self.new_name(name)
    }

    /// Refuses a name that is given twice.
    pub(crate) fn new_name(&mut self, name: &str) -> Result<(), String> {
        if self.names.insert(name.to_string()) {
            return Ok(());
        }
        Err(format!("`{name}` is the name of something else"))
    }

    /// Tells the kernel which registers the named fragments are, and what they hold of their tiles at the end.
    pub(crate) fn name_fragments(&mut self) {
        for NamedParts { name, ty, parts } in std::mem::take(&mut self.fragments) {
            let held: HeldElements = parts.iter().map(|part| self.held.element(*part)).collect();
            let held: Option<Vec<Element>> = held.into_iter().collect();
            let places = held.and_then(|held| {
                let places = Rc::clone(&held.first()?.places);
                let same = |element: &Element| {
                    Rc::ptr_eq(&element.places, &places) && !element.filled.is_part()
                };
                let own = held
                    .iter()
                    .map(|element| places.elements[element.number].clone());
                held.iter()
                    .all(same)
                    .then(|| [places.threads.clone(), own.collect()])
            });
            let bits = ty.bits();
            let elements = parts
                .into_iter()
                .map(|(reg, part)| (reg, part as u32 * bits));
            let elements = elements.collect();
            self.ir.name_fragment(NamedFragment {
                name,
                ty,
                elements,
                places,
            });
        }
    }
}
