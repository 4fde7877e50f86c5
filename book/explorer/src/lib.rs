//! What the book's explorer page computes: a request of texts in, one answer as JSON out.
//!
//! The page runs this crate as WebAssembly (the exports are in `abi.rs`), and the tests run it natively: [`answer`] is the
//! same function. Every number, picture and sentence of the page is one of Colex's own crates; this crate reads
//! texts, bounds the work, and arranges results as views whose cells are linked by keys.
//!
//! A request is a JSON object of strings. Its `panel` names what to compute; the other fields are the panel's:
//!
//! | panel | fields |
//! |---|---|
//! | `layout` | `layout`, `color` |
//! | `algebra` | `operation`, `a`, `b` |
//! | `atoms` | `query`: the rows of the instruction tables, or the atoms whose names contain the words |
//! | `atom` | `name`, `kind`: `product`, `copy` or nothing |
//! | `swizzle` | `bits`, `base`, `shift`, `layout`, `element`, `lanes`, `width` |
//! | `copy` | `atom`, `element`, `threads` and `values` or `tv` and `tiler`, `tensor` |
//! | `mma` | `atom`, `atoms`, `permutation` |
//! | `tma` | `tensor`, `element`, `box`, `at`, `shared` |
//! | `descriptor` | `of`: `tile`, `bits` or `im2col`; `atom`, `operand`, and `tile`, `start` or `bits`; or `image`, `lower`, `upper`, `column`, `at`, `offsets` |
//! | `schedule` | `order`, `tiles`, `cluster`, `workers`, `tile`, `bytes`, `k`, `cache`, `wave` |
//! | `pipeline` | `schedule`, `stages`, `tiles`, `k`, `consumers`, `load`, `multiply`, `epilogue`, `mistake`, `step` |
//! | `kernel` | `kernel`, `n`, `blocks`, `threads`, `shared`, `mistake`, `block`, `warp`, `step` |
//! | `paste` | `text`: what CuTe prints; the answer is a panel and its fields |
//! | `palette` | none: the style sheet of the views' colours |
//!
//! With `copy`, the name of a text to copy, the answer is that text.
//!
//! # Example
//!
//! ```
//! let answer = colex_explorer::answer(r#"{"panel": "layout", "layout": "(4,8):(8,1)"}"#);
//! assert!(answer.contains(r#"["cosize","32"]"#));
//! let answer = colex_explorer::answer(r#"{"panel": "layout", "layout": "(4,8):(8"}"#);
//! assert!(answer.contains("expected ',' or ')' at byte 8"));
//! ```
#![deny(unsafe_code)]

mod abi;
mod answer;
mod fields;
mod kernels;
mod panel;
mod read;
mod spell;
mod view;

pub use answer::answer;
pub use fields::{MAX_REQUEST, MAX_TEXT};
