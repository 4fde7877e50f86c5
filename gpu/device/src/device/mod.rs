//! `Device`: a GPU or the simulator, with its memory and its kernels.

mod identity;
mod rates;

use std::any::Any;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use colex_atom::{Arch, TensorMap};

use crate::buffer::Buffer;
use crate::cache::Cache;
use crate::cuda::Gpu;
use crate::element::Element;
use crate::error::{Error, ErrorKind};
use crate::memo::LoadedKernels;
use colex_ir::launch::{ArgumentError, Limits, TensorMapArgument};
use colex_sim::{Memory, SimOptions};

pub(crate) use identity::DeviceIdentity;
pub use rates::Rates;

/// A GPU or the simulator. Clones are handles to the same device and may be sent to other threads.
///
/// # What handles share
///
/// A handle is a context of a GPU with one of its streams. All handles to a context are the same
/// [device](Device::is_same_device), however each was made, and share in this process:
///
/// - the loaded kernels, the prepared library calls, and everything else that a library keeps in an [`Extension`];
/// - the disk cache that [`set_cache`](Device::set_cache) sets;
/// - the news that a kernel broke the context.
///
/// Two contexts share nothing of that, not even on one GPU: each loads its own code, and neither takes the other's
/// buffers, functions or events. The folder of the disk cache is shared by contexts and by processes. The kernels that
/// the library builds, before they are loaded, are kept once per process.
///
/// # Threads
///
/// Everything here is `Send` and `Sync`: handles, buffers, functions, events and prepared calls may be used by several
/// threads at once, and no call needs a lock of the caller's. A call makes its context current on its thread, and does not
/// restore the one that was current before. What two threads give to one stream runs in the order in which the driver
/// receives it. What they give to two streams may run at the same time: order that by [events](Device::record) if both
/// access the same memory and one of them writes it. Of several threads that need the same kernel at the same time, one
/// makes it, and the others wait for that one.
///
/// ```
/// use colex_device::Device;
///
/// let device = Device::open();
/// let buffer = device.upload(&[1u32, 2, 3, 4])?;
/// let sums: Vec<Result<u32, colex_device::Error>> = std::thread::scope(|scope| {
///     let sum = |part: usize| {
///         let device = device.on_new_stream()?; // a stream of the thread's own
///         let (half, copy) = (buffer.slice(2 * part..2 * part + 2)?, device.zeros::<u32>(2)?);
///         copy.copy_from(&half)?;
///         Ok(copy.download()?.iter().sum())
///     };
///     let threads: Vec<_> = (0..2).map(|part| scope.spawn(move || sum(part))).collect();
///     threads.into_iter().map(|thread| thread.join().expect("nothing panics")).collect()
/// });
/// assert_eq!(sums, [Ok(3), Ok(7)]);
/// # Ok::<(), colex_device::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Device(pub(crate) Kind);

/// The two kinds of device.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// A GPU.
    Gpu(Gpu),
    /// The simulator, on the host.
    Simulator(Arc<Simulated>),
}

/// A simulated device.
#[derive(Debug)]
pub(crate) struct Simulated {
    arch: Arch,
    options: SimOptions,
    memory: Mutex<Memory>,
    held: Held,
}

/// The caches of a device, shared by all its handles: loaded kernels, and the extensions of libraries.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) loads: LoadedKernels,
    extensions: RwLock<Vec<ExtensionSlot>>,
}

/// A library's cache for a device, shared by all handles to the device and kept until the last of them is dropped. It holds no handle to the
/// device, nor a [`Buffer`] or a [`Function`](crate::Function), which have one: the device would never end. It may hold a
/// [`KeptBuffer`](crate::KeptBuffer) and a [`LoadedKernel`](crate::LoadedKernel).
pub trait Extension: Any + Debug + Default + Send + Sync {
    /// Drops everything that no caller still holds.
    fn clear(&self);
}

/// One library's extension, with the function that clears it.
#[derive(Clone, Debug)]
struct ExtensionSlot {
    value: Arc<dyn Any + Send + Sync>,
    clear: fn(&(dyn Any + Send + Sync)),
}

impl Held {
    /// Drops everything that no caller still holds.
    pub(crate) fn clear(&self) {
        let extensions = self.extensions.read();
        // What an extension drops may ask for an extension: no lock is held.
        let slots = extensions.unwrap_or_else(PoisonError::into_inner).clone();
        for slot in &slots {
            (slot.clear)(slot.value.as_ref());
        }
        self.loads.clear();
    }

    /// Drops the extensions, with what they keep when they are cleared.
    pub(crate) fn end(&self) {
        let extensions = self.extensions.write();
        let ended = std::mem::take(&mut *extensions.unwrap_or_else(PoisonError::into_inner));
        drop(ended);
    }

    /// Returns the extension of a type, if a library has asked for it.
    fn extension<T: Extension>(&self) -> Option<Arc<T>> {
        let extensions = self.extensions.read();
        let extensions = extensions.unwrap_or_else(PoisonError::into_inner);
        let mut values = extensions.iter().map(|slot| &slot.value);
        let value = values.find(|value| value.is::<T>())?;
        Arc::clone(value).downcast().ok()
    }
}

impl Simulated {
    /// The options of launches.
    pub(crate) fn options(&self) -> &SimOptions {
        &self.options
    }

    /// Locks the memory.
    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Device {
    /// Returns the first GPU or, if it cannot be used, the simulator of an `sm_90a`. [`gpu`](Device::gpu) returns the
    /// reason why it cannot be used.
    ///
    /// ```
    /// # use colex_device::Device;
    /// let device = Device::open();
    /// assert_eq!(device.is_simulator(), Device::gpu(0).is_err());
    /// ```
    pub fn open() -> Device {
        Device::gpu(0).unwrap_or_else(|_| Device::simulator(Arch::Sm90a))
    }

    /// Returns the GPU with the ordinal `ordinal`, counted from 0. While a handle to it lives, every call returns a
    /// handle to the same device.
    ///
    /// ```
    /// use colex_device::Device;
    ///
    /// match Device::gpu(0) {
    ///     Ok(device) => println!("{}, {}", device.name(), device.arch()),
    ///     Err(why) => println!("no GPU: {why}"),
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if there is no driver or it is too old, if there is no device with this ordinal or it is too
    /// old, or if a kernel of this process has broken its context. Returns the driver's error if another call fails.
    pub fn gpu(ordinal: usize) -> Result<Device, Error> {
        Ok(Device(Kind::Gpu(Gpu::open(ordinal)?)))
    }

    /// Returns a simulated device of an architecture, with its own memory.
    ///
    /// ```
    /// use colex_atom::{Arch, TensorMap};
    /// use colex_device::Device;
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// assert_eq!(device.name(), "the simulator of sm_80");
    /// ```
    pub fn simulator(arch: Arch) -> Device {
        Device::simulator_with(arch, SimOptions::default())
    }

    /// Returns a simulated device whose launches run with these options.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_device::Device;
    /// use colex_sim::SimOptions;
    ///
    /// let other_order = Device::simulator_with(Arch::Sm90a, SimOptions::default().seed(7));
    /// assert!(other_order.is_simulator());
    /// ```
    pub fn simulator_with(arch: Arch, options: SimOptions) -> Device {
        Device(Kind::Simulator(Arc::new(Simulated {
            arch,
            options,
            memory: Mutex::default(),
            held: Held::default(),
        })))
    }

    /// Returns whether the device is the simulator.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// assert!(device.is_simulator());
    /// ```
    pub fn is_simulator(&self) -> bool {
        matches!(self.0, Kind::Simulator(_))
    }

    /// Returns the name of the device, as messages use it.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// assert_eq!(device.name(), "the simulator of sm_90a");
    /// ```
    pub fn name(&self) -> String {
        match &self.0 {
            Kind::Gpu(gpu) => gpu.name().to_string(),
            Kind::Simulator(simulated) => format!("the simulator of {}", simulated.arch),
        }
    }

    /// Returns the architecture for which its kernels are printed.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// assert_eq!(device.arch(), Arch::Sm90a);
    /// ```
    pub fn arch(&self) -> Arch {
        match &self.0 {
            Kind::Gpu(gpu) => gpu.arch(),
            Kind::Simulator(simulated) => simulated.arch,
        }
    }

    /// Returns the limits of a launch.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// assert_eq!(device.limits().shared, 232_448); // bytes of shared memory per block
    /// ```
    pub fn limits(&self) -> Limits {
        match &self.0 {
            Kind::Gpu(gpu) => gpu.limits(),
            Kind::Simulator(simulated) => Limits::of(simulated.arch),
        }
    }

    /// Returns how fast the device is: for a simulator, what [`Rates::of`] says of its architecture.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// assert_eq!(device.rates().bus, 6144); // bits of an H200's memory at each edge of its clock
    /// ```
    pub fn rates(&self) -> Rates {
        match &self.0 {
            Kind::Gpu(gpu) => gpu.rates(),
            Kind::Simulator(simulated) => Rates::of(simulated.arch),
        }
    }

    /// Returns whether both are handles to the same device: for GPUs, to the same context, however each was made.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// assert!(device.is_same_device(&device.clone()));
    /// assert!(!device.is_same_device(&Device::simulator(Arch::Sm90a)));
    /// ```
    pub fn is_same_device(&self, other: &Device) -> bool {
        match (&self.0, &other.0) {
            (Kind::Simulator(a), Kind::Simulator(b)) => Arc::ptr_eq(a, b),
            (Kind::Gpu(a), Kind::Gpu(b)) => a.is_same_context(b),
            _ => false,
        }
    }

    /// Checks that `holder`, the device of an object named `what`, is this device.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// let other = Device::simulator(Arch::Sm80);
    /// assert!(device.check_same("the buffer", &device).is_ok());
    /// assert!(device.check_same("the buffer", &other).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error that names `what` and both devices if they differ.
    pub fn check_same(&self, what: &'static str, holder: &Device) -> Result<(), Error> {
        if self.is_same_device(holder) {
            return Ok(());
        }
        Err(ErrorKind::OtherDevice {
            what,
            device: self.name(),
            holder: holder.name(),
        }
        .into())
    }

    /// Returns a number that only handles to the same device share while any of them lives.
    pub(crate) fn id(&self) -> usize {
        match &self.0 {
            Kind::Gpu(gpu) => gpu.id(),
            Kind::Simulator(simulated) => Arc::as_ptr(simulated).addr(),
        }
    }

    /// Returns the version of CUDA that the driver implements, 13000 for 13.0, if it is a GPU.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// assert_eq!(device.driver_version(), None); // the simulator needs no driver
    /// ```
    pub fn driver_version(&self) -> Option<i32> {
        match &self.0 {
            Kind::Gpu(gpu) => Some(gpu.driver_version()),
            Kind::Simulator(_) => None,
        }
    }

    /// Returns the disk cache of machine code, if the device is a GPU.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// assert!(device.cache().is_none()); // the simulator assembles nothing
    /// ```
    pub fn cache(&self) -> Option<Cache> {
        match &self.0 {
            Kind::Gpu(gpu) => Some(gpu.cache()),
            Kind::Simulator(_) => None,
        }
    }

    /// Replaces the disk cache of machine code, for all handles to the device. The simulator has no machine code.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// use colex_device::Cache;
    ///
    /// device.set_cache(Cache::off()); // machine code is assembled anew by every process
    /// ```
    pub fn set_cache(&self, cache: Cache) {
        if let Kind::Gpu(gpu) = &self.0 {
            gpu.set_cache(cache);
        }
    }

    /// Prints kernels with the source lines of the builder's calls from now on, or without them, for all handles to the
    /// device: profilers, `compute-sanitizer` and debuggers then show the author's lines. Kernels that are loaded already
    /// are loaded again. `COLEX_SOURCE_LINES=1` in the environment sets it when the device is opened. The simulator always
    /// names the lines.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_device::Device;
    /// # let device = Device::simulator(Arch::Sm90a);
    /// device.set_source_lines(true);
    /// ```
    pub fn set_source_lines(&self, lines: bool) {
        if let Kind::Gpu(gpu) = &self.0
            && gpu.has_source_lines() != lines
        {
            gpu.set_source_lines(lines);
            self.held().clear();
        }
    }

    /// Waits until all enqueued work is done. What kernels have printed since comes out before the call returns.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// device.synchronize()?;
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if a kernel trapped or made an invalid access.
    pub fn synchronize(&self) -> Result<(), Error> {
        match &self.0 {
            Kind::Gpu(gpu) => gpu.synchronize(),
            Kind::Simulator(_) => Ok(()),
        }
    }

    /// Waits until all enqueued work is done, for at most `within`. The work goes on after an error: what it uses must
    /// live on, and [`Flags::release`](crate::Flags::release) ends kernels and streams that wait for a flag.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// use std::time::Duration;
    ///
    /// device.synchronize_within(Duration::from_secs(1))?;
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for which [`is_deadline`](Error::is_deadline) holds once the time is over, and the errors of
    /// [`synchronize`](Device::synchronize).
    pub fn synchronize_within(&self, within: Duration) -> Result<(), Error> {
        match &self.0 {
            Kind::Gpu(gpu) => gpu.synchronize_within(within, "the work of the stream"),
            Kind::Simulator(_) => Ok(()),
        }
    }

    /// Returns whether the work given to this handle becomes part of a CUDA graph instead of running, because a program
    /// captures its stream.
    ///
    /// During a capture, what may break it off is refused by an error: an allocation, the load of a kernel, a wait, a
    /// copy between host and device. A load is one of them because it may have to assemble, to allocate and to wait.
    /// Everything else may be captured: launches, copies within the device, fills, and library calls that were prepared.
    /// Buffers and kernels may be dropped: their memory is freed, and the capture goes on. The memory of a
    /// [peer](Buffer::as_peer_of), or of [another process](Device::open_exported), is kept until this process ends if the
    /// last handle to it is dropped during a capture, since the drop would have to wait for the device. A graph keeps the
    /// addresses that it was captured with. The memory, the loaded kernels and the prepared calls must live as long as it
    /// may run.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// assert!(!device.is_capturing()?); // the simulator runs every launch at once
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the driver's error.
    pub fn is_capturing(&self) -> Result<bool, Error> {
        match &self.0 {
            Kind::Gpu(gpu) => gpu.is_capturing(),
            Kind::Simulator(_) => Ok(false),
        }
    }

    /// Returns a handle to the same device with a new stream, whose work may run concurrently with that of this handle.
    /// On the simulator, where every call runs to completion, it is another handle.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// let beside = device.on_new_stream()?;
    /// assert!(beside.is_same_device(&device));
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the driver's error.
    pub fn on_new_stream(&self) -> Result<Device, Error> {
        match &self.0 {
            Kind::Gpu(gpu) => Ok(Device(Kind::Gpu(gpu.on_new_stream()?))),
            Kind::Simulator(_) => Ok(self.clone()),
        }
    }

    /// Drops the loaded kernels, except those whose functions are still held. The next load reads the disk cache.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// device.clear_module_cache();
    /// ```
    pub fn clear_module_cache(&self) {
        self.held().clear();
    }

    /// Returns the extension of type `T` of this device. The first call creates it with its default value.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// use colex_device::Extension;
    /// use std::sync::Mutex;
    ///
    /// #[derive(Debug, Default)]
    /// struct Launches(Mutex<u32>);
    /// impl Extension for Launches {
    ///     fn clear(&self) {
    ///         *self.0.lock().unwrap() = 0;
    ///     }
    /// }
    /// *device.extension::<Launches>().0.lock().unwrap() += 1;
    /// assert_eq!(*device.extension::<Launches>().0.lock().unwrap(), 1);
    /// device.clear_module_cache();
    /// assert_eq!(*device.extension::<Launches>().0.lock().unwrap(), 0);
    /// ```
    pub fn extension<T: Extension>(&self) -> Arc<T> {
        let held = self.held();
        if let Some(extension) = held.extension::<T>() {
            return extension;
        }
        let mut extensions = held.extensions.write();
        let extensions = extensions
            .as_mut()
            .unwrap_or_else(|poisoned| poisoned.get_mut());
        // Another thread may have added it between the two locks.
        let there = extensions.iter().find(|slot| slot.value.is::<T>());
        if let Some(extension) = there.and_then(|slot| Arc::clone(&slot.value).downcast().ok()) {
            return extension;
        }
        let extension = Arc::new(T::default());
        extensions.push(ExtensionSlot {
            value: Arc::clone(&extension) as Arc<dyn Any + Send + Sync>,
            clear: |value| {
                let extension = value.downcast_ref::<T>();
                extension.expect("a slot holds a value of its type").clear();
            },
        });
        extension
    }

    /// The caches of the device.
    pub(crate) fn held(&self) -> &Held {
        match &self.0 {
            Kind::Gpu(gpu) => gpu.held(),
            Kind::Simulator(simulated) => &simulated.held,
        }
    }

    /// Returns a tensor map bound to the tensor that begins with the first element of a buffer.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # use colex_atom::{Interleave, L2Promotion, OobFill, TensorMap, TmaElement, TmaSwizzle};
    /// // Boxes of 16 by 8 of a row-major tensor of 32 by 64 floats.
    /// let map = TensorMap {
    ///     element: TmaElement::F32,
    ///     dims: vec![64, 32],
    ///     strides: vec![256],
    ///     extents: vec![16, 8],
    ///     element_strides: vec![1, 1],
    ///     im2col: None,
    ///     swizzle: TmaSwizzle::None,
    ///     interleave: Interleave::None,
    ///     l2: L2Promotion::None,
    ///     fill: OobFill::Zero,
    /// };
    /// let device = Device::simulator(Arch::Sm90a);
    /// let buffer = device.zeros::<f32>(64 * 32)?;
    /// assert_eq!(device.tensor_map(&map, &buffer)?.address, buffer.address());
    /// assert!(device.tensor_map(&map, &buffer.slice(64..)?).is_err()); // a row is missing
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the hardware does not take the map, if the buffer is on another device, if the tensor is
    /// longer than the buffer, or if the buffer's elements are not those of the map. Elements of `u8` are bytes of any
    /// type.
    pub fn tensor_map<T: Element>(
        &self,
        map: &TensorMap,
        buffer: &Buffer<T>,
    ) -> Result<TensorMapArgument, Error> {
        map.check()?;
        self.check_same("the buffer", buffer.device())?;
        ArgumentError::of_map(map.element, T::NAME)?;
        let bytes = usize::try_from(map.tensor_bytes())
            .expect("extents and strides that `check` passed are positive");
        if bytes > buffer.bytes() {
            return Err(ErrorKind::Length {
                what: "the buffer's bytes for the tensor of the map",
                expected: bytes,
                found: buffer.bytes(),
            }
            .into());
        }
        self.tensor_map_at(map, buffer.address())
    }

    /// Returns a tensor map bound to the tensor that begins at an address of this device.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # use colex_atom::{Interleave, L2Promotion, OobFill, TensorMap, TmaElement, TmaSwizzle};
    /// # let map = TensorMap {
    /// #     element: TmaElement::F32,
    /// #     dims: vec![64, 32],
    /// #     strides: vec![256],
    /// #     extents: vec![16, 8],
    /// #     element_strides: vec![1, 1],
    /// #     im2col: None,
    /// #     swizzle: TmaSwizzle::None,
    /// #     interleave: Interleave::None,
    /// #     l2: L2Promotion::None,
    /// #     fill: OobFill::Zero,
    /// # };
    /// let device = Device::simulator(Arch::Sm90a);
    /// assert_eq!(device.tensor_map_at(&map, 0x1000)?.address, 0x1000);
    /// assert!(device.tensor_map_at(&map, 0x1004).is_err()); // not a multiple of 16 bytes
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the hardware does not take the map or the address.
    pub fn tensor_map_at(&self, map: &TensorMap, address: u64) -> Result<TensorMapArgument, Error> {
        map.check()?;
        map.check_address(address)?;
        let encoded = match &self.0 {
            Kind::Gpu(gpu) => Some(gpu.encode(map, address)?),
            Kind::Simulator(_) => None,
        };
        Ok(TensorMapArgument {
            map: map.clone(),
            address,
            encoded,
        })
    }

    /// Returns a buffer with a copy of `elements`.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// assert_eq!(device.upload(&[1u32, 2])?.download()?, [1, 2]);
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`uninitialised`](Device::uninitialised).
    pub fn upload<T: Element>(&self, elements: &[T]) -> Result<Buffer<T>, Error> {
        let buffer = self.uninitialised(elements.len())?;
        buffer.write(elements)?;
        Ok(buffer)
    }

    /// Allocates a buffer of `length` zeros.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// assert_eq!(device.zeros::<f32>(3)?.download()?, [0.0; 3]);
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`uninitialised`](Device::uninitialised).
    pub fn zeros<T: Element>(&self, length: usize) -> Result<Buffer<T>, Error> {
        let buffer = self.uninitialised(length)?;
        buffer.fill_bytes(0)?;
        Ok(buffer)
    }

    /// Allocates a buffer of `length` elements whose bits are all set: NaN in every float format, so that a test sees
    /// the elements that a kernel failed to write.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// assert!(device.poisoned::<f32>(3)?.download()?.iter().all(|x| x.is_nan()));
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`uninitialised`](Device::uninitialised).
    pub fn poisoned<T: Element>(&self, length: usize) -> Result<Buffer<T>, Error> {
        let buffer = self.uninitialised(length)?;
        buffer.fill_bytes(0xff)?;
        Ok(buffer)
    }

    /// Allocates a buffer of `length` elements without writing them. The simulator reports a read of an element that
    /// was never written; a GPU returns the old content of the memory.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// let buffer = device.uninitialised::<f32>(3)?;
    /// assert!(buffer.download().is_err()); // the simulator reports the first unwritten byte
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the size in bytes does not fit an address, if the device's memory is full, or if the host
    /// has no memory for a simulated buffer.
    pub fn uninitialised<T: Element>(&self, length: usize) -> Result<Buffer<T>, Error> {
        Buffer::allocate(self, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulator_says_what_it_does_not() {
        let device = Device::simulator(Arch::Sm90a);
        let said = |error: Error| error.to_string();
        let text = ".entry k() { exit; }";
        assert_eq!(
            said(device.load_ptx(text, "k").unwrap_err()),
            "the simulator of sm_90a does not run PTX text: it interprets kernels of `colex_gpu::ir`"
        );
        let timed = device.time(crate::Repeats::default(), |_| Ok(()));
        assert_eq!(
            said(timed.unwrap_err()),
            "the simulator of sm_90a does not take the time: it counts what a kernel does; only a GPU says how long that takes"
        );
        let (start, end) = (device.record().unwrap(), device.record().unwrap());
        assert_eq!(
            said(end.milliseconds_since(&start).unwrap_err()),
            "the simulator does not take the time: it counts what a kernel does, and a GPU's time is measured between two events of one GPU"
        );
        assert_eq!(device.wait_for(&start), Ok(()));
    }

    thread_local! {
        /// The device of the thread that clears.
        static CLEARED: std::cell::RefCell<Option<Device>> = const { std::cell::RefCell::new(None) };
    }

    #[derive(Debug, Default)]
    struct Other(Mutex<u32>);

    impl Extension for Other {
        fn clear(&self) {}
    }

    #[derive(Debug, Default)]
    struct Asking;

    impl Extension for Asking {
        fn clear(&self) {
            let asked =
                CLEARED.with_borrow(|device| device.as_ref().map(Device::extension::<Other>));
            if let Some(other) = asked {
                *other.0.lock().unwrap() += 1;
            }
        }
    }

    /// What an extension drops when it is cleared may use the device: no lock on the extensions is held.
    #[test]
    fn an_extension_that_is_cleared_may_ask_for_another() {
        let device = Device::simulator(Arch::Sm80);
        device.extension::<Asking>();
        CLEARED.set(Some(device.clone()));
        device.clear_module_cache();
        CLEARED.set(None);
        assert_eq!(*device.extension::<Other>().0.lock().unwrap(), 1);
    }

    #[test]
    fn kernels_for_another_architecture_are_refused() {
        let kernel = colex_ir::KernelBuilder::new("k", Arch::Sm90a).finish();
        let error = Device::simulator(Arch::Sm80).load(&kernel).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`k` is built for sm_90a, which does not run on the simulator of sm_80 (sm_80): build it for that"
        );
    }
}
