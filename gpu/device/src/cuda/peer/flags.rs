//! Words of memory that streams write and wait for.

use std::ffi::c_void;
use std::time::Duration;

use super::super::gpu::Gpu;
use crate::error::{Error, ErrorKind};

/// `CU_STREAM_WRITE_VALUE_DEFAULT`: what the stream wrote before is visible to the whole system first.
const WRITE_AFTER_EARLIER_WORK: u32 = 0;

/// `CU_STREAM_WAIT_VALUE_GEQ`: until the word less the value is not negative, as signed numbers of 32 bits.
const WAIT_AT_LEAST: u32 = 0;

/// `CUDA_ERROR_NOT_SUPPORTED`.
const NOT_SUPPORTED: u32 = 801;

impl Gpu {
    /// Writes a word after the stream's earlier work.
    pub(crate) fn write_flag(&self, address: u64, value: u32) -> Result<(), Error> {
        let done = self.call("cuStreamWriteValue32", |api| {
            let stream = self.stream.handle();
            // SAFETY: the address is that of a word of a buffer that this context can access, and the stream lives.
            unsafe { (api.stream_write_value32)(stream, address, value, WRITE_AFTER_EARLIER_WORK) }
        });
        done.map_err(|error| self.no_flags(error))
    }

    /// Lets the stream's later work wait until a word has at least a value.
    pub(crate) fn wait_for_flag(&self, address: u64, value: u32) -> Result<(), Error> {
        let done = self.call("cuStreamWaitValue32", |api| {
            let stream = self.stream.handle();
            // SAFETY: as in `write_flag`.
            unsafe { (api.stream_wait_value32)(stream, address, value, WAIT_AT_LEAST) }
        });
        done.map_err(|error| self.no_flags(error))
    }

    fn no_flags(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::Driver {
                code: NOT_SUPPORTED,
                ..
            } => ErrorKind::Unsupported {
                what: "take flags of streams",
                device: self.name().to_string(),
                why: "its driver has no stream memory operations",
            }
            .into(),
            _ => error,
        }
    }

    /// A handle whose work runs although kernels spin and streams wait: a stream of the greatest priority, which does
    /// not share a hardware queue with the streams of ordinary priority.
    pub(crate) fn for_release(&self) -> Result<Gpu, Error> {
        self.on_urgent_stream()
    }

    /// Copies words to the device, and waits for them until the time is over.
    pub(crate) fn write_within(
        &self,
        address: u64,
        words: Vec<u32>,
        within: Duration,
    ) -> Result<(), Error> {
        if words.is_empty() {
            return Ok(());
        }
        let bytes = size_of_val(words.as_slice());
        let started = self.call("cuMemcpyHtoDAsync", |api| {
            let from = words.as_ptr().cast::<c_void>();
            // SAFETY: the buffer has as many bytes at the address; the words are freed only once the copy is done.
            unsafe { (api.memcpy_htod_async)(address, from, bytes, self.stream.handle()) }
        });
        let waited = self.synchronize_within(within, "the writing of the flags");
        if waited.is_err() {
            // The copy may still read them.
            std::mem::forget(words);
        }
        started.and(waited)
    }

    /// Copies words from the device, and waits for them until the time is over.
    pub(crate) fn read_within(
        &self,
        address: u64,
        count: usize,
        within: Duration,
    ) -> Result<Vec<u32>, Error> {
        let mut words = vec![0u32; count];
        if words.is_empty() {
            return Ok(words);
        }
        let bytes = size_of_val(words.as_slice());
        let started = self.call("cuMemcpyDtoHAsync", |api| {
            let to = words.as_mut_ptr().cast::<c_void>();
            // SAFETY: the buffer has as many bytes at the address; the words are read or freed only once the copy is done.
            unsafe { (api.memcpy_dtoh_async)(to, address, bytes, self.stream.handle()) }
        });
        let waited = self.synchronize_within(within, "the reading of the flags");
        match started.and(waited) {
            Ok(()) => Ok(words),
            Err(error) => {
                // The copy may still write them.
                std::mem::forget(words);
                Err(error)
            }
        }
    }
}
