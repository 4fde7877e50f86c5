//! Elementwise kernels over tensors of any rank whose modes join into 8 loops at most: maps, gathers of rows and rotary embeddings, by one
//! family of plans.
//!
//! All of them are the same loops: the algebra joins the coordinates of all tensors into as few loops as there can be, the loop
//! with the least traffic runs fastest, and a thread takes vectors along it.

pub(crate) mod call;
mod expression;
pub(crate) mod gather;
mod kernel;
mod map;
mod nest;
mod operands;
mod plan;
pub mod reference;
mod rotary;

pub use call::ElementwiseCall;
pub use expression::{MapExpression, MapExpressionBuilder, MapInput, MapInputKind, MapOutput};
pub use gather::{Gather, RowNumber, gather};
pub use map::Map;
pub use nest::{Nest, NestLoop};
pub use operands::{Access, ElementwiseOperand, ElementwiseOperands, ElementwiseProblem};
pub use plan::ElementwisePlan;
pub use rotary::{Pairing, Rotary, RotaryCall};
