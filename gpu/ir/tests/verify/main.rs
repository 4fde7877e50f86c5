//! One planted mistake for each sentence of the verifier, verbatim.

mod atoms;
mod collective;
mod declarations;
mod flow;
mod locations;
mod memory;
mod modifiers;
mod operands;
mod random;
mod resources;
mod wgmma;

use colex_atom::Arch;
use colex_ir::{Compare, Kernel, KernelBuilder, Reg, Special, Type};

/// A kernel of one block of 256 threads.
fn kernel(target: Arch, body: impl FnOnce(&mut KernelBuilder)) -> Kernel {
    let mut k = KernelBuilder::new("k", target);
    k.block([256, 1, 1]).min_blocks(1);
    body(&mut k);
    k.finish()
}

/// The sentences that a kernel gets.
fn sentences(kernel: &Kernel) -> Vec<String> {
    let found = kernel.verify().err();
    let found = found.iter().flat_map(|refused| refused.diagnostics());
    found.map(|d| d.problem.to_string()).collect()
}

/// The kernel has one mistake, and this is what is said about it.
#[track_caller]
fn refused(target: Arch, sentence: &str, body: impl FnOnce(&mut KernelBuilder)) {
    assert_eq!(sentences(&kernel(target, body)), [sentence]);
}

/// Nothing is wrong.
#[track_caller]
fn accepted(target: Arch, body: impl FnOnce(&mut KernelBuilder)) {
    let kernel = kernel(target, body);
    assert_eq!(sentences(&kernel), [""; 0], "{kernel}");
}

/// The thread's index.
fn thread(k: &mut KernelBuilder) -> Reg {
    k.mov(Type::U32, Special::Tid(0))
}

/// A predicate that differs from thread to thread.
fn odd(k: &mut KernelBuilder) -> Reg {
    let tid = thread(k);
    let bit = k.and(Type::B32, tid, 1);
    k.setp(Compare::Ne, Type::U32, bit, 0)
}
