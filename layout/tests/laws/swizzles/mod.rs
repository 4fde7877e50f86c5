//! Layouts with a swizzle, and layouts of XOR.

mod composed;
mod swizzle;
mod xor;
