//! Coalesce, composition, complement, inverses: layouts to layouts.

use super::swizzle::{composed, is_swizzled};
use super::{layout, printed, tiler, tried, tuple};
use crate::golden::Op;

pub(super) const OPS: &[Op] = &[
    Op::judged("coalesce", |case| printed(layout(case, 0)?.coalesce(..))),
    Op::judged("coalesce_prof", |case| {
        tried(layout(case, 0)?.coalesce(&tuple(case, 1)?))
    }),
    Op::judged("filter", |case| printed(layout(case, 0)?.filter(..))),
    Op::judged("filter_prof", |case| {
        tried(layout(case, 0)?.filter(&tuple(case, 1)?))
    }),
    Op::judged("filter_zeros", |case| {
        printed(layout(case, 0)?.filter_zeros())
    }),
    Op::judged("composition", |case| {
        if is_swizzled(case, 1) {
            tried(layout(case, 0)?.composition(&composed(case, 1)?))
        } else {
            tried(layout(case, 0)?.composition(&tiler(case, 1)?))
        }
    }),
    Op::judged("composition_tiler", |case| {
        tried(layout(case, 0)?.composition(&tiler(case, 1)?))
    }),
    Op::judged("complement", |case| {
        tried(layout(case, 0)?.complement(tuple(case, 1)?))
    }),
    Op::judged("complement1", |case| {
        tried(layout(case, 0)?.complement_in_cosize())
    }),
    Op::judged("right_inverse", |case| {
        if is_swizzled(case, 0) {
            tried(composed(case, 0)?.right_inverse())
        } else {
            tried(layout(case, 0)?.right_inverse())
        }
    }),
    Op::judged("left_inverse", |case| {
        if is_swizzled(case, 0) {
            tried(composed(case, 0)?.left_inverse())
        } else {
            tried(layout(case, 0)?.left_inverse())
        }
    }),
    Op::judged("nullspace", |case| tried(layout(case, 0)?.nullspace())),
    Op::judged("max_common_layout", |case| {
        tried(layout(case, 0)?.max_common_layout(&layout(case, 1)?))
    }),
    Op::judged("max_common_vector", |case| {
        tried(layout(case, 0)?.max_common_vector(&layout(case, 1)?))
    }),
];
