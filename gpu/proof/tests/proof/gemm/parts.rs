//! Products in parts of K with an epilogue: the kernel that adds the parts reads tensors and stores outputs in vectors where they fit.

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::Epilogue;
use colex_gpu::kernels::GemmElement;
use colex_gpu::kernels::gemm::{Division, GemmMethod, GemmPlan, Operands};
use colex_gpu::{Buffer, Device, Gemm, View, ViewMut};
use colex_layout::Layout;
use colex_proof::soak::{draws, takes};
use colex_proof::sweep::Random;
use colex_sim::{Schedule, SimOptions};
use half::{bf16, f16};

/// Matrices of small integers, which lie anywhere in a memory.
struct Matrix<T: GemmElement> {
    before: Vec<T>,
    memory: Buffer<T>,
    first: usize,
    layout: Layout,
}

impl<T: GemmElement> Matrix<T> {
    fn new(device: &Device, r: &mut Random, layout: Layout) -> Matrix<T> {
        // Multiples of 16 bytes, and addresses at which fewer elements are aligned.
        let first = r.one(&[0, 0, 0, 16, 1, 2, 4, 8]);
        let count = first + layout.cosize().expect("a size") as usize + 16;
        let number = |_| T::from_f64(r.below(9_i64) as f64 - 4.0);
        let before: Vec<T> = (0..count).map(number).collect();
        Matrix {
            memory: device.upload(&before).expect("memory"),
            before,
            first,
            layout,
        }
    }

    fn at(&self, all: &[T], i: i64) -> f64 {
        all[self.first + self.layout.at(i).expect("an offset") as usize].to_f64()
    }

    /// Whether all elements are as they were but those of the matrix.
    fn is_kept(&self, all: &[T]) -> bool {
        let mut is_own = vec![false; all.len()];
        for i in 0..self.layout.size() {
            let at = self.layout.at(i).expect("an offset");
            is_own[self.first + at as usize] = true;
        }
        let is_as_before = |i: usize| all[i].to_f64() == self.before[i].to_f64();
        (0..all.len()).all(|i| is_own[i] || is_as_before(i))
    }
}

/// A matrix that is contiguous along one of its modes. Its rows (or columns) begin where 16 bytes do, or not.
fn packed(r: &mut Random, m: i64, n: i64) -> Layout {
    let room = r.one(&[0, 0, 8, 1, 2, 4]);
    let layout = match r.below(3) {
        0 => Layout::new((m, n), (1, m + room)),
        _ => Layout::new((m, n), (n + room, 1)),
    };
    layout.expect("a layout")
}

/// A tensor that an epilogue reads: also of stride 0 along a mode.
fn read(r: &mut Random, m: i64, n: i64) -> Layout {
    let layout = match r.below(6) {
        0 => Layout::new((m, n), (0, 1)),
        1 => Layout::new((m, n), (1, 0)),
        _ => return packed(r, m, n),
    };
    layout.expect("a layout")
}

/// One product. The vectors of 16 bytes, and the single elements, that its second kernel stores.
fn run<C: GemmElement, T: GemmElement>(r: &mut Random, seed: u64) -> [usize; 2] {
    let options = SimOptions::default().schedule(Schedule::from_seed(seed));
    let device = Device::simulator_with(Arch::Sm90a, options);
    let reads_c = r.below(3) == 0;
    let sum = Epilogue::new(Ty::F32, |e| {
        let [bias, residual] = ["bias", "residual"].map(|name| e.tensor(name, T::TY).to(Ty::F32));
        let difference = e.accumulator() - residual.clone();
        e.output("again", difference.to(T::TY));
        let sum = e.accumulator() + bias + residual;
        let sum = if reads_c {
            sum + e.c(C::TY).to(Ty::F32)
        } else {
            sum
        };
        sum.to(C::TY)
    });
    let sum = sum.expect("an epilogue");
    let extents = [8, 16, 40, 64, 72, 96, 136, 7, 30, 66];
    let (m, n, k) = (r.one(&extents), r.one(&extents), 8 * (1 + r.below(48_i64)));
    let numbers = |r: &mut Random, count: i64| -> Vec<bf16> {
        let number = |_| bf16::from_f64(r.below(5_i64) as f64 - 2.0);
        (0..count).map(number).collect()
    };
    let (in_a, in_b) = (numbers(r, m * k), numbers(r, n * k));
    let upload = |numbers: &[bf16]| device.upload(numbers).expect("memory");
    let (a, b) = (upload(&in_a), upload(&in_b));
    let (of_c, of_again) = (packed(r, m, n), packed(r, m, n));
    let c = Matrix::<C>::new(&device, r, of_c);
    let again = Matrix::<T>::new(&device, r, of_again);
    let (of_bias, of_residual) = (read(r, m, n), read(r, m, n));
    let bias = Matrix::<T>::new(&device, r, of_bias);
    let residual = Matrix::<T>::new(&device, r, of_residual);
    let (tile, cluster) = r.one(&[
        ([64, 8, 16], [1, 1, 1]),
        ([64, 24, 16], [1, 1, 1]),
        ([64, 48, 32], [2, 1, 1]),
        ([128, 64, 16], [1, 1, 1]),
        ([128, 16, 16], [1, 1, 2]),
    ]);
    let (split, undivided) = (r.one(&[2, 3, 4, 5, 7, 8, 9, 13, 17, 20]), r.one(&[0, 0, 1]));
    let division = r.one(&[Division::SplitK, Division::SplitK, Division::StreamK]);
    let (early, swap) = (r.below(2) == 0, r.below(3) == 0);
    let mut own = c.memory.slice(c.first..).expect("a slice");
    let mut beside = again.memory.slice(again.first..).expect("a slice");
    let [of_bias, of_residual] = [&bias, &residual].map(|matrix| {
        let memory = matrix.memory.slice(matrix.first..);
        memory.expect("a slice")
    });
    let call = Gemm::new(
        &a.view((m, k)).expect("A"),
        &b.view((n, k)).expect("B"),
        &ViewMut::new(&mut own, &c.layout).expect("C"),
    )
    .epilogue(&sum)
    .tensor("bias", &View::new(&of_bias, &bias.layout).expect("it fits"))
    .tensor(
        "residual",
        &View::new(&of_residual, &residual.layout).expect("it fits"),
    )
    .output(
        "again",
        &ViewMut::new(&mut beside, &again.layout).expect("it fits"),
    )
    .prepare_with(|operands, _| {
        Ok(GemmPlan {
            tile,
            warps: [tile[0] / 64, 1],
            cluster,
            split,
            division,
            undivided,
            early,
            swap,
            stages: 2,
            ..GemmPlan::new(GemmMethod::Hopper, operands)
        })
    });
    let call = call.unwrap_or_else(|why| panic!("{m}x{n}x{k}: {why}"));
    call.run(&device)
        .unwrap_or_else(|why| panic!("{call}: {why}"));
    let said = format!(
        "{call}, {m}x{n}x{k} of {} into {}, bias {}, residual {}, again {} of {}, firsts {:?}",
        C::TY,
        c.layout,
        bias.layout,
        residual.layout,
        again.layout,
        T::TY,
        [c.first, bias.first, residual.first, again.first]
    );
    let text = call
        .built_sum()
        .map(|sum| sum.kernel.ptx().expect("a text"));
    drop(call);
    let (found, found_again) = (
        c.memory.download().expect("C"),
        again.memory.download().expect("an output"),
    );
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let at = i + m * j;
        let term =
            |l: i64| in_a[(i * k + l) as usize].to_f64() * in_b[(j * k + l) as usize].to_f64();
        let total: f64 = (0..k).map(term).sum();
        let [bias, residual] = [&bias, &residual].map(|matrix| matrix.at(&matrix.before, at));
        let old = if reads_c { c.at(&c.before, at) } else { 0.0 };
        let wanted = C::from_f64(total + bias + residual + old).to_f64();
        assert_eq!(c.at(&found, at), wanted, "({i},{j}): {said}");
        let wanted = T::from_f64(total - residual).to_f64();
        assert_eq!(
            again.at(&found_again, at),
            wanted,
            "({i},{j}) again: {said}"
        );
    }
    assert!(c.is_kept(&found) && again.is_kept(&found_again), "{said}");
    let text = text.unwrap_or_default();
    let stores = text.lines().filter(|line| line.contains("st.global"));
    let (wide, narrow): (Vec<&str>, Vec<&str>) =
        stores.partition(|line| line.contains(".v4.b32") || line.contains(".v4.f32"));
    [wide.len(), narrow.len()]
}

/// Residuals, old elements of C, biases and a second output of any order, type and alignment, in vectors and element by element: by rows and by
/// columns, with tiles of which a thread has one vector of a part and two, with up to 20 parts of each tile and in shares, under every schedule.
#[test]
fn law_parts_of_k_read_and_store_what_their_epilogue_says() {
    let r = &mut Random::new(20);
    let (mut in_vectors, mut one_by_one) = (0, 0);
    let count = draws(32);
    for i in 0..count {
        let [wide, narrow] = match i % 4 {
            0 => run::<bf16, bf16>(r, i as u64),
            1 => run::<bf16, f32>(r, i as u64),
            2 => run::<f32, bf16>(r, i as u64),
            _ => run::<f16, f16>(r, i as u64),
        };
        in_vectors += usize::from(wide > 0);
        one_by_one += usize::from(wide == 0 && narrow > 0);
    }
    assert!(
        in_vectors * 8 > count && one_by_one * 10 > count,
        "{in_vectors}, {one_by_one} of {count}"
    );
    println!(
        "law gemm.parts_with_an_epilogue: {count} products, {in_vectors} with vectors of 16 bytes, {one_by_one} without"
    );
}

/// The plans that take a workspace, by each way to divide K: those of the list for these operands whose kernels take parts, all whose threads load,
/// and some with small tiles. A plan of a list has as many stages as leave room for the sums of its own division.
fn with_workspaces(operands: Operands, arch: Arch) -> Vec<GemmPlan> {
    let listed = GemmPlan::candidates(operands, arch).into_iter();
    let listed = listed.filter(|plan| plan.split > 1 || plan.gather);
    let small = [false, true].map(|swap| GemmPlan {
        tile: [64, 32, 16],
        warps: [1, 1],
        cluster: [1; 3],
        stages: 2,
        gather: operands.vectors[..2] != [8, 8],
        swap,
        ..GemmPlan::new(GemmMethod::Hopper, operands)
    });
    let divided = |plan: GemmPlan| {
        let of = [
            (2, Division::SplitK),
            (3, Division::StreamK),
            (2, Division::SplitKFixup),
        ];
        of.map(|(split, division)| GemmPlan {
            split,
            division,
            undivided: 0,
            ..plan
        })
    };
    let hopper = listed.filter(|plan| plan.method == GemmMethod::Hopper);
    let all = hopper.chain(small).flat_map(divided);
    all.filter(|plan| plan.check(arch).is_ok()).collect()
}

/// The products of a batch of two whose A, B or both are one matrix, by all plans that take a workspace and by that of the call. The number of
/// runs by each division, where TMA loads and where threads do.
fn run_with_shared_factors<T: GemmElement>(
    r: &mut Random,
    k: i64,
    (is_scaled, step): (bool, usize),
) -> [[usize; 3]; 2] {
    let device = Device::simulator(Arch::Sm90a);
    let sum = Epilogue::new(Ty::F32, |e| {
        e.accumulator() * e.scalar("factor", Ty::F32) + e.tensor("bias", Ty::F32)
    });
    let sum = sum.expect("an epilogue");
    let (mut runs, mut case) = ([[0; 3]; 2], 0);
    for shared in [[false, true], [true, false], [true, true]] {
        let (m, n) = r.one(&[(3, 3), (66, 40), (7, 72)]);
        let mut numbers = |count: i64| -> Vec<T> {
            let number = |_| T::from_f64(r.below(5_i64) as f64 - 2.0);
            (0..count).map(number).collect()
        };
        let (in_a, in_b, in_bias) = (numbers(2 * m * k), numbers(2 * n * k), numbers(n));
        let bias: Vec<f32> = in_bias.iter().map(|x| x.to_f64() as f32).collect();
        let apart = [m, n].map(|rows| rows * k);
        let of = |at: usize, rows: i64| {
            let apart = if shared[at] { 0 } else { apart[at] };
            Layout::new((rows, k, 2), (k, 1, apart)).expect("a layout")
        };
        let (a, b) = (
            device.upload(&in_a).expect("memory"),
            device.upload(&in_b).expect("memory"),
        );
        let bias_memory = device.upload(&bias).expect("memory");
        let mut c = device
            .poisoned::<f32>(2 * (m * n) as usize)
            .expect("memory");
        let read = c.clone();
        let (a, b) = (
            View::new(&a, of(0, m)).expect("A"),
            View::new(&b, of(1, n)).expect("B"),
        );
        let of_c = Layout::new((m, n, 2), (n, 1, m * n)).expect("a layout");
        let of_bias = Layout::new((m, n, 2), (0, 1, 0)).expect("a layout");
        let c = ViewMut::new(&mut c, of_c).expect("C");
        let bias_view = View::new(&bias_memory, of_bias).expect("a tensor");
        let gemm = Gemm::new(&a, &b, &c);
        let gemm = if is_scaled {
            let gemm = gemm.epilogue(&sum).scalar("factor", 2.0);
            gemm.tensor("bias", &bias_view)
        } else {
            gemm
        };
        let mut plans = Vec::new();
        let taken = gemm.prepare_with(|operands, arch| {
            plans = with_workspaces(operands, arch);
            Ok(plans[0])
        });
        taken.expect("a call");
        let element = |at: i64| {
            let (product, i, j) = (at / (m * n), at / n % m, at % n);
            let [of_a, of_b] = [0, 1].map(|of: usize| {
                let apart = if shared[of] { 0 } else { apart[of] };
                product * apart
            });
            let term = |l: i64| {
                let a = in_a[(of_a + i * k + l) as usize].to_f64();
                a * in_b[(of_b + j * k + l) as usize].to_f64()
            };
            let total: f64 = (0..k).map(term).sum();
            if is_scaled {
                total as f32 * 2.0 + bias[j as usize]
            } else {
                total as f32
            }
        };
        let wanted: Vec<f32> = (0..2 * m * n).map(element).collect();
        let is_right = |said: &str| {
            let found = read.download().expect("C");
            let wrong = (0..found.len()).find(|at| found[*at] != wanted[*at]);
            assert_eq!(wrong, None, "{said}: {found:?}");
        };
        let said = |plan: &GemmPlan| format!("{m}x{n}x{k}, shared {shared:?}, {}, {plan}", T::TY);
        for plan in plans {
            case += 1;
            if !takes(step, case) {
                continue;
            }
            read.fill_bytes(0xff).expect("memory");
            let said = said(&plan);
            let call = gemm.prepare_with(|_, _| Ok(plan));
            let call = call.unwrap_or_else(|why| panic!("{said}: {why}"));
            call.run(&device)
                .unwrap_or_else(|why| panic!("{said}: {why}"));
            is_right(&said);
            let division = match plan.division {
                Division::SplitK => 0,
                Division::StreamK => 1,
                Division::SplitKFixup => 2,
            };
            runs[usize::from(plan.gather)][division] += 1;
        }
        read.fill_bytes(0xff).expect("memory");
        gemm.run().expect("a product");
        is_right("the plan of the call");
    }
    runs
}

/// A factor that all products of a batch share has a stride of 0 along it. Where threads load the factor, the stride is an argument, and the kernel
/// has the address of its workspace among the same arguments: neither is taken for the other, by any kernel that takes a workspace.
#[test]
fn law_kernels_with_a_workspace_take_factors_that_all_products_share() {
    let r = &mut Random::of(19, "shared factors");
    let mut runs = [[0; 3]; 2];
    for (number, k) in [257, 264, 193, 256].into_iter().enumerate() {
        // TMA describes no rows of an odd length.
        let step = if k % 8 == 0 { 7 } else { 5 };
        let found = [
            run_with_shared_factors::<bf16>(r, k, (number > 1, step)),
            run_with_shared_factors::<f16>(r, k, (number < 2, step)),
        ];
        for found in found {
            for (way, of_way) in found.into_iter().enumerate() {
                for (division, count) in of_way.into_iter().enumerate() {
                    runs[way][division] += count;
                }
            }
        }
    }
    let all = runs.iter().flatten();
    assert!(all.clone().all(|count| *count > 2), "{runs:?}");
    let cases: usize = all.sum();
    println!("law parts.shared_factors: {cases} cases, by TMA and by threads: {runs:?}");
}
