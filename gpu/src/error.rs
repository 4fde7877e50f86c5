//! What can go wrong between a kernel and its result.

use core::fmt;

use colex_atom::TmaError;

use crate::argument::ParameterType;
use crate::kernels::KernelError;
use crate::sim::MemoryFault;
use crate::verify::Refused;

/// Why something could not be done on a device.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// A part of a buffer that is not there.
    Slice {
        /// The first element asked for.
        start: usize,
        /// One past the last.
        end: usize,
        /// The elements of the buffer.
        length: usize,
    },
    /// As many elements were needed, and others were given.
    Length {
        /// What was to be filled.
        what: &'static str,
        /// Its elements.
        expected: usize,
        /// Those given.
        found: usize,
    },
    /// Two buffers of different devices, or a buffer with another device.
    OtherDevice {
        /// The device asked.
        device: String,
        /// The one that holds the buffer.
        holder: String,
    },
    /// A kernel that cannot be right.
    Refused(Refused),
    /// A launch that the device or the kernel does not take.
    Launch(LaunchError),
    /// A tensor that has no tensor map.
    Tma(TmaError),
    /// Operands that a library kernel does not take.
    Kernel(KernelError),
    /// The simulator's memory was not used as it should be.
    Memory(MemoryFault),
    /// Something that this device does not do.
    Unsupported {
        /// What was asked.
        what: &'static str,
        /// The device.
        device: String,
        /// Why not, or what to do instead.
        why: &'static str,
    },
}

impl From<LaunchError> for Error {
    fn from(error: LaunchError) -> Error {
        Error::Launch(error)
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        Error::Refused(refused)
    }
}

impl From<TmaError> for Error {
    fn from(error: TmaError) -> Error {
        Error::Tma(error)
    }
}

impl From<KernelError> for Error {
    fn from(error: KernelError) -> Error {
        Error::Kernel(error)
    }
}

impl From<MemoryFault> for Error {
    fn from(fault: MemoryFault) -> Error {
        Error::Memory(fault)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Slice { start, end, length } => write!(
                f,
                "elements {start}..{end} of a buffer of {length}: the range must begin before it ends, and end by {length}"
            ),
            Error::Length {
                what,
                expected,
                found,
            } => write!(f, "{what} has {expected} elements, and {found} were given"),
            Error::OtherDevice { device, holder } => write!(
                f,
                "the buffer is on {holder}, not on {device}: download it there and upload it here"
            ),
            Error::Refused(refused) => refused.fmt(f),
            Error::Launch(error) => error.fmt(f),
            Error::Tma(error) => error.fmt(f),
            Error::Kernel(error) => error.fmt(f),
            Error::Memory(fault) => fault.fmt(f),
            Error::Unsupported { what, device, why } => {
                write!(f, "{device} does not {what}: {why}")
            }
        }
    }
}

impl std::error::Error for Error {}

/// Why a launch is refused before the device sees it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchError {
    /// An extent of 0.
    Empty {
        /// `grid`, `block` or `cluster`.
        what: &'static str,
        /// Its extents.
        extents: [u32; 3],
    },
    /// Too long along one axis.
    Extent {
        /// `grid` or `block`.
        what: &'static str,
        /// `x`, `y` or `z`.
        axis: char,
        /// The extent there.
        extent: u32,
        /// The largest the device takes.
        most: u32,
    },
    /// Too many threads in a block.
    Threads {
        /// The extents of the block.
        block: [u32; 3],
        /// Their product.
        threads: u64,
        /// The most for this kernel on this device.
        most: u32,
    },
    /// Too many blocks in a cluster.
    Cluster {
        /// The extents of the cluster.
        cluster: [u32; 3],
        /// The most on this device; 1 if it has no clusters.
        most: u32,
    },
    /// Clusters that do not fill the grid.
    ClusterDivides {
        /// `x`, `y` or `z`.
        axis: char,
        /// The cluster's extent there.
        cluster: u32,
        /// The grid's.
        grid: u32,
    },
    /// Too much shared memory, in bytes.
    Shared {
        /// What the kernel declares.
        fixed: u32,
        /// What the launch adds.
        dynamic: u32,
        /// The most a block gets.
        most: u32,
    },
    /// Too many or too few arguments.
    ArgumentCount {
        /// The parameters.
        expected: usize,
        /// The arguments.
        found: usize,
    },
    /// An argument of another type than its parameter.
    ArgumentType {
        /// Which, from 0.
        index: usize,
        /// The parameter's type.
        expected: ParameterType,
        /// What was given.
        found: &'static str,
    },
}

/// `(2,1,1)`.
fn tuple([x, y, z]: [u32; 3]) -> String {
    format!("({x},{y},{z})")
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            LaunchError::Empty { what, extents } => write!(
                f,
                "the {what} {} is empty: every extent is at least 1",
                tuple(extents)
            ),
            LaunchError::Extent {
                what,
                axis,
                extent,
                most,
            } => write!(
                f,
                "the {what} has {extent} along {axis}, and the device takes at most {most}"
            ),
            LaunchError::Threads {
                block,
                threads,
                most,
            } => write!(
                f,
                "the block {} has {threads} threads, and this kernel on this device takes at most {most}",
                tuple(block)
            ),
            LaunchError::Cluster { cluster, most } => {
                let blocks: u64 = cluster.iter().map(|&extent| u64::from(extent)).product();
                write!(f, "the cluster {} has {blocks} blocks, ", tuple(cluster))?;
                match most {
                    1 => f.write_str("but the device has no clusters: those came with sm_90"),
                    _ => write!(f, "and the device takes at most {most}"),
                }
            }
            LaunchError::ClusterDivides {
                axis,
                cluster,
                grid,
            } => write!(
                f,
                "the cluster has {cluster} blocks along {axis}, which does not divide the {grid} of the grid"
            ),
            LaunchError::Shared {
                fixed,
                dynamic,
                most,
            } => write!(
                f,
                "a block would have {fixed} bytes of static and {dynamic} of dynamic shared memory, and the device gives it at most {most}"
            ),
            LaunchError::ArgumentCount { expected, found } => write!(
                f,
                "the kernel has {}, and {} given",
                counted(expected, "parameter"),
                match found {
                    1 => "1 argument was".to_string(),
                    _ => format!("{found} arguments were"),
                }
            ),
            LaunchError::ArgumentType {
                index,
                expected,
                found,
            } => write!(
                f,
                "argument {index} is {found}, and the parameter is {expected}"
            ),
        }
    }
}

impl std::error::Error for LaunchError {}

/// `1 parameter`, `2 parameters`.
fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}
