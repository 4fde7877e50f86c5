//! Tiles split along k: stream-K and its pieces of work.

pub(crate) mod choose;
mod heuristic;
pub(crate) mod row;
pub(crate) mod segment;
mod share;
pub(crate) mod stream_k;
pub(crate) mod stream_k_sm90;
