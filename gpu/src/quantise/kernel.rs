//! The kernel of a plan: the largest size of a row, its scale, the quantised numbers. Rows that begin anywhere are those of `shifted.rs`, and
//! rows that are staged in shared memory those of `staged.rs`.
//!
//! A row is read in turns, which the blocks of a cluster share. The first turns go to shared memory, the last one stays in registers, and those
//! between them are read again for the results.

use colex_atom::{Arch, CopyAtom, Ty};
use colex_ir::BinaryOp::Max;
use colex_ir::{Access, ClusterOrder, RegType, Space, Sync as Synchronise, Type};
use colex_layout::{C, Layout};
use colex_tensor::{
    AtThread, Builder, Elements, Error, Expr, Fragment, Index, Outside, Tensor, TensorKernel,
};
use colex_tiled::TiledCopy;

use super::plan::{QuantiseAccess, QuantisePlan};
use super::problem::{MOST, MOST_RUN, QuantiseProblem, line};
use super::shifted::ShiftedNumbers;
use crate::memory_bound::plan::WARP;
use crate::memory_bound::span::renew;

/// The largest number of a type that numbers are quantised to.
pub(crate) fn largest(to: Ty) -> f64 {
    match to {
        Ty::E4m3 => 448.0,
        Ty::E5m2 => 57344.0,
        _ => 127.0,
    }
}

/// The scale of numbers of which none is larger than `most`.
pub(crate) fn scale_of(most: impl Into<Expr>, to: Ty) -> Expr {
    let most = most.into();
    // A subnormal number has no reciprocal in f32, so no scale but 0 is one.
    let scale = (&most / largest(to)).max(f64::from(f32::MIN_POSITIVE));
    most.equals(0.0).select(0.0, scale)
}

/// A kernel that is being built.
pub(super) struct QuantiseKernel<'a> {
    pub(super) plan: &'a QuantisePlan,
    pub(super) x: Tensor,
    pub(super) q: Tensor,
    scales: Tensor,
    /// Of x, of q, and of one element for each thread.
    copies: [TiledCopy; 3],
    pub(super) thread: Index,
    /// The tile of the rows, and the rank of the block among those of a row.
    pub(super) at: [Index; 2],
    /// The columns of rows that are one mode with their elements.
    pub(super) columns: Option<Index>,
    /// The turns that shared memory keeps, as one mode.
    kept: Option<Tensor>,
    /// The address in shared memory of a number of each warp, where the blocks of a cluster share a row.
    of_warps: Option<Index>,
    /// What a thread has of a shifted row.
    shifted: Option<ShiftedNumbers>,
}

/// The elements of a thread that are under way at once.
struct RowTurn {
    /// The accesses, or one fragment of all.
    loaded: Vec<Fragment>,
}

/// The copy of `bits` bits.
fn universal(bits: i64) -> CopyAtom {
    let name = format!("UniversalCopy<uint{bits}_t>");
    colex_atom::copy(&name).expect("8 to 128 bits are in the table")
}

/// The layout of an access in registers, as elements of a tensor have it.
pub(super) fn of_access(vector: i64) -> Layout {
    let access = Layout::column_major((vector, 1)).expect("a vector");
    access.to_static()
}

/// Builds the kernel.
pub(crate) fn build(plan: &QuantisePlan, arch: Arch) -> Result<TensorKernel, Error> {
    let operands = &plan.operands;
    let mut k = Builder::new("quantise", arch, (plan.threads * plan.rows) as u32);
    if plan.blocks > 1 {
        k.cluster([plan.blocks as u32, 1, 1]);
    }
    if let Some(beside) = plan.beside() {
        k.min_blocks(beside as u32);
    }
    let is_run = plan.access != QuantiseAccess::Rows;
    let [x, q, scales] = QuantiseProblem::layouts_like(operands)?;
    let [x, q] = if is_run {
        [line(1 << 16)?, line(1 << 16)?]
    } else {
        [x, q]
    };
    let x = k.tensor("x", operands.from, x);
    let q = k.tensor("q", operands.to, q);
    let scales = k.tensor("scales", Ty::F32, scales);
    let columns = is_run.then(|| k.index_argument("columns", 1..MOST_RUN + 1));
    let (rows, threads) = (plan.rows, plan.threads);
    let over = Layout::new((rows, threads), (threads, 1))?;
    let tiled = |bits: i64, vector: i64| {
        let values = Layout::new((1, vector), (0, 1))?;
        TiledCopy::new(universal(bits * vector), bits, &over, &values)
    };
    let bits = i64::from(operands.from.bits());
    let copies = [
        tiled(bits, plan.vector)?,
        tiled(8, plan.vector)?,
        tiled(bits, 1)?,
    ];
    let kept = match plan.kept {
        0 => None,
        turns => {
            let all = Layout::concat(&[Layout::leaf(turns * plan.chunk() * rows, 1)?])?;
            Some(k.shared_tensor(operands.from, &all))
        }
    };
    let warps = threads / WARP;
    let of_warps = (plan.blocks > 1).then(|| k.shared_bytes(4 * warps as u32, 128));
    let block = k.block_index(0);
    let at = match plan.blocks {
        1 => [k.within(block, 0..MOST / plan.rows + 1), Index::constant(0)],
        blocks => {
            let block = k.within(block, 0..MOST * blocks);
            [&block / blocks, &block % blocks]
        }
    };
    let kernel = QuantiseKernel {
        plan,
        x,
        q,
        scales,
        copies,
        thread: k.thread(),
        at,
        columns,
        kept,
        of_warps,
        shifted: None,
    };
    match plan.access {
        QuantiseAccess::Rows => kernel.of_turns(&mut k),
        QuantiseAccess::Shifted => {
            let shifted = Some(kernel.shifted_row(&mut k));
            QuantiseKernel { shifted, ..kernel }.of_turns(&mut k);
        }
        QuantiseAccess::Staged => kernel.of_staged(&mut k),
    }
    if plan.blocks > 1 {
        // A block that ends takes its shared memory with it, and another one may still read its largest sizes.
        k.emit(|ir| ir.push(Synchronise::ClusterWait));
    }
    k.finish()
}

/// Numbers in f32.
pub(super) fn wide(x: &Fragment) -> Expr {
    Expr::from(x).to(Ty::F32)
}

impl QuantiseKernel<'_> {
    /// Rows whose turns registers and shared memory keep, or that are read again.
    fn of_turns(&self, k: &mut Builder) {
        let plan = self.plan;
        let own = k.fragment(Ty::F32, (C::<1>, C::<0>));
        k.fill(&own, 0.0);
        let measure = |k: &mut Builder, x: &Fragment| {
            let more = k.reduce_all(Max, wide(x).abs());
            k.assign(&own, Expr::from(&own).max(&more));
        };
        let edge = self.shifted.as_ref().map(|row| {
            let x = self.shifted_edge(k, row);
            measure(k, &x);
            x
        });
        let first = Index::constant(plan.kept);
        for number in 0..plan.kept {
            let turn = self.load(k, &Index::constant(number));
            turn.loaded.iter().for_each(|x| measure(k, x));
            self.keep(k, &turn, number);
        }
        let last = if plan.held {
            first.clone()
        } else {
            self.last_turn(k)
        };
        if !plan.held {
            k.for_(&first, &last, 1, |k, number| {
                let turn = self.load(k, number);
                turn.loaded.iter().for_each(|x| measure(k, x));
            });
        }
        let held = self.load(k, &last);
        held.loaded.iter().for_each(|x| measure(k, x));
        let inverse = self.scale(k, &own);
        if plan.beside().is_some() {
            renew(k, plan.operands.from, &held.loaded);
        }
        self.store(k, &held, &inverse, &last);
        if !plan.held {
            k.for_(&first, &last, 1, |k, number| {
                // The caches still have those that were read last.
                let number = &first + &last - number - 1;
                let number = k.within(number, 0..self.most_turns());
                let turn = self.load(k, &number);
                self.store(k, &turn, &inverse, &number);
            });
        }
        for number in 0..plan.kept {
            self.store_kept(k, &inverse, number);
        }
        if let (Some(row), Some(x)) = (&self.shifted, edge) {
            // A thread with many accesses has no register left for it: it is loaded again, and found in a cache.
            let x = match plan.beside() {
                Some(_) => self.shifted_edge(k, row),
                None => x,
            };
            self.store_shifted_edge(k, row, &x, &inverse);
        }
    }

    /// The most turns of a row that is read again, and those in shared memory.
    fn most_turns(&self) -> i64 {
        MOST / self.plan.turn() + self.plan.kept + 2
    }

    /// The number of the last turn of a row that is read again: behind those of shared memory, also where a row has fewer.
    fn last_turn(&self, k: &mut Builder) -> Index {
        let all = self.plan.turn();
        let columns = match (&self.columns, self.plan.access) {
            // The vectors inside of a row are as many, or one less.
            (Some(columns), QuantiseAccess::Shifted) => {
                columns / self.plan.vector * self.plan.vector
            }
            (Some(columns), _) => columns.clone(),
            (None, _) => self.x.extent(1),
        };
        let columns = k.within(columns, 0..MOST + 1);
        let turns = (columns + (all - 1)) / all;
        let kept = Index::constant(self.plan.kept);
        let last = Index::select_less(&(&kept + 1), &turns, &(&turns - 1), &kept);
        k.within(last, 0..self.most_turns())
    }

    /// A thread's part of a turn of the columns.
    fn part(&self, copy: &TiledCopy, of: &Tensor, turn: &Index) -> Tensor {
        let [row, rank] = &self.at;
        let tile = turn * self.plan.blocks + rank;
        let tile = of.local_tile((self.plan.rows, self.plan.chunk()), (row, &tile));
        copy.at(&self.thread).partition_src(&tile) // (CPY, CPY_M, CPY_N)
    }

    fn fragment(&self, k: &mut Builder, part: &Tensor) -> Fragment {
        match self.plan.vector {
            1 => k.fragment_unpacked(part),
            _ => k.fragment_like(part),
        }
    }

    /// A thread's elements of a turn. Those beyond the end are 0.
    fn load(&self, k: &mut Builder, turn: &Index) -> RowTurn {
        if let Some(row) = &self.shifted {
            let loaded = (0..self.plan.accesses).map(|i| {
                let at = self.shifted_vector(k, &self.x, row, [turn, &i.into()]);
                k.gather(&at)
            });
            let loaded = loaded.collect();
            return RowTurn { loaded };
        }
        let part = self.part(&self.copies[0], &self.x, turn);
        let held = self.fragment(k, &part);
        k.copy_in_bounds(&self.copies[0], &part, &held);
        RowTurn { loaded: vec![held] }
    }

    /// The accesses of a turn.
    fn accesses(&self, turn: &RowTurn) -> Vec<Fragment> {
        match &turn.loaded[..] {
            [all] if self.shifted.is_none() => (0..self.plan.accesses)
                .map(|i| all.slice((.., .., i))) // (CPY, CPY_M)
                .collect(),
            loaded => loaded.to_vec(),
        }
    }

    /// A thread's place in shared memory for an access of a turn. No other thread has it.
    fn place(&self, turn: i64, access: i64) -> Elements {
        let QuantisePlan {
            accesses, vector, ..
        } = *self.plan;
        let kept = self.kept.as_ref().expect("the plan keeps turns");
        let access = turn * accesses + access;
        let at = (&self.thread + access * self.plan.threads_of_block()) * vector;
        let at = kept.elements(at).vectors(0, vector);
        at.outside(Outside::Stated)
    }

    /// Puts a turn into shared memory.
    fn keep(&self, k: &mut Builder, turn: &RowTurn, number: i64) {
        for (i, x) in (0..).zip(self.accesses(turn)) {
            let x = x.with_layout(of_access(self.plan.vector));
            k.scatter(&x, &self.place(number, i));
        }
    }

    /// Stores the quantised numbers of a turn that shared memory keeps.
    fn store_kept(&self, k: &mut Builder, inverse: &Fragment, number: i64) {
        let turn = Index::constant(number);
        for i in 0..self.plan.accesses {
            let x = k.gather(&self.place(number, i));
            if let Some(row) = &self.shifted {
                self.store_shifted(k, row, &x, inverse, [&turn, &i.into()]);
                continue;
            }
            let part = self.part(&self.copies[1], &self.q, &turn).at(2, i); // (CPY, CPY_M)
            self.put(k, &x, inverse, &part);
        }
    }

    /// Stores the quantised numbers of a turn.
    fn store(&self, k: &mut Builder, turn: &RowTurn, inverse: &Fragment, number: &Index) {
        if let Some(row) = &self.shifted {
            for (i, x) in (0..).zip(&turn.loaded) {
                self.store_shifted(k, row, x, inverse, [number, &Index::constant(i)]);
            }
            return;
        }
        let part = self.part(&self.copies[1], &self.q, number);
        self.put(k, &turn.loaded[0], inverse, &part);
    }

    /// Stores the quantised numbers of a part, whose elements a fragment has in the same order.
    fn put(&self, k: &mut Builder, x: &Fragment, inverse: &Fragment, part: &Tensor) {
        let held = self.fragment(k, part);
        let x = if x.layout().shape() == held.layout().shape() {
            x.clone()
        } else {
            x.with_layout(held.layout())
        };
        k.assign(&held, self.quantised(&x, inverse));
        k.copy_in_bounds(&self.copies[1], &held, part);
    }

    /// The quantised numbers.
    pub(super) fn quantised(&self, x: &Fragment, inverse: &Fragment) -> Expr {
        (wide(x) * inverse).saturating(self.plan.operands.to)
    }

    /// The scale of a row from the largest size in each thread's part, which the first thread stores. Its reciprocal is returned.
    pub(super) fn scale(&self, k: &mut Builder, own: &Fragment) -> Fragment {
        let plan = self.plan;
        let most = self.most(k, own);
        let scale = k.map(scale_of(&most, plan.operands.to));
        let [tile, rank] = &self.at;
        let row = tile * plan.rows + &self.thread / plan.threads;
        let mut is_first = Expr::from(&self.thread % plan.threads).equals(0);
        if plan.blocks > 1 {
            is_first = is_first & Expr::from(rank).equals(0);
        }
        let place = self.scales.elements((row, Index::constant(0)));
        k.scatter(&scale, &place.only(is_first));
        let is_zero = Expr::from(&scale).equals(0.0);
        let inverse = Expr::from(1.0) / &scale;
        k.map(is_zero.select(0.0, inverse))
    }

    /// The largest size of a row, from that of each thread.
    fn most(&self, k: &mut Builder, own: &Fragment) -> Fragment {
        let QuantisePlan { rows, threads, .. } = *self.plan;
        if let Some(of_warps) = &self.of_warps {
            return self.most_of_cluster(k, own, of_warps);
        }
        let tile = match self.plan.access {
            QuantiseAccess::Rows => self.x.local_tile((rows, threads), (&self.at[0], 0)),
            _ if threads == 1 => return own.clone(),
            // Whose elements they are does not matter.
            QuantiseAccess::Shifted | QuantiseAccess::Staged => k.identity_tensor((rows, threads)),
        };
        let part = self.copies[2].at(&self.thread).partition_src(&tile); // (CPY, CPY_M, CPY_N)
        k.reduce_along(Max, own, &part, 1)
    }

    /// The same over the blocks of a cluster. Each warp puts its own into shared memory, and the lanes of each warp read those of all
    /// warps of all blocks: one meeting. A block says that it has read them where it arrives at the barrier for which it waits at its end.
    fn most_of_cluster(&self, k: &mut Builder, own: &Fragment, of_warps: &Index) -> Fragment {
        let warps = self.plan.threads / WARP;
        let all = k.reduce_warp(Max, own);
        let lane = k.lane();
        let [put, take] = [&self.thread / WARP, &lane % warps].map(|warp| of_warps + warp * 4);
        let is_first = k.equal(&lane, &0.into());
        let (put, number) = (k.address(&put, false), all.regs()[0]);
        k.where_(is_first, |ir| {
            ir.store(Access::new(Space::Shared, Type::F32), put, number);
        });
        k.cluster_sync();
        let at = k.value(&take);
        let numbers = k.emit(|ir| {
            let numbers: Vec<_> = (0..self.plan.blocks)
                .map(|rank| {
                    let at = ir.mapa(at, rank);
                    let d = ir.reg(RegType::F32);
                    ir.load_to(Access::new(Space::Cluster, Type::F32), &[d], at);
                    d
                })
                .collect();
            ir.push(Synchronise::ClusterArrive {
                order: ClusterOrder::Release,
            });
            numbers
        });
        let numbers = numbers.into_iter().map(|d| Expr::register(d, Ty::F32));
        let most = numbers.reduce(|a, b| Expr::binary(Max, a, b));
        let most = k.map(most.expect("a cluster has blocks"));
        k.reduce_warp(Max, &most)
    }
}
