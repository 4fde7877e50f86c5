//! `Event`: a point in the work of a stream.

use std::time::Duration;

use crate::cuda;
use crate::device::{Device, Kind};
use crate::error::{Error, ErrorKind};

/// A point in the work of a stream, reached when all work enqueued before it is done.
#[derive(Debug)]
pub struct Event(Option<cuda::GpuEvent>);

impl Device {
    /// Records an event, which is reached when all work enqueued so far is done.
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
    /// Returns the driver's error.
    pub fn record(&self) -> Result<Event, Error> {
        match &self.0 {
            Kind::Gpu(gpu) => Ok(Event(Some(gpu.record()?))),
            Kind::Simulator(_) => Ok(Event(None)),
        }
    }

    /// Makes the work enqueued from now on wait for an event of another stream, of the same device or of another GPU of this
    /// process. On the simulator every event is reached at once.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
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
    /// Returns an error if one of both is a simulator's and the other a GPU's, and the driver's error.
    pub fn wait_for(&self, event: &Event) -> Result<(), Error> {
        match (&self.0, &event.0) {
            // The driver waits across devices too (`cuStreamWaitEvent`).
            (Kind::Gpu(gpu), Some(event)) => gpu.wait_for(event),
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
    /// Returns whether all work enqueued before the event is done. It does not wait.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// assert!(device.record()?.is_reached()?); // on the simulator every event is reached at once
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of earlier work, such as a kernel that trapped, and an error during a capture.
    pub fn is_reached(&self) -> Result<bool, Error> {
        self.0.as_ref().map_or(Ok(true), cuda::GpuEvent::is_reached)
    }

    /// Waits until all work enqueued before the event is done, for at most `within`.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// use std::time::Duration;
    ///
    /// device.record()?.wait_within(Duration::from_secs(1))?;
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for which [`is_deadline`](Error::is_deadline) holds once the time is over, and the errors of
    /// [`is_reached`](Event::is_reached).
    pub fn wait_within(&self, within: Duration) -> Result<(), Error> {
        self.0
            .as_ref()
            .map_or(Ok(()), |event| event.wait_within(within))
    }

    /// Waits until both events are reached, and returns the milliseconds from an earlier event to this one.
    ///
    /// # Errors
    ///
    /// Returns an error on the simulator, an error if the events are of two devices, and the driver's error.
    pub fn milliseconds_since(&self, start: &Event) -> Result<f32, Error> {
        match (&self.0, &start.0) {
            (Some(end), Some(start)) if end.gpu().is_same_context(start.gpu()) => {
                end.milliseconds_since(start)
            }
            (Some(_), _) | (_, Some(_)) => {
                let of = |event: &Event| match &event.0 {
                    Some(event) => event.gpu().name().to_string(),
                    None => "a simulator".to_string(),
                };
                Err(ErrorKind::OtherDevice {
                    what: "the earlier event",
                    device: of(self),
                    holder: of(start),
                }
                .into())
            }
            (None, None) => Err(ErrorKind::Unsupported {
                what: "take the time",
                device: "the simulator".to_string(),
                why: "it counts what a kernel does, and a GPU's time is measured between two events of one GPU",
            }.into()),
        }
    }
}
