//! Coordinate strides: layouts whose values are coordinates, and what becomes of them.

use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::layout::{LayoutView, LeafMode};
use crate::tuple::int::{add, mul};
use crate::tuple::{Tuple, TupleBuilder};
use crate::{Basis, Error, Int, IntTuple, IntoIntTuple, Layout, Stride};

/// A coordinate while it is summed: the value at each path, ordered by path.
type Sums = Vec<(SmallVec<[usize; 6]>, i64)>;

impl Layout {
    /// Returns the layout that maps each coordinate of `shape` to itself: CuTe's `make_identity_layout`.
    ///
    /// Partitioned like a tensor, it tells which coordinates each thread has (predication, TMA).
    ///
    /// Law `identity_coord` (`identity.coord_at(i) == shape.coord(i)`).
    ///
    /// # Errors
    ///
    /// Returns an error for an extent below 1, or if the shape nests deeper than six levels or has more than 256 modes
    /// in one.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let identity = Layout::identity((4, (2, 3)))?;
    /// assert_eq!(format!("{identity:#}"), "(4,(2,3)):(1@0,(1@0@1,1@1@1))");
    /// assert_eq!(identity.coord_at(13)?.to_string(), "(1,(1,1))");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    ///
    /// Source: `make_identity_layout` in `cute/layout.hpp`.
    #[doc(alias = "make_identity_layout")]
    pub fn identity(shape: impl IntoIntTuple) -> Result<Self, Error> {
        let shape = shape.into_int_tuple()?;
        let stride = shape.basis_like()?;
        Self::of_tuples(shape, stride)
    }

    /// Returns whether some stride is a basis vector, so that values are coordinates.
    #[must_use]
    pub fn has_coordinate_values(&self) -> bool {
        self.leaves()
            .iter()
            .any(|l| matches!(l.stride, Stride::Basis(_)))
    }

    /// Returns the value at a coordinate, as a coordinate; an integer for integer and XOR strides.
    ///
    /// The value nests as deep as the strides name modes; modes that no stride names are 0.
    ///
    /// # Errors
    ///
    /// Returns an error if the coordinate does not fit the shape, if one stride names a mode and another stride a mode
    /// inside it, or if a number does not fit in 64 bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let partition: Layout = "((2,2),3):((1@0,4@1),8@0)".parse()?;
    /// assert_eq!(partition.coord_at((3, 2))?.to_string(), "(17,4)");
    /// assert_eq!(partition.coord_at(11)?, partition.coord_at(((1, 1), 2))?);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn coord_at(&self, coord: impl IntoIntTuple) -> Result<IntTuple, Error> {
        let coord = coord.into_int_tuple()?;
        if !self.has_coordinate_values() {
            return Ok(self.at(coord)?.into());
        }
        let digits = self.shape().coord(coord)?;
        let mut sums = Sums::new();
        for (leaf, digit) in self.leaves().iter().zip(digits.leaves()) {
            if let Stride::Basis(b) = leaf.stride {
                sums.push((b.path().collect(), mul(digit.value(), b.value.value())?));
            }
        }
        let sums = added(sums)?;
        let mut b = TupleBuilder::new();
        nest(&sums, 0, &mut b).ok_or_else(|| self.prefix_clash())?;
        Ok(b.finish())
    }

    /// Returns the smallest shape that contains every value: one past the largest value along each mode (strides taken
    /// without their signs). For integer strides this is the cosize.
    ///
    /// # Errors
    ///
    /// Returns an error for XOR strides, for strides of different kinds, or if a number does not fit in 64 bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let partition: Layout = "((2,2),3):((1@0,4@1),8@0)".parse()?;
    /// assert_eq!(partition.coshape()?.to_string(), "(18,5)");
    /// assert_eq!("(4,2):(1,8)".parse::<Layout>()?.coshape()?.to_string(), "12");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn coshape(&self) -> Result<IntTuple, Error> {
        if !self.has_coordinate_values() {
            return Ok(self.cosize_int()?.into());
        }
        let last = self.0.try_map(|leaf| {
            let c = leaf.stride.coefficient();
            let size = c.with_value(crate::tuple::int::abs(c.value())?);
            Ok::<_, Error>(LeafMode::new(
                leaf.extent,
                leaf.stride.with_coefficient(size),
            ))
        })?;
        let largest = Self(last).coord_at(self.size() - 1)?;
        largest.try_map(|n| Ok(n.with_value(add(n.value(), 1)?)))
    }

    /// Returns the nesting of the values, as zeros: `(0,0)` for values that are pairs, `0` for integers.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::coord_at`].
    pub fn coprofile(&self) -> Result<IntTuple, Error> {
        Ok(self.coord_at(0)?.repeat_like(0))
    }

    fn prefix_clash(&self) -> Error {
        Error::stride_kind(
            "a coordinate",
            self.text(),
            "strides that do not name both a mode and a mode inside it",
        )
    }

    /// Returns the integer layout that a layout of coordinates becomes in a tensor with these strides: each basis
    /// vector is replaced by the stride of the mode it names. No mode is joined or split, so it is right for every
    /// value of the strides: this is how a kernel uses strides that are known at launch only.
    ///
    /// Law `inner_product_at` (`r.at(i) == self.coord_at(i) . strides`).
    ///
    /// # Errors
    ///
    /// Returns an error if `self` has no coordinate values or names a mode that `strides` does not have, or if a number
    /// does not fit in 64 bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::{C, Layout};
    /// let partition: Layout = "((_2,_2),_3):((_1@0,_4@1),_8@0)".parse()?;
    /// let row_major = (513, C::<1>);
    /// assert_eq!(partition.inner_product(row_major)?.to_string(), "((_2,_2),_3):((513,_4),4104)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn inner_product(&self, strides: impl IntoIntTuple) -> Result<Self, Error> {
        let strides = strides.into_int_tuple()?;
        let needs = |needs| -> Error { Error::stride_kind("inner_product", self.text(), needs) };
        let leaves = self.0.try_map(|leaf| match leaf.stride {
            Stride::Basis(b) => {
                let path: SmallVec<[usize; 6]> = b.path().collect();
                let d = strides.get(&path)?.as_leaf();
                let d =
                    d.ok_or_else(|| needs("strides that are integers at every mode it names"))?;
                Ok(LeafMode::new(leaf.extent, Stride::Int(d.times(b.value)?)))
            }
            d if d.is_zero() => Ok(leaf),
            _ => Err(needs("coordinate strides")),
        })?;
        Self::checked(leaves)
    }

    /// Composition with a layout of coordinates on the right: `R(c) = self(inner(c))`, each coordinate taken by the
    /// mode of `self` that it names.
    pub(crate) fn composition_coordinates(&self, inner: &Self) -> Result<Self, Error> {
        // The leaves along each direction, one direction after the other.
        let mut along: Vec<(Basis, usize)> = Vec::new();
        for (at, leaf) in inner.leaves().iter().enumerate() {
            if let Stride::Basis(b) = leaf.stride {
                along.push((b, at));
            }
        }
        along.sort_by(|(a, i), (b, j)| a.path().cmp(b.path()).then(i.cmp(j)));
        // A path sorts right before those that it begins.
        if along.windows(2).any(|w| is_prefix(&w[0].0, &w[1].0)) {
            return Err(inner.prefix_clash());
        }
        let mut refined: Vec<Option<Self>> = alloc::vec![None; inner.leaves().len()];
        if !along.is_empty() {
            directions(self.view(), inner, &along, 0, &mut refined)?;
        }
        let composed = inner.0.refine(|at, leaf, out| match &refined[at] {
            Some(mode) => out.push(mode.view()),
            None => out.leaf(LeafMode::new(leaf.extent, Stride::constant(0))),
        });
        Self::checked(composed)
    }

    /// The composition of `self`, a mode that `leaves` of `inner` name, with these leaves: a mode for each of them.
    fn composition_along(&self, inner: &Self, leaves: &[(Basis, usize)]) -> Result<Self, Error> {
        let (direction, _) = leaves[0];
        let plain = |(b, at): &(Basis, usize)| {
            LeafMode::new(inner.leaves()[*at].extent, Stride::Int(b.value))
        };
        let only = Self(Tuple::flat(leaves.iter().map(plain)));
        self.composition(&only).map_err(|error| {
            // The error shows all modes of the right-hand side.
            let all = inner.0.map(|leaf| match leaf.stride {
                Stride::Basis(b) if b.is_parallel(&direction) => {
                    LeafMode::new(leaf.extent, Stride::Int(b.value))
                }
                _ => LeafMode::new(leaf.extent, Stride::constant(0)),
            });
            self.composition(&Self(all)).err().unwrap_or(error)
        })
    }
}

/// Composes each mode of `outer` with the leaves of `inner` that name it. Their paths are in order and agree before
/// `depth`, where they have led to `outer`: so all modes of the left-hand side are passed once.
fn directions(
    outer: LayoutView<'_>,
    inner: &Layout,
    along: &[(Basis, usize)],
    depth: usize,
    refined: &mut [Option<Layout>],
) -> Result<(), Error> {
    if along[0].0.path().len() == depth {
        let part = Layout(outer.to_tuple()).composition_along(inner, along)?;
        let modes = along.iter().zip(part.modes());
        modes.for_each(|((_, at), mode)| refined[*at] = Some(mode));
        return Ok(());
    }
    let mode_of = |leaf: &(Basis, usize)| leaf.0.path().nth(depth);
    let mut modes = outer.modes();
    let mut passed = 0;
    for leaves in along.chunk_by(|a, b| mode_of(a) == mode_of(b)) {
        let at = mode_of(&leaves[0]).expect("no path begins another");
        let mode = modes
            .nth(at - passed)
            .ok_or_else(|| outer.to_tuple().no_mode(at))?;
        passed = at + 1;
        directions(mode, inner, leaves, depth + 1, refined)?;
    }
    Ok(())
}

fn is_prefix(a: &Basis, b: &Basis) -> bool {
    a.path().len() < b.path().len() && a.path().zip(b.path()).all(|(x, y)| x == y)
}

/// One sum for each path.
fn added(mut parts: Sums) -> Result<Sums, Error> {
    parts.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut sums = Sums::new();
    for (path, by) in parts {
        match sums.last_mut() {
            Some((last, sum)) if *last == path => *sum = add(*sum, by)?,
            _ => sums.push((path, by)),
        }
    }
    Ok(sums)
}

/// The tuple of `sums`, ordered by their paths, which agree before `depth`; `None` when a path ends where another goes
/// on.
fn nest(
    sums: &[(SmallVec<[usize; 6]>, i64)],
    depth: usize,
    out: &mut TupleBuilder<Int>,
) -> Option<()> {
    if let [(path, sum)] = sums
        && path.len() == depth
    {
        out.leaf(Int::Dynamic(*sum));
        return Some(());
    }
    if sums.iter().any(|(path, _)| path.len() <= depth) {
        return None;
    }
    let open = out.open();
    let (mut rest, mut rank) = (sums, 0);
    while let Some((path, _)) = rest.first() {
        let mode = path[depth];
        (rank..mode).for_each(|_| out.leaf(Int::Dynamic(0)));
        let (ours, others) = rest.split_at(rest.partition_point(|(p, _)| p[depth] == mode));
        nest(ours, depth + 1, out)?;
        (rest, rank) = (others, mode + 1);
    }
    out.close(open, rank);
    Some(())
}

impl Tuple<Int> {
    /// Returns the basis vector of each leaf: `(4,(2,3))` gives `(1@0,(1@0@1,1@1@1))`. CuTe's `make_basis_like`.
    ///
    /// A single integer is its own direction and gives the integer 1.
    ///
    /// # Errors
    ///
    /// Returns an error if the tuple nests deeper than six levels or has more than 256 modes in one.
    #[doc(alias = "make_basis_like")]
    pub fn basis_like(&self) -> Result<Tuple<Stride>, Error> {
        let mut strides: SmallVec<[Stride; 12]> = SmallVec::new();
        // The mode of each open tuple, and the modes that follow it.
        let mut path: SmallVec<[usize; 16]> = SmallVec::new();
        let mut left: SmallVec<[usize; 16]> = SmallVec::new();
        for &node in self.view().nodes() {
            if node > 1 {
                path.push(0);
                left.push(node as usize - 2);
                continue;
            }
            if node == 0 {
                strides.push(if path.is_empty() {
                    Stride::constant(1)
                } else {
                    Stride::Basis(Basis::new(Int::Static(1), &path)?)
                });
            }
            while let Some(0) = left.last() {
                left.pop();
                path.pop();
            }
            if let (Some(mode), Some(left)) = (path.last_mut(), left.last_mut()) {
                *mode += 1;
                *left -= 1;
            }
        }
        Ok(self.with_leaves(&strides))
    }
}
