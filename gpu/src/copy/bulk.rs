//! The copy of one contiguous run of elements through shared memory by bulk copies (`cp.async.bulk`), which one thread
//! issues.

use colex_atom::Arch;
use colex_device::Device;
use colex_layout::{ComposedLayout, Int, Layout};

use super::family::CopyFamily;
use super::flat::{MOST, Run, not_one_run, run};
use super::launches::KernelKey;
use super::loop_nest::Loop;
use super::pieces::{MAP, raw};
use super::plan::CopyPlan;
use crate::calls::PreparedLaunch;
use colex_ir::FenceKind;
use colex_tensor::{Builder, Error, TensorKernel};

/// One contiguous run on both sides. Each block copies one chunk by bulk copies.
pub(crate) struct Bulk;

impl CopyFamily for Bulk {
    fn refusal(&self, plan: &CopyPlan, _: [u64; 2], arch: Arch) -> Option<String> {
        if let Some(why) = not_one_run(plan) {
            return Some(why);
        }
        if !Arch::Sm90.runs_on(arch) {
            return Some(format!("{arch} has no bulk copies"));
        }
        (plan.vector() * plan.bytes() < MAP).then(|| {
            format!(
                "bulk copies go from and to multiples of {MAP} bytes, and the addresses do not meet there"
            )
        })
    }

    fn tile(&self, _: &CopyPlan) -> Option<[i64; 2]> {
        None
    }

    /// The kernel for elements of `bytes` bytes: one chunk per block, whole chunks only.
    fn build(&self, key: &KernelKey, _: &[Loop]) -> Result<TensorKernel, Error> {
        let KernelKey { arch, bytes, .. } = *key;
        let mut k = Builder::new("copy_bulk", arch, THREADS as u32);
        let (ty, chunk) = (raw(bytes), CHUNK / bytes);
        let source = k.tensor("source", ty, run(MOST));
        let destination = k.tensor("destination", ty, run(MOST));
        let block = k.block_index(0);
        let block = k.within(block, 0..MOST / chunk);
        let (from, to) = (
            source.local_tile(chunk, &block),
            destination.local_tile(chunk, &block),
        );
        let here = Layout::leaf(Int::Static(chunk), Int::Static(1))?;
        let here = k.shared_tensor(ty, ComposedLayout::from(here));
        let landed = k.barriers(1);
        let thread = k.thread();
        let first = k.equal(&thread, &0.into());
        k.if_(first, |k| {
            k.init_barriers(&landed, 1);
            k.fence(FenceKind::MbarrierInit);
            k.fence(FenceKind::ProxyAsyncShared);
            k.arrive_expect(&landed.at(0), CHUNK);
            k.bulk_load(&from, &here, &landed.at(0));
            k.wait(&landed.at(0), &0.into());
            k.bulk_store(&here, &to);
            k.bulk_commit();
            k.bulk_wait(0, true);
        });
        k.finish()
    }

    fn launches(
        &self,
        plan: &CopyPlan,
        device: &Device,
        addresses: [u64; 2],
    ) -> Result<Vec<PreparedLaunch>, crate::Error> {
        Run::of(plan, device, addresses)
    }
}

/// The bytes that a block copies.
pub(crate) const CHUNK: i64 = 16 << 10;

/// The threads of a block: one warp, of which one thread issues the copies.
pub(crate) const THREADS: i64 = 32;
