//! Kernels as text and as PTX: snapshots, and the printing of what is easily printed wrong.

use colex_atom::Arch;
use colex_ir::{
    Access, Address, BinaryOp, Compare, Control, CopyArgs, End, Guard, Kernel, KernelBuilder,
    Memory, Order, RegType, Scope, Space, Special, Type,
};
use colex_proof::corpus;

/// Text and PTX, one after the other.
fn both(kernel: &Kernel) -> String {
    format!("{kernel}\n{}", kernel.ptx().expect("it is right"))
}

#[test]
fn a_sum() {
    insta::assert_snapshot!("reduce", both(&corpus::reduce(Arch::Sm70)));
}

#[test]
fn a_ring_of_two_stages() {
    let kernel = corpus::pipelined(Arch::Sm80).expect("its atoms are in the table");
    insta::assert_snapshot!("pipelined", both(&kernel));
}

#[test]
fn two_warpgroups() {
    let kernel = corpus::warpgroups().expect("its atoms are in the table");
    insta::assert_snapshot!("warpgroups", both(&kernel));
}

#[test]
fn a_tile_by_the_copy_engine() {
    let kernel = corpus::through_shared().expect("its atoms are in the table");
    insta::assert_snapshot!("through_shared", both(&kernel));
}

#[test]
fn printing_is_a_function_of_the_kernel() {
    let kernel = corpus::reduce(Arch::Sm80);
    assert_eq!(kernel.ptx(), corpus::reduce(Arch::Sm80).ptx());
}

/// The lines of the body.
fn lines(build: impl FnOnce(&mut KernelBuilder)) -> Vec<String> {
    let mut k = KernelBuilder::new("k", Arch::Sm80);
    build(&mut k);
    let text = k.finish().ptx_unverified().expect("it has no atoms");
    let body = text.split_once("{\n").expect("an entry has a body").1;
    let lines = body.lines().map(str::trim);
    lines
        .filter(|line| !line.starts_with(".reg") && !["exit;", "}"].contains(line))
        .map(String::from)
        .collect()
}

#[test]
fn numbers_are_printed_bit_for_bit() {
    let printed = lines(|k| {
        k.mov(Type::F32, 0.1f32);
        k.mov(Type::F32, 0.1f64);
        k.mov(Type::F32, f64::NEG_INFINITY);
        k.mov(Type::F32, -0.0);
        k.mov(Type::F64, 0.1);
        k.mov(Type::F16, 0.1);
        k.mov(Type::Bf16x2, 1.0);
        k.mov(Type::S64, i64::MIN);
    });
    assert_eq!(
        printed,
        [
            "mov.f32 %f0, 0f3DCCCCCD;",
            "mov.f32 %f1, 0f3DCCCCCD;",
            "mov.f32 %f2, 0fFF800000;",
            "mov.f32 %f3, 0f80000000;",
            "mov.f64 %fd0, 0d3FB999999999999A;",
            "mov.b16 %h0, 11878;",
            "mov.b32 %r0, 1065369472;",
            "mov.b64 %rd0, -9223372036854775808;",
        ]
    );
}

#[test]
fn what_only_mov_takes_goes_through_a_scratch_register() {
    let printed = lines(|k| {
        let x = k.mov(Type::F16, 1.0);
        k.add(Type::F16, x, 2.0);
        k.add(Type::U32, Special::Tid(0), Special::Ctaid(1));
    });
    assert_eq!(
        printed[1..],
        [
            "mov.b16 %xh0, 0x4000;",
            "add.rn.f16 %h1, %h0, %xh0;",
            "mov.u32 %xr0, %tid.x;",
            "mov.u32 %xr1, %ctaid.y;",
            "add.u32 %r0, %xr0, %xr1;",
        ]
    );
}

#[test]
fn guards_predicate_one_line_and_branch_around_several() {
    let printed = lines(|k| {
        let p = k.setp(Compare::Eq, Type::U32, 1, 2);
        k.when(p, |k| k.add(Type::U32, 1, 2));
        k.when(Guard::from(p).negated(), |k| {
            k.add(Type::U32, Special::LaneId, 2)
        });
    });
    assert_eq!(
        printed[1..],
        [
            "@%p0 add.u32 %r0, 1, 2;",
            "@%p0 bra $skip0;",
            "mov.u32 %xr0, %laneid;",
            "add.u32 %r1, %xr0, 2;",
            "$skip0:",
        ]
    );
}

#[test]
fn loops_and_branches_become_labels() {
    let printed = lines(|k| {
        let p = k.setp(Compare::Eq, Type::U32, 1, 2);
        k.loop_(|k| {
            k.if_else(
                p,
                |k| k.push(Control::Break),
                |k| k.when(p, |k| k.push(Control::Continue)),
            );
        });
        k.loop_(|k| {
            k.comment("at the end");
            k.break_if(p);
        });
    });
    let expected = [
        "$loop0:",
        "@!%p0 bra $else1;",
        "bra $done0;",
        "$else1:",
        "@%p0 bra $loop0;",
        "$end1:",
        "bra $loop0;",
        "$done0:",
        "$loop2:",
        "// at the end",
        "@!%p0 bra $loop2;",
        "$done2:",
    ];
    assert_eq!(printed[1..], expected);
}

#[test]
fn hints_stand_where_the_assembler_wants_them() {
    use colex_ir::Cache;
    let printed = lines(|k| {
        let data = k.pointer("data");
        let address = k.param(data);
        let policy = k.mov(Type::U64, 1);
        let access = Access::new(Space::Global, Type::F16x2).cache(Cache::NcNoAllocate256);
        k.load_vector(access.policy(policy), 4, address);
        k.pred(BinaryOp::And, k_pred(), Guard::from(k_pred()).negated());
    });
    assert_eq!(
        printed[2..],
        [
            "ld.global.nc.L1::no_allocate.L2::cache_hint.L2::256B.v4.b32 {%r0, %r1, %r2, %r3}, [%rd0], %rd1;",
            "and.pred %p0, %p9, !%p9;",
        ]
    );
}

/// Relaxed words of 64 bits, alone and two at once, as PTX ISA 9.7.9 spells them: the order and its scope stand before the space.
#[test]
fn relaxed_words_of_64_bits_have_their_scope() {
    let printed = lines(|k| {
        let data = k.pointer("data");
        let address = k.param(data);
        let word = Access::new(Space::Global, Type::B64).order(Order::Relaxed(Scope::Gpu));
        let one = k.load(word, address);
        let two = k.load_vector(word, 2, Address::from(address).at(16));
        k.store(word, address, one);
        k.store_vector(word, Address::from(address).at(32), &two);
    });
    assert_eq!(
        printed[1..],
        [
            "ld.relaxed.gpu.global.b64 %rd1, [%rd0];",
            "ld.relaxed.gpu.global.v2.b64 {%rd2, %rd3}, [%rd0+16];",
            "st.relaxed.gpu.global.b64 [%rd0], %rd1;",
            "st.relaxed.gpu.global.v2.b64 [%rd0+32], {%rd2, %rd3};",
        ]
    );
}

/// A predicate of no kernel: it is only printed.
fn k_pred() -> colex_ir::Reg {
    colex_ir::Reg {
        index: 9,
        ty: colex_ir::RegType::Pred,
    }
}

/// ptxas makes an illegal instruction of `cp.async` with a cache policy at an address that it sees to be a constant, or a
/// constant plus a register.
#[test]
fn a_cache_policy_goes_with_an_address_that_ptxas_does_not_take_apart() {
    let printed = |hinted: bool| {
        let mut k = KernelBuilder::new("k", Arch::Sm80);
        let (from, tile) = (k.pointer("from"), k.shared("tile", 128, 16));
        let from = k.param(from);
        let policy = k.reg(RegType::B64);
        k.push(Memory::CreatePolicy {
            d: policy,
            primary: "evict_first",
            fraction: 1.0,
        });
        let args = CopyArgs {
            dst: End::Memory(Address::from(tile).at(32)),
            src: End::Memory(from.into()),
            policy: hinted.then_some(policy),
            ..CopyArgs::default()
        };
        let atom = colex_atom::copy("SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>").unwrap();
        k.copy_atom(&atom, args);
        k.cp_async_commit();
        k.cp_async_wait(0);
        let text = k.finish().ptx().unwrap();
        let from = text.find("createpolicy").unwrap();
        let lines = text[from..]
            .lines()
            .skip(1)
            .map(|line| line.trim().to_string());
        lines
            .take_while(|line| !line.contains("commit"))
            .collect::<Vec<String>>()
    };
    assert_eq!(
        printed(false),
        ["cp.async.cg.shared.global.L2::128B [k_tile+32], [%rd0], 16;"]
    );
    assert_eq!(
        printed(true),
        [
            "mov.u32 %xr0, k_tile;",
            "add.u32 %xr0, %xr0, 32;",
            "mov.u32 %xr1, %lanemask_eq;",
            "clz.b32 %xr1, %xr1;",
            "shr.u32 %xr1, %xr1, 5;",
            "or.b32 %xr0, %xr0, %xr1;",
            "cp.async.cg.shared.global.L2::cache_hint.L2::128B [%xr0], [%rd0], 16, %rd1;",
        ]
    );
}

/// A comment has the lines of its text; no other character of it ends a line or the text.
#[test]
fn control_characters_of_a_comment_are_escaped() {
    let mut k = KernelBuilder::new("k", Arch::Sm80);
    k.comment("first\rtrap;\0\nsecond");
    let kernel = k.finish();
    for text in [kernel.to_string(), kernel.ptx().unwrap()] {
        assert!(
            text.contains("// first\\rtrap;\\u{0}\n    // second\n"),
            "{text:?}"
        );
    }
}
