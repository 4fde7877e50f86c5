//! Bulk copies: bytes in a row, between global memory and the shared memory of blocks.

use colex_atom::{Arch, CopyAtom, Error, Reduction, Scalar, Space};

use super::case::{Bytes, Case, POISON, Shot, entry};
use super::copy::policy;
use super::engine::{Before, Engine, THREADS, from_shared, memory};
use super::frame::Frame;
use super::random::Random;
use colex_ir::launch::Launch;
use colex_ir::{Address, CopyArgs, End, Kernel, KernelBuilder};

/// Bytes of shared memory and of output behind what is copied: they must stay as they are.
const BEHIND: u32 = 64;
/// Blocks that a multicast may reach.
const BLOCKS: u32 = 4;

/// How many bytes are copied, and where things lie in a block's input.
#[derive(Clone, Copy)]
struct BulkPlan {
    bytes: u32,
    /// What is copied, `area` bytes.
    area: u32,
    /// What the destination holds before a reduction: the same number.
    old: u32,
    mask: u32,
    input: u32,
    cluster: u32,
}

/// Returns the case of a bulk copy of `bytes` bytes, a multiple of 16: one launch, a block (or a cluster) for each
/// round.
///
/// # Errors
///
/// Returns an error if the row is not executable, or if the copy does not take the size.
pub fn bulk_case(
    atom: &CopyAtom,
    bytes: u32,
    hinted: bool,
    rounds: usize,
    seed: u64,
) -> Result<Case, Error> {
    let atom = atom.with_bits(8 * i64::from(bytes))?;
    let name = format!(
        "{}{}",
        atom.name(),
        if hinted { " with a cache policy" } else { "" }
    );
    let mut random = Random::of(seed, &name);
    let area = (bytes + BEHIND).next_multiple_of(16);
    let plan = BulkPlan {
        bytes,
        area,
        old: area,
        mask: 2 * area,
        input: 2 * area + 16,
        cluster: cluster(&atom),
    };
    let blocks = rounds * plan.cluster as usize;
    let mut inputs: Vec<Vec<u8>> = (0..blocks)
        .map(|_| random.bytes(plan.input as usize))
        .collect();
    inputs
        .chunks_mut(plan.cluster as usize)
        .for_each(|cluster| mask(&plan, cluster, &mut random));
    let launch = Launch::new(blocks as u32, THREADS);
    let shot = Shot {
        launch: if plan.cluster > 1 {
            launch.cluster(plan.cluster)
        } else {
            launch
        },
        output: inputs
            .iter()
            .flat_map(|input| before(&atom, &plan, input))
            .collect(),
        input: inputs.concat(),
        map: None,
    };
    Ok(Case {
        family: family(&atom),
        kernel: kernel(&atom, &name, &plan, hinted)?,
        shots: vec![shot],
        judge: Box::new(Bytes {
            expected: vec![expected(&atom, &plan, &inputs)],
            element: reduction(&atom).map_or(1, |(_, ty)| ty.bits() as usize / 8),
        }),
        name,
    })
}

fn family(atom: &CopyAtom) -> &'static str {
    match (reduction(atom), is_multicast(atom), atom.to()) {
        (Some(_), ..) => "bulk reductions",
        (_, true, _) => "bulk copies, multicast",
        (_, _, Space::L2) => "prefetches",
        _ => "bulk copies",
    }
}

fn is_multicast(atom: &CopyAtom) -> bool {
    atom.name().contains("MULTICAST")
}

fn between_blocks(atom: &CopyAtom) -> bool {
    from_shared(atom) && atom.to() == Space::Cluster
}

fn cluster(atom: &CopyAtom) -> u32 {
    match (is_multicast(atom), between_blocks(atom)) {
        (true, _) => BLOCKS,
        (_, true) => 2,
        _ => 1,
    }
}

fn reduction(atom: &CopyAtom) -> Option<(Reduction, Scalar)> {
    atom.reduction()
}

/// Tells every block of a cluster the same random blocks, at least one.
fn mask(plan: &BulkPlan, cluster: &mut [Vec<u8>], random: &mut Random) {
    let mask = 1 + random.below((1 << BLOCKS) - 1) as u32;
    for input in cluster {
        input[plan.mask as usize..][..4].copy_from_slice(&mask.to_le_bytes());
    }
}

/// What the output holds before: a reduction's old values in global memory, else poison.
fn before(atom: &CopyAtom, plan: &BulkPlan, input: &[u8]) -> Vec<u8> {
    if reduction(atom).is_some() && atom.to() == Space::Global {
        input[plan.old as usize..][..plan.area as usize].to_vec()
    } else {
        vec![POISON; plan.area as usize]
    }
}

fn expected(atom: &CopyAtom, plan: &BulkPlan, inputs: &[Vec<u8>]) -> Vec<u8> {
    let (bytes, area, old) = (plan.bytes as usize, plan.area as usize, plan.old as usize);
    let cluster = plan.cluster as usize;
    let of_block = |block: usize| -> Vec<u8> {
        let (mine, leader) = (&inputs[block], &inputs[block - block % cluster]);
        let mask = u32::from_le_bytes(
            leader[plan.mask as usize..][..4]
                .try_into()
                .expect("four bytes"),
        );
        let source = match (is_multicast(atom), between_blocks(atom)) {
            (true, _) => leader,
            (_, true) => &inputs[block ^ 1],
            _ => mine,
        };
        if atom.to() == Space::L2 {
            return mine[..area].to_vec();
        }
        if let Some((op, ty)) = reduction(atom) {
            let mut out = mine[old..][..area].to_vec();
            combine(op, ty, &mut out[..bytes], &source[..bytes]);
            return out;
        }
        let mut out = vec![POISON; area];
        if !is_multicast(atom) || mask >> (block % cluster) & 1 == 1 {
            out[..bytes].copy_from_slice(&source[..bytes]);
        }
        out
    };
    (0..inputs.len()).flat_map(of_block).collect()
}

/// Combines element by element.
pub(super) fn combine(op: Reduction, ty: Scalar, old: &mut [u8], new: &[u8]) {
    let bytes = ty.bits() as usize / 8;
    let word = |part: &[u8]| {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(part);
        u64::from_le_bytes(word)
    };
    for (old, new) in old.chunks_exact_mut(bytes).zip(new.chunks_exact(bytes)) {
        let combined = op.combine(ty, word(old), word(new)).to_le_bytes();
        old.copy_from_slice(&combined[..bytes]);
    }
}

fn kernel(atom: &CopyAtom, name: &str, plan: &BulkPlan, hinted: bool) -> Result<Kernel, Error> {
    atom.op()?;
    let mut k = KernelBuilder::new(&entry(name), Arch::Sm90a);
    let frame = Frame::open(&mut k, THREADS, plan.input, plan.area);
    let before = Before {
        source: 0,
        target: reduction(atom).map(|_| plan.old),
    };
    let engine = Engine::open(&mut k, &frame, plan.area, &before, plan.cluster);
    let policy = hinted.then(|| policy(&mut k));
    let args = |dst: End, src: End| CopyArgs {
        dst,
        src,
        policy,
        ..CopyArgs::default()
    };
    let with_barrier = |args: CopyArgs, barrier| CopyArgs {
        barrier: Some(Address::from(barrier)),
        ..args
    };
    let (here, global) = (memory(engine.target.at), memory(frame.input));
    if atom.to() == Space::L2 {
        k.when(engine.first, |k| k.copy_atom(atom, args(End::None, global)));
        engine.target.fill(&mut k, &frame, 0);
        k.sync();
    } else if atom.to() == Space::Global {
        let source = memory(engine.source.at);
        engine.store(&mut k, |k| {
            k.copy_atom(atom, args(memory(frame.output), source))
        });
        return Ok(k.finish());
    } else if is_multicast(atom) {
        let at = Address::from(frame.input).at(i64::from(plan.mask));
        let args = with_barrier(args(here, global), engine.barrier);
        engine.multicast(&mut k, at, plan.bytes, |k, mask| {
            let mask = Some(mask);
            k.copy_atom(atom, CopyArgs { mask, ..args });
        });
    } else if between_blocks(atom) {
        let [there, barrier] =
            [engine.target.at, engine.barrier].map(|at| Engine::peer(&mut k, at));
        let args = with_barrier(args(memory(there), memory(engine.source.at)), barrier);
        engine.load(&mut k, plan.bytes, |k| k.copy_atom(atom, args));
    } else {
        let args = with_barrier(args(here, global), engine.barrier);
        engine.load(&mut k, plan.bytes, |k| k.copy_atom(atom, args));
    }
    engine.target.empty(&mut k, &frame);
    Ok(k.finish())
}
