//! Names, parameters, shared memory, blocks, clusters, registers.

use colex_atom::Arch;
use colex_ir::{KernelBuilder, ParamType, Type};

use super::{refused, sentences};

#[test]
fn names() {
    let kernel = KernelBuilder::new("2fast", Arch::Sm80).finish();
    assert_eq!(
        sentences(&kernel),
        ["`2fast` is no name for a kernel: take letters, digits and `_`, and no digit first"]
    );
    refused(
        Arch::Sm80,
        "`a-b` is no name for a parameter: take letters, digits and `_`, and no digit first",
        |k| {
            k.pointer("a-b");
        },
    );
    refused(
        Arch::Sm80,
        "`x` is the name of two parameters or shared variables: each needs its own",
        |k| {
            k.pointer("x");
            k.shared("x", 16, 16);
        },
    );
}

#[test]
fn parameters() {
    refused(
        Arch::Sm80,
        "parameter `p` cannot be a pred: pass a number of 8 to 64 bits",
        |k| {
            k.scalar("p", Type::Pred);
        },
    );
    refused(
        Arch::Sm80,
        "`x` is aligned to 12 bytes: an alignment is a power of two",
        |k| {
            k.parameter("x", ParamType::Pointer { align: 12 });
        },
    );
    refused(
        Arch::Sm90,
        "the parameters take 32768 bytes: a kernel has room for 32764",
        |k| {
            (0..256).for_each(|i| {
                k.tensor_map(&format!("map{i}"));
            });
        },
    );
}

#[test]
fn shared_memory() {
    refused(
        Arch::Sm80,
        "shared variables take 49280 bytes: a kernel may declare 49152, and sm_80 gives up to 166912 as dynamic shared memory",
        |k| {
            k.shared("a", 1, 1);
            k.shared("b", 49152, 128);
        },
    );
    refused(
        Arch::Sm80,
        "shared variable `a` has no bytes: it needs at least 1",
        |k| {
            k.shared("a", 0, 4);
        },
    );
    refused(
        Arch::Sm80,
        "`a` is aligned to 0 bytes: an alignment is a power of two",
        |k| {
            k.shared("a", 4, 0);
        },
    );
}

#[test]
fn extents() {
    let with = |set: &dyn Fn(&mut KernelBuilder)| {
        let mut k = KernelBuilder::new("k", Arch::Sm80);
        set(&mut k);
        sentences(&k.finish())
    };
    assert_eq!(
        with(&|k| {
            k.block([32, 32, 2]);
        }),
        ["a block of 32 x 32 x 2 threads: it may have 1 to 1024, and at most 64 along z"]
    );
    assert_eq!(
        with(&|k| {
            k.cluster([16, 1, 1]);
        }),
        [
            "a cluster of 16 x 1 x 1 blocks: it may have 1 to 8",
            "`cluster` came with sm_90, and the kernel is for sm_80"
        ]
    );
    assert_eq!(
        with(&|k| {
            k.max_registers(8);
        }),
        ["max_registers is 8: a thread has 16 to 255"]
    );
    assert_eq!(
        with(&|k| {
            k.min_blocks(2);
        }),
        ["min_blocks is 2: it says nothing without the block's extents"]
    );
    assert_eq!(
        with(&|k| {
            k.block([512, 1, 1]).min_blocks(5);
        }),
        ["min_blocks is 5: a multiprocessor holds 1 to 32 blocks and 2048 threads"]
    );
    assert_eq!(
        with(&|k| {
            k.block([512, 1, 1]).min_blocks(1).max_registers(128);
        }),
        ["min_blocks is 1: max_registers is given too, and the assembler heeds one of them"]
    );
}

#[test]
fn targets() {
    let kernel = KernelBuilder::new("k", Arch::Sm61).finish();
    assert_eq!(
        sentences(&kernel),
        ["`a kernel` came with sm_70, and the kernel is for sm_61"]
    );
    refused(
        Arch::Sm90,
        "`wgmma.fence` needs sm_90a, and the kernel is for sm_90",
        |k| k.wgmma_fence(),
    );
    refused(
        Arch::Sm75,
        "`cp.async.commit_group` came with sm_80, and the kernel is for sm_75",
        |k| k.cp_async_commit(),
    );
}
