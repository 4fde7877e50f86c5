//! Layouts under a swizzle: what forwards obeys the plain law inside, the rest is stated as functions.

use super::of_op;
use crate::golden::case::Case;
use crate::golden::function::Function;
use crate::golden::judge::Law;
use crate::golden::value::Value;

/// The law of an operation that has a swizzle among its arguments.
pub(super) fn of(op: &str) -> Option<Law> {
    Some(match op {
        "composition_swizzle_swizzle" | "composition_layout_swizzle" | "composition" => composition,
        "right_inverse_swizzled" | "right_inverse" => right_inverse,
        "left_inverse_swizzled" | "left_inverse" => left_inverse,
        _ => {
            of_op(op.trim_end_matches("_swizzled"))?;
            forwarded
        }
    })
}

/// The swizzle and the offset stay, and the layouts under them obey the law without swizzles.
fn forwarded(case: &Case, result: &Value) -> Result<(), String> {
    let (prefix, layout) = taken_apart(&case.text(0)?)?;
    let (result_prefix, result) = taken_apart(&result.to_string())?;
    if prefix != result_prefix {
        return Err(format!("it is under `{result_prefix}`, not `{prefix}`"));
    }
    let mut plain = case.clone();
    plain.op = case.op.trim_end_matches("_swizzled").to_string();
    plain.args[0] = layout.into();
    let law = of_op(&plain.op).expect("only operations with a plain law are forwarded");
    law(&plain, &Value::of_text(&result))
}

/// `Sw<B,M,S> o OFFSET` and the layout.
fn taken_apart(text: &str) -> Result<(String, String), String> {
    let (prefix, layout) = text
        .rsplit_once(" o ")
        .ok_or_else(|| format!("{text} is under no swizzle"))?;
    Ok((prefix.to_string(), layout.to_string()))
}

/// `R(i) = A(B(i))`.
fn composition(case: &Case, result: &Value) -> Result<(), String> {
    let (outer, inner, result) = (argument(case, 0)?, argument(case, 1)?, function(result)?);
    walk(result.size(), |index| {
        (result.at(index), outer.at(inner.at(index)))
    })
}

/// `A(R(i)) = i`.
fn right_inverse(case: &Case, result: &Value) -> Result<(), String> {
    let (layout, inverse) = (argument(case, 0)?, function(result)?);
    walk(inverse.size(), |index| {
        (layout.at(inverse.at(index)), index)
    })
}

/// `A(L(A(i))) = A(i)`.
fn left_inverse(case: &Case, result: &Value) -> Result<(), String> {
    let (layout, inverse) = (argument(case, 0)?, function(result)?);
    walk(layout.size(), |index| {
        (layout.at(inverse.at(layout.at(index))), layout.at(index))
    })
}

pub(super) fn argument(case: &Case, i: usize) -> Result<Function, String> {
    let text = case.text(i)?;
    Function::parse(&text).ok_or_else(|| format!("argument {i}, `{text}`, is not a function"))
}

pub(super) fn function(result: &Value) -> Result<Function, String> {
    Function::of(result).ok_or_else(|| format!("{result} is not a function"))
}

/// Whether both sides of an equation agree at every index; if not, at which they differ.
fn walk(size: i64, sides: impl Fn(i64) -> (i64, i64)) -> Result<(), String> {
    let differs = |&index: &i64| sides(index).0 != sides(index).1;
    match (0..size).find(differs) {
        None => Ok(()),
        Some(index) => Err(format!(
            "at {index} it gives {}, not {}",
            sides(index).0,
            sides(index).1
        )),
    }
}
