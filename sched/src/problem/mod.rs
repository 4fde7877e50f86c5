//! What is computed: coordinates, products, convolutions, and how many tiles they are.

pub(crate) mod conv;
pub(crate) mod coord;
pub mod gemv;
pub(crate) mod tiles;
