//! `RankDevices`: the devices of a product, and the streams in which their copy engines work.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use colex_device::{Buffer, Device, Element, Event, Flags};

use super::choice::{RankKind, RanksAt};
use super::collective::Collectives;
use crate::error::{Error, HostError};
use crate::gemm::chunks::MOST_OWNERS;
use crate::kernels::GemmElement;
use crate::ranks::work::scatter::ScatterWork;
use crate::ranks::work::{Member, RankWork};
use crate::ranks::{RankPath, RankSends};

/// The devices of the ranks of one process, each with a stream for its kernels and one for copies.
///
/// One device may have several ranks: then their work shares it. Without access to each other's memory, as simulated devices
/// are, ranks have the collectives of NCCL.
///
/// ```
/// use colex_gpu::Device;
/// use colex_gpu::ranks::RankDevices;
///
/// let device = Device::simulator(colex_atom::Arch::Sm90a);
/// let ranks = RankDevices::new(&[device.clone(), device])?;
/// assert_eq!(ranks.count(), 2);
/// assert_eq!(
///     RankDevices::new(&[]).unwrap_err().to_string(),
///     "0 devices: a product takes 1 to 16, one for each rank"
/// );
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RankDevices {
    members: Vec<Member>,
    has_flags: bool,
    /// The first two of which one has no access to the memory of the other.
    no_access: Option<HostError>,
    /// Opened by the first product that needs them, and closed by one that fails.
    collectives: Arc<Mutex<Option<Arc<Collectives>>>>,
}

/// For how long flags are written after a failure.
pub(crate) const RELEASE: Duration = Duration::from_secs(2);

impl RankDevices {
    /// The most devices.
    pub const MOST: usize = MOST_OWNERS;

    /// Makes the devices the ranks of products, in their order. Kernels run in the stream of each handle.
    ///
    /// # Errors
    ///
    /// Returns an error for no device or more than [`RankDevices::MOST`], and for devices of different architectures. Returns the
    /// driver's error. A product refuses devices without access to each other's memory unless it has the collectives of NCCL.
    pub fn new(devices: &[Device]) -> Result<RankDevices, Error> {
        let (given, most) = (devices.len(), RankDevices::MOST);
        let [first, ..] = devices else {
            return Err(HostError::Devices { given, most }.into());
        };
        if given > most {
            return Err(HostError::Devices { given, most }.into());
        }
        for (rank, device) in devices.iter().enumerate() {
            if device.arch() != first.arch() {
                return Err(HostError::Archs {
                    rank,
                    name: device.name(),
                    found: device.arch().to_string(),
                    first: first.arch().to_string(),
                }
                .into());
            }
        }
        let (mut has_flags, mut no_access) = (true, None);
        for (rank, device) in devices.iter().enumerate() {
            for (other, peer) in devices.iter().enumerate() {
                if device.can_access(peer)? {
                    device.enable_access(peer)?;
                } else {
                    no_access.get_or_insert(HostError::NoAccess {
                        from: rank,
                        to: other,
                        device: device.name(),
                        peer: peer.name(),
                    });
                }
            }
            has_flags &= device.has_stream_flags()?;
        }
        let members = devices.iter().enumerate();
        let members = members.map(|(rank, device)| Member::new(rank, device));
        Ok(RankDevices {
            members: members.collect::<Result<_, _>>()?,
            has_flags,
            no_access,
            collectives: Arc::default(),
        })
    }

    /// Returns the number of ranks.
    pub fn count(&self) -> usize {
        self.members.len()
    }

    /// Returns the device of a rank, with the stream of its kernels.
    pub fn device(&self, rank: usize) -> Option<&Device> {
        self.members.get(rank).map(|member| &member.device)
    }

    pub(super) fn members(&self) -> &[Member] {
        &self.members
    }

    /// The first two ranks of which one has no access to the memory of the other.
    pub(super) fn no_access(&self) -> Option<&HostError> {
        self.no_access.as_ref()
    }

    /// The collectives of these ranks, which are opened once.
    pub(super) fn collectives(
        &self,
        path: RankPath,
        within: Duration,
    ) -> Result<Arc<Collectives>, Error> {
        let opened = self.collectives.lock();
        let mut opened = opened.unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = opened.as_ref().filter(|known| known.is_of_use()) {
            return Ok(known.clone());
        }
        let devices: Vec<Device> = self.members.iter().map(|m| m.device.clone()).collect();
        let new = Arc::new(Collectives::open(&devices, path, within)?);
        *opened = Some(new.clone());
        Ok(new)
    }

    /// The buffers of all ranks as the work of one rank has them.
    pub(super) fn as_peers<T: Element>(
        &self,
        rank: usize,
        buffers: &[Buffer<T>],
    ) -> Result<Vec<Buffer<T>>, Error> {
        let device = &self.members[rank].device;
        let each = buffers.iter();
        each.map(|buffer| Ok(buffer.as_peer_of(device)?)).collect()
    }

    /// What a choice of a path asks of these devices.
    pub(super) fn kind(&self) -> RankKind<'_> {
        RankKind {
            count: self.count(),
            device: &self.members[0].device,
            has_flags: self.has_flags,
            at: RanksAt::Here(self),
        }
    }

    /// Refuses kernels that add to the sums of other ranks if a link does not carry atomic operations.
    pub(super) fn check_sends(&self, sends: RankSends) -> Result<(), Error> {
        if sends != RankSends::Reduction {
            return Ok(());
        }
        for (from, Member { device, .. }) in self.members.iter().enumerate() {
            for (to, Member { device: peer, .. }) in self.members.iter().enumerate() {
                if !device.has_native_atomics(peer)? {
                    let (device, peer) = (device.name(), peer.name());
                    return Err(HostError::NoAtomics {
                        from,
                        to,
                        device,
                        peer,
                    }
                    .into());
                }
            }
        }
        Ok(())
    }

    /// Begins a round of sums over ranks. What goes into the memory of an owner waits until this has come: the copies, or the kernels that
    /// store. A kernel whose terms copies take away waits for its own last copies alone, and no event of another device holds it up. Where
    /// kernels add to the sum of an owner, all sums are zeros before the first kernel.
    pub(super) fn begin<T: GemmElement, S: GemmElement, C: GemmElement>(
        &self,
        works: &[ScatterWork<T, S, C>],
        (came, round): (&[Event], u32),
    ) -> Result<(), Error> {
        for work in works {
            let Member { device, copies, .. } = work.member();
            if work.sends() == RankSends::Engines {
                device.wait_for(&copies.record()?)?;
            } else {
                wait_for(device, came)?;
            }
            wait_for(copies, came)?;
            work.begin(round)?;
        }
        if works
            .iter()
            .any(|work| work.sends() == RankSends::Reduction)
        {
            let zeros = self.record()?;
            for member in &self.members {
                wait_for(&member.device, &zeros)?;
            }
        }
        Ok(())
    }

    /// Events at the ends of the streams in which kernels run.
    pub(super) fn record(&self) -> Result<Vec<Event>, Error> {
        let each = self.members.iter();
        each.map(|member| Ok(member.device.record()?)).collect()
    }

    /// Events at the ends of the streams of copies.
    pub(super) fn record_copies(&self) -> Result<Vec<Event>, Error> {
        let each = self.members.iter();
        each.map(|member| Ok(member.copies.record()?)).collect()
    }

    /// Waits until all streams are done, for at most `within`; else releases the flags. The events are those of the last round, at
    /// which each rank came to it: a rank that has not come holds up the others, and is the one that is named.
    pub(super) fn wait(
        &self,
        within: Duration,
        (came, flags): (&[Event], &[&Flags]),
    ) -> Result<(), Error> {
        let start = Instant::now();
        for (rank, member) in self.members.iter().enumerate() {
            for stream in [&member.copies, &member.news, &member.device] {
                let left = within.saturating_sub(start.elapsed());
                match stream.synchronize_within(left) {
                    Ok(()) => {}
                    Err(error) => {
                        let absent = came.iter().position(|event| {
                            matches!(event.is_reached(), Ok(false)) && error.is_deadline()
                        });
                        release(flags);
                        if !error.is_deadline() {
                            return Err(error.into());
                        }
                        let rank = absent.unwrap_or(rank);
                        return Err(HostError::Late { rank, within }.into());
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether all streams end within a time. Those of a device that is lost have ended.
    pub(super) fn have_ended(&self, within: Duration) -> bool {
        let start = Instant::now();
        let mut streams = self
            .members
            .iter()
            .flat_map(|member| [&member.copies, &member.news, &member.device]);
        streams.all(|stream| {
            let left = within.saturating_sub(start.elapsed());
            match stream.synchronize_within(left) {
                Ok(()) => true,
                Err(error) => !error.is_deadline(),
            }
        })
    }
}

/// Lets all kernels and streams pass that wait for flags. What fails here fails behind another error, which is the one to report.
pub(super) fn release(flags: &[&Flags]) {
    for of_rank in flags {
        let _ = of_rank.release(RELEASE);
    }
}

/// Makes a stream wait for events.
pub(super) fn wait_for(device: &Device, events: &[Event]) -> Result<(), Error> {
    let mut events = events.iter();
    events.try_for_each(|event| Ok(device.wait_for(event)?))
}
