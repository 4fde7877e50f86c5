//! Slices, the maps from offsets back to coordinates, and changes of the element's width.

use colex_layout::Layout;
use serde_json::Value as Json;

use super::{Answer, coord, layout, tried, tuple};
use crate::golden::value::{Map, Value};
use crate::golden::{Case, Op};

pub(super) const OPS: &[Op] = ops! { |case|
    "slice" => tried(layout(case, 1)?.slice(&coord(case)?));
    "dice" => tried(layout(case, 1)?.dice(&coord(case)?));
    "slice_and_offset" => slice_and_offset(case);
    "get_hier_coord" => by_offset(case, |layout, offset| tried(layout.coord_of(offset)));
    "get_flat_coord" => by_offset(case, |layout, offset| tried(layout.flat_coord_of(offset)));
    "get_1d_coord" => by_offset(case, |layout, offset| tried(layout.index_of(offset)));
    "idx2crd_stride" => tried(tuple(case, 1)?.coord_by_stride(case.int(0)?, &tuple(case, 2)?));
    "domain_distribute" => tried(tuple(case, 0)?.domain_distribute(case.int(1)?));
    "upcast" => tried(layout(case, 0)?.upcast(case.int(1)?));
    "downcast" => tried(layout(case, 0)?.downcast(case.int(1)?));
    "recast_layout" => tried(layout(case, 2)?.recast(case.int(0)?, case.int(1)?));
    "max_alignment" => tried(layout(case, 0)?.max_alignment());
};

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
