//! What an order of tiles costs: operands each wave touches, and the bytes that cross the L2 cache.

pub(crate) mod choose;
mod lru;

use crate::cost::lru::Lru;
use crate::number::error::{Error, ErrorKind, at_least, product};
use crate::order::raster::Raster;
use crate::problem::coord::Tile;

/// The operands of one output tile, in bytes a k-tile, and how many k-tiles it has.
///
/// ```
/// use colex_sched::{GemmCoord, TileBytes};
/// // 128 x 256 x 64 tiles of 2-byte elements, K = 8192.
/// let bytes = TileBytes::new(GemmCoord::new(128, 256, 64), 2, 128)?;
/// assert_eq!((bytes.a, bytes.b), (16_384, 32_768));
/// # Ok::<(), colex_sched::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TileBytes {
    /// Bytes of the A slice of one k-tile.
    pub a: i64,
    /// Bytes of the B slice of one k-tile.
    pub b: i64,
    /// The k-tiles.
    pub k_tiles: i64,
    /// Consecutive places of the raster that load each slice once, by multicast: the blocks of a cluster.
    pub cluster_blocks: i64,
}

impl TileBytes {
    /// Returns the slices of a tile of `tile` elements of `element` bytes.
    ///
    /// # Errors
    ///
    /// Returns an error for an extent below 1, or if a count does not fit in 64 bits.
    pub fn new(tile: crate::GemmCoord, element: i64, k_tiles: i64) -> Result<TileBytes, Error> {
        tile.positive([
            "extent m of the tile",
            "extent n of the tile",
            "extent k of the tile",
        ])?;
        at_least("the bytes of an element", element, 1)?;
        at_least("the number of k-tiles", k_tiles, 1)?;
        let slice = |extent: i64| product("the bytes of a slice", &[extent, tile.k, element]);
        Ok(TileBytes {
            a: slice(tile.m)?,
            b: slice(tile.n)?,
            k_tiles,
            cluster_blocks: 1,
        })
    }

    /// The same bytes in fewer steps along k: the least divisor of the k-tiles that is at least `slices`, or all of
    /// them where none is below 2^20.
    fn resliced(self, slices: i64) -> TileBytes {
        let steps = (slices..=self.k_tiles.min(1 << 20))
            .find(|steps| self.k_tiles % steps == 0)
            .unwrap_or(self.k_tiles);
        self.in_steps(steps)
    }

    /// [`resliced`](Self::resliced), or in the most steps for which a raster of `places` can be simulated, if those are
    /// fewer: one step of all the k-tiles at the least.
    fn resliced_for(self, slices: i64, places: i64) -> TileBytes {
        let bytes = self.resliced(slices);
        let most = MOST_TOUCHES / 2 / places.max(1);
        if bytes.k_tiles <= most {
            return bytes;
        }
        let mut fewer = (1..=most).rev();
        self.in_steps(fewer.find(|steps| self.k_tiles % steps == 0).unwrap_or(1))
    }

    /// The same bytes in a number of steps along k that divides the k-tiles.
    fn in_steps(self, steps: i64) -> TileBytes {
        let merge = self.k_tiles / steps;
        TileBytes {
            a: self.a * merge,
            b: self.b * merge,
            k_tiles: steps,
            ..self
        }
    }
}

/// The operands one wave touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaveCost {
    /// Output tiles computed.
    pub tiles: i64,
    /// Distinct rows of tiles: panels of A.
    pub rows: i64,
    /// Distinct columns of tiles: panels of B.
    pub columns: i64,
    /// Bytes of those panels of A, over all of k.
    pub a_bytes: i64,
    /// Bytes of those panels of B.
    pub b_bytes: i64,
}

impl WaveCost {
    /// Returns the bytes of A and B together: what must come from memory if nothing is left from the wave before.
    pub fn bytes(&self) -> i64 {
        self.a_bytes + self.b_bytes
    }
}

/// Returns the distinct operands of each wave of `workers` places.
///
/// # Errors
///
/// Returns an error if there are no workers, or if a count does not fit in 64 bits.
///
/// ```
/// use colex_sched::{GemmCoord, Raster, ThreadblockSwizzle, TileBytes, wave_costs};
/// let bytes = TileBytes::new(GemmCoord::new(128, 128, 64), 2, 1)?;
/// let touched = |width| {
///     let raster = Raster::of_swizzle(ThreadblockSwizzle::Identity { width }, GemmCoord::new(16, 16, 1))?;
///     wave_costs(&raster, 16, &bytes).map(|waves| (waves[0].rows, waves[0].columns))
/// };
/// assert_eq!([touched(1)?, touched(4)?], [(16, 1), (4, 4)]);
/// # Ok::<(), colex_sched::Error>(())
/// ```
pub fn wave_costs(
    raster: &Raster,
    workers: i64,
    bytes: &TileBytes,
) -> Result<Vec<WaveCost>, Error> {
    check_sizes(raster, bytes)?;
    let e = raster.extent();
    let [rows, columns] = [e.m, e.n].map(|extent| Distinct::new(extent * e.k));
    let mut panels = [rows, columns];
    let cost = |wave: &[Option<Tile>]| {
        let [rows, columns] = &mut panels;
        let (mut a, mut b, mut tiles) = (0, 0, 0);
        for t in wave.iter().flatten() {
            a += i64::from(rows.is_new(t.l * e.m + t.m));
            b += i64::from(columns.is_new(t.l * e.n + t.n));
            tiles += 1;
        }
        panels.iter_mut().for_each(Distinct::clear);
        WaveCost {
            tiles,
            rows: a,
            columns: b,
            a_bytes: a * bytes.a * bytes.k_tiles,
            b_bytes: b * bytes.b * bytes.k_tiles,
        }
    };
    Ok(raster.waves(workers)?.map(cost).collect())
}

/// Numbers below a bound that were seen since the last clearing.
struct Distinct {
    seen: Vec<u32>,
    round: u32,
}

impl Distinct {
    fn new(bound: i64) -> Distinct {
        Distinct {
            seen: vec![0; bound as usize],
            round: 1,
        }
    }

    fn is_new(&mut self, number: i64) -> bool {
        std::mem::replace(&mut self.seen[number as usize], self.round) != self.round
    }

    fn clear(&mut self) {
        self.round += 1;
    }
}

/// Bytes of A and B that cross each side of the L2 cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Traffic {
    /// From L2 to the multiprocessors: every tile's slices, once a cluster.
    pub requested: i64,
    /// From memory to L2: what the cache did not hold.
    pub fetched: i64,
}

impl Traffic {
    /// Returns the share of the requests that L2 answered.
    pub fn hit_rate(&self) -> f64 {
        1.0 - self.fetched as f64 / self.requested as f64
    }
}

/// Returns the traffic of a raster through a cache of `cache` bytes that drops the least recently used slice.
///
/// The blocks of a wave step along k together, in the order of the raster; each step touches its tile's slice of A,
/// then of B. One wave ends before the next begins. Outputs do not pass through the model.
///
/// # Errors
///
/// Returns an error if there are no workers or a negative cache, if a count does not fit in 64 bits, or for more than
/// 2^22 touches of slices, two for each place and k-tile.
pub fn l2_traffic(
    raster: &Raster,
    workers: i64,
    bytes: &TileBytes,
    cache: i64,
) -> Result<Traffic, Error> {
    check_sizes(raster, bytes)?;
    at_least("the bytes of the cache", cache, 0)?;
    let share = usize::try_from(bytes.cluster_blocks).unwrap_or(usize::MAX);
    let mut sim = Simulation::new(raster, bytes, cache)?;
    for wave in raster.waves(workers)? {
        for k in 0..bytes.k_tiles {
            wave.chunks(share).for_each(|cluster| sim.step(cluster, k));
        }
    }
    Ok(sim.traffic)
}

/// Returns the same as [`l2_traffic`] with several k-tiles a step, at least `slices` steps: the bytes are exact, the
/// interleaving coarser.
///
/// # Errors
///
/// Returns the errors of [`l2_traffic`].
pub fn l2_traffic_coarse(
    raster: &Raster,
    workers: i64,
    bytes: &TileBytes,
    cache: i64,
    slices: i64,
) -> Result<Traffic, Error> {
    check_sizes(raster, bytes)?;
    at_least("the number of slices", slices, 1)?;
    l2_traffic(raster, workers, &bytes.resliced(slices), cache)
}

/// The most touches of slices that are simulated: two for each place and step along k.
const MOST_TOUCHES: i64 = 1 << 22;

struct Simulation<'a> {
    raster: &'a Raster,
    bytes: &'a TileBytes,
    lru: Lru,
    traffic: Traffic,
    /// Slices of the cluster at hand that were loaded already.
    loaded: Vec<usize>,
}

impl<'a> Simulation<'a> {
    fn new(raster: &'a Raster, bytes: &'a TileBytes, cache: i64) -> Result<Self, Error> {
        let e = raster.extent();
        let slices = product("the slices", &[e.m + e.n, e.k, bytes.k_tiles])?;
        let touches = product(
            "the touches of slices",
            &[2, raster.slots().len() as i64, bytes.k_tiles],
        )?;
        if touches > MOST_TOUCHES {
            let sentence = format!(
                "{touches} touches of slices are more than the {MOST_TOUCHES} that are simulated: use fewer steps along k"
            );
            return Err(Error::invalid(sentence));
        }
        let traffic = Traffic {
            requested: 0,
            fetched: 0,
        };
        Ok(Simulation {
            raster,
            bytes,
            lru: Lru::new(slices as usize, cache),
            traffic,
            loaded: Vec::new(),
        })
    }

    /// One k-step of the blocks of one cluster.
    fn step(&mut self, cluster: &[Option<Tile>], k: i64) {
        let e = self.raster.extent();
        self.loaded.clear();
        for t in cluster.iter().flatten() {
            let base = t.l * (e.m + e.n);
            self.touch(
                ((base + t.m) * self.bytes.k_tiles + k) as usize,
                self.bytes.a,
            );
            self.touch(
                ((base + e.m + t.n) * self.bytes.k_tiles + k) as usize,
                self.bytes.b,
            );
        }
    }

    fn touch(&mut self, slice: usize, bytes: i64) {
        if self.bytes.cluster_blocks > 1 {
            if self.loaded.contains(&slice) {
                return;
            }
            self.loaded.push(slice);
        }
        self.traffic.requested += bytes;
        if !self.lru.touch(slice, bytes) {
            self.traffic.fetched += bytes;
        }
    }
}

/// Returns the bytes fetched from memory, where they follow without a simulation; `None` in between.
///
/// - A cache that holds A and B whole fetches each slice once.
/// - A cache that holds one k-step of every wave, but less than the other k-steps of any, shares within a wave and
///   keeps nothing between waves: the sum of [`WaveCost::bytes`].
///
/// # Errors
///
/// Returns the errors of [`wave_costs`].
pub fn fetched_closed_form(
    raster: &Raster,
    workers: i64,
    bytes: &TileBytes,
    cache: i64,
) -> Result<Option<i64>, Error> {
    let waves = wave_costs(raster, workers, bytes)?;
    let e = raster.extent();
    let whole = e.k * (e.m * bytes.a + e.n * bytes.b) * bytes.k_tiles;
    let step = |wave: &WaveCost| wave.bytes() / bytes.k_tiles;
    let most = waves.iter().map(step).max().unwrap_or(0);
    let least = waves.iter().map(step).min().unwrap_or(0);
    Ok(match () {
        () if cache >= whole => Some(whole),
        () if cache >= most && cache <= (bytes.k_tiles - 1) * least => {
            Some(waves.iter().map(WaveCost::bytes).sum())
        }
        () => None,
    })
}

/// Returns `[major, minor]` tiles that a wave of `workers` touches when it starts a strip of `width`:
/// `ceil(workers / width)` by `width`.
///
/// The bytes, `minor * b + major * a` for strips of columns, are least near the square: the reason for a swizzle.
///
/// # Errors
///
/// Returns an error for a width or worker count below 1.
pub fn strip_footprint(width: i64, workers: i64) -> Result<[i64; 2], Error> {
    at_least("the width of the raster", width, 1)?;
    at_least("the number of workers", workers, 1)?;
    Ok([
        workers / width + i64::from(workers % width != 0),
        width.min(workers),
    ])
}

/// How evenly the tiles of a raster fall on workers that take every `workers`-th place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quantization {
    /// Output tiles.
    pub tiles: i64,
    /// The number of blocks that compute tiles.
    pub workers: i64,
    /// Tiles of the busiest worker: the length of the schedule.
    pub rounds: i64,
}

impl Quantization {
    /// Returns the quantization of `tiles` tiles without idle places: the busiest worker has `ceil(tiles / workers)`.
    ///
    /// # Errors
    ///
    /// Returns an error if there are no tiles or no workers.
    ///
    /// ```
    /// use colex_sched::Quantization;
    /// let q = Quantization::of_tiles(133, 132)?;
    /// assert_eq!((q.rounds, (q.efficiency() * 1000.0).round()), (2, 504.0));
    /// # Ok::<(), colex_sched::Error>(())
    /// ```
    pub fn of_tiles(tiles: i64, workers: i64) -> Result<Quantization, Error> {
        at_least("the number of tiles", tiles, 1)?;
        at_least("the number of workers", workers, 1)?;
        Ok(Quantization {
            tiles,
            workers,
            rounds: tiles / workers + i64::from(tiles % workers != 0),
        })
    }

    /// Returns the quantization of a raster, with its idle places.
    ///
    /// # Errors
    ///
    /// Returns an error if there are no workers.
    pub fn of_raster(raster: &Raster, workers: i64) -> Result<Quantization, Error> {
        at_least("the number of workers", workers, 1)?;
        let mut each = vec![0i64; workers.min(raster.slots().len() as i64) as usize];
        for (slot, _) in raster
            .slots()
            .iter()
            .enumerate()
            .filter(|(_, tile)| tile.is_some())
        {
            each[(slot as i64 % workers) as usize] += 1;
        }
        let tiles = each.iter().sum();
        Ok(Quantization {
            tiles,
            workers,
            rounds: each.into_iter().max().unwrap_or(0),
        })
    }

    /// Returns the tiles computed, as a share of those that all workers could have computed in the same time.
    #[doc(alias = "wave quantization")]
    pub fn efficiency(&self) -> f64 {
        self.tiles as f64 / (self.rounds as f64 * self.workers as f64)
    }
}

fn check_sizes(raster: &Raster, bytes: &TileBytes) -> Result<(), Error> {
    at_least("the bytes of a slice of A", bytes.a, 1)?;
    at_least("the bytes of a slice of B", bytes.b, 1)?;
    at_least("the number of k-tiles", bytes.k_tiles, 1)?;
    at_least("the blocks of a cluster", bytes.cluster_blocks, 1)?;
    let slots = raster.slots().len() as i64;
    let each = bytes.a.checked_add(bytes.b).ok_or(ErrorKind::Overflow {
        what: "the traffic",
    })?;
    product("the traffic", &[slots, each, bytes.k_tiles, 2]).map(drop)
}
