//! `load_plans` of every call that takes shapes: what is loaded ahead, no call loads, prepared or not, in a stream capture or outside of one.

use std::fs;
use std::path::{Path, PathBuf};

use colex_atom::{Arch, Ty};
use colex_gpu::elementwise::{Gather, MapExpression, Pairing};
use colex_gpu::gemm::{ChunkOrder, Convolution, Epilogue};
use colex_gpu::kernels::CopyCall;
use colex_gpu::quantise::{Quantise, TensorScalePlan};
use colex_gpu::reduce::scan::Scan;
use colex_gpu::reduce::top_k::TopK;
use colex_gpu::reduce::{Reduce, ReduceFunction};
use colex_gpu::rowwise::{RowFunction, Rowwise};
use colex_gpu::{Buffer, Device, Element, Error, Gemm, Map, Rotary, View, ViewMut};
use colex_layout::{IntTuple, Layout};
use half::bf16;

use super::ahead::{rows, rows_mut};
use super::calls::{buffer, captured, far, loads, on_cudarc, view, view_mut};
use super::library::{Counts, counted};
use super::{device, said};

/// What a law asks of a call with tensors of one shape.
#[derive(Clone, Copy)]
enum Ask<'s> {
    /// Load the kernels of these shapes.
    Load(&'s [Vec<i64>]),
    Prepare,
    Run,
}

/// A call of every shape: answers how many kernels `load_plans` returns, or 0.
struct Entry<'w> {
    name: &'static str,
    /// The shape of the call that loads.
    own: Vec<i64>,
    shapes: Vec<Vec<i64>>,
    /// A shape whose kernels are not among those of the others, if there is one.
    other: Option<Vec<i64>>,
    ask: Box<Asked<'w>>,
}

/// A call of a shape, and what it answers.
type Asked<'w> = dyn Fn(&[i64], Ask<'_>) -> Result<usize, Error> + 'w;

/// What a call answers.
macro_rules! answer {
    ($call:expr, $ask:expr) => {{
        let call = $call;
        match $ask {
            Ask::Load(shapes) => call.load_plans(shapes),
            Ask::Prepare => call.prepare().map(|_| 0),
            Ask::Run => call.run().map(|()| 0),
        }
    }};
}

fn shapes<const N: usize>(all: &[[i64; N]]) -> Vec<Vec<i64>> {
    all.iter().map(|shape| shape.to_vec()).collect()
}

/// Matrices: of one element, few long rows, many short ones, of no whole vectors.
fn matrices() -> Vec<Vec<i64>> {
    shapes(&[
        [1, 1],
        [1, 1000],
        [3, 1000],
        [700, 64],
        [33, 999],
        [1, 100_000],
        [0, 64],
    ])
}

fn transposed<T: Element>(buffer: &Buffer<T>, [m, n]: [i64; 2]) -> View<'_, T> {
    view(buffer, &format!("({m},{n}):(1,{m})"))
}

/// A batch of heads, whose sequence is outside of the heads in memory.
fn heads(extents: &[i64]) -> String {
    let [b, h, s, d] = extents[..] else {
        panic!("four extents");
    };
    format!("({b},{h},{s},{d}):({},{d},{},1)", h * s * d, h * d)
}

fn maps<'w>(device: &Device) -> Vec<Entry<'w>> {
    let [x, y, bias] = [(); 3].map(|()| buffer::<f32>(device));
    let (half, out) = (buffer::<bf16>(device), buffer::<bf16>(device));
    let add: MapExpression = "(x: tensor f32, bias: tensor f32) -> y { add(x, bias) }"
        .parse()
        .expect("a map");
    let twice: MapExpression = "(x: tensor f32) -> y { add(x, x) }".parse().expect("a map");
    let row = MapExpression::new(|m| {
        let x = m.tensor("x", Ty::Bf16).to(Ty::F32) * m.scalar("scale", Ty::F32);
        let at = m.coordinate("row", 0).to(Ty::F32);
        m.output("y", (x + at).to(Ty::Bf16));
    });
    let row = row.expect("a map");
    let relu: MapExpression = "(x: tensor f32) -> y { max(x, 0) }".parse().expect("a map");
    let here = y.clone();
    let (from, to) = (x.clone(), y.clone());
    let (gapped, out_of_gaps) = (x.clone(), y.clone());
    vec![
        Entry {
            name: "a map with a bias of the columns",
            own: vec![2, 64],
            shapes: matrices(),
            other: Some(vec![6, 66]),
            ask: Box::new(move |shape, ask| {
                let [m, n] = shape[..] else {
                    panic!("a matrix")
                };
                let call = Map::new(&add)
                    .input("x", &rows(&x, shape))
                    .output("y", &rows_mut(&y, shape));
                if shape.contains(&0) {
                    return answer!(call.input("bias", &rows(&bias, shape)), ask);
                }
                let of_bias = format!("({m},{n}):(0,1)");
                answer!(call.input("bias", &view(&bias, &of_bias)), ask)
            }),
        },
        Entry {
            name: "a map in place",
            own: vec![2, 64],
            shapes: matrices(),
            other: None,
            ask: Box::new(move |shape, ask| {
                let here = rows_mut(&here, shape);
                answer!(Map::new(&twice).input("x", &here).output("y", &here), ask)
            }),
        },
        Entry {
            name: "a map of rows with gaps, loaded by one row",
            own: vec![1, 64],
            shapes: shapes(&[[1, 1], [1, 1000], [3, 1000], [100, 64], [33, 999]]),
            other: None,
            ask: Box::new(move |shape, ask| {
                let [m, n] = shape[..] else {
                    panic!("a matrix")
                };
                let layout = format!("({m},{n}):(1024,1)");
                let x = view(&gapped, &layout);
                let y = view_mut(&out_of_gaps, &layout);
                answer!(Map::new(&relu).input("x", &x).output("y", &y), ask)
            }),
        },
        Entry {
            name: "a map of coordinates, of a transposed tensor",
            own: vec![2, 64],
            shapes: shapes(&[[1, 1], [1, 1000], [3, 1000], [700, 64], [33, 999]]),
            other: Some(vec![6, 66]),
            ask: Box::new(move |shape, ask| {
                let [m, n] = shape[..] else {
                    panic!("a matrix")
                };
                let call = Map::new(&row)
                    .input("x", &transposed(&half, [m, n]))
                    .scalar("scale", 0.5)
                    .output("y", &rows_mut(&out, shape));
                answer!(call, ask)
            }),
        },
        Entry {
            name: "a copy of a matrix to rows with a gap",
            own: vec![2, 64],
            shapes: shapes(&[[1, 1], [1, 1000], [3, 1000], [100, 64], [33, 999]]),
            other: Some(vec![100, 2]),
            ask: Box::new(move |shape, ask| {
                let [m, n] = shape[..] else {
                    panic!("a matrix")
                };
                let (from, to) = (
                    rows(&from, shape),
                    view_mut(&to, &format!("({m},{n}):(1024,1)")),
                );
                answer_of_copy(&from, &to, ask)
            }),
        },
    ]
}

fn answer_of_copy<T: Element>(
    from: &View<'_, T>,
    to: &ViewMut<'_, T>,
    ask: Ask<'_>,
) -> Result<usize, Error> {
    match ask {
        Ask::Load(shapes) => CopyCall::load_plans(from, to, shapes),
        Ask::Prepare => CopyCall::new(from, to, None).map(|_| 0),
        Ask::Run => colex_gpu::copy(from, to).map(|()| 0),
    }
}

fn copies<'w, T: Element>(name: &'static str, device: &Device) -> Entry<'w> {
    let (from, to) = (buffer::<T>(device), buffer::<T>(device));
    Entry {
        name,
        own: vec![8, 8],
        shapes: shapes(&[
            [1, 1],
            [1, 1000],
            [64, 64],
            [128, 1000],
            [33, 999],
            [999, 128],
        ]),
        other: None,
        ask: Box::new(move |shape, ask| {
            let [m, n] = shape[..] else {
                panic!("a matrix")
            };
            let to = view_mut(&to, &format!("({m},{n}):(1,{m})"));
            answer_of_copy(&rows(&from, shape), &to, ask)
        }),
    }
}

fn gathers<'w>(device: &Device) -> Entry<'w> {
    let (table, out, index) = (
        buffer::<bf16>(device),
        buffer::<bf16>(device),
        buffer::<i32>(device),
    );
    Entry {
        name: "a gather",
        own: vec![1, 1],
        shapes: shapes(&[[1, 1], [1, 30], [3, 30], [50, 40], [1, 2000], [0, 3]]),
        other: None,
        ask: Box::new(move |shape, ask| {
            let of_out = [shape, &[200]].concat();
            let call = Gather::new(
                &rows(&table, &[100, 200]),
                &rows(&index, shape),
                &rows_mut(&out, &of_out),
            );
            match ask {
                Ask::Load(shapes) => call.load_plans(shapes),
                Ask::Prepare => call.prepare().map(|_| 0),
                Ask::Run => {
                    let call = call.prepare()?;
                    call.run(out.device()).map(|()| 0)
                }
            }
        }),
    }
}

fn rotaries<'w>(device: &Device) -> Vec<Entry<'w>> {
    let mut all = Vec::new();
    for (name, pairing, kind) in [
        ("a rotary embedding of halves", Pairing::Halves, 0),
        (
            "a rotary embedding of neighbours, some copied",
            Pairing::Interleaved,
            1,
        ),
        (
            "a rotary embedding by tables, of given positions",
            Pairing::Halves,
            2,
        ),
    ] {
        let (x, y) = (buffer::<bf16>(device), buffer::<bf16>(device));
        let [cos, sin] = [(); 2].map(|()| buffer::<f32>(device));
        let positions = buffer::<i64>(device);
        all.push(Entry {
            name,
            own: vec![1, 8, 2, 64],
            shapes: shapes(&[
                [1, 8, 1, 64],
                [1, 8, 100, 64],
                [4, 8, 1, 64],
                [2, 8, 33, 64],
                [3, 0, 5, 64],
            ]),
            other: None,
            ask: Box::new(move |shape, ask| {
                let (x, y) = if shape.contains(&0) {
                    (rows(&x, shape), rows_mut(&y, shape))
                } else {
                    let heads = heads(shape);
                    (view(&x, &heads), view_mut(&y, &heads))
                };
                let call = Rotary::new(pairing, &x, &y);
                match kind {
                    0 => answer!(call, ask),
                    1 => answer!(call.features(32).offset(7), ask),
                    _ => {
                        let [cos, sin] = [&cos, &sin].map(|table| rows(table, &[1000, 32]));
                        let at = rows(&positions, &[shape[0], shape[2]]);
                        answer!(call.tables(&cos, &sin).positions(&at), ask)
                    }
                }
            }),
        });
    }
    all
}

fn quantisations<'w>(device: &Device) -> Vec<Entry<'w>> {
    let mut all = Vec::new();
    for (name, kind, other) in [
        ("a quantisation by a given scale", 0, None),
        ("a quantisation of rows", 1, Some(vec![3, 5000])),
        ("a quantisation of blocks of 128", 2, None),
        ("a quantisation by a computed scale", 3, None),
        (
            "a quantisation of rows with gaps by a computed scale",
            4,
            None,
        ),
    ] {
        let (x, q, scales) = (
            buffer::<bf16>(device),
            buffer::<u8>(device),
            buffer::<f32>(device),
        );
        let mut of = shapes(&[
            [1, 1],
            [1, 1000],
            [3, 1000],
            [200, 64],
            [33, 999],
            [5, 1024],
            [300, 1000],
        ]);
        of.push(if kind == 1 { vec![0, 0] } else { vec![3, 0] });
        all.push(Entry {
            name,
            own: vec![2, 64],
            shapes: of,
            other,
            ask: Box::new(move |shape, ask| {
                let [m, n] = shape[..] else {
                    panic!("a matrix")
                };
                let x = if kind == 4 && n > 0 {
                    view(&x, &format!("({m},{n}):(1032,1)"))
                } else {
                    rows(&x, shape)
                };
                let call = Quantise::new(Ty::E4m3, &x, &rows_mut(&q, shape));
                match kind {
                    0 => answer!(call.tensor(0.5), ask),
                    1 => answer!(call.rows(&rows_mut(&scales, &[m])), ask),
                    2 => {
                        let blocks = (n + 127) / 128;
                        answer!(call.blocks(128, &rows_mut(&scales, &[m, blocks])), ask)
                    }
                    _ => answer!(call.tensor_scale(&rows_mut(&scales, &[1])), ask),
                }
            }),
        });
    }
    all
}

/// Calls with laws of their own in `ahead` and `between`: the same question of each.
fn reductions<'w>(device: &Device) -> Vec<Entry<'w>> {
    let [x, y, z, a, b, c, d, e, weight] = [(); 9].map(|()| buffer::<f32>(device));
    let at = buffer::<i32>(device);
    let of = || shapes(&[[1, 8], [7, 33], [64, 1000], [1, 200_000], [512, 64]]);
    vec![
        Entry {
            name: "a sum of rows",
            own: vec![2, 64],
            shapes: of(),
            other: None,
            ask: Box::new(move |shape, ask| {
                let y = rows_mut(&y, &shape[..1]);
                answer!(
                    Reduce::new(ReduceFunction::Sum, &rows(&x, shape), &[1], &y),
                    ask
                )
            }),
        },
        Entry {
            name: "a cumulative sum",
            own: vec![2, 64],
            shapes: of(),
            other: None,
            ask: Box::new(move |shape, ask| {
                answer!(Scan::new(&rows(&z, shape), 1, &rows_mut(&a, shape)), ask)
            }),
        },
        Entry {
            name: "a selection",
            own: vec![2, 64],
            shapes: of(),
            other: None,
            ask: Box::new(move |shape, ask| {
                let (b, c) = (rows(&b, shape), rows_mut(&c, &[shape[0], 8]));
                answer!(TopK::new(&b, 1, &c, &rows_mut(&at, &[shape[0], 8])), ask)
            }),
        },
        Entry {
            name: "an RMSNorm",
            own: vec![2, 64],
            shapes: of(),
            other: None,
            ask: Box::new(move |shape, ask| {
                let (from, weight) = (rows(&d, shape), rows(&weight, &shape[1..]));
                let call = Rowwise::new(RowFunction::RmsNorm, &from, &rows_mut(&e, shape));
                let call = call.weight(&weight);
                match ask {
                    Ask::Load(shapes) => call.load_plans(shapes.iter().map(|shape| shape[1])),
                    Ask::Prepare => call.prepare().map(|_| 0),
                    Ask::Run => call.run().map(|()| 0),
                }
            }),
        },
    ]
}

fn convolutions<'w>(device: &Device) -> Vec<Entry<'w>> {
    let all = [
        ("a convolution of 3 by 3", [64, 3, 64], 1),
        ("a convolution of 3 by 3 with strides", [64, 3, 32], 2),
        ("a convolution of one tap", [64, 1, 32], 1),
        // The pixels of the output begin at vectors, and end within one.
        ("a convolution of 60 filters", [64, 3, 60], 1),
    ];
    convolutions_of(device, &all)
}

/// Convolutions of these numbers of channels, taps along H and W, and filters, and with this stride.
fn convolutions_of<'w>(device: &Device, of: &[(&'static str, [i64; 3], i64)]) -> Vec<Entry<'w>> {
    let mut all = Vec::new();
    for (name, [c, taps, k], stride) in of.iter().copied() {
        let [x, w, y] = [(); 3].map(|()| buffer::<bf16>(device));
        all.push(Entry {
            name,
            own: vec![1],
            shapes: shapes(&[[1], [2], [5], [16], [33]]),
            other: None,
            ask: Box::new(move |shape, ask| {
                let images = shape[0];
                let (size, padding) = (14, taps / 2);
                let out = (size + 2 * padding - taps) / stride + 1;
                let pixel = (k + 7) / 8 * 8;
                let strides = (out * out * pixel, out * pixel, pixel, 1);
                let of_y = Layout::new((images, out, out, k), strides).expect("a layout");
                let mut of_all = y.clone();
                let to = ViewMut::new(&mut of_all, of_y).expect("the output");
                let call = Convolution::new(
                    &rows(&x, &[images, size, size, c]),
                    &rows(&w, &[k, taps, taps, c]),
                    &to,
                );
                let call = call.stride([stride; 2]).padding([padding; 2]);
                match ask {
                    Ask::Load(_) => call.load_plans(),
                    Ask::Prepare => call.prepare().map(|_| 0),
                    Ask::Run => call.run().map(|()| 0),
                }
            }),
        });
    }
    all
}

fn entries<'w>(device: &Device) -> Vec<Entry<'w>> {
    let mut all = maps(device);
    all.push(copies::<u8>("a transpose of bytes", device));
    all.push(copies::<bf16>("a transpose of halves", device));
    all.push(copies::<f32>("a transpose of words", device));
    all.push(copies::<f64>("a transpose of double words", device));
    all.push(gathers(device));
    all.extend(rotaries(device));
    all.extend(quantisations(device));
    all.extend(reductions(device));
    all.extend(convolutions(device));
    all
}

/// After `load_plans` of some shapes, no call with one of them loads a kernel: captured at first, prepared and run. Shapes of no elements
/// need none.
#[test]
fn law_after_load_plans_no_call_of_a_shape_loads_a_kernel() {
    let act = || {
        let device = on_cudarc();
        let mut cases = 0;
        for Entry {
            name,
            own,
            shapes,
            other,
            ask,
        } in entries(&device)
        {
            let mut found = 0;
            let ahead = || {
                found = ask(&own, Ask::Load(&shapes))?;
                Ok(())
            };
            counted(&device, ahead).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(found > 0, "{name}");
            for shape in &shapes {
                let name = format!("{name} of {shape:?}");
                let (nodes, work) = captured(&device, || ask(shape, Ask::Run));
                let nodes = nodes.expect("a graph");
                work.unwrap_or_else(|error| panic!("{name}, captured: {error}"));
                assert_eq!(nodes > 0, !shape.contains(&0), "{name}");
                for what in [Ask::Prepare, Ask::Run] {
                    let counts = counted(&device, || ask(shape, what).map(drop)).unwrap();
                    assert_eq!(loads(&counts), 0, "{name}: {counts:?}");
                }
                cases += 1;
            }
            let again = || {
                assert_eq!(ask(&own, Ask::Load(&shapes))?, found, "{name}");
                Ok(())
            };
            assert_eq!(loads(&counted(&device, again).unwrap()), 0, "{name}, again");
            if let Some(other) = other {
                let counts = counted(&device, || ask(&other, Ask::Run).map(drop)).unwrap();
                assert!(loads(&counts) > 0, "{name}: no shape of its own");
            }
        }
        format!("law load_plans of every call: {cases} cases")
    };
    let name = "shapes::law_after_load_plans_no_call_of_a_shape_loads_a_kernel";
    let said = said(name, "whole", act);
    println!("{said}");
    assert!(said.starts_with("law load_plans of every call: "), "{said}");
}

/// The same of convolutions whose matrix a first kernel writes, which need memory and so are not captured unless they are prepared: of
/// channels that are no whole vectors, of images that begin between vectors, and of channels beside each other.
#[test]
fn law_after_load_plans_no_written_convolution_loads_a_kernel() {
    let act = || {
        let device = on_cudarc();
        let (mut cases, mut ahead_of_all) = (0, 0);
        let of = [
            ("three channels", [3, 7, 64], 2),
            ("one channel", [1, 3, 32], 1),
            ("four channels", [4, 3, 24], 1),
            ("twelve channels and one tap", [12, 1, 40], 2),
        ];
        for Entry {
            name,
            own,
            shapes,
            ask,
            ..
        } in convolutions_of(&device, &of)
        {
            let ahead = || ask(&own, Ask::Load(&shapes)).map(drop);
            let loaded = counted(&device, ahead).unwrap_or_else(|why| panic!("{name}: {why}"));
            ahead_of_all += loads(&loaded);
            for shape in &shapes {
                for what in [Ask::Prepare, Ask::Run] {
                    let counts = counted(&device, || ask(shape, what).map(drop)).unwrap();
                    assert_eq!(loads(&counts), 0, "{name} of {shape:?}: {counts:?}");
                    cases += 1;
                }
            }
        }
        // The kernels of one convolution are also those of others.
        assert!(ahead_of_all > 4, "{ahead_of_all}");
        format!("law load_plans of written convolutions: {cases} cases")
    };
    let name = "shapes::law_after_load_plans_no_written_convolution_loads_a_kernel";
    let said = said(name, "whole", act);
    println!("{said}");
    let is_done = said.starts_with("law load_plans of written convolutions: ");
    assert!(is_done, "{said}");
}

/// The same of products in chunks and of those that wait for flags, which take other plans than other products: of any number of rows, and
/// with one division of K for all.
#[test]
fn law_after_load_plans_no_product_in_chunks_loads_a_kernel() {
    let act = || {
        let device = on_cudarc();
        let [a, b, residual, c] = [(); 4].map(|()| buffer::<bf16>(&device));
        let flags = buffer::<u32>(&device);
        let sum = Epilogue::new(Ty::F32, |e| {
            (e.accumulator() + e.tensor("r", Ty::Bf16).to(Ty::F32)).to(Ty::Bf16)
        });
        let sum = sum.expect("an epilogue");
        let (mut cases, mut ahead_of_all) = (0, 0);
        for [n, k] in [[512, 1024], [2048, 256], [1536, 64]] {
            for in_chunks in [true, false] {
                for is_batch_invariant in [false, true] {
                    let ask = |m: i64, what: Ask<'_>| -> Result<(), Error> {
                        let (many, apart) = if in_chunks { (2, m * n) } else { (1, 0) };
                        let of = |rows: i64, columns: i64| {
                            format!("({rows},{columns},{many}):({columns},1,{})", rows * columns)
                        };
                        let on_a = view(&a, &of(m, k));
                        let on_b = view(&b, &format!("({n},{k},{many}):({k},1,0)"));
                        let on_c = view_mut(&c, &format!("({m},{n},{many}):({n},1,{apart})"));
                        let on_residual = view(&residual, &of(m, n));
                        let flags = flags.view((2,))?;
                        let mut gemm = Gemm::new(&on_a, &on_b, &on_c);
                        gemm = if in_chunks {
                            gemm.chunks(ChunkOrder::Descending, many - 1)
                        } else {
                            let gemm = gemm.epilogue(&sum).tensor("r", &on_residual);
                            gemm.awaits(&flags)
                        };
                        if is_batch_invariant {
                            gemm = gemm.batch_invariant();
                        }
                        match what {
                            Ask::Load(_) => gemm.load_plans().map(drop),
                            Ask::Prepare => gemm.prepare().map(drop),
                            Ask::Run => gemm.run(),
                        }
                    };
                    let name = format!("{n}x{k}, {in_chunks}, {is_batch_invariant}");
                    let loaded = counted(&device, || ask(64, Ask::Load(&[])));
                    let loaded = loaded.unwrap_or_else(|why| panic!("{name}: {why}"));
                    ahead_of_all += loads(&loaded);
                    // The device has memory for few rows.
                    for m in [1, 2, 17, 40, 64, 65, 100, 128] {
                        let counts = counted(&device, || ask(m, Ask::Prepare)).unwrap();
                        assert_eq!(loads(&counts), 0, "{name}, {m} rows: {counts:?}");
                        cases += 1;
                    }
                }
            }
        }
        assert!(ahead_of_all > 4, "{ahead_of_all}");
        format!("law load_plans of chunks: {cases} cases")
    };
    let name = "shapes::law_after_load_plans_no_product_in_chunks_loads_a_kernel";
    let said = said(name, "whole", act);
    println!("{said}");
    assert!(said.starts_with("law load_plans of chunks: "), "{said}");
}

/// The results of no elements are made of zeros in memory, which a stream capture does not allocate: `load_plans` does.
#[test]
fn sums_of_no_elements_are_captured_after_load_plans() {
    let act = || {
        let device = on_cudarc();
        let (x, y) = (buffer::<f32>(&device), buffer::<f32>(&device));
        let call = |extent: i64| {
            let (x, y) = (rows(&x, &[extent, 64]), rows_mut(&y, &[64]));
            Reduce::new(ReduceFunction::Sum, &x, &[0], &y)
        };
        let loaded = call(2).load_plans([[0, 64]]).expect("kernels");
        let (nodes, work) = captured(&device, || call(0).run());
        work.expect("it is captured");
        format!("{loaded} kernel, {} node", nodes.expect("a graph"))
    };
    let name = "shapes::sums_of_no_elements_are_captured_after_load_plans";
    assert_eq!(said(name, "whole", act), "1 kernel, 1 node");
}

/// The sources below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all.extend(sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            all.push(path);
        }
    }
    all
}

/// Every call that a program prepares, it can load ahead; but for attention, of which a program prepares the calls that will come.
#[test]
fn law_every_call_that_is_prepared_loads_plans() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = 0;
    for path in sources(&folder) {
        let text = fs::read_to_string(&path).expect("a source");
        let name = path.strip_prefix(&folder).expect("a source of the crate");
        if !text.contains("pub fn prepare(") || name.starts_with("attention") {
            continue;
        }
        found += 1;
        assert!(text.contains("pub fn load_plans"), "{}", name.display());
    }
    println!("law load_plans of each type of calls: {found} cases");
    assert!(found >= 10, "{found} types of calls");
}

/// A shape that a call does not take is refused before a kernel is loaded.
#[test]
fn load_plans_of_every_call_refuse_shapes() {
    let act = || {
        let device = on_cudarc();
        let mut found = Vec::new();
        for Entry { name, own, ask, .. } in entries(&device) {
            if name.contains("convolution") || name == "an RMSNorm" {
                continue;
            }
            let refused = |shape: Vec<i64>| {
                let (mut said, some) = (String::new(), vec![own.clone(), shape]);
                let load = || {
                    let answer = ask(&own, Ask::Load(&some));
                    said = answer.expect_err("the shape is refused").to_string();
                    Ok(())
                };
                let counts = counted(&device, load).unwrap();
                assert_eq!(loads(&counts), 0, "{name}: {said}");
                said
            };
            let mut negative = own.clone();
            negative[0] = -1;
            let said = refused(negative);
            assert!(
                said.starts_with("an extent is -1: it must be 0 to "),
                "{name}: {said}"
            );
            found.push(refused(vec![5]));
        }
        found.dedup();
        found.join("; ")
    };
    let name = "shapes::load_plans_of_every_call_refuse_shapes";
    assert_eq!(
        said(name, "whole", act),
        "x has the layout (2,64):(64,_1), and cannot have another shape: the shape 5 has another rank; \
         x has the layout (1,64):(1024,1), and cannot have another shape: the shape 5 has another rank; \
         x has the layout (2,64):(1,2), and cannot have another shape: the shape 5 has another rank; \
         the source has the layout (2,64):(64,_1), and cannot have another shape: the shape 5 has another rank; \
         the source has the layout (8,8):(8,_1), and cannot have another shape: the shape 5 has another rank; \
         index has the layout (1,1):(0,0), and cannot have another shape: the shape 5 has another rank; \
         rotary embedding: the shape 5 is given: it must be (batch, head, sequence, feature); \
         x has the layout (2,64):(64,_1), and cannot have another shape: the shape 5 has another rank; \
         x has the layout (2,64):(1032,1), and cannot have another shape: the shape 5 has another rank; \
         mode 1 is named, and x 5 has 1 mode: modes are counted from 0"
    );
}

/// The scale of a tensor takes one launch whose blocks run at once, or two for a small tensor, wherever it has memory: outside of a stream
/// capture, and prepared before one. A call that is captured and not prepared has none, and takes the reduction, in parts, and two maps: of
/// a large tensor without gaps, every launch that reads it has several blocks. Calls by the reduction do as well outside of a capture, and
/// allocate nothing. A capture before the kernels are loaded is refused, and goes on.
#[test]
fn law_a_computed_scale_has_many_blocks_captured_or_not() {
    let act = || {
        let device = on_cudarc();
        let (x, scale) = (buffer::<bf16>(&device), buffer::<f32>(&device));
        let q = buffer::<u8>(&device);
        let number = |counts: &Counts, name: &str| counts.get(name).copied().unwrap_or(0);
        let several = |counts: &Counts| number(counts, "launches_of_several_blocks");
        let at_once = TensorScalePlan::at_once(Ty::Bf16, Ty::E4m3, Arch::Sm90a, 20).unwrap();
        let call = |rows: i64, [of_x, of_q]: [i64; 2], plan: Option<TensorScalePlan>| {
            let x = view(&x, &format!("({rows},1000):({},1)", 1000 + of_x));
            let q = view_mut(&q, &format!("({rows},1000):({},1)", 1000 + of_q));
            let (call, scale) = (Quantise::new(Ty::E4m3, &x, &q), rows_mut(&scale, &[1]));
            match plan {
                Some(plan) => call.tensor_scale_by(&scale, plan),
                None => call.tensor_scale(&scale),
            }
        };
        let launches = |work: &dyn Fn() -> Result<(), Error>| {
            let counts = counted(&device, work).unwrap();
            let [all, at_once] =
                ["cuLaunchKernelEx", "launches_at_once"].map(|name| counts.get(name).copied());
            let allocated = ["cuMemAlloc_v2", "cuMemFree_v2", "cuMemsetD8Async"];
            let allocated: u64 = allocated.map(|name| number(&counts, name)).iter().sum();
            ((all, at_once, several(&counts)), loads(&counts) + allocated)
        };
        let (nodes, refused) = captured(&device, || call(500, [0, 0], None).run());
        assert_eq!(nodes, Ok(0));
        assert!(refused.expect_err("no kernel is loaded").is_capturing());
        let mut said = Vec::new();
        for (name, rows, gap, plan) in [
            ("a tensor", 500, [0, 0], None),
            ("of one block", 8, [0, 0], None),
            ("x with gaps", 500, [8, 0], None),
            ("q with gaps", 500, [0, 24], None),
            ("at once", 500, [0, 0], Some(at_once)),
        ] {
            let (first, loaded) = launches(&|| call(rows, gap, plan).run());
            assert!(loaded > 0, "{name}");
            let again = launches(&|| call(rows, gap, plan).run());
            assert_eq!(again, (first, 0), "{name}");
            let prepared = call(rows, gap, plan).prepare().unwrap();
            let before = captured(&device, || prepared.run(&device));
            before
                .1
                .unwrap_or_else(|error| panic!("{name}, prepared: {error}"));
            // The nodes of a graph, and those of them that have several blocks.
            let graph = |work: &dyn Fn() -> Result<(), Error>| {
                let mut nodes = 0;
                let counts = counted(&device, || {
                    let (found, ended) = captured(&device, work);
                    nodes = found.expect("a graph");
                    ended
                });
                let counts = counts.unwrap_or_else(|error| panic!("{name}: {error}"));
                (nodes, several(&counts))
            };
            let inside = graph(&|| call(rows, gap, plan).prepare()?.run(&device));
            let unprepared = graph(&|| call(rows, gap, plan).run());
            assert_eq!(inside, unprepared, "{name}");
            let before = before.0.expect("a graph");
            assert_eq!(first.1, plan.map(|_| 1), "{name}");
            let (launches, wide) = (first.0.expect("launches"), first.2);
            let (nodes, wide_nodes) = unprepared;
            said.push(format!(
                "{name}: {launches} launches, {wide} of several blocks, captured {nodes}, {wide_nodes} of several blocks, prepared \
                 {before}"
            ));
        }
        said.join("; ")
    };
    let name = "shapes::law_a_computed_scale_has_many_blocks_captured_or_not";
    assert_eq!(
        said(name, "grids", act),
        "a tensor: 2 launches, 2 of several blocks, captured 4, 2 of several blocks, prepared 2; \
         of one block: 2 launches, 0 of several blocks, captured 2, 0 of several blocks, prepared 2; \
         x with gaps: 4 launches, 2 of several blocks, captured 4, 2 of several blocks, prepared 4; \
         q with gaps: 3 launches, 2 of several blocks, captured 3, 1 of several blocks, prepared 3; \
         at once: 1 launches, 1 of several blocks, captured 4, 2 of several blocks, prepared 1"
    );
}

/// A call of a matrix in memory that the fake driver follows nowhere: `None` if its problem is refused, else how its default plan is taken.
macro_rules! planned {
    ($call:expr) => {{
        let call = $call;
        match call.problem() {
            Err(_) => None,
            Ok(_) => Some(call.prepare().map(drop)),
        }
    }};
}

/// Every call of the family with a matrix of this shape.
fn planned(
    device: &'static Device,
    [rows, columns]: [i64; 2],
) -> Vec<(&'static str, Option<Result<(), Error>>)> {
    fn of<T: Element>(device: &'static Device, place: u64, extents: &[i64]) -> View<'static, T> {
        let shape = IntTuple::flat(extents.iter().map(|extent| (*extent).into()));
        View::row_major(&*far::<T>(device, place), shape).expect("a view")
    }
    fn to<T: Element>(device: &'static Device, place: u64, extents: &[i64]) -> ViewMut<'static, T> {
        let shape = IntTuple::flat(extents.iter().map(|extent| (*extent).into()));
        ViewMut::row_major(far::<T>(device, place), shape).expect("a view")
    }
    let shape = [rows, columns];
    let (x, y) = (of::<f32>(device, 0, &shape), to::<f32>(device, 1, &shape));
    let twice: MapExpression = "(x: tensor f32) -> y { add(x, x) }".parse().expect("a map");
    let (sum, softmax) = (ReduceFunction::Sum, RowFunction::Softmax);
    let [of_rows, of_columns] = [rows, columns].map(|extent| to::<f32>(device, 2, &[extent]));
    let (two, at) = (
        to::<f32>(device, 2, &[rows, 2]),
        to::<i32>(device, 3, &[rows, 2]),
    );
    let heads = [1, 1, rows, columns];
    let (from, turned) = (of::<f32>(device, 0, &heads), to::<f32>(device, 1, &heads));
    let [cos, sin] = [2, 3].map(|place| of::<f32>(device, place, &[rows, columns / 2]));
    let rotary = Rotary::new(Pairing::Interleaved, &from, &turned).features(columns / 2 * 2);
    let q = to::<u8>(device, 1, &shape);
    let quantised = Quantise::new(Ty::E4m3, &x, &q).rows(&of_rows).prepare();
    let is_planned = |error: &Error| error.plan().is_none() && !error.to_string().contains("above");
    let quantised = match quantised {
        Err(error) if is_planned(&error) => None,
        answer => Some(answer.map(drop)),
    };
    vec![
        ("a softmax", planned!(Rowwise::new(softmax, &x, &y))),
        (
            "a sum of rows",
            planned!(Reduce::new(sum, &x, &[1], &of_rows)),
        ),
        (
            "a sum of columns",
            planned!(Reduce::new(sum, &x, &[0], &of_columns)),
        ),
        ("a cumulative sum", planned!(Scan::new(&x, 1, &y))),
        ("a selection", planned!(TopK::new(&x, 1, &two, &at))),
        (
            "a map",
            planned!(Map::new(&twice).input("x", &x).output("y", &y)),
        ),
        ("a rotary embedding", planned!(rotary.tables(&cos, &sin))),
        ("a quantisation of rows", quantised),
    ]
}

/// Of tensors with as many elements as an extent of a launch may have, one row more, and more: where the problem of a call is taken, so is
/// its default plan.
#[test]
fn law_default_plans_are_launched_where_problems_are_taken() {
    let act = || {
        let device: &'static Device = Box::leak(Box::new(device()));
        let (mut taken, mut refused) = (0, Vec::new());
        for columns in [257, 4096] {
            for all in [1 << 30, colex_tensor::MAX_EXTENT, 1 << 31, 1 << 32] {
                for rows in [all / columns, all / columns + 1] {
                    for (name, answer) in planned(device, [rows, columns]) {
                        match answer {
                            Some(Ok(())) => taken += 1,
                            Some(Err(error)) => {
                                refused.push(format!("{name}, {rows} of {columns}: {error}"));
                            }
                            None => (),
                        }
                    }
                }
            }
        }
        assert!(taken > 100, "{taken} plans are taken");
        refused.push("law shapes.extents: done".to_string());
        refused.join("; ")
    };
    let name = "shapes::law_default_plans_are_launched_where_problems_are_taken";
    assert_eq!(said(name, "whole", act), "law shapes.extents: done");
}
