//! Products of views: any strides, any nesting, extents of 0, factors of 0.

use colex_atom::Arch;
use colex_gpu::{Buffer, Device, Gemm, View, ViewMut, gemm};
use colex_layout::Layout;

/// A linear congruential generator: the tests have no use for a better one.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }

    /// The text of a layout of two modes with these extents: in any order, with gaps, a mode of composite extent sometimes
    /// split, and rows that overlap or repeat if the layout may be read only.
    fn matrix(&mut self, extents: [i64; 2], is_read: bool) -> String {
        let mut leaves: Vec<(usize, i64)> = Vec::new();
        for (mode, extent) in extents.into_iter().enumerate() {
            let factor = [2, 3].into_iter().find(|f| extent % f == 0 && extent > *f);
            match factor {
                Some(factor) if self.below(3) == 0 => {
                    leaves.extend([(mode, factor), (mode, extent / factor)]);
                }
                _ => leaves.push((mode, extent)),
            }
        }
        let mut order: Vec<usize> = (0..leaves.len()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
        let mut strides = vec![0; leaves.len()];
        let mut next = 1 + i64::from(self.below(3) == 0);
        for leaf in order {
            strides[leaf] = next;
            next = next * leaves[leaf].1 + [0, 0, 1, 5][self.below(4) as usize];
        }
        if is_read && self.below(5) == 0 {
            let leaf = self.below(strides.len() as u64) as usize;
            strides[leaf] = self.below(2) as i64;
        }
        let text = |of: &dyn Fn(usize) -> i64| {
            let mode = |mode: usize| {
                let of_mode = (0..leaves.len()).filter(|&leaf| leaves[leaf].0 == mode);
                let values: Vec<String> = of_mode.map(|leaf| of(leaf).to_string()).collect();
                match &values[..] {
                    [one] => one.clone(),
                    several => format!("({})", several.join(",")),
                }
            };
            format!("({},{})", mode(0), mode(1))
        };
        format!(
            "{}:{}",
            text(&|leaf| leaves[leaf].1),
            text(&|leaf| strides[leaf])
        )
    }
}

fn layout(text: &str) -> Layout {
    text.parse().expect("a layout")
}

/// The offset of an element: by index in each of the two modes.
fn at(layout: &Layout, i: i64, j: i64) -> usize {
    let rows = layout.mode(0).expect("two modes").size();
    layout.offset(i + rows * j).expect("an index") as usize
}

/// `alpha A B^T + beta C` of small integers, exact in f32.
#[allow(clippy::too_many_arguments, reason = "the operands of a product")]
fn expected(
    [m, n, k]: [i64; 3],
    [alpha, beta]: [f64; 2],
    (a, la): (&[f32], &Layout),
    (b, lb): (&[f32], &Layout),
    (c, lc): (&[f32], &Layout),
) -> Vec<f32> {
    let mut after = c.to_vec();
    for i in 0..m {
        for j in 0..n {
            let products = (0..k).map(|p| f64::from(a[at(la, i, p)] * b[at(lb, j, p)]));
            let old = match beta {
                0.0 => 0.0,
                beta => beta * f64::from(c[at(lc, i, j)]),
            };
            after[at(lc, i, j)] = (alpha * products.fold(0.0, |sum, x| sum + x) + old) as f32;
        }
    }
    after
}

fn numbers(random: &mut Random, layout: &Layout) -> Vec<f32> {
    let count = layout.cosize().expect("small");
    (0..count).map(|_| random.below(9) as f32 - 4.0).collect()
}

fn same_bits(found: &[f32], expected: &[f32]) -> bool {
    let bits = |list: &[f32]| list.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    bits(found) == bits(expected)
}

/// The law: a product of views is the sum over K at every coordinate, for all strides, and it writes nothing else.
#[test]
fn a_product_of_views_is_the_sum_at_every_coordinate() {
    let (mut random, mut packed, mut cases) = (Random(5), [0; 4], 0);
    for round in 0..72 {
        let arch = [Arch::Sm70, Arch::Sm80, Arch::Sm90a][round % 3];
        let device = Device::simulator(arch);
        let extents = [0; 3].map(|_| 1 + random.below(12) as i64);
        let [m, n, k] = extents;
        let [la, lb, lc] = [([m, k], true), ([n, k], true), ([m, n], false)]
            .map(|(extents, is_read)| layout(&random.matrix(extents, is_read)));
        let factors = [[1.0, 0.0], [2.0, -0.5], [0.5, 1.0]][random.below(3) as usize];
        let (a, b) = (numbers(&mut random, &la), numbers(&mut random, &lb));
        let c = numbers(&mut random, &lc);
        let (da, db) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let mut dc = device.upload(&c).unwrap();
        let call = Gemm::new(
            &View::new(&da, la.clone()).unwrap(),
            &View::new(&db, lb.clone()).unwrap(),
            &ViewMut::new(&mut dc, lc.clone()).unwrap(),
        )
        .alpha(factors[0])
        .beta(factors[1])
        .prepare()
        .unwrap_or_else(|e| panic!("{la}, {lb}, {lc}: {e}"));
        for (operand, _) in call.packed() {
            packed[operand as usize] += 1;
        }
        packed[3] += usize::from(call.unpacked().is_some());
        let said = call.to_string();
        call.run(&device).unwrap_or_else(|e| panic!("{said}: {e}"));
        let right = expected(extents, factors, (&a, &la), (&b, &lb), (&c, &lc));
        let found = dc.download().unwrap();
        assert!(
            same_bits(&found, &right),
            "{la}, {lb}, {lc}, {factors:?}: {said}"
        );
        cases += 1;
    }
    // Each way was taken: A, B, C read, C written.
    assert!(packed.iter().all(|&times| times >= 5), "{packed:?}");
    println!("law a_product_of_views_is_the_sum_at_every_coordinate: {cases} cases");
}

/// Whether a product of these extents leaves C as `beta` times what it was, and every other byte as it was.
fn scaled(device: &Device, [m, n, k]: [i64; 3], alpha: f64, beta: f64) {
    let not_a_number = vec![f32::NAN; (m * k).max(n * k) as usize];
    let factor: Buffer<f32> = device.upload(&not_a_number).unwrap();
    let old: Vec<f32> = (0..m * n + 7).map(|i| i as f32 - 9.0).collect();
    let mut c = device.upload(&old).unwrap();
    let (a, b) = (factor.view((m, k)).unwrap(), factor.view((n, k)).unwrap());
    let product = Gemm::new(&a, &b, &c.view_mut((m, n)).unwrap())
        .alpha(alpha)
        .beta(beta);
    let done = product.run();
    drop(product);
    done.unwrap_or_else(|e| panic!("{m}x{n}x{k}: {e}"));
    let mut right = old.clone();
    for x in &mut right[..(m * n) as usize] {
        // The sum of no products is 0, and 0 - 0 is 0.
        *x = if beta == 0.0 {
            0.0
        } else if beta == 1.0 {
            *x
        } else {
            0.0 + beta as f32 * *x
        };
    }
    assert!(
        same_bits(&c.download().unwrap(), &right),
        "{m}x{n}x{k}, alpha {alpha}, beta {beta}"
    );
}

/// The law of nothing: without M or N nothing happens; without K, or with alpha 0, C is scaled, and A and B are not read.
#[test]
fn without_products_c_is_scaled() {
    let mut cases = 0;
    for arch in [Arch::Sm70, Arch::Sm80, Arch::Sm90a] {
        let device = Device::simulator(arch);
        for beta in [0.0, 1.0, -2.0] {
            for extents in [
                [0, 4, 4],
                [4, 0, 4],
                [0, 0, 0],
                [5, 3, 0],
                [64, 40, 0],
                [0, 7, 0],
            ] {
                for alpha in [1.0, f64::NAN] {
                    scaled(&device, extents, alpha, beta);
                    cases += 1;
                }
            }
            scaled(&device, [5, 3, 2], 0.0, beta);
            scaled(&device, [128, 64, 32], 0.0, beta);
            cases += 2;
        }
    }
    println!("law without_products_c_is_scaled: {cases} cases");
}

#[test]
fn the_sentences_of_products_of_views() {
    let device = Device::simulator(Arch::Sm80);
    let a = device.zeros::<f32>(64).unwrap();
    let mut c = device.zeros::<f32>(64).unwrap();
    let mut said = |a: &View<'_, f32>, b: &View<'_, f32>, of_c: &str| {
        let c = ViewMut::new(&mut c, layout(of_c)).unwrap();
        let refused = gemm(a, b, &c).expect_err("it is refused");
        refused.to_string()
    };
    let view = |shape: (i64, i64)| a.view(shape).unwrap();
    assert_eq!(
        said(&view((4, 5)), &view((3, 6)), "(4,3):(3,1)"),
        "K is 5 in A and 6 in B: A is (M,K), B (N,K) and C (M,N)"
    );
    assert_eq!(
        said(&view((4, 5)), &view((3, 5)), "(3,4):(4,1)"),
        "M is 4 in A and 3 in C: A is (M,K), B (N,K) and C (M,N)"
    );
    assert_eq!(
        said(&view((4, 5)), &view((3, 5)), "(4,4):(4,1)"),
        "N is 3 in B and 4 in C: A is (M,K), B (N,K) and C (M,N)"
    );
    assert_eq!(
        said(&a.view(20).unwrap(), &view((3, 5)), "(4,3):(3,1)"),
        "A has the shape 20: a matrix has two modes, A (M,K), B (N,K) and C (M,N)"
    );
    assert_eq!(
        said(&view((4, 5)), &a.view((3, 5, 1)).unwrap(), "(4,3):(3,1)"),
        "B has the shape (3,5,1): a matrix has two modes, A (M,K), B (N,K) and C (M,N)"
    );
    assert_eq!(
        said(&view((4, 5)), &view((3, 5)), "(4,3):(0,1)"),
        "the destination (4,3):(0,1) has one element at several coordinates: which value stays would be a race"
    );
}
