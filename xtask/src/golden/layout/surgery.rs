//! Taking layouts apart and putting them together; making them from shapes.

use colex_layout::Layout;

use super::{Answer, count, counts, layout, printed, tried, tuple};
use crate::golden::{Case, Op};

pub(super) const OPS: &[Op] = &[
    Op::judged("get", |case| tried(layout(case, 0)?.get(&counts(case, 1)?))),
    Op::judged("select", |case| {
        tried(layout(case, 0)?.select(&counts(case, 1)?))
    }),
    Op::judged("take", |case| {
        tried(layout(case, 0)?.take(count(case, 1)?..count(case, 2)?))
    }),
    Op::judged("group", |case| {
        tried(layout(case, 0)?.group(count(case, 1)?..count(case, 2)?))
    }),
    Op::judged("flatten", |case| printed(layout(case, 0)?.flatten())),
    Op::judged("unflatten", |case| {
        tried(layout(case, 0)?.unflatten(&tuple(case, 1)?))
    }),
    Op::judged("with_shape", |case| {
        tried(layout(case, 0)?.with_shape(tuple(case, 1)?))
    }),
    Op::judged("append", |case| {
        tried(layout(case, 0)?.append(&layout(case, 1)?))
    }),
    Op::judged("prepend", |case| {
        tried(layout(case, 0)?.prepend(&layout(case, 1)?))
    }),
    Op::judged("append_n", |case| {
        tried(layout(case, 0)?.append_to_rank(count(case, 1)?, &filler(case)?))
    }),
    Op::judged("prepend_n", |case| {
        tried(layout(case, 0)?.prepend_to_rank(count(case, 1)?, &filler(case)?))
    }),
    Op::judged("replace", |case| {
        tried(layout(case, 0)?.replace(count(case, 1)?, &layout(case, 2)?))
    }),
    Op::judged("zip1", |case| tried(layout(case, 0)?.zip())),
    Op::judged("zip2", |case| {
        tried(layout(case, 0)?.zip_with(&layout(case, 1)?))
    }),
    Op::judged("make_layout_left", |case| {
        tried(Layout::column_major(tuple(case, 0)?))
    }),
    Op::judged("make_layout_right", |case| {
        tried(Layout::row_major(tuple(case, 0)?))
    }),
    Op::judged("make_ordered_layout", |case| {
        tried(Layout::ordered(&tuple(case, 0)?, &tuple(case, 1)?))
    }),
    Op::judged("make_layout_like", |case| {
        tried(layout(case, 0)?.layout_like())
    }),
    Op::judged("make_fragment_like", |case| {
        tried(layout(case, 0)?.fragment_like())
    }),
    Op::judged("rank", |case| number(layout(case, 0)?.rank())),
    Op::judged("depth", |case| number(layout(case, 0)?.depth())),
    Op::judged("size", |case| printed(layout(case, 0)?.size())),
    Op::judged("cosize", |case| tried(layout(case, 0)?.cosize())),
];

/// The mode that fills a layout up to a rank: `1:0` where the case gives none.
fn filler(case: &Case) -> Result<Layout, String> {
    if case.args.len() > 2 {
        layout(case, 2)
    } else {
        Ok(Layout::unit())
    }
}

fn number(value: usize) -> Answer {
    printed(value)
}
