//! The bits of products: the same in every run of a plan, in products of any number of rows if that is asked for, and from two
//! streams at once; and the same by a kernel of several widths as by those of one.
//!
//! On the simulator, `bits_do_not_depend_on_the_run_or_the_batch`,
//! `law_rows_of_a_batch_invariant_product_have_the_same_bits` and `law_widths_have_the_bits_of_one_width` say the same.

use anyhow::{Context, Result, ensure};
use colex_gpu::kernels::GemmElement;
use colex_gpu::kernels::gemm::{Division, GemmCall, GemmMethod, GemmPlan};
use colex_gpu::{Buffer, Device, Error, Gemm, View, ViewMut};
use colex_layout::Layout;
use half::{bf16, f16};

use super::is_fast;

/// Checks all four, in a few seconds on a GPU.
pub(super) fn of_products(device: &Device) -> Result<String> {
    let runs = every_run(device)?;
    let rows = any_rows::<bf16>(device)? + any_rows::<f16>(device)?;
    let at_once = two_streams(device)?;
    let widths = every_width(device)?;
    Ok(format!(
        "{runs} runs of plans, {rows} numbers of rows, {at_once} products of two streams at once, {widths} widths of one kernel"
    ))
}

/// Numbers whose sums are rounded, other ones for every seed.
fn numbers<T: GemmElement>(count: usize, seed: usize) -> Vec<T> {
    (0..count)
        .map(|i| T::from_f64((i as f64 * 0.7311 + seed as f64).sin()))
        .collect()
}

fn bits(c: &Buffer<f32>) -> Result<Vec<u32>> {
    Ok(c.download()?.iter().map(|x| x.to_bits()).collect())
}

/// What a plan changes of its method's usual one.
type Change = fn(&mut GemmPlan);

/// Plans that sum K as a whole and in parts.
const PLANS: [(&str, GemmMethod, Change); 10] = [
    ("Ampere's usual plan", GemmMethod::Ampere, |_| ()),
    ("Hopper's usual plan", GemmMethod::Hopper, |_| ()),
    ("2 blocks along K", GemmMethod::Hopper, |plan| {
        *plan = divided(plan, 2, 1, 0);
    }),
    ("4 blocks along K", GemmMethod::Hopper, |plan| {
        *plan = divided(plan, 4, 1, 0);
    }),
    ("3 parts of K", GemmMethod::Hopper, |plan| {
        *plan = divided(plan, 1, 3, 0);
    }),
    ("2 blocks along K and 2 parts", GemmMethod::Hopper, |plan| {
        *plan = divided(plan, 2, 2, 0);
    }),
    (
        "3 parts of K behind 3 whole tiles",
        GemmMethod::Hopper,
        |plan| {
            *plan = divided(plan, 1, 3, 3);
        },
    ),
    (
        "2 parts of K that a block adds",
        GemmMethod::Hopper,
        |plan| {
            *plan = added_by_blocks(plan, 1, 0);
        },
    ),
    (
        "2 blocks along K, and 2 parts that a block adds behind 3 whole tiles",
        GemmMethod::Hopper,
        |plan| {
            *plan = added_by_blocks(plan, 2, 3);
        },
    ),
    (
        "4 shares by stream-K behind 1 whole tile",
        GemmMethod::Hopper,
        |plan| {
            *plan = divided(plan, 1, 4, 1);
            plan.division = Division::StreamK;
        },
    ),
];

/// A plan of small tiles with blocks and parts along K.
fn divided(usual: &GemmPlan, along_k: i64, split: i64, undivided: i64) -> GemmPlan {
    GemmPlan {
        tile: [64, 64, 64],
        warps: [1, 1],
        cluster: [1, 1, along_k],
        split,
        undivided,
        ..*usual
    }
}

/// The same with two parts, of which the block that comes last adds the other's.
fn added_by_blocks(usual: &GemmPlan, along_k: i64, undivided: i64) -> GemmPlan {
    GemmPlan {
        division: Division::SplitKFixup,
        ..divided(usual, along_k, 2, undivided)
    }
}

/// A, B and C of a product on a device, and its extents.
struct Inputs<T> {
    device: Device,
    extents: [usize; 3],
    a: Buffer<T>,
    b: Buffer<T>,
    c: Buffer<f32>,
}

impl<T: GemmElement> Inputs<T> {
    fn new(device: &Device, [m, n, k]: [usize; 3], seed: usize) -> Result<Inputs<T>> {
        Ok(Inputs {
            device: device.clone(),
            extents: [m, n, k],
            a: device.upload(&numbers(m * k, seed))?,
            b: device.upload(&numbers(n * k, seed + 1))?,
            c: device.poisoned(m * n)?,
        })
    }

    /// The product, into a handle of C.
    fn gemm<'a>(&'a self, written: &'a mut Buffer<f32>) -> Result<Gemm<'a, T, f32>, Error> {
        let [m, n, k] = self.extents;
        let (a, b) = (self.a.view((m, k))?, self.b.view((n, k))?);
        Ok(Gemm::new(&a, &b, &written.view_mut((m, n))?))
    }
}

/// Each plan gives the same bits in every run. Returns the number of runs.
fn every_run(device: &Device) -> Result<usize> {
    let (extents, runs) = if is_fast(device) {
        ([300, 520, 4104], 20)
    } else {
        ([100, 72, 264], 3)
    };
    let of = Inputs::<bf16>::new(device, extents, 1)?;
    let mut written = of.c.clone();
    let gemm = of.gemm(&mut written)?;
    let mut done = 0;
    for (name, method, change) in PLANS {
        let call = gemm.prepare_with(|operands, arch| {
            let mut plan = GemmPlan::new(method, operands);
            change(&mut plan);
            plan.check(arch).map(|()| plan)
        });
        // An older GPU has no Hopper kernel.
        if method == GemmMethod::Hopper && !has_hopper(device) {
            continue;
        }
        let call = call.context(name)?;
        let mut first = None;
        for run in 0..runs {
            of.c.fill_bytes(0xff)?;
            call.run(device)?;
            let found = bits(&of.c)?;
            let first = first.get_or_insert_with(|| found.clone());
            ensure!(found == *first, "{name}: run {run} has other bits");
            done += 1;
        }
    }
    Ok(done)
}

/// Whether the device runs the kernels with producers and consumers.
fn has_hopper(device: &Device) -> bool {
    device.arch().to_string().starts_with("sm_90")
}

/// A row of a batch-invariant product has the same bits among any number of rows and at any place. Returns the number of products.
fn any_rows<T: GemmElement>(device: &Device) -> Result<usize> {
    let (rows, shapes): (usize, &[[usize; 2]]) = if is_fast(device) {
        (2000, &[[136, 1096], [4096, 512], [72, 16384], [66, 1161]])
    } else {
        (130, &[[72, 264], [7, 131]])
    };
    let mut done = 0;
    for &[n, k] in shapes {
        let all = Inputs::<T>::new(device, [rows, n, k], 5)?;
        let expected = invariant(&all, 0..rows)?;
        let some = [0..1, rows - 1..rows, 3..5, 7..71, 60..rows - 6];
        for rows in some {
            let found = invariant(&all, rows.clone())?;
            let (first, last) = (rows.start * n, rows.end * n);
            ensure!(
                found[..] == expected[first..last],
                "{n} columns, K {k} of {}: rows {rows:?} have other bits than among all",
                T::NAME
            );
            for along_m in [[true, false], [false, true], [true, true]] {
                let found = invariant_along(&all, rows.clone(), along_m)?;
                ensure!(
                    found[..] == expected[first..last],
                    "{n} columns, K {k} of {}: rows {rows:?} have other bits where A, C are contiguous along M: {along_m:?}",
                    T::NAME
                );
            }
            done += 4;
        }
    }
    Ok(done)
}

/// The bits of a batch-invariant product of some rows.
fn invariant<T: GemmElement>(of: &Inputs<T>, rows: std::ops::Range<usize>) -> Result<Vec<u32>> {
    let [_, n, k] = of.extents;
    let m = rows.len();
    let a = of.a.slice(rows.start * k..rows.end * k)?;
    let mut c = of.device.poisoned::<f32>(m * n)?;
    Gemm::new(&a.view((m, k))?, &of.b.view((n, k))?, &c.view_mut((m, n))?)
        .batch_invariant()
        .run()?;
    bits(&c)
}

/// The same of matrices that are contiguous along M, as `along_m` says of A and of C, and have no gaps.
fn invariant_along<T: GemmElement>(
    of: &Inputs<T>,
    rows: std::ops::Range<usize>,
    along_m: [bool; 2],
) -> Result<Vec<u32>> {
    let [_, n, k] = of.extents;
    let m = rows.len();
    let part = of.a.slice(rows.start * k..rows.end * k)?;
    let layout = |columns: usize, is_along_m: bool| {
        let [rows, columns] = [m, columns].map(|n| n as i64);
        if is_along_m {
            Layout::new((rows, columns), (1, rows))
        } else {
            Layout::new((rows, columns), (columns, 1))
        }
    };
    let (mut a, mut c) = (
        of.device.poisoned::<T>(m * k)?,
        of.device.poisoned::<f32>(m * n)?,
    );
    let of_a = layout(k, along_m[0])?;
    colex_gpu::copy(&part.view((m, k))?, &ViewMut::new(&mut a, &of_a)?)?;
    {
        let (a, b) = (View::new(&a, &of_a)?, of.b.view((n, k))?);
        let c = ViewMut::new(&mut c, layout(n, along_m[1])?)?;
        Gemm::new(&a, &b, &c).batch_invariant().run()?;
    }
    let found = bits(&c)?;
    let at = |place: usize| {
        if along_m[1] {
            place / n + place % n * m
        } else {
            place
        }
    };
    Ok((0..m * n).map(|place| found[at(place)]).collect())
}

/// Two streams run products in parts at once, each with other data, by plans that were prepared and by calls that take the memory of
/// their stream: the results are those of each alone. Returns the number of products.
fn two_streams(device: &Device) -> Result<usize> {
    if !has_hopper(device) {
        return Ok(0);
    }
    let (extents, rounds) = if is_fast(device) {
        ([64, 64, 16384], 200)
    } else {
        ([64, 64, 2048], 2)
    };
    let lane = |seed| Inputs::<bf16>::new(&device.on_new_stream()?, extents, seed);
    let lanes = [lane(0)?, lane(10)?];
    let mut written = lanes.each_ref().map(|lane| lane.c.clone());
    let [of_first, of_second] = &mut written;
    let gemms = [lanes[0].gemm(of_first)?, lanes[1].gemm(of_second)?];
    let prepared = |by: fn(&GemmPlan) -> GemmPlan| -> Result<[GemmCall<'_>; 2]> {
        let plan = |operands, _| Ok(by(&GemmPlan::new(GemmMethod::Hopper, operands)));
        Ok([gemms[0].prepare_with(plan)?, gemms[1].prepare_with(plan)?])
    };
    let ways = [
        Some(prepared(|usual| divided(usual, 1, 4, 0))?),
        Some(prepared(|usual| added_by_blocks(usual, 1, 0))?),
        None,
    ];
    let chosen = gemms[0].prepare()?;
    let parts = chosen.plan().map_or(1, |plan| plan.split);
    ensure!(parts > 1, "the call takes no parts of K: {chosen}");
    let run = |lane: usize, calls: &Option<[GemmCall<'_>; 2]>| -> Result<()> {
        lanes[lane].c.fill_bytes(0xff)?;
        match calls {
            Some(calls) => calls[lane].run(&lanes[lane].device)?,
            None => gemms[lane].run()?,
        }
        Ok(())
    };
    let mut done = 0;
    for calls in &ways {
        let alone = |lane: usize| -> Result<Vec<u32>> {
            run(lane, calls)?;
            bits(&lanes[lane].c)
        };
        let alone = [alone(0)?, alone(1)?];
        ensure!(alone[0] != alone[1], "both streams have the same data");
        for round in 0..rounds {
            run(round % 2, calls)?;
            run(1 - round % 2, calls)?;
            for (lane, alone) in lanes.iter().zip(&alone) {
                ensure!(
                    bits(&lane.c)? == *alone,
                    "round {round}: a product beside another stream's has other bits than alone"
                );
                done += 1;
            }
        }
    }
    Ok(done)
}

/// A kernel of several widths gives, for each of them, the bits of the kernel of that width alone. Returns the number of widths.
fn every_width(device: &Device) -> Result<usize> {
    if !has_hopper(device) {
        return Ok(0);
    }
    let (m, k, tile, cluster) = if is_fast(device) {
        (300, 4104, [128, 256, 64], [2, 1, 1])
    } else {
        (72, 264, [64, 64, 64], [1, 1, 1])
    };
    let [rows, widest, step] = tile;
    let mut done = 0;
    for columns in (1..=widest / 16).map(|units| units * 16) {
        if 2 * columns <= widest {
            continue;
        }
        // Two tiles and a part of one.
        let n = 2 * columns as usize + 20;
        let of = Inputs::<bf16>::new(device, [m, n, k], 30)?;
        let mut written = of.c.clone();
        let gemm = of.gemm(&mut written)?;
        let run = |tile, columns| -> Result<Vec<u32>> {
            let call = gemm.prepare_with(|operands, _| {
                Ok(GemmPlan {
                    tile,
                    columns,
                    warps: [rows / 64, 1],
                    cluster,
                    ..GemmPlan::new(GemmMethod::Hopper, operands)
                })
            })?;
            of.c.fill_bytes(0xff)?;
            call.run(device)?;
            bits(&of.c)
        };
        ensure!(
            run(tile, columns)? == run([rows, columns, step], 0)?,
            "tiles of {columns} columns: the kernel of several widths has other bits than that of one"
        );
        done += 1;
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use colex_atom::Arch;

    #[test]
    fn bits_of_products_are_compared_on_the_simulator() {
        let said = of_products(&Device::simulator(Arch::Sm90a)).expect("the same bits");
        assert_eq!(
            said,
            "30 runs of plans, 80 numbers of rows, 12 products of two streams at once, 2 widths of one kernel"
        );
        let said = of_products(&Device::simulator(Arch::Sm80)).expect("the same bits");
        assert!(said.starts_with("3 runs of plans, 80"), "{said}");
    }
}
