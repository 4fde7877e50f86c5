//! Every tile formula once, over [`Arith`]: with `i64` for the host, with [`crate::Expr`] for a kernel.
//!
//! Coordinates are in tiles. The functions do not check bounds; the types that call them do.

use crate::number::expr::Arith;

/// The most places of a grid that a formula counts in a register of 32 bits: no problem has as many tiles.
pub const MOST_PLACES: i64 = 1 << 30;

/// Returns the tile `[m, n]` of block `(bx, by)` of an identity swizzle of `width` columns (S76).
///
/// CUTLASS writes it with shifts by `log_tile`; `width` is `1 << log_tile`.
/// Source: `threadblock_swizzle.h`, `GemmIdentityThreadblockSwizzle::get_tile_offset(int)`.
pub fn identity<T: Arith>(bx: T, by: T, width: T) -> [T; 2] {
    [bx.clone() / width.clone(), by * width.clone() + bx % width]
}

/// Returns the block `[bx, by]` of tile `(m, n)` of an identity swizzle: the inverse of [`identity`].
pub fn identity_block<T: Arith>(m: T, n: T, width: T) -> [T; 2] {
    [m * width.clone() + n.clone() % width.clone(), n / width]
}

/// Returns the `[major, minor]` cluster of cluster number `id` along a serpentine of columns `width` clusters wide.
///
/// `major` is the axis the raster runs along, `blocks_major` its extent in clusters.
/// Source: `sm90_tile_scheduler.hpp`, `get_work_idx_m_and_n`.
pub fn sm90_cluster<T: Arith>(id: T, blocks_major: T, width: T) -> [T; 2] {
    let (offset, strip) = (id.clone() % width.clone(), id / width.clone());
    [
        strip.clone() % blocks_major.clone(),
        strip / blocks_major * width + offset,
    ]
}

/// Returns the cluster number of cluster `(major, minor)`: the inverse of [`sm90_cluster`].
pub fn sm90_cluster_id<T: Arith>(major: T, minor: T, blocks_major: T, width: T) -> T {
    let strip = minor.clone() / width.clone() * blocks_major + major;
    strip * width.clone() + minor % width
}

/// Returns the `[major, minor]` tile of place `i` when the raster runs along major in strips of `width` minor tiles,
/// the last strip narrower: no place is wasted, for all extents.
///
/// This is the grouped raster of Triton's matmul tutorial and DeepGEMM.
pub fn grouped<T: Arith>(i: T, major: T, minor: T, width: i64) -> [T; 2] {
    let place = |x: T| x.within(0..MOST_PLACES);
    let i = place(i);
    let span = (major * T::from(width)).within(1..MOST_PLACES);
    let strip = (i.clone() / span.clone()).within(0..MOST_PLACES / width.max(1));
    let first = place(strip.clone() * T::from(width));
    let wide = T::min(minor - first.clone(), T::from(width));
    let wide = wide.within(1..width.saturating_add(1));
    let inside = place(i - place(strip * span));
    let [along, across] = [inside.clone() / wide.clone(), inside % wide];
    [place(along), place(first + across)]
}

/// Returns the place of tile `(a, b)` on the major and minor axis: the inverse of [`grouped`].
pub fn grouped_place<T: Arith>(a: T, b: T, major: T, minor: T, width: i64) -> T {
    let first = b.clone() / T::from(width) * T::from(width);
    let wide = T::min(minor - first.clone(), T::from(width));
    first.clone() * major + a * wide + (b - first)
}

/// Returns where a share of a row of k-tiles begins: shares have `each` k-tiles, and the first `more` of them one more.
pub fn share_begin<T: Arith>(share: T, each: T, more: T) -> T {
    share.clone() * each + T::min(share, more)
}

/// Returns the share of a row that has the k-tile at `place`: the inverse of [`share_begin`].
pub fn share_of<T: Arith>(place: T, each: T, more: T) -> T {
    let long = each.clone() + T::from(1);
    let before = T::min(place.clone(), more * long.clone());
    before.clone() / long + (place - before) / each
}

/// Returns the cut `[tile, k]` of a row at `place`, of tiles of `k_tiles` k-tiles: inside of a tile, or at the border of one if
/// that is fewer than `least` k-tiles away. `least` is at least 1.
///
/// Source: `sm90_tile_scheduler_stream_k.hpp`, where `least` is 8.
pub fn share_cut<T: Arith>(place: T, k_tiles: T, least: T) -> [T; 2] {
    let (tile, k) = (place.clone() / k_tiles.clone(), place % k_tiles.clone());
    let chosen = |below: T, above: T, inside: T| {
        let others = T::select_lt(k_tiles.clone(), k.clone() + least.clone(), above, inside);
        T::select_lt(k.clone(), least.clone(), below, others)
    };
    let up = chosen(T::from(0), T::from(1), T::from(0));
    let inside = chosen(T::from(0), T::from(0), k.clone());
    [tile + up, inside]
}

/// Returns the first and the last share of a row that have parts of a tile. Shares have `each` k-tiles, and the first `more` of
/// them one more; cuts are those of [`share_cut`], with a `least` from 1 to `k_tiles`.
pub fn share_peers<T: Arith>(tile: T, k_tiles: T, least: T, [each, more]: [T; 2]) -> [T; 2] {
    // The first share is the one behind which the cut stays above the lower border, and the last the one whose cut stays below
    // the upper border.
    let begin = tile * k_tiles.clone();
    let first = least.clone() - T::from(1);
    let last = T::select_lt(
        k_tiles.clone(),
        least.clone() + least.clone(),
        first.clone(),
        k_tiles - least,
    );
    [first, last].map(|k| share_of(begin.clone() + k, each.clone(), more.clone()))
}

/// Returns the point `[x, y]` at distance `d` along the Z-order (Morton) curve of a square of side `2^bits`.
pub fn morton<T: Arith>(d: T, bits: u32) -> [T; 2] {
    let (mut x, mut y) = (T::from(0), T::from(0));
    let mut rest = d;
    for bit in 0..bits {
        let weight = T::from(1 << bit);
        x = x + rest.clone() % T::from(2) * weight.clone();
        y = y + rest.clone() / T::from(2) % T::from(2) * weight;
        rest = rest / T::from(4);
    }
    [x, y]
}

/// Returns the point `[x, y]` at distance `d` along the Hilbert curve of a square of side `2^bits`, from `(0, 0)` to
/// `(2^bits - 1, 0)`.
///
/// Neighbours on the curve are neighbours in the plane. Source: Hilbert 1891; the digit-by-digit form is folklore.
///
/// As an expression it has a few thousand operations for 16 bits: they grow with the third power of the bits.
pub fn hilbert<T: Arith>(d: T, bits: u32) -> [T; 2] {
    // The quadrants are, in curve order, (0,0), (0,1), (1,1) and (1,0). Inside of quadrant 0 the curve is transposed, and
    // inside of quadrant 3 transposed across the other diagonal, which also turns it around. Both commute, so what counts
    // is how many of the digits before are 0 or 3, and how many are 3.
    let mut digits = Vec::with_capacity(bits as usize);
    let mut rest = d;
    for _ in 0..bits {
        digits.push(rest.clone() % T::from(4));
        rest = rest / T::from(4);
    }
    let (mut x, mut y) = (T::from(0), T::from(0));
    let (mut transposed, mut turned) = (T::from(0), T::from(0));
    for (bit, digit) in digits.into_iter().enumerate().rev() {
        let right = digit.clone() / T::from(2);
        // 1 of the two quadrants in the middle, and of those at the ends 0 or 2.
        let middle = (digit.clone() + T::from(1)) / T::from(2);
        let up = middle.clone() % T::from(2);
        let parity = transposed.clone() % T::from(2);
        let swapped = |plain: &T, other: &T| {
            T::select_lt(parity.clone(), T::from(1), plain.clone(), other.clone())
        };
        let at = |quadrant: T| (quadrant + turned.clone()) % T::from(2) * T::from(1 << bit);
        (x, y) = (x + at(swapped(&right, &up)), y + at(swapped(&up, &right)));
        transposed = transposed + middle + T::from(1);
        turned = turned + digit / T::from(3);
    }
    [x, y]
}
