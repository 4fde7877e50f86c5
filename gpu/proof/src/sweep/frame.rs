//! The common part of the sweep's kernels: parameters, and moves between registers and memory.

use colex_atom::Registers;

use colex_ir::{Access, KernelBuilder, Reg, RegType, Space, Special, Type};

/// The registers that every kernel begins with.
pub(super) struct Frame {
    /// The number of threads of the block.
    pub(super) threads: u32,
    /// The thread.
    pub(super) tid: Reg,
    /// The address of the block's input.
    pub(super) input: Reg,
    /// The address of the block's output.
    pub(super) output: Reg,
}

impl Frame {
    /// Declares the two parameters and finds the block's part of each: `bytes` bytes per block.
    pub(super) fn open(
        k: &mut KernelBuilder,
        threads: u32,
        input_bytes: u32,
        output_bytes: u32,
    ) -> Frame {
        k.block([threads, 1, 1]);
        let [input, output] = ["input", "output"].map(|name| k.pointer(name));
        let tid = k.mov(Type::U32, Special::Tid(0));
        let block = k.mov(Type::U32, Special::Ctaid(0));
        let [input, output] =
            [(input, input_bytes), (output, output_bytes)].map(|(param, bytes)| {
                let base = k.param(param);
                let offset = k.mul_wide(Type::U32, block, bytes);
                k.add(Type::S64, base, offset)
            });
        Frame {
            threads,
            tid,
            input,
            output,
        }
    }

    /// The address of the thread's part of an array of `bytes` a thread.
    pub(super) fn of_thread(&self, k: &mut KernelBuilder, base: Reg, bytes: u32) -> Reg {
        let offset = k.mul_wide(Type::U32, self.tid, bytes);
        k.add(Type::S64, base, offset)
    }
}

/// Bytes that the registers of one thread take in memory: a 16-bit register takes a word.
pub(super) fn bytes(registers: Registers) -> u32 {
    let one = match registers.class {
        RegType::B16 => 4,
        class => class.bits() / 8,
    };
    one * registers.count as u32
}

/// How many registers one load or store moves: as many as 16 bytes hold and the count allows.
fn vector(registers: Registers) -> usize {
    let most = match registers.class {
        RegType::B16 => 1,
        class => 128 / class.bits() as usize,
    };
    [4, 2, 1]
        .into_iter()
        .find(|v| *v <= most && registers.count.is_multiple_of(*v))
        .expect("1 divides every count")
}

/// Loads the registers of one thread from global memory.
pub(super) fn load(k: &mut KernelBuilder, registers: Registers, from: Reg, at: u32) -> Vec<Reg> {
    let ty = Type::untyped(registers.class);
    let loaded = k.regs(registers.class, registers.count);
    let width = vector(registers);
    for (i, part) in loaded.chunks(width).enumerate() {
        let address = colex_ir::Address::from(from).at(offset(registers, i * width, at));
        k.load_to(Access::new(Space::Global, ty), part, address);
    }
    loaded
}

/// Stores the registers of one thread to global memory.
pub(super) fn store(k: &mut KernelBuilder, registers: Registers, held: &[Reg], to: Reg) {
    let ty = Type::untyped(registers.class);
    let width = vector(registers);
    for (i, part) in held.chunks(width).enumerate() {
        let address = colex_ir::Address::from(to).at(offset(registers, i * width, 0));
        k.store_vector(Access::new(Space::Global, ty), address, part);
    }
}

fn offset(registers: Registers, register: usize, at: u32) -> i64 {
    let one = bytes(registers) as usize / registers.count.max(1);
    (register * one) as i64 + i64::from(at)
}
