//! The copy of one contiguous run of elements: one vector per thread.

use colex_atom::Arch;
use colex_device::Device;
use colex_layout::{Int, Layout};

use super::family::CopyFamily;
use super::launches::{KernelKey, Tensors, launch, prepare};
use super::loop_nest::Loop;
use super::pieces::{raw, row_of_vectors, through_registers};
use super::plan::{CopyMethod, CopyPlan};
use super::{bulk, tma};
use crate::calls::PreparedLaunch;
use crate::error::Error;
use colex_tensor::{Builder, TensorKernel};

/// One contiguous run on both sides, and one vector per thread.
pub(crate) struct Flat;

impl CopyFamily for Flat {
    fn refusal(&self, plan: &CopyPlan, _: [u64; 2], _: Arch) -> Option<String> {
        not_one_run(plan)
    }

    fn tile(&self, _: &CopyPlan) -> Option<[i64; 2]> {
        None
    }

    /// The kernel for elements of `bytes` bytes, `vector` of them per access: one tile per block, the last one by element.
    fn build(&self, key: &KernelKey, _: &[Loop]) -> Result<TensorKernel, colex_tensor::Error> {
        let KernelKey {
            arch,
            bytes,
            vector,
            ..
        } = *key;
        let mut k = Builder::new("copy_flat", arch, THREADS as u32);
        let (ty, tile) = (raw(bytes), THREADS * vector);
        let (source, destination) = (
            k.tensor("source", ty, run(MOST)),
            k.tensor("destination", ty, run(MOST)),
        );
        // The branch below asks one of them.
        k.same_extents(&source, &destination);
        let block = k.block_index(0);
        let block = k.within(block, 0..MOST / tile + 1);
        let from = source.local_tile(tile, &block);
        let to = destination.local_tile(tile, &block);
        let (vectors, elements) = (
            row_of_vectors(THREADS, bytes, vector)?,
            row_of_vectors(THREADS, bytes, 1)?,
        );
        let thread = k.thread();
        let whole = k.less(&(&block * tile + (tile - 1)), &source.extent(0));
        k.if_else(
            whole,
            |k| through_registers(k, &vectors, &thread, [&from, &to], false),
            |k| through_registers(k, &elements, &thread, [&from, &to], true),
        );
        k.finish()
    }

    fn launches(
        &self,
        plan: &CopyPlan,
        device: &Device,
        addresses: [u64; 2],
    ) -> Result<Vec<PreparedLaunch>, Error> {
        Run::of(plan, device, addresses)
    }
}

/// Returns the reason why a copy is not one contiguous run, if there is one.
pub(crate) fn not_one_run(plan: &CopyPlan) -> Option<String> {
    let contiguous = matches!(
        plan.nest().loops(),
        [Loop { extent, source: 1, destination: 1 }] if *extent == plan.nest().size()
    );
    (!contiguous).then(|| "the elements are not one run on both sides".into())
}

/// Threads of a block.
pub(crate) const THREADS: i64 = 256;

/// The most elements of one launch: kernels count with 32 bits.
pub(crate) const MOST: i64 = colex_tensor::MAX_EXTENT;

/// A part of a longer run that one launch copies: whole tiles of any vector.
pub(crate) const PIECE: i64 = 1 << 30;

/// The layout of the run, whose length is an argument of the launch.
pub(crate) fn run(elements: i64) -> Layout {
    let layout = Layout::leaf(Int::Dynamic(elements), Int::Static(1));
    layout.expect("a run has elements")
}

/// The blocks of a launch.
pub(crate) fn blocks(elements: i64, vector: i64) -> i64 {
    (elements - 1) / (THREADS * vector) + 1
}

/// The launches of one run made so far.
pub(crate) struct Run<'a> {
    device: &'a Device,
    bytes: i64,
    addresses: [u64; 2],
    /// The number of elements that these launches cover, from the first one.
    done: i64,
    launches: Vec<PreparedLaunch>,
}

impl Run<'_> {
    /// Returns the launches of one run: elements up to the first vector, bulk copies of whole chunks, and vectors for the
    /// rest.
    ///
    /// # Errors
    ///
    /// Returns the errors of `Family::launches`.
    pub(crate) fn of(
        plan: &CopyPlan,
        device: &Device,
        addresses: [u64; 2],
    ) -> Result<Vec<PreparedLaunch>, Error> {
        let (size, bytes) = (plan.nest().size(), plan.bytes());
        let vector = plan.vector() * bytes;
        let head = (vector - (addresses[0] % vector as u64) as i64) % vector / bytes;
        let mut run = Run {
            device,
            bytes,
            addresses,
            done: 0,
            launches: Vec::new(),
        };
        run.by_vectors(1, head.min(size))?;
        if plan.method() == CopyMethod::Bulk {
            let chunk = bulk::CHUNK / bytes;
            run.by_chunks((size - run.done) / chunk * chunk)?;
        }
        run.by_vectors(plan.vector(), size - run.done)?;
        Ok(run.launches)
    }

    /// Copies the next `elements` elements, `vector` of them per access.
    fn by_vectors(&mut self, vector: i64, elements: i64) -> Result<(), Error> {
        let key = self.key(CopyMethod::Flat, vector);
        self.pieces(&key, elements, THREADS, |piece| blocks(piece, vector))
    }

    /// Copies the next `elements` elements, which are whole chunks.
    fn by_chunks(&mut self, elements: i64) -> Result<(), Error> {
        let key = self.key(CopyMethod::Bulk, 1);
        let chunk = bulk::CHUNK / self.bytes;
        self.pieces(&key, elements, bulk::THREADS, |piece| piece / chunk)
    }

    fn key(&self, method: CopyMethod, vector: i64) -> KernelKey {
        KernelKey {
            arch: self.device.arch(),
            method,
            rank: 1,
            bytes: self.bytes,
            vector,
            squares: tma::SQUARES,
        }
    }

    /// Pieces, each as long as a kernel can count.
    fn pieces(
        &mut self,
        key: &KernelKey,
        elements: i64,
        threads: i64,
        blocks: impl Fn(i64) -> i64,
    ) -> Result<(), Error> {
        let end = self.done + elements;
        while self.done < end {
            let piece = (end - self.done).min(PIECE);
            let layout = run(piece);
            let at = self
                .addresses
                .map(|address| address + (self.done * self.bytes) as u64);
            let layouts = [layout.clone(), layout];
            let kernel = prepare(self.device, key, &[])?;
            let grid = [blocks(piece), 1, 1];
            let given = Tensors { at, layouts };
            let one = launch(&kernel, grid, threads, self.addresses, &given)?;
            self.launches.push(one);
            self.done += piece;
        }
        Ok(())
    }
}
