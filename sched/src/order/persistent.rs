//! The persistent tile scheduler of Hopper: a fixed set of workers walks one linear order of tiles.

use crate::number::error::{Error, ErrorKind, at_least, ceil_div, product, round_up};
use crate::number::expr::Arith;
use crate::number::formula;
use crate::order::swizzle::log_by_threshold;
use crate::problem::coord::{Dim3, GemmCoord, Tile};
use std::fmt;

/// The axis along which consecutive strips of tiles run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RasterOrder {
    /// m is the major axis: strips step along m.
    AlongM,
    /// n is the major axis: strips step along n.
    AlongN,
}

impl RasterOrder {
    /// Returns the name of the major axis: `m` or `n`.
    pub fn axis(self) -> &'static str {
        match self {
            RasterOrder::AlongM => "m",
            RasterOrder::AlongN => "n",
        }
    }

    /// What belongs to m and to n as what belongs to the major and to the minor axis, or back.
    pub(crate) fn axes<T>(self, [m, n]: [T; 2]) -> [T; 2] {
        match self {
            RasterOrder::AlongM => [m, n],
            RasterOrder::AlongN => [n, m],
        }
    }
}

/// How to pick the raster order. Source: `tile_scheduler_detail.hpp`, `RasterOrderOptions`.
#[doc(alias = "RasterOrderOptions")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RasterChoice {
    /// Along the shorter axis (along n on a tie).
    Heuristic,
    /// Along m.
    AlongM,
    /// Along n.
    AlongN,
}

impl From<RasterOrder> for RasterChoice {
    fn from(order: RasterOrder) -> Self {
        match order {
            RasterOrder::AlongM => RasterChoice::AlongM,
            RasterOrder::AlongN => RasterChoice::AlongN,
        }
    }
}

impl RasterChoice {
    fn order(self, blocks_m: i64, blocks_n: i64) -> RasterOrder {
        match self {
            RasterChoice::AlongM => RasterOrder::AlongM,
            RasterChoice::AlongN => RasterOrder::AlongN,
            RasterChoice::Heuristic if blocks_n > blocks_m => RasterOrder::AlongM,
            RasterChoice::Heuristic => RasterOrder::AlongN,
        }
    }
}

/// Tiles in linear order for workers that take place `w`, `w + workers`, `w + 2 * workers`, ...
///
/// The order runs in strips `2^log_swizzle` clusters wide along the minor axis. The grid of blocks is padded to
/// whole clusters and whole strips, so some places have no tile; [`Persistent::tile`] is `None` there.
/// Source: `sm90_tile_scheduler.hpp`, `tile_scheduler_params.h` (`PersistentTileSchedulerSm90`).
///
/// ```
/// use colex_sched::{GemmCoord, Persistent, RasterChoice};
/// let s = Persistent::new(GemmCoord::new(4, 4, 1), [1, 1], 2, RasterChoice::AlongN)?;
/// let first: Vec<String> = (0..5).filter_map(|i| s.tile(i)).map(|t| t.to_string()).collect();
/// assert_eq!(first, ["(0,0,0)", "(1,0,0)", "(0,1,0)", "(1,1,0)", "(0,2,0)"]);
/// assert_eq!(s.to_string(), "persistent along n, swizzle 2, cluster 1x1 over (4,4,1)");
/// # Ok::<(), colex_sched::Error>(())
/// ```
#[doc(alias = "PersistentTileSchedulerSm90")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Persistent {
    tiles: GemmCoord,
    blocks: [i64; 2],
    cluster: [i64; 2],
    log_swizzle: u32,
    order: RasterOrder,
}

impl Persistent {
    /// Returns a schedule of `tiles` (m, n and batches) for clusters of `cluster` blocks along m and n.
    ///
    /// The swizzle is the widest of 8, 4, 2, 1 that is at most `max_swizzle` and for which the shorter side has at
    /// least 6, 3, 2, 1 blocks. A problem that clusters do not divide is padded; [`Persistent::new_exact`] refuses it.
    ///
    /// # Errors
    ///
    /// Returns an error for an extent, cluster extent or swizzle below 1, or if a count does not fit in 64 bits.
    pub fn new(
        tiles: GemmCoord,
        cluster: [i64; 2],
        max_swizzle: i64,
        choice: RasterChoice,
    ) -> Result<Self, Error> {
        check_tiles(tiles, cluster)?;
        at_least("the largest swizzle", max_swizzle, 1)?;
        let whole = [
            round_up(tiles.m, cluster[0])?,
            round_up(tiles.n, cluster[1])?,
        ];
        let log_swizzle = log_by_threshold(max_swizzle, whole[0].min(whole[1]));
        Self::padded(tiles, cluster, log_swizzle, choice)
    }

    /// Returns the same as [`Persistent::new`], but refuses a problem that needs padding.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Persistent::new`], and an error for clusters or strips that do not divide the grid.
    pub fn new_exact(
        tiles: GemmCoord,
        cluster: [i64; 2],
        max_swizzle: i64,
        choice: RasterChoice,
    ) -> Result<Self, Error> {
        let schedule = Self::new(tiles, cluster, max_swizzle, choice)?;
        if tiles.m % cluster[0] != 0 || tiles.n % cluster[1] != 0 {
            return Err(ErrorKind::Cluster {
                cluster,
                grid: [tiles.m, tiles.n],
            }
            .into());
        }
        match (0..2).find(|&i| schedule.blocks[i] != [tiles.m, tiles.n][i]) {
            None => Ok(schedule),
            Some(i) => Err(ErrorKind::NotALayout {
                schedule: schedule.to_string(),
                extent: [tiles.m, tiles.n][i],
                divisor: cluster[i] << schedule.log_swizzle,
            }
            .into()),
        }
    }

    pub(crate) fn padded(
        tiles: GemmCoord,
        cluster: [i64; 2],
        log_swizzle: u32,
        choice: RasterChoice,
    ) -> Result<Self, Error> {
        let strip = |i: usize| product("a strip of clusters", &[cluster[i], 1 << log_swizzle]);
        let blocks = [round_up(tiles.m, strip(0)?)?, round_up(tiles.n, strip(1)?)?];
        product("the number of blocks", &[blocks[0], blocks[1], tiles.k])?;
        let order = choice.order(blocks[0], blocks[1]);
        Ok(Persistent {
            tiles,
            blocks,
            cluster,
            log_swizzle,
            order,
        })
    }

    /// Returns the tiles of the problem: along m, along n, and batches.
    pub fn tiles(&self) -> GemmCoord {
        self.tiles
    }

    /// Returns the blocks along m and n after padding to whole clusters and strips.
    pub fn blocks(&self) -> [i64; 2] {
        self.blocks
    }

    /// Returns the cluster, in blocks along m and n.
    pub fn cluster(&self) -> [i64; 2] {
        self.cluster
    }

    /// Returns the base-2 logarithm of a strip's width in clusters.
    #[doc(alias = "log_swizzle_size")]
    pub fn log_swizzle(&self) -> u32 {
        self.log_swizzle
    }

    /// Returns the axis the strips run along.
    pub fn order(&self) -> RasterOrder {
        self.order
    }

    /// Returns the places of the linear order, padding included.
    #[doc(alias = "blocks_per_problem")]
    pub fn slots(&self) -> i64 {
        self.blocks[0] * self.blocks[1] * self.tiles.k
    }

    /// Returns whether every place has a tile.
    pub fn is_exact(&self) -> bool {
        self.blocks == [self.tiles.m, self.tiles.n]
    }

    /// `[cluster minor, cluster major, blocks major]`: the extents of the formula in the raster's own axes.
    fn axes(&self) -> [i64; 3] {
        let [major_of, minor_of] = self.order.axes(self.cluster);
        let [blocks_major, _] = self.order.axes(self.blocks);
        [minor_of, major_of, blocks_major / major_of]
    }

    /// Returns `[m, n, l]` of place `slot`, which may lie outside the problem, over any [`Arith`].
    pub fn formula<T: Arith>(&self, slot: T) -> [T; 3] {
        let [minor_of, major_of, blocks_major] = self.axes().map(T::from);
        let per_batch = T::from(self.blocks[0] * self.blocks[1]);
        let (l, rest) = (slot.clone() / per_batch.clone(), slot % per_batch);
        let (minor_offset, block) = (rest.clone() % minor_of.clone(), rest / minor_of.clone());
        let (major_offset, id) = (block.clone() % major_of.clone(), block / major_of.clone());
        let [major, minor] =
            formula::sm90_cluster(id, blocks_major, T::from(1 << self.log_swizzle));
        let [m, n] = self.order.axes([
            major * major_of + major_offset,
            minor * minor_of + minor_offset,
        ]);
        [m, n, l]
    }

    /// Returns the tile CUTLASS computes at place `slot`, padding included; `None` beyond the last place.
    pub fn tile_padded(&self, slot: i64) -> Option<Tile> {
        (0..self.slots()).contains(&slot).then(|| {
            let [m, n, l] = self.formula(slot);
            Tile::new(m, n, l)
        })
    }

    /// Returns the tile of place `slot`, or `None` where the place is padding or beyond the end.
    pub fn tile(&self, slot: i64) -> Option<Tile> {
        self.tile_padded(slot)
            .filter(|t| t.m < self.tiles.m && t.n < self.tiles.n)
    }

    /// Returns whether the block at `slot` must run for its cluster's sake: some block of the cluster has a tile.
    ///
    /// A block without a tile whose cluster has one still loads its share of the multicast operands.
    pub fn takes_part(&self, slot: i64) -> bool {
        self.tile_padded(slot).is_some_and(|t| {
            let [cm, cn] = self.cluster;
            t.m / cm * cm < self.tiles.m && t.n / cn * cn < self.tiles.n
        })
    }

    /// Returns the place of a tile (padding included): the inverse of [`Persistent::tile_padded`].
    ///
    /// # Errors
    ///
    /// Returns an error for a tile beyond the padded grid.
    #[doc(alias = "get_linear_idx_from_m_and_n")]
    pub fn slot_of(&self, tile: Tile) -> Result<i64, Error> {
        let extent = [self.blocks[0], self.blocks[1], self.tiles.k];
        if !GemmCoord::new(extent[0], extent[1], extent[2])
            .contains(GemmCoord::new(tile.m, tile.n, tile.l))
        {
            return Err(Error::outside("tile", [tile.m, tile.n, tile.l], extent));
        }
        let [minor_of, major_of, blocks_major] = self.axes();
        let [major, minor] = self.order.axes([tile.m, tile.n]);
        let id = formula::sm90_cluster_id(
            major / major_of,
            minor / minor_of,
            blocks_major,
            1 << self.log_swizzle,
        );
        let inside = (id * major_of + major % major_of) * minor_of + minor % minor_of;
        Ok(tile.l * self.blocks[0] * self.blocks[1] + inside)
    }

    /// Returns the grid to launch on a device of `sms` multiprocessors, at most one block each.
    ///
    /// With `max_active_clusters` (as the driver reports it) that many clusters; without, CUTLASS's estimate from 18
    /// multiprocessors in each GPC. One cluster wide along the minor axis, and never more blocks than places.
    /// Where CUTLASS's estimate is not a whole number of clusters, and would not launch, it is rounded down.
    ///
    /// # Errors
    ///
    /// Returns an error if there are no multiprocessors, if no cluster fits, or for a grid that no device launches.
    #[doc(alias = "get_grid_shape")]
    pub fn grid_shape(&self, sms: i64, max_active_clusters: Option<i64>) -> Result<Dim3, Error> {
        let blocks = self
            .resident_blocks(sms, max_active_clusters)?
            .min(self.slots());
        self.grid_of(blocks / self.cluster_size() * self.cluster_size())?
            .ok_or_else(|| {
                ErrorKind::ClusterTooLarge {
                    cluster: self.cluster,
                    sms,
                }
                .into()
            })
    }

    /// Returns the grid CUTLASS computes, which is not a whole number of clusters on fewer than 18 multiprocessors.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Persistent::grid_shape`].
    pub fn grid_shape_unchecked(
        &self,
        sms: i64,
        max_active_clusters: Option<i64>,
    ) -> Result<Dim3, Error> {
        let blocks = self
            .resident_blocks(sms, max_active_clusters)?
            .min(self.slots());
        self.grid_of(blocks)?.ok_or_else(|| {
            ErrorKind::ClusterTooLarge {
                cluster: self.cluster,
                sms,
            }
            .into()
        })
    }

    /// Returns the number of blocks that can be resident at once; it does not depend on the problem.
    pub(crate) fn resident_blocks(&self, sms: i64, clusters: Option<i64>) -> Result<i64, Error> {
        at_least("the number of multiprocessors", sms, 1)?;
        let size = self.cluster_size();
        Ok(match clusters {
            Some(active)
                if active > 0
                    && active.checked_mul(size).is_some_and(|blocks| blocks <= sms)
                    && size > 1 =>
            {
                active * size
            }
            _ if size == 1 => sms,
            _ => max_resident_blocks(size, sms),
        })
    }

    /// A grid of about `blocks` blocks, one cluster wide along the minor axis; `None` for an empty one.
    pub(crate) fn grid_of(&self, blocks: i64) -> Result<Option<Dim3>, Error> {
        let [cm, cn] = self.cluster;
        let grid = match self.order {
            RasterOrder::AlongN => Dim3::new(cm, blocks / cm, 1),
            RasterOrder::AlongM => Dim3::new(blocks / cn, cn, 1),
        };
        if grid.count()? == 0 {
            Ok(None)
        } else {
            grid.launchable().map(Some)
        }
    }

    pub(crate) fn cluster_size(&self) -> i64 {
        self.cluster[0] * self.cluster[1]
    }

    /// Returns the first place of `block` of `grid`; its next ones follow at steps of the whole grid.
    ///
    /// # Errors
    ///
    /// Returns an error for a block that is not in the grid, or if a count does not fit in 64 bits.
    pub fn first_slot(&self, grid: Dim3, block: Dim3) -> Result<i64, Error> {
        grid.count()?;
        if !grid.contains(block) {
            return Err(Error::outside(
                "block",
                [block.x, block.y, block.z],
                [grid.x, grid.y, grid.z],
            ));
        }
        Ok(match self.order {
            RasterOrder::AlongN => block.x + block.y * grid.x,
            RasterOrder::AlongM => block.x * grid.y + block.y,
        })
    }
}

/// Blocks that fit at once when each GPC of 18 multiprocessors holds whole clusters only.
///
/// Source: `tile_scheduler_params.h`, `get_max_cta_occupancy`.
fn max_resident_blocks(cluster: i64, sms: i64) -> i64 {
    const SMS_PER_GPC: i64 = 18;
    let whole = |sms: i64| sms - sms % cluster;
    if sms < SMS_PER_GPC {
        return whole(SMS_PER_GPC).min(sms);
    }
    (sms / SMS_PER_GPC * whole(SMS_PER_GPC) + whole(sms % SMS_PER_GPC)).min(sms)
}

pub(crate) fn check_tiles(tiles: GemmCoord, cluster: [i64; 2]) -> Result<(), Error> {
    tiles.positive([
        "extent m in tiles",
        "extent n in tiles",
        "the number of batches",
    ])?;
    at_least("extent m of the cluster", cluster[0], 1)?;
    at_least("extent n of the cluster", cluster[1], 1)?;
    product("the blocks of a cluster", &cluster).map(drop)
}

/// Returns the clusters along m and n of a grid of blocks, for kernels that launch one block per tile.
///
/// # Errors
///
/// Returns an error if the cluster does not divide the grid, or for an extent below 1.
///
/// ```
/// use colex_sched::{GemmCoord, clusters_exact};
/// assert_eq!(clusters_exact(GemmCoord::new(4, 6, 1), [2, 3])?, [2, 2]);
/// let refused = clusters_exact(GemmCoord::new(3, 4, 1), [2, 1]).unwrap_err();
/// assert_eq!(refused.to_string(), "a cluster of 2x1 blocks does not divide a grid of 3x4: 4x4 would");
/// # Ok::<(), colex_sched::Error>(())
/// ```
pub fn clusters_exact(tiles: GemmCoord, cluster: [i64; 2]) -> Result<[i64; 2], Error> {
    check_tiles(tiles, cluster)?;
    if tiles.m % cluster[0] != 0 || tiles.n % cluster[1] != 0 {
        return Err(ErrorKind::Cluster {
            cluster,
            grid: [tiles.m, tiles.n],
        }
        .into());
    }
    Ok([ceil_div(tiles.m, cluster[0]), ceil_div(tiles.n, cluster[1])])
}

impl fmt::Display for Persistent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [cm, cn] = self.cluster;
        write!(
            f,
            "persistent along {}, swizzle {}, cluster {cm}x{cn} over {}",
            self.order.axis(),
            1 << self.log_swizzle,
            self.tiles
        )
    }
}
