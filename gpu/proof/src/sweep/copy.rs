//! Copies whose threads each give or get a few bytes: `ld`, `st`, `mov`, `cp.async`, matrices and shuffles.

use colex_atom::{Arch, Argument, CopyAtom, CopyForm, Error, OperandKind, Space};

use super::case::{Bytes, Case, POISON, Shot, entry};
use super::frame;
use super::frame::Frame;
use super::random::Random;
use super::shared::Area;
use colex_ir::launch::Launch;
use colex_ir::{Access, Address, CopyArgs, End, Kernel, KernelBuilder, Memory, Reg, Type};

/// A warp.
const LANES: usize = 32;
/// Bytes from one lane's place in memory to the next: the most that a lane moves.
const SLOT: usize = 16;
/// Bytes of all slots.
const SLOTS: usize = LANES * SLOT;
/// Of the input: the slots, then for each lane the offset of its source, of its destination, and how much it reads.
const SOURCES: usize = SLOTS;
const TARGETS: usize = SOURCES + 4 * LANES;
const READS: usize = TARGETS + 4 * LANES;
const INPUT: usize = READS + 4 * LANES;

/// What one block works on.
struct CopyRound {
    input: Vec<u8>,
    sources: Vec<usize>,
    targets: Vec<usize>,
    reads: Vec<usize>,
}

impl CopyRound {
    fn new(atom: &CopyAtom, random: &mut Random) -> CopyRound {
        let mut input = random.bytes(INPUT);
        let [sources, targets] = [0, 1].map(|_| random.permutation(LANES));
        let bytes = atom.bits_per_thread() as u64 / 8;
        let reads: Vec<usize> = (0..LANES)
            .map(|_| random.below(bytes + 1) as usize)
            .collect();
        for lane in 0..LANES {
            let mut put = |at: usize, word: usize| {
                input[at + 4 * lane..][..4].copy_from_slice(&(word as u32).to_le_bytes());
            };
            put(SOURCES, sources[lane] * SLOT);
            put(TARGETS, targets[lane] * SLOT);
            put(READS, reads[lane]);
        }
        CopyRound {
            input,
            sources,
            targets,
            reads,
        }
    }
}

/// Returns the case of such a copy: one launch, a block for each round, or a pair of blocks where the copy reaches into
/// the other block of a cluster. The lanes' addresses are shuffled; `hinted` gives the copy a cache policy.
///
/// # Errors
///
/// Returns an error if the row is not executable, or if the copy has another form.
pub fn copy_case(atom: &CopyAtom, hinted: bool, rounds: usize, seed: u64) -> Result<Case, Error> {
    let name = case_name(atom, hinted);
    let mut random = Random::of(seed, &name);
    let cluster = if in_cluster(atom) { 2 } else { 1 };
    let rounds: Vec<CopyRound> = (0..rounds * cluster)
        .map(|_| CopyRound::new(atom, &mut random))
        .collect();
    let launch = Launch::new(rounds.len() as u32, LANES as u32);
    let shot = Shot {
        launch: if cluster > 1 {
            launch.cluster(2)
        } else {
            launch
        },
        input: rounds
            .iter()
            .flat_map(|round| round.input.clone())
            .collect(),
        output: vec![POISON; SLOTS * rounds.len()],
        map: None,
    };
    Ok(Case {
        family: family(atom),
        kernel: kernel(atom, &name, hinted)?,
        shots: vec![shot],
        judge: Box::new(Bytes {
            expected: vec![expected(atom, &rounds)?],
            element: element(atom)? / 8,
        }),
        name,
    })
}

/// The atom's name, its ends where they are open, and its cache policy.
fn case_name(atom: &CopyAtom, hinted: bool) -> String {
    let ends = match atom.row().form {
        CopyForm::Universal => format!(" {:?} to {:?}", atom.from(), atom.to()),
        _ => String::new(),
    };
    format!(
        "{}{ends}{}",
        atom.name(),
        if hinted { " with a cache policy" } else { "" }
    )
}

fn family(atom: &CopyAtom) -> &'static str {
    match atom.row().form {
        CopyForm::Universal => "ld, st, mov",
        CopyForm::Shuffle(_) => "shuffles",
        _ if atom.op().is_ok_and(|op| op.is_async()) => "cp.async",
        _ => "ldmatrix, stmatrix, movmatrix",
    }
}

fn in_cluster(atom: &CopyAtom) -> bool {
    [atom.from(), atom.to()].contains(&Space::Cluster)
}

/// Bits of the values that the layouts are read in.
fn element(atom: &CopyAtom) -> Result<usize, Error> {
    let widths = [8, 16, 32];
    let fits = widths.into_iter().find(|bits| atom.routes(*bits).is_ok());
    fits.map_or_else(|| atom.routes(8).map(|_| 8), |bits| Ok(bits as usize))
}

/// The output of every block, by the layouts.
fn expected(atom: &CopyAtom, rounds: &[CopyRound]) -> Result<Vec<u8>, Error> {
    let mut output = vec![POISON; SLOTS * rounds.len()];
    let peer = |block: usize, space: Space| block ^ usize::from(space == Space::Cluster);
    let in_memory = |space: Space| space != Space::Register;
    for (block, round) in rounds.iter().enumerate() {
        let data = &rounds[peer(block, atom.from())].input;
        let given = |lane: usize| {
            let slot = if in_memory(atom.from()) {
                round.sources[lane]
            } else {
                lane
            };
            &data[slot * SLOT..][..SLOT]
        };
        let to = &mut output[peer(block, atom.to()) * SLOTS..][..SLOTS];
        for (lane, bytes) in moved(atom, &given, round)? {
            let slot = if in_memory(atom.to()) {
                round.targets[lane]
            } else {
                lane
            };
            to[slot * SLOT..][..bytes.len()].copy_from_slice(&bytes);
        }
    }
    Ok(output)
}

/// What each lane gets; none for a lane whose address is not looked at.
fn moved<'a>(
    atom: &CopyAtom,
    given: &dyn Fn(usize) -> &'a [u8],
    round: &CopyRound,
) -> Result<Vec<(usize, Vec<u8>)>, Error> {
    let bits = element(atom)?;
    let bytes = atom
        .val_layouts(bits as i64)?
        .src
        .mode(1)
        .map_or(1, |mode| mode.size()) as usize
        * bits
        / 8;
    let values = |lane: usize| -> Vec<Vec<u8>> {
        given(lane)[..bytes]
            .chunks(bits / 8)
            .map(<[u8]>::to_vec)
            .collect()
    };
    let mut all = Vec::new();
    for first in (0..LANES).step_by(atom.threads()) {
        let source: Vec<_> = (first..first + atom.threads()).map(values).collect();
        for (t, got) in atom.execute(bits as i64, &source)?.into_iter().enumerate() {
            let Some(got) = got else { continue };
            let mut got = got.concat();
            if fills(atom) {
                got = atom.zero_filled(&got, round.reads[first + t])?;
            }
            all.push((first + t, got));
        }
    }
    Ok(all)
}

/// Whether it fills with zeros what it does not read.
fn fills(atom: &CopyAtom) -> bool {
    matches!(atom.row().form, CopyForm::Instruction(list) if list.contains(&Argument::SourceBytes))
}

/// The kernel: memory prepared, the one instruction, what came of it to the output.
fn kernel(atom: &CopyAtom, name: &str, hinted: bool) -> Result<Kernel, Error> {
    let mut k = KernelBuilder::new(&entry(name), Arch::Sm90a);
    let frame = Frame::open(&mut k, LANES as u32, INPUT as u32, SLOTS as u32);
    if in_cluster(atom) {
        k.cluster([2, 1, 1]);
    }
    let shared = |space| matches!(space, Space::Shared | Space::Cluster);
    let source = shared(atom.from()).then(|| {
        let area = Area::declare(&mut k, "source", SLOTS as u32);
        area.fill(&mut k, &frame, 0);
        area
    });
    let target = shared(atom.to()).then(|| {
        let area = Area::declare(&mut k, "target", SLOTS as u32);
        area.poison(&mut k, &frame);
        area
    });
    meet(&mut k, atom);
    let src = end(&mut k, atom, &frame, Argument::Src, source)?;
    let dst = end(&mut k, atom, &frame, Argument::Dst, target)?;
    let reads = fills(atom).then(|| of_lane(&mut k, &frame, READS));
    let policy = hinted.then(|| policy(&mut k));
    k.copy_atom(
        atom,
        CopyArgs {
            src,
            dst: dst.clone(),
            source_bytes: reads.map(Into::into),
            policy,
            ..CopyArgs::default()
        },
    );
    if atom.op()?.is_async() {
        k.cp_async_commit();
        k.cp_async_wait(0);
    }
    meet(&mut k, atom);
    match (target, dst) {
        (Some(area), _) => area.empty(&mut k, &frame),
        (None, End::Regs(held)) => {
            let to = frame.of_thread(&mut k, frame.output, SLOT as u32);
            store(&mut k, atom, &held, to);
        }
        _ => {}
    }
    Ok(k.finish())
}

/// Every thread that shares memory has come this far.
fn meet(k: &mut KernelBuilder, atom: &CopyAtom) {
    if in_cluster(atom) {
        k.cluster_sync()
    } else {
        k.sync()
    }
}

/// A cache policy: what is read is to be evicted first.
pub(super) fn policy(k: &mut KernelBuilder) -> Reg {
    let d = k.reg(colex_ir::RegType::B64);
    k.push(Memory::CreatePolicy {
        d,
        primary: "evict_first",
        fraction: 1.0,
    });
    d
}

/// A word of the lane's own, from the block's input.
fn of_lane(k: &mut KernelBuilder, frame: &Frame, array: usize) -> Reg {
    let at = frame.of_thread(k, frame.input, 4);
    let address = Address::from(at).at(array as i64);
    k.load(Access::new(colex_ir::Space::Global, Type::U32), address)
}

/// One operand: registers, loaded if they are the source, or the lane's address.
fn end(
    k: &mut KernelBuilder,
    atom: &CopyAtom,
    frame: &Frame,
    argument: Argument,
    area: Option<Area>,
) -> Result<End, Error> {
    let is_source = argument == Argument::Src;
    let space = if is_source { atom.from() } else { atom.to() };
    if space == Space::Register {
        let kind = atom
            .op()?
            .operands
            .iter()
            .find(|operand| operand.argument == argument);
        let Some(OperandKind::Registers(held)) = kind.map(|operand| operand.kind) else {
            unreachable!("an end in registers has registers");
        };
        if !is_source {
            return Ok(End::Regs(k.regs(held.class, held.count)));
        }
        let from = frame.of_thread(k, frame.input, SLOT as u32);
        return Ok(End::Regs(load(k, atom, held, from)));
    }
    let offset = of_lane(k, frame, if is_source { SOURCES } else { TARGETS });
    Ok(End::Memory(match area {
        Some(area) if space == Space::Cluster => {
            let here = k.add(Type::U32, area.at, offset);
            let rank = k.mov(Type::U32, colex_ir::Special::ClusterCtaRank);
            let peer = k.xor(Type::B32, rank, 1);
            k.mapa(here, peer).into()
        }
        Some(area) => k.add(Type::U32, area.at, offset).into(),
        None => {
            let base = if is_source { frame.input } else { frame.output };
            let wide = k.cvt(Type::U64, Type::U32, offset);
            k.add(Type::S64, base, wide).into()
        }
    }))
}

/// A register of 16 bits may hold only eight that count.
fn narrow(atom: &CopyAtom, class: colex_ir::RegType) -> Option<Type> {
    (class == colex_ir::RegType::B16 && atom.bits_per_thread() == 8).then_some(Type::B8)
}

fn load(
    k: &mut KernelBuilder,
    atom: &CopyAtom,
    held: colex_atom::Registers,
    from: Reg,
) -> Vec<Reg> {
    match narrow(atom, held.class) {
        Some(ty) => vec![k.load(Access::new(colex_ir::Space::Global, ty), from)],
        None => frame::load(k, held, from, 0),
    }
}

fn store(k: &mut KernelBuilder, atom: &CopyAtom, held: &[Reg], to: Reg) {
    let class = held[0].ty;
    let registers = colex_atom::Registers {
        count: held.len(),
        class,
    };
    match narrow(atom, class) {
        Some(ty) => k.store(Access::new(colex_ir::Space::Global, ty), to, held[0]),
        None => frame::store(k, registers, held, to),
    }
}
