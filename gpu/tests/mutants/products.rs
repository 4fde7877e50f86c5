//! Products of every generation before Hopper, and rows of their sums.

use colex_atom::{Arch, Ty};
use colex_gpu::ir::BinaryOp;
use colex_gpu::tensor::{AtThread, Builder, Error, Expr, Index, Rows, Tensor};
use colex_tiled::{Operand, TiledCopy, TiledMma};

use crate::copies::{builder, layout, parameter, shared, tiled};
use crate::hook::{Hook, Kind, Random};
use crate::reference::{Given, Memory, memory};
use crate::{Family, Program, target, tensor};

pub(crate) fn families() -> Vec<Family> {
    vec![
        Family {
            name: "SIMT product",
            build: simt,
        },
        Family {
            name: "Volta product",
            build: volta,
        },
        Family {
            name: "Ampere product",
            build: ampere,
        },
        Family {
            name: "rows of sums",
            build: rows,
        },
    ]
}

/// A tiled MMA, its atom and its atoms through the hook.
pub(crate) fn tiled_mma(
    h: &mut Hook,
    atom: &'static str,
    others: &[&'static str],
    atoms: &str,
    tile: &str,
) -> Result<TiledMma, Error> {
    let atom = h.pick("TiledMma::new", Kind::Type, atom, others);
    let atoms = h.layout("TiledMma::new", Kind::Count, &layout(atoms));
    Ok(TiledMma::new(colex_atom::mma(atom)?, &atoms, tile)?)
}

/// `C = A B^T` of what the tiles along K hold, each operand's tiles moved by what the hook says.
pub(crate) fn product(
    given: &[Given],
    [bm, bn, bk]: [i64; 3],
    shift: impl Fn(&str) -> i64,
    finish: impl Fn(&[f64], i64) -> f64,
) -> Vec<Given> {
    let (a, b) = (memory(&given[0]).clone(), memory(&given[1]).clone());
    let mut all = given.to_vec();
    let (Given::Tensor(c) | Given::Map(_, c)) = &mut all[2] else {
        unreachable!("a tensor")
    };
    let [am, ak, bn_, bk_] = ["a m", "a k", "b n", "b k"].map(shift);
    let rows = |of: &Memory, n: i64, k: i64, by: [i64; 2], tile: i64| -> Vec<Vec<f64>> {
        let row = |i: i64| {
            (0..k)
                .map(|j| of.get(&[i + by[0] * tile, j + by[1] * bk]))
                .collect()
        };
        (0..n).map(row).collect()
    };
    let up = |n: i64, tile: i64| (n + tile - 1) / tile * tile;
    let (m, n, k) = (
        up(c.extent(0), bm),
        up(c.extent(1), bn),
        up(a.extent(1), bk),
    );
    let a = rows(&a, m, k, [am, ak], bm);
    let b = rows(&b, n, k, [bn_, bk_], bn);
    for (i, a) in (0..).zip(&a) {
        // Accumulators begin at 0, a sum of the standard library at -0.
        let sums: Vec<f64> = b
            .iter()
            .map(|b| a.iter().zip(b).fold(0.0, |sum, (x, y)| sum + x * y))
            .collect();
        for j in 0..n {
            c.set(&[i, j], finish(&sums, j));
        }
    }
    all
}

fn grid(given: &[Given], tile: [i64; 2]) -> [u32; 3] {
    let c = memory(&given[2]);
    let blocks = |mode: usize| ((c.extent(mode) + tile[mode] - 1) / tile[mode]) as u32;
    [blocks(0), blocks(1), 1]
}

/// A product through shared memory: loads by elements, an MMA of threads or of quad-pairs, a store by elements.
struct Staged {
    name: &'static str,
    arch: Arch,
    atom: &'static str,
    others: &'static [&'static str],
    atoms: &'static str,
    tile: &'static str,
    threads: u32,
    ab: Ty,
    read: &'static str,
}

const STAGED: [i64; 3] = [16, 16, 8];

/// The tiles of A and B of one step along K.
fn step_tiles(
    h: &mut Hook,
    [a, b]: [&Tensor; 2],
    [bm, bn, bk]: [i64; 3],
    at: &[Index; 2],
    step: &Index,
) -> [Tensor; 2] {
    let mut tile = |of: &Tensor, [mn, k]: [&'static str; 2], extent, at| {
        let tile = h.tile("local_tile", [extent, bk]);
        let at = [
            h.moved("local_tile", mn, at),
            h.moved("local_tile", k, step),
        ];
        of.local_tile(tile, &at)
    };
    [
        tile(a, ["a m", "a k"], bm, &at[0]),
        tile(b, ["b n", "b k"], bn, &at[1]),
    ]
}

/// The copy that reads an operand by `ldmatrix`, or by what the hook takes in its place.
fn ldmatrix(h: &mut Hook, mma: &TiledMma, operand: Operand) -> Result<TiledCopy, Error> {
    let others = [
        "SM75_U16x8_LDSM_T",
        "UniversalCopy<uint32_t>",
        "SM75_U32x2_LDSM_N",
    ];
    let name = h.pick("for_operand", Kind::Type, "SM75_U32x4_LDSM_N", &others);
    Ok(TiledCopy::for_operand(
        colex_atom::copy(name)?,
        16,
        mma,
        operand,
    )?)
}

fn staged(h: &mut Hook, r: &mut Random, plan: &Staged) -> Result<Program, Error> {
    let [bm, bn, bk] = STAGED;
    let (ty, bits) = (plan.ab, plan.ab.bits());
    let (m, n, kk) = (r.range(3, 20), r.range(3, 20), r.range(1, 20));
    let mut k = builder(h, plan.name, plan.arch, plan.threads);
    let a = parameter(h, &mut k, "a", ty, "(100,96):(96,_1)");
    let b = parameter(h, &mut k, "b", ty, "(100,96):(96,_1)");
    let c = parameter(h, &mut k, "c", Ty::F32, "(100,96):(96,_1)");
    let inner = r.one(&["(16,8):(8,1)", "(16,8):(12,1)", "(16,8):(16,1)"]);
    let (sa, sb) = (
        shared(h, &mut k, ty, "Sw<0,4,3>", inner),
        shared(h, &mut k, ty, "Sw<0,4,3>", inner),
    );
    let load = tiled(
        h,
        &format!("UniversalCopy<uint{bits}_t>"),
        bits,
        &format!("({},8):(8,1)", plan.threads / 8),
        "(1,1):(0,0)",
    )?;
    let mma = tiled_mma(h, plan.atom, plan.others, plan.atoms, plan.tile)?;
    let reads = |operand| {
        TiledCopy::for_operand(colex_atom::copy(plan.read)?, i64::from(bits), &mma, operand)
            .map_err(Error::from)
    };
    let (read_a, read_b) = (reads(Operand::A)?, reads(Operand::B)?);
    let tid = k.thread();
    let at = [k.block_index(0), k.block_index(1)];
    let (put, get) = (h.place("partition", &tid), h.place("partition", &tid));
    let (ra, rb) = (
        k.fragment_of(&mma, Operand::A, h.tile("fragment_of", [bm, bk])),
        k.fragment_of(&mma, Operand::B, h.tile("fragment_of", [bn, bk])),
    );
    let sums = k.accumulators(&mma, h.tile("accumulators", [bm, bn]));
    let (from_a, from_b) = (
        read_a.at(&get).partition_src(&sa),
        read_b.at(&get).partition_src(&sb),
    );
    let steps = (a.extent(1) + (bk - 1)) / bk;
    k.for_(0, &steps, 1, |k, step| {
        let [ga, gb] = step_tiles(h, [&a, &b], [bm, bn, bk], &at, step);
        for (from, to) in [(&ga, &sa), (&gb, &sb)] {
            let part = load.at(&put).partition_src(from);
            let held = k.fragment_like(&part);
            k.copy_in_bounds(&load, &part, &held);
            let to = load.at(&put).partition_dst(to);
            k.copy(&load, &held, &h.pick("copy", Kind::Space, to, &[part]));
        }
        k.sync();
        k.copy(
            &read_a,
            &h.pick(
                "copy",
                Kind::Space,
                from_a.clone(),
                std::slice::from_ref(&from_b),
            ),
            &ra.retile(&read_a),
        );
        k.copy(&read_b, &from_b, &rb.retile(&read_b));
        let wrong = k.fragment(Ty::U16, ra.layout());
        k.mma(
            &mma,
            &h.pick("mma", Kind::Space, sums.clone(), &[ra.clone(), rb.clone()]),
            &h.pick(
                "mma",
                Kind::Type,
                ra.clone(),
                &[rb.clone(), sums.clone(), wrong.clone()],
            ),
            &h.pick("mma", Kind::Type, rb.clone(), &[sums.clone(), wrong]),
            &sums,
        );
        k.sync();
    });
    let store = TiledCopy::for_operand(
        colex_atom::copy("UniversalCopy<uint32_t>")?,
        32,
        &mma,
        Operand::C,
    )?;
    let gc = c.local_tile(h.tile("local_tile", [bm, bn]), &at);
    let to = store.at(&h.place("partition", &tid)).partition_dst(&gc);
    k.copy_in_bounds(
        &store,
        &sums.retile(&store),
        &h.pick("copy_in_bounds", Kind::Space, to, &[from_a, c]),
    );
    let shifts = h.shifts.clone();
    Ok(Program {
        built: k.finish()?,
        arch: plan.arch,
        given: vec![
            tensor(ty, &format!("({m},{kk}):({kk},_1)"), 1),
            tensor(ty, &format!("({n},{kk}):({},_1)", kk + 1), 2),
            target(Ty::F32, &format!("({m},{n}):({},_1)", n + 2)),
        ],
        cluster: 1,
        grid: |given| grid(given, [16, 16]),
        expected: Box::new(move |given| {
            let shift = |name: &str| shifts.get(name).copied().unwrap_or(0);
            product(given, STAGED, shift, |sums, j| sums[j as usize])
        }),
    })
}

fn simt(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let plan = Staged {
        name: "simt",
        arch: Arch::Sm80,
        atom: "UniversalFMA<float>",
        others: &["UniversalFMA<double>", "UniversalFMA<int32_t>"],
        atoms: "(8,8,1):(1,8,0)",
        tile: "(_,_,_)",
        threads: 64,
        ab: Ty::F32,
        read: "UniversalCopy<uint32_t>",
    };
    staged(h, r, &plan)
}

fn volta(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let plan = Staged {
        name: "volta",
        arch: Arch::Sm70,
        atom: "SM70_8x8x4_F32F16F16F32_TN",
        others: &[
            "SM70_8x8x4_F16F16F16F16_TN",
            "SM70_8x8x4_F32F16F16F32_NT",
            "UniversalFMA<float>",
        ],
        atoms: "(2,2,1):(1,2,0)",
        tile: "(_,_,_)",
        threads: 32,
        ab: Ty::F16,
        read: "UniversalCopy<uint64_t>",
    };
    staged(h, r, &plan)
}

const AMPERE: [i64; 3] = [32, 16, 32];

/// `cp.async` into swizzled shared memory, `ldmatrix`, `mma.sync`.
fn ampere_sums(
    h: &mut Hook,
    k: &mut Builder,
    ty: Ty,
) -> Result<
    (
        TiledMma,
        colex_gpu::tensor::Fragment,
        colex_gpu::tensor::Tensor,
    ),
    Error,
> {
    let [bm, bn, bk] = AMPERE;
    let a = parameter(h, k, "a", ty, "(100,96):(96,_1)");
    let b = parameter(h, k, "b", ty, "(100,96):(96,_1)");
    let c = parameter(h, k, "c", Ty::F32, "(100,96):(96,_1)");
    let (sa, sb) = (
        shared(h, k, ty, "Sw<2,3,3>", "(32,32):(32,1)"),
        shared(h, k, ty, "Sw<2,3,3>", "(16,32):(32,1)"),
    );
    let load = "SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>";
    let load = tiled(h, load, 16, "(16,4):(4,1)", "(1,8):(0,1)")?;
    let names = [
        "SM80_16x8x16_F32F16F16F32_TN",
        "SM80_16x8x16_F32BF16BF16F32_TN",
    ];
    let (own, other) = if ty == Ty::F16 {
        (names[0], names[1])
    } else {
        (names[1], names[0])
    };
    let others = [
        other,
        "SM80_16x8x16_F16F16F16F16_TN",
        "SM80_16x8x8_F32F16F16F32_TN",
        "SM80_16x8x8_F32BF16BF16F32_TN",
    ];
    let mma = tiled_mma(h, own, &others, "(2,1,1):(1,0,0)", "(32,16,16)")?;
    let read_a = ldmatrix(h, &mma, Operand::A)?;
    let read_b = ldmatrix(h, &mma, Operand::B)?;
    let tid = k.thread();
    let at = [k.block_index(0), k.block_index(1)];
    let (put, get) = (h.place("partition", &tid), h.place("partition", &tid));
    let (ra, rb) = (
        k.fragment_of(&mma, Operand::A, h.tile("fragment_of", [bm, bk])),
        k.fragment_of(&mma, Operand::B, h.tile("fragment_of", [bn, bk])),
    );
    let sums = k.accumulators(&mma, h.tile("accumulators", [bm, bn]));
    let (from_a, from_b) = (
        read_a.at(&get).partition_src(&sa),
        read_b.at(&get).partition_src(&sb),
    );
    let steps = (a.extent(1) + (bk - 1)) / bk;
    k.for_(0, &steps, 1, |k, step| {
        let [ga, gb] = step_tiles(h, [&a, &b], [bm, bn, bk], &at, step);
        for (from, to) in [(&ga, &sa), (&gb, &sb)] {
            let (from, to) = (
                load.at(&put).partition_src(from),
                load.at(&put).partition_dst(to),
            );
            k.copy_in_bounds(
                &load,
                &from,
                &h.pick(
                    "copy_in_bounds",
                    Kind::Space,
                    to,
                    std::slice::from_ref(&from),
                ),
            );
        }
        k.cp_async_commit();
        k.cp_async_wait(h.count("cp_async_wait", 0).clamp(0, 1 << 31) as u32);
        k.sync();
        let (into_a, into_b) = (ra.retile(&read_a), rb.retile(&read_b));
        k.copy(
            &read_a,
            &h.pick(
                "copy",
                Kind::Space,
                from_a.clone(),
                std::slice::from_ref(&from_b),
            ),
            &into_a,
        );
        k.copy(
            &read_b,
            &h.pick(
                "copy",
                Kind::Space,
                from_b.clone(),
                std::slice::from_ref(&from_a),
            ),
            &into_b,
        );
        let wrong = k.fragment(Ty::U16, ra.layout());
        k.mma(
            &mma,
            &h.pick("mma", Kind::Space, sums.clone(), &[ra.clone(), rb.clone()]),
            &h.pick(
                "mma",
                Kind::Type,
                ra.clone(),
                &[rb.clone(), sums.clone(), wrong.clone()],
            ),
            &h.pick(
                "mma",
                Kind::Type,
                rb.clone(),
                &[sums.clone(), wrong, ra.clone()],
            ),
            &sums,
        );
        k.sync();
    });
    let gc = c.local_tile(h.tile("local_tile", [bm, bn]), &at);
    Ok((mma, sums, gc))
}

fn ampere_given(r: &mut Random, ty: Ty) -> Vec<Given> {
    let (m, n, kk) = (r.range(3, 40), r.range(3, 30), r.range(1, 60));
    let ld = (kk + 7) / 8 * 8;
    vec![
        tensor(ty, &format!("({m},{kk}):({ld},_1)"), 1),
        tensor(ty, &format!("({n},{kk}):({ld},_1)"), 2),
        target(Ty::F32, &format!("({m},{n}):({},_1)", n + 2)),
    ]
}

fn ampere(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let ty = r.one(&[Ty::F16, Ty::Bf16]);
    let mut k = builder(h, "ampere", Arch::Sm80, 64);
    let (mma, sums, gc) = ampere_sums(h, &mut k, ty)?;
    let store = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let store = TiledCopy::for_operand(store, 32, &mma, Operand::C)?;
    let tid = k.thread();
    let to = store.at(&h.place("partition", &tid)).partition_dst(&gc);
    let out = sums.retile(&store);
    let integers = integers_like(&mut k, &out);
    k.copy_in_bounds(
        &store,
        &h.pick("copy_in_bounds", Kind::Type, out.clone(), &[integers]),
        &to,
    );
    let shifts = h.shifts.clone();
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm80,
        given: ampere_given(r, ty),
        cluster: 1,
        grid: |given| grid(given, [32, 16]),
        expected: Box::new(move |given| {
            let shift = |name: &str| shifts.get(name).copied().unwrap_or(0);
            product(given, AMPERE, shift, |sums, j| sums[j as usize])
        }),
    })
}

fn integers_like(k: &mut Builder, of: &colex_gpu::tensor::Fragment) -> colex_gpu::tensor::Fragment {
    k.fragment(Ty::S32, of.layout().to_static())
}

/// Each element less the largest of its row of the tile.
fn rows(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let ty = r.one(&[Ty::F16, Ty::Bf16]);
    let mut k = builder(h, "rows", Arch::Sm80, 64);
    let (mma, sums, gc) = ampere_sums(h, &mut k, ty)?;
    let rows = Rows::new(&mma, h.tile("Rows::new", [32, 16]))?;
    let top = k.row_values(&rows, h.ty("row_values", Ty::F32));
    k.fill(&top, f64::NEG_INFINITY);
    let over = rows.broadcast_rows(&h.pick(
        "over",
        Kind::Layout,
        top.clone(),
        std::slice::from_ref(&sums),
    ));
    let other = h.pick(
        "assign",
        Kind::Layout,
        sums.clone(),
        std::slice::from_ref(&top),
    );
    k.assign(&over, Expr::from(&over).max(other));
    let four = k.fragment(Ty::F32, "_4:_1");
    let first = top.values(0, 1);
    k.reduce_rows(
        BinaryOp::Max,
        &rows,
        &h.pick(
            "reduce_rows",
            Kind::Layout,
            top.clone(),
            &[over.clone(), sums.clone(), four, first],
        ),
    );
    k.assign(&sums, &sums - &over);
    let store = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let store = TiledCopy::for_operand(store, 32, &mma, Operand::C)?;
    let tid = k.thread();
    let to = store.at(&h.place("partition", &tid)).partition_dst(&gc);
    k.copy_in_bounds(&store, &sums.retile(&store), &to);
    let shifts = h.shifts.clone();
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm80,
        given: ampere_given(r, ty),
        cluster: 1,
        grid: |given| grid(given, [32, 16]),
        expected: Box::new(move |given| {
            let shift = |name: &str| shifts.get(name).copied().unwrap_or(0);
            product(given, AMPERE, shift, |sums, j| {
                let tile = (j / 16 * 16) as usize;
                let top = sums[tile..tile + 16]
                    .iter()
                    .copied()
                    .fold(f64::NEG_INFINITY, f64::max);
                sums[j as usize] - top
            })
        }),
    })
}
