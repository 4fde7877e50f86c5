//! Device memory that a call needs besides its operands.

use std::sync::{Mutex, PoisonError};

use colex_device::{Buffer, Device, Extension};

use crate::error::Error;
use crate::stream_key::StreamKey;

/// The most pieces of memory that a device keeps for calls to come.
const PIECES: usize = 8;

/// Memory that calls have given back, with the stream that their work was given to.
///
/// A piece is taken again only for the same stream: what is given to a stream runs in order, so that the next use begins
/// after the last one has ended. Nothing is allocated for a repeated call, which stream capture would forbid.
#[derive(Debug, Default)]
pub(crate) struct Scratch(Mutex<Vec<(StreamKey, Buffer<u8>)>>);

impl Extension for Scratch {
    fn clear(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

/// Takes at least `bytes` bytes, whose address is a multiple of 256: the smallest piece that is large enough, or new memory.
///
/// # Errors
///
/// Returns the device's error if the allocation fails.
pub(crate) fn take(device: &Device, bytes: usize) -> Result<Buffer<u8>, Error> {
    let kept = device.extension::<Scratch>();
    let mut pieces = kept.0.lock().unwrap_or_else(PoisonError::into_inner);
    let stream = stream(device);
    let fits = |(of, piece): &(StreamKey, Buffer<u8>)| *of == stream && piece.len() >= bytes;
    let indexed = pieces.iter().enumerate().filter(|(_, piece)| fits(piece));
    match indexed.min_by_key(|(_, (_, piece))| piece.len()) {
        Some((at, _)) => Ok(pieces.swap_remove(at).1),
        None => allocate(device, bytes),
    }
}

/// Allocates `bytes` bytes of memory that no call has used.
///
/// # Errors
///
/// Returns the device's error if the allocation fails.
pub(crate) fn allocate(device: &Device, bytes: usize) -> Result<Buffer<u8>, Error> {
    Ok(device.uninitialised(bytes)?)
}

/// Returns a piece to the cache after the last work that uses it was enqueued on the stream of `device`. If there are
/// too many pieces, the smallest one is freed.
pub(crate) fn give_back(device: &Device, piece: Buffer<u8>) {
    let kept = device.extension::<Scratch>();
    let mut pieces = kept.0.lock().unwrap_or_else(PoisonError::into_inner);
    pieces.push((stream(device), piece));
    if pieces.len() > PIECES {
        let smallest = (0..pieces.len()).min_by_key(|&at| pieces[at].1.len());
        let freed = smallest.map(|at| pieces.swap_remove(at));
        // The memory is freed after the lock, since that waits for the device.
        drop(pieces);
        drop(freed);
    }
}

/// Returns the key of the stream that a device gives its work to.
fn stream(device: &Device) -> StreamKey {
    StreamKey::of(device.raw().map_or(0, |raw| raw.stream.addr()))
}
