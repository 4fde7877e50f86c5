//! Modules on the device, and the functions in them.

use std::ffi::{c_int, c_uint};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use cudarc::driver::sys::CUfunction_attribute_enum as Attribute;

use super::api::Handle;
use super::gpu::{Gpu, locked};
use super::jit::Cubin;
use crate::cache::{Entry, Key};
use crate::error::Error;
use crate::function::{Origin, Resources};

/// Machine code on a device; unloaded when the last function in it and the device's list are gone.
pub(super) struct Module {
    gpu: WeakGpu,
    handle: Handle,
    log: String,
    origin: Origin,
}

/// What a module needs of its GPU to be unloaded, without keeping alive the list that holds the module.
struct WeakGpu {
    driver: &'static super::driver::Driver,
    context: Arc<cudarc::driver::CudaContext>,
}

// SAFETY: a handle may be used from any thread; every call makes its context current first.
unsafe impl Send for Module {}
// SAFETY: as above; nothing in it changes.
unsafe impl Sync for Module {}

impl Drop for Module {
    fn drop(&mut self) {
        let api = &self.gpu.driver.api;
        // SAFETY: the context lives as long as this module, whose handle has no other owner. Neither call can fail in
        // a way that matters: a context that is lost has no modules.
        unsafe {
            (api.ctx_set_current)(self.gpu.context.cu_ctx());
            (api.module_unload)(self.handle);
        }
    }
}

/// A function on a device.
pub(crate) struct Loaded {
    module: Arc<Module>,
    pub(super) handle: Handle,
    pub(crate) resources: Resources,
    /// The dynamic shared memory that the driver was told to expect, in bytes.
    dynamic: AtomicU32,
}

// SAFETY: as for `Module`.
unsafe impl Send for Loaded {}
// SAFETY: as for `Module`; the driver's functions on functions may run at the same time.
unsafe impl Sync for Loaded {}

impl Loaded {
    /// What the assembler said.
    pub(crate) fn log(&self) -> &str {
        &self.module.log
    }

    /// Where the code came from.
    pub(crate) fn origin(&self) -> &Origin {
        &self.module.origin
    }

    /// Makes room for so many bytes of dynamic shared memory: beyond 48 KiB it must be asked for.
    pub(super) fn expect_dynamic(&self, gpu: &Gpu, bytes: u32) -> Result<(), Error> {
        if bytes <= 48 << 10 || bytes <= self.dynamic.load(Ordering::Relaxed) {
            return Ok(());
        }
        gpu.call("cuFuncSetAttribute", |api| {
            let which = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as c_uint;
            // SAFETY: the function lives.
            unsafe { (api.func_set_attribute)(self.handle, which, bytes as c_int) }
        })?;
        self.dynamic.fetch_max(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Gpu {
    /// The function of that name in a text, assembled, taken from the disk, or loaded already.
    pub(crate) fn function(&self, ptx: &str, entry: &str) -> Result<Loaded, Error> {
        let module = self.module(ptx)?;
        let handle = self.entry(module.handle, entry)?;
        let attribute = |which| self.attribute(handle, which);
        let resources = Resources {
            registers: attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: attribute(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            static_shared: attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            threads: attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        };
        Ok(Loaded {
            module,
            handle,
            resources,
            dynamic: AtomicU32::new(0),
        })
    }

    fn attribute(&self, function: Handle, which: Attribute) -> Result<u32, Error> {
        let mut value = 0;
        self.call("cuFuncGetAttribute", |api| {
            // SAFETY: stores one integer; the function lives.
            unsafe { (api.func_get_attribute)(&mut value, which as c_uint, function) }
        })?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// The module of a text. Two threads that ask at once may both make it; one of the two stays.
    fn module(&self, ptx: &str) -> Result<Arc<Module>, Error> {
        if let Some(module) = locked(&self.shared.modules).get(ptx) {
            return Ok(module.clone());
        }
        let module = Arc::new(self.make(ptx)?);
        let mut modules = locked(&self.shared.modules);
        Ok(modules.entry(ptx.to_string()).or_insert(module).clone())
    }

    /// Forgets the modules; those whose functions are still held stay loaded until then.
    pub(crate) fn forget_modules(&self) {
        let modules = std::mem::take(&mut *locked(&self.shared.modules));
        drop(modules);
    }

    fn make(&self, ptx: &str) -> Result<Module, Error> {
        let key = Key {
            ptx,
            device: &format!("{} {}", self.arch(), self.name()),
            driver: self.driver_version(),
        };
        let started = Instant::now();
        // Code that the driver does not take, though its checksum is right, is made again like any other.
        if let Some(entry) = self.cache().find(&key)
            && let Ok(handle) = self.load_code(&entry.code)
        {
            return Ok(self.made(
                handle,
                entry.log,
                Origin::Disk {
                    took: started.elapsed(),
                },
            ));
        }
        let Cubin { bytes, log } = self.assemble(ptx)?;
        let assembled = started.elapsed();
        let handle = self.load_code(&bytes)?;
        let loaded = started.elapsed() - assembled;
        let entry = Entry { code: bytes, log };
        let not_stored = self
            .cache()
            .store(&key, &entry)
            .err()
            .map(|error| error.to_string());
        let origin = Origin::Assembled {
            assembled,
            loaded,
            not_stored,
        };
        Ok(self.made(handle, entry.log, origin))
    }

    fn made(&self, handle: Handle, log: String, origin: Origin) -> Module {
        Module {
            gpu: WeakGpu {
                driver: self.shared.driver,
                context: self.shared.context.clone(),
            },
            handle,
            log,
            origin,
        }
    }
}
