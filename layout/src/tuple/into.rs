//! Rust values as tuples: integers, nested Rust tuples, arrays, slices, vectors and texts.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::str::FromStr;

use crate::error::ErrorKind;
use crate::tuple::{Tuple, TupleBuilder};
use crate::{Basis, C, E, Error, Int, IntTuple, Slot, Stride};

/// A value that converts to a tuple with leaves of type `T`.
///
/// | value | tuple |
/// |---|---|
/// | an integer of any Rust type, or a reference to one | a dynamic leaf, `4` |
/// | [`C::<4>`](C), [`Int::Static(4)`](Int) | a static leaf, `_4` |
/// | a Rust tuple of up to 12 values, an array, a slice, a `Vec` | their tuple, `(4,(2,3))`; values nest freely |
/// | [`IntTuple`], [`Coord`](crate::Coord), `Tuple<Stride>`, or a reference to one | itself |
/// | `&str`, `String` | the tuple that the string denotes in CuTe's notation |
/// | [`E::<0>`](E), [`Basis`], [`Stride`] (strides only) | a leaf |
/// | `..`, [`Slot`] (coordinates of slices only) | a leaf; `..` is CuTe's `_` |
///
/// Functions name the tuple that they take: [`IntoIntTuple`] for shapes, orders and coordinates, [`IntoStride`] and
/// [`IntoCoord`](crate::IntoCoord).
/// A type of another crate that stands for an integer implements this trait for its own leaves and is then taken inside
/// Rust tuples too.
///
/// Source: `cute/int_tuple.hpp`, where `std::tuple`s and integers of any type nest.
///
/// # Example
///
/// ```
/// use colex_layout::{C, IntTuple, IntoTuple};
/// let rows: u32 = 7;
/// let shape: IntTuple = (rows, (C::<2>, [3_usize, 4])).into_tuple()?;
/// assert_eq!(shape.to_string(), "(7,(_2,(3,4)))");
/// # Ok::<(), colex_layout::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tuple of `{T}`",
    label = "not a tuple of `{T}`",
    note = "tuples are made of integers, `C::<4>`, nested Rust tuples, arrays, slices, `Vec`s and texts; a stride may hold \
            `E::<0>`, and the coordinate of a slice `..`"
)]
pub trait IntoTuple<T>: Sized {
    /// Appends this value to `out` as one mode.
    ///
    /// # Errors
    ///
    /// Returns an error for an integer that does not fit in 64 bits, or for a string that does not parse as such a
    /// tuple.
    fn append_to(self, out: &mut TupleBuilder<T>) -> Result<(), Error>;

    /// Returns the tuple.
    ///
    /// # Errors
    ///
    /// Returns an error for an integer beyond 64 bits, or for a text that is not such a tuple.
    fn into_tuple(self) -> Result<Tuple<T>, Error>
    where
        T: Copy,
    {
        let mut out = TupleBuilder::new();
        self.append_to(&mut out)?;
        Ok(out.into())
    }

    /// Returns the integer if the value is a single one, without building a tuple: the index of a coordinate.
    #[doc(hidden)]
    fn as_index(&self) -> Option<i64> {
        None
    }
}

/// A tuple of integers: a shape, an integer stride, an order, or a coordinate without `_`.
///
/// Every [`IntoTuple<Int>`](IntoTuple) is one; its documentation lists them.
///
/// # Example
///
/// ```
/// use colex_layout::{IntoIntTuple, Layout};
/// assert_eq!((2, [3, 4]).into_int_tuple()?.to_string(), "(2,(3,4))");
/// let rows = Layout::row_major((2, [3, 4]))?;
/// assert_eq!(rows.at((1, (2, 3)))?, 23);
/// assert_eq!(rows.at("(1,(2,3))")?, 23);
/// # Ok::<(), colex_layout::Error>(())
/// ```
pub trait IntoIntTuple: IntoTuple<Int> {
    /// Returns the tuple of integers.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`IntoTuple::into_tuple`].
    fn into_int_tuple(self) -> Result<IntTuple, Error> {
        self.into_tuple()
    }
}

impl<V: IntoTuple<Int>> IntoIntTuple for V {}

/// A tuple of strides: integers, basis vectors ([`E`], [`Basis`]) or XOR bit-vectors ([`Stride::xor`]).
///
/// Every [`IntoTuple<Stride>`](IntoTuple) is one; its documentation lists them.
///
/// # Example
///
/// ```
/// use colex_layout::{E, IntoStride, Layout, Stride};
/// assert_eq!((E::<0>, 2 * E::<1>).into_stride()?.to_string(), "(_1@0,2@1)");
/// let swizzled = Layout::new((8, 8), (Stride::xor(1), Stride::xor(9)))?;
/// assert_eq!(swizzled.to_string(), "(8,8):(^1,^9)");
/// # Ok::<(), colex_layout::Error>(())
/// ```
pub trait IntoStride: IntoTuple<Stride> {
    /// Returns the tuple of strides.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`IntoTuple::into_tuple`].
    fn into_stride(self) -> Result<Tuple<Stride>, Error> {
        self.into_tuple()
    }
}

impl<V: IntoTuple<Stride>> IntoStride for V {}

/// Integers that always fit.
macro_rules! integers {
    ($($int:ty)*) => {$(
        impl<T: From<Int>> IntoTuple<T> for $int {
            #[inline]
            fn append_to(self, out: &mut TupleBuilder<T>) -> Result<(), Error> {
                out.leaf(Int::Dynamic(self.into()).into());
                Ok(())
            }

            #[inline]
            fn into_tuple(self) -> Result<Tuple<T>, Error>
            where
                T: Copy,
            {
                Ok(Tuple::leaf(Int::Dynamic(self.into()).into()))
            }

            #[inline]
            fn as_index(&self) -> Option<i64> {
                Some((*self).into())
            }
        }
    )*};
}

/// Integers that may be beyond 64 bits.
macro_rules! wide_integers {
    ($($int:ty)*) => {$(
        impl<T: From<Int>> IntoTuple<T> for $int {
            #[inline]
            fn append_to(self, out: &mut TupleBuilder<T>) -> Result<(), Error> {
                match i64::try_from(self) {
                    Ok(n) => out.leaf(Int::Dynamic(n).into()),
                    Err(_) => return Err(beyond(&self)),
                }
                Ok(())
            }

            #[inline]
            fn as_index(&self) -> Option<i64> {
                i64::try_from(*self).ok()
            }
        }
    )*};
}

#[cold]
fn beyond(n: &dyn ToString) -> Error {
    ErrorKind::Integer {
        value: n.to_string().into(),
    }
    .into()
}

/// References to values that are copied.
macro_rules! by_reference {
    ($($value:ty)*) => {$(
        impl<T> IntoTuple<T> for &$value
        where
            $value: IntoTuple<T>,
        {
            #[inline]
            fn append_to(self, out: &mut TupleBuilder<T>) -> Result<(), Error> {
                (*self).append_to(out)
            }

            #[inline]
            fn as_index(&self) -> Option<i64> {
                <$value as IntoTuple<T>>::as_index(*self)
            }
        }
    )*};
}

integers! { i8 i16 i32 i64 u8 u16 u32 }
wide_integers! { isize usize u64 i128 u128 }
by_reference! { i8 i16 i32 i64 u8 u16 u32 isize usize u64 i128 u128 Int Stride Basis Slot }

impl<T: From<Int>> IntoTuple<T> for Int {
    #[inline]
    fn append_to(self, out: &mut TupleBuilder<T>) -> Result<(), Error> {
        out.leaf(self.into());
        Ok(())
    }

    #[inline]
    fn into_tuple(self) -> Result<Tuple<T>, Error>
    where
        T: Copy,
    {
        Ok(Tuple::leaf(self.into()))
    }

    #[inline]
    fn as_index(&self) -> Option<i64> {
        Some(self.value())
    }
}

impl<T: From<Int>, const N: i64> IntoTuple<T> for C<N> {
    #[inline]
    fn append_to(self, out: &mut TupleBuilder<T>) -> Result<(), Error> {
        out.leaf(Int::Static(N).into());
        Ok(())
    }

    #[inline]
    fn as_index(&self) -> Option<i64> {
        Some(N)
    }
}

impl IntoTuple<Self> for Stride {
    #[inline]
    fn append_to(self, out: &mut TupleBuilder<Self>) -> Result<(), Error> {
        out.leaf(self);
        Ok(())
    }
}

impl IntoTuple<Stride> for Basis {
    #[inline]
    fn append_to(self, out: &mut TupleBuilder<Stride>) -> Result<(), Error> {
        out.leaf(self.into());
        Ok(())
    }
}

impl<const MODE: usize> IntoTuple<Stride> for E<MODE> {
    #[inline]
    fn append_to(self, out: &mut TupleBuilder<Stride>) -> Result<(), Error> {
        out.leaf(Basis::from(self).into());
        Ok(())
    }
}

impl<T: From<Int> + Copy> IntoTuple<T> for &Tuple<Int> {
    #[inline]
    fn append_to(self, out: &mut TupleBuilder<T>) -> Result<(), Error> {
        out.push_mapped(self.view(), T::from);
        Ok(())
    }

    #[inline]
    fn into_tuple(self) -> Result<Tuple<T>, Error> {
        Ok(self.map(T::from))
    }

    #[inline]
    fn as_index(&self) -> Option<i64> {
        self.as_leaf().map(Int::value)
    }
}

impl IntoTuple<Stride> for &Tuple<Stride> {
    #[inline]
    fn append_to(self, out: &mut TupleBuilder<Stride>) -> Result<(), Error> {
        out.push(self.view());
        Ok(())
    }

    #[inline]
    fn into_tuple(self) -> Result<Tuple<Stride>, Error> {
        Ok(self.clone())
    }
}

impl IntoTuple<Slot> for &Tuple<Slot> {
    #[inline]
    fn append_to(self, out: &mut TupleBuilder<Slot>) -> Result<(), Error> {
        out.push(self.view());
        Ok(())
    }

    #[inline]
    fn into_tuple(self) -> Result<Tuple<Slot>, Error> {
        Ok(self.clone())
    }
}

impl<T, L: Copy> IntoTuple<T> for Tuple<L>
where
    for<'a> &'a Self: IntoTuple<T>,
{
    #[inline]
    fn append_to(self, out: &mut TupleBuilder<T>) -> Result<(), Error> {
        (&self).append_to(out)
    }

    #[inline]
    fn into_tuple(self) -> Result<Tuple<T>, Error>
    where
        T: Copy,
    {
        (&self).into_tuple()
    }

    #[inline]
    fn as_index(&self) -> Option<i64> {
        IntoTuple::<T>::as_index(&self)
    }
}

impl<T: Copy> IntoTuple<T> for &str
where
    Tuple<T>: FromStr<Err = Error>,
{
    fn append_to(self, out: &mut TupleBuilder<T>) -> Result<(), Error> {
        out.push(self.into_tuple()?.view());
        Ok(())
    }

    fn into_tuple(self) -> Result<Tuple<T>, Error> {
        self.parse()
    }
}

/// Texts that deref to `&str`.
macro_rules! texts {
    ($($text:ty)*) => {$(
        impl<T: Copy> IntoTuple<T> for $text
        where
            Tuple<T>: FromStr<Err = Error>,
        {
            fn append_to(self, out: &mut TupleBuilder<T>) -> Result<(), Error> {
                let text: &str = &self;
                text.append_to(out)
            }
        }
    )*};
}

texts! { String &String Box<str> &&str }

impl<T, V: IntoTuple<T> + Clone> IntoTuple<T> for &[V] {
    fn append_to(self, out: &mut TupleBuilder<T>) -> Result<(), Error> {
        out.nested(|out| {
            self.iter()
                .cloned()
                .try_for_each(|mode| mode.append_to(out))
        })
    }
}

impl<T, V: IntoTuple<T> + Clone> IntoTuple<T> for &Vec<V> {
    fn append_to(self, out: &mut TupleBuilder<T>) -> Result<(), Error> {
        self.as_slice().append_to(out)
    }
}

impl<T, V: IntoTuple<T> + Clone, const N: usize> IntoTuple<T> for &[V; N] {
    fn append_to(self, out: &mut TupleBuilder<T>) -> Result<(), Error> {
        self.as_slice().append_to(out)
    }
}

impl<T, V: IntoTuple<T>> IntoTuple<T> for Vec<V> {
    fn append_to(self, out: &mut TupleBuilder<T>) -> Result<(), Error> {
        out.nested(|out| self.into_iter().try_for_each(|mode| mode.append_to(out)))
    }
}

impl<T, V: IntoTuple<T>, const N: usize> IntoTuple<T> for [V; N] {
    fn append_to(self, out: &mut TupleBuilder<T>) -> Result<(), Error> {
        out.nested(|out| self.into_iter().try_for_each(|mode| mode.append_to(out)))
    }
}

macro_rules! tuples {
    ($(($($V:ident)*))*) => {$(
        impl<T, $($V: IntoTuple<T>),*> IntoTuple<T> for ($($V,)*) {
            #[inline]
            #[allow(non_snake_case, reason = "the type parameters name the values as well")]
            fn append_to(self, out: &mut TupleBuilder<T>) -> Result<(), Error> {
                let ($($V,)*) = self;
                out.nested(|_out| {
                    $($V.append_to(_out)?;)*
                    Ok(())
                })
            }
        }
    )*};
}

tuples! {
    () (A) (A B) (A B D) (A B D F) (A B D F G) (A B D F G H) (A B D F G H I) (A B D F G H I J)
    (A B D F G H I J K) (A B D F G H I J K L) (A B D F G H I J K L M) (A B D F G H I J K L M N)
}
