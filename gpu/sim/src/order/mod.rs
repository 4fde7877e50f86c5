//! Happens-before: vector clocks, lanes, releases, and the accesses of each byte.

pub(crate) mod clock;
pub(crate) mod gaps;
pub(crate) mod global;
pub(crate) mod hash;
pub(crate) mod history;
pub(crate) mod lockstep;
pub(crate) mod release;
pub(crate) mod shadow;
pub(crate) mod strength;
