//! `figure placements`: which ranks hold each element of a matrix.
//!
//! The subjects are `shard 0`, `shard 1`, `replicated` and `partial`, side by side. Keys: `shape`, such as `8x4`, needed; `ranks`, 4
//! without it.
//!
//! The ranks are those that `RankLayout` names. Ranks that hold a copy stand beside each other, and ranks that hold a term have a plus
//! sign between them.

use colex_draw::{Cell, Fill, Grid, Picture};
use colex_sched::{Placement, RankLayout};

use super::{Body, Error, count, extents};

pub(in super::super) fn draw(body: &Body) -> Result<Picture, Error> {
    let shape = extents(body, "shape")?;
    let ranks = count(body, "ranks", 4)?;
    let grids = body.subjects()?.iter().map(|name| {
        let tensor = placement(name)?.layout(&shape, ranks)?;
        held(&tensor, shape).map(|grid| {
            grid.caption(format!("{name}, {}", tensor.layout()))
                .axes("m", "n")
        })
    });
    let grids = grids.collect::<Result<Vec<_>, _>>()?;
    let [m, n] = shape;
    Ok(Picture::beside(grids).title(format!(
        "The ranks that hold each element of a matrix of {m} by {n}: {}",
        body.subjects()?.join(", ")
    )))
}

fn placement(name: &str) -> Result<Placement, Error> {
    match name {
        "shard 0" => Ok(Placement::Shard(0)),
        "shard 1" => Ok(Placement::Shard(1)),
        "replicated" => Ok(Placement::Replicate),
        "partial" => Ok(Placement::Partial),
        _ => Err(Error::new(format!(
            "`{name}` is no placement: there are `shard 0`, `shard 1`, `replicated` and `partial`"
        ))),
    }
}

/// A cell for each element, with the ranks that hold it.
fn held(tensor: &RankLayout, [m, n]: [i64; 2]) -> Result<Grid, Error> {
    let mut cells = Vec::new();
    for element in 0..m * n {
        let ranks: Vec<i64> = tensor
            .holders(element)?
            .into_iter()
            .map(|(rank, _)| rank)
            .collect();
        let sign = if tensor.is_sum() { "+" } else { " " };
        let lines = ranks.chunks(2).enumerate().map(|(at, ranks)| {
            let ranks: Vec<String> = ranks.iter().map(i64::to_string).collect();
            let before = if at > 0 && tensor.is_sum() { "+" } else { "" };
            format!("{before}{}", ranks.join(sign))
        });
        let fill = match ranks.as_slice() {
            [rank] => Fill::pastel(*rank),
            _ => Fill::Blank,
        };
        cells.push(Cell::new(lines).filled(fill));
    }
    let grid = Grid::from_fn(m, n, |row, column| {
        cells[(row + m * column) as usize].clone()
    })?;
    Ok(grid)
}

#[cfg(test)]
mod tests {
    use crate::figure::{draw, refused};

    #[test]
    fn a_shard_has_one_rank_and_copies_have_all() {
        let body = "shard 0\nreplicated\npartial\nshape = 4x2\nranks = 2";
        let html = draw("placements", body).expect("the shards are even");
        assert_eq!(html.matches(">0 1</text>").count(), 8);
        assert_eq!(html.matches(">0+1</text>").count(), 8);
        let rows = "Row 0: 0, 0. Row 1: 0, 0. Row 2: 1, 1. Row 3: 1, 1.";
        assert!(
            html.contains(&format!(
                "shard 0, (2,2,2):(1,4,2): 4 rows by 2 columns. {rows}"
            )),
            "{html}"
        );
    }

    #[test]
    fn mistakes_are_sentences() {
        assert_eq!(
            refused("placements", "shard 2\nshape = 4x4"),
            "`shard 2` is no placement: there are `shard 0`, `shard 1`, `replicated` and `partial`"
        );
        assert_eq!(
            refused("placements", "shard 0\nshape = 6x4"),
            "mode 0 of extent 6 over 4 ranks: the extent must be a multiple, and 8 is the next one"
        );
    }
}
