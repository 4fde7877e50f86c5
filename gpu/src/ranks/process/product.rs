//! `ProcessProduct`: a product and its collective, of one rank among processes.

use core::marker::PhantomData;
use std::time::Duration;

use colex_device::Buffer;
use colex_sched::Overlap;

use super::RankProcess;
use super::call::{ProcessWork, RankCall};
use crate::error::{Error, HostError};
use crate::kernels::GemmElement;
use crate::ranks::host::choice::{Chosen, chosen};
use crate::ranks::host::options::RankOptions;
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
    call: RankCall<T, C>,
    terms: PhantomData<fn() -> S>,
}

impl<T: GemmElement, C: GemmElement, S: GemmElement> ProcessProduct<T, C, S> {
    /// Builds the product with all ranks: allocates the operands of this rank, zeros, and opens the memory of the others. All ranks
    /// make this call, with the same problem, types, path and pieces. A sum has one piece.
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
        type Made<T, C> = (String, Box<dyn ProcessWork<T, C>>);
        let made = || -> Result<(Chosen, Made<T, C>), Error> {
            let choice = chosen::<T, C, S>(&process.kind(), &problem, options)?;
            let types = format!("{} to {}", T::TY, C::TY);
            let member = || {
                process.idle()?;
                Member::new(process.rank(), process.device())
            };
            let work: Box<dyn ProcessWork<T, C>> = match problem.overlap {
                Overlap::GatherProduct => {
                    let shape = GatherShape::new(problem, &choice, options)?;
                    Box::new(GatherWork::<T, C>::new(&member()?, &shape)?)
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
                    Box::new(ScatterWork::<T, S, C>::new(&member()?, &shape)?)
                }
            };
            Ok((choice, (format!("{}, {types}", work.words()), work)))
        };
        let (choice, part) = match made() {
            Ok((choice, part)) => (Some(choice), Ok(part)),
            Err(error) => (None, Err(error)),
        };
        let call = RankCall::new(&process.session, part)?;
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

    /// Returns the pieces in which a chunk of A is copied, each with a flag; of a sum, one.
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

    /// Returns the memory of this rank into which A (M,K) is gathered, row-major: after a run it has all parts. A sum over ranks gathers no A.
    pub fn gathered(&self) -> Option<&Buffer<T>> {
        self.call.work().gathered()
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
    /// after all ranks have read its part of A in an all-gather, or have written its C. The host waits for no other rank. (On the simulator
    /// it does, for at most the time of the meeting, since a simulated stream runs each call to its end.)
    ///
    /// # Errors
    ///
    /// Returns an error after a failure, and the device's errors, which the other ranks are told.
    pub fn run(&mut self) -> Result<(), Error> {
        self.call.run()
    }

    /// Waits until this rank is done with all rounds so far, for at most `within`. Only then is it known that what it computed is right.
    ///
    /// # Errors
    ///
    /// Returns an error that names the rank which did not come to a round, did not end its part of it, or gave up
    /// ([`lost_rank`](Error::lost_rank)), or the device's error. The other ranks are told, and the flags of this rank are released.
    pub fn wait(&mut self, within: Duration) -> Result<(), Error> {
        self.call.wait(within)
    }
}
