//! Copy atoms.

mod execute;
mod names;
mod table;
mod widths;
