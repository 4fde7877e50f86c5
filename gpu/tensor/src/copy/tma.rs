//! Tiles copied by the tensor memory accelerator (TMA).

use std::panic::Location;

use colex_atom::{CopyAtom, Reduction, TmaElement, TmaPlan, TmaTile, Ty};
use colex_layout::{
    Basis, ComposedLayout, Int, IntoComposedLayout, IntoIntTuple, IntoLayout, Layout, Tiler,
};

use crate::build::Builder;
use crate::build::launch::Slot;
use crate::build::tma_map::MapSlot;
use crate::error::ErrorKind;
use crate::failure::Owner;
use crate::index::Index;
use crate::tensor::coord::{IntoIndices, extents};
use crate::tensor::offset::layout_at_coordinates;
use crate::tensor::{FARTHEST, MAX_EXTENT, Tensor, View};
use colex_ir::{Address, Base, CopyArgs, End, Operand, ParamId, Reg};

/// A tensor that TMA copies in tiles: a tensor map among the parameters, and the boxes of a tile.
#[derive(Clone, Debug)]
pub struct TmaTensor {
    name: String,
    param: ParamId,
    /// Its place among the kernel's parameters.
    slot: usize,
    /// Kept in the kernel's signature too, for the tensor map of a launch. None if the tensor was refused.
    plan: Option<TmaPlan>,
    tile: Vec<i64>,
    /// How many elements its tiles are moved by along each mode. Empty if they are not.
    moved: Vec<Index>,
    /// The extent of its tiles along a mode, a number of the launch, where that is not the one it was declared with.
    narrowed: Option<Narrowed>,
    ty: Ty,
    owner: Owner,
    /// The layout of a tile in shared memory.
    shared: ComposedLayout,
    blocks: i64,
}

impl TmaTensor {
    /// Returns the transaction bytes of one tile: the bytes that the barrier of each block waits for.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # let slab = "(64,64):(64,1)";
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// let a = k.tma_tensor("a", Ty::F16, "(256,256):(256,_1)", &[64, 64], slab, 1);
    /// assert_eq!(a.tile_bytes(), 64 * 64 * 2);
    /// ```
    pub fn tile_bytes(&self) -> i64 {
        self.plan.as_ref().map_or(0, TmaPlan::tile_bytes)
    }

    /// Returns the tensor with all tiles moved by a number of elements along each mode, numbers of the kernel: the tiles of one
    /// sequence among the rows of many. What a load brings from beyond the tensor's end is zero, as it is of the tensor itself.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// let slab = "(64,64):(64,1)";
    /// let a = k.tma_tensor("a", Ty::F16, "(256,256):(256,_1)", &[64, 64], slab, 1);
    /// # let (shared, landed) = (k.shared_tensor(Ty::F16, slab), k.barriers(1));
    /// let first = k.index_argument("first", 0..256);
    /// # let tid = k.thread();
    /// # let is_first = k.equal(&tid, &0.into());
    /// # k.if_(is_first, |k| {
    /// #     k.init_barriers(&landed, 1);
    /// #     k.fence(FenceKind::MbarrierInit);
    /// #     k.arrive_expect(&landed.at(0), a.tile_bytes());
    /// k.tma_load(&a.offset_by((first, 0)), (1, 0), &shared, &landed.at(0)); // the 64 rows from first + 64 on
    /// # });
    /// # k.sync();
    /// # k.wait(&landed.at(0), &0.into());
    /// assert!(k.finish().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails where a tile of it is copied: if there is not one number per mode; if a number may be below 0; if a
    /// mode that is moved has several leaves, whose offsets are no sums; or if a number along the mode of stride 1 need not be a
    /// multiple of 16 bytes, at which every box begins.
    #[must_use]
    pub fn offset_by(&self, by: impl IntoIndices) -> TmaTensor {
        TmaTensor {
            moved: by.into_indices(),
            ..self.clone()
        }
    }

    fn plan(&self) -> Result<&TmaPlan, ErrorKind> {
        let refused = || {
            let why = format!("{} was refused by another kernel's builder", self.name);
            ErrorKind::operands("tma_tensor", why)
        };
        self.plan.as_ref().ok_or_else(refused)
    }
}

/// A mode along which the tiles of a launch are narrower.
#[derive(Clone, Debug)]
struct Narrowed {
    mode: usize,
    /// The dimension of the map that is this mode.
    dimension: usize,
    extent: Index,
}

/// One TMA copy of a tile.
struct Move<'a> {
    operation: &'static str,
    tensor: &'a TmaTensor,
    at: &'a [Index],
    shared: &'a Tensor,
    rank: Option<&'a Index>,
}

impl<'a> Move<'a> {
    /// A move of the whole tile by this block.
    fn whole(
        operation: &'static str,
        tensor: &'a TmaTensor,
        at: &'a [Index],
        shared: &'a Tensor,
    ) -> Self {
        Move {
            operation,
            tensor,
            at,
            shared,
            rank: None,
        }
    }
}

impl Builder {
    /// Declares a tensor that TMA copies in tiles of the extents `tile`. `shared` is the layout of one stage in shared
    /// memory. `layout` is an example: its static leaves and the form of its strides belong to the kernel, and
    /// [`crate::TensorKernel::tensor_map`] builds the map for the values of a launch. If `multicast` is above 1, this
    /// number of blocks of the cluster share each tile.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// let slab = "(64,64):(64,1)"; // a tile in shared memory
    /// let a = k.tma_tensor("a", Ty::F16, "(256,256):(256,_1)", &[64, 64], slab, 1);
    /// assert_eq!(a.tile_bytes(), 8192);
    /// let built = k.finish()?;
    /// assert_eq!(built.tensor_map("a", "(100,80):(80,_1)")?.extents, [64, 64]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails with the error of `TmaPlan` if TMA cannot copy such tiles.
    #[track_caller]
    pub fn tma_tensor(
        &mut self,
        name: &str,
        ty: Ty,
        layout: impl IntoLayout,
        tile: impl IntoIntTuple,
        shared: impl IntoComposedLayout,
        multicast: i64,
    ) -> TmaTensor {
        let inert = |k: &mut Self| TmaTensor {
            owner: k.failure.owner(),
            name: name.to_string(),
            param: ParamId(0),
            slot: 0,
            plan: None,
            tile: Vec::new(),
            moved: Vec::new(),
            narrowed: None,
            ty,
            shared: ComposedLayout::from(
                Layout::leaf(Int::Static(1), Int::Static(0)).expect("one element"),
            ),
            blocks: multicast,
        };
        self.attempt(Location::caller(), inert, |k| {
            let (layout, tile) = (layout.into_layout()?, extents("tma_tensor", tile)?);
            let shared = shared.into_composed_layout()?;
            k.new_map(name, ty, &layout, &tile, &shared, multicast)
        })
    }

    fn new_map(
        &mut self,
        name: &str,
        ty: Ty,
        layout: &Layout,
        tile: &[i64],
        shared: &ComposedLayout,
        multicast: i64,
    ) -> Result<TmaTensor, ErrorKind> {
        let refuse =
            |e: &dyn std::fmt::Display| ErrorKind::operands("tma_tensor", format!("{name}: {e}"));
        let element = TmaElement::try_from(ty).map_err(|e| refuse(&e))?;
        let modes: Vec<Tiler> = tile.iter().map(|n| Tiler::from(*n)).collect();
        let tiler = Tiler::Modes(modes);
        let request = TmaTile {
            global: layout,
            tile: &tiler,
            shared,
            element,
            multicast,
        };
        let plan = TmaPlan::new(request).map_err(|e| refuse(&e))?;
        let param = self.ir.tensor_map(name);
        let slot = self.launch.slots.len();
        self.launch.slots.push(Slot::Map(Box::new(MapSlot {
            name: name.to_string(),
            layout: layout.clone(),
            tile: tiler.clone(),
            shared: shared.clone(),
            element,
            multicast,
            plan: plan.clone(),
            is_stored: false,
            narrowed: None,
        })));
        Ok(TmaTensor {
            owner: self.failure.owner(),
            name: name.to_string(),
            param,
            slot,
            plan: Some(plan),
            tile: tile.to_vec(),
            moved: Vec::new(),
            narrowed: None,
            ty,
            shared: shared.clone(),
            blocks: multicast,
        })
    }

    /// Returns the tensor with tiles of `extent` elements along a mode of its tiles, a number of the launch: its boxes are that narrow, and a tile
    /// fills the beginning of its place in shared memory. Along this mode, the coordinate of a tile is that of its first element. The
    /// launch gives the map of [`TensorKernel::narrowed_tensor_map`](crate::TensorKernel::narrowed_tensor_map) for the same number.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// let slab = "(64,64):(64,1)";
    /// let a = k.tma_tensor("a", Ty::F16, "(256,256):(256,_1)", &[64, 64], slab, 1);
    /// let rows = k.index_argument("rows", 1..9) * 8;
    /// let few = k.narrowed_map(&a, 0, &rows);
    /// # let (shared, landed) = (k.shared_tensor(Ty::F16, slab), k.barriers(1));
    /// # let (tid, m) = (k.thread(), k.index_argument("tile", 0..4));
    /// # let is_first = k.equal(&tid, &0.into());
    /// # k.if_(is_first, |k| {
    /// k.tma_load(&few, (m * &rows, 0), &shared, &landed.at(0)); // `rows` rows from the first of tile `m` on
    /// # });
    /// assert!(k.finish().is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if the tile has no such mode or is several boxes along it, if `extent` may be less than 1 or more than the
    /// tile's, or if the blocks that share a tile may not begin their parts at whole periods of the swizzle.
    #[track_caller]
    pub fn narrowed_map(&mut self, tensor: &TmaTensor, mode: usize, extent: &Index) -> TmaTensor {
        let inert = |_: &mut Self| tensor.clone();
        self.attempt(Location::caller(), inert, |k| {
            k.failure.own("a tensor map", tensor.owner)?;
            k.failure.own_indices([extent])?;
            let refuse = |why: String| {
                let why = format!("{}: {why}", tensor.name);
                Err(ErrorKind::operands("narrowed_map", why))
            };
            let plan = tensor.plan()?;
            let is_mode = |modes: &Vec<Basis>| match &modes[..] {
                [one] => one.path().eq([mode]),
                _ => false,
            };
            let dimension = plan.modes().iter().position(is_mode);
            let (Some(dimension), Some(all)) = (dimension, tensor.tile.get(mode)) else {
                return refuse(format!("mode {mode} is no dimension of the map"));
            };
            let (least, most) = extent.range();
            if extent.poison().is_none() && (least < 1 || most > *all) {
                return refuse(format!(
                    "{extent} elements along mode {mode}, of tiles of {all}"
                ));
            }
            let first = plan.slice(0);
            let first = first.map_err(|e| ErrorKind::operands("narrowed_map", e.to_string()))?;
            if first.iter().any(|of| of.coordinates[dimension] != 0) {
                return refuse(format!("a tile is several boxes along mode {mode}"));
            }
            if let Slot::Map(map) = &mut k.launch.slots[tensor.slot] {
                map.narrowed = Some(dimension);
            }
            Ok(TmaTensor {
                narrowed: Some(Narrowed {
                    mode,
                    dimension,
                    extent: extent.clone(),
                }),
                ..tensor.clone()
            })
        })
    }

    /// The address of a tensor map, in a register made once.
    fn map_address(&mut self, tensor: &TmaTensor) -> Address {
        Base::Param(tensor.param).into()
    }

    /// Prefetches a tensor map into the descriptor cache (`prefetch.tensormap`).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # let slab = "(64,64):(64,1)";
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// let a = k.tma_tensor("a", Ty::F16, "(256,256):(256,_1)", &[64, 64], slab, 1);
    /// k.prefetch_map(&a);
    /// assert!(k.finish()?.kernel.ptx()?.contains("prefetch.tensormap"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn prefetch_map(&mut self, tensor: &TmaTensor) {
        self.run(Location::caller(), |k| {
            k.failure.own("a tensor map", tensor.owner)?;
            let a = k.map_address(tensor);
            k.ir.push(colex_ir::Memory::PrefetchTensorMap { a });
            Ok(())
        });
    }

    /// Loads the tile at the tile coordinates `at` into shared memory. Call it from one thread. Modes beyond those of the
    /// tile take element coordinates. The arriving data complete [`TmaTensor::tile_bytes`] transaction bytes of the
    /// barrier.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// let slab = "(64,64):(64,1)";
    /// let a = k.tma_tensor("a", Ty::F16, "(256,256):(256,_1)", &[64, 64], slab, 1);
    /// let (shared, landed) = (k.shared_tensor(Ty::F16, slab), k.barriers(1));
    /// let (tid, m) = (k.thread(), k.block_index(0));
    /// let is_first = k.equal(&tid, &0.into());
    /// k.if_(is_first, |k| {
    /// #     k.init_barriers(&landed, 1);
    /// #     k.fence(FenceKind::MbarrierInit);
    ///     k.arrive_expect(&landed.at(0), a.tile_bytes());
    ///     k.tma_load(&a, (m, 0), &shared, &landed.at(0));
    /// });
    /// # k.sync();
    /// k.wait(&landed.at(0), &0.into());
    /// assert!(k.finish()?.kernel.ptx()?.contains("cp.async.bulk.tensor.2d.shared::cluster.global"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if there is not one coordinate per mode; if `shared` is not in shared memory, has another
    /// element type, swizzle or layout than the map's tile, or is not aligned for the swizzle and TMA; or if the tensor is
    /// multicast.
    #[track_caller]
    pub fn tma_load(
        &mut self,
        tensor: &TmaTensor,
        at: impl IntoIndices,
        shared: &Tensor,
        barrier: &Index,
    ) {
        let at = at.into_indices();
        let work = Move::whole("tma_load", tensor, &at, shared);
        self.run(Location::caller(), |k| {
            k.load_boxes(&work, barrier, None, None)
        });
    }

    /// Loads this block's slice of a tile that several blocks share, and multicasts it to the same address in each of
    /// them. `rank` is the rank of this block among them; `mask` is a 16-bit register with one bit for each block of
    /// the cluster that receives the slice.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_ir::Type;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # k.cluster([2, 1, 1]);
    /// # let slab = "(64,64):(64,1)";
    /// let a = k.tma_tensor("a", Ty::F16, "(256,256):(256,_1)", &[64, 64], slab, 2);
    /// # let (shared, landed) = (k.shared_tensor(Ty::F16, slab), k.barriers(1));
    /// # let tid = k.thread();
    /// # let is_first = k.equal(&tid, &0.into());
    /// let rank = k.cluster_rank(2);
    /// k.if_(is_first, |k| {
    ///     let mask = k.emit(|ir| ir.mov(Type::B16, 0b11)); // blocks 0 and 1 of the cluster
    ///     k.arrive_expect(&landed.at(0), a.tile_bytes());
    ///     k.tma_load_multicast(&a, (0, 0), &shared, &landed.at(0), &rank, mask);
    /// });
    /// assert!(k.finish()?.kernel.ptx()?.contains(".multicast::cluster"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::tma_load`].
    #[track_caller]
    pub fn tma_load_multicast(
        &mut self,
        tensor: &TmaTensor,
        at: impl IntoIndices,
        shared: &Tensor,
        barrier: &Index,
        rank: &Index,
        mask: Reg,
    ) {
        let at = at.into_indices();
        let work = Move {
            operation: "tma_load_multicast",
            tensor,
            at: &at,
            shared,
            rank: Some(rank),
        };
        self.run(Location::caller(), |k| {
            k.load_boxes(&work, barrier, Some(mask), None)
        });
    }

    /// Loads a tile as [`Builder::tma_load`] does, with the cache policy in `policy` (`.L2::cache_hint`).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_ir::Type;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let slab = "(64,64):(64,1)";
    /// let a = k.tma_tensor("a", Ty::F16, "(256,256):(256,_1)", &[64, 64], slab, 1);
    /// # let (shared, landed) = (k.shared_tensor(Ty::F16, slab), k.barriers(1));
    /// # let tid = k.thread();
    /// # let is_first = k.equal(&tid, &0.into());
    /// k.if_(is_first, |k| {
    ///     let evict_first = k.emit(|ir| ir.mov(Type::B64, 0x12F0000000000000_i64));
    ///     k.arrive_expect(&landed.at(0), a.tile_bytes());
    ///     k.tma_load_hinted(&a, (0, 0), &shared, &landed.at(0), evict_first);
    /// });
    /// assert!(k.finish()?.kernel.ptx()?.contains(".L2::cache_hint"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::tma_load`].
    #[track_caller]
    pub fn tma_load_hinted(
        &mut self,
        tensor: &TmaTensor,
        at: impl IntoIndices,
        shared: &Tensor,
        barrier: &Index,
        policy: Reg,
    ) {
        let at = at.into_indices();
        let work = Move::whole("tma_load_hinted", tensor, &at, shared);
        self.run(Location::caller(), |k| {
            k.load_boxes(&work, barrier, None, Some(policy))
        });
    }

    /// Stores a tile from shared memory as part of the current bulk group. Generic-proxy writes to the tile must be
    /// made visible by `fence.proxy.async` before it, and [`Builder::bulk_commit`] must follow.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let slab = "(64,64):(64,1)";
    /// let a = k.tma_tensor("a", Ty::F16, "(256,256):(256,_1)", &[64, 64], slab, 1);
    /// # let shared = k.shared_tensor(Ty::F16, slab);
    /// # let (tid, m) = (k.thread(), k.block_index(0));
    /// # let is_first = k.equal(&tid, &0.into());
    /// k.fence(FenceKind::ProxyAsyncShared); // what the threads wrote to `shared`
    /// k.sync();
    /// k.if_(is_first, |k| {
    ///     k.tma_store(&a, (m, 0), &shared);
    ///     k.bulk_commit();
    ///     k.bulk_wait(0, false);
    /// });
    /// assert!(k.finish()?.parameters().all(|a| a.is_written));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::tma_load`], if a coordinate may be below 0, since such a store raises an
    /// illegal-instruction error, or if several blocks share the tile.
    #[track_caller]
    pub fn tma_store(&mut self, tensor: &TmaTensor, at: impl IntoIndices, shared: &Tensor) {
        let at = at.into_indices();
        let work = Move::whole("tma_store", tensor, &at, shared);
        self.run(Location::caller(), |k| {
            k.store_boxes(&work, tensor.plan()?.store()?)
        });
    }

    /// Reduces a tile from shared memory into the tensor (`cp.reduce.async.bulk.tensor`).
    ///
    /// ```
    /// # use colex_atom::{Arch, Reduction, Ty};
    /// # use colex_tensor::Builder;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # let slab = "(64,32):(32,1)";
    /// let a = k.tma_tensor("a", Ty::F32, "(256,256):(256,_1)", &[64, 32], slab, 1);
    /// # let shared = k.shared_tensor(Ty::F32, slab);
    /// # let tid = k.thread();
    /// # let is_first = k.equal(&tid, &0.into());
    /// k.if_(is_first, |k| {
    ///     k.tma_reduce(&a, Reduction::Add, (0, 0), &shared);
    ///     k.bulk_commit();
    ///     k.bulk_wait(0, false);
    /// });
    /// assert!(k.finish()?.kernel.ptx()?.contains("cp.reduce.async.bulk.tensor.2d"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::tma_store`], and if the element type does not have the reduction.
    #[track_caller]
    pub fn tma_reduce(
        &mut self,
        tensor: &TmaTensor,
        reduction: Reduction,
        at: impl IntoIndices,
        shared: &Tensor,
    ) {
        let at = at.into_indices();
        let work = Move::whole("tma_reduce", tensor, &at, shared);
        self.run(Location::caller(), |k| {
            let plan = tensor.plan()?;
            let element = plan.map().element;
            if element.reduced(reduction).is_none() {
                let why = format!(
                    "{}: {reduction:?} of elements of {element:?}, for which there is no reduction",
                    tensor.name
                );
                return Err(ErrorKind::operands("tma_reduce", why));
            }
            k.store_boxes(&work, plan.reduce(reduction)?)
        });
    }

    fn load_boxes(
        &mut self,
        work: &Move<'_>,
        barrier: &Index,
        mask: Option<Reg>,
        policy: Option<Reg>,
    ) -> Result<(), ErrorKind> {
        self.own_move(work)?;
        self.failure.own_indices([barrier])?;
        if (work.tensor.blocks > 1) != mask.is_some() {
            let why = format!(
                "{} is shared by {} blocks: `tma_load_multicast` if several, else `tma_load`",
                work.tensor.name, work.tensor.blocks
            );
            return Err(ErrorKind::operands("tma_load", why));
        }
        let atom = work.tensor.plan()?.load()?;
        if work.tensor.narrowed.is_none() {
            self.brings(barrier, work.tensor.tile_bytes());
        }
        self.each_box(work, &atom, |k, dst| CopyArgs {
            dst,
            barrier: Some(k.address(barrier, false)),
            mask,
            policy,
            ..CopyArgs::default()
        })
    }

    /// Refuses a map, coordinates and a tensor of another builder.
    fn own_move(&self, work: &Move<'_>) -> Result<(), ErrorKind> {
        self.failure.own("a tensor map", work.tensor.owner)?;
        self.failure.own_indices(work.at)?;
        self.failure.own_indices(work.rank)?;
        self.failure.own_indices(&work.tensor.moved)?;
        self.own_tensors(&[work.shared])
    }

    fn store_boxes(&mut self, work: &Move<'_>, atom: CopyAtom) -> Result<(), ErrorKind> {
        self.own_move(work)?;
        if work.tensor.blocks > 1 {
            let why = format!(
                "{} is shared by {} blocks, each of which loads a part of its tiles: a map that is stored to is of one block",
                work.tensor.name, work.tensor.blocks
            );
            return Err(ErrorKind::operands(work.operation, why));
        }
        if let Slot::Map(map) = &mut self.launch.slots[work.tensor.slot] {
            map.is_stored = true;
        }
        self.each_box(work, &atom, |_, src| CopyArgs {
            src,
            ..CopyArgs::default()
        })
    }

    /// An instruction for every box of the tile; `args` has what it needs beside the map, given its end in shared memory.
    fn each_box(
        &mut self,
        work: &Move<'_>,
        atom: &CopyAtom,
        args: impl Fn(&mut Self, End) -> CopyArgs,
    ) -> Result<(), ErrorKind> {
        let map = self.map_address(work.tensor);
        let boxes = self.boxes(work)?;
        self.note(
            atom.name(),
            boxes.len() as i64,
            format!("of {}", work.tensor.name),
            Vec::new(),
        );
        for (shared, coordinates) in boxes {
            let end = End::Memory(self.address(&shared, false));
            let tensor = Some((map, self.words(&coordinates)));
            let args = CopyArgs {
                tensor,
                ..args(self, end)
            };
            self.ir.copy_atom(atom, args);
        }
        Ok(())
    }

    fn words(&mut self, coordinates: &[Index]) -> Vec<Operand> {
        coordinates.iter().map(|c| self.operand(c)).collect()
    }

    /// For every box of the tile: its address in shared memory, and its coordinates in the map.
    fn boxes(&mut self, work: &Move<'_>) -> Result<Vec<(Index, Vec<Index>)>, ErrorKind> {
        let Move {
            operation,
            tensor,
            at,
            shared,
            rank,
        } = work;
        let refuse = |why: String| {
            Err(ErrorKind::operands(
                operation,
                format!("{}: {why}", tensor.name),
            ))
        };
        let plan = tensor.plan()?;
        let layout = plan.tensor();
        if at.len() != layout.rank() {
            return refuse(format!(
                "{} coordinates for {} modes",
                at.len(),
                layout.rank()
            ));
        }
        let View::Offsets { start, after, .. } = &shared.view else {
            return refuse("the tile's other end is in shared memory".to_string());
        };
        if let Err(why) = check_shared((tensor.ty, &tensor.shared), shared) {
            return refuse(why);
        }
        if let Some(Err(why)) = rank.map(|rank| check_rank(rank, tensor.blocks)) {
            return refuse(why);
        }
        let bytes = i64::from(tensor.ty.bits()) / 8;
        let place = &shared.base + (start + after) * bytes;
        let may_begin_before = |c: &&Index| c.range().0 < 0;
        if let Some(c) = at.iter().find(may_begin_before) {
            if !matches!(
                *operation,
                "tma_load" | "tma_load_hinted" | "tma_load_multicast"
            ) {
                return refuse(format!(
                    "the coordinate {c} may be {}, and nothing is stored before a tensor",
                    c.range().0
                ));
            }
            let unbounded = plan.unbounded_modes();
            if !unbounded.is_empty() {
                return refuse(format!(
                    "the coordinate {c} may be {}, and the map has several modes in one dimension, whose ends the copy engine \
                     does not see",
                    c.range().0
                ));
            }
        }
        let moved = &tensor.moved;
        if !moved.is_empty() && moved.len() != layout.rank() {
            let (count, modes) = (moved.len(), layout.rank());
            return refuse(format!("tiles moved by {count} numbers, of {modes} modes"));
        }
        for (i, by) in moved.iter().enumerate() {
            if by.as_constant() == Some(0) {
                continue;
            }
            let leaves = layout.get(&[i]).map_or(0, |mode| mode.leaves().len());
            if leaves != 1 || by.range().0 < 0 || by.range().1 > MAX_EXTENT {
                return refuse(format!(
                    "tiles moved by {by} along mode {i}: a mode of one leaf is moved by 0 to {MAX_EXTENT} elements"
                ));
            }
        }
        let narrowed = tensor.narrowed.as_ref();
        let step = |i: usize| match narrowed {
            Some(narrowed) if narrowed.mode == i => 1,
            _ => tensor.tile.get(i).copied().unwrap_or(1),
        };
        // A coordinate of the map has 32 bits, which hold that of no tile farther out.
        let begin = |(i, c): (usize, &Index)| {
            let by = moved.get(i).cloned().unwrap_or_else(|| 0.into());
            let farthest = (MAX_EXTENT + FARTHEST - by.range().1) / step(i).max(1);
            c.taken_within(c.range().0.min(0)..farthest + 1, step(i)) + by
        };
        let origin: Vec<Index> = at.iter().enumerate().map(begin).collect();
        let origin = layout_at_coordinates(layout, &origin);
        let plan_error =
            |e: colex_atom::Error| ErrorKind::operands(operation, format!("{}: {e}", tensor.name));
        let first = plan.slice(0).map_err(plan_error)?;
        let second = if tensor.blocks > 1 {
            plan.slice(1).map_err(plan_error)?
        } else {
            first.clone()
        };
        let rank = rank.cloned().unwrap_or_else(|| 0.into());
        let rank_of = first[0].coordinates.len();
        let boxes = first.iter().zip(&second).map(|(a, b)| {
            // The elements between the parts of two blocks, where the tile is cut along the narrowed mode.
            let part = narrowed.and_then(|narrowed| {
                let declared =
                    b.coordinates[narrowed.dimension] - a.coordinates[narrowed.dimension];
                let part = &narrowed.extent / tensor.blocks;
                (declared > 0).then_some((narrowed.dimension, declared, part))
            });
            let apart = match &part {
                Some((_, declared, part)) => part * ((b.shared - a.shared) / declared),
                None => (b.shared - a.shared).into(),
            };
            let shared = &place + (&rank * apart + a.shared) * bytes;
            let coordinate = |i: usize| {
                let (x, y) = (a.coordinates[i], b.coordinates[i]);
                let origin = origin.get(i).cloned().unwrap_or_else(|| 0.into());
                let step = match &part {
                    Some((dimension, _, part)) if *dimension == i => part.clone(),
                    _ => (y - x).into(),
                };
                origin + &rank * step + x
            };
            (shared, (0..rank_of).map(coordinate).collect())
        });
        let boxes: Vec<(Index, Vec<Index>)> = boxes.collect();
        if let Some(narrowed) = narrowed.filter(|_| tensor.blocks > 1) {
            let period = crate::tensor::offset::period(tensor.shared.swizzle());
            let begins = boxes.iter().map(|(shared, _)| shared.alignment());
            let least = begins.min().unwrap_or(0);
            if narrowed.extent.alignment() % tensor.blocks != 0 || least % (period * bytes) != 0 {
                return refuse(format!(
                    "the {} blocks that share a tile of {} elements may begin within a period of the swizzle",
                    tensor.blocks, narrowed.extent
                ));
            }
        }
        for (address, place) in &boxes {
            if address.alignment() % ALIGN != 0 {
                return refuse(format!(
                    "a box begins at byte {address} of shared memory, which need not be a multiple of {ALIGN}"
                ));
            }
            let aligned = |first: &Index| (first * bytes).alignment() % UNIT == 0;
            if let Some(first) = place.first().filter(|first| !aligned(first)) {
                return refuse(format!(
                    "a box begins at element {first} of the map's first dimension, which need not be a multiple of {} elements, {UNIT} \
                     bytes: a GPU ends the kernel at any other",
                    UNIT / bytes
                ));
            }
        }
        Ok(boxes)
    }
}

/// What the first coordinate of a box is a multiple of, in bytes. No manual says so; seen on an H200 (`TensorMap::loaded`).
const UNIT: i64 = 16;

/// The alignment of a box in shared memory in bytes (PTX ISA 5.5.6 and 9.7.9.25.5).
pub(super) const ALIGN: i64 = 128;

/// Refuses a rank that may be none of the blocks that share a tile: its slice would lie beside the tile.
pub(super) fn check_rank(rank: &Index, blocks: i64) -> Result<(), String> {
    let (first, last) = rank.range();
    if 0 <= first && last < blocks {
        return Ok(());
    }
    let most = blocks - 1;
    Err(format!(
        "the rank {rank} lies from {first} to {last}, and the blocks that share a tile have ranks 0 to {most}"
    ))
}

/// Refuses a tensor in shared memory that is not a tile of the map as TMA fills it: elements of this type in this layout.
pub(super) fn check_shared(
    (ty, ours): (Ty, &ComposedLayout),
    shared: &Tensor,
) -> Result<(), String> {
    let View::Offsets {
        swizzle,
        layout,
        start,
        ..
    } = &shared.view
    else {
        return Err("the tile's other end is in shared memory".to_string());
    };
    if shared.ty != ty {
        return Err(format!(
            "the tensor in shared memory has elements of {}, and the map's are {}",
            shared.ty, ty
        ));
    }
    let extents = |layout: &Layout| -> Vec<i64> {
        let mut extents: Vec<i64> = layout.modes().map(|mode| mode.size()).collect();
        while extents.last() == Some(&1) {
            extents.pop();
        }
        extents
    };
    if *swizzle != ours.swizzle()
        || extents(layout) != extents(ours.inner())
        || !layout.is_same_function(&ours.inner().to_static())
    {
        let found = swizzle.composition(layout).map_err(|e| e.to_string())?;
        return Err(format!(
            "the tensor in shared memory is {found}, and the map's tile {ours}"
        ));
    }
    if start.alignment() % crate::tensor::offset::period(*swizzle) != 0 {
        return Err(format!(
            "the stage begins at element {start}, in the middle of the swizzle {swizzle}"
        ));
    }
    if !shared.ends.is_empty() {
        return Err("a part of a partition that reaches beyond its tile is no tile".to_string());
    }
    Ok(())
}
