//! The CUDA executor: the only module that knows the driver, and the only one with `unsafe`.
//!
//! The driver's functions are looked up once, by name, before the first is called: none that an old driver lacks is
//! ever reached, and a code that no header names stays a number. `cudarc` finds the library and owns contexts and
//! streams, so that they can be a user's own.

mod api;
mod cublaslt;
mod driver;
mod event;
mod gpu;
mod graph;
mod interop;
mod jit;
mod launch;
mod memory;
mod module;
mod tensor_map;

pub use cublaslt::{CublasLt, LtMatrix, LtProduct};
pub use cudarc;
pub use interop::BorrowedSlice;

pub(crate) use event::GpuEvent;
pub(crate) use gpu::Gpu;
pub(crate) use module::Loaded;
