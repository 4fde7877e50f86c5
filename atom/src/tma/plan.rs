//! Plans TMA copies: derives a tensor map and the instructions that move a tile, from the layouts of the tensor
//! and of shared memory.

use colex_layout::{
    Basis, IntoComposedLayout, IntoIntTuple, IntoLayout, IntoTiler, Layout, Stride, Tiler,
};

use super::derive::{
    Dimension, Piece, absent, contiguous, cut, extent_at, gcd, joined_to_256, of_rank_one, order,
    plain, progression, scale, stride_at, tensor,
};

use super::map::{Interleave, L2Promotion, OobFill, TensorMap, TmaElement};
use super::swizzle::TmaSwizzle;
use crate::Error;
use crate::copy::{CopyAtom, Reduction, Scalar};
use crate::error::TmaError;

/// What is to be moved: a tile of a tensor, to or from shared memory of some layout.
#[derive(Clone, Debug)]
pub struct TmaTile<G, T, S> {
    /// The layout of the tensor in global memory, in elements: an [`IntoLayout`].
    pub global: G,
    /// The tile, as a tiler of the tensor's shape: an [`IntoTiler`] such as `(64, 32)`, or anything that selects
    /// coordinates.
    pub tile: T,
    /// The layout of the tile in shared memory, in elements, swizzled or not: an [`IntoComposedLayout`].
    pub shared: S,
    /// The element type.
    pub element: TmaElement,
    /// The number of blocks that share the tile: each loads one slice and multicasts it to all. 1 disables multicast.
    pub multicast: i64,
}

/// A tensor map, and how a tile is made of its boxes.
///
/// ```
/// use colex_atom::{TmaElement, TmaPlan, TmaTile};
///
/// // A (64,32) tile of a row-major (1024,256) tensor of f32, row-major in shared memory.
/// let (global, shared) = (((1024, 256), (256, 1)), "(64,32):(32,1)");
/// let plan = TmaPlan::new(TmaTile { global, tile: (64, 32), shared, element: TmaElement::F32, multicast: 1 })?;
/// assert_eq!(plan.box_layout(), "(32,64):(1@1,1@0)");
/// assert_eq!(plan.map().dims, [256, 1024]);
/// assert_eq!(plan.map().strides, [256 * 4]);
/// assert_eq!(plan.map().extents, [32, 64]);
/// assert_eq!(plan.instructions()?.len(), 1);
/// assert_eq!(plan.tile_bytes(), 64 * 32 * 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Source: `construct_tma_gbasis`, `fill_tma_gmem_shape_stride` and `make_tma_copy_desc` in
/// `copy_traits_sm90_tma.hpp`.
#[derive(Clone, Debug)]
pub struct TmaPlan {
    map: TensorMap,
    /// `tensor coordinate -> coordinate of the map`.
    tensor: Layout,
    /// `shared-memory offset -> tensor coordinate`.
    order: Layout,
    dimensions: Vec<Dimension>,
    /// The elements of a box before it is cut for a multicast.
    box_elements: i64,
    blocks: i64,
}

impl TmaPlan {
    /// Derives the tensor map and the boxes of the tile that `request` describes.
    ///
    /// # Errors
    ///
    /// Returns an error if TMA cannot express the request; the [`Error`] names the restriction.
    pub fn new(
        request: TmaTile<impl IntoLayout, impl IntoTiler, impl IntoComposedLayout>,
    ) -> Result<Self, Error> {
        let shared = request.shared.into_composed_layout()?;
        let (swizzle, shared) = plain(&shared, request.element)?;
        let (global, tile) = (request.global.into_layout()?, request.tile.into_tiler()?);
        let (global, tile) = of_rank_one(&global, &tile)?;
        let order = order(&global, &tile, &shared)?;
        let pieces = contiguous(&order, &global)?;
        let mut dimensions = joined_to_256(&pieces, &global)?;
        dimensions.extend(absent(&global, &pieces)?);
        if dimensions.len() > 5 {
            let last: Vec<Piece> = dimensions
                .drain(4..)
                .flat_map(|dimension| dimension.modes)
                .collect();
            dimensions.push(Dimension { modes: last });
        }
        let box_elements = dimensions.iter().map(Dimension::extent).product();
        let mut plan = TmaPlan {
            map: empty(request.element, swizzle),
            tensor: tensor(&global, &dimensions)?,
            order,
            dimensions,
            box_elements,
            blocks: request.multicast,
        };
        plan.fill(&global)?;
        plan.map.check()?;
        Ok(plan)
    }

    /// Returns the plan that moves the same boxes of the tensor with the layout `global`, `None` if there is none: each dimension has the one mode that
    /// it has here, also where extents and strides would have joined modes or left out one of extent 1.
    pub fn for_tensor(&self, global: impl IntoLayout) -> Option<Self> {
        let (global, _) = of_rank_one(&global.into_layout().ok()?, &Tiler::from(1)).ok()?;
        let mut plan = self.clone();
        plan.map = empty(self.map.element, self.map.swizzle);
        let mut pieces = Vec::new();
        for dimension in &mut plan.dimensions {
            let [piece] = &mut dimension.modes[..] else {
                return None;
            };
            piece.stride = stride_at(&global, &piece.mode).ok()?;
            pieces.push(*piece);
        }
        if !absent(&global, &pieces).ok()?.is_empty() {
            return None;
        }
        plan.tensor = tensor(&global, &plan.dimensions).ok()?;
        plan.fill(&global).ok()?;
        plan.map.check().ok()?;
        Some(plan)
    }

    /// Returns the tensor map, whose box is one block's slice if the tile is multicast.
    pub fn map(&self) -> &TensorMap {
        &self.map
    }

    /// Returns the modes of the tensor that each dimension of the map walks, innermost dimension first.
    ///
    /// A dimension of one mode has that mode's extent, and its stride in bytes.
    ///
    /// ```
    /// # use colex_atom::{TmaElement, TmaPlan, TmaTile};
    /// let (global, shared) = (((1024, 256), (256, 1)), "(64,32):(32,1)");
    /// let plan = TmaPlan::new(TmaTile { global, tile: (64, 32), shared, element: TmaElement::F32, multicast: 1 })?;
    /// let modes: Vec<Vec<usize>> = plan.modes().iter().map(|modes| modes[0].path().collect()).collect();
    /// assert_eq!(modes, [[1], [0]]); // rows of 256 elements, then the 1024 rows
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn modes(&self) -> Vec<Vec<Basis>> {
        let modes =
            |dimension: &Dimension| dimension.modes.iter().map(|piece| piece.mode).collect();
        self.dimensions.iter().map(modes).collect()
    }

    /// Returns the box before its multicast split, as a layout in CuTe's notation: the extents of the box, with
    /// strides that are basis vectors over the modes of the tensor.
    pub fn box_layout(&self) -> String {
        let all = |text: &dyn Fn(&Piece) -> String| {
            let modes: Vec<String> = self
                .dimensions
                .iter()
                .map(|dimension| {
                    let parts: Vec<String> = dimension.modes.iter().map(text).collect();
                    if parts.len() == 1 {
                        parts.concat()
                    } else {
                        format!("({})", parts.join(","))
                    }
                })
                .collect();
            format!("({})", modes.join(","))
        };
        format!(
            "{}:{}",
            all(&|piece| piece.extent.to_string()),
            all(&|piece| format!("{:#}", piece.mode))
        )
    }

    /// Returns the tensor modes that share a dimension of the tensor map with an outer mode. TMA does not check
    /// bounds at the end of
    /// such a mode, so a tile must stay within the tensor along it.
    pub fn unbounded_modes(&self) -> Vec<Basis> {
        let inner = |dimension: &Dimension| {
            let outermost = dimension.modes.iter().map(|piece| piece.stride).max();
            let modes = dimension
                .modes
                .clone()
                .into_iter()
                .filter(move |piece| Some(piece.stride) != outermost);
            modes.map(|piece| piece.mode)
        };
        self.dimensions.iter().flat_map(inner).collect()
    }

    /// Returns the bytes of the whole tile: what a barrier of each block waits for, multicast or not.
    pub fn tile_bytes(&self) -> i64 {
        self.order.size() * self.map.element.bytes()
    }

    /// Returns the tensor-map coordinates, innermost first, of the tile
    /// that begins at the tensor coordinate `coord`.
    ///
    /// # Errors
    ///
    /// Returns an error if the coordinate is not one of the tensor's.
    pub fn coordinates(&self, coord: impl IntoIntTuple) -> Result<Vec<i64>, Error> {
        let coord = &coord.into_int_tuple()?;
        let coord = coord.wrap();
        let along = |piece: &Piece, dimension: &Dimension| -> Result<i64, Error> {
            let path: Vec<usize> = piece.mode.path().collect();
            let x = coord.get(&path)?;
            let leaf = x.as_leaf().ok_or_else(|| TmaError::Coordinate {
                coord: coord.to_string(),
                mode: format!("{:#}", piece.mode),
            })?;
            // What leaves 64 bits leaves the map as well.
            Ok(leaf.value().saturating_mul(scale(piece, dimension)))
        };
        let coordinate = |dimension: &Dimension| {
            let modes = dimension.modes.iter();
            let mut at = modes.map(|piece| along(piece, dimension));
            at.try_fold(0, |sum: i64, at| Ok(sum.saturating_add(at?)))
        };
        self.dimensions.iter().map(coordinate).collect()
    }

    /// Returns `tensor coordinate -> coordinate of the map`, as a layout with the tensor's shape: partition it as the
    /// tensor is partitioned, and its values are what an instruction takes (CuTe's `get_tma_tensor`).
    ///
    /// ```
    /// # use colex_atom::{TmaElement, TmaPlan, TmaTile};
    /// let (global, shared) = ("(1024,256):(256,1)", "(64,32):(32,1)");
    /// let plan = TmaPlan::new(TmaTile { global, tile: (64, 32), shared, element: TmaElement::F32, multicast: 1 })?;
    /// assert_eq!(format!("{:#}", plan.tensor()), "(1024,256):(1@1,1@0)");
    /// assert_eq!(plan.tensor().coord_at((128, 32))?.to_string(), "(32,128)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "get_tma_tensor")]
    pub fn tensor(&self) -> &Layout {
        &self.tensor
    }

    /// Returns the load atom of one instruction; the multicast form if several blocks share the tile. The number in
    /// its name is in bits.
    ///
    /// ```
    /// # use colex_atom::{TmaElement, TmaPlan, TmaTile};
    /// # let (global, shared) = ("(1024,256):(256,1)", "(64,32):(32,1)");
    /// let request = TmaTile { global, tile: (64, 32), shared, element: TmaElement::F32, multicast: 1 };
    /// assert_eq!(TmaPlan::new(request.clone())?.load()?.name(), "SM90_TMA_LOAD_2D<65536>");
    /// let shared_by_two = TmaTile { multicast: 2, ..request };
    /// assert_eq!(TmaPlan::new(shared_by_two)?.load()?.name(), "SM90_TMA_LOAD_MULTICAST_2D<32768>");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if a box is larger than a barrier can count.
    pub fn load(&self) -> Result<CopyAtom, Error> {
        self.copy(if self.blocks > 1 {
            "LOAD_MULTICAST"
        } else {
            "LOAD"
        })
    }

    /// Returns the store atom, which copies the tile from shared memory to the tensor.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`load`](Self::load).
    pub fn store(&self) -> Result<CopyAtom, Error> {
        self.copy("STORE")
    }

    /// Returns the store that combines the tile with what the tensor holds.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`load`](Self::load).
    pub fn reduce(&self, reduction: Reduction) -> Result<CopyAtom, Error> {
        self.copy(&format!(
            "REDUCE_{}",
            reduction.ptx(Scalar::Mapped).to_uppercase()
        ))
    }

    fn copy(&self, operation: &str) -> Result<CopyAtom, Error> {
        let atom: CopyAtom = format!("SM90_TMA_{operation}_{}D", self.map.rank()).parse()?;
        atom.with_bits(8 * self.map.box_bytes())
    }

    /// Returns the instructions of a tile that begins at coordinate 0; add [`coordinates`](Self::coordinates) of the
    /// tile's origin. With a multicast, those of block 0: see [`slice`](Self::slice).
    ///
    /// # Errors
    ///
    /// Returns an error if a coordinate overflows.
    pub fn instructions(&self) -> Result<Vec<TmaInstruction>, Error> {
        (0..self.order.size() / self.box_elements)
            .map(|i| self.instruction(i * self.box_elements))
            .collect()
    }

    /// Returns the instructions of block `block` of those that share the tile: each moves its slice to the same place
    /// of every block's shared memory.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such block, or if the layout algebra has no result.
    pub fn slice(&self, block: i64) -> Result<Vec<TmaInstruction>, Error> {
        if !(0..self.blocks).contains(&block) {
            return Err(TmaError::Multicast {
                blocks: block,
                extents: self.map.extents.clone(),
            }
            .into());
        }
        let slice = self.box_elements / self.blocks;
        let boxes = 0..self.order.size() / self.box_elements;
        boxes
            .map(|i| self.instruction(i * self.box_elements + block * slice))
            .collect()
    }

    /// The instruction that fills shared memory from this element on.
    fn instruction(&self, shared: i64) -> Result<TmaInstruction, Error> {
        let digits = self.order.shape().coord(shared)?;
        let mut coordinates = vec![0; self.dimensions.len()];
        for (leaf, digit) in self.order.leaves().iter().zip(digits.leaves()) {
            let Stride::Basis(b) = leaf.stride else {
                continue;
            };
            for (at, dimension) in coordinates.iter_mut().zip(&self.dimensions) {
                let piece = dimension
                    .modes
                    .iter()
                    .find(|piece| piece.mode.is_parallel(&b));
                *at += piece.map_or(0, |piece| {
                    digit.value() * b.value.value() * scale(piece, dimension)
                });
            }
        }
        Ok(TmaInstruction {
            shared,
            coordinates,
        })
    }

    /// Extents and strides of the tensor along each dimension, and the box.
    fn fill(&mut self, global: &Layout) -> Result<(), Error> {
        for (i, dimension) in self.dimensions.iter().enumerate() {
            let (mut extent, mut stride) = (1, 0);
            for piece in &dimension.modes {
                let size = extent_at(global, &piece.mode)?;
                if size == 1 {
                    continue;
                }
                let common = gcd(stride, piece.stride);
                extent = match common {
                    0 => size,
                    g => {
                        let before = (extent - 1_i64).saturating_mul(stride / g);
                        let along = (size - 1).saturating_mul(piece.stride / g);
                        before.saturating_add(along).saturating_add(1)
                    }
                };
                stride = common;
            }
            progression(i, dimension, global)?;
            self.map.dims.push(extent);
            self.map.extents.push(dimension.extent());
            self.map.element_strides.push(dimension.modes[0].step());
            match i {
                0 if stride != 1 && extent != 1 => {
                    let mode = dimension.modes[0].mode;
                    return Err(TmaError::Major {
                        mode: format!("{mode:#}"),
                        stride,
                    }
                    .into());
                }
                0 => {}
                _ => {
                    let bytes = self.map.element.bytes();
                    self.map.strides.push(stride.saturating_mul(bytes));
                }
            }
        }
        self.map.strides = self.map.encoded_strides();
        cut(&mut self.map.extents, self.blocks)?;
        let boxes = self.map.extents.iter_mut().zip(&self.map.element_strides);
        boxes.for_each(|(extent, step)| *extent = extent.saturating_mul(*step));
        Ok(())
    }
}

/// One instruction of a tile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TmaInstruction {
    /// The offset of the box in shared memory, in elements.
    pub shared: i64,
    /// The coordinates of the box in the tensor map, innermost first, relative to the tile's origin.
    pub coordinates: Vec<i64>,
}

fn empty(element: TmaElement, swizzle: TmaSwizzle) -> TensorMap {
    TensorMap {
        element,
        dims: Vec::new(),
        strides: Vec::new(),
        extents: Vec::new(),
        element_strides: Vec::new(),
        im2col: None,
        swizzle,
        interleave: Interleave::default(),
        l2: L2Promotion::default(),
        fill: OobFill::default(),
    }
}
