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
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod cute;
mod error;
mod layout;
mod picture;
mod table;
mod thread;

pub use cute::latex::{print_latex, print_latex_copy, print_latex_mma};
pub use cute::mma::print_svg_mma;
pub use error::Error;
pub use layout::grid::{BANK_BYTES, BANKS, ColorBy, LabelBy, bank, banks};
pub use layout::tiling::Tiling;
pub use picture::grid::{Cell, Grid, Headers, Mark};
pub use picture::palette::Fill;
pub use picture::{Labels, Picture};
pub use table::nesting::Nesting;
pub use table::tensor::print_tensor;
pub use table::text::print_layout;
pub use table::{MAX_CELLS, Table};
pub use thread::ThreadValues;

/// The examples of the README run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
