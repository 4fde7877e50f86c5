//! Coordinate strides: identity layouts and what is made of them.

use colex_layout::Layout;

use super::{Answer, layout, printed, tiler, tried, tuple};
use crate::golden::value::Value;
use crate::golden::{Case, Op};

pub(super) const OPS: &[Op] = &[
    Op::judged("make_identity_layout", |case| {
        tried(Layout::identity(tuple(case, 0)?))
    }),
    Op::judged("make_basis_like", |case| {
        tried(tuple(case, 0)?.basis_like())
    }),
    Op::judged("identity_table", table),
    Op::judged("composition_identity", |case| {
        tried(layout(case, 0)?.composition(&tiler(case, 1)?))
    }),
    Op::judged("composition_basis", |case| {
        tried(layout(case, 0)?.composition(&tiler(case, 1)?))
    }),
    Op::judged("logical_divide_identity", |case| {
        tried(layout(case, 0)?.logical_divide(&tiler(case, 1)?))
    }),
    Op::judged("zipped_divide_identity", |case| {
        tried(layout(case, 0)?.zipped_divide(&tiler(case, 1)?))
    }),
    Op::judged("tiled_divide_identity", |case| {
        tried(layout(case, 0)?.tiled_divide(&tiler(case, 1)?))
    }),
    Op::judged("flat_divide_identity", |case| {
        tried(layout(case, 0)?.flat_divide(&tiler(case, 1)?))
    }),
];

/// The coordinate at every index. Where there is one mode, CuTe prints its multiple of the basis vector.
fn table(case: &Case) -> Answer {
    let layout = layout(case, 0)?;
    let at = |index| {
        let coord = layout.coord_at(index).map_err(|error| error.to_string())?;
        match coord.mode(0) {
            Some(only) if coord.rank() == 1 && only.is_leaf() => printed(format!("{only}@0")),
            _ => printed(coord),
        }
    };
    (0..layout.size())
        .map(at)
        .collect::<Result<_, _>>()
        .map(Value::List)
}
