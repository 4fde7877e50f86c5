//! How a tiled MMA computes on the host.

/// How [`TiledMma::gemm_with`](crate::TiledMma::gemm_with) computes: by default sums rounded once, and nothing outside of the tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GemmOptions {
    /// The arithmetic of the instructions.
    pub arithmetic: Arithmetic,
    /// What the call does if the tile does not divide the tensors.
    pub edge: Edge,
}

/// The arithmetic of the instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arithmetic {
    /// [`colex_atom::MmaAtom::execute`]: the exact sum of an instruction, rounded once to nearest. No generation's
    /// peculiarity, and what hardware is compared with within [`colex_atom::MmaAtom::exactness`].
    #[default]
    RoundedOnce,
    /// [`colex_atom::MmaAtom::execute_on_hopper`]: bit for bit what the tensor cores of Hopper give, NaNs apart.
    Hopper,
}

/// What the call does if the tile does not divide the tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Edge {
    /// The call fails where the tile does not divide the tensor, with the first thread and coordinate.
    #[default]
    Refuse,
    /// By predicate: what A and B do not have counts as zero, and what C does not have is not written; how many there
    /// were is [`OutOfBounds`]. A sum of -0 becomes 0 where K is filled up, as it does in a kernel.
    Predicate,
}

/// How many values lay outside of the tensors, each counted as often as a thread names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutOfBounds {
    /// Values of A that counted as zero.
    pub a: usize,
    /// Values of B that counted as zero.
    pub b: usize,
    /// Values of C that were computed and not written.
    pub c: usize,
}
