//! The tests of the crate in one binary, which links the libraries once.

mod bounds;
mod cost_laws;
mod extreme_values;
mod layout_and_pictures;
mod persistent_laws;
mod pipeline_laws;
mod pipeline_reduction;
mod rank_laws;
mod stream_k_golden;
mod stream_k_laws;
mod swizzle_laws;
