//! Tensor maps as the hardware reads them.

use colex_atom::{Interleave, L2Promotion, OobFill, PixelBox, TensorMap, TmaElement, TmaSwizzle};

use super::gpu::Gpu;
use super::sys::{MapElement, MapFill, MapInterleave, MapPromotion, MapSwizzle};
use crate::error::Error;

/// 128 bytes where the driver wants them: at a multiple of 64, and of 128 since CUDA 13.
#[repr(C, align(128))]
struct Encoded([u64; 16]);

impl Gpu {
    /// The 128 bytes of a map of the tensor at an address.
    ///
    /// # Errors
    ///
    /// Returns an error if the hardware does not take the map, before the driver is called.
    pub(crate) fn encode(&self, map: &TensorMap, address: u64) -> Result<[u64; 16], Error> {
        map.check()?;
        map.check_address(address)?;
        let lists = Lists::of(map);
        let mut encoded = Encoded([0; 16]);
        match &map.im2col {
            None => self.encode_tiled(map, address, &lists, &mut encoded)?,
            Some(pixels) => self.encode_im2col(map, pixels, address, &lists, &mut encoded)?,
        }
        if map.needs_small_tensor_fix(self.driver_version()) {
            encoded.0[1] &= !(1 << 21);
        }
        Ok(encoded.0)
    }

    fn encode_tiled(
        &self,
        map: &TensorMap,
        address: u64,
        lists: &Lists,
        encoded: &mut Encoded,
    ) -> Result<(), Error> {
        self.call("cuTensorMapEncodeTiled", |api| {
            // SAFETY: stores 128 bytes; the lists have `rank` entries each (the strides one less), as `check` saw.
            unsafe {
                (api.tensor_map_encode)(
                    &mut encoded.0,
                    element(map.element),
                    map.rank() as u32,
                    address,
                    lists.dims.as_ptr(),
                    lists.strides.as_ptr(),
                    lists.extents.as_ptr(),
                    lists.steps.as_ptr(),
                    interleave(map.interleave),
                    swizzle(map.swizzle),
                    promotion(map.l2),
                    fill(map.fill),
                )
            }
        })
    }

    fn encode_im2col(
        &self,
        map: &TensorMap,
        pixels: &PixelBox,
        address: u64,
        lists: &Lists,
        encoded: &mut Encoded,
    ) -> Result<(), Error> {
        let [lower, upper] = [&pixels.lower, &pixels.upper]
            .map(|corner| corner.iter().map(|&x| x as i32).collect::<Vec<i32>>());
        self.call("cuTensorMapEncodeIm2col", |api| {
            // SAFETY: stores 128 bytes; the lists have `rank` entries each (the strides one less, the corners two less),
            // and there are two extents, as `check` saw.
            unsafe {
                (api.tensor_map_encode_im2col)(
                    &mut encoded.0,
                    element(map.element),
                    map.rank() as u32,
                    address,
                    lists.dims.as_ptr(),
                    lists.strides.as_ptr(),
                    lower.as_ptr(),
                    upper.as_ptr(),
                    lists.extents[0],
                    lists.extents[1],
                    lists.steps.as_ptr(),
                    interleave(map.interleave),
                    swizzle(map.swizzle),
                    promotion(map.l2),
                    fill(map.fill),
                )
            }
        })
    }
}

/// The lists of a map in the driver's types.
struct Lists {
    dims: Vec<u64>,
    strides: Vec<u64>,
    extents: Vec<u32>,
    steps: Vec<u32>,
}

impl Lists {
    fn of(map: &TensorMap) -> Lists {
        let long = |list: &[i64]| list.iter().map(|&x| x as u64).collect();
        let short = |list: &[i64]| list.iter().map(|&x| x as u32).collect();
        Lists {
            dims: long(&map.dims),
            strides: long(&map.encoded_strides()),
            extents: short(&map.extents),
            steps: short(&map.element_strides),
        }
    }
}

fn element(element: TmaElement) -> u32 {
    (match element {
        TmaElement::U8 => MapElement::U8,
        TmaElement::U16 => MapElement::U16,
        TmaElement::U32 => MapElement::U32,
        TmaElement::S32 => MapElement::S32,
        TmaElement::U64 => MapElement::U64,
        TmaElement::S64 => MapElement::S64,
        TmaElement::F16 => MapElement::F16,
        TmaElement::F32 => MapElement::F32,
        TmaElement::F64 => MapElement::F64,
        TmaElement::Bf16 => MapElement::Bf16,
        TmaElement::Tf32 => MapElement::Tf32,
    }) as u32
}

fn swizzle(swizzle: TmaSwizzle) -> u32 {
    (match swizzle {
        TmaSwizzle::None => MapSwizzle::None,
        TmaSwizzle::B32 => MapSwizzle::B32,
        TmaSwizzle::B64 => MapSwizzle::B64,
        TmaSwizzle::B128 => MapSwizzle::B128,
        TmaSwizzle::B128Atom32 => MapSwizzle::B128Atom32,
        TmaSwizzle::B128Atom64 => MapSwizzle::B128Atom64,
    }) as u32
}

fn interleave(interleave: Interleave) -> u32 {
    (match interleave {
        Interleave::None => MapInterleave::None,
        Interleave::B16 => MapInterleave::B16,
        Interleave::B32 => MapInterleave::B32,
    }) as u32
}

fn promotion(promotion: L2Promotion) -> u32 {
    (match promotion {
        L2Promotion::None => MapPromotion::None,
        L2Promotion::B64 => MapPromotion::B64,
        L2Promotion::B128 => MapPromotion::B128,
        L2Promotion::B256 => MapPromotion::B256,
    }) as u32
}

fn fill(fill: OobFill) -> u32 {
    (match fill {
        OobFill::Zero => MapFill::Zero,
        OobFill::NanRequestZeroFma => MapFill::Nan,
    }) as u32
}
