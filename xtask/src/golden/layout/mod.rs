//! The operations of `colex-layout`: how the arguments of a case become a call.

mod algebra;
mod coordinate;
mod product;
mod slice;
mod surgery;
mod swizzle;
mod tuple;

use std::fmt::Display;
use std::str::FromStr;

use colex_layout::{Coord, IntTuple, Layout, Tiler};

use super::Op;
use super::case::Case;
use super::value::Value;

/// The families of the layout crate.
pub(super) const FAMILIES: &[&[Op]] = &[
    algebra::OPS,
    coordinate::OPS,
    product::OPS,
    slice::OPS,
    surgery::OPS,
    swizzle::OPS,
    tuple::OPS,
];

/// Our answer to a case, or the sentence with which we refuse it.
type Answer = Result<Value, String>;

/// A result as the text it prints.
fn printed(result: impl Display) -> Value {
    Value::of_text(&result.to_string())
}

/// A result or our error as the text it prints.
fn tried<T: Display, E: Display>(result: Result<T, E>) -> Answer {
    result.map(printed).map_err(|error| error.to_string())
}

/// A yes or no, or our error.
fn decided<E: Display>(result: Result<bool, E>) -> Answer {
    result.map(Value::Bool).map_err(|error| error.to_string())
}

fn parsed<T: FromStr<Err: Display>>(case: &Case, i: usize) -> Result<T, String> {
    let text = case.text(i)?;
    text.parse()
        .map_err(|error| format!("argument {i}, `{text}`: {error}"))
}

fn layout(case: &Case, i: usize) -> Result<Layout, String> {
    parsed(case, i)
}

fn tiler(case: &Case, i: usize) -> Result<Tiler, String> {
    parsed(case, i)
}

fn tuple(case: &Case, i: usize) -> Result<IntTuple, String> {
    parsed(case, i)
}

/// Argument `i` as a mode index or a rank.
fn count(case: &Case, i: usize) -> Result<usize, String> {
    let value = case.int(i)?;
    usize::try_from(value).map_err(|_| format!("argument {i} is {value}, not a count"))
}

/// Argument `i` as a list of mode indices.
fn counts(case: &Case, i: usize) -> Result<Vec<usize>, String> {
    let values = case.ints(i)?.into_iter();
    let counts: Result<_, _> = values.map(usize::try_from).collect();
    counts.map_err(|_| format!("argument {i} is not a list of mode indices"))
}

/// The first argument as a coordinate in which `_` stands for a whole mode.
fn coord(case: &Case) -> Result<Coord, String> {
    parsed(case, 0)
}
