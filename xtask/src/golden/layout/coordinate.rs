//! Coordinate strides: identity layouts and what is made of them.

use colex_layout::Layout;

use super::{Answer, layout, printed, tiler, tried, tuple};
use crate::golden::value::Value;
use crate::golden::{Case, Op};

pub(super) const OPS: &[Op] = ops! { |case|
    "make_identity_layout" => tried(Layout::identity(tuple(case, 0)?));
    "make_basis_like" => tried(tuple(case, 0)?.basis_like());
    "identity_table" => table(case);
    "composition_identity" => tried(layout(case, 0)?.composition(&tiler(case, 1)?));
    "composition_basis" => tried(layout(case, 0)?.composition(&tiler(case, 1)?));
    "logical_divide_identity" => tried(layout(case, 0)?.logical_divide(&tiler(case, 1)?));
    "zipped_divide_identity" => tried(layout(case, 0)?.zipped_divide(&tiler(case, 1)?));
    "tiled_divide_identity" => tried(layout(case, 0)?.tiled_divide(&tiler(case, 1)?));
    "flat_divide_identity" => tried(layout(case, 0)?.flat_divide(&tiler(case, 1)?));
};

/// The coordinate at every index. Where there is one mode, CuTe prints its multiple of the basis vector.
fn table(case: &Case) -> Answer {
    let layout = layout(case, 0)?;
    let at = |index| {
        let coord = layout.coord_at(index).map_err(|error| error.to_string())?;
        match coord.mode(0) {
            Some(only) if coord.rank() == 1 && only.is_leaf() => Ok(printed(format!("{only}@0"))),
            _ => Ok(printed(coord)),
        }
    };
    (0..layout.size())
        .map(at)
        .collect::<Result<_, _>>()
        .map(Value::List)
}
