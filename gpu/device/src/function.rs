//! `Function`: a kernel loaded on a device.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::cuda::{BareGpuLaunch, HeldGpuLaunch, Loaded};
use crate::device::{Device, DeviceIdentity, Kind};
use crate::element::sealed;
use crate::error::{Error, ErrorKind};
use crate::overlap::waits_first;
use crate::{image, signature};
use colex_ir::Kernel;
use colex_ir::launch::{Argument, EntrySignature, Launch, LaunchClaims, Limits, ParameterType};
use colex_sim::{Report, simulate};

/// A kernel on a device, ready to be launched. Clones are handles to the same code.
#[derive(Clone, Debug)]
pub struct Function {
    loaded: Arc<LoadedKernel>,
    device: Device,
}

/// A loaded kernel. It holds no handle to the device, so that the device's own cache can keep it. Only that device takes it.
#[derive(Debug)]
pub struct LoadedKernel {
    device: DeviceIdentity,
    entry: String,
    signature: EntrySignature,
    /// The claims of its accesses about a launch; a kernel from a text has none.
    claims: LaunchClaims,
    /// Whether its launch may begin before the one before it has ended: its threads wait for that end first.
    waits_first: bool,
    code: Code,
}

/// A kernel that [`Device::launch`] and [`Device::profile`] take: a [`Function`], or a [`LoadedKernel`] of the device.
pub trait Launchable: sealed::Sealed {
    /// The loaded kernel, or an error if it was loaded on another device.
    #[doc(hidden)]
    fn loaded_on(&self, device: &Device) -> Result<&LoadedKernel, Error>;
}

impl sealed::Sealed for Function {}

impl Launchable for Function {
    fn loaded_on(&self, device: &Device) -> Result<&LoadedKernel, Error> {
        device.owns(self)?;
        Ok(&self.loaded)
    }
}

impl sealed::Sealed for LoadedKernel {}

impl Launchable for LoadedKernel {
    fn loaded_on(&self, device: &Device) -> Result<&LoadedKernel, Error> {
        self.device.check("the kernel", device)?;
        Ok(self)
    }
}

/// The kernel itself.
enum Code {
    /// Machine code.
    Gpu(Loaded),
    /// The kernel that the simulator interprets, with its static shared memory in bytes.
    Simulated(Arc<Kernel>, u32),
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Code::Gpu(loaded) => loaded.resources.fmt(f),
            Code::Simulated(..) => f.write_str("simulated"),
        }
    }
}

/// The resources that a kernel takes of a multiprocessor, as its assembler counted them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Registers per thread.
    pub registers: u32,
    /// Local memory per thread in bytes: spilled registers and indexed arrays.
    pub local_bytes: u32,
    /// Static shared memory per block in bytes.
    pub static_shared: u32,
    /// The largest number of threads of a block.
    pub threads: u32,
}

/// The origin of machine code, and how long it took to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From PTX.
    Assembled {
        /// The time to assemble PTX to machine code.
        assembled: Duration,
        /// The time to load the machine code onto the device.
        loaded: Duration,
        /// Why it was not stored in the disk cache, if it was to be.
        not_stored: Option<String>,
    },
    /// From PTX with `setmaxnreg`, which the driver assembles and loads in one call: its linker would ignore that instruction.
    /// The machine code is not in the disk cache of [`Device`](crate::Device), but in that of the driver (`CUDA_CACHE_PATH` in
    /// the CUDA C++ Programming Guide, "CUDA Environment Variables").
    Whole {
        /// The time to assemble it, or to find it in the driver's cache, and to load it onto the device.
        took: Duration,
    },
    /// From an image that the caller gave.
    Image {
        /// The time to load it onto the device.
        loaded: Duration,
    },
    /// From the cache on the disk.
    Disk {
        /// The time to read it and load it onto the device.
        took: Duration,
    },
}

impl Function {
    /// Returns the entry's name.
    pub fn entry(&self) -> &str {
        &self.loaded.entry
    }

    /// Returns the types of its parameters.
    pub fn parameters(&self) -> &[ParameterType] {
        &self.loaded.signature.parameters
    }

    /// Returns whether both are handles to the same code, as a second load of the same kernel returns it.
    pub fn is_same_code(&self, other: &Function) -> bool {
        Arc::ptr_eq(&self.loaded, &other.loaded)
    }

    /// Returns the resources that the function takes of a multiprocessor; `None` on the simulator.
    pub fn resources(&self) -> Option<&Resources> {
        self.loaded.on_gpu().map(|loaded| &loaded.resources)
    }

    /// Returns the log of the assembler: its counts, and warnings such as `C7510` (a `wgmma` that was serialised).
    pub fn log(&self) -> &str {
        self.loaded.on_gpu().map_or("", Loaded::log)
    }

    /// Returns the origin of the machine code.
    pub fn origin(&self) -> Option<&Origin> {
        self.loaded.on_gpu().map(Loaded::origin)
    }

    /// Checks a launch and its arguments against the kernel and the device.
    ///
    /// # Errors
    ///
    /// Returns the first error found: of the block and cluster that the kernel was built for, of the arguments, or of
    /// the device's limits.
    pub fn check_launch(
        &self,
        launch: &Launch,
        arguments: &[Argument],
    ) -> Result<(), colex_ir::Error> {
        self.loaded
            .check_launch(launch, arguments, self.device.limits())
    }
}

impl LoadedKernel {
    /// Returns the entry's name.
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// Returns the machine code, if it is on a GPU.
    pub(crate) fn on_gpu(&self) -> Option<&Loaded> {
        match &self.code {
            Code::Gpu(loaded) => Some(loaded),
            Code::Simulated(..) => None,
        }
    }

    /// Checks a launch against a device with these limits, and the arguments against the kernel.
    ///
    /// # Errors
    ///
    /// Returns the first error found.
    pub fn check_launch(
        &self,
        launch: &Launch,
        arguments: &[Argument],
        mut limits: Limits,
    ) -> Result<(), colex_ir::Error> {
        self.signature.check(launch, arguments)?;
        let fixed = match &self.code {
            Code::Gpu(loaded) => {
                let resources = &loaded.resources;
                limits.threads = limits.threads.min(resources.threads);
                // A multiprocessor has 65536 registers, and gives a warp eight more at a time.
                let held = (1 << 16) / resources.registers.max(1).next_multiple_of(8);
                limits.resident_threads = limits.resident_threads.min(held / 32 * 32);
                loaded.resources.static_shared
            }
            Code::Simulated(_, fixed) => *fixed,
        };
        launch.check(&limits, fixed)?;
        self.claims.check(launch, arguments)
    }
}

/// A launch that was checked once. A run is one `cuLaunchKernelEx` and nothing else: what a bench compares the host time of a call
/// with.
#[doc(hidden)]
#[derive(Debug)]
pub struct BareLaunch {
    bare: BareGpuLaunch,
    kernel: Arc<LoadedKernel>,
}

impl BareLaunch {
    /// Enqueues the launch, on a thread where the device's context is current, as it is on the one that made it.
    ///
    /// # Errors
    ///
    /// Returns the driver's error if the launch fails.
    pub fn run(&self) -> Result<(), Error> {
        let code = self.kernel.on_gpu();
        self.bare
            .run(code.expect("invariant: a bare launch is of a kernel on a GPU"))
    }
}

/// A launch of a kernel with its arguments, checked once: a run on any handle of its device repeats no check. On a simulator it keeps them
/// as they are.
#[doc(hidden)]
#[derive(Debug)]
pub struct CheckedLaunch {
    kernel: Arc<LoadedKernel>,
    held: Option<HeldGpuLaunch>,
    launch: Launch,
    begins_early: bool,
    arguments: Vec<Argument>,
}

/// What a capture forbids of a load, in the words of the error.
const LOADING: &str = "loading a kernel";

impl Device {
    /// Returns a kernel, ready to be launched: verified, and on a GPU printed as PTX and assembled by the driver.
    ///
    /// The device caches the last 256 kernels that it loaded, for all its handles. A kernel that equals one of them is
    /// only looked up: the call compares the two and does not call the driver.
    ///
    /// ```
    /// use colex_ir::{Access, KernelBuilder, Space, Special, Type};
    /// use colex_device::Device;
    /// use colex_ir::launch::Launch;
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
    /// let error = twice.check_launch(&Launch::new(1, 32), &[2f32.into()]).unwrap_err();
    /// assert_eq!(error.to_string(), "argument 0 is an f32, and the parameter is .u64");
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the verifier refuses the kernel, if it was built for another architecture, or, with the log,
    /// if the assembler refuses it.
    pub fn load(&self, kernel: &Kernel) -> Result<Function, Error> {
        self.function(self.load_kernel(kernel)?)
    }

    /// Loads a kernel as [`load`](Device::load) does, without a handle to the device, so that the device's caches can
    /// hold it.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # use colex_ir::KernelBuilder;
    /// # use colex_ir::launch::Launch;
    /// # let kernel = KernelBuilder::new("empty", device.arch()).finish();
    /// let loaded = device.load_kernel(&kernel)?;
    /// device.launch(&*loaded, Launch::new(1, 32), &[])?;
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`load`](Device::load).
    pub fn load_kernel(&self, kernel: &Kernel) -> Result<Arc<LoadedKernel>, Error> {
        if let Some(loaded) = self.held().loads.of_kernel(kernel) {
            return Ok(loaded);
        }
        if !kernel.target.runs_on(self.arch()) {
            return Err(ErrorKind::Target {
                kernel: kernel.name.clone(),
                target: kernel.target,
                device: self.name(),
                arch: self.arch(),
            }
            .into());
        }
        let kernel = Arc::new(kernel.clone());
        let code = match &self.0 {
            Kind::Gpu(gpu) => {
                gpu.outside_capture(LOADING)?;
                let text = if gpu.has_source_lines() {
                    kernel.ptx_with_lines()?
                } else {
                    kernel.ptx()?
                };
                let module = gpu.module(&text)?;
                Code::Gpu(gpu.entry_of(module, &kernel.name)?)
            }
            Kind::Simulator(_) => {
                kernel.verify()?;
                Code::Simulated(kernel.clone(), kernel.static_shared())
            }
        };
        let loaded = LoadedKernel {
            device: DeviceIdentity::of(self),
            entry: kernel.name.clone(),
            signature: signature::of_kernel(&kernel)?,
            claims: LaunchClaims::of(&kernel),
            waits_first: waits_first(&kernel),
            code,
        };
        Ok(self.held().loads.keep_kernel(kernel, loaded))
    }

    /// Returns the function of a kernel that this device has loaded.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # use colex_ir::KernelBuilder;
    /// # use colex_ir::launch::Launch;
    /// # let kernel = KernelBuilder::new("empty", device.arch()).finish();
    /// let function = device.function(device.load_kernel(&kernel)?)?;
    /// assert_eq!(function.entry(), "empty");
    /// let other = Device::simulator(Arch::Sm90a);
    /// assert!(other.function(device.load_kernel(&kernel)?).unwrap_err().is_other_device());
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if another device has loaded it.
    pub fn function(&self, loaded: Arc<LoadedKernel>) -> Result<Function, Error> {
        loaded.loaded_on(self)?;
        Ok(Function {
            loaded,
            device: self.clone(),
        })
    }

    /// Returns an entry of a PTX text, assembled by the driver for this device. Its parameters are read from the text,
    /// and every launch is checked against them.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # use colex_ir::KernelBuilder;
    /// # use colex_ir::launch::Launch;
    /// # let kernel = KernelBuilder::new("empty", device.arch()).finish();
    /// let text = kernel.ptx().unwrap();
    /// assert!(device.load_ptx(&text, "empty").is_err()); // the simulator runs kernels of colex-ir
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the text lacks the entry, if a parameter has a type that no argument has, or, with the log,
    /// if the assembler refuses the text. Returns an error on the simulator, which runs kernels of [`colex_ir`].
    pub fn load_ptx(&self, text: &str, entry: &str) -> Result<Function, Error> {
        let loads = &self.held().loads;
        if let Some(loaded) = loads.of_text(text, entry) {
            return self.function(loaded);
        }
        let signature = signature::of(text, entry)?;
        let Kind::Gpu(gpu) = &self.0 else {
            return Err(ErrorKind::Unsupported {
                what: "run PTX text",
                device: self.name(),
                why: "it interprets kernels of `colex_gpu::ir`",
            }
            .into());
        };
        gpu.outside_capture(LOADING)?;
        let other = loads.any_of_text(text);
        let module = match other.as_deref().and_then(LoadedKernel::on_gpu) {
            Some(other) => other.module(),
            None => gpu.module(text)?,
        };
        let loaded = LoadedKernel {
            device: DeviceIdentity::of(self),
            entry: entry.to_string(),
            signature,
            claims: LaunchClaims::default(),
            waits_first: false,
            code: Code::Gpu(gpu.entry_of(module, entry)?),
        };
        self.function(loads.keep_text(text, loaded))
    }

    /// Returns an entry of machine code that another compiler made for this device: a cubin, as `ptxas` or `nvcc -cubin`
    /// writes it. `parameters` are the types of its parameters, which the image does not hold; their sizes it does, and
    /// they are compared. Each call loads the image again.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// let error = device.load_cubin(b"no image", "k", &[]).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "the image is no machine code of a GPU: it does not begin as an ELF file of 64 bits"
    /// );
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the image is no cubin or is cut off, if it lacks the entry, if the sizes of the entry's
    /// parameters differ from those of `parameters`, or, in the driver's words, if it is for another device. Returns an
    /// error on the simulator, which runs kernels of [`colex_ir`].
    pub fn load_cubin(
        &self,
        image: &[u8],
        entry: &str,
        parameters: &[ParameterType],
    ) -> Result<Function, Error> {
        let mut entries = image::entries(image).map_err(|why| ErrorKind::Image { why })?;
        let Some(found) = entries.remove(entry) else {
            let found = entries.into_keys().collect();
            let entry = entry.to_string();
            return Err(ErrorKind::NoEntry { entry, found }.into());
        };
        let given: Vec<u32> = parameters.iter().map(|ty| ty.bytes() as u32).collect();
        if given != found {
            let entry = entry.to_string();
            return Err(ErrorKind::ImageSignature {
                entry,
                found,
                given,
            }
            .into());
        }
        let Kind::Gpu(gpu) = &self.0 else {
            return Err(ErrorKind::Unsupported {
                what: "run machine code",
                device: self.name(),
                why: "it interprets kernels of `colex_gpu::ir`",
            }
            .into());
        };
        gpu.outside_capture(LOADING)?;
        let module = gpu
            .module_of_image(image)
            .map_err(|error| match error.kind() {
                ErrorKind::Assembly { device, log } => ErrorKind::ImageRefused {
                    device: device.clone(),
                    log: log.clone(),
                }
                .into(),
                _ => error,
            })?;
        let signature = EntrySignature {
            parameters: parameters.to_vec(),
            alignments: vec![1; parameters.len()],
            block: None,
            cluster: None,
            is_flat: false,
        };
        self.function(Arc::new(LoadedKernel {
            device: DeviceIdentity::of(self),
            entry: entry.to_string(),
            signature,
            claims: LaunchClaims::default(),
            waits_first: false,
            code: Code::Gpu(gpu.entry_of(module, entry)?),
        }))
    }

    /// Runs a kernel over a grid, after all work enqueued before. On a GPU the call returns at once, and an error of
    /// the running kernel is returned by the call that waits for it, such as [`synchronize`](Device::synchronize) or a
    /// download.
    ///
    /// A kernel whose threads all execute `griddepcontrol.wait` before they access global memory or end is launched with
    /// programmatic stream serialisation: its blocks may take multiprocessors that the launch before it leaves, and wait there
    /// until that launch has ended and its writes are visible. [`launch_in_order`](Device::launch_in_order) launches it without.
    ///
    /// A cooperative launch ([`Launch::cooperative`]) begins in order, and all of its blocks run at once. It is refused if the device does
    /// not hold them.
    ///
    /// On a GPU the addresses of a kernel are not checked. On a system whose devices can access the host's memory, a
    /// stray address may reach that memory. Run a kernel on the simulator first.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # use colex_ir::KernelBuilder;
    /// # use colex_ir::launch::Launch;
    /// # let kernel = KernelBuilder::new("empty", device.arch()).finish();
    /// device.launch(&device.load(&kernel)?, Launch::new(1, 32), &[])?;
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`check_launch`](Function::check_launch), and an error if the function was loaded on
    /// another device.
    pub fn launch(
        &self,
        kernel: &impl Launchable,
        launch: Launch,
        arguments: &[Argument],
    ) -> Result<(), Error> {
        let loaded = kernel.loaded_on(self)?;
        self.enqueue(loaded, (launch, loaded.waits_first), arguments)
    }

    /// Runs a kernel over a grid as [`launch`](Device::launch) does, but none of its blocks begins before the launch before it has
    /// ended, also if the kernel waits for it.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # use colex_ir::KernelBuilder;
    /// # use colex_ir::launch::Launch;
    /// # let kernel = KernelBuilder::new("empty", device.arch()).finish();
    /// device.launch_in_order(&device.load(&kernel)?, Launch::new(1, 32), &[])?;
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`launch`](Device::launch).
    pub fn launch_in_order(
        &self,
        kernel: &impl Launchable,
        launch: Launch,
        arguments: &[Argument],
    ) -> Result<(), Error> {
        let loaded = kernel.loaded_on(self)?;
        self.enqueue(loaded, (launch, false), arguments)
    }

    /// Returns a launch of a kernel, checked, that asks for nothing but itself.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`launch`](Device::launch), and an error on the simulator, which has no driver.
    #[doc(hidden)]
    pub fn bare_launch(
        &self,
        kernel: &Arc<LoadedKernel>,
        (launch, in_order): (Launch, bool),
        arguments: &[Argument],
    ) -> Result<BareLaunch, Error> {
        let Kind::Gpu(gpu) = &self.0 else {
            return Err(ErrorKind::Unsupported {
                what: "launch without checks",
                device: self.name(),
                why: "it calls no driver",
            }
            .into());
        };
        kernel.loaded_on(self)?;
        kernel.check_launch(&launch, arguments, gpu.limits())?;
        let begins_early = kernel.waits_first && !in_order;
        Ok(BareLaunch {
            bare: gpu.bare_launch((&launch, begins_early), arguments)?,
            kernel: kernel.clone(),
        })
    }

    /// Returns a launch of a kernel, checked, that runs many times ([`launch_checked`](Device::launch_checked)). With `in_order`, none
    /// of its blocks begins before the launch before it has ended.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`launch`](Device::launch).
    #[doc(hidden)]
    pub fn checked_launch(
        &self,
        kernel: &Arc<LoadedKernel>,
        (launch, in_order): (Launch, bool),
        arguments: &[Argument],
    ) -> Result<CheckedLaunch, Error> {
        kernel.loaded_on(self)?;
        kernel.check_launch(&launch, arguments, self.limits())?;
        let begins_early = kernel.waits_first && !in_order;
        let held = match &self.0 {
            Kind::Gpu(gpu) => Some(gpu.held_launch((&launch, begins_early), arguments)?),
            Kind::Simulator(_) => None,
        };
        Ok(CheckedLaunch {
            kernel: kernel.clone(),
            held,
            launch,
            begins_early,
            arguments: arguments.to_vec(),
        })
    }

    /// Runs a checked launch, as [`launch`](Device::launch) does.
    ///
    /// # Errors
    ///
    /// Returns the device's error, and an error if the launch was checked for another device.
    #[doc(hidden)]
    pub fn launch_checked(&self, checked: &CheckedLaunch) -> Result<(), Error> {
        checked.kernel.loaded_on(self)?;
        match (&self.0, &checked.kernel.code, &checked.held) {
            (Kind::Gpu(gpu), Code::Gpu(code), Some(held)) => gpu.launch_held(code, held),
            _ => self.enqueue(
                &checked.kernel,
                (checked.launch, checked.begins_early),
                &checked.arguments,
            ),
        }
    }

    fn enqueue(
        &self,
        loaded: &LoadedKernel,
        (launch, begins_early): (Launch, bool),
        arguments: &[Argument],
    ) -> Result<(), Error> {
        match (&self.0, &loaded.code) {
            (Kind::Gpu(gpu), Code::Gpu(code)) => {
                loaded.check_launch(&launch, arguments, gpu.limits())?;
                gpu.launch(code, (&launch, begins_early), arguments)
            }
            _ => self.profile(loaded, launch, arguments).map(drop),
        }
    }

    /// Runs a kernel over a grid on the simulator, and returns its counts: instructions, passes of shared memory,
    /// sectors of global memory.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # use colex_ir::KernelBuilder;
    /// # use colex_ir::launch::Launch;
    /// # let kernel = KernelBuilder::new("empty", device.arch()).finish();
    /// let report = device.profile(&device.load(&kernel)?, Launch::new(1, 32), &[])?;
    /// assert_eq!(report.sectors(), (0, 0));
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`launch`](Device::launch), and an error on a GPU, which does not count.
    pub fn profile(
        &self,
        kernel: &impl Launchable,
        launch: Launch,
        arguments: &[Argument],
    ) -> Result<Report, Error> {
        let loaded = kernel.loaded_on(self)?;
        loaded.check_launch(&launch, arguments, self.limits())?;
        match (&self.0, &loaded.code) {
            (Kind::Simulator(simulated), Code::Simulated(kernel, _)) => {
                let mut memory = simulated.memory();
                let options = simulated.options();
                Ok(simulate(kernel, &launch, arguments, &mut memory, options)?)
            }
            _ => Err(ErrorKind::Unsupported {
                what: "count what a kernel does",
                device: self.name(),
                why: "only the simulator sees every access",
            }
            .into()),
        }
    }

    /// Checks that a function was loaded on this device.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # use colex_ir::KernelBuilder;
    /// # use colex_ir::launch::Launch;
    /// # let kernel = KernelBuilder::new("empty", device.arch()).finish();
    /// let function = device.load(&kernel)?;
    /// assert!(device.owns(&function).is_ok());
    /// assert!(Device::simulator(Arch::Sm90a).owns(&function).is_err());
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the function belongs to another device.
    pub fn owns(&self, function: &Function) -> Result<(), Error> {
        self.check_same("the function", &function.device)
    }
}

#[cfg(test)]
mod tests {
    use colex_atom::Arch;

    use super::*;
    use colex_ir::{KernelBuilder, Special, Type};
    use colex_sim::{FaultKind, Memory};

    /// Numbers that a launch may have, good and bad.
    const EXTENTS: [u32; 12] = [0, 1, 2, 3, 4, 8, 9, 64, 65, 1024, 1025, 65536];

    /// Launches of kernels with and without required shapes, with arguments and dynamic shared memory of all sizes:
    /// what the simulator calls a fault of the launch is refused before any device sees it, and nothing else is.
    #[test]
    fn a_fault_of_the_launch_is_found_before_it() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut draw = |most: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20) % most
        };
        let (mut cases, mut refused, mut flat) = (0, 0, 0);
        for _ in 0..3000 {
            let arch = [Arch::Sm80, Arch::Sm90a, Arch::Sm75][draw(3) as usize];
            let mut k = KernelBuilder::new("k", arch);
            let pointer = draw(2) == 0;
            if pointer {
                k.pointer("p");
            }
            // Some tell their threads apart by the index along x alone, which a block along y or z does not.
            let along = [Special::Tid(0), Special::Tid(1), Special::NTid(2)];
            let read = draw(8);
            for (number, special) in along.into_iter().enumerate() {
                if read >> number & 1 == 1 {
                    k.mov(Type::U32, special);
                }
            }
            let is_flat = read == 1;
            let mut kernel = k.finish();
            // Mostly 1, so that a third of the launches pass.
            let mut extents = || {
                [0; 3].map(|_| match draw(4) {
                    0 => EXTENTS[draw(12) as usize],
                    _ => 1,
                })
            };
            let mut launch = Launch::new(extents(), extents());
            if arch == Arch::Sm90a {
                launch = launch.cluster(extents());
            }
            if draw(4) == 0 {
                kernel.block = Some([32, 1, 1]);
            }
            if draw(8) == 0 {
                kernel.cluster = Some([2, 1, 1]);
            }
            let shared = [
                0,
                1,
                48 << 10,
                99 << 10,
                227 << 10,
                (227 << 10) + 1,
                u32::MAX,
            ];
            launch.dynamic_shared = shared[draw(7) as usize];
            let device = Device::simulator(arch);
            let Ok(function) = device.load(&kernel) else {
                continue;
            };
            // The parameter wants an address at a multiple of 16.
            let first = match draw(3) {
                0 => Argument::Pointer(0),
                1 => Argument::Pointer(8),
                _ => 1u32.into(),
            };
            let given = [first, Argument::Pointer(16)];
            let arguments = &given[..draw(3) as usize];
            let checked = function.check_launch(&launch, arguments);
            cases += 1;
            refused += u32::from(checked.is_err());
            if let Err(error) = &checked {
                let is_of_one_index = error.to_string().contains("by `%tid.x` alone");
                flat += u32::from(is_of_one_index);
                assert!(!is_of_one_index || is_flat && kernel.block.is_none());
            }
            if launch.blocks().saturating_mul(launch.threads()) > 1 << 14 && checked.is_ok() {
                continue;
            }
            // The bound on blocks is the simulator's own.
            let options = colex_sim::SimOptions {
                max_blocks: u64::MAX,
                ..Default::default()
            };
            let ran = simulate(
                &kernel,
                &launch,
                arguments,
                &mut Memory::default(),
                &options,
            );
            let fault = ran.err().filter(|fault| fault.kind() == FaultKind::Launch);
            assert_eq!(
                checked.map_err(|error| error.to_string()),
                fault.map_or(Ok(()), |fault| Err(fault.to_string())),
                "{launch:?} of {kernel:?}"
            );
        }
        assert!(refused > cases / 4 && refused < cases && flat > 20);
        println!("law launch_faults_are_found_before_the_launch: {cases} cases");
    }

    /// Every pair of devices, and every call that takes a kernel without a handle to its device. A device that has ended is another one, too.
    #[test]
    fn a_loaded_kernel_is_taken_by_its_own_device_only() {
        let archs = [Arch::Sm80, Arch::Sm90a, Arch::Sm90a];
        let devices = archs.map(Device::simulator);
        let kernel = |device: &Device| {
            let kernel = KernelBuilder::new("k", Arch::Sm80).finish();
            device.load_kernel(&kernel).unwrap()
        };
        let ended = kernel(&Device::simulator(Arch::Sm80));
        let mut loaded: Vec<Arc<LoadedKernel>> = devices.iter().map(kernel).collect();
        loaded.push(ended);
        let launch = Launch::new(1, 32);
        let mut cases = 0;
        for (at, device) in devices.iter().enumerate() {
            for (of, kernel) in loaded.iter().enumerate() {
                let checked = devices.get(of).map_or(&devices[0], |own| own);
                let checked = checked.checked_launch(kernel, (launch, false), &[]);
                let mut answers = vec![
                    device.launch(&**kernel, launch, &[]),
                    device.launch_in_order(&**kernel, launch, &[]),
                    device.profile(&**kernel, launch, &[]).map(drop),
                    device.function(kernel.clone()).map(drop),
                    device
                        .checked_launch(kernel, (launch, false), &[])
                        .map(drop),
                ];
                if let Ok(checked) = &checked {
                    answers.push(device.launch_checked(checked));
                }
                assert_eq!(checked.is_ok(), of < devices.len());
                for answer in answers {
                    assert_eq!(answer.is_ok(), at == of, "{at} {of} {answer:?}");
                    cases += 1;
                }
            }
        }
        let said =
            |device: &Device, kernel| device.launch(kernel, launch, &[]).unwrap_err().to_string();
        assert_eq!(
            said(&devices[0], &*loaded[1]),
            "the kernel is on the simulator of sm_90a, not on the simulator of sm_80"
        );
        assert_eq!(
            said(&devices[1], &*loaded[2]),
            "the kernel is on one simulator of sm_90a and is used with another: all that a call uses must be on one device"
        );
        println!("law a_loaded_kernel_is_taken_by_its_own_device_only: {cases} cases");
    }

    #[test]
    fn an_address_that_the_kernel_is_not_built_for_is_refused() {
        let device = Device::simulator(Arch::Sm80);
        let mut k = KernelBuilder::new("k", Arch::Sm80);
        k.pointer("p");
        let function = device.load(&k.finish()).unwrap();
        let launch = |address: u64| {
            let arguments = [Argument::Pointer(address)];
            device.launch(&function, Launch::new(1, 32), &arguments)
        };
        assert_eq!(launch(0x1010), Ok(()));
        assert_eq!(
            launch(0x1004).unwrap_err().to_string(),
            "argument 0 is the address 0x1004, and the kernel is built for multiples of 16 bytes"
        );
    }
}
