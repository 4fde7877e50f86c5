//! What instructions compute, from fragments to fragments.

use colex_atom::{
    Exactness, Fragment, GmmaOptions, MmaAtom, Operand, Rule, Ty, Value, mma, mma_atoms,
};

/// A stream of 64-bit words (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> i64 {
        ((self.next() >> 32) % n) as i64
    }

    /// A small integer that the type has, and whose products add up exactly in every accumulator.
    fn small(&mut self, ty: Ty) -> Value {
        let x = match ty {
            Ty::B1 => self.below(2),
            Ty::U4 | Ty::U8 => self.below(4),
            _ => self.below(7) - 3,
        };
        match ty {
            Ty::C64 => Value::complex(x as f64, (self.below(7) - 3) as f64),
            Ty::Gc64 => Value::Complex([
                x as f64,
                (self.below(7) - 3) as f64,
                (self.below(7) - 3) as f64,
            ]),
            ty if ty.is_integer() => Value::Int(x),
            _ => Value::Real(x as f64),
        }
    }

    fn tile(&mut self, ty: Ty, size: i64) -> Vec<Value> {
        (0..size).map(|_| self.small(ty)).collect()
    }
}

/// A tile of A: with two zeros in each group of four, or one in each two, if the atom wants it sparse.
fn tile_a(atom: &MmaAtom, random: &mut Random) -> Vec<Value> {
    let ([m, _, k], ty) = (atom.mnk(), atom.traits().ty_a);
    let mut a = random.tile(ty, m * k);
    let group = match atom.rule() {
        Rule::Sparse2Of4 => 4,
        Rule::Sparse1Of2 => 2,
        _ => return a,
    };
    for row in 0..m {
        for first in (0..k).step_by(group) {
            let zeros = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]][random.below(6) as usize];
            for at in &zeros[..group / 2] {
                a[(row + m * (first + at % group as i64)) as usize] = Value::zero(ty);
            }
        }
    }
    a
}

/// `D = A B + C` over integers, written down again: nothing is shared with the crate.
fn reference(atom: &MmaAtom, a: &[Value], b: &[Value], c: &[Value]) -> Vec<Value> {
    let [m, n, k] = atom.mnk().map(|x| x as usize);
    let mut d = c.to_vec();
    for row in 0..m {
        for column in 0..n {
            let at = row + m * column;
            for i in 0..k {
                let (x, y) = (a[row + m * i], b[column + n * i]);
                d[at] = match (atom.rule(), d[at]) {
                    (Rule::XorPopc, d) => Value::Int(d.int() + i64::from(x != y)),
                    (Rule::AndPopc, d) => Value::Int(d.int() + x.int() * y.int()),
                    (Rule::PlanarComplex, d) => {
                        let ([a, b, _], [e, f, _], [g, h, _]) = (x.parts(), y.parts(), d.parts());
                        Value::complex(g + (a * e - b * f), h + (a * f + b * e))
                    }
                    (Rule::GaussComplex, d) => {
                        let ([a, b, _], [e, f, _], [t, u, v]) = (x.parts(), y.parts(), d.parts());
                        Value::Complex([t + a * e, u + b * f, v + (a + b) * (e + f)])
                    }
                    (_, Value::Int(d)) => Value::Int(d + x.int() * y.int()),
                    (_, d) => Value::Real(d.real() + x.real() * y.real()),
                };
            }
        }
    }
    d
}

/// Runs an atom as a warp would: operands scattered to fragments, the kept part of a sparse A and its metadata.
fn run(atom: &MmaAtom, a: &[Value], b: &[Value], c: &[Value]) -> Vec<Value> {
    let (stored, metadata) = if atom.rule().is_sparse() {
        atom.pack(a).unwrap()
    } else {
        (a.to_vec(), Vec::new())
    };
    let (fa, fb);
    let a = if atom.a_in_shared() {
        Operand::Tile(&stored)
    } else {
        fa = atom.scatter_operand('A', &stored).unwrap();
        Operand::Registers(&fa)
    };
    let b = if atom.b_in_shared() {
        Operand::Tile(b)
    } else {
        fb = atom.scatter_operand('B', b).unwrap();
        Operand::Registers(&fb)
    };
    let d = atom.execute(a, b, &atom.scatter(c), &metadata).unwrap();
    atom.gather('C', &d).unwrap()
}

/// Where nothing is rounded, the result is the integer product: for every executable atom, `wgmma` at three N.
#[test]
fn execution_is_the_product() {
    let mut random = Random(1);
    let mut cases = 0;
    for atom in mma_atoms().filter(|atom| atom.is_executable()) {
        let [m, n, k] = atom.mnk();
        if atom.b_in_shared() && ![8, 24, 64].contains(&n) {
            continue;
        }
        let t = atom.traits();
        let a = tile_a(&atom, &mut random);
        let (b, c) = (random.tile(t.ty_b, n * k), random.tile(t.ty_c, m * n));
        assert_eq!(
            run(&atom, &a, &b, &c),
            reference(&atom, &a, &b, &c),
            "{}",
            atom.name()
        );
        cases += m * n;
    }
    println!("law mma.execute: {cases} cases");
}

#[test]
fn scatter_then_gather_is_the_identity() {
    let mut random = Random(2);
    let mut cases = 0;
    for atom in mma_atoms().filter(|atom| atom.is_executable() && atom.mnk()[1] <= 32) {
        let ([m, n, k], t) = (atom.mnk(), atom.traits());
        let packing = atom.rule().packing() as i64;
        let mut operands = vec![('C', random.tile(t.ty_c, m * n))];
        if !atom.a_in_shared() {
            operands.push(('A', random.tile(t.ty_a, m * k / packing)));
        }
        if !atom.b_in_shared() {
            operands.push(('B', random.tile(t.ty_b, n * k)));
        }
        for (operand, tile) in operands {
            let fragments = atom.scatter_operand(operand, &tile).unwrap();
            assert_eq!(
                atom.gather(operand, &fragments).unwrap(),
                tile,
                "{} {operand}",
                atom.name()
            );
            cases += 1;
        }
    }
    println!("law mma.scatter_gather: {cases} cases");
}

#[test]
fn unpacking_what_was_packed_is_the_identity() {
    let mut random = Random(3);
    let mut cases = 0;
    for atom in mma_atoms()
        .filter(|atom| atom.is_executable() && atom.rule().is_sparse() && atom.mnk()[1] == 8)
    {
        for threads in 0..2 {
            let options = GmmaOptions {
                metadata_threads: threads,
                ..GmmaOptions::default()
            };
            let Ok(atom) = atom.clone().with_options(options) else {
                continue;
            };
            for _ in 0..4 {
                let a = tile_a(&atom, &mut random);
                let (stored, metadata) = atom.pack(&a).unwrap();
                assert_eq!(stored.len() * 2, a.len());
                assert_eq!(
                    atom.unpack(&stored, &metadata).unwrap(),
                    a,
                    "{}",
                    atom.name()
                );
                cases += 1;
            }
        }
    }
    println!("law mma.unpack_pack: {cases} cases");
}

/// One element each of A, B and C at the top left, everything else zero; D there.
fn corner(name: &str, a: Value, b: Value, c: Value) -> Value {
    let atom = mma(name).unwrap();
    let ([m, n, k], t) = (atom.mnk(), atom.traits());
    let tile = |ty, size, x| {
        let mut tile = vec![Value::zero(ty); size as usize];
        tile[0] = x;
        tile
    };
    run(
        &atom,
        &tile(t.ty_a, m * k, a),
        &tile(t.ty_b, n * k, b),
        &tile(t.ty_c, m * n, c),
    )[0]
}

#[test]
fn integers_wrap_or_saturate() {
    let (x, y) = (Value::Int(127), Value::Int(127));
    let (top, bottom) = (Value::Int(i32::MAX.into()), Value::Int(i32::MIN.into()));
    let wrapped = Value::Int(i64::from(i32::MIN) + 127 * 127 - 1);
    assert_eq!(corner("SM80_16x8x32_S32S8S8S32_TN", x, y, top), wrapped);
    assert_eq!(
        corner("SM80_16x8x32_S32S8S8S32_TN_SATURATE", x, y, top),
        top
    );
    assert_eq!(
        corner(
            "SM80_16x8x32_S32S8S8S32_TN_SATURATE",
            Value::Int(-128),
            y,
            bottom
        ),
        bottom
    );
    assert_eq!(
        corner(
            "SM90_64x8x32_S32U8S8_SS_TN_SATURATE",
            Value::Int(255),
            y,
            top
        ),
        top
    );
    assert_eq!(
        corner(
            "SM80_8x8x32_S32S4U4S32_TN",
            Value::Int(-8),
            Value::Int(15),
            Value::Int(0)
        ),
        Value::Int(-120)
    );
}

#[test]
fn floats_round_once_to_the_accumulator() {
    let real = Value::Real;
    // 2048 + 1 is halfway between two halves: to even. In f32 it is exact.
    assert_eq!(
        corner(
            "SM80_16x8x16_F16F16F16F16_TN",
            real(1.0),
            real(1.0),
            real(2048.0)
        ),
        real(2048.0)
    );
    assert_eq!(
        corner(
            "SM80_16x8x16_F32F16F16F32_TN",
            real(1.0),
            real(1.0),
            real(2048.0)
        ),
        real(2049.0)
    );
    assert_eq!(
        corner(
            "SM80_16x8x16_F16F16F16F16_TN",
            real(256.0),
            real(256.0),
            real(0.0)
        ),
        real(f64::INFINITY)
    );
    assert_eq!(
        corner(
            "SM80_16x8x16_F32F16F16F32_TN",
            real(f64::INFINITY),
            real(1.0),
            real(f64::NEG_INFINITY)
        )
        .to_string(),
        "NaN"
    );
    // A subnormal half is a number like others.
    let tiny = 2f64.powi(-24);
    assert_eq!(
        corner(
            "SM80_16x8x16_F32F16F16F32_TN",
            real(tiny),
            real(tiny),
            real(0.0)
        ),
        real(2f64.powi(-48))
    );
    // The third product is what is left of a cancellation: no step in between was rounded.
    let atom = mma("SM80_16x8x8_F32BF16BF16F32_TN").unwrap();
    let mut a = vec![real(0.0); 16 * 8];
    let mut b = vec![real(0.0); 8 * 8];
    for (k, (x, y)) in [(2f64.powi(60), 1.0), (-2f64.powi(60), 1.0), (1.0, 3.0)]
        .into_iter()
        .enumerate()
    {
        (a[16 * k], b[8 * k]) = (real(x), real(y));
    }
    assert_eq!(
        atom.multiply(&a, &b, &[real(0.0); 16 * 8]).unwrap()[0],
        real(3.0)
    );
}

#[test]
fn wgmma_negates_its_operands() {
    let atom = mma("SM90_64x8x16_F32F16F16_SS").unwrap();
    let ones = |size| vec![Value::Real(1.0); size];
    let options = GmmaOptions {
        negate_b: true,
        ..GmmaOptions::default()
    };
    let d = atom
        .with_options(options)
        .unwrap()
        .multiply(&ones(64 * 16), &ones(8 * 16), &ones(64 * 8))
        .unwrap();
    assert_eq!(d[0], Value::Real(-15.0));
}

#[test]
fn gauss_means_the_complex_product() {
    let (x, y) = (Value::complex(2.0, 3.0), Value::complex(5.0, -7.0));
    let sums = corner(
        "SM80_8x8x4_GC64C64C64GC64_TN",
        x,
        y,
        Value::Complex([0.0; 3]),
    );
    assert_eq!(sums, Value::Complex([10.0, -21.0, -10.0]));
    assert_eq!(
        sums.from_gauss(),
        corner("SM80_8x8x4_C64C64C64C64_TN", x, y, Value::complex(0.0, 0.0))
    );
}

#[test]
fn exactness_is_bits_or_a_bound() {
    let exactness = |name: &str| mma(name).unwrap().exactness();
    for name in [
        "SM80_16x8x32_S32S8S8S32_TN",
        "SM90_16x8x16_F64F64F64F64_TN",
        "SM80_16x8x256_S32U1U1S32_TN_XORPOPC",
    ] {
        assert_eq!(exactness(name), Exactness::Bits, "{name}");
    }
    let Exactness::Within { relative } = exactness("SM80_16x8x16_F32F16F16F32_TN") else {
        panic!()
    };
    assert!(relative < 3e-6, "{relative}");
    let within = Exactness::Within { relative };
    let near = |x: f64| within.allows(Value::Real(1.0), Value::Real(x), 1.0, Ty::F32);
    assert!(near(1.0) && near(1.000001) && !near(1.00001) && !near(f64::NAN));
    assert!(!Exactness::Bits.allows(Value::Real(0.0), Value::Real(-0.0), 0.0, Ty::F64));
}

#[test]
fn wrong_operands_are_named() {
    let atom = mma("SM80_16x8x16_F32F16F16F32_TN").unwrap();
    let zeros = |ty, values| vec![Fragment::zeros(ty, values); 32];
    let (a, b, c) = (zeros(Ty::F16, 8), zeros(Ty::F16, 4), zeros(Ty::F32, 4));
    let run = |a, b, c| atom.execute(a, b, c, &[]).unwrap_err().to_string();
    assert_eq!(
        run(Operand::Registers(&b), Operand::Registers(&b), &c),
        "operand A of `SM80_16x8x16_F32F16F16F32_TN` should be 32 fragments of 8 f16, not 32 fragments, of which fragment 0 has 4 f16"
    );
    assert_eq!(
        run(Operand::Registers(&a), Operand::Tile(&[]), &c),
        "operand B of `SM80_16x8x16_F32F16F16F32_TN` should be in registers, not a tile of shared memory"
    );
    assert_eq!(
        atom.execute(Operand::Registers(&a), Operand::Registers(&b), &c, &[0])
            .unwrap_err()
            .to_string(),
        "operand E of `SM80_16x8x16_F32F16F16F32_TN` should be absent, not 1 registers of metadata"
    );
    assert_eq!(
        atom.multiply(&[], &[], &[]).unwrap_err().to_string(),
        "operand A of `SM80_16x8x16_F32F16F16F32_TN` should be a tile of 256 elements, not a tile of 0 elements"
    );
}

#[test]
fn bad_metadata_is_named() {
    let atom = mma("SPARSE::GMMA_64x8x16_F32TF32TF32_SS_TN").unwrap();
    let stored = vec![Value::Real(1.0); 64 * 8];
    assert_eq!(
        atom.unpack(&stored, &[0x4444_4448; 128])
            .unwrap_err()
            .to_string(),
        "the metadata of `SPARSE::GMMA_64x8x16_F32TF32TF32_SS_TN` in row 0 at k = 0 is 0b1000: one of two is 0b0100 or 0b1110"
    );
    let atom = mma("SPARSE::GMMA_64x8x32_F32F16F16_SS").unwrap();
    assert_eq!(
        atom.unpack(&vec![Value::Real(1.0); 64 * 16], &[0x4444_4445; 128])
            .unwrap_err()
            .to_string(),
        "the metadata of `SPARSE::GMMA_64x8x32_F32F16F16_SS` in row 0 at k = 0 is 0b0101: two of four are two positions in ascending order, the lower in the low bits"
    );
    let dense = vec![Value::Real(1.0); 64 * 32];
    assert_eq!(
        atom.pack(&dense).unwrap_err().to_string(),
        "`SPARSE::GMMA_64x8x32_F32F16F16_SS` keeps 2 of 4 elements; row 0 has more at k = 0"
    );
    assert_eq!(
        mma("SM90_64x8x16_F32F16F16_SS")
            .unwrap()
            .pack(&dense)
            .unwrap_err()
            .to_string(),
        "operand E of `SM90_64x8x16_F32F16F16_SS` should be absent, not metadata of a sparse A"
    );
}
