//! Copies: through registers, with and without a question, through shared memory, by `cp.async`, by bulk copies; and sums of
//! elements.

use colex_atom::{Arch, Ty};
use colex_gpu::ir::FenceKind;
use colex_gpu::tensor::{AtThread, Builder, Error, Expr, Fragment, Index, Tensor};
use colex_layout::{ComposedLayout, Layout, Swizzle};
use colex_tiled::TiledCopy;

use crate::hook::{Hook, Kind, Random};
use crate::pipelines;
use crate::reference::{Given, memory, written};
use crate::{Family, Program, target, tensor};

pub(crate) fn families() -> Vec<Family> {
    vec![
        Family {
            name: "flat",
            build: flat,
        },
        Family {
            name: "whole tiles",
            build: whole,
        },
        Family {
            name: "predicated",
            build: predicated,
        },
        Family {
            name: "transpose",
            build: transpose,
        },
        Family {
            name: "cp.async",
            build: cp_async,
        },
        Family {
            name: "elementwise",
            build: elementwise,
        },
        Family {
            name: "bulk",
            build: bulk,
        },
    ]
}

pub(crate) fn layout(text: &str) -> Layout {
    text.parse().expect("a layout")
}

/// A tiled copy, its threads and values through the hook.
pub(crate) fn tiled(
    h: &mut Hook,
    atom: &str,
    bits: u32,
    threads: &str,
    values: &str,
) -> Result<TiledCopy, Error> {
    let threads = h.layout("TiledCopy::new", Kind::Count, &layout(threads));
    let values = h.layout("TiledCopy::new", Kind::Layout, &layout(values));
    Ok(TiledCopy::new(
        colex_atom::copy(atom)?,
        i64::from(bits),
        &threads,
        &values,
    )?)
}

pub(crate) fn builder(h: &mut Hook, name: &str, arch: Arch, threads: u32) -> Builder {
    let threads = h.count("Builder::new", i64::from(threads));
    Builder::new(name, arch, u32::try_from(threads).unwrap_or(0))
}

/// A parameter, its type and layout through the hook.
pub(crate) fn parameter(h: &mut Hook, k: &mut Builder, name: &str, ty: Ty, like: &str) -> Tensor {
    let ty = h.ty("tensor", ty);
    let like = h.layout("tensor", Kind::Layout, &layout(like));
    k.tensor(name, ty, &like)
}

/// A tensor in shared memory, its type, layout and swizzle through the hook.
pub(crate) fn shared(h: &mut Hook, k: &mut Builder, ty: Ty, swizzle: &str, inner: &str) -> Tensor {
    let ty = h.ty("shared_tensor", ty);
    let inner = h.layout("shared_tensor", Kind::Layout, &layout(inner));
    let swizzle: Swizzle = swizzle.parse().expect("a swizzle");
    let swizzle = h.swizzle("shared_tensor", swizzle);
    k.shared_tensor(ty, ComposedLayout::new(swizzle, 0, inner).unwrap())
}

/// Registers like a part, or of another type or layout.
pub(crate) fn registers(h: &mut Hook, k: &mut Builder, ty: Ty, part: &Tensor) -> Fragment {
    let own = k.fragment_like(part);
    let other = h.ty("fragment", ty);
    let form = h.layout("fragment", Kind::Layout, own.layout());
    if other == ty && form == *own.layout() {
        return own;
    }
    k.fragment(other, form.to_static())
}

pub(crate) fn grid_of(given: &Given, tile: [i64; 2]) -> [u32; 3] {
    let memory = memory(given);
    let blocks = |mode: usize| ((memory.extent(mode) + tile[mode] - 1) / tile[mode]) as u32;
    [blocks(0), blocks(1), 1]
}

/// `to(m, n) = from(m, n)` tile by tile, both moved by what the hook says; zeros where `from` has no element.
fn copied(
    given: &[Given],
    tile: [i64; 2],
    shift: [[i64; 2]; 2],
    value: impl Fn(f64, [i64; 2]) -> Option<f64>,
) -> Vec<Given> {
    written(given, |from, to| {
        let blocks = grid_of(&given[1], tile);
        for m in 0..i64::from(blocks[0]) * tile[0] {
            for n in 0..i64::from(blocks[1]) * tile[1] {
                let place = |s: [i64; 2]| [m + s[0] * tile[0], n + s[1] * tile[1]];
                let source = place(shift[0]);
                if let Some(x) = value(from.get(&source), source) {
                    to.set(&place(shift[1]), x);
                }
            }
        }
    })
}

/// Types of which a vector is in the table.
pub(crate) fn form(r: &mut Random) -> (Ty, i64) {
    let ty = r.one(&[Ty::F16, Ty::Bf16, Ty::F32, Ty::F64, Ty::S32]);
    let most = 128 / i64::from(ty.bits());
    let vector = r.one(&[1, 2, most]);
    (ty, vector)
}

fn flat(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let (ty, vector) = form(r);
    let tile = h_tile(vector);
    let rows = r.range(5, 30);
    let columns = vector * r.range(1, 40 / vector);
    let pad = vector * r.range(0, 2);
    let mut k = builder(h, "flat", Arch::Sm80, 32);
    let src = parameter(h, &mut k, "src", ty, "(100,96):(96,_1)");
    let dst = parameter(h, &mut k, "dst", ty, "(100,96):(96,_1)");
    let atom = format!("UniversalCopy<uint{}_t>", i64::from(ty.bits()) * vector);
    let values = format!("(1,{vector}):(0,1)");
    let copy = tiled(h, &atom, ty.bits(), "(4,8):(8,1)", &values)?;
    let tid = k.thread();
    let tid = h.place("partition", &tid);
    let at = [k.block_index(0), k.block_index(1)];
    let from = src.local_tile(
        h.tile("local_tile", tile),
        &[
            h.moved("local_tile", "from m", &at[0]),
            h.moved("local_tile", "from n", &at[1]),
        ],
    );
    let to = dst.local_tile(
        h.tile("local_tile", tile),
        &[
            h.moved("local_tile", "to m", &at[0]),
            h.moved("local_tile", "to n", &at[1]),
        ],
    );
    let part = h.pick(
        "partition",
        Kind::Space,
        from.clone(),
        &[src.clone(), dst.clone()],
    );
    let from = copy.at(&tid).partition_src(&part);
    let to = copy.at(&tid).partition_dst(&to);
    let held = registers(h, &mut k, ty, &from);
    k.copy_in_bounds(
        &copy,
        &h.pick("copy_in_bounds", Kind::Space, from.clone(), &[src]),
        &held,
    );
    k.copy_in_bounds(
        &copy,
        &held,
        &h.pick("copy_in_bounds", Kind::Space, to, &[dst]),
    );
    let shift = ["from m", "from n", "to m", "to n"].map(|name| h.shift(name));
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm80,
        given: vec![
            tensor(ty, &format!("({rows},{columns}):({},_1)", columns + pad), 1),
            target(ty, &format!("({rows},{columns}):({},_1)", columns + vector)),
        ],
        cluster: 1,
        grid: match vector {
            1 => |given| grid_of(&given[1], h_tile(1)),
            2 => |given| grid_of(&given[1], h_tile(2)),
            4 => |given| grid_of(&given[1], h_tile(4)),
            _ => |given| grid_of(&given[1], h_tile(8)),
        },
        expected: Box::new(move |given| {
            copied(
                given,
                tile,
                [[shift[0], shift[1]], [shift[2], shift[3]]],
                |x, _| Some(x),
            )
        }),
    })
}

pub(crate) fn h_tile(vector: i64) -> [i64; 2] {
    [8, 8 * vector]
}

/// Static layouts, and no question.
fn whole(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let (ty, vector) = form(r);
    let columns = 16 * vector;
    let fixed = format!(
        "(_16,_{columns}):(_{},_1)",
        columns + vector * r.range(0, 3)
    );
    let dynamic = format!("(16,{columns}):({columns},_1)");
    let mut k = builder(h, "whole", Arch::Sm80, 64);
    let src = parameter(h, &mut k, "src", ty, &fixed);
    let dst = parameter(h, &mut k, "dst", ty, &dynamic);
    let atom = format!("UniversalCopy<uint{}_t>", i64::from(ty.bits()) * vector);
    let values = format!("(1,{vector}):(0,1)");
    let copy = tiled(h, &atom, ty.bits(), "(4,16):(16,1)", &values)?;
    let tid = k.thread();
    let tid = h.place("partition", &tid);
    let m = k.block_index(0);
    let tile = [8, columns];
    let from = src.local_tile(
        h.tile("local_tile", tile),
        &[
            h.moved("local_tile", "from m", &m),
            h.moved("local_tile", "from n", &0.into()),
        ],
    );
    let to = dst.local_tile(
        h.tile("local_tile", tile),
        &[
            h.moved("local_tile", "to m", &m),
            h.moved("local_tile", "to n", &0.into()),
        ],
    );
    let from = copy.at(&tid).partition_src(&from);
    let to = copy.at(&tid).partition_dst(&to);
    let held = registers(h, &mut k, ty, &from);
    k.copy(
        &copy,
        &h.pick("copy", Kind::Space, from.clone(), &[src]),
        &held,
    );
    k.copy(&copy, &held, &h.pick("copy", Kind::Space, to, &[dst]));
    let shift = ["from m", "from n", "to m", "to n"].map(|name| h.shift(name));
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm80,
        given: vec![tensor(ty, &fixed, 1), target(ty, &dynamic)],
        cluster: 1,
        grid: |given| [memory(&given[1]).extent(0) as u32 / 8, 1, 1],
        expected: Box::new(move |given| {
            copied(
                given,
                tile,
                [[shift[0], shift[1]], [shift[2], shift[3]]],
                |x, _| Some(x),
            )
        }),
    })
}

/// Elements below the diagonal, by a condition of the author's, of a shifted neighbourhood.
fn predicated(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let ty = r.one(&[Ty::F32, Ty::S32, Ty::F64]);
    let (rows, columns) = (r.range(4, 30), r.range(4, 30));
    let mut k = builder(h, "predicated", Arch::Sm80, 64);
    let src = parameter(h, &mut k, "src", ty, "(100,96):(96,_1)");
    let dst = parameter(h, &mut k, "dst", ty, "(100,96):(96,1)");
    let atom = format!("UniversalCopy<uint{}_t>", ty.bits());
    let copy = tiled(h, &atom, ty.bits(), "(8,8):(8,1)", "(1,1):(0,0)")?;
    let tid = k.thread();
    let tid = h.place("partition", &tid);
    let at = [k.block_index(0), k.block_index(1)];
    let tile = [8, 16];
    let by = [
        h.moved("offset_by", "by m", &0.into()),
        h.moved("offset_by", "by n", &(-1).into()),
    ];
    let from = src
        .local_tile(h.tile("local_tile", tile), &at)
        .offset_by(&by);
    let to = dst.local_tile(h.tile("local_tile", tile), &at);
    let from = copy.at(&tid).partition_src(&from);
    let to = copy.at(&tid).partition_dst(&to);
    let held = registers(h, &mut k, ty, &from);
    k.copy_in_bounds(
        &copy,
        &h.pick("copy_in_bounds", Kind::Space, from.clone(), &[src]),
        &held,
    );
    let ends = [dst.extent(0), dst.extent(1)];
    k.copy_if(
        &copy,
        &held,
        &h.pick("copy_if", Kind::Space, to, std::slice::from_ref(&dst)),
        |k, at| {
            let below = k.less(&at[1], &(&at[0] + 1));
            let m = k.less(&at[0], &ends[0]);
            let n = k.less(&at[1], &ends[1]);
            let inside = k.both(m, n);
            k.both(below, inside)
        },
    );
    let by = [h.shift("by m"), h.shift("by n") - 1];
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm80,
        given: vec![
            tensor(ty, &format!("({rows},{columns}):({columns},_1)"), 1),
            target(ty, &format!("({rows},{columns}):({columns},1)")),
        ],
        cluster: 1,
        grid: |given| grid_of(&given[1], [8, 16]),
        expected: Box::new(move |given| {
            written(given, |from, to| {
                for m in 0..to.extent(0) {
                    for n in 0..=m {
                        to.set(&[m, n], from.get(&[m + by[0], n + by[1]]));
                    }
                }
            })
        }),
    })
}

/// Through shared memory: rows come in, columns go out.
fn transpose(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let ty = r.one(&[Ty::F32, Ty::S32]);
    let (rows, columns) = (r.range(3, 40), r.range(3, 40));
    let (swizzle, inner) = r.one(&[
        ("Sw<0,4,3>", "(16,16):(17,1)"),
        ("Sw<4,0,4>", "(16,16):(16,1)"),
        ("Sw<2,2,3>", "(16,16):(16,1)"),
    ]);
    let mut k = builder(h, "transpose", Arch::Sm80, 64);
    let src = parameter(h, &mut k, "src", ty, "(100,96):(96,_1)");
    let dst = parameter(h, &mut k, "dst", ty, "(96,100):(100,_1)");
    let there = shared(h, &mut k, ty, swizzle, inner);
    let rows_first = tiled(
        h,
        "UniversalCopy<uint32_t>",
        32,
        "(4,16):(16,1)",
        "(1,1):(0,0)",
    )?;
    let tid = k.thread();
    let (put, get) = (h.place("partition", &tid), h.place("partition", &tid));
    let at = [k.block_index(0), k.block_index(1)];
    let from = src.local_tile(h.tile("local_tile", [16, 16]), &at);
    let to = dst.local_tile(
        h.tile("local_tile", [16, 16]),
        &[at[1].clone(), at[0].clone()],
    );
    let source = rows_first.at(&put).partition_src(&from);
    let into = rows_first.at(&put).partition_dst(&h.pick(
        "partition",
        Kind::Space,
        there.clone(),
        &[from.clone(), to.clone()],
    ));
    let held = k.fragment_like(&source);
    k.copy_in_bounds(&rows_first, &source, &held);
    k.copy(
        &rows_first,
        &held,
        &h.pick("copy", Kind::Space, into.clone(), &[source.clone()]),
    );
    k.sync();
    let order = h.layout("compose", Kind::Layout, &layout("(_16,_16):(_16,_1)"));
    let transposed = there.compose(&order);
    let out = rows_first.at(&get).partition_src(&transposed);
    let target_part = rows_first.at(&get).partition_dst(&to);
    let back = k.fragment_like(&out);
    k.copy(
        &rows_first,
        &h.pick("copy", Kind::Space, out, std::slice::from_ref(&there)),
        &back,
    );
    k.copy_in_bounds(&rows_first, &back, &target_part);
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm80,
        given: vec![
            tensor(ty, &format!("({rows},{columns}):({columns},_1)"), 1),
            target(ty, &format!("({columns},{rows}):({},_1)", rows + 1)),
        ],
        cluster: 1,
        grid: |given| {
            let [n, m, _] = grid_of(&given[1], [16, 16]);
            [m, n, 1]
        },
        expected: Box::new(move |given| {
            written(given, |from, to| {
                for n in 0..to.extent(0) {
                    for m in 0..to.extent(1) {
                        let place = order.at(n % 16 + m % 16 * 16).unwrap_or(0);
                        let (i, j) = (m / 16 * 16 + place % 16, n / 16 * 16 + place / 16);
                        to.set(&[n, m], from.get(&[i, j]));
                    }
                }
            })
        }),
    })
}

/// `cp.async` with zeros beyond the end into a ring of stages, one step along the columns a stage.
fn cp_async(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let ty = r.one(&[Ty::F16, Ty::F32]);
    let vector = 128 / i64::from(ty.bits());
    let width = 4 * vector;
    let (rows, columns) = (r.range(3, 30), r.range(3, 3 * width));
    let stride = (columns + vector - 1) / vector * vector;
    let mut k = builder(h, "stages", Arch::Sm80, 32);
    let src = parameter(h, &mut k, "src", ty, "(100,96):(96,_1)");
    let dst = parameter(h, &mut k, "dst", ty, "(100,96):(96,_1)");
    let stages = h.count("stages", 2);
    let inner = format!("(8,{width},{}):({width},1,{})", stages.max(1), 8 * width);
    let ring = shared(h, &mut k, ty, "Sw<0,4,3>", &inner);
    let load = "SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>";
    let values = format!("(1,{vector}):(0,1)");
    let load = tiled(h, load, ty.bits(), "(8,4):(4,1)", &values)?;
    let atom = format!("UniversalCopy<uint{}_t>", ty.bits());
    let store = tiled(h, &atom, ty.bits(), "(8,4):(4,1)", "(1,1):(0,0)")?;
    let tid = k.thread();
    let tid = h.place("partition", &tid);
    let m = k.block_index(0);
    let into = load.at(&tid).partition_dst(&ring);
    let out_of = store.at(&tid).partition_src(&ring);
    let steps = (dst.extent(1) + (width - 1)) / width;
    let tile = h.tile("local_tile", [8, width]);
    let (producer, consumer) = k.cp_async_pipeline(h.count("cp_async_pipeline", 2));
    let twin = k.cp_async_pipeline(2);
    let fetch = |h: &mut Hook, k: &mut Builder, step: &Index| {
        let stage = pipelines::acquire(h, k, &producer, &twin.0);
        let at = [
            h.moved("local_tile", "from m", &m),
            h.moved("local_tile", "from n", step),
        ];
        let from = load.at(&tid).partition_src(&src.local_tile(tile, &at));
        let to = into.at(3, h.beyond("at", &stage.index()));
        k.copy_in_bounds(
            &load,
            &h.pick(
                "copy_in_bounds",
                Kind::Space,
                from.clone(),
                &[src.clone(), to.clone()],
            ),
            &to,
        );
        pipelines::commit(h, k, &producer, &twin.0, &stage);
    };
    fetch(h, &mut k, &0.into());
    k.for_(0, &steps, 1, |k, step| {
        fetch(h, k, &(step + 1));
        let stage = pipelines::wait(h, k, &consumer, &twin.1);
        let from = out_of.at(3, h.beyond("at", &stage.index()));
        let to = dst.local_tile([8, width], &[m.clone(), step.clone()]);
        let to = store.at(&tid).partition_dst(&to);
        let held = k.fragment_like(&from);
        k.copy(
            &store,
            &h.pick("copy", Kind::Space, from, std::slice::from_ref(&src)),
            &held,
        );
        k.copy_in_bounds(&store, &held, &to);
        pipelines::release(h, k, &consumer, &twin.1, &stage);
        for _ in 0..h.pick("sync", Kind::Protocol, 1, &[0]) {
            k.sync();
        }
    });
    pipelines::tail(h, &mut k, &producer);
    // Two calls fetch: a coordinate that is changed in one of them is followed by name for that one only.
    let shift = [h.shift("from m"), h.shift("from n")];
    let first = h.target;
    let sites = h.sites.clone();
    let moved = move |later: bool| {
        // Sites come in the order of the calls: the first fetch is the first two coordinates of `local_tile`.
        let coordinates: Vec<usize> = (0..sites.len())
            .filter(|i| sites[*i] == ("local_tile", Kind::Coordinate))
            .collect();
        let which = first.and_then(|t| coordinates.iter().position(|i| *i == t));
        which.is_some_and(|which| (which >= 2) == later)
    };
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm80,
        given: vec![
            tensor(ty, &format!("({rows},{columns}):({stride},_1)"), 1),
            target(ty, &format!("({rows},{columns}):({},_1)", columns + 1)),
        ],
        cluster: 1,
        grid: |given| [(memory(&given[1]).extent(0) as u32).div_ceil(8), 1, 1],
        expected: Box::new(move |given| {
            written(given, |from, to| {
                for m in 0..to.extent(0) {
                    for n in 0..to.extent(1) {
                        let by = if moved(n >= width) { shift } else { [0, 0] };
                        to.set(&[m, n], from.get(&[m + by[0] * 8, n + by[1] * width]));
                    }
                }
            })
        }),
    })
}

/// `y = max(2 x + y, x)`, then the negative of it, where `x` is an element of a row of numbers.
fn elementwise(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let ty = r.one(&[Ty::F32, Ty::F64]);
    let (rows, columns) = (r.range(3, 20), r.range(3, 20));
    let mut k = builder(h, "elementwise", Arch::Sm80, 32);
    let x = parameter(h, &mut k, "x", ty, "(100,96):(96,_1)");
    let y = parameter(h, &mut k, "y", ty, "(100,96):(96,_1)");
    let atom = format!("UniversalCopy<uint{}_t>", ty.bits());
    let copy = tiled(h, &atom, ty.bits(), "(4,8):(8,1)", "(1,1):(0,0)")?;
    let tid = k.thread();
    let at = [k.block_index(0), k.block_index(1)];
    let source = copy
        .at(&tid)
        .partition_src(&x.local_tile(h.tile("local_tile", [8, 8]), &at));
    let both = copy.at(&tid).partition_src(&y.local_tile([8, 8], &at));
    let held = layout("(1,2):(0,1)");
    let held = |h: &mut Hook, k: &mut Builder| {
        let ty = h.ty("fragment", ty);
        let layout = h.layout("fragment", Kind::Layout, &held);
        k.fragment(ty, layout.to_static())
    };
    let (rx, ry) = (held(h, &mut k), held(h, &mut k));
    k.copy_in_bounds(&copy, &source, &rx);
    k.copy_in_bounds(&copy, &both, &ry);
    let d = held(h, &mut k);
    let other = k.convert(&rx, h.ty("convert", ty));
    let halves = k.convert(&rx, Ty::F16);
    let factor = h.pick("Expr::fma", Kind::Type, other, &[halves.clone()]);
    k.assign(&d, Expr::from(factor).fma(2.0, &ry));
    let other = h.pick("Expr::max", Kind::Type, d.clone(), &[halves.clone()]);
    k.assign(&d, Expr::from(other).max(&rx));
    let other = h.pick("assign", Kind::Type, d.clone(), &[halves]);
    k.assign(&d, -other);
    k.copy_in_bounds(&copy, &d, &both);
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm80,
        given: vec![
            tensor(ty, &format!("({rows},{columns}):({columns},_1)"), 1),
            tensor(ty, &format!("({rows},{columns}):({},_1)", columns + 1), 2),
        ],
        cluster: 1,
        grid: |given| grid_of(&given[1], [8, 8]),
        expected: Box::new(|given| {
            written(given, |from, to| {
                for m in 0..to.extent(0) {
                    for n in 0..to.extent(1) {
                        let (x, y) = (from.get(&[m, n]), to.get(&[m, n]));
                        to.set(&[m, n], -(2.0 * x + y).max(x));
                    }
                }
            })
        }),
    })
}

/// A run a block by bulk copies.
fn bulk(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let ty = r.one(&[Ty::F16, Ty::F32, Ty::S32]);
    let chunk = r.one(&[64, 128, 256]);
    let chunks = r.range(1, 4);
    let mut k = builder(h, "bulk", Arch::Sm90a, 32);
    let src = parameter(h, &mut k, "src", ty, "4096:_1");
    let dst = parameter(h, &mut k, "dst", ty, "4096:_1");
    let m = k.block_index(0);
    let from = src.local_tile(
        h.tile("local_tile", [chunk]),
        &[h.moved("local_tile", "from", &m)],
    );
    let to = dst.local_tile(
        h.tile("local_tile", [chunk]),
        &[h.moved("local_tile", "to", &m)],
    );
    let here = shared(h, &mut k, ty, "Sw<0,4,3>", &format!("{chunk}:1"));
    let landed = k.barriers(1);
    let bytes = chunk * i64::from(ty.bits()) / 8;
    let thread = k.thread();
    let first = k.equal(&thread, &0.into());
    k.if_(first, |k| {
        k.init_barriers(
            &landed,
            h.count("init_barriers", 1).clamp(0, 1 << 20) as u32,
        );
        k.fence(FenceKind::MbarrierInit);
        k.fence(FenceKind::ProxyAsyncShared);
        let full = landed.at(h.beyond("Barriers::at", &0.into()));
        k.arrive_expect(&full, h.count("arrive_expect", bytes));
        let full = landed.at(0);
        k.bulk_load(
            &h.pick(
                "bulk_load",
                Kind::Space,
                from.clone(),
                &[src.clone(), here.clone()],
            ),
            &h.pick("bulk_load", Kind::Space, here.clone(), &[to.clone()]),
            &full,
        );
        k.wait(&full, &h.place("wait", &0.into()));
        k.bulk_store(
            &h.pick(
                "bulk_store",
                Kind::Space,
                here.clone(),
                std::slice::from_ref(&from),
            ),
            &h.pick(
                "bulk_store",
                Kind::Space,
                to.clone(),
                &[here.clone(), dst.clone()],
            ),
        );
        k.bulk_commit();
        k.bulk_wait(0, true);
    });
    let shift = [h.shift("from"), h.shift("to")];
    let n = chunk * chunks;
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm90a,
        given: vec![
            tensor(ty, &format!("{n}:_1"), 1),
            target(ty, &format!("{n}:_1")),
        ],
        cluster: 1,
        grid: match chunk {
            64 => |given| [(memory(&given[1]).extent(0) / 64) as u32, 1, 1],
            128 => |given| [(memory(&given[1]).extent(0) / 128) as u32, 1, 1],
            _ => |given| [(memory(&given[1]).extent(0) / 256) as u32, 1, 1],
        },
        expected: Box::new(move |given| {
            written(given, |from, to| {
                for i in 0..to.extent(0) / chunk * chunk {
                    to.set(&[i + shift[1] * chunk], from.get(&[i + shift[0] * chunk]));
                }
            })
        }),
    })
}
