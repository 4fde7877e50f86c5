//! The laws of the layout algebra, by operation: over all small layouts, then over random large ones.
//!
//! Each law prints `law NAME: N cases` and fails when fewer cases than expected reached its assertion.

mod beyond;
mod bytes;
mod chain;
mod deep;
mod explain;
mod hostile;
mod law;
mod layouts;
mod literal;
mod operations;
mod oracle;
mod random;
mod reference;
mod small;
mod swizzles;
