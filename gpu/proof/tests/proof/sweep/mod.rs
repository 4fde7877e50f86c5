//! The sweep of all atoms.

mod list;
mod random;
mod run;
