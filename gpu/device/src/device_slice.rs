//! `Elements`: what a library kernel reads and writes.

use crate::buffer::Buffer;
use crate::cuda::Lent;
use crate::device::Device;
use crate::element::Element;

mod sealed {
    pub trait Sealed {}
}

/// Elements in the memory of a device: a [`Buffer`], or a slice of `cudarc` that was [lent](Device::lend) to the device.
pub trait Elements<T: Element>: sealed::Sealed {
    /// Returns the device that holds them, and whose stream runs the kernels.
    fn device(&self) -> &Device;

    /// Returns the address of the first.
    fn address(&self) -> u64;

    /// Returns how many there are.
    fn count(&self) -> usize;

    /// Returns whether a kernel may write them: not those that were lent to be read.
    fn is_writable(&self) -> bool;
}

impl<T: Element> sealed::Sealed for Buffer<T> {}

impl<T: Element> Elements<T> for Buffer<T> {
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

impl<T> sealed::Sealed for Lent<'_, T> {}

impl<T: Element> Elements<T> for Lent<'_, T> {
    fn device(&self) -> &Device {
        Lent::device(self)
    }

    fn address(&self) -> u64 {
        Lent::address(self)
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn is_writable(&self) -> bool {
        Lent::is_writable(self)
    }
}
