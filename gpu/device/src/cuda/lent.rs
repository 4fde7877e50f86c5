//! Memory of the caller's, lent to launches.

use std::marker::PhantomData;

use crate::buffer::Buffer;
use crate::device::Device;
use crate::element::Element;
use colex_ir::launch::Argument;

/// A slice of `cudarc`, or raw memory, lent to launches.
///
/// Keep it until the launches that use it were given to the device: when a slice of `cudarc` is given back, other streams
/// learn what they have to wait for.
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
    /// Returns memory of the caller's as it is lent.
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
    /// Lends a buffer as memory of the caller's would be lent: for tests on the simulator, which has none.
    #[doc(hidden)]
    pub fn of_buffer(buffer: &'a Buffer<T>, writable: bool) -> BorrowedSlice<'a, T> {
        BorrowedSlice::of_address(buffer.device(), buffer.address(), buffer.len(), writable)
    }
}

impl<T> BorrowedSlice<'_, T> {
    /// Returns the device that it was lent to.
    pub fn device(&self) -> &Device {
        self.device
    }

    /// Returns how many elements it has.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether it has none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns whether it was lent to be written.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Returns the address of its first element.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns the slice as an argument.
    pub fn argument(&self) -> Argument {
        Argument::Pointer(self.address)
    }
}
