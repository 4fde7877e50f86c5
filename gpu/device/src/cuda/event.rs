//! Events: points in a stream, and the time between them.

use super::api::Handle;
use super::gpu::Gpu;
use crate::error::Error;

/// A point in a stream.
pub(crate) struct GpuEvent {
    gpu: Gpu,
    handle: Handle,
}

// SAFETY: a handle may be used from any thread; every call makes its context current first.
unsafe impl Send for GpuEvent {}
// SAFETY: as above; the driver's functions on events may run at the same time.
unsafe impl Sync for GpuEvent {}

impl Gpu {
    /// The point reached when all work given so far is done.
    pub(crate) fn record(&self) -> Result<GpuEvent, Error> {
        let mut handle = std::ptr::null_mut();
        self.call("cuEventCreate", |api| {
            // SAFETY: stores one handle; no flags, so it takes the time.
            unsafe { (api.event_create)(&mut handle, 0) }
        })?;
        let event = GpuEvent {
            gpu: self.clone(),
            handle,
        };
        self.again(&event)?;
        Ok(event)
    }

    /// Records an event anew.
    pub(super) fn again(&self, event: &GpuEvent) -> Result<(), Error> {
        self.call("cuEventRecord", |api| {
            // SAFETY: event and stream live, in the same context.
            unsafe { (api.event_record)(event.handle, self.stream.handle()) }
        })
    }

    /// Lets the stream's later work wait for an event of any stream of this process.
    pub(crate) fn wait_for(&self, event: &GpuEvent) -> Result<(), Error> {
        self.call("cuStreamWaitEvent", |api| {
            // SAFETY: event and stream live; no flags.
            unsafe { (api.stream_wait_event)(self.stream.handle(), event.handle, 0) }
        })
    }
}

impl GpuEvent {
    /// The milliseconds from another event of this GPU to this one, once both are reached.
    pub(crate) fn milliseconds_since(&self, start: &GpuEvent) -> Result<f32, Error> {
        self.gpu.outside_capture("waiting for an event")?;
        for event in [start, self] {
            self.gpu.call("cuEventSynchronize", |api| {
                // SAFETY: the event lives.
                unsafe { (api.event_synchronize)(event.handle) }
            })?;
        }
        let mut milliseconds = 0.0;
        self.gpu.call("cuEventElapsedTime", |api| {
            // SAFETY: stores one float; both events live and take the time.
            unsafe { (api.event_elapsed_time)(&mut milliseconds, start.handle, self.handle) }
        })?;
        Ok(milliseconds)
    }

    /// The driver's handle.
    pub(super) fn handle(&self) -> Handle {
        self.handle
    }

    /// The GPU it belongs to.
    pub(crate) fn gpu(&self) -> &Gpu {
        &self.gpu
    }
}

impl Drop for GpuEvent {
    fn drop(&mut self) {
        let _ = self.gpu.call("cuEventDestroy", |api| {
            // SAFETY: the handle has one owner, which is being dropped.
            unsafe { (api.event_destroy)(self.handle) }
        });
    }
}

impl std::fmt::Debug for GpuEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Event of {:?}", self.gpu)
    }
}
