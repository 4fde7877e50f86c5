//! `ProcessProduct`: a product and its collective, of one rank among processes.

use core::marker::PhantomData;
use std::time::Duration;

use colex_device::Buffer;
use colex_layout::Layout;
use colex_sched::Overlap;

use super::RankProcess;
use super::call::{ProcessWork, RankCall, SaidWork};
use super::nccl::NcclCall;
use crate::error::{Error, HostError};
use crate::kernels::GemmElement;
use crate::ranks::host::choice::{Chosen, chosen};
use crate::ranks::host::collective::USUAL;
use crate::ranks::host::options::{RankOptions, RankSends};
use crate::ranks::work::Member;
use crate::ranks::work::gather::{GatherShape, GatherWork};
use crate::ranks::work::scatter::{ScatterShape, ScatterWork};
use crate::ranks::{RankPath, RankProblem};

/// A product and its collective, of one rank among processes: the part of a [`RankProduct`](super::super::RankProduct) that this process
/// computes, with the same layouts and the same bits. [`RankProcess`] has an example of an all-gather.
///
/// ```
/// use colex_atom::Arch;
/// use colex_gpu::Device;
/// use colex_gpu::ranks::{Meeting, ProcessProduct, RankOptions, RankProblem, RankProcess};
/// use colex_sched::Overlap;
/// use half::bf16;
/// use std::time::Duration;
///
/// fn rank(meeting: Meeting, device: Device) -> Result<Vec<bf16>, colex_gpu::Error> {
///     let process = RankProcess::join(meeting, &device)?;
///     let overlaps = [Overlap::ProductScatter, Overlap::ProductReduce];
///     let sum = |overlap| {
///         let problem = RankProblem { overlap, ranks: 2, m: 16, n: 8, k: 32 };
///         let mut product = ProcessProduct::<bf16, bf16, f32>::new(&process, problem, &RankOptions::default())?;
///         product.a()?.write(&[bf16::from_f32(process.rank() as f32 + 1.0); 16 * 16])?;
///         product.b().write(&[bf16::ONE; 8 * 16])?;
///         product.run()?;
///         product.wait(Duration::from_secs(10))?;
///         Ok(product.c().download()?[0])
///     };
///     overlaps.into_iter().map(sum).collect()
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
///     assert_eq!(thread.join().expect("nothing panics")?, [bf16::from_f32(16.0 + 32.0); 2]);
/// }
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Debug)]
pub struct ProcessProduct<T, C, S = C> {
    choice: Chosen,
    call: ProcessCall<T, C>,
    terms: PhantomData<fn() -> S>,
}

/// The rank's part of a product, by what brings the data of the others.
#[derive(Debug)]
enum ProcessCall<T, C> {
    /// Memory that the ranks have of each other.
    Memory(RankCall<T, C>),
    /// Collectives.
    Nccl(NcclCall<T, C>),
}

impl<T, C> ProcessCall<T, C> {
    fn work(&self) -> &dyn ProcessWork<T, C> {
        match self {
            ProcessCall::Memory(call) => call.work(),
            ProcessCall::Nccl(call) => call.work(),
        }
    }
}

impl<T: GemmElement, C: GemmElement, S: GemmElement> ProcessProduct<T, C, S> {
    /// Builds the product with all ranks: allocates the operands of this rank, zeros, and opens the memory of the others. All ranks
    /// make this call, with the same problem, types, path, pieces, and ways to send and to add. A sum has one piece unless NCCL forms it.
    ///
    /// Unless a rank asks for a path, all take the faster one of NCCL where a rank has no access to the memory of the others: it is on
    /// another host, its driver's streams set no flags, or it cannot open their memory. [`explain`](ProcessProduct::explain) says which.
    /// The first product by NCCL makes the communicators, from an identifier that rank 0 gives to all: within
    /// [`nccl_within`](RankOptions::nccl_within), and at most half of the time of the meeting.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_gpu::Device;
    /// # use colex_gpu::ranks::{Meeting, ProcessProduct, RankOptions, RankPath, RankProblem, RankProcess};
    /// # use colex_sched::Overlap;
    /// # use half::bf16;
    /// # use std::time::Duration;
    /// fn rank(meeting: Meeting) -> Result<RankPath, colex_gpu::Error> {
    ///     let device = Device::simulator(Arch::Sm90a); // with memory of its own
    ///     let process = RankProcess::join(meeting, &device)?;
    ///     let problem = RankProblem { overlap: Overlap::GatherProduct, ranks: 2, m: 16, n: 16, k: 16 };
    ///     let product = ProcessProduct::<bf16, f32>::new(&process, problem, &RankOptions::default())?;
    ///     let said = product.explain()?;
    ///     assert!(said.contains("since rank 0 has no access to the memory of the others: "), "{said}");
    ///     Ok(product.path())
    /// }
    ///
    /// let meetings = Meeting::local(2, Duration::from_secs(10))?.into_iter();
    /// let threads: Vec<_> = meetings.map(|meeting| std::thread::spawn(|| rank(meeting))).collect();
    /// for thread in threads {
    ///     assert_eq!(thread.join().expect("nothing panics")?, RankPath::NcclAfter);
    /// }
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`RankProduct::new`](super::super::RankProduct::new); an error on every rank that names the first one
    /// with another product than rank 0, or one that has no part of it, with its reason; and those of [`RankProcess::exchange`].
    pub fn new(
        process: &RankProcess,
        problem: RankProblem,
        options: &RankOptions,
    ) -> Result<ProcessProduct<T, C, S>, Error> {
        let knew = process.session.facts().no_access.is_some();
        let first = ProcessProduct::begun(process, problem, options);
        let knows = process.session.facts().no_access.is_some();
        match first {
            // All ranks have found it together, and none has asked for a path.
            Err(_) if options.path.is_none() && knows && !knew => {
                ProcessProduct::begun(process, problem, options)
            }
            first => first,
        }
    }

    /// Begins the product with all ranks.
    fn begun(
        process: &RankProcess,
        problem: RankProblem,
        options: &RankOptions,
    ) -> Result<ProcessProduct<T, C, S>, Error> {
        let facts = process.session.facts().clone();
        let made = || -> Result<(Chosen, SaidWork<T, C>), Error> {
            let choice = chosen::<T, C, S>(&process.kind(&facts), &problem, options)?;
            let mut words = format!("{} to {}", T::TY, C::TY);
            let member = || {
                process.idle()?;
                Member::new(process.rank(), process.device())
            };
            let work: Box<dyn ProcessWork<T, C>> = match problem.overlap {
                Overlap::GatherProduct => {
                    let shape = GatherShape::new(problem, &choice, options)?;
                    Box::new(GatherWork::<T, C>::new(&member()?, &shape)?)
                }
                Overlap::ProductScatter | Overlap::ProductReduce if choice.path.is_by_nccl() => {
                    let shape = ScatterShape::new::<S, C>(problem, &choice, options)?;
                    words = format!("{words}, pieces: {}", shape.pieces);
                    Box::new(ScatterWork::<T, S, C>::new(&member()?, &shape)?)
                }
                Overlap::ProductScatter | Overlap::ProductReduce => {
                    let one = RankOptions {
                        pieces: Some(1),
                        ..*options
                    };
                    let shape = ScatterShape::new::<S, C>(problem, &choice, &one)?;
                    let (rows, most) = (problem.m / problem.ranks, 1);
                    if let Some(pieces) = options.pieces.filter(|pieces| *pieces != most) {
                        return Err(HostError::Pieces { pieces, rows, most }.into());
                    }
                    words = format!("{words}, {}", shape.sends);
                    Box::new(ScatterWork::<T, S, C>::new(&member()?, &shape)?)
                }
            };
            // A product that no kernel takes is refused here, and not by its first run.
            // (Where kernels store into the memory of others, which is not open yet, the choice of the path has asked.)
            let stores = |(sends, _)| sends != RankSends::Engines;
            if !work.terms().is_some_and(stores) {
                work.explain()?;
            }
            Ok((choice, (format!("{}, {words}", work.words()), work)))
        };
        let (choice, part) = match made() {
            Ok((choice, part)) => (Some(choice), Ok(part)),
            Err(error) => (None, Err(error)),
        };
        let is_by_nccl = choice
            .as_ref()
            .is_some_and(|choice| choice.path.is_by_nccl());
        let call = if is_by_nccl {
            let within = options.nccl_within.unwrap_or(USUAL);
            ProcessCall::Nccl(NcclCall::new(&process.session, part, within)?)
        } else {
            let is_free = options.path.is_none();
            ProcessCall::Memory(RankCall::new(&process.session, part, is_free)?)
        };
        Ok(ProcessProduct {
            choice: choice.expect("a call has a part, and this is how it was chosen"),
            call,
            terms: PhantomData,
        })
    }

    /// Returns the path that the call takes.
    pub fn path(&self) -> RankPath {
        self.call.work().taken().0
    }

    /// Returns the pieces in which a chunk of A is copied, each with a flag, or those of the collectives of NCCL; of another sum, one.
    pub fn pieces(&self) -> i64 {
        self.call.work().taken().1
    }

    /// Returns the part of A of this rank, row-major, as [`RankProduct::a`](super::super::RankProduct::a).
    ///
    /// # Errors
    ///
    /// Returns the device's error.
    pub fn a(&self) -> Result<Buffer<T>, Error> {
        self.call.work().a()
    }

    /// Returns the memory of this rank into which A (M,K) is gathered: after a run it has all parts, as
    /// [`gathered_layout`](ProcessProduct::gathered_layout) says. A sum over ranks gathers no A.
    pub fn gathered(&self) -> Option<&Buffer<T>> {
        self.call.work().gathered()
    }

    /// Returns the layout of the gathered A, as [`RankProduct::gathered_layout`](super::super::RankProduct::gathered_layout): row-major,
    /// but on the path [`RankPath::NcclInChunks`].
    ///
    /// # Errors
    ///
    /// Returns an error for more elements than 64 bits count, and of a sum over ranks, which gathers no A.
    pub fn gathered_layout(&self) -> Result<Layout, Error> {
        self.call.work().gathered_layout()
    }

    /// Returns the part of B of this rank, row-major, as [`RankProduct::b`](super::super::RankProduct::b).
    pub fn b(&self) -> &Buffer<T> {
        self.call.work().b()
    }

    /// Returns the part of C of this rank, row-major, as [`RankProduct::c`](super::super::RankProduct::c).
    pub fn c(&self) -> &Buffer<C> {
        self.call.work().c()
    }

    /// Returns what is computed, the plan of the product, the predicted times of all ways, and the path with its predicted time and why it is
    /// taken.
    ///
    /// # Errors
    ///
    /// Returns the errors of the product's plan.
    pub fn explain(&self) -> Result<String, Error> {
        let work = self.call.work();
        let (words, plan) = (work.words(), work.explain()?);
        let chosen = self.choice.explain(work.terms(), self.pieces());
        Ok(format!("{words}\n{plan}\n{chosen}"))
    }

    /// Enqueues a round of this rank: its operands are read and its C is written after the earlier work of its stream, and later work comes
    /// after its part of A has been sent to all ranks in an all-gather, or all have written its C. The host waits for no other rank. (On
    /// the simulator it does, for at most the time of the meeting, since a simulated stream runs each call to its end. On a path of NCCL
    /// it may in the first round, in which the ranks connect, for at most the time of the communicators.)
    ///
    /// # Errors
    ///
    /// Returns an error after a failure, and the device's errors, which the other ranks are told: by the meeting on a path of NCCL, so that
    /// this call then also waits for them, for at most the time of the meeting.
    pub fn run(&mut self) -> Result<(), Error> {
        match &mut self.call {
            ProcessCall::Memory(call) => call.run(),
            ProcessCall::Nccl(call) => call.run(),
        }
    }

    /// Waits until this rank is done with all rounds so far, for at most `within`. Only then is it known that what it computed is right.
    ///
    /// # Errors
    ///
    /// Returns an error that names the rank which did not come to a round, did not end its part of it, or gave up
    /// ([`lost_rank`](Error::lost_rank)), or the device's error. The other ranks are told, and the flags of this rank are released.
    ///
    /// On a path of NCCL the communicator is aborted instead, after `within` or as soon as NCCL reports an error. The ranks then ask each
    /// other by the meeting how far they are, for at most its time. The error names the rank that is the farthest behind or gone. All ranks
    /// should wait for the same time: one that waits longer holds up the answer.
    ///
    /// If a rank has run the rounds of several products by NCCL in another order than this one, the error names the first round that
    /// differs, and no result since the last wait is right. (On simulated devices `run` returns it.)
    pub fn wait(&mut self, within: Duration) -> Result<(), Error> {
        match &mut self.call {
            ProcessCall::Memory(call) => call.wait(within),
            ProcessCall::Nccl(call) => call.wait(within),
        }
    }
}
