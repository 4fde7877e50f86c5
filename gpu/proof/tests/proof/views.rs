//! Products of views: any strides, any nesting, extents of 0, factors of 0.

use colex_atom::Arch;
use colex_gpu::{Buffer, Device, Gemm, View, ViewMut, gemm};
use colex_layout::Layout;
use colex_proof::kernels::views::{check, same_bits};

fn layout(text: &str) -> Layout {
    text.parse().expect("a layout")
}

/// The law: a product of views is the sum over K at every coordinate, at any strides, and it writes nothing else.
#[test]
fn a_product_of_views_is_the_sum_at_every_coordinate() {
    let mut cases = 0;
    for (seed, arch) in [(5, Arch::Sm70), (6, Arch::Sm80), (7, Arch::Sm90a)] {
        let device = Device::simulator(arch);
        let packed = check(&device, seed, 24).unwrap_or_else(|said| panic!("{arch}: {said}"));
        // Each way was taken: A, B, C read, C written.
        let least = packed.before.into_iter().chain([packed.after]).min();
        assert!(least >= Some(2), "{packed:?}");
        cases += 24;
    }
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
        "A has the shape 20: a matrix has two modes, A (M,K), B (N,K) and C (M,N), and further ones are a batch"
    );
    assert_eq!(
        said(&view((4, 5)), &a.view((3, 5, 1)).unwrap(), "(4,3):(3,1)"),
        "batch: the modes behind those of the matrix are 1 in B and none in C: all three have the same, of stride 0 where one \
         matrix serves all products"
    );
    assert_eq!(
        said(&view((4, 5)), &view((3, 5)), "(4,3):(0,1)"),
        "the destination (4,3):(0,1) has one element at several coordinates: which value stays would be a race"
    );
}

/// A view whose modes have one element makes a tensor map, with legal strides of its own.
#[test]
fn law_small_views_make_tensor_maps() {
    let device = Device::simulator(Arch::Sm90a);
    let (taken, refused) = colex_proof::kernels::maps::check(&device).unwrap();
    assert!(taken > 100 && refused > 50, "{taken} {refused}");
    println!("law launch.small_maps: {} cases", taken + refused);
}
