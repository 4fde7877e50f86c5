//! What is wrong with a launch before the device sees it.

use core::fmt;

use crate::launch::ParameterType;

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
    /// Another shape than the one the kernel was built for.
    Required {
        /// `block` or `cluster`.
        what: &'static str,
        /// The shape it was built for.
        expected: [u32; 3],
        /// The launch's.
        found: [u32; 3],
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
    /// An address that is no multiple of what the kernel declares.
    ArgumentAlignment {
        /// Which argument, from 0.
        index: usize,
        /// The address.
        address: u64,
        /// What it must be a multiple of, in bytes.
        align: u64,
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
            LaunchError::Required {
                what,
                expected,
                found,
            } => write!(
                f,
                "the kernel is built for a {what} of {}, and the launch has {}",
                tuple(expected),
                tuple(found)
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
            LaunchError::ArgumentAlignment {
                index,
                address,
                align,
            } => write!(
                f,
                "argument {index} is the address {address:#x}, and the kernel is built for multiples of {align} bytes"
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
