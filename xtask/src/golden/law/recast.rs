//! Recast: each element becomes its `n` parts, under a swizzle too.

use super::swizzle::{argument, function};
use crate::golden::case::Case;
use crate::golden::judge::Law;
use crate::golden::value::Value;

/// The law of a recast that splits elements; one that only gathers them is judged by its text.
pub(super) fn of(case: &Case) -> Option<Law> {
    match case.op.trim_end_matches("_swizzled") {
        "downcast" => Some(downcast),
        "recast_layout" => {
            let (old, new) = (case.int(0).ok()?, case.int(1).ok()?);
            match (old % new, new % old) {
                (0, _) => Some(split),
                (_, 0) => None,
                _ => Some(whole),
            }
        }
        _ => None,
    }
}

fn downcast(case: &Case, result: &Value) -> Result<(), String> {
    parts(case, 0, case.int(1)?, result)
}

fn split(case: &Case, result: &Value) -> Result<(), String> {
    parts(case, 2, case.int(0)? / case.int(1)?, result)
}

/// The offsets of the result are `n A(i) + k` for all `k < n`, each as often as there are such `i`.
fn parts(case: &Case, layout: usize, n: i64, result: &Value) -> Result<(), String> {
    let layout = argument(case, layout)?;
    let expected = (0..layout.size()).flat_map(|i| {
        let first = n * layout.at(i);
        first..first + n
    });
    same(sorted(expected.collect()), offsets(result)?)
}

/// Elements of a size that neither divides the other: whatever was gathered first, its parts are all there.
fn whole(case: &Case, result: &Value) -> Result<(), String> {
    let (old, new) = (case.int(0)?, case.int(1)?);
    let n = (1..=old)
        .find(|n| old % n == 0 && new % (old / n) == 0)
        .ok_or("an element has no bits")?;
    let offsets = offsets(result)?;
    let firsts = offsets.iter().filter(|v| v.rem_euclid(n) == 0);
    same(
        sorted(firsts.flat_map(|v| *v..*v + n).collect()),
        offsets.clone(),
    )
}

fn offsets(result: &Value) -> Result<Vec<i64>, String> {
    let result = function(result)?;
    Ok(sorted((0..result.size()).map(|i| result.at(i)).collect()))
}

fn sorted(mut offsets: Vec<i64>) -> Vec<i64> {
    offsets.sort_unstable();
    offsets
}

fn same(expected: Vec<i64>, offsets: Vec<i64>) -> Result<(), String> {
    if expected == offsets {
        return Ok(());
    }
    let (wanted, had) = (expected.len(), offsets.len());
    let at = expected.iter().zip(&offsets).position(|(a, b)| a != b);
    Err(match at {
        Some(at) => format!(
            "its offset {at} in order is {}, and the parts have {}",
            offsets[at], expected[at]
        ),
        None => format!("it has {had} offsets, and the parts {wanted}"),
    })
}
