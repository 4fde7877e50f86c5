//! Integers: checked arithmetic with its errors, expressions, and the formulas of the orders.

pub(crate) mod error;
pub(crate) mod expr;
pub mod formula;
