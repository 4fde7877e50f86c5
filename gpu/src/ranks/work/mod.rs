//! The work of one rank of a product: its device, its operands, the memory of the other ranks, and what it enqueues.
//!
//! What lies between the steps of two ranks is not here: the calls of one process order them by events, and a rank of a process of
//! its own by flags.

pub(crate) mod gather;
pub(crate) mod scatter;

use colex_device::{Buffer, Device, Element};
use colex_layout::Layout;

use crate::error::Error;

/// A rank's device.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) rank: usize,
    /// With the stream in which kernels run.
    pub(crate) device: Device,
    /// With the stream of copies.
    pub(crate) copies: Device,
    /// With a stream that waits for what other ranks say.
    pub(crate) news: Device,
}

impl Member {
    pub(crate) fn new(rank: usize, device: &Device) -> Result<Member, Error> {
        Ok(Member {
            rank,
            device: device.clone(),
            copies: device.on_new_stream()?,
            news: device.on_new_stream()?,
        })
    }

    /// A buffer of zeros.
    pub(crate) fn buffer<T: Element>(&self, elements: i64) -> Result<Buffer<T>, Error> {
        Ok(self.device.zeros(elements as usize)?)
    }
}

/// A layout `(a,b,..):(x,y,..)` of positive extents.
pub(crate) fn strided<const N: usize>(modes: [(i64, i64); N]) -> Result<Layout, Error> {
    let leaves = modes.map(|(extent, stride)| Layout::leaf(extent, stride));
    let leaves = leaves.into_iter().collect::<Result<Vec<_>, _>>();
    let layout = leaves.and_then(|leaves| Layout::concat(&leaves));
    Ok(layout.map_err(colex_tensor::Error::from)?)
}
