//! Batches of products in one launch: the modes of the views behind those of the matrices.

use colex_layout::{Int, IntTuple, Layout, LeafMode, Stride};
use colex_sched::{Order, RasterOrder};
use colex_tensor::{Builder, Index, Tensor, TileGrid};
use colex_tiled::Operand;

use super::chunks::{self, ChunkForm, ChunkOrder, Chunks};
use super::convolution::form::{Filter, Im2col, filters_like};
use super::groups::Groups;
use super::plan::GemmPlan;
use super::problem::{MOST_EXTENT, check_extent};
use crate::error::{Error, ErrorKind};
use crate::method::GemmMethod;

/// The most modes of a batch in a kernel.
pub(crate) const MOST_MODES: usize = 8;

/// The most of them in a kernel that loads by tensor maps: a map has five modes, two of which are a matrix's.
const MOST_MAPPED: usize = 3;

/// The strides of a matrix along the modes of a batch: 0 where all products have the same one.
pub(crate) type Apart = [i64; MOST_MODES];

/// The products of a call: modes of the views that a stride joins are one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Batch {
    extents: Vec<i64>,
    /// The modes of the views that each of them consists of, counted from the first behind the matrix.
    joined: Vec<Vec<usize>>,
    /// What the one mode is if the products are groups.
    groups: Option<Groups>,
    /// The convolution that the one product is, if its kernel loads by an im2col tensor map.
    convolution: Option<Im2col>,
    /// Whether the matrices of each product have addresses of their own.
    is_listed: bool,
    /// What the one mode is if the products are the chunks of ranks.
    chunks: Option<Chunks>,
}

/// The extents of a batch mode, and its strides in A, B and C.
struct Mode {
    extent: i64,
    strides: [i64; 3],
}

fn refuse<T>(why: String) -> Result<T, Error> {
    Err(ErrorKind::Batch { why }.into())
}

/// `(4,2)`, or `4` of one.
fn tuple(extents: &[i64]) -> String {
    match extents {
        [one] => one.to_string(),
        all => IntTuple::flat(all.iter().map(|n| (*n).into())).to_string(),
    }
}

/// Checks that A, B and C have the same extents behind those of the matrices, and returns them.
pub(crate) fn common(of: [Vec<i64>; 3]) -> Result<Vec<i64>, Error> {
    let [a, b, c] = of;
    for (name, others) in [("A", &a), ("B", &b)] {
        if *others != c {
            let many = |extents: &[i64]| match extents {
                [] => "none".to_string(),
                all => tuple(all),
            };
            return refuse(format!(
                "the modes behind those of the matrix are {} in {name} and {} in C: all three have the same, of stride 0 where \
                 one matrix serves all products",
                many(others),
                many(&c)
            ));
        }
    }
    let mut count = 1_i64;
    for extent in &c {
        check_extent("the extent of a batch", *extent)?;
        count = count.saturating_mul(*extent);
    }
    check_extent("the number of products", count)?;
    Ok(c)
}

/// The extent and the stride of a mode that one stride describes.
fn strided(layout: &Layout, mode: usize) -> Option<(i64, i64)> {
    let mode = layout.mode(mode)?;
    let of = |leaf: &LeafMode| match leaf.stride {
        Stride::Int(stride) => Some((leaf.extent.value(), stride.value())),
        Stride::Basis(_) | Stride::Xor(_) => None,
    };
    match mode.coalesce(..).leaves() {
        [one] => of(one),
        _ => None,
    }
}

impl Batch {
    /// The batch of the layouts of A, B and C, which have the same extents behind the matrices, with the strides of each.
    ///
    /// # Errors
    ///
    /// Returns an error if a mode has several strides, if there are more modes than a kernel has, or if products share
    /// elements of C.
    pub(crate) fn of(layouts: [&Layout; 3]) -> Result<(Batch, [Apart; 3]), Error> {
        let (mut batch, mut all): (Batch, Vec<Mode>) = (Batch::default(), Vec::new());
        for number in 0..layouts[2].rank().saturating_sub(2) {
            let mut one = Mode {
                extent: 1,
                strides: [0; 3],
            };
            for (i, layout) in layouts.into_iter().enumerate() {
                let Some((extent, stride)) = strided(layout, number + 2) else {
                    let name = Operand::ALL[i].name();
                    return refuse(format!(
                        "mode {} of {name}, {layout}, has several strides: give each a mode of its own",
                        number + 2
                    ));
                };
                one.extent = extent;
                one.strides[i] = stride;
            }
            if one.extent == 1 {
                continue;
            }
            let follows = |last: &Mode| {
                let ends = last
                    .strides
                    .map(|stride| stride.saturating_mul(last.extent));
                ends == one.strides
            };
            if let (Some(last), Some(group)) = (all.last_mut(), batch.joined.last_mut())
                && follows(last)
            {
                last.extent *= one.extent;
                group.push(number);
                continue;
            }
            all.push(one);
            batch.joined.push(vec![number]);
        }
        if all.len() > MOST_MODES {
            let extents: Vec<i64> = all.iter().map(|mode| mode.extent).collect();
            return refuse(format!(
                "its modes {} are not joined by their strides, and a kernel has {MOST_MODES} of them: leave the others out of the \
                 views, and make a call for each of their products",
                tuple(&extents)
            ));
        }
        let is_injective = || layouts[2].is_injective().map_err(colex_tensor::Error::from);
        if !all.is_empty() && !is_injective()? {
            let layout = layouts[2].to_string();
            return Err(ErrorKind::Twice { layout }.into());
        }
        let mut steps = [[0; MOST_MODES]; 3];
        for (at, mode) in all.iter().enumerate() {
            batch.extents.push(mode.extent);
            for (steps, stride) in steps.iter_mut().zip(mode.strides) {
                steps[at] = stride;
            }
        }
        Ok((batch, steps))
    }

    /// The groups of the layouts of A, B and C, some of which have a mode of groups behind the matrix, with the strides of each.
    ///
    /// # Errors
    ///
    /// Returns an error if a mode has several strides, or if groups share elements of C.
    pub(crate) fn of_groups(
        groups: Groups,
        count: i64,
        layouts: [Option<&Layout>; 3],
    ) -> Result<(Batch, [Apart; 3]), Error> {
        let mut steps = [[0; MOST_MODES]; 3];
        for ((operand, layout), steps) in Operand::ALL.into_iter().zip(layouts).zip(&mut steps) {
            let Some(layout) = layout.filter(|_| groups.has_mode(operand)) else {
                continue;
            };
            let Some((_, stride)) = strided(layout, 2) else {
                let name = operand.name();
                let why =
                    format!("mode 2 of {name}, {layout}, has several strides: give the groups one");
                return Err(ErrorKind::Groups { why }.into());
            };
            steps[0] = stride;
        }
        if let Some(c) = layouts[2].filter(|_| groups.has_mode(Operand::C))
            && !c.is_injective().map_err(colex_tensor::Error::from)?
        {
            let layout = c.to_string();
            return Err(ErrorKind::Twice { layout }.into());
        }
        let batch = Batch {
            extents: vec![count],
            joined: vec![vec![0]],
            groups: Some(groups),
            ..Batch::default()
        };
        Ok((batch, steps))
    }

    /// Products whose matrices have addresses of their own.
    pub(crate) fn of_lists(count: i64) -> Batch {
        Batch {
            extents: vec![count],
            joined: vec![vec![0]],
            is_listed: true,
            ..Batch::default()
        }
    }

    /// Whether the matrices of each product have addresses of their own.
    pub(crate) fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Products whose matrices of C have addresses of their own, of the layouts of A and B, with the strides of each.
    ///
    /// # Errors
    ///
    /// Returns an error if the mode behind A or B has several strides.
    pub(crate) fn of_owners(
        owners: usize,
        layouts: [Option<&Layout>; 2],
    ) -> Result<(Batch, [Apart; 3]), Error> {
        let mut steps = [[0; MOST_MODES]; 3];
        if owners == 1 {
            return Ok((Batch::default(), steps));
        }
        for ((name, layout), steps) in ["A", "B"].into_iter().zip(layouts).zip(&mut steps) {
            let Some(layout) = layout else { continue };
            let Some((_, stride)) = strided(layout, 2) else {
                return chunks::refuse(format!(
                    "mode 2 of {name}, {layout}, has several strides: give the chunks one"
                ));
            };
            steps[0] = stride;
        }
        let batch = Batch {
            extents: vec![owners as i64],
            joined: vec![vec![0]],
            ..Batch::default()
        };
        Ok((batch, steps))
    }

    /// The same batch, whose products are chunks. A single one is a product like any other, unless the kernel tells when it is stored: then
    /// it stays the only one of a mode.
    pub(crate) fn of_chunks(self, chunks: Chunks) -> Batch {
        if !self.extents.is_empty() {
            let chunks = Some(chunks);
            return Batch { chunks, ..self };
        }
        if !chunks.form.departs {
            return self;
        }
        Batch {
            extents: vec![1],
            joined: vec![vec![0]],
            chunks: Some(chunks),
            ..self
        }
    }

    /// What the one mode is if the products are the chunks of ranks.
    pub(crate) fn chunks(&self) -> Option<Chunks> {
        self.chunks
    }

    /// The one product that is a convolution.
    pub(crate) fn of_convolution(convolution: Im2col) -> Batch {
        Batch {
            convolution: Some(convolution),
            ..Batch::default()
        }
    }

    /// The convolution that the product is, if its kernel loads by an im2col tensor map.
    pub(crate) fn convolution(&self) -> Option<&Im2col> {
        self.convolution.as_ref()
    }

    /// What the products are if they are groups.
    pub(crate) fn groups(&self) -> Option<Groups> {
        self.groups
    }

    /// Whether it has more modes than a tensor map, so that only kernels whose threads load compute it.
    pub(crate) fn exceeds_maps(&self) -> bool {
        self.extents.len() > MOST_MAPPED
    }

    /// Checks that a plan's kernel has as many modes.
    ///
    /// # Errors
    ///
    /// Returns an error if its tensor maps have fewer.
    pub(crate) fn check(&self, plan: &GemmPlan) -> Result<(), Error> {
        if plan.method == GemmMethod::Hopper && self.exceeds_maps() {
            return refuse(format!(
                "its modes {} are not joined by their strides, and the tensor maps of the Hopper kernel have {MOST_MAPPED} behind \
                 those of a matrix: the Ampere kernel has {MOST_MODES}",
                tuple(&self.extents)
            ));
        }
        Ok(())
    }

    /// The modes of it that C has, and tensors of an epilogue.
    pub(crate) fn of_c(&self) -> Batch {
        match self.groups {
            Some(groups) if !groups.has_mode(Operand::C) => Batch::default(),
            None if self.is_listed || self.chunks.is_some_and(|of| of.form.owners > 0) => {
                Batch::default()
            }
            _ => self.clone(),
        }
    }

    /// The extents of its modes.
    pub(crate) fn extents(&self) -> &[i64] {
        &self.extents
    }

    /// The layout of a tensor of the view's modes as a kernel has it: two modes of the matrix, and one for each of the batch.
    pub(crate) fn grouped(&self, layout: &Layout) -> Result<Layout, Error> {
        let mode = |at: usize| {
            let mode = layout.mode(at).expect("the shapes were compared");
            if mode.is_leaf() {
                mode
            } else {
                mode.coalesce(..)
            }
        };
        let mut modes = vec![mode(0), mode(1)];
        for group in &self.joined {
            let parts: Vec<Layout> = group.iter().map(|number| mode(number + 2)).collect();
            modes.push(match &parts[..] {
                [one] => one.clone(),
                all => {
                    let all = Layout::concat(all).map_err(colex_tensor::Error::from)?;
                    all.coalesce(..)
                }
            });
        }
        Ok(Layout::concat(&modes).map_err(colex_tensor::Error::from)?)
    }

    /// What a kernel of a plan is built from, for matrices of these strides.
    pub(crate) fn form(&self, plan: &GemmPlan, steps: &[Apart; 3]) -> BatchForm {
        let is_mapped = plan.method == GemmMethod::Hopper && !plan.gather;
        let of = |operand: usize| {
            let mut shared = [false; MOST_MODES];
            for (shared, step) in shared
                .iter_mut()
                .zip(steps[operand])
                .take(self.extents.len())
            {
                *shared = is_mapped && step == 0;
            }
            shared
        };
        BatchForm {
            modes: self.extents.len(),
            shared: [of(0), of(1)],
            groups: self.groups,
            filter: self.convolution.as_ref().map(Im2col::filter),
            is_listed: self.is_listed,
            chunks: self.chunks.map(|chunks| chunks.form),
        }
    }
}

/// The largest power of two up to 16 that divides all of these strides and a leading dimension.
pub(crate) fn alignment(leading: i64, steps: &Apart) -> i64 {
    let divides =
        |n: &i64| leading % n == 0 && steps.iter().all(|step| step % n == 0 && *step >= 0);
    let widths = [16, 8, 4, 2].into_iter();
    widths.into_iter().find(divides).unwrap_or(1)
}

/// The facts about a batch that a kernel is built from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct BatchForm {
    modes: usize,
    /// The modes along which all products share A, and B: its tensor map has the extent 1 there.
    shared: [[bool; MOST_MODES]; 2],
    /// What the one mode is if the products are groups.
    pub(crate) groups: Option<Groups>,
    /// The filter of a convolution, whose activations A an im2col tensor map describes.
    pub(crate) filter: Option<Filter>,
    /// Whether the matrices have no mode of the products, but an address for each.
    pub(crate) is_listed: bool,
    /// The order of the products and where they go, if they are the chunks of ranks.
    pub(crate) chunks: Option<ChunkForm>,
}

/// The stride of a mode of a batch for reports: so far apart that no mode continues another.
fn apart(mode: usize) -> i64 {
    1 << (25 + 4 * mode)
}

impl BatchForm {
    /// The form of groups of some kind.
    pub(crate) fn of_groups(groups: Groups) -> BatchForm {
        BatchForm {
            modes: 1,
            groups: Some(groups),
            ..BatchForm::default()
        }
    }

    /// Whether it is one product.
    pub(crate) fn is_one(&self) -> bool {
        self.is_plain() && self.modes == 0
    }

    /// Whether the products are those of a plain batch: no groups, lists, chunks or convolution.
    pub(crate) fn is_plain(&self) -> bool {
        let BatchForm {
            modes: _,
            shared: _,
            groups,
            filter,
            is_listed,
            chunks,
        } = self;
        groups.is_none() && filter.is_none() && !is_listed && chunks.is_none()
    }

    /// The matrices of C, one for each chunk, if they have addresses of their own; else 0.
    pub(crate) fn owners(&self) -> usize {
        self.chunks.map_or(0, |chunks| chunks.owners)
    }

    /// The number of its modes that a matrix has.
    fn modes_of(&self, operand: Operand) -> usize {
        match self.groups {
            Some(groups) => usize::from(groups.has_mode(operand)),
            None if self.is_listed || operand == Operand::C && self.owners() > 0 => 0,
            None => self.modes,
        }
    }

    /// The coordinates of a product that a matrix has.
    pub(crate) fn product_of(&self, operand: Operand, at: &[Index]) -> Vec<Index> {
        at.iter().take(self.modes_of(operand)).cloned().collect()
    }

    /// The same for the transposed product, whose A is B.
    pub(crate) fn turned(self) -> BatchForm {
        let [a, b] = self.shared;
        BatchForm {
            shared: [b, a],
            ..self
        }
    }

    /// The layout of an operand of a plan. Extents and strides are arguments of the launch; their values here serve the
    /// reports.
    pub(crate) fn layout(&self, plan: &GemmPlan, operand: Operand) -> Layout {
        if let (Some(_), Operand::B) = (self.filter, operand) {
            return filters_like();
        }
        let matrix = plan.operands.layout(operand);
        let leaf = |i: usize| Layout::leaf(Int::Dynamic(16), Int::Dynamic(apart(i)));
        let modes = (matrix.modes().map(Ok)).chain((0..self.modes_of(operand)).map(leaf));
        let modes: Result<Vec<Layout>, _> = modes.collect();
        let layout = modes.and_then(|modes| Layout::concat(&modes));
        layout.expect("positive extents make a layout")
    }

    /// The same, for the launch of a matrix of these extents and leading dimension in a batch.
    pub(crate) fn bound(
        &self,
        plan: &GemmPlan,
        operand: Operand,
        ([rows, columns], leading): ([i64; 2], i64),
        (batch, steps): (&Batch, &Apart),
    ) -> Layout {
        if let Some(convolution) = batch.convolution() {
            match operand {
                Operand::A => return convolution.activations(),
                Operand::B => {
                    return convolution.filters(&self.layout(plan, operand), leading);
                }
                Operand::C => {}
            }
        }
        let (mut extents, mut strides) = (vec![rows, columns], vec![leading]);
        let modes = batch.extents.iter().zip(steps);
        for (i, (extent, step)) in modes.take(self.modes_of(operand)).enumerate() {
            let is_shared = self
                .shared
                .get(operand as usize)
                .is_some_and(|shared| shared[i]);
            // One matrix, whose stride moves nothing.
            let mode = if is_shared { [1, 16] } else { [*extent, *step] };
            extents.push(mode[0]);
            strides.push(mode[1]);
        }
        extents.extend(strides);
        let like = self.layout(plan, operand);
        let bound = like.with_dynamic_values(&extents);
        bound.expect("extents and strides but that of the contiguous mode are dynamic")
    }

    /// The extents of its modes, by the last of A, B and C that has them. The launch checks that the others have the same.
    pub(crate) fn extents(&self, k: &mut Builder, matrices: [&Tensor; 3]) -> Vec<Index> {
        let all = Operand::ALL.into_iter().zip(matrices);
        let having: Vec<&Tensor> = all
            .filter(|(operand, _)| self.modes_of(*operand) == self.modes)
            .map(|(_, matrix)| matrix)
            .collect();
        let Some((last, others)) = having.split_last() else {
            return Vec::new();
        };
        let extents: Vec<Index> = (0..self.modes).map(|i| last.extent(i + 2)).collect();
        for other in others {
            agree(k, other, &extents);
        }
        extents
    }

    /// Declares that an operand, or a tensor of its shape, has the products' extents in those modes that the operand has. The launch
    /// checks it.
    pub(crate) fn agree(
        &self,
        k: &mut Builder,
        operand: Operand,
        tensor: &Tensor,
        extents: &[Index],
    ) {
        agree(k, tensor, &self.product_of(operand, extents));
    }

    /// The extents of its modes as arguments of the launch.
    pub(crate) fn arguments(&self, k: &mut Builder) -> Vec<Index> {
        (0..self.modes)
            .map(|mode| k.index_argument(&format!("l{mode}"), 1..MOST_EXTENT + 1))
            .collect()
    }

    /// The coordinates of a product in the tensor map of an operand.
    pub(crate) fn coordinates(&self, operand: usize, at: &[Index]) -> Vec<Index> {
        let at = &at[..self.modes_of(Operand::ALL[operand])];
        let each = at.iter().zip(&self.shared[operand]);
        each.map(|(at, shared)| if *shared { 0.into() } else { at.clone() })
            .collect()
    }
}

/// Declares that the modes of a tensor behind the matrix have these extents, which the launch checks.
fn agree(k: &mut Builder, tensor: &Tensor, extents: &[Index]) {
    for (i, extent) in extents.iter().enumerate() {
        let apart = tensor.extent(i + 2) - extent;
        k.within(apart, 0..1);
    }
}

/// The tiles of all products: one product after the other, each in the order of the plan.
pub(crate) struct BatchTiles {
    one: TileGrid,
    /// Over the batch, the fastest mode first.
    outer: Vec<TileGrid>,
    /// The order of the products of the last mode, the first of them, and their number.
    rotated: Option<(ChunkOrder, [Index; 2])>,
    /// The products that are taken, if these are not all.
    taken: Option<Index>,
}

impl BatchTiles {
    pub(crate) fn new(
        k: &mut Builder,
        plan: &GemmPlan,
        tiles: [Index; 2],
        batch: &[Index],
    ) -> BatchTiles {
        let grid = |k: &mut Builder, order, tiles| {
            let grid = k.tile_grid(order, tiles);
            grid.expect("invariant: an order without a formula is refused before a kernel is built")
        };
        let one = grid(k, plan.order, tiles);
        let (mut size, mut outer) = (one.size(), Vec::new());
        // Along the first mode, so that a place is its tile and, the slower part, its product.
        let order = Order::Grouped {
            width: 1,
            raster: RasterOrder::AlongM,
        };
        for extent in batch {
            let next = grid(k, order, [size, extent.clone()]);
            size = next.size();
            outer.push(next);
        }
        BatchTiles {
            one,
            outer,
            rotated: None,
            taken: None,
        }
    }

    /// The same tiles, with the products of the last mode in an order that begins with `first`.
    pub(crate) fn rotated(self, form: ChunkForm, first: &Index, products: &Index) -> BatchTiles {
        let rotated = Some((form.order, [first.clone(), products.clone()]));
        let taken = form.leaves_last.then(|| products - 1);
        BatchTiles {
            rotated,
            taken,
            ..self
        }
    }

    /// The number of tiles that are taken.
    pub(crate) fn taken(&self) -> Index {
        match &self.taken {
            Some(products) => self.of_one() * products,
            None => self.size(),
        }
    }

    /// The number of tiles of one product.
    pub(crate) fn of_one(&self) -> Index {
        self.one.size()
    }

    /// The number of tiles.
    pub(crate) fn size(&self) -> Index {
        self.outer.last().unwrap_or(&self.one).size()
    }

    /// The tile at a place, and the coordinates of its product.
    pub(crate) fn at(&self, k: &mut Builder, place: &Index) -> ([Index; 2], Vec<Index>) {
        let (mut place, mut batch) = (place.clone(), Vec::new());
        let mut rotated = self.rotated.as_ref();
        for grid in self.outer.iter().rev() {
            let [within, product] = k.tile_at(grid, place);
            place = within;
            batch.push(match rotated.take() {
                Some((order, [first, count])) => chunks::at(k, *order, [first, &product, count]),
                None => product,
            });
        }
        batch.reverse();
        (k.tile_at(&self.one, place), batch)
    }
}
