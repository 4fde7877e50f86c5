//! The Ampere GEMM: a multistage `cp.async` pipeline, `ldmatrix` and `mma.sync`.

use std::ops::RangeInclusive;

use colex_atom::{Arch, Ty};
use colex_tiled::{Operand, TiledMma};

use super::batch::BatchForm;
use super::epilogue::direct::Direct;
use super::epilogue::sm80;
use super::epilogue::terms::{EarlyTerms, KernelEpilogue};
use super::family::{GemmFamily, MOST_STAGES, Numbers};
use super::groups::tiles::{self, BlockWork};
use super::operand::OperandPipeline;
use super::plan::{GemmPlan, Operands};
use super::plan_check::MOST_THREADS;
use colex_tensor::{Builder, Error, Fragment, Index, Stage, Tensor, TensorKernel};

/// A multistage `cp.async` pipeline and `mma.sync`. The units of a plan are warps.
pub(crate) struct Ampere;

impl GemmFamily for Ampere {
    fn types(&self) -> &'static [Ty] {
        &[Ty::F16, Ty::Bf16, Ty::Tf32, Ty::S8, Ty::F64]
    }

    fn since(&self) -> Arch {
        Arch::Sm80
    }

    fn numbers(&self, operands: &Operands) -> Numbers {
        let (tile, stages, warps) = match operands.ab {
            Ty::F64 => ([64, 64, 16], 3, [2, 4]),
            // Four warps, each with twice the products of a fragment, and two blocks per multiprocessor. Narrow copies
            // would need too many registers for that.
            _ if operands.wide_halves() => ([128, 128, 32], 4, [2, 2]),
            // Bytes that lie along M or N, or are read one by one, go through registers: a step has as many as a thread has room for.
            Ty::S8 if !operands.has_words() => ([64, 64, 64], 3, [2, 4]),
            Ty::S8 if operands.vectors[..2] != [16, 16] => ([128, 128, 64], 3, [2, 4]),
            // 128 bytes along K, for elements of any size.
            ty => ([128, 128, 1024 / i64::from(ty.bits())], 3, [2, 4]),
        };
        Numbers {
            tile,
            stages,
            warps,
            cluster: [1; 3],
        }
    }

    fn most_units(&self) -> [i64; 2] {
        [MOST_THREADS / 32; 2]
    }

    fn consumers(&self, plan: &GemmPlan) -> i64 {
        plan.warps[0] * plan.warps[1] * 32
    }

    fn steps(&self, plan: &GemmPlan) -> [i64; 3] {
        let [m, n] = plan.warps;
        match plan.operands.ab {
            Ty::F64 => [8 * m, 16 * n, 4],
            // 32 bytes along K.
            ty => [16 * m, 16 * n, 256 / i64::from(ty.bits())],
        }
    }

    /// The loads of one step's fragments overlap the products of the step before.
    fn least_k(&self, step: i64) -> i64 {
        2 * step
    }

    fn stages(&self) -> RangeInclusive<i64> {
        2..=MOST_STAGES
    }

    fn products(&self, plan: &GemmPlan) -> i64 {
        let [m, n, k] = self.steps(plan);
        m * n / 2 * k
    }

    fn check_shares(&self, plan: &GemmPlan, _: i64) -> Result<(), crate::Error> {
        plan.check_copies()
    }

    fn gains_from_whole(&self) -> bool {
        true
    }

    fn tiled_mma(&self, plan: &GemmPlan) -> Result<TiledMma, Error> {
        let name = match plan.operands.ab {
            Ty::F64 => "SM80_8x8x4_F64F64F64F64_TN".to_string(),
            Ty::S8 => "SM80_16x8x32_S32S8S8S32_TN".to_string(),
            Ty::Tf32 => "SM80_16x8x8_F32TF32TF32F32_TN".to_string(),
            ty => {
                let ty = ty.cute();
                format!("SM80_16x8x16_F32{ty}{ty}F32_TN")
            }
        };
        let atom = colex_atom::mma(&name)?;
        let [m, n] = plan.warps;
        // Two atoms along N for each warp, so that one `ldmatrix.x4` brings both.
        let tile = (atom.mnk()[0] * m, 16 * n, ..);
        plan.over_units(atom, tile)
    }

    fn build(
        &self,
        plan: &GemmPlan,
        batch: BatchForm,
        epilogue: &KernelEpilogue,
        arch: Arch,
    ) -> Result<TensorKernel, Error> {
        build(plan, batch, epilogue, arch)
    }
}

/// The kernel of a plan. The launch takes A, B, C and what the epilogue reads, and has one block for each tile.
fn build(
    plan: &GemmPlan,
    batch: BatchForm,
    epilogue: &KernelEpilogue,
    arch: Arch,
) -> Result<TensorKernel, Error> {
    let [bm, bn, _] = plan.tile;
    let mma = plan.tiled_mma()?;
    let mut k = Builder::new("gemm_sm80", arch, mma.threads() as u32);
    let a = k.tensor("A", plan.operands.ab, batch.layout(plan, Operand::A));
    let right = plan.operands.names_of_right_factors().iter();
    let right = right.map(|name| k.tensor(name, plan.operands.ab, batch.layout(plan, Operand::B)));
    let right: Vec<Tensor> = right.collect();
    let c = k.tensor("C", plan.operands.c, batch.layout(plan, Operand::C));
    let numbers = tiles::declare_numbers(&mut k, &batch);
    let terms = epilogue.declare(&mut k);
    let matrices = [&a, &right[0], &c];
    let extents = tiles::extents(&mut k, &batch, matrices, numbers.as_ref());
    for second in &right[1..] {
        batch.agree(&mut k, Operand::B, second, &extents);
    }
    terms.agree(&mut k, &batch, &extents);
    let work = BlockWork::new(
        &mut k,
        plan,
        (batch, &extents),
        [&a, &right[0]],
        numbers.as_ref(),
    );
    let [m, n] = work.at.clone();
    let [a, c] =
        [(Operand::A, a), (Operand::C, c)].map(|(of, matrix)| work.part(&mut k, of, &matrix));
    let terms = work.terms(&terms);
    let a = OperandPipeline::new(&mut k, plan, &mma, Operand::A, a, &m)?;
    let (mut factors, mut acc) = (Vec::new(), Vec::new());
    for b in right {
        let b = work.part(&mut k, Operand::B, &b);
        factors.push(OperandPipeline::new(&mut k, plan, &mma, Operand::B, b, &n)?);
        acc.push(k.accumulators(&mma, [bm, bn])); // (MMA, MMA_M, MMA_N)
    }
    main_loop(&mut k, plan, &mma, (&a, &factors), &acc, &work.steps);
    if sm80::fits(plan, &mma, &acc[0], arch) {
        sm80::store(&mut k, plan, &mma, &acc, (&c, [m, n]), &terms)?;
    } else {
        let thread = k.thread();
        let terms = (&terms, &EarlyTerms::default());
        Direct::new(plan, &mma)?.store(&mut k, plan, &acc, (&c, &[m, n]), &thread, terms);
    }
    k.finish()
}

fn main_loop(
    k: &mut Builder,
    plan: &GemmPlan,
    mma: &TiledMma,
    (a, right): (&OperandPipeline, &[OperandPipeline]),
    acc: &[Fragment],
    steps: &Index,
) {
    let pipelines: Vec<&OperandPipeline> = [a].into_iter().chain(right).collect();
    let ahead = plan.stages - 1;
    let (producer, consumer) = k.cp_async_pipeline(plan.stages);
    let fetch = |k: &mut Builder, step: &Index| {
        let stage = producer.acquire(k);
        for pipeline in &pipelines {
            pipeline.fetch(k, step, steps, &stage);
        }
        producer.commit(k, &stage);
    };
    let read = |k: &mut Builder, i: i64, stage: &Stage| {
        for pipeline in &pipelines {
            pipeline.read(k, i, stage);
        }
    };
    // The loads of tiles beyond K yield zeros and read nothing.
    for step in 0..ahead {
        fetch(k, &step.into());
    }
    let inner = a.steps();
    let first = consumer.wait(k);
    read(k, 0, &first);
    k.for_(0, steps, 1, |k, step| {
        let stage = consumer.held(k);
        for i in 0..inner {
            // The loads of the next step's fragments overlap the products of this step, also across the end of a tile.
            if i + 1 < inner {
                read(k, i + 1, &stage);
            } else {
                consumer.release(k, &stage);
                let next = consumer.wait(k);
                read(k, 0, &next);
            }
            if i == 0 {
                fetch(k, &(step + ahead));
            }
            for (b, acc) in right.iter().zip(acc) {
                k.mma(mma, acc, &a.step(i), &b.step(i), acc);
            }
        }
    });
    // A block must not end while its `cp.async` copies write to its shared memory.
    producer.tail(k);
}
