//! Coordinates, tiles and slices as a kernel writes them: tuples of numbers and of references to [`Index`].

use std::ops::RangeFull;

use colex_layout::{Coord, IntoIntTuple, Slot};

use crate::error::ErrorKind;
use crate::index::Index;

/// Coordinates of a tile or of an element, one number for each mode: a tuple, an array or a slice of [`Index`], `&Index` and
/// integers, or one of them alone.
///
/// ```
/// use colex_atom::{Arch, Ty};
/// use colex_tensor::Builder;
///
/// let mut k = Builder::new("k", Arch::Sm80, 128);
/// let a = k.tensor("a", Ty::F16, "(1000,512):(512,_1)");
/// let m = k.block_index(0);
/// let tile = a.local_tile((128, 32), (&m, 3));
/// assert_eq!(tile.coordinates(0), [&m * 128, 96.into()]);
/// ```
pub trait IntoIndices {
    /// Returns the numbers, mode by mode.
    fn into_indices(self) -> Vec<Index>;
}

macro_rules! alone {
    ($($ty:ty),*) => {$(
        impl IntoIndices for $ty {
            fn into_indices(self) -> Vec<Index> {
                vec![self.into()]
            }
        }
    )*};
}
alone!(Index, &Index, i64, i32);

impl IntoIndices for &[Index] {
    fn into_indices(self) -> Vec<Index> {
        self.to_vec()
    }
}

impl IntoIndices for Vec<Index> {
    fn into_indices(self) -> Vec<Index> {
        self
    }
}

impl IntoIndices for &Vec<Index> {
    fn into_indices(self) -> Vec<Index> {
        self.clone()
    }
}

impl<T: Into<Index>, const N: usize> IntoIndices for [T; N] {
    fn into_indices(self) -> Vec<Index> {
        self.into_iter().map(Into::into).collect()
    }
}

impl<const N: usize> IntoIndices for &[Index; N] {
    fn into_indices(self) -> Vec<Index> {
        self.to_vec()
    }
}

/// The extents of a tile, mode by mode.
pub(crate) fn extents(
    operation: &'static str,
    tile: impl IntoIntTuple,
) -> Result<Vec<i64>, ErrorKind> {
    let tile = tile.into_int_tuple()?;
    if tile.depth() > 1 {
        let why = format!("the tile {tile} has nested modes, and takes one extent for each mode");
        return Err(ErrorKind::operands(operation, why));
    }
    Ok(tile.leaves().iter().map(|extent| extent.value()).collect())
}

/// One mode of a slice's coordinate.
#[derive(Clone, Debug)]
pub enum SliceMode {
    /// Keeps the mode: `..`, CuTe's `_`.
    All,
    /// Fixes the mode at a coordinate.
    At(Index),
}

impl From<RangeFull> for SliceMode {
    fn from(_: RangeFull) -> Self {
        SliceMode::All
    }
}

macro_rules! place {
    ($($ty:ty),*) => {$(
        impl From<$ty> for SliceMode {
            fn from(place: $ty) -> Self {
                SliceMode::At(place.into())
            }
        }
    )*};
}
place!(Index, &Index, i64, i32);

/// The coordinate of a slice: a tuple of `..` and places, mode by mode, or a [`Coord`] whose modes are nested.
///
/// ```
/// use colex_atom::{Arch, Ty};
/// use colex_layout::Layout;
/// use colex_tensor::Builder;
///
/// let mut k = Builder::new("k", Arch::Sm80, 128);
/// let stages = k.shared_tensor(Ty::F16, "(64,32,3):(32,1,2048)");
/// let stage = k.var(0, 0..3);
/// let stage = k.get(&stage);
/// assert_eq!(stages.slice((.., .., &stage)).layout().to_string(), "(_64,_32):(_32,_1)");
/// ```
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "it lives for one call")]
pub enum SliceCoord {
    /// Each mode is kept or fixed.
    Modes(Vec<SliceMode>),
    /// Constants in nested modes.
    Nested(Coord),
}

impl From<Coord> for SliceCoord {
    fn from(coord: Coord) -> Self {
        SliceCoord::Nested(coord)
    }
}

macro_rules! tuples {
    ($($($name:ident)*;)*) => {$(
        impl<$($name: Into<Index>),*> IntoIndices for ($($name,)*) {
            #[allow(non_snake_case, reason = "the fields have the names of their types")]
            fn into_indices(self) -> Vec<Index> {
                let ($($name,)*) = self;
                vec![$($name.into()),*]
            }
        }

        impl<$($name: Into<SliceMode>),*> From<($($name,)*)> for SliceCoord {
            #[allow(non_snake_case, reason = "the fields have the names of their types")]
            fn from(coord: ($($name,)*)) -> Self {
                let ($($name,)*) = coord;
                SliceCoord::Modes(vec![$($name.into()),*])
            }
        }
    )*};
}
tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
}

impl SliceCoord {
    /// Returns the coordinate with constants in the place of what only the kernel knows, and those places by mode.
    pub(crate) fn split(self) -> (Coord, Vec<(usize, Index)>) {
        let modes = match self {
            SliceCoord::Nested(coord) => return (coord, Vec::new()),
            SliceCoord::Modes(modes) => modes,
        };
        let mut places = Vec::new();
        let mut slot = |(mode, of): (usize, SliceMode)| match of {
            SliceMode::All => Coord::from(Slot::All),
            SliceMode::At(place) => {
                places.push((mode, place));
                Coord::from(0)
            }
        };
        let slots: Vec<Coord> = modes.into_iter().enumerate().map(&mut slot).collect();
        (joined(&slots), places)
    }
    /// Returns the coordinate of constants that it is.
    pub(crate) fn constant(self, operation: &'static str) -> Result<Coord, ErrorKind> {
        let modes = match self {
            SliceCoord::Nested(coord) => return Ok(coord),
            SliceCoord::Modes(modes) => modes,
        };
        let slot = |mode: &SliceMode| {
            match mode {
            SliceMode::All => Ok(Coord::from(Slot::All)),
            SliceMode::At(place) => place.as_constant().map(Coord::from).ok_or_else(|| {
                let why = format!(
                    "the place {place} is known when the kernel runs, and registers have no addresses: take a constant"
                );
                ErrorKind::operands(operation, why)
            }),
        }
        };
        let slots: Vec<Coord> = modes.iter().map(slot).collect::<Result<_, _>>()?;
        Ok(joined(&slots))
    }
}

fn joined(slots: &[Coord]) -> Coord {
    match slots {
        [one] => one.clone(),
        _ => Coord::concat(slots),
    }
}
