//! `load_plans` of the calls between products: what is loaded ahead, no call loads.

use std::collections::HashSet;
use std::hash::Hash;

use colex_gpu::attention::{Attention, AttentionPlan, AttentionRange, Mask};
use colex_gpu::reduce::scan::Scan;
use colex_gpu::reduce::top_k::TopK;
use colex_gpu::reduce::{Reduce, ReduceFunction};
use colex_gpu::{Buffer, Device, Element, Error, View, ViewMut};
use colex_layout::IntTuple;
use half::bf16;

use super::calls::{buffer, captured, loads, on_cudarc, view, view_mut};
use super::library::counted;
use super::{device, said};

/// Tensors of 2^18 elements at most: single elements, rows of no whole vectors, few long rows, many short ones, long columns.
const SHAPES: [[i64; 3]; 7] = [
    [1, 1, 1],
    [7, 33, 5],
    [4, 64, 1000],
    [1, 1, 200_000],
    [512, 8, 64],
    [2, 100_000, 1],
    [1, 4096, 64],
];

pub(super) fn rows<'a, T: Element>(buffer: &'a Buffer<T>, extents: &[i64]) -> View<'a, T> {
    let shape = IntTuple::flat(extents.iter().map(|extent| (*extent).into()));
    View::row_major(buffer, shape).expect("a view")
}

/// A view to write a buffer that the test goes on using: through another handle, which is never dropped.
pub(super) fn rows_mut<T: Element>(buffer: &Buffer<T>, extents: &[i64]) -> ViewMut<'static, T> {
    let shape = IntTuple::flat(extents.iter().map(|extent| (*extent).into()));
    let handle = Box::leak(Box::new(buffer.clone()));
    ViewMut::row_major(handle, shape).expect("a view")
}

/// Loads the plans of shapes, and returns how many kernels these are.
type LoadOf<'w> = dyn Fn(&[[i64; 3]]) -> Result<usize, Error> + 'w;

/// What of a call is the same for every shape.
struct Ahead<'w, P> {
    name: String,
    /// Loads the plans of shapes.
    load: &'w LoadOf<'w>,
    /// Runs the call of a shape.
    run: &'w dyn Fn([i64; 3]) -> Result<(), Error>,
    /// The plan of a shape, and its parts; `None` if there is nothing to do.
    plan: &'w dyn Fn([i64; 3]) -> Option<(P, i64)>,
}

impl<P: Eq + Hash> Ahead<'_, P> {
    /// Loads the plans of `shapes`, and runs the calls of these, captured first, and of `others`. Returns how many of the others share
    /// a kernel.
    fn holds(&self, device: &Device, shapes: &[[i64; 3]], others: &[[i64; 3]]) -> usize {
        let name = &self.name;
        let of = |shape: &[i64; 3]| (self.plan)(*shape);
        let mut found = 0;
        let ahead = || {
            found = (self.load)(shapes)?;
            Ok(())
        };
        counted(device, ahead).unwrap();
        let plans: HashSet<(P, i64)> = shapes.iter().filter_map(of).collect();
        assert!(found >= plans.len(), "{name}: {found} kernels");
        // The result of no elements is read from memory that the first such call allocates.
        for shape in shapes.iter().filter(|shape| !shape.contains(&0)) {
            let (nodes, work) = captured(device, || (self.run)(*shape));
            work.unwrap_or_else(|error| panic!("{name} of {shape:?}, captured: {error}"));
            // In a capture, blocks share nothing.
            assert_eq!(
                nodes,
                Ok(usize::from(of(shape).is_some())),
                "{name} of {shape:?}"
            );
        }
        for shape in shapes {
            let counts = counted(device, || (self.run)(*shape)).unwrap();
            assert_eq!(loads(&counts), 0, "{name} of {shape:?}");
        }
        let again = || {
            assert_eq!((self.load)(shapes)?, found, "{name}");
            Ok(())
        };
        assert_eq!(loads(&counted(device, again).unwrap()), 0, "{name}, again");
        let shares = |shape: &&[i64; 3]| match of(shape) {
            Some((plan, parts)) => parts == 1 && plans.contains(&(plan, parts)),
            None => false,
        };
        let sharing: Vec<&[i64; 3]> = others.iter().filter(shares).collect();
        for shape in &sharing {
            let counts = counted(device, || (self.run)(**shape)).unwrap();
            assert_eq!(loads(&counts), 0, "{name} of {shape:?}, which is another");
        }
        sharing.len()
    }
}

/// The functions that have a result of no elements.
const SUMS: [ReduceFunction; 4] = [
    ReduceFunction::Sum,
    ReduceFunction::Mean,
    ReduceFunction::SquareSum,
    ReduceFunction::Norm,
];

/// Other shapes, of which some have the kernel of one of [`SHAPES`].
const OTHERS: [[i64; 3]; 5] = [
    [5, 64, 800],
    [3, 64, 1000],
    [500, 8, 64],
    [256, 16, 64],
    [9, 35, 7],
];

/// After `load_plans`, a reduction of a shape that was named loads no kernel, nor does one in a capture or one of another shape with the
/// same plan: of every function, along every set of modes, in parts and whole, with the values of an arg-max, of no elements.
#[test]
fn law_after_load_plans_no_reduction_of_a_shape_loads_a_kernel() {
    let act = || {
        let device = on_cudarc();
        let (mut cases, mut shared) = (0, 0);
        let (halves, floats) = (buffer::<bf16>(&device), buffer::<f32>(&device));
        let (results, numbers) = (buffer::<f32>(&device), buffer::<i32>(&device));
        let values = buffer::<f32>(&device);
        for function in ReduceFunction::ALL {
            for modes in [&[0][..], &[1], &[2], &[0, 2], &[0, 1, 2]] {
                if function.is_index() && modes.len() > 1 {
                    continue;
                }
                let of_results = |mut shape: [i64; 3]| {
                    modes.iter().for_each(|mode| shape[*mode] = 1);
                    shape
                };
                let name = format!("the {function} along {modes:?}");
                let is_sum = SUMS.contains(&function);
                let mut shapes = SHAPES.to_vec();
                if is_sum {
                    let mut nothing = [3, 5, 7];
                    nothing[modes[0]] = 0;
                    shapes.push(nothing);
                }
                let found = if is_sum {
                    // The sums of 16 bits in 32.
                    let call = |shape: [i64; 3]| {
                        let y = rows_mut(&results, &of_results(shape));
                        Reduce::new(function, &rows(&halves, &shape), modes, &y)
                    };
                    let ahead = Ahead {
                        name,
                        load: &|shapes| call([1, 1, 8]).load_plans(shapes),
                        run: &|shape| call(shape).run(),
                        plan: &|shape| call(shape).plan().unwrap().map(|plan| (plan, plan.parts)),
                    };
                    ahead.holds(&device, &shapes, &OTHERS)
                } else {
                    let call = |shape: [i64; 3]| {
                        let x = rows(&floats, &shape);
                        if function.is_index() {
                            let at = rows_mut(&numbers, &of_results(shape));
                            let most = rows_mut(&values, &of_results(shape));
                            return Reduce::index(function, &x, modes[0], &at).values(&most);
                        }
                        let y = rows_mut(&results, &of_results(shape));
                        Reduce::new(function, &x, modes, &y)
                    };
                    let ahead = Ahead {
                        name,
                        load: &|shapes| call([1, 1, 8]).load_plans(shapes),
                        run: &|shape| call(shape).run(),
                        plan: &|shape| call(shape).plan().unwrap().map(|plan| (plan, plan.parts)),
                    };
                    ahead.holds(&device, &shapes, &OTHERS)
                };
                cases += shapes.len();
                shared += found;
            }
        }
        let own = || {
            let y = rows_mut(&results, &[123]);
            let x = rows(&halves, &[123, 17]);
            Reduce::new(ReduceFunction::Sum, &x, &[1], &y).run()
        };
        let own = loads(&counted(&device, own).unwrap());
        assert!(own > 0, "a shape of its own");
        assert!(shared > 20, "{shared} other shapes share a kernel");
        format!("law load_plans of reductions: {cases} cases")
    };
    let name = "ahead::law_after_load_plans_no_reduction_of_a_shape_loads_a_kernel";
    let said = said(name, "whole", act);
    println!("{said}");
    assert!(said.starts_with("law load_plans of reductions: "), "{said}");
}

/// A shape that the call does not take is refused before a kernel is loaded.
#[test]
fn load_plans_of_reductions_refuse_shapes() {
    let act = || {
        let device = device();
        let (x, y) = (buffer::<f32>(&device), buffer::<f32>(&device));
        let refused = |function: ReduceFunction, shape: &[i64]| {
            let y = rows_mut(&y, &[4]);
            let call = Reduce::new(function, &rows(&x, &[4, 64]), &[1], &y);
            let mut said = String::new();
            let load = || {
                said = call
                    .load_plans([&[4, 4096], shape])
                    .unwrap_err()
                    .to_string();
                Ok(())
            };
            assert_eq!(loads(&counted(&device, load).unwrap()), 0, "{said}");
            said
        };
        let nothing = {
            let (y, x) = (rows_mut(&y, &[0]), rows(&x, &[0, 64]));
            let call = Reduce::new(ReduceFunction::Sum, &x, &[1], &y);
            [
                call.load_plans([[0, 4]]).unwrap(),
                call.load_plans([[0; 2]; 0]).unwrap(),
            ]
        };
        assert_eq!(nothing, [0, 0]);
        let found = [
            refused(ReduceFunction::Sum, &[64]),
            refused(ReduceFunction::Max, &[4, 0]),
            refused(ReduceFunction::Sum, &[4, -1]),
            refused(ReduceFunction::Sum, &[1 << 31, 4]),
            refused(ReduceFunction::Sum, &[1 << 30, 1 << 30, 1 << 30]),
        ];
        found.join("; ")
    };
    let name = "ahead::load_plans_of_reductions_refuse_shapes";
    assert_eq!(
        said(name, "whole", act),
        "mode 1 is named, and x 64 has 1 mode: modes are counted from 0; \
         the max of no elements: x has the shape (4,0), and an extent that is reduced is 0; \
         an extent is -1: it must be 0 to 1073741824; \
         an extent is 2147483648: it must be 0 to 1073741824; \
         a stride is 1152921504606846976: it must be at most 1099511627775 in size"
    );
}

/// After `load_plans`, a cumulative sum of a shape that was named loads no kernel, nor does one in a capture or one of another shape with
/// the same plan: along every mode, inclusive and exclusive, in parts and whole.
#[test]
fn law_after_load_plans_no_cumulative_sum_of_a_shape_loads_a_kernel() {
    let act = || {
        let device = on_cudarc();
        let (mut cases, mut shared, mut divided) = (0, 0, 0);
        let (x, y) = (buffer::<f32>(&device), buffer::<f32>(&device));
        for mode in 0..3 {
            for exclusive in [false, true] {
                let call = |shape: [i64; 3]| {
                    let call = Scan::new(&rows(&x, &shape), mode, &rows_mut(&y, &shape));
                    if exclusive { call.exclusive() } else { call }
                };
                let plan = |shape: [i64; 3]| {
                    let (plan, problem) = (call(shape).plan(), call(shape).problem());
                    let (plan, problem) = (plan.unwrap()?, problem.unwrap()?);
                    Some((plan, plan.parts(&problem)))
                };
                let ahead = Ahead {
                    name: format!("the sums along {mode}, exclusive: {exclusive}"),
                    load: &|shapes| call([1, 1, 8]).load_plans(shapes),
                    run: &|shape| call(shape).run(),
                    plan: &plan,
                };
                let mut shapes = SHAPES.to_vec();
                shapes.push([3, 0, 7]);
                shared += ahead.holds(&device, &shapes, &OTHERS);
                cases += shapes.len();
                let parts = |shape: &&[i64; 3]| plan(**shape).is_some_and(|(_, parts)| parts > 1);
                divided += shapes.iter().filter(parts).count();
            }
        }
        assert!(divided > 5, "{divided} shapes in parts");
        assert!(shared > 5, "{shared} other shapes share a kernel");
        let refused = |shape: &[i64]| {
            let call = Scan::new(&rows(&x, &[4, 64]), 1, &rows_mut(&y, &[4, 64]));
            let mut said = String::new();
            let load = || {
                said = call
                    .load_plans([&[4, 4000], shape])
                    .unwrap_err()
                    .to_string();
                Ok(())
            };
            assert_eq!(loads(&counted(&device, load).unwrap()), 0, "{said}");
            said
        };
        assert_eq!(
            [&[64][..], &[4, -1], &[8, 1 << 21, 1 << 20]].map(refused),
            [
                "mode 1 is named, and x 64 has 1 mode: modes are counted from 0",
                "an extent is -1: it must be 0 to 1073741824",
                "a stride is 2199023255552: it must be at most 1099511627775 in size",
            ]
        );
        format!("law load_plans of cumulative sums: {cases} cases")
    };
    let name = "ahead::law_after_load_plans_no_cumulative_sum_of_a_shape_loads_a_kernel";
    let said = said(name, "whole", act);
    println!("{said}");
    assert!(
        said.starts_with("law load_plans of cumulative sums: "),
        "{said}"
    );
}

/// After `load_plans`, a selection of a shape that was named loads no kernel, nor does one in a capture or one of another shape with the
/// same plan: along every mode, of few and many elements, the largest and the smallest, in parts and whole.
#[test]
fn law_after_load_plans_no_selection_of_a_shape_loads_a_kernel() {
    let act = || {
        let device = on_cudarc();
        let (mut cases, mut shared, mut divided) = (0, 0, 0);
        let (x, values, at) = (
            buffer::<f32>(&device),
            buffer::<f32>(&device),
            buffer::<i32>(&device),
        );
        for (mode, k, smallest) in [
            (2, 1, false),
            (2, 8, true),
            (1, 3, false),
            (0, 2, true),
            (2, 300, false),
        ] {
            let with_k = |mut shape: [i64; 3]| {
                shape[mode] = k;
                shape
            };
            let call = |shape: [i64; 3]| {
                let (values, at) = (
                    rows_mut(&values, &with_k(shape)),
                    rows_mut(&at, &with_k(shape)),
                );
                let call = TopK::new(&rows(&x, &shape), mode, &values, &at);
                if smallest { call.smallest() } else { call }
            };
            let plan = |shape: [i64; 3]| call(shape).plan().unwrap().map(|plan| (plan, plan.parts));
            let mut own = [1, 1, 1];
            own[mode] = 512;
            let ahead = Ahead {
                name: format!("{k} along {mode}"),
                load: &|shapes| call(own).load_plans(shapes),
                run: &|shape| call(shape).run(),
                plan: &plan,
            };
            let mut nothing = [8, 8, 8];
            nothing[mode] = 512;
            nothing[(mode + 1) % 3] = 0;
            let mut shapes = SHAPES.to_vec();
            shapes.push(nothing);
            let mut others = OTHERS.to_vec();
            for all in [&mut shapes, &mut others] {
                all.retain(|shape| shape[mode] >= k);
            }
            shared += ahead.holds(&device, &shapes, &others);
            cases += shapes.len();
            let parts = |shape: &&[i64; 3]| plan(**shape).is_some_and(|(_, parts)| parts > 1);
            divided += shapes.iter().filter(parts).count();
        }
        assert!(divided > 2, "{divided} shapes in parts");
        assert!(shared > 2, "{shared} other shapes share a kernel");
        let refused = |shape: &[i64]| {
            let (values, at) = (rows_mut(&values, &[4, 8]), rows_mut(&at, &[4, 8]));
            let call = TopK::new(&rows(&x, &[4, 64]), 1, &values, &at);
            let mut said = String::new();
            let load = || {
                said = call
                    .load_plans([&[4, 4000], shape])
                    .unwrap_err()
                    .to_string();
                Ok(())
            };
            assert_eq!(loads(&counted(&device, load).unwrap()), 0, "{said}");
            said
        };
        assert_eq!(
            [&[64][..], &[4, -1], &[4, 5], &[4, 0]].map(refused),
            [
                "mode 1 is named, and x 64 has 1 mode: modes are counted from 0",
                "an extent is -1: it must be 0 to 1073741824",
                "the 8 largest of 5 elements: there must be at most 5",
                "the 8 largest of 0 elements: there must be 0",
            ]
        );
        format!("law load_plans of selections: {cases} cases")
    };
    let name = "ahead::law_after_load_plans_no_selection_of_a_shape_loads_a_kernel";
    let said = said(name, "whole", act);
    println!("{said}");
    assert!(said.starts_with("law load_plans of selections: "), "{said}");
}

/// The calls of attention whose kernels are loaded ahead: those of sequences of one length, of packed ones and of keys in pages.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kept {
    Batch,
    Packed,
    Paged,
}

/// After `load_plans`, attention of numbers of sequences, queries and keys in the range loads no kernel, prepared or captured: of
/// sequences of one length, packed ones and keys in pages, with and without a mask.
#[test]
fn law_after_load_plans_no_attention_of_a_range_loads_a_kernel() {
    let act = || {
        let device = on_cudarc();
        let (x, o) = (buffer::<bf16>(&device), buffer::<bf16>(&device));
        let (numbers, table) = (buffer::<u32>(&device), buffer::<i32>(&device));
        let (mut cases, mut methods) = (0, HashSet::new());
        for (kept, mask, [most_sequences, most_queries, most_keys]) in [
            (Kept::Batch, Mask::Full, [64, 1, 100_000]),
            (Kept::Batch, Mask::Causal, [2, 120, 4000]),
            (Kept::Packed, Mask::Causal, [40, 200, 200]),
            (Kept::Paged, Mask::Full, [64, 3, 50_000]),
        ] {
            // A stride of 0 has the keys of any number at one place.
            let run_or_load = |[sequences, queries, keys]: [i64; 3],
                               range: Option<&AttentionRange>| {
                let of = |buffer, layout: &str| view(buffer, layout);
                let (q, k) = match kept {
                    Kept::Batch => (
                        format!("({sequences},8,{queries},64):({},64,512,1)", queries * 512),
                        format!("({sequences},2,{keys},64):(0,64,0,1)"),
                    ),
                    Kept::Packed => (
                        format!("({},8,64):(512,64,1)", sequences.min(4) * queries),
                        format!("({},2,64):(0,64,1)", sequences * keys),
                    ),
                    Kept::Paged => (
                        format!("({sequences},8,{queries},64):({},64,512,1)", queries * 512),
                        "(1000,2,16,64):(0,64,0,1)".to_string(),
                    ),
                };
                let (k, v) = (of(&x, &k), of(&x, &k));
                let (q, written) = (of(&x, &q), view_mut(&o, &q));
                let mut call = Attention::new(&q, &k, &v, &written).mask(mask);
                let (offsets, entries) = (format!("{}:1", sequences + 1), keys / 16 + 1);
                let offsets = view(&numbers, &offsets);
                let lengths = view(&numbers, &format!("{sequences}:1"));
                let pages = view(&table, &format!("({sequences},{entries}):(0,1)"));
                match kept {
                    Kept::Batch => {}
                    Kept::Packed => {
                        call = call
                            .query_offsets(&offsets, queries)
                            .key_offsets(&offsets, keys);
                    }
                    Kept::Paged => call = call.pages(&pages, &lengths, keys),
                }
                let plan = call.plan()?;
                match range {
                    Some(range) => assert!(call.load_plans(range)? > 1),
                    None => {
                        call.prepare()?;
                    }
                }
                Ok::<AttentionPlan, Error>(plan)
            };
            let range = AttentionRange {
                sequences: 1..=most_sequences,
                queries: 1..=most_queries,
                keys: 1..=most_keys,
            };
            let ahead = || run_or_load([1, 1, 1], Some(&range)).map(drop);
            assert!(loads(&counted(&device, ahead).unwrap()) > 0, "{kept:?}");
            let drawn = (1..60).map(|i: i64| {
                let of = |step: i64, most: i64| 1 + (i * i * step + i) % most;
                [
                    of(31, most_sequences),
                    of(17, most_queries),
                    of(7919, most_keys),
                ]
            });
            let most = [most_sequences, most_queries, most_keys];
            let corners = [
                most,
                [1, most_queries, most_keys],
                [most_sequences, 1, 1],
                [1, 1, 40],
            ];
            for lengths in drawn.chain(corners) {
                let mut plan = None;
                let run = || {
                    plan = Some(run_or_load(lengths, None)?);
                    Ok(())
                };
                let counts = counted(&device, run).unwrap();
                let plan = plan.expect("a plan");
                assert_eq!(loads(&counts), 0, "{kept:?}, {lengths:?}: {plan}");
                methods.insert((plan.method, plan.splits > 1, plan.sorted));
                cases += 1;
            }
        }
        assert!(methods.len() >= 4, "{methods:?}");
        format!("law load_plans of attention: {cases} cases")
    };
    let name = "ahead::law_after_load_plans_no_attention_of_a_range_loads_a_kernel";
    let said = said(name, "whole", act);
    println!("{said}");
    assert!(said.starts_with("law load_plans of attention: "), "{said}");
}
