//! Reductions and scans of fragments: in a thread, over the lanes of a warp, the warps of a block, the blocks of a cluster.
//!
//! Every order is fixed, so that a sum of floats has the same bits in every run:
//!
//! | over | order |
//! |---|---|
//! | a mode of a fragment | ascending coordinates, one after the other |
//! | a mode of a tile | ascending coordinates in a thread, then a balanced tree of lanes, then the warps in their order |
//! | a warp | a balanced tree: neighbours at distance 1, then 2, 4, 8 and 16 |
//! | a block | the warps' results, in the order of the warps |
//! | a cluster | the blocks' results, in the order of the ranks |
//! | a scan | the elements of a thread in the order of their indices; the lanes before it at distances 1, 2, 4, 8 and 16; the warps before them in their order: `(warps + lanes) + own` |

use std::panic::Location;

use colex_atom::{FloatFormat, Ty};
use colex_ir::{Access, BinaryOp, Compare, Reg, RegType, ShuffleMode, Space, Type};
use colex_layout::{IntTuple, Layout};

use super::Fragment;
use super::expr::evaluate::range;
use super::expr::{Expr, ExprNode, Mask};
use crate::build::Builder;
use crate::error::ErrorKind;
use crate::index::Index;
use crate::tensor::coord::{SliceCoord, SliceMode};

/// What a reduction carries from element to element.
#[derive(Clone)]
struct Carried {
    values: Fragment,
    /// The indices of the values, of an arg-max or arg-min.
    indices: Option<Fragment>,
}

/// The layout of one element.
fn one() -> Result<Layout, ErrorKind> {
    Ok(Layout::column_major(1)?.to_static())
}

/// One element of a fragment.
pub(super) fn element(of: &Fragment, i: i64) -> Result<Fragment, ErrorKind> {
    Ok(Fragment {
        layout: one()?,
        start: of.start + of.layout.at(i)?,
        is_whole: false,
        rows: None,
        operand: None,
        ..of.clone()
    })
}

/// The number that a reduction begins with.
fn identity(op: BinaryOp, ty: Ty) -> Expr {
    let integer = |x: i128| Expr::new(ExprNode::Integer(x), None, Location::caller());
    let ends = |largest: bool| match FloatFormat::of(ty) {
        Some(_) if largest => Expr::from(f64::INFINITY),
        Some(_) => Expr::from(f64::NEG_INFINITY),
        None if largest => integer(range(ty).1),
        None => integer(range(ty).0),
    };
    match op {
        BinaryOp::Mul => Expr::from(1),
        BinaryOp::Max | BinaryOp::MaxNan => ends(false),
        BinaryOp::Min | BinaryOp::MinNan => ends(true),
        // All bits.
        BinaryOp::And => integer(if range(ty).0 < 0 { -1 } else { range(ty).1 }),
        // Adding it changes no number, not even -0.
        BinaryOp::Add if !ty.is_integer() => Expr::from(-0.0),
        _ => Expr::from(0),
    }
}

/// The most blocks of a cluster.
const MOST_BLOCKS: u32 = 16;

impl Builder {
    /// Reduces along mode `mode` of the shape of `x` in each thread, in ascending order. The result has extent 1 along the
    /// mode, so that an expression broadcasts it back.
    ///
    /// `op` is `Add`, `Mul`, `Max` or `Min`, of integers also `And`, `Or` or `Xor`, and of floats of 32 and 16 bits also `MaxNan` or `MinNan`,
    /// which return NaN if an element is NaN.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let x = k.fragment(Ty::F32, "(_2,_3):(_1,_2)");
    /// k.fill(&x, 1.0);
    /// k.fill(&x.slice((0, ..)), 2.0);
    /// let sums = k.reduce(BinaryOp::Add, &x, 1); // of the two rows
    /// assert_eq!(sums.layout().shape().to_string(), "(_2,_1)");
    /// let shares = k.map(&x / &sums);
    /// assert_eq!(elements(k, &shares)?[0], [1.0 / 3.0; 6]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::map`], if there is no such mode, or if the elements have no such operation.
    #[track_caller]
    pub fn reduce(&mut self, op: BinaryOp, x: impl Into<Expr>, mode: usize) -> Fragment {
        let x = self.fragment_of_expr(x.into());
        let inert = |k: &mut Self| k.inert_fragment(x.ty);
        self.attempt(Location::caller(), inert, |k| {
            check_op("reduce", op, x.ty)?;
            let Some(along) = x.layout.mode(mode) else {
                let why = format!("mode {mode} of {}, which has {}", x.layout, x.layout.rank());
                return Err(ErrorKind::operands("reduce", why));
            };
            let single = one()?.shape().clone();
            let part = |i: i64| -> Result<Fragment, ErrorKind> {
                let of = |m| {
                    if m == mode {
                        SliceMode::At(i.into())
                    } else {
                        SliceMode::All
                    }
                };
                let coord = SliceCoord::Modes((0..x.layout.rank()).map(of).collect());
                let (layout, offset) = x.layout.slice_and_offset(&coord.constant("reduce")?)?;
                let shape: Vec<IntTuple> = x
                    .layout
                    .modes()
                    .enumerate()
                    .map(|(m, own)| {
                        if m == mode {
                            single.clone()
                        } else {
                            own.shape().clone()
                        }
                    })
                    .collect();
                let values = (0..layout.size())
                    .map(|i| layout.at(i))
                    .collect::<Result<Vec<i64>, _>>()?;
                let shape = if shape.len() == 1 {
                    shape[0].clone()
                } else {
                    IntTuple::concat(&shape)
                };
                Ok(Fragment {
                    layout: Layout::infer_modes(&shape, |i| values[i as usize])?.to_static(),
                    start: x.start + offset,
                    is_whole: false,
                    rows: None,
                    operand: None,
                    ..x.clone()
                })
            };
            let total = k.map(part(0)?);
            for i in 1..along.size() {
                k.assign(&total, Expr::binary(op, &total, part(i)?));
            }
            Ok(total)
        })
    }

    /// Reduces all elements of `x` in each thread to one, in the order of their indices.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let x = k.fragment(Ty::F32, "(_2,_3):(_1,_2)");
    /// k.fill(&x, -3.0);
    /// let squares = k.reduce_all(BinaryOp::Add, &x * &x);
    /// assert_eq!(elements(k, &squares)?[0], [54.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::reduce`].
    #[track_caller]
    pub fn reduce_all(&mut self, op: BinaryOp, x: impl Into<Expr>) -> Fragment {
        let x = self.fragment_of_expr(x.into());
        let inert = |k: &mut Self| k.inert_fragment(x.ty);
        self.attempt(Location::caller(), inert, |k| {
            check_op("reduce_all", op, x.ty)?;
            let (total, _) = k.folded(op, &x, false)?;
            Ok(total)
        })
    }

    /// Reduces each element of `x` over the 32 lanes of the warp, at distances 1, 2, 4, 8 and 16: every lane holds the result.
    /// All lanes of the warp must execute it.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 64);
    /// let thread = k.thread();
    /// let x = k.map(Expr::from(thread).to(Ty::F32));
    /// let most = k.reduce_warp(BinaryOp::Max, &x);
    /// let found = elements(k, &most)?;
    /// assert_eq!((found[0][0], found[63][0]), (31.0, 63.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::reduce`], and if the block has no whole warps.
    #[track_caller]
    pub fn reduce_warp(&mut self, op: BinaryOp, x: impl Into<Expr>) -> Fragment {
        self.reduced("reduce_warp", op, x.into(), Self::over_warp)
    }

    /// Reduces each element of `x` over the threads of the block: over the lanes of each warp, then over the warps in their
    /// order. Every thread holds the result, and all threads of the block must execute it, since it has two barriers
    /// (`bar.sync 0`). It takes one element of shared memory for each warp and element of `x`.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 128);
    /// let thread = k.thread();
    /// let x = k.map(Expr::from(thread).to(Ty::F32));
    /// let sum = k.reduce_block(BinaryOp::Add, &x);
    /// assert_eq!(elements(k, &sum)?[77], [8128.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::reduce_warp`], or if the block has not enough shared memory.
    #[track_caller]
    pub fn reduce_block(&mut self, op: BinaryOp, x: impl Into<Expr>) -> Fragment {
        self.reduced("reduce_block", op, x.into(), Self::over_block)
    }

    /// Reduces each element of `x` over the threads of a cluster of `blocks` blocks: over each block as
    /// [`Builder::reduce_block`] does, then over the blocks in the order of their ranks, which are read from their shared
    /// memory. Every thread holds the result, and all threads of the cluster must execute it.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm90a, 64);
    /// k.cluster([2, 1, 1]);
    /// let block = k.block_index(0);
    /// let x = k.map(Expr::from(block).to(Ty::F32) + 1.0);
    /// let sum = k.reduce_cluster(BinaryOp::Add, &x, 2);
    /// assert_eq!(elements(k, &sum)?[77], [64.0 + 128.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::reduce_block`], and if another cluster is declared.
    #[track_caller]
    pub fn reduce_cluster(&mut self, op: BinaryOp, x: impl Into<Expr>, blocks: u32) -> Fragment {
        self.reduced("reduce_cluster", op, x.into(), |k, name, op, all| {
            let values = k.over_block(name, op, all)?.values;
            let values = k.over_cluster(op, &values, blocks)?;
            Ok(Carried {
                values,
                indices: None,
            })
        })
    }

    /// Returns the largest element of the block (`Max`) or the smallest (`Min`), and its number: elements of `x` are numbered
    /// by the elements of `numbers`, of type `s32`. Of equal elements the lowest number is taken, and a number before a NaN.
    /// All threads of the block must execute it, as for [`Builder::reduce_block`].
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 64);
    /// let thread = k.thread();
    /// let x = (Expr::from(&thread) * 17 % 64).to(Ty::F32); // 63 is that of thread 15
    /// let (most, at) = k.arg_reduce_block(BinaryOp::Max, x, &thread);
    /// let both = k.map(&most * 1000.0 + Expr::from(&at).to(Ty::F32));
    /// assert_eq!(elements(k, &both)?[5], [63015.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::reduce_block`], if the operation is another one, or if the numbers are not of
    /// type `s32`.
    #[track_caller]
    pub fn arg_reduce_block(
        &mut self,
        op: BinaryOp,
        x: impl Into<Expr>,
        numbers: impl Into<Expr>,
    ) -> (Fragment, Fragment) {
        let (x, numbers) = (self.fragment_of_expr(x.into()), numbers.into());
        let inert = |k: &mut Self| (k.inert_fragment(x.ty), k.inert_fragment(Ty::S32));
        self.attempt(Location::caller(), inert, |k| {
            check_op("arg_reduce_block", op, x.ty)?;
            if !matches!(op, BinaryOp::Max | BinaryOp::Min) || numbers.ty() != Some(Ty::S32) {
                let why = format!(
                    "{} by numbers of {}: max and min are, by numbers of s32",
                    op.ptx(),
                    numbers.ty().map_or("no type", Ty::ptx)
                );
                return Err(ErrorKind::operands("arg_reduce_block", why));
            }
            let all = k.fragment_under_layout(Ty::S32, &x.layout)?;
            k.assign(&all, numbers);
            let first = Carried {
                values: k.map(element(&x, 0)?),
                indices: Some(k.map(element(&all, 0)?)),
            };
            for i in 1..x.layout.size() {
                let next = Carried {
                    values: element(&x, i)?,
                    indices: Some(element(&all, i)?),
                };
                k.combine(op, &first, &next);
            }
            let all = k.over_block("arg_reduce_block", op, first)?;
            let indices = all.indices.expect("an arg-max carries indices");
            Ok((all.values, indices))
        })
    }

    /// Computes the prefixes of a sequence of which thread `t` of the block holds the elements from `n t` on, in the order of
    /// their indices: element `i` of the result is the reduction of all elements up to `i`, and with `exclusive` of those
    /// before it; the first of those is the number that changes no other: `-0.0` for a sum of floats, the least for `Max`. The
    /// second result is the reduction of all, in every thread. All threads of the block must execute it.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// let mut k = Builder::new("k", Arch::Sm80, 64);
    /// let x = k.fragment(Ty::F32, "_2:_1");
    /// k.fill(&x, 1.0);
    /// let (before, all) = k.scan_block(BinaryOp::Add, &x, true);
    /// let shares = k.map(&before / &all);
    /// assert_eq!(elements(k, &shares)?[32], [0.5, 65.0 / 128.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::reduce_block`].
    #[track_caller]
    pub fn scan_block(
        &mut self,
        op: BinaryOp,
        x: impl Into<Expr>,
        exclusive: bool,
    ) -> (Fragment, Fragment) {
        let x = self.fragment_of_expr(x.into());
        let inert = |k: &mut Self| (k.inert_fragment(x.ty), k.inert_fragment(x.ty));
        self.attempt(Location::caller(), inert, |k| {
            check_op("scan_block", op, x.ty)?;
            k.scanned(op, &x, exclusive)
        })
    }

    /// The reduction of each element of `x` over the threads that `over` takes.
    #[track_caller]
    fn reduced(
        &mut self,
        name: &'static str,
        op: BinaryOp,
        x: Expr,
        over: impl FnOnce(&mut Self, &'static str, BinaryOp, Carried) -> Result<Carried, ErrorKind>,
    ) -> Fragment {
        let x = self.fragment_of_expr(x);
        let inert = |k: &mut Self| k.inert_fragment(x.ty);
        self.attempt(Location::caller(), inert, |k| {
            check_op(name, op, x.ty)?;
            let all = Carried {
                values: k.copy_of(&x)?,
                indices: None,
            };
            Ok(over(k, name, op, all)?.values)
        })
    }

    /// The elements of an expression in registers; a fragment as it is.
    #[track_caller]
    pub(super) fn fragment_of_expr(&mut self, x: Expr) -> Fragment {
        match &x.0.node {
            ExprNode::Fragment(fragment) => fragment.clone(),
            _ => self.map(x),
        }
    }

    fn fragment_under_layout(&mut self, ty: Ty, like: &Layout) -> Result<Fragment, ErrorKind> {
        self.new_fragment(ty, &Layout::column_major(like.shape())?.to_static())
    }

    /// A copy in registers of its own.
    fn copy_of(&mut self, x: &Fragment) -> Result<Fragment, ErrorKind> {
        let d = self.fragment_under_layout(x.ty, &x.layout)?;
        self.assigned("reduce", &d, &x.into())?;
        Ok(d)
    }

    /// The reduction of all elements in their order, and, where they are asked for, the prefixes: of each element with those
    /// before it.
    fn folded(
        &mut self,
        op: BinaryOp,
        x: &Fragment,
        keeps: bool,
    ) -> Result<(Fragment, Vec<Fragment>), ErrorKind> {
        let mut total = self.map(element(x, 0)?);
        let mut prefixes = vec![total.clone()];
        for i in 1..x.layout.size() {
            let next = Expr::binary(op, &total, element(x, i)?);
            if keeps {
                total = self.map(next);
                prefixes.push(total.clone());
            } else {
                self.assign(&total, next);
            }
        }
        Ok((total, prefixes))
    }

    /// Brings another element, or each of other elements, into what is carried.
    fn combine(&mut self, op: BinaryOp, all: &Carried, other: &Carried) {
        let (Some(i), Some(j)) = (&all.indices, &other.indices) else {
            return self.assign(&all.values, Expr::binary(op, &all.values, &other.values));
        };
        let (v, w) = (Expr::from(&all.values), Expr::from(&other.values));
        let beyond = if op == BinaryOp::Max {
            w.gt(&v)
        } else {
            w.lt(&v)
        };
        let nan = |x: &Expr| x.compare(Compare::Neu, x.clone());
        let first: Mask = (w.equals(&v) | nan(&v) & nan(&w)) & Expr::from(j).lt(i);
        let better = beyond | nan(&v) & !nan(&w) | first;
        // Both are chosen before either is written.
        let (values, indices) = (
            self.map(better.select(&w, &v)),
            self.map(better.select(j, i)),
        );
        self.assign(&all.values, &values);
        self.assign(i, &indices);
    }

    /// The registers of another lane.
    pub(super) fn shuffled(
        &mut self,
        x: &Fragment,
        mode: ShuffleMode,
        lane: i64,
    ) -> Result<Fragment, ErrorKind> {
        let regs = x.named()?;
        let of = |reg: Reg| match reg.ty.bits() {
            64 => {
                let parts = self.ir.unpack(RegType::B32, reg);
                let parts: Vec<Reg> = parts
                    .into_iter()
                    .map(|part| self.ir.shuffle(mode, part, lane))
                    .collect();
                self.ir.pack(reg.ty, &parts)
            }
            _ => self.ir.shuffle(mode, reg, lane),
        };
        let own: Vec<Reg> = regs.into_iter().map(of).collect();
        // The copies lie in registers of their own, one after the other.
        Ok(Fragment {
            regs: own,
            ..x.clone()
        })
    }

    pub(super) fn check_warps(&self, operation: &'static str) -> Result<(), ErrorKind> {
        if self.threads == 0 || !self.threads.is_multiple_of(32) {
            let why = format!(
                "a block of {} threads; whole warps exchange their elements",
                self.threads
            );
            return Err(ErrorKind::operands(operation, why));
        }
        Ok(())
    }

    fn over_warp(
        &mut self,
        operation: &'static str,
        op: BinaryOp,
        all: Carried,
    ) -> Result<Carried, ErrorKind> {
        self.check_warps(operation)?;
        for distance in [1, 2, 4, 8, 16] {
            let values = self.shuffled(&all.values, ShuffleMode::Bfly, distance)?;
            let indices = match &all.indices {
                Some(indices) => Some(self.shuffled(indices, ShuffleMode::Bfly, distance)?),
                None => None,
            };
            self.combine(op, &all, &Carried { values, indices });
        }
        Ok(all)
    }

    /// Stores the registers of a fragment at a place of shared memory, where a condition holds.
    pub(super) fn put(
        &mut self,
        x: &Fragment,
        base: &Index,
        is_first: crate::build::flow::Cond,
    ) -> Result<(), ErrorKind> {
        let address = self.address(base, false);
        let regs = x.named()?;
        self.where_(is_first, |ir| {
            for (i, reg) in (0..).zip(regs) {
                let bytes = i64::from(reg.ty.bits()) / 8;
                ir.store(
                    Access::new(Space::Shared, Type::untyped(reg.ty)),
                    address.at(i * bytes),
                    reg,
                );
            }
        });
        Ok(())
    }

    /// Loads what [`Builder::put`] has stored, from this block or another one of the cluster.
    pub(super) fn fetch(
        &mut self,
        like: &Fragment,
        base: &Index,
        rank: Option<i64>,
    ) -> Result<Fragment, ErrorKind> {
        let address = self.address(base, false);
        let (space, address) = match rank {
            None => (Space::Shared, address),
            Some(rank) => {
                let own = self.value(base);
                (Space::Cluster, self.ir.mapa(own, rank).into())
            }
        };
        let load = |(i, reg): (i64, &Reg)| {
            let bytes = i64::from(reg.ty.bits()) / 8;
            let d = self.ir.reg(reg.ty);
            self.ir.load_to(
                Access::new(space, Type::untyped(reg.ty)),
                &[d],
                address.at(i * bytes),
            );
            d
        };
        let regs = (0..).zip(&like.named()?).map(load).collect();
        Ok(Fragment {
            regs,
            ..like.clone()
        })
    }

    /// Bytes of shared memory for the registers of a fragment, `count` times, and where each of them begins.
    pub(super) fn places_for(
        &mut self,
        x: &Fragment,
        count: i64,
    ) -> Result<(Index, i64), ErrorKind> {
        let bytes = x
            .named()?
            .iter()
            .map(|reg| i64::from(reg.ty.bits()) / 8)
            .sum::<i64>();
        let base = self.shared_bytes((bytes * count) as u32, 16);
        Ok((base, bytes))
    }

    fn over_block(
        &mut self,
        operation: &'static str,
        op: BinaryOp,
        all: Carried,
    ) -> Result<Carried, ErrorKind> {
        let all = self.over_warp(operation, op, all)?;
        let warps = i64::from(self.threads / 32);
        if warps == 1 {
            return Ok(all);
        }
        let parts: Vec<Fragment> = std::iter::once(&all.values)
            .chain(&all.indices)
            .cloned()
            .collect();
        let (warp, lane) = (self.thread() / 32, self.lane());
        let is_first = self.equal(&lane, &0.into());
        // What the last call has stored there may still be read.
        self.sync();
        let mut bases = Vec::new();
        for part in &parts {
            let (base, bytes) = self.places_for(part, warps)?;
            self.put(part, &(&base + &warp * bytes), is_first)?;
            bases.push((base, bytes));
        }
        self.sync();
        let mut total: Option<Carried> = None;
        for warp in 0..warps {
            let mut loaded = Vec::new();
            for (part, (base, bytes)) in parts.iter().zip(&bases) {
                loaded.push(self.fetch(part, &(base + warp * bytes), None)?);
            }
            let mut loaded = loaded.into_iter();
            let next = Carried {
                values: loaded.next().expect("the values"),
                indices: loaded.next(),
            };
            match &total {
                None => total = Some(next),
                Some(total) => self.combine(op, total, &next),
            }
        }
        Ok(total.unwrap_or(all))
    }

    fn over_cluster(
        &mut self,
        op: BinaryOp,
        all: &Fragment,
        blocks: u32,
    ) -> Result<Fragment, ErrorKind> {
        if !(1..=MOST_BLOCKS).contains(&blocks) {
            let why = format!("{blocks} blocks: a cluster has 1 to {MOST_BLOCKS}");
            return Err(ErrorKind::operands("reduce_cluster", why));
        }
        // The number of blocks is compared with the declared cluster.
        let _ = self.cluster_rank(blocks);
        let (base, _) = self.places_for(all, 1)?;
        let thread = self.thread();
        let is_first = self.equal(&thread, &0.into());
        // No block reads what the last call has stored any more: it ended with a barrier.
        self.put(all, &base, is_first)?;
        self.cluster_sync();
        let total = self.fetch(all, &base, Some(0))?;
        for rank in 1..i64::from(blocks) {
            let next = self.fetch(all, &base, Some(rank))?;
            self.assign(&total, Expr::binary(op, &total, &next));
        }
        // A block that ends takes its shared memory with it.
        self.cluster_sync();
        Ok(total)
    }

    fn scanned(
        &mut self,
        op: BinaryOp,
        x: &Fragment,
        exclusive: bool,
    ) -> Result<(Fragment, Fragment), ErrorKind> {
        self.check_warps("scan_block")?;
        let (total, prefixes) = self.folded(op, x, true)?;
        let start = self.new_fragment(x.ty, &one()?)?;
        self.assigned("scan_block", &start, &identity(op, x.ty))?;
        // The lanes before this one: shifted by one, then at distances 1, 2, 4, 8 and 16.
        let lane = self.lane();
        let mut own = self.copy_of(&total)?;
        for distance in [1, 2, 4, 8, 16] {
            let below = self.shuffled(&own, ShuffleMode::Up, distance)?;
            let has_one = Mask::from(self.less(&(distance - 1).into(), &lane));
            own = self.map(has_one.select(Expr::binary(op, &below, &own), &own));
        }
        let shifted = self.shuffled(&own, ShuffleMode::Up, 1)?;
        let has_one = Mask::from(self.less(&0.into(), &lane));
        let before = self.map(has_one.select(&shifted, &start));
        // The warps before this one.
        let warps = i64::from(self.threads / 32);
        let warp = self.thread() / 32;
        let is_last = self.equal(&lane, &31.into());
        self.sync();
        let (base, bytes) = self.places_for(&own, warps)?;
        self.put(&own, &(&base + &warp * bytes), is_last)?;
        self.sync();
        let (sum, earlier) = (self.copy_of(&start)?, self.copy_of(&start)?);
        for number in 0..warps {
            let next = self.fetch(&own, &(&base + number * bytes), None)?;
            let is_before = Mask::from(self.less(&number.into(), &warp));
            self.assign(&sum, Expr::binary(op, &sum, &next));
            self.assign(&earlier, is_before.select(&sum, &earlier));
        }
        let before = self.map(Expr::binary(op, &earlier, &before));
        let out = self.fragment_under_layout(x.ty, &x.layout)?;
        self.clear(&out);
        for i in 0..x.layout.size() {
            let prefix = match (exclusive, i) {
                (true, 0) => Expr::from(&before),
                (true, _) => Expr::binary(op, &before, &prefixes[i as usize - 1]),
                (false, _) => Expr::binary(op, &before, &prefixes[i as usize]),
            };
            self.assigned("scan_block", &element(&out, i)?, &prefix)?;
        }
        Ok((out, sum))
    }
}

/// Refuses what is no reduction of a type.
pub(super) fn check_op(operation: &'static str, op: BinaryOp, ty: Ty) -> Result<(), ErrorKind> {
    let exists = match op {
        BinaryOp::Add | BinaryOp::Mul | BinaryOp::Max | BinaryOp::Min => true,
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => ty.is_integer(),
        BinaryOp::MaxNan | BinaryOp::MinNan => !ty.is_integer() && ty != Ty::F64,
        _ => false,
    };
    if exists && super::expr::has_arithmetic(ty) {
        return Ok(());
    }
    let why = format!(
        "{} of {ty}; add, mul, max and min reduce numbers, and, or and xor integers, max.NaN and min.NaN floats of 32 and 16 bits, \
         and `.to(Ty::F32)` converts what has no arithmetic",
        op.ptx()
    );
    Err(ErrorKind::operands(operation, why))
}
