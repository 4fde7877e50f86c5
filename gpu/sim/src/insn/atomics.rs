//! Atomic operations.

use colex_atom::{Reduction, Scalar};

use crate::lane::bits::word;
use crate::machine::exec::Exec;
use crate::machine::port::{Accessor, tick};
use crate::order::clock::Proxy;
use crate::order::release::Ordering;
use crate::report::fault::Fault;
use crate::state::warp::lanes;
use colex_ir::{Address, AtomicOp, Operand, Order, Reg, Space, Type};

impl Exec<'_, '_, '_> {
    /// `atom`.
    pub(crate) fn atomic(
        &mut self,
        update: Update,
        d: Reg,
        a: &Address,
        operands: [Option<Operand>; 2],
        mask: u32,
    ) -> Result<(), Fault> {
        let old = self.update(update, a, 0, 1, operands, mask)?;
        self.set(d, mask, &old)
    }

    /// `red`.
    pub(crate) fn reduce(
        &mut self,
        update: Update,
        a: &Address,
        s: &[Operand],
        mask: u32,
    ) -> Result<(), Fault> {
        for (i, source) in s.iter().enumerate() {
            self.update(update, a, i, s.len(), [Some(*source), None], mask)?;
        }
        Ok(())
    }

    /// Changes element `i` of `count` at the address in each lane, one lane after the other; the old values.
    fn update(
        &mut self,
        update: Update,
        a: &Address,
        i: usize,
        count: usize,
        [s, t]: [Option<Operand>; 2],
        mask: u32,
    ) -> Result<[u64; 32], Fault> {
        let bytes = update.ty.bits() as usize / 8;
        let addresses = self.address(a, mask)?;
        let zero = Operand::Int(0);
        let [s, t] = self.values([s.unwrap_or(zero), t.unwrap_or(zero)], update.ty, mask)?;
        if update.apply(0, 0, 0).is_none() {
            let (op, ty) = (update.op.ptx(), update.ty);
            return Err(self.unsupported(format_args!("atomic {op} of {ty}")));
        }
        if i == 0 {
            self.count(update.space, &addresses, bytes * count, mask);
        }
        let mut old = [0; 32];
        for lane in lanes(mask) {
            let target = self.target(
                update.space,
                addresses[lane],
                bytes * count,
                bytes * count,
                lane,
            )?;
            let target = target.after(i * bytes);
            let mut buffer = [0; 8];
            let accessor = Accessor::lane(self.w, lane, Proxy::Atomic);
            self.m.check_alive(self.g, &accessor, target)?;
            self.m
                .read(self.g, &accessor, target, &mut buffer[..bytes])?;
            self.receive(target, update.ordering, lane);
            let accessor = Accessor::lane(self.w, lane, Proxy::Atomic);
            old[lane] = word(&buffer, bytes);
            // A compare-and-swap that finds another value only reads.
            if update.op == AtomicOp::Cas && old[lane] != s[lane] {
                self.looked(target, old[lane]);
                continue;
            }
            let new = update.apply(old[lane], s[lane], t[lane]).unwrap_or(0);
            self.m
                .write(self.g, &accessor, target, &new.to_le_bytes()[..bytes])?;
            self.pass_on(target, update.ordering, true);
            self.looked(target, new);
            if new != old[lane] {
                self.progress();
            }
        }
        tick(&mut self.w.view.seen, self.w.index);
        Ok(old)
    }
}

/// The function of an atomic operation.
#[derive(Clone, Copy)]
pub(crate) struct Update {
    op: AtomicOp,
    space: Space,
    ty: Type,
    ordering: Ordering,
}

impl Update {
    pub(crate) fn new(op: AtomicOp, space: Space, ty: Type, order: Order) -> Update {
        Update {
            op,
            space,
            ty,
            ordering: Ordering::of_atomic(order),
        }
    }

    /// The new value; `None` if there is no such operation of the type.
    fn apply(self, old: u64, s: u64, t: u64) -> Option<u64> {
        use Type::{
            B8, B16, B32, B64, B128, Bf16, Bf16x2, E4m3x2, E5m2x2, F16, F16x2, F32, F64, Pred, S8,
            S16, S32, S64, Tf32, U8, U16, U32, U64,
        };
        let reduction = match self.op {
            AtomicOp::Exch | AtomicOp::Cas if !matches!(self.ty.bits(), 16 | 32 | 64) => {
                return None;
            }
            AtomicOp::Exch => return Some(s),
            AtomicOp::Cas => return Some(if old == s { t } else { old }),
            AtomicOp::Add => Reduction::Add,
            AtomicOp::Min => Reduction::Min,
            AtomicOp::Max => Reduction::Max,
            AtomicOp::Inc => Reduction::Inc,
            AtomicOp::Dec => Reduction::Dec,
            AtomicOp::And => Reduction::And,
            AtomicOp::Or => Reduction::Or,
            AtomicOp::Xor => Reduction::Xor,
        };
        let scalar = match self.ty {
            U32 => Scalar::U32,
            S32 => Scalar::S32,
            B32 => Scalar::B32,
            U64 => Scalar::U64,
            S64 => Scalar::S64,
            B64 => Scalar::B64,
            F16 => Scalar::F16,
            Bf16 => Scalar::Bf16,
            F32 => Scalar::F32,
            F64 => Scalar::F64,
            F16x2 | Bf16x2 => {
                let half = if self.ty == F16x2 {
                    Scalar::F16
                } else {
                    Scalar::Bf16
                };
                let low = reduction.combine(half, old & 0xffff, s & 0xffff);
                return Some(reduction.combine(half, old >> 16, s >> 16) << 16 | low);
            }
            Pred | B8 | U8 | S8 | B16 | U16 | S16 | Tf32 | E4m3x2 | E5m2x2 | B128 => return None,
        };
        Some(reduction.combine(scalar, old, s))
    }
}
