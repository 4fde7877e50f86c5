//! The algebra: layouts made from layouts.

pub(crate) mod complement;
pub(crate) mod composition;
pub(crate) mod divide;
mod domain;
pub(crate) mod infer;
pub(crate) mod inverse;
mod product;
pub(crate) mod recast;
pub(crate) mod search;
