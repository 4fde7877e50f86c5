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

mod argument;
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
pub mod ir;
mod kept;
pub mod kernels;
mod launch;
mod launch_error;
pub mod ptx;
mod signature;
pub mod sim;
pub mod sweep;
pub mod tensor;
mod timing;
pub mod verify;

pub use argument::{Argument, ParameterType, TensorMapArgument};
pub use buffer::Buffer;
pub use cache::Cache;
pub use device::Device;
pub use element::Element;
pub use error::Error;
pub use event::Event;
pub use function::{Function, Origin, Resources};
pub use kernels::gemm::gemm;
pub use kernels::{copy, transpose};
pub use launch::{Extents, Launch, Limits, check_arguments};
pub use launch_error::LaunchError;
pub use timing::{Repeats, Timing};
