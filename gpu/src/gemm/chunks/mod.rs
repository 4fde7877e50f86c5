//! Chunks of a product over ranks: the products of a batch whose mode is the rank, in an order that begins anywhere, each as soon
//! as it has arrived, and stored where its owner wants it.

pub(crate) mod arrivals;
pub(crate) mod call;
pub(crate) mod sends;

use colex_atom::Arch;
use colex_tensor::{Builder, Index};

use super::choose::choose_whole;
use super::groups::tiles;
use super::plan::{GemmPlan, Operands};
use super::problem::MOST_EXTENT;
use crate::error::{Error, ErrorKind};
use crate::kernels::GemmProblem;
use crate::method::GemmMethod;

/// The order in which a kernel takes the chunks of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChunkOrder {
    /// The first, the one after it, and so on; behind the last comes chunk 0.
    Ascending,
    /// The first, the one before it, and so on; before chunk 0 comes the last.
    Descending,
    /// Chunks that are pieces of ranks, as many of each rank, numbered rank by rank. All pieces of the rank of the first chunk come first, then
    /// the first piece of every other rank, then the second piece of every other rank, and so on: the order in which pieces
    /// arrive from ranks that all send at once.
    OwnPiecesFirst {
        /// The pieces of a rank.
        pieces: i64,
    },
    /// The same chunks: the first piece of every other rank, the second of every other rank, and so on, and all pieces of the rank of the
    /// first chunk at the end. A rank that computes for others sends to all of them at once, and has nothing to send in the end.
    OwnPiecesLast {
        /// The pieces of a rank.
        pieces: i64,
    },
}

impl ChunkOrder {
    /// Returns the chunk that is taken at a step, of a number of chunks.
    ///
    /// ```
    /// use colex_gpu::gemm::ChunkOrder;
    ///
    /// let all = |order: ChunkOrder| [0, 1, 2, 3].map(|step| order.chunk(1, step, 4));
    /// assert_eq!(all(ChunkOrder::Ascending), [1, 2, 3, 0]);
    /// assert_eq!(all(ChunkOrder::Descending), [1, 0, 3, 2]);
    /// // Three ranks of two pieces, of which rank 1 has pieces 2 and 3.
    /// let all = |order: ChunkOrder| [0, 1, 2, 3, 4, 5].map(|step| order.chunk(2, step, 6));
    /// assert_eq!(all(ChunkOrder::OwnPiecesFirst { pieces: 2 }), [2, 3, 0, 4, 1, 5]);
    /// assert_eq!(all(ChunkOrder::OwnPiecesLast { pieces: 2 }), [4, 0, 5, 1, 2, 3]);
    /// ```
    pub fn chunk(self, first: i64, step: i64, chunks: i64) -> i64 {
        let chunks = i128::from(chunks.max(1));
        let (first, step) = (i128::from(first), i128::from(step));
        let pieces = i128::from(self.pieces().max(1));
        // Whole ranks: a rest has no order, and calls refuse it.
        let ranks = (chunks / pieces).max(1);
        let (own, others) = (first.div_euclid(pieces), (ranks - 1).max(1));
        let of_own = |piece: i128| own * pieces + piece;
        let of_other = |at: i128, forwards: bool| {
            let away = at.rem_euclid(others) + 1;
            let rank = if forwards { own + away } else { own - away };
            rank.rem_euclid(ranks) * pieces + at.div_euclid(others)
        };
        let sent = (ranks - 1) * pieces;
        let chunk = match self {
            ChunkOrder::Ascending => first + step,
            ChunkOrder::Descending => first - step,
            ChunkOrder::OwnPiecesFirst { .. } if step < pieces => of_own(step),
            ChunkOrder::OwnPiecesFirst { .. } => of_other(step - pieces, false),
            ChunkOrder::OwnPiecesLast { .. } if step < sent => of_other(step, true),
            ChunkOrder::OwnPiecesLast { .. } => of_own(step - sent),
        };
        chunk.rem_euclid(chunks) as i64
    }
}

impl ChunkOrder {
    /// Returns the chunks of each rank that the order tells apart.
    pub(crate) fn pieces(self) -> i64 {
        match self {
            ChunkOrder::Ascending | ChunkOrder::Descending => 1,
            ChunkOrder::OwnPiecesFirst { pieces } | ChunkOrder::OwnPiecesLast { pieces } => pieces,
        }
    }
}

/// What a kernel of chunks is built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ChunkForm {
    pub(crate) order: ChunkOrder,
    /// Whether the kernel waits for the flag of a chunk before it loads it.
    pub(crate) arrives: bool,
    /// The matrices of C, one for each chunk, if they have addresses of their own; else 0.
    pub(crate) owners: usize,
    /// The other ranks to which the kernel sends its own pieces of A; else 0.
    pub(crate) peers: usize,
}

/// The chunks of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Chunks {
    pub(crate) form: ChunkForm,
    /// The chunk that comes first.
    pub(crate) first: i64,
}

pub(crate) fn refuse<T>(why: String) -> Result<T, Error> {
    let why = format!("chunks: {why}");
    Err(ErrorKind::Batch { why }.into())
}

/// The most owners of the chunks of C: a kernel has a tensor map of 128 bytes for each, of 4 KiB of parameters.
pub(crate) const MOST_OWNERS: usize = 16;

/// The chunk at a step in a kernel.
pub(crate) fn at(k: &mut Builder, order: ChunkOrder, [first, step, chunks]: [&Index; 3]) -> Index {
    let chunk = match order {
        ChunkOrder::Ascending => {
            let chunk = first + step;
            Index::select_less(&chunk, chunks, &chunk, &(&chunk - chunks))
        }
        ChunkOrder::Descending => {
            let chunk = first - step;
            Index::select_less(&chunk, &0.into(), &(&chunk + chunks), &chunk)
        }
        ChunkOrder::OwnPiecesFirst { pieces } => {
            let of_own = first + step;
            // The minima and maxima state bounds that hold where the value is taken.
            let beyond = tiles::larger(&(step - pieces), &0.into());
            let other = other(k, (first, chunks, pieces), &beyond, false);
            Index::select_less(step, &pieces.into(), &of_own, &other)
        }
        ChunkOrder::OwnPiecesLast { pieces } => {
            let sent = chunks - pieces;
            let of_own = first + tiles::larger(&(step - &sent), &0.into());
            let other = other(k, (first, chunks, pieces), step, true);
            Index::select_less(step, &sent, &other, &of_own)
        }
    };
    k.within(chunk, 0..MOST_EXTENT)
}

/// The piece of another rank than the first chunk's, at a place among those of all other ranks: first piece by first piece.
fn other(
    k: &mut Builder,
    (first, chunks, pieces): (&Index, &Index, i64),
    at: &Index,
    forwards: bool,
) -> Index {
    let ranks = k.within(chunks / pieces, 1..MOST_EXTENT);
    let others = k.within(tiles::larger(&(&ranks - 1), &1.into()), 1..MOST_EXTENT);
    let at = k.within(at.clone(), 0..MOST_EXTENT);
    let (piece, away) = (&at / &others, &at % &others + 1);
    let own = first / pieces;
    let rank = if forwards {
        let rank = own + away;
        Index::select_less(&rank, &ranks, &rank, &(&rank - &ranks))
    } else {
        let rank = own - away;
        Index::select_less(&rank, &0.into(), &(&rank + &ranks), &rank)
    };
    rank * pieces + piece
}

/// The plan of a product in chunks: the fastest of the Hopper kernel's that divide no K.
pub(crate) fn choose(
    problem: &GemmProblem,
    operands: Operands,
    arch: Arch,
    multiprocessors: i64,
) -> GemmPlan {
    let plan = choose_whole(problem, operands, arch, multiprocessors);
    match plan.method {
        GemmMethod::Hopper => plan,
        _ => GemmPlan::new(GemmMethod::Hopper, operands),
    }
}

/// Whether a plan's kernel takes chunks.
///
/// # Errors
///
/// Returns an error that says why not.
pub(crate) fn check(plan: &GemmPlan, form: ChunkForm) -> Result<(), Error> {
    if plan.method != GemmMethod::Hopper {
        return refuse(format!(
            "the {} kernel has one block for each tile, and takes chunks in the order of their numbers: the Hopper kernel takes \
             them in any order",
            plan.method
        ));
    }
    if plan.split > 1 {
        return refuse(format!(
            "the plan divides K among {} clusters, whose parts another kernel adds: chunks have whole sums",
            plan.split
        ));
    }
    if form.peers > 0 && plan.gather {
        return refuse(
            "the kernel sends pieces by the warps beside the one that loads by TMA, and all threads of this plan's producer load".to_string(),
        );
    }
    if form.owners == 0 {
        return Ok(());
    }
    let stored = plan.stored();
    if !stored.stages_c() {
        return refuse(
            "C has an owner for each chunk, and the plan's threads store it: rows of whole vectors of 16 bytes are stored by TMA"
                .to_string(),
        );
    }
    if plan.operands.beta {
        return refuse(
            "C has an owner for each chunk, and is read: its factor must be 0".to_string(),
        );
    }
    Ok(())
}
