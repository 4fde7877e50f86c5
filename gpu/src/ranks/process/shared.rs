//! Memory of a rank that the others open: by CUDA's IPC in another process, and by a handle in this one.

use core::any::Any;
use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use colex_device::{Buffer, Device, Element, ExportedBuffer};

use super::fields::{joined, split};
use crate::error::{Error, HostError, MeetingFailure};

/// The buffers that ranks of this process have shared and that the others have not opened yet, each by its number.
#[derive(Default)]
struct Shelf {
    next: u64,
    buffers: BTreeMap<u64, Box<dyn Any + Send>>,
}

fn shelf() -> MutexGuard<'static, Shelf> {
    static SHELF: Mutex<Shelf> = Mutex::new(Shelf {
        next: 0,
        buffers: BTreeMap::new(),
    });
    SHELF.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number of this process that no other one has: the simulator, which exports nothing, shares by it.
fn process() -> u64 {
    static PROCESS: LazyLock<u64> =
        LazyLock::new(|| RandomState::new().hash_one(std::process::id()));
    *PROCESS
}

/// A buffer that the other ranks may open until this is dropped.
pub(super) struct SharedBuffer {
    key: u64,
    exported: Vec<u8>,
}

impl SharedBuffer {
    /// Shares a buffer with ranks of this process, and of others if it is a GPU's.
    pub(super) fn new<T: Element>(buffer: &Buffer<T>) -> Result<SharedBuffer, Error> {
        let exported = if buffer.device().is_simulator() {
            Vec::new()
        } else {
            buffer.export()?.to_bytes()
        };
        let mut shelf = shelf();
        let key = shelf.next;
        shelf.next += 1;
        shelf.buffers.insert(key, Box::new(buffer.clone()));
        Ok(SharedBuffer { key, exported })
    }

    /// What the other ranks open it by.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let numbers = [process(), self.key].map(u64::to_le_bytes);
        joined(&[&numbers[0], &numbers[1], &self.exported])
    }
}

impl Drop for SharedBuffer {
    fn drop(&mut self) {
        // The handle goes outside of the lock: a device may wait for its work then.
        let buffer = shelf().buffers.remove(&self.key);
        drop(buffer);
    }
}

/// Opens the buffer of a rank for the work of a device, and returns whether it is one of another process.
pub(super) fn open<T: Element>(
    device: &Device,
    rank: usize,
    bytes: &[u8],
) -> Result<(Buffer<T>, bool), Error> {
    let foreign = MeetingFailure::Foreign { rank };
    let [of, key, exported] = split::<3>(bytes).ok_or(foreign)?;
    let [of, key] = [of, key].map(|number| number.try_into().map(u64::from_le_bytes));
    let (Ok(of), Ok(key)) = (of, key) else {
        return Err(foreign.into());
    };
    if exported.is_empty() {
        if of != process() {
            return Err(HostError::Elsewhere { rank }.into());
        }
    } else {
        let exported = ExportedBuffer::from_bytes(exported)?;
        if !exported.is_of_this_process() {
            return Ok((device.open_exported(&exported)?, true));
        }
    }
    let buffer: Option<Buffer<T>> = {
        let shelf = shelf();
        let buffer = shelf.buffers.get(&key);
        buffer.and_then(|buffer| buffer.downcast_ref()).cloned()
    };
    Ok((buffer.ok_or(foreign)?.as_peer_of(device)?, false))
}
