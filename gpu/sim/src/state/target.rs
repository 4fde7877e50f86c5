//! The target of an address.

/// Where the parameters lie among generic addresses.
pub(crate) const GENERIC_PARAMS: u64 = 0x7ff0_0000_0000_0000;

/// Where shared memory lies among generic addresses. A device has it within 2^57 bytes; here it leaves room for allocations
/// that are far apart.
pub(crate) const GENERIC_SHARED: u64 = 0x7fe0_0000_0000_0000;

/// The target of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Device memory, at its address.
    Global(u64),
    /// The shared memory of a block of the cluster, at a byte offset from its beginning.
    Shared { block: usize, at: usize },
    /// The parameters, at a byte offset from their beginning.
    Param(usize),
}

impl Target {
    /// The target `bytes` bytes further on.
    pub(crate) fn after(self, bytes: usize) -> Self {
        match self {
            Target::Global(address) => Target::Global(address.wrapping_add(bytes as u64)),
            Target::Shared { block, at } => Target::Shared {
                block,
                at: at + bytes,
            },
            Target::Param(at) => Target::Param(at + bytes),
        }
    }

    /// The bytes from another target of the same memory to this one.
    pub(crate) fn beyond(self, start: Target) -> usize {
        let place = |target: Target| match target {
            Target::Global(address) => address as usize,
            Target::Shared { at, .. } | Target::Param(at) => at,
        };
        place(self).wrapping_sub(place(start))
    }
}
