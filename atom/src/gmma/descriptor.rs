//! The shared-memory matrix descriptor of `wgmma`.

use colex_layout::{ComposedLayout, Layout, Swizzle};

use super::SmemSwizzle;
use crate::error::{Error, GmmaError};
use crate::mma::Major;

/// One past the largest byte address or offset of a field: 14 bits of 16 bytes.
const LIMIT: i64 = 1 << 18;

/// The shared-memory matrix descriptor of `wgmma` (PTX ISA 9.7.15.5.1; CuTe `mma_sm90_desc.hpp`).
///
/// | bits | field |
/// |---|---|
/// | 0..14 | start address / 16 |
/// | 16..30 | leading byte offset / 16 |
/// | 32..46 | stride byte offset / 16 |
/// | 49..52 | base offset |
/// | 62..64 | swizzle: 0 none, 1 128 B, 2 64 B, 3 32 B |
///
/// What the two offsets mean depends on the major and the swizzle, see [`tile`](Self::tile).
///
/// ```
/// use colex_atom::{GmmaDescriptor, Major, SmemSwizzle};
///
/// // Sixteen columns of a 64 x 64 tile of halves, swizzled over 128 bytes.
/// let tile = "Sw<3,3,3> o 0 o (64,16):(64,1)";
/// let descriptor = GmmaDescriptor::of(tile, 16, Major::K)?;
/// assert_eq!(descriptor.swizzle, SmemSwizzle::B128);
/// assert_eq!(descriptor.stride, 1024);
/// assert_eq!(descriptor.encode()?, 0x4000_0040_0001_0000);
/// assert_eq!(GmmaDescriptor::decode(0x4000_0040_0001_0000), descriptor);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GmmaDescriptor {
    /// The byte address in shared memory.
    pub start: i64,
    /// The leading byte offset.
    pub leading: i64,
    /// The stride byte offset.
    pub stride: i64,
    /// The row of the eight-row pattern at which the matrix starts: `(address >> 7) & 7`.
    pub base_offset: u8,
    /// The permutation of 16-byte units.
    pub swizzle: SmemSwizzle,
}

impl GmmaDescriptor {
    /// Returns the 64 bits.
    ///
    /// # Errors
    ///
    /// Returns an error for an offset that does not fit its field.
    pub fn encode(&self) -> Result<u64, Error> {
        if self.base_offset > 7 {
            return Err(GmmaError::BaseOffset {
                value: self.base_offset,
            }
            .into());
        }
        let start = field("start address", self.start)?;
        let leading = field("leading byte offset", self.leading)?;
        let stride = field("stride byte offset", self.stride)?;
        let base = u64::from(self.base_offset);
        Ok(start | leading << 16 | stride << 32 | base << 49 | self.swizzle.code() << 62)
    }

    /// Reads the 64 bits; those of no field are ignored.
    pub fn decode(bits: u64) -> Self {
        let bytes = |at: u32| ((bits >> at & 0x3fff) << 4) as i64;
        let kind = SmemSwizzle::ALL
            .into_iter()
            .find(|kind| kind.code() == bits >> 62);
        GmmaDescriptor {
            start: bytes(0),
            leading: bytes(16),
            stride: bytes(32),
            base_offset: (bits >> 49 & 7) as u8,
            swizzle: kind.expect("the four kinds have the four codes"),
        }
    }

    /// Returns the same matrix at another place.
    pub fn at(self, start: i64) -> Self {
        GmmaDescriptor { start, ..self }
    }

    /// Returns the descriptor of the tile `bytes` bytes further: the next step along K.
    ///
    /// ```
    /// use colex_atom::{GmmaDescriptor, Major};
    ///
    /// let descriptor = GmmaDescriptor::of("Sw<3,3,3> o 0 o (64,16):(64,1)", 16, Major::K)?;
    /// // The next sixteen halves of each row.
    /// assert_eq!(descriptor.advanced(32).encode()? - descriptor.encode()?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn advanced(self, bytes: i64) -> Self {
        self.at(self.start + bytes)
    }

    /// Returns the layout that the descriptor makes `wgmma` read: `(MN, K)` to elements of `bits` bits, from address 0.
    ///
    /// With `T` elements in 16 bytes and rows of `W` such units, in elements:
    ///
    /// | major | swizzle | layout |
    /// |---|---|---|
    /// | K | none | `((8,m),(T,k)):((T,stride),(1,leading))` |
    /// | K | 32, 64, 128 B | `((8,m),(T,k)):((W T,stride),(1,T))` |
    /// | MN | none | `((T,m),(8,k)):((1,stride),(T,leading))` |
    /// | MN | 32, 64, 128 B | `((W T,m),(8,k)):((1,leading),(W T,stride))` |
    ///
    /// Law `gmma.tile_of`: the descriptor of a layout gives back that layout, as a function.
    ///
    /// # Errors
    ///
    /// Returns an error for elements that do not divide 128 bits, or for extents that are not multiples of the pattern.
    pub fn tile(&self, major: Major, mn: i64, k: i64, bits: u32) -> Result<ComposedLayout, Error> {
        if bits == 0 || 128 % bits != 0 {
            return Err(GmmaError::Element { bits }.into());
        }
        let elements = |bytes: i64| bytes * 8 / i64::from(bits);
        let (t, row) = (elements(16), elements(self.swizzle.span()));
        let (leading, stride) = (elements(self.leading), elements(self.stride));
        let pattern = match major {
            Major::K => [8, t],
            Major::MN => [row, 8],
        };
        if mn % pattern[0] != 0 || k % pattern[1] != 0 {
            let tile = [mn, k];
            return Err(GmmaError::NotWholePatterns { tile, pattern }.into());
        }
        let shape = ((pattern[0], mn / pattern[0]), (pattern[1], k / pattern[1]));
        let inner = match (major, self.swizzle) {
            (Major::K, SmemSwizzle::None) => Layout::new(shape, ((t, stride), (1, leading))),
            (Major::K, _) => Layout::new(shape, ((row, stride), (1, t))),
            (Major::MN, SmemSwizzle::None) => Layout::new(shape, ((1, stride), (t, leading))),
            (Major::MN, _) => Layout::new(shape, ((1, leading), (row, stride))),
        }?;
        let swizzle = Swizzle::new(self.swizzle.bits(), i64::from(t.trailing_zeros()), 3)?;
        Ok(ComposedLayout::new(
            swizzle,
            elements(self.start),
            inner.to_static(),
        )?)
    }
}

/// A multiple of 16 bytes that fits in 14 bits.
fn field(field: &'static str, bytes: i64) -> Result<u64, Error> {
    if bytes % 16 == 0 && (0..LIMIT).contains(&bytes) {
        Ok(bytes as u64 >> 4)
    } else {
        Err(GmmaError::Field {
            field,
            bytes,
            limit: LIMIT,
        }
        .into())
    }
}
