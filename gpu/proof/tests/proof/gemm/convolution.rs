//! Convolutions: against loops on the host, under several schedules; which kernel takes which; what is refused.

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::{Convolution, ConvolutionProblem, Epilogue, Groups};
use colex_gpu::kernels::Compute;
use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan};
use colex_gpu::{Device, Error, Gemm, View, ViewMut};
use colex_layout::Layout;
use colex_proof::kernels::gemm::convolution::{check, check_small};
use colex_proof::soak::draws;
use colex_sim::{Schedule, SimOptions};
use half::bf16;

/// Every filter of 1 to 3 taps, at every pixel or every second, with padding or without, sums what the loops sum, bit for bit: by an
/// im2col tensor map (8 channels), and by a matrix that is written out (3 channels, and Ampere's kernel).
#[test]
fn law_small_convolutions_are_the_loops() {
    let mut cases = 0;
    for (arch, channels, filters) in [(Arch::Sm90a, 8, 8), (Arch::Sm90a, 3, 5), (Arch::Sm80, 8, 8)]
    {
        let device = Device::simulator(arch);
        let found = check_small(&device, channels, filters);
        cases += found.unwrap_or_else(|why| panic!("{arch}: {why}"));
    }
    println!("law convolution.small: {cases} cases");
}

/// So does every other: of any type, extents, asymmetric padding, dilation, strides of the views, factors, a bias and ReLU, and plan.
#[test]
fn law_convolutions_are_the_loops() {
    let mut cases = 0;
    for (i, arch) in [Arch::Sm90a, Arch::Sm80, Arch::Sm70]
        .into_iter()
        .enumerate()
    {
        for seed in 0..4 {
            let options = SimOptions::default().schedule(Schedule::from_seed(seed));
            let device = Device::simulator_with(arch, options);
            let rounds = draws([5, 2, 2][i]);
            let found = check(&device, 10 * i as u64 + seed, rounds);
            cases += found.unwrap_or_else(|why| panic!("{arch}, schedule {seed}: {why}"));
        }
    }
    println!("law convolution.loops: {cases} cases");
}

/// How a call of a convolution with these layouts begins.
fn said(arch: Arch, layouts: [&str; 3], padding: [i64; 2], method: Option<GemmMethod>) -> String {
    said_by(arch, layouts, (padding, 1), method)
}

/// The same of a filter that stands this many pixels apart.
fn said_by(
    arch: Arch,
    layouts: [&str; 3],
    (padding, stride): ([i64; 2], i64),
    method: Option<GemmMethod>,
) -> String {
    let device = Device::simulator(arch);
    let memory = device.zeros::<bf16>(1 << 16).expect("memory");
    let mut out = device.zeros::<bf16>(1 << 16).expect("memory");
    let [x, filters, y] = layouts;
    let x = View::new(&memory, x).expect("a view");
    let filters = View::new(&memory, filters).expect("a view");
    let y = ViewMut::new(&mut out, y).expect("a view");
    let convolution = Convolution::new(&x, &filters, &y).padding(padding);
    let product = convolution.stride([stride; 2]).product();
    let product = product.expect("a convolution");
    let product = match method {
        Some(method) => product.method(method),
        None => product,
    };
    let call = product.prepare().expect("a call");
    let map = call.built().is_some_and(|built| {
        let mut names = built.parameters().map(|parameter| parameter.name);
        names.any(|name| name == "A_positions_0")
    });
    let said = call.to_string();
    let first = said.split(' ').take(2).collect::<Vec<_>>().join(" ");
    format!("{first}{}", if map { ", im2col" } else { "" })
}

/// Filters of one tap are plain products; TMA loads what it can, and other activations are written out.
#[test]
fn convolutions_take_the_route_that_their_strides_allow() {
    let (x, y) = ("(2,4,4,16):(256,64,16,1)", "(2,4,4,8):(128,32,8,1)");
    let (three, one) = ("(8,3,3,16):(144,48,16,1)", "(8,1,1,16):(16,16,16,1)");
    let by = |layouts, padding| said(Arch::Sm90a, layouts, padding, None);
    assert_eq!(by([x, three, y], [1, 1]), "Hopper bf16, im2col");
    assert_eq!(by([x, one, y], [0, 0]), "Hopper bf16");
    // Pixels of a part of an image, in which no stride joins the rows.
    let part = "(2,4,4,16):(512,128,16,1)";
    assert_eq!(by([part, one, y], [0, 0]), "Hopper bf16, im2col");
    // A filter that stands 16 pixels apart, as of patches of an image.
    let patches = [
        "(1,32,32,8):(8192,256,8,1)",
        "(8,16,16,8):(2048,128,8,1)",
        "(1,2,2,8):(32,16,8,1)",
    ];
    let of_stride = |stride| said_by(Arch::Sm90a, patches, ([0, 0], stride), None);
    assert_eq!(of_stride(16), "write the");
    // Images whose pixels begin at 6 bytes, and channels that are apart.
    let three_channels = ["(2,4,4,3):(48,12,3,1)", "(8,3,3,3):(27,9,3,1)", y];
    assert_eq!(by(three_channels, [1, 1]), "write the");
    let apart = "(2,4,4,16):(256,4,1,16)";
    assert_eq!(by([apart, three, y], [1, 1]), "write the");
    let ampere = said(Arch::Sm90a, [x, three, y], [1, 1], Some(GemmMethod::Ampere));
    assert_eq!(ampere, "write the");
    assert_eq!(said(Arch::Sm80, [x, three, y], [1, 1], None), "write the");
}

/// The order of a sum does not depend on the batch: all plans that a batch-invariant convolution takes for any number of images have
/// one tile along K, and one part of it.
#[test]
fn law_batch_invariant_convolutions_sum_in_one_order() -> Result<(), Error> {
    let device = Device::simulator(Arch::Sm90a);
    let (mut cases, mut others) = (0, 0);
    for channels in (8..=104).step_by(8) {
        let filters = device.zeros::<bf16>(64 * 9 * channels as usize)?;
        let filters = filters.view((64, 3, 3, channels))?;
        let mut orders = Vec::new();
        for images in [1, 2, 7, 30, 64, 200, 500] {
            let x = device.zeros::<bf16>((images * 49 * channels) as usize)?;
            let mut y = device.zeros::<bf16>((images * 49 * 64) as usize)?;
            let x = x.view((images, 7, 7, channels))?;
            let y = y.view_mut((images, 7, 7, 64))?;
            let product = || Convolution::new(&x, &filters, &y).padding([1, 1]).product();
            let order = |plan: Option<&GemmPlan>| {
                let plan = plan.expect("a kernel");
                // A kernel in parts has one part of a tile that it does not divide.
                let tiles = [images * 49, 64].into_iter().zip([0, 1]);
                let tiles = tiles.map(|(extent, mode)| {
                    let tile = plan.tile[mode] * plan.cluster[mode];
                    (extent + tile - 1) / tile
                });
                let is_whole = plan.undivided >= tiles.product();
                let parts = if is_whole { 1 } else { plan.split };
                (plan.method, plan.tile[2], parts, plan.cluster[2])
            };
            let call = product()?.batch_invariant().prepare()?;
            orders.push(order(call.plan()));
            let usual = product()?.prepare()?;
            others += usize::from(order(usual.plan()) != orders[0]);
            cases += 1;
        }
        orders.dedup();
        assert_eq!(orders.len(), 1, "{channels} channels: {orders:?}");
    }
    // The law says something: the fastest plans have several orders.
    assert!(others > 0);
    println!("law convolution.invariant: {cases} cases");
    Ok(())
}

/// A convolution whose epilogue waits for flags takes a plan of convolutions: it is prepared, does not exchange A and B, and has the results
/// of the one that does not wait.
#[test]
fn law_convolutions_that_await_flags_are_those_that_do_not() -> Result<(), Error> {
    let device = Device::simulator(Arch::Sm90a);
    let sum = Epilogue::new(Ty::F32, |e| {
        (e.accumulator() + e.tensor("other", Ty::Bf16).to(Ty::F32)).to(Ty::Bf16)
    })?;
    let flags = device.upload(&[1_u32, 1])?;
    let mut swapped = 0;
    // Images, pixels along H and W, channels, filters, taps; whether the results are compared.
    for ([n, size, c, k, taps], runs) in [
        ([1, 9, 1024, 4096, 2], false),
        ([2, 9, 256, 2048, 2], false),
        ([1, 6, 16, 24, 3], true),
        ([3, 5, 72, 40, 2], true),
    ] {
        let out = size - taps + 1;
        let numbers = |count: i64| (0..count).map(|i| bf16::from_f64((i * 37 % 11 - 5) as f64));
        let numbers = |count: i64| numbers(count).collect::<Vec<_>>();
        let x = device.upload(&numbers(n * size * size * c))?;
        let filters = device.upload(&numbers(k * taps * taps * c))?;
        let other = device.upload(&numbers(n * out * out * k))?;
        let x = x.view((n, size, size, c))?;
        let filters = filters.view((k, taps, taps, c))?;
        let strides = ((k, out * k, out * out * k), 1);
        let other = View::new(&other, Layout::new(((out, out, n), k), strides)?)?;
        for invariant in [false, true] {
            let mut results = Vec::new();
            for awaits in [false, true] {
                let mut y = device.zeros::<bf16>((n * out * out * k) as usize)?;
                let to = y.view_mut((n, out, out, k))?;
                let product = Convolution::new(&x, &filters, &to).product()?;
                let mut product = product.epilogue(&sum).tensor("other", &other);
                if invariant {
                    product = product.batch_invariant();
                }
                let flags = flags.view(2)?;
                if awaits {
                    product = product.awaits(&flags);
                }
                let call = product.prepare()?;
                let plan = call.plan().expect("a kernel");
                assert!(!plan.swap, "{plan}");
                // What a plain product of these extents does.
                let of_k = taps * taps * c;
                let a = device.zeros::<bf16>((n * out * out * of_k) as usize)?;
                let b = device.zeros::<bf16>((k * of_k) as usize)?;
                let mut c = device.zeros::<bf16>((n * out * out * k) as usize)?;
                let (a, b) = (a.view((n * out * out, of_k))?, b.view((k, of_k))?);
                let plain = Gemm::new(&a, &b, &c.view_mut((n * out * out, k))?).prepare()?;
                swapped += usize::from(plain.plan().is_some_and(|plan| plan.swap));
                if runs {
                    call.run(&device)?;
                    results.push(y.download()?);
                }
            }
            let same = results.windows(2).all(|pair| pair[0] == pair[1]);
            assert!(same, "{n} images of {size} by {size}, {c} channels");
        }
    }
    // The law says something: a plain product of these extents exchanges A and B.
    assert!(swapped > 0);
    Ok(())
}

/// Convolutions without images, filters or channels are computed.
#[test]
fn convolutions_without_elements_are_computed() -> Result<(), Error> {
    for arch in [Arch::Sm90a, Arch::Sm80] {
        let device = Device::simulator(arch);
        let nothing = device.zeros::<bf16>(0)?;
        let some = device.zeros::<bf16>(512)?;
        let mut y = device.upload(&[bf16::ONE; 32])?;
        let (x, filters) = (nothing.view((2, 4, 4, 0))?, nothing.view((2, 3, 3, 0))?);
        Convolution::new(&x, &filters, &y.view_mut((2, 2, 2, 2))?).run()?;
        assert_eq!(
            y.download()?[..17],
            [[bf16::ZERO; 16].as_slice(), &[bf16::ONE]].concat()[..]
        );
        let (x, filters) = (nothing.view((0, 4, 4, 8))?, some.view((2, 3, 3, 8))?);
        let call = Convolution::new(&x, &filters, &y.view_mut((0, 2, 2, 2))?).prepare()?;
        assert_eq!(call.to_string(), "nothing to do");
        let (x, filters) = (some.view((1, 4, 4, 8))?, nothing.view((0, 3, 3, 8))?);
        let call = Convolution::new(&x, &filters, &y.view_mut((1, 2, 2, 0))?).prepare()?;
        assert_eq!(call.to_string(), "nothing to do");
        let x = some.view((1, 4, 4, 8))?;
        let filters = some.view((2, 3, 3, 8))?;
        let product = Convolution::new(&x, &filters, &y.view_mut((1, 2, 2, 2))?).product()?;
        product.alpha(0.0).run()?;
        assert_eq!(y.download()?[..8], [bf16::ZERO; 8]);
    }
    Ok(())
}

/// The sentence with which a convolution of views is refused.
fn refused(
    layouts: [&str; 3],
    change: fn(Convolution<'_, bf16, bf16>) -> Convolution<'_, bf16, bf16>,
) -> String {
    let device = Device::simulator(Arch::Sm90a);
    let memory = device.zeros::<bf16>(1 << 16).expect("memory");
    let mut out = device.zeros::<bf16>(1 << 16).expect("memory");
    let [x, filters, y] = layouts;
    let x = View::new(&memory, x).expect("a view");
    let filters = View::new(&memory, filters).expect("a view");
    let y = ViewMut::new(&mut out, y).expect("a view");
    let error = change(Convolution::new(&x, &filters, &y)).prepare();
    let error = error.expect_err("it is refused");
    assert!(error.is_convolution_refused(), "{error}");
    error.to_string()
}

#[test]
fn refused_convolutions_say_what_would_be_right() {
    let (x, filters, y) = (
        "(2,4,4,16):(256,64,16,1)",
        "(8,3,3,16):(144,48,16,1)",
        "(2,2,2,8):(32,16,8,1)",
    );
    let of = |layouts| refused(layouts, |convolution| convolution);
    let sentences = [
        of(["(2,4,64):(256,64,1)", filters, y]),
        of(["((2,2),4,4,16):((256,4096),64,16,1)", filters, y]),
        of(["(2,4,4,24):(384,96,24,1)", filters, y]),
        of([x, filters, "(2,4,4,8):(128,32,8,1)"]),
        refused([x, filters, y], |convolution| convolution.stride([0, 1])),
        refused([x, filters, y], |convolution| convolution.dilation([1, 2])),
        refused([x, filters, y], |convolution| {
            convolution.padding_of([[-1, 0], [0, 0]])
        }),
        refused([x, filters, y], |convolution| {
            convolution.padding([0, 1 << 24])
        }),
    ];
    assert_eq!(
        sentences,
        [
            "convolution: the tensor of activations has the shape (2,4,64): it must have four modes, (N,H,W,C)",
            "convolution: mode 0 of the tensor of activations, ((2,2),4,4,16):((256,4096),64,16,1), has several strides: each mode \
             of (N,H,W,C) must have one",
            "convolution: the activations have 24 channels, and the filters 16",
            "convolution: the output has the shape (2,4,4,8), and the filter has 2x2 positions in each of 2 images, and 8 filters: \
             it must be (2,2,2,8)",
            "convolution: the stride along H is 0: it must be 1 to 64",
            "convolution: the filter reaches over 5 pixels along W, and the padded image has 4",
            "convolution: the padding before the first pixel along H is -1: it must be 0 to 16777215",
            "convolution: the padding before the first pixel along W is 16777216: it must be 0 to 16777215",
        ]
    );
}

/// What else a call refuses: other plans than those of Hopper's kernel, groups, 3xTF32, overlap.
#[test]
fn refused_plans_of_convolutions_say_what_would_be_right() -> Result<(), Error> {
    let device = Device::simulator(Arch::Sm90a);
    let memory = device.zeros::<bf16>(4096)?;
    let numbers = device.zeros::<u32>(3)?;
    let mut out = device.zeros::<bf16>(256)?;
    let (x, filters) = (memory.view((2, 4, 4, 16))?, memory.view((8, 3, 3, 16))?);
    let y = out.view_mut((2, 4, 4, 8))?;
    let product = Convolution::new(&x, &filters, &y)
        .padding([1, 1])
        .product()?;
    let by_plan = |change: fn(&mut GemmPlan)| {
        let call = product.prepare_with(|operands, _| {
            let mut plan = GemmPlan::new(GemmMethod::Hopper, operands);
            change(&mut plan);
            Ok(plan)
        });
        call.expect_err("it is refused").to_string()
    };
    let groups = product.clone().groups(Groups::Rows, &numbers.view(3)?);
    let three = product.clone().compute(Compute::Tf32x3);
    assert_eq!(
        [
            by_plan(|plan| *plan = GemmPlan::new(GemmMethod::Ampere, plan.operands)),
            by_plan(|plan| (plan.cluster, plan.swap) = ([1; 3], true)),
            by_plan(|plan| {
                (plan.cluster, plan.tile, plan.gather) = ([1; 3], [128, 128, 64], true);
            }),
            groups.prepare().expect_err("it is refused").to_string(),
            three.prepare().expect_err("it is refused").to_string(),
        ],
        [
            "convolution: the plan is one of the Ampere kernel: the Hopper kernel loads by im2col tensor maps; \
             `.method(Ampere)` writes the matrix out",
            "convolution: the plan swaps A and B: the activations are A",
            "convolution: the plan loads by threads: activations are loaded by im2col tensor maps",
            "convolution: its product has no groups",
            "convolution: none is computed in 3xTF32: tf32 and f32 are",
        ]
    );
    Ok(())
}

/// Numbers that no convolution has are refused, however large, and printed.
#[test]
fn hostile_numbers_of_a_convolution_are_refused() {
    let usual = ConvolutionProblem::new(2, [8, 8], 16, 8, [3, 3]);
    let numbers = [i64::MIN, -1, 0, 1 << 24, 1 << 31, 1 << 62, i64::MAX];
    let mut refused = 0;
    for number in numbers {
        for d in 0..2 {
            for field in 0..9 {
                let mut problem = usual;
                match field {
                    0 => problem.images = number,
                    1 => problem.channels = number,
                    2 => problem.filters = number,
                    3 => problem.size[d] = number,
                    4 => problem.taps[d] = number,
                    5 => problem.stride[d] = number,
                    6 => problem.padding[d][0] = number,
                    7 => problem.padding[d][1] = number,
                    _ => problem.dilation[d] = number,
                }
                let checks = [
                    problem.check().err(),
                    problem.positions().err(),
                    problem.product().err(),
                ];
                let text = problem.to_string();
                if let Some(error) = &checks[0] {
                    refused += 1;
                    assert!(text.ends_with(&error.to_string()), "{text}");
                }
                assert!(checks.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
            }
        }
    }
    assert_eq!(refused, 110);
}
