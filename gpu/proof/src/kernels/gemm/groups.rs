//! Products in groups, drawn at random: numbers of rows, 0 among them, offsets that are none, strides, factors, plans.

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::{GroupProblem, Groups};
use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan};
use colex_gpu::kernels::{Compute, GemmElement, Major};
use colex_gpu::{Device, Gemm, View, ViewMut};
use colex_layout::Layout;
use colex_sched::{Order, RasterOrder};
use half::{bf16, f16};

use crate::kernels::trapped;
use crate::sweep::Random;

/// Computes drawn products in groups on a device, and compares every element of C, bit by bit: those of no group stay as they
/// are. The elements of A (and, of groups along K, of B) that belong to no group are NaN. Numbers are small, so that no kernel
/// rounds before the end. Returns the number of elements.
///
/// # Errors
///
/// Returns the first product whose result is wrong, in words.
pub fn check_groups(device: &Device, seed: u64, rounds: usize) -> Result<usize, String> {
    let mut r = Random::of(seed, "groups");
    let mut count = 0;
    for round in 0..rounds {
        let run = match r.below(8_u64) {
            0..3 => run::<bf16, bf16>,
            3 => run::<f16, f16>,
            4 => run::<f16, f32>,
            5 => run::<f32, f32>,
            6 => run::<i8, i32>,
            _ => run::<f64, f64>,
        };
        count += run(device, &mut r).map_err(|why| format!("round {round} of {seed}: {why}"))?;
    }
    Ok(count)
}

/// Offsets or counts of drawn groups, of at most one of `lengths` rows each, and the extent that they divide.
pub(crate) fn numbers(
    r: &mut Random,
    kind: Groups,
    groups: i64,
    lengths: &[u32],
) -> (Vec<u32>, i64) {
    let most = r.one(lengths);
    if kind == Groups::Masked {
        let of = |r: &mut Random| match r.below(8_u64) {
            0 | 1 => 0,
            2 => most,
            3 => r.one(&[most + 7, u32::MAX]),
            _ => r.below(most + 1),
        };
        return ((0..groups).map(|_| of(r)).collect(), i64::from(most));
    }
    // Rows before the first group.
    let mut offsets = vec![if r.one_in(3) { 0 } else { r.below(5_u32) }];
    for _ in 0..groups {
        let length = match r.below(5_u64) {
            0 => 0,
            1 => 1,
            // Whole vectors.
            2 => r.below(most + 1) / 8 * 8,
            _ => r.below(most + 1),
        };
        offsets.push(offsets[offsets.len() - 1] + length);
    }
    let last = i64::from(offsets[offsets.len() - 1]);
    let mut extent = (last + r.below(9_i64)).max(1);
    let count = offsets.len();
    match r.below(5_u64) {
        // The matrix ends within the last group.
        0 => extent = (last - r.below(4_i64)).max(1),
        // They descend, or lie beyond all rows.
        1 => offsets[r.below(count)] = r.one(&[0, u32::MAX, 1 << 31]),
        _ => {}
    }
    (offsets, extent)
}

/// Which of A, B and C have a mode of groups.
pub(crate) fn modes(kind: Groups) -> [bool; 3] {
    match kind {
        Groups::Rows => [false, true, false],
        Groups::Masked => [true; 3],
        _ => [false, false, true],
    }
}

/// The layout of a matrix in a drawn order, with the mode of the groups behind it if it has one.
pub(crate) fn layout(r: &mut Random, [rows, columns]: [i64; 2], groups: Option<i64>) -> Layout {
    let is_along_rows = r.one_in(3);
    let touching = if is_along_rows { rows } else { columns };
    let leading = match r.below(4_u64) {
        0 => touching + r.below(7_i64),
        // Rows of whole vectors.
        _ => (touching + 15) / 16 * 16,
    };
    let (strides, size) = if is_along_rows {
        ([1, leading], leading * columns)
    } else {
        ([leading, 1], leading * rows)
    };
    let (mut shape, mut strides) = (vec![rows, columns], strides.to_vec());
    if let Some(groups) = groups {
        shape.push(groups);
        strides.push(size + 16 * r.below(3_i64));
    }
    Layout::new(shape, strides).expect("extents")
}

/// Small integers.
fn filled<T: GemmElement>(r: &mut Random, layout: &Layout, most: i64) -> Vec<T> {
    let length = layout.cosize().expect("small") as usize;
    let number = |_| T::from_f64((r.below(2 * most + 1) - most) as f64);
    (0..length).map(number).collect()
}

/// A plan with drawn numbers that the kernels take.
fn drawn(r: &mut Random, kind: Groups, mut plan: GemmPlan) -> GemmPlan {
    let raster = r.one(&[RasterOrder::AlongM, RasterOrder::AlongN]);
    let width = r.one(&[1, 2, 8]);
    plan.order = Order::Grouped { width, raster };
    match plan.method {
        GemmMethod::Hopper => {
            let consumers = r.one(&[1, 2]);
            plan.warps = [consumers, 1];
            plan.tile[0] = 64 * consumers;
            plan.tile[1] = r.one(&[32, 64, 96, 128]);
            if kind == Groups::AlongK && plan.operands.ab.bits() == 16 && r.one_in(3) {
                // A part of K that begins anywhere has no vectors along it for threads.
                plan.gather = true;
                for operand in [0, 1] {
                    if plan.operands.majors[operand] == Major::Second {
                        plan.operands.vectors[operand] = 1;
                    }
                }
            }
            plan.cluster = if plan.gather {
                [1; 3]
            } else {
                r.one(&[[1, 1, 1], [2, 1, 1], [1, 2, 1]])
            };
            plan.stages = 2 + r.below(3_i64);
        }
        GemmMethod::Ampere if plan.operands.ab.bits() == 16 => {
            plan.tile = [r.one(&[32, 64, 128]), r.one(&[32, 64, 128]), 32];
            plan.warps = [2, 2];
            plan.stages = 2 + r.below(3_i64);
        }
        _ => {}
    }
    plan
}

fn run<T: GemmElement, C: GemmElement>(device: &Device, r: &mut Random) -> Result<usize, String> {
    let kind = r.one(&Groups::ALL);
    let groups = 1 + r.below(4_i64);
    let (numbers, extent) = numbers(r, kind, groups, &[3, 30, 100]);
    let n = r.one(&[1, 8, 30, 64, 72, 100]);
    let (m, k) = match kind {
        Groups::AlongK => (r.one(&[1, 8, 40, 72]), extent),
        _ => (extent, r.one(&[1, 8, 16, 40, 64, 75])),
    };
    let problem = GroupProblem {
        kind,
        groups,
        m,
        n,
        k,
    };
    let spans = problem.spans(&numbers);
    let [of_a, of_b, of_c] = modes(kind).map(|has_mode| has_mode.then_some(groups));
    let of_a = layout(r, [m, k], of_a);
    let of_b = layout(r, [n, k], of_b);
    let of_c = layout(r, [m, n], of_c);
    let (alpha, beta) = (r.one(&[1.0, 1.0, 2.0]), r.one(&[0.0, 0.0, 1.0, -2.0]));
    let tf32 = T::TY == Ty::F32 && r.one_in(2);
    let by_plan = r.one_in(2);
    let what = format!(
        "{problem} of {} to {}, numbers {numbers:?}, A {of_a}, B {of_b}, C {of_c}, alpha {alpha}, beta {beta}, tf32 {tf32}",
        T::NAME,
        C::NAME
    );
    let at = |layout: &Layout, i: i64, j: i64, group: i64| {
        let offset = match layout.rank() {
            2 => layout.at((i, j)),
            _ => layout.at((i, j, group)),
        };
        offset.expect("a coordinate") as usize
    };
    let mut a = filled::<T>(r, &of_a, 3);
    let mut b = filled::<T>(r, &of_b, 3);
    let old = filled::<C>(r, &of_c, 5);
    // What belongs to no group is never multiplied.
    let is_float = !matches!(T::TY, Ty::S8 | Ty::S32);
    let nan = T::from_f64(f64::NAN);
    if is_float {
        for group in 0..groups {
            let is_of = |i: i64| match kind {
                Groups::Masked => spans[group as usize].contains(&i),
                _ => spans.iter().any(|span| span.contains(&i)),
            };
            for i in (0..extent).filter(|i| !is_of(*i)) {
                if kind == Groups::AlongK {
                    (0..m).for_each(|row| a[at(&of_a, row, i, group)] = nan);
                    (0..n).for_each(|row| b[at(&of_b, row, i, group)] = nan);
                } else {
                    (0..k).for_each(|column| a[at(&of_a, i, column, group)] = nan);
                }
            }
        }
    }
    let mut expected = old.clone();
    for (group, span) in spans.iter().enumerate() {
        let (rows, columns) = match kind {
            Groups::AlongK => (0..m, span.clone()),
            _ => (span.clone(), 0..k),
        };
        let group = group as i64;
        for (i, j) in rows.flat_map(|i| (0..n).map(move |j| (i, j))) {
            let product =
                |l: i64| a[at(&of_a, i, l, group)].to_f64() * b[at(&of_b, j, l, group)].to_f64();
            let sum = columns.clone().map(product).fold(0.0, |sum, x| sum + x);
            let to = &mut expected[at(&of_c, i, j, group)];
            let before = if beta == 0.0 { 0.0 } else { beta * to.to_f64() };
            *to = C::from_f64(alpha * sum + before);
        }
    }
    let text = |e: &dyn std::fmt::Display| format!("{what}: {e}");
    let on_a = device.upload(&a).map_err(|e| text(&e))?;
    let on_b = device.upload(&b).map_err(|e| text(&e))?;
    let mut on_c = device.upload(&old).map_err(|e| text(&e))?;
    let unsigned = device.upload(&numbers).map_err(|e| text(&e))?;
    let signed: Vec<i32> = numbers.iter().map(|n| *n as i32).collect();
    let signed = device.upload(&signed).map_err(|e| text(&e))?;
    {
        let a = View::new(&on_a, &of_a).map_err(|e| text(&e))?;
        let b = View::new(&on_b, &of_b).map_err(|e| text(&e))?;
        let c = ViewMut::new(&mut on_c, &of_c).map_err(|e| text(&e))?;
        let product = Gemm::new(&a, &b, &c).alpha(alpha).beta(beta);
        let product = if tf32 {
            product.compute(Compute::Tf32)
        } else {
            product
        };
        let count = numbers.len() as i64;
        let product = if r.one_in(2) {
            product.groups(kind, &unsigned.view(count).map_err(|e| text(&e))?)
        } else {
            product.groups(kind, &signed.view(count).map_err(|e| text(&e))?)
        };
        let usual = product.prepare().map_err(|e| text(&e))?;
        let plan = *usual.plan().ok_or_else(|| text(&"nothing to do"))?;
        let call = if by_plan {
            product
                .prepare_with(|_, _| Ok(drawn(r, kind, plan)))
                .map_err(|e| text(&e))?
        } else {
            usual
        };
        // The launch decides every access of the library's kernels.
        if let Some(built) = call.built() {
            let trapped = trapped(&built.kernel);
            if !trapped.is_empty() {
                return Err(format!("{what}, {call}: {}", trapped.join("; ")));
            }
        }
        let done = call.run(device);
        done.map_err(|e| format!("{what}, {call}: {e}"))?;
        let is_hopper = device.arch() == Arch::Sm90a;
        let is_mapped = |layout: &Layout, is_cut: bool| {
            let strides = layout.leaves().iter().map(|leaf| {
                let stride = leaf.stride.as_int().map_or(0, |n| n.value());
                (leaf.extent.value(), stride)
            });
            let strides: Vec<(i64, i64)> = strides.collect();
            let whole =
                |(extent, stride): &(i64, i64)| *extent > 1 && (*stride == 1 || stride % 8 == 0);
            strides[..2].iter().all(whole)
                && strides[2..].iter().all(|(_, stride)| stride % 8 == 0)
                && !(is_cut && strides[0].1 == 1)
        };
        let is_mapped = is_mapped(&of_a, kind == Groups::Rows) && is_mapped(&of_b, false);
        if is_hopper && is_mapped && T::BYTES == 2 && plan.method != GemmMethod::Hopper {
            return Err(format!("{what}: {call} is not the Hopper kernel's"));
        }
    }
    let found = on_c.download().map_err(|e| text(&e))?;
    for (place, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let bits = [found, expected].map(|x| C::to_bytes(std::slice::from_ref(x)));
        if bits[0] != bits[1] {
            return Err(format!(
                "{what}: element {place} is {} and should be {}",
                found.to_f64(),
                expected.to_f64()
            ));
        }
    }
    Ok(found.len())
}
