//! `Communicator`: a rank's end of the collectives.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::time::Duration;

use super::super::gpu::Gpu;
use super::super::peer;
use super::api::{Config, IN_PROGRESS, Nccl, UniqueId, nccl};
use super::{Comm, NcclElement, NcclId, group};
use crate::buffer::Buffer;
use crate::device::{Device, Kind};
use crate::error::{Error, ErrorKind};

/// `ncclSum`.
const SUM: c_int = 0;

/// One rank's end of NCCL's collectives on a GPU. All ranks call the same collectives in the same order.
///
/// One process may hold one rank ([`new`](Communicator::new)) or all of them ([`all`](Communicator::all)). No call blocks
/// for longer than the communicator's time: what NCCL does in the background is asked for until then, and the
/// communicator is aborted after it. A collective is work of a stream, and ends a kernel later than the call; wait for it
/// with [`Device::synchronize_within`], and [`abort`](Communicator::abort) the communicator if it does not end.
///
/// ```
/// use colex_device::Device;
/// use colex_device::cuda::{Communicator, NcclId};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), colex_device::Error> {
/// let within = Duration::from_secs(30);
/// if let (Ok(device), Ok(_)) = (Device::gpu(0), NcclId::new()) {
///     let ranks = Communicator::all(&[device.clone()], within)?;
///     let (from, to) = (device.upload(&[1.0f32, 2.0])?, device.zeros(2)?);
///     ranks[0].all_reduce(&device, &from, &to)?; // the sum over one rank
///     device.synchronize_within(within)?;
///     assert_eq!(to.download()?, [1.0, 2.0]);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Communicator {
    nccl: &'static Nccl,
    device: Device,
    handle: Comm,
    rank: usize,
    ranks: usize,
    within: Duration,
    /// Why it is of no use any more: it was aborted.
    failure: RefCell<Option<String>>,
}

// SAFETY: a communicator may be used from any thread, by one at a time: it is not `Sync`.
unsafe impl Send for Communicator {}

impl Communicator {
    /// Returns a rank's communicator once all ranks have called this with the same identifier, within `within`.
    ///
    /// ```
    /// use colex_device::cuda::{Communicator, NcclId};
    /// use colex_device::{Arch, Device};
    /// use std::time::Duration;
    ///
    /// let (device, id) = (Device::simulator(Arch::Sm90a), NcclId::from_bytes(&[0; 128])?);
    /// let error = Communicator::new(&device, &id, 0, 1, Duration::from_secs(1)).unwrap_err();
    /// assert!(error.is_unsupported() || error.is_no_nccl());
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error without NCCL or with one that is too old, on the simulator, for a rank beyond the last, if the
    /// other ranks do not come in time, and NCCL's error.
    pub fn new(
        device: &Device,
        id: &NcclId,
        rank: usize,
        ranks: usize,
        within: Duration,
    ) -> Result<Communicator, Error> {
        let begun = Communicator::begin(device, id, rank, ranks, within)?;
        begun.settle("ncclCommInitRankConfig", "the communicator")?;
        Ok(begun)
    }

    /// Returns the communicators of all ranks of one process, one for each device, rank 0 first.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`new`](Communicator::new).
    pub fn all(devices: &[Device], within: Duration) -> Result<Vec<Communicator>, Error> {
        let id = NcclId::new()?;
        let mut begun = Vec::new();
        let done = group::run(|| {
            devices.iter().enumerate().try_for_each(|(rank, device)| {
                begun.push(Communicator::begin(
                    device,
                    &id,
                    rank,
                    devices.len(),
                    within,
                )?);
                Ok(())
            })
        });
        let done = done.and_then(|()| {
            let settle = |one: &Communicator| one.settle("ncclGroupEnd", "the communicator");
            begun.iter().try_for_each(settle)
        });
        // Without one of them the others never begin.
        done.inspect_err(|error: &Error| {
            begun.iter().for_each(|one| one.fail(error.to_string()));
        })?;
        Ok(begun)
    }

    /// Begins to make a communicator.
    fn begin(
        device: &Device,
        id: &NcclId,
        rank: usize,
        ranks: usize,
        within: Duration,
    ) -> Result<Communicator, Error> {
        let nccl = nccl()?;
        let Kind::Gpu(gpu) = &device.0 else {
            return Err(ErrorKind::Unsupported {
                what: "take part in NCCL's collectives",
                device: device.name(),
                why: "they are kernels of a GPU; several simulated devices are `colex_sim::Ranks`",
            }
            .into());
        };
        let numbers = (c_int::try_from(rank), c_int::try_from(ranks));
        let (true, (Ok(number), Ok(count))) = (rank < ranks, numbers) else {
            return Err(ErrorKind::NcclRank { rank, ranks }.into());
        };
        gpu.outside_capture("making a communicator")?;
        gpu.bind()?;
        let mut handle: Comm = std::ptr::null_mut();
        let mut config = Config::without_blocking();
        // SAFETY: the function stores one handle and reads the settings; the device's context is current.
        let code =
            unsafe { (nccl.api.init)(&mut handle, count, UniqueId(id.0), number, &mut config) };
        let begun = Communicator {
            nccl,
            device: device.clone(),
            handle,
            rank,
            ranks,
            within,
            failure: RefCell::default(),
        };
        begun.checked("ncclCommInitRankConfig", code)?;
        Ok(begun)
    }

    /// Returns the number of this rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Returns the device of this rank.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Gathers the elements of all ranks on every rank, those of rank 0 first, in the stream of `device`. `from` may be
    /// this rank's part of `to`.
    ///
    /// # Errors
    ///
    /// Returns an error unless `to` has `from`'s elements once for each rank, if a buffer or `device` is not this rank's
    /// device, after a failure, if NCCL does not begin in time, and NCCL's error.
    pub fn all_gather<T: NcclElement>(
        &self,
        device: &Device,
        from: &Buffer<T>,
        to: &Buffer<T>,
    ) -> Result<(), Error> {
        let count = from.len();
        self.lengths(
            "the buffer of the gathered elements",
            to,
            count.saturating_mul(self.ranks),
        )?;
        self.enqueue("ncclAllGather", device, [from, to], |gpu, [from, to]| {
            let stream = gpu.stream.handle();
            // SAFETY: the buffers are on this device and as long as was checked; the stream and the communicator live.
            unsafe { (self.nccl.api.all_gather)(from, to, count, T::CODE, self.handle, stream) }
        })
    }

    /// Adds the elements of all ranks and gives every rank its part of the sums, in the stream of `device`. `to` may be
    /// this rank's part of `from`.
    ///
    /// # Errors
    ///
    /// Returns an error unless `from` has `to`'s elements once for each rank, and the other errors of
    /// [`all_gather`](Communicator::all_gather).
    pub fn reduce_scatter<T: NcclElement>(
        &self,
        device: &Device,
        from: &Buffer<T>,
        to: &Buffer<T>,
    ) -> Result<(), Error> {
        let count = to.len();
        self.lengths(
            "the buffer of the terms",
            from,
            count.saturating_mul(self.ranks),
        )?;
        self.enqueue(
            "ncclReduceScatter",
            device,
            [from, to],
            |gpu, [from, to]| {
                let (stream, reduce_scatter) = (gpu.stream.handle(), self.nccl.api.reduce_scatter);
                // SAFETY: as in `all_gather`.
                unsafe { reduce_scatter(from, to, count, T::CODE, SUM, self.handle, stream) }
            },
        )
    }

    /// Adds the elements of all ranks on every rank, in the stream of `device`. `to` may be `from`.
    ///
    /// # Errors
    ///
    /// Returns an error unless both buffers have one length, and the other errors of
    /// [`all_gather`](Communicator::all_gather).
    pub fn all_reduce<T: NcclElement>(
        &self,
        device: &Device,
        from: &Buffer<T>,
        to: &Buffer<T>,
    ) -> Result<(), Error> {
        let count = from.len();
        self.lengths("the buffer of the sums", to, count)?;
        self.enqueue("ncclAllReduce", device, [from, to], |gpu, [from, to]| {
            let (stream, all_reduce) = (gpu.stream.handle(), self.nccl.api.all_reduce);
            // SAFETY: as in `all_gather`.
            unsafe { all_reduce(from, to, count, T::CODE, SUM, self.handle, stream) }
        })
    }

    /// Runs collectives of several ranks of this process as one: a thread that holds several communicators must not call
    /// a collective of one rank alone, which may wait for the other ranks.
    ///
    /// # Errors
    ///
    /// Returns the error of the function, NCCL's error, and an error if NCCL does not begin in time.
    pub fn group<E: From<Error>>(
        ranks: &[Communicator],
        work: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        group::run(work)?;
        for rank in ranks {
            rank.settle("ncclGroupEnd", "a collective of the communicator")?;
        }
        Ok(())
    }

    /// Returns an error if NCCL has met one in the background, for example a rank that is gone. The communicator is then
    /// aborted.
    ///
    /// # Errors
    ///
    /// Returns NCCL's error, and an error after a failure.
    pub fn check(&self) -> Result<(), Error> {
        self.of_use()?;
        let asked = self.is_settled("ncclCommGetAsyncError");
        asked
            .map(drop)
            .inspect_err(|error| self.fail(error.to_string()))
    }

    /// Gives the communicator up, and ends the kernels of its collectives that wait for other ranks.
    pub fn abort(self) {
        self.fail("it was aborted".to_string());
    }

    fn lengths<T: NcclElement>(
        &self,
        what: &'static str,
        buffer: &Buffer<T>,
        expected: usize,
    ) -> Result<(), Error> {
        let found = buffer.len();
        if found == expected {
            return Ok(());
        }
        Err(ErrorKind::Length {
            what,
            expected,
            found,
        }
        .into())
    }

    /// Checks a collective, begins it, and asks for it until it is enqueued.
    fn enqueue<T: NcclElement>(
        &self,
        call: &'static str,
        device: &Device,
        [from, to]: [&Buffer<T>; 2],
        begin: impl FnOnce(&Gpu, [*mut c_void; 2]) -> u32,
    ) -> Result<(), Error> {
        self.device.check_same("the stream", device)?;
        self.device
            .check_same("the buffer to be read", from.device())?;
        self.device
            .check_same("the buffer to be written", to.device())?;
        self.of_use()?;
        let Kind::Gpu(gpu) = &device.0 else {
            unreachable!("a communicator is of a GPU, and the device is the same");
        };
        gpu.bind()?;
        let addresses = [from, to].map(|buffer| buffer.address() as *mut c_void);
        self.checked(call, begin(gpu, addresses))?;
        if group::is_open() {
            // The group asks.
            return Ok(());
        }
        self.settle(call, "a collective of the communicator")
    }

    /// Whether it has not failed.
    fn of_use(&self) -> Result<(), Error> {
        match &*self.failure.borrow() {
            None => Ok(()),
            Some(why) => Err(ErrorKind::NcclFailed { why: why.clone() }.into()),
        }
    }

    /// Judges a code; after an error the communicator is of no use.
    fn checked(&self, call: &'static str, code: u32) -> Result<(), Error> {
        let checked = self.nccl.check(call, code, self.handle);
        checked.inspect_err(|error| self.fail(error.to_string()))
    }

    /// Asks until nothing is in progress or the time is over; then the communicator is aborted.
    fn settle(&self, call: &'static str, what: &'static str) -> Result<(), Error> {
        self.of_use()?;
        let settled = peer::poll(self.within, || self.is_settled(call));
        let settled = settled.and_then(|is_settled| {
            if is_settled {
                return Ok(());
            }
            Err(ErrorKind::Deadline {
                what,
                device: self.device.name(),
                within: self.within,
            }
            .into())
        });
        settled.inspect_err(|error| self.fail(error.to_string()))
    }

    fn is_settled(&self, call: &'static str) -> Result<bool, Error> {
        let mut state = 0;
        // SAFETY: the communicator lives; the function stores one number.
        let code = unsafe { (self.nccl.api.get_async_error)(self.handle, &mut state) };
        self.nccl
            .check("ncclCommGetAsyncError", code, self.handle)?;
        self.nccl.check(call, state, self.handle)?;
        Ok(state != IN_PROGRESS)
    }

    /// Aborts the communicator, once.
    fn fail(&self, why: String) {
        let mut failure = self.failure.borrow_mut();
        if failure.is_none() && !self.handle.is_null() {
            // SAFETY: the communicator lives, and is not used after this: `of_use` refuses it.
            unsafe { (self.nccl.api.abort)(self.handle) };
        }
        failure.get_or_insert(why);
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if self.failure.borrow().is_some() || self.handle.is_null() {
            return;
        }
        // SAFETY: the communicator lives. What it still does in the background is asked for until the time is over.
        let code = unsafe { (self.nccl.api.finalize)(self.handle) };
        let finished = self.checked("ncclCommFinalize", code);
        let finished =
            finished.and_then(|()| self.settle("ncclCommFinalize", "the end of the communicator"));
        if finished.is_ok() {
            // SAFETY: the handle has one owner, which is being dropped, and was not aborted.
            unsafe { (self.nccl.api.destroy)(self.handle) };
        }
    }
}

impl std::fmt::Debug for Nccl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Nccl")
    }
}
