//! A kernel that a device can run.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::argument::{Argument, ParameterType};
use crate::cuda::Loaded;
use crate::device::{Device, Kind};
use crate::error::Error;
use crate::ir::{Kernel, SharedVar};
use crate::launch::{Launch, check_arguments};
use crate::launch_error::LaunchError;
use crate::signature::{self, Signature};
use crate::sim::{Report, simulate};

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
    /// What the simulator interprets.
    Simulated(Arc<Kernel>),
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Code::Gpu(loaded) => loaded.resources.fmt(f),
            Code::Simulated(_) => f.write_str("simulated"),
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
            Code::Simulated(_) => None,
        }
    }

    /// What the assembler said: its counts, and warnings such as `C7510` (a `wgmma` that was serialised).
    pub fn log(&self) -> &str {
        match &self.code {
            Code::Gpu(loaded) => loaded.log(),
            Code::Simulated(_) => "",
        }
    }

    /// Where the machine code came from.
    pub fn origin(&self) -> Option<&Origin> {
        match &self.code {
            Code::Gpu(loaded) => Some(loaded.origin()),
            Code::Simulated(_) => None,
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
        let fixed = match &self.code {
            Code::Gpu(loaded) => {
                limits.threads = limits.threads.min(loaded.resources.threads);
                loaded.resources.static_shared
            }
            Code::Simulated(kernel) => static_shared(kernel),
        };
        launch.check(&limits, fixed)
    }
}

/// The bytes of a kernel's variables in shared memory, in order and aligned.
fn static_shared(kernel: &Kernel) -> u32 {
    let after = |end: u32, variable: &SharedVar| {
        end.next_multiple_of(variable.align.max(1)) + variable.bytes
    };
    kernel.shared.iter().fold(0, after)
}

impl Device {
    /// A kernel, ready to be launched: on a GPU printed as PTX and assembled by the driver, unless that was done before.
    ///
    /// ```
    /// use colex_gpu::ir::{Access, KernelBuilder, Space, Special, Type};
    /// use colex_gpu::{Device, Launch};
    ///
    /// let device = Device::open();
    /// let mut k = KernelBuilder::new("twice", device.arch());
    /// let data = k.pointer("data");
    /// let base = k.param(data);
    /// let thread = k.mov(Type::U32, Special::Tid(0));
    /// let offset = k.mul_wide(Type::U32, thread, 4);
    /// let address = k.add(Type::S64, base, offset);
    /// let x = k.load(Access::new(Space::Global, Type::F32), address);
    /// let y = k.mul(Type::F32, x, 2.0);
    /// k.store(Access::new(Space::Global, Type::F32), address, y);
    ///
    /// let twice = device.load(&k.finish())?;
    /// let error = twice.check(&Launch::new(1, 32), &[2f32.into()]).unwrap_err();
    /// assert_eq!(error.to_string(), "argument 0 is an f32, and the parameter is .u64");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for a kernel that cannot be right; [`Error::Target`] for one built for another architecture;
    /// [`Error::Assembly`] with the assembler's words.
    pub fn load(&self, kernel: &Kernel) -> Result<Function, Error> {
        if !kernel.target.runs_on(self.arch()) {
            return Err(Error::Target {
                kernel: kernel.name.clone(),
                target: kernel.target,
                device: self.name(),
                arch: self.arch(),
            });
        }
        kernel.verify()?;
        let code = match &self.0 {
            Kind::Gpu(gpu) => Code::Gpu(Arc::new(gpu.function(&kernel.ptx()?, &kernel.name)?)),
            Kind::Simulator(_) => Code::Simulated(Arc::new(kernel.clone())),
        };
        Ok(Function {
            entry: kernel.name.clone(),
            signature: Signature::of_kernel(kernel)?,
            code,
            device: self.clone(),
        })
    }

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
    /// A kernel reads and writes where its addresses lead, and nothing here follows them on a GPU; where a system lets
    /// devices use the host's memory, a stray one may lead there. Run a kernel on the simulator first.
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
        self.takes(function, &launch, arguments)?;
        match (&self.0, &function.code) {
            (Kind::Gpu(gpu), Code::Gpu(loaded)) => gpu.launch(loaded, &launch, arguments),
            (Kind::Simulator(_), Code::Simulated(_)) => {
                self.count(function, launch, arguments).map(drop)
            }
            (Kind::Gpu(_), Code::Simulated(_)) => unreachable!("`is` told the devices apart"),
            (Kind::Simulator(_), Code::Gpu(_)) => unreachable!("`is` told the devices apart"),
        }
    }

    /// Runs a kernel over a grid on the simulator, and says what it counted: instructions, passes of shared memory,
    /// sectors of global memory.
    ///
    /// # Errors
    ///
    /// Those of [`launch`](Device::launch); [`Error::Unsupported`] on a GPU, which does not count.
    pub fn count(
        &self,
        function: &Function,
        launch: Launch,
        arguments: &[Argument],
    ) -> Result<Report, Error> {
        self.takes(function, &launch, arguments)?;
        match (&self.0, &function.code) {
            (Kind::Simulator(simulated), Code::Simulated(kernel)) => {
                let mut memory = simulated.memory();
                let options = simulated.options();
                Ok(simulate(kernel, &launch, arguments, &mut memory, options)?)
            }
            _ => Err(Error::Unsupported {
                what: "count what a kernel does",
                device: self.name(),
                why: "only the simulator sees every access",
            }),
        }
    }

    /// Whether a function is this device's, and the launch one that it takes.
    fn takes(
        &self,
        function: &Function,
        launch: &Launch,
        arguments: &[Argument],
    ) -> Result<(), Error> {
        if !self.is(&function.device) {
            return Err(Error::OtherDevice {
                what: "the function",
                device: self.name(),
                holder: function.device.name(),
            });
        }
        Ok(function.check(launch, arguments)?)
    }
}
