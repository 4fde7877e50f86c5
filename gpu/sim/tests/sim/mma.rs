//! Every executable MMA atom as a kernel of one instruction, against the row's own arithmetic.

use colex_atom::{
    Fragment, GmmaDescriptor, GmmaOptions, Major, MmaAtom, Operand, Registers, Rule, SmemSwizzle,
    Value, mma_atoms,
};
use colex_ir::launch::Launch;
use colex_ir::{
    Access, Atom, Base, BinaryOp, Compare, FenceKind, KernelBuilder, ParamId, Reg, RegType, ScaleD,
    Space, Special, Type,
};

use super::helpers::*;

fn access(ty: RegType) -> Access {
    global(Type::untyped(ty))
}

/// The address of a thread's registers in a buffer.
fn mine(k: &mut KernelBuilder, buffer: ParamId, registers: Registers, thread: Reg) -> Reg {
    let bytes = registers.count as i64 * i64::from(registers.class.bits()) / 8;
    element(k, buffer, thread, bytes)
}

fn load(k: &mut KernelBuilder, buffer: ParamId, registers: Registers, thread: Reg) -> Vec<Reg> {
    let from = mine(k, buffer, registers, thread);
    let ty = registers.class;
    let bytes = i64::from(ty.bits() / 8);
    let one = |k: &mut KernelBuilder, i: usize| {
        let address = colex_ir::Address::from(from).at(i as i64 * bytes);
        let d = k.reg(ty);
        k.load_to(access(ty), &[d], address);
        d
    };
    (0..registers.count).map(|i| one(k, i)).collect()
}

/// A kernel with the one instruction: its operands from buffers `a`, `b`, `c`, `e`, its result to `d`; of `wgmma` the
/// image of shared memory from `image`, and descriptors as arguments.
fn one_instruction(atom: &MmaAtom, image_words: i64) -> colex_ir::Kernel {
    let op = atom.op().unwrap();
    let mut k = kernel("one");
    let [image, a, b, c, e, d] = ["image", "a", "b", "c", "e", "d"].map(|name| k.pointer(name));
    let descriptors = ["da", "db"].map(|name| k.scalar(name, Type::U64));
    let thread = k.mov(Type::U32, Special::Tid(0));
    let shared_b = atom.b_in_shared();
    let (held_a, held_b) = if shared_b {
        let [da, db] = stage(&mut k, image, image_words, thread, descriptors);
        let held_a = if atom.a_in_shared() {
            vec![da]
        } else {
            load(&mut k, a, op.a, thread)
        };
        (held_a, vec![db])
    } else {
        (load(&mut k, a, op.a, thread), load(&mut k, b, op.b, thread))
    };
    let held_c = load(&mut k, c, op.c, thread);
    let held_e =
        op.e.map_or(Vec::new(), |registers| load(&mut k, e, registers, thread));
    let held_d = if shared_b {
        held_c.clone()
    } else {
        k.regs(op.d.class, op.d.count)
    };
    if shared_b {
        k.wgmma_fence();
    }
    k.push(Atom::Mma {
        atom: Box::new(atom.clone()),
        d: held_d.clone(),
        a: held_a,
        b: held_b,
        c: if shared_b { Vec::new() } else { held_c },
        e: held_e,
        scale_d: ScaleD::One,
    });
    if shared_b {
        k.wgmma_commit();
        k.wgmma_wait(0);
    }
    let to = mine(&mut k, d, op.d, thread);
    let ty = op.d.class;
    for (i, reg) in held_d.iter().enumerate() {
        let address = colex_ir::Address::from(to).at(i as i64 * i64::from(ty.bits() / 8));
        k.store(access(ty), address, *reg);
    }
    k.finish()
}

/// Copies the image to shared memory, fences, and completes the descriptors by its address.
fn stage(
    k: &mut KernelBuilder,
    image: ParamId,
    words: i64,
    thread: Reg,
    descriptors: [ParamId; 2],
) -> [Reg; 2] {
    k.dynamic_shared(1024);
    let base = k.address_of(Base::DynamicShared);
    let i = k.mov(Type::U32, thread);
    k.loop_(|k| {
        let done = k.setp(Compare::Ge, Type::U32, i, words);
        k.break_if(done);
        let from = element(k, image, i, 4);
        let x = k.load(global(Type::B32), from);
        let to = k.mad(Type::U32, i, 4, base);
        k.store(Access::new(Space::Shared, Type::B32), to, x);
        k.binary_to(BinaryOp::Add, Type::U32, i, i, 128);
    });
    k.fence(FenceKind::ProxyAsyncShared);
    k.sync();
    let low = k.and(Type::B32, base, 0x3_ffff);
    let low = k.shr(Type::U32, low, 4);
    let start = k.cvt(Type::U64, Type::U32, low);
    descriptors.map(|descriptor| {
        let given = k.param(descriptor);
        k.add(Type::U64, given, start)
    })
}

/// A tile `rows` by `k` in shared memory, from a byte on: its descriptor, and the byte of each element.
fn tile(
    start: i64,
    major: Major,
    rows: i64,
    k: i64,
    bits: u32,
    wish: usize,
) -> (GmmaDescriptor, Vec<usize>) {
    let fits = |swizzle: &SmemSwizzle| {
        let row = swizzle.span() * 8 / i64::from(bits);
        match major {
            Major::K => row >= k || *swizzle == SmemSwizzle::None,
            Major::MN => rows % row == 0,
        }
    };
    let swizzles: Vec<SmemSwizzle> = SmemSwizzle::ALL.into_iter().filter(fits).collect();
    let swizzle = swizzles[wish % swizzles.len()];
    let (span, t) = (swizzle.span(), 128 / i64::from(bits));
    let (leading, stride) = match (major, swizzle) {
        (Major::K, SmemSwizzle::None) => (128 * (rows / 8), 128),
        (Major::K, _) => (16, 8 * span),
        (Major::MN, SmemSwizzle::None) => (128 * (rows / t), 128),
        (Major::MN, _) => (8 * span * (k / 8), 8 * span),
    };
    let descriptor = GmmaDescriptor {
        start,
        leading,
        stride,
        base_offset: 0,
        swizzle,
    };
    let layout = descriptor.tile(major, rows, k, bits).unwrap();
    let each = bits as usize / 8;
    let places = layout
        .table()
        .unwrap()
        .into_iter()
        .map(|x| x as usize * each);
    (descriptor, places.collect())
}

/// Values that a format has, small enough to be summed.
fn random(dice: &mut Dice, ty: colex_atom::Ty) -> Value {
    let bits = [dice.next(), dice.next(), dice.next()];
    match Value::decode(ty, &bits) {
        integer @ (Value::Int(_) | Value::Large(_)) => integer,
        Value::Complex(_) => {
            let part = |x: u64| (x % 2001) as f64 / 8.0 - 125.0;
            Value::Complex(bits.map(part))
        }
        Value::Real(_) => Value::decode(
            ty,
            &Value::Real((bits[0] % 4001) as f64 / 256.0 - 7.0).encode(ty)[..],
        ),
    }
}

fn words(fragments: &[Fragment], registers: Registers) -> Vec<u32> {
    // A register of 16 bits takes a word of its own here and half of one in memory.
    match registers.class {
        RegType::B16 => {
            let halves: Vec<u32> = fragments.iter().map(|f| f.words()[0] & 0xffff).collect();
            halves
                .chunks(2)
                .map(|pair| pair[0] | pair.get(1).unwrap_or(&0) << 16)
                .collect()
        }
        _ => fragments.iter().flat_map(|f| f.words().to_vec()).collect(),
    }
}

/// Fragments in the order of lanes: quad-pairs have their threads apart.
fn in_lanes(atom: &MmaAtom, teams: &[Vec<Fragment>]) -> Vec<Fragment> {
    let threads: Vec<usize> = (0..atom.threads() as i64)
        .map(|t| atom.traits().thread.at(t).unwrap() as usize)
        .collect();
    let mut lanes: Vec<(usize, Fragment)> = Vec::new();
    for (team, fragments) in teams.iter().enumerate() {
        let step = if atom.threads() == 8 {
            4
        } else {
            atom.threads()
        };
        for (t, fragment) in fragments.iter().enumerate() {
            lanes.push((team * step + threads[t], fragment.clone()));
        }
    }
    lanes.sort_by_key(|(lane, _)| *lane);
    lanes.into_iter().map(|(_, fragment)| fragment).collect()
}

fn check(atom: &MmaAtom, dice: &mut Dice) {
    let (t, op, [m, n, k]) = (atom.traits(), atom.op().unwrap(), atom.mnk());
    let options = atom.options();
    let packing = if atom.rule() == Rule::Sparse2Of4 || atom.rule() == Rule::Sparse1Of2 {
        2
    } else {
        1
    };
    let teams = 32 / atom.threads().min(32);
    let block = atom.threads().max(32);
    let mut image = vec![0u8; 128 << 10];
    let mut used = 0;
    let mut place = |start: i64, major, rows, k, ty: colex_atom::Ty, values: &[Value], wish| {
        let (descriptor, places) = tile(start, major, rows, k, ty.bits(), wish);
        for (place, value) in places.iter().zip(values) {
            let bytes = value.encode(ty)[0].to_le_bytes();
            let each = ty.bits() as usize / 8;
            image[*place..*place + each].copy_from_slice(&bytes[..each]);
            used = used.max(place + each);
        }
        descriptor
    };
    let [mut fa, mut fb, mut fc, mut fd] = [const { Vec::new() }; 4];
    let mut metadata = Vec::new();
    let mut descriptors = [0; 2];
    for _ in 0..teams {
        let mut tile_of = |size: i64, ty| (0..size).map(|_| random(dice, ty)).collect::<Vec<_>>();
        let mut a = tile_of(m * k, t.ty_a);
        let (b, c) = (tile_of(n * k, t.ty_b), tile_of(m * n, t.ty_c));
        if packing == 2 {
            // One of each two elements along K stays, so that two of four do.
            for (i, x) in a.iter_mut().enumerate() {
                if (i / m as usize + i % 3).is_multiple_of(2) || (i / m as usize) % 2 == 1 {
                    *x = Value::zero(t.ty_a);
                }
            }
            let (stored, words) = atom.pack(&a).unwrap();
            (a, metadata) = (stored, words);
        }
        let wish = (m + n + k) as usize;
        let a_operand;
        let fragments_a;
        if atom.a_in_shared() {
            descriptors[0] = place(0, options.major_a, m, k / packing, t.ty_a, &a, wish)
                .encode()
                .unwrap();
            a_operand = Operand::Tile(&a);
        } else {
            fragments_a = atom.scatter_operand('A', &a).unwrap();
            fa.push(fragments_a.clone());
            a_operand = Operand::Registers(&fragments_a);
        }
        let fragments_b;
        let b_operand = if atom.b_in_shared() {
            descriptors[1] = place(32 << 10, options.major_b, n, k, t.ty_b, &b, wish / 3)
                .encode()
                .unwrap();
            Operand::Tile(&b)
        } else {
            fragments_b = atom.scatter_operand('B', &b).unwrap();
            fb.push(fragments_b.clone());
            Operand::Registers(&fragments_b)
        };
        let c = atom.scatter(&c);
        fd.push(
            atom.execute_on_hopper(a_operand, b_operand, &c, &metadata)
                .unwrap(),
        );
        fc.push(c);
    }
    let kernel = one_instruction(atom, used.div_ceil(4) as i64);
    let mut host = Host::default();
    let as_words: Vec<u32> = image
        .chunks(4)
        .map(|w| u32::from_le_bytes(w.try_into().unwrap()))
        .collect();
    host.words(&as_words);
    for (fragments, registers) in [(&fa, op.a), (&fb, op.b), (&fc, op.c)] {
        let words = if fragments.is_empty() {
            vec![0]
        } else {
            words(&in_lanes(atom, fragments), registers)
        };
        host.words(&words);
    }
    host.words(if metadata.is_empty() { &[0] } else { &metadata });
    let expected = words(&in_lanes(atom, &fd), op.d);
    let d = host.empty(expected.len() as u64 * 4);
    host.arguments
        .extend([descriptors[0].into(), descriptors[1].into()]);
    let launch =
        Launch::new(1, block as u32).dynamic_shared((used as u32).next_multiple_of(16).max(16));
    let name = atom.name();
    host.run(&kernel, launch)
        .unwrap_or_else(|fault| panic!("{name}: {fault}"));
    assert_eq!(host.read(d, expected.len()), expected, "{name}");
}

/// Whether an atom is executed here: all, but of the larger N of `wgmma` every eighth.
fn chosen((i, atom): &(usize, MmaAtom)) -> bool {
    atom.is_executable() && (atom.mnk()[1] <= 32 || i % 8 == 0)
}

#[test]
fn every_mma_atom_computes_what_its_row_says() {
    let mut dice = Dice(1);
    let mut cases = 0;
    for (_, atom) in mma_atoms().enumerate().filter(chosen) {
        let others = GmmaOptions::all().filter(|options| *options != GmmaOptions::default());
        let optioned: Vec<MmaAtom> = match atom.mnk()[1] {
            16 => others
                .filter_map(|o| atom.clone().with_options(o).ok())
                .collect(),
            _ => Vec::new(),
        };
        for atom in std::iter::once(&atom).chain(&optioned) {
            check(atom, &mut dice);
            cases += 1;
        }
    }
    println!("law sim.mma_atoms: {cases} cases");
    assert!(cases > 900);
}
