//! What the kernels of products over ranks share: their parameters, flags, and the product of an element.

use colex_atom::Arch;
use colex_ir::{
    Access, Address, AtomicOp, Compare, Guard, KernelBuilder, Memory, Operand, Order, Reg, Scope,
    Space, Special, Type,
};

use super::plan::{RankPlan, Sizes};

pub(super) fn elements() -> Access {
    Access::new(Space::Global, Type::F32)
}

fn flags() -> Access {
    Access::new(Space::Global, Type::U32)
}

/// A kernel under construction, and its parameters.
pub(super) struct Parts<'s> {
    pub(super) k: KernelBuilder,
    pub(super) sizes: &'s Sizes,
    pub(super) rank: Reg,
    pub(super) round: Reg,
    pub(super) a: Reg,
    pub(super) b: Reg,
    pub(super) c: Reg,
    /// Of this rank, of the next one, and so on: the memory that others write, and the flags.
    pub(super) shared: Vec<Reg>,
    pub(super) arrived: Vec<Reg>,
    pub(super) ready: Vec<Reg>,
    /// Of an all-reduce, the same of C and of the flags of its sums.
    pub(super) sums: Vec<Reg>,
    pub(super) landed: Vec<Reg>,
    pub(super) thread: Reg,
    pub(super) block: Reg,
}

impl<'s> Parts<'s> {
    pub(super) fn new(name: &str, sizes: &'s Sizes, arch: Arch) -> Self {
        let mut k = KernelBuilder::new(name, arch);
        let [rank, round] = ["rank", "round"].map(|name| k.scalar(name, Type::U32));
        let operands = ["a", "b", "c"].map(|name| k.pointer(name));
        let mut all = |name: &str| -> Vec<_> {
            let names = (0..sizes.ranks).map(|step| match step {
                0 => name.to_string(),
                _ => format!("{name}_{step}"),
            });
            names.map(|name| k.pointer(&name)).collect()
        };
        let lists = ["shared", "arrived", "ready"].map(&mut all);
        let of_sums = if sizes.reduces {
            ["sums", "landed"].map(&mut all)
        } else {
            [const { Vec::new() }; 2]
        };
        let [rank, round] = [rank, round].map(|id| k.param(id));
        let [a, b, c] = operands.map(|id| k.param(id));
        let [shared, arrived, ready] =
            lists.map(|list| list.into_iter().map(|id| k.param(id)).collect());
        let [sums, landed] = of_sums.map(|list| list.into_iter().map(|id| k.param(id)).collect());
        let thread = k.mov(Type::U32, Special::Tid(0));
        let block = k.mov(Type::U32, Special::Ctaid(0));
        Parts {
            k,
            sizes,
            rank,
            round,
            a,
            b,
            c,
            shared,
            arrived,
            ready,
            sums,
            landed,
            thread,
            block,
        }
    }

    /// The address of a word of a buffer.
    pub(super) fn word(&mut self, buffer: Reg, index: Reg) -> Reg {
        let offset = self.k.mul_wide(Type::U32, index, 4);
        self.k.add(Type::S64, buffer, offset)
    }

    /// The rank a number of steps after this one.
    pub(super) fn after(&mut self, steps: Reg) -> Reg {
        let sum = self.k.add(Type::U32, self.rank, steps);
        self.k.rem(Type::U32, sum, self.sizes.ranks)
    }

    /// The pointer of a list whose number a register has.
    pub(super) fn pick(k: &mut KernelBuilder, list: &[Reg], number: Reg) -> Reg {
        let mut picked = list[0];
        for (i, pointer) in list.iter().enumerate().skip(1) {
            let it = k.setp(Compare::Eq, Type::U32, number, i as i64);
            picked = k.selp(Type::B64, *pointer, picked, it);
        }
        picked
    }

    /// Two sides of a branch that all threads of a block take together.
    pub(super) fn branch(
        &mut self,
        guard: Reg,
        then: impl FnOnce(&mut Self),
        other: impl FnOnce(&mut Self),
    ) {
        let not = Guard {
            pred: guard,
            when: false,
        };
        self.inside(guard.into(), then);
        self.inside(not, other);
    }

    fn inside(&mut self, guard: Guard, body: impl FnOnce(&mut Self)) {
        let empty = || KernelBuilder::new("", Arch::Sm70);
        let mut outer = std::mem::replace(&mut self.k, empty());
        outer.if_(guard, |k| {
            self.k = std::mem::replace(k, empty());
            body(self);
            *k = std::mem::replace(&mut self.k, empty());
        });
        self.k = outer;
    }

    /// The first thread of the block, as a predicate.
    pub(super) fn is_first(&mut self) -> Reg {
        self.k.setp(Compare::Eq, Type::U32, self.thread, 0)
    }

    /// The index of a thread's element in a chunk of C, given the tile: its row, its column, and whether there is one.
    pub(super) fn element(&mut self, tile: Reg) -> (Reg, [Reg; 2], Reg) {
        let sizes = self.sizes;
        let threads = i64::from(RankPlan::THREADS);
        let index = self.k.mad(Type::U32, tile, threads, self.thread);
        let row = self.k.rem(Type::U32, index, sizes.rows);
        let column = self.k.div(Type::U32, index, sizes.rows);
        let all = sizes.rows * sizes.columns;
        let exists = self.k.setp(Compare::Lt, Type::U32, index, all);
        (index, [row, column], exists)
    }
}

/// Sets a flag, after all that the thread has seen.
pub(super) fn raise(k: &mut KernelBuilder, flag: impl Into<Address>, value: Reg) {
    k.store(flags().order(Order::Release(Scope::Sys)), flag, value);
}

/// Adds 1 to a counter, after all that the thread has seen.
pub(super) fn count(k: &mut KernelBuilder, counter: impl Into<Address>) {
    k.push(Memory::Reduce {
        op: AtomicOp::Add,
        space: Space::Global,
        ty: Type::U32,
        order: Order::Release(Scope::Sys),
        a: counter.into(),
        s: vec![Operand::Int(1)],
    });
}

/// Waits until a flag has at least a value.
pub(super) fn wait(k: &mut KernelBuilder, flag: impl Into<Address>, least: Reg) {
    let flag = flag.into();
    k.loop_(|k| {
        let seen = k.load(flags().order(Order::Acquire(Scope::Sys)), flag);
        let is_there = k.setp(Compare::Ge, Type::U32, seen, least);
        k.break_if(is_there);
    });
}

/// The sum of products of a row of A and one of B: along K in order, each added with one rounding. The arguments are the addresses
/// of the first elements, and how many elements the next ones are apart.
pub(super) fn dot(k: &mut KernelBuilder, [a, b]: [Reg; 2], apart: [i64; 2], count: i64) -> Reg {
    let sum = k.mov(Type::F32, 0.0);
    let [a, b] = [a, b].map(|at| k.mov(Type::U64, at));
    k.for_range(0, count, 1, |k, _| {
        let [x, y] = [a, b].map(|at| k.load(elements(), at));
        let more = k.mad(Type::F32, x, y, sum);
        k.mov_to(sum, more);
        for (at, apart) in [a, b].into_iter().zip(apart) {
            let next = k.add(Type::S64, at, 4 * apart);
            k.mov_to(at, next);
        }
    });
    sum
}
