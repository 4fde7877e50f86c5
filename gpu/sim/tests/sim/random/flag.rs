//! Scenes between blocks: a letter and a flag in global memory, and the shared memory of the other block of a cluster.

use colex_ir::{Access, Address, Compare, Order, Scope, Space, Type};
use colex_sim::FaultKind;

use super::super::helpers::{Dice, global, shared};
use super::meet::Mix;
use super::sites::Site;
use super::stage::Stage;
use super::{Cast, HELD, World};

/// Each block but the first reads what the one before wrote, once that has raised a flag.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flag {
    mix: Mix,
    held: [usize; 2],
}

impl Flag {
    pub(super) fn random(dice: &mut Dice, world: World) -> Self {
        Flag {
            mix: Mix::random(dice, world, world.threads()),
            held: [dice.below(HELD), dice.below(HELD)],
        }
    }

    pub(super) fn play(self, s: &mut Stage) {
        let read = self.mix.all(s.world);
        let (all, threads) = (i64::from(s.world.all()), i64::from(s.world.threads()));
        let letters = s.k.add(Type::S64, s.letters, 4 * all * s.flag);
        let flags =
            s.k.add(Type::S64, s.flags, 4 * i64::from(s.world.blocks) * s.flag);
        s.flag += 1;
        let mine = s.far(letters, s.number);
        let write = line!() + 1;
        s.k.store(global(Type::U32), mine, s.held[self.held[0]]);
        // Only other warps than the one that raises the flag, or sees it, need to meet it.
        let writers = (0..).zip(&read).filter(|(_, from)| **from >= 32);
        let writers = writers.flat_map(|(to, from)| [to, *from]).collect();
        let readers = (0..).zip(&read).filter(|(to, _)| *to >= 32u32);
        let readers = readers.flat_map(|(to, from)| [to, *from]).collect();
        if s.keeps(Site::new("the meeting before the flag", &[FaultKind::Race]).among(writers)) {
            s.k.sync();
        }
        let releases = s.keeps(Site::new("the release", &[FaultKind::Race]));
        let acquires = s.keeps(Site::new("the acquire", &[FaultKind::Race]));
        let order = |strong: bool, order: Order| {
            if strong {
                order
            } else {
                Order::Relaxed(Scope::Gpu)
            }
        };
        let raise = global(Type::U32).order(order(releases, Order::Release(Scope::Gpu)));
        let look = global(Type::U32).order(order(acquires, Order::Acquire(Scope::Gpu)));
        let flag = s.far(flags, s.block);
        let later = s.k.setp(Compare::Gt, Type::U32, s.block, 0);
        s.alone(|s| {
            s.k.store(raise, flag, 1);
            s.branch(
                later,
                |s| {
                    s.repeat(|s| {
                        let x = s.k.load(look, Address::from(flag).at(-4));
                        let set = s.k.setp(Compare::Ne, Type::U32, x, 0);
                        s.k.break_if(set);
                    });
                },
                |_| {},
            );
        });
        if s.keeps(Site::new("the meeting after the flag", &[FaultKind::Race]).among(readers)) {
            s.k.sync();
        }
        let from = self.mix.emit(s);
        let from = s.k.mad(Type::U32, s.block, threads, from);
        let from = Address::from(s.far(letters, from)).at(-4 * threads);
        let (held, sites) = (self.held, s.sites.len() - 4);
        s.branch(
            later,
            |s| {
                let line = line!() + 1;
                let x = s.k.load(global(Type::U32), from);
                s.sites[sites..]
                    .iter_mut()
                    .for_each(|site| site.lines = vec![write, line]);
                s.hold(held[1], x);
            },
            |_| {},
        );
    }

    pub(super) fn perform(self, cast: &mut Cast) {
        let (world, threads) = (cast.world, cast.world.threads() as usize);
        cast.set(self.held[1], |old, thread| {
            match thread.checked_sub(threads) {
                None => old[thread][self.held[1]],
                Some(before) => {
                    let number = self.mix.of(before as u32 % world.threads(), world) as usize;
                    old[before / threads * threads + number][self.held[0]]
                }
            }
        });
    }
}

/// Each block of a cluster reads the other's shared memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    mix: Mix,
    held: [usize; 2],
}

impl Peer {
    pub(super) fn random(dice: &mut Dice, world: World) -> Self {
        Peer {
            mix: Mix::random(dice, world, world.threads()),
            held: [dice.below(HELD), dice.below(HELD)],
        }
    }

    pub(super) fn play(self, s: &mut Stage) {
        let here = s.slot(s.thread, 4);
        let write = line!() + 1;
        s.k.store(shared(Type::U32), here, s.held[self.held[0]]);
        if s.keeps(Site::new("the meeting of the cluster", &[FaultKind::Race])) {
            s.k.cluster_sync();
        }
        let from = self.mix.emit(s);
        let from = s.slot(from, 4);
        let other = s.k.xor(Type::B32, s.block, 1);
        let there = s.k.mapa(from, other);
        let read = line!() + 1;
        let x = s.k.load(Access::new(Space::Cluster, Type::U32), there);
        s.show(1, &[write, read]);
        s.hold(self.held[1], x);
        if !s.keeps(Site::new("a block", &[FaultKind::EarlyExit])) {
            let gone = s.k.setp(Compare::Eq, Type::U32, s.block, 1);
            let exit = line!() + 1;
            s.k.when(gone, |k| k.push(colex_ir::Control::Exit));
            s.show(1, &[exit, read]);
        }
    }

    pub(super) fn perform(self, cast: &mut Cast) {
        let (world, threads) = (cast.world, cast.world.threads() as usize);
        cast.set(self.held[1], |old, thread| {
            let number = self.mix.of(thread as u32 % world.threads(), world) as usize;
            old[(1 - thread / threads) * threads + number][self.held[0]]
        });
    }
}
