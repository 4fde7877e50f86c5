//! Reductions and scans on the simulator, against the host in the documented order.

use colex_atom::{Arch, FloatFormat, Ty};
use colex_gpu::Device;
use colex_ir::BinaryOp;
use colex_proof::kernels::reductions::{Body, TYPES, cases, fold, on_host as with};
use colex_tensor::{AtThread, Builder, Expr, Fragment, Tensor};
use colex_tiled::TiledCopy;

use crate::refused;

fn run(
    arch: Arch,
    op: BinaryOp,
    ty: Ty,
    extents: [i64; 2],
    seed: u64,
    body: Body,
) -> [Vec<Vec<u64>>; 2] {
    let device = Device::simulator(arch);
    let done = colex_proof::kernels::reductions::run(&device, (op, ty), extents, seed, body);
    done.unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn law_reductions_in_their_order() {
    let mut count = 0;
    for arch in [Arch::Sm80, Arch::Sm90a] {
        let done = colex_proof::kernels::reductions::check_all(&Device::simulator(arch));
        count += done.unwrap_or_else(|why| panic!("{arch}: {why}"));
    }
    println!("law reductions: {count} results");
}

/// Floats are compared within a tolerance: a scan adds in a tree of its own.
#[test]
fn law_scans() {
    let mut count = 0;
    for (i, (op, ty)) in cases()
        .enumerate()
        .filter(|(_, (op, ty))| ty.is_integer() || !matches!(op, BinaryOp::Mul))
    {
        let f = with(op, ty);
        let n = [1, 3][i % 2];
        let body: Body = |k, op, x| {
            let (own, all) = k.scan_block(op, x, false);
            let (before, _) = k.scan_block(op, x, true);
            vec![own, before, all]
        };
        let [found, given] = run(Arch::Sm80, op, ty, [64, n], i as u64, body);
        let near = |a: u64, b: u64, what: &str| match FloatFormat::of(ty) {
            Some(of) if op == BinaryOp::Add => {
                let (a, b) = (of.decode(a), of.decode(b));
                let step = 200.0 * of.ulp(64.0);
                assert!((a - b).abs() <= step, "{what} of {ty}: {a} and {b}");
            }
            _ => assert_eq!(a, b, "{what} of {ty}, {}", op.ptx()),
        };
        let n = n as usize;
        let all: Vec<u64> = given.iter().flatten().copied().collect();
        let mut before = None;
        for (place, x) in all.iter().enumerate() {
            let found = &found[place / n];
            let e = place % n;
            if let Some(before) = before {
                near(found[n + e], before, "exclusive scan");
            }
            let own = before.map_or(*x, |before| f(before, *x));
            near(found[e], own, "scan");
            near(found[2 * n], fold(all.iter().copied(), &f), "total");
            before = Some(own);
            count += 3;
        }
    }
    println!("law scans: {count} results");
}

#[test]
fn law_arg_reductions() {
    let mut count = 0;
    for ty in TYPES {
        for op in [BinaryOp::Max, BinaryOp::Min] {
            let body: Body = |k, op, x| {
                let n = x.layout().size();
                let first = Expr::from(k.thread()) * n as i32;
                let numbers = k.fragment(Ty::S32, x.layout());
                for i in 0..n {
                    k.assign(&numbers.values(i, 1), &first + i as i32);
                }
                let (value, at) = k.arg_reduce_block(op, x, &numbers);
                let at = k.convert(&at, x.ty());
                vec![value, at]
            };
            let [found, given] = run(Arch::Sm80, op, ty, [64, 2], 3, body);
            let all: Vec<u64> = given.iter().flatten().copied().collect();
            let f = with(op, ty);
            let best = fold(all.iter().copied(), &f);
            let at = all
                .iter()
                .position(|x| *x == best)
                .expect("it is one of them");
            let number = Expr::input(0, Ty::S32)
                .to(ty)
                .evaluate(&[at as u64])
                .expect("a number");
            for found in &found {
                assert_eq!(found[..], [best, number], "{} of {ty}", op.ptx());
                count += 1;
            }
        }
    }
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
        "reduce: xor of f32; add, mul, max and min reduce numbers, and, or and xor integers, and `.to(Ty::F32)` converts what \
         has no arithmetic"
    );
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

/// Along every mode of tiles, over partitions whose lines lie in a thread, a warp or several warps.
#[test]
fn law_reductions_along_a_mode_of_a_tile() -> Result<(), Box<dyn std::error::Error>> {
    let copies = [
        ("(4,8):(8,1)", "(1,1):(0,0)", [8, 16], 32),
        ("(4,8):(1,4)", "(2,1):(1,0)", [16, 8], 32),
        ("(1,64):(64,1)", "(1,2):(0,1)", [2, 256], 64),
        ("(64,1):(1,64)", "(1,4):(0,1)", [64, 4], 64),
        ("(3,32):(32,1)", "(1,1):(0,0)", [6, 64], 96),
        ("(16,8):(8,1)", "(1,2):(0,1)", [32, 16], 128),
        ("(2,64):(1,2)", "(1,1):(0,0)", [4, 64], 128),
    ];
    let mut count = 0;
    for (i, (threads, values, tile, block)) in copies.into_iter().enumerate() {
        for (j, ty) in TYPES.into_iter().enumerate() {
            let op = [BinaryOp::Add, BinaryOp::Max, BinaryOp::Min][(i + j) % 3];
            for mode in 0..2 {
                let mut k = Builder::new("k", Arch::Sm80, block);
                let layout = colex_layout::Layout::new((tile[0], tile[1]), (tile[1], 1))?;
                let layout = layout.to_static();
                let [x, y] = ["x", "y"].map(|name| k.tensor(name, ty, &layout));
                let atom = colex_atom::copy(&format!("UniversalCopy<uint{}_t>", ty.bits()))?;
                let copy = TiledCopy::new(atom, ty.bits().into(), threads, values)?;
                let mine = copy.at(&k.thread());
                let all = (tile[0], tile[1]);
                let from = mine.partition_src(&x.local_tile(all, (0, 0)));
                let to = mine.partition_dst(&y.local_tile(all, (0, 0)));
                let held = k.fragment_like(&from);
                k.copy(&copy, &from, &held);
                let lines = k.reduce_along(op, &held, &from, mode);
                k.assign(&held, &lines);
                k.copy(&copy, &held, &to);
                let built = k.finish()?;
                let f = with(op, ty);
                let number = |i: i64| {
                    let x = i * 7919 % 13 - 6;
                    match FloatFormat::of(ty) {
                        Some(of) => of.encode(x as f64, colex_atom::Rounding::Nearest),
                        None => x as u64 & (u64::MAX >> (64 - ty.bits())),
                    }
                };
                let given: Vec<u64> = (0..tile[0] * tile[1]).map(number).collect();
                let width = (ty.bits() / 8) as usize;
                let bytes = given.iter().flat_map(|x| x.to_le_bytes()[..width].to_vec());
                let bytes: Vec<u8> = bytes.collect();
                let device = Device::simulator(Arch::Sm80);
                let (from, to) = (device.upload(&bytes)?, device.poisoned::<u8>(bytes.len())?);
                let memory = [from.address(), to.address()].map(|address| {
                    let bytes = bytes.len() as u64;
                    colex_tensor::Arg::raw(colex_tensor::RawMemory { address, bytes, ty }, &layout)
                });
                let arguments = built.arguments(&memory)?;
                let launch =
                    colex_gpu::Launch::new(1, block).dynamic_shared(built.dynamic_shared());
                device.launch(&device.load(&built.kernel)?, launch, &arguments)?;
                let found = to.download()?;
                for (place, word) in found.chunks(width).enumerate() {
                    let (m, n) = (place as i64 / tile[1], place as i64 % tile[1]);
                    let line = (0..tile[mode]).map(|i| match mode {
                        0 => given[(i * tile[1] + n) as usize],
                        _ => given[(m * tile[1] + i) as usize],
                    });
                    let mut own = [0; 8];
                    own[..width].copy_from_slice(word);
                    let (own, expected) = (u64::from_le_bytes(own), fold(line, &f));
                    let alike = match FloatFormat::of(ty) {
                        Some(of) => of.decode(own) == of.decode(expected),
                        None => own == expected,
                    };
                    assert!(
                        alike,
                        "{} of {ty} along {mode} of {threads} at {place}",
                        op.ptx()
                    );
                    count += 1;
                }
            }
        }
    }
    println!("law reductions.along: {count} elements");
    Ok(())
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
}
