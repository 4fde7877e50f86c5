//! Epilogues: formulas over the accumulators are computed and stored.

pub(crate) mod arguments;
pub(crate) mod awaited;
pub(crate) mod closure;
pub(crate) mod cluster_sum;
pub(crate) mod convert;
pub(crate) mod direct;
pub(crate) mod expression;
pub(crate) mod fixup;
pub(crate) mod reduction;
pub(crate) mod sm80;
pub(crate) mod sm90;
pub(crate) mod split_sum;
pub(crate) mod terms;
pub(crate) mod vectors;
