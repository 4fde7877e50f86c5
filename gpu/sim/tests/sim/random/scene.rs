//! The scenes of a random kernel, and the one in which threads exchange values through memory.

use colex_ir::{AtomicOp, Reg, Space, Type};
use colex_sim::FaultKind;

use super::super::helpers::{Dice, global, shared};
use super::compute::{Shuffle, Step};
use super::engine::{Copies, Fetch, Send};
use super::flag::{Flag, Peer};
use super::meet::{Meet, Mix, strangers};
use super::product::Product;
use super::sites::Site;
use super::stage::Stage;
use super::{Cast, HELD, World};

#[derive(Clone, Debug)]
pub(super) enum Scene {
    Compute(Vec<Step>),
    Shuffle(Shuffle),
    Exchange(Exchange),
    Count(Count),
    Copies(Copies),
    Fetch(Fetch),
    Send(Send),
    Flag(Flag),
    Peer(Peer),
    Product(Product),
}

impl Scene {
    pub(super) fn random(dice: &mut Dice, world: World) -> Self {
        match dice.below(11) {
            0 => Scene::Compute(Step::some(dice, 2)),
            1 => Scene::Shuffle(Shuffle::random(dice)),
            2 | 3 => Scene::Exchange(Exchange::random(dice, world)),
            4 => Scene::Count(Count::random(dice)),
            5 => Scene::Copies(Copies::random(dice, world)),
            6 => Scene::Fetch(Fetch::random(dice, world)),
            7 => Scene::Send(Send::random(dice, world)),
            10 if world.warps == 4 => Scene::Product(Product::random(dice)),
            8 if world.clustered => Scene::Peer(Peer::random(dice, world)),
            _ if world.blocks > 1 => Scene::Flag(Flag::random(dice, world)),
            _ => Scene::Exchange(Exchange::random(dice, world)),
        }
    }

    /// As instructions.
    pub(super) fn play(&self, s: &mut Stage) {
        match self {
            Scene::Compute(steps) => {
                let all: Vec<u32> = (0..s.world.threads()).collect();
                return steps.iter().for_each(|step| step.emit(s, &all));
            }
            Scene::Shuffle(scene) => return scene.play(s),
            Scene::Exchange(scene) => scene.play(s),
            Scene::Count(scene) => scene.play(s),
            Scene::Copies(scene) => scene.play(s),
            Scene::Fetch(scene) => scene.play(s),
            Scene::Send(scene) => scene.play(s),
            Scene::Flag(scene) => scene.play(s),
            Scene::Peer(scene) => scene.play(s),
            Scene::Product(scene) => scene.play(s),
        }
        s.curtain();
    }

    /// As what it does to all values.
    pub(super) fn perform(&self, cast: &mut Cast) {
        match self {
            Scene::Compute(steps) => {
                for thread in 0..cast.held.len() {
                    let number = cast.number(thread);
                    let held = &mut cast.held[thread];
                    steps.iter().for_each(|step| step.perform(number, held));
                }
            }
            Scene::Shuffle(scene) => scene.perform(cast),
            Scene::Exchange(scene) => scene.perform(cast),
            Scene::Count(scene) => scene.perform(cast),
            Scene::Copies(scene) => scene.perform(cast),
            Scene::Fetch(scene) => scene.perform(cast),
            Scene::Send(scene) => scene.perform(cast),
            Scene::Flag(scene) => scene.perform(cast),
            Scene::Peer(scene) => scene.perform(cast),
            Scene::Product(scene) => scene.perform(cast),
        }
    }
}

/// Each thread writes a word, reads another's, writes that one elsewhere, and reads its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    in_global: bool,
    meet: Meet,
    mix: [Mix; 2],
    held: [usize; 2],
}

impl Exchange {
    fn random(dice: &mut Dice, world: World) -> Self {
        let meet = Meet::random(dice, world);
        let mut mix = || Mix::random(dice, world, meet.group(world));
        let mix = [mix(), mix()];
        Exchange {
            in_global: dice.below(2) == 0,
            meet,
            mix,
            held: [dice.below(HELD), dice.below(HELD)],
        }
    }

    /// The address of a thread's word.
    fn place(self, s: &mut Stage, thread: Reg) -> Reg {
        if self.in_global {
            let number =
                s.k.mad(Type::U32, s.block, i64::from(s.world.threads()), thread);
            s.far(s.words, number)
        } else {
            s.slot(thread, 4)
        }
    }

    fn play(self, s: &mut Stage) {
        let access = if self.in_global {
            global(Type::U32)
        } else {
            shared(Type::U32)
        };
        let [read, written] = self.mix.map(|mix| mix.all(s.world));
        let own: Vec<u32> = (0..s.world.threads()).collect();
        let [i, j] = self.held.map(|i| s.held[i]);
        let [from, to] = self.mix.map(|mix| mix.emit(s));
        let [here, from, to] = [s.thread, from, to].map(|thread| self.place(s, thread));
        let moved = s.moved(here, 1 << 20);
        let first = line!() + 1;
        s.k.store(access, moved, i);
        s.show(2, &[first]);
        let begin = s.sites.len();
        self.meet
            .emit(s, "the first meeting", strangers(&own, &read));
        let second = line!() + 1;
        let x = s.k.load(access, from);
        s.sites[begin].lines.extend([first, second]);
        let begin = s.sites.len();
        self.meet
            .emit(s, "the second meeting", strangers(&read, &written));
        let x = s.k.xor(Type::B32, x, j);
        let third = line!() + 1;
        s.k.store(access, to, x);
        s.sites[begin].lines.extend([second, third]);
        let begin = s.sites.len();
        self.meet
            .emit(s, "the third meeting", strangers(&written, &own));
        let fourth = line!() + 1;
        let x = s.k.load(access, here);
        s.sites[begin].lines.extend([third, fourth]);
        s.hold(self.held[0], x);
    }

    fn perform(self, cast: &mut Cast) {
        let world = cast.world;
        let [i, j] = self.held;
        let old = cast.held.clone();
        for thread in 0..old.len() {
            let number = cast.number(thread);
            let [from, to] = self
                .mix
                .map(|mix| cast.beside(thread, mix.of(number, world)));
            cast.held[to][i] = old[from][i] ^ old[thread][j];
        }
    }
}

/// All threads of a block add to a word in shared memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    held: usize,
}

impl Count {
    fn random(dice: &mut Dice) -> Self {
        Count {
            held: dice.below(HELD),
        }
    }

    fn play(self, s: &mut Stage) {
        let (tile, x) = (s.tile, s.held[self.held]);
        let first = line!() + 1;
        s.k.when(s.first, |k| k.store(shared(Type::U32), tile, 0));
        let ready = s.keeps(Site::new("the meeting before atomics", &[FaultKind::Race]));
        if ready {
            s.k.sync();
        }
        let second = line!() + 1;
        s.k.reduce(AtomicOp::Add, Space::Shared, Type::U32, tile, &[x]);
        s.show(1, &[first, second]);
        let done = s.keeps(Site::new("the meeting after atomics", &[FaultKind::Race]));
        if done {
            s.k.sync();
        }
        let third = line!() + 1;
        let sum = s.k.load(shared(Type::U32), tile);
        s.show(1, &[second, third]);
        s.hold(self.held, sum);
    }

    fn perform(self, cast: &mut Cast) {
        let threads = cast.world.threads() as usize;
        cast.set(self.held, |old, thread| {
            let first = thread / threads * threads;
            old[first..first + threads]
                .iter()
                .fold(0, |sum, held| sum.wrapping_add(held[self.held]))
        });
    }
}
