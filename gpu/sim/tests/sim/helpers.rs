//! Small kernels and the memory they run on.

use colex_atom::Arch;
use colex_ir::launch::{Argument, Launch};
use colex_ir::{Access, Kernel, KernelBuilder, ParamId, Reg, Space, Special, Type};
use colex_sim::{Fault, Memory, Report, SimOptions, simulate};

/// A kernel under construction that has the usual things at hand.
pub(crate) fn kernel(name: &str) -> KernelBuilder {
    KernelBuilder::new(name, Arch::Sm90a)
}

/// The address of element `index` (a 32-bit register) of `bytes` bytes in a buffer.
#[track_caller]
pub(crate) fn element(k: &mut KernelBuilder, buffer: ParamId, index: Reg, bytes: i64) -> Reg {
    let base = k.param(buffer);
    let offset = k.mul_wide(Type::U32, index, bytes);
    k.add(Type::S64, base, offset)
}

/// The thread's number in the grid, along x.
pub(crate) fn global_thread(k: &mut KernelBuilder) -> Reg {
    let block = k.mov(Type::U32, Special::Ctaid(0));
    let threads = k.mov(Type::U32, Special::NTid(0));
    let thread = k.mov(Type::U32, Special::Tid(0));
    k.mad(Type::U32, block, threads, thread)
}

pub(crate) fn global(ty: Type) -> Access {
    Access::new(Space::Global, ty)
}

pub(crate) fn shared(ty: Type) -> Access {
    Access::new(Space::Shared, ty)
}

/// Memory, and what was put into it.
#[derive(Default)]
pub(crate) struct Host {
    pub(crate) memory: Memory,
    pub(crate) arguments: Vec<Argument>,
}

impl Host {
    /// A buffer of words.
    pub(crate) fn words(&mut self, words: &[u32]) -> u64 {
        let at = self.memory.allocate(words.len() as u64 * 4).unwrap();
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.memory.write(at, &bytes).unwrap();
        self.arguments.push(Argument::Pointer(at));
        at
    }

    /// A buffer of floats.
    pub(crate) fn floats(&mut self, floats: &[f32]) -> u64 {
        let words: Vec<u32> = floats.iter().map(|x| x.to_bits()).collect();
        self.words(&words)
    }

    /// A buffer of bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> u64 {
        let at = self.memory.allocate(bytes.len() as u64).unwrap();
        self.memory.write(at, bytes).unwrap();
        self.arguments.push(Argument::Pointer(at));
        at
    }

    /// A buffer that was never written.
    pub(crate) fn empty(&mut self, bytes: u64) -> u64 {
        let at = self.memory.allocate(bytes).unwrap();
        self.arguments.push(Argument::Pointer(at));
        at
    }

    pub(crate) fn read(&self, at: u64, count: usize) -> Vec<u32> {
        let bytes = self.memory.read(at, count as u64 * 4).unwrap();
        bytes
            .chunks(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect()
    }

    pub(crate) fn run(&mut self, kernel: &Kernel, launch: Launch) -> Result<Report, Fault> {
        self.run_with(kernel, launch, &SimOptions::default())
    }

    pub(crate) fn run_with(
        &mut self,
        kernel: &Kernel,
        launch: Launch,
        options: &SimOptions,
    ) -> Result<Report, Fault> {
        simulate(kernel, &launch, &self.arguments, &mut self.memory, options)
    }
}

/// Numbers that look random.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}
