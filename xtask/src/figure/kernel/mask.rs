//! `figure mask`: the scores that a causal mask lets through, tile by tile.
//!
//! The subject is `causal`. Keys:
//! - `scores`: queries by keys, such as `6x8`; needed;
//! - `tile`: queries by keys of a tile, such as `2x2`; needed.
//!
//! The queries are the last of the sequence, as in `colex_gpu::attention`. The drawing sorts the tiles by the three conditions of the
//! chapter, and is refused if they disagree with a score.

use colex_draw::{Cell, Fill, Grid, Picture};

use super::{Body, Error, extents};

/// What the loop over the keys does with a tile.
#[derive(Clone, Copy, Debug, PartialEq)]
enum MaskedTile {
    Hidden,
    Whole,
    Diagonal,
}

pub(in super::super) fn draw(body: &Body) -> Result<Picture, Error> {
    match body.subjects()? {
        [what] if what == "causal" => {}
        _ => return Err(Error::new("a mask has one subject, `causal`")),
    }
    let scores = extents(body, "scores")?;
    let tile = extents(body, "tile")?;
    let [queries, keys] = scores;
    let of = |i: i64, j: i64| seen(scores, tile, [i / tile[0], j / tile[1]]);
    for i in 0..queries {
        for j in 0..keys {
            let is_seen = j <= i + keys - queries;
            let wrong = match of(i, j) {
                MaskedTile::Hidden => is_seen,
                MaskedTile::Whole => !is_seen,
                MaskedTile::Diagonal => false,
            };
            if wrong {
                return Err(Error::new(format!(
                    "the tile of query {i} and key {j} is not of its kind"
                )));
            }
        }
    }
    let cell = |i: i64, j: i64| match of(i, j) {
        MaskedTile::Hidden => Cell::default().filled(Fill::Void),
        MaskedTile::Whole => Cell::new(["s"]).filled(Fill::pastel(0)),
        MaskedTile::Diagonal if j <= i + keys - queries => Cell::new(["s"]).filled(Fill::pastel(2)),
        MaskedTile::Diagonal => Cell::new(["-∞"]).filled(Fill::pastel(2)),
    };
    let grid = Grid::from_fn(queries, keys, cell)?
        .regions(|i, j| i / tile[0] * keys + j / tile[1])
        .caption("queries down, keys across");
    Ok(Picture::of(grid)
        .title(format!(
            "The scores of {queries} queries and {keys} keys under a causal mask, in tiles of {} by {}",
            tile[0], tile[1]
        ))
        .legend([
            (Fill::pastel(0), "seen by all queries"),
            (Fill::pastel(2), "on the diagonal"),
            (Fill::Void, "hidden"),
        ]))
}

/// The kind of a tile, by the first and last of its queries and keys.
fn seen([queries, keys]: [i64; 2], tile: [i64; 2], at: [i64; 2]) -> MaskedTile {
    let first = at[0] * tile[0] + keys - queries;
    let end = (at[0] * tile[0] + tile[0]).min(queries) + keys - queries;
    let (key, key_end) = (at[1] * tile[1], (at[1] * tile[1] + tile[1]).min(keys));
    if key >= end {
        MaskedTile::Hidden
    } else if key_end - 1 <= first {
        MaskedTile::Whole
    } else {
        MaskedTile::Diagonal
    }
}

#[cfg(test)]
mod tests {
    use super::{MaskedTile, seen};
    use crate::figure::{draw, refused};

    #[test]
    fn a_tile_is_hidden_or_whole_only_if_all_its_scores_are() {
        let mut tiles = 0;
        for (queries, keys) in (1..7).flat_map(|m| (1..9).map(move |n| (m, n))) {
            for tile in [[1, 1], [2, 2], [2, 3], [3, 2], [4, 4]] {
                let counts = [queries, keys];
                let sides = [0, 1].map(|side| (counts[side] + tile[side] - 1) / tile[side]);
                for at in (0..sides[0]).flat_map(|a| (0..sides[1]).map(move |b| [a, b])) {
                    let range = |side: usize| {
                        let first = at[side] * tile[side];
                        first..(first + tile[side]).min(counts[side])
                    };
                    let all: Vec<bool> = range(0)
                        .flat_map(|i| range(1).map(move |j| j <= i + keys - queries))
                        .collect();
                    let expected = match (all.contains(&true), all.contains(&false)) {
                        (false, _) => MaskedTile::Hidden,
                        (_, false) => MaskedTile::Whole,
                        _ => MaskedTile::Diagonal,
                    };
                    assert_eq!(
                        seen(counts, tile, at),
                        expected,
                        "{counts:?} {tile:?} {at:?}"
                    );
                    tiles += 1;
                }
            }
        }
        assert!(tiles > 500);
    }

    #[test]
    fn a_mask_is_drawn() {
        let html = draw("mask", "causal\nscores = 4x4\ntile = 2x2").expect("it is well formed");
        assert_eq!(html.matches(">-∞</text>").count(), 2);
        assert_eq!(html.matches(">s</text>").count(), 4 + 2 * 3);
    }

    #[test]
    fn mistakes_are_sentences() {
        assert_eq!(
            refused("mask", "window"),
            "a mask has one subject, `causal`"
        );
        assert_eq!(
            refused("mask", "causal\nscores = 4x4"),
            "the figure needs `tile = ..`"
        );
    }
}
