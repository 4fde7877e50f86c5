//! From a convolution and a layout of shared memory to a tensor map and the columns that fill a tile.

use colex_layout::{IntoComposedLayout, IntoLayout, Layout};

use super::derive::{column, matrix, modes, tile_order};
use super::pixels::{PixelBox, spatial};
use crate::Error;
use crate::copy::{CopyAtom, Reduction, Scalar};
use crate::error::{Im2colError, TmaError};
use crate::tma::derive::{cut, plain};
use crate::tma::map::{TensorMap, TmaElement};

/// A filter along one spatial dimension, and how the image is padded there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Taps {
    /// The number of taps along the dimension: S, R or T.
    pub count: i64,
    /// The distance in pixels between two positions of the filter (`traversal stride`), 1 to 8.
    pub stride: i64,
    /// The distance in pixels between two taps of the filter.
    pub dilation: i64,
    /// The padding before the first and after the last pixel.
    pub padding: [i64; 2],
}

impl Taps {
    /// Returns a filter of `count` taps side by side, at every pixel, without padding.
    pub fn new(count: i64) -> Self {
        Taps {
            count,
            stride: 1,
            dilation: 1,
            padding: [0, 0],
        }
    }

    /// The first and the last position of the filter, relative to the first and the last of `extent` pixels.
    fn corners(&self, dimension: usize, extent: i64) -> Result<[i64; 2], Error> {
        let refused = Im2colError::Taps { dimension, extent };
        let [before, after] = self.padding;
        if self.count < 1 || self.stride < 1 || self.dilation < 1 {
            return Err(refused.into());
        }
        let reach = (self.count - 1).checked_mul(self.dilation).ok_or(refused)?;
        let upper = after.checked_sub(reach).ok_or(refused)?;
        let lower = before.checked_neg().ok_or(refused)?;
        if (extent - 1)
            .checked_add(upper)
            .is_some_and(|last| last >= lower)
        {
            Ok([lower, upper])
        } else {
            Err(refused.into())
        }
    }
}

/// What is to be moved: pixels of an activation tensor under one tap of a filter, to shared memory of some layout.
#[derive(Clone, Debug)]
pub struct Im2colTile<'a, A, S> {
    /// The layout of the activations in elements, modes `(C,W,N)`, `(C,W,H,N)` or `(C,W,H,D,N)`: an [`IntoLayout`].
    pub activations: A,
    /// The filter along W, H, D.
    pub taps: &'a [Taps],
    /// The layout of the tile `(pixels,channels)` in shared memory, in elements, swizzled or not: an
    /// [`IntoComposedLayout`].
    pub shared: S,
    /// The element type.
    pub element: TmaElement,
    /// The number of blocks that share the tile: each loads one slice and multicasts it to all. 1 disables multicast.
    pub multicast: i64,
}

/// A convolution as the product of a matrix: a tensor map, and how tiles of the matrix are made of its columns.
///
/// Rows of the matrix are the positions of the filter, `(Q,P,Z,N)`, its columns what the filter sees there,
/// `(C,S,R,T)`: the matrix is a layout over the activations, and no copy of them is made.
///
/// ```
/// use colex_atom::{Im2colPlan, Im2colTile, Taps, TmaElement};
///
/// // Two images of 8 by 6 pixels with 64 channels, a filter of 3 by 3, padded by 1 all around.
/// let (activations, shared) = ("(64,8,6,2):(1,64,512,3072)", "Sw<3,3,3> o 0 o (32,64):(64,1)");
/// let three = Taps { padding: [1, 1], ..Taps::new(3) };
/// let plan = Im2colPlan::new(Im2colTile { activations, taps: &[three, three], shared, element: TmaElement::F16, multicast: 1 })?;
/// assert_eq!(format!("{:#}", plan.matrix()), "((8,6,2),(64,3,3)):((64,512,3072),(1,64,512))");
/// assert_eq!(format!("{:#}", plan.tensor()), "((8,6,2),(64,3,3)):((1@1,1@2,1@3),(1@0,1@4,1@5))");
/// assert_eq!(plan.map().extents, [64, 32]);
/// assert_eq!(plan.load()?.name(), "SM90_TMA_LOAD_IM2COL_4D<32768>");
/// // Position 9 is q = 1, p = 1; the last tap of the filter is two pixels to the right and two down.
/// let start = plan.start(9, 0, &[2, 2])?;
/// assert_eq!((start.coordinates, start.offsets), (vec![0, 0, 0, 0], vec![2, 2]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Source: `make_tma_atom_im2col` and `make_im2col_tma_copy_desc` in `copy_traits_sm90_im2col.hpp`.
#[doc(alias = "make_im2col_tma_copy_desc")]
#[derive(Clone, Debug)]
pub struct Im2colPlan {
    map: TensorMap,
    taps: Vec<Taps>,
    /// Positions of the filter along W, H, D.
    outputs: Vec<i64>,
    matrix: Layout,
    tensor: Layout,
    /// `shared-memory offset -> (pixel, channel) of the tile`.
    order: Layout,
    /// The elements of a column before it is cut for a multicast.
    column: i64,
    blocks: i64,
}

/// Where an instruction begins: what its operands are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Im2colStart {
    /// The coordinates of the first pixel, channels first, before the offsets.
    pub coordinates: Vec<i64>,
    /// The offsets of the tap along W, H, D.
    pub offsets: Vec<i64>,
}

/// One instruction of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Im2colInstruction {
    /// The offset of the column in shared memory, in elements.
    pub shared: i64,
    /// The first position of the filter, relative to the tile's.
    pub pixel: i64,
    /// The first channel, relative to the tile's.
    pub channel: i64,
}

impl Im2colPlan {
    /// Derives the map.
    ///
    /// # Errors
    ///
    /// A [`Error`] that says what TMA cannot do.
    pub fn new(
        request: Im2colTile<'_, impl IntoLayout, impl IntoComposedLayout>,
    ) -> Result<Self, Error> {
        let shared = request.shared.into_composed_layout()?;
        let (swizzle, shared) = plain(&shared, request.element)?;
        let (dims, strides) = modes(&request.activations.into_layout()?)?;
        let spatial_modes = dims.len() - 2;
        spatial("filters", spatial_modes, request.taps.len())?;
        let mut pixels = PixelBox {
            lower: Vec::new(),
            upper: Vec::new(),
        };
        let mut outputs = Vec::new();
        for (d, taps) in request.taps.iter().enumerate() {
            let [lower, upper] = taps.corners(d + 1, dims[d + 1])?;
            // A corner that far out is refused by the check of the map.
            let last = (dims[d + 1] - 1 + upper).saturating_sub(lower);
            outputs.push((last / taps.stride).saturating_add(1));
            pixels.lower.push(lower);
            pixels.upper.push(upper);
        }
        let order = tile_order(&shared)?;
        let mut extents = column(&order)?;
        let column = extents.iter().product();
        cut(&mut extents, request.multicast)?;
        // What saturates is refused as a stride out of range.
        let bytes = strides[1..]
            .iter()
            .map(|x| x.saturating_mul(request.element.bytes()));
        let bytes: Vec<i64> = bytes.collect();
        let mut map = TensorMap::im2col(request.element, [dims, bytes], extents, pixels);
        for (step, taps) in map.element_strides[1..].iter_mut().zip(request.taps) {
            *step = taps.stride;
        }
        map.swizzle = swizzle;
        map.check()?;
        let (matrix, tensor) = matrix(request.taps, &outputs, &map.dims, &strides)?;
        Ok(Im2colPlan {
            map,
            taps: request.taps.to_vec(),
            outputs,
            matrix,
            tensor,
            order,
            column,
            blocks: request.multicast,
        })
    }

    /// Returns the tensor map, whose column is one block's slice if the tile is multicast.
    pub fn map(&self) -> &TensorMap {
        &self.map
    }

    /// Returns the numbers of positions of the filter along W, H, D: the extents Q, P, Z of the product.
    ///
    /// ```
    /// # use colex_atom::{Im2colPlan, Im2colTile, Taps, TmaElement};
    /// let (activations, shared) = ("(8,20,4):(1,8,160)", "(32,8):(8,1)");
    /// let every_second = Taps { stride: 2, padding: [1, 0], ..Taps::new(3) };
    /// let plan = Im2colPlan::new(Im2colTile { activations, taps: &[every_second], shared, element: TmaElement::F16, multicast: 1 })?;
    /// assert_eq!(plan.positions(), [10]); // from -1 to 17
    /// # Ok::<(), colex_atom::Error>(())
    /// ```
    pub fn positions(&self) -> &[i64] {
        &self.outputs
    }

    /// Returns the matrix of the product, `((Q,P,Z,N),(C,S,R,T))`: offsets in the activations, in elements, counted
    /// from the pixel under the first tap at the first position, which lies in the padding if there is any.
    pub fn matrix(&self) -> &Layout {
        &self.matrix
    }

    /// Returns `matrix coordinate -> operands of an instruction`, relative to the first position: the coordinates, then
    /// the offsets (CuTe's im2col `tma_tensor`).
    pub fn tensor(&self) -> &Layout {
        &self.tensor
    }

    /// Returns the bytes of the whole tile: what a barrier of each block waits for, multicast or not.
    pub fn tile_bytes(&self) -> i64 {
        self.order.size() * self.map.element.bytes()
    }

    /// Returns the operands of an instruction that begins with this row of the matrix, this channel, and this tap along
    /// W, H, D. Rows beyond the last image and channels beyond the last are filled.
    ///
    /// # Errors
    ///
    /// Returns an error for a negative number and for a tap that the filter does not have.
    pub fn start(&self, pixel: i64, channel: i64, taps: &[i64]) -> Result<Im2colStart, Error> {
        spatial("taps", self.taps.len(), taps.len())?;
        for (what, number, of) in [("pixel", pixel, i64::MAX), ("channel", channel, i64::MAX)] {
            within(what, number, of)?;
        }
        let Some(pixels) = &self.map.im2col else {
            return Err(TmaError::Mode { im2col: false }.into());
        };
        let (mut rest, mut coordinates, mut offsets) = (pixel, vec![channel], Vec::new());
        for (d, filter) in self.taps.iter().enumerate() {
            within("tap", taps[d], filter.count)?;
            coordinates.push(pixels.lower[d] + rest % self.outputs[d] * filter.stride);
            offsets.push(taps[d] * filter.dilation);
            rest /= self.outputs[d];
        }
        coordinates.push(rest);
        Ok(Im2colStart {
            coordinates,
            offsets,
        })
    }

    /// Returns the instructions of a tile. With a multicast, those of block 0: see [`slice`](Self::slice).
    ///
    /// # Errors
    ///
    /// Returns an error if a coordinate overflows.
    pub fn instructions(&self) -> Result<Vec<Im2colInstruction>, Error> {
        self.slice(0)
    }

    /// Returns the instructions of block `block` of those that share the tile: each moves its slice to the same place
    /// of every block's shared memory.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such block, or if the layout algebra has no result.
    pub fn slice(&self, block: i64) -> Result<Vec<Im2colInstruction>, Error> {
        if !(0..self.blocks).contains(&block) {
            return Err(TmaError::Multicast {
                blocks: block,
                extents: self.map.extents.clone(),
            }
            .into());
        }
        let slice = block * self.column / self.blocks;
        let columns = 0..self.order.size() / self.column;
        let instruction = |i: i64| -> Result<Im2colInstruction, Error> {
            let shared = i * self.column + slice;
            let place = self.order.coord_at(shared)?;
            let at = |mode: usize| place.leaves().get(mode).map_or(0, |x| x.value());
            Ok(Im2colInstruction {
                shared,
                pixel: at(0),
                channel: at(1),
            })
        };
        columns.map(instruction).collect()
    }

    /// Returns the load that fills the tile, moving one slice: with a multicast where several blocks share the tile.
    ///
    /// # Errors
    ///
    /// Returns an error if a column is larger than a barrier can count.
    pub fn load(&self) -> Result<CopyAtom, Error> {
        self.copy(match self.blocks {
            1 => "LOAD_IM2COL",
            _ => "LOAD_IM2COL_MULTICAST",
        })
    }

    /// Returns the store that empties the tile to the pixels themselves: it has no offsets.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`load`](Self::load).
    pub fn store(&self) -> Result<CopyAtom, Error> {
        self.copy("STORE_IM2COL")
    }

    /// Returns the store that combines the tile with what the pixels hold.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`load`](Self::load).
    pub fn reduce(&self, reduction: Reduction) -> Result<CopyAtom, Error> {
        let word = reduction.ptx(Scalar::Mapped).to_uppercase();
        self.copy(&format!("REDUCE_{word}_IM2COL"))
    }

    fn copy(&self, operation: &str) -> Result<CopyAtom, Error> {
        let atom: CopyAtom = format!("SM90_TMA_{operation}_{}D", self.map.rank()).parse()?;
        atom.with_bits(8 * self.map.box_bytes())
    }
}

/// From 0 to below this.
fn within(what: &'static str, number: i64, of: i64) -> Result<(), Error> {
    if (0..of).contains(&number) {
        Ok(())
    } else {
        Err(Im2colError::Start { what, number, of }.into())
    }
}
