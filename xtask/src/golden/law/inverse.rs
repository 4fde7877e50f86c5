//! Complement and the two inverses.

use std::collections::BTreeSet;

use super::{layout_argument, layout_result};
use crate::golden::case::Case;
use crate::golden::value::Value;

/// The complement's values rise, and none but the first is a value of the layout; with an integer for a cotarget, the
/// two together reach it. (A shape is covered mode by mode, which may end short of its size.)
pub(crate) fn complement(case: &Case, result: &Value) -> Result<(), String> {
    let (layout, result) = (layout_argument(case, 0)?, layout_result(result)?);
    let cotarget = match case.args.get(1) {
        Some(argument) => argument.as_i64().unwrap_or(0),
        None => layout.cosize(),
    };
    let values = layout.table().into_iter().collect::<BTreeSet<i64>>();
    let table = result.table();
    for (index, pair) in table.windows(2).enumerate() {
        let index = index + 1;
        if pair[1] <= pair[0] {
            return Err(format!(
                "at {index} it is {}, not more than {} before",
                pair[1], pair[0]
            ));
        }
        if values.contains(&pair[1]) {
            return Err(format!(
                "at {index} it is {}, a value of the layout too",
                pair[1]
            ));
        }
    }
    let reached = result.cosize() + layout.cosize() - 1;
    if reached >= cotarget {
        Ok(())
    } else {
        Err(format!(
            "with the layout it reaches {reached}, short of the cotarget {cotarget}"
        ))
    }
}

/// `A(R(i)) = i` for every `i` below the size of `R`.
pub(crate) fn right_inverse(case: &Case, result: &Value) -> Result<(), String> {
    let (layout, inverse) = (layout_argument(case, 0)?, layout_result(result)?);
    for index in 0..inverse.size() {
        let value = layout.at(inverse.at(index));
        if value != index {
            return Err(format!("at {index} the layout of the inverse is {value}"));
        }
    }
    Ok(())
}

/// `A(L(A(i))) = A(i)` for every `i` below the size of `A`.
pub(crate) fn left_inverse(case: &Case, result: &Value) -> Result<(), String> {
    let (layout, inverse) = (layout_argument(case, 0)?, layout_result(result)?);
    for (index, value) in layout.table().into_iter().enumerate() {
        let back = layout.at(inverse.at(value));
        if back != value {
            return Err(format!(
                "at {index} the layout is {value}, but {back} after the inverse and the layout again"
            ));
        }
    }
    Ok(())
}
