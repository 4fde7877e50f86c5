//! What the threads of a tiled copy name of a tensor, and what moves it.

use colex_layout::{IntTuple, Layout};

use crate::Error;
use crate::access::map::AccessMap;
use crate::access::traffic::Engine;
use crate::copy::{Side, TiledCopy};
use crate::tensor::extents::check_walk;
use crate::tensor::partition::of_thread;

impl TiledCopy {
    /// The extents of both tensors.
    pub(crate) fn same_extents(&self, src: &Layout, dst: &Layout) -> Result<IntTuple, Error> {
        let extents = src.shape().product_each()?;
        if extents == dst.shape().product_each()? {
            return Ok(extents);
        }
        Err(Error::assumption(
            "copy",
            format!("{src} and {dst} differ in their extents"),
        ))
    }

    /// The coordinates that each thread names of a tensor of these extents.
    pub(crate) fn named(&self, extents: &IntTuple, side: Side) -> Result<AccessMap, Error> {
        let identity = Layout::identity(extents)?;
        let all = self.partitions(&identity, side)?;
        check_walk("copy", &all)?;
        let mut named = AccessMap::new(identity.rank());
        for thread in 0..self.threads() {
            named.push(thread, &of_thread(&identity, &all, thread)?)?;
        }
        Ok(named)
    }

    /// Whether TMA moves the data, and what it takes.
    pub(crate) fn engine(&self) -> Option<Engine> {
        let ptx = self.atom().op().map_or("", |op| &op.ptx);
        match (ptx.contains(".bulk"), self.atom().tensor_rank()) {
            (false, _) => None,
            (true, None) => Some(Engine::Bulk),
            (true, Some(_)) => Some(Engine::Tma),
        }
    }
}
