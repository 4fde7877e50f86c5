//! Taking layouts apart and putting them together; making them from shapes.

use colex_layout::Layout;

use super::{Answer, count, counts, layout, printed, tried, tuple};
use crate::golden::{Case, Op};

pub(super) const OPS: &[Op] = ops! { |case|
    "get" => tried(layout(case, 0)?.get(&counts(case, 1)?));
    "select" => tried(layout(case, 0)?.select(&counts(case, 1)?));
    "take" => tried(layout(case, 0)?.take(count(case, 1)?..count(case, 2)?));
    "group" => tried(layout(case, 0)?.group(count(case, 1)?..count(case, 2)?));
    "flatten" => Ok(printed(layout(case, 0)?.flatten()));
    "unflatten" => tried(layout(case, 0)?.unflatten(&tuple(case, 1)?));
    "with_shape" => tried(layout(case, 0)?.with_shape(tuple(case, 1)?));
    "append" => tried(layout(case, 0)?.append(&layout(case, 1)?));
    "prepend" => tried(layout(case, 0)?.prepend(&layout(case, 1)?));
    "append_n" => tried(layout(case, 0)?.append_to_rank(count(case, 1)?, &filler(case)?));
    "prepend_n" => tried(layout(case, 0)?.prepend_to_rank(count(case, 1)?, &filler(case)?));
    "replace" => tried(layout(case, 0)?.replace(count(case, 1)?, &layout(case, 2)?));
    "zip1" => tried(layout(case, 0)?.zip());
    "zip2" => tried(layout(case, 0)?.zip_with(&layout(case, 1)?));
    "make_layout_left" => tried(Layout::column_major(tuple(case, 0)?));
    "make_layout_right" => tried(Layout::row_major(tuple(case, 0)?));
    "make_ordered_layout" => tried(Layout::ordered(&tuple(case, 0)?, &tuple(case, 1)?));
    "make_layout_like" => tried(layout(case, 0)?.layout_like());
    "make_fragment_like" => tried(layout(case, 0)?.fragment_like());
    "rank" => number(layout(case, 0)?.rank());
    "depth" => number(layout(case, 0)?.depth());
    "size" => Ok(printed(layout(case, 0)?.size()));
    "cosize" => tried(layout(case, 0)?.cosize());
};

/// The mode that fills a layout up to a rank: `1:0` where the case gives none.
fn filler(case: &Case) -> Result<Layout, String> {
    if case.args.len() > 2 {
        layout(case, 2)
    } else {
        Ok(Layout::unit())
    }
}

fn number(value: usize) -> Answer {
    Ok(printed(value))
}
