//! Side by side with a program's own use of CUDA through `cudarc`.

use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, DevicePtr, DevicePtrMut, SyncOnDrop};

use super::gpu::Gpu;
use crate::buffer::Buffer;
use crate::device::{Device, Kind};
use crate::element::Element;
use crate::error::{Error, ErrorKind};
use colex_ir::launch::Argument;

/// A slice of `cudarc` lent to launches. Keep it until the launches that use it were given to the device: on its drop,
/// other streams learn what they have to wait for.
pub struct BorrowedSlice<'a, T> {
    device: &'a Device,
    address: u64,
    length: usize,
    writable: bool,
    element: PhantomData<T>,
    _until: SyncOnDrop<'a>,
}

impl<'a, T: Element> BorrowedSlice<'a, T> {
    /// Lends a buffer as a slice of `cudarc` would be lent: for tests on the simulator, which has no slices.
    #[doc(hidden)]
    pub fn of_buffer(buffer: &'a Buffer<T>, writable: bool) -> BorrowedSlice<'a, T> {
        BorrowedSlice {
            device: buffer.device(),
            address: buffer.address(),
            length: buffer.len(),
            writable,
            element: PhantomData,
            _until: SyncOnDrop::Record(None),
        }
    }
}

impl<T> BorrowedSlice<'_, T> {
    /// Returns the device that it was lent to.
    pub fn device(&self) -> &Device {
        self.device
    }

    /// Returns how many elements it has.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether it has none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns whether it was lent by [`Device::borrow_slice_mut`].
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Returns the address of its first element.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns the slice as an argument.
    pub fn argument(&self) -> Argument {
        Argument::Pointer(self.address)
    }
}

impl Device {
    /// Returns a device that works in a context and a stream of the caller's, and leaves both as they are.
    ///
    /// It waits for nothing, and may be made for every call: the first device of a context asks the driver for its
    /// limits, later ones ask nothing. All devices of one context are the same [device](Device::is_same_device). They
    /// share what was loaded for any of them, for as long as the program keeps the context.
    ///
    /// ```
    /// use colex_device::Device;
    ///
    /// let device = Device::open();
    /// if let Some((context, stream)) = device.cuda() {
    ///     let same = Device::from_cuda(context.clone(), stream.clone())?;
    ///     assert!(same.is_same_device(&device));
    /// }
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the stream is not the context's, and for a driver that is too old and for a device that is too old;
    /// what the driver says.
    pub fn from_cuda(context: Arc<CudaContext>, stream: Arc<CudaStream>) -> Result<Device, Error> {
        if stream.context() != &context {
            return Err(ErrorKind::OtherContext { what: "stream" }.into());
        }
        Ok(Device(Kind::Gpu(Gpu::of(stream)?)))
    }

    /// Returns the context and the stream it works in, if it is a GPU.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_device::Device;
    /// # let device = Device::simulator(Arch::Sm90a);
    /// assert!(device.cuda().is_none()); // a simulator has no context
    /// ```
    pub fn cuda(&self) -> Option<(&Arc<CudaContext>, &Arc<CudaStream>)> {
        match &self.0 {
            Kind::Gpu(gpu) => Some((gpu.stream.context(), &gpu.stream)),
            Kind::Simulator(_) => None,
        }
    }

    /// Lends a slice to launches that only read it.
    ///
    /// ```
    /// use colex_device::Device;
    ///
    /// let device = Device::open();
    /// if let Some((_, stream)) = device.cuda() {
    ///     let slice = stream.clone_htod(&[1f32, 2.0, 3.0]).expect("memory for 12 bytes");
    ///     let borrowed = device.borrow_slice(&slice)?;
    ///     assert_eq!((borrowed.len(), borrowed.is_writable()), (3, false));
    /// }
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if it is not in this device's context.
    pub fn borrow_slice<'a, T>(
        &'a self,
        slice: &'a impl DevicePtr<T>,
    ) -> Result<BorrowedSlice<'a, T>, Error> {
        let stream = self.stream_of(slice.stream(), "slice")?;
        let length = slice.len();
        let (address, until) = slice.device_ptr(stream);
        Ok(BorrowedSlice {
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
    /// ```
    /// use colex_device::Device;
    ///
    /// let device = Device::open();
    /// if let Some((_, stream)) = device.cuda() {
    ///     let mut slice = stream.clone_htod(&[1f32, 2.0, 3.0]).expect("memory for 12 bytes");
    ///     assert!(device.borrow_slice_mut(&mut slice)?.is_writable());
    /// }
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if it is not in this device's context.
    pub fn borrow_slice_mut<'a, T>(
        &'a self,
        slice: &'a mut impl DevicePtrMut<T>,
    ) -> Result<BorrowedSlice<'a, T>, Error> {
        let stream = self.stream_of(slice.stream(), "slice")?;
        let length = slice.len();
        let (address, until) = slice.device_ptr_mut(stream);
        Ok(BorrowedSlice {
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
            _ => Err(ErrorKind::OtherContext { what }.into()),
        }
    }
}
