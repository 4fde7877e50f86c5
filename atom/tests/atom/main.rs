//! The tests of the crate in one binary, which links the libraries once.

mod arithmetic;
mod banks;
mod copy_execute;
mod copy_names;
mod copy_table;
mod copy_widths;
mod formats;
mod gmma;
mod hopper;
mod names;
mod ptx_text;
mod table;
mod tma;
mod worked_examples;
