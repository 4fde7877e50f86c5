//! The choice of a path, and what ends the collectives of one that has failed.

use std::sync::Arc;
use std::time::Duration;

use colex_device::Device;
use colex_sched::{Overlap, OverlapPlan};

use super::collective::{Collectives, USUAL};
use super::devices::RankDevices;
use super::forecast::RankForecast;
use super::options::{RankOptions, RankSends, RankSums};
use super::product::rank_error;
use crate::error::{Error, HostError};
use crate::gemm::ChunkOrder;
use crate::gemm::chunks::{ChunkForm, takes};
use crate::kernels::{GemmElement, GemmProblem};
use crate::ranks::{RankPath, RankProblem};

/// The path of a product, and why.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) path: RankPath,
    pub(crate) forecast: RankForecast,
    pub(crate) order: OverlapPlan,
    why: String,
    /// Those of a path of NCCL.
    pub(super) collectives: Option<Arc<Collectives>>,
}

impl Chosen {
    /// The predicted times of all ways, which path is taken, its predicted time, and why it is taken.
    pub(crate) fn explain(&self, terms: Option<(RankSends, RankSums)>, pieces: i64) -> String {
        let Chosen {
            path,
            forecast,
            why,
            ..
        } = self;
        let time = forecast.of_way(*path, terms, pieces);
        let time = time.map(|time| format!(", predicted {time:.0} us"));
        format!("{forecast}\nby {path}{}, {why}", time.unwrap_or_default())
    }
}

/// What a choice of a path asks of the devices of all ranks.
pub(crate) struct RankKind<'a> {
    pub(crate) count: usize,
    /// One of them.
    pub(crate) device: &'a Device,
    /// Whether the streams of all set flags.
    pub(crate) has_flags: bool,
    pub(crate) at: RanksAt<'a>,
}

/// Where the ranks are.
pub(crate) enum RanksAt<'a> {
    /// All in this process, which opens the collectives of NCCL.
    Here(&'a RankDevices),
    /// One in this process, and the others in processes of their own: they open the collectives together later.
    Apart {
        /// Why they have no access to each other's memory.
        no_access: Option<&'a HostError>,
        /// Whether some are simulated, and some are GPUs.
        is_mixed: bool,
    },
}

/// Checks a problem, and chooses a path, for terms `S` whose sums are `C`.
pub(crate) fn chosen<T: GemmElement, C: GemmElement, S: GemmElement>(
    ranks: &RankKind<'_>,
    problem: &RankProblem,
    options: &RankOptions,
) -> Result<Chosen, Error> {
    if problem.ranks != ranks.count as i64 {
        return Err(HostError::Ranks {
            problem: problem.to_string(),
            given: ranks.count,
        }
        .into());
    }
    problem.layouts()?;
    let order = OverlapPlan::new(problem.overlap, problem.ranks).map_err(rank_error)?;
    let device = ranks.device;
    let machine = (device.arch(), device.rates());
    let forecast = RankForecast::with_terms::<T, C, S>(problem, machine, &options.links)?;
    let no_access = match ranks.at {
        RanksAt::Here(here) => here.no_access(),
        RanksAt::Apart { no_access, .. } => no_access,
    };
    let refusal = match (problem.ranks, no_access) {
        (1, _) | (_, Some(_)) => None,
        (_, None) => by_memory::<T, C, S>(problem, options, device).err(),
    };
    let (usual, reason) = match (problem.ranks, no_access, ranks.has_flags) {
        (1, _, _) => (
            RankPath::Local,
            "there is one rank, which sends nothing".to_string(),
        ),
        (_, Some(why), _) => (forecast.by_nccl(), why.to_string()),
        (_, None, true) if refusal.is_some() && !asks_for_memory(problem, options) => {
            let why = refusal.as_ref().map(HostError::to_string);
            (RankPath::OneAfterAnother, why.unwrap_or_default())
        }
        (_, None, true) => {
            let why = "all ranks have access to each other's memory, and streams set flags";
            (RankPath::PeerMemory, why.to_string())
        }
        (_, None, false) => {
            let why = "the driver's streams set no flags on these devices";
            (RankPath::OneAfterAnother, why.to_string())
        }
    };
    let path = options.path.unwrap_or(usual);
    let refused = |why| {
        let path = path.to_string();
        Err(HostError::Path { path, why }.into())
    };
    let mut collectives = None;
    match (path, problem.ranks) {
        (RankPath::Local, 1) => {
            if let Some(why) = no_access {
                return Err(why.clone().into());
            }
        }
        (_, 1) => return refused("there is one rank, which sends nothing"),
        (RankPath::Local, _) => return refused("there are several ranks"),
        (RankPath::PeerMemory | RankPath::OneAfterAnother, _) if no_access.is_some() => {
            let why = no_access.cloned().expect("it was asked");
            return Err(why.into());
        }
        (RankPath::PeerMemory, _) if !ranks.has_flags => {
            return refused("the driver's streams set no flags on these devices");
        }
        (RankPath::PeerMemory, _) if let Some(why) = &refusal => return Err(why.clone().into()),
        (RankPath::PeerMemory | RankPath::OneAfterAnother, _) => {}
        (RankPath::NcclAfter | RankPath::NcclInChunks, _) => {
            let within = options.nccl_within.unwrap_or(USUAL);
            let opened = match ranks.at {
                RanksAt::Here(here) => here.collectives(path, within).map(Some),
                RanksAt::Apart { is_mixed: true, .. } => {
                    let path = path.to_string();
                    Err(HostError::Mixed { path }.into())
                }
                RanksAt::Apart { .. } => Collectives::check_engine(device, path).map(|()| None),
            };
            collectives = opened.map_err(|error| without(no_access, options, error))?;
        }
    }
    Ok(Chosen {
        path,
        why: match options.path {
            None => format!("since {reason}"),
            Some(_) => "as the caller chose".to_string(),
        },
        forecast,
        order,
        collectives,
    })
}

/// Whether a caller asks for what only the path of peer memory has.
fn asks_for_memory(problem: &RankProblem, options: &RankOptions) -> bool {
    problem.overlap != Overlap::GatherProduct
        && (options.sends.is_some_and(|of| of != RankSends::Engines)
            || options.sums.is_some_and(|of| of != RankSums::Kernel)
            || options.pieces.is_some_and(|pieces| pieces > 1))
}

/// Refuses a product that no kernel takes on the path of peer memory.
fn by_memory<T: GemmElement, C: GemmElement, S: GemmElement>(
    problem: &RankProblem,
    options: &RankOptions,
    device: &Device,
) -> Result<(), HostError> {
    let RankProblem {
        overlap,
        ranks,
        m,
        n,
        k,
    } = *problem;
    let rows = m / ranks;
    let plain = ChunkForm {
        order: ChunkOrder::Descending,
        arrives: true,
        owners: 0,
        departs: false,
        adds: false,
        leaves_last: false,
    };
    let path = RankPath::PeerMemory.to_string();
    let gathers = overlap == Overlap::GatherProduct;
    let is_taken = |n: i64| {
        if gathers {
            let each = GemmProblem::new(rows, n / ranks, k);
            let each = GemmProblem {
                batch: ranks,
                ..each
            };
            return takes::<T, C>(&each, plain, device);
        }
        let each = GemmProblem::new(rows, n, k / ranks);
        let each = GemmProblem {
            batch: ranks,
            ..each
        };
        let sends = options.sends.unwrap_or(RankSends::Engines);
        let form = ChunkForm {
            order: ChunkOrder::Ascending,
            arrives: false,
            departs: sends == RankSends::Engines,
            owners: match sends {
                RankSends::Engines => 0,
                RankSends::Kernel | RankSends::Reduction => ranks as usize,
            },
            adds: sends == RankSends::Reduction,
            ..plain
        };
        takes::<T, S>(&each, form, device)
    };
    let Err(why) = is_taken(n) else {
        return Ok(());
    };
    let multiple = (16 / S::BYTES as i64).max(1);
    let next = (n / multiple + 1).saturating_mul(multiple);
    if !gathers && n % multiple != 0 && is_taken(next).is_ok() {
        return Err(HostError::Columns {
            n,
            ty: S::TY,
            multiple,
            next,
            path,
            others: [
                RankPath::OneAfterAnother,
                RankPath::NcclInChunks,
                RankPath::NcclAfter,
            ]
            .map(|path| format!("`{path}`"))
            .join(", "),
        });
    }
    let why = why.to_string();
    Err(HostError::NoKernel { path, why })
}

/// The error of a path that no one chose, where NCCL cannot be had.
fn without(no_access: Option<&HostError>, options: &RankOptions, error: Error) -> Error {
    match (no_access.cloned(), options.path) {
        (
            Some(HostError::NoAccess {
                from,
                to,
                device,
                peer,
            }),
            None,
        ) => HostError::NoWay {
            from,
            to,
            device,
            peer,
            why: error.to_string(),
        }
        .into(),
        (Some(reason), None) => HostError::NoCollectives {
            reason: reason.to_string(),
            why: error.to_string(),
        }
        .into(),
        _ => error,
    }
}

/// A result, after an error of which the collectives end; `within` is the time of a wait, which also asks NCCL for errors of the
/// background.
pub(super) fn ended(
    done: Result<(), Error>,
    collectives: Option<&Arc<Collectives>>,
    within: Option<Duration>,
) -> Result<(), Error> {
    let Some(collectives) = collectives else {
        return done;
    };
    let done = match within {
        Some(_) => done.and_then(|()| collectives.check()),
        None => done,
    };
    done.map_err(|error| collectives.end(error, within))
}
