//! Every matrix and copy instruction of the tables, in a kernel of its own.

use colex_atom::{
    Arch, Argument, CopyAtom, GmmaOptions, MmaAtom, OperandKind, PtxVersion, Registers, copy_atoms,
    mma_atoms,
};
use colex_ir::ptx::Needs;
use colex_ir::{
    Access, Address, Atom, Compare, CopyArgs, End, Kernel, KernelBuilder, Operand, Reg, RegType,
    ScaleD, Space, Type,
};

use super::FormCase;

/// Returns every executable matrix instruction: each `wgmma` with default options, and those with N = 64 with every
/// option that they have.
///
/// ```
/// assert_eq!(colex_proof::corpus::products().len(), 2208 + 320);
/// ```
pub fn products() -> Vec<FormCase> {
    let executable = || mma_atoms().filter(MmaAtom::is_executable);
    let optioned = executable()
        .filter(|atom| atom.mnk()[1] == 64)
        .flat_map(|atom| {
            let others = GmmaOptions::all().filter(|options| *options != GmmaOptions::default());
            others.filter_map(move |options| atom.clone().with_options(options).ok())
        });
    let atoms = executable().chain(optioned).enumerate();
    atoms.filter_map(|(i, atom)| product(i, &atom)).collect()
}

/// Returns every executable copy, with and without a cache policy, universal ones between all ends.
///
/// ```
/// let copies = colex_proof::corpus::copies();
/// let hinted = copies.iter().filter(|case| case.word.ends_with("with a cache policy")).count();
/// assert!(hinted > 100 && copies.len() > 2 * hinted);
/// ```
pub fn copies() -> Vec<FormCase> {
    let atoms = copy_atoms().flat_map(|atom| atom.all_ends()).enumerate();
    let hints = |(i, atom)| [false, true].map(|hinted| copy(i, &atom, hinted));
    atoms.flat_map(hints).flatten().collect()
}

/// The case of an instruction that came with an architecture and a version of PTX.
fn case(word: String, (arch, version): (Arch, PtxVersion), kernel: Kernel) -> FormCase {
    FormCase {
        word,
        needs: Needs { arch, version },
        right: kernel.verify().is_ok(),
        kernel,
    }
}

/// A kernel for the first architecture with the instruction that the printer knows.
fn builder(name: &str, since: Arch, threads: usize) -> KernelBuilder {
    let mut k = KernelBuilder::new(name, since.max(Needs::BASE.arch));
    k.block([threads.max(32) as u32, 1, 1]);
    k
}

/// Every operand is loaded from memory, and D is stored there, so that the assembler leaves nothing out.
fn product(i: usize, atom: &MmaAtom) -> Option<FormCase> {
    let op = atom.op().ok()?;
    let mut k = builder(&format!("mma_{i}"), op.since, atom.threads());
    let data = k.pointer("data");
    let mut memory = Memory {
        base: k.param(data),
        bytes: 0,
    };
    let [a, b, c] = [op.a, op.b, op.c].map(|held| memory.load(&mut k, held));
    let e = op.e.map_or(Vec::new(), |e| memory.load(&mut k, e));
    let d = if op.is_async() {
        let scale_d = k.setp(Compare::Ne, Type::U64, memory.base, 0);
        k.wgmma_fence();
        k.push(Atom::Mma {
            atom: Box::new(atom.clone()),
            d: c.clone(),
            a,
            b,
            c: Vec::new(),
            e,
            scale_d: ScaleD::Pred(scale_d),
        });
        k.wgmma_commit();
        k.wgmma_wait(0);
        c
    } else {
        let d = k.regs(op.d.class, op.d.count);
        k.mma_atom(atom, &d, &a, &b, &c);
        d
    };
    memory.store(&mut k, op.d.class, &d);
    Some(case(atom.name(), (op.since, op.version), k.finish()))
}

/// Global memory from a register on, taken from its beginning.
struct Memory {
    base: Reg,
    bytes: i64,
}

impl Memory {
    fn next(&mut self, class: RegType) -> Address {
        let at = Address::from(self.base).at(self.bytes);
        self.bytes += i64::from(class.bits() / 8).max(4);
        at
    }

    fn load(&mut self, k: &mut KernelBuilder, held: Registers) -> Vec<Reg> {
        let access = Access::new(Space::Global, Type::untyped(held.class));
        (0..held.count)
            .map(|_| k.load(access, self.next(held.class)))
            .collect()
    }

    fn store(&mut self, k: &mut KernelBuilder, class: RegType, held: &[Reg]) {
        let access = Access::new(Space::Global, Type::untyped(class));
        for reg in held {
            k.store(access, self.next(class), *reg);
        }
    }
}

/// The copy alone, on registers of constants and on addresses: it is there to be assembled, not to be run.
fn copy(i: usize, atom: &CopyAtom, hinted: bool) -> Option<FormCase> {
    let op = atom.op().ok()?;
    if hinted && op.ptx_hinted.is_none() {
        return None;
    }
    let (name, policy) = if hinted {
        (format!("copy_{i}_hinted"), " with a cache policy")
    } else {
        (format!("copy_{i}"), "")
    };
    let mut k = builder(&name, op.since, atom.threads());
    let mut args = CopyArgs::default();
    for operand in &op.operands {
        give(&mut k, &mut args, operand.argument, operand.kind);
    }
    if hinted {
        args.policy = Some(k.mov(Type::U64, 0));
    }
    k.copy_atom(atom, args);
    let word = format!(
        "{} from {} to {}{policy}",
        atom.name(),
        atom.from(),
        atom.to()
    );
    Some(case(word, (op.since, op.version), k.finish()))
}

/// Something to take for an operand.
fn give(k: &mut KernelBuilder, args: &mut CopyArgs, argument: Argument, kind: OperandKind) {
    let end = match kind {
        OperandKind::Registers(held) if argument == Argument::Dst => {
            End::Regs(k.regs(held.class, held.count))
        }
        OperandKind::Registers(held) => {
            let ty = Type::untyped(held.class);
            End::Regs((0..held.count).map(|_| k.mov(ty, 0)).collect())
        }
        OperandKind::Address { space, align } => End::Memory(address(k, argument, space, align)),
        OperandKind::Tensor { coordinates } => {
            let map = k.tensor_map("map");
            args.tensor = Some((map.into(), vec![Operand::Int(0); coordinates]));
            return;
        }
        OperandKind::Constant(_) => return,
    };
    match (argument, end) {
        (Argument::Dst, end) => args.dst = end,
        (Argument::Src, end) => args.src = end,
        (Argument::Barrier, End::Memory(barrier)) => args.barrier = Some(barrier),
        (Argument::Offsets, End::Regs(offsets)) => args.offsets = offsets,
        (Argument::Mask, End::Regs(mask)) => args.mask = mask.first().copied(),
        (Argument::Size, End::Regs(size)) => args.size = size.first().map(|reg| (*reg).into()),
        (Argument::SourceBytes, End::Regs(bytes)) => {
            args.source_bytes = bytes.first().map(|reg| (*reg).into());
        }
        (argument, end) => unreachable!("{argument:?} is no {end:?}"),
    }
}

/// An address in a memory: of shared memory a register, as of an address that is computed.
fn address(
    k: &mut KernelBuilder,
    argument: Argument,
    space: colex_atom::Space,
    align: u32,
) -> Address {
    let name = format!("{argument:?}").to_lowercase();
    if space == colex_atom::Space::Global {
        let pointer = k.pointer(&name);
        return k.param(pointer).into();
    }
    let shared = k.shared(&name, 1024, align.max(16));
    k.address_of(shared).into()
}
