//! Timing of work on a device: captured once, replayed many times.

use std::fmt;

use crate::device::{Device, Kind};
use crate::error::{Error, ErrorKind};

/// The number of runs of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeats {
    /// The number of warm-up runs.
    pub warmups: usize,
    /// The number of measured runs.
    pub samples: usize,
    /// The number of repetitions of the work in one run. Use more for work of a few microseconds.
    pub batch: usize,
}

impl Default for Repeats {
    fn default() -> Repeats {
        Repeats {
            warmups: 3,
            samples: 15,
            batch: 4,
        }
    }
}

/// Work that [`Device::time_in_turns`] measures: it is given the device and the number of the repetition.
pub type TimedWork<'a, E> = dyn Fn(&Device, usize) -> Result<(), E> + 'a;

/// Measured times of the same work.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// The microseconds of each sample, shortest first.
    microseconds: Vec<f64>,
}

impl Timing {
    /// Builds the statistics of samples in any order.
    ///
    /// ```
    /// use colex_device::Timing;
    ///
    /// let timing = Timing::of(vec![3.0, 1.0, 2.0, 10.0]);
    /// assert_eq!((timing.least(), timing.median(), timing.most()), (1.0, 2.5, 10.0));
    /// assert_eq!(timing.to_string(), "2.50 us (1.00 .. 10.00, 4 samples)");
    /// ```
    pub fn of(mut microseconds: Vec<f64>) -> Timing {
        microseconds.sort_by(f64::total_cmp);
        Timing { microseconds }
    }

    /// Returns the middle sample, or the mean of the two middle ones; NaN of none.
    pub fn median(&self) -> f64 {
        let half = self.microseconds.len() / 2;
        match self.microseconds.len() % 2 {
            1 => self.microseconds[half],
            _ if half == 0 => f64::NAN,
            _ => (self.microseconds[half - 1] + self.microseconds[half]) / 2.0,
        }
    }

    /// Returns the shortest sample; NaN of none.
    pub fn least(&self) -> f64 {
        self.microseconds.first().copied().unwrap_or(f64::NAN)
    }

    /// Returns the longest sample; NaN of none.
    pub fn most(&self) -> f64 {
        self.microseconds.last().copied().unwrap_or(f64::NAN)
    }

    /// Returns the number of samples.
    pub fn samples(&self) -> usize {
        self.microseconds.len()
    }
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, median, most) = (self.least(), self.median(), self.most());
        write!(
            f,
            "{median:.2} us ({least:.2} .. {most:.2}, {} samples)",
            self.samples()
        )
    }
}

impl Device {
    /// Measures work. The function enqueues the work on the device that it is called with, whose stream is captured
    /// into a graph; the graph runs as often as `repeats` says. Allocate before the call, and synchronize after it.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// use colex_device::{Repeats, Timing};
    ///
    /// let (from, to) = (device.zeros::<f32>(1 << 10)?, device.zeros::<f32>(1 << 10)?);
    /// let timing: Result<Timing, _> = device.time(Repeats::default(), |_| to.copy_from(&from));
    /// assert!(timing.is_err()); // only a GPU has a time
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of the function, and an error if it used another handle or on the simulator. Returns the
    /// driver's error.
    pub fn time<E: From<Error>>(
        &self,
        repeats: Repeats,
        work: impl Fn(&Device) -> Result<(), E>,
    ) -> Result<Timing, E> {
        let work = |device: &Device, _| work(device);
        let mut timings = self.time_in_turns(repeats, &[&work])?;
        Ok(timings.remove(0))
    }

    /// Measures several pieces of work in turn, each as [`Device::time`] measures one. Another piece begins each round.
    /// A piece is called with the number of the repetition in its batch, so that it can rotate among its operands.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// use colex_device::{Error, Repeats};
    ///
    /// let (from, to) = (device.zeros::<f32>(1 << 10)?, device.zeros::<f32>(1 << 10)?);
    /// let there = |_: &Device, _: usize| to.copy_from(&from);
    /// let back = |_: &Device, _: usize| from.copy_from(&to);
    /// let timings: Result<_, Error> = device.time_in_turns(Repeats::default(), &[&there, &back]);
    /// assert!(timings.is_err()); // only a GPU has a time
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Device::time`].
    pub fn time_in_turns<E: From<Error>>(
        &self,
        repeats: Repeats,
        works: &[&TimedWork<'_, E>],
    ) -> Result<Vec<Timing>, E> {
        let Kind::Gpu(gpu) = &self.0 else {
            let name = self.name();
            return Err(E::from(
                ErrorKind::Unsupported {
                    what: "take the time",
                    device: name,
                    why: "it counts what a kernel does; only a GPU says how long that takes",
                }
                .into(),
            ));
        };
        gpu.outside_capture("taking the time")?;
        let lane = gpu.on_new_stream()?;
        lane.wait_for(&gpu.record()?)?;
        let batch = repeats.batch.max(1);
        let device = Device(Kind::Gpu(lane.clone()));
        let graphs = works
            .iter()
            .map(|work| lane.capture(|| (0..batch).try_for_each(|i| work(&device, i))))
            .collect::<Result<Vec<_>, E>>()?;
        for graph in &graphs {
            (0..repeats.warmups).try_for_each(|_| graph.launch())?;
        }
        let mut microseconds = vec![Vec::new(); graphs.len()];
        for round in 0..repeats.samples {
            let mut spans = Vec::new();
            for place in 0..graphs.len() {
                let one = (place + round) % graphs.len();
                let start = lane.record()?;
                graphs[one].launch()?;
                spans.push((one, start, lane.record()?));
            }
            for (one, start, end) in spans {
                let run = f64::from(end.milliseconds_since(&start)?);
                microseconds[one].push(run * 1e3 / batch as f64);
            }
        }
        Ok(microseconds.into_iter().map(Timing::of).collect())
    }
}
