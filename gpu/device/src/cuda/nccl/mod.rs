//! The collectives of NCCL.
//!
//! The library is opened here and not by `cudarc`: the loader of `cudarc` panics where the library or one of its
//! functions is missing, and its feature `nccl` links the library into every program that chose `dynamic-linking` or
//! `static-linking` for the driver.

mod api;
mod communicator;
mod group;

use std::ffi::c_int;

use super::api::Handle;
use crate::element::{Element, sealed};
use crate::error::{Error, ErrorKind};
use api::{ID_BYTES, UniqueId, nccl};

pub use communicator::Communicator;

/// A type of elements of which NCCL forms sums.
pub trait NcclElement: Element + sealed::Sealed {
    /// The type's number in `ncclDataType_t`.
    #[doc(hidden)]
    const CODE: c_int;
}

macro_rules! elements {
    ($($ty:ty = $code:literal;)*) => {$(
        impl NcclElement for $ty {
            const CODE: c_int = $code;
        }
    )*};
}

elements! {
    i8 = 0;
    u8 = 1;
    i32 = 2;
    u32 = 3;
    i64 = 4;
    u64 = 5;
    half::f16 = 6;
    f32 = 7;
    f64 = 8;
    half::bf16 = 9;
}

/// The identifier of a communicator: rank 0 makes it, and every rank is given it.
///
/// ```
/// use colex_device::cuda::NcclId;
///
/// match NcclId::new() {
///     Ok(id) => assert_eq!(NcclId::from_bytes(id.as_bytes())?.as_bytes(), id.as_bytes()),
///     Err(why) => assert!(why.is_no_nccl()),
/// }
/// assert_eq!(
///     NcclId::from_bytes(b"four").unwrap_err().to_string(),
///     "4 bytes are not the identifier of a communicator, which has 128"
/// );
/// # Ok::<(), colex_device::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NcclId([u8; ID_BYTES]);

impl NcclId {
    /// Returns an identifier that no other communicator has. The process that makes it must live until all ranks have
    /// their communicator.
    ///
    /// # Errors
    ///
    /// Returns an error without NCCL or with one that is too old, and NCCL's error.
    pub fn new() -> Result<NcclId, Error> {
        let nccl = nccl()?;
        let mut id = UniqueId([0; ID_BYTES]);
        // SAFETY: stores 128 bytes.
        let code = unsafe { (nccl.api.get_unique_id)(&mut id) };
        nccl.check("ncclGetUniqueId", code, std::ptr::null_mut())?;
        Ok(NcclId(id.0))
    }

    /// Returns an error if this process cannot make communicators: it asks for the library alone, and no identifier is made.
    ///
    /// ```
    /// use colex_device::cuda::NcclId;
    ///
    /// assert_eq!(NcclId::check().is_ok(), NcclId::new().is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error without NCCL or with one that is too old.
    pub fn check() -> Result<(), Error> {
        nccl().map(drop)
    }

    /// Returns it as bytes, for the other ranks.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the identifier of bytes that another rank sent.
    ///
    /// # Errors
    ///
    /// Returns an error unless there are 128 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<NcclId, Error> {
        let id = bytes.try_into().map_err(|_| ErrorKind::NcclId {
            found: bytes.len(),
            need: ID_BYTES,
        })?;
        Ok(NcclId(id))
    }
}

/// A communicator's handle: `ncclComm_t`.
type Comm = Handle;
