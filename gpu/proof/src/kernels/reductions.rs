//! Reductions and scans of fragments on a device.

use colex_atom::{Arch, FloatFormat, Ty};
use colex_gpu::{Device, Launch};
use colex_ir::BinaryOp;
use colex_layout::Layout;
use colex_tensor::{Arg, AtThread, Builder, Expr, Fragment, RawMemory, Tensor, TensorKernel};
use colex_tiled::TiledCopy;

use super::fragments::{alike, element, upload, words};
use super::gathers::signed;
use crate::sweep::Random;

/// The types whose elements are reduced.
const TYPES: [Ty; 12] = {
    use Ty::*;
    [F64, F32, F16, Bf16, S64, U64, S32, U32, S16, U16, S8, U8]
};

const OPS: [BinaryOp; 7] = {
    use BinaryOp::*;
    [Add, Mul, Max, Min, And, Or, Xor]
};

/// The operations that return NaN where an element is NaN, and the types that have them.
const NAN_OPS: [BinaryOp; 2] = [BinaryOp::MaxNan, BinaryOp::MinNan];
const NAN_TYPES: [Ty; 3] = [Ty::F32, Ty::F16, Ty::Bf16];

/// What a thread computes of its elements by an operation: the results, one after the other.
pub type Body<'a> = &'a dyn Fn(&mut Builder, BinaryOp, &Fragment) -> Vec<Fragment>;

/// How many threads a block has, and how each of them holds its elements: a shape of three modes, and their order in the
/// registers.
#[derive(Clone, Debug)]
struct Held {
    threads: i64,
    layout: Layout,
}

impl Held {
    fn draw(r: &mut Random) -> Held {
        let shape = [0; 3].map(|_| r.one(&[1, 1, 1, 2, 3]));
        let mut strides = [0; 3];
        let mut next = 1;
        for mode in r.permutation(3) {
            strides[mode] = next;
            next *= shape[mode];
        }
        let [[a, b, c], [d, e, f]] = [shape, strides];
        let layout = Layout::new((a, b, c), (d, e, f)).expect("three modes");
        Held {
            threads: 32 * r.one(&[1, 1, 1, 2, 2, 3, 4]),
            layout: layout.to_static(),
        }
    }

    /// The threads of a block and the elements of a thread.
    fn extents(&self) -> [i64; 2] {
        [self.threads, self.layout.size()]
    }

    /// The elements of a thread, by their indices.
    fn own(&self, given: &[u64]) -> Vec<u64> {
        let at = |i: i64| given[self.layout.at(i).expect("an index") as usize];
        (0..self.layout.size()).map(at).collect()
    }
}

fn part(
    k: &mut Builder,
    name: &str,
    ty: Ty,
    [threads, n]: [i64; 2],
) -> Result<(TiledCopy, Tensor), colex_tensor::Error> {
    let blocks = if k.target() >= Arch::Sm90a { 2 } else { 1 };
    let all = Layout::new((threads * blocks, n), (n, 1))?.to_static();
    let tensor = k.tensor(name, ty, &all);
    let atom = colex_atom::copy(&format!("UniversalCopy<uint{}_t>", ty.bits()))?;
    let copy = TiledCopy::new(
        atom,
        ty.bits().into(),
        ((threads, 1), (1, 0)),
        ((1, n), (0, 1)),
    )?;
    let (tid, block) = (k.thread(), k.block_index(0));
    let block = k.within(block, 0..blocks);
    let part = copy
        .at(&tid)
        .partition_src(&tensor.local_tile((threads, n), (block, 0)));
    Ok((copy, part))
}

/// Builds a kernel that stores the results of `body` of `n` elements of each thread, on Hopper in clusters of two blocks;
/// returns also how many results a thread has.
///
/// # Errors
///
/// Returns the error of the kernel.
pub fn kernel(
    arch: Arch,
    op: BinaryOp,
    ty: Ty,
    [threads, n]: [i64; 2],
    body: Body<'_>,
) -> Result<(TensorKernel, i64), colex_tensor::Error> {
    let mut k = Builder::new("reduce", arch, threads as u32);
    if arch >= Arch::Sm90a {
        k.cluster([2, 1, 1]);
    }
    let (copy, source) = part(&mut k, "source", ty, [threads, n])?;
    let held = k.fragment_like(&source);
    k.copy_in_bounds(&copy, &source, &held);
    let own = held.with_layout(Layout::new(n, 1)?.to_static());
    let results = body(&mut k, op, &own);
    let count: i64 = results.iter().map(|f| f.layout().size()).sum();
    let (copy, target) = part(&mut k, "target", ty, [threads, count])?;
    let all = k.fragment_like(&target);
    k.clear(&all);
    let run = all.with_layout(Layout::new(count, 1)?.to_static());
    let mut first = 0;
    for result in &results {
        let size = result.layout().size();
        let flat = result.with_layout(Layout::new(size, 1)?.to_static());
        k.assign(&run.values(first, size), &flat);
        first += size;
    }
    k.copy_in_bounds(&copy, &all, &target);
    Ok((k.finish()?, count))
}

/// Runs a kernel of that body on one block, on Hopper on one cluster, and returns the results of every thread and the
/// elements that it was given, as bits: those that `number` returns, one after the other.
///
/// # Errors
///
/// Returns why there is no result, in words.
pub fn run(
    device: &Device,
    (op, ty): (BinaryOp, Ty),
    extents: [i64; 2],
    mut number: impl FnMut(i64) -> u64,
    body: Body<'_>,
) -> Result<[Vec<Vec<u64>>; 2], String> {
    let text = |e: &dyn std::fmt::Display| format!("{} of {ty}: {e}", op.ptx());
    let (built, count) = kernel(device.arch(), op, ty, extents, body).map_err(|e| text(&e))?;
    let blocks = if device.arch() >= Arch::Sm90a { 2 } else { 1 };
    let [threads, n] = [extents[0] * blocks, extents[1]];
    let given: Vec<u64> = (0..threads * n).map(&mut number).collect();
    let width = (ty.bits() / 8) as usize;
    let buffers = [
        upload(device, ty, &given)?,
        upload(device, ty, &vec![0; (threads * count) as usize])?,
    ];
    let layout = |n: i64| Layout::new((threads, n), (n, 1)).map(|layout| layout.to_static());
    let layouts = [
        layout(n).map_err(|e| text(&e))?,
        layout(count).map_err(|e| text(&e))?,
    ];
    let given_as = |i: usize| {
        let (address, bytes) = (
            buffers[i].address(),
            (layouts[i].size() as usize * width) as u64,
        );
        Arg::raw(RawMemory { address, bytes, ty }, &layouts[i])
    };
    let arguments = built
        .arguments(&[given_as(0), given_as(1)])
        .map_err(|e| text(&e))?;
    let launch =
        Launch::new(blocks as u32, extents[0] as u32).dynamic_shared(built.dynamic_shared());
    let launch = if blocks > 1 {
        launch.cluster(2)
    } else {
        launch
    };
    let function = device.load(&built.kernel).map_err(|e| text(&e))?;
    device
        .launch(&function, launch, &arguments)
        .map_err(|e| text(&e))?;
    let found = words(ty, &buffers[1].download().map_err(|e| text(&e))?);
    let by_thread = |all: &[u64], n: i64| all.chunks(n as usize).map(<[u64]>::to_vec).collect();
    Ok([by_thread(&found, count), by_thread(&given, n)])
}

/// The same numbers, some of them NaN, for an operation that returns NaN where an element is NaN.
fn with_nan(op: BinaryOp, ty: Ty, number: impl Fn(i64) -> u64) -> impl Fn(i64) -> u64 {
    move |i| match FloatFormat::of(ty) {
        Some(of) if NAN_OPS.contains(&op) && i * 7919 % 101 == 7 => {
            of.encode(f64::NAN, colex_atom::Rounding::Nearest)
        }
        _ => number(i),
    }
}

/// Small numbers other than 0, as bits.
fn small(ty: Ty, seed: u64) -> impl Fn(i64) -> u64 {
    move |i| {
        let x = (i * 7919 + seed as i64 * 31) % 61 - 30;
        match FloatFormat::of(ty) {
            Some(of) => {
                let x = if x == 0 { 1.0 } else { x as f64 / 7.0 };
                of.encode(x, colex_atom::Rounding::Nearest)
            }
            None => x as u64 & (u64::MAX >> (64 - ty.bits())),
        }
    }
}

/// Returns every operation with every type that has it.
fn cases() -> impl Iterator<Item = (BinaryOp, Ty)> {
    let all = TYPES.into_iter().flat_map(|ty| OPS.map(|op| (op, ty)));
    let is_bitwise = |op: &BinaryOp| matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor);
    let all = all.filter(move |(op, ty)| ty.is_integer() || !is_bitwise(op));
    let of_nan = NAN_TYPES.into_iter();
    all.chain(of_nan.flat_map(|ty| NAN_OPS.map(|op| (op, ty))))
}

/// Returns an operation on the bits of two elements, on the host.
fn on_host(op: BinaryOp, ty: Ty) -> impl Fn(u64, u64) -> u64 {
    let formula = Expr::binary(op, Expr::input(0, ty), Expr::input(1, ty));
    move |a, b| formula.evaluate(&[a, b]).expect("two inputs are given")
}

/// Returns the reduction of several elements, one after the other.
fn fold(all: impl IntoIterator<Item = u64>, f: &impl Fn(u64, u64) -> u64) -> u64 {
    all.into_iter().reduce(f).expect("there is an element")
}

/// A balanced tree over the lanes of a warp.
fn tree(mut lanes: Vec<u64>, f: &impl Fn(u64, u64) -> u64) -> u64 {
    for distance in [1, 2, 4, 8, 16] {
        let one = |i: usize| f(lanes[i & !distance], lanes[i | distance]);
        lanes = (0..32).map(one).collect();
    }
    lanes[0]
}

/// Reduces elements of every type by every operation, over threads, warps and blocks, on Hopper also over clusters, and
/// compares every result with the host's in the documented order, bit by bit. The blocks and what a thread holds are drawn.
/// Returns how many the results were.
///
/// # Errors
///
/// Returns the first difference in words.
pub fn check_all(device: &Device) -> Result<usize, String> {
    let is_hopper = device.arch() >= Arch::Sm90a;
    let mut r = Random::new(59);
    let mut count = 0;
    for (i, (op, ty)) in cases().enumerate() {
        let f = on_host(op, ty);
        let held = Held::draw(&mut r);
        let mode = r.below(3_usize);
        let (warps, n) = (held.threads as usize / 32, held.layout.size() as usize);
        let own = |k: &mut Builder, op: BinaryOp, x: &Fragment| {
            let x = x.with_layout(&held.layout);
            vec![
                k.reduce_all(op, &x),
                k.reduce_warp(op, &x),
                k.reduce_block(op, &x),
                k.reduce(op, &x, mode),
            ]
        };
        let wrong = |what: &str, found: &[u64], expected: &[u64]| {
            let op = op.ptx();
            Err(format!(
                "{op} of {ty}{what}: {found:x?}, not {expected:x?} ({held:?}, mode {mode})"
            ))
        };
        let numbers = || with_nan(op, ty, small(ty, i as u64));
        let [found, given] = run(device, (op, ty), held.extents(), numbers(), &own)?;
        let of: Vec<Vec<u64>> = given.iter().map(|given| held.own(given)).collect();
        let lanes: Vec<Vec<u64>> = of
            .chunks(32)
            .map(|warp| {
                let of_lanes = |e: usize| tree(warp.iter().map(|own| own[e]).collect(), &f);
                (0..n).map(of_lanes).collect()
            })
            .collect();
        let blocks: Vec<Vec<u64>> = lanes
            .chunks(warps)
            .map(|block| {
                let of_warps = |e: usize| fold(block.iter().map(|warp| warp[e]), &f);
                (0..n).map(of_warps).collect()
            })
            .collect();
        let extent = |mode: usize| held.layout.mode(mode).expect("three modes").size() as usize;
        let before: usize = (0..mode).map(extent).product();
        let along = extent(mode);
        for (t, found) in found.iter().enumerate() {
            let mut expected = vec![fold(of[t].iter().copied(), &f)];
            expected.extend(&lanes[t / 32]);
            expected.extend(&blocks[t / 32 / warps]);
            expected.extend((0..n / along).map(|e| {
                let first = e % before + e / before * before * along;
                fold((0..along).map(|i| of[t][first + i * before]), &f)
            }));
            if !all_alike(ty, found, &expected) {
                return wrong(&format!(", thread {t}"), found, &expected);
            }
            count += found.len();
        }
        if is_hopper && i % 2 == 0 {
            let cluster = |k: &mut Builder, op: BinaryOp, x: &Fragment| {
                let x = x.with_layout(&held.layout);
                vec![k.reduce_cluster(op, &x, 2), k.reduce_cluster(op, &x, 2)]
            };
            let [found, _] = run(device, (op, ty), held.extents(), numbers(), &cluster)?;
            let expected: Vec<u64> = (0..n).map(|e| f(blocks[0][e], blocks[1][e])).collect();
            let twice = [&expected[..], &expected[..]].concat();
            if let Some(found) = found.iter().find(|found| !all_alike(ty, found, &twice)) {
                return wrong(" over a cluster", found, &twice);
            }
            count += found.len() * 2 * n;
        }
    }
    Ok(count)
}

/// Whether results are the expected ones: the same bits, or both a NaN.
fn all_alike(ty: Ty, found: &[u64], expected: &[u64]) -> bool {
    let mut pairs = found.iter().zip(expected);
    found.len() == expected.len() && pairs.all(|(a, b)| alike(ty, *a, *b))
}

/// What an operation leaves every number as it is with, as bits.
fn neutral(op: BinaryOp, ty: Ty) -> u64 {
    let least = match ty {
        Ty::S8 | Ty::S16 | Ty::S32 | Ty::S64 => 1 << (ty.bits() - 1),
        _ => 0,
    };
    let all = u64::MAX >> (64 - ty.bits());
    match (op, FloatFormat::of(ty)) {
        (_, Some(of)) => {
            let number = match op {
                BinaryOp::Mul => 1.0,
                BinaryOp::Max | BinaryOp::MaxNan => f64::NEG_INFINITY,
                BinaryOp::Min | BinaryOp::MinNan => f64::INFINITY,
                _ => -0.0,
            };
            of.encode(number, colex_atom::Rounding::Nearest)
        }
        (BinaryOp::Mul, None) => 1,
        (BinaryOp::Max, None) => least,
        (BinaryOp::Min, None) => all ^ least,
        (BinaryOp::And, None) => all,
        (_, None) => 0,
    }
}

/// The prefixes of a block's elements in the documented order: of each thread the elements before its own, and all of them.
fn prefixes(of: &[Vec<u64>], start: u64, f: &impl Fn(u64, u64) -> u64) -> (Vec<u64>, u64) {
    let mut before = Vec::new();
    let mut earlier = start;
    for warp in of.chunks(32) {
        let mut own: Vec<u64> = warp.iter().map(|x| fold(x.iter().copied(), f)).collect();
        for distance in [1, 2, 4, 8, 16] {
            let with = |lane: usize| match lane.checked_sub(distance) {
                Some(below) => f(own[below], own[lane]),
                None => own[lane],
            };
            own = (0..32).map(with).collect();
        }
        let lanes = std::iter::once(start).chain(own[..31].iter().copied());
        before.extend(lanes.map(|lanes| f(earlier, lanes)));
        earlier = f(earlier, own[31]);
    }
    (before, earlier)
}

/// Computes scans of every type by every operation, inclusive and exclusive, of drawn blocks, and compares every prefix with
/// the host's in the documented order, bit by bit; of integers, whose order decides nothing, also with the fold of the elements
/// one after the other. Returns how many results they were.
///
/// # Errors
///
/// Returns the first difference in words.
pub fn scans(device: &Device) -> Result<usize, String> {
    let mut r = Random::new(61);
    let mut count = 0;
    for (i, (op, ty)) in cases().enumerate() {
        let f = on_host(op, ty);
        let held = Held::draw(&mut r);
        let body = |k: &mut Builder, op: BinaryOp, x: &Fragment| {
            let x = x.with_layout(&held.layout);
            let (own, all) = k.scan_block(op, &x, false);
            let (before, _) = k.scan_block(op, &x, true);
            vec![own, before, all]
        };
        let numbers = with_nan(op, ty, small(ty, i as u64));
        let [found, given] = run(device, (op, ty), held.extents(), numbers, &body)?;
        let of: Vec<Vec<u64>> = given.iter().map(|given| held.own(given)).collect();
        let threads = held.threads as usize;
        for (block, of) in of.chunks(threads).enumerate() {
            let start = neutral(op, ty);
            let (before, all) = prefixes(of, start, &f);
            let mut last = start;
            for (t, own) in of.iter().enumerate() {
                let up_to = |e: usize| f(before[t], fold(own[..=e].iter().copied(), &f));
                let each = (0..own.len()).map(up_to);
                let mut expected: Vec<u64> = each.clone().collect();
                expected.push(before[t]);
                expected.extend(each.take(own.len() - 1));
                expected.push(all);
                let found = &found[block * threads + t];
                let mut is_right = all_alike(ty, found, &expected);
                if ty.is_integer() {
                    for (e, x) in own.iter().enumerate() {
                        is_right &= found[own.len() + e] == last;
                        last = f(last, *x);
                        is_right &= found[e] == last;
                    }
                }
                if !is_right {
                    let op = op.ptx();
                    return Err(format!(
                        "{op} of {ty}, thread {t}: {found:x?}, not {expected:x?} ({held:?})"
                    ));
                }
                count += found.len();
            }
        }
    }
    Ok(count)
}

/// Whether an element is beyond another one, and whether they are equal, by `Max` or `Min`.
fn beyond(op: BinaryOp, ty: Ty, [a, b]: [u64; 2]) -> (bool, bool) {
    let order = match FloatFormat::of(ty) {
        Some(of) => {
            let [a, b] = [a, b].map(|x| of.decode(x));
            match (a.is_nan(), b.is_nan()) {
                (true, true) => return (false, true),
                (false, true) => return (true, false),
                _ => a.partial_cmp(&b),
            }
        }
        None if ty == Ty::U64 => Some(a.cmp(&b)),
        None => Some(signed(ty, a).cmp(&signed(ty, b))),
    };
    let wanted = if op == BinaryOp::Max {
        std::cmp::Ordering::Greater
    } else {
        std::cmp::Ordering::Less
    };
    (
        order == Some(wanted),
        order == Some(std::cmp::Ordering::Equal),
    )
}

/// Computes the largest and the smallest elements of drawn blocks and their numbers, of every type, with equal elements, zeros
/// of both signs, infinities and NaN, and numbers in drawn orders; compares both with what the host finds. Returns how many
/// results they were.
///
/// # Errors
///
/// Returns the first difference in words.
pub fn arg_reductions(device: &Device) -> Result<usize, String> {
    let mut r = Random::new(67);
    let mut count = 0;
    let both = [BinaryOp::Max, BinaryOp::Min];
    let all = TYPES.into_iter().flat_map(|ty| both.map(|op| (op, ty)));
    for (op, ty) in all.flat_map(|case| [case; 2]) {
        let held = Held::draw(&mut r);
        let n = held.layout.size();
        let [first, step] = r.one(&[[0, 1], [7000, -1], [500, 3]]);
        let turned = r.below(64) as i64;
        let number = |place: i64| first + step * (place ^ turned);
        let body = |k: &mut Builder, op: BinaryOp, x: &Fragment| {
            let x = x.with_layout(&held.layout);
            let numbers = k.fragment(Ty::S32, Layout::new(n, 1).expect("a mode").to_static());
            for i in 0..n {
                let place = Expr::from(k.thread()) * n as i32 + i as i32;
                let number = (place ^ turned as i32) * step as i32 + first as i32;
                k.assign(&numbers.values(i, 1), number);
            }
            let numbers =
                numbers.with_layout(Layout::column_major(x.layout().shape()).expect("a shape"));
            let (value, at) = k.arg_reduce_block(op, &x, &numbers);
            // In digits, each of which every type has.
            let digit = |unit: i32| (Expr::from(&at) / unit % 64).to(ty);
            let digits = [1, 64, 4096].map(|unit| k.map(digit(unit)));
            std::iter::once(value).chain(digits).collect()
        };
        // Few different ones, so that some are equal.
        let few: Vec<u64> = (0..1 + r.below(40)).map(|_| element(&mut r, ty)).collect();
        let draw = |_| r.one(&few);
        let [found, given] = run(device, (op, ty), held.extents(), draw, &body)?;
        let of: Vec<Vec<u64>> = given.iter().map(|given| held.own(given)).collect();
        let threads = held.threads as usize;
        for (block, of) in of.chunks(threads).enumerate() {
            let all = (0..)
                .zip(of.iter().flatten())
                .map(|(place, x)| (*x, number(place)));
            let better = |best: (u64, i64), next: (u64, i64)| {
                let (is_beyond, is_equal) = beyond(op, ty, [next.0, best.0]);
                if is_beyond || is_equal && next.1 < best.1 {
                    next
                } else {
                    best
                }
            };
            let (value, at) = all.reduce(better).expect("there is an element");
            let digit = |unit: i64| match FloatFormat::of(ty) {
                Some(of) => of.encode((at / unit % 64) as f64, colex_atom::Rounding::Nearest),
                None => (at / unit % 64) as u64,
            };
            let expected = [value, digit(1), digit(64), digit(4096)];
            for (t, found) in found[block * threads..][..threads].iter().enumerate() {
                if !all_alike(ty, found, &expected) {
                    let op = op.ptx();
                    return Err(format!(
                        "{op} of {ty}, thread {t}: {found:x?}, not {expected:x?}, number {at} ({held:?})"
                    ));
                }
                count += found.len();
            }
        }
    }
    Ok(count)
}

/// A partition of a tile: threads, elements of a thread, tile, block.
type Partition = (Layout, Layout, [i64; 2], u32);

/// Partitions whose lines lie in a thread, a warp or several warps.
const TILES: [(&str, &str, [i64; 2], u32); 7] = [
    ("(4,8):(8,1)", "(1,1):(0,0)", [8, 16], 32),
    ("(4,8):(1,4)", "(2,1):(1,0)", [16, 8], 32),
    ("(1,64):(64,1)", "(1,2):(0,1)", [2, 256], 64),
    ("(64,1):(1,64)", "(1,4):(0,1)", [64, 4], 64),
    ("(3,32):(32,1)", "(1,1):(0,0)", [6, 64], 96),
    ("(16,8):(8,1)", "(1,2):(0,1)", [32, 16], 128),
    ("(2,64):(1,2)", "(1,1):(0,0)", [4, 64], 128),
];

/// Draws a partition in which every mode has a power of two of the threads.
fn partition(r: &mut Random) -> Partition {
    let (all, first) = (5 + r.below(3_u32), r.below(6_u32));
    let [a, b] = [1 << first, 1_i64 << (all - first)];
    let strides = r.one(&[(b, 1), (1, a)]);
    let threads = Layout::new((a, b), strides).expect("two modes");
    let [v, w] = r.one(&[[1, 1], [1, 2], [2, 1], [2, 2], [4, 1]]);
    let [m, n] = [0; 2].map(|_| r.one(&[1, 1, 1, 2, 3]));
    let values = Layout::new((v, w), (w, 1)).expect("two modes");
    (threads, values, [a * v * m, b * w * n], 1 << all)
}

/// Reduces tiles of every type along each of their modes, over listed and drawn partitions, and compares every element with
/// the host's fold of its line. Returns how many they were.
///
/// # Errors
///
/// Returns the first difference in words.
pub fn along(device: &Device) -> Result<usize, String> {
    let mut r = Random::new(73);
    let mut cases = Vec::new();
    for (j, ty) in TYPES.into_iter().enumerate() {
        for mode in 0..2 {
            for (i, (threads, values, tile, block)) in TILES.into_iter().enumerate() {
                let op = [BinaryOp::Add, BinaryOp::Max, BinaryOp::Min][(i + j) % 3];
                let [threads, values] =
                    [threads, values].map(|text| text.parse().expect("a layout"));
                let partition = (threads, values, tile, block);
                cases.push(((op, ty), partition, mode));
            }
            // Products of floats round, and the order of their factors shows.
            let all = if ty.is_integer() {
                &OPS[..]
            } else {
                &[BinaryOp::Add, BinaryOp::Max]
            };
            cases.push(((r.one(all), ty), partition(&mut r), mode));
        }
    }
    for (j, ty) in NAN_TYPES.into_iter().enumerate() {
        for mode in 0..2 {
            for (i, (threads, values, tile, block)) in TILES.into_iter().enumerate() {
                let [threads, values] =
                    [threads, values].map(|text| text.parse().expect("a layout"));
                let op = NAN_OPS[(i + j + mode) % 2];
                cases.push(((op, ty), (threads, values, tile, block), mode));
            }
            cases.push(((r.one(&NAN_OPS), ty), partition(&mut r), mode));
        }
    }
    let mut count = 0;
    for ((op, ty), partition, mode) in cases {
        let done = along_one(device, (op, ty), &partition, mode);
        count += done.map_err(|why| {
            let op = op.ptx();
            format!("{op} of {ty} along {mode} of {partition:?}: {why}")
        })?;
    }
    Ok(count)
}

/// Builds a kernel that replaces each element of a tile by the reduction of its line.
fn along_kernel(
    arch: Arch,
    (op, ty): (BinaryOp, Ty),
    (threads, values, tile, block): &Partition,
    mode: usize,
) -> Result<TensorKernel, colex_tensor::Error> {
    let mut k = Builder::new("along", arch, *block);
    let layout = Layout::new((tile[0], tile[1]), (tile[1], 1))?.to_static();
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
    k.finish()
}

fn along_one(
    device: &Device,
    (op, ty): (BinaryOp, Ty),
    partition: &Partition,
    mode: usize,
) -> Result<usize, String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let (.., tile, block) = partition.clone();
    let built = along_kernel(device.arch(), (op, ty), partition, mode).map_err(|e| text(&e))?;
    let number = |i: i64| {
        let x = i * 7919 % 13 - 6;
        match FloatFormat::of(ty) {
            Some(of) => of.encode(x as f64, colex_atom::Rounding::Nearest),
            None => x as u64 & (u64::MAX >> (64 - ty.bits())),
        }
    };
    let number = with_nan(op, ty, number);
    let given: Vec<u64> = (0..tile[0] * tile[1]).map(number).collect();
    let buffers = [
        upload(device, ty, &given)?,
        upload(device, ty, &vec![0; given.len()])?,
    ];
    let layout = Layout::new((tile[0], tile[1]), (tile[1], 1)).map_err(|e| text(&e))?;
    let bytes = given.len() as u64 * u64::from(ty.bits() / 8);
    let memory = buffers.each_ref().map(|buffer| {
        let address = buffer.address();
        Arg::raw(RawMemory { address, bytes, ty }, &layout)
    });
    let arguments = built.arguments(&memory).map_err(|e| text(&e))?;
    let launch = Launch::new(1, block).dynamic_shared(built.dynamic_shared());
    let function = device.load(&built.kernel).map_err(|e| text(&e))?;
    let launched = device.launch(&function, launch, &arguments);
    launched.map_err(|e| text(&e))?;
    let found = words(ty, &buffers[1].download().map_err(|e| text(&e))?);
    let f = on_host(op, ty);
    for (place, own) in found.iter().enumerate() {
        let (m, n) = (place as i64 / tile[1], place as i64 % tile[1]);
        let line = (0..tile[mode]).map(|i| match mode {
            0 => given[(i * tile[1] + n) as usize],
            _ => given[(m * tile[1] + i) as usize],
        });
        let expected = fold(line, &f);
        // Sums of these are exact, and the order decides the sign of a zero.
        let alike = match FloatFormat::of(ty) {
            Some(of) => {
                let [own, expected] = [*own, expected].map(|x| of.decode(x));
                own == expected || own.is_nan() && expected.is_nan()
            }
            None => *own == expected,
        };
        if !alike {
            return Err(format!("element {place} is {own:#x}, not {expected:#x}"));
        }
    }
    Ok(found.len())
}
