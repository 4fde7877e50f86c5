//! What can be wrong with a pipeline, as sentences.

use std::fmt;

/// An actor that cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Who.
    pub actor: String,
    /// At which of its steps.
    pub step: usize,
    /// What it waits for.
    pub waits_for: String,
}

/// The first fault found, after the fewest steps that lead to it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A load into a slot that someone still reads, will read, or that another load is filling.
    Overwrite {
        /// Who loads.
        actor: String,
        /// At which step.
        step: usize,
        /// The slot.
        slot: String,
        /// What is loaded.
        item: u16,
        /// What is there.
        held: u16,
        /// What is the matter with it.
        why: &'static str,
    },
    /// A multiply from a slot that does not hold its item.
    Unfilled {
        /// Who reads.
        actor: String,
        /// At which step.
        step: usize,
        /// The slot.
        slot: String,
        /// What should be there.
        item: u16,
        /// What is there.
        found: String,
    },
    /// Nobody can go on, and not all are done.
    Deadlock {
        /// Who waits for what.
        blocked: Vec<Blocked>,
    },
    /// More arrivals than the barrier's count.
    TooManyArrivals {
        /// Who.
        actor: String,
        /// At which step.
        step: usize,
        /// Which barrier.
        barrier: String,
    },
    /// Two actors in a section for one.
    Overlap {
        /// Who comes in.
        actor: String,
        /// At which step.
        step: usize,
        /// The section.
        section: &'static str,
        /// Who is there.
        inside: String,
    },
    /// A load or an arrival reaches a block that has exited.
    Exited {
        /// What arrives.
        what: String,
        /// The block.
        block: usize,
    },
    /// An epilogue, or the end of an actor, while a multiply of that actor still runs.
    StillRunning {
        /// Which actor.
        actor: String,
        /// At which step.
        step: usize,
        /// The output tile whose accumulators are read; none where the actor ends.
        tile: Option<u16>,
        /// The item of the oldest multiply that still runs.
        item: u16,
    },
    /// The plan names a slot, barrier or count that does not exist or makes no sense.
    Malformed {
        /// What is wrong.
        sentence: String,
    },
    /// The walk has more states than were allowed, or than fit the memory of a walk.
    TooManyStates {
        /// How many were allowed, or fitted.
        limit: usize,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Overwrite {
                actor,
                step,
                slot,
                item,
                held,
                why,
            } => {
                write!(
                    f,
                    "{actor}, step {step}: the load of {item} overwrites {slot}, where {held} {why}"
                )
            }
            Fault::Unfilled {
                actor,
                step,
                slot,
                item,
                found,
            } => {
                write!(
                    f,
                    "{actor}, step {step}: the multiply of {item} reads {slot}, which {found}"
                )
            }
            Fault::Deadlock { blocked } => {
                let each = |b: &Blocked| {
                    format!("{} waits for {} at step {}", b.actor, b.waits_for, b.step)
                };
                write!(
                    f,
                    "deadlock: {}",
                    blocked.iter().map(each).collect::<Vec<_>>().join("; ")
                )
            }
            Fault::TooManyArrivals {
                actor,
                step,
                barrier,
            } => {
                write!(
                    f,
                    "{actor}, step {step}: an arrival at {barrier} beyond its count"
                )
            }
            Fault::Overlap {
                actor,
                step,
                section,
                inside,
            } => {
                write!(
                    f,
                    "{actor}, step {step}: enters {section} while {inside} is in it"
                )
            }
            Fault::Exited { what, block } => {
                write!(f, "{what} reaches block {block}, which has exited")
            }
            Fault::StillRunning {
                actor,
                step,
                tile: Some(tile),
                item,
            } => {
                write!(
                    f,
                    "{actor}, step {step}: the epilogue of tile {tile} reads the accumulators while the multiply of {item} still runs"
                )
            }
            Fault::StillRunning {
                actor,
                step,
                tile: None,
                item,
            } => {
                write!(
                    f,
                    "{actor}, step {step}: ends while the multiply of {item} still runs"
                )
            }
            Fault::Malformed { sentence } => f.write_str(sentence),
            Fault::TooManyStates { limit } => {
                write!(
                    f,
                    "more than {limit} states: check fewer tiles, k-tiles or stages"
                )
            }
        }
    }
}

impl std::error::Error for Fault {}
