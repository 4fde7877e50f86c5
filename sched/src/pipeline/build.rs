//! Warp-specialized pipelines of Hopper: a producer warp, consumer warpgroups, clusters with multicast.

use super::phase::Phase;
use super::step::{Actor, Barrier, Pipeline, Slot, Step};
use super::{MAX_CLUSTER, MAX_ITEMS, MAX_STAGES, MAX_WARPS, few_steps};
use crate::number::error::{Error, at_least, within};

/// How the consumers share the tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// Every consumer works on every tile, each on its rows of it.
    Cooperative,
    /// Consumers take tiles in turn; one multiplies while the other stores its result.
    Pingpong,
}

/// What keeps pingpong consumers in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ordering {
    /// An mbarrier each, as CUTLASS's `OrderedSequenceBarrier`.
    Mbarrier,
    /// A named barrier each: `bar.sync` for the own turn, `bar.arrive` for the next one's.
    Named,
}

/// A warp-specialized main loop. Source: `sm90_pipeline.hpp`, `sm90_mma_tma_gmma_ss_warpspecialized.hpp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WarpSpecialized {
    /// Stages of the ring.
    pub stages: usize,
    /// Output tiles that a block computes, one after the other.
    pub tiles: usize,
    /// k-tiles of each.
    pub k_tiles: usize,
    /// Consumer warpgroups.
    pub consumers: usize,
    /// How the consumers share the tiles.
    pub schedule: Schedule,
    /// The barriers that keep the consumers of a pingpong schedule in turn.
    pub ordering: Ordering,
    /// Multiplies left running when the stage before is released (CUTLASS: 1).
    pub in_flight: usize,
    /// Blocks of the cluster along m and n: A goes to the blocks of a row, B to those of a column.
    pub cluster: [usize; 2],
}

/// The sections of which a pingpong consumer must have its own.
const MAIN_LOOP: &str = "the main loop";
const EPILOGUE: &str = "the epilogue";

impl WarpSpecialized {
    /// Returns two consumers on every tile.
    pub const fn cooperative(stages: usize, tiles: usize, k_tiles: usize) -> Self {
        WarpSpecialized {
            stages,
            tiles,
            k_tiles,
            consumers: 2,
            schedule: Schedule::Cooperative,
            ordering: Ordering::Mbarrier,
            in_flight: 1,
            cluster: [1, 1],
        }
    }

    /// Returns two consumers that follow the pingpong schedule.
    pub const fn pingpong(stages: usize, tiles: usize, k_tiles: usize) -> Self {
        WarpSpecialized {
            schedule: Schedule::Pingpong,
            ..Self::cooperative(stages, tiles, k_tiles)
        }
    }

    /// Returns the arrivals that complete a phase of a full barrier, and of an empty one.
    ///
    /// A full barrier takes that of its block's producer. An empty one takes one from each consumer that reads the
    /// stage: of its own block, and of the blocks that the producer loads into.
    ///
    /// ```
    /// use colex_sched::pipeline::WarpSpecialized;
    /// let plan = WarpSpecialized { cluster: [2, 1], ..WarpSpecialized::cooperative(4, 1, 8) };
    /// assert_eq!(plan.arrivals(), [1, 4]);
    /// ```
    pub fn arrivals(&self) -> [usize; 2] {
        let readers = match self.schedule {
            Schedule::Cooperative => self.consumers,
            Schedule::Pingpong => 1,
        };
        [1, readers * (self.parts() - 1)]
    }

    /// Refuses numbers of which no pipeline is built.
    ///
    /// # Errors
    ///
    /// Returns an error for no stages, tiles, k-tiles, consumers or blocks, or for a ring that cannot hold the
    /// multiplies in flight: `in_flight + 1` stages at least. Returns an error for more than 256 stages, 4095 tiles or
    /// k-tiles, 32 consumers or 16 blocks in a cluster, for more than 4095 k-tiles together, or for more than 16384
    /// steps, a load counted once for each slot it fills.
    pub fn check(&self) -> Result<(), Error> {
        for (what, value, most) in [
            ("the number of stages", self.stages, MAX_STAGES),
            ("the number of tiles", self.tiles, MAX_ITEMS),
            ("the number of k-tiles", self.k_tiles, MAX_ITEMS),
            ("the number of consumers", self.consumers, MAX_WARPS),
            ("extent m of the cluster", self.cluster[0], MAX_CLUSTER),
            ("extent n of the cluster", self.cluster[1], MAX_CLUSTER),
        ] {
            within(what, value, 1, most)?;
        }
        let blocks = self.cluster[0] * self.cluster[1];
        within(
            "the number of blocks of the cluster",
            blocks,
            1,
            MAX_CLUSTER,
        )?;
        at_least(
            "the number of stages for the multiplies in flight",
            self.stages as i64,
            i64::try_from(self.in_flight).map_or(i64::MAX, |n| n.saturating_add(1)),
        )?;
        if self.tiles.saturating_mul(self.k_tiles) > MAX_ITEMS {
            let sentence =
                "a pipeline of 4096 k-tiles or more is beyond what is walked".to_string();
            return Err(Error::invalid(sentence));
        }
        few_steps(self.steps())
    }

    /// Returns the pipeline.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`WarpSpecialized::check`].
    pub fn build(&self) -> Result<Pipeline, Error> {
        self.check()?;
        let actors = (0..self.blocks()).flat_map(|b| {
            let consumers = (0..self.consumers).map(move |c| self.consumer(b, c));
            std::iter::once(self.producer(b)).chain(consumers)
        });
        let actors = actors.collect();
        Ok(Pipeline {
            name: self.name(),
            slots: self.slots(),
            barriers: self.barriers(),
            actors,
        })
    }

    /// The steps of all actors, a load counted once for each slot it fills.
    fn steps(&self) -> usize {
        let (items, parts) = (self.tiles * self.k_tiles, self.parts());
        let producer = items * (2 + parts) + self.stages;
        // A wait, a multiply, a retire and the releases for each k-tile; a last retire and an epilogue for each tile.
        let one_consumer = items * (3 + parts - 1) + 2 * self.tiles;
        let consumers = match (self.schedule, self.ordering) {
            (Schedule::Cooperative, _) => self.consumers * one_consumer,
            (Schedule::Pingpong, Ordering::Named) if self.consumers == 1 => {
                one_consumer + 4 * self.tiles
            }
            (Schedule::Pingpong, _) => one_consumer + 8 * self.tiles,
        };
        self.blocks() * (producer + consumers)
    }

    fn name(&self) -> String {
        let schedule = match self.schedule {
            Schedule::Cooperative => "cooperative",
            Schedule::Pingpong => "pingpong",
        };
        let [cm, cn] = self.cluster;
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let (stages, consumers) = (
            count(self.stages, "stage"),
            count(self.consumers, "consumer"),
        );
        format!("{schedule}, {stages}, {consumers}, cluster {cm}x{cn}")
    }

    fn blocks(&self) -> usize {
        self.cluster[0] * self.cluster[1]
    }

    /// Parts of a stage: A comes in one part from each block of the row, B from each block of the column.
    fn parts(&self) -> usize {
        self.cluster[0] + self.cluster[1]
    }

    fn slot(&self, block: usize, stage: usize, part: usize) -> usize {
        (block * self.stages + stage) * self.parts() + part
    }

    fn slots(&self) -> Vec<Slot> {
        let mut slots = Vec::new();
        for (block, stage) in (0..self.blocks()).flat_map(|b| (0..self.stages).map(move |s| (b, s)))
        {
            for part in 0..self.parts() {
                let (operand, part) = if part < self.cluster[1] {
                    ("A", part)
                } else {
                    ("B", part - self.cluster[1])
                };
                let whole = self.blocks() == 1;
                let name = if whole {
                    format!("{operand} of stage {stage}")
                } else {
                    format!("part {part} of {operand} of stage {stage} of block {block}")
                };
                slots.push(Slot { name, block });
            }
        }
        slots
    }

    /// For each block: `full` and `empty` of each stage, then the turns of the consumers: main loop, then epilogue.
    fn barriers_per_block(&self) -> usize {
        2 * self.stages + 2 * self.consumers
    }

    fn full(&self, block: usize, stage: usize) -> usize {
        block * self.barriers_per_block() + stage
    }

    fn empty(&self, block: usize, stage: usize) -> usize {
        self.full(block, stage) + self.stages
    }

    fn turn(&self, block: usize, consumer: usize, epilogue: bool) -> usize {
        self.full(block, 0) + 2 * self.stages + usize::from(epilogue) * self.consumers + consumer
    }

    fn barriers(&self) -> Vec<Barrier> {
        let turns = match self.ordering {
            Ordering::Mbarrier => 1,
            Ordering::Named => 2,
        };
        let [fills, releases] = self.arrivals().map(|count| count as u16);
        let mut barriers = Vec::new();
        for block in 0..self.blocks() {
            let tail = if self.blocks() == 1 {
                String::new()
            } else {
                format!(" of block {block}")
            };
            let mut add = |name: &str, count: usize, arrivals: u16| {
                let named = |i| Barrier {
                    name: format!("{name}[{i}]{tail}"),
                    block,
                    arrivals,
                };
                barriers.extend((0..count).map(named));
            };
            add("full", self.stages, fills);
            add("empty", self.stages, releases);
            add("turn", self.consumers, turns);
            add("epilogue turn", self.consumers, turns);
        }
        barriers
    }

    /// The blocks that share a row (for A) or a column (for B) with `block`, itself included.
    fn row(&self, block: usize) -> Vec<usize> {
        let m = block % self.cluster[0];
        (0..self.cluster[1])
            .map(|n| m + n * self.cluster[0])
            .collect()
    }

    fn column(&self, block: usize) -> Vec<usize> {
        let n = block / self.cluster[0];
        (0..self.cluster[0])
            .map(|m| m + n * self.cluster[0])
            .collect()
    }

    fn producer(&self, block: usize) -> Actor {
        let mut steps = Vec::new();
        let mut phase = Phase::producer(self.stages);
        for item in 0..self.tiles * self.k_tiles {
            self.fill(&mut steps, block, item as u16, phase);
            phase = phase.advance(1);
        }
        // A block of a cluster stays until its stages are free everywhere: its peers may still write or arrive here.
        for _ in 0..self.stages {
            steps.push(Step::Wait {
                barrier: self.empty(block, phase.stage),
                parity: phase.parity,
            });
            phase = phase.advance(1);
        }
        Actor {
            name: self.actor_name("producer", block),
            block,
            steps,
        }
    }

    /// Waits for the stage, arms its barrier, and loads the block's parts of A and B for all blocks that need them.
    fn fill(&self, steps: &mut Vec<Step>, block: usize, item: u16, phase: Phase) {
        let (m, n, stage) = (
            block % self.cluster[0],
            block / self.cluster[0],
            phase.stage,
        );
        let (full, empty) = (self.full(block, stage), self.empty(block, stage));
        steps.push(Step::Wait {
            barrier: empty,
            parity: phase.parity,
        });
        steps.push(Step::Expect {
            barrier: full,
            loads: self.parts() as u16,
        });
        let target = |b: usize, part: usize| (self.slot(b, stage, part), Some(self.full(b, stage)));
        let a = self.row(block).into_iter().map(|b| target(b, n)).collect();
        let b = self
            .column(block)
            .into_iter()
            .map(|b| target(b, self.cluster[1] + m))
            .collect();
        steps.extend([a, b].map(|to| Step::Load { item, to }));
    }

    fn actor_name(&self, role: &str, block: usize) -> String {
        if self.blocks() == 1 {
            role.to_string()
        } else {
            format!("{role} of block {block}")
        }
    }

    fn consumer(&self, block: usize, consumer: usize) -> Actor {
        let mut steps = Vec::new();
        let pingpong = self.schedule == Schedule::Pingpong;
        let (first, stride) = if pingpong {
            (consumer, self.consumers)
        } else {
            (0, 1)
        };
        self.give_first_turn(&mut steps, block, consumer);
        let mut phase = Phase::consumer(self.stages).advance(first * self.k_tiles);
        for (round, tile) in (first..self.tiles).step_by(stride).enumerate() {
            if pingpong {
                self.take_turn(&mut steps, block, consumer, false, round);
            }
            phase = self.main_loop(&mut steps, block, tile, phase);
            let epilogue = Step::Epilogue { tile: tile as u16 };
            if pingpong {
                self.pass_turn(&mut steps, block, consumer, false, tile);
                self.take_turn(&mut steps, block, consumer, true, round);
                steps.push(epilogue);
                self.pass_turn(&mut steps, block, consumer, true, tile);
                phase = phase.advance((stride - 1) * self.k_tiles);
            } else {
                steps.push(epilogue);
            }
        }
        Actor {
            name: self.actor_name(&format!("consumer {consumer}"), block),
            block,
            steps,
        }
    }

    /// With named barriers, the first consumer's first turn is given to it by the last one.
    fn give_first_turn(&self, steps: &mut Vec<Step>, block: usize, consumer: usize) {
        let named = self.schedule == Schedule::Pingpong && self.ordering == Ordering::Named;
        if named && consumer != 0 && consumer == self.consumers - 1 {
            let first = |epilogue| Step::SyncArrive {
                barrier: self.turn(block, 0, epilogue),
            };
            steps.extend([false, true].map(first));
        }
    }

    /// Waits for the own turn and enters the section. The first consumer's first turn needs no one's leave.
    fn take_turn(
        &self,
        steps: &mut Vec<Step>,
        block: usize,
        consumer: usize,
        epilogue: bool,
        round: usize,
    ) {
        let barrier = self.turn(block, consumer, epilogue);
        match self.ordering {
            Ordering::Mbarrier => {
                let parity = (round % 2) as u8 ^ u8::from(consumer == 0);
                steps.push(Step::Wait { barrier, parity });
            }
            Ordering::Named if self.consumers > 1 => steps.push(Step::Sync { barrier }),
            Ordering::Named => {}
        }
        steps.push(Step::Enter {
            section: if epilogue { EPILOGUE } else { MAIN_LOOP },
        });
    }

    fn pass_turn(
        &self,
        steps: &mut Vec<Step>,
        block: usize,
        consumer: usize,
        epilogue: bool,
        tile: usize,
    ) {
        steps.push(Step::Leave {
            section: if epilogue { EPILOGUE } else { MAIN_LOOP },
        });
        let barrier = self.turn(block, (consumer + 1) % self.consumers, epilogue);
        match self.ordering {
            Ordering::Mbarrier => steps.push(Step::Arrive { barrier }),
            Ordering::Named if self.consumers > 1 && tile + 1 < self.tiles => {
                steps.push(Step::SyncArrive { barrier })
            }
            Ordering::Named => {}
        }
    }

    /// The k-tiles of one tile: wait, multiply, and release the stage whose multiply has ended.
    fn main_loop(&self, steps: &mut Vec<Step>, block: usize, tile: usize, start: Phase) -> Phase {
        let mut phase = start;
        for k in 0..self.k_tiles {
            let slots = (0..self.parts())
                .map(|part| self.slot(block, phase.stage, part))
                .collect();
            steps.push(Step::Wait {
                barrier: self.full(block, phase.stage),
                parity: phase.parity,
            });
            steps.push(Step::Multiply {
                item: (tile * self.k_tiles + k) as u16,
                slots,
            });
            steps.push(Step::Retire {
                pending: self.in_flight as u16,
            });
            if let Some(ended) = k.checked_sub(self.in_flight) {
                self.release(steps, block, start.advance(ended).stage);
            }
            phase = phase.advance(1);
        }
        steps.push(Step::Retire { pending: 0 });
        for ended in self.k_tiles.saturating_sub(self.in_flight)..self.k_tiles {
            self.release(steps, block, start.advance(ended).stage);
        }
        phase
    }

    /// Tells every block that loads into this one's stage that the stage is free.
    fn release(&self, steps: &mut Vec<Step>, block: usize, stage: usize) {
        let mut loaders = self.row(block);
        loaders.extend(self.column(block).into_iter().filter(|b| *b != block));
        steps.extend(loaders.into_iter().map(|b| Step::Arrive {
            barrier: self.empty(b, stage),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often the actors arrive at a barrier, all phases together.
    fn arrivals_at(built: &Pipeline, at: usize) -> usize {
        let steps = built.actors.iter().flat_map(|actor| &actor.steps);
        let arrives = |step: &&Step| match step {
            Step::Arrive { barrier } | Step::Expect { barrier, .. } => *barrier == at,
            _ => false,
        };
        steps.filter(arrives).count()
    }

    /// The number that bounds a plan is the number of its steps, and the ring that a kernel makes of the fields is the
    /// ring of the plan that is checked.
    #[test]
    fn steps_and_arrivals_are_those_of_the_built_plan() {
        let mut cases = 0;
        for (stages, tiles, k_tiles, consumers) in (1..=3).flat_map(|s| {
            (1..=3).flat_map(move |t| {
                (1..=3).flat_map(move |k| (1..=3).map(move |consumers| (s, t, k, consumers)))
            })
        }) {
            for cluster in [[1, 1], [2, 1], [1, 2], [2, 2]] {
                for (schedule, ordering) in [
                    (Schedule::Cooperative, Ordering::Mbarrier),
                    (Schedule::Pingpong, Ordering::Mbarrier),
                    (Schedule::Pingpong, Ordering::Named),
                ] {
                    for in_flight in 0..stages {
                        let plan = WarpSpecialized {
                            stages,
                            tiles,
                            k_tiles,
                            consumers,
                            schedule,
                            ordering,
                            in_flight,
                            cluster,
                        };
                        let built = plan.build().expect("the plan is small");
                        let each = |step: &Step| match step {
                            Step::Load { to, .. } => to.len(),
                            _ => 1,
                        };
                        let steps = built.actors.iter().flat_map(|actor| &actor.steps);
                        assert_eq!(plan.steps(), steps.map(each).sum::<usize>(), "{plan:?}");
                        for (stage, block) in
                            (0..stages).flat_map(|s| (0..plan.blocks()).map(move |b| (s, b)))
                        {
                            let ring = [plan.full(block, stage), plan.empty(block, stage)];
                            let found = ring.map(|b| usize::from(built.barriers[b].arrivals));
                            assert_eq!(found, plan.arrivals(), "{plan:?}");
                            let phases = (tiles * k_tiles + stages - 1 - stage) / stages;
                            let all = plan.arrivals().map(|count| count * phases);
                            assert_eq!(ring.map(|b| arrivals_at(&built, b)), all, "{plan:?}");
                        }
                        cases += 1;
                    }
                }
            }
        }
        println!("law pipeline.steps_are_counted: {cases} cases");
    }
}
