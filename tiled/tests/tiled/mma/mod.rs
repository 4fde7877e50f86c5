//! Tiled products.

mod layouts;
mod refusals;
mod report;
