//! What tells streams of one context apart.

use std::thread::{self, ThreadId};

/// A stream, as the work given to it knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamKey {
    /// The driver's handle; 0 on the simulator.
    handle: usize,
    /// The thread that gives the work, where one handle means another stream in each thread.
    thread: Option<ThreadId>,
}

/// `CU_STREAM_PER_THREAD`: the handle of every thread's own default stream.
pub(crate) const PER_THREAD: usize = 2;

impl StreamKey {
    /// Returns the key of the stream that a handle means on this thread.
    pub(crate) fn of(handle: usize) -> StreamKey {
        StreamKey {
            handle,
            thread: (handle == PER_THREAD).then(|| thread::current().id()),
        }
    }
}
