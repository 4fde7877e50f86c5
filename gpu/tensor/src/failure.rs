//! Deferred errors: the first failure of a kernel is kept until [`Builder::finish`](crate::Builder::finish) returns it.

use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, ErrorKind};

/// The first failure of a kernel. The builder shares it with the tensors and fragments that it hands out.
///
/// Once set, it stays set. A call that finds it set returns inert values, since the kernel will never be finished.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirstFailure {
    owner: Owner,
    first: Rc<RefCell<Option<Error>>>,
}

/// The builder that a handle is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u32);

impl Owner {
    /// Of no builder: a constant.
    pub(crate) const NONE: Owner = Owner(0);
    /// Of several.
    const SEVERAL: Owner = Owner(u32::MAX);

    /// The owner of what is made of two.
    pub(crate) fn and(self, other: Owner) -> Owner {
        match (self, other) {
            (a, b) if a == b => a,
            (a, Owner::NONE) | (Owner::NONE, a) => a,
            _ => Owner::SEVERAL,
        }
    }
}

/// A builder's own number.
impl Default for Owner {
    fn default() -> Self {
        static BUILDERS: AtomicU32 = AtomicU32::new(1);
        Owner(BUILDERS.fetch_add(1, Ordering::Relaxed))
    }
}

/// Two are equal if they belong to one kernel.
impl PartialEq for FirstFailure {
    fn eq(&self, other: &Self) -> bool {
        self.owner == other.owner
    }
}

impl FirstFailure {
    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    /// Refuses what is of another builder.
    pub(crate) fn own(&self, what: &'static str, owner: Owner) -> Result<(), ErrorKind> {
        if owner == Owner::NONE || owner == self.owner {
            return Ok(());
        }
        Err(ErrorKind::Foreign { what })
    }

    pub(crate) fn is_set(&self) -> bool {
        self.first.borrow().is_some()
    }

    /// Returns the failure, if there is one.
    pub(crate) fn get(&self) -> Option<Error> {
        self.first.borrow().clone()
    }

    /// Keeps a failure, unless there is an earlier one.
    pub(crate) fn keep(&self, kind: ErrorKind, at: &'static Location<'static>) {
        self.first
            .borrow_mut()
            .get_or_insert_with(|| Error::at_call(kind, at));
    }

    /// The same for an error that has its place.
    pub(crate) fn keep_error(&self, error: &Error) {
        self.first.borrow_mut().get_or_insert_with(|| error.clone());
    }

    /// Returns what `body` makes, or `inert` if it fails or something has failed before.
    pub(crate) fn attempt<T>(
        &self,
        at: &'static Location<'static>,
        inert: impl FnOnce() -> T,
        body: impl FnOnce() -> Result<T, ErrorKind>,
    ) -> T {
        if self.is_set() {
            return inert();
        }
        body().unwrap_or_else(|kind| {
            self.keep(kind, at);
            inert()
        })
    }
}
