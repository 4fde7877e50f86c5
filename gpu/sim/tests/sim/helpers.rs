//! Small kernels and the memory they run on.

use colex_atom::Arch;
use colex_ir::launch::{Argument, Launch};
use colex_ir::{Access, Kernel, KernelBuilder, ParamId, Reg, Space, Special, Type};
use colex_sim::{Fault, FaultKind, Memory, Report, SimOptions, simulate};

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
        let result = simulate(kernel, &launch, &self.arguments, &mut self.memory, options);
        if let Err(fault) = &result {
            names_its_places(kernel, fault);
        }
        result
    }
}

/// A sentence that tells an address says what lies there, and one about shared memory, or a barrier there, has a name of the
/// kernel, if it has one.
fn names_its_places(kernel: &Kernel, fault: &Fault) {
    let what = fault.what();
    let addresses = ["the address 0x", "the shared address 0x"];
    let unnamed = addresses
        .iter()
        .flat_map(|word| what.split(word).skip(1))
        .filter(|rest| {
            let rest = rest.trim_start_matches(|c: char| c.is_ascii_hexdigit());
            ![
                ", byte ",
                ", element ",
                ", barrier ",
                ", in no allocation,",
                ", below shared memory,",
                " is byte ",
                " is element ",
            ]
            .iter()
            .any(|name| rest.starts_with(name))
        })
        .count();
    assert_eq!(unnamed, 0, "{what}");
    let variables = kernel
        .shared
        .iter()
        .map(|variable| format!("`{}`", variable.name));
    let regions = kernel.shared_regions.iter().map(|region| region.title());
    let names: Vec<String> = variables.chain(regions).collect();
    let has_a_name = |text: &str| names.iter().any(|name| text.contains(name));
    if names.is_empty() {
        return;
    }
    // Bytes that belong to nothing are told by what lies below them.
    let bare = [
        " of shared memory",
        " of dynamic shared memory",
        "the block's shared memory",
    ];
    for rest in bare.iter().flat_map(|words| what.split(words).skip(1)) {
        assert!(has_a_name(rest), "{what}");
    }
    // What has an address in shared memory: all but registers, threads, and numbers that no address belongs to.
    let instruction = fault.place().map_or("", |place| &place.instruction);
    let is_shared = [".shared", "mbarrier", "SM90_BULK"];
    use FaultKind::{
        Barrier, EarlyExit, Misaligned, MissingFence, OutOfBounds, Race, Uninitialised,
    };
    let has_an_address = match fault.kind() {
        OutOfBounds | Misaligned | Uninitialised | Race | MissingFence | Barrier => {
            is_shared.iter().any(|words| instruction.contains(words))
        }
        EarlyExit => true,
        _ => false,
    };
    let is_another = ["register %", "the mask of blocks", "the cluster's barrier"];
    let params = kernel
        .params
        .iter()
        .map(|param| format!("`{}`", param.name));
    let is_told = has_a_name(what) || params.into_iter().any(|name| what.contains(&name));
    if has_an_address && !is_another.iter().any(|words| what.contains(words)) {
        assert!(is_told, "{fault}");
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
