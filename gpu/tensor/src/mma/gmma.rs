//! `wgmma`: operands in shared memory as descriptors, and asynchronous products.

use std::collections::BTreeSet;
use std::panic::Location;

use colex_atom::{GmmaDescriptor, SmemSwizzle, Space};
use colex_layout::{ComposedLayout, Int, Layout};
use colex_tiled::{Operand, TiledMma};

use super::check_type;
use crate::build::Builder;
use crate::build::flow::Cond;
use crate::error::ErrorKind;
use crate::failure::FirstFailure;
use crate::fragment::{Fragment, element};
use crate::index::{Index, sum};
use crate::tensor::offset::period;
use crate::tensor::partition::AtThread;
use crate::tensor::{Tensor, View, places};
use colex_ir::{Alu, BinaryOp, Reg, RegType, ScaleD};

/// One past the largest byte of shared memory that a descriptor reaches.
const REACH: u64 = (1 << 18) - 1;

/// An operand of `wgmma` in shared memory: a descriptor for every atom along M (or N) and K, and every stage.
///
/// The upper half of a descriptor is a constant of the kernel. The lower half is a base that the kernel computes once,
/// plus a constant for each atom.
#[derive(Clone, Debug)]
pub struct GmmaOperand {
    /// The modes after the atom's own: `(M, K, stage ..)`.
    rest: Layout,
    /// The start addresses in bytes, before they are masked.
    start: Index,
    base: Index,
    bytes: i64,
    descriptor: GmmaDescriptor,
    operand: Operand,
    /// Whose operand it is.
    mma: TiledMma,
    failure: FirstFailure,
}

/// A factor of `wgmma`: descriptors or, for A, registers.
#[derive(Clone, Copy, Debug)]
pub enum GmmaSource<'a> {
    /// In shared memory.
    Shared(&'a GmmaOperand),
    /// In registers.
    Registers(&'a Fragment),
}

impl<'a> From<&'a GmmaOperand> for GmmaSource<'a> {
    fn from(operand: &'a GmmaOperand) -> Self {
        GmmaSource::Shared(operand)
    }
}

impl<'a> From<&'a Fragment> for GmmaSource<'a> {
    fn from(fragment: &'a Fragment) -> Self {
        GmmaSource::Registers(fragment)
    }
}

impl GmmaOperand {
    /// Returns the operand at a stage that is known at run time: the last mode is fixed.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # let mma = TiledMma::new(colex_atom::mma("SM90_64x128x16_F32BF16BF16_SS")?, "(1,1,1):(0,0,0)", "(_,_,_)")?;
    /// let mut k = Builder::new("k", Arch::Sm90a, 128);
    /// // Blocks of 64 by 64 in the swizzle of 128 bytes, and four stages.
    /// let stages = "Sw<3,3,3> o 0 o (64,64,4):(64,1,4096)";
    /// let a = k.shared_tensor(Ty::Bf16, stages);
    /// let stage = k.index_argument("stage", 0..4);
    /// let a = k.gmma_operand(&mma, Operand::A, &a, &0.into());
    /// assert_eq!(a.at(&stage).extents(), [1, 4]); // 1 atom along M, 4 of 16 along K
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if there is no mode after K, or if the range of `stage` contains stages that the mode
    /// does not have.
    #[track_caller]
    pub fn at(&self, stage: impl Into<Index>) -> GmmaOperand {
        let stage = stage.into();
        let inert = || self.clone();
        self.failure.attempt(Location::caller(), inert, || {
            self.failure.own_indices([&stage])?;
            let mode = self.rest.get(&[2])?;
            places("at", &mode.to_static(), &stage)?;
            let start = crate::tensor::offset::layout_at(&mode, &stage);
            Ok(GmmaOperand {
                rest: self.rest.take(0..2)?,
                start: &self.start + start * self.bytes,
                ..self.clone()
            })
        })
    }

    /// Returns the number of atoms along M or N, and along K.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # let mma = TiledMma::new(colex_atom::mma("SM90_64x128x16_F32BF16BF16_SS")?, "(1,1,1):(0,0,0)", "(_,_,_)")?;
    /// let mut k = Builder::new("k", Arch::Sm90a, 128);
    /// let a = k.shared_tensor(Ty::Bf16, "Sw<3,3,3> o 0 o (64,64):(64,1)");
    /// let a = k.gmma_operand(&mma, Operand::A, &a, &0.into());
    /// assert_eq!(a.extents(), [1, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn extents(&self) -> [i64; 2] {
        [0, 1].map(|i| self.rest.mode(i).map_or(1, |m| m.size()))
    }

    /// Returns the fields that all descriptors share: the swizzle and the two byte offsets.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # let mma = TiledMma::new(colex_atom::mma("SM90_64x128x16_F32BF16BF16_SS")?, "(1,1,1):(0,0,0)", "(_,_,_)")?;
    /// let mut k = Builder::new("k", Arch::Sm90a, 128);
    /// let a = k.shared_tensor(Ty::Bf16, "Sw<3,3,3> o 0 o (64,64):(64,1)");
    /// let a = k.gmma_operand(&mma, Operand::A, &a, &0.into());
    /// assert_eq!(a.descriptor().swizzle, colex_atom::SmemSwizzle::B128);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn descriptor(&self) -> GmmaDescriptor {
        self.descriptor
    }

    /// The lower half of the descriptor of an atom.
    fn low(&self, i: i64, k: i64) -> Result<Index, ErrorKind> {
        let offset = self.rest.at((i, k))? * self.bytes;
        let (terms, constant) = (&self.start + offset).terms();
        // The base of the shared window carries the block's rank in the cluster in its upper bits. The mask keeps only
        // the bits that a descriptor holds.
        let (window, rest): (Vec<_>, Vec<_>) =
            terms.into_iter().partition(|(x, _)| *x == self.base);
        let address = sum(window, 0).bits(REACH, -4);
        let rest = sum(rest, constant);
        if rest.alignment() % 16 != 0 {
            let why = format!("an atom begins at byte {rest}, not at a multiple of 16");
            return Err(ErrorKind::operands("wgmma", why));
        }
        let fixed = self
            .descriptor
            .at(0)
            .encode()
            .map_err(|e| ErrorKind::operands("wgmma", e.to_string()))?;
        Ok(address + rest / 16 + (fixed & 0xffff_ffff) as i64)
    }

    fn high(&self) -> Result<i64, ErrorKind> {
        let fixed = self.descriptor.at(0).encode();
        let fixed = fixed.map_err(|e| ErrorKind::operands("wgmma", e.to_string()))?;
        Ok(i64::from((fixed >> 32) as u32))
    }
}

/// The instructions of a product of tiles.
struct Wgmma<'a> {
    operation: &'static str,
    mma: &'a TiledMma,
    /// The MMA of the columns that are computed, if they are not all.
    narrow: Option<&'a TiledMma>,
}

/// Refuses an MMA that is not another one with fewer columns, of which a tile has one atom along N.
fn check_columns(mma: &TiledMma, narrow: &TiledMma, along_n: i64) -> Result<(), String> {
    let (wide, few) = (mma.atom(), narrow.atom());
    let ([m, n, k], [few_m, few_n, few_k]) = (wide.mnk(), few.mnk());
    let is_same = (m, k) == (few_m, few_k)
        && wide.elements() == few.elements()
        && Operand::ALL.map(|of| element(wide, of)) == Operand::ALL.map(|of| element(few, of))
        && wide.options() == few.options()
        && wide.a_in_shared() == few.a_in_shared()
        && wide.traits().thread == few.traits().thread
        && mma.threads() == narrow.threads();
    if !is_same || few_n > n {
        return Err(format!(
            "{} of {} threads computes no first columns of {} of {} threads: it must be the same but for fewer columns",
            few.name(),
            narrow.threads(),
            wide.name(),
            mma.threads()
        ));
    }
    if along_n > 1 {
        return Err(format!(
            "a tile has {along_n} atoms of {} along N: the first columns are those of one",
            wide.name()
        ));
    }
    Ok(())
}

impl Builder {
    /// Builds the descriptors of A or B. `shared` is `(M, K, stage)` or `(N, K, stage)` in a canonical layout of
    /// `wgmma`. `thread` is the index of the thread in the MMA; it must be the same in all threads of a warpgroup, as
    /// [`Builder::uniform`] makes it.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mma = TiledMma::new(colex_atom::mma("SM90_64x128x16_F32BF16BF16_SS")?, "(1,1,1):(0,0,0)", "(_,_,_)")?;
    /// let mut k = Builder::new("k", Arch::Sm90a, 128);
    /// let b = k.shared_tensor(Ty::Bf16, "Sw<3,3,3> o 0 o (128,64):(64,1)");
    /// let leader = k.uniform(128) * 128; // the first thread of the warpgroup
    /// let b = k.gmma_operand(&mma, Operand::B, &b, &leader);
    /// assert_eq!(b.extents(), [1, 4]); // 1 atom of 128 along N, 4 of 16 along K
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails with the error of `GmmaDescriptor` if the layout is not canonical. It fails if the elements are
    /// not of the atom's type, if the tile is not a whole number of atoms, if no thread index stands for one of the warpgroups,
    /// or if the tile has no such partition.
    #[doc(alias = "make_fragment_A")]
    #[doc(alias = "make_fragment_B")]
    #[track_caller]
    pub fn gmma_operand(
        &mut self,
        mma: &TiledMma,
        operand: Operand,
        shared: &Tensor,
        thread: &Index,
    ) -> GmmaOperand {
        let inert = |k: &mut Self| GmmaOperand {
            rest: Layout::leaf(Int::Static(1), Int::Static(0)).expect("one element"),
            start: Index::constant(0),
            base: Index::constant(0),
            bytes: 1,
            descriptor: GmmaDescriptor {
                start: 0,
                leading: 0,
                stride: 0,
                base_offset: 0,
                swizzle: SmemSwizzle::None,
            },
            operand,
            mma: mma.clone(),
            failure: k.failure.clone(),
        };
        self.attempt(Location::caller(), inert, |k| {
            k.own_tensors(&[shared])?;
            k.failure.own_indices([thread])?;
            k.check_leaders(mma, thread)?;
            let part = mma.at(thread).part(shared, operand)?;
            k.describe(mma, operand, shared, &part)
        })
    }

    /// Refuses a thread index that stands for none of the threads of one of the MMA's warpgroups.
    fn check_leaders(&self, mma: &TiledMma, thread: &Index) -> Result<(), ErrorKind> {
        self.check_threads("gmma_operand", mma)?;
        let group = mma.atom().traits().thread.size();
        let mut missing: BTreeSet<i64> = (0..mma.threads() / group).collect();
        for number in 0..i64::from(self.threads) {
            let of = |reg| self.reports.values.of_thread(reg, number);
            match thread.eval(&of) {
                Some(thread) => missing.remove(&thread.div_euclid(group)),
                None => return Ok(()),
            };
        }
        let Some(first) = missing.first() else {
            return Ok(());
        };
        let why = format!(
            "{} is of {} threads, and at the thread index {thread} no thread of the block of {} speaks for threads {} to {}",
            mma.atom().name(),
            mma.threads(),
            self.threads,
            first * group,
            (first + 1) * group - 1
        );
        Err(ErrorKind::operands("gmma_operand", why))
    }

    fn describe(
        &mut self,
        mma: &TiledMma,
        operand: Operand,
        shared: &Tensor,
        part: &Tensor,
    ) -> Result<GmmaOperand, ErrorKind> {
        let (
            View::Offsets {
                swizzle,
                layout,
                start,
                after,
            },
            Space::Shared,
        ) = (&part.view, shared.space)
        else {
            return Err(ErrorKind::operands(
                "gmma_operand",
                "the operand is not in shared memory",
            ));
        };
        let letter = match operand {
            Operand::A => 'A',
            Operand::B => 'B',
            Operand::C => return Err(ErrorKind::operands("gmma_operand", "C is in registers")),
        };
        let atom = mma.atom();
        check_type("gmma_operand", atom, operand, shared.ty)?;
        if let Some(end) = part.ends.first() {
            let why = format!(
                "{} is no whole number of the atoms of {}: they reach to {:?} of {:?}",
                shared.layout(),
                atom.name(),
                end.reach,
                end.extents
            );
            return Err(ErrorKind::operands("gmma_operand", why));
        }
        let tile = ComposedLayout::new(*swizzle, 0, layout.get(&[0])?)?;
        let descriptor = atom.descriptor(letter, &tile)?;
        let bytes = i64::from(part.ty.bits()) / 8;
        let whole = &part.base + (start + after) * bytes;
        let from = swizzle.from_mask() as u64;
        let rest = layout.take(1..layout.rank())?;
        for i in 0..rest.size() {
            let at = start + rest.at(i)?;
            if at.0.bits & from & (period(*swizzle) as u64 - 1) != 0 {
                let why = format!(
                    "an atom begins at element {at}, between the rows of the swizzle {swizzle}"
                );
                return Err(ErrorKind::operands("gmma_operand", why));
            }
        }
        let (base, _) = part.base.split();
        Ok(GmmaOperand {
            rest,
            start: whole,
            base,
            bytes,
            descriptor,
            operand,
            mma: mma.clone(),
            failure: self.failure.clone(),
        })
    }

    /// Computes `d = a b + d` by `wgmma` over the atoms of a stage. Where `accumulates` does not hold, the first atom along
    /// K computes `d = a b`: a condition such as `k.less(&0.into(), step)`, a `bool`, or a [`ScaleD`]. Call
    /// [`Builder::wgmma_fence`] before it, and [`Builder::wgmma_commit`] and [`Builder::wgmma_wait`] after it.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # let mma = TiledMma::new(colex_atom::mma("SM90_64x128x16_F32BF16BF16_SS")?, "(1,1,1):(0,0,0)", "(_,_,_)")?;
    /// # let mut k = Builder::new("k", Arch::Sm90a, 128);
    /// # let layouts = ["Sw<3,3,3> o 0 o (64,64):(64,1)", "Sw<3,3,3> o 0 o (128,64):(64,1)"];
    /// # let [sa, sb] = layouts.map(|text| k.shared_tensor(Ty::Bf16, text));
    /// # let leader = k.uniform(128) * 128;
    /// let a = k.gmma_operand(&mma, Operand::A, &sa, &leader);
    /// let b = k.gmma_operand(&mma, Operand::B, &sb, &leader);
    /// let c = k.fragment_of(&mma, Operand::C, (64, 128));
    /// k.wgmma_fence();
    /// k.wgmma_tile(&mma, &c, &a, &b, false);
    /// k.wgmma_commit();
    /// k.wgmma_wait(0);
    /// assert_eq!(k.finish()?.kernel.ptx()?.matches("wgmma.mma_async").count(), 4); // 4 atoms along K
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if extents do not match, if elements are not of the atom's types, if descriptors are of
    /// another operand or MMA, if a fragment holds other elements of its tile than the product takes, or if the MMA has more
    /// threads than the block.
    #[track_caller]
    pub fn wgmma_tile<'a>(
        &mut self,
        mma: &TiledMma,
        d: &Fragment,
        a: impl Into<GmmaSource<'a>>,
        b: &GmmaOperand,
        accumulates: impl Into<Cond>,
    ) {
        let work = Wgmma {
            operation: "wgmma_tile",
            mma,
            narrow: None,
        };
        self.issue_wgmma(&work, d, (a.into(), b), accumulates.into());
    }

    /// Computes the first columns of a tile as [`Builder::wgmma_tile`] computes all of them: by the instruction of `narrow`, which
    /// is that of `mma` with fewer columns. The accumulators and the descriptors are those of `mma`; the accumulators of the other columns
    /// stay as they are, and no other row of B is read. The numbers of columns for which a kernel has such a call are its choice at run time.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let [mma, narrow] = [128, 48].map(|n| {
    ///     let atom = colex_atom::mma(&format!("SM90_64x{n}x16_F32BF16BF16_SS")).unwrap();
    ///     TiledMma::new(atom, "(1,1,1):(0,0,0)", "(_,_,_)").unwrap()
    /// });
    /// # let mut k = Builder::new("k", Arch::Sm90a, 128);
    /// # let layouts = ["Sw<3,3,3> o 0 o (64,64):(64,1)", "Sw<3,3,3> o 0 o (128,64):(64,1)"];
    /// # let [sa, sb] = layouts.map(|text| k.shared_tensor(Ty::Bf16, text));
    /// # let leader = k.uniform(128) * 128;
    /// let a = k.gmma_operand(&mma, Operand::A, &sa, &leader);
    /// let b = k.gmma_operand(&mma, Operand::B, &sb, &leader);
    /// let c = k.fragment_of(&mma, Operand::C, (64, 128));
    /// k.wgmma_fence();
    /// k.wgmma_columns((&mma, &narrow), &c, &a, &b, false); // columns 0 to 47
    /// k.wgmma_commit();
    /// k.wgmma_wait(0);
    /// assert_eq!(k.finish()?.kernel.ptx()?.matches("m64n48k16").count(), 4); // 4 atoms along K
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::wgmma_tile`], if `narrow` differs from `mma` in more than the columns of its
    /// instruction or has more of them, and if a tile has several atoms along N.
    #[track_caller]
    pub fn wgmma_columns<'a>(
        &mut self,
        (mma, narrow): (&TiledMma, &TiledMma),
        d: &Fragment,
        a: impl Into<GmmaSource<'a>>,
        b: &GmmaOperand,
        accumulates: impl Into<Cond>,
    ) {
        let work = Wgmma {
            operation: "wgmma_columns",
            mma,
            narrow: Some(narrow),
        };
        self.issue_wgmma(&work, d, (a.into(), b), accumulates.into());
    }

    #[track_caller]
    fn issue_wgmma(
        &mut self,
        work: &Wgmma<'_>,
        d: &Fragment,
        (a, b): (GmmaSource<'_>, &GmmaOperand),
        accumulates: Cond,
    ) {
        let at = Location::caller();
        self.run(at, |k| {
            k.own_fragments(&[d])?;
            k.failure.own("descriptors", b.failure.owner())?;
            match a {
                GmmaSource::Shared(a) => k.failure.own("descriptors", a.failure.owner())?,
                GmmaSource::Registers(a) => k.own_fragments(&[a])?,
            }
            let scale_d = match k.known(accumulates, at) {
                Ok(true) => ScaleD::One,
                Ok(false) => ScaleD::Zero,
                Err(guard) if guard.when => ScaleD::Pred(guard.pred),
                // The instruction takes a register, not its negation.
                Err(guard) => ScaleD::Pred(k.ir.pred(BinaryOp::And, guard, guard)),
            };
            k.run_wgmma(work, d, (a, b), scale_d)
        });
    }

    fn run_wgmma(
        &mut self,
        work: &Wgmma<'_>,
        d: &Fragment,
        (a, b): (GmmaSource<'_>, &GmmaOperand),
        scale_d: ScaleD,
    ) -> Result<(), ErrorKind> {
        let Wgmma {
            operation,
            mma,
            narrow,
        } = *work;
        let refuse = |why: String| Err(ErrorKind::operands(operation, why));
        self.check_threads(operation, mma)?;
        let atom = mma.atom();
        check_type(operation, atom, Operand::C, d.ty)?;
        let mut described = vec![(Operand::B, b)];
        match a {
            GmmaSource::Shared(a) => described.push((Operand::A, a)),
            GmmaSource::Registers(a) => check_type(operation, atom, Operand::A, a.ty)?,
        }
        if matches!(a, GmmaSource::Shared(_)) != atom.a_in_shared() {
            return refuse(format!(
                "{} reads A from {}",
                atom.name(),
                if atom.a_in_shared() {
                    "shared memory"
                } else {
                    "registers"
                }
            ));
        }
        for (operand, given) in described {
            if given.operand != operand || given.mma != *mma {
                return refuse(format!(
                    "the descriptors given as {operand:?} of {} are of {:?} of {}, of {} threads",
                    atom.name(),
                    given.operand,
                    given.mma.atom().name(),
                    given.mma.threads()
                ));
            }
        }
        let size = |l: &Layout, i| l.mode(i).map_or(1, |m| m.size());
        let traits = atom.traits();
        let values = |l: &Layout| l.mode(1).map_or(1, |m| m.size());
        let of_a = match a {
            GmmaSource::Shared(_) => None,
            GmmaSource::Registers(a) => Some((size(&a.layout, 0), values(&traits.a))),
        };
        let of_d = Some((size(&d.layout, 0), values(&traits.c)));
        if let Some((found, expected)) = [of_a, of_d].into_iter().flatten().find(|(f, e)| f != e) {
            return refuse(format!(
                "a fragment has {found} values of an atom, and {} takes {expected}",
                atom.name()
            ));
        }
        let [m, ka] = match a {
            GmmaSource::Shared(a) => a.extents(),
            GmmaSource::Registers(a) => [size(&a.layout, 1), size(&a.layout, 2)],
        };
        let [n, kb] = b.extents();
        if ka != kb || [size(&d.layout, 1), size(&d.layout, 2)] != [m, n] {
            let why = format!(
                "A is {m} by {ka} atoms, B {n} by {kb}, and the accumulators are {}",
                d.layout
            );
            return refuse(why);
        }
        let issued = match narrow {
            Some(narrow) => {
                check_columns(mma, narrow, n).map_err(|why| ErrorKind::operands(operation, why))?;
                narrow.atom()
            }
            None => atom,
        };
        let mut operands = vec![(Operand::C, d)];
        if let GmmaSource::Registers(a) = a {
            operands.push((Operand::A, a));
        }
        self.check_operands(operation, mma, &operands)?;
        self.forget_parts(d)?;
        let note = format!("{m} along M, {n} along N, {ka} along K");
        self.note(issued.name(), m * n * ka, note, Vec::new());
        let (values, given) = (
            size(&d.layout, 0),
            match a {
                GmmaSource::Shared(_) => 0,
                GmmaSource::Registers(a) => size(&a.layout, 0),
            },
        );
        // The accumulators of an atom are in the order of its columns.
        let values_issued = values * issued.mnk()[1] / atom.mnk()[1];
        for k in 0..ka {
            for i in 0..m {
                for j in 0..n {
                    let of_a = match a {
                        GmmaSource::Shared(a) => vec![self.descriptor_at(a, i, k)?],
                        GmmaSource::Registers(a) => a.run(given * (i + m * k), given)?,
                    };
                    let of_b = self.descriptor_at(b, j, k)?;
                    let of_d = d.run(values * (i + m * j), values_issued)?;
                    let scale = if k == 0 { scale_d } else { ScaleD::One };
                    self.ir.wgmma(issued, &of_d, &of_a, of_b, scale);
                }
            }
        }
        Ok(())
    }

    fn descriptor_at(&mut self, operand: &GmmaOperand, i: i64, k: i64) -> Result<Reg, ErrorKind> {
        let low = self.value(&operand.low(i, k)?);
        let high = self.value(&operand.high()?.into());
        let d = self.ir.reg(RegType::B64);
        self.ir.push(Alu::Pack {
            d,
            parts: vec![low, high],
        });
        Ok(d)
    }
}
