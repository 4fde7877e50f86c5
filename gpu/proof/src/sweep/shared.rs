//! Blocks of shared memory, filled and emptied by all threads, 16 bytes each and step.

use super::frame::Frame;
use colex_ir::{Access, Address, FenceKind, KernelBuilder, Reg, Space, Type};

/// A part of shared memory that a kernel of the sweep works on: a number of bytes, a multiple of 16, from a register's address.
#[derive(Clone, Copy)]
pub(super) struct Area {
    pub(super) at: Reg,
    pub(super) bytes: u32,
}

impl Area {
    /// Declares it, aligned for every swizzle.
    pub(super) fn declare(k: &mut KernelBuilder, name: &str, bytes: u32) -> Area {
        let id = k.shared(name, bytes, 1024);
        Area {
            at: k.address_of(id),
            bytes,
        }
    }

    fn each(
        self,
        k: &mut KernelBuilder,
        frame: &Frame,
        step: impl FnOnce(&mut KernelBuilder, Reg, Reg),
    ) {
        let first = k.shl(Type::B32, frame.tid, 4);
        k.for_range(first, self.bytes, frame.threads * 16, |k, at| {
            let here = k.add(Type::U32, self.at, at);
            step(k, here, at);
        });
    }

    /// Copies the block's input from byte `from` on into it.
    pub(super) fn fill(self, k: &mut KernelBuilder, frame: &Frame, from: u32) {
        self.each(k, frame, |k, here, at| {
            let source = global(k, frame.input, at).at(i64::from(from));
            let words = k.load_vector(Access::new(Space::Global, Type::B32), 4, source);
            k.store_vector(Access::new(Space::Shared, Type::B32), here, &words);
        });
    }

    /// Sets all its bits.
    pub(super) fn poison(self, k: &mut KernelBuilder, frame: &Frame) {
        let ones = k.mov(Type::B32, 0xffff_ffffu32);
        self.each(k, frame, |k, here, _| {
            k.store_vector(Access::new(Space::Shared, Type::B32), here, &[ones; 4]);
        });
    }

    /// Copies it to the block's output.
    pub(super) fn empty(self, k: &mut KernelBuilder, frame: &Frame) {
        self.each(k, frame, |k, here, at| {
            let words = k.load_vector(Access::new(Space::Shared, Type::B32), 4, here);
            let target = global(k, frame.output, at);
            k.store_vector(Access::new(Space::Global, Type::B32), target, &words);
        });
    }
}

fn global(k: &mut KernelBuilder, base: Reg, at: Reg) -> Address {
    let wide = k.cvt(Type::U64, Type::U32, at);
    k.add(Type::S64, base, wide).into()
}

/// What was written by plain stores may now be read by TMA and the tensor cores, of any thread.
pub(super) fn show(k: &mut KernelBuilder) {
    k.fence(FenceKind::ProxyAsyncShared);
    k.sync();
}
