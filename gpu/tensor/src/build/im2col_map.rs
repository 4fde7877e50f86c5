//! Builds the tensor map of activations for the layout and the filter given at launch.

use colex_atom::{Im2colPlan, Im2colTile, Taps, TensorMap, TmaElement};
use colex_layout::{ComposedLayout, IntoLayout};

use super::launch::{ArgumentError, Slot, TensorKernel};

/// The tensor map of activations, from which a launch builds its own.
#[derive(Clone, Debug)]
pub(crate) struct Im2colSlot {
    pub(crate) name: String,
    pub(crate) shared: ComposedLayout,
    pub(crate) element: TmaElement,
    pub(crate) multicast: i64,
    /// The numbers of taps along W, H, D.
    pub(crate) taps: Vec<i64>,
    pub(crate) plan: Im2colPlan,
}

impl Im2colSlot {
    /// Refuses a map that moves other columns than the kernel was built for.
    pub(crate) fn check(&self, map: &TensorMap) -> Result<(), ArgumentError> {
        let ours = self.plan.map();
        let columns = |map: &TensorMap| {
            let mode = match map.im2col {
                Some(_) => "columns",
                None => "boxes",
            };
            format!(
                "{mode} of {:?} of {:?} in {} dimensions, swizzle {:?}",
                map.extents,
                map.element,
                map.dims.len(),
                map.swizzle
            )
        };
        let same = ours.im2col.is_some() == map.im2col.is_some()
            && ours.extents == map.extents
            && ours.element == map.element
            && ours.dims.len() == map.dims.len()
            && ours.swizzle == map.swizzle
            && ours.interleave == map.interleave;
        if same {
            return Ok(());
        }
        let why = format!(
            "the map given moves {}, and the kernel is built for {}",
            columns(map),
            columns(ours)
        );
        Err(ArgumentError::of_tensor(&self.name, why))
    }
}

impl TensorKernel {
    /// Returns the tensor map of the activations `name` under a filter, and the numbers that follow it among the arguments: the
    /// positions, the stride, the padding before the first pixel and the dilation, along W, H, D.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// use colex_atom::Taps;
    ///
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// k.im2col_tensor("x", Ty::F16, &[3], "(32,8):(8,1)", 1);
    /// let built = k.finish()?;
    /// let every_second = Taps { stride: 2, padding: [1, 0], ..Taps::new(3) };
    /// let (map, numbers) = built.im2col_arguments("x", "(8,20,4):(1,8,160)", &[every_second])?;
    /// assert_eq!((map.dims, numbers), (vec![8, 20, 4], vec![10, 2, 1, 1]));
    ///
    /// let error = built.im2col_arguments("x", "(8,20,4):(1,8,160)", &[Taps::new(4)]).unwrap_err();
    /// assert_eq!(error.to_string(), "tensor x: a filter of [4] taps, and the kernel is built for [3]");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel has no activations of this name, if it is built for another number of taps, if TMA cannot
    /// copy the layout under the filter, or if it does so in other columns.
    pub fn im2col_arguments(
        &self,
        name: &str,
        activations: impl IntoLayout,
        taps: &[Taps],
    ) -> Result<(TensorMap, Vec<u32>), ArgumentError> {
        let slot = self.signature.slots.iter().find_map(|slot| match slot {
            Slot::Im2col(slot) if slot.name == name => Some(slot),
            _ => None,
        });
        let Some(slot) = slot else {
            return Err(ArgumentError::new(format!(
                "the kernel {} has no activations called {name}",
                self.kernel.name
            )));
        };
        let refuse = |why: String| ArgumentError::of_tensor(name, why);
        let counts: Vec<i64> = taps.iter().map(|taps| taps.count).collect();
        if counts != slot.taps {
            return Err(refuse(format!(
                "a filter of {counts:?} taps, and the kernel is built for {:?}",
                slot.taps
            )));
        }
        let plan = Im2colPlan::new(Im2colTile {
            activations: (activations.into_layout()).map_err(|e| refuse(e.to_string()))?,
            taps,
            shared: &slot.shared,
            element: slot.element,
            multicast: slot.multicast,
        });
        let plan = plan.map_err(|e| refuse(e.to_string()))?;
        slot.check(plan.map())?;
        let numbers = plan.positions().iter().zip(taps).flat_map(|(n, taps)| {
            [*n, taps.stride, taps.padding[0], taps.dilation].map(|n| n as u32)
        });
        Ok((plan.map().clone(), numbers.collect()))
    }
}
