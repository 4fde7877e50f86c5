//! Products over ranks of which each is a process, or a thread, with a device of its own.

mod call;
mod collectives;
mod fields;
mod marks;
mod nccl;
pub(crate) mod product;
mod rounds;
mod session;
mod shared;
mod signals;
mod works;

use std::sync::Arc;

use colex_device::Device;

use crate::error::{Error, HostError};
use crate::ranks::Meeting;
use crate::ranks::host::choice::{RankKind, RanksAt};
use crate::ranks::host::devices::RankDevices;
use call::printed;
use session::{Facts, Session, Step};

/// One rank of several that each have a process and a device of their own, which begins products with the others
/// ([`ProcessProduct`](super::ProcessProduct)).
///
/// The ranks are processes, or threads of one process ([`Meeting`] connects both). All ranks begin the same products
/// in the same order, and run the same rounds of each. Between two rounds they need no exchange on the host: each tells the others by
/// flags in their memory how far its streams are.
///
/// Ranks without access to each other's memory, as those of several hosts are, have the paths of NCCL, with the feature `nccl`: they
/// need no flags and no memory of another rank, and the ranks run the rounds of all their products in the same order. If a rank does not, every
/// rank gets an error that names two rounds which differ. On simulated devices the meeting takes the place of NCCL.
///
/// A process keeps the memory of a product that it has dropped until all ranks have dropped it, since another process may still use it
/// (CUDA's IPC has no count of its users): the next exchange, or [`leave`](RankProcess::leave), frees it.
///
/// ```
/// use colex_atom::Arch;
/// use colex_gpu::Device;
/// use colex_gpu::ranks::{Meeting, ProcessProduct, RankOptions, RankProblem, RankProcess};
/// use colex_sched::Overlap;
/// use half::bf16;
/// use std::time::Duration;
///
/// // One rank: a process with `Device::gpu(..)`, and `Meeting::listen` or `Meeting::join`.
/// fn rank(meeting: Meeting, device: Device) -> Result<[f32; 2], colex_gpu::Error> {
///     let process = RankProcess::join(meeting, &device)?;
///     let problem = RankProblem { overlap: Overlap::GatherProduct, ranks: 2, m: 16, n: 16, k: 16 };
///     let mut product = ProcessProduct::<bf16, f32>::new(&process, problem, &RankOptions::default())?;
///     product.a()?.write(&[bf16::from_f32(process.rank() as f32 + 1.0); 8 * 16])?;
///     product.b().write(&[bf16::ONE; 8 * 16])?;
///     product.run()?;
///     product.wait(Duration::from_secs(10))?;
///     let c = product.c().download()?;
///     drop(product);
///     process.leave()?;
///     Ok([c[0], c[8 * 8]]) // a row of rank 0, and one of rank 1
/// }
///
/// // Two threads that share a simulated device.
/// let device = Device::simulator(Arch::Sm90a);
/// let meetings = Meeting::local(2, Duration::from_secs(10))?.into_iter();
/// let start = |meeting| {
///     let device = device.clone();
///     std::thread::spawn(move || rank(meeting, device))
/// };
/// let threads: Vec<_> = meetings.map(start).collect();
/// for thread in threads {
///     assert_eq!(thread.join().expect("nothing panics")?, [16.0, 32.0]);
/// }
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Debug)]
pub struct RankProcess {
    session: Arc<Session>,
}

impl RankProcess {
    /// Joins the other ranks of a meeting with the device of this rank. Kernels run in the stream of the handle. All ranks make
    /// this call.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::Device;
    /// use colex_gpu::ranks::{Meeting, RankProcess};
    /// use std::time::Duration;
    ///
    /// let alone = Meeting::local(1, Duration::from_secs(1))?.remove(0);
    /// let process = RankProcess::join(alone, &Device::simulator(Arch::Sm90a))?;
    /// assert_eq!((process.rank(), process.ranks()), (0, 1));
    /// process.leave()?;
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for more than [`RankDevices::MOST`] ranks, for devices of different architectures, and the errors of
    /// [`Meeting::exchange`].
    pub fn join(meeting: Meeting, device: &Device) -> Result<RankProcess, Error> {
        let (given, most) = (meeting.ranks(), RankDevices::MOST);
        if given > most {
            return Err(HostError::Devices { given, most }.into());
        }
        let session = Session::new(meeting, device);
        let has_flags = [u8::from(device.has_stream_flags()?)];
        let is_simulated = [u8::from(device.is_simulator())];
        let (arch, name, host) = (device.arch().to_string(), device.name(), host());
        let fields: [&[u8]; 5] = [
            &has_flags,
            arch.as_bytes(),
            name.as_bytes(),
            &host,
            &is_simulated,
        ];
        let all = session.exchange(Step::Join, fields)?;
        let first = printed(&all[0][1]);
        let mut facts = Facts::default();
        for (rank, [has_flags, arch, name, host, is_simulated]) in all.iter().enumerate() {
            let (found, name) = (printed(arch), printed(name));
            if found != first {
                let first = first.clone();
                return Err(HostError::Archs {
                    rank,
                    name,
                    found,
                    first,
                }
                .into());
            }
            let [_, _, _, first, of_first] = &all[0];
            facts.is_mixed |= is_simulated != of_first;
            if !host.is_empty() && !first.is_empty() && host != first {
                facts.no_access.get_or_insert(HostError::OtherHost { rank });
            }
            if has_flags[..] != [1] {
                let why = HostError::NoFlags { rank, name };
                facts.no_access.get_or_insert(why);
            }
        }
        *session.facts() = facts;
        let session = Arc::new(session);
        Ok(RankProcess { session })
    }

    /// Returns the number of this rank.
    pub fn rank(&self) -> usize {
        self.session.rank()
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.session.ranks()
    }

    /// Returns the device of this rank, with the stream of its kernels.
    pub fn device(&self) -> &Device {
        self.session.device()
    }

    /// Gives bytes to all ranks, and returns those of every rank, as [`Meeting::exchange`] does.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_gpu::Device;
    /// # use colex_gpu::ranks::{Meeting, RankProcess};
    /// # use std::time::Duration;
    /// # let alone = Meeting::local(1, Duration::from_secs(1))?.remove(0);
    /// # let process = RankProcess::join(alone, &Device::simulator(Arch::Sm90a))?;
    /// assert_eq!(process.exchange(b"own")?, [b"own"]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Meeting::exchange`], and an error that names a rank which makes another call of this type.
    pub fn exchange(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        Meeting::check_bytes(own.len())?;
        let all = self.session.exchange(Step::Exchange, [own])?;
        Ok(all.into_iter().map(|[bytes]| bytes).collect())
    }

    /// Leaves the other ranks, once all do so: the memory of all products is then freed. A process that ends without it leaves that
    /// to the driver.
    ///
    /// # Errors
    ///
    /// Returns an error on all ranks if one of them has not dropped a product, the errors of [`Meeting::exchange`], and an error that
    /// names a rank which makes another call of this type. Memory that another process may have open is then kept until this
    /// process ends.
    pub fn leave(self) -> Result<(), Error> {
        let alive = self.session.alive() as u64;
        let all = self.session.exchange(Step::Leave, [&alive.to_le_bytes()])?;
        let alive = |[bytes]: &[Vec<u8>; 1]| bytes.iter().any(|byte| *byte != 0);
        match all.iter().position(alive) {
            Some(rank) => Err(HostError::Alive { rank }.into()),
            None => Ok(()),
        }
    }

    /// Waits for the earlier work of this rank's stream, which may wait for a rank that never comes.
    fn idle(&self) -> Result<(), Error> {
        let (device, within) = (self.device(), self.session.within());
        Ok(device.synchronize_within(within)?)
    }

    /// What a choice of a path asks of the devices of all ranks.
    fn kind<'a>(&'a self, facts: &'a Facts) -> RankKind<'a> {
        RankKind {
            count: self.ranks(),
            device: self.device(),
            // A rank without them has no access.
            has_flags: true,
            at: RanksAt::Apart {
                no_access: facts.no_access.as_ref(),
                is_mixed: facts.is_mixed,
            },
        }
    }
}

/// What names this host since it was started, or nothing where the system does not say it.
fn host() -> Vec<u8> {
    std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}
