//! The probe: whether there is a driver, whether it is new enough, and whether it sees a device.

pub(super) mod api;
pub(super) mod library;
pub(super) mod sys;

use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

use libloading::Library;

use crate::error::{Error, ErrorKind};
use api::{Api, StatusCode};

/// The oldest version of CUDA whose driver has tensor maps and launches with clusters.
const OLDEST: i32 = 12000;

/// A driver that answered.
pub(super) struct Driver {
    /// Its functions.
    pub(super) api: Api,
    /// The version of CUDA it implements: 13000 for 13.0.
    pub(super) version: i32,
}

/// Codes after which a context does nothing more (`cuda.h`: "this leaves the process in an inconsistent state").
const STICKY: [StatusCode; 14] = [
    214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 226,
];

/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub(super) const OUT_OF_MEMORY: StatusCode = 2;

/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: StatusCode = 100;

/// The driver, probed once a process.
///
/// # Errors
///
/// Returns an error if there is no driver, if it is too old or does not start, or if it sees no device.
pub(super) fn driver() -> Result<&'static Driver, Error> {
    static DRIVER: OnceLock<Result<Driver, Error>> = OnceLock::new();
    DRIVER.get_or_init(probe).as_ref().map_err(Error::clone)
}

fn probe() -> Result<Driver, Error> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    // SAFETY: loading the driver's library runs its initialisers; so does every program that uses CUDA.
    let library = LIBRARY.get_or_init(|| unsafe { library::open(library::DRIVER) });
    let library = library.as_ref().ok_or(ErrorKind::NoDriver)?;
    let version = version(library)?;
    if version < OLDEST {
        return Err(ErrorKind::DriverTooOld {
            version,
            needed: OLDEST,
            missing: None,
        }
        .into());
    }
    let api = Api::load(library).map_err(|symbol| ErrorKind::DriverTooOld {
        version,
        needed: OLDEST,
        missing: Some(symbol),
    })?;
    let driver = Driver { api, version };
    // SAFETY: the function takes flags, of which there are none.
    match unsafe { (driver.api.init)(0) } {
        NO_DEVICE => Err(ErrorKind::NoDevice.into()),
        code => driver.check("cuInit", code).map(|()| driver),
    }
}

/// The version that the library says, before anything else is looked up.
fn version(library: &Library) -> Result<i32, Error> {
    let mut version = 0;
    // SAFETY: the symbol's type is that of `cuda.h` since CUDA 2.2.
    let found = unsafe {
        let symbol =
            library.get::<unsafe extern "C" fn(*mut c_int) -> StatusCode>(b"cuDriverGetVersion\0");
        symbol.map(|ask| ask(&mut version))
    };
    match found {
        Ok(0) => Ok(version),
        _ => Err(ErrorKind::DriverTooOld {
            version: 0,
            needed: OLDEST,
            missing: Some("cuDriverGetVersion"),
        }
        .into()),
    }
}

impl Driver {
    /// A code as a result.
    pub(super) fn check(&self, call: &'static str, code: StatusCode) -> Result<(), Error> {
        match code {
            0 => Ok(()),
            _ => Err(ErrorKind::Driver {
                call,
                code,
                name: self.word(self.api.get_error_name, code),
                text: self.word(self.api.get_error_string, code),
            }
            .into()),
        }
    }

    /// Whether no context survives this code.
    pub(super) fn is_sticky(code: StatusCode) -> bool {
        STICKY.contains(&code)
    }

    /// The driver's name and description of a code.
    fn word(
        &self,
        ask: unsafe extern "C" fn(StatusCode, *mut *const c_char) -> StatusCode,
        code: StatusCode,
    ) -> String {
        let mut text: *const c_char = std::ptr::null();
        // SAFETY: both functions store the address of a static string, or null for a code they do not know.
        let known = unsafe { ask(code, &mut text) } == 0 && !text.is_null();
        if !known {
            return format!("code {code}");
        }
        // SAFETY: not null, and static.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_string_lossy().into_owned()
    }
}
