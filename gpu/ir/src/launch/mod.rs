//! Launches, and the limits of devices.

use colex_atom::Arch;

mod argument;
mod claims;
mod error;
mod memory;
mod signature;

pub use argument::{Argument, ParameterType, TensorMapArgument};
pub use claims::{FREE_LOOPS, LaunchClaims};
use error::ErrorKind;
pub use error::{Error, Outside};
pub use memory::{ArgumentError, DeviceMemory};
pub use signature::EntrySignature;

/// The shape of a launch: the extents of grid, block and cluster along x, y and z.
///
/// ```
/// use colex_ir::launch::Launch;
///
/// let launch = Launch::new([64, 2, 1], 128).cluster([2, 1, 1]).dynamic_shared(96 << 10);
/// assert_eq!((launch.blocks(), launch.threads()), (128, 128));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Launch {
    /// The blocks of the grid.
    pub grid: [u32; 3],
    /// The threads of a block.
    pub block: [u32; 3],
    /// The blocks of a cluster; `[1, 1, 1]` for none.
    pub cluster: [u32; 3],
    /// The dynamic shared memory of a block, in bytes.
    pub dynamic_shared: u32,
    /// Whether all blocks run at once, so that they may wait for each other.
    pub cooperative: bool,
}

/// The extents of a grid, a block or a cluster along x, y and z: a number, or an array or tuple of up to three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extents([u32; 3]);

impl Extents {
    /// Returns the extents along x, y and z.
    pub fn xyz(self) -> [u32; 3] {
        self.0
    }
}

impl From<u32> for Extents {
    fn from(x: u32) -> Extents {
        Extents([x, 1, 1])
    }
}

impl From<[u32; 2]> for Extents {
    fn from([x, y]: [u32; 2]) -> Extents {
        Extents([x, y, 1])
    }
}

impl From<[u32; 3]> for Extents {
    fn from(xyz: [u32; 3]) -> Extents {
        Extents(xyz)
    }
}

impl From<(u32,)> for Extents {
    fn from((x,): (u32,)) -> Extents {
        Extents([x, 1, 1])
    }
}

impl From<(u32, u32)> for Extents {
    fn from((x, y): (u32, u32)) -> Extents {
        Extents([x, y, 1])
    }
}

impl From<(u32, u32, u32)> for Extents {
    fn from((x, y, z): (u32, u32, u32)) -> Extents {
        Extents([x, y, z])
    }
}

impl Launch {
    /// Returns a launch of a grid of blocks, without clusters or dynamic shared memory.
    pub fn new(grid: impl Into<Extents>, block: impl Into<Extents>) -> Launch {
        Launch {
            grid: grid.into().0,
            block: block.into().0,
            cluster: [1; 3],
            dynamic_shared: 0,
            cooperative: false,
        }
    }

    /// Returns the same launch in clusters of `blocks` blocks.
    pub fn cluster(self, cluster: impl Into<Extents>) -> Launch {
        Launch {
            cluster: cluster.into().0,
            ..self
        }
    }

    /// Returns the same launch with `bytes` bytes of dynamic shared memory per block.
    pub fn dynamic_shared(self, bytes: u32) -> Launch {
        Launch {
            dynamic_shared: bytes,
            ..self
        }
    }

    /// Returns the same launch with all blocks at once: a block may wait for any other one, for example for a word of global memory
    /// that the other one writes. The device refuses a grid that has more blocks than the multiprocessors hold; without this promise it
    /// begins some blocks only after others have ended, and a block that waits for one of those waits forever.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_ir::launch::{Launch, Limits};
    ///
    /// let limits = Limits::of(Arch::Sm90a);
    /// let launch = |blocks: u32| Launch::new(blocks, 1024).dynamic_shared(128 << 10).cooperative();
    /// launch(132).check(&limits, 0)?; // one block on each multiprocessor
    /// let refused = launch(133).check(&limits, 0).unwrap_err();
    /// assert_eq!(
    ///     refused.to_string(),
    ///     "a cooperative launch has 133 blocks, and the device holds at most 132 of them at once, 1 on each of its 132 multiprocessors"
    /// );
    /// # Ok::<(), colex_ir::launch::Error>(())
    /// ```
    pub fn cooperative(self) -> Launch {
        Launch {
            cooperative: true,
            ..self
        }
    }

    /// Returns the blocks of the grid.
    pub fn blocks(&self) -> u64 {
        self.grid.iter().map(|&extent| u64::from(extent)).product()
    }

    /// Returns the threads of a block.
    pub fn threads(&self) -> u64 {
        self.block.iter().map(|&extent| u64::from(extent)).product()
    }

    /// Returns the blocks of a cluster.
    pub fn cluster_blocks(&self) -> u64 {
        self.cluster
            .iter()
            .map(|&extent| u64::from(extent))
            .product()
    }

    /// Checks the launch of a kernel with `static_shared` bytes of static shared memory against the limits of a device.
    ///
    /// # Errors
    ///
    /// Returns the first error found, in the order extents, block, grid, cluster, shared memory, blocks of a cooperative launch.
    pub fn check(&self, limits: &Limits, static_shared: u32) -> Result<(), Error> {
        self.check_extents()?;
        self.check_block(limits)?;
        over("grid", self.grid, limits.grid)?;
        self.check_cluster(limits)?;
        let total = u64::from(static_shared) + u64::from(self.dynamic_shared);
        if total > u64::from(limits.shared) {
            return Err(ErrorKind::Shared {
                fixed: static_shared,
                dynamic: self.dynamic_shared,
                most: limits.shared,
            }
            .into());
        }
        self.check_cooperative(limits, total)
    }

    /// Checks the block and the cluster against those that the kernel requires, if it requires any.
    ///
    /// # Errors
    ///
    /// Returns an error for the first one that differs.
    pub fn check_required(
        &self,
        block: Option<[u32; 3]>,
        cluster: Option<[u32; 3]>,
    ) -> Result<(), Error> {
        let shapes = [
            ("block", block, self.block),
            ("cluster", cluster, self.cluster),
        ];
        for (what, required, found) in shapes {
            if let Some(expected) = required.filter(|&expected| expected != found) {
                return Err(ErrorKind::Required {
                    what,
                    expected,
                    found,
                }
                .into());
            }
        }
        Ok(())
    }

    fn check_extents(&self) -> Result<(), Error> {
        for (what, extents) in [
            ("grid", self.grid),
            ("block", self.block),
            ("cluster", self.cluster),
        ] {
            if extents.contains(&0) {
                return Err(ErrorKind::Empty { what, extents }.into());
            }
        }
        Ok(())
    }

    fn check_block(&self, limits: &Limits) -> Result<(), Error> {
        over("block", self.block, limits.block)?;
        if self.threads() > u64::from(limits.threads) {
            return Err(ErrorKind::Threads {
                block: self.block,
                threads: self.threads(),
                most: limits.threads,
            }
            .into());
        }
        Ok(())
    }

    fn check_cluster(&self, limits: &Limits) -> Result<(), Error> {
        if self.cluster == [1; 3] {
            return Ok(());
        }
        if self.cluster_blocks() > u64::from(limits.cluster) {
            return Err(ErrorKind::Cluster {
                cluster: self.cluster,
                blocks: self.cluster_blocks(),
                most: limits.cluster,
            }
            .into());
        }
        let divides = |axis: usize| self.grid[axis].is_multiple_of(self.cluster[axis]);
        match (0..3).find(|&axis| !divides(axis)) {
            Some(axis) => Err(ErrorKind::ClusterDivides {
                axis: AXES[axis],
                cluster: self.cluster[axis],
                grid: self.grid[axis],
            }
            .into()),
            None => Ok(()),
        }
    }

    /// Checks that the device holds all blocks of a cooperative launch at once, each with this much shared memory.
    fn check_cooperative(&self, limits: &Limits, shared: u64) -> Result<(), Error> {
        if !self.cooperative {
            return Ok(());
        }
        if self.cluster != [1; 3] {
            return Err(ErrorKind::CooperativeClusters {
                cluster: self.cluster,
            }
            .into());
        }
        let each = limits.blocks_of_multiprocessor(self.threads(), shared);
        let most = each.saturating_mul(limits.multiprocessors.into());
        if self.blocks() > most {
            return Err(ErrorKind::Cooperative {
                blocks: self.blocks(),
                most,
                each,
                multiprocessors: limits.multiprocessors,
            }
            .into());
        }
        Ok(())
    }
}

/// The names of the three axes.
const AXES: [char; 3] = ['x', 'y', 'z'];

/// No extent exceeds its limit.
fn over(what: &'static str, extents: [u32; 3], most: [u32; 3]) -> Result<(), Error> {
    match (0..3).find(|&axis| extents[axis] > most[axis]) {
        Some(axis) => Err(ErrorKind::Extent {
            what,
            axis: AXES[axis],
            extent: extents[axis],
            most: most[axis],
        }
        .into()),
        None => Ok(()),
    }
}

/// Checks the number and the types of the arguments against the parameters.
///
/// # Errors
///
/// Returns an error if the numbers differ, or for the first argument whose type its parameter does not take.
pub fn check_arguments(parameters: &[ParameterType], arguments: &[Argument]) -> Result<(), Error> {
    if parameters.len() != arguments.len() {
        return Err(ErrorKind::ArgumentCount {
            expected: parameters.len(),
            found: arguments.len(),
        }
        .into());
    }
    let pairs = parameters.iter().zip(arguments);
    match pairs
        .enumerate()
        .find(|(_, (ty, argument))| !argument.fits(**ty))
    {
        Some((index, (&expected, argument))) => Err(ErrorKind::ArgumentType {
            index,
            expected,
            found: argument.what(),
        }
        .into()),
        None => Ok(()),
    }
}

/// Checks that the addresses among the arguments have the alignments that the parameters declare. The assembler may
/// rely on them.
///
/// # Errors
///
/// Returns an error for the first address that is not aligned.
pub fn check_alignments(alignments: &[u64], arguments: &[Argument]) -> Result<(), Error> {
    let pairs = alignments.iter().zip(arguments);
    for (index, (&align, argument)) in pairs.enumerate() {
        if let Argument::Pointer(address) | Argument::U64(address) = *argument
            && !address.is_multiple_of(align)
        {
            return Err(ErrorKind::ArgumentAlignment {
                index,
                address,
                align,
            }
            .into());
        }
    }
    Ok(())
}

/// The limits of a launch on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The threads of a block.
    pub threads: u32,
    /// The extents of a block.
    pub block: [u32; 3],
    /// The extents of a grid, in blocks.
    pub grid: [u32; 3],
    /// The blocks of a cluster; 1 where there are no clusters.
    pub cluster: u32,
    /// The shared memory of a block, static and dynamic, in bytes.
    pub shared: u32,
    /// The multiprocessors.
    pub multiprocessors: u32,
    /// The threads that a multiprocessor holds.
    pub resident_threads: u32,
    /// The shared memory of a multiprocessor in bytes, of which each block takes [`RESERVED`](Limits::RESERVED) besides its own.
    pub resident_shared: u32,
}

impl Limits {
    /// The bytes of shared memory that the system takes of each block.
    pub const RESERVED: u32 = 1024;

    /// Returns the blocks that a multiprocessor holds at once, by their threads and their bytes of shared memory, at least 1. Their
    /// registers may allow fewer.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_ir::launch::Limits;
    ///
    /// let limits = Limits::of(Arch::Sm90a);
    /// assert_eq!(limits.blocks_of_multiprocessor(256, 0), 8);
    /// assert_eq!(limits.blocks_of_multiprocessor(256, 100 << 10), 2);
    /// assert_eq!(limits.blocks_of_multiprocessor(1024, 227 << 10), 1);
    /// ```
    pub fn blocks_of_multiprocessor(&self, threads: u64, shared: u64) -> u64 {
        let threads = threads.max(1).next_multiple_of(32);
        let by_threads = u64::from(self.resident_threads) / threads;
        let shared = shared.saturating_add(u64::from(Limits::RESERVED));
        let by_shared = u64::from(self.resident_shared) / shared;
        by_threads.min(by_shared).clamp(1, 32)
    }

    /// Returns the limits of an architecture (CUDA C++ Programming Guide, "Compute capabilities"), with the
    /// multiprocessors of its largest data-centre part.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_ir::launch::Limits;
    ///
    /// assert_eq!(Limits::of(Arch::Sm90a).shared, 227 << 10);
    /// assert_eq!(Limits::of(Arch::Sm80).cluster, 1);
    /// ```
    pub fn of(arch: Arch) -> Limits {
        let (shared_kib, multiprocessors) = match arch {
            Arch::Sm50 | Arch::Sm61 => (48, 28),
            Arch::Sm70 => (96, 80),
            Arch::Sm75 => (64, 72),
            Arch::Sm80 => (163, 108),
            Arch::Sm86 | Arch::Sm89 | Arch::Sm120 | Arch::Sm120a => (99, 142),
            Arch::Sm90 | Arch::Sm90a | Arch::Sm100 | Arch::Sm100a => (227, 132),
            _ => (227, 132),
        };
        let (resident_threads, resident_kib) = match arch {
            Arch::Sm50 => (2048, 64),
            Arch::Sm61 | Arch::Sm70 => (2048, 96),
            Arch::Sm75 => (1024, 64),
            Arch::Sm80 => (2048, 164),
            Arch::Sm86 | Arch::Sm89 | Arch::Sm120 | Arch::Sm120a => (1536, 100),
            Arch::Sm90 | Arch::Sm90a | Arch::Sm100 | Arch::Sm100a => (2048, 228),
            _ => (2048, 228),
        };
        Limits {
            threads: 1024,
            block: [1024, 1024, 64],
            grid: [i32::MAX as u32, 65535, 65535],
            cluster: if arch >= Arch::Sm90 { 8 } else { 1 },
            shared: shared_kib << 10,
            multiprocessors,
            resident_threads,
            resident_shared: resident_kib << 10,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(launch: Launch, static_shared: u32) -> String {
        let limits = Limits::of(Arch::Sm90a);
        launch
            .check(&limits, static_shared)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn what_the_hardware_takes_passes() {
        let limits = Limits::of(Arch::Sm90a);
        let most = Launch::new([i32::MAX as u32 - 7, 65535, 65535], [16, 64]);
        let most = most.cluster(8).dynamic_shared(227 << 10);
        assert_eq!(most.check(&limits, 0), Ok(()));
    }

    #[test]
    fn every_refusal_verbatim() {
        assert_eq!(
            refused(Launch::new([0, 2], 32), 0),
            "the grid (0,2,1) is empty: every extent is at least 1"
        );
        assert_eq!(
            refused(Launch::new(1, [1, 1, 65]), 0),
            "the block has 65 along z, and the device takes at most 64"
        );
        assert_eq!(
            refused(Launch::new(1, [32, 33]), 0),
            "the block (32,33,1) has 1056 threads, and this kernel on this device takes at most 1024"
        );
        assert_eq!(
            refused(Launch::new([1, 65536], 32), 0),
            "the grid has 65536 along y, and the device takes at most 65535"
        );
        assert_eq!(
            refused(Launch::new(18, 32).cluster([3, 3]), 0),
            "the cluster (3,3,1) has 9 blocks, and the device takes at most 8"
        );
        assert_eq!(
            refused(Launch::new([4, 9], 32).cluster([2, 2]), 0),
            "the cluster has 2 blocks along y, which does not divide the 9 of the grid"
        );
        assert_eq!(
            refused(Launch::new(1, 32).dynamic_shared(232_448), 16),
            "a block would have 16 bytes of static and 232448 of dynamic shared memory, and the device gives it at most 232448"
        );
    }

    /// Drawn cooperative launches: one passes just if its blocks fit by threads and by shared memory.
    #[test]
    fn law_a_cooperative_launch_is_held_at_once() {
        let mut cases = 0;
        for arch in [Arch::Sm75, Arch::Sm80, Arch::Sm86, Arch::Sm90a] {
            let limits = Limits::of(arch);
            for threads in [1_u32, 32, 96, 512, 1000, 1024] {
                for shared in [0, 1000, 20 << 10, limits.shared / 2, limits.shared] {
                    let each = limits.blocks_of_multiprocessor(threads.into(), shared.into());
                    let taken = u64::from(threads.next_multiple_of(32)) * each;
                    assert!(taken <= limits.resident_threads.into());
                    let most = each as u32 * limits.multiprocessors;
                    for blocks in [1, most - 1, most, most + 1, 2 * most] {
                        let launch = Launch::new(blocks, threads).dynamic_shared(shared);
                        assert_eq!(launch.check(&limits, 0), Ok(()));
                        let held = launch.cooperative().check(&limits, 0);
                        assert_eq!(held.is_ok(), blocks <= most, "{launch:?} on {arch}");
                        cases += 1;
                    }
                }
            }
        }
        println!("law a_cooperative_launch_is_held_at_once: {cases} cases");
    }

    #[test]
    fn a_cooperative_launch_has_no_clusters() {
        assert_eq!(
            refused(Launch::new(4, 32).cluster(2).cooperative(), 0),
            "a cooperative launch has the clusters (2,1,1): launch single blocks, of which it is known how many fit on the device"
        );
    }

    #[test]
    fn no_clusters_before_hopper() {
        let launch = Launch::new(4, 32).cluster(2);
        let error = launch.check(&Limits::of(Arch::Sm80), 0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the cluster (2,1,1) has 2 blocks, but the device has no clusters: those came with sm_90"
        );
    }

    #[test]
    fn arguments_are_counted_and_typed() {
        let parameters = [ParameterType::U64, ParameterType::F32];
        let check = |arguments: &[Argument]| check_arguments(&parameters, arguments);
        assert_eq!(check(&[Argument::Pointer(0), 1f32.into()]), Ok(()));
        assert_eq!(
            check(&[Argument::Pointer(0)]).unwrap_err().to_string(),
            "the kernel has 2 parameters, and 1 argument was given"
        );
        assert_eq!(
            check(&[Argument::Pointer(0), 1u32.into()])
                .unwrap_err()
                .to_string(),
            "argument 1 is a 32-bit integer, and the parameter is .f32"
        );
    }
}
