//! Integer tuples and coordinates.

use std::cmp::Ordering;

use super::{Answer, decided, layout, tiler, tried, tuple};
use crate::golden::value::Value;
use crate::golden::{Case, Op};

pub(super) const OPS: &[Op] = ops! { |case|
    "product" => tried(tuple(case, 0)?.product());
    "product_each" => tried(tuple(case, 0)?.product_each());
    "inner_product" => tried(tuple(case, 0)?.inner_product(&tuple(case, 1)?));
    "ceil_div" => tried(tuple(case, 0)?.ceil_div(&tuple(case, 1)?));
    "round_up" => tried(tuple(case, 0)?.round_up(&tuple(case, 1)?));
    "shape_div" => tried(tuple(case, 0)?.shape_div(&tuple(case, 1)?));
    "congruent" => decided::<String>(Ok(tuple(case, 0)?.is_congruent(&tuple(case, 1)?)));
    "weakly_congruent" => {
        let (guide, tuple) = (tuple(case, 0)?, tuple(case, 1)?);
        decided::<String>(Ok(guide.is_weakly_congruent(&tuple)))
    };
    "compatible" => decided::<String>(Ok(tuple(case, 0)?.is_compatible(&tuple(case, 1)?)));
    "elem_less" => decided(tuple(case, 0)?.elem_less(&tuple(case, 1)?));
    "lex_less" => decided(tuple(case, 0)?.lex_cmp(&tuple(case, 1)?).map(Ordering::is_lt));
    "colex_less" => decided(tuple(case, 0)?.colex_cmp(&tuple(case, 1)?).map(Ordering::is_lt));
    "evenly_divides" => decided(tuple(case, 0)?.evenly_divides(&tiler(case, 1)?));
    "evenly_divides_tiler" => decided(tuple(case, 0)?.evenly_divides(&tiler(case, 1)?));
    "crd2idx" => table(case);
    "crd2idx_coord" => tried(layout(case, 1)?.at(colex_layout::Unbounded(tuple(case, 0)?)));
    "crd2idx_shape" => tried(tuple(case, 1)?.index(colex_layout::Unbounded(tuple(case, 0)?)));
    "idx2crd" => tried(tuple(case, 1)?.coord(colex_layout::Unbounded(tuple(case, 0)?)));
    "crd2crd" => tried(tuple(case, 1)?.coord_in(colex_layout::Unbounded(tuple(case, 0)?), &tuple(case, 2)?));
};

/// The offset of every coordinate in order.
fn table(case: &Case) -> Answer {
    let layout = layout(case, 0)?;
    layout
        .table()
        .map(Value::table)
        .map_err(|error| error.to_string())
}
