//! Memory that another process opens: CUDA's IPC.

use super::super::gpu::Gpu;
use super::super::identity::in_relaxed_mode;
use super::super::sys::IpcMemHandle;
use crate::error::{Error, ErrorKind};

/// The bytes of the driver's handle.
pub(crate) const EXPORTED_BYTES: usize = size_of::<IpcMemHandle>();

/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`: the memory may be that of another device.
const WITH_PEER_ACCESS: u32 = 1;

impl Gpu {
    /// The driver's handle of an allocation, for other processes.
    pub(crate) fn export(&self, address: u64) -> Result<[u8; EXPORTED_BYTES], Error> {
        let mut handle = IpcMemHandle([0; EXPORTED_BYTES]);
        self.call("cuIpcGetMemHandle", |api| {
            // SAFETY: stores one handle; the address came from `allocate`.
            unsafe { (api.ipc_get_mem_handle)(&mut handle, address) }
        })?;
        Ok(handle.0)
    }

    /// Opens an allocation of another process, which must have at least `bytes` bytes, and returns its address here.
    /// `close` closes it.
    pub(crate) fn open_exported(
        &self,
        handle: [u8; EXPORTED_BYTES],
        bytes: u64,
    ) -> Result<u64, Error> {
        let mut address = 0;
        self.call("cuIpcOpenMemHandle", |api| {
            // SAFETY: stores one address. The driver judges the handle, which is plain data.
            unsafe {
                (api.ipc_open_mem_handle)(&mut address, IpcMemHandle(handle), WITH_PEER_ACCESS)
            }
        })?;
        let (mut base, mut size) = (0, 0);
        let asked = self.call("cuMemGetAddressRange", |api| {
            // SAFETY: stores an address and a size of the memory that was just opened.
            unsafe { (api.mem_get_address_range)(&mut base, &mut size, address) }
        });
        let found = (size as u64).saturating_sub(address.saturating_sub(base));
        let refusal = match asked {
            Ok(()) if bytes <= found => return Ok(address),
            Ok(()) => ErrorKind::ExportedRange { bytes, found }.into(),
            Err(error) => error,
        };
        self.close_exported(address);
        Err(refusal)
    }

    /// Closes an allocation of another process, after all work of this context. In a capture, which forbids the wait for
    /// that work, it stays open.
    pub(crate) fn close_exported(&self, address: u64) {
        if !self.finish_context() {
            return;
        }
        let _ = self.call("cuIpcCloseMemHandle", |api| {
            in_relaxed_mode(api, || {
                // SAFETY: the address came from `open_exported`, and its one owner is being dropped.
                unsafe { (api.ipc_close_mem_handle)(address) }
            })
        });
    }
}
