//! Device memory that a call needs besides its operands.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use colex_device::{Buffer, Device, Element, Extension, KeptBuffer, StreamKey};

use crate::error::{Error, ErrorKind};

/// The most pieces of memory that a device keeps for calls to come.
const PIECES: usize = 8;

/// The words that are allocated at least, for blocks that meet.
const LEAST_WORDS: usize = 256;

/// The alignment of every piece, in bytes: that of new memory.
const ALIGNMENT: u64 = 256;

/// Memory that calls have given back, with the stream that their work was given to, and memory that is zero.
///
/// A piece is taken again only for the same stream: what is given to a stream runs in order, so that the next use begins
/// after the last one has ended. A graph may run at any time, on any stream: nothing of it is taken for a capture.
///
/// The device holds this, so that no piece holds the device.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pieces: Pieces<u8>,
    /// Words of both kinds, with the stream that their work was given to.
    counters: Pieces<u32>,
    tags: Pieces<u32>,
    /// Kept for good, so that a graph may use it: each is at least twice as long as the one before.
    zeros: Mutex<Vec<KeptBuffer<u8>>>,
}

impl Extension for Scratch {
    fn clear(&self) {
        // Memory is freed without a lock, since that waits for the device.
        drop(std::mem::take(&mut *locked(&self.pieces)));
        for words in [&self.counters, &self.tags] {
            drop(std::mem::take(&mut *locked(words)));
        }
        // The zeros stay: a graph that captured a call without its owner reads them whenever it runs.
    }
}

impl Scratch {
    fn words(&self, kind: WordKind) -> &Pieces<u32> {
        match kind {
            WordKind::Counters => &self.counters,
            WordKind::Tags => &self.tags,
        }
    }
}

/// What words of memory are, by which the blocks of a launch meet. Both kinds are 0 when they are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordKind {
    /// They are 0 whenever no launch uses them.
    Counters,
    /// They keep what the last launch left. The next one tells its own words from those by their tags, so no other kind of kernel may
    /// write there.
    Tags,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the memory of a call comes from.
#[derive(Debug)]
pub(crate) enum Workspace<'a> {
    /// From the pieces that a device keeps: for a call that runs once, at once.
    Kept(&'a Device),
    /// From the device: for a call that owns it.
    Own(&'a Device),
    /// From the caller: the addresses of the begin and the end of what is left.
    Given([u64; 2]),
}

/// A piece of memory.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) address: u64,
    /// Its owner, if that is the call.
    pub(crate) memory: Option<Buffer<u8>>,
}

impl Workspace<'_> {
    /// Returns the caller's memory from `begin` to `end` as a workspace of at least `need` bytes, for a call that is named in errors: what
    /// is computed, and the type that describes it.
    ///
    /// # Errors
    ///
    /// Returns an error if it is too short, or if it does not begin at a multiple of 256.
    pub(crate) fn given(
        (begin, end): (u64, u64),
        need: usize,
        of: [&'static str; 2],
    ) -> Result<Self, Error> {
        let found = (end - begin) as usize;
        if found < need {
            return Err(ErrorKind::Workspace { of, found, need }.into());
        }
        if need > 0 && !begin.is_multiple_of(ALIGNMENT) {
            return Err(ErrorKind::WorkspaceAddress {
                address: begin,
                need: ALIGNMENT,
            }
            .into());
        }
        Ok(Workspace::Given([begin, end]))
    }

    /// Takes `bytes` bytes, whose address is a multiple of 256.
    ///
    /// # Errors
    ///
    /// Returns the device's error if an allocation fails, and an error if a graph would keep a piece that later calls
    /// overwrite.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<Piece, Error> {
        let memory = match self {
            Workspace::Kept(device) => {
                if device.is_capturing()? {
                    return Err(ErrorKind::Captured.into());
                }
                let kept = device.extension::<Scratch>();
                match taken(&kept.pieces, device, bytes) {
                    Some(piece) => piece,
                    None => device.uninitialised(bytes)?,
                }
            }
            Workspace::Own(device) => device.uninitialised(bytes)?,
            Workspace::Given([next, _]) => {
                let address = *next;
                *next += aligned(bytes) as u64;
                let memory = None;
                return Ok(Piece { address, memory });
            }
        };
        Ok(Piece {
            address: memory.address(),
            memory: Some(memory),
        })
    }

    /// Takes `bytes` bytes, if there are any: of the caller's memory what is left, else as [`take_spare`](Self::take_spare).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`take_spare`](Self::take_spare).
    pub(crate) fn take_rest(&self, bytes: usize) -> Result<Option<Piece>, Error> {
        if let Workspace::Given([address, end]) = *self {
            let (address, memory) = (address.next_multiple_of(ALIGNMENT), None);
            let has_room = end.saturating_sub(address) >= bytes as u64;
            return Ok(has_room.then_some(Piece { address, memory }));
        }
        let owned = |memory: Buffer<u8>| Piece {
            address: memory.address(),
            memory: Some(memory),
        };
        Ok(self.take_spare(bytes)?.map(owned))
    }

    /// Takes `count` words of a kind, if there are any: none in a capture, and never of the caller's memory, in which other calls write, nor
    /// beyond the memory that the device has free. New ones are 0. A call that owns them may run on any stream: it waits until they are 0.
    ///
    /// # Errors
    ///
    /// Returns the device's error if an allocation fails for another reason.
    pub(crate) fn take_words(
        &self,
        device: &Device,
        (kind, count): (WordKind, usize),
    ) -> Result<Option<Buffer<u32>>, Error> {
        if device.is_capturing()? {
            return Ok(None);
        }
        let is_kept = match self {
            Workspace::Kept(_) => true,
            Workspace::Own(_) | Workspace::Given(_) => false,
        };
        if is_kept {
            let kept = device.extension::<Scratch>();
            if let Some(words) = taken(kept.words(kind), device, count) {
                return Ok(Some(words));
            }
        }
        let count = count.next_power_of_two().max(LEAST_WORDS);
        let words = match device.zeros(count) {
            Err(error) if error.is_out_of_memory() => return Ok(None),
            other => other?,
        };
        if !is_kept {
            device.synchronize()?;
        }
        Ok(Some(words))
    }

    /// Takes `bytes` bytes, if there are any: not in a capture, not of the caller's memory, which the matrices that are
    /// packed fill, and not beyond the memory that the device has free.
    ///
    /// # Errors
    ///
    /// Returns the device's error if an allocation fails for another reason.
    pub(crate) fn take_spare(&self, bytes: usize) -> Result<Option<Buffer<u8>>, Error> {
        let (device, kept) = match *self {
            Workspace::Given(_) => return Ok(None),
            Workspace::Kept(device) | Workspace::Own(device) if device.is_capturing()? => {
                return Ok(None);
            }
            Workspace::Kept(device) => (
                device,
                taken(&device.extension::<Scratch>().pieces, device, bytes),
            ),
            Workspace::Own(device) => (device, None),
        };
        if kept.is_some() {
            return Ok(kept);
        }
        match device.uninitialised(bytes) {
            Err(error) if error.is_out_of_memory() => Ok(None),
            other => Ok(Some(other?)),
        }
    }
}

/// Returns the bytes that a piece of `bytes` bytes takes of a workspace.
pub(crate) fn aligned(bytes: usize) -> usize {
    bytes.saturating_add(ALIGNMENT as usize - 1) / ALIGNMENT as usize * ALIGNMENT as usize
}

/// Memory that calls have given back, with its stream; that which was given back last is at the end.
type Pieces<T> = Mutex<Vec<(StreamKey, KeptBuffer<T>)>>;

/// Takes the smallest piece of at least `length` elements, if there is one.
fn taken<T: Element>(pieces: &Pieces<T>, device: &Device, length: usize) -> Option<Buffer<T>> {
    let stream = device.stream_key()?;
    let mut pieces = locked(pieces);
    let fits = |(of, piece): &(StreamKey, KeptBuffer<T>)| *of == stream && piece.len() >= length;
    let indexed = pieces.iter().enumerate().filter(|(_, piece)| fits(piece));
    let (at, _) = indexed.min_by_key(|(_, (_, piece))| piece.len())?;
    let (_, piece) = pieces.remove(at);
    piece.on(device).ok()
}

/// Returns a piece to the cache after the last work that uses it was enqueued on the stream of `device`. If there are
/// too many pieces, one of the others is freed.
pub(crate) fn give_back(device: &Device, piece: Buffer<u8>) {
    keep(&device.extension::<Scratch>().pieces, device, piece);
}

/// Returns words to the cache as [`give_back`] returns a piece. Counters are 0 when that work has ended.
pub(crate) fn give_back_words(device: &Device, (kind, words): (WordKind, Buffer<u32>)) {
    keep(device.extension::<Scratch>().words(kind), device, words);
}

/// The place of the piece that is freed next. Each place has its turn, so that a piece goes whose stream has ended. It is not always the oldest:
/// where streams take turns, that is the one that is needed next.
static NEXT: AtomicUsize = AtomicUsize::new(0);

fn keep<T: Element>(pieces: &Pieces<T>, device: &Device, piece: Buffer<T>) {
    // Without a key it is freed, which waits for the device.
    let (Some(stream), Some(piece)) = (device.stream_key(), piece.kept()) else {
        return;
    };
    let mut pieces = locked(pieces);
    pieces.push((stream, piece));
    if pieces.len() > PIECES {
        let freed = pieces.remove(NEXT.fetch_add(1, Ordering::Relaxed) % PIECES);
        // The memory is freed after the lock, since that waits for the device.
        drop(pieces);
        drop(freed);
    }
}

/// Returns at least `bytes` bytes that are zero, for work on any stream. A call that needs more than all calls before it
/// waits until they are.
///
/// # Errors
///
/// Returns the device's error.
pub(crate) fn zeros(device: &Device, bytes: usize) -> Result<Buffer<u8>, Error> {
    let kept = device.extension::<Scratch>();
    let mut zeros = locked(&kept.zeros);
    if let Some(long) = zeros.iter().find(|memory| memory.len() >= bytes) {
        return Ok(long.on(device)?);
    }
    let memory = device.zeros(bytes.next_power_of_two())?;
    device.synchronize()?;
    zeros.extend(memory.kept());
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use colex_atom::Arch;

    use super::*;

    /// The extensions of the test that have been dropped.
    static DROPPED: AtomicU32 = AtomicU32::new(0);

    #[derive(Debug, Default)]
    struct Counting;

    impl Extension for Counting {
        fn clear(&self) {}
    }

    impl Drop for Counting {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A device ends with its last handle, with all that calls have left there.
    #[test]
    fn what_calls_leave_keeps_no_device() -> Result<(), Error> {
        let device = Device::simulator(Arch::Sm80);
        device.extension::<Counting>();
        let zeros = zeros(&device, 8)?;
        let mut memory = Workspace::Kept(&device);
        let piece = memory.take(1 << 10)?.memory.expect("it is the device's");
        let address = piece.address();
        give_back(&device, piece);
        for kind in [WordKind::Counters, WordKind::Tags] {
            let words = memory.take_words(&device, (kind, 8))?;
            give_back_words(&device, (kind, words.expect("there is memory")));
        }
        let again = memory.take(1 << 9)?.memory.expect("it is the device's");
        assert_eq!(again.address(), address, "it was kept");
        give_back(&device, again);
        drop(zeros);
        assert_eq!(DROPPED.load(Ordering::Relaxed), 0);
        drop(device);
        assert_eq!(DROPPED.load(Ordering::Relaxed), 1);
        Ok(())
    }

    /// The pieces are as many as the device keeps, and a piece that no stream takes again goes.
    #[test]
    fn law_a_piece_that_is_not_taken_goes() -> Result<(), Error> {
        let device = Device::simulator(Arch::Sm80);
        let pieces = || device.extension::<Scratch>();
        let sizes = || -> Vec<usize> {
            let scratch = pieces();
            let kept = locked(&scratch.pieces);
            kept.iter().map(|(_, piece)| piece.len()).collect()
        };
        // The largest: none of the others is large enough for the calls that follow.
        for _ in 0..PIECES {
            give_back(&device, device.uninitialised(1 << 12)?);
        }
        for round in 1..=PIECES {
            assert_eq!(sizes().len(), PIECES);
            give_back(&device, device.uninitialised(round)?);
        }
        assert_eq!(sizes().len(), PIECES);
        let large = sizes().into_iter().filter(|size| *size == 1 << 12).count();
        assert!(large < PIECES, "{large} of the first pieces are left");
        Ok(())
    }

    /// A graph may read the zeros of a call that it captured, so no clearing of caches frees them.
    #[test]
    fn law_zeros_stay_where_caches_are_cleared() -> Result<(), Error> {
        let device = Device::simulator(Arch::Sm80);
        let address = zeros(&device, 8)?.address();
        for bytes in [8, 1, 5] {
            device.clear_module_cache();
            assert_eq!(zeros(&device, bytes)?.address(), address);
        }
        Ok(())
    }
}
