//! `cp.async`: copies of single threads that complete later, in groups of each thread.

use std::rc::Rc;

use crate::machine::exec::{Exec, Flow};
use crate::machine::place::Target;
use crate::machine::port::{Site, tick};
use crate::order::clock::Proxy;
use crate::report::event::{EventKind, Grouped};
use crate::report::fault::{Fault, FaultKind};
use crate::state::pending::{Pending, Piece, Transfer, Work};
use crate::state::wait::Wait;
use crate::state::warp::lanes;
use colex_ir::{Address, Async, CopyArgs, End, Operand, Space, Type};

impl Exec<'_, '_, '_> {
    /// Issues copies of `bytes` bytes.
    pub(crate) fn cp_async(
        &mut self,
        args: &CopyArgs,
        bytes: usize,
        mask: u32,
    ) -> Result<Flow, Fault> {
        let (End::Memory(dst), End::Memory(src)) = (&args.dst, &args.src) else {
            return Err(self.fault_warp(FaultKind::Operand, "both ends are addresses"));
        };
        let (to, from) = (self.address(dst, mask)?, self.address(src, mask)?);
        let all = Operand::Int(bytes as i64);
        let read = self.value(args.source_bytes.unwrap_or(all), Type::U32, mask)?;
        self.count(Space::Shared, &to, bytes, mask);
        let reading = lanes(mask)
            .filter(|lane| read[*lane] > 0)
            .fold(0, |m, lane| m | 1 << lane);
        self.count(Space::Global, &from, bytes, reading);
        // Lanes in different groups go separately.
        let mut left = mask;
        while left != 0 {
            let group = self.w.copies.committed[left.trailing_zeros() as usize];
            let members = lanes(left)
                .filter(|lane| self.w.copies.committed[*lane] == group)
                .fold(0, |m, lane| m | 1 << lane);
            left &= !members;
            let mut pieces = Vec::new();
            for lane in lanes(members) {
                if read[lane] as usize > bytes {
                    let what = format!("it writes {bytes} bytes and cannot read {}", read[lane]);
                    return Err(self.fault(FaultKind::Operand, lane, what));
                }
                pieces.push(Piece {
                    from: Some(self.target(Space::Global, from[lane], bytes, bytes, lane)?),
                    to: self.target(Space::Shared, to[lane], bytes, bytes, lane)?,
                    lane,
                    read: read[lane] as usize,
                    bytes,
                });
            }
            self.issue_copies(pieces, members, group);
        }
        tick(&mut self.w.view.seen, self.w.index);
        Ok(Flow::Yield)
    }

    fn issue_copies(&mut self, pieces: Vec<Piece>, members: u32, group: u32) {
        let (agent, clock) = match self.w.copies.flying.last() {
            // What a barrier tells of, it does not tell of a later copy.
            Some(last) if last.group == group && last.lanes == members && last.told == 0 => {
                last.engine
            }
            _ => self.g.engine(self.w.now(), &self.w.view),
        };
        let transfer = Transfer {
            pieces,
            reduce: None,
            tell: Vec::new(),
            two_steps: false,
            fetched: None,
            rounds: false,
            fill: 0,
        };
        let site = Site::of(self.w, members.trailing_zeros() as usize);
        let number = self.issue(site, (agent, clock), Proxy::Generic, Work::Move(transfer));
        self.w.copies.flying.push(crate::state::warp::Flying {
            number,
            engine: (agent, clock),
            lanes: members,
            group,
            has_read: false,
            waited: 0,
            told: 0,
        });
    }

    /// Issues an operation and returns its number.
    pub(crate) fn issue(
        &mut self,
        site: Site,
        (agent, clock): (usize, u32),
        proxy: Proxy,
        work: Work,
    ) -> u64 {
        let number = self.g.next_operation;
        self.g.next_operation += 1;
        if let Work::Move(transfer) = &work {
            let mut ends = transfer.pieces.iter().flat_map(|p| [p.from, Some(p.to)]);
            let is_shared = |end: Option<Target>| matches!(end, Some(Target::Shared { .. }));
            if self.m.options.events && ends.any(is_shared) {
                let (to, tells) = (transfer.shared(), &transfer.tell);
                let tells = tells
                    .iter()
                    .map(|(block, at, bytes)| ((*block, *at), *bytes));
                self.m.record(self.g, &site, || EventKind::Copy {
                    number,
                    to,
                    tells: tells.collect(),
                    grouped: proxy == Proxy::Generic,
                });
            }
        }
        self.g.pending.push(Pending {
            number,
            site,
            agent,
            clock,
            proxy,
            view: Rc::new(self.w.view.clone()),
            warp: self.w.index,
            lockstep: self.w.lockstep.clone(),
            stalled: false,
            work,
        });
        number
    }

    /// Executes an instruction on groups of copies and products.
    pub(crate) fn groups(&mut self, op: &Async, mask: u32) -> Result<Flow, Fault> {
        match op {
            Async::CpAsyncCommit => self.record(|| EventKind::Commit(Grouped::Copies)),
            Async::BulkCommit => self.record(|| EventKind::Commit(Grouped::Stores)),
            Async::WgmmaCommit => self.record(|| EventKind::Commit(Grouped::Products)),
            Async::CpAsyncWait { pending } => {
                self.record(|| EventKind::WaitGroups(Grouped::Copies, *pending));
            }
            Async::BulkWait { pending, read: _ } => {
                self.record(|| EventKind::WaitGroups(Grouped::Stores, *pending));
            }
            Async::WgmmaWait { pending } => {
                self.record(|| EventKind::WaitGroups(Grouped::Products, *pending));
            }
            Async::CpAsyncArrive { .. } | Async::WgmmaFence => {}
        }
        match op {
            Async::CpAsyncCommit => lanes(mask).for_each(|lane| self.w.copies.committed[lane] += 1),
            Async::BulkCommit => lanes(mask).for_each(|lane| self.w.bulk.committed[lane] += 1),
            Async::CpAsyncWait { pending } => {
                let numbers = self.w.copies.due(mask, *pending, false);
                return Ok(Flow::Wait(Wait::Operations {
                    numbers,
                    read: false,
                }));
            }
            Async::BulkWait { pending, read } => {
                let numbers = self.w.bulk.due(mask, *pending, *read);
                return Ok(Flow::Wait(Wait::Operations {
                    numbers,
                    read: *read,
                }));
            }
            Async::CpAsyncArrive { a, noinc } => self.arrive_after(a, *noinc, mask)?,
            Async::WgmmaFence => {
                self.collective(mask)?;
                self.w.fences += 1;
            }
            Async::WgmmaCommit => self.wgmma_commit(mask)?,
            Async::WgmmaWait { pending } => return self.wgmma_wait(*pending, mask),
        }
        Ok(Flow::Next)
    }

    /// `cp.async.mbarrier.arrive`: an arrival once all copies of the thread so far are complete.
    fn arrive_after(&mut self, a: &Address, noinc: bool, mask: u32) -> Result<(), Fault> {
        let addresses = self.address(a, mask)?;
        // A warp that waits at barriers alone keeps every copy: those that are complete delay no arrival.
        let copies = self.w.copies.flying.iter();
        let in_flight = copies.filter(|f| self.g.find(f.number).is_some());
        let in_flight: Vec<(u64, u32)> = in_flight.map(|f| (f.number, f.lanes)).collect();
        for lane in lanes(mask) {
            let (block, at) = self.barrier_at(Space::Shared, addresses[lane], lane)?;
            let is_of_lane = |lanes: u32| lanes >> lane & 1 == 1;
            let after = in_flight.iter().filter(|(_, lanes)| is_of_lane(*lanes));
            let after: Vec<u64> = after.map(|(number, _)| *number).collect();
            let mut view = self.w.view.clone();
            let of_lane = self.w.copies.flying.iter().filter(|f| is_of_lane(f.lanes));
            of_lane.for_each(|f| view.seen.raise(f.engine.0, f.engine.1));
            let accessor = crate::machine::port::Accessor::lane(self.w, lane, Proxy::Generic);
            let barrier = self.m.barrier(self.g, &accessor, block, at)?;
            if !noinc {
                barrier.pending += 1;
            }
            self.record(|| EventKind::ArriveAfterCopies {
                barrier: (block, at),
            });
            let number = self.g.next_operation;
            self.g.next_operation += 1;
            self.g.pending.push(Pending {
                number,
                site: Site::of(self.w, lane),
                agent: self.w.index,
                clock: self.w.view.seen.get(self.w.index),
                proxy: Proxy::Generic,
                view: Rc::new(view),
                warp: self.w.index,
                lockstep: self.w.lockstep.clone(),
                stalled: false,
                work: Work::Arrive {
                    after,
                    block,
                    at,
                    count: 1,
                },
            });
        }
        let of_lanes = self.w.copies.flying.iter_mut();
        of_lanes.for_each(|copy| copy.told |= mask & copy.lanes);
        self.w.lockstep.told(mask);
        tick(&mut self.w.view.seen, self.w.index);
        Ok(())
    }
}
