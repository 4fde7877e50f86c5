//! A family of copy kernels: the copies it takes, the kernels it builds and their launches.

use colex_atom::Arch;
use colex_device::Device;
use colex_tensor::TensorKernel;

use super::launches::KernelKey;
use super::loop_nest::Loop;
use super::plan::{CopyMethod, CopyPlan};
use super::{bulk, flat, strided, tile, tma};
use crate::calls::PreparedLaunch;
use crate::error::Error;

/// A family of kernels. Everything that depends on the family is in the file that implements it.
pub(crate) trait CopyFamily {
    /// Returns the reason why its kernel does not take a copy, if there is one.
    fn refusal(&self, plan: &CopyPlan, addresses: [u64; 2], arch: Arch) -> Option<String>;

    /// Returns the tile of a block along the contiguous modes of the source and of the destination, if blocks have
    /// tiles.
    fn tile(&self, plan: &CopyPlan) -> Option<[i64; 2]>;

    /// Builds the kernel of a key for these loops.
    ///
    /// # Errors
    ///
    /// Returns the error of the layout algebra if a layout has no such partition.
    fn build(&self, key: &KernelKey, loops: &[Loop]) -> Result<TensorKernel, colex_tensor::Error>;

    /// Returns the launches of a plan, with the kernels loaded on a device.
    ///
    /// # Errors
    ///
    /// Returns the errors of `build`, and the device's error if it does not load a kernel.
    fn launches(
        &self,
        plan: &CopyPlan,
        device: &Device,
        addresses: [u64; 2],
    ) -> Result<Vec<PreparedLaunch>, Error>;
}

impl CopyMethod {
    /// Returns the family that the method is of.
    pub(crate) fn family(self) -> &'static dyn CopyFamily {
        match self {
            CopyMethod::Flat => &flat::Flat,
            CopyMethod::Bulk => &bulk::Bulk,
            CopyMethod::Strided => &strided::Strided,
            CopyMethod::Naive | CopyMethod::Padded | CopyMethod::Swizzled => &tile::Tile,
            CopyMethod::Tma => &tma::Tma,
        }
    }
}
