//! Scenes with copies that complete later: `cp.async`, bulk copies in and out.

use colex_atom::copy;
use colex_ir::{Address, CopyArgs, End, FenceKind, Type};
use colex_sim::FaultKind;

use super::super::helpers::{Dice, global, shared};
use super::meet::{Mix, strangers};
use super::sites::Site;
use super::stage::Stage;
use super::{Cast, HELD, World, begins_with};

/// Each thread copies two words from the input, in two groups, and reads two that others have brought.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copies {
    mix: [Mix; 2],
    held: usize,
}

impl Copies {
    pub(super) fn random(dice: &mut Dice, world: World) -> Self {
        Copies {
            mix: [(); 2].map(|()| Mix::random(dice, world, world.threads())),
            held: dice.below(HELD),
        }
    }

    pub(super) fn play(self, s: &mut Stage) {
        let own: Vec<u32> = (0..s.world.threads()).collect();
        let apart = self.mix.map(|mix| strangers(&own, &mix.all(s.world)));
        let from = s.far(s.input, s.number);
        let from = s.moved(from, 1 << 20);
        let here = s.slot(s.thread, 16);
        let first = brings(s, here.into(), from);
        s.show(2, &[first]);
        let race = [FaultKind::Race];
        let late = [FaultKind::Race, FaultKind::EarlyExit];
        let commits = s.keeps(Site::new("the first commit", &race));
        if commits {
            s.k.cp_async_commit();
        }
        let next = s.k.add(Type::U32, s.number, i64::from(s.world.all()));
        let from = s.far(s.input, next);
        let second = brings(s, Address::from(here).at(4), from.into());
        if s.keeps(Site::new("the second commit", &late)) {
            s.k.cp_async_commit();
        }
        if s.keeps(Site::new("the first wait", &race)) {
            s.k.cp_async_wait(1);
        }
        let [one, other] = apart;
        if s.keeps(Site::new("the meeting after the first wait", &race).among(one)) {
            s.k.sync();
        }
        let from = self.mix[0].emit(s);
        let from = s.slot(from, 16);
        let third = line!() + 1;
        let a = s.k.load(shared(Type::U32), from);
        if s.keeps(Site::new("the second wait", &late)) {
            s.k.cp_async_wait(0);
        }
        if s.keeps(Site::new("the meeting after the second wait", &race).among(other)) {
            s.k.sync();
        }
        let from = self.mix[1].emit(s);
        let from = Address::from(s.slot(from, 16)).at(4);
        let fourth = line!() + 1;
        let b = s.k.load(shared(Type::U32), from);
        s.show(6, &[first, second, third, fourth]);
        let sum = s.k.add(Type::U32, a, b);
        s.hold(self.held, sum);
    }

    pub(super) fn perform(self, cast: &mut Cast) {
        let input = |i: usize| begins_with((i / HELD) as u32)[i % HELD];
        let world = cast.world;
        let new: Vec<u32> = (0..cast.held.len())
            .map(|thread| {
                let number = cast.number(thread);
                let [a, b] = self
                    .mix
                    .map(|mix| cast.beside(thread, mix.of(number, world)));
                input(a).wrapping_add(input(b + world.all() as usize))
            })
            .collect();
        cast.set(self.held, |_, thread| new[thread]);
    }
}

/// `cp.async` of one word; its line.
fn brings(s: &mut Stage, dst: Address, src: Address) -> u32 {
    let atom = copy("SM80_CP_ASYNC_CACHEALWAYS<uint32_t>").unwrap();
    let args = CopyArgs {
        dst: End::Memory(dst),
        src: End::Memory(src),
        ..CopyArgs::default()
    };
    let line = line!() + 1;
    s.k.copy_atom(&atom, args);
    line
}

/// One thread lets an engine bring the block's words of the input, and all wait at a barrier.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fetch {
    mix: Mix,
    held: usize,
}

impl Fetch {
    pub(super) fn random(dice: &mut Dice, world: World) -> Self {
        Fetch {
            mix: Mix::random(dice, world, world.threads()),
            held: dice.below(HELD),
        }
    }

    pub(super) fn play(self, s: &mut Stage) {
        let parity = i64::from(s.uses[0] % 2);
        s.uses[0] += 1;
        let bytes = 4 * i64::from(s.world.threads());
        let first = s.k.mul(Type::U32, s.block, i64::from(s.world.threads()));
        let from = s.far(s.input, first);
        let from = s.moved(from, 1 << 20);
        // An engine that no thread waits for races with the reads, or is not done when the block ends or arrives again.
        let unawaited = [FaultKind::Race, FaultKind::EarlyExit, FaultKind::Barrier];
        let announces = s.keeps(Site::new("the announcement", &unawaited));
        let exact = s.keeps(Site::new("the number of bytes", &[FaultKind::Deadlock]));
        let arrives = s.keeps(Site::new("the arrival", &[FaultKind::Deadlock]));
        let copies = s.keeps(Site::new("the copy", &[FaultKind::Deadlock]));
        let (mut issue, mut arrive) = (0, 0);
        s.alone(|s| {
            let bar = s.bars[0];
            arrive = line!() + 2;
            match (announces, arrives) {
                (true, true) => {
                    s.k.mbarrier_arrive_expect(bar, bytes + if exact { 0 } else { 16 })
                }
                (false, _) => s.k.mbarrier_arrive(bar),
                (_, false) => {}
            }
            if copies {
                issue = bulk(s, bytes, from);
            }
        });
        let waits = s.keeps(Site::new("the wait", &unawaited));
        let (bar, wait) = (s.bars[0], line!() + 2);
        if waits {
            s.k.mbarrier_wait(bar, parity);
        }
        let from = self.mix.emit(s);
        let from = s.slot(from, 4);
        let read = line!() + 1;
        let x = s.k.load(shared(Type::U32), from);
        // By site: the two of the address, the announcement, bytes, arrival, copy, wait.
        let begin = s.sites.len() - 7;
        for (site, lines) in s.sites[begin..].iter_mut().zip([
            vec![issue],
            vec![issue],
            vec![issue, read, arrive, arrive + 1],
            vec![wait],
            vec![wait],
            vec![wait],
            vec![issue, read, arrive, arrive + 1],
        ]) {
            site.lines = lines;
        }
        s.hold(self.held, x);
    }

    pub(super) fn perform(self, cast: &mut Cast) {
        let world = cast.world;
        let new: Vec<u32> = (0..cast.held.len())
            .map(|thread| {
                let from = cast.beside(thread, self.mix.of(cast.number(thread), world));
                begins_with((from / HELD) as u32)[from % HELD]
            })
            .collect();
        cast.set(self.held, |_, thread| new[thread]);
    }
}

/// A bulk copy into the tile that tells the first barrier; its line.
fn bulk(s: &mut Stage, bytes: i64, src: Address) -> u32 {
    let atom = copy("SM90_BULK_COPY_G2S").unwrap();
    let args = CopyArgs {
        dst: End::Memory(s.tile.into()),
        src: End::Memory(src),
        barrier: Some(s.bars[0].into()),
        size: Some(bytes.into()),
        ..CopyArgs::default()
    };
    let line = line!() + 1;
    s.k.copy_atom(&atom, args);
    line
}

/// All threads write a word, and an engine takes them to global memory; then the words are written again, and those that
/// the engine took are read back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Send {
    mix: Mix,
    held: [usize; 2],
}

impl Send {
    pub(super) fn random(dice: &mut Dice, world: World) -> Self {
        Send {
            mix: Mix::random(dice, world, world.threads()),
            held: [dice.below(HELD), dice.below(HELD)],
        }
    }

    pub(super) fn play(self, s: &mut Stage) {
        let bytes = 4 * i64::from(s.world.threads());
        let [x, y] = self.held.map(|i| s.held[i]);
        let here = s.slot(s.thread, 4);
        let from = self.mix.emit(s);
        let there = s.slot(from, 4);
        let first = s.k.mul(Type::U32, s.block, i64::from(s.world.threads()));
        let to = s.far(s.engines, first);
        let to = s.moved(to, 1 << 20);
        let write = line!() + 1;
        s.k.store(shared(Type::U32), here, x);
        let fences = s.keeps(Site::new(
            "the fence between the proxies",
            &[FaultKind::MissingFence],
        ));
        if fences {
            s.k.fence(FenceKind::ProxyAsyncShared);
        }
        let meets = s.keeps(Site::new("the meeting before the copy", &[FaultKind::Race]));
        if meets {
            s.k.sync();
        }
        let unawaited = [FaultKind::Race, FaultKind::EarlyExit];
        let commits = s.keeps(Site::new("the commit", &unawaited));
        let waits = s.keeps(Site::new("the wait for the copy", &unawaited));
        let mut issue = 0;
        s.alone(|s| {
            issue = takes(s, bytes, to);
            if commits {
                s.k.bulk_commit();
            }
            if waits {
                s.k.bulk_wait(0, true);
            }
        });
        let after = s.keeps(Site::new("the meeting after the copy", &[FaultKind::Race]));
        if after {
            s.k.sync();
        }
        let again = line!() + 1;
        s.k.store(shared(Type::U32), there, y);
        // The source was read; the copy is done after a second wait only.
        let done = s.keeps(Site::new("the wait for the whole copy", &[FaultKind::Race]));
        if done {
            s.alone(|s| s.k.bulk_wait(0, false));
        }
        s.k.sync();
        let number = s.k.add(Type::U32, first, from);
        let from = s.far(s.engines, number);
        let back = line!() + 1;
        let z = s.k.load(global(Type::U32), from);
        s.hold(self.held[1], z);
        let begin = s.sites.len() - 8;
        for (site, lines) in s.sites[begin..].iter_mut().zip([
            vec![issue],
            vec![issue],
            vec![issue],
            vec![write, issue, again],
            vec![issue, again, back],
            vec![issue, again],
            vec![issue, again, write],
            vec![issue, back],
        ]) {
            site.lines = lines;
        }
    }

    pub(super) fn perform(self, cast: &mut Cast) {
        let engines: Vec<u32> = cast.held.iter().map(|held| held[self.held[0]]).collect();
        let world = cast.world;
        let from =
            |cast: &Cast, thread| cast.beside(thread, self.mix.of(cast.number(thread), world));
        let back: Vec<u32> = (0..engines.len())
            .map(|thread| engines[from(cast, thread)])
            .collect();
        cast.set(self.held[1], |_, thread| back[thread]);
        cast.engines = engines;
    }
}

/// A bulk copy from the tile; its line.
fn takes(s: &mut Stage, bytes: i64, dst: Address) -> u32 {
    let atom = copy("SM90_BULK_COPY_S2G").unwrap();
    let args = CopyArgs {
        dst: End::Memory(dst),
        src: End::Memory(s.tile.into()),
        size: Some(bytes.into()),
        ..CopyArgs::default()
    };
    let line = line!() + 1;
    s.k.copy_atom(&atom, args);
    line
}
