//! Epilogues of products on the simulator against the host's, bit for bit.

mod closures;
mod conversions;
mod groups;
mod pingpong;

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::{Epilogue, EpilogueBuilder, EpilogueReduction, GemmMethod, GemmPlan, Groups};
use colex_gpu::kernels::gemm::{Division, Operands};
use colex_gpu::kernels::{GemmElement, Major};
use colex_gpu::{Device, Gemm, View, ViewMut};
use colex_ir::{BinaryOp, ShuffleMode};
use colex_layout::Layout;
use colex_proof::kernels::epilogues;
use colex_proof::soak::{draws, takes};
use colex_proof::sweep::Random;
use colex_sched::pipeline::Schedule::{Cooperative, Pingpong};
use colex_sim::SimOptions;
use colex_tensor::{Expr, Fragment};
use half::{bf16, f16};

#[test]
fn law_epilogues_are_those_of_the_host() {
    let count = draws(40);
    let devices = [Arch::Sm70, Arch::Sm75, Arch::Sm80, Arch::Sm90a, Arch::Sm90a];
    let devices = devices.map(Device::simulator);
    let found = epilogues::check(&devices, 20, count).unwrap_or_else(|why| panic!("{why}"));
    let refused = count - found.drawn;
    assert!(
        refused * 4 < count,
        "{refused} of {count} epilogues were refused"
    );
    println!("law epilogues: {found}");
}

/// In groups of every kind and in lists of matrices too.
#[test]
fn law_epilogues_of_groups_and_lists_are_those_of_the_host() {
    let count = draws(30);
    let devices = [Arch::Sm75, Arch::Sm80, Arch::Sm90a, Arch::Sm90a].map(Device::simulator);
    let found = epilogues::check_parts(&devices, 20, count).unwrap_or_else(|why| panic!("{why}"));
    let refused = 2 * count - found.drawn;
    assert!(
        refused * 4 < 2 * count,
        "{refused} of {} epilogues were refused",
        2 * count
    );
    println!("law epilogues.parts: {found}");
}

/// Every kernel gives an element of C the coordinates that the host gives it: over batches, swapped factors, parts of K in clusters and
/// through a workspace, two right factors, and outputs by any layout.
#[test]
fn law_coordinates_of_an_epilogue_are_those_of_c() {
    let devices = [Arch::Sm70, Arch::Sm80, Arch::Sm90a].map(Device::simulator);
    let found = epilogues::check_coordinates(&devices, 5);
    let found = found.unwrap_or_else(|why| panic!("{why}"));
    println!("law epilogue.coordinates: {found} elements");
}

/// The sum of one right factor, or of two, with the coordinates: as a formula.
fn placed(is_gated: bool) -> Epilogue {
    let built = Epilogue::new(Ty::F32, |e| {
        let place = e.row() * 1000 + e.column();
        let mut sum = e.accumulator();
        if is_gated {
            sum = sum - e.second_accumulator() * 3.0;
        }
        sum + place.to(Ty::F32)
    });
    built.expect("an epilogue")
}

/// The same as a closure, which the host does not evaluate.
fn placed_by_closure(is_gated: bool) -> Epilogue {
    let built = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator();
        // A closure has one function under its name, for one factor too.
        let second = if is_gated {
            e.second_accumulator()
        } else {
            x.clone() * 0.0
        };
        e.apply(
            "placed",
            1,
            Ty::F32,
            [x, second],
            |k, [x, second], elements| {
                let d = k.fragment(Ty::F32, x.layout());
                for (i, (row, column)) in elements.rows().iter().zip(elements.columns()).enumerate()
                {
                    let at = |of: &Fragment| of.values(i as i64, 1);
                    let place = Expr::from(row) * 1000 + Expr::from(column);
                    k.assign(&at(&d), &at(&x) - &at(&second) * 3.0 + place.to(Ty::F32));
                }
                Ok(d.into())
            },
        )
    });
    built.expect("an epilogue")
}

/// In groups of contiguous rows the row is one of C; in groups with a matrix each it counts within the group. With one right factor and
/// with two, as a formula and as a closure, in every kernel that takes groups.
#[test]
fn law_coordinates_in_groups_are_those_of_c() {
    let factors = [false, true];
    let (formulas, closures) = (factors.map(placed), factors.map(placed_by_closure));
    let (m, n, k) = (80_i64, 24_i64, 8_i64);
    let offsets = [0_u32, 3, 3, 70, 80];
    let groups = offsets.len() as i64 - 1;
    let mut cases = 0;
    for (arch, methods) in [
        (Arch::Sm70, vec![GemmMethod::Simt, GemmMethod::Volta]),
        (Arch::Sm75, vec![GemmMethod::Volta]),
        (Arch::Sm80, vec![GemmMethod::Ampere]),
        (Arch::Sm90a, vec![GemmMethod::Ampere, GemmMethod::Hopper]),
    ] {
        let device = Device::simulator(arch);
        let numbers = |count: i64| -> Vec<f16> {
            let number = |i: i64| f16::from_f64(((i * 7 + i / 5) % 5) as f64 - 2.0);
            (0..count).map(number).collect()
        };
        for (method, is_gated, is_closure) in methods.into_iter().flat_map(|method| {
            let ways = [(false, false), (true, false), (false, true), (true, true)];
            ways.map(|(is_gated, is_closure)| (method, is_gated, is_closure))
        }) {
            let formula = &formulas[usize::from(is_gated)];
            let epilogue = if is_closure {
                &closures[usize::from(is_gated)]
            } else {
                formula
            };
            for kind in [Groups::Rows, Groups::Masked, Groups::AlongK] {
                let counts: Vec<u32> = match kind {
                    Groups::Masked => vec![5, 0, 80, 66],
                    Groups::Rows => offsets.to_vec(),
                    _ => vec![0, 8, 8, 16, 16],
                };
                let of_k = if kind == Groups::AlongK { 16 } else { k };
                let shape = |rows: i64, has_mode: bool| {
                    if has_mode {
                        Layout::new((rows, of_k, groups), (of_k, 1, rows * of_k))
                    } else {
                        Layout::new((rows, of_k), (of_k, 1))
                    }
                };
                let of_a = shape(m, kind == Groups::Masked).expect("a layout");
                let of_b = shape(n, kind != Groups::AlongK).expect("a layout");
                let of_c = match kind {
                    Groups::Rows => Layout::new((m, n), (n, 1)),
                    _ => Layout::new((m, n, groups), (n, 1, m * n)),
                };
                let of_c = of_c.expect("a layout");
                let (in_a, in_b) = (numbers(of_a.size()), numbers(2 * of_b.size()));
                let (a, b) = (
                    device.upload(&in_a).expect("A"),
                    device.upload(&in_b).expect("B"),
                );
                // The second right factor lies behind the first.
                let behind = b.slice(of_b.size() as usize..).expect("a slice");
                let before = vec![-7f32; of_c.size() as usize];
                let mut c = device.upload(&before).expect("C");
                let list = device.upload(&counts).expect("numbers");
                let mut call = Gemm::new(
                    &View::new(&a, &of_a).expect("A"),
                    &View::new(&b, &of_b).expect("B"),
                    &ViewMut::new(&mut c, &of_c).expect("C"),
                )
                .groups(kind, &list.view(counts.len() as i64).expect("a view"))
                .epilogue(epilogue)
                .method(method);
                if is_gated {
                    call = call.b2(&View::new(&behind, &of_b).expect("the second B"));
                }
                call.run()
                    .unwrap_or_else(|why| panic!("{kind:?} by {method} on {arch}: {why}"));
                let found = c.download().expect("C");
                for (product, i, j) in (0..of_c.size() / (m * n))
                    .flat_map(|p| (0..m).flat_map(move |i| (0..n).map(move |j| (p, i, j))))
                {
                    let number = |at: i64| i64::from(counts[at as usize]);
                    let (group, span) = match kind {
                        Groups::Rows => {
                            let group = (0..groups).find(|g| i < number(g + 1));
                            (group.expect("all rows are in a group"), 0..k)
                        }
                        Groups::Masked => (product, 0..k),
                        _ => (product, number(product)..number(product + 1)),
                    };
                    let at = (product * m + i) * n + j;
                    let is_there = kind != Groups::Masked || i < number(group);
                    let of_a = |l: i64| match kind {
                        Groups::Masked => in_a[((group * m + i) * k + l) as usize],
                        _ => in_a[(i * of_k + l) as usize],
                    };
                    let in_second = of_b.size();
                    let of_b = |l: i64, behind: i64| match kind {
                        Groups::AlongK => in_b[(behind + j * of_k + l) as usize],
                        _ => in_b[(behind + (group * n + j) * k + l) as usize],
                    };
                    let sum = |behind: i64| -> u64 {
                        let terms = span.clone();
                        let terms = terms.map(|l| of_a(l).to_f32() * of_b(l, behind).to_f32());
                        terms.fold(0_f32, |sum, term| sum + term).to_bits().into()
                    };
                    let sums = [sum(0), sum(in_second)];
                    let bits = formula.evaluate_at([i, j], &sums[..1 + usize::from(is_gated)]);
                    let wanted = if is_there {
                        f32::from_bits(bits.expect("a number")[0] as u32)
                    } else {
                        -7.0
                    };
                    assert_eq!(
                        found[at as usize], wanted,
                        "({i},{j}) of {product}, {kind:?} by {method} on {arch}, closure {is_closure}"
                    );
                    cases += 1;
                }
            }
        }
    }
    println!("law epilogue.coordinates in groups: {cases} elements");
}

/// SwiGLU and GeGLU of one right factor, whose rows are alternately those of the gate and of the up-projection, or first all of the gate:
/// one kernel of every architecture computes them, with the bits of the host.
#[test]
fn law_gated_products_take_one_interleaved_factor() {
    let swiglu = Epilogue::new(Ty::F32, |e| {
        (e.accumulator().silu() * e.second_accumulator()).to(Ty::F16)
    });
    let geglu = Epilogue::new(Ty::F32, |e| {
        (e.accumulator().gelu() * e.second_accumulator()).to(Ty::F16)
    });
    let gated = [swiglu, geglu].map(|epilogue| epilogue.expect("an epilogue"));
    let (n, k) = (24_i64, 32_i64);
    let number = |i: i64| f16::from_f64(((i * 7 + i / 5) % 9) as f64 / 4.0 - 1.0);
    let numbers = |count: i64| -> Vec<f16> { (0..count).map(number).collect() };
    let in_w = numbers(2 * n * k);
    let mut elements = 0;
    for (arch, method, m) in [
        (Arch::Sm70, GemmMethod::Simt, 40_i64),
        (Arch::Sm70, GemmMethod::Volta, 40),
        (Arch::Sm75, GemmMethod::Volta, 40),
        (Arch::Sm80, GemmMethod::Ampere, 40),
        (Arch::Sm80, GemmMethod::Gemv, 1),
        (Arch::Sm90a, GemmMethod::Ampere, 40),
        (Arch::Sm90a, GemmMethod::Hopper, 40),
        (Arch::Sm90a, GemmMethod::Gemv, 1),
    ] {
        let device = Device::simulator(arch);
        let in_a = numbers(m * k);
        let (a, w) = (
            device.upload(&in_a).expect("A"),
            device.upload(&in_w).expect("B"),
        );
        // From a row of the factor to its next, and from the gate to the up-projection.
        for ([next, behind], epilogue) in [[2 * k, k], [k, n * k]]
            .into_iter()
            .flat_map(|at| gated.iter().map(move |epilogue| (at, epilogue)))
        {
            let of_w = Layout::new((n, k), (next, 1)).expect("a layout");
            let up = w.slice(behind as usize..).expect("a slice");
            let mut c = device.poisoned::<f16>((m * n) as usize).expect("C");
            let call = Gemm::new(
                &a.view((m, k)).expect("A"),
                &View::new(&w, &of_w).expect("the gate"),
                &c.view_mut((m, n)).expect("C"),
            )
            .b2(&View::new(&up, &of_w).expect("the up-projection"))
            .epilogue(epilogue)
            .method(method)
            .prepare()
            .unwrap_or_else(|why| panic!("{method} on {arch}: {why}"));
            let launches = call.profile(&device);
            assert_eq!(launches.expect("a run").len(), 1, "{call} on {arch}");
            drop(call);
            let found = c.download().expect("C");
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                // Multiples of 1/16, whose sums are exact in every order.
                let sum = |behind: i64| -> u64 {
                    let term = |l: i64| {
                        let w = in_w[(behind + j * next + l) as usize];
                        in_a[(i * k + l) as usize].to_f32() * w.to_f32()
                    };
                    (0..k).map(term).sum::<f32>().to_bits().into()
                };
                let wanted = epilogue.evaluate(&[sum(0), sum(behind)]).expect("a number");
                assert_eq!(
                    u64::from(found[(i * n + j) as usize].to_bits()),
                    wanted[0],
                    "({i},{j}) of {epilogue} by {method} on {arch}, rows {next} apart"
                );
                elements += 1;
            }
        }
    }
    println!("law epilogue.interleaved: {elements} elements");
}

/// An epilogue whose closure takes the sum, a bias and the coordinates, exchanges sums within a warp and back, and stores its result
/// twice.
fn mixed() -> Epilogue {
    let built = Epilogue::new(Ty::F32, |e| {
        let (x, bias) = (e.accumulator(), e.tensor("bias", Ty::F32));
        let doubled = e.apply("mixed", 1, Ty::F32, [x, bias], |k, [x, bias], elements| {
            // Each lane gets what its neighbour got of it.
            k.emit(|ir| {
                for x in x.regs() {
                    let other = ir.shuffle(ShuffleMode::Bfly, *x, 1);
                    let own = ir.shuffle(ShuffleMode::Bfly, other, 1);
                    ir.mov_to(*x, own);
                }
            });
            let d = k.fragment(Ty::F32, x.layout());
            for (i, (row, column)) in elements.rows().iter().zip(elements.columns()).enumerate() {
                let at = |of: &Fragment| of.values(i as i64, 1);
                let place = (Expr::from(row) * 64 + Expr::from(column)).to(Ty::F32);
                k.assign(&at(&d), &at(&x) * 2.0 + &at(&bias) - place);
            }
            // Its arguments are its own.
            k.fill(&x, f64::NAN);
            Ok(d.into())
        });
        e.output("again", -&doubled);
        doubled
    });
    built.expect("an epilogue")
}

/// Each pair of neighbours in a row turned by an angle.
fn rotated() -> Epilogue {
    let built = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator();
        let [cos, sin] = ["cos", "sin"].map(|name| e.tensor(name, Ty::F32));
        e.apply(
            "rotated",
            1,
            Ty::F32,
            [x, cos, sin],
            |k, [x, cos, sin], elements| {
                let d = k.fragment(Ty::F32, x.layout());
                for [even, odd] in elements.pairs_of_columns()? {
                    let at = |of: &Fragment, i: i64| of.values(i, 1);
                    let ([u, v], [c, s]) =
                        ([at(&x, even), at(&x, odd)], [at(&cos, even), at(&sin, odd)]);
                    k.assign(&at(&d, even), &u * &c - &v * &s);
                    k.assign(&at(&d, odd), &u * &s + &v * &c);
                }
                Ok(d.into())
            },
        )
    });
    built.expect("an epilogue")
}

/// A closure gets the elements of its thread with their coordinates in C, in every kernel: for factors that are swapped, for parts of K
/// that a cluster, a second kernel and a block add, by stream-K, by pingpong, and in kernels of several widths too. All lanes of a warp
/// run it together. Pairs of neighbours are found where one thread has them.
#[test]
fn law_closures_of_an_epilogue_see_the_elements_of_c() {
    let (mixed, rotated) = (mixed(), rotated());
    assert_eq!(
        mixed,
        mixed.to_string().parse().expect("the process has it")
    );
    let (m, n, k) = (40_i64, 24_i64, 32_i64);
    let number = |i: i64| f16::from_f64(((i * 7 + i / 5) % 5) as f64 - 2.0);
    let numbers = |count: i64| -> Vec<f16> { (0..count).map(number).collect() };
    let (in_a, in_b) = (numbers(m * k), numbers(n * k));
    let in_bias: Vec<f32> = (0..n).map(|j| j as f32 / 4.0).collect();
    let angles = |by: i64| -> Vec<f32> {
        let angle = |i: i64| ((i * by) % 9) as f32 / 8.0 - 0.5;
        (0..m * n / 2).map(angle).collect()
    };
    let (in_cos, in_sin) = (angles(5), angles(7));
    let sum = |i: i64, j: i64| -> f32 {
        let term =
            |l: i64| in_a[(i * k + l) as usize].to_f32() * in_b[(j * k + l) as usize].to_f32();
        (0..k).map(term).sum()
    };
    /// Tiles of Hopper's kernel.
    fn small(plan: &mut GemmPlan) {
        (plan.tile, plan.warps, plan.stages) = ([64, 32, 16], [1, 1], 2);
    }
    /// The same of a kernel for several widths.
    fn narrow(plan: &mut GemmPlan) {
        (plan.tile, plan.warps, plan.stages) = ([64, 96, 16], [1, 1], 2);
        plan.columns = 64;
    }
    type Change = fn(&mut GemmPlan);
    let usual: Change = |_| {};
    let plans: [(Arch, GemmMethod, Change); 15] = [
        (Arch::Sm70, GemmMethod::Simt, usual),
        (Arch::Sm70, GemmMethod::Volta, usual),
        (Arch::Sm75, GemmMethod::Volta, usual),
        (Arch::Sm80, GemmMethod::Ampere, usual),
        (Arch::Sm90a, GemmMethod::Gemv, usual),
        (Arch::Sm90a, GemmMethod::Hopper, small),
        (Arch::Sm90a, GemmMethod::Hopper, |plan| {
            small(plan);
            plan.swap = true;
        }),
        (Arch::Sm90a, GemmMethod::Hopper, |plan| {
            small(plan);
            plan.split = 2;
        }),
        (Arch::Sm90a, GemmMethod::Hopper, |plan| {
            small(plan);
            plan.cluster = [1, 1, 2];
        }),
        (Arch::Sm90a, GemmMethod::Hopper, |plan| {
            small(plan);
            (plan.split, plan.division) = (2, Division::SplitKFixup);
        }),
        (Arch::Sm90a, GemmMethod::Hopper, |plan| {
            small(plan);
            (plan.split, plan.division) = (3, Division::StreamK);
        }),
        (Arch::Sm90a, GemmMethod::Hopper, |plan| {
            small(plan);
            plan.schedule = Pingpong;
        }),
        (Arch::Sm90a, GemmMethod::Hopper, narrow),
        (Arch::Sm90a, GemmMethod::Hopper, |plan| {
            narrow(plan);
            (plan.split, plan.division) = (2, Division::SplitKFixup);
        }),
        (Arch::Sm90a, GemmMethod::Hopper, |plan| {
            narrow(plan);
            plan.schedule = Pingpong;
        }),
    ];
    let (mut elements, mut pairs) = (0, 0);
    for (number, (arch, method, change)) in plans.into_iter().enumerate() {
        let device = Device::simulator(arch);
        let (a, b) = (
            device.upload(&in_a).expect("A"),
            device.upload(&in_b).expect("B"),
        );
        let floats = [&in_bias, &in_cos, &in_sin].map(|x| device.upload(x).expect("memory"));
        for by_rows in [true, false] {
            let strides = if by_rows { (n, 1) } else { (1, m) };
            let of_c = Layout::new((m, n), strides).expect("a layout");
            for epilogue in [&mixed, &rotated] {
                let is_rotated = epilogue == &rotated;
                let mut c = device.poisoned::<f32>((m * n) as usize).expect("C");
                let mut again = device.poisoned::<f32>((m * n) as usize).expect("an output");
                let gemm = Gemm::new(
                    &a.view((m, k)).expect("A"),
                    &b.view((n, k)).expect("B"),
                    &ViewMut::new(&mut c, &of_c).expect("C"),
                );
                let [bias, cos, sin] = &floats;
                // One angle for each pair of columns.
                let of_pairs = Layout::new((m, (2, n / 2)), (n / 2, (0, 1))).expect("a layout");
                let gemm = if is_rotated {
                    gemm.epilogue(epilogue)
                        .tensor("cos", &View::new(cos, &of_pairs).expect("a view"))
                        .tensor("sin", &View::new(sin, &of_pairs).expect("a view"))
                } else {
                    let bias = View::new(bias, Layout::new((m, n), (0, 1)).expect("a layout"));
                    gemm.epilogue(epilogue)
                        .tensor("bias", &bias.expect("a view"))
                        .output("again", &again.view_mut((m, n)).expect("a view"))
                };
                let mut swap = false;
                let call = gemm.prepare_with(|operands, _| {
                    let mut plan = GemmPlan {
                        cluster: [1; 3],
                        ..GemmPlan::new(method, operands)
                    };
                    change(&mut plan);
                    swap = plan.swap;
                    Ok(plan)
                });
                let call = match call {
                    Ok(call) => call,
                    Err(error) => {
                        assert!(is_rotated, "plan {number}, {method}: {error}");
                        let why = "pairs_of_columns: a thread of this kernel does not have both elements of each pair of columns \
                                   2j and 2j + 1: another plan or a C by rows has them";
                        assert!(error.to_string().ends_with(why), "{error}");
                        assert!(
                            !by_rows
                                || swap
                                || matches!(method, GemmMethod::Simt | GemmMethod::Gemv),
                            "plan {number}, {method}"
                        );
                        continue;
                    }
                };
                call.run(&device)
                    .unwrap_or_else(|why| panic!("{call}: {why}"));
                drop(call);
                let found = c.download().expect("C");
                let at = |i: i64, j: i64| found[of_c.at(i + m * j).expect("an offset") as usize];
                for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    if is_rotated {
                        let pair = (i * (n / 2) + j / 2) as usize;
                        let (cos, sin) = (in_cos[pair], in_sin[pair]);
                        let (u, v) = (sum(i, j / 2 * 2), sum(i, j / 2 * 2 + 1));
                        let wanted = if j % 2 == 0 {
                            u * cos - v * sin
                        } else {
                            u * sin + v * cos
                        };
                        assert_eq!(
                            at(i, j).to_bits(),
                            wanted.to_bits(),
                            "({i},{j}) by plan {number}, {method}"
                        );
                        pairs += 1;
                    } else {
                        let wanted = sum(i, j) * 2.0 + in_bias[j as usize] - (i * 64 + j) as f32;
                        assert_eq!(at(i, j), wanted, "({i},{j}) by plan {number}, {method}");
                        elements += 1;
                    }
                }
                if !is_rotated {
                    let again = again.download().expect("an output");
                    let negative = |at: usize| {
                        -found[of_c
                            .at((at as i64) / n + m * (at as i64 % n))
                            .expect("an offset") as usize]
                    };
                    assert!(
                        (0..again.len()).all(|at| again[at] == negative(at)),
                        "{method}"
                    );
                }
            }
        }
    }
    // In both orders of C by all plans but those of SIMT and GEMV and the one that swaps.
    assert!(pairs >= 24 * m * n, "{pairs} elements were rotated");
    println!("law epilogue.closure: {} elements", elements + pairs);
}

#[test]
fn what_suits_no_closure_gets_a_sentence() {
    let text = |built: Result<Epilogue, colex_gpu::Error>| built.unwrap_err().to_string();
    let factor = 3.0_f64;
    assert_eq!(
        text(Epilogue::new(Ty::F32, |e| {
            let x = e.accumulator();
            e.apply(
                "captures",
                1,
                Ty::F32,
                [x],
                move |_, [x], _| Ok(&x * factor),
            )
        })),
        "epilogue: the closure captures captures 8 bytes, of which its name says nothing: give them as arguments"
    );
    let twice = |version: u32| {
        Epilogue::new(Ty::F32, |e| {
            let x = e.accumulator();
            e.apply("twice", version, Ty::F32, [x], |_, [x], _| Ok(&x + &x))
        })
    };
    let first = twice(1).expect("an epilogue");
    assert_eq!(first, twice(1).expect("the same function"));
    assert_ne!(first, twice(2).expect("another version"));
    assert_eq!(
        text(Epilogue::new(Ty::F32, |e| {
            let x = e.accumulator();
            e.apply("twice", 1, Ty::F32, [x], |_, [x], _| Ok(&x * 2.0))
        })),
        "epilogue: the closure twice of version 1 is another function in this process: a name and a version stand for one"
    );
    let read = |text: &str| text.parse::<Epilogue>().unwrap_err().to_string();
    assert_eq!(
        read("(acc: f32, twice: closure f32) -> C { twice } twice: closure 7 { acc }"),
        "epilogue: the closure twice of version 7, of 1 arguments and f32, is no function of this process: build an epilogue with it \
         first"
    );
    assert_eq!(
        read("(acc: f32, twice: closure f32) -> C { twice }"),
        "epilogue: each closure among its inputs has its arguments behind the outputs, in that order"
    );
    assert_eq!(
        read("(acc: f32, twice: closure f32) -> C { twice } twice: closure 1 { twice }"),
        "epilogue: twice has input 1, which is not the epilogue's"
    );
    assert_eq!(
        first.evaluate(&[0]).unwrap_err().to_string(),
        "epilogue: the closure twice adds instructions to a kernel: the host does not evaluate it"
    );
    // What a closure returns.
    let device = Device::simulator(Arch::Sm80);
    let a = device.zeros::<f16>(64).expect("A");
    let view = a.view((8, 8)).expect("a view");
    let mut c = device.zeros::<f32>(64).expect("C");
    let of_c = c.view_mut((8, 8)).expect("a view");
    let said = |epilogue: Result<Epilogue, colex_gpu::Error>| {
        let epilogue = epilogue.expect("an epilogue");
        let error = Gemm::new(&view, &view, &of_c).epilogue(&epilogue).run();
        error.unwrap_err().to_string()
    };
    let why = said(Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator();
        e.apply("narrow", 1, Ty::F32, [x], |_, [x], _| {
            Ok(Expr::from(&x).to(Ty::F16))
        })
    }));
    assert!(
        why.ends_with("assign: f16 into elements of f32: `.to(Ty::F32)` converts"),
        "{why}"
    );
    let why = said(Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator();
        e.apply("refuses", 1, Ty::F32, [x], |_, _, _| {
            Err(colex_tensor::Error::new("refuses", "today it does nothing"))
        })
    }));
    assert!(why.ends_with("refuses: today it does nothing"), "{why}");
    // Coordinates of no matrix.
    let lower = Epilogue::new(Ty::F32, |e| {
        e.column().le(e.row()).select(e.accumulator(), 0.0)
    });
    let lower = lower.expect("an epilogue");
    assert_eq!(lower, lower.to_string().parse().expect("a text"));
    assert_eq!(
        lower.evaluate_at([0, -1], &[0]).unwrap_err().to_string(),
        "epilogue: the element (0,-1): coordinates of C are from 0 to 2147352575"
    );
    assert_eq!(
        read("(acc: f32, row: f32) -> C { add(acc, row) }"),
        "epilogue: row is of f32: a coordinate of C is an s32"
    );
}

/// Not all threads of a block come by a closure in every kernel: those that would wait for the others are refused when the kernel is
/// built.
#[test]
fn closures_do_not_meet_other_warps() {
    let barriers = ["all", "half", "cluster", "branch"];
    let said = |(arch, method): (Arch, GemmMethod), epilogue: &Epilogue| {
        let device = Device::simulator(arch);
        let a = device.zeros::<f16>(64 * 64).expect("A");
        let view = a.view((64, 64)).expect("a view");
        let mut c = device.zeros::<f32>(64 * 64).expect("C");
        let of_c = c.view_mut((64, 64)).expect("a view");
        let gemm = Gemm::new(&view, &view, &of_c)
            .epilogue(epilogue)
            .method(method);
        gemm.run().map_err(|error| error.to_string())
    };
    let kernels = [
        (Arch::Sm80, GemmMethod::Ampere),
        (Arch::Sm90a, GemmMethod::Hopper),
    ];
    for name in barriers {
        let epilogue = Epilogue::new(Ty::F32, |e| {
            let x = e.accumulator();
            match name {
                "all" => e.apply("meets_all", 1, Ty::F32, [x], |k, [x], _| {
                    k.sync();
                    Ok(x.into())
                }),
                "half" => e.apply("meets_half", 1, Ty::F32, [x], |k, [x], _| {
                    k.sync_named(&1.into(), 64);
                    Ok(x.into())
                }),
                "cluster" => e.apply("meets_cluster", 1, Ty::F32, [x], |k, [x], _| {
                    k.cluster_sync();
                    Ok(x.into())
                }),
                _ => e.apply("meets_branch", 1, Ty::F32, [x], |k, [x], _| {
                    let thread = k.thread();
                    let is_first = k.less(&thread, &32.into());
                    k.if_(is_first, |k| k.arrive_named(&1.into(), 64));
                    Ok(x.into())
                }),
            }
        });
        let epilogue = epilogue.expect("an epilogue");
        for kernel in kernels {
            let why = said(kernel, &epilogue).expect_err("it is refused");
            assert!(
                why.ends_with(&format!(
                    "the closure meets_{name} has a barrier, and some warps of a block never come by: a closure exchanges elements \
                     within a warp, and what takes the whole block is a kernel behind the product"
                )),
                "{kernel:?}: {why}"
            );
        }
    }
}

/// All lanes of a warp run a closure together in every kernel: it meets its warp, and takes a maximum over its lanes. Of one row, in
/// either order of the right factor, that is a GEMV, with K in a block or divided by a cluster.
#[test]
fn law_lanes_of_a_warp_run_a_closure_together() {
    let meets = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator();
        e.apply("meets_warp", 1, Ty::F32, [x], |k, [x], _| {
            k.emit(|ir| ir.warp_sync());
            Ok(x.into())
        })
    });
    // All elements of C are one number, and a tile has zeros beyond them. Lanes that share K all read what C held.
    let most = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator() + e.c(Ty::F32);
        let most = e.apply("most_of_a_warp", 1, Ty::F32, [x], |k, [x], _| {
            Ok(k.reduce_warp(BinaryOp::Max, &x).into())
        });
        e.output("negative", -&most);
        most
    });
    let epilogues = [meets, most].map(|epilogue| epilogue.expect("an epilogue"));
    let (n, k) = (24_i64, 32_i64);
    for (arch, method, m, along_k) in [
        (Arch::Sm70, GemmMethod::Simt, 40_i64, 1),
        (Arch::Sm70, GemmMethod::Volta, 40, 1),
        (Arch::Sm75, GemmMethod::Volta, 40, 1),
        (Arch::Sm80, GemmMethod::Ampere, 40, 1),
        (Arch::Sm80, GemmMethod::Gemv, 1, 1),
        (Arch::Sm90a, GemmMethod::Gemv, 2, 1),
        (Arch::Sm90a, GemmMethod::Gemv, 1, 2),
        (Arch::Sm90a, GemmMethod::Hopper, 40, 1),
    ] {
        let device = Device::simulator(arch);
        let ones = device.upload(&vec![f16::ONE; (m.max(n) * k) as usize]);
        let ones = ones.expect("ones");
        for (epilogue, strides) in epilogues
            .iter()
            .flat_map(|epilogue| [(k, 1), (1, n)].map(|strides| (epilogue, strides)))
        {
            let name = format!("{method} on {arch}, K divided by {along_k}, B by {strides:?}");
            let of_b = Layout::new((n, k), strides).expect("a layout");
            let mut c = device.upload(&vec![1_f32; (m * n) as usize]).expect("C");
            let mut negative = device.poisoned::<f32>((m * n) as usize).expect("an output");
            let has_output = epilogue.outputs().count() > 1;
            let wanted = k as f32 + if has_output { 1.0 } else { 0.0 };
            {
                let mut call = Gemm::new(
                    &View::new(&ones, Layout::new((m, k), (k, 1)).expect("a layout")).expect("A"),
                    &View::new(&ones, &of_b).expect("B"),
                    &c.view_mut((m, n)).expect("C"),
                )
                .epilogue(epilogue);
                if has_output {
                    call = call.output("negative", &negative.view_mut((m, n)).expect("a view"));
                }
                let call = call.prepare_with(|operands, _| {
                    let usual = GemmPlan::new(method, operands);
                    if along_k == 1 {
                        return Ok(usual);
                    }
                    // All threads of the blocks of a cluster share K.
                    let plan = GemmPlan {
                        cluster: [1, 1, along_k],
                        warps: [1, 1],
                        ..usual
                    };
                    let [_, n, k] = plan.steps();
                    Ok(GemmPlan {
                        tile: [1, n, k],
                        ..plan
                    })
                });
                let call = call.unwrap_or_else(|why| panic!("{name}: {why}"));
                call.run(&device)
                    .unwrap_or_else(|why| panic!("{name}: {why}"));
            }
            assert_eq!(
                c.download().expect("C"),
                vec![wanted; (m * n) as usize],
                "{name}"
            );
            if has_output {
                let wanted = vec![-wanted; (m * n) as usize];
                assert_eq!(negative.download().expect("an output"), wanted, "{name}");
            }
        }
    }
}

/// The model charges what a formula has beyond the scaled sum: given as an epilogue, that has the plan and the cost of the product
/// without one.
#[test]
fn a_scaled_sum_given_as_an_epilogue_costs_nothing_more() {
    fn costs<T: GemmElement, C: GemmElement>(sums: Ty) {
        for (arch, beta) in [(Arch::Sm80, 0.0), (Arch::Sm90a, 0.0), (Arch::Sm90a, 0.5)] {
            let device = Device::simulator(arch);
            let a = device.zeros::<T>(256 * 128).expect("A");
            let view = a.view((256, 128)).expect("a view");
            let mut c = device.zeros::<C>(256 * 256).expect("C");
            let of_c = c.view_mut((256, 256)).expect("a view");
            let scaled = Epilogue::scaled(sums, C::TY, beta != 0.0).expect("an epilogue");
            let gemm = Gemm::new(&view, &view, &of_c);
            let plain = gemm.clone().alpha(2.0).beta(beta).explain();
            let given = gemm.epilogue(&scaled).scalar("alpha", 2.0);
            let given = given.scalar("beta", beta).explain().expect("a plan");
            assert_eq!(given, plain.expect("a plan"), "{scaled} on {arch}");
        }
    }
    costs::<f16, f16>(Ty::F32);
    costs::<bf16, f32>(Ty::F32);
    costs::<f32, f32>(Ty::F32);
    costs::<f64, f64>(Ty::F64);
    costs::<i8, i32>(Ty::S32);
}

/// The scaled sum, given as an epilogue, is the kernel of the product without one, text for text.
#[test]
fn a_scaled_sum_given_as_an_epilogue_is_the_plain_kernel() {
    let mut cases = 0;
    for arch in [Arch::Sm70, Arch::Sm80, Arch::Sm90a] {
        let device = Device::simulator(arch);
        let a = device.zeros::<f16>(64 * 64).expect("A");
        let view = a.view((64, 64)).expect("a view");
        for beta in [0.0, 0.5] {
            let mut c = device.zeros::<f16>(64 * 64).expect("C");
            let of_c = c.view_mut((64, 64)).expect("a view");
            let plain = Gemm::new(&view, &view, &of_c).alpha(2.0).beta(beta);
            let plain = plain.prepare().expect("a plan");
            let scaled = Epilogue::scaled(Ty::F32, Ty::F16, beta != 0.0).expect("an epilogue");
            let given = Gemm::new(&view, &view, &of_c)
                .epilogue(&scaled)
                .scalar("alpha", 2.0)
                .scalar("beta", beta)
                .prepare()
                .expect("a plan");
            let text = |call: &colex_gpu::gemm::GemmCall<'_>| {
                let built = call.built().expect("a kernel");
                built.kernel.ptx().expect("a text")
            };
            assert_eq!(text(&plain), text(&given), "{arch} {beta}");
            cases += 1;
        }
    }
    println!("law epilogue.plain: {cases} cases");
}

/// A residual of the type and the order of C comes by TMA to where C is staged. One whose rows begin at no multiples of 16 bytes is
/// loaded by threads, and gives the same bits.
#[test]
fn a_residual_comes_to_where_c_is_staged() {
    let sum = Epilogue::new(Ty::F32, |e| {
        let [bias, residual] =
            ["bias", "residual"].map(|name| e.tensor(name, Ty::Bf16).to(Ty::F32));
        (e.accumulator() + bias + residual).to(Ty::Bf16)
    });
    let sum = sum.expect("an epilogue");
    // For a block by pingpong, two tiles of 64 by 32 and a third.
    let usual = [1272, 504];
    let number = |i: i64| bf16::from_f64(((i * 5 + i / 7) % 13) as f64 / 4.0 - 1.5);
    let numbers = |count: i64| -> Vec<bf16> { (0..count).map(number).collect() };
    let plans = [
        (Cooperative, [128, 64, 32], 2, [2, 1, 1], false, usual),
        (Cooperative, [64, 96, 16], 1, [1, 1, 1], true, usual),
        (Pingpong, [64, 32, 16], 1, [1, 1, 1], false, usual),
        (Pingpong, [64, 32, 16], 1, [2, 1, 1], true, usual),
        // 192 accumulators of a thread, and more parts than buffers.
        (Pingpong, [128, 192, 16], 1, [2, 1, 1], false, usual),
        // Seven parts in four buffers and three in three, by blocks of two tiles and of three.
        (Cooperative, [64, 224, 16], 1, [1, 1, 1], false, [8968, 224]),
        (Cooperative, [64, 96, 16], 1, [1, 1, 1], false, [17000, 96]),
    ];
    let mut cases = 0;
    for (first, plan) in plans.into_iter().enumerate() {
        let (schedule, tile, groups, cluster, swap, [m, n]) = plan;
        let k = 24_i64;
        let majors = [Major::Second, Major::First].into_iter().enumerate();
        for (_, major) in majors.filter(|(i, _)| takes(2, first + i)) {
            let run = |apart: i64| {
                let order = colex_sim::Schedule::from_seed(cases);
                let options = SimOptions::default().schedule(order);
                let device = Device::simulator_with(Arch::Sm90a, options);
                let upload = |count| device.upload(&numbers(count)).expect("memory");
                let (a, b, bias) = (upload(m * k), upload(n * k), upload(n));
                let mut c = device.poisoned::<bf16>((m * n) as usize).expect("C");
                let strides = |apart: i64| match major {
                    Major::Second => (n + apart, 1),
                    Major::First => (1, m + apart),
                };
                let layout = |apart| Layout::new((m, n), strides(apart)).expect("a layout");
                let (lies, cosize) = (layout(apart), (m + apart) * (n + apart));
                let mut old = vec![bf16::ZERO; cosize as usize];
                for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    let (along_m, along_n) = strides(apart);
                    old[(i * along_m + j * along_n) as usize] = number(3 * i + j * j);
                }
                let old = device.upload(&old).expect("memory");
                let (of_a, of_b) = (a.view((m, k)).expect("A"), b.view((n, k)).expect("B"));
                let of_c = ViewMut::new(&mut c, layout(0)).expect("C");
                let bias = View::new(&bias, Layout::new((m, n), (0, 1)).expect("a layout"));
                let residual = View::new(&old, lies).expect("it fits");
                let call = Gemm::new(&of_a, &of_b, &of_c)
                    .epilogue(&sum)
                    .tensor("bias", &bias.expect("it fits"))
                    .tensor("residual", &residual)
                    .prepare_with(|operands, _| {
                        Ok(GemmPlan {
                            tile,
                            warps: [groups, 1],
                            schedule,
                            cluster,
                            swap,
                            stages: 3,
                            ..GemmPlan::new(GemmMethod::Hopper, operands)
                        })
                    });
                let call = call.unwrap_or_else(|why| panic!("{tile:?}: {why}"));
                call.run(&device)
                    .unwrap_or_else(|why| panic!("{call}: {why}"));
                let text = call
                    .built()
                    .expect("a kernel")
                    .kernel
                    .ptx()
                    .expect("a text");
                let bits: Vec<u16> = (c.download().expect("C").iter())
                    .map(|x| x.to_bits())
                    .collect();
                let is_behind = text.contains("cp.async.bulk.wait_group.read 1;")
                    && text.contains("cp.async.bulk.wait_group.read 2;");
                (
                    bits,
                    text.matches("cp.async.bulk.tensor.2d.shared").count(),
                    is_behind,
                )
            };
            let ((by_map, loads, waits), (by_threads, fewer, _)) = (run(8), run(4));
            assert!(loads > fewer, "{tile:?}: {loads} loads by TMA, and {fewer}");
            // A load that does not wait for the store just before it.
            assert_eq!(waits, tile[1] > 64, "{tile:?}");
            assert!(by_map == by_threads, "{tile:?}, {schedule:?}, {major:?}");
            let at = (m * n / 2) as usize;
            assert_ne!(by_map[at..at + 64], [0; 64]);
            cases += 1;
        }
    }
    println!("law epilogue.residual: {cases} cases");
}

/// Tiles of 192 accumulators of a thread, of which each consumer takes one, have the bits of tiles of 32: the plain product, and bias
/// with GELU.
#[test]
fn consumers_of_192_accumulators_store_what_others_store() {
    let gelu = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator() + e.tensor("bias", Ty::Bf16).to(Ty::F32);
        x.gelu().to(Ty::Bf16)
    });
    let gelu = gelu.expect("an epilogue");
    let number = |i: i64| bf16::from_f64(((i * 5 + i / 7) % 13) as f64 / 4.0 - 1.5);
    let numbers = |count: i64| -> Vec<bf16> { (0..count).map(number).collect() };
    let k = 40;
    let mut cases = 0;
    for (tile, cluster) in [([128, 192, 16], [1, 1, 1]), ([192, 128, 16], [1, 2, 1])] {
        // Two blocks, or a cluster of two, have a tile for their second consumer.
        let (m, n) = (67 * tile[0] - 8, 2 * tile[1] - 8);
        let epilogues = [None, Some(&gelu)].into_iter().enumerate();
        let is_first = usize::from(cluster == [1; 3]);
        for (_, epilogue) in epilogues.filter(|(i, _)| takes(2, is_first + i)) {
            let run = |tile: [i64; 3], schedule, cluster| {
                let order = colex_sim::Schedule::from_seed(cases);
                let device =
                    Device::simulator_with(Arch::Sm90a, SimOptions::default().schedule(order));
                let upload = |count| device.upload(&numbers(count)).expect("memory");
                let (a, b, bias) = (upload(m * k), upload(n * k), upload(n));
                let mut c = device.poisoned::<bf16>((m * n) as usize).expect("C");
                let (of_a, of_b) = (a.view((m, k)).expect("A"), b.view((n, k)).expect("B"));
                let of_c = c.view_mut((m, n)).expect("C");
                let columns = Layout::new((m, n), (0, 1)).expect("a layout");
                let bias = View::new(&bias, columns).expect("it fits");
                let mut gemm = Gemm::new(&of_a, &of_b, &of_c);
                if let Some(epilogue) = epilogue {
                    gemm = gemm.epilogue(epilogue).tensor("bias", &bias);
                }
                let call = gemm.prepare_with(|operands, _| {
                    Ok(GemmPlan {
                        tile,
                        warps: [1, 1],
                        schedule,
                        cluster,
                        stages: 3,
                        ..GemmPlan::new(GemmMethod::Hopper, operands)
                    })
                });
                let call = call.unwrap_or_else(|why| panic!("{tile:?}: {why}"));
                call.run(&device)
                    .unwrap_or_else(|why| panic!("{call}: {why}"));
                let c = c.download().expect("C");
                c.iter().map(|x| x.to_bits()).collect::<Vec<u16>>()
            };
            let found = run(tile, Pingpong, cluster);
            assert!(
                found == run([64, 64, 16], Cooperative, [1, 1, 1]),
                "{tile:?}"
            );
            cases += 1;
        }
    }
    println!("law epilogue.sums_of_192: {cases} cases");
}

/// Another address of a tensor takes the kernel and the plan that are there.
#[test]
fn a_call_with_another_bias_builds_nothing() {
    let device = Device::simulator(Arch::Sm80);
    let epilogue = Epilogue::new(Ty::F32, |e| e.accumulator() + e.tensor("bias", Ty::F32));
    let epilogue = epilogue.expect("an epilogue");
    let a = device.upload(&[1f32; 64]).expect("A");
    let view = a.view((8, 8)).expect("a view");
    let mut kernels = Vec::new();
    for number in [1f32, 5.0] {
        let bias = device.upload(&[number; 8]).expect("a bias");
        let bias = View::new(&bias, "(8,8):(0,1)").expect("a view");
        let mut c = device.poisoned::<f32>(64).expect("C");
        let call = Gemm::new(&view, &view, &c.view_mut((8, 8)).expect("a view"))
            .epilogue(&epilogue)
            .tensor("bias", &bias)
            .prepare()
            .expect("a plan");
        kernels.push(std::ptr::from_ref(call.built().expect("a kernel")) as usize);
        call.run(&device).expect("a run");
        drop(call);
        assert_eq!(c.download().expect("C"), [8.0 + number; 64]);
    }
    assert_eq!(kernels[0], kernels[1]);
}

/// K of 0, and shapes without elements.
#[test]
fn epilogues_of_empty_products() {
    let device = Device::simulator(Arch::Sm80);
    let epilogue = Epilogue::new(Ty::F32, |e| {
        e.accumulator() + e.tensor("bias", Ty::F32) * 2.0
    });
    let epilogue = epilogue.expect("an epilogue");
    let a = device.upload(&[1f32; 64]).expect("A");
    let bias = View::new(&a, "(4,8):(0,1)").expect("a view");
    let mut c = device.poisoned::<f32>(32).expect("C");
    let (x, y) = (
        a.view((4, 0)).expect("a view"),
        a.view((8, 0)).expect("a view"),
    );
    Gemm::new(&x, &y, &c.view_mut((4, 8)).expect("a view"))
        .epilogue(&epilogue)
        .tensor("bias", &bias)
        .run()
        .expect("a run");
    assert_eq!(c.download().expect("C"), [2.0; 32]);
    let none = a.view((0, 8)).expect("a view");
    Gemm::new(
        &a.view((0, 8)).expect("a view"),
        &a.view((8, 8)).expect("a view"),
        &c.view_mut((0, 8)).expect("a view"),
    )
    .epilogue(&epilogue)
    .tensor("bias", &none)
    .run()
    .expect("nothing to do");
}

/// The host evaluates an epilogue of as many numbers as it has inputs.
#[test]
fn the_host_is_given_one_number_for_each_input() {
    let said = |given: Result<Vec<u64>, colex_gpu::Error>| given.unwrap_err().to_string();
    let scaled = Epilogue::scaled(Ty::F32, Ty::F32, false).expect("an epilogue");
    for (given, count) in [
        (2, "2 numbers"),
        (4, "4 numbers"),
        (1, "1 number"),
        (0, "0 numbers"),
    ] {
        assert_eq!(
            said(scaled.evaluate(&vec![0; given])),
            format!(
                "epilogue: `evaluate` is given {count}, and its inputs are acc, alpha and beta: each has one, in this order"
            )
        );
    }
    let lower = Epilogue::new(Ty::F32, |e| {
        let scale = e.scalar("s", Ty::F32);
        e.column().le(e.row()).select(e.accumulator() * scale, 0.0)
    });
    let lower = lower.expect("an epilogue");
    for (given, count) in [(1, "1 number"), (3, "3 numbers")] {
        assert_eq!(
            said(lower.evaluate_at([0, 0], &vec![0; given])),
            format!(
                "epilogue: `evaluate_at` is given {count}, and its inputs are acc and s: each has one, in this order"
            )
        );
    }
    assert_eq!(lower.evaluate_at([0, 0], &[0, 0]).expect("a number"), [0]);
}

#[test]
fn what_suits_no_epilogue_gets_a_sentence() {
    let device = Device::simulator(Arch::Sm80);
    let refused = |accumulator: Ty, build: fn(&mut EpilogueBuilder) -> Expr| {
        Epilogue::new(accumulator, build).unwrap_err().to_string()
    };
    assert_eq!(
        refused(Ty::F16, |e| e.accumulator()),
        "epilogue: no product has accumulators of f16: they are f32, f64 or s32"
    );
    assert_eq!(
        refused(Ty::F32, |e| e.accumulator()
            * e.scalar("s", Ty::F16).to(Ty::F32)),
        "epilogue: the scalar s is of f16: a launch passes f32, f64 and s32, and `.to` converts"
    );
    assert_eq!(
        refused(Ty::F32, |e| e.accumulator()
            + e.tensor("b", Ty::F32)
            + e.scalar("b", Ty::F32)),
        "epilogue: `b` names two inputs or outputs: each has its own name"
    );
    assert_eq!(
        refused(Ty::F32, |e| e.accumulator() + e.tensor("acc", Ty::F32)),
        "epilogue: `acc` has a meaning in every epilogue: take another name"
    );
    assert_eq!(
        refused(Ty::F32, |e| e.accumulator() + e.tensor("a b", Ty::F32)),
        "epilogue: `a b` is no name of an input or output: letters, digits and `_` are, without `_extent_` and `_stride_`"
    );
    assert_eq!(
        refused(Ty::F32, |e| {
            e.tensor("bits", Ty::S4);
            e.accumulator()
        }),
        "epilogue: bits has elements of s4: those of an epilogue are floats and integers of 8 to 64 bits"
    );
    assert_eq!(
        refused(Ty::F32, |e| (e.c(Ty::F16).to(Ty::F32) + e.accumulator())
            .to(Ty::Bf16)),
        "epilogue: C is read as f16 and written as bf16: it has one type"
    );
    // An input of another builder, which has the number and the type of one of its own.
    let mut foreign = None;
    let other = Epilogue::new(Ty::F32, |e| {
        foreign = Some(e.tensor("bias", Ty::F32));
        e.accumulator()
    });
    other.expect("an epilogue");
    let foreign = foreign.expect("an expression");
    let with = |of: &dyn Fn(&mut EpilogueBuilder, Expr) -> Expr| {
        let built = Epilogue::new(Ty::F32, |e| {
            let scale = e.tensor("scale", Ty::F32);
            of(e, scale)
        });
        built.unwrap_err().to_string()
    };
    let sentence = |name: &str| {
        format!(
            "epilogue: {name} takes an input of another epilogue: each epilogue takes those of its own builder"
        )
    };
    assert_eq!(
        with(&|e, scale| e.accumulator() * scale + &foreign),
        sentence("C")
    );
    assert_eq!(
        with(&|e, scale| {
            e.row_sums("sums", foreign.clone());
            e.accumulator() * scale
        }),
        sentence("sums")
    );
    assert_eq!(
        with(&|e, scale| {
            e.output("again", foreign.clone());
            e.accumulator() * scale
        }),
        sentence("again")
    );
    assert_eq!(
        with(&|e, scale| {
            e.apply("foreign", 1, Ty::F32, [foreign.clone()], |_, [x], _| {
                Ok(x.into())
            }) * scale
        }),
        sentence("foreign")
    );
    // A number says the place of an input of the epilogue that takes it.
    let by_number = Epilogue::new(Ty::F32, |e| {
        e.tensor("bias", Ty::F32);
        Expr::input(0, Ty::F32) + Expr::input(1, Ty::F32)
    });
    let by_name = Epilogue::new(Ty::F32, |e| e.accumulator() + e.tensor("bias", Ty::F32));
    assert_eq!(
        by_number.expect("an epilogue"),
        by_name.expect("an epilogue")
    );
    let read = |text: &str| text.parse::<Epilogue>().unwrap_err().to_string();
    for (twice, name) in [
        ("c: f32, c: f32", "c"),
        ("c: f32, c: f16", "c"),
        ("acc2: f32, acc2: f32", "acc2"),
        ("row: s32, row: s32", "row"),
        ("column: s32, b: tensor f32, column: s32", "column"),
    ] {
        assert_eq!(
            read(&format!("(acc: f32, {twice}) -> C {{ acc }}")),
            format!("epilogue: `{name}` stands twice among the inputs: each stands once")
        );
    }
    assert_eq!(
        read("acc + 1"),
        "epilogue: `acc + 1`: an epilogue is written as `(acc: f32, bias: tensor f32) -> C { add(acc, bias) }`"
    );
    assert_eq!(
        read("(acc: f31) -> C { acc }"),
        "epilogue: `acc: f31`: there is no type f31"
    );
    // What a call gives.
    let epilogue = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator() * e.scalar("s", Ty::F32) + e.tensor("bias", Ty::F32);
        e.output("before", x.clone());
        x.relu().to(Ty::F16)
    });
    let epilogue = epilogue.expect("an epilogue");
    let a = device.zeros::<f16>(64).expect("A");
    let bias = device.zeros::<f32>(64).expect("a bias");
    let halves = device.zeros::<f16>(64).expect("halves");
    let mut before = device.zeros::<f32>(64).expect("an output");
    let mut c = device.zeros::<f16>(64).expect("C");
    let view = a.view((8, 8)).expect("a view");
    let c_memory = c.clone();
    let of_c = c.view_mut((8, 8)).expect("a view");
    let of_before = before.view_mut((8, 8)).expect("a view");
    let of_bias = View::new(&bias, "(8,8):(0,1)").expect("a view");
    let plain = Gemm::new(&view, &view, &of_c);
    let given = plain.clone().epilogue(&epilogue).scalar("s", 1.0);
    let whole = given
        .clone()
        .tensor("bias", &of_bias)
        .output("before", &of_before);
    whole.run().expect("all of it is there");
    let said = |gemm: &Gemm<'_, f16, f16>| {
        let error = gemm.prepare().unwrap_err();
        assert_eq!(gemm.run().unwrap_err().to_string(), error.to_string());
        assert!(error.is_epilogue_refused() || error.is_overlap(), "{error}");
        error.to_string()
    };
    assert_eq!(
        said(&plain.clone().tensor("bias", &of_bias)),
        "epilogue: the call gives bias, and has no epilogue: `.epilogue(&epilogue)` sets it"
    );
    assert_eq!(
        said(&given),
        "epilogue: it reads the tensor bias, which the call does not give: `.tensor(\"bias\", &view)` does"
    );
    assert_eq!(
        said(&given.clone().tensor("bias", &of_bias)),
        "epilogue: it writes the output before, which the call does not give: `.output(\"before\", &view)` does"
    );
    assert_eq!(
        said(&plain.clone().epilogue(&epilogue)),
        "epilogue: it reads the scalar s, which the call does not give: `.scalar(\"s\", ..)` does"
    );
    assert_eq!(
        said(&whole.clone().tensor("mask", &of_bias)),
        "epilogue: it has no tensor mask: its tensors are bias"
    );
    assert_eq!(
        said(&whole.clone().alpha(2.0)),
        "epilogue: alpha is 2 and beta 0, which are of products without an epilogue: give it scalars in their place"
    );
    assert_eq!(
        said(&whole.clone().scalar("s", 1e300)),
        "epilogue: the scalar s is of f32, which does not hold 1e300"
    );
    assert_eq!(
        said(&whole.clone().scalar("s", 1e-60)),
        "epilogue: the scalar s is of f32, which does not hold 1e-60"
    );
    let wrong = halves.view((8, 8)).expect("a view");
    assert_eq!(
        said(&whole.clone().tensor("bias", &wrong)),
        "epilogue: bias is of f32, and the call gives elements of f16: those of f32 are f32"
    );
    let wrong = bias.view((8, 4)).expect("a view");
    assert_eq!(
        said(&whole.clone().tensor("bias", &wrong)),
        "epilogue: bias has the shape (8,4), and the product (8,8): a tensor of the epilogue has a layout of that shape, of \
         stride 0 where its elements do not change"
    );
    for (sums, c) in [(Ty::F16, Ty::F16), (Ty::F32, Ty::S4)] {
        let refused = Epilogue::scaled(sums, c, false);
        assert!(refused.is_err(), "{sums} to {c} has no epilogue");
    }
    let integers = Epilogue::scaled(Ty::S32, Ty::S32, false).expect("an epilogue");
    assert_eq!(
        said(&plain.clone().epilogue(&integers)),
        "epilogue: its accumulators are s32, and those of the product f32"
    );
    let floats = Epilogue::scaled(Ty::F32, Ty::F32, false).expect("an epilogue");
    assert_eq!(
        said(&plain.clone().epilogue(&floats)),
        "epilogue: its C is of f32, and that of the call of f16"
    );
    let aliased = whole.clone().tensor("bias", &*of_before);
    let why = said(&aliased);
    assert!(why.starts_with("before lies at "), "{why}");
    assert!(
        why.ends_with("a kernel's output must not overlap what it reads or writes, from the first element to the last"),
        "{why}"
    );
    // Outputs that lie where another matrix does.
    let mut other = device.zeros::<f32>(64).expect("another");
    let pair = Epilogue::new(Ty::F32, |e| {
        e.output("first", e.accumulator());
        e.output("second", -e.accumulator());
        e.accumulator().to(Ty::F16)
    });
    let pair = pair.expect("an epilogue");
    let mut again = other.clone();
    let (first, second) = (
        other.view_mut((8, 8)).expect("a view"),
        again.view_mut((8, 8)).expect("a view"),
    );
    let both = plain.clone().epilogue(&pair).output("first", &first);
    let why = said(&both.output("second", &second));
    assert!(
        why.starts_with("second lies at ")
            && why.contains("first")
            && why.ends_with("a kernel's output must not overlap what it reads or writes, from the first element to the last"),
        "{why}"
    );
    // Columns in turn share no element, and lie between the same ends.
    let mut wide = device.zeros::<f32>(128).expect("both");
    let mut again = wide.slice(1..).expect("what lies behind the first");
    let even = ViewMut::new(&mut wide, "(8,8):(16,2)").expect("a view");
    let odd = ViewMut::new(&mut again, "(8,8):(16,2)").expect("a view");
    let both = plain.clone().epilogue(&pair).output("first", &even);
    let why = said(&both.output("second", &odd));
    assert!(
        why.starts_with("second lies at ")
            && why.ends_with(
                "must not overlap what it reads or writes, from the first element to the last"
            ),
        "{why}"
    );
    let halves = Epilogue::new(Ty::F32, |e| {
        e.output("half", e.accumulator().to(Ty::F16));
        e.accumulator().to(Ty::F16)
    });
    let halves = halves.expect("an epilogue");
    for (name, memory) in [("A", a.clone()), ("C", c_memory)] {
        let mut memory = memory;
        let half = memory.view_mut((8, 8)).expect("a view");
        let why = said(&plain.clone().epilogue(&halves).output("half", &half));
        let place = format!(" {name} at ");
        assert!(
            why.starts_with("half lies at ") && why.contains(&place),
            "{name}: {why}"
        );
    }
    let twice = ViewMut::new(&mut before, "(8,8):(0,1)").expect("a view");
    assert_eq!(
        given
            .tensor("bias", &of_bias)
            .output("before", &twice)
            .run()
            .unwrap_err()
            .to_string(),
        "the destination (8,8):(0,1) has one element at several coordinates: which value stays would be a race"
    );
}

/// The bits of a sum are those of the host's order, and so those of every other plan.
#[test]
fn law_reductions_of_an_epilogue_have_the_bits_of_their_order() {
    let sums = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator() * e.scalar("third", Ty::F32);
        e.row_sums("rows", x.clone());
        e.column_sums("columns", x.clone());
        e.row_maxima("most", x.abs());
        x
    });
    let sums = sums.expect("an epilogue");
    let (m, n, depth) = (70, 150, 24);
    let mut found: Vec<[Vec<u32>; 4]> = Vec::new();
    let plans = [
        (Arch::Sm70, GemmMethod::Simt, [32, 32, 8], [8, 8]),
        (Arch::Sm70, GemmMethod::Volta, [32, 64, 16], [2, 2]),
        (Arch::Sm80, GemmMethod::Ampere, [32, 32, 64], [2, 2]),
        (Arch::Sm90a, GemmMethod::Hopper, [64, 32, 16], [1, 1]),
        (Arch::Sm90a, GemmMethod::Hopper, [128, 64, 16], [2, 1]),
    ];
    for (arch, method, tile, warps) in plans {
        let device = Device::simulator(arch);
        let number = |i: i64, by: i64| f16::from_f32(((i * by) % 31 - 15) as f32);
        let a: Vec<f16> = (0..m * depth).map(|i| number(i, 7)).collect();
        let b: Vec<f16> = (0..n * depth).map(|i| number(i, 11)).collect();
        let (a, b) = (device.upload(&a).expect("A"), device.upload(&b).expect("B"));
        let of = |count: i64| device.poisoned::<f32>(count as usize).expect("memory");
        let (mut c, mut rows, mut columns, mut most) = (of(m * n), of(m), of(n), of(m));
        let (x, y) = (a.view((m, depth)), b.view((n, depth)));
        let (x, y) = (x.expect("a view"), y.expect("a view"));
        let of_c = c.view_mut((m, n)).expect("a view");
        let call = Gemm::new(&x, &y, &of_c)
            .epilogue(&sums)
            .scalar("third", 1.0 / 3.0)
            .output("rows", &rows.view_mut(m).expect("a view"))
            .output("columns", &columns.view_mut(n).expect("a view"))
            .output("most", &most.view_mut(m).expect("a view"))
            .prepare_with(|operands, _| {
                Ok(GemmPlan {
                    tile,
                    warps,
                    cluster: [1; 3],
                    stages: 2,
                    ..GemmPlan::new(method, operands)
                })
            })
            .expect("a plan");
        // The product, and one reduction for each vector: C has the elements of the sums, and the product stores those of `most`.
        assert_eq!(call.profile(&device).expect("a run").len(), 4, "{call}");
        drop((call, of_c));
        let bits = |buffer: &colex_gpu::Buffer<f32>| -> Vec<u32> {
            let all = buffer.download().expect("numbers");
            all.into_iter().map(f32::to_bits).collect()
        };
        found.push([bits(&c), bits(&rows), bits(&columns), bits(&most)]);
    }
    for [c, rows, columns, most] in &found {
        let word = |at: usize| u64::from(c[at]);
        let [of_rows, of_columns, of_most] = [0, 1, 2].map(|i| sums.reductions().nth(i));
        let wanted = |of: Option<&EpilogueReduction>, own: Vec<u64>| {
            let of = of.expect("a vector");
            of.evaluate(&own).expect("a number") as u32
        };
        let (m, n) = (m as usize, n as usize);
        for i in 0..m {
            let row: Vec<u64> = (0..n).map(|j| word(i * n + j)).collect();
            assert_eq!(rows[i], wanted(of_rows, row.clone()), "row {i}");
            let row = row.into_iter().map(|x| x & 0x7fff_ffff).collect();
            assert_eq!(most[i], wanted(of_most, row), "most {i}");
        }
        for (j, found) in columns.iter().enumerate() {
            let column = (0..m).map(|i| word(i * n + j)).collect();
            assert_eq!(*found, wanted(of_columns, column), "column {j}");
        }
    }
    assert!(found.iter().all(|one| *one == found[0]));
    println!("law epilogue.reductions: {} plans", found.len());
}

#[test]
fn what_suits_no_vector_of_an_epilogue_gets_a_sentence() {
    let refused = |build: fn(&mut EpilogueBuilder) -> Expr| {
        Epilogue::new(Ty::F32, build).unwrap_err().to_string()
    };
    assert_eq!(
        refused(|e| {
            e.row_sums("sums", e.accumulator().to(Ty::Bf16));
            e.accumulator()
        }),
        "epilogue: sums has row sums of bf16: sums and maxima are of f32, f64 and s32, and `.to` converts"
    );
    assert_eq!(
        refused(|e| {
            e.output("twice", e.accumulator());
            e.column_maxima("twice", e.accumulator());
            e.accumulator()
        }),
        "epilogue: `twice` names two inputs or outputs: each has its own name"
    );
    let read = |text: &str| text.parse::<Epilogue>().unwrap_err().to_string();
    assert_eq!(
        read("(acc: f32) -> C { acc } sums: row products { acc }"),
        "epilogue: `row products`: a vector has row sums, row maxima, column sums or column maxima"
    );
    assert_eq!(
        read("(acc: f32) -> C { acc } sums: row sums { acc } before { acc }"),
        "epilogue: `before { acc }`: an epilogue is written as `(acc: f32, bias: tensor f32) -> C { add(acc, bias) }`"
    );
    let device = Device::simulator(Arch::Sm80);
    let sums = Epilogue::new(Ty::F32, |e| {
        e.row_sums("sums", e.accumulator());
        e.accumulator()
    });
    let sums = sums.expect("an epilogue");
    let a = device.zeros::<f32>(64).expect("A");
    let mut c = device.zeros::<f32>(32).expect("C");
    let (x, y) = (a.view((4, 8)), a.view((8, 8)));
    let (x, y) = (x.expect("a view"), y.expect("a view"));
    let mut same = c.clone();
    let of_c = c.view_mut((4, 8)).expect("a view");
    let product = Gemm::new(&x, &y, &of_c).epilogue(&sums);
    let said = |gemm: &Gemm<'_, f32, f32>| {
        let error = gemm.prepare().unwrap_err();
        assert_eq!(gemm.run().unwrap_err().to_string(), error.to_string());
        error.to_string()
    };
    assert_eq!(
        said(&product),
        "epilogue: it has row sums in sums, which the call does not give: `.output(\"sums\", &view)` does"
    );
    let mut long = device.zeros::<f32>(8).expect("a vector");
    assert_eq!(
        said(
            &product
                .clone()
                .output("sums", &long.view_mut(8).expect("a view"))
        ),
        "epilogue: sums has the shape 8, and the row sums of the product the shape (4)"
    );
    let mut integers = device.zeros::<i32>(4).expect("a vector");
    let integers = integers.view_mut(4).expect("a view");
    assert_eq!(
        said(&product.clone().output("sums", &integers)),
        "epilogue: sums is of f32, and the call gives elements of i32: those of f32 are f32"
    );
    let one = ViewMut::new(&mut long, "4:0").expect("a view");
    assert_eq!(
        said(&product.clone().output("sums", &one)),
        "the destination 4:0 has one element at several coordinates: which value stays would be a race"
    );
    let why = said(
        &product
            .clone()
            .output("sums", &same.view_mut((32, 1)).expect("a view")),
    );
    assert_eq!(
        why,
        "epilogue: sums has the shape (32,1), and the row sums of the product the shape (4)"
    );
    let part = ViewMut::new(&mut same, "4:1").expect("a view");
    let why = said(&product.clone().output("sums", &part));
    assert!(
        why.starts_with("sums lies at ") && why.contains(" C at "),
        "{why}"
    );
    // The largest of no elements.
    let most = "(acc: f32) -> C { acc } most: row maxima { acc }".parse::<Epilogue>();
    let most = most.expect("an epilogue");
    let none = a.view((0, 8)).expect("a view");
    let mut empty = device.zeros::<f32>(0).expect("C");
    let of_empty = empty.view_mut((4, 0)).expect("a view");
    let mut four = device.zeros::<f32>(4).expect("a vector");
    let four = four.view_mut(4).expect("a view");
    assert_eq!(
        said(
            &Gemm::new(&x, &none, &of_empty)
                .epilogue(&most)
                .output("most", &four)
        ),
        "epilogue: most has row maxima of 0 elements each: none of them is the largest"
    );
    product.output("sums", &four).run().expect("a run");
}

/// The sums of a product without rows or columns are those of nothing: the gradient of a bias of no tokens is 0.
#[test]
fn sums_of_no_elements_fill_their_vectors() {
    for arch in [Arch::Sm70, Arch::Sm80, Arch::Sm90a] {
        let device = Device::simulator(arch);
        let a = device.zeros::<f32>(64).expect("A");
        let integers = device.zeros::<i8>(64).expect("A");
        let bits = |of: &colex_gpu::Buffer<f32>| -> Vec<u32> {
            let all = of.download().expect("a vector");
            all.into_iter().map(f32::to_bits).collect()
        };
        let nothing = (-0.0_f32).to_bits();
        let columns = "(acc: f32) -> C { acc } bias: column sums { acc } more: row sums { acc }";
        let columns = columns.parse::<Epilogue>().expect("an epilogue");
        let one = columns.reductions().next().expect("a vector");
        assert_eq!(one.evaluate(&[]).expect("a sum"), u64::from(nothing));
        // No rows, a column in between that is not the vector's, and no rows of two products.
        let (mut c, mut none) = (
            device.zeros::<f32>(0).expect("C"),
            device.zeros::<f32>(0).expect("a vector"),
        );
        let mut bias = device.upload(&[7_f32; 16]).expect("a vector");
        let call = Gemm::new(
            &a.view((0, 8)).expect("A"),
            &a.view((8, 8)).expect("B"),
            &c.view_mut((0, 8)).expect("C"),
        )
        .epilogue(&columns)
        .output("bias", &ViewMut::new(&mut bias, "8:2").expect("a vector"))
        .output("more", &none.view_mut(0).expect("a vector"))
        .prepare()
        .expect("a call");
        assert_eq!(call.to_string(), "a sum of no elements");
        assert_eq!(call.profile(&device).expect("a run").len(), 1);
        call.run(&device).expect("a run");
        assert!(call.plan().is_none());
        drop(call);
        for (at, found) in bits(&bias).into_iter().enumerate() {
            let wanted = if at % 2 == 0 {
                nothing
            } else {
                7_f32.to_bits()
            };
            assert_eq!(found, wanted, "{at} on {arch}");
        }
        // No columns: both rows of two products.
        let rows = "(acc: s32) -> C { acc } sums: row sums { acc }".parse::<Epilogue>();
        let mut c = device.zeros::<i32>(0).expect("C");
        let mut sums = device.upload(&[7_i32; 4]).expect("a vector");
        Gemm::new(
            &View::new(&integers, "(2,16,2):(16,1,32)").expect("A"),
            &integers.view((0, 16, 2)).expect("B"),
            &c.view_mut((2, 0, 2)).expect("C"),
        )
        .epilogue(&rows.expect("an epilogue"))
        .output("sums", &sums.view_mut((2, 2)).expect("a vector"))
        .run()
        .expect("a run");
        assert_eq!(sums.download().expect("a vector"), [0; 4]);
    }
}

/// Two right factors: K of 0, and factors that are packed together.
#[test]
fn gated_products_without_k_and_with_packed_factors() {
    let gate = Epilogue::new(Ty::F32, |e| {
        let second = e.second_accumulator();
        e.accumulator() * second + e.tensor("more", Ty::F32)
    });
    let gate = gate.expect("an epilogue");
    for arch in [Arch::Sm70, Arch::Sm80, Arch::Sm90a] {
        let device = Device::simulator(arch);
        let count = |i: usize| f16::from_f32((i % 5) as f32);
        let elements: Vec<f16> = (0..1024).map(count).collect();
        let memory = device.upload(&elements).expect("memory");
        let one = device.upload(&[1f32]).expect("one");
        let more = View::new(&one, "(8,16):(0,0)").expect("a view");
        let mut c = device.poisoned::<f32>(8 * 16).expect("C");
        let of_c = c.view_mut((8, 16)).expect("a view");
        let none = memory.view((8, 0)).expect("a view");
        let nothing = memory.view((16, 0)).expect("a view");
        Gemm::new(&none, &nothing, &of_c)
            .b2(&nothing)
            .epilogue(&gate)
            .tensor("more", &more)
            .run()
            .expect("a run");
        drop(of_c);
        assert_eq!(c.download().expect("C"), [1.0; 8 * 16]);
        // No stride of the right factors is 1.
        let of_c = c.view_mut((8, 16)).expect("a view");
        let a = memory.view((8, 8)).expect("a view");
        let behind = memory.slice(1..).expect("a slice");
        let first = View::new(&memory, "(16,8):(32,2)").expect("a view");
        let second = View::new(&behind, "(16,8):(32,2)").expect("a view");
        let call = Gemm::new(&a, &first, &of_c)
            .b2(&second)
            .epilogue(&gate)
            .tensor("more", &more)
            .prepare()
            .expect("a plan");
        let names: Vec<&str> = call.packed().map(|(name, _)| name).collect();
        assert_eq!(names, ["B", "B2"], "{call}");
        call.run(&device).expect("a run");
        drop((call, of_c));
        let found = c.download().expect("C");
        for (at, found) in found.into_iter().enumerate() {
            let (m, n) = (at / 16, at % 16);
            let sum = |from: usize| -> f32 {
                let term = |l: usize| {
                    let [x, y] = [elements[8 * m + l], elements[from + 32 * n + 2 * l]];
                    x.to_f32() * y.to_f32()
                };
                (0..8).map(term).sum()
            };
            assert_eq!(found, sum(0) * sum(1) + 1.0, "{arch}, ({m},{n})");
        }
    }
}

#[test]
fn what_suits_no_second_factor_gets_a_sentence() {
    let refused = "(acc: f32, acc2: f64) -> C { acc }"
        .parse::<Epilogue>()
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "epilogue: acc2 is of f64, and acc of f32: the accumulators have one type"
    );
    let device = Device::simulator(Arch::Sm90a);
    let gate = Epilogue::new(Ty::F32, |e| e.accumulator().silu() * e.second_accumulator());
    let gate = gate.expect("an epilogue");
    assert_eq!(
        gate,
        gate.to_string().parse().expect("the text of an epilogue")
    );
    let plain = Epilogue::new(Ty::F32, |e| e.accumulator().relu());
    let plain = plain.expect("an epilogue");
    let a = device.zeros::<f16>(4096).expect("A");
    let mut c = device.zeros::<f32>(4096).expect("C");
    let view = a.view((64, 64)).expect("a view");
    let of_c = c.view_mut((64, 64)).expect("a view");
    let product = Gemm::new(&view, &view, &of_c);
    let said = |gemm: &Gemm<'_, f16, f32>| {
        let error = gemm.prepare().unwrap_err();
        assert!(error.is_epilogue_refused() || error.is_overlap(), "{error}");
        error.to_string()
    };
    assert_eq!(
        said(&product.clone().b2(&view)),
        "epilogue: the call has two right factors, and no epilogue: `.epilogue(&epilogue)` sets it"
    );
    assert_eq!(
        said(&product.clone().epilogue(&gate)),
        "epilogue: it has two accumulators, and the product one right factor: `.b2(&view)` gives the second"
    );
    assert_eq!(
        said(&product.clone().b2(&view).epilogue(&plain)),
        "epilogue: the product has two right factors, and it one accumulator: `e.second_accumulator()` is the other"
    );
    let other = a.view_t((64, 64)).expect("a view");
    assert_eq!(
        said(&product.clone().b2(&other).epilogue(&gate)),
        "epilogue: B2 is (64,64):(_1,64), and B (64,64):(64,_1): both right factors have one layout"
    );
    let short = a.view((64, 32)).expect("a view");
    assert_eq!(
        said(&product.clone().b2(&short).epilogue(&gate)),
        "epilogue: B2 is (64,32):(32,_1), and B (64,64):(64,_1): both right factors have one layout"
    );
    // One layout, of which one is known to the compiler.
    let same = View::new(&a, "(64,64):(64,1)").expect("a view");
    let call = product.clone().b2(&same).epilogue(&gate);
    call.prepare().expect("both are of one layout");
    // C lies where the second factor does.
    let mut halves = a.clone();
    let into = halves.view_mut((64, 64)).expect("a view");
    let first = device.zeros::<f16>(4096).expect("another");
    let first = first.view((64, 64)).expect("a view");
    let narrow = Epilogue::new(Ty::F32, |e| {
        (e.accumulator() * e.second_accumulator()).to(Ty::F16)
    });
    let narrow = narrow.expect("an epilogue");
    let aliased = Gemm::new(&first, &first, &into)
        .b2(&view)
        .epilogue(&narrow)
        .prepare()
        .unwrap_err();
    let why = aliased.to_string();
    assert!(
        why.starts_with("C lies at ") && why.contains(" B2 at "),
        "{why}"
    );
    // Plans.
    let whole = product.clone().b2(&view).epilogue(&gate);
    let planned = |change: fn(GemmPlan) -> GemmPlan| {
        let plan = |operands, _| Ok(change(GemmPlan::new(GemmMethod::Hopper, operands)));
        whole
            .prepare_with(plan)
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        planned(|plan| GemmPlan { swap: true, ..plan }),
        "the plan swaps A and B: no kernel swaps A and two right factors"
    );
    assert_eq!(
        planned(|mut plan| {
            plan.operands.gated = false;
            plan
        }),
        "the plan was made for another product: the number of right factors is 1 in the plan and 2 in the call"
    );
    let operands = Operands {
        ab: Ty::F16,
        c: Ty::F32,
        majors: [Major::Second; 3],
        vectors: [8, 8, 4],
        beta: false,
        gated: true,
    };
    let plan = GemmPlan::new(GemmMethod::Hopper, operands);
    assert_eq!(plan.tile, [128, 128, 64]);
    assert_eq!(
        plan.build(Arch::Sm90a).unwrap_err().to_string(),
        "epilogue: the plan has two right factors: a product with an epilogue takes them"
    );
    whole.run().expect("a run");
}

#[test]
fn what_suits_no_batch_gets_a_sentence() {
    let device = Device::simulator(Arch::Sm80);
    let a = device.zeros::<f32>(4096).expect("A");
    let mut c = device.zeros::<f32>(4096).expect("C");
    let of_c = |c: &mut colex_gpu::Buffer<f32>, layout: &str, of_a: &str| {
        let view = View::new(&a, of_a).expect("a view");
        let of_c = ViewMut::new(c, layout).expect("a view");
        let error = Gemm::new(&view, &view, &of_c).prepare().unwrap_err();
        error.to_string()
    };
    assert_eq!(
        of_c(&mut c, "(4,4,3):(4,1,16)", "(4,4,2):(4,1,16)"),
        "batch: the modes behind those of the matrix are 2 in A and 3 in C: all three have the same, of stride 0 where one \
         matrix serves all products"
    );
    assert_eq!(
        of_c(&mut c, "(4,4):(4,1)", "(4,4,2,5):(4,1,16,0)"),
        "batch: the modes behind those of the matrix are (2,5) in A and none in C: all three have the same, of stride 0 where \
         one matrix serves all products"
    );
    // The products of nine modes that no stride joins.
    let nine = "(1,1,2,2,2,2,2,2,2,2,2):(1,1,256,128,64,32,16,8,4,2,1)";
    assert_eq!(
        of_c(&mut c, nine, nine),
        "batch: its modes (2,2,2,2,2,2,2,2,2) are not joined by their strides, and a kernel has 8 of them: leave the others out of \
         the views, and make a call for each of their products"
    );
    let hopper = Device::simulator(Arch::Sm90a);
    let halves = hopper.zeros::<f16>(16 * 256).expect("A");
    let mut products = hopper.zeros::<f32>(16 * 256).expect("C");
    let four = "(16,16,2,2,2,2):(16,1,2048,1024,512,256)";
    let view = View::new(&halves, four).expect("a view");
    let of_four = ViewMut::new(&mut products, four).expect("a view");
    let of_hopper = Gemm::new(&view, &view, &of_four).method(GemmMethod::Hopper);
    assert_eq!(
        of_hopper.prepare().unwrap_err().to_string(),
        "batch: its modes (2,2,2,2) are not joined by their strides, and the tensor maps of the Hopper kernel have 3 behind those \
         of a matrix: the Ampere kernel has 8"
    );
    assert_eq!(
        of_c(
            &mut c,
            "(4,4,(2,2)):(4,1,(16,64))",
            "(4,4,(2,2)):(4,1,(16,32))"
        ),
        "batch: mode 2 of C, (4,4,(2,2)):(4,1,(16,64)), has several strides: give each a mode of its own"
    );
    assert_eq!(
        of_c(&mut c, "(4,4,2):(4,1,0)", "(4,4,2):(4,1,16)"),
        "the destination (4,4,2):(4,1,0) has one element at several coordinates: which value stays would be a race"
    );
}

/// The layout of a matrix with the modes of a batch behind it, which lie in memory in this order, the first one innermost: the
/// others have stride 0.
fn batched(
    [rows, columns]: [(i64, i64); 2],
    size: i64,
    extents: &[i64],
    order: impl IntoIterator<Item = (usize, i64)>,
) -> Layout {
    let (mut next, mut strides) = (size, vec![0; extents.len()]);
    for (mode, gap) in order {
        strides[mode] = next + gap;
        next = strides[mode] * extents[mode];
    }
    let modes = extents.iter().copied().zip(strides);
    let all = [rows, columns].into_iter().chain(modes);
    let all = all.map(|(extent, stride)| Layout::leaf(extent, stride).expect("a mode"));
    Layout::concat(&all.collect::<Vec<Layout>>()).expect("a layout")
}

/// Batches of one to eight modes, of drawn strides, in one launch: A, B and the tensor of an epilogue have one matrix along some of
/// them. A batch of more modes than a tensor map has runs on the kernels whose threads load.
#[test]
fn law_batches_of_many_modes_are_their_products() {
    const ARCHS: [Arch; 3] = [Arch::Sm70, Arch::Sm80, Arch::Sm90a];
    let (m, n, k) = (5_i64, 8_i64, 16_i64);
    let epilogue = Epilogue::new(Ty::F32, |e| e.accumulator() - e.tensor("bias", Ty::F32));
    let epilogue = epilogue.expect("an epilogue");
    let number = |i: usize| ((i * 7 + i / 5) % 5) as f32 - 2.0;
    let (mut r, mut elements) = (Random::new(20), 0);
    for round in 0..draws(16) {
        let (modes, arch) = (1 + round % 8, ARCHS[round % 3]);
        let extents: Vec<i64> = (0..modes)
            .map(|_| 2 + i64::from(modes < 4 && r.one_in(2)))
            .collect();
        let products: i64 = extents.iter().product();
        let order = |r: &mut Random, is_shared: bool| {
            let mut left: Vec<usize> = (0..modes).collect();
            let mut order = Vec::new();
            while !left.is_empty() {
                let mode = left.swap_remove(r.below(left.len()));
                if !(is_shared && r.one_in(3)) {
                    order.push((mode, [0, 0, 8, 3][r.below(4_usize)]));
                }
            }
            order
        };
        let of_a = batched([(m, k), (k, 1)], m * k, &extents, order(&mut r, true));
        let of_b = batched([(n, k), (k, 1)], n * k, &extents, order(&mut r, true));
        let of_bias = batched([(m, 0), (n, 1)], n, &extents, order(&mut r, true));
        // In the order of its last modes first, so that no stride joins two of them, or in any.
        let of_c = match round / 8 % 2 {
            0 => (0..modes).rev().map(|mode| (mode, 0)).collect(),
            _ => order(&mut r, false),
        };
        let of_c = batched([(m, n), (n, 1)], m * n, &extents, of_c);
        let count = |layout: &Layout| 0..layout.cosize().expect("a size") as usize;
        let halves = |layout: &Layout| -> Vec<f16> {
            count(layout).map(|i| f16::from_f32(number(i))).collect()
        };
        let (in_a, in_b) = (halves(&of_a), halves(&of_b));
        let in_bias: Vec<f32> = count(&of_bias).map(|i| i as f32 / 4.0).collect();
        let device = Device::simulator(arch);
        let (a, b) = (
            device.upload(&in_a).expect("A"),
            device.upload(&in_b).expect("B"),
        );
        let bias = device.upload(&in_bias).expect("a bias");
        let mut c = device.poisoned::<f32>(count(&of_c).end).expect("C");
        let call = Gemm::new(
            &View::new(&a, &of_a).expect("A"),
            &View::new(&b, &of_b).expect("B"),
            &ViewMut::new(&mut c, &of_c).expect("C"),
        )
        .epilogue(&epilogue)
        .tensor("bias", &View::new(&bias, &of_bias).expect("a view"))
        .prepare()
        .unwrap_or_else(|why| panic!("{of_a}, {of_b}, {of_c} on {arch}: {why}"));
        let launches = call.profile(&device);
        let launches = launches.unwrap_or_else(|why| panic!("{of_c} on {arch}: {why}"));
        assert_eq!(launches.len(), 1, "{call} on {arch}");
        drop(call);
        let found = c.download().expect("C");
        let [at_a, at_b] = [&of_a, &of_b].map(|layout| layout.table().expect("offsets"));
        for at in 0..m * n * products {
            let (i, j, product) = (at % m, at / m % n, at / m / n);
            let term = |l: i64| {
                let a = at_a[(i + m * (l + k * product)) as usize];
                let b = at_b[(j + n * (l + k * product)) as usize];
                in_a[a as usize].to_f32() * in_b[b as usize].to_f32()
            };
            let sum: f32 = (0..k).map(term).sum();
            let bias = in_bias[of_bias.at(at).expect("an offset") as usize];
            let offset = of_c.at(at).expect("an offset");
            assert_eq!(
                found[offset as usize].to_bits(),
                (sum - bias).to_bits(),
                "({i},{j}) of {product}: {of_a}, {of_b}, {of_c} on {arch}"
            );
            elements += 1;
        }
    }
    println!("law batches_of_many_modes: {elements} elements");
}

/// With every further mode of a batch, the claims of a kernel grow by the same: the number of a product is divided once more, and no
/// claim repeats what it is computed from.
#[test]
fn law_claims_grow_by_the_same_with_every_mode_of_a_batch() {
    let (m, n, k) = (5_i64, 8_i64, 16_i64);
    for (arch, method) in [
        (Arch::Sm70, GemmMethod::Volta),
        (Arch::Sm80, GemmMethod::Ampere),
    ] {
        let device = Device::simulator(arch);
        let sizes = (1..=8).map(|modes| {
            let extents = vec![2; modes];
            let order = || (0..modes).rev().map(|mode| (mode, 0));
            let of_a = batched([(m, k), (k, 1)], m * k, &extents, order());
            let of_b = batched([(n, k), (k, 1)], n * k, &extents, order());
            let of_c = batched([(m, n), (n, 1)], m * n, &extents, order());
            let length = |layout: &Layout| layout.cosize().expect("a size") as usize;
            let (a, b) = (
                device.zeros::<f16>(length(&of_a)).expect("A"),
                device.zeros::<f16>(length(&of_b)).expect("B"),
            );
            let mut c = device.zeros::<f32>(length(&of_c)).expect("C");
            let views = (
                View::new(&a, &of_a).expect("A"),
                View::new(&b, &of_b).expect("B"),
                ViewMut::new(&mut c, &of_c).expect("C"),
            );
            let call = Gemm::new(&views.0, &views.1, &views.2).method(method);
            let call = call.prepare().expect("a call");
            let kernel = &call.built().expect("a kernel").kernel;
            let (mut most, mut all) = (0, 0);
            for claim in &kernel.claims {
                claim.visit(&mut |expression| {
                    most = most.max(expression.steps());
                    all += expression.steps();
                });
            }
            [most, all]
        });
        let sizes: Vec<[usize; 2]> = sizes.collect();
        println!("law claims_of_batches: {arch}: {sizes:?}");
        let grows = |which: usize, modes: usize| sizes[modes][which] - sizes[modes - 1][which];
        for modes in 2..sizes.len() {
            // Those of a claim by the same number, and those of all, which are more with every mode, by one that grows by the same.
            assert!(grows(0, modes) <= 12, "{sizes:?}");
            let more = grows(1, modes) - grows(1, modes - 1);
            assert!(more <= 20, "{sizes:?}");
        }
    }
}

/// Four modes that strides join are one, and the call is one launch.
#[test]
fn modes_that_strides_join_are_one() {
    let device = Device::simulator(Arch::Sm90a);
    let a = device.upload(&[1f32; 16 * 24]).expect("A");
    let mut c = device.poisoned::<f32>(16 * 24).expect("C");
    let view = View::new(&a, "(4,4,2,3,2,2):(4,1,16,32,96,192)").expect("a view");
    let of_c = ViewMut::new(&mut c, "(4,4,2,3,2,2):(4,1,16,32,96,192)").expect("a view");
    let call = Gemm::new(&view, &view, &of_c).prepare().expect("a plan");
    assert_eq!(call.profile(&device).expect("a run").len(), 1);
    drop(call);
    assert_eq!(c.download().expect("C"), [4.0; 16 * 24]);
}
