//! Copy atoms as kernels of one instruction, against what their rows say.

use colex_atom::{CopyAtom, CopyForm, OperandKind, Space as At, copy_atoms};
use colex_ir::launch::Launch;
use colex_ir::{
    Access, Address, CopyArgs, End, KernelBuilder, Reg, RegType, SharedId, Space, Special, Type,
};
use colex_sim::SimOptions;

use super::helpers::*;

/// The registers of an end of an atom, and their width in bytes; nothing if it is in memory.
fn registers(atom: &CopyAtom, dst: bool) -> Option<(usize, RegType)> {
    let which = if dst {
        colex_atom::Argument::Dst
    } else {
        colex_atom::Argument::Src
    };
    let operands = &atom.op().unwrap().operands;
    let operand = operands.iter().find(|o| o.argument == which)?;
    match operand.kind {
        OperandKind::Registers(held) if held.class.bits() == 16 => Some((held.count, RegType::B16)),
        OperandKind::Registers(held) => Some((held.count, RegType::B32)),
        _ => None,
    }
}

/// Registers from consecutive words (or halves) of the thread in global memory.
fn load(k: &mut KernelBuilder, from: Reg, count: usize, ty: RegType, each: i64) -> Vec<Reg> {
    let (access, bytes) = match ty {
        _ if each == 1 => (global(Type::B8), 1),
        RegType::B16 => (global(Type::B16), 2),
        _ => (global(Type::B32), 4),
    };
    (0..count as i64)
        .map(|i| k.load(access, Address::from(from).at(i * bytes)))
        .collect()
}

fn store(k: &mut KernelBuilder, to: Reg, regs: &[Reg], each: i64) {
    for (i, reg) in regs.iter().enumerate() {
        let (access, bytes) = match reg.ty {
            _ if each == 1 => (global(Type::B8), 1),
            RegType::B16 => (global(Type::B16), 2),
            _ => (global(Type::B32), 4),
        };
        k.store(access, Address::from(to).at(i as i64 * bytes), *reg);
    }
}

/// A thread's part of a tile in shared memory.
fn slot(k: &mut KernelBuilder, tile: SharedId, thread: Reg, bytes: i64) -> Reg {
    let base = k.address_of(tile);
    k.mad(Type::U32, thread, bytes, base)
}

/// The bytes that move between a thread's part of shared memory and its part of a buffer, word by word.
fn fill(k: &mut KernelBuilder, from: Reg, to: Reg, bytes: i64, out: bool) {
    let ty = if bytes % 4 == 0 { Type::B32 } else { Type::B8 };
    let each = i64::from(ty.bits() / 8);
    for i in 0..bytes / each {
        let (a, b) = (
            Address::from(from).at(i * each),
            Address::from(to).at(i * each),
        );
        let (source, target) = if out {
            (Space::Shared, Space::Global)
        } else {
            (Space::Global, Space::Shared)
        };
        let x = k.load(Access::new(source, ty), a);
        k.store(Access::new(target, ty), b, x);
    }
}

/// One instruction in each thread (or in a warp): what 32 threads hold after it, `taken` bytes each.
fn run(atom: &CopyAtom, input: &[u8], given: i64, taken: i64) -> Vec<u8> {
    let mut k = kernel("copy");
    let [input_, output] = ["input", "output"].map(|name| k.pointer(name));
    let source = k.shared("source", 32 * given as u32, 128);
    let target = k.shared("target", 32 * taken as u32, 128);
    let thread = k.mov(Type::U32, Special::Tid(0));
    let from = element(&mut k, input_, thread, given);
    let to = element(&mut k, output, thread, taken);
    let (here, there) = (
        slot(&mut k, source, thread, given),
        slot(&mut k, target, thread, taken),
    );
    let src = match (registers(atom, false), atom.from()) {
        (Some((count, ty)), _) => End::Regs(load(&mut k, from, count, ty, given)),
        (None, At::Global) => End::Memory(from.into()),
        _ => {
            fill(&mut k, from, here, given, false);
            k.sync();
            End::Memory(here.into())
        }
    };
    let dst = match (registers(atom, true), atom.to()) {
        (Some((count, ty)), _) => End::Regs(k.regs(ty, count)),
        (None, At::Global) => End::Memory(to.into()),
        _ => End::Memory(there.into()),
    };
    let args = CopyArgs {
        dst,
        src,
        ..CopyArgs::default()
    };
    if atom.to() == At::Shared && registers(atom, true).is_none() {
        // What the instruction leaves alone stays zero.
        for i in 0..taken {
            k.store(shared(Type::B8), Address::from(there).at(i), 0);
        }
        k.sync();
    }
    k.copy_atom(atom, args.clone());
    match &args.dst {
        End::Regs(regs) => store(&mut k, to, regs, taken),
        End::Memory(_) if atom.to() == At::Global => {}
        _ => {
            k.cp_async_commit();
            k.cp_async_wait(0);
            k.sync();
            fill(&mut k, there, to, taken, true);
        }
    }
    let kernel = k.finish();
    let mut host = Host::default();
    host.bytes(input);
    let out = host.empty(32 * taken as u64);
    let name = atom.name();
    let result = host.run_with(&kernel, Launch::new(1, 32), &SimOptions::default().seed(3));
    result.unwrap_or_else(|fault| panic!("{name}: {fault}"));
    host.memory.read(out, 32 * taken as u64).unwrap()
}

fn random_bytes(count: usize) -> Vec<u8> {
    let mut dice = Dice(count as u64);
    (0..count).map(|_| dice.next() as u8).collect()
}

#[test]
fn exchanges_of_a_warp_go_where_the_row_says() {
    let mut cases = 0;
    for atom in copy_atoms().filter(|atom| atom.is_executable() && atom.threads() == 32) {
        let bits = if matches!(atom.row().form, CopyForm::Shuffle(_)) {
            32
        } else {
            16
        };
        let bytes = bits as usize / 8;
        let given = match registers(&atom, false) {
            Some((count, _)) => 4 * count,
            None => 16,
        };
        let taken = match registers(&atom, true) {
            Some((count, _)) => 4 * count,
            None => 16,
        };
        let input = random_bytes(32 * given);
        let values: Vec<Vec<&[u8]>> = input
            .chunks(given)
            .map(|thread| thread.chunks(bytes).collect())
            .collect();
        let mut expected = Vec::new();
        for values in atom.execute(bits, &values).unwrap() {
            let values = values.map_or_else(|| vec![0; taken], |values| values.concat());
            expected.extend(values);
        }
        let found = run(&atom, &input, given as i64, taken as i64);
        assert_eq!(found, expected, "{}", atom.name());
        cases += 1;
    }
    println!("law sim.warp_copies: {cases} cases");
    assert!(cases >= 15);
}

#[test]
fn copies_of_a_thread_move_its_bytes() {
    let mut cases = 0;
    let spaces = [At::Register, At::Shared, At::Global];
    for atom in copy_atoms().filter(|atom| atom.is_executable() && atom.threads() == 1) {
        let name = atom.op().unwrap().ptx.clone();
        if name.contains(".bulk") {
            continue;
        }
        let ends: Vec<CopyAtom> = match atom.row().form {
            CopyForm::Universal => spaces
                .into_iter()
                .flat_map(|from| spaces.map(|to| (from, to)))
                .filter_map(|(from, to)| atom.between(from, to).ok())
                .collect(),
            _ => vec![atom.clone()],
        };
        for atom in ends {
            let bytes = atom.bits_per_thread();
            let input = random_bytes(4 * bytes);
            assert_eq!(
                run(&atom, &input, bytes as i64 / 8, bytes as i64 / 8),
                input,
                "{} from {} to {}",
                atom.name(),
                atom.from(),
                atom.to()
            );
            cases += 1;
        }
    }
    println!("law sim.thread_copies: {cases} cases");
    assert!(cases >= 20);
}

#[test]
fn a_zero_filling_copy_reads_no_more_than_it_is_told() {
    for source_bytes in [0u32, 3, 8, 16] {
        let atom = colex_atom::copy("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>").unwrap();
        let mut k = kernel("zfill");
        let [input, output] = ["input", "output"].map(|name| k.pointer(name));
        let tile = k.shared("tile", 32 * 16, 16);
        let thread = k.mov(Type::U32, Special::Tid(0));
        let from = element(&mut k, input, thread, 16);
        let to = element(&mut k, output, thread, 16);
        let here = slot(&mut k, tile, thread, 16);
        k.copy_atom(
            &atom,
            CopyArgs {
                dst: End::Memory(here.into()),
                src: End::Memory(from.into()),
                source_bytes: Some(source_bytes.into()),
                ..CopyArgs::default()
            },
        );
        k.cp_async_commit();
        k.cp_async_wait(0);
        fill(&mut k, here, to, 16, true);
        let kernel = k.finish();
        let input = random_bytes(32 * 16);
        let mut host = Host::default();
        host.bytes(&input);
        let out = host.empty(32 * 16);
        host.run(&kernel, Launch::new(1, 32)).unwrap();
        let expected: Vec<u8> = input
            .chunks(16)
            .flat_map(|bytes| atom.zero_filled(bytes, source_bytes as usize).unwrap())
            .collect();
        assert_eq!(host.memory.read(out, 32 * 16).unwrap(), expected);
    }
}
