//! Matrix instructions: tiles of random data placed by the row's layouts, and D read back by them.

use colex_atom::{Arch, Error, Fragment, MmaAtom, MmaOp, Registers, Value};

use super::case::{Case, POISON, Shot, entry};
use super::frame::Frame;
use super::gmma::Image;
use super::product::Product;
use super::random::{Kind, Random};
use super::shared::Area;
use super::tiles::{Tiles, block_threads, lane};
use super::{frame, gmma, shared};
use colex_ir::launch::Launch;
use colex_ir::{Access, Address, Atom, Compare, Kernel, KernelBuilder, Reg, ScaleD, Space, Type};

/// Where the operands of one block lie in its input, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Input {
    a: u32,
    b: u32,
    c: u32,
    e: u32,
    /// Two descriptors, and whether C is added.
    header: u32,
    image: u32,
    image_bytes: u32,
    bytes: u32,
}

/// One block: as many tiles as instructions fit in its threads, and the same as bytes.
struct MmaRound {
    kind: Kind,
    tiles: Vec<Tiles>,
    input: Vec<u8>,
}

/// Returns the case of a matrix instruction: one launch, a block for each round.
///
/// A scalar instruction is executed by each lane of a warp on its own data, that of a quad-pair by all four.
///
/// # Errors
///
/// Returns an error if the row is not executable.
pub fn mma_case(atom: &MmaAtom, kinds: &[Kind], seed: u64) -> Result<Case, Error> {
    let name = atom.name();
    let mut random = Random::of(seed, &name);
    let images: Vec<Option<Image>> = if atom.b_in_shared() {
        images(atom, kinds.len(), &mut random)
    } else {
        kinds.iter().map(|_| None).collect()
    };
    let most = images.iter().flatten().map(Image::bytes).max().unwrap_or(0);
    let layout = input(atom, most)?;
    let rounds = kinds
        .iter()
        .zip(&images)
        .enumerate()
        .map(|(i, (kind, image))| round(atom, *kind, i, image.as_ref(), &layout, &mut random))
        .collect::<Result<Vec<MmaRound>, Error>>()?;
    let output = block_threads(atom) as usize * frame::bytes(atom.op()?.d) as usize;
    let shot = Shot {
        launch: Launch::new(rounds.len() as u32, block_threads(atom)),
        input: rounds
            .iter()
            .flat_map(|round| round.input.clone())
            .collect(),
        output: vec![POISON; output * rounds.len()],
        map: None,
    };
    Ok(Case {
        family: family(atom),
        kernel: kernel(atom, &name, &layout)?,
        shots: vec![shot],
        judge: Box::new(Product {
            atom: atom.clone(),
            rounds: rounds
                .into_iter()
                .map(|round| (round.kind, round.tiles))
                .collect(),
        }),
        name,
    })
}

/// The row of the table of counts.
fn family(atom: &MmaAtom) -> &'static str {
    let sparse = atom.rule().is_sparse();
    match (atom.threads(), atom.b_in_shared(), atom.a_in_shared()) {
        (1, ..) => "scalar multiply-add",
        (8, ..) => "mma.sync of a quad-pair",
        (_, false, _) if atom.traits().ty_c.is_integer() => "mma.sync, integers and bits",
        (_, false, _) if atom.traits().ty_a.bits() >= 64 => "mma.sync, f64 and complex",
        (_, false, _) => "mma.sync, floats",
        (_, _, true) if sparse => "wgmma, sparse, A in shared memory",
        (_, _, false) if sparse => "wgmma, sparse, A in registers",
        (_, _, true) => "wgmma, A in shared memory",
        _ => "wgmma, A in registers",
    }
}

/// Several swizzles where the operands are in shared memory, one for each round.
fn images(atom: &MmaAtom, rounds: usize, random: &mut Random) -> Vec<Option<Image>> {
    let legal = Image::all(atom);
    let first = random.below(legal.len() as u64) as usize;
    let chosen = (0..rounds).map(|i| Some(legal[(first + i) % legal.len()].clone()));
    chosen.collect()
}

fn input(atom: &MmaAtom, image_bytes: u32) -> Result<Input, Error> {
    let op = atom.op()?;
    let threads = block_threads(atom);
    let mut at = 0u32;
    let mut take = |bytes: u32| {
        let begin = at;
        at = (at + bytes).next_multiple_of(16);
        begin
    };
    let in_registers = |held, there: bool| {
        if there {
            threads * frame::bytes(held)
        } else {
            0
        }
    };
    let mut input = Input {
        a: take(in_registers(op.a, !atom.a_in_shared())),
        b: take(in_registers(op.b, !atom.b_in_shared())),
        c: take(threads * frame::bytes(op.c)),
        e: take(op.e.map_or(0, |e| threads * frame::bytes(e))),
        header: take(32),
        image: take(image_bytes),
        image_bytes,
        bytes: 0,
    };
    input.bytes = at;
    Ok(input)
}

/// Fills the input of one block; the rest of it, and what an instruction does not read, is random.
fn round(
    atom: &MmaAtom,
    kind: Kind,
    index: usize,
    image: Option<&Image>,
    input: &Input,
    random: &mut Random,
) -> Result<MmaRound, Error> {
    let op = atom.op()?;
    let mut bytes = random.bytes(input.bytes as usize);
    let adds = !atom.b_in_shared() || index.is_multiple_of(2);
    let mut all = Vec::new();
    for instance in 0..block_threads(atom) as usize / atom.threads() {
        let mut tiles = Tiles::random(atom, kind, random);
        let mut put = |at: u32, one: u32, fragments: Vec<Fragment>| {
            for (t, fragment) in fragments.iter().enumerate() {
                let from = at as usize + lane(atom, instance, t) * one as usize;
                put_words(&mut bytes[from..], fragment.words());
            }
        };
        let (stored, metadata) = if atom.rule().is_sparse() {
            atom.pack(&tiles.a)?
        } else {
            (tiles.a.clone(), Vec::new())
        };
        if !atom.a_in_shared() {
            put(
                input.a,
                frame::bytes(op.a),
                atom.scatter_operand('A', &stored)?,
            );
        }
        if !atom.b_in_shared() {
            put(
                input.b,
                frame::bytes(op.b),
                atom.scatter_operand('B', &tiles.b)?,
            );
        }
        put(input.c, frame::bytes(op.c), atom.scatter(&tiles.c));
        for (t, word) in metadata
            .iter()
            .enumerate()
            .filter(|(t, _)| reads_metadata(atom, *t))
        {
            put_words(&mut bytes[input.e as usize + 4 * t..], &[*word]);
        }
        if let Some(image) = image {
            image.put(&stored, &tiles.b, &mut bytes[input.image as usize..]);
            let header = &mut bytes[input.header as usize..];
            header[..8].copy_from_slice(&image.descriptors[0].to_le_bytes());
            header[8..16].copy_from_slice(&image.descriptors[1].to_le_bytes());
            header[16..20].copy_from_slice(&u32::from(adds).to_le_bytes());
        }
        if !adds {
            tiles.c.fill(Value::zero(atom.traits().ty_c));
        }
        all.push(tiles);
    }
    Ok(MmaRound {
        kind,
        tiles: all,
        input: bytes,
    })
}

fn put_words(bytes: &mut [u8], words: &[u32]) {
    for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
}

/// Whether the instruction reads the metadata of a thread (PTX ISA 9.7.15.6): of the wider types that of two of each
/// four threads, as the option says.
fn reads_metadata(atom: &MmaAtom, thread: usize) -> bool {
    let all = atom.traits().ty_a.bits() == 8;
    all || thread / 2 % 2 == usize::from(atom.options().metadata_threads)
}

/// The kernel: operands to registers, shared memory filled, the one instruction, D to memory.
fn kernel(atom: &MmaAtom, name: &str, input: &Input) -> Result<Kernel, Error> {
    let op = atom.op()?;
    let threads = block_threads(atom);
    let mut k = KernelBuilder::new(&entry(name), Arch::Sm90a);
    let frame = Frame::open(&mut k, threads, input.bytes, threads * frame::bytes(op.d));
    let d = if atom.b_in_shared() {
        asynchronous(&mut k, atom, op, &frame, input)
    } else {
        synchronous(&mut k, atom, op, &frame, input)
    };
    let to = frame.of_thread(&mut k, frame.output, frame::bytes(op.d));
    frame::store(&mut k, op.d, &d, to);
    Ok(k.finish())
}

/// An operand of the thread, from the array at `at` of the block's input.
fn fetch(k: &mut KernelBuilder, frame: &Frame, held: Registers, at: u32) -> Vec<Reg> {
    let from = frame.of_thread(k, frame.input, frame::bytes(held));
    frame::load(k, held, from, at)
}

/// `mma.sync` and the scalar instructions: everything in registers.
fn synchronous(
    k: &mut KernelBuilder,
    atom: &MmaAtom,
    op: &MmaOp,
    frame: &Frame,
    input: &Input,
) -> Vec<Reg> {
    let operands = [(op.a, input.a), (op.b, input.b), (op.c, input.c)];
    let [a, b, c] = operands.map(|(held, at)| fetch(k, frame, held, at));
    let d = k.regs(op.d.class, op.d.count);
    k.mma_atom(atom, &d, &a, &b, &c);
    d
}

/// `wgmma`: B, and A where it is not in registers, by descriptors; D in the registers of C.
fn asynchronous(
    k: &mut KernelBuilder,
    atom: &MmaAtom,
    op: &MmaOp,
    frame: &Frame,
    input: &Input,
) -> Vec<Reg> {
    let image = Area::declare(k, "image", input.image_bytes);
    image.fill(k, frame, input.image);
    shared::show(k);
    let header = |at: u32| Address::from(frame.input).at(i64::from(input.header + at));
    let [of_a, of_b] = gmma::descriptors(k, image.at, [header(0), header(8)]);
    let a = if atom.a_in_shared() {
        vec![of_a]
    } else {
        fetch(k, frame, op.a, input.a)
    };
    let d = fetch(k, frame, op.c, input.c);
    let e = op.e.map_or(Vec::new(), |e| fetch(k, frame, e, input.e));
    let adds = k.load(Access::new(Space::Global, Type::U32), header(16));
    let adds = k.setp(Compare::Ne, Type::U32, adds, 0);
    k.wgmma_fence();
    k.push(Atom::Mma {
        atom: Box::new(atom.clone()),
        d: d.clone(),
        a,
        b: vec![of_b],
        c: Vec::new(),
        e,
        scale_d: ScaleD::Pred(adds),
    });
    k.wgmma_commit();
    k.wgmma_wait(0);
    d
}
