//! The collectives of the paths by NCCL: those of the library on GPUs, and the host's copies and sums on simulated devices.

use core::fmt;
#[cfg(feature = "nccl")]
use std::sync::mpsc;
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use colex_device::{Buffer, Device};

#[cfg(feature = "nccl")]
use colex_device::cuda::{Communicator, NcclId};

use super::devices::RELEASE;
use crate::error::{Error, HostError, MeetingFailure};
use crate::kernels::GemmElement;
use crate::ranks::RankPath;

/// The time of NCCL to make communicators, or to begin a collective, unless the caller says another.
pub(crate) const USUAL: Duration = Duration::from_secs(60);

/// What all ranks do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    Gather,
    Scatter,
    Reduce,
}

/// A rank's part in a collective: its stream, what it gives and what it takes.
pub(super) struct RankPart<'a, T> {
    #[cfg_attr(
        not(feature = "nccl"),
        expect(dead_code, reason = "simulated work has ended when a call returns")
    )]
    pub(super) stream: &'a Device,
    pub(super) from: Buffer<T>,
    pub(super) to: Buffer<T>,
}

/// What brings the bytes of ranks with a process each to all of them, where simulated devices have no NCCL.
pub(crate) trait Bring: fmt::Debug + Send + Sync {
    /// The number of this rank.
    fn rank(&self) -> usize;

    /// Gives bytes to all ranks, and returns as many of every rank. All ranks make this call.
    fn bring(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error>;
}

/// The collectives of all ranks of this process: of all that there are, or of one.
#[derive(Debug)]
pub(crate) struct Collectives(Mutex<Engine>);

#[derive(Debug)]
enum Engine {
    /// The host, on simulated devices.
    Host,
    /// One rank with a simulated device, among those of other processes.
    Among(Weak<dyn Bring>),
    #[cfg(feature = "nccl")]
    Nccl(Vec<Communicator>),
    /// It has failed, and this is why.
    Failed(String),
}

impl Collectives {
    /// Opens the collectives of these devices, one rank on each, for a path.
    pub(super) fn open(
        devices: &[Device],
        path: RankPath,
        within: Duration,
    ) -> Result<Collectives, Error> {
        let simulated = devices.iter().filter(|device| device.is_simulator());
        let engine = match simulated.count() {
            0 => opened(devices, path, within)?,
            count if count == devices.len() => Engine::Host,
            _ => {
                let path = path.to_string();
                return Err(HostError::Mixed { path }.into());
            }
        };
        Ok(Collectives(Mutex::new(engine)))
    }

    /// Opens the collectives of one rank, of its number and that of all: all ranks make this call with the same
    /// [`id`](Collectives::id), which one of them makes.
    pub(crate) fn of_rank(
        device: &Device,
        of: (usize, usize),
        id: &[u8],
        within: Duration,
        ranks: Weak<dyn Bring>,
    ) -> Result<Collectives, Error> {
        let engine = if device.is_simulator() {
            Engine::Among(ranks)
        } else {
            joined(device, of, id, within)?
        };
        Ok(Collectives(Mutex::new(engine)))
    }

    /// Refuses a path by NCCL where this process has none.
    pub(crate) fn check_engine(device: &Device, path: RankPath) -> Result<(), Error> {
        if device.is_simulator() {
            return Ok(());
        }
        has_engine(path)
    }

    /// The bytes by which all ranks open the same collectives; simulated devices need none.
    pub(crate) fn id(device: &Device) -> Result<Vec<u8>, Error> {
        if device.is_simulator() {
            return Ok(Vec::new());
        }
        new_id()
    }

    fn engine(&self) -> MutexGuard<'_, Engine> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether they have not failed.
    pub(super) fn is_of_use(&self) -> bool {
        !matches!(*self.engine(), Engine::Failed(_))
    }

    /// Enqueues a collective, with a part of each rank in their order.
    pub(super) fn enqueue<T: GemmElement>(
        &self,
        does: Does,
        parts: &[RankPart<'_, T>],
    ) -> Result<(), Error> {
        let among = match &*self.engine() {
            Engine::Among(ranks) => Some(ranks.clone()),
            _ => None,
        };
        if let Some(ranks) = among {
            // The lock is free: what these ranks hear from each other may end the collectives.
            let ranks = ranks.upgrade().ok_or_else(|| HostError::Failed {
                why: "this rank has left the others".to_string(),
            })?;
            return parts
                .iter()
                .try_for_each(|part| among_ranks(does, part, &*ranks));
        }
        match &*self.engine() {
            Engine::Host => on_host(does, parts),
            Engine::Among(_) => Ok(()),
            #[cfg(feature = "nccl")]
            Engine::Nccl(ranks) => Communicator::group(ranks, || {
                ranks.iter().zip(parts).try_for_each(|(rank, part)| {
                    let RankPart { stream, from, to } = part;
                    match does {
                        Does::Gather => rank.all_gather(stream, from, to),
                        Does::Scatter => rank.reduce_scatter(stream, from, to),
                        Does::Reduce => rank.all_reduce(stream, from, to),
                    }
                })
            })
            .map_err(Error::from),
            Engine::Failed(why) => Err(HostError::Failed { why: why.clone() }.into()),
        }
    }

    /// Enqueues an all-gather of a few words of this rank by NCCL. Simulated ranks have none.
    pub(crate) fn gather_words(
        &self,
        stream: &Device,
        from: &Buffer<u32>,
        to: &Buffer<u32>,
    ) -> Result<(), Error> {
        #[cfg(not(feature = "nccl"))]
        let _ = (stream, from, to);
        match &*self.engine() {
            Engine::Host | Engine::Among(_) => Ok(()),
            #[cfg(feature = "nccl")]
            Engine::Nccl(ranks) => Communicator::group(ranks, || {
                ranks
                    .iter()
                    .try_for_each(|rank| rank.all_gather(stream, from, to))
            })
            .map_err(Error::from),
            Engine::Failed(why) => Err(HostError::Failed { why: why.clone() }.into()),
        }
    }

    /// Asks for errors that NCCL has met in the background.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match &*self.engine() {
            Engine::Host | Engine::Among(_) => Ok(()),
            #[cfg(feature = "nccl")]
            Engine::Nccl(ranks) => Ok(ranks.iter().try_for_each(Communicator::check)?),
            Engine::Failed(why) => Err(HostError::Failed { why: why.clone() }.into()),
        }
    }

    /// Ends all collectives after an error of a run or a wait, and returns the error to report: what NCCL has met in the background
    /// says more than a time that is over.
    pub(super) fn end(&self, error: Error, within: Option<Duration>) -> Error {
        let met: Option<Error> = match &*self.engine() {
            Engine::Host | Engine::Among(_) | Engine::Failed(_) => None,
            #[cfg(feature = "nccl")]
            Engine::Nccl(ranks) if error.lost_rank().is_some() => {
                let mut met = ranks.iter().filter_map(|rank| rank.check().err());
                met.next().map(Error::from)
            }
            #[cfg(feature = "nccl")]
            Engine::Nccl(_) => None,
        };
        let error = match (met, error.lost_rank(), within) {
            (Some(met), _, _) => met,
            (None, Some(rank), Some(within)) => HostError::Cut { rank, within }.into(),
            (None, _, _) => error,
        };
        self.cut(&error).has_ended(RELEASE);
        error
    }

    /// Begins to abort all collectives because of an error. A thread of its own aborts them: NCCL frees memory in an abort, for which
    /// the driver may wait for all streams of the devices. Those of other products end only when their flags are released.
    pub(crate) fn cut(&self, why: &Error) -> Abort {
        let ended = {
            let mut engine = self.engine();
            if matches!(*engine, Engine::Failed(_)) {
                return Abort::default();
            }
            std::mem::replace(&mut *engine, Engine::Failed(why.to_string()))
        };
        match ended {
            Engine::Host | Engine::Among(_) | Engine::Failed(_) => Abort::default(),
            #[cfg(feature = "nccl")]
            Engine::Nccl(ranks) => {
                let (ended, ends) = mpsc::channel();
                let abort = move || {
                    ranks.into_iter().for_each(Communicator::abort);
                    // No one may wait for it any more.
                    let _ = ended.send(());
                };
                // Without a thread the communicators end as those that are dropped, within their time.
                let _ = std::thread::Builder::new().spawn(abort);
                Abort(Some(ends))
            }
        }
    }
}

/// An abort that has begun.
#[derive(Default)]
pub(crate) struct Abort(Option<Receiver<()>>);

impl Abort {
    /// Whether it returns within a time. If not, streams may still run.
    pub(crate) fn has_ended(&self, within: Duration) -> bool {
        let ends = self.0.as_ref();
        ends.is_none_or(|ends| ends.recv_timeout(within).is_ok())
    }
}

#[cfg(feature = "nccl")]
fn opened(devices: &[Device], _: RankPath, within: Duration) -> Result<Engine, Error> {
    Ok(Engine::Nccl(Communicator::all(devices, within)?))
}

#[cfg(feature = "nccl")]
fn joined(
    device: &Device,
    (rank, ranks): (usize, usize),
    id: &[u8],
    within: Duration,
) -> Result<Engine, Error> {
    let id = NcclId::from_bytes(id)?;
    let own = Communicator::new(device, &id, rank, ranks, within)?;
    Ok(Engine::Nccl(vec![own]))
}

#[cfg(feature = "nccl")]
fn has_engine(_: RankPath) -> Result<(), Error> {
    Ok(NcclId::check()?)
}

#[cfg(feature = "nccl")]
fn new_id() -> Result<Vec<u8>, Error> {
    Ok(NcclId::new()?.as_bytes().to_vec())
}

#[cfg(not(feature = "nccl"))]
use absent::{has_engine, joined, new_id, opened};

/// What a build without the feature `nccl` says.
#[cfg(any(test, not(feature = "nccl")))]
mod absent {
    use super::{Device, Duration, Engine, Error, HostError, RankPath};

    pub(super) fn opened(_: &[Device], path: RankPath, _: Duration) -> Result<Engine, Error> {
        Err(without_nccl(path))
    }

    pub(super) fn joined(
        _: &Device,
        _: (usize, usize),
        _: &[u8],
        _: Duration,
    ) -> Result<Engine, Error> {
        Err(without_nccl(RankPath::NcclAfter))
    }

    pub(super) fn has_engine(path: RankPath) -> Result<(), Error> {
        Err(without_nccl(path))
    }

    pub(super) fn new_id() -> Result<Vec<u8>, Error> {
        Err(without_nccl(RankPath::NcclAfter))
    }

    fn without_nccl(path: RankPath) -> Error {
        let (path, why) = (
            path.to_string(),
            "this build has no NCCL: the feature `nccl` of colex-gpu adds it",
        );
        HostError::Path { path, why }.into()
    }
}

/// A collective on simulated devices, whose work has ended when a call returns.
fn on_host<T: GemmElement>(does: Does, parts: &[RankPart<'_, T>]) -> Result<(), Error> {
    let given = parts.iter().map(|part| part.from.download());
    let given = given.collect::<Result<Vec<_>, _>>()?;
    let all = combined(does, &given);
    for (rank, part) in parts.iter().enumerate() {
        part.to.write(taken(does, &all, (rank, part.to.len())))?;
    }
    Ok(())
}

/// A collective on the simulated device of one rank, of which the others have a process each.
fn among_ranks<T: GemmElement>(
    does: Does,
    part: &RankPart<'_, T>,
    ranks: &dyn Bring,
) -> Result<(), Error> {
    let own = T::to_bytes(&part.from.download()?);
    let given = ranks.bring(&own)?;
    let other = given.iter().position(|bytes| bytes.len() != own.len());
    if let Some(rank) = other {
        return Err(MeetingFailure::Foreign { rank }.into());
    }
    let given: Vec<Vec<T>> = given.iter().map(|bytes| T::from_bytes(bytes)).collect();
    let all = combined(does, &given);
    let length = part.to.len();
    Ok(part.to.write(taken(does, &all, (ranks.rank(), length)))?)
}

/// What a collective makes of the elements of all ranks.
fn combined<T: GemmElement>(does: Does, given: &[Vec<T>]) -> Vec<T> {
    match does {
        Does::Gather => given.concat(),
        Does::Scatter | Does::Reduce => sums(given),
    }
}

/// The part of it that a rank takes, of a length.
fn taken<T>(does: Does, all: &[T], (rank, length): (usize, usize)) -> &[T] {
    match does {
        Does::Gather | Does::Reduce => all,
        Does::Scatter => &all[rank * length..][..length],
    }
}

/// Sums as a ring of ranks forms them: each rank has one part of them, its own term is the last that is added, and every addition
/// rounds to the type of the terms.
fn sums<T: GemmElement>(terms: &[Vec<T>]) -> Vec<T> {
    let (ranks, count) = (terms.len(), terms.first().map_or(0, Vec::len));
    let sum = |at: usize| {
        let owner = at * ranks / count;
        let around = (1..=ranks).map(|step| terms[(owner + step) % ranks][at]);
        let add = |sum: T, term: T| T::from_f64(sum.to_f64() + term.to_f64());
        around.reduce(add).expect("at least one rank")
    };
    (0..count).map(sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_of_a_build_without_nccl_verbatim() {
        let device = Device::simulator(colex_atom::Arch::Sm90a);
        let within = Duration::from_secs(1);
        let name = |path: RankPath| {
            format!(
                "the path {path} is not taken here: this build has no NCCL: the feature `nccl` of colex-gpu adds it"
            )
        };
        for path in [RankPath::NcclAfter, RankPath::NcclInChunks] {
            let opened = absent::opened(std::slice::from_ref(&device), path, within).map(drop);
            for refused in [opened, absent::has_engine(path)] {
                let error = refused.unwrap_err();
                assert!(error.is_ranks_refused());
                assert_eq!(error.to_string(), name(path));
            }
        }
        let joined = absent::joined(&device, (0, 2), &[], within).map(drop);
        for refused in [joined, absent::new_id().map(drop)] {
            assert_eq!(refused.unwrap_err().to_string(), name(RankPath::NcclAfter));
        }
    }
}
