//! Many GEMMs in one launch: one linear order over the tiles of all groups.

use crate::number::error::{Error, ErrorKind, at_least, ceil_div, product, round_up};
use crate::order::persistent::{Persistent, RasterOrder, check_tiles};
use crate::order::swizzle::log_by_threshold;
use crate::problem::coord::{Dim3, GemmCoord, Tile};

/// A tile of one of the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupTile {
    /// The problem, counted from 0.
    pub group: i64,
    /// The row of tiles within the problem.
    pub m: i64,
    /// The column of tiles within the problem.
    pub n: i64,
}

/// A persistent schedule over several problems, one after the other, each with its own strips.
///
/// Source: `sm90_tile_scheduler_group.hpp`. CUTLASS counts the places on the host without the padding to whole strips
/// that the device applies, so with a swizzle wider than 1 the last groups lose tiles
/// ([`Grouped::slots_counted_by_cutlass`]); here the count is the sum of what is walked.
///
/// ```
/// use colex_sched::{Grouped, RasterOrder};
/// let two = Grouped::new(&[[384, 384], [384, 384]], [128, 128], [1, 1], 2, RasterOrder::AlongM)?;
/// assert_eq!((two.slots(), two.slots_counted_by_cutlass()), (32, 18));
/// # Ok::<(), colex_sched::Error>(())
/// ```
#[doc(alias = "PersistentTileSchedulerSm90Group")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grouped {
    groups: Vec<Option<Persistent>>,
    /// `starts[g]` is the first place of group `g`; the last entry is the number of places.
    starts: Vec<i64>,
    cutlass: i64,
}

impl Grouped {
    /// Returns a schedule of problems of `[m, n]` elements. An empty problem (an extent of 0) is allowed and has no
    /// tiles.
    ///
    /// # Errors
    ///
    /// Returns an error if there are no groups, a negative extent, or a tile, cluster or swizzle below 1, or if a count
    /// does not fit in 64 bits.
    pub fn new(
        problems: &[[i64; 2]],
        tile: [i64; 2],
        cluster: [i64; 2],
        max_swizzle: i64,
        order: RasterOrder,
    ) -> Result<Grouped, Error> {
        at_least("the number of groups", problems.len() as i64, 1)?;
        at_least("extent m of the tile", tile[0], 1)?;
        at_least("extent n of the tile", tile[1], 1)?;
        at_least("the largest swizzle", max_swizzle, 1)?;
        check_tiles(GemmCoord::new(1, 1, 1), cluster)?;
        let (mut groups, mut starts, mut cutlass) = (Vec::new(), vec![0i64], 0i64);
        for [m, n] in problems {
            at_least("extent m of a group", *m, 0)?;
            at_least("extent n of a group", *n, 0)?;
            let tiles = [ceil_div(*m, tile[0]), ceil_div(*n, tile[1])];
            let group = schedule(tiles, cluster, max_swizzle, order)?;
            let overflow = ErrorKind::Overflow {
                what: "the number of blocks",
            };
            let slots = group.as_ref().map_or(0, Persistent::slots);
            let start = starts[starts.len() - 1]
                .checked_add(slots)
                .ok_or(overflow.clone())?;
            cutlass = cutlass
                .checked_add(cutlass_count(tiles, cluster)?)
                .ok_or(overflow)?;
            starts.push(start);
            groups.push(group);
        }
        Ok(Grouped {
            groups,
            starts,
            cutlass,
        })
    }

    /// Returns the places of the linear order over all groups, padding included.
    pub fn slots(&self) -> i64 {
        self.starts[self.starts.len() - 1]
    }

    /// Returns the places CUTLASS's host code counts: too few as soon as a strip is padded, and tiles beyond are never
    /// computed.
    pub fn slots_counted_by_cutlass(&self) -> i64 {
        self.cutlass
    }

    /// Returns the tile of a place, or `None` where there is none.
    pub fn tile(&self, slot: i64) -> Option<GroupTile> {
        let group = self.group_of(slot)?;
        let Tile { m, n, .. } = self.groups[group]
            .as_ref()?
            .tile(slot - self.starts[group])?;
        Some(GroupTile {
            group: group as i64,
            m,
            n,
        })
    }

    /// The group a place belongs to.
    fn group_of(&self, slot: i64) -> Option<usize> {
        if slot < 0 || slot >= self.slots() {
            return None;
        }
        Some(self.starts.partition_point(|&start| start <= slot) - 1)
    }

    /// Returns the first place of each group, then the number of places: what a kernel searches.
    pub fn starts(&self) -> &[i64] {
        &self.starts
    }

    /// Returns the schedule inside group `group`; `None` for an empty or unknown one.
    pub fn group(&self, group: i64) -> Option<&Persistent> {
        self.groups.get(usize::try_from(group).ok()?)?.as_ref()
    }

    /// Returns the place of a tile: the inverse of [`Grouped::tile`].
    ///
    /// # Errors
    ///
    /// Returns an error if no group has the tile.
    pub fn slot_of(&self, tile: GroupTile) -> Result<i64, Error> {
        let coord = [tile.m, tile.n, tile.group];
        let Some(group) = self.group(tile.group) else {
            return Err(Error::outside(
                "tile",
                coord,
                [0, 0, self.groups.len() as i64],
            ));
        };
        let tiles = group.tiles();
        if tile.m >= tiles.m || tile.n >= tiles.n {
            let extent = [tiles.m, tiles.n, self.groups.len() as i64];
            return Err(Error::outside("tile", coord, extent));
        }
        Ok(self.starts[tile.group as usize] + group.slot_of(Tile::new(tile.m, tile.n, 0))?)
    }

    /// Returns the grid to launch: as many blocks as fit on the device, at most one a place.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Persistent::grid_shape`], and an error if every group is empty.
    pub fn grid_shape(&self, sms: i64, max_active_clusters: Option<i64>) -> Result<Dim3, Error> {
        let Some(widest) = self
            .groups
            .iter()
            .flatten()
            .max_by_key(|group| group.slots())
        else {
            let sentence = "every group is empty: there is nothing to launch".to_string();
            return Err(Error::invalid(sentence));
        };
        let size = widest.cluster_size();
        let blocks = widest
            .resident_blocks(sms, max_active_clusters)?
            .min(self.slots());
        let cluster = widest.cluster();
        widest
            .grid_of(blocks / size * size)?
            .ok_or_else(|| ErrorKind::ClusterTooLarge { cluster, sms }.into())
    }
}

/// One group's schedule. The strip's width follows the tiles before they are rounded to clusters, as on CUTLASS's
/// device side.
fn schedule(
    [m, n]: [i64; 2],
    cluster: [i64; 2],
    max_swizzle: i64,
    order: RasterOrder,
) -> Result<Option<Persistent>, Error> {
    if m == 0 || n == 0 {
        return Ok(None);
    }
    Persistent::padded(
        GemmCoord::new(m, n, 1),
        cluster,
        log_by_threshold(max_swizzle, m.min(n)),
        order.into(),
    )
    .map(Some)
}

fn cutlass_count([m, n]: [i64; 2], [cm, cn]: [i64; 2]) -> Result<i64, Error> {
    product(
        "the number of blocks",
        &[round_up(m.max(1), cm)?, round_up(n.max(1), cn)?],
    )
}
