//! Convolutions, drawn at random: extents, filters, strides of the views, epilogues, plans.

use std::fmt::Display;

use colex_atom::Ty;
use colex_gpu::gemm::convolution::reference;
use colex_gpu::gemm::{Convolution, ConvolutionProblem, Epilogue};
use colex_gpu::kernels::GemmElement;
use colex_gpu::kernels::gemm::{Division, GemmMethod, GemmPlan};
use colex_gpu::{Device, View, ViewMut};
use colex_layout::Layout;
use colex_sched::pipeline::Schedule;
use colex_sched::{Order, RasterOrder};
use half::{bf16, f16};

use crate::kernels::trapped;
use crate::sweep::Random;

/// Computes drawn convolutions on a device, and compares every element of the memory of the output, bit by bit. Numbers are small, so
/// that no kernel rounds before the end. Returns the number of elements.
///
/// # Errors
///
/// Returns the first convolution whose result is wrong, in words.
pub fn check(device: &Device, seed: u64, rounds: usize) -> Result<usize, String> {
    let mut r = Random::of(seed, "convolutions");
    let mut count = 0;
    for round in 0..rounds {
        let problem = drawn(&mut r);
        let run = match r.below(9_u64) {
            0..4 => of::<bf16, bf16>,
            4 => of::<f16, f16>,
            5 => of::<bf16, f32>,
            6 => of::<f32, f32>,
            7 => of::<i8, i32>,
            _ => of::<f64, f64>,
        };
        let found = run(device, &mut r, &problem);
        count += found.map_err(|why| format!("round {round} of {seed}: {why}"))?;
    }
    Ok(count)
}

/// Computes every convolution with 1 to 3 taps, strides 1 and 2, and padding 0 and 1 along H and W, on images of odd sizes, in
/// `bf16`, with a number of channels and filters. Returns the number of elements.
///
/// # Errors
///
/// Returns the first convolution whose result is wrong, in words.
pub fn check_small(device: &Device, channels: i64, filters: i64) -> Result<usize, String> {
    let mut r = Random::of(5, "small convolutions");
    let mut count = 0;
    for number in 0..144 {
        let mut rest = number;
        let mut digit = |of: i64| {
            let digit = rest % of;
            rest /= of;
            digit
        };
        let taps = [1 + digit(3), 1 + digit(3)];
        let stride = [1 + digit(2), 1 + digit(2)];
        let padding = [digit(2), digit(2)];
        let problem = ConvolutionProblem::new(2, [5, 7], channels, filters, taps);
        let problem = problem.stride(stride).padding(padding);
        count += compared::<bf16, bf16>(device, &mut r, &ConvolutionCase::compact(problem))?;
    }
    Ok(count)
}

/// A drawn convolution.
fn drawn(r: &mut Random) -> ConvolutionProblem {
    let channels = r.one(&[1, 3, 8, 16, 24, 32, 40, 64, 72]);
    let filters = r.one(&[1, 6, 8, 16, 40, 72]);
    let taps = [0; 2].map(|_| r.one(&[1, 1, 2, 3, 3, 5]));
    let mut problem = ConvolutionProblem::new(1 + r.below(3_i64), [1; 2], channels, filters, taps);
    for (d, of_filter) in taps.into_iter().enumerate() {
        problem.stride[d] = r.one(&[1, 1, 2, 3]);
        // A filter with one tap has a dilation that moves nothing, of any size.
        problem.dilation[d] = match of_filter {
            1 => r.one(&[1, 2, 300, 65_536]),
            _ => r.one(&[1, 1, 1, 2, 3]),
        };
        problem.padding[d] = match r.below(3_u64) {
            0 => [0; 2],
            1 => [of_filter / 2; 2],
            _ => [r.below(3_i64), r.below(4_i64)],
        };
        let reach = (of_filter - 1) * problem.dilation[d] + 1;
        let least = (reach - problem.padding[d][0] - problem.padding[d][1]).max(1);
        problem.size[d] = least + r.below(9_i64);
    }
    if r.one_in(6) {
        // The filter sees one pixel each.
        (problem.taps, problem.stride) = ([1; 2], [1; 2]);
        (problem.padding, problem.dilation) = ([[0; 2]; 2], [1; 2]);
    }
    problem
}

/// A convolution of views.
struct ConvolutionCase {
    problem: ConvolutionProblem,
    /// (N,H,W,C), (K,R,S,C), (N,P,Q,K)
    layouts: [Layout; 3],
    alpha: f64,
    beta: f64,
    /// Whether a bias for each filter is added, and what is below 0 becomes 0.
    biased: bool,
    by_plan: bool,
}

/// Four modes whose last is contiguous, each row of a mode this many elements longer than what it holds.
fn layout(extents: [i64; 4], more: [i64; 3]) -> Layout {
    let mut strides = [1; 4];
    for i in (0..3).rev() {
        strides[i] = strides[i + 1] * extents[i + 1] + more[i];
    }
    Layout::new(extents.to_vec(), strides.to_vec()).expect("positive extents")
}

impl ConvolutionCase {
    fn extents(problem: &ConvolutionProblem) -> [[i64; 4]; 3] {
        let [p, q] = problem.positions().expect("a convolution");
        let ([h, w], [r, s]) = (problem.size, problem.taps);
        let (n, c, k) = (problem.images, problem.channels, problem.filters);
        [[n, h, w, c], [k, r, s, c], [n, p, q, k]]
    }

    fn compact(problem: ConvolutionProblem) -> ConvolutionCase {
        ConvolutionCase {
            problem,
            layouts: ConvolutionCase::extents(&problem).map(|extents| layout(extents, [0; 3])),
            alpha: 1.0,
            beta: 0.0,
            biased: false,
            by_plan: false,
        }
    }

    fn drawn(r: &mut Random, problem: ConvolutionProblem) -> ConvolutionCase {
        let mut of = |extents: [i64; 4]| {
            let more = match r.below(4_u64) {
                0 => [0; 3].map(|_| r.below(5_i64)),
                // Pixels of whole vectors.
                1 => {
                    let pixel = (extents[3] + 7) / 8 * 8 - extents[3];
                    [8 * r.below(3_i64), 8 * r.below(2_i64), pixel]
                }
                _ => [0; 3],
            };
            if r.one_in(8) {
                // Channels apart: NCHW, seen as NHWC.
                let [n, h, w, c] = extents;
                let strides = vec![c * h * w, w, 1, h * w];
                return Layout::new(vec![n, h, w, c], strides).expect("positive extents");
            }
            layout(extents, more)
        };
        let layouts = ConvolutionCase::extents(&problem).map(&mut of);
        let biased = r.one_in(4);
        ConvolutionCase {
            problem,
            layouts,
            alpha: if biased { 1.0 } else { r.one(&[1.0, 1.0, 2.0]) },
            beta: if biased {
                0.0
            } else {
                r.one(&[0.0, 0.0, 1.0, -2.0])
            },
            biased,
            by_plan: r.one_in(2),
        }
    }
}

fn of<T: GemmElement, C: GemmElement>(
    device: &Device,
    r: &mut Random,
    problem: &ConvolutionProblem,
) -> Result<usize, String> {
    let case = ConvolutionCase::drawn(r, *problem);
    compared::<T, C>(device, r, &case)
}

/// Small integers.
fn filled<T: GemmElement>(r: &mut Random, length: i64, most: i64) -> Vec<T> {
    let number = |_| T::from_f64((r.below(2 * most + 1) - most) as f64);
    (0..length).map(number).collect()
}

/// A plan with drawn numbers that the kernels take.
fn changed(r: &mut Random, mut plan: GemmPlan, is_mapped: bool) -> GemmPlan {
    let raster = r.one(&[RasterOrder::AlongM, RasterOrder::AlongN]);
    let width = r.one(&[1, 2, 8]);
    plan.order = Order::Grouped { width, raster };
    if plan.method != GemmMethod::Hopper || !is_mapped {
        return plan;
    }
    let consumers = r.one(&[1, 2]);
    plan.schedule = Schedule::Cooperative;
    (plan.split, plan.undivided) = (1, 0);
    plan.division = Division::SplitK;
    plan.warps = [consumers, 1];
    plan.tile = [
        64 * consumers,
        r.one(&[32, 64, 96, 128]),
        r.one(&[16, 32, 64, 128]),
    ];
    plan.cluster = r.one(&[[1, 1, 1], [2, 1, 1], [1, 2, 1], [2, 2, 1], [1, 1, 2]]);
    plan.stages = 2 + r.below(2_i64);
    if plan.cluster[2] > 1 {
        // The sums of the cluster need the room of the third stage of the largest tile.
        plan.stages = 2;
    }
    if consumers == 1 && plan.cluster[2] == 1 && r.one_in(3) {
        plan.schedule = Schedule::Pingpong;
    } else if r.one_in(3) {
        plan.split = 2 + r.below(2_i64);
        plan.division = r.one(&[Division::SplitK, Division::StreamK]);
        if plan.division == Division::SplitK && (plan.split, plan.stages) == (2, 2) {
            plan.division = Division::SplitKFixup;
        }
    }
    plan
}

fn compared<T: GemmElement, C: GemmElement>(
    device: &Device,
    r: &mut Random,
    case: &ConvolutionCase,
) -> Result<usize, String> {
    let ConvolutionCase {
        problem,
        layouts: [of_x, of_filters, of_y],
        alpha,
        beta,
        biased,
        by_plan,
    } = case;
    let what = format!(
        "{problem} of {} to {}, x {of_x}, filters {of_filters}, y {of_y}, alpha {alpha}, beta {beta}, bias {biased}",
        T::NAME,
        C::NAME
    );
    let text = |e: &dyn Display| format!("{what}: {e}");
    let length = |layout: &Layout| layout.cosize().expect("small");
    let x = filled::<T>(r, length(of_x), 2);
    let filters = filled::<T>(r, length(of_filters), 2);
    let old = filled::<C>(r, length(of_y), 5);
    let bias: Vec<f32> = (0..problem.filters)
        .map(|_| (r.below(9_i64) - 4) as f32)
        .collect();
    // The reference has compact tensors, the last mode fastest.
    let offsets = |layout: &Layout| -> Vec<usize> {
        let [a, b, c, d]: [i64; 4] =
            core::array::from_fn(|i| layout.mode(i).map_or(1, |mode| mode.size()));
        let mut all = Vec::new();
        for i in 0..a {
            for (j, l) in (0..b).flat_map(|j| (0..c).map(move |l| (j, l))) {
                all.extend((0..d).map(|m| layout.at((i, j, l, m)).expect("a coordinate") as usize));
            }
        }
        all
    };
    let compact = |all: &[T], layout: &Layout| -> Vec<T> {
        offsets(layout).into_iter().map(|at| all[at]).collect()
    };
    let sums = reference::convolution(problem, &compact(&x, of_x), &compact(&filters, of_filters))
        .map_err(|e| text(&e))?;
    let mut expected = old.clone();
    for (number, (at, sum)) in offsets(of_y).into_iter().zip(sums).enumerate() {
        let before = if *beta == 0.0 {
            0.0
        } else {
            beta * old[at].to_f64()
        };
        let sum = alpha * sum + before;
        expected[at] = C::from_f64(if *biased {
            (sum + f64::from(bias[number % bias.len()])).max(0.0)
        } else {
            sum
        });
    }
    let on_x = device.upload(&x).map_err(|e| text(&e))?;
    let on_filters = device.upload(&filters).map_err(|e| text(&e))?;
    let on_bias = device.upload(&bias).map_err(|e| text(&e))?;
    let mut on_y = device.upload(&old).map_err(|e| text(&e))?;
    {
        let x = View::new(&on_x, of_x).map_err(|e| text(&e))?;
        let filters = View::new(&on_filters, of_filters).map_err(|e| text(&e))?;
        let y = ViewMut::new(&mut on_y, of_y).map_err(|e| text(&e))?;
        let convolution = Convolution::new(&x, &filters, &y)
            .stride(problem.stride)
            .padding_of(problem.padding)
            .dilation(problem.dilation);
        let product = convolution.product().map_err(|e| text(&e))?;
        let mut product = product.alpha(*alpha).beta(*beta);
        if *biased && C::TY.bits() <= 32 && !matches!(C::TY, Ty::S32) {
            let epilogue = Epilogue::new(Ty::F32, |e| {
                let bias = e.tensor("bias", Ty::F32);
                (e.accumulator() + bias).relu().to(C::TY)
            });
            let rows = problem.product().map_err(|e| text(&e))?.m;
            let of_bias = Layout::new((rows, problem.filters), (0, 1)).map_err(|e| text(&e))?;
            let bias = View::new(&on_bias, of_bias).map_err(|e| text(&e))?;
            product = product
                .epilogue(&epilogue.map_err(|e| text(&e))?)
                .tensor("bias", &bias);
        } else if *biased {
            // A bias is added in f32.
            return Ok(0);
        }
        let usual = product.prepare().map_err(|e| text(&e))?;
        let plan = *usual.plan().ok_or_else(|| text(&"nothing to do"))?;
        let is_mapped = usual.built().is_some_and(|built| {
            built
                .parameters()
                .any(|parameter| parameter.name == "A_positions_0")
        });
        let call = if *by_plan && (is_mapped || usual.packed().next().is_none()) {
            product
                .prepare_with(|_, _| Ok(changed(r, plan, is_mapped)))
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
    }
    let found = on_y.download().map_err(|e| text(&e))?;
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
