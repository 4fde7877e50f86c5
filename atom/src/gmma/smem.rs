//! The canonical blocks of shared memory: 8 rows of 16, 32, 64 or 128 bytes, swizzled.

use colex_layout::{ComposedLayout, Layout, Swizzle};

use crate::error::{Error, GmmaError};
use crate::mma::Major;

/// How the 16-byte units of eight rows are permuted in shared memory, so that a column of them meets every bank once.
///
/// The permutation works on the bits of the byte address, `Sw<B,4,3>`; TMA knows the same four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SmemSwizzle {
    /// Rows of 16 bytes, not permuted (CuTe `INTER`).
    #[doc(alias = "INTERLEAVE")]
    #[default]
    None,
    /// Rows of 32 bytes (CuTe `SW32`).
    B32,
    /// Rows of 64 bytes (CuTe `SW64`).
    B64,
    /// Rows of 128 bytes (CuTe `SW128`).
    B128,
}

impl SmemSwizzle {
    /// The four kinds, narrowest first.
    pub const ALL: [SmemSwizzle; 4] = [
        SmemSwizzle::None,
        SmemSwizzle::B32,
        SmemSwizzle::B64,
        SmemSwizzle::B128,
    ];

    /// Returns the bytes of a row: 16, 32, 64 or 128.
    pub fn span(self) -> i64 {
        16 << self.bits()
    }

    /// The address bits that are changed: 0 to 3.
    pub(super) fn bits(self) -> i64 {
        self as i64
    }

    /// The number of the kind in a descriptor (`LayoutType`).
    pub(super) fn code(self) -> u64 {
        (4 - self.bits() as u64) % 4
    }

    /// Returns the swizzle of byte addresses.
    pub fn swizzle(self) -> Swizzle {
        Swizzle::new(self.bits(), 4, 3).expect("at most 3 bits, shifted by 3, do not overlap")
    }

    /// The kind whose swizzle of 16-byte units changes `bits` bits.
    pub(super) fn of_bits(bits: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.bits() == bits)
    }

    /// Returns CuTe's word: `INTER`, `SW32`, `SW64`, `SW128`.
    pub fn cute(self) -> &'static str {
        ["INTER", "SW32", "SW64", "SW128"][self as usize]
    }
}

/// Returns the smallest block of a canonical layout, 8 rows of [`SmemSwizzle::span`] bytes, over elements of `bits` bits.
///
/// Its modes are `(MN, K)`. With `row` elements in a row, the extents are `(8, row)` if it is K-major and `(row, 8)` if it
/// is MN-major. [`ComposedLayout::tile_to_shape`] makes larger tiles of it.
///
/// ```
/// use colex_atom::{Major, SmemSwizzle, gmma_smem_atom};
///
/// let atom = gmma_smem_atom(Major::K, SmemSwizzle::B128, 16)?;
/// assert_eq!(atom.to_string(), "Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)");
/// assert_eq!(atom.position_independent()?.to_string(), "Sw<3,3,3> o 0 o (_8,_64):(_64,_1)");
/// let atom = gmma_smem_atom(Major::MN, SmemSwizzle::B32, 32)?;
/// assert_eq!(atom.inner().to_string(), "(_8,_8):(_1,_8)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Returns an error if elements do not divide 128 bits.
///
/// Source: `GMMA::Layout_K_SW128_Atom` and its siblings in `cute/atom/mma_traits_sm90_gmma.hpp`.
#[doc(alias = "Layout_K_SW128_Atom")]
#[doc(alias = "Layout_MN_SW128_Atom")]
pub fn gmma_smem_atom(
    major: Major,
    swizzle: SmemSwizzle,
    bits: u32,
) -> Result<ComposedLayout, Error> {
    if bits == 0 || 128 % bits != 0 {
        return Err(GmmaError::Element { bits }.into());
    }
    let row = swizzle.span() * 8 / i64::from(bits);
    let inner = match major {
        Major::K => Layout::new((8, row), (row, 1))?,
        Major::MN => Layout::new((row, 8), (1, row))?,
    };
    Ok(ComposedLayout::for_pointer(
        swizzle.swizzle(),
        bits.into(),
        inner.to_static(),
    )?)
}
