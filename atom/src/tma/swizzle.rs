//! How the tensor memory accelerator permutes shared memory.

use crate::error::{Error, TmaError};
use colex_layout::Swizzle;

/// The swizzle mode of a tensor map (`CUtensorMapSwizzle`).
///
/// ```
/// use colex_atom::TmaSwizzle;
/// use colex_layout::Swizzle;
///
/// // Sixteen-bit elements, 128-byte rows: `Sw<3,3,3>` on elements is `Sw<3,4,3>` on bytes.
/// let elements = Swizzle::new(3, 3, 3)?;
/// assert_eq!(TmaSwizzle::of(elements, 16)?, TmaSwizzle::B128);
/// assert_eq!(TmaSwizzle::B128.cuda(), "CU_TENSOR_MAP_SWIZZLE_128B");
/// let error = TmaSwizzle::of(Swizzle::new(3, 4, 3)?, 16).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "Sw<3,5,3> on bytes is no TMA swizzle: those are Sw<0..3,4,3>, Sw<2,5,2> and Sw<2,6,2>"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Source: `copy_traits_sm90_tma_swizzle.hpp`, `copy_sm90_desc.hpp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TmaSwizzle {
    /// No permutation.
    None,
    /// 16-byte chunks within 32 bytes.
    B32,
    /// 16-byte chunks within 64 bytes.
    B64,
    /// 16-byte chunks within 128 bytes.
    B128,
    /// 32-byte chunks within 128 bytes (Blackwell).
    B128Atom32,
    /// 64-byte chunks within 128 bytes (Blackwell).
    B128Atom64,
}

impl TmaSwizzle {
    /// Every mode.
    pub const ALL: [TmaSwizzle; 6] = [
        TmaSwizzle::None,
        TmaSwizzle::B32,
        TmaSwizzle::B64,
        TmaSwizzle::B128,
        TmaSwizzle::B128Atom32,
        TmaSwizzle::B128Atom64,
    ];

    /// Returns the mode that is this swizzle of elements of `element_bits` bits.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none.
    pub fn of(swizzle: Swizzle, element_bits: i64) -> Result<Self, Error> {
        if swizzle.is_identity() {
            return Ok(TmaSwizzle::None);
        }
        let none = |text: String| TmaError::Swizzle { swizzle: text }.into();
        let bytes = swizzle
            .recast(element_bits, 8)
            .map_err(|_| none(swizzle.to_string()))?;
        let found = TmaSwizzle::ALL
            .into_iter()
            .find(|mode| mode.on_bytes() == bytes);
        found.ok_or_else(|| none(bytes.to_string()))
    }

    /// Returns the permutation of byte addresses.
    pub fn on_bytes(self) -> Swizzle {
        let (bits, base, shift) = match self {
            TmaSwizzle::None => return Swizzle::IDENTITY,
            TmaSwizzle::B32 => (1, 4, 3),
            TmaSwizzle::B64 => (2, 4, 3),
            TmaSwizzle::B128 => (3, 4, 3),
            TmaSwizzle::B128Atom32 => (2, 5, 2),
            TmaSwizzle::B128Atom64 => (2, 6, 2),
        };
        Swizzle::new(bits, base, shift).expect("the six swizzles of TMA are legal")
    }

    /// Returns the bytes that the first dimension of a box must not exceed; no limit without a swizzle.
    pub fn span(self) -> Option<i64> {
        match self {
            TmaSwizzle::None => None,
            TmaSwizzle::B32 => Some(32),
            TmaSwizzle::B64 => Some(64),
            _ => Some(128),
        }
    }

    /// Returns what must divide the address of a tile in shared memory so that its pattern starts at the tile:
    /// 128 bytes without a swizzle, else as long as the pattern is.
    pub fn alignment(self) -> i64 {
        let swizzle = self.on_bytes();
        match self {
            TmaSwizzle::None => 128,
            _ => 1 << (swizzle.base() + swizzle.shift() + swizzle.bits()),
        }
    }

    /// Returns the name of the constant in `cuda.h`.
    pub fn cuda(self) -> &'static str {
        match self {
            TmaSwizzle::None => "CU_TENSOR_MAP_SWIZZLE_NONE",
            TmaSwizzle::B32 => "CU_TENSOR_MAP_SWIZZLE_32B",
            TmaSwizzle::B64 => "CU_TENSOR_MAP_SWIZZLE_64B",
            TmaSwizzle::B128 => "CU_TENSOR_MAP_SWIZZLE_128B",
            TmaSwizzle::B128Atom32 => "CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B",
            TmaSwizzle::B128Atom64 => "CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B",
        }
    }
}
