//! Pictures of layouts: text grids and LaTeX as CuTe prints them, and SVG for pages.
//!
//! Every drawing is a pure function from a value to a text, and the same value gives the same bytes.
//!
//! | what | value | drawn by |
//! |---|---|---|
//! | a layout, or any function of (row, column) | [`Table`] | [`Table::text`], [`Table::latex`] |
//!
//! [`print_layout`], [`print_latex`] and [`print_tensor`] give, byte for byte, what the functions of those names in
//! CuTe print.

mod nesting;
mod table;
mod tensor;
mod text;

pub use nesting::Nesting;
pub use table::{MAX_CELLS, Table};
pub use tensor::print_tensor;
pub use text::print_layout;
