//! The copy of one run of elements: a vector a thread.

use colex_atom::Arch;
use colex_layout::{Int, Layout};

use super::pieces::{raw, row_of_vectors, through_registers};
use colex_tensor::{Builder, Built, Error};

/// Threads of a block.
pub(crate) const THREADS: i64 = 256;

/// Elements that one launch copies at most: what a kernel counts with.
pub(crate) const MOST: i64 = (1 << 31) - 1;

/// A part of a longer run that one launch copies: whole tiles of any vector.
pub(crate) const PIECE: i64 = 1 << 30;

/// The layout of the run, its length to be said at launch.
pub(crate) fn run(elements: i64) -> Layout {
    let layout = Layout::leaf(Int::Dynamic(elements), Int::Static(1));
    layout.expect("a run has elements")
}

/// The kernel for elements of `bytes` bytes, `vector` of them an access: one tile a block, the last one by element.
pub(crate) fn build(arch: Arch, bytes: i64, vector: i64) -> Result<Built, Error> {
    let mut k = Builder::new("copy_flat", arch, THREADS as u32);
    let (ty, tile) = (raw(bytes), THREADS * vector);
    let (source, destination) = (
        k.tensor("source", ty, &run(MOST))?,
        k.tensor("destination", ty, &run(MOST))?,
    );
    let block = k.block_index(0).within(0..MOST / tile + 1);
    let from = source.local_tile(&[tile], std::slice::from_ref(&block))?;
    let to = destination.local_tile(&[tile], std::slice::from_ref(&block))?;
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
    )?;
    k.finish()
}

/// The blocks of a launch.
pub(crate) fn blocks(elements: i64, vector: i64) -> i64 {
    (elements - 1) / (THREADS * vector) + 1
}
