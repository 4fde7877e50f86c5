//! Products of matrices that lie on several devices, each called by its rank: the plan, its kernel with flags between the
//! ranks, and its run on the simulator.
//!
//! C = A B^T with A of `(M, K)`, B of `(N, K)` and C of `(M, N)`, in `f32`. The communication goes through peer pointers, chunk
//! by chunk, each with a flag of the scope of the system, beside the products of the chunks that are there
//! ([`colex_sched::OverlapPlan`] has the order and a timeline). A [`Meeting`] is what the ranks tell each other on the host. The products themselves are plain: one element of C per thread,
//! without tiles in shared memory and without tensor cores.

mod buffers;
mod gather;
pub(crate) mod host;
mod kernel;
mod meeting;
mod plan;
mod problem;
mod scatter;

pub use buffers::RankBuffers;
pub use meeting::Meeting;
pub use plan::{RankPath, RankPlan};
pub use problem::RankProblem;
pub use host::devices::RankDevices;
pub use host::gather_product::{GatherProduct, RankOptions};
pub use host::links::{LinkSpeeds, RankForecast};
pub use host::product_scatter::ProductScatter;
