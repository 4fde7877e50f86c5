//! The memory of a product over ranks.

use colex_ir::launch::Argument;
use colex_sched::Overlap;
use colex_sim::Ranks;

use super::plan::RankPlan;
use crate::error::{Error, RankError};

/// The buffers of a product on every rank of a simulated machine: the parts of A, B and C, the memory that others write (the
/// gathered A, or the terms of C), and the flags.
///
/// A flag holds the number of the last round in which it was set, so no flag is reset between launches.
#[derive(Clone, Debug)]
pub struct RankBuffers {
    plan: RankPlan,
    a: Vec<u64>,
    b: Vec<u64>,
    c: Vec<u64>,
    /// What other ranks write.
    shared: Vec<u64>,
    /// Flags, one per rank: its chunk, or a tile of it, is there; its memory may be written.
    arrived: Vec<u64>,
    ready: Vec<u64>,
    /// Of an all-reduce: tiles of the sum of a rank are there.
    landed: Vec<u64>,
}

impl RankBuffers {
    /// Allocates the buffers, with flags of 0.
    ///
    /// # Errors
    ///
    /// Returns an error if the machine has another number of ranks than the plan, or if the host has no memory.
    pub fn new(plan: &RankPlan, ranks: &mut Ranks) -> Result<RankBuffers, Error> {
        let count = plan.problem().ranks;
        if ranks.count() as i64 != count {
            return Err(RankError::Machine {
                ranks: ranks.count(),
                plan: count,
            }
            .into());
        }
        let [a, b, c] = plan.problem().layouts()?.map(|layout| layout.part_size());
        let sizes = &plan.sizes;
        let shared = match plan.problem().overlap {
            Overlap::GatherProduct => sizes.ranks * sizes.rows * sizes.k,
            Overlap::ProductScatter | Overlap::ProductReduce => {
                sizes.ranks * sizes.rows * sizes.columns
            }
        };
        let mut all = |words: i64, flags: bool| -> Result<Vec<u64>, Error> {
            let bytes = words as u64 * 4;
            let each = 0..count as usize;
            let each = each.map(|rank| {
                let at = ranks.allocate(rank, bytes)?;
                if flags {
                    ranks.write(at, &vec![0; bytes as usize])?;
                }
                Ok(at)
            });
            each.collect()
        };
        Ok(RankBuffers {
            plan: plan.clone(),
            a: all(a, false)?,
            b: all(b, false)?,
            c: all(c, false)?,
            shared: all(shared, false)?,
            arrived: all(count, true)?,
            ready: all(count, true)?,
            landed: all(count, true)?,
        })
    }

    /// Writes the parts of A and B of all ranks.
    ///
    /// # Errors
    ///
    /// Returns an error unless there is a part of the right size for each rank.
    pub fn write(&self, ranks: &mut Ranks, a: &[Vec<f32>], b: &[Vec<f32>]) -> Result<(), Error> {
        let layouts = self.plan.problem().layouts()?;
        let operands = [
            ("A", a, &self.a, &layouts[0]),
            ("B", b, &self.b, &layouts[1]),
        ];
        for (name, parts, _, layout) in operands {
            let count = self.plan.problem().ranks;
            if parts.len() as i64 != count {
                let (given, ranks) = (parts.len(), count);
                return Err(RankError::Parts { name, given, ranks }.into());
            }
            let wanted = layout.part_size();
            let wrong = parts.iter().position(|part| part.len() as i64 != wanted);
            if let Some(rank) = wrong {
                let given = parts[rank].len();
                return Err(RankError::Part {
                    name,
                    rank,
                    given,
                    wanted,
                }
                .into());
            }
        }
        for (_, parts, buffers, _) in operands {
            for (part, at) in parts.iter().zip(buffers) {
                let bytes: Vec<u8> = part.iter().flat_map(|x| x.to_le_bytes()).collect();
                ranks.write(*at, &bytes)?;
            }
        }
        Ok(())
    }

    /// Reads the parts of C of all ranks.
    ///
    /// # Errors
    ///
    /// Returns an error if an element was never written.
    pub fn read(&self, ranks: &Ranks) -> Result<Vec<Vec<f32>>, Error> {
        let [_, _, c] = self.plan.problem().layouts()?;
        let part = |at: &u64| {
            let bytes = ranks.read(*at, c.part_size() as u64 * 4)?;
            let words = bytes.as_chunks::<4>().0.iter();
            Ok(words.map(|word| f32::from_le_bytes(*word)).collect())
        };
        self.c.iter().map(part).collect()
    }

    /// Returns the arguments of a rank in a round; the rounds of all ranks count from 1.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank, for round 0, or for a round whose flags do not fit in 32 bits.
    pub fn arguments(&self, rank: usize, round: u32) -> Result<Vec<Argument>, Error> {
        let ranks = self.a.len();
        if rank >= ranks {
            return Err(RankError::NoRank { rank, ranks }.into());
        }
        // A counter of tiles grows by those of a chunk in each round.
        let each = match self.plan.problem().overlap {
            Overlap::GatherProduct => 1,
            Overlap::ProductScatter | Overlap::ProductReduce => self.plan.sizes.tiles,
        };
        let most = i64::from(u32::MAX) / each;
        if round == 0 || i64::from(round) > most {
            return Err(RankError::Round { round, most }.into());
        }
        let mut all = vec![Argument::U32(rank as u32), Argument::U32(round)];
        all.extend([self.a[rank], self.b[rank], self.c[rank]].map(Argument::Pointer));
        let mut lists = vec![&self.shared, &self.arrived, &self.ready];
        if self.plan.sizes.reduces {
            lists.extend([&self.c, &self.landed]);
        }
        for buffers in lists {
            let steps = 0..ranks;
            all.extend(steps.map(|step| Argument::Pointer(buffers[(rank + step) % ranks])));
        }
        Ok(all)
    }

    /// Returns the address of the flags of a rank that say which chunks are there.
    pub fn arrived(&self, rank: usize) -> Option<u64> {
        self.arrived.get(rank).copied()
    }
}
