//! Figures of kernels and of the tensors around them: what a load of a convolution brings, what lanes have added, where a list sends
//! rows, which scores a mask hides, how consumers take turns, which tiles run in a wave, which thread has a micro-tile, which ranks hold
//! an element and which flags they set, where keys lie in pages, where sequences begin in a tensor, what parts of the keys cost, and which
//! plans a call of attention takes.

pub(super) mod attention_plans;
pub(super) mod flags;
pub(super) mod im2col;
pub(super) mod lanes;
pub(super) mod listed_rows;
pub(super) mod mask;
pub(super) mod micro_tiles;
pub(super) mod packed;
pub(super) mod pages;
pub(super) mod parts;
pub(super) mod placements;
pub(super) mod turns;
pub(super) mod waves;

use super::options::{needed, pair};
use super::{Body, Error};

/// A number from 1 to 64 under a key, or the number that stands for a missing key.
fn count(body: &Body, key: &str, default: i64) -> Result<i64, Error> {
    let Some(text) = body.value(key) else {
        return Ok(default);
    };
    match text.parse() {
        Ok(number) if (1..=64).contains(&number) => Ok(number),
        _ => Err(Error::new(format!(
            "`{key} = {text}` is not a number from 1 to 64"
        ))),
    }
}

/// Two numbers such as `4x5`, each from 1 to 64, under a key that the figure needs.
fn extents(body: &Body, key: &str) -> Result<[i64; 2], Error> {
    let text = needed(body, key)?;
    let read = text
        .split_once('x')
        .and_then(|(a, b)| Some([a.parse().ok()?, b.parse().ok()?]));
    read.filter(|pair: &[i64; 2]| pair.iter().all(|x| (1..=64).contains(x)))
        .ok_or_else(|| Error::new(format!("`{key} = {text}` is not two numbers as in 4x5")))
}
