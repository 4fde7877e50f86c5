//! A GPU: a context, a stream in it, and what all handles to it share.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use colex_atom::Arch;
use cudarc::driver::{CudaContext, CudaStream, sys};
use sys::CUdevice_attribute as Attribute;

use super::api::{Api, Code};
use super::driver::{Driver, driver};
use super::module::Module;
use crate::cache::Cache;
use crate::error::Error;
use crate::launch::Limits;

/// A handle to a GPU and to one of its streams.
#[derive(Clone)]
pub(crate) struct Gpu {
    pub(super) shared: Arc<Shared>,
    pub(super) stream: Arc<CudaStream>,
}

/// What all handles to a GPU share.
pub(super) struct Shared {
    pub(super) driver: &'static Driver,
    pub(super) context: Arc<CudaContext>,
    pub(super) name: String,
    pub(super) arch: Arch,
    pub(super) limits: Limits,
    pub(super) cache: Mutex<Cache>,
    /// Modules by the text they were made from.
    pub(super) modules: Mutex<HashMap<String, Arc<Module>>>,
    /// What happened to the context, once it is of no more use.
    lost: OnceLock<String>,
}

/// A GPU that was opened by ordinal, for as long as handles to it live.
struct Opened {
    ordinal: usize,
    shared: Weak<Shared>,
    stream: Weak<CudaStream>,
}

impl Opened {
    /// A handle, if there still are others.
    fn handle(&self) -> Option<Gpu> {
        Some(Gpu {
            shared: self.shared.upgrade()?,
            stream: self.stream.upgrade()?,
        })
    }
}

/// The GPUs opened by ordinal, so that each has one context and one set of modules.
static OPEN: Mutex<Vec<Opened>> = Mutex::new(Vec::new());

/// A lock's content, whatever another thread did while it held the lock.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Gpu {
    /// The GPU of that ordinal; the same one while any handle to it lives.
    pub(crate) fn open(ordinal: usize) -> Result<Gpu, Error> {
        let driver = driver()?;
        let count = device_count(driver)?;
        if ordinal >= count {
            return Err(Error::NoSuchDevice { ordinal, count });
        }
        let mut open = locked(&OPEN);
        let held = open.iter().find(|opened| opened.ordinal == ordinal);
        if let Some(gpu) = held.and_then(Opened::handle) {
            return gpu.alive().map(|()| gpu);
        }
        let context = CudaContext::new(ordinal)
            .map_err(|e| broken(driver, ordinal, "cuDevicePrimaryCtxRetain", e.0 as Code))?;
        let stream = context
            .new_stream()
            .map_err(|e| broken(driver, ordinal, "cuStreamCreate", e.0 as Code))?;
        let gpu = Gpu::of(context, stream)?;
        open.retain(|opened| opened.ordinal != ordinal);
        open.push(Opened {
            ordinal,
            shared: Arc::downgrade(&gpu.shared),
            stream: Arc::downgrade(&gpu.stream),
        });
        Ok(gpu)
    }

    /// A handle to a context and a stream that are there already.
    pub(super) fn of(context: Arc<CudaContext>, stream: Arc<CudaStream>) -> Result<Gpu, Error> {
        let driver = driver()?;
        let device = context.cu_device();
        let name = device_name(driver, device)?;
        let attribute = |which: Attribute| device_attribute(driver, device, which);
        let capability = (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        let arch = arch_of(capability).ok_or_else(|| Error::DeviceTooOld {
            name: name.clone(),
            capability,
        })?;
        let shared = Arc::new(Shared {
            driver,
            context,
            name,
            arch,
            limits: limits(attribute)?,
            cache: Mutex::new(Cache::from_environment()),
            modules: Mutex::default(),
            lost: OnceLock::new(),
        });
        let gpu = Gpu { shared, stream };
        gpu.call("cuCtxSynchronize", |api| {
            // SAFETY: takes nothing; the context is current.
            unsafe { (api.ctx_synchronize)() }
        })?;
        Ok(gpu)
    }

    /// The device's own name.
    pub(crate) fn name(&self) -> &str {
        &self.shared.name
    }

    /// The newest architecture whose code it runs.
    pub(crate) fn arch(&self) -> Arch {
        self.shared.arch
    }

    /// What a launch may ask of it.
    pub(crate) fn limits(&self) -> Limits {
        self.shared.limits
    }

    /// The driver's version of CUDA.
    pub(crate) fn driver_version(&self) -> i32 {
        self.shared.driver.version
    }

    /// Whether both are the same GPU through the same context.
    pub(crate) fn is(&self, other: &Gpu) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// The cache of assembled modules that it uses.
    pub(crate) fn cache(&self) -> Cache {
        locked(&self.shared.cache).clone()
    }

    /// Uses another cache from now on.
    pub(crate) fn set_cache(&self, cache: Cache) {
        *locked(&self.shared.cache) = cache;
    }

    /// Waits for the stream.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        self.call("cuStreamSynchronize", |api| {
            // SAFETY: the stream lives as long as this handle.
            unsafe { (api.stream_synchronize)(self.stream.cu_stream()) }
        })
    }

    /// The same GPU through a stream of its own.
    pub(crate) fn on_new_stream(&self) -> Result<Gpu, Error> {
        self.alive()?;
        let made = self.shared.context.new_stream();
        let stream = made.map_err(|e| self.failed("cuStreamCreate", e.0 as Code))?;
        Ok(Gpu {
            shared: self.shared.clone(),
            stream,
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
        ask: impl FnOnce(&Api) -> Code,
    ) -> Result<(), Error> {
        self.alive()?;
        let api = &self.shared.driver.api;
        // SAFETY: the context lives as long as `shared`.
        let current = unsafe { (api.ctx_set_current)(self.shared.context.cu_ctx()) };
        if current != 0 {
            return Err(self.failed("cuCtxSetCurrent", current));
        }
        match ask(api) {
            0 => Ok(()),
            code => Err(self.failed(name, code)),
        }
    }

    /// The error of a code, remembered if the context does not survive it.
    pub(super) fn failed(&self, call: &'static str, code: Code) -> Error {
        let error = refused(self.shared.driver, call, code);
        match (Driver::is_sticky(code), &error) {
            (true, Error::Driver { name, text, .. }) => {
                let cause = self.shared.lost.get_or_init(|| format!("{name}, {text}"));
                Error::ContextLost {
                    device: self.shared.name.clone(),
                    cause: cause.clone(),
                }
            }
            _ => error,
        }
    }

    /// Whether the context is still of use.
    fn alive(&self) -> Result<(), Error> {
        match self.shared.lost.get() {
            None => Ok(()),
            Some(cause) => Err(Error::ContextLost {
                device: self.shared.name.clone(),
                cause: cause.clone(),
            }),
        }
    }
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gpu({}, {})", self.shared.name, self.shared.arch)
    }
}

/// The error of a code that is not 0.
fn refused(driver: &Driver, call: &'static str, code: Code) -> Error {
    driver
        .check(call, code)
        .expect_err("the code is not that of success")
}

/// The same before there is a context: if a kernel broke an earlier one, that is why there is none.
fn broken(driver: &Driver, ordinal: usize, call: &'static str, code: Code) -> Error {
    let device = c_int::try_from(ordinal).map_err(|_| ());
    let device = device.and_then(|device| device_name(driver, device).map_err(|_| ()));
    match refused(driver, call, code) {
        Error::Driver { name, text, .. } if Driver::is_sticky(code) => Error::ContextLost {
            device: device.unwrap_or_else(|()| format!("device {ordinal}")),
            cause: format!("{name}, {text}"),
        },
        error => error,
    }
}

/// How many devices the driver shows.
pub(crate) fn device_count(driver: &Driver) -> Result<usize, Error> {
    let mut count = 0;
    // SAFETY: stores one integer.
    driver.check("cuDeviceGetCount", unsafe {
        (driver.api.device_get_count)(&mut count)
    })?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// The device's name.
fn device_name(driver: &Driver, device: c_int) -> Result<String, Error> {
    let mut name = [0 as c_char; 256];
    // SAFETY: stores at most so many characters, the last of them NUL.
    let code = unsafe { (driver.api.device_get_name)(name.as_mut_ptr(), 255, device) };
    driver.check("cuDeviceGetName", code)?;
    // SAFETY: the last character is NUL, whatever the driver stored before it.
    Ok(unsafe { CStr::from_ptr(name.as_ptr()) }
        .to_string_lossy()
        .into_owned())
}

/// One number about a device.
fn device_attribute(driver: &Driver, device: c_int, which: Attribute) -> Result<u32, Error> {
    let mut value = 0;
    // SAFETY: stores one integer.
    let code = unsafe { (driver.api.device_get_attribute)(&mut value, which as c_uint, device) };
    driver.check("cuDeviceGetAttribute", code)?;
    Ok(u32::try_from(value).unwrap_or(0))
}

/// What the device allows a launch.
fn limits(attribute: impl Fn(Attribute) -> Result<u32, Error>) -> Result<Limits, Error> {
    use Attribute::*;
    Ok(Limits {
        threads: attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        block: [
            attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
            attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
            attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
        ],
        grid: [
            attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
            attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
            attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
        ],
        cluster: match attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH)? {
            0 => 1,
            _ => 8,
        },
        shared: attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        multiprocessors: attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
    })
}

/// The newest architecture of the tables whose code runs on a device of that compute capability.
fn arch_of((major, minor): (u32, u32)) -> Option<Arch> {
    Some(match (major, minor) {
        (10, 0) => Arch::Sm100a,
        (12, 0) => Arch::Sm120a,
        (9, 0) => Arch::Sm90a,
        (9.., _) => Arch::Sm90,
        (8, 9..) => Arch::Sm89,
        (8, _) => Arch::Sm80,
        (7, 5..) => Arch::Sm75,
        (7, _) => Arch::Sm70,
        (6, 1..) => Arch::Sm61,
        (5 | 6, _) => Arch::Sm50,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_architecture_that_runs() {
        let named = |capability| arch_of(capability).map(Arch::target);
        assert_eq!(named((9, 0)), Some("sm_90a"));
        assert_eq!(named((8, 6)), Some("sm_80"));
        assert_eq!(named((10, 3)), Some("sm_90"), "sm_100a runs on 10.0 only");
        assert_eq!(named((12, 1)), Some("sm_90"));
        assert_eq!(named((3, 7)), None);
    }
}
