//! The forms that a divide or a product comes in, and how each is taken apart into tiles and rests.

use super::compose::same;
use super::{layout_argument, layout_result, tiler_argument};
use crate::golden::case::Case;
use crate::golden::value::{Map, Tiler, Tree, Value};

/// How the modes of a divide or a product are grouped.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    /// `((tile,rest),(tile,rest),..)`
    Logical,
    /// `((tile,tile,..),(rest,rest,..))`
    Zipped,
    /// `((tile,tile,..),rest,rest,..)`
    Tiled,
    /// `(tile,tile,..,rest,rest,..)`
    Flat,
}

/// One mode of the operands, with what the result makes of it.
pub(super) struct Piece {
    pub(super) layout: Map,
    pub(super) tiler: Map,
    pub(super) tile: Map,
    pub(super) rest: Map,
}

/// A result taken apart.
pub(super) struct Split {
    /// Modes that a tiler reaches.
    pub(super) pieces: Vec<Piece>,
    /// Modes that none reaches, as they were and as they are.
    pub(super) untouched: Vec<(Map, Map)>,
}

/// Takes `result` apart in each way that its form allows: a flat form does not say where its tile ends.
/// There is none where the tiler nests, whose forms the laws do not cover.
fn splits(form: Form, layout: &Map, tiler: &Tiler, result: &Map) -> Result<Vec<Split>, String> {
    match tiler {
        Tiler::All => Ok(vec![Split {
            pieces: Vec::new(),
            untouched: vec![(layout.clone(), result.clone())],
        }]),
        Tiler::Map(tiler) => Ok(halves(form, result)?
            .into_iter()
            .map(|(tile, rest)| Piece {
                layout: layout.clone(),
                tiler: tiler.clone(),
                tile,
                rest,
            })
            .map(|piece| Split {
                pieces: vec![piece],
                untouched: Vec::new(),
            })
            .collect()),
        Tiler::Modes(tilers) if tilers.iter().any(|tiler| matches!(tiler, Tiler::Modes(_))) => {
            Ok(Vec::new())
        }
        Tiler::Modes(tilers) => by_mode(form, layout, tilers, result).map(|split| vec![split]),
    }
}

/// The law of a divide or a product: each piece obeys `piece`, and what no tiler reaches is as it was.
pub(super) fn by_pieces(
    form: Form,
    case: &Case,
    result: &Value,
    piece: fn(&Piece) -> Result<(), String>,
) -> Result<(), String> {
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

/// Whether one way of taking the result apart satisfies `law`; if none does, what the first breaks.
fn any(splits: &[Split], law: impl Fn(&Split) -> Result<(), String>) -> Result<(), String> {
    let mut outcomes = splits.iter().map(law);
    match outcomes.next() {
        None | Some(Ok(())) => Ok(()),
        Some(first) => outcomes.find(Result::is_ok).unwrap_or(first),
    }
}

/// The tile and the rest of a result whose tiler is one layout.
fn halves(form: Form, result: &Map) -> Result<Vec<(Map, Map)>, String> {
    let modes = modes(result);
    if modes.len() < 2 {
        return Err(format!(
            "it has {} modes, too few for a tile and a rest",
            modes.len()
        ));
    }
    let join = |modes: &[Map]| {
        if let [mode] = modes {
            mode.clone()
        } else {
            joined(modes)
        }
    };
    let last = if form == Form::Flat {
        modes.len() - 1
    } else {
        1
    };
    Ok((1..=last)
        .map(|tiles| (join(&modes[..tiles]), join(&modes[tiles..])))
        .collect())
}

fn by_mode(form: Form, layout: &Map, tilers: &[Tiler], result: &Map) -> Result<Split, String> {
    let rank = layout.rank();
    if tilers.len() > rank {
        return Err(format!(
            "the tiler has {} modes and the layout {rank}",
            tilers.len()
        ));
    }
    let pick = |i: usize| mode(result, i);
    let mut split = Split {
        pieces: Vec::new(),
        untouched: Vec::new(),
    };
    for i in 0..rank {
        let layout = layout
            .mode(i)
            .expect("the loop runs over the layout's modes");
        let (tile, rest) = match form {
            Form::Logical => match tilers.get(i) {
                None | Some(Tiler::All) => {
                    split.untouched.push((layout, pick(i)?));
                    continue;
                }
                Some(_) => (mode(&pick(i)?, 0)?, mode(&pick(i)?, 1)?),
            },
            Form::Zipped => {
                (mode(&pick(0)?, i), mode(&pick(1)?, i)?).into_tile(i < tilers.len())?
            }
            Form::Tiled => (mode(&pick(0)?, i), pick(1 + i)?).into_tile(i < tilers.len())?,
            Form::Flat => (pick(i), pick(tilers.len() + i)?).into_tile(i < tilers.len())?,
        };
        match tilers.get(i) {
            Some(Tiler::Map(tiler)) => split.pieces.push(Piece {
                layout,
                tiler: tiler.clone(),
                tile,
                rest,
            }),
            _ => split.untouched.push((layout, rest)),
        }
    }
    Ok(split)
}

/// A tile that has to be there only for modes that the tiler reaches, and the rest.
trait IntoTile {
    fn into_tile(self, is_tiled: bool) -> Result<(Map, Map), String>;
}

impl IntoTile for (Result<Map, String>, Map) {
    fn into_tile(self, is_tiled: bool) -> Result<(Map, Map), String> {
        let (tile, rest) = self;
        Ok(if is_tiled {
            (tile?, rest)
        } else {
            (rest.clone(), rest)
        })
    }
}

fn mode(map: &Map, i: usize) -> Result<Map, String> {
    map.mode(i).ok_or_else(|| format!("{map} has no mode {i}"))
}

pub(super) fn modes(map: &Map) -> Vec<Map> {
    (0..map.rank()).filter_map(|i| map.mode(i)).collect()
}

/// The layout with these modes.
fn joined(modes: &[Map]) -> Map {
    Map {
        shape: Tree::Tuple(modes.iter().map(|mode| mode.shape.clone()).collect()),
        stride: Tree::Tuple(modes.iter().map(|mode| mode.stride.clone()).collect()),
    }
}

/// Whether tile plus rest is `value(i, j)` at every `i` of the tile and `j` of the rest.
pub(super) fn walk(
    piece: &Piece,
    rests: i64,
    value: impl Fn(i64, i64) -> i64,
) -> Result<(), String> {
    if piece.rest.size() != rests {
        return Err(format!(
            "its rest {} has size {}, not {rests}",
            piece.rest,
            piece.rest.size()
        ));
    }
    for j in 0..rests {
        for i in 0..piece.tile.size() {
            let offset = piece.tile.at(i) + piece.rest.at(j);
            if offset != value(i, j) {
                return Err(format!(
                    "at tile {i}, rest {j} it is {offset}, not {}",
                    value(i, j)
                ));
            }
        }
    }
    Ok(())
}
