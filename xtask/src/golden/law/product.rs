//! Product: `(A, A* o B)`, where `A*` is the complement of the block up to `size(A) cosize(B)`.

use super::split::{Form, Piece, by_pieces, modes, walk};
use super::{layout_argument, layout_result, reference};
use crate::golden::case::Case;
use crate::golden::value::{Map, Tree, Value, at};

/// The law of the products, which differ in how they arrange the modes.
pub(super) fn law(form: Form, case: &Case, result: &Value) -> Result<(), String> {
    by_pieces(form, case, result, piece)
}

fn piece(piece: &Piece) -> Result<(), String> {
    if piece.tile.size() != piece.layout.size() {
        return Err(format!(
            "its block {} has not the size of {}",
            piece.tile, piece.layout
        ));
    }
    let copies = copies(&piece.layout, &piece.tiler)?;
    walk(piece, piece.tiler.size(), |i, j| {
        piece.layout.at(i) + at(&copies, piece.tiler.at(j))
    })
}

/// Where the copies of a block may start: its complement up to `size(block) cosize(tiler)`.
fn copies(block: &Map, tiler: &Map) -> Result<Vec<(i64, i64)>, String> {
    let room = block.size() * tiler.cosize();
    Ok(reference::complement(&block.leaves(), &[room]).ok_or("the block's modes overlap")?)
}

/// The coordinate in a mode of the result, of a block's coordinate and extent and a copy's coordinate and extent.
type Interleave = fn(i64, i64, i64, i64) -> i64;

/// The block runs inside, its copies outside.
fn inside(block: i64, blocks: i64, copy: i64, _: i64) -> i64 {
    block + blocks * copy
}

/// The copies run inside, the block outside.
fn outside(block: i64, _: i64, copy: i64, copies: i64) -> i64 {
    copy + copies * block
}

pub(crate) fn blocked(case: &Case, result: &Value) -> Result<(), String> {
    product(
        &layout_argument(case, 0)?,
        &layout_argument(case, 1)?,
        layout_result(result)?,
        inside,
    )
}

pub(crate) fn raked(case: &Case, result: &Value) -> Result<(), String> {
    product(
        &layout_argument(case, 0)?,
        &layout_argument(case, 1)?,
        layout_result(result)?,
        outside,
    )
}

/// A blocked product with as many copies of the block in each mode as cover the shape, in the order asked for.
pub(crate) fn tile_to_shape(case: &Case, result: &Value) -> Result<(), String> {
    let (block, result) = (layout_argument(case, 0)?, layout_result(result)?);
    let shape = Tree::parse(&case.text(1)?).ok_or("the shape is not a tuple of integers")?;
    let extents: Vec<i64> = shape.modes().iter().map(Tree::size).collect();
    let blocks = modes(&block);
    let counts = extents.iter().enumerate().map(|(k, extent)| {
        let block = blocks.get(k).map_or(1, Map::size);
        (extent + block - 1) / block
    });
    let tiler = ordered(&counts.collect::<Vec<i64>>(), &order(case, extents.len())?);
    product(&block, &tiler, result, inside)
}

/// The rank of each mode among the modes: 0 is fastest.
fn order(case: &Case, rank: usize) -> Result<Vec<i64>, String> {
    let modes = || 0..i64::try_from(rank).expect("a rank is small");
    match case.text(2).as_deref() {
        Err(_) => Ok(modes().collect()),
        Ok("LayoutRight") => Ok(modes().rev().collect()),
        Ok(order) => Ok(Tree::parse(order)
            .ok_or("the order is not a tuple of integers")?
            .leaves()),
    }
}

/// The compact layout whose modes run in this order.
fn ordered(extents: &[i64], order: &[i64]) -> Map {
    let mut modes: Vec<usize> = (0..extents.len()).collect();
    modes.sort_by_key(|&mode| order.get(mode));
    let (mut strides, mut stride) = (vec![0; extents.len()], 1);
    for mode in modes {
        strides[mode] = stride;
        stride *= extents[mode];
    }
    let tuple = |values: &[i64]| Tree::Tuple(values.iter().copied().map(Tree::Int).collect());
    Map {
        shape: tuple(extents),
        stride: tuple(&strides),
    }
}

/// Whether `result` is the product whose modes interleave block and copies in this way.
fn product(block: &Map, tiler: &Map, result: &Map, index: Interleave) -> Result<(), String> {
    let starts = copies(block, tiler)?;
    if result.size() != block.size() * tiler.size() {
        return Err(format!(
            "its size is {}, not {}",
            result.size(),
            block.size() * tiler.size()
        ));
    }
    let (block_modes, tiler_modes, modes) = (modes(block), modes(tiler), modes(result));
    for b in 0..block.size() {
        for t in 0..tiler.size() {
            let (mut rest_b, mut rest_t, mut offset) = (b, t, 0);
            for (k, mode) in modes.iter().enumerate() {
                let blocks = block_modes.get(k).map_or(1, Map::size);
                let tiles = tiler_modes.get(k).map_or(1, Map::size);
                offset += mode.at(index(rest_b % blocks, blocks, rest_t % tiles, tiles));
                (rest_b, rest_t) = (rest_b / blocks, rest_t / tiles);
            }
            let expected = block.at(b) + at(&starts, tiler.at(t));
            if offset != expected {
                return Err(format!(
                    "at block {b}, copy {t} it is {offset}, not {expected}"
                ));
            }
        }
    }
    Ok(())
}
