//! Taking tuples apart and putting them together: the same for shapes, coordinates and layouts.

use alloc::boxed::Box;
use core::ops::Range;

use smallvec::SmallVec;

use crate::Error;
use crate::error::ErrorKind;
use crate::tuple::{Leaf, Tuple, TupleBuilder, View};

impl<T: Leaf> Tuple<T> {
    pub(crate) fn text(&self) -> Box<str> {
        T::text(self).into()
    }

    fn expect_view(&self, i: usize) -> Result<View<'_, T>, Error> {
        self.view().mode(i).ok_or_else(|| self.no_mode(i))
    }

    pub(crate) fn no_mode(&self, i: usize) -> Error {
        ErrorKind::Mode {
            mode: i,
            rank: self.rank(),
            of: self.text(),
        }
        .into()
    }

    /// Returns the mode that a path of indices names: `get(&[1, 0])` is mode 0 of mode 1.
    ///
    /// # Errors
    ///
    /// Returns an error if an index is beyond the rank at its level.
    pub fn get(&self, path: &[usize]) -> Result<Self, Error> {
        let mut view = self.view();
        for &i in path {
            view = view.mode(i).ok_or_else(|| view.to_tuple().no_mode(i))?;
        }
        Ok(view.to_tuple())
    }

    /// Returns the tuple of the modes that `indices` name, in that order; always a tuple, also for one index.
    ///
    /// # Errors
    ///
    /// Returns an error if an index is beyond the rank.
    pub fn select(&self, indices: &[usize]) -> Result<Self, Error> {
        let modes: SmallVec<[_; 12]> = self.view().modes().collect();
        if let Some(&mode) = indices.iter().find(|i| **i >= modes.len()) {
            return Err(self.no_mode(mode));
        }
        Ok(Self::from_views(indices.iter().map(|&i| modes[i])))
    }

    /// Returns the modes in `range`, always as a tuple.
    ///
    /// # Errors
    ///
    /// Returns an error if the range is empty or ends beyond the rank.
    pub fn take(&self, range: Range<usize>) -> Result<Self, Error> {
        self.check_range("take", &range)?;
        Ok(Self::from_views(
            self.view().modes().skip(range.start).take(range.len()),
        ))
    }

    /// Groups the modes in `range` into one mode.
    ///
    /// # Errors
    ///
    /// Returns an error if the range is empty or ends beyond the rank.
    pub fn group(&self, range: Range<usize>) -> Result<Self, Error> {
        self.check_range("group", &range)?;
        let mut b = TupleBuilder::new();
        let outer = b.open();
        let mut inner = 0;
        for (i, mode) in self.view().modes().enumerate() {
            if i == range.start {
                inner = b.open();
            }
            b.push(mode);
            if i + 1 == range.end {
                b.close(inner, range.len());
            }
        }
        b.close(outer, self.rank() - range.len() + 1);
        Ok(b.finish())
    }

    fn check_range(&self, operation: &'static str, range: &Range<usize>) -> Result<(), Error> {
        if range.start < range.end && range.end <= self.rank() {
            return Ok(());
        }
        Err(ErrorKind::Range {
            operation,
            begin: range.start,
            end: range.end,
            of: self.text(),
        }
        .into())
    }

    /// Returns all leaves in one flat tuple; a single value stays one.
    #[must_use]
    pub fn flatten(&self) -> Self {
        if self.is_leaf() {
            self.clone()
        } else {
            Self::flat(self.leaves().iter().copied())
        }
    }

    /// Returns the leaves, nested as `profile` is: the inverse of [`Tuple::flatten`].
    ///
    /// # Errors
    ///
    /// Returns an error if the numbers of leaves differ, or if `self` is not flat.
    pub fn unflatten<U: Leaf>(&self, profile: &Tuple<U>) -> Result<Self, Error> {
        if self.depth() > 1 || self.leaves().len() != profile.leaves().len() {
            return Err(ErrorKind::Rank {
                operation: "unflatten",
                left: self.text(),
                right: profile.text(),
                needs: "a flat left operand with as many modes as the profile has leaves",
            }
            .into());
        }
        Ok(profile.with_leaves(self.leaves()))
    }

    /// Returns one more mode at the end; a single value first becomes a tuple of one mode.
    #[must_use]
    pub fn append(&self, mode: &Self) -> Self {
        Self::from_views(self.view().modes().chain([mode.view()]))
    }

    /// Returns one more mode at the front; a single value first becomes a tuple of one mode.
    #[must_use]
    pub fn prepend(&self, mode: &Self) -> Self {
        Self::from_views([mode.view()].into_iter().chain(self.view().modes()))
    }

    /// Appends copies of `mode` up to `rank` modes; unchanged when it has as many already.
    ///
    /// # Errors
    ///
    /// Returns an error if `self` has more than `rank` modes.
    pub fn append_to_rank(&self, rank: usize, mode: &Self) -> Result<Self, Error> {
        let missing = self.missing("append", rank)?;
        if missing == 0 {
            return Ok(self.clone());
        }
        Ok(Self::from_views(
            self.view()
                .modes()
                .chain(core::iter::repeat_n(mode.view(), missing)),
        ))
    }

    /// Prepends copies of `mode` up to `rank` modes; unchanged when it has as many already.
    ///
    /// # Errors
    ///
    /// Returns an error if `self` has more than `rank` modes.
    pub fn prepend_to_rank(&self, rank: usize, mode: &Self) -> Result<Self, Error> {
        let missing = self.missing("prepend", rank)?;
        if missing == 0 {
            return Ok(self.clone());
        }
        Ok(Self::from_views(
            core::iter::repeat_n(mode.view(), missing).chain(self.view().modes()),
        ))
    }

    fn missing(&self, operation: &'static str, rank: usize) -> Result<usize, Error> {
        rank.checked_sub(self.rank()).ok_or_else(|| {
            Error::operand(
                operation,
                self.text(),
                alloc::format!(
                    "it has {} modes, more than the {rank} asked for",
                    self.rank()
                ),
            )
        })
    }

    /// Returns the tuple with mode `i` replaced.
    ///
    /// # Errors
    ///
    /// Returns an error if `i` is beyond the rank.
    pub fn replace(&self, i: usize, mode: &Self) -> Result<Self, Error> {
        self.expect_view(i)?;
        if self.is_leaf() {
            return Ok(mode.clone());
        }
        Ok(Self::from_views(
            self.view()
                .modes()
                .enumerate()
                .map(|(j, m)| if i == j { mode.view() } else { m }),
        ))
    }

    /// Returns the tuple without mode `i`.
    ///
    /// # Errors
    ///
    /// Returns an error if `i` is beyond the rank.
    pub fn remove(&self, i: usize) -> Result<Self, Error> {
        self.expect_view(i)?;
        Ok(Self::from_views(
            self.view()
                .modes()
                .enumerate()
                .filter(|&(j, _)| i != j)
                .map(|(_, m)| m),
        ))
    }

    /// Returns the tuple with `mode` before mode `i`.
    ///
    /// # Errors
    ///
    /// Returns an error if `i` is beyond the rank by more than one.
    pub fn insert(&self, i: usize, mode: &Self) -> Result<Self, Error> {
        if i > self.rank() {
            return Err(self.no_mode(i));
        }
        let before = self.view().modes().take(i);
        Ok(Self::from_views(
            before
                .chain([mode.view()])
                .chain(self.view().modes().skip(i)),
        ))
    }

    /// Returns the value or tuple inside any number of one-mode parentheses: `((4))` becomes `4`.
    #[must_use]
    pub fn unwrap(&self) -> Self {
        let mut view = self.view();
        while !view.is_leaf() && view.rank() == 1 {
            view = view.modes().next().expect("a tuple of rank 1 has a mode 0");
        }
        view.to_tuple()
    }

    /// Returns the tuple of a single value; a tuple stays itself.
    #[must_use]
    pub fn wrap(&self) -> Self {
        if self.is_leaf() {
            Self::from_views([self.view()])
        } else {
            self.clone()
        }
    }

    /// Exchanges the two outer levels: `((a,b),(x,y))` becomes `((a,x),(b,y))`.
    ///
    /// As in CuTe, a tuple whose first mode is a single value is wrapped once more, and a single value stays itself.
    ///
    /// # Errors
    ///
    /// Returns an error if the modes differ in rank, or some are tuples and some single values.
    pub fn zip(&self) -> Result<Self, Error> {
        self.zipped().ok_or_else(|| {
            ErrorKind::Rank {
                operation: "zip",
                left: self
                    .view()
                    .modes()
                    .next()
                    .map_or_else(Default::default, |m| m.to_tuple().text()),
                right: self.text(),
                needs: "modes that are tuples of one rank",
            }
            .into()
        })
    }

    /// [`Tuple::zip`]; `None` where the modes do not nest alike.
    fn zipped(&self) -> Option<Self> {
        let Some(first) = self.view().modes().next() else {
            return Some(self.clone());
        };
        if self.is_leaf() {
            return Some(self.clone());
        }
        if first.is_leaf() {
            return Some(Self::from_views([self.view()]));
        }
        let mut modes = self.view().modes();
        if modes.any(|m| m.is_leaf() || m.rank() != first.rank()) {
            return None;
        }
        let mut b = TupleBuilder::new();
        let outer = b.open();
        let mut rows: SmallVec<[_; 4]> = self.view().modes().map(View::modes).collect();
        for _ in 0..first.rank() {
            let column = b.open();
            rows.iter_mut()
                .filter_map(Iterator::next)
                .for_each(|m| b.push(m));
            b.close(column, self.rank());
        }
        b.close(outer, first.rank());
        Some(b.finish())
    }

    /// Regroups two tuples mode by mode: `((a0,b0),(a1,b1),..)`.
    ///
    /// # Errors
    ///
    /// Returns an error if the ranks differ, or one is a single value and the other a tuple.
    pub fn zip_with(&self, other: &Self) -> Result<Self, Error> {
        self.zip_as(other, "zip_with", [self, other])
    }

    /// [`Tuple::zip_with`], for an operation of the operands `left` and `right`, which the error names.
    pub(crate) fn zip_as(
        &self,
        other: &Self,
        operation: &'static str,
        [left, right]: [&Self; 2],
    ) -> Result<Self, Error> {
        Self::concat([self, other]).zipped().ok_or_else(|| {
            ErrorKind::Rank {
                operation,
                left: left.text(),
                right: right.text(),
                needs: "two single modes or two tuples of one rank",
            }
            .into()
        })
    }
}
