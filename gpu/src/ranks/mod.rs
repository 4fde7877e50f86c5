//! Products of matrices that lie on several devices, each called by its rank.
//!
//! C = A B^T with A of `(M, K)`, B of `(N, K)` and C of `(M, N)`. The communication goes through peer pointers, chunk by chunk, beside
//! the products of the chunks that are there ([`colex_sched::OverlapPlan`] has the order and a timeline). A [`Meeting`] is what
//! the ranks tell each other on the host.
//!
//! [`RankProduct`] runs on the devices of one process, with the Hopper kernel of [`Gemm`](crate::Gemm): there the rank is the last mode of
//! a batch. Where devices have no access to each other's memory, or the caller asks for it, the communication is NCCL's, with the
//! feature `nccl`. [`ProcessProduct`] is the same product with a process for each device, which [`RankProcess`] joins, also by
//! NCCL and on several hosts. [`RankPlan`] has
//! plain kernels in `f32` for the simulator, one element of C per thread, with all flags inside the kernels.

mod buffers;
mod gather;
pub(crate) mod host;
mod kernel;
mod meeting;
mod plan;
mod problem;
mod process;
mod reduce;
mod scatter;
mod work;

pub use buffers::RankBuffers;
pub use host::devices::RankDevices;
pub use host::forecast::{RankEstimate, RankForecast};
pub use host::links::LinkSpeeds;
pub use host::options::{RankOptions, RankSends, RankSums};
pub use host::product::RankProduct;
pub use meeting::Meeting;
pub use plan::{RankPath, RankPlan};
pub use problem::RankProblem;
pub use process::RankProcess;
pub use process::product::ProcessProduct;
