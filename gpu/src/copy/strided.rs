//! The copy between any two layouts: one vector per thread, whose coordinates are computed by division.

use colex_atom::Arch;
use colex_device::Device;

use super::family::CopyFamily;
use super::launches::{KernelKey, Tensors, launch, prepare};
use super::loop_nest::Loop;
use super::pieces::{digits, dynamic, raw, row_of_vectors, through_registers};
use super::plan::CopyPlan;
use crate::calls::PreparedLaunch;
use colex_tensor::{Builder, Error, TensorKernel};

/// Any two layouts, one vector per thread.
pub(crate) struct Strided;

impl CopyFamily for Strided {
    /// The index of a thread's vector has 32 bits.
    fn refusal(&self, plan: &CopyPlan, _: [u64; 2], _: Arch) -> Option<String> {
        let vectors = plan.nest().size() / plan.vector();
        (vectors > MOST)
            .then(|| format!("{vectors} vectors, and a launch of it counts {MOST} at most"))
            .or_else(|| plan.extent_refusal())
    }

    fn tile(&self, _: &CopyPlan) -> Option<[i64; 2]> {
        None
    }

    /// The kernel for `rank` loops, `vector` elements of `bytes` bytes per access along the innermost one.
    fn build(&self, key: &KernelKey, loops: &[Loop]) -> Result<TensorKernel, Error> {
        let KernelKey {
            arch,
            bytes,
            vector,
            ..
        } = *key;
        let mut k = Builder::new("copy_strided", arch, THREADS as u32);
        let (ty, fastest) = (raw(bytes), fastest(vector));
        let source = k.tensor("source", ty, dynamic(loops, |step| step.source, fastest));
        let destination = k.tensor(
            "destination",
            ty,
            dynamic(loops, |step| step.destination, fastest),
        );
        // The branch below asks one of them.
        k.same_extents(&source, &destination);
        let (block, thread) = (k.block_index(0), k.thread());
        let block = k.within(block, 0..MOST / THREADS + 1);
        let number = block * THREADS + thread;
        let mut extents: Vec<_> = (0..loops.len()).map(|mode| source.extent(mode)).collect();
        extents[0] = k.within(&extents[0] / vector, 1..MOST + 1);
        let place = digits(&number, &extents);
        let mut tile = vec![1; loops.len()];
        tile[0] = vector;
        let (from, to) = (
            source.local_tile(&tile, &place),
            destination.local_tile(&tile, &place),
        );
        let one = row_of_vectors(1, bytes, vector)?;
        let last = extents.len() - 1;
        let exists = k.less(&place[last], &extents[last]);
        k.if_else(
            exists,
            |k| through_registers(k, &one, &0.into(), [&from, &to], false),
            |_| (),
        );
        k.finish()
    }

    fn launches(
        &self,
        plan: &CopyPlan,
        device: &Device,
        addresses: [u64; 2],
    ) -> Result<Vec<PreparedLaunch>, crate::Error> {
        let loops = &plan.ordered();
        let kernel = prepare(device, &KernelKey::of(plan, loops, device.arch()), loops)?;
        let fastest = fastest(plan.vector());
        let layouts = [
            dynamic(loops, |step| step.source, fastest),
            dynamic(loops, |step| step.destination, fastest),
        ];
        let vectors = plan.nest().size() / plan.vector();
        let blocks = (vectors - 1) / THREADS + 1;
        let given = Tensors {
            at: addresses,
            layouts,
        };
        let grid = [blocks, 1, 1];
        Ok(vec![launch(&kernel, grid, THREADS, addresses, &given)?])
    }
}

/// Threads of a block.
pub(crate) const THREADS: i64 = 256;

/// The most vectors of one launch.
pub(crate) const MOST: i64 = (1 << 31) - 1;

/// The mode along which vectors lie, if they have more than one element.
pub(crate) fn fastest(vector: i64) -> Option<usize> {
    (vector > 1).then_some(0)
}
