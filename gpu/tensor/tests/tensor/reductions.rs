//! Reductions and scans on the simulator, against the host in the documented order.

use colex_atom::{Arch, FloatFormat, Ty};
use colex_ir::BinaryOp;
use colex_ir::launch::Launch;
use colex_layout::Layout;
use colex_sim::{Memory, SimOptions, simulate};
use colex_tensor::{Arg, AtThread, Builder, Error, Expr, Fragment, RawMemory, TensorKernel};
use colex_tiled::TiledCopy;

use crate::refused;

const TYPES: [Ty; 12] = [
    Ty::F64,
    Ty::F32,
    Ty::F16,
    Ty::Bf16,
    Ty::S64,
    Ty::U64,
    Ty::S32,
    Ty::U32,
    Ty::S16,
    Ty::U16,
    Ty::S8,
    Ty::U8,
];

const OPS: [BinaryOp; 7] = [
    BinaryOp::Add,
    BinaryOp::Mul,
    BinaryOp::Max,
    BinaryOp::Min,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Xor,
];

/// What a thread computes of its elements: the results, one after the other.
type Body = fn(&mut Builder, BinaryOp, &Fragment) -> Vec<Fragment>;

fn part(
    k: &mut Builder,
    name: &str,
    ty: Ty,
    [threads, n]: [i64; 2],
) -> Result<(TiledCopy, colex_tensor::Tensor), Error> {
    let blocks = if k.target() >= Arch::Sm90a { 2 } else { 1 };
    let all: Layout = format!("(_{},_{n}):(_{n},_1)", threads * blocks).parse()?;
    let tensor = k.tensor(name, ty, &all);
    let atom = colex_atom::copy(&format!("UniversalCopy<uint{}_t>", ty.bits()))?;
    let copy = TiledCopy::new(
        atom,
        ty.bits().into(),
        format!("({threads},1):(1,0)").as_str(),
        format!("(1,{n}):(0,1)").as_str(),
    )?;
    let (tid, block) = (k.thread(), k.block_index(0).within(0..blocks));
    let part = copy
        .at(&tid)
        .partition_src(&tensor.local_tile((threads, n), (block, 0)));
    Ok((copy, part))
}

/// A kernel that stores the results of `body` of `n` elements of each thread.
fn kernel(
    arch: Arch,
    op: BinaryOp,
    ty: Ty,
    [threads, n]: [i64; 2],
    body: Body,
) -> Result<(TensorKernel, i64), Error> {
    let mut k = Builder::new("reduce", arch, threads as u32);
    if arch >= Arch::Sm90a {
        k.cluster([2, 1, 1]);
    }
    let (copy, source) = part(&mut k, "source", ty, [threads, n])?;
    let held = k.fragment_like(&source);
    k.copy_in_bounds(&copy, &source, &held);
    let own = held.with_layout(format!("_{n}:_1").as_str());
    let results = body(&mut k, op, &own);
    let count: i64 = results.iter().map(|f| f.layout().size()).sum();
    let (copy, target) = part(&mut k, "target", ty, [threads, count])?;
    let all = k.fragment_like(&target);
    k.clear(&all);
    let mut first = 0;
    for result in &results {
        let size = result.layout().size();
        k.assign(
            &all.with_layout(format!("_{count}:_1").as_str())
                .values(first, size),
            result,
        );
        first += size;
    }
    k.copy_in_bounds(&copy, &all, &target);
    Ok((k.finish()?, count))
}

/// The results of every thread, of random elements, and these elements.
fn run(
    arch: Arch,
    op: BinaryOp,
    ty: Ty,
    extents: [i64; 2],
    seed: u64,
    body: Body,
) -> [Vec<Vec<u64>>; 2] {
    let name = format!("{} of {ty}", op.ptx());
    let (built, count) =
        kernel(arch, op, ty, extents, body).unwrap_or_else(|e| panic!("{name}: {e}"));
    let blocks = if arch >= Arch::Sm90a { 2 } else { 1 };
    let [threads, n] = [extents[0] * blocks, extents[1]];
    let number = |i: i64| {
        let x = (i * 7919 + seed as i64 * 31) % 61 - 30;
        match FloatFormat::of(ty) {
            // Products neither vanish nor overflow in a few steps.
            Some(of) => of.encode(
                x as f64 / 7.0 + if x == 0 { 1.0 } else { 0.0 },
                colex_atom::Rounding::Nearest,
            ),
            None => x as u64 & (u64::MAX >> (64 - ty.bits())),
        }
    };
    let given: Vec<u64> = (0..threads * n).map(number).collect();
    let width = (ty.bits() / 8) as usize;
    let mut memory = Memory::default();
    let mut upload = |all: &[u64]| {
        let bytes: Vec<u8> = all
            .iter()
            .flat_map(|x| x.to_le_bytes()[..width].to_vec())
            .collect();
        let address = memory.allocate(bytes.len() as u64).expect("memory");
        memory.write(address, &bytes).expect("allocated");
        RawMemory {
            address,
            bytes: bytes.len() as u64,
            ty,
        }
    };
    let (source, target) = (upload(&given), upload(&vec![0; (threads * count) as usize]));
    let layouts = [n, count].map(|n| {
        format!("(_{threads},_{n}):(_{n},_1)")
            .parse::<Layout>()
            .expect("a layout")
    });
    let arguments =
        built.arguments(&[Arg::raw(source, &layouts[0]), Arg::raw(target, &layouts[1])]);
    let arguments = arguments.unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut launch =
        Launch::new(blocks as u32, extents[0] as u32).dynamic_shared(built.dynamic_shared());
    if blocks > 1 {
        launch = launch.cluster(2);
    }
    simulate(
        &built.kernel,
        &launch,
        &arguments,
        &mut memory,
        &SimOptions::default(),
    )
    .unwrap_or_else(|fault| panic!("{name}: {fault}"));
    let bytes = memory
        .read(target.address, (threads * count) as u64 * width as u64)
        .expect("allocated");
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..width].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let found: Vec<u64> = bytes.chunks(width).map(word).collect();
    let by_thread = |all: &[u64], n: i64| all.chunks(n as usize).map(<[u64]>::to_vec).collect();
    [by_thread(&found, count), by_thread(&given, n)]
}

/// The operation on the host.
fn with(op: BinaryOp, ty: Ty) -> impl Fn(u64, u64) -> u64 {
    let formula = Expr::binary(op, Expr::input(0, ty), Expr::input(1, ty));
    move |a, b| formula.evaluate(&[a, b]).expect("a number")
}

fn fold(all: impl IntoIterator<Item = u64>, f: &impl Fn(u64, u64) -> u64) -> u64 {
    all.into_iter().reduce(f).expect("an element")
}

/// A balanced tree over the lanes of a warp.
fn tree(mut lanes: Vec<u64>, f: &impl Fn(u64, u64) -> u64) -> u64 {
    for distance in [1, 2, 4, 8, 16] {
        lanes = (0..32)
            .map(|i: usize| f(lanes[i & !distance], lanes[i | distance]))
            .collect();
    }
    lanes[0]
}

fn cases() -> impl Iterator<Item = (BinaryOp, Ty)> {
    let all = TYPES.into_iter().flat_map(|ty| OPS.map(|op| (op, ty)));
    all.filter(|(op, ty)| {
        ty.is_integer() || !matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor)
    })
}

#[test]
fn law_reductions_in_their_order() {
    let mut count = 0;
    for (i, (op, ty)) in cases().enumerate() {
        let f = with(op, ty);
        let threads = [32, 64, 96][i % 3];
        let n = [1, 4, 6][i / 3 % 3];
        let body: Body = |k, op, x| {
            let half = x.layout().size() / 2;
            let mode = match half {
                0 => x.clone(),
                _ => k.reduce(
                    op,
                    x.with_layout(format!("(_{half},_2):(_1,_{half})").as_str()),
                    1,
                ),
            };
            vec![
                k.reduce_all(op, x),
                k.reduce_warp(op, x),
                k.reduce_block(op, x),
                mode,
            ]
        };
        let [found, given] = run(Arch::Sm80, op, ty, [threads, n], i as u64, body);
        for (t, found) in found.iter().enumerate() {
            let name = format!("{} of {ty}, thread {t}", op.ptx());
            let n = n as usize;
            assert_eq!(found[0], fold(given[t].iter().copied(), &f), "{name}, all");
            for e in 0..n {
                let lanes = |warp: usize| (0..32).map(|lane| given[32 * warp + lane][e]).collect();
                assert_eq!(found[1 + e], tree(lanes(t / 32), &f), "{name}, warp");
                let warps = (0..threads as usize / 32).map(|warp| tree(lanes(warp), &f));
                assert_eq!(found[1 + n + e], fold(warps, &f), "{name}, block");
            }
            for e in 0..n / 2 {
                assert_eq!(
                    found[1 + 2 * n + e],
                    f(given[t][e], given[t][n / 2 + e]),
                    "{name}, mode"
                );
            }
            count += found.len();
        }
    }
    println!("law reductions: {count} results");
}

#[test]
fn law_reductions_of_a_cluster() {
    let mut count = 0;
    for (i, (op, ty)) in cases().enumerate().filter(|(i, _)| i % 3 == 0) {
        let f = with(op, ty);
        let body: Body = |k, op, x| vec![k.reduce_cluster(op, x, 2), k.reduce_cluster(op, x, 2)];
        let [found, given] = run(Arch::Sm90a, op, ty, [64, 2], i as u64, body);
        for (t, found) in found.iter().enumerate() {
            for e in 0..2 {
                let warp = |warp: usize| {
                    tree((0..32).map(|lane| given[32 * warp + lane][e]).collect(), &f)
                };
                let expected = f(f(warp(0), warp(1)), f(warp(2), warp(3)));
                assert_eq!(
                    [found[e], found[2 + e]],
                    [expected; 2],
                    "{} of {ty}, thread {t}",
                    op.ptx()
                );
                count += 2;
            }
        }
    }
    println!("law reductions.cluster: {count} results");
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
