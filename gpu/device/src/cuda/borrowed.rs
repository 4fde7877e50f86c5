//! Memory of the caller, borrowed for launches.

use std::marker::PhantomData;

use crate::buffer::Buffer;
use crate::device::Device;
use crate::element::Element;
use colex_ir::launch::Argument;

/// A slice of `cudarc`, or raw memory, borrowed for launches.
///
/// Keep it until the launches that use it are enqueued. When a borrowed slice of `cudarc` is dropped, `cudarc` records
/// what other streams have to wait for.
pub struct BorrowedSlice<'a, T> {
    pub(super) device: &'a Device,
    pub(super) address: u64,
    pub(super) length: usize,
    pub(super) writable: bool,
    pub(super) element: PhantomData<T>,
    #[cfg(feature = "cudarc")]
    pub(super) _until: Option<cudarc::driver::SyncOnDrop<'a>>,
}

impl<'a, T> BorrowedSlice<'a, T> {
    /// Builds the slice of memory of the caller.
    pub(super) fn of_address(
        device: &'a Device,
        address: u64,
        length: usize,
        writable: bool,
    ) -> BorrowedSlice<'a, T> {
        BorrowedSlice {
            device,
            address,
            length,
            writable,
            element: PhantomData,
            #[cfg(feature = "cudarc")]
            _until: None,
        }
    }
}

impl<'a, T: Element> BorrowedSlice<'a, T> {
    /// Borrows a buffer as if it were memory of the caller: for tests on the simulator, where callers have none.
    #[doc(hidden)]
    pub fn of_buffer(buffer: &'a Buffer<T>, writable: bool) -> BorrowedSlice<'a, T> {
        BorrowedSlice::of_address(buffer.device(), buffer.address(), buffer.len(), writable)
    }
}

impl<T> BorrowedSlice<'_, T> {
    /// Returns the device whose launches use the slice.
    pub fn device(&self) -> &Device {
        self.device
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns whether launches may write it.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Returns the address of the first element.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns the slice as a launch argument.
    pub fn argument(&self) -> Argument {
        Argument::Pointer(self.address)
    }
}
