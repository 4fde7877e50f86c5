//! `TensorMap`: the arguments of `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` as a value.

use super::im2col::PixelBox;
use super::swizzle::TmaSwizzle;
use crate::copy::{Reduction, Scalar};
use crate::error::{Error, TmaError};
pub use crate::number::TmaElement;
use crate::number::Ty;

impl TmaElement {
    /// Returns the type that a reduction of a tensor of such elements computes in; none if the hardware does not take
    /// it.
    ///
    /// The manual says for which types there is a reduction of bytes in a row, and nothing of tensors. An H200 ended
    /// bitwise reductions of [`S64`](TmaElement::S64) in an illegal instruction; it took those of
    /// [`S32`](TmaElement::S32).
    ///
    /// ```
    /// use colex_atom::{Reduction, Scalar, TmaElement};
    ///
    /// assert_eq!(TmaElement::Bf16.reduced(Reduction::Add), Some(Scalar::Bf16));
    /// assert_eq!(TmaElement::S32.reduced(Reduction::Xor), Some(Scalar::S32));
    /// assert_eq!(TmaElement::S64.reduced(Reduction::Xor), None);
    /// assert_eq!(TmaElement::U8.reduced(Reduction::Add), None);
    /// ```
    pub fn reduced(self, reduction: Reduction) -> Option<Scalar> {
        use Reduction::{Add, Dec, Inc, Max, Min};
        let ty = match self {
            TmaElement::U32 => Scalar::U32,
            TmaElement::S32 => Scalar::S32,
            TmaElement::U64 => Scalar::U64,
            TmaElement::S64 => Scalar::S64,
            TmaElement::F16 => Scalar::F16,
            TmaElement::Bf16 => Scalar::Bf16,
            TmaElement::F32 => Scalar::F32,
            TmaElement::F64 => Scalar::F64,
            TmaElement::U8 | TmaElement::U16 | TmaElement::Tf32 => return None,
        };
        let legal = match reduction {
            Add => ty != Scalar::S64,
            Min | Max => !matches!(ty, Scalar::F32 | Scalar::F64),
            Inc | Dec => ty == Scalar::U32,
            _ => matches!(ty, Scalar::U32 | Scalar::S32 | Scalar::U64),
        };
        legal.then_some(ty)
    }
}

impl TryFrom<Ty> for TmaElement {
    type Error = Error;

    /// The element type that carries a matrix element.
    fn try_from(ty: Ty) -> Result<Self, Error> {
        Ok(match ty {
            Ty::F64 => TmaElement::F64,
            Ty::F32 => TmaElement::F32,
            Ty::Tf32 => TmaElement::Tf32,
            Ty::F16 => TmaElement::F16,
            Ty::Bf16 => TmaElement::Bf16,
            Ty::S64 => TmaElement::S64,
            Ty::U64 => TmaElement::U64,
            Ty::S32 => TmaElement::S32,
            Ty::U32 => TmaElement::U32,
            Ty::S16 | Ty::U16 => TmaElement::U16,
            Ty::E4m3 | Ty::E5m2 | Ty::S8 | Ty::U8 => TmaElement::U8,
            other => {
                return Err(TmaError::Element {
                    text: format!("{other}"),
                }
                .into());
            }
        })
    }
}

/// How the channels of an image are interleaved (`CUtensorMapInterleave`). Memory holds, outermost first, images,
/// slices of channels, pixels, and the channels of one slice: NC/8HWC8 for 8 channels of 2 bytes.
///
/// The dimensions of such a map are, innermost first, the pixels along W (and H, and D), the slices of channels, and
/// the images. One step along W is one slice, 16 or 32 bytes for every element type; coordinates and extents of
/// dimension 0 count pixels, those of the slices' dimension count slices, and `strides` holds the distance between
/// slices like any other stride. One instruction moves one slice of each pixel of its box.
///
/// The manuals name the layout and not this order. It was read off an H200 (driver 580.159.04): boxes of every rank,
/// element type and edge, whose bytes were compared with the tensor's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Interleave {
    /// Not interleaved.
    #[default]
    None,
    /// In slices of 16 bytes.
    B16,
    /// In slices of 32 bytes.
    B32,
}

impl Interleave {
    /// Returns the bytes of a slice; 0 for none.
    pub fn bytes(self) -> i64 {
        match self {
            Interleave::None => 0,
            Interleave::B16 => 16,
            Interleave::B32 => 32,
        }
    }
}

/// What a load brings into the L2 cache (`CUtensorMapL2promotion`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum L2Promotion {
    /// No promotion.
    None,
    /// Lines of 64 bytes.
    B64,
    /// Lines of 128 bytes, as CUTLASS asks for.
    #[default]
    B128,
    /// Lines of 256 bytes.
    B256,
}

/// What stands for elements outside the tensor (`CUtensorMapFloatOOBfill`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OobFill {
    /// Zeros.
    #[default]
    Zero,
    /// A special NaN, which arithmetic on the tensor cores takes for zero.
    NanRequestZeroFma,
}

impl OobFill {
    /// Returns what stands in each two bytes outside.
    ///
    /// The special NaN is written as the same two bytes for every width of the format; in each it is a NaN. That is in
    /// no manual: it is reported of an H100.
    ///
    /// ```
    /// use colex_atom::{FloatFormat, OobFill};
    ///
    /// let twice = u64::from(OobFill::NanRequestZeroFma.pattern());
    /// assert!(FloatFormat::F16.decode(twice).is_nan() && FloatFormat::BF16.decode(twice).is_nan());
    /// assert!(FloatFormat::F32.decode(twice << 16 | twice).is_nan());
    /// ```
    pub fn pattern(self) -> u16 {
        match self {
            OobFill::Zero => 0,
            OobFill::NanRequestZeroFma => 0x7ff7,
        }
    }
}

/// A tensor in global memory as TMA sees it, and the box that one instruction moves: the arguments of
/// `cuTensorMapEncodeTiled`, or of `cuTensorMapEncodeIm2col` if there is a pixel box. All lists run from the innermost
/// dimension outwards.
#[doc(alias = "CUtensorMap")]
#[doc(alias = "TmaDescriptor")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorMap {
    /// The element type.
    pub element: TmaElement,
    /// The extents of the tensor (`globalDim`), 1 to 5 of them.
    pub dims: Vec<i64>,
    /// The strides of dimensions 1, 2, ... in bytes (`globalStrides`); that of dimension 0 is one element.
    pub strides: Vec<i64>,
    /// The extents of the box (`boxDim`), in elements of the tensor before element strides; in pixels along dimension 0
    /// if channels are interleaved, and then 1 along the slices. With a pixel box there are two: the channels of a
    /// pixel and the pixels of a column (`channelsPerPixel`, `pixelsPerColumn`).
    pub extents: Vec<i64>,
    /// Which elements of the box are taken: every so-many-th (`elementStrides`). With a pixel box, how far apart the
    /// positions of the filter are.
    pub element_strides: Vec<i64>,
    /// The positions that a column walks over; none if the map is tiled.
    pub im2col: Option<PixelBox>,
    /// The permutation of shared memory.
    pub swizzle: TmaSwizzle,
    /// The interleaving of channels.
    pub interleave: Interleave,
    /// The unit that is promoted to the L2 cache.
    pub l2: L2Promotion,
    /// The fill value of elements outside of the tensor.
    pub fill: OobFill,
}

impl TensorMap {
    /// Returns an `im2col` map without swizzle, whose columns take every position: extents and byte strides of the
    /// tensor, channels of a pixel and pixels of a column.
    pub fn im2col(
        element: TmaElement,
        [dims, strides]: [Vec<i64>; 2],
        column: [i64; 2],
        pixels: PixelBox,
    ) -> Self {
        TensorMap {
            element,
            element_strides: vec![1; dims.len()],
            dims,
            strides,
            extents: column.to_vec(),
            im2col: Some(pixels),
            swizzle: TmaSwizzle::None,
            interleave: Interleave::default(),
            l2: L2Promotion::default(),
            fill: OobFill::default(),
        }
    }

    /// The bytes of one step along dimension 0: an element, or the slice of a pixel if channels are interleaved.
    pub(super) fn innermost_bytes(&self) -> i64 {
        match self.interleave {
            Interleave::None => self.element.bytes(),
            Interleave::B16 | Interleave::B32 => self.interleave.bytes(),
        }
    }

    /// The dimension of the slices if channels are interleaved.
    pub(super) fn slice_dimension(&self) -> Option<usize> {
        match self.interleave {
            Interleave::None => None,
            Interleave::B16 | Interleave::B32 => self.rank().checked_sub(2),
        }
    }

    /// Returns the number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Returns the strides as the driver takes them.
    ///
    /// A dimension of extent 1 takes no step, so any stride describes it, and a compact layout says 0. The driver asks for a
    /// multiple of 16 bytes: here the least one (of 32 where channels are interleaved in slices of 32) behind all that the
    /// dimensions before it reach.
    ///
    /// ```
    /// use colex_atom::{TmaElement, TmaPlan, TmaTile};
    ///
    /// let (global, shared) = ("(1,50):(0,1)", "(8,32):(32,1)");
    /// let plan = TmaPlan::new(TmaTile { global, tile: (8, 32), shared, element: TmaElement::F32, multicast: 1 })?;
    /// assert_eq!(plan.map().dims, [50, 1]);
    /// assert_eq!(plan.map().strides, [208]); // 50 elements of 4 bytes, and 8 bytes more
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn encoded_strides(&self) -> Vec<i64> {
        let unit = self.interleave.bytes().max(16);
        let mut reach = self
            .dims
            .first()
            .map_or(0, |n| n.saturating_mul(self.innermost_bytes()));
        let mut strides = Vec::new();
        for (dim, stride) in self.dims.iter().skip(1).zip(&self.strides) {
            let stride = match dim {
                1 => reach.saturating_add(unit - 1).clamp(unit, (1 << 40) - 1) / unit * unit,
                _ => *stride,
            };
            reach = reach.max(dim.saturating_mul(stride));
            strides.push(stride);
        }
        strides
    }

    /// How many elements a box takes along each dimension, or along channels and pixels.
    pub(super) fn steps(&self) -> impl Iterator<Item = i64> + '_ {
        let pairs = self.extents.iter().zip(&self.element_strides);
        pairs.map(|(extent, step)| match self.im2col {
            Some(_) => *extent,
            None => (extent + step - 1) / step,
        })
    }

    /// Returns the elements that one instruction moves.
    pub fn box_elements(&self) -> i64 {
        self.steps().product::<i64>() * self.innermost_bytes() / self.element.bytes()
    }

    /// Returns the bytes that one instruction moves and reports to its barrier, also where the box leaves the tensor.
    pub fn box_bytes(&self) -> i64 {
        self.box_elements() * self.element.bytes()
    }

    /// Returns the bytes from the first to the last element of the tensor.
    ///
    /// # Panics
    ///
    /// For a map that [`check`](Self::check) refuses, if they are more than 2^63.
    pub fn tensor_bytes(&self) -> i64 {
        i64::try_from(self.end()).expect("the last byte of a map that passed `check` has an offset")
    }

    /// The offset behind the last element.
    pub(super) fn end(&self) -> i128 {
        let last = |(extent, stride): (&i64, &i64)| i128::from(extent - 1) * i128::from(*stride);
        let outer: i128 = self.dims[1..].iter().zip(&self.strides).map(last).sum();
        outer + i128::from(self.dims[0]) * i128::from(self.innermost_bytes())
    }

    /// Returns whether a driver of this version encodes the map with a bit that must be cleared: bit 21 of the second
    /// 64-bit word, for tensors of less than 128 KiB, up to version 13010 (`copy_traits_sm90_tma.hpp`).
    pub fn needs_small_tensor_fix(&self, driver_version: i32) -> bool {
        driver_version <= 13010 && self.tensor_bytes() < 131_072
    }
}
