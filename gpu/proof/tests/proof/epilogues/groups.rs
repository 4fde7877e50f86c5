//! Epilogues of products in groups over tensors in the order of C, in every kernel that takes groups.

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::{Epilogue, GemmMethod, GroupProblem, Groups};
use colex_gpu::{Device, Gemm, View, ViewMut};
use colex_layout::Layout;
use half::f16;

/// What an epilogue has beside a residual.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Beside {
    Nothing,
    Bias,
    ScaleAndOutput,
}

fn with_residual(beside: Beside) -> Epilogue {
    let built = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator() + e.tensor("residual", Ty::F16).to(Ty::F32);
        let x = match beside {
            Beside::Nothing => x,
            Beside::Bias => x + e.tensor("bias", Ty::F32),
            Beside::ScaleAndOutput => {
                let x = x * e.tensor("scale", Ty::F32);
                e.output("twice", (x.clone() * 2.0).to(Ty::F16));
                x
            }
        };
        x.to(Ty::F16)
    });
    built.expect("an epilogue")
}

/// Small integers, whose sums are exact in every order.
fn numbers(count: i64) -> Vec<f16> {
    let number = |i: i64| f16::from_f64(((i * 7 + i / 5) % 5) as f64 - 2.0);
    (0..count).map(number).collect()
}

/// A residual of the type and the layout of C, alone, beside a bias, and beside a scale of each row and a second output: the elements of
/// all groups of every kind have the bits of the host, for a C by rows and by columns, and those of no group stay as they are.
#[test]
fn law_epilogues_of_groups_read_and_write_in_the_order_of_c() {
    let (m, n) = (80_i64, 24_i64);
    let mut elements = 0;
    for (arch, method) in [
        (Arch::Sm70, GemmMethod::Volta),
        (Arch::Sm80, GemmMethod::Simt),
        (Arch::Sm80, GemmMethod::Ampere),
        (Arch::Sm90a, GemmMethod::Hopper),
    ] {
        let device = Device::simulator(arch);
        for kind in Groups::ALL {
            // No count is a whole number of vectors but those of none and all.
            let given: &[u32] = match kind {
                Groups::Rows => &[0, 3, 3, 70, 80],
                Groups::Masked => &[5, 0, 80, 66],
                _ => &[0, 8, 8, 13, 16],
            };
            let k = if kind == Groups::AlongK { 16 } else { 8 };
            let problem = GroupProblem {
                kind,
                groups: 4,
                m,
                n,
                k,
            };
            let spans = problem.spans(given);
            let matrices = |[rows, columns]: [i64; 2], strides: [i64; 3], has_mode: bool| {
                let [down, across, apart] = strides;
                if has_mode {
                    Layout::new((rows, columns, 4), (down, across, apart))
                } else {
                    Layout::new((rows, columns), (down, across))
                }
                .expect("a layout")
            };
            let of_a = matrices([m, k], [k, 1, m * k], kind == Groups::Masked);
            let of_b = matrices([n, k], [k, 1, n * k], kind != Groups::AlongK);
            let of_c = |strides| matrices([m, n], strides, kind != Groups::Rows);
            let (in_a, in_b) = (numbers(of_a.size()), numbers(of_b.size()));
            let (a, b) = (
                device.upload(&in_a).expect("A"),
                device.upload(&in_b).expect("B"),
            );
            let list = device.upload(given).expect("numbers");
            for (by_rows, beside) in [true, false].into_iter().flat_map(|by_rows| {
                let all = [Beside::Nothing, Beside::Bias, Beside::ScaleAndOutput];
                all.map(|beside| (by_rows, beside))
            }) {
                let layout = if by_rows {
                    of_c([n, 1, m * n])
                } else {
                    of_c([1, m, m * n])
                };
                let products = layout.size() / (m * n);
                let name = format!("{kind:?} by {method} on {arch}, C {layout}, beside {beside:?}");
                let epilogue = with_residual(beside);
                let before = vec![f16::from_f64(-99.0); layout.size() as usize];
                let in_residual = numbers(layout.size());
                let in_bias: Vec<f32> = (0..n).map(|j| (j % 7) as f32).collect();
                let in_scale: Vec<f32> = (0..products * m).map(|i| (i % 3) as f32).collect();
                let residual = device.upload(&in_residual).expect("a residual");
                let bias = device.upload(&in_bias).expect("a bias");
                let scale = device.upload(&in_scale).expect("a scale");
                let mut c = device.upload(&before).expect("C");
                let mut twice = device.upload(&before).expect("an output");
                {
                    let mut call = Gemm::new(
                        &View::new(&a, &of_a).expect("A"),
                        &View::new(&b, &of_b).expect("B"),
                        &ViewMut::new(&mut c, &layout).expect("C"),
                    )
                    .groups(kind, &list.view(given.len() as i64).expect("a view"))
                    .epilogue(&epilogue)
                    .method(method)
                    .tensor("residual", &View::new(&residual, &layout).expect("a view"));
                    if beside == Beside::Bias {
                        let of_columns = View::new(&bias, of_c([0, 1, 0])).expect("a view");
                        call = call.tensor("bias", &of_columns);
                    }
                    if beside == Beside::ScaleAndOutput {
                        let of_rows = View::new(&scale, of_c([1, 0, m])).expect("a view");
                        let twice = ViewMut::new(&mut twice, &layout).expect("a view");
                        call = call.tensor("scale", &of_rows).output("twice", &twice);
                    }
                    call.run().unwrap_or_else(|why| panic!("{name}: {why}"));
                }
                let found = [c, twice].map(|buffer| buffer.download().expect("elements"));
                for (product, i, j) in (0..products)
                    .flat_map(|p| (0..m).flat_map(move |i| (0..n).map(move |j| (p, i, j))))
                {
                    let part = match kind {
                        Groups::Rows => {
                            let group = spans.iter().position(|span| span.contains(&i));
                            group.map(|group| (0, group as i64, 0..k))
                        }
                        Groups::Masked => {
                            let is_there = spans[product as usize].contains(&i);
                            is_there.then_some((product, product, 0..k))
                        }
                        _ => Some((0, 0, spans[product as usize].clone())),
                    };
                    let at = layout.at(i + m * (j + n * product)).expect("an offset") as usize;
                    let bits = part.map(|(of_a, of_b, part)| {
                        let term = |l: i64| {
                            let a = in_a[((of_a * m + i) * k + l) as usize];
                            let b = in_b[((of_b * n + j) * k + l) as usize];
                            a.to_f32() * b.to_f32()
                        };
                        // From 0 on, as in registers: `Iterator::sum` of floats begins with -0.
                        let sum = part.map(term).fold(0_f32, |sum, term| sum + term);
                        let scale = in_scale[(product * m + i) as usize];
                        let numbers = [sum, in_bias[j as usize], scale];
                        let [sum, bias, scale] = numbers.map(|x| u64::from(x.to_bits()));
                        let residual = in_residual[at].to_bits().into();
                        let inputs = match beside {
                            Beside::Nothing => vec![sum, residual],
                            Beside::Bias => vec![sum, residual, bias],
                            Beside::ScaleAndOutput => vec![sum, residual, scale],
                        };
                        epilogue.evaluate(&inputs).expect("numbers")
                    });
                    let outputs = epilogue.outputs().count();
                    let wanted = bits.unwrap_or_else(|| vec![before[at].to_bits().into(); outputs]);
                    for (found, wanted) in found.iter().zip(wanted) {
                        assert_eq!(
                            u64::from(found[at].to_bits()),
                            wanted,
                            "({i},{j}) of {product}: {name}"
                        );
                        elements += 1;
                    }
                }
            }
        }
    }
    println!("law epilogue.groups in the order of C: {elements} elements");
}

/// Along K, each group has all rows and columns of its C, those of an empty part too: the vectors have the bits of their order, of
/// elements that C holds and of those that are stored for a vector only.
#[test]
fn law_reductions_of_groups_along_k_have_the_bits_of_their_order() {
    let (m, n, k, groups) = (40_i64, 24_i64, 16_i64, 4_i64);
    let sums = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator() * (1.0 / 3.0);
        e.row_sums("rows", x.clone());
        e.column_sums("columns", x.clone());
        e.column_maxima("largest", -x.clone());
        x
    });
    let sums = sums.expect("an epilogue");
    let offsets = [0_u32, 8, 8, 13, 16];
    let mut numbers_found = 0;
    for (arch, method) in [
        (Arch::Sm70, GemmMethod::Simt),
        (Arch::Sm75, GemmMethod::Volta),
        (Arch::Sm80, GemmMethod::Ampere),
        (Arch::Sm90a, GemmMethod::Hopper),
    ] {
        let device = Device::simulator(arch);
        let (in_a, in_b) = (numbers(m * k), numbers(n * k));
        let (a, b) = (
            device.upload(&in_a).expect("A"),
            device.upload(&in_b).expect("B"),
        );
        let list = device.upload(&offsets).expect("offsets");
        let poisoned = |count: i64| device.poisoned::<f32>(count as usize).expect("memory");
        let mut c = poisoned(groups * m * n);
        let [mut rows, mut columns, mut largest] = [m, n, n].map(|count| poisoned(groups * count));
        let of_c = Layout::new((m, n, groups), (n, 1, m * n)).expect("a layout");
        let vector = |count: i64| Layout::new((count, groups), (1, count)).expect("a layout");
        Gemm::new(
            &a.view((m, k)).expect("A"),
            &b.view((n, k)).expect("B"),
            &ViewMut::new(&mut c, &of_c).expect("C"),
        )
        .groups(Groups::AlongK, &list.view(groups + 1).expect("offsets"))
        .epilogue(&sums)
        .output("rows", &ViewMut::new(&mut rows, vector(m)).expect("a view"))
        .output(
            "columns",
            &ViewMut::new(&mut columns, vector(n)).expect("a view"),
        )
        .output(
            "largest",
            &ViewMut::new(&mut largest, vector(n)).expect("a view"),
        )
        .method(method)
        .run()
        .unwrap_or_else(|why| panic!("{method} on {arch}: {why}"));
        let found = [rows, columns, largest].map(|vector| vector.download().expect("numbers"));
        for group in 0..groups {
            let part = i64::from(offsets[group as usize])..i64::from(offsets[group as usize + 1]);
            let x = |i: i64, j: i64| -> f32 {
                let term = |l: i64| {
                    in_a[(i * k + l) as usize].to_f32() * in_b[(j * k + l) as usize].to_f32()
                };
                // From 0 on, as in registers: `Iterator::sum` of floats begins with -0.
                part.clone().map(term).fold(0_f32, |sum, term| sum + term) * (1.0 / 3.0)
            };
            let bits = |x: f32| u64::from(x.to_bits());
            for (one, found) in sums.reductions().zip(&found) {
                let (count, length) = if one.name == "rows" { (m, n) } else { (n, m) };
                for at in 0..count {
                    let element = |of: i64| match &one.name[..] {
                        "rows" => bits(x(at, of)),
                        "columns" => bits(x(of, at)),
                        _ => bits(-x(of, at)),
                    };
                    let own: Vec<u64> = (0..length).map(element).collect();
                    assert_eq!(
                        bits(found[(group * count + at) as usize]),
                        one.evaluate(&own).expect("a number"),
                        "number {at} of {} of group {group} by {method} on {arch}",
                        one.name
                    );
                    numbers_found += 1;
                }
            }
        }
    }
    println!("law epilogue.reductions of groups along K: {numbers_found} numbers");
}
