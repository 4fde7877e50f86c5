//! Matrix-multiply instructions: the table and what is read out of it.
//!
//! Three steps, as in CuTe: an [`MmaOp`] says what to write, [`MmaTraits`] what it means, an [`MmaAtom`] is both,
//! with the arithmetic.

mod atom;
mod instruction;
mod member;
mod names;
mod op;
mod options;
mod row;
mod search;
mod table;
mod traits;

pub use atom::MmaAtom;
pub use instruction::MmaOperands;
pub use op::MmaOp;
pub use options::{GmmaOptions, Major};
pub use row::{Form, MmaRow, Rule};
pub use search::{MmaSearch, mma_atoms};
pub use table::rows;
pub use traits::MmaTraits;
