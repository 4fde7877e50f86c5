//! The atom sweep: every executable row of the tables, run, and compared with its own arithmetic.
//!
//! For each instruction a small kernel is built: it places random data in registers and shared memory by the row's
//! thread-value layouts, executes the one instruction, and stores what came out. Then the row's arithmetic says what must
//! have come out, element by element: bit for bit where that is exact, within the rounding of the datapath elsewhere.
//! The same kernels run on a GPU and on the simulator.

mod bulk;
mod case;
mod copy;
mod engine;
mod frame;
mod gmma;
mod list;
mod mma;
mod product;
mod random;
mod run;
mod shared;
mod tiles;
mod tma;

pub use bulk::bulk_case;
pub use case::{Agreement, Case, Judge, Shot};
pub use copy::copy_case;
pub use list::{Subject, subjects, with_options};
pub use mma::mma_case;
pub use random::{Kind, Random};
pub use run::{Record, Times, Verdict};
pub use tma::{TmaForm, TmaVariant, tma_case};
