//! An order of tiles as a small value: printable, and a raster on demand for any grid and cluster.

mod as_layout;
pub(crate) mod grouped;
pub(crate) mod persistent;
pub(crate) mod raster;
pub(crate) mod swizzle;

use crate::number::error::{Error, ceil_div, product};
use crate::number::expr::Arith;
use crate::number::formula;
use crate::order::persistent::{Persistent, RasterOrder, check_tiles};
use crate::order::raster::{Raster, few};
use crate::order::swizzle::ThreadblockSwizzle;
use crate::problem::coord::{GemmCoord, Tile};
use std::fmt;
use std::str::FromStr;

/// One of the orders in which a kernel can visit its tiles.
///
/// The library of `colex-gpu` uses the grouped orders, which [`Order::tile`] computes. The others are those of
/// CUTLASS kernels and space-filling curves; [`crate::choose`] and the book compare them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// A grid with one block per tile (no clusters).
    Swizzle(ThreadblockSwizzle),
    /// Hopper's persistent scheduler.
    Persistent {
        /// The widest strip.
        max_swizzle: i64,
        /// The axis of the strips.
        raster: RasterOrder,
    },
    /// Strips with a narrower last one.
    Grouped {
        /// The width of a strip, in clusters.
        width: i64,
        /// The axis of the strips.
        raster: RasterOrder,
    },
    /// The Hilbert curve, from a table.
    Hilbert,
    /// The Z-order curve, from a table.
    Morton,
}

impl Order {
    /// Returns the orders [`crate::choose`] compares, simplest first.
    pub fn candidates() -> Vec<Order> {
        let mut all = Vec::new();
        for raster in [RasterOrder::AlongM, RasterOrder::AlongN] {
            all.extend([1, 2, 4, 8, 16].map(|width| Order::Grouped { width, raster }));
            all.extend([2, 4, 8].map(|max_swizzle| Order::Persistent {
                max_swizzle,
                raster,
            }));
        }
        all.extend([Order::Hilbert, Order::Morton]);
        all
    }

    /// Returns the tile `[m, n]` at position `place` of the order, for a grid of `tiles` tiles along m and n; with
    /// clusters, both
    /// count clusters. Returns `None` for an order without a closed formula: one with more places than tiles, or a
    /// table.
    ///
    /// ```
    /// use colex_sched::{Expr, Order};
    /// let order: Order = "grouped 2 along m".parse()?;
    /// let tile = order.tile(3, [3, 5]);
    /// assert_eq!(tile, Some([1, 1]));
    /// let [m, _] = order.tile(Expr::var("i"), [3, 4].map(Expr::from)).expect("it is grouped");
    /// assert_eq!(m.to_string(), "(i - i / 6 * 6) / min(4 - i / 6 * 2, 2)");
    /// # Ok::<(), colex_sched::Error>(())
    /// ```
    pub fn tile<T: Arith>(&self, place: T, tiles: [T; 2]) -> Option<[T; 2]> {
        match *self {
            Order::Grouped { width, raster } => {
                let [major, minor] = raster.axes(tiles);
                Some(raster.axes(formula::grouped(place, major, minor, width)))
            }
            Order::Swizzle(_) | Order::Persistent { .. } | Order::Hilbert | Order::Morton => None,
        }
    }

    /// Returns the raster of this order over `tiles` for clusters of `cluster` blocks.
    ///
    /// With clusters, the order is that of the clusters, and the blocks of one cluster are consecutive, m first.
    ///
    /// # Errors
    ///
    /// Returns an error for an extent below 1, for a threadblock swizzle with clusters that do not divide, or for any
    /// cluster of more than one block on a threadblock swizzle.
    pub fn raster(&self, tiles: GemmCoord, cluster: [i64; 2]) -> Result<Raster, Error> {
        check_tiles(tiles, cluster)?;
        if let Order::Persistent {
            max_swizzle,
            raster,
        } = *self
        {
            let schedule = Persistent::new(tiles, cluster, max_swizzle, raster.into())?;
            return Raster::of_persistent(&schedule);
        }
        if let Order::Swizzle(swizzle) = self {
            if cluster != [1, 1] {
                let sentence =
                    format!("{swizzle} knows no clusters: use a persistent or grouped order");
                return Err(Error::invalid(sentence));
            }
            return Raster::of_swizzle(*swizzle, tiles);
        }
        let (m, n) = (ceil_div(tiles.m, cluster[0]), ceil_div(tiles.n, cluster[1]));
        let one = match *self {
            Order::Grouped { width, raster } => Raster::grouped(m, n, width, raster)?,
            Order::Morton => Raster::morton(m, n)?,
            _ => Raster::hilbert(m, n)?,
        };
        spread(&one, tiles, cluster)
    }
}

/// Each cluster of `clusters` as its blocks, for every batch.
fn spread(clusters: &Raster, tiles: GemmCoord, [cm, cn]: [i64; 2]) -> Result<Raster, Error> {
    let places = [clusters.slots().len() as i64, cm, cn, tiles.k];
    few(product("the places of the raster", &places)?)?;
    let mut slots = Vec::new();
    for l in 0..tiles.k {
        for c in clusters.slots().iter().flatten() {
            for (n, m) in (0..cn).flat_map(|n| (0..cm).map(move |m| (n, m))) {
                let tile = Tile::new(c.m * cm + m, c.n * cn + n, l);
                slots.push((tile.m < tiles.m && tile.n < tiles.n).then_some(tile));
            }
        }
    }
    Raster::new(clusters.name(), tiles, slots)
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Swizzle(swizzle) => swizzle.fmt(f),
            Order::Persistent {
                max_swizzle,
                raster,
            } => write!(
                f,
                "persistent along {}, swizzle {max_swizzle}",
                raster.axis()
            ),
            Order::Grouped { width, raster } => {
                write!(f, "grouped {width} along {}", raster.axis())
            }
            Order::Hilbert => f.write_str("Hilbert"),
            Order::Morton => f.write_str("Morton"),
        }
    }
}

impl FromStr for Order {
    type Err = Error;

    /// Reads what [`fmt::Display`] prints.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || {
            let known = "GemmIdentity<8>, grouped 8 along m, \"persistent along n, swizzle 4\", Hilbert or Morton";
            Error::invalid(format!(
                "{text:?} names no order: expected for example {known}"
            ))
        };
        let axis = |name: &str| match name {
            "m" => Ok(RasterOrder::AlongM),
            "n" => Ok(RasterOrder::AlongN),
            _ => Err(wrong()),
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            ["Hilbert"] => Ok(Order::Hilbert),
            ["Morton"] => Ok(Order::Morton),
            ["grouped", width, "along", name] => Ok(Order::Grouped {
                width: width.parse().map_err(|_| wrong())?,
                raster: axis(name)?,
            }),
            ["persistent", "along", name, "swizzle", width] => Ok(Order::Persistent {
                max_swizzle: width.parse().map_err(|_| wrong())?,
                raster: axis(name.trim_end_matches(','))?,
            }),
            _ => text.parse().map(Order::Swizzle).map_err(|_| wrong()),
        }
    }
}
