//! `Tensor`: elements in global or shared memory under a layout, or a thread's part of them.

pub(crate) mod coord;
pub(crate) mod identity;
pub(crate) mod offset;
pub(crate) mod partition;
pub(crate) mod partition_coords;

use std::panic::Location;
use std::rc::Rc;

use colex_atom::{Space, Ty};
use colex_layout::{
    Coord, Int, IntTuple, IntoComposedLayout, IntoIntTuple, Layout, Slot, Stride, Swizzle, Tiler,
};

use crate::error::ErrorKind;
use crate::failure::FirstFailure;
use crate::index::Index;
use crate::tensor::coord::{IntoIndices, SliceCoord, SliceMode, extents};
use crate::tensor::offset::{along, nested, period, swizzled};
use crate::tensor::partition_coords::Partitioner;

/// The largest dynamic extent. Coordinates of tiles that reach beyond it still fit 32 bits.
pub const MAX_EXTENT: i64 = (1 << 31) - (1 << 17);

/// The number of elements beyond the end of a tensor at which a tile may begin, so that coordinates fit 32 bits.
pub(crate) const FARTHEST: i64 = 1 << 16;

/// A tensor in global or shared memory, or a thread's part of it. It is a base address and a layout. In shared memory
/// the values of the layout are offsets; in global memory they are coordinates, since the launch provides the strides.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub(crate) space: Space,
    pub(crate) ty: Ty,
    /// In bytes.
    pub(crate) base: Index,
    pub(crate) view: View,
    /// The ends of the tiles that partitions cut unevenly.
    pub(crate) ends: Vec<TileEnd>,
    /// Which thread's part of a partition this is.
    pub(crate) share: Option<Share>,
    /// The first failure of the kernel that it belongs to.
    pub(crate) failure: FirstFailure,
}

/// Which thread of how many a part belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    pub(crate) thread: Index,
    /// The numbers of all threads of the partition.
    pub(crate) threads: Rc<[i64]>,
    /// The tiled copy or MMA whose partition it is, and which side or operand of it.
    pub(crate) of: Partitioner,
    /// The extents of the tile, and how many modes it has.
    pub(crate) tile: Vec<i64>,
    pub(crate) rank: usize,
    pub(crate) kept: Kept,
    /// Whether every coordinate of the tile is known to have an element of its own.
    pub(crate) is_injective: bool,
}

/// What is here of a thread's part of a tile.
#[derive(Clone, Debug)]
pub(crate) enum Kept {
    /// All of it, in its own order.
    All,
    /// The elements of these numbers, all less than they are by one constant.
    Some(Rc<Layout>),
    /// No rule says which elements.
    Unknown,
}

/// The end of a tile that a partition reaches beyond: the coordinates `start + layout(c)` in the tile, and its extents.
#[derive(Clone, Debug)]
pub(crate) struct TileEnd {
    pub(crate) layout: Layout,
    pub(crate) start: Vec<Index>,
    pub(crate) extents: Vec<i64>,
    /// The extents that the partition covers.
    pub(crate) reach: Vec<i64>,
}

/// What a cut keeps of a layout: the layout in modes that can be fixed, the coordinate that fixes them, and the places
/// in some of them that only the kernel knows.
pub(crate) struct Cut {
    pub(crate) all: Layout,
    pub(crate) coord: Coord,
    pub(crate) places: Vec<(Layout, Index)>,
}

#[derive(Clone, Debug)]
pub(crate) enum View {
    /// `swizzle(start + layout(c)) + after`, in elements.
    Offsets {
        swizzle: Swizzle,
        layout: Layout,
        start: Index,
        after: Index,
    },
    /// Coordinates `start + layout(c)` of a dense tensor.
    Coords {
        layout: Layout,
        start: Vec<Index>,
        of: Rc<Dense>,
        /// The tile that `local_tile` cut: where it begins and its extent along each mode.
        tile: Vec<(Index, i64)>,
        /// Whether the author says that the tile lies inside of the tensor.
        stated_inside: bool,
    },
}

/// A tensor parameter.
#[derive(Clone, Debug)]
pub(crate) struct Dense {
    /// Its place among the kernel's parameters.
    pub(crate) slot: usize,
    pub(crate) name: String,
    pub(crate) layout: Layout,
    /// The leaves of each mode: extent and stride.
    pub(crate) modes: Vec<Vec<(Index, Index)>>,
    /// Where the modes begin: at 0, or where a narrowed tensor begins.
    pub(crate) begins: Vec<Index>,
    /// The ends of the modes: their extents, or where a narrowed tensor ends.
    pub(crate) extents: Vec<Index>,
    /// The modes that were narrowed: the launch does not know their ends.
    pub(crate) narrowed: Vec<usize>,
}

/// The coordinates of a whole parameter: dynamic where its extents are, so that nothing cuts it but `local_tile`.
pub(crate) fn whole(layout: &Layout) -> Result<Layout, ErrorKind> {
    let shape = layout.shape();
    let extents = shape.modes().map(|mode| mode.product());
    let extents = extents.collect::<Result<Vec<Int>, _>>()?;
    Ok(Layout::identity(IntTuple::flat(extents))?)
}

/// `(a,b,..):(1@0,1@1,..)`, also for one mode.
pub(crate) fn identity(extents: &[i64]) -> Result<Layout, ErrorKind> {
    let shape = IntTuple::flat(extents.iter().map(|n| Int::Static(*n)));
    Ok(Layout::identity(shape)?.to_static())
}

impl Tensor {
    /// Returns the type of an element.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// assert_eq!(k.tensor("a", Ty::F16, "8:1").ty(), Ty::F16);
    /// ```
    pub fn ty(&self) -> Ty {
        self.ty
    }

    /// One element that nothing is done with: what a failed call hands out.
    pub(crate) fn inert(failure: &FirstFailure, space: Space, ty: Ty) -> Tensor {
        Tensor {
            space,
            ty,
            base: Index::constant(0),
            view: View::Offsets {
                swizzle: Swizzle::IDENTITY,
                layout: Layout::leaf(Int::Static(1), Int::Static(0)).expect("one element"),
                start: Index::constant(0),
                after: Index::constant(0),
            },
            ends: Vec::new(),
            share: None,
            failure: failure.clone(),
        }
    }

    /// Returns what `body` makes of this tensor; where it fails, the failure is kept and the tensor itself is handed out.
    pub(crate) fn attempt(
        &self,
        at: &'static Location<'static>,
        body: impl FnOnce() -> Result<Tensor, ErrorKind>,
    ) -> Tensor {
        self.failure.attempt(at, || self.clone(), body)
    }

    /// Returns the same bits as elements of another type of the same width.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let a = k.tensor("a", Ty::F16, "8:1");
    /// assert_eq!(a.as_type(Ty::Bf16).ty(), Ty::Bf16);
    /// a.as_type(Ty::F32);
    /// assert!(k.finish().is_err()); // another width
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`](crate::Builder::finish) fails if the type has another width.
    #[track_caller]
    pub fn as_type(&self, ty: Ty) -> Tensor {
        self.attempt(Location::caller(), || {
            same_width("as_type", self.ty, ty)?;
            Ok(Tensor { ty, ..self.clone() })
        })
    }

    /// Returns the same shared memory under another layout, swizzled or not (CuTe: `make_tensor(tensor.data(), layout)`). Threads
    /// that move elements from one layout to the other in place transpose a tile, for example.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let rows = k.shared_tensor(Ty::F32, "(8,4):(4,1)");
    /// let columns = rows.with_layout("(8,4):(1,8)");
    /// assert_eq!(columns.layout().to_string(), "(_8,_4):(_1,_8)");
    /// assert_eq!(k.finish()?.dynamic_shared(), 128); // both are one
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`](crate::Builder::finish) fails if `layout` is not a layout or has offsets below 0; if the tensor is in
    /// global memory or is part of another tensor; if the layout reaches beyond the memory of the tensor; and if the tensor does
    /// not begin at a multiple of the period of the layout's swizzle.
    #[track_caller]
    pub fn with_layout(&self, layout: impl IntoComposedLayout) -> Tensor {
        self.attempt(Location::caller(), || {
            let refuse = |why: String| Err(ErrorKind::operands("with_layout", why));
            let layout = layout.into_composed_layout()?;
            let (swizzle, inner) = (layout.swizzle(), layout.inner().to_static());
            let whole = match &self.view {
                View::Offsets {
                    layout: own,
                    start,
                    after,
                    ..
                } => {
                    let is_first = [start, after].map(|at| at.as_constant() == Some(0));
                    (self.share.is_none() && is_first == [true; 2]).then_some(own)
                }
                View::Coords { .. } => None,
            };
            let Some(own) = whole else {
                return refuse(
                    "the tensor is not a whole one in shared memory: only that has another layout"
                        .to_string(),
                );
            };
            let (has, end) = (own.cosize()?, inner.cosize()?);
            let needs = end.saturating_add(layout.base_offset());
            let lowest = inner.leaves().iter().map(|leaf| {
                let stride = leaf.stride.coefficient().value();
                stride.min(0).saturating_mul(leaf.extent.value() - 1)
            });
            if layout.base_offset().saturating_add(lowest.sum()) < 0 {
                return refuse(format!("{layout} has offsets below 0"));
            }
            // A swizzle that mixes into higher bits reaches to the end of its period.
            let period = period(swizzle);
            let needs = if swizzle.into_mask() > swizzle.from_mask() {
                needs.saturating_add(period - 1) / period * period
            } else {
                needs
            };
            if needs > has {
                return refuse(format!(
                    "{layout} reaches to element {needs}, and the tensor has {has}"
                ));
            }
            let bytes = period * i64::from(self.ty.bits()) / 8;
            if self.base.alignment() % bytes != 0 {
                return refuse(format!(
                    "the swizzle of {layout} repeats every {bytes} bytes, and the tensor begins at a multiple of {}",
                    self.base.alignment()
                ));
            }
            Ok(Tensor {
                view: View::Offsets {
                    swizzle,
                    layout: inner,
                    start: Index::constant(layout.base_offset()),
                    after: Index::constant(0),
                },
                ..self.clone()
            })
        })
    }

    /// Returns the memory space that the tensor is in.
    ///
    /// ```
    /// # use colex_atom::{Arch, Space, Ty};
    /// # use colex_tensor::Builder;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// assert_eq!(k.tensor("a", Ty::F16, "8:1").space(), Space::Global);
    /// assert_eq!(k.shared_tensor(Ty::F16, "8:1").space(), Space::Shared);
    /// ```
    pub fn space(&self) -> Space {
        self.space
    }

    /// Returns the layout whose values are offsets in elements or, in global memory, coordinates.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let a = k.tensor("a", Ty::F32, "(100,64):(64,_1)");
    /// assert_eq!(format!("{:#}", a.layout()), "(100,64):(1@0,1@1)"); // coordinates
    /// let tile = k.shared_tensor(Ty::F32, "(8,8):(8,1)");
    /// assert_eq!(tile.layout().to_string(), "(_8,_8):(_8,_1)"); // offsets
    /// ```
    pub fn layout(&self) -> &Layout {
        match &self.view {
            View::Offsets { layout, .. } | View::Coords { layout, .. } => layout,
        }
    }

    /// Returns the extent of mode `mode` of a parameter or of a tensor in shared memory; 1 for a mode beyond the last. Of a part of
    /// a parameter it is the extent of the parameter's mode that the part's mode runs along.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let a = k.tensor("a", Ty::F32, "(100,_64):(64,_1)");
    /// assert_eq!(a.extent(0).as_constant(), None); // known at launch
    /// assert_eq!([1, 2].map(|mode| a.extent(mode).as_constant()), [Some(64), Some(1)]);
    /// ```
    pub fn extent(&self, mode: usize) -> Index {
        match &self.view {
            View::Coords {
                of, start, tile, ..
            } => match self.parameter_mode(mode) {
                Some(own) if tile.is_empty() && of.narrowed.contains(&own) => {
                    &of.extents[own] - &start[own]
                }
                Some(own) => of.extents[own].clone(),
                None => layout_extent(self.layout(), mode),
            },
            View::Offsets { layout, .. } => layout_extent(layout, mode),
        }
    }

    /// The mode of the parameter that a mode of the layout runs along, one coordinate after the other.
    pub(crate) fn parameter_mode(&self, mode: usize) -> Option<usize> {
        let mode = self.layout().mode(mode)?;
        match mode.leaves() {
            [leaf] if leaf.stride.coefficient().value() == 1 => match &leaf.stride {
                Stride::Basis(basis) => basis.path().next(),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a mode of a parameter without a tile has all coordinates of the parameter's mode, or of its narrowed part.
    pub(crate) fn has_whole_mode(&self, mode: usize) -> bool {
        let View::Coords {
            of, layout, tile, ..
        } = &self.view
        else {
            return false;
        };
        let (Some(own), Some(mode)) = (self.parameter_mode(mode), layout.mode(mode)) else {
            return false;
        };
        let is_dynamic =
            |extent: &Index| !mode.is_static() || extent.as_constant() == Some(mode.size());
        tile.is_empty()
            && (of.narrowed.contains(&own) || !layout.is_static() && is_dynamic(&of.extents[own]))
    }

    /// The mode of the parameter along which the elements of a mode of the layout are neighbours.
    pub(crate) fn neighbours_along(&self, mode: usize) -> Option<usize> {
        let mode = self.layout().mode(mode)?;
        match &mode
            .leaves()
            .iter()
            .find(|leaf| leaf.extent.value() > 1)?
            .stride
        {
            Stride::Basis(basis) => basis.path().next(),
            _ => None,
        }
    }

    /// The mode of the parameter that a mode of the layout runs along, or why there are no tiles along it.
    fn cut_along(&self, operation: &'static str, mode: usize) -> Result<usize, ErrorKind> {
        let layout = self.layout();
        let own = self.parameter_mode(mode);
        let others = (0..layout.rank()).filter(|other| *other != mode);
        let is_alone = others
            .filter_map(|other| self.parameter_mode(other))
            .all(|other| Some(other) != own);
        own.filter(|_| is_alone).ok_or_else(|| {
            let why = format!(
                "mode {mode} of {layout} does not run along one mode of the parameter, which no other mode runs along: cut the \
                 parameter before its modes are arranged anew"
            );
            ErrorKind::operands(operation, why)
        })
    }

    /// Returns the tile of the extents `tile` at the tile coordinates `at`, mode by mode. Modes of the tensor beyond
    /// those of the tile are fixed at their coordinate. No tile begins more than 65536 elements beyond the tensor's
    /// end, so that coordinates fit 32 bits.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 128);
    /// let a = k.tensor("a", Ty::F16, "(1000,512,7):(512,_1,512000)");
    /// let (m, batch) = (k.block_index(0), k.block_index(1));
    /// let tile = a.local_tile((128, 32), (&m, 3, &batch));
    /// assert_eq!(format!("{:#}", tile.layout()), "(128,32):(1@0,1@1)");
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`](crate::Builder::finish) fails if there is not one coordinate per mode, or if the tile lies
    /// outside of the tensor for all values of the coordinates; of a part of a parameter, if one of its modes does not run along
    /// one mode of the parameter, or if it has not that tile in every launch.
    #[track_caller]
    pub fn local_tile(&self, tile: impl IntoIntTuple, at: impl IntoIndices) -> Tensor {
        let at = at.into_indices();
        self.attempt(Location::caller(), || {
            self.failure.own_indices(&at)?;
            self.tile(&extents("local_tile", tile)?, &at)
        })
    }

    fn tile(&self, tile: &[i64], at: &[Index]) -> Result<Tensor, ErrorKind> {
        let View::Coords {
            start, of, layout, ..
        } = &self.view
        else {
            return self.shared_tile(tile, at);
        };
        if at.len() != layout.rank() || tile.len() > at.len() {
            let why = format!(
                "{} coordinates and a tile of {} modes for {} of {} modes",
                at.len(),
                tile.len(),
                of.name,
                layout.rank()
            );
            return Err(ErrorKind::operands("local_tile", why));
        }
        let modes = (0..at.len()).map(|mode| self.cut_along("local_tile", mode));
        let modes = modes.collect::<Result<Vec<usize>, ErrorKind>>()?;
        self.check_tiles(tile, at, &modes)?;
        let step = |i: usize| tile.get(i).copied().unwrap_or(1).max(1);
        for (i, (c, own)) in at.iter().zip(&modes).enumerate() {
            let (low, high) = c.range();
            let beyond = (of.extents[*own].range().1 + FARTHEST) / step(i);
            if high < 0 || low > beyond {
                let why = format!(
                    "the tile's number along mode {i} of {} is {c}, and lies from 0 to {beyond}",
                    of.name
                );
                return Err(ErrorKind::operands("local_tile", why));
            }
        }
        let begin = |i: usize, c: &Index| {
            let end = of.extents[modes[i]].range().1 + FARTHEST;
            // A coordinate below 0 is kept, since `copy_in_bounds` tests for it.
            c.taken_within(c.range().0.min(0)..end / step(i) + 1, step(i))
        };
        let (mut start, mut steps) = (start.clone(), vec![1; start.len()]);
        for (i, (c, own)) in at.iter().zip(&modes).enumerate() {
            start[*own] = &start[*own] + begin(i, c);
            steps[*own] = step(i);
        }
        let cut = start.iter().cloned().zip(steps).collect();
        Ok(Tensor {
            view: View::Coords {
                layout: tile_along(tile, &modes, start.len())?,
                tile: cut,
                start,
                of: Rc::clone(of),
                stated_inside: false,
            },
            ..self.clone().of_a_part()
        })
    }

    /// Refuses tiles that reach beyond the part of a parameter that is cut, where the part ends before the parameter does.
    fn check_tiles(&self, tile: &[i64], at: &[Index], modes: &[usize]) -> Result<(), ErrorKind> {
        let View::Coords { of, layout, .. } = &self.view else {
            return Ok(());
        };
        for (i, (c, own)) in at.iter().zip(modes).enumerate() {
            let mode = layout.get(&[i])?;
            let (n, step) = (mode.size(), tile.get(i).copied().unwrap_or(1).max(1));
            let is_whole = !mode.is_static() || of.extents[*own].as_constant() == Some(n);
            if is_whole || of.narrowed.contains(own) && self.is_parameter() {
                continue;
            }
            if n % step != 0 {
                let why = format!(
                    "a tile of {step} along mode {i} of the part {layout} of {}, which {step} does not divide: a part has whole \
                     tiles",
                    of.name
                );
                return Err(ErrorKind::operands("local_tile", why));
            }
            let tiles = Layout::leaf(n / step, step)?.to_static();
            places("local_tile", &tiles, c)?;
        }
        Ok(())
    }

    /// Whether no tile was cut.
    fn is_parameter(&self) -> bool {
        matches!(&self.view, View::Coords { tile, .. } if tile.is_empty())
    }

    /// The tile of a tensor in shared memory: its layout is static, and divided as it is.
    fn shared_tile(&self, tile: &[i64], at: &[Index]) -> Result<Tensor, ErrorKind> {
        let tiler = Tiler::Modes(tile.iter().map(|n| Tiler::from(*n)).collect());
        let layout = self.layout();
        if at.len() != layout.rank() || !layout.is_divided_by(&tiler)? {
            let why = format!(
                "{} coordinates of tiles {tiler}, and the tensor is {layout}: a coordinate for each mode, and whole tiles",
                at.len()
            );
            return Err(ErrorKind::operands("local_tile", why));
        }
        self.clone().of_a_part().cut(|layout| {
            let cut = layout.zipped_divide(&tiler)?;
            let all = |n| Coord::concat(&vec![Coord::from(Slot::All); n]);
            let fixed = Coord::concat(&vec![Coord::from(0); at.len()]);
            let rest = (0..at.len())
                .zip(at)
                .map(|(i, c)| Ok((cut.get(&[1, i])?, c.clone())));
            let places = rest.collect::<Result<Vec<_>, ErrorKind>>()?;
            for (mode, place) in &places {
                self::places("local_tile", &mode.to_static(), place)?;
            }
            Ok(Cut {
                all: cut,
                coord: Coord::concat(&[all(tile.len()), fixed]),
                places,
            })
        })
    }

    /// Returns a parameter with its last modes fixed at these coordinates: one matrix of a batch, which `local_tile` cuts
    /// and `elements` accesses by the modes that are left.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 128);
    /// let a = k.tensor("a", Ty::F16, "(1000,512,7):(512,_1,512000)");
    /// let (m, batch) = (k.block_index(0), k.block_index(1));
    /// let tile = a.fixed_behind([&batch]).local_tile((128, 32), (&m, 3));
    /// assert_eq!(tile.coordinates(0)[..2], [&m * 128, 96.into()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`](crate::Builder::finish) fails if the tensor is not a whole parameter, or if no mode is left.
    #[track_caller]
    pub fn fixed_behind(&self, at: impl IntoIndices) -> Tensor {
        let at = at.into_indices();
        self.attempt(Location::caller(), || {
            self.failure.own_indices(&at)?;
            let mut part = self.clone();
            if at.is_empty() {
                return Ok(part);
            }
            let rank = self.layout().rank();
            let kept = rank.saturating_sub(at.len());
            let behind = (kept..rank).map(|mode| self.parameter_mode(mode));
            let behind: Option<Vec<usize>> = behind.collect();
            let refuse = |why: String| Err(ErrorKind::operands("fixed_behind", why));
            let View::Coords {
                layout,
                start,
                tile,
                ..
            } = &mut part.view
            else {
                return refuse("a tensor in shared memory is cut by `at`".to_string());
            };
            let behind = behind.filter(|_| tile.is_empty() && rank == start.len() && kept > 0);
            let Some(behind) = behind else {
                let why = format!(
                    "{} coordinates of {layout}, a parameter or a part of it",
                    at.len()
                );
                return refuse(why);
            };
            for (own, at) in behind.into_iter().zip(&at) {
                start[own] = &start[own] + at;
            }
            *layout = layout.select(&(0..kept).collect::<Vec<usize>>())?;
            Ok(part)
        })
    }

    /// Returns the part of a parameter from coordinate `first` to `end` (excluded) of a mode, with the numbers of the kernel: the
    /// rows of one sequence among those of many. Its coordinates along the mode begin at 0, and
    /// [`Builder::copy_in_bounds`](crate::Builder::copy_in_bounds) and [`elements`](Tensor::elements) leave out what lies at its
    /// end or beyond, as they do for a whole tensor. Where `end` lies beyond the tensor, the part ends with it.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let table = k.tensor("table", Ty::F32, "(100,_64):(64,_1)");
    /// let [first, end] = ["first", "end"].map(|name| k.index_argument(name, 0..101));
    /// let rows = table.narrow(0, &first, &end);
    /// let tile = rows.local_tile((8, 16), (2, 0));
    /// assert_eq!(tile.coordinates(9)[..2], [first + 17, 1.into()]); // index 9 of the tile is (1, 1)
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`](crate::Builder::finish) fails if the tensor is not a whole parameter, or has no such mode.
    #[track_caller]
    pub fn narrow(&self, mode: usize, first: impl Into<Index>, end: impl Into<Index>) -> Tensor {
        let [first, end] = [first.into(), end.into()];
        self.attempt(Location::caller(), || {
            self.failure.own_indices([&first, &end])?;
            let mut part = self.clone();
            let own = self.parameter_mode(mode);
            let refuse = |why: String| Err(ErrorKind::operands("narrow", why));
            let View::Coords {
                layout,
                start,
                of,
                tile,
                ..
            } = &mut part.view
            else {
                return refuse("a tensor in shared memory is cut by `local_tile`".to_string());
            };
            // A part of static extents ends before the parameter.
            let is_whole = |own: &usize| {
                tile.is_empty()
                    && layout.get(&[mode]).is_ok_and(|mode| {
                        let extent = of.layout.get(&[*own]).map(|own| own.size());
                        !mode.is_static() || extent == Ok(mode.size())
                    })
            };
            let Some(own) = own.filter(is_whole) else {
                let why = format!(
                    "mode {mode} of {layout}: a whole parameter has a coordinate for each mode"
                );
                return refuse(why);
            };
            let mut cut = (**of).clone();
            let from = start[own].clone();
            cut.extents[own] = (&from + end).min(&cut.extents[own]);
            cut.narrowed.push(own);
            start[own] = from + first;
            cut.begins[own] = start[own].max_of(&cut.begins[own]);
            *of = Rc::new(cut);
            Ok(part)
        })
    }

    /// Returns the same tile, declared to lie inside of the tensor in global memory because a branch of the kernel
    /// tests it or the launch ensures it. [`Builder::copy`](crate::Builder::copy) then does not require of the launch
    /// that the tile divides the extents. Of [`elements`](Tensor::elements), the modes that were fixed
    /// ([`Tensor::fixed_behind`], [`Tensor::at`]) are then claimed to lie inside, and no instruction tests them.
    ///
    /// ```
    /// # use colex_proof::examples::copied;
    /// let to = copied((4, 8), |k, copy, src, dst| {
    ///     let held = k.fragment_like(src);
    ///     k.copy(copy, &src.stated_inside(), &held); // asks the launch for no multiples of the tile
    ///     k.copy(copy, &held, dst);
    /// })?;
    /// assert_eq!(to[31], 31.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn stated_inside(&self) -> Tensor {
        let mut stated = self.clone();
        if let View::Coords { stated_inside, .. } = &mut stated.view {
            *stated_inside = true;
        }
        stated
    }

    /// Returns the tile of a tensor in global memory shifted by a number of elements, which may be negative, along each
    /// mode of the parameter. Its coordinates are still those of the parameter, so that
    /// [`Builder::copy_in_bounds`](crate::Builder::copy_in_bounds) and `copy_if` see where it leaves the tensor.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 128);
    /// let a = k.tensor("a", Ty::F32, "(100,100):(100,_1)");
    /// let below = a.local_tile((8, 8), (2, 3)).offset_by((1, 0));
    /// let coordinates: Vec<String> = below.coordinates(9).iter().map(|c| c.to_string()).collect();
    /// assert_eq!(coordinates, ["18", "25"]);
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`](crate::Builder::finish) fails if the tensor is in shared memory, or if there is not one
    /// number per mode.
    #[track_caller]
    pub fn offset_by(&self, by: impl IntoIndices) -> Tensor {
        let by = by.into_indices();
        self.attempt(Location::caller(), || {
            self.failure.own_indices(&by)?;
            self.moved_by(&by)
        })
    }

    fn moved_by(&self, by: &[Index]) -> Result<Tensor, ErrorKind> {
        let mut moved = self.clone();
        let refuse = |why: &str| ErrorKind::operands("offset_by", why);
        let View::Coords {
            start, of, tile, ..
        } = &mut moved.view
        else {
            return Err(refuse(
                "a tensor in shared memory has no coordinates: take a `local_tile` of it",
            ));
        };
        if by.len() != start.len() {
            let why = format!(
                "{} numbers for {} of {} modes",
                by.len(),
                of.name,
                start.len()
            );
            return Err(refuse(&why));
        }
        for (s, c) in start.iter_mut().zip(by) {
            *s = &*s + c;
        }
        for ((s, _), c) in tile.iter_mut().zip(by) {
            *s = &*s + c;
        }
        Ok(moved)
    }

    /// Returns the coordinates in the parameter of the element at an index of the layout.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let a = k.tensor("a", Ty::F32, "(100,64):(64,_1)");
    /// let tile = a.local_tile((8, 16), (2, 1));
    /// assert_eq!(tile.coordinates(9), [17.into(), 17.into()]); // index 9 of the tile is (1, 1)
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`](crate::Builder::finish) fails if the tensor is in shared memory, or if the index is beyond
    /// the last.
    #[track_caller]
    pub fn coordinates(&self, index: i64) -> Vec<Index> {
        let inert = || vec![Index::constant(0); self.layout().rank()];
        let of = || self.coordinates_at(index);
        self.failure.attempt(Location::caller(), inert, of)
    }

    /// Returns a slice: `..` keeps a mode, and a constant or an [`Index`] fixes it.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let stages = k.shared_tensor(Ty::F16, "(64,32,3):(32,1,2048)");
    /// let stage = k.index_argument("stage", 0..3);
    /// assert_eq!(stages.slice((.., 4, &stage)).layout().to_string(), "(_64):(_32)");
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`](crate::Builder::finish) fails if the coordinate does not fit the layout, or if the range of
    /// an index contains coordinates that its mode does not have.
    #[track_caller]
    pub fn slice(&self, coord: impl Into<SliceCoord>) -> Tensor {
        let coord = coord.into();
        self.attempt(Location::caller(), || self.sliced("slice", coord))
    }

    /// Returns the slice at coordinate `place` of mode `mode`, such as a stage or a step along K.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let stages = k.shared_tensor(Ty::F16, "(64,32,3):(32,1,2048)");
    /// let stage = k.index_argument("stage", 0..3);
    /// assert_eq!(stages.at(2, &stage).layout().to_string(), "(_64,_32):(_32,_1)");
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`](crate::Builder::finish) fails as for [`Tensor::slice`].
    #[track_caller]
    pub fn at(&self, mode: usize, place: impl Into<Index>) -> Tensor {
        let place = place.into();
        self.attempt(Location::caller(), || {
            self.layout().get(&[mode])?;
            let mut modes = vec![SliceMode::All; self.layout().rank()];
            modes[mode] = SliceMode::At(place);
            self.sliced("at", SliceCoord::Modes(modes))
        })
    }

    fn sliced(&self, operation: &'static str, coord: SliceCoord) -> Result<Tensor, ErrorKind> {
        let is_nested = matches!(coord, SliceCoord::Nested(_));
        let (coord, fixed) = coord.split();
        let part = self.cut(|layout| {
            let place = |(mode, place): &(usize, Index)| {
                let mode = layout.get(&[*mode])?;
                self.failure.own_indices([place])?;
                places(operation, &mode, place)?;
                Ok((mode, place.clone()))
            };
            Ok(Cut {
                all: layout.clone(),
                coord: coord.clone(),
                places: fixed.iter().map(place).collect::<Result<_, ErrorKind>>()?,
            })
        })?;
        // Modes behind those of the tile, stages for example, leave the thread's part of the tile whole.
        let is_behind = |share: &Share| fixed.iter().all(|(mode, _)| *mode > share.rank);
        let is_whole = !is_nested && part.share.as_ref().is_none_or(is_behind);
        let is_all = |share: &Share| matches!(share.kept, Kept::All);
        if is_whole && part.share.as_ref().is_none_or(is_all) {
            return Ok(part);
        }
        Ok(part.keeping(self, |numbers| numbers.slice(&coord)))
    }

    /// The same, which elements it has of the thread's part of a tile not known.
    pub(crate) fn of_a_part(mut self) -> Tensor {
        if let Some(share) = &mut self.share {
            share.kept = Kept::Unknown;
        }
        self
    }

    /// The same, with those elements of a thread's part of a tile that a cut of their numbers keeps.
    pub(crate) fn keeping(
        mut self,
        of: &Tensor,
        cut: impl FnOnce(&Layout) -> Result<Layout, colex_layout::Error>,
    ) -> Tensor {
        let Some(share) = &mut self.share else {
            return self;
        };
        let numbers = match &share.kept {
            Kept::All => Layout::column_major(of.layout().shape()).ok(),
            Kept::Some(numbers) => Some(numbers.as_ref().clone()),
            Kept::Unknown => None,
        };
        let numbers = numbers.and_then(|numbers| cut(&numbers).ok());
        share.kept = numbers.map_or(Kept::Unknown, |numbers| {
            Kept::Some(Rc::new(numbers.to_static()))
        });
        self
    }

    /// The part that a cut of the layout keeps. The ends of uneven tiles are cut as the layout is.
    pub(crate) fn cut(
        &self,
        how: impl Fn(&Layout) -> Result<Cut, ErrorKind>,
    ) -> Result<Tensor, ErrorKind> {
        let mut result = self.clone();
        let is_open = self.is_parameter() && self.share.is_none() && !self.layout().is_static();
        let (kept, moves) = moved(&how(self.layout())?, is_open)?;
        match &mut result.view {
            View::Offsets { layout, start, .. } => {
                for (_, by) in moves {
                    *start = &*start + by;
                }
                *layout = kept;
            }
            View::Coords { layout, start, .. } => {
                for (path, by) in moves {
                    start[path] = &start[path] + by;
                }
                *layout = kept;
            }
        }
        for end in &mut result.ends {
            *end = end.cut(&how)?;
        }
        Ok(result)
    }

    /// A thread's part: cut as the partition says, with the end of the tile where the partition reaches beyond it.
    pub(crate) fn part(
        &self,
        share: Share,
        how: impl Fn(&Layout) -> Result<Cut, ErrorKind>,
    ) -> Result<Tensor, ErrorKind> {
        let mut result = self.cut(&how)?;
        let whole = self.layout();
        let parts = how(whole)?.all;
        if parts.size() != whole.size() {
            let extents: Vec<i64> = whole.modes().map(|mode| mode.size()).collect();
            let tile = identity(&extents)?;
            let parts = how(&tile)?.all;
            let reach = reach(&parts, extents.len());
            if reach.iter().zip(&extents).any(|(r, n)| r > n) {
                let end = TileEnd {
                    layout: tile,
                    start: vec![Index::constant(0); extents.len()],
                    extents,
                    reach,
                };
                result
                    .ends
                    .push(end.cut(&how)?.in_modes_of(result.layout()));
            }
        }
        let extents = whole.modes().take(share.rank).map(|mode| mode.size());
        result.share = Some(Share {
            tile: extents.collect(),
            kept: Kept::All,
            is_injective: whole.has_coordinate_values() || whole.is_injective() == Ok(true),
            ..share
        });
        Ok(result)
    }

    /// The address in bytes of the element at an index of the layout.
    pub(crate) fn bytes_at(&self, index: i64) -> Result<Index, ErrorKind> {
        let bytes = i64::from(self.ty.bits()) / 8;
        match &self.view {
            View::Offsets {
                swizzle,
                layout,
                start,
                after,
            } => {
                let offset = start + layout.at(index)?;
                let offset = swizzled(*swizzle, &offset) + after;
                Ok(&self.base + offset * bytes)
            }
            View::Coords { of, .. } => Ok(self.bytes_in(of, &self.coordinates_at(index)?)),
        }
    }

    /// The address in bytes of the element at coordinates of the parameter.
    pub(crate) fn bytes_in(&self, of: &Dense, coordinates: &[Index]) -> Index {
        let bytes = i64::from(self.ty.bits()) / 8;
        let mut address = self.base.clone();
        let mut steps = Index::constant(0);
        for (mode, x) in of.modes.iter().zip(coordinates) {
            match &mode[..] {
                [(_, stride)] => {
                    let (x, constant) = x.split();
                    address = address + x * stride * bytes;
                    steps = steps + stride * &(Index::constant(constant) * bytes);
                }
                _ => address = address + nested(mode, x) * bytes,
            }
        }
        let known = steps.as_constant().is_some();
        if known {
            address + steps
        } else {
            address.unit() + steps
        }
    }

    /// The coordinates of the parameter at an index of the layout.
    pub(crate) fn coordinates_at(&self, index: i64) -> Result<Vec<Index>, ErrorKind> {
        let View::Coords { start, layout, .. } = &self.view else {
            return Err(ErrorKind::operands(
                "coordinates",
                "a tensor in shared memory is whole, and needs no predicate",
            ));
        };
        let mut step = coordinates(&layout.coord_at(index)?);
        step.resize(start.len(), 0);
        Ok(start.iter().zip(step).map(|(s, c)| s + c).collect())
    }
}

impl TileEnd {
    fn cut(&self, how: &impl Fn(&Layout) -> Result<Cut, ErrorKind>) -> Result<Self, ErrorKind> {
        let (layout, moves) = moved(&how(&self.layout)?, false)?;
        let mut result = TileEnd {
            layout,
            ..self.clone()
        };
        for (path, by) in moves {
            result.start[path] = &result.start[path] + by;
        }
        Ok(result)
    }

    /// In the modes of another layout of that size where it has such a form, so that what cuts one cuts the other.
    fn in_modes_of(mut self, other: &Layout) -> Self {
        let modes = Layout::column_major(other.shape());
        if let Ok(layout) = modes.and_then(|modes| self.layout.composition(&modes)) {
            self.layout = layout.to_static();
        }
        self
    }

    /// The coordinates in the tile at an index of the layout.
    pub(crate) fn coordinates_at(&self, index: i64) -> Result<Vec<Index>, ErrorKind> {
        let mut step = coordinates(&self.layout.coord_at(index)?);
        step.resize(self.start.len(), 0);
        Ok(self.start.iter().zip(step).map(|(s, c)| s + c).collect())
    }
}

/// The extent of a mode of a layout; 1 for a mode beyond the last.
pub(crate) fn layout_extent(layout: &Layout, mode: usize) -> Index {
    layout.mode(mode).map_or(1, |mode| mode.size()).into()
}

/// The coordinates of a tile whose modes run along these modes of a parameter of that rank.
fn tile_along(tile: &[i64], modes: &[usize], rank: usize) -> Result<Layout, ErrorKind> {
    if modes.iter().copied().eq(0..modes.len()) {
        return identity(tile);
    }
    let mut extents = vec![1; rank];
    for (n, own) in tile.iter().zip(modes) {
        extents[*own] = *n;
    }
    Ok(identity(&extents)?.select(&modes[..tile.len()])?)
}

/// What is kept of a cut layout, and by how much it moves the start along each mode of its values.
/// The modes that are kept of an open layout, one with extents that only the launch knows, stay dynamic.
fn moved(cut: &Cut, is_open: bool) -> Result<(Layout, Vec<(usize, Index)>), ErrorKind> {
    let kept = cut.all.slice(&cut.coord)?;
    let kept = if is_open { kept } else { kept.to_static() };
    let first = coordinates(&cut.all.coord_at(cut.coord.start())?);
    let fixed = first.into_iter().enumerate().map(|(i, c)| (i, c.into()));
    let places = cut
        .places
        .iter()
        .flat_map(|(mode, place)| along(mode, place));
    Ok((kept, fixed.chain(places).collect()))
}

/// One more than the largest coordinate that a layout of coordinates has along each mode of its values.
fn reach(layout: &Layout, rank: usize) -> Vec<i64> {
    let mut reach = vec![1; rank];
    for leaf in layout.leaves() {
        if let Stride::Basis(basis) = &leaf.stride
            && let Some(reach) = basis.path().next().and_then(|path| reach.get_mut(path))
        {
            *reach += (leaf.extent.value() - 1) * leaf.stride.coefficient().value();
        }
    }
    reach
}

/// Refuses a place that a static mode need not have.
pub(crate) fn places(
    operation: &'static str,
    mode: &Layout,
    place: &Index,
) -> Result<(), ErrorKind> {
    let ((low, high), last) = (place.range(), mode.size() - 1);
    if !mode.is_static() || low >= 0 && high <= last || place.poison().is_some() {
        return Ok(());
    }
    if low > last || high < 0 {
        let why = format!("the place {place} of the mode {mode}, whose places are 0 to {last}");
        return Err(ErrorKind::operands(operation, why));
    }
    let why = format!(
        "the place {place} of the mode {mode} lies from {low} to {high}, and there are places 0 to {last} (`within` says what \
         no rule finds)"
    );
    Err(ErrorKind::operands(operation, why))
}

/// Refuses types of which one has more bits than the other.
pub(crate) fn same_width(operation: &'static str, from: Ty, to: Ty) -> Result<(), ErrorKind> {
    if from.bits() == to.bits() {
        return Ok(());
    }
    let why = format!(
        "{} bits of {from} are not {} bits of {to}",
        from.bits(),
        to.bits()
    );
    Err(ErrorKind::operands(operation, why))
}

/// A value of a layout of coordinates, mode by mode.
fn coordinates(value: &IntTuple) -> Vec<i64> {
    value.leaves().iter().map(|n| n.value()).collect()
}

impl Dense {
    /// The place of a mode's extent among the layout's dynamic values, if the mode is one dynamic leaf.
    pub(crate) fn dynamic_extent(&self, mode: usize) -> Option<usize> {
        let before: usize = self.modes[..mode].iter().map(Vec::len).sum();
        let leaves = self.layout.leaves();
        let alone = self.modes[mode].len() == 1
            && !leaves[before].extent.is_static()
            && !self.narrowed.contains(&mode);
        let dynamic = leaves[..before].iter().filter(|l| !l.extent.is_static());
        alone.then(|| dynamic.count())
    }

    /// The place of a leaf's stride among the layout's dynamic values, if it is dynamic.
    pub(crate) fn dynamic_stride(&self, mode: usize, leaf: usize) -> Option<usize> {
        let before: usize = self.modes[..mode].iter().map(Vec::len).sum::<usize>() + leaf;
        let leaves = self.layout.leaves();
        let is_dynamic = |l: &&colex_layout::LeafMode| !l.stride.coefficient().is_static();
        let extents = leaves.iter().filter(|l| !l.extent.is_static()).count();
        let strides = leaves[..before].iter().filter(is_dynamic).count();
        is_dynamic(&&leaves[before]).then_some(extents + strides)
    }
}
