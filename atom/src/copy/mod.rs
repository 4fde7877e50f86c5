//! Copy instructions: the table and what is read out of it.
//!
//! A [`CopyOp`] says what to write, [`CopyTraits`] what it means, a [`CopyAtom`] is both, with what it does to data
//! ([`CopyAtom::execute`]).

mod atom;
mod error;
mod execute;
mod instruction;
mod kernel;
mod member;
mod names;
mod op;
mod reduction;
mod row;
mod search;
mod table_blackwell;
mod table_tma;
mod table_warp;
mod tma;
mod traits;

pub use atom::{CopyAtom, MAX_TRANSACTION_BYTES};
pub use error::CopyError;
pub use execute::Route;
pub use instruction::CopyOperands;
pub use kernel::{CopyModule, copy_modules};
pub use member::copy_rows;
pub use op::{CopyOp, CopyOperand, OperandKind};
pub use reduction::{Reduction, Scalar};
pub use row::{Argument, CopyForm, CopyRow, Defect, Side, Sizes, Space};
pub use search::{CopySearch, copy_atoms};
pub use tma::{
    BoxElement, Im2colError, Im2colInstruction, Im2colPlan, Im2colStart, Im2colTile, Interleave,
    L2Promotion, OobFill, PixelBox, Taps, TensorMap, TmaElement, TmaError, TmaInstruction, TmaPlan,
    TmaSwizzle, TmaTile,
};
pub use traits::{CopyTraits, ValLayouts};
