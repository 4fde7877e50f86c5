//! Swizzles, and layouts under a swizzle.

use colex_layout::{ComposedLayout, Layout, LayoutLeft, LayoutRight, Outer, Swizzle};

use super::{Answer, coord, layout, parsed, printed, tiler, tried, tuple};
use crate::golden::value::Value;
use crate::golden::{Case, Op};

pub(super) const OPS: &[Op] = ops! { |case|
    "swizzle_table" => swizzle_table(case);
    "upcast_swizzle" => tried(swizzle(case, 0)?.upcast(case.int(1)?));
    "downcast_swizzle" => tried(swizzle(case, 0)?.downcast(case.int(1)?));
    "composition_swizzle_swizzle" => tried(swizzle(case, 0)?.composition(swizzle(case, 1)?));
    "composition_swizzle_layout" => tried(swizzle(case, 0)?.composition(layout(case, 1)?));
    "composition_layout_swizzle" => tried(layout(case, 0)?.composition(swizzle(case, 1)?));
    "swizzled_table" => composed(case, 0)?.table().map(Value::table).map_err(|error| error.to_string());
    "get_swizzle_portion" => {
        match composed(case, 0)?.outer() {
            Outer::Swizzle(swizzle) => Ok(printed(swizzle)),
            Outer::Layout(layout) => Err(format!("{layout} is not a swizzle")),
        }
    };
    "get_nonswizzle_portion" => Ok(printed(composed(case, 0)?.inner()));
    "coalesce_swizzled" => Ok(printed(composed(case, 0)?.coalesce(..)));
    "flatten_swizzled" => Ok(printed(composed(case, 0)?.flatten()));
    "composition_swizzled" => tried(composed(case, 0)?.composition(&tiler(case, 1)?));
    "right_inverse_swizzled" => tried(composed(case, 0)?.right_inverse());
    "left_inverse_swizzled" => tried(composed(case, 0)?.left_inverse());
    "logical_divide_swizzled" => tried(composed(case, 0)?.logical_divide(&tiler(case, 1)?));
    "zipped_divide_swizzled" => tried(composed(case, 0)?.zipped_divide(&tiler(case, 1)?));
    "tiled_divide_swizzled" => tried(composed(case, 0)?.tiled_divide(&tiler(case, 1)?));
    "flat_divide_swizzled" => tried(composed(case, 0)?.flat_divide(&tiler(case, 1)?));
    "logical_product_swizzled" => tried(composed(case, 0)?.logical_product(&tiler(case, 1)?));
    "blocked_product_swizzled" => tried(composed(case, 0)?.blocked_product(&layout(case, 1)?));
    "raked_product_swizzled" => tried(composed(case, 0)?.raked_product(&layout(case, 1)?));
    "tile_to_shape_swizzled" => tile_to_shape(case);
    "slice_and_offset_swizzled" => {
        let sliced = composed(case, 1)?.slice_and_offset(&coord(case)?);
        let (slice, offset) = sliced.map_err(|error| error.to_string())?;
        Ok(printed(format!("({slice},{offset})")))
    };
    "upcast_swizzled" => tried(composed(case, 0)?.upcast(case.int(1)?));
    "downcast_swizzled" => tried(composed(case, 0)?.downcast(case.int(1)?));
    "recast_layout_swizzled" => tried(composed(case, 2)?.recast(case.int(0)?, case.int(1)?));
    "max_alignment_swizzled" => tried(composed(case, 0)?.max_alignment());
    "max_common_vector_swizzled" => tried(composed(case, 0)?.max_common_vector(&composed(case, 1)?));
    "max_common_layout_swizzled" => if is_swizzled(case, 0) {
        tried(composed(case, 0)?.max_common_layout(&layout(case, 1)?))
    } else {
        tried(composed(case, 1)?.max_common_layout(&layout(case, 0)?))
    };
};

fn swizzle(case: &Case, i: usize) -> Result<Swizzle, String> {
    parsed(case, i)
}

/// Whether argument `i` is a layout under a swizzle.
pub(super) fn is_swizzled(case: &Case, i: usize) -> bool {
    case.text(i).is_ok_and(|text| text.contains("Sw<"))
}

/// Argument `i` as a layout under a swizzle; a plain layout is under none.
pub(super) fn composed(case: &Case, i: usize) -> Result<ComposedLayout, String> {
    match parsed::<Layout>(case, i) {
        Ok(layout) => Ok(layout.into()),
        Err(_) => parsed(case, i),
    }
}

/// `[[B,M,S], n, step]`: the swizzle of `i * step` for `i` in `0..n`.
fn swizzle_table(case: &Case) -> Answer {
    let parameters = case.ints(0)?;
    let [bits, base, shift] = parameters[..] else {
        return Err(format!("argument 0 is {parameters:?}, not B, M and S"));
    };
    let swizzle = Swizzle::new(bits, base, shift).map_err(|error| error.to_string())?;
    let step = case.int(2)?;
    Ok(Value::table(
        (0..case.int(1)?).map(|i| swizzle.apply(i * step)),
    ))
}

pub(super) fn tile_to_shape(case: &Case) -> Answer {
    let (block, shape) = (composed(case, 0)?, tuple(case, 1)?);
    tried(match case.text(2).as_deref() {
        Err(_) => block.tile_to_shape(&shape, LayoutLeft),
        Ok("LayoutRight") => block.tile_to_shape(&shape, LayoutRight),
        Ok(_) => block.tile_to_shape(&shape, &tuple(case, 2)?),
    })
}
