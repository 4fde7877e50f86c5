//! Completion of asynchronous operations.

use std::ops::Range;

use colex_atom::TmaElement;

use super::Machine;
use super::place::Target;
use super::port::Accessor;
use crate::order::clock::Proxy;
use crate::report::event::EventKind;
use crate::report::fault::{Fault, FaultKind};
use crate::state::block::Group;
use crate::state::pending::{Pending, Piece, Product, Transfer, Work};
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
            } => self
                .check_initialised_before(g, &accessor, *block, *at)
                .and_then(|()| self.arrive(g, &accessor, *block, *at, *count)),
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
        let mut pieces = &transfer.pieces[..];
        while let [piece, ..] = pieces {
            let source = |piece: &Piece| piece.from.filter(|_| piece.read == piece.bytes);
            if let Some(span) = self.span(accessor, pieces, source)
                && self.is_ready(g, &span)
            {
                let mut held = [0; Span::MOST];
                let accessor = accessor.for_lane(piece.lane);
                if self
                    .read(g, &accessor, span.start, &mut held[..span.bytes])
                    .is_ok()
                {
                    let (bytes, others) = rest.split_at_mut(span.bytes);
                    for (part, place) in span.parts(pieces, source) {
                        let length = part.len();
                        bytes[part].copy_from_slice(&held[place..place + length]);
                    }
                    if transfer.rounds {
                        bytes.chunks_exact_mut(4).for_each(to_tf32);
                    }
                    (rest, pieces) = (others, &pieces[span.pieces..]);
                    continue;
                }
            }
            let (bytes, others) = rest.split_at_mut(piece.bytes);
            (rest, pieces) = (others, &pieces[1..]);
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
        let mut pieces = &transfer.pieces[..];
        while let [piece, ..] = pieces {
            let accessor = &accessor.for_lane(piece.lane);
            self.check_alive(g, accessor, piece.to)?;
            let destination = |piece: &Piece| Some(piece.to);
            if transfer.reduce.is_none()
                && self.suspects.is_empty()
                && let Some(span) = self.span(accessor, pieces, destination)
            {
                let mut held = [0; Span::MOST];
                for (part, place) in span.parts(pieces, destination) {
                    held[place..place + part.len()].copy_from_slice(&rest[part]);
                }
                if self
                    .write(g, accessor, span.start, &held[..span.bytes])
                    .is_ok()
                {
                    (rest, pieces) = (&mut rest[span.bytes..], &pieces[span.pieces..]);
                    continue;
                }
            }
            let (bytes, others) = rest.split_at_mut(piece.bytes);
            (rest, pieces) = (others, &pieces[1..]);
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
            self.check_initialised_before(g, accessor, *block, *at)?;
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

    /// The first pieces, if several of them can be moved in one access: of one lane of an engine. If that access fails,
    /// each piece is moved by itself, for the fault of the first one that fails.
    fn span(
        &self,
        accessor: &Accessor<'_>,
        pieces: &[Piece],
        end: impl Fn(&Piece) -> Option<Target>,
    ) -> Option<Span> {
        // Events list each piece.
        let may = accessor.proxy == Proxy::Async && !self.options.events;
        may.then(|| Span::of(pieces, end)).flatten()
    }

    /// Whether all bytes of a span are written.
    fn is_ready(&self, g: &Group, span: &Span) -> bool {
        let written = match span.start {
            Target::Global(address) => match self.memory.get(address, span.bytes as u64) {
                Ok((_, written)) => written,
                Err(_) => return false,
            },
            Target::Shared { block, at } => &g.blocks[block].written[at..at + span.bytes],
            Target::Param(_) => return false,
        };
        crate::lane::bits::all(written)
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
            Target::Shared { block, at } if g.blocks[block].live_warps == 0 => {
                let what = format!(
                    "{} is in block {block} of the cluster, which has ended, and its shared memory with it: it must wait for the \
                     threads that still use it",
                    self.shared_name(at)
                );
                Err(self.fault(g, &accessor.site, FaultKind::EarlyExit, what))
            }
            Target::Global(_) | Target::Shared { .. } | Target::Param(_) => Ok(()),
        }
    }
}

/// Pieces whose ends fill bytes that lie together, in shared memory in any order within a row of a swizzle.
struct Span {
    pieces: usize,
    start: Target,
    bytes: usize,
}

impl Span {
    /// The most bytes of one.
    const MOST: usize = 1024;

    /// The bytes of a row, in which a swizzle moves pieces of [`UNIT`](Self::UNIT) bytes.
    const ROW: usize = 128;
    const UNIT: usize = 16;

    /// The first pieces, if they are several.
    fn of(pieces: &[Piece], end: impl Fn(&Piece) -> Option<Target>) -> Option<Span> {
        let mut span = Span::row(pieces, &end)?;
        while let Some(more) = Span::row(&pieces[span.pieces..], &end)
            && more.start == span.start.after(span.bytes)
            && span.bytes + more.bytes <= Span::MOST
            && pieces[span.pieces].lane == pieces[0].lane
        {
            span.pieces += more.pieces;
            span.bytes += more.bytes;
        }
        (span.pieces > 1).then_some(span)
    }

    /// The first pieces that lie in one row.
    fn row(pieces: &[Piece], end: impl Fn(&Piece) -> Option<Target>) -> Option<Span> {
        let first = pieces.first()?;
        let start = end(first)?;
        let mut row = Span {
            pieces: 0,
            start,
            bytes: 0,
        };
        let Target::Shared { block, at } = start else {
            let follows = |row: &Span, piece: &Piece| {
                piece.lane == first.lane
                    && end(piece) == Some(start.after(row.bytes))
                    && row.bytes + piece.bytes <= Span::MOST
            };
            for piece in pieces {
                if !follows(&row, piece) {
                    break;
                }
                row.pieces += 1;
                row.bytes += piece.bytes;
            }
            return (row.pieces > 0).then_some(row);
        };
        let begin = at - at % Span::ROW;
        let mut filled = 0u32;
        for piece in pieces {
            let Some(Target::Shared { block: there, at }) = end(piece) else {
                break;
            };
            let unit = 1 << (at % Span::ROW / Span::UNIT);
            let fits = there == block && at - at % Span::ROW == begin && piece.lane == first.lane;
            let whole = piece.bytes == Span::UNIT && at.is_multiple_of(Span::UNIT);
            if !fits || !whole || filled & unit != 0 {
                break;
            }
            filled |= unit;
            row.pieces += 1;
        }
        let low = filled.trailing_zeros();
        let lies_together = filled != 0 && ((filled >> low) + 1).is_power_of_two();
        row.bytes = row.pieces * Span::UNIT;
        row.start = Target::Shared {
            block,
            at: begin + low as usize % 8 * Span::UNIT,
        };
        lies_together.then_some(row)
    }

    /// The bytes of each piece, counted in the order of the pieces, and where they lie in the span.
    fn parts(
        &self,
        pieces: &[Piece],
        end: impl Fn(&Piece) -> Option<Target>,
    ) -> impl Iterator<Item = (Range<usize>, usize)> {
        let mut done = 0;
        pieces[..self.pieces].iter().map(move |piece| {
            let part = done..done + piece.bytes;
            done = part.end;
            (part, end(piece).map_or(0, |end| end.beyond(self.start)))
        })
    }
}

/// Rounds one word as a load of a tensor of `tf32` does.
fn to_tf32(word: &mut [u8]) {
    let bits = TmaElement::Tf32.loaded_bits(crate::lane::bits::word(word, 4));
    word.copy_from_slice(&(bits as u32).to_le_bytes());
}

impl Group {
    /// The places in the list of the operations that may complete now.
    pub(crate) fn eligible(&self) -> impl Iterator<Item = usize> + '_ {
        let first_product = |product: &Product| {
            let same = |p: &&Pending| matches!(&p.work, Work::Product(other) if other.group == product.group);
            self.pending.iter().find(same).map(|p| p.number)
        };
        let may = move |operation: &Pending| match &operation.work {
            _ if operation.stalled => false,
            Work::Move(_) => true,
            Work::Product(product) => {
                product.is_complete() && first_product(product) == Some(operation.number)
            }
            Work::Arrive { after, .. } => !after.iter().any(|number| self.find(*number).is_some()),
        };
        let pending = self.pending.iter().enumerate();
        pending.filter(move |(_, p)| may(p)).map(|(i, _)| i)
    }

    /// The operation with a number, if it is still in flight.
    pub(crate) fn find(&self, number: u64) -> Option<&Pending> {
        // The numbers count up, and an operation that leaves the list for its first half returns to its place.
        let at = self.pending.binary_search_by_key(&number, |p| p.number);
        at.ok().map(|at| &self.pending[at])
    }

    /// Whether an operation is still under way; with `read`, whether it has still to read its source.
    pub(crate) fn under_way(&self, number: u64, read: bool) -> bool {
        self.find(number).is_some_and(|operation| {
            let has_read = matches!(&operation.work, Work::Move(t) if t.fetched.is_some());
            !(read && has_read)
        })
    }
}
