//! Matrix instructions: tiles of random data placed by the row's layouts, and D read back by them.

use colex_atom::{Arch, Error, Exactness, Fragment, MmaAtom, Rule, Value};

use super::case::{Agreement, Case, Judge, POISON, Shot, entry, mixed};
use super::frame::{self, Frame};
use super::gmma::{self, Image};
use super::random::{Kind, Random};
use super::shared::{self, Area};
use crate::ir::{Access, Address, Kernel, KernelBuilder, Op, ScaleD, Space, Type};
use crate::launch::Launch;

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

/// The tiles of one instruction.
struct Tiles {
    a: Vec<Value>,
    b: Vec<Value>,
    c: Vec<Value>,
}

/// One block: as many tiles as instructions fit in its threads, and the same as bytes.
struct Round {
    kind: Kind,
    tiles: Vec<Tiles>,
    input: Vec<u8>,
}

/// The case of a matrix instruction: one launch, a block for each round.
///
/// A scalar instruction is executed by each lane of a warp on its own data, that of a quad-pair by all four.
///
/// # Errors
///
/// [`Error::NotExecutable`].
pub fn mma_case(atom: &MmaAtom, kinds: &[Kind], seed: u64) -> Result<Case, Error> {
    let name = atom.name();
    let mut random = Random::of(seed, &name);
    let images: Vec<Option<Image>> = match atom.b_in_shared() {
        true => images(atom, kinds.len(), &mut random)?,
        false => kinds.iter().map(|_| None).collect(),
    };
    let most = images.iter().flatten().map(Image::bytes).max().unwrap_or(0);
    let layout = input(atom, most)?;
    let rounds = kinds
        .iter()
        .zip(&images)
        .enumerate()
        .map(|(i, (kind, image))| round(atom, *kind, i, image.as_ref(), &layout, &mut random))
        .collect::<Result<Vec<Round>, Error>>()?;
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

fn block_threads(atom: &MmaAtom) -> u32 {
    atom.threads().max(32) as u32
}

/// The thread of the block that is thread `t` of instruction `instance`.
fn lane(atom: &MmaAtom, instance: usize, t: usize) -> usize {
    match atom.threads() {
        1 => instance,
        8 => {
            let first = atom
                .traits()
                .thread
                .at(t as i64)
                .expect("a quad-pair has 8 threads");
            first as usize + 4 * instance
        }
        _ => t,
    }
}

/// Several swizzles where the operands are in shared memory, one for each round.
fn images(atom: &MmaAtom, rounds: usize, random: &mut Random) -> Result<Vec<Option<Image>>, Error> {
    let legal = Image::all(atom)?;
    let first = random.below(legal.len() as u64) as usize;
    let chosen = (0..rounds).map(|i| Some(legal[(first + i) % legal.len()].clone()));
    Ok(chosen.collect())
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
) -> Result<Round, Error> {
    let op = atom.op()?;
    let mut bytes = random.bytes(input.bytes as usize);
    let adds = !atom.b_in_shared() || index.is_multiple_of(2);
    let mut all = Vec::new();
    for instance in 0..block_threads(atom) as usize / atom.threads() {
        let mut tiles = tiles(atom, kind, random);
        let mut put = |at: u32, one: u32, fragments: Vec<Fragment>| {
            for (t, fragment) in fragments.iter().enumerate() {
                let from = at as usize + lane(atom, instance, t) * one as usize;
                put_words(&mut bytes[from..], fragment.words());
            }
        };
        let (stored, metadata) = match atom.rule().is_sparse() {
            true => atom.pack(&tiles.a)?,
            false => (tiles.a.clone(), Vec::new()),
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
    Ok(Round {
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

fn tiles(atom: &MmaAtom, kind: Kind, random: &mut Random) -> Tiles {
    let ([m, n, k], t) = (atom.mnk().map(|x| x as usize), atom.traits());
    let a = match atom.rule() {
        Rule::Sparse2Of4 => sparse(atom, [m, k], 4, kind, random),
        Rule::Sparse1Of2 => sparse(atom, [m, k], 2, kind, random),
        _ => (0..m * k).map(|_| kind.draw(t.ty_a, random)).collect(),
    };
    Tiles {
        a,
        b: (0..n * k).map(|_| kind.draw(t.ty_b, random)).collect(),
        c: (0..m * n).map(|_| kind.draw(t.ty_c, random)).collect(),
    }
}

/// Half of each group of A along K, at random places, none of them zero: a zero would not say whether it was kept.
fn sparse(
    atom: &MmaAtom,
    [m, k]: [usize; 2],
    group: usize,
    kind: Kind,
    random: &mut Random,
) -> Vec<Value> {
    let ty = atom.traits().ty_a;
    let mut tile = vec![Value::zero(ty); m * k];
    for first in (0..k).step_by(group) {
        for row in 0..m {
            for at in random.permutation(group).into_iter().take(group / 2) {
                let drawn = std::iter::repeat_with(|| kind.draw(ty, random));
                let mut kept = drawn.filter(|value| value.real() != 0.0);
                tile[row + m * (first + at)] = kept.next().expect("the stream does not end");
            }
        }
    }
    tile
}

/// The kernel: operands to registers, shared memory filled, the one instruction, D to memory.
fn kernel(atom: &MmaAtom, name: &str, input: &Input) -> Result<Kernel, Error> {
    let op = atom.op()?;
    let threads = block_threads(atom);
    let mut k = KernelBuilder::new(&entry(name), Arch::Sm90a);
    let frame = Frame::open(&mut k, threads, input.bytes, threads * frame::bytes(op.d));
    let image = atom.b_in_shared().then(|| {
        let image = Area::declare(&mut k, "image", input.image_bytes);
        image.fill(&mut k, &frame, input.image);
        shared::show(&mut k);
        image.at
    });
    let fetch = |k: &mut KernelBuilder, held, at| {
        let from = frame.of_thread(k, frame.input, frame::bytes(held));
        frame::load(k, held, from, at)
    };
    let a = if atom.a_in_shared() {
        Vec::new()
    } else {
        fetch(&mut k, op.a, input.a)
    };
    let b = if image.is_some() {
        Vec::new()
    } else {
        fetch(&mut k, op.b, input.b)
    };
    let c = fetch(&mut k, op.c, input.c);
    let e = op.e.map_or(Vec::new(), |e| fetch(&mut k, e, input.e));
    let d = match image {
        None => {
            let d = k.regs(frame::types(op.d.class).0, op.d.count);
            k.mma_atom(atom, &d, &a, &b, &c);
            d
        }
        Some(image) => {
            let header = |at: u32| Address::from(frame.input).at(i64::from(input.header + at));
            let [of_a, of_b] = gmma::descriptors(&mut k, image, [header(0), header(8)]);
            let adds = k.load(Access::new(Space::Global, Type::U32), header(16));
            let adds = k.setp(crate::ir::Compare::Ne, Type::U32, adds, 0);
            k.wgmma_fence();
            k.push(Op::Mma {
                atom: Box::new(atom.clone()),
                d: c.clone(),
                a: if a.is_empty() { vec![of_a] } else { a },
                b: vec![of_b],
                c: Vec::new(),
                e,
                scale_d: ScaleD::Pred(adds),
            });
            k.wgmma_commit();
            k.wgmma_wait(0);
            c
        }
    };
    let to = frame.of_thread(&mut k, frame.output, frame::bytes(op.d));
    frame::store(&mut k, op.d, &d, to);
    Ok(k.finish())
}

/// The judge of a matrix instruction.
struct Product {
    atom: MmaAtom,
    rounds: Vec<(Kind, Vec<Tiles>)>,
}

impl Judge for Product {
    fn judge(&self, _: usize, output: &[u8]) -> Agreement {
        let bytes = output.len() / self.rounds.len();
        let mut agreement = Agreement {
            must_be_exact: self.atom.exactness() == Exactness::Bits,
            ..Agreement::default()
        };
        for ((kind, tiles), block) in self.rounds.iter().zip(output.chunks_exact(bytes)) {
            for (instance, tiles) in tiles.iter().enumerate() {
                let seen = self.one(*kind, tiles, &self.gather(block, instance));
                let seen = seen.unwrap_or_else(|error| Agreement {
                    wrong: Some(error.to_string()),
                    ..Agreement::default()
                });
                agreement = agreement.and(seen);
            }
        }
        agreement
    }
}

impl Product {
    /// D of one instruction, by the layout of C.
    fn gather(&self, block: &[u8], instance: usize) -> Vec<Value> {
        let atom = &self.atom;
        let each = block.len() / block_threads(atom) as usize;
        let values = atom.traits().c.mode(1).map_or(1, |mode| mode.size()) as usize;
        let fragment = |t: usize| {
            let held = &block[lane(atom, instance, t) * each..][..each];
            let word = |w: &[u8]| u32::from_le_bytes(w.try_into().expect("a chunk has 4 bytes"));
            let words: Vec<u32> = held.chunks_exact(4).map(word).collect();
            Fragment::from_words(atom.traits().ty_c, values, &words)
        };
        let fragments: Vec<Fragment> = (0..atom.threads()).map(fragment).collect();
        atom.gather('C', &fragments)
            .expect("one fragment for each thread, of C's type and size")
    }

    /// Compares one tile, element by element.
    fn one(&self, kind: Kind, tiles: &Tiles, found: &[Value]) -> Result<Agreement, Error> {
        let (atom, ty) = (&self.atom, self.atom.traits().ty_c);
        let exact = atom.multiply(&tiles.a, &tiles.b, &tiles.c)?;
        let modelled = atom.multiply_on_hopper(&tiles.a, &tiles.b, &tiles.c)?;
        let magnitudes = atom.magnitudes(&tiles.a, &tiles.b, &tiles.c)?;
        let same = |x, y| Exactness::Bits.allows(x, y, 0.0, ty);
        let mut seen = Agreement::default();
        for (i, &found) in found.iter().enumerate() {
            seen.elements += 1;
            seen.exact += u64::from(same(exact[i], found));
            seen.modelled += u64::from(same(modelled[i], found));
            let fits = match magnitudes[i].is_finite() || atom.exactness() == Exactness::Bits {
                true => atom.exactness().allows(exact[i], found, magnitudes[i], ty),
                // An infinite term leaves nothing to round.
                false => same(exact[i], found),
            };
            if !fits && seen.wrong.is_none() {
                let [m, n] = [i % atom.mnk()[0] as usize, i / atom.mnk()[0] as usize];
                seen.wrong = Some(format!(
                    "{kind:?} data, D({m},{n}): expected {}, found {found}",
                    exact[i]
                ));
            }
            seen.digest = found.encode(ty).into_iter().fold(seen.digest, mixed);
        }
        Ok(seen)
    }
}
