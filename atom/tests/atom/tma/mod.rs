//! Tensor maps derived from layouts: the tiles that their boxes move, and what is refused.

mod im2col;
mod moves;
mod plans;
mod refusals;
mod small;
