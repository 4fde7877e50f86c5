//! Builds a tuple from left to right.

use smallvec::SmallVec;

use crate::tuple::{INLINE_LEAVES, INLINE_NODES, Tuple, View, extent_of, rank_node};
use crate::{Error, IntTuple};

/// Collects the modes of a tuple from left to right.
///
/// Implementations of [`IntoTuple`](crate::IntoTuple) append to it.
///
/// # Example
///
/// ```
/// use colex_layout::{IntTuple, TupleBuilder};
/// let mut out = TupleBuilder::new();
/// out.nested(|out| {
///     out.leaf(4.into());
///     out.nested(|out| {
///         out.leaf(2.into());
///         out.leaf(3.into());
///         Ok(())
///     })
/// })?;
/// assert_eq!(IntTuple::from(out).to_string(), "(4,(2,3))");
/// # Ok::<(), colex_layout::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TupleBuilder<T> {
    nodes: SmallVec<[u32; INLINE_NODES]>,
    leaves: SmallVec<[T; INLINE_LEAVES]>,
}

impl<T> Default for TupleBuilder<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> TupleBuilder<T> {
    /// Returns a builder without modes.
    #[inline]
    #[must_use]
    pub fn new() -> Self {
        Self {
            nodes: SmallVec::new(),
            leaves: SmallVec::new(),
        }
    }

    /// Appends a single value as one mode.
    #[inline]
    pub fn leaf(&mut self, value: T) {
        self.nodes.push(0);
        self.leaves.push(value);
    }

    /// Appends a tuple as one mode; `modes` appends the modes of that tuple.
    ///
    /// # Errors
    ///
    /// Returns the errors of `modes`.
    #[inline]
    pub fn nested(
        &mut self,
        modes: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let opened = self.open();
        modes(self)?;
        let rank = count_modes(&self.nodes[opened + 1..]);
        self.close(opened, rank);
        Ok(())
    }

    /// Returns the values from left to right, without their nesting.
    #[must_use]
    pub fn into_leaves(self) -> alloc::vec::Vec<T> {
        self.leaves.into_vec()
    }

    /// Returns the nesting of the modes appended so far: a 0 for each value, several modes in parentheses.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::{IntoTuple, Stride, TupleBuilder};
    /// let mut out = TupleBuilder::<Stride>::new();
    /// (4, (2, 3)).append_to(&mut out)?;
    /// assert_eq!(format!("{:#}", out.nesting()), "(0,(0,0))");
    /// assert_eq!(out.into_leaves().len(), 3);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[must_use]
    pub fn nesting(&self) -> IntTuple {
        let zeros = TupleBuilder {
            nodes: self.nodes.clone(),
            leaves: SmallVec::from_elem(crate::Int::Static(0), self.leaves.len()),
        };
        zeros.into()
    }

    /// Opens a tuple; [`Self::close`] writes its rank.
    pub(crate) fn open(&mut self) -> usize {
        self.nodes.push(1);
        self.nodes.len() - 1
    }

    pub(crate) fn close(&mut self, opened: usize, rank: usize) {
        self.nodes[opened] = rank_node(rank);
    }

    /// The nesting alone: for rewriting leaf by leaf.
    pub(crate) fn node(&mut self, node: u32) {
        self.nodes.push(node);
    }
}

impl<T: Copy> TupleBuilder<T> {
    #[inline]
    pub(crate) fn push(&mut self, mode: View<'_, T>) {
        self.nodes.extend_from_slice(mode.nodes());
        self.leaves.extend_from_slice(mode.leaves());
    }

    /// Appends `mode` with each of its values replaced.
    #[inline]
    pub(crate) fn push_mapped<U: Copy>(&mut self, mode: View<'_, U>, f: impl FnMut(U) -> T) {
        self.nodes.extend_from_slice(mode.nodes());
        self.leaves.extend(mode.leaves().iter().copied().map(f));
    }

    /// One leaf as it is, several as a tuple.
    #[inline]
    pub(crate) fn pieces(&mut self, pieces: &[T]) {
        if let [piece] = pieces {
            self.leaf(*piece);
            return;
        }
        let open = self.open();
        pieces.iter().for_each(|p| self.leaf(*p));
        self.close(open, pieces.len());
    }

    /// Returns the tuple of exactly one appended mode.
    #[inline]
    pub(crate) fn finish(self) -> Tuple<T> {
        Tuple {
            nodes: self.nodes,
            leaves: self.leaves,
        }
    }
}

/// Returns the one mode that was appended, or the tuple of several (`()` where there is none).
impl<T: Copy> From<TupleBuilder<T>> for Tuple<T> {
    #[inline]
    fn from(mut builder: TupleBuilder<T>) -> Self {
        let rank = count_modes(&builder.nodes);
        if rank != 1 {
            builder.nodes.insert(0, rank_node(rank));
        }
        builder.finish()
    }
}

/// How many modes `nodes` are.
fn count_modes(mut nodes: &[u32]) -> usize {
    let mut rank = 0;
    while !nodes.is_empty() {
        nodes = &nodes[extent_of(nodes).0..];
        rank += 1;
    }
    rank
}
