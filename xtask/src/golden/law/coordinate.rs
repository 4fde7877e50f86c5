//! Coordinate strides: each coordinate is weighed, and the weights obey the law of integer layouts.
//!
//! A weight is a large number of its own for every path `@1@0`. Two values that weigh the same but are different
//! coordinates would need a relation between these numbers with small factors, and there is none.

use super::{layout_argument, layout_result, of_op};
use crate::golden::case::Case;
use crate::golden::judge::{Law, agrees};
use crate::golden::value::{Map, Value, inside, split};

/// The law of an operation on identity layouts.
pub(super) fn of(op: &str) -> Option<Law> {
    match op.strip_suffix("_identity") {
        Some(plain) => of_op(plain).map(|_| weighed as Law),
        None => (op == "composition_basis").then_some(by_coordinate as Law),
    }
}

/// The law of an operation whose tiler has coordinate strides.
pub(super) fn of_tiler(op: &str) -> Option<Law> {
    matches!(op, "composition" | "composition_tiler").then_some(by_tiler as Law)
}

/// Mode by mode, as the tiler has it: coordinate strides by coordinate, all else by the plain law.
fn by_tiler(case: &Case, result: &Value) -> Result<(), String> {
    let text = case.text(1)?;
    if !text.contains('@') {
        let law = of_op(&case.op).expect("composition has a plain law");
        return law(case, result);
    }
    let Some(tilers) = inside(&text) else {
        return by_coordinate(case, result);
    };
    let (layout, result) = (layout_argument(case, 0)?, layout_result(result)?);
    for (i, tiler) in split(tilers).into_iter().enumerate() {
        let (outer, found) = layout
            .mode(i)
            .zip(result.mode(i))
            .ok_or_else(|| format!("there is no mode {i} for the tiler"))?;
        let mut mode = case.clone();
        mode.args = vec![outer.to_string().into(), tiler.into()];
        by_tiler(&mode, &Value::Map(found)).map_err(|what| format!("mode {i}: {what}"))?;
    }
    Ok(())
}

fn weighed(case: &Case, result: &Value) -> Result<(), String> {
    let mut plain = case.clone();
    plain.op = case.op.trim_end_matches("_identity").to_string();
    plain.args[0] = weigh(&case.text(0)?)?.into();
    let law = of_op(&plain.op).expect("only operations with a plain law are weighed");
    law(&plain, &Value::of_text(&weigh(&result.to_string())?))
}

/// `layout` with an integer for every coordinate stride.
fn weigh(layout: &str) -> Result<String, String> {
    let stride = |text: &str| match text.split_once('@') {
        None => Ok(text.to_string()),
        Some((factor, path)) => {
            let factor: i64 = factor
                .parse()
                .map_err(|_| format!("`{text}` is not a stride"))?;
            Ok((factor * weight(path)).to_string())
        }
    };
    strides(layout, stride)
}

/// A number of 40 bits for a path, after Fowler, Noll and Vo.
fn weight(path: &str) -> i64 {
    let hash = path.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    i64::try_from(hash >> 24).expect("40 bits fit")
}

/// `layout` with every stride replaced.
fn strides(
    layout: &str,
    replaced: impl Fn(&str) -> Result<String, String>,
) -> Result<String, String> {
    let (shape, stride) = layout
        .split_once(':')
        .ok_or_else(|| format!("{layout} is not a layout"))?;
    let mut text = format!("{shape}:");
    let mut start = 0;
    for (at, c) in stride.char_indices().filter(|(_, c)| "(),".contains(*c)) {
        if start < at {
            text += &replaced(&stride[start..at])?;
        }
        text.push(c);
        start = at + 1;
    }
    if start < stride.len() {
        text += &replaced(&stride[start..])?;
    }
    Ok(text)
}

/// `R(c)` is the sum over the modes of `A` of what `A` gives for that mode's part of the coordinate `B(c)`.
fn by_coordinate(case: &Case, result: &Value) -> Result<(), String> {
    let (layout, inner, result) = (
        layout_argument(case, 0)?,
        case.text(1)?,
        layout_result(result)?,
    );
    let mut parts = Vec::new();
    for (i, mode) in (0..layout.rank())
        .filter_map(|i| layout.mode(i))
        .enumerate()
    {
        parts.push((mode, part(&inner, i)?));
    }
    agrees(result, |index| {
        parts
            .iter()
            .map(|(mode, part)| mode.at(part.at(index)))
            .sum()
    })
}

/// The part of a layout of coordinates that falls to mode `i`.
fn part(layout: &str, i: usize) -> Result<Map, String> {
    let path = i.to_string();
    let text = strides(layout, |stride| match stride.split_once('@') {
        Some((factor, mode)) if mode == path => Ok(factor.to_string()),
        Some((_, mode)) if mode.contains('@') => {
            Err(format!("`{stride}` names a mode inside a mode"))
        }
        _ => Ok("0".to_string()),
    })?;
    Map::parse(&text).ok_or_else(|| format!("{text} is not a layout"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_are_replaced_where_they_stand() {
        let doubled = strides("((2,3),4):((1@0,5@1@0),0)", |stride| {
            Ok(format!("{stride}{stride}"))
        });
        assert_eq!(doubled.as_deref(), Ok("((2,3),4):((1@01@0,5@1@05@1@0),00)"));
        assert_eq!(strides("4:1@0", |_| Ok("7".into())).as_deref(), Ok("4:7"));
    }

    #[test]
    fn a_part_is_what_one_mode_sees() {
        let part = part("(2,4,15):(1@1,3@1,1@0)", 1).expect("the text is a layout");
        assert_eq!(part.to_string(), "(2,4,15):(1,3,0)");
    }

    #[test]
    fn paths_have_weights_of_their_own() {
        let weights: std::collections::BTreeSet<i64> = ["0", "1", "2", "0@0", "1@0", "0@1", "1@1"]
            .map(weight)
            .into();
        assert_eq!(weights.len(), 7);
    }
}
