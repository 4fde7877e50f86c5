//! The tests of the crate in one binary, which links the libraries once.

mod arithmetic;
mod banks;
mod copy;
mod formats;
mod gmma;
mod hopper;
mod names;
mod ptx_text;
mod table;
mod tma;
mod worked_examples;
