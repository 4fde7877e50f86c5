//! The tiles of groups in a kernel: a block finds its group and its tile from numbers that only the device knows.

use colex_atom::Ty;
use colex_layout::Layout;
use colex_sched::{Order, RasterOrder};
use colex_tensor::{Builder, Cond, Index, Tensor, Var};
use colex_tiled::Operand;

use super::{Groups, lists};
use crate::gemm::batch::{BatchForm, BatchTiles};
use crate::gemm::epilogue::terms::Terms;
use crate::gemm::plan::GemmPlan;
use crate::gemm::problem::MOST_EXTENT;

/// The most rows of a product in groups: the first row of a group and that of a tile in it have 31 bits together.
pub(crate) const MOST_ROWS: i64 = 1 << 29;

/// The most groups.
pub(crate) const MOST_GROUPS: i64 = 1 << 16;

/// More than the tiles of all groups.
pub(crate) const MOST_TILES: i64 = 1 << 30;

/// The rows (or, of a sum over parts of K, the columns) from the first to the end (excluded).
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) first: Index,
    pub(crate) end: Index,
}

impl Span {
    /// Returns the number of its rows or columns.
    pub(crate) fn length(&self) -> Index {
        larger(&(&self.end - &self.first), &0.into())
    }
}

/// Returns the larger of two indices.
pub(crate) fn larger(a: &Index, b: &Index) -> Index {
    -((-a.clone()).min(&-b.clone()))
}

/// Declares the numbers of the groups of a form, or the table of a list's addresses.
pub(crate) fn declare_numbers(k: &mut Builder, form: &BatchForm) -> Option<Tensor> {
    match form.groups {
        Some(groups) => Some(declare(k, groups)),
        None => form.is_listed.then(|| lists::declare(k)),
    }
}

/// The extents of the products of a form, from the matrices or from the table of a list's addresses.
pub(crate) fn extents(
    k: &mut Builder,
    form: &BatchForm,
    matrices: [&Tensor; 3],
    numbers: Option<&Tensor>,
) -> Vec<Index> {
    match numbers.filter(|_| form.is_listed) {
        Some(table) => vec![k.within(table.extent(0), 1..MOST_GROUPS + 1)],
        None => form.extents(k, matrices),
    }
}

/// Declares the numbers of the groups: offsets, or counts of rows.
pub(crate) fn declare(k: &mut Builder, groups: Groups) -> Tensor {
    k.tensor(groups.numbers_name(), Ty::U32, form(16))
}

/// The layout of a number of contiguous numbers.
pub(crate) fn form(count: i64) -> Layout {
    use colex_layout::Int;
    let layout = Layout::leaf(Int::Dynamic(count), Int::Static(1));
    layout.expect("positive extents make a layout")
}

/// The number at a place, at most `most`. Beyond the last one it is 0.
fn number(k: &mut Builder, numbers: &Tensor, at: Index, most: &Index) -> Index {
    let number = k.gather(&numbers.elements(at));
    k.index_of(number.regs()[0], 0..1 << 32).min(most)
}

/// The columns of A and B of a group along K, of `extent` columns.
pub(crate) fn columns(k: &mut Builder, numbers: &Tensor, group: &Index, extent: &Index) -> Span {
    let [first, end] = [0, 1].map(|i| number(k, numbers, group + i, extent));
    let end = larger(&end, &first);
    Span { first, end }
}

/// The groups whose tiles follow each other, for blocks that walk over them in this order: group after group, each in the order
/// of the plan. The number of tiles of a group follows from the numbers on the device.
pub(crate) struct GroupRows {
    kind: Groups,
    numbers: Tensor,
    pub(crate) groups: Index,
    rows: Index,
    /// The rows of a tile.
    tall: i64,
    /// The tiles along N.
    wide: Index,
    order: (i64, RasterOrder),
    most: [i64; 2],
}

/// Where a block stands among the groups.
pub(crate) struct GroupWalk {
    group: Var,
    /// The tiles along M of the groups before.
    before: Var,
    first: Var,
    end: Var,
}

/// A tile of a group.
pub(crate) struct GroupTile {
    pub(crate) at: [Index; 2],
    pub(crate) group: Index,
    pub(crate) rows: Span,
}

impl GroupRows {
    /// `sizes` are the rows of A and the columns of C, `tile` the rows and columns of a tile.
    pub(crate) fn new(
        k: &mut Builder,
        (kind, numbers): (Groups, &Tensor),
        groups: &Index,
        [rows, columns]: [&Index; 2],
        (plan, [tall, wide]): (&GemmPlan, [i64; 2]),
    ) -> GroupRows {
        let order = match plan.order {
            Order::Grouped { width, raster } => (width, raster),
            // The plan is checked before a kernel is built.
            _ => (1, RasterOrder::AlongM),
        };
        GroupRows {
            kind,
            numbers: numbers.clone(),
            groups: k.within(groups, 1..MOST_GROUPS + 1),
            rows: k.within(rows, 1..MOST_ROWS + 1),
            tall,
            wide: k.within((columns + (wide - 1)) / wide, 1..MOST_EXTENT / wide + 2),
            order,
            most: [MOST_ROWS / tall + 1, MOST_EXTENT / wide + 1],
        }
    }

    /// No group has a tile at this place or behind it, regardless of the numbers.
    pub(crate) fn places(&self, k: &mut Builder) -> Index {
        let tall = match self.kind {
            Groups::Rows | Groups::AlongK => &self.rows / self.tall + &self.groups,
            Groups::Masked => (&self.rows + (self.tall - 1)) / self.tall * &self.groups,
        };
        k.within(tall * &self.wide, 1..MOST_TILES)
    }

    /// The end of the rows of a group that begins at a row.
    fn end(&self, k: &mut Builder, group: &Index, first: &Index) -> Index {
        match self.kind {
            Groups::Rows | Groups::AlongK => {
                let end = number(k, &self.numbers, group + 1, &self.rows);
                larger(&end, first)
            }
            Groups::Masked => number(k, &self.numbers, group.clone(), &self.rows),
        }
    }

    /// Begins at the first group.
    pub(crate) fn begin(&self, k: &mut Builder) -> GroupWalk {
        let first = match self.kind {
            Groups::Rows | Groups::AlongK => number(k, &self.numbers, 0.into(), &self.rows),
            Groups::Masked => 0.into(),
        };
        let end = self.end(k, &0.into(), &first);
        GroupWalk {
            group: k.var(0, 0..MOST_GROUPS + 1),
            before: k.var(0, 0..MOST_TILES),
            first: k.var(first, 0..MOST_ROWS + 1),
            end: k.var(end, 0..MOST_ROWS + 1),
        }
    }

    /// The tiles along M of the group at which a walk stands.
    fn tall(&self, k: &mut Builder, walk: &GroupWalk) -> Index {
        let (first, end) = (k.get(&walk.first), k.get(&walk.end));
        (larger(&(end - first), &0.into()) + (self.tall - 1)) / self.tall
    }

    /// Goes on to the group that has a place, or behind the last one, and returns whether there is such a group.
    pub(crate) fn advance(&self, k: &mut Builder, walk: &GroupWalk, place: &Index) -> Cond {
        let row = place / &self.wide;
        k.loop_(|k| {
            let tall = self.tall(k, walk);
            let (group, before) = (k.get(&walk.group), k.get(&walk.before));
            let behind = (before + tall).min(&(MOST_TILES - 1).into());
            let more = k.less(&group, &self.groups);
            let here = k.less(&row, &behind);
            let go_on = k.both(more, Builder::not(here));
            k.break_unless(go_on);
            k.set(&walk.before, behind);
            if self.kind != Groups::Masked {
                let end = k.get(&walk.end);
                k.set(&walk.first, end);
            }
            let first = k.get(&walk.first);
            let group = (group + 1).min(&MOST_GROUPS.into());
            let end = self.end(k, &group, &first);
            k.set(&walk.end, end);
            k.set(&walk.group, group);
        });
        let group = k.get(&walk.group);
        k.less(&group, &self.groups)
    }

    /// The tile at a place to which a walk has [advanced](GroupRows::advance). The minima state bounds that hold anyway, and that
    /// no proof finds.
    pub(crate) fn tile(&self, k: &mut Builder, walk: &GroupWalk, place: &Index) -> GroupTile {
        let last: Index = (MOST_TILES - 1).into();
        let tall = larger(&self.tall(k, walk), &1.into());
        let before = k.get(&walk.before);
        let row = larger(&(place / &self.wide - before), &0.into());
        let place = (row * &self.wide + place % &self.wide).min(&last);
        let (width, raster) = self.order;
        let axes = |[m, n]: [Index; 2]| match raster {
            RasterOrder::AlongM => [m, n],
            RasterOrder::AlongN => [n, m],
        };
        let [major, minor] = axes([tall, self.wide.clone()]);
        let strip = (&major * width).min(&last);
        let strips = &place / &strip;
        let first = (&strips * width).min(&last);
        let across = larger(&(minor - &first).min(&width.into()), &1.into());
        let inside = larger(&(place - (strips * strip).min(&last)), &0.into());
        let at = axes([&inside / &across, first + inside % across]);
        let [m, n] = at;
        let [most_m, most_n] = self.most;
        let first = match self.kind {
            Groups::Rows | Groups::AlongK => k.get(&walk.first),
            Groups::Masked => 0.into(),
        };
        let end = k.get(&walk.end);
        GroupTile {
            at: [m.min(&most_m.into()), n.min(&most_n.into())],
            group: k.get(&walk.group).min(&(&self.groups - 1)),
            rows: Span { first, end },
        }
    }
}

/// What a block computes that has one tile: the tile, its steps along K, and the parts of the matrices that belong to its product
/// or group.
pub(crate) struct BlockWork {
    pub(crate) at: [Index; 2],
    pub(crate) steps: Index,
    form: BatchForm,
    product: Vec<Index>,
    /// Of A and C.
    rows: Option<Span>,
    /// Of A and B.
    columns: Option<Span>,
    /// The table of the matrices' addresses, and how many elements of each an access may take.
    addresses: Option<(Tensor, [i64; 3])>,
}

impl BlockWork {
    /// `extents` are those of the batch, `numbers` those of the groups, or the table of a list's addresses.
    pub(crate) fn new(
        k: &mut Builder,
        plan: &GemmPlan,
        (form, extents): (BatchForm, &[Index]),
        [a, b]: [&Tensor; 2],
        numbers: Option<&Tensor>,
    ) -> BlockWork {
        let [bm, bn, bk] = plan.tile;
        let block = k.block_index(0);
        let steps = |extent: &Index| (extent + (bk - 1)) / bk;
        let (m, n, all) = (a.extent(0), b.extent(0), steps(&a.extent(1)));
        let by_rows = numbers.zip(form.groups.filter(|groups| groups.has_rows()));
        if let Some((numbers, kind)) = by_rows {
            let of = (plan, [bm, bn]);
            let groups = GroupRows::new(k, (kind, numbers), &extents[0], [&m, &n], of);
            let walk = groups.begin(k);
            groups.advance(k, &walk, &block);
            let GroupTile { at, group, rows } = groups.tile(k, &walk, &block);
            // A block behind the last tile has a tile without rows and steps.
            let count = k.get(&walk.group);
            let is_none = |there: &Index, none: &Index| {
                Index::select_less(&count, &groups.groups, there, none)
            };
            let end = is_none(&rows.end, &rows.first);
            return BlockWork {
                at,
                steps: is_none(&all, &0.into()),
                form,
                product: vec![group],
                rows: Some(Span { end, ..rows }),
                columns: None,
                addresses: None,
            };
        }
        let count = |extent: &Index, tile: i64| {
            let more = if plan.whole { 0 } else { tile - 1 };
            (extent + more) / tile
        };
        let tiles = [count(&m, bm), count(&n, bn)];
        let grid = BatchTiles::new(k, plan, tiles, extents);
        let (at, product) = grid.at(k, &block);
        let of_groups = numbers.filter(|_| form.groups.is_some());
        let columns = of_groups.map(|numbers| {
            let extent = k.within(a.extent(1), 1..MOST_ROWS + 1);
            columns(k, numbers, &product[0], &extent)
        });
        let steps = match &columns {
            Some(columns) => steps(&columns.length()),
            None => all,
        };
        BlockWork {
            at,
            steps,
            form,
            product,
            rows: None,
            columns,
            addresses: (numbers.filter(|_| form.is_listed))
                .map(|table| (table.clone(), plan.operands.vectors)),
        }
    }

    /// The part of an operand that belongs to the block's product or group.
    pub(crate) fn part(&self, k: &mut Builder, operand: Operand, matrix: &Tensor) -> Tensor {
        let mut part = match &self.addresses {
            Some((table, vectors)) => {
                let of = (table, &self.product[0]);
                lists::at(k, of, (operand, matrix), vectors[operand as usize])
            }
            None => matrix.clone(),
        };
        let rows = self.rows.as_ref().filter(|_| match operand {
            // What lies behind a group is loaded where it is masked, and not stored.
            Operand::A => self.form.groups == Some(Groups::Rows),
            Operand::B => false,
            Operand::C => true,
        });
        if let Some(Span { first, end }) = rows {
            part = part.narrow(0, first, end);
        }
        if let (Some(Span { first, end }), Operand::A | Operand::B) = (&self.columns, operand) {
            part = part.narrow(1, first, end);
        }
        part.fixed_behind(self.form.product_of(operand, &self.product))
    }

    /// The terms of the epilogue of the block's product or group.
    pub(crate) fn terms(&self, terms: &Terms) -> Terms {
        let product = self.form.product_of(Operand::C, &self.product);
        terms.of_rows(self.rows.as_ref()).of_product(&product)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::groups::problem::GroupProblem;
    use crate::gemm::plan::Operands;
    use crate::kernels::Major;
    use crate::launch::Load;
    use crate::method::GemmMethod;
    use colex_atom::Arch;
    use colex_device::{Device, View};
    use colex_sched::Grouped;

    /// The tiles that a walk over all places has, by a thread of a kernel: (group, m, n), and the rows of the group.
    fn walked(
        problem: GroupProblem,
        numbers: &[u32],
        order: Order,
        tile: [i64; 2],
    ) -> Vec<[i64; 5]> {
        let operands = Operands {
            ab: Ty::F16,
            c: Ty::F16,
            majors: [Major::Second; 3],
            vectors: [8; 3],
            beta: false,
            gated: false,
        };
        let plan = GemmPlan {
            order,
            ..GemmPlan::new(GemmMethod::Simt, operands)
        };
        let mut k = Builder::new("walk", Arch::Sm80, 32);
        let found = k.tensor("found", Ty::U32, "(16,_8):(_8,_1)");
        let sizes = ["m", "n", "groups"].map(|name| k.index_argument(name, 1..1 << 20));
        let of = declare(&mut k, problem.kind);
        let [m, n, groups] = &sizes;
        let of = (problem.kind, &of);
        let groups = GroupRows::new(&mut k, of, groups, [m, n], (&plan, tile));
        let walk = groups.begin(&mut k);
        let places = groups.places(&mut k);
        k.for_(0, &places, 1, |k, place| {
            let is_there = groups.advance(k, &walk, place);
            k.break_unless(is_there);
            let GroupTile { at, group, rows } = groups.tile(k, &walk, place);
            let [m, n] = at;
            let all = [Index::from(1), group, m, n, rows.first, rows.end];
            for (i, value) in all.iter().enumerate() {
                let value = k.value(value);
                let value = colex_tensor::Expr::register(value, Ty::U32);
                k.scatter(value, &found.elements((place, i as i64)));
            }
        });
        let device = Device::simulator(Arch::Sm80);
        let kernel = k
            .finish()
            .expect("it is built")
            .load(&device)
            .expect("it loads");
        let most = problem.groups + problem.m / tile[0] + 1;
        let wide = (problem.n + tile[1] - 1) / tile[1];
        let most = (most * problem.groups * wide) as usize;
        let mut found = device.zeros::<u32>(most * 8).expect("memory");
        let numbers = device.upload(numbers).expect("memory");
        {
            let sizes = [problem.m, problem.n, problem.groups].map(|n| n as u32);
            let to = found.view_mut((most as i64, 8)).expect("a view");
            let numbers = View::new(&numbers, form(numbers.len() as i64)).expect("a view");
            let [m, n, groups] = sizes;
            let done = kernel.launch([1], (to, m, n, groups, numbers));
            done.expect("it runs");
        }
        let found = found.download().expect("memory");
        let rows = found.chunks(8).take_while(|row| row[0] == 1);
        rows.map(|row| [1, 2, 3, 4, 5].map(|i| i64::from(row[i])))
            .collect()
    }

    /// A block walks the tiles of groups in the order of [`Grouped`], and in that of the plan within a group: over all small sizes
    /// of three groups, and other numbers that are no offsets.
    #[test]
    fn law_a_walk_has_the_tiles_of_the_grouped_scheduler() {
        let mut state = 5_u64;
        let mut draw = |count: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) % count
        };
        let mut cases = 0;
        for _ in 0..60 {
            let groups = 1 + draw(6) as i64;
            let raster = [RasterOrder::AlongM, RasterOrder::AlongN][draw(2) as usize];
            let kind = [Groups::Rows, Groups::Masked][draw(2) as usize];
            let mut numbers = vec![draw(3) as u32];
            for _ in 0..groups {
                let last = numbers[numbers.len() - 1];
                let length = [0, 1, draw(9) as u32, draw(40) as u32][draw(4) as usize];
                numbers.push(match (kind, draw(9)) {
                    (_, 0) => [0, u32::MAX][draw(2) as usize],
                    (Groups::Masked, _) => length,
                    _ => last.saturating_add(length),
                });
            }
            let problem = GroupProblem {
                kind,
                groups,
                m: 1 + draw(90) as i64,
                n: 1 + draw(40) as i64,
                k: 1,
            };
            let tile = [4, 8];
            let width = [1, 1, 2, 8][draw(4) as usize];
            let order = Order::Grouped { width, raster };
            let found = walked(problem, &numbers, order, tile);
            let spans = problem.spans(&numbers);
            let sizes: Vec<[i64; 2]> = (spans.iter())
                .map(|span| [span.end - span.start, problem.n])
                .collect();
            let one = Grouped::new(&sizes, tile, [1, 1], 1, raster).expect("extents");
            let mut expected = Vec::new();
            for (group, span) in spans.iter().enumerate() {
                let tiles = [0, 1].map(|i| (sizes[group][i] + tile[i] - 1) / tile[i]);
                for place in 0..tiles[0] * tiles[1] {
                    let [m, n] = order.tile(place, tiles).expect("a grouped order");
                    expected.push([group as i64, m, n, span.start, span.end]);
                }
            }
            assert_eq!(found, expected, "{problem} of {numbers:?}, {order}");
            if width == 1 {
                let tiles = (0..one.slots()).map(|slot| one.tile(slot).expect("no padding"));
                let tiles: Vec<[i64; 3]> = tiles.map(|tile| [tile.group, tile.m, tile.n]).collect();
                let found: Vec<[i64; 3]> = found.iter().map(|f| [f[0], f[1], f[2]]).collect();
                assert_eq!(found, tiles, "{problem} of {numbers:?}, {order}");
            }
            cases += found.len();
        }
        println!("law groups.walk: {cases} cases");
    }
}
