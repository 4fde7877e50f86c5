//! Closures of epilogues in batches, in lists, with two right factors, and under vectors.

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::{Epilogue, EpilogueElements, GemmMethod};
use colex_gpu::{Device, Gemm, View, ViewMut};
use colex_layout::Layout;
use colex_tensor::{Builder, Expr, Fragment};
use half::f16;

use super::{placed, placed_by_closure};

fn numbers(count: i64) -> Vec<f16> {
    let number = |i: i64| f16::from_f64(((i * 7 + i / 5) % 5) as f64 - 2.0);
    (0..count).map(number).collect()
}

/// What the products of a call are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Products {
    Batch,
    Lists,
}

/// A closure gets the coordinates within its product, in a batch and in lists of matrices, with one right factor and with two: the bits
/// are those of the formula on the host.
#[test]
fn law_closures_see_the_elements_of_batches_and_lists() {
    let (m, n, k, count) = (40_i64, 24_i64, 32_i64, 3_i64);
    let (in_a, in_b) = (numbers(count * m * k), numbers(2 * count * n * k));
    let sum = |product: i64, i: i64, j: i64, behind: i64| -> u64 {
        let term = |l: i64| {
            let a = in_a[((product * m + i) * k + l) as usize];
            let b = in_b[(behind + (product * n + j) * k + l) as usize];
            a.to_f32() * b.to_f32()
        };
        (0..k).map(term).sum::<f32>().to_bits().into()
    };
    let in_second = count * n * k;
    let mut elements = 0;
    for (arch, method) in [
        (Arch::Sm70, GemmMethod::Simt),
        (Arch::Sm75, GemmMethod::Volta),
        (Arch::Sm80, GemmMethod::Ampere),
        (Arch::Sm90a, GemmMethod::Gemv),
        (Arch::Sm90a, GemmMethod::Hopper),
    ] {
        let is_listed = !matches!(method, GemmMethod::Gemv | GemmMethod::Hopper);
        for (products, is_gated) in [
            (Products::Batch, false),
            (Products::Batch, true),
            (Products::Lists, false),
        ] {
            if products == Products::Lists && !is_listed {
                continue;
            }
            let (formula, closure) = (placed(is_gated), placed_by_closure(is_gated));
            // Of one row only, by GEMV.
            let m = if method == GemmMethod::Gemv { 1 } else { m };
            let device = Device::simulator(arch);
            let (a, b) = (
                device.upload(&in_a).expect("A"),
                device.upload(&in_b).expect("B"),
            );
            let second = b.slice(in_second as usize..).expect("the second B");
            let mut c = device.poisoned::<f32>((count * m * n) as usize).expect("C");
            let layout = |rows: i64, columns: i64, apart: i64| {
                Layout::new((rows, columns, count), (columns, 1, apart)).expect("a layout")
            };
            let of_a = layout(m, k, in_a.len() as i64 / count);
            let (of_b, of_c) = (layout(n, k, n * k), layout(m, n, m * n));
            let name = format!("{products:?}, two factors {is_gated}, by {method} on {arch}");
            if products == Products::Lists {
                let at = |i: i64, size: i64| (i * size) as usize..;
                let parts_a = (0..count).map(|i| a.slice(at(i, m * k)).expect("a slice"));
                let parts_b = (0..count).map(|i| b.slice(at(i, n * k)).expect("a slice"));
                let parts_c = (0..count).map(|i| c.slice(at(i, m * n)).expect("a slice"));
                let parts_a: Vec<_> = parts_a.collect();
                let parts_b: Vec<_> = parts_b.collect();
                let mut parts_c: Vec<_> = parts_c.collect();
                let views_a = parts_a.iter().map(|a| a.view((m, k)).expect("A"));
                let views_b = parts_b.iter().map(|b| b.view((n, k)).expect("B"));
                let views_c = parts_c.iter_mut().map(|c| c.view_mut((m, n)).expect("C"));
                let views_a: Vec<_> = views_a.collect();
                let views_b: Vec<_> = views_b.collect();
                let views_c: Vec<_> = views_c.collect();
                let call = Gemm::lists(&views_a, &views_b, &views_c).expect("lists");
                let done = call.epilogue(&closure).method(method).run();
                done.unwrap_or_else(|why| panic!("{name}: {why}"));
            } else {
                let mut call = Gemm::new(
                    &View::new(&a, &of_a).expect("A"),
                    &View::new(&b, &of_b).expect("B"),
                    &ViewMut::new(&mut c, &of_c).expect("C"),
                )
                .epilogue(&closure)
                .method(method);
                if is_gated {
                    call = call.b2(&View::new(&second, &of_b).expect("the second B"));
                }
                call.run().unwrap_or_else(|why| panic!("{name}: {why}"));
            }
            let found = c.download().expect("C");
            for (product, i, j) in
                (0..count).flat_map(|p| (0..m).flat_map(move |i| (0..n).map(move |j| (p, i, j))))
            {
                let sums = [sum(product, i, j, 0), sum(product, i, j, in_second)];
                let bits = formula.evaluate_at([i, j], &sums[..1 + usize::from(is_gated)]);
                assert_eq!(
                    u64::from(found[((product * m + i) * n + j) as usize].to_bits()),
                    bits.expect("a number")[0],
                    "({i},{j}) of {product}: {name}"
                );
                elements += 1;
            }
        }
    }
    println!("law epilogue.closures of batches and lists: {elements} elements");
}

/// A vector may be of what a closure computes: C has the elements, and the vector their sums in the order of the host.
#[test]
fn a_vector_has_the_elements_of_a_closure() {
    let (m, n, k) = (40_i64, 72_i64, 32_i64);
    let sums = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator();
        let thirds = e.apply("thirds", 1, Ty::F32, [x], |_, [x], _| Ok(&x * (1.0 / 3.0)));
        e.row_sums("rows", thirds.clone());
        thirds
    });
    let sums = sums.expect("an epilogue");
    for (arch, method) in [
        (Arch::Sm80, GemmMethod::Ampere),
        (Arch::Sm90a, GemmMethod::Hopper),
    ] {
        let device = Device::simulator(arch);
        let (a, b) = (
            device.upload(&numbers(m * k)).expect("A"),
            device.upload(&numbers(n * k)).expect("B"),
        );
        let mut c = device.poisoned::<f32>((m * n) as usize).expect("C");
        let mut rows = device.poisoned::<f32>(m as usize).expect("sums");
        Gemm::new(
            &a.view((m, k)).expect("A"),
            &b.view((n, k)).expect("B"),
            &c.view_mut((m, n)).expect("C"),
        )
        .epilogue(&sums)
        .output("rows", &rows.view_mut(m).expect("a view"))
        .method(method)
        .run()
        .unwrap_or_else(|why| panic!("{method} on {arch}: {why}"));
        let (c, rows) = (c.download().expect("C"), rows.download().expect("sums"));
        let vector = sums.reductions().next().expect("a vector");
        for (i, row) in c.chunks(n as usize).enumerate() {
            let own: Vec<u64> = row.iter().map(|x| x.to_bits().into()).collect();
            let wanted = vector.evaluate(&own).expect("a sum");
            assert_eq!(u64::from(rows[i].to_bits()), wanted, "row {i} by {method}");
        }
    }
}

/// A function of a name has one code for all its uses in an epilogue.
fn tripled(
    _: &mut Builder,
    [x]: [Fragment; 1],
    _: &EpilogueElements,
) -> Result<Expr, colex_tensor::Error> {
    Ok(&x * 3.0)
}

/// An epilogue applies one function to several formulas, also to what it makes itself: its text numbers the inputs and is read as the
/// same epilogue, and every kernel has the elements of each use.
#[test]
fn closures_are_applied_several_times() {
    let thrice = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator();
        let once = e.apply("tripled", 1, Ty::F32, [x.clone()], tripled);
        let other = e.apply("tripled", 1, Ty::F32, [x + 1.0], tripled);
        e.output("other", other);
        e.apply("tripled", 1, Ty::F32, [once], tripled)
    });
    let thrice = thrice.expect("an epilogue");
    assert_eq!(
        thrice.to_string(),
        "(acc: f32, tripled: closure f32, tripled_2: closure f32, tripled_3: closure f32) -> C { tripled_3 } other { tripled_2 } \
         tripled: closure 1 { acc } tripled: closure 1 { add(acc, 1.0) } tripled: closure 1 { tripled }"
    );
    assert_eq!(thrice, thrice.to_string().parse().expect("a text"));
    let read = |text: &str| text.parse::<Epilogue>().unwrap_err().to_string();
    assert_eq!(
        read(
            "(acc: f32, tripled: closure f32, tripled_3: closure f32) -> C { tripled_3 } tripled: closure 1 { acc } \
             tripled: closure 1 { acc }"
        ),
        "epilogue: each closure among its inputs has its arguments behind the outputs, in that order"
    );
    // The number is a name like others.
    let taken = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator() + e.tensor("tripled_2", Ty::F32);
        let once = e.apply("tripled", 1, Ty::F32, [x], tripled);
        e.apply("tripled", 1, Ty::F32, [once], tripled)
    });
    assert_eq!(
        taken.unwrap_err().to_string(),
        "epilogue: `tripled_2` names two inputs or outputs: each has its own name"
    );
    let (n, k) = (24_i64, 32_i64);
    for (arch, method, m) in [
        (Arch::Sm70, GemmMethod::Simt, 40_i64),
        (Arch::Sm70, GemmMethod::Volta, 40),
        (Arch::Sm80, GemmMethod::Ampere, 40),
        (Arch::Sm80, GemmMethod::Gemv, 1),
        (Arch::Sm90a, GemmMethod::Hopper, 40),
    ] {
        let device = Device::simulator(arch);
        let ones = device.upload(&vec![f16::ONE; (m.max(n) * k) as usize]);
        let ones = ones.expect("ones");
        let mut c = device.poisoned::<f32>((m * n) as usize).expect("C");
        let mut other = device.poisoned::<f32>((m * n) as usize).expect("an output");
        Gemm::new(
            &View::new(&ones, Layout::new((m, k), (k, 1)).expect("a layout")).expect("A"),
            &View::new(&ones, Layout::new((n, k), (k, 1)).expect("a layout")).expect("B"),
            &c.view_mut((m, n)).expect("C"),
        )
        .epilogue(&thrice)
        .output("other", &other.view_mut((m, n)).expect("a view"))
        .method(method)
        .run()
        .unwrap_or_else(|why| panic!("{method} on {arch}: {why}"));
        let [c, other] = [c, other].map(|found| found.download().expect("elements"));
        assert_eq!(
            c,
            vec![9.0 * k as f32; (m * n) as usize],
            "{method} on {arch}"
        );
        let wanted = vec![3.0 * (k + 1) as f32; (m * n) as usize];
        assert_eq!(other, wanted, "{method} on {arch}");
    }
}
