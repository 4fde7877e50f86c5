//! Hierarchical tuples: a nesting and the values at its leaves.
//!
//! Shapes, strides, coordinates and layouts are all such tuples, so their surgery is written once, here.

pub(crate) mod builder;
pub(crate) mod constant;
pub(crate) mod int;
pub(crate) mod int_tuple;
pub(crate) mod into;
pub(crate) mod stride;
mod surgery;
pub(crate) mod walk;

pub(crate) use builder::TupleBuilder;

use core::convert::Infallible;
use core::fmt;

use smallvec::SmallVec;

/// Leaves that fit without a heap allocation.
pub(crate) const INLINE_LEAVES: usize = 12;
/// Nodes (leaves and parentheses pairs) that fit without a heap allocation.
const INLINE_NODES: usize = 24;

/// The deepest nesting of parentheses: most walks over a layout recurse into them.
pub(crate) const MAX_DEPTH: usize = 64;

/// A value or a (possibly nested) tuple of values, such as `4`, `(4)`, `(2,(3,4))` or `()`.
///
/// CuTe distinguishes `4` from `(4)`, and so does this type.
/// Up to 12 leaves are stored inline, without a heap allocation.
///
/// Source: `cute/int_tuple.hpp`, `cute/algorithm/tuple_algorithms.hpp`.
#[derive(PartialEq, Eq, Hash)]
pub struct Tuple<T: Copy> {
    /// The nesting in preorder: 0 is a leaf, `n + 1` is a tuple of `n` modes.
    nodes: SmallVec<[u32; INLINE_NODES]>,
    leaves: SmallVec<[T; INLINE_LEAVES]>,
}

/// A borrowed sub-tuple.
#[derive(Debug)]
pub(crate) struct View<'a, T> {
    nodes: &'a [u32],
    leaves: &'a [T],
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for View<'_, T> {}

/// The length of the first sub-tuple of `nodes`, in nodes and in leaves.
fn extent_of(nodes: &[u32]) -> (usize, usize) {
    let (mut pending, mut leaves, mut at) = (1_usize, 0, 0);
    while pending > 0 {
        pending -= 1;
        match nodes[at] {
            0 => leaves += 1,
            n => pending += n as usize - 1,
        }
        at += 1;
    }
    (at, leaves)
}

impl<'a, T: Copy> View<'a, T> {
    pub(crate) fn is_leaf(self) -> bool {
        self.nodes[0] == 0
    }

    /// The value, if this is a leaf.
    pub(crate) fn as_leaf(self) -> Option<T> {
        if self.is_leaf() {
            Some(self.leaves[0])
        } else {
            None
        }
    }

    /// The number of modes: 1 for a leaf.
    pub(crate) fn rank(self) -> usize {
        match self.nodes[0] {
            0 => 1,
            n => n as usize - 1,
        }
    }

    pub(crate) fn leaves(self) -> &'a [T] {
        self.leaves
    }

    pub(crate) fn nodes(self) -> &'a [u32] {
        self.nodes
    }

    /// The modes of a tuple; a leaf is its own single mode.
    pub(crate) fn modes(self) -> Modes<'a, T> {
        let skip = usize::from(!self.is_leaf());
        Modes {
            nodes: &self.nodes[skip..],
            leaves: self.leaves,
            left: self.rank(),
        }
    }

    /// The modes of a tuple one after the other, as nodes and leaves behind its own node.
    pub(crate) fn inside(self) -> Self {
        Self {
            nodes: &self.nodes[1..],
            leaves: self.leaves,
        }
    }

    /// The first part, where others may follow it, and what follows.
    pub(crate) fn split_first(self) -> (Self, Self) {
        let (nodes, leaves) = extent_of(self.nodes);
        let (first_nodes, nodes) = self.nodes.split_at(nodes);
        let (first_leaves, leaves) = self.leaves.split_at(leaves);
        let first = Self {
            nodes: first_nodes,
            leaves: first_leaves,
        };
        (first, Self { nodes, leaves })
    }

    pub(crate) fn mode(self, i: usize) -> Option<Self> {
        self.modes().nth(i)
    }

    #[inline]
    pub(crate) fn to_tuple(self) -> Tuple<T> {
        Tuple {
            nodes: SmallVec::from_slice(self.nodes),
            leaves: SmallVec::from_slice(self.leaves),
        }
    }

    /// How deep the parentheses nest: 0 for a leaf.
    pub(crate) fn depth(self) -> usize {
        let mut open: SmallVec<[u32; 16]> = SmallVec::new();
        let mut depth = 0;
        for &node in self.nodes {
            if let Some(left) = open.last_mut() {
                *left -= 1;
            }
            if node > 0 {
                open.push(node - 1);
                depth = depth.max(open.len());
            }
            while open.last() == Some(&0) {
                open.pop();
            }
        }
        depth
    }
}

/// The modes of a [`View`], in order.
pub(crate) struct Modes<'a, T> {
    nodes: &'a [u32],
    leaves: &'a [T],
    left: usize,
}

impl<'a, T: Copy> Iterator for Modes<'a, T> {
    type Item = View<'a, T>;

    fn next(&mut self) -> Option<View<'a, T>> {
        self.left = self.left.checked_sub(1)?;
        let all = View {
            nodes: self.nodes,
            leaves: self.leaves,
        };
        let (mode, rest) = all.split_first();
        (self.nodes, self.leaves) = (rest.nodes, rest.leaves);
        Some(mode)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T: Copy> ExactSizeIterator for Modes<'_, T> {}

/// The node of a tuple of `rank` modes.
fn rank_node(rank: usize) -> u32 {
    u32::try_from(rank + 1).expect("a tuple has fewer modes than there are addresses for them")
}

impl<T: Copy> Tuple<T> {
    /// Returns a single value, without parentheses.
    pub fn leaf(value: T) -> Self {
        Self {
            nodes: SmallVec::from_slice(&[0]),
            leaves: SmallVec::from_slice(&[value]),
        }
    }

    /// Returns the tuple of `modes`: `(m0,m1,..)`.
    #[inline]
    pub fn concat<'a>(modes: impl IntoIterator<Item = &'a Self>) -> Self
    where
        T: 'a,
    {
        Self::from_views(modes.into_iter().map(Self::view))
    }

    /// Returns the flat tuple of `values`.
    #[inline]
    pub fn flat(values: impl IntoIterator<Item = T>) -> Self {
        let leaves: SmallVec<_> = values.into_iter().collect();
        let mut nodes = SmallVec::from_elem(0, leaves.len() + 1);
        nodes[0] = rank_node(leaves.len());
        Self { nodes, leaves }
    }

    #[inline]
    pub(crate) fn from_views<'a>(modes: impl IntoIterator<Item = View<'a, T>>) -> Self
    where
        T: 'a,
    {
        let mut b = TupleBuilder::new();
        let open = b.open();
        let mut rank = 0;
        for mode in modes {
            b.push(mode);
            rank += 1;
        }
        b.close(open, rank);
        b.finish()
    }

    pub(crate) fn view(&self) -> View<'_, T> {
        View {
            nodes: &self.nodes,
            leaves: &self.leaves,
        }
    }

    /// Returns whether this is a single value without parentheses.
    #[must_use]
    pub fn is_leaf(&self) -> bool {
        self.view().is_leaf()
    }

    /// Returns the value, if this is a single one without parentheses.
    #[must_use]
    pub fn as_leaf(&self) -> Option<T> {
        self.view().as_leaf()
    }

    /// Returns the number of modes; 1 for a single value.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.view().rank()
    }

    /// Returns how deep the parentheses nest: 0 for `4`, 1 for `(4)`, 2 for `(3,(6,2),8)`.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.view().depth()
    }

    /// How many leaves and parentheses there are.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Returns all values from left to right.
    #[must_use]
    pub fn leaves(&self) -> &[T] {
        &self.leaves
    }

    /// Returns the mode `i`, or `None` beyond the rank. A single value is its own mode 0.
    #[must_use]
    pub fn mode(&self, i: usize) -> Option<Self> {
        self.view().mode(i).map(View::to_tuple)
    }

    /// Returns the modes, in order.
    pub fn modes(&self) -> impl ExactSizeIterator<Item = Self> + '_ {
        self.view().modes().map(View::to_tuple)
    }

    /// Returns whether both nest alike (CuTe's `congruent`).
    #[must_use]
    pub fn is_congruent<U: Copy>(&self, other: &Tuple<U>) -> bool {
        self.nodes == other.nodes
    }

    /// The tuple of the same nesting with every value replaced.
    pub(crate) fn try_map<U: Copy, E>(
        &self,
        f: impl FnMut(T) -> Result<U, E>,
    ) -> Result<Tuple<U>, E> {
        let leaves = self
            .leaves
            .iter()
            .copied()
            .map(f)
            .collect::<Result<_, E>>()?;
        Ok(Tuple {
            nodes: self.nodes.clone(),
            leaves,
        })
    }

    pub(crate) fn map<U: Copy>(&self, f: impl FnMut(T) -> U) -> Tuple<U> {
        Tuple {
            nodes: self.nodes.clone(),
            leaves: self.leaves.iter().copied().map(f).collect(),
        }
    }

    /// The tuple in which `refine` puts a mode, a leaf or a tuple, in place of each leaf.
    pub(crate) fn try_refine<U: Copy, E>(
        &self,
        mut refine: impl FnMut(usize, &T, &mut TupleBuilder<U>) -> Result<(), E>,
    ) -> Result<Tuple<U>, E> {
        let mut out = TupleBuilder::new();
        let mut leaves = self.leaves.iter().enumerate();
        for &node in &self.nodes {
            if node > 0 {
                out.node(node);
                continue;
            }
            let (at, leaf) = leaves.next().expect("every leaf node has its value");
            refine(at, leaf, &mut out)?;
        }
        Ok(out.finish())
    }

    /// [`Tuple::try_refine`] where nothing can fail.
    pub(crate) fn refine<U: Copy>(
        &self,
        mut refine: impl FnMut(usize, &T, &mut TupleBuilder<U>),
    ) -> Tuple<U> {
        let refined = self.try_refine(|at, leaf, out| {
            refine(at, leaf, out);
            Ok::<_, Infallible>(())
        });
        refined.unwrap_or_else(|never| match never {})
    }

    /// The tuple of the same nesting with `leaves`; `leaves` must be as many.
    pub(crate) fn with_leaves<U: Copy>(&self, leaves: &[U]) -> Tuple<U> {
        assert_eq!(
            leaves.len(),
            self.leaves.len(),
            "a nesting keeps its number of leaves"
        );
        Tuple {
            nodes: self.nodes.clone(),
            leaves: SmallVec::from_slice(leaves),
        }
    }
}

impl<T: Copy> Clone for Tuple<T> {
    fn clone(&self) -> Self {
        self.view().to_tuple()
    }
}

impl<T: Copy> View<'_, T> {
    /// Writes `(a,(b,c))`, each leaf by `leaf`.
    pub(crate) fn write(
        self,
        out: &mut fmt::Formatter<'_>,
        mut leaf: impl FnMut(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
    ) -> fmt::Result {
        use fmt::Write as _;
        let mut open: SmallVec<[u32; 16]> = SmallVec::new();
        let mut leaves = self.leaves.iter();
        for &node in self.nodes {
            match node {
                0 => leaf(out, leaves.next().expect("every leaf node has its value"))?,
                n => {
                    out.write_char('(')?;
                    open.push(n - 1);
                    if n > 1 {
                        continue;
                    }
                }
            }
            close(out, &mut open, node == 1)?;
        }
        Ok(())
    }
}

/// After a mode: a comma before the next one, or the parentheses that it ends.
fn close(out: &mut fmt::Formatter<'_>, open: &mut SmallVec<[u32; 16]>, empty: bool) -> fmt::Result {
    use fmt::Write as _;
    if empty {
        open.pop();
        out.write_char(')')?;
    }
    while let Some(left) = open.last_mut() {
        *left -= 1;
        if *left > 0 {
            return out.write_char(',');
        }
        open.pop();
        out.write_char(')')?;
    }
    Ok(())
}

/// What can stand at the leaves of a [`Tuple`]: integers, strides, and the leaf modes of a layout.
pub trait Leaf: Copy + fmt::Display {
    /// The text of a whole tuple of such leaves, for error sentences.
    #[must_use]
    fn text(tuple: &Tuple<Self>) -> alloc::string::String {
        alloc::string::ToString::to_string(tuple)
    }
}

impl Leaf for crate::Int {}
impl Leaf for crate::Stride {}

impl<T: Leaf> fmt::Display for Tuple<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().write(f, |out, leaf| leaf.fmt(out))
    }
}

impl<T: Leaf> fmt::Debug for Tuple<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
