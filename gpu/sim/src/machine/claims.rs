//! The claims of unpredicated accesses, checked against the coordinates that their threads reach, and of declarations.

use super::exec::Exec;
use crate::report::fault::{Fault, FaultKind};
use crate::state::warp::lanes;
use colex_ir::claims::{ClaimId, Value};
use colex_ir::launch::Argument;
use colex_ir::{Reg, Special};

impl Exec<'_, '_, '_> {
    /// Refuses an access that reaches beyond its tensor in a lane of `mask`. A bound that reads a register which does not hold a
    /// value yet says nothing: the address of the access reads it too.
    pub(crate) fn check_claim(&self, id: ClaimId, mask: u32) -> Result<(), Fault> {
        let Some(claim) = self.m.program.kernel.claims.get(id.0 as usize) else {
            return Ok(());
        };
        if let Some(declared) = &claim.declared {
            for lane in lanes(mask) {
                let Some(value) = declared.broken(&|value| self.claimed(value, lane)) else {
                    continue;
                };
                let what = format!(
                    "the integer is {value}, and the kernel declares here that it is {declared}: what follows from the \
                     declaration would be wrong"
                );
                return Err(self.fault(FaultKind::Operand, lane, what));
            }
        }
        for bound in &claim.bounds {
            // Where no lane differs from the others, the first speaks for all.
            let mut values = bound.low.iter().chain([&bound.high, &bound.extent]);
            let varies = values.any(|e| e.values().any(differs));
            let most = if varies { 32 } else { 1 };
            for lane in lanes(mask).take(most) {
                let Some((coordinate, extent)) = bound.outside(&|value| self.claimed(value, lane))
                else {
                    continue;
                };
                let what = format!(
                    "the access reaches coordinate {coordinate} along mode {} of tensor {}, whose extent is {extent}: a branch \
                     or a smaller grid keeps it inside, and `copy_in_bounds` leaves out what lies beyond",
                    bound.mode, bound.tensor
                );
                return Err(self.fault(FaultKind::OutOfBounds, lane, what));
            }
        }
        Ok(())
    }

    /// What a bound reads, in one lane.
    fn claimed(&self, value: Value, lane: usize) -> Option<i64> {
        match value {
            Value::Special(Special::Tid(0)) => {
                Some(i64::from(self.m.thread(self.w.first + lane as u32)[0]))
            }
            Value::Special(Special::Ctaid(axis)) => {
                let block = &self.g.blocks[self.w.block];
                Some(i64::from(block.ctaid[usize::from(axis.min(2))]))
            }
            Value::Special(special) => Some(self.special(special)[lane] as i64),
            Value::Parameter { id, signed } => {
                match *self.m.devices.arguments(self.g.rank).get(id.0 as usize)? {
                    Argument::U16(x) => Some(extended(u64::from(x), 16, signed)),
                    Argument::U32(x) => Some(extended(u64::from(x), 32, signed)),
                    Argument::U64(x) | Argument::Pointer(x) => Some(x as i64),
                    Argument::F32(_) | Argument::F64(_) | Argument::TensorMap(_) => None,
                }
            }
            Value::Register { reg, signed } => self.held(reg, signed, lane),
        }
    }

    fn held(&self, reg: Reg, signed: bool, lane: usize) -> Option<i64> {
        let slot = self.m.program.slot(reg)?;
        let is_written = self.w.busy[slot] == 0 && self.w.written[slot] >> lane & 1 == 1;
        is_written.then(|| extended(self.w.regs[slot][lane], reg.ty.bits(), signed))
    }
}

/// Whether the lanes of a warp may read other values.
fn differs(value: Value) -> bool {
    match value {
        Value::Special(special) => matches!(special, Special::Tid(_) | Special::LaneId),
        Value::Register { .. } => true,
        Value::Parameter { .. } => false,
    }
}

/// The lowest bits of a word as a number.
fn extended(word: u64, bits: u32, signed: bool) -> i64 {
    let above = 64 - bits.clamp(1, 64);
    if signed {
        (word << above) as i64 >> above
    } else {
        (word << above >> above) as i64
    }
}
