//! What can go wrong between a call of the library and its result.

use core::fmt;

use colex_atom::TmaError;
use colex_device::Error as DeviceError;
use colex_ir::launch::{ArgumentError, LaunchError};
use colex_ir::verify::Refused;
use colex_sim::{Fault, MemoryFault};

use crate::kernel_error::KernelError;

/// Why a call of the library has no result. Its sentence is that of what is in it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// The device cannot do it.
    Device(DeviceError),
    /// The library has no kernel for these operands.
    Kernel(KernelError),
    /// A kernel cannot be built: the layouts in it do not allow it.
    Build(Box<colex_tensor::Error>),
}

impl Error {
    /// Returns the device's error, if it is one.
    ///
    /// ```
    /// use colex_gpu::{Device, DeviceError, Error};
    ///
    /// let device = Device::simulator(colex_atom::Arch::Sm80);
    /// let slice = device.zeros::<f32>(4)?.slice(2..9).unwrap_err();
    /// assert!(matches!(slice, DeviceError::Slice { end: 9, .. }));
    /// assert_eq!(Error::from(slice.clone()).device(), Some(&slice));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn device(&self) -> Option<&DeviceError> {
        match self {
            Error::Device(error) => Some(error),
            Error::Kernel(_) | Error::Build(_) => None,
        }
    }
}

impl From<KernelError> for Error {
    fn from(error: KernelError) -> Error {
        Error::Kernel(error)
    }
}

impl From<colex_tensor::Error> for Error {
    fn from(error: colex_tensor::Error) -> Error {
        Error::Build(Box::new(error))
    }
}

macro_rules! of_device {
    ($($ty:ty),*) => {$(
        impl From<$ty> for Error {
            fn from(error: $ty) -> Error {
                Error::Device(error.into())
            }
        }
    )*};
}

of_device!(
    DeviceError,
    LaunchError,
    ArgumentError,
    Refused,
    TmaError,
    Fault,
    MemoryFault
);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Device(error) => error.fmt(f),
            Error::Kernel(error) => error.fmt(f),
            Error::Build(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Error::Device(error) => error.source(),
            Error::Kernel(error) => error.source(),
            Error::Build(error) => error.source(),
        }
    }
}
