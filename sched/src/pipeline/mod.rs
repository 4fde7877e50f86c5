//! Software pipelines as data: what each actor does and waits for, in order, and a checker of every interleaving.
//!
//! A kernel that overlaps loads with multiplies is a few *actors* (a producer warp, consumer warpgroups), each a list of
//! [`Step`]s, and the barriers between them. Whether that list ever overwrites a stage that is still read, reads one that
//! is not filled, or waits for ever is a question about integers, so it is answered here, on the host:
//!
//! ```
//! use colex_sched::pipeline::{WarpSpecialized, check};
//! let pipeline = WarpSpecialized::cooperative(3, 1, 6).build()?;
//! assert!(check(&pipeline).is_ok());
//!
//! let mut broken = pipeline.clone();
//! let (empty, _) = broken.barriers.iter().enumerate().find(|(_, b)| b.name == "empty[0]").unwrap();
//! broken.barriers[empty].arrivals += 1;
//! let fault = check(&broken).unwrap_err().to_string();
//! assert!(fault.starts_with("deadlock: producer waits for empty[0]"), "{fault}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ahead;
mod build;
mod check;
mod fault;
mod multistage;
mod phase;
mod plan;
mod state;
mod step;
mod timeline;
mod walk;

use crate::number::error::Error;

/// The most k-tiles of a plan: what is walked, and what its steps can number.
const MAX_ITEMS: usize = (1 << 12) - 1;
/// The most stages of a ring; shared memory ends long before.
const MAX_STAGES: usize = 256;
/// The most warps of a block (CUDA C++ Programming Guide, "Compute Capabilities").
const MAX_WARPS: usize = 32;
/// The most blocks of a cluster, where the kernel asks for more than the portable 8.
const MAX_CLUSTER: usize = 16;

/// Refuses a plan of more steps than are walked.
fn few_steps(steps: usize) -> Result<(), Error> {
    if steps <= plan::MOST_STEPS {
        return Ok(());
    }
    let most = plan::MOST_STEPS;
    let sentence = format!("a pipeline of {steps} steps is more than the {most} that are walked");
    Err(Error::invalid(sentence))
}

pub use build::{Ordering, Schedule, WarpSpecialized};
pub use check::{Report, check, check_exhaustively, check_within};
pub use fault::{Blocked, Fault};
pub use multistage::Multistage;
pub use phase::Phase;
pub use state::{BarrierState, Content};
pub use step::{Actor, Barrier, Pipeline, Slot, Step};
pub use timeline::{Durations, Span, timeline};
pub use walk::{Event, Walk};
