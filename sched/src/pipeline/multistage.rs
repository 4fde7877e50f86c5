//! The multistage pipeline of Ampere: every warp loads and multiplies, `cp.async` groups and block barriers keep order.

use super::step::{Actor, Barrier, Pipeline, Slot, Step};
use super::{MAX_ITEMS, MAX_STAGES, MAX_WARPS, few_steps};
use crate::number::error::{Error, within};

/// A main loop that keeps `stages - 1` k-tiles in flight. Source: `mma_multistage.h`.
///
/// ```
/// use colex_sched::pipeline::{Multistage, check};
/// let pipeline = Multistage { stages: 3, k_tiles: 5, warps: 2 }.build()?;
/// assert!(check(&pipeline).is_ok());
/// # Ok::<(), colex_sched::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Multistage {
    /// Stages of the ring, at least 2.
    pub stages: usize,
    /// k-tiles.
    pub k_tiles: usize,
    /// Warps; each loads its part of every stage and reads all parts.
    pub warps: usize,
}

impl Multistage {
    /// Returns the pipeline.
    ///
    /// # Errors
    ///
    /// Returns an error for fewer than 2 stages, or no k-tiles or warps, for more than 256 stages, 4095 k-tiles or 32
    /// warps, or for more than 16384 steps.
    pub fn build(&self) -> Result<Pipeline, Error> {
        within("the number of stages", self.stages, 2, MAX_STAGES)?;
        within("the number of k-tiles", self.k_tiles, 1, MAX_ITEMS)?;
        within("the number of warps", self.warps, 1, MAX_WARPS)?;
        // Six steps for each k-tile, a commit for each stage before the first, and the epilogue.
        few_steps(self.warps * (6 * self.k_tiles + self.stages))?;
        let parts =
            (0..self.stages).flat_map(|stage| (0..self.warps).map(move |part| (stage, part)));
        let slot = |(stage, part)| Slot {
            name: format!("part {part} of stage {stage}"),
            block: 0,
        };
        Ok(Pipeline {
            name: format!("multistage, {} stages, {} warps", self.stages, self.warps),
            slots: parts.map(slot).collect(),
            barriers: vec![Barrier {
                name: "block".to_string(),
                block: 0,
                arrivals: self.warps as u16,
            }],
            actors: (0..self.warps).map(|warp| self.warp(warp)).collect(),
        })
    }

    fn warp(&self, warp: usize) -> Actor {
        let mut steps = Vec::new();
        for item in 0..self.stages - 1 {
            self.load(&mut steps, warp, item);
        }
        for item in 0..self.k_tiles {
            steps.push(Step::WaitGroups {
                pending: self.stages as u16 - 2,
            });
            steps.push(Step::Sync { barrier: 0 });
            self.load(&mut steps, warp, item + self.stages - 1);
            let base = item % self.stages * self.warps;
            steps.push(Step::Multiply {
                item: item as u16,
                slots: (base..base + self.warps).collect(),
            });
            steps.push(Step::Retire { pending: 0 });
        }
        steps.push(Step::Epilogue { tile: 0 });
        Actor {
            name: format!("warp {warp}"),
            block: 0,
            steps,
        }
    }

    /// Loads this warp's part of `item`, if there is such an item, and closes the group either way.
    fn load(&self, steps: &mut Vec<Step>, warp: usize, item: usize) {
        if item < self.k_tiles {
            let slot = item % self.stages * self.warps + warp;
            steps.push(Step::Load {
                item: item as u16,
                to: vec![(slot, None)],
            });
        }
        steps.push(Step::Commit);
    }
}
