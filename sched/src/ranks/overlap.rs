//! Products across ranks in chunks: which chunk a rank sends and multiplies when.

use core::fmt;

use crate::number::error::{Error, ErrorKind, at_least, within};

/// A product across ranks whose communication overlaps with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Overlap {
    /// A, sharded along its rows, is gathered: each rank sends its chunk to the others and multiplies all chunks.
    GatherProduct,
    /// C is a partial sum and is scattered along its rows: each rank sends each chunk of its term to the owner, which adds
    /// the terms.
    ProductScatter,
    /// C is a partial sum and is reduced on every rank: as [`Overlap::ProductScatter`], and each owner sends its sum to the
    /// others.
    ProductReduce,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Overlap::GatherProduct => "all-gather and product",
            Overlap::ProductScatter => "product and reduce-scatter",
            Overlap::ProductReduce => "product and all-reduce",
        })
    }
}

/// How long the parts of a product across ranks take for one chunk, in any unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkTimes {
    /// From the begin of a chunk's way to another rank until it is there.
    pub send: u64,
    /// The product of a chunk.
    pub product: u64,
    /// The sum of all terms of a chunk.
    pub add: u64,
}

/// What a rank does with a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChunkWork {
    /// It sends it to another rank.
    Send {
        /// The rank that receives it.
        to: i64,
    },
    /// It multiplies it.
    Product,
    /// It adds the terms of all ranks.
    Add,
    /// It multiplies all chunks, in its order: of a product that was measured as a whole. The span has the first chunk.
    Products,
}

/// What a rank does with a chunk, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkSpan {
    /// The rank.
    pub rank: i64,
    /// What it does.
    pub work: ChunkWork,
    /// The chunk of rows, which has the number of its owner.
    pub chunk: i64,
    /// The start time.
    pub start: u64,
    /// The end time.
    pub end: u64,
}

/// The plan of a product across ranks: one chunk for each rank, and the order in which each rank takes them.
///
/// ```
/// use colex_sched::{ChunkTimes, Overlap, OverlapPlan};
///
/// let plan = OverlapPlan::new(Overlap::GatherProduct, 4)?;
/// // Rank 2 begins with its own chunk, then takes them as they come.
/// assert_eq!(plan.chunks(2)?, [2, 1, 0, 3]);
/// assert_eq!(plan.peers(2)?, [3, 0, 1]);
/// // Where a chunk is sent in less time than it is multiplied, only the products take time.
/// let times = ChunkTimes { send: 3, product: 4, add: 0 };
/// assert_eq!((plan.time(&times)?, plan.time_apart(&times)?), (16, 25));
/// # Ok::<(), colex_sched::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OverlapPlan {
    overlap: Overlap,
    ranks: i64,
}

impl OverlapPlan {
    /// The most ranks of a plan.
    pub const MOST_RANKS: i64 = 64;

    /// Returns the plan for a number of ranks.
    ///
    /// # Errors
    ///
    /// Returns an error for fewer than 1 or more than [`OverlapPlan::MOST_RANKS`] ranks.
    pub fn new(overlap: Overlap, ranks: i64) -> Result<OverlapPlan, Error> {
        let most = OverlapPlan::MOST_RANKS as usize;
        let ranks = at_least("the number of ranks", ranks, 1)?;
        let count = usize::try_from(ranks).unwrap_or(usize::MAX);
        within("the number of ranks", count, 1, most)?;
        Ok(OverlapPlan { overlap, ranks })
    }

    /// Returns which product this is.
    pub fn overlap(&self) -> Overlap {
        self.overlap
    }

    /// Returns the number of ranks, which is that of the chunks.
    pub fn ranks(&self) -> i64 {
        self.ranks
    }

    fn check(&self, rank: i64) -> Result<(), Error> {
        if (0..self.ranks).contains(&rank) {
            Ok(())
        } else {
            Err(Error::outside("rank", [rank, 0, 0], [self.ranks, 1, 1]))
        }
    }

    /// The chunk that a rank multiplies at a step.
    fn chunk(&self, rank: i64, step: i64) -> i64 {
        match self.overlap {
            // Its own first: the chunk of rank `rank - i` is the one that comes as number i.
            Overlap::GatherProduct => (rank - step).rem_euclid(self.ranks),
            // Its own last: it needs no way.
            Overlap::ProductScatter | Overlap::ProductReduce => {
                (rank + 1 + step).rem_euclid(self.ranks)
            }
        }
    }

    /// Returns the chunks in the order in which a rank multiplies them: its own first if chunks are gathered, last if they
    /// are scattered or reduced.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank.
    pub fn chunks(&self, rank: i64) -> Result<Vec<i64>, Error> {
        self.check(rank)?;
        Ok((0..self.ranks).map(|step| self.chunk(rank, step)).collect())
    }

    /// Returns the ranks to which a rank sends, in order: each receives from one rank at a time.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank.
    pub fn peers(&self, rank: i64) -> Result<Vec<i64>, Error> {
        self.check(rank)?;
        let steps = 1..self.ranks;
        Ok(steps.map(|step| (rank + step) % self.ranks).collect())
    }

    /// Returns what each rank does when, if each step begins as early as it can: rank by rank, by start. A rank sends one
    /// chunk at a time, and multiplies and adds one at a time.
    ///
    /// # Errors
    ///
    /// Returns an error if a time does not fit in 64 bits.
    pub fn timeline(&self, times: &ChunkTimes) -> Result<Vec<ChunkSpan>, Error> {
        let mut spans = match self.overlap {
            Overlap::GatherProduct => self.gather(times),
            Overlap::ProductScatter | Overlap::ProductReduce => self.scatter(times),
        }?;
        spans.sort_by_key(|span| (span.rank, span.start, span.work));
        Ok(spans)
    }

    fn gather(&self, times: &ChunkTimes) -> Result<Vec<ChunkSpan>, Error> {
        let mut spans = Vec::new();
        for rank in 0..self.ranks {
            let mut now = 0;
            for to in self.peers(rank)? {
                let span = span(rank, ChunkWork::Send { to }, rank, now, times.send)?;
                now = span.end;
                spans.push(span);
            }
            let mut now = 0;
            for step in 0..self.ranks {
                let arrival = after(0, times.send.checked_mul(step as u64))?;
                let chunk = self.chunk(rank, step);
                let begin = arrival.max(now);
                let span = span(rank, ChunkWork::Product, chunk, begin, times.product)?;
                now = span.end;
                spans.push(span);
            }
        }
        Ok(spans)
    }

    fn scatter(&self, times: &ChunkTimes) -> Result<Vec<ChunkSpan>, Error> {
        let mut spans = Vec::new();
        let mut ready = vec![0; self.ranks as usize];
        let mut links = Vec::new();
        for rank in 0..self.ranks {
            let (mut now, mut free) = (0, 0);
            for chunk in self.chunks(rank)? {
                let product = span(rank, ChunkWork::Product, chunk, now, times.product)?;
                now = product.end;
                spans.push(product);
                let there = if chunk == rank {
                    now
                } else {
                    let work = ChunkWork::Send { to: chunk };
                    let send = span(rank, work, chunk, now.max(free), times.send)?;
                    free = send.end;
                    spans.push(send);
                    free
                };
                let ready = &mut ready[chunk as usize];
                *ready = there.max(*ready);
            }
            links.push(free);
        }
        for (rank, ready) in (0..).zip(ready) {
            let add = span(rank, ChunkWork::Add, rank, ready, times.add)?;
            spans.push(add);
            if self.overlap == Overlap::ProductReduce {
                let mut free = add.end.max(links[rank as usize]);
                for to in self.peers(rank)? {
                    let send = span(rank, ChunkWork::Send { to }, rank, free, times.send)?;
                    free = send.end;
                    spans.push(send);
                }
            }
        }
        Ok(spans)
    }

    /// Returns the time at which the last rank is done.
    ///
    /// # Errors
    ///
    /// Returns an error if a time does not fit in 64 bits.
    pub fn time(&self, times: &ChunkTimes) -> Result<u64, Error> {
        let spans = self.timeline(times)?;
        Ok(spans.iter().map(|span| span.end).max().unwrap_or(0))
    }

    /// Returns the time if the product begins when all chunks are there, or sends when all are multiplied.
    ///
    /// # Errors
    ///
    /// Returns an error if a time does not fit in 64 bits.
    pub fn time_apart(&self, times: &ChunkTimes) -> Result<u64, Error> {
        let ranks = self.ranks as u64;
        let times_sent = match self.overlap {
            Overlap::GatherProduct | Overlap::ProductScatter => 1,
            // The terms, then the sums.
            Overlap::ProductReduce => 2,
        };
        let sends = times.send.checked_mul(times_sent * (ranks - 1));
        let products = times.product.checked_mul(ranks);
        let add = match self.overlap {
            Overlap::GatherProduct => 0,
            Overlap::ProductScatter | Overlap::ProductReduce => times.add,
        };
        let both = after(after(0, sends)?, products)?;
        after(both, Some(add))
    }
}

fn after(start: u64, long: Option<u64>) -> Result<u64, Error> {
    let what = "a time of the plan";
    let end = long.and_then(|long| start.checked_add(long));
    end.ok_or_else(|| ErrorKind::Overflow { what }.into())
}

fn span(rank: i64, work: ChunkWork, chunk: i64, start: u64, long: u64) -> Result<ChunkSpan, Error> {
    Ok(ChunkSpan {
        rank,
        work,
        chunk,
        start,
        end: after(start, Some(long))?,
    })
}
