//! The copies that a device has prepared.

use colex_device::Extension;
use colex_layout::Layout;

use super::launches::KernelKey;
use super::plan::{CopyMethod, CopyPlan};
use crate::calls::PreparedCalls;

/// The cache of prepared copies of a device.
#[derive(Debug)]
pub(crate) struct PreparedCopies(pub(crate) PreparedCalls<CopyShape, KernelKey, CopyPlan>);

impl Default for PreparedCopies {
    fn default() -> PreparedCopies {
        PreparedCopies(PreparedCalls::new())
    }
}

impl Extension for PreparedCopies {
    fn clear(&self) {
        self.0.clear();
    }
}

/// A copy's layouts, the bytes of an element, and the kernel if one was named.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CopyShape {
    pub(crate) layouts: [Layout; 2],
    pub(crate) bytes: i64,
    pub(crate) how: CopyHow,
}

/// Which kernel a copy asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CopyHow {
    Fastest,
    Method(CopyMethod),
    Squares([i64; 2]),
}
