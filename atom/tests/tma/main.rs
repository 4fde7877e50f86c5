//! Tensor maps derived from layouts: the tiles that their boxes move, and what is refused.

mod moves;
mod plans;
mod refusals;
