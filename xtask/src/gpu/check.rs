//! Checks on a device, and their outcomes.

use std::fmt;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use colex_gpu::Device;

use crate::verdict::{self, Ended};

/// A check that leaves the device usable. It returns a line about what it saw.
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) run: fn(&Device) -> Result<String>,
}

/// A check that breaks the device's context, and with it all use of the device in its process. It runs in a process of
/// its own.
pub(super) struct Breaking {
    pub(super) name: &'static str,
    pub(super) run: fn() -> Result<String>,
}

impl Breaking {
    /// Runs the check in a new process of this program.
    pub(super) fn apart(&self) -> Result<String> {
        let program = std::env::current_exe().context("this program's file is not known")?;
        let output = Command::new(program)
            .args(["gpu", "breaking", self.name])
            .output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            bail!(
                "{} {}, {}",
                text(&output.stdout),
                text(&output.stderr),
                output.status
            )
        }
    }
}

/// The outcome of all checks.
pub(crate) struct GpuReport {
    /// The device, its architecture and the driver.
    pub(crate) device: String,
    /// The number of checks.
    pub(crate) ran: usize,
    /// The lines of those that failed.
    pub(crate) failures: Vec<String>,
}

impl GpuReport {
    pub(super) fn on(device: &Device) -> GpuReport {
        let version = device.driver_version().unwrap_or(0);
        let release = format!("{}.{}", version / 1000, version % 1000 / 10);
        let device = format!("{}, {}, CUDA {release}", device.name(), device.arch());
        verdict::subject(&device);
        GpuReport {
            device,
            ran: 0,
            failures: Vec::new(),
        }
    }

    pub(super) fn run(
        &mut self,
        name: &str,
        check: impl FnOnce() -> Result<String>,
        say: impl Fn(&str),
    ) {
        let started = Instant::now();
        let outcome = check();
        let seconds = started.elapsed().as_secs_f64();
        let line = match &outcome {
            Ok(seen) => format!("{name:<24} {seconds:>7.3} s  ok      {seen}"),
            Err(error) => format!("{name:<24} {seconds:>7.3} s  FAILED  {error:#}"),
        };
        self.ran += 1;
        say(&line);
        let told = match &outcome {
            Ok(seen) => verdict::Checked::new(name, Ended::Passed, seen),
            Err(error) => {
                verdict::Checked::new(name, Ended::Failed, "").complaining(&format!("{error:#}"))
            }
        };
        verdict::Checked {
            seconds: Some(seconds),
            ..told
        }
        .add();
        if outcome.is_err() {
            self.failures.push(line);
        }
    }
}

impl fmt::Display for GpuReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.failures.len();
        write!(
            f,
            "{} passed, {failed} failed on {}",
            self.ran - failed,
            self.device
        )
    }
}
