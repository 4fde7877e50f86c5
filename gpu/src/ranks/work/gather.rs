//! `GatherWork`: the work of one rank of an all-gather with a product.

use core::fmt;

use colex_device::{Buffer, Flags, View, ViewMut};
use colex_layout::Layout;

use super::{MOST_PIECES, Member, RankBatch, RankWork, counted, piece_of, strided};
use crate::error::{Error, HostError};
use crate::gemm::{ChunkOrder, Gemm};
use crate::kernels::GemmElement;
use crate::ranks::host::choice::Chosen;
use crate::ranks::host::options::{RankOptions, RankSends, RankSums};
use crate::ranks::{RankPath, RankProblem};

/// What all ranks of an all-gather with a product have in common.
#[derive(Clone, Debug)]
pub(crate) struct GatherShape {
    pub(crate) problem: RankProblem,
    pub(crate) path: RankPath,
    /// The pieces of a chunk.
    pub(crate) pieces: i64,
}

impl GatherShape {
    pub(crate) fn new(
        problem: RankProblem,
        choice: &Chosen,
        options: &RankOptions,
    ) -> Result<GatherShape, Error> {
        let (path, rows) = (choice.path, problem.m / problem.ranks);
        let given = [options.sends.map(|_| "sends"), options.sums.map(|_| "sums")];
        if let Some(option) = given.into_iter().flatten().next() {
            let overlap = problem.overlap.to_string();
            return Err(HostError::NoTerms { overlap, option }.into());
        }
        // On four H200, two pieces were slower than one in every case, and four slower still.
        let usual = match path {
            RankPath::NcclInChunks => choice.forecast.pieces(path),
            _ => 1,
        };
        let pieces = options.pieces.unwrap_or(usual);
        if !(1..=MOST_PIECES).contains(&pieces) || rows % pieces != 0 {
            let most = MOST_PIECES;
            return Err(HostError::Pieces { pieces, rows, most }.into());
        }
        Ok(GatherShape {
            problem,
            path,
            pieces,
        })
    }

    /// The layout of the gathered A, by rows of a piece, pieces, ranks, and K. The collectives of a piece bring it from all ranks, so
    /// that these lie within the pieces.
    pub(crate) fn gathered(&self) -> Result<Layout, Error> {
        let RankProblem { m, k, ranks, .. } = self.problem;
        let rows = m / ranks / self.pieces;
        let (piece, rank) = match self.path {
            RankPath::NcclInChunks => (ranks * rows * k, rows * k),
            _ => (rows * k, self.pieces * rows * k),
        };
        strided([(rows, k), (self.pieces, piece), (ranks, rank), (k, 1)])
    }
}

impl fmt::Display for GatherShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (problem, path) = (&self.problem, self.path);
        write!(f, "{problem} by {path}, chunks in {}", counted(self.pieces))
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
    /// The part of A, if it is not one of the gathered A: the path has collectives of pieces.
    own: Option<Buffer<T>>,
    peers: Vec<Buffer<T>>,
    b: Buffer<T>,
    c: Buffer<C>,
    /// A flag for each piece of A.
    arrived: Flags,
}

impl<T: GemmElement, C: GemmElement> GatherWork<T, C> {
    /// Allocates the operands, zeros, and the flags.
    pub(crate) fn new(member: &Member, shape: &GatherShape) -> Result<GatherWork<T, C>, Error> {
        let RankProblem { m, n, k, ranks, .. } = shape.problem;
        let flags = (ranks * shape.pieces) as usize;
        let own = match shape.path {
            RankPath::NcclInChunks => Some(member.buffer((m / ranks).saturating_mul(k))?),
            _ => None,
        };
        let mut work = GatherWork {
            in_chunks: true,
            own,
            a: member.buffer(m.saturating_mul(k))?,
            peers: Vec::new(),
            b: member.buffer((n / ranks).saturating_mul(k))?,
            c: member.buffer(m.saturating_mul(n / ranks))?,
            arrived: Flags::new(&member.device, flags)?,
            member: member.clone(),
            shape: shape.clone(),
        };
        work.in_chunks = match shape.path {
            RankPath::PeerMemory => true,
            RankPath::NcclInChunks => {
                let plan = |piece| work.with_piece(piece, |product| product.explain());
                (0..shape.pieces).all(|piece| plan(piece).is_ok())
            }
            _ => work.with_product(|product| product.explain()).is_ok(),
        };
        Ok(work)
    }

    /// Takes the gathered A of all ranks, as this rank's work has them.
    pub(crate) fn meet(&mut self, peers: Vec<Buffer<T>>) {
        self.peers = peers;
    }

    /// Takes that of the next rank.
    pub(crate) fn meet_one(&mut self, peer: Buffer<T>) {
        self.peers.push(peer);
    }

    pub(crate) fn shape(&self) -> &GatherShape {
        &self.shape
    }

    pub(crate) fn gathered(&self) -> &Buffer<T> {
        &self.a
    }

    pub(crate) fn arrived(&self) -> &Flags {
        &self.arrived
    }

    /// The other ranks, in the order in which they get this rank's part. Each rank begins with the next one, so that no two send to one
    /// rank at a time.
    pub(crate) fn destinations(&self) -> impl Iterator<Item = usize> {
        let (rank, ranks) = (self.member.rank, self.shape.problem.ranks as usize);
        (1..ranks).map(move |away| (rank + away) % ranks)
    }

    /// The other ranks, in the order in which their parts come.
    pub(crate) fn sources(&self) -> impl Iterator<Item = usize> {
        let (rank, ranks) = (self.member.rank, self.shape.problem.ranks as usize);
        (1..ranks).map(move |away| (rank + ranks - away) % ranks)
    }

    /// Enqueues the copies of this rank's part to another rank, piece by piece, and `then` behind each, with the number of its flag. All of
    /// them come before the kernels: a kernel that waits for a flag takes the multiprocessors, and never a copy engine.
    ///
    /// The sender's engine copies, as it writes: on four H200, engines that write bring 339 GB/s to each device while all work, and
    /// engines that read bring 176 GB/s.
    pub(crate) fn send(
        &self,
        to: usize,
        then: impl Fn(usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (stream, pieces, rank) = (&self.member.copies, self.shape.pieces, self.member.rank);
        for piece in (0..pieces).rev() {
            let at = |gathered| self.chunk(gathered, rank, (piece, pieces));
            stream.enqueue_copy(&at(&self.peers[to])?, &at(&self.a)?)?;
            then((rank as i64 * pieces + piece) as usize)?;
        }
        Ok(())
    }

    /// The flags of the pieces of a rank.
    pub(crate) fn flags_of(&self, rank: usize) -> core::ops::Range<usize> {
        let pieces = self.shape.pieces as usize;
        rank * pieces..(rank + 1) * pieces
    }

    /// Enqueues the product, with the flags of the own part.
    pub(crate) fn multiply(&self, round: u32) -> Result<(), Error> {
        if self.shape.path == RankPath::PeerMemory {
            for flag in self.flags_of(self.member.rank) {
                self.arrived.set(&self.member.device, flag, round)?;
            }
        }
        self.with_product(|product| product.run())
    }

    /// What the rank gives to the collective of a piece, and where it takes the piece of all ranks.
    pub(crate) fn ends(&self, piece: i64) -> Result<(Buffer<T>, Buffer<T>), Error> {
        match &self.own {
            None => Ok((RankWork::a(self)?, self.a.clone())),
            Some(own) => {
                let of = (piece, self.shape.pieces);
                Ok((piece_of(own, of)?, piece_of(&self.a, of)?))
            }
        }
    }

    /// Enqueues the product of a piece of all chunks, which a collective has brought.
    pub(crate) fn multiply_piece(&self, piece: i64) -> Result<(), Error> {
        self.with_piece(piece, |product| product.run())
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

    /// What `act` makes of the product of a piece of all chunks, whose ranks lie within the piece.
    fn with_piece<X>(
        &self,
        piece: i64,
        act: impl FnOnce(Gemm<'_, T, C>) -> Result<X, Error>,
    ) -> Result<X, Error> {
        let RankProblem { m, n, k, ranks, .. } = self.shape.problem;
        let (n, chunk) = (n / ranks, m / ranks);
        let rows = chunk / self.shape.pieces;
        let batch = RankBatch {
            sizes: [rows, n, k, ranks],
            a: (&self.a, piece * ranks * rows * k, rows * k),
            b: &self.b,
            c: (&self.c, piece * rows * n, chunk * n),
        };
        batch.product((self.in_chunks, self.member.rank as i64), act)
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
        let first = (self.member.rank as i64 + 1) * pieces - 1;
        let product = Gemm::new(&a, &b, &c);
        if !self.in_chunks {
            return act(product);
        }
        let product = product.chunks(ChunkOrder::Descending, first);
        if self.shape.path != RankPath::PeerMemory {
            return act(product);
        }
        let arrived = self.arrived.buffer().view(chunks)?;
        act(product.arrivals(&arrived))
    }
}

impl<T: GemmElement, C: GemmElement> RankWork<T, C> for GatherWork<T, C> {
    fn member(&self) -> &Member {
        &self.member
    }

    fn taken(&self) -> (RankPath, i64) {
        (self.shape.path, self.shape.pieces)
    }

    fn terms(&self) -> Option<(RankSends, RankSums)> {
        None
    }

    fn words(&self) -> String {
        self.shape.to_string()
    }

    fn explain(&self) -> Result<String, Error> {
        let product = match self.shape.path {
            RankPath::NcclInChunks => self.with_piece(0, |product| product.explain())?,
            _ => self.with_product(|product| product.explain())?,
        };
        Ok(product.lines().next().unwrap_or_default().to_string())
    }

    fn a(&self) -> Result<Buffer<T>, Error> {
        if let Some(own) = &self.own {
            return Ok(own.clone());
        }
        self.chunk(&self.a, self.member.rank, (0, 1))
    }

    fn b(&self) -> &Buffer<T> {
        &self.b
    }

    fn c(&self) -> &Buffer<C> {
        &self.c
    }

    fn gathered(&self) -> Option<&Buffer<T>> {
        Some(&self.a)
    }

    fn flags(&self) -> Vec<&Flags> {
        vec![&self.arrived]
    }
}
