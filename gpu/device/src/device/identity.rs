//! What tells a device from others, without a handle to it.

use std::fmt;
use std::sync::{Arc, Weak};

use colex_atom::Arch;

use super::{Device, Kind, Simulated};
use crate::cuda::ContextIdentity;
use crate::error::{Error, ErrorKind};

/// What tells a device from all others, also after it has ended. It keeps neither the device nor its context, so that the device's own caches
/// can hold it.
#[derive(Clone)]
pub(crate) enum DeviceIdentity {
    /// The context of a GPU.
    Gpu(ContextIdentity),
    /// A simulated device of an architecture.
    Simulator(Weak<Simulated>, Arch),
}

impl DeviceIdentity {
    /// Returns the identity of a device.
    pub(crate) fn of(device: &Device) -> DeviceIdentity {
        match &device.0 {
            Kind::Gpu(gpu) => DeviceIdentity::Gpu(gpu.identity()),
            Kind::Simulator(simulated) => {
                DeviceIdentity::Simulator(Arc::downgrade(simulated), simulated.arch)
            }
        }
    }

    /// Checks that an object named `what` of this device is used with `device`.
    ///
    /// # Errors
    ///
    /// Returns an error that names `what` and both devices if they differ.
    pub(crate) fn check(&self, what: &'static str, device: &Device) -> Result<(), Error> {
        let is_same = match (self, &device.0) {
            (DeviceIdentity::Gpu(context), Kind::Gpu(gpu)) => gpu.has_identity(context),
            // No other simulated device has the address while a weak handle to this one lives.
            (DeviceIdentity::Simulator(known, _), Kind::Simulator(simulated)) => {
                known.as_ptr() == Arc::as_ptr(simulated)
            }
            (DeviceIdentity::Gpu(_) | DeviceIdentity::Simulator(..), _) => false,
        };
        if is_same {
            return Ok(());
        }
        Err(ErrorKind::OtherDevice {
            what,
            device: device.name(),
            holder: self.to_string(),
        }
        .into())
    }

    /// Frees memory that was allocated on the device, after the work that uses it. Where the device is gone, its memory is too.
    pub(crate) fn free(&self, address: u64) {
        match self {
            DeviceIdentity::Gpu(context) => context.free(address),
            DeviceIdentity::Simulator(simulated, _) => {
                if let Some(simulated) = simulated.upgrade() {
                    let freed = simulated.memory().free(address);
                    debug_assert_eq!(freed, Ok(()), "an allocation is freed once");
                }
            }
        }
    }
}

impl fmt::Display for DeviceIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceIdentity::Gpu(context) => f.write_str(context.name()),
            DeviceIdentity::Simulator(_, arch) => write!(f, "the simulator of {arch}"),
        }
    }
}

impl fmt::Debug for DeviceIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceIdentity({self})")
    }
}
