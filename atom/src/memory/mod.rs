//! What the accesses of threads do to a memory: words that meet in a bank, sectors that are touched, and the swizzle
//! that keeps words apart.

mod banks;
mod choose;
mod sectors;

pub use crate::error::{Effect, NoSwizzle};
pub use banks::{Access, Banks, Conflicts, MAX_LANES, Phase};
pub use choose::{Choice, choose_swizzle, choose_swizzle_for};
pub use sectors::{SECTOR_BYTES, Touched};
