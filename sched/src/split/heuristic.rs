//! How many tiles CUTLASS 2's stream-K shares, and among how many blocks.

use crate::number::error::ceil_div;

/// How the output tiles are divided: whole ones, and blocks for the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) dp_tiles: i64,
    pub(crate) sk_blocks: i64,
}

/// A stream-K block should run at least this many iterations.
const LEAST_ITERATIONS: i64 = 2;

/// Whole waves stay data-parallel; the last wave, or the last full wave with it, is shared if that saves iterations.
///
/// Source: `threadblock_swizzle_streamk.h`, `get_blocks`.
pub(crate) fn decide(tiles: i64, k_tiles: i64, sms: i64, occupancy: i64) -> Decision {
    let whole = Decision {
        dp_tiles: tiles,
        sk_blocks: 0,
    };
    let (full, part) = (tiles / sms, tiles % sms);
    if part == 0 {
        return whole;
    }
    let last_wave = |room: i64| {
        shared(part, k_tiles, sms, room, true).map(|sk_blocks| Decision {
            dp_tiles: full * sms,
            sk_blocks,
        })
    };
    if full < occupancy {
        return last_wave(occupancy - full).unwrap_or(whole);
    }
    if occupancy > 1
        && full % occupancy == occupancy - 1
        && let Some(decision) = last_wave(1)
    {
        return decision;
    }
    let room = occupancy - (full - 1) % occupancy;
    let two_waves = shared(part + sms, k_tiles, sms, room, false);
    two_waves.map_or(whole, |sk_blocks| Decision {
        dp_tiles: (full - 1) * sms,
        sk_blocks,
    })
}

/// The number of blocks that saves most iterations over `tiles` whole tiles, if any does not lose.
///
/// Source: `get_sk_blocks`; the later of two equal savings wins, as there.
fn shared(tiles: i64, k_tiles: i64, sms: i64, room: i64, allow_partial: bool) -> Option<i64> {
    let iters = tiles * k_tiles;
    let least = if allow_partial {
        sms.min(tiles + 1)
    } else {
        sms
    };
    let most = (sms * room).min(iters / LEAST_ITERATIONS);
    (least..=most)
        .map(|blocks| (savings(blocks, tiles, k_tiles, sms), blocks))
        .max()
        .filter(|(saved, _)| *saved >= 0)
        .map(|(_, blocks)| blocks)
}

/// Iterations saved by `blocks` blocks: whole waves, less the longest block's share, less what adding up costs.
fn savings(blocks: i64, tiles: i64, k_tiles: i64, sms: i64) -> i64 {
    let whole = k_tiles * ceil_div(tiles, sms);
    let waves = ceil_div(blocks, sms);
    let each = ceil_div(tiles * k_tiles, blocks) * waves;
    let (peers, skew) = match blocks % tiles {
        0 => (blocks / tiles, 0.0),
        _ => {
            let peers = ceil_div(blocks, tiles) + 1;
            (peers, 0.02f32 * peers as f32 * each as f32)
        }
    };
    let fixup = (2.0f32 * waves as f32 + skew + 2.0f32 * peers as f32) as i64;
    whole - each - fixup
}
