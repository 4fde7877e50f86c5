//! Coalesce and composition: what happens to the function.

use super::{layout_argument, layout_result, tiler_argument};
use crate::golden::case::Case;
use crate::golden::judge::agrees;
use crate::golden::value::{Map, Tiler, Tree, Value};

/// Regrouping: the result is the same function of the index.
pub(crate) fn same_function(case: &Case, result: &Value) -> Result<(), String> {
    let (layout, result) = (layout_argument(case, 0)?, layout_result(result)?);
    if layout.size() != result.size() {
        return Err(format!(
            "its size is {}, not {}",
            result.size(),
            layout.size()
        ));
    }
    agrees(result, |index| layout.at(index))
}

/// Another shape: the same function as far as the new shape goes, and every coordinate of that shape is one of it.
pub(crate) fn reshaped(case: &Case, result: &Value) -> Result<(), String> {
    let (layout, result) = (layout_argument(case, 0)?, layout_result(result)?);
    let asked = Tree::parse(&case.text(1)?).ok_or("the shape is not a tuple of integers")?;
    compatible(&asked, result)?;
    agrees(result, |index| layout.at(index))
}

/// `R(c) = A(B(c))` for every `c`, and every coordinate of `B` is one of `R`.
pub(crate) fn composition(case: &Case, result: &Value) -> Result<(), String> {
    composed(
        &layout_argument(case, 0)?,
        &tiler_argument(case, 1)?,
        layout_result(result)?,
    )
}

fn composed(outer: &Map, inner: &Tiler, result: &Map) -> Result<(), String> {
    match inner {
        Tiler::All => same(outer, result),
        Tiler::Map(inner) => {
            compatible(&inner.shape, result)?;
            agrees(result, |index| outer.at(inner.at(index)))
        }
        Tiler::Modes(tilers) => {
            if result.rank() != tilers.len() || matches!(result.shape, Tree::Int(_)) {
                return Err(format!(
                    "it has not the {} modes of the tiler",
                    tilers.len()
                ));
            }
            tilers.iter().enumerate().try_for_each(|(i, tiler)| {
                let outer = outer
                    .mode(i)
                    .ok_or_else(|| format!("the layout has no mode {i} for the tiler"))?;
                let result = result
                    .mode(i)
                    .expect("the result has as many modes as the tiler");
                composed(&outer, tiler, &result).map_err(|what| format!("mode {i}: {what}"))
            })
        }
    }
}

/// Whether every coordinate of `shape` is one of `result`.
pub(super) fn compatible(shape: &Tree, result: &Map) -> Result<(), String> {
    if shape.is_compatible(&result.shape) {
        Ok(())
    } else {
        Err(format!(
            "its shape {} does not take the coordinates of {shape}",
            result.shape
        ))
    }
}

/// Whether `result` is `layout` as a function of the index.
pub(super) fn same(layout: &Map, result: &Map) -> Result<(), String> {
    compatible(&Tree::Int(layout.size()), result)?;
    agrees(result, |index| layout.at(index))
}
