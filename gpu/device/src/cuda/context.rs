//! Contexts and streams, and what keeps each of them alive.

use std::sync::{Arc, Mutex, Weak};

#[cfg(feature = "cudarc")]
use cudarc::driver::{CudaContext, CudaStream};

use super::api::StatusCode;
use super::driver::Driver;
use super::gpu::locked;
use super::sys;

/// The primary context of a device, which the driver keeps until this is dropped.
pub(super) struct PrimaryContext {
    driver: &'static Driver,
    device: i32,
    handle: sys::Context,
}

// SAFETY: a context may be used from any thread; every call makes it current first.
unsafe impl Send for PrimaryContext {}
// SAFETY: as above; nothing in it changes.
unsafe impl Sync for PrimaryContext {}

impl PrimaryContext {
    /// Retains the primary context of a device.
    ///
    /// # Errors
    ///
    /// The driver's code.
    pub(super) fn retain(driver: &'static Driver, device: i32) -> Result<Self, StatusCode> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: stores one handle.
        match unsafe { (driver.api.primary_retain)(&mut handle, device) } {
            0 => Ok(PrimaryContext {
                driver,
                device,
                handle,
            }),
            code => Err(code),
        }
    }
}

impl Drop for PrimaryContext {
    fn drop(&mut self) {
        // SAFETY: retained once by this, and released once. A context that is lost is released like any other.
        unsafe { (self.driver.api.primary_release)(self.device) };
    }
}

/// A context whose owner has promised to keep it for as long as this lives.
pub(super) struct CallersContext(sys::Context);

// SAFETY: as for `PrimaryContext`.
unsafe impl Send for CallersContext {}
// SAFETY: as for `PrimaryContext`.
unsafe impl Sync for CallersContext {}

/// An owner of a context.
#[derive(Clone)]
pub(super) enum Owner {
    /// The context was opened here.
    Primary(Arc<PrimaryContext>),
    /// The caller owns the context.
    Caller(Arc<CallersContext>),
    /// `cudarc` owns the context.
    #[cfg(feature = "cudarc")]
    Cudarc(Arc<CudaContext>),
}

impl Owner {
    /// Returns the context.
    pub(super) fn handle(&self) -> sys::Context {
        match self {
            Owner::Primary(context) => context.handle,
            Owner::Caller(context) => context.0,
            #[cfg(feature = "cudarc")]
            Owner::Cudarc(context) => context.cu_ctx().cast(),
        }
    }

    fn downgrade(&self) -> WeakOwner {
        match self {
            Owner::Primary(context) => WeakOwner::Primary(Arc::downgrade(context)),
            Owner::Caller(context) => WeakOwner::Caller(Arc::downgrade(context)),
            #[cfg(feature = "cudarc")]
            Owner::Cudarc(context) => WeakOwner::Cudarc(Arc::downgrade(context)),
        }
    }
}

/// An owner that may be gone.
enum WeakOwner {
    Primary(Weak<PrimaryContext>),
    Caller(Weak<CallersContext>),
    #[cfg(feature = "cudarc")]
    Cudarc(Weak<CudaContext>),
}

impl WeakOwner {
    fn upgrade(&self) -> Option<Owner> {
        match self {
            WeakOwner::Primary(context) => context.upgrade().map(Owner::Primary),
            WeakOwner::Caller(context) => context.upgrade().map(Owner::Caller),
            #[cfg(feature = "cudarc")]
            WeakOwner::Cudarc(context) => context.upgrade().map(Owner::Cudarc),
        }
    }

    fn is_alive(&self) -> bool {
        let count = match self {
            WeakOwner::Primary(context) => context.strong_count(),
            WeakOwner::Caller(context) => context.strong_count(),
            #[cfg(feature = "cudarc")]
            WeakOwner::Cudarc(context) => context.strong_count(),
        };
        count > 0
    }

    fn is(&self, owner: &Owner) -> bool {
        match (self, owner) {
            (WeakOwner::Primary(a), Owner::Primary(b)) => a.as_ptr() == Arc::as_ptr(b),
            (WeakOwner::Caller(a), Owner::Caller(b)) => a.as_ptr() == Arc::as_ptr(b),
            #[cfg(feature = "cudarc")]
            (WeakOwner::Cudarc(a), Owner::Cudarc(b)) => a.as_ptr() == Arc::as_ptr(b),
            _ => false,
        }
    }
}

/// The owners of a context. While one of them lives, the context is the one that it was.
#[derive(Default)]
pub(super) struct ContextUsers(Mutex<Vec<WeakOwner>>);

impl ContextUsers {
    /// Adds an owner. Those that are gone are forgotten.
    pub(super) fn add(&self, owner: &Owner) {
        let mut users = locked(&self.0);
        if users.iter().any(|user| user.is(owner)) {
            return;
        }
        users.retain(WeakOwner::is_alive);
        users.push(owner.downgrade());
    }

    /// Returns whether an owner beside this one lives.
    pub(super) fn has_other_than(&self, owner: &Owner) -> bool {
        let users = locked(&self.0);
        let mut others = users.iter().filter(|user| !user.is(owner));
        others.any(WeakOwner::is_alive)
    }

    /// Returns an owner that lives, if there is one.
    pub(super) fn any(&self) -> Option<Owner> {
        locked(&self.0).iter().find_map(WeakOwner::upgrade)
    }
}

/// A stream and the context that it belongs to. Clones are the same stream.
#[derive(Clone)]
pub(super) struct Stream(Kept);

/// What keeps a stream.
#[derive(Clone)]
enum Kept {
    /// The stream was made here.
    Own(Arc<OwnStream>),
    /// The caller owns the stream and its context.
    Caller(Arc<CallersContext>, CallersStream),
    /// `cudarc` owns both.
    #[cfg(feature = "cudarc")]
    Cudarc(Arc<CudaStream>),
}

/// A stream that is destroyed with this.
struct OwnStream {
    driver: &'static Driver,
    handle: sys::StreamHandle,
    /// What [`Stream::number`] returns.
    number: Option<u64>,
    context: Owner,
}

// SAFETY: a stream may be used from any thread; every call makes its context current first.
unsafe impl Send for OwnStream {}
// SAFETY: as above; nothing in it changes.
unsafe impl Sync for OwnStream {}

/// A stream whose owner has promised to keep it for as long as its context's handle lives.
#[derive(Clone, Copy)]
struct CallersStream(sys::StreamHandle);

// SAFETY: as for `OwnStream`.
unsafe impl Send for CallersStream {}
// SAFETY: as for `OwnStream`.
unsafe impl Sync for CallersStream {}

/// `CU_STREAM_NON_BLOCKING`: the stream does not wait for the legacy default stream.
const NON_BLOCKING: u32 = 1;

impl Stream {
    /// Makes a stream in a context.
    ///
    /// # Errors
    ///
    /// The driver's code.
    pub(super) fn new(driver: &'static Driver, context: Owner) -> Result<Stream, StatusCode> {
        let api = &driver.api;
        Stream::made(driver, context, |handle| {
            // SAFETY: the context is current; stores one handle.
            unsafe { (api.stream_create)(handle, NON_BLOCKING) }
        })
    }

    /// Makes a stream with a priority.
    ///
    /// # Errors
    ///
    /// The driver's code.
    pub(super) fn urgent(
        driver: &'static Driver,
        context: Owner,
        priority: i32,
    ) -> Result<Stream, StatusCode> {
        let api = &driver.api;
        Stream::made(driver, context, |handle| {
            // SAFETY: the context is current; stores one handle.
            unsafe { (api.stream_create_with_priority)(handle, NON_BLOCKING, priority) }
        })
    }

    fn made(
        driver: &'static Driver,
        context: Owner,
        make: impl FnOnce(&mut sys::StreamHandle) -> StatusCode,
    ) -> Result<Stream, StatusCode> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the context lives as long as its owner.
        let code = match unsafe { (driver.api.ctx_set_current)(context.handle()) } {
            0 => make(&mut handle),
            code => code,
        };
        match code {
            0 => Ok(Stream(Kept::Own(Arc::new(OwnStream {
                driver,
                handle,
                number: number_of(driver, handle),
                context,
            })))),
            code => Err(code),
        }
    }

    /// Returns a stream of the caller's.
    ///
    /// # Safety
    ///
    /// The stream belongs to the context, and both live for as long as this stream, its clones, and the owners of its
    /// context that it gives.
    pub(super) unsafe fn of_caller(context: sys::Context, stream: sys::StreamHandle) -> Stream {
        let context = Arc::new(CallersContext(context));
        Stream(Kept::Caller(context, CallersStream(stream)))
    }

    /// Returns a stream of `cudarc`.
    #[cfg(feature = "cudarc")]
    pub(super) fn of_cudarc(stream: Arc<CudaStream>) -> Stream {
        Stream(Kept::Cudarc(stream))
    }

    /// Returns the stream of `cudarc`, if it is one.
    #[cfg(feature = "cudarc")]
    pub(super) fn cudarc(&self) -> Option<&Arc<CudaStream>> {
        match &self.0 {
            Kept::Cudarc(stream) => Some(stream),
            Kept::Own(_) | Kept::Caller(..) => None,
        }
    }

    /// Makes another stream in the same context, by the means that made this one.
    ///
    /// # Errors
    ///
    /// The driver's code.
    pub(super) fn beside(&self, driver: &'static Driver) -> Result<Stream, StatusCode> {
        match &self.0 {
            // `cudarc` counts the streams of a context, since it orders work on its slices between them.
            #[cfg(feature = "cudarc")]
            Kept::Cudarc(stream) => {
                let made = stream.context().new_stream();
                made.map(Stream::of_cudarc)
                    .map_err(|error| error.0 as StatusCode)
            }
            Kept::Own(_) | Kept::Caller(..) => Stream::new(driver, self.owner()),
        }
    }

    /// Returns the driver's handle.
    pub(super) fn handle(&self) -> sys::StreamHandle {
        match &self.0 {
            Kept::Own(stream) => stream.handle,
            Kept::Caller(_, stream) => stream.0,
            #[cfg(feature = "cudarc")]
            Kept::Cudarc(stream) => stream.cu_stream().cast(),
        }
    }

    /// Returns a number that no other stream of this process has had or will have, if the driver tells it. The context of the stream must
    /// be current on this thread.
    pub(super) fn number(&self, driver: &Driver) -> Option<u64> {
        match &self.0 {
            Kept::Own(stream) => stream.number,
            Kept::Caller(_, stream) => number_of(driver, stream.0),
            #[cfg(feature = "cudarc")]
            Kept::Cudarc(stream) => number_of(driver, stream.cu_stream().cast()),
        }
    }

    /// Returns the driver's handle of its context.
    pub(super) fn context(&self) -> sys::Context {
        match &self.0 {
            Kept::Own(stream) => stream.context.handle(),
            Kept::Caller(context, _) => context.0,
            #[cfg(feature = "cudarc")]
            Kept::Cudarc(stream) => stream.context().cu_ctx().cast(),
        }
    }

    /// Returns an owner of its context.
    pub(super) fn owner(&self) -> Owner {
        match &self.0 {
            Kept::Own(stream) => stream.context.clone(),
            Kept::Caller(context, _) => Owner::Caller(context.clone()),
            #[cfg(feature = "cudarc")]
            Kept::Cudarc(stream) => Owner::Cudarc(stream.context().clone()),
        }
    }
}

/// Asks the driver for the number of a stream, which it gives to no other: a new stream may have the handle of one that has ended.
fn number_of(driver: &Driver, stream: sys::StreamHandle) -> Option<u64> {
    let ask = driver.api.stream_get_id?;
    let mut number = 0;
    // SAFETY: the stream lives as long as its owner; the function stores one integer.
    let code = unsafe { ask(stream, &mut number) };
    (code == 0).then_some(number)
}

impl Drop for OwnStream {
    fn drop(&mut self) {
        let api = &self.driver.api;
        // SAFETY: the context lives as long as its owner, and the stream has no other owner. Work that was given to the
        // stream ends as it would have. Neither call can fail in a way that matters: a lost context has no streams.
        unsafe {
            (api.ctx_set_current)(self.context.handle());
            (api.stream_destroy)(self.handle);
        }
    }
}
