//! Rows of every length, wherever they begin, quantised by default plans and by drawn ones: against the host bit for bit, with all that lies
//! around the results.

use colex_atom::{Arch, Ty};
use colex_gpu::kernels::GemmElement;
use colex_gpu::quantise::{Quantise, QuantiseAccess, QuantisePlan, QuantiseProblem, reference};
use colex_gpu::{Device, Element, Error, View, ViewMut};
use colex_layout::Layout;
use colex_proof::soak::{draws, share_of, takes, takes_all};
use colex_proof::sweep::Random;
use half::{bf16, f16};

use super::simulator;

/// Rows in their buffers: how many there are and their columns, the elements in front of the first one and between two of them.
#[derive(Clone, Copy, Debug)]
struct Rows {
    rows: i64,
    columns: i64,
    first: usize,
    gap: i64,
}

/// The elements behind the last row.
const BEHIND: usize = 16;

impl Rows {
    fn layout(&self) -> Layout {
        let stride = self.columns + self.gap;
        Layout::new((self.rows, self.columns), (stride, 1)).expect("a layout")
    }

    fn count(&self) -> usize {
        self.first + (self.rows * (self.columns + self.gap)) as usize + BEHIND
    }

    fn row(&self, row: i64) -> std::ops::Range<usize> {
        let first = self.first + (row * (self.columns + self.gap)) as usize;
        first..first + self.columns as usize
    }
}

/// Whether two numbers are the same, or are NaN both.
fn is_same(to: Ty, both: [u8; 2]) -> bool {
    let is_nan = |number: &u8| match to {
        Ty::E4m3 => number & 0x7f == 0x7f,
        Ty::E5m2 => number & 0x7f > 0x7c,
        _ => false,
    };
    both[0] == both[1] || both.iter().all(is_nan)
}

/// What makes the plan of a call.
type Plans<'a> = &'a dyn Fn(&QuantiseProblem, Arch) -> Result<QuantisePlan, Error>;

/// Quantises rows of drawn numbers, as [`are_right`] does.
fn quantised<T: GemmElement, Q: Element>(
    device: &Device,
    r: &mut Random,
    to: Ty,
    of: Rows,
    plan: Plans<'_>,
) -> Result<QuantisePlan, Error> {
    let magnitude = r.one(&[1.0, 1e-3, 3e4, 1e-37]);
    let is_wild = r.one_in(6);
    let x: Vec<T> = (0..of.count())
        .map(|_| {
            let wild = is_wild && r.one_in(200);
            T::from_f64(if wild {
                r.one(&[f64::NAN, f64::INFINITY, 0.0])
            } else {
                f64::from(r.below(4001_i32) - 2000) / 2000.0 * magnitude
            })
        })
        .collect();
    are_right::<T, Q>(device, to, of, &x, plan)
}

/// Quantises rows of these numbers, and compares all numbers, all scales and what lies around both. Returns the plan, or the error of a call
/// that is refused.
fn are_right<T: GemmElement, Q: Element>(
    device: &Device,
    to: Ty,
    of: Rows,
    x: &[T],
    plan: Plans<'_>,
) -> Result<QuantisePlan, Error> {
    let on_x = device.upload(x)?;
    let q = device.poisoned::<Q>(of.count())?;
    let scales = device.poisoned::<f32>(of.rows as usize + 2)?;
    let before = q.download()?;
    let scales_before = scales.download()?;
    let (made, text) = {
        let (from, layout) = (on_x.slice(of.first..)?, of.layout());
        let (mut to_q, mut to_scales) = (q.slice(of.first..)?, scales.slice(1..)?);
        let x = View::new(&from, &layout)?;
        let q = ViewMut::new(&mut to_q, &layout)?;
        let scales = to_scales.view_mut(of.rows)?;
        let call = Quantise::new(to, &x, &q).rows(&scales).prepare_with(plan)?;
        let kernel = &call.built().expect("there are rows").kernel;
        let plan = call.plan().expect("there are rows");
        if plan.access != QuantiseAccess::Rows {
            let trapped = colex_proof::kernels::trapped(kernel);
            assert!(trapped.is_empty(), "{call}: {trapped:?}");
        }
        call.run(device)?;
        device.synchronize()?;
        (*call.plan().expect("there are rows"), call.to_string())
    };
    let (found, found_scales) = (q.download()?, scales.download()?);
    let mut expected: Vec<u8> = before.iter().map(|q| Q::to_bytes(&[*q])[0]).collect();
    let mut expected_scales = scales_before;
    for row in 0..of.rows {
        let numbers: Vec<f32> = x[of.row(row)].iter().map(|x| x.to_f64() as f32).collect();
        let (scale, own) = reference::row(to, &numbers)?;
        expected[of.row(row)].copy_from_slice(&own);
        expected_scales[row as usize + 1] = scale;
    }
    for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let found = Q::to_bytes(&[*found])[0];
        assert!(
            is_same(to, [found, *expected]),
            "{} to {to}, {of:?}, {text}: number {i} is {found:#x} and should be {expected:#x}",
            T::TY
        );
    }
    for (i, (found, expected)) in found_scales.iter().zip(&expected_scales).enumerate() {
        let is_same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
        assert!(
            is_same,
            "{} to {to}, {of:?}, {text}: scale {i} is {found} and should be {expected}",
            T::TY
        );
    }
    Ok(made)
}

/// Quantises rows from one of the types to one of those that the architecture has.
fn any(
    device: &Device,
    r: &mut Random,
    of: Rows,
    plan: Plans<'_>,
) -> (Ty, Result<QuantisePlan, Error>) {
    let to = if device.arch() >= Arch::Sm89 {
        r.one(&[Ty::S8, Ty::E4m3, Ty::E5m2])
    } else {
        Ty::S8
    };
    let from = r.one(&[Ty::Bf16, Ty::F16, Ty::F32]);
    let made = match (from, to) {
        (Ty::Bf16, Ty::S8) => quantised::<bf16, i8>(device, r, to, of, plan),
        (Ty::F16, Ty::S8) => quantised::<f16, i8>(device, r, to, of, plan),
        (_, Ty::S8) => quantised::<f32, i8>(device, r, to, of, plan),
        (Ty::Bf16, _) => quantised::<bf16, u8>(device, r, to, of, plan),
        (Ty::F16, _) => quantised::<f16, u8>(device, r, to, of, plan),
        (..) => quantised::<f32, u8>(device, r, to, of, plan),
    };
    (from, made)
}

/// The default plans of all lengths up to 300, and of lengths around those at which they change. Rows lie one after the other from a vector
/// on, from any element on, or with gaps.
#[test]
fn law_rows_of_every_length_are_quantised() {
    let mut r = Random::of(61, "lengths of quantised rows");
    let mut found = [0; 3];
    let mut cases = 0;
    let long = [4096, 4097, 4098, 16385, 32769, 65537];
    for (i, columns) in (1..=300).chain(long).enumerate() {
        let is_long = columns > 300;
        for (arch, share) in [(Arch::Sm90a, 0), (Arch::Sm80, 1)] {
            // Each length on one architecture in `verify`, and on both in a soak.
            if !is_long && !takes(2, i + share) || is_long && share > 0 && !takes_all() {
                continue;
            }
            let device = simulator(arch, i as u64);
            let of = Rows {
                rows: if is_long {
                    2
                } else {
                    1 + r.below(130_i64) % 70
                },
                columns,
                first: r.one(&[BEHIND, BEHIND, BEHIND, 8, 4, 1]),
                gap: if r.one_in(4) { 1 + r.below(20_i64) } else { 0 },
            };
            let (_, plan) = any(&device, &mut r, of, &QuantisePlan::fastest);
            let plan = plan.unwrap_or_else(|why| panic!("{of:?} on {arch}: {why}"));
            found[plan.access as usize] += 1;
            cases += 1;
        }
    }
    assert!(found.iter().all(|count| *count > 20), "{found:?}");
    println!("law quantised_rows.lengths: {cases} cases");
}

/// A plan of any numbers; those that a row has are drawn near what it needs, so that many plans take it.
fn drawn(r: &mut Random, problem: &QuantiseProblem, arch: Arch) -> Result<QuantisePlan, Error> {
    let plan = QuantisePlan::fastest(problem, arch)?;
    let access = r.one(&[
        QuantiseAccess::Rows,
        QuantiseAccess::Shifted,
        QuantiseAccess::Shifted,
        QuantiseAccess::Staged,
    ]);
    let widest = 128 / i64::from(plan.operands.from.bits());
    let vector = match access {
        QuantiseAccess::Rows => plan.operands.vector,
        QuantiseAccess::Shifted | QuantiseAccess::Staged => r.one(&[widest, widest, widest, 4, 1]),
    };
    let columns = problem.columns();
    if access == QuantiseAccess::Staged {
        let threads = 1 << r.below(6_u32);
        return Ok(QuantisePlan {
            vector,
            threads,
            rows: (32 / threads).max(vector) << r.below(3_u32),
            accesses: (columns + threads - 1) / threads,
            blocks: 1,
            kept: 0,
            access,
            held: true,
            ..plan
        });
    }
    let blocks = r.one(&[1, 1, 2, 4, 8]);
    let kept = if vector > 1 {
        r.one(&[0, 0, 1, 2, 10, 14, 20])
    } else {
        0
    };
    let held = r.one_in(2);
    let threads = if columns > 1000 {
        128 << r.below(4_u32)
    } else {
        16 << r.below(4_u32)
    };
    let rows = if blocks > 1 { 1 } else { 1 << r.below(4_u32) };
    let of_turn = blocks * threads * vector * (kept + 1);
    let accesses = if held {
        (columns + of_turn - 1) / of_turn
    } else {
        1 + r.below(4_i64)
    };
    Ok(QuantisePlan {
        vector,
        threads,
        rows,
        accesses,
        blocks,
        kept,
        access,
        held,
        ..plan
    })
}

/// Drawn plans: rows in registers, in shared memory, read again, shifted, staged, of one block and of clusters. A plan that is refused is
/// refused as a plan.
#[test]
fn law_drawn_plans_of_quantised_rows_are_right_or_refused() {
    let mut r = Random::of(62, "plans of quantised rows");
    let count = draws(260);
    let (mut refused, mut cases) = (0, 0);
    let mut forms = std::collections::BTreeMap::<String, usize>::new();
    for i in 0..count {
        let arch = r.one(&[Arch::Sm90a, Arch::Sm90a, Arch::Sm90a, Arch::Sm80]);
        let device = simulator(arch, i as u64 + share_of(arch) as u64);
        let columns = match r.below(5_u64) {
            0 => r.one(&[1, 7, 8, 31, 32, 33, 63, 64, 65, 255, 256, 257]),
            1 | 2 => 1 + r.below(300_i64),
            3 => 300 + r.below(2200_i64),
            _ if i % 20 == 0 => r.one(&[4097, 16385, 8193]),
            _ => 1000 + 8 * r.below(200_i64),
        };
        let of = Rows {
            rows: 1 + r.below(if columns > 300 { 4_i64 } else { 20 }),
            columns,
            first: r.one(&[BEHIND, BEHIND, BEHIND, BEHIND, 8, 3]),
            gap: if r.one_in(6) { 1 + r.below(20_i64) } else { 0 },
        };
        let random = std::cell::RefCell::new(Random::of(i as u64, "a plan"));
        let plan =
            |problem: &QuantiseProblem, arch: Arch| drawn(&mut random.borrow_mut(), problem, arch);
        match any(&device, &mut r, of, &plan).1 {
            Err(why) => {
                assert!(why.plan().is_some(), "{of:?}: {why}");
                refused += 1;
            }
            Ok(plan) => {
                let QuantisePlan { access, held, .. } = plan;
                let (is_shared, is_cluster) = (plan.kept > 0, plan.blocks > 1);
                let form = format!("{access:?} {held} {is_shared} {is_cluster}");
                *forms.entry(form).or_default() += 1;
                cases += 1;
            }
        }
    }
    // Staged rows have one form, and all others eight each.
    assert!(forms.len() == 17 && refused > 20, "{forms:?}, {refused}");
    println!("law quantised_rows.plans: {cases} cases, {refused} refused");
}

/// Rows without a number have the scale 0: of NaN alone, of NaN and zeros of both signs, and of zeros, by default plans and by drawn ones of
/// each access, of one column and of many.
#[test]
fn law_rows_without_a_number_have_the_scale_0() -> Result<(), Error> {
    fn checked<T: GemmElement, Q: Element>(
        arch: Arch,
        to: Ty,
        columns: i64,
        plan: Plans<'_>,
    ) -> Result<QuantisePlan, Error> {
        let device = simulator(arch, columns as u64);
        let of = Rows {
            rows: 9,
            columns,
            first: BEHIND,
            gap: 0,
        };
        let mut x = vec![T::from_f64(1.0); of.count()];
        // NaN alone; zeros behind it and before it; zeros alone; and a number of which nothing is left but its row's scale.
        let others = [
            [f64::NAN; 4],
            [f64::NAN, 0.0, -0.0, f64::NAN],
            [0.0, f64::NAN, f64::NAN, f64::NAN],
            [-0.0, -0.0, f64::NAN, 0.0],
            [-f64::NAN, f64::NAN, -f64::NAN, -0.0],
            [0.0, -0.0, 0.0, 0.0],
            [f64::NAN, f64::NAN, f64::NAN, -2.0],
        ];
        for row in 0..of.rows {
            let numbers = others[row as usize % others.len()];
            for (i, x) in x[of.row(row)].iter_mut().enumerate() {
                *x = T::from_f64(numbers[i % 4]);
            }
        }
        are_right::<T, Q>(&device, to, of, &x, plan)
    }
    let mut found = [0; 3];
    let mut r = Random::of(63, "rows of NaN");
    let (mut cases, mut refused) = (0, 0);
    for columns in [
        1, 2, 3, 4, 5, 8, 31, 33, 42, 64, 65, 255, 256, 257, 1000, 4097,
    ] {
        type Run = fn(Arch, Ty, i64, Plans<'_>) -> Result<QuantisePlan, Error>;
        let runs: [(Arch, Ty, Run); 4] = [
            (Arch::Sm80, Ty::S8, checked::<f32, i8>),
            (Arch::Sm90a, Ty::S8, checked::<bf16, i8>),
            (Arch::Sm90a, Ty::E4m3, checked::<f32, u8>),
            (Arch::Sm90a, Ty::E5m2, checked::<f16, u8>),
        ];
        for (arch, to, run) in runs {
            let plan = run(arch, to, columns, &QuantisePlan::fastest)?;
            found[plan.access as usize] += 1;
            cases += 1;
            for _ in 0..3 {
                let seed = r.below(1_u64 << 32);
                let plan = |problem: &QuantiseProblem, arch: Arch| {
                    drawn(&mut Random::of(seed, "a plan"), problem, arch)
                };
                match run(arch, to, columns, &plan) {
                    Ok(plan) => {
                        found[plan.access as usize] += 1;
                        cases += 1;
                    }
                    Err(why) => {
                        assert!(why.plan().is_some(), "{columns} columns: {why}");
                        refused += 1;
                    }
                }
            }
        }
    }
    assert!(found.iter().all(|count| *count > 10), "{found:?}");
    println!("law quantised_rows.nan: {cases} cases, {refused} refused");
    Ok(())
}

/// Blocks of one number and the scale of a tensor are 0 too, where no number is.
#[test]
fn law_scales_of_nan_are_0() -> Result<(), Error> {
    let device = simulator(Arch::Sm90a, 5);
    for columns in [1_i64, 5, 130] {
        let shape = (3, columns);
        let count = 3 * columns as usize;
        let x = device.upload(&vec![f32::NAN; count])?;
        let x = x.view(shape)?;
        for block in [1, 128] {
            let mut q = device.poisoned::<i8>(count)?;
            let blocks = (columns + block - 1) / block;
            let mut scales = device.poisoned::<f32>(3 * blocks as usize)?;
            Quantise::new(Ty::S8, &x, &q.view_mut(shape)?)
                .blocks(block, &scales.view_mut((3, blocks))?)
                .run()?;
            assert!(scales.download()?.iter().all(|scale| *scale == 0.0));
            assert!(q.download()?.iter().all(|q| *q == 0));
        }
        let mut q = device.poisoned::<i8>(count)?;
        let mut scale = device.poisoned::<f32>(1)?;
        Quantise::new(Ty::S8, &x, &q.view_mut(shape)?)
            .tensor_scale(&scale.view_mut(1)?)
            .run()?;
        assert_eq!(scale.download()?, [0.0], "{columns} columns");
        assert!(q.download()?.iter().all(|q| *q == 0));
    }
    Ok(())
}

/// How the default plans divide rows of `bf16`, and the bytes of a row that they read again.
#[test]
fn long_rows_are_divided_among_the_blocks_of_clusters() {
    let device = Device::simulator(Arch::Sm90a);
    let of = |columns: i64| -> Result<String, Error> {
        let count = columns as usize;
        let x = device.zeros::<bf16>(count)?;
        let mut q = device.poisoned::<u8>(count)?;
        let mut scales = device.poisoned::<f32>(1)?;
        let (x, q) = (x.view((1, columns))?, q.view_mut((1, columns))?);
        let scales = scales.view_mut(1)?;
        let call = Quantise::new(Ty::E4m3, &x, &q).rows(&scales).prepare()?;
        let (plan, problem) = (call.plan().expect("a row"), call.problem().expect("a row"));
        let again = plan.bytes(problem) - problem.compulsory_bytes();
        let plan = plan.to_string();
        let plan = plan.strip_prefix("vectors of 8, ").expect("wide vectors");
        Ok(format!("{columns}: {plan}; {again}"))
    };
    let lengths = [
        33,
        255,
        256,
        4097,
        32768,
        65536,
        65537,
        1 << 17,
        1 << 18,
        1 << 19,
        1 << 20,
        1 << 21,
    ];
    let found = lengths.map(|columns| of(columns).expect("a plan"));
    let want = [
        "33: 1 thread for a row, 64 rows in a block, 33 elements, staged rows in registers; 0",
        "255: 8 threads for a row, 8 rows in a block, 32 elements, staged rows in registers; 0",
        "256: 16 threads for a row, 8 rows in a block, 2 accesses, rows in registers; 0",
        "4097: 128 threads for a row, 1 row in a block, 4 accesses, shifted rows in registers; 0",
        "32768: 512 threads for a row, 1 row in a block, 8 accesses, rows in registers; 0",
        "65536: 512 threads for a row, 1 row in a block, 4 accesses, clusters of 2 blocks, rows in registers and 1 turn in shared memory; 0",
        "65537: 512 threads for a row, 1 row in a block, 4 accesses, clusters of 2 blocks, shifted rows in registers and 1 turn in shared memory; 0",
        "131072: 512 threads for a row, 1 row in a block, 4 accesses, clusters of 4 blocks, rows in registers and 1 turn in shared memory; 0",
        "262144: 512 threads for a row, 1 row in a block, 4 accesses, clusters of 8 blocks, rows in registers and 1 turn in shared memory; 0",
        "524288: 512 threads for a row, 1 row in a block, 8 accesses, clusters of 8 blocks, rows in registers and 1 turn in shared memory; 0",
        "1048576: 1024 threads for a row, 1 row in a block, 8 accesses, clusters of 8 blocks, rows in registers and 1 turn in shared memory; 0",
        "2097152: 512 threads for a row, 1 row in a block, 4 accesses, clusters of 8 blocks, rows in passes and 3 turns in shared memory; 3145728",
    ];
    assert_eq!(found, want);
}

/// The bytes that a plan counts are those that the simulator moves, less the rest of the sector of the scale: of rows that are held, and of
/// rows of which some turns are read again.
#[test]
fn bytes_of_turns_are_those_of_the_simulator() -> Result<(), Error> {
    let device = Device::simulator(Arch::Sm90a);
    let columns = 8192;
    let x = device.zeros::<bf16>(columns as usize)?;
    let mut q = device.poisoned::<i8>(columns as usize)?;
    let mut scales = device.poisoned::<f32>(1)?;
    let (x, q) = (x.view((1, columns))?, q.view_mut((1, columns))?);
    let scales = scales.view_mut(1)?;
    let call = Quantise::new(Ty::S8, &x, &q).rows(&scales);
    let mut found = Vec::new();
    for (blocks, accesses, kept, held) in [
        (4, 2, 0, true),
        (2, 2, 1, true),
        (1, 1, 0, false),
        (2, 1, 1, false),
        (4, 1, 2, false),
    ] {
        let call = call.prepare_with(|problem, arch| {
            let plan = QuantisePlan::fastest(problem, arch)?;
            Ok(QuantisePlan {
                threads: 128,
                rows: 1,
                accesses,
                blocks,
                kept,
                held,
                ..plan
            })
        })?;
        let (plan, problem) = (call.plan().expect("a row"), call.problem().expect("a row"));
        let again = plan.bytes(problem) - problem.compulsory_bytes();
        let sectors: u64 = call
            .profile(&device)?
            .iter()
            .map(|run| run.sectors().0)
            .sum();
        assert_eq!(32 * sectors as i64, plan.bytes(problem) + 28, "{plan}");
        found.push(again);
    }
    // 7 of 8 turns of a row of 16 KiB, and 2 of 4.
    assert_eq!(found, [0, 0, 14336, 8192, 0]);
    Ok(())
}
