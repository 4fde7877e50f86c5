//! Side by side with a program's own use of CUDA through `cudarc`.

use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, DevicePtr, DevicePtrMut, SyncOnDrop};

use super::gpu::Gpu;
use crate::device::{Device, Kind};
use crate::error::Error;
use colex_ir::launch::Argument;

/// A slice of `cudarc` lent to launches. Keep it until the launches that use it were given to the device: on its drop,
/// other streams learn what they have to wait for.
pub struct Lent<'a, T> {
    device: &'a Device,
    address: u64,
    length: usize,
    writable: bool,
    element: PhantomData<T>,
    _until: SyncOnDrop<'a>,
}

impl<T> Lent<'_, T> {
    /// The device that it was lent to.
    pub fn device(&self) -> &Device {
        self.device
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether it was lent by [`Device::lend_mut`].
    pub fn is_writable(&self) -> bool {
        self.writable
    }

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
    /// It waits for nothing, and may be made for every call: the first device of a context asks the driver for its
    /// limits, later ones ask nothing. All devices of one context are the same [device](Device::is). They share what was
    /// loaded for any of them, for as long as the program keeps the context.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`] if the stream is not the context's; [`Error::DriverTooOld`] and [`Error::DeviceTooOld`];
    /// what the driver says.
    pub fn from_cuda(context: Arc<CudaContext>, stream: Arc<CudaStream>) -> Result<Device, Error> {
        if stream.context() != &context {
            return Err(Error::OtherContext { what: "stream" });
        }
        Ok(Device(Kind::Gpu(Gpu::of(stream)?)))
    }

    /// The context and the stream it works in, if it is a GPU.
    pub fn cuda(&self) -> Option<(&Arc<CudaContext>, &Arc<CudaStream>)> {
        match &self.0 {
            Kind::Gpu(gpu) => Some((gpu.stream.context(), &gpu.stream)),
            Kind::Simulator(_) => None,
        }
    }

    /// Lends a slice to launches that only read it.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`] if it is not in this device's context.
    pub fn lend<'a, T>(&'a self, slice: &'a impl DevicePtr<T>) -> Result<Lent<'a, T>, Error> {
        let stream = self.stream_of(slice.stream(), "slice")?;
        let length = slice.len();
        let (address, until) = slice.device_ptr(stream);
        Ok(Lent {
            device: self,
            address,
            length,
            writable: false,
            element: PhantomData,
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
    ) -> Result<Lent<'a, T>, Error> {
        let stream = self.stream_of(slice.stream(), "slice")?;
        let length = slice.len();
        let (address, until) = slice.device_ptr_mut(stream);
        Ok(Lent {
            device: self,
            address,
            length,
            writable: true,
            element: PhantomData,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;
    use crate::element::Element;
    use crate::kernels::{GemmProblem, View};

    /// A buffer as a slice of `cudarc` would be lent.
    fn lent<T: Element>(buffer: &Buffer<T>, writable: bool) -> Lent<'_, T> {
        Lent {
            device: buffer.device(),
            address: buffer.address(),
            length: buffer.len(),
            writable,
            element: PhantomData,
            _until: SyncOnDrop::Record(None),
        }
    }

    #[test]
    fn library_kernels_take_what_was_lent() {
        let device = Device::simulator(colex_atom::Arch::Sm80);
        let (a, b) = (
            device.upload(&[1f32, 2.0, 3.0, 4.0]),
            device.upload(&[1f32, 0.0]),
        );
        let (a, b, c) = (a.unwrap(), b.unwrap(), device.poisoned::<f32>(2).unwrap());
        let problem = GemmProblem::new(2, 1, 2);
        let read = [lent(&a, false), lent(&b, false)];
        crate::gemm(&problem, &read[0], &read[1], &lent(&c, true)).unwrap();
        assert_eq!(c.download().unwrap(), [1.0, 3.0]);
        let refused = crate::gemm(&problem, &read[0], &read[1], &lent(&c, false));
        assert_eq!(
            refused.unwrap_err().to_string(),
            "C was lent to be read, and the kernel writes it: lend it by `lend_mut`"
        );
    }

    #[test]
    fn a_copy_does_not_write_what_was_lent_to_be_read() {
        let device = Device::simulator(colex_atom::Arch::Sm80);
        let (from, to) = (
            device.upload(&[7u8, 8]).unwrap(),
            device.zeros::<u8>(2).unwrap(),
        );
        let copy = |source: Lent<'_, u8>, destination: Lent<'_, u8>| {
            let [from, to] = [&source, &destination].map(|l| View::new(l, "2:1".parse().unwrap()));
            crate::copy(&from.unwrap(), &to.unwrap())
        };
        copy(lent(&from, false), lent(&to, true)).unwrap();
        assert_eq!(to.download().unwrap(), [7, 8]);
        assert_eq!(
            copy(lent(&from, false), lent(&to, false))
                .unwrap_err()
                .to_string(),
            "the destination was lent to be read, and the kernel writes it: lend it by `lend_mut`"
        );
        let two = lent(&to, false);
        let long = View::new(&two, "3:1".parse().unwrap()).unwrap_err();
        assert_eq!(
            long.to_string(),
            "3:1 reaches element 2, and the buffer has elements 0 to 1"
        );
    }
}
