//! What is refused, and how that is said.

mod defects;
mod failures;
mod no_integer;
mod owners;
mod refusals;
