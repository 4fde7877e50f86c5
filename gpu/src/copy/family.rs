//! A family of copy kernels: when it fits, what it builds, what it launches.

use colex_atom::Arch;
use colex_device::Device;
use colex_tensor::TensorKernel;

use super::launches::KernelKey;
use super::loop_nest::Loop;
use super::plan::{CopyMethod, CopyPlan};
use super::{bulk, flat, strided, tile, tma};
use crate::calls::PreparedLaunch;
use crate::error::Error;

/// One family of kernels. Its file holds all that the library knows of it.
pub(crate) trait CopyFamily {
    /// Returns why its kernel does not do such a copy.
    fn refusal(&self, plan: &CopyPlan, addresses: [u64; 2], arch: Arch) -> Option<String>;

    /// Returns the tile of a block, along the source's fastest mode and the destination's, if blocks have tiles.
    fn tile(&self, plan: &CopyPlan) -> Option<[i64; 2]>;

    /// Builds the kernel of a key for these loops.
    ///
    /// # Errors
    ///
    /// What the algebra refuses.
    fn build(&self, key: &KernelKey, loops: &[Loop]) -> Result<TensorKernel, colex_tensor::Error>;

    /// Returns what a plan launches on a device, its kernels loaded.
    ///
    /// # Errors
    ///
    /// Those of `build`, and what the device says of a kernel.
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
