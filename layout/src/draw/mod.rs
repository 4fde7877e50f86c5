//! Pictures of layouts: text grids and LaTeX as CuTe prints them, and SVG for pages.
//!
//! Every drawing is a pure function from a value to a text, and the same value gives the same bytes.
//!
//! | what | value | drawn by |
//! |---|---|---|
//! | a layout, a swizzled one, or any function of (row, column) | [`Table`] | [`Table::text`], [`Table::latex`], [`Table::picture`] |
//! | which thread holds what of a tile | [`ThreadValues`] | [`ThreadValues::latex`], [`ThreadValues::picture`], [`ThreadValues::mma`], [`ThreadValues::copy`] |
//! | a layout cut by a tiler | [`Tiling`] | [`Tiling::picture`] |
//! | a tile before and after a swizzle | two [`Table`]s | [`banks`] |
//!
//! A [`Picture`] is one or more [`Grid`]s of [`Cell`]s; everything that is drawn as SVG becomes one first, and can be
//! looked at, marked ([`Grid::focus`]) and combined ([`Picture::beside`], [`Picture::mma`]) before [`Picture::svg`].
//!
//! [`print_layout`], [`print_latex`] and its forms for copies and matrix instructions, [`print_svg_mma`] and
//! [`print_tensor`] give, byte for byte, what CuTe's functions print.

mod coordinates;
mod grid;
mod grid_svg;
mod header_svg;
mod latex;
mod layout_grid;
mod metrics;
mod mma;
mod nesting;
mod palette;
mod picture;
mod place;
mod style;
mod svg;
mod table;
mod tensor;
mod text;
mod thread_grid;
mod thread_pictures;
mod thread_text;
mod thread_values;
mod tiling;
mod xml;

pub use grid::{Cell, Grid, Headers, Mark};
pub use latex::{print_latex, print_latex_copy, print_latex_mma};
pub use layout_grid::{BANK_BYTES, BANKS, ColorBy, LabelBy, bank, banks};
pub use mma::print_svg_mma;
pub use nesting::Nesting;
pub use palette::Fill;
pub use picture::{Labels, Picture};
pub use table::{MAX_CELLS, Table};
pub use tensor::print_tensor;
pub use text::print_layout;
pub use thread_values::ThreadValues;
pub use tiling::Tiling;
