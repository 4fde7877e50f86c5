//! `GatherWork`: the work of one rank of an all-gather with a product.

use colex_device::{Buffer, Flags, View, ViewMut};

use super::{Member, strided};
use crate::error::{Error, HostError};
use crate::gemm::{ChunkOrder, Gemm, SendPlan, SentTo};
use crate::kernels::GemmElement;
use crate::ranks::host::gather_product::{RankCopies, RankOptions};
use crate::ranks::host::links::RankForecast;
use crate::ranks::{RankPath, RankProblem};

/// What all ranks of an all-gather with a product have in common.
#[derive(Clone, Debug)]
pub(crate) struct GatherShape {
    pub(crate) problem: RankProblem,
    pub(crate) path: RankPath,
    /// The pieces of a chunk.
    pub(crate) pieces: i64,
    /// What copies them.
    pub(crate) copies: RankCopies,
}

/// The most pieces of a chunk.
const MOST_PIECES: i64 = 64;

impl GatherShape {
    pub(crate) fn new(
        problem: RankProblem,
        path: RankPath,
        (is_apart, bytes, forecast): (bool, i64, &RankForecast),
        options: &RankOptions,
    ) -> Result<GatherShape, Error> {
        let rows = problem.m / problem.ranks;
        let is_whole = (problem.k.saturating_mul(bytes)) % 16 == 0;
        let can_send = path == RankPath::PeerMemory && is_apart && is_whole;
        let copies = match options.copies {
            None => RankCopies::Engines,
            Some(RankCopies::Kernel(_)) if !can_send => {
                let why = match (path, is_apart) {
                    (RankPath::PeerMemory, true) => {
                        "a kernel sends rows of whole vectors of 16 bytes"
                    }
                    (RankPath::PeerMemory, false) => {
                        "kernels that send to each other run at the same time, each on a device of its own"
                    }
                    _ => "a kernel sends on the path peer memory",
                };
                let path = "peer memory, sent by the kernel".to_string();
                return Err(HostError::Path { path, why }.into());
            }
            Some(copies) => copies,
        };
        let pieces = options.pieces.unwrap_or_else(|| match copies {
            // On four H200, two pieces were slower than one in every case, and four slower still.
            RankCopies::Engines => 1,
            RankCopies::Kernel(_) => forecast.pieces(&problem),
        });
        if !(1..=MOST_PIECES).contains(&pieces) || rows % pieces != 0 {
            let most = MOST_PIECES;
            return Err(HostError::Pieces { pieces, rows, most }.into());
        }
        Ok(GatherShape {
            problem,
            path,
            pieces,
            copies,
        })
    }
}

/// The work of one rank of an all-gather with a product.
#[derive(Debug)]
pub(crate) struct GatherWork<T, C> {
    member: Member,
    shape: GatherShape,
    /// Whether the kernel takes the product in chunks, as it does on every path where it can: chunks have whole sums, and without
    /// them a plan may divide K, so that the paths would have other bits.
    in_chunks: bool,
    /// The gathered A, and those of all ranks as this rank's copies have them.
    a: Buffer<T>,
    peers: Vec<Buffer<T>>,
    b: Buffer<T>,
    c: Buffer<C>,
    /// A flag for each piece of A.
    arrived: Flags,
    /// The flags of all ranks as this rank's work has them.
    flags: Vec<Flags>,
    /// Where the kernel sends the own part, if it does.
    sent: Option<Sent<T>>,
}

/// Where a kernel sends the part of a rank.
#[derive(Debug)]
struct Sent<T> {
    /// Words for the warps that send.
    counts: Buffer<u32>,
    /// The rank's part in the gathered A of every other rank, and its flags there.
    peers: Vec<(Buffer<T>, Buffer<u32>)>,
    plan: SendPlan,
}

impl<T: GemmElement, C: GemmElement> GatherWork<T, C> {
    /// Allocates the operands, zeros, and the flags.
    pub(crate) fn new(member: &Member, shape: &GatherShape) -> Result<GatherWork<T, C>, Error> {
        let RankProblem { m, n, k, ranks, .. } = shape.problem;
        let flags = (ranks * shape.pieces) as usize;
        let mut work = GatherWork {
            in_chunks: true,
            a: member.buffer(m.saturating_mul(k))?,
            peers: Vec::new(),
            b: member.buffer((n / ranks).saturating_mul(k))?,
            c: member.buffer(m.saturating_mul(n / ranks))?,
            arrived: Flags::new(&member.device, flags)?,
            flags: Vec::new(),
            sent: None,
            member: member.clone(),
            shape: shape.clone(),
        };
        if shape.path != RankPath::PeerMemory {
            work.in_chunks = work.with_product(|product| product.explain()).is_ok();
        }
        Ok(work)
    }

    /// Takes the gathered A of all ranks, as this rank's work has them.
    pub(crate) fn meet(&mut self, peers: Vec<Buffer<T>>) {
        self.peers = peers;
    }

    /// Takes the flags of all ranks, as this rank's work has them.
    pub(crate) fn send_to(&mut self, flags: Vec<Flags>) -> Result<(), Error> {
        let RankCopies::Kernel(plan) = self.shape.copies else {
            self.flags = flags;
            return Ok(());
        };
        let (rank, pieces) = (self.member.rank, self.shape.pieces as usize);
        let own = rank * pieces..(rank + 1) * pieces;
        let both = self.peers.iter().zip(&flags).enumerate();
        let others = both.filter(|(other, _)| *other != rank);
        let peers = others.map(|(_, (gathered, flags))| {
            let part = self.chunk(gathered, rank, (0, 1))?;
            Ok((part, flags.buffer().slice(own.clone())?))
        });
        let peers = peers.collect::<Result<Vec<_>, Error>>()?;
        let counts = self.member.buffer(self.shape.pieces)?;
        self.flags = flags;
        self.sent = Some(Sent {
            counts,
            peers,
            plan,
        });
        Ok(())
    }

    pub(crate) fn member(&self) -> &Member {
        &self.member
    }

    /// The part of A of this rank.
    pub(crate) fn a(&self) -> Result<Buffer<T>, Error> {
        self.chunk(&self.a, self.member.rank, (0, 1))
    }

    pub(crate) fn gathered(&self) -> &Buffer<T> {
        &self.a
    }

    pub(crate) fn b(&self) -> &Buffer<T> {
        &self.b
    }

    pub(crate) fn c(&self) -> &Buffer<C> {
        &self.c
    }

    pub(crate) fn arrived(&self) -> &Flags {
        &self.arrived
    }

    /// The first line of the product's plan.
    pub(crate) fn explain(&self) -> Result<String, Error> {
        let product = self.with_product(|product| product.explain())?;
        Ok(product.lines().next().unwrap_or_default().to_string())
    }

    /// The other ranks, in the order in which they get this rank's part. Each rank begins with the next one, so that no two send to one rank
    /// at a time.
    pub(crate) fn destinations(&self) -> impl Iterator<Item = usize> {
        let (rank, ranks) = (self.member.rank, self.shape.problem.ranks as usize);
        (1..ranks).map(move |away| (rank + away) % ranks)
    }

    /// Enqueues the copies of this rank's part to another rank, with their flags. All of them come before the kernels: one that waits
    /// for a flag takes the multiprocessors, and never a copy engine.
    pub(crate) fn send(&self, to: usize, round: u32) -> Result<(), Error> {
        let (stream, pieces, rank) = (&self.member.copies, self.shape.pieces, self.member.rank);
        for piece in (0..pieces).rev() {
            let at = |gathered| self.chunk(gathered, rank, (piece, pieces));
            stream.enqueue_copy(&at(&self.peers[to])?, &at(&self.a)?)?;
            if self.shape.path == RankPath::PeerMemory {
                let flag = rank as i64 * pieces + piece;
                self.flags[to].set(stream, flag as usize, round)?;
            }
        }
        Ok(())
    }

    /// Enqueues the product, with the flags of the own part.
    pub(crate) fn multiply(&self, round: u32) -> Result<(), Error> {
        if self.shape.path == RankPath::PeerMemory {
            let first = self.member.rank as i64 * self.shape.pieces;
            for flag in first..first + self.shape.pieces {
                self.arrived
                    .set(&self.member.device, flag as usize, round)?;
            }
        }
        self.with_product(|product| product.run())
    }

    /// A piece of the chunk of a rank in gathered memory: of its number and the number of all.
    fn chunk(
        &self,
        gathered: &Buffer<T>,
        rank: usize,
        (piece, pieces): (i64, i64),
    ) -> Result<Buffer<T>, Error> {
        let RankProblem { m, k, ranks, .. } = self.shape.problem;
        let chunk = m / ranks * k;
        let each = chunk / pieces;
        let start = (rank as i64 * chunk + piece * each) as usize;
        Ok(gathered.slice(start..start + each as usize)?)
    }

    /// What `act` makes of the product.
    fn with_product<X>(
        &self,
        act: impl FnOnce(Gemm<'_, T, C>) -> Result<X, Error>,
    ) -> Result<X, Error> {
        let RankProblem { m, n, k, ranks, .. } = self.shape.problem;
        let pieces = self.shape.pieces;
        let (n, chunks) = (n / ranks, ranks * pieces);
        let rows = m / chunks;
        // The rank, or the piece of one, is the last mode.
        let a = View::new(&self.a, strided([(rows, k), (k, 1), (chunks, rows * k)])?)?;
        let b = View::new(&self.b, strided([(n, k), (k, 1), (chunks, 0)])?)?;
        // Only this call writes C, and its handles are this call's.
        let mut c = self.c.clone();
        let c = ViewMut::new(&mut c, strided([(rows, n), (n, 1), (chunks, rows * n)])?)?;
        let rank = self.member.rank as i64;
        let product = Gemm::new(&a, &b, &c);
        if !self.in_chunks {
            return act(product);
        }
        let arrived = self.arrived.buffer().view(chunks)?;
        if let Some(Sent {
            counts,
            peers,
            plan,
        }) = &self.sent
        {
            let order = ChunkOrder::OwnPiecesFirst { pieces };
            let own = self.a()?;
            let own = own.view(m / ranks * k)?;
            // The handles are this call's, and each of them is for its kernel alone.
            let (mut counts, mut peers) = (counts.clone(), peers.clone());
            let peers = peers.iter_mut().map(|(part, flags)| {
                Ok(SentTo {
                    pieces: part.view_mut(m / ranks * k)?,
                    arrived: flags.view_mut(pieces)?,
                })
            });
            let peers = peers.collect::<Result<Vec<_>, Error>>()?;
            let product = product.chunks(order, rank * pieces).arrivals(&arrived);
            return act(product.sends(&own, &counts.view_mut(pieces)?, &peers, *plan));
        }
        let first = (rank + 1) * pieces - 1;
        let product = product.chunks(ChunkOrder::Descending, first);
        if self.shape.path != RankPath::PeerMemory {
            return act(product);
        }
        act(product.arrivals(&arrived))
    }
}
