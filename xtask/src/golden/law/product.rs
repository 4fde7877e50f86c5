//! Product: `(A, A* o B)`, where `A*` is the complement of the block up to `size(A) cosize(B)`.

use super::compose::same;
use super::split::{Form, Piece, any, modes, splits, walk};
use super::{layout_argument, layout_result, reference, tiler_argument};
use crate::golden::case::Case;
use crate::golden::value::{Map, Value, at};

pub(crate) fn logical(case: &Case, result: &Value) -> Result<(), String> {
    multiplied(Form::Logical, case, result)
}

pub(crate) fn zipped(case: &Case, result: &Value) -> Result<(), String> {
    multiplied(Form::Zipped, case, result)
}

pub(crate) fn tiled(case: &Case, result: &Value) -> Result<(), String> {
    multiplied(Form::Tiled, case, result)
}

pub(crate) fn flat(case: &Case, result: &Value) -> Result<(), String> {
    multiplied(Form::Flat, case, result)
}

fn multiplied(form: Form, case: &Case, result: &Value) -> Result<(), String> {
    let (layout, tiler) = (layout_argument(case, 0)?, tiler_argument(case, 1)?);
    let splits = splits(form, &layout, &tiler, layout_result(result)?)?;
    any(&splits, |split| {
        split.pieces.iter().try_for_each(piece)?;
        split
            .untouched
            .iter()
            .try_for_each(|(before, after)| same(before, after))
    })
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

/// Mode by mode the block runs inside, its copies outside.
pub(crate) fn blocked(case: &Case, result: &Value) -> Result<(), String> {
    interleaved(case, result, |block, blocks, tile, _| block + blocks * tile)
}

/// Mode by mode the copies run inside, the block outside.
pub(crate) fn raked(case: &Case, result: &Value) -> Result<(), String> {
    interleaved(case, result, |block, _, tile, tiles| tile + tiles * block)
}

/// `index(block coordinate, block extent, tile coordinate, tile extent)` is the coordinate in a mode of the result.
fn interleaved(
    case: &Case,
    result: &Value,
    index: fn(i64, i64, i64, i64) -> i64,
) -> Result<(), String> {
    let (block, tiler, result) = (
        layout_argument(case, 0)?,
        layout_argument(case, 1)?,
        layout_result(result)?,
    );
    let copies = copies(&block, &tiler)?;
    if result.size() != block.size() * tiler.size() {
        return Err(format!(
            "its size is {}, not {}",
            result.size(),
            block.size() * tiler.size()
        ));
    }
    let (block_modes, tiler_modes, modes) = (modes(&block), modes(&tiler), modes(result));
    for b in 0..block.size() {
        for t in 0..tiler.size() {
            let (mut rest_b, mut rest_t, mut offset) = (b, t, 0);
            for (k, mode) in modes.iter().enumerate() {
                let blocks = block_modes.get(k).map_or(1, Map::size);
                let tiles = tiler_modes.get(k).map_or(1, Map::size);
                offset += mode.at(index(rest_b % blocks, blocks, rest_t % tiles, tiles));
                (rest_b, rest_t) = (rest_b / blocks, rest_t / tiles);
            }
            let expected = block.at(b) + at(&copies, tiler.at(t));
            if offset != expected {
                return Err(format!(
                    "at block {b}, copy {t} it is {offset}, not {expected}"
                ));
            }
        }
    }
    Ok(())
}
