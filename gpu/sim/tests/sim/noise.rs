//! Kernels made of noise: for every one of them the simulator returns a report or a fault.

use colex_ir::launch::Launch;
use colex_ir::{
    Access, Address, Alu, AtomicOp, Base, BinaryOp, Cache, Compare, Exchange, FenceKind,
    KernelBuilder, Memory, Op, Operand, Order, Reg, RegType, ShuffleMode, Space, Special, Sync,
    TernaryOp, Type, UnaryOp,
};
use colex_sim::SimOptions;

use super::helpers::*;

const TYPES: [Type; 14] = [
    Type::B8,
    Type::S8,
    Type::U16,
    Type::F16,
    Type::Bf16,
    Type::B32,
    Type::S32,
    Type::F32,
    Type::F16x2,
    Type::E4m3x2,
    Type::U64,
    Type::S64,
    Type::F64,
    Type::B128,
];

struct Noise<'k> {
    dice: Dice,
    k: &'k mut KernelBuilder,
}

impl Noise<'_> {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.dice.next() as usize % from.len()]
    }

    /// A register that mostly exists, and mostly is no predicate.
    fn reg(&mut self) -> Reg {
        let odd = self.dice.next() % 40;
        let ty = match odd {
            0 => RegType::Pred,
            _ => self.pick(&RegType::ALL[1..]),
        };
        let index = if odd == 1 {
            9
        } else {
            (self.dice.next() % 4) as u32
        };
        Reg { index, ty }
    }

    fn operand(&mut self) -> Operand {
        match self.dice.next() % 4 {
            0 => Operand::Int(self.dice.next() as i64 >> (self.dice.next() % 64)),
            1 => Operand::Float(f64::from_bits(self.dice.next())),
            2 => {
                Operand::Special(self.pick(&[Special::Tid(0), Special::LaneId, Special::Ctaid(9)]))
            }
            _ => self.reg().into(),
        }
    }

    fn address(&mut self) -> Address {
        let reg = self.reg();
        let base = self.pick(&[Base::DynamicShared, Base::Reg(reg)]);
        Address::from(base).at(self.dice.next() as i64 >> (20 + self.dice.next() % 44))
    }

    fn op(&mut self) -> Op {
        let (ty, d) = (self.pick(&TYPES), self.reg());
        let [a, b, c] = [0; 3].map(|_| self.operand());
        let space = self.pick(Space::ALL);
        match self.dice.next() % 17 {
            0 => Op::from(Alu::Unary {
                op: self.pick(UnaryOp::ALL),
                ty,
                d,
                a,
            }),
            1 | 2 => Op::from(Alu::Binary {
                op: self.pick(BinaryOp::ALL),
                ty,
                d,
                a,
                b,
            }),
            3 => Op::from(Alu::Ternary {
                op: self.pick(TernaryOp::ALL),
                ty,
                d,
                a,
                b,
                c,
            }),
            4 => Op::from(Alu::Setp {
                cmp: self.pick(Compare::ALL),
                ty,
                p: d,
                a,
                b,
            }),
            5 => Op::from(Alu::Cvt {
                to: ty,
                from: self.pick(&TYPES),
                rounding: None,
                saturate: true,
                d,
                a,
            }),
            6 => Op::from(Memory::Load {
                access: self.access(space, ty),
                d: vec![d; 1 + self.dice.next() as usize % 5],
                a: self.address(),
            }),
            7 => Op::from(Memory::Store {
                access: self.access(space, ty),
                a: self.address(),
                s: vec![a, b],
            }),
            8 => Op::from(Memory::Atomic {
                op: self.pick(AtomicOp::ALL),
                space,
                ty,
                order: Order::Weak,
                d,
                a: self.address(),
                s: a,
                t: Some(b),
            }),
            9 => Op::from(Exchange::Shuffle {
                mode: self.pick(ShuffleMode::ALL),
                d,
                p: None,
                a,
                lane: b,
                clamp: c,
                mask: (-1i64).into(),
            }),
            10 => Op::from(Sync::Fence(self.pick(FenceKind::ALL))),
            11 => Op::from(Sync::MbarrierInit {
                a: self.address(),
                count: a,
            }),
            12 => Op::from(Sync::MbarrierArrive {
                space,
                a: self.address(),
                count: Some(a),
                expect: Some(b),
                scope: self.pick(&[colex_ir::Scope::Cta, colex_ir::Scope::Cluster]),
            }),
            13 => Op::from(Alu::Bfi {
                ty,
                d,
                a,
                b,
                start: c,
                length: b,
            }),
            14 => Op::from(Alu::Pack {
                d,
                parts: vec![self.reg(), self.reg()],
            }),
            15 => Op::from(Memory::Mapa { d, a, rank: b }),
            _ => Op::from(Alu::Mov { d, a }),
        }
    }

    fn access(&mut self, space: Space, ty: Type) -> Access {
        Access {
            space,
            ty,
            cache: Cache::Default,
            order: self.pick(&[Order::Weak, Order::Volatile]),
            policy: None,
        }
    }
}

#[test]
fn noise_never_stops_the_simulator() {
    let (mut faults, mut reports) = (0, 0);
    for seed in 0..10_000 {
        let mut k = kernel("noise");
        k.dynamic_shared(16);
        for ty in RegType::ALL {
            for reg in k.regs(ty, 4) {
                match ty {
                    RegType::Pred => k.push(Alu::Setp {
                        cmp: Compare::Lt,
                        ty: Type::U32,
                        p: reg,
                        a: Special::LaneId.into(),
                        b: 40.into(),
                    }),
                    _ => k.mov_to(reg, seed as i64 * 977 + i64::from(reg.index)),
                }
            }
        }
        let mut noise = Noise {
            dice: Dice(seed),
            k: &mut k,
        };
        for _ in 0..1 + seed % 3 {
            let op = noise.op();
            noise.k.push(op);
        }
        let kernel = k.finish();
        let options = SimOptions {
            uninitialised: seed % 2 == 0,
            ..SimOptions::default().seed(seed)
        };
        let launch = Launch::new(2, 48).cluster(2).dynamic_shared(64);
        match Host::default().run_with(&kernel, launch, &options) {
            Ok(_) => reports += 1,
            Err(fault) => {
                assert!(!fault.to_string().is_empty());
                faults += 1;
            }
        }
    }
    println!("law sim.noise: {faults} faults, {reports} reports");
    assert!(faults > 1000 && reports > 1000);
}
