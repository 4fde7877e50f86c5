//! `Buffer`: elements in the memory of a device.

use core::marker::PhantomData;
use core::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

use ndarray::{ArrayBase, ArrayD, Data, Dimension, IntoDimension};

use crate::device::{Device, DeviceIdentity, Kind};
use crate::element::Element;
use crate::error::{Error, ErrorKind};
use colex_ir::launch::{Argument, DeviceMemory};

/// Elements in the memory of a device. A buffer is a handle: clones and slices share the memory, which is freed when
/// the last of them is dropped, also [during a capture](Device::is_capturing).
///
/// ```
/// use colex_device::Device;
/// use colex_ir::launch::Argument;
/// use ndarray::array;
///
/// let device = Device::open();
/// let buffer = device.upload_array(&array![[1u32, 2, 3], [4, 5, 6]])?;
/// let row = buffer.slice(3..)?;
/// row.write(&[40, 50, 60])?;
/// assert_eq!(buffer.download_array((2, 3))?, array![[1, 2, 3], [40, 50, 60]].into_dyn());
/// assert_eq!(Argument::from(&row), Argument::Pointer(buffer.address() + 12));
/// # Ok::<(), colex_device::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Buffer<T> {
    memory: Arc<Allocation>,
    start: usize,
    length: usize,
    element: PhantomData<T>,
}

/// Memory that the work of a device may use.
#[derive(Debug)]
struct Allocation {
    /// Dropped before the device.
    origin: MemoryOrigin,
    device: Device,
    address: u64,
}

/// Memory that was allocated on a device, and is freed with its last owner. It does not keep the device: where that is gone, its memory is too.
#[derive(Debug)]
struct OwnMemory {
    device: DeviceIdentity,
    address: u64,
}

impl Drop for OwnMemory {
    fn drop(&mut self) {
        self.device.free(self.address);
    }
}

/// Where memory comes from, and so what happens to it when its last handle is dropped.
#[derive(Debug)]
enum MemoryOrigin {
    /// It was allocated on the device, and is freed.
    Own(Arc<OwnMemory>),
    /// It was allocated on another device of this process: that handle is dropped, after the work of this device.
    Peer { owner: Arc<Allocation> },
    /// It was allocated by another process, and is closed.
    OtherProcess,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        match (&self.device.0, &self.origin) {
            (Kind::Simulator(_), _) | (_, MemoryOrigin::Own(_)) => {}
            (Kind::Gpu(gpu), MemoryOrigin::Peer { owner }) => {
                // In a capture nothing waits for the work of this device, so its owner keeps the memory for good.
                if !gpu.finish_context() {
                    core::mem::forget(owner.clone());
                }
            }
            (Kind::Gpu(gpu), MemoryOrigin::OtherProcess) => gpu.close_exported(self.address),
        }
    }
}

impl<T: Element> Buffer<T> {
    /// Allocates memory for `length` elements.
    pub(crate) fn allocate(device: &Device, length: usize) -> Result<Buffer<T>, Error> {
        let most = isize::MAX as usize / T::BYTES;
        if length > most {
            return Err(ErrorKind::Length {
                what: "the largest buffer that can be addressed",
                expected: most,
                found: length,
            }
            .into());
        }
        let address = match &device.0 {
            Kind::Simulator(simulated) => {
                simulated.memory().allocate((length * T::BYTES) as u64)?
            }
            Kind::Gpu(gpu) => gpu.allocate(length * T::BYTES)?,
        };
        let own = Arc::new(OwnMemory {
            device: DeviceIdentity::of(device),
            address,
        });
        Ok(Buffer::of_own(device, own, 0..length))
    }

    /// Returns elements of memory that was allocated on the device.
    fn of_own(device: &Device, own: Arc<OwnMemory>, elements: Range<usize>) -> Buffer<T> {
        let memory = Arc::new(Allocation {
            device: device.clone(),
            address: own.address,
            origin: MemoryOrigin::Own(own),
        });
        Buffer {
            memory,
            start: elements.start,
            length: elements.len(),
            element: PhantomData,
        }
    }

    /// Returns a handle to the same memory that does not keep the device, for a device's own cache. Memory of a
    /// [peer](Buffer::as_peer_of) or of [another process](Device::open_exported) has none.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// let kept = device.upload(&[1.0f32, 2.0, 3.0])?.kept().expect("it was allocated on the device");
    /// assert_eq!(kept.on(&device)?.download()?, [1.0, 2.0, 3.0]);
    /// assert!(kept.on(&Device::simulator(Arch::Sm90a)).unwrap_err().is_other_device());
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    pub fn kept(&self) -> Option<KeptBuffer<T>> {
        match &self.memory.origin {
            MemoryOrigin::Own(memory) => Some(KeptBuffer {
                memory: memory.clone(),
                start: self.start,
                length: self.length,
                element: PhantomData,
            }),
            MemoryOrigin::Peer { .. } | MemoryOrigin::OtherProcess => None,
        }
    }

    /// Returns a handle to the same memory for the work of another device, which has access to it.
    pub(crate) fn on_peer(&self, device: &Device) -> Buffer<T> {
        let memory = Arc::new(Allocation {
            device: device.clone(),
            address: self.memory.address,
            origin: MemoryOrigin::Peer {
                owner: self.memory.clone(),
            },
        });
        Buffer {
            memory,
            ..self.clone()
        }
    }

    /// Returns a handle to the same elements of the device that allocated them, or that opened them.
    pub(crate) fn root(&self) -> Buffer<T> {
        let mut memory = &self.memory;
        while let MemoryOrigin::Peer { owner } = &memory.origin {
            memory = owner;
        }
        Buffer {
            memory: memory.clone(),
            ..self.clone()
        }
    }

    /// Takes over memory of another process that the device has opened at an address.
    pub(crate) fn of_other_process(
        device: &Device,
        address: u64,
        start: usize,
        length: usize,
    ) -> Buffer<T> {
        let memory = Arc::new(Allocation {
            device: device.clone(),
            address,
            origin: MemoryOrigin::OtherProcess,
        });
        Buffer {
            memory,
            start,
            length,
            element: PhantomData,
        }
    }

    /// Returns the address of the allocation, if it is one of this device, and the number of elements before the first.
    pub(crate) fn own_allocation(&self) -> Option<(u64, usize)> {
        let is_own = matches!(self.memory.origin, MemoryOrigin::Own(_));
        is_own.then_some((self.memory.address, self.start))
    }

    /// Returns the number of elements.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # let buffer = device.upload(&[1.0f32, 2.0, 3.0])?;
    /// assert_eq!(buffer.len(), 3);
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether the buffer has no elements.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # let buffer = device.upload(&[1.0f32, 2.0, 3.0])?;
    /// assert!(!buffer.is_empty());
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the size of the buffer in bytes.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # let buffer = device.upload(&[1.0f32, 2.0, 3.0])?;
    /// assert_eq!(buffer.bytes(), 12);
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    pub fn bytes(&self) -> usize {
        self.length * T::BYTES
    }

    /// Returns the address of the first element on the device.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # let buffer = device.upload(&[1.0f32, 2.0, 3.0])?;
    /// assert_eq!(buffer.slice(1..)?.address(), buffer.address() + 4);
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    pub fn address(&self) -> u64 {
        self.memory.address + (self.start * T::BYTES) as u64
    }

    /// Returns the device that holds the buffer.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # let buffer = device.upload(&[1.0f32, 2.0, 3.0])?;
    /// assert!(buffer.device().is_same_device(&device));
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    pub fn device(&self) -> &Device {
        &self.memory.device
    }

    /// Returns a range of the elements, as a handle to the same memory.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # let buffer = device.upload(&[1.0f32, 2.0, 3.0])?;
    /// assert_eq!(buffer.slice(1..3)?.download()?, [2.0, 3.0]);
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the range is not inside the buffer.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Buffer<T>, Error> {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.length,
        };
        if start > end || end > self.length {
            return Err(ErrorKind::Slice {
                start,
                end,
                length: self.length,
            }
            .into());
        }
        Ok(Buffer {
            memory: self.memory.clone(),
            start: self.start + start,
            length: end - start,
            element: PhantomData,
        })
    }

    /// Replaces all elements.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # let buffer = device.upload(&[1.0f32, 2.0, 3.0])?;
    /// buffer.write(&[4.0, 5.0, 6.0])?;
    /// assert_eq!(buffer.download()?, [4.0, 5.0, 6.0]);
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if `elements` is not as long as the buffer.
    pub fn write(&self, elements: &[T]) -> Result<(), Error> {
        self.same_length("the buffer", elements.len())?;
        match &self.memory.device.0 {
            Kind::Simulator(simulated) => {
                let mut memory = simulated.memory();
                for (at, elements) in (0..).step_by(CHUNK).zip(elements.chunks(CHUNK)) {
                    memory.write(self.address_of(at), &T::to_bytes(elements))?;
                }
            }
            Kind::Gpu(gpu) => gpu.write(self.address(), elements)?,
        }
        Ok(())
    }

    /// Sets every byte to a value.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # let buffer = device.upload(&[1.0f32, 2.0, 3.0])?;
    /// buffer.fill_bytes(0)?;
    /// assert_eq!(buffer.download()?, [0.0; 3]);
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the device's error.
    pub fn fill_bytes(&self, byte: u8) -> Result<(), Error> {
        match &self.memory.device.0 {
            Kind::Simulator(simulated) => {
                let mut memory = simulated.memory();
                let bytes = vec![byte; CHUNK.min(self.length) * T::BYTES];
                for (at, count) in self.chunks() {
                    memory.write(self.address_of(at), &bytes[..count * T::BYTES])?;
                }
            }
            Kind::Gpu(gpu) => gpu.fill(self.address(), byte, self.bytes())?,
        }
        Ok(())
    }

    /// Returns the elements, after all previous work of the stream is done.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # let buffer = device.upload(&[1.0f32, 2.0, 3.0])?;
    /// assert_eq!(buffer.download()?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the host has no memory for the elements. On the simulator, returns an error if an element
    /// was never written. On a GPU, returns the error of earlier work, such as a kernel that trapped.
    pub fn download(&self) -> Result<Vec<T>, Error> {
        let mut elements = room(self.length)?;
        match &self.memory.device.0 {
            Kind::Simulator(simulated) => {
                let memory = simulated.memory();
                for (at, count) in self.chunks() {
                    let bytes = memory.read(self.address_of(at), (count * T::BYTES) as u64)?;
                    elements.extend(T::from_bytes(&bytes));
                }
            }
            Kind::Gpu(gpu) => {
                elements.resize(self.length, T::ZERO);
                gpu.read(self.address(), &mut elements)?;
            }
        }
        Ok(elements)
    }

    /// Returns the elements as an array of shape `shape`, in row-major order.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # let buffer = device.upload(&[1.0f32, 2.0, 3.0])?;
    /// let array = buffer.download_array((1, 3))?;
    /// assert_eq!(array[[0, 2]], 3.0);
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the shape does not have as many elements as the buffer, and the errors of
    /// [`download`](Buffer::download).
    pub fn download_array(&self, shape: impl IntoDimension) -> Result<ArrayD<T>, Error> {
        let shape = shape.into_dimension().into_dyn();
        self.same_length("the buffer", shape.size_checked().unwrap_or(usize::MAX))?;
        let array = ArrayD::from_shape_vec(shape, self.download()?);
        Ok(array.expect("the shape has as many elements as the buffer"))
    }

    /// Replaces all elements by those of another buffer of the same device.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # let buffer = device.upload(&[1.0f32, 2.0, 3.0])?;
    /// let copy = device.zeros(3)?;
    /// copy.copy_from(&buffer)?;
    /// assert_eq!(copy.download()?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if `source` has another length, is on another device, or shares a part of its memory with the buffer but not all
    /// of it: a GPU copies in no fixed order.
    pub fn copy_from(&self, source: &Buffer<T>) -> Result<(), Error> {
        self.same_length("the buffer", source.length)?;
        self.device().check_same("the buffer", source.device())?;
        self.copy_on(self.device(), source)
    }

    /// Copies from a buffer of the same length and device in the stream of a handle.
    pub(crate) fn copy_on(&self, device: &Device, source: &Buffer<T>) -> Result<(), Error> {
        let (to, from, bytes) = (self.address(), source.address(), self.bytes());
        if bytes == 0 {
            return Ok(());
        }
        if to.abs_diff(from) < bytes as u64 {
            if to == from {
                return Ok(());
            }
            return Err(ErrorKind::CopyOverlap { to, from, bytes }.into());
        }
        match &device.0 {
            Kind::Simulator(simulated) => {
                let mut memory = simulated.memory();
                self.chunks().try_for_each(|(at, count)| {
                    let bytes = memory.read(source.address_of(at), (count * T::BYTES) as u64)?;
                    memory.write(self.address_of(at), &bytes)
                })?;
                Ok(())
            }
            Kind::Gpu(gpu) => gpu.copy(to, from, bytes),
        }
    }

    /// The address of an element.
    fn address_of(&self, at: usize) -> u64 {
        self.address() + (at * T::BYTES) as u64
    }

    /// The chunks of the elements: the index of the first element of each, and its length.
    fn chunks(&self) -> impl Iterator<Item = (usize, usize)> {
        let length = self.length;
        let chunk = move |i| (i * CHUNK, CHUNK.min(length - i * CHUNK));
        (0..length.div_ceil(CHUNK)).map(chunk)
    }

    fn same_length(&self, what: &'static str, found: usize) -> Result<(), Error> {
        let expected = self.length;
        if found == expected {
            Ok(())
        } else {
            Err(ErrorKind::Length {
                what,
                expected,
                found,
            }
            .into())
        }
    }
}

/// Elements in the memory of a device, as a cache of the device may hold them: a [`Buffer`] without the device, which it does not keep. The
/// memory is freed with the last handle of either kind. A device that ends takes it with it.
///
/// ```
/// use colex_device::{Arch, Device, Extension, KeptBuffer};
/// use std::sync::Mutex;
///
/// #[derive(Debug, Default)]
/// struct Tables(Mutex<Vec<KeptBuffer<f32>>>);
/// impl Extension for Tables {
///     fn clear(&self) {
///         let dropped = std::mem::take(&mut *self.0.lock().unwrap());
///         drop(dropped);
///     }
/// }
/// let device = Device::simulator(Arch::Sm90a);
/// let table = device.upload(&[1.0f32, 2.0])?;
/// device.extension::<Tables>().0.lock().unwrap().extend(table.kept());
/// # Ok::<(), colex_device::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct KeptBuffer<T> {
    memory: Arc<OwnMemory>,
    start: usize,
    length: usize,
    element: PhantomData<T>,
}

impl<T: Element> KeptBuffer<T> {
    /// Returns the number of elements.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// let kept = device.zeros::<f32>(3)?.kept().expect("it was allocated on the device");
    /// assert_eq!(kept.len(), 3);
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether it has no elements.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// let kept = device.zeros::<f32>(3)?.kept().expect("it was allocated on the device");
    /// assert!(!kept.is_empty());
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the elements as a buffer of their device.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// let buffer = device.upload(&[1.0f32, 2.0, 3.0])?;
    /// let kept = buffer.slice(1..)?.kept().expect("it was allocated on the device");
    /// assert_eq!(kept.on(&device)?.download()?, [2.0, 3.0]);
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the memory is another device's.
    pub fn on(&self, device: &Device) -> Result<Buffer<T>, Error> {
        self.memory.device.check("the buffer", device)?;
        let elements = self.start..self.start + self.length;
        Ok(Buffer::of_own(device, self.memory.clone(), elements))
    }
}

/// The number of elements that are copied to or from the simulator's memory at once, which bounds the temporary memory.
const CHUNK: usize = 1 << 18;

/// Returns an empty vector with a capacity of `length` elements.
///
/// # Errors
///
/// Returns an error if the host has no memory for them.
fn room<T: Element>(length: usize) -> Result<Vec<T>, Error> {
    let mut elements = Vec::new();
    let reserved = elements.try_reserve_exact(length);
    let bytes = length.saturating_mul(T::BYTES);
    match reserved {
        Ok(()) => Ok(elements),
        Err(_) => Err(ErrorKind::HostMemory { bytes }.into()),
    }
}

impl Device {
    /// Returns a buffer with the elements of an array in row-major order. The array may have any strides.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// let array = ndarray::array![[1.0f32, 2.0], [3.0, 4.0]];
    /// let buffer = device.upload_array(&array.t())?;
    /// assert_eq!(buffer.download()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`uninitialised`](Device::uninitialised).
    pub fn upload_array<T, S, D>(&self, array: &ArrayBase<S, D>) -> Result<Buffer<T>, Error>
    where
        T: Element,
        S: Data<Elem = T>,
        D: Dimension,
    {
        match array.as_slice() {
            Some(elements) => self.upload(elements),
            None => {
                let mut elements = room(array.len())?;
                elements.extend(array.iter().copied());
                self.upload(&elements)
            }
        }
    }
}

impl<T: Element> DeviceMemory for Buffer<T> {
    fn address(&self) -> u64 {
        self.address()
    }

    fn byte_count(&self) -> u64 {
        self.bytes() as u64
    }

    fn element_name(&self) -> &'static str {
        T::NAME
    }

    fn device_id(&self) -> usize {
        self.device().id()
    }

    fn device_name(&self) -> String {
        self.device().name()
    }
}

impl<T: Element> From<&Buffer<T>> for Argument {
    fn from(buffer: &Buffer<T>) -> Argument {
        Argument::Pointer(buffer.address())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use colex_atom::Arch;
    use ndarray::array;

    fn said<T>(result: Result<T, Error>) -> String {
        result.err().expect("it is refused").to_string()
    }

    #[test]
    fn a_transposed_array_arrives_in_its_own_order() {
        let device = Device::simulator(Arch::Sm90a);
        let array = array![[1i16, 2], [3, 4], [5, 6]];
        let buffer = device.upload_array(&array.t()).unwrap();
        assert_eq!(buffer.download().unwrap(), [1, 3, 5, 2, 4, 6]);
    }

    #[test]
    fn slices_share_memory_and_copies_do_not() {
        let device = Device::simulator(Arch::Sm90a);
        let buffer = device.upload(&[0u8, 1, 2, 3]).unwrap();
        let copy = device.uninitialised(2).unwrap();
        copy.copy_from(&buffer.slice(1..=2).unwrap()).unwrap();
        buffer.slice(..2).unwrap().write(&[8, 9]).unwrap();
        assert_eq!(buffer.download().unwrap(), [8, 9, 2, 3]);
        assert_eq!(copy.download().unwrap(), [1, 2]);
    }

    #[test]
    fn memory_is_given_back_with_the_last_handle() {
        let device = Device::simulator(Arch::Sm90a);
        let buffer = device.upload(&[1u32, 2]).unwrap();
        let (address, slice) = (buffer.address(), buffer.slice(1..).unwrap());
        drop(buffer);
        assert_eq!(slice.download().unwrap(), [2]);
        drop(slice);
        let Kind::Simulator(simulated) = &device.0 else {
            panic!("the device is simulated")
        };
        assert!(simulated.memory().read(address, 4).is_err());
    }

    #[test]
    fn poison_is_nan_and_zeros_are_zero() {
        let device = Device::simulator(Arch::Sm90a);
        assert!(
            device
                .poisoned::<f32>(3)
                .unwrap()
                .download()
                .unwrap()
                .iter()
                .all(|x| x.is_nan())
        );
        assert!(
            device
                .poisoned::<half::bf16>(3)
                .unwrap()
                .download()
                .unwrap()
                .iter()
                .all(|x| x.is_nan())
        );
        assert_eq!(
            device.zeros::<f64>(2).unwrap().download().unwrap(),
            [0.0; 2]
        );
    }

    /// What a device's cache keeps does not keep the device, and what it was given back lives as long as any handle to it.
    #[test]
    fn kept_memory_keeps_no_device() {
        let device = Device::simulator(Arch::Sm90a);
        let buffer = device.upload(&[1u32, 2, 3]).unwrap();
        let address = buffer.address();
        let kept = buffer.slice(1..).unwrap().kept().unwrap();
        drop(buffer);
        let again = kept.on(&device).unwrap();
        assert_eq!((again.address(), again.len()), (address + 4, 2));
        drop(kept);
        assert_eq!(again.download().unwrap(), [2, 3]);
        let kept = again.kept().unwrap();
        drop(again);
        let Kind::Simulator(simulated) = &device.0 else {
            unreachable!("it is a simulator");
        };
        let simulated = Arc::downgrade(simulated);
        drop(device);
        assert!(simulated.upgrade().is_none());
        let other = Device::simulator(Arch::Sm90a);
        assert_eq!(
            said(kept.on(&other)),
            "the buffer is on one simulator of sm_90a and is used with another: all that a call uses must be on one device"
        );
    }

    /// Buffers of several chunks, their last one short.
    #[test]
    fn chunks_are_all_of_a_buffer() {
        let device = Device::simulator(Arch::Sm90a);
        let length = 2 * CHUNK + 5;
        let numbers: Vec<u32> = (0..length as u32).collect();
        let (buffer, copy) = (device.zeros(length).unwrap(), device.zeros(length).unwrap());
        assert_eq!(buffer.download().unwrap(), vec![0; length]);
        buffer.write(&numbers).unwrap();
        assert_eq!(buffer.download().unwrap(), numbers);
        for shift in [0, 1, CHUNK - 1, CHUNK + 1] {
            let (from, to) = (buffer.slice(shift..), copy.slice(..length - shift));
            let (from, to) = (from.unwrap(), to.unwrap());
            to.copy_from(&from).unwrap();
            assert_eq!(to.download().unwrap(), numbers[shift..]);
        }
    }

    /// All pairs of slices of one buffer of eight elements: a copy is as if the source were read first, or it is refused, by both calls.
    #[test]
    fn law_slices_that_overlap_in_part_are_not_copied() {
        let device = Device::simulator(Arch::Sm90a);
        let numbers: Vec<u16> = (1..=8).collect();
        let buffer = device.upload(&numbers).unwrap();
        let (mut cases, mut refused) = (0, 0);
        for length in 0..=8 {
            for (to, from) in
                (0..=8 - length).flat_map(|to| (0..=8 - length).map(move |from| (to, from)))
            {
                let slice = |at: usize| buffer.slice(at..at + length).unwrap();
                let by_engine = || device.enqueue_copy(&slice(to), &slice(from));
                let calls: [&dyn Fn() -> Result<(), Error>; 2] =
                    [&|| slice(to).copy_from(&slice(from)), &by_engine];
                for call in calls {
                    buffer.write(&numbers).unwrap();
                    let copied = call();
                    let mut expected = numbers.clone();
                    if copied.is_ok() {
                        expected.copy_within(from..from + length, to);
                    }
                    assert_eq!(buffer.download().unwrap(), expected);
                    assert_eq!(copied.is_err(), to != from && to.abs_diff(from) < length);
                    cases += 1;
                    refused += u32::from(copied.is_err());
                }
            }
        }
        assert!(refused > 0);
        let (low, high) = (buffer.slice(..5).unwrap(), buffer.slice(3..).unwrap());
        let (from, to) = (low.address(), high.address());
        assert_eq!(
            said(high.copy_from(&low)),
            format!(
                "the copy of 10 bytes from {from:#x} to {to:#x} would read what it writes: the slices share a part of their memory, \
                 and a GPU copies in no fixed order; copy by a third buffer"
            )
        );
        println!("law slices_that_overlap_in_part_are_not_copied: {cases} cases");
    }

    /// Lengths from 2^36 bytes to what cannot be counted: each is an error or a buffer, and nothing aborts.
    #[test]
    fn absurd_sizes_are_errors() {
        let device = Device::simulator(Arch::Sm90a);
        for log in [45, 48, 56, 62, 63] {
            let length = 1_usize << log;
            assert!(device.uninitialised::<u8>(length).is_err(), "2^{log} bytes");
            assert!(device.zeros::<u8>(length).is_err());
            assert!(device.poisoned::<f64>(length).is_err());
        }
        assert_eq!(
            said(room::<f64>(1 << 57)),
            "1152921504606846976 bytes of the host's memory were asked for, and it has no room for them"
        );
        let buffer = device.zeros::<u8>(0).unwrap();
        assert_eq!(
            said(buffer.download_array((1 << 32, 1 << 32))),
            "the buffer has 0 elements, and 18446744073709551615 were given"
        );
    }

    #[test]
    #[allow(clippy::reversed_empty_ranges)]
    fn every_refusal_verbatim() {
        let device = Device::simulator(Arch::Sm90a);
        let buffer = device.upload(&[1u32, 2, 3]).unwrap();
        let slice =
            "elements 2..5 of a buffer of 3: the range must begin before it ends, and end by 3";
        assert_eq!(said(buffer.slice(2..5)), slice);
        assert!(buffer.slice(2..1).is_err());
        let length = "the buffer has 3 elements, and 2 were given";
        assert_eq!(said(buffer.write(&[1, 2])), length);
        assert_eq!(said(buffer.download_array((1, 2))), length);
        let elsewhere = Device::simulator(Arch::Sm80).upload(&[1u32, 2, 3]).unwrap();
        assert_eq!(
            said(buffer.copy_from(&elsewhere)),
            "the buffer is on the simulator of sm_80, not on the simulator of sm_90a"
        );
        assert_eq!(
            said(device.uninitialised::<u32>(2).unwrap().download()),
            "byte 0 of the allocation at 0x1700000100 is read but was never written"
        );
        assert_eq!(
            said(device.zeros::<u64>(usize::MAX)),
            "the largest buffer that can be addressed has 1152921504606846975 elements, and 18446744073709551615 were given"
        );
    }
}
