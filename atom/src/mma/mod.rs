//! Matrix-multiply instructions: the table and what is read out of it.
//!
//! Three steps, as in CuTe: an [`MmaOp`] says what to write, [`MmaTraits`] what it means, an [`MmaAtom`] is both,
//! with the arithmetic.

mod atom;
mod member;
mod names;
mod op;
mod options;
mod row;
mod search;
mod table_blackwell;
mod table_gmma;
mod table_sm61_70_75;
mod table_sm80;
mod table_sm89_90;
mod traits;

pub use atom::MmaAtom;
pub use member::rows;
pub use op::{MmaOp, RegClass, Registers};
pub use options::{GmmaOptions, Major};
pub use row::{Form, MmaRow, Rule};
pub use search::{MmaSearch, mma_atoms};
pub use traits::MmaTraits;
