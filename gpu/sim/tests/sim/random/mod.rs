//! Random kernels that are right, and the same with one mistake.
//!
//! A kernel is a sequence of scenes. Each scene is written twice: as instructions, and as what it does to the values of all
//! threads. So a kernel must run without a fault in every order of events, and give the values; and with any one of
//! its barriers, fences, waits and announcements left out, one of its addresses moved, or one of its threads gone, the
//! fault must be of the right kind, in the right line and by a thread that took part.

mod compute;
mod engine;
mod flag;
mod law;
mod meet;
mod product;
mod scene;
mod sites;
mod stage;

use colex_ir::Kernel;
use colex_ir::launch::Launch;

use super::helpers::{Dice, Host};
use scene::Scene;
use sites::Site;
use stage::Stage;

/// Values that each thread holds.
const HELD: usize = 3;

/// The most scenes of a kernel.
const SCENES: usize = 6;

/// The blocks and warps of a launch.
#[derive(Clone, Copy, Debug)]
struct World {
    blocks: u32,
    clustered: bool,
    warps: u32,
    /// Whether nothing has written shared memory, words and letters before the first scene.
    fresh: bool,
}

impl World {
    fn random(dice: &mut Dice) -> Self {
        let blocks = [1, 2, 2, 3][dice.below(4)];
        World {
            blocks,
            clustered: blocks == 2 && dice.below(2) == 0,
            warps: [1, 2, 4][dice.below(3)],
            fresh: false,
        }
    }

    /// The threads of a block.
    fn threads(self) -> u32 {
        32 * self.warps
    }

    fn all(self) -> u32 {
        self.blocks * self.threads()
    }

    fn launch(self) -> Launch {
        let launch = Launch::new(self.blocks, self.threads());
        if self.clustered {
            launch.cluster(self.blocks)
        } else {
            launch
        }
    }
}

/// A random kernel: its world and its scenes.
#[derive(Debug)]
struct Play {
    world: World,
    scenes: Vec<Scene>,
}

/// The values of all threads, computed without any instruction.
struct Cast {
    world: World,
    held: Vec<[u32; HELD]>,
    engines: Vec<u32>,
}

impl Cast {
    /// A value of all threads, changed by what it was: thread by thread, of the whole grid.
    fn set(&mut self, i: usize, new: impl Fn(&[[u32; HELD]], usize) -> u32) {
        let old = self.held.clone();
        for (thread, held) in self.held.iter_mut().enumerate() {
            held[i] = new(&old, thread);
        }
    }

    /// The thread of the grid that has this number in the block of another.
    fn beside(&self, thread: usize, number: u32) -> usize {
        let threads = self.world.threads() as usize;
        thread / threads * threads + number as usize
    }

    /// The number of a thread in its block.
    fn number(&self, thread: usize) -> u32 {
        thread as u32 % self.world.threads()
    }
}

/// What a play's kernel is made of, and where it could be broken.
struct Staged {
    kernel: Kernel,
    sites: Vec<Site>,
}

impl Play {
    fn random(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let world = World::random(&mut dice);
        let count = 1 + dice.below(SCENES);
        Play {
            world,
            scenes: (0..count)
                .map(|_| Scene::random(&mut dice, world))
                .collect(),
        }
    }

    /// The same on memory that was never written.
    fn fresh(mut self) -> Self {
        self.world.fresh = true;
        self
    }

    /// Its kernel, with the site of that number broken.
    fn stage(&self, planted: Option<usize>) -> Staged {
        let mut stage = Stage::new(self.world, planted);
        for scene in &self.scenes {
            scene.play(&mut stage);
        }
        stage.finish()
    }

    /// What each thread holds at the end, and what engines have written.
    fn values(&self) -> Cast {
        let all = self.world.all();
        let mut cast = Cast {
            world: self.world,
            held: (0..all).map(begins_with).collect(),
            engines: vec![0; all as usize],
        };
        self.scenes
            .iter()
            .for_each(|scene| scene.perform(&mut cast));
        cast
    }

    /// Memory for it: the input, what is written and read back, letters and flags between blocks, what engines write, and
    /// the output.
    fn host(&self) -> (Host, [u64; 2]) {
        let mut host = Host::default();
        let all = self.world.all() as usize;
        let input: Vec<u32> = (0..self.world.all()).flat_map(begins_with).collect();
        host.words(&input);
        if self.world.fresh {
            host.empty(4 * all as u64);
            host.empty(4 * (SCENES * all) as u64);
        } else {
            host.words(&vec![0; all]);
            host.words(&vec![0; SCENES * all]);
        }
        host.words(&vec![0; SCENES * self.world.blocks as usize]);
        let engines = host.words(&vec![0; all]);
        let output = host.empty(4 * (HELD * all) as u64);
        (host, [output, engines])
    }
}

/// What a thread of the grid begins with.
fn begins_with(thread: u32) -> [u32; HELD] {
    core::array::from_fn(|i| (thread * HELD as u32 + i as u32).wrapping_mul(0x9e37_79b9) ^ 0x5bd1)
}
