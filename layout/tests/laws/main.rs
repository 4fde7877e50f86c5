//! The laws of the layout algebra, by operation: over all small layouts, then over random large ones.
//!
//! Each law prints `law NAME: N cases` and fails when fewer cases than expected reached its assertion.

mod beyond;
mod bytes;
mod chain;
mod clash;
mod coalesce;
mod complement;
mod composed;
mod composition;
mod construct;
mod coordinate;
mod divide;
mod evaluation;
mod explain;
mod hostile;
mod infer;
mod inverse;
mod law;
mod literal;
mod oracle;
mod product;
mod random;
mod recast;
mod reference;
mod relation;
mod search;
mod small;
mod surgery;
mod swizzle;
mod tuple;
mod values;
mod xor;
