//! The operations of the algebra.

mod clash;
mod coalesce;
mod complement;
mod composition;
mod divide;
mod infer;
mod inverse;
mod product;
mod search;
