//! Random kernels: what the verifier accepts, the simulator executes without a fault of the kinds it promises to exclude.

use colex_atom::{Arch, MmaAtom, mma};
use colex_ir::launch::Launch;
use colex_ir::{
    Alu, BinaryOp, Compare, Control, Guard, Kernel, KernelBuilder, Reg, RegType, ScaleD,
    ShuffleMode, Special, Type, VoteMode,
};
use colex_sim::{Fault, FaultKind, Memory, SimOptions, simulate};

use super::sentences;

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ x >> 31) % bound as u64) as usize
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// A kernel over a few registers, so that its parts get into each other's way.
struct Maker {
    dice: Dice,
    words: Vec<Reg>,
    preds: Vec<Reg>,
    counters: Vec<Reg>,
    accumulators: Vec<Reg>,
    descriptor: Reg,
    product: MmaAtom,
}

/// A block of two warpgroups, so that a warp, a warpgroup and the block are three things.
const BLOCK: u32 = 256;

fn random(seed: u64) -> Kernel {
    let mut k = KernelBuilder::new("random", Arch::Sm90a);
    k.block([BLOCK, 1, 1]).min_blocks(1).dynamic_shared(1024);
    let mut maker = Maker {
        dice: Dice(seed),
        words: k.regs(RegType::B32, 4),
        preds: k.regs(RegType::Pred, 3),
        counters: k.regs(RegType::B32, 3),
        accumulators: k.regs(RegType::F32, 4),
        descriptor: k.mov(Type::U64, 0),
        product: mma("SM90_64x8x16_F32F16F16_RS").expect("it is in the table"),
    };
    // Most kernels begin with values; the others show which reads come too early.
    if maker.dice.below(8) > 0 {
        maker.values(&mut k);
    }
    maker.block(&mut k, 3, 0);
    k.finish()
}

impl Maker {
    fn values(&mut self, k: &mut KernelBuilder) {
        for i in 0..self.words.len() {
            let value = self.source();
            k.mov_to(self.words[i], value);
        }
        for i in 0..self.preds.len() {
            self.compare(k, i);
        }
        let own = self.accumulators.clone();
        own.iter().for_each(|reg| k.mov_to(*reg, 0.0));
    }

    fn source(&mut self) -> colex_ir::Operand {
        match self.dice.below(5) {
            0 => Special::LaneId.into(),
            1 => Special::Ctaid(0).into(),
            2 => (self.dice.below(4) as i64).into(),
            _ => Special::Tid(0).into(),
        }
    }

    fn guard(&mut self) -> Guard {
        Guard {
            pred: self.dice.of(&self.preds),
            when: self.dice.below(2) == 0,
        }
    }

    fn compare(&mut self, k: &mut KernelBuilder, i: usize) {
        let cmp = self
            .dice
            .of(&[Compare::Lt, Compare::Eq, Compare::Ge, Compare::Ne]);
        let a = self.dice.of(&self.words).into();
        let b = self.dice.of(&[0i64, 1, 2, 5, 32, 64, 128]).into();
        let (p, ty) = (self.preds[i], Type::U32);
        k.push(Alu::Setp { cmp, ty, p, a, b });
    }

    fn block(&mut self, k: &mut KernelBuilder, depth: usize, loops: usize) {
        for _ in 0..1 + self.dice.below(6) {
            self.stmt(k, depth, loops);
        }
    }

    fn stmt(&mut self, k: &mut KernelBuilder, depth: usize, loops: usize) {
        match self.dice.below(if depth == 0 { 12 } else { 18 }) {
            0 => k.mov_to(self.dice.of(&self.words), Special::Tid(0)),
            1 => {
                let value = self.source();
                let (guard, d) = (self.guard(), self.dice.of(&self.words));
                k.when(guard, |k| k.mov_to(d, value));
            }
            2 | 3 => self.compute(k),
            4 | 5 => {
                let i = self.dice.below(self.preds.len());
                self.compare(k, i);
            }
            6..=8 => self.collective(k),
            9 => self.asynchronous(k),
            10 if loops > 0 => {
                let guard = self.guard();
                let leave = self.dice.of(&[true, true, false]);
                k.when(guard, |k| {
                    k.push(if leave { Control::Break } else { Control::Exit })
                });
            }
            10 | 11 => self.collective(k),
            12..=15 => self.branch(k, depth, loops),
            _ => self.repeat(k, depth, loops),
        }
    }

    fn compute(&mut self, k: &mut KernelBuilder) {
        let (a, b) = (self.dice.of(&self.words), self.dice.of(&self.words));
        let d = self.dice.of(&self.words);
        match self.dice.below(5) {
            0 => k.binary_to(BinaryOp::Add, Type::U32, d, a, b),
            1 => k.binary_to(BinaryOp::Shr, Type::U32, d, a, self.dice.of(&[1, 2, 5, 7])),
            2 => {
                let mask = self.dice.of(&[1u32, 31, 0xffff_ffe0, 0xffff_ff80]);
                k.binary_to(BinaryOp::And, Type::B32, d, a, mask);
            }
            3 => k.binary_to(BinaryOp::Div, Type::U32, d, a, self.dice.of(&[2, 32, 128])),
            _ => k.push(Alu::Selp {
                ty: Type::U32,
                d,
                a: a.into(),
                b: b.into(),
                p: self.dice.of(&self.preds),
            }),
        }
    }

    fn collective(&mut self, k: &mut KernelBuilder) {
        let d = self.dice.of(&self.words);
        match self.dice.below(6) {
            0 => k.sync(),
            1 => k.warp_sync(),
            2 => {
                let lane = self.dice.of(&[0, 3]);
                let mode = self
                    .dice
                    .of(&[ShuffleMode::Idx, ShuffleMode::Idx, ShuffleMode::Bfly]);
                let x = k.shuffle(mode, self.dice.of(&self.words), lane);
                k.mov_to(d, x);
            }
            3 => {
                let guard = self.guard();
                let x = k.vote(VoteMode::Ballot, guard);
                k.mov_to(d, x);
            }
            4 => {
                let guard = self.guard();
                let x = k.vote(VoteMode::Any, guard);
                k.mov_to(self.dice.of(&self.preds), x);
            }
            _ => {
                let guard = self.guard();
                k.when(guard, |k| k.warp_sync());
            }
        }
    }

    /// `wgmma` as it should be, with a part left out or a register touched now and then.
    fn asynchronous(&mut self, k: &mut KernelBuilder) {
        let d = self.accumulators.clone();
        // Fragments of their own: to the simulator, two products in flight may not share one.
        let fragments = [0, 1].map(|_| {
            let word = self.dice.of(&self.words);
            [0; 4].map(|_| k.mov(Type::U32, word))
        });
        let most = |dice: &mut Dice| dice.below(8) > 0;
        if most(&mut self.dice) {
            k.wgmma_fence();
        }
        for a in &fragments[..1 + self.dice.below(2)] {
            let scale = self.dice.of(&[ScaleD::Zero, ScaleD::One]);
            k.wgmma(&self.product, &d, a, self.descriptor, scale);
        }
        if !most(&mut self.dice) {
            k.unary(colex_ir::UnaryOp::Neg, Type::F32, d[0]);
        }
        if most(&mut self.dice) {
            k.wgmma_commit();
        }
        if most(&mut self.dice) {
            k.wgmma_wait(0);
        }
    }

    fn branch(&mut self, k: &mut KernelBuilder, depth: usize, loops: usize) {
        let guard = self.guard();
        k.if_(guard, |k| self.block(k, depth - 1, loops));
        // The other side, where the predicate still is what it was.
        if self.dice.below(3) == 0 {
            k.if_(guard.negated(), |k| self.block(k, depth - 1, loops));
        }
    }

    /// At most four turns; a counter of its own sees to that.
    fn repeat(&mut self, k: &mut KernelBuilder, depth: usize, loops: usize) {
        let Some(counter) = self.counters.pop() else {
            return;
        };
        let end = match self.dice.below(3) {
            0 => self.dice.of(&self.words),
            _ => k.mov(Type::U32, 3),
        };
        k.mov_to(counter, 0);
        k.loop_(|k| {
            let done = k.setp(Compare::Ge, Type::U32, counter, end);
            k.break_if(done);
            let enough = k.setp(Compare::Ge, Type::U32, counter, 4);
            k.break_if(enough);
            k.binary_to(BinaryOp::Add, Type::U32, counter, counter, 1);
            self.block(k, depth - 1, loops + 1);
        });
        self.counters.push(counter);
    }
}

fn run(kernel: &Kernel, seed: u64) -> Result<(), Fault> {
    let options = SimOptions {
        max_steps: 20_000,
        counts: false,
        ..SimOptions::default().seed(seed)
    };
    let launch = Launch::new(1, BLOCK).dynamic_shared(1024);
    simulate(kernel, &launch, &[], &mut Memory::default(), &options).map(|_| ())
}

/// The faults that no accepted kernel may have.
fn excluded(kind: FaultKind) -> bool {
    use FaultKind::{Barrier, Deadlock, Divergence, InFlight, Operand};
    matches!(kind, Barrier | Deadlock | Divergence | InFlight | Operand)
}

#[test]
fn what_is_accepted_runs() {
    let (mut ran, mut ended, mut refused, mut faulty) = (0, 0, 0, 0);
    for seed in 0..4000 {
        let kernel = random(seed);
        let found = sentences(&kernel);
        let outcome = run(&kernel, seed);
        match (found.is_empty(), outcome) {
            (true, Ok(())) => ran += 1,
            (true, Err(fault)) => {
                let unwritten =
                    fault.kind() == FaultKind::Uninitialised && fault.what().contains('%');
                let wrong = excluded(fault.kind()) || unwritten;
                assert!(!wrong, "seed {seed}: {fault}\n{kernel}");
                ended += 1;
            }
            (false, Ok(())) => refused += 1,
            (false, Err(_)) => faulty += 1,
        }
    }
    println!("law what_is_accepted_runs: {ran} kernels");
    println!("{ended} ended in a fault of another kind");
    println!("refused: {faulty} with a fault, {refused} that happen to run");
    assert!(ran > 400 && faulty > 400, "{ran} ran, {faulty} are faulty");
}
