//! Modules on the device, and the functions in them.

use std::ffi::{c_int, c_uint};
use std::sync::Arc;
use std::time::Instant;

use super::api::Handle;
use super::gpu::Gpu;
use super::identity::ContextIdentity;
use super::jit::{Cubin, sets_registers};
use super::sys::FunctionAttribute as Attribute;
use crate::cache::{Entry, Key};
use crate::error::{Error, ErrorKind};
use crate::function::{Origin, Resources};
use crate::signature;

/// Machine code on a device; unloaded when the last function in it and the device's list are gone.
pub(crate) struct Module {
    context: ContextIdentity,
    handle: Handle,
    log: String,
    origin: Origin,
}

// SAFETY: a handle may be used from any thread; every call makes its context current first.
unsafe impl Send for Module {}
// SAFETY: as above; nothing in it changes.
unsafe impl Sync for Module {}

impl Drop for Module {
    fn drop(&mut self) {
        self.context.unload(self.handle);
    }
}

/// A function on a device.
pub(crate) struct Loaded {
    module: Arc<Module>,
    pub(super) handle: Handle,
    pub(crate) resources: Resources,
}

// SAFETY: as for `Module`.
unsafe impl Send for Loaded {}
// SAFETY: as for `Module`; the driver's functions on functions may run at the same time, and nothing in it changes.
unsafe impl Sync for Loaded {}

impl Loaded {
    /// The log of the assembler.
    pub(crate) fn log(&self) -> &str {
        &self.module.log
    }

    /// The module, for other functions in it.
    pub(crate) fn module(&self) -> Arc<Module> {
        self.module.clone()
    }

    /// Where the code came from.
    pub(crate) fn origin(&self) -> &Origin {
        &self.module.origin
    }
}

impl Gpu {
    /// The function of that name in a module. It may have all the dynamic shared memory that a block of the device has:
    /// beyond 48 KiB that must be asked for, once.
    pub(crate) fn entry_of(&self, module: Arc<Module>, entry: &str) -> Result<Loaded, Error> {
        let handle = self.entry(module.handle, entry)?;
        let attribute = |which| self.attribute(handle, which);
        let resources = Resources {
            registers: attribute(Attribute::Registers)?,
            local_bytes: attribute(Attribute::LocalBytes)?,
            static_shared: attribute(Attribute::SharedBytes)?,
            threads: attribute(Attribute::MaxThreadsPerBlock)?,
        };
        let most = self.limits().shared.saturating_sub(resources.static_shared);
        if most > 48 << 10 {
            self.call("cuFuncSetAttribute", |api| {
                let which = Attribute::MaxDynamicSharedBytes as c_uint;
                // SAFETY: the function lives.
                unsafe { (api.func_set_attribute)(handle, which, most as c_int) }
            })?;
        }
        Ok(Loaded {
            module,
            handle,
            resources,
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

    /// The module of a text, assembled or taken from the disk.
    ///
    /// # Errors
    ///
    /// Returns an error if the driver does not know the text's version of PTX, and with the log if it refuses the text.
    pub(crate) fn module(&self, ptx: &str) -> Result<Arc<Module>, Error> {
        self.check_version(ptx)?;
        if sets_registers(ptx) {
            let started = Instant::now();
            let (handle, log) = self.load_text(ptx)?;
            let took = started.elapsed();
            return Ok(self.made(handle, log, Origin::Whole { took }));
        }
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
            let took = started.elapsed();
            return Ok(self.made(handle, entry.log, Origin::Disk { took }));
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

    /// The module of machine code that the caller brings, whose lengths have been checked.
    pub(crate) fn module_of_image(&self, image: &[u8]) -> Result<Arc<Module>, Error> {
        let started = Instant::now();
        let handle = self.load_code(image)?;
        let loaded = started.elapsed();
        Ok(self.made(handle, String::new(), Origin::Image { loaded }))
    }

    /// Refuses a text of a version that came after the driver. Of a version that is not known the driver decides.
    fn check_version(&self, ptx: &str) -> Result<(), Error> {
        let driver = self.driver_version();
        let known = signature::version(ptx).and_then(|text| Some((text, text.release()?)));
        match known.filter(|(_, brought)| brought.number() > driver) {
            None => Ok(()),
            Some((text, brought)) => Err(ErrorKind::PtxTooNew {
                text,
                brought,
                driver,
            }
            .into()),
        }
    }

    fn made(&self, handle: Handle, log: String, origin: Origin) -> Arc<Module> {
        Arc::new(Module {
            context: self.identity(),
            handle,
            log,
            origin,
        })
    }
}
