//! A raster: the order in which tiles are computed, as a checked table that can be printed, inverted, drawn and costed.

use crate::number::error::{Error, at_least};
use crate::number::formula;
use crate::order::persistent::{Persistent, RasterOrder};
use crate::order::swizzle::ThreadblockSwizzle;
use crate::problem::coord::{GemmCoord, Tile};
use std::fmt;

/// Places in launch order, each with its tile or none; every tile of the extent occurs exactly once.
///
/// That is the invariant: a raster that exists is a bijection between its busy places and the tiles.
///
/// ```
/// use colex_sched::{GemmCoord, Raster, ThreadblockSwizzle};
/// let raster = Raster::of_swizzle(ThreadblockSwizzle::Identity { width: 2 }, GemmCoord::new(4, 4, 1))?;
/// let rows = [" 0  1  8  9", " 2  3 10 11", " 4  5 12 13", " 6  7 14 15"];
/// assert_eq!(raster.to_string().lines().collect::<Vec<_>>(), rows);
/// # Ok::<(), colex_sched::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raster {
    name: String,
    extent: GemmCoord,
    slots: Vec<Option<Tile>>,
    place: Vec<i64>,
}

/// The most places a raster tabulates.
const MOST_SLOTS: i64 = 1 << 20;

impl Raster {
    /// Returns a raster from its table.
    ///
    /// # Errors
    ///
    /// Returns an error for an empty extent, for a tile beyond it, or for a tile that is computed twice or never, which
    /// the error names.
    pub fn new(
        name: impl Into<String>,
        extent: GemmCoord,
        slots: Vec<Option<Tile>>,
    ) -> Result<Raster, Error> {
        extent.positive([
            "extent m in tiles",
            "extent n in tiles",
            "the number of batches",
        ])?;
        let tiles = few(extent.product()?)?;
        let mut place = vec![-1i64; tiles];
        for (slot, tile) in slots.iter().enumerate() {
            let Some(tile) = tile else { continue };
            let at = index(extent, *tile)?;
            if place[at] >= 0 {
                let sentence = format!(
                    "tile {tile} is computed twice, at places {} and {slot}",
                    place[at]
                );
                return Err(Error::invalid(sentence));
            }
            place[at] = slot as i64;
        }
        match place.iter().position(|&slot| slot < 0) {
            Some(at) => Err(Error::invalid(format!(
                "tile {} is never computed",
                tile_at(extent, at)
            ))),
            None => Ok(Raster {
                name: name.into(),
                extent,
                slots,
                place,
            }),
        }
    }

    fn from_fn(
        name: String,
        extent: GemmCoord,
        slots: i64,
        tile: impl Fn(i64) -> Result<Option<Tile>, Error>,
    ) -> Result<Raster, Error> {
        let slots = (0..few(slots)? as i64)
            .map(tile)
            .collect::<Result<Vec<_>, _>>()?;
        Raster::new(name, extent, slots)
    }

    /// Returns the launch order of a threadblock swizzle, x fastest; the third extent of `tiled` becomes the batch.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`ThreadblockSwizzle::grid_shape`], and an error for more than 2^20 places.
    pub fn of_swizzle(swizzle: ThreadblockSwizzle, tiled: GemmCoord) -> Result<Raster, Error> {
        let grid = swizzle.grid_shape(tiled)?;
        let log_tile = swizzle.log_tile(tiled)?;
        Raster::from_fn(swizzle.to_string(), tiled, grid.count()?, |slot| {
            let tile = grid
                .block(slot)
                .map(|block| swizzle.tile_offset_unbounded(log_tile, block))
                .transpose()?;
            Ok(tile
                .filter(|t| tiled.contains(*t))
                .map(|t| Tile::new(t.m, t.n, t.k)))
        })
    }

    /// Returns the linear order of a persistent scheduler.
    ///
    /// # Errors
    ///
    /// Returns an error for more than 2^20 places.
    pub fn of_persistent(schedule: &Persistent) -> Result<Raster, Error> {
        Raster::from_fn(
            schedule.to_string(),
            schedule.tiles(),
            schedule.slots(),
            |slot| Ok(schedule.tile(slot)),
        )
    }

    /// Builds strips that are `width` tiles wide and run along `order`. The last one is narrower, so that every place
    /// has a tile.
    ///
    /// # Errors
    ///
    /// Returns an error for an extent or width below 1, or for more than 2^20 places.
    pub fn grouped(m: i64, n: i64, width: i64, order: RasterOrder) -> Result<Raster, Error> {
        let extent = plane(m, n)?;
        at_least("the width of the raster", width, 1)?;
        let [major, minor] = order.axes([m, n]);
        let width = width.min(minor);
        Raster::from_fn(
            format!("grouped {width} along {}", order.axis()),
            extent,
            extent.product()?,
            |slot| {
                let [m, n] = order.axes(formula::grouped(slot, major, minor, width));
                Ok(Some(Tile::new(m, n, 0)))
            },
        )
    }

    /// Returns the Hilbert curve: squares of the least power of two that spans the shorter side, one after the other.
    ///
    /// Places off the tiles are left out, so the order is a table of tiles (`compact` already).
    ///
    /// # Errors
    ///
    /// Returns an error for an extent below 1, or for more than 2^20 places.
    pub fn hilbert(m: i64, n: i64) -> Result<Raster, Error> {
        Raster::curve("Hilbert", m, n, formula::hilbert)
    }

    /// Returns the Z-order (Morton) curve, over the same squares.
    ///
    /// # Errors
    ///
    /// Returns an error for an extent below 1, or for more than 2^20 places.
    pub fn morton(m: i64, n: i64) -> Result<Raster, Error> {
        Raster::curve("Morton", m, n, formula::morton)
    }

    fn curve(name: &str, m: i64, n: i64, point: fn(i64, u32) -> [i64; 2]) -> Result<Raster, Error> {
        let extent = plane(m, n)?;
        few(extent.product()?)?;
        let (long, short) = (m.max(n), m.min(n));
        let bits = (short as u64).next_power_of_two().trailing_zeros();
        let side = 1i64 << bits;
        let mut slots = Vec::new();
        for square in 0..(long + side - 1) / side {
            for d in 0..side * side {
                let [x, y] = point(d, bits);
                let (x, y) = (square * side + x, y);
                if x < long && y < short {
                    slots.push(Some(if m >= n {
                        Tile::new(x, y, 0)
                    } else {
                        Tile::new(y, x, 0)
                    }));
                }
            }
        }
        Raster::new(name, extent, slots)
    }

    /// Returns what made the raster.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the tiles along m and n, and the batches.
    pub fn extent(&self) -> GemmCoord {
        self.extent
    }

    /// Returns the tile of each place, in launch order.
    pub fn slots(&self) -> &[Option<Tile>] {
        &self.slots
    }

    /// Returns the tile of place `slot`: `None` where there is none, or beyond the end.
    pub fn tile(&self, slot: i64) -> Option<Tile> {
        usize::try_from(slot)
            .ok()
            .and_then(|slot| self.slots.get(slot).copied().flatten())
    }

    /// Returns the place of a tile: the inverse of [`Raster::tile`].
    ///
    /// # Errors
    ///
    /// Returns an error for a tile that is not in the problem.
    pub fn slot_of(&self, tile: Tile) -> Result<i64, Error> {
        index(self.extent, tile).map(|at| self.place[at])
    }

    /// Returns how many places have no tile.
    pub fn idle(&self) -> i64 {
        self.slots.iter().filter(|slot| slot.is_none()).count() as i64
    }

    /// Returns the same order without idle places, as a table lookup in the kernel gives it.
    pub fn compact(&self) -> Raster {
        let slots = self
            .slots
            .iter()
            .filter(|slot| slot.is_some())
            .copied()
            .collect();
        Raster::new(self.name.clone(), self.extent, slots)
            .expect("invariant: dropping idle places drops no tile")
    }

    /// Returns the places of each wave: `workers` consecutive ones, the last wave maybe fewer.
    ///
    /// # Errors
    ///
    /// Returns an error if there are no workers.
    pub fn waves(&self, workers: i64) -> Result<impl Iterator<Item = &[Option<Tile>]>, Error> {
        let workers = at_least("the number of workers", workers, 1)?;
        Ok(self
            .slots
            .chunks(usize::try_from(workers).unwrap_or(usize::MAX)))
    }
}

fn plane(m: i64, n: i64) -> Result<GemmCoord, Error> {
    GemmCoord::new(m, n, 1).positive([
        "extent m in tiles",
        "extent n in tiles",
        "the number of batches",
    ])
}

pub(crate) fn few(slots: i64) -> Result<usize, Error> {
    if slots > MOST_SLOTS {
        let sentence =
            format!("a raster of {slots} places is more than the {MOST_SLOTS} that fit a table");
        return Err(Error::invalid(sentence));
    }
    Ok(slots as usize)
}

/// The index of a tile, colexicographic: m fastest.
fn index(extent: GemmCoord, t: Tile) -> Result<usize, Error> {
    if !extent.contains(GemmCoord::new(t.m, t.n, t.l)) {
        return Err(Error::outside("tile", [t.m, t.n, t.l], extent.array()));
    }
    Ok((t.m + extent.m * (t.n + extent.n * t.l)) as usize)
}

fn tile_at(extent: GemmCoord, at: usize) -> Tile {
    let at = at as i64;
    Tile::new(
        at % extent.m,
        at / extent.m % extent.n,
        at / extent.m / extent.n,
    )
}

impl fmt::Display for Raster {
    /// One line per row of tiles, one column per column: the place of each tile. Batches follow one another.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wide = self.slots.len().saturating_sub(1).to_string().len();
        for l in 0..self.extent.k {
            if l > 0 {
                writeln!(f)?;
            }
            for m in 0..self.extent.m {
                for n in 0..self.extent.n {
                    let place = self.place[(m + self.extent.m * (n + self.extent.n * l)) as usize];
                    let gap = if n == 0 { "" } else { " " };
                    write!(f, "{gap}{place:>wide$}")?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}
