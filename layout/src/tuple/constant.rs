//! Static integers and unit basis vectors as types: `C::<64>` and `E::<0>`.

use core::ops::Mul;

use crate::{Basis, Int, Stride};

/// The static integer `N`, which prints `_N`: CuTe's `C<64>` and `Int<64>`, written `C::<64>`.
///
/// [`Int::Static`] is the same for a number that Rust learns at run time.
///
/// # Example
///
/// ```
/// use colex_layout::{C, Layout};
/// let rows = 100; // known at launch
/// let tall = Layout::new((rows, C::<64>), (C::<64>, C::<1>))?;
/// assert_eq!(tall.to_string(), "(100,_64):(_64,_1)");
/// # Ok::<(), colex_layout::Error>(())
/// ```
///
/// Source: `cute/numeric/integral_constant.hpp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct C<const N: i64>;

/// The unit basis vector along mode `MODE` of a coordinate, which prints `_1@MODE`: CuTe's `E<0>`, written `E::<0>`.
///
/// `4 * E::<0>` is four steps along mode 0; [`Basis::new`] makes vectors along modes of modes (`E<1,0>`).
///
/// # Example
///
/// ```
/// use colex_layout::{C, E, Layout};
/// let tile = Layout::new((4, 8), (C::<2> * E::<0>, E::<1>))?;
/// assert_eq!(tile.to_string(), "(4,8):(_2@0,_1@1)");
/// assert_eq!(tile.coord_at((3, 5))?.to_string(), "(6,5)");
/// # Ok::<(), colex_layout::Error>(())
/// ```
///
/// A mode beyond 255 does not compile:
///
/// ```compile_fail
/// let far = colex_layout::Basis::from(colex_layout::E::<256>);
/// ```
///
/// Source: `ScaledBasis` in `cute/numeric/arithmetic_tuple.hpp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct E<const MODE: usize>;

impl<const N: i64> From<C<N>> for Int {
    fn from(_: C<N>) -> Self {
        Self::Static(N)
    }
}

impl<const N: i64> From<C<N>> for Stride {
    fn from(_: C<N>) -> Self {
        Self::constant(N)
    }
}

impl<const MODE: usize> From<E<MODE>> for Basis {
    fn from(_: E<MODE>) -> Self {
        const { assert!(MODE < 256, "a basis vector names a mode from 0 to 255") };
        Self::along(Int::Static(1), MODE as u8)
    }
}

impl<const MODE: usize> From<E<MODE>> for Stride {
    fn from(e: E<MODE>) -> Self {
        Self::Basis(e.into())
    }
}

macro_rules! scaled {
    ($($int:ty)*) => {$(
        impl<const MODE: usize> Mul<E<MODE>> for $int {
            type Output = Basis;

            fn mul(self, e: E<MODE>) -> Basis {
                Int::Dynamic(self.into()) * e
            }
        }
    )*};
}

scaled! { i32 i64 u32 }

impl<const MODE: usize> Mul<E<MODE>> for Int {
    type Output = Basis;

    fn mul(self, e: E<MODE>) -> Basis {
        Basis::from(e).with_value(self)
    }
}

impl<const N: i64, const MODE: usize> Mul<E<MODE>> for C<N> {
    type Output = Basis;

    fn mul(self, e: E<MODE>) -> Basis {
        Int::from(self) * e
    }
}
