//! Stream-K of CUTLASS 2: blocks share the main-loop iterations of the last waves evenly, across tile borders.

use crate::number::error::{Error, at_least, ceil_div, product};
use crate::problem::coord::{Dim3, GemmCoord, Tile};
use crate::problem::tiles::{k_tiles, tiled_mn, tiled_shape};
use crate::split::heuristic::{Decision, decide};
use crate::split::segment::Segment;
use crate::split::share::Share;
use std::fmt;

/// Blocks along m and along n of one cohort: the square that neighbouring blocks fill before moving on.
const COHORT: [i64; 2] = [8, 4];

/// What a stream-K grid is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamKDevice {
    /// Blocks that fit on one multiprocessor at once.
    pub occupancy: i64,
    /// Multiprocessors of the device.
    pub sms: i64,
    /// Multiprocessors to balance over; 1 asks for plain data parallelism.
    pub available_sms: i64,
    /// Pieces of the accumulator that separate reduction blocks add up one by one.
    pub accumulator_fragments: i64,
}

impl StreamKDevice {
    /// Returns a device of `sms` multiprocessors with one block each, balanced over all of them.
    pub const fn new(sms: i64) -> Self {
        StreamKDevice {
            occupancy: 1,
            sms,
            available_sms: sms,
            accumulator_fragments: 1,
        }
    }
}

/// What one block of a stream-K grid does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamKRole {
    /// A share of the iterations of the stream-K tiles: block `index` of them.
    StreamK {
        /// Which share.
        index: i64,
    },
    /// Whole tiles: block `index` of the data-parallel ones.
    DataParallel {
        /// Which of them.
        index: i64,
    },
    /// Adds one fragment of the partial sums of a tile.
    Reduction {
        /// The linear tile.
        tile: i64,
        /// The fragment.
        fragment: i64,
    },
    /// Nothing: padding of the grid.
    Idle,
}

/// A stream-K decomposition: which block computes which k-tiles of which output tiles.
///
/// The first `sk_tiles` tiles are cut by iterations, the rest go whole to data-parallel blocks.
/// Source: `threadblock_swizzle_streamk.h`, `gemm_universal_streamk.h`.
///
/// ```
/// use colex_sched::{GemmCoord, StreamK, StreamKDevice};
/// // 5 tiles of 32 k-tiles on 4 multiprocessors: the last wave would be a quarter full.
/// let (problem, tile) = (GemmCoord::new(640, 128, 1024), GemmCoord::new(128, 128, 32));
/// let s = StreamK::new(problem, tile, 1, StreamKDevice::new(4))?;
/// assert_eq!((s.sk_tiles(), s.sk_blocks()), (5, 4));
/// let shares: Vec<i64> = (0..4).map(|b| s.work(b).iter().map(|w| w.len()).sum()).collect();
/// assert_eq!(shares, [40, 40, 40, 40]);
/// # Ok::<(), colex_sched::Error>(())
/// ```
#[doc(alias = "ThreadblockSwizzleStreamK")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamK {
    tiles: GemmCoord,
    k_tiles: i64,
    device: StreamKDevice,
    cohort_raster: bool,
    remap: bool,
    dp_blocks: i64,
    dp_first_wave_tiles: i64,
    reduction_blocks: i64,
    sk: Share,
}

impl StreamK {
    /// Returns a decomposition of one GEMM. `splits` of 1 leaves the choice to CUTLASS's heuristic; more is plain
    /// split-K.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`tiled_shape`], and an error for a device count below 1 or above 2^16, for more than 2^20
    /// resident blocks, for more than 2^40 iterations, or for a grid that no device launches.
    pub fn new(
        problem: GemmCoord,
        tile: GemmCoord,
        splits: i64,
        device: StreamKDevice,
    ) -> Result<Self, Error> {
        let tiles = GemmCoord {
            k: 1,
            ..tiled_shape(problem, tile, splits)?
        };
        let k_tiles = k_tiles(problem, tile)?;
        check_device(&device)?;
        let output = tiles.product()?;
        countable(output, k_tiles)?;
        let decision = match splits {
            1 if device.available_sms > 1 => {
                decide(output, k_tiles, device.available_sms, device.occupancy)
            }
            1 => Decision {
                dp_tiles: output,
                sk_blocks: 0,
            },
            _ => Decision {
                dp_tiles: 0,
                sk_blocks: product("the number of blocks", &[output, splits])?,
            },
        };
        Self::from_decision(tiles, k_tiles, decision, device)
    }

    /// Returns a batched GEMM, which this scheduler always runs data-parallel: the batches are the grid's z.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`StreamK::new`].
    pub fn batched(
        problem: GemmCoord,
        tile: GemmCoord,
        batches: i64,
        device: StreamKDevice,
    ) -> Result<Self, Error> {
        at_least("the number of batches", batches, 1)?;
        check_device(&device)?;
        let tiles = tiled_mn(problem, tile, batches)?;
        let k_tiles = k_tiles(problem, tile)?;
        countable(tiles.product()?, k_tiles)?;
        let decision = Decision {
            dp_tiles: tiles.m * tiles.n,
            sk_blocks: 0,
        };
        Self::from_decision(tiles, k_tiles, decision, device)
    }

    fn from_decision(
        tiles: GemmCoord,
        k_tiles: i64,
        decision: Decision,
        device: StreamKDevice,
    ) -> Result<Self, Error> {
        let output = tiles.m * tiles.n;
        let sk = Share::new(
            output - decision.dp_tiles,
            k_tiles,
            decision.sk_blocks,
            device.available_sms,
        );
        let mut s = StreamK {
            tiles,
            k_tiles,
            device,
            cohort_raster: false,
            remap: false,
            dp_blocks: 0,
            dp_first_wave_tiles: 1,
            reduction_blocks: 0,
            sk,
        };
        s.reduce_separately()?;
        s.place_data_parallel(decision.dp_tiles);
        s.grid()?.launchable()?;
        Ok(s)
    }

    /// A separate wave of reduction blocks where each tile has more than three peers and the device has room.
    ///
    /// CUTLASS decides the remapping here too, before the data-parallel blocks are counted, so it counts none of them.
    fn reduce_separately(&mut self) -> Result<(), Error> {
        let d = &self.device;
        if self.sk_blocks() == 0 {
            return Ok(());
        }
        if self.sk.waves < d.occupancy && self.sk_blocks() > 2 * self.sk.tiles {
            self.reduction_blocks = product(
                "the reduction blocks",
                &[self.sk.tiles, d.accumulator_fragments],
            )?;
        }
        self.remap = d.occupancy > 1
            && d.sms == d.available_sms
            && self.active_blocks() > d.available_sms * 2;
        Ok(())
    }

    fn place_data_parallel(&mut self, dp_tiles: i64) {
        let d = self.device;
        self.dp_blocks = dp_tiles;
        let [rows, columns] = self.cohorts();
        let padded = rows * columns * COHORT[0] * COHORT[1];
        let efficiency = dp_tiles as f32 / padded as f32;
        if self.stream_k_fits_cohorts() && dp_tiles >= d.sms * d.occupancy * 2 && efficiency > 0.85
        {
            self.cohort_raster = true;
            self.dp_blocks = padded;
        } else if self.sk.waves > 0 {
            self.fill_wave_sets(dp_tiles);
        }
    }

    /// Lets the first data-parallel wave take several tiles, so that stream-K and whole-tile waves fill the device
    /// together.
    fn fill_wave_sets(&mut self, dp_tiles: i64) {
        let d = self.device;
        let excess = (self.sk.waves + ceil_div(dp_tiles, d.available_sms)) % d.occupancy;
        if self.dp_first_wave_tiles + excess <= dp_tiles / d.available_sms {
            self.dp_first_wave_tiles += excess;
            self.dp_blocks -= excess * d.available_sms;
        }
    }

    fn stream_k_fits_cohorts(&self) -> bool {
        if self.sk.tiles == 0 {
            return true;
        }
        let columns = self.cohorts()[1];
        let last = (self.sk.tiles - 1) / (COHORT[0] * COHORT[1]);
        let (row, column) = (
            last / columns,
            if last >= columns {
                columns - 1
            } else {
                last % columns
            },
        );
        (row + 1) * COHORT[0] < self.tiles.m && (column + 1) * COHORT[1] < self.tiles.n
    }

    fn cohorts(&self) -> [i64; 2] {
        [
            ceil_div(self.tiles.m, COHORT[0]),
            ceil_div(self.tiles.n, COHORT[1]),
        ]
    }

    /// Returns the output tiles along m and n, and the batches.
    pub fn tiles(&self) -> GemmCoord {
        self.tiles
    }

    /// Returns the k-tiles of one output tile.
    pub fn k_tiles(&self) -> i64 {
        self.k_tiles
    }

    /// Returns how many tiles are split by iterations of the mainloop: the first ones of the order.
    pub fn sk_tiles(&self) -> i64 {
        self.sk.tiles
    }

    /// Returns how many blocks share the stream-K tiles.
    pub fn sk_blocks(&self) -> i64 {
        self.sk.regions * self.sk.blocks_per_region
    }

    /// Returns how many waves the stream-K blocks take, padded to whole ones.
    pub fn sk_waves(&self) -> i64 {
        self.sk.waves
    }

    /// Returns how many groups of stream-K tiles there are, such that no block works on two of them: one per tile when
    /// the blocks divide evenly, else 1.
    pub fn sk_regions(&self) -> i64 {
        self.sk.regions
    }

    /// Returns how many blocks compute whole tiles.
    pub fn dp_blocks(&self) -> i64 {
        self.dp_blocks
    }

    /// Returns how many tiles each block of the first data-parallel wave computes.
    pub fn dp_first_wave_tiles(&self) -> i64 {
        self.dp_first_wave_tiles
    }

    /// Returns how many blocks only add up partial sums.
    pub fn reduction_blocks(&self) -> i64 {
        self.reduction_blocks
    }

    /// Returns whether whole tiles are visited cohort by cohort.
    pub fn is_cohort_raster(&self) -> bool {
        self.cohort_raster
    }

    fn active_blocks(&self) -> i64 {
        self.sk.waves * self.device.available_sms + self.dp_blocks + self.reduction_blocks
    }

    /// Returns the grid to launch.
    ///
    /// # Errors
    ///
    /// Does not fail for a value that exists: the check ran when it was made.
    pub fn grid(&self) -> Result<Dim3, Error> {
        let active = self.active_blocks();
        let blocks = if self.remap {
            active.max(self.device.available_sms * 4)
        } else {
            active
        };
        Dim3::new(blocks, 1, self.tiles.k).launchable()
    }

    /// Returns what block `x` of the grid does: its place after the remapping of CUTLASS's `get_block_idx`.
    pub fn role(&self, x: i64) -> StreamKRole {
        let place = self.place(x);
        let dp = self.sk.waves * self.device.available_sms;
        let (reduce, end) = (dp + self.dp_blocks, self.active_blocks());
        let fragments = self.device.accumulator_fragments;
        match place {
            p if p < 0 || p >= end => StreamKRole::Idle,
            p if p < self.sk_blocks() => StreamKRole::StreamK { index: p },
            p if p < dp => StreamKRole::Idle,
            p if p < reduce => StreamKRole::DataParallel { index: p - dp },
            p => StreamKRole::Reduction {
                tile: (p - reduce) / fragments,
                fragment: (p - reduce) % fragments,
            },
        }
    }

    fn place(&self, x: i64) -> i64 {
        let sms = self.device.available_sms;
        let spread = if self.remap && x < sms * 2 {
            x / 2 + x % 2 * sms
        } else {
            x
        };
        if (0..self.sk_blocks()).contains(&spread) {
            return spread % self.sk.regions * self.sk.blocks_per_region + spread / self.sk.regions;
        }
        spread
    }

    /// Returns the k-tiles of block `x` in the order it computes them (of batch 0; every batch is alike).
    ///
    /// Stream-K blocks go backwards: what finishes a tile, and so waits for peers, comes last.
    pub fn work(&self, x: i64) -> Vec<Segment> {
        match self.role(x) {
            StreamKRole::StreamK { index } => self.share_of(index),
            StreamKRole::DataParallel { index } => self.whole_tiles(index),
            _ => Vec::new(),
        }
    }

    fn share_of(&self, index: i64) -> Vec<Segment> {
        let iters = self.sk.iterations(index);
        let (first, last) = (iters.start / self.k_tiles, (iters.end - 1) / self.k_tiles);
        let cut = |tile: i64| {
            let base = tile * self.k_tiles;
            let k = iters.start.max(base) - base..iters.end.min(base + self.k_tiles) - base;
            Segment {
                tile: self.tile_at(tile),
                k,
            }
        };
        (first..=last).rev().map(cut).collect()
    }

    fn whole_tiles(&self, index: i64) -> Vec<Segment> {
        let sms = self.device.available_sms;
        let first = if self.cohort_raster { 0 } else { self.sk.tiles };
        let (start, count) = if index < sms {
            (first + index, self.dp_first_wave_tiles)
        } else {
            (first + index + (self.dp_first_wave_tiles - 1) * sms, 1)
        };
        let inside = |t: &i64| {
            *t >= self.sk.tiles
                && self.tiles.contains(GemmCoord {
                    k: 0,
                    ..self.coord(*t)
                })
        };
        (0..count)
            .map(|i| start + i * sms)
            .filter(inside)
            .map(|t| Segment {
                tile: self.tile_at(t),
                k: 0..self.k_tiles,
            })
            .collect()
    }

    fn coord(&self, tile: i64) -> GemmCoord {
        let Tile { m, n, .. } = self.tile_at(tile);
        GemmCoord::new(m, n, 0)
    }

    /// Returns the output tile number `tile`: along n, or along m where there are more columns than rows, or cohort by
    /// cohort.
    #[doc(alias = "get_tile_offset")]
    pub fn tile_at(&self, tile: i64) -> Tile {
        if self.cohort_raster {
            let columns = self.cohorts()[1];
            let (cohort, inside) = (
                tile / (COHORT[0] * COHORT[1]),
                tile % (COHORT[0] * COHORT[1]),
            );
            let m = cohort / columns * COHORT[0] + inside / COHORT[1];
            return Tile::new(m, cohort % columns * COHORT[1] + inside % COHORT[1], 0);
        }
        if self.tiles.m < self.tiles.n {
            Tile::new(tile % self.tiles.m, tile / self.tiles.m, 0)
        } else {
            Tile::new(tile / self.tiles.n, tile % self.tiles.n, 0)
        }
    }

    /// Returns the stream-K blocks (by index) that compute parts of stream-K tile `tile`, in the order of their
    /// k-tiles.
    ///
    /// The last one finishes the tile; the others leave partial sums. `None` for a tile that is not split by
    /// iterations.
    #[doc(alias = "get_first_block_idx")]
    pub fn peers(&self, tile: i64) -> Option<std::ops::RangeInclusive<i64>> {
        if !(0..self.sk.tiles).contains(&tile) {
            return None;
        }
        let first = tile * self.k_tiles;
        Some(self.sk.owner(first)..=self.sk.owner(first + self.k_tiles - 1))
    }
}

/// Refuses more iterations than are counted: beyond, the sums of blocks and waves would leave 64 bits.
pub(crate) fn countable(output: i64, k_tiles: i64) -> Result<(), Error> {
    let iterations = product("the iterations", &[output, k_tiles])?;
    if iterations > 1 << 40 {
        let sentence =
            format!("{iterations} iterations are more than the 2^40 that stream-K counts");
        return Err(Error::invalid(sentence));
    }
    Ok(())
}

fn check_device(d: &StreamKDevice) -> Result<(), Error> {
    at_least("the occupancy", d.occupancy, 1)?;
    at_least("the number of multiprocessors", d.sms, 1)?;
    at_least(
        "the number of available multiprocessors",
        d.available_sms,
        1,
    )?;
    at_least(
        "the number of accumulator fragments",
        d.accumulator_fragments,
        1,
    )?;
    let most = 1 << 16;
    if let Some(x) = [d.sms, d.available_sms, d.occupancy, d.accumulator_fragments]
        .iter()
        .find(|x| **x > most)
    {
        return Err(Error::invalid(format!(
            "{x} is more than the {most} any device has"
        )));
    }
    // The heuristic tries every number of blocks up to this.
    let (most, resident) = (1 << 20, d.available_sms * d.occupancy);
    if resident > most {
        return Err(Error::invalid(format!(
            "{} blocks on each of {} multiprocessors are {resident}: it can be at most {most}",
            d.occupancy, d.available_sms
        )));
    }
    Ok(())
}

impl fmt::Display for StreamK {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "stream-K over {}: {} tiles shared by {} blocks, {} whole-tile blocks, {} reduction blocks",
            self.tiles,
            self.sk.tiles,
            self.sk_blocks(),
            self.dp_blocks,
            self.reduction_blocks
        )
    }
}
