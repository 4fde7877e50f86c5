//! Several devices: mistakes that are planted between ranks, each with its correct twin, and launches.

mod launches;
mod letters;
mod planted;
mod reductions;
mod scopes;

use colex_ir::launch::{Argument, Launch};
use colex_ir::{
    Address, AtomicOp, Compare, Kernel, KernelBuilder, Memory, Operand, Order, Reg, Scope, Space,
    Special, Type,
};
use colex_sim::{Fault, Ranks, Report, SimOptions};

use crate::helpers::*;

pub(crate) const RELEASE: Order = Order::Release(Scope::Sys);
pub(crate) const ACQUIRE: Order = Order::Acquire(Scope::Sys);
pub(crate) const RELAXED: Order = Order::Relaxed(Scope::Sys);

/// The words of a buffer of data, and of flags.
pub(crate) const WORDS: u64 = 64;

/// A kernel that every rank runs: its own data and flags, and those of the ranks one and two after it and one before it, in a
/// ring.
pub(crate) struct Stage {
    pub(crate) k: KernelBuilder,
    pub(crate) rank: Reg,
    pub(crate) thread: Reg,
    pub(crate) data: Reg,
    pub(crate) right: Reg,
    pub(crate) far: Reg,
    pub(crate) flags: Reg,
    pub(crate) right_flags: Reg,
    pub(crate) far_flags: Reg,
    pub(crate) left_flags: Reg,
}

impl Stage {
    pub(crate) fn kernel(build: impl FnOnce(&mut Stage)) -> Kernel {
        let mut k = kernel("ranks");
        let rank = k.scalar("rank", Type::U32);
        let names = [
            "data",
            "right",
            "far",
            "flags",
            "right_flags",
            "far_flags",
            "left_flags",
        ];
        let pointers = names.map(|name| k.pointer(name));
        let rank = k.param(rank);
        let [data, right, far, flags, right_flags, far_flags, left_flags] =
            pointers.map(|pointer| k.param(pointer));
        let thread = k.mov(Type::U32, Special::Tid(0));
        let mut stage = Stage {
            k,
            rank,
            thread,
            data,
            right,
            far,
            flags,
            right_flags,
            far_flags,
            left_flags,
        };
        build(&mut stage);
        stage.k.finish()
    }

    /// Only where a register has a value.
    fn where_(&mut self, reg: Reg, value: i64, body: impl FnOnce(&mut Stage)) {
        let it = self.k.setp(Compare::Eq, Type::U32, reg, value);
        let copy = |s: &Stage| (s.rank, s.thread, s.data, s.right, s.far);
        let (rank, thread, data, right, far) = copy(self);
        let [flags, right_flags, far_flags, left_flags] = [
            self.flags,
            self.right_flags,
            self.far_flags,
            self.left_flags,
        ];
        self.k.if_(it, |k| {
            let empty = KernelBuilder::new("inner", colex_atom::Arch::Sm90a);
            let mut inner = Stage {
                k: std::mem::replace(k, empty),
                rank,
                thread,
                data,
                right,
                far,
                flags,
                right_flags,
                far_flags,
                left_flags,
            };
            body(&mut inner);
            *k = inner.k;
        });
    }

    /// Only on one rank.
    pub(crate) fn on(&mut self, rank: i64, body: impl FnOnce(&mut Stage)) {
        self.where_(self.rank, rank, body);
    }

    /// Only the first thread of a block.
    pub(crate) fn alone(&mut self, body: impl FnOnce(&mut Stage)) {
        self.where_(self.thread, 0, body);
    }

    /// The address of a word.
    fn word(&self, buffer: Reg, at: i64) -> Address {
        Address::from(buffer).at(4 * at)
    }

    #[track_caller]
    pub(crate) fn write(&mut self, buffer: Reg, at: i64, value: i64) {
        let to = self.word(buffer, at);
        self.k.store(global(Type::U32), to, value);
    }

    #[track_caller]
    pub(crate) fn read(&mut self, buffer: Reg, at: i64) -> Reg {
        let from = self.word(buffer, at);
        self.k.load(global(Type::U32), from)
    }

    /// Sets a flag.
    #[track_caller]
    pub(crate) fn raise(&mut self, flags: Reg, at: i64, order: Order, value: i64) {
        let to = self.word(flags, at);
        self.k.store(global(Type::U32).order(order), to, value);
    }

    /// Waits until a flag of this rank has at least a value.
    #[track_caller]
    pub(crate) fn wait(&mut self, at: i64, order: Order, least: i64) {
        let from = self.word(self.flags, at);
        self.k.loop_(|k| {
            let seen = k.load(global(Type::U32).order(order), from);
            let there = k.setp(Compare::Ge, Type::U32, seen, least);
            k.break_if(there);
        });
    }

    /// Adds one to the first flag.
    #[track_caller]
    pub(crate) fn count(&mut self, flags: Reg, order: Order) {
        let a = self.word(flags, 0);
        self.k.push(Memory::Reduce {
            op: AtomicOp::Add,
            space: Space::Global,
            ty: Type::U32,
            order,
            a,
            s: vec![Operand::Int(1)],
        });
    }

    /// The address of the thread's word.
    pub(crate) fn own(&mut self, buffer: Reg) -> Reg {
        let offset = self.k.mul_wide(Type::U32, self.thread, 4);
        self.k.add(Type::S64, buffer, offset)
    }
}

/// A machine whose ranks hold data and flags.
pub(crate) struct Machine {
    pub(crate) ranks: Ranks,
    pub(crate) data: Vec<u64>,
    pub(crate) flags: Vec<u64>,
}

impl Machine {
    /// With flags of 0, and data of 0 if they are written.
    pub(crate) fn new(count: usize, written: bool) -> Machine {
        let mut ranks = Ranks::connected(count).unwrap();
        let mut buffers = |written: bool| -> Vec<u64> {
            (0..count)
                .map(|rank| {
                    let at = ranks.allocate(rank, 4 * WORDS).unwrap();
                    if written {
                        ranks.write(at, &[0; 4 * WORDS as usize]).unwrap();
                    }
                    at
                })
                .collect()
        };
        let (data, flags) = (buffers(written), buffers(true));
        Machine { ranks, data, flags }
    }

    /// Takes the access of a rank to another one's memory away.
    pub(crate) fn disconnect(&mut self, from: usize, to: usize) {
        let count = self.ranks.count();
        let mut ranks = Ranks::new(count).unwrap();
        let all = (0..count).flat_map(|a| (0..count).map(move |b| (a, b)));
        for (a, b) in all.filter(|pair| *pair != (from, to)) {
            ranks.enable_peer_access(a, b).unwrap();
        }
        // The same buffers in the same order have the same addresses.
        for rank in (0..count).chain(0..count) {
            let at = ranks.allocate(rank, 4 * WORDS).unwrap();
            ranks.write(at, &[0; 4 * WORDS as usize]).unwrap();
        }
        self.ranks = ranks;
    }

    pub(crate) fn arguments(&self, rank: usize) -> Vec<Argument> {
        let count = self.ranks.count();
        let of = |buffers: &[u64], step: usize| Argument::Pointer(buffers[(rank + step) % count]);
        vec![
            Argument::U32(rank as u32),
            of(&self.data, 0),
            of(&self.data, 1),
            of(&self.data, 2),
            of(&self.flags, 0),
            of(&self.flags, 1),
            of(&self.flags, 2),
            of(&self.flags, count - 1),
        ]
    }

    pub(crate) fn run(
        &mut self,
        kernel: &Kernel,
        launch: Launch,
        absent: Option<usize>,
        seed: u64,
    ) -> Result<Report, Fault> {
        let all = 0..self.ranks.count();
        let arguments: Vec<_> = all
            .map(|rank| (Some(rank) != absent).then(|| self.arguments(rank)))
            .collect();
        let options = SimOptions::default().seed(seed);
        self.ranks.simulate(kernel, &launch, &arguments, &options)
    }

    pub(crate) fn words(&self, at: u64) -> Vec<u32> {
        let bytes = self.ranks.read(at, 4 * WORDS).unwrap();
        let words = bytes.chunks(4);
        words
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect()
    }
}

/// The sentence, without the path and line of these files.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("gpu/sim/tests/sim/ranks/") {
        plain += before;
        plain += "here";
        let line = after.split_once(':').map_or(after, |(_, line)| line);
        rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    plain + rest
}
