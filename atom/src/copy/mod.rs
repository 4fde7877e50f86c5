//! Copy instructions: the table and what is read out of it.
//!
//! A [`CopyOp`] says what to write, [`CopyTraits`] what it means, a [`CopyAtom`] is both, with what it does to data
//! ([`CopyAtom::execute`]).

mod atom;
mod execute;
mod instruction;
mod member;
mod names;
mod op;
mod reduction;
mod row;
mod search;
mod table;
mod traits;

pub use atom::{CopyAtom, MAX_TRANSACTION_BYTES};
pub use execute::Route;
pub use instruction::CopyOperands;
pub use op::{CopyOp, CopyOperand, OperandKind};
pub use reduction::{Reduction, Scalar};
pub use row::{Argument, CopyForm, CopyRow, Defect, Side, Sizes};
pub use search::{CopySearch, copy_atoms};
pub use table::copy_rows;
pub use traits::{CopyTraits, ValLayouts};
