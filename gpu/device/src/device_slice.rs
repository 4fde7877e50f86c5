//! `DeviceSlice`: memory that a library kernel reads and writes.

use crate::buffer::Buffer;
use crate::cuda::BorrowedSlice;
use crate::device::Device;
use crate::element::{Element, sealed};

/// Elements in the memory of a device: a [`Buffer`], or a slice of `cudarc` that the device [borrows](Device::borrow_slice).
pub trait DeviceSlice<T: Element>: sealed::Sealed {
    /// Returns the device that holds the elements and whose stream runs the kernels.
    fn device(&self) -> &Device;

    /// Returns the address of the first element.
    fn address(&self) -> u64;

    /// Returns the number of elements.
    fn count(&self) -> usize;

    /// Returns whether a kernel may write the elements: not if they were borrowed for reading.
    fn is_writable(&self) -> bool;
}

impl<T: Element> sealed::Sealed for Buffer<T> {}

impl<T: Element> DeviceSlice<T> for Buffer<T> {
    fn device(&self) -> &Device {
        Buffer::device(self)
    }

    fn address(&self) -> u64 {
        Buffer::address(self)
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn is_writable(&self) -> bool {
        true
    }
}

impl<T> sealed::Sealed for BorrowedSlice<'_, T> {}

impl<T: Element> DeviceSlice<T> for BorrowedSlice<'_, T> {
    fn device(&self) -> &Device {
        BorrowedSlice::device(self)
    }

    fn address(&self) -> u64 {
        BorrowedSlice::address(self)
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn is_writable(&self) -> bool {
        BorrowedSlice::is_writable(self)
    }
}
