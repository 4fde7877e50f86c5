//! Reductions and scans of fragments on a device.

use colex_atom::{Arch, FloatFormat, Ty};
use colex_gpu::{Device, Launch};
use colex_ir::BinaryOp;
use colex_layout::Layout;
use colex_tensor::{Arg, AtThread, Builder, Expr, Fragment, RawMemory, Tensor, TensorKernel};
use colex_tiled::TiledCopy;

use super::fragments::{upload, words};

/// The types whose elements are reduced.
pub const TYPES: [Ty; 12] = [
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

/// What a thread computes of its elements by an operation: the results, one after the other.
pub type Body = fn(&mut Builder, BinaryOp, &Fragment) -> Vec<Fragment>;

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
    let (tid, block) = (k.thread(), k.block_index(0).within(0..blocks));
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
    body: Body,
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
        k.assign(&run.values(first, size), result);
        first += size;
    }
    k.copy_in_bounds(&copy, &all, &target);
    Ok((k.finish()?, count))
}

/// Runs a kernel of that body on one block, on Hopper on one cluster, and returns the results of every thread and the
/// elements that it was given, as bits.
///
/// # Errors
///
/// Returns why there is no result, in words.
pub fn run(
    device: &Device,
    (op, ty): (BinaryOp, Ty),
    extents: [i64; 2],
    seed: u64,
    body: Body,
) -> Result<[Vec<Vec<u64>>; 2], String> {
    let text = |e: &dyn std::fmt::Display| format!("{} of {ty}: {e}", op.ptx());
    let (built, count) = kernel(device.arch(), op, ty, extents, body).map_err(|e| text(&e))?;
    let blocks = if device.arch() >= Arch::Sm90a { 2 } else { 1 };
    let [threads, n] = [extents[0] * blocks, extents[1]];
    let number = |i: i64| {
        let x = (i * 7919 + seed as i64 * 31) % 61 - 30;
        match FloatFormat::of(ty) {
            Some(of) => {
                let x = if x == 0 { 1.0 } else { x as f64 / 7.0 };
                of.encode(x, colex_atom::Rounding::Nearest)
            }
            None => x as u64 & (u64::MAX >> (64 - ty.bits())),
        }
    };
    let given: Vec<u64> = (0..threads * n).map(number).collect();
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

/// Returns every operation with every type that has it.
pub fn cases() -> impl Iterator<Item = (BinaryOp, Ty)> {
    let all = TYPES.into_iter().flat_map(|ty| OPS.map(|op| (op, ty)));
    let is_bitwise = |op: &BinaryOp| matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor);
    all.filter(move |(op, ty)| ty.is_integer() || !is_bitwise(op))
}

/// Returns an operation on the bits of two elements, on the host.
pub fn on_host(op: BinaryOp, ty: Ty) -> impl Fn(u64, u64) -> u64 {
    let formula = Expr::binary(op, Expr::input(0, ty), Expr::input(1, ty));
    move |a, b| formula.evaluate(&[a, b]).expect("two inputs are given")
}

/// Returns the reduction of several elements, one after the other.
pub fn fold(all: impl IntoIterator<Item = u64>, f: &impl Fn(u64, u64) -> u64) -> u64 {
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
/// compares every result with the host's in the documented order, bit by bit. Returns how many they were.
///
/// # Errors
///
/// Returns the first difference in words.
pub fn check_all(device: &Device) -> Result<usize, String> {
    let is_hopper = device.arch() >= Arch::Sm90a;
    let mut count = 0;
    for (i, (op, ty)) in cases().enumerate() {
        let f = on_host(op, ty);
        let extents = [[32, 64, 96][i % 3], [2, 4, 6][i / 3 % 3]];
        let (warps, n) = (extents[0] as usize / 32, extents[1] as usize);
        let own: Body = |k, op, x| {
            let half = x.layout().size() / 2;
            let two = x.with_layout(((half, 2), (1, half)));
            let all = [
                k.reduce_all(op, x),
                k.reduce_warp(op, x),
                k.reduce_block(op, x),
            ];
            all.into_iter().chain([k.reduce(op, &two, 1)]).collect()
        };
        let cluster: Body = |k, op, x| vec![k.reduce_cluster(op, x, 2), k.reduce_cluster(op, x, 2)];
        let [found, given] = run(device, (op, ty), extents, i as u64, own)?;
        let lane = |warp: usize, e: usize| {
            tree((0..32).map(|lane| given[32 * warp + lane][e]).collect(), &f)
        };
        let block =
            |block: usize, e: usize| fold((0..warps).map(|warp| lane(block * warps + warp, e)), &f);
        for (t, found) in found.iter().enumerate() {
            let mut expected = vec![fold(given[t].iter().copied(), &f)];
            expected.extend((0..n).map(|e| lane(t / 32, e)));
            expected.extend((0..n).map(|e| block(t / 32 / warps, e)));
            expected.extend((0..n / 2).map(|e| f(given[t][e], given[t][n / 2 + e])));
            if *found != expected {
                return Err(format!(
                    "{} of {ty}, thread {t}: {found:x?}, not {expected:x?}",
                    op.ptx()
                ));
            }
            count += found.len();
        }
        if is_hopper && i % 2 == 0 {
            let [found, again] = run(device, (op, ty), extents, i as u64, cluster)?;
            let expected: Vec<u64> = (0..n).map(|e| f(block(0, e), block(1, e))).collect();
            let twice = [&expected[..], &expected[..]].concat();
            if again != given || found.iter().any(|found| *found != twice) {
                return Err(format!(
                    "{} of {ty} over a cluster: {found:x?}, not {expected:x?}",
                    op.ptx()
                ));
            }
            count += found.len() * 2 * n;
        }
    }
    Ok(count)
}
