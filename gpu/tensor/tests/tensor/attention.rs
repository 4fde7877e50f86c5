//! Rows of accumulators, accumulators as factors, and the example that is made of both.

#[path = "../../../examples/attention.rs"]
#[allow(dead_code, reason = "its main is run by cargo")]
mod example;

use std::collections::{BTreeMap, BTreeSet};

use colex_atom::{Arch, Ty};
use colex_gpu::Device;
use colex_ir::BinaryOp;
use colex_layout::{Int, IntTuple, Layout, Tiler};
use colex_tensor::{AtThread, Builder, Error, Index, Rows};
use colex_tiled::{Operand, TiledMma};

use crate::refused;

fn tiled(atom: &str, atoms: &str, tile: &str) -> TiledMma {
    let atom = colex_atom::mma(atom).unwrap_or_else(|e| panic!("{e}"));
    let atoms: Layout = atoms.parse().expect("a literal");
    let tile: Tiler = tile.parse().expect("a literal");
    TiledMma::new(atom, &atoms, &tile).unwrap_or_else(|e| panic!("{e}"))
}

fn said<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    let error = result.expect_err("it is refused");
    assert_eq!(error.at().file(), file!(), "the author's file is named");
    error.what()
}

/// Queries and keys that tiles divide and others, one of each, and fewer keys than queries; with and without the future.
#[test]
fn attention_is_right_at_many_sizes() {
    for is_causal in [false, true] {
        let built = example::attention(is_causal).unwrap_or_else(|e| panic!("{e}"));
        for sizes in [[64, 64], [150, 200], [1, 1], [70, 33], [33, 129]] {
            let worst = example::check(&Device::simulator(Arch::Sm80), &built, sizes, is_causal);
            let worst = worst.unwrap_or_else(|e| panic!("{sizes:?}: {e}"));
            assert!(worst < 2e-3, "{sizes:?}, causal {is_causal}: {worst}");
        }
    }
}

/// Everything that a row needs, once: 32 scores per thread take 32 powers, two rows two shuffles each, twice.
#[test]
fn attention_computes_nothing_twice() {
    let built = example::attention(false).unwrap_or_else(|e| panic!("{e}"));
    let text = built.kernel.ptx().unwrap_or_else(|e| panic!("{e}"));
    let count = |word: &str| text.matches(word).count();
    assert_eq!(count("ex2.approx"), 32 + 2);
    assert_eq!(count("shfl.sync.bfly"), 2 * (2 + 2));
    assert_eq!(count("max.f32"), 32 + 4);
    assert_eq!(count("mma.sync"), 32 + 32);
    assert_eq!(count("cvt.rn.f16x2.f32"), 16 + 16);
}

/// Where each thread has every value of a tile, by the partition of `colex-tiled`.
fn places(mma: &TiledMma, operand: Operand, tile: [i64; 2]) -> Vec<Vec<[i64; 2]>> {
    let whole = Layout::column_major(IntTuple::flat(tile.map(Int::Static))).expect("a tile");
    let of = |t| {
        let part = mma.slice(t).expect("a thread").partition(&whole, operand);
        let values = part.expect("a part").values().expect("values");
        let place = |v: &IntTuple| v.leaves().iter().map(|n| n.value()).sum::<i64>();
        values
            .iter()
            .map(|v| [place(v) % tile[0], place(v) / tile[0]])
            .collect()
    };
    (0..mma.threads()).map(of).collect()
}

const ROWS: [(&str, &str, &str, [i64; 2]); 7] = [
    (
        "SM80_16x8x16_F32F16F16F32_TN",
        "(4,1,1):(1,0,0)",
        "(64,16,16)",
        [64, 64],
    ),
    (
        "SM80_16x8x16_F32F16F16F32_TN",
        "(1,1,1):(0,0,0)",
        "(16,8,16)",
        [32, 24],
    ),
    (
        "SM80_16x8x8_F32TF32TF32F32_TN",
        "(2,1,1):(1,0,0)",
        "(32,8,8)",
        [64, 16],
    ),
    (
        "SM80_8x8x4_F64F64F64F64_TN",
        "(2,1,1):(1,0,0)",
        "(16,8,4)",
        [16, 32],
    ),
    (
        "SM80_16x8x32_S32S8S8S32_TN",
        "(3,1,1):(1,0,0)",
        "(48,8,32)",
        [48, 8],
    ),
    (
        "SM70_8x8x4_F32F16F16F32_TN",
        "(1,1,1):(0,0,0)",
        "(8,8,4)",
        [16, 16],
    ),
    (
        "SM90_64x64x16_F32F16F16_SS<Major::K,Major::K>",
        "(2,1,1):(1,0,0)",
        "(128,64,16)",
        [128, 64],
    ),
];

/// Values of one slot are in one row, those of two slots in two; and the lanes that the distances reach from a lane, and
/// no others, have the rest of its rows.
#[test]
fn law_rows_are_those_of_the_partition() {
    let mut cases = 0;
    for (atom, atoms, tile, extents) in ROWS {
        let mma = tiled(atom, atoms, tile);
        let rows = Rows::new(&mma, extents).unwrap_or_else(|e| panic!("{atom}: {e}"));
        let all = places(&mma, Operand::C, extents);
        let mut holders: BTreeMap<i64, BTreeSet<usize>> = BTreeMap::new();
        for (t, places) in all.iter().enumerate() {
            let mut slots: BTreeMap<i64, i64> = BTreeMap::new();
            for (i, [row, _]) in (0..).zip(places) {
                let slot = rows.layout().at(i).expect("an index");
                assert_eq!(
                    slots.entry(slot).or_insert(*row),
                    row,
                    "{atom}: value {i} of {t}"
                );
                holders.entry(*row).or_default().insert(t);
                cases += 1;
            }
            assert_eq!(slots.len() as i64, rows.count(), "{atom}");
            assert!(slots.values().is_sorted(), "{atom}: rows ascend");
        }
        for (row, threads) in holders {
            let first = *threads.first().expect("a holder");
            let mut reached = BTreeSet::from([first]);
            for lane in rows.lanes() {
                reached = reached
                    .iter()
                    .flat_map(|t| [*t, t ^ *lane as usize])
                    .collect();
            }
            assert_eq!(reached, threads, "{atom}: row {row}");
        }
    }
    println!("law tensor.rows: {cases} values");
}

/// `places` is the partition, at every thread.
#[test]
fn law_places_are_those_of_the_partition() {
    let mut cases = 0;
    for (atom, atoms, tile, extents) in ROWS {
        let mma = tiled(atom, atoms, tile);
        let mut k = Builder::new("k", Arch::Sm90a, mma.threads().max(32) as u32);
        let thread = k.thread();
        let thread = k.within(thread, 0..mma.threads());
        let said = mma.at(&thread).places(Operand::C, extents);
        for (t, places) in (0..).zip(places(&mma, Operand::C, extents)) {
            let value = |x: &Index| x.eval(&|_| Some(t)).expect("a value");
            let found: Vec<[i64; 2]> = said.iter().map(|[m, n]| [value(m), value(n)]).collect();
            assert_eq!(found, places, "{atom}: thread {t}");
            cases += places.len();
        }
    }
    println!("law tensor.places: {cases} values");
}

/// The registers that the operand names hold the elements that the other instruction wants, in every thread.
#[test]
fn law_accumulators_as_operands() {
    let half = "SM80_16x8x16_F32F16F16F32_TN";
    let warps = ("(4,1,1):(1,0,0)", "(64,16,16)");
    let rs = "SM90_64x64x16_F32F16F16_RS<Major::K,Major::K>";
    let ss = "SM90_64x64x16_F32F16F16_SS<Major::K,Major::K>";
    let group = ("(1,1,1):(0,0,0)", "(64,64,16)");
    let one = ("(1,1,1):(0,0,0)", "(16,8,16)");
    let cases = [
        (half, half, warps, Operand::A, [64, 64]),
        (half, half, one, Operand::A, [16, 32]),
        (half, half, one, Operand::B, [16, 16]),
        (ss, rs, group, Operand::A, [64, 64]),
    ];
    for (from, to, (atoms, tile), operand, extents) in cases {
        let (from, to) = (tiled(from, atoms, tile), tiled(to, atoms, tile));
        let mut k = Builder::new("k", Arch::Sm90a, 128);
        let sums = k.accumulators(&from, extents);
        let halves = k.convert(&sums, Ty::F16);
        let factor = halves.as_operand(&from, &to, operand, extents);
        let _ = k
            .finish()
            .unwrap_or_else(|e| panic!("{} as {operand:?}: {e}", to.atom().name()));
        let (have, wanted) = (
            places(&from, Operand::C, extents),
            places(&to, operand, extents),
        );
        for (have, wanted) in have.iter().zip(wanted) {
            for (i, wanted) in (0..).zip(wanted) {
                let offset = factor.layout().at(i).expect("an index");
                let value = (0..)
                    .zip(have)
                    .find(|(j, _)| halves.layout().at(*j) == Ok(offset));
                assert_eq!(value.map(|(_, place)| *place), Some(wanted), "value {i}");
            }
        }
    }
}

#[test]
fn what_would_have_to_move_is_refused() {
    let across = tiled(
        "SM80_16x8x16_F32F16F16F32_TN",
        "(2,2,1):(1,2,0)",
        "(32,32,16)",
    );
    assert_eq!(
        said(Rows::new(&across, [64, 64])),
        "rows: warps 0 and 2 have parts of row 0: atoms along M only give each warp whole rows"
    );
    let half = tiled(
        "SM80_16x8x16_F32F16F16F32_TN",
        "(1,1,1):(0,0,0)",
        "(16,8,16)",
    );
    let bytes = tiled("SM80_16x8x32_S32S8S8S32_TN", "(1,1,1):(0,0,0)", "(16,8,32)");
    let rows = Rows::new(&half, [16, 32]).expect("rows");
    let warp = || Builder::new("k", Arch::Sm80, 32);
    let scene = |k: &mut Builder| {
        let sums = k.accumulators(&half, (16, 32));
        let halves = k.convert(&sums, Ty::F16);
        (sums, halves)
    };
    assert_eq!(
        refused(warp(), scene, |_, (sums, _)| {
            sums.as_operand(&half, &bytes, Operand::A, (16, 32));
        }),
        "as_operand: thread 0 wants element (0,2) as A of SM80_16x8x32_S32S8S8S32_TN, which is not among its \
         accumulators of SM80_16x8x16_F32F16F16F32_TN"
    );
    assert_eq!(
        refused(warp(), scene, |_, (sums, _)| {
            sums.as_operand(&half, &half, Operand::C, (16, 32));
        }),
        "as_operand: C is no factor: A and B are"
    );
    let two = tiled(
        "SM80_16x8x16_F32F16F16F32_TN",
        "(1,2,1):(0,1,0)",
        "(16,16,16)",
    );
    assert_eq!(
        refused(warp(), scene, |_, (sums, _)| {
            sums.as_operand(&half, &two, Operand::A, (16, 32));
        }),
        "as_operand: 32 threads and 16 values of C of SM80_16x8x16_F32F16F16F32_TN, 64 threads of \
         SM80_16x8x16_F32F16F16F32_TN, and the fragment ((_2,_2),_1,_4):((_1,_2),_0,_4): threads and values are the same"
    );
    assert_eq!(
        refused(warp(), scene, |_, (sums, _)| drop(
            rows.broadcast_rows(&sums)
        )),
        "broadcast_rows: ((_2,_2),_1,_4):((_1,_2),_0,_4) for 2 rows: numbers of `row_values` are"
    );
    assert_eq!(
        refused(warp(), scene, |k, (_, halves)| k.reduce_rows(
            BinaryOp::Add,
            &rows,
            &halves
        )),
        "reduce_rows: 16 elements of ((_2,_2),_1,_4):((_1,_2),_0,_4), which are no numbers of rows: those of `row_values` are"
    );
    assert_eq!(
        refused(warp(), scene, |k, (sums, halves)| k.assign(&halves, &sums)),
        "assign: f32 into elements of f16: `.to(Ty::F16)` converts"
    );
    assert_eq!(
        refused(warp(), scene, |k, (sums, _)| {
            k.assign(&sums, &sums + sums.values(0, 4));
        }),
        "assign: a fragment of _4 and one of ((_2,_2),_1,_4): they have the same number of elements, or the same modes where \
         extents of 1 are broadcast"
    );
}
