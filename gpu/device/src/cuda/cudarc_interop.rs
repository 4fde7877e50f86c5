//! Interoperation with a program's own use of CUDA through `cudarc`.

use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, DevicePtr, DevicePtrMut};

use super::borrowed::BorrowedSlice;
use super::context::Stream;
use super::gpu::Gpu;
use crate::device::{Device, Kind};
use crate::error::{Error, ErrorKind};

impl Device {
    /// Returns a device that works in a context and a stream of the caller's, and leaves both as they are.
    ///
    /// It waits for nothing, and may be made for every call: the first device of a context asks the driver for its
    /// limits, later ones ask nothing. All devices of one context are the same [device](Device::is_same_device), however
    /// each was made. They share what was loaded for any of them, for as long as the program keeps the context.
    ///
    /// ```
    /// use colex_device::Device;
    /// use colex_device::cuda::cudarc::driver::CudaContext;
    ///
    /// let opened = Device::open();
    /// if !opened.is_simulator() {
    ///     let context = CudaContext::new(0).expect("the driver has a device");
    ///     let stream = context.default_stream();
    ///     let device = Device::from_cuda(context, stream)?;
    ///     assert!(device.is_same_device(&opened)); // both work in the primary context of device 0
    /// }
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the stream is not the context's, for a driver that is too old, for a device that is too old,
    /// and what else the driver says.
    pub fn from_cuda(context: Arc<CudaContext>, stream: Arc<CudaStream>) -> Result<Device, Error> {
        if stream.context() != &context {
            return Err(ErrorKind::OtherContext { what: "stream" }.into());
        }
        Ok(Device(Kind::Gpu(Gpu::of(Stream::of_cudarc(stream))?)))
    }

    /// Returns the context and the stream of `cudarc` that it was made [of](Device::from_cuda), or that it was given on a
    /// [new stream](Device::on_new_stream). A device that was opened by its ordinal has neither.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// assert!(device.cuda().is_none()); // a simulator has no context
    /// ```
    pub fn cuda(&self) -> Option<(&Arc<CudaContext>, &Arc<CudaStream>)> {
        match &self.0 {
            Kind::Gpu(gpu) => gpu.stream.cudarc().map(|stream| (stream.context(), stream)),
            Kind::Simulator(_) => None,
        }
    }

    /// Borrows a slice of `cudarc` for launches that only read it.
    ///
    /// ```
    /// use colex_device::Device;
    /// use colex_device::cuda::cudarc::driver::CudaContext;
    ///
    /// if Device::gpu(0).is_ok() {
    ///     let context = CudaContext::new(0).expect("the driver has a device");
    ///     let stream = context.default_stream();
    ///     let slice = stream.clone_htod(&[1f32, 2.0, 3.0]).expect("memory for 12 bytes");
    ///     let device = Device::from_cuda(context, stream)?;
    ///     let borrowed = device.borrow_slice(&slice)?;
    ///     assert_eq!((borrowed.len(), borrowed.is_writable()), (3, false));
    /// }
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the slice is in another context, and if the device was not made by
    /// [`from_cuda`](Device::from_cuda): `cudarc` orders work on its slices only between streams of its own.
    pub fn borrow_slice<'a, T>(
        &'a self,
        slice: &'a impl DevicePtr<T>,
    ) -> Result<BorrowedSlice<'a, T>, Error> {
        let stream = self.stream_of(slice.stream())?;
        let length = slice.len();
        let (address, until) = slice.device_ptr(stream);
        Ok(BorrowedSlice {
            device: self,
            address,
            length,
            writable: false,
            element: PhantomData,
            _until: Some(until),
        })
    }

    /// Borrows a slice of `cudarc` for launches that write it.
    ///
    /// ```
    /// use colex_device::Device;
    /// use colex_device::cuda::cudarc::driver::CudaContext;
    ///
    /// if Device::gpu(0).is_ok() {
    ///     let context = CudaContext::new(0).expect("the driver has a device");
    ///     let stream = context.default_stream();
    ///     let mut slice = stream.clone_htod(&[1f32, 2.0, 3.0]).expect("memory for 12 bytes");
    ///     let device = Device::from_cuda(context, stream)?;
    ///     assert!(device.borrow_slice_mut(&mut slice)?.is_writable());
    /// }
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`borrow_slice`](Device::borrow_slice).
    pub fn borrow_slice_mut<'a, T>(
        &'a self,
        slice: &'a mut impl DevicePtrMut<T>,
    ) -> Result<BorrowedSlice<'a, T>, Error> {
        let stream = self.stream_of(slice.stream())?;
        let length = slice.len();
        let (address, until) = slice.device_ptr_mut(stream);
        Ok(BorrowedSlice {
            device: self,
            address,
            length,
            writable: true,
            element: PhantomData,
            _until: Some(until),
        })
    }

    /// Returns this device's stream, if it shares its context with the stream of a slice.
    fn stream_of(&self, slice: &Arc<CudaStream>) -> Result<&CudaStream, Error> {
        match &self.0 {
            Kind::Gpu(gpu) => match gpu.stream.cudarc() {
                Some(stream) if slice.context() == stream.context() => Ok(stream),
                Some(_) => Err(ErrorKind::OtherContext { what: "slice" }.into()),
                None => Err(ErrorKind::NotOfCudarc.into()),
            },
            Kind::Simulator(_) => Err(ErrorKind::OtherContext { what: "slice" }.into()),
        }
    }
}
