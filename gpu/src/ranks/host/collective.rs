//! The collectives of the paths by NCCL: those of the library on GPUs, and the host's copies and sums on simulated devices.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use colex_device::{Buffer, Device};

#[cfg(feature = "nccl")]
use colex_device::cuda::Communicator;

use crate::error::{Error, HostError};
use crate::kernels::GemmElement;
use crate::ranks::RankPath;

/// The time of NCCL to make communicators, or to begin a collective, unless the caller says another.
pub(super) const USUAL: Duration = Duration::from_secs(60);

/// What all ranks do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
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

/// The collectives of all ranks of this process.
#[derive(Debug)]
pub(super) struct Collectives(Mutex<Engine>);

#[derive(Debug)]
enum Engine {
    /// The host, on simulated devices.
    Host,
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
        match &*self.engine() {
            Engine::Host => on_host(does, parts),
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

    /// Asks for errors that NCCL has met in the background.
    pub(super) fn check(&self) -> Result<(), Error> {
        match &*self.engine() {
            Engine::Host => Ok(()),
            #[cfg(feature = "nccl")]
            Engine::Nccl(ranks) => Ok(ranks.iter().try_for_each(Communicator::check)?),
            Engine::Failed(why) => Err(HostError::Failed { why: why.clone() }.into()),
        }
    }

    /// Ends all collectives after an error of a run or a wait, and returns the error to report: what NCCL has met in the background
    /// says more than a time that is over.
    pub(super) fn end(&self, error: Error, within: Option<Duration>) -> Error {
        let mut engine = self.engine();
        let met: Option<Error> = match &*engine {
            Engine::Host | Engine::Failed(_) => None,
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
        let ended = std::mem::replace(&mut *engine, Engine::Failed(error.to_string()));
        match ended {
            Engine::Host => {}
            #[cfg(feature = "nccl")]
            Engine::Nccl(ranks) => ranks.into_iter().for_each(Communicator::abort),
            Engine::Failed(first) => *engine = Engine::Failed(first),
        }
        error
    }
}

#[cfg(feature = "nccl")]
fn opened(devices: &[Device], _: RankPath, within: Duration) -> Result<Engine, Error> {
    Ok(Engine::Nccl(Communicator::all(devices, within)?))
}

#[cfg(not(feature = "nccl"))]
fn opened(_: &[Device], path: RankPath, _: Duration) -> Result<Engine, Error> {
    let (path, why) = (
        path.to_string(),
        "this build has no NCCL: the feature `nccl` of colex-gpu adds it",
    );
    Err(HostError::Path { path, why }.into())
}

/// A collective on simulated devices, whose work has ended when a call returns.
fn on_host<T: GemmElement>(does: Does, parts: &[RankPart<'_, T>]) -> Result<(), Error> {
    let given = parts.iter().map(|part| part.from.download());
    let given = given.collect::<Result<Vec<_>, _>>()?;
    let all = match does {
        Does::Gather => given.concat(),
        Does::Scatter | Does::Reduce => sums(&given),
    };
    for (rank, part) in parts.iter().enumerate() {
        let taken = match does {
            Does::Gather | Does::Reduce => &all[..],
            Does::Scatter => &all[rank * part.to.len()..][..part.to.len()],
        };
        part.to.write(taken)?;
    }
    Ok(())
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
