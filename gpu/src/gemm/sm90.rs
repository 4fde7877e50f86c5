//! The Hopper GEMM: TMA into a ring of stages, one producer warp, `wgmma` by consumer warpgroups.

use colex_atom::Arch;
use colex_sched::pipeline::WarpSpecialized;
use colex_tiled::Operand;

use super::epilogue::sm90::End;
use super::operand::boxed_layout;
use super::plan::GemmPlan;
use colex_ir::verify::{LEAST, STEP, registers_at_entry};
use colex_ir::{Reg, ScaleD, Type};
use colex_tensor::{Builder, Built, Cond, Error, Index, Pipeline, Tensor, TmaTensor};

/// Threads of a warpgroup.
pub(crate) const GROUP: u32 = 128;

/// What producer and consumers share.
struct Parts<'a> {
    plan: &'a GemmPlan,
    ring: Pipeline,
    /// A and B in global memory, and their stages.
    operands: [(TmaTensor, Tensor); 2],
    /// Steps along K.
    steps: Index,
    /// Clusters along M, and tiles along N.
    extents: [Index; 2],
    rank: Index,
    group: Index,
    warp: Index,
    first: Index,
    stride: Index,
}

/// The blocks of a cluster along M.
pub(crate) const CLUSTER: u32 = 2;

/// The registers of a consumer's threads after the producer has kept the fewest it can: what the given number of consumers have between
/// them, if that is more than they begin with.
fn consumer_registers(consumers: u32) -> Option<u32> {
    /// What a thread with 128 sums and its addresses needs at most; as many are left to the producer as to CUTLASS's.
    const MOST: u32 = 240;
    let groups = consumers + 1;
    let entry = registers_at_entry(groups * GROUP, 1);
    let share = (entry * groups - LEAST) / consumers / STEP * STEP;
    (share > entry)
        .then_some(share.min(MOST))
        .filter(|n| *n > entry)
}

/// The kernel of a plan. Its launch takes A, B, C, M, N, K, alpha and beta; blocks go through the tiles by themselves.
pub(crate) fn build(plan: &GemmPlan, arch: Arch) -> Result<Built, Error> {
    let [bm, bn, bk] = plan.tile;
    let consumers = plan.warps[0] as u32;
    let mut k = Builder::new("gemm_sm90", arch, (consumers + 1) * GROUP);
    k.cluster([CLUSTER, 1, 1]).min_blocks(1);
    let schedule = WarpSpecialized {
        cluster: [CLUSTER as usize, 1],
        consumers: consumers as usize,
        ..WarpSpecialized::cooperative(plan.stages as usize, 1, 8)
    };
    let ring = k.pipeline_of(&schedule)?;
    let a = operand(&mut k, plan, Operand::A, 1)?;
    let b = operand(&mut k, plan, Operand::B, CLUSTER.into())?;
    let end = End::new(&mut k, plan)?;
    let sizes = ["m", "n", "k"].map(|name| k.index_argument(name, 1..1 << 31));
    let scale = [
        k.scalar_argument("alpha", Type::F32),
        k.scalar_argument("beta", Type::F32),
    ];
    let [m, n, kk] = sizes;
    let tall = bm * i64::from(CLUSTER);
    let rank = k.cluster_rank(CLUSTER);
    end.start(&mut k)?;
    k.start_pipelines(&[&ring], true)?;
    let parts = Parts {
        plan,
        ring,
        operands: [a, b],
        steps: ((kk + (bk - 1)) / bk).within(1..1 << 25),
        extents: [(m + (tall - 1)) / tall, (n + (bn - 1)) / bn],
        rank,
        group: k.uniform(GROUP),
        warp: k.uniform(32),
        first: k.block_index(0) / i64::from(CLUSTER),
        stride: k.grid_extent(0) / i64::from(CLUSTER),
    };
    let produces = k.equal(&parts.group, &i64::from(consumers).into());
    k.if_else(
        produces,
        |k| parts.produce(k),
        |k| parts.consume(k, &end, scale),
    )?;
    k.finish()
}

/// An operand's tensor map and stages; its tile is brought by so many blocks of the cluster together.
fn operand(
    k: &mut Builder,
    plan: &GemmPlan,
    operand: Operand,
    blocks: i64,
) -> Result<(TmaTensor, Tensor), Error> {
    let [mn, bk] = operand.modes().map(|mode| plan.tile[mode]);
    let (major, ty) = (plan.operands.major(operand), plan.operands.ab);
    let tile = boxed_layout(major, ty.bits(), &[mn, bk])?;
    let stages = boxed_layout(major, ty.bits(), &[mn, bk, plan.stages])?;
    let like = plan.operands.layout(operand);
    let name = format!("{operand:?}");
    let tensor = k.tma_tensor(&name, ty, &like, &[mn, bk], &tile, blocks)?;
    Ok((tensor, k.shared_tensor(ty, stages)?))
}

impl Parts<'_> {
    /// The tile of this block in the turn of its cluster.
    fn place(&self, number: &Index) -> [Index; 2] {
        let [m, n] = self.plan.tile_at(number.clone(), &self.extents);
        [m * i64::from(CLUSTER) + &self.rank, n]
    }

    /// `body(m, n)` for the tiles of this block.
    fn each_tile(
        &self,
        k: &mut Builder,
        body: impl Fn(&mut Builder, [Index; 2]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let last = (&self.extents[0] * &self.extents[1]).within(1..1 << 30);
        k.for_(
            self.first.clone(),
            &last,
            self.stride.clone(),
            |k, number| body(k, self.place(number)),
        )
    }

    fn produce(&self, k: &mut Builder) -> Result<(), Error> {
        if consumer_registers(self.plan.warps[0] as u32).is_some() {
            k.set_max_registers(false, LEAST);
        }
        let first = k.equal(&self.warp, &(self.plan.warps[0] * 4).into());
        k.if_(first, |k| {
            let one = k.elected();
            k.if_(one, |k| self.load(k))
        })
    }

    fn load(&self, k: &mut Builder) -> Result<(), Error> {
        let ring = &self.ring;
        let [(a, sa), (b, sb)] = &self.operands;
        let state = k.producer_state(ring);
        let everybody = k.mov(Type::B16, (1 << CLUSTER) - 1);
        self.each_tile(k, |k, [m, n]| {
            k.for_(0, &self.steps, 1, |k, step| {
                let (stage, parity) = (k.stage(&state), k.parity(&state));
                let full = ring.full.at(&stage);
                k.wait(&ring.empty.at(&stage), &parity);
                k.arrive_expect(&full, a.tile_bytes() + b.tile_bytes());
                k.tma_load(a, &[m.clone(), step.clone()], &sa.at(2, &stage)?, &full)?;
                let at = [n.clone(), step.clone()];
                k.tma_load_multicast(b, &at, &sb.at(2, &stage)?, &full, &self.rank, everybody)?;
                k.advance(&state);
                Ok(())
            })
        })?;
        // A block must not end while its peer may still arrive at its barriers.
        k.for_(0, self.plan.stages, 1, |k, _| {
            let (stage, parity) = (k.stage(&state), k.parity(&state));
            k.wait(&ring.empty.at(&stage), &parity);
            k.advance(&state);
            Ok(())
        })
    }

    fn consume(&self, k: &mut Builder, end: &End, scale: [Reg; 2]) -> Result<(), Error> {
        if let Some(registers) = consumer_registers(self.plan.warps[0] as u32) {
            k.set_max_registers(true, registers);
        }
        let (ring, mma) = (&self.ring, self.plan.tiled_mma()?);
        let group = self.group.within(0..mma.threads() / i64::from(GROUP));
        let leader = &group * i64::from(GROUP);
        let [(_, sa), (_, sb)] = &self.operands;
        let da = k.gmma_operand(&mma, Operand::A, sa, &leader)?;
        let db = k.gmma_operand(&mma, Operand::B, sb, &leader)?;
        let acc = k.fragment_of(&mma, Operand::C, [self.plan.tile[0], self.plan.tile[1]])?;
        let state = k.consumer_state(ring);
        let thread = k.thread().within(0..mma.threads());
        let lane = &thread % i64::from(GROUP);
        let signals = k.less(&lane, &i64::from(CLUSTER).into());
        let end = end.of_thread(k, self.plan, &mma, &thread)?;
        self.each_tile(k, |k, at| {
            end.fetch(k, &at)?;
            let before = k.var(0, 0..self.plan.stages);
            k.for_(0, &self.steps, 1, |k, step| {
                let (stage, parity) = (k.stage(&state), k.parity(&state));
                k.wait(&ring.full.at(&stage), &parity);
                let more = k.less(&0.into(), step);
                let scale = match more {
                    Cond::Where(guard) => ScaleD::Pred(guard.pred),
                    Cond::Known(_) => ScaleD::One,
                };
                k.wgmma_fence();
                k.wgmma_tile(&mma, &acc, &da.at(&stage)?, &db.at(&stage)?, scale)?;
                k.wgmma_commit();
                k.wgmma_wait(1);
                // What the step before has read is free now.
                let release = k.both(more, signals);
                let empty = k.get(&before);
                k.arrive_at(&ring.empty.at(&empty), &lane, release);
                k.set(&before, &stage);
                k.advance(&state);
                Ok(())
            })?;
            k.wgmma_wait(0);
            let empty = k.get(&before);
            k.arrive_at(&ring.empty.at(&empty), &lane, signals);
            end.store(k, &acc, &at, scale)
        })?;
        end.finish(k);
        Ok(())
    }
}
