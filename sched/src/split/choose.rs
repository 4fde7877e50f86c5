//! Whole tiles, split-K or stream-K: the shortest schedule, fix-up included.

use crate::number::error::{Error, at_least, ceil_div, of_a_device, product};
use crate::order::persistent::RasterChoice;
use crate::problem::coord::GemmCoord;
use crate::split::stream_k::countable;
use crate::split::stream_k_sm90::{Decomposition, StreamKSm90, StreamKSm90Args};
use std::fmt;

/// One way to divide the work along k, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SplitCandidate {
    /// `DataParallel`, `SplitK` or `StreamK`.
    pub decomposition: Decomposition,
    /// Splits of every tile (1 unless split-K).
    pub splits: i64,
    /// k-tiles of the busiest block.
    pub iterations: i64,
    /// The most units that share one tile.
    pub peers: i64,
    /// Length of the schedule in hundredths of a k-tile: the iterations and what the fix-up costs.
    pub length: i64,
}

/// The decompositions of one problem, shortest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitChoice {
    /// All candidates, shortest first.
    pub candidates: Vec<SplitCandidate>,
    /// Hundredths of k-tiles that each block would have if all could be divided without loss: no schedule is shorter.
    pub bound: i64,
}

impl SplitChoice {
    /// Returns the best.
    pub fn best(&self) -> &SplitCandidate {
        &self.candidates[0]
    }
}

/// The most splits that are tried.
const MOST_SPLITS: i64 = 32;

/// Compares whole tiles, every split up to 32, and stream-K for `tiles` of `k_tiles` k-tiles on `sms` multiprocessors.
///
/// Of each schedule the busiest block is found, in time that grows with the multiprocessors and not with the tiles. The
/// fix-up is CUTLASS 2's estimate: 2 k-tiles per wave and a peer, and 2 % of the iterations a peer where shares do not
/// align with tiles (`threadblock_swizzle_streamk.h`, `get_sk_blocks`).
///
/// # Errors
///
/// Returns an error for an extent, k-tile count or device below 1, for more than 65536 multiprocessors, or for more
/// than 2^40 iterations. It also returns the errors of [`StreamKSm90::new`].
///
/// ```
/// use colex_sched::{Decomposition, GemmCoord, choose_split};
/// // 4 tiles, a long k, 132 multiprocessors: 32 splits of 64 k-tiles.
/// let choice = choose_split(GemmCoord::new(2, 2, 1), 2048, 132)?;
/// assert_eq!((choice.best().decomposition, choice.best().splits), (Decomposition::SplitK, 32));
/// // Exactly one wave: nothing to split.
/// let whole = choose_split(GemmCoord::new(11, 12, 1), 64, 132)?;
/// assert_eq!(whole.best().decomposition, Decomposition::DataParallel);
/// # Ok::<(), colex_sched::Error>(())
/// ```
pub fn choose_split(tiles: GemmCoord, k_tiles: i64, sms: i64) -> Result<SplitChoice, Error> {
    at_least("the number of k-tiles", k_tiles, 1)?;
    of_a_device("the number of multiprocessors", sms)?;
    countable(tiles.product()?, k_tiles)?;
    let mut tried = vec![
        (Decomposition::DataParallel, 1),
        (Decomposition::StreamK, 1),
    ];
    tried.extend(
        (2..=MOST_SPLITS.min(k_tiles).min(sms)).map(|splits| (Decomposition::SplitK, splits)),
    );
    let measured = tried
        .into_iter()
        .map(|(decomposition, splits)| measure(tiles, k_tiles, sms, decomposition, splits));
    let mut candidates = measured.collect::<Result<Vec<_>, _>>()?;
    candidates.retain(|c| c.decomposition != Decomposition::StreamK || c.peers > 1);
    candidates.sort_by_key(|c| (c.length, c.peers));
    let bound = ceil_div(
        product("the iterations", &[tiles.product()?, k_tiles, 100])?,
        sms,
    );
    Ok(SplitChoice { candidates, bound })
}

fn measure(
    tiles: GemmCoord,
    k_tiles: i64,
    sms: i64,
    decomposition: Decomposition,
    splits: i64,
) -> Result<SplitCandidate, Error> {
    let args = StreamKSm90Args {
        decomposition,
        splits,
        raster: RasterChoice::AlongN,
        ..StreamKSm90Args::new(sms)
    };
    let s = StreamKSm90::new(tiles, k_tiles, args)?;
    let iterations = s.busiest(sms);
    // Of split tiles and of whole ones the first stands for all.
    let shared = 0..s.sk_tiles().max(1);
    let peers = shared
        .map(|slot| s.peers(slot).len() as i64)
        .max()
        .unwrap_or(1);
    let length = iterations * 100 + fixup(&s, iterations, peers);
    Ok(SplitCandidate {
        decomposition,
        splits,
        iterations,
        peers,
        length,
    })
}

/// The fix-up in hundredths of a k-tile.
fn fixup(s: &StreamKSm90, iterations: i64, peers: i64) -> i64 {
    if peers <= 1 {
        return 0;
    }
    let wave = s.grid().x * s.grid().y;
    let waves = (s.units() + wave - 1) / wave;
    let skew = if s.splits() > 1 {
        0
    } else {
        2 * peers * iterations
    };
    200 * waves + 200 * peers + skew
}

impl fmt::Display for SplitChoice {
    /// A table, shortest first, then the bound.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<14} {:>6} {:>10} {:>6} {:>10}",
            "decomposition", "splits", "iterations", "peers", "length"
        )?;
        for c in &self.candidates {
            let name = format!("{:?}", c.decomposition);
            let length = c.length as f64 / 100.0;
            writeln!(
                f,
                "{name:<14} {:>6} {:>10} {:>6} {length:>10.2}",
                c.splits, c.iterations, c.peers
            )?;
        }
        writeln!(f, "bound {:.2}", self.bound as f64 / 100.0)
    }
}
