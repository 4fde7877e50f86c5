//! Completion of asynchronous operations.

use colex_atom::TmaElement;

use super::Machine;
use super::place::Target;
use super::port::Accessor;
use crate::report::event::EventKind;
use crate::report::fault::{Fault, FaultKind};
use crate::state::block::Group;
use crate::state::pending::{Pending, Product, Transfer, Work};
use crate::state::warp::Warp;

impl Machine<'_, '_> {
    /// Completes the operation at this place of the list, or a first half of it.
    pub(crate) fn complete(
        &mut self,
        g: &mut Group,
        warps: &mut [Warp],
        index: usize,
    ) -> Result<(), Fault> {
        let mut operation = g.pending.remove(index);
        self.operation = operation.number;
        // Its own accesses follow each other.
        let mut view = (*operation.view).clone();
        view.seen.raise(operation.agent, operation.clock);
        let reads =
            matches!(&operation.work, Work::Move(transfer) if transfer.has_two_events_left());
        let accessor = Accessor {
            site: operation.site,
            agent: operation.agent,
            clock: operation.clock - u32::from(reads),
            proxy: operation.proxy,
            view: &view,
            warp: operation.warp,
            lockstep: &operation.lockstep.clone(),
        };
        let done = match &mut operation.work {
            Work::Move(transfer) => match transfer.fetched.take() {
                Some(data) => self.deliver(g, &accessor, transfer, data),
                None => match self.fetch(g, &accessor, transfer) {
                    Ok(data) if transfer.two_steps => {
                        transfer.fetched = Some(data);
                        g.pending.insert(index, operation);
                        return Ok(());
                    }
                    Ok(data) => self.deliver(g, &accessor, transfer, data),
                    Err(fault) => Err(fault),
                },
            },
            Work::Product(product) => self.multiply(g, warps, &accessor, product),
            Work::Arrive {
                block, at, count, ..
            } => self.arrive(g, &accessor, *block, *at, *count),
        };
        match done {
            Err(_) if self.waits() => {
                operation.stalled = true;
                g.pending.insert(index, operation);
                Ok(())
            }
            done => {
                if let Work::Move(_) = operation.work {
                    let number = operation.number;
                    self.record(g, &operation.site, || EventKind::Landed { number });
                }
                done
            }
        }
    }

    fn fetch(
        &mut self,
        g: &mut Group,
        accessor: &Accessor<'_>,
        transfer: &Transfer,
    ) -> Result<Vec<u8>, Fault> {
        let mut data = vec![0; transfer.pieces.iter().map(|piece| piece.bytes).sum()];
        let mut rest = &mut data[..];
        for piece in &transfer.pieces {
            let (bytes, others) = rest.split_at_mut(piece.bytes);
            rest = others;
            if let Some(from) = piece.from.filter(|_| piece.read > 0) {
                self.read(
                    g,
                    &accessor.for_lane(piece.lane),
                    from,
                    &mut bytes[..piece.read],
                )?;
            }
            if piece.from.is_none() {
                let twice = transfer.fill.to_le_bytes();
                bytes
                    .iter_mut()
                    .zip(twice.iter().cycle())
                    .for_each(|(byte, fill)| *byte = *fill);
            } else if transfer.rounds {
                bytes.chunks_exact_mut(4).for_each(to_tf32);
            }
        }
        Ok(data)
    }

    fn deliver(
        &mut self,
        g: &mut Group,
        accessor: &Accessor<'_>,
        transfer: &Transfer,
        mut data: Vec<u8>,
    ) -> Result<(), Fault> {
        let mut rest = &mut data[..];
        for piece in &transfer.pieces {
            let (bytes, others) = rest.split_at_mut(piece.bytes);
            rest = others;
            let accessor = &accessor.for_lane(piece.lane);
            self.check_alive(g, accessor, piece.to)?;
            if let Some((reduction, scalar)) = transfer.reduce {
                let mut old = vec![0; bytes.len()];
                self.read(g, accessor, piece.to, &mut old)?;
                let each = (scalar.bits() as usize / 8).clamp(1, 8);
                for (old, new) in old.chunks(each).zip(bytes.chunks_mut(each)) {
                    let [a, b] = [old, &*new].map(|x| crate::lane::bits::word(x, each));
                    let sum = reduction.combine(scalar, a, b);
                    new.copy_from_slice(&sum.to_le_bytes()[..each]);
                }
            }
            self.write(g, accessor, piece.to, bytes)?;
        }
        for (block, at, bytes) in &transfer.tell {
            let (agent, clock) = (accessor.agent, accessor.clock);
            let barrier = self.barrier(g, accessor, *block, *at)?;
            let phase = barrier.phase;
            barrier.brought(*bytes, agent, clock);
            let completed = barrier.phase != phase;
            g.told(agent);
            if completed {
                self.check_all_told(g, *block, *at, phase)?;
            }
        }
        Ok(())
    }

    /// A phase of a barrier is complete: no copy may be under way that completes bytes there. Had it been faster, its
    /// bytes would count for this phase.
    pub(crate) fn check_all_told(
        &self,
        g: &Group,
        block: usize,
        at: usize,
        phase: u64,
    ) -> Result<(), Fault> {
        let here = |tell: &&(usize, usize, i64)| (tell.0, tell.1) == (block, at);
        let late = g
            .pending
            .iter()
            .find_map(|operation| match &operation.work {
                Work::Move(transfer) => {
                    let tell = transfer.tell.iter().find(here)?;
                    Some((operation.site, tell.2))
                }
                Work::Product(_) | Work::Arrive { .. } => None,
            });
        match late {
            None => Ok(()),
            Some((site, bytes)) => {
                let what = format!(
                    "phase {phase} of {} completes while this copy of {bytes} bytes for it is under way: \
                     the barrier waits for fewer bytes than copies bring, and the bytes of its \
                     `mbarrier.arrive.expect_tx` are missing or too few",
                    self.barrier_name(at)
                );
                Err(self.fault(g, &site, FaultKind::Barrier, what))
            }
        }
    }

    /// Nothing may reach a block that has ended.
    pub(crate) fn check_alive(
        &self,
        g: &Group,
        accessor: &Accessor<'_>,
        target: Target,
    ) -> Result<(), Fault> {
        match target {
            Target::Shared { block, .. } if g.blocks[block].live_warps == 0 => {
                let what = format!(
                    "block {block} of the cluster has ended, and its shared memory with it: it must wait for the threads that \
                     still use it"
                );
                Err(self.fault(g, &accessor.site, FaultKind::EarlyExit, what))
            }
            Target::Global(_) | Target::Shared { .. } | Target::Param(_) => Ok(()),
        }
    }
}

/// Rounds one word as a load of a tensor of `tf32` does.
fn to_tf32(word: &mut [u8]) {
    let bits = TmaElement::Tf32.loaded_bits(crate::lane::bits::word(word, 4));
    word.copy_from_slice(&(bits as u32).to_le_bytes());
}

impl Group {
    /// The places in the list of the operations that may complete now.
    pub(crate) fn eligible(&self) -> Vec<usize> {
        let waits = |after: &[u64]| self.pending.iter().any(|p| after.contains(&p.number));
        let first_product = |product: &Product| {
            let same = |p: &&Pending| matches!(&p.work, Work::Product(other) if other.group == product.group);
            self.pending.iter().find(same).map(|p| p.number)
        };
        let may = |operation: &Pending| match &operation.work {
            _ if operation.stalled => false,
            Work::Move(_) => true,
            Work::Product(product) => {
                product.is_complete() && first_product(product) == Some(operation.number)
            }
            Work::Arrive { after, .. } => !waits(after),
        };
        let pending = self.pending.iter().enumerate();
        pending.filter(|(_, p)| may(p)).map(|(i, _)| i).collect()
    }

    /// Whether an operation is still under way; with `read`, whether it has still to read its source.
    pub(crate) fn under_way(&self, number: u64, read: bool) -> bool {
        self.pending.iter().any(|operation| {
            let has_read = matches!(&operation.work, Work::Move(t) if t.fetched.is_some());
            operation.number == number && !(read && has_read)
        })
    }
}
