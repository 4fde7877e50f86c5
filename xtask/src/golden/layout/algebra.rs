//! Coalesce, composition, complement, inverses: layouts to layouts.

use super::swizzle::{composed, is_swizzled};
use super::{layout, printed, tiler, tried, tuple};
use crate::golden::Op;

pub(super) const OPS: &[Op] = ops! { |case|
    "coalesce" => Ok(printed(layout(case, 0)?.coalesce(..)));
    "coalesce_prof" => tried(layout(case, 0)?.coalesce(&tuple(case, 1)?));
    "filter" => Ok(printed(layout(case, 0)?.filter(..)));
    "filter_prof" => tried(layout(case, 0)?.filter(&tuple(case, 1)?));
    "filter_zeros" => Ok(printed(layout(case, 0)?.filter_zeros()));
    "composition" => if is_swizzled(case, 1) {
        tried(layout(case, 0)?.composition(&composed(case, 1)?))
    } else {
        tried(layout(case, 0)?.composition(&tiler(case, 1)?))
    };
    "composition_tiler" => tried(layout(case, 0)?.composition(&tiler(case, 1)?));
    "complement" => tried(layout(case, 0)?.complement(tuple(case, 1)?));
    "complement1" => tried(layout(case, 0)?.complement_in_cosize());
    "right_inverse" => if is_swizzled(case, 0) {
        tried(composed(case, 0)?.right_inverse())
    } else {
        tried(layout(case, 0)?.right_inverse())
    };
    "left_inverse" => if is_swizzled(case, 0) {
        tried(composed(case, 0)?.left_inverse())
    } else {
        tried(layout(case, 0)?.left_inverse())
    };
    "nullspace" => tried(layout(case, 0)?.nullspace());
    "max_common_layout" => tried(layout(case, 0)?.max_common_layout(&layout(case, 1)?));
    "max_common_vector" => tried(layout(case, 0)?.max_common_vector(&layout(case, 1)?));
};
