//! Kernels built from tensors, printed as PTX, and run on a simulator or a CUDA device.
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
#![forbid(unsafe_code)]

pub mod attention;
mod autotune;
mod calls;
mod copy;
pub mod elementwise;
mod error;
pub mod gemm;
pub mod kernels;
mod launch;
pub mod memory_bound;
mod method;
pub mod quantise;
pub mod ranks;
mod recent;
pub mod reduce;
pub mod reference;
pub mod rowwise;
mod scratch;
pub mod testing;

pub use attention::{Attention, attention};
pub use colex_device::{
    Buffer, Cache, Device, Element, Error as DeviceError, Event, ExportedBuffer, Flags, Function,
    Origin, Rates, Repeats, Resources, Timing, View, ViewMut, cuda,
};
pub use colex_ir as ir;
pub use colex_ir::launch::{
    Argument, Extents, Launch, Limits, ParameterType, TensorMapArgument, check_arguments,
};
pub use colex_ir::{Error as LaunchError, ptx, verify};
pub use colex_sim as sim;
pub use colex_tensor as tensor;
pub use copy::call::{copy, transpose};
pub use elementwise::{Map, Rotary, gather};
pub use error::{Error, PlanRefusal};
pub use gemm::{Gemm, convolution, gemm};
pub use launch::{DeviceKernel, IntoArguments, IntoGrid, LaunchArg, Load};
pub use quantise::quantise;
pub use reduce::scan::cumulative_sum;
pub use reduce::top_k::top_k;
pub use reduce::{arg_max, arg_min, reduce};
pub use rowwise::{layer_norm, log_softmax, rms_norm, softmax};

/// The examples of the README run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
