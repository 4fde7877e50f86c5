//! What fragments compute, and what they load and store at coordinates that are data.

mod expressions;
mod gathers;
mod reductions;
