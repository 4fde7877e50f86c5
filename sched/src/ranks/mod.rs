//! Tensors over several devices, each called by its rank: how a tensor is distributed, which collective leads from one
//! distribution to another, and which distributions a product takes and gives.

pub(crate) mod collective;
pub(crate) mod layout;
pub(crate) mod overlap;
pub(crate) mod product;
pub(crate) mod route;

use core::fmt;

use crate::number::error::{Error, ErrorKind, at_least, of_a_device, product as multiplied};
use crate::ranks::layout::RankLayout;
use colex_layout::Layout;

/// How a tensor lies over ranks: what the rank is in its layout.
///
/// ```
/// use colex_sched::Placement;
///
/// let layout = |placement: Placement| Ok::<_, colex_sched::Error>(placement.layout(&[8, 6], 4)?.layout().to_string());
/// // The last mode is the rank: it moves along the sharded mode, or nowhere.
/// assert_eq!(layout(Placement::Shard(0))?, "(2,6,4):(1,8,2)");
/// assert_eq!(layout(Placement::Replicate)?, "(8,6,4):(1,8,0)");
/// assert_eq!(layout(Placement::Partial)?, "(8,6,4):(1,8,0)");
/// assert_eq!(
///     layout(Placement::Shard(1)).unwrap_err().to_string(),
///     "mode 1 of extent 6 over 4 ranks: the extent must be a multiple, and 8 is the next one"
/// );
/// # Ok::<(), colex_sched::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Placement {
    /// Each rank holds a part of equal size along one mode, in the order of the ranks.
    Shard(usize),
    /// Each rank holds the whole tensor. The stride of the rank is 0.
    Replicate,
    /// Each rank holds a tensor of the whole shape, and the sum over the ranks is meant. The stride of the rank is 0.
    Partial,
}

impl Placement {
    /// Returns all placements of a tensor of `modes` modes.
    pub fn all(modes: usize) -> impl Iterator<Item = Placement> {
        let shards = (0..modes).map(Placement::Shard);
        shards.chain([Placement::Replicate, Placement::Partial])
    }

    /// Returns the layout of a tensor of this shape over some ranks: from the coordinates in a rank's part and the rank, the
    /// last mode, to the index of the element in the whole tensor (the first mode fastest).
    ///
    /// # Errors
    ///
    /// Returns an error for a tensor without modes, an extent below 1, a size that does not fit in 64 bits, fewer than 1 or more
    /// than 65536 ranks, a mode that the tensor does not have, or one whose extent is not a multiple of the ranks.
    pub fn layout(self, shape: &[i64], ranks: i64) -> Result<RankLayout, Error> {
        self.check(shape, ranks)?;
        let (mut leaves, mut stride) = (Vec::with_capacity(shape.len() + 1), 1);
        let mut rank_stride = 0;
        for (mode, extent) in shape.iter().enumerate() {
            let local = match self {
                Placement::Shard(sharded) if sharded == mode => {
                    rank_stride = extent / ranks * stride;
                    extent / ranks
                }
                Placement::Shard(_) | Placement::Replicate | Placement::Partial => *extent,
            };
            leaves.push(leaf(local, stride)?);
            stride *= extent;
        }
        leaves.push(leaf(ranks, rank_stride)?);
        let layout = Layout::concat(&leaves).map_err(Error::invalid)?;
        RankLayout::new(shape, &layout, self == Placement::Partial)
    }

    /// Refuses a tensor or a number of ranks that it does not fit.
    pub(crate) fn check(self, shape: &[i64], ranks: i64) -> Result<(), Error> {
        check_shape(shape)?;
        of_a_device("the number of ranks", ranks)?;
        multiplied(
            "the number of elements on all ranks",
            &[elements(shape)?, ranks],
        )?;
        let Placement::Shard(mode) = self else {
            return Ok(());
        };
        let modes = shape.len();
        let extent = *shape.get(mode).ok_or(ErrorKind::NoMode { mode, modes })?;
        if extent % ranks != 0 {
            return Err(ErrorKind::Uneven {
                mode,
                extent,
                ranks,
            }
            .into());
        }
        Ok(())
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::Shard(mode) => write!(f, "sharded along mode {mode}"),
            Placement::Replicate => f.write_str("replicated"),
            Placement::Partial => f.write_str("a partial sum"),
        }
    }
}

fn leaf(extent: i64, stride: i64) -> Result<Layout, Error> {
    Layout::leaf(extent, stride).map_err(Error::invalid)
}

/// The number of elements of a shape.
pub(crate) fn elements(shape: &[i64]) -> Result<i64, Error> {
    multiplied("the number of elements", shape)
}

pub(crate) fn check_shape(shape: &[i64]) -> Result<(), Error> {
    at_least("the number of modes", shape.len() as i64, 1)?;
    for extent in shape {
        at_least("an extent of the tensor", *extent, 1)?;
    }
    elements(shape).map(|_| ())
}

/// The coordinates of an element, the first mode fastest.
pub(crate) fn coordinates(shape: &[i64], index: i64) -> String {
    let mut rest = index;
    let digits = shape.iter().map(|extent| {
        let digit = rest % extent;
        rest /= extent;
        digit.to_string()
    });
    format!("({})", digits.collect::<Vec<_>>().join(","))
}
