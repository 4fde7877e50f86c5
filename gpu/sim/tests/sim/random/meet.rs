//! Which threads read what which threads wrote, and where they synchronise in between.

use colex_ir::{Reg, Type};
use colex_sim::FaultKind;

use super::super::helpers::Dice;
use super::World;
use super::sites::Site;
use super::stage::Stage;

/// A permutation of the threads of a block.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mix {
    /// `(a t + c) mod T`, `a` odd.
    Line {
        a: u32,
        c: u32,
    },
    Xor(u32),
}

impl Mix {
    /// One that mixes groups of `group` threads.
    pub(super) fn random(dice: &mut Dice, world: World, group: u32) -> Self {
        let below = |dice: &mut Dice, bound: u32| dice.below(bound as usize) as u32;
        match dice.below(4) {
            0 if group == world.threads() => Mix::Line {
                a: 2 * below(dice, 8) + 1,
                c: below(dice, group),
            },
            1 => Mix::Xor(0),
            _ => Mix::Xor(below(dice, group)),
        }
    }

    pub(super) fn of(self, thread: u32, world: World) -> u32 {
        match self {
            Mix::Line { a, c } => (a * thread + c) % world.threads(),
            Mix::Xor(mask) => thread ^ mask,
        }
    }

    pub(super) fn all(self, world: World) -> Vec<u32> {
        (0..world.threads())
            .map(|thread| self.of(thread, world))
            .collect()
    }

    /// The same as instructions.
    pub(super) fn emit(self, s: &mut Stage) -> Reg {
        match self {
            Mix::Line { a, c } => {
                let x = s.k.mad(Type::U32, s.thread, i64::from(a), i64::from(c));
                s.k.and(Type::B32, x, i64::from(s.world.threads() - 1))
            }
            Mix::Xor(mask) => s.k.xor(Type::B32, s.thread, i64::from(mask)),
        }
    }
}

/// The threads that share a place with another, where each of the one list names a place and each of the other.
pub(super) fn strangers(ours: &[u32], theirs: &[u32]) -> Vec<u32> {
    let mut found = Vec::new();
    for (i, a) in ours.iter().enumerate() {
        for (j, b) in theirs.iter().enumerate() {
            if a == b && i != j {
                found.extend([i as u32, j as u32]);
            }
        }
    }
    found
}

/// Where threads meet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Meet {
    Warp,
    /// Two warps, at a named barrier of their own.
    Pair,
    Block,
    /// The block, at a barrier in shared memory.
    Counted,
}

impl Meet {
    pub(super) fn random(dice: &mut Dice, world: World) -> Self {
        match dice.below(4) {
            0 => Meet::Warp,
            1 if world.warps > 1 => Meet::Pair,
            2 => Meet::Counted,
            _ => Meet::Block,
        }
    }

    /// How many threads meet.
    pub(super) fn group(self, world: World) -> u32 {
        match self {
            Meet::Warp => 32,
            Meet::Pair => 64,
            Meet::Block | Meet::Counted => world.threads(),
        }
    }

    /// The meeting, which may be left out, with the threads that miss it then; or be broken in a way of its own.
    pub(super) fn emit(self, s: &mut Stage, name: &'static str, among: Vec<u32>) {
        if !s.keeps(Site::new(name, &[FaultKind::Race]).among(among)) {
            return;
        }
        match self {
            Meet::Warp => s.k.warp_sync(),
            Meet::Block => s.k.sync(),
            Meet::Pair => {
                let warp = s.k.shr(Type::U32, s.thread, 6);
                let id = s.k.add(Type::U32, warp, 1);
                s.k.named_sync(id, 64);
            }
            Meet::Counted => counted(s),
        }
    }
}

/// All threads arrive and wait: unless one does not arrive, or ends before it does.
fn counted(s: &mut Stage) {
    let parity = i64::from(s.uses[1] % 2);
    s.uses[1] += 1;
    let arrives = s.keeps(Site::new("an arrival", &[FaultKind::Deadlock]));
    let stays = s.keeps(Site::new("a thread", &[FaultKind::Deadlock]));
    let fifth = s.k.setp(colex_ir::Compare::Eq, Type::U32, s.thread, 5);
    if !stays {
        s.k.when(fifth, |k| k.push(colex_ir::Control::Exit));
    }
    let bar = s.bars[1];
    let others = colex_ir::Guard {
        pred: fifth,
        when: false,
    };
    if arrives {
        s.k.mbarrier_arrive(bar)
    } else {
        s.k.when(others, |k| k.mbarrier_arrive(bar))
    }
    let wait = line!() + 1;
    s.k.mbarrier_wait(bar, parity);
    s.show(2, &[wait]);
}
