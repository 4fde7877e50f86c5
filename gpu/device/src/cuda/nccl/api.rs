//! The functions of NCCL, as far as they are used here, by their names in `nccl.h`.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use libloading::Library;

use super::super::{library, sys};
use super::Comm;
use crate::error::{Error, ErrorKind};

/// The oldest version with communicators that do not block (`ncclCommInitRankConfig`).
const OLDEST: c_int = 21400;

/// `ncclResult_t`, as a plain number.
pub(super) type NcclStatus = u32;

/// `ncclInProgress`.
pub(super) const IN_PROGRESS: NcclStatus = 7;

/// The bytes of `ncclUniqueId`.
pub(super) const ID_BYTES: usize = 128;

/// `ncclUniqueId`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct UniqueId(pub(super) [u8; ID_BYTES]);

/// `ncclConfig_t` as version 2.14 had it. The library reads `size` bytes and takes its defaults for every field that came
/// after the version that is named.
#[repr(C)]
pub(super) struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
    _pad: c_int,
}

impl Config {
    /// Returns the settings of a communicator whose calls do not block.
    pub(super) fn without_blocking() -> Config {
        Config {
            size: size_of::<Config>(),
            magic: 0xcafe_beef,
            version: OLDEST as u32,
            blocking: 0,
            // `NCCL_CONFIG_UNDEF_INT`.
            _pad: c_int::MIN,
        }
    }
}

macro_rules! table {
    ($($name:ident: $symbol:literal ($($argument:ty),* $(,)?) -> $result:ty;)*) => {
        /// The addresses of NCCL's functions.
        pub(super) struct NcclApi {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl NcclApi {
            /// Looks all of them up.
            ///
            /// # Errors
            ///
            /// The first name that the library does not have.
            fn load(library: &Library) -> Result<NcclApi, &'static str> {
                // SAFETY: the types are those of `nccl.h` for these symbols. The library is never closed.
                unsafe {
                    Ok(NcclApi {
                        $($name: *library.get(concat!($symbol, "\0").as_bytes()).map_err(|_| $symbol)?,)*
                    })
                }
            }
        }
    };
}

table! {
    get_unique_id: "ncclGetUniqueId"(*mut UniqueId) -> NcclStatus;
    get_error_string: "ncclGetErrorString"(NcclStatus) -> *const c_char;
    get_last_error: "ncclGetLastError"(Comm) -> *const c_char;
    init: "ncclCommInitRankConfig"(*mut Comm, c_int, UniqueId, c_int, *mut Config) -> NcclStatus;
    get_async_error: "ncclCommGetAsyncError"(Comm, *mut NcclStatus) -> NcclStatus;
    finalize: "ncclCommFinalize"(Comm) -> NcclStatus;
    destroy: "ncclCommDestroy"(Comm) -> NcclStatus;
    abort: "ncclCommAbort"(Comm) -> NcclStatus;
    group_start: "ncclGroupStart"() -> NcclStatus;
    group_end: "ncclGroupEnd"() -> NcclStatus;
    all_gather: "ncclAllGather"(
        *const c_void, *mut c_void, usize, c_int, Comm, sys::StreamHandle,
    ) -> NcclStatus;
    all_reduce: "ncclAllReduce"(
        *const c_void, *mut c_void, usize, c_int, c_int, Comm, sys::StreamHandle,
    ) -> NcclStatus;
    reduce_scatter: "ncclReduceScatter"(
        *const c_void, *mut c_void, usize, c_int, c_int, Comm, sys::StreamHandle,
    ) -> NcclStatus;
}

/// NCCL, opened.
pub(super) struct Nccl {
    pub(super) api: NcclApi,
}

/// NCCL, opened once per process.
///
/// # Errors
///
/// Returns an error if there is no library, or one that is too old.
pub(super) fn nccl() -> Result<&'static Nccl, Error> {
    static NCCL: OnceLock<Result<Nccl, Error>> = OnceLock::new();
    NCCL.get_or_init(probe).as_ref().map_err(Error::clone)
}

fn probe() -> Result<Nccl, Error> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    // SAFETY: the library's initialisers run, as in every program that uses it.
    let library = LIBRARY.get_or_init(|| unsafe { library::open(library::NCCL) });
    let library = library.as_ref().ok_or(ErrorKind::NoNccl)?;
    let version = version(library);
    let too_old = |missing| ErrorKind::NcclTooOld {
        version,
        needed: OLDEST,
        missing,
    };
    if version < OLDEST {
        return Err(too_old(None).into());
    }
    let api = NcclApi::load(library).map_err(|symbol| too_old(Some(symbol)))?;
    Ok(Nccl { api })
}

/// The version that the library says, 22703 for 2.27.3, or 0.
fn version(library: &Library) -> c_int {
    let mut version = 0;
    // SAFETY: the symbol's type is that of `nccl.h` since NCCL 2.0; the function stores one integer.
    let asked = unsafe {
        let symbol =
            library.get::<unsafe extern "C" fn(*mut c_int) -> NcclStatus>(b"ncclGetVersion\0");
        symbol.map(|ask| ask(&mut version))
    };
    match asked {
        Ok(0) => version,
        _ => 0,
    }
}

impl Nccl {
    /// A code as a result; work in progress is none.
    pub(super) fn check(
        &self,
        call: &'static str,
        code: NcclStatus,
        comm: Comm,
    ) -> Result<(), Error> {
        match code {
            0 | IN_PROGRESS => Ok(()),
            _ => Err(self.error(call, code, comm)),
        }
    }

    /// The error of a code, with the library's own words.
    pub(super) fn error(&self, call: &'static str, code: NcclStatus, comm: Comm) -> Error {
        // SAFETY: both functions return null or a string that lives until the next call of the library; the
        // communicator is null or lives.
        let (text, last) = unsafe {
            let text = words((self.api.get_error_string)(code));
            (text, words((self.api.get_last_error)(comm)))
        };
        ErrorKind::Nccl {
            call,
            code,
            text,
            last,
        }
        .into()
    }
}

/// A string of the library.
///
/// # Safety
///
/// The address is null or that of a string.
unsafe fn words(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
