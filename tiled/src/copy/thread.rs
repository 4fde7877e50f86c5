//! `ThrCopy`: one thread of a tiled copy.

use colex_layout::{IntoLayout, Layout};

use crate::Error;
use crate::copy::{Side, TiledCopy};
use crate::tensor::partition::{Partition, of_thread};

/// One thread of a [`TiledCopy`].
///
/// # Example
///
/// ```
/// use colex_tiled::TiledCopy;
/// let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint128_t>")?, 32, "(8,4):(1,8)", "(4,1):(1,4)")?;
/// let thread = copy.slice(3)?;
/// let read = thread.partition_src(((64, 8), (1, 64)))?; // (CPY, CPY_M, CPY_N)
/// assert_eq!((read.start.to_string(), format!("{:#}", read.layout)), ("12".into(), "((4,1),2,2):((1,0),32,256)".into()));
/// assert_eq!(thread.partition_dst(((64, 8), (1, 64)))?.layout.size(), 16);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ThrCopy<'a> {
    pub(crate) copy: &'a TiledCopy,
    pub(crate) thread: i64,
}

impl ThrCopy<'_> {
    /// Returns the thread.
    #[must_use]
    pub const fn thread(&self) -> i64 {
        self.thread
    }

    /// Returns what this thread reads of a tensor: `(CPY, CPY_M, CPY_N, ..)`.
    ///
    /// A tile that does not divide the tensor, or is larger, is rounded up to as in CuTe: the partition then names
    /// offsets outside of the tensor. [`Tensor::partition`](crate::Tensor::partition) refuses those outside of the
    /// data, [`TiledCopy::report`] counts them, and a partition of the identity tensor says which they are.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledCopy::partitions`].
    #[doc(alias = "partition_S")]
    pub fn partition_src(&self, tensor: impl IntoLayout) -> Result<Partition, Error> {
        let tensor = &tensor.into_layout()?;
        self.partition(tensor, Side::Source)
    }

    /// Returns what this thread writes of a tensor: `(CPY, CPY_M, CPY_N, ..)`; where the tile does not divide it as
    /// [`ThrCopy::partition_src`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledCopy::partitions`].
    #[doc(alias = "partition_D")]
    pub fn partition_dst(&self, tensor: impl IntoLayout) -> Result<Partition, Error> {
        let tensor = &tensor.into_layout()?;
        self.partition(tensor, Side::Destination)
    }

    /// Returns a fragment of another tiling in the modes of this thread's partitions: the same for all threads, as
    /// [`TiledCopy::retile`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledCopy::retile`].
    #[doc(alias = "retile_S")]
    #[doc(alias = "retile_D")]
    pub fn retile(&self, fragment: impl IntoLayout) -> Result<Layout, Error> {
        let fragment = &fragment.into_layout()?;
        self.copy.retile(fragment)
    }

    fn partition(&self, tensor: &Layout, side: Side) -> Result<Partition, Error> {
        let all = self.copy.partitions(tensor, side)?;
        of_thread(tensor, &all, self.thread)
    }
}
