//! What can be wrong with a pipeline, as sentences.

/// An actor that cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The actor.
    pub actor: String,
    /// The index of the step.
    pub step: usize,
    /// The barrier or group that it waits for.
    pub waits_for: String,
}

/// The fault of a pipeline: the one that the fewest steps lead to.
///
/// It is data as well as an error: a program that draws the interleaving matches it. Later versions may add faults.
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A load into a slot that is still read, will be read, or that another load is filling.
    #[error("{actor}, step {step}: the load of {item} overwrites {slot}, where {held} {why}")]
    Overwrite {
        /// The actor that loads.
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
    #[error("{actor}, step {step}: the multiply of {item} reads {slot}, which {found}")]
    Unfilled {
        /// The actor that reads.
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
    /// Deadlock: no actor can continue, and not all are done.
    #[error("deadlock: {}", joined(blocked))]
    Deadlock {
        /// The actors, each with what it waits for.
        blocked: Vec<Blocked>,
    },
    /// More arrivals than the barrier's count.
    #[error("{actor}, step {step}: an arrival at {barrier} beyond its count")]
    TooManyArrivals {
        /// The actor.
        actor: String,
        /// At which step.
        step: usize,
        /// Which barrier.
        barrier: String,
    },
    /// Two actors are in a section that admits one.
    #[error("{actor}, step {step}: enters {section} while {inside} is in it")]
    Overlap {
        /// The actor that enters.
        actor: String,
        /// At which step.
        step: usize,
        /// The section.
        section: &'static str,
        /// The actor that is inside.
        inside: String,
    },
    /// A load or an arrival reaches a block that has exited.
    #[error("{what} reaches block {block}, which has exited")]
    Exited {
        /// What arrives.
        what: String,
        /// The block.
        block: usize,
    },
    /// An epilogue, or the end of an actor, while a multiply of that actor still runs.
    #[error("{actor}, step {step}: {} while the multiply of {item} still runs", reading(*tile))]
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
    #[error("{sentence}")]
    Malformed {
        /// What is wrong.
        sentence: String,
    },
    /// The walk has more states than were allowed, or than fit the memory of a walk.
    #[error("more than {limit} states: check fewer tiles, k-tiles or stages")]
    TooManyStates {
        /// How many were allowed, or fitted.
        limit: usize,
    },
}

colex_layout::debug_as_display!(Fault);

/// `producer waits for empty[0] at step 4; consumer waits for ..`.
fn joined(blocked: &[Blocked]) -> String {
    let each = |b: &Blocked| format!("{} waits for {} at step {}", b.actor, b.waits_for, b.step);
    blocked.iter().map(each).collect::<Vec<_>>().join("; ")
}

/// What reads the accumulators too early.
fn reading(tile: Option<u16>) -> String {
    match tile {
        Some(tile) => format!("the epilogue of tile {tile} reads the accumulators"),
        None => "ends".into(),
    }
}
