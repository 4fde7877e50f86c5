//! Mistakes in kernels made from tensors: sentences name the tensor and the element.

use colex_atom::{Arch, Ty, copy};
use colex_ir::launch::Launch;
use colex_layout::ComposedLayout;
use colex_sim::{Fault, FaultKind, SimOptions};
use colex_tensor::{Arg, AtThread, Builder, Error, RawMemory, TensorKernel};
use colex_tiled::TiledCopy;

use super::faults::says;
use super::helpers::*;

fn run(built: &TensorKernel, threads: u32, seed: u64) -> Fault {
    let mut host = Host::default();
    let layout = "(32,32):(32,_1)".parse().expect("a layout");
    let (from, to) = (host.words(&[1; 1024]), host.empty(4096));
    let given = [from, to].map(|address| {
        let memory = RawMemory {
            address,
            bytes: 4096,
            ty: Ty::F32,
        };
        Arg::raw(memory, &layout)
    });
    let given = if built.kernel.params.is_empty() {
        &[][..]
    } else {
        &given[..]
    };
    host.arguments = built.arguments(given).expect("tensors that fit");
    let launch = Launch::new(1, threads).dynamic_shared(built.dynamic_shared());
    let options = SimOptions::default().seed(seed);
    let result = host.run_with(&built.kernel, launch, &options);
    result.expect_err("a mistake was planted")
}

/// A tile goes through shared memory; nothing orders its two halves.
fn through(padding: bool) -> Result<TensorKernel, Error> {
    let mut k = Builder::new("through", Arch::Sm80, 256);
    let layout = "(1,1):(1,_1)";
    let (from, to) = (
        k.tensor("from", Ty::F32, layout),
        k.tensor("to", Ty::F32, layout),
    );
    let place = [k.block_index(0), k.block_index(1)];
    let from = from.local_tile((32, 32), &place);
    let to = to.local_tile((32, 32), &place);
    if padding {
        k.barriers(3);
    }
    let tile = "(32,32):(33,1)"
        .parse::<ComposedLayout>()
        .expect("a layout");
    let tile = k.shared_tensor(Ty::F32, tile);
    let word = copy("UniversalCopy<uint32_t>").expect("a row");
    let of =
        |threads: &str| TiledCopy::new(word.clone(), 32, threads, "(1,1):(1,1)").expect("a copy");
    let (by_row, by_column) = (of("(8,32):(32,1)"), of("(32,8):(1,32)"));
    let thread = k.thread();
    for (copy, src, dst) in [(by_row, &from, &tile), (by_column, &tile, &to)] {
        let (src, dst) = (
            copy.at(&thread).partition_src(src),
            copy.at(&thread).partition_dst(dst),
        );
        let regs = k.fragment_like(&src);
        k.copy(&copy, &src, &regs);
        k.copy(&copy, &regs, &dst);
    }
    k.finish()
}

#[test]
fn a_shared_tensor_has_a_name() {
    for (padding, seed) in [(false, 0), (true, 0), (true, 1), (false, 5)] {
        let built = through(padding).unwrap();
        let fault = run(&built, 256, seed);
        assert_eq!(fault.kind(), FaultKind::Race);
        assert!(
            fault.what().contains(
                " of the shared f32 tensor (32,32):(33,1) (gpu/sim/tests/sim/tensors.rs:"
            ),
            "{fault}"
        );
    }
    says(
        &run(&through(true).unwrap(), 256, 0),
        FaultKind::Race,
        "thread (1,0,0) of block (0,0,0), at `%f4 = ld.shared.f32 [%r18+128]` (here): element 33 of the shared f32 tensor (32,32):(33,1) (here) is written by `st.shared.f32 [%r14+128], %f0` of warp 1 (here), which nothing orders before this read: a barrier between them is missing",
    );
}

#[test]
fn a_barrier_of_an_array_has_a_name() {
    let mut k = Builder::new("ring", Arch::Sm90a, 32);
    k.barriers(2);
    let bars = k.barriers(3);
    k.wait(&bars.at(1), &0.into());
    let built = k.finish().unwrap();
    says(
        &run(&built, 32, 0),
        FaultKind::Barrier,
        "thread (0,0,0) of block (0,0,0), at `mbarrier.wait [dynamic+24], 0` (here): barrier 1 of the shared array of 3 barriers (here) is no barrier: `mbarrier.init` is missing",
    );
}
