//! Where a layout that goes to a tile puts an index: by integer strides or by coordinates.

use alloc::string::ToString;

use crate::error::Error;
use crate::table::operand;
use colex_layout::{Int, Layout, Stride};

/// The cell at an index of `layout`.
pub(crate) fn place(layout: &Layout, index: i64, rows: i64) -> Result<(i64, i64), Error> {
    if layout
        .leaves()
        .iter()
        .all(|leaf| leaf.stride.as_int().is_some())
    {
        let element = layout.at(index)?;
        return Ok((element.rem_euclid(rows), element.div_euclid(rows)));
    }
    let (mut rest, mut cell) = (index, (0, 0));
    for leaf in layout.leaves() {
        let digit = rest % leaf.extent.value();
        rest /= leaf.extent.value();
        let axis = match leaf.stride {
            Stride::Basis(b) if b.path().eq([0]) => &mut cell.0,
            Stride::Basis(b) if b.path().eq([1]) => &mut cell.1,
            stride if stride.is_zero() => continue,
            _ => {
                let why =
                    "the strides of a map to a tile are integers, or multiples of 1@0 and 1@1";
                return Err(operand(&layout.to_string(), why));
            }
        };
        let steps = Int::from(digit).times(leaf.stride.coefficient())?;
        *axis = Int::from(*axis).plus(steps)?.value();
    }
    Ok(cell)
}
