//! The errors of launches that are refused before they reach the device.

use core::fmt;
use std::panic::Location;

use crate::Escaped;
use crate::launch::ParameterType;

colex_layout::opaque_error! {
    /// Why a launch is refused before the device sees it.
    ///
    /// Its sentence is its `Display` and `Debug` output.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_ir::launch::{Launch, Limits};
    ///
    /// let error = Launch::new(1, 1025).check(&Limits::of(Arch::Sm80), 0).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "the block has 1025 along x, and the device takes at most 1024"
    /// );
    /// ```
    #[derive(Clone, PartialEq, Eq)]
    pub struct Error(ErrorKind);
}

impl Error {
    /// Returns whether an argument is the reason: the number of arguments, a type, or the alignment of an address.
    pub fn is_argument(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::ArgumentCount { .. }
                | ErrorKind::ArgumentType { .. }
                | ErrorKind::ArgumentAlignment { .. }
        )
    }

    /// Returns the access that lies outside of its tensor, if that is the reason.
    pub fn outside(&self) -> Option<&Outside> {
        if let ErrorKind::Outside(outside) = self.kind() {
            Some(outside)
        } else {
            None
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ErrorKind {
    #[error("the {what} {} is empty: every extent is at least 1", tuple(extents))]
    Empty {
        what: &'static str,
        extents: [u32; 3],
    },
    #[error("the {what} has {extent} along {axis}, and the device takes at most {most}")]
    Extent {
        what: &'static str,
        axis: char,
        extent: u32,
        most: u32,
    },
    #[error(
        "the block {} has {threads} threads, and this kernel on this device takes at most {most}",
        tuple(block)
    )]
    Threads {
        block: [u32; 3],
        threads: u64,
        most: u32,
    },
    #[error("the cluster {} has {blocks} blocks, {}", tuple(cluster), most_blocks(*most))]
    Cluster {
        cluster: [u32; 3],
        blocks: u64,
        most: u32,
    },
    #[error(
        "the cluster has {cluster} blocks along {axis}, which does not divide the {grid} of the grid"
    )]
    ClusterDivides { axis: char, cluster: u32, grid: u32 },
    #[error(
        "a block would have {fixed} bytes of static and {dynamic} of dynamic shared memory, and the device gives it at \
         most {most}"
    )]
    Shared { fixed: u32, dynamic: u32, most: u32 },
    #[error(
        "a cooperative launch has {blocks} blocks, and the device holds at most {most} of them at once, {each} on each of its \
         {multiprocessors} multiprocessors"
    )]
    Cooperative {
        blocks: u64,
        most: u64,
        each: u64,
        multiprocessors: u32,
    },
    #[error(
        "a cooperative launch has the clusters {}: launch single blocks, of which it is known how many fit on the device",
        tuple(cluster)
    )]
    CooperativeClusters { cluster: [u32; 3] },
    #[error(
        "the kernel is built for a {what} of {}, and the launch has {}",
        tuple(expected),
        tuple(found)
    )]
    Required {
        what: &'static str,
        expected: [u32; 3],
        found: [u32; 3],
    },
    #[error(
        "the block {} has threads along y or z, and the kernel tells its threads apart by `%tid.x` alone: launch them \
         along x, or read `%tid.y` and `%tid.z` in the kernel too",
        tuple(block)
    )]
    Flat { block: [u32; 3] },
    #[error("the kernel has {}, and {} given", parameters(*expected), arguments(*found))]
    ArgumentCount { expected: usize, found: usize },
    #[error("argument {index} is {found}, and the parameter is {expected}")]
    ArgumentType {
        index: usize,
        expected: ParameterType,
        found: &'static str,
    },
    #[error(
        "argument {index} is the address {address:#x}, and the kernel is built for multiples of {align} bytes"
    )]
    ArgumentAlignment {
        index: usize,
        address: u64,
        align: u64,
    },
    #[error("{0}")]
    Outside(Outside),
    #[error(
        "an integer is {value} in block {}, and the kernel declares here that it is {declared} ({}:{}): what follows from the \
         declaration would be wrong",
        tuple(block), at.file(), at.line()
    )]
    Declared {
        value: i64,
        declared: String,
        block: [u32; 3],
        at: &'static Location<'static>,
    },
}

/// An access of a launch outside of a tensor: [`Error::outside`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// The tensor's name.
    pub tensor: String,
    /// The mode along which the access lies outside.
    pub mode: usize,
    /// The coordinate that it reaches.
    pub coordinate: i64,
    /// The extent of the mode.
    pub extent: i64,
    /// The block's place in the grid.
    pub block: [u32; 3],
    /// The axis of the grid that moves the coordinate, if there is one, and the most blocks along it that stay inside.
    pub most: Option<(char, u32)>,
    /// The call of the builder that made the access.
    pub at: &'static Location<'static>,
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "block {} reaches coordinate {} along mode {} of tensor {}, whose extent is {} ({}:{}): ",
            tuple(&self.block),
            self.coordinate,
            self.mode,
            Escaped(&self.tensor),
            self.extent,
            self.at.file(),
            self.at.line()
        )?;
        match self.most {
            Some((axis, 1)) => write!(f, "launch at most 1 block along {axis}, or ")?,
            Some((axis, most)) => write!(f, "launch at most {most} blocks along {axis}, or ")?,
            None => {}
        }
        f.write_str("leave out what lies beyond with `copy_in_bounds`")
    }
}

/// `(2,1,1)`.
fn tuple([x, y, z]: &[u32; 3]) -> String {
    format!("({x},{y},{z})")
}

/// The blocks of a cluster that a device takes.
fn most_blocks(most: u32) -> String {
    match most {
        1 => "but the device has no clusters: those came with sm_90".into(),
        _ => format!("and the device takes at most {most}"),
    }
}

/// `1 parameter`, `2 parameters`.
fn parameters(count: usize) -> String {
    match count {
        1 => "1 parameter".into(),
        _ => format!("{count} parameters"),
    }
}

/// `1 argument was`, `2 arguments were`.
fn arguments(count: usize) -> String {
    match count {
        1 => "1 argument was".into(),
        _ => format!("{count} arguments were"),
    }
}
