//! The instructions of one copy.

use std::collections::HashMap;
use std::panic::Location;

use colex_atom::{Argument, CopyAtom, Space};
use colex_tiled::TiledCopy;

use super::{Hints, Piece};
use crate::build::Builder;
use crate::build::flow::{Cond, zero_of};
use crate::error::ErrorKind;
use crate::fragment::Fragment;
use crate::index::Index;
use colex_ir::claims::ClaimId;
use colex_ir::{Access, Address, Alu, CopyArgs, End, Operand, Reg, RegType, Space as Memory, Type};

/// The state of one copy, shared by its instructions.
pub(crate) struct Run<'a> {
    pub(crate) atom: CopyAtom,
    pub(crate) src: Piece<'a>,
    pub(crate) dst: Piece<'a>,
    /// The numbers of elements that an instruction reads from a thread and writes to it.
    pub(crate) counts: [i64; 2],
    pub(crate) hints: Hints,
    /// Parts of registers, each in 16 bits: loaded one by one, or taken apart to be stored.
    pub(crate) halves: HashMap<Reg, Vec<Option<Reg>>>,
    /// The claim of the copy, which its first instruction carries.
    pub(crate) claim: Option<ClaimId>,
    /// Where the instructions so far begin, in the source and in the destination.
    pub(crate) addresses: [Vec<Index>; 2],
}

impl Run<'_> {
    /// The ends in memory, for the report.
    pub(crate) fn ends(&mut self, copy: &TiledCopy) -> Vec<crate::build::report::End> {
        let sides = ["source", "destination"]
            .into_iter()
            .zip([self.src, self.dst]);
        let ends = sides
            .enumerate()
            .filter_map(|(i, (side, piece))| match piece {
                Piece::Memory(tensor) => Some(crate::build::report::End {
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

    pub(crate) fn takes(&self, argument: Argument) -> bool {
        let op = self.atom.op();
        op.is_ok_and(|op| {
            op.operands
                .iter()
                .any(|operand| operand.argument == argument)
        })
    }

    pub(crate) fn access(&self, space: Space, fragment: &Fragment, count: i64) -> Access {
        let memory = match space {
            Space::Global => Memory::Global,
            Space::Cluster => Memory::Cluster,
            _ => Memory::Shared,
        };
        let bits = count * i64::from(fragment.ty.bits());
        let ty = match (fragment.regs[0].ty, bits) {
            (_, 8) => Type::B8,
            (_, 16) => Type::B16,
            (RegType::B16, _) => Type::B16,
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

    /// Bytes of the vector that are read: from none to all of them. Computed once, outside of loops that do not change it.
    pub(crate) fn size(&self, k: &mut Builder, left: &Index, bytes: i64) -> Reg {
        let element = bytes / self.counts[0];
        let key = (left.clone(), [bytes, element]);
        if let Some(reg) = k.scopes.iter().rev().find_map(|s| s.sizes.get(&key)) {
            return *reg;
        }
        let value = k.value(left);
        let home = k.home(left.0.depth);
        let reg = k.ir.hoisted(home, |k| {
            let most = k.min(Type::S32, value, self.counts[0]);
            let some = k.max(Type::S32, most, 0);
            k.mul(Type::U32, some, element)
        });
        k.scopes[home].sizes.insert(key, reg);
        reg
    }

    /// Parts that were loaded one by one go into their registers.
    pub(crate) fn join(&mut self, k: &mut Builder) {
        let Piece::Registers(to) = self.dst else {
            return;
        };
        for reg in &to.regs {
            if let Some(parts) = self.halves.get(reg) {
                k.joined(*reg, parts.clone(), !to.is_whole);
            }
        }
    }
}

impl Builder {
    /// `ldmatrix`, `stmatrix`, `cp.async` and their like.
    pub(crate) fn special_copy(
        &mut self,
        run: &mut Run<'_>,
        (from, to): (End, End),
        (cond, stored): (Cond, Cond),
        partial: Option<Index>,
    ) {
        let bytes = run.atom.bits_per_thread() as i64 / 8;
        let mut args = CopyArgs {
            src: from,
            dst: to,
            policy: run.hints.policy,
            ..CopyArgs::default()
        };
        if !run.takes(Argument::SourceBytes) {
            let claim = run.claim.take();
            self.where_(cond, |k| {
                k.claiming(claim, |k| k.copy_atom(&run.atom, args));
            });
            return;
        }
        // What is not read is filled with zeros: the copy itself is executed by all threads.
        let whole: Operand = match partial {
            None => bytes.into(),
            Some(left) => run.size(self, &left, bytes).into(),
        };
        args.source_bytes = Some(match self.known(cond, Location::caller()) {
            Ok(true) => whole,
            Ok(false) => 0.into(),
            Err(g) if g.when => self.ir.selp(Type::B32, whole, 0, g.pred).into(),
            Err(g) => self.ir.selp(Type::B32, 0, whole, g.pred).into(),
        });
        let claim = run.claim.take();
        self.where_(stored, |k| {
            k.claiming(claim, |k| k.copy_atom(&run.atom, args));
        });
    }

    pub(crate) fn load_run(
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
        if access.ty.bits() < to.regs[0].ty.bits() {
            let (reg, part) = to.element(d)?;
            alone(run.counts[1], part, to)?;
            let half = self.ir.reg(RegType::B16);
            if cond != Cond::Known(true) {
                self.ir.mov_to(half, 0);
            }
            let claim = run.claim.take();
            self.where_(cond, |k| {
                k.claiming(claim, |k| k.load_to(access, &[half], a))
            });
            let none = || vec![None; to.packed() as usize];
            run.halves.entry(reg).or_insert_with(none)[part as usize] = Some(half);
            return Ok(());
        }
        let regs = to.run(d, run.counts[1])?;
        if cond != Cond::Known(true) {
            for reg in &regs {
                self.ir.mov_to(*reg, zero_of(reg.ty));
            }
        }
        let claim = run.claim.take();
        self.where_(cond, |k| k.claiming(claim, |k| k.load_to(access, &regs, a)));
        Ok(())
    }

    pub(crate) fn store_run(
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
        if access.ty.bits() < from.regs[0].ty.bits() {
            let (reg, part) = from.element(s)?;
            alone(run.counts[0], part, from)?;
            let known = run.halves.get(&reg).cloned();
            let taken_apart = |k: &mut Self| {
                let parts = k.parts(reg, from.packed()).into_iter();
                parts.map(Some).collect()
            };
            let parts: Vec<Option<Reg>> = known.unwrap_or_else(|| taken_apart(self));
            run.halves.insert(reg, parts.clone());
            if let Some(value) = parts[part as usize] {
                let claim = run.claim.take();
                self.where_(cond, |k| k.claiming(claim, |k| k.store(access, a, value)));
            }
            return Ok(());
        }
        let regs = from.run(s, run.counts[0])?;
        let claim = run.claim.take();
        self.where_(cond, |k| {
            k.claiming(claim, |k| k.store_vector(access, a, &regs))
        });
        Ok(())
    }

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

    /// Narrow parts side by side. Those that are missing stay what they are where other elements may be there (`keeps`), and
    /// are zero else.
    fn joined(&mut self, reg: Reg, parts: Vec<Option<Reg>>, keeps: bool) {
        let keeps = keeps && parts.contains(&None);
        if parts.len() > 2 {
            let mut word = match (keeps, parts[0]) {
                (true, _) => reg,
                (false, Some(first)) => self.ir.cvt(Type::U32, Type::U16, first),
                (false, None) => self.ir.mov(Type::B32, 0),
            };
            for (i, part) in (0..).zip(&parts).skip(usize::from(!keeps)) {
                let Some(part) = part else {
                    continue;
                };
                let wide = self.ir.cvt(Type::U32, Type::U16, *part);
                let d = self.ir.reg(RegType::B32);
                self.ir.push(Alu::Bfi {
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
        let old = if keeps {
            self.ir.unpack(RegType::B16, reg)
        } else {
            Vec::new()
        };
        let part = |(i, part): (usize, Option<Reg>)| match part.or(old.get(i).copied()) {
            Some(part) => part,
            None => self.ir.mov(Type::B16, 0),
        };
        let parts = parts.into_iter().enumerate().map(part).collect();
        self.ir.push(Alu::Pack { d: reg, parts });
    }
}

/// Refuses an instruction of several elements that do not fill a register, unless they begin at its first element.
fn alone(count: i64, part: i64, fragment: &Fragment) -> Result<(), ErrorKind> {
    if count == 1 || part == 0 {
        return Ok(());
    }
    let why = format!(
        "{count} elements of {} do not fill a register: one goes at a time, or {}",
        fragment.ty,
        fragment.packed()
    );
    Err(ErrorKind::operands("copy", why))
}
