//! Copies between memory and registers, instruction by instruction.

use std::collections::HashMap;
use std::panic::Location;

use colex_atom::{Argument, CopyAtom, CopyForm, Space};
use colex_tiled::TiledCopy;

use super::builder::{Builder, Cond, zero_of};
use super::error::{At, Error, ErrorKind};
use super::fragment::Fragment;
use super::index::Index;
use super::memory::{Tensor, View};
use crate::ir::{
    Access, Address, Cache, CopyArgs, End, Op, Operand, Reg, RegType, Space as Memory, Type,
};

/// One end of a copy: a partition in memory, or registers.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// A thread's part of a tensor in memory.
    Memory(&'a Tensor),
    /// Registers.
    Registers(&'a Fragment),
}

impl<'a> From<&'a Tensor> for Piece<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Piece::Memory(tensor)
    }
}

impl<'a> From<&'a Fragment> for Piece<'a> {
    fn from(fragment: &'a Fragment) -> Self {
        Piece::Registers(fragment)
    }
}

impl Piece<'_> {
    fn layout(&self) -> &colex_layout::Layout {
        match self {
            Piece::Memory(tensor) => tensor.layout(),
            Piece::Registers(fragment) => fragment.layout(),
        }
    }

    fn space(&self) -> Space {
        match self {
            Piece::Memory(tensor) => tensor.space,
            Piece::Registers(_) => Space::Register,
        }
    }
}

/// Which of its instructions a copy executes.
pub(super) enum Mask<'a> {
    All,
    Inside,
    If(&'a mut dyn FnMut(&mut Builder, &[Index]) -> Cond),
}

/// How a copy asks its memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hints {
    /// What is asked of the caches, of loads and stores.
    pub cache: Cache,
    /// A 64-bit cache policy.
    pub policy: Option<Reg>,
}

impl Default for Hints {
    fn default() -> Self {
        Hints {
            cache: Cache::Default,
            policy: None,
        }
    }
}

/// What the instructions of one copy share.
struct Run<'a> {
    atom: CopyAtom,
    src: Piece<'a>,
    dst: Piece<'a>,
    /// How many elements a thread gives an instruction, and gets.
    counts: [i64; 2],
    hints: Hints,
    halves: HashMap<Reg, Vec<Reg>>,
    sizes: HashMap<Index, Reg>,
    /// Where the instructions so far begin, in the source and in the destination.
    addresses: [Vec<Index>; 2],
}

impl Builder {
    /// Copies a thread's part of a tensor: one instruction for every atom's worth of its values.
    ///
    /// `src` and `dst` are partitions of the same [`TiledCopy`], or fragments in its modes. The atom's vector must lie
    /// contiguous and aligned in memory; what only the launch can tell (the pointer, the strides) it is asked for by
    /// [`super::Built::arguments`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Operands`] for sizes that differ, values that are not neighbours, and ends that the atom does not
    /// connect; [`ErrorKind::Layout`], [`ErrorKind::Atom`].
    #[track_caller]
    pub fn copy<'a>(
        &mut self,
        copy: &TiledCopy,
        src: impl Into<Piece<'a>>,
        dst: impl Into<Piece<'a>>,
    ) -> Result<(), Error> {
        let at = Location::caller();
        let ends = (src.into(), dst.into());
        self.site(at, |k| k.run_copy(copy, ends, Hints::default(), Mask::All))
            .at(at)
    }

    /// The same, only of coordinates within the extents of the tensor in global memory. Where they are not, a load into
    /// registers or a zero-filling `cp.async` gives zeros, and nothing is stored.
    ///
    /// # Errors
    ///
    /// As [`Builder::copy`].
    #[doc(alias = "copy_if")]
    #[track_caller]
    pub fn copy_inside<'a>(
        &mut self,
        copy: &TiledCopy,
        src: impl Into<Piece<'a>>,
        dst: impl Into<Piece<'a>>,
    ) -> Result<(), Error> {
        let at = Location::caller();
        let ends = (src.into(), dst.into());
        self.site(at, |k| {
            k.run_copy(copy, ends, Hints::default(), Mask::Inside)
        })
        .at(at)
    }

    /// The same, only where `cond` says so of the coordinates of an instruction's first value.
    ///
    /// # Errors
    ///
    /// As [`Builder::copy`].
    #[track_caller]
    pub fn copy_if<'a>(
        &mut self,
        copy: &TiledCopy,
        src: impl Into<Piece<'a>>,
        dst: impl Into<Piece<'a>>,
        mut cond: impl FnMut(&mut Builder, &[Index]) -> Cond,
    ) -> Result<(), Error> {
        let at = Location::caller();
        let ends = (src.into(), dst.into());
        let mask = Mask::If(&mut cond);
        self.site(at, |k| k.run_copy(copy, ends, Hints::default(), mask))
            .at(at)
    }

    /// [`Builder::copy_inside`] with hints for the caches; with `inside` false, [`Builder::copy`].
    ///
    /// # Errors
    ///
    /// As [`Builder::copy`].
    #[track_caller]
    pub fn copy_with<'a>(
        &mut self,
        copy: &TiledCopy,
        src: impl Into<Piece<'a>>,
        dst: impl Into<Piece<'a>>,
        inside: bool,
        hints: Hints,
    ) -> Result<(), Error> {
        let at = Location::caller();
        let ends = (src.into(), dst.into());
        let mask = if inside { Mask::Inside } else { Mask::All };
        self.site(at, |k| k.run_copy(copy, ends, hints, mask))
            .at(at)
    }

    fn run_copy(
        &mut self,
        copy: &TiledCopy,
        (src, dst): (Piece<'_>, Piece<'_>),
        hints: Hints,
        mut mask: Mask<'_>,
    ) -> Result<(), ErrorKind> {
        let atom = match copy.atom().row().form {
            CopyForm::Universal => copy.atom().between(src.space(), dst.space())?,
            _ => copy.atom().clone(),
        };
        if [atom.from(), atom.to()] != [src.space(), dst.space()] {
            let why = format!(
                "{} goes from {} to {}, and the copy from {} to {}",
                atom.name(),
                atom.from(),
                atom.to(),
                src.space(),
                dst.space()
            );
            return Err(ErrorKind::operands("copy", why));
        }
        let values = atom.val_layouts(copy.value_bits())?;
        let counts = [&values.src, &values.dst].map(|l| l.mode(1).map_or(1, |m| m.size()));
        let [n, m] =
            [(src, counts[0]), (dst, counts[1])].map(|(piece, c)| piece.layout().size() / c);
        if n != m {
            let why = format!(
                "{} takes {n} instructions from {} and {m} into {}",
                atom.name(),
                src.layout(),
                dst.layout()
            );
            return Err(ErrorKind::operands("copy", why));
        }
        let mut run = Run {
            atom,
            src,
            dst,
            counts,
            hints,
            halves: HashMap::new(),
            sizes: HashMap::new(),
            addresses: [Vec::new(), Vec::new()],
        };
        for i in 0..n {
            self.instruction(&mut run, i, &mut mask)?;
        }
        let ends = run.ends(copy);
        self.note(run.atom.name(), n, String::new(), ends);
        run.join(self);
        Ok(())
    }

    fn instruction(
        &mut self,
        run: &mut Run<'_>,
        i: i64,
        mask: &mut Mask<'_>,
    ) -> Result<(), ErrorKind> {
        let [s, d] = [run.counts[0] * i, run.counts[1] * i];
        let global = [(run.src, s), (run.dst, d)]
            .into_iter()
            .find_map(|(piece, at)| match piece {
                Piece::Memory(tensor) if tensor.space == Space::Global => Some((tensor, at)),
                _ => None,
            });
        let fills = run.takes(Argument::SourceBytes);
        let vector = run.counts[0];
        let (cond, partial) = match (&mut *mask, global) {
            (Mask::All, _) => (Cond::Known(true), None),
            (Mask::Inside, None) => {
                let why = "neither end is in global memory, so that no coordinate can lie outside";
                return Err(ErrorKind::operands("copy_inside", why));
            }
            (Mask::Inside, Some((tensor, at))) => self.inside(tensor, at, vector, fills)?,
            (Mask::If(cond), Some((tensor, at))) => {
                let coordinates = tensor.coordinates_at(at)?;
                (cond(self, &coordinates), None)
            }
            (Mask::If(cond), None) => (cond(self, &[]), None),
        };
        let from = self.end(run, 0, s)?;
        let to = self.end(run, 1, d)?;
        match (run.atom.row().form, from, to) {
            (CopyForm::Universal, Ends::Memory(a), Ends::Registers(..)) => {
                self.load_run(run, a, d, cond)
            }
            (CopyForm::Universal, Ends::Registers(..), Ends::Memory(a)) => {
                self.store_run(run, a, s, cond)
            }
            (CopyForm::Universal, Ends::Registers(from), Ends::Registers(to)) => {
                for (from, to) in from.iter().zip(&to) {
                    self.where_(cond, |k| k.mov_to(*to, *from));
                }
                Ok(())
            }
            (_, from, to) => {
                self.special_copy(run, from, to, cond, partial);
                Ok(())
            }
        }
    }

    /// `ldmatrix`, `stmatrix`, `cp.async` and their like.
    fn special_copy(
        &mut self,
        run: &mut Run<'_>,
        from: Ends,
        to: Ends,
        cond: Cond,
        partial: Option<Index>,
    ) {
        let bytes = run.atom.bits_per_thread() as i64 / 8;
        let mut args = CopyArgs {
            src: from.into(),
            dst: to.into(),
            policy: run.hints.policy,
            ..CopyArgs::default()
        };
        if !run.takes(Argument::SourceBytes) {
            self.where_(cond, |k| k.copy_atom(&run.atom, args));
            return;
        }
        // What is not read is filled with zeros: the copy itself is executed by everybody.
        let whole: Operand = match partial {
            None => bytes.into(),
            Some(left) => run.size(self, left, bytes).into(),
        };
        args.source_bytes = Some(match cond {
            Cond::Known(true) => whole,
            Cond::Known(false) => 0.into(),
            Cond::Where(g) if g.when => self.ir.selp(Type::B32, whole, 0, g.pred).into(),
            Cond::Where(g) => self.ir.selp(Type::B32, 0, whole, g.pred).into(),
        });
        self.ir.copy_atom(&run.atom, args);
    }

    /// Whether the vector at an index lies within the extents, and, where the instruction fills with zeros, how many
    /// elements of it do.
    fn inside(
        &mut self,
        tensor: &Tensor,
        at: i64,
        vector: i64,
        fills: bool,
    ) -> Result<(Cond, Option<Index>), ErrorKind> {
        let View::Coords { of, .. } = &tensor.view else {
            return Ok((Cond::Known(true), None));
        };
        let first = tensor.coordinates_at(at)?;
        let last = tensor.coordinates_at(at + vector - 1)?;
        let mut cond = Cond::Known(true);
        let mut partial = None;
        for (mode, (x, y)) in first.iter().zip(&last).enumerate() {
            let extent = &of.extents[mode];
            let within =
                if x == y || extent.alignment() % vector == 0 && x.alignment() % vector == 0 {
                    self.less(x, extent)
                } else if fills {
                    partial = Some(extent - x);
                    Cond::Known(true)
                } else if let Some(leaf) = of
                    .dynamic_extent(mode)
                    .filter(|_| x.alignment() % vector == 0)
                {
                    self.launch.require(of.slot, Some(leaf), vector);
                    self.less(x, extent)
                } else {
                    self.less(y, extent)
                };
            cond = self.both(cond, within);
        }
        Ok((cond, partial))
    }

    /// What an instruction is given for one of its ends.
    fn end(&mut self, run: &mut Run<'_>, side: usize, first: i64) -> Result<Ends, ErrorKind> {
        let (piece, count) = ([run.src, run.dst][side], run.counts[side]);
        match piece {
            Piece::Memory(tensor) => {
                let bytes = tensor.bytes_at(first)?;
                self.check_vector(tensor, first, count, &bytes)?;
                let global = tensor.space == Space::Global;
                let address = self.address(&bytes, global);
                run.addresses[side].push(bytes);
                Ok(Ends::Memory(address))
            }
            Piece::Registers(fragment) => {
                let wide = count * i64::from(fragment.ty.bits()) >= 32;
                Ok(Ends::Registers(if wide {
                    fragment.run(first, count)?
                } else {
                    Vec::new()
                }))
            }
        }
    }

    /// The values of a vector must be neighbours, the first on a multiple of their bytes.
    fn check_vector(
        &mut self,
        tensor: &Tensor,
        first: i64,
        count: i64,
        start: &Index,
    ) -> Result<(), ErrorKind> {
        let bytes = i64::from(tensor.ty.bits()) / 8;
        for i in 1..count {
            let step = tensor.bytes_at(first + i)? - start;
            if step.as_constant() != Some(i * bytes) {
                let why = format!(
                    "an instruction moves {count} neighbours, and element {i} of {} lies {step} bytes after the first",
                    tensor.layout()
                );
                return Err(ErrorKind::operands("copy", why));
            }
        }
        let need = (count * bytes).min(16);
        if let View::Coords { of, .. } = &tensor.view {
            self.launch.require(of.slot, None, need);
            let coordinates = tensor.coordinates_at(first)?;
            for (mode, x) in coordinates.iter().enumerate() {
                self.check_mode(of, mode, x, need / bytes)?;
            }
            return Ok(());
        }
        if (start - &tensor.base).alignment() % need != 0 {
            let why = format!(
                "an instruction moves {need} bytes from a multiple of them, and {} starts at {start}",
                tensor.layout()
            );
            return Err(ErrorKind::operands("copy", why));
        }
        Ok(())
    }

    fn check_mode(
        &mut self,
        of: &super::memory::Dense,
        mode: usize,
        x: &Index,
        vector: i64,
    ) -> Result<(), ErrorKind> {
        let mut inner = 1;
        for (at, (extent, stride)) in of.modes[mode].iter().enumerate() {
            let alone = of.modes[mode].len() == 1;
            let digit = if alone {
                x.alignment()
            } else {
                (x / inner).alignment()
            };
            inner *= extent.as_constant().unwrap_or(1);
            if digit.saturating_mul(stride.alignment()) % vector == 0 {
                continue;
            }
            match of.dynamic_stride(mode, at) {
                Some(leaf) => self.launch.require(of.slot, Some(leaf), vector),
                None => {
                    let why = format!(
                        "an instruction moves {vector} elements from a multiple of them, and in mode {mode} of {} it starts \
                         at {x} times {stride}",
                        of.name
                    );
                    return Err(ErrorKind::operands("copy", why));
                }
            }
        }
        Ok(())
    }

    fn load_run(
        &mut self,
        run: &mut Run<'_>,
        a: Address,
        d: i64,
        cond: Cond,
    ) -> Result<(), ErrorKind> {
        let Piece::Registers(to) = run.dst else {
            unreachable!("the end is registers")
        };
        let access = run.access(run.atom.from(), to, run.counts[1]);
        if access.ty.bits() < 32 {
            let (reg, part) = to.element(d)?;
            let half = self.ir.reg(RegType::B16);
            if cond != Cond::Known(true) {
                self.ir.mov_to(half, 0);
            }
            self.where_(cond, |k| k.load_to(access, &[half], a));
            let parts = run.halves.entry(reg).or_default();
            debug_assert_eq!(
                parts.len() as i64,
                part,
                "parts of a register are loaded in order"
            );
            parts.push(half);
            return Ok(());
        }
        let regs = to.run(d, run.counts[1])?;
        if cond != Cond::Known(true) {
            for reg in &regs {
                self.ir.mov_to(*reg, zero_of(reg.ty));
            }
        }
        self.where_(cond, |k| k.load_to(access, &regs, a));
        Ok(())
    }

    fn store_run(
        &mut self,
        run: &mut Run<'_>,
        a: Address,
        s: i64,
        cond: Cond,
    ) -> Result<(), ErrorKind> {
        let Piece::Registers(from) = run.src else {
            unreachable!("the end is registers")
        };
        let access = run.access(run.atom.to(), from, run.counts[0]);
        if access.ty.bits() < 32 {
            let (reg, part) = from.element(s)?;
            let known = run.halves.get(&reg).cloned();
            let parts = known.unwrap_or_else(|| self.parts(reg, from.packed()));
            run.halves.insert(reg, parts.clone());
            self.where_(cond, |k| k.store(access, a, parts[part as usize]));
            return Ok(());
        }
        let regs = from.run(s, run.counts[0])?;
        self.where_(cond, |k| k.store_vector(access, a, &regs));
        Ok(())
    }
}

/// What an instruction is given for one of its ends.
enum Ends {
    Memory(Address),
    Registers(Vec<Reg>),
}

impl From<Ends> for End {
    fn from(end: Ends) -> End {
        match end {
            Ends::Memory(address) => End::Memory(address),
            Ends::Registers(regs) => End::Regs(regs),
        }
    }
}

impl Run<'_> {
    /// The ends in memory, for the report.
    fn ends(&mut self, copy: &TiledCopy) -> Vec<super::report::End> {
        let sides = ["source", "destination"]
            .into_iter()
            .zip([self.src, self.dst]);
        let ends = sides
            .enumerate()
            .filter_map(|(i, (side, piece))| match piece {
                Piece::Memory(tensor) => Some(super::report::End {
                    side,
                    space: tensor.space,
                    bytes: (self.counts[i] * i64::from(tensor.ty.bits()) / 8).min(16),
                    threads: copy.threads(),
                    addresses: std::mem::take(&mut self.addresses[i]),
                }),
                Piece::Registers(_) => None,
            });
        ends.collect()
    }

    fn takes(&self, argument: Argument) -> bool {
        let op = self.atom.op();
        op.is_ok_and(|op| {
            op.operands
                .iter()
                .any(|operand| operand.argument == argument)
        })
    }

    fn access(&self, space: Space, fragment: &Fragment, count: i64) -> Access {
        let memory = match space {
            Space::Global => Memory::Global,
            Space::Cluster => Memory::Cluster,
            _ => Memory::Shared,
        };
        let bits = count * i64::from(fragment.ty.bits());
        let ty = match (fragment.regs[0].ty, bits) {
            (_, 8) => Type::B8,
            (_, 16) => Type::B16,
            (RegType::F32, _) => Type::F32,
            (RegType::F64, _) => Type::F64,
            (RegType::B64, _) => Type::B64,
            _ => Type::B32,
        };
        Access {
            policy: self.hints.policy,
            ..Access::new(memory, ty).cache(self.hints.cache)
        }
    }

    /// Bytes of the vector that are read: from none to all of them.
    fn size(&mut self, k: &mut Builder, left: Index, bytes: i64) -> Reg {
        if let Some(reg) = self.sizes.get(&left) {
            return *reg;
        }
        let element = bytes / self.counts[0];
        let value = k.value(&left);
        let most = k.ir.min(Type::S32, value, self.counts[0]);
        let some = k.ir.max(Type::S32, most, 0);
        let reg = k.ir.mul(Type::U32, some, element);
        self.sizes.insert(left, reg);
        reg
    }

    /// Parts that were loaded one by one go into their registers.
    fn join(&mut self, k: &mut Builder) {
        let Piece::Registers(to) = self.dst else {
            return;
        };
        for reg in &to.regs {
            if let Some(parts) = self.halves.get(reg) {
                k.joined(*reg, parts.clone(), to.packed());
            }
        }
    }
}

impl Builder {
    /// The narrow parts of a register, lowest first, each in 16 bits.
    fn parts(&mut self, reg: Reg, packed: i64) -> Vec<Reg> {
        if packed <= 2 {
            return self.ir.unpack(RegType::B16, reg);
        }
        let part = |i| match i {
            0 => self.ir.cvt(Type::U16, Type::U32, reg),
            i => {
                let down = self.ir.shr(Type::U32, reg, 8 * i);
                self.ir.cvt(Type::U16, Type::U32, down)
            }
        };
        (0..packed).map(part).collect()
    }

    /// Narrow parts side by side; those that are missing are zero.
    fn joined(&mut self, reg: Reg, mut parts: Vec<Reg>, packed: i64) {
        if packed > 2 {
            let mut word = self.ir.cvt(Type::U32, Type::U16, parts[0]);
            for (i, part) in (1..).zip(&parts[1..]) {
                let wide = self.ir.cvt(Type::U32, Type::U16, *part);
                let d = self.ir.reg(RegType::B32);
                self.ir.push(Op::Bfi {
                    ty: Type::B32,
                    d,
                    a: wide.into(),
                    b: word.into(),
                    start: (8 * i).into(),
                    length: 8.into(),
                });
                word = d;
            }
            return self.ir.mov_to(reg, word);
        }
        while (parts.len() as i64) < packed {
            parts.push(self.ir.mov(Type::B16, 0));
        }
        self.ir.push(Op::Pack { d: reg, parts });
    }
}
