//! The calls between products: functions of rows, reductions, selections, gathers, maps, quantisation, convolutions.

use colex_atom::Ty;
use colex_gpu::elementwise::{MapExpression, Pairing, RowNumber};
use colex_gpu::kernels::{GemmElement, ViewMut};
use colex_gpu::quantise::Quantise;
use colex_gpu::reduce::{ReduceFunction, ReduceIndex};
use colex_gpu::rowwise::{RowFunction, Rowwise};
use colex_gpu::{
    Buffer, Device, Element, Error, Map, Rotary, arg_max, arg_min, convolution, cumulative_sum,
    gather, layer_norm, log_softmax, quantise, reduce, rms_norm, softmax, top_k,
};
use half::{bf16, f16};

use super::calls::{Work, buffer, loads, view, view_mut};
use super::library::counted;
use super::{device, said};

/// Those that divide their work into parts, unless they are captured.
pub(super) const IN_PARTS: [&str; 3] = [
    "reduce, all",
    "cumulative_sum of a long row",
    "top_k of a long row",
];

/// Every call, with how many launches it makes.
pub(super) fn entries(device: &Device) -> Vec<(String, Work<'_>, u64)> {
    let mut all: Vec<(String, Work<'_>, u64)> = Vec::new();
    let floats = || -> Buffer<f32> { buffer(device) };
    let halves = || -> Buffer<bf16> { buffer(device) };
    let numbers = || -> Buffer<i32> { buffer(device) };
    for (name, rows, of_weight) in [
        ("short rows", "(64,100):(100,1)", "100:1"),
        ("rows", "(8,4096):(4096,1)", "4096:1"),
        ("rows of no whole vectors", "(8,4097):(4097,1)", "4097:1"),
        ("rows one after the other", "(8,16384):(16384,1)", "16384:1"),
        ("long rows", "(2,131072):(131072,1)", "131072:1"),
    ] {
        let [x, y, weight] = [(); 3].map(|()| halves());
        for function in 0..4 {
            let [x, y, weight] = [&x, &y, &weight].map(Clone::clone);
            let called = ["softmax", "log_softmax", "rms_norm", "layer_norm"][function];
            let work: Work<'_> = Box::new(move || {
                let (x, y) = (view(&x, rows), view_mut(&y, rows));
                let weight = view(&weight, of_weight);
                match function {
                    0 => softmax(&x, &y),
                    1 => log_softmax(&x, &y),
                    2 => rms_norm(&x, &weight, 1e-5, &y),
                    _ => layer_norm(&x, &weight, &weight, 1e-5, &y),
                }
            });
            all.push((format!("{called} of {name}"), work, 1));
        }
    }
    for (name, function) in [
        ("rms_norm", RowFunction::RmsNorm),
        ("layer_norm", RowFunction::LayerNorm),
    ] {
        let [x, residual, weight, y, sum] = [(); 5].map(|()| halves());
        let work: Work<'_> = Box::new(move || {
            let rows = "(8,4096):(4096,1)";
            let (x, y) = (view(&x, rows), view_mut(&y, rows));
            Rowwise::new(function, &x, &y)
                .residual(&view(&residual, rows), &view_mut(&sum, rows))
                .weight(&view(&weight, "4096:1"))
                .run()
        });
        all.push((format!("{name} with a residual"), work, 1));
    }
    let (x, y) = (halves(), halves());
    let work: Work<'_> = Box::new(move || {
        let beside = "(64,100):(1,64)";
        softmax(&view(&x, beside), &view_mut(&y, beside))
    });
    all.push(("softmax of rows beside each other".to_string(), work, 1));
    for (name, modes, of_y, launches) in [
        ("rows", &[1][..], "64:1", 1),
        ("columns", &[0], "1000:1", 1),
        ("all", &[0, 1], "1:1", 1),
    ] {
        let (x, y) = (floats(), floats());
        let work: Work<'_> = Box::new(move || {
            let x = view(&x, "(64,1000):(1000,1)");
            reduce(ReduceFunction::Sum, &x, modes, &view_mut(&y, of_y))
        });
        all.push((format!("reduce, {name}"), work, launches));
    }
    let (x, at) = (floats(), numbers());
    let work: Work<'_> =
        Box::new(move || arg_max(&view(&x, "(64,1000):(1000,1)"), 1, &view_mut(&at, "64:1")));
    all.push(("arg_max".to_string(), work, 1));
    let (x, at) = (floats(), numbers());
    let work: Work<'_> =
        Box::new(move || arg_min(&view(&x, "(64,1000):(1000,1)"), 0, &view_mut(&at, "1000:1")));
    all.push(("arg_min of columns".to_string(), work, 1));
    for (name, rows, launches) in [
        ("rows", "(64,1000):(1000,1)", 1),
        ("a long row", "(1,200000):(200000,1)", 1),
    ] {
        let (x, y) = (floats(), floats());
        let work: Work<'_> =
            Box::new(move || cumulative_sum(&view(&x, rows), 1, &view_mut(&y, rows)));
        all.push((format!("cumulative_sum of {name}"), work, launches));
    }
    for (name, rows, found) in [
        ("short rows", "(64,1000):(1000,1)", "(64,8):(8,1)"),
        ("a long row", "(1,200000):(200000,1)", "(1,50):(50,1)"),
    ] {
        let (x, values, at) = (floats(), floats(), numbers());
        let work: Work<'_> = Box::new(move || {
            let values = view_mut(&values, found);
            top_k(&view(&x, rows), 1, &values, &view_mut(&at, found))
        });
        all.push((format!("top_k of {name}"), work, 1));
    }
    let (table, at, out) = (halves(), numbers(), halves());
    let work: Work<'_> = Box::new(move || {
        let table = view(&table, "(100,256):(256,1)");
        let out = view_mut(&out, "(30,256):(256,1)");
        gather(&table, &view(&at, "30:1"), &out)
    });
    all.push(("gather".to_string(), work, 1));
    let (x, y) = (floats(), floats());
    let relu = MapExpression::new(|m| {
        let x = m.tensor("x", Ty::F32);
        m.output("y", x.relu());
    });
    let relu = relu.expect("a map");
    let work: Work<'_> = Box::new(move || {
        let x = view(&x, "(8,1000):(1,8)");
        let y = view_mut(&y, "(8,1000):(1000,1)");
        Map::new(&relu).input("x", &x).output("y", &y).run()
    });
    all.push(("Map".to_string(), work, 1));
    let (x, y) = (halves(), halves());
    let work: Work<'_> = Box::new(move || {
        let heads = "(2,4,32,64):(8192,2048,64,1)";
        let (x, y) = (view(&x, heads), view_mut(&y, heads));
        Rotary::new(Pairing::Halves, &x, &y).run()
    });
    all.push(("Rotary".to_string(), work, 1));
    let (x, q, scales) = (halves(), buffer::<u8>(device), floats());
    for (name, kind, launches) in [("rows", 0, 1), ("blocks", 1, 1), ("a tensor", 2, 1)] {
        let (x, q, scales) = (x.clone(), q.clone(), scales.clone());
        let work: Work<'_> = Box::new(move || {
            let of_x = "(64,1024):(1024,1)";
            let (x, q) = (view(&x, of_x), view_mut(&q, of_x));
            match kind {
                0 => quantise(Ty::E4m3, &x, &q, &view_mut(&scales, "64:1")),
                1 => {
                    let scales = view_mut(&scales, "(64,8):(8,1)");
                    Quantise::new(Ty::E4m3, &x, &q).blocks(128, &scales).run()
                }
                _ => Quantise::new(Ty::E4m3, &x, &q).tensor(0.5).run(),
            }
        });
        all.push((format!("quantise, {name}"), work, launches));
    }
    for (name, of_x, of_w, of_y) in [
        (
            "three by three",
            "(2,8,8,64):(4096,512,64,1)",
            "(64,3,3,64):(576,192,64,1)",
            "(2,6,6,64):(2304,384,64,1)",
        ),
        (
            "one by one",
            "(2,8,8,64):(4096,512,64,1)",
            "(64,1,1,64):(64,64,64,1)",
            "(2,8,8,64):(4096,512,64,1)",
        ),
    ] {
        let [x, w, y] = [(); 3].map(|()| halves());
        let work: Work<'_> =
            Box::new(move || convolution(&view(&x, of_x), &view(&w, of_w), &view_mut(&y, of_y)));
        all.push((format!("convolution, {name}"), work, 1));
    }
    all
}

/// After `load_plans`, a function of rows with any number of rows of the lengths that were named loads no kernel: of every function, with
/// weights and without, of lengths that vectors divide and others, in every storage.
#[test]
fn law_after_load_plans_no_number_of_rows_of_a_length_loads_a_kernel() {
    const LENGTHS: [i64; 12] = [
        1, 7, 32, 33, 1000, 4096, 4097, 16384, 16385, 65536, 131_072, 131_073,
    ];
    let act = || {
        let device = device();
        let mut cases = 0;
        for function in RowFunction::ALL {
            let [x, y, weight] = [(); 3].map(|()| buffer::<bf16>(&device));
            let run = |[rows, columns]: [i64; 2], lengths: &[i64]| -> Result<usize, Error> {
                let of_rows = format!("({rows},{columns}):({columns},1)");
                let (x, y) = (view(&x, &of_rows), view_mut(&y, &of_rows));
                let weight = view(&weight, &format!("{columns}:1"));
                let mut call = Rowwise::new(function, &x, &y);
                if function.is_norm() {
                    call = call.weight(&weight);
                }
                if lengths.is_empty() {
                    return call.run().map(|()| 0);
                }
                call.load_plans(lengths.iter().copied())
            };
            let first = counted(&device, || {
                let found = run([3, 100], &LENGTHS)?;
                assert!(found >= 6, "{function}: {found} kernels");
                Ok(())
            });
            assert!(loads(&first.unwrap()) > 0, "{function}");
            for columns in LENGTHS {
                let most = (1 << 19) / columns;
                for rows in [1, 2, 3, most / 2, most]
                    .into_iter()
                    .filter(|n| (1..=most).contains(n))
                {
                    let counts = counted(&device, || run([rows, columns], &[]).map(drop));
                    let counts = counts.unwrap();
                    assert_eq!(loads(&counts), 0, "{function}: {rows} rows of {columns}");
                    cases += 1;
                }
            }
            let other = counted(&device, || run([2, 5000], &[]).map(drop)).unwrap();
            assert!(loads(&other) > 0, "{function}: no length of its own");
            // Rows beside each other: the other calls have as many.
            let beside = |columns: i64, lengths: &[i64]| -> Result<usize, Error> {
                let of_rows = format!("(64,{columns}):(1,64)");
                let (x, y) = (view(&x, &of_rows), view_mut(&y, &of_rows));
                let call = Rowwise::new(function, &x, &y);
                if lengths.is_empty() {
                    return call.run().map(|()| 0);
                }
                call.load_plans(lengths.iter().copied())
            };
            let lengths = [7, 100, 1000, 8000];
            let first = counted(&device, || beside(10, &lengths).map(drop)).unwrap();
            assert!(loads(&first) > 0, "{function}");
            for columns in lengths {
                let counts = counted(&device, || beside(columns, &[]).map(drop)).unwrap();
                assert_eq!(
                    loads(&counts),
                    0,
                    "{function}: 64 rows beside each other of {columns}"
                );
                cases += 1;
            }
        }
        format!("law load_plans of rows: {cases} cases")
    };
    let name = "between::law_after_load_plans_no_number_of_rows_of_a_length_loads_a_kernel";
    let said = said(name, "whole", act);
    println!("{said}");
    assert!(said.starts_with("law load_plans of rows: "), "{said}");
}

/// Eight threads make the same calls on one device, each with tensors of its own in turn: each kernel is made once, and no thread launches
/// more than it would alone.
#[test]
fn threads_share_the_calls_between_products() {
    const THREADS: usize = 8;
    const ROUNDS: usize = 25;
    let act = || {
        let device = device();
        let floats: Vec<Buffer<f32>> = (0..6).map(|_| buffer(&device)).collect();
        let numbers: Vec<Buffer<i32>> = (0..6).map(|_| buffer(&device)).collect();
        let bytes: Vec<Buffer<u8>> = (0..6).map(|_| buffer(&device)).collect();
        let work = |turn: usize| -> Result<(), Error> {
            let at = |i: usize| &floats[(turn + i) % 6];
            let rows = "(8,1000):(1000,1)";
            let (x, y) = (view(at(0), rows), view_mut(at(1), rows));
            softmax(&x, &y)?;
            cumulative_sum(&x, 1, &y)?;
            let (values, indices) = (view_mut(at(2), "(8,4):(4,1)"), &numbers[turn % 6]);
            top_k(&x, 1, &values, &view_mut(indices, "(8,4):(4,1)"))?;
            gather(&x, &view(indices, "8:1"), &y)?;
            let q = view_mut(&bytes[turn % 6], rows);
            quantise(Ty::E4m3, &x, &q, &view_mut(at(3), "8:1"))?;
            // In parts, whose memory is the stream's.
            let all = view(at(0), "(64,1000):(1000,1)");
            reduce(ReduceFunction::Sum, &all, &[0, 1], &view_mut(at(4), "1:1"))
        };
        let all = || {
            std::thread::scope(|scope| {
                let spawn = |thread: usize| {
                    let work = &work;
                    scope.spawn(move || (0..ROUNDS).try_for_each(|round| work(thread + round)))
                };
                let threads: Vec<_> = (0..THREADS).map(spawn).collect();
                let mut threads = threads.into_iter();
                threads.try_for_each(|thread| thread.join().expect("a thread"))
            })
        };
        let first = counted(&device, all).unwrap();
        let again = counted(&device, all).unwrap();
        let launches = (THREADS * ROUNDS * 6) as u64;
        assert_eq!(first["cuLaunchKernelEx"], launches, "{first:?}");
        assert_eq!(again["cuLaunchKernelEx"], launches, "{again:?}");
        assert_eq!(loads(&again), 0, "{again:?}");
        // A reduction in parts has the kernel of a capture too.
        format!("{} kernels", first["cuModuleLoadDataEx"])
    };
    let name = "between::threads_share_the_calls_between_products";
    assert_eq!(said(name, "whole", act), "7 kernels");
}

/// The other calls: eight threads make them on one device that has their kernels, and on one that has none. Each kernel is made once, and no
/// thread launches more than it would alone.
#[test]
fn threads_share_the_other_calls_between_products() {
    const THREADS: usize = 8;
    const ROUNDS: usize = 25;
    let act = || {
        let device = device();
        let floats: Vec<Buffer<f32>> = (0..6).map(|_| buffer(&device)).collect();
        let halves: Vec<Buffer<bf16>> = (0..6).map(|_| buffer(&device)).collect();
        let numbers: Vec<Buffer<i32>> = (0..6).map(|_| buffer(&device)).collect();
        let bytes: Vec<Buffer<u8>> = (0..6).map(|_| buffer(&device)).collect();
        let relu = MapExpression::new(|m| {
            let x = m.tensor("x", Ty::F32);
            m.output("y", x.relu());
        });
        let relu = relu.expect("a map");
        let work = |turn: usize| -> Result<(), Error> {
            let at = |i: usize| &floats[(turn + i) % 6];
            let half = |i: usize| &halves[(turn + i) % 6];
            let rows = "(8,1000):(1000,1)";
            let (x, y) = (view(at(0), rows), view_mut(at(1), rows));
            log_softmax(&x, &y)?;
            let weight = view(at(4), "1000:1");
            layer_norm(&x, &weight, &weight, 1e-5, &y)?;
            Rowwise::new(RowFunction::RmsNorm, &x, &y)
                .residual(&view(at(2), rows), &view_mut(at(3), rows))
                .weight(&weight)
                .run()?;
            arg_max(&x, 1, &view_mut(&numbers[turn % 6], "8:1"))?;
            Map::new(&relu).input("x", &x).output("y", &y).run()?;
            let heads = "(2,4,32,64):(8192,2048,64,1)";
            let to = view_mut(half(1), heads);
            Rotary::new(Pairing::Halves, &view(half(0), heads), &to).run()?;
            let q = view_mut(&bytes[turn % 6], rows);
            Quantise::new(Ty::E4m3, &x, &q).tensor(0.5).run()?;
            // In two launches, whose memory is the stream's.
            let rows = "(256,1000):(1000,1)";
            let (all, q) = (view(at(0), rows), view_mut(&bytes[turn % 6], rows));
            let scale = view_mut(at(5), "1:1");
            Quantise::new(Ty::E4m3, &all, &q)
                .tensor_scale(&scale)
                .run()?;
            let image = view(half(2), "(2,8,8,64):(4096,512,64,1)");
            let filters = view(half(3), "(64,3,3,64):(576,192,64,1)");
            let y = view_mut(half(4), "(2,6,6,64):(2304,384,64,1)");
            convolution(&image, &filters, &y)
        };
        let threads = || {
            std::thread::scope(|scope| {
                let spawn = |thread: usize| {
                    let work = &work;
                    scope.spawn(move || (0..ROUNDS).try_for_each(|round| work(thread + round)))
                };
                let threads: Vec<_> = (0..THREADS).map(spawn).collect();
                let mut threads = threads.into_iter();
                threads.try_for_each(|thread| thread.join().expect("a thread"))
            })
        };
        let made = counted(&device, || (0..6).try_for_each(&work)).unwrap();
        let alone = counted(&device, || work(0)).unwrap();
        let launches = alone["cuLaunchKernelEx"] * (THREADS * ROUNDS) as u64;
        let again = counted(&device, threads).unwrap();
        assert_eq!(again["cuLaunchKernelEx"], launches, "{again:?}");
        assert_eq!(loads(&again), 0, "{again:?}");
        device.clear_module_cache();
        let anew = counted(&device, threads).unwrap();
        assert_eq!(anew["cuLaunchKernelEx"], launches, "{anew:?}");
        let (found, most) = (loads(&anew), loads(&made));
        assert!((1..=most).contains(&found), "{found} of {most}: {anew:?}");
        alone["cuLaunchKernelEx"].to_string()
    };
    let name = "between::threads_share_the_other_calls_between_products";
    // The scale that is computed takes two.
    assert_eq!(said(name, "whole", act), "10");
}

/// Memory of a mebibyte as elements of any type, of which a call sees these.
fn at<T: Element>(
    device: &'static Device,
    address: u64,
    (extents, strides): (&[i64], &[i64]),
) -> ViewMut<'static, T> {
    // SAFETY: the fake driver has a mebibyte at the address, and follows none.
    let slice = unsafe { device.borrow_raw_mut::<T>(address, (1 << 20) / T::BYTES) };
    let slice = Box::leak(Box::new(slice.unwrap()));
    ViewMut::strided(slice, extents, strides).unwrap()
}

/// The rows of 64 numbers that the calls below read and write.
const ROWS: (&[i64], &[i64]) = (&[64, 64], &[64, 1]);

fn sums<T: GemmElement>(device: &'static Device, [x, y, _]: [u64; 3]) -> Result<(), Error> {
    cumulative_sum(&at::<T>(device, x, ROWS), 1, &at(device, y, ROWS))
}

fn selections<T: GemmElement, I: ReduceIndex>(
    device: &'static Device,
    [x, y, z]: [u64; 3],
) -> Result<(), Error> {
    let few = (&[64, 4][..], &[4, 1][..]);
    let (values, indices) = (at(device, y, few), at::<I>(device, z, few));
    top_k(&at::<T>(device, x, ROWS), 1, &values, &indices)
}

fn gathers<T: Element, I: RowNumber>(
    device: &'static Device,
    [x, y, z]: [u64; 3],
) -> Result<(), Error> {
    let index = at::<I>(device, z, (&[64], &[1]));
    gather(&at::<T>(device, x, ROWS), &index, &at(device, y, ROWS))
}

fn rotaries<T: GemmElement, I: RowNumber>(
    device: &'static Device,
    [x, y, z]: [u64; 3],
) -> Result<(), Error> {
    let heads = (&[1, 1, 64, 64][..], &[4096, 4096, 64, 1][..]);
    let (x, y) = (at::<T>(device, x, heads), at(device, y, heads));
    let positions = at::<I>(device, z, (&[64], &[1]));
    Rotary::new(Pairing::Halves, &x, &y)
        .positions(&positions)
        .run()
}

fn rows_in_8_bits<T: GemmElement>(
    device: &'static Device,
    [x, y, z]: [u64; 3],
) -> Result<(), Error> {
    let (q, scales) = (at::<u8>(device, y, ROWS), at(device, z, (&[64], &[1])));
    quantise(Ty::E4m3, &at::<T>(device, x, ROWS), &q, &scales)
}

fn by_a_scale<T: GemmElement>(device: &'static Device, [x, y, _]: [u64; 3]) -> Result<(), Error> {
    let q = at::<u8>(device, y, ROWS);
    let call = Quantise::new(Ty::E4m3, &at::<T>(device, x, ROWS), &q);
    call.tensor(0.5).run()
}

fn convolutions<T: GemmElement, C: GemmElement>(
    device: &'static Device,
    [x, y, z]: [u64; 3],
) -> Result<(), Error> {
    let image = at::<T>(device, x, (&[2, 8, 8, 64], &[4096, 512, 64, 1]));
    let filters = at::<T>(device, z, (&[64, 3, 3, 64], &[576, 192, 64, 1]));
    let y = at::<C>(device, y, (&[2, 6, 6, 64], &[2304, 384, 64, 1]));
    convolution(&image, &filters, &y)
}

fn maps<T: Element>(device: &'static Device, [x, y, _]: [u64; 3]) -> Result<(), Error> {
    let negative: MapExpression = "(x: tensor f16) -> y { neg(x) }".parse()?;
    let map = Map::new(&negative).input("x", &at::<T>(device, x, ROWS));
    map.output("y", &at::<f16>(device, y, ROWS)).run()
}

/// Calls on views of other types, with one layout and at the same addresses, are other calls: the first one with a type loads its kernel,
/// and each later one launches alone.
#[test]
fn law_calls_of_other_types_at_the_same_places_are_found_apart() {
    type Call = fn(&'static Device, [u64; 3]) -> Result<(), Error>;
    const CALLS: [(&str, [Call; 2]); 12] = [
        ("sums", [sums::<f32>, sums::<i32>]),
        (
            "selections",
            [selections::<f32, i32>, selections::<i32, i32>],
        ),
        (
            "selections, indices",
            [selections::<f32, i32>, selections::<f32, i64>],
        ),
        ("gathers", [gathers::<f32, i32>, gathers::<u16, i32>]),
        ("gathers, index", [gathers::<f32, i32>, gathers::<f32, i64>]),
        ("rotary", [rotaries::<f16, i32>, rotaries::<bf16, i32>]),
        (
            "rotary, positions",
            [rotaries::<f16, i32>, rotaries::<f16, u32>],
        ),
        (
            "rows in 8 bits",
            [rows_in_8_bits::<f16>, rows_in_8_bits::<bf16>],
        ),
        ("by a scale", [by_a_scale::<f16>, by_a_scale::<bf16>]),
        (
            "convolutions",
            [convolutions::<bf16, bf16>, convolutions::<f16, f16>],
        ),
        (
            "convolutions, y",
            [convolutions::<bf16, bf16>, convolutions::<bf16, f32>],
        ),
        ("maps", [maps::<f16>, maps::<bf16>]),
    ];
    let act = || {
        let mut cases = 0;
        for (name, [one, other]) in CALLS {
            let device: &'static Device = Box::leak(Box::new(device()));
            device.clear_module_cache();
            let buffers = [(); 3].map(|()| buffer::<u8>(device));
            let places = [0, 1, 2].map(|i: usize| buffers[i].address());
            let run = |call: Call| counted(device, || call(device, places));
            let first = run(one).unwrap();
            assert!(loads(&first) > 0, "{name}: {first:?}");
            match run(other) {
                Ok(counts) => assert!(loads(&counts) > 0, "{name}: {counts:?}"),
                // A map has the types of its expression.
                Err(error) => assert!(name == "maps", "{name}: {error}"),
            }
            for call in [one, other] {
                let again = run(call).map_or(0, |counts| loads(&counts));
                assert_eq!(again, 0, "{name}");
                cases += 2;
            }
        }
        format!("law types found apart: {cases} cases")
    };
    let name = "between::law_calls_of_other_types_at_the_same_places_are_found_apart";
    let said = said(name, "whole", act);
    println!("{said}");
    assert!(said.starts_with("law types found apart: "), "{said}");
}
