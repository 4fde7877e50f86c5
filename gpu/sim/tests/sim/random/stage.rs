//! What scenes are played on: the registers and the memory of a kernel.

use std::cell::RefCell;

use colex_ir::{
    Address, Compare, FenceKind, KernelBuilder, ParamId, Reg, RegType, SharedId, Special, Type,
};
use colex_sim::FaultKind;

use super::super::helpers::*;
use super::sites::Site;
use super::{HELD, Staged, World};

/// A kernel under construction.
pub(super) struct Stage {
    pub(super) k: KernelBuilder,
    pub(super) world: World,
    pub(super) held: [Reg; HELD],
    pub(super) thread: Reg,
    pub(super) first: Reg,
    /// The number of the block, and of the thread among all.
    pub(super) block: Reg,
    pub(super) number: Reg,
    /// The words of the block's threads in shared memory, 16 bytes for each, and their shared address.
    pub(super) tile: SharedId,
    pub(super) base: Reg,
    /// A barrier of one arrival, one of all threads of the block, and how often each was used.
    pub(super) bars: [SharedId; 2],
    pub(super) uses: [u32; 2],
    pub(super) input: Reg,
    /// In global memory the words of all threads, letters and flags between blocks, and where engines write.
    pub(super) words: Reg,
    pub(super) letters: Reg,
    pub(super) flags: Reg,
    pub(super) engines: Reg,
    output: ParamId,
    planted: Option<usize>,
    pub(super) sites: Vec<Site>,
    /// How many flags were used, and how many products there were.
    pub(super) flag: i64,
    pub(super) products: usize,
}

impl Stage {
    /// The beginning of every kernel: memory is written, if it is to be, and the barriers are ready.
    pub(super) fn new(world: World, planted: Option<usize>) -> Self {
        let mut k = kernel("play");
        let [input, words, letters, flags, engines, output] =
            ["input", "words", "letters", "flags", "engines", "output"].map(|name| k.pointer(name));
        let tile = k.shared("tile", 16 * world.threads(), 128);
        let bars = ["one", "all"].map(|name| k.shared(name, 8, 8));
        let thread = k.mov(Type::U32, Special::Tid(0));
        let first = k.setp(Compare::Eq, Type::U32, thread, 0);
        let block = k.mov(Type::U32, Special::Ctaid(0));
        let number = k.mad(Type::U32, block, i64::from(world.threads()), thread);
        let base = k.address_of(tile);
        let mine = k.mad(Type::U32, thread, 16, base);
        if !world.fresh {
            for i in 0..4 {
                k.store(shared(Type::U32), Address::from(mine).at(4 * i), 0);
            }
        }
        k.if_(first, |k| {
            k.mbarrier_init(bars[0], 1);
            k.mbarrier_init(bars[1], i64::from(world.threads()));
            k.fence(FenceKind::MbarrierInit);
        });
        k.fence(FenceKind::ProxyAsyncShared);
        if world.clustered {
            k.cluster_sync()
        } else {
            k.sync()
        }
        let from = element(&mut k, input, number, 4 * HELD as i64);
        let held = core::array::from_fn(|i| {
            let x = k.load(global(Type::U32), Address::from(from).at(4 * i as i64));
            let held = k.reg(RegType::B32);
            k.mov_to(held, x);
            held
        });
        let [input, words, letters, flags, engines] =
            [input, words, letters, flags, engines].map(|id| k.param(id));
        Stage {
            k,
            world,
            held,
            thread,
            first,
            block,
            number,
            tile,
            base,
            bars,
            uses: [0; 2],
            input,
            words,
            letters,
            flags,
            engines,
            output,
            planted,
            sites: Vec::new(),
            flag: 0,
            products: 0,
        }
    }

    /// Whether a place is left as it is: false for the one that is to be broken.
    pub(super) fn keeps(&mut self, site: Site) -> bool {
        self.sites.push(site);
        self.planted != Some(self.sites.len() - 1)
    }

    /// The lines at which the last `count` sites may show.
    pub(super) fn show(&mut self, count: usize, lines: &[u32]) {
        let from = self.sites.len() - count;
        self.sites[from..]
            .iter_mut()
            .for_each(|site| site.lines.extend(lines));
    }

    fn inside(&mut self, k: &mut KernelBuilder, body: impl FnOnce(&mut Stage)) {
        std::mem::swap(&mut self.k, k);
        body(self);
        std::mem::swap(&mut self.k, k);
    }

    /// Some threads go one way, the others another.
    pub(super) fn branch(
        &mut self,
        takes: Reg,
        then: impl FnOnce(&mut Stage),
        other: impl FnOnce(&mut Stage),
    ) {
        let mut k = std::mem::replace(&mut self.k, kernel("elsewhere"));
        let stage = RefCell::new(&mut *self);
        k.if_else(
            takes,
            |k| stage.borrow_mut().inside(k, then),
            |k| stage.borrow_mut().inside(k, other),
        );
        self.k = k;
    }

    /// Until all have left.
    pub(super) fn repeat(&mut self, body: impl FnOnce(&mut Stage)) {
        let mut k = std::mem::replace(&mut self.k, kernel("elsewhere"));
        k.loop_(|k| self.inside(k, body));
        self.k = k;
    }

    /// The first thread of the block alone.
    pub(super) fn alone(&mut self, body: impl FnOnce(&mut Stage)) {
        self.branch(self.first, body, |_| {});
    }

    /// An address that may be moved, far outside or by two bytes.
    pub(super) fn moved(&mut self, address: Reg, far: i64) -> Address {
        let stays = self.keeps(Site::new("an address", &[FaultKind::OutOfBounds]));
        let even = self.keeps(Site::new("an even address", &[FaultKind::Misaligned]));
        let by = if stays { 0 } else { far } + if even { 0 } else { 2 };
        Address::from(address).at(by)
    }

    /// The address of a thread's word in shared memory.
    pub(super) fn slot(&mut self, thread: Reg, bytes: i64) -> Reg {
        self.k.mad(Type::U32, thread, bytes, self.base)
    }

    /// The address of a thread's word in global memory.
    pub(super) fn far(&mut self, base: Reg, number: Reg) -> Reg {
        let offset = self.k.mul_wide(Type::U32, number, 4);
        self.k.add(Type::S64, base, offset)
    }

    /// Sets a value that the threads hold.
    pub(super) fn hold(&mut self, i: usize, x: Reg) {
        self.k.mov_to(self.held[i], x);
    }

    /// The end of every scene: no thread continues before all have arrived.
    pub(super) fn curtain(&mut self) {
        self.k.fence(FenceKind::ProxyAsync);
        if self.world.clustered {
            self.k.cluster_sync()
        } else {
            self.k.sync()
        }
    }

    pub(super) fn finish(mut self) -> Staged {
        let to = element(&mut self.k, self.output, self.number, 4 * HELD as i64);
        for (i, held) in self.held.into_iter().enumerate() {
            self.k
                .store(global(Type::U32), Address::from(to).at(4 * i as i64), held);
        }
        Staged {
            kernel: self.k.finish(),
            sites: self.sites,
        }
    }
}
