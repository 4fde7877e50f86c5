//! Interoperation with a program's own use of CUDA, by the driver's raw handles.

use std::ffi::c_void;

use super::borrowed::BorrowedSlice;
use super::context::Stream;
use super::driver::driver;
use super::gpu::Gpu;
use crate::device::{Device, Kind};
use crate::element::Element;
use crate::error::{Error, ErrorKind};

/// A context and a stream in it, as the driver's handles: what any binding of CUDA can give and take.
///
/// ```
/// use colex_device::{Device, cuda::RawStream};
///
/// # fn main() -> Result<(), colex_device::Error> {
/// let device = Device::open();
/// if let Some(RawStream { context, stream }) = device.raw() {
///     // SAFETY: `device` keeps both until the end of the program.
///     let same = unsafe { Device::from_raw(RawStream { context, stream })? };
///     assert!(same.is_same_device(&device));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawStream {
    /// A `CUcontext`.
    pub context: *mut c_void,
    /// A `CUstream` of that context. Null is the legacy default stream.
    pub stream: *mut c_void,
}

impl Device {
    /// Returns a device that works in a context and a stream of the caller's, and leaves both as they are.
    ///
    /// It waits for nothing, and may be made for every call: the first device of a context asks the driver for its
    /// limits, later ones for the context's number. All devices of one context are the same
    /// [device](Device::is_same_device), however each was made. They share what was loaded for any of them. What was
    /// loaded stays in the context until the program destroys the context or calls
    /// [`clear_module_cache`](Device::clear_module_cache).
    ///
    /// ```
    /// use colex_device::Device;
    ///
    /// # fn main() -> Result<(), colex_device::Error> {
    /// let device = Device::open();
    /// if let Some(raw) = device.raw() {
    ///     // SAFETY: `device` keeps the context and the stream until the end of the program.
    ///     let same = unsafe { Device::from_raw(raw)? };
    ///     assert!(same.is_same_device(&device));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Safety
    ///
    /// The context and the stream live as long as the device, its clones, and what they give: buffers, functions, events,
    /// and devices [on a new stream](Device::on_new_stream).
    ///
    /// # Errors
    ///
    /// Returns an error if the context is null, if the stream is not the context's, without a driver or with one that is
    /// too old, for a device that is too old, and what else the driver says.
    pub unsafe fn from_raw(raw: RawStream) -> Result<Device, Error> {
        let driver = driver()?;
        if raw.context.is_null() {
            return Err(ErrorKind::NullContext.into());
        }
        if !raw.stream.is_null() {
            let mut context = std::ptr::null_mut();
            // SAFETY: the stream lives, as the caller promises; the function stores one handle.
            let code = unsafe { (driver.api.stream_get_ctx)(raw.stream, &mut context) };
            driver.check("cuStreamGetCtx", code)?;
            if context != raw.context {
                return Err(ErrorKind::OtherContext { what: "stream" }.into());
            }
        }
        // SAFETY: the stream is the context's, and the caller promises that both live long enough.
        let stream = unsafe { Stream::of_caller(raw.context, raw.stream) };
        Ok(Device(Kind::Gpu(Gpu::of(stream)?)))
    }

    /// Returns the context and the stream that it works in, if it is a GPU. Both live as long as the device.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// assert!(device.raw().is_none()); // a simulator has no context
    /// ```
    pub fn raw(&self) -> Option<RawStream> {
        match &self.0 {
            Kind::Gpu(gpu) => Some(RawStream {
                context: gpu.stream.context(),
                stream: gpu.stream.handle(),
            }),
            Kind::Simulator(_) => None,
        }
    }

    /// Borrows `length` elements at an address for launches that only read them.
    ///
    /// ```
    /// use colex_device::Device;
    ///
    /// # fn main() -> Result<(), colex_device::Error> {
    /// let device = Device::open();
    /// if device.raw().is_some() {
    ///     let memory = device.upload(&[1f32, 2.0, 3.0])?; // or a pointer of any other library
    ///     // SAFETY: `memory` has three elements and lives until the end of the program.
    ///     let slice = unsafe { device.borrow_raw::<f32>(memory.address(), 3)? };
    ///     assert_eq!((slice.len(), slice.is_writable()), (3, false));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Safety
    ///
    /// The memory belongs to this device's context or can be accessed from it. It has `length` initialised elements of
    /// type `T`, lives until the launches that use it have ended, and is not written meanwhile by work that the stream
    /// does not order.
    ///
    /// # Errors
    ///
    /// Returns an error on the simulator, for an address that is null or no multiple of the element's size, and for a
    /// length that ends beyond the last address.
    pub unsafe fn borrow_raw<T: Element>(
        &self,
        address: u64,
        length: usize,
    ) -> Result<BorrowedSlice<'_, T>, Error> {
        self.raw_memory(address, length, false)
    }

    /// Borrows `length` elements at an address for launches that write them.
    ///
    /// ```
    /// use colex_device::Device;
    ///
    /// # fn main() -> Result<(), colex_device::Error> {
    /// let device = Device::open();
    /// if device.raw().is_some() {
    ///     let memory = device.uninitialised::<f32>(3)?; // or a pointer of any other library
    ///     // SAFETY: `memory` has three elements and lives until the end of the program.
    ///     let slice = unsafe { device.borrow_raw_mut::<f32>(memory.address(), 3)? };
    ///     assert!(slice.is_writable());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Safety
    ///
    /// As for [`borrow_raw`](Device::borrow_raw), but the elements may be uninitialised. No other work accesses them
    /// until the launches that use them have ended, unless the stream orders it.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`borrow_raw`](Device::borrow_raw).
    pub unsafe fn borrow_raw_mut<T: Element>(
        &self,
        address: u64,
        length: usize,
    ) -> Result<BorrowedSlice<'_, T>, Error> {
        self.raw_memory(address, length, true)
    }

    fn raw_memory<T: Element>(
        &self,
        address: u64,
        length: usize,
        writable: bool,
    ) -> Result<BorrowedSlice<'_, T>, Error> {
        if self.is_simulator() {
            return Err(ErrorKind::Unsupported {
                what: "take raw memory",
                device: self.name(),
                why: "its memory is made by `upload` and `zeros`, so that every access can be checked",
            }
            .into());
        }
        let need = T::BYTES as u64;
        if address == 0 || !address.is_multiple_of(need) {
            return Err(ErrorKind::RawAddress { address, need }.into());
        }
        let bytes = (length as u64).checked_mul(need);
        if bytes.and_then(|bytes| address.checked_add(bytes)).is_none() {
            return Err(ErrorKind::RawLength { address, length }.into());
        }
        Ok(BorrowedSlice::of_address(self, address, length, writable))
    }
}
