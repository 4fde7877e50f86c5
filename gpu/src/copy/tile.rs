//! The copy between two layouts that run fastest along different modes, by square tiles: through registers alone, or
//! through shared memory, padded or swizzled.

use colex_atom::Arch;
use colex_device::Device;
use colex_layout::{C, ComposedLayout, Int, Layout, Swizzle};
use colex_tiled::TiledCopy;

use super::family::CopyFamily;
use super::launches::{KernelKey, Tensors, launch, prepare};
use super::loop_nest::Loop;
use super::pieces::{crossed, digits, dynamic, not_crossed, raw, through_registers, universal};
use super::plan::{CopyMethod, CopyPlan};
use crate::calls::PreparedLaunch;
use colex_tensor::{Builder, Error, Index, Tensor, TensorKernel};

/// Two layouts with different contiguous modes, one tile per block.
pub(crate) struct Tile;

impl CopyFamily for Tile {
    fn refusal(&self, plan: &CopyPlan, _: [u64; 2], _: Arch) -> Option<String> {
        not_crossed(plan).or_else(|| plan.grid_refusal())
    }

    fn tile(&self, _: &CopyPlan) -> Option<[i64; 2]> {
        Some([TILE; 2])
    }

    /// The kernel for loops of which the first runs fastest in the source and the second in the destination.
    fn build(&self, key: &KernelKey, loops: &[Loop]) -> Result<TensorKernel, Error> {
        let KernelKey {
            arch,
            bytes,
            method,
            ..
        } = *key;
        let threads = THREADS[0] * THREADS[1];
        let mut k = Builder::new(&format!("transpose_{method}"), arch, threads as u32);
        let ty = raw(bytes);
        let source = k.tensor("source", ty, dynamic(loops, |step| step.source, Some(0)));
        let destination = k.tensor(
            "destination",
            ty,
            dynamic(loops, |step| step.destination, Some(1)),
        );
        let place = place(&mut k, &source, loops.len());
        let tile = [TILE, TILE];
        let (from, to) = (
            source.local_tile(tile, &place),
            destination.local_tile(tile, &place),
        );
        let (along_source, along_destination) = (over_tile(bytes, false)?, over_tile(bytes, true)?);
        let thread = k.thread();
        match shared_layout(method, bytes) {
            None => through_registers(&mut k, &along_source, &thread, [&from, &to], true),
            Some(layout) => {
                let shared = k.shared_tensor(ty, layout);
                through_registers(&mut k, &along_source, &thread, [&from, &shared], true);
                k.sync();
                through_registers(&mut k, &along_destination, &thread, [&shared, &to], true);
            }
        }
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
        let threads = THREADS[0] * THREADS[1];
        let given = Tensors {
            at: addresses,
            layouts: crossed(loops),
        };
        let one = launch(&kernel, plan.grid(), threads, addresses, &given)?;
        Ok(vec![one])
    }
}

/// The extent of a tile along both modes.
pub(crate) const TILE: i64 = 32;

/// The threads along the contiguous mode, and along the other.
pub(crate) const THREADS: [i64; 2] = [32, 8];

/// The shared memory layout of a tile of elements of `bytes` bytes: `None` for the kernel that has none.
///
/// A warp writes along the first mode and reads along the second, so that elements 32 apart must lie in different
/// banks: rows are longer by one bank, or the bank's number is mixed with the row's.
pub(crate) fn shared_layout(method: CopyMethod, bytes: i64) -> Option<ComposedLayout> {
    let per_bank = (4 / bytes).max(1);
    let rows = |stride: i64| {
        let layout = Layout::new((C::<TILE>, C::<TILE>), (C::<1>, Int::Static(stride)));
        layout.expect("two extents and two strides")
    };
    match method {
        CopyMethod::Padded => Some(rows(TILE + per_bank).into()),
        CopyMethod::Swizzled => {
            let (tile, base) = (TILE.ilog2(), per_bank.ilog2());
            let bits = tile - base - u32::from(bytes > 4);
            let swizzle = Swizzle::new(bits.into(), base.into(), tile.into());
            let swizzle = swizzle.expect("fewer bits than the shift");
            ComposedLayout::new(swizzle, 0, rows(TILE)).ok()
        }
        _ => None,
    }
}

/// Threads over a tile, 32 along one mode: mode 0, or mode 1 where `crossed`.
fn over_tile(bytes: i64, crossed: bool) -> Result<TiledCopy, Error> {
    let [long, short] = THREADS;
    let threads = if crossed {
        Layout::new((short, long), (long, 1))?
    } else {
        Layout::new((long, short), (1, long))?
    };
    Ok(TiledCopy::new(
        universal(8 * bytes),
        8 * bytes,
        threads,
        ((1, 1), (1, 1)),
    )?)
}

/// The block's tile: along the destination's fastest mode by x, along the source's by y, the loops around both by z.
fn place(k: &mut Builder, source: &Tensor, rank: usize) -> Vec<Index> {
    let around: Vec<Index> = (2..rank).map(|mode| source.extent(mode)).collect();
    let most = (1 << 31) / TILE;
    let (row, column) = (k.block_index(1), k.block_index(0));
    let mut place = vec![row, k.within(column, 0..most)];
    place.extend(digits(&k.block_index(2), &around));
    place
}
