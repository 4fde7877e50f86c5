//! A tensor over ranks as one layout, and the check that the ranks hold all of it.

use crate::number::error::{Error, ErrorKind};
use crate::ranks::{Placement, check_shape, coordinates, elements};
use colex_layout::{Layout, Stride};

/// A tensor over ranks: a layout from the coordinates in a rank's part and the rank, its last mode, to the index of the
/// element in the whole tensor.
///
/// It is consistent by construction: each element is held, and by equally many ranks. The rank may be a mode of several
/// extents, such as a grid of ranks.
///
/// ```
/// use colex_layout::Layout;
/// use colex_sched::RankLayout;
///
/// // Columns dealt out to 2 ranks in turn; every row of ranks of a 2 x 3 grid holds the whole.
/// let layout: Layout = "(4,2,(2,3)):(1,8,(4,0))".parse()?;
/// let tensor = RankLayout::new(&[4, 4], &layout, false)?;
/// assert_eq!((tensor.ranks(), tensor.times(), tensor.is_sum()), (6, 3, false));
/// // Element (1,2) is element (1,1) of the part of ranks 0, 2 and 4.
/// assert_eq!(tensor.holders(9)?, [(0, 5), (2, 5), (4, 5)]);
///
/// let apart: Layout = "(4,2,2):(1,8,8)".parse()?;
/// let error = RankLayout::new(&[4, 4], &apart, false).unwrap_err();
/// assert!(error.is_inconsistent());
/// assert_eq!(error.to_string(), "(4,2,2):(1,8,8) over (4,4): element (0,1) is held by no rank");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankLayout {
    shape: Vec<i64>,
    layout: Layout,
    times: i64,
    sum: bool,
}

/// A leaf of a layout: its extent, its stride, what a step adds to the rank and to the index in a part.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    extent: i64,
    stride: i64,
    rank: i64,
    local: i64,
}

impl RankLayout {
    /// Returns a tensor of this shape over ranks, or what is wrong with the layout. With `sum`, ranks that hold the same
    /// element hold terms of it, else copies.
    ///
    /// # Errors
    ///
    /// Returns an error for a tensor without modes, an extent below 1, a size that does not fit in 64 bits; for a layout of
    /// fewer than two modes, or with a stride that is no integer or is negative; and, with an element as counterexample, if an
    /// element is held by no rank, twice by one, by some ranks more often than others are, or lies outside of the tensor.
    pub fn new(shape: &[i64], layout: &Layout, sum: bool) -> Result<RankLayout, Error> {
        check_shape(shape)?;
        let leaves = leaves(layout)?;
        let times = leaves
            .iter()
            .filter(|leaf| leaf.rank != 0 && leaf.stride == 0)
            .map(|leaf| leaf.extent)
            .product();
        let tensor = RankLayout {
            shape: shape.to_vec(),
            layout: layout.clone(),
            times,
            sum,
        };
        tensor.check(leaves)?;
        Ok(tensor)
    }

    /// The elements are held once, but for ranks that do not move: sorted by stride, each mode has to begin where the ones
    /// before it end.
    fn check(&self, mut leaves: Vec<Leaf>) -> Result<(), Error> {
        let size = elements(&self.shape)?;
        leaves.retain(|leaf| leaf.rank == 0 || leaf.stride != 0);
        leaves.sort_by_key(|leaf| leaf.stride);
        let mut end = 1i64;
        for (at, leaf) in leaves.iter().enumerate() {
            if leaf.stride > end && end < size {
                let element = self.element(end);
                return Err(self.wrong(format!("element {element} is held by no rank")));
            }
            if leaf.stride < end {
                return Err(self.held_twice(&leaves[..at], *leaf));
            }
            let next = leaf.stride.checked_mul(leaf.extent);
            match next.filter(|next| *next <= size) {
                Some(next) => end = next,
                None => return Err(self.outside(&leaves[..at], *leaf, size)),
            }
        }
        if end < size {
            let element = self.element(end);
            return Err(self.wrong(format!("element {element} is held by no rank")));
        }
        Ok(())
    }

    /// A mode leads out of the tensor: to the first index behind it, or further if it begins there.
    fn outside(&self, smaller: &[Leaf], leaf: Leaf, size: i64) -> Error {
        let index = size.max(leaf.stride);
        let rank = rank_at(smaller, index % leaf.stride) + index / leaf.stride * leaf.rank;
        self.wrong(format!(
            "rank {rank} holds index {index}, and the tensor has {size} elements"
        ))
    }

    /// The step of a mode leads to an element that modes of smaller strides reach.
    fn held_twice(&self, smaller: &[Leaf], leaf: Leaf) -> Error {
        let rank = rank_at(smaller, leaf.stride);
        let element = self.element(leaf.stride);
        self.wrong(if rank == leaf.rank {
            format!("rank {rank} holds element {element} twice")
        } else {
            let (low, high) = (rank.min(leaf.rank), rank.max(leaf.rank));
            format!("element {element} is held by rank {low} and, in another place of its part, by rank {high}")
        })
    }

    fn element(&self, index: i64) -> String {
        coordinates(&self.shape, index)
    }

    fn wrong(&self, what: String) -> Error {
        let extents: Vec<String> = self.shape.iter().map(i64::to_string).collect();
        let sentence = format!("{} over ({}): {what}", self.layout, extents.join(","));
        ErrorKind::Inconsistent { sentence }.into()
    }

    /// Returns the extents of the whole tensor.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// Returns the layout; its last mode is the rank.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> i64 {
        self.rank_mode().size()
    }

    /// Returns the number of ranks that hold each element.
    pub fn times(&self) -> i64 {
        self.times
    }

    /// Returns whether ranks that hold the same element hold terms of it.
    pub fn is_sum(&self) -> bool {
        self.sum
    }

    fn rank_mode(&self) -> Layout {
        let last = self.layout.rank() - 1;
        self.layout.mode(last).expect("a layout has its last mode")
    }

    /// Returns the layout of one rank's part: from the coordinates in the part to the distance from its first element.
    pub fn part(&self) -> Layout {
        let modes: Vec<Layout> = self.layout.modes().collect();
        let (_, part) = modes.split_last().expect("two modes at least");
        Layout::concat(part).expect("a part of a layout is one")
    }

    /// Returns the number of elements of a rank's part.
    pub fn part_size(&self) -> i64 {
        self.part().size()
    }

    /// Returns the index in the whole tensor of the first element of a rank.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank.
    pub fn first(&self, rank: i64) -> Result<i64, Error> {
        let ranks = self.ranks();
        if !(0..ranks).contains(&rank) {
            return Err(Error::outside("rank", [rank, 0, 0], [ranks, 1, 1]));
        }
        self.rank_mode().at(rank).map_err(Error::invalid)
    }

    /// Returns the index in the whole tensor of element `local` of the part of a rank.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank or no such element.
    pub fn index(&self, local: i64, rank: i64) -> Result<i64, Error> {
        let first = self.first(rank)?;
        let within = self.part().at(local).map_err(Error::invalid)?;
        Ok(first + within)
    }

    /// Returns the ranks that hold an element of the whole tensor, each with the index in its part, by rank.
    ///
    /// # Errors
    ///
    /// Returns an error if the tensor has no such element.
    pub fn holders(&self, index: i64) -> Result<Vec<(i64, i64)>, Error> {
        let size = elements(&self.shape)?;
        if !(0..size).contains(&index) {
            return Err(Error::outside("element", [index, 0, 0], [size, 1, 1]));
        }
        // The modes that move have the digits of the index; the others any.
        let mut fixed = (0, 0);
        let mut free = vec![0];
        for leaf in leaves(&self.layout)? {
            if leaf.stride == 0 {
                let steps = free.iter().flat_map(|at| {
                    let at = *at;
                    (0..leaf.extent).map(move |step| at + step * leaf.rank)
                });
                free = steps.collect();
            } else {
                let digit = index / leaf.stride % leaf.extent;
                fixed.0 += digit * leaf.rank;
                fixed.1 += digit * leaf.local;
            }
        }
        free.sort_unstable();
        let (rank, local) = fixed;
        Ok(free
            .into_iter()
            .map(|other| (rank + other, local))
            .collect())
    }

    /// Returns the parts of the ranks of a whole tensor, in the order of the ranks: of a sum, the first rank that holds an
    /// element has it, and the others the default value.
    ///
    /// ```
    /// use colex_sched::Placement;
    ///
    /// let rows = Placement::Shard(0).layout(&[4, 2], 2)?;
    /// let parts = rows.split(&[1, 2, 3, 4, 5, 6, 7, 8])?;
    /// assert_eq!(parts, [[1, 2, 5, 6], [3, 4, 7, 8]]);
    /// assert_eq!(rows.join(&parts, |a, b| a + b)?, [1, 2, 3, 4, 5, 6, 7, 8]);
    ///
    /// let copies = Placement::Replicate.layout(&[2], 2)?;
    /// let error = copies.join(&[[1, 2], [1, 3]], |a, b| a + b).unwrap_err();
    /// assert_eq!(error.to_string(), "element (1) differs between rank 0 and rank 1, which both hold it");
    /// # Ok::<(), colex_sched::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error unless there are as many elements as the tensor has.
    pub fn split<T: Clone + Default>(&self, whole: &[T]) -> Result<Vec<Vec<T>>, Error> {
        let size = elements(&self.shape)?;
        count("elements of the tensor", whole.len(), size)?;
        let part = self.part_size();
        let mut seen = vec![false; whole.len()];
        let mut parts = Vec::new();
        for rank in 0..self.ranks() {
            let mut own = Vec::with_capacity(part as usize);
            for local in 0..part {
                let index = self.index(local, rank)? as usize;
                let first = !std::mem::replace(&mut seen[index], true);
                own.push(if first || !self.sum {
                    whole[index].clone()
                } else {
                    T::default()
                });
            }
            parts.push(own);
        }
        Ok(parts)
    }

    /// Returns the whole tensor of the parts of the ranks; the terms of a sum are added in the order of the ranks.
    ///
    /// # Errors
    ///
    /// Returns an error unless there is a part of the right size for each rank, and, with an element as counterexample, if copies
    /// differ.
    pub fn join<T: Clone + PartialEq>(
        &self,
        parts: &[impl AsRef<[T]>],
        add: impl Fn(&T, &T) -> T,
    ) -> Result<Vec<T>, Error> {
        count("parts", parts.len(), self.ranks())?;
        for part in parts {
            count("elements of a part", part.as_ref().len(), self.part_size())?;
        }
        let mut whole = Vec::new();
        for index in 0..elements(&self.shape)? {
            let mut holders = self.holders(index)?.into_iter();
            let value = |(rank, local): (i64, i64)| &parts[rank as usize].as_ref()[local as usize];
            let first = holders.next().ok_or_else(|| {
                self.wrong(format!(
                    "element {} is held by no rank",
                    self.element(index)
                ))
            })?;
            let mut all = value(first).clone();
            for other in holders {
                if self.sum {
                    all = add(&all, value(other));
                } else if *value(other) != all {
                    let sentence = format!(
                        "element {} differs between rank {} and rank {}, which both hold it",
                        self.element(index),
                        first.0,
                        other.0
                    );
                    return Err(ErrorKind::Inconsistent { sentence }.into());
                }
            }
            whole.push(all);
        }
        Ok(whole)
    }

    /// Returns which of the placements this is; `None` if it is another distribution.
    ///
    /// ```
    /// use colex_sched::{Placement, RankLayout};
    ///
    /// let turns = RankLayout::new(&[8], &"(2,4):(4,1)".parse()?, false)?;
    /// assert_eq!(turns.placement(), None);
    /// let blocks = RankLayout::new(&[8], &"(2,4):(1,2)".parse()?, false)?;
    /// assert_eq!(blocks.placement(), Some(Placement::Shard(0)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn placement(&self) -> Option<Placement> {
        Placement::all(self.shape.len()).find(|placement| {
            let other = placement.layout(&self.shape, self.ranks());
            other.is_ok_and(|other| {
                other.sum == self.sum
                    && other.part().is_same_function(&self.part())
                    && other.rank_mode().is_same_function(&self.rank_mode())
            })
        })
    }
}

/// The rank of an index that these modes reach.
fn rank_at(modes: &[Leaf], index: i64) -> i64 {
    let modes = modes.iter().filter(|leaf| leaf.stride > 0);
    modes
        .map(|leaf| index / leaf.stride % leaf.extent * leaf.rank)
        .sum()
}

/// The leaves of a layout that move or are repeated.
fn leaves(layout: &Layout) -> Result<Vec<Leaf>, Error> {
    let modes = layout.rank();
    if modes < 2 {
        let sentence = format!("{layout}: its last mode is the rank, and there is no other");
        return Err(ErrorKind::Inconsistent { sentence }.into());
    }
    let (mut all, mut local) = (Vec::new(), 1);
    for (at, mode) in layout.modes().enumerate() {
        let mut rank = i64::from(at + 1 == modes);
        for leaf in mode.leaves() {
            let (extent, stride) = (leaf.extent.value(), leaf.stride);
            let Stride::Int(stride) = stride else {
                let sentence = format!("{layout}: the stride {stride} is no integer");
                return Err(ErrorKind::Inconsistent { sentence }.into());
            };
            if stride.value() < 0 {
                let sentence = format!("{layout}: the stride {stride} is negative");
                return Err(ErrorKind::Inconsistent { sentence }.into());
            }
            if extent > 1 {
                all.push(Leaf {
                    extent,
                    stride: stride.value(),
                    rank,
                    local: if rank == 0 { local } else { 0 },
                });
            }
            if rank == 0 {
                local *= extent;
            } else {
                rank *= extent;
            }
        }
    }
    Ok(all)
}

fn count(what: &'static str, given: usize, wanted: i64) -> Result<(), Error> {
    if given as i64 == wanted {
        Ok(())
    } else {
        Err(ErrorKind::Count {
            what,
            given,
            wanted,
        }
        .into())
    }
}
