//! Groups: collectives of several ranks, or communicators, that NCCL begins together.

use std::cell::Cell;

use super::api::nccl;
use crate::error::Error;

thread_local! {
    /// The groups that are open on this thread.
    static OPEN: Cell<u32> = const { Cell::new(0) };
}

/// Whether a group is open on this thread: calls then begin nothing by themselves.
pub(super) fn is_open() -> bool {
    OPEN.get() > 0
}

/// A group that ends with this, also if the work panics.
struct Open;

impl Open {
    fn end(&self) -> Result<(), Error> {
        OPEN.set(OPEN.get().saturating_sub(1));
        let nccl = nccl()?;
        // SAFETY: takes nothing; every start has one end.
        let code = unsafe { (nccl.api.group_end)() };
        nccl.check("ncclGroupEnd", code, std::ptr::null_mut())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // Reached only after a panic or an error of the work, which says more.
        let _ = self.end();
    }
}

/// Runs work in a group, and begins what it called.
pub(super) fn run<T, E: From<Error>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let nccl = nccl()?;
    // SAFETY: takes nothing.
    let code = unsafe { (nccl.api.group_start)() };
    nccl.check("ncclGroupStart", code, std::ptr::null_mut())?;
    OPEN.set(OPEN.get() + 1);
    let open = Open;
    let done = work()?;
    let ended = open.end();
    // It has ended.
    std::mem::forget(open);
    ended?;
    Ok(done)
}
