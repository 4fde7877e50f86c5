//! Pictures of layouts: text grids and LaTeX as CuTe prints them, and SVG for pages.
//!
//! Every drawing is a pure function from a value to a text, and the same value gives the same bytes.
//!
//! | what | value | drawn by |
//! |---|---|---|
//! | a layout, or any function of (row, column) | [`Table`] | [`Table::text`], [`Table::latex`] |
//! | which thread holds what of a tile | [`ThreadValues`] | [`ThreadValues::latex`] |
//!
//! [`print_layout`], [`print_latex`] and its forms for copies and matrix instructions, [`print_svg_mma`] and
//! [`print_tensor`] give, byte for byte, what CuTe's functions print.

mod latex;
mod mma;
mod nesting;
mod table;
mod tensor;
mod text;
mod thread_values;

pub use latex::{print_latex, print_latex_copy, print_latex_mma};
pub use mma::print_svg_mma;
pub use nesting::Nesting;
pub use table::{MAX_CELLS, Table};
pub use tensor::print_tensor;
pub use text::print_layout;
pub use thread_values::ThreadValues;
