//! The launches of all families: kernels built once for each key, grids and arguments.

use std::sync::{Arc, LazyLock};

use colex_atom::Arch;
use colex_layout::Layout;

use super::loop_nest::Loop;
use super::plan::{CopyMethod, CopyPlan};
use super::prepared::PreparedCopies;
use super::tma::Squares;
use crate::calls::{KernelOf, PreparedLaunch};
use crate::error::Error;
use colex_device::{Device, Memo};
use colex_ir::launch::Launch;
use colex_tensor::{Arg, TensorKernel};

/// Returns the extents of a launch.
pub(crate) fn shape(built: &TensorKernel, grid: [i64; 3], threads: i64) -> Launch {
    // The launch check refuses a grid that is too large.
    let grid = grid.map(|blocks| u32::try_from(blocks).unwrap_or(u32::MAX));
    Launch::new(grid, threads as u32).dynamic_shared(built.dynamic_shared())
}

/// The two tensors of a launch.
pub(crate) struct Tensors {
    pub(crate) at: [u64; 2],
    pub(crate) layouts: [Layout; 2],
}

/// The launch of a kernel for two tensors, which are parts of those that begin at `addresses`.
pub(crate) fn launch(
    kernel: &KernelOf,
    grid: [i64; 3],
    threads: i64,
    addresses: [u64; 2],
    given: &Tensors,
) -> Result<PreparedLaunch, Error> {
    let tensors = [0, 1].map(|i| Arg::checked(given.at[i], &given.layouts[i]));
    let arguments = kernel.built.arguments(&tensors)?;
    let launch = shape(&kernel.built, grid, threads);
    let loaded = kernel.loaded.clone();
    Ok(PreparedLaunch::new(
        loaded,
        launch,
        arguments,
        &addresses,
        [0, 1],
    ))
}

/// The key of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KernelKey {
    pub(crate) arch: Arch,
    pub(crate) method: CopyMethod,
    pub(crate) rank: usize,
    pub(crate) bytes: i64,
    pub(crate) vector: i64,
    pub(crate) squares: Squares,
}

impl KernelKey {
    pub(crate) fn of(plan: &CopyPlan, loops: &[Loop], arch: Arch) -> KernelKey {
        KernelKey {
            arch,
            method: plan.method(),
            rank: loops.len(),
            bytes: plan.bytes(),
            vector: plan.vector(),
            squares: plan.squares(),
        }
    }
}

/// The kernels built so far, by key. Building a kernel needs no device, so each kernel is built once per process.
static BUILT: LazyLock<Memo<KernelKey, TensorKernel>> = LazyLock::new(|| Memo::new(256));

impl CopyPlan {
    /// Builds the kernel of the plan for an architecture.
    ///
    /// # Errors
    ///
    /// Returns an error if the architecture lacks an instruction of the plan.
    pub fn kernel(&self, arch: Arch) -> Result<Arc<TensorKernel>, Error> {
        let loops = self.ordered();
        of_key(&KernelKey::of(self, &loops, arch), &loops)
    }
}

fn of_key(key: &KernelKey, loops: &[Loop]) -> Result<Arc<TensorKernel>, Error> {
    BUILT.get_or_make(key, || Ok(key.method.family().build(key, loops)?))
}

/// Returns the kernel of a key on a device.
pub(crate) fn prepare(
    device: &Device,
    key: &KernelKey,
    loops: &[Loop],
) -> Result<Arc<KernelOf>, Error> {
    let copies = device.extension::<PreparedCopies>();
    copies
        .0
        .kernels
        .get_or_make(key, || load(device, of_key(key, loops)?))
}

/// Loads a kernel on a device.
pub(crate) fn load(device: &Device, built: Arc<TensorKernel>) -> Result<KernelOf, Error> {
    let loaded = device.load_kernel(&built.kernel)?;
    Ok(KernelOf { built, loaded })
}
