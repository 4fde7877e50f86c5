//! Columns of pixels copied by the tensor memory accelerator (TMA): what a convolution reads.

use std::panic::Location;

use colex_atom::{Im2colPlan, Im2colTile, Taps, TmaElement, Ty};
use colex_layout::{ComposedLayout, Int, IntoComposedLayout, Layout};

use super::tma::{ALIGN, check_rank, check_shared};
use crate::build::Builder;
use crate::build::im2col_map::Im2colSlot;
use crate::build::launch::Slot;
use crate::error::ErrorKind;
use crate::failure::Owner;
use crate::index::Index;
use crate::tensor::coord::IntoIndices;
use crate::tensor::{FARTHEST, MAX_EXTENT, Tensor, View};
use colex_ir::{Base, CopyArgs, End, ParamId, Reg, Type};

/// Activations that TMA copies by columns of pixels: a tensor map among the parameters, and the numbers of the filter.
///
/// A convolution is the product of a matrix with the filters: its rows are the positions of the filter, `(Q,P,N)`, and its columns
/// what the filter sees there, `(C,S,R)`. A tile has some rows and some channels under one tap.
#[derive(Clone, Debug)]
pub struct Im2colTensor {
    name: String,
    param: ParamId,
    /// None if the tensor was refused.
    plan: Option<Im2colPlan>,
    ty: Ty,
    owner: Owner,
    /// The layout of a tile in shared memory, (pixels, channels).
    shared: ComposedLayout,
    pixels: i64,
    channels: i64,
    blocks: i64,
    filter: Vec<Dimension>,
}

/// A spatial dimension of a filter, whose numbers are arguments of the launch.
#[derive(Clone, Debug)]
struct Dimension {
    taps: i64,
    positions: Index,
    stride: Index,
    padding: Index,
    dilation: Index,
}

/// The first pixel of a block's part of a tile: the coordinates in the tensor map behind the channel.
///
/// [`Builder::im2col_pixels`] computes it. All loads of the same rows share it.
#[derive(Clone, Debug)]
pub struct Im2colPixels {
    coordinates: Vec<Index>,
    owner: Owner,
}

/// The most positions of a filter along a dimension, excluded.
const POSITIONS: i64 = 1 << 24;

/// The greatest dilation, which is the greatest offset of a tap, by the number of spatial dimensions (`PixelBox`).
fn most_offset(dimensions: usize) -> i64 {
    match dimensions {
        1 => (1 << 16) - 1,
        2 => (1 << 8) - 1,
        _ => (1 << 5) - 1,
    }
}

impl Im2colTensor {
    /// Returns the transaction bytes of one tile: the bytes that the barrier of each block waits for.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// let x = k.im2col_tensor("x", Ty::F16, &[3, 3], "Sw<3,3,3> o 0 o (32,64):(64,1)", 1);
    /// assert_eq!(x.tile_bytes(), 32 * 64 * 2);
    /// ```
    pub fn tile_bytes(&self) -> i64 {
        self.plan.as_ref().map_or(0, Im2colPlan::tile_bytes)
    }

    fn plan(&self) -> Result<&Im2colPlan, ErrorKind> {
        let refused = || {
            let why = format!("{} was refused by another kernel's builder", self.name);
            ErrorKind::operands("im2col_tensor", why)
        };
        self.plan.as_ref().ok_or_else(refused)
    }
}

/// One load of a tile.
struct Load<'a> {
    operation: &'static str,
    tensor: &'a Im2colTensor,
    pixels: &'a Im2colPixels,
    channels: &'a Index,
    taps: Vec<Index>,
    shared: &'a Tensor,
    rank: Option<&'a Index>,
}

impl Builder {
    /// Declares activations, `(C,W,N)`, `(C,W,H,N)` or `(C,W,H,D,N)`, that TMA copies in tiles of pixels and channels, under a
    /// filter with these numbers of taps along W, H, D. `shared` is the layout of one tile `(pixels,channels)` in shared memory. If
    /// `multicast` is above 1, this number of blocks of the cluster share each tile.
    ///
    /// Strides, padding and dilations of the filter are numbers of the launch:
    /// [`TensorKernel::im2col_arguments`](crate::TensorKernel::im2col_arguments) makes the tensor map and these numbers.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// use colex_atom::Taps;
    ///
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// k.im2col_tensor("x", Ty::F16, &[3, 3], "Sw<3,3,3> o 0 o (32,64):(64,1)", 1);
    /// let built = k.finish()?;
    /// // Two images of 8 by 6 pixels with 64 channels, padded by 1 all around.
    /// let three = Taps { padding: [1, 1], ..Taps::new(3) };
    /// let (map, numbers) = built.im2col_arguments("x", "(64,8,6,2):(1,64,512,3072)", &[three; 2])?;
    /// assert_eq!(map.extents, [64, 32]);
    /// assert_eq!(numbers, [8, 1, 1, 1, 6, 1, 1, 1]); // positions, stride, padding and dilation along W and along H
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Source: PTX ISA 5.5.4 and 9.7.9.25.5, im2col mode.
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails with the error of `Im2colPlan` if TMA cannot copy such tiles, and if a tile is several columns of
    /// fewer pixels.
    #[track_caller]
    pub fn im2col_tensor(
        &mut self,
        name: &str,
        ty: Ty,
        taps: &[i64],
        shared: impl IntoComposedLayout,
        multicast: i64,
    ) -> Im2colTensor {
        let inert = |k: &mut Self| Im2colTensor {
            name: name.to_string(),
            param: ParamId(0),
            plan: None,
            ty,
            owner: k.failure.owner(),
            shared: ComposedLayout::from(
                Layout::leaf(Int::Static(1), Int::Static(0)).expect("one element"),
            ),
            pixels: 1,
            channels: 1,
            blocks: multicast,
            filter: Vec::new(),
        };
        let at = Location::caller();
        let declared = self.attempt(at, inert, |k| {
            let shared = shared.into_composed_layout()?;
            k.new_im2col(name, ty, taps, shared, multicast)
        });
        if declared.plan.is_none() {
            return declared;
        }
        // The numbers follow the map.
        let taps_of = taps.len();
        let filter = taps.iter().enumerate().map(|(d, taps)| {
            let mut number = |what: &str, range: std::ops::Range<i64>| {
                self.index_argument(&format!("{name}_{what}_{d}"), range)
            };
            Dimension {
                taps: *taps,
                positions: number("positions", 1..POSITIONS),
                stride: number("stride", 1..9),
                padding: number("padding", 0..(1 << 15) + 1),
                dilation: number("dilation", 1..most_offset(taps_of) + 1),
            }
        });
        let filter = filter.collect();
        Im2colTensor { filter, ..declared }
    }

    fn new_im2col(
        &mut self,
        name: &str,
        ty: Ty,
        taps: &[i64],
        shared: ComposedLayout,
        multicast: i64,
    ) -> Result<Im2colTensor, ErrorKind> {
        let refuse = |why: String| ErrorKind::operands("im2col_tensor", format!("{name}: {why}"));
        let refuse_plan = |e: colex_atom::Error| refuse(e.to_string());
        let element = TmaElement::try_from(ty).map_err(refuse_plan)?;
        // An example with room for the filter: the extents of a launch are its own.
        let (mut extents, mut strides) = (vec![256_i64], vec![1_i64]);
        for taps in taps {
            strides.push(strides[strides.len() - 1].saturating_mul(extents[extents.len() - 1]));
            extents.push((*taps).max(16));
        }
        strides.push(strides[strides.len() - 1].saturating_mul(extents[extents.len() - 1]));
        extents.push(16);
        let like: Vec<Taps> = taps.iter().map(|count| Taps::new(*count)).collect();
        let request = Im2colTile {
            activations: Layout::new(extents, strides)?,
            taps: &like,
            shared: &shared,
            element,
            multicast,
        };
        let plan = Im2colPlan::new(request).map_err(refuse_plan)?;
        let columns = plan.instructions().map_err(refuse_plan)?;
        if columns.iter().any(|one| one.pixel != 0) {
            return Err(refuse(format!(
                "the tile {shared} is several columns of fewer pixels: all pixels of some channels lie side by side"
            )));
        }
        let size = |mode| shared.inner().mode(mode).map_or(1, |mode| mode.size());
        let (pixels, channels) = (size(0), size(1));
        let param = self.ir.tensor_map(name);
        self.launch.slots.push(Slot::Im2col(Box::new(Im2colSlot {
            name: name.to_string(),
            shared: shared.clone(),
            element,
            multicast,
            taps: taps.to_vec(),
            plan: plan.clone(),
        })));
        Ok(Im2colTensor {
            name: name.to_string(),
            param,
            plan: Some(plan),
            ty,
            owner: self.failure.owner(),
            shared,
            pixels,
            channels,
            blocks: multicast,
            filter: Vec::new(),
        })
    }

    /// Computes the first pixel of the tile at the tile coordinate `tile` along the rows of the matrix: of the part that the block of
    /// rank `rank` loads, if blocks share tiles. Rows beyond the last image are zeros.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let slab = "Sw<3,3,3> o 0 o (32,64):(64,1)";
    /// let x = k.im2col_tensor("x", Ty::F16, &[3, 3], slab, 1);
    /// # let (shared, landed) = (k.shared_tensor(Ty::F16, slab), k.barriers(1));
    /// # let tid = k.thread();
    /// # let is_first = k.equal(&tid, &0.into());
    /// let tile = k.block_index(0);
    /// # k.if_(is_first, |k| {
    /// #     k.init_barriers(&landed, 1);
    /// #     k.fence(FenceKind::MbarrierInit);
    /// #     k.arrive_expect(&landed.at(0), x.tile_bytes());
    /// let pixels = k.im2col_pixels(&x, &tile, &0.into());
    /// k.im2col_load(&x, &pixels, &0.into(), (2, 1), &shared, &landed.at(0)); // the first 64 channels, s = 2, r = 1
    /// # });
    /// # k.sync();
    /// # k.wait(&landed.at(0), &0.into());
    /// assert!(k.finish()?.kernel.ptx()?.contains(".im2col"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if the coordinate may be below 0, if the rank may be none of the blocks that share a tile, or if a
    /// slice of the tile has no place.
    #[track_caller]
    pub fn im2col_pixels(
        &mut self,
        tensor: &Im2colTensor,
        tile: &Index,
        rank: &Index,
    ) -> Im2colPixels {
        let inert = |k: &mut Self| Im2colPixels {
            coordinates: Vec::new(),
            owner: k.failure.owner(),
        };
        self.attempt(Location::caller(), inert, |k| {
            k.failure.own("a tensor map", tensor.owner)?;
            k.failure.own_indices([tile, rank])?;
            if tile.range().0 < 0 {
                let why = format!(
                    "{}: the coordinate {tile} may be {}, and the first tile is 0",
                    tensor.name,
                    tile.range().0
                );
                return Err(ErrorKind::operands("im2col_pixels", why));
            }
            if let Err(why) = check_rank(rank, tensor.blocks) {
                let why = format!("{}: {why}", tensor.name);
                return Err(ErrorKind::operands("im2col_pixels", why));
            }
            let first = |block: i64| -> Result<i64, ErrorKind> {
                let plan_error = |e: colex_atom::Error| {
                    ErrorKind::operands("im2col_pixels", format!("{}: {e}", tensor.name))
                };
                let slice = tensor.plan()?.slice(block).map_err(plan_error)?;
                Ok(slice.first().map_or(0, |one| one.pixel))
            };
            let each = if tensor.blocks > 1 { first(1)? } else { 0 };
            let farthest = (MAX_EXTENT + FARTHEST) / tensor.pixels.max(1);
            let first_row = tile.taken_within(0..farthest + 1, tensor.pixels);
            let mut rest = first_row + rank * each;
            let mut coordinates = Vec::new();
            for dimension in &tensor.filter {
                let position = &rest % &dimension.positions;
                rest = rest / &dimension.positions;
                coordinates.push(position * &dimension.stride - &dimension.padding);
            }
            coordinates.push(rest);
            Ok(Im2colPixels {
                coordinates,
                owner: k.failure.owner(),
            })
        })
    }

    /// Loads a tile: the pixels under the tap `taps` (along W, H, D), and the channels of the tile coordinate `channels`. Call it
    /// from one thread. The arriving data complete [`Im2colTensor::tile_bytes`] transaction bytes of the barrier. Pixels outside of
    /// the image, rows beyond the last image and channels beyond the last are zeros.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let slab = "(32,8):(8,1)";
    /// let x = k.im2col_tensor("x", Ty::F16, &[3], slab, 1); // one spatial dimension
    /// # let (shared, landed) = (k.shared_tensor(Ty::F16, slab), k.barriers(1));
    /// # let tid = k.thread();
    /// # let is_first = k.equal(&tid, &0.into());
    /// # k.if_(is_first, |k| {
    /// #     k.init_barriers(&landed, 1);
    /// #     k.fence(FenceKind::MbarrierInit);
    /// k.arrive_expect(&landed.at(0), x.tile_bytes());
    /// let pixels = k.im2col_pixels(&x, &0.into(), &0.into());
    /// k.im2col_load(&x, &pixels, &1.into(), 2, &shared, &landed.at(0)); // channels 8 to 15 under the last tap
    /// # });
    /// # k.sync();
    /// # k.wait(&landed.at(0), &0.into());
    /// assert!(k.finish()?.kernel.ptx()?.contains("cp.async.bulk.tensor.3d.shared::cluster.global.im2col"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if the filter has no such tap, if the tensor in shared memory is not a tile of the map, or if
    /// blocks share the tile.
    #[track_caller]
    pub fn im2col_load(
        &mut self,
        tensor: &Im2colTensor,
        pixels: &Im2colPixels,
        channels: &Index,
        taps: impl IntoIndices,
        shared: &Tensor,
        barrier: &Index,
    ) {
        let load = Load {
            operation: "im2col_load",
            tensor,
            pixels,
            channels,
            taps: taps.into_indices(),
            shared,
            rank: None,
        };
        self.run(Location::caller(), |k| k.load_pixels(&load, barrier, None));
    }

    /// Loads a block's part of a tile into the shared memory of the blocks of `mask`. `rank` is the block's among those that share
    /// the tile, as it was for the pixels.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_ir::Type;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # k.cluster([2, 1, 1]);
    /// # let slab = "Sw<3,3,3> o 0 o (32,64):(64,1)";
    /// let x = k.im2col_tensor("x", Ty::F16, &[3, 3], slab, 2);
    /// # let (shared, landed) = (k.shared_tensor(Ty::F16, slab), k.barriers(1));
    /// # let tid = k.thread();
    /// # let is_first = k.equal(&tid, &0.into());
    /// let rank = k.cluster_rank(2);
    /// k.if_(is_first, |k| {
    ///     let mask = k.emit(|ir| ir.mov(Type::B16, 0b11)); // blocks 0 and 1 of the cluster
    ///     let pixels = k.im2col_pixels(&x, &0.into(), &rank);
    ///     k.arrive_expect(&landed.at(0), x.tile_bytes());
    ///     let (first, tap) = (0.into(), (0, 0));
    ///     k.im2col_load_multicast(&x, &pixels, &first, tap, &shared, &landed.at(0), (&rank, mask));
    /// });
    /// assert!(k.finish()?.kernel.ptx()?.contains(".multicast::cluster"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::im2col_load`], and if the rank may be none of the blocks that share the tile.
    #[track_caller]
    #[allow(clippy::too_many_arguments, reason = "the operands of the instruction")]
    pub fn im2col_load_multicast(
        &mut self,
        tensor: &Im2colTensor,
        pixels: &Im2colPixels,
        channels: &Index,
        taps: impl IntoIndices,
        shared: &Tensor,
        barrier: &Index,
        (rank, mask): (&Index, Reg),
    ) {
        let load = Load {
            operation: "im2col_load_multicast",
            tensor,
            pixels,
            channels,
            taps: taps.into_indices(),
            shared,
            rank: Some(rank),
        };
        self.run(Location::caller(), |k| {
            k.load_pixels(&load, barrier, Some(mask))
        });
    }

    fn load_pixels(
        &mut self,
        load: &Load<'_>,
        barrier: &Index,
        mask: Option<Reg>,
    ) -> Result<(), ErrorKind> {
        let Load {
            operation,
            tensor,
            pixels,
            channels,
            taps,
            shared,
            rank,
        } = load;
        let refuse = |why: String| {
            let why = format!("{}: {why}", tensor.name);
            Err(ErrorKind::operands(operation, why))
        };
        self.failure.own("a tensor map", tensor.owner)?;
        self.failure.own("pixels", pixels.owner)?;
        self.failure.own_indices([*channels, barrier])?;
        self.failure.own_indices(taps)?;
        self.failure.own_indices(*rank)?;
        self.own_tensors(&[shared])?;
        let plan = tensor.plan()?;
        if (tensor.blocks > 1) != mask.is_some() {
            return refuse(format!(
                "it is shared by {} blocks: `im2col_load_multicast` if several, else `im2col_load`",
                tensor.blocks
            ));
        }
        let spatial = tensor.filter.len();
        if taps.len() != spatial || pixels.coordinates.len() != spatial + 1 {
            return refuse(format!(
                "{} taps and {} coordinates of a pixel for {spatial} dimensions",
                taps.len(),
                pixels.coordinates.len()
            ));
        }
        for (tap, dimension) in taps.iter().zip(&tensor.filter) {
            let (first, last) = tap.range();
            if first < 0 || last >= dimension.taps {
                return refuse(format!(
                    "the tap {tap} lies from {first} to {last}, and the filter has taps 0 to {}",
                    dimension.taps - 1
                ));
            }
        }
        if let Some(Err(why)) = rank.map(|rank| check_rank(rank, tensor.blocks)) {
            return refuse(why);
        }
        if channels.range().0 < 0 {
            return refuse(format!(
                "the coordinate {channels} may be {}, and the first channels are 0",
                channels.range().0
            ));
        }
        let View::Offsets { start, after, .. } = &shared.view else {
            return refuse("the tile's other end is in shared memory".to_string());
        };
        if let Err(why) = check_shared((tensor.ty, &tensor.shared), shared) {
            return refuse(why);
        }
        let bytes = i64::from(tensor.ty.bits()) / 8;
        let place = &shared.base + (start + after) * bytes;
        let farthest = (MAX_EXTENT + FARTHEST) / tensor.channels.max(1);
        let first_channel = channels.taken_within(0..farthest + 1, tensor.channels);
        let offsets = taps.iter().zip(&tensor.filter);
        let offsets: Vec<Index> = offsets
            .map(|(tap, dimension)| tap * &dimension.dilation)
            .collect();
        let plan_error =
            |e: colex_atom::Error| ErrorKind::operands(operation, format!("{}: {e}", tensor.name));
        let atom = plan.load().map_err(plan_error)?;
        let own = plan.slice(0).map_err(plan_error)?;
        let next = match tensor.blocks {
            1 => own.clone(),
            _ => plan.slice(1).map_err(plan_error)?,
        };
        let rank = rank.cloned().unwrap_or_else(|| 0.into());
        self.brings(barrier, tensor.tile_bytes());
        self.note(
            atom.name(),
            own.len() as i64,
            format!("of {}", tensor.name),
            Vec::new(),
        );
        let registers = offsets.iter().map(|offset| {
            let wide = self.value(offset);
            self.ir.cvt(Type::U16, Type::U32, wide)
        });
        let registers: Vec<Reg> = registers.collect();
        for (own, next) in own.iter().zip(&next) {
            let at = &place + (&rank * (next.shared - own.shared) + own.shared) * bytes;
            if at.alignment() % ALIGN != 0 {
                return refuse(format!(
                    "a column begins at byte {at} of shared memory, which need not be a multiple of {ALIGN}"
                ));
            }
            let mut coordinates = vec![&first_channel + own.channel];
            coordinates.extend(pixels.coordinates.iter().cloned());
            let coordinates = coordinates.iter().map(|c| self.operand(c)).collect();
            let args = CopyArgs {
                dst: End::Memory(self.address(&at, false)),
                tensor: Some((Base::Param(tensor.param).into(), coordinates)),
                barrier: Some(self.address(barrier, false)),
                offsets: registers.clone(),
                mask,
                ..CopyArgs::default()
            };
            self.ir.copy_atom(&atom, args);
        }
        Ok(())
    }
}
