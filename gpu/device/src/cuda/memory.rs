//! Device memory: allocation and copies.

use std::ffi::c_void;

use super::api::StatusCode;
use super::driver::OUT_OF_MEMORY;
use super::gpu::Gpu;
use crate::element::Element;
use crate::error::{Error, ErrorKind};

impl Gpu {
    /// Allocates `bytes` bytes, at least one, at a multiple of 256.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<u64, Error> {
        self.outside_capture("allocating memory")?;
        let mut address = 0;
        let done = self.call("cuMemAlloc", |api| {
            // SAFETY: stores one address.
            unsafe { (api.mem_alloc)(&mut address, bytes.max(1)) }
        });
        match done {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Driver {
                        code: OUT_OF_MEMORY,
                        ..
                    }
                ) =>
            {
                Err(self.out_of_memory(bytes))
            }
            done => done.map(|()| address),
        }
    }

    fn out_of_memory(&self, bytes: usize) -> Error {
        let (mut free, mut total) = (0, 0);
        let asked = self.call("cuMemGetInfo", |api| {
            // SAFETY: stores two sizes.
            unsafe { (api.mem_get_info)(&mut free, &mut total) }
        });
        match asked {
            Ok(()) => ErrorKind::OutOfMemory { bytes, free, total }.into(),
            Err(error) => error,
        }
    }

    /// Copies elements to the device, and returns when they have arrived.
    pub(crate) fn write<T: Element>(&self, address: u64, elements: &[T]) -> Result<(), Error> {
        self.copied(size_of_val(elements), "cuMemcpyHtoDAsync", |gpu, bytes| {
            let from = elements.as_ptr().cast::<c_void>();
            // SAFETY: the buffer has as many bytes at the address, and the slice outlives the copy: `copied` waits.
            unsafe {
                (gpu.shared.driver.api.memcpy_htod_async)(address, from, bytes, gpu.stream.handle())
            }
        })
    }

    /// Copies elements from the device, after all previous work of the stream is done.
    pub(crate) fn read<T: Element>(&self, address: u64, elements: &mut [T]) -> Result<(), Error> {
        let to = elements.as_mut_ptr().cast::<c_void>();
        self.copied(size_of_val(elements), "cuMemcpyDtoHAsync", |gpu, bytes| {
            // SAFETY: as in `write`; every pattern of bits is an element (the trait is sealed).
            unsafe {
                (gpu.shared.driver.api.memcpy_dtoh_async)(to, address, bytes, gpu.stream.handle())
            }
        })
    }

    /// Copies bytes within the device, in the stream.
    pub(crate) fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        self.call("cuMemcpyDtoDAsync", |api| {
            // SAFETY: both buffers have `bytes` bytes, and their memory is freed in the stream's order or later.
            unsafe { (api.memcpy_dtod_async)(to, from, bytes, self.stream.handle()) }
        })
    }

    /// Sets bytes, in the stream.
    pub(crate) fn fill(&self, address: u64, byte: u8, bytes: usize) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        self.call("cuMemsetD8Async", |api| {
            // SAFETY: the buffer has `bytes` bytes.
            unsafe { (api.memset_d8_async)(address, byte, bytes, self.stream.handle()) }
        })
    }

    /// A copy between host and device, and the wait for it: even if it fails, the host's memory is free afterwards.
    fn copied(
        &self,
        bytes: usize,
        name: &'static str,
        copy: impl FnOnce(&Gpu, usize) -> StatusCode,
    ) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        self.outside_capture("a copy between host and device")?;
        let started = self.call(name, |_| copy(self, bytes));
        let waited = self.synchronize();
        started.and(waited)
    }
}
