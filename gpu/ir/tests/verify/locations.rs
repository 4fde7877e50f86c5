//! Findings point to the caller of the builder.

use colex_atom::Arch;
use colex_ir::{Kernel, KernelBuilder, RegType, Stmt, Type};

/// Every location of a kernel, in program order.
fn all(kernel: &Kernel) -> Vec<&Stmt> {
    let mut all = Vec::new();
    kernel.walk(&mut |stmt| all.push(stmt));
    all
}

#[test]
fn every_call_of_the_builder_leaves_its_own_place() {
    let mut k = KernelBuilder::new("k", Arch::Sm90a);
    let n = k.scalar("n", Type::U32);
    let n = k.param(n);
    let map = k.tensor_map("map");
    k.param(map);
    let bar = k.shared("bar", 8, 8);
    k.mbarrier_init(bar, 1);
    k.mbarrier_arrive_expect(bar, 128);
    k.mbarrier_wait(bar, 0);
    k.cluster_sync();
    let p = k.setp(colex_ir::Compare::Eq, Type::U32, n, 0);
    k.when(p, |k| k.add(Type::U32, n, 1));
    k.if_else(p, |k| k.sync(), |k| k.comment("other"));
    k.for_range(0, n, 1, |k, i| {
        k.mad(Type::U32, i, i, i);
    });
    let parts = k.regs(RegType::B16, 2);
    k.unpack(RegType::B16, n);
    k.pack(RegType::B32, &parts);
    let kernel = k.finish();
    for stmt in all(&kernel) {
        assert!(
            stmt.at.file().ends_with("tests/verify/locations.rs"),
            "{}: {}",
            stmt.at,
            stmt.op.mnemonic()
        );
    }
    for at in [kernel.at, kernel.params[0].at, kernel.shared[0].at] {
        assert!(at.file().ends_with("tests/verify/locations.rs"), "{at}");
    }
}

#[test]
fn the_message_names_file_line_and_column() {
    let mut k = KernelBuilder::new("k", Arch::Sm80);
    let x = k.reg(RegType::B32);
    let line = line!() + 1;
    k.add(Type::U32, x, 1);
    let text = k.finish().verify().unwrap_err().to_string();
    let expected = format!(
        "kernel `k` is refused:\ngpu/ir/tests/verify/locations.rs:{line}:7: `add.u32` reads %r0, which is not written on every path to it: write it first"
    );
    assert_eq!(text, expected);
}
