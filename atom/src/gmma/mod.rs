//! What `wgmma` reads from shared memory: canonical layouts and the 64-bit descriptors that stand for them.

mod canonical;
mod descriptor;
mod smem;

pub use descriptor::GmmaDescriptor;
pub use smem::{SmemSwizzle, gmma_smem_atom};
