//! Divide: `A o (T, T*)`, where `T*` is the complement of the tile up to the layout's coalesced shape.

use super::compose::{compatible, same};
use super::split::{Form, Piece, any, splits, walk};
use super::{layout_argument, layout_result, reference, tiler_argument};
use crate::golden::case::Case;
use crate::golden::value::{Value, at};

pub(crate) fn logical(case: &Case, result: &Value) -> Result<(), String> {
    divided(Form::Logical, case, result)
}

pub(crate) fn zipped(case: &Case, result: &Value) -> Result<(), String> {
    divided(Form::Zipped, case, result)
}

pub(crate) fn tiled(case: &Case, result: &Value) -> Result<(), String> {
    divided(Form::Tiled, case, result)
}

pub(crate) fn flat(case: &Case, result: &Value) -> Result<(), String> {
    divided(Form::Flat, case, result)
}

fn divided(form: Form, case: &Case, result: &Value) -> Result<(), String> {
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
    // A flat divide by a tuple of one tiler keeps that tuple around its tile.
    match piece.tile.mode(0) {
        Some(only) if piece.tile.rank() == 1 && compatible(&piece.tiler.shape, &only).is_ok() => {}
        _ => compatible(&piece.tiler.shape, &piece.tile)?,
    }
    let extents = reference::coalesced_extents(&piece.layout.leaves());
    let rest = reference::complement(&piece.tiler.leaves(), &extents)
        .ok_or("the tiler's modes overlap")?;
    let rests = rest.iter().map(|(extent, _)| extent).product();
    walk(piece, rests, |i, j| {
        piece.layout.at(piece.tiler.at(i) + at(&rest, j))
    })
}
