//! The products that a device has prepared.

use std::sync::Arc;

use colex_device::Extension;
use colex_tensor::TensorKernel;

use super::plan::{GemmPlan, Operands};
use crate::calls::PreparedCalls;

/// The cache of prepared products of a device.
#[derive(Debug)]
pub(crate) struct PreparedGemms(
    pub(crate) PreparedCalls<GemmShape, GemmPlan, (GemmPlan, Arc<TensorKernel>), 3>,
);

impl Default for PreparedGemms {
    fn default() -> PreparedGemms {
        PreparedGemms(PreparedCalls::new())
    }
}

impl Extension for PreparedGemms {
    fn clear(&self) {
        self.0.clear();
    }
}

/// A product's plan as it was asked for, what is known of the matrices, and the numbers; the factors as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GemmShape {
    pub(crate) plan: GemmPlan,
    pub(crate) operands: Operands,
    pub(crate) sizes: [i64; 3],
    pub(crate) leading: [i64; 3],
    pub(crate) factors: [u64; 2],
}
