//! Reductions and scans on the simulator, against the host in the documented order.

use colex_atom::{Arch, FloatFormat, Ty};
use colex_gpu::Device;
use colex_ir::BinaryOp;
use colex_proof::kernels::reductions::{Body, TYPES, cases, fold, on_host as with};
use colex_tensor::{Builder, Expr, Fragment};

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
