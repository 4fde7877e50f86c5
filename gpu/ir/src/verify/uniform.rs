//! Uniformity analysis: the groups of threads in which a value is the same.

use crate::rows::{Known, Rows};
use crate::{BinaryOp, Cohort, Formula, Kernel, Operand, Reg, Row, ShuffleMode, Special};

impl Cohort {
    /// The binary logarithm of the number of these threads.
    pub(super) fn log2(self) -> u32 {
        match self {
            Cohort::Warp => 5,
            Cohort::Warpgroup => 7,
            Cohort::Block => WHOLE,
        }
    }
}

/// The same in the whole block.
pub(super) const WHOLE: u32 = 32;

/// The uniformity of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Uniformity {
    /// The same in every aligned group of `2^n` threads that follow each other.
    Same(u32),
    /// The thread's index in its block, shifted right by this number of bits.
    Thread(u32),
}

impl Uniformity {
    /// The binary logarithm of the groups it is the same in.
    pub(super) fn group(self) -> u32 {
        match self {
            Uniformity::Same(group) | Uniformity::Thread(group) => group,
        }
    }

    pub(super) fn join(self, other: Uniformity) -> Uniformity {
        if self == other {
            self
        } else {
            Uniformity::Same(self.group().min(other.group()))
        }
    }
}

/// The values of all registers at a point.
#[derive(Clone, Debug)]
pub(super) struct UniformValues<'a> {
    kernel: &'a Kernel,
    rows: &'a Rows<'a>,
    /// The value of each register, by its number. One that was not written yet holds no value that could differ.
    values: Vec<Uniformity>,
}

impl<'a> UniformValues<'a> {
    /// The values before the first instruction.
    pub(super) fn new(kernel: &'a Kernel, rows: &'a Rows<'a>) -> Self {
        UniformValues {
            kernel,
            rows,
            values: vec![Uniformity::Same(WHOLE); rows.count()],
        }
    }

    /// Returns what is known of a register.
    pub(super) fn of(&self, reg: Reg) -> Uniformity {
        let known = self.values.get(self.rows.number_of(reg));
        known.copied().unwrap_or(Uniformity::Same(WHOLE))
    }

    fn operand(&self, operand: Operand) -> Uniformity {
        match operand {
            Operand::Reg(reg) => self.of(reg),
            Operand::Int(_) | Operand::Float(_) => Uniformity::Same(WHOLE),
            Operand::Special(special) => special_value(self.kernel, special),
        }
    }

    /// The values of the registers with these numbers.
    pub(super) fn snapshot(&self, regs: &[usize]) -> Vec<Uniformity> {
        regs.iter().map(|&reg| self.values[reg]).collect()
    }

    /// Those values again.
    pub(super) fn restore(&mut self, regs: &[usize], values: &[Uniformity]) {
        for (&reg, &value) in regs.iter().zip(values) {
            self.values[reg] = value;
        }
    }

    /// Joins two paths that differ in these registers: the less uniform value remains.
    pub(super) fn join(&mut self, regs: &[usize], others: &[Uniformity]) {
        for (&reg, other) in regs.iter().zip(others) {
            self.values[reg] = self.values[reg].join(*other);
        }
    }

    /// Limits registers that were written under divergence: threads of different groups of `2^parted` may hold values
    /// of different iterations or branches.
    pub(super) fn part(&mut self, written: &[usize], parted: u32) {
        for &reg in written {
            let value = &mut self.values[reg];
            if value.group() > parted {
                *value = Uniformity::Same(parted);
            }
        }
    }

    /// The values after an instruction.
    pub(super) fn execute(&mut self, known: Known<'_>) {
        if known.defs.is_empty() {
            return;
        }
        let value = self.result(known.row);
        for &reg in known.defs {
            let new = match known.stmt.guard {
                None => value,
                // Threads in which the guard does not hold keep the old value. In a group that agrees on the guard, all
                // threads have the new value or all have the old one, so each must be the same there.
                Some(guard) => {
                    let parted = self.of(guard.pred).group();
                    Uniformity::Same(value.group().min(self.of(reg).group()).min(parted))
                }
            };
            if let Some(value) = self.values.get_mut(self.rows.number_of(reg)) {
                *value = new;
            }
        }
    }

    /// The value that an instruction computes.
    fn result(&self, row: &Row<'_>) -> Uniformity {
        let of = |operand: &Operand| self.operand(*operand);
        let function = || Uniformity::Same(self.least(row));
        match row.formula {
            Formula::Function | Formula::Logic(..) | Formula::Select(..) => function(),
            Formula::Lane => Uniformity::Same(0),
            // Other threads may write the memory between the loads of two warps, so the value is uniform in a warp at
            // most.
            Formula::Shared => Uniformity::Same(self.least(row).min(5)),
            Formula::Copy(a) => of(a),
            Formula::Binary(op, _, a, b) => binary(op, of(a), *b, of(b)),
            Formula::Compare(cmp, _, a, b) => compare(cmp, of(a), *b, of(b)),
            Formula::Field(a, start) => match of(a) {
                Uniformity::Thread(shift) => Uniformity::Same(shift.saturating_add(start as u32)),
                value @ Uniformity::Same(_) => value,
            },
            Formula::Shuffle {
                mode,
                a,
                lane,
                mask,
                ..
            } => {
                let whole = mask == Operand::Int(0xffff_ffff) && mode == ShuffleMode::Idx;
                let value = of(a);
                // All lanes hold one value: a shuffle cannot change it. Otherwise all lanes must read from one lane.
                if value.group() >= 5 {
                    value
                } else if whole && of(lane).group() >= 5 {
                    Uniformity::Same(5)
                } else {
                    Uniformity::Same(0)
                }
            }
            Formula::Warp(a, mask, of_any) => self.collective(of(&a), mask, of_any),
        }
    }

    /// A whole warp's answer is the same in the warp. Several warps with one value have one answer if they have as many lanes, or
    /// if their number does not matter: the last warp of a block may have fewer.
    fn collective(&self, value: Uniformity, mask: Operand, of_any: bool) -> Uniformity {
        if mask != Operand::Int(0xffff_ffff) {
            return Uniformity::Same(0);
        }
        let threads = self.kernel.block.map(|block| {
            let extents = block.iter().map(|n| u64::from(*n));
            extents.product::<u64>()
        });
        let is_whole = threads.is_some_and(|threads| threads.is_multiple_of(32));
        if of_any || is_whole {
            return Uniformity::Same(value.group().max(5));
        }
        Uniformity::Same(5)
    }

    /// A function of its operands is the same where all of them are.
    fn least(&self, row: &Row<'_>) -> u32 {
        let mut least = WHOLE;
        for slot in &row.slots {
            slot.arg
                .each_source(|operand| least = least.min(self.operand(operand).group()));
        }
        let bases = row.addresses().filter_map(|address| address.base.reg());
        bases.fold(least, |least, reg| least.min(self.of(reg).group()))
    }
}

fn binary(op: BinaryOp, a: Uniformity, b: Operand, b_value: Uniformity) -> Uniformity {
    use BinaryOp::{
        Add, And, Div, Max, MaxNan, Min, MinNan, Mul, MulHi, MulWide, Or, Rem, Shl, Shr, Sub, Xor,
    };
    let plain = Uniformity::Same(a.group().min(b_value.group()));
    let (Uniformity::Thread(shift), Operand::Int(n)) = (a, b) else {
        return plain;
    };
    match op {
        Shr if (0..32).contains(&n) => Uniformity::Thread(shift + n as u32),
        Div if n > 0 && n.count_ones() == 1 => Uniformity::Thread(shift + n.trailing_zeros()),
        And => Uniformity::Same(shift.saturating_add(n.trailing_zeros()).min(WHOLE)),
        Add | Sub if n == 0 => a,
        Add | Sub | Mul | MulHi | MulWide | Div | Rem | Min | Max | MinNan | MaxNan | Or | Xor
        | Shl | Shr => plain,
    }
}

/// `tid < c` is the same in groups whose size divides `c`.
fn compare(cmp: crate::Compare, a: Uniformity, b: Operand, b_value: Uniformity) -> Uniformity {
    use crate::Compare::{Eq, Equ, Ge, Gt, Gtu, Le, Lt, Ltu, Nan, Ne, Neu};
    let plain = Uniformity::Same(a.group().min(b_value.group()));
    let (Uniformity::Thread(shift), Operand::Int(n)) = (a, b) else {
        return plain;
    };
    let bound = match cmp {
        Lt | Ge => n,
        Le | Gt => n.saturating_add(1),
        Eq | Ne | Equ | Neu | Ltu | Gtu | Nan => return plain,
    };
    Uniformity::Same(shift.saturating_add(bound.trailing_zeros()).min(WHOLE))
}

/// Threads are numbered x first; where the block's extents are not given, a kernel that never asks for y and z is taken to have
/// none, and a launch with some is refused.
fn special_value(kernel: &Kernel, special: Special) -> Uniformity {
    use Special::{
        Clock64, ClusterCtaRank, ClusterCtaid, ClusterId, ClusterNCtaRank, ClusterNCtaid, Ctaid,
        DynamicSharedSize, GlobalTimer, LaneId, NClusterId, NCtaid, NTid, SmId, Tid,
    };
    match special {
        Tid(axis) => thread_index(kernel, usize::from(axis.min(2))),
        LaneId | Clock64 | GlobalTimer => Uniformity::Same(0),
        NTid(_) | Ctaid(_) | NCtaid(_) | ClusterCtaRank | ClusterNCtaRank | ClusterCtaid(_)
        | ClusterNCtaid(_) | ClusterId(_) | NClusterId(_) | SmId | DynamicSharedSize => {
            Uniformity::Same(WHOLE)
        }
    }
}

fn thread_index(kernel: &Kernel, axis: usize) -> Uniformity {
    let Some(block) = kernel.block else {
        return if axis == 0 && kernel.is_flat() {
            Uniformity::Thread(0)
        } else {
            Uniformity::Same(0)
        };
    };
    let before: u64 = block[..axis].iter().map(|&n| u64::from(n)).product();
    let after: u64 = block[axis + 1..].iter().map(|&n| u64::from(n)).product();
    match (axis, after) {
        _ if block[axis] == 1 => Uniformity::Same(WHOLE),
        (_, 1) if before.is_power_of_two() => {
            Uniformity::Thread(before.trailing_zeros()).flat(axis)
        }
        _ => Uniformity::Same(before.trailing_zeros().min(WHOLE)).flat(axis),
    }
}

impl Uniformity {
    /// Along x, threads of one index differ in nothing else only if the block has no other extent.
    fn flat(self, axis: usize) -> Uniformity {
        match (axis, self) {
            (0, Uniformity::Same(_)) => Uniformity::Same(0),
            _ => self,
        }
    }
}
