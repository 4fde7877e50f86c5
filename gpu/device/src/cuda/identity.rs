//! What tells a context from others, and what ends in it without a handle to it.

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
            // SAFETY: the address came from `cuMemAlloc` in this context, and its one owner is being dropped. The call cannot
            // fail in a way that matters: a context that is lost has no allocations.
            unsafe { (api.mem_free)(address) };
        });
    }

    /// Unloads a module of the context.
    pub(super) fn unload(&self, module: Handle) {
        self.end(|api| {
            // SAFETY: the module's handle has no other owner. The call cannot fail in a way that matters: a context that is
            // lost has no modules.
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
        end(api);
    }
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
