//! Whole kernels for the assembler.

use colex_atom::{Arch, CopyAtom, MmaAtom};

use colex_ir::{
    Access, Address, AtomicOp, Base, BinaryOp, Compare, Control, CopyArgs, End, FenceKind, Kernel,
    KernelBuilder, Operand, Reg, RegType, ScaleD, ShuffleMode, Space, Special, Type,
};

pub use crate::kernels::drawn_samples;
pub use crate::sample::Sample;

/// Returns kernels of every kind, and those of the library.
///
/// ```
/// let samples = colex_proof::corpus::samples()?;
/// assert!(samples.iter().all(|sample| sample.kernel.verify().is_ok()));
/// # Ok::<(), colex_gpu::Error>(())
/// ```
///
/// # Errors
///
/// That of a kernel which cannot be built.
pub fn samples() -> Result<Vec<Sample>, colex_gpu::Error> {
    let known = "its atoms are in the table";
    let own = [
        (reduce(Arch::Sm70), 10),
        (reduce(Arch::Sm90), 10),
        (pipelined(Arch::Sm80).expect(known), 26),
        (pipelined(Arch::Sm90).expect(known), 38),
        (warpgroups().expect(known), 128),
        (through_shared().expect(known), 4),
    ];
    let own = own.map(|(kernel, registers)| Sample::new(kernel, registers));
    Ok(own.into_iter().chain(crate::kernels::samples()?).collect())
}

/// Returns the sum of many numbers: a loop over the grid, shuffles in a warp, and one addition to memory a warp.
///
/// ```
/// let kernel = colex_proof::corpus::reduce(colex_atom::Arch::Sm70);
/// assert!(kernel.ptx()?.contains("shfl.sync.bfly.b32"));
/// # Ok::<(), colex_gpu::verify::Refused>(())
/// ```
pub fn reduce(target: Arch) -> Kernel {
    let mut k = KernelBuilder::new("reduce", target);
    k.block([256, 1, 1]);
    let (data, n, sum) = (
        k.pointer("data"),
        k.scalar("n", Type::U32),
        k.pointer("sum"),
    );
    let (base, n, total) = (k.param(data), k.param(n), k.param(sum));
    let (tid, block) = (
        k.mov(Type::U32, Special::Tid(0)),
        k.mov(Type::U32, Special::Ctaid(0)),
    );
    let first = k.mad(Type::U32, block, 256, tid);
    let blocks = k.mov(Type::U32, Special::NCtaid(0));
    let step = k.shl(Type::B32, blocks, 8);
    let own = k.mov(Type::F32, 0.0);
    k.for_range(first, n, step, |k, i| {
        let offset = k.mul_wide(Type::U32, i, 4);
        let address = k.add(Type::S64, base, offset);
        let x = k.load(Access::new(Space::Global, Type::F32), address);
        k.binary_to(BinaryOp::Add, Type::F32, own, own, x);
    });
    for distance in [16, 8, 4, 2, 1] {
        let other = k.shuffle(ShuffleMode::Bfly, own, distance);
        k.binary_to(BinaryOp::Add, Type::F32, own, own, other);
    }
    let lane = k.mov(Type::U32, Special::LaneId);
    let is_first = k.setp(Compare::Eq, Type::U32, lane, 0);
    k.when(is_first, |k| {
        k.reduce(AtomicOp::Add, Space::Global, Type::F32, total, &[own]);
    });
    k.finish()
}

/// The bytes of one stage of [`pipelined`]: sixteen rows of sixteen halves, for A and for B.
const STAGE: i64 = 1024;

/// Returns a ring of two stages filled by `cp.async`, read by `ldmatrix`, and multiplied by `mma.sync`.
///
/// # Errors
///
/// Returns an error if the table lacks one of the three instructions.
pub fn pipelined(target: Arch) -> Result<Kernel, colex_atom::Error> {
    let mut k = KernelBuilder::new("pipelined", target);
    k.block([32, 1, 1]);
    let ring = k.shared("ring", 2 * STAGE as u32, 128);
    let (source, stages, result) = (
        k.pointer("source"),
        k.scalar("stages", Type::U32),
        k.pointer("result"),
    );
    let (source, stages, result) = (k.param(source), k.param(stages), k.param(result));
    let lane = k.mov(Type::U32, Special::LaneId);
    let offset = k.shl(Type::B32, lane, 4);
    let ring = k.address_of(ring);
    let own = k.add(Type::U32, ring, offset);
    let wide = k.cvt(Type::U64, Type::U32, offset);
    let from = k.add(Type::S64, source, wide);
    let fill = |k: &mut KernelBuilder, stage: Reg| -> Result<(), colex_atom::Error> {
        let atom: CopyAtom = colex_atom::copy("SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>")?;
        let which = k.and(Type::B32, stage, 1);
        let to = k.mad(Type::U32, which, STAGE, own);
        for half in [0, STAGE / 2] {
            let args = CopyArgs {
                dst: End::Memory(Address::from(to).at(half)),
                src: End::Memory(Address::from(from).at(half)),
                ..CopyArgs::default()
            };
            k.copy_atom(&atom, args);
        }
        k.binary_to(BinaryOp::Add, Type::S64, from, from, STAGE);
        k.cp_async_commit();
        Ok(())
    };
    let first = k.mov(Type::U32, 0);
    fill(&mut k, first)?;
    let d: Vec<Reg> = (0..4).map(|_| k.mov(Type::F32, 0.0)).collect();
    let ldmatrix = colex_atom::copy("SM75_U32x4_LDSM_N")?;
    let mma: MmaAtom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let mut wrong = Ok(());
    k.for_range(0, stages, 1, |k, stage| {
        let next = k.add(Type::U32, stage, 1);
        wrong = fill(k, next);
        k.cp_async_wait(1);
        k.warp_sync();
        let which = k.and(Type::B32, stage, 1);
        let at = k.mad(Type::U32, which, STAGE, own);
        let (a, b) = (k.regs(RegType::B32, 4), k.regs(RegType::B32, 4));
        for (regs, half) in [(&a, 0), (&b, STAGE / 2)] {
            let args = CopyArgs {
                dst: End::Regs(regs.clone()),
                src: End::Memory(Address::from(at).at(half)),
                ..CopyArgs::default()
            };
            k.copy_atom(&ldmatrix, args);
        }
        k.mma_atom(&mma, &d, &a, &b[..2], &d);
        k.warp_sync();
    });
    wrong?;
    k.cp_async_wait(0);
    let to = k.add(Type::S64, result, wide);
    k.store_vector(Access::new(Space::Global, Type::F32), to, &d);
    Ok(k.finish())
}

/// Returns two warpgroups: one fills a ring by TMA, the other multiplies it by `wgmma`.
///
/// # Errors
///
/// Returns an error if the table lacks one of the two instructions.
pub fn warpgroups() -> Result<Kernel, colex_atom::Error> {
    const STAGES: i64 = 4;
    const BYTES: i64 = (64 + 128) * 64 * 2;
    let mut k = KernelBuilder::new("warpgroups", Arch::Sm90a);
    // Two blocks to a multiprocessor: a thread begins with 128 registers.
    k.block([256, 1, 1]).min_blocks(2).dynamic_shared(1024);
    let maps = [k.tensor_map("a"), k.tensor_map("b")];
    let (steps, result) = (k.scalar("steps", Type::U32), k.pointer("result"));
    let (steps, result) = (k.param(steps), k.param(result));
    let barriers = k.shared("barriers", 2 * 8 * STAGES as u32, 8);
    let tid = k.mov(Type::U32, Special::Tid(0));
    let is_first = k.setp(Compare::Eq, Type::U32, tid, 0);
    k.if_(is_first, |k| {
        for stage in 0..STAGES {
            k.mbarrier_init(Address::from(barriers).at(8 * stage), 1);
            k.mbarrier_init(Address::from(barriers).at(8 * (STAGES + stage)), 128);
        }
        k.fence(FenceKind::MbarrierInit);
    });
    k.sync();
    let barriers = k.address_of(barriers);
    let ring = k.address_of(Base::DynamicShared);
    let group = k.shr(Type::U32, tid, 7);
    let produces = k.setp(Compare::Eq, Type::U32, group, 0);
    let ring_of = Ring {
        stages: STAGES,
        bytes: BYTES,
        barriers,
        ring,
    };
    let (load, mma) = (
        colex_atom::copy("SM90_TMA_LOAD_2D")?,
        colex_atom::mma("SM90_64x128x16_F32BF16BF16_SS")?,
    );
    k.if_else(
        produces,
        |k| {
            k.set_max_registers(false, 40);
            let is_first = k.setp(Compare::Eq, Type::U32, tid, 0);
            k.if_(is_first, |k| ring_of.produce(k, &load, maps, steps));
        },
        |k| {
            k.set_max_registers(true, 216);
            let d = ring_of.consume(k, &mma, steps);
            let lane = k.and(Type::B32, tid, 127);
            let offset = k.mul_wide(Type::U32, lane, 256);
            let to = k.add(Type::S64, result, offset);
            for (i, four) in d.chunks(4).enumerate() {
                let to = Address::from(to).at(16 * i as i64);
                k.store_vector(Access::new(Space::Global, Type::F32), to, four);
            }
        },
    );
    Ok(k.finish())
}

/// Where the stages of [`warpgroups`] are.
struct Ring {
    stages: i64,
    bytes: i64,
    barriers: Reg,
    ring: Reg,
}

impl Ring {
    /// The addresses of a stage's data and of its two barriers, and the parity of its phase.
    fn at(&self, k: &mut KernelBuilder, step: Reg) -> (Reg, Reg, Reg) {
        let stage = k.and(Type::B32, step, self.stages - 1);
        let data = k.mad(Type::U32, stage, self.bytes, self.ring);
        let barrier = k.mad(Type::U32, stage, 8, self.barriers);
        let turn = k.shr(Type::U32, step, self.stages.trailing_zeros());
        let parity = k.and(Type::B32, turn, 1);
        (data, barrier, parity)
    }

    fn produce(
        &self,
        k: &mut KernelBuilder,
        load: &CopyAtom,
        maps: [colex_ir::ParamId; 2],
        steps: Reg,
    ) {
        k.for_range(0, steps, 1, |k, step| {
            let (data, barrier, parity) = self.at(k, step);
            let other = k.xor(Type::B32, parity, 1);
            k.mbarrier_wait(Address::from(barrier).at(8 * self.stages), other);
            k.mbarrier_arrive_expect(barrier, self.bytes);
            let column = k.shl(Type::B32, step, 6);
            for (map, offset) in maps.into_iter().zip([0, 64 * 64 * 2]) {
                let args = CopyArgs {
                    dst: End::Memory(Address::from(data).at(offset)),
                    tensor: Some((map.into(), vec![column.into(), Operand::Int(0)])),
                    barrier: Some(barrier.into()),
                    ..CopyArgs::default()
                };
                k.copy_atom(load, args);
            }
        });
    }

    fn consume(&self, k: &mut KernelBuilder, mma: &MmaAtom, steps: Reg) -> Vec<Reg> {
        let d: Vec<Reg> = (0..64).map(|_| k.mov(Type::F32, 0.0)).collect();
        // 128-byte swizzle, 1024 bytes from one group of eight rows to the next.
        let high = k.mov(Type::U32, 0x4000_0040u32);
        k.for_range(0, steps, 1, |k, step| {
            let (data, barrier, parity) = self.at(k, step);
            k.mbarrier_wait(barrier, parity);
            let low = k.shr(Type::U32, data, 4);
            k.wgmma_fence();
            for part in 0..4i64 {
                let [a, b] = [0, 64 * 64 * 2 / 16].map(|offset| {
                    let low = k.add(Type::U32, low, offset + 2 * part);
                    k.pack(RegType::B64, &[low, high])
                });
                k.wgmma(mma, &d, &[a], b, ScaleD::One);
            }
            k.wgmma_commit();
            k.wgmma_wait(0);
            k.mbarrier_arrive(Address::from(barrier).at(8 * self.stages));
        });
        d
    }
}

/// Returns one tile into shared memory and out again by TMA.
///
/// # Errors
///
/// Returns an error if the table lacks one of the two instructions.
pub fn through_shared() -> Result<Kernel, colex_atom::Error> {
    let mut k = KernelBuilder::new("through_shared", Arch::Sm90);
    k.block([32, 1, 1]).cluster([2, 1, 1]);
    let (from, to) = (k.tensor_map("from"), k.tensor_map("to"));
    let (tile, barrier) = (k.shared("tile", 8192, 128), k.shared("barrier", 8, 8));
    let (load, store) = (
        colex_atom::copy("SM90_TMA_LOAD_2D")?,
        colex_atom::copy("SM90_TMA_STORE_2D")?,
    );
    let column = k.mov(Type::U32, Special::Ctaid(0));
    k.binary_to(BinaryOp::Shl, Type::B32, column, column, 6);
    let at = vec![column.into(), Operand::Int(0)];
    let leads = k.elect();
    k.if_(leads, |k| {
        k.mbarrier_init(barrier, 1);
        k.fence(FenceKind::MbarrierInit);
        k.mbarrier_arrive_expect(barrier, 8192);
        let args = CopyArgs {
            dst: End::Memory(tile.into()),
            tensor: Some((from.into(), at.clone())),
            barrier: Some(barrier.into()),
            ..CopyArgs::default()
        };
        k.copy_atom(&load, args);
    });
    k.warp_sync();
    k.mbarrier_wait(barrier, 0);
    k.if_(leads, |k| {
        let args = CopyArgs {
            src: End::Memory(tile.into()),
            tensor: Some((to.into(), at.clone())),
            ..CopyArgs::default()
        };
        k.copy_atom(&store, args);
        k.bulk_commit();
        k.bulk_wait(0, false);
    });
    k.cluster_sync();
    k.push(Control::Exit);
    Ok(k.finish())
}
