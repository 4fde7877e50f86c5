//! Recast: each element becomes its `n` parts, or lies in one of the larger units; under a swizzle too.

use super::swizzle::{argument, function};
use crate::golden::case::Case;
use crate::golden::judge::Law;
use crate::golden::value::Value;

/// The law of a recast.
pub(super) fn of(case: &Case) -> Option<Law> {
    match case.op.trim_end_matches("_swizzled") {
        "upcast" => Some(upcast),
        "downcast" => Some(downcast),
        "recast_layout" => {
            let (old, new) = (case.int(0).ok()?, case.int(1).ok()?);
            match (old % new, new % old) {
                (0, _) => Some(split),
                (_, 0) => Some(gathered),
                _ => Some(touched),
            }
        }
        _ => None,
    }
}

fn upcast(case: &Case, result: &Value) -> Result<(), String> {
    units(case, 0, case.int(1)?, result)
}

fn gathered(case: &Case, result: &Value) -> Result<(), String> {
    units(case, 2, case.int(1)? / case.int(0)?, result)
}

/// At the digits of the units, the result is the unit of `n` in which the element lies.
fn units(case: &Case, layout: usize, n: i64, result: &Value) -> Result<(), String> {
    let (layout, result) = (argument(case, layout)?, function(result)?);
    let steps = layout.steps_within(n);
    let extents = layout.shape().leaves();
    let shape: Vec<i64> = extents
        .iter()
        .zip(&steps)
        .map(|(s, k)| (s + k - 1) / k)
        .collect();
    if shape != result.shape().leaves() {
        return Err(format!(
            "its extents are not those of the units of {n}, {shape:?}"
        ));
    }
    for index in 0..layout.size() {
        let (mut rest, mut before, mut at) = (index, 1, 0);
        for ((extent, k), units) in extents.iter().zip(&steps).zip(&shape) {
            at += rest % extent / k * before;
            rest /= extent;
            before *= units;
        }
        let (unit, found) = (layout.at(index).div_euclid(n), result.at(at));
        if unit != found {
            return Err(format!(
                "at {index} the layout is {}, in unit {unit} of {n}, but it is {found} there",
                layout.at(index)
            ));
        }
    }
    Ok(())
}

/// The offsets of the result are the elements of `new` bits that share a bit with an element of `old` bits.
fn touched(case: &Case, result: &Value) -> Result<(), String> {
    let (layout, old, new) = (argument(case, 2)?, case.int(0)?, case.int(1)?);
    let expected = (0..layout.size()).flat_map(|i| {
        let first = old * layout.at(i);
        first.div_euclid(new)..=(first + old - 1).div_euclid(new)
    });
    let each_once = |offsets: Vec<i64>| {
        let mut offsets = sorted(offsets);
        offsets.dedup();
        offsets
    };
    same(
        "elements",
        each_once(expected.collect()),
        each_once(offsets(result)?),
    )
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
    same("parts", sorted(expected.collect()), offsets(result)?)
}

fn offsets(result: &Value) -> Result<Vec<i64>, String> {
    let result = function(result)?;
    Ok(sorted((0..result.size()).map(|i| result.at(i)).collect()))
}

fn sorted(mut offsets: Vec<i64>) -> Vec<i64> {
    offsets.sort_unstable();
    offsets
}

fn same(what: &str, expected: Vec<i64>, offsets: Vec<i64>) -> Result<(), String> {
    if expected == offsets {
        return Ok(());
    }
    let (wanted, had) = (expected.len(), offsets.len());
    let at = expected.iter().zip(&offsets).position(|(a, b)| a != b);
    Err(match at {
        Some(at) => format!(
            "its offset {at} in order is {}, and the {what} have {}",
            offsets[at], expected[at]
        ),
        None => format!("it has {had} offsets, and the {what} {wanted}"),
    })
}
