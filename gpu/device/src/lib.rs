//! A device behind one interface: a CUDA GPU, or the simulator.
//!
//! A [`Device`] loads and launches kernels; a [`Buffer`] is memory of a device. The driver is loaded at run time: the
//! crate builds on a machine without one, and [`Device::gpu`] returns a typed error there.
//!
//! ```
//! use colex_device::Device;
//!
//! let device = Device::open();
//! let buffer = device.upload(&[1.0f32, 2.0, 3.0])?;
//! assert_eq!(buffer.slice(1..3)?.download()?, [2.0, 3.0]);
//! # Ok::<(), colex_device::Error>(())
//! ```
#![deny(unsafe_code)]

mod buffer;
mod cache;
#[allow(
    unsafe_code,
    reason = "calls into the driver; each block says why it is sound"
)]
pub mod cuda;
mod device;
mod device_slice;
mod element;
mod error;
mod event;
mod function;
mod image;
mod memo;
mod overlap;
mod peer;
#[cfg(feature = "serde")]
mod serialize;
mod signature;
mod stream_key;
mod timing;
mod view;

pub use buffer::{Buffer, KeptBuffer};
pub use cache::{Cache, SharedLines};
pub use colex_atom::Arch;
pub use device::{Device, Extension, Rates};
pub use device_slice::DeviceSlice;
pub use element::Element;
pub use error::Error;
pub use event::Event;
#[doc(hidden)]
pub use function::{BareLaunch, CheckedLaunch};
pub use function::{Function, Launchable, LoadedKernel, Origin, Resources};
pub use memo::Memo;
pub use peer::{ExportedBuffer, Flags};
#[doc(hidden)]
pub use stream_key::StreamKey;
pub use timing::{Repeats, TimedWork, Timing};
pub use view::{View, ViewKey, ViewMut};

/// What threads share: the compiler checks it wherever the crate is built.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Device>();
    shared::<Buffer<f32>>();
    shared::<KeptBuffer<f32>>();
    shared::<View<'_, f32>>();
    shared::<ViewMut<'_, f32>>();
    shared::<Function>();
    shared::<LoadedKernel>();
    shared::<Event>();
    shared::<Flags>();
    shared::<ExportedBuffer>();
    shared::<Cache>();
    shared::<Error>();
};

/// The examples of the README run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
