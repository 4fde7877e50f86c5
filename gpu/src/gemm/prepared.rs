//! The products that a device has prepared.

use std::sync::Arc;

use colex_device::{Extension, Memo};
use colex_tensor::TensorKernel;

use super::batch::{Apart, Batch, BatchForm};
use super::choose::Unmapped;
use super::epilogue::arguments::EpilogueArguments;
use super::epilogue::terms::KernelEpilogue;
use super::plan::{GemmPlan, Operands};
use super::problem::EpilogueWork;
use crate::calls::PreparedCalls;
use crate::method::GemmMethod;

/// The cache of prepared products of a device.
#[derive(Debug)]
pub(crate) struct PreparedGemms(
    pub(crate) PreparedCalls<GemmShape, GemmKernel, BuiltProduct>,
    /// Whether products of rows that no tensor map describes pack them.
    pub(crate) Memo<Unmapped, bool>,
);

/// The plan of a product, and its kernels.
#[derive(Debug)]
pub(crate) struct BuiltProduct {
    pub(crate) plan: GemmPlan,
    pub(crate) product: Arc<TensorKernel>,
    /// The one that adds the parts of K, if tiles are divided.
    pub(crate) sum: Option<Arc<TensorKernel>>,
}

/// A plan, its batch, the epilogue if it is not a scaled sum, and what the kernel does.
pub(crate) type GemmKernel = (GemmPlan, BatchForm, Option<KernelEpilogue>, Role);

/// What a kernel of a plan does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    /// It multiplies.
    Product,
    /// It adds the parts of K.
    Sum,
}

/// The answers that are kept about packing.
const ANSWERS: usize = 1024;

impl Default for PreparedGemms {
    fn default() -> PreparedGemms {
        PreparedGemms(PreparedCalls::new(), Memo::new(ANSWERS))
    }
}

impl Extension for PreparedGemms {
    fn clear(&self) {
        self.0.clear();
        self.1.clear();
    }
}

/// How a product's plan is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wish {
    /// It is given.
    Plan(GemmPlan),
    /// The usual plan of a method.
    Method(GemmMethod),
    /// The one that the model says is the fastest.
    Fastest,
    /// The fastest of those that need no memory for parts of K.
    Whole,
    /// The fastest of those that sum each row as they do for any other number of rows.
    BatchInvariant,
}

/// How a product's plan is found, what is known of the matrices, and the numbers; the factors as bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GemmShape {
    pub(crate) wish: Wish,
    pub(crate) operands: Operands,
    pub(crate) sizes: [i64; 3],
    pub(crate) leading: [i64; 3],
    /// The products of a batch, and the strides of the matrices along its modes.
    pub(crate) batch: Batch,
    pub(crate) steps: [Apart; 3],
    pub(crate) factors: [u64; 2],
    /// What the epilogue reads and writes, if it is not a scaled sum.
    pub(crate) epilogue: Option<Arc<EpilogueArguments>>,
    /// What the choice of a plan reads besides: whether the product is alone, and what the epilogue does for each element.
    pub(crate) alone: bool,
    pub(crate) work: Option<EpilogueWork>,
}
