//! `GatherProductRank`: all-gather and product, of one rank among processes.

use std::time::Duration;

use colex_device::{Buffer, Flags};
use colex_sched::Overlap;

use super::RankProcess;
use super::call::{ProcessWork, RankCall};
use super::signals::Signals;
use crate::error::Error;
use crate::kernels::GemmElement;
use crate::ranks::host::choice::{Chosen, chosen};
use crate::ranks::host::gather_product::RankOptions;
use crate::ranks::work::Member;
use crate::ranks::work::gather::{GatherShape, GatherWork};
use crate::ranks::{RankPath, RankProblem};

/// All-gather and product, of one rank among processes: the part of a [`GatherProduct`](super::super::GatherProduct) that this process
/// computes, with the same layouts and the same bits. [`RankProcess`] has an example.
#[derive(Debug)]
pub struct GatherProductRank<T: GemmElement, C: GemmElement> {
    shape: GatherShape,
    choice: Chosen,
    call: RankCall<GatherWork<T, C>>,
}

impl<T: GemmElement, C: GemmElement> ProcessWork for GatherWork<T, C> {
    type Shared = T;

    fn member(&self) -> &Member {
        self.member()
    }

    fn shared(&self) -> &Buffer<T> {
        self.gathered()
    }

    fn meet(&mut self, peers: Vec<Buffer<T>>) {
        self.meet(peers);
    }

    fn flags(&self) -> Option<&Flags> {
        Some(self.arrived())
    }

    fn enqueue(&self, signals: &Signals, round: u32) -> Result<(), Error> {
        let Member {
            device,
            copies,
            news,
            ..
        } = self.member();
        signals.come(device, round)?;
        copies.wait_for(&device.record()?)?;
        for to in self.destinations() {
            signals.await_one(copies, to, round)?;
            self.send(to, |_| Ok(()))?;
            signals.done(copies, to, round)?;
        }
        for from in self.sources() {
            signals.await_done_by(news, from, round)?;
            if self.path() == RankPath::PeerMemory {
                for flag in self.flags_of(from) {
                    self.arrived().set(news, flag, round)?;
                }
            }
        }
        let copied = copies.record()?;
        if self.path() != RankPath::PeerMemory {
            signals.await_done(device, round)?;
        }
        self.multiply(round)?;
        // Later work of this stream may write A again.
        device.wait_for(&copied)?;
        device.wait_for(&news.record()?)?;
        signals.await_done(device, round)
    }
}

impl<T: GemmElement, C: GemmElement> GatherProductRank<T, C> {
    /// Builds the product with all ranks: allocates the operands of this rank, zeros, and opens the memory of the others. All ranks
    /// make this call, with the same problem, types, path and pieces.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`GatherProduct::new`](super::super::GatherProduct::new); an error on every rank that names the first one
    /// with another product than rank 0, or one that has no part of it, with its reason; and those of [`RankProcess::exchange`].
    pub fn new(
        process: &RankProcess,
        problem: RankProblem,
        options: &RankOptions,
    ) -> Result<GatherProductRank<T, C>, Error> {
        let made = || {
            let of = (&problem, Overlap::GatherProduct);
            let choice = chosen::<T, C, C>(&process.kind(), of, options)?;
            let shape = GatherShape::new(problem, &choice, options)?;
            process.idle()?;
            let member = Member::new(process.rank(), process.device())?;
            let work = GatherWork::new(&member, &shape)?;
            Ok((shape, choice, work))
        };
        let (of, part) = match made() {
            Ok((shape, choice, work)) => {
                let types = format!("{} to {}", T::TY, C::TY);
                let words = format!("{shape}, {types}");
                (Some((shape, choice)), Ok((words, work)))
            }
            Err(error) => (None, Err(error)),
        };
        let call = RankCall::new(&process.session, part)?;
        let (shape, choice) = of.expect("a call has a part, and this is what it was made of");
        Ok(GatherProductRank {
            shape,
            choice,
            call,
        })
    }

    /// Returns the path that the call takes.
    pub fn path(&self) -> RankPath {
        self.shape.path
    }

    /// Returns the pieces in which a chunk of A is copied, each with a flag.
    pub fn pieces(&self) -> i64 {
        self.shape.pieces
    }

    /// Returns the part of A of this rank (M/R,K), row-major.
    ///
    /// # Errors
    ///
    /// Returns the device's error.
    pub fn a(&self) -> Result<Buffer<T>, Error> {
        self.call.work().a()
    }

    /// Returns the memory of this rank into which A (M,K) is gathered, row-major: after a run it has all parts.
    pub fn gathered(&self) -> &Buffer<T> {
        self.call.work().gathered()
    }

    /// Returns the part of B of this rank (N/R,K), row-major.
    pub fn b(&self) -> &Buffer<T> {
        self.call.work().b()
    }

    /// Returns the part of C of this rank (M,N/R), row-major.
    pub fn c(&self) -> &Buffer<C> {
        self.call.work().c()
    }

    /// Returns the path, the plan of the product, the predicted times of all paths, and why this one is taken.
    ///
    /// # Errors
    ///
    /// Returns the errors of the product's plan.
    pub fn explain(&self) -> Result<String, Error> {
        let plan = self.call.work().explain()?;
        Ok(format!("{}\n{plan}\n{}", self.shape, self.choice))
    }

    /// Enqueues a round of this rank: its part of A is read after the earlier work of its stream, and later work comes after all ranks
    /// have read it. The host waits for no other rank. (On the simulator it does, for at most the time of the meeting, since a simulated
    /// stream runs each call to its end.)
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
