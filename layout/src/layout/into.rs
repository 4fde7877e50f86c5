//! Rust values as layouts and tilers, and what composes with what.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::RangeFull;

use crate::{C, Error, Int, IntTuple, IntoIntTuple, IntoStride, Layout, Slot, Tiler};

/// A value that reads as a layout.
///
/// | value | layout |
/// |---|---|
/// | [`Layout`], `&Layout` | itself |
/// | a pair `(shape, stride)` of an [`IntoIntTuple`] and an [`IntoStride`] | [`Layout::new(shape, stride)`](Layout::new) |
/// | `&str`, `String` | what the text says, `"(4,3):(3,1)"` |
/// | [`ComposedLayout`](crate::ComposedLayout), `&ComposedLayout` | [`ComposedLayout::to_layout`](crate::ComposedLayout::to_layout) |
///
/// A function that takes an [`IntoTiler`] reads a pair as two tilers, one per mode.
///
/// # Example
///
/// ```
/// use colex_layout::{IntoLayout, Layout};
/// fn size_of(layout: impl IntoLayout) -> Result<i64, colex_layout::Error> {
///     Ok(layout.into_layout()?.size())
/// }
/// let rows = Layout::new((4, 3), (3, 1))?;
/// assert_eq!([size_of(&rows)?, size_of(((4, 3), (3, 1)))?, size_of("(4,3):(3,1)")?], [12; 3]);
/// assert_eq!(size_of("(4,3):3").unwrap_err().to_string(), "the shape (4,3) and the stride 3 nest differently");
/// # Ok::<(), colex_layout::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a layout",
    label = "not a layout",
    note = "a layout is a `Layout`, a pair `(shape, stride)` of nested Rust tuples, or a text in CuTe's notation"
)]
pub trait IntoLayout: Sized {
    /// Returns the layout.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::new`] and of [`ComposedLayout::to_layout`](crate::ComposedLayout::to_layout),
    /// and an error for a text that is no layout.
    fn into_layout(self) -> Result<Layout, Error>;

    /// Calls `f` with the layout, which is not copied where `self` refers to one.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`IntoLayout::into_layout`], and those of `f`.
    #[doc(hidden)]
    #[inline]
    fn with_layout<R>(self, f: impl FnOnce(&Layout) -> Result<R, Error>) -> Result<R, Error> {
        f(&self.into_layout()?)
    }
}

/// A value that reads as a tiler: the right-hand operand of composition, divides and products.
///
/// | value | tiler |
/// |---|---|
/// | [`Tiler`], `&Tiler` | itself |
/// | [`Layout`], `&Layout` | the layout, on the whole left operand |
/// | an integer, [`C::<4>`](C), [`Int`] | `n:1`, on the whole left operand |
/// | a Rust tuple of up to 12 values, an array, a slice, a `Vec` | one tiler per mode |
/// | [`IntTuple`], `&IntTuple` | one integer per mode, nested as the shape is |
/// | `..`, [`Slot::All`] | the whole mode, CuTe's `_` |
/// | `&str`, `String` | what the text says, `"<3:3, (2,4):(1,8), _>"` |
///
/// # Example
///
/// ```
/// use colex_layout::{IntoTiler, Layout};
/// let every_third = Layout::new(3, 3)?;
/// assert_eq!((&every_third, "(2,4):(1,8)", 8, ..).into_tiler()?.to_string(), "(3:3,(2,4):(1,8),8,_)");
/// let a = Layout::new((16, 24), (24, 1))?;
/// assert_eq!(a.zipped_divide((4, 8))?, a.zipped_divide("(4,8)")?);
/// assert_eq!(
///     a.zipped_divide("(4,8").unwrap_err().to_string(),
///     "expected ',' or the closing parenthesis at byte 4 of \"(4,8\"",
/// );
/// # Ok::<(), colex_layout::Error>(())
/// ```
///
/// Source: `cute/layout.hpp` ("Tiler").
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tiler",
    label = "not a tiler",
    note = "a tiler is a `Tiler`, a layout, an integer, `..`, a Rust tuple, array or slice of those (one per mode), or a \
            text in CuTe's notation"
)]
pub trait IntoTiler: Sized {
    /// Returns the tiler.
    ///
    /// # Errors
    ///
    /// Returns an error for a text that is no tiler, or for an integer beyond 64 bits.
    fn into_tiler(self) -> Result<Tiler, Error>;

    /// Calls `f` with the tiler, which is not copied where `self` refers to one.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`IntoTiler::into_tiler`], and those of `f`.
    #[doc(hidden)]
    #[inline]
    fn with_tiler<R>(self, f: impl FnOnce(TilerRef<'_>) -> Result<R, Error>) -> Result<R, Error> {
        f(self.into_tiler()?.by_ref())
    }
}

/// A borrowed [`Tiler`].
#[doc(hidden)]
#[derive(Clone, Copy)]
pub enum TilerRef<'a> {
    /// The whole mode, `_`.
    All,
    /// The integer `n`: the layout `n:1`.
    Int(Int),
    /// A layout.
    Layout(&'a Layout),
    /// One tiler per mode.
    Modes(&'a [Tiler]),
}

impl Tiler {
    /// The same tiler, borrowed.
    #[inline]
    pub(crate) fn by_ref(&self) -> TilerRef<'_> {
        match self {
            Self::All => TilerRef::All,
            Self::Int(n) => TilerRef::Int(*n),
            Self::Layout(l) => TilerRef::Layout(l),
            Self::Modes(modes) => TilerRef::Modes(modes),
        }
    }
}

/// What can stand on the right of `outer.composition(..)`, and what the composition is.
///
/// | outer | on the right | the composition |
/// |---|---|---|
/// | [`Layout`] | an [`IntoTiler`]: a layout, or one tiler per mode | a [`Layout`] |
/// | [`Layout`] | [`Swizzle`](crate::Swizzle), [`ComposedLayout`](crate::ComposedLayout) | a [`ComposedLayout`](crate::ComposedLayout) |
/// | [`ComposedLayout`](crate::ComposedLayout) | an [`IntoTiler`] | a [`ComposedLayout`](crate::ComposedLayout) |
/// | [`Swizzle`](crate::Swizzle) | an [`IntoLayout`] | a [`ComposedLayout`](crate::ComposedLayout) |
/// | [`Swizzle`](crate::Swizzle) | [`Swizzle`](crate::Swizzle) | a [`Swizzle`](crate::Swizzle) |
///
/// # Example
///
/// ```
/// use colex_layout::{Layout, Swizzle};
/// let a = Layout::new((8, 8), (1, 16))?;
/// assert_eq!(a.composition((4, ..))?.to_string(), "(4,8):(1,16)");
/// assert_eq!(a.composition(Swizzle::new(3, 0, 3)?)?.to_string(), "Sw<3,0,4> o 0 o (8,8):(1,16)");
/// # Ok::<(), colex_layout::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not stand on the right of a composition with `{Outer}`",
    note = "a layout composes with a layout, a tiler (one per mode), a swizzle or a composed layout; a text is read as a \
            layout or tiler"
)]
pub trait Compose<Outer>: Sized {
    /// What the composition is.
    type Output;

    /// Returns `outer o self`.
    ///
    /// # Errors
    ///
    /// Those of the `composition` method of `outer`.
    fn compose(self, outer: &Outer) -> Result<Self::Output, Error>;
}

impl<V: IntoTiler> Compose<Layout> for V {
    type Output = Layout;

    #[inline]
    fn compose(self, outer: &Layout) -> Result<Layout, Error> {
        self.with_tiler(|tiler| outer.composition_by(tiler))
    }
}

impl IntoLayout for Layout {
    fn into_layout(self) -> Result<Layout, Error> {
        Ok(self)
    }
}

impl IntoLayout for &Layout {
    fn into_layout(self) -> Result<Layout, Error> {
        Ok(self.clone())
    }

    #[inline]
    fn with_layout<R>(self, f: impl FnOnce(&Layout) -> Result<R, Error>) -> Result<R, Error> {
        f(self)
    }
}

impl<S: IntoIntTuple, D: IntoStride> IntoLayout for (S, D) {
    fn into_layout(self) -> Result<Layout, Error> {
        Layout::new(self.0, self.1)
    }
}

impl IntoTiler for Tiler {
    fn into_tiler(self) -> Result<Tiler, Error> {
        Ok(self)
    }
}

impl IntoTiler for &Tiler {
    fn into_tiler(self) -> Result<Tiler, Error> {
        Ok(self.clone())
    }

    #[inline]
    fn with_tiler<R>(self, f: impl FnOnce(TilerRef<'_>) -> Result<R, Error>) -> Result<R, Error> {
        f(self.by_ref())
    }
}

impl IntoTiler for Layout {
    fn into_tiler(self) -> Result<Tiler, Error> {
        Ok(self.into())
    }

    #[inline]
    fn with_tiler<R>(self, f: impl FnOnce(TilerRef<'_>) -> Result<R, Error>) -> Result<R, Error> {
        f(TilerRef::Layout(&self))
    }
}

impl IntoTiler for &Layout {
    fn into_tiler(self) -> Result<Tiler, Error> {
        Ok(self.into())
    }

    #[inline]
    fn with_tiler<R>(self, f: impl FnOnce(TilerRef<'_>) -> Result<R, Error>) -> Result<R, Error> {
        f(TilerRef::Layout(self))
    }
}

impl IntoTiler for IntTuple {
    fn into_tiler(self) -> Result<Tiler, Error> {
        Tiler::try_from(&self)
    }
}

impl IntoTiler for &IntTuple {
    fn into_tiler(self) -> Result<Tiler, Error> {
        self.try_into()
    }
}

impl IntoTiler for RangeFull {
    fn into_tiler(self) -> Result<Tiler, Error> {
        Ok(Tiler::All)
    }
}

impl IntoTiler for Slot {
    fn into_tiler(self) -> Result<Tiler, Error> {
        Ok(match self {
            Self::All => Tiler::All,
            Self::At(n) => Tiler::Int(n.into()),
        })
    }
}

impl<const N: i64> IntoTiler for C<N> {
    fn into_tiler(self) -> Result<Tiler, Error> {
        Ok(Tiler::Int(self.into()))
    }
}

macro_rules! integers {
    ($($int:ty)*) => {$(
        impl IntoTiler for $int {
            fn into_tiler(self) -> Result<Tiler, Error> {
                (&self.into_int_tuple()?).try_into()
            }
        }
    )*};
}

integers! {
    i8 i16 i32 i64 isize i128 u8 u16 u32 u64 usize u128 Int
    &i8 &i16 &i32 &i64 &isize &i128 &u8 &u16 &u32 &u64 &usize &u128 &Int
}

/// Texts that deref to `&str`.
macro_rules! texts {
    ($($text:ty)*) => {$(
        impl IntoLayout for $text {
            fn into_layout(self) -> Result<Layout, Error> {
                self.parse()
            }
        }

        impl IntoTiler for $text {
            fn into_tiler(self) -> Result<Tiler, Error> {
                self.parse()
            }
        }
    )*};
}

texts! { &str &&str String &String Box<str> }

/// The tiler of one tiler per mode.
fn modes<V: IntoTiler>(modes: impl IntoIterator<Item = V>) -> Result<Tiler, Error> {
    let modes = modes.into_iter().map(IntoTiler::into_tiler);
    Ok(Tiler::Modes(modes.collect::<Result<_, _>>()?))
}

impl<V: IntoTiler, const N: usize> IntoTiler for [V; N] {
    fn into_tiler(self) -> Result<Tiler, Error> {
        modes(self)
    }
}

impl<V: IntoTiler> IntoTiler for Vec<V> {
    fn into_tiler(self) -> Result<Tiler, Error> {
        modes(self)
    }
}

impl<V: IntoTiler + Clone> IntoTiler for &[V] {
    fn into_tiler(self) -> Result<Tiler, Error> {
        modes(self.iter().cloned())
    }
}

impl<V: IntoTiler + Clone> IntoTiler for &Vec<V> {
    fn into_tiler(self) -> Result<Tiler, Error> {
        modes(self.iter().cloned())
    }
}

impl<V: IntoTiler + Clone, const N: usize> IntoTiler for &[V; N] {
    fn into_tiler(self) -> Result<Tiler, Error> {
        modes(self.iter().cloned())
    }
}

macro_rules! tuples {
    ($(($($V:ident)*))*) => {$(
        impl<$($V: IntoTiler),*> IntoTiler for ($($V,)*) {
            #[allow(non_snake_case, reason = "the type parameters name the values as well")]
            fn into_tiler(self) -> Result<Tiler, Error> {
                let ($($V,)*) = self;
                Ok(Tiler::Modes(alloc::vec![$($V.into_tiler()?),*]))
            }
        }
    )*};
}

tuples! {
    () (A) (A B) (A B D) (A B D F) (A B D F G) (A B D F G H) (A B D F G H I) (A B D F G H I J)
    (A B D F G H I J K) (A B D F G H I J K L) (A B D F G H I J K L M) (A B D F G H I J K L M N)
}
