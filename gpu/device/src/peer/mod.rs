//! Several devices: access to each other's memory, copies in it, flags, and memory of other processes.

mod exported;
mod flags;

pub use exported::ExportedBuffer;
pub use flags::Flags;

use crate::buffer::Buffer;
use crate::cuda;
use crate::device::{Device, Kind};
use crate::element::Element;
use crate::error::{Error, ErrorKind};

/// Why a simulated device has no peers.
const ONE_DEVICE: &str = "its memory is its own; several simulated devices are `colex_sim::Ranks`";

impl Device {
    /// Returns the number of GPUs that the driver sees; [`gpu`](Device::gpu) opens each by its ordinal.
    ///
    /// ```
    /// use colex_device::Device;
    ///
    /// match Device::gpu_count() {
    ///     Ok(count) => assert!(Device::gpu(count).is_err()), // ordinals count from 0
    ///     Err(why) => assert!(why.is_no_gpu()),
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if there is no driver, if it is too old or does not start, or if it sees no device.
    pub fn gpu_count() -> Result<usize, Error> {
        cuda::device_count()
    }

    /// Returns the GPU's ordinal, counted from 0, if it is a GPU.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// assert_eq!(device.ordinal(), None);
    /// if let Ok(device) = Device::gpu(0) {
    ///     assert_eq!(device.ordinal(), Some(0));
    /// }
    /// ```
    pub fn ordinal(&self) -> Option<usize> {
        match &self.0 {
            Kind::Gpu(gpu) => Some(gpu.ordinal()),
            Kind::Simulator(_) => None,
        }
    }

    /// Returns whether the work of this device can use the memory of another device: always its own, never with the
    /// simulator.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// let [device, other] = [Device::simulator(Arch::Sm90a), Device::simulator(Arch::Sm90a)];
    /// assert!(device.can_access(&device)?);
    /// assert!(!device.can_access(&other)?);
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the driver's error.
    pub fn can_access(&self, peer: &Device) -> Result<bool, Error> {
        match (&self.0, &peer.0) {
            _ if self.is_same_device(peer) => Ok(true),
            (Kind::Gpu(own), Kind::Gpu(peer)) => own.can_access(peer),
            (Kind::Gpu(_) | Kind::Simulator(_), _) => Ok(false),
        }
    }

    /// Returns whether atomic operations of this device work in the memory of another device as in its own: always in its own,
    /// never with the simulator, and between two GPUs where the link carries them (`cuDeviceGetP2PAttribute`).
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// let [device, other] = [Device::simulator(Arch::Sm90a), Device::simulator(Arch::Sm90a)];
    /// assert!(device.has_native_atomics(&device)?);
    /// assert!(!device.has_native_atomics(&other)?);
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the driver's error.
    pub fn has_native_atomics(&self, peer: &Device) -> Result<bool, Error> {
        match (&self.0, &peer.0) {
            _ if self.is_same_device(peer) => Ok(true),
            (Kind::Gpu(own), Kind::Gpu(peer)) => own.has_native_atomics(peer),
            (Kind::Gpu(_) | Kind::Simulator(_), _) => Ok(false),
        }
    }

    /// Gives the work of this device access to the memory of another device (`cuCtxEnablePeerAccess`), if it has none
    /// yet. [`Buffer::as_peer_of`] calls it.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// let [device, other] = [Device::simulator(Arch::Sm90a), Device::simulator(Arch::Sm90a)];
    /// device.enable_access(&device)?; // its own memory
    /// assert!(device.enable_access(&other).unwrap_err().is_unsupported());
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error that names both devices if there is no peer access between them, an error if one of them is a
    /// simulator, and the driver's error.
    pub fn enable_access(&self, peer: &Device) -> Result<(), Error> {
        match (&self.0, &peer.0) {
            _ if self.is_same_device(peer) => Ok(()),
            (Kind::Gpu(own), Kind::Gpu(peer)) => own.enable_access(peer),
            (Kind::Gpu(_) | Kind::Simulator(_), _) => {
                let simulator = if self.is_simulator() { self } else { peer };
                Err(unsupported(simulator, "share memory with another device"))
            }
        }
    }

    /// Copies a buffer in the stream of this handle, by a copy engine: no kernel runs. Both buffers are this device's,
    /// and each may be memory of a [peer](Buffer::as_peer_of) or of [another process](Device::open_exported). The call
    /// does not wait for the copy.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// let copies = device.on_new_stream()?;
    /// let (from, to) = (device.upload(&[1.0f32, 2.0])?, device.zeros::<f32>(4)?);
    /// copies.enqueue_copy(&to.slice(2..)?, &from)?;
    /// copies.synchronize()?;
    /// assert_eq!(to.download()?, [0.0, 0.0, 1.0, 2.0]);
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if a buffer is on another device, if they have different lengths, or if they share a part of their memory but not
    /// all of it, and the driver's error.
    pub fn enqueue_copy<T: Element>(&self, to: &Buffer<T>, from: &Buffer<T>) -> Result<(), Error> {
        self.check_same("the buffer to be written", to.device())?;
        self.check_same("the buffer to be read", from.device())?;
        if to.len() != from.len() {
            return Err(ErrorKind::Length {
                what: "the buffer to be written",
                expected: to.len(),
                found: from.len(),
            }
            .into());
        }
        to.copy_on(self, from)
    }
}

impl<T: Element> Buffer<T> {
    /// Returns a handle to the same memory for the work of another device: launches, copies and flags of `device` take
    /// it as a buffer of their own, at the same address. `device` gets [access](Device::enable_access) to the device that
    /// allocated the memory, also if this handle is another peer's. The memory lives as long as any handle to it.
    ///
    /// ```
    /// use colex_device::Device;
    ///
    /// # fn main() -> Result<(), colex_device::Error> {
    /// let count = Device::gpu_count().unwrap_or(0);
    /// let devices = (0..count.min(2)).map(Device::gpu).collect::<Result<Vec<_>, _>>()?;
    /// if let [first, second] = &devices[..]
    ///     && second.can_access(first)?
    /// {
    ///     let buffer = first.upload(&[1.0f32, 2.0, 3.0])?;
    ///     let there = buffer.as_peer_of(second)?;
    ///     let copy = second.zeros(3)?;
    ///     second.enqueue_copy(&copy, &there)?;
    ///     assert_eq!(copy.download()?, [1.0, 2.0, 3.0]);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`enable_access`](Device::enable_access).
    pub fn as_peer_of(&self, device: &Device) -> Result<Buffer<T>, Error> {
        if device.is_same_device(self.device()) {
            return Ok(self.clone());
        }
        // A handle of a peer is none of the memory's owner: access is to the device that allocated it.
        let root = self.root();
        if device.is_same_device(root.device()) {
            return Ok(root);
        }
        device.enable_access(root.device())?;
        Ok(root.on_peer(device))
    }
}

/// The error of a simulator that is asked for something of several devices.
fn unsupported(device: &Device, what: &'static str) -> Error {
    ErrorKind::Unsupported {
        what,
        device: device.name(),
        why: ONE_DEVICE,
    }
    .into()
}
