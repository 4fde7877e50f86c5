//! Kernels written with tensors, executed on the simulator.

use colex_tensor::Builder;

/// Returns what `finish` says of a kernel that `scene` begins and `call` goes on with. The failure names this crate's tests.
#[track_caller]
pub(crate) fn refused<S>(
    mut k: Builder,
    scene: impl Fn(&mut Builder) -> S,
    call: impl FnOnce(&mut Builder, S),
) -> String {
    let begun = scene(&mut k);
    call(&mut k, begun);
    let error = k.finish().expect_err("it is refused");
    let file = error.at().file();
    assert!(
        file.contains("tests/tensor/"),
        "the author's file is named, not {file}"
    );
    error.what()
}

mod attention;
mod copies;
mod export;
mod fragments;
mod gemm_sm80;
mod gemm_sm90;
mod granted;
mod grids;
mod held;
mod index_laws;
mod integers;
mod mistakes;
mod operands;
mod parts;
mod pipelines;
mod seeing;
