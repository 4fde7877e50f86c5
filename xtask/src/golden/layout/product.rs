//! Divide and product in all their groupings, and tile to shape.

use super::swizzle::{composed, is_swizzled, tile_to_shape};
use super::{layout, tiler, tried, tuple};
use crate::golden::Op;

/// An operation of a layout, or of one composed with a swizzle.
macro_rules! of_either {
    ($case:ident, $operation:ident($second:ident)) => {
        if is_swizzled($case, 0) {
            tried(composed($case, 0)?.$operation(&$second($case, 1)?))
        } else {
            tried(layout($case, 0)?.$operation(&$second($case, 1)?))
        }
    };
}

pub(super) const OPS: &[Op] = ops! { |case|
    "logical_divide" => of_either!(case, logical_divide(tiler));
    "zipped_divide" => of_either!(case, zipped_divide(tiler));
    "tiled_divide" => of_either!(case, tiled_divide(tiler));
    "flat_divide" => of_either!(case, flat_divide(tiler));
    "logical_product" => of_either!(case, logical_product(tiler));
    "zipped_product" => tried(layout(case, 0)?.zipped_product(&tiler(case, 1)?));
    "tiled_product" => tried(layout(case, 0)?.tiled_product(&tiler(case, 1)?));
    "flat_product" => tried(layout(case, 0)?.flat_product(&tiler(case, 1)?));
    "blocked_product" => of_either!(case, blocked_product(layout));
    "raked_product" => of_either!(case, raked_product(layout));
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
