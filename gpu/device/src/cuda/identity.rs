//! What tells a context from others, and what ends in it without a handle to it.

use std::ffi::c_uint;
use std::sync::Arc;

use super::api::{Api, Handle};
use super::context::ContextUsers;
use super::driver::Driver;
use super::gpu::Gpu;

/// What tells a context from all others, also after it has ended. It is no owner of the context.
#[derive(Clone)]
pub(crate) struct ContextIdentity {
    driver: &'static Driver,
    users: Arc<ContextUsers>,
    name: Arc<str>,
}

impl ContextIdentity {
    /// Returns the name of the GPU.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Frees memory of the context, after all work enqueued before.
    pub(crate) fn free(&self, address: u64) {
        self.end(|api| {
            // SAFETY: the address came from `cuMemAlloc` in this context, and its one owner is being dropped. No capture
            // forbids the call in this mode, and a context that is lost has no allocations: its code says nothing else.
            unsafe { (api.mem_free)(address) };
        });
    }

    /// Unloads a module of the context.
    pub(super) fn unload(&self, module: Handle) {
        self.end(|api| {
            // SAFETY: the module's handle has no other owner. No capture forbids the call in this mode, and a context that
            // is lost has no modules: its code says nothing else.
            unsafe { (api.module_unload)(module) };
        });
    }

    /// Ends something in the context, which is current. Without an owner the context may be gone, with all that was in it.
    fn end(&self, end: impl FnOnce(&Api)) {
        let Some(owner) = self.users.any() else {
            return;
        };
        let api = &self.driver.api;
        // SAFETY: the context lives as long as its owner.
        unsafe { (api.ctx_set_current)(owner.handle()) };
        in_relaxed_mode(api, || end(api));
    }
}

/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: c_uint = 2;

/// Ends something in the mode in which no capture forbids it. A capture of this thread, or a global one of any thread, otherwise forbids
/// a free and the unloading of a module: the driver refuses them, and breaks the capture off.
pub(super) fn in_relaxed_mode<R>(api: &Api, end: impl FnOnce() -> R) -> R {
    let mut mode = RELAXED;
    // SAFETY: exchanges one number, the mode of this thread.
    let is_relaxed = unsafe { (api.thread_exchange_capture_mode)(&mut mode) } == 0;
    let ended = end();
    if is_relaxed {
        // SAFETY: as above; the number is the mode that the thread had.
        unsafe { (api.thread_exchange_capture_mode)(&mut mode) };
    }
    ended
}

impl Gpu {
    /// Returns what tells its context from others.
    pub(crate) fn identity(&self) -> ContextIdentity {
        ContextIdentity {
            driver: self.shared.driver,
            users: self.shared.users.clone(),
            name: self.shared.name.clone(),
        }
    }

    /// Returns whether the identity is that of its context.
    pub(crate) fn has_identity(&self, identity: &ContextIdentity) -> bool {
        Arc::ptr_eq(&self.shared.users, &identity.users)
    }
}
