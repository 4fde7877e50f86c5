//! Layouts, their shapes and their values.

mod construct;
mod coordinate;
mod evaluation;
mod recast;
mod relation;
mod surgery;
mod tuple;
mod values;
