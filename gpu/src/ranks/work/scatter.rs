//! `ScatterWork`: the work of one rank of a product with a reduce-scatter.

use core::fmt;

use colex_atom::Ty;
use colex_device::{Buffer, Flags, View, ViewMut};
use colex_sched::OverlapPlan;

use super::{Member, strided};
use crate::elementwise::{Map, MapExpression};
use crate::error::{Error, HostError};
use crate::gemm::{ChunkOrder, Gemm};
use crate::kernels::GemmElement;
use crate::ranks::host::gather_product::{RankOptions, RankSends, rank_error};
use crate::ranks::{RankPath, RankProblem};

/// What all ranks of a product with a reduce-scatter have in common.
#[derive(Clone, Debug)]
pub(crate) struct ScatterShape {
    pub(crate) problem: RankProblem,
    pub(crate) order: OverlapPlan,
    pub(crate) path: RankPath,
    /// What brings the terms to their owners.
    pub(crate) sends: RankSends,
    sum: MapExpression,
}

impl ScatterShape {
    /// The shape of a product with slots of `S` and sums of `C`.
    pub(crate) fn new<S: GemmElement, C: GemmElement>(
        problem: RankProblem,
        (path, order): (RankPath, OverlapPlan),
        options: &RankOptions,
    ) -> Result<ScatterShape, Error> {
        if let Some(pieces) = options.pieces.filter(|pieces| *pieces != 1) {
            let (rows, most) = (problem.m / problem.ranks, 1);
            return Err(HostError::Pieces { pieces, rows, most }.into());
        }
        let sends = match (path, options.sends) {
            (RankPath::PeerMemory, sends) => sends.unwrap_or_default(),
            (_, None | Some(RankSends::Engines)) => RankSends::Engines,
            (_, Some(RankSends::Kernel)) => {
                let (path, why) = (
                    path.to_string(),
                    "a kernel stores into the memory of the owners on the path peer memory",
                );
                return Err(HostError::Path { path, why }.into());
            }
        };
        Ok(ScatterShape {
            problem,
            order,
            path,
            sends,
            sum: sum::<S, C>(problem.ranks)?,
        })
    }
}

impl fmt::Display for ScatterShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.problem, self.path)
    }
}

/// The sum of the slots in the order of the ranks.
fn sum<S: GemmElement, C: GemmElement>(ranks: i64) -> Result<MapExpression, Error> {
    MapExpression::new(|m| {
        let terms: Vec<_> = (0..ranks)
            .map(|rank| m.tensor(&format!("slot_{rank}"), S::TY).to(Ty::F32))
            .collect();
        let sum = terms.into_iter().reduce(|sum, term| sum + term);
        m.output("c", sum.expect("at least one rank").to(C::TY));
    })
}

/// The work of one rank of a product with a reduce-scatter.
#[derive(Debug)]
pub(crate) struct ScatterWork<T, S, C> {
    member: Member,
    shape: ScatterShape,
    a: Buffer<T>,
    b: Buffer<T>,
    c: Buffer<C>,
    /// The slots of all ranks in this rank's memory, and those of all owners as this rank's work has them.
    slots: Buffer<S>,
    peers: Vec<Buffer<S>>,
    /// The terms of all chunks, if copies bring them to the owners.
    terms: Option<Terms<S>>,
}

/// The terms that copies bring to the owners.
#[derive(Debug)]
struct Terms<S> {
    all: Buffer<S>,
    /// Where the kernel counts what it has stored of each chunk, and the flags of those that are stored, with the round behind them.
    counts: Buffer<u32>,
    stored: Flags,
}

impl<T: GemmElement, S: GemmElement, C: GemmElement> ScatterWork<T, S, C> {
    /// Allocates the operands and the slots, zeros.
    pub(crate) fn new(
        member: &Member,
        shape: &ScatterShape,
    ) -> Result<ScatterWork<T, S, C>, Error> {
        let RankProblem { m, n, k, ranks, .. } = shape.problem;
        let terms = match (shape.sends, ranks) {
            (RankSends::Engines, 2..) => Some(Terms {
                all: member.buffer(m.saturating_mul(n))?,
                counts: member.buffer(ranks)?,
                stored: Flags::new(&member.device, ranks as usize + 1)?,
            }),
            _ => None,
        };
        Ok(ScatterWork {
            a: member.buffer(m.saturating_mul(k / ranks))?,
            b: member.buffer(n.saturating_mul(k / ranks))?,
            c: member.buffer((m / ranks).saturating_mul(n))?,
            slots: member.buffer(m.saturating_mul(n))?,
            peers: Vec::new(),
            terms,
            member: member.clone(),
            shape: shape.clone(),
        })
    }

    /// Takes the slots in the memory of all owners, as this rank's work has them.
    pub(crate) fn meet(&mut self, peers: Vec<Buffer<S>>) {
        self.peers = peers;
    }

    pub(crate) fn member(&self) -> &Member {
        &self.member
    }

    pub(crate) fn path(&self) -> RankPath {
        self.shape.path
    }

    pub(crate) fn a(&self) -> &Buffer<T> {
        &self.a
    }

    pub(crate) fn b(&self) -> &Buffer<T> {
        &self.b
    }

    pub(crate) fn c(&self) -> &Buffer<C> {
        &self.c
    }

    pub(crate) fn sends(&self) -> RankSends {
        self.shape.sends
    }

    pub(crate) fn slots(&self) -> &Buffer<S> {
        &self.slots
    }

    /// The first line of the product's plan.
    pub(crate) fn explain(&self) -> Result<String, Error> {
        let product = self.with_product(|product| product.explain())?;
        Ok(product.lines().next().unwrap_or_default().to_string())
    }

    /// The owners, in the order in which their terms are computed.
    pub(crate) fn owners(&self) -> Result<Vec<usize>, Error> {
        let order = &self.shape.order;
        let chunks = order.chunks(self.member.rank as i64).map_err(rank_error)?;
        Ok(chunks.into_iter().map(|owner| owner as usize).collect())
    }

    /// The flags for which copies wait.
    pub(crate) fn stored(&self) -> Option<&Flags> {
        self.terms.as_ref().map(|terms| &terms.stored)
    }

    /// Enqueues the product, which stores its terms into the slots of the owners, or where copies find them.
    pub(crate) fn multiply(&self, round: u32) -> Result<(), Error> {
        if let (Some(terms), RankPath::PeerMemory) = (&self.terms, self.shape.path) {
            let behind = terms.stored.len() - 1;
            terms.stored.set(&self.member.device, behind, round)?;
        }
        self.with_product(|product| product.run())
    }

    /// Enqueues the copy of a term into the slot in the memory of another rank, its owner, once the kernel has stored it.
    pub(crate) fn send(&self, owner: usize, round: u32) -> Result<(), Error> {
        let Some(terms) = self.terms.as_ref().filter(|_| owner != self.member.rank) else {
            return Ok(());
        };
        let copies = &self.member.copies;
        if self.shape.path == RankPath::PeerMemory {
            terms.stored.wait(copies, owner, round)?;
        }
        let slot = self.part(&self.peers[owner], self.member.rank)?;
        let term = self.part(&terms.all, owner)?;
        Ok(copies.enqueue_copy(&slot, &term)?)
    }

    /// Enqueues the sum of the slots in this rank's memory.
    pub(crate) fn add(&self) -> Result<(), Error> {
        let RankProblem { n, ranks, .. } = self.shape.problem;
        let elements = self.rows() * n;
        let own = self.member.rank;
        let slots = (0..ranks as usize).map(|rank| match &self.terms {
            // This rank's own term has stayed where the kernel stored it.
            Some(terms) if rank == own => self.part(&terms.all, own),
            _ => self.part(&self.slots, rank),
        });
        let slots = slots.collect::<Result<Vec<_>, _>>()?;
        let mut c = self.c.clone();
        let c = c.view_mut(elements)?;
        let mut map = Map::new(&self.shape.sum).output("c", &c);
        for (rank, slot) in slots.iter().enumerate() {
            map = map.input(&format!("slot_{rank}"), &slot.view(elements)?);
        }
        map.run()
    }

    /// The rows of a chunk.
    fn rows(&self) -> i64 {
        self.shape.problem.m / self.shape.problem.ranks
    }

    /// The part of a number in memory that has one for each rank.
    fn part(&self, of: &Buffer<S>, number: usize) -> Result<Buffer<S>, Error> {
        let each = (self.rows() * self.shape.problem.n) as usize;
        Ok(of.slice(number * each..(number + 1) * each)?)
    }

    /// What `act` makes of the product.
    fn with_product<X>(
        &self,
        act: impl FnOnce(Gemm<'_, T, S>) -> Result<X, Error>,
    ) -> Result<X, Error> {
        let RankProblem { n, k, ranks, .. } = self.shape.problem;
        let (rows, k) = (self.rows(), k / ranks);
        let a = View::new(&self.a, strided([(rows, k), (k, 1), (ranks, rows * k)])?)?;
        let b = View::new(&self.b, strided([(n, k), (k, 1), (ranks, 0)])?)?;
        if let Some(terms) = &self.terms {
            // The handles are this call's, and only its kernel writes.
            let mut all = terms.all.clone();
            let (mut counts, mut stored) = (terms.counts.clone(), terms.stored.buffer().clone());
            let layout = strided([(rows, n), (n, 1), (ranks, rows * n)])?;
            let product = Gemm::new(&a, &b, &ViewMut::new(&mut all, layout)?);
            if self.shape.path != RankPath::PeerMemory {
                return act(product);
            }
            let product = product.chunks(ChunkOrder::Ascending, self.owners()?[0] as i64);
            let (counts, stored) = (counts.view_mut(ranks)?, stored.view_mut(ranks + 1)?);
            return act(product.departures(&counts, &stored));
        }
        let rank = self.member.rank;
        let owners = self.peers.iter().map(|slots| self.part(slots, rank));
        let mut owners = owners.collect::<Result<Vec<_>, _>>()?;
        let layout = strided([(rows, n), (n, 1)])?;
        let owners = owners.iter_mut();
        let owners = owners.map(|slot| ViewMut::new(slot, layout.clone()));
        let owners = owners.collect::<Result<Vec<_>, _>>()?;
        let product = Gemm::to_owners(&a, &b, &owners)?;
        act(product.chunks(ChunkOrder::Ascending, self.owners()?[0] as i64))
    }
}
