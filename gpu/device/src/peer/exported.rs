//! `ExportedBuffer`: a buffer as another process opens it.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;

use super::unsupported;
use crate::buffer::Buffer;
use crate::cuda::EXPORTED_BYTES;
use crate::device::{Device, Kind};
use crate::element::Element;
use crate::error::{Error, ErrorKind};

/// A buffer as another process opens it: plain data, to be sent as [bytes](ExportedBuffer::to_bytes) (CUDA's IPC).
///
/// It does not keep the memory alive. The process that exports keeps the buffer until every process that opened it has
/// dropped its handles; otherwise the driver's answer to later work there is undefined. The driver may put allocations
/// below 2 MiB into one block, all of which the other process can then access.
///
/// ```
/// use colex_device::{Device, ExportedBuffer};
///
/// if let Ok(device) = Device::gpu(0) {
///     let buffer = device.zeros::<f32>(1 << 20)?;
///     let exported = buffer.slice(16..)?.export()?;
///     // .. sent to another process, which calls `open_exported`. This process has the buffer already:
///     let received = ExportedBuffer::from_bytes(&exported.to_bytes())?;
///     assert_eq!(
///         device.open_exported::<f32>(&received).unwrap_err().to_string(),
///         "the exported buffer is one of this process: use the buffer itself, or `Buffer::as_peer_of`"
///     );
/// }
/// # Ok::<(), colex_device::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedBuffer {
    handle: [u8; EXPORTED_BYTES],
    /// A number that no other process has.
    process: u64,
    /// The elements of the allocation before the first.
    start: u64,
    length: u64,
    element: [u8; 8],
}

/// The first bytes, with a version.
const MAGIC: [u8; 8] = *b"colexm01";

impl ExportedBuffer {
    /// The number of [bytes](ExportedBuffer::to_bytes).
    pub const BYTES: usize = MAGIC.len() + EXPORTED_BYTES + 4 * 8;

    /// Returns it as bytes, for another process of this host.
    pub fn to_bytes(&self) -> Vec<u8> {
        let numbers = [self.process, self.start, self.length];
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.handle);
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        bytes.extend(self.element);
        bytes
    }

    /// Returns what [`to_bytes`](ExportedBuffer::to_bytes) gave.
    ///
    /// ```
    /// use colex_device::ExportedBuffer;
    ///
    /// assert_eq!(
    ///     ExportedBuffer::from_bytes(b"four").unwrap_err().to_string(),
    ///     "4 bytes are not those of an exported buffer, which has 104 that `ExportedBuffer::to_bytes` gave"
    /// );
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for any other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<ExportedBuffer, Error> {
        let refused = || ErrorKind::ExportedBytes {
            found: bytes.len(),
            need: ExportedBuffer::BYTES,
        };
        let rest = bytes.strip_prefix(&MAGIC).ok_or_else(refused)?;
        let (handle, rest) = rest.split_first_chunk().ok_or_else(refused)?;
        let (words, rest) = rest.as_chunks::<8>();
        match (words, rest) {
            ([process, start, length, element], []) => Ok(ExportedBuffer {
                handle: *handle,
                process: u64::from_le_bytes(*process),
                start: u64::from_le_bytes(*start),
                length: u64::from_le_bytes(*length),
                element: *element,
            }),
            _ => Err(refused().into()),
        }
    }

    /// Returns whether this process exported the buffer: it uses the buffer itself, and does not open it.
    ///
    /// ```
    /// use colex_device::ExportedBuffer;
    ///
    /// let mut bytes = [0; ExportedBuffer::BYTES];
    /// bytes[..8].copy_from_slice(b"colexm01");
    /// let of_another = ExportedBuffer::from_bytes(&bytes)?;
    /// assert!(!of_another.is_of_this_process());
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    pub fn is_of_this_process(&self) -> bool {
        self.process == process()
    }

    /// Returns the type of its elements, as far as it has a name.
    fn element_name(&self) -> String {
        let name = String::from_utf8_lossy(&self.element);
        name.trim_end_matches('\0').to_string()
    }
}

/// A number of this process that no other one has: process numbers are the same in two containers.
fn process() -> u64 {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    *PROCESS.get_or_init(|| {
        let mut random = RandomState::new().build_hasher();
        random.write_u32(std::process::id());
        random.finish()
    })
}

/// The name of an element type, padded.
fn padded(name: &str) -> [u8; 8] {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    bytes
}

impl<T: Element> Buffer<T> {
    /// Returns the buffer as another process of this host [opens](Device::open_exported) it. A slice is exported with
    /// its place in the allocation.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// assert!(device.zeros::<f32>(4)?.export().unwrap_err().is_unsupported()); // only a GPU's memory is shared
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error on the simulator, for memory of a peer or of another process, and the driver's error.
    pub fn export(&self) -> Result<ExportedBuffer, Error> {
        let Kind::Gpu(gpu) = &self.device().0 else {
            return Err(unsupported(
                self.device(),
                "share memory with another process",
            ));
        };
        let (address, start) = self.own_allocation().ok_or(ErrorKind::NotOwn)?;
        Ok(ExportedBuffer {
            handle: gpu.export(address)?,
            process: process(),
            start: start as u64,
            length: self.len() as u64,
            element: padded(T::NAME),
        })
    }
}

impl Device {
    /// Opens a buffer of another process of this host, on this GPU or on one with peer access to it. The memory is
    /// closed when the last handle to it is dropped. See [`ExportedBuffer`] for how long the other process keeps it.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// use colex_device::ExportedBuffer;
    ///
    /// let mut bytes = [0; ExportedBuffer::BYTES];
    /// bytes[..8].copy_from_slice(b"colexm01");
    /// let received = ExportedBuffer::from_bytes(&bytes)?;
    /// assert!(device.open_exported::<f32>(&received).unwrap_err().is_unsupported());
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error on the simulator, for a buffer of this process, for elements of another type, for a buffer that
    /// is longer than its allocation, and the driver's error.
    pub fn open_exported<T: Element>(&self, exported: &ExportedBuffer) -> Result<Buffer<T>, Error> {
        let Kind::Gpu(gpu) = &self.0 else {
            return Err(unsupported(self, "share memory with another process"));
        };
        if exported.is_of_this_process() {
            return Err(ErrorKind::OwnExport.into());
        }
        if exported.element != padded(T::NAME) {
            return Err(ErrorKind::ExportedElement {
                exported: exported.element_name(),
                opened: T::NAME,
            }
            .into());
        }
        let elements = exported.start.saturating_add(exported.length);
        let bytes = elements.saturating_mul(T::BYTES as u64);
        let address = gpu.open_exported(exported.handle, bytes)?;
        let [start, length] = [exported.start, exported.length].map(|number| number as usize);
        Ok(Buffer::of_other_process(self, address, start, length))
    }
}
