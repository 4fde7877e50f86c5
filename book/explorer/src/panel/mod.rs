//! One file per panel: its fields in, its reply out.

pub(crate) mod algebra;
pub(crate) mod atom;
mod cute;
pub(crate) mod descriptor;
pub(crate) mod kernel;
pub(crate) mod layout;
mod operations;
pub(crate) mod paste;
pub(crate) mod pipeline;
pub(crate) mod schedule;
pub(crate) mod swizzle;
pub(crate) mod table;
pub(crate) mod tiled;
pub(crate) mod tma;
