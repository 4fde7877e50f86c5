//! Selections by the kernels of the library against the host.

use colex_atom::{Arch, Ty};
use colex_gpu::reduce::top_k::{TopK, TopKPlan, TopKProblem, reference, top_k};
use colex_gpu::sim::{Schedule, SimOptions};
use colex_gpu::testing::{self, Output};
use colex_gpu::{Device, Error, ViewMut};
use colex_layout::Layout;
use colex_proof::soak::draws;
use colex_proof::sweep::Random;

fn simulator(arch: Arch, seed: u64) -> Device {
    let options = SimOptions::default().schedule(Schedule::from_seed(seed));
    Device::simulator_with(arch, options)
}

/// How many cases the law draws for each architecture.
fn rounds() -> usize {
    draws(15)
}

/// Types, shapes, modes, strides, alignments, equal elements, NaN and infinities, both directions, and plans, under several schedules.
#[test]
fn law_selections_are_those_of_the_host() {
    let mut elements = 0;
    for (i, arch) in [Arch::Sm80, Arch::Sm90a, Arch::Sm70]
        .into_iter()
        .enumerate()
    {
        let device = simulator(arch, i as u64);
        let found = colex_proof::kernels::top_k::check(&device, 90 + i as u64, rounds());
        elements += found.unwrap_or_else(|why| panic!("{arch}: {why}"));
    }
    println!("law top_k: {} cases, {elements} elements", 3 * rounds());
}

/// The values and indices of a plan for selections from the rows of a matrix, under several schedules.
fn result(
    [rows, columns]: [i64; 2],
    (k, smallest): (i64, bool),
    x: &[f32],
    plan: impl Fn(TopKPlan) -> TopKPlan,
) -> (Vec<u32>, Vec<i32>) {
    let count = (rows * k) as usize;
    let found = testing::in_every_schedule(Arch::Sm80, 4, |device| {
        let x = device.upload(x)?;
        let mut values = Output::<f32>::new(device, count)?;
        let mut indices = Output::<i32>::new(device, count)?;
        {
            let x = x.view((rows, columns))?;
            let (values, indices) = (
                values.buffer().view_mut((rows, k))?,
                indices.buffer().view_mut((rows, k))?,
            );
            let call = TopK::new(&x, 1, &values, &indices);
            let call = if smallest { call.smallest() } else { call };
            let call = call.prepare_with(|problem| Ok(plan(TopKPlan::fastest(problem))))?;
            call.run(device)?;
            call.run(device)?;
        }
        let bits = values.elements()?.iter().map(|x| x.to_bits()).collect();
        Ok((bits, indices.elements()?))
    });
    found.unwrap_or_else(|why| panic!("{k} of {rows} by {columns}: {why}"))
}

/// What the host selects.
fn wanted(columns: i64, (k, smallest): (i64, bool), x: &[f32]) -> (Vec<u32>, Vec<i32>) {
    let (mut values, mut indices) = (Vec::new(), Vec::new());
    for row in x.chunks(columns as usize) {
        let numbers: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
        for at in reference::indices(&numbers, k as usize, smallest) {
            values.push(row[at].to_bits());
            indices.push(at as i32);
        }
    }
    (values, indices)
}

/// Threads, accesses, registers, slots, digits and parts, each under several schedules: the same bits twice, those of the host.
#[test]
fn law_plans_of_selections_agree() {
    let (rows, columns) = (2, 700);
    let x: Vec<f32> = (0..rows * columns)
        .map(|i| match i % 97 {
            0 => f32::NAN,
            1 => -0.0,
            2 => 0.0,
            3 => f32::NEG_INFINITY,
            // Many equal elements, and a few that are none.
            _ => (i * 7919 % 61) as f32 / 8.0 - 3.0,
        })
        .collect();
    let mut cases = 0;
    for smallest in [false, true] {
        for k in [1, 20, 64] {
            let want = wanted(columns, (k, smallest), &x);
            let with = |threads, accesses, held, slots, digit, parts| {
                result([rows, columns], (k, smallest), &x, move |plan| TopKPlan {
                    threads,
                    accesses,
                    held,
                    slots,
                    digit,
                    parts,
                    ..plan
                })
            };
            let found = [
                result([rows, columns], (k, smallest), &x, |plan| plan),
                with(32, 1, false, 64, 4, 1),
                with(64, 3, true, 64, 8, 1),
                with(128, 2, true, 1024, 0, 1),
                with(32, 2, false, 128, 11, 1),
                with(32, 2, false, 64, 8, 3),
            ];
            for (i, found) in found.iter().enumerate() {
                assert_eq!(*found, want, "k {k}, smallest {smallest}, plan {i}");
                cases += 1;
            }
        }
    }
    println!("law top_k.plans: {cases} cases");
}

/// As many elements as a call selects, of a row that one block reads in several turns, and of one that several share.
#[test]
fn law_the_most_elements_are_selected() {
    let mut cases = 0;
    let columns = 20_000;
    let x: Vec<f32> = (0..columns)
        .map(|i| (i * 7919 % 15_013) as f32 - 7000.0)
        .collect();
    let device = simulator(Arch::Sm90a, 5);
    for (k, parts) in [(2048, 1), (4096, 1), (2048, 2)] {
        let memory = device.upload(&x).expect("memory");
        let mut values = Output::<f32>::new(&device, k as usize).expect("memory");
        let mut indices = Output::<i32>::new(&device, k as usize).expect("memory");
        {
            let x = memory.view(columns).expect("a view");
            let values = values.buffer().view_mut(k).expect("a view");
            let indices = indices.buffer().view_mut(k).expect("a view");
            let call = TopK::new(&x, 0, &values, &indices).prepare_with(|problem| {
                let plan = TopKPlan::fastest(problem);
                Ok(TopKPlan {
                    accesses: 2,
                    held: false,
                    parts,
                    ..plan
                })
            });
            call.expect("a call").run(&device).expect("a run");
        }
        let (values, indices) = (values.elements(), indices.elements());
        let bits: Vec<u32> = (values.expect("values").iter().map(|x| x.to_bits())).collect();
        let want = wanted(columns, (k, false), &x);
        assert!(bits == want.0 && indices.expect("indices") == want.1, "{k}");
        cases += 1;
    }
    println!("law top_k.most: {cases} cases");
}

/// What is wrong with a number of elements that is too large is that number, and no stride that follows from it.
#[test]
fn law_numbers_of_selected_elements_are_taken_or_refused() {
    let mut cases = 0;
    for columns in [1, 1000, 5000] {
        let most = i64::min(columns, 4096);
        for k in [
            i64::MIN,
            -1,
            0,
            1,
            1000,
            1001,
            4096,
            4097,
            1 << 30,
            1 << 40,
            i64::MAX,
        ] {
            match TopKProblem::new(Ty::F32, [64, columns], k) {
                Ok(problem) => {
                    assert!((1..=most).contains(&k), "{problem}");
                    assert_eq!(problem.k(), k);
                }
                Err(error) => {
                    assert!(!(1..=most).contains(&k), "{error}");
                    let must = if k > most {
                        format!("at most {most}")
                    } else {
                        "at least 1".to_string()
                    };
                    let expected =
                        format!("the {k} largest of {columns} elements: there must be {must}");
                    assert_eq!(error.to_string(), expected);
                }
            }
            cases += 1;
        }
    }
    println!("law top_k.k: {cases} cases");
}

#[test]
fn refused_selections_say_what_would_be_right() {
    let device = Device::simulator(Arch::Sm90a);
    let memory = device.zeros::<f32>(60_000).expect("memory");
    let doubles = device.zeros::<f64>(6000).expect("memory");
    let mut output = device.zeros::<f32>(60_000).expect("memory");
    let mut of_doubles = device.zeros::<f64>(6000).expect("memory");
    let mut whole = device.zeros::<i32>(60_000).expect("memory");
    let x = memory.view((20, 300)).expect("a view");
    let error = |result: Result<(), Error>| result.expect_err("it is refused").to_string();
    let mut found = Vec::new();
    for (mode, values, indices) in [
        (2, (20, 5), (20, 5)),
        (1, (5, 20), (20, 5)),
        (1, (20, 5), (20, 6)),
        (1, (20, 301), (20, 301)),
    ] {
        let values = output.view_mut(values).expect("a view");
        let indices = whole.view_mut(indices).expect("a view");
        found.push(error(top_k(&x, mode, &values, &indices)));
    }
    {
        let x = memory.view((3, 20_000)).expect("a view");
        let values = output.view_mut((3, 4097)).expect("a view");
        let indices = whole.view_mut((3, 4097)).expect("a view");
        found.push(error(top_k(&x, 1, &values, &indices)));
        let x = doubles.view((20, 300)).expect("a view");
        let values = of_doubles.view_mut((20, 5)).expect("a view");
        let indices = whole.view_mut((20, 5)).expect("a view");
        found.push(error(top_k(&x, 1, &values, &indices)));
    }
    {
        // No element is selected.
        let values = output.view_mut((20, 0)).expect("a view");
        let indices = whole.view_mut((20, 0)).expect("a view");
        top_k(&x, 1, &values, &indices).expect("nothing to do");
    }
    {
        let nothing = memory.view((20, 0)).expect("a view");
        let values = output.view_mut((20, 5)).expect("a view");
        let indices = whole.view_mut((20, 5)).expect("a view");
        found.push(error(top_k(&nothing, 1, &values, &indices)));
        let planned = |change: &dyn Fn(&mut TopKPlan)| {
            let call = TopK::new(&x, 1, &values, &indices).prepare_with(|problem| {
                let mut plan = TopKPlan::fastest(problem);
                change(&mut plan);
                Ok(plan)
            });
            call.expect_err("it is refused").to_string()
        };
        found.push(planned(&|plan| plan.vector = 8));
        found.push(planned(&|plan| plan.threads = 48));
        found.push(planned(&|plan| plan.threads = 16));
        found.push(planned(&|plan| plan.accesses = 9));
        found.push(planned(&|plan| plan.slots = 8192));
        found.push(planned(&|plan| plan.slots = 4));
        found.push(planned(&|plan| plan.digit = 12));
        found.push(planned(&|plan| plan.digit = 0));
        found.push(planned(&|plan| plan.index_bits = 8));
        found.push(planned(&|plan| plan.index_bits = 31));
        found.push(planned(&|plan| plan.parts = 257));
        found.push(planned(&|plan| plan.parts = 2));
        found.push(planned(&|plan| {
            (plan.held, plan.digit, plan.parts) = (false, 0, 2)
        }));
        found.push(planned(&|plan| {
            (plan.held, plan.threads, plan.accesses) = (true, 32, 1)
        }));
        found.push(planned(&|plan| plan.operands.smallest = true));
        found.push(planned(&|plan| plan.operands.contiguous = false));
        found.push(planned(&|plan| plan.operands.outer = 0));
        found.push(planned(&|plan| plan.operands.index = Ty::F32));
        found.push(planned(&|plan| plan.operands.ty = Ty::F64));
    }
    {
        let twice = Layout::new((20, 5), (0, 1)).expect("a layout");
        let values = ViewMut::new(&mut output, &twice).expect("a view");
        let indices = whole.view_mut((20, 5)).expect("a view");
        found.push(error(top_k(&x, 1, &values, &indices)));
    }
    let mut same = memory.clone();
    let overlap = same.view_mut((20, 5)).expect("a view");
    let indices = whole.view_mut((20, 5)).expect("a view");
    let refused = top_k(&x, 1, &overlap, &indices).expect_err("it is refused");
    assert!(refused.is_overlap(), "{refused}");
    let none = "the operands of the plan are `largest of f32, indices of s32, 1 mode outside`:";
    assert_eq!(
        found,
        [
            "mode 2 is named, and x (20,300) has 2 modes: modes are counted from 0".to_string(),
            "`values` has the shape (5,20), and x (20,300): both must be equal but for mode 1".into(),
            "the indices have the shape (20,6), and the values (20,5): both must be equal".into(),
            "the 301 largest of 300 elements: there must be at most 300".into(),
            "the 4097 largest of 20000 elements: there must be at most 4096".into(),
            "the top-k of f64: the elements must be f32, f16, bf16 or s32".into(),
            "the 5 largest of 0 elements: there must be 0".into(),
            "the plan's vector is 8: the top-k kernel takes a power of two, 1 to 4".into(),
            "the plan's number of threads of a block is 48: the top-k kernel takes a power of two, 1 to 1024".into(),
            "the plan's number of threads of a block is 16: the top-k kernel takes 32 to 1024, in multiples of 32".into(),
            "the plan's number of accesses is 9: the top-k kernel takes 1 to 8".into(),
            "the plan's number of slots is 8192: the top-k kernel takes a power of two, 1 to 4096".into(),
            "the plan has 4 slots: the call needs 5".into(),
            "the plan's number of bits of a pass is 12: the top-k kernel takes 4 to 11".into(),
            "the plan has 32 slots: the call needs 300".into(),
            "the plan has 8 bits of an index: the call needs 9".into(),
            "the plan's number of bits of an index is 31: the top-k kernel takes 0 to 30".into(),
            "the plan's number of parts is 257: the top-k kernel takes 1 to 256".into(),
            format!("{none} the parts of a row stay in no registers"),
            format!("{none} the parts of a row are searched in passes of at least 4 bits"),
            "the plan has 128 elements in registers: the call needs 300".into(),
            "the plan was made for another call: smallest of f32, indices of s32, 1 mode outside in the plan and largest of f32, \
             indices of s32, 1 mode outside in the call"
                .into(),
            format!("{none} accesses of several elements need a mode with the stride 1"),
            "the operands of the plan are `largest of f32, indices of s32, 0 modes outside`: a kernel has 1 to 16 outer modes".into(),
            "the operands of the plan are `largest of f32, indices of f32, 1 mode outside`: the indices are of s32 or s64".into(),
            "the top-k of f64: the elements must be f32, f16, bf16 or s32".into(),
            "the destination `values` (20,5):(0,1) has one element at several coordinates: which value stays would be a race".into(),
        ]
    );
}

/// Plans of any numbers: one that `check` accepts is built.
#[test]
fn law_accepted_plans_of_selections_are_built() {
    let mut r = Random::of(11, "top-k plans");
    let (mut accepted, mut refused) = (0, 0);
    let count = 3000;
    for _ in 0..count {
        let arch = r.one(&[Arch::Sm70, Arch::Sm80, Arch::Sm90a]);
        let ty = r.one(&[Ty::F32, Ty::Bf16, Ty::F16, Ty::S32, Ty::F32, Ty::F64]);
        let extents = match r.below(4_u64) {
            0 => [(); 2].map(|()| r.one(&[1, 1 << 20, 1 << 30, 1 << 62, i64::MAX, 0, -1])),
            _ => [(); 2].map(|()| r.one(&[1, 2, 33, 256, 1000])),
        };
        let k = r.one(&[1, 2, 20, 33, 1000, 0, -1, i64::MAX]);
        let Ok(problem) = TopKProblem::new(ty, extents, k) else {
            refused += 1;
            continue;
        };
        let fastest = TopKPlan::fastest(&problem);
        assert!(
            fastest.check(arch).is_ok() && fastest.takes(&problem),
            "{fastest}"
        );
        let number = |r: &mut Random| match r.below(12_u64) {
            0 => r.one(&[3, 0, -1, 1 << 62, i64::MIN, i64::MAX]),
            _ => r.one(&[1, 1, 2, 4, 8, 32]),
        };
        let mut plan = fastest;
        if r.one_in(2) {
            plan.vector = number(&mut r);
        }
        if r.one_in(2) {
            (plan.threads, plan.held) = (16 * r.one(&[2, 4, 16, 1, 3, i64::MIN / 16]), r.one_in(2));
        }
        if r.one_in(3) {
            (plan.accesses, plan.parts) = (number(&mut r), number(&mut r));
        }
        if r.one_in(3) {
            (plan.slots, plan.digit) = (number(&mut r).saturating_mul(16), number(&mut r));
        }
        if r.one_in(4) {
            plan.index_bits = number(&mut r);
            plan.operands.contiguous = r.one_in(2);
            plan.operands.smallest = r.one_in(2);
            plan.operands.vector = number(&mut r);
            plan.operands.outer = r.one(&[0, 1, 3, 16, 17, usize::MAX]);
        }
        let _ = (
            plan.bytes(&problem),
            plan.workspace(&problem),
            plan.to_string(),
        );
        let _ = (
            plan.explain(&problem),
            fastest.explain(&problem),
            plan.takes(&problem),
        );
        match plan.check(arch) {
            Err(_) => refused += 1,
            Ok(()) => {
                accepted += 1;
                // Every plan is checked, and one accepted plan in 24 is built.
                if accepted % 24 == 1
                    && let Err(error) = plan.build(arch)
                {
                    panic!(
                        "{plan} of {} on {arch:?} is accepted and not built: {error}",
                        plan.operands
                    );
                }
            }
        }
    }
    println!("law top_k.built: {count} cases, {accepted} accepted, {refused} refused");
    assert!(
        accepted > count / 20,
        "only {accepted} of {count} plans are accepted"
    );
}

/// The memory of the caller: of the right size, too short, of no parts, and an extent of 0.
#[test]
fn law_selections_take_the_memory_of_the_caller() {
    let device = simulator(Arch::Sm80, 6);
    let numbers: Vec<i32> = (0..40_000).map(|i| i * 7919 % 40_009).collect();
    let x = device.upload(&numbers).expect("memory");
    let mut values = device.poisoned::<i32>(3).expect("memory");
    let mut indices = device.poisoned::<i32>(3).expect("memory");
    {
        let x = x.view(40_000).expect("a view");
        let values = values.view_mut(3).expect("a view");
        let indices = indices.view_mut(3).expect("a view");
        let call = TopK::new(&x, 0, &values, &indices);
        let need = call.workspace().expect("a size");
        assert!(need > 0);
        let mut memory = device.uninitialised::<u8>(need).expect("memory");
        let prepared = call.prepare_in(&mut memory).expect("a call");
        assert!(prepared.plan().is_some_and(|plan| plan.parts > 1));
        prepared.run(&device).expect("a run");
        let mut short = device.uninitialised::<u8>(need - 1).expect("memory");
        let refused = call.prepare_in(&mut short).expect_err("it is refused");
        assert_eq!(
            refused.to_string(),
            format!(
                "the workspace has {} bytes, and the selection needs {need}: `TopK::workspace` returns that number",
                need - 1
            )
        );
    }
    let doubles: Vec<f64> = numbers.iter().map(|x| f64::from(*x)).collect();
    let want = reference::indices(&doubles, 3, false);
    let found = indices.download().expect("indices");
    assert!(found.iter().map(|i| *i as usize).eq(want));
    let mut none = device.zeros::<i32>(1).expect("memory");
    let mut no_indices = device.zeros::<i32>(1).expect("memory");
    let (x, none) = (
        x.view((0, 40)).expect("a view"),
        none.view_mut((0, 3)).expect("a view"),
    );
    let no_indices = no_indices.view_mut((0, 3)).expect("a view");
    top_k(&x, 1, &none, &no_indices).expect("nothing");
    println!("law top_k.memory: 3 cases");
}
