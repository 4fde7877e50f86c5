//! What an instruction reads and writes.

use super::op::{CopyArgs, End, Op, ScaleD};
use super::operand::{Address, Base, Operand, Reg};
use super::stmt::Stmt;

/// The registers, constants and addresses of one instruction, without its guard and the blocks inside it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    /// The registers that it writes.
    pub writes: Vec<Reg>,
    /// What it reads: registers, constants, special registers. Predicates are among them.
    pub sources: Vec<Operand>,
    /// The addresses that it names.
    pub addresses: Vec<Address>,
}

impl Parts {
    /// Every register that is read: sources, and those that addresses begin with.
    pub fn reads(&self) -> impl Iterator<Item = Reg> + '_ {
        let sources = self.sources.iter().filter_map(|operand| match operand {
            Operand::Reg(reg) => Some(*reg),
            _ => None,
        });
        let bases = self
            .addresses
            .iter()
            .filter_map(|address| match address.base {
                Base::Reg(reg) => Some(reg),
                _ => None,
            });
        sources.chain(bases)
    }

    fn new(writes: &[Reg], sources: &[Operand]) -> Self {
        Parts {
            writes: writes.to_vec(),
            sources: sources.to_vec(),
            addresses: Vec::new(),
        }
    }

    fn at(mut self, address: Address) -> Self {
        self.addresses.push(address);
        self
    }

    fn and(mut self, operand: Option<Operand>) -> Self {
        self.sources.extend(operand);
        self
    }
}

impl Stmt {
    /// Every register it reads, the guard's first.
    pub fn reads(&self) -> Vec<Reg> {
        let guard = self.guard.map(|guard| guard.pred);
        guard.into_iter().chain(self.op.parts().reads()).collect()
    }
}

impl Op {
    /// What it reads and writes.
    ///
    /// ```
    /// use colex_ir::{KernelBuilder, Special, Type};
    ///
    /// let mut k = KernelBuilder::new("k", colex_atom::Arch::Sm80);
    /// let x = k.mov(Type::U32, Special::LaneId);
    /// let y = k.add(Type::U32, x, 1);
    /// let parts = k.finish().body[1].op.parts();
    /// assert_eq!((parts.writes, parts.sources), (vec![y], vec![x.into(), 1.into()]));
    /// ```
    pub fn parts(&self) -> Parts {
        match self {
            Op::Mov { d, a } | Op::Unary { d, a, .. } | Op::Cvt { d, a, .. } => {
                Parts::new(&[*d], &[*a])
            }
            Op::AddressOf { d, a } => Parts::new(&[*d], &[]).at(*a),
            Op::Pack { d, parts } => Parts::new(&[*d], &operands(parts)),
            Op::Unpack { parts, a } => Parts::new(parts, &[(*a).into()]),
            Op::Binary { d, a, b, .. } => Parts::new(&[*d], &[*a, *b]),
            Op::Ternary { d, a, b, c, .. } | Op::Lop3 { d, a, b, c, .. } => {
                Parts::new(&[*d], &[*a, *b, *c])
            }
            Op::Bfi {
                d,
                a,
                b,
                start,
                length,
                ..
            } => Parts::new(&[*d], &[*a, *b, *start, *length]),
            Op::Setp { p, a, b, .. } => Parts::new(&[*p], &[*a, *b]),
            Op::PredLogic { p, a, b, .. } => Parts::new(&[*p], &[a.pred.into(), b.pred.into()]),
            Op::Selp { d, a, b, p, .. } => Parts::new(&[*d], &[*a, *b, (*p).into()]),
            Op::CvtPack { d, hi, lo, .. } => Parts::new(&[*d], &[*hi, *lo]),
            Op::If { p, .. } => Parts::new(&[], &[p.pred.into()]),
            Op::Mma {
                d,
                a,
                b,
                c,
                e,
                scale_d,
                atom,
            } => {
                let read: Vec<Reg> = [a, b, c, e].into_iter().flatten().copied().collect();
                let mut parts = Parts::new(d, &operands(&read));
                if let ScaleD::Pred(p) = scale_d {
                    parts.sources.push((*p).into());
                }
                if atom.b_in_shared() && *scale_d != ScaleD::Zero {
                    parts.sources.extend(operands(d));
                }
                parts
            }
            Op::Copy { args, .. } => args.parts(),
            _ => self.memory_parts(),
        }
    }

    fn memory_parts(&self) -> Parts {
        match self {
            Op::Load { access, d, a } => {
                Parts::new(d, &[]).at(*a).and(access.policy.map(Into::into))
            }
            Op::Store { access, a, s } => {
                Parts::new(&[], s).at(*a).and(access.policy.map(Into::into))
            }
            Op::Atomic { d, a, s, t, .. } => Parts::new(&[*d], &[*s]).at(*a).and(*t),
            Op::Reduce { a, s, .. } => Parts::new(&[], s).at(*a),
            Op::Mapa { d, a, rank } => Parts::new(&[*d], &[*a, *rank]),
            Op::Cvta { d, a, .. } => Parts::new(&[*d], &[*a]),
            Op::PrefetchTensorMap { a } | Op::MbarrierInval { a } | Op::CpAsyncArrive { a, .. } => {
                Parts::default().at(*a)
            }
            Op::CreatePolicy { d, .. } | Op::ActiveMask { d } => Parts::new(&[*d], &[]),
            Op::Shuffle {
                d,
                p,
                a,
                lane,
                clamp,
                mask,
                ..
            } => {
                let writes: Vec<Reg> = [*d].into_iter().chain(*p).collect();
                Parts::new(&writes, &[*a, *lane, *clamp, *mask])
            }
            Op::Vote { d, p, mask, .. } => Parts::new(&[*d], &[p.pred.into(), *mask]),
            Op::Redux { d, a, mask, .. } => Parts::new(&[*d], &[*a, *mask]),
            Op::Elect { p, mask } => Parts::new(&[*p], &[*mask]),
            Op::Barrier { id, threads, .. } => Parts::new(&[], &[*id]).and(*threads),
            Op::WarpSync { mask } => Parts::new(&[], &[*mask]),
            Op::MbarrierInit { a, count } => Parts::new(&[], &[*count]).at(*a),
            Op::MbarrierArrive {
                a, count, expect, ..
            } => Parts::default().at(*a).and(*count).and(*expect),
            Op::MbarrierExpect { a, bytes, .. } => Parts::new(&[], &[*bytes]).at(*a),
            Op::MbarrierTry { p, a, parity, .. } => Parts::new(&[*p], &[*parity]).at(*a),
            Op::MbarrierWait { a, parity } => Parts::new(&[], &[*parity]).at(*a),
            Op::NanoSleep { nanoseconds } => Parts::new(&[], &[*nanoseconds]),
            _ => Parts::default(),
        }
    }
}

impl CopyArgs {
    fn parts(&self) -> Parts {
        let mut parts = Parts::default();
        match &self.dst {
            End::Regs(regs) => parts.writes.extend(regs),
            End::Memory(address) => parts.addresses.push(*address),
            End::None => {}
        }
        match &self.src {
            End::Regs(regs) => parts.sources.extend(operands(regs)),
            End::Memory(address) => parts.addresses.push(*address),
            End::None => {}
        }
        if let Some((map, coordinates)) = &self.tensor {
            parts.addresses.push(*map);
            parts.sources.extend(coordinates);
        }
        parts.addresses.extend(self.barrier);
        parts.sources.extend(operands(&self.offsets));
        let registers = [self.mask, self.policy].into_iter().flatten();
        parts.sources.extend(registers.map(Operand::from));
        let numbers = [self.size, self.source_bytes].into_iter().flatten();
        parts.sources.extend(numbers);
        parts
    }
}

fn operands(regs: &[Reg]) -> Vec<Operand> {
    regs.iter().map(Operand::from).collect()
}
