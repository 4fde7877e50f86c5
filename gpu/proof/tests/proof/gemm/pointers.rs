//! Products by lists of matrices at unrelated addresses.

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::{Epilogue, GemmMethod, GemmPlan};
use colex_gpu::kernels::Compute;
use colex_gpu::{Buffer, Device, Gemm, View, ViewMut};
use colex_layout::Layout;
use half::f16;

/// Buffers of the numbers of a matrix each, in an order of addresses that is not that of the list.
fn matrices(
    device: &Device,
    count: usize,
    elements: i64,
    seed: i64,
) -> Vec<(Vec<f16>, Buffer<f16>)> {
    let number = |i: i64| f16::from_f64(((i * 7 + i / 5 + seed) % 5) as f64 - 2.0);
    let mut all: Vec<(Vec<f16>, Buffer<f16>)> = (0..count as i64)
        .map(|at| {
            let numbers: Vec<f16> = (0..elements).map(|i| number(i + 3 * at)).collect();
            let memory = device.upload(&numbers).expect("memory");
            // What lies between the matrices.
            device.upload(&[f16::NAN; 40]).expect("memory");
            (numbers, memory)
        })
        .collect();
    all.rotate_left(1);
    all.reverse();
    all
}

/// Every kernel that takes lists has the products of the host, with factors, the old C and an epilogue; and a list of one matrix has
/// the bits of the plain product.
#[test]
fn law_products_by_lists_are_those_of_their_matrices() {
    let (m, n, k) = (40_i64, 24_i64, 16_i64);
    let mut cases = 0;
    for (arch, method) in [
        (Arch::Sm70, GemmMethod::Simt),
        (Arch::Sm70, GemmMethod::Volta),
        (Arch::Sm80, GemmMethod::Ampere),
        (Arch::Sm90a, GemmMethod::Ampere),
    ] {
        let device = Device::simulator(arch);
        for (count, by_rows) in [(1, true), (3, true), (3, false)] {
            let of = |rows: i64, columns: i64| {
                let strides = if by_rows { (columns, 1) } else { (1, rows) };
                Layout::new((rows, columns), strides).expect("a layout")
            };
            let (of_a, of_b, of_c) = (of(m, k), of(n, k), of(m, n));
            let (a, b) = (
                matrices(&device, count, m * k, 1),
                matrices(&device, count, n * k, 2),
            );
            let before: Vec<f32> = (0..m * n).map(|i| (i % 9) as f32).collect();
            let shifted = Epilogue::new(Ty::F32, |e| {
                let place = (e.row() * 64 + e.column()).to(Ty::F32);
                e.accumulator() + e.tensor("bias", Ty::F32) + place
            });
            let shifted = shifted.expect("an epilogue");
            let bias = device
                .upload(&(0..n).map(|j| j as f32).collect::<Vec<f32>>())
                .expect("a bias");
            let of_bias = Layout::new((m, n), (0, 1)).expect("a layout");
            for has_epilogue in [false, true] {
                let mut c: Vec<Buffer<f32>> = (0..count)
                    .map(|_| device.upload(&before).expect("C"))
                    .collect();
                let (in_a, in_b): (Vec<View<'_, f16>>, Vec<View<'_, f16>>) = (
                    a.iter()
                        .map(|(_, x)| View::new(x, &of_a).expect("A"))
                        .collect(),
                    b.iter()
                        .map(|(_, x)| View::new(x, &of_b).expect("B"))
                        .collect(),
                );
                let outputs: Vec<ViewMut<'_, f32>> = c
                    .iter_mut()
                    .map(|x| ViewMut::new(x, &of_c).expect("C"))
                    .collect();
                let with = |gemm: Gemm<'_, f16, f32>| {
                    let done = if has_epilogue {
                        let bias = View::new(&bias, &of_bias).expect("a view");
                        gemm.method(method)
                            .epilogue(&shifted)
                            .tensor("bias", &bias)
                            .run()
                    } else {
                        gemm.method(method).alpha(2.0).beta(-0.5).run()
                    };
                    done.unwrap_or_else(|why| panic!("{method} on {arch}: {why}"));
                };
                with(Gemm::lists(&in_a, &in_b, &outputs).expect("lists"));
                drop(outputs);
                let mut plain = device.upload(&before).expect("C");
                if count == 1 {
                    with(Gemm::new(
                        &in_a[0],
                        &in_b[0],
                        &ViewMut::new(&mut plain, &of_c).expect("C"),
                    ));
                    let bits = |x: &Buffer<f32>| -> Vec<u32> {
                        (x.download().expect("C").iter())
                            .map(|x| x.to_bits())
                            .collect()
                    };
                    assert_eq!(bits(&c[0]), bits(&plain), "{method}");
                }
                for (at, c) in c.iter().enumerate() {
                    let found = c.download().expect("C");
                    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                        let number = |of: &[f16], layout: &Layout, rows: i64, row: i64, l: i64| {
                            of[layout.at(row + rows * l).expect("an offset") as usize].to_f32()
                        };
                        let term = |l: i64| {
                            number(&a[at].0, &of_a, m, i, l) * number(&b[at].0, &of_b, n, j, l)
                        };
                        let sum: f32 = (0..k).map(term).sum();
                        let place = of_c.at(i + m * j).expect("an offset") as usize;
                        let wanted = if has_epilogue {
                            sum + j as f32 + (i * 64 + j) as f32
                        } else {
                            2.0 * sum - 0.5 * before[place]
                        };
                        assert_eq!(
                            found[place], wanted,
                            "({i},{j}) of product {at}, {method} on {arch}"
                        );
                        cases += 1;
                    }
                }
            }
        }
    }
    println!("law gemm.lists: {cases} elements");
}

/// A prepared call keeps its table, runs again, and takes the kernel that threads load for on Hopper. A product of K = 0 is 0.
#[test]
fn lists_are_prepared_once() {
    let device = Device::simulator(Arch::Sm90a);
    let (a, b) = (matrices(&device, 2, 64, 1), matrices(&device, 2, 64, 2));
    let in_a: Vec<View<'_, f16>> = a.iter().map(|(_, x)| x.view((8, 8)).expect("A")).collect();
    let in_b: Vec<View<'_, f16>> = b.iter().map(|(_, x)| x.view((8, 8)).expect("B")).collect();
    let mut c: Vec<Buffer<f32>> = (0..2)
        .map(|_| device.upload(&[1f32; 64]).expect("C"))
        .collect();
    let outputs: Vec<ViewMut<'_, f32>> = c
        .iter_mut()
        .map(|x| x.view_mut((8, 8)).expect("C"))
        .collect();
    let call = Gemm::lists(&in_a, &in_b, &outputs)
        .expect("lists")
        .beta(1.0)
        .prepare()
        .expect("a plan");
    assert_eq!(
        call.plan().map(|plan| plan.method),
        Some(GemmMethod::Ampere)
    );
    call.run(&device).expect("a run");
    call.run(&device).expect("a run");
    drop(call);
    let none: Vec<View<'_, f16>> = a.iter().map(|(_, x)| x.view((8, 0)).expect("A")).collect();
    let empty = Gemm::lists(&none, &none, &outputs)
        .expect("lists")
        .beta(0.5);
    empty.run().expect("a run");
    drop(outputs);
    for (at, c) in c.iter().enumerate() {
        let sum = |i: usize, j: usize| -> f32 {
            (0..8)
                .map(|l| a[at].0[8 * i + l].to_f32() * b[at].0[8 * j + l].to_f32())
                .sum()
        };
        let wanted: Vec<f32> = (0..64)
            .map(|x| 0.5 * (1.0 + 2.0 * sum(x / 8, x % 8)))
            .collect();
        assert_eq!(c.download().expect("C"), wanted);
    }
}

#[test]
fn what_suits_no_list_gets_a_sentence() {
    let device = Device::simulator(Arch::Sm90a);
    let other = Device::simulator(Arch::Sm80);
    let memory = |elements: usize| device.zeros::<f32>(elements).expect("memory");
    let (a, b, more) = (memory(64), memory(64), memory(64));
    let elsewhere = other.zeros::<f32>(64).expect("memory");
    let (mut c, mut d) = (memory(64), memory(64));
    let c_too = c.clone();
    let (va, vb, vm) = (
        a.view((8, 8)).expect("a view"),
        b.view((8, 8)).expect("a view"),
        more.view((8, 8)).expect("a view"),
    );
    let (vc, vd) = (
        c.view_mut((8, 8)).expect("C"),
        d.view_mut((8, 8)).expect("D"),
    );
    let refused = |a: &[View<'_, f32>], b: &[View<'_, f32>], c: &[ViewMut<'_, f32>]| {
        Gemm::lists(a, b, c).map(|_| ()).unwrap_err().to_string()
    };
    let none: [View<'_, f32>; 0] = [];
    assert_eq!(
        refused(&none, &none, &[]),
        "batch: the lists have 0 matrices of A, 0 of B and 0 of C: there is at least one product"
    );
    let (both, outputs) = ([va.clone(), vm.clone()], [vc, vd]);
    assert_eq!(
        refused(&both, std::slice::from_ref(&vb), &outputs),
        "batch: the lists have 2 matrices of A, 1 of B and 2 of C: each product has one of each"
    );
    let short = more.view((4, 8)).expect("a view");
    assert_eq!(
        refused(&[va.clone(), short], &both, &outputs),
        "batch: matrix 1 of the list A is (4,8):(8,_1), and the first (8,8):(8,_1): all matrices of a list have one layout"
    );
    let turned = View::column_major(&more, (8, 8)).expect("a view");
    assert_eq!(
        refused(&both, &[vb.clone(), turned], &outputs),
        "batch: matrix 1 of the list B is (8,8):(_1,8), and the first (8,8):(8,_1): all matrices of a list have one layout"
    );
    let far = elsewhere.view((8, 8)).expect("a view");
    let why = refused(&both, &[vb.clone(), far], &outputs);
    assert!(why.contains("a matrix of a list"), "{why}");
    // An output that is read, and one that lies in two places of the list.
    let why = refused(
        &both,
        &[vb.clone(), c_too.view((8, 8)).expect("a view")],
        &outputs,
    );
    assert!(
        why.starts_with("C 0 lies at ") && why.contains("B 1"),
        "{why}"
    );
    let mut long = memory(64);
    let mut again = long.clone();
    let one = long.view_mut((8, 8)).expect("C");
    let twice = again.view_mut((8, 8)).expect("C");
    let why = refused(&both, &[vb.clone(), vb.clone()], &[one, twice]);
    assert!(
        why.starts_with("C 1 lies at ") && why.contains("C 0"),
        "{why}"
    );
    // Methods, epilogues and views that take no lists.
    let lists = || Gemm::lists(&both, &[vb.clone(), vb.clone()], &outputs).expect("lists");
    let said = |gemm: Gemm<'_, f32, f32>| gemm.run().unwrap_err().to_string();
    lists().run().expect("a run");
    assert_eq!(
        said(lists().method(GemmMethod::Gemv)),
        "batch: the GEMV kernel takes one address of each matrix: the kernels of all rows take lists"
    );
    assert_eq!(
        said(lists().b2(&vm)),
        "batch: a product by lists has one right factor, and no groups"
    );
    let two: Epilogue = "(acc: f32) -> C { acc } more { acc }"
        .parse()
        .expect("an epilogue");
    assert_eq!(
        said(lists().epilogue(&two)),
        "batch: the epilogue of a product by lists has outputs beside C, which all products would write: C alone has a list"
    );
    assert_eq!(
        said(lists().compute(Compute::Tf32x3)),
        "batch: 3xTF32 divides each matrix into high and low parts, and lists are not packed: `Compute::Tf32` takes lists"
    );
    // A tensor of the epilogue, and the rows of one, that lie in a matrix of C behind the first.
    let biased: Epilogue = "(acc: f32, bias: tensor f32) -> C { add(acc, bias) }"
        .parse()
        .expect("an epilogue");
    let why = said(lists().epilogue(&biased).tensor("bias", &outputs[1]));
    assert!(
        why.starts_with("C 1 lies at ") && why.contains("bias"),
        "{why}"
    );
    let halves = device.zeros::<f16>(64).expect("memory");
    let halves = [halves.view((8, 8)).expect("a view")];
    let hopper = Gemm::lists(&halves, &halves, &outputs[..1]).expect("lists");
    let why = hopper.prepare_with(|operands, _| Ok(GemmPlan::new(GemmMethod::Hopper, operands)));
    assert_eq!(
        why.unwrap_err().to_string(),
        "batch: the Hopper kernel loads by tensor maps, and each matrix of a list would need one: the Ampere kernel takes lists"
    );
}
