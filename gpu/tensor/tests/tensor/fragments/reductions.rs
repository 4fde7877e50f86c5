//! Reductions and scans on the simulator, against the host in the documented order.

use colex_atom::{Arch, Ty};
use colex_gpu::Device;
use colex_ir::BinaryOp;
use colex_layout::{Error, Layout, Tiler};
use colex_proof::kernels::reductions;
use colex_sim::{Schedule, SimOptions};
use colex_tensor::{AtThread, Builder, Fragment, Tensor};
use colex_tiled::TiledCopy;

use crate::refused;

/// The results that a check compares on an architecture under several schedules.
fn in_schedules(arch: Arch, check: fn(&Device) -> Result<usize, String>) -> usize {
    let one = |seed| {
        let schedule = Schedule::from_seed(seed);
        let options = SimOptions::default().schedule(schedule);
        let done = check(&Device::simulator_with(arch, options));
        done.unwrap_or_else(|why| panic!("{arch}, {schedule:?}: {why}"))
    };
    (0..3).map(one).sum()
}

/// The results that a check compares on Ampere and, in clusters, on Hopper.
fn on_both(check: fn(&Device) -> Result<usize, String>) -> usize {
    in_schedules(Arch::Sm80, check) + in_schedules(Arch::Sm90a, check)
}

#[test]
fn law_reductions_in_their_order() {
    let count = on_both(reductions::check_all);
    println!("law reductions: {count} results");
}

#[test]
fn law_scans_in_their_order() {
    let count = in_schedules(Arch::Sm80, reductions::scans);
    println!("law scans: {count} results");
}

#[test]
fn law_arg_reductions() {
    let count = in_schedules(Arch::Sm80, reductions::arg_reductions);
    println!("law arg_reductions: {count} results");
}

#[test]
fn wrong_reductions_are_refused() {
    let scene = |k: &mut Builder| {
        let x = k.fragment(Ty::F32, "_4:_1");
        k.fill(&x, 1.0);
        x
    };
    let said =
        |call: fn(&mut Builder, Fragment)| refused(Builder::new("k", Arch::Sm80, 32), scene, call);
    assert_eq!(
        said(|k, x| drop(k.reduce(BinaryOp::Xor, &x, 0))),
        "reduce: xor of f32; add, mul, max and min reduce numbers, and, or and xor integers, max.NaN and min.NaN floats of 32 and \
         16 bits, and `.to(Ty::F32)` converts what has no arithmetic"
    );
    for ty in [Ty::F64, Ty::S32] {
        let scene = move |k: &mut Builder| {
            let x = k.fragment(ty, "_4:_1");
            k.clear(&x);
            x
        };
        let said = refused(Builder::new("k", Arch::Sm80, 32), scene, |k, x| {
            drop(k.reduce_all(BinaryOp::MaxNan, &x));
        });
        let ty = ty.to_string();
        assert!(
            said.starts_with(&format!("reduce_all: max.NaN of {ty}; add,")),
            "{said}"
        );
    }
    assert_eq!(
        said(|k, x| drop(k.reduce(BinaryOp::Add, &x, 1))),
        "reduce: mode 1 of _4:_1, which has 1"
    );
    assert_eq!(
        said(|k, x| drop(k.arg_reduce_block(BinaryOp::Add, &x, &x))),
        "arg_reduce_block: add by numbers of f32: max and min are, by numbers of s32"
    );
    assert_eq!(
        refused(Builder::new("k", Arch::Sm80, 40), scene, |k, x| drop(
            k.reduce_warp(BinaryOp::Add, &x)
        )),
        "reduce_warp: a block of 40 threads; whole warps exchange their elements"
    );
}

type Call = fn(&mut Builder, &Fragment);

/// The calls over the threads of a warp, a block or a cluster, by their names, and those of one thread.
const CALLS: [(&str, Call); 7] = [
    ("reduce_warp", |k, x| drop(k.reduce_warp(BinaryOp::Shl, x))),
    ("reduce_block", |k, x| {
        drop(k.reduce_block(BinaryOp::Shl, x))
    }),
    ("reduce_cluster", |k, x| {
        drop(k.reduce_cluster(BinaryOp::Shl, x, 2))
    }),
    ("scan_block", |k, x| {
        drop(k.scan_block(BinaryOp::Shl, x, true))
    }),
    ("arg_reduce_block", |k, x| {
        drop(k.arg_reduce_block(BinaryOp::Shl, x, x))
    }),
    ("reduce", |k, x| drop(k.reduce(BinaryOp::Shl, x, 0))),
    ("reduce_all", |k, x| drop(k.reduce_all(BinaryOp::Shl, x))),
];

/// The same with an operation that reduces.
const SUMS: [(&str, Call); 5] = [
    ("reduce_warp", |k, x| drop(k.reduce_warp(BinaryOp::Add, x))),
    ("reduce_block", |k, x| {
        drop(k.reduce_block(BinaryOp::Add, x))
    }),
    ("reduce_cluster", |k, x| {
        drop(k.reduce_cluster(BinaryOp::Add, x, 2))
    }),
    ("scan_block", |k, x| {
        drop(k.scan_block(BinaryOp::Add, x, true))
    }),
    ("arg_reduce_block", |k, x| {
        drop(k.arg_reduce_block(BinaryOp::Max, x, x))
    }),
];

#[test]
fn every_reduction_refuses_other_operations_and_parts_of_warps() {
    let scene = |k: &mut Builder| {
        let x = k.fragment(Ty::S32, "_4:_1");
        k.assign(&x, 1);
        x
    };
    for (name, call) in CALLS {
        let k = Builder::new("k", Arch::Sm90a, 32);
        assert_eq!(
            refused(k, scene, |k, x| call(k, &x)),
            format!(
                "{name}: shl of s32; add, mul, max and min reduce numbers, and, or and xor integers, max.NaN and min.NaN floats of \
                 32 and 16 bits, and `.to(Ty::F32)` converts what has no arithmetic"
            )
        );
    }
    for (name, call) in SUMS {
        let mut k = Builder::new("k", Arch::Sm90a, 40);
        k.cluster([2, 1, 1]);
        assert_eq!(
            refused(k, scene, |k, x| call(k, &x)),
            format!("{name}: a block of 40 threads; whole warps exchange their elements")
        );
    }
}

/// Along every mode of tiles, over partitions whose lines lie in a thread, a warp or several warps.
#[test]
fn law_reductions_along_a_mode_of_a_tile() {
    let count = in_schedules(Arch::Sm80, reductions::along);
    println!("law reductions.along: {count} elements");
}

#[test]
fn wrong_reductions_along_a_mode_are_refused() {
    let scene = |k: &mut Builder| {
        let atom = colex_atom::copy("UniversalCopy<uint32_t>").expect("a width");
        let copy = TiledCopy::new(atom, 32, "(4,8):(8,1)", "(1,1):(0,0)").expect("a copy");
        let tile = k.shared_tensor(Ty::F32, "(8,8):(8,1)");
        let thread = k.thread() % 32;
        let mine = copy.at(&thread).partition_src(&tile);
        let odd = copy
            .at(&thread)
            .partition_src(&k.shared_tensor(Ty::F32, "(8,9):(9,1)"));
        let held = k.fragment_like(&mine);
        k.fill(&held, 1.0);
        (tile, mine, odd, held)
    };
    let said = |call: fn(&mut Builder, (Tensor, Tensor, Tensor, Fragment))| {
        refused(Builder::new("k", Arch::Sm80, 64), scene, call)
    };
    assert_eq!(
        said(|k, (tile, _, _, held)| drop(k.reduce_along(BinaryOp::Add, &held, &tile, 0))),
        "reduce_along: 2 elements of ((_1,_1),_2,_1):((_0,_0),_1,_0), and the tensor is not a thread's part of a tile with as \
         many"
    );
    assert_eq!(
        said(|k, (_, mine, _, held)| drop(k.reduce_along(BinaryOp::Add, &held, &mine, 2))),
        "reduce_along: mode 2 of a tile of [8, 8]"
    );
    assert_eq!(
        said(|k, (_, _, odd, _)| {
            let held = k.fragment_like(&odd);
            k.fill(&held, 1.0);
            k.reduce_along(BinaryOp::Add, &held, &odd, 0);
        }),
        "reduce_along: the partition reaches beyond its tile: partition a tile that the threads divide"
    );
    let across = |k: &mut Builder| {
        let atom = colex_atom::copy("UniversalCopy<uint32_t>").expect("a width");
        let copy = TiledCopy::new(atom, 32, "(8,8):(8,1)", "(1,1):(0,0)").expect("a copy");
        let tile = k.shared_tensor(Ty::F32, "(8,8):(8,1)");
        copy.at(&(k.thread() % 64)).partition_src(&tile)
    };
    assert_eq!(
        refused(Builder::new("k", Arch::Sm80, 128), across, |k, mine| {
            let held = k.fragment_like(&mine);
            k.fill(&held, 1.0);
            k.reduce_along(BinaryOp::Add, &held, &mine, 0);
        }),
        "reduce_along: a partition of 64 threads in a block of 128: the threads of its warps are those of the block's"
    );
    let thirds = |k: &mut Builder| {
        let atom = colex_atom::copy("UniversalCopy<uint32_t>").expect("a width");
        let copy = TiledCopy::new(atom, 32, "(32,3):(3,1)", "(1,1):(0,0)").expect("a copy");
        let tile = k.shared_tensor(Ty::F32, "(32,3):(3,1)");
        copy.at(&k.thread()).partition_src(&tile)
    };
    assert_eq!(
        refused(Builder::new("k", Arch::Sm80, 96), thirds, |k, mine| {
            let held = k.fragment_like(&mine);
            k.fill(&held, 1.0);
            k.reduce_along(BinaryOp::Add, &held, &mine, 1);
        }),
        "reduce_along: lines of its threads lie in other lanes of a warp"
    );
}

/// Partitions in which a line does not lie in the same registers and warps of its threads.
#[test]
fn reductions_along_a_mode_of_uneven_partitions_are_refused() -> Result<(), Error> {
    let tile = |m: i64, n: i64| Layout::new((m, n), (1, m));
    // Four threads have each element of 8 rows.
    let twice = (Layout::new(((8, 4), 1), ((1, 0), 0))?, tile(8, 1)?);
    // Thread (r, q) has rows r and r + 1 of column q: row 1 is in the second register of one, in the first of the other.
    let overlapping = (Layout::new(((2, 16), 2), ((1, 3), 1))?, tile(3, 16)?);
    // Warps 0, 1, 4 and 5 share a row.
    let apart = (
        Layout::new(((32, 2, 2, 2), 1), ((2, 64, 1, 128), 0))?,
        tile(2, 128)?,
    );
    let said = |(tv, tile): &(Layout, Layout), mode: usize| {
        let threads = tv.mode(0).map_or(0, |mode| mode.size());
        let part = |k: &mut Builder| {
            let atom = colex_atom::copy("UniversalCopy<uint32_t>").expect("a width");
            let tiler = Tiler::try_from(&tile.shape()).unwrap();
            let copy = TiledCopy::from_tv(atom, 32, tv, tiler).expect("a copy");
            let tile = k.shared_tensor(Ty::F32, tile);
            copy.at(&k.thread()).partition_src(&tile)
        };
        refused(
            Builder::new("k", Arch::Sm80, threads as u32),
            part,
            |k, mine| {
                let held = k.fragment_like(&mine);
                k.fill(&held, 1.0);
                k.reduce_along(BinaryOp::Add, &held, &mine, mode);
            },
        )
    };
    assert_eq!(
        said(&twice, 0),
        "reduce_along: threads 0 and 8 hold the same element"
    );
    assert_eq!(
        said(&overlapping, 1),
        "reduce_along: its threads have a line in different registers"
    );
    assert_eq!(
        said(&apart, 1),
        "reduce_along: lines of its threads lie in other warps"
    );
    Ok(())
}
