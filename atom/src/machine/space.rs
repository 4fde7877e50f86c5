//! Memories.

use core::fmt;

/// Where data lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Registers of the threads that take part.
    Register,
    /// Shared memory of the block (`.shared::cta`); addresses are 32 bits.
    Shared,
    /// Shared memory of any block of the cluster (`.shared::cluster`); addresses are 32 bits.
    Cluster,
    /// Global memory; addresses are 64 bits.
    Global,
    /// The L2 cache, where a prefetch ends.
    L2,
    /// The tensor memory of Blackwell.
    Tensor,
}

impl Space {
    /// Returns the state space as PTX writes it after an opcode's dot; nothing for registers.
    pub fn ptx(self) -> &'static str {
        match self {
            Space::Register => "",
            Space::Shared => "shared",
            Space::Cluster => "shared::cluster",
            Space::Global => "global",
            Space::L2 => "L2",
            Space::Tensor => "tmem",
        }
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Space::Register => "registers",
            Space::Shared => "shared memory",
            Space::Cluster => "the cluster's shared memory",
            Space::Global => "global memory",
            Space::L2 => "the L2 cache",
            Space::Tensor => "tensor memory",
        })
    }
}
