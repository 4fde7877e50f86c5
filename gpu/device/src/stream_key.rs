//! What tells the streams of one context apart.

use std::thread::{self, ThreadId};

use crate::device::{Device, Kind};

/// A stream, as the work given to it knows it. No other stream of the context has had the same, or will have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamKey {
    /// The driver's handle; 0 on the simulator.
    handle: usize,
    /// The driver's number, which it gives to no other stream. A default stream has none: it lives as long as its context.
    number: Option<u64>,
    /// The thread that gives the work, where one handle means another stream in each thread.
    thread: Option<ThreadId>,
}

/// `CU_STREAM_PER_THREAD`: the handle of every thread's own default stream.
const PER_THREAD: usize = 2;

impl StreamKey {
    /// Returns the key of the stream that a handle means on this thread, where `number` returns the driver's number. A stream that a program
    /// makes may have the handle of one that has ended, whose work may still run: without a number it has no key.
    fn of(handle: usize, number: impl FnOnce() -> Option<u64>) -> Option<StreamKey> {
        let number = match handle {
            0..=PER_THREAD => None,
            _ => Some(number()?),
        };
        Some(StreamKey {
            handle,
            number,
            thread: (handle == PER_THREAD).then(|| thread::current().id()),
        })
    }
}

impl Device {
    /// Returns the key of the stream that this handle gives its work to, where the driver tells its streams apart. A call of this thread must
    /// have used the device before.
    #[doc(hidden)]
    pub fn stream_key(&self) -> Option<StreamKey> {
        match &self.0 {
            Kind::Gpu(gpu) => StreamKey::of(gpu.stream_handle(), || gpu.stream_number()),
            Kind::Simulator(_) => StreamKey::of(0, || None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(handle: usize, number: Option<u64>) -> Option<StreamKey> {
        StreamKey::of(handle, || number)
    }

    /// candle works in the default stream of each thread, whose handle is the same in all: memory that one thread gave
    /// back is still in use when another takes it.
    #[test]
    fn a_default_stream_per_thread_is_another_in_each() {
        let elsewhere = |handle| thread::spawn(move || key(handle, Some(7))).join().unwrap();
        assert_ne!(elsewhere(PER_THREAD), key(PER_THREAD, Some(7)));
        assert_eq!(key(PER_THREAD, Some(7)), key(PER_THREAD, Some(7)));
        for handle in [0, 1, 0x7000] {
            assert_eq!(elsewhere(handle), key(handle, Some(7)));
        }
    }

    /// A driver gives the handle of a stream that has ended to a new one (an H200's of CUDA 13.0 does so at once), but another number.
    #[test]
    fn a_stream_at_the_handle_of_one_that_ended_is_another() {
        assert_ne!(key(0x7000, Some(7)), key(0x7000, Some(8)));
        assert_eq!(key(0x7000, None), None, "its handle alone tells nothing");
        for handle in 0..=PER_THREAD {
            assert!(key(handle, None).is_some(), "a default stream never ends");
            assert_eq!(key(handle, Some(7)), key(handle, Some(8)));
        }
    }
}
