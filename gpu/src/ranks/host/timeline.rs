//! What each rank does when in a run: events around its copies, its product and its sums.

use std::time::Duration;

use colex_device::{Device, Event};
use colex_sched::{ChunkSpan, ChunkWork};

use super::devices::wait_for;
use crate::error::{Error, HostError};
use crate::kernels::GemmElement;
use crate::ranks::RankPath;
use crate::ranks::work::scatter::ScatterWork;
use crate::ranks::work::{Member, RankWork};

/// Events around the steps of a run, if it is recorded. A run that is not has none.
#[derive(Debug, Default)]
pub(super) struct Record {
    is_on: bool,
    /// For each rank the event from which its times count: all ranks have come.
    starts: Vec<Event>,
    events: Vec<Event>,
    steps: Vec<RecordedStep>,
}

/// A rank, what it does, and with which chunk.
pub(super) type RankStep = (usize, ChunkWork, usize);

/// A step between two events, by their numbers.
#[derive(Debug)]
struct RecordedStep {
    does: RankStep,
    between: [usize; 2],
}

impl Record {
    /// A record of the next run.
    fn on() -> Record {
        Record {
            is_on: true,
            ..Record::default()
        }
    }

    /// Begins the time of each rank when all ranks have come, so that the times of all ranks count from about the same moment.
    pub(super) fn begin<'m>(
        &mut self,
        members: impl Iterator<Item = &'m Member>,
        came: &[Event],
    ) -> Result<(), Error> {
        if !self.is_on {
            return Ok(());
        }
        for Member { device, copies, .. } in members {
            wait_for(device, came)?;
            let start = device.record()?;
            copies.wait_for(&start)?;
            self.starts.push(start);
        }
        Ok(())
    }

    /// Enqueues a step in a stream, between two events if the run is recorded.
    pub(super) fn around(
        &mut self,
        does: RankStep,
        stream: &Device,
        step: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let start = self.mark(stream)?;
        step()?;
        let end = self.mark(stream)?;
        self.add(does, [start, end]);
        Ok(())
    }

    /// Enqueues the product of a piece. Where the kernel sets a flag for each chunk that is stored, each has a step of its own.
    pub(super) fn multiply<T: GemmElement, S: GemmElement, C: GemmElement>(
        &mut self,
        work: &ScatterWork<T, S, C>,
        piece: i64,
        round: u32,
    ) -> Result<(), Error> {
        let Member {
            rank, device, news, ..
        } = work.member();
        let Some(stored) = work.stored().filter(|_| self.is_on) else {
            let does = (*rank, ChunkWork::Products, work.owners()?[0]);
            return self.around(does, device, || work.multiply(piece));
        };
        let mut start = self.mark(device)?;
        work.multiply(piece)?;
        for owner in work.multiplied()? {
            stored.wait(news, owner, round)?;
            let end = self.mark(news)?;
            self.add((*rank, ChunkWork::Product, owner), [start, end]);
            start = end;
        }
        Ok(())
    }

    /// Enqueues the copies of the terms of a rank to their owners.
    pub(super) fn send<T: GemmElement, S: GemmElement, C: GemmElement>(
        &mut self,
        work: &ScatterWork<T, S, C>,
        round: u32,
    ) -> Result<(), Error> {
        let Member { rank, copies, .. } = work.member();
        // The own term is added where the kernel stores it.
        for owner in work.owners()?.into_iter().filter(|owner| owner != rank) {
            work.await_stored(owner, round)?;
            let does = (*rank, ChunkWork::Send { to: owner as i64 }, owner);
            self.around(does, copies, || work.send(owner))?;
            work.tell(copies, owner, round)?;
        }
        Ok(())
    }

    fn mark(&mut self, stream: &Device) -> Result<usize, Error> {
        if self.is_on {
            self.events.push(stream.record()?);
        }
        Ok(self.events.len().saturating_sub(1))
    }

    fn add(&mut self, does: RankStep, between: [usize; 2]) {
        if self.is_on {
            self.steps.push(RecordedStep { does, between });
        }
    }

    /// The spans of all steps in nanoseconds, rank by rank, by start.
    fn spans(&self) -> Result<Vec<ChunkSpan>, Error> {
        let span = |step: &RecordedStep| {
            let (rank, work, chunk) = step.does;
            let time = |event: usize| -> Result<u64, Error> {
                let milliseconds = self.events[event].milliseconds_since(&self.starts[rank])?;
                Ok((f64::from(milliseconds) * 1e6).round().max(0.0) as u64)
            };
            let [start, end] = step.between;
            let (start, end) = (time(start)?, time(end)?);
            Ok(ChunkSpan {
                rank: rank as i64,
                work,
                chunk: chunk as i64,
                start,
                end: end.max(start),
            })
        };
        let spans = self.steps.iter().map(span);
        let mut spans = spans.collect::<Result<Vec<_>, Error>>()?;
        spans.sort_by_key(|span| (span.rank, span.start, span.work));
        Ok(spans)
    }
}

/// The runs before the one that is recorded, between which nothing waits: they keep the devices at work while the host enqueues.
const BEFORE: usize = 2;

/// Records a run: `run` enqueues one, and `wait` waits for all. Both take what the product has.
pub(super) fn recorded<X>(
    product: &mut X,
    path: RankPath,
    run: impl Fn(&mut X, &mut Record) -> Result<(), Error>,
    wait: impl Fn(&mut X, Duration) -> Result<(), Error>,
    within: Duration,
) -> Result<Vec<ChunkSpan>, Error> {
    if path.is_by_nccl() {
        let (path, why) = (
            path.to_string(),
            "a timeline has the copies and the sums of the library, and NCCL does them in kernels of its own",
        );
        return Err(HostError::Path { path, why }.into());
    }
    // The first run builds the kernels.
    run(product, &mut Record::default())?;
    wait(product, within)?;
    for _ in 0..BEFORE {
        run(product, &mut Record::default())?;
    }
    let mut record = Record::on();
    run(product, &mut record)?;
    wait(product, within)?;
    record.spans()
}
