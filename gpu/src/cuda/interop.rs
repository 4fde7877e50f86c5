//! Side by side with a program's own use of CUDA through `cudarc`.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, DevicePtr, DevicePtrMut, SyncOnDrop};

use super::gpu::Gpu;
use crate::argument::Argument;
use crate::device::{Device, Kind};
use crate::error::Error;

/// A slice of `cudarc` lent to launches. Keep it until the launches that use it were given to the device: on its drop,
/// other streams learn what they have to wait for.
pub struct Lent<'a> {
    address: u64,
    _until: SyncOnDrop<'a>,
}

impl Lent<'_> {
    /// The address of its first element.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The slice as an argument.
    pub fn argument(&self) -> Argument {
        Argument::Pointer(self.address)
    }
}

impl Device {
    /// A device that works in a context and a stream of the caller's, and leaves both as they are.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`] if the stream is not the context's; [`Error::DriverTooOld`] and [`Error::DeviceTooOld`];
    /// what the driver says.
    pub fn from_cuda(context: Arc<CudaContext>, stream: Arc<CudaStream>) -> Result<Device, Error> {
        if stream.context() != &context {
            return Err(Error::OtherContext { what: "stream" });
        }
        Ok(Device(Kind::Gpu(Gpu::of(context, stream)?)))
    }

    /// The context and the stream it works in, if it is a GPU.
    pub fn cuda(&self) -> Option<(&Arc<CudaContext>, &Arc<CudaStream>)> {
        match &self.0 {
            Kind::Gpu(gpu) => Some((&gpu.shared.context, &gpu.stream)),
            Kind::Simulator(_) => None,
        }
    }

    /// Lends a slice to launches that only read it.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`] if it is not in this device's context.
    pub fn lend<'a, T>(&'a self, slice: &'a impl DevicePtr<T>) -> Result<Lent<'a>, Error> {
        let stream = self.stream_of(slice.stream(), "slice")?;
        let (address, until) = slice.device_ptr(stream);
        Ok(Lent {
            address,
            _until: until,
        })
    }

    /// Lends a slice to launches that write it.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`] if it is not in this device's context.
    pub fn lend_mut<'a, T>(
        &'a self,
        slice: &'a mut impl DevicePtrMut<T>,
    ) -> Result<Lent<'a>, Error> {
        let stream = self.stream_of(slice.stream(), "slice")?;
        let (address, until) = slice.device_ptr_mut(stream);
        Ok(Lent {
            address,
            _until: until,
        })
    }

    /// This device's stream, if it shares its context with another stream.
    fn stream_of(&self, other: &Arc<CudaStream>, what: &'static str) -> Result<&CudaStream, Error> {
        match self.cuda() {
            Some((context, stream)) if other.context() == context => Ok(stream),
            _ => Err(Error::OtherContext { what }),
        }
    }
}
