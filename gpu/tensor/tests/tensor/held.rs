//! What registers hold of a tile: every operation on them moves or joins elements of the same coordinates, or is refused.

use std::collections::HashMap;

use colex_atom::{Arch, Ty};
use colex_gpu::ir::BinaryOp;
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
            k.map2(BinaryOp::Add, &sum, &held, &other);
        }),
        "map2: one fragment is a part of a tile of [8, 4], and another of one of [8, 8]: both tiles have the same extents"
    );
    assert_eq!(
        refused(warp(), scene, |k, (_, held, other)| {
            k.axpby(2.0, &held, Some(1.0.into()), &other);
        }),
        "axpby: one fragment is a part of a tile of [8, 8], and another of one of [8, 4]: both tiles have the same extents"
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
            let turned = k.fragment_of(&tall, Operand::C, (32, 16));
            k.mma(&wide, &turned, &a, &b, &turned);
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
