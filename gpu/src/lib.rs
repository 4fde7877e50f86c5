//! Kernels built from tensors, printed as PTX, run on a simulator or a CUDA device.
//!
//! A [`Device`] is a GPU or the simulator behind one interface; a [`Buffer`] is its memory.
//!
//! ```
//! use colex_gpu::Device;
//!
//! let device = Device::open();
//! let buffer = device.upload(&[1.0f32, 2.0, 3.0])?;
//! assert_eq!(buffer.slice(1..3)?.download()?, [2.0, 3.0]);
//! # Ok::<(), colex_gpu::Error>(())
//! ```
#![deny(unsafe_code)]

mod buffer;
mod cache;
pub mod corpus;
#[allow(
    unsafe_code,
    reason = "calls into the driver; each block says why it is sound"
)]
pub mod cuda;
mod device;
mod element;
mod error;
mod event;
mod function;
mod kept;
pub mod kernels;
mod signature;
pub mod sweep;
mod timing;

pub use buffer::Buffer;
pub use cache::Cache;
pub use colex_ir as ir;
pub use colex_ir::launch::{
    Argument, Extents, Launch, LaunchError, Limits, ParameterType, TensorMapArgument,
    check_arguments,
};
pub use colex_ir::{ptx, verify};
pub use colex_sim as sim;
pub use colex_tensor as tensor;
pub use device::Device;
pub use element::Element;
pub use error::Error;
pub use event::Event;
pub use function::{Function, Origin, Resources};
pub use kernels::gemm::gemm;
pub use kernels::{copy, transpose};
pub use timing::{Repeats, Timing};
