//! Flags that say which chunks have arrived, in a kernel.

use colex_atom::Ty;
use colex_ir::{Access, Compare, FenceKind, Order, Reg, Scope, Space, Type};
use colex_tensor::{Builder, Index, Tensor, Var};

use crate::gemm::groups::tiles;
use crate::gemm::problem::MOST_EXTENT;

/// The flags of a kernel's chunks, and the chunk that comes first.
#[derive(Clone, Debug)]
pub(crate) struct ChunkFlags {
    flags: Tensor,
    first: Index,
}

/// The flags as a thread waits for them.
pub(crate) struct Waits<'a> {
    of: &'a ChunkFlags,
    /// The number of the round.
    round: Reg,
    /// The chunk for which the thread has waited last.
    seen: Var,
    /// Whether the thread loads by TMA.
    by_tma: bool,
}

fn word() -> Access {
    Access::new(Space::Global, Type::U32)
}

impl ChunkFlags {
    /// Declares the flags, one for each chunk.
    pub(crate) fn declare(k: &mut Builder, first: &Index) -> ChunkFlags {
        ChunkFlags {
            flags: k.tensor("arrived", Ty::U32, tiles::form(16)),
            first: first.clone(),
        }
    }

    /// Declares that there are as many flags as chunks, which the launch checks.
    pub(crate) fn agree(&self, k: &mut Builder, chunks: &Index) {
        let apart = self.flags.extent(0) - chunks;
        k.within(apart, 0..1);
    }

    /// Begins to wait in a thread that loads.
    pub(crate) fn begin(&self, k: &mut Builder, by_tma: bool) -> Waits<'_> {
        // The flag of the first chunk was written on the stream of the launch: the kernel begins after it.
        let flag = self.flag(k, &self.first);
        let round = k.emit(|ir| ir.load(word(), flag));
        Waits {
            of: self,
            round,
            seen: k.var(self.first.clone(), 0..MOST_EXTENT),
            by_tma,
        }
    }

    /// The address of a chunk's flag.
    fn flag(&self, k: &mut Builder, chunk: &Index) -> Reg {
        k.addresses(&self.flags.elements(chunk)).regs()[0]
    }
}

impl Waits<'_> {
    /// Waits until a chunk has arrived, if it is another one than before.
    pub(crate) fn wait(&self, k: &mut Builder, chunk: &Index) {
        let seen = k.get(&self.seen);
        let is_seen = k.equal(chunk, &seen);
        k.if_(Builder::not(is_seen), |k| {
            let flag = self.of.flag(k, chunk);
            let round = self.round;
            // A copy engine or another device writes the chunk and then the flag, so the scope is that of the system.
            k.emit(|ir| {
                ir.loop_(|ir| {
                    let now = ir.load(word().order(Order::Acquire(Scope::Sys)), flag);
                    let is_there = ir.setp(Compare::Ge, Type::U32, now, round);
                    ir.break_if(is_there);
                });
            });
            if self.by_tma {
                // The acquire orders what this thread reads itself; TMA reads by another proxy.
                k.fence(FenceKind::ProxyAsyncGlobal);
            }
            k.set(&self.seen, chunk.clone());
        });
    }
}
