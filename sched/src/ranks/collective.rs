//! Collectives: what they make of a placement, and what they send.

use core::fmt;

use crate::number::error::{Error, ErrorKind, ceil_div, of_a_device, product};
use crate::ranks::{Placement, check_shape, elements};

/// An operation of all ranks on one tensor, which leads from one placement to another.
///
/// The names are those of NCCL; [`Slice`](Collective::Slice) and [`Embed`](Collective::Embed) send nothing.
///
/// ```
/// use colex_sched::{Collective, Placement};
///
/// let rows = Placement::Shard(0);
/// assert_eq!(Collective::between(rows, Placement::Replicate), Collective::AllGather { mode: 0 });
/// assert_eq!(Collective::between(Placement::Partial, rows), Collective::ReduceScatter { mode: 0 });
/// assert_eq!(Collective::AllGather { mode: 0 }.sent(&[1024, 64], 4)?, 3 * 1024 / 4 * 64);
/// assert_eq!(
///     Collective::AllReduce.apply(rows).unwrap_err().to_string(),
///     "an all-reduce of a tensor that is sharded along mode 0: it takes a partial sum"
/// );
/// # Ok::<(), colex_sched::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Collective {
    /// Nothing: the placements are the same.
    Nothing,
    /// Every rank receives the parts of all ranks along a mode.
    AllGather {
        /// The mode along which the tensor is sharded.
        mode: usize,
    },
    /// The terms are added, and each rank receives its part of the sum along a mode.
    ReduceScatter {
        /// The mode along which the sum is sharded.
        mode: usize,
    },
    /// The terms are added, and every rank receives the sum.
    AllReduce,
    /// Each rank sends each other one the part along another mode that it holds of it.
    AllToAll {
        /// The mode along which the tensor is sharded before.
        from: usize,
        /// The mode along which it is sharded afterwards.
        to: usize,
    },
    /// Each rank keeps its part along a mode of what it holds.
    Slice {
        /// The mode along which the tensor is sharded afterwards.
        mode: usize,
    },
    /// Each rank keeps what it holds and has zeros elsewhere; of copies, rank 0 keeps its own.
    Embed,
}

impl Collective {
    /// Returns the collective that leads from one placement to another.
    pub fn between(from: Placement, to: Placement) -> Collective {
        use Placement::{Partial, Replicate, Shard};
        match (from, to) {
            (Shard(a), Shard(b)) if a == b => Collective::Nothing,
            (Replicate, Replicate) | (Partial, Partial) => Collective::Nothing,
            (Shard(from), Shard(to)) => Collective::AllToAll { from, to },
            (Shard(mode), Replicate) => Collective::AllGather { mode },
            (Partial, Shard(mode)) => Collective::ReduceScatter { mode },
            (Partial, Replicate) => Collective::AllReduce,
            (Replicate, Shard(mode)) => Collective::Slice { mode },
            (Shard(_) | Replicate, Partial) => Collective::Embed,
        }
    }

    /// Returns the placement that it makes of one.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not take that placement; the sentence says which one it takes.
    pub fn apply(self, from: Placement) -> Result<Placement, Error> {
        use Placement::{Partial, Replicate, Shard};
        let (takes, to) = match self {
            Collective::Nothing => (from, from),
            Collective::AllGather { mode } => (Shard(mode), Replicate),
            Collective::ReduceScatter { mode } => (Partial, Shard(mode)),
            Collective::AllReduce => (Partial, Replicate),
            Collective::AllToAll { from, to } => (Shard(from), Shard(to)),
            Collective::Slice { mode } => (Replicate, Shard(mode)),
            Collective::Embed => match from {
                Shard(_) | Replicate => (from, Partial),
                Partial => (Replicate, Partial),
            },
        };
        if takes == from {
            return Ok(to);
        }
        let takes = match takes {
            Shard(mode) => format!("one sharded along mode {mode}"),
            Replicate => "one that is replicated or sharded".to_string(),
            Partial => "a partial sum".to_string(),
        };
        let takes = match self {
            Collective::Slice { .. } => "one that is replicated".to_string(),
            _ => takes,
        };
        let sentence = format!("{self} of a tensor that is {from}: it takes {takes}");
        Err(ErrorKind::Placements { sentence }.into())
    }

    /// Returns the number of elements that each rank has to send for a tensor of this shape: what a ring sends, which for an
    /// all-reduce is a reduce-scatter and an all-gather (Patarasuk and Yuan 2009).
    ///
    /// # Errors
    ///
    /// Returns an error for a tensor without modes, an extent below 1, a count that does not fit in 64 bits, fewer than 1 or
    /// more than 65536 ranks, or if a mode that it shards does not exist or is not a multiple of the ranks.
    pub fn sent(self, shape: &[i64], ranks: i64) -> Result<i64, Error> {
        check_shape(shape)?;
        of_a_device("the number of ranks", ranks)?;
        let shards = match self {
            Collective::AllGather { mode }
            | Collective::ReduceScatter { mode }
            | Collective::Slice { mode } => [Some(mode), None],
            Collective::AllToAll { from, to } => [Some(from), Some(to)],
            Collective::Nothing | Collective::AllReduce | Collective::Embed => [None, None],
        };
        for mode in shards.into_iter().flatten() {
            Placement::Shard(mode).check(shape, ranks)?;
        }
        let part = ceil_div(elements(shape)?, ranks);
        let (others, what) = (ranks - 1, "the number of elements that a rank sends");
        match self {
            Collective::Nothing | Collective::Slice { .. } | Collective::Embed => Ok(0),
            Collective::AllGather { .. } | Collective::ReduceScatter { .. } => {
                product(what, &[part, others])
            }
            Collective::AllReduce => product(what, &[2, part, others]),
            Collective::AllToAll { .. } => product(what, &[ceil_div(part, ranks), others]),
        }
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Collective::Nothing => f.write_str("nothing"),
            Collective::AllGather { mode } => write!(f, "an all-gather along mode {mode}"),
            Collective::ReduceScatter { mode } => write!(f, "a reduce-scatter along mode {mode}"),
            Collective::AllReduce => f.write_str("an all-reduce"),
            Collective::AllToAll { from, to } => {
                write!(f, "an all-to-all from mode {from} to mode {to}")
            }
            Collective::Slice { mode } => write!(f, "a slice along mode {mode}"),
            Collective::Embed => f.write_str("a padding with zeros"),
        }
    }
}
