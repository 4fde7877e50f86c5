//! Products in groups: against the products of their parts on the host, under several schedules; with epilogues; what is refused.

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::{Epilogue, GroupProblem, Groups};
use colex_gpu::kernels::Compute;
use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan};
use colex_gpu::{Device, Error, Gemm, View, ViewMut, testing};
use colex_layout::Layout;
use colex_proof::kernels::gemm::groups::check_groups;
use colex_proof::soak::draws;
use colex_sched::pipeline::Schedule::Pingpong;
use colex_sim::{Schedule, SimOptions};
use half::bf16;

/// Each group is the product of its own rows, or of its own part of K, bit for bit; what belongs to no group is neither multiplied
/// nor written, for numbers that are no offsets too.
#[test]
fn law_groups_are_the_products_of_their_parts() {
    let mut cases = 0;
    for (i, arch) in [Arch::Sm90a, Arch::Sm80, Arch::Sm70]
        .into_iter()
        .enumerate()
    {
        for seed in 0..4 {
            let options = SimOptions::default().schedule(Schedule::from_seed(seed));
            let device = Device::simulator_with(arch, options);
            let rounds = draws([5, 2, 2][i]);
            let found = check_groups(&device, 10 * i as u64 + seed, rounds);
            cases += found.unwrap_or_else(|why| panic!("{arch}, schedule {seed}: {why}"));
        }
    }
    println!("law groups.products: {cases} cases");
}

/// An epilogue has the rows of all groups, and the products of all parts of K: a tensor by rows and columns, two right factors, and an
/// output beside C, in whole and in partial tiles, under every schedule.
#[test]
fn law_an_epilogue_has_the_rows_of_its_groups() {
    const ROWS: i64 = 150;
    // A whole number of vectors.
    const LEADING: i64 = 152;
    let formula = Epilogue::new(Ty::F32, |e| {
        let [bias, scale] = ["bias", "scale"].map(|name| e.tensor(name, Ty::F32));
        let x = e.accumulator() + e.second_accumulator() * scale + bias;
        e.output("negative", -x.clone());
        x
    });
    let formula = formula.expect("an epilogue");
    let offsets = [2_u32, 70, 70, 140];
    let number = |i: i64, of: i64| ((i * 7 + i / 11) % of - of / 2) as f64;
    let halves = |count: i64, of: i64| -> Vec<bf16> {
        (0..count).map(|i| bf16::from_f64(number(i, of))).collect()
    };
    for kind in Groups::ALL {
        let is_along_k = kind == Groups::AlongK;
        let n = 40_i64;
        let (m, k, leading) = if is_along_k {
            (72, ROWS, LEADING)
        } else {
            (ROWS, 24, 24)
        };
        let matrices = |is_one: bool| if is_one { 1 } else { 3 };
        let of_a = matrices(kind != Groups::Masked);
        let of_b = matrices(is_along_k);
        let of_c = matrices(kind == Groups::Rows);
        let (a, b, b2) = (
            halves(of_a * m * leading, 5),
            halves(of_b * n * leading, 7),
            halves(of_b * n * leading, 3),
        );
        let bias: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let scale: Vec<f32> = (0..of_c * m).map(|i| (i % 3) as f32).collect();
        let numbers: Vec<u32> = match kind {
            Groups::Masked => vec![150, 0, 65],
            _ => offsets.to_vec(),
        };
        let spans = match kind {
            Groups::Masked => [0..150, 0..0, 0..65],
            _ => [2..70, 70..70, 70..140],
        };
        let mut expected = vec![f32::NAN; (of_c * m * n) as usize];
        for (group, span) in (0..).zip(spans) {
            let (rows, columns) = if is_along_k {
                (0..m, span)
            } else {
                (span, 0..k)
            };
            let own = |count: i64| if count == 1 { 0 } else { group };
            for (i, j) in rows.flat_map(|i| (0..n).map(move |j| (i, j))) {
                let sum = |right: &[bf16]| -> f64 {
                    let term = |l: i64| {
                        let a = a[((own(of_a) * m + i) * leading + l) as usize];
                        let b = right[((own(of_b) * n + j) * leading + l) as usize];
                        a.to_f64() * b.to_f64()
                    };
                    columns.clone().map(term).sum()
                };
                let row = own(of_c) * m + i;
                let x = sum(&b) + sum(&b2) * f64::from(scale[row as usize]) + j as f64;
                expected[(row * n + j) as usize] = x as f32;
            }
        }
        let shape = |[rows, columns]: [i64; 2], [down, across]: [i64; 2], count: i64| {
            if count == 1 {
                Layout::new((rows, columns), (down, across))
            } else {
                Layout::new((rows, columns, count), (down, across, rows * down))
            }
            .expect("extents")
        };
        let found = testing::in_every_schedule(Arch::Sm90a, 3, |device| {
            let (a, b, b2) = (device.upload(&a)?, device.upload(&b)?, device.upload(&b2)?);
            let (bias, scale) = (device.upload(&bias)?, device.upload(&scale)?);
            let numbers = device.upload(&numbers)?;
            let count = expected.len();
            let mut c = device.upload(&vec![f32::NAN; count])?;
            let mut negative = device.upload(&vec![f32::NAN; count])?;
            {
                let left = View::new(&a, shape([m, k], [leading, 1], of_a))?;
                let right = shape([n, k], [leading, 1], of_b);
                let (b, b2) = (View::new(&b, &right)?, View::new(&b2, &right)?);
                let c = ViewMut::new(&mut c, shape([m, n], [n, 1], of_c))?;
                let negative = ViewMut::new(&mut negative, shape([m, n], [n, 1], of_c))?;
                let bias = View::new(&bias, shape([m, n], [0, 1], of_c))?;
                let scale = View::new(&scale, shape([m, n], [1, 0], of_c))?;
                let product = Gemm::new(&left, &b, &c).b2(&b2).epilogue(&formula);
                let product = product.tensor("bias", &bias).tensor("scale", &scale);
                let product = product.output("negative", &negative);
                let count = numbers.len() as i64;
                let call = product.groups(kind, &numbers.view(count)?).prepare()?;
                let plan = call.plan().expect("a product");
                assert_eq!((plan.method, plan.gather), (GemmMethod::Hopper, false));
                call.run(device)?;
            }
            let bits = |all: Vec<f32>| all.into_iter().map(f32::to_bits).collect::<Vec<u32>>();
            let negated = negative.download()?.into_iter().map(|x| -x).collect();
            Ok((bits(c.download()?), bits(negated)))
        });
        let (c, negated) = found.unwrap_or_else(|why| panic!("{kind}: {why}"));
        for (i, expected) in expected.iter().enumerate() {
            let found = [c[i], negated[i]].map(f32::from_bits);
            let is_right = |x: &f32| x == expected || x.is_nan() && expected.is_nan();
            assert!(
                found.iter().all(is_right),
                "{kind}: element {i}: {found:?}, not {expected}"
            );
        }
    }
}

/// Groups of no row, no group and a K of 0 are products too.
#[test]
fn groups_without_elements_are_computed() -> Result<(), Error> {
    for arch in [Arch::Sm90a, Arch::Sm80] {
        let device = Device::simulator(arch);
        let nothing = device.zeros::<bf16>(0)?;
        let numbers = device.upload(&[0_u32, 1, 2])?;
        let mut c = device.upload(&[bf16::ONE; 4])?;
        let (rows, right) = (nothing.view((2, 0))?, nothing.view((2, 0, 2))?);
        let offsets = numbers.view(3)?;
        Gemm::new(&rows, &right, &c.view_mut((2, 2))?)
            .groups(Groups::Rows, &offsets)
            .run()?;
        assert_eq!(c.download()?, [bf16::ZERO; 4]);
        let mut c = device.upload(&[bf16::ONE; 8])?;
        let gradients = ViewMut::new(&mut c, "(2,2,2):(2,1,4)")?;
        Gemm::new(&rows, &rows, &gradients)
            .groups(Groups::AlongK, &offsets)
            .run()?;
        assert_eq!(c.download()?, [bf16::ZERO; 8]);
        let a = device.upload(&[bf16::ONE; 4])?;
        let mut c = device.upload(&[bf16::ONE; 4])?;
        let none = nothing.view((2, 2, 0))?;
        let call = Gemm::new(&a.view((2, 2))?, &none, &c.view_mut((2, 2))?)
            .groups(Groups::Rows, &numbers.view(1)?)
            .prepare()?;
        assert_eq!(call.to_string(), "nothing to do");
    }
    Ok(())
}

/// The layouts of A, B, C and the numbers of a call.
type CallLayouts = [&'static str; 4];

/// Four rows of 8 numbers in two groups, with 16 columns each.
const PLAIN: CallLayouts = ["(4,8):(8,1)", "(16,8,2):(8,1,128)", "(4,16):(16,1)", "3:1"];

/// The same of masked rows.
const MASKED: CallLayouts = [
    "(4,8,2):(8,1,32)",
    "(16,8,2):(8,1,128)",
    "(4,16,2):(16,1,64)",
    "2:1",
];

/// The sentence with which a call is refused: by a plan that is changed, if a change is given.
fn refused(
    kind: Groups,
    layouts: CallLayouts,
    change: fn(Gemm<'_, bf16, f32>) -> Gemm<'_, bf16, f32>,
    plan: Option<fn(&mut GemmPlan)>,
) -> String {
    let device = Device::simulator(Arch::Sm90a);
    let memory = device.zeros::<bf16>(4096).expect("memory");
    let mut c = device.zeros::<f32>(4096).expect("memory");
    let numbers = device.zeros::<u32>(64).expect("memory");
    let [a, b, of_c, of_numbers] = layouts;
    let a = View::new(&memory, a).expect("a view");
    let b = View::new(&memory, b).expect("a view");
    let c = ViewMut::new(&mut c, of_c).expect("a view");
    let numbers = View::new(&numbers, of_numbers).expect("a view");
    let product = change(Gemm::new(&a, &b, &c).groups(kind, &numbers));
    let call = match plan {
        None => product.prepare(),
        Some(plan) => product.prepare_with(|operands, _| {
            let mut wanted = GemmPlan::new(GemmMethod::Hopper, operands);
            plan(&mut wanted);
            Ok(wanted)
        }),
    };
    let error = call.expect_err("it is refused");
    assert!(error.is_groups_refused(), "{error}");
    error.to_string()
}

/// The product with an epilogue that sums its rows.
fn sums(call: Gemm<'_, bf16, f32>) -> Gemm<'_, bf16, f32> {
    let epilogue = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator();
        e.row_sums("sums", x.clone());
        x
    });
    call.epilogue(&epilogue.expect("an epilogue"))
}

#[test]
fn refused_groups_say_what_would_be_right() {
    let [a, b, c, numbers] = PLAIN;
    let of = |kind, layouts| refused(kind, layouts, |call| call, None);
    let by_plan = |plan| refused(Groups::Rows, PLAIN, |call| call, Some(plan));
    let sentences = [
        of(Groups::Rows, [a, b, c, "3:2"]),
        of(Groups::Rows, [a, b, c, "4:1"]),
        of(Groups::Masked, [a, b, c, "2:1"]),
        of(Groups::AlongK, PLAIN),
        of(Groups::Rows, ["(4,8):(32,2)", b, c, numbers]),
        of(Groups::Rows, [a, b, "(4,16):(64,2)", numbers]),
        of(Groups::Rows, [a, "(16,8,(2,2)):(8,1,(128,512))", c, "5:1"]),
        refused(Groups::Rows, PLAIN, sums, None),
        refused(Groups::Masked, MASKED, sums, None),
        by_plan(|plan| (plan.cluster, plan.swap) = ([1; 3], true)),
        by_plan(|plan| {
            (plan.cluster, plan.tile, plan.gather) = ([1; 3], [128, 128, 64], true);
        }),
        by_plan(|plan| (plan.cluster, plan.split) = ([1; 3], 2)),
        by_plan(|plan| {
            (plan.schedule, plan.tile, plan.warps) = (Pingpong, [64, 128, 64], [1, 1]);
        }),
    ];
    assert_eq!(
        sentences,
        [
            "groups: the vector of offsets is 3:2: it must be contiguous",
            "groups: B has 2 behind its matrix, and there are 3 groups by the vector of offsets: A is (M,K), B (N,K,G) and C (M,N) \
             for groups of rows",
            "groups: A has no mode behind its matrix, and there are 2 groups by the vector of counts: A is (M,K,G), B (N,K,G) and C \
             (M,N,G) for groups of masked rows",
            "groups: B has 2 behind its matrix, and there are 2 groups by the vector of offsets: A is (M,K), B (N,K) and C (M,N,G) \
             for groups along K",
            "groups: A, (4,8):(32,2), has no contiguous mode of a matrix with rows that are apart: no kernel takes it, and \
             matrices of groups are not packed",
            "groups: C, (4,16):(64,2), has no contiguous mode of a matrix with rows that are apart: no kernel takes it, and \
             matrices of groups are not packed",
            "groups: mode 2 of B, (16,8,(2,2)):(8,1,(128,512)), has several strides: give the groups one",
            "groups: the epilogue reduces rows or columns, some of which belong to no group: an output holds what is reduced",
            "groups: the epilogue reduces rows or columns, some of which belong to no group: an output holds what is reduced",
            "groups: the plan swaps A and B: groups have their rows in A",
            "groups: the plan loads by threads: the Hopper kernel loads groups of rows by TMA",
            "groups: the plan divides K into 2 parts for 1 blocks of a cluster each: K of a group is not divided",
            "groups: the plan is a pingpong schedule, whose consumers know the tile after theirs: tiles of groups take a \
             cooperative one",
        ]
    );
}

/// What a description says of extents and numbers of groups that no product has.
#[test]
fn spans_of_impossible_problems_are_empty() {
    let problem = GroupProblem {
        kind: Groups::Masked,
        groups: 2,
        m: -5,
        n: 1,
        k: 1,
    };
    assert_eq!(problem.spans(&[3, 4]), [0..0, 0..0]);
    for kind in Groups::ALL {
        let groups = i64::MAX;
        let all = GroupProblem {
            kind,
            groups,
            ..problem
        };
        assert_eq!(all.spans(&[]).len(), 1 << 16);
    }
}

/// Threads that load a part of K from any element on have no vectors along it.
#[test]
fn vectors_along_parts_of_k_are_refused_for_threads() -> Result<(), Error> {
    let device = Device::simulator(Arch::Sm90a);
    let (a, offsets) = (device.zeros::<bf16>(128)?, device.zeros::<u32>(3)?);
    let mut c = device.zeros::<f32>(512)?;
    let a = a.view((16, 8))?;
    let c = ViewMut::new(&mut c, "(16,16,2):(16,1,256)")?;
    let product = Gemm::new(&a, &a, &c).groups(Groups::AlongK, &offsets.view(3)?);
    let by_threads = product.prepare_with(|operands, _| {
        let mut plan = GemmPlan::new(GemmMethod::Hopper, operands);
        (plan.cluster, plan.tile, plan.gather) = ([1; 3], [128, 128, 64], true);
        Ok(plan)
    });
    assert_eq!(
        by_threads.expect_err("it is refused").to_string(),
        "the plan was made for another product: A is read by 8 elements in the plan and no more than 1 can be in the call"
    );
    Ok(())
}

/// What else a call refuses: no offsets, 3xTF32, and a C that overlaps the numbers.
#[test]
fn refused_numbers_say_what_would_be_right() -> Result<(), Error> {
    let device = Device::simulator(Arch::Sm90a);
    let memory = device.zeros::<f32>(512)?;
    let mut c = device.zeros::<f32>(64)?;
    let numbers = device.zeros::<u32>(3)?;
    let a = memory.view((4, 8))?;
    let b = View::new(&memory, "(16,8,2):(8,1,128)")?;
    let product = Gemm::new(&a, &b, &c.view_mut((4, 16))?);
    let refused = |product: Gemm<'_, f32, f32>, count: i64| {
        let numbers = numbers.view(count).expect("a view");
        let error = product.groups(Groups::Rows, &numbers).prepare();
        error.expect_err("it is refused").to_string()
    };
    assert_eq!(
        [
            refused(product.clone(), 0),
            refused(product.clone().compute(Compute::Tf32x3), 3),
        ],
        [
            "groups: the vector of offsets is empty: G groups have G + 1 offsets",
            "groups: no product in groups is computed in 3xTF32: tf32 and f32 are",
        ]
    );
    // A device of another simulator.
    let other = Device::simulator(Arch::Sm90a).zeros::<u32>(3)?;
    let error = product.groups(Groups::Rows, &other.view(3)?).prepare();
    let error = error.expect_err("it is refused").to_string();
    assert!(error.contains("the vector of offsets"), "{error}");
    Ok(())
}
