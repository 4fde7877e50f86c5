//! Points in the work of a device.

use crate::cuda;
use crate::device::{Device, Kind};
use crate::error::{Error, ErrorKind};

/// A point in the work given to a device, reached when all work before it is done.
#[derive(Debug)]
pub struct Event(Option<cuda::GpuEvent>);

impl Device {
    /// Returns the point reached when all work given so far is done.
    ///
    /// ```
    /// use colex_device::Device;
    ///
    /// let device = Device::open();
    /// let beside = device.on_new_stream()?;
    /// let done = device.record()?;
    /// beside.wait_for(&done)?;
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What the driver says.
    pub fn record(&self) -> Result<Event, Error> {
        match &self.0 {
            Kind::Gpu(gpu) => Ok(Event(Some(gpu.record()?))),
            Kind::Simulator(_) => Ok(Event(None)),
        }
    }

    /// Lets the work given from now on wait for a point in another stream of the same device. On the simulator every
    /// point is reached at once.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_device::Device;
    /// # let device = Device::simulator(Arch::Sm90a);
    /// let copies = device.on_new_stream()?;
    /// // .. give copies work, then:
    /// let landed = copies.record()?;
    /// device.wait_for(&landed)?;
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails for a point in another device's work; what the driver says.
    pub fn wait_for(&self, event: &Event) -> Result<(), Error> {
        match (&self.0, &event.0) {
            (Kind::Gpu(gpu), Some(event)) if gpu.is_same_context(event.gpu()) => {
                gpu.wait_for(event)
            }
            (Kind::Simulator(_), None) => Ok(()),
            (_, event) => Err(ErrorKind::OtherDevice {
                what: "the event",
                device: self.name(),
                holder: event
                    .as_ref()
                    .map_or("a simulator", |event| event.gpu().name())
                    .to_string(),
            }
            .into()),
        }
    }
}

impl Event {
    /// Returns the milliseconds from an earlier point to this one, once both are reached.
    ///
    /// # Errors
    ///
    /// Fails on the simulator; what the driver says.
    pub fn milliseconds_since(&self, start: &Event) -> Result<f32, Error> {
        match (&self.0, &start.0) {
            (Some(end), Some(start)) if end.gpu().is_same_context(start.gpu()) => {
                end.milliseconds_since(start)
            }
            _ => Err(ErrorKind::Unsupported {
                what: "take the time",
                device: "the simulator".to_string(),
                why: "it counts what a kernel does, and a GPU's time is measured between two events of one GPU",
            }.into()),
        }
    }
}
