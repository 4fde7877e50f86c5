//! Random plans over all of their fields against the reference, for the tests on the simulator and `xtask gpu plans` on
//! a GPU.
//!
//! Most of the drawn numbers are near what a kernel takes, so that many plans are accepted; a third of the plans have a
//! number that is zero, negative, odd or immense.

pub mod listed;

use core::fmt;
use std::collections::BTreeMap;

use colex_atom::{Arch, Ty};
use half::{bf16, f16};

use super::copies::{CopyCase, Failure};
use super::gemm::GemmCase;
use crate::sweep::Random;
use colex_device::Device;
use colex_gpu::kernels::gemm::{Division, GemmMethod, GemmPlan, Operands};
use colex_gpu::kernels::{Compute, CopyMethod, GemmProblem, Major, Operand};
use colex_gpu::{Error, PlanRefusal};
use colex_layout::Layout;
use colex_sched::pipeline::Schedule;
use colex_sched::{Order, RasterOrder, ThreadblockSwizzle};

/// Numbers that no field expects.
const WILD: [i64; 16] = [
    0,
    -1,
    1,
    2,
    3,
    5,
    7,
    12,
    100,
    127,
    1 << 20,
    1 << 40,
    -(1 << 40),
    1 << 62,
    i64::MAX,
    i64::MIN,
];

/// How a plan ended on a problem.
#[derive(Clone, Debug)]
pub enum Ended {
    /// The product or copy is right.
    Right,
    /// No kernel was built or launched, and this says why.
    Refused(Error),
    /// The kernel failed.
    Failed(Failure),
}

impl Ended {
    fn of(result: Result<Result<(), Error>, Failure>) -> Ended {
        match result {
            Ok(Ok(())) => Ended::Right,
            Ok(Err(refused)) => Ended::Refused(refused),
            Err(failure) => Ended::Failed(failure),
        }
    }

    /// Returns the kind of a refusal.
    pub fn kind(&self) -> Option<&'static str> {
        let Ended::Refused(error) = self else {
            return None;
        };
        let device = error.device();
        Some(match error.plan() {
            Some(PlanRefusal::Number) => "number",
            Some(PlanRefusal::Order) => "order",
            Some(PlanRefusal::Vector) => "vector",
            Some(PlanRefusal::Limit) => "limit",
            Some(PlanRefusal::Shares) => "shares",
            Some(PlanRefusal::Call) => "another call",
            Some(PlanRefusal::Whole) => "not whole",
            Some(PlanRefusal::Combination) => "combination",
            _ if error.is_unsupported_product() => "types",
            _ if error.build().is_some() => "build",
            _ => match device {
                Some(error) if error.refused().is_some() => "verifier",
                Some(error) if error.launch().is_some() => "launch",
                Some(error) if error.is_tensor_refused() => "tensor map",
                Some(_) => "device",
                None => "operands",
            },
        })
    }
}

/// The types of A and B, and of C, that a product is called with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Types {
    ab: Ty,
    c: Ty,
}

const fn types(ab: Ty, c: Ty) -> Types {
    Types { ab, c }
}

/// Every combination that some kernel multiplies.
const TYPES: [Types; 15] = [
    types(Ty::F64, Ty::F64),
    types(Ty::F32, Ty::F32),
    types(Ty::F32, Ty::F16),
    types(Ty::F32, Ty::Bf16),
    types(Ty::Tf32, Ty::F32),
    types(Ty::Tf32, Ty::F16),
    types(Ty::Tf32, Ty::Bf16),
    types(Ty::F16, Ty::F16),
    types(Ty::F16, Ty::F32),
    types(Ty::F16, Ty::Bf16),
    types(Ty::Bf16, Ty::Bf16),
    types(Ty::Bf16, Ty::F32),
    types(Ty::Bf16, Ty::F16),
    types(Ty::S8, Ty::S32),
    types(Ty::S32, Ty::S32),
];

/// A drawn plan of a product, and what it is called for.
#[derive(Clone, Copy, Debug)]
pub struct GemmPlanCase {
    /// The plan.
    pub plan: GemmPlan,
    /// The architecture that it is built for.
    pub arch: Arch,
    types: Types,
    /// Whether the calls are batch-invariant.
    is_batch_invariant: bool,
}

/// The numbers of a plan. A field that is added to a plan is one more here, or this does not compile.
fn numbers(plan: &mut GemmPlan) -> Vec<&mut i64> {
    let GemmPlan {
        method: _,
        operands,
        tile,
        columns,
        stages,
        warps,
        schedule: _,
        cluster,
        split,
        division: _,
        undivided,
        early: _,
        order,
        swap: _,
        gather: _,
        whole: _,
    } = plan;
    let Operands {
        ab: _,
        c: _,
        majors: _,
        vectors,
        beta: _,
        gated: _,
    } = operands;
    let lists = tile.iter_mut().chain(warps).chain(cluster).chain(vectors);
    lists
        .chain([columns, stages, split, undivided])
        .chain(widths(order))
        .collect()
}

/// The numbers of an order.
fn widths(order: &mut Order) -> Vec<&mut i64> {
    use ThreadblockSwizzle::{
        Batched, DepthwiseDirect2dConv, Horizontal, Identity, IdentityNoPadding, SplitKHorizontal,
        SplitKIdentity, StridedDgradHorizontal, StridedDgradIdentity,
    };
    match order {
        Order::Grouped { width, raster: _ }
        | Order::Persistent {
            max_swizzle: width,
            raster: _,
        }
        | Order::Swizzle(
            Identity { width }
            | IdentityNoPadding { width }
            | SplitKIdentity { width }
            | StridedDgradIdentity { width },
        ) => vec![width],
        Order::Swizzle(DepthwiseDirect2dConv { width, output }) => {
            output.iter_mut().chain([width]).collect()
        }
        Order::Swizzle(Horizontal | Batched | SplitKHorizontal | StridedDgradHorizontal)
        | Order::Hilbert
        | Order::Morton => Vec::new(),
    }
}

/// An order of each kind beside the grouped ones.
fn other_orders() -> Vec<Order> {
    let convolutions = [
        ThreadblockSwizzle::StridedDgradIdentity { width: 4 },
        ThreadblockSwizzle::StridedDgradHorizontal,
        ThreadblockSwizzle::DepthwiseDirect2dConv {
            width: 4,
            output: [1, 8, 8],
        },
    ];
    let swizzles = ThreadblockSwizzle::all().into_iter().chain(convolutions);
    let candidates = Order::candidates().into_iter();
    let others = candidates.filter(|order| !matches!(order, Order::Grouped { .. }));
    others.chain(swizzles.map(Order::Swizzle)).collect()
}

impl GemmPlanCase {
    /// Returns a plan for one architecture, or each for one that has the kernel.
    pub fn draw(random: &mut Random, arch: Option<Arch>) -> GemmPlanCase {
        use GemmMethod::{Ampere, Gemv, Hopper, Simt, Volta};
        let method = random.one(&[Simt, Volta, Ampere, Ampere, Hopper, Hopper]);
        let since = match method {
            Simt | Gemv => &[Arch::Sm70, Arch::Sm75, Arch::Sm80, Arch::Sm90a][..],
            Volta => &[Arch::Sm70, Arch::Sm80, Arch::Sm90a],
            Ampere => &[Arch::Sm80, Arch::Sm89, Arch::Sm90, Arch::Sm90a],
            Hopper => &[Arch::Sm90a],
        };
        let any = [
            Arch::Sm70,
            Arch::Sm75,
            Arch::Sm80,
            Arch::Sm89,
            Arch::Sm90,
            Arch::Sm90a,
        ];
        let own = if random.one_in(30) {
            random.one(&any)
        } else {
            random.one(since)
        };
        let arch = arch.unwrap_or(own);
        let takes = |types: &&Types| match method {
            Simt => true,
            Volta => types.ab == Ty::F16,
            Ampere => !matches!(types.ab, Ty::F32 | Ty::S32),
            Hopper => matches!(types.ab, Ty::F16 | Ty::Bf16 | Ty::Tf32 | Ty::S8),
            Gemv => matches!(types.ab, Ty::F16 | Ty::Bf16 | Ty::F32),
        };
        let list: Vec<Types> = TYPES.iter().filter(takes).copied().collect();
        let types = if random.one_in(30) {
            random.one(&TYPES)
        } else {
            random.one(&list)
        };
        let both = [Major::First, Major::Second];
        let vector = |random: &mut Random, ty: Ty| {
            let most = 128 / i64::from(ty.bits());
            if method == Hopper || random.below(3) > 0 {
                most
            } else {
                1 << random.below(i64::from(most.ilog2()) + 1)
            }
        };
        let mut majors = [(); 3].map(|()| random.one(&both));
        // Of other widths than 16 bits, `wgmma` takes operands along K.
        if method == Hopper && types.ab.bits() != 16 && !random.one_in(10) {
            majors[..2].fill(Major::Second);
        }
        let operands = Operands {
            ab: types.ab,
            c: types.c,
            majors,
            vectors: [types.ab, types.ab, types.c].map(|ty| vector(random, ty)),
            beta: random.one_in(2),
            gated: false,
        };
        let mut case = GemmPlanCase {
            plan: GemmPlan::new(method, operands),
            arch,
            types,
            is_batch_invariant: false,
        };
        case.near(random);
        case.wild(random);
        // Most plans sum in another order than that of such a call, which refuses them.
        case.is_batch_invariant = random.one_in(8);
        case
    }

    /// Numbers that the kernel may well take, in place of some of the usual ones.
    fn near(&mut self, random: &mut Random) {
        let plan = &mut self.plan;
        if !random.one_in(4) {
            plan.warps = match plan.method {
                GemmMethod::Simt => [(); 2].map(|()| random.one(&[1, 2, 4, 8, 8, 16, 16, 32, 3])),
                GemmMethod::Volta | GemmMethod::Ampere => {
                    [(); 2].map(|()| random.one(&[1, 2, 2, 4, 3]))
                }
                GemmMethod::Hopper => [random.one(&[1, 1, 2, 2, 3, 4]), 1],
                GemmMethod::Gemv => [1, random.one(&[1, 1, 2, 4, 8, 8, 32, 32, 64, 256, 3])],
            };
        }
        if plan.method == GemmMethod::Hopper && !random.one_in(4) {
            plan.cluster = random.one(&[
                [1, 1, 1],
                [2, 1, 1],
                [1, 2, 1],
                [1, 1, 2],
                [1, 1, 3],
                [1, 1, 4],
                [1, 1, 8],
                [2, 2, 1],
                [4, 1, 1],
                [1, 4, 1],
            ]);
        }
        if plan.method == GemmMethod::Gemv && random.one_in(3) {
            plan.cluster = [1, 1, random.one(&[1, 2, 3, 8])];
            if !random.one_in(6) {
                plan.warps = [1, 1];
            }
        }
        if plan.method == GemmMethod::Hopper && random.one_in(3) {
            plan.split = random.one(&[2, 2, 3, 4, 7]);
            plan.undivided = random.one(&[0, 0, 1, 2, 5]);
            if random.one_in(3) {
                plan.division = Division::StreamK;
                plan.split = random.one(&[2, 3, 5, 7, 132, 1024]);
            } else if plan.split == 2 && plan.undivided % 2 == 0 {
                plan.division = Division::SplitKFixup;
            }
        } else if random.one_in(60) {
            plan.division = Division::StreamK;
        }
        plan.early = match plan.method {
            GemmMethod::Hopper | GemmMethod::Gemv => random.one_in(3),
            _ => random.one_in(60),
        };
        if !random.one_in(4) {
            let steps = plan.steps();
            let times: &[i64] = match plan.method {
                GemmMethod::Simt => &[1, 1, 2, 2, 3],
                _ => &[1, 1, 1, 2, 2, 3, 4, 5],
            };
            plan.tile = steps.map(|step| step * random.one(times));
            match plan.method {
                GemmMethod::Simt => plan.tile[2] = random.one(&[1, 4, 8, 16, 16, 20, 32]),
                GemmMethod::Ampere if !random.one_in(10) => plan.tile[2] *= 2,
                _ => {}
            }
            if plan.method == GemmMethod::Hopper {
                plan.tile[0] = steps[0] * random.one(&[1, 1, 2]);
                plan.tile[1] = random.one(&[16, 32, 64, 64, 96, 128, 128, 192, 256, 8, 80]);
                let halves = random.one(&[16, 32, 64, 64, 64, 128, 48]);
                plan.tile[2] = halves * 16 / i64::from(plan.operands.ab.bits());
            }
        }
        if matches!(plan.method, GemmMethod::Ampere | GemmMethod::Hopper) && !random.one_in(3) {
            plan.stages = 2 + random.below(5);
        }
        if random.one_in(2) {
            plan.order = Order::Grouped {
                width: random.one(&[1, 2, 3, 4, 7, 16, 64, 1000, 65536]),
                raster: random.one(&[RasterOrder::AlongM, RasterOrder::AlongN]),
            };
        }
        if random.one_in(30) {
            plan.order = random.one(&other_orders());
        }
        plan.whole = random.one_in(5);
        plan.gather = match plan.method {
            GemmMethod::Hopper if plan.operands.ab.bits() == 16 => random.one_in(4),
            _ => random.one_in(60),
        };
        // Blocks of a cluster share loads by TMA only.
        if plan.gather && !random.one_in(6) {
            plan.cluster[..2].fill(1);
        }
        let is_pingpong = match plan.method {
            GemmMethod::Hopper => random.one_in(4),
            _ => random.one_in(60),
        };
        if is_pingpong {
            plan.schedule = Schedule::Pingpong;
            // Each consumer has a whole tile of one warpgroup, and K is not divided.
            if plan.method == GemmMethod::Hopper && !random.one_in(6) {
                plan.tile[0] = plan.tile[0] / plan.warps[0].max(1) * random.one(&[1, 1, 2]);
                plan.warps = [1, 1];
                (plan.split, plan.undivided) = (1, 0);
                plan.division = Division::SplitK;
                plan.cluster[2] = 1;
            }
        }
        plan.swap = match plan.method {
            GemmMethod::Hopper | GemmMethod::Gemv => random.one_in(3),
            _ => random.one_in(60),
        };
        let is_plain = plan.split == 1 && plan.cluster[2] == 1 && !plan.gather;
        let has_widths = match plan.method {
            GemmMethod::Hopper if is_plain => random.one_in(3),
            _ => random.one_in(60),
        };
        if has_widths {
            let [_, widest, _] = plan.tile;
            let units = widest / 2 / 16 + random.one(&[1, 1, 2, 3]);
            plan.columns = units.min(widest / 16) * 16;
            plan.operands.beta &= random.one_in(6);
        }
    }

    /// One number that may be anything, in a third of the plans; more, and other types, in a few.
    fn wild(&mut self, random: &mut Random) {
        let many = match random.below(30) {
            0..=8 => 1,
            9 => 3,
            _ => 0,
        };
        for _ in 0..many {
            let mut numbers = numbers(&mut self.plan);
            let at = random.below(numbers.len() as i64) as usize;
            *numbers[at] = random.one(&WILD);
        }
        let operands = &mut self.plan.operands;
        match random.below(40) {
            0 => operands.ab = random.one(&[Ty::U8, Ty::E4m3, Ty::F16, Ty::S8, Ty::F64, Ty::S32]),
            1 => operands.c = random.one(&[Ty::U8, Ty::E4m3, Ty::F16, Ty::F64, Ty::S32, Ty::F32]),
            2 => operands.beta = !operands.beta,
            _ => {}
        }
    }

    /// Returns a small problem: extents of 1, of a tile or several, a little more or less; mostly one for which the
    /// plan was made.
    pub fn problem(&self, random: &mut Random) -> GemmCase {
        let plan = &self.plan;
        let [m, n, k] = plan.tile;
        let n = if plan.columns == 0 { n } else { plan.columns };
        let tile = if plan.swap { [n, m, k] } else { [m, n, k] };
        let tile = tile.map(|t| if (1..=512).contains(&t) { t } else { 32 });
        let whole = plan.whole && !random.one_in(5);
        let mut extents = tile.map(|t| {
            if whole {
                t * random.one(&[1, 2, 3])
            } else {
                match random.below(8) {
                    0 => 1,
                    1 => t,
                    2 => t + 1,
                    3 => 2 * t,
                    4 => (t - 1).max(1),
                    5 => 2 * t + t / 2 + 1,
                    6 => (t + 1) / 2,
                    _ => 1 + random.below(96),
                }
            }
        });
        while extents.iter().product::<i64>() > MOST_WORK {
            let largest = (0..3).max_by_key(|i| extents[*i]).expect("three");
            extents[largest] = if extents[largest] > tile[largest] {
                tile[largest]
            } else {
                (extents[largest] + 1) / 2
            };
        }
        let [m, n, k] = extents;
        // Halves of odd integers have two nearest ones.
        let fraction = if matches!(self.types.ab, Ty::S8 | Ty::S32) {
            -2.0
        } else {
            -0.5
        };
        let alpha = random.one(&[1.0, 1.0, 3.0, fraction]);
        let mut problem = GemmProblem::new(m, n, k).alpha(alpha);
        if self.types.ab == Ty::Tf32 {
            problem = problem.compute(Compute::Tf32);
        }
        problem.majors = plan.operands.majors;
        let beta = if plan.operands.beta {
            random.one(&[1.0, -2.0])
        } else {
            0.0
        };
        problem = problem.beta(beta);
        let mut shift = [0; 3];
        for (i, name) in Operand::ALL.into_iter().enumerate() {
            let vector = plan.operands.vectors[i];
            let vector = if (1..=16).contains(&vector) {
                vector
            } else {
                1
            };
            let touching = problem.leading_of(name);
            let aligned = (touching + vector - 1) / vector * vector;
            problem = problem.leading(name, aligned + vector * random.one(&[0, 0, 1, 2]));
            shift[i] = (vector * random.one(&[0, 0, 0, 1, 2])) as usize;
            if random.one_in(60) {
                shift[i] += 1;
            }
            if random.one_in(60) {
                problem = problem.leading(name, touching);
            }
        }
        if random.one_in(60) {
            let i = random.below(3) as usize;
            problem.majors[i] = random.one(&[Major::First, Major::Second]);
            let name = Operand::ALL[i];
            let [first, second] = problem.extents(name);
            problem = problem.leading(name, (first.0.max(second.0) + 15) / 16 * 16);
        }
        if random.one_in(100) {
            problem = problem.beta(if problem.beta == 0.0 { 1.0 } else { 0.0 });
        }
        GemmCase {
            is_batch_invariant: self.is_batch_invariant,
            ..GemmCase::new(problem).shifted(shift)
        }
    }

    /// Runs a problem by the plan on a device, or only builds and checks what would be launched.
    pub fn run(&self, problem: &GemmCase, device: &Device, launch: bool) -> Ended {
        macro_rules! by_types {
            ($($ab:ident, $c:ident => $t:ty, $u:ty;)*) => {
                match self.types {
                    $(Types { ab: Ty::$ab, c: Ty::$c } => problem.attempt::<$t, $u>(device, Some(&self.plan), launch),)*
                    Types { ab, c } => unreachable!("{ab} and {c} are not drawn"),
                }
            };
        }
        let ended = by_types! {
            F64, F64 => f64, f64;
            F32, F32 => f32, f32;
            F32, F16 => f32, f16;
            F32, Bf16 => f32, bf16;
            Tf32, F32 => f32, f32;
            Tf32, F16 => f32, f16;
            Tf32, Bf16 => f32, bf16;
            F16, F16 => f16, f16;
            F16, F32 => f16, f32;
            F16, Bf16 => f16, bf16;
            Bf16, Bf16 => bf16, bf16;
            Bf16, F32 => bf16, f32;
            Bf16, F16 => bf16, f16;
            S8, S32 => i8, i32;
            S32, S32 => i32, i32;
        };
        Ended::of(ended.map(|taken| taken.map(drop)))
    }
}

/// The most multiplications of a drawn problem.
const MOST_WORK: i64 = 1 << 21;

impl fmt::Display for GemmPlanCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GemmPlan {
            method,
            operands,
            tile,
            columns,
            stages,
            warps,
            schedule,
            cluster,
            split,
            division,
            undivided,
            early,
            order,
            swap,
            gather,
            whole,
        } = &self.plan;
        let Operands {
            ab,
            c,
            majors,
            vectors,
            beta,
            gated,
        } = operands;
        let Types {
            ab: call_ab,
            c: call_c,
        } = self.types;
        let call = if self.is_batch_invariant {
            ", of batch-invariant calls"
        } else {
            ""
        };
        write!(
            f,
            "{method} for {} of {call_ab} to {call_c}: {ab} to {c}, {majors:?}, vectors {vectors:?}, beta {beta}, gated {gated}, tile \
             {tile:?} of {columns} columns, {stages} stages, warps {warps:?}, {schedule:?}, cluster {cluster:?}, {split} parts ({division:?}), {undivided} tiles whole, early {early}, {order}, swap {swap}, gather {gather}, whole {whole}{call}",
            self.arch
        )
    }
}

/// A drawn plan of a copy.
#[derive(Clone, Debug)]
pub struct CopyPlanCase {
    /// The architecture that it is built for.
    pub arch: Arch,
    /// The method.
    pub method: CopyMethod,
    bytes: i64,
    squares: Option<[i64; 2]>,
}

/// Every kernel of a copy.
pub const COPY_METHODS: [CopyMethod; 7] = {
    use CopyMethod::*;
    [Flat, Bulk, Strided, Naive, Padded, Swizzled, Tma]
};

impl CopyPlanCase {
    /// Returns a plan for one architecture, or each for one that has the kernel.
    pub fn draw(random: &mut Random, arch: Option<Arch>) -> CopyPlanCase {
        let method = random.one(&COPY_METHODS);
        let hopper = matches!(method, CopyMethod::Bulk | CopyMethod::Tma) && !random.one_in(20);
        let own = if hopper {
            random.one(&[Arch::Sm90, Arch::Sm90a])
        } else {
            random.one(&[Arch::Sm70, Arch::Sm80, Arch::Sm90a])
        };
        let squares = (method == CopyMethod::Tma && !random.one_in(3)).then(|| {
            [(); 2].map(|()| {
                if random.one_in(5) {
                    random.one(&WILD)
                } else {
                    1 + random.below(4)
                }
            })
        });
        CopyPlanCase {
            arch: arch.unwrap_or(own),
            method,
            bytes: if method == CopyMethod::Tma && !random.one_in(10) {
                random.one(&[2, 4])
            } else {
                random.one(&[1, 2, 4, 8])
            },
            squares,
        }
    }

    /// Returns a small copy, mostly one that the kernel does: one run, or two modes that run fastest on one side each,
    /// and modes around both; a transpose half of the time.
    pub fn problem(&self, random: &mut Random) -> CopyCase {
        let any = random.one_in(8);
        let (extents, orders) = match self.method {
            CopyMethod::Flat | CopyMethod::Bulk if !any => {
                let most = if self.method == CopyMethod::Bulk {
                    40 << 10
                } else {
                    6000
                };
                let length = 1 + random.below(most / self.bytes.min(4));
                let halves = if length % 2 == 0 && random.one_in(2) {
                    vec![2, length / 2]
                } else {
                    vec![length]
                };
                let order: Vec<usize> = (0..halves.len()).collect();
                (halves, [order.clone(), order])
            }
            CopyMethod::Strided => {
                let rank = 1 + random.below(5) as usize;
                let extents = (0..rank)
                    .map(|_| random.one(&[1, 2, 3, 4, 5, 8, 16, 17]))
                    .collect();
                (
                    extents,
                    [random.permutation(rank), random.permutation(rank)],
                )
            }
            _ => {
                let rank = 2 + random.below(3) as usize;
                let unit = (16 / self.bytes).max(1);
                let extent =
                    |random: &mut Random, mode| match (mode, self.method == CopyMethod::Tma) {
                        (0 | 1, true) => unit * (1 + random.below(24)),
                        (0 | 1, false) => random.one(&[1, 2, 31, 32, 33, 40, 64, 65, 70, 100]),
                        _ => random.one(&[1, 2, 3]),
                    };
                let extents: Vec<i64> = (0..rank).map(|mode| extent(random, mode)).collect();
                let mut orders = [random.permutation(rank), random.permutation(rank)];
                if !any {
                    // Mode 1 runs fastest in the source, mode 0 in the destination.
                    for (list, first) in orders.iter_mut().zip([1, 0]) {
                        list.retain(|mode| *mode != first);
                        list.insert(0, first);
                    }
                }
                (extents, orders)
            }
        };
        let gap = match self.method {
            CopyMethod::Flat | CopyMethod::Bulk => 0,
            CopyMethod::Tma => 16 / self.bytes,
            _ => random.one(&[0, 0, 1, 16]),
        };
        let [source, destination] = orders.map(|order| strided(random, &extents, &order, gap));
        let shift = |random: &mut Random| match random.below(6) {
            0 => random.below(9) as usize,
            1 => (16 / self.bytes) as usize,
            _ => 0,
        };
        let shifts = [shift(random), shift(random)];
        let mut case = CopyCase::new(source, destination)
            .shifted(shifts[0], shifts[1])
            .by(self.method);
        case.squares = self.squares;
        case
    }

    /// Runs a copy by the plan on a device, or only builds and checks what would be launched.
    pub fn run(&self, case: &CopyCase, device: &Device, launch: bool) -> Ended {
        let ended = match self.bytes {
            1 => case.attempt::<u8>(device, launch),
            2 => case.attempt::<bf16>(device, launch),
            4 => case.attempt::<f32>(device, launch),
            _ => case.attempt::<f64>(device, launch),
        };
        Ended::of(ended.map(|taken| taken.map(drop)))
    }
}

/// A layout of these extents whose modes follow each other in an order, some with a gap of elements between them.
fn strided(random: &mut Random, extents: &[i64], order: &[usize], gap: i64) -> Layout {
    let (mut strides, mut next) = (vec![0; extents.len()], 1);
    for mode in order {
        strides[*mode] = next;
        next = next * extents[*mode] + if random.one_in(3) { gap } else { 0 };
    }
    Layout::new(extents, strides).expect("small extents and strides")
}

impl fmt::Display for CopyPlanCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (method, bytes, arch) = (self.method, self.bytes, self.arch);
        write!(f, "{method} for {arch} of {bytes} bytes")?;
        match self.squares {
            None => Ok(()),
            Some(squares) => write!(f, ", squares {squares:?}"),
        }
    }
}

/// A drawn plan.
#[derive(Clone, Debug)]
pub enum PlanCase {
    /// Of a product.
    Gemm(GemmPlanCase),
    /// Of a copy.
    Copy(CopyPlanCase),
}

/// What became of the problems of one plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanOutcome {
    /// The kernel.
    pub method: String,
    /// How many are right.
    pub right: usize,
    /// The kinds of refusals.
    pub refused: Vec<String>,
    /// What is wrong, in words.
    pub failed: Vec<String>,
}

impl PlanCase {
    /// Returns the case with a number, of a seed: for one architecture, or for one that has the kernel. The generator
    /// draws its problems next.
    pub fn draw(seed: u64, number: u64, arch: Option<Arch>) -> (PlanCase, Random) {
        let mut random = Random::of(seed, &number.to_string());
        let case = if random.one_in(4) {
            PlanCase::Copy(CopyPlanCase::draw(&mut random, arch))
        } else {
            PlanCase::Gemm(GemmPlanCase::draw(&mut random, arch))
        };
        (case, random)
    }

    /// Returns the name of its kernel.
    pub fn method(&self) -> String {
        match self {
            PlanCase::Gemm(case) => case.plan.method.to_string(),
            PlanCase::Copy(case) => format!("copy, {}", case.method),
        }
    }

    /// Runs the given number of problems on a device, or each on a simulator of its own; or only builds and checks what
    /// would be launched.
    pub fn run(
        &self,
        mut random: Random,
        problems: usize,
        device: Option<&Device>,
        launch: bool,
    ) -> PlanOutcome {
        let mut outcome = PlanOutcome {
            method: self.method(),
            ..PlanOutcome::default()
        };
        for _ in 0..problems {
            let (ended, words) = match self {
                PlanCase::Gemm(case) => {
                    let problem = case.problem(&mut random);
                    let device = device
                        .cloned()
                        .unwrap_or_else(|| Device::simulator(case.arch));
                    let ended = case.run(&problem, &device, launch);
                    (ended, problem.to_string())
                }
                PlanCase::Copy(case) => {
                    let problem = case.problem(&mut random);
                    let device = device
                        .cloned()
                        .unwrap_or_else(|| Device::simulator(case.arch));
                    let ended = case.run(&problem, &device, launch);
                    (ended, problem.to_string())
                }
            };
            outcome.refused.extend(ended.kind().map(String::from));
            match ended {
                Ended::Right => outcome.right += 1,
                Ended::Refused(_) => {}
                Ended::Failed(failure) => {
                    outcome.failed.push(format!("{self}: {words}: {failure}"))
                }
            }
        }
        outcome
    }
}

impl fmt::Display for PlanCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanCase::Gemm(case) => case.fmt(f),
            PlanCase::Copy(case) => case.fmt(f),
        }
    }
}

/// Counts of outcomes by kernel.
#[derive(Clone, Debug, Default)]
pub struct Tally(BTreeMap<String, Counts>);

#[derive(Clone, Debug, Default)]
struct Counts {
    plans: usize,
    accepted: usize,
    right: usize,
    failed: usize,
    refused: BTreeMap<String, usize>,
}

impl Tally {
    /// Counts one plan.
    pub fn add(&mut self, outcome: &PlanOutcome) {
        let counts = self.0.entry(outcome.method.clone()).or_default();
        counts.plans += 1;
        counts.accepted += usize::from(outcome.right + outcome.failed.len() > 0);
        counts.right += outcome.right;
        counts.failed += outcome.failed.len();
        for kind in &outcome.refused {
            *counts.refused.entry(kind.clone()).or_default() += 1;
        }
    }

    /// Returns the counts of plans, those accepted for some problem, and problems with the right result.
    pub fn totals(&self) -> [usize; 3] {
        let all = || self.0.values();
        [
            all().map(|counts| counts.plans).sum(),
            all().map(|counts| counts.accepted).sum(),
            all().map(|counts| counts.right).sum(),
        ]
    }

    /// Returns the kernels of which no plan was accepted.
    pub fn never_accepted(&self) -> Vec<&str> {
        let none = self.0.iter().filter(|(_, counts)| counts.accepted == 0);
        none.map(|(method, _)| method.as_str()).collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "kernel            plans  accepted      right  wrong  refused, by kind"
        )?;
        for (method, counts) in &self.0 {
            let Counts {
                plans,
                accepted,
                right,
                failed,
                refused,
            } = counts;
            let rate = 100 * accepted / plans.max(&1);
            let kinds: Vec<String> = refused
                .iter()
                .map(|(kind, n)| format!("{kind} {n}"))
                .collect();
            let kinds = kinds.join(", ");
            write!(
                f,
                "\n{method:<16}{plans:>7}{accepted:>6} {rate:>3}%{right:>10}{failed:>7}  {kinds}"
            )?;
        }
        Ok(())
    }
}
