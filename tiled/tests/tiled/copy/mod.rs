//! Tiled copies.

mod any;
mod host;
mod laws;
mod refusals;
mod report;
mod retile;
mod traffic;
