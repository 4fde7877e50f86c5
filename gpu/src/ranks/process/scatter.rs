//! `ProductScatterRank`: product and reduce-scatter, of one rank among processes.

use std::time::Duration;

use colex_device::{Buffer, Flags};
use colex_sched::Overlap;

use super::RankProcess;
use super::call::{ProcessWork, RankCall};
use super::signals::Signals;
use crate::error::Error;
use crate::kernels::GemmElement;
use crate::ranks::host::choice::{Chosen, chosen};
use crate::ranks::host::gather_product::{RankOptions, RankSends};
use crate::ranks::work::Member;
use crate::ranks::work::scatter::{ScatterShape, ScatterWork};
use crate::ranks::{RankPath, RankProblem};

/// Product and reduce-scatter, of one rank among processes: the part of a [`ProductScatter`](super::super::ProductScatter) that this
/// process computes, with the same layouts and the same bits.
///
/// ```
/// use colex_atom::Arch;
/// use colex_gpu::Device;
/// use colex_gpu::ranks::{Meeting, ProductScatterRank, RankOptions, RankProblem, RankProcess};
/// use colex_sched::Overlap;
/// use half::bf16;
/// use std::time::Duration;
///
/// fn rank(meeting: Meeting, device: Device) -> Result<bf16, colex_gpu::Error> {
///     let process = RankProcess::join(meeting, &device)?;
///     let problem = RankProblem { overlap: Overlap::ProductScatter, ranks: 2, m: 16, n: 8, k: 32 };
///     let mut product = ProductScatterRank::<bf16, f32, bf16>::new(&process, problem, &RankOptions::default())?;
///     product.a().write(&[bf16::from_f32(process.rank() as f32 + 1.0); 16 * 16])?;
///     product.b().write(&[bf16::ONE; 8 * 16])?;
///     product.run()?;
///     product.wait(Duration::from_secs(10))?;
///     Ok(product.c().download()?[0])
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
///     assert_eq!(thread.join().expect("nothing panics")?, bf16::from_f32(16.0 + 32.0));
/// }
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Debug)]
pub struct ProductScatterRank<T: GemmElement, S: GemmElement, C: GemmElement> {
    shape: ScatterShape,
    choice: Chosen,
    call: RankCall<ScatterWork<T, S, C>>,
}

impl<T: GemmElement, S: GemmElement, C: GemmElement> ProcessWork for ScatterWork<T, S, C> {
    type Shared = S;

    fn member(&self) -> &Member {
        self.member()
    }

    fn shared(&self) -> &Buffer<S> {
        self.slots()
    }

    fn meet(&mut self, peers: Vec<Buffer<S>>) {
        self.meet(peers);
    }

    fn flags(&self) -> Option<&Flags> {
        self.stored()
    }

    fn enqueue(&self, signals: &Signals, round: u32) -> Result<(), Error> {
        let Member { device, copies, .. } = self.member();
        // An owner has added what its slots held before, or its sum is zeros.
        self.begin(round)?;
        signals.come(device, round)?;
        signals.await_all(device, round)?;
        copies.wait_for(&device.record()?)?;
        self.multiply(0)?;
        let sends = match self.sends() {
            RankSends::Engines => {
                if self.path() != RankPath::PeerMemory {
                    copies.wait_for(&device.record()?)?;
                }
                copies
            }
            RankSends::Kernel | RankSends::Reduction => device,
        };
        for owner in self.owners()? {
            if owner != self.member().rank {
                self.await_stored(owner, round)?;
                self.send(owner)?;
            }
            signals.done(sends, owner, round)?;
        }
        device.wait_for(&sends.record()?)?;
        signals.await_done(device, round)?;
        self.add(0)
    }
}

impl<T: GemmElement, S: GemmElement, C: GemmElement> ProductScatterRank<T, S, C> {
    /// Builds the product with all ranks: allocates the operands and the slots of this rank, zeros, and opens the slots of the others.
    /// All ranks make this call, with the same problem, types and path.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`ProductScatter::new`](super::super::ProductScatter::new), and those of
    /// [`GatherProductRank::new`](super::gather::GatherProductRank::new).
    pub fn new(
        process: &RankProcess,
        problem: RankProblem,
        options: &RankOptions,
    ) -> Result<ProductScatterRank<T, S, C>, Error> {
        let made = || {
            let of = (&problem, Overlap::ProductScatter);
            let choice = chosen::<T, S, C>(&process.kind(), of, options)?;
            let shape = ScatterShape::new::<S, C>(problem, &choice, options)?;
            process.idle()?;
            let member = Member::new(process.rank(), process.device())?;
            let work = ScatterWork::new(&member, &shape)?;
            Ok((shape, choice, work))
        };
        let (of, part) = match made() {
            Ok((shape, choice, work)) => {
                let types = format!("{} to {}", T::TY, C::TY);
                let words = format!("{shape}, {}, {types}", shape.holds::<S>());
                (Some((shape, choice)), Ok((words, work)))
            }
            Err(error) => (None, Err(error)),
        };
        let call = RankCall::new(&process.session, part)?;
        let (shape, choice) = of.expect("a call has a part, and this is what it was made of");
        Ok(ProductScatterRank {
            shape,
            choice,
            call,
        })
    }

    /// Returns the path that the call takes.
    pub fn path(&self) -> RankPath {
        self.shape.path
    }

    /// Returns the part of A of this rank (M,K/R), row-major.
    pub fn a(&self) -> &Buffer<T> {
        self.call.work().a()
    }

    /// Returns the part of B of this rank (N,K/R), row-major.
    pub fn b(&self) -> &Buffer<T> {
        self.call.work().b()
    }

    /// Returns the part of C of this rank (M/R,N), row-major.
    pub fn c(&self) -> &Buffer<C> {
        self.call.work().c()
    }

    /// Returns the path, the plan of the product, the predicted times of all paths, and why this one is taken.
    ///
    /// # Errors
    ///
    /// Returns the errors of the product's plan.
    pub fn explain(&self) -> Result<String, Error> {
        let (plan, holds) = (self.call.work().explain()?, self.shape.holds::<S>());
        Ok(format!("{}, {holds}\n{plan}\n{}", self.shape, self.choice))
    }

    /// Enqueues a round of this rank. The host waits for no other rank. (On the simulator it does, for at most the time of the meeting,
    /// since a simulated stream runs each call to its end.)
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
