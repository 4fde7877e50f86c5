//! Division: a layout cut into tiles and the rest.

use smallvec::SmallVec;

use crate::layout::coalesce::{Tail, coalesced};
use crate::layout::{LayoutView, LeafMode};
use crate::tuple::int_tuple::rank_error;
use crate::tuple::{Tuple, TupleBuilder};
use crate::{Error, Int, IntTuple, IntoTiler, Layout, Tiler, TilerRef};

impl Layout {
    /// Cuts `self` by `tiler`, rounding up: mode 0 walks one tile, mode 1 goes from tile to tile. Where tiles do not
    /// divide `self`, the result has more coordinates than `self`; [`Layout::logical_divide_exact`] refuses that.
    ///
    /// `A / T = A o (T, complement(T, |A|))`. With a tuple tiler each mode is cut by its own tiler; `_` and missing
    /// modes stay whole. The rounding is CuTe's: `10:1` by 3 is `(3,4):(1,3)`, with the offsets 0 to 11, and the last
    /// two lie beyond `10:1`. A kernel then needs a predicate. [`Layout::is_divided_by`] tells whether tiles fit.
    ///
    /// Laws `divide_at` (the composition above, at every index) and `divide_rank` (rank 2 by a layout).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::complement`] of the tiler and of [`Layout::composition`], and an error if the
    /// tiler has more modes than `self`.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let a: Layout = "(4,2,3):(2,1,8)".parse()?;
    /// assert_eq!(a.logical_divide("4:2")?.to_string(), "((2,2),(2,3)):((4,1),(2,8))");
    /// let ten: Layout = "10:1".parse()?;
    /// assert_eq!(ten.logical_divide(3)?.size(), 12);
    /// assert!(ten.logical_divide_exact(3).is_err());
    /// let b: Layout = "(9,(4,8)):(59,(13,1))".parse()?;
    /// assert_eq!(
    ///     b.logical_divide("(3:3,(2,4):(1,8))")?.to_string(),
    ///     "((3,3),((2,4),(2,2))):((177,59),((13,2),(26,1)))",
    /// );
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    ///
    /// Source: `logical_divide` in `cute/layout.hpp`; `Cecka 2026`.
    pub fn logical_divide(&self, tiler: impl IntoTiler) -> Result<Self, Error> {
        tiler.with_tiler(|tiler| self.logical_divide_by(tiler))
    }

    fn logical_divide_by(&self, tiler: TilerRef<'_>) -> Result<Self, Error> {
        match tiler {
            TilerRef::All => Ok(self.clone()),
            TilerRef::Int(n) => self.divide_by(&unit_layout(n)?),
            TilerRef::Layout(t) => self.divide_by(t),
            TilerRef::Modes(modes) => {
                self.check_tiler_rank("logical_divide", tiler, modes.len())?;
                self.mode_by_mode(modes, Self::logical_divide_by)
            }
        }
    }

    fn divide_by(&self, tile: &Self) -> Result<Self, Error> {
        let rest = tile.complement_in(&self.coalesced_shape(), &mut |_| ())?;
        self.composition(&Self::concat([tile, &rest])?)
    }

    /// The shape of the coalesced layout.
    fn coalesced_shape(&self) -> IntTuple {
        let flat = coalesced(self.leaves(), Tail::Drop);
        match flat[..] {
            [leaf] => IntTuple::leaf(leaf.extent),
            _ => IntTuple::flat(flat.iter().map(|l| l.extent)),
        }
    }

    /// Applies `op` mode by mode; modes beyond the tiler stay.
    pub(crate) fn mode_by_mode(
        &self,
        tilers: &[Tiler],
        op: impl Fn(&Self, TilerRef<'_>) -> Result<Self, Error>,
    ) -> Result<Self, Error> {
        let mut b = TupleBuilder::new();
        let open = b.open();
        for (i, mode) in self.view().modes().enumerate() {
            match tilers.get(i) {
                Some(t) => b.push(op(&Self(mode.to_tuple()), t.by_ref())?.view()),
                None => b.push(mode),
            }
        }
        b.close(open, self.rank());
        Self::checked(b.finish())
    }

    /// Returns [`Layout::logical_divide`], which rounds up, with the tiles gathered in mode 0 and the rests in mode 1:
    /// `((T0,T1,..),(r0,r1,..,x,y))`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::logical_divide`], and an error if a part of the tiler is `_`.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let b: Layout = "(9,(4,8)):(59,(13,1))".parse()?;
    /// assert_eq!(b.zipped_divide((3, 8))?.to_string(), "((3,(4,2)),(3,4)):((59,(13,1)),(177,2))");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn zipped_divide(&self, tiler: impl IntoTiler) -> Result<Self, Error> {
        tiler.with_tiler(|tiler| self.zipped_divide_by(tiler))
    }

    fn zipped_divide_by(&self, tiler: TilerRef<'_>) -> Result<Self, Error> {
        self.check_no_all("zipped_divide", tiler)?;
        self.logical_divide_by(tiler)?.tile_unzip_by(tiler)
    }

    /// Returns [`Layout::zipped_divide`], which rounds up, with the rests unpacked: `((T0,T1,..),r0,r1,..)`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::zipped_divide`].
    pub fn tiled_divide(&self, tiler: impl IntoTiler) -> Result<Self, Error> {
        tiler.with_tiler(|tiler| self.tiled_divide_by(tiler))
    }

    fn tiled_divide_by(&self, tiler: TilerRef<'_>) -> Result<Self, Error> {
        Ok(self.zipped_divide_by(tiler)?.unpack(Unpack::Rest))
    }

    /// Returns [`Layout::zipped_divide`], which rounds up, with tiles and rests unpacked: `(T0,T1,..,r0,r1,..)`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::zipped_divide`].
    pub fn flat_divide(&self, tiler: impl IntoTiler) -> Result<Self, Error> {
        tiler.with_tiler(|tiler| self.flat_divide_by(tiler))
    }

    fn flat_divide_by(&self, tiler: TilerRef<'_>) -> Result<Self, Error> {
        Ok(self.zipped_divide_by(tiler)?.unpack(Unpack::Both))
    }

    /// Returns [`Layout::logical_divide`] by tiles that divide: an error where they would cover more than `self`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::logical_divide`], and an error if the result is larger than `self`.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let ten: Layout = "10:1".parse()?;
    /// assert_eq!(ten.logical_divide(3)?.size(), 12);
    /// assert_eq!(
    ///     ten.logical_divide_exact(3).unwrap_err().to_string(),
    ///     "logical_divide_exact of 10:1: tiles of 3 make 12 places for 10 coordinates",
    /// );
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn logical_divide_exact(&self, tiler: impl IntoTiler) -> Result<Self, Error> {
        tiler.with_tiler(|tiler| self.logical_divide_exact_by(tiler))
    }

    fn logical_divide_exact_by(&self, tiler: TilerRef<'_>) -> Result<Self, Error> {
        let result = self.logical_divide_by(tiler)?;
        if self.is_cut_once(tiler)? {
            return Ok(result);
        }
        let why = if result.size() == self.size() {
            alloc::format!(
                "the tiler {tiler} leaves some coordinates out and reaches beyond others"
            )
        } else {
            let (covered, size) = (result.size(), self.size());
            alloc::format!("tiles of {tiler} make {covered} places for {size} coordinates")
        };
        Err(Error::operand("logical_divide_exact", self.text(), why))
    }

    /// Returns whether the tiles of `tiler` cover each coordinate once, without padding.
    ///
    /// Law `divide_exact`: tile and rest together visit each index below the size once.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::logical_divide`].
    #[doc(alias = "is_exact")]
    pub fn is_divided_by(&self, tiler: impl IntoTiler) -> Result<bool, Error> {
        tiler.with_tiler(|tiler| {
            self.logical_divide_by(tiler)?;
            self.is_cut_once(tiler)
        })
    }

    fn is_cut_once(&self, tiler: TilerRef<'_>) -> Result<bool, Error> {
        let TilerRef::Modes(tilers) = tiler else {
            return self.coalesced_shape().evenly_divides_by(tiler);
        };
        let mut all = (self.modes().zip(tilers)).map(|(l, t)| l.is_cut_once(t.by_ref()));
        all.try_fold(true, |so_far, one| Ok(so_far && one?))
    }

    /// Gathers the rank-2 modes that stand at the leaves of `tiler`: first halves in mode 0, second halves in mode 1.
    ///
    /// # Errors
    ///
    /// Returns an error if a mode at a leaf of the tiler does not have rank 2.
    pub fn tile_unzip(&self, tiler: impl IntoTiler) -> Result<Self, Error> {
        tiler.with_tiler(|tiler| self.tile_unzip_by(tiler))
    }

    pub(crate) fn tile_unzip_by(&self, tiler: TilerRef<'_>) -> Result<Self, Error> {
        let mismatch = || {
            rank_error(
                "tile_unzip",
                self,
                &tiler,
                "modes of rank 2 at the leaves of the tiler",
            )
        };
        let [tiles, rests] = unzip(self.view(), tiler, &mismatch)?;
        Ok(Self(Tuple::concat([&tiles, &rests])))
    }

    /// `_` leaves no second half to gather.
    pub(crate) fn check_no_all(
        &self,
        operation: &'static str,
        tiler: TilerRef<'_>,
    ) -> Result<(), Error> {
        fn has_all(tiler: TilerRef<'_>) -> bool {
            match tiler {
                TilerRef::All => true,
                TilerRef::Modes(modes) => modes.iter().any(|mode| has_all(mode.by_ref())),
                TilerRef::Int(_) | TilerRef::Layout(_) => false,
            }
        }
        if has_all(tiler) {
            Err(rank_error(
                operation,
                self,
                &tiler,
                "a tiler without _, which leaves no rest to gather",
            ))
        } else {
            Ok(())
        }
    }

    pub(crate) fn unpack(&self, what: Unpack) -> Self {
        let mut b = TupleBuilder::new();
        let open = b.open();
        let mut rank = 0;
        for (i, mode) in self.view().modes().enumerate() {
            // A mode of rank 1 stays as it is, `(3)` as well as `3`.
            if mode.rank() == 1 || (i == 0 && what == Unpack::Rest) {
                b.push(mode);
                rank += 1;
            } else {
                mode.modes().for_each(|m| b.push(m));
                rank += mode.rank();
            }
        }
        b.close(open, rank);
        Self(b.finish())
    }
}

/// Which of the two gathered modes are unpacked.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Unpack {
    Rest,
    Both,
}

/// The layout of an integer tiler: `n:1`, and `1:0` for 1.
pub(crate) fn unit_layout(n: Int) -> Result<Layout, Error> {
    Layout::column_major(IntTuple::leaf(n))
}

fn unzip(
    layout: LayoutView<'_>,
    tiler: TilerRef<'_>,
    mismatch: &impl Fn() -> Error,
) -> Result<[Tuple<LeafMode>; 2], Error> {
    let TilerRef::Modes(tilers) = tiler else {
        let mut modes = layout.modes();
        return match (modes.next(), modes.next(), modes.next()) {
            (Some(tile), Some(rest), None) => Ok([tile.to_tuple(), rest.to_tuple()]),
            _ => Err(mismatch()),
        };
    };
    let mut tiles: SmallVec<[_; 4]> = SmallVec::new();
    let mut rests: SmallVec<[_; 4]> = SmallVec::new();
    for (i, mode) in layout.modes().enumerate() {
        match tilers.get(i) {
            Some(t) => {
                let [tile, rest] = unzip(mode, t.by_ref(), mismatch)?;
                tiles.push(tile);
                rests.push(rest);
            }
            None => rests.push(mode.to_tuple()),
        }
    }
    Ok([Tuple::concat(&tiles), Tuple::concat(&rests)])
}

impl IntTuple {
    /// Returns how many tiles of `tiler` cover this shape, mode by mode: the rest mode of a divide, as for a grid of
    /// blocks.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::complement`], and an error if the tiler has more modes.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::IntTuple;
    /// let problem: IntTuple = "(1000,512,64)".parse()?;
    /// assert_eq!(format!("{:#}", problem.tiles((128, 256))?), "(8,2,64)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[doc(alias = "ceil_div")]
    pub fn tiles(&self, tiler: impl IntoTiler) -> Result<Self, Error> {
        tiler.with_tiler(|tiler| self.tiles_by(tiler))
    }

    fn tiles_by(&self, tiler: TilerRef<'_>) -> Result<Self, Error> {
        match tiler {
            TilerRef::All => Ok(Self::leaf(Int::Static(1))),
            TilerRef::Int(n) => self.ceil_div(Self::leaf(n)),
            TilerRef::Layout(t) => Ok(t.complement(self)?.shape()),
            TilerRef::Modes(tilers) if tilers.len() <= self.rank() => {
                let each = self
                    .modes()
                    .enumerate()
                    .map(|(i, mode)| match tilers.get(i) {
                        Some(t) => mode.tiles_by(t.by_ref()),
                        None => Ok(mode),
                    });
                Ok(Self::concat(
                    &each.collect::<Result<SmallVec<[_; 4]>, _>>()?,
                ))
            }
            TilerRef::Modes(_) => Err(rank_error(
                "tiles",
                self,
                &tiler,
                "a tiler of at most the shape's rank",
            )),
        }
    }

    /// Returns whether `tiler` divides every mode without padding (CuTe's `evenly_divides`).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::complement`] for layouts in the tiler.
    pub fn evenly_divides(&self, tiler: impl IntoTiler) -> Result<bool, Error> {
        tiler.with_tiler(|tiler| self.evenly_divides_by(tiler))
    }

    fn evenly_divides_by(&self, tiler: TilerRef<'_>) -> Result<bool, Error> {
        match tiler {
            TilerRef::All => Ok(true),
            TilerRef::Modes(modes) if modes.len() > self.rank() => Ok(false),
            TilerRef::Modes(modes) => {
                let all = self.modes().zip(modes);
                let mut all = all.map(|(s, t)| s.evenly_divides_by(t.by_ref()));
                all.try_fold(true, |so_far, one| Ok(so_far && one?))
            }
            TilerRef::Int(n) => self.tiles_exactly(&unit_layout(n)?),
            TilerRef::Layout(t) => self.tiles_exactly(t),
        }
    }

    fn tiles_exactly(&self, tile: &Layout) -> Result<bool, Error> {
        let all = Layout::concat([tile, &tile.complement(self)?])?;
        Ok(all.size() == self.product()?.value() && all.is_bijective())
    }
}
