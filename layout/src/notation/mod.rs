//! CuTe's notation: layouts read from texts, at run time and when a program is compiled, and serialised as them.

#[doc(hidden)]
pub mod literal;
mod parse;
#[cfg(feature = "serde")]
mod serialize;
