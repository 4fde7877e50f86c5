//! Waits that end after a time.

use std::time::{Duration, Instant};

use super::super::api::StatusCode;
use super::super::event::GpuEvent;
use super::super::gpu::Gpu;
use crate::error::{Error, ErrorKind};

/// `CUDA_ERROR_NOT_READY`.
const NOT_READY: StatusCode = 600;

/// The time in which a wait asks again and again; after it, it sleeps between questions.
const EAGER: Duration = Duration::from_micros(100);

/// The time between two questions after that.
const PAUSE: Duration = Duration::from_micros(50);

/// Asks until the answer is yes or the time is over, at least once, and returns whether it was yes.
pub(in crate::cuda) fn poll(
    within: Duration,
    mut ask: impl FnMut() -> Result<bool, Error>,
) -> Result<bool, Error> {
    let start = Instant::now();
    loop {
        if ask()? {
            return Ok(true);
        }
        let passed = start.elapsed();
        if passed >= within {
            return Ok(false);
        }
        if passed < EAGER {
            std::hint::spin_loop();
        } else {
            std::thread::sleep(PAUSE.min(within - passed));
        }
    }
}

impl Gpu {
    /// Waits for the stream until the time is over; `what` is what has not happened then.
    pub(crate) fn synchronize_within(
        &self,
        within: Duration,
        what: &'static str,
    ) -> Result<(), Error> {
        self.outside_capture("waiting for the stream")?;
        let done = poll(within, || {
            let mut is_done = true;
            self.call("cuStreamQuery", |api| {
                // SAFETY: the stream lives as long as this handle.
                match unsafe { (api.stream_query)(self.stream.handle()) } {
                    NOT_READY => {
                        is_done = false;
                        0
                    }
                    code => code,
                }
            })?;
            Ok(is_done)
        })?;
        self.in_time(done, what, within)
    }

    fn in_time(&self, done: bool, what: &'static str, within: Duration) -> Result<(), Error> {
        if done {
            return Ok(());
        }
        Err(ErrorKind::Deadline {
            what,
            device: self.name().to_string(),
            within,
        }
        .into())
    }
}

impl GpuEvent {
    /// Whether all work before it is done.
    pub(crate) fn is_reached(&self) -> Result<bool, Error> {
        self.gpu().outside_capture("asking for an event")?;
        let mut is_reached = true;
        self.gpu().call("cuEventQuery", |api| {
            // SAFETY: the event lives.
            match unsafe { (api.event_query)(self.handle()) } {
                NOT_READY => {
                    is_reached = false;
                    0
                }
                code => code,
            }
        })?;
        Ok(is_reached)
    }

    /// Waits for it until the time is over.
    pub(crate) fn wait_within(&self, within: Duration) -> Result<(), Error> {
        let done = poll(within, || self.is_reached())?;
        self.gpu().in_time(done, "the event", within)
    }
}
