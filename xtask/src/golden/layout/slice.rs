//! Slices, the maps from offsets back to coordinates, and changes of the element's width.

use colex_layout::Layout;
use serde_json::Value as Json;

use super::{Answer, coord, layout, tried, tuple};
use crate::golden::value::{Map, Value};
use crate::golden::{Case, Op};

pub(super) const OPS: &[Op] = &[
    Op::judged("slice", |case| tried(layout(case, 1)?.slice(&coord(case)?))),
    Op::judged("dice", |case| tried(layout(case, 1)?.dice(&coord(case)?))),
    Op::judged("slice_and_offset", slice_and_offset),
    Op::judged("get_hier_coord", |case| {
        by_offset(case, |layout, offset| tried(layout.coord_of(offset)))
    }),
    Op::judged("get_flat_coord", |case| {
        by_offset(case, |layout, offset| tried(layout.flat_coord_of(offset)))
    }),
    Op::judged("get_1d_coord", |case| {
        by_offset(case, |layout, offset| tried(layout.index_of(offset)))
    }),
    Op::judged("idx2crd_stride", |case| {
        tried(tuple(case, 1)?.coord_by_stride(case.int(0)?, &tuple(case, 2)?))
    }),
    Op::judged("domain_distribute", |case| {
        tried(tuple(case, 0)?.domain_distribute(case.int(1)?))
    }),
    Op::judged("upcast", |case| {
        tried(layout(case, 0)?.upcast(case.int(1)?))
    }),
    Op::judged("downcast", |case| {
        tried(layout(case, 0)?.downcast(case.int(1)?))
    }),
    Op::judged("recast_layout", |case| {
        tried(layout(case, 2)?.recast(case.int(0)?, case.int(1)?))
    }),
    Op::judged("max_alignment", |case| {
        tried(layout(case, 0)?.max_alignment())
    }),
];

fn slice_and_offset(case: &Case) -> Answer {
    let sliced = layout(case, 1)?.slice_and_offset(&coord(case)?);
    let (slice, offset) = sliced.map_err(|error| error.to_string())?;
    let text = slice.to_string().replace('_', "");
    let map =
        Map::parse(&text).ok_or_else(|| format!("{text} is not a layout of integer strides"))?;
    Ok(Value::Pair(map, offset))
}

/// The coordinates of as many offsets as the case lists.
fn by_offset(case: &Case, coordinate: fn(&Layout, i64) -> Answer) -> Answer {
    let layout = layout(case, 0)?;
    let count = case.result.as_array().map_or(0, Vec::<Json>::len);
    let offsets = 0..i64::try_from(count).expect("a list in a file is short");
    let coordinates: Result<_, _> = offsets.map(|offset| coordinate(&layout, offset)).collect();
    coordinates.map(Value::List)
}
