//! Divide: `A o (T, T*)`, where `T*` is the complement of the tile up to the layout's coalesced shape.

use super::compose::compatible;
use super::reference;
use super::split::{Form, Piece, by_pieces, walk};
use crate::golden::case::Case;
use crate::golden::value::{Value, at};

/// The law of the divides, which differ in how they arrange the modes.
pub(super) fn law(form: Form, case: &Case, result: &Value) -> Result<(), String> {
    by_pieces(form, case, result, piece)
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
