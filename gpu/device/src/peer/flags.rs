//! `Flags`: words by which devices tell each other how far they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::buffer::Buffer;
use crate::cuda::Gpu;
use crate::device::{Device, Kind};
use crate::error::{Error, ErrorKind};

/// Words of 32 bits in the memory of a device, by which streams and kernels, also of other devices and processes, tell
/// each other how far they are.
///
/// A flag holds the number of the last round in which it was set. Rounds count up from 1, so no flag is reset. A stream
/// sets a flag after its earlier work, at system scope, and waits until a flag has at least a round. A kernel reads a
/// flag by a load with acquire at system scope, and sets it by a store with release.
///
/// ```
/// use colex_device::{Device, Flags};
///
/// let device = Device::open();
/// let copies = device.on_new_stream()?;
/// let flags = Flags::new(&device, 2)?;
/// let (from, to) = (device.upload(&[1.0f32, 2.0])?, device.zeros::<f32>(2)?);
/// device.synchronize()?;
///
/// copies.enqueue_copy(&to, &from)?;
/// flags.set(&copies, 1, 1)?; // the second flag, in round 1, after the copy
/// flags.wait(&device, 1, 1)?; // later work of `device` runs after the copy
/// assert_eq!(to.download()?, [1.0, 2.0]);
/// # Ok::<(), colex_device::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Flags {
    words: Buffer<u32>,
    /// Its stream releases the flags: made beforehand, since the driver may wait for kernels to make one.
    release: Option<Gpu>,
    released: Arc<AtomicBool>,
}

impl Flags {
    /// The last round of a flag. A stream compares rounds as signed numbers.
    pub const LAST_ROUND: u32 = i32::MAX as u32 - 1;

    /// The value of a released flag, which is more than every round.
    pub const RELEASED: u32 = i32::MAX as u32;

    /// Allocates `count` flags with the value 0, and returns when they are written.
    ///
    /// ```
    /// use colex_device::{Device, Flags};
    ///
    /// let flags = Flags::new(&Device::open(), 3)?;
    /// assert_eq!(flags.buffer().download()?, [0, 0, 0]);
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Device::zeros`] and [`Device::synchronize`].
    pub fn new(device: &Device, count: usize) -> Result<Flags, Error> {
        let words = device.zeros(count)?;
        device.synchronize()?;
        Flags::of(words)
    }

    /// Returns flags of words that are there already: those of a peer or of another process. Their values stay.
    ///
    /// ```
    /// use colex_device::{Device, Flags};
    ///
    /// let words = Device::open().upload(&[5u32, 7])?;
    /// let flags = Flags::of(words)?;
    /// assert_eq!(flags.len(), 2);
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the driver's error.
    pub fn of(words: Buffer<u32>) -> Result<Flags, Error> {
        let release = match &words.device().0 {
            Kind::Gpu(gpu) => Some(gpu.for_release()?),
            Kind::Simulator(_) => None,
        };
        Ok(Flags {
            words,
            release,
            released: Arc::default(),
        })
    }

    /// Returns the number of flags.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns whether there are no flags.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the words: for kernels, and to be [exported](Buffer::export).
    pub fn buffer(&self) -> &Buffer<u32> {
        &self.words
    }

    /// Returns the same flags for the work of another device, as [`Buffer::as_peer_of`] does.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// use colex_device::Flags;
    ///
    /// let flags = Flags::new(&device, 1)?;
    /// let same = flags.as_peer_of(&device)?; // on its own device: the same handle
    /// assert_eq!(same.buffer().address(), flags.buffer().address());
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Device::enable_access`].
    pub fn as_peer_of(&self, device: &Device) -> Result<Flags, Error> {
        let words = self.words.as_peer_of(device)?;
        Ok(Flags {
            released: self.released.clone(),
            ..Flags::of(words)?
        })
    }

    /// Sets flag `index` to a round after the earlier work of the stream of `device`. What that work wrote is visible
    /// to the work that the flag lets run, on every device.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// use colex_device::Flags;
    ///
    /// let flags = Flags::new(&device, 2)?;
    /// flags.set(&device, 1, 7)?;
    /// assert_eq!(flags.buffer().download()?, [0, 7]);
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such flag, for round 0 and rounds after [`LAST_ROUND`](Flags::LAST_ROUND), if
    /// the flags are on another device or were released, and for a driver without stream memory operations. Returns the
    /// driver's error.
    pub fn set(&self, device: &Device, index: usize, round: u32) -> Result<(), Error> {
        let word = self.word(device, index, round)?;
        match &device.0 {
            Kind::Gpu(gpu) => gpu.write_flag(word.address(), round),
            Kind::Simulator(_) => word.write(&[round]),
        }
    }

    /// Makes the later work of the stream of `device` wait until flag `index` has at least a round. The simulator,
    /// which runs every call to its end before the next, refuses a wait that would not end.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// use colex_device::Flags;
    ///
    /// let flags = Flags::new(&device, 1)?;
    /// flags.set(&device, 0, 2)?;
    /// flags.wait(&device, 0, 1)?;
    /// assert_eq!(
    ///     flags.wait(&device, 0, 3).unwrap_err().to_string(),
    ///     "flag 0 has 2, and a wait for 3 would not end: the simulator runs every call to its end before the next"
    /// );
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`set`](Flags::set).
    pub fn wait(&self, device: &Device, index: usize, round: u32) -> Result<(), Error> {
        let word = self.word(device, index, round)?;
        match &device.0 {
            Kind::Gpu(gpu) => gpu.wait_for_flag(word.address(), round),
            Kind::Simulator(_) => match word.download()?[0] {
                found if found >= round => Ok(()),
                found => Err(ErrorKind::NeverSet {
                    index,
                    found,
                    round,
                }
                .into()),
            },
        }
    }

    /// Gives every flag the value [`RELEASED`](Flags::RELEASED), past the streams and kernels that wait for it: they go
    /// on, with memory that was never written for them, and what they compute is to be thrown away. A program does so
    /// once a rank is gone, so that the streams of the others end. The copy runs in a stream of its own, and the call
    /// waits for it for at most `within`. The flags of all handles in this process are of no use afterwards.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// use colex_device::Flags;
    /// use std::time::Duration;
    ///
    /// let flags = Flags::new(&device, 2)?;
    /// flags.release(Duration::from_secs(1))?;
    /// assert_eq!(flags.buffer().download()?, [Flags::RELEASED; 2]);
    /// assert_eq!(
    ///     flags.wait(&device, 0, 1).unwrap_err().to_string(),
    ///     "the flags were released after a failure, and every wait for them passes: make new ones"
    /// );
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for which [`is_deadline`](Error::is_deadline) holds once the time is over, and the driver's
    /// error.
    pub fn release(&self, within: Duration) -> Result<(), Error> {
        self.released.store(true, Ordering::Relaxed);
        let values = vec![Flags::RELEASED; self.len()];
        match &self.release {
            Some(gpu) => gpu.write_within(self.words.address(), values, within),
            None => self.words.write(&values),
        }
    }

    /// Sets flag `index` to a round at once, beside the work of all streams: for news of a failure, which must not wait behind
    /// work that waits itself. The copy runs in a stream of its own, and the call waits for it for at most `within`.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// use colex_device::Flags;
    /// use std::time::Duration;
    ///
    /// let flags = Flags::new(&device, 2)?;
    /// flags.set_now(1, 5, Duration::from_secs(1))?;
    /// assert_eq!(flags.values(Duration::from_secs(1))?, [0, 5]);
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`set`](Flags::set) for the index, the round and released flags, an error for which
    /// [`is_deadline`](Error::is_deadline) holds once the time is over, and the driver's error.
    pub fn set_now(&self, index: usize, round: u32, within: Duration) -> Result<(), Error> {
        let word = self.word(self.words.device(), index, round)?;
        match &self.release {
            Some(gpu) => gpu.write_within(word.address(), vec![round], within),
            None => word.write(&[round]),
        }
    }

    /// Returns the values of all flags at once, beside the work of all streams, as [`set_now`](Flags::set_now) writes one. The
    /// values of released flags are read too.
    ///
    /// # Errors
    ///
    /// Returns an error for which [`is_deadline`](Error::is_deadline) holds once the time is over, and the driver's error.
    pub fn values(&self, within: Duration) -> Result<Vec<u32>, Error> {
        match &self.release {
            Some(gpu) => gpu.read_within(self.words.address(), self.len(), within),
            None => self.words.download(),
        }
    }

    /// Checks a call, and returns the word of a flag.
    fn word(&self, device: &Device, index: usize, round: u32) -> Result<Buffer<u32>, Error> {
        device.check_same("the flag", self.words.device())?;
        let count = self.len();
        if index >= count {
            return Err(ErrorKind::NoFlag { index, count }.into());
        }
        let most = Flags::LAST_ROUND;
        if round == 0 || round > most {
            return Err(ErrorKind::FlagRound { round, most }.into());
        }
        if self.released.load(Ordering::Relaxed) {
            return Err(ErrorKind::FlagsReleased.into());
        }
        self.words.slice(index..=index)
    }
}

impl Device {
    /// Returns whether the driver says that the streams of the device set flags and wait for them: always on the
    /// simulator, which does both at once.
    ///
    /// ```
    /// # use colex_device::{Arch, Device};
    /// # let device = Device::simulator(Arch::Sm90a);
    /// assert!(device.has_stream_flags()?);
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the driver's error.
    pub fn has_stream_flags(&self) -> Result<bool, Error> {
        match &self.0 {
            Kind::Gpu(gpu) => gpu.has_stream_flags(),
            Kind::Simulator(_) => Ok(true),
        }
    }
}
