//! Interval analysis: bounds of the registers of some threads.

use std::ops::Range;

use super::regset::RegSet;
use crate::rows::{Known, Rows};
use crate::{BinaryOp, Compare, Formula, Guard, Kernel, Operand, Reg, Row, ShuffleMode, Special};

/// The least and the greatest value. Predicates are 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    least: i64,
    greatest: i64,
}

impl Interval {
    pub(super) const TRUE: Interval = Interval::one(1);
    pub(super) const FALSE: Interval = Interval::one(0);
    const EITHER: Interval = Interval {
        least: 0,
        greatest: 1,
    };

    const fn one(value: i64) -> Interval {
        Interval {
            least: value,
            greatest: value,
        }
    }

    fn hull(self, other: Interval) -> Interval {
        Interval {
            least: self.least.min(other.least),
            greatest: self.greatest.max(other.greatest),
        }
    }

    fn not(self) -> Interval {
        Interval {
            least: 1 - self.greatest,
            greatest: 1 - self.least,
        }
    }

    fn exact(self) -> Option<i64> {
        (self.least == self.greatest).then_some(self.least)
    }
}

/// The intervals of registers, by their numbers. Nothing is known of a register without one.
#[derive(Clone, Debug)]
pub(super) struct IntervalValues<'a> {
    kernel: &'a Kernel,
    rows: &'a Rows<'a>,
    threads: Range<u32>,
    known: Vec<Option<Interval>>,
}

impl<'a> IntervalValues<'a> {
    /// The state before the first instruction, in the threads of a block with these indices.
    pub(super) fn of_threads(
        kernel: &'a Kernel,
        rows: &'a Rows<'a>,
        threads: Range<u32>,
    ) -> IntervalValues<'a> {
        IntervalValues {
            kernel,
            rows,
            threads,
            known: vec![None; rows.count()],
        }
    }

    pub(super) fn guard(&self, guard: Guard) -> Interval {
        let value = self.reg(guard.pred).unwrap_or(Interval::EITHER);
        if guard.when { value } else { value.not() }
    }

    fn reg(&self, reg: Reg) -> Option<Interval> {
        self.known.get(self.rows.number_of(reg)).copied().flatten()
    }

    pub(super) fn forget(&mut self, regs: &RegSet) {
        regs.numbers().for_each(|reg| self.known[reg] = None);
    }

    /// The join of two paths.
    pub(super) fn join(&mut self, other: &IntervalValues<'_>) {
        for (value, other) in self.known.iter_mut().zip(&other.known) {
            *value = value.zip(*other).map(|(value, other)| value.hull(other));
        }
    }

    /// The transfer function of an instruction that all of the threads execute, or only some.
    pub(super) fn execute(&mut self, known: Known<'_>, all: bool) {
        if known.defs.is_empty() {
            return;
        }
        let value = self.result(known.row);
        for &reg in known.defs {
            if let Some(known) = self.known.get_mut(self.rows.number_of(reg)) {
                *known = if all {
                    value
                } else {
                    value.zip(*known).map(|(new, old)| new.hull(old))
                };
            }
        }
    }

    fn of(&self, operand: Operand) -> Option<Interval> {
        match operand {
            Operand::Reg(reg) => self.reg(reg),
            Operand::Int(value) => Some(Interval::one(value)),
            Operand::Float(_) => None,
            Operand::Special(special) => self.special(special),
        }
    }

    fn special(&self, special: Special) -> Option<Interval> {
        use Special::{
            Clock64, ClusterCtaRank, ClusterCtaid, ClusterId, ClusterNCtaRank, ClusterNCtaid,
            Ctaid, DynamicSharedSize, GlobalTimer, LaneId, NClusterId, NCtaid, NTid, SmId, Tid,
        };
        let block = self.kernel.block?.map(i64::from);
        match special {
            NTid(axis) => block.get(usize::from(axis)).copied().map(Interval::one),
            LaneId => Some(Interval {
                least: 0,
                greatest: 31,
            }),
            Tid(axis) => {
                let axis = usize::from(axis);
                let extent = *block.get(axis)?;
                let before: i64 = block[..axis].iter().product();
                let end = i64::from(self.threads.end).min(block.iter().product());
                let (first, last) = (i64::from(self.threads.start) / before, (end - 1) / before);
                // Threads are numbered x first: within one turn of the axis the coordinate rises.
                Some(if first / extent == last / extent {
                    Interval {
                        least: first % extent,
                        greatest: last % extent,
                    }
                } else {
                    Interval {
                        least: 0,
                        greatest: extent - 1,
                    }
                })
            }
            Ctaid(_) | NCtaid(_) | ClusterCtaRank | ClusterNCtaRank | ClusterCtaid(_)
            | ClusterNCtaid(_) | ClusterId(_) | NClusterId(_) | Clock64 | GlobalTimer | SmId
            | DynamicSharedSize => None,
        }
    }

    /// The value of what an instruction writes: a number below 2^31, so that its signed and its unsigned readings agree.
    fn result(&self, row: &Row<'_>) -> Option<Interval> {
        let value = match row.formula {
            Formula::Copy(a) => self.of(*a)?,
            Formula::Binary(op, ty, a, b) if !ty.is_float() => {
                binary(op, self.of(*a)?, self.of(*b)?)?
            }
            Formula::Compare(cmp, ty, a, b) if !ty.is_float() => {
                let (a, b) = (self.of(*a)?, self.of(*b)?);
                // A negative constant is a large one where the comparison is unsigned.
                if a.least < 0 || b.least < 0 {
                    return None;
                }
                return Some(compare(cmp, a, b));
            }
            Formula::Logic(op, a, b) => return logic(op, self.guard(a), self.guard(b)),
            Formula::Select(p, a, b) => {
                let (a, b) = (self.of(*a)?, self.of(*b)?);
                match self.guard(p.into()).exact() {
                    Some(1) => a,
                    Some(_) => b,
                    None => a.hull(b),
                }
            }
            // Another lane of the warp has a value of the same threads.
            Formula::Shuffle {
                mode: ShuffleMode::Idx,
                tested: false,
                a,
                ..
            } => self.of(*a)?,
            Formula::Function
            | Formula::Lane
            | Formula::Shared
            | Formula::Binary(..)
            | Formula::Compare(..)
            | Formula::Field(..)
            | Formula::Shuffle { .. }
            | Formula::Warp(..) => return None,
        };
        (value.least >= 0 && value.greatest <= i64::from(i32::MAX)).then_some(value)
    }
}

fn binary(op: BinaryOp, a: Interval, b: Interval) -> Option<Interval> {
    let ends = |least: Option<i64>, greatest: Option<i64>| {
        Some(Interval {
            least: least?,
            greatest: greatest?,
        })
    };
    if a.least < 0 || b.least < 0 {
        return None;
    }
    let by = b.exact();
    match (op, by) {
        (BinaryOp::Add, _) => ends(
            a.least.checked_add(b.least),
            a.greatest.checked_add(b.greatest),
        ),
        (BinaryOp::Sub, _) => ends(Some(a.least - b.greatest), Some(a.greatest - b.least)),
        (BinaryOp::Mul, _) => ends(
            a.least.checked_mul(b.least),
            a.greatest.checked_mul(b.greatest),
        ),
        (BinaryOp::Shr, Some(n @ 0..32)) => ends(Some(a.least >> n), Some(a.greatest >> n)),
        (BinaryOp::Shl, Some(n @ 0..32)) => {
            ends(a.least.checked_mul(1 << n), a.greatest.checked_mul(1 << n))
        }
        (BinaryOp::Div, Some(n @ 1..)) => ends(Some(a.least / n), Some(a.greatest / n)),
        (BinaryOp::Rem, Some(n @ 1..)) => Some(remainder(a, n)),
        // `mask` is at least 0 here, so this asks whether it is a run of low bits; the greatest keeps everything.
        (BinaryOp::And, Some(i64::MAX)) => Some(a),
        (BinaryOp::And, Some(mask)) if (mask + 1).count_ones() == 1 => Some(remainder(a, mask + 1)),
        (BinaryOp::And, _) => ends(Some(0), Some(a.greatest.min(b.greatest))),
        (BinaryOp::Min, _) => ends(Some(a.least.min(b.least)), Some(a.greatest.min(b.greatest))),
        (BinaryOp::Max, _) => ends(Some(a.least.max(b.least)), Some(a.greatest.max(b.greatest))),
        _ => None,
    }
}

fn remainder(a: Interval, n: i64) -> Interval {
    if a.least / n == a.greatest / n {
        Interval {
            least: a.least % n,
            greatest: a.greatest % n,
        }
    } else {
        Interval {
            least: 0,
            greatest: n - 1,
        }
    }
}

fn compare(cmp: Compare, a: Interval, b: Interval) -> Interval {
    let certain = |yes: bool, no: bool| match (yes, no) {
        (true, _) => Interval::TRUE,
        (_, true) => Interval::FALSE,
        _ => Interval::EITHER,
    };
    let apart = a.greatest < b.least || b.greatest < a.least;
    let same = a.exact().is_some() && a == b;
    match cmp {
        Compare::Eq => certain(same, apart),
        Compare::Ne => certain(apart, same),
        Compare::Lt => certain(a.greatest < b.least, a.least >= b.greatest),
        Compare::Le => certain(a.greatest <= b.least, a.least > b.greatest),
        Compare::Gt => certain(a.least > b.greatest, a.greatest <= b.least),
        Compare::Ge => certain(a.least >= b.greatest, a.greatest < b.least),
        Compare::Equ | Compare::Neu | Compare::Ltu | Compare::Gtu | Compare::Nan => {
            Interval::EITHER
        }
    }
}

/// `not` has its one operand twice.
fn logic(op: BinaryOp, a: Interval, b: Interval) -> Option<Interval> {
    use BinaryOp::{
        Add, And, Div, Max, MaxNan, Min, MinNan, Mul, MulHi, MulWide, Or, Rem, Shl, Shr, Sub, Xor,
    };
    match op {
        And => Some(Interval {
            least: a.least.min(b.least),
            greatest: a.greatest.min(b.greatest),
        }),
        Or => Some(Interval {
            least: a.least.max(b.least),
            greatest: a.greatest.max(b.greatest),
        }),
        Add | Sub | Mul | MulHi | MulWide | Div | Rem | Min | Max | MinNan | MaxNan | Xor | Shl
        | Shr => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operation over all small intervals and over the ends of the integers: the result of each pair of values lies in
    /// the interval, or the interval is unknown.
    #[test]
    fn intervals_hold_what_they_compute() {
        let ends = [0, 1, 2, 3, 7, 8, 31, 32, 1 << 31, i64::MAX - 1, i64::MAX];
        let mut cases = 0u64;
        for op in [
            BinaryOp::Add,
            BinaryOp::Sub,
            BinaryOp::Mul,
            BinaryOp::Div,
            BinaryOp::Rem,
            BinaryOp::And,
            BinaryOp::Shl,
            BinaryOp::Shr,
            BinaryOp::Min,
            BinaryOp::Max,
        ] {
            for (i, &least) in ends.iter().enumerate() {
                for &greatest in &ends[i..] {
                    let a = Interval { least, greatest };
                    for &value in ends.iter().chain(&[-1, i64::MIN]) {
                        cases += 1;
                        let Some(found) = binary(op, a, Interval::one(value)) else {
                            continue;
                        };
                        for x in [least, greatest] {
                            let exact = match op {
                                BinaryOp::Add => i128::from(x) + i128::from(value),
                                BinaryOp::Sub => i128::from(x) - i128::from(value),
                                BinaryOp::Mul => i128::from(x) * i128::from(value),
                                BinaryOp::Div => i128::from(x / value),
                                BinaryOp::Rem => i128::from(x % value),
                                BinaryOp::And => i128::from(x & value),
                                BinaryOp::Shl => i128::from(x) << value,
                                BinaryOp::Shr => i128::from(x >> value),
                                BinaryOp::Min => i128::from(x.min(value)),
                                BinaryOp::Max => i128::from(x.max(value)),
                                BinaryOp::MulHi
                                | BinaryOp::MulWide
                                | BinaryOp::MinNan
                                | BinaryOp::MaxNan
                                | BinaryOp::Or
                                | BinaryOp::Xor => unreachable!("not in the list"),
                            };
                            let inside = i128::from(found.least)..=i128::from(found.greatest);
                            assert!(
                                inside.contains(&exact),
                                "{op:?} of {x} in {a:?} and {value} is {exact}, not in {found:?}"
                            );
                        }
                    }
                }
            }
        }
        println!("law verify.intervals: {cases} cases");
    }
}
