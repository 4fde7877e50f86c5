//! Deferred errors: the first failure of a kernel is kept until [`Builder::finish`](crate::Builder::finish) returns it.

use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;

use crate::error::{Error, ErrorKind};

/// The first failure of a kernel. The builder shares it with the tensors and fragments that it hands out.
///
/// Once set, it stays set. A call that finds it set returns inert values, since the kernel will never be finished.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirstFailure(Rc<RefCell<Option<Error>>>);

/// Two are equal if they belong to one kernel.
impl PartialEq for FirstFailure {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl FirstFailure {
    pub(crate) fn is_set(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Returns the failure, if there is one.
    pub(crate) fn get(&self) -> Option<Error> {
        self.0.borrow().clone()
    }

    /// Keeps a failure, unless there is an earlier one.
    pub(crate) fn keep(&self, kind: ErrorKind, at: &'static Location<'static>) {
        self.0
            .borrow_mut()
            .get_or_insert_with(|| Error::at_call(kind, at));
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
