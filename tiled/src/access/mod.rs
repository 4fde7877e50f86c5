//! The coordinates that threads name of a tensor, and what reaching them does to a memory.

pub(crate) mod coverage;
pub(crate) mod map;
pub(crate) mod traffic;
pub(crate) mod traffic_sentences;
pub(crate) mod vector;
pub(crate) mod words;

pub use coverage::Place;
pub use traffic::Traffic;
pub use vector::{TooWide, VectorLimit, Vectorization};
