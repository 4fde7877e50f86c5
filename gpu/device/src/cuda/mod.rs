//! The CUDA executor: the only module that knows the driver, and the only one with `unsafe`.
//!
//! The driver's library is opened at run time, and its functions are looked up once, by name, before the first is
//! called: none that an old driver lacks is ever reached, and a code that no header names stays a number. Contexts and
//! streams are opened here, or are a program's own: raw handles, or those of `cudarc` with the feature of that name.

mod borrowed;
mod context;
mod cublaslt;
#[cfg(feature = "cudarc")]
mod cudarc_interop;
mod driver;
mod event;
mod gpu;
mod graph;
mod identity;
mod jit;
mod launch;
mod memory;
mod module;
#[cfg(feature = "nccl")]
mod nccl;
mod peer;
mod raw;
mod tensor_map;

pub use borrowed::BorrowedSlice;
pub use cublaslt::{CublasLt, LtBias, LtCompute, LtMatrix, LtProduct, LtType};
#[cfg(feature = "cudarc")]
pub use cudarc;
#[cfg(feature = "nccl")]
pub use nccl::{Communicator, NcclElement, NcclId};
pub use raw::RawStream;

use driver::{api, library, sys};

pub(crate) use event::GpuEvent;
pub(crate) use gpu::Gpu;
pub(crate) use identity::ContextIdentity;
pub(crate) use launch::{BareGpuLaunch, HeldGpuLaunch};
pub(crate) use module::Loaded;
pub(crate) use peer::{EXPORTED_BYTES, device_count};
