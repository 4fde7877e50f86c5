//! Rows of a matrix reduced or scanned by a block, and combined with their elements in an expression.

use colex_atom::{Arch, Ty};
use colex_gpu::ir::BinaryOp;
use colex_gpu::tensor::{AtThread, Error, Expr};
use colex_tiled::TiledCopy;

use crate::copies::{builder, layout, parameter, registers};
use crate::hook::{Hook, Kind, Random};
use crate::reference::{Given, memory};
use crate::{Family, Program, target, tensor};

pub(crate) fn families() -> Vec<Family> {
    vec![
        Family {
            name: "reduce",
            build: |h, r| rows(h, r, &[Form::Mode, Form::All, Form::Warp]),
        },
        Family {
            name: "reduce block",
            build: |h, r| rows(h, r, &[Form::Block, Form::Arg, Form::Scan]),
        },
        Family {
            name: "reduce along",
            build: |h, r| rows(h, r, &[Form::Along]),
        },
        Family {
            name: "reduce cluster",
            build: |h, r| rows(h, r, &[Form::Cluster]),
        },
    ]
}

/// What is combined with each element.
#[derive(Clone, Copy)]
enum Form {
    /// The sum of the thread's elements, along one mode.
    Mode,
    /// Their product with themselves.
    All,
    /// The largest of the warp.
    Warp,
    /// The sum of the block.
    Block,
    /// The sum along a mode of the tile.
    Along,
    /// The number of the largest element of the block.
    Arg,
    /// The sum of the elements up to this one.
    Scan,
    /// The sum of the cluster.
    Cluster,
}

/// The threads of a block, which take a row's elements in turns.
const THREADS: i64 = 64;

fn rows(h: &mut Hook, r: &mut Random, forms: &[Form]) -> Result<Program, Error> {
    let form = r.one(forms);
    let ty = r.one(&[Ty::F32, Ty::S32]);
    let vector = r.one(&[1, 2, 4]);
    let tile = [1, THREADS * vector];
    let (rows, pads) = (2 * r.range(1, 3), r.one(&[[0, 4], [4, 0], [8, 4]]));
    let mut k = builder(h, "rows", Arch::Sm90a, THREADS as u32);
    if matches!(form, Form::Cluster) {
        let blocks = u32::try_from(h.count("cluster", 2)).unwrap_or(0);
        k.cluster([blocks, 1, 1]);
    }
    let src = parameter(h, &mut k, "src", ty, "(100,256):(256,_1)");
    let dst = parameter(h, &mut k, "dst", ty, "(100,256):(256,_1)");
    let atom = format!("UniversalCopy<uint{}_t>", 32 * vector);
    let values = format!("(1,{vector}):(0,1)");
    // Which elements are reduced follows from the tile and from what a thread has of it, so these stay.
    let threads = h.layout("TiledCopy::new", Kind::Count, &layout("(1,64):(64,1)"));
    let copy = TiledCopy::new(colex_atom::copy(&atom)?, 32, &threads, layout(&values))?;
    let (thread, row) = (k.thread(), k.block_index(0));
    let place = h.place("partition", &thread);
    let from = h.moved("local_tile", "from", &row);
    let from = src.local_tile(tile, &[from, 0.into()]);
    let to = h.moved("local_tile", "to", &row);
    let to = dst.local_tile(tile, &[to, 0.into()]);
    let from = copy.at(&place).partition_src(&from);
    let to = copy.at(&place).partition_dst(&to);
    let x = registers(h, &mut k, ty, &from);
    k.copy_in_bounds(&copy, &from, &x);
    // Along the other mode, each element is by itself.
    let mode = match form {
        Form::Along => h.pick("reduce_along", Kind::Operation, 1, &[0]),
        _ => 1,
    };
    let term: Expr = match form {
        Form::Along => k.reduce_along(BinaryOp::Add, &x, &from, mode).into(),
        Form::Mode => k.reduce(BinaryOp::Add, &x, 0).into(),
        Form::All => k.reduce_all(BinaryOp::Add, &x * &x).into(),
        Form::Warp => {
            let own = k.reduce_all(BinaryOp::Max, &x);
            k.reduce_warp(BinaryOp::Max, &own).into()
        }
        Form::Block => {
            let own = k.reduce_all(BinaryOp::Add, &x);
            k.reduce_block(BinaryOp::Add, &own).into()
        }
        Form::Arg => {
            let numbers = k.fragment(h.ty("arg_reduce_block", Ty::S32), x.layout());
            for i in 0..x.layout().size() {
                let number = Expr::from(&thread) * vector as i32 + i as i32;
                k.assign(&numbers.values(i, 1), number);
            }
            let (_, at) = k.arg_reduce_block(BinaryOp::Max, &x, &numbers);
            Expr::from(&at).to(ty)
        }
        Form::Scan => {
            let (up_to, _) = k.scan_block(BinaryOp::Add, &x, false);
            up_to.into()
        }
        Form::Cluster => {
            let own = k.reduce_all(BinaryOp::Add, &x);
            let blocks = h.count("reduce_cluster", 2);
            let blocks = u32::try_from(blocks).unwrap_or(0);
            k.reduce_cluster(BinaryOp::Add, &own, blocks).into()
        }
    };
    let sums = k.map(&x + term);
    let out = registers(h, &mut k, ty, &to);
    k.assign(&out, &sums * 2);
    let out = k.convert(&out, h.ty("convert", ty));
    k.copy_in_bounds(&copy, &out, &to);
    let shift = ["from", "to"].map(|name| h.shift(name));
    let [source, other] = pads.map(|pad| format!("({rows},{}):({},_1)", tile[1], tile[1] + pad));
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm90a,
        given: vec![tensor(ty, &source, 1), target(ty, &other)],
        cluster: if matches!(form, Form::Cluster) { 2 } else { 1 },
        grid: |given| [memory(&given[1]).extent(0) as u32, 1, 1],
        expected: Box::new(move |given| {
            let mut all = given.to_vec();
            let source = memory(&given[0]).clone();
            let row = |m: i64| -> Vec<f64> {
                (0..tile[1])
                    .map(|n| source.get(&[m + shift[0], n]))
                    .collect()
            };
            let Given::Tensor(target) = &mut all[1] else {
                unreachable!("a tensor")
            };
            for m in 0..target.extent(0) {
                let x = row(m);
                let part = |n: usize, of: usize| &x[n / of * of..(n / of + 1) * of];
                let largest = |x: &[f64]| x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let vector = vector as usize;
                for n in 0..x.len() {
                    let term: f64 = match form {
                        Form::Mode => part(n, vector).iter().sum(),
                        Form::All => part(n, vector).iter().map(|x| x * x).sum(),
                        Form::Warp => largest(part(n, 32 * vector)),
                        Form::Along if mode == 0 => x[n],
                        Form::Along | Form::Block => x.iter().sum(),
                        Form::Arg => {
                            let most = largest(&x);
                            x.iter().position(|x| *x == most).unwrap_or(0) as f64
                        }
                        Form::Scan => x[..=n].iter().sum(),
                        Form::Cluster => {
                            let (a, b) = (row(m / 2 * 2), row(m / 2 * 2 + 1));
                            a.iter().chain(&b).sum()
                        }
                    };
                    target.set(&[m + shift[1], n as i64], (x[n] + term) * 2.0);
                }
            }
            all
        }),
    })
}
