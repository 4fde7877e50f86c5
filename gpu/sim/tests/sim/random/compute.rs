//! Scenes in registers: arithmetic, branches, loops, shuffles.

use colex_ir::{BinaryOp, Compare, Reg, RegType, ShuffleMode, Type};
use colex_sim::FaultKind;

use super::super::helpers::Dice;
use super::sites::Site;
use super::stage::Stage;
use super::{Cast, HELD};

/// What every thread does to its values.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// `x[d] = x[a] op x[b]`
    Values(BinaryOp, [usize; 3]),
    /// `x[d] = x[a] op c`
    Constant(BinaryOp, [usize; 2], u32),
    /// Threads with these bits go one way, the others another.
    Branch {
        bits: u32,
        then: Vec<Step>,
        other: Vec<Step>,
    },
    /// As many times as the thread's lowest bits say, and once more.
    Loop { bits: u32, body: Vec<Step> },
}

const OPS: [BinaryOp; 8] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Xor,
    BinaryOp::Min,
    BinaryOp::Max,
];

fn apply(op: BinaryOp, a: u32, b: u32) -> u32 {
    match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
        BinaryOp::Min => a.min(b),
        _ => a.max(b),
    }
}

impl Step {
    pub(super) fn some(dice: &mut Dice, depth: usize) -> Vec<Step> {
        let count = 1 + dice.below(4);
        (0..count).map(|_| Step::random(dice, depth)).collect()
    }

    fn random(dice: &mut Dice, depth: usize) -> Step {
        let op = OPS[dice.below(OPS.len())];
        let mut held = || dice.below(HELD);
        let places = [held(), held(), held()];
        match dice.below(if depth == 0 { 2 } else { 4 }) {
            0 => Step::Values(op, places),
            1 => Step::Constant(op, [places[0], places[1]], dice.next() as u32),
            2 => Step::Branch {
                bits: dice.below(64) as u32,
                then: Step::some(dice, depth - 1),
                other: Step::some(dice, depth - 1),
            },
            _ => Step::Loop {
                bits: dice.below(8) as u32,
                body: Step::some(dice, depth - 1),
            },
        }
    }

    /// As instructions, which these threads execute.
    pub(super) fn emit(&self, s: &mut Stage, active: &[u32]) {
        match self {
            Step::Values(op, [d, a, b]) => {
                let x = s.k.binary(*op, kind(*op), s.held[*a], s.held[*b]);
                s.hold(*d, x);
            }
            Step::Constant(op, [d, a], c) => {
                let x = s.k.binary(*op, kind(*op), s.held[*a], i64::from(*c));
                s.hold(*d, x);
            }
            Step::Branch { bits, then, other } => branch(s, *bits, [then, other], active),
            Step::Loop { bits, body } => {
                let rounds = s.k.and(Type::B32, s.thread, i64::from(*bits));
                let left = s.k.reg(RegType::B32);
                s.k.mov_to(left, rounds);
                s.repeat(|s| {
                    body.iter().for_each(|step| step.emit(s, active));
                    let done = s.k.setp(Compare::Eq, Type::U32, left, 0);
                    s.k.break_if(done);
                    s.k.binary_to(BinaryOp::Sub, Type::U32, left, left, 1);
                });
            }
        }
    }

    pub(super) fn perform(&self, thread: u32, x: &mut [u32; HELD]) {
        match self {
            Step::Values(op, [d, a, b]) => x[*d] = apply(*op, x[*a], x[*b]),
            Step::Constant(op, [d, a], c) => x[*d] = apply(*op, x[*a], *c),
            Step::Branch { bits, then, other } => {
                let taken = if thread & bits == *bits { then } else { other };
                taken.iter().for_each(|step| step.perform(thread, x));
            }
            Step::Loop { bits, body } => {
                for _ in 0..=thread & bits {
                    body.iter().for_each(|step| step.perform(thread, x));
                }
            }
        }
    }
}

/// The type in which an operation is done.
fn kind(op: BinaryOp) -> Type {
    match op {
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => Type::B32,
        _ => Type::U32,
    }
}

/// A branch; and a register that only one side sets, if that is to be broken.
fn branch(s: &mut Stage, bits: u32, [then, other]: [&[Step]; 2], active: &[u32]) {
    let (with, without): (Vec<u32>, Vec<u32>) =
        active.iter().partition(|thread| *thread & bits == bits);
    let masked = s.k.and(Type::B32, s.thread, i64::from(bits));
    let takes = s.k.setp(Compare::Eq, Type::U32, masked, i64::from(bits));
    let fresh = s.k.reg(RegType::B32);
    let everywhere =
        s.keeps(Site::new("a value", &[FaultKind::Uninitialised]).among(without.clone()));
    let site = s.sites.len() - 1;
    if everywhere {
        s.k.mov_to(fresh, 0)
    } else {
        s.k.when(takes, |k| k.mov_to(fresh, 0))
    }
    let steps = |side: &[Step], s: &mut Stage, active: &[u32]| {
        side.iter().for_each(|step| step.emit(s, active));
    };
    s.branch(
        takes,
        |s| steps(then, s, &with),
        |s| steps(other, s, &without),
    );
    let line = line!() + 1;
    let same = s.k.xor(Type::B32, s.held[0], fresh);
    s.sites[site].lines.push(line);
    s.hold(0, same);
}

/// A shuffle of a whole warp: lanes read lanes `by` away, or with other bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shuffle {
    pub(super) mode: ShuffleMode,
    pub(super) by: u32,
    pub(super) held: [usize; 2],
}

impl Shuffle {
    pub(super) fn random(dice: &mut Dice) -> Self {
        let modes = [
            ShuffleMode::Up,
            ShuffleMode::Down,
            ShuffleMode::Bfly,
            ShuffleMode::Idx,
        ];
        Shuffle {
            mode: modes[dice.below(4)],
            by: dice.below(32) as u32,
            held: [dice.below(HELD), dice.below(HELD)],
        }
    }

    pub(super) fn play(self, s: &mut Stage) {
        let [d, a] = self.held.map(|i| s.held[i]);
        let exchange = |s: &mut Stage, d: Reg| {
            let line = line!() + 1;
            let x = s.k.shuffle(self.mode, a, i64::from(self.by));
            s.k.mov_to(d, x);
            line
        };
        let line = if s.keeps(Site::new("all lanes", &[FaultKind::Divergence])) {
            exchange(s, d)
        } else {
            let lane = s.k.and(Type::B32, s.thread, 31);
            let low = s.k.setp(Compare::Lt, Type::U32, lane, 16);
            let mut line = 0;
            s.branch(low, |s| line = exchange(s, d), |_| {});
            line
        };
        s.show(1, &[line]);
    }

    pub(super) fn perform(self, cast: &mut Cast) {
        let [d, a] = self.held;
        cast.set(d, |old, thread| {
            let lane = thread % 32;
            let by = self.by as usize;
            let from = match self.mode {
                ShuffleMode::Up if lane >= by => lane - by,
                ShuffleMode::Down if lane + by < 32 => lane + by,
                ShuffleMode::Bfly => lane ^ by,
                ShuffleMode::Idx => by,
                _ => lane,
            };
            old[thread - lane + from][a]
        });
    }
}
