//! Kernels made of noise: whatever they do, the simulator answers with a report or a fault.

use colex_ir::launch::Launch;
use colex_ir::{
    Access, Address, AtomicOp, Base, BinaryOp, Cache, Compare, FenceKind, KernelBuilder, Op,
    Operand, Order, Reg, RegType, ShuffleMode, Space, Special, TernaryOp, Type, UnaryOp,
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
            0 => Op::Unary {
                op: self.pick(UnaryOp::ALL),
                ty,
                d,
                a,
            },
            1 | 2 => Op::Binary {
                op: self.pick(BinaryOp::ALL),
                ty,
                d,
                a,
                b,
            },
            3 => Op::Ternary {
                op: self.pick(TernaryOp::ALL),
                ty,
                d,
                a,
                b,
                c,
            },
            4 => Op::Setp {
                cmp: self.pick(Compare::ALL),
                ty,
                p: d,
                a,
                b,
            },
            5 => Op::Cvt {
                to: ty,
                from: self.pick(&TYPES),
                rounding: None,
                saturate: true,
                d,
                a,
            },
            6 => Op::Load {
                access: self.access(space, ty),
                d: vec![d; 1 + self.dice.next() as usize % 5],
                a: self.address(),
            },
            7 => Op::Store {
                access: self.access(space, ty),
                a: self.address(),
                s: vec![a, b],
            },
            8 => Op::Atomic {
                op: self.pick(AtomicOp::ALL),
                space,
                ty,
                order: Order::Weak,
                d,
                a: self.address(),
                s: a,
                t: Some(b),
            },
            9 => Op::Shuffle {
                mode: self.pick(ShuffleMode::ALL),
                d,
                p: None,
                a,
                lane: b,
                clamp: c,
                mask: (-1i64).into(),
            },
            10 => Op::Fence(self.pick(FenceKind::ALL)),
            11 => Op::MbarrierInit {
                a: self.address(),
                count: a,
            },
            12 => Op::MbarrierArrive {
                space,
                a: self.address(),
                count: Some(a),
                expect: Some(b),
            },
            13 => Op::Bfi {
                ty,
                d,
                a,
                b,
                start: c,
                length: b,
            },
            14 => Op::Pack {
                d,
                parts: vec![self.reg(), self.reg()],
            },
            15 => Op::Mapa { d, a, rank: b },
            _ => Op::Mov { d, a },
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
                    RegType::Pred => k.push(Op::Setp {
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
