//! A device: where memory lies and kernels run.

use std::sync::{Arc, Mutex, MutexGuard};

use colex_atom::Arch;

use crate::buffer::Buffer;
use crate::element::Element;
use crate::error::Error;
use crate::launch::Limits;
use crate::sim::Memory;

/// A GPU or the simulator. Clones are handles to the same device, and may go to other threads.
#[derive(Clone, Debug)]
pub struct Device(pub(crate) Kind);

/// Which of the two.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// The host pretends.
    Simulator(Arc<Simulated>),
}

/// A simulated device.
#[derive(Debug)]
pub(crate) struct Simulated {
    arch: Arch,
    memory: Mutex<Memory>,
}

impl Simulated {
    /// Its memory, for one caller at a time.
    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Device {
    /// The first GPU if there is one, else the simulator of an `sm_90a`.
    pub fn open() -> Device {
        Device::simulator(Arch::Sm90a)
    }

    /// A simulated device of that architecture, with memory of its own.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::Device;
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// assert_eq!(device.name(), "the simulator of sm_80");
    /// ```
    pub fn simulator(arch: Arch) -> Device {
        Device(Kind::Simulator(Arc::new(Simulated {
            arch,
            memory: Mutex::default(),
        })))
    }

    /// Whether it is the simulator.
    pub fn is_simulator(&self) -> bool {
        matches!(self.0, Kind::Simulator(_))
    }

    /// Its name, as messages use it.
    pub fn name(&self) -> String {
        match &self.0 {
            Kind::Simulator(simulated) => format!("the simulator of {}", simulated.arch),
        }
    }

    /// The architecture that kernels for it are printed for.
    pub fn arch(&self) -> Arch {
        match &self.0 {
            Kind::Simulator(simulated) => simulated.arch,
        }
    }

    /// What a launch may ask of it.
    pub fn limits(&self) -> Limits {
        match &self.0 {
            Kind::Simulator(simulated) => Limits::of(simulated.arch),
        }
    }

    /// Whether both are handles to the same device.
    pub fn is(&self, other: &Device) -> bool {
        match (&self.0, &other.0) {
            (Kind::Simulator(a), Kind::Simulator(b)) => Arc::ptr_eq(a, b),
        }
    }

    /// A buffer with these elements.
    ///
    /// # Errors
    ///
    /// Those of [`uninitialised`](Device::uninitialised).
    pub fn upload<T: Element>(&self, elements: &[T]) -> Result<Buffer<T>, Error> {
        let buffer = self.uninitialised(elements.len())?;
        buffer.write(elements)?;
        Ok(buffer)
    }

    /// A buffer of so many zeros.
    ///
    /// # Errors
    ///
    /// Those of [`uninitialised`](Device::uninitialised).
    pub fn zeros<T: Element>(&self, length: usize) -> Result<Buffer<T>, Error> {
        let buffer = self.uninitialised(length)?;
        buffer.fill_bytes(0)?;
        Ok(buffer)
    }

    /// A buffer of so many elements whose bits are all set: NaN in every float format, so that what a kernel should have
    /// written and did not is seen.
    ///
    /// # Errors
    ///
    /// Those of [`uninitialised`](Device::uninitialised).
    pub fn poisoned<T: Element>(&self, length: usize) -> Result<Buffer<T>, Error> {
        let buffer = self.uninitialised(length)?;
        buffer.fill_bytes(0xff)?;
        Ok(buffer)
    }

    /// A buffer of so many elements that nobody has written. The simulator reports the first that is read; a GPU gives
    /// what the memory held before.
    ///
    /// # Errors
    ///
    /// [`Error::Length`] if the bytes of so many elements cannot be counted.
    pub fn uninitialised<T: Element>(&self, length: usize) -> Result<Buffer<T>, Error> {
        Buffer::allocate(self, length)
    }
}
