//! Asynchronous operations in flight.

use std::rc::Rc;
use std::sync::Arc;

use colex_atom::{Reduction, Scalar};
use colex_ir::Reg;

use super::accessor::Site;
use super::target::Target;
use crate::lane::plan::{Plan, Words};
use crate::order::clock::{Proxy, View};
use crate::order::lockstep::Lockstep;
use crate::report::event::{self, SharedBytes};

/// One operation in flight.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Its number; those of a cluster count up.
    pub(crate) number: u64,
    pub(crate) site: Site,
    /// The engine that does it, and that engine's clock.
    pub(crate) agent: usize,
    pub(crate) clock: u32,
    pub(crate) proxy: Proxy,
    /// The view at the issue: that of the issuing warp, and the order between its lanes.
    pub(crate) view: Rc<View>,
    pub(crate) warp: usize,
    pub(crate) lockstep: Lockstep,
    /// Whether it has reached bytes that it has to read and that are not written yet.
    pub(crate) stalled: bool,
    /// Its kind.
    pub(crate) work: Work,
}

/// The kind of an operation.
#[derive(Debug)]
pub(crate) enum Work {
    /// A copy.
    Move(Transfer),
    /// A matrix product.
    Product(Box<Product>),
    /// An arrival once all of these operations are complete: block, place, count.
    Arrive {
        after: Vec<u64>,
        block: usize,
        at: usize,
        count: i64,
    },
}

/// Some bytes that lie together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Where they come from; what fills from nowhere.
    pub(crate) from: Option<Target>,
    pub(crate) to: Target,
    /// The lane that asked for it.
    pub(crate) lane: usize,
    /// Bytes read, and bytes written: zeros follow.
    pub(crate) read: usize,
    pub(crate) bytes: usize,
}

/// Bytes that move, and the barrier that is told.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    pub(crate) pieces: Vec<Piece>,
    /// The reduction with the bytes that are there, if it is one.
    pub(crate) reduce: Option<(Reduction, Scalar)>,
    /// Barriers that count the bytes: block, place, bytes.
    pub(crate) tell: Vec<(usize, usize, i64)>,
    /// Whether reading and writing are two events.
    pub(crate) two_steps: bool,
    /// The bytes of all pieces, once they were read and still have to be written.
    pub(crate) fetched: Option<Vec<u8>>,
    /// Whether words of binary32 are rounded to tf32 between the two.
    pub(crate) rounds: bool,
    /// The value of each two bytes that have no source.
    pub(crate) fill: u16,
}

impl Transfer {
    /// The bytes of shared memory that it writes.
    pub(crate) fn shared(&self) -> Vec<SharedBytes> {
        let mut all = Vec::new();
        for piece in &self.pieces {
            if let Target::Shared { block, at } = piece.to {
                event::add(&mut all, SharedBytes::new(block, at, piece.bytes));
            }
        }
        all
    }

    /// Whether it is to read and to write, one after the other.
    pub(crate) fn has_two_events_left(&self) -> bool {
        self.two_steps && self.fetched.is_none()
    }
}

/// A product under way.
#[derive(Debug)]
pub(crate) struct Product {
    pub(crate) plan: Arc<Plan>,
    /// The warpgroup's first warp.
    pub(crate) group: usize,
    /// Which product of the warpgroup it is.
    pub(crate) sequence: u64,
    pub(crate) pc: usize,
    pub(crate) d: Vec<Reg>,
    /// The descriptors of A, if it lies in shared memory, and of B.
    pub(crate) descriptors: [u64; 2],
    pub(crate) parts: [Option<WarpOperands>; 4],
}

/// The contribution of one warp.
#[derive(Debug)]
pub(crate) struct WarpOperands {
    pub(crate) scale_d: bool,
    pub(crate) a: Words,
    pub(crate) metadata: Vec<u32>,
    pub(crate) view: Rc<View>,
}

impl Product {
    /// Whether every warp of the warpgroup has issued it.
    pub(crate) fn is_complete(&self) -> bool {
        self.parts.iter().all(Option::is_some)
    }

    /// The warps, counted from the warpgroup's first, that have not issued it.
    pub(crate) fn missing(&self) -> impl Iterator<Item = usize> + '_ {
        (0..4).filter(|w| self.parts[*w].is_none())
    }
}
