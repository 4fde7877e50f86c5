//! A GPU: a context, a stream in it, and what all handles to the context share.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use colex_atom::Arch;

use super::api::{Api, StatusCode};
use super::context::{ContextUsers, Owner, PrimaryContext, Stream};
use super::driver::{Driver, driver};
use super::sys::{self, DeviceAttribute as Attribute};
use crate::cache::Cache;
use crate::device::{Held, Rates};
use crate::error::{Cause, Error, ErrorKind};
use colex_ir::launch::Limits;

/// A handle to a GPU and to one of its streams.
#[derive(Clone)]
pub(crate) struct Gpu {
    pub(super) shared: Arc<Shared>,
    /// The stream, which keeps its context alive.
    pub(super) stream: Stream,
    /// The state that ends with the last handle, if the context was opened here.
    opened: Option<Arc<OpenedContext>>,
}

/// The state that all handles to a context share, however each was made. It lives as long as its context is in use in
/// this process, and does not keep the context alive.
pub(super) struct Shared {
    pub(super) driver: &'static Driver,
    /// The address of the context. No two contexts that live at one time have the same.
    context: usize,
    /// The context's number, which the driver gives to no other.
    id: u64,
    pub(super) users: Arc<ContextUsers>,
    /// The driver's number of the device.
    pub(super) device: c_int,
    pub(super) name: Arc<str>,
    pub(super) arch: Arch,
    pub(super) limits: Limits,
    rates: Rates,
    pub(super) cache: Mutex<Cache>,
    /// Whether kernels are printed with their source lines.
    lines: AtomicBool,
    pub(super) held: Held,
    /// Whether what is kept stays when no owner is left that was seen here: a caller's context lives on between the
    /// devices that are made of it.
    outlives_owners: bool,
    /// The cause of the loss, once the context is lost.
    lost: OnceLock<Cause>,
}

/// A context that was opened here by its device's ordinal. Its modules are unloaded when the last handle is dropped:
/// others may keep the device's primary context alive for much longer.
struct OpenedContext {
    shared: Arc<Shared>,
    stream: Stream,
    /// Dropped after the modules.
    _context: Arc<PrimaryContext>,
}

impl Drop for OpenedContext {
    fn drop(&mut self) {
        self.shared.held.clear();
        // A graph that another owner's program captured may still read what the caches keep for good.
        if !self.shared.users.has_other_than(&self.stream.owner()) {
            self.shared.held.end();
        }
    }
}

/// A GPU that was opened by ordinal, for as long as handles to it live.
struct Opened {
    ordinal: usize,
    context: Weak<OpenedContext>,
}

impl Opened {
    /// A handle, if there still are others.
    fn handle(&self) -> Option<Gpu> {
        let opened = self.context.upgrade()?;
        Some(Gpu {
            shared: opened.shared.clone(),
            stream: opened.stream.clone(),
            opened: Some(opened),
        })
    }
}

/// The GPUs opened by ordinal, so that each has one context and one stream.
static OPEN: Mutex<Vec<Opened>> = Mutex::new(Vec::new());

/// What is shared of every context in use, so that a device made of it a second time finds what the first has kept.
static CONTEXTS: Mutex<Vec<Arc<Shared>>> = Mutex::new(Vec::new());

/// The number of contexts of callers that are remembered while no device of theirs lives.
const CALLERS_CONTEXTS: usize = 32;

/// A lock's content, also after a panic of the thread that held the lock.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shared {
    /// What is shared of a context, made when the context is seen for the first time. The driver is not asked about a
    /// context that an owner has kept since.
    fn of(owner: &Owner) -> Result<Arc<Shared>, Error> {
        let driver = driver()?;
        let handle = owner.handle();
        let address = handle as usize;
        let mut known = locked(&CONTEXTS);
        let at_address = known.iter().find(|shared| shared.context == address);
        // Where no owner is left that was seen here, the address may have come to mean another context.
        let id = match at_address {
            Some(shared) if shared.users.any().is_some() => shared.id,
            _ => context_id(driver, handle)?,
        };
        if let Some(shared) = at_address.filter(|shared| shared.id == id) {
            shared.users.add(owner);
            return Ok(shared.clone());
        }
        let shared = Arc::new(Shared::new(driver, owner, id)?);
        let gone = |known: &Shared| {
            known.context == address || !known.outlives_owners && known.users.any().is_none()
        };
        let mut unused: Vec<_> = known.extract_if(.., |known| gone(known)).collect();
        let idle = |known: &Arc<Shared>| known.users.any().is_none();
        if known.iter().filter(|known| idle(known)).count() > CALLERS_CONTEXTS {
            unused.extend(
                known
                    .iter()
                    .position(idle)
                    .map(|oldest| known.remove(oldest)),
            );
        }
        known.push(shared.clone());
        drop(known);
        drop(unused);
        Ok(shared)
    }

    fn new(driver: &'static Driver, owner: &Owner, id: u64) -> Result<Shared, Error> {
        let device = device_of(driver, owner.handle())?;
        let name = device_name(driver, device)?;
        let attribute = |which: Attribute| device_attribute(driver, device, which);
        let capability = (
            attribute(Attribute::CapabilityMajor)?,
            attribute(Attribute::CapabilityMinor)?,
        );
        let arch = Arch::of_capability(capability.0, capability.1).ok_or_else(|| {
            ErrorKind::DeviceTooOld {
                name: name.clone(),
                capability,
            }
        })?;
        let users = ContextUsers::default();
        users.add(owner);
        Ok(Shared {
            driver,
            context: owner.handle() as usize,
            id,
            outlives_owners: matches!(owner, Owner::Caller(_)),
            users: Arc::new(users),
            device,
            name: name.into(),
            arch,
            limits: limits(attribute)?,
            rates: rates(attribute)?.or_of(arch),
            cache: Mutex::new(Cache::from_environment()),
            lines: AtomicBool::new(
                std::env::var_os("COLEX_SOURCE_LINES").is_some_and(|set| set == "1"),
            ),
            held: Held::default(),
            lost: OnceLock::new(),
        })
    }
}

impl Gpu {
    /// The GPU of that ordinal; the same one while any handle to it lives.
    pub(crate) fn open(ordinal: usize) -> Result<Gpu, Error> {
        let driver = driver()?;
        let count = device_count(driver)?;
        if ordinal >= count {
            return Err(ErrorKind::NoSuchDevice { ordinal, count }.into());
        }
        let mut open = locked(&OPEN);
        let held = open.iter().find(|opened| opened.ordinal == ordinal);
        if let Some(gpu) = held.and_then(Opened::handle) {
            return gpu.alive().map(|()| gpu);
        }
        let refused = |call| move |code| broken(driver, ordinal, call, code);
        let mut device = 0;
        let asked =
            c_int::try_from(ordinal).expect("an ordinal below the count, which is an `int`");
        // SAFETY: stores one integer.
        driver.check("cuDeviceGet", unsafe {
            (driver.api.device_get)(&mut device, asked)
        })?;
        let context = PrimaryContext::retain(driver, device);
        let context = Arc::new(context.map_err(refused("cuDevicePrimaryCtxRetain"))?);
        let stream = Stream::new(driver, Owner::Primary(context.clone()));
        let mut gpu = Gpu::of(stream.map_err(refused("cuStreamCreate"))?)?;
        let opened = Arc::new(OpenedContext {
            shared: gpu.shared.clone(),
            stream: gpu.stream.clone(),
            _context: context,
        });
        // A context that a kernel broke says so here, not at the first call that follows.
        gpu.call("cuCtxSynchronize", |api| {
            // SAFETY: takes nothing; the context is current.
            unsafe { (api.ctx_synchronize)() }
        })?;
        open.retain(|opened| opened.ordinal != ordinal);
        open.push(Opened {
            ordinal,
            context: Arc::downgrade(&opened),
        });
        gpu.opened = Some(opened);
        Ok(gpu)
    }

    /// A handle to a stream that is there already, and to its context.
    pub(super) fn of(stream: Stream) -> Result<Gpu, Error> {
        let shared = Shared::of(&stream.owner())?;
        let gpu = Gpu {
            shared,
            stream,
            opened: None,
        };
        gpu.alive().map(|()| gpu)
    }

    /// The caches of the device.
    pub(crate) fn held(&self) -> &Held {
        &self.shared.held
    }

    /// The device's own name.
    pub(crate) fn name(&self) -> &str {
        &self.shared.name
    }

    /// The newest architecture whose code it runs.
    pub(crate) fn arch(&self) -> Arch {
        self.shared.arch
    }

    /// The limits of a launch.
    pub(crate) fn limits(&self) -> Limits {
        self.shared.limits
    }

    /// How fast the device is.
    pub(crate) fn rates(&self) -> Rates {
        self.shared.rates
    }

    /// The driver's version of CUDA.
    pub(crate) fn driver_version(&self) -> i32 {
        self.shared.driver.version
    }

    /// Whether both are the same GPU through the same context, of which there is one `Shared`.
    pub(crate) fn is_same_context(&self, other: &Gpu) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns a number that only handles to the same context share.
    pub(crate) fn id(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    /// The cache of assembled modules that it uses.
    pub(crate) fn cache(&self) -> Cache {
        locked(&self.shared.cache).clone()
    }

    /// Uses another cache from now on.
    pub(crate) fn set_cache(&self, cache: Cache) {
        *locked(&self.shared.cache) = cache;
    }

    /// Whether work that is given to the stream becomes part of a graph instead of running.
    pub(crate) fn is_capturing(&self) -> Result<bool, Error> {
        /// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT`: the legacy default stream, while another stream is being captured.
        const IMPLICIT: StatusCode = 906;
        let mut status = 0;
        self.call("cuStreamIsCapturing", |api| {
            // SAFETY: the stream lives; the function stores one number.
            match unsafe { (api.stream_is_capturing)(self.stream.handle(), &mut status) } {
                IMPLICIT => {
                    status = 1;
                    0
                }
                code => code,
            }
        })?;
        Ok(status != 0)
    }

    /// Refuses, while the stream is being captured, what the driver would answer by breaking off the capture.
    pub(crate) fn outside_capture(&self, what: &'static str) -> Result<(), Error> {
        if self.is_capturing()? {
            return Err(ErrorKind::Capturing { what }.into());
        }
        Ok(())
    }

    /// Whether kernels are printed with their source lines.
    pub(crate) fn has_source_lines(&self) -> bool {
        self.shared.lines.load(Ordering::Relaxed)
    }

    /// Prints kernels with or without their source lines from now on.
    pub(crate) fn set_source_lines(&self, lines: bool) {
        self.shared.lines.store(lines, Ordering::Relaxed);
    }

    /// The driver's handle of the stream, as a number.
    pub(crate) fn stream_handle(&self) -> usize {
        self.stream.handle().addr()
    }

    /// The number of the stream, where the driver tells it. The context must be current on this thread.
    pub(crate) fn stream_number(&self) -> Option<u64> {
        self.stream.number(self.shared.driver)
    }

    /// Waits for the stream.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        self.outside_capture("waiting for the stream")?;
        self.call("cuStreamSynchronize", |api| {
            // SAFETY: the stream lives as long as this handle.
            unsafe { (api.stream_synchronize)(self.stream.handle()) }
        })
    }

    /// The same GPU through a stream of its own.
    pub(crate) fn on_new_stream(&self) -> Result<Gpu, Error> {
        self.alive()?;
        let made = self.stream.beside(self.shared.driver);
        let stream = made.map_err(|code| self.failed("cuStreamCreate", code))?;
        Ok(Gpu {
            stream,
            ..self.clone()
        })
    }

    /// The same GPU through a stream of the greatest priority.
    pub(super) fn on_urgent_stream(&self) -> Result<Gpu, Error> {
        let (mut least, mut greatest) = (0, 0);
        self.call("cuCtxGetStreamPriorityRange", |api| {
            // SAFETY: stores two integers.
            unsafe { (api.ctx_get_stream_priority_range)(&mut least, &mut greatest) }
        })?;
        let made = Stream::urgent(self.shared.driver, self.stream.owner(), greatest);
        let stream = made.map_err(|code| self.failed("cuStreamCreateWithPriority", code))?;
        Ok(Gpu {
            stream,
            ..self.clone()
        })
    }

    /// Makes the context current on this thread.
    pub(super) fn bind(&self) -> Result<(), Error> {
        self.call("cuCtxSetCurrent", |_| 0)
    }

    /// Makes the context current on this thread, calls the driver, and judges what it returns.
    pub(super) fn call(
        &self,
        name: &'static str,
        ask: impl FnOnce(&Api) -> StatusCode,
    ) -> Result<(), Error> {
        self.alive()?;
        let api = &self.shared.driver.api;
        // SAFETY: the context lives as long as its stream.
        let current = unsafe { (api.ctx_set_current)(self.stream.context()) };
        if current != 0 {
            return Err(self.failed("cuCtxSetCurrent", current));
        }
        match ask(api) {
            0 => Ok(()),
            code => Err(self.failed(name, code)),
        }
    }

    /// The functions of the driver.
    pub(super) fn api(&self) -> &'static Api {
        &self.shared.driver.api
    }

    /// The error of a code, remembered if the context does not survive it.
    pub(super) fn failed(&self, call: &'static str, code: StatusCode) -> Error {
        let error = refused(self.shared.driver, call, code);
        match (Driver::is_sticky(code), error.kind()) {
            (true, ErrorKind::Driver { name, text, .. }) => {
                let cause = self.shared.lost.get_or_init(|| cause(code, name, text));
                ErrorKind::ContextLost {
                    device: self.shared.name.to_string(),
                    cause: cause.clone(),
                }
                .into()
            }
            _ => error,
        }
    }

    /// Whether the context is still of use.
    pub(super) fn alive(&self) -> Result<(), Error> {
        match self.shared.lost.get() {
            None => Ok(()),
            Some(cause) => Err(ErrorKind::ContextLost {
                device: self.shared.name.to_string(),
                cause: cause.clone(),
            }
            .into()),
        }
    }
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gpu({}, {})", self.shared.name, self.shared.arch)
    }
}

fn cause(code: StatusCode, name: &str, text: &str) -> Cause {
    Cause {
        code,
        text: format!("{name}, {text}"),
    }
}

/// The error of a code that is not 0.
fn refused(driver: &Driver, call: &'static str, code: StatusCode) -> Error {
    driver
        .check(call, code)
        .expect_err("the code is not that of success")
}

/// The same before there is a context: if a kernel broke an earlier one, that is why there is none.
fn broken(driver: &Driver, ordinal: usize, call: &'static str, code: StatusCode) -> Error {
    let device = c_int::try_from(ordinal).map_err(|_| ());
    let device = device.and_then(|device| device_name(driver, device).map_err(|_| ()));
    let error = refused(driver, call, code);
    match error.kind() {
        ErrorKind::Driver { name, text, .. } if Driver::is_sticky(code) => ErrorKind::ContextLost {
            device: device.unwrap_or_else(|()| format!("device {ordinal}")),
            cause: cause(code, name, text),
        }
        .into(),
        _ => error,
    }
}

/// The number of devices that the driver shows.
pub(super) fn device_count(driver: &Driver) -> Result<usize, Error> {
    let mut count = 0;
    // SAFETY: stores one integer.
    driver.check("cuDeviceGetCount", unsafe {
        (driver.api.device_get_count)(&mut count)
    })?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// The device of a context, which becomes current.
fn device_of(driver: &Driver, context: sys::Context) -> Result<c_int, Error> {
    let mut device = 0;
    // SAFETY: the context lives.
    driver.check("cuCtxSetCurrent", unsafe {
        (driver.api.ctx_set_current)(context)
    })?;
    // SAFETY: stores one integer; the context is current.
    driver.check("cuCtxGetDevice", unsafe {
        (driver.api.ctx_get_device)(&mut device)
    })?;
    Ok(device)
}

/// The number that no other context of this process has, alive or gone.
fn context_id(driver: &Driver, context: sys::Context) -> Result<u64, Error> {
    let mut id = 0;
    // SAFETY: the context lives; the function stores one integer.
    driver.check("cuCtxGetId", unsafe {
        (driver.api.ctx_get_id)(context, &mut id)
    })?;
    Ok(id)
}

/// The device's name.
fn device_name(driver: &Driver, device: c_int) -> Result<String, Error> {
    let mut name = [0 as c_char; 256];
    // SAFETY: stores at most 255 characters, the last of them NUL.
    let code = unsafe { (driver.api.device_get_name)(name.as_mut_ptr(), 255, device) };
    driver.check("cuDeviceGetName", code)?;
    // SAFETY: the last character is NUL, after anything that the driver stored.
    Ok(unsafe { CStr::from_ptr(name.as_ptr()) }
        .to_string_lossy()
        .into_owned())
}

/// One number about a device.
pub(super) fn device_attribute(
    driver: &Driver,
    device: c_int,
    which: Attribute,
) -> Result<u32, Error> {
    let mut value = 0;
    // SAFETY: stores one integer.
    let code = unsafe { (driver.api.device_get_attribute)(&mut value, which as c_uint, device) };
    driver.check("cuDeviceGetAttribute", code)?;
    Ok(u32::try_from(value).unwrap_or(0))
}

/// The limits of a launch on the device.
fn limits(attribute: impl Fn(Attribute) -> Result<u32, Error>) -> Result<Limits, Error> {
    use Attribute::*;
    Ok(Limits {
        threads: attribute(MaxThreadsPerBlock)?,
        block: [
            attribute(MaxBlockX)?,
            attribute(MaxBlockY)?,
            attribute(MaxBlockZ)?,
        ],
        grid: [
            attribute(MaxGridX)?,
            attribute(MaxGridY)?,
            attribute(MaxGridZ)?,
        ],
        cluster: match attribute(ClusterLaunch)? {
            0 => 1,
            _ => 8,
        },
        shared: attribute(MaxSharedOptIn)?,
        multiprocessors: attribute(Multiprocessors)?,
        resident_threads: attribute(ResidentThreads)?,
        resident_shared: attribute(ResidentShared)?,
    })
}

/// What the driver tells of the device's rates; zero where it tells nothing.
fn rates(attribute: impl Fn(Attribute) -> Result<u32, Error>) -> Result<Rates, Error> {
    Ok(Rates {
        multiprocessors: attribute(Attribute::Multiprocessors)?,
        clock: attribute(Attribute::Clock)?,
        memory_clock: attribute(Attribute::MemoryClock)?,
        bus: attribute(Attribute::MemoryBus)?,
    })
}
