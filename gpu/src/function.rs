//! A kernel that a device can run.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::argument::{Argument, ParameterType};
use crate::cuda::Loaded;
use crate::device::{Device, Kind};
use crate::error::Error;
use crate::launch::{Launch, check_arguments};
use crate::launch_error::LaunchError;
use crate::signature::{self, Signature};

/// A kernel on a device, ready to be launched. Clones are handles to the same code.
#[derive(Clone, Debug)]
pub struct Function {
    entry: String,
    signature: Signature,
    code: Code,
    device: Device,
}

/// The kernel itself.
#[derive(Clone)]
enum Code {
    /// Machine code.
    Gpu(Arc<Loaded>),
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Code::Gpu(loaded) => loaded.resources.fmt(f),
        }
    }
}

/// What a kernel takes of a multiprocessor, as its assembler counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of local memory of a thread: spilled registers and arrays that are indexed.
    pub local_bytes: u32,
    /// Bytes of static shared memory of a block.
    pub static_shared: u32,
    /// The most threads that a block of it can have.
    pub threads: u32,
}

/// Where machine code came from, and how long it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From PTX.
    Assembled {
        /// From PTX to machine code.
        assembled: Duration,
        /// From machine code to the device.
        loaded: Duration,
        /// Why it is not on the disk now, if it should be.
        not_stored: Option<String>,
    },
    /// From the cache on the disk.
    Disk {
        /// Until it was on the device.
        took: Duration,
    },
}

impl Function {
    /// The entry's name.
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// The types of its parameters.
    pub fn parameters(&self) -> &[ParameterType] {
        &self.signature.parameters
    }

    /// What it takes of a multiprocessor; on the simulator nobody counts.
    pub fn resources(&self) -> Option<&Resources> {
        match &self.code {
            Code::Gpu(loaded) => Some(&loaded.resources),
        }
    }

    /// What the assembler said: its counts, and warnings such as `C7510` (a `wgmma` that was serialised).
    pub fn log(&self) -> &str {
        match &self.code {
            Code::Gpu(loaded) => loaded.log(),
        }
    }

    /// Where the machine code came from.
    pub fn origin(&self) -> Option<&Origin> {
        match &self.code {
            Code::Gpu(loaded) => Some(loaded.origin()),
        }
    }

    /// Whether the launch and the arguments are what the kernel and the device take.
    ///
    /// # Errors
    ///
    /// The first [`LaunchError`] found: the shapes that the kernel was built for, the arguments, the device's limits.
    pub fn check(&self, launch: &Launch, arguments: &[Argument]) -> Result<(), LaunchError> {
        let shapes = [
            ("block", self.signature.block, launch.block),
            ("cluster", self.signature.cluster, launch.cluster),
        ];
        for (what, required, found) in shapes {
            if let Some(expected) = required.filter(|&expected| expected != found) {
                return Err(LaunchError::Required {
                    what,
                    expected,
                    found,
                });
            }
        }
        check_arguments(self.parameters(), arguments)?;
        let mut limits = self.device.limits();
        let mut fixed = 0;
        if let Some(resources) = self.resources() {
            limits.threads = limits.threads.min(resources.threads);
            fixed = resources.static_shared;
        }
        launch.check(&limits, fixed)
    }
}

impl Device {
    /// An entry of a PTX text, assembled by the driver for this device. Its parameters are read from the text, and
    /// every launch is checked against them.
    ///
    /// # Errors
    ///
    /// [`Error::NoEntry`] and [`Error::Parameter`] for the text's signature; [`Error::Assembly`] with the assembler's
    /// words; [`Error::Unsupported`] on the simulator, which runs kernels of [`ir`](crate::ir).
    pub fn load_ptx(&self, text: &str, entry: &str) -> Result<Function, Error> {
        let signature = signature::of(text, entry)?;
        match &self.0 {
            Kind::Gpu(gpu) => Ok(Function {
                entry: entry.to_string(),
                signature,
                code: Code::Gpu(Arc::new(gpu.function(text, entry)?)),
                device: self.clone(),
            }),
            Kind::Simulator(_) => Err(Error::Unsupported {
                what: "run PTX text",
                device: self.name(),
                why: "it interprets kernels of `colex_gpu::ir`",
            }),
        }
    }

    /// Runs a kernel over a grid, after all work given before. On a GPU it returns at once, and what goes wrong while
    /// the kernel runs is an error of whatever waits for it: [`synchronize`](Device::synchronize), a download.
    ///
    /// # Errors
    ///
    /// [`Error::Launch`] for what can be seen beforehand; [`Error::OtherDevice`] if the function was loaded elsewhere.
    pub fn launch(
        &self,
        function: &Function,
        launch: Launch,
        arguments: &[Argument],
    ) -> Result<(), Error> {
        if !self.is(&function.device) {
            return Err(Error::OtherDevice {
                what: "the function",
                device: self.name(),
                holder: function.device.name(),
            });
        }
        function.check(&launch, arguments)?;
        match (&self.0, &function.code) {
            (Kind::Gpu(gpu), Code::Gpu(loaded)) => gpu.launch(loaded, &launch, arguments),
            (Kind::Simulator(_), Code::Gpu(_)) => unreachable!("`is` told the devices apart"),
        }
    }
}
