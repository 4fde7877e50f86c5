//! Stream-K of CUTLASS 3 for Hopper: a persistent grid whose first units share tiles by k, cluster by cluster.

use crate::number::error::{Error, ErrorKind, at_least, of_a_device, product};
use crate::number::formula;
use crate::order::persistent::{Persistent, RasterChoice, RasterOrder};
use crate::problem::coord::{Dim3, GemmCoord, Tile};
use crate::split::segment::Segment;
use std::fmt;

/// A unit must compute at least this many k-tiles of a tile; shorter ends are handed to the neighbour.
const LEAST_K_TILES: i64 = 8;
/// The most groups that stream-K units are divided into.
const MOST_GROUPS: i64 = 8;

/// How tiles are divided among units. Source: `PersistentTileSchedulerSm90StreamKParams::DecompositionMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decomposition {
    /// Split-K if splits are asked for; else stream-K where the last wave is less than half full; else whole tiles.
    Heuristic,
    /// Whole tiles.
    DataParallel,
    /// Every tile in the same number of splits.
    SplitK,
    /// Shares by iterations wherever the last wave is not full.
    StreamK,
}

/// What a Hopper stream-K schedule is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamKSm90Args {
    /// Blocks of a cluster along m and n.
    pub cluster: [i64; 2],
    /// Multiprocessors.
    pub sms: i64,
    /// Resident clusters as the driver reports them, if it was asked.
    pub max_active_clusters: Option<i64>,
    /// Splits along k; more than 1 is split-K.
    pub splits: i64,
    /// The widest strip.
    pub max_swizzle: i64,
    /// The raster.
    pub raster: RasterChoice,
    /// The decomposition.
    pub decomposition: Decomposition,
}

impl StreamKSm90Args {
    /// Returns CUTLASS's defaults for a device of `sms` multiprocessors.
    pub const fn new(sms: i64) -> Self {
        StreamKSm90Args {
            cluster: [1, 1],
            sms,
            max_active_clusters: None,
            splits: 1,
            max_swizzle: 1,
            raster: RasterChoice::Heuristic,
            decomposition: Decomposition::Heuristic,
        }
    }
}

/// A persistent schedule in units of work; block `i` of a grid of `g` takes units `i`, `i + g`, ...
///
/// Source: `tile_scheduler_params.h` and `sm90_tile_scheduler_stream_k.hpp`. Tiles are those of the padded grid, as
/// there.
///
/// ```
/// use colex_sched::{Decomposition, GemmCoord, StreamKSm90, StreamKSm90Args};
/// let args = StreamKSm90Args { decomposition: Decomposition::StreamK, ..StreamKSm90Args::new(4) };
/// let s = StreamKSm90::new(GemmCoord::new(5, 1, 1), 32, args)?;
/// let shares: Vec<i64> = (0..s.units()).map(|u| s.work(u).iter().map(|w| w.len()).sum()).collect();
/// assert_eq!(shares, [40, 40, 40, 40]);
/// # Ok::<(), colex_sched::Error>(())
/// ```
#[doc(alias = "PersistentTileSchedulerSm90StreamK")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamKSm90 {
    base: Persistent,
    grid: Dim3,
    k_tiles: i64,
    /// More than 1: every tile in that many splits, and no stream-K.
    splits: i64,
    sk_tiles: i64,
    sk_units: i64,
    groups: i64,
}

impl StreamKSm90 {
    /// Returns a schedule of `tiles` (m, n, batches) of `k_tiles` k-tiles each.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Persistent::new`] and [`Persistent::grid_shape`], and an error for more than 65536
    /// multiprocessors, for more splits than k-tiles, or for splits together with a decomposition that cannot use them.
    pub fn new(tiles: GemmCoord, k_tiles: i64, args: StreamKSm90Args) -> Result<Self, Error> {
        let base = Persistent::new(tiles, args.cluster, args.max_swizzle, args.raster)?;
        at_least("the number of k-tiles", k_tiles, 1)?;
        check_splits(k_tiles, &args)?;
        of_a_device("the number of multiprocessors", args.sms)?;
        product("the iterations", &[base.slots(), k_tiles, 2])?;
        let grid = resident_grid(&base, &args)?;
        let whole = StreamKSm90 {
            base,
            grid,
            k_tiles,
            splits: 1,
            sk_tiles: 0,
            sk_units: 0,
            groups: 1,
        };
        let split_k = args.decomposition == Decomposition::SplitK;
        if split_k || (args.decomposition == Decomposition::Heuristic && args.splits > 1) {
            return Ok(StreamKSm90 {
                splits: args.splits.min(args.sms),
                ..whole
            });
        }
        Ok(whole.shared(args.decomposition))
    }

    fn shared(self, decomposition: Decomposition) -> Self {
        let (wave, size) = (self.wave(), self.cluster_size());
        let sk_tiles = sk_tiles(self.base.slots(), wave, size, self.k_tiles, decomposition);
        let most = sk_tiles * self.k_tiles / LEAST_K_TILES / size * size;
        let sk_units = most.min(wave / size * size);
        if decomposition == Decomposition::DataParallel || sk_tiles == 0 || sk_units == 0 {
            return self;
        }
        if decomposition == Decomposition::Heuristic
            && sk_tiles < sk_units
            && sk_units % sk_tiles == 0
        {
            return StreamKSm90 {
                splits: sk_units / sk_tiles,
                ..self
            };
        }
        let s = StreamKSm90 {
            sk_tiles,
            sk_units,
            ..self
        };
        StreamKSm90 {
            groups: s.choose_groups(),
            ..s
        }
    }

    /// The most groups that divide the units, if possible the tiles too, and leave every unit enough k-tiles.
    fn choose_groups(&self) -> i64 {
        let ([bm, bn], [cm, cn]) = (self.base.blocks(), self.base.cluster());
        let along = if self.base.order() == RasterOrder::AlongM {
            bm / cm
        } else {
            bn / cn
        };
        let size = self.cluster_size();
        let (units, tiles) = (self.sk_units / size, self.sk_tiles / size);
        let valid = |g: &i64| {
            let k_tiles = tiles / g * size * self.k_tiles;
            units % g == 0 && k_tiles / (self.sk_units / g) >= LEAST_K_TILES
        };
        let candidates = || (2..=along.min(MOST_GROUPS)).rev().filter(valid);
        candidates()
            .find(|g| tiles % g == 0)
            .or_else(|| candidates().next())
            .unwrap_or(1)
    }

    fn wave(&self) -> i64 {
        self.grid.x * self.grid.y
    }

    fn cluster_size(&self) -> i64 {
        self.base.cluster_size()
    }

    /// Returns the order of tiles underneath.
    pub fn raster(&self) -> &Persistent {
        &self.base
    }

    /// Returns the grid to launch: one wave, for problems of every size.
    pub fn grid(&self) -> Dim3 {
        self.grid
    }

    /// Returns the k-tiles of one tile.
    pub fn k_tiles(&self) -> i64 {
        self.k_tiles
    }

    /// Returns the splits of every tile; 1 unless this is split-K.
    pub fn splits(&self) -> i64 {
        self.splits
    }

    /// Returns how many tiles are split by iterations of the mainloop: the first ones of the order.
    pub fn sk_tiles(&self) -> i64 {
        self.sk_tiles
    }

    /// Returns how many units share the tiles that are split: the first units of the order.
    pub fn sk_units(&self) -> i64 {
        self.sk_units
    }

    /// Returns how many groups of units there are. Units with the same place in their groups compute the same k-tiles at
    /// about the same time.
    pub fn groups(&self) -> i64 {
        self.groups
    }

    /// Returns all units.
    #[doc(alias = "units_per_problem")]
    pub fn units(&self) -> i64 {
        if self.splits > 1 {
            return self.base.slots() * self.splits;
        }
        self.base.slots() - self.sk_tiles + self.sk_units
    }

    /// Returns the segments that unit `unit` computes, in their order. A stream-K unit takes its segments last first, so
    /// that it comes last to a tile whose sum waits for other units.
    pub fn work(&self, unit: i64) -> Vec<Segment> {
        let (size, inside) = (self.cluster_size(), unit % self.cluster_size());
        if !(0..self.units()).contains(&unit) {
            Vec::new()
        } else if self.splits > 1 {
            vec![self.split(unit / size, inside)]
        } else if unit >= self.sk_units {
            vec![Segment {
                tile: self.tile(unit - self.sk_units + self.sk_tiles),
                k: 0..self.k_tiles,
            }]
        } else {
            self.share(unit / size, inside)
        }
    }

    /// The tile at place `slot` of the padded grid.
    fn tile(&self, slot: i64) -> Tile {
        self.base
            .tile_padded(slot)
            .expect("invariant: units map to places of the padded grid")
    }

    fn split(&self, cluster: i64, inside: i64) -> Segment {
        let clusters = self.base.slots() / self.cluster_size();
        let (split, cluster) = (cluster / clusters, cluster % clusters);
        let (each, extra) = (self.k_tiles / self.splits, self.k_tiles % self.splits);
        let begin = each * split + extra.min(split);
        let tile = self.tile(cluster * self.cluster_size() + inside);
        Segment {
            tile,
            k: begin..begin + each + i64::from(split < extra),
        }
    }

    /// The share of one cluster of units: an equal run of its group's iterations, with ends snapped to tile borders.
    fn share(&self, cluster: i64, inside: i64) -> Vec<Segment> {
        let (index, group) = (cluster / self.groups, cluster % self.groups);
        let run = self.iterations(index, group);
        if run.is_empty() {
            return Vec::new();
        }
        let (first, last) = (run.start / self.k_tiles, (run.end - 1) / self.k_tiles);
        let cut = |in_group: i64| {
            let base = in_group * self.k_tiles;
            let place = (in_group * self.groups + group) * self.cluster_size() + inside;
            let k = run.start.max(base) - base..run.end.min(base + self.k_tiles) - base;
            Segment {
                tile: self.tile(place),
                k,
            }
        };
        (first..=last).rev().map(cut).collect()
    }

    /// The iterations of unit `index` of `group`, counted over the group's tiles.
    fn iterations(&self, index: i64, group: i64) -> std::ops::Range<i64> {
        let size = self.cluster_size();
        let tiles = self.sk_tiles / size;
        let in_group = tiles / self.groups + i64::from(group < tiles % self.groups);
        let (units, total) = (self.sk_units / self.groups, in_group * size * self.k_tiles);
        let (each, big) = (total / units, total % units / size);
        let begin = |index: i64| self.snapped(formula::share_begin(index, each, big));
        begin(index)..begin(index + 1)
    }

    /// The first unit of `group` whose run, and that of every later one, is so; the number of units if there is none.
    fn first_unit(&self, group: i64, is_so: impl Fn(std::ops::Range<i64>) -> bool) -> i64 {
        let (mut low, mut high) = (0, self.sk_units / self.cluster_size() / self.groups);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_so(self.iterations(middle, group)) {
                high = middle
            } else {
                low = middle + 1
            }
        }
        low
    }

    /// The k-tiles of the worker that has most of them, where worker `w` of `workers` takes units `w`, `w + workers`,
    /// ...
    pub(crate) fn busiest(&self, workers: i64) -> i64 {
        // How many of the units below `end` are worker `w`'s.
        let below = |end: i64, w: i64| {
            (end - w).max(0) / workers + i64::from((end - w).max(0) % workers != 0)
        };
        if self.splits > 1 {
            // The first splits of all tiles have a k-tile more, so no worker has more than worker 0.
            let (each, extra) = (self.k_tiles / self.splits, self.k_tiles % self.splits);
            return each * below(self.units(), 0) + below(extra * self.base.slots(), 0);
        }
        let size = self.cluster_size();
        let mut shared = vec![0i64; workers.min(self.sk_units.max(1)) as usize];
        for unit in 0..self.sk_units {
            let (cluster, worker) = (unit / size, (unit % workers) as usize);
            let run = self.iterations(cluster / self.groups, cluster % self.groups);
            shared[worker] += (run.end - run.start).max(0);
        }
        let whole = |w: i64| (below(self.units(), w) - below(self.sk_units, w)) * self.k_tiles;
        let with_shares = shared.iter().zip(0..).map(|(shared, w)| shared + whole(w));
        // Of the workers without a share, the first has the most whole tiles.
        let without = Some(self.sk_units).filter(|w| *w < workers).map(whole);
        with_shares.chain(without).max().unwrap_or(0)
    }

    /// Moves a cut that would leave fewer than [`LEAST_K_TILES`] k-tiles on one side to the border of the tile.
    fn snapped(&self, iter: i64) -> i64 {
        let [tile, k] = formula::share_cut(iter, self.k_tiles, LEAST_K_TILES);
        tile * self.k_tiles + k
    }

    /// Returns the units that compute parts of the tile at place `slot`, in the order of their k-tiles: the last one
    /// finishes it.
    pub fn peers(&self, slot: i64) -> Vec<i64> {
        let (size, cluster, inside) = (
            self.cluster_size(),
            slot / self.cluster_size(),
            slot % self.cluster_size(),
        );
        if !(0..self.base.slots()).contains(&slot) {
            return Vec::new();
        }
        if self.splits > 1 {
            return (0..self.splits)
                .map(|split| split * self.base.slots() + slot)
                .collect();
        }
        if slot >= self.sk_tiles {
            return vec![slot - self.sk_tiles + self.sk_units];
        }
        let (in_group, group) = (cluster / self.groups, cluster % self.groups);
        let (begin, end) = (in_group * self.k_tiles, (in_group + 1) * self.k_tiles);
        // The runs of a group follow one another, so those that meet the tile stand together.
        let first = self.first_unit(group, |run| begin < run.end);
        let after = self.first_unit(group, |run| end <= run.start);
        (first..after)
            .filter(|index| !self.iterations(*index, group).is_empty())
            .map(|index| (index * self.groups + group) * size + inside)
            .collect()
    }
}

fn check_splits(k_tiles: i64, args: &StreamKSm90Args) -> Result<(), Error> {
    at_least("the number of splits", args.splits, 1)?;
    if args.splits > k_tiles {
        return Err(ErrorKind::Splits {
            splits: args.splits,
            k_tiles,
        }
        .into());
    }
    let takes = matches!(
        args.decomposition,
        Decomposition::Heuristic | Decomposition::SplitK
    );
    if args.splits > 1 && !takes {
        let sentence = format!(
            "{} splits need the SplitK or Heuristic decomposition",
            args.splits
        );
        return Err(Error::invalid(sentence));
    }
    Ok(())
}

/// The grid of one wave: stream-K never launches fewer blocks for a small problem.
fn resident_grid(base: &Persistent, args: &StreamKSm90Args) -> Result<Dim3, Error> {
    let size = base.cluster_size();
    let blocks = base.resident_blocks(args.sms, args.max_active_clusters)? / size * size;
    base.grid_of(blocks)?.ok_or_else(|| {
        ErrorKind::ClusterTooLarge {
            cluster: args.cluster,
            sms: args.sms,
        }
        .into()
    })
}

/// Tiles to share: the last full wave and the partial one, where that is worth it. Source: `get_num_sk_tiles`.
fn sk_tiles(
    tiles: i64,
    wave: i64,
    cluster: i64,
    k_tiles: i64,
    decomposition: Decomposition,
) -> i64 {
    let (full, tail) = (tiles / wave, tiles % wave);
    let nearly_full = decomposition == Decomposition::Heuristic && 2 * tail >= wave;
    let whole = matches!(
        decomposition,
        Decomposition::DataParallel | Decomposition::SplitK
    );
    if whole || tail == 0 || k_tiles <= LEAST_K_TILES || nearly_full {
        return 0;
    }
    (tiles - (full - 1).max(0) * wave) / cluster * cluster
}

impl fmt::Display for StreamKSm90 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.base.slots() - self.sk_tiles;
        match self.splits {
            1 => write!(
                f,
                "{}: {} tiles shared by {} units in {} groups, {whole} whole",
                self.base, self.sk_tiles, self.sk_units, self.groups
            ),
            splits => write!(f, "{}: every tile in {splits} splits", self.base),
        }
    }
}
