//! What registers hold of a tile: every operation on them moves or joins elements of the same coordinates, or is refused.

use std::collections::HashMap;

use colex_atom::{Arch, Ty};
use colex_gpu::tensor::{AtThread, Builder, Fragment, Index, Tensor};
use colex_layout::{IntTuple, Layout};
use colex_tiled::{Operand, TiledCopy, TiledMma};

use crate::refused;

fn word() -> colex_atom::CopyAtom {
    colex_atom::copy("UniversalCopy<uint32_t>").expect("an atom")
}

fn tiled(threads: &str, values: &str) -> TiledCopy {
    TiledCopy::new(word(), 32, threads, values).expect("a tiled copy")
}

fn mma(atoms: &str, tile: &str) -> TiledMma {
    let atom = colex_atom::mma("SM80_16x8x8_F32TF32TF32F32_TN").expect("an atom");
    TiledMma::new(atom, atoms, tile).expect("a tiled MMA")
}

fn parameter(k: &mut Builder, name: &str) -> Tensor {
    k.tensor(name, Ty::F32, "(100,96):(96,_1)")
}

/// A tile at the beginning of a parameter.
fn tile(of: &Tensor, extents: [i64; 2]) -> Tensor {
    of.local_tile(extents, (0, 0))
}

fn warp() -> Builder {
    Builder::new("k", Arch::Sm80, 32)
}

/// A tile of fewer columns has as many elements for each thread, and not the same ones.
#[test]
fn registers_of_a_plain_fragment_know_the_tile_that_was_loaded() {
    let copy = tiled("(4,8):(8,1)", "(1,1):(0,0)");
    let scene = |k: &mut Builder| {
        let (from, to) = (parameter(k, "from"), parameter(k, "to"));
        let tid = k.thread();
        let mine = copy.at(&tid);
        let source = mine.partition_src(&tile(&from, [8, 4]));
        let target = mine.partition_dst(&tile(&to, [8, 8]));
        let held = k.fragment(Ty::F32, "(_1,_2):(_0,_1)");
        k.copy_in_bounds(&copy, &source, &held);
        let whole = mine.partition_src(&tile(&from, [8, 8]));
        let other = k.fragment_like(&whole);
        k.copy_in_bounds(&copy, &whole, &other);
        (target, held, other)
    };
    assert_eq!(
        refused(warp(), scene, |k, (target, held, _)| k
            .copy_in_bounds(&copy, &held, &target)),
        "copy: the source is a part of a tile of [8, 4], and the destination of one of [8, 8]: both tiles have the same extents"
    );
    // The same of two fragments that are joined.
    assert_eq!(
        refused(warp(), scene, |k, (_, held, other)| {
            let sum = k.fragment(Ty::F32, other.layout());
            k.assign(&sum, &held + &other);
        }),
        "assign: one fragment is a part of a tile of [8, 4], and another of one of [8, 8]: both tiles have the same extents"
    );
    assert_eq!(
        refused(warp(), scene, |k, (_, held, other)| {
            k.assign(&other, 2.0 * &held + &other);
        }),
        "assign: one fragment is a part of a tile of [8, 8], and another of one of [8, 4]: both tiles have the same extents"
    );
}

/// Loads a tile of these extents into registers, and stores them as one of those.
fn through(k: &mut Builder, held: &Fragment, [load, store]: [Option<[i64; 2]>; 2]) {
    let copy = tiled("(4,8):(8,1)", "(1,1):(0,0)");
    let thread = k.thread();
    let mine = copy.at(&thread);
    if let Some(extents) = load {
        let from = parameter(k, "from");
        k.copy_in_bounds(&copy, &mine.partition_src(&tile(&from, extents)), held);
    }
    if let Some(extents) = store {
        let to = parameter(k, "to");
        k.copy_in_bounds(&copy, held, &mine.partition_dst(&tile(&to, extents)));
    }
}

/// Two elements for each thread of a tile of either extents.
const NARROW: [i64; 2] = [8, 4];
const SQUARE: [i64; 2] = [8, 8];

/// Builds with a plain fragment of two elements: what is refused, if anything is.
fn with_pair(body: impl FnOnce(&mut Builder, &Fragment)) -> Result<(), String> {
    let mut k = warp();
    let held = k.fragment(Ty::F32, "(_1,_2):(_0,_1)");
    body(&mut k, &held);
    k.finish().map(|_| ()).map_err(|e| e.to_string())
}

fn ends_with(result: Result<(), String>, sentence: &str) {
    let said = result.expect_err("it is refused");
    assert!(said.ends_with(sentence), "{said}");
}

const OTHER_TILE: &str = "copy: the source is a part of a tile of [8, 8], and the destination of one of [8, 4]: both tiles have \
                          the same extents";

#[test]
fn a_plain_fragment_is_filled_again_with_a_tile_of_other_extents() {
    let refilled = |k: &mut Builder, held: &Fragment| {
        through(k, held, [Some(NARROW); 2]);
        through(k, held, [Some(SQUARE); 2]);
    };
    assert_eq!(with_pair(refilled), Ok(()));
    let last = with_pair(|k, held| {
        refilled(k, held);
        through(k, held, [None, Some(NARROW)]);
    });
    ends_with(last, OTHER_TILE);
    // A number is an element of any tile.
    let zeros = with_pair(|k, held| {
        refilled(k, held);
        k.fill(held, 0.0);
        through(k, held, [None, Some(NARROW)]);
    });
    assert_eq!(zeros, Ok(()));
    // Registers that were made for a tile stay with it.
    let own = with_pair(|k, _| {
        let (like, thread) = (parameter(k, "like"), k.thread());
        let copy = tiled("(4,8):(8,1)", "(1,1):(0,0)");
        let part = copy.at(&thread).partition_src(&tile(&like, SQUARE));
        let own = k.fragment_like(&part);
        through(k, &own, [Some(NARROW), None]);
    });
    ends_with(own, "both tiles have the same extents");
}

#[test]
fn branches_that_fill_registers_with_other_tiles_do_not_agree() {
    let branches = |k: &mut Builder, [then, other]: [&dyn Fn(&mut Builder); 2]| {
        let block = k.block_index(0);
        let cond = k.less(&block, &3.into());
        k.if_else(cond, then, other);
    };
    // Each side stores what it has loaded.
    let both = |k: &mut Builder, held: &Fragment| {
        let sides = [NARROW, SQUARE].map(|t| move |k: &mut Builder| through(k, held, [Some(t); 2]));
        branches(k, [&sides[0], &sides[1]]);
    };
    let again = with_pair(|k, held| {
        both(k, held);
        through(k, held, [Some(SQUARE); 2]);
    });
    assert_eq!(again, Ok(()));
    let after = with_pair(|k, held| {
        both(k, held);
        through(k, held, [None, Some(SQUARE)]);
    });
    ends_with(
        after,
        "copy: the registers hold elements of one tile after one branch or turn of a loop, and of another tile after another: \
         fill the fragment again before it is read",
    );
    // The other side finds what was there before the branch.
    let before = with_pair(|k, held| {
        through(k, held, [Some(SQUARE), None]);
        let then = |k: &mut Builder| through(k, held, [Some(NARROW), None]);
        branches(k, [&then, &|k| through(k, held, [None, Some(NARROW)])]);
    });
    ends_with(before, OTHER_TILE);
}

#[test]
fn the_second_turn_of_a_loop_finds_what_the_first_has_left() {
    let filled_first = |k: &mut Builder, held: &Fragment| {
        k.for_(0, 4, 1, |k, _| {
            through(k, held, [Some(NARROW); 2]);
            through(k, held, [Some(SQUARE); 2]);
        });
    };
    assert_eq!(with_pair(filled_first), Ok(()));
    let after = with_pair(|k, held| {
        filled_first(k, held);
        through(k, held, [None, Some(SQUARE)]);
    });
    ends_with(after, "fill the fragment again before it is read");
    // Stored, and the next one loaded ahead: of the same tile, and of another one.
    let ahead = |next: [i64; 2]| {
        with_pair(|k, held| {
            through(k, held, [Some(SQUARE), None]);
            k.for_(0, 4, 1, |k, _| {
                through(k, held, [None, Some(SQUARE)]);
                through(k, held, [Some(next), None]);
            });
        })
    };
    assert_eq!(ahead(SQUARE), Ok(()));
    ends_with(
        ahead(NARROW),
        "loop: the first turn reads elements of a tile from %f0 that were there before, and leaves those of another tile for the \
         next turn: fill the fragment in each turn before it is read",
    );
}

/// What one copy loads, a copy of other threads and values stores elsewhere.
#[test]
fn registers_are_stored_by_the_threads_and_values_that_loaded_them() {
    let (load, store) = (
        tiled("(4,8):(8,1)", "(1,2):(0,1)"),
        tiled("(4,8):(8,1)", "(2,1):(1,0)"),
    );
    let scene = |k: &mut Builder| {
        let (from, to) = (parameter(k, "from"), parameter(k, "to"));
        let tid = k.thread();
        let source = load.at(&tid).partition_src(&tile(&from, [16, 16]));
        let held = k.fragment_like(&source);
        k.copy_in_bounds(&load, &source, &held);
        (tid, tile(&to, [16, 16]), held)
    };
    assert_eq!(
        refused(warp(), scene, |k, (tid, to, held)| {
            k.copy_in_bounds(&store, &held, &store.at(&tid).partition_dst(&to));
        }),
        "copy: element 1 of the source is the one at [0, 1] of the tile of [16, 16] in thread 0, and that of the destination the \
         one at [1, 0]: partition both by the same threads and values, and `retile` a fragment for another copy"
    );
    assert_eq!(
        refused(warp(), scene, |k, (tid, to, held)| {
            let neighbour = load.at(&tid.xor(&1.into())).partition_dst(&to);
            k.copy_in_bounds(&load, &held, &neighbour);
        }),
        "copy: element 0 of the source is the one at [0, 0] of the tile of [16, 16] in thread 0, and that of the destination the \
         one at [0, 2]: partition both by the same threads and values, and `retile` a fragment for another copy"
    );
}

/// Registers that were made for, or loaded by, other atoms than those that multiply them.
#[test]
fn a_product_takes_the_elements_that_its_registers_hold() {
    let (wide, tall) = (
        mma("(2,2,1):(1,2,0)", "(_,_,_)"),
        mma("(2,2,1):(2,1,0)", "(_,_,_)"),
    );
    let block = || Builder::new("k", Arch::Sm80, 128);
    let scene = |k: &mut Builder| {
        let a = k.fragment_of(&wide, Operand::A, (32, 8));
        let b = k.fragment_of(&wide, Operand::B, (16, 8));
        let c = k.fragment_of(&wide, Operand::C, (32, 16));
        k.clear(&c);
        k.mma(&wide, &c, &a, &b, &c);
        (a, b)
    };
    let mut k = block();
    scene(&mut k);
    k.finish().expect("they are its own");
    assert_eq!(
        refused(block(), scene, |k, (a, b)| {
            let transposed = k.fragment_of(&tall, Operand::C, (32, 16));
            k.mma(&wide, &transposed, &a, &b, &transposed);
        }),
        "mma: element 0 of the fragment for C is the one at [0, 8] of the tile of [32, 16] in thread 32, and that of what the \
         product takes of it the one at [16, 0]: partition both by the same threads and values, and `retile` a fragment for \
         another copy"
    );
    assert_eq!(
        refused(block(), scene, |k, (a, b)| {
            let short = k.fragment_of(&wide, Operand::C, (24, 16));
            k.mma(&wide, &short, &a, &b, &short);
        }),
        "mma: the fragment for C is of a tile of 24 along M, and the fragment for A of 32: both are the same"
    );
}

fn next(state: &mut u64) -> usize {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

fn cases(otherwise: usize) -> usize {
    let given = std::env::var("COLEX_HELD_CASES").ok();
    given.and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

type Places = Vec<Vec<i64>>;

fn places(values: Vec<IntTuple>) -> Places {
    let leaves = |value: IntTuple| value.leaves().iter().map(|n| n.value()).collect();
    values.into_iter().map(leaves).collect()
}

fn identity(extents: [i64; 2]) -> Layout {
    Layout::identity(IntTuple::flat(extents.map(colex_layout::Int::Static))).expect("extents")
}

/// The thread of a partition as the kernel computes it, and as a number.
fn thread(which: usize, tid: &Index) -> (Index, fn(i64) -> i64) {
    match which {
        0..=4 => (tid.clone(), |t| t),
        5 => (tid.xor(&1.into()), |t| t ^ 1),
        6 => ((tid + 1) % 32, |t| (t + 1) % 32),
        // The same numbers in other words.
        _ => ((tid / 8) * 8 + tid % 8, |t| t),
    }
}

/// A load and a store through registers are accepted exactly where all threads hold the same coordinates of both tiles.
#[test]
fn law_copies_through_registers_keep_coordinates() {
    let threads = [
        "(4,8):(8,1)",
        "(4,8):(1,4)",
        "(8,4):(4,1)",
        "(2,16):(16,1)",
        "(32,1):(1,0)",
    ];
    let values = [
        "(1,1):(0,0)",
        "(1,2):(0,1)",
        "(2,1):(1,0)",
        "(2,2):(2,1)",
        "(2,2):(1,2)",
    ];
    let extents = [
        [8, 8],
        [8, 16],
        [16, 8],
        [16, 16],
        [8, 12],
        [12, 8],
        [8, 7],
        [32, 4],
    ];
    let (cases, mut state) = (cases(150), 7u64);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..cases {
        let mut one = |of: &[&'static str]| of[next(&mut state) % of.len()];
        let (t1, v1) = (one(&threads), one(&values));
        // Half of the pairs differ in one thing at most.
        let (t2, v2) = match next(&mut state) % 4 {
            0 => (t1, v1),
            1 => (t1, values[next(&mut state) % values.len()]),
            _ => (threads[next(&mut state) % threads.len()], v1),
        };
        let (load, store) = (tiled(t1, v1), tiled(t2, v2));
        let e1 = extents[next(&mut state) % extents.len()];
        let e2 = if !next(&mut state).is_multiple_of(3) {
            e1
        } else {
            extents[next(&mut state) % extents.len()]
        };
        let mut k = Builder::new("k", Arch::Sm80, 32);
        let (from, to) = (parameter(&mut k, "from"), parameter(&mut k, "to"));
        let tid = k.thread();
        let (i1, n1) = thread(next(&mut state) % 8, &tid);
        let (i2, n2) = thread(next(&mut state) % 8, &tid);
        let source = load.at(&i1).partition_src(&tile(&from, e1));
        let target = store.at(&i2).partition_dst(&tile(&to, e2));
        let held = k.fragment_like(&source);
        let plain = k.fragment(Ty::F32, held.layout());
        k.copy_in_bounds(&load, &source, &plain);
        k.copy_in_bounds(&store, &plain, &target);
        let found = k.finish();
        let of = |copy: &TiledCopy, n: i64, extents| {
            let part = copy
                .slice(n)
                .and_then(|part| part.partition_src(identity(extents)));
            places(part.and_then(|part| part.values()).expect("coordinates"))
        };
        let same = e1 == e2 && (0..32).all(|t| of(&load, n1(t), e1) == of(&store, n2(t), e2));
        let form = format!("{t1} {v1} of {e1:?} at {i1}, {t2} {v2} of {e2:?} at {i2}");
        assert_eq!(found.is_ok(), same, "{form}: {found:?}");
        *(if same { &mut taken } else { &mut refused }) += 1;
    }
    assert!(
        taken > cases / 10 && refused > cases / 10,
        "{taken} {refused}"
    );
    println!("law held.copies: {cases} cases");
}

/// Some of the elements of a thread's part `(V, M, N)`: which, by their indices, and the word for it.
#[derive(Clone, Copy, Debug)]
enum Piece {
    Row(i64),
    Column(i64),
    Values(i64, i64),
    /// The same columns and rows in the other order.
    Transposed,
}

impl Piece {
    fn draw(sizes: [i64; 3]) -> impl Fn(&mut dyn FnMut(i64) -> i64) -> Piece {
        let [v, m, n] = sizes;
        move |draw| match draw(5) {
            0 => Piece::Row(draw(m)),
            1 | 2 => Piece::Column(draw(n)),
            3 => Piece::Values(draw(n) * v * m, v * m),
            _ => Piece::Transposed,
        }
    }

    fn indices(self, [v, m, n]: [i64; 3]) -> Vec<i64> {
        let at = |i, j| (0..v).map(move |k| k + v * (i + m * j));
        match self {
            Piece::Row(i) => (0..n).flat_map(|j| at(i, j)).collect(),
            Piece::Column(j) => (0..m).flat_map(|i| at(i, j)).collect(),
            Piece::Values(first, count) => (first..first + count).collect(),
            Piece::Transposed => {
                let transposed = (0..m).flat_map(|i| (0..n).map(move |j| (i, j)));
                transposed.flat_map(|(i, j)| at(i, j)).collect()
            }
        }
    }

    fn of_fragment(self, of: &Fragment, [v, m, n]: [i64; 3]) -> Fragment {
        match self {
            Piece::Row(i) => of.slice((.., i, ..)),
            Piece::Column(j) => of.slice((.., .., j)),
            Piece::Values(first, count) => of.values(first, count),
            Piece::Transposed => {
                let form = format!("(_{v},_{n},_{m}):(_1,_{},_{v})", v * m);
                of.with_layout(&form).gathered(0, v * m * n)
            }
        }
    }

    /// The same of a tensor, where a column is at a place that only the kernel knows if `block` is given.
    fn of_tensor(self, of: &Tensor, [v, m, n]: [i64; 3], block: Option<&Index>) -> Tensor {
        match (self, block) {
            (Piece::Row(i), _) => of.slice((.., i, ..)),
            (Piece::Column(_), Some(block)) => of.at(2, block % n),
            (Piece::Column(j), None) => of.slice((.., .., j)),
            (Piece::Values(first, count), _) => {
                let parts = format!("(_{count},_{}):(_1,_{count})", v * m * n / count);
                of.compose(&parts).at(1, first / count)
            }
            (Piece::Transposed, _) => of.compose(format!("(_{v},_{n},_{m}):(_1,_{},_{v})", v * m)),
        }
    }
}

/// A copy between parts is accepted exactly where it moves the elements of all threads by one shift.
#[test]
fn law_copies_of_parts_move_by_one_shift() {
    let threads = ["(4,8):(8,1)", "(4,8):(1,4)", "(8,4):(4,1)"];
    let values = ["(1,1):(0,0)", "(1,2):(0,1)", "(2,1):(1,0)", "(2,2):(2,1)"];
    let extents = [[16, 16], [16, 32], [32, 16], [16, 14], [32, 32]];
    let (cases, mut state) = (cases(250), 11u64);
    let (mut taken, mut refused) = (0, 0);
    let mut drawn = 0;
    while taken + refused < cases {
        drawn += 1;
        assert!(drawn < 40 * cases, "pieces of one size are rare");
        let mut draw = |n: i64| (next(&mut state) % n as usize) as i64;
        let one = |draw: &mut dyn FnMut(i64) -> i64, of: &[&'static str]| {
            of[draw(of.len() as i64) as usize]
        };
        let (t1, v1) = (one(&mut draw, &threads), one(&mut draw, &values));
        let (t2, v2) = match draw(4) {
            0 => (one(&mut draw, &threads), v1),
            1 => (t1, one(&mut draw, &values)),
            _ => (t1, v1),
        };
        let (load, store) = (tiled(t1, v1), tiled(t2, v2));
        let e1 = extents[draw(5) as usize];
        let e2 = if draw(3) == 0 {
            extents[draw(5) as usize]
        } else {
            e1
        };
        let mut k = warp();
        let (from, to) = (parameter(&mut k, "from"), parameter(&mut k, "to"));
        let tid = k.thread();
        let (i1, n1) = thread(0, &tid);
        let (i2, n2) = thread(if draw(4) == 0 { 5 } else { 0 }, &tid);
        let source = load.at(&i1).partition_src(&tile(&from, e1));
        let target = store.at(&i2).partition_dst(&tile(&to, e2));
        let sizes = |of: &Layout| [0, 1, 2].map(|i| of.mode(i).expect("a mode").size());
        let (s, t) = (sizes(source.layout()), sizes(target.layout()));
        let p1 = Piece::draw(s)(&mut draw);
        let p2 = if draw(2) == 0 && s == t {
            p1
        } else {
            Piece::draw(t)(&mut draw)
        };
        let (out, into) = (p1.indices(s), p2.indices(t));
        if out.len() != into.len() {
            continue;
        }
        let held = k.fragment_like(&source);
        let plain = k.fragment(Ty::F32, held.layout());
        k.copy_in_bounds(&load, &source, &plain);
        let block = k.block_index(0);
        let block = (draw(2) == 0).then_some(&block);
        let (piece, end) = (p1.of_fragment(&plain, s), p2.of_tensor(&target, t, block));
        k.copy_in_bounds(&store, &piece, &end);
        let found = k.finish();
        let of = |copy: &TiledCopy, n: i64, extents| {
            let part = copy
                .slice(n)
                .and_then(|part| part.partition_src(identity(extents)));
            places(part.and_then(|part| part.values()).expect("coordinates"))
        };
        let mut shifts = std::collections::HashSet::new();
        for t in 0..32 {
            let (from, to) = (of(&load, n1(t), e1), of(&store, n2(t), e2));
            for (i, j) in out.iter().zip(&into) {
                let (from, to) = (&from[*i as usize], &to[*j as usize]);
                shifts.insert([from[0] - to[0], from[1] - to[1]]);
            }
        }
        let same = shifts.len() == 1;
        let form = format!("{p1:?} of {t1} {v1} of {e1:?}, {p2:?} of {t2} {v2} of {e2:?}");
        assert_eq!(found.is_ok(), same, "{form}: {found:?}");
        *(if same { &mut taken } else { &mut refused }) += 1;
    }
    assert!(
        taken > cases / 10 && refused > cases / 10,
        "{taken} {refused}"
    );
    println!("law held.parts: {cases} cases");
}

/// A tile of 16 by 32 in columns of four vectors, loaded by slices, and what follows.
fn by_slices(
    body: impl FnOnce(&mut Builder, &Fragment, [&Tensor; 2], &TiledCopy),
) -> Result<(), String> {
    let copy = tiled("(4,8):(8,1)", "(1,1):(0,0)");
    let mut k = warp();
    let (from, to) = (parameter(&mut k, "from"), parameter(&mut k, "to"));
    let tid = k.thread();
    let source = copy.at(&tid).partition_src(&tile(&from, [16, 32]));
    let target = copy.at(&tid).partition_dst(&tile(&to, [16, 32]));
    let held = k.fragment(Ty::F32, "(_1,_4,_4):(_0,_1,_4)");
    body(&mut k, &held, [&source, &target], &copy);
    k.finish().map(|_| ()).map_err(|e| e.to_string())
}

#[test]
fn slices_of_a_fragment_know_what_was_loaded_into_them() {
    let load =
        |k: &mut Builder, held: &Fragment, source: &Tensor, copy: &TiledCopy, into: [i64; 4]| {
            for (j, into) in (0..).zip(into) {
                k.copy_in_bounds(
                    copy,
                    &source.slice((.., .., j)),
                    &held.slice((.., .., into)),
                );
            }
        };
    // Slices may change places, also with those of the destination: a copy moves one by one shift.
    let moved = by_slices(|k, held, [source, target], copy| {
        load(k, held, source, copy, [2, 0, 3, 1]);
        k.copy_in_bounds(copy, &held.slice((.., .., 2)), &target.slice((.., .., 3)));
    });
    assert_eq!(moved, Ok(()));
    // Each slice was loaded by a copy of its own, and registers may be filled in any order.
    let in_order = by_slices(|k, held, [source, target], copy| {
        load(k, held, source, copy, [0, 1, 2, 3]);
        k.copy_in_bounds(copy, held, target);
    });
    assert_eq!(in_order, Ok(()));
    let swapped = by_slices(|k, held, [source, target], copy| {
        load(k, held, source, copy, [1, 0, 2, 3]);
        k.copy_in_bounds(copy, held, target);
    });
    assert_eq!(swapped, Ok(()));
    // A row of vectors is no column of them.
    let transposed = by_slices(|k, held, [source, target], copy| {
        load(k, held, source, copy, [0, 1, 2, 3]);
        k.copy_in_bounds(copy, &held.slice((.., .., 1)), &target.slice((.., 1, ..)));
    });
    ends_with(
        transposed,
        "copy: element 1 of the source lies at [4, 0] from element 0 in its tile, and that of the destination at [0, 8]: a copy \
         moves all elements by one shift (`slice`, `values`, `gathered` and `compose` take the same ones of both ends in the same \
         order)",
    );
    let others = by_slices(|k, held, [source, _], copy| {
        load(k, held, source, copy, [0, 1, 2, 3]);
        let (to, thread) = (parameter(k, "other"), k.thread());
        let other = tiled("(4,8):(1,4)", "(1,1):(0,0)");
        let target = other.at(&thread).partition_dst(&tile(&to, [16, 32]));
        k.copy_in_bounds(&other, &held.values(0, 4), &target.slice((.., .., 0)));
    });
    ends_with(
        others,
        "copy: what thread 1 has of the source lies at [0, 1] from what thread 0 has in the tile, and of the destination at [1, 0]: \
         partition both by the same threads and values, and `retile` a fragment for another copy",
    );
    // A destination with one element at several coordinates is none, also by `compose`.
    let repeated = by_slices(|k, held, [source, target], copy| {
        load(k, held, source, copy, [0, 1, 2, 3]);
        let parts = target.compose("(_4,_4):(_1,_0)");
        k.copy_in_bounds(copy, &held.values(0, 4), &parts.at(1, 2));
    });
    let said = repeated.expect_err("one element at several coordinates");
    assert!(
        said.contains("has one element at several coordinates"),
        "{said}"
    );
}

/// Arithmetic refuses nothing of parts: what it makes of elements that lie alike lies as they do, and of others is free.
#[test]
fn arithmetic_on_parts_is_free() {
    let loaded = |k: &mut Builder, held: &Fragment, source: &Tensor, copy: &TiledCopy| {
        k.copy_in_bounds(copy, source, held);
        k.fragment(Ty::F32, "_4:_1")
    };
    let sum = by_slices(|k, held, [source, target], copy| {
        let sum = loaded(k, held, source, copy);
        k.assign(&sum, held.values(0, 4) + held.slice((.., .., 3)));
        k.copy_in_bounds(copy, &sum, &target.slice((.., .., 1)));
        k.copy_in_bounds(copy, &sum, &target.slice((.., 2, ..)));
    });
    ends_with(
        sum,
        "copy: element 1 of the source lies at [4, 0] from element 0 in its tile, and that of the destination at [0, 8]: a copy \
         moves all elements by one shift (`slice`, `values`, `gathered` and `compose` take the same ones of both ends in the same \
         order)",
    );
    let mixed = by_slices(|k, held, [source, target], copy| {
        let sum = loaded(k, held, source, copy);
        k.assign(&sum, held.slice((.., 0, ..)) + held.slice((.., .., 3)));
        k.copy_in_bounds(copy, &sum, &target.slice((.., 2, ..)));
        k.copy_in_bounds(copy, &sum, &target.slice((.., .., 2)));
    });
    assert_eq!(mixed, Ok(()));
    // Moved on purpose: into registers that were made for the destination.
    let moved = by_slices(|k, held, [source, target], copy| {
        k.copy_in_bounds(copy, source, held);
        let own = k.fragment_like(target);
        for j in 0..4 {
            k.assign(&own.slice((.., j, ..)), held.slice((.., .., j)));
        }
        k.copy_in_bounds(copy, &own, target);
    });
    assert_eq!(moved, Ok(()));
}

/// In its second turn a loop finds what the first has left, and in either branch what was loaded there.
#[test]
fn parts_are_filled_again_in_loops_and_branches() {
    let column = |k: &mut Builder, copy: &TiledCopy, of: &Tensor, into: &Fragment, j: i64| {
        k.copy_in_bounds(copy, &of.slice((.., .., j)), into);
    };
    let row = |k: &mut Builder, copy: &TiledCopy, of: &Tensor, into: &Fragment| {
        k.copy_in_bounds(copy, &of.slice((.., 0, ..)), into);
    };
    let ahead = |other: bool| {
        by_slices(|k, _, [source, target], copy| {
            let held = k.fragment(Ty::F32, "_4:_1");
            column(k, copy, source, &held, 0);
            k.for_(0, 3, 1, |k, turn| {
                k.copy_in_bounds(copy, &held, &target.at(2, turn));
                if other {
                    row(k, copy, source, &held);
                } else {
                    k.copy_in_bounds(copy, &source.at(2, turn + 1), &held);
                }
            });
        })
    };
    assert_eq!(ahead(false), Ok(()));
    ends_with(
        ahead(true),
        "loop: element 1 of the source lies at [0, 8] from element 0 in its tile, and that of the destination at [4, 0]: a copy \
         moves all elements by one shift (`slice`, `values`, `gathered` and `compose` take the same ones of both ends in the same \
         order)",
    );
    let branches = by_slices(|k, _, [source, target], copy| {
        let held = k.fragment(Ty::F32, "_4:_1");
        let block = k.block_index(0);
        let cond = k.less(&block, &3.into());
        k.if_else(
            cond,
            |k| column(k, copy, source, &held, 2),
            |k| row(k, copy, source, &held),
        );
        k.copy_in_bounds(copy, &held, &target.slice((.., 1, ..)));
    });
    assert_eq!(branches, Ok(()));
}

/// Registers for one step along K take the steps of a longer tile, one after the other.
#[test]
fn registers_of_one_step_take_every_step_of_a_tile() {
    let mma = mma("(2,2,1):(1,2,0)", "(_,_,_)");
    let read = TiledCopy::for_operand(word(), 32, &mma, Operand::A).expect("a copy");
    let wrong = TiledCopy::for_operand(word(), 32, &mma, Operand::B).expect("a copy");
    let step = |copy: &TiledCopy, tile: [i64; 2]| {
        let mut k = Builder::new("k", Arch::Sm80, 128);
        let a = parameter(&mut k, "a").as_type(Ty::Tf32);
        let tid = k.thread();
        let part = copy.at(&tid).partition_src(&a.local_tile(tile, (0, 0)));
        let held = k.fragment_of(&mma, Operand::A, [32, 8]);
        let into = held.retile(&read);
        k.for_(0, 4, 1, |k, step| {
            k.copy_in_bounds(copy, &part.at(2, step), &into.slice((.., .., 0)));
        });
        k.finish().map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(step(&read, [32, 32]), Ok(()));
    assert!(step(&wrong, [32, 32]).is_err());
}

/// The coordinates that every register of a fragment holds in a thread.
fn by_register(
    mma: &TiledMma,
    operand: Operand,
    t: i64,
    extents: [i64; 2],
) -> HashMap<i64, Vec<i64>> {
    let slice = mma.slice(t).expect("a thread");
    let whole = Layout::column_major(IntTuple::flat(extents.map(colex_layout::Int::Static)));
    let fragment = slice
        .fragment(whole.expect("extents").to_static(), operand)
        .expect("a fragment");
    let part = slice.partition(identity(extents), operand).expect("a part");
    let at = places(part.values().expect("coordinates"));
    (0..)
        .zip(at)
        .map(|(i, at)| (fragment.at(i).expect("a register"), at))
        .collect()
}

/// Accumulators in the modes of a copy are stored exactly where the copy's threads have the elements of the product's; and a
/// product takes the fragments of another exactly where their threads hold the same elements.
#[test]
fn law_products_and_copies_take_the_elements_that_registers_hold() {
    let atoms = [
        "(2,2,1):(1,2,0)",
        "(2,2,1):(2,1,0)",
        "(4,1,1):(1,0,0)",
        "(1,4,1):(0,1,0)",
    ];
    let tiles = [
        "(_,_,_)",
        "(64,32,8)",
        "(64,32,16)",
        "((16,2,2):(1,32,16),32,8)",
    ];
    let extents = [[64, 32], [64, 64], [128, 32]];
    let (cases, mut state) = (cases(50), 3u64);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..cases {
        let mut draw = |n: usize| next(&mut state) % n;
        let (a1, p1) = (atoms[draw(4)], tiles[draw(4)]);
        let (a2, p2) = match draw(3) {
            0 => (a1, p1),
            1 => (a1, tiles[draw(4)]),
            _ => (atoms[draw(4)], p1),
        };
        let (Ok(first), Ok(second)) = (
            std::panic::catch_unwind(|| mma(a1, p1)),
            std::panic::catch_unwind(|| mma(a2, p2)),
        ) else {
            continue;
        };
        let extents = extents[draw(3)];
        let form = format!("{a1} {p1}, {a2} {p2}, {extents:?}");
        let begin = || {
            let mut k = Builder::new("k", Arch::Sm80, 128);
            let to = parameter(&mut k, "to");
            let sums = k.accumulators(&first, extents);
            (k, to, sums)
        };
        let store = TiledCopy::for_operand(word(), 32, &second, Operand::C).expect("a copy");
        let registers = |t| by_register(&first, Operand::C, t, extents);
        let (mut k, to, sums) = begin();
        if store.retile(sums.layout()).is_ok() {
            let retiled = sums.retile(&store);
            let target = store.at(&k.thread()).partition_dst(&tile(&to, extents));
            k.copy_in_bounds(&store, &retiled, &target);
            let found = k.finish();
            let same = (0..128).all(|t| {
                let part = store
                    .slice(t)
                    .and_then(|s| s.partition_dst(identity(extents)));
                let wanted = places(part.and_then(|p| p.values()).expect("coordinates"));
                let of = registers(t);
                wanted.len() as i64 == retiled.layout().size()
                    && (0..).zip(&wanted).all(|(i, at)| {
                        of.get(&retiled.layout().at(i).expect("a register")) == Some(at)
                    })
            });
            assert_eq!(found.is_ok(), same, "{form}: {found:?}");
            *(if same { &mut taken } else { &mut refused }) += 1;
        }
        let (mut k, _, sums) = begin();
        let a = k.fragment_of(&second, Operand::A, [extents[0], 16]);
        let b = k.fragment_of(&second, Operand::B, [extents[1], 16]);
        k.mma(&second, &sums, &a, &b, &sums);
        let found = k.finish();
        let same = (0..128).all(|t| registers(t) == by_register(&second, Operand::C, t, extents));
        assert_eq!(found.is_ok(), same, "{form}: {found:?}");
        *(if same { &mut taken } else { &mut refused }) += 1;
    }
    assert!(
        taken > cases / 10 && refused > cases / 10,
        "{taken} {refused}"
    );
    println!("law held.products: {} cases", taken + refused);
}
