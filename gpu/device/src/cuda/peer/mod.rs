//! Memory of other devices and of other processes, flags in it, and waits that end.

mod exported;
mod flags;
mod wait;

pub(crate) use exported::EXPORTED_BYTES;
#[cfg(feature = "nccl")]
pub(super) use wait::poll;

use super::api::StatusCode;
use super::driver::driver;
use super::gpu::{self, Gpu};
use super::sys::DeviceAttribute;
use crate::error::{Error, ErrorKind};

/// The number of devices that the driver sees.
pub(crate) fn device_count() -> Result<usize, Error> {
    gpu::device_count(driver()?)
}

impl Gpu {
    /// The driver's number of the device.
    pub(crate) fn ordinal(&self) -> usize {
        usize::try_from(self.shared.device).unwrap_or(0)
    }

    /// Whether kernels and copies of this device can be given the memory of another one.
    pub(crate) fn can_access(&self, peer: &Gpu) -> Result<bool, Error> {
        let mut can = 0;
        self.call("cuDeviceCanAccessPeer", |api| {
            let (own, other) = (self.shared.device, peer.shared.device);
            // SAFETY: stores one integer; both are devices that contexts were made of.
            unsafe { (api.device_can_access_peer)(&mut can, own, other) }
        })?;
        Ok(can != 0)
    }

    /// Whether the link to another GPU carries atomic operations.
    pub(crate) fn has_native_atomics(&self, peer: &Gpu) -> Result<bool, Error> {
        /// `CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED`.
        const NATIVE_ATOMIC: u32 = 3;
        let mut has = 0;
        self.call("cuDeviceGetP2PAttribute", |api| {
            let (own, other) = (self.shared.device, peer.shared.device);
            // SAFETY: stores one integer; both are devices that contexts were made of.
            unsafe { (api.device_get_p2p_attribute)(&mut has, NATIVE_ATOMIC, own, other) }
        })?;
        Ok(has != 0)
    }

    /// Lets the work of this context use the memory of another one, now and later.
    pub(crate) fn enable_access(&self, peer: &Gpu) -> Result<(), Error> {
        /// `CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED`.
        const ENABLED: StatusCode = 704;
        if !self.can_access(peer)? {
            return Err(ErrorKind::NoPeerAccess {
                device: self.with_ordinal(),
                peer: peer.with_ordinal(),
            }
            .into());
        }
        self.call("cuCtxEnablePeerAccess", |api| {
            // SAFETY: the other context lives as long as its handle; there are no flags.
            match unsafe { (api.ctx_enable_peer_access)(peer.stream.context(), 0) } {
                ENABLED => 0,
                code => code,
            }
        })
    }

    /// `device 1 (NVIDIA H200)`: devices of one host have the same name.
    fn with_ordinal(&self) -> String {
        format!("device {} ({})", self.ordinal(), self.name())
    }

    /// Whether the driver says that streams take words of memory as flags. It has no attribute for words of 32 bits,
    /// which every device has that has those of 64.
    pub(crate) fn has_stream_flags(&self) -> Result<bool, Error> {
        let which = DeviceAttribute::WideStreamMemoryOperations;
        let found = gpu::device_attribute(self.shared.driver, self.shared.device, which)?;
        Ok(found != 0)
    }

    /// Waits for all work of the context, before memory goes that other devices or processes own, and returns whether
    /// all of it has ended. A context that is lost has no work.
    #[must_use]
    pub(crate) fn finish_context(&self) -> bool {
        // No mode of a thread allows a wait for a context of which a stream is captured: it breaks the capture off.
        if self.is_capturing().unwrap_or(false) {
            return false;
        }
        let done = self.call("cuCtxSynchronize", |api| {
            // SAFETY: takes nothing; the context is current.
            unsafe { (api.ctx_synchronize)() }
        });
        done.is_ok() || self.alive().is_err()
    }
}
