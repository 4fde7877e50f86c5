//! Integer tuples and coordinates.

use std::cmp::Ordering;

use super::{Answer, decided, layout, tiler, tried, tuple};
use crate::golden::value::Value;
use crate::golden::{Case, Op};

pub(super) const OPS: &[Op] = &[
    Op::judged("product", |case| tried(tuple(case, 0)?.product())),
    Op::judged("product_each", |case| tried(tuple(case, 0)?.product_each())),
    Op::judged("inner_product", |case| {
        tried(tuple(case, 0)?.inner_product(&tuple(case, 1)?))
    }),
    Op::judged("ceil_div", |case| {
        tried(tuple(case, 0)?.ceil_div(&tuple(case, 1)?))
    }),
    Op::judged("round_up", |case| {
        tried(tuple(case, 0)?.round_up(&tuple(case, 1)?))
    }),
    Op::judged("shape_div", |case| {
        tried(tuple(case, 0)?.shape_div(&tuple(case, 1)?))
    }),
    Op::judged("congruent", |case| {
        decided::<String>(Ok(tuple(case, 0)?.is_congruent(&tuple(case, 1)?)))
    }),
    Op::judged("weakly_congruent", |case| {
        let (guide, tuple) = (tuple(case, 0)?, tuple(case, 1)?);
        decided::<String>(Ok(guide.is_weakly_congruent(&tuple)))
    }),
    Op::judged("compatible", |case| {
        decided::<String>(Ok(tuple(case, 0)?.is_compatible(&tuple(case, 1)?)))
    }),
    Op::judged("elem_less", |case| {
        decided(tuple(case, 0)?.elem_less(&tuple(case, 1)?))
    }),
    Op::judged("lex_less", |case| {
        decided(
            tuple(case, 0)?
                .lex_cmp(&tuple(case, 1)?)
                .map(Ordering::is_lt),
        )
    }),
    Op::judged("colex_less", |case| {
        decided(
            tuple(case, 0)?
                .colex_cmp(&tuple(case, 1)?)
                .map(Ordering::is_lt),
        )
    }),
    Op::judged("evenly_divides", |case| {
        decided(tuple(case, 0)?.evenly_divides(&tiler(case, 1)?))
    }),
    Op::judged("evenly_divides_tiler", |case| {
        decided(tuple(case, 0)?.evenly_divides(&tiler(case, 1)?))
    }),
    Op::judged("crd2idx", table),
    Op::judged("crd2idx_coord", |case| {
        tried(layout(case, 1)?.at(colex_layout::Unbounded(tuple(case, 0)?)))
    }),
    Op::judged("crd2idx_shape", |case| {
        tried(tuple(case, 1)?.index(colex_layout::Unbounded(tuple(case, 0)?)))
    }),
    Op::judged("idx2crd", |case| {
        tried(tuple(case, 1)?.coord(colex_layout::Unbounded(tuple(case, 0)?)))
    }),
    Op::judged("crd2crd", |case| {
        tried(tuple(case, 1)?.coord_in(colex_layout::Unbounded(tuple(case, 0)?), &tuple(case, 2)?))
    }),
];

/// The offset of every coordinate in order.
fn table(case: &Case) -> Answer {
    let layout = layout(case, 0)?;
    layout
        .table()
        .map(Value::table)
        .map_err(|error| error.to_string())
}
