//! `ScatterWork`: the work of one rank of a product with a reduce-scatter or an all-reduce.

use core::any::Any;
use core::fmt;

use colex_atom::Ty;
use colex_device::{Buffer, Device, Flags, View, ViewMut};
use colex_sched::{Overlap, OverlapPlan};

use super::{MOST_PIECES, Member, RankBatch, RankWork, counted, piece_of, strided};
use crate::elementwise::{Map, MapExpression};
use crate::error::{Error, HostError};
use crate::gemm::epilogue::convert::sum_type;
use crate::gemm::{ChunkOrder, Epilogue, Gemm};
use crate::kernels::GemmElement;
use crate::ranks::host::choice::Chosen;
use crate::ranks::host::options::{RankOptions, RankSends, RankSums};
use crate::ranks::host::product::rank_error;
use crate::ranks::{RankPath, RankProblem};

/// What all ranks of a product with a reduce-scatter or an all-reduce have in common.
#[derive(Clone, Debug)]
pub(crate) struct ScatterShape {
    pub(crate) problem: RankProblem,
    pub(crate) order: OverlapPlan,
    pub(crate) path: RankPath,
    /// The pieces of a chunk.
    pub(crate) pieces: i64,
    /// What brings the terms to their owners.
    pub(crate) sends: RankSends,
    /// What adds the slots.
    pub(crate) sums: RankSums,
    sum: MapExpression,
}

impl ScatterShape {
    /// The shape of a product with slots of `S` and sums of `C`.
    pub(crate) fn new<S: GemmElement, C: GemmElement>(
        problem: RankProblem,
        choice: &Chosen,
        options: &RankOptions,
    ) -> Result<ScatterShape, Error> {
        let (path, rows) = (choice.path, problem.m / problem.ranks);
        // Engines send one piece.
        let usual = match (path, problem.overlap, options.pieces) {
            (RankPath::PeerMemory, Overlap::ProductReduce, Some(2..)) => RankSends::Kernel,
            _ => RankSends::Engines,
        };
        let has_way = options.sends.is_some() || options.sums.is_some();
        if path.is_by_nccl() && has_way {
            let (path, why) = (
                path.to_string(),
                "its collectives bring and add the terms: `sends` and `sums` are options of the path of peer memory",
            );
            return Err(HostError::Path { path, why }.into());
        }
        let sends = options.sends.unwrap_or(usual);
        if sends != RankSends::Engines && path != RankPath::PeerMemory {
            let (path, why) = (
                path.to_string(),
                "a kernel stores into the memory of the owners on the path of peer memory",
            );
            return Err(HostError::Path { path, why }.into());
        }
        let sums = options.sums.unwrap_or(RankSums::Kernel);
        let has_slots = path == RankPath::PeerMemory && sends != RankSends::Reduction;
        if sums == RankSums::Epilogue && !has_slots {
            let (path, why) = (
                path.to_string(),
                "an epilogue adds slots, which the owners have on the path of peer memory unless kernels add to one sum",
            );
            return Err(HostError::Path { path, why }.into());
        }
        let early = match sums {
            RankSums::Early(early) => early,
            RankSums::Kernel | RankSums::Epilogue => 0,
        };
        if matches!(sums, RankSums::Early(_)) {
            let is_sent = path == RankPath::PeerMemory && sends == RankSends::Engines;
            if !is_sent || problem.overlap != Overlap::ProductScatter {
                let (path, why) = (
                    path.to_string(),
                    "some slots come earlier than others in a reduce-scatter whose terms copy engines send beside the product",
                );
                return Err(HostError::Path { path, why }.into());
            }
            let others = problem.ranks - 1;
            if !(1..others).contains(&early) {
                return Err(HostError::Early { early, others }.into());
            }
        }
        let most = match (path, problem.overlap, sends) {
            (RankPath::NcclInChunks, ..) => MOST_PIECES,
            (
                RankPath::PeerMemory,
                Overlap::ProductReduce,
                RankSends::Kernel | RankSends::Reduction,
            ) => MOST_PIECES,
            _ => 1,
        };
        let usual = choice.forecast.pieces(path).min(most);
        let pieces = options.pieces.unwrap_or(usual);
        if !(1..=most).contains(&pieces) || rows % pieces != 0 {
            return Err(HostError::Pieces { pieces, rows, most }.into());
        }
        // A collective adds the terms by itself: what is left is one rounding.
        let is_one = path.is_by_nccl() || sends == RankSends::Reduction;
        let slots = if is_one { 1 } else { problem.ranks - early };
        Ok(ScatterShape {
            problem,
            order: choice.order,
            path,
            pieces,
            sends,
            sums,
            sum: sum::<S, C>(slots)?,
        })
    }

    /// What is held in elements of the first type, in words.
    pub(crate) fn holds<S: GemmElement>(&self) -> String {
        let what = match (self.path.is_by_nccl(), self.sends) {
            (true, _) => "terms",
            (false, RankSends::Reduction) => "sums",
            (false, _) => "slots",
        };
        let by = match self.sums {
            RankSums::Kernel => String::new(),
            RankSums::Epilogue => ", added by the epilogue of the owner's product".to_string(),
            RankSums::Early(early) => {
                format!(", the first {early} added by the epilogue of the owner's product")
            }
        };
        format!("{what} of {}{by}", S::TY)
    }

    /// Whether every rank has the whole sum.
    pub(crate) fn reduces(&self) -> bool {
        self.problem.overlap == Overlap::ProductReduce
    }
}

impl fmt::Display for ScatterShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.problem, self.path)?;
        if self.reduces() {
            write!(f, ", chunks in {}", counted(self.pieces))?;
        }
        Ok(())
    }
}

/// The other ranks, in the order in which their terms come to an owner.
fn arrivals(order: &OverlapPlan, owner: usize) -> Result<Vec<usize>, Error> {
    let ranks = (0..order.ranks()).filter(|rank| *rank != owner as i64);
    let placed = ranks.map(|rank| {
        let chunks = order.chunks(rank).map_err(rank_error)?;
        let place = chunks.iter().position(|chunk| *chunk == owner as i64);
        Ok((place, rank as usize))
    });
    let mut placed = placed.collect::<Result<Vec<_>, Error>>()?;
    placed.sort_unstable();
    Ok(placed.into_iter().map(|(_, rank)| rank).collect())
}

/// The same buffer, if its elements have the type.
fn same_type<C: GemmElement, S: GemmElement>(c: &Buffer<C>) -> Option<Buffer<S>> {
    (c as &dyn Any).downcast_ref().cloned()
}

/// The sum of the slots in the order of the ranks.
fn sum<S: GemmElement, C: GemmElement>(ranks: i64) -> Result<MapExpression, Error> {
    MapExpression::new(|m| {
        let terms: Vec<_> = (0..ranks)
            .map(|rank| m.tensor(&slot_name(rank as usize), S::TY).to(Ty::F32))
            .collect();
        let sum = terms.into_iter().reduce(|sum, term| sum + term);
        m.output("c", sum.expect("at least one rank").to(C::TY));
    })
}

/// The epilogue of the product of a rank's own chunk: the sum of its term and the slots of the others, with the roundings of
/// [`sum`] in its order.
fn own_sum<T: GemmElement, S: GemmElement, C: GemmElement>(
    ranks: i64,
    own: usize,
) -> Result<Epilogue, Error> {
    Epilogue::new(sum_type(T::TY), |e| {
        let terms: Vec<_> = (0..ranks as usize)
            .map(|rank| {
                let term = if rank == own {
                    e.accumulator().to(S::TY)
                } else {
                    e.tensor(&slot_name(rank), S::TY)
                };
                term.to(Ty::F32)
            })
            .collect();
        let sum = terms.into_iter().reduce(|sum, term| sum + term);
        sum.expect("at least one rank").to(C::TY)
    })
}

/// The epilogue of the product of a rank's own chunk which adds some slots to its term, in this order: the sum is a term as others are.
fn early_sum<T: GemmElement, S: GemmElement>(early: &[usize]) -> Result<Epilogue, Error> {
    Epilogue::new(sum_type(T::TY), |e| {
        let slots = early.iter();
        let slots: Vec<_> = slots
            .map(|rank| e.tensor(&slot_name(*rank), S::TY).to(Ty::F32))
            .collect();
        let own = e.accumulator().to(Ty::F32);
        slots
            .into_iter()
            .fold(own, |sum, slot| sum + slot)
            .to(S::TY)
    })
}

/// The name of the slot of a rank in a sum.
fn slot_name(rank: usize) -> String {
    format!("slot_{rank}")
}

/// The work of one rank of a product with a reduce-scatter or an all-reduce.
#[derive(Debug)]
pub(crate) struct ScatterWork<T, S, C> {
    member: Member,
    shape: ScatterShape,
    a: Buffer<T>,
    b: Buffer<T>,
    c: Buffer<C>,
    /// The slots of all ranks in this rank's memory, and those of all owners as this rank's work has them. On a path of NCCL the
    /// sums of its collectives; if kernels add, the one sum of this owner, which is its C where both have one type.
    slots: Buffer<S>,
    peers: Vec<Buffer<S>>,
    /// The terms of all chunks, if copies or collectives bring them to the owners; for these, piece after piece.
    terms: Option<Buffer<S>>,
    /// How the kernel tells the copies which terms are stored.
    told: Option<Told>,
    /// Of an all-reduce, C of all ranks as this rank's copies have them.
    sums: Vec<Buffer<C>>,
    /// Whether the kernel takes the product in chunks where it stores terms: they have whole sums then.
    in_chunks: bool,
    /// What adds the slots in the product of the own chunk, if it does: all, or the early ones.
    own_sum: Option<Epilogue>,
    /// The ranks whose slots it adds to the own term, for the kernel behind it, in the order in which they come.
    early: Vec<usize>,
    /// The flags for which the sum of the slots waits, if streams set them.
    landed: Option<Landed>,
}

/// Flags that say which terms have come to an owner, each with the number of the round, and the round behind them.
#[derive(Debug)]
struct Landed {
    /// Those of this owner.
    own: Flags,
    /// Those of all owners as the streams of this rank set them.
    there: Vec<Flags>,
}

/// How a kernel tells copies which terms are stored.
#[derive(Debug)]
struct Told {
    /// Where the kernel counts what it has stored of each chunk.
    counts: Buffer<u32>,
    /// The flags of the chunks that are stored, with the round behind them.
    stored: Flags,
}

impl<T: GemmElement, S: GemmElement, C: GemmElement> ScatterWork<T, S, C> {
    /// Allocates the operands and the slots, zeros.
    pub(crate) fn new(
        member: &Member,
        shape: &ScatterShape,
    ) -> Result<ScatterWork<T, S, C>, Error> {
        let RankProblem { m, n, k, ranks, .. } = shape.problem;
        let (chunk, whole) = ((m / ranks).saturating_mul(n), m.saturating_mul(n));
        let terms = match shape.path {
            RankPath::OneAfterAnother | RankPath::Local => Some(member.buffer(whole)?),
            RankPath::PeerMemory if shape.sends == RankSends::Engines => {
                Some(member.buffer(whole)?)
            }
            path if path.is_by_nccl() => Some(member.buffer(whole)?),
            _ => None,
        };
        let told = match (shape.path, &terms) {
            (RankPath::PeerMemory, Some(_)) => Some(Told {
                counts: member.buffer(ranks)?,
                stored: Flags::new(&member.device, ranks as usize + 1)?,
            }),
            _ => None,
        };
        let c = member.buffer(if shape.reduces() { whole } else { chunk })?;
        let slots = match (&terms, shape.reduces()) {
            _ if shape.sends == RankSends::Reduction => {
                let own = if shape.reduces() {
                    piece_of(&c, (member.rank as i64, ranks))?
                } else {
                    c.clone()
                };
                match same_type(&own) {
                    Some(sums) => sums,
                    None => member.buffer(chunk)?,
                }
            }
            // An all-reduce leaves its sums in the place of the terms.
            (Some(terms), true) if shape.path.is_by_nccl() => terms.clone(),
            (Some(_), false) if shape.path.is_by_nccl() => member.buffer(chunk)?,
            // The own term is added where the kernel stores it.
            (Some(terms), _) if shape.path == RankPath::Local => terms.clone(),
            _ => member.buffer(whole)?,
        };
        let early = match shape.sums {
            RankSums::Kernel | RankSums::Epilogue => Vec::new(),
            RankSums::Early(early) => {
                let mut ranks = arrivals(&shape.order, member.rank)?;
                ranks.truncate(early as usize);
                ranks
            }
        };
        let mut work = ScatterWork {
            a: member.buffer(m.saturating_mul(k / ranks))?,
            b: member.buffer(n.saturating_mul(k / ranks))?,
            c,
            slots,
            peers: Vec::new(),
            terms,
            told,
            sums: Vec::new(),
            in_chunks: true,
            own_sum: match shape.sums {
                RankSums::Kernel => None,
                RankSums::Epilogue => Some(own_sum::<T, S, C>(ranks, member.rank)?),
                RankSums::Early(_) => Some(early_sum::<T, S>(&early)?),
            },
            early,
            landed: None,
            member: member.clone(),
            shape: shape.clone(),
        };
        if work.terms.is_some() {
            let plan = |piece| work.with_product(piece, |product| product.explain());
            // Chunks have whole sums, so that all paths have the same bits.
            work.in_chunks =
                work.told.is_some() || (0..shape.pieces).all(|piece| plan(piece).is_ok());
        }
        Ok(work)
    }

    /// Takes the slots in the memory of all owners, as this rank's work has them.
    pub(crate) fn meet(&mut self, peers: Vec<Buffer<S>>) {
        self.peers = peers;
    }

    /// Makes flags for which the sum of the slots waits: in the kernel, if the product of the own chunk adds them, and else in the stream,
    /// if copy engines bring them. The pieces of an all-reduce wait for events.
    ///
    /// There is one for each rank, then the number of the round, and then those of the slots for which a stream waits where the kernel waits
    /// for others.
    pub(crate) fn landed(&self) -> Result<Option<Flags>, Error> {
        let ranks = self.shape.problem.ranks as usize;
        let count = ranks + 1 + if self.early.is_empty() { 0 } else { ranks };
        let has = self.own_sum.is_some() || self.told.is_some();
        let flags = (has && !self.shape.reduces()).then(|| Flags::new(&self.member.device, count));
        Ok(flags.transpose()?)
    }

    /// Takes the flags of all owners, by their ranks.
    pub(crate) fn meet_landed(&mut self, all: &[Flags]) -> Result<(), Error> {
        let there = all
            .iter()
            .map(|flags| flags.as_peer_of(&self.member.device));
        self.landed = Some(Landed {
            own: all[self.member.rank].clone(),
            there: there.collect::<Result<_, _>>()?,
        });
        Ok(())
    }

    /// Whether flags say that the terms of the others have come.
    pub(crate) fn has_landed(&self) -> bool {
        self.landed.is_some()
    }

    /// Makes the stream of kernels wait for the terms of the others for which no kernel waits by itself.
    pub(crate) fn await_landed(&self, round: u32) -> Result<(), Error> {
        let Some(landed) = &self.landed else {
            return Ok(());
        };
        let late = match self.shape.sums {
            RankSums::Kernel => self.others()?,
            RankSums::Epilogue => Vec::new(),
            RankSums::Early(_) => self.late()?,
        };
        for rank in late {
            let flag = self.flag(rank, self.member.rank)?;
            landed.own.wait(&self.member.device, flag, round)?;
        }
        Ok(())
    }

    /// Tells an owner in a stream that the term of this rank has come, if the owner waits for that.
    pub(crate) fn tell(&self, stream: &Device, owner: usize, round: u32) -> Result<(), Error> {
        match &self.landed {
            Some(landed) => {
                let flag = self.flag(self.member.rank, owner)?;
                Ok(landed.there[owner].set(stream, flag, round)?)
            }
            None => Ok(()),
        }
    }

    /// The flag of a rank's term among those of an owner. Those that are not early come behind the ones for which the kernel waits.
    fn flag(&self, rank: usize, owner: usize) -> Result<usize, Error> {
        let early = self.early.len();
        let mut first = arrivals(&self.shape.order, owner)?.into_iter().take(early);
        let is_awaited = early == 0 || first.any(|one| one == rank);
        let behind = self.shape.problem.ranks as usize + 1;
        Ok(if is_awaited { rank } else { behind + rank })
    }

    /// The ranks whose slots the product of the own chunk adds for the kernel behind it, in the order in which they come.
    pub(crate) fn early(&self) -> &[usize] {
        &self.early
    }

    /// The other ranks whose slots are not early, in the order in which they come.
    fn late(&self) -> Result<Vec<usize>, Error> {
        let mut ranks = arrivals(&self.shape.order, self.member.rank)?;
        Ok(ranks.split_off(self.early.len()))
    }

    /// Takes C of all ranks, as this rank's copies have them.
    pub(crate) fn meet_sums(&mut self, sums: Vec<Buffer<C>>) {
        self.sums = sums;
    }

    /// Takes the slots of the next rank.
    pub(crate) fn meet_one(&mut self, slots: Buffer<S>) {
        self.peers.push(slots);
    }

    /// Takes C of the next rank.
    pub(crate) fn meet_sum(&mut self, sums: Buffer<C>) {
        self.sums.push(sums);
    }

    pub(crate) fn shape(&self) -> &ScatterShape {
        &self.shape
    }

    pub(crate) fn slots(&self) -> &Buffer<S> {
        &self.slots
    }

    /// The owners, in the order in which their terms are computed.
    pub(crate) fn owners(&self) -> Result<Vec<usize>, Error> {
        let order = &self.shape.order;
        let chunks = order.chunks(self.member.rank as i64).map_err(rank_error)?;
        Ok(chunks.into_iter().map(|owner| owner as usize).collect())
    }

    /// The owners whose terms the first product computes, in their order: all, unless a product of its own computes the sum of
    /// the own chunk.
    pub(crate) fn multiplied(&self) -> Result<Vec<usize>, Error> {
        let mut owners = self.owners()?;
        if self.own_sum.is_some() {
            owners.pop();
        }
        Ok(owners)
    }

    /// Enqueues the product of a piece of all chunks, which stores its terms into the slots of the owners, or where copies and
    /// collectives find them. Where a product of its own computes the sum of the own chunk, of all other chunks.
    pub(crate) fn multiply(&self, piece: i64) -> Result<(), Error> {
        self.with_product(piece, |product| product.run())
    }

    /// What the rank gives to the collective of a piece, and where it takes the sums.
    pub(crate) fn ends(&self, piece: i64) -> Result<(Buffer<S>, Buffer<S>), Error> {
        let (terms, of) = (self.terms.as_ref(), (piece, self.shape.pieces));
        let terms = terms.unwrap_or(&self.slots);
        Ok((piece_of(terms, of)?, piece_of(&self.slots, of)?))
    }

    /// The flags for which copies wait.
    pub(crate) fn stored(&self) -> Option<&Flags> {
        self.told.as_ref().map(|told| &told.stored)
    }

    pub(crate) fn sends(&self) -> RankSends {
        self.shape.sends
    }

    /// Says the number of the round to the kernel that tells which terms are stored, or fills the sum with zeros to which kernels add.
    pub(crate) fn begin(&self, round: u32) -> Result<(), Error> {
        if self.sends() == RankSends::Reduction {
            return Ok(self.slots.fill_bytes(0)?);
        }
        let device = &self.member.device;
        if let (Some(Landed { own, .. }), Some(_)) = (&self.landed, &self.own_sum) {
            // The own term comes in the accumulators, and a kernel of its own adds the slots that are not early.
            own.set(device, self.member.rank, round)?;
            if !self.early.is_empty() {
                for rank in self.late()? {
                    own.set(device, rank, round)?;
                }
            }
            own.set(device, self.shape.problem.ranks as usize, round)?;
        }
        let Some(stored) = self.stored() else {
            return Ok(());
        };
        Ok(stored.set(device, stored.len() - 1, round)?)
    }

    /// Makes the stream of copies wait until the kernel has stored the term of an owner, if it tells.
    pub(crate) fn await_stored(&self, owner: usize, round: u32) -> Result<(), Error> {
        match self.stored() {
            Some(stored) => Ok(stored.wait(&self.member.copies, owner, round)?),
            None => Ok(()),
        }
    }

    /// Enqueues the copy of a term into the slot in the memory of another rank, its owner.
    pub(crate) fn send(&self, owner: usize) -> Result<(), Error> {
        // The own term is added where the kernel stores it.
        let Some(terms) = self.terms.as_ref().filter(|_| owner != self.member.rank) else {
            return Ok(());
        };
        let slot = self.part(&self.peers[owner], self.member.rank)?;
        let term = self.part(terms, owner)?;
        Ok(self.member.copies.enqueue_copy(&slot, &term)?)
    }

    /// Enqueues the sum of a piece of the slots in this rank's memory.
    pub(crate) fn add(&self, piece: i64) -> Result<(), Error> {
        let of = (piece, self.shape.pieces);
        if self.sends() == RankSends::Reduction {
            let c = self.own()?;
            if c.address() == self.slots.address() {
                return Ok(());
            }
            let sum = piece_of(&self.slots, of)?;
            return self.sum(std::slice::from_ref(&sum), &piece_of(&c, of)?);
        }
        if let Some(sum) = self.own_sum.as_ref().filter(|_| self.early.is_empty()) {
            let mut c = piece_of(&self.own()?, of)?;
            return self.add_to_own(sum, &mut c, of);
        }
        let slots = 0..self.shape.problem.ranks as usize;
        let slots = slots.filter(|rank| !self.early.contains(rank));
        let own = self.member.rank;
        let slots = slots.map(|rank| {
            let all = self.terms.as_ref().filter(|_| rank == own);
            piece_of(&self.part(all.unwrap_or(&self.slots), rank)?, of)
        });
        let slots = slots.collect::<Result<Vec<_>, _>>()?;
        self.sum(&slots, &piece_of(&self.own()?, of)?)
    }

    /// Enqueues the product of the own chunk whose epilogue adds the early slots, if some are: their sum takes the place of the own term.
    pub(crate) fn add_early(&self) -> Result<(), Error> {
        match (&self.own_sum, &self.terms) {
            (Some(sum), Some(terms)) if !self.early.is_empty() => {
                let mut own = self.part(terms, self.member.rank)?;
                self.add_to_own(sum, &mut own, (0, 1))
            }
            _ => Ok(()),
        }
    }

    /// Enqueues the product of a piece of the own chunk, whose epilogue adds the slots of the others, or the early ones.
    fn add_to_own<X: GemmElement>(
        &self,
        sum: &Epilogue,
        into: &mut Buffer<X>,
        of: (i64, i64),
    ) -> Result<(), Error> {
        let RankProblem { n, k, ranks, .. } = self.shape.problem;
        let (rows, k) = (self.rows() / of.1, k / ranks);
        let a = piece_of(&piece_of(&self.a, (self.member.rank as i64, ranks))?, of)?;
        let (a, b, c) = (
            a.view((rows, k))?,
            self.b.view((n, k))?,
            into.view_mut((rows, n))?,
        );
        let ranks = ranks as usize;
        let added = match self.early.as_slice() {
            [] => (0..ranks)
                .filter(|rank| *rank != self.member.rank)
                .collect(),
            early => early.to_vec(),
        };
        let slots = added
            .into_iter()
            .map(|rank| Ok((rank, piece_of(&self.part(&self.slots, rank)?, of)?)));
        let slots = slots.collect::<Result<Vec<_>, Error>>()?;
        let mut product = Gemm::new(&a, &b, &c).epilogue(sum).whole_sums();
        for (rank, slot) in &slots {
            product = product.tensor(&slot_name(*rank), &slot.view((rows, n))?);
        }
        if let Some(Landed { own, .. }) = &self.landed {
            product = product.awaits(&own.buffer().view(ranks as i64 + 1)?);
        }
        product.run()
    }

    /// Enqueues the rounding of what the collectives have added.
    pub(crate) fn round(&self) -> Result<(), Error> {
        self.sum(std::slice::from_ref(&self.slots), &self.c)
    }

    fn sum(&self, slots: &[Buffer<S>], c: &Buffer<C>) -> Result<(), Error> {
        let elements = c.len() as i64;
        let mut c = c.clone();
        let c = c.view_mut(elements)?;
        let mut map = Map::new(&self.shape.sum).output("c", &c);
        for (rank, slot) in slots.iter().enumerate() {
            map = map.input(&slot_name(rank), &slot.view(elements)?);
        }
        map.run()
    }

    /// The other ranks, in the order in which they get the sums of this one.
    pub(crate) fn others(&self) -> Result<Vec<usize>, Error> {
        let peers = self.shape.order.peers(self.member.rank as i64);
        let peers = peers.map_err(rank_error)?;
        Ok(peers.into_iter().map(|to| to as usize).collect())
    }

    /// Enqueues the copy of the sums of a piece to another rank.
    pub(crate) fn share(&self, piece: i64, to: usize) -> Result<(), Error> {
        let (rank, of) = (self.member.rank, (piece, self.shape.pieces));
        let own = piece_of(&self.own()?, of)?;
        let there = piece_of(&self.part(&self.sums[to], rank)?, of)?;
        Ok(self.member.copies.enqueue_copy(&there, &own)?)
    }

    /// The chunk of C of which this rank is the owner.
    fn own(&self) -> Result<Buffer<C>, Error> {
        if self.shape.reduces() {
            self.part(&self.c, self.member.rank)
        } else {
            Ok(self.c.clone())
        }
    }

    /// The rows of a chunk.
    fn rows(&self) -> i64 {
        self.shape.problem.m / self.shape.problem.ranks
    }

    /// The part of a number in memory that has one for each rank.
    fn part<X: GemmElement>(&self, of: &Buffer<X>, number: usize) -> Result<Buffer<X>, Error> {
        piece_of(of, (number as i64, self.shape.problem.ranks))
    }

    /// What `act` makes of the product of a piece of all chunks.
    fn with_product<X>(
        &self,
        piece: i64,
        act: impl FnOnce(Gemm<'_, T, S>) -> Result<X, Error>,
    ) -> Result<X, Error> {
        let RankProblem { n, k, ranks, .. } = self.shape.problem;
        let (chunk, k, pieces) = (self.rows(), k / ranks, self.shape.pieces);
        let (rows, first) = (chunk / pieces, self.owners()?[0] as i64);
        if let (Some(terms), Some(Told { counts, stored })) = (&self.terms, &self.told) {
            let a = View::new(&self.a, strided([(rows, k), (k, 1), (ranks, rows * k)])?)?;
            let b = View::new(&self.b, strided([(n, k), (k, 1), (ranks, 0)])?)?;
            // The handles are this call's, and only its kernel writes.
            let mut terms = terms.clone();
            let (mut counts, mut stored) = (counts.clone(), stored.buffer().clone());
            let layout = strided([(rows, n), (n, 1), (ranks, rows * n)])?;
            let product = Gemm::new(&a, &b, &ViewMut::new(&mut terms, layout)?);
            let product = product.chunks(ChunkOrder::Ascending, first);
            let (counts, stored) = (counts.view_mut(ranks)?, stored.view_mut(ranks + 1)?);
            return act(self.but_own(product.departures(&counts, &stored)));
        }
        if let Some(terms) = &self.terms {
            // A piece of an all-reduce is rows of the whole C, since no rank has a part of its own.
            let (from, apart) = if self.shape.reduces() {
                (piece * ranks * rows, rows)
            } else {
                (piece * rows, chunk)
            };
            let batch = RankBatch {
                sizes: [rows, n, k, ranks],
                a: (&self.a, from * k, apart * k),
                b: &self.b,
                c: (terms, piece * ranks * rows * n, rows * n),
            };
            return batch.product((self.in_chunks, first), act);
        }
        let a = self.a.slice((piece * rows * k) as usize..)?;
        let a = View::new(&a, strided([(rows, k), (k, 1), (ranks, chunk * k)])?)?;
        let b = View::new(&self.b, strided([(n, k), (k, 1), (ranks, 0)])?)?;
        let (rank, of) = (self.member.rank, (piece, pieces));
        let owners = self.peers.iter();
        let adds = self.sends() == RankSends::Reduction;
        let owners = owners.map(|slots| {
            if adds {
                piece_of(slots, of)
            } else {
                piece_of(&self.part(slots, rank)?, of)
            }
        });
        let mut owners = owners.collect::<Result<Vec<_>, _>>()?;
        let layout = strided([(rows, n), (n, 1)])?;
        let owners = owners.iter_mut();
        let owners = owners.map(|slot| ViewMut::new(slot, layout.clone()));
        let owners = owners.collect::<Result<Vec<_>, _>>()?;
        let product = Gemm::to_owners(&a, &b, &owners)?;
        let product = product.chunks(ChunkOrder::Ascending, first);
        act(if adds {
            product.adds()
        } else {
            self.but_own(product)
        })
    }

    /// The product without the own chunk, which is the last one, if a product of its own computes the sum of this.
    fn but_own<'a>(&self, product: Gemm<'a, T, S>) -> Gemm<'a, T, S> {
        match self.own_sum {
            Some(_) => product.but_last(),
            None => product,
        }
    }
}

impl<T: GemmElement, S: GemmElement, C: GemmElement> RankWork<T, C> for ScatterWork<T, S, C> {
    fn member(&self) -> &Member {
        &self.member
    }

    fn taken(&self) -> (RankPath, i64) {
        (self.shape.path, self.shape.pieces)
    }

    fn terms(&self) -> Option<(RankSends, RankSums)> {
        let is_by_peers = self.shape.path == RankPath::PeerMemory;
        is_by_peers.then_some((self.shape.sends, self.shape.sums))
    }

    fn words(&self) -> String {
        format!("{}, {}", self.shape, self.shape.holds::<S>())
    }

    fn explain(&self) -> Result<String, Error> {
        let product = self.with_product(0, |product| product.explain())?;
        Ok(product.lines().next().unwrap_or_default().to_string())
    }

    fn a(&self) -> Result<Buffer<T>, Error> {
        Ok(self.a.clone())
    }

    fn b(&self) -> &Buffer<T> {
        &self.b
    }

    fn c(&self) -> &Buffer<C> {
        &self.c
    }

    fn gathered(&self) -> Option<&Buffer<T>> {
        None
    }

    fn flags(&self) -> Vec<&Flags> {
        let landed = self.landed.iter().map(|landed| &landed.own);
        self.stored().into_iter().chain(landed).collect()
    }
}
