//! Builds the tensor map for the layout given at launch.

use colex_atom::{TensorMap, TmaElement, TmaPlan, TmaTile};
use colex_layout::{ComposedLayout, IntoLayout, Layout, Tiler};

use super::launch::{ArgumentError, Slot, TensorKernel, check_written};

/// The tensor map of a parameter, from which a launch builds its own.
#[derive(Clone, Debug)]
pub(crate) struct MapSlot {
    pub(crate) name: String,
    pub(crate) layout: Layout,
    pub(crate) tile: Tiler,
    pub(crate) shared: ComposedLayout,
    pub(crate) element: TmaElement,
    pub(crate) multicast: i64,
    pub(crate) plan: TmaPlan,
    /// Whether the kernel stores to it.
    pub(crate) is_stored: bool,
    /// The dimension along which the boxes of a launch may be narrower.
    pub(crate) narrowed: Option<usize>,
}

/// The granularity of a TMA store in bytes: it writes whole units, also if a row of the tensor ends within one.
const UNIT: i64 = 16;

impl MapSlot {
    /// Builds the tensor map for the layout given at launch.
    ///
    /// # Errors
    ///
    /// Returns an error if TMA cannot copy the layout, or if the layout needs other boxes or coordinates than the kernel has. If
    /// the kernel stores to the tensor, returns an error if its rows are not multiples of 16 bytes or if one element has several
    /// coordinates.
    pub(crate) fn map(&self, layout: &Layout) -> Result<TensorMap, ArgumentError> {
        let refuse = |why: String| ArgumentError::of_tensor(&self.name, why);
        // A row as long as the box, or a mode of extent 1, need not change what the kernel moves.
        let plan = match self.plan.for_tensor(layout) {
            Some(plan) => plan,
            None => TmaPlan::new(TmaTile {
                global: layout,
                tile: &self.tile,
                shared: &self.shared,
                element: self.element,
                multicast: self.multicast,
            })
            .map_err(|e| refuse(e.to_string()))?,
        };
        let same = plan.map().extents == self.plan.map().extents
            && plan.tensor().stride() == self.plan.tensor().stride();
        let row = plan.map().dims[0] * self.element.bytes();
        if self.is_stored && row % UNIT != 0 {
            return Err(refuse(format!(
                "rows of {layout} have {row} bytes, and a store writes whole units of {UNIT}: what lies behind a row would be \
                 overwritten"
            )));
        }
        if self.is_stored {
            check_written(layout).map_err(refuse)?;
        }
        if !same {
            return Err(refuse(format!(
                "{layout} is moved in boxes {}, and the kernel is built for {} of {}",
                plan.box_layout(),
                self.plan.box_layout(),
                self.layout
            )));
        }
        Ok(plan.map().clone())
    }

    /// Refuses a map that moves other boxes than the kernel was built for.
    pub(crate) fn check(&self, map: &TensorMap) -> Result<(), ArgumentError> {
        let ours = self.plan.map();
        let boxes = |map: &TensorMap| {
            format!(
                "boxes of {:?} by steps of {:?} of {:?} in {} dimensions, swizzle {:?}",
                map.extents,
                map.element_strides,
                map.element,
                map.dims.len(),
                map.swizzle
            )
        };
        let same_box = |(dimension, (ours, found)): (usize, (&i64, &i64))| {
            ours == found || self.narrowed == Some(dimension) && (1..ours + 1).contains(found)
        };
        let same = ours.extents.len() == map.extents.len()
            && ours
                .extents
                .iter()
                .zip(&map.extents)
                .enumerate()
                .all(same_box)
            && ours.element_strides == map.element_strides
            && ours.element == map.element
            && ours.dims.len() == map.dims.len()
            && ours.swizzle == map.swizzle
            && ours.interleave == map.interleave
            && ours.im2col == map.im2col;
        if same {
            return Ok(());
        }
        let why = format!(
            "the map given moves {}, and the kernel is built for {}",
            boxes(map),
            boxes(ours)
        );
        Err(ArgumentError::of_tensor(&self.name, why))
    }
}

impl TensorKernel {
    /// Returns the tensor map of the parameter `name` for the layout given at launch. `Device::tensor_map` binds it to
    /// a buffer.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// let slab = "(64,64):(64,1)";
    /// k.tma_tensor("a", Ty::F16, "(256,256):(256,_1)", &[64, 64], slab, 1);
    /// let map = k.finish()?.tensor_map("a", "(100,80):(80,_1)")?;
    /// assert_eq!(map.dims, [80, 100]); // the contiguous mode first
    /// assert_eq!(map.extents, [64, 64]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel has no tensor map of this name, or if the layout needs other boxes than the
    /// kernel was built for.
    pub fn tensor_map(
        &self,
        name: &str,
        layout: impl IntoLayout,
    ) -> Result<TensorMap, ArgumentError> {
        let layout = layout.into_layout();
        let layout = layout.map_err(|e| ArgumentError::of_tensor(name, e.to_string()))?;
        self.map_slot(name)?.map(&layout)
    }

    /// Returns the tensor map as [`tensor_map`](Self::tensor_map) does, with tiles of `extent` elements along the mode that
    /// [`Builder::narrowed_map`](crate::Builder::narrowed_map) names.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// let a = k.tma_tensor("a", Ty::F16, "(256,256):(256,_1)", &[64, 64], "(64,64):(64,1)", 1);
    /// let rows = k.index_argument("rows", 1..9) * 8;
    /// k.narrowed_map(&a, 0, &rows);
    /// let built = k.finish()?;
    /// assert_eq!(built.narrowed_tensor_map("a", "(100,80):(80,_1)", 24)?.extents, [64, 24]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`tensor_map`](Self::tensor_map), and an error if the kernel narrows no mode of the map, or if the blocks that
    /// share a tile do not divide `extent`, or if the tile has fewer elements.
    pub fn narrowed_tensor_map(
        &self,
        name: &str,
        layout: impl IntoLayout,
        extent: i64,
    ) -> Result<TensorMap, ArgumentError> {
        let slot = self.map_slot(name)?;
        let mut map = self.tensor_map(name, layout)?;
        let refuse = |why: String| Err(ArgumentError::of_tensor(name, why));
        let Some(dimension) = slot.narrowed else {
            return refuse("the kernel narrows no mode of its tiles".to_string());
        };
        let most = map.extents[dimension] * slot.multicast;
        if !(1..=most).contains(&extent) || extent % slot.multicast != 0 {
            return refuse(format!(
                "tiles of {extent} elements: 1 to {most}, in equal parts of {} blocks",
                slot.multicast
            ));
        }
        map.extents[dimension] = extent / slot.multicast;
        Ok(map)
    }

    fn map_slot(&self, name: &str) -> Result<&MapSlot, ArgumentError> {
        let slot = self.signature.slots.iter().find_map(|slot| match slot {
            Slot::Map(map) if map.name == name => Some(map),
            _ => None,
        });
        slot.map(|slot| &**slot).ok_or_else(|| {
            ArgumentError::new(format!(
                "the kernel {} has no tensor map called {name}",
                self.kernel.name
            ))
        })
    }
}
