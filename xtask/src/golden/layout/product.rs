//! Divide and product in all their groupings, and tile to shape.

use super::swizzle::{composed, is_swizzled, tile_to_shape};
use super::{layout, tiler, tried, tuple};
use crate::golden::Op;

pub(super) const OPS: &[Op] = ops! { |case|
    "logical_divide" => if is_swizzled(case, 0) {
        tried(composed(case, 0)?.logical_divide(&tiler(case, 1)?))
    } else {
        tried(layout(case, 0)?.logical_divide(&tiler(case, 1)?))
    };
    "zipped_divide" => if is_swizzled(case, 0) {
        tried(composed(case, 0)?.zipped_divide(&tiler(case, 1)?))
    } else {
        tried(layout(case, 0)?.zipped_divide(&tiler(case, 1)?))
    };
    "tiled_divide" => if is_swizzled(case, 0) {
        tried(composed(case, 0)?.tiled_divide(&tiler(case, 1)?))
    } else {
        tried(layout(case, 0)?.tiled_divide(&tiler(case, 1)?))
    };
    "flat_divide" => if is_swizzled(case, 0) {
        tried(composed(case, 0)?.flat_divide(&tiler(case, 1)?))
    } else {
        tried(layout(case, 0)?.flat_divide(&tiler(case, 1)?))
    };
    "logical_product" => if is_swizzled(case, 0) {
        tried(composed(case, 0)?.logical_product(&tiler(case, 1)?))
    } else {
        tried(layout(case, 0)?.logical_product(&tiler(case, 1)?))
    };
    "zipped_product" => tried(layout(case, 0)?.zipped_product(&tiler(case, 1)?));
    "tiled_product" => tried(layout(case, 0)?.tiled_product(&tiler(case, 1)?));
    "flat_product" => tried(layout(case, 0)?.flat_product(&tiler(case, 1)?));
    "blocked_product" => if is_swizzled(case, 0) {
        tried(composed(case, 0)?.blocked_product(&layout(case, 1)?))
    } else {
        tried(layout(case, 0)?.blocked_product(&layout(case, 1)?))
    };
    "raked_product" => if is_swizzled(case, 0) {
        tried(composed(case, 0)?.raked_product(&layout(case, 1)?))
    } else {
        tried(layout(case, 0)?.raked_product(&layout(case, 1)?))
    };
    "tile_to_shape" => {
        if is_swizzled(case, 0) {
            return tile_to_shape(case);
        }
        let (block, shape) = (layout(case, 0)?, tuple(case, 1)?);
        tried(match case.text(2).as_deref() {
            Err(_) => block.tile_to_shape(&shape, colex_layout::LayoutLeft),
            Ok("LayoutRight") => block.tile_to_shape(&shape, colex_layout::LayoutRight),
            Ok(_) => block.tile_to_shape(&shape, &tuple(case, 2)?),
        })
    };
};
